a, b :: Tee;
c, d :: Queue;
a, b -> c, d;
a[0, 1, 2] => c, d;
a[], b[] => c, d, c;
