elementclass Foo { Null }
Foo :: Queue;
{ Null } :: Bar;
( Idle -> Discard ) :: Baz;
