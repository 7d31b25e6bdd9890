// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP options (RFC 9293 section 3.1, RFC 7323, RFC 2018): reading them safely.

use std::fmt;

use crate::Error;

const PROTOCOL: &str = "TCP option";

/// Option kinds as IANA numbers them.
pub mod kind {
    /// End of option list.
    pub const EOL: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// Window scale.
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgement permitted.
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgement.
    pub const SACK: u8 = 5;
    /// Timestamps.
    pub const TIMESTAMPS: u8 = 8;
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Nothing follows.
    EndOfList,
    /// Padding between options.
    Nop,
    /// The largest payload the sender will take, in bytes.
    MaxSegmentSize(u16),
    /// Bits by which the sender's windows are to be shifted.
    WindowScale(u8),
    /// The sender understands selective acknowledgements.
    SackPermitted,
    /// Blocks received beyond the acknowledgement: left and right edge, 4 bytes each.
    Sack(&'a [[u8; 8]]),
    /// The sender's clock, and the peer's last.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The clock echoed.
        echo: u32,
    },
    /// Anything else.
    Unknown {
        /// Kind.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

impl<'a> TcpOption<'a> {
    /// Reads the first option of `bytes` and says how many bytes it takes.
    ///
    /// # Errors
    /// A length that is too small, runs over the end, or is wrong for the kind.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), Error> {
        let missing = |needed| Error::Truncated { protocol: PROTOCOL, needed, available: bytes.len() };
        let &kind = bytes.first().ok_or(missing(1))?;
        match kind {
            kind::EOL => return Ok((TcpOption::EndOfList, 1)),
            kind::NOP => return Ok((TcpOption::Nop, 1)),
            _ => {}
        }
        let len = usize::from(*bytes.get(1).ok_or(missing(2))?);
        Error::check_field(len >= 2, PROTOCOL, "length", len as u32, "at least 2")?;
        let data = bytes.get(2..len).ok_or(missing(len))?;
        let option = match (kind, data) {
            (kind::MSS, &[a, b]) => TcpOption::MaxSegmentSize(u16::from_be_bytes([a, b])),
            (kind::WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
            (kind::SACK_PERMITTED, []) => TcpOption::SackPermitted,
            (kind::SACK, _) if data.len().is_multiple_of(8) => TcpOption::Sack(data.as_chunks().0),
            (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            (kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::SACK | kind::TIMESTAMPS, _) => {
                let (field, expected) = ("length", "the length of its kind");
                return Err(Error::Field { protocol: PROTOCOL, field, value: len as u32, expected });
            }
            _ => TcpOption::Unknown { kind, data },
        };
        Ok((option, len))
    }
}

impl fmt::Display for TcpOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpOption::EndOfList => f.write_str("eol"),
            TcpOption::Nop => f.write_str("nop"),
            TcpOption::MaxSegmentSize(mss) => write!(f, "mss {mss}"),
            TcpOption::WindowScale(shift) => write!(f, "wscale {shift}"),
            TcpOption::SackPermitted => f.write_str("sackOK"),
            TcpOption::Sack(blocks) => {
                write!(f, "sack {}", blocks.len())?;
                blocks.iter().try_for_each(|&[a, b, c, d, e, g, h, i]| {
                    write!(
                        f,
                        " {{{}:{}}}",
                        u32::from_be_bytes([a, b, c, d]),
                        u32::from_be_bytes([e, g, h, i])
                    )
                })
            }
            TcpOption::Timestamps { value, echo } => write!(f, "TS val {value} ecr {echo}"),
            TcpOption::Unknown { kind, data } => write!(f, "unknown-{kind} {}B", data.len()),
        }
    }
}

/// The options of a header with their offsets from the first option byte; ends after [`TcpOption::EndOfList`] or an error.
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
    type Item = Result<(usize, TcpOption<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let at = self.offset;
        let parsed = TcpOption::parse(rest);
        self.offset = match parsed {
            Ok((option, len)) if option != TcpOption::EndOfList => at + len,
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
        check(&[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7], &["0:mss 1460", "4:sackOK", "6:nop", "7:wscale 7"]);
        check(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 5], &["0:TS val 1 ecr 2", "10:eol"]);
        check(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2], &["0:sack 1 {1:2}"]);
        check(&[254, 3, 1], &["0:unknown-254 1B"]);
        check(&[2, 3, 5], &["TCP option: length is 3, expected the length of its kind"]);
        check(&[2, 4, 5], &["TCP option: truncated, 4 bytes needed but only 3 present"]);
        check(&[9, 0], &["TCP option: length is 0, expected at least 2"]);
    }

    proptest! {
        #[test]
        fn ends_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..=40)) {
            prop_assert!(OptionIter::new(&bytes).count() <= bytes.len());
        }
    }
}
