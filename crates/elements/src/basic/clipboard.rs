// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Clipboard
//!
//! `Clipboard(RANGE, ...)`
//!
//! Copies bytes of the packets at input 0, and writes them into the packets at input 1.
//!
//! **Ports:** 2 inputs, 2 outputs, agnostic. Packets leave by the output of their input's number.
//!
//! **Arguments**
//! * `RANGE` `OFFSET/LENGTH`: bytes to copy and to write, each number 0 to 65535; at most 64 ranges.
//!
//! A packet that ends before the last range does passes both inputs unchanged. Until something was copied the bytes are zero.
//!
//! **Drops:** none.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! ```click
//! InfiniteSource(\<0102030405>, LIMIT 5, STOP true) -> [0] c :: Clipboard(0/2, 4/1) [0] -> Discard;
//! Idle -> [1] c [1] -> Discard;
//! ```
//!
//! See also: StoreData, Strip, Unstrip

use element::args::Args;
use element::{Class, Cx, Element, HotSwap, Rehearsal, parse_integer, swap};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Clipboard", "2/2", || Box::new(Clipboard::default()))
    .flow("#/#")
    .serial("packets get what the last packet of all workers left")
    .hot_swap::<Clipboard>()
    .rehearsal::<Clipboard>()
    .file(file!());

#[derive(Clone, Default)]
struct Clipboard {
    /// Offset and length of each range.
    ranges: Vec<(usize, usize)>,
    /// What was copied, range behind range.
    copied: Vec<u8>,
    /// Bytes that a packet must have.
    needed: usize,
}

impl Clipboard {
    fn handle(&mut self, port: usize, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut().filter(|p| p.len() >= self.needed) {
            let mut at = 0;
            for (offset, length) in &self.ranges {
                let (place, kept) = (*offset..offset + length, at..at + length);
                match port {
                    0 => self.copied[kept].copy_from_slice(&packet.data()[place]),
                    _ => packet.data_mut()[place].copy_from_slice(&self.copied[kept]),
                }
                at += length;
            }
        }
        batch
    }
}

impl Element for Clipboard {
    fn configure(&mut self, args: &mut Args<'_>) {
        let small =
            |text: &str| parse_integer(text.trim()).and_then(|n| u16::try_from(n).ok()).map(usize::from);
        for text in args.rest() {
            match text.split_once('/').and_then(|(offset, length)| small(offset).zip(small(length))) {
                Some(range) => self.ranges.push(range),
                None => {
                    args.error(format!("a range is OFFSET/LENGTH, two numbers from 0 to 65535, not '{text}'"))
                }
            }
        }
        if self.ranges.len() > 64 {
            args.error(format!("at most 64 ranges, not {}", self.ranges.len()));
            return;
        }
        self.copied = vec![0; self.ranges.iter().map(|(_, length)| length).sum()];
        self.needed = self.ranges.iter().map(|(offset, length)| offset + length).max().unwrap_or(0);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let batch = self.handle(port, batch);
        cx.push(port, batch);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.handle(port, batch)
    }
}

impl Rehearsal for Clipboard {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl HotSwap for Clipboard {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Clipboard>(old) else { return false };
        if old.ranges == self.ranges {
            self.copied.copy_from_slice(&old.copied);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use crate::testing::Rig;

    #[test]
    fn copies_and_pastes() {
        let text = "i :: TestIn -> [0] e :: Clipboard(0/2, 4/1) [0] -> o0 :: TestOut; j :: TestIn -> [1] e [1] -> o1 :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).inputs(&[b"abcdefg", b"ABCDEFG", b"xyz"]).ready();
            run = run.again();
            assert_eq!(run.bytes("o0"), [&b"abcdefg"[..], b"ABCDEFG", b"xyz"]);
            let packets = [&b"123456"[..], b"1234"].map(|b| Packet::copy_of(b).unwrap());
            run.give("j", packets.into());
            let run = run.again();
            assert_eq!(run.bytes("o1"), [&b"AB34E6"[..], b"1234"]);
        }
    }

    #[test]
    fn works_where_packets_are_pulled() {
        let text = "InfiniteSource(ab, LIMIT 1) -> Queue -> [0] e :: Clipboard(0/1) [0] -> u :: Unqueue -> o0 :: TestOut;
            TimedSource(1, cd, LIMIT 1) -> Queue -> [1] e [1] -> v :: Unqueue -> o1 :: TestOut;";
        let run = Rig::text(text).run();
        assert_eq!((run.bytes("o0"), run.bytes("o1")), (vec![b"ab".to_vec()], vec![b"ad".to_vec()]));
    }

    #[test]
    fn ranges_are_checked() {
        for bad in ["1", "x/2", "70000/1", "1/"] {
            let text =
                format!("Idle -> [0] e :: Clipboard({bad}) [0] -> Discard; Idle -> [1] e [1] -> Discard;");
            let want = format!("e: a range is OFFSET/LENGTH, two numbers from 0 to 65535, not '{bad}'");
            assert_eq!(Rig::text(&text).errors(), [want]);
        }
        let many = vec!["0/65535"; 65].join(", ");
        let text =
            format!("Idle -> [0] e :: Clipboard({many}) [0] -> Discard; Idle -> [1] e [1] -> Discard;");
        assert_eq!(Rig::text(&text).errors(), ["e: at most 64 ranges, not 65"]);
    }
}
