# SPDX-License-Identifier: MIT OR Apache-2.0
"""The independent judge of what elements of IPv4 make of packets: scapy makes packets, and says what must come of them.

Usage: ipv4_path.py make CASE DIR | judge CASE DIR. `make` writes DIR/in.pcap, and `judge` compares DIR/out.pcap with it;
it prints how many packets were compared. Ends with status 77 where there is no scapy.
"""
import random
import sys

try:
    from scapy.all import ICMP, IP, UDP, IPOption, PacketList, Raw, RawPcapReader, defragment, fragment
    from scapy.layers.inet import IPOption_LSRR, IPOption_NOP, IPOption_RR, IPOption_SSRR
    from scapy.utils import RawPcapWriter
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

RAW_IP = 101
HOPS = ["7.0.0.1", "7.0.0.2", "7.0.0.3"]


def options(kind, done):
    """Options of a packet that has visited `done` hops of its source route."""
    route = {"loose": IPOption_LSRR, "strict": IPOption_SSRR}.get(kind)
    if route:
        return [IPOption_NOP(), route(length=15, pointer=4 + 4 * done, routers=HOPS)]
    return {"record": [IPOption_RR(length=11, pointer=8, routers=["5.0.0.5", "0.0.0.0"])], "none": []}[kind]


def back(kind, done, source):
    """Where a message about such a packet goes first, and its options: the route backwards."""
    if kind not in ("loose", "strict") or done == 0:
        return source, []
    visited = HOPS[:done]
    route = {"loose": IPOption_LSRR, "strict": IPOption_SSRR}[kind]
    hops = visited[-2::-1] + [source] if done > 1 else [source]
    return visited[-1], [route(length=3 + 4 * done, pointer=4, routers=hops)]


def packets(case):
    """Packets to send, with what is needed to judge them. The same at each call."""
    dice = random.Random(7)
    made = []
    for n in range(120):
        source = f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(1, 255)}"
        kind, done = dice.choice([("none", 0), ("record", 0)] + [(k, d) for k in ("loose", "strict") for d in range(4)])
        if case == "ping" and kind in ("loose", "strict"):
            done = 3
        if case in ("fragments", "reassembly") and kind != "record":
            kind = "none"
        data = bytes(dice.randrange(256) for _ in range(dice.choice([0, 1, 8, 100, 548, 1400, 3000])))
        tos = dice.randrange(256)
        ip = IP(src=source, dst="20.0.0.2", id=n + 1, tos=tos, ttl=dice.randrange(2, 255), options=options(kind, done))
        upper = ICMP(type=8, id=n, seq=9) if case == "ping" or n % 3 == 0 else UDP(sport=n, dport=53)
        made.append((IP(bytes(ip / upper / Raw(data))), kind, done, source))
    return made


def error(packet, kind, done, source, number):
    """What `ICMPError(9.9.9.9, unreachable, needfrag, PMTU 1280, TOS copy)` must make of a packet."""
    to, route = back(kind, done, source)
    header = IP(src="9.9.9.9", dst=to, id=number, tos=0xC0 | packet.tos & 0x1C, ttl=200, options=route)
    room = 576 - len(bytes(header)) - 8
    return bytes(header / ICMP(type=3, code=4, nexthopmtu=1280) / Raw(bytes(packet)[:room]))


def reply(packet, kind, done, source):
    """What ICMPPingResponder must make of a request."""
    to, route = back(kind, done, source)
    if kind == "record":
        route = [IPOption_RR(length=11, pointer=12, routers=["5.0.0.5", "20.0.0.2"])]
    if kind in ("loose", "strict"):
        route = [IPOption_NOP()] + route
    header = IP(src="20.0.0.2", dst=to, id=packet.id, tos=packet.tos, ttl=255, options=route)
    icmp = packet[ICMP]
    return bytes(header / ICMP(type=0, id=icmp.id, seq=icmp.seq) / bytes(icmp.payload))


def whole(packet):
    """A datagram's bytes with lengths and checksum computed anew."""
    copy = packet.copy()
    del copy.len, copy.chksum
    return bytes(copy)


def make(case, directory):
    writer = RawPcapWriter(f"{directory}/in.pcap", linktype=RAW_IP, sync=True)
    out = [packet for packet, *_ in packets(case)]
    if case == "reassembly":
        random.seed(3)
        out = [piece for packet in out for piece in fragment(packet, fragsize=random.choice([8, 256, 1000]))]
        # Fragments of some datagrams at a time, in any order.
        out = [p for at in range(0, len(out), 64) for p in random.sample(out[at : at + 64], len(out[at : at + 64]))]
    for packet in out:
        writer.write(bytes(packet))
    writer.close()


def judge(case, directory):
    got = [data for data, _ in RawPcapReader(f"{directory}/out.pcap")]
    sent = packets(case)
    if case == "errors":
        want = [error(*one, number + 1) for number, one in enumerate(sent)]
    elif case == "ping":
        want = [reply(*one) for one in sent]
    elif case == "fragments":
        pieces = [IP(data) for data in got]
        assert max(map(len, got)) <= 600 and len(got) > len(sent), "fragments fit the link, and there are some"
        for piece in pieces:
            assert whole(piece) == bytes(piece), "lengths and checksums"
        got = sorted(whole(IP(bytes(p))) for p in defragment(PacketList(pieces)))
        want = sorted(whole(packet) for packet, *_ in sent)
    else:
        want = sorted(bytes(packet) for packet, *_ in sent)
        got = sorted(got)
    assert len(got) == len(want), f"{len(got)} packets instead of {len(want)}"
    for number, (one, other) in enumerate(zip(got, want)):
        assert one == other, f"packet {number}:\n{one.hex()} instead of\n{other.hex()}"
    print(len(got))


{"make": make, "judge": judge}[sys.argv[1]](*sys.argv[2:])
