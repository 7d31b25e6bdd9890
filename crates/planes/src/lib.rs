// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes are the supervised processes of a router: user, control and management planes. A deployment gives each its cores.
//!
//! * [`deployment`]: the file that describes planes, read and checked with all errors at once.
//! * [`supervisor`]: decides what to start, stop, kill and restart. It knows no processes and no clock.
//! * [`up`]: carries that out. It may be killed at any time: planes go on, and the next one finds them.
//! * [`record`]: who a plane's process is, for the next supervisor.
//! * [`launch`]: how a plane's process is made.
//! * [`first`]: the first process of a plane with a process namespace.
//! * [`groups`], [`namespace`]: what a process is put into.
//! * [`guest`]: planes with an operating system of their own.
//! * [`notify`]: how a plane says that it is ready and well.
//! * [`protocol`]: how commands speak to the supervisor.
//! * [`logs`]: what planes print.
//! * [`Cpus`], [`machine`]: the machine's cores, and what they share.
//!
//! Planes survive each other and their supervisor. None writes into a pipe of another, and a restart needs nothing but files of the
//! deployment's directory.
#![forbid(unsafe_code)]

mod cpus;
pub mod deployment;
mod descriptors;
mod error;
pub mod first;
pub mod groups;
pub mod guest;
pub mod launch;
pub mod logs;
pub mod machine;
pub mod namespace;
pub mod notify;
pub mod protocol;
pub mod record;
pub mod supervisor;
pub mod up;

pub use cpus::Cpus;
pub use deployment::Deployment;
pub use descriptors::{MOST as MOST_LEFT, Named, Received, receive_named, send_named};
pub use error::Error;
