// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ESP needs of an IP header, of either family.

use wire::{Protocol, checksum, ipv4, ipv6};

/// Why a packet cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is no whole IP packet.
    #[error("not a whole IP packet")]
    NotIp,
    /// A fragment, which transport mode does not take (RFC 4303, 3.3.4), and which a receiver puts together first (3.4.1).
    #[error("a fragment")]
    Fragment,
    /// It would be longer than an IP packet can be.
    #[error("too long for an IP packet around it")]
    TooLong,
    /// There is no memory for what is added.
    #[error("no packet memory")]
    NoMemory,
}

/// An IP header with its options, or with those extension headers that stand before ESP (RFC 4303, 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether it is IPv6.
    pub is_six: bool,
    /// Its bytes.
    pub len: usize,
    /// What follows it.
    pub next: Protocol,
    /// Bytes of the whole packet, as the header says.
    pub packet_len: usize,
    /// Traffic class: DSCP and ECN.
    pub class: u8,
    /// Whether the packet must not be fragmented: always with IPv6.
    pub dont_fragment: bool,
    /// Whether it is a fragment.
    pub is_fragment: bool,
    /// Where the byte is that says `next`.
    next_at: usize,
}

impl Header {
    /// Reads the header in front of a packet.
    ///
    /// # Errors
    /// [`Unfit::NotIp`] if the packet is cut off or not IP, or if its extension headers cannot be determined.
    #[inline]
    pub fn read(packet: &[u8]) -> Result<Header, Unfit> {
        let header = Header::read_fixed(packet)?;
        if header.is_six { header.with_extensions(packet).ok_or(Unfit::NotIp) } else { Ok(header) }
    }

    /// Reads the header in front of a packet that a tunnel carries. Extension headers count as payload, so they may be anything.
    ///
    /// # Errors
    /// [`Unfit::NotIp`] if the packet is cut off or no IP.
    #[inline]
    pub fn read_fixed(packet: &[u8]) -> Result<Header, Unfit> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Header::read4(packet),
            Some(6) => Header::read6(packet),
            _ => None,
        }
        .ok_or(Unfit::NotIp)
    }

    #[inline]
    fn read4(packet: &[u8]) -> Option<Header> {
        let ip = ipv4::Header::from_chunk(packet.first_chunk()?);
        let (len, packet_len) = (ip.header_len(), usize::from(ip.total_len()));
        let is_whole = (ipv4::HEADER_LEN..=packet_len).contains(&len) && packet_len <= packet.len();
        is_whole.then(|| Header {
            is_six: false,
            len,
            next: ip.protocol(),
            packet_len,
            class: ip.tos(),
            dont_fragment: ip.dont_fragment(),
            is_fragment: ip.is_fragment(),
            next_at: ipv4::field::PROTOCOL,
        })
    }

    #[inline]
    fn read6(packet: &[u8]) -> Option<Header> {
        let ip = ipv6::Header::from_chunk(packet.first_chunk()?);
        let packet_len = ipv6::HEADER_LEN + usize::from(ip.payload_len());
        (packet_len <= packet.len()).then(|| Header {
            is_six: true,
            len: ipv6::HEADER_LEN,
            next: ip.next_header(),
            packet_len,
            class: ip.traffic_class(),
            dont_fragment: true,
            is_fragment: false,
            next_at: ipv6::field::NEXT_HEADER,
        })
    }

    /// An IPv6 header with those extension headers behind it that stand before ESP; `None` if they are malformed.
    fn with_extensions(self, packet: &[u8]) -> Option<Header> {
        let view = ipv6::View::new_checked(packet).ok()?;
        let mut header = self;
        // Options for the destination stand before ESP if a routing header follows them, for all hops on the way read them.
        let mut ahead = header;
        for extension in view.extensions() {
            let extension = extension.ok()?;
            let here = ipv6::HEADER_LEN + extension.offset;
            ahead = Header {
                len: here + extension.data.len(),
                next: extension.next_header,
                next_at: here,
                is_fragment: extension.fragment().is_some(),
                ..ahead
            };
            match extension.kind {
                Protocol::HOP_BY_HOP | Protocol::IPV6_ROUTE => header = ahead,
                Protocol::IPV6_FRAGMENT => return Some(ahead),
                Protocol::IPV6_DESTINATION => {}
                _ => break,
            }
        }
        Some(header)
    }

    /// What a dummy packet of so many bytes has instead of a header.
    pub(crate) fn of_dummy(packet_len: usize) -> Header {
        Header {
            is_six: false,
            len: 0,
            next: Protocol::IPV6_NO_NEXT,
            packet_len,
            class: 0,
            dont_fragment: true,
            is_fragment: false,
            next_at: 0,
        }
    }

    /// The same header with an extension header of so many bytes behind it, which says that `next` follows.
    pub(crate) fn behind(self, next: Protocol, extension_len: usize) -> Option<Header> {
        let len = self.len.checked_add(extension_len)?;
        Some(Header { len, next, next_at: self.len, ..self })
    }

    /// The protocol number that a whole packet of this family has as a payload.
    pub fn as_payload(&self) -> Protocol {
        if self.is_six { Protocol::IPV6 } else { Protocol::IPIP }
    }

    /// Has the header in front of `packet` say that the packet has `len` bytes and that `next` follows.
    pub fn rewrite(&self, packet: &mut [u8], len: usize, next: Protocol) {
        packet[self.next_at] = next.0;
        if self.is_six {
            let payload = (len - ipv6::HEADER_LEN) as u16;
            packet[ipv6::field::PAYLOAD_LEN..][..2].copy_from_slice(&payload.to_be_bytes());
        } else {
            packet[ipv4::field::TOTAL_LEN..][..2].copy_from_slice(&(len as u16).to_be_bytes());
            self.fill_checksum(packet);
        }
    }

    /// Gives the packet another traffic class. A wrong checksum stays wrong.
    pub fn set_class(&self, packet: &mut [u8], class: u8) {
        if class == self.class {
            return;
        }
        if self.is_six {
            packet[0] = packet[0] & 0xf0 | class >> 4;
            packet[1] = packet[1] & 0x0f | class << 4;
        } else if let Ok(mut header) = ipv4::HeaderMut::from_slice(packet) {
            header.rewrite_tos(class);
        }
    }

    fn fill_checksum(&self, packet: &mut [u8]) {
        packet[ipv4::field::CHECKSUM..][..2].fill(0);
        let sum = checksum::internet(&packet[..self.len]);
        packet[ipv4::field::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}
