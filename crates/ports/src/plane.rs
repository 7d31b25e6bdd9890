// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet channels to other planes, as devices ([`icc`]): what is sent here comes out where another process receives from the same endpoint.
//!
//! A queue attaches when it is taken. It attaches again by itself when the server of the domain was replaced, or the channel was damaged. A helper
//! thread does that, because it waits for answers.
//!
//! When the server was replaced, the sender moves to the new one's memory and gives the old one up. The receiver empties the old one first.

use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use icc::{
    AttachError, ChannelError, Domain, Endpoint, LentMemory, Node, NodeId, Note, PacketReceiver,
    PacketSender, Role, ServeError,
};
use packet::port::{Device, Error, Info, Link, QueueStats, RxQueue, Spec, TxQueue, method};
use packet::{Batch, HEADROOM, Packet, PacketType};

use crate::memory::Taken;
use crate::sys::{Aside, Counters, coarse_ms};

/// Milliseconds between looks whether the domain is still served.
const LOOK_EVERY_MS: u64 = 100;
/// Bytes of a packet that is rather lent than copied, at least: a shorter one is copied sooner than its frame comes back.
const LEND_BYTES: usize = 256;
/// Time between looks while nothing comes or goes: the server of the domain may have been replaced.
const TEND_EVERY: Duration = Duration::from_millis(200);
/// Empty looks before the receiver announces that it sleeps: after that each packet that comes costs the sender a system call.
const AWAKE: u32 = 500;

/// The domain that this router is in.
#[derive(Debug)]
pub struct Planes {
    place: PathBuf,
    open: Mutex<Vec<Weak<PlaneDevice>>>,
    /// If this process serves it.
    _served: Option<Domain>,
}

impl Planes {
    /// The domain that somebody serves at a path.
    pub fn at(place: &Path) -> Arc<Planes> {
        Arc::new(Planes { place: place.to_owned(), open: Mutex::default(), _served: None })
    }

    /// Serves a domain at a path.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(place: &Path, endpoints: &[Endpoint]) -> Result<Arc<Planes>, ServeError> {
        let served = Domain::serve(NodeId::new(1, std::process::id()), endpoints, Some(place))?;
        Ok(Arc::new(Planes { place: place.to_owned(), open: Mutex::default(), _served: Some(served) }))
    }

    /// A connection to who serves the domain.
    ///
    /// # Errors
    /// [`AttachError::Unreachable`].
    pub fn node(&self) -> Result<Node, AttachError> {
        Node::connect(&self.place, NodeId::new(0, std::process::id()))
    }

    /// Opens one direction of a channel.
    pub(crate) fn open(self: &Arc<Planes>, spec: &Spec) -> Arc<PlaneDevice> {
        // Each direction is a device of its own, with its own link.
        let sends = spec.settings.iter().any(|(key, _)| key == method::PLANE_SENDS);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|device| device.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade);
        if let Some(device) = known.into_iter().find(|d| d.endpoint == spec.device && d.sends == sends) {
            return device;
        }
        let device = Arc::new_cyclic(|me| PlaneDevice {
            me: me.clone(),
            planes: self.clone(),
            endpoint: spec.device.clone(),
            sends,
            taken: Arc::default(),
            absent: Arc::default(),
        });
        open.push(Arc::downgrade(&device));
        device
    }
}

/// Why a channel cannot be opened where there is no domain.
pub(crate) fn no_domain(endpoint: &str) -> Error {
    let mend = format!(
        "start it by `junctor up` with a table [channels.{endpoint}] in the deployment, or give --icc SOCKET"
    );
    Error::new(endpoint, "this router is in no domain, so it has no channels to other planes", mend)
}

/// One direction of a channel.
#[derive(Debug)]
pub struct PlaneDevice {
    me: Weak<PlaneDevice>,
    planes: Arc<Planes>,
    endpoint: String,
    sends: bool,
    taken: Arc<AtomicBool>,
    /// Nobody is at the other end of a sending direction.
    absent: Arc<AtomicBool>,
}

impl PlaneDevice {
    fn queue<T>(
        &self,
        queue: usize,
        attach: impl FnOnce(&Node, &str) -> Result<T, AttachError>,
    ) -> Result<(Node, T, Taken), Error> {
        let taken = Taken::only(&self.endpoint, &self.taken, queue)?.keeping(&self.me);
        let failed = |why: AttachError| Error::new(&self.endpoint, why, "");
        let node = self.planes.node().map_err(failed)?;
        let end = attach(&node, &self.endpoint).map_err(failed)?;
        Ok((node, end, taken))
    }

    fn tended<T: Send + 'static>(
        &self,
        node: Node,
        attach: fn(&Node, &str) -> Result<T, AttachError>,
    ) -> Tended<T> {
        Tended {
            planes: self.planes.clone(),
            endpoint: self.endpoint.clone(),
            attach,
            node,
            wants: Wants::Nothing,
            aside: Aside::default(),
            next_ms: 0,
            fault: None,
        }
    }
}

impl Device for PlaneDevice {
    fn info(&self) -> Info {
        Info {
            name: self.endpoint.clone(),
            driver: format!("channel in the domain at {}", self.planes.place.display()),
            mac: None,
            mtu: usize::from(u16::MAX),
            rx_queues: usize::from(!self.sends),
            tx_queues: usize::from(self.sends),
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let attach = |node: &Node, endpoint: &str| node.packet_receiver(endpoint);
        let (node, end, taken) = self.queue(queue, attach)?;
        let tended = self.tended(node, attach);
        Ok(Box::new(PlaneRx {
            end,
            old: None,
            idle: 0,
            lost_before: 0,
            tended,
            asked: Aside::default(),
            next_question_ms: 0,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let attach = |node: &Node, endpoint: &str| match packet::memory().file() {
            Some(memory) => node.packet_lender(endpoint, memory),
            None => node.packet_sender(endpoint),
        };
        let (node, end, taken) = self.queue(queue, attach)?;
        let tended = self.tended(node, attach);
        let absent = self.absent.clone();
        let lends = packet::memory().file().is_some();
        let counters = Counters::default();
        Ok(Box::new(PlaneTx { end, lends, absent, gone: false, tended, counters, _taken: taken }))
    }

    fn tells_addressees(&self) -> bool {
        true
    }

    fn tend_every(&self) -> Option<Duration> {
        Some(TEND_EVERY)
    }

    fn link(&self) -> Link {
        if self.absent.load(Ordering::Relaxed) { Link::Down } else { Link::Up }
    }
}

/// What an end needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Nothing,
    /// To attach again.
    Another,
    /// To attach to memory that is made anew.
    Fresh(Role),
}

/// Attaches again where that is needed, on a thread next to the worker.
struct Tended<T> {
    planes: Arc<Planes>,
    endpoint: String,
    attach: fn(&Node, &str) -> Result<T, AttachError>,
    node: Node,
    wants: Wants,
    aside: Aside<Result<(Node, T), AttachError>>,
    next_ms: u64,
    fault: Option<Error>,
}

impl<T: Send + 'static> Tended<T> {
    /// Whether it is time for a look.
    #[inline]
    fn is_due(&self) -> bool {
        coarse_ms() >= self.next_ms
    }

    /// Looks, if it is time; the end that takes the present one's place, if there is one.
    #[inline]
    fn look(&mut self) -> Option<T> {
        if !self.is_due() {
            return None;
        }
        self.next_ms = coarse_ms() + LOOK_EVERY_MS;
        self.look_now()
    }

    #[cold]
    fn look_now(&mut self) -> Option<T> {
        if self.wants == Wants::Nothing && !self.aside.is_busy() {
            if self.node.is_served() {
                return None;
            }
            self.wants = Wants::Another;
        }
        let (planes, endpoint, attach) = (self.planes.clone(), self.endpoint.clone(), self.attach);
        let (wants, known) = (self.wants, self.node.clone());
        let attached = self.aside.look(move || {
            let node = match wants {
                // Who has the seat may have the memory made anew.
                Wants::Fresh(role) if known.is_served() => {
                    known.reset(&endpoint, role)?;
                    known
                }
                _ => planes.node()?,
            };
            let end = attach(&node, &endpoint)?;
            Ok((node, end))
        })?;
        match attached {
            Ok((node, end)) => {
                (self.node, self.wants, self.fault) = (node, Wants::Nothing, None);
                Some(end)
            }
            Err(why) => {
                self.fault = Some(Error::new(&self.endpoint, why, "trying again"));
                None
            }
        }
    }

    /// Notes what an end said; another one comes with a later look.
    #[cold]
    fn failed(&mut self, why: ChannelError, role: Role) {
        if self.wants == Wants::Nothing {
            let broken = why == ChannelError::Broken;
            self.wants = if broken { Wants::Fresh(role) } else { Wants::Another };
            if broken {
                self.fault = Some(Error::new(&self.endpoint, why, "making it anew"));
            }
        }
    }
}

struct PlaneTx {
    end: PacketSender<Lent>,
    /// Packet memory is shared, so packets can be lent from it.
    lends: bool,
    absent: Arc<AtomicBool>,
    /// The receiver has died while nobody served the domain.
    gone: bool,
    tended: Tended<PacketSender<Lent>>,
    counters: Counters,
    _taken: Taken,
}

/// A packet that is lent.
struct Lent(Packet);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.data()
    }
}

fn note_of(packet: &Packet) -> Note {
    Note { timestamp_ns: packet.timestamp_ns(), kind: packet.packet_type() as u8, paint: packet.paint() }
}

impl PlaneTx {
    fn tend(&mut self) {
        let due = self.tended.is_due();
        if let Some(next) = self.tended.look() {
            let mut before = std::mem::replace(&mut self.end, next);
            before.give_up();
            self.gone = false;
        } else if due && self.tended.wants != Wants::Nothing && !self.gone {
            // Nobody frees the seat of a receiver that dies now.
            self.gone = self.end.receiver_is_gone();
        }
        if due && self.lends {
            // Frames come back also while nothing is sent.
            self.room();
        }
    }

    /// Stages copies of packets for which there is room; how many bytes and packets were too long.
    fn copy(&mut self, batch: &mut Batch) -> (usize, usize) {
        let mut refused = (0, 0);
        for packet in batch.iter() {
            if self.end.stage(packet.data(), note_of(packet)).is_err() {
                refused = (refused.0 + packet.len(), refused.1 + 1);
            }
        }
        batch.free_all();
        refused
    }

    /// The same for packets that are lent, where that is worth it.
    fn lend(&mut self, batch: &mut Batch) -> (usize, usize) {
        let (mut refused, memory) = ((0, 0), packet::memory());
        for packet in batch.drain(..) {
            let (note, length) = (note_of(&packet), packet.len());
            let offset = if length < LEND_BYTES { None } else { memory.offset_of(&packet) };
            let taken = match offset {
                Some(offset) => self.end.lend(offset as u64, Lent(packet), note).is_ok(),
                None => self.end.stage(packet.data(), note).is_ok(),
            };
            if !taken {
                refused = (refused.0 + length, refused.1 + 1);
            }
        }
        refused
    }

    /// How many packets there is room for. Nobody to receive is no room: what would wait for a successor would be stale.
    #[inline]
    fn room(&mut self) -> usize {
        let absent = self.gone || !self.end.peer().present;
        if absent != self.absent.load(Ordering::Relaxed) {
            self.absent.store(absent, Ordering::Relaxed);
            if absent {
                self.end.recall(drop);
            }
        }
        if absent {
            return 0;
        }
        match self.end.collect(drop) {
            Ok(room) => room as usize,
            Err(why) => {
                self.tended.failed(why, Role::Sender);
                0
            }
        }
    }
}

impl TxQueue for PlaneTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = self.room().min(batch.len());
        if n == 0 {
            return 0;
        }
        let mut now = batch.split_front(n);
        let before: usize = now.iter().map(Packet::len).sum();
        let (lost, refused) = if self.lends { self.lend(&mut now) } else { self.copy(&mut now) };
        let bytes = before - lost;
        self.end.publish();
        self.counters.errors(refused);
        self.counters.moved(n - refused, bytes);
        n
    }

    fn flush(&mut self) {
        self.tend();
    }

    fn fault(&self) -> Option<Error> {
        self.tended.fault.clone()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

struct PlaneRx {
    end: PacketReceiver,
    /// Memory of a server that has gone, which may still hold packets.
    old: Option<PacketReceiver>,
    /// Looks since the last packet.
    idle: u32,
    /// Packets lost by ends that are gone.
    lost_before: u64,
    tended: Tended<PacketReceiver>,
    /// The answer to the question for a sender's memory.
    asked: Aside<Result<Option<(u64, LentMemory)>, AttachError>>,
    next_question_ms: u64,
    counters: Counters,
    _taken: Taken,
}

fn kind_of(kind: u8) -> PacketType {
    match kind {
        1 => PacketType::Broadcast,
        2 => PacketType::Multicast,
        3 => PacketType::OtherHost,
        4 => PacketType::Outgoing,
        5 => PacketType::Loopback,
        _ => PacketType::Host,
    }
}

/// Takes up to `max` packets; how many, and why there are no more if something is wrong. Packets that cannot be had count among these, so a
/// faulty sender does not hold a worker up.
#[inline]
fn take(
    end: &mut PacketReceiver,
    batch: &mut Batch,
    max: usize,
    counters: &Counters,
) -> (usize, Option<ChannelError>) {
    let (mut n, mut bytes, mut wrong) = (0, 0, None);
    for _ in 0..max {
        let (length, note) = match end.peek() {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(why) => {
                wrong = Some(why);
                break;
            }
        };
        if end.unknown_memory().is_some() {
            break;
        }
        // Without memory packets stay in the channel.
        let Some(mut packet) = Packet::alloc(HEADROOM, length) else {
            counters.no_memory(1);
            break;
        };
        if end.take(packet.data_mut()) {
            packet.set_timestamp_ns(note.timestamp_ns);
            packet.set_packet_type(kind_of(note.kind));
            if note.paint != 0 {
                packet.set_paint(note.paint);
            }
            bytes += length;
            n += 1;
            batch.push(packet);
        }
    }
    end.tell();
    counters.moved(n, bytes);
    (n, wrong)
}

impl PlaneRx {
    /// Has another thread ask for the memory that the next packet is lent from, if it is not known. Until the answer comes, packets wait.
    #[cold]
    fn learn(&mut self, seat: u64) {
        let now = coarse_ms();
        if !self.asked.is_busy() && now < self.next_question_ms {
            return;
        }
        self.next_question_ms = now + LOOK_EVERY_MS;
        let Some(request) = self.end.memory_request() else { return self.end.lacks(seat) };
        match self.asked.look(move || request.ask()) {
            Some(Ok(Some((of, memory)))) => {
                self.end.learn(of, memory);
                if of < seat {
                    self.end.lacks(seat);
                }
            }
            Some(_) => self.end.lacks(seat),
            None => {}
        }
    }

    fn tend(&mut self) {
        if let Some(next) = self.tended.look() {
            self.rouse();
            let before = std::mem::replace(&mut self.end, next);
            self.lost_before += before.lost();
            self.old = Some(before);
        }
    }

    /// What is still in the memory of a server that has gone.
    #[cold]
    fn take_old(&mut self, batch: &mut Batch, max: usize) -> usize {
        let Some(old) = &mut self.old else { return 0 };
        let lost = old.lost();
        let (n, wrong) = take(old, batch, max, &self.counters);
        self.lost_before += old.lost() - lost;
        // A sender that has come to the new memory has left the old one.
        if wrong.is_some() || (n == 0 && self.end.peer().present) {
            self.old = None;
        }
        n
    }

    /// Ends the announcement that this end sleeps.
    fn rouse(&mut self) {
        if self.idle >= AWAKE {
            self.end.awake();
        }
        self.idle = 0;
    }
}

impl RxQueue for PlaneRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        self.tend();
        let old = if self.old.is_some() { self.take_old(batch, max) } else { 0 };
        if old > 0 {
            return old;
        }
        if let Some(seat) = self.end.unknown_memory() {
            self.learn(seat);
        }
        let (n, wrong) = take(&mut self.end, batch, max, &self.counters);
        if let Some(why) = wrong {
            self.tended.failed(why, Role::Receiver);
        }
        if n > 0 {
            self.rouse();
            return n;
        }
        self.idle = self.idle.saturating_add(1);
        if self.idle == AWAKE && self.end.announce() == Ok(false) {
            self.rouse();
        }
        0
    }

    fn fd(&self) -> Option<RawFd> {
        self.end.fd().map(|fd| fd.as_raw_fd())
    }

    fn fault(&self) -> Option<Error> {
        self.tended.fault.clone()
    }

    fn stats(&self) -> QueueStats {
        QueueStats { missed: self.lost_before + self.end.lost(), ..self.counters.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::alone;

    fn channel(name: &str) -> (Arc<Planes>, Arc<PlaneDevice>, Arc<PlaneDevice>) {
        let place = PathBuf::from(format!("@junctor-plane-{name}-{}", std::process::id()));
        let planes = Planes::serve(&place, &[Endpoint::packets(1, "spill", 1000, 8)]).unwrap();
        let spec = |settings| Spec { device: "spill".to_owned(), settings, ..Spec::default() };
        let sends = vec![(method::PLANE_SENDS.to_owned(), "true".to_owned())];
        let (from, to) = (planes.open(&spec(Vec::new())), planes.open(&spec(sends)));
        (planes, from, to)
    }

    fn batch(numbers: std::ops::Range<u8>) -> Batch {
        let packet = |number| {
            let mut packet = Packet::copy_of(&[number; 60]).unwrap();
            packet.set_timestamp_ns(u64::from(number) + 1);
            packet.set_packet_type(PacketType::Multicast);
            packet.set_paint(number);
            packet
        };
        numbers.map(packet).collect()
    }

    /// Receives until there are so many.
    fn receive(rx: &mut dyn RxQueue, count: usize) -> Vec<u8> {
        let mut batch = Batch::new();
        while batch.len() < count {
            rx.receive(&mut batch, 32);
        }
        let of = |packet: &Packet| {
            let number = packet.data()[0];
            assert_eq!((packet.len(), packet.paint()), (60, number));
            assert_eq!(
                (packet.timestamp_ns(), packet.packet_type()),
                (u64::from(number) + 1, PacketType::Multicast)
            );
            number
        };
        batch.iter().map(of).collect()
    }

    #[test]
    fn packets_cross_with_what_goes_with_them() {
        alone(|| {
            let (_planes, from, to) = channel("cross");
            let mut tx = to.tx(0).unwrap();
            let mut waiting = batch(0..4);
            assert_eq!((tx.transmit(&mut waiting), to.link()), (0, Link::Down), "nobody receives");
            let mut rx = from.rx(0).unwrap();
            assert_eq!((tx.transmit(&mut waiting), to.link()), (4, Link::Up));
            assert_eq!(receive(&mut *rx, 4), [0, 1, 2, 3]);
            let mut many = batch(4..20);
            assert_eq!((tx.transmit(&mut many), many.len()), (8, 8), "it holds eight");
            assert_eq!(receive(&mut *rx, 8), [4, 5, 6, 7, 8, 9, 10, 11]);
            let mut long = Batch::of(Packet::copy_of(&[1; 1001]).unwrap());
            assert_eq!((tx.transmit(&mut long), tx.stats().errors), (1, 1));
            assert_eq!((tx.stats().packets, tx.stats().bytes), (12, 720));
            assert_eq!((rx.stats().packets, rx.stats().bytes, rx.stats().missed), (12, 720, 0));
            assert!(to.tx(0).err().unwrap().what.contains("taken"));
        });
    }

    /// A receiver that goes while nobody serves the domain is absent, not slow; the next domain has another one.
    #[test]
    fn a_receiver_that_dies_without_a_server_is_absent() {
        alone(|| {
            let place = PathBuf::from(format!("@junctor-plane-gone-{}", std::process::id()));
            let serve = || {
                let endpoints = [Endpoint::packets(1, "spill", 1000, 8)];
                Domain::serve(NodeId::new(1, 1), &endpoints, Some(&place)).unwrap()
            };
            let domain = serve();
            let sends = vec![(method::PLANE_SENDS.to_owned(), "true".to_owned())];
            let spec = |settings| Spec { device: "spill".to_owned(), settings, ..Spec::default() };
            let (here, there) = (Planes::at(&place), Planes::at(&place));
            let (to, from) = (here.open(&spec(sends)), there.open(&spec(Vec::new())));
            let (mut tx, rx) = (to.tx(0).unwrap(), from.rx(0).unwrap());
            assert_eq!(tx.transmit(&mut batch(0..4)), 4);
            drop(domain);
            // The receiver lives: it is slow at most.
            while tx.fault().is_none() {
                tx.flush();
            }
            assert_eq!((tx.transmit(&mut batch(4..20)), to.link()), (4, Link::Up));
            drop(rx);
            while to.link() == Link::Up {
                tx.flush();
                tx.transmit(&mut batch(0..1));
            }
            let domain = serve();
            let mut rx = from.rx(0).unwrap();
            while tx.transmit(&mut batch(7..8)) == 0 {
                tx.flush();
            }
            assert_eq!((receive(&mut *rx, 1), to.link()), (vec![7], Link::Up));
            drop(domain);
        });
    }

    /// One end finds the channel damaged: it has the memory made anew, and the other end follows.
    #[test]
    fn a_damaged_channel_is_made_anew() {
        alone(|| {
            let (planes, _, to) = channel("anew");
            let device = planes.open(&Spec { device: "spill".to_owned(), ..Spec::default() });
            let attach = |node: &Node, endpoint: &str| node.packet_sender(endpoint);
            let (node, end, taken) = to.queue(0, attach).unwrap();
            let tended = to.tended(node, attach);
            let absent = to.absent.clone();
            let counters = Counters::default();
            let mut tx = PlaneTx { end, lends: false, absent, gone: false, tended, counters, _taken: taken };
            let mut rx = device.rx(0).unwrap();
            for _ in 0..3 {
                tx.tended.failed(ChannelError::Broken, Role::Sender);
                assert!(tx.fault().is_some());
                while tx.fault().is_some() {
                    tx.flush();
                }
                let mut waiting = batch(0..3);
                while tx.transmit(&mut waiting) == 0 {
                    assert_eq!(rx.receive(&mut Batch::new(), 1), 0);
                }
                assert_eq!(receive(&mut *rx, 3), [0, 1, 2]);
            }
        });
    }
}
