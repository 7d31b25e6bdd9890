// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPLS labels: label to next hop, shared by all workers.
//!
//! A label has 20 bits and is looked up exactly, so the table is an array (RFC 3031 calls it the incoming label map). It comes in
//! pieces of 256 labels, which exist where a label is used:
//!
//! ```text
//!  label >> 8    directory: 4096 pointers        piece: 256 next-hop ids
//!  +------+      +---+---+---+-----+             +------+------+------+-----
//!  |  61  |----> | - | x | - | ... |             | none |   4  | none | ...
//!  +------+      +---+-|-+---+-----+             +------+------+------+-----
//!                      +------------------------> by label & 255
//! ```
//!
//! A lookup is three loads. The directory takes 32 KiB, a piece 0.5 KiB: 1,000 labels in a row take 2 KiB, and all 2^20 labels 2 MiB.
//!
//! # Trade-offs
//!
//! * A new piece, or the end of one, publishes a new directory. Changes within a piece are one store.
//! * Labels far from each other take a piece each. Daemons give labels out in rows.
//!
//! # Invariants
//!
//! 1. A piece is in the directory exactly if it has a label, or has had one since it was made and the directory could not be changed.
//! 2. A label's entry changes at once: a reader sees the old next hop or the new one.
//!
//! The order of [`next_hop`](crate::next_hop) holds here, too: publish an id before a label has it, release it after no label has it. An entry is
//! stored with Release and loaded with Acquire, so a reader that finds an id sees the view that was published before.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use sync::rcu::{Cell, Domain, Reader};

use crate::next_hop::NextHopId;

/// Labels there are: 20 bits.
pub const LABELS: u32 = 1 << 20;
/// Labels of a piece.
const PIECE: usize = 256;
const PIECES: usize = LABELS as usize / PIECE;
/// An entry without a next hop. Ids have 15 bits.
const NONE: u16 = u16::MAX;

const _: () = assert!(NextHopId::MAX.0 < NONE as u32);

/// Why a change was refused. The table is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// Labels have 20 bits.
    #[error("{label} is no MPLS label: labels are numbers up to 1048575")]
    NoLabel {
        /// The number given.
        label: u32,
    },
    /// Old versions wait for readers that announce no quiescent state.
    #[error("the label table cannot be changed: {why}")]
    Stalled {
        /// Who holds them up.
        why: String,
    },
}

type Piece = [AtomicU16; PIECE];
type Directory = Vec<Option<Arc<Piece>>>;

/// Looks labels up. Cheap to clone; one for each worker.
#[derive(Clone, Debug)]
pub struct LabelReader {
    directory: Arc<Cell<Directory>>,
}

impl LabelReader {
    /// The next hop of a label; [`NextHopId::NONE`] if it has none.
    ///
    /// # Panics
    /// When `reader` belongs to another RCU domain than the table.
    #[inline]
    #[must_use]
    pub fn lookup(&self, reader: &Reader, label: u32) -> NextHopId {
        let piece = self.directory.read(reader).get(label as usize / PIECE).and_then(Option::as_ref);
        piece.map_or(NextHopId::NONE, |piece| id_of(piece[label as usize % PIECE].load(Ordering::Acquire)))
    }
}

fn id_of(entry: u16) -> NextHopId {
    if entry == NONE { NextHopId::NONE } else { NextHopId(entry.into()) }
}

/// Changes the table. There is one for each; lookups go on undisturbed.
///
/// ```
/// use junctor_tables::{label::LabelTable, next_hop::NextHopId};
/// let domain = sync::rcu::Domain::default();
/// let mut labels = LabelTable::new(&domain);
/// assert_eq!(labels.set(16, Some(NextHopId(3)))?, None);
///
/// let (reader, worker) = (labels.reader(), domain.register("worker 0"));
/// assert_eq!(reader.lookup(&worker, 16), NextHopId(3));
/// assert_eq!(reader.lookup(&worker, 17), NextHopId::NONE);
/// # Ok::<(), junctor_tables::label::LabelError>(())
/// ```
#[derive(Debug)]
pub struct LabelTable {
    directory: Arc<Cell<Directory>>,
    /// The directory as it was published last.
    pieces: Directory,
    /// Labels in use, by piece.
    used: Vec<u16>,
    len: usize,
}

impl LabelTable {
    /// An empty table, whose readers are those of `domain`.
    #[must_use]
    pub fn new(domain: &Domain) -> LabelTable {
        let pieces: Directory = vec![None; PIECES];
        let directory = Arc::new(Cell::new(domain, pieces.clone()));
        LabelTable { directory, pieces, used: vec![0; PIECES], len: 0 }
    }

    /// A way to look labels up.
    #[must_use]
    pub fn reader(&self) -> LabelReader {
        LabelReader { directory: self.directory.clone() }
    }

    /// Gives a label a next hop, or takes it away; returns the one before.
    ///
    /// # Errors
    /// [`LabelError`]: nothing has changed.
    ///
    /// # Panics
    /// If the id is greater than [`NextHopId::MAX`].
    pub fn set(&mut self, label: u32, id: Option<NextHopId>) -> Result<Option<NextHopId>, LabelError> {
        if label >= LABELS {
            return Err(LabelError::NoLabel { label });
        }
        let (at, within) = (label as usize / PIECE, label as usize % PIECE);
        let entry = id.map_or(NONE, |id| {
            assert!(id <= NextHopId::MAX, "ids of next hops have 15 bits");
            id.0 as u16
        });
        let piece = match (&self.pieces[at], id) {
            (Some(piece), _) => piece.clone(),
            (None, None) => return Ok(None),
            (None, Some(_)) => self.add(at)?,
        };
        let before = id_of(piece[within].swap(entry, Ordering::AcqRel));
        let before = (before != NextHopId::NONE).then_some(before);
        let (gained, lost) = (u16::from(id.is_some()), u16::from(before.is_some()));
        self.used[at] = self.used[at] + gained - lost;
        self.len = self.len + usize::from(gained) - usize::from(lost);
        if self.used[at] == 0 {
            self.remove(at);
        }
        Ok(before)
    }

    /// The next hop of a label.
    #[must_use]
    pub fn get(&self, label: u32) -> Option<NextHopId> {
        let piece = self.pieces.get(label as usize / PIECE)?.as_ref()?;
        let id = id_of(piece[label as usize % PIECE].load(Ordering::Relaxed));
        (id != NextHopId::NONE).then_some(id)
    }

    /// Labels with their next hops, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, NextHopId)> + '_ {
        let pieces = self.pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, piece.as_ref()?)));
        pieces
            .flat_map(|(at, piece)| {
                let labels = piece.iter().enumerate();
                let number = move |within| (at * PIECE + within) as u32;
                labels.map(move |(within, entry)| (number(within), id_of(entry.load(Ordering::Relaxed))))
            })
            .filter(|(_, id)| *id != NextHopId::NONE)
    }

    /// Labels in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no label is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that lookups can touch.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().flatten().count();
        PIECES * size_of::<Option<Arc<Piece>>>() + pieces * size_of::<Piece>()
    }

    fn add(&mut self, at: usize) -> Result<Arc<Piece>, LabelError> {
        let piece: Arc<Piece> = Arc::new(array::from_fn(|_| AtomicU16::new(NONE)));
        self.pieces[at] = Some(piece.clone());
        self.publish().inspect_err(|_| self.pieces[at] = None)?;
        Ok(piece)
    }

    /// Takes an empty piece out, unless readers hold too many old directories: then it stays for the next label there.
    fn remove(&mut self, at: usize) {
        let piece = self.pieces[at].take();
        if self.publish().is_err() {
            self.pieces[at] = piece;
        }
    }

    fn publish(&self) -> Result<(), LabelError> {
        let bytes = PIECES * size_of::<Option<Arc<Piece>>>();
        let published = self.directory.publish_sized(self.pieces.clone(), bytes);
        published.map_err(|stalled| LabelError::Stalled { why: stalled.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn change() -> impl Strategy<Value = (u32, Option<u32>)> {
        // Few pieces, so that they come and go.
        let label =
            prop_oneof![0..40u32, 250..270u32, Just(LABELS - 1), any::<u32>().prop_map(|n| n % LABELS)];
        (label, proptest::option::of(0..=NextHopId::MAX.0))
    }

    proptest! {
        #[test]
        fn it_is_a_map(changes in proptest::collection::vec(change(), 0..300)) {
            let domain = Domain::default();
            let mut table = LabelTable::new(&domain);
            let (reader, mut worker) = (table.reader(), domain.register("a worker"));
            let mut map = BTreeMap::new();
            for (label, id) in changes {
                let id = id.map(NextHopId);
                let before = match id {
                    Some(id) => map.insert(label, id),
                    None => map.remove(&label),
                };
                prop_assert_eq!(table.set(label, id).expect("readers are quiescent"), before);
                prop_assert_eq!(reader.lookup(&worker, label), id.unwrap_or(NextHopId::NONE));
                worker.quiescent();
            }
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), map.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
            for label in (0..300).chain([LABELS - 1]) {
                prop_assert_eq!(table.get(label), map.get(&label).copied());
            }
            let pieces: std::collections::BTreeSet<u32> = map.keys().map(|label| label / 256).collect();
            prop_assert_eq!(table.bytes(), 32768 + pieces.len() * 512);
        }
    }

    #[test]
    fn a_number_that_is_no_label_is_refused() {
        let mut table = LabelTable::new(&Domain::default());
        let error = table.set(LABELS, Some(NextHopId(0))).expect_err("21 bits");
        assert_eq!(error.to_string(), "1048576 is no MPLS label: labels are numbers up to 1048575");
        assert_eq!(table.set(LABELS, None).map_err(|e| e.to_string()), Err(error.to_string()));
    }

    #[test]
    fn readers_hold_up_a_new_piece_but_not_a_label() {
        let domain = Domain::new(sync::rcu::Limits { ..Default::default() });
        let mut table = LabelTable::new(&domain);
        let _worker = domain.register("one that never is quiescent");
        table.set(0, Some(NextHopId(1))).expect("room");
        let refused =
            (1..1 << 14).map(|at| table.set(at * 256 % LABELS, Some(NextHopId(1)))).find_map(Result::err);
        if let Some(refused) = refused {
            assert!(matches!(refused, LabelError::Stalled { .. }), "{refused}");
        }
        table.set(1, Some(NextHopId(2))).expect("the piece is there");
        assert_eq!(table.get(1), Some(NextHopId(2)));
    }
}
