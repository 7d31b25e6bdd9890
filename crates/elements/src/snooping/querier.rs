// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking who wants which groups, where no multicast router does: a machine on a virtual clock, and the frames it has sent.
//!
//! Hosts report their groups when they are asked. On a network without a multicast router nobody asks, so what a switch learned
//! would be forgotten. A *querier* asks in the router's place: twice at short intervals when it starts, then every query
//! interval, and about one group when a host leaves it. Of several the one with the lowest address asks (RFC 3376,
//! section 6.6.2; RFC 3810, section 7.6.2): who hears a query from a lower address than its own is silent until none came for the
//! other querier present interval.
//!
//! When the topology changes, stations have moved between ports, and the switch cannot wait for the next query. If it is the
//! querier it asks at once. If it is not, it may ask of IPv4 hosts in a form that takes no part in elections: from 0.0.0.0, and never in
//! an older version than the true querier's (RFC 4541, section 2.1.1). MLD has no such form.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{MacAddr, Protocol, checksum};

const SECOND_NS: u64 = 1_000_000_000;

/// The robustness variable: queries after a start and after a leave, and lost messages that do no harm.
const ROBUSTNESS: u8 = 2;
/// Hosts answer general queries within this time (query response interval).
pub const RESPONSE_NS: u64 = 10 * SECOND_NS;
/// Bytes of the shortest Ethernet frame, without its checksum.
const FRAME_MIN: usize = 60;

/// What was decided for a querier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address that queries of hosts of IPv4 come from; none: these are not asked.
    pub v4: Option<Ipv4Addr>,
    /// The same for IPv6: a link-local address.
    pub v6: Option<Ipv6Addr>,
    /// The VLANs in which to ask.
    pub vlans: Vec<u16>,
    /// Time between general queries.
    pub interval_ns: u64,
    /// Time between the queries about a group that was left.
    pub last_member_ns: u64,
}

/// A query to be sent to all hosts of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The VLAN.
    pub vlan: u16,
    /// Who asks.
    pub from: IpAddr,
    /// About which group; `None`: about all.
    pub group: Option<IpAddr>,
    /// The time to answer.
    pub response_ns: u64,
    /// The query interval, which other queriers take over.
    pub interval_ns: u64,
    /// In the form of IGMP version 2.
    pub old: bool,
}

/// A VLAN and one of both families.
#[derive(Clone, Debug, Default)]
struct Lan {
    /// Whether nobody with a lower address asks here.
    elected: bool,
    /// When to ask about all groups, or to stop waiting for the other querier.
    next_ns: u64,
    startup_left: u8,
    /// Groups that were left: when to ask about each, and how often still.
    left: BTreeMap<IpAddr, (u64, u8)>,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Querier {
    config: Config,
    lans: BTreeMap<(u16, bool), Lan>,
}

impl Querier {
    /// A querier that begins to ask at `now_ns`.
    pub fn new(config: Config, now_ns: u64) -> Querier {
        let families = [config.v4.map(|_| false), config.v6.map(|_| true)];
        let each = |vlan: &u16| families.into_iter().flatten().map(|ipv6| (*vlan, ipv6)).collect::<Vec<_>>();
        let start = Lan { elected: true, next_ns: now_ns, startup_left: ROBUSTNESS, left: BTreeMap::new() };
        let lans = config.vlans.iter().flat_map(each).map(|key| (key, start.clone())).collect();
        Querier { config, lans }
    }

    fn address(&self, ipv6: bool) -> Option<IpAddr> {
        if ipv6 { self.config.v6.map(Into::into) } else { self.config.v4.map(Into::into) }
    }

    /// A query came from `src`: who has the lower address asks from now on.
    pub fn hear(&mut self, now_ns: u64, vlan: u16, src: IpAddr) {
        let lower = self.address(src.is_ipv6()).is_some_and(|own| !src.is_unspecified() && src < own);
        let other_present_ns = u64::from(ROBUSTNESS) * self.config.interval_ns + RESPONSE_NS / 2;
        if let Some(lan) = self.lans.get_mut(&(vlan, src.is_ipv6())).filter(|_| lower) {
            *lan = Lan { next_ns: now_ns.saturating_add(other_present_ns), ..Lan::default() };
        }
    }

    /// Whether it is the one that asks there.
    pub fn is_elected(&self, vlan: u16, ipv6: bool) -> bool {
        self.lans.get(&(vlan, ipv6)).is_some_and(|lan| lan.elected)
    }

    /// A host left a group: whether others want it is asked at once.
    pub fn left(&mut self, now_ns: u64, vlan: u16, group: IpAddr) {
        if let Some(lan) = self.lans.get_mut(&(vlan, group.is_ipv6())).filter(|lan| lan.elected) {
            lan.left.entry(group).or_insert((now_ns, ROBUSTNESS));
        }
    }

    /// The topology changed.
    pub fn hurry(&mut self, now_ns: u64) {
        for lan in self.lans.values_mut().filter(|lan| lan.elected) {
            lan.next_ns = now_ns;
        }
    }

    /// What is to be asked at `now_ns`.
    pub fn due(&mut self, now_ns: u64) -> Vec<Ask> {
        let mut asks = Vec::new();
        for ((vlan, ipv6), lan) in &mut self.lans {
            let own = if *ipv6 { self.config.v6.map(IpAddr::from) } else { self.config.v4.map(IpAddr::from) };
            let Some(from) = own else { continue };
            let ask = |group, response_ns| Ask {
                vlan: *vlan,
                from,
                group,
                response_ns,
                interval_ns: self.config.interval_ns,
                old: false,
            };
            if lan.next_ns <= now_ns {
                lan.elected = true;
                lan.startup_left = lan.startup_left.saturating_sub(1);
                // The startup query interval is a quarter of the other one.
                let interval_ns = self.config.interval_ns / if lan.startup_left > 0 { 4 } else { 1 };
                lan.next_ns = now_ns.saturating_add(interval_ns.max(1));
                asks.push(ask(None, RESPONSE_NS));
            }
            for (group, (at_ns, times)) in lan.left.iter_mut().filter(|(_, (at_ns, _))| *at_ns <= now_ns) {
                asks.push(ask(Some(*group), self.config.last_member_ns));
                (*at_ns, *times) = (now_ns.saturating_add(self.config.last_member_ns), *times - 1);
            }
            lan.left.retain(|_, (_, times)| *times > 0);
        }
        asks
    }

    /// When something is to be asked next.
    pub fn next_ns(&self) -> Option<u64> {
        self.lans.values().flat_map(|lan| lan.left.values().map(|(at, _)| *at).chain([lan.next_ns])).min()
    }

    /// Where it asks or waits, and whether it asks.
    pub fn list(&self) -> impl Iterator<Item = (u16, bool, bool)> + '_ {
        self.lans.iter().map(|((vlan, ipv6), lan)| (*vlan, *ipv6, lan.elected))
    }

    /// Goes on as `old` did, where both ask from the same addresses.
    pub fn take(&mut self, old: &Querier) {
        let from = |querier: &Querier| (querier.config.v4, querier.config.v6);
        if from(self) != from(old) {
            return;
        }
        for (key, lan) in &mut self.lans {
            if let Some(before) = old.lans.get(key) {
                lan.clone_from(before);
            }
        }
    }
}

impl Ask {
    /// The question of a switch that is not the querier: from no address, in a version that the querier speaks.
    pub fn proxy(vlan: u16, old: bool, interval_ns: u64) -> Ask {
        let from = Ipv4Addr::UNSPECIFIED.into();
        Ask { vlan, from, group: None, response_ns: RESPONSE_NS, interval_ns, old }
    }

    /// The frame that asks it, from this Ethernet address.
    pub fn frame(&self, eth: MacAddr) -> Vec<u8> {
        let mut frame = match self.from {
            IpAddr::V4(from) => self.igmp(eth, from),
            IpAddr::V6(from) => self.mld(eth, from),
        };
        frame.resize(frame.len().max(FRAME_MIN), 0);
        frame
    }

    /// A query of version 3 (RFC 3376, section 4.1), or the first eight bytes of it, which are one of version 2.
    fn igmp(&self, eth: MacAddr, from: Ipv4Addr) -> Vec<u8> {
        let group = match self.group {
            Some(IpAddr::V4(group)) => group,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let to = if group.is_unspecified() { Ipv4Addr::new(224, 0, 0, 1) } else { group };
        let mut query = vec![wire::igmp::TYPE_QUERY, code(self.response_ns / (SECOND_NS / 10)), 0, 0];
        query.extend(group.octets());
        if !self.old {
            query.extend([ROBUSTNESS, code(self.interval_ns / SECOND_NS), 0, 0]);
        }
        let sum = checksum::internet(&query);
        query[2..4].copy_from_slice(&sum.to_be_bytes());
        // Internetwork control, TTL 1, router alert (RFC 2113).
        let len = 24 + query.len() as u8;
        let mut header = vec![0x46, 0xc0, 0, len, 0, 0, 0x40, 0, 1, Protocol::IGMP.0, 0, 0];
        header.extend(from.octets());
        header.extend(to.octets());
        header.extend([0x94, 4, 0, 0]);
        let sum = checksum::internet(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&MacAddr::from_ipv4_group(to).octets()[..], &eth.octets(), &[8, 0], &header, &query].concat()
    }

    /// A query of version 2 (RFC 3810, section 5.1).
    fn mld(&self, eth: MacAddr, from: Ipv6Addr) -> Vec<u8> {
        let group = match self.group {
            Some(IpAddr::V6(group)) => group,
            _ => Ipv6Addr::UNSPECIFIED,
        };
        let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let to = if group.is_unspecified() { all_nodes } else { group };
        let response_ms = u16::try_from(self.response_ns / (SECOND_NS / 1000)).unwrap_or(u16::MAX);
        let mut query = vec![wire::icmpv6::Type::MLD_QUERY.0, 0, 0, 0];
        // From 2^15 on the code would be a floating point number.
        query.extend(response_ms.min(0x7fff).to_be_bytes());
        query.extend([0, 0]);
        query.extend(group.octets());
        query.extend([ROBUSTNESS, code(self.interval_ns / SECOND_NS), 0, 0]);
        let sum = checksum::transport_v6(from, to, Protocol::ICMPV6, &query);
        query[2..4].copy_from_slice(&sum.to_be_bytes());
        // A hop-by-hop header with router alert 0 (RFC 2711), and padding.
        let mut header = vec![0x60, 0, 0, 0, 0, 8 + query.len() as u8, 0, 1];
        header.extend(from.octets());
        header.extend(to.octets());
        header.extend([Protocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0]);
        [&MacAddr::from_ipv6_group(to).octets()[..], &eth.octets(), &[0x86, 0xdd], &header, &query].concat()
    }
}

/// A number in eight bits: itself below 128, and then as mantissa and exponent, rounded down (RFC 3376, 4.1.1 and 4.1.7).
fn code(value: u64) -> u8 {
    if value < 128 {
        return value as u8;
    }
    let exponent = value.ilog2() - 7;
    if exponent > 7 {
        return 0xff;
    }
    0x80 | (exponent << 4) as u8 | (value >> (exponent + 3) & 0xf) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::membership::{self, Message};

    fn config() -> Config {
        let (v4, v6) = (Some(Ipv4Addr::new(10, 0, 0, 5)), Some("fe80::5".parse().expect("an address")));
        Config { v4, v6, vlans: vec![7], interval_ns: 125 * SECOND_NS, last_member_ns: SECOND_NS }
    }

    /// The seconds at which it asks, until `end_s`, and about what.
    fn asked(querier: &mut Querier, end_s: u64) -> Vec<(f64, bool, Option<IpAddr>)> {
        let mut asked = Vec::new();
        while let Some(at_ns) = querier.next_ns().filter(|at_ns| *at_ns <= end_s * SECOND_NS) {
            let asks = querier.due(at_ns);
            asked.extend(asks.iter().map(|a| (at_ns as f64 / 1e9, a.from.is_ipv6(), a.group)));
        }
        asked
    }

    #[test]
    fn it_asks_in_the_standards_times() {
        let mut querier = Querier::new(config(), 0);
        let times: Vec<f64> = asked(&mut querier, 300).iter().filter(|a| !a.1).map(|a| a.0).collect();
        assert_eq!(times, [0.0, 31.25, 156.25, 281.25]);
        let group: IpAddr = Ipv4Addr::new(239, 1, 2, 3).into();
        querier.left(300 * SECOND_NS, 7, group);
        querier.left(300 * SECOND_NS, 8, group);
        assert_eq!(asked(&mut querier, 310), [(300.0, false, Some(group)), (301.0, false, Some(group))]);
        querier.hurry(320 * SECOND_NS);
        assert_eq!(asked(&mut querier, 320), [(320.0, false, None), (320.0, true, None)]);
    }

    #[test]
    fn the_lowest_address_asks() {
        let mut querier = Querier::new(config(), 0);
        querier.due(0);
        for (second, src, elected) in
            [(1, "10.0.0.6", true), (2, "0.0.0.0", true), (3, "10.0.0.5", true), (4, "10.0.0.4", false)]
        {
            querier.hear(second * SECOND_NS, 7, src.parse().expect("an address"));
            assert_eq!(querier.is_elected(7, false), elected, "{src}");
        }
        assert!(querier.is_elected(7, true), "families are apart");
        querier.left(5 * SECOND_NS, 7, Ipv4Addr::new(239, 1, 2, 3).into());
        querier.hurry(5 * SECOND_NS);
        // The other is believed for 255 s from its last query.
        querier.hear(10 * SECOND_NS, 7, "9.255.255.255".parse().expect("an address"));
        let v4: Vec<f64> = asked(&mut querier, 300).iter().filter(|a| !a.1).map(|a| a.0).collect();
        assert_eq!((v4, querier.is_elected(7, false)), (vec![265.0], true));
        querier.hear(301 * SECOND_NS, 7, "fe80::4".parse().expect("an address"));
        assert_eq!(querier.list().collect::<Vec<_>>(), [(7, false, true), (7, true, false)]);
        // A successor with the same addresses does not start anew.
        let mut next = Querier::new(config(), 302 * SECOND_NS);
        next.take(&querier);
        assert_eq!(next.list().collect::<Vec<_>>(), [(7, false, true), (7, true, false)]);
        assert_eq!(asked(&mut next, 302), []);
    }

    /// Read back by the parser, which checks lengths and checksums.
    #[test]
    fn frames_are_read_as_they_were_meant() {
        let eth = MacAddr::new(2, 0, 0, 0, 0, 1);
        for (from, group, old) in [
            ("10.0.0.5", None, false),
            ("10.0.0.5", Some("239.1.2.3"), false),
            ("0.0.0.0", None, true),
            ("fe80::5", None, false),
            ("fe80::5", Some("ff05::77"), false),
        ] {
            let from: IpAddr = from.parse().expect("an address");
            let group = group.map(|text| text.parse::<IpAddr>().expect("an address"));
            let ask =
                Ask { vlan: 0, from, group, response_ns: RESPONSE_NS, interval_ns: 125 * SECOND_NS, old };
            let frame = ask.frame(eth);
            assert!(frame.len() >= FRAME_MIN && frame[6..12] == eth.octets());
            let read = match from {
                IpAddr::V4(_) => {
                    membership::of_ipv4(&frame[14..]).expect("sound").map(|(src, m)| (IpAddr::from(src), m))
                }
                IpAddr::V6(_) => {
                    membership::of_ipv6(&frame[14..]).expect("sound").map(|(src, m)| (IpAddr::from(src), m))
                }
            };
            assert_eq!(read, Some((from, Message::Query { group, max_response_ms: 10_000 })));
            let total_len = u16::from_be_bytes([frame[16], frame[17]]);
            assert!(from.is_ipv6() || total_len == 24 + if old { 8 } else { 12 });
        }
    }

    #[test]
    fn great_numbers_are_rounded_down() {
        for (value, expected) in
            [(0, 0), (127, 127), (128, 0x80), (135, 0x80), (136, 0x81), (31744, 0xff), (1 << 20, 0xff)]
        {
            assert_eq!(code(value), expected, "{value}");
        }
    }
}
