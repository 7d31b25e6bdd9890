// SPDX-License-Identifier: MIT OR Apache-2.0
//! Token buckets of elements with a rate: exact ones, or called as `click`, such as Click has.
//!
//! Click's buckets gain tokens once a millisecond, in fractions of 32 bits that are rounded down. So a source of 10 packets
//! a second sends the second one after 101 ms. A bucket is full when it is first looked at.

use element::Policy;
use element::clock::Nanos;
use element::swap::Carried;

use crate::tools::TokenBucket;

const TICK: Nanos = 1_000_000;
const TICKS_PER_SECOND: u64 = 1000;

/// A token bucket on Click's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticking {
    /// Fractions that make a token.
    scale: u32,
    per_tick: u32,
    /// Ticks that fill the bucket; `None` for one that gains nothing.
    until_full: Option<u64>,
    level: u32,
    /// The tick of the last refill.
    at: Option<u64>,
    now: Nanos,
}

impl Ticking {
    fn new(rate: u64, capacity: u64) -> Ticking {
        let mut bucket = Ticking::default();
        bucket.assign(rate, capacity);
        bucket
    }

    fn assign(&mut self, rate: u64, capacity: u64) {
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let (rate, capacity) = if capacity == 0 { (0, u32::MAX) } else { (rate, capacity) };
        // What a tick brings must find room.
        let least = rate.div_ceil(TICKS_PER_SECOND as u32);
        self.scale = u32::MAX / capacity.max(least);
        let per_tick = u64::from(rate) * u64::from(self.scale) / TICKS_PER_SECOND;
        self.per_tick = if rate == 0 { 0 } else { (per_tick as u32).max(1) };
        self.until_full = (rate > 0).then(|| u64::from((u32::MAX - 1) / self.per_tick) + 1);
    }

    /// Fractions of so many tokens; `None` if they find no room.
    fn fractions(&self, tokens: u64) -> Option<u32> {
        u32::try_from(tokens.checked_mul(u64::from(self.scale))?).ok()
    }

    fn rate(&self) -> u64 {
        let per_second = u64::from(self.per_tick) * TICKS_PER_SECOND + u64::from(self.per_tick / 2);
        (per_second / u64::from(self.scale)).min(u64::from(u32::MAX))
    }

    fn set(&mut self, rate: u64, capacity: u64) {
        let before = self.scale;
        self.assign(rate, capacity);
        let level = u64::from(self.level) * u64::from(self.scale) / u64::from(before.max(1));
        self.level = u32::try_from(level).unwrap_or(u32::MAX);
    }

    fn refill(&mut self, now: Nanos) {
        let tick = now / TICK;
        let passed = self.at.map(|at| tick.saturating_sub(at));
        self.level = match (passed, self.until_full) {
            (_, None) => self.level,
            (Some(passed), Some(full)) if passed < full => {
                self.level.saturating_add(passed as u32 * self.per_tick)
            }
            _ => u32::MAX,
        };
        (self.at, self.now) = (Some(tick), now);
    }

    fn when(&self, tokens: u64) -> Option<Nanos> {
        let missing = self.fractions(tokens)?.saturating_sub(self.level);
        if missing == 0 {
            return Some(self.now);
        }
        self.until_full?;
        Some(self.now + (u64::from((missing - 1) / self.per_tick) + 1) * TICK)
    }
}

/// A token bucket.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    Exact(TokenBucket),
    Ticking(Ticking),
}

impl Default for Bucket {
    fn default() -> Self {
        Bucket::Exact(TokenBucket::default())
    }
}

impl Bucket {
    /// A full bucket of `capacity` tokens that gains `rate` tokens per second, by Click's clock if the program was called so.
    pub(crate) fn new(rate: u64, capacity: u64) -> Bucket {
        match Policy::of_process().as_click {
            true => Bucket::Ticking(Ticking::new(rate, capacity)),
            false => Bucket::exact(rate, capacity),
        }
    }

    /// One that is exact, even if the program was called as Click.
    pub(crate) fn exact(rate: u64, capacity: u64) -> Bucket {
        Bucket::Exact(TokenBucket::new(rate, capacity))
    }

    /// Tokens per second.
    pub(crate) fn rate(&self) -> u64 {
        match self {
            Bucket::Exact(bucket) => bucket.rate(),
            Bucket::Ticking(bucket) => bucket.rate(),
        }
    }

    /// Changes rate and capacity; the tokens stay, as far as they fit.
    pub(crate) fn set(&mut self, rate: u64, capacity: u64) {
        match self {
            Bucket::Exact(bucket) => bucket.set(rate, capacity),
            Bucket::Ticking(bucket) => bucket.set(rate, capacity),
        }
    }

    /// Takes the tokens of another one, as far as they fit.
    pub(crate) fn follow(&mut self, old: &Bucket) {
        match (self, old) {
            (Bucket::Exact(bucket), Bucket::Exact(old)) => bucket.follow(old),
            (Bucket::Ticking(bucket), Bucket::Ticking(old)) => {
                let level = u64::from(old.level) * u64::from(bucket.scale) / u64::from(old.scale.max(1));
                bucket.level = u32::try_from(level).unwrap_or(u32::MAX);
                (bucket.at, bucket.now) = (old.at, old.now);
            }
            _ => {}
        }
    }

    /// Sets the number of tokens.
    pub(crate) fn set_level(&mut self, now: Nanos, tokens: u64) {
        match self {
            Bucket::Exact(bucket) => bucket.set_level(now, tokens),
            Bucket::Ticking(bucket) => bucket.level = bucket.fractions(tokens).unwrap_or(u32::MAX),
        }
    }

    /// Adds the tokens gained until `now`.
    #[inline]
    pub(crate) fn refill(&mut self, now: Nanos) {
        match self {
            Bucket::Exact(bucket) => bucket.refill(now),
            Bucket::Ticking(bucket) => bucket.refill(now),
        }
    }

    /// Whether there are `n` tokens, as of the last refill.
    #[inline]
    pub(crate) fn contains(&self, n: u64) -> bool {
        match self {
            Bucket::Exact(bucket) => bucket.contains(n),
            Bucket::Ticking(bucket) => bucket.fractions(n).is_some_and(|n| n <= bucket.level),
        }
    }

    /// Whole tokens there are.
    #[inline]
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Bucket::Exact(bucket) => bucket.tokens(),
            Bucket::Ticking(bucket) => u64::from(bucket.level / bucket.scale.max(1)),
        }
    }

    /// Removes `n` tokens, or all if there are fewer.
    #[inline]
    pub(crate) fn remove(&mut self, n: u64) {
        match self {
            Bucket::Exact(bucket) => bucket.remove(n),
            Bucket::Ticking(bucket) => {
                let gone = bucket.fractions(n).unwrap_or(u32::MAX);
                bucket.level = bucket.level.saturating_sub(gone);
            }
        }
    }

    /// The moment from which on there are `n` tokens, if it ever comes.
    pub(crate) fn when(&self, n: u64) -> Option<Nanos> {
        match self {
            Bucket::Exact(bucket) => bucket.when(n),
            Bucket::Ticking(bucket) => bucket.when(n),
        }
    }
}

/// Tokens that are left are left; the rate and the burst are the new ones.
impl Carried for Bucket {
    fn carry(&mut self, _: Nanos, old: &mut Bucket) {
        self.follow(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The milliseconds in which packets leave, one for each token, up to a bound.
    fn departures(rate: u64, capacity: u64, until_ms: u64) -> Vec<u64> {
        let mut bucket = Bucket::Ticking(Ticking::new(rate, capacity));
        let (mut now, mut out) = (0, Vec::new());
        while now < until_ms * TICK {
            bucket.refill(now);
            while bucket.contains(1) {
                bucket.remove(1);
                out.push(now / TICK);
            }
            now = bucket.when(1).expect("it gains tokens");
        }
        out
    }

    #[test]
    fn tokens_come_in_whole_milliseconds() {
        assert_eq!(departures(10, 2, 400), [0, 0, 101, 201, 301]);
        assert_eq!(departures(10, 1, 400), [0, 101, 202, 303]);
        assert_eq!(departures(2000, 40, 4).len(), 40 + 2 + 2 + 2);
        // The rate that is shown is rounded by a part of a tick.
        for (rate, shown) in [(1, 1), (3, 3), (10, 10), (200, 200), (1000, 1000), (4096, 4098)] {
            assert_eq!(Ticking::new(rate, (rate / 100).max(2)).rate(), shown);
        }
    }

    #[test]
    fn nothing_comes_of_no_rate() {
        let mut bucket = Bucket::Ticking(Ticking::new(0, 2));
        bucket.refill(5_000_000_000);
        assert_eq!((bucket.tokens(), bucket.when(1), bucket.rate()), (0, None, 0));
    }
}
