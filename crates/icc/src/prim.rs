// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics of `std`, or under `cfg(loom)` those of the model checker (see `sync::prim`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use {
    loom::sync::atomic::{Ordering, fence},
    sync::model::AtomicU64,
};
