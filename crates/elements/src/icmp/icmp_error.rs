// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPError
//!
//! `ICMPError(SRC, TYPE [, CODE, BADADDRS, keywords MTU, PMTU, PMTU_ANNO, SET_FIX_ANNO, LOCAL, TOS, ONLINK, RATE, BURST,
//! DST_RATE, DST_BURST, MPLS, LSP, FOLLOW, ADDRESSES, CODE_ANNO])`
//!
//! Answers each IP packet with an ICMP error message that quotes it, where the rules allow one.
//!
//! **Ports:** 1 input, 1 output, agnostic; the message goes to the packet's source.
//!
//! **Arguments**
//! * `SRC` source address of the messages; FixIPSrc usually replaces it by the address of the interface they leave by.
//! * `TYPE` `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`, or its number.
//! * `CODE` its name for this type (`net`, `host`, `protocol`, `port`, `needfrag`, `transit`, `reassembly`,
//!   `erroratptr`, ...) or its number, default 0.
//! * `BADADDRS` list of addresses that are neither to be answered nor have been sent to by one host: subnet broadcasts.
//! * `MTU` bytes of the longest message, default 576, at least 36.
//! * `PMTU` next-hop MTU that an unreachable message with code `needfrag` reports, default 0.
//! * `PMTU_ANNO` boolean, default false: if true, such a message reports the packet's own limit, which an element like IPsecEncrypt has noted in the
//!   miscellaneous annotation.
//! * `SET_FIX_ANNO` boolean, default true: FixIPSrc shall set the source address.
//! * `LOCAL` boolean, default false: the packets are for this host. The message comes from the address that its packet was
//!   sent to, and FixIPSrc leaves it so.
//! * `TOS` the message's type of service, 0 to 255, default 0; or `copy`: that of the packet with precedence 6, and for a
//!   source quench with the packet's own precedence (RFC 1812, 4.3.2.5).
//! * `ONLINK` list of prefixes, for redirects: the packet's source and the next hop must be in the same one.
//! * `RATE` messages per second, default no limit; `BURST` of them at once, default 50.
//! * `DST_RATE` messages per second to each destination, default no limit; `DST_BURST` of them at once, default 6. Of
//!   very many destinations those are forgotten first that have had the fewest messages.
//! * `MPLS` boolean, default false: packets have MPLS labels in front of their marked IP header, as from LookupMPLS. The message lists them (RFC
//!   4950) and quotes 128 bytes; `PMTU` is reported less the labels.
//! * `LSP` boolean, default false: with MPLS, the message gets the packet's labels, TTL 255, and belongs to input 0 of LookupMPLS. So it
//!   reaches a sender to whom this router has no route (RFC 3032, 2.3.2).
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the
//!   place of PMTU. Where it cannot change, as in files, PMTU stays.
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The first IPv4 address that the kernel has there at
//!   the moment takes the place of SRC, and the networks of all that of ONLINK, if that is given.
//!   Where nobody else changes addresses, as in files, the argument stays.
//! * `CODE_ANNO` a 1-byte annotation, by offset or name, whose value takes the place of CODE: what Firewall notes.
//!
//! **Metadata:** network and transport header positions, packet type, and, for parameter problems and redirects, the
//! parameter problem and destination annotations read; set are header positions, destination, fix-source, timestamp. The VRF
//! annotation is the packet's, so the message stays in its routing table.
//!
//! **Drops:** `no-icmp-error`: no message answers ICMP errors, packets to or from broadcast, multicast and other impossible addresses, link-level
//! broadcasts, fragments but the first, and packets without a whole IP header. A redirect does not answer source-routed packets, packets to their own
//! source, nor packets that ONLINK excludes. `icmp-rate-limited`. `no-memory`.
//!
//! **Handlers**
//! * `src`, `mtu`, `pmtu` read/write: the arguments.
//!
//! A source route in the packet is reversed in the message, which then goes to the router that the packet visited last,
//! unless the parameter problem is about it. That may be this router itself, so the message should pass IPSourceRoute.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> d :: DecIPTTL -> Discard;
//! d[1] -> ICMPError(10.0.0.1, timeexceeded, transit, RATE 1000, DST_RATE 1) -> Discard;
//! ```
//!
//! See also: FixIPSrc, DecIPTTL, IPFragmenter, IPGWOptions, IPSourceRoute. RFC 792, RFC 1122 (3.2.2), RFC 1191, RFC 1812 (4.3.2), RFC 4884, RFC 4950

use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Names};
use element::swap::Continued;
use element::{
    Class, Cx, Element, HandlerError, InitCx, LockUse, Locking, Reason, Rehearsal, SharedState, carries,
    handlers,
};
use packet::{Batch, HEADROOM, Packet, PacketType, anno};
use wire::icmpv4::Type;
use wire::ipv4::options::kind;

use super::extension;
use super::limits::Limits;
use crate::io::addresses::LinkAddresses;
use crate::io::mtu::LinkMtu;
use crate::ip::ip_encap::Step;
use crate::ip::source_route::{reversed, source_routes};
use crate::ip::{Address, Addresses, header};
use crate::tools::{Anno, number};

/// The descriptor.
pub const CLASS: Class = Class::new("ICMPError", "1/1", || Box::new(IcmpError::default()))
    .handlers(handlers! { IcmpError:
        both "src" => .src;
        both "mtu" => .mtu |error, text: &str| {
            error.mtu = Some(number::<usize>("mtu", text)?)
                .filter(|mtu| (MTU_MIN..=65535).contains(mtu))
                .ok_or_else(|| HandlerError::bad_value("mtu", text, "36 to 65535 bytes"))?;
        };
        both "pmtu" => |error| error.pmtu(), |error, bytes: u16| error.pmtu = bytes;
    })
    .hot_swap::<IcmpError>()
    .shared_state::<IcmpError>()
    .locking::<IcmpError>()
    .rehearsal::<IcmpError>()
    .file(file!());

/// The type of service of messages.
#[derive(Clone, Copy)]
enum Tos {
    Fixed(u8),
    Copied,
}

impl FromArg for Tos {
    const EXPECTED: &'static str = "a number from 0 to 255, or 'copy'";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        if text == "copy" { Ok(Tos::Copied) } else { u8::from_arg(text, names).map(Tos::Fixed) }
    }
}

/// A list of prefixes, separated by spaces.
#[derive(Clone, Default)]
struct Prefixes(Vec<wire::Prefix4>);

impl FromArg for Prefixes {
    const EXPECTED: &'static str = "a list of IPv4 prefixes (ADDRESS/LENGTH)";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let words = text.split_ascii_whitespace();
        words.map(|word| wire::Prefix4::from_arg(word, names)).collect::<Result<_, _>>().map(Prefixes)
    }
}

#[derive(Clone)]
struct IcmpError {
    src: Ipv4Addr,
    kind: Type,
    code: u8,
    bad: Vec<Ipv4Addr>,
    mtu: usize,
    pmtu: u16,
    pmtu_anno: bool,
    code_anno: Option<Anno<1>>,
    fix: bool,
    local: bool,
    tos: Tos,
    onlink: Option<Vec<wire::Prefix4>>,
    mpls: bool,
    lsp: bool,
    follow: LinkMtu,
    addresses: LinkAddresses,
    limits: Limits,
    /// Identification of the next message.
    id: Continued<u16>,
    step: Step,
}

/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The timer by which their addresses are looked at.
const ADDRESSES: u32 = 1;
/// The least MTU: a header, the ICMP header and eight bytes.
const MTU_MIN: usize = 36;

impl Default for IcmpError {
    fn default() -> Self {
        let (src, kind) = (Ipv4Addr::UNSPECIFIED, Type::UNREACHABLE);
        IcmpError {
            src,
            kind,
            code: 0,
            bad: Vec::new(),
            mtu: 576,
            pmtu: 0,
            pmtu_anno: false,
            code_anno: None,
            fix: true,
            local: false,
            tos: Tos::Fixed(0),
            onlink: None,
            mpls: false,
            lsp: false,
            follow: LinkMtu::default(),
            addresses: LinkAddresses::default(),
            limits: Limits::default(),
            id: Continued::from(1),
            step: Step::default(),
        }
    }
}

impl IcmpError {
    /// Whether an address can be that of one host.
    fn unicast(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad.contains(&address)
    }

    /// RFC 1812, 5.3.7: whether an address can be a source.
    fn valid_source(&self, address: Ipv4Addr) -> bool {
        self.unicast(address) && !matches!(address.octets()[0], 0 | 127 | 240..)
    }

    /// RFC 1812, 4.3.2.7: whether the packet may be answered.
    fn answerable(&self, packet: &Packet) -> bool {
        let Some(ip) = header(packet) else { return false };
        let address = |at: usize| Ipv4Addr::from(ip[at..].first_chunk::<4>().copied().unwrap_or_default());
        let link = packet.packet_type();
        let whole = ip[0] >> 4 == 4
            && usize::from(ip[0] & 15) >= 5
            && packet.network().is_some_and(|n| n.len() >= usize::from(ip[0] & 15) * 4);
        whole
            && !(ip[9] == 1 && about_icmp_error(packet))
            && self.unicast(address(16))
            && !matches!(link, PacketType::Broadcast | PacketType::Multicast)
            && self.valid_source(address(12))
            && (ip[6] & 0x1f, ip[7]) == (0, 0)
            && (self.kind != Type::REDIRECT || self.may_redirect(address(12), address(16), packet))
    }

    /// RFC 1812, 5.2.7.2: whether a sender reaches the next hop directly, as far as this element is configured to know. A sender that
    /// writes to itself, as BFD's Echo function does, knows the way.
    fn may_redirect(&self, sender: Ipv4Addr, destination: Ipv4Addr, packet: &Packet) -> bool {
        let hop = packet.dst_ip().into();
        let both = |net: &wire::Prefix4| net.contains(sender) && net.contains(hop);
        sender != destination && self.onlink.as_ref().is_none_or(|nets| nets.iter().any(both))
    }

    fn tos(&self, asked: u8) -> u8 {
        match self.tos {
            Tos::Fixed(tos) => tos,
            Tos::Copied if self.kind == Type::SOURCE_QUENCH => asked & 0xfc,
            // Precedence 6; the last two bits are for congestion now (RFC 3168).
            Tos::Copied => 0xc0 | asked & 0x1c,
        }
    }

    fn answer(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Result<Packet, Reason> {
        if !self.answerable(packet) {
            return Err(Reason::NoIcmpError);
        }
        let ip = packet.network().ok_or(Reason::NoIcmpError)?;
        let header_len = usize::from(ip[0] & 15) * 4;
        let pointer = packet.anno_u8(anno::ICMP_PARAM_PROBLEM);
        let from = ip[12..].first_chunk::<4>().copied().unwrap_or_default();
        let (mut to, mut options) = (from, Vec::new());
        if let Some(route) = source_routes(&ip[..header_len]).next() {
            let pointed_at = (self.kind, self.code) == (Type::PARAMETER_PROBLEM, 0)
                && route.contains(&usize::from(pointer));
            match self.kind {
                Type::REDIRECT => return Err(Reason::NoIcmpError),
                _ if pointed_at => {}
                _ => {
                    if let Some((first, mut back)) = reversed(&ip[route], from) {
                        back.resize(back.len().next_multiple_of(4), kind::EOL);
                        (to, options) = (first, back);
                    }
                }
            }
        }
        if !self.limits.admit(cx.now(), u32::from_be_bytes(from).into()) {
            return Err(Reason::IcmpRateLimited);
        }
        let at = 20 + options.len();
        let quoted = &ip[..ip.len().min(self.mtu.saturating_sub(at + 8))];
        let stack = if self.mpls { extension::stack(packet) } else { &[] };
        let extends = self.extends(stack) && at + 8 + extension::len(stack) <= self.mtu;
        let len = if extends { extension::len(stack) } else { quoted.len() };
        let mut answer = Packet::alloc(HEADROOM, at + 8 + len).ok_or(Reason::NoMemory)?;
        let bytes = answer.data_mut();
        match extends {
            true => extension::write(&mut bytes[at + 8..], ip, stack),
            false => bytes[at + 8..].copy_from_slice(quoted),
        }
        bytes[20..at].copy_from_slice(&options);
        let mut rest = match (self.kind, self.code) {
            (Type::PARAMETER_PROBLEM, 0) => [pointer, 0, 0, 0],
            (Type::REDIRECT, _) => packet.dst_ip(),
            (Type::UNREACHABLE, 4) if self.pmtu_anno => {
                packet.anno_u32(anno::PATH_MTU).min(u16::MAX.into()).to_be_bytes()
            }
            (Type::UNREACHABLE, 4) => u32::from(self.pmtu().saturating_sub(stack.len() as u16)).to_be_bytes(),
            _ => [0; 4],
        };
        if extends {
            rest[1] = (extension::QUOTED / 4) as u8;
        }
        let icmp = &mut bytes[at..];
        let code = self.code_anno.map_or(self.code, |anno| packet.anno_u8(anno.0));
        icmp[..4].copy_from_slice(&[self.kind.0, code, 0, 0]);
        icmp[4..8].copy_from_slice(&rest);
        let sum = wire::checksum::internet(icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let asked = ip[16..].first_chunk::<4>().copied().unwrap_or_default();
        let from = if self.local { asked } else { self.src.octets() };
        self.finish(cx, &mut answer, at, ip[1], [from, to]);
        answer.set_anno_u8(anno::VRF, packet.anno_u8(anno::VRF));
        if self.lsp && !extension::push_stack(&mut answer, stack) {
            return Err(Reason::NoMemory);
        }
        Ok(answer)
    }

    /// The next-hop MTU that messages report.
    fn pmtu(&self) -> u16 {
        self.follow.or(self.pmtu.into()).min(u16::MAX.into()) as u16
    }

    /// Whether the message lists labels: those of some types do not (RFC 4884, 4).
    fn extends(&self, stack: &[u8]) -> bool {
        let has_length =
            matches!(self.kind, Type::UNREACHABLE | Type::TIME_EXCEEDED | Type::PARAMETER_PROBLEM);
        has_length && !stack.is_empty()
    }

    /// Writes the IP header of `header_len` bytes, from one address to the other, and sets the annotations.
    fn finish(
        &mut self,
        cx: &mut Cx<'_>,
        answer: &mut Packet,
        header_len: usize,
        tos: u8,
        [from, to]: [[u8; 4]; 2],
    ) {
        let bytes = answer.data_mut();
        let total = (bytes.len() as u16).to_be_bytes();
        let id = self.id.to_be_bytes();
        *self.id = self.step.next(*self.id);
        bytes[..12].copy_from_slice(&[
            0x40 | (header_len / 4) as u8,
            self.tos(tos),
            total[0],
            total[1],
            id[0],
            id[1],
            0,
            0,
            200,
            1,
            0,
            0,
        ]);
        bytes[12..16].copy_from_slice(&from);
        bytes[16..20].copy_from_slice(&to);
        let sum = wire::checksum::internet(&bytes[..header_len]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        answer.set_network(0, header_len);
        answer.set_dst_ip(to);
        if self.fix && !self.local {
            answer.set_anno_u8(anno::FIX_IP_SRC, 1);
        }
        answer.set_timestamp_ns(cx.wall());
    }
}

/// Whether the packet is an ICMP error itself, or its type is not there to be seen.
fn about_icmp_error(packet: &Packet) -> bool {
    match packet.network() {
        Some(ip) => {
            let at = usize::from(ip.first().map_or(0, |b| b & 15)) * 4;
            ip.len() < at + 4 || Type(ip[at]).is_error()
        }
        None => true,
    }
}

impl Element for IcmpError {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.src = args.required::<Address>("SRC").0;
        let kind: String = args.required("TYPE");
        let code: String = args.positional("CODE", "0".to_owned());
        self.bad = args.positional("BADADDRS", Addresses::default()).0;
        self.mtu = args.keyword("MTU", 576);
        self.pmtu = args.keyword("PMTU", 0);
        self.pmtu_anno = args.keyword("PMTU_ANNO", false);
        self.code_anno = args.keyword_opt("CODE_ANNO");
        self.fix = args.keyword("SET_FIX_ANNO", true);
        self.local = args.keyword("LOCAL", false);
        self.tos = args.keyword("TOS", Tos::Fixed(0));
        self.onlink = args.keyword_opt::<Prefixes>("ONLINK").map(|nets| nets.0);
        self.mpls = args.keyword("MPLS", false);
        self.lsp = args.keyword("LSP", false);
        self.follow = LinkMtu::from_args(args);
        self.addresses.configure(args);
        self.limits = Limits::from_args(args);
        if self.lsp && !self.mpls {
            args.error("LSP needs MPLS true: without labels there is no label switched path");
        }
        if !args.errors().is_empty() {
            return;
        }
        let small = |text: &str| element::parse_integer(text).and_then(|n| u8::try_from(n).ok());
        match Type::from_name(&kind).or(small(&kind).map(Type)) {
            Some(found) if found.is_error() => self.kind = found,
            Some(found) => args.error(format!("ICMP type {} is not an error type", found.0)),
            None => args.bad("TYPE", format!("argument TYPE should be an ICMP type, not '{kind}'")),
        }
        match self.kind.code_from_name(&code).or(small(&code)) {
            Some(code) => self.code = code,
            None => {
                let ours = format!("argument CODE should be a code of this type or its number, not '{code}'");
                args.error_as(ours, "argument 2 takes ICMP code (integer between 0 and 255)".into());
            }
        }
        if !(MTU_MIN..=65535).contains(&self.mtu) {
            args.error(format!("MTU must lie between {MTU_MIN} and 65535 bytes, not {}", self.mtu));
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.step = Step::begin(cx, &mut self.id);
        self.addresses.initialize(cx, ADDRESSES)?;
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer == ADDRESSES {
            if let Some(all) = self.addresses.look(cx, timer) {
                self.src = all.four().next().map_or(self.src, |own| own.addr);
                self.onlink = self.onlink.as_ref().map(|_| all.nets4().collect());
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
                Err(reason) => {
                    cx.drop(reason, packet);
                }
            }
        }
        answers
    }
}

impl Rehearsal for IcmpError {
    fn copy(&self) -> Option<Box<dyn Element>> {
        // Its messages are as if within the limits, which the copy would share.
        Some(Box::new(Self { limits: Limits::default(), ..self.clone() }))
    }
}

impl Locking for IcmpError {
    fn locks(&self) -> Vec<LockUse> {
        self.limits.locks()
    }
}

impl SharedState for IcmpError {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IcmpError: id, limits; anew src, kind, code, bad, mtu, pmtu, pmtu_anno, code_anno, fix, local, tos, onlink, mpls, lsp, follow, addresses, step);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{datagram, seal, sealed};
    use crate::testing::{Rig, Run};

    fn packet(options: &[u8], payload: usize) -> Packet {
        datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], options, payload)
    }

    fn run(config: &str, packet: Packet) -> Run {
        Rig::new(&format!("ICMPError({config})")).packets(vec![packet]).run()
    }

    /// The message, whose headers are sound, split at its ICMP header.
    fn answer(config: &str, packet: Packet) -> (Vec<u8>, Vec<u8>) {
        let run = run(config, packet);
        let out = run.out("o0");
        let p = &out[0];
        assert!(sealed(p.data()) && p.anno_u8(anno::FIX_IP_SRC) == 1);
        assert_eq!(p.dst_ip(), p.data()[16..20]);
        let icmp = p.transport().unwrap();
        assert_eq!(wire::checksum::internet(icmp), 0);
        (p.data()[..p.len() - icmp.len()].to_vec(), icmp.to_vec())
    }

    // conformance: RFC1812-4.3.2.2 RFC1812-4.3.2.3-a RFC1812-4.3.2.3-b RFC1812-4.2.2.11-b RFC1812-4.2.2.9-b
    #[test]
    fn quotes_the_packet() {
        let original = packet(&[], 30);
        let (ip, icmp) = answer("9.9.9.9, timeexceeded, transit", original.duplicate().unwrap());
        assert_eq!(ip[..10], [0x45, 0, 0, 78, 0, 1, 0, 0, 200, 1]);
        assert_eq!(ip[12..20], [9, 9, 9, 9, 1, 2, 3, 4]);
        assert_eq!((&icmp[..2], &icmp[4..8], &icmp[8..]), (&[11, 0][..], &[0; 4][..], original.data()));
        let (ip, icmp) = answer("9.9.9.9, 3, 1", packet(&[], 1000));
        assert_eq!((ip.len() + icmp.len(), &icmp[..2]), (576, &[3, 1][..]));
        let (ip, icmp) = answer("9.9.9.9, 3, 1, MTU 100", packet(&[], 1000));
        assert_eq!(ip.len() + icmp.len(), 100);
    }

    // conformance: RFC1812-4.3.3.1-a RFC1812-4.3.3.1-d RFC1812-4.3.3.2-c
    #[test]
    fn particulars_of_the_types() {
        let rest = |config: &str| {
            let mut p = packet(&[], 30);
            p.set_anno_u8(anno::ICMP_PARAM_PROBLEM, 21);
            p.set_dst_ip([7, 7, 7, 7]);
            let (_, icmp) = answer(config, p);
            (icmp[0], icmp[1], icmp[4..8].to_vec())
        };
        assert_eq!(rest("9.9.9.9, parameterproblem, erroratptr"), (12, 0, vec![21, 0, 0, 0]));
        assert_eq!(rest("9.9.9.9, redirect, host"), (5, 1, vec![7, 7, 7, 7]));
        assert_eq!(rest("9.9.9.9, redirect, 3"), (5, 3, vec![7, 7, 7, 7]));
        assert_eq!(rest("9.9.9.9, unreachable, needfrag, PMTU 1280"), (3, 4, vec![0, 0, 5, 0]));
        assert_eq!(rest("9.9.9.9, sourcequench"), (4, 0, vec![0; 4]));
    }

    // conformance: RFC1812-4.3.2.7-a RFC1812-4.3.2.7-b RFC1812-4.3.2.7-c RFC1812-4.3.2.7-d RFC1812-4.3.2.7-e RFC1812-4.3.2.7-f RFC5508-7-10e
    #[test]
    fn some_packets_are_not_answered() {
        let change = |f: &dyn Fn(&mut [u8])| {
            let mut p = packet(&[], 30);
            f(p.data_mut());
            seal(p.data_mut());
            p
        };
        let mut link_broadcast = packet(&[], 30);
        link_broadcast.set_packet_type(PacketType::Broadcast);
        let silent = vec![
            link_broadcast,
            change(&|b| (b[9], b[20]) = (1, 3)),
            change(&|b| b[16] = 224),
            change(&|b| b[16..20].fill(255)),
            change(&|b| b[16..20].copy_from_slice(&[10, 0, 0, 255])),
            change(&|b| b[12..16].copy_from_slice(&[10, 0, 0, 255])),
            change(&|b| b[12] = 0),
            change(&|b| b[12] = 127),
            change(&|b| b[12] = 240),
            change(&|b| b[7] = 1),
            change(&|b| b[0] = 0x65),
            Packet::copy_of(&[0x45; 30]).unwrap(),
        ];
        let n = silent.len() as u64;
        for burst in [1, 32] {
            let silent: Vec<_> = silent.iter().map(|p| p.duplicate().unwrap()).collect();
            let config = "ICMPError(9.9.9.9, unreachable, host, 10.0.0.255)";
            let run = Rig::new(config).burst(burst).packets(silent).run();
            assert_eq!(run.drops("e"), [(Reason::NoIcmpError, n)]);
        }
        let echo = change(&|b| (b[9], b[20]) = (1, 8));
        assert_eq!(run("9.9.9.9, unreachable", echo).out("o0").len(), 1);
    }

    // conformance: RFC1812-4.3.2.6-a RFC1812-4.3.2.6-b RFC1812-4.2.2.1-b RFC1812-4.2.2.1-c RFC1812-5.2.7.2-c
    #[test]
    fn source_routes_go_back() {
        // Two hops of three are done.
        let route = [0x83, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0];
        let (ip, _) = answer("9.9.9.9, timeexceeded", packet(&route, 30));
        assert_eq!(ip[16..], [2, 2, 2, 2, 0x83, 11, 4, 1, 1, 1, 1, 1, 2, 3, 4, 0]);
        // None is done, and there is a second one, which a message must not have.
        let twice = [0x83, 7, 4, 1, 1, 1, 1, 0x89, 7, 8, 2, 2, 2, 2, 0, 0];
        let (ip, _) = answer("9.9.9.9, timeexceeded", packet(&twice, 30));
        assert_eq!(ip[16..], [1, 2, 3, 4]);
        let run = run("9.9.9.9, redirect", packet(&route, 30));
        assert_eq!(run.drops("e"), [(Reason::NoIcmpError, 1)]);
        let mut faulty = packet(&route, 30);
        faulty.set_anno_u8(anno::ICMP_PARAM_PROBLEM, 22);
        assert_eq!(answer("9.9.9.9, parameterproblem", faulty).0.len(), 20);
    }

    // conformance: RFC1812-5.2.7.2-b
    #[test]
    fn redirects_are_for_neighbours_of_the_next_hop() {
        let answers = |onlink: &str, next_hop| {
            let mut p = packet(&[], 30);
            p.set_dst_ip(next_hop);
            run(&format!("9.9.9.9, redirect, host{onlink}"), p).out("o0").len()
        };
        let nets = ", ONLINK 1.2.0.0/16 7.0.0.0/8";
        assert_eq!(
            (answers(nets, [1, 2, 9, 9]), answers(nets, [7, 0, 0, 1]), answers(nets, [8, 0, 0, 1])),
            (1, 0, 0)
        );
        assert_eq!(answers("", [8, 0, 0, 1]), 1);
        let mut to_itself = packet(&[], 30);
        let source = to_itself.data()[12..16].to_vec();
        to_itself.data_mut()[16..20].copy_from_slice(&source);
        assert_eq!(run("9.9.9.9, redirect, host", to_itself).out("o0").len(), 0);
    }

    // conformance: RFC1812-4.3.2.8-a RFC1812-4.3.2.8-b RFC1812-4.3.2.8-c RFC5508-7-10f
    #[test]
    fn rates_are_limited() {
        for kind in ["sourcequench", "unreachable", "redirect", "timeexceeded", "parameterproblem"] {
            for workers in [1, 2] {
                let packets = (0..30).map(|_| packet(&[], 30)).collect();
                let rig =
                    Rig::new(&format!("ICMPError(9.9.9.9, {kind}, RATE 10, BURST 20)")).workers(workers);
                let run = rig.packets(packets).run();
                assert_eq!(run.drops("e"), [(Reason::IcmpRateLimited, 10)], "{kind}");
            }
        }
        let from = |last| datagram(9, [1, 2, 3, last], [5, 6, 7, 8], &[], 30);
        let packets = (0..30).map(|i| from(i % 3)).collect();
        let run =
            Rig::new("ICMPError(9.9.9.9, timeexceeded, DST_RATE 1, DST_BURST 2)").packets(packets).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (6, vec![(Reason::IcmpRateLimited, 24)]));
    }

    // conformance: RFC1812-4.3.2.5-a RFC1812-4.3.2.5-b RFC1812-4.3.2.5-c RFC1812-4.3.2.5-d RFC5508-7-10d
    #[test]
    fn type_of_service() {
        let tos = |config: &str| {
            let mut p = packet(&[], 30);
            p.data_mut()[1] = 0x57;
            answer(config, p).0[1]
        };
        assert_eq!(tos("9.9.9.9, unreachable"), 0);
        assert_eq!(tos("9.9.9.9, unreachable, TOS 0xe0"), 0xe0);
        assert_eq!(tos("9.9.9.9, unreachable, TOS copy"), 0xd4);
        assert_eq!(tos("9.9.9.9, sourcequench, TOS copy"), 0x54);
    }

    #[test]
    fn arguments() {
        let errors = |config: &str| Rig::new(&format!("ICMPError({config})")).errors();
        assert_eq!(errors("1.2.3.4, echo"), ["e: ICMP type 8 is not an error type"]);
        assert_eq!(errors("1.2.3.4, nonsense"), ["e: argument TYPE should be an ICMP type, not 'nonsense'"]);
        assert_eq!(
            errors("1.2.3.4, unreachable, transit"),
            ["e: argument CODE should be a code of this type or its number, not 'transit'"]
        );
        assert_eq!(errors("1.2.3.4, 3, MTU 20"), ["e: MTU must lie between 36 and 65535 bytes, not 20"]);
    }
}
