// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams and records as bytes.
//!
//! ```text
//!  0  magic "JS"   2  version   3  flags   4  sender's epoch   12  receiver's epoch, 0 if it is not known   20  number of the datagram
//! 28  stream, 32  frame in it (flag DATA)  36  stream, 40  next frame that is awaited  44  length of the records  46  records  ...  tag, 16
//!
//! record: operation, table, length of the body, body
//! ```

use crate::key::{Key, TAG};

/// The most bytes of a datagram: it fits a link of 1,500 bytes with IPv6 and UDP headers.
pub const DATAGRAM_MAX: usize = 1400;
const MAGIC: [u8; 2] = *b"JS";
/// The only version.
const VERSION: u8 = 1;
const HEADER: usize = 46;
/// The most bytes of records in a datagram.
pub const RECORDS_MAX: usize = DATAGRAM_MAX - HEADER - TAG;

/// There is a frame.
const DATA: u8 = 1;
/// The sender needs a stream that is later than the one that it acknowledges.
const WANTS: u8 = 2;

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// A stream begins: all sessions follow.
    Begin = 1,
    /// Its body is the name of the table with this number.
    Table = 2,
    /// A session is there.
    Put = 3,
    /// A session has ended.
    End = 4,
    /// The sender leaves a session to the receiver.
    Yield = 5,
    /// All sessions have come that were there.
    Over = 6,
}

impl Op {
    fn of(number: u8) -> Option<Op> {
        [Op::Begin, Op::Table, Op::Put, Op::End, Op::Yield, Op::Over]
            .into_iter()
            .find(|op| *op as u8 == number)
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it does; nothing if this version does not know.
    pub op: Option<Op>,
    /// The number of its table.
    pub table: u8,
    /// What the table knows how to read.
    pub body: &'a [u8],
}

/// Adds a record to those of a datagram, if there is room; returns whether there was.
pub fn record(records: &mut Vec<u8>, op: Op, table: u8, body: &[u8]) -> bool {
    let Ok(length) = u8::try_from(body.len()) else { return false };
    if records.len() + 3 + body.len() > RECORDS_MAX {
        return false;
    }
    records.extend_from_slice(&[op as u8, table, length]);
    records.extend_from_slice(body);
    true
}

/// The records of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Those that stand in these bytes.
    pub fn of(bytes: &'a [u8]) -> Records<'a> {
        Records(bytes)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (&[op, table, length], rest) = self.0.split_first_chunk()?;
        let (body, rest) = rest.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(Record { op: Op::of(op), table, body })
    }
}

/// A frame's place in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) stream: u32,
    pub(crate) number: u32,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) number: u64,
    /// Where its records stand.
    pub(crate) frame: Option<Place>,
    /// The frame that its sender awaits.
    pub(crate) awaited: Place,
    pub(crate) wants_stream: bool,
    pub(crate) records: &'a [u8],
}

/// Why bytes are no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Malformed,
    Version,
    Tag,
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl<'a> Datagram<'a> {
    /// Reads bytes. Nothing but magic and version is believed before the tag is right.
    pub(crate) fn read(bytes: &'a [u8], key: &Key) -> Result<Datagram<'a>, Unread> {
        if bytes.get(..2) != Some(&MAGIC) {
            return Err(Unread::Malformed);
        }
        if bytes.get(2).is_some_and(|version| *version != VERSION) {
            return Err(Unread::Version);
        }
        let (text, tag) = bytes.split_last_chunk::<TAG>().ok_or(Unread::Malformed)?;
        if text.len() < HEADER || bytes.len() > DATAGRAM_MAX {
            return Err(Unread::Malformed);
        }
        if !key.verifies(text, tag) {
            return Err(Unread::Tag);
        }
        Datagram::fields(text).ok_or(Unread::Malformed)
    }

    fn fields(text: &'a [u8]) -> Option<Datagram<'a>> {
        let [.., flags] = take::<4>(text, 0)?;
        let long = |at: usize| take(text, at).map(u64::from_be_bytes);
        let word = |at: usize| take(text, at).map(u32::from_be_bytes);
        let place = |at: usize| Some(Place { stream: word(at)?, number: word(at + 4)? });
        let records = text.get(HEADER..)?;
        let length = u16::from_be_bytes(take(text, 44)?);
        let place_of_frame = place(28)?;
        let is_sound = usize::from(length) == records.len() && flags & !(DATA | WANTS) == 0;
        is_sound.then_some(Datagram {
            from: long(4)?,
            to: long(12)?,
            number: long(20)?,
            frame: (flags & DATA != 0).then_some(place_of_frame),
            awaited: place(36)?,
            wants_stream: flags & WANTS != 0,
            records,
        })
    }

    /// Writes it, in place of what `into` holds.
    pub(crate) fn write(&self, key: &Key, into: &mut Vec<u8>) {
        let flags = if self.frame.is_some() { DATA } else { 0 } | if self.wants_stream { WANTS } else { 0 };
        let frame = self.frame.unwrap_or_default();
        into.clear();
        into.extend_from_slice(&MAGIC);
        into.extend_from_slice(&[VERSION, flags]);
        [self.from, self.to, self.number].iter().for_each(|long| into.extend_from_slice(&long.to_be_bytes()));
        [frame.stream, frame.number, self.awaited.stream, self.awaited.number]
            .iter()
            .for_each(|word| into.extend_from_slice(&word.to_be_bytes()));
        // Frames hold at most RECORDS_MAX bytes.
        into.extend_from_slice(&(self.records.len() as u16).to_be_bytes());
        into.extend_from_slice(self.records);
        let tag = key.tag(into);
        into.extend_from_slice(&tag);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (from, to, number) in any::<(u64, u64, u64)>(),
            (stream, at, next, data, wants) in any::<(u32, u32, u32, bool, bool)>(),
            bodies in proptest::collection::vec((1u8..=6, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..100)), 0..12),
            flip in any::<proptest::sample::Index>(),
        ) {
            let mut records = Vec::new();
            for (op, table, body) in &bodies {
                prop_assert!(record(&mut records, Op::of(*op).unwrap(), *table, body));
            }
            let key = Key::new(&[7; 32]).unwrap();
            let awaited = Place { stream, number: next };
            let frame = data.then_some(Place { stream, number: at });
            let one = Datagram { from, to, number, frame, awaited, wants_stream: wants, records: &records };
            let mut bytes = Vec::new();
            one.write(&key, &mut bytes);
            prop_assert!(bytes.len() <= DATAGRAM_MAX);
            prop_assert_eq!(Datagram::read(&bytes, &key), Ok(one));
            let read: Vec<_> = Records::of(&records).map(|r| (r.op.unwrap() as u8, r.table, r.body.to_vec())).collect();
            prop_assert_eq!(read, bodies);
            for length in 0..bytes.len() {
                prop_assert!(Datagram::read(&bytes[..length], &key).is_err());
            }
            let at = flip.index(bytes.len());
            bytes[at] ^= 0x10;
            prop_assert!(Datagram::read(&bytes, &key).is_err());
        }
    }

    #[test]
    fn another_version_is_named() {
        let key = Key::new(&[7; 32]).unwrap();
        let none = Place::default();
        let one = Datagram {
            from: 1,
            to: 2,
            number: 3,
            frame: None,
            awaited: none,
            wants_stream: false,
            records: &[],
        };
        let mut bytes = Vec::new();
        one.write(&key, &mut bytes);
        bytes[2] = 2;
        assert_eq!(Datagram::read(&bytes, &key), Err(Unread::Version));
        assert_eq!(Datagram::read(b"JS", &key), Err(Unread::Malformed));
        assert_eq!(Datagram::read(b"", &key), Err(Unread::Malformed));
    }
}
