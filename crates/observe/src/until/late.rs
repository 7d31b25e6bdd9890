// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are in the router for too long.
//!
//! A few packets are followed at a time: each worker's observer picks one behind a source when a number is free and the last was picked some time
//! ago. What is seen of them waits in a channel until the recording thread looks; it puts observations of all workers in order and charges the time
//! between two of them to where the packet was. So nothing here is in the way of workers but a look at a word for each batch of a source, and the
//! observations themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::ElementId;
use engine::observer::{Observation, What};
use engine::stall::Head;
use packet::Packet;
use wire::fields::First;

use crate::numbers::Numbers;
use crate::records::first;

/// Packets that are followed at a time, at most; the other numbers are left to `junctor trace`.
const MOST: u32 = 4;
/// Observations that may wait to be gathered.
const WAITING: usize = 1 << 12;
/// Bytes of a packet that are kept.
const HEAD_BYTES: usize = 128;
/// Between two packets that are picked, in nanoseconds: so that those that leave at once are spread over the time between two looks.
const GAP_NS: f64 = 1e6;

/// What is seen of a packet.
struct Glimpse {
    at: u64,
    wall_ns: u64,
    worker: usize,
    element: ElementId,
    what: What,
    number: u8,
    id: usize,
    /// It has been picked here.
    picked: bool,
    head: Option<Head>,
}

/// What all observers have in common with the thread that looks.
struct Common {
    /// All workers have their observer.
    open: AtomicBool,
    numbers: Numbers,
    /// The numbers that no packet has, a bit for each.
    free: AtomicU8,
    /// When the next packet may be picked, in cycles.
    next: AtomicU64,
    gap: u64,
    /// Numbers of packets of which an observation was lost.
    unclear: AtomicU8,
}

/// A worker's part of it.
pub(super) struct Follower {
    common: Arc<Common>,
    seen: SyncSender<Glimpse>,
    /// Packets that were picked, and not seen yet.
    picked: Vec<(u8, usize)>,
}

impl Follower {
    /// Whether it is time for another packet.
    pub(super) fn picks(&self) -> bool {
        let Common { open, free, next, .. } = &*self.common;
        free.load(Relaxed) != 0 && open.load(Relaxed) && sync::tsc() >= next.load(Relaxed)
    }

    pub(super) fn pick(&mut self, packet: &Packet) -> u8 {
        let Common { free, next, gap, .. } = &*self.common;
        let now = sync::tsc();
        if now < next.load(Relaxed) {
            return 0;
        }
        let without_lowest = |free: u8| (free != 0).then(|| free & (free - 1));
        let Ok(before) = free.fetch_update(Relaxed, Relaxed, without_lowest) else { return 0 };
        next.store(now + gap, Relaxed);
        let number = before.trailing_zeros() as u8;
        self.picked.push((number, packet.id()));
        number
    }

    pub(super) fn see(&mut self, observation: &Observation<'_>) {
        let Observation { at, wall_ns, worker, element, what, number, id, .. } = *observation;
        if !self.common.numbers.has(number) {
            return;
        }
        let same = self.picked.iter().position(|picked| *picked == (number, id));
        let picked = same.map(|i| self.picked.swap_remove(i)).is_some();
        let head = observation.packet.map(|packet| Head {
            len: packet.len(),
            bytes: packet.data()[..packet.len().min(HEAD_BYTES)].to_vec(),
            ip: Some(first(packet) == First::Ip),
        });
        let glimpse = Glimpse { at, wall_ns, worker, element, what, number, id, picked, head };
        if self.seen.try_send(glimpse).is_err() {
            self.common.unclear.fetch_or(1 << number, Relaxed);
        }
    }
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Was {
    /// In front of an element, which has not started with it.
    Before(ElementId),
    /// In an element that works on it.
    In(ElementId),
    /// Held by an element.
    Held(ElementId),
}

impl Was {
    pub(super) fn element(self) -> ElementId {
        let (Was::Before(element) | Was::In(element) | Was::Held(element)) = self;
        element
    }

    /// What it was to the element.
    pub(super) fn words(self) -> &'static str {
        match self {
            Was::Before(_) => "in front of",
            Was::In(_) => "in",
            Was::Held(_) => "held by",
        }
    }
}

/// The way of a packet.
#[derive(Clone, Debug)]
pub(super) struct PacketPath {
    /// When it came into the router, and by which element.
    pub(super) begun: (u64, ElementId),
    /// When it was seen last, in cycles and in nanoseconds since the epoch.
    pub(super) at: u64,
    pub(super) wall_ns: u64,
    /// Where it is since.
    pub(super) was: Was,
    /// The element that it has left last, and when.
    left: (ElementId, u64),
    times: BTreeMap<Was, u64>,
    /// The workers that it came to, in this order.
    pub(super) workers: Vec<usize>,
    /// How it began when it was seen last.
    pub(super) head: Head,
    /// It has been reported.
    told: bool,
}

impl PacketPath {
    /// Charges the time until then to where it was.
    fn go(&mut self, at: u64) {
        *self.times.entry(self.was).or_default() += at.saturating_sub(self.at);
        self.at = self.at.max(at);
    }

    /// Where it was for the longest time, and for how long, in cycles.
    pub(super) fn longest(&self) -> (Was, u64) {
        let longest = self.times.iter().max_by_key(|(_, cycles)| **cycles);
        longest.map_or((self.was, 0), |(was, cycles)| (*was, *cycles))
    }

    fn see(&mut self, glimpse: &Glimpse) {
        self.wall_ns = glimpse.wall_ns;
        if !self.workers.contains(&glimpse.worker) {
            self.workers.push(glimpse.worker);
        }
        if let Some(head) = &glimpse.head {
            self.head = head.clone();
        }
    }

    /// Whether a packet that is new to us has been made of this one, if it was: by an element that has it in hand, or has just sent it, or says that it
    /// made it of what it held.
    fn makes(&self, Glimpse { at, worker, element, what, .. }: &Glimpse) -> bool {
        if self.was == Was::Held(*element) {
            return matches!(what, What::Output { made: true, .. });
        }
        let here = self.was == Was::In(*element) || self.left == (*element, *at);
        here && self.workers.last().is_some_and(|last| last == worker)
    }
}

/// A packet that was in the router for too long.
#[derive(Debug)]
pub(super) struct Lateness {
    pub(super) way: PacketPath,
    /// How long, in cycles.
    pub(super) cycles: u64,
    /// How it ended, and where; `None` of one that is still inside.
    pub(super) end: Option<(What, ElementId)>,
    /// When that was found.
    pub(super) at: u64,
}

/// The recording thread's part of it.
pub(super) struct Latency {
    bound: u64,
    common: Arc<Common>,
    seen: SyncSender<Glimpse>,
    gathered: Receiver<Glimpse>,
    pending: Vec<Glimpse>,
    /// What was seen before this has been gathered.
    horizon: u64,
    /// By number, the copies of a followed packet by id.
    ways: BTreeMap<u8, BTreeMap<usize, PacketPath>>,
}

impl Latency {
    /// Looks for packets that take more cycles than this, of which there are so many in a nanosecond.
    ///
    /// # Errors
    /// No packet can be followed.
    pub(super) fn new(bound: u64, ghz: f64) -> Result<Latency, String> {
        let numbers = Numbers::new(MOST);
        (0..MOST).for_each(|_| {
            numbers.take();
        });
        let free = AtomicU8::new(numbers.mine());
        if numbers.mine() == 0 {
            return Err(
                "latency cannot be waited for: as many packets as can be are being followed; end a 'junctor trace' of this router".into()
            );
        }
        let common = Common {
            open: AtomicBool::new(false),
            numbers,
            free,
            next: AtomicU64::new(0),
            gap: (GAP_NS * ghz) as u64,
            unclear: AtomicU8::new(0),
        };
        let (seen, gathered) = sync_channel(WAITING);
        Ok(Latency {
            bound,
            common: Arc::new(common),
            seen,
            gathered,
            pending: Vec::new(),
            horizon: 0,
            ways: BTreeMap::new(),
        })
    }

    /// For one more worker.
    pub(super) fn follower(&self) -> Follower {
        Follower { common: self.common.clone(), seen: self.seen.clone(), picked: Vec::new() }
    }

    /// Packets are picked from now on, or none is any more.
    pub(super) fn open(&self, open: bool) {
        self.common.open.store(open, Relaxed);
    }

    /// Forgets all that are on their way, of which something was not seen. Their numbers may be given out again: who is seen with one and was neither
    /// picked nor made of who was is another packet.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.gathered.try_iter().for_each(drop);
        self.ways.clear();
        self.common.free.store(self.common.numbers.mine(), Relaxed);
    }

    /// Which packets are late, as far as is known: up to the time of the look before, or to now if this is the last.
    pub(super) fn look(&mut self, last: bool) -> Vec<Lateness> {
        // By the next time, what happened on other workers before this has been sent.
        let before = std::mem::replace(&mut self.horizon, sync::tsc());
        let ripe = if last { self.horizon } else { before };
        self.pending.extend(self.gathered.try_iter());
        self.pending.sort_by_key(|glimpse| glimpse.at);
        let n = self.pending.partition_point(|glimpse| glimpse.at < ripe);
        let mut late = Vec::new();
        for glimpse in self.pending.drain(..n).collect::<Vec<_>>() {
            late.extend(self.follow(glimpse));
        }
        let unclear = self.common.unclear.swap(0, Relaxed);
        self.ways.retain(|number, _| unclear & 1 << number == 0);
        self.common.free.fetch_or(unclear, Relaxed);
        for way in self.ways.values_mut().flat_map(BTreeMap::values_mut) {
            let cycles = ripe.saturating_sub(way.begun.0);
            if cycles > self.bound && !way.told {
                way.told = true;
                let mut way = way.clone();
                way.go(ripe);
                late.push(Lateness { way, cycles, end: None, at: ripe });
            }
        }
        late
    }

    /// Follows a packet to where it was seen; returns it if it was too long until this end.
    fn follow(&mut self, glimpse: Glimpse) -> Option<Lateness> {
        let Glimpse { at, element, what, number, id, picked, .. } = glimpse;
        if picked {
            let was = Was::In(element);
            let (workers, head) = (vec![glimpse.worker], Head::default());
            let wall_ns = glimpse.wall_ns;
            let (times, left) = (BTreeMap::new(), (element, at));
            let way = PacketPath {
                begun: (at, element),
                at,
                wall_ns,
                was,
                left,
                times,
                workers,
                head,
                told: false,
            };
            self.ways.insert(number, BTreeMap::from([(id, way)]));
        }
        let copies = self.ways.get_mut(&number)?;
        if !copies.contains_key(&id) {
            let sent = matches!(what, What::Output { .. });
            let of = copies.values().find(|way| sent && way.makes(&glimpse))?.clone();
            copies.insert(id, of);
        }
        let way = copies.get_mut(&id)?;
        let was = match what {
            What::Input { .. } => Was::In(element),
            What::Output { to, .. } => Was::Before(to.element),
            // A worker that was interrupted reports late that it has let go of a packet; others may have had it since.
            What::Held if ![Was::In(element), Was::Before(element)].contains(&way.was) => return None,
            What::Held => Was::Held(element),
            What::Dropped(_) | What::Lost(..) | What::Replaced | What::Taken | What::Unknown => {
                return self.end(&glimpse);
            }
        };
        way.go(at);
        way.see(&glimpse);
        if let What::Output { .. } = what {
            way.left = (element, at);
        }
        way.was = was;
        None
    }

    fn end(&mut self, glimpse: &Glimpse) -> Option<Lateness> {
        let Glimpse { at, element, what, number, id, .. } = *glimpse;
        let copies = self.ways.get_mut(&number)?;
        let mut way = copies.remove(&id)?;
        if copies.is_empty() {
            self.ways.remove(&number);
            self.common.free.fetch_or(1 << number, Relaxed);
        }
        way.go(at);
        way.see(glimpse);
        let cycles = at.saturating_sub(way.begun.0);
        let late = cycles > self.bound && !way.told;
        late.then_some(Lateness { way, cycles, end: Some((what, element)), at })
    }

    /// Nobody is followed any more.
    pub(super) fn close(&mut self) {
        self.open(false);
        let kept = self.ways.iter().flat_map(|(number, ways)| ways.keys().map(|id| (*number, *id)));
        self.common.numbers.end(kept);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use engine::GraphEnd;

    use super::*;

    /// Elements of a router.
    const SRC: ElementId = ElementId::new(0);
    const TEE: ElementId = ElementId::new(1);
    const QUEUE: ElementId = ElementId::new(2);
    const OUT: ElementId = ElementId::new(3);

    fn observation(at: u64, worker: usize, element: ElementId, what: What, id: usize) -> Glimpse {
        let head = Some(Head { len: id, ..Head::default() });
        Glimpse { at, wall_ns: at, worker, element, what, number: 1, id, picked: false, head }
    }

    fn sent(to: ElementId, pulled: bool) -> What {
        What::Output { port: 0, to: GraphEnd { element: to, port: 0 }, pulled, made: false }
    }

    /// Numbers are the process's, so one test at a time has them.
    static ALONE: Mutex<()> = Mutex::new(());

    fn latency(bound: u64) -> (MutexGuard<'static, ()>, Latency) {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = Latency::new(bound, 1.0).unwrap();
        // What the worker does when it picks.
        latency.common.free.fetch_and(!2, Relaxed);
        (alone, latency)
    }

    fn tell(latency: &mut Latency, all: Vec<Glimpse>) -> Vec<Lateness> {
        all.into_iter().for_each(|glimpse| latency.seen.send(glimpse).unwrap());
        latency.look(true)
    }

    /// A packet comes in at 1000 and goes into a queue by a Tee, whose copy ends at once.
    fn into_queue() -> Vec<Glimpse> {
        let input = What::Input { port: 0 };
        vec![
            Glimpse { picked: true, ..observation(1000, 0, SRC, sent(TEE, false), 71) },
            observation(1100, 0, TEE, input, 71),
            observation(1150, 0, TEE, sent(QUEUE, false), 71),
            observation(1150, 0, TEE, sent(OUT, false), 72),
            observation(1160, 0, OUT, input, 72),
            observation(1200, 0, OUT, What::Taken, 72),
            observation(1300, 0, QUEUE, input, 71),
        ]
    }

    #[test]
    fn time_is_charged_to_where_a_packet_was() {
        let (_alone, mut latency) = latency(900);
        // The other worker fetches it before the first has reported that it lies there; observations come in any order.
        let mut all = vec![
            observation(2300, 1, OUT, What::Taken, 71),
            observation(2200, 1, OUT, What::Input { port: 0 }, 71),
            observation(2000, 1, QUEUE, sent(OUT, true), 71),
        ];
        all.extend(into_queue());
        all.push(observation(1300, 0, QUEUE, What::Held, 71));
        let late = tell(&mut latency, all);
        let [Lateness { way, cycles: 1300, end: Some((What::Taken, OUT)), at: 2300 }] = &late[..] else {
            panic!("{late:?}")
        };
        let wanted = [
            (Was::Before(TEE), 100),
            (Was::Before(QUEUE), 150),
            (Was::Before(OUT), 200),
            (Was::In(TEE), 50),
            (Was::In(OUT), 100),
            (Was::Held(QUEUE), 700),
        ];
        // All but what it took the source to send it, which is nothing.
        let times: Vec<_> = way.times.iter().map(|(was, cycles)| (*was, *cycles)).collect();
        let times: Vec<_> =
            times.into_iter().filter(|(was, _)| *was != Was::In(SRC) && *was != Was::In(QUEUE)).collect();
        assert_eq!(times, wanted);
        assert_eq!((way.longest(), way.begun, way.head.len), ((Was::Held(QUEUE), 700), (1000, SRC), 71));
        assert_eq!(way.workers, [0, 1]);
        assert!(latency.ways.is_empty() && latency.common.free.load(Relaxed) & 2 != 0);
    }

    #[test]
    fn a_packet_that_stays_inside_is_late_once() {
        let (_alone, mut latency) = latency(1 << 20);
        let mut all = into_queue();
        all.push(observation(1300, 0, QUEUE, What::Held, 71));
        let late = tell(&mut latency, all);
        // The counter of cycles is far beyond these by now.
        let [Lateness { way, end: None, .. }] = &late[..] else { panic!("{late:?}") };
        assert_eq!(way.longest().0, Was::Held(QUEUE));
        assert!(latency.look(true).is_empty());
        // Nor is it reported again when it leaves.
        assert!(tell(&mut latency, vec![observation(u64::MAX >> 20, 1, QUEUE, What::Taken, 71)]).is_empty());
    }

    #[test]
    fn a_packet_that_becomes_part_of_another_ends_and_that_goes_on() {
        let (_alone, mut latency) = latency(1000);
        let mut all = into_queue();
        all.push(observation(1300, 0, QUEUE, What::Held, 71));
        // A stranger under the same number, which is not made of it.
        all.push(observation(1900, 0, QUEUE, sent(OUT, false), 99));
        let whole =
            What::Output { port: 0, to: GraphEnd { element: OUT, port: 0 }, pulled: false, made: true };
        all.push(observation(2200, 1, QUEUE, whole, 73));
        all.push(observation(2200, 1, QUEUE, What::Replaced, 71));
        all.push(observation(2300, 1, OUT, What::Taken, 73));
        let late = tell(&mut latency, all);
        let ends: Vec<_> = late.iter().map(|late| (late.cycles, late.end, late.way.longest())).collect();
        let held = (Was::Held(QUEUE), 900);
        assert_eq!(
            ends,
            [(1200, Some((What::Replaced, QUEUE)), held), (1300, Some((What::Taken, OUT)), held)]
        );
        assert!(latency.ways.is_empty() && latency.common.free.load(Relaxed) & 2 != 0);
    }

    #[test]
    fn who_was_not_picked_is_somebody_else() {
        let (_alone, mut latency) = latency(1 << 60);
        let strangers = vec![
            // Held since an earlier time under the same number.
            observation(1400, 1, QUEUE, sent(OUT, true), 99),
            observation(1500, 1, OUT, What::Input { port: 0 }, 99),
            observation(1600, 1, OUT, What::Taken, 99),
        ];
        let mut all = into_queue();
        all.push(observation(1300, 0, QUEUE, What::Held, 71));
        all.extend(strangers);
        assert!(tell(&mut latency, all).is_empty());
        assert_eq!(latency.ways[&1].keys().collect::<Vec<_>>(), [&71]);
        // Of whom something was not seen, nothing is said any more.
        latency.common.unclear.store(2, Relaxed);
        latency.bound = 0;
        assert!(latency.look(true).is_empty() && latency.ways.is_empty());
        latency.common.free.fetch_and(!2, Relaxed);
        assert!(tell(&mut latency, into_queue()).len() == 2);
        latency.forget();
        assert_eq!(latency.common.free.load(Relaxed), latency.common.numbers.mine());
    }
}
