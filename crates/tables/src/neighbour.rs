// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour table: which Ethernet address has this neighbour, and who waits to know?
//!
//! The state that ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861) need, without their messages: the caller sends queries when the table says so
//! and reports to it what it hears. A [`Discipline`] says who asks, and when:
//!
//! * [`Discipline::OnDemand`], as Click's `ARPTable` and `ARPQuerier` do it: queries go out with packets only.
//! * [`Discipline::Timed`], as RFC 4861 has it, for IPv4 too: a table of states ([`state`]), retries by timer, and a verdict when nobody answers.
//! * [`Discipline::Outside`]: somebody else asks, such as the kernel, and informs the table ([`Neighbours::feed`]).
//!
//! ```text
//!   on demand: wait: query (at most 10 a second, after 10 in vain one every 2 s)
//!              +--------------------------+
//!              v                          |
//!        [ Incomplete ]---- insert ----> [ Reachable ]-- poll time --> [ Stale ]    lookup answers, and asks
//!              ^   ^                       ^      ^                       |         for a query now and then
//!              |   +------- timeout -------+      +------- insert --------+
//!              |                                                          |
//!              +------------- remove, or timeout -------------------------+     timeout also removes the entry, in expire
//! ```
//!
//! # Layout and size
//!
//! Entries stand in numbered places ([`Slab`](crate::slab::Slab)), found by a hash of their address. Through the places run lists: by the time when
//! they were last confirmed, those that do not age in a list of their own; by timers' expiry; and, for those without an answer, by source. Each
//! operation on an entry takes a fixed number of steps, and a place that was used before costs no memory. An entry takes about 250 bytes and eight
//! for each waiting item of the size of a handle.
//!
//! # Trade-offs
//!
//! One owner, `&mut self`. Workers that share a table behind a lock keep a [`NeighbourCache`] each and take the lock for what is
//! new only. What must not happen is that one dead neighbour, or a scan over a large subnet, takes the memory from all others:
//!
//! * Items wait in bounded number, in all and for each neighbour. When there are too many in all, those of the interface, of its source ([`Share`])
//!   and of the neighbour that have most go first, the oldest first, until a part of the capacity is free. So a source that floods loses first.
//! * Neighbours without an answer are bounded in number, apart from the bound on all entries. The oldest one of the source that
//!   has most of them goes when there are too many.
//! * When there are too many entries in all, one without an answer goes, and a neighbour that is known only for another one
//!   that is known, or when it has not been confirmed for the poll time.
//! * Queries are not repeated for a source that has an eighth of the room for neighbours without an answer, nor for an
//!   interface that has half of it.
//! * While neighbours without an answer take three quarters of their room, packets for unknown neighbours reach the table at
//!   [`Config::unknown_per_second`] only ([`Admission`]). They cost many times what a known neighbour's packets cost. A flood of them must not take
//!   the processor from others, nor fill the link with queries.
//! * A source that asks for new neighbours faster than [`Config::new_per_second`] is refused before it costs anything.
//!
//! # Invariants
//!
//! 1. `lookup` answers only what was inserted less than the timeout ago, or is permanent.
//! 2. Every item given to `wait` comes back once: with the answer, or as lost with its reason, or from `clear`.
//! 3. Waiting items and entries never exceed their capacities, once a call returns.
//! 4. Queries for one neighbour are at least 100 ms (or the retransmission time) apart.
//! 5. A neighbour that is known and was confirmed within the poll time is never removed for one that is not.

mod cache;
mod filter;
mod listen;
mod pace;
mod ranking;
mod share;
pub mod state;
mod table;
mod timers;

use crate::mac::Mac;
use std::hash::Hash;

pub use cache::{NeighbourCache, PaddedMac, View, pad};
pub use listen::{Fed, Message};
pub use pace::Admission;
pub use share::Share;
pub use state::State;
pub use table::Neighbours;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// An address of a neighbour: `u32` for IPv4, `u128` for IPv6, in host order.
pub trait Address: Copy + Eq + Ord + Hash + Default + std::fmt::Debug + Send + 'static {
    /// The address, or what distinguishes neighbours in it, in one word.
    fn word(self) -> u64;

    /// Whether an address and a number are the same as these.
    #[inline(always)]
    fn is_same(one: (Self, u32), other: (Self, u32)) -> bool {
        one == other
    }
}

impl Address for u32 {
    #[inline(always)]
    fn word(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn is_same(one: (u32, u32), other: (u32, u32)) -> bool {
        // Side by side they are one word, with one comparison.
        let word = |(address, number): (u32, u32)| u64::from(address) | u64::from(number) << 32;
        word(one) == word(other)
    }
}

impl Address for u128 {
    #[inline(always)]
    fn word(self) -> u64 {
        // Neighbours share a prefix, and differ in the interface's half.
        self as u64 ^ (self >> 64) as u64
    }
}

/// Who asks for neighbours, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Click's: a query goes out with a packet, when the last one was long enough ago. Nothing fails before the timeout.
    #[default]
    OnDemand,
    /// That of RFC 4861: queries are repeated by timer, and a neighbour that does not answer is unreachable.
    Timed(Retries),
    /// Somebody else asks, and feeds this table what to believe; what was fed does not age.
    Outside,
}

/// Times and limits of [`Discipline::Timed`]. The reachable time is [`Config::poll_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Queries to every station before a neighbour is unreachable (MAX_MULTICAST_SOLICIT).
    pub multicast: u32,
    /// Queries to the neighbour itself before it is forgotten (MAX_UNICAST_SOLICIT).
    pub unicast: u32,
    /// Time between queries (RETRANS_TIMER).
    pub retransmit_ns: u64,
    /// Time from the first packet to a stale neighbour to the first query (DELAY_FIRST_PROBE_TIME).
    pub delay_ns: u64,
}

impl Default for Retries {
    /// The constants of RFC 4861 section 10.
    fn default() -> Self {
        Self { multicast: 3, unicast: 3, retransmit_ns: SECOND, delay_ns: 5 * SECOND }
    }
}

/// Limits and times; 0 means "no limit" or "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Items that may wait in all (`CAPACITY`).
    pub capacity: usize,
    /// Entries there may be (`ENTRY_CAPACITY`).
    pub entry_capacity: usize,
    /// Items that may wait for one neighbour (`ENTRY_PACKET_CAPACITY`).
    pub entry_packet_capacity: usize,
    /// Entries there may be that have no answer yet (`UNRESOLVED_CAPACITY`).
    pub unresolved_capacity: usize,
    /// Entries that one source may have made in a second, once it has made as many at once (`NEW_RATE`).
    pub new_per_second: u32,
    /// Packets for unknown neighbours that a worker brings from one interface in a second while the table is crowded with
    /// those (`UNKNOWN_RATE`). The caller enforces it, with [`Admission`].
    pub unknown_per_second: u32,
    /// When items exceed `capacity`, capacity/this of them go at once (`CAPACITY_SLIM_FACTOR`); at least 1.
    pub slim_factor: usize,
    /// Age at which an entry expires (`TIMEOUT`).
    pub timeout_ns: u64,
    /// Age at which an entry in use is asked for again (`POLL_TIMEOUT`, and the reachable time of RFC 4861).
    pub poll_ns: u64,
    /// Who asks, and when.
    pub discipline: Discipline,
}

impl Default for Config {
    /// Click's: 2048 items, 5 minutes, polling after 1 minute; and room for 4096 neighbours without an answer, which get 20,000
    /// packets a second when there are nearly as many.
    fn default() -> Self {
        Self {
            capacity: 2048,
            entry_capacity: 0,
            entry_packet_capacity: 0,
            unresolved_capacity: 4096,
            new_per_second: 0,
            unknown_per_second: 20_000,
            slim_factor: 2,
            timeout_ns: 300 * SECOND,
            poll_ns: 60 * SECOND,
            discipline: Discipline::OnDemand,
        }
    }
}

impl Config {
    /// RFC 4861's times and limits. As many items wait for each neighbour as with Linux (`unres_qlen`): two whole datagrams of 64 KB in fragments.
    pub fn rfc4861() -> Self {
        Self {
            entry_packet_capacity: 101,
            poll_ns: 30 * SECOND,
            discipline: Discipline::Timed(Retries::default()),
            ..Self::default()
        }
    }
}

/// What [`Neighbours::lookup`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The neighbour's address.
    Known {
        /// Where to send to.
        mac: Mac,
        /// The answer is old: send a query too.
        query: bool,
    },
    /// Not known: hand the packet to [`Neighbours::wait`].
    Unknown,
}

/// What [`Neighbours::wait`] did with the item.
#[derive(Debug, PartialEq, Eq)]
pub enum Waiting<Q> {
    /// It waits; `query` says whether a query is due.
    Queued {
        /// Send a query for this neighbour now.
        query: bool,
    },
    /// The neighbour is known after all; the item comes back.
    Known(Mac, Q),
    /// The item comes back, and counts as dropped.
    Refused(Q, Loss),
}

/// Why an item did not get its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Too many wait, in all or for its neighbour.
    QueueFull,
    /// Its neighbour had to make room for others.
    TableFull,
    /// Nobody answered in time.
    Unreachable,
    /// The table was cleared.
    Cleared,
}

/// On whose behalf a table is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The owner that is informed of timers: a table may serve several that ask on different links.
    pub owner: u32,
    /// Whose share of the table it counts to.
    pub share: Share,
}

/// What is due by [`Neighbours::advance`].
#[derive(Debug, PartialEq, Eq)]
pub enum Due<Q, A = u32> {
    /// Send a query for this neighbour: to its own address if one is given, else to every station.
    Query(A, Option<Mac>),
    /// This neighbour does not answer; nothing more comes to it. These items waited.
    Unreachable(A, std::collections::VecDeque<Q>),
}

/// One neighbour, for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour<A = u32> {
    /// Its address, host order.
    pub ip: A,
    /// How much is known.
    pub state: State,
    /// Its Ethernet address; broadcast when it was never known or was removed.
    pub mac: Mac,
    /// Whether it said that it is a router.
    pub router: bool,
    /// Time since it was last confirmed (or first asked for).
    pub age_ns: u64,
    /// Items waiting.
    pub waiting: usize,
}

const BROADCAST: Mac = [0xff; 6];

#[cfg(test)]
mod tests;
