// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages: byte strings up to the endpoint's longest, first in, first out, without priorities.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::channel::{Link, PAUSE_LEAST, PAUSE_MOST, Peer};
use crate::endpoint::MESSAGE_CELL;
use crate::error::ChannelError;
use crate::ring::{Consumer, Producer};
use crate::wait::{Sleeper, Waker};

/// The sending end of a channel of messages. It never waits: without room a message is refused, and counted.
#[derive(Debug)]
pub struct Sender {
    ring: Producer<MESSAGE_CELL>,
    longest: usize,
    link: Link,
    waker: Option<Waker>,
    refused: u64,
}

impl Sender {
    pub(crate) fn new(link: Link) -> Result<Sender, ChannelError> {
        let place = link.channel.ring();
        let ring = Producer::take_over(link.words.clone(), place)?;
        Ok(Sender { ring, longest: place.longest, waker: link.waker(), link, refused: 0 })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ChannelError::Full`], `TooLong`, `Broken` or `GivenUp`; nothing was sent.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        self.push(message)?;
        self.link.wake(&mut self.waker);
        Ok(())
    }

    /// Sends a message, and waits for room as long as that. A user plane calls [`send`](Self::send), which never waits.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`ChannelError::Full`] if there is still no room when the time is over.
    pub fn send_within(&mut self, message: &[u8], limit: Duration) -> Result<(), ChannelError> {
        let end = Instant::now().checked_add(limit);
        let mut pause = PAUSE_LEAST;
        loop {
            let sent = self.send(message);
            let left = end.map_or(pause, |end| end.saturating_duration_since(Instant::now()));
            if sent != Err(ChannelError::Full) || left == Duration::ZERO {
                return sent;
            }
            // Only the last one is refused.
            self.refused -= 1;
            std::thread::sleep(left.min(pause));
            pause = (2 * pause).min(PAUSE_MOST);
        }
    }

    /// Sends messages in order until one is refused; says how many were sent. The receiver is woken once.
    ///
    /// # Errors
    /// As [`send`](Self::send), if the first one was refused.
    pub fn send_many<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, ChannelError> {
        let mut sent = 0;
        for message in messages {
            match self.push(message) {
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
    fn push(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        self.link.usable()?;
        if message.len() > self.longest {
            return Err(ChannelError::TooLong { bytes: message.len(), longest: self.longest });
        }
        self.ring.push(message).map_err(|why| {
            self.refused += 1;
            self.link.failed(why.into())
        })
    }

    /// Bytes of the longest message that the endpoint takes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Messages refused for want of room so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What is known of the receiver.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// Shows a peer in another operating system that this end is alive; call it from time to time.
    pub fn beat(&self) {
        self.link.beat();
    }

    /// The number that the receiver's [`beat`](Receiver::beat) counts up: one that stands still means a dead receiver.
    pub fn peer_beat(&self) -> u64 {
        self.link.peer_beat()
    }
}

/// The receiving end of a channel of messages.
#[derive(Debug)]
pub struct Receiver {
    ring: Consumer<MESSAGE_CELL>,
    link: Link,
    sleeper: Option<Sleeper>,
    /// A message of the longest kind, for [`receive_many`](Self::receive_many).
    copy: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(link: Link) -> Receiver {
        let place = link.channel.ring();
        let ring = Consumer::take_over(link.words.clone(), place);
        Receiver { ring, sleeper: link.sleeper(), link, copy: vec![0; place.longest] }
    }

    /// Bytes of the next message, if one is there.
    ///
    /// # Errors
    /// [`ChannelError::Broken`] or `GivenUp`; what was sent before the channel was given up is delivered first.
    #[inline]
    pub fn next_bytes(&mut self) -> Result<Option<usize>, ChannelError> {
        match self.ring.next_bytes() {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => self.link.usable().map(|()| None),
            Err(why) => Err(self.link.failed(why.into())),
        }
    }

    /// Copies the next message into `buffer` and says how many bytes it has; `None` if there is none.
    ///
    /// # Errors
    /// As [`next_bytes`](Self::next_bytes), and [`ChannelError::TooShort`], after which the message is still there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ChannelError> {
        let Some(bytes) = self.next_bytes()? else { return Ok(None) };
        let room = buffer.len();
        let Some(buffer) = buffer.get_mut(..bytes) else {
            return Err(ChannelError::TooShort { bytes, room });
        };
        self.ring.take(buffer);
        self.ring.tell();
        Ok(Some(bytes))
    }

    /// Hands up to `max` messages to `each`, in order, and says how many there were.
    ///
    /// # Errors
    /// As [`next_bytes`](Self::next_bytes), if there was none before the error.
    pub fn receive_many(&mut self, max: usize, mut each: impl FnMut(&[u8])) -> Result<usize, ChannelError> {
        let mut count = 0;
        while count < max {
            let bytes = match self.next_bytes() {
                Ok(Some(bytes)) => bytes,
                Err(why) if count == 0 => return Err(why),
                Ok(None) | Err(_) => break,
            };
            self.ring.take(&mut self.copy[..bytes]);
            count += 1;
            each(&self.copy[..bytes]);
        }
        self.ring.tell();
        Ok(count)
    }

    /// Sleeps until a message is there (`true`), or the other side comes or goes, or the time is over (`false`). It also returns `false` at once if the other
    /// side has come or gone since [`peer`](Self::peer) or this function last said so: what is asked before a wait cannot be missed.
    ///
    /// # Errors
    /// As [`next_bytes`](Self::next_bytes), and [`ChannelError::Wait`].
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool, ChannelError> {
        let ring = &self.ring;
        self.link.wait(&mut self.sleeper, limit, || Ok(ring.next_bytes()?.is_some()))
    }

    /// For event loops of one's own: announces that this end will sleep, and says whether it may (`true`: no message is there). Then
    /// [`fd`](Self::fd) becomes readable when one comes.
    ///
    /// # Errors
    /// As [`next_bytes`](Self::next_bytes).
    pub fn announce(&mut self) -> Result<bool, ChannelError> {
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.announce(&self.link.words);
        }
        Ok(self.next_bytes()?.is_none())
    }

    /// An epoll descriptor, readable after a bell has rung; nothing is to be read from it, `epoll_wait` on it takes the ring back. None where
    /// nothing can ring: there one polls.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.ear()
    }

    /// What is known of the sender.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// As [`Sender::beat`].
    pub fn beat(&self) {
        self.link.beat();
    }

    /// As [`Sender::peer_beat`].
    pub fn peer_beat(&self) -> u64 {
        self.link.peer_beat()
    }
}
