// SPDX-License-Identifier: MIT OR Apache-2.0
//! What workers share, and what sharing costs.
//!
//! Every structure that two cores touch at once stands in this crate, so that the rest of the router can be
//! written without `unsafe` and without thinking about memory order:
//!
//! * [`read_mostly::ReadMostly`]: a lock whose readers do not disturb each other.
//! * [`ring::Ring`]: a bounded queue of handles, moved in bulk, many producers and many consumers.
//! * [`rcu`]: publishing new versions to readers who never wait, and freeing the old ones.
//! * [`byte_lock::ByteLock`]: a lock of one byte, for one of many small records.
//! * [`barrier`]: a pair of memory barriers of which one is free.
//! * [`heap::LineHeap`]: a heap that gives what workers own whole cache lines.
//! * [`lines::Lines`]: zeroed cache lines of atomic words, for tables that readers walk while a writer edits.
//! * [`lock`]: locks that count their contention, for what must be serial, and [`events`], which they record for a profiler.
//! * [`mutex::lock`]: locks a mutex, even one whose holder panicked.
//! * [`os`]: errors of the operating system in words.
//! * [`percore::PerCore`]: a cell for each core, and counters summed by their readers.
//! * [`pipes`]: files of given names, which may be pipes without another end.
//! * [`priority`]: processor time for helper threads where workers never sleep.
//! * [`private`]: files that only their owner may read.
//! * [`slots`]: whole snapshots in shared words, for readers in other processes.
//! * [`prefetch::prefetch`]: asks for a cache line ahead of its use.
//! * [`padded::CachePadded`]: keeps two cores' words out of one cache line.
//! * [`zeros`]: vectors of counters that take memory only where something was counted.
//!
//! Each lock-free file opens with its trade-offs and its ordering argument as numbered cases; each case has a
//! loom model of the same name. Run them with
//! `RUSTFLAGS="--cfg loom" cargo test -p junctor-sync --release --target-dir target/loom`.

pub mod barrier;
pub mod byte_lock;
pub mod events;
pub mod heap;
pub mod lines;
pub mod lock;
pub mod mutex;
pub mod os;
pub mod padded;
pub mod percore;
pub mod pipes;
pub mod prefetch;
mod prim;
#[cfg(loom)]
#[doc(hidden)]
pub use prim::model;
pub mod priority;
pub mod private;
pub mod rcu;
pub mod read_mostly;
pub mod ring;
pub mod slots;
mod tsc;
pub mod zeros;

pub use tsc::tsc;
