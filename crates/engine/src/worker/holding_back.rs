// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long queues without room have held back sources that wait for some.
//!
//! That may happen each round and be over in the next. So only one in so many looks is timed, until the next, and counts for all of them. A worker adds up
//! the times of each queue. It records them every so often, and before it sleeps, ends, or its elements change.

/// Cycles after which what was added up is recorded: about a millisecond.
const RECORDED_AFTER: u64 = 1 << 21;

/// The times of one queue on one worker, in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBack {
    /// When the look began that is timed; 0 if none is.
    since: u64,
    /// What is yet to be recorded, and when the first of it began.
    sum: u64,
    begun: u64,
}

sync::all_zero!(HeldBack { since, sum, begun });

impl HeldBack {
    /// Whether a look is being timed, and ends with the next.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.since != 0
    }

    /// It is looked again: what was timed until now stands for `one_in` times as much. Returns what is to be recorded now.
    pub(super) fn look(&mut self, now: u64, one_in: u32) -> Option<u64> {
        let since = std::mem::take(&mut self.since);
        if since != 0 {
            self.sum += now.saturating_sub(since) * u64::from(one_in);
        }
        if now.saturating_sub(self.begun) < RECORDED_AFTER { None } else { self.rest(now) }
    }

    /// There is no room: the time from now on counts.
    pub(super) fn begin(&mut self, now: u64) {
        self.since = now;
    }

    /// What has not been recorded.
    pub(super) fn rest(&mut self, now: u64) -> Option<u64> {
        self.begun = now;
        Some(std::mem::take(&mut self.sum)).filter(|sum| *sum > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_up_and_recorded_now_and_then() {
        let mut held = HeldBack::default();
        held.rest(1);
        held.begin(1000);
        assert!(held.is_timed());
        assert_eq!((held.look(1100, 1), held.is_timed(), held.look(1200, 1)), (None, false, None));
        // Looked at again while it lasts.
        for look in [2000, 2500, 2600] {
            assert_eq!(held.look(look, 1), None);
            held.begin(look);
        }
        assert_eq!(held.look(1000 + RECORDED_AFTER, 1), Some(100 + RECORDED_AFTER - 1000));
        assert_eq!((held.look(2000 + RECORDED_AFTER, 1), held.rest(0)), (None, None));
    }

    #[test]
    fn one_look_in_many_stands_for_all() {
        let mut held = HeldBack::default();
        held.rest(1);
        held.begin(1000);
        assert_eq!((held.look(1010, 16), held.look(1020, 16), held.rest(2000)), (None, None, Some(160)));
    }
}
