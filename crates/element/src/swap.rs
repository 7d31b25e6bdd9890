// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes from one configuration to the next in a hot swap.
//!
//! A field's type says what happens to it: a [`Count`] adds up, a [`Continued`] value goes on from where it was, and what is [`Held`] moves.
//! [`carries!`](crate::carries) names every field of an element: those that are carried over by their types, and those that begin anew.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::iter::Sum;
use std::ops::{AddAssign, Deref, DerefMut};
use std::sync::Arc;

use crate::clock::Nanos;

pub use crate::device_pool::{DevicePool, Direction, QueueKey};
pub use crate::element::same;

/// A part of an element that a hot swap carries over.
pub trait Carried {
    /// Takes what `old` has gathered, and leaves nothing there that could be taken twice.
    fn carry(&mut self, now: Nanos, old: &mut Self);
}

/// A count: those of two instances add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Count(u64);

impl Carried for Count {
    fn carry(&mut self, _: Nanos, old: &mut Count) {
        self.take(old);
    }
}

impl Count {
    /// Adds another count, and sets it to zero.
    pub fn take(&mut self, other: &mut Count) {
        self.0 += std::mem::take(&mut other.0);
    }

    /// Sets it to zero.
    pub fn reset(&mut self) {
        self.0 = 0;
    }
}

impl Deref for Count {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        &self.0
    }
}

impl DerefMut for Count {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        &mut self.0
    }
}

impl AddAssign<u64> for Count {
    #[inline]
    fn add_assign(&mut self, more: u64) {
        self.0 += more;
    }
}

impl PartialEq<u64> for Count {
    fn eq(&self, other: &u64) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a> Sum<&'a Count> for u64 {
    fn sum<I: Iterator<Item = &'a Count>>(counts: I) -> u64 {
        counts.map(|count| count.0).sum()
    }
}

impl<T: Carried> Carried for std::cell::Cell<T> {
    fn carry(&mut self, now: Nanos, old: &mut Self) {
        self.get_mut().carry(now, old.get_mut());
    }
}

/// A value that goes on from where it was: the next identification, an average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Continued<T>(T);

impl<T: Copy> Carried for Continued<T> {
    fn carry(&mut self, _: Nanos, old: &mut Self) {
        self.0 = old.0;
    }
}

impl<T> From<T> for Continued<T> {
    fn from(value: T) -> Self {
        Continued(value)
    }
}

impl<T> Deref for Continued<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Continued<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Something that moves, if there is any: a moment, a packet that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub struct Held<T>(Option<T>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Held(None)
    }
}

impl<T> Carried for Held<T> {
    fn carry(&mut self, _: Nanos, old: &mut Self) {
        self.0 = old.0.take().or(self.0.take());
    }
}

impl<T> Deref for Held<T> {
    type Target = Option<T>;

    #[inline]
    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<T> DerefMut for Held<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.0
    }
}

impl<T: Carried, const N: usize> Carried for [T; N] {
    fn carry(&mut self, now: Nanos, old: &mut [T; N]) {
        self.iter_mut().zip(old).for_each(|(mine, theirs)| mine.carry(now, theirs));
    }
}

/// What instances share. It goes on if both configurations have it.
pub trait Follows {
    /// Goes on from where `old` was.
    fn follow(&self, now: Nanos, old: &Self);
}

impl<T: Follows> Carried for Option<Arc<T>> {
    fn carry(&mut self, now: Nanos, old: &mut Self) {
        if let (Some(mine), Some(theirs)) = (self, old) {
            mine.follow(now, theirs);
        }
    }
}

/// Tables are joined; what is known of both is as the predecessor says.
impl<K: Ord, V> Carried for BTreeMap<K, V> {
    fn carry(&mut self, _: Nanos, old: &mut BTreeMap<K, V>) {
        self.append(old);
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Carried for HashMap<K, V, S> {
    fn carry(&mut self, _: Nanos, old: &mut HashMap<K, V, S>) {
        self.extend(old.drain());
    }
}

impl<T: Eq + Hash, S: BuildHasher> Carried for HashSet<T, S> {
    fn carry(&mut self, _: Nanos, old: &mut HashSet<T, S>) {
        self.extend(old.drain());
    }
}

/// Of a header that is filled in, the identification goes on. The rest is as the new text says.
impl Carried for wire::ipv4::Repr {
    fn carry(&mut self, _: Nanos, old: &mut wire::ipv4::Repr) {
        self.id = old.id;
    }
}

/// Implements [`HotSwap`](crate::HotSwap) for a type: `carries!(TYPE: FIELDS; anew FIELDS)`. Fields in front are carried over as their
/// types say, see [`Carried`], in this order. The others are as the new configuration makes them. A field that is in neither list is an error of the
/// compiler. `then |element, cx| ...` is done last. A type may have a parameter: `carries!(Gate<F: Family>: packets)`.
///
/// ```
/// # use junctor_element::{Class, Element, args::Args, carries, swap::Count};
/// #[derive(Default)]
/// struct Gate { active: bool, packets: Count }
///
/// impl Element for Gate {
///     fn configure(&mut self, args: &mut Args<'_>) {
///         self.active = args.keyword("ACTIVE", true);
///     }
/// }
///
/// carries!(Gate: packets; anew active);
///
/// const CLASS: Class = Class::new("Gate", "1/1", || Box::new(Gate::default())).hot_swap::<Gate>();
/// ```
///
/// ```compile_fail
/// # use junctor_element::{Element, args::Args, carries, swap::Count};
/// # #[derive(Default)]
/// # struct Gate { active: bool, packets: Count }
/// # impl Element for Gate {
/// #    fn configure(&mut self, _: &mut Args<'_>) {}
/// # }
/// carries!(Gate: packets); // error: pattern does not mention field `active`
/// ```
#[macro_export]
macro_rules! carries {
    ($type:ident $(<$of:ident: $bound:path>)?: $($field:tt),+ $(; anew $($anew:tt),+)? $(; then |$element:ident, $cx:ident| $then:expr)?) => {
        impl $(<$of: $bound>)? $crate::HotSwap for $type $(<$of>)? {
            fn take_state(&mut self, cx: &mut $crate::Cx<'_>, old: &mut dyn $crate::Element) -> bool {
                let Some(old) = $crate::swap::same::<Self>(old) else { return false };
                let $type { $($field: _,)+ $($($anew: _,)+)? } = old;
                let now = cx.now();
                $($crate::swap::Carried::carry(&mut self.$field, now, &mut old.$field);)+
                $(
                    let ($element, $cx) = (self, cx);
                    $then;
                )?
                true
            }
        }
    };
}
