// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPEncap
//!
//! `IPEncap(PROTO, SRC, DST [, keywords TOS, DSCP, ECT, CE, TTL, DF])`
//!
//! Puts an IP header in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `PROTO` protocol number or name.
//! * `SRC` source address.
//! * `DST` destination address, or `DST_ANNO` for each packet's destination annotation.
//! * `TOS` type-of-service byte, default 0; or its parts `DSCP` (0 to 63), `ECT` and `CE` (booleans, default false).
//! * `TTL` default 250.
//! * `DF` boolean, default false: sets the don't-fragment bit.
//!
//! **Metadata set:** network and transport header positions; destination annotation, unless it was read.
//!
//! **Drops:** `too-long`, packets beyond 65,515 bytes; `no-memory`.
//!
//! **Handlers**
//! * `src`, `dst` read/write: the arguments.
//!
//! Workers give out identifications in turn, each every n-th of them.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> IPEncap(4, 10.0.0.1, 10.0.0.2) -> Discard;
//! ```
//!
//! See also: UDPIPEncap, StripIPHeader. RFC 791

use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::{Protocol, ipv4};

use super::Address;

/// The descriptor.
pub const CLASS: Class = Class::new("IPEncap", "1/1", || Box::<IpEncap>::default())
    .handlers(handlers! { IpEncap:
        both "src".argument(Some(1), "SRC") => .header.src;
        both "dst".argument(Some(2), "DST") => |encap| encap.dst.text(), |encap, dst: Destination| encap.dst = dst;
    })
    .hot_swap::<IpEncap>().rehearsal::<IpEncap>().file(file!());

/// Where encapsulated packets go.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Where the destination annotation says.
    #[default]
    Annotation,
    /// To this address.
    To(Ipv4Addr),
}

impl FromArg for Destination {
    const EXPECTED: &'static str = "an IPv4 address or DST_ANNO";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        match text {
            "DST_ANNO" => Ok(Destination::Annotation),
            _ => Ipv4Addr::from_arg(text, names).map(Destination::To),
        }
    }
}

impl Destination {
    /// The packet's destination; a fixed one is annotated too.
    pub(crate) fn of(self, packet: &mut Packet) -> Ipv4Addr {
        match self {
            Destination::Annotation => packet.dst_ip().into(),
            Destination::To(address) => {
                packet.set_dst_ip(address.octets());
                address
            }
        }
    }

    /// As handlers print it.
    pub(crate) fn text(self) -> String {
        match self {
            Destination::Annotation => "DST_ANNO".into(),
            Destination::To(address) => address.to_string(),
        }
    }
}

/// An IP protocol, by number or name.
#[derive(Default)]
pub(crate) struct ProtocolArg(pub(crate) u8);

impl FromArg for ProtocolArg {
    const EXPECTED: &'static str = "an IP protocol's number or name";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let named = Protocol::from_name(text).map(|p| p.0);
        named.or_else(|| u8::from_arg(text, names).ok()).map(ProtocolArg).ok_or_else(String::new)
    }
}

#[derive(Clone, Default)]
struct IpEncap {
    header: ipv4::Repr,
    dst: Destination,
    step: Step,
}

/// How identifications count up: instances on several workers never give the same one before the others have had theirs.
#[derive(Clone, Copy)]
pub(crate) struct Step(u16);

impl Default for Step {
    fn default() -> Step {
        Step(1)
    }
}

impl Step {
    /// The step of this instance, which begins `first` behind what one alone would begin with.
    pub(crate) fn begin(cx: &InitCx<'_>, first: &mut u16) -> Step {
        let (index, count) = cx.instance();
        *first = first.wrapping_add(index as u16);
        Step(count as u16)
    }

    pub(crate) fn next(self, id: u16) -> u16 {
        id.wrapping_add(self.0)
    }
}

/// Puts a header in front of a packet. `header` gives all but the length; its identification counts up.
pub(crate) fn encapsulate(packet: &mut Packet, header: &mut ipv4::Repr, step: Step) -> Result<(), Reason> {
    header.payload_len =
        u16::try_from(packet.len()).ok().filter(|len| *len <= 65515).ok_or(Reason::TooLong)?;
    let bytes = packet.push(20).ok_or(Reason::NoMemory)?;
    header.emit(bytes).map_err(|_| Reason::TooLong)?;
    header.id = step.next(header.id);
    packet.set_network(0, 20);
    Ok(())
}

/// Puts headers in front of the packets of a batch; `dst` gives each one's destination.
pub(crate) fn encapsulate_all(
    cx: &mut Cx<'_>,
    mut batch: Batch,
    header: &mut ipv4::Repr,
    step: Step,
    mut dst: impl FnMut(&mut Packet) -> Ipv4Addr,
) -> Batch {
    let why = std::cell::Cell::new(Reason::TooLong);
    let encap = |p: &mut Packet| {
        header.dst = dst(p);
        encapsulate(p, header, step).map_err(|reason| why.set(reason)).is_ok()
    };
    batch.partition(encap, |p| cx.drop(why.get(), p));
    batch
}

impl Element for IpEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.header.protocol = Protocol(args.required::<ProtocolArg>("PROTO").0);
        self.header.src = args.required::<Address>("SRC").0;
        self.dst = args.required("DST");
        let tos: u8 = args.keyword("TOS", 0);
        let dscp: Option<u8> = args.keyword_opt("DSCP");
        let (ect, ce) = (args.keyword("ECT", false), args.keyword("CE", false));
        if dscp.is_some_and(|dscp| dscp > 63) {
            args.error("DSCP must lie between 0 and 63");
        }
        let ecn = if ce { 3 } else { u8::from(ect) * 2 };
        self.header.tos = dscp.map_or(tos, |dscp| dscp << 2) | ecn;
        self.header.ttl = args.keyword("TTL", 250);
        self.header.fragment = if args.keyword("DF", false) { ipv4::FLAG_DF } else { 0 };
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.step = Step::begin(cx, &mut self.header.id);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        encapsulate_all(cx, batch, &mut self.header, self.step, |p| self.dst.of(p))
    }
}

impl Rehearsal for IpEncap {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IpEncap: header; anew dst, step);

#[cfg(test)]
mod tests {
    use super::super::samples::sealed;
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn puts_headers_on() {
        for burst in [1, 32] {
            let config = "IPEncap(ipip, 1.2.3.4, 5.6.7.8, DSCP 46, DF true, TTL 9)";
            let run = Rig::new(config).burst(burst).inputs(&[b"abc", b""]).run();
            let out = run.out("o0");
            assert!(out.iter().all(|p| sealed(p.data()) && p.dst_ip() == [5, 6, 7, 8]));
            let head = [0x45, 46 << 2, 0, 23, 0, 0, 0x40, 0, 9, 4];
            assert_eq!((&out[0].data()[..10], &out[0].data()[20..]), (&head[..], &b"abc"[..]));
            assert_eq!((out[1].data()[5], out[1].len(), out[1].transport_offset()), (1, 20, Some(20)));
        }
    }

    #[test]
    fn destination_from_the_annotation() {
        let mut p = Packet::copy_of(b"x").unwrap();
        p.set_dst_ip([9, 9, 9, 9]);
        let run = Rig::new("IPEncap(47, 1.2.3.4, DST_ANNO)").packets(vec![p]).run();
        assert_eq!(run.bytes("o0")[0][16..20], [9, 9, 9, 9]);
    }

    #[test]
    fn limits_and_arguments() {
        let run = Rig::new("IPEncap(4, 1.2.3.4, 5.6.7.8)").inputs(&[&vec![0; 65516]]).run();
        assert_eq!(run.drops("e"), [(Reason::TooLong, 1)]);
        assert_eq!(
            Rig::new("IPEncap(nonsense, 1.2.3.4, x)").errors(),
            [
                "e: argument PROTO should be an IP protocol's number or name, not 'nonsense'",
                "e: argument DST should be an IPv4 address or DST_ANNO, not 'x'"
            ]
        );
    }
}
