require(package ip6, package nowhere);
Idle -> Discard;
