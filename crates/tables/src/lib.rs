// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables a router looks things up in: one table, one file.
//!
//! * [`fib4`]: IPv4 longest-prefix match, shared by all workers.
//! * [`fib6`]: the same for IPv6.
//! * [`next_hop`]: what a route's answer means: next hops, and groups that share traffic.
//! * [`flow`]: flows with two keys and an expiry, one table for each worker, for address translation.
//! * [`neighbour`]: IPv4 address to Ethernet address, with what waits for the answer.
//! * [`mac`]: Ethernet address to the port it was seen behind.
//! * [`label`]: MPLS label to next hop, shared by all workers.
//! * [`multicast`]: source and group to what becomes of their packets, shared by all workers.
//! * [`slab`]: numbered places, found by key and in lists, of which other tables are made.
//! * [`rules`]: lists of rules of which the first that a packet matches counts.
//! * [`set`]: sets of ranges of addresses or ports, which change while others look up.
//! * [`routes`]: route files, read and written: our text, `ip route`, MRT.
//!
//! Time never comes from a clock here: every table that ages takes `now_ns`, nanoseconds since any fixed moment.
//!
//! `unsafe` is denied but for the loads of four lookups (`fib4/walk.rs`, `fib6/walk.rs`, `mac/fdb/asked.rs`, `rules`):
//! there the safe form costs a fifth of the speed, or there is none.
#![deny(unsafe_code)]

mod arena;
pub mod fib4;
pub mod fib6;
pub mod flow;
mod hash;
pub mod label;
pub mod mac;
pub mod multicast;
pub mod neighbour;
pub mod next_hop;
pub mod routes;
pub mod rules;
pub mod set;
pub mod slab;
