Idle -> (-> Null; Idle -> [1]) -> Discard;
