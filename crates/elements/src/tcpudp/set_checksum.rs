// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetUDPChecksum, SetTCPChecksum
//!
//! `SetTCPChecksum([FIXOFF])`, `SetUDPChecksum()`
//!
//! Computes and sets the checksum of UDP (TCP) packets.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `FIXOFF` boolean, default false, TCP only: brings a data offset outside the packet back into it.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `bad-length`, packets without whole headers or with a wrong length field.
//!
//! UDP fragments get no checksum (zero), since that of the whole cannot be known here.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> SetUDPChecksum -> Discard;
//! ```
//!
//! See also: CheckUDPHeader, CheckTCPHeader, SetIPChecksum. RFC 768, RFC 9293

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};
use wire::{Protocol, checksum};

use crate::ip::faults::addresses;

/// The descriptor for UDP.
pub const UDP: Class =
    Class::new("SetUDPChecksum", "1/1", || Box::new(SetChecksum::new(true))).pure().file(file!());

/// The descriptor for TCP.
pub const TCP: Class =
    Class::new("SetTCPChecksum", "1/1", || Box::new(SetChecksum::new(false))).pure().file(file!());

struct SetChecksum {
    udp: bool,
    fix_offset: bool,
}

impl SetChecksum {
    fn new(udp: bool) -> SetChecksum {
        SetChecksum { udp, fix_offset: false }
    }
}

/// The IP header, and the transport packet for writing.
fn split(packet: &mut Packet) -> Option<([u8; 20], &mut [u8])> {
    let ip = packet.network_mut()?;
    let header = *ip.first_chunk::<20>()?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let header_len = usize::from(header[0] & 15) * 4;
    Some((header, ip.get_mut(header_len.max(20)..total)?))
}

fn set_udp(packet: &mut Packet) -> Option<()> {
    let (ip, udp) = split(packet)?;
    let len = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    udp.get_mut(6..8)?.fill(0);
    if ip[6] & 0x3f != 0 || ip[7] != 0 {
        return Some(());
    }
    let datagram = udp.get_mut(..len).filter(|_| len >= 8)?;
    let (src, dst) = addresses(&ip);
    let sum = checksum::transport_v4(src, dst, Protocol::UDP, datagram);
    datagram[6..8].copy_from_slice(&checksum::never_zero(sum).to_be_bytes());
    Some(())
}

fn set_tcp(packet: &mut Packet, fix_offset: bool) -> Option<()> {
    let (ip, tcp) = split(packet)?;
    let words = usize::from(tcp.get(12)? >> 4);
    if words < 5 || words * 4 > tcp.len() {
        let fixed = words.min(tcp.len() / 4).max(5);
        if !fix_offset || tcp.len() < 20 {
            return None;
        }
        tcp[12] = (fixed << 4) as u8 | tcp[12] & 15;
    }
    tcp.get_mut(16..18)?.fill(0);
    let (src, dst) = addresses(&ip);
    let sum = checksum::transport_v4(src, dst, Protocol::TCP, tcp);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Sets the checksum of a TCP or UDP packet that is whole; others stay as they are.
pub(crate) fn set_transport(packet: &mut Packet) {
    let fragment = |h: &[u8; 20]| h[6] & 0x3f != 0 || h[7] != 0;
    let protocol = packet.network_chunk::<20>().filter(|h| !fragment(h)).map(|h| Protocol(h[9]));
    let _ = match protocol {
        Some(Protocol::UDP) => set_udp(packet),
        Some(Protocol::TCP) => set_tcp(packet, false),
        _ => None,
    };
}

impl Element for SetChecksum {
    fn configure(&mut self, args: &mut Args<'_>) {
        if !self.udp {
            self.fix_offset = args.positional("FIXOFF", false);
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let bad = |p| cx.drop(Reason::BadLength, p);
        let fix_offset = self.fix_offset;
        match self.udp {
            true => batch.partition(|p| set_udp(p).is_some(), bad),
            false => batch.partition(|p| set_tcp(p, fix_offset).is_some(), bad),
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{tcp, udp};
    use super::*;
    use crate::testing::Rig;

    fn change(mut packet: Packet, at: usize, value: u8) -> Packet {
        packet.data_mut()[at] = value;
        packet
    }

    #[test]
    fn sets_what_the_checks_accept() {
        for burst in [1, 32] {
            let broken = vec![change(udp(b"hello"), 26, 9), change(udp(b"odd"), 28, 77)];
            let config = "i :: TestIn -> e :: SetUDPChecksum -> c :: CheckUDPHeader -> o0 :: TestOut;";
            assert_eq!(Rig::text(config).burst(burst).packets(broken).run().out("o0").len(), 2);
            let broken = vec![change(tcp(b"hello"), 36, 9), change(tcp(b"odd"), 40, 77)];
            let config = "i :: TestIn -> e :: SetTCPChecksum -> c :: CheckTCPHeader -> o0 :: TestOut;";
            assert_eq!(Rig::text(config).burst(burst).packets(broken).run().out("o0").len(), 2);
        }
    }

    #[test]
    fn fragments_and_faults() {
        let run = Rig::new("SetUDPChecksum").packets(vec![change(udp(b"hello"), 6, 0x20)]).run();
        assert_eq!(run.bytes("o0")[0][26..28], [0, 0]);
        for bad in [change(udp(b"x"), 25, 7), change(udp(b"x"), 25, 99), Packet::copy_of(b"x").unwrap()] {
            let run = Rig::new("SetUDPChecksum").packets(vec![bad]).run();
            assert_eq!(run.drops("e"), [(Reason::BadLength, 1)]);
        }
        for offset in [0x10, 0xf0] {
            let run = Rig::new("SetTCPChecksum").packets(vec![change(tcp(b"x"), 32, offset)]).run();
            assert_eq!(run.drops("e"), [(Reason::BadLength, 1)]);
            let run = Rig::new("SetTCPChecksum(true)").packets(vec![change(tcp(b"x"), 32, offset)]).run();
            assert_eq!(run.bytes("o0")[0][32], 0x50);
        }
    }

    #[test]
    fn udp_takes_no_argument() {
        assert_eq!(Rig::new("SetUDPChecksum(true)").errors(), ["e: too many arguments: 'true'"]);
    }
}
