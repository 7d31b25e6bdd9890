// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of IPv4 as packets of IPv6, and the other way round (RFC 7915), for ProtocolTranslator46 and 64, and for NAT64. Which address stands
//! for which is theirs to say.

use element::Reason;
use packet::Packet;
use wire::checksum::{self, Sum};
use wire::ipv4::options::{Ipv4Option, OptionIter};

use super::translated_icmp;

pub(crate) const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
const DCCP: u8 = 33;
const IGMP: u8 = 2;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const ICMP6: u8 = 58;

/// Which addresses of the families stand for each other.
pub(crate) trait Addresses {
    /// The IPv6 address for an IPv4 address, if there is one.
    fn six(&self, four: [u8; 4]) -> Option<[u8; 16]>;

    /// The IPv4 address for an IPv6 address, if there is one.
    fn four(&self, six: [u8; 16]) -> Option<[u8; 4]>;
}

/// What both kinds of header say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    tos: u8,
    ttl: u8,
    /// By its IPv4 number.
    pub(crate) protocol: u8,
    /// Identification, and offset with the more-fragments bit lowest; absent for a whole packet.
    fragment: Option<(u32, u16)>,
    /// Whether an IPv4 packet may be fragmented, and by which identification.
    pub(crate) divisible: Option<u16>,
    /// Source and destination.
    pub(crate) four: [[u8; 4]; 2],
    pub(crate) six: [[u8; 16]; 2],
    /// Bytes of header, and of the packet as far as its length says.
    pub(crate) length: usize,
    pub(crate) total: usize,
}

impl Header {
    /// Reads an IPv4 header.
    pub(crate) fn ip4(ip: &[u8], addresses: &impl Addresses) -> Result<Header, Reason> {
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
        let id = u16::from_be_bytes([head[4], head[5]]);
        let four = [[head[12], head[13], head[14], head[15]], [head[16], head[17], head[18], head[19]]];
        let six = |four| addresses.six(four).ok_or(Reason::BadDestination);
        Ok(Header {
            tos: head[1],
            ttl: head[8],
            protocol: head[9],
            fragment: (offset | more != 0).then_some((id.into(), offset | more)),
            divisible: (field & 0x4000 == 0).then_some(id),
            four,
            six: [six(four[0])?, six(four[1])?],
            length,
            total: usize::from(u16::from_be_bytes([head[2], head[3]])),
        })
    }

    /// Reads an IPv6 header.
    pub(crate) fn ip6(ip: &[u8], addresses: &impl Addresses) -> Result<Header, Reason> {
        let head: &[u8; 40] = ip.first_chunk().ok_or(Reason::BadHeaderLength)?;
        if head[0] >> 4 != 6 {
            return Err(Reason::BadVersion);
        }
        let six = [8, 24].map(|at| *head[at..].first_chunk::<16>().expect("within 40 bytes"));
        let four = |six| addresses.four(six).ok_or(Reason::BadDestination);
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
            divisible: None,
            four: [four(six[0])?, four(six[1])?],
            six,
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

    /// Whether it is of a fragment.
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment.is_some()
    }

    fn is_first(&self) -> bool {
        self.fragment.is_none_or(|(_, place)| place & 0xfff8 == 0)
    }

    /// The header of the other family, before `payload` bytes, and its length.
    pub(crate) fn emit(&self, to_ip6: bool, payload: usize) -> Result<([u8; 48], usize), Reason> {
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
        header[8..24].copy_from_slice(&self.six[0]);
        header[24..40].copy_from_slice(&self.six[1]);
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
            None => self.divisible.map_or((0, 0x4000), |id| (id, 0)),
        };
        let mut header = [0; 20];
        header[..2].copy_from_slice(&[0x45, self.tos]);
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[6..8].copy_from_slice(&field.to_be_bytes());
        header[8..10].copy_from_slice(&[self.ttl, self.protocol]);
        header[12..16].copy_from_slice(&self.four[0]);
        header[16..20].copy_from_slice(&self.four[1]);
        let sum = checksum::header20_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut bytes = [0; 48];
        bytes[..20].copy_from_slice(&header);
        Ok((bytes, 20))
    }

    /// Adds the addresses of one family to a checksum, and takes those of the other away: all else in the pseudo-header is alike.
    fn adjust(&self, sum: u16, to_ip6: bool) -> u16 {
        let [source, destination] = &self.four;
        let four = Sum::new().bytes(source).bytes(destination).folded();
        let [source, destination] = &self.six;
        let six = Sum::new().bytes(source).bytes(destination).folded();
        let (old, new) = if to_ip6 { (four, six) } else { (six, four) };
        !checksum::add(checksum::add(!sum, !old), new)
    }

    /// Translates what stands behind the header in place: TCP and UDP. `whole`: the bytes are all there.
    pub(crate) fn transport(&self, bytes: &mut [u8], to_ip6: bool, whole: bool) -> Result<(), Reason> {
        let at = match self.protocol {
            TCP => 16,
            UDP | UDP_LITE | DCCP => 6,
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
            let [src, dst] = self.six;
            checksum::transport_v6(src.into(), dst.into(), wire::Protocol::UDP, bytes)
        } else {
            self.adjust(sum, to_ip6)
        };
        let has_none = matches!(self.protocol, UDP | UDP_LITE);
        let sum = if has_none { checksum::never_zero(sum) } else { sum };
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}

/// Translates packets, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// An ICMP message while it is translated.
    message: Vec<u8>,
}

impl Translation {
    /// Translates a packet that begins with its IP header.
    ///
    /// # Errors
    /// Why it has no counterpart. Its bytes are then no packet any more.
    pub(crate) fn translate(
        &mut self,
        packet: &mut Packet,
        to_ip6: bool,
        addresses: &impl Addresses,
    ) -> Result<Header, Reason> {
        let header = match to_ip6 {
            true => Header::ip4(packet.data(), addresses),
            false => Header::ip6(packet.data(), addresses),
        }?;
        self.translate_by(packet, header, to_ip6, addresses)
    }

    /// The same for a packet whose header has been read. `addresses` are for what an error quotes.
    ///
    /// # Errors
    /// As for [`translate`](Self::translate).
    pub(crate) fn translate_by(
        &mut self,
        packet: &mut Packet,
        header: Header,
        to_ip6: bool,
        addresses: &impl Addresses,
    ) -> Result<Header, Reason> {
        if to_ip6 && let Some(reason) = header.without_counterpart(packet.data()) {
            return Err(reason);
        }
        if header.total < header.length || header.total > packet.len() {
            return Err(Reason::BadLength);
        }
        packet.trim(packet.len() - header.total);
        packet.strip(header.length);
        if header.protocol == ICMP {
            self.translate_icmp(packet, &header, to_ip6, addresses)?;
        } else {
            header.transport(packet.data_mut(), to_ip6, true)?;
        }
        let (head, length) = header.emit(to_ip6, packet.len())?;
        packet.push(length).ok_or(Reason::NoMemory)?[..length].copy_from_slice(&head[..length]);
        packet.set_network(0, length);
        Ok(header)
    }

    fn translate_icmp(
        &mut self,
        packet: &mut Packet,
        header: &Header,
        to_ip6: bool,
        addresses: &impl Addresses,
    ) -> Result<(), Reason> {
        if header.fragment.is_some() {
            return Err(Reason::BadFragment);
        }
        self.message.clear();
        translated_icmp::translate(packet.data(), to_ip6, addresses, &mut self.message)?;
        let [src, dst] = header.six;
        let sum = match to_ip6 {
            true => checksum::internet(packet.data()),
            false => checksum::transport_v6(src.into(), dst.into(), wire::Protocol::ICMPV6, packet.data()),
        };
        if sum != 0 {
            return Err(Reason::BadChecksum);
        }
        let sum = match to_ip6 {
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
