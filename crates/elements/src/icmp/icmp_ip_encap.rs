// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPIPEncap, ICMPPingEncap
//!
//! `ICMPIPEncap(SRC, DST, TYPE [, CODE, keyword IDENTIFIER])`, `ICMPPingEncap(SRC, DST [, keyword IDENTIFIER])`
//!
//! Puts an ICMP and an IP header in front of each packet. ICMPPingEncap makes echo requests.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `SRC`, `DST` source and destination address.
//! * `TYPE` type of the message, by number or name (`echo`, `echo-reply`, `unreachable`, ...).
//! * `CODE` by number or name, default 0.
//! * `IDENTIFIER` 0 to 65535, default 0, for types that have one.
//!
//! Messages are numbered from 1. The number is the IP identification and, for types that have one, the sequence number. As in
//! Click, identifier and sequence number stand in the packet as a little-endian machine has them in memory. The TTL is 255.
//!
//! **Metadata set:** network and transport header positions, destination annotation.
//!
//! **Drops:** `too-long`, packets that would exceed 65,535 bytes; `no-memory`.
//!
//! **Handlers**
//! * `src`, `dst` read/write: the arguments.
//!
//! Workers give out numbers in turn, each every n-th of them.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> ICMPIPEncap(10.0.0.1, 10.0.0.2, echo) -> CheckICMPHeader -> Discard;
//! InfiniteSource(LIMIT 5) -> ICMPPingEncap(10.0.0.1, 10.0.0.2, IDENTIFIER 7) -> Discard;
//! ```
//!
//! See also: ICMPPingSource, ICMPPingResponder, ICMPError, IPEncap. RFC 792

use element::args::Args;
use element::{Class, Cx, Element, Handler, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::icmpv4::Type;
use wire::{Protocol, checksum, ipv4};

use crate::ip::Address;
use crate::ip::ip_encap::{Step, encapsulate};

const HANDLERS: &[Handler] = handlers! { IcmpIpEncap:
    both "src" => .header.src;
    both "dst" => .header.dst;
};

/// The descriptor.
pub const CLASS: Class = Class::new("ICMPIPEncap", "1/1", || Box::<IcmpIpEncap>::default())
    .handlers(HANDLERS)
    .hot_swap::<IcmpIpEncap>()
    .rehearsal::<IcmpIpEncap>()
    .file(file!());

/// The descriptor of the element that makes echo requests.
pub const PING: Class =
    Class::new("ICMPPingEncap", "1/1", || Box::new(IcmpIpEncap { ping: true, ..IcmpIpEncap::default() }))
        .handlers(HANDLERS)
        .hot_swap::<IcmpIpEncap>()
        .rehearsal::<IcmpIpEncap>()
        .file(file!());

#[derive(Clone, Default)]
struct IcmpIpEncap {
    header: ipv4::Repr,
    ping: bool,
    kind: Type,
    code: u8,
    identifier: u16,
    step: Step,
}

/// Bytes of a message's header.
fn header_len(kind: Type) -> usize {
    if matches!(kind, Type::TIMESTAMP | Type::TIMESTAMP_REPLY) { 20 } else { 8 }
}

fn has_sequence(kind: Type) -> bool {
    let kinds = [
        Type::ECHO,
        Type::ECHO_REPLY,
        Type::TIMESTAMP,
        Type::TIMESTAMP_REPLY,
        Type::INFO_REQUEST,
        Type::INFO_REPLY,
    ];
    kinds.contains(&kind)
}

impl IcmpIpEncap {
    fn encapsulate(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let header = header_len(self.kind);
        if packet.len() + header > 65515 {
            return Err(Reason::TooLong);
        }
        if self.header.id == 0 {
            self.header.id = self.step.next(0);
        }
        let icmp = packet.push(header).ok_or(Reason::NoMemory)?;
        icmp[..header].fill(0);
        icmp[..2].copy_from_slice(&[self.kind.0, self.code]);
        if has_sequence(self.kind) {
            icmp[4..6].copy_from_slice(&self.identifier.to_le_bytes());
            icmp[6..8].copy_from_slice(&self.header.id.to_le_bytes());
        }
        let sum = checksum::internet(icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.set_dst_ip(self.header.dst.octets());
        encapsulate(packet, &mut self.header, self.step)
    }

    fn read_type(&mut self, args: &mut Args<'_>) {
        let small = |text: &str| element::parse_integer(text).and_then(|n| u8::try_from(n).ok());
        let kind: String = args.required("TYPE");
        let code: String = args.positional("CODE", "0".into());
        match Type::from_name(&kind).or(small(&kind).map(Type)) {
            Some(kind) => self.kind = kind,
            None if kind.is_empty() => {}
            None => {
                args.error(format!("argument TYPE should be an ICMP type's number or name, not '{kind}'"))
            }
        }
        match self.kind.code_from_name(&code).or(small(&code)) {
            Some(code) => self.code = code,
            None => {
                args.error(format!("argument CODE should be a code of this type or its number, not '{code}'"))
            }
        }
    }
}

impl Element for IcmpIpEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.header.protocol = Protocol::ICMP;
        self.header.ttl = 255;
        self.header.id = 1;
        self.header.src = args.required::<Address>("SRC").0;
        self.header.dst = args.required::<Address>("DST").0;
        if self.ping {
            self.kind = Type::ECHO;
        } else {
            self.read_type(args);
        }
        self.identifier = args.keyword("IDENTIFIER", 0);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.step = Step::begin(cx, &mut self.header.id);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let why = std::cell::Cell::new(Reason::TooLong);
        let encap = |p: &mut Packet| self.encapsulate(p).map_err(|reason| why.set(reason)).is_ok();
        batch.partition(encap, |p| cx.drop(why.get(), p));
        batch
    }
}

impl Rehearsal for IcmpIpEncap {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IcmpIpEncap: header; anew ping, kind, code, identifier, step);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn messages_are_numbered_and_pass_the_checks() {
        for element in [
            "ICMPIPEncap(1.2.3.4, 5.6.7.8, echo, IDENTIFIER 258)",
            "ICMPPingEncap(1.2.3.4, 5.6.7.8, IDENTIFIER 258)",
        ] {
            let text = format!(
                "i :: TestIn -> e :: {element} -> CheckIPHeader -> CheckICMPHeader -> o0 :: TestOut;"
            );
            for burst in [1, 32] {
                let mut run = Rig::text(&text).burst(burst).inputs(&[b"hello", b""]).run();
                let out = run.out("o0");
                assert_eq!(out.len(), 2);
                let first = out[0].data();
                assert_eq!((&first[4..6], &first[8..10], first.len()), (&[0, 1][..], &[255, 1][..], 33));
                assert_eq!((&first[20..22], &first[24..]), (&[8, 0][..], &b"\x02\x01\x01\0hello"[..]));
                assert_eq!((&out[1].data()[26..], out[1].dst_ip()), (&[2, 0][..], [5, 6, 7, 8]));
                run.write("e.dst", "9.9.9.9").unwrap();
                assert_eq!((run.read("e.src"), run.read("e.dst")), ("1.2.3.4".into(), "9.9.9.9".into()));
            }
        }
    }

    #[test]
    fn other_types_have_other_headers() {
        for (args, head, len) in [
            ("unreachable, needfrag", [3, 4], 28),
            ("13", [13, 0], 40),
            ("timeexceeded, 1", [11, 1], 28),
            ("200, CODE 7", [200, 7], 28),
        ] {
            let run = Rig::new(&format!("ICMPIPEncap(1.2.3.4, 5.6.7.8, {args})")).inputs(&[b""]).run();
            let out = run.bytes("o0");
            assert_eq!((out[0][20..22].to_vec(), out[0].len()), (head.to_vec(), len), "{args}");
            assert_eq!(checksum::internet(&out[0][20..]), 0);
        }
    }

    #[test]
    fn limits_and_arguments() {
        let run = Rig::new("ICMPPingEncap(1.2.3.4, 5.6.7.8)").inputs(&[&vec![0; 65508]]).run();
        assert_eq!(run.drops("e"), [(Reason::TooLong, 1)]);
        assert_eq!(
            Rig::new("ICMPIPEncap(1.2.3.4, 5.6.7.8, nonsense, x)").errors(),
            [
                "e: argument TYPE should be an ICMP type's number or name, not 'nonsense'",
                "e: argument CODE should be a code of this type or its number, not 'x'"
            ]
        );
        assert_eq!(
            Rig::new("ICMPIPEncap(1.2.3.4, 5.6.7.8)").errors(),
            ["e: missing argument TYPE: a string"]
        );
    }
}
