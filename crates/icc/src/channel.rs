// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both ends of every channel have: a seat, a look at the other side's seat, and a bell or an ear.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::connection::{Lease, MemoryRequest};
use crate::endpoint::Role;
use crate::error::ChannelError;
use crate::layout::Channel;
use crate::memory::Words;
use crate::prim::Ordering;
use crate::region;
use crate::wait::{Bell, Ear, Sleeper, Waker};

/// What is known of the other side. It comes from shared memory, so an adversarial peer can make it wrong, but no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whether somebody is attached there now.
    pub present: bool,
    /// How many have been, one after the other. A change means that another process took over.
    pub attached: u64,
}

impl Peer {
    /// What a seat's word says.
    pub(crate) fn shown(seat: u64) -> Peer {
        Peer { present: seat & 1 == 1, attached: seat >> 1 }
    }
}

/// What carries an end: shared words, the seat, and what it rings or listens to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) words: Words,
    pub(crate) channel: Channel,
    role: Role,
    /// Which one this is in its seat.
    seat: u64,
    bell: Option<Bell>,
    ear: Option<Ear>,
    /// Set for good once the channel was found broken.
    broken: bool,
    /// The other side's seat as this end's owner saw it last.
    seen: AtomicU64,
    /// The region, which a receiver holds a lock on; none in a file.
    region: Option<OwnedFd>,
    /// Gives the seat back at the end.
    lease: Lease,
}

/// What comes along when a seat is taken.
#[derive(Debug)]
pub(crate) struct Seated {
    pub(crate) role: Role,
    pub(crate) seat: u64,
    pub(crate) bell: Option<Bell>,
    pub(crate) ear: Option<Ear>,
    pub(crate) lease: Lease,
    pub(crate) region: Option<OwnedFd>,
}

impl Link {
    pub(crate) fn new(words: Words, channel: Channel, seated: Seated) -> Link {
        let Seated { role, seat, bell, ear, lease, region } = seated;
        let seen = AtomicU64::new(words[channel.seat(role.other())].load(Ordering::Acquire));
        Link { words, channel, role, seat, bell, ear, broken: false, seen, region, lease }
    }

    pub(crate) fn waker(&self) -> Option<Waker> {
        self.bell.is_some().then(|| Waker::new(self.channel.ticket()))
    }

    pub(crate) fn sleeper(&self) -> Option<Sleeper> {
        self.ear.is_some().then(|| Sleeper::new(self.channel.ticket(), self.seat))
    }

    pub(crate) fn ear(&self) -> Option<BorrowedFd<'_>> {
        self.ear.as_ref().map(AsFd::as_fd)
    }

    /// Rings if the receiver has announced that it sleeps.
    #[inline(always)]
    pub(crate) fn wake(&self, waker: &mut Option<Waker>) {
        if let (Some(waker), Some(bell)) = (waker, &self.bell)
            && waker.due(&self.words)
        {
            bell.ring();
        }
    }

    /// Whether the channel may be used.
    #[inline(always)]
    pub(crate) fn usable(&self) -> Result<(), ChannelError> {
        if self.broken {
            return Err(ChannelError::Broken);
        }
        if self.words[self.channel.given_up()].load(Ordering::Relaxed) != 0 {
            return Err(ChannelError::GivenUp);
        }
        Ok(())
    }

    /// Which one this is in its seat.
    pub(crate) fn seat(&self) -> u64 {
        self.seat
    }

    pub(crate) fn memory_request(&self) -> Option<MemoryRequest> {
        self.lease.memory_request()
    }

    /// Informs the other side that this memory is no longer used.
    pub(crate) fn give_up(&self) {
        self.words[self.channel.given_up()].store(1, Ordering::Release);
    }

    /// Takes rings back that have come.
    pub(crate) fn hush(&self) {
        if let Some(ear) = &self.ear {
            // An error leaves the descriptor readable, which costs another look.
            let _ = ear.sleep(Some(Duration::ZERO));
        }
    }

    /// Notes that the channel is broken, if that is what went wrong.
    #[cold]
    pub(crate) fn failed(&mut self, why: ChannelError) -> ChannelError {
        self.broken |= why == ChannelError::Broken;
        why
    }

    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        let seat = self.words[self.channel.seat(self.role.other())].load(Ordering::Acquire);
        self.seen.store(seat, Ordering::Relaxed);
        Peer::shown(seat)
    }

    /// Whether the other side has come or gone since the owner of this end saw it last; now it has seen that.
    fn peer_has_changed(&self) -> bool {
        let before = self.seen.load(Ordering::Relaxed);
        self.peer();
        before != self.seen.load(Ordering::Relaxed)
    }

    /// Whether the receiver's process has ended, independent of what its seat says: for a sender while nobody serves the domain. A system
    /// call.
    pub(crate) fn receiver_is_gone(&self) -> bool {
        self.region.as_ref().is_some_and(|region| region::is_unlocked(region.as_fd()))
    }

    /// Counts this side's heartbeat up.
    pub(crate) fn beat(&self) {
        // Only this side writes it, so a load and a store do; a peer that writes it too spoils only what it reads.
        let word = &self.words[self.channel.heartbeat(self.role)];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The other side's heartbeat.
    pub(crate) fn peer_beat(&self) -> u64 {
        self.words[self.channel.heartbeat(self.role.other())].load(Ordering::Relaxed)
    }

    /// Waits until `ready`, the channel is given up, or the time is over; or the other side comes or goes, also if it did since the owner of this end saw
    /// it last. Says whether `ready`.
    pub(crate) fn wait(
        &self,
        sleeper: &mut Option<Sleeper>,
        limit: Option<Duration>,
        ready: impl Fn() -> Result<bool, ChannelError>,
    ) -> Result<bool, ChannelError> {
        self.usable()?;
        if ready()? {
            return Ok(true);
        }
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut pause = PAUSE_LEAST;
        loop {
            if let Some(sleeper) = sleeper {
                sleeper.announce(&self.words);
            }
            let found = self.usable().and_then(|()| ready());
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if found != Ok(false) || left == Some(Duration::ZERO) || self.peer_has_changed() {
                self.awake(sleeper);
                return found;
            }
            let slept = match &self.ear {
                Some(ear) => ear.sleep(left),
                None => {
                    std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
                    pause = (2 * pause).min(PAUSE_MOST);
                    Ok(())
                }
            };
            self.awake(sleeper);
            slept.map_err(|why| ChannelError::Wait(why.kind()))?;
        }
    }

    pub(crate) fn awake(&self, sleeper: &Option<Sleeper>) {
        if let Some(sleeper) = sleeper {
            sleeper.awake(&self.words);
        }
    }
}

/// Where nothing can ring (files shared with another operating system, room in a channel), looks are this far apart at first and at last.
pub(crate) const PAUSE_LEAST: Duration = Duration::from_micros(20);
pub(crate) const PAUSE_MOST: Duration = Duration::from_millis(1);
