// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP (RFC 768).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::header::{range, range_mut};
use crate::{Error, Protocol, checksum};

/// Byte offsets of the fields.
pub mod field {
    /// Source port.
    pub const SRC_PORT: usize = 0;
    /// Destination port.
    pub const DST_PORT: usize = 2;
    /// Length of header and payload.
    pub const LEN: usize = 4;
    /// Checksum, zero for none.
    pub const CHECKSUM: usize = 6;
}

header! {
    "UDP", 8;
    fields {
        /// Source port.
        src_port / set_src_port: u16 = field::SRC_PORT;
        /// Destination port.
        dst_port / set_dst_port: u16 = field::DST_PORT;
        /// Length of header and payload in bytes.
        length / set_length: u16 = field::LEN;
        /// Checksum; zero means that the sender computed none.
        checksum / set_checksum: u16 = field::CHECKSUM;
    }
    derived {}
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that header and announced payload are there.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] where the length is less than the header's 8 bytes.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        let len = view.length();
        Error::check_field(usize::from(len) >= HEADER_LEN, PROTOCOL, "length", len.into(), "at least 8")?;
        Error::check_len(PROTOCOL, len.into(), available)?;
        Ok(view)
    }

    /// The datagram, without what the buffer holds beyond its length.
    #[inline]
    fn datagram(&self) -> &[u8] {
        range(self.as_slice(), 0, self.length().into())
    }

    /// What the datagram carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, self.length().into())
    }

    /// Whether the checksum is right, or absent.
    pub fn checksum_ok_v4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        self.checksum() == 0 || checksum::transport_v4_ok(src, dst, Protocol::UDP, self.datagram())
    }

    /// Whether the checksum is right; over IPv6 it may not be absent (RFC 8200 section 8.1).
    pub fn checksum_ok_v6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        self.checksum() != 0 && checksum::transport_v6_ok(src, dst, Protocol::UDP, self.datagram())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// What the datagram carries, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.length().into();
        range_mut(self.as_mut_slice(), HEADER_LEN, end)
    }

    /// Computes and sets the checksum.
    pub fn fill_checksum_v4(&mut self, src: Ipv4Addr, dst: Ipv4Addr) {
        self.set_checksum(0);
        let checksum = checksum::transport_v4(src, dst, Protocol::UDP, self.datagram());
        self.set_checksum(checksum::never_zero(checksum));
    }

    /// Computes and sets the checksum.
    pub fn fill_checksum_v6(&mut self, src: Ipv6Addr, dst: Ipv6Addr) {
        self.set_checksum(0);
        let checksum = checksum::transport_v6(src, dst, Protocol::UDP, self.datagram());
        self.set_checksum(checksum::never_zero(checksum));
    }
}

/// The meaning of a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the payload in bytes, at most 65527.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        let payload_len = view.length().saturating_sub(HEADER_LEN as u16);
        Repr { src_port: view.src_port(), dst_port: view.dst_port(), payload_len }
    }

    /// Writes the header to the front of `buffer`, its checksum zero; fill it once the payload stands.
    ///
    /// # Errors
    /// [`Error::Truncated`] where header and payload do not fit, [`Error::Field`] where the length exceeds its field;
    /// nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let payload_len = self.payload_len;
        let len = payload_len.checked_add(HEADER_LEN as u16);
        let len = len.ok_or(Error::Field {
            protocol: PROTOCOL,
            field: "payload length",
            value: payload_len.into(),
            expected: "at most 65527",
        })?;
        Error::check_len(PROTOCOL, len.into(), buffer.len())?;
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_src_port(self.src_port).set_dst_port(self.dst_port).set_length(len).set_checksum(0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp {} > {}, length {}", self.src_port, self.dst_port, self.payload_len)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_checked() {
        let check = |bytes: &[u8], ok: bool| assert_eq!(View::new_checked(bytes).is_ok(), ok, "{bytes:?}");
        check(&[0, 1, 0, 2, 0, 8, 0, 0], true);
        check(&[0, 1, 0, 2, 0, 8, 0, 0, 99], true);
        check(&[0, 1, 0, 2, 0, 9, 0, 0], false);
        check(&[0, 1, 0, 2, 0, 7, 0, 0], false);
        check(&[0, 1, 0, 2, 0, 8, 0], false);
    }

    #[test]
    fn payload_ends_where_the_length_says() {
        let view = View::new_checked([0u8, 1, 0, 2, 0, 9, 0, 0, 7, 7, 7]).unwrap();
        assert_eq!(view.payload(), [7]);
        assert_eq!(view.to_string(), "udp 1 > 2, length 1");
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(src_port: u16, dst_port: u16, payload in proptest::collection::vec(any::<u8>(), 0..64), src: [u8; 16], dst: [u8; 16]) {
            let repr = Repr { src_port, dst_port, payload_len: payload.len() as u16 };
            let mut bytes = vec![0; HEADER_LEN + payload.len()];
            repr.emit(&mut bytes).unwrap();
            let mut view = View::new_checked(bytes).unwrap();
            view.payload_mut().copy_from_slice(&payload);
            let (src4, dst4) = (Ipv4Addr::new(src[0], src[1], src[2], src[3]), Ipv4Addr::new(dst[0], dst[1], dst[2], dst[3]));
            view.fill_checksum_v4(src4, dst4);
            prop_assert!(view.checksum_ok_v4(src4, dst4) && view.checksum() != 0);
            view.fill_checksum_v6(src.into(), dst.into());
            prop_assert!(view.checksum_ok_v6(src.into(), dst.into()));
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
