// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet filters in the classic BPF instruction set, as `tcpdump -d` prints them.
//!
//! A [`Filter`] is a small program that looks at one packet and accepts it or not. Filters are written as expressions
//! (`tcp port 80`) that a [`Provider`](crate::port::Provider) compiles; a driver whose kernel runs them can keep
//! refused packets from ever being copied, and for all others [`Filter::accepts`] runs them here.
//!
//! The machine has an accumulator A, an index register X and sixteen words of scratch memory. Jumps lead forward
//! only, so a program of n instructions ends after at most n steps; [`Filter::new`] refuses any other.
//!
//! McCanne, Jacobson: The BSD packet filter. USENIX Winter 1993.

/// One instruction, laid out as the kernel and libpcap have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Class, size and mode, or class and operation.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub if_true: u8,
    /// Instructions to skip when it does not.
    pub if_false: u8,
    /// The constant.
    pub k: u32,
}

impl Instruction {
    /// An instruction of these parts.
    pub const fn new(code: u16, if_true: u8, if_false: u8, k: u32) -> Instruction {
        Instruction { code, if_true, if_false, k }
    }
}

/// A program that was found sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

/// Words of scratch memory.
const MEMORY: usize = 16;
/// The kernel's limit.
const MOST_INSTRUCTIONS: usize = 4096;

// Classes, the low three bits of a code.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;

// Of loads: sizes and modes.
const SIZE: u16 = 0x18;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const MODE: u16 = 0xe0;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const MSH: u16 = 0xa0;

/// The operand is X, not the constant. Of returns, [`RETURN_A`] says that it is A.
const BY_X: u16 = 0x08;
const RETURN_A: u16 = 0x10;
/// Copies A to X; without it X to A.
const TXA: u16 = 0x80;

fn class(code: u16) -> u16 {
    code & 7
}

impl Filter {
    /// Takes a program if each of its instructions is known, every jump lands inside it, memory is addressed inside
    /// its bounds, and it ends with a return.
    pub fn new(program: Vec<Instruction>) -> Option<Filter> {
        let len = program.len();
        let ends = program.last().is_some_and(|i| class(i.code) == RET);
        let sound = |(at, i): (usize, &Instruction)| {
            let left = len - 1 - at;
            match class(i.code) {
                LD => match i.code & MODE {
                    IMM | LEN => i.code & SIZE == 0,
                    MEM => i.code & SIZE == 0 && (i.k as usize) < MEMORY,
                    ABS | IND => i.code & SIZE != SIZE,
                    _ => false,
                },
                LDX => match i.code & MODE {
                    IMM | LEN => i.code & SIZE == 0,
                    MEM => i.code & SIZE == 0 && (i.k as usize) < MEMORY,
                    MSH => i.code & SIZE == BYTE,
                    _ => false,
                },
                ST | STX => (i.k as usize) < MEMORY,
                ALU => match i.code & 0xf0 {
                    0x30 | 0x90 => i.code & BY_X != 0 || i.k != 0,
                    op => op <= 0xa0,
                },
                JMP => match i.code & 0xf0 {
                    0x00 => (i.k as usize) < left,
                    op => op <= 0x40 && usize::from(i.if_true.max(i.if_false)) < left,
                },
                _ => true,
            }
        };
        let sound = ends && len <= MOST_INSTRUCTIONS && program.iter().enumerate().all(sound);
        sound.then_some(Filter(program))
    }

    /// The program.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Whether the verdict may depend on the packet's length as such, which is another for frames that a device has
    /// joined or cut.
    pub fn asks_length(&self) -> bool {
        self.0.iter().any(|i| matches!(class(i.code), LD | LDX) && i.code & MODE == LEN)
    }

    /// Whether a packet passes of which `bytes` are at hand, and which was `len` bytes long on the wire.
    pub fn accepts(&self, bytes: &[u8], len: usize) -> bool {
        self.run(bytes, len as u32).unwrap_or(0) != 0
    }

    /// The program's answer; `None` for one that reads past the packet's end or divides by zero, which means refusal.
    fn run(&self, bytes: &[u8], len: u32) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let mut at = 0;
        while let Some(i) = self.0.get(at) {
            at += 1;
            let operand = if i.code & BY_X != 0 { x } else { i.k };
            match class(i.code) {
                LD => {
                    a = match i.code & MODE {
                        IMM => i.k,
                        LEN => len,
                        MEM => memory[i.k as usize],
                        ABS => load(bytes, i.k, i.code & SIZE)?,
                        _ => load(bytes, x.checked_add(i.k)?, i.code & SIZE)?,
                    }
                }
                LDX => {
                    x = match i.code & MODE {
                        IMM => i.k,
                        LEN => len,
                        MEM => memory[i.k as usize],
                        _ => (load(bytes, i.k, BYTE)? & 15) * 4,
                    }
                }
                ST => memory[i.k as usize] = a,
                STX => memory[i.k as usize] = x,
                ALU => a = compute(i.code & 0xf0, a, operand)?,
                JMP => {
                    let jump = |condition| usize::from(if condition { i.if_true } else { i.if_false });
                    at += match i.code & 0xf0 {
                        0x00 => i.k as usize,
                        0x10 => jump(a == operand),
                        0x20 => jump(a > operand),
                        0x30 => jump(a >= operand),
                        _ => jump(a & operand != 0),
                    }
                }
                RET => return Some(if i.code & RETURN_A != 0 { a } else { operand }),
                MISC if i.code & TXA != 0 => a = x,
                _ => x = a,
            }
        }
        None
    }
}

fn load(bytes: &[u8], at: u32, size: u16) -> Option<u32> {
    let rest = bytes.get(at as usize..)?;
    match size {
        BYTE => rest.first().map(|b| u32::from(*b)),
        HALF => rest.first_chunk().map(|b| u32::from(u16::from_be_bytes(*b))),
        _ => rest.first_chunk().map(|b| u32::from_be_bytes(*b)),
    }
}

fn compute(operation: u16, a: u32, by: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(by),
        0x10 => a.wrapping_sub(by),
        0x20 => a.wrapping_mul(by),
        0x30 => a.checked_div(by)?,
        0x40 => a | by,
        0x50 => a & by,
        // A shift by the whole word leaves nothing.
        0x60 => a.checked_shl(by).unwrap_or(0),
        0x70 => a.checked_shr(by).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(by)?,
        _ => a ^ by,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn program(rows: &[(u16, u8, u8, u32)]) -> Vec<Instruction> {
        rows.iter().map(|(code, t, f, k)| Instruction::new(*code, *t, *f, *k)).collect()
    }

    #[test]
    fn runs_what_tcpdump_prints() {
        // tcpdump -dd 'ip and udp dst port 53', from tcpdump 4.99.
        let filter = Filter::new(program(&[
            (0x28, 0, 0, 12),
            (0x15, 0, 8, 0x0800),
            (0x30, 0, 0, 23),
            (0x15, 0, 6, 17),
            (0x28, 0, 0, 20),
            (0x45, 4, 0, 0x1fff),
            (0xb1, 0, 0, 14),
            (0x48, 0, 0, 16),
            (0x15, 0, 1, 53),
            (0x6, 0, 0, 262_144),
            (0x6, 0, 0, 0),
        ]))
        .expect("a sound program");
        let mut frame = [0; 60];
        frame[12] = 8;
        frame[14] = 0x46;
        frame[23] = 17;
        frame[14 + 24 + 3] = 53;
        assert!(filter.accepts(&frame, 60));
        assert!(!filter.accepts(&frame[..40], 60), "cut before the port");
        frame[14] = 0x45;
        assert!(!filter.accepts(&frame, 60), "the port is elsewhere");
        assert!(!filter.asks_length());
    }

    #[test]
    fn computes() {
        // A = k1, X = k2, A = A op X, return A.
        for (operation, a, x, want) in [
            (0x00, u32::MAX, 2, Some(1)),
            (0x10, 1, 2, Some(u32::MAX)),
            (0x20, 1 << 31, 2, Some(0)),
            (0x30, 7, 2, Some(3)),
            (0x30, 7, 0, None),
            (0x40, 5, 2, Some(7)),
            (0x50, 6, 3, Some(2)),
            (0x60, 1, 31, Some(1 << 31)),
            (0x60, 1, 32, Some(0)),
            (0x70, 8, 2, Some(2)),
            (0x80, 1, 0, Some(u32::MAX)),
            (0x90, 7, 4, Some(3)),
            (0x90, 7, 0, None),
            (0xa0, 6, 3, Some(5)),
        ] {
            let rows = [(0x00, 0, 0, a), (0x01, 0, 0, x), (ALU | BY_X | operation, 0, 0, 0), (0x16, 0, 0, 0)];
            let filter = Filter::new(program(&rows)).expect("sound");
            assert_eq!(filter.run(&[], 0), want, "{a} {operation:#x} {x}");
        }
    }

    #[test]
    fn refuses_unsound_programs() {
        for rows in [
            &[][..],
            &[(0x28, 0, 0, 12)],                        // no return
            &[(0x05, 0, 0, 1), (0x06, 0, 0, 0)],        // a jump past the end
            &[(0x15, 0, 1, 0), (0x06, 0, 0, 0)],        // the same
            &[(0x05, 0, 0, u32::MAX), (0x06, 0, 0, 0)], // backwards
            &[(0x60, 0, 0, 16), (0x06, 0, 0, 0)],       // past the memory
            &[(0x02, 0, 0, 16), (0x06, 0, 0, 0)],
            &[(0x34, 0, 0, 0), (0x06, 0, 0, 0)], // division by zero
            &[(0xe0, 0, 0, 0), (0x06, 0, 0, 0)], // unknown
        ] {
            assert_eq!(Filter::new(program(rows)), None, "{rows:?}");
        }
        assert_eq!(Filter::new(program(&[(0x06, 0, 0, 0); MOST_INSTRUCTIONS + 1])), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_sound_ends(
            rows in proptest::collection::vec((0u16..0x100, 0u8..6, 0u8..6, prop_oneof![0u32..40, any::<u32>()]), 0..20),
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut rows = rows;
            rows.push((0x16, 0, 0, 0));
            if let Some(filter) = Filter::new(program(&rows)) {
                filter.accepts(&bytes, bytes.len());
            }
        }
    }
}
