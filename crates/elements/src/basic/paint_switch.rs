// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PaintSwitch
//!
//! `PaintSwitch([ANNO])`
//!
//! Sends each packet out of the output that its paint numbers; paint 255 goes to all outputs.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Arguments**
//! * `ANNO` the 1-byte annotation to look at, by offset or name; default PAINT.
//!
//! **Metadata read:** paint, or the annotation at ANNO.
//!
//! **Drops:** `no-output`, packets whose paint numbers no output; `no-memory`, copies for which memory did not suffice.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(1) -> s :: PaintSwitch;
//! s[0] -> Discard; s[1] -> Discard;
//! ```
//!
//! See also: Paint, CheckPaint, PaintTee, Switch

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

use crate::tools::{Anno, Splitter};

/// The descriptor.
pub const CLASS: Class = Class::new("PaintSwitch", "1/1-", || Box::new(PaintSwitch::default()))
    .processing("h/h")
    .pure()
    .file(file!());

/// The paint of packets for all outputs.
const ALL: u8 = 255;

#[derive(Default)]
struct PaintSwitch {
    anno: usize,
    splitter: Splitter,
}

impl PaintSwitch {
    fn everywhere(cx: &mut Cx<'_>, mut packet: Packet) {
        cx.made(cx.noutputs() - 1);
        for port in 0..cx.noutputs() - 1 {
            match packet.share() {
                Some(copy) => cx.push_one(port, copy),
                None => cx.count_drops(Reason::NoMemory, 1),
            }
        }
        cx.push_one(cx.noutputs() - 1, packet);
    }
}

impl Element for PaintSwitch {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.anno = args.positional("ANNO", Anno::<1>(anno::PAINT)).0;
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let anno = self.anno;
        if batch.iter().all(|p| p.anno_u8(anno) != ALL) {
            self.splitter.split(cx, batch, |p| usize::from(p.anno_u8(anno)));
            return;
        }
        for packet in batch.drain(..) {
            match packet.anno_u8(anno) {
                ALL => PaintSwitch::everywhere(cx, packet),
                paint => cx.push_one(usize::from(paint), packet),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn painted(paints: &[u8]) -> Vec<Packet> {
        let packet = |paint: &u8| {
            let mut p = Packet::copy_of(&[*paint]).unwrap();
            p.set_paint(*paint);
            p
        };
        paints.iter().map(packet).collect()
    }

    #[test]
    fn the_paint_is_the_output() {
        for burst in [1, 32] {
            let rig = Rig::new("PaintSwitch").outputs(3).burst(burst);
            let run = rig.packets(painted(&[0, 2, 1, 9, 2, 0, 2])).run();
            assert_eq!(run.bytes("o0"), [[0], [0]]);
            assert_eq!((run.bytes("o1"), run.bytes("o2")), (vec![vec![1]], vec![vec![2]; 3]));
            assert_eq!(run.drops("e"), [(Reason::NoOutput, 1)]);
        }
    }

    #[test]
    fn paint_255_goes_everywhere() {
        for burst in [1, 32] {
            let run = Rig::new("PaintSwitch").outputs(2).burst(burst).packets(painted(&[255, 1, 255])).run();
            assert_eq!(run.bytes("o0"), [[255], [255]]);
            assert_eq!(run.bytes("o1"), [[255], [1], [255]]);
        }
    }
}
