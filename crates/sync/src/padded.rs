// SPDX-License-Identifier: MIT OR Apache-2.0
//! Padding against false sharing.
//!
//! Two words that different cores write must not share a cache line, nor (on x86, whose prefetcher fetches
//! lines in pairs) two neighbouring lines. [`CachePadded`] aligns and pads to that distance: 128 bytes on
//! x86-64 and AArch64.

pub use crossbeam_utils::CachePadded;
