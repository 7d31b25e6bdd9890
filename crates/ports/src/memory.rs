// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that live in this process: named wires, an endless replay, a sink.
//!
//! A *wire* joins ends. What one end sends, every other end receives; with two ends that is a cable, with more a hub.
//! A wire's ends share nothing but bounded rings, and a full ring loses the packet and counts it, as a cable into a
//! slow receiver does. A receiver that sleeps is woken through an event descriptor, which costs the sender one load
//! while the receiver polls.
//!
//! [`Replay`] delivers a rotation of prepared packets as fast as it is asked; what is sent to it is counted and
//! freed. It measures a configuration without any device.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use crossbeam_utils::CachePadded;
use packet::port::{Device, Error, Info, QueueStats, RxQueue, TxQueue};
use packet::{Batch, HEADROOM, Packet};
use sync::mutex::lock;
use sync::ring::Ring;

use crate::sys::Counters;

/// Packets that wait at one end of a wire at most, unless asked otherwise.
pub const WIRE_CAPACITY: usize = 1024;
/// Largest payload that in-process devices announce, unless asked otherwise.
const MEMORY_MTU: usize = 1500;

/// A wire: all its ends.
#[derive(Debug)]
pub struct Wire {
    name: String,
    capacity: usize,
    mtu: usize,
    ends: Mutex<Vec<Weak<Inbox>>>,
    /// Changes whenever `ends` does.
    version: AtomicU64,
}

/// What waits to be received at one end.
struct Inbox {
    ring: Ring<Packet>,
    /// The receiver found nothing and may sleep.
    armed: AtomicBool,
    event: OwnedFd,
    overflow: AtomicU64,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox({} waiting)", self.ring.len())
    }
}

impl Inbox {
    fn new(capacity: usize) -> std::io::Result<Inbox> {
        // SAFETY: touches no memory of ours; the descriptor is fresh and ours alone.
        let event = unsafe {
            let fd = crate::sys::check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Inbox {
            ring: Ring::new(capacity),
            armed: AtomicBool::new(false),
            event,
            overflow: AtomicU64::new(0),
        })
    }

    /// Puts packets in as far as there is room; returns how many it took and drops the rest.
    fn put(&self, packets: &mut Batch) -> usize {
        let wanted = packets.len();
        let taken = self.ring.push_from(packets);
        if taken < wanted {
            self.overflow.fetch_add((wanted - taken) as u64, Ordering::Relaxed);
            packets.free_all();
        }
        // Pairs with the fence in `take`: either we see `armed`, or the receiver sees the packets.
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            let one = 1u64;
            // SAFETY: reads the eight bytes of `one`.
            unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
        taken
    }

    /// Takes up to `max` packets; arms the event when there are none.
    fn take(&self, max: usize, mut each: impl FnMut(Packet)) -> usize {
        let n = self.ring.pop_many(max, &mut each);
        if n > 0 {
            return n;
        }
        if !self.armed.load(Ordering::Relaxed) {
            let mut count = 0u64;
            // All events until now announced packets that have been taken.
            // SAFETY: writes the eight bytes of `count`.
            unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
            self.armed.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        self.ring.pop_many(max, each)
    }
}

impl Wire {
    /// A wire of its own, known to nobody by name.
    pub fn new(name: &str, capacity: usize) -> Arc<Wire> {
        Wire::with_mtu(name, capacity, MEMORY_MTU)
    }

    /// The same, with a largest payload of so many bytes.
    pub fn with_mtu(name: &str, capacity: usize, mtu: usize) -> Arc<Wire> {
        Arc::new(Wire {
            name: name.to_owned(),
            capacity: capacity.max(1),
            mtu,
            ends: Mutex::default(),
            version: AtomicU64::new(1),
        })
    }

    /// The process's wire of this name, made on first use. A wire lives as long as somebody holds it or an end.
    pub fn named(name: &str) -> Arc<Wire> {
        static WIRES: LazyLock<Mutex<HashMap<String, Weak<Wire>>>> = LazyLock::new(Mutex::default);
        let mut wires = lock(&WIRES);
        if let Some(wire) = wires.get(name).and_then(Weak::upgrade) {
            return wire;
        }
        wires.retain(|_, wire| wire.strong_count() > 0);
        let wire = Wire::new(name, WIRE_CAPACITY);
        wires.insert(name.to_owned(), Arc::downgrade(&wire));
        wire
    }

    /// Attaches a new end.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn attach(self: &Arc<Wire>) -> Result<End, Error> {
        let inbox = Inbox::new(self.capacity).map(Arc::new).map_err(|e| {
            Error::new(&self.name, format!("cannot make an event descriptor: {e}"), "raise `ulimit -n`")
        })?;
        lock(&self.ends).push(Arc::downgrade(&inbox));
        self.version.fetch_add(1, Ordering::Release);
        let place = Arc::new(Place { wire: self.clone(), inbox });
        Ok(End { place, sender: Mutex::new(Peers::default()) })
    }

    fn peers_of(&self, me: &Arc<Inbox>) -> Vec<Arc<Inbox>> {
        let mut ends = lock(&self.ends);
        ends.retain(|end| end.strong_count() > 0);
        ends.iter().filter_map(Weak::upgrade).filter(|end| !Arc::ptr_eq(end, me)).collect()
    }
}

/// An end's place on its wire, left when nobody holds it any more.
#[derive(Debug)]
struct Place {
    wire: Arc<Wire>,
    inbox: Arc<Inbox>,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.wire.ends).retain(|end| !std::ptr::eq(end.as_ptr(), Arc::as_ptr(&self.inbox)));
        self.wire.version.fetch_add(1, Ordering::Release);
        // Senders may hold the inbox until they next send; its packets need not wait so long.
        while self.inbox.ring.pop_many(64, drop) > 0 {}
    }
}

/// The other ends, as last looked up.
#[derive(Debug, Default)]
struct Peers {
    version: u64,
    inboxes: Vec<Arc<Inbox>>,
}

impl Peers {
    /// Sends a batch to all peers. Returns how many packets reached one at least.
    fn send(&mut self, from: &Place, packets: &mut Batch) -> usize {
        let version = from.wire.version.load(Ordering::Acquire);
        if self.version != version {
            *self = Peers { version, inboxes: from.wire.peers_of(&from.inbox) };
        }
        let Some((last, others)) = self.inboxes.split_last() else {
            packets.free_all();
            return 0;
        };
        let mut reached = 0;
        for peer in others {
            let mut copies: Batch = packets.iter_mut().filter_map(Packet::share).collect();
            reached = reached.max(peer.put(&mut copies));
        }
        reached.max(last.put(packets))
    }
}

/// One end of a wire, for tests and for programs that feed a router by hand. Any thread may use it.
#[derive(Debug)]
pub struct End {
    place: Arc<Place>,
    sender: Mutex<Peers>,
}

impl End {
    /// Sends packets to the other ends. Returns how many arrived; the rest met full rings and is gone.
    pub fn send(&self, packets: &mut Batch) -> usize {
        lock(&self.sender).send(&self.place, packets)
    }

    /// Sends one frame of these bytes; returns whether it arrived.
    pub fn inject(&self, bytes: &[u8]) -> bool {
        match Packet::copy_of(bytes) {
            Some(packet) => self.send(&mut Batch::of(packet)) == 1,
            None => false,
        }
    }

    /// Receives what has arrived by now.
    pub fn collect(&self) -> Batch {
        let mut batch = Batch::new();
        while self.place.inbox.take(256, |p| batch.push(p)) > 0 {}
        batch
    }

    /// Receives what has arrived by now, as bytes.
    pub fn collect_bytes(&self) -> Vec<Vec<u8>> {
        self.collect().iter().map(|p| p.data().to_vec()).collect()
    }

    /// Packets lost because this end was full.
    pub fn overflow(&self) -> u64 {
        self.place.inbox.overflow.load(Ordering::Relaxed)
    }

    /// Descriptor that becomes readable when something arrives after a [`End::collect`] that found nothing more.
    pub fn fd(&self) -> RawFd {
        self.place.inbox.event.as_raw_fd()
    }
}

/// A wire's end as a device with one queue each way.
#[derive(Debug)]
pub struct MemoryPort {
    me: Weak<MemoryPort>,
    name: String,
    place: Arc<Place>,
    rx_taken: Arc<AtomicBool>,
    tx_taken: Arc<AtomicBool>,
}

impl MemoryPort {
    /// A device at a new end of `wire`.
    ///
    /// # Errors
    /// As [`Wire::attach`].
    pub fn new(name: &str, wire: &Arc<Wire>) -> Result<Arc<MemoryPort>, Error> {
        let End { place, .. } = wire.attach()?;
        Ok(Arc::new_cyclic(|me| MemoryPort {
            me: me.clone(),
            name: name.to_owned(),
            place,
            rx_taken: Arc::default(),
            tx_taken: Arc::default(),
        }))
    }
}

/// Marks a queue as taken for as long as it lives, and keeps its device open: opening a device of this name
/// meanwhile gives the same one, also when nobody but its queues is left.
pub(crate) struct Taken {
    flag: Arc<AtomicBool>,
    _device: Option<Arc<dyn Device>>,
}

impl Taken {
    /// Takes queue `queue` of `device`, which must be `0` and free.
    pub(crate) fn only(device: &str, flag: &Arc<AtomicBool>, queue: usize) -> Result<Taken, Error> {
        if queue != 0 {
            return Err(Error::new(device, format!("there is no queue {queue}"), "it has queue 0 only"));
        }
        Taken::take(device, flag, queue)
    }

    pub(crate) fn take(device: &str, flag: &Arc<AtomicBool>, queue: usize) -> Result<Taken, Error> {
        if flag.swap(true, Ordering::AcqRel) {
            let mend = "give each element its own queue (QUEUE n), or join them before the device";
            return Err(Error::new(device, format!("queue {queue} is taken by another element"), mend));
        }
        Ok(Taken { flag: flag.clone(), _device: None })
    }
}

impl Taken {
    /// Keeps `device` open as well.
    pub(crate) fn keeping<D: Device + 'static>(mut self, device: &Weak<D>) -> Taken {
        self._device = device.upgrade().map(|device| device as _);
        self
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
    }
}

impl Device for MemoryPort {
    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            driver: format!("memory wire {:?}", self.place.wire.name),
            mac: None,
            mtu: self.place.wire.mtu,
            rx_queues: 1,
            tx_queues: 1,
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = Taken::only(&self.name, &self.rx_taken, queue)?.keeping(&self.me);
        Ok(Box::new(MemoryRx { place: self.place.clone(), counters: Counters::default(), _taken: taken }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let taken = Taken::only(&self.name, &self.tx_taken, queue)?.keeping(&self.me);
        Ok(Box::new(MemoryTx {
            place: self.place.clone(),
            peers: Peers::default(),
            counters: Counters::default(),
            _taken: taken,
        }))
    }
}

struct MemoryRx {
    place: Arc<Place>,
    counters: Counters,
    _taken: Taken,
}

impl RxQueue for MemoryRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let mut bytes = 0;
        let n = self.place.inbox.take(max, |packet| {
            bytes += packet.len();
            batch.push(packet);
        });
        self.counters.moved(n, bytes);
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.place.inbox.event.as_raw_fd())
    }

    fn stats(&self) -> QueueStats {
        QueueStats { missed: self.place.inbox.overflow.load(Ordering::Relaxed), ..self.counters.read() }
    }
}

struct MemoryTx {
    place: Arc<Place>,
    peers: Peers,
    counters: Counters,
    _taken: Taken,
}

impl TxQueue for MemoryTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = batch.len();
        let bytes = batch.iter().map(Packet::len).sum();
        self.peers.send(&self.place, batch);
        self.counters.moved(n, bytes);
        n
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

/// A device that receives an endless rotation of prepared packets and counts what it is to send.
///
/// Each receive queue begins at another place of the rotation. Headers and payload are copied into fresh frames, as a
/// network card would write them.
#[derive(Debug)]
pub struct Replay {
    name: String,
    templates: Arc<Templates>,
    limit: u64,
    queues: Vec<ReplayQueue>,
}

/// What the device knows of a queue pair.
#[derive(Debug, Default)]
struct ReplayQueue {
    rx_taken: Arc<AtomicBool>,
    tx_taken: Arc<AtomicBool>,
    /// Packets sent, on a line of its own: each queue's worker writes it for every batch.
    sent: Arc<CachePadded<AtomicUsize>>,
}

/// Prepared packets, each in its own run of 64-byte lines.
#[derive(Clone, Debug)]
struct Templates {
    lines: Vec<Line>,
    /// First line and length of each packet.
    places: Vec<(u32, u32)>,
    /// Length of all packets, when it is the same and fits one line.
    one_line_len: Option<usize>,
    /// The first bytes of all of them, joined bit by bit.
    first_bytes: u8,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u8; 64]);

impl Templates {
    fn new(packets: &[Vec<u8>]) -> Templates {
        let (mut lines, mut places) = (Vec::new(), Vec::new());
        for packet in packets {
            places.push((lines.len() as u32, packet.len() as u32));
            for chunk in packet.chunks(64) {
                let mut line = Line([0; 64]);
                line.0[..chunk.len()].copy_from_slice(chunk);
                lines.push(line);
            }
        }
        let first = packets.first().map_or(0, Vec::len);
        let same = (1..=64).contains(&first) && packets.iter().all(|p| p.len() == first);
        let first_bytes = packets.iter().filter_map(|p| p.first()).fold(0, |seen, first| seen | first);
        Templates { lines, places, one_line_len: same.then_some(first), first_bytes }
    }

    fn bytes(&self, packet: usize) -> impl Iterator<Item = &[u8]> {
        let (first, len) = self.places[packet];
        let lines = &self.lines[first as usize..first as usize + (len as usize).div_ceil(64)];
        lines.iter().enumerate().map(move |(i, line)| &line.0[..(len as usize - i * 64).min(64)])
    }
}

impl Replay {
    /// A device of `queues` queues that delivers `packets` over and over; with a `limit`, that many on each queue.
    ///
    /// # Errors
    /// There are no packets, or one exceeds 64 KiB.
    pub fn new(name: &str, packets: &[Vec<u8>], queues: usize, limit: Option<u64>) -> Result<Replay, Error> {
        if packets.is_empty() || packets.iter().any(|p| p.len() > 1 << 16) {
            let mend = "give at least one packet, each of at most 65536 bytes";
            return Err(Error::new(name, "nothing to replay", mend));
        }
        Ok(Replay {
            name: name.to_owned(),
            templates: Arc::new(Templates::new(packets)),
            limit: limit.unwrap_or(u64::MAX),
            queues: (0..queues.max(1)).map(|_| Default::default()).collect(),
        })
    }

    /// Packets sent to the device so far, over all transmit queues, as they were when last flushed.
    pub fn sent(&self) -> usize {
        self.queues.iter().map(|q| q.sent.load(Ordering::Relaxed)).sum()
    }

    fn queue(&self, queue: usize) -> Result<&ReplayQueue, Error> {
        self.queues.get(queue).ok_or_else(|| {
            let mend = format!("it has queues 0 to {}", self.queues.len() - 1);
            Error::new(&self.name, format!("there is no queue {queue}"), mend)
        })
    }
}

impl Device for Replay {
    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            driver: format!("replay of {} packets, sink", self.templates.places.len()),
            mac: None,
            mtu: MEMORY_MTU,
            rx_queues: self.queues.len(),
            tx_queues: self.queues.len(),
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = Taken::take(&self.name, &self.queue(queue)?.rx_taken, queue)?;
        Ok(Box::new(ReplayRx {
            next: queue * self.templates.places.len() / self.queues.len(),
            // A copy for each queue: its worker reads them all over again for ever, and should find them in its core's own
            // cache and not in another's.
            templates: Arc::new((*self.templates).clone()),
            left: self.limit,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let known = self.queue(queue)?;
        let taken = Taken::take(&self.name, &known.tx_taken, queue)?;
        Ok(Box::new(SinkTx {
            before: known.sent.load(Ordering::Relaxed),
            sent: known.sent.clone(),
            counters: Counters::default(),
            _taken: taken,
        }))
    }
}

struct ReplayRx {
    templates: Arc<Templates>,
    next: usize,
    left: u64,
    counters: Counters,
    _taken: Taken,
}

impl ReplayRx {
    /// The common case: short packets of one length, one copy of a line each.
    #[inline]
    fn receive_lines(&mut self, batch: &mut Batch, max: usize, len: usize, wall_ns: u64) -> usize {
        let lines = &self.templates.lines[..];
        let mut n = 0;
        while n < max {
            let run = &lines[self.next..];
            let run = &run[..run.len().min(max - n)];
            let got = batch.append_lines(HEADROOM, len, wall_ns, run.iter().map(|line| &line.0));
            n += got;
            self.next = if self.next + got == lines.len() { 0 } else { self.next + got };
            if got < run.len() {
                break;
            }
        }
        self.counters.moved(n, n * len);
        n
    }

    fn receive_any(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> usize {
        let (mut n, mut bytes) = (0, 0);
        while n < max {
            let len = self.templates.places[self.next].1 as usize;
            let Some(mut packet) = Packet::alloc(HEADROOM, len) else { break };
            for (to, from) in packet.data_mut().chunks_mut(64).zip(self.templates.bytes(self.next)) {
                to.copy_from_slice(from);
            }
            packet.arrive(wall_ns);
            self.next = (self.next + 1) % self.templates.places.len();
            bytes += len;
            n += 1;
            batch.push(packet);
        }
        self.counters.moved(n, bytes);
        n
    }
}

impl RxQueue for ReplayRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        self.receive_arrived(batch, max, 0).0
    }

    fn receive_arrived(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> (usize, u8) {
        let max = usize::try_from(self.left).map_or(max, |left| max.min(left));
        let n = match self.templates.one_line_len {
            Some(len) => self.receive_lines(batch, max, len, wall_ns),
            None => self.receive_any(batch, max, wall_ns),
        };
        if n < max {
            self.counters.no_memory(1);
        }
        if self.left != u64::MAX {
            self.left -= n as u64;
        }
        // Those of the whole rotation: a caller that finds a group among them looks for itself.
        (n, self.templates.first_bytes)
    }

    fn ended(&self) -> bool {
        self.left == 0
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

struct SinkTx {
    sent: Arc<CachePadded<AtomicUsize>>,
    /// What the queue had sent when it was taken.
    before: usize,
    counters: Counters,
    _taken: Taken,
}

impl TxQueue for SinkTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = batch.len();
        let bytes = batch.free_counting();
        self.counters.moved(n, bytes);
        n
    }

    fn flush(&mut self) {
        self.sent.store(self.before + self.counters.read().packets as usize, Ordering::Relaxed);
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

impl Drop for SinkTx {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::alone;

    fn readable(fd: RawFd) -> bool {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn a_wire_carries_packets_to_every_other_end() {
        alone(|| {
            let wire = Wire::new("hub", 8);
            let (a, b, c) = (wire.attach().unwrap(), wire.attach().unwrap(), wire.attach().unwrap());
            assert!(a.inject(b"one"));
            assert!(b.inject(b"two"));
            assert_eq!(a.collect_bytes(), [b"two"]);
            assert_eq!(b.collect_bytes(), [b"one"]);
            assert_eq!(c.collect_bytes(), [b"one", b"two"]);
        });
    }

    #[test]
    fn a_full_end_loses_and_counts_and_a_lone_end_swallows() {
        alone(|| {
            let wire = Wire::new("full", 2);
            let a = wire.attach().unwrap();
            assert!(!a.inject(b"nobody"));
            let b = wire.attach().unwrap();
            assert_eq!([a.inject(b"1"), a.inject(b"2"), a.inject(b"3")], [true, true, false]);
            assert_eq!((b.overflow(), b.collect_bytes().len()), (1, 2));
            drop(b);
            assert!(!a.inject(b"gone"));
        });
    }

    #[test]
    fn devices_on_a_named_wire_exchange_packets_and_wake() {
        alone(|| {
            let wire = Wire::named("test-devices");
            let (left, right) = (
                MemoryPort::new("l", &wire).unwrap(),
                MemoryPort::new("r", &Wire::named("test-devices")).unwrap(),
            );
            let (mut tx, mut rx) = (left.tx(0).unwrap(), right.rx(0).unwrap());
            assert!(right.rx(0).err().unwrap().what.contains("taken"));
            assert!(right.rx(1).err().unwrap().what.contains("no queue 1"));
            let fd = rx.fd().unwrap();
            for round in 0..3u8 {
                let mut batch = Batch::new();
                assert_eq!(rx.receive(&mut batch, 32), 0);
                assert!(!readable(fd), "round {round}");
                assert_eq!(tx.transmit(&mut Batch::of(Packet::copy_of(&[round; 60]).unwrap())), 1);
                assert!(readable(fd), "round {round}");
                assert_eq!(rx.receive(&mut batch, 32), 1);
                assert_eq!(batch[0].data(), [round; 60]);
            }
            assert_eq!(tx.stats(), QueueStats { packets: 3, bytes: 180, ..Default::default() });
            assert_eq!(rx.stats(), tx.stats());
            drop(rx);
            assert!(right.rx(0).is_ok());
        });
    }

    #[test]
    fn replay_rotates_through_packets_of_any_length_and_ends_at_its_limit() {
        alone(|| {
            let cases: [Vec<Vec<u8>>; 3] = [
                vec![vec![1; 64], vec![2; 64], vec![3; 64]],
                vec![vec![1; 60], vec![2; 60]],
                vec![vec![1; 60], vec![2; 1514], vec![3; 65], vec![4; 9000]],
            ];
            for packets in &cases {
                let device = Replay::new("replay", packets, 1, Some(10)).unwrap();
                let (mut rx, mut tx) = (device.rx(0).unwrap(), device.tx(0).unwrap());
                let mut batch = Batch::new();
                assert_eq!((rx.receive(&mut batch, 7), rx.ended()), (7, false));
                assert_eq!((rx.receive(&mut batch, 7), rx.ended()), (3, true));
                for (i, packet) in batch.iter().enumerate() {
                    assert_eq!(packet.data(), packets[i % packets.len()]);
                    assert!(packet.headroom() >= HEADROOM);
                }
                assert_eq!((tx.transmit(&mut batch), batch.len()), (10, 0));
                drop(tx);
                assert_eq!(device.sent(), 10);
            }
            assert!(Replay::new("none", &[], 1, None).is_err());
        });
    }

    #[test]
    fn every_frame_comes_back() {
        alone(|| {
            let before = packet::memory().usage().in_use();
            let wire = Wire::new("conserve", 4);
            let (a, b) = (wire.attach().unwrap(), wire.attach().unwrap());
            for _ in 0..9 {
                a.inject(&[7; 100]);
            }
            drop((a, b, wire));
            assert_eq!(packet::memory().usage().in_use(), before);
        });
    }
}
