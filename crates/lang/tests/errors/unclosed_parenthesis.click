q :: Queue(10;
q -> Discard;
