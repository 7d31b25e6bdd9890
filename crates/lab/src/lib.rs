// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where Junctor is put to the test on real packets: network namespaces joined by virtual cables.
//!
//! [`rig`] builds hosts and cables, runs programs in them for a bounded time, and takes everything down again.
#![forbid(unsafe_code)]

pub mod rig;
