// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of many events are timed.

/// Picks one event in about `mean`, at uneven distances: what a worker does repeats from round to round, and a fixed distance
/// that divides a round would pick the same element for ever.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    left: u32,
    mean: u32,
    state: u32,
}

impl Sampler {
    /// One event in about `mean`, which must be 2 at least.
    pub(crate) fn one_in(mean: u32) -> Sampler {
        Sampler { left: mean, mean, state: 0x9E37_79B9 }
    }

    /// Whether this event is picked.
    #[inline]
    pub(crate) fn picks(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.again();
        true
    }

    /// The next distance: 1 to twice the mean less 1, from a xorshift generator (Marsaglia, 2003).
    #[cold]
    fn again(&mut self) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.left = 1 + self.state % (2 * self.mean - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_round_is_picked_alike() {
        for round in [1usize, 2, 4, 12, 32, 64] {
            let mut sampler = Sampler::one_in(32);
            let mut picked = vec![0u32; round];
            for event in 0..round * 32 * 400 {
                picked[event % round] += u32::from(sampler.picks());
            }
            let (least, most) = (*picked.iter().min().unwrap(), *picked.iter().max().unwrap());
            assert!(least > 320 && most < 480, "{round}: {picked:?}");
        }
    }
}
