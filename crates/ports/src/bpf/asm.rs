// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing BPF programs that are too long for bare numbers: instructions by name, and jumps to labels
//! (RFC 9669: the instruction set).

use std::os::fd::{AsRawFd, OwnedFd};

use super::{Instruction, instruction};

/// A register. `R1` to `R5` carry arguments and are lost in calls, `R0` is the result, `R6` to `R9` stay, and `R10` is the end of the
/// stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

impl Size {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word => 4,
            Size::Double => 8,
        }
    }
}

/// What is done with two operands of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Left = 0x60,
    Right = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

/// When a jump is taken; comparisons are without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum If {
    Equal = 0x10,
    Greater = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// The second operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg {
    Reg(Reg),
    Const(i32),
}

impl From<Reg> for Arg {
    fn from(reg: Reg) -> Arg {
        Arg::Reg(reg)
    }
}

impl From<i32> for Arg {
    fn from(constant: i32) -> Arg {
        Arg::Const(constant)
    }
}

/// A place in a program, known before it is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// A program in the making.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, dst: Reg, src: u8, offset: i16, constant: i32) {
        self.code.push(instruction(code, dst as u8 | src << 4, offset, constant));
    }

    /// `dst = dst OP arg`, or `dst = arg`.
    pub(crate) fn op(&mut self, op: Op, dst: Reg, arg: impl Into<Arg>) {
        match arg.into() {
            Arg::Reg(src) => self.push(op as u8 | 0x0f, dst, src as u8, 0, 0),
            Arg::Const(constant) => self.push(op as u8 | 0x07, dst, 0, 0, constant),
        }
    }

    /// `dst = arg`.
    pub(crate) fn set(&mut self, dst: Reg, arg: impl Into<Arg>) {
        self.op(Op::Move, dst, arg);
    }

    /// `dst = value`, of all 64 bits.
    pub(crate) fn value(&mut self, dst: Reg, value: u64) {
        self.push(0x18, dst, 0, 0, value as i32);
        self.push(0, Reg::R0, 0, 0, (value >> 32) as i32);
    }

    /// The lower half of `src`, the upper one zero.
    pub(crate) fn low(&mut self, dst: Reg, src: Reg) {
        self.push(0xbc, dst, src as u8, 0, 0);
    }

    /// Puts the lower `bits` into network byte order, the others to zero.
    pub(crate) fn network_order(&mut self, dst: Reg, bits: i32) {
        self.push(0xdc, dst, 0, 0, bits);
    }

    /// `dst = *(from + offset)`.
    pub(crate) fn load(&mut self, size: Size, dst: Reg, (from, offset): (Reg, usize)) {
        self.push(0x61 | size as u8, dst, from as u8, offset as i16, 0);
    }

    /// `*(to + offset) = src`.
    pub(crate) fn store(&mut self, size: Size, (to, offset): (Reg, usize), src: Reg) {
        self.push(0x63 | size as u8, to, src as u8, offset as i16, 0);
    }

    /// Puts a register aside, or takes it back; `slot` counts from 1.
    pub(crate) fn put_aside(&mut self, slot: i16, src: Reg) {
        self.push(0x7b, Reg::R10, src as u8, -8 * slot, 0);
    }

    pub(crate) fn take_back(&mut self, slot: i16, dst: Reg) {
        self.push(0x79, dst, Reg::R10 as u8, -8 * slot, 0);
    }

    /// Address of byte `offset` of the only value of an array map.
    pub(crate) fn value_address(&mut self, dst: Reg, map: &OwnedFd, offset: usize) {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.push(0x18, dst, PSEUDO_MAP_VALUE, 0, map.as_raw_fd());
        self.push(0, Reg::R0, 0, 0, offset as i32);
    }

    /// Copies `len` bytes through `by`.
    pub(crate) fn copy(&mut self, to: (Reg, usize), from: (Reg, usize), len: usize, by: Reg) {
        let mut at = 0;
        for size in [Size::Double, Size::Word, Size::Half, Size::Byte] {
            while len - at >= size.bytes() {
                self.load(size, by, (from.0, from.1 + at));
                self.store(size, (to.0, to.1 + at), by);
                at += size.bytes();
            }
        }
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, Reg::R0, 0, 0, 0);
    }

    /// Jumps if `a` compares so with `b`.
    pub(crate) fn jump_if(&mut self, a: Reg, when: If, b: impl Into<Arg>, to: Label) {
        self.jumps.push((self.code.len(), to));
        match b.into() {
            Arg::Reg(src) => self.push(when as u8 | 0x0d, a, src as u8, 0, 0),
            Arg::Const(constant) => self.push(when as u8 | 0x05, a, 0, 0, constant),
        }
    }

    /// Calls a helper of the kernel by its number.
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(0x85, Reg::R0, 0, 0, helper);
    }

    /// Calls one of the kernel's own functions by its number in the kernel's type information.
    pub(crate) fn call_kernel(&mut self, function: u32) {
        const PSEUDO_KFUNC: u8 = 2;
        self.push(0x85, Reg::R0, PSEUDO_KFUNC, 0, function as i32);
    }

    /// A map, as helpers take it.
    pub(crate) fn map(&mut self, dst: Reg, map: &OwnedFd) {
        const PSEUDO_MAP: u8 = 1;
        self.push(0x18, dst, PSEUDO_MAP, 0, map.as_raw_fd());
        self.push(0, Reg::R0, 0, 0, 0);
    }

    /// Ends the program with what is in R0.
    pub(crate) fn end(&mut self) {
        self.push(0x95, Reg::R0, 0, 0, 0);
    }

    /// Ends the program with this result.
    pub(crate) fn exit(&mut self, result: i32) {
        self.set(Reg::R0, result);
        self.end();
    }

    /// The program, with its jumps filled in.
    ///
    /// # Panics
    /// A label was never placed: that is an error of the program's author.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (from, to) in self.jumps {
            let to = self.labels[to.0].expect("every label is placed");
            self.code[from].offset = (to as isize - from as isize - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_standard() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.jump_if(Reg::R3, If::Greater, Reg::R2, end);
        asm.load(Size::Word, Reg::R2, (Reg::R1, 4));
        asm.store(Size::Half, (Reg::R9, 40), Reg::R5);
        asm.op(Op::Add, Reg::R4, 80);
        asm.op(Op::Mul, Reg::R4, Reg::R1);
        asm.network_order(Reg::R5, 16);
        asm.copy((Reg::R9, 0), (Reg::R4, 8), 14, Reg::R1);
        asm.place(end);
        asm.exit(1);
        let bytes = |i: &Instruction| (i.code, i.registers, i.offset, i.constant);
        let code: Vec<_> = asm.finish().iter().map(bytes).collect();
        let expected = [
            (0x2d, 0x23, 11, 0), // if r3 > r2 goto +11
            (0x61, 0x12, 4, 0),  // r2 = *(u32 *)(r1 + 4)
            (0x6b, 0x59, 40, 0), // *(u16 *)(r9 + 40) = r5
            (0x07, 0x04, 0, 80), // r4 += 80
            (0x2f, 0x14, 0, 0),  // r4 *= r1
            (0xdc, 0x05, 0, 16), // r5 = be16 r5
            (0x79, 0x41, 8, 0),
            (0x7b, 0x19, 0, 0),
            (0x61, 0x41, 16, 0),
            (0x63, 0x19, 8, 0),
            (0x69, 0x41, 20, 0),
            (0x6b, 0x19, 12, 0),
            (0xb7, 0, 0, 1),
            (0x95, 0, 0, 0),
        ];
        assert_eq!(code, expected);
    }
}
