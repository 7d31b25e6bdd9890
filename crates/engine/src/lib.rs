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
mod blueprint;
mod build;
mod capability;
mod check;
pub mod clock;
mod conductor;
mod cost;
pub mod cpu_time;
mod ending;
pub mod fuse;
mod graph;
pub mod halt;
mod holdings;
mod homes;
pub mod location;
mod locked;
mod locks;
mod mailbox;
pub mod observer;
mod placer;
mod plan;
mod planned;
mod ports;
pub mod pulse;
pub mod rehearsal;
mod remote;
mod report;
mod router;
mod runtime;
mod sample;
pub mod schedule;
mod shared;
mod signals;
pub mod stall;
pub mod stats;
pub mod watch;
mod worker;

pub use account::Unaccounted;
pub use capability::OnWorker;
pub use check::{Check, check};
pub use cost::{CycleStats, TaskStats};
pub use element::account::PacketAccount;
pub use element::aside::ask_by as ask_system_by;
pub use element::capability::{
    DeviceQueues, HandlerPart, HotSwap, Locking, LongHandlers, OwnHandlers, PacketHolder, PlacementRules,
    ProcessEvents, Provide, Rehearsal, SharedState, Statistics,
};
pub use element::wiring::{End as GraphEnd, Port as GraphPort, Ports};
pub use element::{
    Access, Class, Cx, DeviceArg, Element, ElementId, ElementInfo, ElementPlan, Foreign, HIDDEN, Handler,
    HandlerError, HandlerRef, Handlers, Home, Id, IndexSlice, IndexVec, InitCx, Llrpc, LockUse, Merge, Mode,
    OpenCx, Policy, PortIndex, Processing, Provided, Reason, Reasons, Registry, Rehearsed, Rest, Sharing,
    Target, Tasks, When, args, drops, first_ids, glob_match, message_without_secrets, parse_duration,
    parse_integer, without_secrets,
};
pub use homes::Wished;
pub use locked::Locked;
pub use locks::PlannedLock;
pub use mailbox::Trouble;
pub use placer::{AfterRound, Change, Placer};
pub use plan::{How, Placed, Reached};
pub use planned::{Planned, Queues, trial};
pub use ports::{Handed, PortStats};
pub use remote::{Control, Gone, Reconfigure};
pub use report::{ElementReport, Report};
pub use router::Router;
pub use runtime::{DEFAULT_BURST, Options, Print, Runtime, Spawn, Threads};
pub use shared::{GONE, Shared};
pub use worker::{Turn, Worker, around_queue};
