// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long queues without room have held back sources that wait for some. It may happen each round and be over in the next, so a worker adds up the times of
//! each queue, and tells of them every so often, and before it sleeps, ends, or its elements change.

/// Cycles after which what was added up is told of: about a millisecond.
const TOLD_AFTER: u64 = 1 << 21;

/// The times of one queue on one worker, in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBack {
    /// Since when it is held back without being counted yet; 0 if it is not.
    since: u64,
    /// What is yet to be told of, and when the first of it began.
    sum: u64,
    begun: u64,
}

impl HeldBack {
    /// There is no room, as there may have been none before. Returns what is to be told of now.
    pub(super) fn full(&mut self, now: u64) -> Option<u64> {
        if self.since != 0 {
            self.sum += now.saturating_sub(self.since);
        } else if self.sum == 0 {
            self.begun = now;
        }
        self.since = now;
        self.due(now)
    }

    /// There is room again.
    pub(super) fn room(&mut self, now: u64) -> Option<u64> {
        let since = std::mem::take(&mut self.since);
        if since != 0 {
            self.sum += now.saturating_sub(since);
        }
        self.due(now)
    }

    fn due(&mut self, now: u64) -> Option<u64> {
        if now.saturating_sub(self.begun) < TOLD_AFTER { None } else { self.rest(now) }
    }

    /// What has not been told of.
    pub(super) fn rest(&mut self, now: u64) -> Option<u64> {
        self.begun = now;
        Some(std::mem::take(&mut self.sum)).filter(|sum| *sum > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_up_and_told_of_now_and_then() {
        let mut held = HeldBack::default();
        assert_eq!((held.full(1000), held.room(1100), held.room(1200)), (None, None, None));
        // Looked at again while it lasts.
        assert_eq!([held.full(2000), held.full(2500), held.full(2600)], [None; 3]);
        assert_eq!(held.room(1000 + TOLD_AFTER), Some(100 + TOLD_AFTER - 1000));
        assert_eq!((held.room(2000 + TOLD_AFTER), held.rest(0)), (None, None));
        // One that does not end is told of as it goes on.
        let begun = 10 * TOLD_AFTER;
        assert_eq!((held.full(begun), held.full(begun + TOLD_AFTER)), (None, Some(TOLD_AFTER)));
        assert_eq!((held.full(begun + TOLD_AFTER + 7), held.rest(begun + TOLD_AFTER + 8)), (None, Some(7)));
    }
}
