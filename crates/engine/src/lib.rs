// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: a checked graph of elements, run on all cores.
//!
//! Read [`worker`] first (how packets move), then [`element`] (what an element is), then [`plan`] (which worker runs
//! what, and how instances share). [`router`] makes a configuration into instances; [`graph`] checks it; [`args`]
//! reads elements' arguments; [`handler`] and [`builtin`] are the window for users.
//!
//! [`stats`] is for those who look at a running router all the time.
//!
//! The engine sees no device: elements open them through [`packet::port::Provider`]. It holds no `unsafe`.
#![forbid(unsafe_code)]

mod account;
pub mod adaptive;
mod apart;
pub mod args;
pub mod balance;
mod build;
mod builtin;
pub mod clock;
pub mod control;
mod cpus;
mod cx;
pub mod drops;
mod element;
mod ending;
pub mod fuse;
mod graph;
mod handler;
mod homes;
mod ids;
mod interfaces;
mod locked;
mod locks;
mod mailbox;
mod names;
mod plan;
mod planned;
mod ports;
mod pulse;
pub mod rehearsal;
mod remote;
mod report;
mod restless;
mod router;
mod sample;
mod schedule;
mod secrets;
mod services;
mod signals;
pub mod stall;
pub mod stats;
pub mod swap;
mod timers;
mod turns;
mod values;
mod watch;
mod watchdog;
pub mod witness;
mod worker;

pub use account::{Deeds, Unaccounted};
pub use builtin::GONE;
pub use cx::{Cx, InitCx, OpenCx};
pub use drops::{Reason, Reasons};
pub use element::{Class, Element, Foreign, Provided, Registry, Rest, Sharing, Tasks};
pub use graph::{End as GraphEnd, Port as GraphPort, Ports};
pub use handler::{Access, Handler, HandlerError, Llrpc, Merge, glob_match};
pub use homes::Home;
pub use ids::{ElementId, Id, IndexSlice, IndexVec, PortIndex, Target, TaskId, WorkerId, first_ids};
pub use locks::{LockUse, PlannedLock, When};
pub use plan::{Mode, Place};
pub use planned::{Planned, Queues, trial};
pub use ports::Processing;
pub use rehearsal::Rehearsed;
pub use remote::{Control, Gone, Reconfigure};
pub use report::{ElementReport, Report};
pub use router::{Check, DEFAULT_BURST, ElementInfo, HandlerRef, Options, Router, Shared, check};
pub use schedule::{DEFAULT_TICKETS, MAX_TICKETS};
pub use secrets::{HIDDEN, message_without_secrets, without_secrets};
pub use values::{parse_duration, parse_integer};
pub use worker::{CycleStats, Handed, PortStats, TaskStats, Turn, around_queue};
