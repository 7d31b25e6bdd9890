# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds packets of every protocol with scapy and prints, one a line, the bytes and what scapy says they mean.

Line: hexadecimal frame, tab, `name=value` pairs separated by `;`. The seed makes it repeatable.
"""
import random
import sys

try:
    from scapy.all import (
        ARP, Dot1Q, Ether, GRE, ICMP, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS,
        ICMPv6NDOptDstLLAddr, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, IP,
        IPOption_LSRR, IPOption_NOP, IPOption_RR, IPOption_Router_Alert, IPOption_SSRR, IPv6, IPv6ExtHdrDestOpt,
        IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, LLC, Raw, SNAP, STP, TCP, UDP, Dot3, bind_layers,
    )
    from scapy.contrib.igmp import IGMP
except ImportError as error:
    print(f"scapy absent: {error}", file=sys.stderr)
    sys.exit(77)

# The contributed layer binds itself only where TTL and options are as RFC 2236 asks.
bind_layers(IP, IGMP, proto=2)
rng = random.Random(20240229)


def mac():
    return ":".join(f"{rng.randrange(256):02x}" for _ in range(6))


def ip4():
    return ".".join(str(rng.randrange(1, 255)) for _ in range(4))


def ip6():
    return "2001:db8:" + ":".join(f"{rng.randrange(1, 65536):x}" for _ in range(6))


def u16():
    return rng.randrange(65536)


def u32():
    return rng.randrange(1 << 32)


def data():
    return Raw(rng.randbytes(rng.randrange(80)))


def header4(**more):
    flags = rng.choice(["", "DF"])
    return IP(src=ip4(), dst=ip4(), ttl=rng.randrange(256), tos=rng.randrange(256), id=u16(), flags=flags, **more)


def header6(**more):
    return IPv6(src=ip6(), dst=ip6(), hlim=rng.randrange(256), tc=rng.randrange(256), fl=rng.randrange(1 << 20), **more)


def tcp():
    options = [("MSS", u16()), ("NOP", None), ("WScale", rng.randrange(15)), ("Timestamp", (u32(), u32())), ("SAckOK", b"")]
    options = rng.sample(options, rng.randrange(len(options) + 1))
    flags = rng.randrange(256)
    return TCP(sport=u16(), dport=u16(), seq=u32(), ack=u32(), flags=flags, window=u16(), urgptr=u16(), options=options) / data()


def udp():
    # Ports that scapy would dissect further are of no interest here.
    return UDP(sport=rng.randrange(20000, 30000), dport=rng.randrange(20000, 30000)) / data()


def icmp():
    kind = rng.choice([0, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18])
    fields = {"type": kind, "code": rng.randrange(4) if kind in (3, 5, 11, 12) else 0}
    if kind in (0, 8, 13, 14, 15, 16, 17, 18):
        fields.update(id=u16(), seq=u16())
    if kind in (13, 14):
        fields.update(ts_ori=u32(), ts_rx=u32(), ts_tx=u32())
    if kind in (17, 18):
        fields.update(addr_mask=ip4())
    if kind == 5:
        fields.update(gw=ip4())
    if kind == 12:
        fields.update(ptr=rng.randrange(60))
    if kind == 3:
        fields.update(nexthopmtu=u16())
    quoted = header4() / UDP(sport=20001, dport=20002) if kind in (3, 4, 5, 11, 12) else data()
    return ICMP(**fields) / quoted


def icmp6():
    return rng.choice([
        lambda: ICMPv6EchoRequest(id=u16(), seq=u16(), data=rng.randbytes(9)),
        lambda: ICMPv6EchoReply(id=u16(), seq=u16()),
        lambda: ICMPv6PacketTooBig(mtu=u32()),
        lambda: ICMPv6ND_NS(tgt=ip6()) / ICMPv6NDOptSrcLLAddr(lladdr=mac()),
        lambda: ICMPv6ND_NA(tgt=ip6(), R=rng.randrange(2), S=rng.randrange(2), O=rng.randrange(2)) / ICMPv6NDOptDstLLAddr(lladdr=mac()),
        lambda: ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr=mac()),
        lambda: ICMPv6ND_RA(chlim=rng.randrange(256), routerlifetime=u16(), reachabletime=u32(), retranstimer=u32())
        / ICMPv6NDOptPrefixInfo(prefix=ip6(), prefixlen=64, validlifetime=u32(), preferredlifetime=u32())
        / ICMPv6NDOptMTU(mtu=u32()),
    ])()


def options4():
    routes = [ip4() for _ in range(rng.randrange(1, 8))]
    pick = rng.choice([
        lambda: [IPOption_RR(routers=routes, pointer=4)],
        lambda: [IPOption_LSRR(routers=routes, pointer=8)],
        lambda: [IPOption_NOP(), IPOption_SSRR(routers=routes, pointer=4)],
        lambda: [IPOption_Router_Alert()],
    ])
    return header4(options=pick())


def fragment4():
    packet = header4(frag=rng.randrange(1, 8192), proto=rng.choice([6, 17, 1])) / data()
    packet.flags = rng.choice(["", "MF"])
    return packet


def chain6():
    fragment = IPv6ExtHdrFragment(offset=rng.choice([0, 0, 77]), m=1, id=u32())
    chains = [IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(), fragment]
    return header6() / rng.choice(chains) / udp()


def stp():
    # The rapid protocol's BPDU is one byte longer, which scapy takes for padding.
    version, tail = rng.choice([(0, b""), (2, b"\0")])
    return STP(
        version=version, bpdutype=version, bpduflags=rng.randrange(256) if version else rng.choice([0, 1, 0x80, 0x81]),
        rootid=u16(), rootmac=mac(), pathcost=u32(), bridgeid=u16(), bridgemac=mac(), portid=u16(),
        age=rng.randrange(20), maxage=rng.randrange(20, 41), hellotime=rng.randrange(1, 11), fwddelay=rng.randrange(4, 31),
    ) / Raw(tail)


def link():
    ether = Ether(src=mac(), dst=mac())
    if rng.random() < 0.3:
        ether = ether / Dot1Q(vlan=rng.randrange(4096), prio=rng.randrange(8), id=rng.randrange(2))
        if rng.random() < 0.5:
            ether = ether / Dot1Q(vlan=rng.randrange(4096), prio=rng.randrange(8))
    return ether


MAKERS = [
    lambda: link() / header4() / udp(),
    lambda: link() / header4() / tcp(),
    lambda: link() / header4() / icmp(),
    lambda: link() / options4() / udp(),
    lambda: link() / fragment4(),
    lambda: link() / header6() / udp(),
    lambda: link() / header6() / tcp(),
    lambda: link() / header6() / icmp6(),
    lambda: link() / chain6(),
    lambda: link() / ARP(op=rng.randrange(1, 5), hwsrc=mac(), psrc=ip4(), hwdst=mac(), pdst=ip4()),
    lambda: link() / header4() / GRE(key_present=1, key=u32(), seqnum_present=rng.randrange(2), seqence_number=u32(), proto=0x88B5)
    / data(),
    lambda: link() / header4() / GRE(chksum_present=1, proto=0x88B5) / data(),
    lambda: link() / header4(proto=2) / IGMP(type=rng.choice([0x11, 0x16, 0x17]), mrcode=20, gaddr="239.1.2.3"),
    lambda: Dot3(src=mac(), dst=mac()) / LLC() / SNAP(OUI=rng.randrange(1 << 24), code=u16()) / data(),
    lambda: Dot3(src=mac(), dst="01:80:c2:00:00:00") / LLC(dsap=0x42, ssap=0x42, ctrl=3) / stp(),
]


def meaning(layer, add):
    """The fields of one layer, named as the Rust side names them."""
    name = type(layer).__name__

    def take(prefix, /, **fields):
        for key, field in fields.items():
            add(f"{prefix}.{key}", layer.getfieldval(field))

    if name == "Ether":
        take("eth", dst="dst", src="src", type="type")
    elif name == "Dot3":
        take("eth", dst="dst", src="src", type="len")
    elif name == "SNAP":
        take("snap", oui="OUI", type="code")
    elif name == "STP":
        take("stp", version="version", type="bpdutype", flags="bpduflags", root="rootid", rootmac="rootmac", cost="pathcost")
        take("stp", bridge="bridgeid", bridgemac="bridgemac", port="portid")
        for key, field in {"age": "age", "max": "maxage", "hello": "hellotime", "delay": "fwddelay"}.items():
            add(f"stp.{key}", round(layer.getfieldval(field)))
    elif name == "Dot1Q":
        take("vlan", id="vlan", priority="prio", dei=layer.fields_desc[1].name, type="type")
    elif name == "ARP":
        take("arp", op="op", hwsrc="hwsrc", psrc="psrc", hwdst="hwdst", pdst="pdst")
    elif name == "IP":
        take("ip", src="src", dst="dst", proto="proto", ttl="ttl", tos="tos", id="id", length="len", checksum="chksum", words="ihl")
        add("ip.df", int(layer.flags.DF))
        add("ip.mf", int(layer.flags.MF))
        add("ip.offset", layer.frag * 8)
        for option in layer.options:
            if hasattr(option, "routers"):
                add("ip.route", "/".join([str(option.option), str(option.pointer), *option.routers]))
    elif name == "UDP":
        take("udp", sport="sport", dport="dport", length="len", checksum="chksum")
    elif name == "TCP":
        take("tcp", sport="sport", dport="dport", seq="seq", ack="ack", window="window", urgent="urgptr", checksum="chksum")
        add("tcp.flags", int(layer.flags))
        add("tcp.words", layer.dataofs)
        for kind, value in layer.options:
            if kind in ("MSS", "WScale"):
                add(f"tcp.{kind}", value)
            elif kind == "Timestamp":
                add(f"tcp.{kind}", "/".join(map(str, value)))
            elif kind == "SAckOK":
                add(f"tcp.{kind}", 1)
    elif name == "ICMP":
        take("icmp", type="type", code="code", checksum="chksum")
        if layer.type in (0, 8, 13, 14, 15, 16, 17, 18):
            take("icmp", id="id", seq="seq")
        if layer.type in (13, 14):
            take("icmp", originate="ts_ori", receive="ts_rx", transmit="ts_tx")
        if layer.type in (17, 18):
            take("icmp", mask="addr_mask")
        if layer.type == 5:
            take("icmp", gateway="gw")
        if layer.type == 12:
            take("icmp", pointer="ptr")
        if layer.type == 3:
            take("icmp", mtu="nexthopmtu")
    elif name == "IPv6":
        take("ip6", src="src", dst="dst", tc="tc", fl="fl", next="nh", hlim="hlim", length="plen")
    elif name == "IPv6ExtHdrFragment":
        take("frag6", id="id", more="m")
        add("frag6.offset", layer.offset * 8)
    elif name.startswith("ICMPv6NDOpt"):
        if "LLAddr" in name:
            take("opt", kind="type", lladdr="lladdr")
        elif "MTU" in name:
            take("opt", mtu="mtu")
        else:
            take("opt", prefix="prefix", prefixlen="prefixlen", valid="validlifetime", preferred="preferredlifetime")
    elif name.startswith("ICMPv6"):
        take("icmp6", type="type", code="code", checksum="cksum")
        if "Echo" in name:
            take("icmp6", id="id", seq="seq")
        elif "TooBig" in name:
            take("icmp6", mtu="mtu")
        elif name.endswith(("NS", "NA")):
            take("icmp6", target="tgt")
        elif name.endswith("RA"):
            take("icmp6", hlim="chlim", lifetime="routerlifetime", reachable="reachabletime", retransmit="retranstimer")
    elif name == "GRE":
        take("gre", proto="proto")
        if layer.key_present:
            take("gre", key="key")
        if layer.seqnum_present:
            take("gre", seq="seqence_number")
        if layer.chksum_present:
            take("gre", checksum="chksum")
    elif name.startswith("IGMP"):  # some versions of scapy have a class for each message
        take("igmp", type="type", max="mrcode", group="gaddr", checksum="chksum")


for i in range(int(sys.argv[1])):
    made = MAKERS[i % len(MAKERS)]()
    raw = bytes(made)
    packet = type(made)(raw)
    pairs = []
    layer = packet
    while layer:
        meaning(layer, lambda key, value: pairs.append(f"{key}={value}"))
        # A quoted packet's fields would hide those of the packet that quotes it.
        if type(layer).__name__ == "ICMP":
            break
        layer = layer.payload
    print(raw.hex(), ";".join(pairs), sep="\t")
