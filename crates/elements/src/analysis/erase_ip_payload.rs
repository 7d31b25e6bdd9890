// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EraseIPPayload
//!
//! `EraseIPPayload`
//!
//! Overwrites the payload of UDP and TCP packets with zeros, so that a capture of them shows no secrets.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! Of these packets the checksum becomes zero, too. Of a fragment without ports, everything behind the IP header is overwritten. ICMP
//! packets pass unchanged.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `bad-protocol`, packets of other protocols; `bad-header-length`, packets without a whole IP header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> EraseIPPayload -> Discard;
//! ```
//!
//! See also: StoreData, ToDump

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class =
    Class::new("EraseIPPayload", "1/1", || Box::new(EraseIpPayload)).pure().file(file!());

struct EraseIpPayload;

/// Overwrites a packet's payload.
fn erase(packet: &mut Packet) -> Result<(), Reason> {
    let head = *packet.network_chunk::<20>().ok_or(Reason::BadHeaderLength)?;
    let first = head[6] & 0x1f == 0 && head[7] == 0;
    let (sum, data_at): (usize, Option<usize>) = match head[9] {
        6 => (16, Some(12)),
        17 => (6, None),
        1 => return Ok(()),
        _ => return Err(Reason::BadProtocol),
    };
    let length = usize::from(head[0] & 15) * 4;
    let ip = packet.network_mut().ok_or(Reason::BadHeaderLength)?;
    let transport = ip.get_mut(length..).filter(|_| length >= 20).ok_or(Reason::BadHeaderLength)?;
    let words = data_at.map(|at| transport.get(at).map_or(5, |byte| usize::from(byte >> 4)));
    let header = if first { words.map_or(8, |words| words * 4) } else { 0 };
    if let Some(payload) = transport.get_mut(header..) {
        payload.fill(0);
    }
    if let Some(sum) = transport.get_mut(sum..sum + 2).filter(|_| first) {
        sum.fill(0);
    }
    Ok(())
}

impl Element for EraseIpPayload {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let why = std::cell::Cell::new(Reason::BadProtocol);
        let keep = |p: &mut Packet| erase(p).map_err(|reason| why.set(reason)).is_ok();
        batch.partition(keep, |p| cx.drop(why.get(), p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn check(protocol: u8, fragment: u8, payload: &[u8], want: &[u8]) {
        for burst in [1, 32] {
            let mut packet = crate::ip::samples::datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], payload.len());
            packet.data_mut()[7] = fragment;
            packet.data_mut()[9] = protocol;
            packet.data_mut()[20..].copy_from_slice(payload);
            let run = Rig::new("EraseIPPayload").burst(burst).packets(vec![packet]).run();
            assert_eq!(run.bytes("o0")[0][20..], *want);
        }
    }

    #[test]
    fn headers_stay_and_payloads_go() {
        check(17, 0, b"\0\x01\0\x02\0\x0bssabc", b"\0\x01\0\x02\0\x0b\0\0\0\0\0");
        check(17, 1, b"later", &[0; 5]);
        check(1, 0, b"pings stay", b"pings stay");
        let mut tcp = [7; 27];
        tcp[12] = 0x60;
        let mut want = tcp;
        want[16..18].fill(0);
        want[24..].fill(0);
        check(6, 0, &tcp, &want);
        check(6, 0, &[7; 5], &[7; 5]);
    }

    #[test]
    fn other_packets_are_dropped() {
        let mut other = crate::ip::samples::datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4);
        other.data_mut()[9] = 47;
        let run = Rig::new("EraseIPPayload").packets(vec![other, Packet::copy_of(b"x").unwrap()]).run();
        assert_eq!(run.drops("e"), [(Reason::BadHeaderLength, 1), (Reason::BadProtocol, 1)]);
    }
}
