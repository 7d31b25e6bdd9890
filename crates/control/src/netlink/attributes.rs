// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes: type, length and value, as they follow the fixed part of a message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use feed::Labels;

use super::{AF_INET, AF_INET6, Error};

const HEADER_BYTES: usize = 4;
/// The two highest bits of a type say how the value is encoded.
const TYPE_MASK: u16 = 0x3fff;

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Goes through attributes. After an error there are no more.
#[derive(Clone, Debug)]
pub(super) struct Attributes<'a> {
    bytes: &'a [u8],
    /// Where `bytes` begin in what was read.
    at: usize,
    /// The message's type, for errors.
    message: u16,
}

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) value: &'a [u8],
    at: usize,
    message: u16,
}

impl<'a> Attributes<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, message: u16) -> Attributes<'a> {
        Attributes { bytes, at, message }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let (rest, at) = (std::mem::take(&mut self.bytes), self.at);
        let error = |what| Some(Err(Error { at, kind: self.message, what }));
        let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) else {
            return error("an attribute of less than 4 bytes");
        };
        let Some(value) = rest.get(HEADER_BYTES..usize::from(len)) else {
            return error("an attribute's length does not fit");
        };
        let step = usize::from(len).next_multiple_of(4);
        self.bytes = rest.get(step..).unwrap_or(&[]);
        self.at += step;
        Some(Ok(Attribute { kind: kind & TYPE_MASK, value, at: at + HEADER_BYTES, message: self.message }))
    }
}

impl<'a> Attribute<'a> {
    pub(super) fn error(&self, what: &'static str) -> Error {
        Error { at: self.at, kind: self.message, what }
    }

    /// The attributes inside the value.
    pub(super) fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value, self.at, self.message)
    }

    /// The attributes inside the value from byte `from` on.
    pub(super) fn nested_from(&self, from: usize, to: usize) -> Attributes<'a> {
        Attributes::new(self.value.get(from..to).unwrap_or(&[]), self.at + from, self.message)
    }

    #[inline]
    pub(super) fn u32(&self) -> Result<u32, Error> {
        match self.value.first_chunk() {
            Some(bytes) => Ok(u32::from_ne_bytes(*bytes)),
            None => Err(self.error("a number of less than 4 bytes")),
        }
    }

    #[inline]
    pub(super) fn u16(&self) -> Result<u16, Error> {
        u16_at(self.value, 0).ok_or_else(|| self.error("a number of less than 2 bytes"))
    }

    #[inline]
    pub(super) fn u8(&self) -> Result<u8, Error> {
        self.value.first().copied().ok_or_else(|| self.error("an empty number"))
    }

    /// An IPv4 or IPv6 address, by its length.
    #[inline]
    pub(super) fn address(&self) -> Result<IpAddr, Error> {
        address(self.value).ok_or_else(|| self.error("an address has 4 or 16 bytes"))
    }

    /// An address with its family in front (`struct rtvia`).
    pub(super) fn via(&self) -> Result<IpAddr, Error> {
        let family = u16_at(self.value, 0);
        let found = self.value.get(2..).and_then(address);
        let fits = match found {
            Some(IpAddr::V4(_)) => family == Some(u16::from(AF_INET)),
            Some(IpAddr::V6(_)) => family == Some(u16::from(AF_INET6)),
            None => false,
        };
        found.filter(|_| fits).ok_or_else(|| self.error("the next hop's address does not fit its family"))
    }

    /// A stack of MPLS labels as packets have it (RFC 3032), the outermost first.
    pub(super) fn labels(&self) -> Result<Labels, Error> {
        let (entries, rest) = self.value.as_chunks::<4>();
        if !rest.is_empty() || entries.is_empty() {
            return Err(self.error("a label stack has 4 bytes for each label"));
        }
        let mut labels = [0; feed::LABELS_MAX];
        let Some(kept) = labels.get_mut(..entries.len()) else {
            return Err(self.error("more than 8 labels"));
        };
        for (n, (label, entry)) in kept.iter_mut().zip(entries).enumerate() {
            let entry = u32::from_be_bytes(*entry);
            *label = entry >> 12;
            if (entry >> 8 & 1 == 1) != (n + 1 == entries.len()) {
                return Err(self.error("only the last label bears the mark of the bottom"));
            }
        }
        Labels::new(kept).ok_or_else(|| self.error("a label of more than 20 bits"))
    }

    /// Text that ends with a zero byte, or with the value.
    pub(super) fn text(&self) -> Result<&'a str, Error> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(&self.value[..end]).map_err(|_| self.error("text that is not UTF-8"))
    }
}

#[inline]
fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into()),
        16 => bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}
