// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters on a device (RFC 2544, section 11.4): one that permits the test's frames, or 25 of which only the last does (11.4), or only
//! the thirteenth (11.4.1).
//!
//! What no filter permits is dropped. The other 24 of 25 block pairs of addresses in the form of the document's list (11.4.1), which
//! the test does not use; the one permits what each port sends, all else is looked at and found not to fit. A device may look faster than
//! in order: that is its own merit. Filters of bridges look at the Ethernet addresses that frames are sent to.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use tester::frame::Flow;
use tester::station::{Plan, Stream};
use wire::{MacAddr, Prefix};

mod graph;

/// What filters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// One, which permits the test's frames.
    One,
    /// 25, of which the last does (11.4).
    Last,
    /// 25, of which the thirteenth does (11.4.1): a device that sorts them does not profit by where it stands.
    Thirteenth,
}

impl Case {
    /// In the order in which they are tested.
    pub(super) const ALL: [Case; 3] = [Case::One, Case::Thirteenth, Case::Last];

    /// As names of results have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Case::One => "filters_1",
            Case::Last => "filters_25",
            Case::Thirteenth => "filters_13_of_25",
        }
    }

    /// How many block before the one that permits, and in all.
    fn blocks(self) -> (usize, u8) {
        match self {
            Case::One => (0, 0),
            Case::Last => (24, 24),
            Case::Thirteenth => (12, 24),
        }
    }
}

/// The longest prefix that holds all of these, of one family.
fn prefix_over(mut all: impl Iterator<Item = IpAddr>) -> Option<Prefix> {
    let first = all.next()?;
    let (number, width) = bits(first);
    let common = all.fold(width, |common, address| {
        let differ = bits(address).0 ^ number;
        common.min(width - (u128::BITS - differ.leading_zeros()) as u8)
    });
    Prefix::new(first, common)
}

/// An address as a number, and its width.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

/// A number as an address of the family of `like`.
fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

/// An Ethernet address, and which of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MacMask {
    address: u64,
    mask: u64,
}

impl MacMask {
    /// That in which most bits count, of those that hold all of these.
    fn over(mut all: impl Iterator<Item = MacAddr>) -> Option<MacMask> {
        let first = all.next()?.to_u64();
        let mask = all.fold(MacAddr::BROADCAST.to_u64(), |mask, mac| mask & !(mac.to_u64() ^ first));
        Some(MacMask { address: first & mask, mask })
    }

    fn exactly(mac: MacAddr) -> MacMask {
        MacMask { address: mac.to_u64(), mask: MacAddr::BROADCAST.to_u64() }
    }

    fn holds(self, mac: MacAddr) -> bool {
        mac.to_u64() & self.mask == self.address
    }

    /// As nftables compares it.
    fn nft(self) -> String {
        let (address, mask) = (MacAddr::from_u64(self.address), MacAddr::from_u64(self.mask));
        match mask {
            MacAddr::BROADCAST => format!("ether daddr {address}"),
            _ => format!("ether daddr & {mask} == {address}"),
        }
    }
}

impl std::fmt::Display for MacMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match MacAddr::from_u64(self.mask) {
            MacAddr::BROADCAST => write!(f, "{}", MacAddr::from_u64(self.address)),
            mask => write!(f, "{}/{mask}", MacAddr::from_u64(self.address)),
        }
    }
}

/// What one port sends, and may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Permit {
    port: usize,
    src: Prefix,
    dst: Prefix,
    /// Where the frames are addressed to, for bridges.
    mac: MacMask,
}

/// The filters of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filters {
    /// Pairs of addresses that are blocked.
    blocks: Vec<(IpAddr, IpAddr)>,
    /// How many of them before the filter that permits.
    before: usize,
    /// That filter, for each port that sends.
    permits: Vec<Permit>,
    /// They look at Ethernet addresses.
    bridged: bool,
}

impl Filters {
    /// Those of this case, for what this plan sends.
    pub(super) fn new(case: Case, plan: &Plan, bridged: bool) -> Result<Filters, Error> {
        let sent = || plan.streams.iter().flat_map(|stream| &stream.flows).map(|(flow, _)| flow);
        let six = sent().any(|flow| flow.src.is_ipv6());
        if sent().any(|flow| flow.src.is_ipv6() != six) {
            return Err(Error::setting("--filters: flows of one family only"));
        }
        let (before, count) = case.blocks();
        let blocks: Vec<(IpAddr, IpAddr)> = (1..=count).map(|number| blocked(number, six)).collect();
        if let Some(flow) = sent().find(|flow| blocks.contains(&(flow.src, flow.dst))) {
            return Err(Error::setting(format!(
                "--filters: the filters of RFC 2544 block {} to {}, which is a flow of the test; --flow gives others",
                flow.src, flow.dst
            )));
        }
        let permit = |(port, stream): (usize, &Stream)| {
            let flows = || stream.flows.iter().map(|(flow, _)| flow);
            Some(Permit {
                port,
                src: prefix_over(flows().map(|flow| flow.src))?,
                dst: prefix_over(flows().map(|flow| flow.dst))?,
                mac: MacMask::over(flows().map(|flow| flow.dst_mac))?,
            })
        };
        let permits = plan.streams.iter().enumerate().filter_map(permit).collect();
        Ok(Filters { blocks, before, permits, bridged })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.blocks.len() + 1
    }

    /// For people, and for commands that set them: a filter a line, in order; what none permits is to be dropped.
    pub(super) fn list(&self) -> String {
        let deny = |number: u8, (src, dst): (IpAddr, IpAddr)| match self.bridged {
            true => format!("deny {}\n", blocked_mac(number)),
            false => format!("deny {src} to {dst}\n"),
        };
        let allow = |Permit { src, dst, mac, .. }: &Permit| match self.bridged {
            true => format!("allow {mac}\n"),
            false => format!("allow {src} to {dst}\n"),
        };
        self.in_order(deny, self.permits.iter().map(allow)).concat()
    }

    /// What `deny` makes of each that blocks, by its number, with what `allow` says where that stands which permits.
    fn in_order<T>(
        &self,
        deny: impl Fn(u8, (IpAddr, IpAddr)) -> T,
        allow: impl IntoIterator<Item = T>,
    ) -> Vec<T> {
        let all = || (1..).zip(&self.blocks).map(|(number, pair)| deny(number, *pair));
        let first = all().take(self.before);
        first.chain(allow).chain(all().skip(self.before)).collect()
    }

    /// The input of `nft -f`: a chain for each of these interfaces, through which goes what it receives to be forwarded.
    pub(super) fn nft(&self, interfaces: &[&str]) -> String {
        let family = table(self.bridged);
        let mut text = format!("table {family} {{\n");
        let mut jumps = Vec::new();
        for permit in &self.permits {
            let six = permit.src.is_six();
            let ip = if six { "ip6" } else { "ip" };
            let name = interfaces[permit.port];
            let _ = writeln!(text, "  chain from_{name} {{");
            let deny = |number: u8, (src, dst): (IpAddr, IpAddr)| match self.bridged {
                true => format!("    {} drop\n", MacMask::exactly(blocked_mac(number)).nft()),
                false => format!("    {ip} saddr {src} {ip} daddr {dst} drop\n"),
            };
            let allow = match self.bridged {
                true => format!("    {} accept\n", permit.mac.nft()),
                false => format!("    {ip} saddr {} {ip} daddr {} accept\n", permit.src, permit.dst),
            };
            text += &self.in_order(deny, [allow]).concat();
            text += "  }\n";
            jumps.push(format!("\"{name}\" : jump from_{name}"));
        }
        let _ = write!(
            text,
            "  chain forward {{\n    type filter hook forward priority 0; policy drop;\n    iifname vmap {{ {} }}\n  }}\n}}\n",
            jumps.join(", ")
        );
        text
    }

    /// What no filter permits, but would arrive if there were none: one flow for each port, if there is such an address.
    pub(super) fn probe(&self, plan: &Plan) -> Option<Plan> {
        let stream = |(port, stream): (usize, &Stream)| {
            let Some((flow, to)) = stream.flows.first() else { return Some(Stream::default()) };
            let permit = self.permits.iter().find(|permit| permit.port == port)?;
            let flow = match self.bridged {
                true if self.permits.iter().any(|permit| permit.mac.holds(NOBODY)) => return None,
                true => Flow { dst_mac: NOBODY, ..*flow },
                false => self.outside(permit, flow)?,
            };
            Some(Stream { flows: vec![(flow, *to)], sizes: stream.sizes.clone(), ..Stream::default() })
        };
        let streams: Option<Vec<Stream>> = plan.streams.iter().enumerate().map(stream).collect();
        Some(Plan { streams: streams?, ..plan.clone() })
    }

    /// The flow from another network.
    fn outside(&self, permit: &Permit, flow: &Flow) -> Option<Flow> {
        let (number, width) = bits(flow.src);
        let others = (width - permit.src.len()..width).map(|bit| address(number ^ 1 << bit, flow.src));
        let passes =
            |src: &IpAddr| self.permits.iter().any(|p| p.src.contains(*src) && p.dst.contains(flow.dst));
        let src = others.into_iter().find(|src| !passes(src) && !src.is_loopback() && !src.is_multicast())?;
        Some(Flow { src, ..*flow })
    }
}

/// The family and name of our table.
pub(super) fn table(bridged: bool) -> &'static str {
    if bridged { "bridge junctor" } else { "inet junctor" }
}

/// An Ethernet address that nobody has.
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0xfb, 0xff, 0xff]);

fn blocked_mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0xfb, 0, number])
}

/// The pair of addresses that filter `number` blocks: from one of the networks for tests to the other.
fn blocked(number: u8, six: bool) -> (IpAddr, IpAddr) {
    if six {
        let host =
            |net: u16| Ipv6Addr::new(0x2001, 2, 0, net + u16::from(number), 0, 0, 0, number.into()).into();
        return (host(0x4000), host(0xc000));
    }
    ([198, 18, number, number].into(), [198, 19, 100 + number, number].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn flow(src: &str, dst: &str) -> Flow {
        let [src, dst] = [src, dst].map(|text| text.parse().expect("an address"));
        Flow { src_mac: MacAddr([2; 6]), dst_mac: MacAddr([4; 6]), src, dst, src_port: 1, dst_port: 7 }
    }

    pub(super) fn plan(flows: &[&[(&str, &str)]]) -> Plan {
        let stream = |flows: &&[(&str, &str)]| Stream {
            flows: flows.iter().map(|(src, dst)| (flow(src, dst), None)).collect(),
            sizes: vec![64],
            ..Stream::default()
        };
        Plan { streams: flows.iter().map(stream).collect(), ..Plan::default() }
    }

    #[test]
    fn a_prefix_covers_what_it_must_and_no_more() {
        let over =
            |all: &[&str]| prefix_over(all.iter().map(|a| a.parse().expect("an address"))).expect("some");
        for (all, prefix) in [
            (&["10.0.0.7"][..], "10.0.0.7/32"),
            (&["10.0.0.2", "10.0.0.3"], "10.0.0.2/31"),
            (&["10.0.0.1", "10.0.0.200", "10.0.0.17"], "10.0.0.0/24"),
            (&["10.0.0.1", "192.0.2.1"], "0.0.0.0/0"),
            (&["2001:2::1", "2001:2::ffff:1"], "2001:2::/96"),
            (&["::", "ffff::"], "::/0"),
        ] {
            let covering = over(all);
            assert_eq!(covering.to_string(), prefix);
            assert!(all.iter().all(|a| covering.contains(a.parse().expect("an address"))));
        }
        assert!(!over(&["10.0.0.2", "10.0.0.3"]).contains([10, 0, 0, 4].into()));
        assert!(!over(&["10.0.0.2"]).contains("2001:2::1".parse().expect("an address")));
    }

    #[test]
    fn the_last_of_25_permits_both_directions() {
        let both: [&[_]; 2] =
            [&[("10.0.0.2", "10.0.1.2"), ("10.0.0.3", "10.0.1.3")], &[("10.0.1.2", "10.0.0.2")]];
        let plan = plan(&both);
        let all = Filters::new(Case::Last, &plan, false).expect("filters");
        assert!(
            all.list().contains("deny 198.18.24.24 to 198.19.124.24\nallow 10.0.0.2/31 to 10.0.1.2/31\n")
        );
        let nft = all.nft(&["d1", "d2"]);
        assert_eq!((nft.matches(" drop\n").count(), nft.matches(" accept\n").count()), (48, 2), "{nft}");
        let bridge = Filters::new(Case::Last, &plan, true).expect("filters");
        assert!(bridge.nft(&["d1", "d2"]).contains("ether daddr 04:04:04:04:04:04 accept"));
    }

    /// The list of RFC 2544 11.4.1: twelve that block, the one that permits, twelve that block.
    #[test]
    fn the_thirteenth_of_25_permits() {
        let plan = plan(&[&[("10.0.0.2", "10.0.1.2")], &[("10.0.1.2", "10.0.0.2")]]);
        let routed = Filters::new(Case::Thirteenth, &plan, false).expect("filters");
        let list = routed.list();
        let lines: Vec<&str> = list.lines().collect();
        let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("allow ")).collect();
        assert_eq!(
            (routed.count(), lines.len(), places),
            (25, 26, vec![12, 13]),
            "one for each direction: {list}"
        );
        assert_eq!(
            (lines[0], lines[11]),
            ("deny 198.18.1.1 to 198.19.101.1", "deny 198.18.12.12 to 198.19.112.12")
        );
        assert_eq!(
            (lines[14], lines[25]),
            ("deny 198.18.13.13 to 198.19.113.13", "deny 198.18.24.24 to 198.19.124.24")
        );
        let bridged = Filters::new(Case::Thirteenth, &plan, true).expect("filters");
        for filters in [routed, bridged] {
            let nft = filters.nft(&["d1", "d2"]);
            let rules: Vec<&str> =
                nft.lines().skip(2).take(25).map(|rule| rule.rsplit(' ').next().expect("a word")).collect();
            assert!(
                rules.iter().enumerate().all(|(at, rule)| *rule == if at == 12 { "accept" } else { "drop" }),
                "{nft}"
            );
        }
    }

    #[test]
    fn a_mask_covers_what_it_must() {
        let mac = |text: &str| text.parse::<MacAddr>().expect("an address");
        let over = |all: &[&str]| MacMask::over(all.iter().map(|text| mac(text))).expect("some");
        for (all, text, nft) in [
            (&["2:0:0:1:0:9"][..], "02:00:00:01:00:09", "ether daddr 02:00:00:01:00:09"),
            (
                &["2:0:0:1:0:1", "2:0:0:1:3:2"],
                "02:00:00:01:00:00/ff:ff:ff:ff:fc:fc",
                "ether daddr & ff:ff:ff:ff:fc:fc == 02:00:00:01:00:00",
            ),
        ] {
            let covering = over(all);
            assert_eq!((&*covering.to_string(), &*covering.nft()), (text, nft));
            assert!(all.iter().all(|text| covering.holds(mac(text))));
            assert!(!covering.holds(NOBODY));
        }
    }

    #[test]
    fn a_probe_is_what_only_the_filters_stop() {
        let given =
            plan(&[&[("10.0.0.2", "10.0.1.2"), ("10.0.0.3", "10.0.1.3")], &[("10.0.1.2", "10.0.0.2")], &[]]);
        for case in Case::ALL {
            let filters = Filters::new(case, &given, false).expect("filters");
            let probe = filters.probe(&given).expect("there is room");
            for (port, stream) in probe.streams.iter().enumerate().take(2) {
                let (flow, _) = stream.flows[0];
                assert_eq!(flow.dst, given.streams[port].flows[0].0.dst);
                assert!(
                    filters.permits.iter().all(|p| !(p.src.contains(flow.src) && p.dst.contains(flow.dst)))
                );
            }
            assert!(probe.streams[2].flows.is_empty());
        }
        // A test that sends from everywhere leaves no such address.
        let all = plan(&[&[("1.0.0.1", "10.0.1.2"), ("129.0.0.1", "10.0.1.2")]]);
        assert_eq!(
            Filters::new(Case::One, &all, false).expect("filters").probe(&all).map(|plan| plan.burst),
            None
        );
    }

    #[test]
    fn what_the_filters_block_must_not_be_tested() {
        let clash = plan(&[&[("198.18.3.3", "198.19.103.3")]]);
        assert!(Filters::new(Case::One, &clash, false).is_ok());
        let refused = Filters::new(Case::Last, &clash, false);
        assert!(refused.is_err_and(|why| why.to_string().contains("which is a flow of the test")));
    }
}
