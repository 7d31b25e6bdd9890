// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckIPHeader, CheckIPHeader2, MarkIPHeader
//!
//! `CheckIPHeader([OFFSET, keywords INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS, ADDRESSES])`
//!
//! Lets only valid IPv4 packets pass and marks their header. Checked are the version, the header length, the length
//! field, the checksum and the source address (RFC 1812, 5.2.2). Bytes beyond the IP length, such as Ethernet padding,
//! are removed. CheckIPHeader2 does not look at the checksum; MarkIPHeader looks at nothing and only marks.
//!
//! **Ports:** 1 input; output 0 for valid packets; output 1, if connected, for others.
//!
//! **Arguments**
//! * `OFFSET` bytes before the IP header, default 0.
//! * `INTERFACES` addresses with prefix of the router's interfaces: 0.0.0.0, 255.255.255.255 and each network's
//!   broadcast address become bad sources, each interface's own address a good destination. Networks of one or two
//!   addresses have no broadcast address (RFC 3021).
//! * `BADSRC` addresses that must not be sources; none without it and INTERFACES. Click's older form, the addresses
//!   in the first argument and OFFSET in the second, adds 0.0.0.0 and 255.255.255.255.
//! * `GOODDST` destinations for which the source is not looked at.
//! * `CHECKSUM` boolean, default true: check the header checksum.
//! * `VERBOSE` boolean, default false: print every bad packet's fault, not only the first.
//! * `DETAILS` boolean, default false: the handler `drop_details` counts by fault.
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The IPv4 addresses that the kernel has there
//!   at the moment take the place of INTERFACES.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata set:** network and transport header position; destination annotation.
//!
//! **Drops** (when output 1 is not connected): `too-short`, `bad-version`, `bad-header-length`, `bad-length`,
//! `bad-checksum`, `bad-source`.
//!
//! **Handlers**
//! * `drops` read: invalid packets. `drop_details` read: the same by fault, with DETAILS.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader(INTERFACES 10.0.0.1/24) -> Discard;
//! ```
//!
//! See also: Strip, GetIPAddress. RFC 791, RFC 1812

use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Raw};
use element::clock::Nanos;
use element::program::{Header4, HeaderCheck, Headers, Op, Program, Rows};
use element::{Class, Cx, Element, Handler, HandlerError, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

use crate::io::addresses::LinkAddresses;
use element::swap::{Carried, Count};

const HANDLERS: &[Handler] = handlers! { CheckIpHeader:
    sum "drops" => .faults.bad;
    tally "drop_details" => |check| check.drop_details()?;
};

/// The descriptor.
pub const CLASS: Class = Class::new("CheckIPHeader", "1/1-2", || Box::new(CheckIpHeader::new(true)))
    .processing("a/ah")
    .handlers(HANDLERS)
    .hot_swap::<CheckIpHeader>()
    .rehearsal::<CheckIpHeader>()
    .file(file!());

/// The descriptor of the variant that does not look at the checksum.
pub const WITHOUT_CHECKSUM: Class =
    Class::new("CheckIPHeader2", "1/1-2", || Box::new(CheckIpHeader::new(false)))
        .processing("a/ah")
        .handlers(HANDLERS)
        .hot_swap::<CheckIpHeader>()
        .rehearsal::<CheckIpHeader>()
        .file(file!());

/// The descriptor of the variant that only marks.
pub const MARK: Class = Class::new("MarkIPHeader", "1/1", || Box::new(MarkIpHeader::default()))
    .rehearsal::<MarkIpHeader>()
    .file(file!());

#[derive(Clone)]
pub(crate) struct CheckIpHeader {
    pub(crate) rules: Rules,
    faults: Faults,
    details: bool,
    addresses: LinkAddresses,
}

/// The timer for looks at addresses.
const LOOK: u32 = 0;

/// What is checked.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) offset: usize,
    pub(crate) checksum: bool,
    /// In host order.
    bad_sources: Vec<u32>,
    /// Whether a source with this last byte may be bad, so that hardly any good source needs the list.
    bad_last_bytes: [bool; 256],
    good_destinations: Vec<u32>,
    /// Bad sources and good destinations that are not made of interfaces.
    said: [Vec<u32>; 2],
}

/// What was found bad.
#[derive(Clone, Default)]
pub(super) struct Faults {
    verbose: bool,
    bad: Count,
    by_fault: [Count; FAULTS.len()],
}

impl Carried for Faults {
    fn carry(&mut self, now: element::clock::Nanos, old: &mut Faults) {
        self.bad.carry(now, &mut old.bad);
        self.by_fault.carry(now, &mut old.by_fault);
    }
}

/// Reasons of this element, in the order in which they are looked for.
const FAULTS: [Reason; 6] = [
    Reason::TooShort,
    Reason::BadVersion,
    Reason::BadHeaderLength,
    Reason::BadLength,
    Reason::BadChecksum,
    Reason::BadSource,
];

impl CheckIpHeader {
    fn new(checksum: bool) -> CheckIpHeader {
        CheckIpHeader {
            rules: Rules::new(checksum),
            faults: Faults::default(),
            details: false,
            addresses: LinkAddresses::default(),
        }
    }
}

impl Rules {
    /// Nothing but the header's form, and its checksum or not.
    pub(super) fn new(checksum: bool) -> Rules {
        Rules {
            offset: 0,
            checksum,
            bad_sources: Vec::new(),
            bad_last_bytes: [false; 256],
            good_destinations: Vec::new(),
            said: Default::default(),
        }
    }

    /// Reads the offset, or Click's older arguments, bad sources before the offset.
    fn read_offset(&mut self, args: &mut Args<'_>) {
        if let Some(offset) = args.keyword_opt::<u16>("OFFSET") {
            self.offset = offset.into();
        }
        let Some(Raw(first)) = args.positional_opt("OFFSET") else { return };
        if let Some(offset) = element::parse_integer(&first).and_then(|n| u16::try_from(n).ok()) {
            self.offset = offset.into();
            return;
        }
        self.set_bad_sources(args, &lossy(&first));
        self.offset = args.positional("OFFSET", 0);
    }

    /// Takes a list of bad sources in its older form, without the two addresses that never are good ones.
    pub(super) fn set_bad_sources(&mut self, args: &mut Args<'_>, text: &str) {
        self.bad_sources = addresses(args, "BADSRC", text);
        self.bad_sources.extend([0, u32::MAX]);
    }

    /// Reads INTERFACES, BADSRC and GOODDST, after `positional` has read what is given by position.
    pub(super) fn configure(&mut self, args: &mut Args<'_>, positional: fn(&mut Rules, &mut Args<'_>)) {
        let interfaces: Option<Raw> = args.keyword_opt("INTERFACES");
        let bad: Option<Raw> = args.keyword_opt("BADSRC");
        let good: Option<Raw> = args.keyword_opt("GOODDST");
        positional(self, args);
        if let Some(Raw(text)) = bad {
            self.bad_sources = addresses(args, "BADSRC", &text);
        }
        if let Some(Raw(text)) = good {
            self.good_destinations = addresses(args, "GOODDST", &text);
        }
        self.said = [self.bad_sources.clone(), self.good_destinations.clone()];
        match interfaces {
            Some(Raw(text)) => self.read_interfaces(args, &text),
            None => self.complete(),
        }
    }

    /// Reads the list of interfaces: `18.26.4.1/24 18.26.7.1/24`.
    fn read_interfaces(&mut self, args: &mut Args<'_>, text: &str) {
        let mut interfaces = Vec::new();
        for word in lang::config::split_words(text) {
            match word.parse::<wire::AddrMask4>().ok().or_else(|| args.names.net4(word)) {
                Some(interface) => interfaces.push(interface),
                None => {
                    let why = format!("INTERFACES should be addresses with prefix length, not '{word}'");
                    return args.bad("INTERFACES", why);
                }
            }
        }
        self.set_interfaces(interfaces.into_iter());
    }

    /// Takes the router's interfaces, in place of those from before.
    fn set_interfaces(&mut self, interfaces: impl Iterator<Item = wire::AddrMask4>) {
        [self.bad_sources, self.good_destinations] = self.said.clone();
        self.bad_sources.extend([0, u32::MAX]);
        for interface in interfaces {
            self.bad_sources.extend(interface.broadcast().map(u32::from));
            self.good_destinations.push(interface.addr.into());
        }
        self.complete();
    }

    /// Makes what is looked at first, once all addresses are known.
    fn complete(&mut self) {
        self.bad_sources.sort_unstable();
        self.bad_sources.dedup();
        self.bad_last_bytes = [false; 256];
        for last in self.bad_sources.iter().map(|s| *s as u8) {
            self.bad_last_bytes[usize::from(last)] = true;
        }
    }

    /// Checks a packet, marks its header and trims what lies behind its IP length.
    #[inline]
    pub(super) fn check(&self, packet: &mut Packet) -> Result<(), Reason> {
        let offset = self.offset;
        let data = packet.data();
        let Some(header) = data.get(offset..).and_then(|d| d.first_chunk::<20>()) else {
            return Err(Reason::TooShort);
        };
        let available = data.len() - offset;
        let header_len = usize::from(header[0] & 15) * 4;
        let ip_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // The ordinary packet, by one comparison; what fails it is examined further.
        if header[0] == 0x45 {
            if ip_len < 20 || ip_len > available {
                return Err(Reason::BadLength);
            }
            if self.checksum && !wire::checksum::header20_ok(header) {
                return Err(Reason::BadChecksum);
            }
        } else {
            if header[0] >> 4 != 4 {
                return Err(Reason::BadVersion);
            }
            if header_len < 20 || header_len > available {
                return Err(Reason::BadHeaderLength);
            }
            if ip_len < header_len || ip_len > available {
                return Err(Reason::BadLength);
            }
            if self.checksum && wire::checksum::internet(&data[offset..offset + header_len]) != 0 {
                return Err(Reason::BadChecksum);
            }
        }
        if self.may_be_bad_source(header[15]) && !self.is_good_source(header) {
            return Err(Reason::BadSource);
        }
        let destination = [header[16], header[17], header[18], header[19]];
        packet.set_network(offset, header_len);
        packet.set_dst_ip(destination);
        if available > ip_len {
            packet.trim(available - ip_len);
        }
        Ok(())
    }
}

impl Rules {
    /// What ordinary packets are asked for.
    pub(super) fn program(&self) -> Header4<'_> {
        let Rules { offset, checksum, bad_last_bytes: suspects, .. } = self;
        Header4 { offset: *offset, checksum: *checksum, suspects, check: self }
    }

    /// Whether it takes a look at the list to tell whether a source address with this last byte may be one.
    #[inline(always)]
    fn may_be_bad_source(&self, last: u8) -> bool {
        self.bad_last_bytes[usize::from(last)]
    }

    /// Whether the source address may be one, or the destination excuses it.
    #[cold]
    fn is_good_source(&self, header: &[u8; 20]) -> bool {
        let address = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        !self.bad_sources.contains(&address(12)) || self.good_destinations.contains(&address(16))
    }
}

impl HeaderCheck for Rules {
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows {
        headers.while_all(rows, |header| self.is_good_source(header))
    }
}

impl Faults {
    /// Invalid packets so far.
    pub(super) fn count(&self) -> u64 {
        *self.bad
    }

    #[cold]
    pub(super) fn reject(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: Reason) {
        let told = || format!("{}: IP header check failed: {}", cx.name(), text(reason));
        match self.verbose {
            true => cx.print(&told()),
            false if self.bad == 0 => cx.print_once(&told()),
            false => {}
        }
        self.bad += 1;
        if let Some(at) = FAULTS.iter().position(|f| *f == reason) {
            self.by_fault[at] += 1;
        }
        cx.push_one_or_drop(1, packet, reason);
    }
}

impl CheckIpHeader {
    fn drop_details(&self) -> Result<String, HandlerError> {
        if !self.details {
            return Err(HandlerError::failed("drop_details needs the argument DETAILS true"));
        }
        Ok(FAULTS
            .iter()
            .zip(self.faults.by_fault)
            .map(|(fault, n)| format!("{n}\t{}\n", text(*fault)))
            .collect())
    }
}

impl Element for CheckIpHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.rules.checksum = args.keyword("CHECKSUM", self.rules.checksum);
        self.faults.verbose = args.keyword("VERBOSE", false);
        self.details = args.keyword("DETAILS", false);
        self.rules.configure(args, Rules::read_offset);
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if let Some(all) = self.addresses.look(cx, timer) {
            self.rules.set_interfaces(all.four());
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Header4(self.rules.program()));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (rules, faults) = (&self.rules, &mut self.faults);
        let found = std::cell::Cell::new(Reason::TooShort);
        let good = |p: &mut Packet| rules.check(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(good, |p| faults.reject(cx, p, found.get()));
        batch
    }
}

impl Rehearsal for CheckIpHeader {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckIpHeader: faults; anew rules, details, addresses);

/// The name of a fault in Click's messages.
fn text(fault: Reason) -> &'static str {
    match fault {
        Reason::TooShort => "tiny packet",
        Reason::BadVersion => "bad IP version",
        Reason::BadHeaderLength => "bad IP header length",
        Reason::BadLength => "bad IP length",
        Reason::BadChecksum => "bad IP checksum",
        _ => "bad source address",
    }
}

fn lossy(text: &str) -> String {
    String::from_utf8_lossy(&lang::config::unquote(text)).into_owned()
}

fn addresses(args: &mut Args<'_>, name: &str, text: &str) -> Vec<u32> {
    let mut list = Vec::new();
    for word in lang::config::split_words(text) {
        match Ipv4Addr::from_arg(word, args.names) {
            Ok(address) => list.push(u32::from(address)),
            Err(_) => {
                args.bad(name, format!("{name} should be a list of IPv4 addresses, not '{word}'"));
                break;
            }
        }
    }
    list
}

#[derive(Clone, Default)]
struct MarkIpHeader {
    offset: usize,
}

impl Element for MarkIpHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.positional("OFFSET", 0);
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let header_len = packet.data().get(self.offset).map_or(20, |first| usize::from(first & 15) * 4);
            packet.set_network(self.offset, header_len);
        }
        batch
    }
}

impl Rehearsal for MarkIpHeader {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, seal};
    use super::*;
    use crate::testing::Rig;

    fn good() -> Vec<u8> {
        datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[], 8).data().to_vec()
    }

    /// A good packet with one fault.
    fn broken(fault: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = good();
        fault(&mut bytes);
        bytes
    }

    fn faults() -> Vec<(Vec<u8>, Reason)> {
        vec![
            (good()[..19].to_vec(), Reason::TooShort),
            (broken(|b| b[0] = 0x65), Reason::BadVersion),
            (broken(|b| b[0] = 0x44), Reason::BadHeaderLength),
            (broken(|b| b[0] = 0x4f), Reason::BadHeaderLength),
            (broken(|b| b[3] = 19), Reason::BadLength),
            (broken(|b| b[2] = 1), Reason::BadLength),
            (broken(|b| b[10] ^= 1), Reason::BadChecksum),
            (
                broken(|b| {
                    b[12..16].fill(255);
                    seal(b);
                }),
                Reason::BadSource,
            ),
            (
                broken(|b| {
                    b[12..16].copy_from_slice(&[10, 0, 0, 255]);
                    seal(b);
                }),
                Reason::BadSource,
            ),
        ]
    }

    #[test]
    fn good_packets_pass_marked_and_trimmed() {
        let options = datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[1; 8], 8).data().to_vec();
        let padded = broken(|b| b.extend([0; 18]));
        for burst in [1, 32] {
            let run = Rig::new("CheckIPHeader").burst(burst).inputs(&[&good(), &options, &padded]).run();
            let out = run.out("o0");
            assert_eq!(out.iter().map(|p| p.len()).collect::<Vec<_>>(), [28, 36, 28]);
            assert!(out.iter().all(|p| p.dst_ip() == [5, 6, 7, 8]));
            assert_eq!(
                out.iter().map(|p| p.transport_offset()).collect::<Vec<_>>(),
                [Some(20), Some(28), Some(20)]
            );
        }
    }

    // conformance: RFC1812-4.2.2.5-a RFC1812-4.2.2.11-a RFC1812-5.2.2-a RFC1812-5.2.2-b RFC1812-5.2.2-c RFC1812-5.2.2-d RFC1812-5.2.2-e RFC1812-5.2.2-g
    #[test]
    fn each_fault_has_its_reason() {
        for (bytes, reason) in faults() {
            let run = Rig::new("CheckIPHeader(INTERFACES 10.0.0.1/24)").inputs(&[&bytes]).run();
            assert_eq!(run.drops("e"), [(reason, 1)]);
            assert_eq!(run.out("o0").len(), 0);
        }
    }

    #[test]
    fn bad_packets_leave_by_output_1_in_order() {
        let all = faults();
        let mixed: Vec<&[u8]> = all.iter().map(|f| &f.0[..]).collect();
        let config = "CheckIPHeader(INTERFACES 10.0.0.1/24, DETAILS true)";
        let mut run = Rig::new(config).outputs(2).inputs(&mixed).run();
        assert_eq!(run.bytes("o1"), mixed);
        assert_eq!((run.read("e.drops").as_str(), run.drops("e")), ("9", vec![]));
        assert!(run.read("e.drop_details").contains("2\tbad IP length\n"));
    }

    #[test]
    fn options_to_the_check() {
        let offset = [&[0; 14][..], &good()].concat();
        let run = Rig::new("CheckIPHeader(14)").inputs(&[&offset]).run();
        assert_eq!(run.out("o0")[0].network_offset(), Some(14));
        let bad_sum = broken(|b| b[10] ^= 1);
        for config in ["CheckIPHeader(CHECKSUM false)", "CheckIPHeader2"] {
            assert_eq!(Rig::new(config).inputs(&[&bad_sum]).run().out("o0").len(), 1);
        }
        let from_nowhere = datagram(9, [0; 4], [5, 6, 7, 8], &[], 0).data().to_vec();
        let older = [&[0; 2][..], &from_nowhere].concat();
        let passed = |config: &str, bytes: &[u8]| Rig::new(config).inputs(&[bytes]).run().out("o0").len();
        assert_eq!(passed("CheckIPHeader", &from_nowhere), 1);
        assert_eq!(passed("CheckIPHeader(BADSRC 0.0.0.0)", &from_nowhere), 0);
        assert_eq!(passed("CheckIPHeader(18.26.4.255 18.26.7.255, 2)", &older), 0);
        assert_eq!(
            Rig::new("CheckIPHeader(INTERFACES x)").errors(),
            ["e: INTERFACES should be addresses with prefix length, not 'x'"]
        );
    }

    /// Networks of one or two addresses have hosts only (RFC 3021); a mask may also be written out.
    // conformance: RFC1812-4.2.2.11-a
    #[test]
    fn links_of_two_hosts_have_no_broadcast_address() {
        let from = |source: [u8; 4]| datagram(64, source, [5, 6, 7, 8], &[], 8).data().to_vec();
        let cases: [(&str, [u8; 4], bool); 9] = [
            ("10.0.0.0/31", [10, 0, 0, 0], true),
            ("10.0.0.0/31", [10, 0, 0, 1], true),
            ("10.0.0.1/31", [10, 0, 0, 0], true),
            ("10.0.0.0/255.255.255.254", [10, 0, 0, 1], true),
            ("10.0.0.1/32", [10, 0, 0, 1], true),
            ("10.0.0.3/31", [255; 4], false),
            ("10.0.0.1/31", [0; 4], false),
            ("10.0.0.1/30", [10, 0, 0, 3], false),
            ("10.0.0.1/30", [10, 0, 0, 2], true),
        ];
        let combo = |net: &str| format!("IPInputCombo(1, INTERFACES {net})");
        for (net, source, good) in cases {
            for class in ["CheckIPHeader", "CheckIPHeader2"] {
                let run = Rig::new(&format!("{class}(INTERFACES {net})")).inputs(&[&from(source)]).run();
                assert_eq!(run.out("o0").len() == 1, good, "{class} {net} {source:?}");
            }
            let frame = [&[0; 14][..], &from(source)].concat();
            let run = Rig::new(&combo(net)).inputs(&[&frame]).run();
            assert_eq!(run.out("o0").len() == 1, good, "IPInputCombo {net} {source:?}");
        }
    }

    #[test]
    fn marking_looks_at_nothing() {
        let run = Rig::new("MarkIPHeader(1)").inputs(&[&[0, 0x46, 9], &[]]).run();
        let marks: Vec<_> =
            run.out("o0").iter().map(|p| (p.network_offset(), p.transport_offset())).collect();
        assert_eq!(marks, [(Some(1), Some(25)), (Some(1), Some(21))]);
    }
}
