// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of a [`Stream`](super::stream::Stream), and the memory that it shares with this process.
//!
//! It is run once for each frame that the kernel takes from its pool. If the next frame of the schedule is due, the program writes it over what lies
//! there and says *send*. Otherwise it says *drop*, and the kernel puts the frame back and comes again. So the kernel waits without a system call,
//! reading the clock at each turn.
//!
//! All its state lies in one value of an array map ([`State`]). Only the thread that runs the program writes there once it has been
//! let go, so plain additions do.

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

use crate::bpf::Instruction;
use crate::bpf::asm::{Assembler, If, Label, Op, Reg, Reg::*, Size};

/// Rates that a schedule has at most, one after the other.
pub(super) const PARTS_MAX: usize = 64;
/// Counters of the histogram of lateness.
pub(super) const BUCKETS: usize = 2048;
/// What is later counts as this late: 137 s.
const LATEST_NS: u64 = (1 << 37) - 1;
/// Of each power of two, so many counters.
const PER_OCTAVE: u32 = 64;
/// The signature's bytes.
pub(super) const SIGNATURE: usize = 18;
/// Up to here, copying is a few loads and stores, which a call would only delay.
const COPY_MAX: usize = 96;

/// Part of a schedule: its first frame's time and the time between two, in nanoseconds and in 2^-32 of them, and the number after its
/// last frame.
#[repr(C)]
pub(super) struct PartCell {
    pub(super) start_ns: AtomicU64,
    pub(super) interval_ns: AtomicU64,
    pub(super) interval_fraction: AtomicU64,
    pub(super) end: AtomicU64,
}

/// What the program and this process share.
#[repr(C)]
pub(super) struct State {
    /// Nothing is sent while this is 0.
    pub(super) go: AtomicU64,
    /// How often the program has run.
    pub(super) beat: AtomicU64,
    /// Number of the next frame: how many were sent.
    pub(super) next: AtomicU64,
    /// Its flow, its place there, and where the pattern of sizes stands.
    pub(super) flow: AtomicU64,
    pub(super) sequence: AtomicU64,
    pub(super) place: AtomicU64,
    /// When it is due, in nanoseconds since `origin_ns`.
    pub(super) due_ns: AtomicU64,
    /// The same without regard to bursts.
    pub(super) steady_ns: AtomicU64,
    pub(super) steady_fraction: AtomicU64,
    pub(super) burst: AtomicU64,
    /// Frames of the burst that are left.
    pub(super) left: AtomicU64,
    /// The part that is being sent.
    pub(super) part: AtomicU64,
    pub(super) now: PartCell,
    pub(super) parts: AtomicU64,
    /// On the kernel's monotonic clock.
    pub(super) origin_ns: AtomicU64,
    pub(super) key: [AtomicU64; 2],
    pub(super) schedule: [PartCell; PARTS_MAX],
    pub(super) lateness: [AtomicU64; BUCKETS],
}

/// The greatest lateness that a counter stands for, in nanoseconds.
pub(super) fn bucket_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / u64::from(PER_OCTAVE)).saturating_sub(1);
    ((bucket - shift * u64::from(PER_OCTAVE) + 1) << shift) - 1
}

/// A frame's beginning, and what is known beforehand of its end.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Row {
    /// All before the UDP checksum.
    pub(super) head: [u8; 64],
    /// The upper half of the signature's first word.
    pub(super) flow: u64,
    /// What the checksum sums up apart from sequence number, departure and check.
    pub(super) sum: u64,
    /// Bytes that it lacks of the longest, and bytes behind its signature.
    pub(super) cut: u64,
    pub(super) rest: u64,
}

/// What a program is written for.
pub(super) struct Layout {
    /// Where the UDP checksum stands in each frame; the signature follows.
    pub(super) checksum_at: usize,
    pub(super) shortest: usize,
    pub(super) longest: usize,
    pub(super) flows: usize,
    /// Each flow has so many rows, one for each size.
    pub(super) sizes: usize,
    /// Sizes come in a pattern of so many.
    pub(super) pattern: usize,
}

impl Layout {
    /// Bytes behind the longest frame's signature.
    pub(super) fn rest(&self) -> usize {
        self.longest - self.shortest_possible()
    }

    fn shortest_possible(&self) -> usize {
        self.checksum_at + 2 + SIGNATURE
    }

    /// Where the rows begin in the memory of frames: it holds the longest rest, rows by flow and size, and the pattern.
    pub(super) fn rows_at(&self) -> usize {
        self.rest().next_multiple_of(8)
    }

    pub(super) fn pattern_at(&self) -> usize {
        self.rows_at() + self.flows * self.sizes * size_of::<Row>()
    }

    pub(super) fn memory(&self) -> usize {
        self.pattern_at() + 8 * self.pattern
    }
}

const CONTEXT: Reg = R6;
const STATE: Reg = R7;
const NOW: Reg = R8;

macro_rules! state {
    ($($field:tt)+) => { (STATE, offset_of!(State, $($field)+)) };
}

macro_rules! row {
    ($field:ident) => {
        (R9, offset_of!(Row, $field))
    };
}

/// Writes the program. `frames` holds what [`Layout::rows_at`] says.
pub(super) fn write(layout: &Layout, state: &OwnedFd, frames: &OwnedFd) -> Vec<Instruction> {
    const XDP_DROP: i32 = 1;
    const XDP_TX: i32 = 3;
    const KTIME: i32 = 5;
    let mut asm = Assembler::default();
    let (drop, ready) = (asm.label(), asm.label());
    asm.set(CONTEXT, R1);
    asm.value_address(STATE, state, 0);
    count_up(&mut asm, state!(beat), R1, 1);
    asm.load(Size::Double, R1, state!(go));
    asm.jump_if(R1, If::Equal, 0, drop);
    asm.load(Size::Double, R1, state!(next));
    asm.load(Size::Double, R2, state!(now.end));
    asm.jump_if(R1, If::Less, R2, ready);
    next_part(&mut asm, drop);
    asm.place(ready);
    asm.call(KTIME);
    asm.set(NOW, R0);
    asm.load(Size::Double, R1, state!(origin_ns));
    asm.op(Op::Sub, NOW, R1);
    asm.load(Size::Double, R1, state!(due_ns));
    asm.jump_if(R1, If::Greater, NOW, drop);
    choose_row(&mut asm, layout, frames, drop);
    note_lateness(&mut asm);
    frame(&mut asm, layout);
    rest(&mut asm, layout, frames, drop);
    advance(&mut asm, layout);
    asm.exit(XDP_TX);
    asm.place(drop);
    asm.exit(XDP_DROP);
    asm.finish()
}

/// `*cell += by`, which is left in `reg`.
fn count_up(asm: &mut Assembler, cell: (Reg, usize), reg: Reg, by: i32) {
    asm.load(Size::Double, reg, cell);
    asm.op(Op::Add, reg, by);
    asm.store(Size::Double, cell, reg);
}

/// Turns to the next part of the schedule, whose first frame is looked at in the next run.
fn next_part(asm: &mut Assembler, drop: Label) {
    asm.load(Size::Double, R1, state!(part));
    asm.op(Op::Add, R1, 1);
    asm.load(Size::Double, R2, state!(parts));
    asm.jump_if(R1, If::AtLeast, R2, drop);
    asm.jump_if(R1, If::AtLeast, PARTS_MAX as i32, drop);
    asm.store(Size::Double, state!(part), R1);
    asm.op(Op::Mul, R1, size_of::<PartCell>() as i32);
    asm.op(Op::Add, R1, STATE);
    let (from, to) = ((R1, offset_of!(State, schedule)), state!(now));
    asm.copy(to, from, size_of::<PartCell>(), R2);
    asm.load(Size::Double, R2, state!(now.start_ns));
    asm.store(Size::Double, state!(due_ns), R2);
    asm.store(Size::Double, state!(steady_ns), R2);
    asm.set(R2, 0);
    asm.store(Size::Double, state!(steady_fraction), R2);
    asm.load(Size::Double, R2, state!(burst));
    asm.store(Size::Double, state!(left), R2);
    asm.jump(drop);
}

/// R9 becomes the next frame's row, R4 the packet, of which all up to the signature's end may be written.
fn choose_row(asm: &mut Assembler, layout: &Layout, frames: &OwnedFd, drop: Label) {
    const ADJUST_TAIL: i32 = 65;
    asm.load(Size::Double, R1, state!(flow));
    asm.jump_if(R1, If::AtLeast, layout.flows as i32, drop);
    if layout.sizes > 1 {
        asm.load(Size::Double, R2, state!(place));
        asm.jump_if(R2, If::AtLeast, layout.pattern as i32, drop);
        asm.op(Op::Left, R2, 3);
        asm.value_address(R3, frames, layout.pattern_at());
        asm.op(Op::Add, R3, R2);
        asm.load(Size::Double, R2, (R3, 0));
        asm.jump_if(R2, If::AtLeast, layout.sizes as i32, drop);
        asm.op(Op::Mul, R1, layout.sizes as i32);
        asm.op(Op::Add, R1, R2);
    }
    asm.op(Op::Mul, R1, size_of::<Row>() as i32);
    asm.value_address(R9, frames, layout.rows_at());
    asm.op(Op::Add, R9, R1);
    if layout.sizes > 1 {
        asm.set(R1, CONTEXT);
        asm.load(Size::Double, R3, row!(cut));
        asm.set(R2, 0);
        asm.op(Op::Sub, R2, R3);
        asm.call(ADJUST_TAIL);
        asm.jump_if(R0, If::NotEqual, 0, drop);
    }
    // struct xdp_md begins with data and data_end.
    asm.load(Size::Word, R4, (CONTEXT, 0));
    asm.load(Size::Word, R2, (CONTEXT, 4));
    asm.set(R3, R4);
    asm.op(Op::Add, R3, layout.shortest as i32);
    asm.jump_if(R3, If::Greater, R2, drop);
}

/// Counts how late the frame is that was due at R1.
fn note_lateness(asm: &mut Assembler) {
    asm.load(Size::Double, R1, state!(due_ns));
    asm.set(R0, NOW);
    asm.op(Op::Sub, R0, R1);
    let within = asm.label();
    asm.value(R2, LATEST_NS);
    asm.jump_if(R0, If::Less, R2, within);
    asm.set(R0, R2);
    asm.place(within);
    // The seven highest bits, from a one on, and by how much they were shifted: R0 becomes the counter's number.
    asm.set(R1, 0);
    for shift in [16, 8, 4, 2, 1] {
        let fits = asm.label();
        asm.jump_if(R0, If::Less, 1 << (6 + shift), fits);
        asm.op(Op::Right, R0, shift);
        asm.op(Op::Add, R1, shift * PER_OCTAVE as i32);
        asm.place(fits);
    }
    asm.op(Op::Add, R0, R1);
    asm.op(Op::And, R0, BUCKETS as i32 - 1);
    asm.op(Op::Left, R0, 3);
    asm.op(Op::Add, R0, STATE);
    count_up(asm, (R0, offset_of!(State, lateness)), R1, 1);
}

/// Writes a frame up to its signature's end.
///
/// The check is the product of the first word and the departure, each mixed with its key, both halves of the product folded. The
/// machine has no product of 128 bits: it is put together of four of 64, as by hand. Sums of 16-bit words may be taken of
/// larger words and folded at the end, since 2^16 is 1 modulo 2^16 - 1 (RFC 1071, 2).
fn frame(asm: &mut Assembler, layout: &Layout) {
    let checksum_at = layout.checksum_at;
    asm.copy((R4, 0), row!(head), checksum_at, R1);
    asm.load(Size::Double, R1, row!(flow));
    asm.load(Size::Double, R5, row!(sum));
    asm.load(Size::Double, R3, row!(rest));
    asm.put_aside(2, R3);
    asm.set(R9, R4);
    asm.load(Size::Double, R2, state!(sequence));
    asm.op(Op::Or, R1, R2);
    asm.op(Op::Add, R5, R2);
    // Departures are counted modulo 2^48.
    asm.op(Op::Left, NOW, 16);
    asm.op(Op::Right, NOW, 16);
    asm.op(Op::Add, R5, NOW);
    asm.put_aside(1, R5);
    asm.set(R0, R1);
    asm.network_order(R0, 64);
    asm.store(Size::Double, (R9, checksum_at + 2), R0);
    asm.load(Size::Double, R0, state!(key));
    asm.op(Op::Xor, R1, R0);
    asm.load(Size::Double, R2, (STATE, offset_of!(State, key) + 8));
    asm.op(Op::Xor, R2, NOW);
    fold_product(asm);
    asm.take_back(1, R5);
    asm.op(Op::Add, R5, R0);
    asm.set(R1, NOW);
    asm.op(Op::Left, R1, 16);
    asm.set(R2, R0);
    asm.op(Op::Right, R2, 16);
    asm.op(Op::Or, R1, R2);
    asm.network_order(R1, 64);
    asm.store(Size::Double, (R9, checksum_at + 10), R1);
    asm.network_order(R0, 16);
    asm.store(Size::Half, (R9, checksum_at + 18), R0);
    asm.set(R1, R5);
    asm.op(Op::Right, R1, 32);
    asm.low(R5, R5);
    asm.op(Op::Add, R5, R1);
    for _ in 0..3 {
        asm.set(R1, R5);
        asm.op(Op::Right, R1, 16);
        asm.op(Op::And, R5, 0xffff);
        asm.op(Op::Add, R5, R1);
    }
    asm.op(Op::Xor, R5, 0xffff);
    // Zero would mean that there is none (RFC 768).
    let some = asm.label();
    asm.jump_if(R5, If::NotEqual, 0, some);
    asm.set(R5, 0xffff);
    asm.place(some);
    asm.network_order(R5, 16);
    asm.store(Size::Half, (R9, checksum_at), R5);
}

/// R0 becomes the lower 32 bits of both halves of R1 times R2, folded.
fn fold_product(asm: &mut Assembler) {
    asm.low(R3, R1);
    asm.op(Op::Right, R1, 32);
    asm.low(R4, R2);
    asm.op(Op::Right, R2, 32);
    // Low times low, low times high, high times low, high times high.
    asm.set(R0, R3);
    asm.op(Op::Mul, R0, R4);
    asm.op(Op::Mul, R3, R2);
    asm.op(Op::Mul, R4, R1);
    asm.op(Op::Mul, R1, R2);
    // What carries into the upper half, and the upper half, in R1.
    asm.set(R2, R0);
    asm.op(Op::Right, R2, 32);
    asm.low(R5, R3);
    asm.op(Op::Add, R2, R5);
    asm.low(R5, R4);
    asm.op(Op::Add, R2, R5);
    asm.op(Op::Right, R2, 32);
    asm.op(Op::Right, R3, 32);
    asm.op(Op::Right, R4, 32);
    asm.op(Op::Add, R1, R2);
    asm.op(Op::Add, R1, R3);
    asm.op(Op::Add, R1, R4);
    asm.op(Op::Xor, R0, R1);
    asm.low(R0, R0);
}

/// Writes what follows the signature: an earlier holder of the frame may have changed it.
fn rest(asm: &mut Assembler, layout: &Layout, frames: &OwnedFd, drop: Label) {
    const STORE_BYTES: i32 = 190;
    let (at, len) = (layout.shortest_possible(), layout.rest());
    if len == 0 {
        return;
    }
    if layout.sizes == 1 && len <= COPY_MAX {
        asm.value_address(R2, frames, 0);
        asm.copy((R9, at), (R2, 0), len, R1);
        return;
    }
    let none = asm.label();
    asm.take_back(2, R4);
    asm.jump_if(R4, If::Equal, 0, none);
    asm.jump_if(R4, If::Greater, len as i32, drop);
    asm.set(R1, CONTEXT);
    asm.set(R2, at as i32);
    asm.value_address(R3, frames, 0);
    asm.call(STORE_BYTES);
    asm.place(none);
}

/// The frame has gone: which is next, and when it is due.
fn advance(asm: &mut Assembler, layout: &Layout) {
    count_up(asm, state!(next), R1, 1);
    count_up(asm, state!(flow), R1, 1);
    let same = asm.label();
    asm.jump_if(R1, If::Less, layout.flows as i32, same);
    asm.set(R1, 0);
    asm.store(Size::Double, state!(flow), R1);
    count_up(asm, state!(sequence), R1, 1);
    asm.place(same);
    if layout.sizes > 1 {
        let within = asm.label();
        count_up(asm, state!(place), R1, 1);
        asm.jump_if(R1, If::Less, layout.pattern as i32, within);
        asm.set(R1, 0);
        asm.store(Size::Double, state!(place), R1);
        asm.place(within);
    }
    asm.load(Size::Double, R1, state!(steady_fraction));
    asm.load(Size::Double, R2, state!(now.interval_fraction));
    asm.op(Op::Add, R1, R2);
    asm.load(Size::Double, R2, state!(steady_ns));
    asm.load(Size::Double, R3, state!(now.interval_ns));
    asm.op(Op::Add, R2, R3);
    asm.set(R3, R1);
    asm.op(Op::Right, R3, 32);
    asm.op(Op::Add, R2, R3);
    asm.low(R1, R1);
    asm.store(Size::Double, state!(steady_fraction), R1);
    asm.store(Size::Double, state!(steady_ns), R2);
    let together = asm.label();
    count_up(asm, state!(left), R1, -1);
    asm.jump_if(R1, If::NotEqual, 0, together);
    asm.store(Size::Double, state!(due_ns), R2);
    asm.load(Size::Double, R1, state!(burst));
    asm.store(Size::Double, state!(left), R1);
    asm.place(together);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        let mut before = None;
        for bucket in 0..BUCKETS {
            let top = bucket_ns(bucket);
            assert!(before.is_none_or(|before| top > before), "{bucket}");
            // Within two percent of what they stand for.
            let width = top - before.map_or(0, |before: u64| before + 1);
            assert!(width == 0 || width * 64 <= top, "{bucket}: {width} of {top}");
            before = Some(top);
        }
        assert_eq!(before, Some(LATEST_NS));
    }
}
