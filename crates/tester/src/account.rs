// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the frames of each flow: which arrived, which twice, which out of order, which at the wrong port.
//!
//! A flow remembers, for the last [`window`](Accounts::new) sequence numbers up to the greatest seen, which have arrived: a bit for each, in a ring.
//! What arrives from before the window can no longer be distinguished from a duplicate, and is counted as such by name ([`Counts::stale`]): it is
//! neither received nor lost twice over.
//!
//! A frame is *reordered* if its number is less than one that arrived before it (RFC 4737, section 3.3: Type-P-Reordered). A *gap* in
//! the numbering (RFC 2544, section 10) is where the number of a frame that arrives is greater than that after the greatest before.

use serde::{Deserialize, Serialize};

/// What was counted, of one flow or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames that arrived at the right port for the first time.
    pub received: u64,
    /// Of these, frames that a later one overtook.
    pub reordered: u64,
    /// How often numbers were passed over: their frames are lost, or come later.
    pub gaps: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Frames so old that it is unknown whether they had arrived before.
    pub stale: u64,
    /// Frames that arrived at a port other than the flow's.
    pub misrouted: u64,
    /// Frames of flows that there are not.
    pub impossible: u64,
}

impl Counts {
    /// Adds another flow's.
    pub fn add(&mut self, other: &Counts) {
        self.received += other.received;
        self.reordered += other.reordered;
        self.gaps += other.gaps;
        self.duplicates += other.duplicates;
        self.stale += other.stale;
        self.misrouted += other.misrouted;
        self.impossible += other.impossible;
    }
}

/// One flow's state, on a line of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    counts: Counts,
    /// The number after the greatest seen.
    next: u32,
    /// Where its frames ought to arrive; [`ANYWHERE`] if that is not known.
    port: u16,
}

/// A flow whose frames may arrive at any port.
pub const ANYWHERE: u16 = u16::MAX;

/// The account of all flows that one thread receives.
#[derive(Clone, Debug)]
pub struct Accounts {
    flows: Vec<Flow>,
    /// The flows' windows, one after the other.
    seen: Vec<u64>,
    /// Bits of a window less one; a window is a power of two.
    mask: u32,
    unknown: u64,
}

impl Accounts {
    /// Accounts of flows whose frames ought to arrive at these ports. `window` is how many numbers back a frame is still distinguished from
    /// a duplicate, rounded up to a power of two of at least 64.
    pub fn new(ports: impl IntoIterator<Item = u16>, window: u32) -> Accounts {
        let flow = |port| Flow { counts: Counts::default(), next: 0, port };
        let flows: Vec<Flow> = ports.into_iter().map(flow).collect();
        let window = window.clamp(64, 1 << 24).next_power_of_two();
        let seen = vec![0; flows.len() * (window as usize / 64)];
        Accounts { flows, seen, mask: window - 1, unknown: 0 }
    }

    /// A test frame arrived at `port`. Whether it was received: at the right port for the first time.
    #[inline]
    pub fn arrived(&mut self, flow: u32, sequence: u32, port: u16) -> bool {
        let index = flow as usize;
        let words = (self.mask as usize + 1) / 64;
        let Some(flow) = self.flows.get_mut(index) else {
            self.unknown += 1;
            return false;
        };
        if flow.port != port && flow.port != ANYWHERE {
            flow.counts.misrouted += 1;
            return false;
        }
        let seen = &mut self.seen[index * words..][..words];
        let bit = sequence & self.mask;
        let (word, bit) = (&mut seen[(bit / 64) as usize], 1u64 << (bit % 64));
        if sequence == flow.next {
            // The bit is free: it was freed when the window moved past it, or by `skip`.
            *word |= bit;
            flow.counts.received += 1;
            flow.next += 1;
            let ahead = flow.next & self.mask;
            seen[(ahead / 64) as usize] &= !(1u64 << (ahead % 64));
        } else if sequence > flow.next {
            skip(seen, self.mask, flow.next, sequence);
            seen[((sequence & self.mask) / 64) as usize] |= bit;
            flow.counts.received += 1;
            flow.counts.gaps += 1;
            flow.next = sequence.wrapping_add(1);
            let ahead = flow.next & self.mask;
            seen[(ahead / 64) as usize] &= !(1u64 << (ahead % 64));
        } else if flow.next - sequence > self.mask {
            flow.counts.stale += 1;
            return false;
        } else if *word & bit != 0 {
            flow.counts.duplicates += 1;
            return false;
        } else {
            *word |= bit;
            flow.counts.received += 1;
            flow.counts.reordered += 1;
        }
        true
    }

    /// What was counted of a flow.
    pub fn of(&self, flow: usize) -> Option<Counts> {
        self.flows.get(flow).map(|flow| flow.counts)
    }

    /// All flows together.
    pub fn all(&self) -> Counts {
        let mut all = Counts { impossible: self.unknown, ..Counts::default() };
        self.flows.iter().for_each(|flow| all.add(&flow.counts));
        all
    }

    /// The flows' counts, in order, where each has so many accounts one after the other.
    pub fn each_of(&self, accounts: usize) -> Vec<Counts> {
        let together = |accounts: &[Flow]| {
            let mut sum = Counts::default();
            accounts.iter().for_each(|account| sum.add(&account.counts));
            sum
        };
        self.flows.chunks(accounts.max(1)).map(together).collect()
    }
}

/// Frees the bits of the numbers from `from` to before `to`.
#[cold]
fn skip(seen: &mut [u64], mask: u32, from: u32, to: u32) {
    if to - from > mask {
        seen.fill(0);
        return;
    }
    for number in from..=to {
        let at = number & mask;
        seen[(at / 64) as usize] &= !(1u64 << (at % 64));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Accounts of one flow to port 0 that these numbers arrived for.
    fn counts(window: u32, arrivals: &[u32]) -> Counts {
        let mut accounts = Accounts::new([0], window);
        let received = arrivals.iter().filter(|number| accounts.arrived(0, **number, 0)).count();
        assert_eq!(received as u64, accounts.all().received);
        accounts.all()
    }

    #[test]
    fn each_fate_has_its_name() {
        let received = |received| Counts { received, ..Counts::default() };
        for (arrivals, expected) in [
            (&[0, 1, 2, 3][..], received(4)),
            (&[0, 2, 3, 7], Counts { gaps: 2, ..received(4) }),
            (&[1, 2], Counts { gaps: 1, ..received(2) }),
            (&[0, 2, 1, 3], Counts { reordered: 1, gaps: 1, ..received(4) }),
            (&[3, 2, 1, 0], Counts { reordered: 3, gaps: 1, ..received(4) }),
            (&[0, 1, 1, 2, 0], Counts { duplicates: 2, ..received(3) }),
            (&[0, 64], Counts { gaps: 1, ..received(2) }),
            (&[0, 200, 0, 137], Counts { stale: 2, gaps: 1, ..received(2) }),
            (&[0, 200, 138, 138], Counts { reordered: 1, duplicates: 1, gaps: 1, ..received(3) }),
        ] {
            assert_eq!(counts(64, arrivals), expected, "{arrivals:?}");
        }
    }

    #[test]
    fn ports_and_flows_are_told_apart() {
        let mut accounts = Accounts::new([0, 1, ANYWHERE], 64);
        for (flow, port) in [(0, 0), (1, 1), (1, 0), (2, 0), (3, 0)] {
            accounts.arrived(flow, 0, port);
        }
        let received = |flow| accounts.of(flow).map(|c: Counts| (c.received, c.misrouted));
        assert_eq!([0, 1, 2].map(received), [Some((1, 0)), Some((1, 1)), Some((1, 0))]);
        assert_eq!((accounts.all().impossible, accounts.of(3)), (1, None));
        let received: Vec<u64> = accounts.each_of(2).iter().map(|counts| counts.received).collect();
        assert_eq!(received, [2, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        /// Compared with a set of all that arrived.
        #[test]
        fn a_set_counts_the_same(steps in prop::collection::vec((0u32..12, 0u32..90), 1..400)) {
            let (mut arrivals, mut at) = (Vec::new(), 0u32);
            for (ahead, back) in steps {
                at += ahead;
                arrivals.push(at.saturating_sub(if back < 60 { 0 } else { back }));
            }
            let (mut seen, mut next, mut expected) = (HashSet::new(), 0, Counts::default());
            for number in &arrivals {
                if *number < next && next - number > 63 {
                    expected.stale += 1;
                } else if !seen.insert(*number) {
                    expected.duplicates += 1;
                } else {
                    expected.received += 1;
                    expected.reordered += u64::from(*number < next);
                    expected.gaps += u64::from(*number > next);
                    next = next.max(number + 1);
                }
            }
            prop_assert_eq!(counts(64, &arrivals), expected);
        }
    }
}
