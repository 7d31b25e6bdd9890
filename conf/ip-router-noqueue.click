// The standard IPv4 router without queues (what an interface cannot take at once is dropped), on two interfaces, 18.26.4.24/24 on eth0 and 18.26.7.1/24 on eth1.
//
//   junctor run conf/ip-router-noqueue.click            on interfaces of these names
//   junctor bench engine conf/ip-router-noqueue.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60
// bench: eth1 ether=00:00:c0:4f:71:ef src=18.26.7.0/24 dst=18.26.4.0/24 flows=1024 length=60

AddressInfo(eth0 18.26.4.24 00:00:c0:ae:67:ef,
            eth1 18.26.7.1 00:00:c0:4f:71:ef);

// What an interface receives: ARP queries, ARP replies, IP, and the rest.
c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice(eth0) -> c0;
FromDevice(eth1) -> c1;
out0 :: ToDevice(eth0);
out1 :: ToDevice(eth1);

// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c0[3] -> tags0 :: UntagPriority -> u0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
c1[3] -> tags1 :: UntagPriority -> u1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

// ARP
arpq0 :: ARPQuerier(eth0);
arpq1 :: ARPQuerier(eth1);
c0[0], u0[0] -> ARPResponder(eth0) -> out0;
c1[0], u1[0] -> ARPResponder(eth1) -> out1;
c0[1], u0[1] -> [1]arpq0;
c1[1], u1[1] -> [1]arpq1;
arpq0 -> out0;
arpq1 -> out1;

// Every valid IP packet goes to the routing table; impossible addresses, our own as sources, and directed broadcasts are
// dropped. Output 0 is this router itself.
rt :: StaticIPLookup(18.26.4.24/32 0, 18.26.4.255/32 0, 18.26.4.0/32 0,
                     18.26.7.1/32 0, 18.26.7.255/32 0, 18.26.7.0/32 0,
                     18.26.4.0/24 1, 18.26.7.0/24 2, 0.0.0.0/0 18.26.4.1 1);
ip :: Strip(14) -> CheckIPHeader(INTERFACES 18.26.4.24/24 18.26.7.1/24)
    -> CheckIPAddresses(INTERFACES 18.26.4.24/24 18.26.7.1/24) -> GetIPAddress(16) -> [0]rt;
c0[2], u0[2] -> Paint(1) -> ip;
c1[2], u1[2] -> Paint(2) -> ip;
u0[3] -> Discard;
u1[3] -> Discard;

// For this router: it answers pings. Of others the sender is told that nobody takes them.
rt[0] -> whole :: IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16) -> local :: IPClassifier(icmp type echo, udp or tcp, icmp, -);
whole[1] -> ICMPError(18.26.4.24, timeexceeded, reassembly, LOCAL true, RATE 1000, DST_RATE 10) -> [0]rt;
local[0] -> ICMPPingResponder -> [0]rt;
local[1] -> ICMPError(18.26.4.24, unreachable, port, LOCAL true, RATE 1000, DST_RATE 10) -> [0]rt;
local[2] -> Discard;
local[3] -> ICMPError(18.26.4.24, unreachable, protocol, LOCAL true, RATE 1000, DST_RATE 10) -> [0]rt;

// Leaving by eth0
rt[1] -> DropBroadcasts
      -> cp0 :: PaintTee(1)
      -> gio0 :: IPGWOptions(18.26.4.24)
      -> FixIPSrc(18.26.4.24)
      -> dt0 :: DecIPTTL
      -> fr0 :: IPFragmenter(1500)
      -> [0]arpq0;
cp0[1] -> ICMPError(18.26.4.24, redirect, host) -> [0]rt;
gio0[1] -> ICMPError(18.26.4.24, parameterproblem) -> [0]rt;
dt0[1] -> ICMPError(18.26.4.24, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError(18.26.4.24, unreachable, needfrag) -> [0]rt;

// Leaving by eth1
rt[2] -> DropBroadcasts
      -> cp1 :: PaintTee(2)
      -> gio1 :: IPGWOptions(18.26.7.1)
      -> FixIPSrc(18.26.7.1)
      -> dt1 :: DecIPTTL
      -> fr1 :: IPFragmenter(1500)
      -> [0]arpq1;
cp1[1] -> ICMPError(18.26.7.1, redirect, host) -> [0]rt;
gio1[1] -> ICMPError(18.26.7.1, parameterproblem) -> [0]rt;
dt1[1] -> ICMPError(18.26.7.1, timeexceeded) -> [0]rt;
fr1[1] -> ICMPError(18.26.7.1, unreachable, needfrag) -> [0]rt;
