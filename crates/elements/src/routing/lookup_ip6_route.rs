// SPDX-License-Identifier: MIT OR Apache-2.0
//! # LookupIP6Route
//!
//! `LookupIP6Route(ADDR/LENGTH [GATEWAY] OUTPUT, ...)`
//!
//! Sends each IPv6 packet to the output of the longest route that matches its destination annotation; with a gateway, the
//! annotation is replaced by the gateway's address. Any number of workers look up at once, and routes come and
//! go meanwhile.
//!
//! **Ports:** 1 input, any number of outputs, push.
//!
//! **Arguments:** one route each: `ADDR/LENGTH HOP`, or `ADDR/LENGTH HOP | HOP ...` to share traffic among several; `table N`
//! behind puts the route into table N (0 to 255, default 0).
//! * `ADDR/LENGTH` prefix, as `2001:db8::/32` or with a mask (`2001:db8::/ffff:ffff::`); a bare address is a host route.
//! * `HOP` is `[GATEWAY] OUTPUT`, `GATEWAY OUTPUT WEIGHT`, or `via NAME [WEIGHT]`:
//!   * `GATEWAY` next hop; none, `-` or `::` leaves the destination as it is.
//!   * `OUTPUT` output number; -1 drops.
//!   * `WEIGHT` share of the flows, in proportion to the other hops' weights; default 1.
//!   * `NAME` next hop named by NEXTHOP.
//!
//! Of several hops, each flow (addresses, protocol, and ports unless fragmented) keeps to one; when a hop leaves, only its own
//! flows move, and when one joins, only as many as it is due.
//!
//! **Keywords**
//! * `NEXTHOP NAME HOP | HOP ...` names a group of hops, which may be changed for all routes at once; may be repeated.
//! * `FILE` routes to be added at start, a line each in the form above; `#` begins a comment. Host bits are errors here.
//! * `VRF_ANNO` annotation of one byte (offset or name) that says which table a packet is looked up in; default: table 0 for
//!   all. The destination takes the first 16 bytes, so PAINT is the first that is free.
//! * `CAPACITY` routes in all tables; default: no limit but that of each table's 128 MiB; whole tables that are replaced
//!   need room for both.
//! * `NEXTHOPS` different hops and groups, at most 32,767 (the default).
//! * `BUCKETS` a named group's buckets, a power of two up to 16384: the grain of shares; default 256.
//! * `TABLE` another element of this kind, whose table this one uses: both look up the same routes, and handlers of either change
//!   them. Routes and the other keywords but VRF_ANNO are the other's to give; both need the same outputs.
//! * `SYNC` how workers share the table: `rcu` (default), `percore` or `lock`, as for LookupIPRoute.
//!
//! **Metadata:** destination annotation (16 bytes) read, and set to the gateway; `VRF_ANNO` read.
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
//! * `stats` read: packets, bytes and next hop, where SYNC counts them.
//! * `count` write: `SECONDS [ROUTE, ...]` counts packets and bytes by next hop for so many seconds, at most 3600; 0 ends that. Of up to 16
//!   routes, it also counts what each decides about: ROUTE is a prefix, or an address that the route decides about, with `table N` behind if
//!   need be. A next hop is a group's member. For SYNC rcu.
//! * `counts` read: `time_ns N`, then `PACKETS BYTES GATEWAY OUTPUT [PREFIX [table N]]`, a line for each next hop, and for each one of a route.
//!   Bytes are those of IP packets. OUTPUT is `none` without route, or `drop`, `blackhole`, `prohibit`.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> GetIP6Address(24)
//!   -> rt :: LookupIP6Route(2001:db8::/32 0, 2001:db8:f::/48 fe80::2 0 3 | fe80::3 1 1, ::/0 fe80::1 1);
//! rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: GetIP6Address, DecIP6HLIM, LookupIPRoute. RFC 8200, RFC 2991, RFC 2992

use std::net::{IpAddr, Ipv6Addr};

use element::args::Names;
use element::{Class, Sharing};
use packet::{Packet, anno};
use sync::rcu;
use tables::fib6::{Fib6Error, Fib6Reader, Fib6Writer, NextHopId};
use wire::{AddrPrefix6, FlowKey6, Prefix6};

use super::{Family, HANDLERS, Like, Lookup, Unmade};
use crate::ip6::{header, source};

/// The descriptor.
pub const CLASS: Class = Lookup::<V6>::with_capabilities(
    Class::new("LookupIP6Route", "1/-", || Box::new(Lookup::<V6>::like(Like::Six)))
        .processing("h/h")
        .sharing(Sharing::Shared)
        .handlers(HANDLERS)
        .pure()
        .file(file!()),
);

/// IPv6 over `tables::fib6`.
pub(crate) struct V6;

/// Equal for all packets of a flow, of which this is the IPv6 packet of one: of its header, if there is one, else of the destination.
/// Fragments go by addresses, so that they stay together.
pub(crate) fn flow_hash(datagram: &[u8], destination: u128) -> u32 {
    let of_destination = || (destination >> 64) as u64 ^ destination as u64;
    let hash = FlowKey6::for_steering(datagram).map_or_else(of_destination, |key| key.quick_hash(0));
    (hash >> 32) as u32 ^ hash as u32
}

impl Family for V6 {
    type Addr = Ipv6Addr;
    type Prefix = Prefix6;
    type Key = u128;
    type Writer = Fib6Writer;
    type Reader = Fib6Reader;

    const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

    fn address(address: IpAddr) -> Option<Ipv6Addr> {
        match address {
            IpAddr::V6(address) => Some(address),
            _ => None,
        }
    }

    fn prefix(text: &str) -> Option<(Prefix6, bool)> {
        let given: AddrPrefix6 = text.parse().ok()?;
        let prefix = given.prefix();
        Some((prefix, prefix.addr() != given.addr()))
    }

    fn named_prefix(names: &Names, name: &str) -> Option<String> {
        names.net6_or_host(name).map(|net| net.to_string())
    }

    fn named_address(names: &Names, name: &str) -> Option<Ipv6Addr> {
        names.ip6(name)
    }

    fn key(address: Ipv6Addr) -> u128 {
        address.to_bits()
    }

    #[inline]
    fn destination(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.anno(anno::DST_IP))
    }

    #[inline]
    fn source(packet: &Packet) -> Option<u128> {
        header(packet).filter(|h| h[0] >> 4 == 6).map(|h| source(h).to_bits())
    }

    fn show_key(key: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(key)
    }

    fn set_destination(packet: &mut Packet, address: Ipv6Addr) {
        packet.set_anno(anno::DST_IP, address.octets());
    }

    fn flow_hash(packet: &Packet) -> u32 {
        flow_hash(packet.network().unwrap_or(packet.data()), Self::destination(packet))
    }

    fn open(domain: &rcu::Domain) -> Result<Fib6Writer, String> {
        Fib6Writer::new(domain).map_err(|e| e.to_string())
    }

    fn reader(fib: &Fib6Writer) -> Fib6Reader {
        fib.reader()
    }

    #[inline]
    fn lookup(fib: &Fib6Reader, rcu: &rcu::Reader, keys: &[u128], out: &mut [u32]) {
        fib.lookup_batch(rcu, keys, out);
    }

    fn insert(fib: &mut Fib6Writer, prefix: Prefix6, id: NextHopId) -> Result<Option<NextHopId>, String> {
        fib.insert(prefix, id).map_err(|e| e.to_string())
    }

    fn remove(fib: &mut Fib6Writer, prefix: Prefix6) -> Result<Option<NextHopId>, String> {
        fib.remove(prefix).map_err(|e| e.to_string())
    }

    fn commit(
        fib: &mut Fib6Writer,
        changes: &[(Prefix6, Option<NextHopId>)],
    ) -> Result<Vec<Option<NextHopId>>, Unmade> {
        fib.commit(changes.iter().copied()).map_err(|e| match e {
            Fib6Error::Stalled { .. } => Unmade::Busy(e.to_string()),
            e => Unmade::Full(e.to_string()),
        })
    }

    fn replace(fib: &mut Fib6Writer, routes: &[(Prefix6, NextHopId)]) -> Result<(), String> {
        fib.replace_all(routes.iter().copied()).map_err(|e| e.to_string())
    }

    fn get(fib: &Fib6Writer, prefix: Prefix6) -> Option<NextHopId> {
        fib.get(prefix)
    }

    fn longest_match(fib: &Fib6Writer, key: u128) -> Option<(Prefix6, NextHopId)> {
        fib.longest_match(key)
    }

    fn routes(fib: &Fib6Writer) -> Box<dyn Iterator<Item = (Prefix6, NextHopId)> + '_> {
        Box::new(fib.iter())
    }

    fn range(fib: &Fib6Writer, from: u64, to: u64) -> Box<dyn Iterator<Item = (Prefix6, NextHopId)> + '_> {
        Box::new(fib.range(from, to))
    }

    fn covers(outer: Prefix6, inner: Prefix6) -> bool {
        outer.covers(inner)
    }

    fn fed_prefix(prefix: Prefix6) -> feed::Destination {
        feed::Destination::V6(prefix)
    }

    fn len(fib: &Fib6Writer) -> usize {
        fib.len()
    }

    fn bytes(fib: &Fib6Writer) -> usize {
        fib.lookup_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use element::Reason;
    use packet::{Packet, anno};

    use crate::ip6::samples::packet;
    use crate::testing::{Rig, Run};

    const ROUTES: &str = "2001:db8::/32 0, 2001:db8:1::/48 fe80::1 1, 2001:db8:1::7 fe80::2 2, \
        2001:db8:1:2::/ffff:ffff:ffff:ffff:: fe80::3 1, 2001:db8:bad::/48 -1";

    /// A UDP packet to this destination, distinguished by its source port.
    fn to(destination: &str, port: u16) -> Packet {
        let mut payload = [0; 8];
        payload[..2].copy_from_slice(&port.to_be_bytes());
        let mut p = packet("2001:db8:ffff::1", destination, 17, 64, &payload);
        p.set_anno(anno::DST_IP, destination.parse::<Ipv6Addr>().unwrap().octets());
        p
    }

    fn port(p: &Packet) -> u16 {
        u16::from_be_bytes([p.data()[40], p.data()[41]])
    }

    /// Source port and destination annotation of what reached a sink.
    fn out(run: &Run, name: &str) -> Vec<(u16, String)> {
        let shown = |p: &Packet| (port(p), Ipv6Addr::from(p.anno::<16>(anno::DST_IP)).to_string());
        run.out(name).iter().map(shown).collect()
    }

    #[test]
    fn longest_match_wins_and_gateways_replace_destinations() {
        let destinations = [
            "2001:db8:2::1",
            "2001:db8:1::6",
            "2001:db8:1::7",
            "2001:db8:1:2::7",
            "2001:db8:bad::1",
            "2001:db9::",
        ];
        for burst in [1, 32] {
            let packets = (0..).zip(destinations).map(|(port, to_)| to(to_, port)).collect();
            let rig = Rig::new(&format!("LookupIP6Route({ROUTES})")).outputs(3);
            let run = rig.burst(burst).packets(packets).run();
            assert_eq!(out(&run, "o0"), [(0, "2001:db8:2::1".into())]);
            assert_eq!(out(&run, "o1"), [(1, "fe80::1".into()), (3, "fe80::3".into())]);
            assert_eq!(out(&run, "o2"), [(2, "fe80::2".into())]);
            assert_eq!(run.drops("e"), [(Reason::NoRoute, 2)]);
            assert_eq!(run.printed(), "e: no route for 2001:db8:bad::1\ne: no route for 2001:db9::\n");
        }
    }

    #[test]
    fn handlers_change_the_table() {
        for sync in ["rcu", "percore", "lock"] {
            let mut run = Rig::new(&format!("LookupIP6Route({ROUTES}, SYNC {sync})")).outputs(3).run();
            assert_eq!(run.read("e.nroutes"), "5");
            run.write("e.add", "3fff::/20 2").unwrap();
            assert!(run.write("e.add", "3fff::/20 1").is_err());
            run.write("e.set", "3fff::/20 fe80::9 1").unwrap();
            run.write("e.remove", "3fff::/20").unwrap();
            assert!(run.write("e.remove", "3fff::/20").is_err());
            assert!(run.write("e.ctrl", "add 4000::/8 1\nadd 5000::/8 5\n").is_err());
            assert_eq!(run.read("e.nroutes"), "5", "a failed transaction changes nothing");
            run.write("e.ctrl", "add 4000::/8 1\nremove 2001:db8::/32\n").unwrap();
            assert!(run.read("e.table").contains("4000::/8"));
            assert!(run.write("e.replace", "4000::1/8 0").is_err(), "host bits");
            run.write("e.flush", "").unwrap();
            assert_eq!(run.read("e.nroutes"), "0");
        }
    }

    #[test]
    fn bad_routes_are_all_reported() {
        assert_eq!(
            Rig::new("LookupIP6Route(::/129 0, ::/0, ::/0 7, ::/0 x 0, ::/ffff::1 0, 10.0.0.0/8 0)").errors(),
            [
                "e: '::/129' is not a prefix (ADDRESS/LENGTH)",
                "e: a route is ADDR/MASK [GATEWAY] OUTPUT, not '::/0'",
                "e: there is no output 7 (outputs 0 to 0 are connected)",
                "e: 'x' is not a gateway's address",
                "e: '::/ffff::1' is not a prefix (ADDRESS/LENGTH)",
                "e: '10.0.0.0/8' is not a prefix (ADDRESS/LENGTH)",
            ]
        );
    }

    #[test]
    fn flows_spread_over_hops_and_stay_when_one_leaves() {
        let element = "LookupIP6Route(::/0 fe80::1 0 1 | fe80::2 1 1 | fe80::3 2 1)";
        let flows = || (0..9000).map(|port| to("2001:db8::1", port)).collect();
        let mut run = Rig::new(element).outputs(3).packets(flows()).run();
        let sinks = ["o0", "o1", "o2"];
        let spread = |run: &Run| sinks.map(|name| run.out(name).iter().map(port).collect::<Vec<_>>());
        let before = spread(&run);
        assert!(before.iter().all(|flows| (2850..3150).contains(&flows.len())), "within 5 %");
        run.write("e.withdraw", "fe80::2 1").unwrap();
        run.give("i", flows());
        let after = spread(&run.again());
        assert!(after[1].is_empty());
        for sink in [0, 2] {
            assert!(before[sink].iter().all(|flow| after[sink].contains(flow)));
        }
    }
}
