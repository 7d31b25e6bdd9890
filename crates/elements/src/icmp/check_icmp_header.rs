// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckICMPHeader
//!
//! `CheckICMPHeader([keywords VERBOSE, DETAILS])`
//!
//! Lets only ICMP packets with right length and checksum pass.
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
//! Errors must quote an IP header and 8 bytes; timestamps are of 20 bytes, information requests of 8.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> CheckICMPHeader -> Discard;
//! ```
//!
//! See also: CheckIPHeader, CheckUDPHeader, CheckTCPHeader. RFC 792

use std::any::Any;

use element::args::Args;
use element::{Class, Cx, Element, HandlerPart, Reason, carries};
use packet::{Batch, Packet};
use wire::icmpv4::Type;

use crate::ip::faults::{Faults, HANDLERS, payload};

/// The descriptor.
pub const CLASS: Class =
    Class::new("CheckICMPHeader", "1/1-2", || Box::new(CheckIcmpHeader(Faults::new("ICMP"))))
        .processing("a/ah")
        .handlers(HANDLERS)
        .pure()
        .hot_swap::<CheckIcmpHeader>()
        .handler_part::<CheckIcmpHeader>()
        .file(file!());

struct CheckIcmpHeader(Faults);

fn check(packet: &Packet) -> Result<(), Reason> {
    let (_, icmp) = payload(packet, 1)?;
    let kind = Type(*icmp.first().ok_or(Reason::BadLength)?);
    let fits = match kind {
        kind if kind.is_error() => icmp.len() >= 36,
        Type::TIMESTAMP | Type::TIMESTAMP_REPLY => icmp.len() == 20,
        Type::INFO_REQUEST | Type::INFO_REPLY => icmp.len() == 8,
        _ => icmp.len() >= 8,
    };
    match (fits, wire::checksum::internet(icmp)) {
        (false, _) => Err(Reason::BadLength),
        (true, 0) => Ok(()),
        _ => Err(Reason::BadChecksum),
    }
}

impl Element for CheckIcmpHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        self.0.filter(cx, batch, check)
    }
}

impl HandlerPart for CheckIcmpHeader {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

carries!(CheckIcmpHeader: 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::datagram;
    use crate::testing::Rig;

    fn message(kind: u8, len: usize) -> Packet {
        let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], len);
        p.data_mut()[9] = 1;
        let icmp = &mut p.data_mut()[20..];
        if len >= 4 {
            (icmp[0], icmp[2], icmp[3]) = (kind, 0, 0);
            let sum = wire::checksum::internet(icmp);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        p
    }

    #[test]
    fn lengths_by_type() {
        let table = [(8, 8, 7), (0, 50, 0), (3, 36, 35), (11, 40, 20), (13, 20, 21), (15, 8, 12)];
        for (kind, good, bad) in table {
            let packets = vec![message(kind, good), message(kind, bad)];
            let run = Rig::new("CheckICMPHeader").packets(packets).run();
            assert_eq!((run.out("o0").len(), run.drops("e")), (1, vec![(Reason::BadLength, 1)]), "{kind}");
        }
    }

    #[test]
    fn other_faults() {
        let mut sum = message(8, 20);
        sum.data_mut()[25] ^= 1;
        let udp = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 20);
        for burst in [1, 32] {
            let packets = vec![sum.duplicate().unwrap(), message(8, 8), udp.duplicate().unwrap()];
            let rig = Rig::new("CheckICMPHeader(DETAILS true)").outputs(2).burst(burst);
            let mut run = rig.packets(packets).run();
            assert_eq!((run.out("o0").len(), run.out("o1").len()), (1, 2));
            let details = "1\tnot ICMP\n0\tbad packet length\n1\tbad ICMP checksum\n";
            assert_eq!(run.read("e.drop_details"), details);
            assert_eq!(run.printed(), "e :: CheckICMPHeader: ICMP header check failed: bad ICMP checksum\n");
        }
    }

    #[test]
    fn takes_no_positional_argument() {
        assert_eq!(Rig::new("CheckICMPHeader(1)").errors(), ["e: too many arguments: '1'"]);
    }
}
