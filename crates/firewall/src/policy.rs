// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule file says, without its text.

use std::fmt;
use std::net::IpAddr;

use lang::Span;
use rulefile::Addresses;
use wire::MacAddr;

use crate::macs::Macs;
use crate::set::{Kind, Timed, View};

/// Zones that a file may name, besides [`SELF`].
pub const ZONES_MAX: usize = 250;
/// The number of the router's own zone.
pub const SELF: u8 = 0;
/// Values that one list in a rule may have; a set may have more.
pub const LIST_MAX: usize = 4096;

/// What a rule file says.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The zones; [`SELF`] is the first.
    pub zones: Vec<Zone>,
    /// The named sets.
    pub sets: Vec<Set>,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// What happens to packets that match no rule.
    pub default: Action,
    /// Whether those are logged.
    pub log_default: bool,
    /// How long connections may be idle.
    pub timeouts: Timeouts,
    /// Connections at most.
    pub connections: usize,
    /// Protocols whose announcements of connections are read.
    pub algs: Algs,
    /// How rules with `synproxy` answer.
    pub synproxy: SynProxy,
}

/// Links that rules treat alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Names of its links.
    pub links: Vec<String>,
    /// Where it is declared; nowhere for [`SELF`].
    pub span: Option<Span>,
}

/// Addresses, ports or MAC addresses with a name.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub kind: Kind,
    /// Whether the file says so; else the first entry does.
    pub is_typed: bool,
    /// What is in it at the beginning, each for ever or for a time in nanoseconds.
    pub entries: Vec<Timed>,
    /// Where it is declared.
    pub span: Span,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It may be made.
    Accept,
    /// Its packets are dropped without an answer.
    Drop,
    /// Its packets are dropped, and the sender gets an error.
    Reject(Answer),
}

/// The error that a sender gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reset for TCP (RFC 9293, 3.10.7.1), "port unreachable" for others.
    Usual,
    /// "Communication administratively prohibited" (RFC 1812, 5.2.7.1; RFC 4443, 3.1).
    Prohibited,
    /// "Host unreachable", or "address unreachable".
    Host,
    /// "Network unreachable", or "no route".
    Network,
    /// "Port unreachable".
    Port,
}

impl Answer {
    /// The words for each.
    pub const ALL: [(&'static str, Answer); 5] = [
        ("usual", Answer::Usual),
        ("prohibited", Answer::Prohibited),
        ("host", Answer::Host),
        ("network", Answer::Network),
        ("port", Answer::Port),
    ];
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Accept => f.write_str("accept"),
            Action::Drop => f.write_str("drop"),
            Action::Reject(Answer::Usual) => f.write_str("reject"),
            Action::Reject(answer) => {
                let word = Answer::ALL.iter().find(|(_, a)| a == answer).map_or("", |(word, _)| *word);
                write!(f, "reject with {word}")
            }
        }
    }
}

/// The address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    Four,
    /// IPv6
    Six,
}

/// Ports from the least to the greatest.
pub type PortRange = tables::rules::Ports;

/// The source or the destination that a rule asks for. Without any of these, all.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Whether everything else is asked for.
    pub negated: bool,
    /// Written addresses.
    pub addresses: Addresses,
    /// Numbers of sets.
    pub sets: Vec<usize>,
    /// Whether there is a list.
    pub is_given: bool,
}

/// The ports that a rule asks for. Without any of these, all.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// Written ports.
    pub ranges: Vec<PortRange>,
    /// Numbers of sets.
    pub sets: Vec<usize>,
    /// Whether there is a list.
    pub is_given: bool,
}

/// What a rule asks of a packet.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Zones that it comes from; all if there are none.
    pub from: Vec<u8>,
    /// Zones that it goes to; all if there are none.
    pub to: Vec<u8>,
    /// Its family.
    pub family: Option<Family>,
    /// Protocol numbers; all if there are none. 1 and 58 go with a family each.
    pub protocols: Vec<u8>,
    /// Its source.
    pub source: Side,
    /// Its destination.
    pub destination: Side,
    /// Its source port.
    pub source_ports: Ports,
    /// Its destination port.
    pub destination_ports: Ports,
    /// Types of ICMP, with a code or all codes; packets of other protocols have none.
    pub icmp: Vec<(u8, Option<u8>)>,
    /// Its source on the link.
    pub macs: Macs,
}

/// How many connections a rule may accept in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Connections in a second.
    pub rate: f64,
    /// How many at once.
    pub burst: u32,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// To which packets.
    pub matches: Matches,
    /// Whether connections are logged, and with which words.
    pub log: Option<String>,
    /// The name under which its counters are kept.
    pub name: Option<String>,
    /// More connections than this match it no more.
    pub limit: Option<Limit>,
    /// Connections that one source may have by this rule at a time.
    pub per_source: Option<u32>,
    /// Connections that the sources of one network may have by this rule at a time: 24 bits of IPv4, 64 of IPv6.
    pub per_network: Option<u32>,
    /// Connections that one source may begin by this rule.
    pub source_rate: Option<Limit>,
    /// Connections that the sources of one network may begin by this rule.
    pub network_rate: Option<Limit>,
    /// Whether packets pass one by one, without connections.
    pub is_stateless: bool,
    /// Whether the firewall answers the client first, and the server only sees clients that have proved their address.
    pub is_proxied: bool,
    /// Words for people.
    pub comment: Option<String>,
    /// Its text.
    pub text: String,
    /// Its line in the file, from 1.
    pub line: u32,
    /// Where it is.
    pub span: Span,
}

impl Rule {
    /// Whether connections are counted for their sources.
    pub fn counts_sources(&self) -> bool {
        self.per_source.is_some() || self.per_network.is_some()
    }
}

/// How long a connection may be idle, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, both sides have agreed (RFC 5382, REQ-5).
    pub tcp: u64,
    /// TCP, not yet or no more.
    pub tcp_transitory: u64,
    /// TCP, after a reset.
    pub tcp_reset: u64,
    /// UDP with answers (RFC 4787, REQ-5).
    pub udp: u64,
    /// UDP without answers.
    pub udp_single: u64,
    /// ICMP queries (RFC 5508, REQ-2).
    pub icmp: u64,
    /// Other protocols.
    pub other: u64,
}

pub(crate) const SECOND: u64 = 1_000_000_000;

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp: 7440 * SECOND,
            tcp_transitory: 240 * SECOND,
            tcp_reset: 10 * SECOND,
            udp: 300 * SECOND,
            udp_single: 60 * SECOND,
            icmp: 60 * SECOND,
            other: 600 * SECOND,
        }
    }
}

impl Timeouts {
    /// The names of all times.
    pub const NAMES: [&'static str; 7] =
        ["tcp", "tcp-transitory", "tcp-reset", "udp", "udp-single", "icmp", "other"];

    /// The time of that name.
    pub fn named(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "tcp" => &mut self.tcp,
            "tcp-transitory" => &mut self.tcp_transitory,
            "tcp-reset" => &mut self.tcp_reset,
            "udp" => &mut self.udp,
            "udp-single" => &mut self.udp_single,
            "icmp" => &mut self.icmp,
            "other" => &mut self.other,
            _ => return None,
        })
    }
}

/// How the firewall answers SYNs for servers. What it promises, the servers must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynProxy {
    /// Only while more SYNs than this come in a second; always without.
    pub above: Option<u32>,
    /// The segment size that is promised; that of Ethernet without.
    pub mss: Option<u16>,
    /// The shift of windows that is promised.
    pub scale: Option<u8>,
    /// Whether selective acknowledgements are permitted.
    pub sack: bool,
    /// Whether timestamps are used.
    pub timestamps: bool,
}

impl Default for SynProxy {
    fn default() -> SynProxy {
        SynProxy { above: None, mss: None, scale: Some(7), sack: true, timestamps: true }
    }
}

/// Protocols that announce connections in their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algs {
    /// Data connections of FTP.
    pub ftp: bool,
    /// Answers of TFTP servers from other ports.
    pub tftp: bool,
}

impl Default for Algs {
    fn default() -> Algs {
        Algs { ftp: true, tftp: false }
    }
}

impl Algs {
    /// The names of all.
    pub const NAMES: [&'static str; 2] = ["ftp", "tftp"];

    /// The switch of that name.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "ftp" => Some(&mut self.ftp),
            "tftp" => Some(&mut self.tftp),
            _ => None,
        }
    }
}

/// What rules see of a packet that begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The zone that it comes from.
    pub from: u8,
    /// The zone that it goes to.
    pub to: u8,
    /// Its VRF, and that of its answers.
    pub vrfs: [u16; 2],
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: u8,
    /// Source and destination port, for protocols with ports.
    pub ports: Option<[u16; 2]>,
    /// Type and code, for ICMP.
    pub icmp: Option<[u8; 2]>,
    /// Its source on the link; none without an Ethernet header, or where nobody has looked.
    pub mac: Option<MacAddr>,
}

impl Facts {
    /// Its family.
    pub fn family(&self) -> Family {
        if self.source.is_ipv4() { Family::Four } else { Family::Six }
    }
}

/// The protocol number of ICMP.
pub const ICMP: u8 = 1;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The protocol number of ICMPv6.
pub const ICMP6: u8 = 58;

impl Side {
    /// Whether an address is one of those.
    pub fn holds(&self, sets: &View, address: IpAddr, now_ns: u64) -> bool {
        let in_set = |set: &usize| sets.has_address(*set, address, now_ns);
        !self.is_given || (self.addresses.holds(address) || self.sets.iter().any(in_set)) != self.negated
    }
}

impl Ports {
    fn hold(&self, sets: &View, port: Option<u16>, now_ns: u64) -> bool {
        let within = |port: u16| {
            self.ranges.iter().any(|range| (range.low..=range.high).contains(&port))
                || self.sets.iter().any(|set| sets.has_port(*set, port, now_ns))
        };
        !self.is_given || port.is_some_and(within)
    }
}

impl Matches {
    /// Whether a packet has all that is asked for, at a time: one thing after the other.
    pub fn hold(&self, sets: &View, facts: &Facts, now_ns: u64) -> bool {
        self.hold_but_macs(sets, facts, now_ns)
            && self.macs.hold(facts.mac, |set, mac| sets.has_mac(set, mac, now_ns))
    }

    /// The same without regard to its source on the link.
    pub(crate) fn hold_but_macs(&self, sets: &View, facts: &Facts, now_ns: u64) -> bool {
        let one_of = |some: &[u8], what: u8| some.is_empty() || some.contains(&what);
        let icmp = || {
            let has = |[kind, code]: [u8; 2]| {
                self.icmp.iter().any(|(k, c)| *k == kind && c.is_none_or(|wanted| wanted == code))
            };
            // Of other protocols there is nothing to ask.
            self.icmp.is_empty() || facts.icmp.is_none_or(has)
        };
        one_of(&self.from, facts.from)
            && one_of(&self.to, facts.to)
            && self.family.is_none_or(|family| family == facts.family())
            && one_of(&self.protocols, facts.protocol)
            && self.source.holds(sets, facts.source, now_ns)
            && self.destination.holds(sets, facts.destination, now_ns)
            && self.source_ports.hold(sets, facts.ports.map(|[port, _]| port), now_ns)
            && self.destination_ports.hold(sets, facts.ports.map(|[_, port]| port), now_ns)
            && icmp()
    }
}
