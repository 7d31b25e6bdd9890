// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckUDPHeader, CheckTCPHeader
//!
//! `CheckUDPHeader([keywords VERBOSE, DETAILS])`
//!
//! Lets only UDP (TCP) packets with right lengths and checksum pass.
//!
//! **Ports:** 1 input; output 0 for good packets; output 1, if connected, for others.
//!
//! **Arguments**
//! * `VERBOSE` boolean, default false: print every bad packet's fault, not only the first.
//! * `DETAILS` boolean, default false: the handler `drop_details` counts by fault.
//!
//! **Metadata read:** network header position.
//!
//! **Drops** (when output 1 is not connected): `bad-protocol`, `bad-length`, `bad-checksum`.
//!
//! **Handlers**
//! * `drops` read: bad packets. `drop_details` read: the same by fault, with DETAILS.
//!
//! A UDP checksum of zero means that there is none, and passes.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> CheckUDPHeader -> Discard;
//! ```
//!
//! See also: CheckIPHeader, CheckICMPHeader, SetUDPChecksum, SetTCPChecksum. RFC 768, RFC 9293

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, HandlerPart, Reason, carries};
use packet::{Batch, Packet};
use wire::{Protocol, checksum};

use crate::ip::faults::{Faults, HANDLERS, addresses, payload};

/// The descriptor of the check of UDP.
pub const UDP: Class =
    Class::new("CheckUDPHeader", "1/1-2", || Box::new(CheckHeader { udp: true, faults: Faults::new("UDP") }))
        .processing("a/ah")
        .handlers(HANDLERS)
        .pure()
        .hot_swap::<CheckHeader>()
        .handler_part::<CheckHeader>()
        .file(file!());

/// The descriptor of the check of TCP.
pub const TCP: Class = Class::new("CheckTCPHeader", "1/1-2", || {
    Box::new(CheckHeader { udp: false, faults: Faults::new("TCP") })
})
.processing("a/ah")
.handlers(HANDLERS)
.pure()
.hot_swap::<CheckHeader>()
.handler_part::<CheckHeader>()
.file(file!());

struct CheckHeader {
    udp: bool,
    faults: Faults,
}

fn check_udp(packet: &Packet) -> Result<(), Reason> {
    let (ip, udp) = payload(packet, 17)?;
    let header = udp.first_chunk::<8>().ok_or(Reason::BadLength)?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let datagram = udp.get(..len).filter(|_| len >= 8).ok_or(Reason::BadLength)?;
    if header[6..8] == [0, 0] {
        return Ok(());
    }
    let (src, dst) = addresses(ip);
    let good = checksum::transport_v4_ok(src, dst, Protocol::UDP, datagram);
    if good { Ok(()) } else { Err(Reason::BadChecksum) }
}

fn check_tcp(packet: &Packet) -> Result<(), Reason> {
    let (ip, tcp) = payload(packet, 6)?;
    let header = tcp.first_chunk::<20>().ok_or(Reason::BadLength)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < 20 || header_len > tcp.len() {
        return Err(Reason::BadLength);
    }
    let (src, dst) = addresses(ip);
    let good = checksum::transport_v4_ok(src, dst, Protocol::TCP, tcp);
    if good { Ok(()) } else { Err(Reason::BadChecksum) }
}

impl Element for CheckHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.faults.configure(args);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        match self.udp {
            true => self.faults.filter(cx, batch, check_udp),
            false => self.faults.filter(cx, batch, check_tcp),
        }
    }
}

impl HandlerPart for CheckHeader {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.faults
    }
}

carries!(CheckHeader: faults; anew udp);

#[cfg(test)]
mod tests {
    use super::super::samples::{tcp, udp};
    use super::*;
    use crate::testing::Rig;

    fn check(element: &str, packet: Packet, want: Option<Reason>) {
        for burst in [1, 32] {
            let run = Rig::new(element).burst(burst).packets(vec![packet.duplicate().unwrap()]).run();
            assert_eq!(run.drops("e"), want.map(|reason| (reason, 1)).into_iter().collect::<Vec<_>>());
        }
    }

    fn change(mut packet: Packet, at: usize, value: u8) -> Packet {
        packet.data_mut()[at] = value;
        packet
    }

    #[test]
    fn udp_faults() {
        check("CheckUDPHeader", udp(b"hello"), None);
        check("CheckUDPHeader", tcp(b"hello"), Some(Reason::BadProtocol));
        check("CheckUDPHeader", change(udp(b"hello"), 25, 7), Some(Reason::BadLength));
        check("CheckUDPHeader", change(udp(b"hello"), 25, 14), Some(Reason::BadLength));
        check("CheckUDPHeader", change(udp(b"hello"), 28, 1), Some(Reason::BadChecksum));
        check("CheckUDPHeader", change(change(udp(b"hello"), 26, 0), 27, 0), None);
        check("CheckUDPHeader", Packet::copy_of(b"x").unwrap(), Some(Reason::BadProtocol));
    }

    #[test]
    fn tcp_faults() {
        check("CheckTCPHeader", tcp(b"hello"), None);
        check("CheckTCPHeader", udp(b"hello"), Some(Reason::BadProtocol));
        check("CheckTCPHeader", change(tcp(b"hello"), 32, 0x40), Some(Reason::BadLength));
        check("CheckTCPHeader", change(tcp(b"hello"), 32, 0xf0), Some(Reason::BadLength));
        check("CheckTCPHeader", change(tcp(b"hello"), 40, 1), Some(Reason::BadChecksum));
    }

    #[test]
    fn takes_no_positional_argument() {
        assert_eq!(Rig::new("CheckTCPHeader(1)").errors(), ["e: too many arguments: '1'"]);
    }
}
