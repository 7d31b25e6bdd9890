# SPDX-License-Identifier: MIT OR Apache-2.0
"""The independent judge: makes, sends and compares packets with scapy.

    packets.py ordinary FILE COUNT SRC DST ETHERSRC ETHERDST   write COUNT distinct good frames
    packets.py large FILE COUNT SRC DST ETHERSRC ETHERDST      write COUNT good frames of up to 9000 bytes
    packets.py malformed FILE SRC DST ETHERSRC ETHERDST        write bad frames, one line "REASON" each on stdout
    packets.py send FILE INTERFACE                             send a file's frames in order
    packets.py forwarded SENT GOT ETHERSRC ETHERDST            compare what arrived with what a router should make of it
    packets.py needfrag CAPTURE HOST ROUTER MTU                judge the ICMP errors "fragmentation needed" among what HOST sent
    packets.py option DST                                      send a bad option, print the answer
    packets.py fragments SENT GOT                              put what arrived together, and compare with what was sent
"""
import random
import socket
import sys

from scapy.all import ICMP, IP, TCP, UDP, Ether, IPOption, PcapReader, Raw, RawPcapReader, conf, sr1, wrpcap
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


def send(file, interface):
    link, n = conf.L2socket(iface=interface), 0
    for data, _ in RawPcapReader(file):
        link.send(Raw(data))
        n += 1
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
