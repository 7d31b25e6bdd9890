// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Work
//!
//! `Work(STEPS [, BYTE_STEPS])`
//!
//! Passes packets unchanged, after it has computed for a while on each: a stand-in for what an application would do with a
//! packet, for experiments. A step is a multiplication and an exclusive or, each of which waits for the one before, so that a step
//! takes about 4 cycles of any recent processor; nothing is read or written but the packet's own bytes.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `STEPS` steps for each packet, at most 200000000.
//! * `BYTE_STEPS` steps more for each of its bytes, as encryption would take, at most 100000; default 0.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `steps` read/write: STEPS. `byte_steps` read/write: BYTE_STEPS.
//! * `digest` read: what the work on all packets gave, added up: the same for the same packets, on any number of workers.
//!
//! **Cores:** each worker computes on its own packets.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> Work(500, BYTE_STEPS 2) -> Discard;
//! ```
//!
//! See also: Null, SetCRC32, RandomBitErrors

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, Rehearsal, carries, handlers};
use packet::Batch;

use crate::tools::number_in;

/// The descriptor.
pub const CLASS: Class = Class::new("Work", "1/1", || Box::new(Work::default()))
    .handlers(handlers! { Work:
        both "steps" => .steps |work, text: &str| work.steps = number_in("steps", text, 0..=MAX_STEPS)?;
        both "byte_steps" => .byte_steps
            |work, text: &str| work.byte_steps = number_in("byte_steps", text, 0..=MAX_BYTE_STEPS)?;
        sum "digest" => .digest;
    })
    .forwards()
    .hot_swap::<Work>()
    .rehearsal::<Work>()
    .file(file!());

/// A multiplier whose powers do not repeat soon (Steele and Vigna, "Computationally easy, spectrally good multipliers", 2022).
const MULTIPLIER: u64 = 0xd134_2543_de82_ef95;

/// A third of a second for each packet.
const MAX_STEPS: u32 = 200_000_000;
const MAX_BYTE_STEPS: u32 = 100_000;

#[derive(Clone, Default)]
struct Work {
    steps: u32,
    byte_steps: u32,
    digest: Count,
}

/// The work on one packet. Steps take turns with its bytes, and each depends on the one before.
fn work(bytes: &[u8], steps: u64) -> u64 {
    let mut state = bytes.len() as u64;
    let mut rest = bytes;
    for _ in 0..steps {
        let (byte, others) = rest.split_first().map_or((0, bytes), |(byte, others)| (*byte, others));
        rest = others;
        state = (state ^ u64::from(byte)).wrapping_mul(MULTIPLIER);
    }
    state
}

impl Element for Work {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.steps = args.required_in("STEPS", 0..=MAX_STEPS);
        self.byte_steps = args.positional_in("BYTE_STEPS", 0, 0..=MAX_BYTE_STEPS);
    }

    fn process(&mut self, _: &mut Cx<'_>, batch: Batch) -> Batch {
        for packet in batch.iter() {
            let steps = u64::from(self.steps) + u64::from(self.byte_steps) * packet.len() as u64;
            self.digest += work(packet.data(), steps) >> 40;
        }
        batch
    }
}

impl Rehearsal for Work {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Work: digest; anew steps, byte_steps);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn packets_pass_unchanged_and_the_work_is_done() {
        for (config, steps) in [("Work(0)", [0, 0, 0]), ("Work(7)", [7, 7, 7]), ("Work(7, 2)", [13, 7, 9])] {
            let packets: [&[u8]; 3] = [b"abc", b"", b"x"];
            let want: u64 = packets.iter().zip(steps).map(|(p, s)| slow(p, s) >> 40).sum();
            for burst in [1, 32] {
                let mut run = Rig::new(config).burst(burst).inputs(&packets).run();
                assert_eq!(run.bytes("o0"), packets);
                assert_eq!(run.read("e.digest"), want.to_string(), "{config}");
            }
        }
    }

    /// The definition, byte by byte of an endless repetition.
    fn slow(bytes: &[u8], steps: u64) -> u64 {
        let at = |i: u64| bytes.get((i % (bytes.len() as u64 + 1)) as usize).copied().unwrap_or(0);
        (0..steps).fold(bytes.len() as u64, |s, i| (s ^ u64::from(at(i))).wrapping_mul(MULTIPLIER))
    }
}
