// A gateway that lends its one outside address to the hosts of an inside network (RFC 3022): TCP, UDP, pings and the ICMP errors
// about them, and FTP clients that let the server connect to them. Nothing gets in that nobody inside has asked for.
//
//   junctor run conf/nat-gateway.click            on interfaces eth0 (outside) and eth1 (inside)
//   junctor bench engine conf/nat-gateway.click   on in-memory devices with this traffic:
// bench: eth1 ether=02:00:00:00:00:01 src=10.0.1.0/24 dst=192.0.2.0/24 flows=1024 length=60

AddressInfo(inside 10.0.1.1 10.0.1.0/24 02:00:00:00:00:01,
            outside 192.0.2.1 192.0.2.0/24 02:00:00:00:00:02);

FromDevice(eth0) -> from_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice(eth1) -> from_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out :: Queue(1000) -> ToDevice(eth0);
in :: Queue(1000) -> ToDevice(eth1);

arp_out :: ARPQuerier(outside) -> out;
arp_in :: ARPQuerier(inside) -> in;
from_outside[0] -> ARPResponder(outside) -> out;
from_outside[1] -> [1]arp_out;
from_outside[3] -> Discard;
from_inside[0] -> ARPResponder(inside) -> in;
from_inside[1] -> [1]arp_in;
from_inside[3] -> Discard;

// Mappings. Ports begin above those that servers have.
flows :: IPRewriter(pattern outside 1024-65535 - - 0 1, drop);
ftp :: TCPRewriter(pattern outside 1024-65535 - - 0 1, drop, MAPPING_CAPACITY flows);
pings :: ICMPPingRewriter(pattern outside 1024-65535 - - 0 1, drop, MAPPING_CAPACITY flows);
errors_out, errors_in :: ICMPRewriter(flows ftp pings);

// From inside: what is for the gateway itself, FTP's control connections, other TCP and UDP, pings, ICMP errors.
from_inside[2] -> Strip(14) -> CheckIPHeader -> inward :: IPClassifier(dst host inside, dst tcp port ftp, tcp or udp, icmp type echo, icmp, -);
inward[0] -> local :: IPClassifier(icmp type echo, -);
local[0] -> ICMPPingResponder -> [0]arp_in;
local[1] -> Discard;
inward[1] -> ports :: FTPPortMapper(ftp, flows, 0) -> [0]ftp;
inward[2] -> [0]flows;
inward[3] -> [0]pings;
inward[4] -> errors_out;
inward[5] -> Discard;

// From outside
from_outside[2] -> Strip(14) -> CheckIPHeader -> outward :: IPClassifier(not dst host outside, src tcp port ftp, tcp or udp, icmp type echo-reply, icmp, -);
outward[0] -> Discard;
outward[1] -> [1]ftp;
outward[2] -> [1]flows;
outward[3] -> [1]pings;
outward[4] -> errors_in;
outward[5] -> Discard;

// Beyond the outside network the way is by the provider's router.
to_outside :: DecIPTTL -> way :: StaticIPLookup(192.0.2.0/24 0, 0/0 192.0.2.254 0) -> IPFragmenter(1500) -> [0]arp_out;
flows[0] -> to_outside; ftp[0] -> to_outside; pings[0] -> to_outside; errors_out -> to_outside;
to_outside[1] -> Discard;
to_inside :: DecIPTTL -> IPFragmenter(1500) -> [0]arp_in;
flows[1] -> to_inside; ftp[1] -> to_inside; pings[1] -> to_inside; errors_in -> to_inside;
to_inside[1] -> Discard;
