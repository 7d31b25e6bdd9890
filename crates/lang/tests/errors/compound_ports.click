elementclass X { input -> Null -> output; input [1] -> Discard }
Idle -> x :: X -> Discard;
Idle -> y :: X [1] -> Discard;
(-> z :: Null ->) -> Discard;
