# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads packets of a pcap file with scapy, takes out every checksum in and inside them, and lets scapy compute it anew.

Usage: nat_checksums.py FILE. Prints a line for each packet: the layers with their addresses, and `ok`, or what is wrong. A
transport checksum of a quotation that was cut off cannot be computed and is left out.
"""
import sys

try:
    from scapy.all import ICMP, IP, PcapReader, TCP, UDP
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

# Types of ICMP errors, which quote a packet behind eight bytes.
ERRORS = (3, 4, 5, 11, 12)


def recomputed(packet, layer):
    """The packet's bytes with the checksum of this layer as scapy computes it."""
    copy = packet.copy()
    del copy[layer].chksum
    return bytes(copy)


def check(raw):
    """What the datagram is, and the names of wrong checksums in it."""
    packet = IP(raw)
    header = packet.ihl * 4
    whole = len(raw) >= packet.len
    raw = raw[: packet.len]
    wrong = []
    # The header alone first: a quotation's payload may be cut off.
    alone = IP(raw[:header])
    alone.len = packet.len
    if recomputed(alone, IP)[:header] != raw[:header]:
        wrong.append("IP")
    what = f"{packet.src}>{packet.dst}"
    for layer, name in ((TCP, "tcp"), (UDP, "udp"), (ICMP, "icmp")):
        if packet.haslayer(layer):
            head = packet[layer]
            what += f" {name}"
            if layer is ICMP:
                what += f" {head.type}" + (f" id {head.id}" if head.type in (0, 8) else "")
            else:
                what += f" {head.sport}>{head.dport}"
            if whole and recomputed(packet, layer) != raw:
                wrong.append(name)
            break
    if packet.haslayer(ICMP) and packet[ICMP].type in ERRORS:
        quoted, more = check(raw[header + 8 :])
        what += f" [{quoted}]"
        wrong += ["quoted " + name for name in more]
    return what, wrong


for packet in PcapReader(sys.argv[1]):
    what, wrong = check(bytes(packet))
    print(what, "wrong: " + ", ".join(wrong) if wrong else "ok")
