// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMP6PingResponder
//!
//! `ICMP6PingResponder([SRC, keyword ANYCAST])`
//!
//! Turns ICMPv6 echo requests into replies.
//!
//! **Ports:** 1 input; output 0 for replies; output 1, if connected, for packets that are no echo requests or must not
//! be answered.
//!
//! **Arguments**
//! * `SRC` source address of replies to requests that were sent to a multicast address; without it they leave by
//!   output 1.
//! * `ANYCAST` source address of replies to requests that were sent to an anycast address (RFC 4443, 2.2), which their
//!   fix-source annotation says: `SetAnnoByte(FIX_IP_SRC, 1)` where such packets come by. Default SRC.
//!
//! **Metadata:** network header position and fix-source annotation read; the latter is cleared; header positions, destination annotation and timestamp of replies
//! set. Replies keep their paint, which may say by which interface a link-local neighbour is reached.
//!
//! **Drops:** `bad-protocol`, what leaves by output 1 when that is not connected.
//!
//! The reply carries all data of the request, with hop limit 64 and without extension headers; link headers before the
//! IPv6 header are left as they are. The request's checksum is for CheckICMP6Header to look at: a wrong one stays wrong.
//! Requests whose source is unspecified, loopback or multicast cannot be answered, nor can fragments.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> CheckICMP6Header -> ICMP6PingResponder -> Discard;
//! ```
//!
//! See also: CheckICMP6Header, IP6Reassembler, IP6Mirror, ICMPPingResponder. RFC 4443 (4.1, 4.2)

use std::net::Ipv6Addr;

use element::args::Args;
use element::{Class, Cx, Element, Reason, Rehearsal};
use packet::{Batch, Packet, anno};
use wire::checksum::{update16, update32};
use wire::icmpv6::Type;
use wire::{Protocol, ipv6};

use super::{HEADER_LEN, destination, header, source};

/// The descriptor.
pub const CLASS: Class = Class::new("ICMP6PingResponder", "1/1-2", || Box::<Icmp6PingResponder>::default())
    .processing("a/ah")
    .rehearsal::<Icmp6PingResponder>()
    .file(file!());

#[derive(Clone, Default)]
struct Icmp6PingResponder {
    src: Option<Ipv6Addr>,
    anycast: Option<Ipv6Addr>,
}

impl Icmp6PingResponder {
    /// Where the request's ICMP header begins, behind the fixed header, and the reply's source; `None` for what cannot
    /// be answered.
    fn request(&self, packet: &Packet) -> Option<(usize, Ipv6Addr)> {
        let h = header(packet)?;
        let (from, to) = (source(h), destination(h));
        if from.is_unspecified() || from.is_loopback() || from.is_multicast() {
            return None;
        }
        let end = HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
        let payload = packet.network()?.get(HEADER_LEN..end)?;
        let upper = ipv6::upper_layer(Protocol(h[6]), payload).ok()?;
        let whole = upper.fragment.is_none_or(|f| f.offset == 0 && !f.more);
        let icmp = payload.get(upper.offset..)?;
        let ours = upper.protocol == Protocol::ICMPV6
            && whole
            && icmp.len() >= 8
            && Type(icmp[0]) == Type::ECHO
            && icmp[1] == 0;
        let src = match () {
            () if to.is_multicast() => self.src?,
            () if packet.anno_u8(anno::FIX_IP_SRC) != 0 => self.anycast.or(self.src)?,
            () => to,
        };
        ours.then_some((upper.offset, src))
    }

    /// Makes a reply of a request.
    fn reply(&self, packet: &mut Packet, now_ns: u64) -> Option<()> {
        let (extensions, src) = self.request(packet)?;
        let ip_at = packet.len() - packet.network()?.len();
        if extensions > 0 {
            // The headers move up to the message.
            let mac = packet.mac_offset();
            let headers_end = ip_at + HEADER_LEN;
            packet.data_mut().copy_within(..headers_end, extensions);
            packet.strip(extensions);
            packet.set_network(ip_at, HEADER_LEN);
            if let Some(mac) = mac {
                packet.set_mac_offset(mac);
            }
        }
        let ip = &mut packet.data_mut()[ip_at..];
        let (h, icmp) = ip.split_first_chunk_mut::<HEADER_LEN>()?;
        let payload_len = u16::from_be_bytes([h[4], h[5]]).checked_sub(extensions as u16)?;
        let (from, to) = (source(h), destination(h));
        h[4..6].copy_from_slice(&payload_len.to_be_bytes());
        (h[6], h[7]) = (Protocol::ICMPV6.0, 64);
        h[8..24].copy_from_slice(&src.octets());
        h[24..].copy_from_slice(&from.octets());
        let mut sum = update16(u16::from_be_bytes([icmp[2], icmp[3]]), 0x8000, 0x8100);
        if src != to {
            // The source is part of what is summed; a group's address gives way to ours.
            for (old, new) in to.octets().chunks(4).zip(src.octets().chunks(4)) {
                let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
                sum = update32(sum, word(old), word(new));
            }
        }
        icmp[0] = Type::ECHO_REPLY.0;
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.set_network(ip_at, HEADER_LEN);
        packet.set_anno(anno::DST_IP, from.octets());
        packet.set_anno_u8(anno::FIX_IP_SRC, 0);
        packet.set_timestamp_ns(now_ns);
        Some(())
    }
}

impl Element for Icmp6PingResponder {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.src = args.positional_opt("SRC");
        self.anycast = args.keyword_opt("ANYCAST");
        for (name, address) in [("SRC", self.src), ("ANYCAST", self.anycast)] {
            if address.is_some_and(|a| a.is_multicast() || a.is_unspecified()) {
                args.error(format!("{name} must be an address of this host"));
            }
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let now_ns = cx.wall();
        let answer = |p: &mut Packet| self.reply(p, now_ns).is_some();
        batch.partition(answer, |p| cx.push_one_or_drop(1, p, Reason::BadProtocol));
        batch
    }
}

impl Rehearsal for Icmp6PingResponder {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    const FROM: &str = "2001:db8::1";
    const TO: &str = "2001:db8::2";

    /// An echo request behind these extension headers.
    fn request(to: &str, next: u8, extensions: &[u8], data: &[u8]) -> Packet {
        let mut icmp = [&[128, 0, 0, 0, 1, 2, 3, 4][..], data].concat();
        let (src, dst) = (FROM.parse().unwrap(), to.parse().unwrap());
        wire::icmpv6::View::new_checked(&mut icmp[..]).unwrap().fill_checksum(src, dst);
        packet(FROM, to, next, 9, &[extensions, &icmp].concat())
    }

    // conformance: RFC8200-8.4-a RFC4443-4.2-a RFC4443-4.2-b RFC4443-4.2-c RFC4443-4.2-d
    #[test]
    fn answers_requests() {
        let check = |config: &str, to: &str, next: u8, extensions: &[u8], data: &[u8], src: &str| {
            for burst in [1, 32] {
                let other = packet(FROM, TO, 17, 9, data);
                let rig = Rig::new(config).outputs(2).burst(burst);
                let run = rig.packets(vec![other, request(to, next, extensions, data)]).run();
                let out = run.out("o0");
                let view = ipv6::View::new_checked(out[0].data()).unwrap();
                let icmp = wire::icmpv6::View::new_checked(view.payload()).unwrap();
                assert_eq!((view.src().to_string(), view.dst().to_string()), (src.into(), FROM.into()));
                assert_eq!((view.hop_limit(), view.next_header()), (64, Protocol::ICMPV6));
                assert_eq!(icmp.to_string(), "icmp6 echo-reply (258, 772)");
                assert!(icmp.checksum_ok(view.src(), view.dst()) && icmp.payload() == data);
                assert_eq!((out[0].len(), out[0].transport_offset()), (48 + data.len(), Some(40)));
                assert_eq!(out[0].anno::<16>(anno::DST_IP), view.dst().octets());
                assert_eq!(run.out("o1").len(), 1);
            }
        };
        let plain = "ICMP6PingResponder";
        check(plain, TO, 58, &[], b"", TO);
        check(plain, TO, 58, &[], &[7; 1400], TO);
        check(plain, TO, 60, &[58, 0, 1, 4, 0, 0, 0, 0], b"odd", TO);
        check(plain, TO, 43, &[58, 0, 0, 0, 0, 0, 0, 0], b"routed", TO);
        check(plain, TO, 44, &[58, 0, 0, 0, 0, 0, 0, 1], b"atom", TO);
        check("ICMP6PingResponder(2001:db8::3)", "ff02::1", 58, &[], b"all", "2001:db8::3");
    }

    // conformance: RFC4443-2.4-b
    #[test]
    fn others_leave_by_output_1() {
        let reply = packet(FROM, TO, 58, 9, &[129, 0, 0, 0, 0, 0, 0, 0]);
        let fragment = request(TO, 44, &[58, 0, 0, 1, 0, 0, 0, 1], b"part");
        let mut from_nowhere = request(TO, 58, &[], b"");
        from_nowhere.data_mut()[8..24].fill(0);
        let unknown = packet(FROM, TO, 58, 9, &[200, 0, 0, 0, 0, 0, 0, 0]);
        let short = packet(FROM, TO, 58, 9, &[128, 0, 0, 0]);
        let group = request("ff02::1", 58, &[], b"");
        let strange = Packet::copy_of(b"x").unwrap();
        let run = Rig::new("ICMP6PingResponder")
            .packets(vec![reply, unknown, fragment, from_nowhere, short, group, strange])
            .run();
        assert_eq!((run.drops("e"), run.out("o0").len()), (vec![(Reason::BadProtocol, 7)], 0));
        assert_eq!(
            Rig::new("ICMP6PingResponder(ff02::1)").errors(),
            ["e: SRC must be an address of this host"]
        );
    }
}
