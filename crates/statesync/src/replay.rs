// SPDX-License-Identifier: MIT OR Apache-2.0
//! Anti-replay: each datagram of a sender has its own number, and is taken once (the window of RFC 4303, 3.4.3).

/// Numbers that have been seen: the largest, and a bit for each of the 64 up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    top: u64,
    seen: u64,
}

impl Replay {
    /// Takes a number; returns whether it is new.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        if number > self.top {
            let by = number - self.top;
            self.seen = if by < 64 { self.seen << by | 1 } else { 1 };
            self.top = number;
            return true;
        }
        let back = self.top - number;
        let is_new = number > 0 && back < 64 && self.seen >> back & 1 == 0;
        if is_new {
            self.seen |= 1 << back;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut window, mut taken, mut top) = (Replay::default(), std::collections::HashSet::new(), 0);
        for _ in 0..10_000 {
            let number = top + rng.u64(..100);
            let number = number.saturating_sub(rng.u64(..100));
            let is_new = window.take(number);
            assert!(!is_new || taken.insert(number), "{number} twice");
            assert!(is_new || number == 0 || taken.contains(&number) || top - number >= 64, "{number} never");
            top = top.max(number);
        }
    }
}
