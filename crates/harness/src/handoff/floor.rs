// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine itself asks for a packet's way between two cores: no engine, no elements, no packets, only the lines
//! that a packet moves in. One core writes a descriptor and a line of bytes for each of a batch and lists them in a
//! ring, the other asks for these lines ahead and reads them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use sync::padded::CachePadded;
use sync::prefetch::prefetch;

/// Frames that go round: more than a ring's worth of batches, few enough for the caches.
const FRAMES: usize = 512;
/// Bytes from one frame to the next, in lines.
const STRIDE: usize = 32;

/// As a packet's: a line that is used, and one that is not.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Descriptor {
    /// Which line holds the first bytes.
    place: AtomicU64,
    len: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Numbers of frames on their way from one core to the other; it has room for all.
#[derive(Debug)]
struct Way {
    slots: Vec<AtomicU64>,
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
}

impl Way {
    fn new(frames: usize) -> Way {
        let slots = (0..FRAMES as u64).map(AtomicU64::new).collect();
        let head = CachePadded::new(AtomicU64::new(frames as u64));
        Way { slots, head, tail: CachePadded::default() }
    }

    /// Fills `frames` with the oldest ones, if there are as many.
    fn take(&self, frames: &mut [usize]) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if self.head.load(Ordering::Acquire) - tail < frames.len() as u64 {
            return false;
        }
        for (at, frame) in (tail as usize..).zip(frames.iter_mut()) {
            *frame = self.slots[at % FRAMES].load(Ordering::Relaxed) as usize;
        }
        self.tail.store(tail + frames.len() as u64, Ordering::Release);
        true
    }

    fn give(&self, frames: &[usize]) {
        let head = self.head.load(Ordering::Relaxed);
        for (at, frame) in (head as usize..).zip(frames) {
            self.slots[at % FRAMES].store(*frame as u64, Ordering::Relaxed);
        }
        self.head.store(head + frames.len() as u64, Ordering::Release);
    }
}

/// Two cores, and what goes to and fro.
#[derive(Debug)]
pub struct Floor {
    cores: [usize; 2],
    burst: usize,
    descriptors: Vec<Descriptor>,
    lines: Vec<Line>,
}

impl Floor {
    /// Between these two cores, so many packets at a time.
    pub fn new(cores: [usize; 2], burst: usize) -> Floor {
        let descriptors: Vec<Descriptor> = (0..FRAMES).map(|_| Descriptor::default()).collect();
        for (frame, descriptor) in descriptors.iter().enumerate() {
            // Staggered over the sets of the caches, as first bytes are.
            descriptor.place.store((frame * STRIDE + 2 + (frame / 2 % 16)) as u64, Ordering::Relaxed);
        }
        let lines = (0..FRAMES * STRIDE).map(|_| Line::default()).collect();
        Floor { cores, burst, descriptors, lines }
    }

    /// Nanoseconds for a packet, of each core: listing a batch, and taking it and reading each one's two lines.
    pub fn sides(&self, length: Duration) -> [f64; 2] {
        let (there, back, end) = (Way::new(0), Way::new(FRAMES), AtomicBool::new(false));
        let (started, before) = (Instant::now(), sync::tsc());
        let on = |core| core_affinity::set_for_current(CoreId { id: core });
        let sides = std::thread::scope(|scope| {
            let source = scope.spawn(|| {
                on(self.cores[0]);
                let mut side = Side::default();
                while started.elapsed() < length {
                    self.bring(&back, &there, &mut side);
                }
                end.store(true, Ordering::Release);
                side
            });
            let sink = scope.spawn(|| {
                on(self.cores[1]);
                let mut side = Side::default();
                while !end.load(Ordering::Acquire) {
                    self.fetch(&there, &back, &mut side);
                }
                side
            });
            [source.join(), sink.join()].map(|side| side.unwrap_or_default())
        });
        let ns_per_cycle =
            started.elapsed().as_nanos() as f64 / (sync::tsc().saturating_sub(before) as f64).max(1.0);
        sides.map(|side| side.cycles as f64 * ns_per_cycle / (side.packets as f64).max(1.0))
    }

    fn bring(&self, back: &Way, there: &Way, side: &mut Side) {
        let mut frames = [0; super::MAX_BURST];
        let frames = &mut frames[..self.burst];
        if !back.take(frames) {
            std::hint::spin_loop();
            return;
        }
        for frame in frames.iter() {
            let descriptor = &self.descriptors[*frame];
            descriptor.len.store(64, Ordering::Relaxed);
            let line = &self.lines[descriptor.place.load(Ordering::Relaxed) as usize];
            line.0.iter().for_each(|word| word.store(0x4545_4545, Ordering::Relaxed));
        }
        let before = sync::tsc();
        there.give(frames);
        side.moved(frames.len(), before);
    }

    fn fetch(&self, there: &Way, back: &Way, side: &mut Side) {
        let mut frames = [0; super::MAX_BURST];
        let frames = &mut frames[..self.burst];
        let before = sync::tsc();
        if !there.take(frames) {
            std::hint::spin_loop();
            return;
        }
        frames.iter().for_each(|frame| prefetch(&self.descriptors[*frame]));
        let line = |frame: &usize| {
            let descriptor = &self.descriptors[*frame];
            (&self.lines[descriptor.place.load(Ordering::Relaxed) as usize], descriptor)
        };
        frames.iter().for_each(|frame| prefetch(line(frame).0));
        let sum = frames.iter().map(line).fold(0, |sum, (line, descriptor)| {
            sum ^ line.0[0].load(Ordering::Relaxed) ^ descriptor.len.load(Ordering::Relaxed)
        });
        std::hint::black_box(sum);
        side.moved(frames.len(), before);
        back.give(frames);
    }
}

/// What a core has done.
#[derive(Debug, Default)]
struct Side {
    packets: u64,
    cycles: u64,
}

impl Side {
    fn moved(&mut self, packets: usize, before: u64) {
        self.packets += packets as u64;
        self.cycles += super::since(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round() {
        for burst in [1, 32, 256] {
            let floor = Floor::new([0, 0], burst);
            // On a busy machine a core may have no turn in so short a time.
            let mut sides = (0..200).map(|_| floor.sides(Duration::from_millis(5)));
            assert!(sides.any(|sides| sides.iter().all(|ns| *ns > 0.0)), "{burst}");
        }
    }
}
