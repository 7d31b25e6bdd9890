elementclass X { $a | input -> Null -> output || $a, KEY $k | input -> Discard }
Idle -> x :: X -> Discard;
Idle -> y :: X(1, 2) -> Discard;
z :: X(1);
elementclass Y { $a, __REST__ $r | A($a, $r) }
y1 :: Y;
