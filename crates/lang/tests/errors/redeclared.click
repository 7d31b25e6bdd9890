a :: A;
b, a :: B;
x :: { y :: Y; input :: Z }
x/y :: W;
