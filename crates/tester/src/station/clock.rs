// SPDX-License-Identifier: MIT OR Apache-2.0
//! The station's clock: nanoseconds of the machine's steady clock, which all stations on one machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// In tests, time that passes by being asked for, and so is the same on every machine.
    #[cfg(test)]
    counted: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
    /// How much passes for each look.
    #[cfg(test)]
    pub(super) look_ns: u64,
}

impl Clock {
    /// A clock of which each look takes a microsecond.
    #[cfg(test)]
    pub(super) fn counted(ns: &std::sync::Arc<std::sync::atomic::AtomicU64>) -> Clock {
        Clock { counted: Some(ns.clone()), look_ns: 1000 }
    }

    /// Waits for so long.
    pub(super) fn sleep(&self, time: Duration) {
        #[cfg(test)]
        if let Some(ns) = &self.counted {
            ns.fetch_add(time.as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
            return;
        }
        std::thread::sleep(time);
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        #[cfg(test)]
        if let Some(ns) = &self.counted {
            return ns.fetch_add(self.look_ns, std::sync::atomic::Ordering::Relaxed);
        }
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}
