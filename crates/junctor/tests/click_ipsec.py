# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares ESP packets of Click's IPsec elements with those that scapy makes, and makes some for them to open.

Usage: click_ipsec.py FORM SENT MADE. FORM is aes, des, 3des or click. SENT is a pcap file of packets that were sealed. Each is opened, and sealed
again with the same number and initialisation vector: the bytes must be the same. MADE is a pcap file to be written: the packets of SENT with further
numbers and other vectors. Prints the lengths of the packets in the clear.

FORM click is Click's own: the digest is made first, and AES is chained by 8 bytes. scapy does not know it, so it is spelled out here.
"""
import hashlib
import hmac
import os
import sys

try:
    from scapy.layers.inet import IP
    from scapy.layers.ipsec import ESP, SecurityAssociation
    from scapy.utils import PcapReader, PcapWriter
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError:
    sys.exit(77)

SPI = 1000
KEY = bytes.fromhex("ABCDEFFF001DEFD2354550FE40CD708E")
AUTH = bytes.fromhex("112233EE556677888877665544332211")
TRIPLE = bytes.fromhex("0123456789abcdeffedcba98765432100f1e2d3c4b5a6978")
FORMS = {"aes": ("AES-CBC", KEY, 16), "des": ("DES", KEY[:8], 8), "3des": ("3DES", TRIPLE, 8), "click": (None, KEY, 8)}

form, sent, made = sys.argv[1:]
algorithm, key, iv_len = FORMS[form]


def xor(block, with_):
    return bytes(a ^ b for a, b in zip(block, with_)) + block[len(with_):]


def aes(data, decrypts):
    cipher = Cipher(algorithms.AES(KEY), modes.ECB())
    step = cipher.decryptor() if decrypts else cipher.encryptor()
    return step.update(data)


def click(data, iv, decrypts):
    """Whole blocks of 16 bytes, of which only first halves are chained."""
    out, before = b"", iv
    for at in range(0, len(data), 16):
        block = data[at:at + 16]
        done = xor(aes(block, True), before) if decrypts else aes(xor(block, before), False)
        before = (block if decrypts else done)[:8]
        out += done
    return out


def digest(data):
    return hmac.new(AUTH, data, hashlib.sha1).digest()[:12]


def click_part(esp):
    """How many bytes are encrypted behind the initialisation vector."""
    text = len(esp) - 16 - 12
    assert text % 8 == 0
    return text + text % 16


def click_open(esp):
    end = 16 + click_part(esp)
    plain = esp[:16] + click(esp[16:end], esp[8:16], True) + esp[end:]
    assert plain[-12:] == digest(plain[:-12]), "the digest is over the plain text"
    payload = plain[16:-12]
    padding, following = payload[-2:]
    assert payload[-2 - padding:-2] == bytes(range(1, padding + 1)) and following == 4
    return payload[:-2 - padding]


def click_seal(inner, number, iv):
    padding = -(len(inner) + 2) % 8
    plain = SPI.to_bytes(4, "big") + number.to_bytes(4, "big") + iv + inner + bytes(range(1, padding + 1)) + bytes([padding, 4])
    plain += digest(plain)
    end = 16 + click_part(plain)
    return plain[:16] + click(plain[16:end], iv, False) + plain[end:]


def association():
    return SecurityAssociation(
        ESP, spi=SPI, crypt_algo=algorithm, crypt_key=key, auth_algo="HMAC-SHA1-96", auth_key=AUTH,
        tunnel_header=IP(src="192.0.2.1", dst="192.0.2.2"))


def opened(outer):
    return click_open(bytes(outer[IP].payload)) if algorithm is None else bytes(association().decrypt(outer))


def sealed(inner, number, iv):
    if algorithm is None:
        return click_seal(inner, number, iv)
    return bytes(association().encrypt(IP(inner), seq_num=number, iv=iv)[IP].payload)


packets = [IP(bytes(packet)) for packet in PcapReader(sent)]
writer = PcapWriter(made, linktype=101)
for packet in packets:
    assert (packet.proto, packet.src, packet.dst) == (50, "192.0.2.1", "192.0.2.2"), packet.summary()
    esp = bytes(packet.payload)
    number, iv = int.from_bytes(esp[4:8], "big"), esp[8:8 + iv_len]
    inner = opened(packet)
    again = sealed(inner, number, iv)
    assert esp == again, f"{number}: {esp.hex()} is not {again.hex()}"
    print(len(inner))
    body = sealed(inner, number + len(packets), os.urandom(iv_len))
    writer.write(IP(src="192.0.2.1", dst="192.0.2.2", proto=50) / body)
