// A gateway that translates an inside network to its one outside address (RFC 3022): TCP, UDP, pings, the ICMP errors about
// them, and active FTP. Nothing gets in that no inside host has asked for.
//
//   junctor run conf/nat-gateway.click            on interfaces eth0 (outside) and eth1 (inside)
//   junctor run conf/nat-gateway.click OUTSIDE=wan0 INSIDE=lan0 OUTSIDE_ADDR=198.51.100.7 OUTSIDE_NET=198.51.100.0/24 \
//       PROVIDER=198.51.100.1 INSIDE_ADDR=10.9.0.1 INSIDE_NET=10.9.0.0/16
//   junctor bench engine conf/nat-gateway.click   on in-memory devices with this traffic:
// bench: eth1 ether=02:00:00:00:00:01 src=10.0.1.0/24 dst=192.0.2.0/24 flows=1024 length=60

define($OUTSIDE eth0, $OUTSIDE_ADDR 192.0.2.1, $OUTSIDE_NET 192.0.2.0/24,
       $INSIDE eth1, $INSIDE_ADDR 10.0.1.1, $INSIDE_NET 10.0.1.0/24,
       // The provider's router.
       $PROVIDER 192.0.2.254,
       // Bytes of the longest IP packet, flows that one inside host may have, and how to open the interfaces.
       $MTU 1500, $HOST_FLOWS 16384, $METHOD auto);

// The interfaces' own Ethernet addresses; the others are for devices in memory.
AddressInfo(outside 02:00:00:00:00:02 $OUTSIDE:eth, inside 02:00:00:00:00:01 $INSIDE:eth);

FromDevice($OUTSIDE, METHOD $METHOD) -> from_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice($INSIDE, METHOD $METHOD) -> from_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out :: Queue(1000) -> ToDevice($OUTSIDE, METHOD $METHOD);
in :: Queue(1000) -> ToDevice($INSIDE, METHOD $METHOD);

// Frames with a priority tag (VLAN 0) are treated as untagged ones.
from_outside[3] -> UntagPriority -> untagged_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_inside[3] -> UntagPriority -> untagged_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);

arp_out :: ARPQuerier($OUTSIDE_ADDR, outside) -> out;
arp_in :: ARPQuerier($INSIDE_ADDR, inside) -> in;
from_outside[0], untagged_outside[0] -> ARPResponder($OUTSIDE_ADDR outside) -> out;
from_outside[1], untagged_outside[1] -> [1]arp_out;
untagged_outside[3] -> Discard;
from_inside[0], untagged_inside[0] -> ARPResponder($INSIDE_ADDR inside) -> in;
from_inside[1], untagged_inside[1] -> [1]arp_in;
untagged_inside[3] -> Discard;

// Mappings. Ports begin above those that servers have. What comes from outside without a mapping is for the gateway itself.
flows :: IPRewriter(pattern $OUTSIDE_ADDR 1024-65535 - - 0 1, pass 2, HOST_FLOWS $HOST_FLOWS);
ftp :: TCPRewriter(pattern $OUTSIDE_ADDR 1024-65535 - - 0 1, pass 2, MAPPING_CAPACITY flows, HOST_FLOWS $HOST_FLOWS);
pings :: ICMPPingRewriter(pattern $OUTSIDE_ADDR 1024-65535 - - 0 1, drop, MAPPING_CAPACITY flows, HOST_FLOWS $HOST_FLOWS);
errors_out, errors_in :: ICMPRewriter(flows ftp pings, HIDE_SOURCE true);

// To inside hosts: what is translated, and what the gateway itself says. Errors about the former are translated on their way back.
to_inside :: DecIPTTL -> mtu_in :: IPFragmenter($MTU) -> [0]arp_in;
near :: IPFragmenter($MTU, HONOR_DF false) -> [0]arp_in;
flows[1], ftp[1], pings[1], errors_in -> to_inside;
to_inside[1] -> ICMPError($OUTSIDE_ADDR, timeexceeded, RATE 1000, DST_RATE 10) -> errors_out;
mtu_in[1] -> ICMPError($OUTSIDE_ADDR, unreachable, needfrag, PMTU $MTU, RATE 1000, DST_RATE 10) -> errors_out;

// To the world: beyond the outside network the way is by the provider's router. Inside hosts may talk to each other by the outside
// address (hairpinning): what they send there is treated as if it came from outside.
outward :: IPClassifier(src tcp port ftp, tcp or udp, icmp type echo-reply, icmp type echo, icmp, -);
world :: IPClassifier(dst host $OUTSIDE_ADDR, -);
flows[0], ftp[0], pings[0], errors_out -> world;
world[0] -> outward;
world[1] -> way :: StaticIPLookup($OUTSIDE_NET 0, 0/0 $PROVIDER 0) -> mtu_out :: IPFragmenter($MTU) -> [0]arp_out;
mtu_out[1] -> ICMPError($INSIDE_ADDR, unreachable, needfrag, PMTU $MTU, RATE 1000, DST_RATE 10) -> errors_in;

// From inside. Nobody else has the gateway's own addresses. Later fragments have no ports, so packets are put together first, at most 262144 bytes at a time.
from_inside[2], untagged_inside[2] -> Strip(14) -> CheckIPHeader
    -> CheckIPAddresses(INTERFACES $INSIDE_ADDR/32 $OUTSIDE_ADDR/32) -> DropBroadcasts
    -> whole_inside :: IPReassembler(OVERLAP drop, MAX_PER_SOURCE 64)
    -> inward :: IPClassifier(dst net 224.0.0.0/3,
                              (dst host $INSIDE_ADDR or dst host $OUTSIDE_ADDR) and icmp type echo,
                              dst host $INSIDE_ADDR and (tcp or udp),
                              dst host $INSIDE_ADDR and icmp,
                              dst host $INSIDE_ADDR or (dst host $OUTSIDE_ADDR and not tcp and not udp and not icmp),
                              dst net $INSIDE_NET,
                              dst host $OUTSIDE_ADDR,
                              -);
whole_inside[1] -> ICMPError($INSIDE_ADDR, timeexceeded, reassembly, RATE 1000, DST_RATE 10) -> near;
inward[0] -> Discard;
inward[1] -> ICMPPingResponder -> near;
inward[2] -> ICMPError($INSIDE_ADDR, unreachable, port, RATE 1000, DST_RATE 10) -> near;
inward[3] -> Discard;
inward[4] -> ICMPError($INSIDE_ADDR, unreachable, protocol, RATE 1000, DST_RATE 10) -> near;
inward[5] -> to_inside;
inward[7] -> ttl_out :: DecIPTTL
    -> kinds :: IPClassifier(dst tcp port ftp, tcp or udp, icmp type echo, icmp, -);
inward[6] -> kinds;
ttl_out[1] -> ICMPError($INSIDE_ADDR, timeexceeded, RATE 1000, DST_RATE 10) -> near;
kinds[0] -> ports :: FTPPortMapper(ftp, flows, 0) -> [0]ftp;
kinds[1] -> [0]flows;
kinds[2] -> [0]pings;
kinds[3] -> errors_out;
kinds[4] -> Discard;

// From outside
from_outside[2], untagged_outside[2] -> Strip(14) -> CheckIPHeader
    -> CheckIPAddresses(INTERFACES $INSIDE_ADDR/32 $OUTSIDE_ADDR/32) -> DropBroadcasts
    -> own :: IPClassifier(src net $INSIDE_NET or not dst host $OUTSIDE_ADDR, -);
own[0] -> Discard;
own[1] -> whole_outside :: IPReassembler(OVERLAP drop, MAX_PER_SOURCE 64)
    -> outward;
whole_outside[1] -> ICMPError($OUTSIDE_ADDR, timeexceeded, reassembly, RATE 1000, DST_RATE 10) -> way;
outward[0] -> [1]ftp;
outward[1] -> [1]flows;
outward[2] -> [1]pings;
outward[3] -> ICMPPingResponder -> way;
outward[4] -> errors_in;
outward[5] -> ICMPError($OUTSIDE_ADDR, unreachable, protocol, RATE 1000, DST_RATE 10) -> world;
flows[2], ftp[2] -> ICMPError($OUTSIDE_ADDR, unreachable, port, RATE 1000, DST_RATE 10) -> world;
