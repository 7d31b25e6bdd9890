// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file about address translation says, without its text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hosts::{self, STAND_INS};
use crate::intervals::Intervals;
use crate::journal::Log;
use crate::prefix::Prefix64;

/// The protocol number of ICMP.
pub const ICMP: u8 = 1;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// Addresses of either family, as numbers.
pub trait Address: Copy + Ord {
    /// The one before, which must exist.
    fn before(self) -> Self;

    /// The next one.
    fn after(self) -> Option<Self>;
}

impl Address for u32 {
    fn before(self) -> u32 {
        self - 1
    }

    fn after(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Address for u128 {
    fn before(self) -> u128 {
        self - 1
    }

    fn after(self) -> Option<u128> {
        self.checked_add(1)
    }
}

/// Addresses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range<A = u32> {
    /// The first.
    pub first: A,
    /// The last.
    pub last: A,
}

impl<A: Address> Range<A> {
    /// Whether an address is in it.
    #[inline]
    pub fn holds(self, address: A) -> bool {
        self.first <= address && address <= self.last
    }

    /// Whether it has an address in common with another one.
    pub fn meets(self, other: Range<A>) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl Range {
    /// How many addresses.
    pub fn count(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// The address at this place of some ranges.
pub fn nth(ranges: &[Range], mut at: u64) -> Option<u32> {
    for range in ranges {
        match at.checked_sub(range.count()) {
            None => return Some(range.first + at as u32),
            Some(rest) => at = rest,
        }
    }
    None
}

/// The place of an address in some ranges.
pub fn place(ranges: &[Range], address: u32) -> Option<u64> {
    let mut before = 0;
    for range in ranges {
        if range.holds(address) {
            return Some(before + u64::from(address - range.first));
        }
        before += range.count();
    }
    None
}

/// How a subscriber gets ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Any free port of its outside address, chosen at random (RFC 6056).
    Random,
    /// In blocks of so many ports; a subscriber has at most so many blocks (RFC 6888, REQ-14).
    Blocks {
        /// Ports of a block.
        size: u16,
        /// Blocks of a subscriber.
        most: u16,
    },
    /// Address and ports follow from the inside address (RFC 7422).
    Deterministic,
}

/// Inside addresses that are translated, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The inside addresses: each is a subscriber.
    pub inside: Vec<Range>,
    /// IPv6 addresses inside (NAT64): each network of 64 bits is a subscriber.
    pub inside6: Vec<Range<u128>>,
    /// The outside addresses; those that the interface has, if there is one.
    pub pool: Vec<Range>,
    /// The interface whose addresses these are.
    pub interface: Option<String>,
    /// The first and the last outside port.
    pub ports: (u16, u16),
    /// How they are given.
    pub allocation: Allocation,
    /// Sessions that a subscriber may have at a time.
    pub sessions_max: u32,
    /// Outside ports that a subscriber may have at a time, for each protocol.
    pub ports_max: u32,
    /// Its line in the file.
    pub line: u32,
    /// Its text.
    pub text: String,
}

impl Translation {
    /// Whether it is for an inside address.
    pub fn is_for(&self, inside: u32) -> bool {
        self.inside.iter().any(|range| range.holds(inside))
    }

    /// Whether an inside address may have an outside one.
    pub fn may_give(&self, inside: u32, outside: u32) -> bool {
        match self.allocation {
            Allocation::Deterministic => {
                self.determined(inside).is_some_and(|(address, _)| address == outside)
            }
            _ => self.pool.iter().any(|range| range.holds(outside)),
        }
    }

    /// How many ports an outside address has.
    pub fn width(&self) -> u32 {
        u32::from(self.ports.1 - self.ports.0) + 1
    }

    /// Of a deterministic one: the outside address of a subscriber, with the first and the last of its ports.
    pub fn determined(&self, inside: u32) -> Option<(u32, (u16, u16))> {
        let at = place(&self.inside, inside)?;
        let each = self.share();
        let address = nth(&self.pool, at / each)?;
        let size = u64::from(self.width()) / each;
        let first = u64::from(self.ports.0) + at % each * size;
        (size > 0).then_some((address, (first as u16, (first + size - 1) as u16)))
    }

    /// Of a deterministic one: the subscriber that has an outside address and port.
    pub fn undetermined(&self, outside: u32, port: u16) -> Option<u32> {
        let each = self.share();
        let size = u64::from(self.width()) / each;
        let offset = u64::from(port.checked_sub(self.ports.0)?).checked_div(size)?;
        if offset >= each {
            return None;
        }
        nth(&self.inside, place(&self.pool, outside)? * each + offset)
    }

    /// How many subscribers share an outside address of a deterministic one.
    pub fn share(&self) -> u64 {
        let count = |ranges: &[Range]| ranges.iter().map(|range| range.count()).sum::<u64>();
        count(&self.inside).div_ceil(count(&self.pool).max(1)).max(1)
    }
}

/// Outside ports that lead to an inside host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// TCP or UDP.
    pub protocol: u8,
    /// The outside address, or those that the interface has.
    pub outside: Vec<u32>,
    /// The interface whose addresses these are.
    pub interface: Option<String>,
    /// The first and the last outside port.
    pub ports: (u16, u16),
    /// The inside address, or the one that stands for an IPv6 host.
    pub inside: u32,
    /// The inside port that the first one leads to.
    pub port: u16,
    /// Its line in the file.
    pub line: u32,
    /// Its text.
    pub text: String,
}

impl Forward {
    /// The outside addresses as ranges.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.outside.iter().map(|address| Range { first: *address, last: *address })
    }
}

/// Inside addresses that have outside addresses of their own, one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// The inside addresses, or those that stand for IPv6 hosts.
    pub inside: Range,
    /// As many outside addresses.
    pub outside: Range,
    /// Its line in the file.
    pub line: u32,
    /// Its text.
    pub text: String,
}

/// What is not translated: packets from here to there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemption {
    /// Sources.
    pub from: Vec<Range>,
    /// Destinations.
    pub to: Vec<Range>,
}

/// Who may send to an inside host by the outside address and port that it has (RFC 4787, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everyone.
    EndpointIndependent,
    /// The addresses that it has sent to.
    AddressDependent,
    /// The addresses and ports that it has sent to.
    AddressAndPortDependent,
}

impl Filter {
    /// All, with their names.
    pub const ALL: [(&'static str, Filter); 3] = [
        ("endpoint-independent", Filter::EndpointIndependent),
        ("address-dependent", Filter::AddressDependent),
        ("address-and-port-dependent", Filter::AddressAndPortDependent),
    ];
}

pub(crate) const SECOND: u64 = 1_000_000_000;

/// How long sessions may be idle, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP that both sides have agreed on (RFC 5382, REQ-5).
    pub tcp: u64,
    /// TCP before, and after its end (RFC 5382, REQ-5; RFC 7857, 2).
    pub tcp_transitory: u64,
    /// UDP (RFC 4787, REQ-5).
    pub udp: u64,
    /// ICMP queries (RFC 5508, REQ-2).
    pub icmp: u64,
    /// Other protocols.
    pub other: u64,
    /// How long a port that everyone could send to is nobody else's after its last session (RFC 6888, REQ-8).
    pub hold: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp: 7440 * SECOND,
            tcp_transitory: 240 * SECOND,
            udp: 300 * SECOND,
            icmp: 60 * SECOND,
            other: 600 * SECOND,
            hold: 120 * SECOND,
        }
    }
}

impl Timeouts {
    /// The names of all times.
    pub const NAMES: [&'static str; 6] = ["tcp", "tcp-transitory", "udp", "icmp", "other", "hold"];

    /// The time of that name.
    pub fn named(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "tcp" => &mut self.tcp,
            "tcp-transitory" => &mut self.tcp_transitory,
            "udp" => &mut self.udp,
            "icmp" => &mut self.icmp,
            "other" => &mut self.other,
            "hold" => &mut self.hold,
            _ => return None,
        })
    }
}

/// Protocols that a translator helps with, because they say addresses or ports in their text, or use several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algs {
    /// FTP (RFC 959, RFC 2428).
    pub ftp: bool,
    /// TFTP (RFC 1350).
    pub tftp: bool,
    /// SIP over UDP (RFC 3261).
    pub sip: bool,
}

impl Default for Algs {
    fn default() -> Algs {
        Algs { ftp: true, tftp: false, sip: false }
    }
}

impl Algs {
    /// The names of all.
    pub const NAMES: [&'static str; 3] = ["ftp", "tftp", "sip"];

    /// Whether the one with this name is on.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "ftp" => Some(&mut self.ftp),
            "tftp" => Some(&mut self.tftp),
            "sip" => Some(&mut self.sip),
            _ => None,
        }
    }
}

/// Statements as they stand in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statements {
    /// Who is translated to what; the first one that is for an address decides.
    pub translations: Vec<Translation>,
    /// Addresses one by one.
    pub statics: Vec<Static>,
    /// Outside ports that lead inside.
    pub forwards: Vec<Forward>,
    /// What is left alone.
    pub exemptions: Vec<Exemption>,
    /// Behind what IPv6 hosts see IPv4 addresses; none if no IPv6 address is inside.
    pub prefix: Option<Prefix64>,
    /// IPv6 hosts of forwards and static translations: 0.0.0.1 stands for the first, 0.0.0.2 for the second one.
    pub hosts: Vec<Ipv6Addr>,
    /// The VRFs of inside hosts that statements name, by their numbers.
    pub vrfs: Vec<(u32, String)>,
    /// Who may send inward.
    pub filter: Filter,
    /// Protocols whose text is looked at.
    pub algs: Algs,
    /// How long sessions may be idle.
    pub timeouts: Timeouts,
    /// Sessions at most.
    pub sessions: usize,
    /// What is noted.
    pub log: Log,
}

/// What a file says, with the ways to find what is for an address.
#[derive(Clone, Debug)]
pub struct Policy {
    statements: Statements,
    /// Translations by inside address.
    inside: Intervals,
    inside6: Intervals<u128>,
    /// Static translations by inside address, and by outside address.
    statics: [Intervals; 2],
    /// Sources of exemptions.
    exempt: Intervals,
    /// All outside addresses.
    outside: Intervals,
}

impl std::ops::Deref for Policy {
    type Target = Statements;

    fn deref(&self) -> &Statements {
        &self.statements
    }
}

/// Ranges with the numbers of the statements that they are of.
fn numbered<'a, T, A: Address + 'a>(
    all: &'a [T],
    ranges: impl Fn(&'a T) -> &'a [Range<A>],
) -> impl Iterator<Item = (Range<A>, u32)> {
    let ranges: Vec<_> =
        all.iter().zip(0..).flat_map(|(one, n)| ranges(one).iter().map(move |range| (*range, n))).collect();
    ranges.into_iter()
}

impl Policy {
    /// The policy of these statements.
    pub fn new(statements: Statements) -> Policy {
        let mut policy = Policy {
            inside: Intervals::new(numbered(&statements.translations, |one| &one.inside)),
            inside6: Intervals::new(numbered(&statements.translations, |one| &one.inside6)),
            statics: [
                Intervals::new(numbered(&statements.statics, |one| std::slice::from_ref(&one.inside))),
                Intervals::new(numbered(&statements.statics, |one| std::slice::from_ref(&one.outside))),
            ],
            exempt: Intervals::new(numbered(&statements.exemptions, |one| &one.from)),
            outside: Intervals::default(),
            statements,
        };
        policy.outside = Intervals::new(policy.outside().into_iter().map(|range| (range, 0)));
        policy
    }

    /// The translation of an inside address, by number.
    #[inline]
    pub fn translation(&self, inside: u32) -> Option<usize> {
        self.inside.find(inside).map(|number| number as usize)
    }

    /// The translation of an IPv6 address, by number.
    pub fn translation6(&self, inside: u128) -> Option<usize> {
        self.inside6.find(inside).map(|number| number as usize)
    }

    /// An inside address as people know it: that of the IPv6 host of a statement, if it stands for one.
    pub fn known_as(&self, inside: u32) -> IpAddr {
        let host = (inside < STAND_INS).then(|| self.hosts.get((inside as usize).checked_sub(1)?)).flatten();
        host.map_or_else(|| Ipv4Addr::from(inside).into(), |host| (*host).into())
    }

    /// The inside address of a host: for an IPv6 host of a statement the one that stands for it.
    pub fn stands_for(&self, host: IpAddr) -> Option<u32> {
        match host {
            IpAddr::V4(host) => Some(host.into()).filter(|host| !hosts::is_stand_in(*host)),
            IpAddr::V6(host) => self.hosts.iter().position(|one| *one == host).map(|at| at as u32 + 1),
        }
    }

    /// Whether packets from here to there are left alone.
    #[inline]
    pub fn is_exempt(&self, source: u32, destination: u32) -> bool {
        let any = |ranges: &[Range], address| ranges.iter().any(|range| range.holds(address));
        !hosts::is_stand_in(source)
            && self.exempt.find(source).is_some()
            && self.exemptions.iter().any(|one| any(&one.from, source) && any(&one.to, destination))
    }

    /// Whether an address is an outside one.
    #[inline]
    pub fn is_outside(&self, address: u32) -> bool {
        self.outside.find(address).is_some()
    }

    /// The outside address that an inside one has for itself.
    #[inline]
    pub fn static_outside(&self, inside: u32) -> Option<u32> {
        let found = &self.statements.statics[self.statics[0].find(inside)? as usize];
        Some(found.outside.first + (inside - found.inside.first))
    }

    /// The inside address that has an outside one for itself.
    #[inline]
    pub fn static_inside(&self, outside: u32) -> Option<u32> {
        let found = &self.statements.statics[self.statics[1].find(outside)? as usize];
        Some(found.inside.first + (outside - found.outside.first))
    }

    /// Whether addresses and ports are given as by another policy. Where statements stand and how they are written does not matter.
    pub fn gives_as(&self, other: &Policy) -> bool {
        let translations = |policy: &Policy| -> Vec<Translation> {
            let bare = |one: &Translation| Translation { line: 0, text: String::new(), ..one.clone() };
            policy.translations.iter().map(bare).collect()
        };
        let forwards = |policy: &Policy| -> Vec<Forward> {
            let bare = |one: &Forward| Forward { line: 0, text: String::new(), ..one.clone() };
            policy.forwards.iter().map(bare).collect()
        };
        let statics = |policy: &Policy| -> Vec<[Range; 2]> {
            policy.statements.statics.iter().map(|one| [one.inside, one.outside]).collect()
        };
        translations(self) == translations(other)
            && forwards(self) == forwards(other)
            && statics(self) == statics(other)
            && self.exemptions == other.exemptions
            && self.prefix == other.prefix
            && self.algs == other.algs
            && self.hosts == other.hosts
            && (self.filter == other.filter || other.filter != Filter::AddressDependent)
    }

    /// Who has an outside address and port at any time: by a static translation, a forward, or a deterministic one. The inside address, with
    /// its port where that is known, and the line of the statement.
    pub fn owner(&self, protocol: u8, outside: Ipv4Addr, port: u16) -> Option<(IpAddr, Option<u16>, u32)> {
        let address = u32::from(outside);
        if let Some(inside) = self.static_inside(address) {
            let line = self.statements.statics.iter().find(|one| one.outside.holds(address))?.line;
            return Some((self.known_as(inside), Some(port), line));
        }
        let is_for = |one: &&Forward| {
            one.protocol == protocol
                && one.outside.contains(&address)
                && one.ports.0 <= port
                && port <= one.ports.1
        };
        if let Some(one) = self.forwards.iter().find(is_for) {
            return Some((self.known_as(one.inside), Some(one.port + (port - one.ports.0)), one.line));
        }
        let deterministic = |one: &&Translation| one.allocation == Allocation::Deterministic;
        self.translations.iter().filter(deterministic).find_map(|one: &Translation| {
            let inside = one.undetermined(address, port)?;
            // Another statement may be for that host.
            let is_its = self.translation(inside).is_some_and(|by| std::ptr::eq(&self.translations[by], one));
            let is_alone = self.static_outside(inside).is_none() && [ICMP, TCP, UDP].contains(&protocol);
            (is_its && is_alone).then(|| (self.known_as(inside), None, one.line))
        })
    }

    /// What an inside address becomes, if it is translated.
    pub fn becomes(&self, inside: IpAddr) -> Option<Becomes> {
        let known = self.stands_for(inside);
        if let Some((address, outside)) = known.and_then(|one| Some((one, self.static_outside(one)?))) {
            let line = self.statements.statics.iter().find(|one| one.inside.holds(address))?.line;
            let outside = vec![Range { first: outside, last: outside }];
            return Some(Becomes { outside, interface: None, ports: (0, u16::MAX), blocks: None, line });
        }
        let by = match inside {
            IpAddr::V4(_) => self.translation(known?),
            IpAddr::V6(inside) => self.translation6(inside.into()),
        };
        let one = &self.translations[by?];
        let blocks = match one.allocation {
            Allocation::Blocks { size, most } => Some((size, most)),
            _ => None,
        };
        let (outside, ports) = match one.allocation {
            Allocation::Deterministic => {
                let (outside, ports) = one.determined(known?)?;
                (vec![Range { first: outside, last: outside }], ports)
            }
            _ => (one.pool.clone(), one.ports),
        };
        Some(Becomes { outside, interface: one.interface.clone(), ports, blocks, line: one.line })
    }

    /// All outside addresses, in ascending order without repeats.
    pub fn outside(&self) -> Vec<Range> {
        let pools = self.translations.iter().flat_map(|translation| translation.pool.iter().copied());
        let forwards = self.forwards.iter().flat_map(Forward::ranges);
        let statics = self.statements.statics.iter().map(|one| one.outside);
        let mut all: Vec<Range> = pools.chain(forwards).chain(statics).collect();
        all.sort_unstable();
        let mut kept: Vec<Range> = Vec::new();
        for range in all {
            match kept.last_mut() {
                Some(before) if range.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(range.last);
                }
                _ => kept.push(range),
            }
        }
        kept
    }
}

/// What an inside address becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// One of these outside addresses.
    pub outside: Vec<Range>,
    /// The interface whose addresses these are.
    pub interface: Option<String>,
    /// One of the ports from the first to the last.
    pub ports: (u16, u16),
    /// In blocks: their size, and how many at most.
    pub blocks: Option<(u16, u16)>,
    /// The line of the statement.
    pub line: u32,
}

/// A range as it is written.
pub fn range_text(range: Range) -> String {
    let Range { first, last } = range;
    if first == last {
        return Ipv4Addr::from(first).to_string();
    }
    format!("{}-{}", Ipv4Addr::from(first), Ipv4Addr::from(last))
}
