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

type Row<T> = Box<[Cell<Vec<T>>]>;

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
        let row = (0..FIRST).map(|_| Cell::new(domain, Vec::new())).collect();
        Buckets { row: Cell::new(domain, row), domain: domain.clone() }
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
        let count = len.div_ceil(LOAD).next_power_of_two();
        let mut entries: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
        for entry in row.iter().flat_map(|cell| cell.read(reader)) {
            entries[place(hash(entry), count)].push(entry.clone());
        }
        let bytes = row.len() * size_of::<Cell<Vec<T>>>();
        let row = entries.into_iter().map(|entries| Cell::new(&self.domain, entries)).collect();
        Ok(self.row.publish_sized(row, bytes)?)
    }
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
