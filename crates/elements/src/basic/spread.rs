// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RoundRobinSwitch, RandomSwitch, HashSwitch
//!
//! `RoundRobinSwitch`, `RandomSwitch`, `HashSwitch(OFFSET, LENGTH)`
//!
//! Spread packets over their outputs: in turn, at random, or by a hash of some of their bytes.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Arguments** (of HashSwitch)
//! * `OFFSET` first byte that is hashed.
//! * `LENGTH` bytes that are hashed, at least 1.
//!
//! **Drops:** none.
//!
//! **Cores:** all workers take one turn (RoundRobinSwitch), so packets meet a lock where several workers push; the others choose
//! on each worker by itself and cost nothing.
//!
//! The hash is the sum of the bytes modulo the number of outputs; where that number is 2, 4 or 8 the sum is first
//! folded on itself by four bits. Packets too short for it go to output 0.
//!
//! ```click
//! InfiniteSource(LIMIT 6, STOP true) -> s :: RoundRobinSwitch;
//! s[0] -> h :: HashSwitch(0, 4); s[1] -> r :: RandomSwitch;
//! h[0] -> Discard; h[1] -> Discard; r[0] -> Discard; r[1] -> Discard;
//! ```
//!
//! See also: Switch, StrideSwitch, PaintSwitch, RoundRobinSched

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, Packet};

use crate::tools::Splitter;

/// The descriptor of the switch that takes turns.
pub const ROUND_ROBIN: Class = Class::new("RoundRobinSwitch", "1/1-", || Box::new(RoundRobin::default()))
    .processing("h/h")
    .serial("packets take turns in one order")
    .file(file!());
/// The descriptor of the random switch.
pub const RANDOM: Class =
    Class::new("RandomSwitch", "1/1-", || Box::new(Random::default())).processing("h/h").file(file!());
/// The descriptor of the hashing switch.
pub const HASH: Class =
    Class::new("HashSwitch", "1/1-", || Box::new(Hash::default())).processing("h/h").file(file!());

#[derive(Default)]
struct RoundRobin {
    next: usize,
    splitter: Splitter,
}

impl Element for RoundRobin {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let n = cx.noutputs();
        let next = &mut self.next;
        self.splitter.split(cx, batch, |_| {
            let port = *next;
            *next = if port + 1 == n { 0 } else { port + 1 };
            port
        });
    }
}

#[derive(Default)]
struct Random {
    splitter: Splitter,
}

impl Element for Random {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let n = cx.noutputs();
        let mut random = cx.random().fork();
        self.splitter.split(cx, batch, |_| random.usize(..n));
    }
}

#[derive(Default)]
struct Hash {
    offset: usize,
    length: usize,
    splitter: Splitter,
}

#[inline]
fn hash(packet: &Packet, (offset, length): (usize, usize), n: usize) -> usize {
    let Some(bytes) = packet.data().get(offset..).and_then(|b| b.get(..length)) else { return 0 };
    let sum: usize = bytes.iter().map(|b| usize::from(*b)).sum();
    if matches!(n, 2 | 4 | 8) { (sum ^ (sum >> 4)) & (n - 1) } else { sum % n }
}

impl Element for Hash {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.required("OFFSET");
        let errors = args.errors().len();
        self.length = args.required("LENGTH");
        if self.length == 0 && args.errors().len() == errors {
            args.error("LENGTH must be at least 1");
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let (n, field) = (cx.noutputs(), (self.offset, self.length));
        self.splitter.split(cx, batch, |p| hash(p, field, n));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const INPUTS: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"];

    #[test]
    fn turns_are_even_and_in_order() {
        for burst in [1, 32] {
            let run = Rig::new("RoundRobinSwitch").outputs(3).burst(burst).inputs(&INPUTS).run();
            assert_eq!(
                (run.bytes("o0"), run.bytes("o1").concat()),
                (vec![b"a".to_vec(), b"d".to_vec(), b"g".to_vec()], b"be".to_vec())
            );
            assert_eq!(run.bytes("o2").concat(), b"cf");
        }
    }

    #[test]
    fn chance_is_fair() {
        for burst in [1, 32] {
            let text = "InfiniteSource(LIMIT 3000) -> e :: RandomSwitch; e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;";
            let run = Rig::text(text).burst(burst).run();
            let counts = ["o0", "o1", "o2"].map(|o| run.out(o).len());
            assert_eq!(counts.iter().sum::<usize>(), 3000);
            // Binomial: mean 1000, standard deviation 26.
            assert!(counts.iter().all(|n| (870..1130).contains(n)), "{counts:?}");
        }
    }

    #[test]
    fn hashes_as_click_does() {
        let inputs: [&[u8]; 5] = [&[0, 0x10, 0x01], &[0, 0x20, 0x01], &[9], &[0, 1, 2], &[0, 3, 2]];
        for burst in [1, 32] {
            let run = Rig::new("HashSwitch(1, 2)").outputs(2).burst(burst).inputs(&inputs).run();
            assert_eq!(run.bytes("o0"), [inputs[0], inputs[2]]);
            assert_eq!(run.bytes("o1"), [inputs[1], inputs[3], inputs[4]]);
            let run = Rig::new("HashSwitch(1, 2)").outputs(3).burst(burst).inputs(&inputs).run();
            assert_eq!(
                (run.bytes("o0"), run.bytes("o2")),
                (
                    vec![inputs[1].to_vec(), inputs[2].to_vec(), inputs[3].to_vec()],
                    vec![inputs[0].to_vec(), inputs[4].to_vec()]
                )
            );
        }
        assert_eq!(Rig::new("HashSwitch(0, 0)").errors(), ["e: LENGTH must be at least 1"]);
    }
}
