// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics segment: what a running router counts, as a file in shared memory that other processes read.
//!
//! A router's *publisher* writes a snapshot a few times a second; a program that may open the file takes the newest with two or three system calls
//! ([`Segment::read`]), and neither the router nor its workers notice. The layout is published: docs/stats-segment.md, version [`VERSION`].
//!
//! * [`directory`]: what is counted: names, kinds, units, whose. Numbered; another one comes when a configuration does.
//! * [`snapshot`]: the values at one moment, in the directory's order.
//! * [`block`]: both together in one block of bytes, for channels of a deployment (`icc`).
//! * [`segment`]: the file: [`Publisher`] and [`Segment`]. How one writes while others read is [`sync::slots`]'s business.
//!
//! The crate knows nothing of engines and elements: a reader in another program needs no more than this crate.
#![forbid(unsafe_code)]

pub mod block;
mod bytes;
pub mod directory;
pub mod segment;
pub mod snapshot;

pub use block::{Block, BlockError, Composer, Content, Decoder, too_long};
pub use directory::{Directory, Entry, Metric, MetricKind, Object, Series};
pub use segment::{Error, Publisher, Reading, Segment, State, VERSION, path_of, remove_left};
pub use snapshot::Snapshot;
