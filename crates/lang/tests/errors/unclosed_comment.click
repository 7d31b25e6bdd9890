Idle -> Discard; /* the rest
