// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptors that a worker waits for.

use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Token};

use super::Worker;
use crate::capability;
use crate::pulse::Doing;
use crate::watch::{Poll, Watch};
use element::ProcessEvents;

/// See the module.
#[derive(Default)]
pub(super) struct Watches {
    poll: Option<Poll>,
    watched: Vec<Watch>,
    /// Descriptors to watch once the worker is on duty.
    later: Vec<Watch>,
}

impl Watches {
    /// Those that are watched, or will be.
    pub(super) fn all(&self) -> Vec<Watch> {
        self.watched.iter().chain(&self.later).copied().collect()
    }

    /// Watches a descriptor once the worker is on duty.
    pub(super) fn add_later(&mut self, watch: Watch) {
        self.later.push(watch);
    }

    fn forget(&mut self, fd: RawFd) {
        self.watched.retain(|w| w.fd != fd);
        self.later.retain(|w| w.fd != fd);
    }

    /// The watch that calls its element when this descriptor is ready.
    fn calling(&self, fd: RawFd) -> Option<Watch> {
        self.watched.iter().find(|w| w.fd == fd && w.calls).copied()
    }
}

impl Worker {
    fn take_poll(&mut self) -> Option<Poll> {
        if self.watches.poll.is_none() && self.duty.is_on() {
            self.watches.poll = self.mailbox().take_poll();
        }
        self.watches.poll.take()
    }

    /// Takes over the other worker's poll, which watches nothing then.
    pub(super) fn take_over_poll(&mut self, old: &mut Worker) {
        let poll = old.take_poll();
        if let Some(poll) = &poll {
            for watch in old.watches.watched.drain(..) {
                let _ = poll.registry().deregister(&mut SourceFd(&watch.fd));
            }
        }
        self.watches.poll = poll;
    }

    /// Watches what was to be watched once on duty.
    pub(super) fn watch_all(&mut self) {
        std::mem::take(&mut self.watches.later).into_iter().for_each(|watch| self.watch(watch));
    }

    pub(super) fn watch(&mut self, watch: Watch) {
        let fd = watch.fd;
        if !self.duty.is_on() {
            self.watches.later.retain(|w| w.fd != fd);
            return self.watches.later.push(watch);
        }
        let Some(poll) = self.take_poll() else { return };
        let interest = match watch.interest {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        let token = Token(fd as usize);
        let known = self.watches.watched.iter_mut().find(|w| w.fd == fd);
        let done = if known.is_some() {
            poll.registry().reregister(&mut SourceFd(&fd), token, interest)
        } else {
            poll.registry().register(&mut SourceFd(&fd), token, interest)
        };
        // Plain files cannot be waited for; they are always ready, and tasks poll them.
        match (done, known) {
            (Ok(()), Some(known)) => known.interest = watch.interest,
            (Ok(()), None) => self.watches.watched.push(watch),
            (Err(_), _) => {}
        }
        self.watches.poll = Some(poll);
    }

    pub(super) fn unwatch(&mut self, fd: RawFd) {
        if let Some(poll) = self.take_poll() {
            let _ = poll.registry().deregister(&mut SourceFd(&fd));
            self.watches.poll = Some(poll);
        }
        self.watches.forget(fd);
    }

    /// Whether elements wait for descriptors here.
    pub(crate) fn watches(&self) -> bool {
        self.watches.watched.iter().any(|w| w.calls)
    }

    /// Waits for watched descriptors and messages, and runs the elements whose descriptors are ready.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        let Some(mut poll) = self.take_poll() else {
            let nap = timeout.min(Duration::from_millis(1));
            self.rcu.offline(|| std::thread::sleep(nap));
            return false;
        };
        let mut events = Events::with_capacity(64);
        let polled = self.rcu.offline(|| poll.poll(&mut events, timeout));
        self.watches.poll = Some(poll);
        if polled.is_err() {
            return false;
        }
        // Elements that are called after a sleep count as a round.
        let slept = !timeout.is_zero();
        if slept {
            self.begin_stopwatch();
        }
        self.clock.expire();
        let mut worked = false;
        for event in &events {
            let fd = event.token().0 as RawFd;
            if let Some(watch) = self.watches.calling(fd) {
                let class = self.shared.elements[watch.element].class;
                self.run_element(watch.element, Doing::Descriptor, |instance, cx| {
                    if let Some(element) = capability::of_mut::<dyn ProcessEvents>(class, instance) {
                        element.run_fd(cx, fd);
                    }
                    true
                });
                worked = true;
            }
        }
        if slept {
            self.end_stopwatch(worked);
        }
        worked
    }
}
