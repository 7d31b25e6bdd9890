// The standard IPv4 router with this host's kernel behind it: Linux answers what is for the router itself, and every exception,
// on a twin of the interface by which it came. (conf/ip-router.click answers by itself.)
//
//   junctor run conf/ip-router-host.click            as root, on interfaces eth0 (18.26.4.24/24) and eth1 (18.26.7.1/24)
//   junctor run conf/ip-router-host.click DEV0=lan0 ADDR0=10.0.1.1/24 HOST0=hlan0 \
//       DEV1=lan1 ADDR1=10.0.2.1/24 HOST1=hlan1 GATEWAY=10.0.1.254
//   junctor bench engine conf/ip-router-host.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60
// bench: eth1 ether=00:00:c0:4f:71:ef src=18.26.7.0/24 dst=18.26.4.0/24 flows=1024 length=60
//
// The twins host0 and host1 have the Ethernet addresses of the interfaces. With NETNS NAME behind TWIN they are made
// in that network namespace, where routing daemons and others then run. There the kernel must forward, and know the routes:
//   sysctl -w net.ipv4.ip_forward=1
//   ip route add default via 18.26.4.1
// The interfaces themselves must have no IP addresses. `junctor init router --host` writes this for more interfaces.

define($DEV0 eth0, $ADDR0 18.26.4.24/24, $HOST0 host0,
       $DEV1 eth1, $ADDR1 18.26.7.1/24, $HOST1 host1,
       // The router on the first network that knows the way to everywhere else.
       $GATEWAY 18.26.4.1,
       // Bytes of the longest IP packet of each, and how to open them.
       $MTU0 1500, $MTU1 1500, $METHOD auto);

// The interfaces' own Ethernet addresses; the others are for devices in memory.
AddressInfo(if0 $ADDR0 00:00:c0:ae:67:ef $DEV0:eth,
            if1 $ADDR1 00:00:c0:4f:71:ef $DEV1:eth);

// The routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself.
rt :: StaticIPLookup(
    if0 0,
    if1 0,
    255.255.255.255/32 0,
    224.0.0.0/24 0,
    if0:ipnet 1,
    if1:ipnet 2,
    0.0.0.0/0 $GATEWAY 1);

// All received IP packets, their link header removed. Impossible addresses, our own as sources, and directed broadcasts are
// dropped.
ip :: Strip(14) -> CheckIPHeader(INTERFACES $ADDR0 $ADDR1) -> CheckIPAddresses(INTERFACES $ADDR0 $ADDR1)
    -> GetIPAddress(16) -> rt;

// What the kernel answers: packets for this router, and exceptions, at most so many a second for each reason.
// They go unchanged to the twin of the interface by which they came.
own :: PaintSwitch;
kernel :: PaintSwitch;
own[0], kernel[0] -> Discard;
rt[0] -> own;
options :: Punt(options) -> kernel;
ttl :: Punt(ttl-expired) -> kernel;
toobig :: Punt(too-big, RESTORE_TTL true) -> kernel;
noneighbour :: Punt(no-neighbour, RESTORE_TTL true) -> again :: PaintSwitch;
again[0] -> Discard;

// The first interface.
in0 :: FromDevice($DEV0, METHOD $METHOD) -> c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(1024) -> [1]order0 :: PrioSched -> ToDevice($DEV0, METHOD $METHOD);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c0[3] -> tags0 :: UntagPriority -> u0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
arp0 :: ARPQuerier(if0);
c0[2], u0[2] -> Paint(1) -> ip;
// Its twin: the kernel's side of this interface. The kernel answers ARP and gets all that is not IPv4, too.
// Control protocols have their own queues and limits both ways: no flood of other packets takes a hello's place.
FromHost($HOST0, ADDR $ADDR0, TWIN $DEV0, MTU $MTU0, VIRTUAL rt 0) -> said0 :: ControlTraffic(LIMITED false)
    -> Queue(1024) -> [0]order0;
said0[1], said0[2] -> out0;
heard0 :: ControlTraffic -> Queue(4096) -> [0]first0 :: PrioSched -> twin0 :: ToHost($HOST0);
punts0 :: Queue(512) -> [1]first0;
heard0[1] -> forus0 :: Punt(for-us, RATE 10000) -> punts0;
heard0[2] -> other0 :: Punt(other) -> punts0;
own[1] -> Unstrip(14) -> heard0;
kernel[1] -> Unstrip(14) -> punts0;
again[1] -> EtherEncap(0x0800, if0, if0) -> punts0;
c0[0], u0[0] -> heard0;
c0[1], u0[1] -> replies0 :: Tee -> [1]arp0;
replies0[1] -> heard0;
u0[3], tags0[1] -> heard0;

// What leaves by it: RFC 1812's checks in order, each exception to the kernel.
rt[1] -> DropBroadcasts
    -> redirect0 :: PaintTee(1)
    -> options0 :: IPGWOptions(if0)
    -> FixIPSrc(if0)
    -> ttl0 :: DecIPTTL
    -> mtu0 :: IPFragmenter($MTU0)
    -> arp0 -> out0;
redirect0[1] -> ICMPError(if0, redirect, host, ONLINK if0:ipnet, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
options0[1] -> options;
ttl0[1] -> ttl;
mtu0[1] -> toobig;
arp0[1] -> out0;
arp0[2] -> noneighbour;

// The second interface.
in1 :: FromDevice($DEV1, METHOD $METHOD) -> c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out1 :: Queue(1024) -> [1]order1 :: PrioSched -> ToDevice($DEV1, METHOD $METHOD);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c1[3] -> tags1 :: UntagPriority -> u1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
arp1 :: ARPQuerier(if1);
c1[2], u1[2] -> Paint(2) -> ip;
// Its twin: the kernel's side of this interface. The kernel answers ARP and gets all that is not IPv4, too.
// Control protocols have their own queues and limits both ways: no flood of other packets takes a hello's place.
FromHost($HOST1, ADDR $ADDR1, TWIN $DEV1, MTU $MTU1, VIRTUAL rt 0) -> said1 :: ControlTraffic(LIMITED false)
    -> Queue(1024) -> [0]order1;
said1[1], said1[2] -> out1;
heard1 :: ControlTraffic -> Queue(4096) -> [0]first1 :: PrioSched -> twin1 :: ToHost($HOST1);
punts1 :: Queue(512) -> [1]first1;
heard1[1] -> forus1 :: Punt(for-us, RATE 10000) -> punts1;
heard1[2] -> other1 :: Punt(other) -> punts1;
own[2] -> Unstrip(14) -> heard1;
kernel[2] -> Unstrip(14) -> punts1;
again[2] -> EtherEncap(0x0800, if1, if1) -> punts1;
c1[0], u1[0] -> heard1;
c1[1], u1[1] -> replies1 :: Tee -> [1]arp1;
replies1[1] -> heard1;
u1[3], tags1[1] -> heard1;

// What leaves by it: RFC 1812's checks in order, each exception to the kernel.
rt[2] -> DropBroadcasts
    -> redirect1 :: PaintTee(2)
    -> options1 :: IPGWOptions(if1)
    -> FixIPSrc(if1)
    -> ttl1 :: DecIPTTL
    -> mtu1 :: IPFragmenter($MTU1)
    -> arp1 -> out1;
redirect1[1] -> ICMPError(if1, redirect, host, ONLINK if1:ipnet, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
options1[1] -> options;
ttl1[1] -> ttl;
mtu1[1] -> toobig;
arp1[1] -> out1;
arp1[2] -> noneighbour;
