Idle -> ( -> Null -> ;
