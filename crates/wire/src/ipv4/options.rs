// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 options (RFC 791 section 3.1, router alert RFC 2113): reading them safely.
//!
//! An option is one byte (end of list, no operation) or kind, length, and data. Routes and timestamps carry a *pointer*, the
//! 1-based offset within the option of the next free slot; 4 means that none is used.

use std::fmt;
use std::net::Ipv4Addr;

use crate::Error;

const PROTOCOL: &str = "IPv4 option";

/// Option kinds, with the copy flag and class as RFC 791 numbers them.
pub mod kind {
    /// End of option list.
    pub const EOL: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Record route.
    pub const RR: u8 = 7;
    /// Timestamp.
    pub const TS: u8 = 68;
    /// Loose source route.
    pub const LSRR: u8 = 131;
    /// Strict source route.
    pub const SSRR: u8 = 137;
    /// Router alert.
    pub const RA: u8 = 148;
}

/// Whether fragments after the first carry the option as well (RFC 791: the copied flag).
pub const fn is_copied(kind: u8) -> bool {
    kind & 0x80 != 0
}

/// A list of addresses with a pointer: the body of a record route or source route option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'a> {
    /// 1-based offset within the option of the next slot.
    pub pointer: u8,
    /// The slots, 4 bytes each; a last incomplete slot is left out.
    pub slots: &'a [[u8; 4]],
}

impl Route<'_> {
    /// The index of the next slot; `None` where all are used or the pointer is off the grid.
    pub fn next(&self) -> Option<usize> {
        let offset = usize::from(self.pointer).checked_sub(4)?;
        (offset.is_multiple_of(4) && offset / 4 < self.slots.len()).then_some(offset / 4)
    }

    /// The addresses in all slots.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.slots.iter().map(|&slot| slot.into())
    }
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, address) in self.addresses().enumerate() {
            let mark = if self.next() == Some(i) { "^" } else { "" };
            write!(f, "{}{mark}{address}", if i == 0 { "" } else { " " })?;
        }
        f.write_str("}")
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv4Option<'a> {
    /// Nothing follows.
    EndOfList,
    /// Padding between options.
    Nop,
    /// Routers on the way write their addresses.
    RecordRoute(Route<'a>),
    /// The packet must visit these, others between them allowed.
    LooseSourceRoute(Route<'a>),
    /// The packet must visit these and no others.
    StrictSourceRoute(Route<'a>),
    /// Routers on the way write their time.
    Timestamp {
        /// 1-based offset within the option of the next slot.
        pointer: u8,
        /// Routers that found no slot, 0 to 15.
        overflow: u8,
        /// 0: times alone; 1: address and time each; 3: addresses given, times to be filled in.
        flag: u8,
        /// The slots' bytes.
        data: &'a [u8],
    },
    /// Every router shall look at the packet.
    RouterAlert(u16),
    /// Anything else.
    Unknown {
        /// Kind, copied flag and class included.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

impl<'a> Ipv4Option<'a> {
    /// Reads the first option of `bytes` and says how many bytes it takes.
    ///
    /// # Errors
    /// A length that is too small or runs over the end.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), Error> {
        let missing = |needed| Error::Truncated { protocol: PROTOCOL, needed, available: bytes.len() };
        let &kind = bytes.first().ok_or(missing(1))?;
        match kind {
            kind::EOL => return Ok((Ipv4Option::EndOfList, 1)),
            kind::NOP => return Ok((Ipv4Option::Nop, 1)),
            _ => {}
        }
        let len = usize::from(*bytes.get(1).ok_or(missing(2))?);
        Error::check_field(len >= 2, PROTOCOL, "length", len as u32, "at least 2")?;
        let data = bytes.get(2..len).ok_or(missing(len))?;
        Ok((Self::parse_body(kind, data)?, len))
    }

    fn parse_body(kind: u8, data: &'a [u8]) -> Result<Self, Error> {
        let short = || Error::Field {
            protocol: PROTOCOL,
            field: "length",
            value: data.len() as u32 + 2,
            expected: "room for the option's fixed part",
        };
        let route = || {
            let (&pointer, slots) = data.split_first().ok_or_else(short)?;
            Ok(Route { pointer, slots: slots.as_chunks().0 })
        };
        Ok(match kind {
            kind::RR => Ipv4Option::RecordRoute(route()?),
            kind::LSRR => Ipv4Option::LooseSourceRoute(route()?),
            kind::SSRR => Ipv4Option::StrictSourceRoute(route()?),
            kind::TS => {
                let (&[pointer, flags], data) = data.split_first_chunk().ok_or_else(short)?;
                Ipv4Option::Timestamp { pointer, overflow: flags >> 4, flag: flags & 0xf, data }
            }
            kind::RA => Ipv4Option::RouterAlert(u16::from_be_bytes(*data.first_chunk().ok_or_else(short)?)),
            _ => Ipv4Option::Unknown { kind, data },
        })
    }
}

impl fmt::Display for Ipv4Option<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ipv4Option::EndOfList => f.write_str("eol"),
            Ipv4Option::Nop => f.write_str("nop"),
            Ipv4Option::RecordRoute(route) => write!(f, "rr{route}"),
            Ipv4Option::LooseSourceRoute(route) => write!(f, "lsrr{route}"),
            Ipv4Option::StrictSourceRoute(route) => write!(f, "ssrr{route}"),
            Ipv4Option::Timestamp { pointer, overflow, flag, .. } => {
                write!(f, "ts{{pointer {pointer} overflow {overflow} flag {flag}}}")
            }
            Ipv4Option::RouterAlert(value) => write!(f, "ra {value}"),
            Ipv4Option::Unknown { kind, data } => write!(f, "unknown-{kind} {}B", data.len()),
        }
    }
}

/// The options of a header with their offsets from the first option byte; ends after [`Ipv4Option::EndOfList`] or an error.
#[derive(Debug, Clone)]
pub struct OptionIter<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> OptionIter<'a> {
    /// The options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        OptionIter { bytes, offset: 0 }
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<(usize, Ipv4Option<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let at = self.offset;
        let parsed = Ipv4Option::parse(rest);
        self.offset = match parsed {
            Ok((option, len)) if option != Ipv4Option::EndOfList => at + len,
            _ => self.bytes.len(),
        };
        Some(parsed.map(|(option, _)| (at, option)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kinds() {
        let check = |bytes: &[u8], expected: &[&str]| {
            let shown: Vec<String> = OptionIter::new(bytes)
                .map(|o| o.map_or_else(|e| e.to_string(), |(at, o)| format!("{at}:{o}")))
                .collect();
            assert_eq!(shown, expected, "{bytes:?}");
        };
        check(&[], &[]);
        check(&[1, 1, 0, 9], &["0:nop", "1:nop", "2:eol"]);
        check(&[7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0], &["0:rr{10.0.0.1 ^0.0.0.0}", "11:eol"]);
        check(&[131, 7, 4, 10, 0, 0, 1], &["0:lsrr{^10.0.0.1}"]);
        check(&[137, 7, 8, 10, 0, 0, 1], &["0:ssrr{10.0.0.1}"]);
        check(&[1, 68, 8, 5, 0x21, 0, 0, 0, 0], &["0:nop", "1:ts{pointer 5 overflow 2 flag 1}"]);
        check(&[148, 4, 0, 0], &["0:ra 0"]);
        check(&[200, 3, 9], &["0:unknown-200 1B"]);
        check(&[7, 1], &["IPv4 option: length is 1, expected at least 2"]);
        check(&[7], &["IPv4 option: truncated, 2 bytes needed but only 1 present"]);
        check(&[1, 7, 5, 4], &["0:nop", "IPv4 option: truncated, 5 bytes needed but only 3 present"]);
        check(&[7, 2], &["IPv4 option: length is 2, expected room for the option's fixed part"]);
        check(&[148, 3, 0], &["IPv4 option: length is 3, expected room for the option's fixed part"]);
    }

    proptest! {
        #[test]
        fn ends_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..=40)) {
            prop_assert!(OptionIter::new(&bytes).count() <= bytes.len());
        }
    }
}
