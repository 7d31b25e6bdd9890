a -> Q -> Discard;
a :: Idle;
Q :: Queue;
x :: { in -> Null; in :: Idle };
