// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signs of life: what a worker shows of itself while it works, so that somebody else can say where it is stuck.
//!
//! A worker stores into words of its own, with plain stores that order nothing: in each round that it is alive, and with each
//! batch where it is and where the batch's packets are listed. Nobody else writes them, so the line stays in its cache until
//! somebody looks, which is once in a second or so. What a look finds may be half of one moment and half of the next; it is
//! only believed of a worker that has not moved for seconds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use packet::Batch;
use packet::glance::Whereabouts;

use element::{ElementId, PortIndex};

/// What a worker is about to do in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// A batch has come to an input.
    Push,
    /// A pass does a batch in place of the chain that begins with this element.
    Pass,
    /// Somebody asks an output for packets.
    Pull,
    /// Its task.
    Task,
    /// A timer.
    Timer,
    /// A descriptor that is ready.
    Descriptor,
    /// A read handler.
    Read,
    /// A write handler.
    Write,
    /// Anything else that is asked of it.
    Call,
}

const ALL: [Doing; 9] = [
    Doing::Push,
    Doing::Pass,
    Doing::Pull,
    Doing::Task,
    Doing::Timer,
    Doing::Descriptor,
    Doing::Read,
    Doing::Write,
    Doing::Call,
];

/// Where a worker is: in an element, or between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spot(u64);

impl Spot {
    /// In no element.
    pub const BETWEEN: Spot = Spot(u64::MAX);

    #[inline]
    pub(crate) fn new(element: ElementId, doing: Doing, port: PortIndex) -> Spot {
        // What is shown of a port has 16 bits.
        Spot(u64::from(element.number()) | u64::from(port.number() & 0xffff) << 32 | (doing as u64) << 48)
    }

    /// The element, what is done there, and the port that it concerns.
    pub fn parts(self) -> Option<(ElementId, Doing, PortIndex)> {
        let doing = *ALL.get((self.0 >> 48) as usize)?;
        Some((ElementId::from(self.0 as u32), doing, PortIndex::from((self.0 >> 32) as u32 & 0xffff)))
    }
}

/// See the module.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pulse {
    beats: AtomicU64,
    spot: AtomicU64,
    batch: AtomicU64,
    /// The kernel's number of the thread, 0 while it does not run.
    thread: AtomicU32,
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse {
            beats: AtomicU64::new(0),
            spot: AtomicU64::new(Spot::BETWEEN.0),
            batch: AtomicU64::new(0),
            thread: AtomicU32::new(0),
        }
    }
}

impl Pulse {
    /// A sign of life, from a worker that is in no element.
    #[inline]
    pub(crate) fn beat(&self) {
        self.spot.store(Spot::BETWEEN.0, Relaxed);
        self.wait();
    }

    /// A sign of life from where the worker is: it waits for somebody else, and does what it is asked meanwhile.
    #[inline]
    pub(crate) fn wait(&self) {
        self.beats.store(self.beats.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn enter(&self, spot: Spot) {
        self.spot.store(spot.0, Relaxed);
    }

    /// Enters with a batch.
    #[inline]
    pub(crate) fn carry(&self, spot: Spot, batch: &Batch) {
        self.spot.store(spot.0, Relaxed);
        self.batch.store(Whereabouts::of(batch).word(), Relaxed);
    }

    /// Where the worker is.
    #[inline]
    pub fn spot(&self) -> Spot {
        Spot(self.spot.load(Relaxed))
    }

    /// Rounds and other signs of life until now.
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    /// The packets of the batch that came last.
    pub fn batch(&self) -> Whereabouts {
        Whereabouts::from_word(self.batch.load(Relaxed))
    }

    /// The worker begins to run on the calling thread.
    pub(crate) fn begin(&self) {
        self.beat();
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), Relaxed);
    }

    /// The worker runs no longer.
    pub(crate) fn end(&self) {
        self.thread.store(0, Relaxed);
    }

    /// The thread on which it runs.
    pub fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Relaxed)).filter(|t| *t != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spots_are_what_they_were_made_of() {
        assert_eq!(Spot::BETWEEN.parts(), None);
        for (i, doing) in ALL.into_iter().enumerate() {
            assert_eq!(doing as usize, i);
            for (element, port) in [(0, 0), (7, 3), (u32::MAX - 1, 0xffff)] {
                let (element, port) = (ElementId::from(element), PortIndex::from(port));
                assert_eq!(Spot::new(element, doing, port).parts(), Some((element, doing, port)));
            }
        }
    }
}
