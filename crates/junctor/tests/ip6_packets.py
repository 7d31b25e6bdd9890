# SPDX-License-Identifier: MIT OR Apache-2.0
"""The independent judge of IPv6 elements: makes packets with scapy, and says what should have come of them.

    ip6_packets.py make DIR    write in.pcap, Ethernet frames, and pieces.pcap, shuffled fragments of some of them
    ip6_packets.py judge DIR   compare the elements' output with what scapy makes of in.pcap
"""
import random
import sys

try:
    from scapy.all import (
        Ether, HBHOptUnknown, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6PacketTooBig,
        ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop,
        IPv6ExtHdrRouting, PadN, Raw, RawPcapReader, TCP, UDP, defragment6, fragment6, wrpcap,
    )
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

US = "2001:db8:ffff::1"


def packets():
    """IPv6 packets that differ in headers, length, upper layer and hop limit."""
    rng = random.Random(8200)
    for i in range(200):
        length = rng.choice([0, 1, 7, 8, 9, 100, 1200, 1232, 1233, 1240, 1241, 3000, 8000])
        data = rng.randbytes(length)
        address = f"2001:db8:{rng.randrange(1, 65536):x}::{rng.randrange(1, 65536):x}"
        other = f"2001:db8:{rng.randrange(1, 65536):x}::{rng.randrange(1, 65536):x}"
        ip = IPv6(src=address, dst=rng.choice([other, other, other, "ff0e::7"]), hlim=rng.choice([0, 1, 2, 64, 255]),
                  tc=rng.randrange(256), fl=rng.randrange(1 << 20))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            ip = ip / rng.choice([
                IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * rng.randrange(9))]),
                IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1e, optdata=b"abc")]),
                IPv6ExtHdrRouting(type=9, segleft=0, addresses=["2001:db8::9"]),
            ])
        if i % 9 == 0:
            head, rest = ip.copy(), ip.payload
            head.remove_payload()
            ip = head / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0")]) / rest
        kind = i % 6
        if kind == 0:
            yield ip / UDP(sport=rng.randrange(65536), dport=9) / data
        elif kind == 1:
            yield ip / TCP(sport=rng.randrange(65536), dport=9, flags="A") / data
        elif kind in (2, 3):
            yield ip / ICMPv6EchoRequest(id=rng.randrange(65536), seq=i, data=data)
        elif kind == 4:
            quoted = bytes(IPv6(src=other, dst=address) / UDP() / data)[:1200]
            yield ip / rng.choice([ICMPv6DestUnreach(code=4), ICMPv6PacketTooBig(mtu=1280)]) / Raw(quoted)
        else:
            yield ip / ICMPv6EchoReply(id=rng.randrange(65536), seq=i, data=data)


def settled(packet):
    """The packet with lengths and checksums filled in, taken apart anew."""
    return IPv6(bytes(packet))


def make(folder):
    whole = [settled(p) for p in packets()]
    wrpcap(f"{folder}/in.pcap", [Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / p for p in whole])
    rng = random.Random(5722)
    pieces = []
    for i, p in enumerate(fragmented(whole)):
        pieces += fragment6(with_fragment(p, i), 1280)
    rng.shuffle(pieces)
    wrpcap(f"{folder}/pieces.pcap", [Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / p for p in pieces])


def fragmented(whole):
    """Packets without extension headers that are long enough to be fragmented."""
    return [p for p in whole if p.nh in (6, 17, 58) and len(p) > 1280]


def with_fragment(packet, number):
    """The packet with a fragment header, where scapy wants to split it."""
    head = packet.copy()
    head.remove_payload()
    head.plen, kind = None, head.nh
    head.nh = 44
    return head / IPv6ExtHdrFragment(nh=kind, id=1000 + number) / Raw(bytes(packet.payload))


def read(folder, name):
    return [data for data, _ in RawPcapReader(f"{folder}/{name}.pcap")]


def same(name, got, want):
    assert len(got) == len(want), f"{name}: {len(got)} packets, not {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        assert g == bytes(w), f"{name} {i}:\n got {g.hex()}\nwant {bytes(w).hex()}"


def upper(packet):
    """The layer behind all extension headers."""
    layer = packet.payload
    while isinstance(layer, (IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting, IPv6ExtHdrFragment)):
        layer = layer.payload
    return layer


def is_error(packet):
    return isinstance(upper(packet), (ICMPv6DestUnreach, ICMPv6PacketTooBig, ICMPv6TimeExceeded, ICMPv6ParamProblem))


def judge(folder):
    whole = [settled(p) for p in packets()]
    errors = {
        "toobig": (ICMPv6PacketTooBig(mtu=1400), True),
        "option": (ICMPv6ParamProblem(code=2, ptr=0), True),
        "hops": (ICMPv6TimeExceeded(code=0), False),
        "noroute": (ICMPv6DestUnreach(code=0), False),
    }
    for name, (message, group) in errors.items():
        asked = [p for p in whole if not is_error(p) and (group or not p.dst.startswith("ff"))]
        assert asked
        same(name, read(folder, name),
             [settled(IPv6(src=US, dst=p.src, hlim=255) / message / Raw(bytes(p)[:1232])) for p in asked])
    alive = []
    for p in whole:
        if p.hlim > 1:
            q = p.copy()
            q.hlim -= 1
            alive.append(q)
    same("alive", read(folder, "alive"), alive)
    pongs = []
    for p in whole:
        echo = upper(p)
        if type(echo) is ICMPv6EchoRequest:  # the reply is a subclass
            ours = US if p.dst.startswith("ff") else p.dst
            pongs.append(settled(IPv6(src=ours, dst=p.src, hlim=64, tc=p.tc, fl=p.fl)
                                 / ICMPv6EchoReply(id=echo.id, seq=echo.seq, data=echo.data)))
    assert len(pongs) > 50
    same("pongs", read(folder, "pongs"), pongs)
    same("again", read(folder, "again"), whole)
    split(read(folder, "split"), whole)
    reassembled = sorted(read(folder, "pieced"))
    same("pieced", reassembled, sorted(bytes(p) for p in fragmented(whole)))


def split(got, whole):
    """Every packet passed, or was split into fragments of which scapy makes the packet."""
    got = [IPv6(data) for data in got]
    for p in whole:
        if len(p) <= 1280:
            assert bytes(got.pop(0)) == bytes(p)
            continue
        pieces = [got.pop(0)]
        while pieces[-1][IPv6ExtHdrFragment].m:
            pieces.append(got.pop(0))
        assert len(pieces) > 1 and all(len(bytes(f)) <= 1280 for f in pieces)
        together = bytes(defragment6(pieces))
        # What scapy puts together may keep the length field of a fragment.
        assert together[6:] == bytes(p)[6:], f"split:\n got {together.hex()}\nwant {bytes(p).hex()}"
    assert not got


if __name__ == "__main__":
    {"make": make, "judge": judge}[sys.argv[1]](sys.argv[2])
