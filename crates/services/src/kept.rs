// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that the parent of this router holds for the process that takes its place: taps, which so keep their carrier, addresses and neighbours
//! when the router is killed, and packet sockets, in which packets wait meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use planes::notify::Notifier;
use ports::Keeper;

/// Descriptors by name.
type Named = BTreeMap<String, OwnedFd>;

/// What is held for us.
pub struct Kept {
    notifier: Notifier,
    /// What an earlier process left and nobody has taken yet.
    left: Mutex<Named>,
    /// The names of all that it left, until this process has said which of them it keeps.
    given: Mutex<BTreeSet<String>>,
    /// What is in use.
    live: Mutex<Named>,
    /// The router runs: what it closes now is not for the next one.
    running: AtomicBool,
    /// It was said that a descriptor is not kept.
    said: AtomicBool,
}

fn lock<T>(named: &Mutex<T>) -> MutexGuard<'_, T> {
    named.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// If somebody started this process who may hold descriptors.
    pub fn from_environment() -> Option<Arc<Kept>> {
        let notifier = Notifier::from_environment()?;
        let left: Named = ports::inherited().into_iter().collect();
        let given = Mutex::new(left.keys().cloned().collect());
        let left = Mutex::new(left);
        Some(Arc::new(Kept {
            notifier,
            left,
            given,
            live: Mutex::default(),
            running: AtomicBool::new(false),
            said: AtomicBool::new(false),
        }))
    }

    /// Hands all over again, to a supervisor that knows of none.
    pub fn again(&self) {
        for (name, descriptor) in &*lock(&self.live) {
            self.store(name, descriptor.as_fd());
        }
    }

    fn store(&self, name: &str, descriptor: BorrowedFd<'_>) {
        if let Err(why) = self.notifier.store(name, descriptor)
            && !self.said.swap(true, Ordering::Relaxed)
        {
            errln!("junctor: warning: descriptor {name} is not kept for the next process: {why}");
        }
    }

    /// Says whether the router runs. What is closed before and after that is left to the next process. What an earlier process left and this
    /// one has not taken is closed.
    pub fn running(&self, running: bool) {
        self.running.store(running, Ordering::Relaxed);
        if running {
            lock(&self.left).clear();
            let given = std::mem::take(&mut *lock(&self.given));
            given.iter().for_each(|name| self.notifier.forget(name));
        }
    }
}

impl Keeper for Kept {
    fn take(&self, name: &str) -> Option<OwnedFd> {
        lock(&self.left).remove(name)
    }

    fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) {
        // The parent may hold several of one name.
        if lock(&self.given).remove(name) {
            self.notifier.forget(name);
        }
        if let Ok(mine) = descriptor.try_clone_to_owned() {
            lock(&self.live).insert(name.to_owned(), mine);
        }
        self.store(name, descriptor);
    }

    fn forget(&self, name: &str) {
        lock(&self.live).remove(name);
        if self.running.load(Ordering::Relaxed) {
            self.notifier.forget(name);
        }
    }
}
