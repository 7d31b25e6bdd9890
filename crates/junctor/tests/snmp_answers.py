# SPDX-License-Identifier: MIT OR Apache-2.0
"""Has scapy answer a query of SNMP, which stands in a file in hexadecimal, in every way that a device may.

Prints a line for each answer: right, wrong, or other (no answer to a query at all), what it is, and the frame in hexadecimal, with |
between. Ends with status 77 where there is no scapy.
"""
import sys

try:
    from scapy.all import (
        ASN1_COUNTER32, ASN1_GAUGE32, ASN1_INTEGER, ASN1_NULL, ASN1_OID, ASN1_STRING, ASN1_TIME_TICKS, ICMP, IP, SNMP, TCP,
        UDP, Ether, Raw, SNMPget, SNMPresponse, SNMPvarbind,
    )
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

asked = Ether(bytes.fromhex(open(sys.argv[1]).read()))
query = asked[SNMP]
names = [each.oid.val for each in query.PDU.varbindlist]
ether = Ether(src=asked.dst, dst=asked.src)
back = ether / IP(src=asked[IP].dst, dst=asked[IP].src)


def listed(values, names=names):
    return [SNMPvarbind(oid=ASN1_OID(name), value=value) for name, value in zip(names, values)]


def counted(ticks=123456, numbers=(0, 127, 128, 2**32 - 1)):
    return [ASN1_TIME_TICKS(ticks)] + [ASN1_COUNTER32(number) for number in numbers]


def message(values=None, names=names, number=None, error=0, community="public", version=0, kind=SNMPresponse):
    number = query.PDU.id.val if number is None else number
    variables = listed(counted() if values is None else values, names)
    pdu = kind(id=ASN1_INTEGER(number), error=ASN1_INTEGER(error), error_index=ASN1_INTEGER(0), varbindlist=variables)
    return SNMP(version=ASN1_INTEGER(version), community=ASN1_STRING(community), PDU=pdu)


def tell(verdict, what, frame):
    print(f"{verdict}|{what}|{bytes(frame).hex()}")


def answer(verdict, what, message, under=back):
    tell(verdict, what, under / UDP(sport=161, dport=4001) / message)


answer("right", "an answer", message())
answer("right", "other values", message(counted(0, (2**31, 1, 2, 3))))
answer("right", "with options", message(), ether / IP(src=asked[IP].dst, dst=asked[IP].src, options=b"\x01" * 4))
padded = bytes(back / UDP(sport=161, dport=4001) / message())
tell("right", "padded", padded + bytes(20))
unsummed = back / UDP(sport=161, dport=4001, chksum=0) / message()
tell("right", "without checksum", unsummed)
long = bytes(message())
assert long[:1] == b"\x30" and long[1] < 128
answer("right", "a length in more bytes", Raw(b"\x30\x82\x00" + long[1:]))
answer("wrong", "another number", message(number=query.PDU.id.val + 1))
answer("wrong", "an error", message([ASN1_NULL(0)] * 5, error=2))
answer("wrong", "an error with values", message(error=5))
answer("wrong", "no values", message([ASN1_NULL(0)] * 5))
answer("wrong", "one is missing", message(counted()[:4]))
answer("wrong", "one is too many", message(counted() + [ASN1_COUNTER32(1)], names + [names[4]]))
answer("wrong", "another order", message(counted(), names[:3] + [names[4], names[3]]))
answer("wrong", "another interface", message(names=[name[:-1] + "2" if at else name for at, name in enumerate(names)]))
answer("wrong", "a gauge", message(counted()[:4] + [ASN1_GAUGE32(1)]))
answer("wrong", "an up-time that is a counter", message([ASN1_COUNTER32(1)] + counted()[1:]))
answer("wrong", "another community", message(community="private"))
answer("wrong", "another version", message(version=1))
answer("wrong", "a question", message(kind=SNMPget))
answer("wrong", "cut off", Raw(long[:-1]))
answer("wrong", "with more behind it", Raw(long + b"\x00"))
answer("wrong", "no SNMP", Raw(b"hello"))
answer("wrong", "nothing", Raw(b""))
answer("wrong", "a length without end", Raw(b"\x30\x80" + long[2:] + bytes(2)))
summed = bytearray(padded)
summed[-1] ^= 1
tell("wrong", "a wrong checksum", summed)
tell("other", "another port", back / UDP(sport=161, dport=4002) / message())
tell("other", "TCP", back / TCP(sport=161, dport=4001) / message())
tell("other", "an ICMP error", back / ICMP(type=3, code=3) / asked[IP])
tell("other", "no IP", ether / Raw(bytes(60)))
