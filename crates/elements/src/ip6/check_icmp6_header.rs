// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckICMP6Header
//!
//! `CheckICMP6Header([keywords VERBOSE, DETAILS])`
//!
//! Lets only ICMPv6 packets with possible length and right checksum pass.
//!
//! **Ports:** 1 input; output 0 for good packets; output 1, if connected, for others.
//!
//! **Arguments**
//! * `VERBOSE` boolean, default false: print every bad packet's fault, not only the first.
//! * `DETAILS` boolean, default false: the handler `drop_details` counts by fault.
//!
//! **Metadata:** network header position read; transport header position set to the ICMPv6 header.
//!
//! **Drops** (when output 1 is not connected): `bad-protocol`, `bad-length`, `bad-checksum`.
//!
//! **Handlers**
//! * `drops` read: bad packets. `drop_details` read: the same by fault, with DETAILS.
//!
//! Extension headers before the message are passed over. Errors must quote at least an IPv6 header. Fragments, whose
//! checksum cannot be looked at, are of bad length.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> CheckICMP6Header -> Discard;
//! ```
//!
//! See also: CheckIP6Header, ICMP6PingResponder, CheckICMPHeader. RFC 4443 (2.3)

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, HandlerPart, Reason, carries};
use packet::{Batch, Packet};
use wire::icmpv6::Type;
use wire::{Protocol, ipv6};

use super::{HEADER_LEN, destination, header, source};
use crate::ip::faults::{Faults, HANDLERS};

/// The descriptor.
pub const CLASS: Class =
    Class::new("CheckICMP6Header", "1/1-2", || Box::new(CheckIcmp6Header(Faults::new("ICMP6"))))
        .processing("a/ah")
        .handlers(HANDLERS)
        .pure()
        .hot_swap::<CheckIcmp6Header>()
        .handler_part::<CheckIcmp6Header>()
        .file(file!());

struct CheckIcmp6Header(Faults);

/// Where the message begins, behind the fixed header.
fn check(packet: &Packet) -> Result<usize, Reason> {
    let h = header(packet).ok_or(Reason::BadProtocol)?;
    let end = HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
    let ip = packet.network().unwrap_or_default();
    let payload = ip.get(HEADER_LEN..end).ok_or(Reason::BadLength)?;
    let upper = ipv6::upper_layer(Protocol(h[6]), payload).map_err(|_| Reason::BadLength)?;
    if upper.protocol != Protocol::ICMPV6 {
        return Err(Reason::BadProtocol);
    }
    if upper.fragment.is_some_and(|f| f.offset > 0 || f.more) {
        return Err(Reason::BadLength);
    }
    let icmp = payload.get(upper.offset..).unwrap_or_default();
    let least = match icmp.first().map(|kind| Type(*kind)) {
        Some(kind) if kind.is_error() => 8 + HEADER_LEN,
        Some(Type::NEIGHBOR_SOLICIT | Type::NEIGHBOR_ADVERT | Type::MLD_QUERY) => 24,
        Some(Type::REDIRECT) => 40,
        Some(Type::ROUTER_ADVERT) => 16,
        _ => 8,
    };
    if icmp.len() < least {
        return Err(Reason::BadLength);
    }
    let good = wire::checksum::transport_v6_ok(source(h), destination(h), Protocol::ICMPV6, icmp);
    if good { Ok(upper.offset) } else { Err(Reason::BadChecksum) }
}

impl Element for CheckIcmp6Header {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let mut batch = self.0.filter(cx, batch, |p| check(p).map(|_| ()));
        for packet in batch.iter_mut() {
            if header(packet).is_some_and(|h| h[6] != Protocol::ICMPV6.0)
                && let (Ok(offset), Some(ip_at)) = (check(packet), packet.network_offset())
            {
                packet.set_transport_offset(ip_at + (HEADER_LEN + offset) as i32);
            }
        }
        batch
    }
}

impl HandlerPart for CheckIcmp6Header {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

carries!(CheckIcmp6Header: 0);

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    fn message(next: u8, extensions: &[u8], kind: u8, len: usize) -> Packet {
        let (from, to) = ("2001:db8::1", "2001:db8::2");
        let mut icmp = vec![0; len];
        if let [first, _, _, _, ..] = &mut icmp[..] {
            *first = kind;
            let sum = wire::checksum::transport_v6(
                from.parse().unwrap(),
                to.parse().unwrap(),
                Protocol::ICMPV6,
                &icmp,
            );
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        packet(from, to, next, 9, &[extensions, &icmp].concat())
    }

    #[test]
    fn lengths_by_type() {
        let table = [(128, 8, 7), (1, 48, 47), (135, 24, 23), (137, 40, 39), (134, 16, 15), (200, 8, 3)];
        for (kind, good, bad) in table {
            let packets = vec![message(58, &[], kind, good), message(58, &[], kind, bad)];
            let run = Rig::new("CheckICMP6Header").packets(packets).run();
            assert_eq!((run.out("o0").len(), run.drops("e")), (1, vec![(Reason::BadLength, 1)]), "{kind}");
        }
    }

    #[test]
    fn other_faults() {
        let mut sum = message(58, &[], 128, 20);
        sum.data_mut()[50] ^= 1;
        let udp = packet("::1", "::2", 17, 9, &[0; 8]);
        let options = message(60, &[58, 0, 1, 4, 0, 0, 0, 0], 128, 8);
        let fragment = message(44, &[58, 0, 0, 1, 0, 0, 0, 1], 128, 8);
        for burst in [1, 32] {
            let packets = [&sum, &options, &udp, &fragment].map(|p| p.duplicate().unwrap()).into();
            let rig = Rig::new("CheckICMP6Header(DETAILS true)").outputs(2).burst(burst);
            let mut run = rig.packets(packets).run();
            let out = run.out("o0");
            assert_eq!((out.len(), out[0].transport_offset(), run.out("o1").len()), (1, Some(48), 3));
            let details = "1\tnot ICMP6\n1\tbad packet length\n1\tbad ICMP6 checksum\n";
            assert_eq!(run.read("e.drop_details"), details);
            assert_eq!(
                run.printed(),
                "e :: CheckICMP6Header: ICMP6 header check failed: bad ICMP6 checksum\n"
            );
        }
    }
}
