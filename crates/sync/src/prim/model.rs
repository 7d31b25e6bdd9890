// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics that the model checker does not lose track of.
//!
//! Loom finds the interleavings that differ by looking at the last access to an atomic before each store (dynamic partial-order reduction). It keeps
//! one last access for all threads. If a thread loads an atomic and then stores to it, its own load hides an earlier load of another thread. The
//! order in which that thread would have seen the store is then never tried (github.com/tokio-rs/loom/issues/166 and 392). Nearly every lock-free
//! algorithm loads before it stores. So each atomic has a companion here that is touched before each access by an addition of zero, which loom takes
//! to depend on all others. It is relaxed, so that nothing is ordered by it, and a load may still return any value that the memory model lets it
//! return.

use loom::sync::atomic as of_loom;
use std::sync::atomic::Ordering;

/// Methods that touch the companion and then do what loom's of the same name does.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*) => {
        $(
            #[track_caller]
            pub fn $name(&self, $($arg: $of),*) -> $result {
                self.touched().$name($($arg),*)
            }
        )*
    };
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty $(, $number:ident)?) => {
        /// Loom's, with a companion that makes it try all orders; see the module.
        #[derive(Debug)]
        pub struct $name $(<$t>)? {
            inner: of_loom::$name $(<$t>)?,
            touched: of_loom::AtomicU8,
        }

        #[allow(missing_docs)]
        impl $(<$t>)? $name $(<$t>)? {
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self { inner: of_loom::$name::new(value), touched: of_loom::AtomicU8::new(0) }
            }

            #[track_caller]
            fn touched(&self) -> &of_loom::$name $(<$t>)? {
                self.touched.fetch_add(0, Ordering::Relaxed);
                &self.inner
            }

            forward! {
                fn load(order: Ordering) -> $value;
                fn store(value: $value, order: Ordering) -> ();
                fn swap(value: $value, order: Ordering) -> $value;
                fn compare_exchange(old: $value, new: $value, yes: Ordering, no: Ordering) -> Result<$value, $value>;
                fn compare_exchange_weak(old: $value, new: $value, yes: Ordering, no: Ordering) -> Result<$value, $value>;
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut value = self.load(fetch);
                while let Some(next) = change(value) {
                    match self.compare_exchange_weak(value, next, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(newer) => value = newer,
                    }
                }
                Err(value)
            }

            #[track_caller]
            pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut $value) -> R) -> R {
                self.inner.with_mut(f)
            }

            $(atomic!(@$number $value);)?
        }
    };
    (@number $value:ty) => {
        forward! {
            fn fetch_add(value: $value, order: Ordering) -> $value;
            fn fetch_sub(value: $value, order: Ordering) -> $value;
            fn fetch_or(value: $value, order: Ordering) -> $value;
            fn fetch_and(value: $value, order: Ordering) -> $value;
            fn fetch_max(value: $value, order: Ordering) -> $value;
        }
    };
}

atomic!(AtomicU8, u8, number);
atomic!(AtomicU32, u32, number);
atomic!(AtomicU64, u64, number);
atomic!(AtomicUsize, usize, number);
atomic!(AtomicPtr<T>, *mut T);

impl Default for AtomicU64 {
    #[track_caller]
    fn default() -> Self {
        Self::new(0)
    }
}

impl Default for AtomicUsize {
    #[track_caller]
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::thread;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    /// What `main` may read of an atomic that another thread first looks at and then sets.
    #[test]
    fn models_try_a_store_after_a_load() {
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = read.clone();
        loom::model(move || {
            let value = Arc::new(AtomicU64::new(0));
            let theirs = value.clone();
            let setting = thread::spawn(move || {
                theirs.load(Ordering::Relaxed);
                theirs.store(1, Ordering::Relaxed);
            });
            noted.lock().unwrap().insert(value.load(Ordering::Relaxed));
            setting.join().unwrap();
        });
        assert_eq!(*read.lock().unwrap(), [0, 1].into());
    }
}
