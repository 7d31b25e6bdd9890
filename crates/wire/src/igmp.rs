// SPDX-License-Identifier: MIT OR Apache-2.0
//! IGMP (RFC 1112, RFC 2236, RFC 9776): the eight bytes that all versions share.

use std::fmt;
use std::net::Ipv4Addr;

use crate::header::range;
use crate::{Error, checksum};

/// Byte offsets of the fields.
pub mod field {
    /// Type.
    pub const TYPE: usize = 0;
    /// Greatest response time.
    pub const MAX_RESPONSE: usize = 1;
    /// Checksum.
    pub const CHECKSUM: usize = 2;
    /// Group address; in version 3 reports, reserved and number of records.
    pub const GROUP: usize = 4;
}

/// Type of membership queries of all versions.
pub const TYPE_QUERY: u8 = 0x11;
/// Type of version 1 reports.
pub const TYPE_REPORT_V1: u8 = 0x12;
/// Type of version 2 reports.
pub const TYPE_REPORT_V2: u8 = 0x16;
/// Type of version 2 leave messages.
pub const TYPE_LEAVE: u8 = 0x17;
/// Type of version 3 reports.
pub const TYPE_REPORT_V3: u8 = 0x22;

header! {
    "IGMP", 8;
    fields {
        /// Type.
        kind / set_kind: u8 = field::TYPE;
        /// Greatest response time of a query, in tenths of a second; from 128 on in version 3, a floating point number.
        max_response / set_max_response: u8 = field::MAX_RESPONSE;
        /// Checksum.
        checksum / set_checksum: u16 = field::CHECKSUM;
        /// Group asked about, joined or left; zero in general queries.
        group / set_group: Ipv4Addr = field::GROUP;
    }
    derived {}
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the message has its eight bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        Ok(View { buffer })
    }

    /// What follows: sources and records of version 3.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }

    /// Whether the checksum is right. The buffer must hold the message and nothing more.
    pub fn checksum_ok(&self) -> bool {
        checksum::sum(self.as_slice()) == 0xffff
    }
}

/// The meaning of a message of version 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Type.
    pub kind: u8,
    /// Greatest response time in tenths of a second.
    pub max_response: u8,
    /// Group.
    pub group: Ipv4Addr,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr { kind: view.kind(), max_response: view.max_response(), group: view.group() }
    }

    /// Writes the message, its checksum included, to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_kind(self.kind).set_max_response(self.max_response).set_checksum(0).set_group(self.group);
        let checksum = checksum::internet(header.as_bytes_mut());
        header.set_checksum(checksum);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TYPE_QUERY if self.group.is_unspecified() => f.write_str("igmp query"),
            TYPE_QUERY => write!(f, "igmp query {}", self.group),
            TYPE_REPORT_V1 => write!(f, "igmp v1 report {}", self.group),
            TYPE_REPORT_V2 => write!(f, "igmp v2 report {}", self.group),
            TYPE_LEAVE => write!(f, "igmp leave {}", self.group),
            TYPE_REPORT_V3 => write!(f, "igmp v3 report, {} records", self.group.to_bits() & 0xffff),
            other => write!(f, "igmp type {other:#04x}"),
        }
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
    fn one_line() {
        let check = |kind, group: [u8; 4], expected: &str| {
            assert_eq!(Repr { kind, max_response: 100, group: group.into() }.to_string(), expected);
        };
        check(TYPE_QUERY, [0; 4], "igmp query");
        check(TYPE_REPORT_V2, [239, 0, 0, 1], "igmp v2 report 239.0.0.1");
        check(TYPE_REPORT_V3, [0, 0, 0, 3], "igmp v3 report, 3 records");
        check(0x99, [0; 4], "igmp type 0x99");
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(kind: u8, max_response: u8, group: u32) {
            let repr = Repr { kind, max_response, group: group.into() };
            let mut bytes = [0; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            let view = View::new_checked(bytes).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
