a :: A ( one ) ( two );
a -> , b :: B;
a = b;
} a -> a
provide(x);
Idle | Discard;
