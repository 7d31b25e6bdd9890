a - > b;
b : Queue(10);
# 5 is not a comment
c = Queue(10);
$x -> Discard;
a.count -> Discard
Idle > Discard
elementclass Foo($a, $b) { Print($a $b) }
Foo(1, 2);
define $x 5;
"eth0" -> Discard;
require library;
