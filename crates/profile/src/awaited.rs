// SPDX-License-Identifier: MIT OR Apache-2.0
//! What blocked threads wait for: the kernel reports their calls, and workers their own sleep.

use std::collections::HashMap;

use sync::events::EventKind;

use crate::file::Recording;
use crate::kernel::event::{KernelEvent, KernelKind};

/// What a blocked thread waits for, as far as the kernel and the engine tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    Futex,
    KernelLock,
    /// A worker that has nothing to do.
    Work,
    /// What no signal interrupts: storage, mostly.
    Uninterruptible,
    Other,
}

impl Awaited {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Awaited::Futex => "a futex (a lock or condition of the program)",
            Awaited::KernelLock => "a lock of the kernel",
            Awaited::Work => "work, asleep",
            Awaited::Uninterruptible => "the kernel, uninterruptibly (storage, memory)",
            Awaited::Other => "a system call or a timer",
        }
    }
}

/// Bits of the state in which the kernel says that a thread was left: 0 if it could run on.
mod left {
    pub(super) const UNINTERRUPTIBLE: u32 = 0x2;
    /// A zombie, or dead.
    pub(super) const ENDED: u32 = 0x10 | 0x20;
    pub(super) const ANY: u32 = 0xff;
}

/// How a thread was left by a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Ready,
    Blocked { uninterruptibly: bool },
    Ended,
}

impl Left {
    pub(crate) fn of(state: u32) -> Left {
        match state & left::ANY {
            0 => Left::Ready,
            state if state & left::ENDED != 0 => Left::Ended,
            state => Left::Blocked { uninterruptibly: state & left::UNINTERRUPTIBLE != 0 },
        }
    }
}

/// When workers slept because there was nothing to do, as they tell themselves, and what threads ask of the kernel: for what a thread that blocks
/// waits.
pub(crate) struct Reasons {
    /// By the kernel's number, in order.
    sleeps: HashMap<u32, Vec<(u64, u64)>>,
    /// Calls of `futex` and waits for locks under way.
    open: HashMap<u32, Vec<KernelKind>>,
}

impl Reasons {
    pub(crate) fn new(recording: &Recording) -> Reasons {
        let time = recording.timeline();
        let threads = recording.names.last().map_or(&[][..], |n| &n.threads);
        let mut sleeps: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for event in recording.events.iter().filter(|e| e.kind == EventKind::Sleep) {
            let Some(thread) = threads.get((event.thread as usize).wrapping_sub(1)) else { continue };
            let from = time.ns(event.at.saturating_sub(u64::from(event.first)));
            sleeps.entry(thread.kernel_id).or_default().push((from, time.ns(event.at)));
        }
        sleeps.values_mut().for_each(|of_thread| of_thread.sort_unstable());
        Reasons { sleeps, open: HashMap::new() }
    }

    /// Takes every event, in order.
    pub(crate) fn see(&mut self, event: &KernelEvent) {
        let begun = match event.kind {
            KernelKind::FutexBegin | KernelKind::ContentionBegin => {
                return self.open.entry(event.thread).or_default().push(event.kind);
            }
            KernelKind::FutexEnd => KernelKind::FutexBegin,
            KernelKind::ContentionEnd => KernelKind::ContentionBegin,
            _ => return,
        };
        // A lost end leaves its beginning behind: events that started within it are over, too.
        if let Some(open) = self.open.get_mut(&event.thread)
            && let Some(at) = open.iter().rposition(|kind| *kind == begun)
        {
            open.truncate(at);
        }
    }

    /// What a thread waits for that blocks now.
    pub(crate) fn of(&self, thread: u32, at_ns: u64, uninterruptibly: bool) -> Awaited {
        match self.open.get(&thread).and_then(|open| open.last()) {
            Some(KernelKind::FutexBegin) => return Awaited::Futex,
            Some(_) => return Awaited::KernelLock,
            None => {}
        }
        let sleeps = self.sleeps.get(&thread).map_or(&[][..], Vec::as_slice);
        let next = sleeps.partition_point(|(_, to)| *to < at_ns);
        match sleeps.get(next) {
            _ if uninterruptibly => Awaited::Uninterruptible,
            Some((from, _)) if *from <= at_ns => Awaited::Work,
            _ => Awaited::Other,
        }
    }
}
