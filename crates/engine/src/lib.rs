// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: a checked graph of elements, run on all cores.
//!
//! Read [`worker`] first: it moves packets, and serves elements by [`element::host`]. Then read [`plan`]: it decides which worker
//! runs what, and how instances share. [`router`] makes a configuration into instances, and [`graph`] checks it.
//!
//! [`stats`] shows a running router to programs that watch it.
//!
//! The engine sees no device: elements open them through [`packet::port::Provider`]. It holds no `unsafe`.
//!
//! What authors of elements need is the crate [`element`]. Its types are exported here, too.
#![forbid(unsafe_code)]

mod account;
pub mod adaptive;
mod apart;
pub mod balance;
mod build;
mod builtin;
pub mod clock;
mod cpus;
mod ending;
pub mod fuse;
mod graph;
mod homes;
mod locked;
mod locks;
mod mailbox;
mod plan;
mod planned;
mod pulse;
pub mod rehearsal;
mod remote;
mod report;
mod restless;
mod router;
mod sample;
mod schedule;
mod signals;
pub mod stall;
pub mod stats;
pub mod swap;
mod turns;
mod watch;
mod watchdog;
pub mod witness;
mod worker;

pub use account::Unaccounted;
pub use builtin::GONE;
pub use element::account::Deeds;
pub use element::wiring::{End as GraphEnd, Port as GraphPort, Ports};
pub use element::{
    Access, Class, Cx, Element, ElementId, ElementInfo, Foreign, HIDDEN, Handler, HandlerError, HandlerRef,
    Handlers, Home, Id, IndexSlice, IndexVec, InitCx, Llrpc, LockUse, Merge, Mode, OpenCx, Place, Policy,
    PortIndex, Processing, Provided, Reason, Reasons, Registry, Rehearsed, Rest, Sharing, Target, Tasks,
    When, args, drops, first_ids, glob_match, message_without_secrets, parse_duration, parse_integer,
    without_secrets,
};
pub use locks::PlannedLock;
pub use planned::{Planned, Queues, trial};
pub use remote::{Control, Gone, Reconfigure};
pub use report::{ElementReport, Report};
pub use router::{Check, DEFAULT_BURST, Options, Router, Shared, check};
pub use worker::{CycleStats, Handed, PortStats, TaskStats, Turn, around_queue};
