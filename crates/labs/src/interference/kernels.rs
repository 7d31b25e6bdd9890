// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that move memory: what is timed, and what disturbs it.
//!
//! *Read*, *write* and *copy* are those of lmbench's `bw_mem`: they go through a buffer word by word, add the words up, fill them, or copy
//! them to a second buffer of the same size. *Chase* follows a chain of lines in random order, each address known only when the one
//! before has arrived: a lookup in a table. *Random* writes lines at random places, which do not wait for each other.
//!
//! Every page is written before anything is timed. The compiler cannot leave the work out, since [`std::hint::black_box`] takes its
//! results. A kernel goes on where it stopped, so that a short run over a large buffer meets no line that the last run left in a cache.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Bytes of a cache line, and words.
pub(super) const LINE: usize = 64;
const LINE_WORDS: usize = LINE / 8;
/// Bytes between two readings of the clock, at most.
const WINDOW: usize = if cfg!(debug_assertions) { 64 << 10 } else { 1 << 20 };
/// Bytes from one frame to the next in packet memory.
pub(super) const FRAME: usize = 2048;

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) enum Access {
    /// Every word is read.
    Read,
    /// Every word is written.
    Write,
    /// Every word is read, and written to a second buffer.
    Copy,
    /// A line at a time, in random order, each known only after the one before.
    Chase,
    /// A word of a line is written, at random places.
    Random,
}

impl Access {
    pub(super) fn word(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Copy => "copy",
            Access::Chase => "chase",
            Access::Random => "random",
        }
    }
}

/// Buffers that kernels of several sizes use in turn.
#[derive(Debug)]
pub(super) struct Buffers {
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Buffers {
    /// Two of so many bytes each, all written.
    pub(super) fn new(bytes: usize) -> Buffers {
        let words = (bytes / 8).max(LINE_WORDS);
        Buffers { from: vec![0x5555_5555_5555_5555; words], to: vec![0x3333_3333_3333_3333; words] }
    }
}

/// An access to a buffer, and how far it has come.
#[derive(Debug)]
pub(super) struct Kernel {
    access: Access,
    words: usize,
    at: usize,
}

impl Kernel {
    /// So many bytes of [`Buffers`], at least a line. A chase lays its chain in them.
    pub(super) fn new(access: Access, bytes: usize, buffers: &mut Buffers) -> Kernel {
        let words = (bytes / 8).clamp(LINE_WORDS, buffers.from.len()) / LINE_WORDS * LINE_WORDS;
        if access == Access::Chase {
            lay_chain(&mut buffers.from[..words]);
        }
        Kernel { access, words, at: 0 }
    }

    /// Goes on by a window of the buffer; returns the bytes.
    pub(super) fn step(&mut self, buffers: &mut Buffers) -> usize {
        self.step_lines(buffers, WINDOW / LINE)
    }

    /// Goes on by at most so many lines of the buffer; returns the bytes.
    pub(super) fn step_lines(&mut self, buffers: &mut Buffers, lines: usize) -> usize {
        let words = self.words.min(lines * LINE_WORDS);
        if matches!(self.access, Access::Chase | Access::Random) {
            let lines = words / LINE_WORDS;
            self.at = match self.access {
                Access::Chase => chase(&buffers.from[..self.words], self.at, lines),
                _ => scatter(&mut buffers.to[..self.words], self.at, lines),
            };
            return lines * LINE;
        }
        let range = self.at..(self.at + words).min(self.words);
        let count = range.len();
        match self.access {
            Access::Read => {
                black_box(sum(&buffers.from[range.clone()]));
            }
            Access::Write => fill(&mut buffers.to[range.clone()], self.at as u64),
            Access::Copy => {
                buffers.to[range.clone()].copy_from_slice(&buffers.from[range.clone()]);
                black_box(&mut buffers.to[range.clone()]);
            }
            Access::Chase | Access::Random => {}
        }
        self.at = if range.end == self.words { 0 } else { range.end };
        count * 8
    }

    /// Runs for about so long; returns nanoseconds of processor time for each KiB.
    pub(super) fn run(&mut self, buffers: &mut Buffers, length: Duration) -> f64 {
        let (started, before) = (Instant::now(), cpu_ns());
        let mut bytes = 0;
        while bytes == 0 || started.elapsed() < length {
            bytes += self.step(buffers);
        }
        (cpu_ns() - before) * 1024.0 / bytes as f64
    }
}

/// Nanoseconds of processor time that the calling thread has had.
pub(super) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Eight sums at a time, so that no addition waits for the one before.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; LINE_WORDS];
    for line in words.chunks_exact(LINE_WORDS) {
        for (sum, word) in sums.iter_mut().zip(line) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

fn fill(words: &mut [u64], value: u64) {
    words.fill(black_box(value));
    black_box(words);
}

/// One cycle through all lines in random order (Sattolo's algorithm): the first word of a line is the index of the next one's.
fn lay_chain(words: &mut [u64]) {
    let lines = words.len() / LINE_WORDS;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for i in (1..lines).rev() {
        order.swap(i, random.usize(..i));
    }
    for (i, next) in order.iter().enumerate() {
        words[i * LINE_WORDS] = u64::from(*next) * LINE_WORDS as u64;
    }
}

fn chase(words: &[u64], mut at: usize, steps: usize) -> usize {
    for _ in 0..steps {
        at = words[at] as usize;
    }
    black_box(at)
}

/// Places come from a linear congruential generator, whose state is the position.
fn scatter(words: &mut [u64], mut at: usize, steps: usize) -> usize {
    let lines = words.len() / LINE_WORDS;
    for _ in 0..steps {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(at >> 20) % lines * LINE_WORDS] = at as u64;
    }
    black_box(&mut *words);
    at
}

/// Frames of packet memory that two cores may use at once: the first line of each holds the headers.
#[derive(Clone, Debug)]
pub(super) struct Frames(Arc<[AtomicU64]>);

impl Frames {
    /// So many.
    pub(super) fn new(frames: usize) -> Frames {
        Frames((0..frames.max(1) * FRAME / 8).map(|word| AtomicU64::new(word as u64)).collect())
    }

    /// Swaps the addresses of Ethernet and IP in the first line of each frame, as a reflector does.
    pub(super) fn reflect(&self) {
        for frame in self.0.chunks_exact(FRAME / 8) {
            for (one, other) in [(0, 1), (3, 4)] {
                let (a, b) = (frame[one].load(Ordering::Relaxed), frame[other].load(Ordering::Relaxed));
                frame[one].store(b, Ordering::Relaxed);
                frame[other].store(a, Ordering::Relaxed);
            }
        }
    }

    /// Reads the headers of each frame, as a control plane that inspects them does; for about so long. Nanoseconds of processor
    /// time for each frame.
    pub(super) fn inspect(&self, length: Duration) -> f64 {
        let (started, before) = (Instant::now(), cpu_ns());
        let mut frames = 0;
        while frames == 0 || started.elapsed() < length {
            let all = self.0.chunks_exact(FRAME / 8);
            let sum = all.map(|frame| frame[0].load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
            black_box(sum);
            frames += self.0.len() / (FRAME / 8);
        }
        (cpu_ns() - before) / frames as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_meets_every_line_once() {
        for lines in [1, 2, 64, 1000] {
            let mut words = vec![0; lines * LINE_WORDS];
            lay_chain(&mut words);
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(
                    !std::mem::replace(&mut seen[at / LINE_WORDS], true),
                    "a line is met twice of {lines}"
                );
                at = chase(&words, at, 1);
            }
            assert!(at == 0 && seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn a_kernel_goes_through_its_buffer_and_begins_again() {
        let size = 3 * WINDOW + 2 * LINE;
        let mut buffers = Buffers::new(size);
        for access in [Access::Read, Access::Write, Access::Copy] {
            let mut kernel = Kernel::new(access, size, &mut buffers);
            let moved: Vec<usize> = (0..5).map(|_| kernel.step(&mut buffers)).collect();
            assert_eq!(moved, [WINDOW, WINDOW, WINDOW, 2 * LINE, WINDOW], "{access:?}");
        }
        assert_eq!(buffers.from, buffers.to[..].iter().map(|_| buffers.from[0]).collect::<Vec<_>>());
        for access in [Access::Chase, Access::Random] {
            let mut kernel = Kernel::new(access, size, &mut buffers);
            assert_eq!(kernel.step(&mut buffers), WINDOW);
            assert!(kernel.run(&mut buffers, Duration::ZERO) > 0.0);
        }
    }

    #[test]
    fn sizes_beyond_the_buffers_are_cut() {
        let mut buffers = Buffers::new(4096);
        let mut kernel = Kernel::new(Access::Copy, 1 << 30, &mut buffers);
        assert_eq!(kernel.step(&mut buffers), 4096);
        assert_eq!(Kernel::new(Access::Read, 1, &mut buffers).step(&mut buffers), LINE);
    }

    #[test]
    fn the_sum_is_that_of_all_words() {
        let words: Vec<u64> = (0..800).collect();
        assert_eq!(sum(&words), 799 * 800 / 2);
    }

    #[test]
    fn reflecting_twice_changes_nothing() {
        let frames = Frames::new(3);
        let words = |frames: &Frames| frames.0.iter().map(|w| w.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = words(&frames);
        frames.reflect();
        assert_ne!(words(&frames), before);
        frames.reflect();
        assert_eq!(words(&frames), before);
        assert!(frames.inspect(Duration::ZERO) >= 0.0);
    }
}
