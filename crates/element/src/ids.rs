// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indices with a type: [`ElementId`], [`WorkerId`], [`PortIndex`], [`TaskId`], and [`IndexVec`], a vector that only one of them opens.
//!
//! A plain number says nothing about what it counts, so an element's index could select a worker. These types exclude that.
//! They hold 32 bits, because tables of a million elements hold many of them.
//!
//! ```
//! use junctor_element::{ElementId, IndexVec};
//!
//! let mut names: IndexVec<ElementId, &str> = IndexVec::new();
//! let queue = names.push("queue");
//! let sink = names.push("sink");
//! assert_eq!((names[queue], names[sink]), ("queue", "sink"));
//! assert_eq!((sink.index(), sink.to_string().as_str()), (1, "1"));
//! assert!(queue < sink);
//! ```
//!
//! An id of another kind does not compile:
//!
//! ```compile_fail
//! use junctor_element::{ElementId, IndexVec, WorkerId};
//!
//! let names: IndexVec<ElementId, &str> = IndexVec::from(vec!["queue"]);
//! names[WorkerId::new(0)];
//! ```

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index of one kind of thing.
pub trait Id: Copy + Eq + Ord + Hash + fmt::Debug + 'static {
    /// The id with this index.
    ///
    /// # Panics
    /// The index needs more than 32 bits.
    fn new(index: usize) -> Self;

    /// Its index.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id with this index.
            ///
            /// # Panics
            /// The index needs more than 32 bits.
            #[inline]
            pub const fn new(index: usize) -> $name {
                assert!(index <= u32::MAX as usize, "an index of at most 32 bits");
                $name(index as u32)
            }

            /// Its index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Its index as records hold it.
            #[inline]
            pub const fn number(self) -> u32 {
                self.0
            }
        }

        impl Id for $name {
            #[inline]
            fn new(index: usize) -> $name {
                $name::new(index)
            }

            #[inline]
            fn index(self) -> usize {
                self.index()
            }
        }

        impl From<u32> for $name {
            #[inline]
            fn from(number: u32) -> $name {
                $name(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

ids! {
    /// An element of a configuration: its index in the flat graph.
    ElementId;
    /// A worker of a router.
    WorkerId;
    /// An input or an output of an element.
    PortIndex;
    /// One of an element's tasks: a device with several queues has one for each worker that serves some.
    TaskId;
}

impl PortIndex {
    /// The first input or output.
    pub const FIRST: PortIndex = PortIndex(0);
}

/// Whose a handler or a timer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An element's.
    Element(ElementId),
    /// The router's own.
    Router,
}

impl Target {
    /// The element, if it is one's.
    #[inline]
    pub const fn element(self) -> Option<ElementId> {
        match self {
            Target::Element(element) => Some(element),
            Target::Router => None,
        }
    }
}

impl From<ElementId> for Target {
    #[inline]
    fn from(element: ElementId) -> Target {
        Target::Element(element)
    }
}

/// The first `count` ids, in order.
pub fn first_ids<I: Id>(count: usize) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone {
    (0..count).map(I::new)
}

/// A vector with one place for each id of a kind.
///
/// ```
/// use junctor_element::{IndexVec, WorkerId};
///
/// let load: IndexVec<WorkerId, u32> = [3, 0, 7].into_iter().collect();
/// let idle = load.iter_enumerated().find(|(_, load)| **load == 0).map(|(worker, _)| worker);
/// assert_eq!(idle, Some(WorkerId::new(1)));
/// assert_eq!(load.get(WorkerId::new(3)), None);
/// ```
#[derive(PartialEq, Eq)]
pub struct IndexVec<I, T> {
    raw: Vec<T>,
    id: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IndexVec<I, T> {
    /// An empty one.
    pub const fn new() -> IndexVec<I, T> {
        IndexVec { raw: Vec::new(), id: PhantomData }
    }

    /// An empty one with memory for so many.
    pub fn with_capacity(capacity: usize) -> IndexVec<I, T> {
        IndexVec::from(Vec::with_capacity(capacity))
    }

    /// `count` times the same.
    pub fn filled(value: T, count: usize) -> IndexVec<I, T>
    where
        T: Clone,
    {
        IndexVec::from(vec![value; count])
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Appends one; returns its id.
    pub fn push(&mut self, value: T) -> I {
        let id = I::new(self.raw.len());
        self.raw.push(value);
        id
    }

    /// One by its id, if it is there.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.raw.get(id.index())
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.raw.get_mut(id.index())
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        first_ids(self.raw.len())
    }

    /// All, in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.raw.iter()
    }

    /// All, to be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.raw.iter_mut()
    }

    /// All with their ids.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator + Clone {
        self.raw.iter().enumerate().map(|(index, value)| (I::new(index), value))
    }

    /// The same, to be changed.
    pub fn iter_mut_enumerated(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (I, &mut T)> + ExactSizeIterator {
        self.raw.iter_mut().enumerate().map(|(index, value)| (I::new(index), value))
    }

    /// The same, given away.
    pub fn into_iter_enumerated(self) -> impl DoubleEndedIterator<Item = (I, T)> + ExactSizeIterator {
        self.raw.into_iter().enumerate().map(|(index, value)| (I::new(index), value))
    }

    /// All by their places.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.raw
    }

    /// The first one.
    pub fn first(&self) -> Option<&T> {
        self.raw.first()
    }
}

impl<I: Id, T> Index<I> for IndexVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.raw[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IndexVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.raw[id.index()]
    }
}

impl<I: Id, T> From<Vec<T>> for IndexVec<I, T> {
    fn from(raw: Vec<T>) -> IndexVec<I, T> {
        IndexVec { raw, id: PhantomData }
    }
}

impl<I, T: Clone> Clone for IndexVec<I, T> {
    fn clone(&self) -> IndexVec<I, T> {
        IndexVec { raw: self.raw.clone(), id: PhantomData }
    }

    /// Uses the memory that is there.
    fn clone_from(&mut self, source: &IndexVec<I, T>) {
        self.raw.clone_from(&source.raw);
    }
}

impl<I: Id, T> Default for IndexVec<I, T> {
    fn default() -> IndexVec<I, T> {
        IndexVec::new()
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IndexVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<I: Id, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<V: IntoIterator<Item = T>>(values: V) -> IndexVec<I, T> {
        IndexVec::from(Vec::from_iter(values))
    }
}

impl<I: Id, T> Extend<T> for IndexVec<I, T> {
    fn extend<V: IntoIterator<Item = T>>(&mut self, values: V) {
        self.raw.extend(values);
    }
}

impl<I: Id, T> IntoIterator for IndexVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> std::vec::IntoIter<T> {
        self.raw.into_iter()
    }
}

impl<'a, I: Id, T> IntoIterator for &'a IndexVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.raw.iter()
    }
}

impl<'a, I: Id, T> IntoIterator for &'a mut IndexVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.raw.iter_mut()
    }
}

/// A vector with one place for each id, borrowed. It copies the slice, so a lookup costs no second load.
#[derive(Debug)]
pub struct IndexSlice<'a, I, T> {
    raw: &'a [T],
    id: PhantomData<fn(I) -> I>,
}

impl<I, T> Clone for IndexSlice<'_, I, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, T> Copy for IndexSlice<'_, I, T> {}

impl<'a, I: Id, T> IndexSlice<'a, I, T> {
    /// One by its id.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn at(self, id: I) -> &'a T {
        &self.raw[id.index()]
    }
}

impl<'a, I: Id, T> From<&'a IndexVec<I, T>> for IndexSlice<'a, I, T> {
    #[inline]
    fn from(all: &'a IndexVec<I, T>) -> IndexSlice<'a, I, T> {
        IndexSlice { raw: &all.raw, id: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_select_places() {
        let mut all: IndexVec<ElementId, u8> = IndexVec::new();
        assert_eq!((all.push(5), all.push(6)), (ElementId::new(0), ElementId::new(1)));
        all[ElementId::new(1)] += 1;
        *all.get_mut(ElementId::new(0)).expect("the first") += 1;
        assert_eq!(all.as_slice(), [6, 7]);
        assert_eq!(all.get(ElementId::new(2)), None);
        let (last, _) = all.iter_enumerated().next_back().expect("the last");
        assert_eq!((last, IndexSlice::from(&all).at(last)), (ElementId::new(1), &7));
        assert_eq!(format!("{all:?} {last} {:?}", WorkerId::new(3)), "[6, 7] 1 WorkerId(3)");
        assert_eq!(all.ids().rev().collect::<Vec<_>>(), [last, ElementId::new(0)]);
    }

    #[test]
    #[should_panic(expected = "32 bits")]
    fn an_index_of_more_bits_is_refused() {
        PortIndex::new(1 << 32);
    }
}
