// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckIP6Header
//!
//! `CheckIP6Header([BADADDRS, OFFSET, keywords OWN, ECHO, ADDRESSES])`
//!
//! Lets only valid IPv6 packets pass and marks their header. Checked are the version, the payload length and that the
//! source address is not multicast. Bytes beyond the payload length, such as Ethernet padding, are removed.
//!
//! **Ports:** 1 input; output 0 for valid packets; output 1, if connected, for others.
//!
//! **Arguments**
//! * `BADADDRS` list of addresses that must not be sources, default none. A router adds `::1`, which never comes from a
//!   link, and may add `::`, which only neighbours use among themselves.
//! * `OFFSET` bytes before the IPv6 header, default 0.
//! * `OWN` list of the router's own addresses, default none: nobody else may send from them. A link-local address belongs
//!   here only if the element sees packets of that link alone. With OWN, sources that are IPv4 addresses written as IPv6 ones
//!   (`::ffff:0:0/96`, RFC 4291 2.5.5.2) are bad, too; without it they pass, as translators send them.
//! * `ECHO` boolean, default false: lets the router's own BFD echo packets pass, which neighbours send back: UDP to port 3785 between
//!   addresses of OWN (RFC 5881, 4).
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The IPv6 addresses that the kernel has there
//!   at the moment, but for link-local ones, take the place of OWN.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata set:** network header position; transport header position, behind the fixed header; destination
//! annotation.
//!
//! **Drops** (when output 1 is not connected): `too-short`, `bad-version`, `bad-length`, `bad-source`, `own-source`.
//!
//! **Handlers**
//! * `drops` read: invalid packets.
//!
//! The first invalid packet is reported. Jumbograms (RFC 2675) are not understood: a payload length of zero means that
//! nothing follows the header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header("::1", 0) -> Discard;
//! ```
//!
//! See also: BFD, CheckIPHeader, Strip. RFC 8200 (3), RFC 4291 (2.5.2, 2.5.3, 2.7)

use std::cell::Cell;
use std::net::Ipv6Addr;

use element::args::Args;
use element::clock::Nanos;
use element::program::{Header6, HeaderCheck, Headers, Op, Program, Rows};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet, anno};
use wire::{Protocol, bfd, udp};

use super::{Addresses, HEADER_LEN, destination, source};
use crate::io::addresses::LinkAddresses;

/// The descriptor.
pub const CLASS: Class = Class::new("CheckIP6Header", "1/1-2", || Box::new(CheckIp6Header::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckIp6Header:
        sum "drops" => .bad;
    })
    .hot_swap::<CheckIp6Header>()
    .rehearsal::<CheckIp6Header>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct CheckIp6Header {
    pub(crate) rules: Rules,
    addresses: LinkAddresses,
    bad: Count,
}

/// The timer for looks at addresses.
const LOOK: u32 = 0;

/// What is checked.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    pub(crate) offset: usize,
    bad_sources: Vec<Ipv6Addr>,
    /// Sorted.
    own: Vec<Ipv6Addr>,
    echo: bool,
}

/// How IPv4 addresses begin that are written as IPv6 ones (RFC 4291, 2.5.5.2); none comes from a link.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Rules {
    /// What is wrong with a source address, if anything is.
    #[inline]
    fn fault_of_source(&self, header: &[u8; HEADER_LEN]) -> Option<Reason> {
        if header[8] >> 5 != 1 && (header[8] == 0xff || (header[8..20] == MAPPED && !self.own.is_empty())) {
            return Some(Reason::BadSource);
        }
        let source = source(header);
        if self.bad_sources.contains(&source) {
            return Some(Reason::BadSource);
        }
        self.own.binary_search(&source).is_ok().then_some(Reason::OwnSource)
    }

    /// Checks a packet, marks its header and trims what lies behind its payload.
    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), Reason> {
        let data = packet.data();
        let Some(header) = data.get(self.offset..).and_then(|d| d.first_chunk::<HEADER_LEN>()) else {
            return Err(Reason::TooShort);
        };
        if header[0] >> 4 != 6 {
            return Err(Reason::BadVersion);
        }
        let end = self.offset + HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let Some(excess) = data.len().checked_sub(end) else { return Err(Reason::BadLength) };
        match self.fault_of_source(header) {
            Some(Reason::OwnSource) if self.echo && self.is_echo(header, data) => {}
            Some(reason) => return Err(reason),
            None => {}
        }
        let to = destination(header).octets();
        packet.set_network(self.offset, HEADER_LEN);
        packet.set_anno(anno::DST_IP, to);
        packet.trim(excess);
        Ok(())
    }

    /// Whether a packet from an own address is a BFD echo packet to an own address, that a neighbour has sent back.
    #[cold]
    fn is_echo(&self, header: &[u8; HEADER_LEN], data: &[u8]) -> bool {
        let payload = data.get(self.offset + HEADER_LEN..).unwrap_or_default();
        let port = udp::View::new_checked(payload).map(|datagram| datagram.dst_port());
        let is_udp = Protocol(header[6]) == Protocol::UDP;
        is_udp
            && header[7] >= 254
            && port == Ok(bfd::PORT_ECHO)
            && self.own.binary_search(&destination(header)).is_ok()
    }
}

impl HeaderCheck for Rules {
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows {
        headers.while_all(rows, |header| self.fault_of_source(header).is_none())
    }
}

impl CheckIp6Header {
    #[cold]
    fn reject(bad: &mut u64, cx: &mut Cx<'_>, packet: Packet, reason: Reason) {
        if *bad == 0 {
            cx.print_once(&format!("{}: IP6 header check failed: {}", cx.name(), reason.name()));
        }
        *bad += 1;
        cx.push_one_or_drop(1, packet, reason);
    }
}

impl Element for CheckIp6Header {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.rules.bad_sources = args.positional("BADADDRS", Addresses::default()).0;
        self.rules.offset = args.positional::<u16>("OFFSET", 0).into();
        self.rules.own = args.keyword("OWN", Addresses::default()).0;
        self.rules.own.sort_unstable();
        self.rules.echo = args.keyword("ECHO", false);
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if let Some(all) = self.addresses.look(cx, timer).filter(|all| all.has_six()) {
            self.rules.own = all.six().collect();
            self.rules.own.sort_unstable();
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Header6(Header6 { offset: self.rules.offset, check: &self.rules }));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (rules, bad) = (&self.rules, &mut self.bad);
        let found = Cell::new(Reason::TooShort);
        let good = |p: &mut Packet| rules.check(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(good, |p| Self::reject(bad, cx, p, found.get()));
        batch
    }
}

impl Rehearsal for CheckIp6Header {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckIp6Header: bad; anew rules, addresses);

#[cfg(test)]
mod tests {
    use super::super::samples::bytes;
    use super::*;
    use crate::testing::Rig;

    fn good() -> Vec<u8> {
        bytes("2001:db8::1", "2001:db8:1::2", 59, 64, &[7; 9])
    }

    /// A good packet with one fault.
    fn broken(fault: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = good();
        fault(&mut bytes);
        bytes
    }

    fn faults() -> Vec<(Vec<u8>, Reason)> {
        vec![
            (vec![], Reason::TooShort),
            (good()[..39].to_vec(), Reason::TooShort),
            (broken(|b| b[0] = 0x45), Reason::BadVersion),
            (broken(|b| b[5] = 10), Reason::BadLength),
            (broken(|b| b[4] = 1), Reason::BadLength),
            (broken(|b| b[8..10].copy_from_slice(&[0xff, 2])), Reason::BadSource),
            (bytes("::1", "2001:db8::2", 59, 64, &[]), Reason::BadSource),
            (bytes("::ffff:10.0.0.1", "2001:db8::2", 59, 64, &[]), Reason::BadSource),
            (bytes("2001:db8::7", "2001:db8::2", 59, 64, &[]), Reason::OwnSource),
        ]
    }

    #[test]
    fn good_packets_pass_marked_and_trimmed() {
        let padded = broken(|b| b.extend([0; 18]));
        let empty = bytes("fe80::1", "ff02::1", 59, 255, &[]);
        for burst in [1, 32] {
            let run = Rig::new("CheckIP6Header").burst(burst).inputs(&[&good(), &padded, &empty]).run();
            let out = run.out("o0");
            assert_eq!(out.iter().map(|p| p.len()).collect::<Vec<_>>(), [49, 49, 40]);
            assert!(out.iter().all(|p| (p.network_offset(), p.transport_offset()) == (Some(0), Some(40))));
            assert!(out.iter().all(|p| p.anno::<16>(anno::DST_IP)[..] == p.data()[24..40]));
        }
    }

    #[test]
    fn each_fault_has_its_reason() {
        for (bytes, reason) in faults() {
            let run =
                Rig::new("CheckIP6Header(\"::1 ::\", OWN 2001:db8::7 2001:db8:1::7)").inputs(&[&bytes]).run();
            assert_eq!(run.drops("e"), [(reason, 1)]);
            assert_eq!(run.out("o0").len(), 0);
        }
    }

    #[test]
    fn bad_packets_leave_by_output_1_in_order() {
        let all = faults();
        let mixed: Vec<&[u8]> = all.iter().map(|f| &f.0[..]).collect();
        for burst in [1, 32] {
            let rig = Rig::new("CheckIP6Header(BADADDRS ::1, OWN 2001:db8::7)").outputs(2);
            let mut run = rig.burst(burst).inputs(&mixed).run();
            assert_eq!(run.bytes("o1"), mixed);
            assert_eq!((run.read("e.drops").as_str(), run.drops("e")), ("9", vec![]));
            assert_eq!(run.printed(), "e: IP6 header check failed: too-short\n");
        }
    }

    #[test]
    fn own_echo_packets_come_back() {
        let check = |more: &str, to: &str, next: u8, port: u16, passes: bool| {
            let mut datagram = vec![0; 40];
            datagram[2..4].copy_from_slice(&port.to_be_bytes());
            datagram[5] = 40;
            let packet = bytes("2001:db8::7", to, next, 254, &datagram);
            let config = format!("CheckIP6Header(OWN 2001:db8::7 2001:db8:1::7{more})");
            let run = Rig::new(&config).inputs(&[&packet]).run();
            let drops = if passes { vec![] } else { vec![(Reason::OwnSource, 1)] };
            assert_eq!((run.out("o0").len(), run.drops("e")), (usize::from(passes), drops), "{more} {to}");
        };
        check(", ECHO true", "2001:db8::7", 17, 3785, true);
        check(", ECHO true", "2001:db8:1::7", 17, 3785, true);
        check("", "2001:db8::7", 17, 3785, false);
        check(", ECHO true", "2001:db8::7", 17, 3784, false);
        check(", ECHO true", "2001:db8::7", 6, 3785, false);
        check(", ECHO true", "2001:db8::8", 17, 3785, false);
        // One from farther away is none.
        let mut datagram = vec![0; 40];
        datagram[2..6].copy_from_slice(&[0x0e, 0xc9, 0, 40]);
        let packet = bytes("2001:db8::7", "2001:db8::7", 17, 253, &datagram);
        let run = Rig::new("CheckIP6Header(OWN 2001:db8::7, ECHO true)").inputs(&[&packet]).run();
        assert_eq!(run.drops("e"), [(Reason::OwnSource, 1)]);
    }

    #[test]
    fn behind_an_offset() {
        let offset = [&[0; 14][..], &good(), &[0; 3]].concat();
        let run = Rig::new("CheckIP6Header(OFFSET 14)").inputs(&[&offset]).run();
        let out = run.out("o0");
        assert_eq!((out[0].network_offset(), out[0].len()), (Some(14), 14 + 49));
    }

    #[test]
    fn wants_addresses() {
        let errors = |config: &str| Rig::new(&format!("CheckIP6Header({config})")).errors();
        assert_eq!(
            errors("nonsense"),
            ["e: argument BADADDRS should be a list of IPv6 addresses, not 'nonsense'"]
        );
        assert_eq!(errors("::1, 70000").len(), 1);
    }
}
