# SPDX-License-Identifier: MIT OR Apache-2.0
"""The independent judge of frames beside a test's: says what scapy reads in those of a file, one a line in hexadecimal.

Ends with status 77 where there is no scapy.
"""
import sys

try:
    from scapy.all import IP, RIP, SNMP, UDP, Ether, RIPEntry
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)


def summed(frame):
    """Whether IP's and UDP's checksums are those that scapy computes."""
    again = Ether(bytes(frame))
    given = again[IP].chksum, again[UDP].chksum
    del again[IP].chksum, again[UDP].chksum
    again = Ether(bytes(again))
    return given == (again[IP].chksum, again[UDP].chksum)


for line in open(sys.argv[1]):
    frame = Ether(bytes.fromhex(line))
    words = [frame.src, frame.dst, f"{frame[IP].src}:{frame[UDP].sport}", f"{frame[IP].dst}:{frame[UDP].dport}"]
    words += [f"ttl {frame[IP].ttl}", "sums" if summed(frame) else "bad sums"]
    if RIP in frame:
        rip, entries = frame[RIP], []
        entry = rip.payload
        while isinstance(entry, RIPEntry):
            entries.append(f"{entry.addr}/{entry.mask} via {entry.nextHop} metric {entry.metric}")
            entry = entry.payload
        words.append(f"RIP{rip.version} cmd {rip.cmd}: {len(entries)} entries: " + "; ".join(entries))
    elif SNMP in frame:
        asked = frame[SNMP]
        names = " ".join(each.oid.val for each in asked.PDU.varbindlist)
        kind = type(asked.PDU).__name__
        words.append(f"SNMP {asked.version.val} {asked.community.val.decode()} {kind} {asked.PDU.id.val}: {names}")
    print(", ".join(words))
