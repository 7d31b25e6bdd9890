// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays of single frames, in the order in which they were sent: what medians of tagged frames and delay variation need, and
//! histograms do not tell.
//!
//! Four bytes are kept for each frame of the sample, and a sample has at most [`DELAYS_MAX`] frames. Where a trial has more, whole
//! blocks of successive frames are left out at equal distances, so that what is kept still has neighbours to be compared with.
//! Delays above 4.29 s count as this.

use serde::{Deserialize, Serialize};

/// Frames whose delays are kept at most.
pub const DELAYS_MAX: u64 = 1 << 22;
/// Successive frames that are kept together where not all are.
const BLOCK: u64 = 1024;
/// What did not arrive.
const MISSING: u32 = u32::MAX;

/// Which frames of each port are looked at one by one: from one on, a block of so many out of every so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    from: u64,
    block: u64,
    every: u64,
}

impl Sampling {
    /// All of `frames` frames, or blocks out of them where they are more than `most`.
    pub fn all(frames: u64, most: u64) -> Sampling {
        let every = frames.div_ceil(most.max(BLOCK));
        Sampling { from: 0, block: BLOCK, every: every.max(1) }
    }

    /// Single frames at equal distances, `tags` or a few more of them, out of those from number `from` on.
    pub fn tags(frames: u64, from: u64, tags: u64) -> Sampling {
        Sampling { from, block: 1, every: (frames.saturating_sub(from) / tags.max(1)).max(1) }
    }

    /// The same, at most so many.
    pub fn at_most(frames: u64, from: u64, tags: u64) -> Sampling {
        Sampling { from, block: 1, every: frames.saturating_sub(from).div_ceil(tags.max(1)).max(1) }
    }

    /// One out of how many is kept.
    pub fn one_in(&self) -> u64 {
        self.every
    }

    /// Where a frame's delay is kept.
    #[inline]
    fn place(&self, number: u64) -> Option<usize> {
        let number = number.checked_sub(self.from)?;
        if self.every == 1 {
            return Some(number as usize);
        }
        let (block, within) = (number / self.block, number % self.block);
        (block % self.every == 0).then_some((block / self.every * self.block + within) as usize)
    }

    /// How many of the first `frames` are kept.
    fn kept(&self, frames: u64) -> usize {
        let frames = frames.saturating_sub(self.from);
        let (blocks, rest) = (frames / self.block, frames % self.block);
        let whole = blocks.div_ceil(self.every) * self.block;
        (whole + if blocks % self.every == 0 { rest } else { 0 }) as usize
    }
}

/// Delays of the frames of a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delays {
    sampling: Sampling,
    /// By port: nanoseconds, or [`MISSING`].
    ports: Vec<Vec<u32>>,
}

impl Delays {
    /// None yet, of ports that send so many frames each.
    pub(crate) fn new(sampling: Sampling, frames: impl Iterator<Item = u64>) -> Delays {
        Delays { sampling, ports: frames.map(|frames| vec![MISSING; sampling.kept(frames)]).collect() }
    }

    /// Where a frame's delay is kept, if it is.
    pub(super) fn place(&self, number: u64) -> Option<usize> {
        self.sampling.place(number)
    }

    /// A frame arrived.
    #[inline]
    pub(crate) fn note(&mut self, port: usize, number: u64, delay_ns: u64) {
        let Some(place) = self.sampling.place(number) else { return };
        if let Some(kept) = self.ports[port].get_mut(place) {
            *kept = delay_ns.min(u64::from(MISSING) - 1) as u32;
        }
    }

    /// Adds what others received of the same frames.
    pub(super) fn add(&mut self, others: &Delays) {
        for (port, other) in self.ports.iter_mut().zip(&others.ports) {
            // What is missing is greater than any delay.
            port.iter_mut().zip(other).for_each(|(delay, other)| *delay = (*delay).min(*other));
        }
    }

    /// Only so many frames were sent by each port.
    pub(super) fn cut(&mut self, sent: impl Iterator<Item = u64>) {
        for (port, sent) in self.ports.iter_mut().zip(sent) {
            port.truncate(self.sampling.kept(sent));
        }
    }

    /// Delays of the frames that arrived, in nanoseconds.
    pub fn received(&self) -> Vec<u64> {
        self.ports
            .iter()
            .flatten()
            .filter(|delay| **delay != MISSING)
            .map(|delay| u64::from(*delay))
            .collect()
    }

    /// How many frames of the sample did not arrive.
    pub fn lost(&self) -> u64 {
        self.ports.iter().flatten().filter(|delay| **delay == MISSING).count() as u64
    }

    /// Delays in nanoseconds in order of sending, nothing for what did not arrive; and nothing between two that did not follow each
    /// other.
    pub fn in_order(&self) -> Vec<Option<u64>> {
        let some = |delay: &u32| (*delay != MISSING).then_some(u64::from(*delay));
        let block = if self.sampling.every == 1 { usize::MAX } else { self.sampling.block as usize };
        let blocks = self.ports.iter().flat_map(|port| port.chunks(block.min(port.len().max(1))));
        blocks.flat_map(|block| block.iter().map(some).chain([None])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_neighbours_and_is_bounded() {
        for (frames, most, one_in) in
            [(5000, 8192, 1), (100_000, 10_000, 10), (1_000_000_000, DELAYS_MAX, 239)]
        {
            let sampling = Sampling::all(frames, most);
            assert_eq!(sampling.one_in(), one_in, "{frames}");
            assert!(sampling.kept(frames) as u64 <= most + BLOCK, "{}", sampling.kept(frames));
        }
        for sampling in [Sampling::all(9000, 3000), Sampling::tags(9000, 4500, 500), Sampling::all(10, 20)] {
            let mut places = Vec::new();
            for number in 0..9000 {
                assert_eq!(sampling.kept(number), places.len(), "{number}");
                places.extend(sampling.place(number));
            }
            assert!(places.iter().copied().eq(0..places.len()));
        }
        let few = [1, 3, 499, 4499, 4500, 9000].map(|most| Sampling::at_most(9000, 4500, most).kept(9000));
        assert_eq!(few, [1, 3, 450, 2250, 4500, 4500]);
        let tags = Sampling::tags(9000, 4500, 500);
        assert_eq!((tags.kept(9000), tags.place(4499), tags.place(4509)), (500, None, Some(1)));
    }

    #[test]
    fn lost_frames_and_gaps_between_blocks_are_nothing() {
        let mut delays = Delays::new(Sampling { from: 0, block: 2, every: 2 }, [8, 2].into_iter());
        for (port, number) in [(0, 0), (0, 1), (0, 2), (0, 5), (1, 1)] {
            delays.note(port, number, 10 + number);
        }
        assert_eq!((delays.received(), delays.lost()), (vec![10, 11, 15, 11], 2));
        let order = [Some(10), Some(11), None, None, Some(15), None, None, Some(11), None];
        assert_eq!(delays.in_order(), order);
        delays.cut([2, 0].into_iter());
        assert_eq!((delays.received(), delays.lost()), (vec![10, 11], 0));
        delays.note(0, 0, u64::MAX);
        assert_eq!(delays.received()[0], 4_294_967_294);
    }
}
