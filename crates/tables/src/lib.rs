// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables a router looks things up in: one table, one file.
//!
//! * [`fib4`]: IPv4 longest-prefix match, shared by all workers.
//!
//! Time never comes from a clock here: every table that ages takes `now_ns`, nanoseconds since any fixed moment.
//!
//! `unsafe` is denied but for the few lines that pick a function compiled for this processor's instructions
//! (`fib4`: without POPCNT and BMI2 a lookup takes about twice as long).
#![deny(unsafe_code)]

pub mod fib4;
