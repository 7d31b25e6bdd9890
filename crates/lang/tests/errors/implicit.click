elementclass X {
  input -> Null -> output;
  [1] -> Null -> [1] -> Discard;
  q :: Queue;
  -> q;
  Idle -> [0], q -> Discard;
}
X;
