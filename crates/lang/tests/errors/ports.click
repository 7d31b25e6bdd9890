t :: Tee;
t [x] -> Discard;
t [1 -> Discard;
t [70000] -> Discard;
t [3-1] -> Discard;
t [0 1] -> Discard;
t [99999999999999999999] -> Discard;
