// The standard IPv4 router on two interfaces, without queues: what an interface cannot take at once is dropped.
//
//   junctor run conf/ip-router-noqueue.click            on interfaces eth0 (18.26.4.24/24) and eth1 (18.26.7.1/24)
//   junctor run conf/ip-router-noqueue.click DEV0=lan0 ADDR0=10.0.1.1/24 DEV1=lan1 ADDR1=10.0.2.1/24 GATEWAY=10.0.1.254
//   junctor bench engine conf/ip-router-noqueue.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60
// bench: eth1 ether=00:00:c0:4f:71:ef src=18.26.7.0/24 dst=18.26.4.0/24 flows=1024 length=60

define($DEV0 eth0, $ADDR0 18.26.4.24/24,
       $DEV1 eth1, $ADDR1 18.26.7.1/24,
       // The router on the first network that knows the way to everywhere else.
       $GATEWAY 18.26.4.1,
       // Bytes of the longest IP packet of each, and how to open them.
       $MTU0 1500, $MTU1 1500, $METHOD auto);

// The interfaces' own Ethernet addresses; the others are for devices in memory.
AddressInfo(if0 $ADDR0 00:00:c0:ae:67:ef $DEV0:eth,
            if1 $ADDR1 00:00:c0:4f:71:ef $DEV1:eth);

// What an interface receives: ARP queries, ARP replies, IP, and the rest.
c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice($DEV0, METHOD $METHOD) -> c0;
FromDevice($DEV1, METHOD $METHOD) -> c1;
out0 :: ToDevice($DEV0, METHOD $METHOD);
out1 :: ToDevice($DEV1, METHOD $METHOD);

// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c0[3] -> tags0 :: UntagPriority -> u0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
c1[3] -> tags1 :: UntagPriority -> u1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

// ARP
arpq0 :: ARPQuerier(if0);
arpq1 :: ARPQuerier(if1);
c0[0], u0[0] -> ARPResponder(if0) -> out0;
c1[0], u1[0] -> ARPResponder(if1) -> out1;
c0[1], u0[1] -> [1]arpq0;
c1[1], u1[1] -> [1]arpq1;
arpq0 -> out0;
arpq0[1] -> out0;
arpq1 -> out1;
arpq1[1] -> out1;

// Every valid IP packet goes to the routing table; impossible addresses, our own as sources, and directed broadcasts are
// dropped. Output 0 is this router itself.
rt :: StaticIPLookup(if0 0, if0:bcast 0, if0:ipnet/32 0,
                     if1 0, if1:bcast 0, if1:ipnet/32 0,
                     if0:ipnet 1, if1:ipnet 2, 0.0.0.0/0 $GATEWAY 1);
ip :: Strip(14) -> CheckIPHeader(INTERFACES $ADDR0 $ADDR1)
    -> CheckIPAddresses(INTERFACES $ADDR0 $ADDR1) -> GetIPAddress(16) -> [0]rt;
c0[2], u0[2] -> Paint(1) -> ip;
c1[2], u1[2] -> Paint(2) -> ip;
u0[3] -> Discard;
u1[3] -> Discard;

// For this router: it answers pings. Of others the sender is told that nobody takes them.
rt[0] -> whole :: IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16)
    -> local :: IPClassifier(icmp type echo, udp or tcp, icmp, -);
whole[1] -> ICMPError(if0, timeexceeded, reassembly, LOCAL true, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
local[0] -> ICMPPingResponder -> [0]rt;
local[1] -> ICMPError(if0, unreachable, port, LOCAL true, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
local[2] -> Discard;
local[3] -> ICMPError(if0, unreachable, protocol, LOCAL true, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;

// Leaving by the first interface
rt[1] -> DropBroadcasts
    -> cp0 :: PaintTee(1)
    -> gio0 :: IPGWOptions(if0)
    -> FixIPSrc(if0)
    -> dt0 :: DecIPTTL
    -> fr0 :: IPFragmenter($MTU0)
    -> [0]arpq0;
cp0[1] -> ICMPError(if0, redirect, host, ONLINK if0:ipnet, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
gio0[1] -> ICMPError(if0, parameterproblem, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
dt0[1] -> ICMPError(if0, timeexceeded, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
fr0[1] -> ICMPError(if0, unreachable, needfrag, PMTU $MTU0, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
arpq0[2] -> ICMPError(if0, unreachable, host, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;

// Leaving by the second interface
rt[2] -> DropBroadcasts
    -> cp1 :: PaintTee(2)
    -> gio1 :: IPGWOptions(if1)
    -> FixIPSrc(if1)
    -> dt1 :: DecIPTTL
    -> fr1 :: IPFragmenter($MTU1)
    -> [0]arpq1;
cp1[1] -> ICMPError(if1, redirect, host, ONLINK if1:ipnet, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
gio1[1] -> ICMPError(if1, parameterproblem, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
dt1[1] -> ICMPError(if1, timeexceeded, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
fr1[1] -> ICMPError(if1, unreachable, needfrag, PMTU $MTU1, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
arpq1[2] -> ICMPError(if1, unreachable, host, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
