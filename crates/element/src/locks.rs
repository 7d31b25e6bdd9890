// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements say of the locks that they take.

use std::fmt;

use sync::lock::How;

/// When a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// With every batch, on the way of the packets.
    EachBatch,
    /// By some packets, those that the text names.
    Exceptions,
    /// By handlers and timers alone: packets pass without it.
    Control,
}

impl When {
    /// In a word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            When::EachBatch => "batch",
            When::Exceptions => "exceptions",
            When::Control => "control",
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            When::EachBatch => "with each batch",
            When::Exceptions => "by some packets",
            When::Control => "by handlers and timers only",
        })
    }
}

/// A lock of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// The element whose lock it is, and by whose name it is listed; `None` for the element's own.
    pub owner: Option<String>,
    /// What waiters do.
    pub how: How,
    /// What it guards.
    pub guards: &'static str,
    /// When it is taken.
    pub when: When,
    /// What takes it, reading or writing.
    pub why: &'static str,
    /// Each worker has one of its own, which only changes from outside take besides.
    pub per_worker: bool,
}

impl LockUse {
    /// An element's own lock, common to its workers.
    pub const fn new(how: How, guards: &'static str, when: When, why: &'static str) -> LockUse {
        LockUse { owner: None, how, guards, when, why, per_worker: false }
    }
}
