17 :: Queue;
a/0/b :: Queue;
