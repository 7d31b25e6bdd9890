// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiled lists that instances share: each worker has an instance of an element, and a long list exists once for all of them.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Arc, Mutex, Weak};

use super::program::Expr;

/// The patterns that a list was made of.
pub(super) trait Listed {
    /// Patterns and their outputs.
    fn patterns(&self) -> &[(Expr, u32)];
}

/// Lists in use, each with a hash of its patterns.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<Vec<(u64, Weak<T>)>>);

impl<T: Listed> Pool<T> {
    pub(super) const fn new() -> Pool<T> {
        Pool(Mutex::new(Vec::new()))
    }

    /// The list of these patterns, if some instance has it, or else a new one; `None` if `make` makes none.
    pub(super) fn share(
        &self,
        patterns: Vec<(Expr, u32)>,
        make: impl FnOnce(Vec<(Expr, u32)>) -> Option<T>,
    ) -> Option<Arc<T>> {
        let hash = hash(&patterns);
        // Who wants the same meanwhile waits, and gets it.
        let mut lists = sync::mutex::lock(&self.0);
        lists.retain(|(_, list)| list.strong_count() > 0);
        let same = lists.iter().filter(|(other, _)| *other == hash).filter_map(|(_, list)| list.upgrade());
        if let Some(list) = same.into_iter().find(|list| list.patterns() == patterns) {
            return Some(list);
        }
        let list = Arc::new(make(patterns)?);
        lists.push((hash, Arc::downgrade(&list)));
        Some(list)
    }
}

fn hash(patterns: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(Vec<(Expr, u32)>);

    impl Listed for List {
        fn patterns(&self) -> &[(Expr, u32)] {
            &self.0
        }
    }

    #[test]
    fn equal_lists_are_one_while_they_are_used() {
        static POOL: Pool<List> = Pool::new();
        let patterns = |output: u32| vec![(Expr::Const(true), output)];
        let share = |output: u32| POOL.share(patterns(output), |all| Some(List(all))).unwrap();
        let (one, other) = (share(1), share(2));
        assert!(Arc::ptr_eq(&one, &share(1)) && !Arc::ptr_eq(&one, &other));
        let made = POOL.share(patterns(1), |_| panic!("it is there"));
        assert_eq!(Arc::strong_count(&one), 2, "{}", made.is_some());
        drop((one, made));
        assert!(POOL.share(patterns(1), |_| None).is_none());
        assert_eq!(sync::mutex::lock(&POOL.0).len(), 1);
    }
}
