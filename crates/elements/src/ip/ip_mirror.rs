// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPMirror
//!
//! `IPMirror([DST_ANNO])`
//!
//! Turns IP packets round: swaps source and destination address, the ports of TCP and UDP, and TCP's sequence and
//! acknowledgement number. Checksums stay right by themselves.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `DST_ANNO` boolean, default true: sets the destination annotation to the new destination.
//!
//! **Metadata:** network header position read, destination annotation set.
//!
//! **Drops:** none; packets without IP header pass unchanged.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPMirror -> Discard;
//! ```
//!
//! See also: CheckIPHeader

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPMirror", "1/1", || Box::new(IpMirror { annotate: true })).pure().forwards().file(file!());

struct IpMirror {
    annotate: bool,
}

/// Swaps the halves of `bytes`.
fn swap(bytes: &mut [u8]) {
    let (first, second) = bytes.split_at_mut(bytes.len() / 2);
    first.swap_with_slice(second);
}

/// Turns a packet round; its new destination.
fn mirror(packet: &mut Packet) -> Option<[u8; 4]> {
    let ip = packet.network_mut()?;
    let header = ip.first_chunk_mut::<20>()?;
    swap(&mut header[12..20]);
    let to = [header[16], header[17], header[18], header[19]];
    let (protocol, header_len) = (header[9], usize::from(header[0] & 15) * 4);
    if matches!(protocol, 6 | 17) && header[6] & 0x1f == 0 && header[7] == 0 {
        let transport = ip.get_mut(header_len..).filter(|t| t.len() >= 8).unwrap_or_default();
        if let Some(ports) = transport.get_mut(..4) {
            swap(ports);
        }
        if let (6, Some(numbers)) = (protocol, transport.get_mut(4..12)) {
            swap(numbers);
        }
    }
    Some(to)
}

impl Element for IpMirror {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.annotate = args.positional("DST_ANNO", true);
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            if let Some(to) = mirror(packet)
                && self.annotate
            {
                packet.set_dst_ip(to);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use crate::testing::Rig;

    #[test]
    fn turns_round() {
        for (protocol, want) in [
            (17, [2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11]),
            (6, [2, 3, 0, 1, 8, 9, 10, 11, 4, 5, 6, 7]),
            (47, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ] {
            let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 12);
            p.data_mut()[9] = protocol;
            crate::ip::samples::seal(p.data_mut());
            let run = Rig::new("IPMirror").packets(vec![p]).run();
            let out = run.out("o0");
            let bytes = out[0].data();
            assert!(sealed(bytes) && out[0].dst_ip() == [1, 2, 3, 4]);
            assert_eq!((&bytes[12..20], &bytes[20..]), (&[5, 6, 7, 8, 1, 2, 3, 4][..], &want[..]));
        }
    }

    #[test]
    fn strange_packets_pass() {
        for burst in [1, 32] {
            let run = Rig::new("IPMirror(false)").burst(burst).inputs(&[b"", b"x"]).run();
            assert_eq!(run.bytes("o0"), [&b""[..], b"x"]);
        }
        let run = Rig::new("IPMirror(false)").packets(vec![datagram(9, [1; 4], [2; 4], &[], 3)]).run();
        assert_eq!(run.out("o0")[0].dst_ip(), [0; 4]);
    }
}
