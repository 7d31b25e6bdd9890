// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scalars: unsigned numbers of a width that the endpoint fixes, first in, first out.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::channel::{Link, Peer};
use crate::endpoint::{ChannelKind, SCALAR_CELL};
use crate::error::ChannelError;
use crate::ring::{Consumer, Producer};
use crate::wait::{Sleeper, Waker};

/// The largest value of a channel.
fn largest(link: &Link) -> u64 {
    match link.channel.kind {
        ChannelKind::Scalars { width, .. } => width.max(),
        ChannelKind::Messages { .. }
        | ChannelKind::Packets { .. }
        | ChannelKind::Counters { .. }
        | ChannelKind::Blocks { .. } => 0,
    }
}

/// The sending end of a channel of scalars. It never waits.
#[derive(Debug)]
pub struct ScalarSender {
    ring: Producer<SCALAR_CELL>,
    max: u64,
    link: Link,
    waker: Option<Waker>,
    refused: u64,
}

impl ScalarSender {
    pub(crate) fn new(link: Link) -> Result<ScalarSender, ChannelError> {
        let ring = Producer::take_over(link.words.clone(), link.channel.ring())?;
        Ok(ScalarSender { ring, max: largest(&link), waker: link.waker(), link, refused: 0 })
    }

    /// Sends a scalar.
    ///
    /// # Errors
    /// [`ChannelError::Full`], `TooLarge`, `Broken` or `GivenUp`; nothing was sent.
    #[inline]
    pub fn send(&mut self, value: u64) -> Result<(), ChannelError> {
        self.push(value)?;
        self.link.wake(&mut self.waker);
        Ok(())
    }

    /// Sends scalars in order until one is refused; says how many were sent. The receiver is woken once.
    ///
    /// # Errors
    /// As [`send`](Self::send), if the first one was refused.
    pub fn send_many(&mut self, values: &[u64]) -> Result<usize, ChannelError> {
        let mut sent = 0;
        for value in values {
            match self.push(*value) {
                Ok(()) => sent += 1,
                Err(why) if sent == 0 => return Err(why),
                Err(_) => break,
            }
        }
        if sent > 0 {
            self.link.wake(&mut self.waker);
        }
        Ok(sent)
    }

    #[inline]
    fn push(&mut self, value: u64) -> Result<(), ChannelError> {
        self.link.usable()?;
        if value > self.max {
            return Err(ChannelError::TooLarge { value, max: self.max });
        }
        self.ring.push_word(value).map_err(|why| {
            self.refused += 1;
            self.link.failed(why.into())
        })
    }

    /// Scalars refused for want of room so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What is known of the receiver.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }
}

/// The receiving end of a channel of scalars.
#[derive(Debug)]
pub struct ScalarReceiver {
    ring: Consumer<SCALAR_CELL>,
    max: u64,
    link: Link,
    sleeper: Option<Sleeper>,
}

impl ScalarReceiver {
    pub(crate) fn new(link: Link) -> ScalarReceiver {
        let ring = Consumer::take_over(link.words.clone(), link.channel.ring());
        ScalarReceiver { ring, max: largest(&link), sleeper: link.sleeper(), link }
    }

    /// Takes the next scalar; `None` if there is none.
    ///
    /// # Errors
    /// [`ChannelError::Broken`] or `GivenUp`; what was sent before the channel was given up is delivered first.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<u64>, ChannelError> {
        let value = self.take();
        self.ring.tell();
        value
    }

    /// Hands up to `max` scalars to `each`, in order, and says how many there were.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), if there was none before the error.
    pub fn receive_many(&mut self, max: usize, mut each: impl FnMut(u64)) -> Result<usize, ChannelError> {
        let mut count = 0;
        while count < max {
            match self.take() {
                Ok(Some(value)) => each(value),
                Err(why) if count == 0 => return Err(why),
                Ok(None) | Err(_) => break,
            }
            count += 1;
        }
        self.ring.tell();
        Ok(count)
    }

    #[inline]
    fn take(&mut self) -> Result<Option<u64>, ChannelError> {
        match self.ring.next_bytes() {
            Ok(Some(8)) => {}
            Ok(None) => return self.link.usable().map(|()| None),
            // A scalar always has eight bytes.
            Ok(Some(_)) | Err(_) => return Err(self.link.failed(ChannelError::Broken)),
        }
        let value = self.ring.take_word();
        if value > self.max {
            return Err(self.link.failed(ChannelError::Broken));
        }
        Ok(Some(value))
    }

    /// As [`Receiver::wait`](crate::Receiver::wait).
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool, ChannelError> {
        let ring = &self.ring;
        self.link.wait(&mut self.sleeper, limit, || Ok(ring.next_bytes()?.is_some()))
    }

    /// As [`Receiver::fd`](crate::Receiver::fd).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.ear()
    }

    /// What is known of the sender.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }
}
