// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hash table whose buckets are published one by one: readers never wait, and a change copies one bucket.
//!
//! ```text
//! version --> [cell | cell | cell | ...]      twice as many cells when buckets grow long
//!               |
//!               v
//!             [entry, entry, ...]             a few entries, in their order
//! ```
//!
//! A lookup loads the version, the cell and the bucket: three lines of cache, then the entry.

use sync::rcu::{Cell, Domain, Reader, Stalled};

/// Entries that a bucket has on average before there are more buckets.
const LOAD: usize = 4;
const FIRST: usize = 16;

/// All buckets of a table.
pub(crate) type Row<T> = Box<[Cell<Vec<T>>]>;

/// The table. One thread at a time may change it.
#[derive(Debug)]
pub(crate) struct Buckets<T: Clone + Send + Sync + 'static> {
    row: Cell<Row<T>>,
    domain: Domain,
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
        Buckets { row: Cell::new(domain, filled(domain, len, entries)), domain: domain.clone() }
    }

    /// Entries that may have this hash.
    #[inline]
    pub fn of<'a>(&'a self, hash: u64, reader: &'a Reader) -> &'a [T] {
        let row = self.row.read(reader);
        row[place(hash, row.len())].read(reader)
    }

    /// Changes the entries that may have this hash.
    pub fn change(&self, hash: u64, reader: &Reader, change: impl FnOnce(&mut Vec<T>)) -> Result<(), Busy> {
        let row = self.row.read(reader);
        let cell = &row[place(hash, row.len())];
        let mut entries = cell.read(reader).clone();
        change(&mut entries);
        Ok(cell.publish(entries)?)
    }

    /// Makes room for `len` entries. `hash` is what each was put in by.
    pub fn make_room(&self, len: usize, reader: &Reader, hash: impl Fn(&T) -> u64) -> Result<(), Busy> {
        let row = self.row.read(reader);
        if len <= row.len() * LOAD {
            return Ok(());
        }
        let entries = row.iter().flat_map(|cell| cell.read(reader));
        let next = filled(&self.domain, len, entries.map(|entry| (hash(entry), entry.clone())));
        Ok(self.row.publish_sized(next, bytes(row))?)
    }

    /// Buckets for `len` entries, with these in them.
    pub fn filled(&self, len: usize, entries: impl Iterator<Item = (u64, T)>) -> Row<T> {
        filled(&self.domain, len, entries)
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
    domain: &Domain,
    len: usize,
    entries: impl Iterator<Item = (u64, T)>,
) -> Row<T> {
    let count = len.div_ceil(LOAD).next_power_of_two().max(FIRST);
    let mut buckets: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    entries.for_each(|(hash, entry)| buckets[place(hash, count)].push(entry));
    buckets.into_iter().map(|entries| Cell::new(domain, entries)).collect()
}

fn bytes<T: Clone + Send + Sync + 'static>(row: &Row<T>) -> usize {
    row.len() * size_of::<Cell<Vec<T>>>()
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
        assert!((0..5000).all(|number| table.of(hash(&number), &reader).contains(&number)));
        assert!((5000..9000).all(|number| !table.of(hash(&number), &reader).contains(&number)));
        table.change(hash(&7), &reader, |entries| entries.retain(|entry| *entry != 7)).unwrap();
        assert!(!table.of(hash(&7), &reader).contains(&7));
    }

    #[test]
    fn a_reader_that_stalls_is_an_error_and_no_change() {
        let domain = Domain::new(sync::rcu::Limits { objects: 1, bytes: 1 << 20 });
        let table = Buckets::new(&domain);
        let reader = domain.register("test");
        table.change(0, &reader, |entries| entries.push(1u64)).unwrap();
        assert_eq!(table.change(0, &reader, |entries| entries.push(2)), Err(Busy));
        assert_eq!(table.of(0, &reader), [1]);
    }
}
