// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast what waits in a table at its limit is given up for what is new.
//!
//! Fragments of many packets that will never be complete fill a table, however large. If each new one then took the place of an
//! old one, the table would do its most expensive work for each packet of the flood, and what waits there in good faith would be
//! gone in no time either way. So only so much is given up in a second; beyond, what is new is refused, which costs one look.

use engine::clock::{Nanos, SECOND};

/// Packets given up in a second; longer ones count for several.
const RATE: u64 = 10_000;
/// The same at once, after a rest.
const AT_ONCE: u64 = 4096;
/// Bytes that count as much as a packet does.
const BYTES: usize = 1024;
/// The longest pause.
const PAUSE: Nanos = SECOND / 5;

/// When there may be room again.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// When all of [`AT_ONCE`] may be given up again (virtual scheduling).
    full: Nanos,
}

impl Relief {
    /// Whether something may be given up now.
    #[inline]
    pub(crate) fn allows(&self, now: Nanos) -> bool {
        self.full <= now.saturating_add(AT_ONCE * (SECOND / RATE))
    }

    /// Notes that something of so many bytes was given up.
    pub(crate) fn note(&mut self, now: Nanos, bytes: usize) {
        let cost = ((1 + bytes / BYTES) as u64).saturating_mul(SECOND / RATE);
        let latest = now.saturating_add(AT_ONCE * (SECOND / RATE) + PAUSE);
        self.full = self.full.max(now).saturating_add(cost).min(latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_up_so_much_at_once_and_then_by_the_rate() {
        let mut relief = Relief::default();
        let mut given_up = |now: Nanos, bytes: usize| {
            let mut n = 0;
            while relief.allows(now) {
                relief.note(now, bytes);
                n += 1;
            }
            n
        };
        assert_eq!(given_up(0, 100), 4097);
        assert_eq!(given_up(SECOND / 10, 100), 1000);
        assert_eq!(given_up(SECOND / 5, 9 * BYTES), 100);
        assert_eq!(given_up(100 * SECOND, 0), 4097);
        relief.note(100 * SECOND, usize::MAX / 2);
        assert!(!relief.allows(100 * SECOND) && relief.allows(101 * SECOND), "no pause is longer than PAUSE");
    }
}
