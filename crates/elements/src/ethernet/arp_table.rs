// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPTable
//!
//! `ARPTable([keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
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
//!
//! **Cores:** one table for all workers, behind a lock. Queriers keep recent answers and take the lock for new ones.
//!
//! **Drops:** counted by the ARPQuerier at work: `neighbour-queue-full`, `no-neighbour`.
//!
//! **Handlers**
//! * `table` read: a line for each neighbour, the one confirmed longest ago first: address, 1 if known or else 0, Ethernet
//!   address, seconds since it was confirmed.
//! * `count` read: neighbours. `length` read: packets waiting. `drops` read: packets dropped.
//! * `insert` write: `IP ETH`. `delete` write: `IP`. `clear` write.
//!
//! ```click
//! arps :: ARPTable(TIMEOUT 60s);
//! Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE arps) -> Discard;
//! Idle -> [1]q;
//! ```
//!
//! See also: ARPQuerier

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use engine::args::Args;
use engine::clock::Nanos;
use engine::{Class, Cx, Element, Handler, HandlerError, Provided, Reason, Sharing};
use packet::{Batch, Packet};
use sync::lock::AdaptiveLock;
use tables::neighbour::{Config, Neighbours, State};
use wire::MacAddr;

/// The descriptor.
pub const CLASS: Class = Class::new("ARPTable", "0/0", || Box::new(ArpTable::default()))
    .sharing(Sharing::Shared)
    .handlers(&[
        Handler::read("table"),
        Handler::read("count"),
        Handler::read("length"),
        Handler::read("drops"),
        Handler::write("insert"),
        Handler::write("delete"),
        Handler::write("clear"),
    ])
    .file(file!());

/// Neighbours that all workers share.
#[derive(Debug)]
pub struct Table {
    /// Taken for what the workers' caches do not know.
    pub neighbours: AdaptiveLock<Neighbours<Packet>>,
}

impl Table {
    /// An empty table.
    pub fn new(config: Config) -> Arc<Table> {
        // The order of entries never depends on the seed.
        let seed = RandomState::new().hash_one(0);
        Arc::new(Table { neighbours: AdaptiveLock::new(Neighbours::new(config, seed)) })
    }

    /// The table as its handler prints it.
    pub fn text(&self, now: Nanos) -> String {
        let mut text = String::new();
        for n in self.neighbours.lock().iter(now) {
            let known = u8::from(n.state != State::Incomplete);
            let age_us = n.age_ns / 1000;
            let (ip, mac) = (Ipv4Addr::from_bits(n.ip), MacAddr(n.mac));
            let (whole, part) = (age_us / 1_000_000, age_us % 1_000_000);
            let _ = writeln!(text, "{ip} {known} {mac:#} {whole}.{part:06}");
        }
        text
    }

    /// Executes `insert`, `delete` or `clear`; returns packets that waited for what was inserted.
    ///
    /// # Errors
    /// When the value is not what the handler expects.
    pub fn write(&self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<Batch, HandlerError> {
        let expected = if name == "insert" { "IP ETH" } else { "IP" };
        let bad = || HandlerError::bad_value(name, value, expected);
        let now = cx.now();
        let mut words = value.split_ascii_whitespace();
        let mut dropped = Batch::new();
        let mut sent = Batch::new();
        if name == "clear" {
            self.neighbours.lock().clear(|p| dropped.push(p));
        } else {
            let ip: Ipv4Addr = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
            if name == "insert" {
                let mac: MacAddr = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
                let waited = self.neighbours.lock().insert(ip.to_bits(), mac.0, now, |p| dropped.push(p));
                sent.extend(waited);
            } else {
                self.neighbours.lock().remove(ip.to_bits());
            }
        }
        cx.drop_batch(Reason::NoNeighbour, dropped);
        Ok(sent)
    }
}

/// Reads the keywords that tables and queriers have in common.
pub(super) fn config(args: &mut Args<'_>) -> Config {
    let default = Config::default();
    let time = |args: &mut Args<'_>, name, default: u64| {
        let time = args.keyword(name, Duration::from_nanos(default));
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    };
    let config = Config {
        capacity: args.keyword("CAPACITY", default.capacity),
        entry_capacity: args.keyword("ENTRY_CAPACITY", default.entry_capacity),
        entry_packet_capacity: args.keyword("ENTRY_PACKET_CAPACITY", default.entry_packet_capacity),
        slim_factor: args.keyword("CAPACITY_SLIM_FACTOR", default.slim_factor),
        timeout_ns: time(args, "TIMEOUT", default.timeout_ns),
        poll_ns: default.poll_ns,
    };
    if config.slim_factor == 0 {
        args.error("CAPACITY_SLIM_FACTOR must not be 0");
    }
    config
}

struct ArpTable {
    table: Arc<Table>,
    first: bool,
}

impl Default for ArpTable {
    fn default() -> Self {
        ArpTable { table: Table::new(Config::default()), first: true }
    }
}

impl Element for ArpTable {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.table = Table::new(config(args));
    }

    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(ArpTable { table: self.table.clone(), first: false }))
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let now = cx.now();
        let neighbours = &self.table.neighbours;
        Ok(match name {
            "table" => self.table.text(now),
            "count" => neighbours.lock().len().to_string(),
            "length" => neighbours.lock().waiting().to_string(),
            _ => neighbours.lock().drops().to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let sent = self.table.write(cx, name, value)?;
        // Without outputs there is no way to send them: the next packet's querier finds the address.
        cx.drop_batch(Reason::NoNeighbour, sent);
        Ok(())
    }

    fn provide(&self) -> Option<Provided> {
        Some(self.table.clone())
    }

    fn held(&self) -> usize {
        if self.first { self.table.neighbours.lock().waiting() } else { 0 }
    }
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
