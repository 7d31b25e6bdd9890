// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hash table whose buckets are published one by one: readers never wait, and a change copies one bucket.
//!
//! ```text
//! version --> [cell | cell | cell | ...]      twice as many cells when buckets grow long
//!               |
//!               v
//!             [entry | others]                one line: the first entry, and where more are, if there are
//! ```
//!
//! A lookup loads the version, the cell and the bucket: three lines of cache. With many entries, only cell and bucket are likely to miss.
//! [`fetch_cell`](Buckets::fetch_cell) and [`fetch_bucket`](Buckets::fetch_bucket) ask for them ahead, for all packets of a batch.

use std::slice;

use sync::prefetch::prefetch;
use sync::rcu::{Cell, Domain, Reader, Stalled};

/// Entries that a bucket has on average, at most, before there are more buckets.
const LOAD: usize = 1;
const FIRST: usize = 16;
/// Buckets of a table that is worth asking for ahead: with 100 tunnels, whose tables are in the second cache, asking costs a packet 20 to 30 ns more than it saves; with 1,000
/// it pays (`junctor bench ipsec --tunnels 100,1000`, Intel Xeon of family 6, model 207).
const LARGE: usize = 512;

/// A few entries, in their order. The first one lies on the bucket's own line, where it is short enough.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Bucket<T> {
    first: Option<T>,
    others: Box<[T]>,
}

impl<T> From<Vec<T>> for Bucket<T> {
    fn from(entries: Vec<T>) -> Bucket<T> {
        let mut entries = entries.into_iter();
        Bucket { first: entries.next(), others: entries.collect() }
    }
}

impl<'a, T> IntoIterator for &'a Bucket<T> {
    type Item = &'a T;
    type IntoIter = std::iter::Chain<std::option::Iter<'a, T>, slice::Iter<'a, T>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.first.iter().chain(&self.others)
    }
}

/// All buckets of a table.
pub(crate) type Row<T> = Box<[Cell<Bucket<T>>]>;

/// The table. One thread at a time may change it.
#[derive(Debug)]
pub(crate) struct Buckets<T: Clone + Send + Sync + 'static> {
    row: Cell<Row<T>>,
}

/// Too many old versions wait for readers: try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl<T> From<Stalled<T>> for Busy {
    fn from(_: Stalled<T>) -> Busy {
        Busy
    }
}

impl<T: Clone + Send + Sync + 'static> Buckets<T> {
    pub fn new(domain: &Domain) -> Buckets<T> {
        Buckets::with(domain, 0, std::iter::empty())
    }

    /// A table of these entries, each behind its hash.
    pub fn with(domain: &Domain, len: usize, entries: impl Iterator<Item = (u64, T)>) -> Buckets<T> {
        Buckets { row: Cell::new(domain, filled(|bucket| Cell::new(domain, bucket), len, entries)) }
    }

    /// Entries that may have this hash.
    #[inline]
    pub fn of<'a>(&'a self, hash: u64, reader: &'a Reader) -> &'a Bucket<T> {
        self.cell(hash, reader).read(reader)
    }

    /// The bucket at this place, counted from 0; `None` behind the last one. Places of entries change when the table grows, but never to a lower one.
    pub fn at<'a>(&'a self, place: usize, reader: &'a Reader) -> Option<&'a Bucket<T>> {
        self.row.read(reader).get(place).map(|cell| cell.read(reader))
    }

    #[inline]
    fn cell<'a>(&'a self, hash: u64, reader: &'a Reader) -> &'a Cell<Bucket<T>> {
        let row = self.row.read(reader);
        &row[place(hash, row.len())]
    }

    /// Whether its entries are so many that their lines are seldom in the nearest cache.
    #[inline]
    pub fn is_large(&self, reader: &Reader) -> bool {
        self.row.read(reader).len() >= LARGE
    }

    /// Asks for the cell of a hash ahead of its use.
    #[inline]
    pub fn fetch_cell(&self, hash: u64, reader: &Reader) {
        prefetch(self.cell(hash, reader));
    }

    /// Asks for the bucket of a hash, whose cell has arrived.
    #[inline]
    pub fn fetch_bucket(&self, hash: u64, reader: &Reader) {
        prefetch(self.of(hash, reader));
    }

    /// Changes the entries that may have this hash.
    pub fn change(&self, hash: u64, reader: &Reader, change: impl FnOnce(&mut Vec<T>)) -> Result<(), Busy> {
        let cell = self.cell(hash, reader);
        let mut entries: Vec<T> = cell.read(reader).into_iter().cloned().collect();
        change(&mut entries);
        Ok(cell.publish(entries.into())?)
    }

    /// Makes room for `len` entries. `hash` is what each was put in by.
    pub fn make_room(&self, len: usize, reader: &Reader, hash: impl Fn(&T) -> u64) -> Result<(), Busy> {
        let row = self.row.read(reader);
        if len <= row.len() * LOAD {
            return Ok(());
        }
        let entries = row.iter().flat_map(|cell| cell.read(reader));
        let next = self.filled(len, entries.map(|entry| (hash(entry), entry.clone())));
        Ok(self.row.publish_sized(next, bytes(row))?)
    }

    /// Buckets for `len` entries, with these in them.
    pub fn filled(&self, len: usize, entries: impl Iterator<Item = (u64, T)>) -> Row<T> {
        filled(|bucket| self.row.sibling(bucket), len, entries)
    }

    /// Puts other buckets in the place of all. They are left where they are if they have to wait.
    pub fn replace(&self, next: &mut Option<Row<T>>, reader: &Reader) -> Result<(), Busy> {
        let Some(row) = next.take() else { return Ok(()) };
        self.row.publish_sized(row, bytes(self.row.read(reader))).map_err(|stalled| {
            *next = Some(stalled.value);
            Busy
        })
    }
}

fn filled<T: Clone + Send + Sync + 'static>(
    cell: impl Fn(Bucket<T>) -> Cell<Bucket<T>>,
    len: usize,
    entries: impl Iterator<Item = (u64, T)>,
) -> Row<T> {
    let count = len.div_ceil(LOAD).next_power_of_two().max(FIRST);
    let mut buckets: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    entries.for_each(|(hash, entry)| buckets[place(hash, count)].push(entry));
    buckets.into_iter().map(|entries| cell(entries.into())).collect()
}

fn bytes<T: Clone + Send + Sync + 'static>(row: &Row<T>) -> usize {
    row.len() * (size_of::<Cell<Bucket<T>>>() + size_of::<Bucket<T>>())
}

/// The bucket of a hash: its high bits, which are the well-mixed ones.
#[inline]
fn place(hash: u64, count: usize) -> usize {
    (hash >> 32) as usize & (count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: &u64) -> u64 {
        wire::hash::mix(*number, 0, 1)
    }

    #[test]
    fn entries_are_found_while_it_grows() {
        let domain = Domain::default();
        let table = Buckets::new(&domain);
        for number in 0..5000u64 {
            let reader = domain.register("test");
            table.make_room(number as usize + 1, &reader, hash).unwrap();
            table.change(hash(&number), &reader, |entries| entries.push(number)).unwrap();
        }
        let reader = domain.register("test");
        let has = |number: u64| table.of(hash(&number), &reader).into_iter().any(|entry| *entry == number);
        assert!((0..5000).all(has) && !(5000..9000).any(has));
        table.change(hash(&7), &reader, |entries| entries.retain(|entry| *entry != 7)).unwrap();
        assert!(!has(7));
    }

    #[test]
    fn a_reader_that_stalls_is_an_error_and_no_change() {
        let domain = Domain::new(sync::rcu::Limits { objects: 1, bytes: 1 << 20 });
        let table = Buckets::new(&domain);
        let reader = domain.register("test");
        table.change(0, &reader, |entries| entries.push(1u64)).unwrap();
        assert_eq!(table.change(0, &reader, |entries| entries.push(2)), Err(Busy));
        assert!(table.of(0, &reader).into_iter().eq(&[1]));
    }
}
