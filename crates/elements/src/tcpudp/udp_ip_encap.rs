// SPDX-License-Identifier: MIT OR Apache-2.0
//! # UDPIPEncap
//!
//! `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//!
//! Puts a UDP and an IP header in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `SRC` source address, `SPORT` source port.
//! * `DST` destination address, or `DST_ANNO` for each packet's destination annotation; `DPORT` destination port.
//! * `CHECKSUM` boolean, default true: sets UDP's checksum, else it is zero.
//!
//! **Metadata set:** network and transport header positions; destination annotation, unless it was read.
//!
//! **Drops:** `too-long`, packets beyond 65,507 bytes; `no-memory`.
//!
//! **Handlers**
//! * `src`, `sport`, `dst`, `dport` read/write: the arguments.
//!
//! The TTL is 250. Workers give out identifications in turn, each every n-th of them.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> Discard;
//! ```
//!
//! See also: IPEncap, StripIPHeader, CheckUDPHeader. RFC 768, RFC 791

use std::net::Ipv4Addr;

use element::args::{Args, Port};
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::{Protocol, checksum, ipv4};

use crate::ip::Address;
use crate::ip::ip_encap::{Destination, Step, encapsulate};

/// The descriptor.
pub const CLASS: Class = Class::new("UDPIPEncap", "1/1", || Box::<UdpIpEncap>::default())
    .handlers(handlers! { UdpIpEncap:
        both "src".argument(Some(0), "SRC") => .header.src;
        both "sport".argument(Some(1), "SPORT") => .src_port.0 |encap, port: Port| encap.src_port = port;
        both "dst".argument(Some(2), "DST") => |encap| encap.dst.text(), |encap, dst: Destination| encap.dst = dst;
        both "dport".argument(Some(3), "DPORT") => .dst_port.0 |encap, port: Port| encap.dst_port = port;
    })
    .hot_swap::<UdpIpEncap>().rehearsal::<UdpIpEncap>().file(file!());

#[derive(Clone, Default)]
struct UdpIpEncap {
    header: ipv4::Repr,
    dst: Destination,
    src_port: Port,
    dst_port: Port,
    checksum: bool,
    step: Step,
}

impl UdpIpEncap {
    fn encapsulate(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let len = u16::try_from(packet.len() + 8).ok().filter(|len| *len <= 65515).ok_or(Reason::TooLong)?;
        self.header.dst = self.dst.of(packet);
        let (src, dst): (Ipv4Addr, Ipv4Addr) = (self.header.src, self.header.dst);
        let udp = packet.push(8).ok_or(Reason::NoMemory)?;
        udp[..2].copy_from_slice(&self.src_port.0.to_be_bytes());
        udp[2..4].copy_from_slice(&self.dst_port.0.to_be_bytes());
        udp[4..6].copy_from_slice(&len.to_be_bytes());
        udp[6..8].fill(0);
        if self.checksum {
            let sum = checksum::never_zero(checksum::transport_v4(src, dst, Protocol::UDP, udp));
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        encapsulate(packet, &mut self.header, self.step)
    }
}

impl Element for UdpIpEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.header.protocol = Protocol::UDP;
        self.header.ttl = 250;
        self.header.src = args.required::<Address>("SRC").0;
        self.src_port = args.required("SPORT");
        self.dst = args.required("DST");
        self.dst_port = args.required("DPORT");
        self.checksum = args.positional("CHECKSUM", true);
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

impl Rehearsal for UdpIpEncap {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(UdpIpEncap: header; anew dst, src_port, dst_port, checksum, step);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn what_it_makes_passes_the_checks() {
        let text =
            "i :: TestIn -> e :: UDPIPEncap(1.2.3.4, 1234, 5.6.7.8, 53) -> CheckIPHeader -> CheckUDPHeader
            -> p :: IPPrint(TIMESTAMP false) -> o0 :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).inputs(&[b"hello", b""]).run();
            assert_eq!(run.out("o0").len(), 2);
            let lines = "1.2.3.4.1234 > 5.6.7.8.53: udp 13\n1.2.3.4.1234 > 5.6.7.8.53: udp 8\n";
            assert_eq!(run.printed(), lines);
            run.write("e.dport", "80").unwrap();
            assert_eq!(run.read("e.dport"), "80");
        }
        let run = Rig::new("UDPIPEncap(1.2.3.4, 1, DST_ANNO, 2, false)").inputs(&[b"x"]).run();
        assert_eq!(run.bytes("o0")[0][26..28], [0, 0]);
    }

    #[test]
    fn limits_and_arguments() {
        let run = Rig::new("UDPIPEncap(1.2.3.4, 1, 5.6.7.8, 2)").inputs(&[&vec![0; 65508]]).run();
        assert_eq!(run.drops("e"), [(Reason::TooLong, 1)]);
        let error = "e: missing argument DPORT: a port number or name";
        assert_eq!(Rig::new("UDPIPEncap(1.2.3.4, 1, 5.6.7.8)").errors(), [error]);
    }
}
