# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens packets that we sealed, and seals packets for us to open.

Each line of the file that is named holds: SPI, sequence number, whether numbers are extended (0 or 1), encryption algorithm, its key,
authentication algorithm or NULL, its key or -, length of the check value, tunnel ends or "-", UDP or "-", the packet in the clear, the packet
that we sealed. For each there is one line of output: what our packet is in the clear, and the packet as scapy seals it.
"""
import sys

try:
    import scapy.config
    scapy.config.conf.noenum = set()
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation
    import cryptography  # noqa: F401, scapy does not say that it lacks it
except ImportError:
    sys.exit(77)


def packet(data):
    return IP(data) if data[0] >> 4 == 4 else IPv6(data)


def unhex(text):
    return b"" if text == "-" else bytes.fromhex(text)


for line in open(sys.argv[1]):
    spi, number, extended, crypt, key, auth, auth_key, icv, ends, nat, clear, ours = line.split()
    number = int(number)
    header = None
    if ends != "-":
        source, destination = ends.split(",")
        header = (IPv6 if ":" in source else IP)(src=source, dst=destination)
    extra = {}
    if extended == "1":
        extra = dict(esn_en=True, esn=number >> 32)
    association = SecurityAssociation(
        ESP, spi=int(spi), crypt_algo=crypt, crypt_key=unhex(key), auth_algo=auth, auth_key=unhex(auth_key),
        crypt_icv_size=int(icv) if auth == "NULL" else None, tunnel_header=header,
        nat_t_header=UDP(sport=4500, dport=4500) if nat == "udp" else None, **extra)
    opened = association.decrypt(packet(unhex(ours)))
    sealed = association.encrypt(packet(unhex(clear)), seq_num=number & 0xffffffff)
    print(bytes(opened).hex(), bytes(sealed).hex())
