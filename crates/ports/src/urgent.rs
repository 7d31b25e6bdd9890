// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that must not wait: those of BFD, which may have a receive ring of their own.
//!
//! Where more comes than is forwarded, receive rings are full. What comes then waits behind all that is in the ring, or finds no room. Either ends a
//! session of BFD at 3 x 10 ms, although the path works. So with [`Spec::urgent`](packet::port::Spec) a packet socket receives BFD alone (UDP to ports 3784, 3785 and
//! 4784), the device's other rings leave it out, and the queue delivers it first.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use packet::Batch;
use packet::filter::Filter;
use packet::port::{Error, QueueStats, RxQueue};
use wire::bfd::{PORT_ECHO, PORT_MULTI_HOP, PORT_SINGLE_HOP};

use crate::bpf::asm::{Assembler, If, Op, Reg, Size};
use crate::expression::WHOLE;
use crate::sys::Doorbell;

const PORTS: [u16; 3] = [PORT_SINGLE_HOP, PORT_ECHO, PORT_MULTI_HOP];
const UDP: u8 = 17;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Offset and the bit that says that more fragments follow.
const FRAGMENT: u16 = 0x3fff;

/// Which packets a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Urgent,
    Rest,
}

/// The classic BPF program by which a packet socket receives its part of the Ethernet frames.
pub(crate) fn program(part: Part) -> Vec<libc::sock_filter> {
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HEADER_LEN: u16 = 0xb1;
    const LOAD_HALF_BEHIND: u16 = 0x48;
    const IF_EQUAL: u16 = 0x15;
    const IF_ANY: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const RETURN: u16 = 0x06;
    let (urgent, rest) = if part == Part::Urgent { (WHOLE, 0) } else { (0, WHOLE) };
    // The ports are asked from 13 on; 16 is the end for the rest, 17 that for urgent packets.
    let code = [
        (LOAD_HALF, 0, 0, 12),
        (IF_EQUAL, 0, 7, IPV4.into()),
        (LOAD_BYTE, 0, 0, 23),
        (IF_EQUAL, 0, 12, UDP.into()),
        (LOAD_HALF, 0, 0, 20),
        (IF_ANY, 10, 0, FRAGMENT.into()),
        (LOAD_HEADER_LEN, 0, 0, 14),
        (LOAD_HALF_BEHIND, 0, 0, 16),
        (JUMP, 0, 0, 4),
        (IF_EQUAL, 0, 6, IPV6.into()),
        (LOAD_BYTE, 0, 0, 20),
        (IF_EQUAL, 0, 4, UDP.into()),
        (LOAD_HALF, 0, 0, 56),
        (IF_EQUAL, 3, 0, PORTS[0].into()),
        (IF_EQUAL, 2, 0, PORTS[1].into()),
        (IF_EQUAL, 1, 0, PORTS[2].into()),
        (RETURN, 0, 0, rest),
        (RETURN, 0, 0, urgent),
    ];
    code.map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).to_vec()
}

/// Part of an XDP program whose context is in R6: lets the kernel have urgent packets, which a packet socket then receives. IPv4 headers with options are
/// not looked through.
pub(crate) fn pass(asm: &mut Assembler) {
    const XDP_PASS: i32 = 2;
    let (six, ports, urgent, rest) = (asm.label(), asm.label(), asm.label(), asm.label());
    let swapped = |value: u16| i32::from(value.to_be());
    let (data, end, value) = (Reg::R2, Reg::R3, Reg::R5);
    asm.load(Size::Word, data, (Reg::R6, 0));
    asm.load(Size::Word, end, (Reg::R6, 4));
    let has = |asm: &mut Assembler, bytes: i32| {
        asm.set(Reg::R4, data);
        asm.op(Op::Add, Reg::R4, bytes);
        asm.jump_if(Reg::R4, If::Greater, end, rest);
    };
    has(asm, 42);
    asm.load(Size::Half, value, (data, 12));
    asm.jump_if(value, If::NotEqual, swapped(IPV4), six);
    asm.load(Size::Byte, value, (data, 14));
    asm.jump_if(value, If::NotEqual, 0x45, rest);
    asm.load(Size::Byte, value, (data, 23));
    asm.jump_if(value, If::NotEqual, i32::from(UDP), rest);
    asm.load(Size::Half, value, (data, 20));
    asm.op(Op::And, value, swapped(FRAGMENT));
    asm.jump_if(value, If::NotEqual, 0, rest);
    asm.load(Size::Half, value, (data, 36));
    asm.jump(ports);
    asm.place(six);
    asm.jump_if(value, If::NotEqual, swapped(IPV6), rest);
    has(asm, 62);
    asm.load(Size::Byte, value, (data, 20));
    asm.jump_if(value, If::NotEqual, i32::from(UDP), rest);
    asm.load(Size::Half, value, (data, 56));
    asm.place(ports);
    PORTS.iter().for_each(|port| asm.jump_if(value, If::Equal, swapped(*port), urgent));
    asm.jump(rest);
    asm.place(urgent);
    asm.exit(XDP_PASS);
    asm.place(rest);
}

/// A receive queue that delivers urgent packets first. They are a quarter of what is asked for at most, so a flood of them leaves room for the rest.
pub(crate) struct UrgentRx {
    urgent: Box<dyn RxQueue>,
    rest: Box<dyn RxQueue>,
    doorbell: Doorbell,
    /// Urgent packets were all that was asked for, or more (joined ones are parted on the way), so it is the others' turn.
    passed_over: bool,
}

impl UrgentRx {
    pub(crate) fn new(urgent: Box<dyn RxQueue>, rest: Box<dyn RxQueue>) -> io::Result<UrgentRx> {
        let doorbell = Doorbell::new()?;
        for fd in [urgent.fd(), rest.fd()].into_iter().flatten() {
            doorbell.listen(&fd)?;
        }
        Ok(UrgentRx { urgent, rest, doorbell, passed_over: false })
    }

    /// How many urgent packets may be taken of `max`.
    fn share(&self, max: usize) -> usize {
        if self.passed_over { 0 } else { max.div_ceil(4) }
    }
}

impl RxQueue for UrgentRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let first = self.urgent.receive(batch, self.share(max));
        self.passed_over = first > 0 && first >= max;
        first + self.rest.receive(batch, max.saturating_sub(first))
    }

    fn receive_arrived(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> (usize, u8) {
        let (first, seen) = self.urgent.receive_arrived(batch, self.share(max), wall_ns);
        self.passed_over = first > 0 && first >= max;
        let (then, also) = self.rest.receive_arrived(batch, max.saturating_sub(first), wall_ns);
        (first + then, seen | also)
    }

    fn narrow(&mut self, _: &Arc<Filter>) -> bool {
        // The kernel's filters tell the two rings apart.
        false
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.doorbell.fd())
    }

    fn ended(&self) -> bool {
        self.rest.ended()
    }

    fn fault(&self) -> Option<Error> {
        self.rest.fault()
    }

    fn stats(&self) -> QueueStats {
        let (urgent, rest) = (self.urgent.stats(), self.rest.stats());
        QueueStats {
            packets: urgent.packets + rest.packets,
            bytes: urgent.bytes + rest.bytes,
            missed: urgent.missed + rest.missed,
            completed: urgent.completed + rest.completed,
            no_memory: urgent.no_memory + rest.no_memory,
            errors: urgent.errors + rest.errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;
    use packet::filter::Instruction;
    use wire::{Protocol, ipv4, ipv6, udp};

    use super::*;

    /// A frame with a UDP datagram to `port`.
    fn frame(six: bool, options: usize, fragment: u16, port: u16) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(if six { IPV6 } else { IPV4 }.to_be_bytes());
        let at = bytes.len();
        let header = if six { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN + options };
        bytes.resize(at + header + udp::HEADER_LEN, 0);
        if six {
            (bytes[at], bytes[at + 6]) = (0x60, Protocol::UDP.0);
        } else {
            (bytes[at], bytes[at + 9]) = (0x40 | (header / 4) as u8, Protocol::UDP.0);
            bytes[at + 6..at + 8].copy_from_slice(&fragment.to_be_bytes());
        }
        bytes[at + header + 2..at + header + 4].copy_from_slice(&port.to_be_bytes());
        bytes
    }

    /// A queue with any number of packets of one byte.
    struct Endless(u8);

    impl RxQueue for Endless {
        fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
            (0..max).for_each(|_| batch.push(Packet::copy_of(&[self.0]).expect("memory")));
            max
        }

        fn stats(&self) -> QueueStats {
            QueueStats::default()
        }
    }

    #[test]
    fn a_flood_of_urgent_packets_leaves_room_for_others() {
        crate::tests::alone(|| {
            let mut rx = UrgentRx::new(Box::new(Endless(1)), Box::new(Endless(0))).unwrap();
            let mut take = |max: usize| {
                let mut batch = Batch::new();
                assert_eq!(rx.receive(&mut batch, max), max);
                (batch.iter().map(|packet| usize::from(packet.data()[0])).sum::<usize>(), batch.len())
            };
            assert_eq!([take(32), take(32)], [(8, 32); 2]);
            assert_eq!([take(1), take(1), take(1), take(2)], [(1, 1), (0, 1), (1, 1), (0, 2)]);
            assert_eq!(take(2), (1, 2));
        });
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
        for (port, is_urgent) in [(3784, true), (3785, true), (4784, true), (3786, false), (53, false)] {
            check(&frame(false, 0, 0x4000, port), is_urgent);
            check(&frame(false, 8, 0, port), is_urgent);
            check(&frame(true, 0, 0, port), is_urgent);
        }
        check(&frame(false, 0, 0x2000, 3784), false);
        check(&frame(false, 0, 7, 3784), false);
        let mut tcp = frame(false, 0, 0, 3784);
        tcp[23] = 6;
        check(&tcp, false);
        let mut arp = frame(false, 0, 0, 3784);
        arp[13] = 6;
        check(&arp, false);
    }
}
