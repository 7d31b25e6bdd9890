// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6NDTable
//!
//! `IP6NDTable([keywords RETRIES, RETRY_INTERVAL, PROBE_DELAY, POLL_TIMEOUT, TIMEOUT, CAPACITY, ENTRY_CAPACITY,`
//! `ENTRY_PACKET_CAPACITY, UNRESOLVED_CAPACITY, NEW_RATE, UNKNOWN_RATE, CAPACITY_SLIM_FACTOR])`
//!
//! Holds the Ethernet addresses of IPv6 neighbours for an IP6NDSolicitor and those that listen with it.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `RETRIES` solicitations before a neighbour counts as unreachable, default 3. With 0 it never does, and solicitations
//!   go out with packets only.
//! * `RETRY_INTERVAL` time between them, default 1 s.
//! * `POLL_TIMEOUT` the base of the reachable time: age at which a neighbour in use is asked again, default 30 s, from which
//!   each run draws between half and one and a half of it. `PROBE_DELAY` time from the first packet to such a neighbour
//!   to the first solicitation, default 5 s.
//! * `TIMEOUT` time after which a neighbour is forgotten unless confirmed, default 300 s; 0 means never.
//! * `CAPACITY` packets that may wait in all, default 2048. `ENTRY_PACKET_CAPACITY` packets that may wait for one neighbour,
//!   default 101, as with Linux; new ones replace old ones, which are dropped as `neighbour-queue-full`. `CAPACITY_SLIM_FACTOR` when too many packets wait, CAPACITY divided by this
//!   are dropped at once, default 2.
//! * `ENTRY_CAPACITY` neighbours in the table, default 65536. `UNRESOLVED_CAPACITY` those among them without an answer,
//!   default 4096. `NEW_RATE` unknown neighbours that one source may ask for in a second, default 0. `UNKNOWN_RATE` packets for unknown
//!   neighbours that each worker lets wait from one device in a second, default 20,000, while those take three quarters of
//!   UNRESOLVED_CAPACITY: see ARPTable.
//!
//! For numbers, 0 means no limit. When there are too many packets or entries, they are taken from the device, the source (by /64) and the neighbour
//! that have most. A neighbour that is known and in use never goes for one that is not.
//!
//! **Cores:** one table for all workers, behind a lock. Solicitors keep recent answers and take the lock for new ones.
//!
//! **Drops:** counted by the element at work: `neighbour-queue-full`, `neighbour-table-full`, `no-neighbour`.
//!
//! **Handlers**
//! * `table` read: a line for each neighbour, the one confirmed longest ago first: address, 1 if known or else 0, Ethernet
//!   address, seconds since it was confirmed.
//! * `states` read: the same with state (`incomplete`, `reachable`, `stale`, `delay`, `probe`, `permanent`), packets waiting,
//!   and `router` for routers.
//! * `count` read: neighbours. `unresolved` read: those without an answer. `length` read: packets waiting. `drops`
//!   read: packets dropped.
//! * `insert` write: `IP ETH`, or `IP ETH permanent`. `delete` write: `IP`. `clear` write.
//!
//! ```click
//! nt :: IP6NDTable(POLL_TIMEOUT 60s);
//! Idle -> nds :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1, TABLE nt) -> Discard;
//! Idle -> [1]nds;
//! Idle -> IP6NDAdvertiser(fe80::1 2:0:0:0:0:1, TABLE nt) -> Discard;
//! ```
//!
//! See also: IP6NDSolicitor, IP6NDAdvertiser, ARPTable; RFC 4861 (7.3), RFC 6583

use element::{Class, InitCx, Sharing};
use tables::neighbour::Config;

use super::ip6_nd::{default_config, vary_reachable_time};
use crate::ethernet::neighbours::{self, Listed, NeighbourTable, Table};

/// The descriptor.
pub const CLASS: Class = NeighbourTable::<u128>::with_capabilities(
    Class::new("IP6NDTable", "0/0", || Box::new(NeighbourTable::<u128>::default()))
        .sharing(Sharing::Shared)
        .handlers(&neighbours::of_table::<u128, NeighbourTable<u128>>())
        .file(file!()),
);

impl Listed for u128 {
    const QUERIES: u32 = 3;

    fn config() -> Config {
        default_config()
    }

    fn prepare(cx: &mut InitCx<'_>, table: &Table<u128>) {
        vary_reachable_time(cx, table);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn handlers_change_the_table() {
        let mut run = Rig::text("e :: IP6NDTable(TIMEOUT 0);").run();
        run.write("e.insert", "fe80::a 2:0:0:0:0:a").unwrap();
        run.write("e.insert", "2001:db8::b 2:0:0:0:0:b permanent").unwrap();
        run.write("e.delete", "fe80::a").unwrap();
        let want = "fe80::a 0 FF-FF-FF-FF-FF-FF 0.000000\n2001:db8::b 1 02-00-00-00-00-0B 0.000000\n";
        assert_eq!(run.read("e.table"), want);
        assert!(run.read("e.states").ends_with("02-00-00-00-00-0B 0.000000 permanent 0\n"));
        assert_eq!((run.read("e.count").as_str(), run.read("e.length").as_str()), ("2", "0"));
        assert!(
            run.write("e.insert", "10.0.0.1 2:0:0:0:0:a").is_err() && run.write("e.delete", "x").is_err()
        );
        run.write("e.clear", "").unwrap();
        assert_eq!((run.read("e.table").as_str(), run.read("e.drops").as_str()), ("", "0"));
    }
}
