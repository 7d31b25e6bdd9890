# SPDX-License-Identifier: MIT OR Apache-2.0
"""The independent judge: makes, sends and compares packets with scapy.

    packets.py ordinary FILE COUNT SRC DST ETHERSRC ETHERDST   write COUNT distinct good frames
    packets.py large FILE COUNT SRC DST ETHERSRC ETHERDST      write COUNT good frames of up to 9000 bytes
    packets.py malformed FILE SRC DST ETHERSRC ETHERDST        write bad frames, one line "REASON" each on stdout
    packets.py policy FILE LIST ETHERSRC ETHERDST              write a list of frames, one line "REASON" or "passed" each on stdout
    packets.py flows FILE COUNT ETHERSRC ETHERDST [4|6]        write a frame of each of COUNT flows to 10.9.0.0/16 or 2001:db8:9::/64
    packets.py expired FILE COUNT ETHERSRC ETHERDST            write COUNT frames whose time to live ends at the router
    packets.py announce INTERFACE IP ETHER request|reply       send a gratuitous ARP message
    packets.py send FILE INTERFACE [COUNT CAPTURE [MTU]]       send a file's frames in order; no more than COUNT before
                                                               they have arrived in a capture file, as long as they were,
                                                               or in pieces of IPv4 packets of at most MTU bytes
    packets.py forwarded SENT GOT ETHERSRC ETHERDST            compare what arrived with what a router should make of it
    packets.py needfrag CAPTURE HOST ROUTER MTU                judge the ICMP errors "fragmentation needed" among what HOST sent
    packets.py option DST                                      send a bad option, print the answer
    packets.py fragments SENT GOT                              put what arrived together, and compare with what was sent
"""
import os
import random
import socket
import struct
import sys
import time

from scapy.all import ARP, ICMP, IP, IPv6, TCP, UDP, Ether, IPOption, PcapReader, Raw, RawPcapReader, conf, sr1, wrpcap
from scapy.utils import RawPcapWriter


def good(count, src, dst):
    """Datagrams that differ in everything a router must keep."""
    rng = random.Random(1)
    for i in range(count):
        payload = b"%08d" % i + rng.randbytes(rng.choice([0, 1, 10, 11, 64, 500, 1000, 1400]))
        ip = IP(src=src, dst=dst, id=rng.randrange(65536), ttl=rng.randint(2, 255), tos=rng.randrange(256),
                flags=rng.choice([0, 2]))
        port = rng.randint(1024, 65535)
        kind = i % 5
        if kind == 0:
            yield ip / UDP(sport=port, dport=9) / payload
        elif kind == 1:
            yield ip / TCP(sport=port, dport=9, flags="R", seq=rng.getrandbits(32)) / payload
        elif kind == 2:
            yield ip / ICMP(type=0, id=rng.randrange(65536), seq=i) / payload
        elif kind == 3:  # a protocol that nobody knows
            ip.proto = 253
            yield ip / payload
        else:  # a later fragment of a datagram
            ip.flags, ip.frag, ip.proto = 1, rng.randint(1, 1000), 17
            yield ip / (payload + b"x" * (-len(payload) % 8))


def ordinary(file, count, src, dst, ethersrc, etherdst):
    wrpcap(file, [Ether(src=ethersrc, dst=etherdst) / p for p in good(int(count), src, dst)])


def large(file, count, src, dst, ethersrc, etherdst):
    rng = random.Random(2)
    wrpcap(file, [Ether(src=ethersrc, dst=etherdst) / IP(src=src, dst=dst, id=i + 1, proto=253)
                  / rng.randbytes(rng.choice([8, 1480, 1481, 2960, 2961, 4000, 8980])) for i in range(int(count))])


def malformed(file, src, dst, ethersrc, etherdst):
    whole = bytes(IP(src=src, dst=dst, ttl=9) / UDP(sport=1, dport=2) / (b"m" * 40))

    def changed(at, *values):
        return whole[:at] + bytes(values) + whole[at + len(values):]

    def summed(data):
        length = max(20, (data[0] & 15) * 4)
        head = bytearray(data[:length])
        head[10:12] = b"\0\0"
        total = sum(int.from_bytes(head[i:i + 2], "big") for i in range(0, len(head), 2))
        total = (total & 0xffff) + (total >> 16)
        total = (total & 0xffff) + (total >> 16)
        head[10:12] = (total ^ 0xffff).to_bytes(2, "big")
        return bytes(head) + data[length:]

    cases = [
        ("bad-checksum", changed(10, whole[10] ^ 0x55)),
        ("bad-checksum", changed(8, 77)),
        ("bad-version", summed(changed(0, 0x65))),
        ("bad-version", summed(changed(0, 0x05))),
        ("bad-header-length", summed(changed(0, 0x44))),
        ("bad-header-length", whole[:20].replace(whole[:1], b"\x4f", 1)),
        ("bad-length", summed(changed(2, 0xff, 0xff))),
        ("bad-length", summed(changed(2, 0, 19))),
        ("too-short", whole[:19]),
        ("too-short", whole[:1]),
        ("bad-source", summed(changed(12, 255, 255, 255, 255))),
        ("bad-source", summed(changed(12, 10, 0, 2, 255))),
    ]
    writer = RawPcapWriter(file, linktype=1)
    ether = bytes(Ether(src=ethersrc, dst=etherdst, type=0x800))
    for reason, data in cases:
        writer.write(ether + data)
        print(reason)
    writer.close()


def policy(file, name, ethersrc, etherdst):
    """Frames from 10.0.1.2's network to a router at 10.0.1.1 and 10.0.2.1, with the reason that should stop each."""
    def ip(src="10.0.1.2", dst="10.0.2.2", **more):
        return IP(src=src, dst=dst, ttl=9, proto=253, **more) / (b"p" * 40)

    def route(kind, *hops, pointer=4):
        addresses = b"".join(socket.inet_aton(a) for a in hops)
        return [IPOption(bytes([kind, 3 + len(addresses), pointer]) + addresses + b"\0")]
    loose, strict = 0x83, 0x89
    lists = {
        "impossible":
            [("martian-source", ip(src=a)) for a in ["127.0.0.1", "127.255.255.255", "0.1.2.3", "224.0.0.1",
                                                     "239.1.2.3", "240.0.0.1", "255.0.0.1"]]
            # The first and the last address of our networks are nobody's.
            + [("bad-source", ip(src=a)) for a in ["0.0.0.0", "255.255.255.255", "10.0.1.255", "10.0.2.255"]]
            + [("martian-source", ip(src=a)) for a in ["10.0.1.0", "10.0.2.0"]]
            + [("martian-destination", ip(dst=a)) for a in ["127.0.0.1", "0.0.0.0", "0.1.2.3", "240.0.0.1",
                                                            "255.255.255.254", "10.0.1.0", "10.0.2.0"]]
            + [("directed-broadcast", ip(dst=a)) for a in ["10.0.1.255", "10.0.2.255"]]
            # For this router alone, where nobody wants it.
            + [("nowhere", ip(dst="255.255.255.255"))]
            # Nor an answer: information and address mask requests.
            + [("nowhere", IP(src="10.0.1.2", dst="10.0.1.1") / ICMP(type=kind) / (b"i" * 8)) for kind in (15, 17)],
        "broadcast": [("passed", ip(dst="10.0.2.255"))] * 3,
        "source-routed": [("source-routed", ip(options=route(kind, "10.0.7.1"))) for kind in (loose, strict)]
            + [("source-routed", ip(options=route(loose, "10.0.7.1", pointer=8)))],
        "by-source-route": [("passed", ip(dst="10.0.1.1", options=route(kind, "10.0.2.2"))) for kind in (loose, strict)]
            + [("passed", ip(dst="10.0.2.1", options=route(loose, "10.0.2.2")))],
        "reverse": [("passed", ip()), ("passed", ip(src="10.0.1.77")), ("reverse-path", ip(src="10.0.2.77")),
                    ("reverse-path", ip(src="10.0.2.2")), ("reverse-path", ip(src="198.51.100.1")),
                    ("reverse-path", ip(src="10.0.2.99"))],
        "reverse-loose": [("passed", ip()), ("passed", ip(src="10.0.2.77")), ("passed", ip(src="198.51.100.1")),
                          ("reverse-path", ip(src="192.0.2.1"))],
    }
    wrpcap(file, [Ether(src=ethersrc, dst=etherdst) / p for _, p in lists[name]])
    for reason, _ in lists[name]:
        print(reason)


def flows(file, count, ethersrc, etherdst, family="4"):
    rng, seen = random.Random(3), set()
    while len(seen) < int(count):
        seen.add((rng.randrange(2, 250), rng.getrandbits(16), rng.randrange(1024, 65536), rng.choice([53, 80, 443, 4500])))
    ether = Ether(src=ethersrc, dst=etherdst)
    make = flow6(ether) if family == "6" else flow4(ether)
    writer = RawPcapWriter(file, linktype=1)
    for flow in sorted(seen):
        writer.write(make(*flow))
    writer.close()


def flow4(ether):
    # One that scapy made, with the addresses, ports and checksum of each written over: scapy takes a millisecond for one.
    pattern = bytes(ether / IP(src="0.0.0.0", dst="0.0.0.0", chksum=0) / UDP(sport=0, dport=0, chksum=0) / b"flow")

    def make(near, far, sport, dport):
        addresses = struct.pack("!BBBBBBH", 10, 0, 1, near, 10, 9, far)
        total = struct.pack("!H", complement(pattern[14:34] + addresses))
        return pattern[:24] + total + addresses + struct.pack("!HH", sport, dport) + pattern[38:]

    return make


def flow6(ether):
    pattern = bytes(ether / IPv6(src="::", dst="::") / UDP(sport=0, dport=0, chksum=0) / b"flow")
    near_net, far_net = (socket.inet_pton(socket.AF_INET6, net)[:14] for net in ["2001:db8:1::", "2001:db8:9::"])

    def make(near, far, sport, dport):
        addresses = near_net + struct.pack("!H", near) + far_net + struct.pack("!H", far)
        ports = struct.pack("!HH", sport, dport)
        # The length of the UDP datagram counts twice, in the pseudo-header, too (RFC 8200, 8.1).
        total = complement(addresses + struct.pack("!HH", 12, 17) + ports + pattern[58:])
        return pattern[:22] + addresses + ports + pattern[58:60] + struct.pack("!H", total or 0xffff) + pattern[62:]

    return make


def complement(data):
    """The checksum of RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def expired(file, count, ethersrc, etherdst):
    wrpcap(file, [Ether(src=ethersrc, dst=etherdst) / IP(src="10.0.1.2", dst="10.0.2.2", ttl=1, id=i + 1)
                  / UDP(sport=7, dport=7) for i in range(int(count))])


def announce(interface, ip, ether, kind):
    message = ARP(op={"request": 1, "reply": 2}[kind], hwsrc=ether, psrc=ip, pdst=ip,
                  hwdst="00:00:00:00:00:00" if kind == "request" else ether)
    conf.L2socket(iface=interface).send(Ether(src=ether, dst="ff:ff:ff:ff:ff:ff") / message)


def send(file, interface, count="0", capture="", mtu="65535"):
    link, n, length, end = conf.L2socket(iface=interface), 0, 24, time.monotonic() + 120
    every = frames(file)
    for data in every:
        link.send(Raw(data))
        n += 1
        # Each piece has a record header, a link header and 20 bytes of its own; all but the last carry a multiple of eight.
        pieces = max(1, -(-(len(data) - 34) // ((int(mtu) - 20) // 8 * 8)))
        length += pieces * (16 + 34) + len(data) - 34
        while int(count) and (n % int(count) == 0 or n == len(every)) and os.path.getsize(capture) < length:
            assert time.monotonic() < end, f"{n} sent, {len(frames(capture))} arrived"
            time.sleep(0.0005)
    print("sent", n)


def frames(file):
    return [bytes(data) for data, _ in RawPcapReader(file)]


def forwarded(sent_file, got_file, ethersrc, etherdst):
    sent, got = frames(sent_file), frames(got_file)
    assert len(sent) == len(got), f"{len(sent)} sent, {len(got)} arrived"
    for i, (s, g) in enumerate(zip(sent, got)):
        # What RFC 1812 lets a router change, made by scapy: link header, time to live, header checksum.
        want = IP(s[14:14 + IP(s[14:]).len])
        want.ttl -= 1
        del want.chksum
        want = bytes(Ether(src=ethersrc, dst=etherdst, type=0x800)) + bytes(want)
        assert g[:len(want)] == want and not g[len(want):].strip(b"\0"), \
            f"packet {i}:\n got {g.hex()}\nwant {want.hex()}"
    print("equal", len(sent))


def fragments(sent_file, got_file):
    whole = {}
    for p in PcapReader(got_file):
        ip = p[IP]
        kept = ip.copy()
        del kept.chksum
        assert IP(bytes(kept)).chksum == ip.chksum, "checksum of a fragment"
        assert ip.len <= 1500, f"a fragment of {ip.len} bytes"
        parts, end = whole.setdefault(ip.id, ({}, []))
        data = bytes(p)[14 + ip.ihl * 4:14 + ip.len]
        assert ip.flags.MF == 0 or len(data) % 8 == 0, "a fragment that is no multiple of eight bytes"
        assert ip.frag * 8 not in parts, "a fragment twice"
        parts[ip.frag * 8] = data
        if not ip.flags.MF:
            end.append(ip.frag * 8 + len(data))
    sent = [p[IP] for p in PcapReader(sent_file)]
    for ip in sent:
        parts, end = whole.pop(ip.id)
        data = b"".join(parts[at] for at in sorted(parts))
        assert end == [len(data)] and data == bytes(ip.payload)[:ip.len - 20], f"datagram {ip.id}"
    assert not whole, f"{len(whole)} more datagrams than were sent"
    print("equal", len(sent))


def needfrag(file, host, router, mtu):
    """Each error of RFC 1191 tells the MTU and quotes a packet that the host did send, whole or in part, as it was but
    for what forwarding changes."""
    sent, errors = {}, []
    for data in frames(file):
        ip = data[14:]
        if ip[9] == 1 and socket.inet_ntoa(ip[16:20]) == host:
            errors.append(ip)
        elif socket.inet_ntoa(ip[12:16]) == host:
            sent.setdefault(ip[4:6], []).append(ip)
    good = 0
    for data in errors:
        ip, whole = IP(data), bytes(data)
        if (ip[ICMP].type, ip[ICMP].code) != (3, 4):
            continue
        fresh = IP(whole[:ip.len])
        del fresh.chksum, fresh[ICMP].chksum
        assert bytes(fresh) == whole[:ip.len], f"checksums:\n got {whole.hex()}\nwant {bytes(fresh).hex()}"
        assert ip.src == router and ip.len <= 576 and ip.ttl > 32 and ip.frag == 0, ip.summary()
        assert whole[24:26] == b"\0\0" and int.from_bytes(whole[26:28], "big") == int(mtu), "the MTU it tells"
        quoted = whole[28:ip.len]
        header = IP(quoted[:20])
        assert header.len > int(mtu) and "DF" in header.flags, header.summary()
        del header.chksum
        assert bytes(header) == quoted[:20], "checksum of the quoted header"

        def is_of(packet):
            return (quoted[:8] + quoted[9:10] + quoted[12:] == packet[:8] + packet[9:10] + packet[12:len(quoted)]
                    and packet[8] - quoted[8] in (0, 1))
        assert len(quoted) >= 28 and any(is_of(p) for p in sent.get(quoted[4:6], [])), f"quotes nothing sent: {quoted.hex()}"
        good += 1
    print("good", good)


def option(dst):
    """A record-route option whose pointer lies within its own header."""
    bad = IP(dst=dst, options=[IPOption(b"\x07\x07\x02\0\0\0\0\0")]) / ICMP()
    answer = sr1(bad, timeout=20, verbose=0)
    print(answer.src, answer[ICMP].type, answer[ICMP].code, answer[ICMP].ptr)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
