queue :: Queue;
Idle -> quuee -> Discard;
somewhere -> queue;
somewhere -> Discard;
input -> queue;
