// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP for IPv4 (RFC 792, RFC 950, RFC 1191, RFC 1256), with the names that Click configurations use.
//!
//! Every message is type, code, checksum, four bytes whose meaning depends on the type, and data. The accessors for the
//! four bytes ([`View::identifier`], [`View::gateway`] and so on) read them as asked; which one applies is for the type to
//! say, as [`Repr::parse`] does.

use std::fmt;
use std::net::Ipv4Addr;

use crate::header::{load_at, range, store_at};
use crate::{Error, checksum, ipv4};

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
    /// Identifier of echo, timestamp, information and mask messages.
    pub const IDENTIFIER: usize = 4;
    /// Sequence number of the same.
    pub const SEQUENCE: usize = 6;
    /// Offset at fault, of a parameter problem.
    pub const POINTER: usize = 4;
    /// Next-hop MTU, of "fragmentation needed".
    pub const NEXT_HOP_MTU: usize = 6;
}

/// Defines a newtype over the type byte with names both ways.
macro_rules! types {
    ($($constant:ident = $number:literal, $name:literal;)*) => {
        impl Type {
            $( #[doc = concat!("`", $name, "`, type ", stringify!($number), ".")] pub const $constant: Type = Type($number); )*

            /// Click's name, where it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $number => Some($name), )*
                    _ => None,
                }
            }

            /// The type of one of Click's names.
            pub fn from_name(name: &str) -> Option<Type> {
                match name {
                    $( $name => Some(Type($number)), )*
                    _ => None,
                }
            }
        }
    };
}

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Type(pub u8);

types! {
    ECHO_REPLY = 0, "echo-reply";
    UNREACHABLE = 3, "unreachable";
    SOURCE_QUENCH = 4, "sourcequench";
    REDIRECT = 5, "redirect";
    ECHO = 8, "echo";
    ROUTER_ADVERT = 9, "routeradvert";
    ROUTER_SOLICIT = 10, "routersolicit";
    TIME_EXCEEDED = 11, "timeexceeded";
    PARAMETER_PROBLEM = 12, "parameterproblem";
    TIMESTAMP = 13, "timestamp";
    TIMESTAMP_REPLY = 14, "timestamp-reply";
    INFO_REQUEST = 15, "inforeq";
    INFO_REPLY = 16, "inforeq-reply";
    MASK_REQUEST = 17, "maskreq";
    MASK_REPLY = 18, "maskreq-reply";
}

field_as_bytes! {
    Type, 1, |b| Type(b[0]), |v| [v.0];
}

/// The codes of each type that has any, with Click's names. A code counts only together with its type.
const CODES: &[(Type, u8, &str)] = &[
    (Type::UNREACHABLE, 0, "net"),
    (Type::UNREACHABLE, 1, "host"),
    (Type::UNREACHABLE, 2, "protocol"),
    (Type::UNREACHABLE, 3, "port"),
    (Type::UNREACHABLE, 4, "needfrag"),
    (Type::UNREACHABLE, 5, "srcroutefail"),
    (Type::UNREACHABLE, 6, "netunknown"),
    (Type::UNREACHABLE, 7, "hostunknown"),
    (Type::UNREACHABLE, 8, "isolated"),
    (Type::UNREACHABLE, 9, "netprohibited"),
    (Type::UNREACHABLE, 10, "hostprohibited"),
    (Type::UNREACHABLE, 11, "tosnet"),
    (Type::UNREACHABLE, 12, "toshost"),
    (Type::UNREACHABLE, 13, "filterprohibited"),
    (Type::UNREACHABLE, 14, "hostprecedence"),
    (Type::UNREACHABLE, 15, "precedencecutoff"),
    (Type::REDIRECT, 0, "net"),
    (Type::REDIRECT, 1, "host"),
    (Type::REDIRECT, 2, "tosnet"),
    (Type::REDIRECT, 3, "toshost"),
    (Type::TIME_EXCEEDED, 0, "transit"),
    (Type::TIME_EXCEEDED, 1, "reassembly"),
    (Type::PARAMETER_PROBLEM, 0, "erroratptr"),
    (Type::PARAMETER_PROBLEM, 1, "missingopt"),
    (Type::PARAMETER_PROBLEM, 2, "length"),
];

impl Type {
    /// Click's name of one of this type's codes, where it has one.
    pub fn code_name(self, code: u8) -> Option<&'static str> {
        CODES.iter().find(|&&(t, c, _)| (t, c) == (self, code)).map(|&(_, _, name)| name)
    }

    /// The code of this type that Click calls `name`.
    pub fn code_from_name(self, name: &str) -> Option<u8> {
        CODES.iter().find(|&&(t, _, n)| t == self && n == name).map(|&(_, code, _)| code)
    }

    /// Whether the message reports a failure and quotes the packet at fault; no such message answers another (RFC 1122
    /// section 3.2.2).
    #[inline]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Type::UNREACHABLE
                | Type::SOURCE_QUENCH
                | Type::REDIRECT
                | Type::TIME_EXCEEDED
                | Type::PARAMETER_PROBLEM
        )
    }

    /// Whether the message carries an identifier and a sequence number.
    #[inline]
    pub const fn is_sequenced(self) -> bool {
        matches!(
            self,
            Type::ECHO
                | Type::ECHO_REPLY
                | Type::TIMESTAMP
                | Type::TIMESTAMP_REPLY
                | Type::INFO_REQUEST
                | Type::INFO_REPLY
                | Type::MASK_REQUEST
                | Type::MASK_REPLY
        )
    }

    /// Whether the message asks for one of type [`reply`](Self::reply).
    #[inline]
    pub const fn is_request(self) -> bool {
        self.reply().is_some()
    }

    /// The type that answers this one.
    #[inline]
    pub const fn reply(self) -> Option<Type> {
        Some(match self {
            Type::ECHO => Type::ECHO_REPLY,
            Type::TIMESTAMP => Type::TIMESTAMP_REPLY,
            Type::INFO_REQUEST => Type::INFO_REPLY,
            Type::MASK_REQUEST => Type::MASK_REPLY,
            Type::ROUTER_SOLICIT => Type::ROUTER_ADVERT,
            _ => return None,
        })
    }

    /// The least length of a message of this type in bytes, data left out.
    #[inline]
    pub const fn min_len(self) -> usize {
        match self {
            Type::TIMESTAMP | Type::TIMESTAMP_REPLY => 20,
            Type::MASK_REQUEST | Type::MASK_REPLY => 12,
            _ => HEADER_LEN,
        }
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

header! {
    "ICMP", 8;
    fields {
        /// Type.
        kind / set_kind: Type = field::TYPE;
        /// Code.
        code / set_code: u8 = field::CODE;
        /// Checksum.
        checksum / set_checksum: u16 = field::CHECKSUM;
        /// The four bytes that depend on the type.
        rest / set_rest: u32 = field::REST;
        /// Identifier, where [`Type::is_sequenced`].
        identifier / set_identifier: u16 = field::IDENTIFIER;
        /// Sequence number, where [`Type::is_sequenced`].
        sequence / set_sequence: u16 = field::SEQUENCE;
        /// Gateway to use instead, of a redirect.
        gateway / set_gateway: Ipv4Addr = field::REST;
        /// Offset at fault, of a parameter problem.
        pointer / set_pointer: u8 = field::POINTER;
        /// Next-hop MTU in bytes, of "fragmentation needed" (RFC 1191); zero where the router does not say.
        next_hop_mtu / set_next_hop_mtu: u16 = field::NEXT_HOP_MTU;
    }
    derived {}
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the message is as long as its type needs.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        Error::check_len(PROTOCOL, view.kind().min_len(), available)?;
        Ok(view)
    }

    /// What follows the eight bytes: echo data, or the quoted packet.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }

    /// The packet that an error quotes, usually cut off.
    ///
    /// # Errors
    /// Those of [`ipv4::View::new_header_checked`].
    pub fn quoted(&self) -> Result<ipv4::View<&[u8]>, Error> {
        ipv4::View::new_header_checked(self.payload())
    }

    /// Whether the checksum is right. The buffer must hold the message and nothing more.
    pub fn checksum_ok(&self) -> bool {
        checksum::sum(self.as_slice()) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Computes and sets the checksum. The buffer must hold the message and nothing more.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::internet(self.as_slice());
        self.set_checksum(checksum);
    }
}

/// The meaning of a message, without what follows its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repr {
    /// Echo and its reply, information and its reply: anything sequenced without fixed data.
    Sequenced {
        /// Type.
        kind: Type,
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// Timestamp and its reply; times in milliseconds since midnight, universal time.
    Timestamp {
        /// Whether this is the reply.
        reply: bool,
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
        /// When the request left.
        originate_ms: u32,
        /// When it arrived.
        receive_ms: u32,
        /// When the reply left.
        transmit_ms: u32,
    },
    /// Address mask request and its reply.
    Mask {
        /// Whether this is the reply.
        reply: bool,
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
        /// The mask.
        mask: Ipv4Addr,
    },
    /// The destination cannot be reached.
    Unreachable {
        /// Code.
        code: u8,
        /// Next-hop MTU in bytes, zero unless the code is "fragmentation needed".
        next_hop_mtu: u16,
    },
    /// There is a better first hop.
    Redirect {
        /// Code.
        code: u8,
        /// The better first hop.
        gateway: Ipv4Addr,
    },
    /// TTL or reassembly time ran out.
    TimeExceeded {
        /// Code.
        code: u8,
    },
    /// The header is wrong.
    ParameterProblem {
        /// Code.
        code: u8,
        /// Offset at fault.
        pointer: u8,
    },
    /// Anything else, its four bytes as they are.
    Other {
        /// Type.
        kind: Type,
        /// Code.
        code: u8,
        /// The four bytes that depend on the type.
        rest: u32,
    },
}

impl Repr {
    /// Reads a view; never fails. Codes of types that have none are not kept.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        let (kind, code) = (view.kind(), view.code());
        let (identifier, sequence) = (view.identifier(), view.sequence());
        match kind {
            Type::ECHO | Type::ECHO_REPLY | Type::INFO_REQUEST | Type::INFO_REPLY => {
                Repr::Sequenced { kind, identifier, sequence }
            }
            Type::TIMESTAMP | Type::TIMESTAMP_REPLY => Repr::Timestamp {
                reply: kind == Type::TIMESTAMP_REPLY,
                identifier,
                sequence,
                originate_ms: load_at(view.as_slice(), 8),
                receive_ms: load_at(view.as_slice(), 12),
                transmit_ms: load_at(view.as_slice(), 16),
            },
            Type::MASK_REQUEST | Type::MASK_REPLY => Repr::Mask {
                reply: kind == Type::MASK_REPLY,
                identifier,
                sequence,
                mask: load_at(view.as_slice(), 8),
            },
            Type::UNREACHABLE => Repr::Unreachable { code, next_hop_mtu: view.next_hop_mtu() },
            Type::REDIRECT => Repr::Redirect { code, gateway: view.gateway() },
            Type::TIME_EXCEEDED => Repr::TimeExceeded { code },
            Type::PARAMETER_PROBLEM => Repr::ParameterProblem { code, pointer: view.pointer() },
            _ => Repr::Other { kind, code, rest: view.rest() },
        }
    }

    /// Type and code.
    pub fn type_and_code(&self) -> (Type, u8) {
        match *self {
            Repr::Sequenced { kind, .. } => (kind, 0),
            Repr::Timestamp { reply, .. } => (if reply { Type::TIMESTAMP_REPLY } else { Type::TIMESTAMP }, 0),
            Repr::Mask { reply, .. } => (if reply { Type::MASK_REPLY } else { Type::MASK_REQUEST }, 0),
            Repr::Unreachable { code, .. } => (Type::UNREACHABLE, code),
            Repr::Redirect { code, .. } => (Type::REDIRECT, code),
            Repr::TimeExceeded { code } => (Type::TIME_EXCEEDED, code),
            Repr::ParameterProblem { code, .. } => (Type::PARAMETER_PROBLEM, code),
            Repr::Other { kind, code, .. } => (kind, code),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub fn header_len(&self) -> usize {
        self.type_and_code().0.min_len()
    }

    /// Writes the message's fixed part to the front of `buffer`, its checksum zero; fill it once the data stands.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        Error::check_len(PROTOCOL, self.header_len(), buffer.len())?;
        let (kind, code) = self.type_and_code();
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_kind(kind).set_code(code).set_checksum(0).set_rest(0);
        match *self {
            Repr::Sequenced { identifier, sequence, .. } => {
                header.set_identifier(identifier).set_sequence(sequence);
            }
            Repr::Timestamp { identifier, sequence, originate_ms, receive_ms, transmit_ms, .. } => {
                header.set_identifier(identifier).set_sequence(sequence);
                for (at, time) in [(8, originate_ms), (12, receive_ms), (16, transmit_ms)] {
                    store_at(buffer, at, time);
                }
            }
            Repr::Mask { identifier, sequence, mask, .. } => {
                header.set_identifier(identifier).set_sequence(sequence);
                store_at(buffer, 8, mask);
            }
            Repr::Unreachable { next_hop_mtu, .. } => {
                header.set_next_hop_mtu(next_hop_mtu);
            }
            Repr::Redirect { gateway, .. } => {
                header.set_gateway(gateway);
            }
            Repr::ParameterProblem { pointer, .. } => {
                header.set_pointer(pointer);
            }
            Repr::TimeExceeded { .. } => {}
            Repr::Other { rest, .. } => {
                header.set_rest(rest);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, code) = self.type_and_code();
        write!(f, "icmp {kind}")?;
        match kind.code_name(code) {
            Some(name) => write!(f, " {name}")?,
            None if code != 0 => write!(f, " code {code}")?,
            None => {}
        }
        match *self {
            Repr::Sequenced { identifier, sequence, .. }
            | Repr::Timestamp { identifier, sequence, .. }
            | Repr::Mask { identifier, sequence, .. } => write!(f, " ({identifier}, {sequence})"),
            Repr::Unreachable { next_hop_mtu, .. } if next_hop_mtu != 0 => write!(f, " (mtu {next_hop_mtu})"),
            Repr::Redirect { gateway, .. } => write!(f, " to {gateway}"),
            Repr::ParameterProblem { pointer, .. } => write!(f, " at {pointer}"),
            _ => Ok(()),
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
    fn names_agree_with_numbers() {
        for number in 0..=255 {
            let kind = Type(number);
            assert_eq!(kind.name().map(Type::from_name), kind.name().map(|_| Some(kind)));
            for code in 0..=255 {
                let name = kind.code_name(code);
                assert_eq!(name.map(|name| kind.code_from_name(name)), name.map(|_| Some(code)));
            }
        }
    }

    #[test]
    fn one_line() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(View::new_checked(bytes).unwrap().to_string(), expected)
        };
        check(&[8, 0, 0, 0, 0, 1, 0, 2], "icmp echo (1, 2)");
        check(&[3, 4, 0, 0, 0, 0, 5, 0xdc], "icmp unreachable needfrag (mtu 1500)");
        check(&[3, 200, 0, 0, 0, 0, 0, 0], "icmp unreachable code 200");
        check(&[5, 1, 0, 0, 10, 0, 0, 1], "icmp redirect host to 10.0.0.1");
        check(&[11, 0, 0, 0, 0, 0, 0, 0], "icmp timeexceeded transit");
        check(&[12, 0, 0, 0, 20, 0, 0, 0], "icmp parameterproblem erroratptr at 20");
        check(&[42, 0, 0, 0, 0, 0, 0, 0], "icmp type 42");
        assert!(View::new_checked([13u8, 0, 0, 0, 0, 0, 0, 0]).is_err(), "a timestamp has 20 bytes");
    }

    proptest! {
        #[test]
        fn emits_what_it_parses(mut bytes: [u8; 24], kind in 0u8..20) {
            bytes[0] = kind;
            let mut view = View::new_checked(&mut bytes[..]).unwrap();
            view.fill_checksum();
            prop_assert!(view.checksum_ok());
            let repr = Repr::parse(&view);
            let mut emitted = [0; 24];
            repr.emit(&mut emitted).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(emitted).unwrap()), repr);
            prop_assert!(repr.emit(&mut emitted[..repr.header_len() - 1]).is_err());
        }
    }
}
