// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StaticIPLookup, LookupIPRoute, LinearIPLookup, RadixIPLookup, DirectIPLookup, RangeIPLookup, SortedIPLookup
//!
//! `StaticIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! Sends each packet to the output of the longest route that matches its destination annotation; with a gateway, the
//! annotation is replaced by the gateway's address. The names are those of Click, where each is another data structure;
//! here all are one table (a two-step trie with batch lookup) that any number of workers read without waiting, and
//! all take and lose routes while they run.
//!
//! **Ports:** 1 input, any number of outputs, push.
//!
//! **Arguments:** one route each: `ADDR/MASK HOP`, or `ADDR/MASK HOP | HOP ...` to share traffic among several; `table N`
//! behind puts the route into table N (0 to 255, default 0). Of two arguments with the same prefix and table the first counts, as
//! in Click, and a warning names both.
//! * `ADDR/MASK` prefix, as `18.26.4.0/24`, `18.26.4/24` or with a mask; a bare address is a host route.
//! * `HOP` is `[GATEWAY] OUTPUT`, `GATEWAY OUTPUT WEIGHT`, or `via NAME [WEIGHT]`:
//!   * `GATEWAY` next hop; none, `-` or 0.0.0.0 leaves the destination as it is.
//!   * `OUTPUT` output number; -1 drops.
//!   * `WEIGHT` share of the flows, in proportion to the other hops' weights; default 1.
//!   * `NAME` next hop named by NEXTHOP.
//!
//! Prefix and gateway may be names that AddressInfo defines, in handlers too, but not in files.
//!
//! Of several hops, each flow (addresses, protocol, and ports unless fragmented) keeps to one; when a hop leaves, only its own
//! flows move, and when one joins, only as many as it is due.
//!
//! **Keywords**
//! * `NEXTHOP NAME HOP | HOP ...` names a group of hops, which may be changed for all routes at once; may be repeated.
//! * `FILE` routes to be added at start, a line each in the form above; `#` begins a comment. Host bits are errors here. Of
//!   lines with the same prefix and table the first counts, which is reported; a line counts before an argument.
//! * `VRF_ANNO` annotation of one byte (offset or name) that says which table a packet is looked up in; default: table 0 for all.
//! * `CAPACITY` routes in all tables; default: no limit but that of each table's 128 MiB, of which a million routes of the Internet
//!   take 4 and a million scattered host routes 64. Whole tables that are replaced need room for both.
//! * `NEXTHOPS` different hops and groups, at most 32,767 (the default).
//! * `BUCKETS` a named group's buckets, a power of two up to 16384: the grain of shares; default 256.
//! * `TABLE` another element of this kind, whose table this one uses: both look up the same routes, and handlers of either change
//!   them. Routes and the other keywords but VRF_ANNO are the other's to give; both need the same outputs.
//! * `SYNC` how workers share the table. `rcu` (default): one table, readers never wait. `percore`: a table for each
//!   worker, behind a lock of its own taken once a batch; changes are made in each. `lock`: one table behind one lock. The
//!   last two also count packets and bytes for each route under their lock, which takes another lookup; they are there to show what
//!   they cost.
//!
//! **Metadata:** destination annotation read, and set to the gateway; `VRF_ANNO` read.
//!
//! **Drops:** `no-route`, for packets without route or table or with output -1. The first five are printed.
//!
//! **Handlers**
//! * `table` read: all routes. `nroutes` read: how many.
//! * `lookup` read with an address (and `table N`): output and gateway for it, or all hops.
//! * `nexthops` read: named next hops and what they stand for.
//! * `add` write: adds a route; fails if there is one for the prefix. `set` write: adds or replaces.
//! * `remove` write: removes the route of a prefix, given with or without gateway and output.
//! * `ctrl` write: several lines of `add`, `set` and `remove`, all or none. `flush` write: removes all routes.
//! * `replace` write: the routes to have from now on, a line each. `load` write: the same from a file; not for
//!   control connections. Either way nothing changes if a line is wrong.
//! * `nexthop` write: `NAME HOP | HOP ...` makes or changes a named next hop. `remove_nexthop` write: removes one not in use.
//! * `withdraw` write: `GATEWAY OUTPUT` leaves every group that has another hop.
//! * `contention` read: for each lock, how often it was taken, how often someone waited, and for how many ns in all.
//! * `stats` read: packets, bytes and route, a line for each that decided about any, the busiest first, where SYNC counts them; a route
//!   that is removed is not shown.
//! * `count` write: `SECONDS [ROUTE, ...]` counts packets and bytes by next hop for so many seconds, at most 3600; 0 ends that. Of up to 16
//!   routes, it also counts what each decides about: ROUTE is a prefix, or an address that the route decides about, with `table N` behind if
//!   need be. A next hop is a group's member. For SYNC rcu.
//! * `counts` read: `time_ns N`, then `PACKETS BYTES GATEWAY OUTPUT [PREFIX [table N]]`, a line for each next hop, and for each one of a route.
//!   Bytes are those of IP packets. OUTPUT is `none` without route, or `drop`, `blackhole`, `prohibit`.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> GetIPAddress(16)
//!   -> rt :: StaticIPLookup(10.0.0.0/8 0, 172.16.0.0/12 10.0.0.2 0 3 | 10.1.0.2 1 1, 0.0.0.0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: GetIPAddress, DecIPTTL. RFC 1812 (5.2.4), RFC 2991, RFC 2992

use std::net::{IpAddr, Ipv4Addr};

use element::args::Names;
use element::{Class, Element, Sharing};
use packet::Packet;
use sync::rcu;
use tables::fib4::{Fib4Error, Fib4Reader, Fib4Writer, NextHopId};
use wire::{AddrMask4, FlowKey, Prefix4};

use super::{Family, HANDLERS, Like, Lookup, Unmade, chain};

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Lookup::<V4>::with_capabilities(
        Class::new(name, "1/-", make)
            .processing("h/h")
            .sharing(Sharing::Shared)
            .handlers(HANDLERS)
            .pure()
            .file(file!()),
    )
}

/// The descriptor.
pub const STATIC: Class = class("StaticIPLookup", || Box::new(Lookup::<V4>::like(Like::Linear)));
/// The descriptor of a synonym.
pub const LOOKUP: Class = class("LookupIPRoute", || Box::new(Lookup::<V4>::like(Like::Linear)));
/// The descriptor of a synonym.
pub const LINEAR: Class = class("LinearIPLookup", || Box::new(Lookup::<V4>::like(Like::Linear)));
/// The descriptor of a synonym.
pub const RADIX: Class = class("RadixIPLookup", || Box::new(Lookup::<V4>::like(Like::Radix)));
/// The descriptor of a synonym.
pub const DIRECT: Class = class("DirectIPLookup", || Box::new(Lookup::<V4>::like(Like::Direct)));
/// The descriptor of a synonym.
pub const RANGE: Class = class("RangeIPLookup", || Box::new(Lookup::<V4>::like(Like::Direct)));
/// The descriptor of a synonym.
pub const SORTED: Class = class("SortedIPLookup", || Box::new(Lookup::<V4>::like(Like::Sorted)));

/// IPv4 over `tables::fib4`.
pub(crate) struct V4;

/// Equal for all packets of a flow, of which this is the IP packet of one.
pub(crate) fn flow_hash(datagram: &[u8], destination: u32) -> u32 {
    FlowKey::for_steering(datagram).map_or(destination, |key| key.quick_hash(0) as u32)
}

impl Family for V4 {
    type Addr = Ipv4Addr;
    type Prefix = Prefix4;
    type Key = u32;
    type Writer = Fib4Writer;
    type Reader = Fib4Reader;

    const UNSPECIFIED: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

    fn address(address: IpAddr) -> Option<Ipv4Addr> {
        match address {
            IpAddr::V4(address) => Some(address),
            _ => None,
        }
    }

    fn prefix(text: &str) -> Option<(Prefix4, bool)> {
        let given: AddrMask4 = text.parse().ok()?;
        let prefix = given.prefix()?;
        Some((prefix, prefix.addr() != given.addr))
    }

    fn named_prefix(names: &Names, name: &str) -> Option<String> {
        names.net4_or_host(name).map(|net| net.to_string())
    }

    fn named_address(names: &Names, name: &str) -> Option<Ipv4Addr> {
        names.ip4(name)
    }

    fn key(address: Ipv4Addr) -> u32 {
        address.to_bits()
    }

    #[inline]
    fn destination(packet: &Packet) -> u32 {
        u32::from_be_bytes(packet.dst_ip())
    }

    #[inline]
    fn source(packet: &Packet) -> Option<u32> {
        crate::ip::header(packet)
            .filter(|h| h[0] >> 4 == 4)
            .map(|h| u32::from_be_bytes([h[12], h[13], h[14], h[15]]))
    }

    fn show_key(key: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(key)
    }

    fn set_destination(packet: &mut Packet, address: Ipv4Addr) {
        packet.set_dst_ip(address.octets());
    }

    /// Of the header, if there is one; else of the destination. Fragments go by addresses, so that they stay together.
    fn flow_hash(packet: &Packet) -> u32 {
        flow_hash(packet.network().unwrap_or(packet.data()), Self::destination(packet))
    }

    fn chain(prefix: Prefix4) -> u32 {
        chain(prefix.bits(), prefix.len().into())
    }

    fn open(domain: &rcu::Domain) -> Result<Fib4Writer, String> {
        Fib4Writer::new(domain).map_err(|e| e.to_string())
    }

    fn reader(fib: &Fib4Writer) -> Fib4Reader {
        fib.reader()
    }

    #[inline]
    fn lookup(fib: &Fib4Reader, rcu: &rcu::Reader, keys: &[u32], out: &mut [u32]) {
        fib.lookup_batch(rcu, keys, out);
    }

    fn insert(fib: &mut Fib4Writer, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, String> {
        fib.insert(prefix, id).map_err(|e| e.to_string())
    }

    fn remove(fib: &mut Fib4Writer, prefix: Prefix4) -> Result<Option<NextHopId>, String> {
        fib.remove(prefix).map_err(|e| e.to_string())
    }

    fn commit(
        fib: &mut Fib4Writer,
        changes: &[(Prefix4, Option<NextHopId>)],
    ) -> Result<Vec<Option<NextHopId>>, Unmade> {
        fib.commit(changes).map_err(|e| match e {
            Fib4Error::Stalled { .. } => Unmade::Busy(e.to_string()),
            e => Unmade::Full(e.to_string()),
        })
    }

    fn replace(fib: &mut Fib4Writer, routes: &[(Prefix4, NextHopId)]) -> Result<(), String> {
        fib.replace_all(routes.iter().copied()).map_err(|e| e.to_string())
    }

    fn get(fib: &Fib4Writer, prefix: Prefix4) -> Option<NextHopId> {
        fib.get(prefix)
    }

    fn longest_match(fib: &Fib4Writer, key: u32) -> Option<(Prefix4, NextHopId)> {
        fib.longest_match(key)
    }

    fn routes(fib: &Fib4Writer) -> Box<dyn Iterator<Item = (Prefix4, NextHopId)> + '_> {
        Box::new(fib.iter())
    }

    fn range(fib: &Fib4Writer, from: u64, to: u64) -> Box<dyn Iterator<Item = (Prefix4, NextHopId)> + '_> {
        let [from, to] = [from, to].map(|addr| u32::try_from(addr).unwrap_or(u32::MAX));
        Box::new(fib.range(from, to))
    }

    fn covers(outer: Prefix4, inner: Prefix4) -> bool {
        outer.covers(inner)
    }

    fn fed_prefix(prefix: Prefix4) -> feed::Destination {
        feed::Destination::V4(prefix)
    }

    fn len(fib: &Fib4Writer) -> usize {
        fib.len()
    }

    fn bytes(fib: &Fib4Writer) -> usize {
        fib.lookup_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::io::testing::Temp;
    use crate::testing::{Rig, Run};
    use element::Reason;
    use packet::Packet;

    const ROUTES: &str =
        "10.0.0.0/8 0, 10.1.0.0/16 1.1.1.1 1, 10.1.2.3 2.2.2.2 2, 192.168.0.0/255.255.0.0 -1";

    fn to(address: [u8; 4]) -> packet::Packet {
        let mut p = packet::Packet::copy_of(&address).unwrap();
        p.set_dst_ip(address);
        p
    }

    fn run(destinations: &[[u8; 4]], burst: usize) -> Run {
        let packets = destinations.iter().map(|d| to(*d)).collect();
        Rig::new(&format!("RadixIPLookup({ROUTES})")).outputs(3).burst(burst).packets(packets).run()
    }

    // conformance: RFC1812-5.2.4.3
    #[test]
    fn longest_match_wins_and_gateways_replace_destinations() {
        for burst in [1, 32] {
            let run = run(
                &[
                    [10, 9, 9, 9],
                    [10, 1, 9, 9],
                    [10, 1, 2, 3],
                    [10, 1, 2, 4],
                    [192, 168, 1, 1],
                    [11, 0, 0, 1],
                ],
                burst,
            );
            let out =
                |name: &str| run.out(name).iter().map(|p| (p.data()[3], p.dst_ip())).collect::<Vec<_>>();
            assert_eq!(out("o0"), [(9, [10, 9, 9, 9])]);
            assert_eq!(out("o1"), [(9, [1, 1, 1, 1]), (4, [1, 1, 1, 1])]);
            assert_eq!(out("o2"), [(3, [2, 2, 2, 2])]);
            assert_eq!(run.drops("e"), [(Reason::NoRoute, 2)]);
            assert_eq!(run.printed(), "e: no route for 192.168.1.1\ne: no route for 11.0.0.1\n");
        }
    }

    #[test]
    fn handlers_change_the_table() {
        let mut run = run(&[], 32);
        assert_eq!(run.read("e.nroutes"), "4");
        run.write("e.add", "1.0.0.0/8 2").unwrap();
        assert!(run.write("e.add", "1.0.0.0/8 1").is_err());
        run.write("e.set", "1.0.0.0/8 9.9.9.9 1").unwrap();
        assert!(run.read("e.table").contains("1.0.0.0/8\t\t9.9.9.9\t\t1\n"));
        assert!(run.write("e.remove", "1.0.0.0/8 2").is_err());
        run.write("e.remove", "1.0.0.0/8").unwrap();
        assert!(run.write("e.remove", "1.0.0.0/8").is_err());
        assert!(run.write("e.ctrl", "add 7.0.0.0/8 1\nadd 8.0.0.0/8 5\n").is_err());
        assert_eq!(run.read("e.nroutes"), "4", "a failed transaction changes nothing");
        run.write("e.ctrl", "add 7.0.0.0/8 1\nremove 10.0.0.0/8\n").unwrap();
        assert!(run.read("e.table").contains("7.0.0.0/8"));
        run.write("e.flush", "").unwrap();
        assert_eq!(run.read("e.nroutes"), "0");
    }

    #[test]
    fn bad_routes_are_all_reported() {
        assert_eq!(
            Rig::new("StaticIPLookup(10.0.0.0/33 0, 10.0.0.0/8, 10.0.0.0/8 7, 10.0.0.0/8 x 0)").errors(),
            [
                "e: '10.0.0.0/33' is not a prefix (ADDRESS/LENGTH)",
                "e: a route is ADDR/MASK [GATEWAY] OUTPUT, not '10.0.0.0/8'",
                "e: there is no output 7 (outputs 0 to 0 are connected)",
                "e: 'x' is not a gateway's address",
            ]
        );
    }

    #[test]
    fn a_network_is_not_made_up() {
        let text = |address: &str| {
            format!(
                "AddressInfo(a {address}); i :: TestIn -> e :: StaticIPLookup(a 0, a:bcast 0, a:ipnet/32 0) -> o :: TestOut;"
            )
        };
        let needs = |name: &str| {
            format!("e: '{name}' needs a network, but 'a' is an address alone; give it as ADDRESS/LENGTH")
        };
        assert_eq!(Rig::text(&text("10.0.0.1")).errors(), [needs("a:bcast"), needs("a:ipnet/32")]);
        assert_eq!(Rig::text(&text("10.0.0.1/24")).errors(), [""; 0]);
    }

    /// Packets of UDP flows to this destination, distinguished by their source ports.
    fn flows(destination: [u8; 4], count: u16) -> Vec<Packet> {
        let flow = |port: u16| {
            let mut bytes = [0; 28];
            bytes[..4].copy_from_slice(&[0x45, 0, 0, 28]);
            (bytes[8], bytes[9]) = (64, 17);
            bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
            bytes[16..20].copy_from_slice(&destination);
            bytes[20..22].copy_from_slice(&port.to_be_bytes());
            bytes[22..24].copy_from_slice(&[0, 53]);
            let mut packet = packet::Packet::copy_of(&bytes).unwrap();
            packet.set_network(0, 20);
            packet.set_dst_ip(destination);
            packet
        };
        (0..count).map(flow).collect()
    }

    /// The source ports of what reached a sink.
    fn ports(run: &Run, name: &str) -> Vec<u16> {
        run.out(name).iter().map(|p| u16::from_be_bytes([p.data()[20], p.data()[21]])).collect()
    }

    fn group(element: &str, flows: Vec<Packet>) -> Run {
        Rig::new(element).outputs(3).packets(flows).run()
    }

    #[test]
    fn flows_spread_over_hops_by_weight_and_stay_together() {
        let element = "LookupIPRoute(10.0.0.0/8 1.1.1.1 0 1 | 2.2.2.2 1 3)";
        let mut twice = flows([10, 0, 0, 1], 2000);
        twice.extend(flows([10, 0, 0, 1], 2000));
        let run = group(element, twice);
        let (few, many) = (ports(&run, "o0"), ports(&run, "o1"));
        assert!((900..1100).contains(&few.len()), "{} of 4000", few.len());
        assert_eq!(few[..few.len() / 2], few[few.len() / 2..], "each flow went the same way twice");
        assert!(many.iter().all(|port| !few.contains(port)));
    }

    #[test]
    fn ten_thousand_flows_spread_within_five_percent() {
        let run =
            group("LookupIPRoute(0/0 1.1.1.1 0 1 | 2.2.2.2 1 1 | 3.3.3.3 2 1)", flows([10, 0, 0, 1], 10_000));
        for sink in ["o0", "o1", "o2"] {
            let got = ports(&run, sink).len() as f64;
            assert!((got - 10_000.0 / 3.0).abs() < 0.05 * 10_000.0 / 3.0, "{sink} has {got}");
        }
    }

    /// A hop leaves in each of the three ways; the other hops' flows stay where they were.
    #[test]
    fn only_the_flows_of_a_hop_that_leaves_move() {
        let check = |element: &str, handler: &str, value: &str| {
            let mut run = group(element, flows([10, 0, 0, 1], 3000));
            let before = [ports(&run, "o0"), ports(&run, "o1"), ports(&run, "o2")];
            assert!(before.iter().all(|flows| flows.len() > 900), "{element}");
            run.write(&format!("e.{handler}"), value).unwrap();
            run.give("i", flows([10, 0, 0, 1], 3000));
            let run = run.again();
            let after = [ports(&run, "o0"), ports(&run, "o1"), ports(&run, "o2")];
            assert!(after[1].is_empty());
            for port in [0, 2] {
                assert!(before[port].iter().all(|flow| after[port].contains(flow)), "{handler} {value}");
            }
        };
        let three = "1.1.1.1 0 1 | 2.2.2.2 1 1 | 3.3.3.3 2 1";
        let two = "3.3.3.3 2 1 | 1.1.1.1 0 1";
        let route = format!("LookupIPRoute(10.0.0.0/8 {three})");
        let named = format!("LookupIPRoute(NEXTHOP core {three}, 10.0.0.0/8 via core)");
        check(&route, "set", &format!("10.0.0.0/8 {two}"));
        check(&route, "withdraw", "2.2.2.2 1");
        check(&named, "nexthop", &format!("core {two}"));
    }

    #[test]
    fn names_may_change_and_errors_name_what_is_wrong() {
        let mut run = group(
            "LookupIPRoute(NEXTHOP core 1.1.1.1 0 1 | - 1 2, NEXTHOP up via core, 10.0.0.0/8 via up)",
            vec![],
        );
        assert_eq!(run.read("e.table"), "10.0.0.0/8\t\tvia up\n");
        assert_eq!(run.read("e.nexthops"), "core\t1.1.1.1 0 1 | - 1 2\nup\tvia core 1\n");
        let mut check = |handler: &str, value: &str, want: &str| {
            let error = run.write(&format!("e.{handler}"), value).expect_err(want).to_string();
            assert_eq!(error, want);
        };
        check(
            "nexthop",
            "core 2.2.2.2 0 1 | via up",
            "next-hop loop: group 2 would contain itself by way of 3",
        );
        check("nexthop", "core via none", "unknown next hop 'none'");
        check(
            "nexthop",
            "core 1.1.1.1 0 0",
            "a group of nothing: it needs at least one next hop with a weight above 0",
        );
        check("nexthop", "core", "expected NAME [GATEWAY] OUTPUT [WEIGHT] | ..., not 'core'");
        check("add", "11.0.0.0/8 via none", "unknown next hop 'none'");
        check("add", "11.0.0.0/8 1.1.1.1 0 x", "'x' is not a weight");
        check("add", "11.0.0.0/8 1 table 256", "'256' is not a table's number (0 to 255)");
        check("remove_nexthop", "up", "next hop 'up' is in use by a route or group");
        check("remove_nexthop", "none", "unknown next hop 'none'");
        check("withdraw", "9.9.9.9 0", "unknown next hop '9.9.9.9 0'");
        run.write("e.remove", "10.0.0.0/8 via up").unwrap();
        run.write("e.remove_nexthop", "up").unwrap();
        assert_eq!(run.read("e.nexthops"), "core\t1.1.1.1 0 1 | - 1 2\n");
    }

    #[test]
    fn tables_are_chosen_by_an_annotation() {
        let routes = "10.0.0.0/8 0, 10.0.0.0/8 1.1.1.1 1 table 7, 0/0 2 table 7";
        let packets = || {
            let packet = |(vrf, address)| {
                let mut packet = to(address);
                packet.set_paint(vrf);
                packet
            };
            [
                (0, [10, 0, 0, 1]),
                (7, [10, 0, 0, 2]),
                (7, [11, 0, 0, 3]),
                (0, [11, 0, 0, 4]),
                (9, [10, 0, 0, 5]),
            ]
            .map(packet)
            .into()
        };
        for sync in ["rcu", "percore", "lock"] {
            let rig = Rig::new(&format!("LookupIPRoute({routes}, VRF_ANNO PAINT, SYNC {sync})")).outputs(3);
            let mut run = rig.packets(packets()).run();
            let out = |name: &str| run.out(name).iter().map(|p| p.data()[3]).collect::<Vec<_>>();
            assert_eq!((out("o0"), out("o1"), out("o2")), (vec![1], vec![2], vec![3]), "{sync}");
            assert_eq!(run.drops("e"), [(Reason::NoRoute, 2)]);
            assert!(run.read("e.table").contains("10.0.0.0/8\t\t1.1.1.1\t\t1 table 7\n"));
            let counts = match sync {
                "rcu" => "",
                _ => "1 4 0.0.0.0/0 - 2 table 7\n1 4 10.0.0.0/8 - 0\n1 4 10.0.0.0/8 1.1.1.1 1 table 7\n",
            };
            assert_eq!(run.read("e.stats"), counts, "{sync}");
            // A table that comes later is found too.
            run.write("e.add", "10.0.0.0/8 0 table 9").unwrap();
            run.give("i", packets());
            assert_eq!(run.again().out("o0").len(), 2, "{sync}");
        }
    }

    #[test]
    fn a_replacement_is_all_or_nothing() {
        for sync in ["rcu", "percore", "lock"] {
            let element = format!("LookupIPRoute({ROUTES}, CAPACITY 5, SYNC {sync}, NEXTHOP a 9.9.9.9 0)");
            let mut run = Rig::new(&element).outputs(3).run();
            let before = run.read("e.table");
            let mut check = |text: &str, want: &str| {
                let error = run.write("e.replace", text).expect_err(want).to_string();
                assert_eq!((error.as_str(), run.read("e.table")), (want, before.clone()), "{text}");
            };
            check(
                "1.0.0.0/8 0\n10.0.0.1/8 0",
                "line 2: '10.0.0.1/8' has host bits; the prefix is 10.0.0.0/8; nothing was changed",
            );
            check("\n# text\n1.0.0.0/8 via b", "line 3: unknown next hop 'b'; nothing was changed");
            check(
                "1.0.0.0/8",
                "line 1: a route is ADDR/MASK [GATEWAY] OUTPUT, not '1.0.0.0/8'; nothing was changed",
            );
            let six: String = (1..7).map(|net| format!("{net}.0.0.0/8 1.1.1.{net} 0\n")).collect();
            check(&six, "the routing table is full: it may have 5 routes (CAPACITY)");
            let error = run.write("e.load", "/nonexistent/routes").expect_err("no file").to_string();
            assert!(error.starts_with("cannot read routes: /nonexistent/routes: "), "{error}");
            run.write(
                "e.replace",
                "1.0.0.0/8 2 # comment\n1.0.0.0/8 via a\n2.0.0.0/8 1.1.1.1 0 | 2.2.2.2 1 7\n",
            )
            .unwrap();
            // Of two lines for one prefix the first counts.
            let text = "1.0.0.0/8\t\t-\t\t2\n2.0.0.0/8\t\t1.1.1.1\t\t0 1 | 2.2.2.2 1 7\n";
            assert_eq!(run.read("e.table"), text);
            run.write("e.replace", text).expect("the table's text is what replace reads");
            assert_eq!(run.read("e.table"), text);
            for net in 3..6 {
                run.write("e.add", &format!("{net}.0.0.0/8 0")).unwrap();
            }
            let error = run.write("e.add", "6.0.0.0/8 0").expect_err("five are there").to_string();
            assert_eq!(error, "the routing table is full: it may have 5 routes (CAPACITY)");
            run.write("e.set", "5.0.0.0/8 1").expect("one of the five");
            run.write("e.remove_nexthop", "a").expect("no route has it any more");
        }
    }

    #[test]
    fn a_file_adds_to_the_arguments() {
        let temp = Temp::new();
        let file = temp.file("routes", "20.0.0.0/8 1.1.1.1 0\n");
        let element = format!("LookupIPRoute(10.0.0.0/8 0, FILE {file})");
        let mut run = Rig::new(&element).run();
        assert_eq!(run.read("e.nroutes"), "2");
        std::fs::write(&file, "30.0.0.0/8 0\n").unwrap();
        run.write("e.load", &format!("{file}\n")).unwrap();
        assert_eq!(run.read("e.table"), "30.0.0.0/8\t\t-\t\t0\n");
    }

    /// What routes have decided about in [`strategies_agree`] that are still there at its end, by hand.
    const COUNTS: &str = "400 11200 11.0.0.0/8 - 2\n8 224 10.1.0.0/16 1.1.1.1 1\n";

    /// The same routes, changes and packets give the same outputs with any strategy, on one worker and on two.
    #[test]
    fn strategies_agree() {
        let outcome = |sync: &str, workers: usize| {
            let element = format!("LookupIPRoute({ROUTES}, 11.0.0.0/8 1.1.1.1 0 | 2.2.2.2 1 3, SYNC {sync})");
            let packets = || {
                let mut packets = flows([11, 0, 0, 1], 200);
                packets.extend(flows([10, 1, 2, 3], 2));
                packets.extend(flows([10, 1, 2, 4], 3));
                packets.extend(flows([99, 0, 0, 1], 1));
                packets
            };

            let mut run = Rig::new(&element).outputs(3).workers(workers).packets(packets()).run();
            let mut outcome = vec![["o0", "o1", "o2"].map(|name| ports(&run, name))];
            run.write("e.ctrl", "set 11.0.0.0/8 2\nremove 10.1.2.3").unwrap();
            run.give("i", packets());
            let mut run = run.again();
            outcome.push(["o0", "o1", "o2"].map(|name| ports(&run, name)));
            (outcome, run.read("e.table"), run.drops("e"), run.read("e.stats"), run.read("e.contention"))
        };
        let want = outcome("rcu", 1);
        assert_eq!((want.3.as_str(), want.4.starts_with("control acquisitions ")), ("", true));
        for (sync, workers) in [("rcu", 2), ("percore", 1), ("percore", 2), ("lock", 1), ("lock", 2)] {
            let got = outcome(sync, workers);
            assert_eq!((&got.0, &got.1, &got.2), (&want.0, &want.1, &want.2), "{sync} {workers}");
            if sync != "rcu" {
                assert_eq!(got.3, COUNTS, "{sync} {workers}");
            }
            assert_eq!(got.4.lines().count(), 1, "the simulation runs on one worker: {}", got.4);
        }
    }

    /// So many changes that one by one they would leave more behind than can wait for readers; and a wrong one at their end.
    #[test]
    fn many_changes_at_once_are_all_or_none() {
        let mut run = Rig::new("LookupIPRoute(10.0.0.0/8 0, 0/0 1)").outputs(3).run();
        let line =
            |at: u32| format!("set 10.{}.{}.0/24 1.1.1.{} {}\n", at / 200 % 30, at % 200, at % 7, at % 3);
        let text: String = (0..12_000).map(line).collect::<String>() + "remove 10.0.0.0/8\n";
        let before = run.read("e.table");
        let error =
            run.write("e.ctrl", &format!("{text}remove 99.0.0.0/8")).expect_err("no such route").to_string();
        assert_eq!(error, "remove 99.0.0.0/8: there is no such route: 99.0.0.0/8; nothing was changed");
        assert_eq!(run.read("e.table"), before);
        run.write("e.ctrl", &text).expect("room");
        assert_eq!(run.read("e.nroutes"), "6001");
        // The last of those for 10.2.5.0/24 was number 6405.
        assert!(run.read("e.table").contains("10.2.5.0/24\t\t1.1.1.0\t\t0\n"));
    }

    /// Two elements over one table: `rt` has it, `rt2` uses it.
    fn sharing(owner: &str, borrower: &str) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> e :: PaintSwitch; e[0] -> rt :: LookupIPRoute({owner}); e[1] -> rt2 :: {borrower};
             rt[0] -> o0 :: TestOut; rt[1] -> o1 :: TestOut; rt2[0] -> o2 :: TestOut; rt2[1] -> o3 :: TestOut;"
        ))
    }

    #[test]
    fn two_elements_use_one_table_and_handlers_of_either_change_it() {
        for (sync, workers) in [("rcu", 1), ("rcu", 2), ("percore", 2), ("lock", 2)] {
            let owner = format!("10.0.0.0/8 0, 11.0.0.0/8 1.1.1.1 1, SYNC {sync}");
            let packets = || {
                let painted = |(paint, a): (u8, u8)| {
                    let mut packet = to([a, 0, 0, 1]);
                    packet.set_paint(paint);
                    packet
                };
                [(0, 10), (1, 10), (1, 11), (1, 12)].map(painted).into()
            };
            let rig = sharing(&owner, "RadixIPLookup(TABLE rt)").workers(workers);
            let mut run = rig.packets(packets()).run();
            let counts = |run: &Run| ["o0", "o1", "o2", "o3"].map(|name| run.out(name).len());
            assert_eq!(counts(&run), [1, 0, 1, 1], "{sync}");
            assert_eq!(run.drops("rt2"), [(Reason::NoRoute, 1)]);
            run.write("rt2.add", "12.0.0.0/8 1").unwrap();
            run.write("rt.set", "10.0.0.0/8 1").unwrap();
            assert_eq!((run.read("rt.nroutes"), run.read("rt2.nroutes")), ("3".into(), "3".into()));
            assert_eq!(run.read("rt.table"), run.read("rt2.table"));
            run.give("i", packets());
            assert_eq!(counts(&run.again()), [0, 1, 0, 3], "{sync}");
        }
    }

    #[test]
    fn one_table_has_one_set_of_parameters() {
        let check = |borrower: &str, want: &str| {
            let errors = sharing("10.0.0.0/8 0", borrower).errors();
            assert!(errors.iter().any(|error| error.contains(want)), "{errors:?}");
        };
        check("LookupIPRoute(TABLE rt, SYNC lock)", "SYNC is for 'rt' to say");
        check("LookupIPRoute(TABLE rt, CAPACITY 5)", "CAPACITY is for 'rt' to say");
        check("LookupIPRoute(TABLE rt, 10.0.0.0/8 1)", "the route '10.0.0.0/8 1' belongs to 'rt'");
        check("LookupIPRoute(TABLE o0)", "TABLE 'o0' is not an element with a table of its own");
        check("LookupIPRoute(TABLE rt2)", "TABLE 'rt2' is not an element with a table of its own");
        check("LookupIP6Route(TABLE rt)", "TABLE 'rt' is not an element with a table of its own");
        let fewer = "i :: TestIn -> rt :: LookupIPRoute(0/0 1); rt[0] -> o :: TestOut; rt[1] -> Discard;
            Idle -> rt2 :: LookupIPRoute(TABLE rt) -> Discard;";
        let errors = Rig::text(fewer).errors();
        assert!(errors[0].contains("it has 1 outputs and 'rt', whose table it uses, 2"), "{errors:?}");
    }
}
