// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Mirror
//!
//! `IP6Mirror`
//!
//! Turns IPv6 packets round: swaps source and destination address, and the ports of TCP and UDP. Checksums stay right
//! by themselves.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata:** network header position read, destination annotation set to the new destination.
//!
//! **Drops:** none; packets without IPv6 header pass unchanged.
//!
//! Ports behind extension headers are found; fragments other than the first have none.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> IP6Mirror -> Discard;
//! ```
//!
//! See also: CheckIP6Header, IPMirror, ICMP6PingResponder

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, Packet, anno};
use wire::Protocol;

use super::HEADER_LEN;

/// The descriptor.
pub const CLASS: Class =
    Class::new("IP6Mirror", "1/1", || Box::new(Ip6Mirror)).pure().forwards().file(file!());

struct Ip6Mirror;

/// Turns a packet round; its new destination.
fn mirror(packet: &mut Packet) -> Option<[u8; 16]> {
    let ip = packet.network_mut()?;
    let (header, payload) = ip.split_first_chunk_mut::<HEADER_LEN>()?;
    let (from, to) = header[8..].split_at_mut(16);
    from.swap_with_slice(to);
    let destination = *header[24..].first_chunk::<16>()?;
    if let Ok(upper) = wire::ipv6::upper_layer(Protocol(header[6]), payload)
        && matches!(upper.protocol, Protocol::TCP | Protocol::UDP)
        && upper.fragment.is_none_or(|f| f.offset == 0)
        && let Some(ports) = payload.get_mut(upper.offset..upper.offset + 8)
    {
        let (from, to) = ports[..4].split_at_mut(2);
        from.swap_with_slice(to);
    }
    Some(destination)
}

impl Element for Ip6Mirror {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            if let Some(to) = mirror(packet) {
                packet.set_anno(anno::DST_IP, to);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::{bytes, packet};
    use crate::testing::Rig;

    #[test]
    fn turns_round() {
        let plain = [0, 1, 2, 3, 4, 5, 6, 7];
        let turned = [2, 3, 0, 1, 4, 5, 6, 7];
        let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let check = |next: u8, payload: &[u8], want: &[u8]| {
            for burst in [1, 32] {
                let p = packet("2001:db8::1", "2001:db8::2", next, 9, payload);
                let run = Rig::new("IP6Mirror").burst(burst).packets(vec![p]).run();
                let out = run.out("o0");
                assert_eq!(out[0].data(), bytes("2001:db8::2", "2001:db8::1", next, 9, want));
                assert_eq!(out[0].anno::<16>(anno::DST_IP)[..], out[0].data()[24..40]);
            }
        };
        check(17, &plain, &turned);
        check(6, &plain, &turned);
        check(58, &plain, &plain);
        check(17, &plain[..7], &plain[..7]);
        check(60, &[options(17), plain].concat(), &[options(17), turned].concat());
        let later = [17, 0, 0, 8, 0, 0, 0, 1];
        check(44, &[later, plain].concat(), &[later, plain].concat());
    }

    #[test]
    fn strange_packets_pass() {
        let run = Rig::new("IP6Mirror").inputs(&[b"", b"x"]).run();
        assert_eq!(run.bytes("o0"), [&b""[..], b"x"]);
    }
}
