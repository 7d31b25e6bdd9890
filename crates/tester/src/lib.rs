// SPDX-License-Identifier: MIT OR Apache-2.0
#![forbid(unsafe_code)]
//! The tester: how much a device forwards, how late, and what it does to the frames (RFC 2544 and its kin).
//!
//! It has three layers, each of which knows only the one below it:
//!
//! - A *procedure* ([`search`]) asks for [trials](trial::Trial), one after the other, and draws its conclusion from their outcomes. It
//!   knows rates and losses and no frame.
//! - A [`Measurer`](trial::Measurer) carries a trial out.
//!
//! The device under test is whatever connects the ports: the tester sees ports and frames, never the engine.

pub mod search;
pub mod trial;
