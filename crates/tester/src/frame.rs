// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test frames: Ethernet, IPv4 or IPv6 with or without [extension headers](crate::extension), UDP, and the
//! [signature](crate::signature) at the head of the payload.
//!
//! A flow's frames differ in their signature and UDP checksum alone. So each flow has a template, and a frame is a copy of it with 20
//! bytes written anew; the checksum comes from the template's sum and the signature's.

use std::net::IpAddr;

use ports::live::stream::Frame;
use serde::{Deserialize, Serialize};
use wire::{EtherType, MacAddr, Protocol, checksum, ethernet, ipv4, ipv6, udp};

use crate::extension::{self, Extension};
use crate::signature::{self, Signature, SignatureKey};

/// The frame check sequence, which sizes include and buffers do not.
pub const FCS: usize = 4;
/// The smallest test frame, with FCS, of these addresses' family: 64 or 84 bytes, and what extension headers take.
pub fn smallest(address: IpAddr, headers: &[Extension]) -> usize {
    let network = if address.is_ipv4() { 20 } else { ipv6::HEADER_LEN + extension::length(headers) };
    ethernet::HEADER_LEN + network + udp::HEADER_LEN + signature::LEN + FCS
}

/// The smallest frame of all in its buffer: of IPv4. Most are that short when it matters how long they take.
const SHORT: usize = 60;
/// Its UDP segment.
const SHORT_SEGMENT: usize = udp::HEADER_LEN + signature::LEN;

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The tester's Ethernet address.
    #[serde(with = "mac")]
    pub src_mac: MacAddr,
    /// The device's.
    #[serde(with = "mac")]
    pub dst_mac: MacAddr,
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

/// Ethernet addresses as data.
pub mod mac {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use wire::MacAddr;

    /// Writes six bytes.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(address: &MacAddr, serializer: S) -> Result<S::Ok, S::Error> {
        address.0.serialize(serializer)
    }

    /// Reads six bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddr, D::Error> {
        <[u8; 6]>::deserialize(deserializer).map(MacAddr)
    }
}

/// What all frames of a flow have in common.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    /// Where the UDP checksum stands; the signature follows at once.
    checksum_at: usize,
    /// What the UDP checksum sums up apart from the signature.
    sum: u16,
}

impl Template {
    /// Frames of `size` bytes with FCS; those of IPv6 have these extension headers. None if the addresses are of two families, or
    /// the size has no room for a signature.
    pub fn new(flow: &Flow, size: usize, headers: &[Extension]) -> Option<Template> {
        if size < smallest(flow.src, headers) || size > usize::from(u16::MAX) {
            return None;
        }
        let mut bytes = vec![0; size - FCS];
        let payload = bytes.len() - ethernet::HEADER_LEN;
        let (kind, header) = match flow.src {
            IpAddr::V4(_) => (EtherType::IPV4, 20),
            IpAddr::V6(_) => (EtherType::IPV6, ipv6::HEADER_LEN + extension::length(headers)),
        };
        ethernet::Repr { dst: flow.dst_mac, src: flow.src_mac, ethertype: kind }.emit(&mut bytes).ok()?;
        let network = &mut bytes[ethernet::HEADER_LEN..];
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let repr = ipv4::Repr {
                    src,
                    dst,
                    protocol: Protocol::UDP,
                    payload_len: (payload - header) as u16,
                    ttl: 64,
                    ..ipv4::Repr::default()
                };
                repr.emit(network).ok()?;
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = ipv6::Repr {
                    src,
                    dst,
                    next_header: headers.first().map_or(Protocol::UDP, |first| first.protocol()),
                    payload_len: (payload - ipv6::HEADER_LEN) as u16,
                    hop_limit: 64,
                    ..ipv6::Repr::default()
                };
                repr.emit(network).ok()?;
                extension::emit(headers, dst, &mut network[ipv6::HEADER_LEN..header]);
            }
            _ => return None,
        }
        let segment = &mut network[header..];
        let payload_len = (segment.len() - udp::HEADER_LEN) as u16;
        udp::Repr { src_port: flow.src_port, dst_port: flow.dst_port, payload_len }.emit(segment).ok()?;
        // Bytes that a device with compression or a path with stuck bits would show.
        for (i, byte) in segment[udp::HEADER_LEN + signature::LEN..].iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(0x9d) ^ 0x5a;
        }
        segment[6..8].fill(0);
        let sum = !transport(flow.src, flow.dst, segment)?;
        Some(Template { bytes, checksum_at: ethernet::HEADER_LEN + header + 6, sum })
    }

    /// The frame's length without FCS.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// For a source that generates the frames of this flow.
    pub(crate) fn generated(&self, flow: u32) -> Frame {
        let Template { bytes, checksum_at, sum } = self;
        Frame { bytes: bytes.clone(), checksum_at: *checksum_at, sum: *sum, flow }
    }

    /// Writes a frame into a buffer of [`Template::len`] bytes.
    #[inline]
    pub fn write(&self, key: &SignatureKey, signature: Signature, frame: &mut [u8]) {
        let signed = key.sign(signature);
        // Zero would mean that there is none (RFC 768).
        let sum = checksum::never_zero(!checksum::add(self.sum, checksum::sum_array(&signed)));
        match (<&mut [u8; SHORT]>::try_from(&mut *frame), <&[u8; SHORT]>::try_from(&*self.bytes)) {
            (Ok(frame), Ok(bytes)) => *frame = *bytes,
            _ => frame.copy_from_slice(&self.bytes),
        }
        let own = &mut frame[self.checksum_at..][..2 + signature::LEN];
        own[..2].copy_from_slice(&sum.to_be_bytes());
        own[2..].copy_from_slice(&signed);
    }
}

fn transport(src: IpAddr, dst: IpAddr, segment: &[u8]) -> Option<u16> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(checksum::transport_v4(src, dst, Protocol::UDP, segment)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(checksum::transport_v6(src, dst, Protocol::UDP, segment)),
        _ => None,
    }
}

/// What a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// One of this trial's.
    Test(Signature),
    /// A whole test frame, but of another trial.
    Old,
    /// Looks like a test frame, but is damaged.
    Damaged,
    /// Anything else: what devices say to each other, errors, other people's traffic.
    Foreign,
}

/// Determines what a frame is. Ports distinguish test frames from others, for a device may change all else.
#[inline]
pub fn read(frame: &[u8], key: &SignatureKey, dst_ports: &std::ops::RangeInclusive<u16>) -> Received {
    let Some(layer) = ethernet::network_layer(frame) else { return Received::Foreign };
    let Some(packet) = frame.get(layer.offset..) else { return Received::Foreign };
    let found = match layer.ethertype {
        EtherType::IPV4 => read4(packet),
        EtherType::IPV6 => read6(packet),
        _ => None,
    };
    let Some((segment, whole)) = found else { return Received::Foreign };
    let Some(([_, _, port @ .., _, _, _, _], payload)) = segment.split_first_chunk::<8>() else {
        return Received::Foreign;
    };
    if !dst_ports.contains(&u16::from_be_bytes(*port)) {
        return Received::Foreign;
    }
    let signature = payload.first_chunk().and_then(|bytes| key.read(bytes));
    match signature {
        _ if !whole => Received::Damaged,
        Some(signature) => Received::Test(signature),
        // Damage would show in the checksum: another key signed it.
        None if payload.len() >= signature::LEN => Received::Old,
        None => Received::Damaged,
    }
}

/// The addresses that stand where a test frame has them, even if the rest of it is damaged.
pub fn addresses(frame: &[u8]) -> [Option<(IpAddr, IpAddr)>; 2] {
    let at = ethernet::network_layer(frame).map_or(ethernet::HEADER_LEN, |layer| layer.offset);
    let [four, six] = [12, 8].map(|offset| frame.get(at + offset..).unwrap_or_default());
    let four = four
        .first_chunk::<8>()
        .map(|[a, b, c, d, e, f, g, h]| ([*a, *b, *c, *d].into(), [*e, *f, *g, *h].into()));
    let six = six.first_chunk::<16>().zip(six.get(16..).and_then(|rest| rest.first_chunk::<16>()));
    [four, six.map(|(src, dst)| ((*src).into(), (*dst).into()))]
}

/// The UDP segment of an IPv4 packet, and whether it is all there, fills its frame (RFC 2544 10: as long as expected; no test frame is so
/// short that Ethernet fills it up), and has the right checksum.
#[inline]
fn read4(packet: &[u8]) -> Option<(&[u8], bool)> {
    let header = packet.first_chunk::<20>()?;
    if header[9] != Protocol::UDP.0 || header[0] >> 4 != 4 {
        return None;
    }
    let begin = usize::from(header[0] & 15) * 4;
    let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let segment = packet.get(begin..end.min(packet.len()))?;
    let [a, b, c, d, e, f, g, h] = *header.last_chunk::<8>()?;
    let sum = match <&[u8; SHORT_SEGMENT]>::try_from(segment) {
        Ok(segment) => checksum::sum_array(segment),
        Err(_) => checksum::sum(segment),
    };
    let pseudo =
        checksum::pseudo_v4([a, b, c, d].into(), [e, f, g, h].into(), Protocol::UDP, segment.len() as u16);
    Some((segment, checksum::add(pseudo, sum) == 0xffff && end == packet.len()))
}

/// The same of an IPv6 packet. The routing header of a test frame names the destination itself, so that the checksum is the same
/// with it and without.
#[inline]
fn read6(packet: &[u8]) -> Option<(&[u8], bool)> {
    let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let rest = &packet[ipv6::HEADER_LEN..];
    let payload = &rest[..len.min(rest.len())];
    let segment =
        if header[6] == Protocol::UDP.0 { payload } else { behind_extensions(Protocol(header[6]), payload)? };
    let src: [u8; 16] = *header[8..].first_chunk()?;
    let dst: [u8; 16] = *header[24..].first_chunk()?;
    let right = checksum::transport_v6_ok(src.into(), dst.into(), Protocol::UDP, segment);
    Some((segment, right && len == rest.len()))
}

/// The UDP segment behind extension headers.
fn behind_extensions(first: Protocol, payload: &[u8]) -> Option<&[u8]> {
    let upper = ipv6::upper_layer(first, payload).ok()?;
    let whole = upper.fragment.is_none_or(|fragment| fragment.offset == 0 && !fragment.more);
    (upper.protocol == Protocol::UDP && whole).then(|| payload.get(upper.offset..)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: std::ops::RangeInclusive<u16> = 7..=7;

    fn flow(src: &str, dst: &str) -> Flow {
        Flow {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            src: src.parse().expect("an address"),
            dst: dst.parse().expect("an address"),
            src_port: 4000,
            dst_port: 7,
        }
    }

    fn flows() -> [Flow; 2] {
        [flow("10.0.0.2", "10.0.1.2"), flow("2001:db8::2", "2001:db8:1::2")]
    }

    #[test]
    fn frames_of_all_sizes_are_whole() {
        let key = SignatureKey::new(1);
        for flow in flows() {
            let least = smallest(flow.src, &[]);
            assert!(Template::new(&flow, least - 1, &[]).is_none());
            for size in [least, least + 1, 128, 512, 1518, 9018] {
                let template = Template::new(&flow, size, &[]).expect("a template");
                let mut frame = vec![0; template.len()];
                assert_eq!(frame.len(), size - FCS);
                for sequence in 0..300 {
                    let signature = Signature { flow: 9, sequence, departure_ns: 12345 };
                    template.write(&key, signature, &mut frame);
                    assert_eq!(read(&frame, &key, &PORTS), Received::Test(signature), "{size} {sequence}");
                }
            }
        }
        assert_eq!(flows().map(|f| smallest(f.src, &[])), [64, 84]);
        assert!(Template::new(&flow("10.0.0.2", "::1"), 128, &[]).is_none());
    }

    #[test]
    fn extension_headers_stand_between_and_count_with_the_size() {
        use extension::{CHAIN, Extension};
        let (key, [four, six]) = (SignatureKey::new(1), flows());
        let signature = Signature { flow: 9, sequence: 1, departure_ns: 12345 };
        for headers in [&CHAIN[..], &[Extension::HopByHop], &[Extension::Authentication]] {
            let least = smallest(six.src, headers);
            assert_eq!(least, 84 + extension::length(headers));
            assert!(Template::new(&six, least - 1, headers).is_none());
            for size in [least, 256, 1518] {
                let template = Template::new(&six, size, headers).expect("a template");
                let mut frame = vec![0; template.len()];
                template.write(&key, signature, &mut frame);
                assert_eq!(read(&frame, &key, &PORTS), Received::Test(signature), "{headers:?} {size}");
                // Damaged behind the headers; cut off within them it is nobody's any more.
                *frame.last_mut().expect("bytes") ^= 1;
                assert_eq!(read(&frame, &key, &PORTS), Received::Damaged, "{headers:?} {size}");
                assert_eq!(read(&frame[..60], &key, &PORTS), Received::Foreign);
            }
        }
        // IPv4 has none.
        assert_eq!(smallest(four.src, &CHAIN), 64);
        assert_eq!(Template::new(&four, 64, &CHAIN).map(|template| template.len()), Some(60));
    }

    #[test]
    fn damage_is_seen_wherever_it_is() {
        let (key, template) =
            (SignatureKey::new(1), Template::new(&flows()[0], 128, &[]).expect("a template"));
        let mut good = vec![0; template.len()];
        template.write(&key, Signature { flow: 0, sequence: 0, departure_ns: 0 }, &mut good);
        for at in 42..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(read(&bad, &key, &PORTS), Received::Damaged, "byte {at}");
        }
        // Cut short, for another port, and something else.
        assert_eq!(read(&good[..100], &key, &PORTS), Received::Damaged);
        assert_eq!(read(&good[..40], &key, &PORTS), Received::Foreign);
        assert_eq!(read(&good, &key, &(8..=9)), Received::Foreign);
        assert_eq!(read(&[0; 60], &key, &PORTS), Received::Foreign);
        assert_eq!(read(&good, &SignatureKey::new(2), &PORTS), Received::Old);
    }

    #[test]
    fn addresses_tell_whose_a_frame_was() {
        let key = SignatureKey::new(1);
        for (at, flow) in flows().into_iter().enumerate() {
            let template = Template::new(&flow, 128, &[]).expect("a template");
            let mut frame = vec![0; template.len()];
            template.write(&key, Signature { flow: 0, sequence: 0, departure_ns: 0 }, &mut frame);
            // The kind of frame, the version and the protocol, by which it is nobody's.
            for damaged in [12, 14, [23, 20][at]] {
                let mut bad = frame.clone();
                bad[damaged] ^= 0x40;
                assert_eq!(read(&bad, &key, &PORTS), Received::Foreign, "byte {damaged}");
                assert!(addresses(&bad).contains(&Some((flow.src, flow.dst))), "byte {damaged}");
            }
        }
        assert_eq!([&[][..], &[0; 20]].map(addresses), [[None, None]; 2]);
    }

    #[test]
    fn what_a_router_changes_does_not_matter() {
        let (key, template) =
            (SignatureKey::new(1), Template::new(&flows()[0], 64, &[]).expect("a template"));
        let mut frame = vec![0; template.len()];
        let signature = Signature { flow: 3, sequence: 4, departure_ns: 5 };
        template.write(&key, signature, &mut frame);
        frame[..12].fill(7);
        checksum::decrement_ttl(frame[14..].first_chunk_mut().expect("a header"));
        assert_eq!(read(&frame, &key, &PORTS), Received::Test(signature));
    }
}
