// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ProtocolTranslator46, ProtocolTranslator64
//!
//! `ProtocolTranslator46`, `ProtocolTranslator64`
//!
//! Translate IPv4 packets to IPv6 packets, and back, without state (SIIT).
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! Packets begin with their IP header. An IPv4 address a.b.c.d stands for ::ffff:a.b.c.d, and the other way round; an
//! AddressTranslator or a rewriter gives packets other addresses. TCP and UDP keep their ports and get right checksums. ICMP messages
//! become ICMPv6 messages, with the packet that an error quotes, and the other way round. Type of service and time to live stay as
//! they are. IPv4 options are left out, and so are IPv6 hop-by-hop and destination options and used-up routing headers. Fragments stay fragments; a packet that was whole as IPv6 may not be fragmented as IPv4.
//!
//! **Metadata set:** network and transport header positions; destination annotation.
//!
//! **Drops**
//! * `bad-version`, `bad-header-length`, `bad-length`: packets that are damaged.
//! * `bad-destination`: IPv6 packets with an address that stands for no IPv4 address.
//! * `bad-protocol`: messages that have no counterpart, IGMP among them, and IPv6 packets with other extension headers.
//! * `source-routed`: packets that are still to go by way of other addresses that they name.
//! * `bad-fragment`: fragments of ICMP. `bad-checksum`: fragments of UDP without a checksum, and damaged ICMP messages.
//! * `too-long`: packets that would exceed 65,535 bytes. `no-memory`.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> ProtocolTranslator46 -> CheckIP6Header
//!   -> ProtocolTranslator64 -> CheckIPHeader -> Discard;
//! ```
//!
//! See also: CheckIPHeader, CheckIP6Header. RFC 7915

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

use super::siit::{Addresses, Translation};

/// The descriptor of the element that makes IPv6 packets.
pub const TO_IP6: Class =
    Class::new("ProtocolTranslator46", "1/1", || Box::new(ProtocolTranslator::new(true)))
        .pure()
        .file(file!());

/// The descriptor of the element that makes IPv4 packets.
pub const TO_IP4: Class =
    Class::new("ProtocolTranslator64", "1/1", || Box::new(ProtocolTranslator::new(false)))
        .pure()
        .file(file!());

struct ProtocolTranslator {
    to_ip6: bool,
    translation: Translation,
}

/// The prefix of addresses that stand for IPv4 addresses.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// ::ffff:a.b.c.d for a.b.c.d.
struct Mapped;

impl Addresses for Mapped {
    fn six(&self, four: [u8; 4]) -> Option<[u8; 16]> {
        let mut six = [0; 16];
        six[..12].copy_from_slice(&MAPPED);
        six[12..].copy_from_slice(&four);
        Some(six)
    }

    fn four(&self, six: [u8; 16]) -> Option<[u8; 4]> {
        six.strip_prefix(&MAPPED).and_then(|four| four.first_chunk().copied())
    }
}

impl ProtocolTranslator {
    fn new(to_ip6: bool) -> ProtocolTranslator {
        ProtocolTranslator { to_ip6, translation: Translation::default() }
    }

    fn translate(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let header = self.translation.translate(packet, self.to_ip6, &Mapped)?;
        match self.to_ip6 {
            true => packet.set_anno(anno::DST_IP, header.six[1]),
            false => packet.set_dst_ip(header.four[1]),
        }
        Ok(())
    }
}

impl Element for ProtocolTranslator {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let why = std::cell::Cell::new(Reason::BadVersion);
        let translate = |p: &mut Packet| self.translate(p).map_err(|reason| why.set(reason)).is_ok();
        batch.partition(translate, |p| cx.drop(why.get(), p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use wire::checksum;

    use super::*;
    use crate::testing::Rig;

    fn mapped(address: [u8; 4]) -> Vec<u8> {
        [&MAPPED[..], &address].concat()
    }

    /// An IPv4 packet from 1.2.3.4 to 5.6.7.8.
    fn ip4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let id: [u8; 2] = if fragment & 0x3fff == 0 { [0, 0] } else { [0x12, 0x34] };
        let mut bytes = vec![0x45, 0xb9, 0, 20 + payload.len() as u8, id[0], id[1]];
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([9, protocol, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let sum = checksum::internet(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        [&bytes, payload].concat()
    }

    fn udp(checksum: bool) -> Vec<u8> {
        let mut bytes = vec![0, 53, 0, 99, 0, 13, 0, 0, 1, 2, 3, 4, 5];
        if checksum {
            let sum =
                checksum::transport_v4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), wire::Protocol::UDP, &bytes);
            bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    fn ping() -> Vec<u8> {
        let mut bytes = vec![8, 0, 0, 0, 0, 7, 0, 1, 0xaa, 0xbb];
        let sum = checksum::internet(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// An ICMP error about a packet.
    fn error(kind: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
        let mut bytes = [&[kind, code, 0, 0][..], &rest, quoted].concat();
        let sum = checksum::internet(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        ip4(1, 0x4000, &bytes)
    }

    fn run(element: &str, input: &[u8]) -> Result<Vec<u8>, Reason> {
        let run = Rig::new(element).inputs(&[input]).run();
        run.bytes("o0").pop().ok_or_else(|| run.drops("e")[0].0)
    }

    fn to_ip6(input: &[u8]) -> Vec<u8> {
        run("ProtocolTranslator46", input).unwrap()
    }

    fn sum6_ok(packet: &[u8], protocol: wire::Protocol) -> bool {
        let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
        checksum::transport_v6(address(8), address(24), protocol, &packet[40..]) == 0
    }

    #[test]
    fn there_and_back_is_the_same() {
        let tcp: Vec<u8> = vec![0, 80, 1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 0, 9, 0x12, 0x34, 0, 0, 7];
        let quoted = ip4(17, 0x4000, &udp(true));
        for packet in [
            ip4(17, 0x4000, &udp(true)),
            ip4(6, 0x4000, &tcp),
            ip4(132, 0x4000, b"whatever"),
            ip4(1, 0x4000, &ping()),
            ip4(17, 0x2000, &udp(true)),
            ip4(17, 0x0007, b"later fragment"),
            error(3, 3, [0; 4], &quoted),
            error(3, 4, [0, 0, 5, 200], &quoted),
            error(3, 2, [0; 4], &quoted),
            error(11, 1, [0; 4], &quoted),
            error(12, 0, [8, 0, 0, 0], &quoted),
        ] {
            let six = to_ip6(&packet);
            assert_eq!(
                (six[0] >> 4, &six[8..24], &six[24..40]),
                (6, &mapped([1, 2, 3, 4])[..], &mapped([5, 6, 7, 8])[..])
            );
            assert_eq!(run("ProtocolTranslator64", &six).unwrap(), packet, "{six:02x?}");
        }
    }

    // conformance: RFC6146-3.4-e
    #[test]
    fn checksums_are_right() {
        for input in [udp(true), udp(false)] {
            let six = to_ip6(&ip4(17, 0, &input));
            assert_eq!(
                (&six[..8], sum6_ok(&six, wire::Protocol::UDP)),
                (&[0x6b, 0x90, 0, 0, 0, 13, 17, 9][..], true)
            );
        }
        assert!(sum6_ok(&to_ip6(&ip4(1, 0, &ping())), wire::Protocol::ICMPV6));
        let big = to_ip6(&error(3, 4, [0, 0, 5, 0xdc], &ip4(17, 0x4000, &udp(true))));
        assert!(sum6_ok(&big, wire::Protocol::ICMPV6));
        // Packet too big, of an MTU that is 20 more, with the quoted packet in IPv6.
        assert_eq!((&big[40..42], &big[44..48], big[48] >> 4), (&[2, 0][..], &1520u32.to_be_bytes()[..], 6));
        assert!(sum6_ok(&big[48..], wire::Protocol::UDP));
    }

    /// A UDP packet with an extension header, whose first byte gets the number of what follows.
    fn with_header(kind: u8, header: &[u8]) -> Vec<u8> {
        let plain = to_ip6(&ip4(17, 0x4000, &udp(true)));
        let mut all = [&plain[..40], header, &plain[40..]].concat();
        (all[5], all[40], all[6]) = (all[5] + header.len() as u8, 17, kind);
        all
    }

    /// A UDP packet with options.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let plain = ip4(17, 0x4000, &udp(true));
        let mut all = [&plain[..20], options, &plain[20..]].concat();
        (all[0], all[3]) = (0x45 + options.len() as u8 / 4, all.len() as u8);
        all
    }

    #[test]
    fn options_stay_behind() {
        let plain = ip4(17, 0x4000, &udp(true));
        for (kind, header) in [
            (0, [0, 0, 1, 4, 0, 0, 0, 0].to_vec()),
            (60, [0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()),
            (43, [0, 0, 4, 0, 0, 0, 0, 0].to_vec()),
        ] {
            assert_eq!(run("ProtocolTranslator64", &with_header(kind, &header)), Ok(plain.clone()), "{kind}");
        }
        // Options before a fragment header, and behind it.
        let piece = to_ip6(&ip4(17, 0x2000, &udp(true)));
        let mut first = [&piece[..40], &[44, 0, 1, 4, 0, 0, 0, 0], &piece[40..]].concat();
        (first[5], first[6]) = (first[5] + 8, 0);
        assert_eq!(run("ProtocolTranslator64", &first), Ok(ip4(17, 0x2000, &udp(true))));
        (first[6], first[40]) = (44, 60);
        assert_eq!(run("ProtocolTranslator64", &first), Err(Reason::BadProtocol));
        // Routes that have come to their end, and other options.
        for options in [&[131, 7, 8, 9, 9, 9, 9, 0][..], &[1, 1, 1, 0], &[148, 4, 0, 0]] {
            assert_eq!(
                run("ProtocolTranslator46", &with_options(options)),
                Ok(to_ip6(&plain)),
                "{options:?}"
            );
        }
    }

    #[test]
    fn what_has_no_counterpart_is_dropped() {
        let mut unmapped = to_ip6(&ip4(17, 0, &udp(true)));
        unmapped[12] = 1;
        let mut options = to_ip6(&ip4(17, 0, &udp(true)));
        options[6] = 135;
        let mut beyond = to_ip6(&ip4(17, 0, &udp(true)));
        beyond[6] = 60;
        for (element, input, why) in [
            ("ProtocolTranslator46", ip4(1, 0, &[13, 0, 0, 0, 0, 0, 0, 0]), Reason::BadProtocol),
            ("ProtocolTranslator46", ip4(1, 0x2000, &ping()), Reason::BadFragment),
            ("ProtocolTranslator46", ip4(17, 0x2000, &udp(false)), Reason::BadChecksum),
            ("ProtocolTranslator46", ip4(1, 0, &[8, 0, 0]), Reason::BadLength),
            ("ProtocolTranslator46", ip4(17, 0, b"x")[..20].to_vec(), Reason::BadLength),
            ("ProtocolTranslator46", vec![0x45; 9], Reason::BadHeaderLength),
            ("ProtocolTranslator64", ip4(17, 0, &[0; 40]), Reason::BadVersion),
            ("ProtocolTranslator64", unmapped, Reason::BadDestination),
            ("ProtocolTranslator64", options, Reason::BadProtocol),
            ("ProtocolTranslator64", beyond, Reason::BadHeaderLength),
            ("ProtocolTranslator64", with_header(43, &[0, 0, 4, 1, 0, 0, 0, 0]), Reason::SourceRouted),
            ("ProtocolTranslator46", ip4(2, 0, &[0x11; 8]), Reason::BadProtocol),
            ("ProtocolTranslator46", with_options(&[131, 7, 4, 9, 9, 9, 9, 0]), Reason::SourceRouted),
            ("ProtocolTranslator46", with_options(&[1, 137, 7, 4, 9, 9, 9, 9]), Reason::SourceRouted),
        ] {
            assert_eq!(run(element, &input), Err(why), "{input:02x?}");
        }
    }

    #[test]
    fn copies_are_left_alone() {
        let text = "i :: TestIn -> t :: Tee -> ProtocolTranslator46 -> o0 :: TestOut; t[1] -> o1 :: TestOut;";
        let packet = ip4(17, 0x4000, &udp(true));
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[&packet]).run();
            assert_eq!((run.bytes("o0")[0].len(), run.bytes("o1")), (53, vec![packet.clone()]));
        }
    }
}
