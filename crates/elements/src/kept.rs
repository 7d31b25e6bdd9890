// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements keep through a hot swap, written once for what many have: counters, rates, limits.
//!
//! Most elements with something to keep have it in a few fields. [`keeps!`](crate::kept::keeps) names these and writes
//! [`Element::take_state`](element::Element::take_state).

use std::collections::BTreeMap;
use std::sync::Arc;

use element::clock::Nanos;

use crate::shared_limit::SharedLimit;
use crate::ticks::Bucket;
use crate::tools::{Limit, TokenBucket};

/// A part of an element that goes on.
pub(crate) trait Kept {
    /// Takes what `old` has gathered, and leaves nothing there that could be taken twice.
    fn keep(&mut self, now: Nanos, old: &mut Self);
}

/// Counts add up.
impl Kept for u64 {
    fn keep(&mut self, _: Nanos, old: &mut u64) {
        *self += std::mem::take(old);
    }
}

/// Identifications go on where the last one was.
impl Kept for u16 {
    fn keep(&mut self, _: Nanos, old: &mut u16) {
        *self = *old;
    }
}

/// Averages go on from where they were.
impl Kept for f64 {
    fn keep(&mut self, _: Nanos, old: &mut f64) {
        *self = *old;
    }
}

/// Moments, and counts since something happened, go on if there are any.
impl Kept for Option<u64> {
    fn keep(&mut self, _: Nanos, old: &mut Option<u64>) {
        *self = old.take().or(*self);
    }
}

impl<T: Kept, const N: usize> Kept for [T; N] {
    fn keep(&mut self, now: Nanos, old: &mut [T; N]) {
        self.iter_mut().zip(old).for_each(|(mine, theirs)| mine.keep(now, theirs));
    }
}

/// Tables are joined; what is known of both is as the predecessor says.
impl<K: Ord, V> Kept for BTreeMap<K, V> {
    fn keep(&mut self, _: Nanos, old: &mut BTreeMap<K, V>) {
        self.append(old);
    }
}

/// A limit that is still there.
impl Kept for Option<Arc<SharedLimit>> {
    fn keep(&mut self, now: Nanos, old: &mut Self) {
        if let (Some(mine), Some(theirs)) = (self, old) {
            mine.follow(now, theirs);
        }
    }
}

/// Tokens that are left are left; the rate and the burst are the new ones.
impl Kept for Bucket {
    fn keep(&mut self, _: Nanos, old: &mut Bucket) {
        self.follow(old);
    }
}

impl Kept for TokenBucket {
    fn keep(&mut self, _: Nanos, old: &mut TokenBucket) {
        self.follow(old);
    }
}

impl Kept for Limit {
    fn keep(&mut self, now: Nanos, old: &mut Limit) {
        self.bucket.keep(now, &mut old.bucket);
    }
}

/// Writes `take_state` for an element of type `$type`: the fields go on, in this order.
macro_rules! keeps {
    ($type:ty: $($($field:tt).+),+) => {
        fn take_state(&mut self, cx: &mut element::Cx<'_>, old: &mut dyn element::Element) -> bool {
            let Some(old) = element::swap::same::<$type>(old) else { return false };
            let now = cx.now();
            $($crate::kept::Kept::keep(&mut self.$($field).+, now, &mut old.$($field).+);)+
            true
        }
    };
}
pub(crate) use keeps;
