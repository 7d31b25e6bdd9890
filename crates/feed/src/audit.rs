// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audits: what the tables really hold, so that a control plane can compare it with what it has sent.
//!
//! A question is about a range of addresses or of objects. The answer has a count and a [`digest`] that does not depend on order, or, if
//! asked for, rows. So equal parts cost some bytes, and only what differs is listed. The user plane looks at [`SCANNED_MAX`] entries
//! for a question at most. A question stands alone in its batch, so the answer is about what earlier batches made.

use crate::bytes::Cursor;
use crate::update::{encode_prefix_of, prefix_of};
use crate::{Destination, Error, Group, Tree};

/// Entries that are looked at for a question.
pub const SCANNED_MAX: usize = 1 << 13;
/// Rows of an answer.
pub const ROWS_MAX: usize = 512;
/// The object of a route that belongs to the feed but to no object that it has defined since its latest replay.
pub const NO_OBJECT: u32 = u32::MAX;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Fed IPv4 routes of all tables with addresses from `from` to `to`, both included.
    Four,
    /// Fed IPv6 routes; `from` and `to` are the upper halves of addresses.
    Six,
    /// Objects by their numbers.
    Objects,
    /// Fed multicast entries of IPv4, of all tables, by the addresses of their groups.
    Trees4,
    /// Those of IPv6, by the lower halves of addresses: groups of a site may have the upper ones in common.
    Trees6,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// A number that the answer repeats.
    pub token: u32,
    /// What is asked for.
    pub part: Part,
    /// The first of the range.
    pub from: u64,
    /// The last of the range.
    pub to: u64,
    /// Whether the answer is to have rows.
    pub lists: bool,
}

/// A row of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A route and its object, or [`NO_OBJECT`].
    Route {
        /// The table.
        table: u8,
        /// The destination.
        prefix: Destination,
        /// The object.
        id: u32,
    },
    /// An object.
    Object {
        /// Its number.
        id: u32,
        /// The digest of what it stands for.
        digest: u64,
        /// Whether the tables of next hops have it as it was sent.
        is_true: bool,
    },
    /// A multicast entry.
    Tree {
        /// The table.
        table: u8,
        /// Which packets it is for.
        group: Group,
        /// The digest of the way of its packets.
        digest: u64,
        /// Whether packets are forwarded as it was sent.
        is_true: bool,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question's number.
    pub token: u32,
    /// Entries of the range that were looked at.
    pub count: u32,
    /// The sum of their digests.
    pub digest: u64,
    /// There are more entries than are looked at, or more rows than an answer has.
    pub has_more: bool,
    /// The entries, if asked for.
    pub rows: Vec<Row>,
}

/// A number that hardly any other row has.
#[must_use]
pub fn digest(row: &Row) -> u64 {
    let fold = |sum: u64, word: u64| {
        let word = (sum.rotate_left(23) ^ word).wrapping_add(0xf39c_c060_5ced_c835);
        let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    };
    match row {
        Row::Route { table, prefix: Destination::V4(prefix), id } => {
            let route =
                u64::from(*table) << 40 | u64::from(prefix.len()) << 32 | u64::from(prefix.addr().to_bits());
            fold(fold(4, route), u64::from(*id))
        }
        Row::Route { table, prefix: Destination::V6(prefix), id } => {
            let bits = prefix.addr().to_bits();
            let rest = u64::from(*table) << 8 | u64::from(prefix.len());
            [(bits >> 64) as u64, bits as u64, rest, u64::from(*id)].into_iter().fold(6, fold)
        }
        Row::Route { table, prefix: Destination::Label(label), id } => {
            [u64::from(*table), u64::from(*label), u64::from(*id)].into_iter().fold(7, fold)
        }
        Row::Object { id, digest, is_true } => {
            [u64::from(*id), *digest, u64::from(*is_true)].into_iter().fold(1, fold)
        }
        Row::Tree { table, group, digest, is_true } => {
            let mut bytes = Vec::new();
            group.encode(&mut bytes);
            let words = [u64::from(*table), fnv(&bytes), *digest, u64::from(*is_true)];
            words.into_iter().fold(14, fold)
        }
    }
}

/// The digest of what an object stands for.
#[must_use]
pub fn digest_of(object: &crate::Object) -> u64 {
    let mut bytes = Vec::new();
    object.encode(&mut bytes);
    fnv(&bytes)
}

/// The digest of the way of a multicast entry's packets.
#[must_use]
pub fn digest_of_tree(tree: &Tree) -> u64 {
    let mut bytes = Vec::new();
    tree.encode(&mut bytes);
    fnv(&bytes)
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Answer {
    /// An answer without entries.
    #[must_use]
    pub fn new(token: u32) -> Answer {
        Answer { token, count: 0, digest: 0, has_more: false, rows: Vec::new() }
    }

    /// Adds an entry, as a row if `lists`.
    pub fn add(&mut self, row: Row, lists: bool) {
        self.count += 1;
        self.digest = self.digest.wrapping_add(digest(&row));
        if lists && self.rows.len() < ROWS_MAX {
            self.rows.push(row);
        } else {
            self.has_more |= lists;
        }
    }
}

const FOUR: u8 = 4;
const SIX: u8 = 6;
const OBJECTS: u8 = 1;
const TREES4: u8 = 14;
const TREES6: u8 = 15;

impl Question {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.token.to_le_bytes());
        out.push(match self.part {
            Part::Four => FOUR,
            Part::Six => SIX,
            Part::Objects => OBJECTS,
            Part::Trees4 => TREES4,
            Part::Trees6 => TREES6,
        });
        out.extend(self.from.to_le_bytes());
        out.extend(self.to.to_le_bytes());
        out.push(u8::from(self.lists));
    }

    pub(crate) fn decode(from: &mut Cursor<'_>) -> Result<Question, Error> {
        let token = from.u32()?;
        let part = match from.u8()? {
            FOUR => Part::Four,
            SIX => Part::Six,
            OBJECTS => Part::Objects,
            TREES4 => Part::Trees4,
            TREES6 => Part::Trees6,
            _ => return Err(from.malformed("an unknown part of the tables")),
        };
        Ok(Question { token, part, from: from.u64()?, to: from.u64()?, lists: from.u8()? != 0 })
    }
}

impl Answer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.token.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.digest.to_le_bytes());
        out.push(u8::from(self.has_more));
        let rows = &self.rows[..self.rows.len().min(ROWS_MAX)];
        out.extend((rows.len() as u16).to_le_bytes());
        for row in rows {
            match row {
                Row::Route { table, prefix, id } => {
                    encode_prefix_of([FOUR, SIX, 0], *table, *prefix, out);
                    out.extend(id.to_le_bytes());
                }
                Row::Object { id, digest, is_true } => {
                    out.push(OBJECTS);
                    out.extend(id.to_le_bytes());
                    out.extend(digest.to_le_bytes());
                    out.push(u8::from(*is_true));
                }
                Row::Tree { table, group, digest, is_true } => {
                    out.extend([if group.is_six() { TREES6 } else { TREES4 }, *table]);
                    group.encode(out);
                    out.extend(digest.to_le_bytes());
                    out.push(u8::from(*is_true));
                }
            }
        }
    }

    pub(crate) fn decode(from: &mut Cursor<'_>) -> Result<Answer, Error> {
        let (token, count, digest, has_more) = (from.u32()?, from.u32()?, from.u64()?, from.u8()? != 0);
        let rows = usize::from(from.u16()?);
        if rows > ROWS_MAX {
            return Err(from.malformed("more than 512 rows"));
        }
        let rows = (0..rows).map(|_| Row::decode(from)).collect::<Result<_, _>>()?;
        Ok(Answer { token, count, digest, has_more, rows })
    }
}

impl Row {
    fn decode(from: &mut Cursor<'_>) -> Result<Row, Error> {
        Ok(match from.u8()? {
            kind @ (FOUR | SIX) => {
                let (table, prefix) = prefix_of(from, kind == FOUR)?;
                Row::Route { table, prefix, id: from.u32()? }
            }
            OBJECTS => Row::Object { id: from.u32()?, digest: from.u64()?, is_true: from.u8()? != 0 },
            kind @ (TREES4 | TREES6) => Row::Tree {
                table: from.u8()?,
                group: Group::decode(from, kind == TREES4)?,
                digest: from.u64()?,
                is_true: from.u8()? != 0,
            },
            _ => return Err(from.malformed("an unknown kind of row")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_do_not_depend_on_order_and_tell_rows_apart() {
        let prefix = |text: &str| Destination::V4(text.parse().expect("a prefix"));
        let mut rows = vec![
            Row::Object { id: 1, digest: 2, is_true: true },
            Row::Object { id: 2, digest: 1, is_true: true },
        ];
        for table in 0..2 {
            for to in ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9"] {
                rows.extend([1, 2].map(|id| Row::Route { table, prefix: prefix(to), id }));
            }
        }
        let six = Destination::V6("::/0".parse().expect("a prefix"));
        rows.push(Row::Route { table: 0, prefix: six, id: 1 });
        for (source, group) in [("10.0.0.1", "239.1.1.1"), ("10.0.0.2", "239.1.1.1"), ("fd00::1", "ff1e::1")]
        {
            let group = Group::new(source.parse().ok(), group.parse().expect("an address")).expect("a group");
            rows.extend([0, 1].map(|table| Row::Tree { table, group, digest: 1, is_true: true }));
        }
        let mut digests: Vec<u64> = rows.iter().map(digest).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), rows.len());
        let (mut one, mut other) = (Answer::new(1), Answer::new(1));
        rows.iter().for_each(|row| one.add(*row, true));
        rows.iter().rev().for_each(|row| other.add(*row, false));
        assert_eq!((one.digest, one.count, one.rows.len()), (other.digest, other.count, rows.len()));
        (0..600).for_each(|_| one.add(rows[0], true));
        assert!(one.has_more && one.rows.len() == ROWS_MAX);
    }
}
