// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptors that a worker waits for.

use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Token};

use super::Worker;
use crate::watch::{Poll, Watch};

impl Worker {
    pub(crate) fn take_poll(&mut self) -> Option<Poll> {
        if self.poll.is_none() && self.on_duty {
            self.poll = self.shared.mailboxes[self.index].take_poll();
        }
        self.poll.take()
    }

    pub(crate) fn watch(&mut self, watch: Watch) {
        let fd = watch.fd;
        if !self.on_duty {
            self.wishes.retain(|w| w.fd != fd);
            self.wishes.push(watch);
            return;
        }
        let Some(poll) = self.take_poll() else { return };
        let interest = match watch.interest {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        let token = Token(fd as usize);
        let known = self.watched.iter_mut().find(|w| w.fd == fd);
        let done = if known.is_some() {
            poll.registry().reregister(&mut SourceFd(&fd), token, interest)
        } else {
            poll.registry().register(&mut SourceFd(&fd), token, interest)
        };
        // Plain files cannot be waited for; they are always ready, and tasks poll them.
        match (done, known) {
            (Ok(()), Some(known)) => known.interest = watch.interest,
            (Ok(()), None) => self.watched.push(watch),
            (Err(_), _) => {}
        }
        self.poll = Some(poll);
    }

    pub(crate) fn unwatch(&mut self, fd: RawFd) {
        if let Some(poll) = self.take_poll() {
            let _ = poll.registry().deregister(&mut SourceFd(&fd));
            self.poll = Some(poll);
        }
        self.watched.retain(|w| w.fd != fd);
        self.wishes.retain(|w| w.fd != fd);
    }
}
