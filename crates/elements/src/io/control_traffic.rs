// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ControlTraffic
//!
//! `ControlTraffic([keywords LIMIT, LIMITED])`
//!
//! Separates the messages of control protocols from other frames, and limits each protocol on its own.
//!
//! Put it before the way to the host's own stack, and give its output 0 a queue of its own. A flood of other packets then takes no
//! hello's place, and a flood of one protocol takes no place of another's. IPRouter and its relatives do so for each interface.
//!
//! **Ports:** 1 input, for Ethernet frames; output 0: control messages; output 1: other IP packets; output 2: other frames.
//!
//! **Arguments**
//! * `LIMIT PROTOCOL RATE`: how many messages of a protocol pass in a second; 0 is no limit. May be repeated.
//! * `LIMITED` boolean, default true: whether there are limits for the protocols without LIMIT.
//!
//! | protocol | messages | per second |
//! |---|---|---|
//! | `arp` | ARP | 2000 |
//! | `nd` | neighbour discovery with router advertisements, at hop limit 255 | 2000 |
//! | `multicast` | IGMP, multicast listener discovery, PIM | 2000 |
//! | `ospf` | OSPF of both versions | 5000 |
//! | `isis` | IS-IS, which has no IP header | 5000 |
//! | `bgp` | TCP from or to port 179 | 20000 |
//! | `ldp` | TCP and UDP from or to port 646 | 20000 |
//! | `bfd` | UDP to ports 3784, 3785, 4784, 6784; the first two at TTL 255 | 10000 |
//! | `vrrp` | VRRP at TTL 255, CARP | 2000 |
//! | `rip` | UDP to ports 520 (RIP), 521 (RIPng) and 6696 (Babel) | 2000 |
//! | `dhcp` | UDP to ports 67, 68, 546 and 547 | 2000 |
//! | `rsvp` | RSVP | 2000 |
//! | `eigrp` | EIGRP | 2000 |
//! | `link` | LLDP, CDP, LACP and its relatives, spanning trees, 802.1X | 1000 |
//!
//! A twentieth of these may come at once. Who may send from elsewhere cannot use up the limits of protocols that ask for TTL 255:
//! such packets from elsewhere leave by output 1. So do later fragments of UDP and TCP.
//!
//! **Cores:** one limit for all workers, without a lock.
//!
//! **Drops:** `control-rate-limited`.
//!
//! **Handlers**
//! * `count [PROTOCOL]` read: control messages that passed. `limited [PROTOCOL]` read: those that were dropped.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> c :: ControlTraffic(LIMIT bgp 50000, LIMIT ldp 100);
//! c[0] -> Queue -> [0]s :: PrioSched -> Discard;
//! c[1] -> Punt(for-us) -> q :: Queue -> [1]s;
//! c[2] -> Punt(other) -> q;
//! ```
//!
//! See also: Punt, ToHost, PrioSched, IPRouter

use std::sync::Arc;

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, Reason, Rehearsal, SharedState, Sharing, carries, handlers};
use packet::{Batch, Packet};
use wire::ethernet::{self, EtherType};
use wire::{Protocol, ipv4, ipv6};

use crate::shared_limit::SharedLimit;
use crate::tools::Splitter;

/// The descriptor.
pub const CLASS: Class = Class::new("ControlTraffic", "1/3", || Box::new(ControlTraffic::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .handlers(handlers! { ControlTraffic:
        sum "count" => |element, protocol: &str| count_of(&element.count, protocol)?;
        sum "limited" => |element, protocol: &str| count_of(&element.limited, protocol)?;
    })
    .hot_swap::<ControlTraffic>()
    .shared_state::<ControlTraffic>()
    .rehearsal::<ControlTraffic>()
    .file(file!());

/// A protocol, as a place in [`PROTOCOLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Arp,
    Nd,
    Multicast,
    Ospf,
    Isis,
    Bgp,
    Ldp,
    Bfd,
    Vrrp,
    Rip,
    Dhcp,
    Rsvp,
    Eigrp,
    Link,
}

/// Names and messages per second, in the order of [`Kind`].
const PROTOCOLS: [(&str, u64); 14] = [
    ("arp", 2000),
    ("nd", 2000),
    ("multicast", 2000),
    ("ospf", 5000),
    ("isis", 5000),
    ("bgp", 20_000),
    ("ldp", 20_000),
    ("bfd", 10_000),
    ("vrrp", 2000),
    ("rip", 2000),
    ("dhcp", 2000),
    ("rsvp", 2000),
    ("eigrp", 2000),
    ("link", 1000),
];
/// The part of a second's messages that may come at once.
const AT_ONCE: u64 = 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Control(Kind),
    Ip,
    Other,
}

impl Found {
    fn output(self) -> usize {
        match self {
            Found::Control(_) => 0,
            Found::Ip => 1,
            Found::Other => 2,
        }
    }
}

fn of_frame(frame: &[u8]) -> Found {
    let Some((header, rest)) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>() else {
        return Found::Other;
    };
    let ethertype = ethernet::Header::from_chunk(header).ethertype();
    let ip = |kind: Option<Kind>| kind.map_or(Found::Ip, Found::Control);
    match ethertype {
        EtherType::IPV4 => ip(of_ipv4(rest)),
        EtherType::IPV6 => ip(of_ipv6(rest)),
        EtherType::ARP => Found::Control(Kind::Arp),
        // 802.1X, slow protocols (LACP), LLDP.
        EtherType(0x888e | 0x8809) | EtherType::LLDP => Found::Control(Kind::Link),
        length if length.is_length() => match rest {
            // OSI network layer (ISO 9577): IS-IS among others.
            [0xfe, 0xfe, 0x03, 0x83, ..] => Found::Control(Kind::Isis),
            // Spanning trees (IEEE 802.1D); SNAP of Cisco: CDP, VTP, PVST+.
            [0x42, 0x42, 0x03, ..] | [0xaa, 0xaa, 0x03, 0x00, 0x00, 0x0c, ..] => Found::Control(Kind::Link),
            _ => Found::Other,
        },
        // Jumbo hellos of IS-IS (draft-ietf-isis-ext-eth).
        EtherType(0x8870) if rest.starts_with(&[0xfe, 0xfe, 0x03, 0x83]) => Found::Control(Kind::Isis),
        _ => Found::Other,
    }
}

fn of_ipv4(packet: &[u8]) -> Option<Kind> {
    let view = ipv4::View::new_header_checked(packet).ok()?;
    let upper = packet.get(view.header_len()..)?;
    of_protocol(view.protocol(), view.ttl(), upper, view.is_first_fragment())
}

fn of_ipv6(packet: &[u8]) -> Option<Kind> {
    let view = ipv6::View::new_header_checked(packet).ok()?;
    let payload = packet.get(ipv6::HEADER_LEN..)?;
    let upper = ipv6::upper_layer(view.next_header(), payload).ok()?;
    let first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
    of_protocol(upper.protocol, view.hop_limit(), payload.get(upper.offset..)?, first)
}

/// `first`: whether `upper` is the beginning of what the protocol sent.
fn of_protocol(protocol: Protocol, ttl: u8, upper: &[u8], first: bool) -> Option<Kind> {
    let from_next = ttl == 255;
    let ports = || {
        let ports = upper.first_chunk::<4>().filter(|_| first)?;
        Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    };
    match protocol {
        Protocol::OSPF => Some(Kind::Ospf),
        Protocol::VRRP => from_next.then_some(Kind::Vrrp),
        Protocol::IGMP | Protocol::PIM => Some(Kind::Multicast),
        Protocol(46) => Some(Kind::Rsvp),
        Protocol(88) => Some(Kind::Eigrp),
        Protocol::ICMPV6 => match upper.first().filter(|_| first)? {
            130..=132 | 143 => Some(Kind::Multicast),
            133..=137 => from_next.then_some(Kind::Nd),
            _ => None,
        },
        Protocol::TCP => match ports()? {
            (179, _) | (_, 179) => Some(Kind::Bgp),
            (646, _) | (_, 646) => Some(Kind::Ldp),
            _ => None,
        },
        Protocol::UDP => match ports()?.1 {
            520 | 521 | 6696 => Some(Kind::Rip),
            646 => Some(Kind::Ldp),
            3784 | 3785 => from_next.then_some(Kind::Bfd),
            4784 | 6784 => Some(Kind::Bfd),
            67 | 68 | 546 | 547 => Some(Kind::Dhcp),
            _ => None,
        },
        _ => None,
    }
}

type Counts = [Count; PROTOCOLS.len()];

#[derive(Default)]
struct ControlTraffic {
    limits: [Option<Arc<SharedLimit>>; PROTOCOLS.len()],
    count: Counts,
    limited: Counts,
    splitter: Splitter,
}

fn named(name: &str) -> Option<usize> {
    PROTOCOLS.iter().position(|(known, _)| *known == name)
}

/// Reads `PROTOCOL RATE`.
fn limit(text: &str) -> Option<(usize, u64)> {
    let (name, rate) = text.trim().split_once(char::is_whitespace)?;
    Some((named(name)?, rate.trim().parse().ok()?))
}

impl Element for ControlTraffic {
    fn configure(&mut self, args: &mut Args<'_>) {
        let mut rates = PROTOCOLS.map(|(_, rate)| rate);
        if !args.keyword("LIMITED", true) {
            rates.fill(0);
        }
        for text in args.keyword_all::<String>("LIMIT") {
            match limit(&text) {
                Some((protocol, rate)) => rates[protocol] = rate,
                None => {
                    let names = PROTOCOLS.map(|(name, _)| name).join(", ");
                    args.error(format!(
                        "LIMIT should name a protocol and messages per second, as in LIMIT bgp 50000, not '{text}'; protocols are {names}"
                    ));
                }
            }
        }
        let made = |rate: u64| Arc::new(SharedLimit::new(rate, (rate / AT_ONCE).max(1)));
        self.limits = rates.map(|rate| (rate > 0).then(|| made(rate)));
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now = cx.now();
        let ControlTraffic { limits, count, limited, splitter } = self;
        let passes = |packet: &mut Packet| {
            let Found::Control(kind) = of_frame(packet.data()) else { return true };
            let kind = kind as usize;
            let passes = limits[kind].as_ref().is_none_or(|limit| limit.allows(now));
            (if passes { &mut *count } else { &mut *limited })[kind] += 1;
            passes
        };
        batch.partition(passes, |packet| cx.drop(Reason::ControlRateLimited, packet));
        splitter.split(cx, batch, |packet| of_frame(packet.data()).output());
    }
}

impl Rehearsal for ControlTraffic {
    fn copy(&self) -> Option<Box<dyn Element>> {
        // As if within the limits, which the copy would share.
        let (count, limited) = (self.count, self.limited);
        Some(Box::new(ControlTraffic { count, limited, ..ControlTraffic::default() }))
    }
}

impl SharedState for ControlTraffic {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(ControlTraffic { limits: self.limits.clone(), ..ControlTraffic::default() }))
    }
}

carries!(ControlTraffic: limits, count, limited; anew splitter);

/// The count of a protocol, or of all.
fn count_of(counts: &[Count], protocol: &str) -> Result<u64, HandlerError> {
    match protocol.trim() {
        "" => Ok(counts.iter().sum()),
        protocol => Ok(*counts[named(protocol).ok_or_else(|| {
            let names = PROTOCOLS.map(|(name, _)| name).join(", ");
            HandlerError::failed(format!("there is no protocol '{protocol}'; there are {names}"))
        })?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::datagram;
    use crate::ip6::samples;
    use crate::testing::Rig;

    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        [&[1, 0x80, 0xc2, 0, 0, 0x14, 2, 0, 0, 0, 0, 1], &ethertype.to_be_bytes()[..], payload].concat()
    }

    /// An IPv4 packet of a protocol at this time to live, with these first bytes behind its header.
    fn four(protocol: u8, ttl: u8, upper: &[u8]) -> Vec<u8> {
        let mut packet = datagram(ttl, [10, 0, 0, 2], [224, 0, 0, 5], &[], 24).data().to_vec();
        packet[9] = protocol;
        packet[20..20 + upper.len()].copy_from_slice(upper);
        frame(0x0800, &packet)
    }

    fn six(protocol: u8, hops: u8, upper: &[u8]) -> Vec<u8> {
        frame(0x86dd, &samples::bytes("fe80::2", "ff02::5", protocol, hops, upper))
    }

    fn ports(from: u16, to: u16) -> Vec<u8> {
        [from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat()
    }

    #[test]
    fn messages_are_told_apart() {
        let control = |kind: &str, frame: &[u8]| {
            let found = match of_frame(frame) {
                Found::Control(kind) => PROTOCOLS[kind as usize].0,
                Found::Ip => "ip",
                Found::Other => "other",
            };
            assert_eq!(found, kind, "{frame:02x?}");
        };
        let rows: [(&str, u8, u8, Vec<u8>); 23] = [
            ("ospf", 89, 1, vec![]),
            ("vrrp", 112, 255, vec![]),
            ("ip", 112, 254, vec![]),
            ("multicast", 103, 1, vec![]),
            ("rsvp", 46, 9, vec![]),
            ("eigrp", 88, 1, vec![]),
            ("bgp", 6, 1, ports(179, 4000)),
            ("bgp", 6, 64, ports(4000, 179)),
            ("ip", 6, 64, ports(4000, 22)),
            ("ldp", 6, 64, ports(646, 4000)),
            ("ldp", 17, 1, ports(646, 646)),
            ("bfd", 17, 255, ports(49152, 3784)),
            ("bfd", 17, 255, ports(49152, 3785)),
            ("ip", 17, 254, ports(49152, 3784)),
            ("bfd", 17, 20, ports(49152, 4784)),
            ("rip", 17, 1, ports(520, 520)),
            ("rip", 17, 255, ports(521, 521)),
            ("dhcp", 17, 64, ports(68, 67)),
            ("dhcp", 17, 64, ports(67, 68)),
            ("dhcp", 17, 1, ports(546, 547)),
            ("ip", 17, 64, ports(53, 5353)),
            ("ip", 99, 64, vec![]),
            ("ip", 47, 64, vec![]),
        ];
        for (kind, protocol, ttl, upper) in rows {
            control(kind, &four(protocol, ttl, &upper));
            control(kind, &six(protocol, ttl, &upper));
        }
        control("multicast", &four(2, 1, &[0x16]));
        for (kind, kinds) in [("multicast", &[130u8, 131, 132, 143][..]), ("nd", &[133, 134, 135, 136, 137])]
        {
            kinds.iter().for_each(|n| control(kind, &six(58, 255, &[*n, 0, 0, 0])));
        }
        control("ip", &six(58, 64, &[135, 0, 0, 0]));
        control("ip", &six(58, 255, &[128, 0, 0, 0]));
        control("arp", &frame(0x0806, &[]));
        control("link", &frame(0x88cc, &[2, 7]));
        control("link", &frame(0x8809, &[1]));
        control("link", &frame(0x888e, &[]));
        control("link", &frame(38, &[0x42, 0x42, 3, 0]));
        control("link", &frame(60, &[0xaa, 0xaa, 3, 0, 0, 12, 0x20, 0]));
        control("isis", &frame(1497, &[0xfe, 0xfe, 3, 0x83]));
        control("isis", &frame(0x8870, &[0xfe, 0xfe, 3, 0x83]));
        control("other", &frame(60, &[0xfe, 0xfe, 3]));
        control("other", &frame(0x9000, &[1, 2, 3]));
        // Behind extension headers, and in pieces.
        control("multicast", &six(0, 1, &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0]));
        let mut piece = four(17, 1, &ports(520, 520));
        piece[14 + 7] = 1;
        control("ip", &piece);
        let piece =
            |offset: u8| six(44, 1, &[&[17, 0, 0, offset, 0, 0, 0, 1][..], &ports(521, 521)].concat());
        control("rip", &piece(1));
        control("ip", &piece(9));
    }

    #[test]
    fn cut_off_frames_are_nobodys() {
        for whole in
            [four(17, 1, &ports(520, 520)), six(58, 255, &[135, 0]), frame(60, &[0xfe, 0xfe, 3, 0x83])]
        {
            (0..whole.len()).for_each(|n| _ = of_frame(&whole[..n]));
        }
        assert_eq!((of_frame(&[0; 13]), of_frame(&frame(0x0800, &[0x45]))), (Found::Other, Found::Ip));
    }

    #[test]
    fn each_protocol_has_its_own_limit() {
        let flood = std::iter::repeat_n(four(112, 255, &[]), 5);
        let others = [four(89, 1, &[]), four(1, 64, &[]), frame(0x9000, &[0])];
        let frames: Vec<Vec<u8>> = flood.chain(others.clone()).collect();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for burst in [1, 32] {
            let rig = Rig::new("ControlTraffic(LIMIT vrrp 40)").outputs(3);
            let mut run = rig.burst(burst).inputs(&frames).run();
            assert_eq!(run.bytes("o0"), [frames[0], frames[0], frames[5]]);
            assert_eq!(
                (run.bytes("o1"), run.bytes("o2")),
                (vec![frames[6].to_vec()], vec![frames[7].to_vec()])
            );
            assert_eq!(run.drops("e"), [(Reason::ControlRateLimited, 3)]);
            for (protocol, passed, limited) in [("", "3", "3"), ("vrrp", "2", "3"), ("ospf", "1", "0")] {
                let counts = ["e.count", "e.limited"].map(|handler| run.read_with(handler, protocol));
                assert_eq!(counts, [passed, limited], "{protocol}");
            }
            assert!(run.try_read_with("e.count", "smtp").is_err());
        }
        let run = Rig::new("ControlTraffic(LIMITED false)").outputs(3).inputs(&vec![frames[0]; 3000]).run();
        assert_eq!(run.out("o0").len(), 3000);
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let errors = |text: &str| Rig::new(text).outputs(3).errors().concat();
        for text in ["LIMIT smtp 4", "LIMIT ospf", "LIMIT ospf many"] {
            let errors = errors(&format!("ControlTraffic({text})"));
            assert!(
                errors.contains("LIMIT should name a protocol") && errors.contains("ospf, isis"),
                "{errors}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_frame_is_something(frame in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120)) {
            of_frame(&frame);
        }
    }
}
