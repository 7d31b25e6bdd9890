// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Encap
//!
//! `IP6Encap(PROTO, SRC, DST [, keywords HLIM, CLASS])`
//!
//! Puts an IPv6 header in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `PROTO` number or name of the protocol that follows.
//! * `SRC` source address.
//! * `DST` destination address, or `DST_ANNO` for each packet's destination annotation.
//! * `HLIM` hop limit, 0 to 255, default 250.
//! * `CLASS` traffic class, 0 to 255, default 0.
//!
//! **Metadata set:** network and transport header positions; destination annotation, unless it was read.
//!
//! **Drops:** `too-long`, packets beyond 65,535 bytes; `no-memory`.
//!
//! **Handlers**
//! * `src`, `dst` read/write: the arguments.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> IP6Encap(udp, 2001:db8::1, 2001:db8::2) -> CheckIP6Header -> Discard;
//! ```
//!
//! See also: IPEncap, CheckIP6Header. RFC 8200

use std::net::Ipv6Addr;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, Packet, anno};
use wire::{Protocol, ipv6};

use super::{Address, HEADER_LEN};
use crate::ip::ip_encap::ProtocolArg;

/// The descriptor.
pub const CLASS: Class = Class::new("IP6Encap", "1/1", || Box::new(Ip6Encap::default()))
    .handlers(handlers! { Ip6Encap:
        both "src" => .header.src;
        both "dst" => |encap| encap.dst.0.map_or("DST_ANNO".to_owned(), |dst| dst.to_string()),
            |encap, dst: Destination| encap.set_dst(dst);
    })
    .pure()
    .file(file!());

/// Where packets go; where their annotation says if not to an address.
#[derive(Clone, Copy, Default)]
struct Destination(Option<Ipv6Addr>);

impl FromArg for Destination {
    const EXPECTED: &'static str = "an IPv6 address or DST_ANNO";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        match text {
            "DST_ANNO" => Ok(Destination(None)),
            _ => Ipv6Addr::from_arg(text, names).map(|address| Destination(Some(address))),
        }
    }
}

#[derive(Default)]
struct Ip6Encap {
    header: ipv6::Repr,
    dst: Destination,
}

impl Ip6Encap {
    fn encapsulate(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        self.header.payload_len = u16::try_from(packet.len()).map_err(|_| Reason::TooLong)?;
        match self.dst.0 {
            Some(dst) => packet.set_anno(anno::DST_IP, dst.octets()),
            None => self.header.dst = packet.anno::<16>(anno::DST_IP).into(),
        }
        let bytes = packet.push(HEADER_LEN).ok_or(Reason::NoMemory)?;
        self.header.emit(bytes).map_err(|_| Reason::TooLong)?;
        packet.set_network(0, HEADER_LEN);
        Ok(())
    }

    fn set_dst(&mut self, dst: Destination) {
        self.dst = dst;
        self.header.dst = dst.0.unwrap_or(Ipv6Addr::UNSPECIFIED);
    }
}

impl Element for Ip6Encap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.header.next_header = Protocol(args.required::<ProtocolArg>("PROTO").0);
        self.header.src = args.required::<Address>("SRC").0;
        let dst = args.required("DST");
        self.set_dst(dst);
        self.header.hop_limit = args.keyword("HLIM", 250);
        self.header.traffic_class = args.keyword("CLASS", 0);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let why = std::cell::Cell::new(Reason::TooLong);
        let encap = |p: &mut Packet| self.encapsulate(p).map_err(|reason| why.set(reason)).is_ok();
        batch.partition(encap, |p| cx.drop(why.get(), p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn puts_headers_on() {
        for burst in [1, 32] {
            let config = "IP6Encap(udp, 2001:db8::1, 2001:db8::2, HLIM 9, CLASS 184)";
            let mut run = Rig::new(config).burst(burst).inputs(&[b"abc", b""]).run();
            let out = run.out("o0");
            let first = out[0].data();
            assert_eq!((&first[..8], first[23], first[39]), (&[0x6b, 0x80, 0, 0, 0, 3, 17, 9][..], 1, 2));
            assert_eq!((&first[40..], out[1].len(), out[1].transport_offset()), (&b"abc"[..], 40, Some(40)));
            assert_eq!(out[1].anno::<16>(anno::DST_IP)[15], 2);
            run.write("e.dst", "::7").unwrap();
            assert_eq!((run.read("e.src"), run.read("e.dst")), ("2001:db8::1".into(), "::7".into()));
        }
    }

    #[test]
    fn destination_from_the_annotation() {
        let text =
            "i :: TestIn -> SetIP6Address(2001:db8::9) -> e :: IP6Encap(41, ::1, DST_ANNO) -> o :: TestOut;";
        let mut run = Rig::text(text).inputs(&[b"x"]).run();
        assert_eq!((run.bytes("o")[0][39], run.read("e.dst")), (9, "DST_ANNO".into()));
    }

    #[test]
    fn limits_and_arguments() {
        let run = Rig::new("IP6Encap(4, ::1, ::2)").inputs(&[&vec![0; 65536]]).run();
        assert_eq!(run.drops("e"), [(Reason::TooLong, 1)]);
        let want = "e: argument DST should be an IPv6 address or DST_ANNO, not 'x'";
        assert_eq!(Rig::new("IP6Encap(4, ::1, x)").errors(), [want]);
    }
}
