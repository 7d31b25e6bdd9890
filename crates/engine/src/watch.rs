// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that a worker waits for.

use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use crate::worker::Worker;

/// A descriptor to watch: whether for reading and writing, and the element to call.
pub(crate) type Wish = (RawFd, (bool, bool), Option<u32>);

impl Worker {
    pub(crate) fn take_poll(&mut self) -> Option<Poll> {
        if self.poll.is_none() && self.on_duty {
            self.poll = self.shared.mailboxes[self.index].take_poll();
        }
        self.poll.take()
    }

    pub(crate) fn watch(&mut self, fd: RawFd, interest: (bool, bool), element: Option<u32>) {
        if !self.on_duty {
            self.wishes.retain(|w| w.0 != fd);
            self.wishes.push((fd, interest, element));
            return;
        }
        let Some(poll) = self.take_poll() else { return };
        let interest = match interest {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        let token = Token(fd as usize);
        let known = self.watched.iter().any(|w| w.0 == fd);
        let done = if known {
            poll.registry().reregister(&mut SourceFd(&fd), token, interest)
        } else {
            poll.registry().register(&mut SourceFd(&fd), token, interest)
        };
        self.poll = Some(poll);
        match done {
            Ok(()) if !known => self.watched.push((fd, element)),
            Ok(()) => {}
            // Plain files cannot be waited for; they are always ready, and tasks poll them.
            Err(_) => {}
        }
    }

    pub(crate) fn unwatch(&mut self, fd: RawFd) {
        if let Some(poll) = self.take_poll() {
            let _ = poll.registry().deregister(&mut SourceFd(&fd));
            self.poll = Some(poll);
        }
        self.watched.retain(|w| w.0 != fd);
        self.wishes.retain(|w| w.0 != fd);
    }
}
