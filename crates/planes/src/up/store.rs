// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that planes leave with the supervisor, for the process that takes their place (sd_notify(3), FDSTORE).

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::Up;
use crate::descriptors::Named;
use crate::supervisor::Id;

/// Descriptors of one plane, at most.
const MOST: usize = 1024;
/// Bytes of their names together, at most: they are one variable of the next process's environment, which the kernel limits to 128 KiB.
const NAMES: usize = 100_000;

/// A descriptor, and which process of the plane left it.
#[derive(Debug)]
struct Stored {
    start: u64,
    descriptor: OwnedFd,
}

/// What each plane has left.
#[derive(Debug)]
pub(super) struct Store {
    planes: Vec<BTreeMap<String, Stored>>,
}

impl Store {
    pub(super) fn new(planes: usize) -> Store {
        Store { planes: (0..planes).map(|_| BTreeMap::new()).collect() }
    }

    /// Takes a descriptor under its name; returns whether there was room.
    pub(super) fn keep(&mut self, plane: Id, start: u64, name: String, descriptor: OwnedFd) -> bool {
        let stored = &mut self.planes[plane];
        let names: usize = stored.keys().map(|name| name.len() + 1).sum();
        let room = stored.contains_key(&name) || (stored.len() < MOST && names + name.len() < NAMES);
        if room {
            stored.insert(name, Stored { start, descriptor });
        }
        room
    }

    /// Whether a name is that of a descriptor which an earlier process of the plane has left.
    pub(super) fn is_older(&self, plane: Id, start: u64, name: &str) -> bool {
        self.planes[plane].get(name).is_some_and(|stored| stored.start < start)
    }

    /// The descriptor of this name.
    pub(super) fn get(&self, plane: Id, name: &str) -> Option<BorrowedFd<'_>> {
        self.planes[plane].get(name).map(|stored| stored.descriptor.as_fd())
    }

    pub(super) fn forget(&mut self, plane: Id, name: &str) {
        self.planes[plane].remove(name);
    }

    /// Closes what a plane's present process does not use: it has said by now what it does. Returns the names.
    pub(super) fn forget_before(&mut self, plane: Id, start: u64) -> Vec<String> {
        let mut unused = Vec::new();
        self.planes[plane].retain(|name, stored| {
            let is_used = stored.start >= start;
            if !is_used {
                unused.push(name.clone());
            }
            is_used
        });
        unused
    }

    /// Closes all that a plane has left. Returns the names.
    pub(super) fn clear(&mut self, plane: Id) -> Vec<String> {
        std::mem::take(&mut self.planes[plane]).into_keys().collect()
    }

    pub(super) fn names(&self, plane: Id) -> Vec<String> {
        self.planes[plane].keys().cloned().collect()
    }

    /// Copies of the descriptors, in the order of [`Store::names`].
    ///
    /// # Errors
    /// This process may have no more descriptors.
    pub(super) fn descriptors(&self, plane: Id) -> std::io::Result<Vec<OwnedFd>> {
        self.planes[plane].values().map(|stored| stored.descriptor.try_clone()).collect()
    }
}

impl Up<'_> {
    /// Takes descriptors that an earlier supervisor's planes had left.
    pub(super) fn take_left(&mut self, left: Vec<Named>) {
        for (name, descriptor) in left {
            let plane =
                name.split_once('/').and_then(|(plane, own)| Some((self.deployment.find(plane)?, own)));
            match plane {
                Some((id, own)) => {
                    if !self.store.keep(id, 0, own.to_owned(), descriptor) {
                        self.host.say(&format!("descriptor {name} is not kept: it is one too many"));
                    }
                }
                None => self.manager.iter().for_each(|manager| manager.forget(&name)),
            }
        }
    }

    /// The manager keeps descriptors of a plane no more.
    pub(super) fn let_go(&self, id: Id, names: &[String]) {
        for (manager, name) in
            self.manager.iter().flat_map(|manager| names.iter().map(move |name| (manager, name)))
        {
            manager.forget(&format!("{}/{name}", self.name(id)));
        }
    }

    /// Keeps a descriptor, and leaves it with the manager, too.
    pub(super) fn keep(&mut self, id: Id, name: String, descriptor: OwnedFd) {
        let is_kept = self.store.keep(id, self.starts[id], name.clone(), descriptor);
        let lacks = match (&self.manager, self.store.get(id, &name)) {
            _ if !is_kept => {
                Some(format!("it leaves more than {MOST} descriptors, or too long names of them"))
            }
            (Some(manager), Some(kept)) => {
                let stored = manager.store(&format!("{}/{name}", self.name(id)), kept);
                stored
                    .err()
                    .map(|why| format!("a restart of this supervisor with its planes loses it: {why}"))
            }
            _ => None,
        };
        // Said once for each process: what is lost for one descriptor is lost for those after it.
        if let Some(lacks) = lacks
            && std::mem::replace(&mut self.said_lost[id], self.starts[id]) != self.starts[id]
        {
            self.host.say(&format!("plane {}: descriptor {name} is not kept: {lacks}", self.name(id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_left_goes_with_the_next_unless_that_uses_it() {
        let descriptor = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut store = Store::new(2);
        for name in ["b", "a"] {
            assert!(store.keep(1, 1, name.to_owned(), descriptor()));
        }
        assert!(store.keep(1, 2, "a".to_owned(), descriptor()));
        assert_eq!(
            (store.names(1), store.descriptors(1).unwrap().len(), store.names(0)),
            (vec!["a".into(), "b".into()], 2, vec![])
        );
        assert!(store.is_older(1, 2, "b") && !store.is_older(1, 2, "a") && !store.is_older(1, 2, "c"));
        assert_eq!(store.forget_before(1, 2), ["b"]);
        assert_eq!(store.names(1), ["a"]);
        for number in 0..MOST {
            assert_eq!(store.keep(1, 2, number.to_string(), descriptor()), number < MOST - 1);
        }
        assert!(store.keep(1, 3, "a".to_owned(), descriptor()), "in the place of the former one");
        store.forget(1, "a");
        assert!(store.keep(1, 3, "c".to_owned(), descriptor()));
        assert!(store.get(1, "c").is_some() && store.get(1, "a").is_none());
        assert_eq!(store.clear(1).len(), MOST);
        assert!(store.names(1).is_empty());
        // Long names have room for fewer.
        let long = (0..MOST).filter(|n| store.keep(0, 1, format!("{n:0>200}"), descriptor())).count();
        assert_eq!(long, NAMES / 201);
    }
}
