// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMP6Error
//!
//! `ICMP6Error(SRC, TYPE [, CODE, keywords MTU, PMTU_ANNO, RATE, BURST, DST_RATE, DST_BURST, LOCAL, ONLINK,
//! BADADDRS, MPLS, LSP, FOLLOW, ADDRESSES, CODE_ANNO])`
//!
//! Answers each IPv6 packet with an ICMPv6 error message (or a redirect) that quotes as much of it as fits 1,280 bytes,
//! where the rules allow one.
//!
//! **Ports:** 1 input, 1 output, agnostic; the message goes to the packet's source.
//!
//! **Arguments**
//! * `SRC` source address of the messages.
//! * `TYPE` `unreachable`, `toobig`, `timeexceeded`, `parameterproblem`, `redirect`, or its number.
//! * `CODE` its number, default 0, or its name: for unreachable `noroute`, `prohibited`, `scope`, `address`, `port`,
//!   `policy`, `reject`; for timeexceeded `transit`, `reassembly`; for parameterproblem `header`, `nextheader`,
//!   `option`, `chain`.
//! * `MTU` bytes that a message of type toobig reports, 1,280 or more, default 1500.
//! * `PMTU_ANNO` boolean, default false: if true, such a message reports the packet's own limit, which an element like IPsecEncrypt has noted in the
//!   miscellaneous annotation; 1,280 at least.
//! * `RATE` messages per second over all workers, default 1000, 0 for no limit; `BURST` of them at once, default 50.
//! * `DST_RATE` messages per second to each destination, default no limit; `DST_BURST` of them at once, default 6.
//! * `LOCAL` boolean, default false: the packets were sent to this host, so the messages come from the address they
//!   were sent to, unless that is a multicast address.
//! * `ONLINK` list of prefixes, for redirects: the packet's source must be in one of them, for only neighbours are redirected.
//!   Default any source.
//! * `BADADDRS` list of addresses that do not stand for one host (known anycast addresses), default none.
//! * `MPLS` boolean, default false: packets have MPLS labels in front of their marked IP header. The message lists them (RFC 4950) and quotes 128
//!   bytes; MTU is reported less the labels. `LSP` boolean, default false: with MPLS, the message gets the packet's labels. Both as for ICMPError.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the
//!   place of MTU. It counts as 1,280 at least. Where it cannot change, as in files, MTU stays.
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The first IPv6 address that the kernel has there at
//!   the moment takes the place of SRC, unless that is a link-local one; and fe80::/10 and the networks of all that of ONLINK, if that is given.
//!   Where nobody else changes addresses, as in files, the argument stays.
//! * `CODE_ANNO` a 1-byte annotation, by offset or name, whose value takes the place of CODE: what Firewall notes.
//!
//! **Metadata:** network header position and packet type read; for parameter problems of codes 0 to 2 the pointer, a
//! 4-byte annotation at offset 44; for redirects the destination annotation, which is the better next hop. Set are
//! header positions, destination and timestamp; the paint is the packet's, which may say by which interface a link-local
//! neighbour is reached, and so is the VRF annotation, which names the routing table.
//!
//! **Drops:** `no-icmp-error`: no message answers ICMPv6 errors and redirects, what is no IPv6 packet, or packets whose source is unspecified,
//! loopback, multicast or in BADADDRS. Nor does one answer packets sent to a multicast address or by link-level multicast or broadcast (but for
//! toobig and for code `option`). A redirect does not answer packets to their own source, or sources that ONLINK excludes. It does not name a next
//! hop that is neither link-local nor the destination, which no host believes. `icmp-rate-limited`, `no-memory`.
//!
//! **Handlers**
//! * `src`, `mtu` read/write: the arguments.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> d :: DecIP6HLIM -> Discard;
//! d[1] -> ICMP6Error(2001:db8::1, timeexceeded, transit, RATE 100) -> Discard;
//! ```
//!
//! See also: DecIP6HLIM, IP6Fragmenter, IP6HopByHop, IP6Extensions, ICMPError. RFC 4443 (2.2, 2.4, 3), RFC 4861
//! (4.5, 8.1, 8.2)

use std::net::Ipv6Addr;

use element::args::{Args, FromArg, Names};
use element::{
    Class, Cx, Element, HandlerError, InitCx, LockUse, Locking, Reason, Rehearsal, SharedState, Sharing,
    carries, handlers,
};
use packet::{Batch, HEADROOM, Packet, PacketType, anno};
use wire::icmpv6::Type;
use wire::{Prefix6, Protocol, ipv6};

use super::{Address, Addresses, HEADER_LEN, destination, header, source};
use crate::icmp::extension;
use crate::icmp::limits::Limits;
use crate::io::addresses::LinkAddresses;
use crate::io::mtu::LinkMtu;
use crate::tools::{Anno, number};

/// The descriptor.
pub const CLASS: Class = Class::new("ICMP6Error", "1/1", || Box::<Icmp6Error>::default())
    .sharing(Sharing::Shared)
    .handlers(handlers! { Icmp6Error:
        both "src".everywhere() => .src;
        both "mtu".everywhere() => |error| error.mtu(), |error, text: &str| {
            error.mtu = Some(number::<u32>("mtu", text)?)
                .filter(|mtu| check_mtu(*mtu))
                .ok_or_else(|| HandlerError::bad_value("mtu", text, "1280 bytes or more"))?;
        };
    })
    .hot_swap::<Icmp6Error>()
    .shared_state::<Icmp6Error>()
    .locking::<Icmp6Error>()
    .rehearsal::<Icmp6Error>()
    .file(file!());

/// Every link carries packets of this length (RFC 8200, 5), so no message is longer.
const MINIMUM_MTU: usize = 1280;

/// A list of prefixes, separated by spaces.
#[derive(Clone, Default)]
struct Prefixes(Vec<Prefix6>);

impl FromArg for Prefixes {
    const EXPECTED: &'static str = "a list of IPv6 prefixes (ADDRESS/LENGTH)";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let words = text.split_ascii_whitespace();
        words.map(|word| Prefix6::from_arg(word, names)).collect::<Result<_, _>>().map(Prefixes)
    }
}

#[derive(Clone)]
struct Icmp6Error {
    src: Ipv6Addr,
    kind: Type,
    code: u8,
    mtu: u32,
    pmtu_anno: bool,
    code_anno: Option<Anno<1>>,
    local: bool,
    bad: Vec<Ipv6Addr>,
    onlink: Option<Vec<Prefix6>>,
    mpls: bool,
    lsp: bool,
    follow: LinkMtu,
    addresses: LinkAddresses,
    limits: Limits,
}

/// Link-local addresses begin like this one, by ten bits.
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The timer by which their addresses are looked at.
const ADDRESSES: u32 = 1;

impl Default for Icmp6Error {
    fn default() -> Self {
        Icmp6Error {
            src: Ipv6Addr::UNSPECIFIED,
            kind: Type::UNREACHABLE,
            code: 0,
            mtu: 1500,
            pmtu_anno: false,
            code_anno: None,
            local: false,
            bad: Vec::new(),
            onlink: None,
            mpls: false,
            lsp: false,
            follow: LinkMtu::default(),
            addresses: LinkAddresses::default(),
            limits: Limits::default(),
        }
    }
}

/// The type of a name or number that this element sends.
fn parse_type(text: &str) -> Option<Type> {
    let kinds = [
        Type::UNREACHABLE,
        Type::PACKET_TOO_BIG,
        Type::TIME_EXCEEDED,
        Type::PARAMETER_PROBLEM,
        Type::REDIRECT,
    ];
    let number = element::parse_integer(text);
    kinds.into_iter().find(|k| k.name() == Some(text) || number == Some(k.0.into()))
}

/// The code of a name or number.
fn parse_code(kind: Type, text: &str) -> Option<u8> {
    let names: &[&str] = match kind {
        Type::UNREACHABLE => &["noroute", "prohibited", "scope", "address", "port", "policy", "reject"],
        Type::TIME_EXCEEDED => &["transit", "reassembly"],
        Type::PARAMETER_PROBLEM => &["header", "nextheader", "option", "chain"],
        _ => &[],
    };
    let named = names.iter().position(|n| *n == text).map(|n| n as i128);
    named.or(element::parse_integer(text)).and_then(|n| u8::try_from(n).ok())
}

impl Icmp6Error {
    /// RFC 4443, 2.4 (e): whether the packet may be answered.
    fn answerable(&self, packet: &Packet, header: &[u8; HEADER_LEN], payload: &[u8]) -> bool {
        let (from, to) = (source(header), destination(header));
        let exempt =
            matches!((self.kind, self.code), (Type::PACKET_TOO_BIG, _) | (Type::PARAMETER_PROBLEM, 2));
        let link = packet.packet_type();
        let to_many = to.is_multicast() || matches!(link, PacketType::Broadcast | PacketType::Multicast);
        let no_host = from.is_unspecified() || from.is_loopback() || from.is_multicast();
        let silent = (to_many && !exempt) || no_host || self.bad.contains(&from);
        let fit =
            self.kind != Type::REDIRECT || self.may_redirect(from, to, packet.anno(anno::DST_IP).into());
        !silent && fit && !self.about_error(Protocol(header[6]), payload)
    }

    /// RFC 4861, 8.2: whether a sender may be sent to another next hop: as a neighbour, and to a router by its link-local address or
    /// to the destination itself. One that writes to itself, as BFD's Echo function does, knows the way.
    fn may_redirect(&self, sender: Ipv6Addr, destination: Ipv6Addr, hop: Ipv6Addr) -> bool {
        let neighbour = self.onlink.as_ref().is_none_or(|nets| nets.iter().any(|net| net.contains(sender)));
        neighbour && sender != destination && (hop == destination || hop.is_unicast_link_local())
    }

    /// Whether the packet is an ICMPv6 error or redirect itself, or may be one.
    fn about_error(&self, next_header: Protocol, payload: &[u8]) -> bool {
        match ipv6::upper_layer(next_header, payload) {
            Ok(upper) if upper.protocol == Protocol::ICMPV6 => {
                let hidden = upper.fragment.is_some_and(|f| f.offset > 0);
                let kind = payload.get(upper.offset).map(|t| Type(*t));
                hidden || kind.is_none_or(|k| k.is_error() || k == Type::REDIRECT)
            }
            Ok(_) => false,
            // The headers do not lead to a type. Where they themselves are the problem, it must be said.
            Err(_) => self.kind != Type::PARAMETER_PROBLEM,
        }
    }

    fn answer(&self, cx: &mut Cx<'_>, packet: &Packet) -> Result<Packet, Reason> {
        let header = header(packet).ok_or(Reason::NoIcmpError)?;
        let ip = packet.network().ok_or(Reason::NoIcmpError)?;
        let end = HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let ip = &ip[..ip.len().min(end)];
        if !self.answerable(packet, header, &ip[HEADER_LEN..]) {
            return Err(Reason::NoIcmpError);
        }
        if !self.limits.admit(cx.now(), source(header).into()) {
            return Err(Reason::IcmpRateLimited);
        }
        let target = packet.anno(anno::DST_IP);
        let stack = if self.mpls { extension::stack(packet) } else { &[] };
        let extends = !stack.is_empty() && matches!(self.kind, Type::UNREACHABLE | Type::TIME_EXCEEDED);
        let body = match extends {
            true => {
                let mut body = vec![0; extension::len(stack)];
                extension::write(&mut body, ip, stack);
                body
            }
            false => self.body(target, header, ip),
        };
        let mut answer = Packet::alloc(HEADROOM, HEADER_LEN + 8 + body.len()).ok_or(Reason::NoMemory)?;
        let (to, asked) = (source(header), destination(header));
        // An anycast address does not say which node speaks (RFC 4443, 2.2).
        let shared = asked.is_multicast() || packet.anno_u8(anno::FIX_IP_SRC) != 0;
        let src = if self.local && !shared { asked } else { self.src };
        let bytes = answer.data_mut();
        let repr = ipv6::Repr {
            src,
            dst: to,
            next_header: Protocol::ICMPV6,
            payload_len: (8 + body.len()) as u16,
            hop_limit: 255,
            ..ipv6::Repr::default()
        };
        let rest = match (self.kind, self.code) {
            (Type::PACKET_TOO_BIG, _) if self.pmtu_anno => {
                packet.anno_u32(anno::PATH_MTU).max(MINIMUM_MTU as u32)
            }
            (Type::PACKET_TOO_BIG, _) => (self.mtu() - stack.len() as u32).max(MINIMUM_MTU as u32),
            // The length of the quotation, in units of eight bytes.
            _ if extends => ((extension::QUOTED / 8) as u32) << 24,
            (Type::PARAMETER_PROBLEM, 0..=2) => packet.anno_u32(anno::ICMP6_POINTER),
            _ => 0,
        };
        let code = self.code_anno.map_or(self.code, |anno| packet.anno_u8(anno.0));
        let first = wire::icmpv6::Repr { kind: self.kind, code, rest };
        bytes[HEADER_LEN + 8..].copy_from_slice(&body);
        let icmp = &mut bytes[HEADER_LEN..];
        first.emit(icmp).map_err(|_| Reason::NoMemory)?;
        let mut view = wire::icmpv6::View::new_checked(icmp).map_err(|_| Reason::NoMemory)?;
        view.fill_checksum(src, to);
        repr.emit(bytes).map_err(|_| Reason::NoMemory)?;
        answer.set_network(0, HEADER_LEN);
        answer.set_anno(anno::DST_IP, to.octets());
        answer.set_paint(packet.paint());
        answer.set_anno_u8(anno::VRF, packet.anno_u8(anno::VRF));
        answer.set_timestamp_ns(cx.wall());
        if self.lsp && !extension::push_stack(&mut answer, stack) {
            return Err(Reason::NoMemory);
        }
        Ok(answer)
    }

    /// The MTU that messages report.
    fn mtu(&self) -> u32 {
        self.follow.or(self.mtu as usize).max(MINIMUM_MTU) as u32
    }

    /// What follows the message's first eight bytes.
    fn body(&self, target: [u8; 16], header: &[u8; HEADER_LEN], ip: &[u8]) -> Vec<u8> {
        let room = MINIMUM_MTU - HEADER_LEN - 8;
        if self.kind != Type::REDIRECT {
            return ip[..ip.len().min(room)].to_vec();
        }
        // Target, destination, and the packet in an option, whose length is in units of eight bytes (RFC 4861, 4.6.3).
        let mut body = [&target[..], &header[24..]].concat();
        let quoted = &ip[..ip.len().min((room - body.len() - 8) & !7)];
        let units = (8 + quoted.len()).div_ceil(8);
        let end = body.len() + units * 8;
        body.extend([4, units as u8, 0, 0, 0, 0, 0, 0]);
        body.extend(quoted);
        body.resize(end, 0);
        body
    }
}

/// Reads the MTU that messages report.
fn check_mtu(mtu: u32) -> bool {
    mtu as usize >= MINIMUM_MTU
}

impl Element for Icmp6Error {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.src = args.required::<Address>("SRC").0;
        let kind: String = args.required("TYPE");
        let code: String = args.positional("CODE", "0".to_owned());
        self.mtu = args.keyword("MTU", 1500);
        self.pmtu_anno = args.keyword("PMTU_ANNO", false);
        self.code_anno = args.keyword_opt("CODE_ANNO");
        self.limits = Limits::from_args_or(args, Some(1000));
        self.local = args.keyword("LOCAL", false);
        self.onlink = args.keyword_opt::<Prefixes>("ONLINK").map(|nets| nets.0);
        self.bad = args.keyword("BADADDRS", Addresses::default()).0;
        self.mpls = args.keyword("MPLS", false);
        self.lsp = args.keyword("LSP", false);
        self.follow = LinkMtu::from_args(args);
        self.addresses.configure(args);
        if self.lsp && !self.mpls {
            args.error("LSP needs MPLS true: without labels there is no label switched path");
        }
        if !args.errors().is_empty() {
            return;
        }
        match parse_type(&kind) {
            Some(found) => self.kind = found,
            None => args.error(format!("argument TYPE should be an ICMPv6 error type, not '{kind}'")),
        }
        match parse_code(self.kind, &code) {
            Some(found) => self.code = found,
            None => {
                args.error(format!("argument CODE should be a code of this type or its number, not '{code}'"))
            }
        }
        if !check_mtu(self.mtu) {
            args.error(format!("MTU must be {MINIMUM_MTU} bytes or more, not {}", self.mtu));
        }
        if self.src.is_unspecified() || self.src.is_multicast() {
            args.error(format!("SRC must be an address of this host, not {}", self.src));
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, ADDRESSES)?;
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer == ADDRESSES {
            if let Some(all) = self.addresses.look(cx, timer).filter(|all| all.has_six()) {
                let first = all.six().next().filter(|_| !self.src.is_unicast_link_local());
                self.src = first.unwrap_or(self.src);
                let nets = || all.nets6().map(|(_, net)| net).chain(Prefix6::new(LINK_LOCAL, 10)).collect();
                self.onlink = self.onlink.as_ref().map(|_| nets());
            }
            return;
        }
        self.follow.look(cx, timer);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut answers = Batch::new();
        for packet in batch.drain(..) {
            match self.answer(cx, &packet) {
                Ok(answer) => answers.push(answer),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        answers
    }
}

impl Rehearsal for Icmp6Error {
    fn copy(&self) -> Option<Box<dyn Element>> {
        // Its messages are as if within the limits, which the copy would share.
        Some(Box::new(Self { limits: Limits::default(), ..self.clone() }))
    }
}

impl Locking for Icmp6Error {
    fn locks(&self) -> Vec<LockUse> {
        self.limits.locks()
    }
}

impl SharedState for Icmp6Error {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Icmp6Error: limits; anew src, kind, code, mtu, pmtu_anno, code_anno, local, bad, onlink, mpls, lsp, follow, addresses);

#[cfg(test)]
mod tests {
    use super::super::samples::{bytes, marked, packet};
    use super::*;
    use crate::testing::Rig;

    const FROM: &str = "2001:db8::1";
    const TO: &str = "2001:db8:1::2";
    const US: &str = "2001:db8::ff";

    fn udp(len: usize) -> Packet {
        packet(FROM, TO, 17, 9, &vec![7; len])
    }

    /// The message, whose headers are sound, from its ICMP header on.
    fn answer(config: &str, p: Packet) -> Vec<u8> {
        let paint = p.paint();
        let run = Rig::new(&format!("ICMP6Error({config})")).packets(vec![p]).run();
        let out = run.out("o0");
        assert_eq!(out.len(), 1, "{config}: {:?}", run.drops("e"));
        let view = ipv6::View::new_checked(out[0].data()).unwrap();
        let icmp = wire::icmpv6::View::new_checked(view.payload()).unwrap();
        assert!(icmp.checksum_ok(view.src(), view.dst()));
        assert!(out[0].len() <= 1280 && out[0].len() == 40 + view.payload().len());
        assert_eq!((view.dst().to_string().as_str(), view.hop_limit()), (FROM, 255));
        assert_eq!(out[0].anno::<16>(anno::DST_IP), view.dst().octets());
        assert_eq!(out[0].paint(), paint);
        if !config.contains("LOCAL") {
            assert_eq!(view.src().to_string(), US);
        }
        out[0].transport().unwrap().to_vec()
    }

    // conformance: RFC4443-2.3-a RFC4443-2.4-c RFC4443-3.2-b RFC8200-8.1-a RFC8201-3-a
    #[test]
    fn quotes_as_much_as_fits() {
        for (len, quoted) in [(0, 40), (30, 70), (1192, 1232), (1193, 1232), (4000, 1232)] {
            let original = udp(len).data()[..quoted].to_vec();
            let icmp = answer(&format!("{US}, toobig, MTU 1400"), udp(len));
            assert_eq!((&icmp[..2], &icmp[4..8]), (&[2, 0][..], &1400u32.to_be_bytes()[..]));
            assert_eq!(icmp[8..], original);
        }
        // Link-layer padding is no part of the packet.
        let padded = [udp(4).data(), &[0; 10]].concat();
        assert_eq!(answer(&format!("{US}, 1, 4"), marked(&padded))[8..], padded[..44]);
    }

    // conformance: RFC4443-2.2-a RFC4443-3.1-a RFC4443-3.1-zero RFC4443-3.4-a
    #[test]
    fn types_codes_and_pointer() {
        let check = |config: &str, want: (u8, u8, u32)| {
            let mut p = udp(3);
            p.set_paint(7);
            p.set_anno_u32(anno::ICMP6_POINTER, 1000);
            let icmp = answer(&format!("{US}, {config}"), p);
            assert_eq!((icmp[0], icmp[1], u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]])), want);
        };
        check("unreachable, noroute", (1, 0, 0));
        check("unreachable, address", (1, 3, 0));
        check("unreachable, reject", (1, 6, 0));
        check("timeexceeded, transit", (3, 0, 0));
        check("3, reassembly", (3, 1, 0));
        check("parameterproblem", (4, 0, 1000));
        check("parameterproblem, option", (4, 2, 1000));
        check("parameterproblem, chain", (4, 3, 0));
        check("2", (2, 0, 1500));
        let run = Rig::new(&format!("ICMP6Error({US}, 4, 1, LOCAL true)")).packets(vec![udp(3)]).run();
        assert_eq!(run.bytes("o0")[0][8..24], TO.parse::<Ipv6Addr>().unwrap().octets());
    }

    // conformance: RFC4443-2.4-e1 RFC4443-2.4-e2 RFC4443-2.4-e3 RFC4443-2.4-e4 RFC4443-2.4-e5 RFC4443-2.4-e6
    #[test]
    fn some_packets_are_not_answered() {
        let icmp = |kind: u8| packet(FROM, TO, 58, 9, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        let link = |kind: PacketType| {
            let mut p = udp(3);
            p.set_packet_type(kind);
            p
        };
        let behind_options = packet(FROM, TO, 60, 9, &[58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let later_fragment = packet(FROM, TO, 44, 9, &[58, 0, 0, 8, 0, 0, 0, 1, 200, 0, 0, 0, 0, 0, 0, 0]);
        let silent = |exempt: bool| {
            let mut packets = vec![
                icmp(1),
                icmp(127),
                icmp(137),
                packet(FROM, TO, 58, 9, &[]),
                behind_options.duplicate().unwrap(),
                later_fragment.duplicate().unwrap(),
                packet("::", TO, 17, 9, &[1]),
                packet("::1", TO, 17, 9, &[1]),
                packet("ff02::1", TO, 17, 9, &[1]),
                packet("2001:db8::a", TO, 17, 9, &[1]),
                Packet::copy_of(b"no header").unwrap(),
            ];
            if !exempt {
                packets.extend([link(PacketType::Broadcast), link(PacketType::Multicast)]);
                packets.push(packet(FROM, "ff0e::1", 17, 9, &[1]));
            }
            packets
        };
        for (kind, exempt) in [("1", false), ("3, 1", false), ("4, 1", false), ("2", true), ("4, 2", true)] {
            for burst in [1, 32] {
                let config = format!("ICMP6Error({US}, {kind}, BADADDRS \"2001:db8::a ::7\")");
                let packets = silent(exempt);
                let n = packets.len() as u64;
                let run = Rig::new(&config).burst(burst).packets(packets).run();
                assert_eq!(run.drops("e"), [(Reason::NoIcmpError, n)], "{kind}");
                let answered = [udp(3), icmp(128), icmp(200)];
                let group = [packet(FROM, "ff0e::1", 17, 9, &[1]), link(PacketType::Multicast)];
                let packets = answered.into_iter().chain(group.into_iter().filter(|_| exempt));
                let run = Rig::new(&config).burst(burst).packets(packets.collect()).run();
                assert_eq!((run.out("o0").len(), run.drops("e")), (if exempt { 5 } else { 3 }, vec![]));
            }
        }
    }

    #[test]
    fn malformed_chains_are_answered_only_about_themselves() {
        let cut = || packet(FROM, TO, 60, 9, &[58, 9, 0, 0, 0, 0, 0, 0]);
        let run = |kind: &str| Rig::new(&format!("ICMP6Error({US}, {kind})")).packets(vec![cut()]).run();
        assert_eq!(run("timeexceeded").drops("e"), [(Reason::NoIcmpError, 1)]);
        assert_eq!(run("parameterproblem").out("o0").len(), 1);
    }

    #[test]
    fn redirects_name_the_better_hop() {
        let hop: Ipv6Addr = "fe80::9".parse().unwrap();
        for len in [3, 4000] {
            let mut p = udp(len);
            p.set_anno(anno::DST_IP, hop.octets());
            let ip = p.data().to_vec();
            let icmp = answer(&format!("{US}, redirect"), p);
            let quoted = ip.len().min(1280 - 40 - 8 - 32 - 8);
            assert_eq!(
                (&icmp[..8], &icmp[8..24]),
                (&[137, 0, icmp[2], icmp[3], 0, 0, 0, 0][..], &hop.octets()[..])
            );
            assert_eq!((&icmp[24..40], icmp[40]), (&ip[24..40], 4));
            assert_eq!(usize::from(icmp[41]) * 8, icmp.len() - 40);
            assert_eq!(icmp[48..48 + quoted], ip[..quoted]);
        }
    }

    // conformance: RFC4861-8.2-b RFC4861-8.2-c
    #[test]
    fn redirects_are_for_neighbours_and_name_what_they_believe() {
        let answers = |config: &str, hop: &str| {
            let mut p = udp(3);
            p.set_anno(anno::DST_IP, hop.parse::<Ipv6Addr>().unwrap().octets());
            let run = Rig::new(&format!("ICMP6Error({US}, redirect{config})")).packets(vec![p]).run();
            let answers = run.out("o0").len();
            assert_eq!(run.drops("e").len(), 1 - answers);
            answers
        };
        let near = ", ONLINK fe80::/10 2001:db8::/64";
        let far = ", ONLINK fe80::/10 2001:db8:1::/64";
        assert_eq!([answers("", "fe80::9"), answers(near, "fe80::9"), answers(far, "fe80::9")], [1, 1, 0]);
        assert_eq!([answers(near, TO), answers(far, TO), answers(near, "2001:db8::9")], [1, 0, 0]);
        let mut to_itself = udp(3);
        let source = to_itself.data()[8..24].to_vec();
        to_itself.data_mut()[24..40].copy_from_slice(&source);
        to_itself.set_anno(anno::DST_IP, US.parse::<Ipv6Addr>().unwrap().octets());
        let run = Rig::new(&format!("ICMP6Error({US}, redirect)")).packets(vec![to_itself]).run();
        assert_eq!(run.out("o0").len(), 0);
    }

    // conformance: RFC4443-2.4-f RFC4861-8.2-a
    #[test]
    fn the_rate_is_limited() {
        for burst in [1, 32] {
            let config = format!("ICMP6Error({US}, timeexceeded, RATE 10, BURST 3)");
            let all = |n| (0..n).map(|_| udp(3)).collect::<Vec<_>>();
            let run = Rig::new(&config).burst(burst).packets(all(7)).run();
            assert_eq!((run.out("o0").len(), run.drops("e")), (3, vec![(Reason::IcmpRateLimited, 4)]));
            // What must not be answered does not use up the allowance.
            let mut packets: Vec<_> = (0..9).map(|_| packet("::", TO, 17, 9, &[])).collect();
            packets.extend(all(3));
            assert_eq!(Rig::new(&config).burst(burst).packets(packets).run().out("o0").len(), 3);
        }
        let text = format!(
            "RatedSource(DATA \\<{}>, RATE 100, LIMIT 201, STOP true) -> CheckIP6Header
             -> e :: ICMP6Error({US}, timeexceeded, RATE 10, BURST 1) -> c :: Counter -> Discard;",
            bytes(FROM, TO, 59, 1, b"").iter().map(|b| format!("{b:02x}")).collect::<String>()
        );
        let each = format!("ICMP6Error({US}, timeexceeded, RATE 0, DST_RATE 1, DST_BURST 2)");
        let to = |host: &str| (0..4).map(|_| packet(host, TO, 17, 9, &[])).collect::<Vec<_>>();
        let packets = to("2001:db8::1").into_iter().chain(to("2001:db8::2")).collect();
        assert_eq!(Rig::new(&each).packets(packets).run().out("o0").len(), 4);
        // Two seconds of simulated time.
        assert_eq!(Rig::text(&text).run().read("c.count"), "21");
    }

    // conformance: RFC4443-2.2-b RFC8201-4-a
    #[test]
    fn arguments_and_handlers() {
        let errors = |config: &str| Rig::new(&format!("ICMP6Error({config})")).errors();
        assert_eq!(errors("::9, echo"), ["e: argument TYPE should be an ICMPv6 error type, not 'echo'"]);
        assert_eq!(
            errors("::9, unreachable, transit"),
            ["e: argument CODE should be a code of this type or its number, not 'transit'"]
        );
        assert_eq!(errors("::9, 2, MTU 1279"), ["e: MTU must be 1280 bytes or more, not 1279"]);
        assert_eq!(errors("ff02::1, 1"), ["e: SRC must be an address of this host, not ff02::1"]);
        let mut run = Rig::new("ICMP6Error(::9, 2)").run();
        run.write("e.src", "::8").unwrap();
        run.write("e.mtu", "9000").unwrap();
        assert!(run.write("e.mtu", "68").is_err());
        assert_eq!((run.read("e.src").as_str(), run.read("e.mtu").as_str()), ("::8", "9000"));
    }
}
