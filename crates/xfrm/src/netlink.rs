// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink's messages and attributes (RFC 3549; `linux/netlink.h`). Numbers are in the machine's byte order.

use zeroize::Zeroizing;

/// Bytes of messages. They are erased when they are dropped, for keys may be in them.
pub type Bytes = Zeroizing<Vec<u8>>;

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 16;
/// Bytes of an attribute's header.
const ATTRIBUTE_HEADER_LEN: usize = 4;

/// Kinds of control messages.
pub mod control {
    /// An error, or an acknowledgement.
    pub const ERROR: u16 = 2;
    /// The end of a dump.
    pub const DONE: u16 = 3;
    /// Messages were lost.
    pub const OVERRUN: u16 = 4;
    /// Ours: messages that a client of the Unix socket wants to get back. Linux has no message of this kind.
    pub const ECHO: u16 = 14;
    /// Ours: what a client of the Unix socket says about itself. Linux has no message of this kind.
    pub const HELLO: u16 = 15;
}

/// Flags in headers.
pub mod flag {
    /// It is a request.
    pub const REQUEST: u16 = 1;
    /// One of several messages, which end with [`DONE`](super::control::DONE).
    pub const MULTI: u16 = 2;
    /// An acknowledgement is wanted.
    pub const ACK: u16 = 4;
    /// All objects are wanted.
    pub const DUMP: u16 = 0x300;
    /// An error shows of the request the header only.
    pub const CAPPED: u16 = 0x100;
    /// Attributes stand behind an error.
    pub const ACK_TLVS: u16 = 0x200;
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: u16,
    /// How it is meant.
    pub flags: u16,
    /// The sender's number for it.
    pub sequence: u32,
    /// The port that the sender says it has.
    pub port: u32,
    /// What stands behind the header.
    pub body: &'a [u8],
    /// All of it.
    pub whole: &'a [u8],
}

/// The multiple of four that is no less.
pub const fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Messages of a datagram, one after the other, until one is cut off.
#[derive(Clone, Debug)]
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Messages<'a> {
    /// The first one without its body, even if it is cut off.
    pub fn head(self) -> Option<Message<'a>> {
        let header: &'a [u8; HEADER_LEN] = self.0.first_chunk()?;
        Some(message(header, header))
    }
}

fn message<'a>(header: &[u8; HEADER_LEN], whole: &'a [u8]) -> Message<'a> {
    Message {
        kind: u16_at(header, 4),
        flags: u16_at(header, 6),
        sequence: u32_at(header, 8),
        port: u32_at(header, 12),
        body: &whole[HEADER_LEN..],
        whole,
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header: &[u8; HEADER_LEN] = self.0.first_chunk()?;
        let len = u32_at(header, 0) as usize;
        let whole = self.0.get(..len).filter(|_| len >= HEADER_LEN)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some(message(header, whole))
    }
}

/// Attributes, one after the other, until one is cut off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let header: &[u8; ATTRIBUTE_HEADER_LEN] = self.0.first_chunk()?;
        let len = usize::from(u16_at(header, 0));
        let value = self.0.get(ATTRIBUTE_HEADER_LEN..len)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        // The two high bits are flags, which nothing of XFRM uses.
        Some((u16_at(header, 2) & 0x3fff, value))
    }
}

impl<'a> Attributes<'a> {
    /// The value of an attribute. Of several, the last one counts, as in the kernel.
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.filter(|(other, _)| *other == kind).last().map(|(_, value)| value)
    }

    /// The value of an attribute that is a number; too short ones count as absent.
    pub fn number(self, kind: u16) -> Option<u32> {
        self.find(kind)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }
}

/// Adds bytes. Where they need another place in memory, the former one is erased.
pub(crate) fn append(to: &mut Bytes, bytes: &[u8]) {
    if to.capacity() - to.len() < bytes.len() {
        let mut larger = Bytes::new(Vec::with_capacity(2 * (to.len() + bytes.len())));
        larger.extend_from_slice(to);
        *to = larger;
    }
    to.extend_from_slice(bytes);
}

/// A message in the making.
pub struct Builder(Bytes);

impl Builder {
    /// One with this header.
    pub fn new(kind: u16, flags: u16, sequence: u32, port: u32) -> Builder {
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend([0; 4]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(port.to_ne_bytes());
        Builder(Bytes::new(bytes))
    }

    /// Adds bytes, and zeros behind them up to a multiple of four.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Builder {
        append(&mut self.0, bytes);
        self.fill()
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Builder {
        self.attribute_of(kind, &[value])
    }

    /// Adds an attribute whose value is in parts. What is longer than an attribute can be is left out.
    pub fn attribute_of(&mut self, kind: u16, parts: &[&[u8]]) -> &mut Builder {
        let len = parts.iter().map(|part| part.len()).sum::<usize>() + ATTRIBUTE_HEADER_LEN;
        let Ok(len) = u16::try_from(len) else { return self };
        append(&mut self.0, &len.to_ne_bytes());
        append(&mut self.0, &kind.to_ne_bytes());
        parts.iter().for_each(|part| append(&mut self.0, part));
        self.fill()
    }

    fn fill(&mut self) -> &mut Builder {
        let zeros = align(self.0.len()) - self.0.len();
        append(&mut self.0, &[0; 3][..zeros]);
        self
    }

    /// The message.
    pub fn finish(mut self) -> Bytes {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_attributes_are_read_as_they_are_written() {
        let mut first = Builder::new(0x10, flag::REQUEST, 7, 99);
        first
            .put(&[1, 2, 3, 4])
            .attribute(5, &[9; 5])
            .attribute_of(6, &[&[1], &[2, 3, 4]])
            .attribute(5, &[8]);
        let mut both = first.finish();
        both.extend_from_slice(&Builder::new(0x11, 0, 8, 99).finish());
        let messages: Vec<_> = Messages(&both).collect();
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].kind, messages[0].sequence, messages[0].port), (0x10, 7, 99));
        let attributes = Attributes(&messages[0].body[4..]);
        assert_eq!(attributes.find(5), Some(&[8][..]));
        assert_eq!(attributes.number(6), Some(u32::from_ne_bytes([1, 2, 3, 4])));
        assert_eq!(attributes.number(5), None, "too short");
        assert_eq!(attributes.count(), 3);
        assert!(messages[1].body.is_empty());
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        let mut message = Builder::new(0x10, 0, 0, 0);
        message.attribute(1, &[0; 8]);
        let message = message.finish();
        for len in 0..message.len() {
            assert_eq!(Messages(&message[..len]).next(), None);
            assert_eq!(Messages(&message[..len]).head().map(|head| head.kind), (len >= 16).then_some(0x10));
            let rest = &message[HEADER_LEN.min(len)..len];
            assert_eq!(Attributes(rest).next(), None);
        }
        let lying = [3, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(Attributes(&lying).next(), None, "shorter than its own header");
        assert_eq!(Messages(&[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).next(), None);
    }
}
