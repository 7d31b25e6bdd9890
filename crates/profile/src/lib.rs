// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system profiler: what the threads of a router and the kernel do, on one timeline.
//!
//! ```text
//!  rings of threads (sync::events) --\                                /--> analyse: a report, findings in words
//!                                     record --> file --> Recording -|
//!  the kernel's tracepoints (kernel) -/                               \--> export: Perfetto, Chrome, CSV, HTML
//! ```
//!
//! * [`record`]: empties the rings into a file while the router runs;
//! * [`trigger`]: what ends a recording when it happens;
//! * [`kernel`]: what the kernel's scheduler, interrupts, network and locks tell, by `perf_event_open`;
//! * [`file`](mod@file): the file's form, and reading it;
//! * [`clock`]: cycles and nanoseconds on one line of time;
//! * [`analyse`]: what a recording says;
//! * [`export`]: a recording for other programs.
//!
//! This crate knows neither elements nor workers: their names come with a recording ([`names::Names`]).
#![forbid(unsafe_code)]

pub mod analyse;
mod awaited;
pub mod clock;
pub mod export;
pub mod file;
pub mod kernel;
pub mod names;
pub mod record;
pub mod trigger;
