// The standard IPv6 router on two interfaces.
//
//   junctor run conf/ip6-router.click            on interfaces eth0 (2001:db8:1::1/64) and eth1 (2001:db8:2::1/64)
//   junctor run conf/ip6-router.click DEV0=lan0 ADDR0=2001:db8:a::1/64 DEV1=lan1 ADDR1=2001:db8:b::1/64 \
//       GATEWAY=fe80::9 REMOTE=2000::/3
//   junctor bench engine conf/ip6-router.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=2001:db8:1::/64 dst=2001:db8:2::/64 flows=1024 length=62
// bench: eth1 ether=00:00:c0:4f:71:ef src=2001:db8:2::/64 dst=2001:db8:1::/64 flows=1024 length=62
//
// The ready router `IP6Router(eth0 2001:db8:1::1/64 fe80::1/64, ...)` is the same; `junctor init router` writes it for other
// interfaces.

define($DEV0 eth0, $ADDR0 2001:db8:1::1/64,
       $DEV1 eth1, $ADDR1 2001:db8:2::1/64,
       // The router's link-local address on both.
       $LOCAL fe80::1,
       // The router on the first network that knows the way to REMOTE (2000::/3 is the whole Internet).
       $GATEWAY fe80::fffe, $REMOTE 2001:db8::/32,
       // Bytes of the longest IP packet of each, and how to open them.
       $MTU0 1500, $MTU1 1500, $METHOD auto);

// The interfaces' own Ethernet addresses; the others are for devices in memory.
AddressInfo(if0 $ADDR0 00:00:c0:ae:67:ef $DEV0:eth,
            if1 $ADDR1 00:00:c0:4f:71:ef $DEV1:eth,
            local $LOCAL);

// The IPv6 routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself, 3 what is never forwarded, 4 what
// there is no route for, 5 addresses that all routers on a network share.
rt6 :: LookupIP6Route(
    if0 0,
    if0:ip6net/128 5,
    local 0,
    if0:solicited 0,
    local:solicited 0,
    ff02::1:ff00:0/128 0,
    if1 0,
    if1:ip6net/128 5,
    if1:solicited 0,
    ff02::1/128 0,
    ff02::2/128 0,
    fe80::/10 3,
    ff00::/8 3,
    if0:ip6net 1,
    if1:ip6net 2,
    $REMOTE $GATEWAY 1,
    ::/0 4);

// All received IPv6 packets, their link header removed. Those from impossible addresses or our own are dropped.
ip6 :: Strip(14) -> CheckIP6Header("::1", OWN if0:ip6 if1:ip6) -> hop6 :: IP6HopByHop -> [0]rt6;
rt6[3] -> Discard;

// Answers to a packet come from our address on the interface by which it came, which its paint says. What we sent
// ourselves has no paint and gets no answer. Those about packets for us come from the address that these were sent to.
elementclass Answer6 { $type, $code, $local |
    input -> came :: PaintSwitch;
    came[0] -> Discard;
    came[1] -> ICMP6Error(if0:ip6, $type, $code, LOCAL $local, RATE 1000, DST_RATE 10) -> output;
    came[2] -> ICMP6Error(if1:ip6, $type, $code, LOCAL $local, RATE 1000, DST_RATE 10) -> output;
}

// Packets that we make are no longer than any link carries, for nobody here listens to what paths carry (RFC 8201, 1).
// They go to the routing table, unpainted; those from or for a link-local address go back to the link that caused them.
made6 :: IP6Fragmenter(1280, LOCAL true) -> mine6 :: Classifier(8/fe80%ffc0, 24/fe80%ffc0, -);
mine6[0], mine6[1] -> back6 :: PaintSwitch;
mine6[2] -> Paint(0) -> [0]rt6;
back6[0] -> Discard;

// Packets for this router: fragments are put together, extension headers processed, pings answered. Of UDP and TCP the
// sender is told that nobody takes them. Answers about a shared address come from one of our own.
rt6[0] -> whole6 :: IP6Reassembler
    -> headers6 :: IP6Extensions(PROTOCOLS "icmp6 udp tcp")
    -> upper6 :: IP6Extensions(PROTOCOLS icmp6)
    -> icmp6 :: CheckICMP6Header
    -> local6 :: PaintSwitch
    -> pong :: ICMP6PingResponder(ANYCAST if0:ip6)
    -> made6;
pong[1] -> Discard;
rt6[5] -> SetAnnoByte(FIX_IP_SRC, 1) -> whole6;
upper6[2] -> Answer6(unreachable, port, true) -> made6;
field6 :: Answer6(parameterproblem, header, true) -> made6;
upper6[1] -> field6;
whole6[1] -> Answer6(timeexceeded, reassembly, true) -> made6;
whole6[2] -> field6;
whole6[3] -> Answer6(parameterproblem, chain, true) -> made6;
headers6[1] -> field6;
headers6[2] -> Answer6(parameterproblem, nextheader, true) -> made6;
headers6[3] -> Answer6(parameterproblem, option, true) -> made6;

// Exceptions on the way, from whatever interface: the sender is told.
hop6[1] -> Answer6(parameterproblem, header, false) -> made6;
hop6[2] -> Answer6(parameterproblem, option, false) -> made6;
beyond6 :: Answer6(unreachable, scope, false) -> made6;
expired6 :: Answer6(timeexceeded, transit, false) -> made6;
nobody6 :: Answer6(unreachable, address, false) -> made6;
rt6[4] -> Answer6(unreachable, noroute, false) -> made6;

// The first interface.
in0 :: FromDevice($DEV0, METHOD $METHOD)
    -> c0 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
out0 :: Queue(1000) -> ToDevice($DEV0, METHOD $METHOD);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c0[4] -> tags0 :: UntagPriority
    -> u0 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
nd0 :: IP6NDSolicitor(local, if0);
c0[3], u0[3] -> Paint(1) -> ip6;
c0[0], u0[0] -> IP6NDAdvertiser(local if0:ip6 if0:eth, ANYCAST if0:ip6net/128 if0:eth, TABLE nd0) -> out0;
c0[1], u0[1] -> [1]nd0;
ra0 :: IP6NDRouterAdvertiser(local, if0, PREFIX if0:ip6net, MTU $MTU0) -> out0;
c0[2], u0[2] -> ra0;
u0[4] -> Discard;

// What leaves by it: the checks in order, each exception to the sender by ICMP.
rt6[1] -> DropBroadcasts
    -> scope0 :: CheckIP6Scope
    -> onlink0 :: PaintTee(1)
    -> hlim0 :: DecIP6HLIM
    -> big0 :: IP6Fragmenter($MTU0)
    -> nd0 -> out0;
onlink0[1] -> ICMP6Error(local, redirect, ONLINK fe80::/10 if0:ip6net, RATE 1000, DST_RATE 10) -> [0]nd0;
scope0[1] -> beyond6;
hlim0[1] -> expired6;
nd0[1] -> out0;
big0[1] -> ICMP6Error(if0:ip6, toobig, MTU $MTU0, RATE 1000, DST_RATE 10) -> made6;
nd0[2] -> nobody6;
back6[1] -> [0]nd0;
local6[1] -> pong0 :: ICMP6PingResponder(local, ANYCAST if0:ip6) -> made6;
pong0[1] -> Discard;

// The second interface.
in1 :: FromDevice($DEV1, METHOD $METHOD)
    -> c1 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
out1 :: Queue(1000) -> ToDevice($DEV1, METHOD $METHOD);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c1[4] -> tags1 :: UntagPriority
    -> u1 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
nd1 :: IP6NDSolicitor(local, if1);
c1[3], u1[3] -> Paint(2) -> ip6;
c1[0], u1[0] -> IP6NDAdvertiser(local if1:ip6 if1:eth, ANYCAST if1:ip6net/128 if1:eth, TABLE nd1) -> out1;
c1[1], u1[1] -> [1]nd1;
ra1 :: IP6NDRouterAdvertiser(local, if1, PREFIX if1:ip6net, MTU $MTU1) -> out1;
c1[2], u1[2] -> ra1;
u1[4] -> Discard;

// What leaves by it: the checks in order, each exception to the sender by ICMP.
rt6[2] -> DropBroadcasts
    -> scope1 :: CheckIP6Scope
    -> onlink1 :: PaintTee(2)
    -> hlim1 :: DecIP6HLIM
    -> big1 :: IP6Fragmenter($MTU1)
    -> nd1 -> out1;
onlink1[1] -> ICMP6Error(local, redirect, ONLINK fe80::/10 if1:ip6net, RATE 1000, DST_RATE 10) -> [0]nd1;
scope1[1] -> beyond6;
hlim1[1] -> expired6;
nd1[1] -> out1;
big1[1] -> ICMP6Error(if1:ip6, toobig, MTU $MTU1, RATE 1000, DST_RATE 10) -> made6;
nd1[2] -> nobody6;
back6[2] -> [0]nd1;
local6[2] -> pong1 :: ICMP6PingResponder(local, ANYCAST if1:ip6) -> made6;
pong1[1] -> Discard;
