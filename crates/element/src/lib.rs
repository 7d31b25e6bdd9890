// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an author of elements needs, and all that elements compile against.
//!
//! Begin with [`Element`] and [`Class`], then [`Cx`]: what an element can do while it runs. [`args`] reads configuration strings,
//! [`Handler`] declares what users read and write, [`Reason`] says why packets are dropped.
//!
//! [`host`] is the other side: what the engine does for elements. [`layout`] is a router as its elements see it.
#![forbid(unsafe_code)]

pub mod account;
pub mod args;
pub mod aside;
pub mod capability;
pub mod clock;
mod cx;
pub mod declare;
mod device_pool;
pub mod drops;
mod element;
mod error;
pub mod fuse;
mod handler;
pub mod hide;
pub mod host;
mod ids;
pub mod interfaces;
pub mod known;
pub mod layout;
mod locks;
mod names;
mod place;
mod policy;
pub mod ports;
pub mod program;
mod registry;
mod rehearsal;
mod remote;
pub mod secrets;
mod services;
pub mod stats;
pub mod swap;
pub mod timers;
mod values;
pub mod wiring;

pub use capability::{
    DeviceQueues, HandlerPart, HotSwap, Locking, LongHandlers, OwnHandlers, PacketHolder, PlacementRules,
    ProcessEvents, Provide, Rehearsal, SharedState, Statistics,
};
pub use cx::{Cx, InitCx, OpenCx};
pub use drops::{Reason, Reasons};
pub use element::{Class, DeviceArg, Element, Handler, Provided, Read, Rest, Sharing, Tasks, Write};
pub use error::HandlerError;
pub use handler::{Access, Llrpc, Merge, Signature, glob_match, merge, split_name, with_argument};
pub use hide::{Find, HIDDEN};
pub use ids::{ElementId, Id, IndexSlice, IndexVec, PortIndex, Target, TaskId, WorkerId, first_ids};
pub use layout::{ElementInfo, HandlerRef, Layout};
pub use locks::{LockUse, When};
pub use place::{DEFAULT_TICKETS, ElementPlan, Home, MAX_TICKETS, Mode};
pub use policy::Policy;
pub use ports::Processing;
pub use registry::{Foreign, Registry};
pub use rehearsal::Rehearsed;
pub use remote::{Handlers, Remote};
pub use secrets::{message_without_secrets, without_secrets};
pub use values::{parse_duration, parse_integer};
