# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packets for 'junctor trace', made by scapy, which also says what is in them where tshark has no word for it.

    trace_packets.py DIR    write packets.pcap, packets.hex, a line each, and packets.json, by the names of Junctor's fields
"""
import json
import random
import sys

try:
    from scapy.all import (
        ARP, Dot1AD, Dot1Q, Dot3, Ether, ICMP, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA,
        ICMPv6ND_NS, ICMPv6PacketTooBig, ICMPv6ParamProblem, IP, IPOption_NOP, IPOption_RR, IPOption_Router_Alert,
        IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Padding, Raw, TCP,
        UDP, wrpcap,
    )
    from scapy.layers.inet6 import _IPv6ExtHdr
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

rng = random.Random(791)


def ether():
    return Ether(dst=f"02:00:00:00:00:{rng.randrange(256):02x}", src=f"02:00:00:00:01:{rng.randrange(256):02x}")


def tags():
    """An Ethernet header with up to two tags."""
    tag = lambda: Dot1Q(vlan=rng.randrange(4096), prio=rng.randrange(8), id=rng.randrange(2))
    return rng.choice([ether(), ether(), ether() / tag(), ether() / tag() / tag(),
                       ether() / Dot1AD(vlan=rng.randrange(4096), prio=rng.randrange(8)) / tag()])


def data():
    return Raw(rng.randbytes(rng.choice([0, 1, 7, 40, 300])))


def v4(**more):
    address = lambda: f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    options = rng.choice([[], [], [IPOption_Router_Alert()], [IPOption_NOP(), IPOption_RR(routers=["0.0.0.0"] * 3)]])
    return IP(src=address(), dst=address(), ttl=rng.randrange(1, 256), tos=rng.randrange(256), id=rng.randrange(65536),
              **({"options": options, "flags": rng.choice([0, "DF"])} | more))


def v6():
    address = lambda: f"2001:db8:{rng.randrange(65536):x}::{rng.randrange(1, 65536):x}"
    ip = IPv6(src=address(), dst=address(), hlim=rng.randrange(1, 256), tc=rng.randrange(256), fl=rng.randrange(1 << 20))
    for extension in [IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]),
                      IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * rng.randrange(9))]),
                      IPv6ExtHdrRouting(type=2, segleft=0, addresses=["2001:db8::9"])]:
        if rng.randrange(4) == 0:
            ip = ip / extension
    return ip


def port():
    """Of no protocol that tshark would read on."""
    return rng.randrange(61000, 61100)


def udp():
    return UDP(sport=port(), dport=port(), chksum=rng.choice([None, 0])) / data()


def tcp():
    options = rng.choice([[], [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("NOP", None), ("WScale", 7)],
                          [("NOP", None), ("NOP", None), ("Timestamp", (7, 9))]])
    return TCP(sport=port(), dport=port(), seq=rng.randrange(1 << 32), ack=rng.randrange(1 << 32),
               flags=rng.randrange(512) & ~4, window=rng.randrange(65536), urgptr=rng.randrange(65536),
               options=options) / data()


def packets():
    for _ in range(30):
        yield tags() / v4() / udp()
        yield tags() / v4() / tcp()
        yield tags() / v6() / udp()
        yield tags() / v6() / tcp()
        yield tags() / v4(flags=rng.choice([0, 1]), frag=rng.randrange(1, 8000), proto=17) / data()
        yield tags() / v4(flags=1) / UDP(sport=port(), dport=port(), len=3000, chksum=7) / Raw(rng.randbytes(64))
        yield tags() / v6() / IPv6ExtHdrFragment(offset=rng.randrange(1, 8000), m=rng.randrange(2), id=rng.randrange(1 << 32), nh=17) / data()
        yield tags() / v6() / IPv6ExtHdrFragment(m=1, id=rng.randrange(1 << 32)) / UDP(sport=port(), dport=port(), len=3000, chksum=7) / Raw(rng.randbytes(64))
        yield tags() / v4() / ICMP(type=rng.choice([0, 8]), id=rng.randrange(65536), seq=rng.randrange(65536)) / data()
        yield tags() / v6() / rng.choice([ICMPv6EchoRequest, ICMPv6EchoReply])(id=rng.randrange(65536), seq=rng.randrange(65536)) / data()
        quoted = v4() / UDP(sport=port(), dport=port()) / Raw(rng.randbytes(20))
        yield tags() / v4() / rng.choice([
            ICMP(type=3, code=1), ICMP(type=3, code=4, nexthopmtu=rng.randrange(65536)), ICMP(type=11, code=0),
            ICMP(type=5, code=1, gw="10.9.8.7"), ICMP(type=12, code=0, ptr=rng.randrange(60)),
        ]) / quoted
        quoted = IPv6(src="2001:db8::1", dst="2001:db8::2", fl=9) / UDP(sport=port(), dport=port()) / Raw(rng.randbytes(20))
        yield tags() / v6() / rng.choice([
            ICMPv6DestUnreach(code=rng.randrange(5)), ICMPv6PacketTooBig(mtu=rng.randrange(1 << 32)),
            ICMPv6ParamProblem(ptr=rng.randrange(1 << 32)),
        ]) / quoted
        yield tags() / ARP(op=rng.choice([1, 2]), hwsrc="02:00:00:00:00:07", psrc="10.0.0.7", hwdst="02:00:00:00:00:08", pdst="10.0.0.8") / Padding(b"\0" * rng.choice([0, 18]))
        yield tags() / v4() / UDP(sport=port(), dport=port(), chksum=0) / Raw(b"abc") / Padding(bytes(rng.randrange(1, 15)))
        yield tags() / v6() / rng.choice([ICMPv6ND_NS(tgt="fe80::7"), ICMPv6ND_NA(tgt="fe80::8", R=rng.randrange(2), S=rng.randrange(2), O=rng.randrange(2))])
    yield ether() / v4(options=[]) / v4() / udp()
    yield ether() / v4(options=[]) / v6() / udp()
    yield Dot3(dst="02:00:00:00:00:01", src="02:00:00:00:00:02", len=9) / Raw(b"\xaa\xaa\x03abcdef" + bytes(37))


def reading(packet):
    """What scapy finds of what tshark does not name or names otherwise, and what is in no header."""
    found = {"ip.options": [], "ipv6.extensions": [], "data": [], "eth.padding": []}
    extensions = b""
    if isinstance(packet, Dot3):
        # What it carries is not looked into.
        content = bytes(packet)[14:]
        return found | {"data": [content[:packet.len].hex()], "eth.padding": [content[packet.len:].hex()]}
    while True:
        own = bytes(packet)[:len(packet) - len(packet.payload)] if packet.payload else bytes(packet)
        if isinstance(packet, Padding):
            found["eth.padding"].append(packet.load.hex())
        elif isinstance(packet, Raw):
            found["data"].append(packet.load.hex())
        elif isinstance(packet, (ICMPv6EchoRequest, ICMPv6EchoReply)) and packet.data:
            found["data"].append(packet.data.hex())
        elif isinstance(packet, IP) and packet.ihl > 5:
            found["ip.options"].append(bytes(packet)[20:packet.ihl * 4].hex())
        elif isinstance(packet, _IPv6ExtHdr):
            extensions += own
        if not isinstance(packet.payload, _IPv6ExtHdr) and extensions:
            found["ipv6.extensions"].append(extensions.hex())
            extensions = b""
        if not packet.payload:
            return found
        packet = packet.payload


directory = sys.argv[1]
frames = [bytes(packet) for packet in packets()]
wrpcap(f"{directory}/packets.pcap", [Raw(frame) for frame in frames], linktype=1)
with open(f"{directory}/packets.hex", "w") as file:
    file.writelines(frame.hex() + "\n" for frame in frames)
with open(f"{directory}/packets.json", "w") as file:
    read = [Ether(f) if int.from_bytes(f[12:14], "big") >= 1536 else Dot3(f) for f in frames]
    json.dump([reading(packet) for packet in read], file)
