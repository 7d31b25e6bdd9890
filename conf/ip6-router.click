// The standard IPv6 router on two interfaces, 2001:db8:1::1/64 on eth0 and 2001:db8:2::1/64 on eth1, fe80::1 on both.
//
//   junctor run conf/ip6-router.click            on interfaces of these names
//   junctor bench engine conf/ip6-router.click   on in-memory devices with this traffic:
// bench: eth0 ether=00:00:c0:ae:67:ef src=2001:db8:1::/64 dst=2001:db8:2::/64 flows=1024 length=62
// bench: eth1 ether=00:00:c0:4f:71:ef src=2001:db8:2::/64 dst=2001:db8:1::/64 flows=1024 length=62

AddressInfo(eth0 2001:db8:1::1 00:00:c0:ae:67:ef,
            eth1 2001:db8:2::1 00:00:c0:4f:71:ef);

// Answers a packet with an ICMPv6 error, from our address on the interface by which the packet came, which its paint says.
// What we sent ourselves has no paint and gets no answer.
elementclass Answer { $type, $code |
	input -> came :: PaintSwitch;
	came[0] -> Discard;
	came[1] -> ICMP6Error(eth0, $type, $code) -> output;
	came[2] -> ICMP6Error(eth1, $type, $code) -> output;
}

// The same about packets that were sent to this router: from the address that they were sent to.
elementclass LocalAnswer { $type, $code |
	input -> ICMP6Error(fe80::1, $type, $code, LOCAL true) -> output;
}

// What an interface receives: neighbour solicitations, advertisements, router solicitations, other IPv6, and the rest.
c0 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
c1 :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd 20/3a 54/85, 12/86dd, -);
FromDevice(eth0) -> c0;
FromDevice(eth1) -> c1;
out0 :: Queue(1000) -> ToDevice(eth0);
out1 :: Queue(1000) -> ToDevice(eth1);

// Neighbour discovery: who has our addresses, and who has theirs; and what hosts must know of their network.
nds0 :: IP6NDSolicitor(fe80::1, eth0);
nds1 :: IP6NDSolicitor(fe80::1, eth1);
c0[0] -> IP6NDAdvertiser(fe80::1 2001:db8:1::1 eth0) -> out0;
c1[0] -> IP6NDAdvertiser(fe80::1 2001:db8:2::1 eth1) -> out1;
c0[1] -> [1]nds0;
c1[1] -> [1]nds1;
c0[2] -> IP6NDRouterAdvertiser(fe80::1, eth0, PREFIX 2001:db8:1::/64) -> out0;
c1[2] -> IP6NDRouterAdvertiser(fe80::1, eth1, PREFIX 2001:db8:2::/64) -> out1;
nds0[0] -> out0;
nds1[0] -> out1;

// Packets that we make, fragmented where they must be, go to the routing table, unpainted; those from or for a link-local
// address go back to the link that caused them.
made :: IP6Fragmenter(1500, LOCAL true) -> mine :: Classifier(8/fe80%ffc0, 24/fe80%ffc0, -);
mine[0], mine[1] -> back :: PaintSwitch;
back[0] -> Discard;
back[1] -> [0]nds0;
back[2] -> [0]nds1;

// Every valid packet goes to the routing table. Output 0 is this router itself, 3 what is never forwarded, 4 no route.
rt :: LookupIP6Route(2001:db8:1::1/128 ::0 0, 2001:db8:1::/128 ::0 0,
                     2001:db8:2::1/128 ::0 0, 2001:db8:2::/128 ::0 0,
                     fe80::1/128 ::0 0, ff02::1/128 ::0 0, ff02::2/128 ::0 0,
                     fe80::/10 ::0 3, ff00::/8 ::0 3,
                     2001:db8:1::/64 ::0 1, 2001:db8:2::/64 ::0 2,
                     2001:db8::/32 2001:db8:1::fffe 1,
                     ::/0 ::0 4);
mine[2] -> Paint(0) -> [0]rt;
ip :: Strip(14) -> CheckIP6Header("::1") -> hop :: IP6HopByHop -> [0]rt;
c0[3] -> Paint(1) -> ip;
c1[3] -> Paint(2) -> ip;
c0[4] -> Discard;
c1[4] -> Discard;
hop[1] -> Answer(parameterproblem, header) -> made;
hop[2] -> Answer(parameterproblem, option) -> made;

// For this router: fragments are put together, extension headers processed, pings answered.
rt[0] -> whole :: IP6Reassembler
      -> headers :: IP6Extensions(PROTOCOLS icmp6)
      -> CheckICMP6Header
      -> local :: ICMP6PingResponder(fe80::1)
      -> made;
local[1] -> Discard;
whole[1] -> LocalAnswer(timeexceeded, reassembly) -> made;
whole[2] -> LocalAnswer(parameterproblem, header) -> made;
whole[3] -> LocalAnswer(parameterproblem, chain) -> made;
headers[1] -> LocalAnswer(parameterproblem, header) -> made;
headers[2] -> LocalAnswer(parameterproblem, nextheader) -> made;
headers[3] -> LocalAnswer(parameterproblem, option) -> made;

rt[3] -> Discard;
rt[4] -> Answer(unreachable, noroute) -> made;

// Leaving by eth0
rt[1] -> DropBroadcasts
      -> sc0 :: CheckIP6Scope
      -> cp0 :: PaintTee(1)
      -> dt0 :: DecIP6HLIM
      -> fr0 :: IP6Fragmenter(1500)
      -> [0]nds0;
sc0[1] -> Answer(unreachable, scope) -> made;
cp0[1] -> ICMP6Error(fe80::1, redirect) -> [0]nds0;
dt0[1] -> Answer(timeexceeded, transit) -> made;
fr0[1] -> ICMP6Error(eth0, toobig, MTU 1500) -> made;
nds0[1] -> out0;
nds0[2] -> Answer(unreachable, address) -> made;

// Leaving by eth1
rt[2] -> DropBroadcasts
      -> sc1 :: CheckIP6Scope
      -> cp1 :: PaintTee(2)
      -> dt1 :: DecIP6HLIM
      -> fr1 :: IP6Fragmenter(1500)
      -> [0]nds1;
sc1[1] -> Answer(unreachable, scope) -> made;
cp1[1] -> ICMP6Error(fe80::1, redirect) -> [0]nds1;
dt1[1] -> Answer(timeexceeded, transit) -> made;
fr1[1] -> ICMP6Error(eth1, toobig, MTU 1500) -> made;
nds1[1] -> out1;
nds1[2] -> Answer(unreachable, address) -> made;
