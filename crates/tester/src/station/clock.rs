// SPDX-License-Identifier: MIT OR Apache-2.0
//! The station's clock: nanoseconds from when it was made.

use std::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    begun: Instant,
    /// In tests, time that passes by being asked for, and so is the same on every machine.
    #[cfg(test)]
    counted: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
    /// How much passes for each look.
    #[cfg(test)]
    pub(super) look_ns: u64,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            begun: Instant::now(),
            #[cfg(test)]
            counted: None,
            #[cfg(test)]
            look_ns: 0,
        }
    }

    /// A clock of which each look takes a microsecond.
    #[cfg(test)]
    pub(super) fn counted(ns: &std::sync::Arc<std::sync::atomic::AtomicU64>) -> Clock {
        Clock { begun: Instant::now(), counted: Some(ns.clone()), look_ns: 1000 }
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        #[cfg(test)]
        if let Some(ns) = &self.counted {
            return ns.fetch_add(self.look_ns, std::sync::atomic::Ordering::Relaxed);
        }
        self.begun.elapsed().as_nanos() as u64
    }
}
