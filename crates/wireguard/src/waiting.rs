// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that wait for a session with their peer.
//!
//! A packet without a session begins a handshake, and waits here until it ends. Linux holds up to 128 packets for each peer. Here a peer has [`PER_PEER`] at most, and
//! all together [`TOTAL`]. A peer that has as many as it may loses its oldest packet for the new one. If there is no room for all, the longest queue loses its oldest packet. So
//! silent peers, however many, leave a place for each of the others, and a peer that wants much has as much as the others leave.
//!
//! Finding the longest queue takes a look into an ordered set of all queues, of which there are [`TOTAL`] at most.
//!
//! One lock guards all queues. Packets take it only while their peer has no session. A packet cannot be forgotten here:
//!
//! 1. The worker that installs a session publishes it, then takes the lock and the packets.
//! 2. The worker that brings a packet takes the lock, looks for a session, and adds the packet if there is none.
//! 3. One of them has the lock first. If it is the bringer, the installer finds the packet. Else the bringer sees the session, and gets the packets back.
//!
//! The same argument with the mark of a peer that was taken away ([`Peer::is_gone`]) holds for its packets.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

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
    /// It waits in the place of this one: the oldest of its peer, or of the peer with the most packets.
    Displaces(Packet),
    /// There is no room: all places are taken by packets that nobody waits for any more, and that are about to be freed.
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

/// A packet that waits.
struct Entry {
    packet: Packet,
    came_ns: u64,
    /// How many packets came before it.
    turn: u64,
}

/// By what queues are compared: their lengths, and of equal ones the turns of their oldest packets. The last one gives a packet away first.
type Rank = (usize, Reverse<u64>, u32);

/// The queues of all peers.
#[derive(Default)]
struct Queues {
    /// By the peers' numbers. None is empty.
    of: HashMap<u32, VecDeque<Entry>>,
    /// The same queues in their order.
    ranks: BTreeSet<Rank>,
    total: usize,
    turns: u64,
    /// Packets that wait no longer, until a worker counts and frees them. They count to the total.
    lost: Vec<(Lost, Packet)>,
}

/// The rank of a peer's queue; `None` without a packet.
fn rank(peer: u32, queue: &VecDeque<Entry>) -> Option<Rank> {
    queue.front().map(|oldest| (queue.len(), Reverse(oldest.turn), peer))
}

impl Queues {
    /// Changes the queue of a peer. All changes come here.
    fn change<R>(&mut self, peer: u32, change: impl FnOnce(&mut VecDeque<Entry>) -> R) -> R {
        let queue = self.of.entry(peer).or_default();
        let before = rank(peer, queue);
        let result = change(queue);
        let after = rank(peer, queue);
        if after.is_none() {
            self.of.remove(&peer);
        }
        if before != after {
            before.map(|before| self.ranks.remove(&before));
            self.ranks.extend(after);
        }
        result
    }

    fn push(&mut self, peer: u32, packet: Packet, now_ns: u64) -> Held {
        let len = self.of.get(&peer).map_or(0, VecDeque::len);
        let longest = self.ranks.last().map(|(len, _, peer)| (*len, *peer));
        let gives = match longest {
            _ if len < PER_PEER && self.total < TOTAL => None,
            // If a peer is among those with most packets, its own packet gives way, even if others have as many.
            Some((most, other)) if len < PER_PEER.min(most) => Some(other),
            Some(_) if len > 0 => Some(peer),
            _ => return Held::Full(packet),
        };
        let oldest = gives.and_then(|peer| self.change(peer, VecDeque::pop_front));
        let entry = Entry { packet, came_ns: now_ns, turn: self.turns };
        self.turns += 1;
        self.change(peer, |queue| queue.push_back(entry));
        match oldest {
            Some(oldest) => Held::Displaces(oldest.packet),
            None => {
                self.total += 1;
                Held::Waits
            }
        }
    }

    fn take(&mut self, peer: u32) -> Batch {
        let queue = self.change(peer, std::mem::take);
        self.total -= queue.len();
        queue.into_iter().map(|entry| entry.packet).collect()
    }

    fn give_up(&mut self, peer: u32, why: Lost) {
        let queue = self.change(peer, std::mem::take);
        self.lost.extend(queue.into_iter().map(|entry| (why, entry.packet)));
    }

    /// Gives up packets that came before a moment.
    fn expire(&mut self, before_ns: u64) {
        let is_old = |queue: &VecDeque<Entry>| queue.front().is_some_and(|oldest| oldest.came_ns < before_ns);
        let peers: Vec<u32> =
            self.of.iter().filter(|(_, queue)| is_old(queue)).map(|(peer, _)| *peer).collect();
        for peer in peers {
            let old = self.change(peer, |queue| {
                let count = queue.iter().take_while(|entry| entry.came_ns < before_ns).count();
                queue.drain(..count).collect::<Vec<_>>()
            });
            self.lost.extend(old.into_iter().map(|entry| (Lost::Unanswered, entry.packet)));
        }
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
        let lens = || queues.of.values().map(VecDeque::len);
        assert_eq!((queues.of.len(), queues.total), (100, TOTAL));
        assert!(lens().min().unwrap() + 1 >= lens().max().unwrap(), "each has as many as the others");
    }

    #[test]
    fn as_many_silent_peers_as_there_are_places_leave_one_for_the_next() {
        let mut queues = Queues::default();
        for peer in 0..TOTAL {
            assert!(matches!(queues.push(peer as u32, packet(peer), 0), Held::Waits));
        }
        // A new peer has a place, and the one who has waited longest gives way.
        for n in 0..10 {
            let Held::Displaces(oldest) = queues.push(5000 + n as u32, packet(9), 0) else { panic!() };
            assert_eq!(number(&oldest), n);
        }
        // Another packet of a peer that has one already gives way to it at the cost of that peer alone.
        let Held::Displaces(own) = queues.push(500, packet(7), 0) else { panic!() };
        assert_eq!((number(&own), queues.total), (500, TOTAL));
        assert_eq!(queues.take(5003).iter().map(number).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn who_has_most_gives_way() {
        let mut queues = Queues::default();
        for peer in 0..TOTAL / PER_PEER {
            (0..PER_PEER).for_each(|n| drop(queues.push(peer as u32, packet(100 * peer + n), 0)));
        }
        assert_eq!(queues.total, TOTAL);
        for n in 0..PER_PEER - 4 {
            let Held::Displaces(oldest) = queues.push(77, packet(n), 0) else { panic!() };
            assert_eq!(number(&oldest), 100 * (n % 16) + n / 16);
        }
        assert_eq!(queues.of[&77].len(), 60);
    }

    /// Without an order of queues: a look at each of them.
    #[derive(Default)]
    struct Naive {
        all: Vec<(u32, usize)>,
    }

    impl Naive {
        fn len(&self, peer: u32) -> usize {
            self.all.iter().filter(|(of, _)| *of == peer).count()
        }

        /// The packet that gives way; `None` where there is room.
        fn push(&mut self, peer: u32, number: usize) -> Option<usize> {
            let mut lens = HashMap::<u32, usize>::new();
            self.all.iter().for_each(|(of, _)| *lens.entry(*of).or_default() += 1);
            let (mine, most) = (self.len(peer), lens.values().copied().max().unwrap_or(0));
            let gives = |of: u32| match mine < PER_PEER.min(most) {
                true => lens[&of] == most,
                false => of == peer,
            };
            let is_full = self.all.len() == TOTAL || mine == PER_PEER;
            let at = is_full.then(|| self.all.iter().position(|(of, _)| gives(*of)).unwrap());
            let oldest = at.map(|at| self.all.remove(at).1);
            self.all.push((peer, number));
            oldest
        }
    }

    #[test]
    fn a_naive_version_gives_the_same_packets_away() {
        let (mut queues, mut naive) = (Queues::default(), Naive::default());
        let mut random = fastrand::Rng::with_seed(3);
        for n in 0..6000 {
            // Few peers with much, and many with little.
            let peer = if random.bool() { random.u32(..12) } else { 100 + random.u32(..900) };
            if random.u32(..200) == 0 {
                assert_eq!(queues.take(peer).len(), naive.len(peer));
                naive.all.retain(|(of, _)| *of != peer);
            }
            let oldest = match queues.push(peer, packet(n), 0) {
                Held::Waits => None,
                Held::Displaces(oldest) => Some(number(&oldest)),
                other => panic!("{other:?}"),
            };
            assert_eq!(oldest, naive.push(peer, n), "packet {n} of peer {peer}");
            assert_eq!((queues.total, queues.ranks.len()), (naive.all.len(), queues.of.len()));
        }
        assert!(queues.total > TOTAL - 200);
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
        assert_eq!((queues.total, queues.of.len(), queues.ranks.len()), (4, 2, 2));
    }

    #[test]
    fn where_all_places_wait_to_be_freed_there_is_none() {
        let mut queues = Queues::default();
        (0..TOTAL).for_each(|peer| drop(queues.push(peer as u32, packet(0), 0)));
        queues.expire(1);
        assert!(matches!(queues.push(7, packet(0), 2), Held::Full(_)));
        assert_eq!((queues.of.len(), queues.ranks.len(), queues.total), (0, 0, TOTAL));
    }
}
