q :: Queue;
elementclass X { input -> q; Idle -> output }
Idle -> X -> q;
