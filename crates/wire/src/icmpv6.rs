// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP for IPv6 (RFC 4443): the header that all messages share. Neighbour discovery is in [`crate::ndp`].

use std::fmt;
use std::net::Ipv6Addr;

use crate::header::range;
use crate::{Error, Protocol, checksum, ipv6, ndp};

/// Byte offsets of the fields.
pub mod field {
    /// Type.
    pub const TYPE: usize = 0;
    /// Code.
    pub const CODE: usize = 1;
    /// Checksum.
    pub const CHECKSUM: usize = 2;
    /// The four bytes that depend on the type.
    pub const REST: usize = 4;
    /// Identifier of echo messages.
    pub const IDENTIFIER: usize = 4;
    /// Sequence number of echo messages.
    pub const SEQUENCE: usize = 6;
}

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Type(pub u8);

impl Type {
    /// Destination unreachable.
    pub const UNREACHABLE: Type = Type(1);
    /// Packet too big.
    pub const PACKET_TOO_BIG: Type = Type(2);
    /// Time exceeded.
    pub const TIME_EXCEEDED: Type = Type(3);
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: Type = Type(4);
    /// Echo request.
    pub const ECHO: Type = Type(128);
    /// Echo reply.
    pub const ECHO_REPLY: Type = Type(129);
    /// Multicast listener query (RFC 2710, RFC 9777).
    pub const MLD_QUERY: Type = Type(130);
    /// Multicast listener report, version 1.
    pub const MLD_REPORT: Type = Type(131);
    /// Multicast listener done.
    pub const MLD_DONE: Type = Type(132);
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICIT: Type = Type(133);
    /// Router advertisement.
    pub const ROUTER_ADVERT: Type = Type(134);
    /// Neighbour solicitation.
    pub const NEIGHBOR_SOLICIT: Type = Type(135);
    /// Neighbour advertisement.
    pub const NEIGHBOR_ADVERT: Type = Type(136);
    /// Redirect.
    pub const REDIRECT: Type = Type(137);
    /// Multicast listener report, version 2.
    pub const MLD2_REPORT: Type = Type(143);

    /// A short name, where this crate knows one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Type::UNREACHABLE => "unreachable",
            Type::PACKET_TOO_BIG => "toobig",
            Type::TIME_EXCEEDED => "timeexceeded",
            Type::PARAMETER_PROBLEM => "parameterproblem",
            Type::ECHO => "echo",
            Type::ECHO_REPLY => "echo-reply",
            Type::MLD_QUERY => "listener-query",
            Type::MLD_REPORT | Type::MLD2_REPORT => "listener-report",
            Type::MLD_DONE => "listener-done",
            Type::ROUTER_SOLICIT => "routersolicit",
            Type::ROUTER_ADVERT => "routeradvert",
            Type::NEIGHBOR_SOLICIT => "neighborsolicit",
            Type::NEIGHBOR_ADVERT => "neighboradvert",
            Type::REDIRECT => "redirect",
            _ => return None,
        })
    }

    /// Whether the message reports a failure and quotes the packet at fault (RFC 4443 section 2.1: the high bit is clear).
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

field_as_bytes! {
    Type, 1, |b| Type(b[0]), |v| [v.0];
}

header! {
    "ICMPv6", 8;
    fields {
        /// Type.
        kind / set_kind: Type = field::TYPE;
        /// Code.
        code / set_code: u8 = field::CODE;
        /// Checksum.
        checksum / set_checksum: u16 = field::CHECKSUM;
        /// The four bytes that depend on the type: MTU of "packet too big", pointer of a parameter problem.
        rest / set_rest: u32 = field::REST;
        /// Identifier of echo messages.
        identifier / set_identifier: u16 = field::IDENTIFIER;
        /// Sequence number of echo messages.
        sequence / set_sequence: u16 = field::SEQUENCE;
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

    /// What follows the eight bytes: echo data, the quoted packet, or a discovery message.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }

    /// The packet that an error quotes, usually cut off.
    ///
    /// # Errors
    /// Those of [`ipv6::View::new_header_checked`].
    pub fn quoted(&self) -> Result<ipv6::View<&[u8]>, Error> {
        ipv6::View::new_header_checked(self.payload())
    }

    /// Whether the checksum is right. The buffer must hold the message and nothing more.
    pub fn checksum_ok(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        checksum::transport_v6_ok(src, dst, Protocol::ICMPV6, self.as_slice())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Computes and sets the checksum. The buffer must hold the message and nothing more.
    pub fn fill_checksum(&mut self, src: Ipv6Addr, dst: Ipv6Addr) {
        self.set_checksum(0);
        let checksum = checksum::transport_v6(src, dst, Protocol::ICMPV6, self.as_slice());
        self.set_checksum(checksum);
    }
}

/// The meaning of a message's first eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Type.
    pub kind: Type,
    /// Code.
    pub code: u8,
    /// The four bytes that depend on the type.
    pub rest: u32,
}

impl Repr {
    /// An echo request, or its reply.
    pub fn echo(reply: bool, identifier: u16, sequence: u16) -> Self {
        let kind = if reply { Type::ECHO_REPLY } else { Type::ECHO };
        Repr { kind, code: 0, rest: u32::from(identifier) << 16 | u32::from(sequence) }
    }

    /// The next link takes packets of at most `mtu` bytes.
    pub fn packet_too_big(mtu: u32) -> Self {
        Repr { kind: Type::PACKET_TOO_BIG, code: 0, rest: mtu }
    }

    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr { kind: view.kind(), code: view.code(), rest: view.rest() }
    }

    /// Writes the eight bytes to the front of `buffer`, the checksum zero; fill it once the data stands.
    ///
    /// # Errors
    /// [`Error::Truncated`] where they do not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_kind(self.kind).set_code(self.code).set_checksum(0).set_rest(self.rest);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icmp6 {}", self.kind)?;
        if self.code != 0 {
            write!(f, " code {}", self.code)?;
        }
        match self.kind {
            Type::ECHO | Type::ECHO_REPLY => write!(f, " ({}, {})", self.rest >> 16, self.rest & 0xffff),
            Type::PACKET_TOO_BIG => write!(f, " (mtu {})", self.rest),
            Type::PARAMETER_PROBLEM => write!(f, " at {}", self.rest),
            _ => Ok(()),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ndp::Repr::parse(self) {
            Ok(discovery) => discovery.fmt(f),
            Err(_) => Repr::parse(self).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(View::new_checked(bytes).unwrap().to_string(), expected)
        };
        check(&[128, 0, 0, 0, 0, 1, 0, 2], "icmp6 echo (1, 2)");
        check(&[2, 0, 0, 0, 0, 0, 5, 0], "icmp6 toobig (mtu 1280)");
        check(&[4, 1, 0, 0, 0, 0, 0, 40], "icmp6 parameterproblem code 1 at 40");
        check(&[1, 4, 0, 0, 0, 0, 0, 0], "icmp6 unreachable code 4");
        check(&[200, 0, 0, 0, 0, 0, 0, 0], "icmp6 type 200");
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(kind: u8, code: u8, rest: u32, src: u128, dst: u128) {
            let repr = Repr { kind: Type(kind), code, rest };
            let mut bytes = [0; 24];
            repr.emit(&mut bytes).unwrap();
            let mut view = View::new_checked(bytes).unwrap();
            view.fill_checksum(src.into(), dst.into());
            prop_assert!(view.checksum_ok(src.into(), dst.into()));
            prop_assert_eq!(Repr::parse(&view), repr);
        }
    }
}
