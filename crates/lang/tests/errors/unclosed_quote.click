p :: Print(don't);
p -> Discard;
