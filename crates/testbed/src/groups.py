# SPDX-License-Identifier: MIT OR Apache-2.0
"""Multicast hosts and a multicast routing daemon, with the sockets of Linux alone.

receive IF PORT GROUP[,SOURCE] ...       joins, and prints the number of each packet, with its TTL and source
send IF PORT LINE ...                    sends numbered packets: GROUP TTL FIRST COUNT SECONDS SIZE, one each so many seconds
daemon FAMILY IF,IF,... FILE             makes the kernel's entries those of a file: SOURCE GROUP INPUT OUTPUT[/TTL] ...
                                         with interfaces by name. The file may change. Prints what the kernel reports.
"""

import os
import select
import socket
import struct
import sys
import time

MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP = 42, 46
INIT, ADD_INTERFACE, ADD_ENTRY, REMOVE_ENTRY, ASSERT, PIM = 200, 202, 204, 205, 207, 208


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def sockaddr(address):
    if family_of(address) == socket.AF_INET6:
        return struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, address), 0)
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def join(interface, port, group):
    group, _, source = group.partition(",")
    family = family_of(group)
    level = socket.IPPROTO_IPV6 if family == socket.AF_INET6 else socket.IPPROTO_IP
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    s.bind((group, int(port)))
    # Options with the TTL come with each packet.
    s.setsockopt(level, 51 if family == socket.AF_INET6 else 12, 1)
    request = struct.pack("=I4x128s", socket.if_nametoindex(interface), sockaddr(group))
    if source:
        s.setsockopt(level, MCAST_JOIN_SOURCE_GROUP, request + sockaddr(source).ljust(128, b"\0"))
    else:
        s.setsockopt(level, MCAST_JOIN_GROUP, request)
    return s


def receive(interface, port, *groups):
    sockets = [join(interface, port, group) for group in groups]
    print("joined", flush=True)
    while True:
        for s in select.select(sockets, [], [])[0]:
            data, options, _, sender = s.recvmsg(65536, 128)
            (ttl,) = struct.unpack("=i", options[0][2][:4])
            if any(byte != 7 for byte in data[4:]):
                print("damaged", flush=True)
            print("got", struct.unpack("!I", data[:4])[0], ttl, sender[0], len(data), flush=True)


def send(interface, port, *lines):
    for line in lines:
        send_to(interface, port, *line.split())
    print("sent", flush=True)


def send_to(interface, port, group, ttl, first, count, seconds, size):
    family = family_of(group)
    s = socket.socket(family, socket.SOCK_DGRAM)
    index = socket.if_nametoindex(interface)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, int(ttl))
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", b"", b"", index))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, int(ttl))
        # Longer packets are fragmented, not refused.
        s.setsockopt(socket.IPPROTO_IP, 10, 0)
    for number in range(int(first), int(first) + int(count)):
        s.sendto(struct.pack("!I", number) + b"\7" * (int(size) - 4), (group, int(port)))
        time.sleep(float(seconds))


class Daemon:
    def __init__(self, family, interfaces):
        self.is_six = family == "6"
        if self.is_six:
            self.level = socket.IPPROTO_IPV6
            self.socket = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        else:
            self.level = socket.IPPROTO_IP
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
        self.socket.setsockopt(self.level, INIT, 1)
        self.socket.setsockopt(self.level, ASSERT, 1)
        self.socket.setsockopt(self.level, PIM, 1)
        self.interfaces = {}
        for number, name in enumerate(interfaces):
            self.interfaces[name] = number
            index = socket.if_nametoindex(name)
            if self.is_six:
                vif = struct.pack("=HBBHxxI", number, 0, 1, index, 0)
            else:
                vif = struct.pack("=HBBIiI", number, 8, 1, 0, index, 0)
            self.socket.setsockopt(self.level, ADD_INTERFACE, vif)
        self.entries = {}

    def change(self, option, line):
        source, group, parent, *outputs = line.split()
        source = source.replace("*", "::" if self.is_six else "0.0.0.0")
        parent = self.interfaces[parent]
        ttls = bytearray([255] * 32)
        for output in outputs:
            name, _, ttl = output.partition("/")
            ttls[self.interfaces[name]] = int(ttl or 1)
        if self.is_six:
            bits = sum(1 << n for n, ttl in enumerate(ttls) if ttl != 255)
            entry = sockaddr(source) + sockaddr(group) + struct.pack("=Hxx8I", parent, bits, *[0] * 7)
        else:
            entry = socket.inet_aton(source) + socket.inet_aton(group)
            entry += struct.pack("=H32sxx4I", parent, bytes(ttls), 0, 0, 0, 0)
        self.socket.setsockopt(self.level, option, entry)

    def follow(self, path):
        shown = None
        while True:
            try:
                text = open(path).read()
            except FileNotFoundError:
                text = ""
            if text != shown:
                lines = {tuple(line.split()[:2]): line for line in text.splitlines() if line.strip()}
                for key, line in self.entries.items():
                    if key not in lines:
                        self.change(REMOVE_ENTRY, line)
                for key, line in lines.items():
                    if self.entries.get(key) != line:
                        self.change(ADD_ENTRY, line)
                self.entries = lines
                shown = text
                print("entries", len(lines), flush=True)
            if select.select([self.socket], [], [], 0.02)[0]:
                self.hear(self.socket.recv(65536))

    def hear(self, data):
        """A report of the kernel has a zero where a packet has its protocol, and in IPv6 its type."""
        if self.is_six:
            if data[0] == 0:
                number, = struct.unpack("=H", data[2:4])
                source, group = (socket.inet_ntop(socket.AF_INET6, data[at : at + 16]) for at in (8, 24))
                print("report", data[1], number, source, group, flush=True)
        elif data[9] == 0:
            print("report", data[8], data[11], socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), flush=True)


def main():
    mode, *arguments = sys.argv[1:]
    if mode == "daemon":
        family, interfaces, path = arguments
        Daemon(family, interfaces.split(",")).follow(path)
    else:
        {"receive": receive, "send": send}[mode](*arguments)


if __name__ == "__main__":
    main()
