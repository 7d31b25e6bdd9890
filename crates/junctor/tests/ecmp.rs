// SPDX-License-Identifier: MIT OR Apache-2.0
//! One route with several next hops: each gets its share of the flows, each flow keeps to one next hop, and when a next
//! hop leaves, only its own flows move. Counted outside the router, by the Ethernet addresses of the frames that it sends.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use testbed::account::Accounted;
use testbed::flows::{Flow, Piece};

const FLOWS: usize = 10_000;
/// Most that a share may differ from what is due.
const TOLERANCE: f64 = 0.05;
/// Frames that wait at the device when the router looks.
const ROUND: usize = 250;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Either family: how its router is written, and its addresses.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

use Family::{V4, V6};

impl Family {
    /// A router that sends all it gets to the next hops of `route`.
    fn config(self, routes: &str) -> String {
        match self {
            V4 => format!(
                "FromDevice(m0, PROMISC true) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt :: LookupIPRoute({routes});
                 rt[0] -> DecIPTTL -> hops :: ARPQuerier(10.0.1.1, 2:0:0:0:0:2) -> Queue(1000) -> ToDevice(m1);
                 Idle -> [1]hops;"
            ),
            V6 => format!(
                "FromDevice(m0, PROMISC true) -> Strip(14) -> CheckIP6Header -> rt :: LookupIP6Route({routes});
                 rt[0] -> DecIP6HLIM -> hops :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:2) -> Queue(1000) -> ToDevice(m1);
                 Idle -> [1]hops;"
            ),
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            V4 => "10.9.0.0/16",
            V6 => "2001:db8:9::/48",
        }
    }

    fn next_hop(self, number: u8) -> String {
        match self {
            V4 => format!("10.0.1.{number}"),
            V6 => format!("fe80::{number}"),
        }
    }

    fn addresses(self, from: u32, to: u32) -> (IpAddr, IpAddr) {
        match self {
            V4 => {
                let [from, to] = [0x0a00_0002 + from, 0x0a09_0001 + to % 0xfff0];
                (Ipv4Addr::from_bits(from).into(), Ipv4Addr::from_bits(to).into())
            }
            V6 => {
                let of = |net: u128, host| Ipv6Addr::from_bits(net << 80 | u128::from(host)).into();
                (of(0x2001_0db8_0001, from + 2), of(0x2001_0db8_0009, to + 1))
            }
        }
    }
}

/// Flows that differ in one thing only, as real ones do; and such that differ in all.
fn flows(family: Family, kind: &str) -> Vec<Flow> {
    let mut rng = fastrand::Rng::with_seed(42);
    let mut flow = |n: u32| {
        let (from, to, from_port, to_port) = match kind {
            "ports" => (0, 0, 20_000 + n as u16, 443),
            "clients" => (n, 0, 5000, 53),
            "servers" => (0, n, 5000, 53),
            _ => (rng.u32(..0xffff), rng.u32(..0xfff0), rng.u16(..), rng.u16(..)),
        };
        let (from, to) = family.addresses(from, to);
        Flow { from, to, from_port, to_port }
    };
    let mut flows: Vec<Flow> = (0..FLOWS as u32).map(&mut flow).collect();
    flows.sort_unstable();
    flows.dedup();
    assert_eq!(flows.len(), FLOWS, "{kind}");
    flows
}

/// The next hop that each flow took.
type Taken = BTreeMap<Flow, u8>;

struct Router(Accounted);

impl Router {
    /// A router with these routes that knows the Ethernet addresses of the next hops 11 to 19.
    fn new(family: Family, routes: &str) -> Router {
        let config = family.config(routes);
        let mut router = Accounted::new(&config, 32).unwrap_or_else(|why| panic!("{config}\n{why}"));
        for hop in 11..20 {
            router.write("hops.insert", &format!("{} 02:00:00:00:01:{hop:02x}", family.next_hop(hop)));
        }
        Router(router)
    }

    /// Sends frames and returns what comes out, with the next hop that it goes to.
    fn pass(&mut self, frames: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
        let mut out = Vec::new();
        for round in frames.chunks(ROUND) {
            for frame in round {
                assert!(self.0.inject(0, frame));
            }
            self.0.run(Duration::from_millis(10));
            out.extend(self.0.collect().into_iter().map(|(device, frame)| {
                assert_eq!((device, &frame[..5]), (1, &[2, 0, 0, 0, 1][..]));
                (frame[5], frame)
            }));
        }
        self.0.check().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(out.len(), frames.len(), "{:?}", self.0.drops());
        out
    }

    /// Sends a packet of each flow.
    fn send(&mut self, flows: &[Flow], payload: &[u8]) -> Taken {
        let frames: Vec<_> = flows.iter().map(|f| f.frame(OURS, payload)).collect();
        let taken: Taken =
            self.pass(&frames).iter().map(|(hop, frame)| (Flow::of(frame).unwrap(), *hop)).collect();
        assert_eq!(taken.len(), flows.len());
        taken
    }
}

/// Each next hop has its share of `taken`, as its weight says.
fn shares(what: &str, taken: &[u8], weights: &[(u8, u32)]) {
    let all: u32 = weights.iter().map(|w| w.1).sum();
    for (hop, weight) in weights {
        let due = taken.len() as f64 * f64::from(*weight) / f64::from(all);
        let got = taken.iter().filter(|h| *h == hop).count();
        println!("{what}: next hop {hop} has {got} of {due:.0}");
        assert!((got as f64 - due).abs() <= due * TOLERANCE, "{what}: next hop {hop} has {got} of {due:.0}");
    }
    assert!(taken.iter().all(|h| weights.iter().any(|w| w.0 == *h)), "{what}: somebody else has some");
}

fn values(taken: &Taken) -> Vec<u8> {
    taken.values().copied().collect()
}

fn hops(family: Family, weights: &[(u8, u32)]) -> String {
    let each = weights.iter().map(|(hop, weight)| format!("{} 0 {weight}", family.next_hop(*hop)));
    each.collect::<Vec<_>>().join(" | ")
}

const TWO: &[(u8, u32)] = &[(11, 1), (12, 1)];
const THREE: &[(u8, u32)] = &[(11, 1), (12, 1), (13, 1)];
const FOUR: &[(u8, u32)] = &[(11, 1), (12, 1), (13, 1), (14, 1)];
const WEIGHTED: &[(u8, u32)] = &[(11, 2), (12, 1), (13, 1)];
const UNEVEN: &[(u8, u32)] = &[(11, 3), (12, 2), (13, 1)];

fn check_shares(family: Family) {
    for weights in [TWO, THREE, FOUR, WEIGHTED] {
        let mut router = Router::new(family, &format!("{} {}", family.prefix(), hops(family, weights)));
        for kind in ["ports", "clients", "servers", "anything"] {
            let flows = flows(family, kind);
            let taken = router.send(&flows, b"first");
            shares(kind, &values(&taken), weights);
            assert_eq!(router.send(&flows, b"the second, longer"), taken, "{kind}: flows change their way");
        }
    }
}

#[test]
fn next_hops_share_ipv4_flows_by_weight() {
    check_shares(V4);
}

#[test]
fn next_hops_share_ipv6_flows_by_weight() {
    check_shares(V6);
}

/// A next hop leaves, and comes again, where `named` says by a group that has a name.
fn check_departure(family: Family, weights: &[(u8, u32)], named: bool) {
    let (prefix, all) = (family.prefix(), hops(family, weights));
    let routes =
        if named { format!("NEXTHOP group {all}, {prefix} via group") } else { format!("{prefix} {all}") };
    let mut router = Router::new(family, &routes);
    let flows = flows(family, "anything");
    let before = router.send(&flows, b"");

    let (gone, left): (Vec<_>, Vec<_>) = weights.iter().copied().partition(|w| w.0 == 12);
    router.0.write("rt.withdraw", &format!("{} 0", family.next_hop(gone[0].0)));
    let without = router.send(&flows, b"");
    let mut homeless = Vec::new();
    for (flow, hop) in &before {
        if *hop == 12 {
            homeless.push(without[flow]);
        } else {
            assert_eq!(without[flow], *hop, "{flow:?} moved, though its next hop stayed");
        }
    }
    shares("the flows of the one that left", &homeless, &left);
    shares("all that are left", &values(&without), &left);

    let again = if named { ("rt.nexthop", "group") } else { ("rt.set", prefix) };
    router.0.write(again.0, &format!("{} {all}", again.1));
    let after = router.send(&flows, b"");
    shares("all again", &values(&after), weights);
    let moved: Vec<u8> = flows.iter().filter(|f| after[f] != without[f]).map(|f| after[f]).collect();
    if named {
        assert!(moved.iter().all(|hop| *hop == 12), "flows moved between next hops that stayed");
        let share = weights.iter().map(|w| w.1).sum::<u32>() as usize;
        let due = FLOWS * gone[0].1 as usize / share;
        assert!(moved.len() * 100 <= due * 105, "{} moved, {due} are due to who came", moved.len());
    }
}

#[test]
fn only_flows_of_a_next_hop_that_leaves_move() {
    for family in [V4, V6] {
        for weights in [TWO, THREE, FOUR, WEIGHTED, UNEVEN] {
            for named in [true, false] {
                check_departure(family, weights, named);
            }
        }
    }
}

/// All fragments of a datagram take one path for any ports, so that the receiver's path can put them together.
fn check_pieces(family: Family) {
    let mut router = Router::new(family, &format!("{} {}", family.prefix(), hops(family, THREE)));
    let flows = &flows(family, "anything")[..2000];
    let frames = |offset: u16, more| -> Vec<_> {
        let cut = |(n, f): (usize, &Flow)| {
            f.piece(OURS, &[7; 40], 16, Piece { identification: n as u32, offset, more })
        };
        flows.iter().enumerate().map(cut).collect()
    };
    let first = router.pass(&frames(0, true));
    for (offset, more) in [(16, true), (32, false)] {
        let pieces = router.pass(&frames(offset, more));
        let ways = |out: &[(u8, Vec<u8>)]| out.iter().map(|(hop, _)| *hop).collect::<Vec<_>>();
        assert_eq!(ways(&first), ways(&pieces), "offset {offset}");
    }
}

#[test]
fn pieces_of_a_datagram_take_one_way() {
    check_pieces(V4);
    check_pieces(V6);
}

/// Packets and bytes by next hop.
type Counts = BTreeMap<u8, (u64, u64)>;

impl Router {
    /// What the router has counted, of all packets or of a route's.
    fn counts(&mut self, route: Option<&str>) -> Counts {
        let text = self.0.read("rt.counts");
        let mut counts = Counts::new();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            if words.get(4).copied() == route {
                let hop = words[2].rsplit(['.', ':']).next().unwrap().parse().unwrap();
                counts.insert(hop, (words[0].parse().unwrap(), words[1].parse().unwrap()));
            }
        }
        counts
    }
}

/// What frames that came out count as.
fn add(counts: &mut Counts, frames: &[(u8, Vec<u8>)], is_counted: impl Fn(&Flow) -> bool) {
    for (hop, frame) in frames {
        if is_counted(&Flow::of(frame).unwrap()) {
            let sum = counts.entry(*hop).or_default();
            sum.0 += 1;
            sum.1 += frame.len() as u64 - 14;
        }
    }
}

/// Two routes, one below the other, and then the longer one goes. The router's counts are those of the frames that it sends.
fn check_counts(family: Family) {
    let (prefix, longer) = match family {
        V4 => (family.prefix(), "10.9.0.0/24"),
        V6 => (family.prefix(), "2001:db8:9::/120"),
    };
    let (first, rest) = (family.addresses(0, 0).1, family.addresses(0, 255).1);
    let in_longer = |flow: &Flow| (first..rest).contains(&flow.to);
    let routes = format!("{prefix} {}, {longer} {} 0", hops(family, UNEVEN), family.next_hop(14));
    let mut router = Router::new(family, &routes);
    let flows = flows(family, "anything");
    let frames: Vec<_> = flows.iter().map(|flow| flow.frame(OURS, &[7; 60])).collect();
    router.pass(&frames);
    router.0.write("rt.count", &format!("3600 {prefix}, {longer}"));
    let (mut all, mut shorter, mut long) = (Counts::new(), Counts::new(), Counts::new());
    let sent = router.pass(&frames);
    add(&mut all, &sent, |_| true);
    add(&mut shorter, &sent, |flow| !in_longer(flow));
    add(&mut long, &sent, in_longer);
    assert!(long[&14].0 > 10 && shorter.len() == UNEVEN.len(), "{long:?} {shorter:?}");
    let found = |router: &mut Router| [None, Some(prefix), Some(longer)].map(|route| router.counts(route));
    assert_eq!(found(&mut router), [all.clone(), shorter.clone(), long.clone()]);

    router.0.write("rt.remove", longer);
    let sent = router.pass(&frames);
    add(&mut all, &sent, |_| true);
    add(&mut shorter, &sent, |_| true);
    assert_eq!(found(&mut router), [all.clone(), shorter.clone(), long.clone()]);

    // A group that loses a member counts by those that are left.
    router.0.write("rt.withdraw", &format!("{} 0", family.next_hop(12)));
    let sent = router.pass(&frames);
    add(&mut all, &sent, |_| true);
    add(&mut shorter, &sent, |_| true);
    assert_eq!(found(&mut router), [all, shorter, long]);
    router.0.write("rt.count", "0");
    let moved = router.send(&flows, &[]);
    assert!(moved.values().all(|hop| *hop != 12));
}

#[test]
fn counts_of_routes_and_next_hops_are_those_of_the_frames_sent() {
    check_counts(V4);
    check_counts(V6);
}
