// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables a router looks things up in: one table, one file.
//!
//! * [`fib4`]: IPv4 longest-prefix match, shared by all workers.
//!
//! Time never comes from a clock here: every table that ages takes `now_ns`, nanoseconds since any fixed moment.
//!
//! `unsafe` is denied but for the loads of `fib4`'s lookup (`fib4/walk.rs`), where the safe form costs a fifth of the speed.
#![deny(unsafe_code)]

pub mod fib4;
