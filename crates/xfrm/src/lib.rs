// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux' interface to IPsec, NETLINK_XFRM (`linux/xfrm.h`), for key daemons that know no other one: they talk to this server and think that it is the kernel.
//!
//! * [`netlink`] and [`layout`] read and write messages, attributes and structures, byte by byte.
//! * [`Kernel`] is what a server needs of databases. [`Local`] is an [`ipsec::Database`] of this process, [`Remote`] one behind the handlers of a router.
//! * [`answer`] turns requests into answers, without I/O.
//! * [`message_of`] turns events into the messages that listeners get.
//! * [`Server`] serves clients on a Unix socket, which `libjunctor_xfrm.so` puts in the place of a daemon's netlink socket.
//!
//! Errors are those of the kernel. What a router does not have (AH, IPComp, marks, interfaces' numbers, hardware offload) is refused, and the extended acknowledgement says
//! why.
#![forbid(unsafe_code)]

mod algorithm;
mod association;
mod event;
mod kernel;
pub mod layout;
mod local;
pub mod netlink;
mod policy;
mod remote;
mod request;
mod server;

pub use association::{config_of, put_association};
pub use event::message_of;
pub use kernel::{Carried, Found, Kernel, Refusal};
pub use local::Local;
pub use policy::{policy_of, put_policy};
pub use remote::{Calls, Remote, heard_of, refusal_of};
pub use request::{Answer, Client, answer};
pub use server::{Server, hello};
