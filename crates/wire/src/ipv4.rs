// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 (RFC 791, DSCP and ECN by RFC 2474 and RFC 3168). Options are in [`options`].

use std::fmt;
use std::net::Ipv4Addr;

use crate::header::{range, range_mut};
use crate::{Error, Protocol, checksum};

pub mod options;
pub use options::{Ipv4Option, OptionIter};

/// Byte offsets of the fields.
pub mod field {
    /// Version (high 4 bits) and header length in 32-bit words (low 4 bits).
    pub const VERSION_IHL: usize = 0;
    /// Type of service: DSCP (6 bits), ECN (2 bits).
    pub const TOS: usize = 1;
    /// Length of header and payload.
    pub const TOTAL_LEN: usize = 2;
    /// Identification.
    pub const ID: usize = 4;
    /// Flags (high 3 bits) and fragment offset in units of 8 bytes.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol.
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: usize = 10;
    /// Source address.
    pub const SRC: usize = 12;
    /// Destination address.
    pub const DST: usize = 16;
}

/// Flag "reserved": must be zero.
pub const FLAG_RF: u16 = 0x8000;
/// Flag "don't fragment".
pub const FLAG_DF: u16 = 0x4000;
/// Flag "more fragments".
pub const FLAG_MF: u16 = 0x2000;
/// Mask of the fragment offset.
pub const OFFSET_MASK: u16 = 0x1fff;
/// The longest header, with options, in bytes.
pub const MAX_HEADER_LEN: usize = 60;

header! {
    "IPv4", 20;
    fields {
        /// Version and header length in one byte; `0x45` without options.
        version_ihl / set_version_ihl: u8 = field::VERSION_IHL;
        /// Type of service byte: DSCP and ECN.
        tos / set_tos: u8 = field::TOS;
        /// Length of header and payload in bytes.
        total_len / set_total_len: u16 = field::TOTAL_LEN;
        /// Identification.
        id / set_id: u16 = field::ID;
        /// Flags and fragment offset in one word.
        fragment / set_fragment: u16 = field::FRAGMENT;
        /// Time to live.
        ttl / set_ttl: u8 = field::TTL;
        /// Protocol of the payload.
        protocol / set_protocol: Protocol = field::PROTOCOL;
        /// Header checksum.
        checksum / set_checksum: u16 = field::CHECKSUM;
        /// Source address.
        src / set_src: Ipv4Addr = field::SRC;
        /// Destination address.
        dst / set_dst: Ipv4Addr = field::DST;
    }
    derived {
        /// Version; 4.
        version: u8 = |b| b[0] >> 4;
        /// Length of the header, options included, in bytes: 0 to 60 (a valid one has at least 20).
        header_len: usize = |b| usize::from(b[0] & 0xf) * 4;
        /// Differentiated services code point.
        dscp: u8 = |b| b[field::TOS] >> 2;
        /// Explicit congestion notification: 0 to 3.
        ecn: u8 = |b| b[field::TOS] & 3;
        /// Whether the packet must not be fragmented.
        dont_fragment: bool = |b| b[field::FRAGMENT] & 0x40 != 0;
        /// Whether fragments follow this one.
        more_fragments: bool = |b| b[field::FRAGMENT] & 0x20 != 0;
        /// Offset of this fragment in bytes.
        fragment_offset: usize = |b| usize::from(Header(b).fragment() & OFFSET_MASK) * 8;
        /// Whether this is a part of a packet, the first part included.
        is_fragment: bool = |b| Header(b).fragment() & (FLAG_MF | OFFSET_MASK) != 0;
        /// Whether the transport header is here: a whole packet, or the first fragment.
        is_first_fragment: bool = |b| Header(b).fragment() & OFFSET_MASK == 0;
    }
}

impl HeaderMut<'_> {
    /// Takes one from the TTL and updates the checksum; see [`checksum::decrement_ttl`].
    #[inline]
    pub fn decrement_ttl(&mut self) {
        checksum::decrement_ttl(self.0);
    }

    /// Sets the TTL and updates the header checksum.
    #[inline]
    pub fn rewrite_ttl(&mut self, ttl: u8) {
        let header = self.as_header();
        let word = |ttl: u8| u16::from_be_bytes([ttl, header.protocol().0]);
        let mended = checksum::update16(header.checksum(), word(header.ttl()), word(ttl));
        self.set_ttl(ttl).set_checksum(mended);
    }

    /// Sets the source address and updates the header checksum.
    #[inline]
    pub fn rewrite_src(&mut self, src: Ipv4Addr) {
        let header = self.as_header();
        let mended = checksum::update32(header.checksum(), header.src().to_bits(), src.to_bits());
        self.set_src(src).set_checksum(mended);
    }

    /// Sets the destination address and updates the header checksum.
    #[inline]
    pub fn rewrite_dst(&mut self, dst: Ipv4Addr) {
        let header = self.as_header();
        let mended = checksum::update32(header.checksum(), header.dst().to_bits(), dst.to_bits());
        self.set_dst(dst).set_checksum(mended);
    }

    /// Sets flags and fragment offset, and updates the header checksum.
    #[inline]
    pub fn rewrite_fragment(&mut self, fragment: u16) {
        let header = self.as_header();
        let sum = checksum::update16(header.checksum(), header.fragment(), fragment);
        self.set_fragment(fragment).set_checksum(sum);
    }

    /// Sets the type of service byte and updates the header checksum.
    #[inline]
    pub fn rewrite_tos(&mut self, tos: u8) {
        let header = self.as_header();
        let word = |tos: u8| u16::from_be_bytes([header.version_ihl(), tos]);
        let mended = checksum::update16(header.checksum(), word(header.tos()), word(tos));
        self.set_tos(tos).set_checksum(mended);
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the packet is all there.
    ///
    /// # Errors
    /// As [`new_header_checked`](Self::new_header_checked), and [`Error::Truncated`] where the buffer ends before the
    /// total length.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let view = Self::new_header_checked(buffer)?;
        Error::check_len(PROTOCOL, view.total_len().into(), view.as_slice().len())?;
        Ok(view)
    }

    /// Checks that header and options are there, but lets the payload be cut off, as in the packet that an ICMP error
    /// quotes.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a version other than 4, a header length below 20, or a total length
    /// below the header's.
    pub fn new_header_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        let header_len = view.header_len();
        let total_len = view.total_len();
        Error::check_field(view.version() == 4, PROTOCOL, "version", view.version().into(), "4")?;
        Error::check_field(
            header_len >= HEADER_LEN,
            PROTOCOL,
            "header length",
            header_len as u32,
            "at least 20",
        )?;
        Error::check_len(PROTOCOL, header_len, available)?;
        Error::check_field(
            usize::from(total_len) >= header_len,
            PROTOCOL,
            "total length",
            total_len.into(),
            "at least the header length",
        )?;
        Ok(view)
    }

    /// The option bytes.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, self.header_len())
    }

    /// The options, one by one.
    pub fn options(&self) -> OptionIter<'_> {
        OptionIter::new(self.option_bytes())
    }

    /// What the packet carries, without what the buffer holds beyond the total length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), self.header_len(), self.total_len().into())
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        match self.header_len() {
            HEADER_LEN => checksum::header20_ok(self.header().as_bytes()),
            header_len => checksum::sum(range(self.as_slice(), 0, header_len)) == 0xffff,
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// The fixed header, for writing; `None` never occurs in a checked view.
    #[inline]
    pub fn header_mut(&mut self) -> Option<HeaderMut<'_>> {
        self.as_mut_slice().first_chunk_mut().map(HeaderMut)
    }

    /// What the packet carries, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_len(), self.total_len().into());
        range_mut(self.as_mut_slice(), start, end)
    }

    /// The option bytes, for writing.
    #[inline]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        range_mut(self.as_mut_slice(), HEADER_LEN, end)
    }

    /// Computes and sets the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::internet(range(self.as_slice(), 0, self.header_len()));
        self.set_checksum(checksum);
    }
}

/// The meaning of an IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Length of the payload in bytes, at most 65515.
    pub payload_len: u16,
    /// Time to live.
    pub ttl: u8,
    /// Type of service byte.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset, as [`Header::fragment`].
    pub fragment: u16,
}

impl Default for Repr {
    /// A packet from and to nowhere, of no payload, TTL 64.
    fn default() -> Self {
        Repr {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            protocol: Protocol(0),
            payload_len: 0,
            ttl: 64,
            tos: 0,
            id: 0,
            fragment: 0,
        }
    }
}

impl Repr {
    /// Reads a view; never fails. Options are left to [`View::options`].
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr {
            src: view.src(),
            dst: view.dst(),
            protocol: view.protocol(),
            payload_len: view.total_len().saturating_sub(view.header_len() as u16),
            ttl: view.ttl(),
            tos: view.tos(),
            id: view.id(),
            fragment: view.fragment(),
        }
    }

    /// Writes the 20-byte header, its checksum included, to the front of `buffer`; the payload need not be there.
    ///
    /// # Errors
    /// [`Error::Truncated`] where the header does not fit, [`Error::Field`] where the length exceeds its field; nothing is
    /// written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let total_len = self.payload_len.checked_add(HEADER_LEN as u16).ok_or(Error::Field {
            protocol: PROTOCOL,
            field: "payload length",
            value: self.payload_len.into(),
            expected: "at most 65515",
        })?;
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_version_ihl(0x45).set_tos(self.tos).set_total_len(total_len).set_id(self.id);
        header.set_fragment(self.fragment).set_ttl(self.ttl).set_protocol(self.protocol);
        header.set_src(self.src).set_dst(self.dst);
        let checksum = checksum::header20_checksum(header.as_header().as_bytes());
        header.set_checksum(checksum);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip {} > {}, {}, ttl {}", self.src, self.dst, self.protocol, self.ttl)?;
        if self.tos != 0 {
            write!(f, ", tos {:#04x}", self.tos)?;
        }
        if self.fragment & FLAG_DF != 0 {
            f.write_str(", DF")?;
        }
        if self.fragment & (FLAG_MF | OFFSET_MASK) != 0 {
            let more = if self.fragment & FLAG_MF != 0 { "+" } else { "" };
            write!(f, ", frag {}@{}{more}", self.id, u32::from(self.fragment & OFFSET_MASK) * 8)?;
        }
        write!(f, ", length {}", self.payload_len)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)?;
        if self.header_len() > HEADER_LEN {
            f.write_str(", options [")?;
            for (i, option) in self.options().enumerate() {
                let separator = if i == 0 { "" } else { "," };
                match option {
                    Ok((_, option)) => write!(f, "{separator}{option}")?,
                    Err(_) => write!(f, "{separator}malformed")?,
                }
            }
            f.write_str("]")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet() -> Vec<u8> {
        let repr = Repr {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 1, 1),
            protocol: Protocol::UDP,
            payload_len: 8,
            id: 7,
            fragment: FLAG_MF | 185,
            ..Repr::default()
        };
        let mut bytes = vec![0; 28];
        repr.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn one_line() {
        let view = View::new_checked(packet()).unwrap();
        assert_eq!(view.to_string(), "ip 10.0.0.1 > 10.0.1.1, udp, ttl 64, frag 7@1480+, length 8");
        assert!(
            view.is_fragment() && !view.is_first_fragment() && view.more_fragments() && !view.dont_fragment()
        );
    }

    #[test]
    fn wrong_headers_are_refused() {
        let check = |at: usize, value: u8, field: &str| {
            let mut bytes = packet();
            bytes[at] = value;
            let message = View::new_checked(bytes).unwrap_err().to_string();
            assert!(message.contains(field), "{message}");
        };
        check(0, 0x65, "version is 6, expected 4");
        check(0, 0x44, "header length is 16, expected at least 20");
        check(0, 0x48, "32 bytes needed but only 28");
        check(3, 19, "total length is 19, expected at least the header length");
        check(3, 29, "29 bytes needed but only 28");
        let mut quoted = packet();
        quoted[3] = 200;
        assert_eq!(View::new_header_checked(quoted).unwrap().payload().len(), 8);
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(src: u32, dst: u32, protocol: u8, payload_len in 0u16..100, ttl: u8, tos: u8, id: u16, fragment: u16) {
            let (src, dst, protocol) = (src.into(), dst.into(), Protocol(protocol));
            let repr = Repr { src, dst, protocol, payload_len, ttl, tos, id, fragment };
            let mut bytes = vec![0; HEADER_LEN + usize::from(payload_len)];
            repr.emit(&mut bytes).unwrap();
            let view = View::new_checked(&bytes[..]).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload().len(), usize::from(payload_len));
        }

        #[test]
        fn rewriting_keeps_the_checksum(src: u32, dst: u32, tos: u8) {
            let mut view = View::new_checked(packet()).unwrap();
            let mut header = view.header_mut().unwrap();
            header.rewrite_src(src.into());
            header.rewrite_dst(dst.into());
            header.rewrite_tos(tos);
            header.decrement_ttl();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!((view.src(), view.dst(), view.tos(), view.ttl()), (src.into(), dst.into(), tos, 63));
        }
    }
}
