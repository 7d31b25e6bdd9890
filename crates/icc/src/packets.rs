// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet channels: frames from one plane to another, by copy or by reference ([`crate::loans`]).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::channel::{Link, Peer};
use crate::connection::MemoryRequest;
use crate::error::ChannelError;
use crate::loans::{Borrower, Lender, Next, Note};
use crate::region::LentMemory;
use crate::wait::{Sleeper, Waker};

/// Packets that one call skips at most. A call ends although a faulty sender goes on; the next call continues behind them.
const SKIPPED_MOST: usize = 16;
/// Memories of senders that a receiver keeps at most: the present one's, and the one's before, whose packets may still wait.
const MEMORIES: usize = 2;

/// The sending end of a packet channel. It never waits: without room a packet is refused, and counted.
///
/// Packets are staged one by one and published together. A packet is copied ([`stage`](Self::stage)), or lent ([`lend`](Self::lend)): then it must lie in the
/// memory that this end was attached with, and `T` keeps it until the receiver has copied it. `T` comes back by [`collect`](Self::collect).
#[derive(Debug)]
pub struct PacketSender<T: AsRef<[u8]> = Vec<u8>> {
    ring: Lender<T>,
    longest: usize,
    link: Link,
    waker: Option<Waker>,
    refused: u64,
}

impl<T: AsRef<[u8]>> PacketSender<T> {
    pub(crate) fn new(link: Link) -> Result<Self, ChannelError> {
        let place = link.channel.loans();
        let ring = Lender::take_over(link.words.clone(), place, link.seat())?;
        Ok(PacketSender { ring, longest: place.longest, waker: link.waker(), link, refused: 0 })
    }

    /// Sends a copy of a packet.
    ///
    /// # Errors
    /// [`ChannelError::Full`], `TooLong`, `Broken` or `GivenUp`; nothing was sent.
    pub fn send(&mut self, packet: &[u8], note: Note) -> Result<(), ChannelError> {
        self.stage(packet, note)?;
        self.publish();
        Ok(())
    }

    /// Copies a packet into the channel; [`publish`](Self::publish) sends it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn stage(&mut self, packet: &[u8], note: Note) -> Result<(), ChannelError> {
        self.claim(packet.len())?;
        self.ring.copy(packet, note);
        Ok(())
    }

    /// Lends a packet that lies `offset` bytes behind the start of the memory that this end was attached with; [`publish`](Self::publish) sends it.
    ///
    /// # Errors
    /// As [`send`](Self::send), with what was to be lent.
    #[inline]
    pub fn lend(&mut self, offset: u64, item: T, note: Note) -> Result<(), (ChannelError, T)> {
        if let Err(why) = self.claim(item.as_ref().len()) {
            return Err((why, item));
        }
        self.ring.lend(offset, item, note);
        Ok(())
    }

    #[inline(always)]
    fn claim(&mut self, bytes: usize) -> Result<(), ChannelError> {
        if bytes > self.longest {
            return Err(ChannelError::TooLong { bytes, longest: self.longest });
        }
        if self.ring.room() == 0 && self.make_room(drop)? == 0 {
            self.refused += 1;
            return Err(ChannelError::Full);
        }
        Ok(())
    }

    /// Publishes what was staged or lent, and wakes the receiver once.
    #[inline]
    pub fn publish(&mut self) {
        if self.ring.publish() {
            self.link.wake(&mut self.waker);
        }
    }

    /// How many packets there is room for, after handing back what the receiver has let go of what was lent.
    ///
    /// # Errors
    /// [`ChannelError::Broken`] or `GivenUp`.
    #[inline]
    pub fn collect(&mut self, back: impl FnMut(T)) -> Result<u64, ChannelError> {
        self.make_room(back)
    }

    #[inline]
    fn make_room(&mut self, back: impl FnMut(T)) -> Result<u64, ChannelError> {
        self.link.usable()?;
        self.ring.look(back).map_err(|why| self.link.failed(why.into()))
    }

    /// Takes back all that is lent: for a receiver that has died, or a sender that ends. Packets that the receiver has not taken stay in the channel as copies.
    pub fn recall(&mut self, back: impl FnMut(T)) {
        self.ring.recall(back);
    }

    /// Informs the receiver that no more will come by this memory: it takes what is there and then attaches again.
    pub fn give_up(&mut self) {
        self.publish();
        self.recall(drop);
        self.link.give_up();
        self.link.wake(&mut self.waker);
    }

    /// Bytes of the longest packet.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Packets refused for want of room so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What is known of the receiver.
    #[inline]
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// Whether the receiver's process has ended although [`peer`](Self::peer) still shows it: while nobody serves the domain, nobody frees its seat. Asks the
    /// kernel by a system call, so ask now and then. Never so in a file.
    pub fn receiver_is_gone(&self) -> bool {
        self.link.receiver_is_gone()
    }

    /// As [`Sender::beat`](crate::Sender::beat).
    pub fn beat(&self) {
        self.link.beat();
    }

    /// As [`Sender::peer_beat`](crate::Sender::peer_beat).
    pub fn peer_beat(&self) -> u64 {
        self.link.peer_beat()
    }
}

impl<T: AsRef<[u8]>> Drop for PacketSender<T> {
    fn drop(&mut self) {
        // What is lent may be used for something else from now on.
        self.ring.publish();
        self.ring.recall(drop);
    }
}

/// The receiving end of a packet channel.
#[derive(Debug)]
pub struct PacketReceiver {
    ring: Borrower,
    link: Link,
    sleeper: Option<Sleeper>,
    /// Memories that packets are lent from, by their senders' seats; the newest last.
    memories: Vec<(u64, LentMemory)>,
    /// Memories of senders up to this seat that are not among them cannot be had, as the serving node has shown.
    gone: u64,
    /// The seat of a cell whose memory could not be had. A faulty sender may write any, so it says nothing of other seats.
    lacking: Option<u64>,
    /// The next packet, as its cell said when it was looked at.
    next: Option<Next>,
    lost: u64,
}

impl PacketReceiver {
    pub(crate) fn new(link: Link) -> PacketReceiver {
        let ring = Borrower::take_over(link.words.clone(), link.channel.loans());
        let (memories, sleeper) = (Vec::new(), link.sleeper());
        PacketReceiver { ring, sleeper, link, memories, gone: 0, lacking: None, next: None, lost: 0 }
    }

    /// Length of the next packet and what goes with it, if one is there. Packets that a faulty sender has described wrongly are skipped and counted
    /// ([`lost`](Self::lost)). After 16 of them there is none in this call.
    ///
    /// # Errors
    /// [`ChannelError::Broken`] or `GivenUp`; what was sent before the channel was given up is delivered first.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<(usize, Note)>, ChannelError> {
        for _ in 0..SKIPPED_MOST {
            if self.next.is_none() {
                if self.ring.known() == 0 && self.look()? == 0 {
                    return Ok(None);
                }
                self.next = self.ring.next();
            }
            if let Some(next) = &self.next {
                return Ok(Some((next.bytes, next.note)));
            }
            self.ring.pass();
            self.lost += 1;
        }
        Ok(None)
    }

    #[inline]
    fn look(&mut self) -> Result<u64, ChannelError> {
        match self.ring.look() {
            Ok(0) => {
                // The sender may have published between these two looks.
                let usable = self.link.usable();
                let waiting = self.ring.look().map_err(|why| self.link.failed(why.into()))?;
                if waiting == 0 { usable.map(|()| 0) } else { Ok(waiting) }
            }
            Ok(waiting) => Ok(waiting),
            Err(why) => Err(self.link.failed(why.into())),
        }
    }

    /// Copies the next packet, for which `into` has as many bytes as [`peek`](Self::peek) said, and moves on. False: its bytes cannot be had, and it is counted as lost.
    /// [`tell`](Self::tell) gives the room back to the sender.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        let Some(next) = self.next.take() else { return false };
        let whole = next.bytes == into.len() && {
            let of = |seat| self.memories.iter().find(|(of, _)| *of == seat).map(|(_, memory)| &memory.0);
            self.ring.copy(&next, next.lent.and_then(|(_, seat)| of(seat)), into)
        };
        self.lost += u64::from(!whole);
        self.ring.pass();
        whole
    }

    /// Lets the next packet go unseen, as lost.
    #[cold]
    pub fn skip(&mut self) {
        if self.next.take().is_some() {
            self.ring.pass();
            self.lost += 1;
        }
    }

    /// Gives back to the sender what was taken: after each batch.
    #[inline]
    pub fn tell(&mut self) {
        self.ring.tell();
    }

    /// Takes the next packet; how many bytes it has and what goes with it. Packets whose bytes cannot be had are skipped, 16 at most, and
    /// memory is asked for once: then nothing is received although packets may wait ([`wait`](Self::wait)).
    ///
    /// # Errors
    /// As [`peek`](Self::peek), and [`ChannelError::TooShort`]: the packet stays.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, Note)>, ChannelError> {
        let room = buffer.len();
        let (mut received, mut has_asked) = (None, false);
        for _ in 0..SKIPPED_MOST {
            let Some((bytes, note)) = self.peek()? else { break };
            let Some(buffer) = buffer.get_mut(..bytes) else {
                return Err(ChannelError::TooShort { bytes, room });
            };
            if let Some(seat) = self.unknown_memory() {
                if std::mem::replace(&mut has_asked, true) {
                    break;
                }
                self.ask_for_memory(seat);
            }
            if self.take(buffer) {
                received = Some((bytes, note));
                break;
            }
        }
        self.tell();
        Ok(received)
    }

    /// The seat of the sender that has lent the packet that [`peek`](Self::peek) found, if its memory is not known here but may be had
    /// ([`memory_request`](Self::memory_request)).
    #[inline(always)]
    pub fn unknown_memory(&self) -> Option<u64> {
        let (_, seat) = self.next?.lent?;
        let may_be_had = seat > self.gone && self.lacking != Some(seat);
        (may_be_had && self.memories.iter().all(|(of, _)| *of != seat)).then_some(seat)
    }

    /// Gets the memory of the next packet, which is lent from one that is not known yet. Without it, the packet counts as lost.
    #[cold]
    fn ask_for_memory(&mut self, seat: u64) {
        if let Some(request) = self.memory_request()
            && let Ok(Some((of, memory))) = request.ask()
        {
            self.learn(of, memory);
        }
        if self.unknown_memory().is_some() {
            self.lacks(seat);
        }
    }

    /// What asks for the memory that packets are lent from; none in a file, where nothing is lent.
    pub fn memory_request(&self) -> Option<MemoryRequest> {
        self.link.memory_request()
    }

    /// Makes the memory of a sender's packets known.
    pub fn learn(&mut self, seat: u64, memory: LentMemory) {
        self.memories.retain(|(of, _)| *of != seat);
        if self.memories.len() == MEMORIES {
            self.memories.remove(0);
        }
        self.memories.push((seat, memory));
        // There is one sender at a time: what those before have lent cannot be had any more.
        self.gone = self.gone.max(seat.saturating_sub(1));
    }

    /// Notes that the memory of the sender with this seat cannot be had: its packets are lost.
    pub fn lacks(&mut self, seat: u64) {
        self.lacking = Some(seat);
    }

    /// Packets that could not be had so far: described wrongly, or lent from memory that has gone.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// As [`Receiver::wait`](crate::Receiver::wait).
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool, ChannelError> {
        let ring = &self.ring;
        self.link.wait(&mut self.sleeper, limit, || Ok(ring.is_ready()))
    }

    /// As [`Receiver::announce`](crate::Receiver::announce).
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    pub fn announce(&mut self) -> Result<bool, ChannelError> {
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.announce(&self.link.words);
        }
        Ok(self.peek()?.is_none() && !self.ring.is_ready())
    }

    /// Ends what [`announce`](Self::announce) began: the sender rings no more, and a ring that came is taken back.
    pub fn awake(&mut self) {
        self.link.awake(&self.sleeper);
        self.link.hush();
    }

    /// As [`Receiver::fd`](crate::Receiver::fd).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.ear()
    }

    /// What is known of the sender.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// As [`Sender::beat`](crate::Sender::beat).
    pub fn beat(&self) {
        self.link.beat();
    }

    /// As [`Sender::peer_beat`](crate::Sender::peer_beat).
    pub fn peer_beat(&self) -> u64 {
        self.link.peer_beat()
    }
}
