// The standard IPv4 router with this host's kernel behind it: what is for the router itself, and every exception, is
// answered by Linux on a twin of the interface by which it came. Beside it, conf/ip-router.click answers by itself.
//
//   junctor run conf/ip-router-host.click            on interfaces of these names, as root
//   junctor bench engine conf/ip-router-host.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60
// bench: eth1 ether=00:00:c0:4f:71:ef src=18.26.7.0/24 dst=18.26.4.0/24 flows=1024 length=60
//
// The twins host0 and host1 have the Ethernet addresses and MTUs of eth0 and eth1. With NETNS NAME behind TWIN they are made
// in that network namespace, where routing daemons and others then run. There the kernel must forward, and know the routes:
//   sysctl -w net.ipv4.ip_forward=1
//   ip route add default via 18.26.4.1
// eth0 and eth1 themselves must have no IP addresses. `junctor init router --host` writes this for other interfaces.

AddressInfo(eth0 18.26.4.24 00:00:c0:ae:67:ef,
            eth1 18.26.7.1 00:00:c0:4f:71:ef);

// The routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself.
rt :: StaticIPLookup(
    18.26.4.24/32 0,
    18.26.7.1/32 0,
    255.255.255.255/32 0,
    224.0.0.0/24 0,
    18.26.4.0/24 1,
    18.26.7.0/24 2,
    0.0.0.0/0 18.26.4.1 1);

// All received IP packets, their link header removed. Impossible addresses, our own as sources, and directed broadcasts are
// dropped.
ip :: Strip(14) -> CheckIPHeader(INTERFACES 18.26.4.24/24 18.26.7.1/24) -> CheckIPAddresses(INTERFACES 18.26.4.24/24 18.26.7.1/24)
    -> GetIPAddress(16) -> rt;

// What the kernel answers, at most so many a second for each reason: packets for this router, and exceptions.
// They go unchanged to the twin of the interface by which they came.
rt[0] -> forus :: Punt(for-us, RATE 10000) -> kernel :: PaintSwitch;
options :: Punt(options) -> kernel;
ttl :: Punt(ttl-expired) -> kernel;
toobig :: Punt(too-big, RESTORE_TTL true) -> kernel;
noneighbour :: Punt(no-neighbour, RESTORE_TTL true) -> again :: PaintSwitch;
kernel[0] -> Discard;
again[0] -> Discard;

// Interface eth0.
in0 :: FromDevice(eth0) -> c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(1024) -> ToDevice(eth0);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c0[3] -> tags0 :: UntagPriority -> u0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
arp0 :: ARPQuerier(18.26.4.24, eth0);
c0[2], u0[2] -> Paint(1) -> ip;
// Its twin: the kernel's side of this interface. The kernel answers ARP and gets all that is not IPv4, too.
FromHost(host0, ADDR 18.26.4.24/24, TWIN eth0, VIRTUAL rt 0) -> out0;
twin0 :: ToHost(host0);
kernel[1] -> Unstrip(14) -> twin0;
again[1] -> EtherEncap(0x0800, eth0, eth0) -> twin0;
c0[0], u0[0] -> twin0;
c0[1], u0[1] -> replies0 :: Tee -> [1]arp0;
replies0[1] -> twin0;
u0[3], tags0[1] -> other0 :: Punt(other) -> twin0;

// What leaves by eth0: RFC 1812's checks in order, each exception to the kernel.
rt[1] -> DropBroadcasts
    -> redirect0 :: PaintTee(1)
    -> options0 :: IPGWOptions(18.26.4.24)
    -> FixIPSrc(18.26.4.24)
    -> ttl0 :: DecIPTTL
    -> mtu0 :: IPFragmenter(1500)
    -> arp0 -> out0;
redirect0[1] -> ICMPError(18.26.4.24, redirect, host, ONLINK 18.26.4.0/24, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
options0[1] -> options;
ttl0[1] -> ttl;
mtu0[1] -> toobig;
arp0[1] -> out0;
arp0[2] -> noneighbour;

// Interface eth1.
in1 :: FromDevice(eth1) -> c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out1 :: Queue(1024) -> ToDevice(eth1);
// Frames with a priority tag (VLAN 0) are treated as untagged ones.
c1[3] -> tags1 :: UntagPriority -> u1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
arp1 :: ARPQuerier(18.26.7.1, eth1);
c1[2], u1[2] -> Paint(2) -> ip;
// Its twin: the kernel's side of this interface. The kernel answers ARP and gets all that is not IPv4, too.
FromHost(host1, ADDR 18.26.7.1/24, TWIN eth1, VIRTUAL rt 0) -> out1;
twin1 :: ToHost(host1);
kernel[2] -> Unstrip(14) -> twin1;
again[2] -> EtherEncap(0x0800, eth1, eth1) -> twin1;
c1[0], u1[0] -> twin1;
c1[1], u1[1] -> replies1 :: Tee -> [1]arp1;
replies1[1] -> twin1;
u1[3], tags1[1] -> other1 :: Punt(other) -> twin1;

// What leaves by eth1: RFC 1812's checks in order, each exception to the kernel.
rt[2] -> DropBroadcasts
    -> redirect1 :: PaintTee(2)
    -> options1 :: IPGWOptions(18.26.7.1)
    -> FixIPSrc(18.26.7.1)
    -> ttl1 :: DecIPTTL
    -> mtu1 :: IPFragmenter(1500)
    -> arp1 -> out1;
redirect1[1] -> ICMPError(18.26.7.1, redirect, host, ONLINK 18.26.7.0/24, TOS copy, RATE 1000, DST_RATE 10) -> [0]rt;
options1[1] -> options;
ttl1[1] -> ttl;
mtu1[1] -> toobig;
arp1[1] -> out1;
arp1[2] -> noneighbour;
