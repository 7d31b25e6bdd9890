elementclass X { Idle -> input; output -> Discard; input [2] -> Discard; input -> Discard; Idle -> [4] output }
