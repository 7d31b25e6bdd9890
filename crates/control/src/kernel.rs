// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feed of the kernel: interfaces, addresses, neighbours, next hops, routes and rules of a network namespace.
//!
//! [`spawn`] starts a thread that reports [`Change`](crate::Change)s. [`Core`] decides what to ask and what to report. It does no
//! I/O, and the time is passed in.
//!
//! # Full reports
//! The thread listens to notifications first and then asks for everything, one kind after the other. Notifications that arrive
//! meanwhile are held back until the full report has ended, so an older state never replaces a newer one. The old state stays
//! valid all the time. Another full report follows when:
//! * the kernel lost notifications (`ENOBUFS`),
//! * a dump was inconsistent, three times in a row (`NLM_F_DUMP_INTR`),
//! * the kernel may have removed something silently,
//! * or [`Settings::audit`] has passed since the last one.
//!
//! Full reports take at most a quarter of the thread's time, however often one is called for. One of 1,042,330 routes took 0.74 to
//! 0.80 s (five times, Linux 6.18, two cores that were also busy with builds, 2026-11-26).
//!
//! # What the kernel does not say
//! Seen with Linux 6.18:
//! * An interface that loses its carrier or goes down takes next-hop objects with it. Groups lose members, and IPv4 routes that
//!   name these objects or the interface vanish. None of this is notified. The hops of other routes become dead silently.
//! * An address that goes takes the routes through its network with it. The same holds for a next-hop object.
//! * The deletion of one hop of an IPv6 route looks like that of the route.
//! * Several IPv4 routes may have the same prefix and metric (`ip route append`). The first counts, and the deletion of one
//!   does not say which are left.
//!
//! So a full report follows each of these. Until then the last known state stays, except where an interface is known to be down.
//!
//! With the daemon that made multicast entries, they all go. What it was is notified first: how many such daemons there are
//! ([`Change::MulticastDaemons`](crate::Change::MulticastDaemons)).
//!
//! Routes of link-local and multicast prefixes of IPv6 are left out: every interface has the same ones, and they are not forwarded.

mod core;
mod feed;
mod request;

pub use self::core::Core;
pub use feed::{Settings, spawn};
