// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes: the processes of a router (user, control, management), on the cores that a deployment gives them, supervised.
//!
//! * [`deployment`]: the file that describes planes, read and checked with all errors at once;
//! * [`supervisor`]: the state machine that decides what to start, stop, kill and restart, without processes or clocks;
//! * [`up`]: the process that carries it out, and that may itself be killed at any time: planes go on, and the next one takes
//!   them over by their [`record`]s;
//! * [`launch`]: how a plane's process is made; [`groups`] and [`namespace`]: what it is put into;
//! * [`guest`]: planes with an operating system instance of their own;
//! * [`notify`]: how a plane says that it is ready and well;
//! * [`protocol`]: how commands speak to the supervisor; [`logs`]: what planes print;
//! * [`Cpus`] and [`machine`]: the machine's cores, and what they share.
//!
//! Planes survive each other and their supervisor: none is another's parent in any way that matters, none writes into a pipe of
//! another, and what a restart needs lies in files of the deployment's directory.
#![forbid(unsafe_code)]

mod cpus;
pub mod deployment;
mod descriptors;
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
