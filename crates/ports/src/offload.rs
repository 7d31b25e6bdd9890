// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that a sender left to hardware that is not there.
//!
//! Virtual interfaces hand over frames as their sender's stack made them for a capable network card: transport checksums unfinished, and several TCP
//! segments in one frame far beyond the MTU. On a wire such frames must not appear, so the driver that takes them from the kernel for forwarding
//! finishes them. The kernel says what is missing in a `virtio_net_hdr` (Virtual I/O Device specification 1.2, section 5.1.6).

use packet::Packet;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// May accompany the TCP kinds: the first segment carries CWR.
const GSO_ECN: u8 = 0x80;

/// What is missing in a frame. Positions count from the frame's first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Unfinished {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    segment_len: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const _: () = assert!(size_of::<Unfinished>() == 10);

impl Unfinished {
    /// Whether there is nothing to do.
    pub(crate) fn is_finished(&self) -> bool {
        self.flags & NEEDS_CHECKSUM == 0 && self.gso_type == GSO_NONE
    }

    /// Whether the frame holds several segments.
    pub(crate) fn is_joined(&self) -> bool {
        self.gso_type != GSO_NONE
    }
}

/// Adds `bytes` to a one's complement sum (RFC 1071), of which they are an even-aligned part.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum to its 16-bit complement.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A checksum as its header wants it: UDP reads 0 as "none" and has all ones instead (RFC 768).
fn as_written(checksum: u16, udp: bool) -> u16 {
    if udp && checksum == 0 { 0xffff } else { checksum }
}

/// Finishes the transport checksum of a frame, whose field holds the pseudo-header's sum. Returns whether the
/// positions were inside the frame.
pub(crate) fn finish_checksum(frame: &mut [u8], what: &Unfinished) -> bool {
    if what.flags & NEEDS_CHECKSUM == 0 {
        return true;
    }
    let (start, offset) = (usize::from(what.checksum_start), usize::from(what.checksum_offset));
    let Some(segment) = frame.get_mut(start..) else { return false };
    const UDP_CHECKSUM_AT: usize = 6;
    const SCTP_CHECKSUM_AT: usize = 8;
    if offset == SCTP_CHECKSUM_AT && segment.len() >= 12 {
        segment[8..12].fill(0);
        let crc = wire::crc32c::of(segment);
        segment[8..12].copy_from_slice(&crc.to_le_bytes());
        return true;
    }
    let checksum = as_written(fold(add(0, segment)), offset == UDP_CHECKSUM_AT);
    let Some(field) = segment.get_mut(offset..offset + 2) else { return false };
    field.copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Bytes of the link header of Ethernet; interfaces without link header have 0.
pub(crate) const ETHERNET: usize = 14;

/// Where the headers of a frame lie.
#[derive(Clone, Copy, Debug)]
struct Headers {
    network: usize,
    transport: usize,
    payload: usize,
    v6: bool,
}

/// Finds the headers of a joined frame. The transport header's place is the kernel's word, which must agree with the
/// network header where that says it too; tunnelled segments do not and are refused.
fn headers(frame: &[u8], link: usize, what: &Unfinished) -> Option<Headers> {
    let mut network = link;
    let mut ether_type = match link {
        ETHERNET => u16::from_be_bytes(*frame.get(12..)?.first_chunk()?),
        _ if frame.get(link)? >> 4 == 6 => 0x86dd,
        _ => 0x0800,
    };
    while matches!(ether_type, 0x8100 | 0x88a8) {
        ether_type = u16::from_be_bytes(*frame.get(network + 2..)?.first_chunk()?);
        network += 4;
    }
    let transport = usize::from(what.checksum_start);
    let v6 = match ether_type {
        0x0800 => {
            let ihl = usize::from(frame.get(network)? & 15) * 4;
            if ihl < 20 || network + ihl != transport {
                return None;
            }
            false
        }
        0x86dd if transport >= network + 40 => true,
        _ => return None,
    };
    let header = match what.gso_type & !GSO_ECN {
        GSO_TCP4 if !v6 => usize::from(frame.get(transport + 12)? >> 4) * 4,
        GSO_TCP6 if v6 => usize::from(frame.get(transport + 12)? >> 4) * 4,
        GSO_UDP_L4 => 8,
        _ => return None,
    };
    let payload = transport + header;
    let least = if what.gso_type == GSO_UDP_L4 { 8 } else { 20 };
    (header >= least && payload < frame.len() && what.segment_len > 0).then_some(Headers {
        network,
        transport,
        payload,
        v6,
    })
}

/// Why a joined frame could not be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsplit {
    /// It is of a kind we do not know, or damaged.
    Unknown,
    /// Packet memory is exhausted; the segments before were emitted.
    NoMemory,
}

/// What follows hop-by-hop, routing and destination options of IPv6, and where.
fn behind_extensions(frame: &[u8], mut next: u8, mut at: usize) -> Option<(u8, usize)> {
    while matches!(next, 0 | 43 | 60) {
        let [following, len] = *frame.get(at..)?.first_chunk()?;
        (next, at) = (following, at + usize::from(len) * 8 + 8);
    }
    Some((next, at))
}

/// Takes a joined frame apart into the segments that its sender meant, each complete.
pub(crate) fn split(
    frame: &[u8],
    link: usize,
    what: &Unfinished,
    headroom: usize,
    mut emit: impl FnMut(Packet),
) -> Result<usize, Unsplit> {
    let at = headers(frame, link, what).ok_or(Unsplit::Unknown)?;
    let payload = &frame[at.payload..];
    let size = usize::from(what.segment_len);
    let count = payload.len().div_ceil(size);
    for (i, chunk) in payload.chunks(size).enumerate() {
        let mut packet = Packet::alloc(headroom, at.payload + chunk.len()).ok_or(Unsplit::NoMemory)?;
        let bytes = packet.data_mut();
        bytes[..at.payload].copy_from_slice(&frame[..at.payload]);
        bytes[at.payload..].copy_from_slice(chunk);
        finish_segment(bytes, &at, what.gso_type == GSO_UDP_L4, i, size, i + 1 == count);
        emit(packet);
    }
    Ok(count)
}

/// What is missing in a TCP segment that is longer than the interface's MTU, which only one that its sender joined can be: where nobody
/// says how long its parts were, they are as long as the MTU allows.
pub(crate) fn joined_tcp(frame: &[u8], mtu: usize) -> Option<Unfinished> {
    const TCP: u8 = 6;
    let mut network = ETHERNET;
    while matches!(frame.get(network - 2..)?.first_chunk()?, [0x81, 0x00] | [0x88, 0xa8]) {
        network += 4;
    }
    let (gso_type, transport) = match frame.get(network..)? {
        [first, _, _, _, _, _, _, _, _, TCP, ..] if first >> 4 == 4 => {
            (GSO_TCP4, network + usize::from(first & 15) * 4)
        }
        [first, _, _, _, _, _, next, ..] if first >> 4 == 6 => {
            (GSO_TCP6, behind_extensions(frame, *next, network + 40).filter(|(next, _)| *next == TCP)?.1)
        }
        _ => return None,
    };
    let payload = transport + usize::from(frame.get(transport + 12)? >> 4) * 4;
    let segment_len = mtu.checked_sub(payload - network)?;
    Some(Unfinished {
        flags: NEEDS_CHECKSUM,
        gso_type,
        header_len: 0,
        segment_len: segment_len as u16,
        checksum_start: transport as u16,
        checksum_offset: 16,
    })
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes the fields in which segment `index` differs from the joined frame's header.
fn finish_segment(bytes: &mut [u8], at: &Headers, udp: bool, index: usize, size: usize, last: bool) {
    let segment_len = bytes.len() - at.transport;
    let network = at.network;
    if at.v6 {
        put_u16(bytes, network + 4, (bytes.len() - network - 40) as u16);
    } else {
        put_u16(bytes, network + 2, (bytes.len() - network) as u16);
        let id = u16::from_be_bytes([bytes[network + 4], bytes[network + 5]]);
        put_u16(bytes, network + 4, id.wrapping_add(index as u16));
        put_u16(bytes, network + 10, 0);
        let checksum = fold(add(0, &bytes[network..at.transport]));
        put_u16(bytes, network + 10, checksum);
    }
    let transport = at.transport;
    let checksum_at = if udp {
        put_u16(bytes, transport + 4, segment_len as u16);
        transport + 6
    } else {
        let sequence = u32::from_be_bytes([
            bytes[transport + 4],
            bytes[transport + 5],
            bytes[transport + 6],
            bytes[transport + 7],
        ]);
        let sequence = sequence.wrapping_add((index * size) as u32);
        bytes[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
        // FIN and PSH belong to the last segment, CWR to the first (RFC 3168, section 6.1.2).
        if !last {
            bytes[transport + 13] &= !0x09;
        }
        if index > 0 {
            bytes[transport + 13] &= !0x80;
        }
        transport + 16
    };
    put_u16(bytes, checksum_at, 0);
    let (addresses, protocol) = if at.v6 {
        (&bytes[network + 8..network + 40], if udp { 17 } else { 6 })
    } else {
        (&bytes[network + 12..network + 20], bytes[network + 9])
    };
    let pseudo = add(u64::from(protocol) + segment_len as u64, addresses);
    let checksum = as_written(fold(add(pseudo, &bytes[transport..])), udp);
    put_u16(bytes, checksum_at, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::alone;

    /// One's complement sum by the book, two bytes at a time, carries folded at each step.
    fn naive(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0u16, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    fn frame(v6: bool, udp: bool, payload: usize) -> (Vec<u8>, Unfinished) {
        let mut f = vec![2u8; 12];
        let protocol = if udp { 17 } else { 6 };
        let header = if udp { 8 } else { 32 };
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
            f.extend((0..32).map(|i| i as u8 + 1));
        } else {
            f.extend([
                0x08, 0, 0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 9, 8, 7,
            ]);
        }
        let transport = f.len();
        f.extend([0x12, 0x34, 0, 80]);
        if udp {
            f.extend([0; 4]);
        } else {
            f.extend([0xff, 0xff, 0xff, 0x00, 1, 2, 3, 4, 0x80, 0x99, 1, 0, 0, 0, 0, 0]);
            f.extend([1; 12]);
        }
        assert_eq!(f.len(), transport + header);
        f.extend((0..payload).map(|i| (i * 7) as u8));
        let gso_type = if udp {
            GSO_UDP_L4
        } else if v6 {
            GSO_TCP6
        } else {
            GSO_TCP4
        };
        let what = Unfinished {
            flags: NEEDS_CHECKSUM,
            gso_type,
            header_len: 0,
            segment_len: 1000,
            checksum_start: transport as u16,
            checksum_offset: if udp { 6 } else { 16 },
        };
        (f, what)
    }

    #[test]
    fn segments_carry_the_payload_in_order_and_check() {
        alone(|| {
            for (v6, udp, payload) in [
                (false, false, 2500),
                (true, false, 2000),
                (false, true, 999),
                (true, true, 3001),
                (false, false, 1),
            ] {
                let (f, what) = frame(v6, udp, payload);
                let start = usize::from(what.checksum_start);
                let header = start + if udp { 8 } else { 32 };
                let mut segments = Vec::new();
                split(&f, ETHERNET, &what, 128, |p| segments.push(p.data().to_vec())).unwrap();
                assert_eq!(segments.len(), payload.div_ceil(1000));
                let joined: Vec<u8> = segments.iter().flat_map(|s| s[header..].to_vec()).collect();
                assert_eq!(joined, f[header..]);
                for (i, s) in segments.iter().enumerate() {
                    let (addresses, len) = if v6 {
                        (&s[22..54], usize::from(u16::from_be_bytes([s[18], s[19]])) + 54)
                    } else {
                        assert_eq!(naive(&s[14..34]), 0xffff, "header checksum");
                        assert_eq!(u16::from_be_bytes([s[18], s[19]]), 0xfffeu16.wrapping_add(i as u16));
                        (&s[26..34], usize::from(u16::from_be_bytes([s[16], s[17]])) + 14)
                    };
                    assert_eq!(len, s.len());
                    let mut pseudo = addresses.to_vec();
                    pseudo.extend(((s.len() - start) as u32).to_be_bytes());
                    pseudo.extend([0, 0, 0, if udp { 17 } else { 6 }]);
                    pseudo.extend(&s[start..]);
                    assert_eq!(naive(&pseudo), 0xffff, "transport checksum of segment {i}");
                    if !udp {
                        let sequence = u32::from_be_bytes(s[start + 4..start + 8].try_into().unwrap());
                        assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1000 * i as u32));
                        let last = i + 1 == segments.len();
                        let expected = 0x10 | if last { 0x09 } else { 0 } | if i == 0 { 0x80 } else { 0 };
                        assert_eq!(s[start + 13], expected);
                    }
                }
            }
        });
    }

    #[test]
    fn an_unfinished_checksum_is_finished() {
        let (mut f, what) = frame(false, true, 101);
        let pseudo_sum = {
            let mut pseudo = f[26..34].to_vec();
            pseudo.extend([0, 17]);
            pseudo.extend((109u16).to_be_bytes());
            naive(&pseudo)
        };
        f[38..40].copy_from_slice(&109u16.to_be_bytes());
        f[40..42].copy_from_slice(&pseudo_sum.to_be_bytes());
        assert!(finish_checksum(&mut f, &what));
        let mut all = f[26..34].to_vec();
        all.extend([0, 17]);
        all.extend(109u16.to_be_bytes());
        all.extend(&f[34..]);
        assert_eq!(naive(&all), 0xffff);
    }

    #[test]
    fn nonsense_is_refused() {
        let (f, what) = frame(false, false, 100);
        let cases = [
            Unfinished { segment_len: 0, ..what },
            Unfinished { gso_type: 3, ..what },
            Unfinished { gso_type: GSO_TCP6, ..what },
            Unfinished { checksum_start: 50, ..what },
            Unfinished { checksum_start: 60000, ..what },
        ];
        for case in cases {
            assert_eq!(split(&f, ETHERNET, &case, 0, |_| ()).map(drop), Err(Unsplit::Unknown), "{case:?}");
        }
        for cut in 0..66 {
            assert_eq!(split(&f[..cut], ETHERNET, &what, 0, |_| ()).map(drop), Err(Unsplit::Unknown));
        }
        let mut short = f.clone();
        assert!(!finish_checksum(&mut short[..20], &what));
    }
}
