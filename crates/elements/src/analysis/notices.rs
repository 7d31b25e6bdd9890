// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an element that numbers aggregates says to those that keep something for each: which aggregates have ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use element::InitCx;

/// Aggregates that have ended, for one listener.
#[derive(Debug, Default)]
pub(super) struct Notices {
    wanted: AtomicBool,
    any: AtomicBool,
    ended: Mutex<Vec<u32>>,
}

/// Ended aggregates that wait to be fetched; later ones are not listed, and their listener keeps what it has.
const MOST: usize = 1 << 20;

impl Notices {
    /// Notes an aggregate that has ended, if anybody listens.
    pub(super) fn end(&self, aggregate: u32) {
        if self.wanted.load(Ordering::Relaxed) {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() < MOST {
                ended.push(aggregate);
            }
            self.any.store(true, Ordering::Release);
        }
    }

    /// The aggregates that have ended since the last call.
    pub(super) fn fetch(&self) -> Vec<u32> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut ended)
    }
}

/// The notices of the element that `NOTIFIER` names; each has one listener.
pub(super) fn listen(cx: &mut InitCx<'_>, name: &str) -> Result<Arc<Notices>, String> {
    let found = cx.find::<Notices>(name).ok_or_else(|| format!("{name} is not an AggregateNotifier"))?;
    if found.wanted.swap(true, Ordering::Relaxed) {
        return Err(format!("{name} is the NOTIFIER of another element already"));
    }
    Ok(found)
}
