# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hosts on both sides of the address translator, judged by Linux' sockets and by scapy.

    gateway.py outside OWN                  serve: answer each datagram; commands come on stdin
    gateway.py inside OWN OTHER GATEWAY OUTSIDE PEER   everything that an inside host may try; OTHER is a second address of its own

Prints a line for each thing that works, and ends with an error at the first that does not.
"""
import errno
import os
import random
import select
import socket
import struct
import sys

from scapy.all import IP, UDP, Dot1Q, Ether, fragment, getmacbyip, sendp

PATIENCE = 60
IP_RECVERR, MSG_ERRQUEUE = 11, 0x2000


def udp(address, port=0, ttl=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, port))
    s.settimeout(PATIENCE)
    s.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    if ttl:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    return s


def icmp_error(s):
    """Type, code and sender of the ICMP error that the socket's datagram has met, and where that went."""
    poll = select.poll()
    poll.register(s, 0)
    assert poll.poll(PATIENCE * 1000), "no ICMP error"
    _, control, _, to = s.recvmsg(4096, 512, MSG_ERRQUEUE)
    for _, kind, data in control:
        if kind == IP_RECVERR:
            _, origin, icmp_type, code, _, info, _ = struct.unpack("IBBBBII", data[:16])
            return icmp_type, code, socket.inet_ntoa(data[20:24]) if origin == 2 else None, info, to
    raise AssertionError("no error in the queue")


def mac_of(address):
    """scapy waits two seconds for an answer, which a busy machine may exceed."""
    found = (getmacbyip(address) for _ in range(PATIENCE))
    return next(mac for mac in found if mac)


def said(text):
    print(text, flush=True)


def outside(own):
    server = udp(own, 7000)
    server.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: fragments
    said("listening")
    server.settimeout(None)
    while True:
        try:
            data, source = server.recvfrom(65536)
        except OSError:
            continue
        if data.startswith(b"ttl1"):
            server.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
            server.sendto(b"ends at the gateway", source)
            icmp_type, code, sender, _, to = icmp_error(server)
            server.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 64)
            server.sendto(repr((icmp_type, code, sender, to == source)).encode(), source)
        elif data.startswith(b"closed"):
            # The gateway's own address, where nobody listens.
            stranger = udp(own)
            stranger.sendto(b"anybody?", (source[0], 9))
            server.sendto(repr(icmp_error(stranger)[:3]).encode(), source)
        else:
            server.sendto(repr(source[0]).encode() + b" " + data, source)


def asked(s, data, peer):
    s.sendto(data, (peer, 7000))
    return s.recvfrom(65536)[0]


def inside(own, other, gateway, outer, peer):
    s = udp(own, 4000)
    s.setsockopt(socket.IPPROTO_IP, 10, 0)
    mark = repr(outer).encode() + b" "
    for size in (1, 1472, 1473, 3000, 9000, 14000):
        data = random.randbytes(size)
        assert asked(s, data, peer) == mark + data, size
    said("large datagrams")

    data = random.randbytes(4000)
    pieces = fragment(IP(src=own, dst=peer, id=7) / UDP(sport=4000, dport=7000) / data, 1000)
    to_gateway = Ether(dst=mac_of(gateway))
    for piece in pieces[1:] + pieces[:1]:
        sendp(to_gateway / piece, iface="a0", verbose=False)
    assert s.recvfrom(65536)[0] == mark + data
    said("fragments out of order")

    short = udp(own, ttl=1)
    short.sendto(b"x", (peer, 7000))
    assert icmp_error(short)[:3] == (11, 0, gateway)
    assert asked(s, b"ttl1", peer) == repr((11, 0, outer, True)).encode()
    said("time exceeded both ways")

    stern = udp(own)
    stern.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never fragment
    stern.sendto(bytes(1450), (peer, 7000))
    assert icmp_error(stern)[:4] == (3, 4, gateway, 1400)
    said("fragmentation needed")

    for address in (gateway, outer):
        nobody = udp(own, ttl=1)
        nobody.sendto(b"x", (address, 9))
        kind, code, sender, _, to = icmp_error(nobody)
        assert (kind, code, to) == (3, 3, (address, 9)) and sender in (gateway, outer), (address, kind, code, sender, to)
        with socket.socket() as tcp:
            tcp.settimeout(PATIENCE)
            refused = tcp.connect_ex((address, 9))
        # Seen once, on a busy machine: another error than that of the ICMP message.
        assert refused == errno.ECONNREFUSED, (address, errno.errorcode.get(refused, refused))
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 99)
        raw.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        raw.sendto(bytes(8), (address, 0))
        assert icmp_error(raw)[:2] == (3, 2), address
    assert asked(s, b"closed", peer) == repr((3, 3, outer)).encode()
    said("unreachable")

    # Each has sent to the other's outside port before it hears.
    one, two = udp(own, 5001), udp(other, 5002)
    heard = set()
    while len(heard) < 2:
        for s, data, port in ((one, b"one", 5002), (two, b"two", 5001)):
            try:
                s.sendto(data, (outer, port))
            except OSError:
                pass  # the error about an earlier one
        for s in select.select([one, two], [], [], 0.2)[0]:
            try:
                heard.add((s.recvfrom(100), s is one))
            except OSError:
                pass
    assert heard == {((b"two", (outer, 5002)), True), ((b"one", (outer, 5001)), False)}, heard
    said("hairpin")

    tagged = udp(own, 4002)
    datagram = IP(src=own, dst=peer) / UDP(sport=4002, dport=7000) / b"tagged"
    sendp(to_gateway / Dot1Q(vlan=0, prio=5) / datagram, iface="a0", verbose=False)
    assert tagged.recvfrom(100)[0] == mark + b"tagged"
    said("priority tag")

    for stolen in (gateway, outer):
        sendp(to_gateway / IP(src=stolen, dst=peer) / UDP(dport=7000) / b"stolen", iface="a0", verbose=False)
    # Behind them on the way.
    assert asked(tagged, b"last", peer) == mark + b"last"


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
