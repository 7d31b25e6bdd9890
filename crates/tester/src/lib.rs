// SPDX-License-Identifier: MIT OR Apache-2.0
#![forbid(unsafe_code)]
//! The tester: how much a device forwards, how late, and what it does to the frames (RFC 2544 and its kin).
//!
//! It has three layers, each of which knows only the one below it:
//!
//! - A *procedure* ([`search`]) asks for [trials](trial::Trial), one after the other, and draws its conclusion from their outcomes. It
//!   knows rates and losses and no frame.
//! - A [`Measurer`](trial::Measurer) carries a trial out. The one for real ports is a [`Station`](station::Station): it sends
//!   frames when a [`Pace`](pace::Pace) says that they are due, and keeps [`Accounts`](account::Accounts) of what arrives.
//! - A [test frame](frame) says in its [signature] of which flow it is, which place it has there, and when it left.
//!
//! The device under test connects the ports in any way: the tester sees ports and frames, never the engine.

pub mod account;
pub mod extension;
pub mod extras;
pub mod frame;
pub mod genome;
pub mod hosts;
pub mod management;
pub mod pace;
pub mod search;
pub mod signature;
pub mod station;
pub mod trial;
