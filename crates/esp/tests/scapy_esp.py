# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens packets that we sealed, and seals packets for us to open.

Each line of the file that is named holds: SPI, sequence number, whether numbers are extended (0 or 1), encryption algorithm, its key,
authentication algorithm or NULL, its key or -, length of the check value, tunnel ends or "-", UDP or "-", the packet in the clear with the zeros
behind it that hide its length, the packet that we sealed. For each there is one line of output: what our packet is in the clear, and the packet as scapy seals it. Where the packet in
the clear is "dummy", the line says which next header ours has, and what it carries.
"""
import copy
import sys

try:
    import scapy.config
    scapy.config.conf.noenum = set()
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import CRYPT_ALGOS, ESP, CryptAlgo, SecurityAssociation
    # scapy does not say that it lacks this.
    from cryptography.hazmat.primitives.ciphers import algorithms, modes
except ImportError:
    sys.exit(77)

# Its own form of this takes no check values but of 16 bytes.
CRYPT_ALGOS["AES-GCM"] = CryptAlgo(
    "AES-GCM", cipher=algorithms.AES, mode=modes.GCM, salt_size=4, iv_size=8, icv_size=16,
    format_mode_iv=lambda sa, iv, **_: sa.crypt_salt + iv)


def packet(data):
    return IP(data) if data[0] >> 4 == 4 else IPv6(data)


def unhex(text):
    return b"" if text == "-" else bytes.fromhex(text)


def with_high_half(new_mac, high):
    """Makes codes that end with the high half of a sequence number."""
    class Mac:
        def __init__(self, key):
            self.mac = new_mac(key)

        def update(self, data):
            self.mac.update(data)

        def finalize(self):
            self.mac.update(high.to_bytes(4, "big"))
            return self.mac.finalize()

    return Mac


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
    sent, outer = packet(unhex(ours)), packet(unhex(ours))
    six_by_udp = nat == "udp" and sent.version == 6
    if six_by_udp:
        # scapy does not look for ESP behind UDP there.
        outer = IPv6(bytes(sent)[:40])
        outer.nh, outer.plen = 50, len(sent[UDP].payload)
        outer = IPv6(bytes(outer) + bytes(sent[UDP].payload))
        found = sent[UDP].chksum
        del sent[UDP].chksum
        assert found == IPv6(bytes(sent))[UDP].chksum, "the UDP checksum, which IPv6 demands"
    association = SecurityAssociation(
        ESP, spi=int(spi), crypt_algo=crypt, crypt_key=unhex(key), auth_algo=auth, auth_key=unhex(auth_key),
        crypt_icv_size=int(icv) if auth == "NULL" else None, tunnel_header=header,
        nat_t_header=UDP(sport=4500, dport=4500) if nat == "udp" and not six_by_udp else None, **extra)
    if extended == "1":
        # scapy leaves the high half out of what separate algorithms authenticate (RFC 4303, 2.2.1).
        association.auth_algo = copy.copy(association.auth_algo)
        association.auth_algo.new_mac = with_high_half(association.auth_algo.new_mac, number >> 32)
    if clear == "dummy":
        association.crypt_algo = copy.copy(association.crypt_algo)
        decrypt, found = association.crypt_algo.decrypt, []
        association.crypt_algo.decrypt = lambda *args, **more: found.append(decrypt(*args, **more)) or found[-1]
        association.decrypt(outer)
        print(found[0].nh, bytes(found[0].data).hex() or "-")
        continue
    opened = association.decrypt(outer)
    sealed = association.encrypt(packet(unhex(clear)), seq_num=number & 0xffffffff)
    if six_by_udp:
        esp, sealed = bytes(sealed[ESP]), IPv6(bytes(sealed)[:40])
        sealed.nh, sealed.plen = 17, 8 + len(esp)
        sealed = sealed / UDP(sport=4500, dport=4500, chksum=0) / esp
    elif nat == "udp":
        # scapy computes it before ESP is there.
        sealed[UDP].len = 8 + len(sealed[ESP])
    print(bytes(opened).hex(), bytes(sealed).hex())
