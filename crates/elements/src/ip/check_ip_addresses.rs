// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckIPAddresses
//!
//! `CheckIPAddresses([keywords INTERFACES, SOURCE, DESTINATION, DIRECTED_BROADCAST, ECHO, ADDRESSES])`
//!
//! Lets only IP packets pass whose addresses make sense on the Internet: filters Martians and directed broadcasts. Stands
//! behind CheckIPHeader.
//!
//! **Ports:** 1 input; output 0 for packets with possible addresses; output 1, if connected, for others, about which no
//! ICMP error should be sent.
//!
//! **Arguments**
//! * `INTERFACES` addresses with prefix of the router's interfaces. Nobody else may send from the router's own addresses.
//!   The first and the last address of each network are impossible sources, too; the first is an impossible destination,
//!   and the last is the network's broadcast. Networks of one or two addresses have neither (RFC 3021).
//! * `SOURCE` boolean, default true: checks sources. Impossible are networks 0 and 127, and 224.0.0.0 and beyond.
//! * `DESTINATION` boolean, default true: checks destinations. Impossible are networks 0 and 127, and 240.0.0.0 and
//!   beyond but for 255.255.255.255.
//! * `DIRECTED_BROADCAST` boolean, default false (RFC 2644): lets broadcasts to the networks of INTERFACES pass.
//! * `ECHO` boolean, default false: lets the router's own BFD echo packets pass, which neighbours send back: UDP to port 3785 between own
//!   addresses (RFC 5881, 4).
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The IPv4 addresses that the kernel has there
//!   at the moment take the place of INTERFACES.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata read:** network header position.
//!
//! **Drops** (when output 1 is not connected): `martian-source`, `own-source`, `martian-destination`,
//! `directed-broadcast`; `too-short` for packets without marked IP header. The first five are printed with their addresses.
//!
//! **Handlers**
//! * `drops` read: packets that did not pass.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> CheckIPAddresses(INTERFACES 10.0.0.1/24) -> Discard;
//! ```
//!
//! See also: BFD, CheckIPHeader, CheckReversePath, DropBroadcasts. RFC 1812 (4.2.2.11, 4.2.3.1, 5.3.5, 5.3.7), RFC 2644, RFC 3021

use std::cell::Cell;
use std::net::Ipv4Addr;

use element::args::{Args, Raw};
use element::clock::Nanos;
use element::program::{HeaderCheck, Headers, Op, Program, Rows, Version};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::{Protocol, bfd, ipv4, udp};

use super::header;
use crate::io::addresses::LinkAddresses;

/// The descriptor.
pub const CLASS: Class = Class::new("CheckIPAddresses", "1/1-2", || Box::new(CheckIpAddresses::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckIpAddresses:
        sum "drops" => .bad;
    })
    .hot_swap::<CheckIpAddresses>()
    .rehearsal::<CheckIpAddresses>()
    .file(file!());

/// The timer for looks at addresses.
const LOOK: u32 = 0;
/// Packets about which something is printed.
const PRINTED: u64 = 5;

#[derive(Clone, Default)]
pub(crate) struct CheckIpAddresses {
    rules: Rules,
    addresses: LinkAddresses,
    bad: Count,
}

/// What is checked.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    source: bool,
    destination: bool,
    directed: bool,
    echo: bool,
    /// First and last addresses of the networks.
    ends: Vec<[u32; 2]>,
    /// The router's own addresses, sorted.
    own: Vec<u32>,
    /// What addresses may be, so that hardly any packet needs a closer look.
    doubts: Doubts,
}

/// By the value of a byte, what an address may be that has it.
#[derive(Clone)]
struct Doubts([u8; 256]);

/// It may be in either list, if this is the last byte.
const LISTED: u8 = 1;
/// No source has it as its first byte.
const NO_SOURCE: u8 = 2;
/// Hardly any destination has it as its first byte.
const NO_DESTINATION: u8 = 4;

impl Default for Doubts {
    fn default() -> Doubts {
        Doubts(std::array::from_fn(|byte| match byte {
            0 | 127 | 240.. => NO_SOURCE | NO_DESTINATION,
            224.. => NO_SOURCE,
            _ => 0,
        }))
    }
}

impl Doubts {
    #[inline(always)]
    fn has(&self, byte: u8, doubt: u8) -> bool {
        self.0[usize::from(byte)] & doubt != 0
    }
}

impl Rules {
    #[inline]
    fn judge(&self, packet: &Packet) -> Result<(), Reason> {
        match self.judge_header(header(packet).ok_or(Reason::TooShort)?) {
            Err(Reason::OwnSource) if self.echo && self.is_echo(packet) => Ok(()),
            judged => judged,
        }
    }

    /// Whether a packet from an own address is a BFD echo packet to an own address, that a neighbour has sent back.
    #[cold]
    fn is_echo(&self, packet: &Packet) -> bool {
        let ip = packet.network().and_then(|ip| ipv4::View::new_checked(ip).ok());
        ip.is_some_and(|ip| {
            let is_whole = ip.protocol() == Protocol::UDP && ip.fragment() & 0x3fff == 0;
            let port = udp::View::new_checked(ip.payload()).map(|datagram| datagram.dst_port());
            is_whole
                && ip.ttl() >= 254
                && port == Ok(bfd::PORT_ECHO)
                && self.own.binary_search(&ip.dst().into()).is_ok()
        })
    }

    #[inline]
    fn judge_header(&self, header: &[u8; 20]) -> Result<(), Reason> {
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        if self.source {
            if matches!(header[12], 0 | 127 | 224..) {
                return Err(Reason::MartianSource);
            }
            if self.doubts.has(header[15], LISTED) {
                self.judge_source(source)?;
            }
        }
        if self.destination && (matches!(header[16], 0 | 127) || header[16] >= 240 && destination != u32::MAX)
        {
            return Err(Reason::MartianDestination);
        }
        if self.doubts.has(header[19], LISTED) { self.judge_destination(destination) } else { Ok(()) }
    }

    fn judge_source(&self, source: u32) -> Result<(), Reason> {
        if self.own.binary_search(&source).is_ok() {
            Err(Reason::OwnSource)
        } else if self.ends.iter().any(|ends| ends.contains(&source)) {
            Err(Reason::MartianSource)
        } else {
            Ok(())
        }
    }

    fn judge_destination(&self, to: u32) -> Result<(), Reason> {
        if self.destination && self.ends.iter().any(|[first, _]| *first == to) {
            Err(Reason::MartianDestination)
        } else if !self.directed && self.ends.iter().any(|[_, last]| *last == to) {
            Err(Reason::DirectedBroadcast)
        } else {
            Ok(())
        }
    }

    /// Adds the addresses of an interface to the lists.
    fn add(&mut self, interface: wire::AddrMask4) {
        self.own.push(interface.addr.into());
        if let (Some(net), Some(last)) = (interface.prefix(), interface.broadcast()) {
            self.ends.push([net.addr().into(), last.into()]);
        }
    }

    /// Sorts the lists, once all interfaces are known.
    fn complete(&mut self) {
        self.ends.sort_unstable();
        self.ends.dedup();
        self.own.sort_unstable();
        self.own.dedup();
        for address in self.ends.iter().flatten().chain(&self.own) {
            self.doubts.0[usize::from(*address as u8)] |= LISTED;
        }
    }
}

impl Rules {
    /// Whether it takes a closer look at these addresses, in network and in host order, to tell that they are good.
    #[inline(always)]
    fn may_be_bad(&self, source: u32, destination: u32) -> bool {
        let [first, .., last] = source.to_le_bytes();
        let [to_first, .., to_last] = destination.to_be_bytes();
        let has = |byte, doubt| self.doubts.has(byte, doubt);
        has(first, NO_SOURCE) | has(last, LISTED) | has(to_first, NO_DESTINATION) | has(to_last, LISTED)
    }
}

impl HeaderCheck for Rules {
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows {
        let doubtful = match headers.addresses() {
            Some([sources, to]) => rows.filter(|row| self.may_be_bad(sources[row], to[row])),
            None => rows,
        };
        rows.before(headers.refused(doubtful, |header| self.judge_header(header).is_err()))
    }
}

#[cold]
fn reject(bad: &mut u64, cx: &mut Cx<'_>, packet: Packet, reason: Reason) {
    if *bad < PRINTED
        && let Some(h) = header(&packet)
    {
        let (source, to) = ([h[12], h[13], h[14], h[15]], [h[16], h[17], h[18], h[19]]);
        let (source, to) = (Ipv4Addr::from(source), Ipv4Addr::from(to));
        cx.print(&format!("{}: {reason}: {source} > {to}", cx.name()));
    }
    *bad += 1;
    cx.push_one_or_drop(1, packet, reason);
}

impl Element for CheckIpAddresses {
    fn configure(&mut self, args: &mut Args<'_>) {
        let interfaces: Option<Raw> = args.keyword_opt("INTERFACES");
        let rules = &mut self.rules;
        rules.source = args.keyword("SOURCE", true);
        rules.destination = args.keyword("DESTINATION", true);
        rules.directed = args.keyword("DIRECTED_BROADCAST", false);
        rules.echo = args.keyword("ECHO", false);
        for word in lang::config::split_words(&interfaces.unwrap_or_default().0) {
            match word.parse::<wire::AddrMask4>().ok().or_else(|| args.names.net4(word)) {
                Some(interface) if interface.prefix().is_some() => rules.add(interface),
                _ => args.error(format!("INTERFACES should be addresses with prefix length, not '{word}'")),
            }
        }
        rules.complete();
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if let Some(all) = self.addresses.look(cx, timer) {
            let Rules { source, destination, directed, echo, .. } = self.rules;
            self.rules = Rules { source, destination, directed, echo, ..Rules::default() };
            all.four().for_each(|own| self.rules.add(own));
            self.rules.complete();
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Check(Version::Four, &self.rules));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let CheckIpAddresses { rules, bad, .. } = self;
        let found = Cell::new(Reason::MartianSource);
        let good = |p: &mut Packet| rules.judge(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(good, |p| reject(bad, cx, p, found.get()));
        batch
    }
}

impl Rehearsal for CheckIpAddresses {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckIpAddresses: bad; anew rules, addresses);

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    const FINE: [u8; 4] = [1, 2, 3, 4];

    fn check(config: &str, source: [u8; 4], to: [u8; 4], want: Option<Reason>) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("CheckIPAddresses({config})")).burst(burst);
            let run =
                rig.packets(vec![datagram(9, source, to, &[], 4), datagram(9, FINE, FINE, &[], 4)]).run();
            let drops: Vec<_> = run.drops("e").iter().map(|(reason, _)| *reason).collect();
            assert_eq!(drops, want.into_iter().collect::<Vec<_>>(), "{config} {source:?} {to:?}");
            assert_eq!(run.out("o0").len(), 2 - drops.len());
        }
    }

    // conformance: RFC1812-4.2.2.11-a RFC1812-5.3.7-a RFC1812-5.3.7-b
    #[test]
    fn martian_sources() {
        let martian = Some(Reason::MartianSource);
        for source in
            [[0; 4], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [239, 9, 9, 9], [240, 0, 0, 1], [255; 4]]
        {
            check("", source, FINE, martian);
            check("SOURCE false", source, FINE, None);
        }
        let nets = "INTERFACES 10.0.0.1/24 10.1.0.1/31 10.2.0.1/32";
        for (last, want) in [(0, martian), (255, martian), (2, None)] {
            check(nets, [10, 0, 0, last], FINE, want);
        }
        check(nets, [10, 1, 0, 0], FINE, None);
        check(nets, [10, 2, 0, 0], FINE, None);
        check(nets, [10, 2, 0, 2], FINE, None);
    }

    /// Linux calls such a packet a martian, too (`fib_validate_source`).
    // conformance: RFC1812-5.3.7-a
    #[test]
    fn nobody_else_sends_from_our_addresses() {
        let own = Some(Reason::OwnSource);
        let nets = "INTERFACES 10.0.0.1/24 10.1.0.0/31 10.2.0.1/32";
        for source in [[10, 0, 0, 1], [10, 1, 0, 0], [10, 2, 0, 1]] {
            check(nets, source, FINE, own);
            check(nets, source, [10, 0, 0, 1], own);
            check(&format!("{nets}, SOURCE false"), source, FINE, None);
        }
        check(nets, [10, 1, 0, 1], [10, 1, 0, 0], None);
        check(nets, [11, 0, 0, 1], [10, 2, 0, 1], None);
    }

    #[test]
    fn own_echo_packets_come_back() {
        let echo = |to: [u8; 4], port: u16, fragment: u16| {
            let mut packet = datagram(254, [10, 0, 0, 1], to, &[], 40);
            let bytes = packet.data_mut();
            bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
            bytes[22..24].copy_from_slice(&port.to_be_bytes());
            bytes[24..26].copy_from_slice(&40u16.to_be_bytes());
            packet
        };
        let check = |more: &str, packet: Packet, passes: bool| {
            let config = format!("CheckIPAddresses(INTERFACES 10.0.0.1/24 10.1.0.1/24{more})");
            let run = Rig::new(&config).packets(vec![packet]).run();
            let drops = if passes { vec![] } else { vec![(Reason::OwnSource, 1)] };
            assert_eq!((run.out("o0").len(), run.drops("e")), (usize::from(passes), drops), "{more}");
        };
        let with = ", ECHO true";
        check(with, echo([10, 0, 0, 1], 3785, 0x4000), true);
        check(with, echo([10, 1, 0, 1], 3785, 0), true);
        check("", echo([10, 0, 0, 1], 3785, 0), false);
        check(with, echo([10, 0, 0, 1], 3784, 0), false);
        check(with, echo([10, 0, 0, 2], 3785, 0), false);
        check(with, echo([10, 0, 0, 1], 3785, 0x2000), false);
        check(with, echo([10, 0, 0, 1], 3785, 1), false);
    }

    // conformance: RFC1812-5.3.7-b RFC1812-5.3.7-c RFC1812-4.2.3.1-b
    #[test]
    fn martian_destinations() {
        for to in [[0; 4], [0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1], [255, 255, 255, 254], [10, 0, 0, 0]]
        {
            check("INTERFACES 10.0.0.1/24", FINE, to, Some(Reason::MartianDestination));
            check("INTERFACES 10.0.0.1/24, DESTINATION false", FINE, to, None);
        }
        check("", FINE, [224, 0, 0, 5], None);
        check("", FINE, [255; 4], None);
    }

    // conformance: RFC1812-5.3.5.2-a RFC1812-5.3.5.2-b
    #[test]
    fn directed_broadcasts() {
        let to = [10, 0, 3, 255];
        check("INTERFACES 10.0.0.1/22", FINE, to, Some(Reason::DirectedBroadcast));
        check("INTERFACES 10.0.0.1/22, DIRECTED_BROADCAST true", FINE, to, None);
        check("INTERFACES 10.0.3.254/31", FINE, to, None);
        check("", FINE, to, None);
    }

    #[test]
    fn says_what_was_wrong() {
        let packets = || vec![datagram(9, [127, 0, 0, 1], FINE, &[], 4), Packet::copy_of(b"x").unwrap()];
        let mut run = Rig::new("CheckIPAddresses").outputs(2).packets(packets()).run();
        assert_eq!(run.printed(), "e: martian-source: 127.0.0.1 > 1.2.3.4\n");
        assert_eq!((run.out("o1").len(), run.read("e.drops").as_str()), (2, "2"));
        assert_eq!(
            Rig::new("CheckIPAddresses(INTERFACES x)").errors(),
            ["e: INTERFACES should be addresses with prefix length, not 'x'"]
        );
    }
}
