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
//! * `bad-fragment`: fragments of ICMP. `bad-checksum`: fragments of UDP without a checksum.
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
use packet::{Batch, Packet};
use wire::checksum::{self, Sum};
use wire::ipv4::options::{Ipv4Option, OptionIter};

use super::translated_icmp;

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
    /// An ICMP message while it is translated.
    message: Vec<u8>,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IGMP: u8 = 2;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const ICMP6: u8 = 58;

/// The prefix of addresses that stand for IPv4 addresses.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// What both kinds of header say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    tos: u8,
    ttl: u8,
    /// By its IPv4 number.
    pub(super) protocol: u8,
    /// Identification, and offset with the more-fragments bit lowest; absent for a whole packet.
    fragment: Option<(u32, u16)>,
    src: [u8; 4],
    dst: [u8; 4],
    /// Bytes of header, and of the packet as far as its length says.
    pub(super) length: usize,
    pub(super) total: usize,
}

impl Header {
    /// Reads an IPv4 header.
    pub(super) fn ip4(ip: &[u8]) -> Result<Header, Reason> {
        let head: &[u8; 20] = ip.first_chunk().ok_or(Reason::BadHeaderLength)?;
        if head[0] >> 4 != 4 {
            return Err(Reason::BadVersion);
        }
        let length = usize::from(head[0] & 15) * 4;
        if length < 20 || length > ip.len() {
            return Err(Reason::BadHeaderLength);
        }
        let field = u16::from_be_bytes([head[6], head[7]]);
        let (offset, more) = (field << 3, u16::from(field & 0x2000 != 0));
        let id = u32::from(u16::from_be_bytes([head[4], head[5]]));
        Ok(Header {
            tos: head[1],
            ttl: head[8],
            protocol: head[9],
            fragment: (offset | more != 0).then_some((id, offset | more)),
            src: [head[12], head[13], head[14], head[15]],
            dst: [head[16], head[17], head[18], head[19]],
            length,
            total: usize::from(u16::from_be_bytes([head[2], head[3]])),
        })
    }

    /// Reads an IPv6 header with addresses that stand for IPv4 addresses.
    pub(super) fn ip6(ip: &[u8]) -> Result<Header, Reason> {
        let head: &[u8; 40] = ip.first_chunk().ok_or(Reason::BadHeaderLength)?;
        if head[0] >> 4 != 6 {
            return Err(Reason::BadVersion);
        }
        let inner = |at: usize| {
            let mapped = head[at..at + 12] == MAPPED;
            mapped
                .then(|| [head[at + 12], head[at + 13], head[at + 14], head[at + 15]])
                .ok_or(Reason::BadDestination)
        };
        let (mut next, mut length, mut fragment) = (head[6], 40, None);
        // Options stay behind (RFC 7915, section 5.1).
        while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            let header: &[u8; 8] = ip[length..].first_chunk().ok_or(Reason::BadHeaderLength)?;
            if next == ROUTING && header[3] > 0 {
                return Err(Reason::SourceRouted);
            }
            (next, length) = (header[0], length + 8 + 8 * usize::from(header[1]));
            if length > ip.len() {
                return Err(Reason::BadHeaderLength);
            }
        }
        if next == FRAGMENT {
            let header: &[u8; 8] = ip[length..].first_chunk().ok_or(Reason::BadHeaderLength)?;
            let place = u16::from_be_bytes([header[2], header[3]]);
            let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            (next, length, fragment) = (header[0], length + 8, Some((id, place & 0xfff9)));
        }
        Ok(Header {
            tos: head[0] << 4 | head[1] >> 4,
            ttl: head[7],
            protocol: match next {
                ICMP6 => ICMP,
                // Extension headers have no counterpart, and what follows a fragment header must stay in its place.
                HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS | 135 | ICMP => {
                    return Err(Reason::BadProtocol);
                }
                other => other,
            },
            fragment,
            src: inner(8)?,
            dst: inner(24)?,
            length,
            total: 40 + usize::from(u16::from_be_bytes([head[4], head[5]])),
        })
    }

    /// An IPv4 packet that has no counterpart as it is (RFC 7915, sections 4.1 and 4.2).
    fn without_counterpart(&self, ip: &[u8]) -> Option<Reason> {
        let options = || OptionIter::new(ip.get(20..self.length).unwrap_or_default());
        let to_go = |option: Ipv4Option<'_>| match option {
            Ipv4Option::LooseSourceRoute(route) | Ipv4Option::StrictSourceRoute(route) => {
                route.next().is_some()
            }
            _ => false,
        };
        match self.protocol {
            IGMP => Some(Reason::BadProtocol),
            _ if options().flatten().any(|(_, option)| to_go(option)) => Some(Reason::SourceRouted),
            _ => None,
        }
    }

    fn is_first(&self) -> bool {
        self.fragment.is_none_or(|(_, place)| place & 0xfff8 == 0)
    }

    /// An IPv6 address for each of its own.
    fn mapped(&self) -> [[u8; 16]; 2] {
        [self.src, self.dst].map(|address| {
            let mut mapped = [0; 16];
            mapped[..12].copy_from_slice(&MAPPED);
            mapped[12..].copy_from_slice(&address);
            mapped
        })
    }

    /// The header of the other family, before `payload` bytes, and its length.
    pub(super) fn emit(&self, to_ip6: bool, payload: usize) -> Result<([u8; 48], usize), Reason> {
        if to_ip6 { self.emit_ip6(payload) } else { self.emit_ip4(payload) }
    }

    fn emit_ip6(&self, payload: usize) -> Result<([u8; 48], usize), Reason> {
        let more = if self.fragment.is_some() { 8 } else { 0 };
        let length = u16::try_from(payload + more).map_err(|_| Reason::TooLong)?;
        let next = if self.protocol == ICMP { ICMP6 } else { self.protocol };
        let mut header = [0; 48];
        header[..2].copy_from_slice(&[0x60 | self.tos >> 4, self.tos << 4]);
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&[if more > 0 { FRAGMENT } else { next }, self.ttl]);
        let [src, dst] = self.mapped();
        header[8..24].copy_from_slice(&src);
        header[24..40].copy_from_slice(&dst);
        if let Some((id, place)) = self.fragment {
            header[40] = next;
            header[42..44].copy_from_slice(&place.to_be_bytes());
            header[44..].copy_from_slice(&id.to_be_bytes());
        }
        Ok((header, 40 + more))
    }

    fn emit_ip4(&self, payload: usize) -> Result<([u8; 48], usize), Reason> {
        let total = u16::try_from(payload + 20).map_err(|_| Reason::TooLong)?;
        let (id, field) = match self.fragment {
            Some((id, place)) => (id as u16, place >> 3 | (place & 1) << 13),
            None => (0, 0x4000),
        };
        let mut header = [0; 20];
        header[..2].copy_from_slice(&[0x45, self.tos]);
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[6..8].copy_from_slice(&field.to_be_bytes());
        header[8..10].copy_from_slice(&[self.ttl, self.protocol]);
        header[12..16].copy_from_slice(&self.src);
        header[16..20].copy_from_slice(&self.dst);
        let sum = checksum::header20_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut bytes = [0; 48];
        bytes[..20].copy_from_slice(&header);
        Ok((bytes, 20))
    }

    /// Adds the addresses of one family to a checksum, and takes those of the other away: all else in the pseudo-header is alike.
    fn adjust(&self, sum: u16, to_ip6: bool) -> u16 {
        let four = Sum::new().bytes(&self.src).bytes(&self.dst).folded();
        let [src, dst] = self.mapped();
        let six = Sum::new().bytes(&src).bytes(&dst).folded();
        let (old, new) = if to_ip6 { (four, six) } else { (six, four) };
        !checksum::add(checksum::add(!sum, !old), new)
    }

    /// Translates what stands behind the header in place: TCP and UDP. `whole`: the bytes are all there.
    pub(super) fn transport(&self, bytes: &mut [u8], to_ip6: bool, whole: bool) -> Result<(), Reason> {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            _ => return Ok(()),
        };
        let Some(field) = bytes.get(at..at + 2).filter(|_| self.is_first()) else { return Ok(()) };
        let sum = u16::from_be_bytes([field[0], field[1]]);
        let sum = if self.protocol == UDP && sum == 0 {
            // IPv6 has no datagrams without a checksum (RFC 8200, section 8.1); of a quotation not all is there.
            if !to_ip6 || !whole {
                return Ok(());
            }
            if self.fragment.is_some() {
                return Err(Reason::BadChecksum);
            }
            let [src, dst] = self.mapped();
            checksum::transport_v6(src.into(), dst.into(), wire::Protocol::UDP, bytes)
        } else {
            self.adjust(sum, to_ip6)
        };
        let sum = if self.protocol == UDP { checksum::never_zero(sum) } else { sum };
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}

impl ProtocolTranslator {
    fn new(to_ip6: bool) -> ProtocolTranslator {
        ProtocolTranslator { to_ip6, message: Vec::new() }
    }

    fn translate(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let header = if self.to_ip6 { Header::ip4(packet.data()) } else { Header::ip6(packet.data()) }?;
        if self.to_ip6
            && let Some(reason) = header.without_counterpart(packet.data())
        {
            return Err(reason);
        }
        if header.total < header.length || header.total > packet.len() {
            return Err(Reason::BadLength);
        }
        packet.trim(packet.len() - header.total);
        packet.strip(header.length);
        if header.protocol == ICMP {
            self.translate_icmp(packet, &header)?;
        } else {
            header.transport(packet.data_mut(), self.to_ip6, true)?;
        }
        let (head, length) = header.emit(self.to_ip6, packet.len())?;
        packet.push(length).ok_or(Reason::NoMemory)?[..length].copy_from_slice(&head[..length]);
        packet.set_network(0, length);
        match self.to_ip6 {
            true => packet.set_anno(packet::anno::DST_IP, header.mapped()[1]),
            false => packet.set_dst_ip(header.dst),
        }
        Ok(())
    }

    fn translate_icmp(&mut self, packet: &mut Packet, header: &Header) -> Result<(), Reason> {
        if header.fragment.is_some() {
            return Err(Reason::BadFragment);
        }
        self.message.clear();
        translated_icmp::translate(packet.data(), self.to_ip6, &mut self.message)?;
        let [src, dst] = header.mapped();
        let sum = match self.to_ip6 {
            true => checksum::transport_v6(src.into(), dst.into(), wire::Protocol::ICMPV6, &self.message),
            false => checksum::internet(&self.message),
        };
        self.message[2..4].copy_from_slice(&sum.to_be_bytes());
        let (before, after) = (packet.len(), self.message.len());
        if after > before {
            packet.put(after - before).ok_or(Reason::NoMemory)?;
        } else {
            packet.trim(before - after);
        }
        packet.data_mut().copy_from_slice(&self.message);
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
