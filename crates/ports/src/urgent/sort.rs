// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which frames are urgent: programs that the kernel runs.
//!
//! Urgent are UDP packets over IPv4 or IPv6 to port 3784 with TTL 255, to port 3785 with TTL 254 or 255, and to port 4784. Packets from afar cannot have those
//! TTLs (RFC 5082), so they cannot fill the ring of urgent packets. Fragments are not urgent, and the last fragment's TTL says nothing of port 4784.
//!
//! A packet socket runs the classic program, which sees a frame without its outermost VLAN tag. The hooks for XDP and traffic control run the other one, which
//! leaves out one tag. Both sort alike.

use std::io;
use std::os::fd::OwnedFd;

use wire::bfd::{PORT_ECHO, PORT_MULTI_HOP, PORT_SINGLE_HOP};

use crate::bpf;
use crate::bpf::asm::{Assembler, If, Label, Op, Reg, Size};
use crate::expression::WHOLE;
use crate::opener::{self, Call};

const UDP: u8 = 17;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Offset and the bit that says that more fragments follow.
const FRAGMENT: u16 = 0x3fff;
/// Bytes of the shortest frames with a UDP port over IPv4 and IPv6.
const LEAST4: usize = 38;
const LEAST6: usize = 58;
/// TTLs (RFC 5881 section 5): that of control packets, and the least one of echo packets, which a router may have sent back.
const TTL: u8 = 255;
const TTL_ECHO: u8 = 254;

/// Which packets a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Urgent,
    Rest,
}

/// A line of the classic program that jumps lead to, or the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Next,
    Six,
    Port,
    Single,
    Echo,
    Rest,
    Urgent,
}

/// The classic BPF program by which a packet socket receives its part of the Ethernet frames.
pub(crate) fn program(part: Part) -> Vec<libc::sock_filter> {
    use To::{Echo, Next, Port, Rest, Single, Six, Urgent};
    const LOAD_LEN: u16 = 0x80;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_TTL: u16 = 0x60;
    const STORE_TTL: u16 = 0x02;
    const HEADER_LEN_TO_X: u16 = 0xb1;
    const LOAD_HALF_BEHIND: u16 = 0x48;
    const X_TO_A: u16 = 0x87;
    const A_TO_X: u16 = 0x07;
    const ADD: u16 = 0x04;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const IF_AT_LEAST_X: u16 = 0x3d;
    const IF_ANY: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const RETURN: u16 = 0x06;
    let (urgent, rest) = if part == Part::Urgent { (WHOLE, 0) } else { (0, WHOLE) };
    // Place, code, constant, and where to go on if the condition holds and if not. A load behind the end would refuse a frame, so lengths come first.
    let lines: [(To, u16, u32, To, To); 35] = [
        (Next, LOAD_LEN, 0, Next, Next),
        (Next, IF_AT_LEAST, LEAST4 as u32, Next, Rest),
        (Next, LOAD_HALF, 12, Next, Next),
        (Next, IF_EQUAL, IPV4.into(), Next, Six),
        (Next, LOAD_BYTE, 23, Next, Next),
        (Next, IF_EQUAL, UDP.into(), Next, Rest),
        (Next, LOAD_HALF, 20, Next, Next),
        (Next, IF_ANY, FRAGMENT.into(), Rest, Next),
        (Next, HEADER_LEN_TO_X, 14, Next, Next),
        (Next, X_TO_A, 0, Next, Next),
        (Next, ADD, 18, Next, Next),
        (Next, A_TO_X, 0, Next, Next),
        (Next, LOAD_LEN, 0, Next, Next),
        (Next, IF_AT_LEAST_X, 0, Next, Rest),
        (Next, LOAD_BYTE, 22, Next, Next),
        (Next, STORE_TTL, 0, Next, Next),
        (Next, HEADER_LEN_TO_X, 14, Next, Next),
        (Next, LOAD_HALF_BEHIND, 16, Next, Next),
        (Next, JUMP, 0, Port, Next),
        (Six, IF_EQUAL, IPV6.into(), Next, Rest),
        (Next, LOAD_LEN, 0, Next, Next),
        (Next, IF_AT_LEAST, LEAST6 as u32, Next, Rest),
        (Next, LOAD_BYTE, 20, Next, Next),
        (Next, IF_EQUAL, UDP.into(), Next, Rest),
        (Next, LOAD_BYTE, 21, Next, Next),
        (Next, STORE_TTL, 0, Next, Next),
        (Next, LOAD_HALF, 56, Next, Next),
        (Port, IF_EQUAL, PORT_MULTI_HOP.into(), Urgent, Next),
        (Next, IF_EQUAL, PORT_SINGLE_HOP.into(), Single, Next),
        (Next, IF_EQUAL, PORT_ECHO.into(), Echo, Rest),
        (Single, LOAD_TTL, 0, Next, Next),
        (Next, IF_EQUAL, TTL.into(), Urgent, Rest),
        (Echo, LOAD_TTL, 0, Next, Next),
        (Next, IF_AT_LEAST, TTL_ECHO.into(), Urgent, Rest),
        (Rest, RETURN, rest, Next, Next),
    ];
    let skip = |from: usize, to: To| match to {
        Next => 0,
        Urgent => lines.len() - from - 1,
        to => lines.iter().position(|line| line.0 == to).map_or(0, |at| at - from - 1),
    };
    let resolved = lines.iter().enumerate().map(|(at, (_, code, k, then, otherwise))| match *code {
        JUMP => libc::sock_filter { code: JUMP, jt: 0, jf: 0, k: skip(at, *then) as u32 },
        code => libc::sock_filter { code, jt: skip(at, *then) as u8, jf: skip(at, *otherwise) as u8, k: *k },
    });
    let last = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: urgent };
    resolved.chain([last]).collect()
}

/// Part of an XDP program whose context is in R6: lets the kernel have urgent packets, which a packet socket then receives.
pub(crate) fn pass(asm: &mut Assembler) {
    const XDP_PASS: i32 = 2;
    let rest = asm.label();
    sort(asm, Frame::Direct, rest);
    asm.exit(XDP_PASS);
    asm.place(rest);
}

/// Keeps the kernel's own protocols from the urgent packets that the interface receives, until the result is dropped. Packet sockets come before the hook.
pub(crate) fn swallow(ifindex: u32) -> io::Result<OwnedFd> {
    const TCX_NEXT: i32 = -1;
    const TCX_DROP: i32 = 2;
    if let Some(asked) = opener::ask_for_one(Call::Swallow, [ifindex, 1, 0, 0], &[], &[]) {
        return asked;
    }
    let mut asm = Assembler::default();
    asm.set(Reg::R6, Reg::R1);
    let rest = asm.label();
    sort(&mut asm, Frame::Copied, rest);
    asm.exit(TCX_DROP);
    asm.place(rest);
    asm.exit(TCX_NEXT);
    bpf::at_ingress(&asm.finish(), ifindex, "junctor_urgent")
}

/// How a program reads the frame of its context, which is in R6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// In its place, as XDP does. An outermost VLAN tag is in it.
    Direct,
    /// By copies on the stack, as traffic control does. Linux 6.18 does not say where a frame begins that the generic XDP hook has passed; the helper knows.
    Copied,
}

impl Frame {
    /// Where the copies are on the stack: the frame's beginning, and behind it the UDP port.
    const COPY: i32 = -64;
    const PORT: usize = 56;

    /// Copies `len` bytes of the frame from offset R2 on, or goes to `rest`.
    fn copy(asm: &mut Assembler, to: usize, len: usize, rest: Label) {
        const LOAD_BYTES_RELATIVE: i32 = 68;
        const FROM_MAC_HEADER: i32 = 0;
        asm.set(Reg::R1, Reg::R6);
        asm.set(Reg::R3, Reg::R8);
        asm.op(Op::Add, Reg::R3, to as i32);
        asm.set(Reg::R4, len as i32);
        asm.set(Reg::R5, FROM_MAC_HEADER);
        asm.call(LOAD_BYTES_RELATIVE);
        asm.jump_if(Reg::R0, If::NotEqual, 0, rest);
    }

    /// Goes to `rest` unless so many bytes of a frame that is read in its place are there, from `data` on.
    fn has(self, asm: &mut Assembler, data: Reg, bytes: usize, rest: Label) {
        if self == Frame::Direct {
            asm.set(Reg::R4, data);
            asm.op(Op::Add, Reg::R4, bytes as i32);
            asm.jump_if(Reg::R4, If::Greater, Reg::R3, rest);
        }
    }

    /// Begins to read: a register that points to the frame, of which the shortest urgent one's bytes may be read.
    fn begin(self, asm: &mut Assembler, rest: Label) -> Reg {
        if self == Frame::Copied {
            asm.set(Reg::R8, Reg::R10);
            asm.op(Op::Add, Reg::R8, Frame::COPY);
            asm.set(Reg::R2, 0);
            Frame::copy(asm, 0, LEAST4, rest);
            return Reg::R8;
        }
        let (data, plain, tagged) = (Reg::R2, asm.label(), asm.label());
        // struct xdp_md: data, data_end.
        asm.load(Size::Word, data, (Reg::R6, 0));
        asm.load(Size::Word, Reg::R3, (Reg::R6, 4));
        self.has(asm, data, LEAST4, rest);
        asm.load(Size::Half, Reg::R5, (data, 12));
        TAGS.iter().for_each(|tag| asm.jump_if(Reg::R5, If::Equal, swapped(*tag), tagged));
        asm.jump(plain);
        asm.place(tagged);
        asm.op(Op::Add, data, 4);
        self.has(asm, data, LEAST4, rest);
        asm.place(plain);
        data
    }

    /// Loads the port that is so many bytes behind offset R5.
    fn port(self, asm: &mut Assembler, data: Reg, at: usize, rest: Label) {
        if self == Frame::Copied {
            asm.set(Reg::R2, Reg::R5);
            asm.op(Op::Add, Reg::R2, at as i32);
            Frame::copy(asm, Frame::PORT, 2, rest);
            return asm.load(Size::Half, Reg::R5, (Reg::R8, Frame::PORT));
        }
        asm.op(Op::Add, data, Reg::R5);
        self.has(asm, data, at + 2, rest);
        asm.load(Size::Half, Reg::R5, (data, at));
    }
}

/// A value as it is in a frame.
fn swapped(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// Goes on behind for an urgent frame, and at `rest` for another.
fn sort(asm: &mut Assembler, frame: Frame, rest: Label) {
    let (value, ttl) = (Reg::R5, Reg::R7);
    let (six, ports, single, urgent) = (asm.label(), asm.label(), asm.label(), asm.label());
    let data = frame.begin(asm, rest);
    asm.load(Size::Half, value, (data, 12));
    asm.jump_if(value, If::NotEqual, swapped(IPV4), six);
    asm.load(Size::Byte, value, (data, 23));
    asm.jump_if(value, If::NotEqual, i32::from(UDP), rest);
    asm.load(Size::Half, value, (data, 20));
    asm.op(Op::And, value, swapped(FRAGMENT));
    asm.jump_if(value, If::NotEqual, 0, rest);
    asm.load(Size::Byte, ttl, (data, 22));
    asm.load(Size::Byte, value, (data, 14));
    asm.op(Op::And, value, 0xf);
    asm.op(Op::Left, value, 2);
    frame.port(asm, data, 16, rest);
    asm.jump(ports);
    asm.place(six);
    asm.jump_if(value, If::NotEqual, swapped(IPV6), rest);
    asm.load(Size::Byte, value, (data, 20));
    asm.jump_if(value, If::NotEqual, i32::from(UDP), rest);
    asm.load(Size::Byte, ttl, (data, 21));
    asm.set(value, 0);
    frame.port(asm, data, 56, rest);
    asm.place(ports);
    asm.jump_if(value, If::Equal, swapped(PORT_MULTI_HOP), urgent);
    asm.jump_if(value, If::Equal, swapped(PORT_SINGLE_HOP), single);
    asm.jump_if(value, If::NotEqual, swapped(PORT_ECHO), rest);
    asm.jump_if(ttl, If::AtLeast, i32::from(TTL_ECHO), urgent);
    asm.jump(rest);
    asm.place(single);
    asm.jump_if(ttl, If::NotEqual, i32::from(TTL), rest);
    asm.place(urgent);
}

#[cfg(test)]
mod tests {
    use packet::filter::{Filter, Instruction};
    use wire::{Protocol, ipv4, ipv6, udp};

    use super::*;

    /// A frame with a UDP datagram to `port`.
    fn frame(six: bool, options: usize, fragment: u16, port: u16, ttl: u8) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(if six { IPV6 } else { IPV4 }.to_be_bytes());
        let at = bytes.len();
        let header = if six { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN + options };
        bytes.resize(at + header + udp::HEADER_LEN, 0);
        if six {
            (bytes[at], bytes[at + 6], bytes[at + 7]) = (0x60, Protocol::UDP.0, ttl);
        } else {
            (bytes[at], bytes[at + 8], bytes[at + 9]) = (0x40 | (header / 4) as u8, ttl, Protocol::UDP.0);
            bytes[at + 6..at + 8].copy_from_slice(&fragment.to_be_bytes());
        }
        bytes[at + header + 2..at + header + 4].copy_from_slice(&port.to_be_bytes());
        bytes
    }

    #[test]
    fn sockets_tell_urgent_packets_apart() {
        let filters = [Part::Urgent, Part::Rest].map(|part| {
            let code = program(part).iter().map(|i| Instruction::new(i.code, i.jt, i.jf, i.k)).collect();
            Filter::new(code).expect("a program")
        });
        let check = |frame: &[u8], is_urgent: bool| {
            let accepted = filters.each_ref().map(|filter| filter.accepts(frame, frame.len()));
            assert_eq!(accepted, [is_urgent, !is_urgent], "{frame:?}");
        };
        // Port and the least TTL.
        for (port, least) in [(3784, Some(255)), (3785, Some(254)), (4784, Some(0)), (3786, None), (53, None)]
        {
            for ttl in [0, 1, 64, 253, 254, 255] {
                let is_urgent = least.is_some_and(|least| ttl >= least);
                check(&frame(false, 0, 0x4000, port, ttl), is_urgent);
                check(&frame(false, 8, 0, port, ttl), is_urgent);
                check(&frame(false, 40, 0, port, ttl), is_urgent);
                check(&frame(true, 0, 0, port, ttl), is_urgent);
            }
        }
        check(&frame(false, 0, 0x2000, 3784, 255), false);
        check(&frame(false, 0, 7, 3784, 255), false);
        let mut tcp = frame(false, 0, 0, 3784, 255);
        tcp[23] = 6;
        check(&tcp, false);
        let mut arp = frame(false, 0, 0, 3784, 255);
        arp[13] = 6;
        check(&arp, false);
        // What is too short for a port belongs to the rest, not to nobody.
        for (whole, least) in [
            (frame(false, 0, 0, 3784, 255), 38),
            (frame(false, 40, 0, 3784, 255), 78),
            (frame(true, 0, 0, 3784, 255), 58),
        ] {
            (0..=whole.len()).for_each(|len| check(&whole[..len], len >= least));
        }
    }
}
