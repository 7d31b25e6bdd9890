// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that wait for a session with their peer.
//!
//! A packet without a session begins a handshake, and waits here until it ends. Linux holds up to 128 packets for each peer. Here a peer has [`PER_PEER`] at most, and
//! never more than are left for the others of [`TOTAL`]: so one dead peer cannot take the room of all. A peer that has no room for another packet loses its oldest one.
//!
//! One lock guards all queues. Packets take it only while their peer has no session. A packet cannot be forgotten here:
//!
//! 1. The worker that installs a session publishes it, then takes the lock and the packets.
//! 2. The worker that brings a packet takes the lock, looks for a session, and adds the packet if there is none.
//! 3. One of them has the lock first. If it is the bringer, the installer finds the packet. Else the bringer sees the session, and gets the packets back.
//!
//! The same argument with the mark of a peer that was taken away ([`Peer::is_gone`]) holds for its packets.

use std::collections::{HashMap, VecDeque};

use packet::{Batch, Packet};
use sync::lock::AdaptiveLock;
use sync::rcu::Reader;

use crate::device::Device;
use crate::limits::REKEY_ATTEMPT;
use crate::peer::Peer;

/// Packets of a peer at most.
pub const PER_PEER: usize = 64;
/// Packets of all peers at most.
pub const TOTAL: usize = 1024;

/// What became of a packet without a session.
#[derive(Debug)]
pub enum Held {
    /// It waits.
    Waits,
    /// It waits in the place of this one, which had waited longest.
    Displaces(Packet),
    /// There is no room for it.
    Full(Packet),
    /// The peer was taken away.
    Gone(Packet),
    /// There is a session by now: these are to be sent, in this order.
    Ready(Batch),
}

/// Why packets wait no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The peer has not answered.
    Unanswered,
    /// The peer was taken away.
    Removed,
}

/// A packet, and when it came.
type Entry = (u64, Packet);

/// The queues of all peers.
#[derive(Default)]
struct Queues {
    /// By the peers' numbers. None is empty.
    of: HashMap<u32, VecDeque<Entry>>,
    total: usize,
    /// Packets that wait no longer, until a worker counts and frees them. They count to the total.
    lost: Vec<(Lost, Packet)>,
}

impl Queues {
    fn push(&mut self, peer: u32, packet: Packet, now_ns: u64) -> Held {
        let room = TOTAL - self.total;
        let len = self.of.get(&peer).map_or(0, VecDeque::len);
        if len < PER_PEER.min(room) {
            self.of.entry(peer).or_default().push_back((now_ns, packet));
            self.total += 1;
            return Held::Waits;
        }
        let Some(queue) = self.of.get_mut(&peer) else { return Held::Full(packet) };
        queue.push_back((now_ns, packet));
        queue.pop_front().map_or(Held::Waits, |(_, oldest)| Held::Displaces(oldest))
    }

    fn take(&mut self, peer: u32) -> Batch {
        let queue = self.of.remove(&peer).unwrap_or_default();
        self.total -= queue.len();
        queue.into_iter().map(|(_, packet)| packet).collect()
    }

    fn give_up(&mut self, peer: u32, why: Lost) {
        let queue = self.of.remove(&peer).unwrap_or_default();
        self.lost.extend(queue.into_iter().map(|(_, packet)| (why, packet)));
    }

    /// Gives up packets that came before a moment.
    fn expire(&mut self, before_ns: u64) {
        let lost = &mut self.lost;
        self.of.retain(|_, queue| {
            while queue.front().is_some_and(|(came, _)| *came < before_ns) {
                lost.extend(queue.pop_front().map(|(_, packet)| (Lost::Unanswered, packet)));
            }
            !queue.is_empty()
        });
    }
}

/// The queues behind their lock.
pub(crate) struct Waiting(AdaptiveLock<Queues>);

impl Waiting {
    pub fn new() -> Waiting {
        Waiting(AdaptiveLock::new(Queues::default()))
    }

    pub fn give_up(&self, peer: u32, why: Lost) {
        self.0.lock().give_up(peer, why);
    }

    /// Gives up what has waited longer than any handshake takes. Whether something still waits.
    pub fn expire(&self, now_ns: u64) -> bool {
        let mut queues = self.0.lock();
        queues.expire(now_ns.saturating_sub(REKEY_ATTEMPT));
        queues.total > 0
    }
}

impl Device {
    /// Lets a packet wait for a session with a peer.
    #[cold]
    pub fn hold(&self, reader: &Reader, number: u32, packet: Packet, now_ns: u64) -> Held {
        let Some(peer) = self.peer(reader, number) else { return Held::Gone(packet) };
        let mut queues = self.waiting.0.lock();
        if peer.is_gone() {
            return Held::Gone(packet);
        }
        if has_session(peer, reader, now_ns) {
            let mut ready = queues.take(number);
            ready.push(packet);
            return Held::Ready(ready);
        }
        queues.push(number, packet, now_ns)
    }

    /// Takes the packets that have waited for a session with a peer.
    #[cold]
    pub fn take_held(&self, number: u32) -> Batch {
        self.waiting.0.lock().take(number)
    }

    /// Takes the packets that wait no longer, to be counted and freed.
    #[cold]
    pub fn take_lost(&self) -> Vec<(Lost, Packet)> {
        let mut queues = self.waiting.0.lock();
        queues.total -= queues.lost.len();
        std::mem::take(&mut queues.lost)
    }

    /// How many packets wait.
    pub fn held(&self) -> usize {
        self.waiting.0.lock().total
    }
}

fn has_session(peer: &Peer, reader: &Reader, now_ns: u64) -> bool {
    peer.current(reader).is_some_and(|session| !session.is_over(now_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(n: usize) -> Packet {
        Packet::copy_of(&n.to_le_bytes()).unwrap()
    }

    fn number(packet: &Packet) -> usize {
        usize::from_le_bytes(packet.data().try_into().unwrap())
    }

    #[test]
    fn the_oldest_gives_way_and_the_order_stays() {
        let mut queues = Queues::default();
        for n in 0..PER_PEER {
            assert!(matches!(queues.push(7, packet(n), 0), Held::Waits));
        }
        let Held::Displaces(oldest) = queues.push(7, packet(PER_PEER), 0) else { panic!() };
        assert_eq!((number(&oldest), queues.total), (0, PER_PEER));
        let numbers: Vec<usize> = queues.take(7).iter().map(number).collect();
        assert_eq!(numbers, (1..=PER_PEER).collect::<Vec<_>>());
        assert_eq!((queues.total, queues.take(7).len()), (0, 0));
    }

    #[test]
    fn all_peers_together_have_a_bound_and_each_has_a_share() {
        let mut queues = Queues::default();
        for round in 0..PER_PEER {
            for peer in 0..100 {
                queues.push(peer, packet(round), 0);
                assert!(queues.total <= TOTAL);
            }
        }
        let least = queues.of.values().map(VecDeque::len).min().unwrap();
        assert!(queues.of.len() == 100 && least >= TOTAL / 101 - 1, "{least}");
    }

    #[test]
    fn what_is_given_up_counts_until_it_is_freed() {
        let mut queues = Queues::default();
        for (peer, came) in [(1, 0), (1, 50), (2, 0), (3, 90)] {
            queues.push(peer, packet(0), came);
        }
        queues.give_up(2, Lost::Removed);
        queues.expire(50);
        assert_eq!(
            queues.lost.iter().map(|(why, _)| *why).collect::<Vec<_>>(),
            [Lost::Removed, Lost::Unanswered]
        );
        assert_eq!((queues.total, queues.of.len()), (4, 2));
    }
}
