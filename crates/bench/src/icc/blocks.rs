// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks, which carry a router's statistics: what it costs to publish one and to read it, next to a bare copy of as many bytes.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use icc::{BlockReader, BlockWriter, Domain};

use super::pin;
use crate::Error;

/// Bytes of blocks: few statistics, and those of a router with some hundred elements.
pub(super) const SIZES: [usize; 2] = [4096, 65_536];
/// The longest.
pub(super) const LONGEST: u32 = 65_536;

/// Nanoseconds for a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// To copy as many bytes from one buffer to another.
    pub(super) copy: f64,
    /// To publish it while nobody reads.
    pub(super) publish: f64,
    /// To publish it while another core reads every one.
    pub(super) publish_read: f64,
    /// To read it on another core than its writer's.
    pub(super) read: f64,
}

/// A mean.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    times: u64,
    took: Duration,
}

impl Mean {
    fn of<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let done = what();
        self.took += before.elapsed();
        self.times += 1;
        done
    }

    fn ns(self) -> f64 {
        self.took.as_nanos() as f64 / self.times.max(1) as f64
    }
}

/// Measures blocks of so many bytes, published once each `pace`.
pub(super) fn measure(
    domain: &Domain,
    cores: [usize; 2],
    bytes: usize,
    (pace, length): (Duration, Duration),
) -> Result<Block, Error> {
    let node = domain.node(2)?;
    let mut writer = node.block_writer("blocks")?;
    let mut reader = node.block_reader("blocks")?;
    let (done, start) = (AtomicBool::new(false), Barrier::new(2));
    let (done, start) = (&done, &start);
    let panicked = |_| Error::Panicked("a thread of the blocks");
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            pin(cores[0]);
            let copied = copy(bytes);
            let alone = publish(&mut writer, bytes, pace, length);
            start.wait();
            let read = publish(&mut writer, bytes, pace, length);
            done.store(true, Ordering::Relaxed);
            [copied, alone, read]
        });
        let reading = scope.spawn(move || {
            pin(cores[1]);
            start.wait();
            read(&mut reader, done)
        });
        let [copy, publish, publish_read] = writing.join().map_err(panicked)?.map(Mean::ns);
        let read = reading.join().map_err(panicked)?.ns();
        Ok(Block { copy, publish, publish_read, read })
    })
}

/// Copies as many bytes, a hundred times.
fn copy(bytes: usize) -> Mean {
    let (from, mut to, mut mean) = (vec![1u8; bytes], vec![2u8; bytes], Mean::default());
    for _ in 0..100 {
        mean.of(|| to.copy_from_slice(black_box(&from)));
        black_box(&to);
    }
    mean
}

/// Publishes for a while, at least once.
fn publish(writer: &mut BlockWriter, bytes: usize, pace: Duration, length: Duration) -> Mean {
    let (mut block, mut mean, started) = (vec![3u8; bytes], Mean::default(), Instant::now());
    let mut due = started;
    while mean.times == 0 || started.elapsed() < length {
        if Instant::now() < due {
            std::hint::spin_loop();
            continue;
        }
        due += pace;
        block[0] = block[0].wrapping_add(1);
        // It is no longer than the longest.
        let _ = mean.of(|| writer.publish(&block));
    }
    mean
}

/// Reads each block once, until it is done.
fn read(reader: &mut BlockReader, done: &AtomicBool) -> Mean {
    let (mut block, mut mean, mut seen) = (Vec::new(), Mean::default(), 0);
    while !done.load(Ordering::Relaxed) {
        if reader.number().is_ok_and(|number| number != seen)
            && let Ok(number) = mean.of(|| reader.read(&mut block))
        {
            seen = number;
            black_box(&block);
        }
    }
    mean
}
