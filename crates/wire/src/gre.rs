// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRE (RFC 2784, key and sequence number by RFC 2890).
//!
//! Four fixed bytes, then up to three optional words in this order: checksum, key, sequence number.

use std::fmt;

use crate::header::{load_at, range, store_at};
use crate::{Error, EtherType, checksum};

/// Byte offsets of the fields.
pub mod field {
    /// Flags and version.
    pub const FLAGS: usize = 0;
    /// EtherType of the payload.
    pub const PROTOCOL: usize = 2;
}

/// Flag: checksum present.
pub const FLAG_CHECKSUM: u16 = 0x8000;
/// Flag: routing present (RFC 1701; obsolete).
pub const FLAG_ROUTING: u16 = 0x4000;
/// Flag: key present.
pub const FLAG_KEY: u16 = 0x2000;
/// Flag: sequence number present.
pub const FLAG_SEQUENCE: u16 = 0x1000;

header! {
    "GRE", 4;
    fields {
        /// Flags and version.
        flags / set_flags: u16 = field::FLAGS;
        /// EtherType of the payload.
        protocol / set_protocol: EtherType = field::PROTOCOL;
    }
    derived {
        /// Version; 0, or 1 for PPTP.
        version: u8 = |b| b[1] & 7;
        /// Length of the header with its optional words, in bytes.
        header_len: usize = |b| 4 + 4 * (b[0] & 0xb0).count_ones() as usize;
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks version, flags and length.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a version other than 0 or the obsolete routing flag.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        let flags = view.flags();
        Error::check_field(view.version() == 0, PROTOCOL, "version", view.version().into(), "0")?;
        Error::check_field(flags & FLAG_ROUTING == 0, PROTOCOL, "flags", flags.into(), "no routing flag")?;
        Error::check_len(PROTOCOL, view.header_len(), available)?;
        Ok(view)
    }

    /// Offset of the word of `flag`, which must be one of the three; `None` where it is absent.
    fn word_at(&self, flag: u16) -> Option<usize> {
        let flags = self.flags();
        // The words stand in the order of their flags' bits, high first.
        let before = flags & (FLAG_CHECKSUM | FLAG_KEY | FLAG_SEQUENCE) & !((flag << 1).wrapping_sub(1));
        (flags & flag != 0).then_some(HEADER_LEN + 4 * before.count_ones() as usize)
    }

    /// The key.
    pub fn key(&self) -> Option<u32> {
        self.word_at(FLAG_KEY).map(|at| load_at(self.as_slice(), at))
    }

    /// The sequence number.
    pub fn sequence(&self) -> Option<u32> {
        self.word_at(FLAG_SEQUENCE).map(|at| load_at(self.as_slice(), at))
    }

    /// Whether the checksum, over header and payload, is right or absent.
    pub fn checksum_ok(&self) -> bool {
        self.word_at(FLAG_CHECKSUM).is_none() || checksum::sum(self.as_slice()) == 0xffff
    }

    /// What the tunnel carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), self.header_len(), usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Computes and sets the checksum over the whole buffer, where the header has one.
    pub fn fill_checksum(&mut self) {
        if let Some(at) = self.word_at(FLAG_CHECKSUM) {
            store_at(self.as_mut_slice(), at, 0u32);
            let checksum = checksum::internet(self.as_slice());
            store_at(self.as_mut_slice(), at, checksum);
        }
    }
}

/// The meaning of a GRE header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// Whether there is a checksum.
    pub checksum: bool,
    /// Key.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        let checksum = view.flags() & FLAG_CHECKSUM != 0;
        Repr { protocol: view.protocol(), checksum, key: view.key(), sequence: view.sequence() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub fn header_len(&self) -> usize {
        let words = usize::from(self.checksum) + self.key.iter().len() + self.sequence.iter().len();
        HEADER_LEN + 4 * words
    }

    /// Writes the header to the front of `buffer`, its checksum zero; fill it once the payload stands.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        Error::check_len(PROTOCOL, self.header_len(), buffer.len())?;
        let words = [
            (self.checksum.then_some(0), FLAG_CHECKSUM),
            (self.key, FLAG_KEY),
            (self.sequence, FLAG_SEQUENCE),
        ];
        let (mut flags, mut at) = (0, HEADER_LEN);
        for (word, flag) in words {
            if let Some(word) = word {
                store_at::<u32>(buffer, at, word);
                at += 4;
                flags |= flag;
            }
        }
        HeaderMut::from_slice(buffer)?.set_flags(flags).set_protocol(self.protocol);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gre")?;
        if let Some(key) = self.key {
            write!(f, ", key {key:#x}")?;
        }
        if let Some(sequence) = self.sequence {
            write!(f, ", seq {sequence}")?;
        }
        write!(f, ", proto {}", self.protocol)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)?;
        write!(f, ", length {}", self.payload().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers() {
        let check = |bytes: &[u8], expected: &str| {
            let shown = View::new_checked(bytes).map_or_else(|e| e.to_string(), |v| v.to_string());
            assert_eq!(shown, expected);
        };
        check(&[0, 0, 8, 0, 1], "gre, proto ip, length 1");
        check(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 9], "gre, key 0x9, proto teb, length 0");
        check(&[0x30, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0, 1], "gre, key 0x9, seq 1, proto ip, length 0");
        check(&[0x20, 0, 8, 0], "GRE: truncated, 8 bytes needed but only 4 present");
        check(&[0, 1, 8, 0], "GRE: version is 1, expected 0");
        check(&[0x40, 0, 8, 0], "GRE: flags is 16384, expected no routing flag");
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(protocol: u16, checksum: bool, key: Option<u32>, sequence: Option<u32>, payload: [u8; 5]) {
            let repr = Repr { protocol: EtherType(protocol), checksum, key, sequence };
            let mut bytes = vec![0; repr.header_len()];
            repr.emit(&mut bytes).unwrap();
            bytes.extend(payload);
            let mut view = View::new_checked(bytes).unwrap();
            view.fill_checksum();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload(), payload);
        }
    }
}
