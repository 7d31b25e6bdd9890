// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPTable
//!
//! `ARPTable([keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT, POLL_TIMEOUT,`
//! `UNRESOLVED_CAPACITY, NEW_RATE, UNKNOWN_RATE, RETRIES, RETRY_INTERVAL, PROBE_DELAY])`
//!
//! Holds the Ethernet addresses of IPv4 neighbours for several ARPQueriers.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `CAPACITY` packets that may wait for addresses in all, default 2048; 0 means no limit.
//! * `ENTRY_CAPACITY` neighbours that may be known, default 0: no limit.
//! * `ENTRY_PACKET_CAPACITY` packets that may wait for one neighbour, default 0: no limit.
//! * `CAPACITY_SLIM_FACTOR` when too many packets wait, CAPACITY divided by this are dropped at once, default 2.
//! * `TIMEOUT` time after which an entry is forgotten unless confirmed, default 300 s; 0 means never.
//! * `POLL_TIMEOUT` age at which a known neighbour in use is asked again, default 60 s; 0 means never.
//!
//! Beyond Click's, against scans and for a verdict about neighbours that do not answer:
//! * `UNRESOLVED_CAPACITY` neighbours without an answer that may be asked for, default 4096; 0 means no limit.
//! * `NEW_RATE` unknown neighbours that one source may ask for in a second, default 0: no limit.
//! * `UNKNOWN_RATE` packets for unknown neighbours that each worker lets wait from one device in a second, 512 of them at
//!   once, while those without an answer take three quarters of UNRESOLVED_CAPACITY; an eighth of that for one source, 256 at once.
//!   Default 20,000; 0 means no limit. The others are dropped as `neighbour-table-full` before they cost more than packets that are
//!   forwarded. Where many sources, or forged ones, exceed the limit, first packets of others from that device may be among
//!   them; who tries again within a second finds a limit of its own, as high.
//! * `RETRIES` queries before a neighbour counts as unreachable, default 0: it never does. With it, queries are
//!   repeated every `RETRY_INTERVAL` (default 1 s) whether or not packets come, and a neighbour of age POLL_TIMEOUT that is
//!   used is asked again after `PROBE_DELAY` (default 5 s), as RFC 4861 has it.
//!
//! When there are too many packets or entries, they are taken from the device, the source address and the neighbour that have most. A neighbour that
//! is known and in use never goes for one that is not.
//!
//! **Cores:** one table for all workers, behind a lock. Queriers keep recent answers and take the lock for new ones.
//!
//! **Drops:** counted by the ARPQuerier at work: `neighbour-queue-full`, `neighbour-table-full`, `no-neighbour`.
//!
//! **Handlers**
//! * `table` read: a line for each neighbour, the one confirmed longest ago first: address, 1 if known or else 0, Ethernet
//!   address, seconds since it was confirmed.
//! * `states` read: the same with state (`incomplete`, `reachable`, `stale`, `delay`, `probe`, `permanent`) and packets
//!   waiting.
//! * `count` read: neighbours. `unresolved` read: those without an answer. `length` read: packets waiting. `drops`
//!   read: packets dropped.
//! * `insert` write: `IP ETH`, or `IP ETH permanent` for one that no answer changes and no time. `delete` write: `IP`.
//!   `clear` write.
//!
//! ```click
//! arps :: ARPTable(TIMEOUT 60s);
//! Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE arps) -> Discard;
//! Idle -> [1]q;
//! ```
//!
//! See also: ARPQuerier

use element::{Class, InitCx, Sharing};
use tables::neighbour::Config;

use super::neighbours::{self, Listed, NeighbourTable, Table};

/// The descriptor.
pub const CLASS: Class = NeighbourTable::<u32>::with_capabilities(
    Class::new("ARPTable", "0/0", || Box::new(NeighbourTable::<u32>::default()))
        .sharing(Sharing::Shared)
        .handlers(&neighbours::of_table::<u32, NeighbourTable<u32>>())
        .file(file!()),
);

impl Listed for u32 {
    const QUERIES: u32 = 0;

    fn config() -> Config {
        Config::default()
    }

    fn prepare(_: &mut InitCx<'_>, _: &Table) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn handlers_change_the_table() {
        let mut run = Rig::text("e :: ARPTable(TIMEOUT 0);").run();
        run.write("e.insert", "10.0.0.1 2:0:0:0:0:a").unwrap();
        run.write("e.insert", "10.0.0.2 2:0:0:0:0:b").unwrap();
        run.write("e.delete", "10.0.0.1").unwrap();
        let want = "10.0.0.1 0 FF-FF-FF-FF-FF-FF 0.000000\n10.0.0.2 1 02-00-00-00-00-0B 0.000000\n";
        assert_eq!(run.read("e.table"), want);
        assert_eq!((run.read("e.count").as_str(), run.read("e.length").as_str()), ("2", "0"));
        assert!(run.write("e.insert", "10.0.0.1").is_err() && run.write("e.delete", "x").is_err());
        run.write("e.clear", "").unwrap();
        assert_eq!((run.read("e.table").as_str(), run.read("e.drops").as_str()), ("", "0"));
    }

    #[test]
    fn refuses_to_slim_by_nothing() {
        assert_eq!(
            Rig::text("e :: ARPTable(CAPACITY_SLIM_FACTOR 0);").errors(),
            ["e: CAPACITY_SLIM_FACTOR must not be 0"]
        );
    }
}
