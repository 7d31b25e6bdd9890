// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving half of an AF_XDP queue.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::xdp_statistics;
use packet::port::{Error, QueueStats, RxQueue};
use packet::{Batch, HEADROOM, Packet, PacketType, anno};
use sync::mutex::lock;

use super::socket::RxHalf;
use super::{KERNEL_HEADROOM, Shared};
use crate::af_packet::older::{Reader, left_for};
use crate::aliases::Aliases;
use crate::link::Pace;
use crate::memory::Taken;
use crate::offload::{self, Unsplit};
use crate::partial::{self, Front};
use crate::sys::{self, Aside, Counters, Doorbell};

/// Entries that make a refill worth its store.
const REFILL: u32 = 64;

/// VLAN tags that do not count as payload: two.
const STACKED_TAGS: usize = 8;

// SAFETY: six integers.
unsafe impl sys::Plain for xdp_statistics {}

/// The half on another interface, and the MTU if that one's senders leave checksums unfinished.
type Reopened = (RxHalf, Option<usize>);

/// The receive queue.
pub(super) struct XdpRx {
    shared: Arc<Shared>,
    queue: usize,
    /// `None` while the interface is gone.
    half: Option<RxHalf>,
    doorbell: Doorbell,
    /// Packets from before this process, which are delivered first.
    older: Option<Reader>,
    /// Pieces of a frame whose end has not come yet.
    pieces: Batch,
    mac: [u8; 6],
    address_pace: Pace,
    snaplen: usize,
    /// Frames may come with checksums unfinished; and the MTU, beyond which a frame must have been joined.
    unfinished: Option<usize>,
    busy_poll: bool,
    aside: Aside<Option<Reopened>>,
    pace: Pace,
    counters: Counters,
    /// Drops that former sockets of this queue counted.
    missed_before: AtomicU64,
    _taken: Taken,
}

impl XdpRx {
    pub(super) fn open(shared: Arc<Shared>, queue: usize, taken: Taken) -> Result<XdpRx, Error> {
        let half = shared.take_rx(queue).map_err(|e| shared.explain(&e))?;
        let mac = shared.watch.interfaces.hardware(shared.watch.name()).map_or([0; 6], |(mac, _)| mac);
        let doorbell = Doorbell::new().map_err(|e| shared.explain(&e))?;
        if let Some(half) = &half {
            doorbell.listen(half.core.fd()).map_err(|e| shared.explain(&e))?;
        }
        let snaplen = lock(&shared.options).snaplen;
        let mut rx = XdpRx {
            queue,
            older: None,
            half,
            doorbell,
            pieces: Batch::new(),
            mac,
            address_pace: Pace::default(),
            snaplen,
            unfinished: shared.unfinished(),
            busy_poll: shared.setup.busy_poll_us.is_some(),
            aside: Aside::default(),
            pace: Pace::default(),
            counters: Counters::default(),
            missed_before: AtomicU64::new(0),
            _taken: taken,
            shared,
        };
        rx.refill();
        let exposed = rx.half.as_ref().map_or(Ok(()), |half| rx.shared.expose(queue, half));
        exposed.map_err(|e| rx.shared.explain(&e))?;
        let watch = &rx.shared.watch;
        if let Some(keeper) = &rx.shared.keeper {
            rx.older = left_for(&**keeper, watch.name(), watch.bound(), &rx.doorbell);
        }
        Ok(rx)
    }

    /// Keeps the kernel supplied with empty frames.
    fn refill(&mut self) {
        let Some(half) = &mut self.half else { return };
        let wanted = half.fill.free(REFILL);
        if wanted < REFILL {
            return;
        }
        let (fill, lent, shape) = (&mut half.fill, &mut half.lent, &self.shared.setup.shape);
        let got = Packet::alloc_bulk(wanted as usize, 0, 0, |packet| {
            if let Ok(index) = packet.into_frame() {
                lent.lend(index);
                fill.put(shape.address(index));
            }
        });
        half.fill.submit();
        if got < wanted as usize {
            self.counters.no_memory(1);
        }
    }

    /// Looks whether the interface is still there, and moves to its successor if it is not.
    #[cold]
    fn look(&mut self) {
        if let Some(half) = &self.half
            && !self.shared.stale(&half.core)
        {
            return;
        }
        self.missed_before.store(self.missed(), Ordering::Relaxed);
        self.pieces.free_all();
        if self.half.is_none() && !self.aside.is_busy() && self.shared.watch.index().is_none() {
            return;
        }
        let (shared, queue, old) = (self.shared.clone(), self.queue, self.half.take());
        let reopen = move || {
            drop(old);
            shared.take_rx(queue).ok().flatten().map(|half| (half, shared.unfinished()))
        };
        if let Some((half, unfinished)) = self.aside.look(reopen).flatten()
            && self.doorbell.listen(half.core.fd()).is_ok()
        {
            self.half = Some(half);
            let name = self.shared.watch.name();
            self.mac = self.shared.watch.interfaces.hardware(name).map_or(self.mac, |(mac, _)| mac);
            self.unfinished = unfinished;
            self.refill();
            if let Some(half) = &self.half
                && self.shared.expose(self.queue, half).is_err()
            {
                self.counters.errors(1);
            }
        }
    }

    /// Completes what senders left to hardware in the packets from `begin` on; returns how many there are now.
    fn complete(&mut self, batch: &mut Batch, begin: usize, mtu: usize) -> usize {
        let mut completed = 0;
        let longest = mtu + offload::ETHERNET + 4;
        let mut joined = false;
        for packet in &mut batch[begin..] {
            completed += usize::from(partial::complete(packet.data_mut(), Front::Ethernet));
            joined |= packet.len() > longest;
        }
        if completed > 0 {
            self.counters.completed(completed);
        }
        if joined {
            self.split(batch, begin, mtu);
        }
        batch.len() - begin
    }

    /// Takes apart what is longer than a frame of this interface can be, stacked tags included.
    #[cold]
    fn split(&mut self, batch: &mut Batch, begin: usize, mtu: usize) {
        let watch = &self.shared.watch;
        let mtu = watch.interfaces.mtu(watch.name()).unwrap_or(mtu);
        self.unfinished = Some(mtu);
        let mut rest: Batch = batch.drain(begin..).collect();
        for packet in rest.drain(..) {
            let frame = packet.data();
            if frame.len() <= mtu + offload::ETHERNET + STACKED_TAGS {
                batch.push(packet);
                continue;
            }
            let headroom = HEADROOM.max(packet.headroom());
            let split = offload::joined_tcp(frame, mtu)
                .map(|what| offload::split(frame, offload::ETHERNET, &what, headroom, |p| batch.push(p)));
            match split {
                // The frame was one of them.
                Some(Ok(segments)) => self.counters.completed(segments.saturating_sub(1)),
                Some(Err(Unsplit::NoMemory)) => self.counters.no_memory(1),
                // Of other protocols nobody can say where the parts end.
                Some(Err(Unsplit::Unknown)) | None => batch.push(packet),
            }
        }
    }

    /// Frames for others may be for us since the interface got another address.
    #[cold]
    fn look_at_address(&mut self, packets: &mut [Packet]) {
        let watch = &self.shared.watch;
        let mac = watch.interfaces.hardware(watch.name()).map_or(self.mac, |(mac, _)| mac);
        if mac != self.mac {
            self.mac = mac;
            packets.iter_mut().for_each(|p| p.set_packet_type(addressed(p, &mac)));
        }
    }

    fn missed(&self) -> u64 {
        let before = self.missed_before.load(Ordering::Relaxed);
        let Some(half) = &self.half else { return before };
        let statistics =
            sys::get_option::<xdp_statistics>(half.core.fd(), libc::SOL_XDP, libc::XDP_STATISTICS);
        before + statistics.map_or(0, |s| s.rx_dropped + s.rx_ring_full)
    }
}

impl RxQueue for XdpRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        if let Some(older) = &mut self.older {
            let before = batch.len();
            let shape = (self.snaplen, HEADROOM.max(self.shared.setup.headroom as usize + KERNEL_HEADROOM));
            let aliases = self.shared.aliases.get().map(|aliases| &**aliases);
            if older.take_for(shape, aliases, &self.counters, batch, max) {
                older.end(&self.doorbell);
                self.older = None;
            }
            let n = batch.len() - before;
            self.counters.moved(n, batch[before..].iter().map(Packet::len).sum());
            return n;
        }
        let before = batch.len();
        let Some(half) = &mut self.half else {
            if self.pace.due() {
                self.look();
            }
            return 0;
        };
        if self.busy_poll {
            half.core.wake_rx();
        }
        let ready = half.rx.ready(max.min(1 << 20) as u32).min(max as u32);
        let mut bad = 0;
        for _ in 0..ready {
            let descriptor = half.rx.take();
            let (index, offset) = self.shared.setup.shape.place(descriptor.addr);
            let Some(packet) = half.lent.back(index, offset, descriptor.len as usize) else {
                bad += 1;
                continue;
            };
            let more = descriptor.options & libc::XDP_PKT_CONTD != 0;
            if !more && self.pieces.is_empty() {
                batch.push(packet);
                continue;
            }
            self.pieces.push(packet);
            if !more {
                match join(&self.pieces) {
                    Some(whole) => batch.push(whole),
                    None => self.counters.no_memory(1),
                }
                self.pieces.free_all();
            }
        }
        if ready > 0 {
            half.rx.release();
        } else if half.fill.needs_wakeup() {
            half.core.wake_rx();
        }
        self.refill();
        let mut n = batch.len() - before;
        if let (Some(mtu), true) = (self.unfinished, n > 0) {
            n = self.complete(batch, before, mtu);
        }
        if n == 0 {
            if self.pace.due() {
                self.look();
            }
            return 0;
        }
        let (mut bytes, mut strangers) = (0, false);
        for packet in &mut batch[before..] {
            bytes += packet.len();
            strangers |= finish(packet, &self.mac, self.snaplen) == PacketType::OtherHost;
        }
        if strangers {
            if let Some(aliases) = self.shared.aliases.get() {
                admit(&mut batch[before..], aliases);
            }
            if self.address_pace.overdue() {
                self.look_at_address(&mut batch[before..]);
            }
        }
        self.counters.moved(n, bytes);
        if bad > 0 {
            self.counters.errors(bad);
        }
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.doorbell.fd())
    }

    fn fault(&self) -> Option<Error> {
        self.shared.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        QueueStats { missed: self.missed(), ..self.counters.read() }
    }
}

impl Drop for XdpRx {
    fn drop(&mut self) {
        if let Some(half) = self.half.take().or_else(|| self.aside.finish().flatten().map(|(half, _)| half)) {
            self.shared.park_rx(self.queue, half);
        }
    }
}

/// Frames for further addresses of the interface are for us, too.
fn admit(packets: &mut [Packet], aliases: &Aliases) {
    for packet in packets.iter_mut().filter(|p| p.packet_type() == PacketType::OtherHost) {
        if packet.data().first_chunk().is_some_and(|to| aliases.has(to)) {
            packet.set_packet_type(PacketType::Host);
        }
    }
}

/// Joins the pieces of a frame.
fn join(pieces: &[Packet]) -> Option<Packet> {
    let mut whole = Packet::alloc(HEADROOM, pieces.iter().map(Packet::len).sum())?;
    let mut rest = whole.data_mut();
    for piece in pieces {
        let (here, after) = rest.split_at_mut(piece.len());
        here.copy_from_slice(piece.data());
        rest = after;
    }
    Some(whole)
}

/// Returns how a frame was addressed, and cuts off what is too much.
#[inline]
fn finish(packet: &mut Packet, mac: &[u8; 6], snaplen: usize) -> PacketType {
    let kind = addressed(packet, mac);
    if kind != PacketType::Host {
        packet.set_packet_type(kind);
    }
    if snaplen != 0 && packet.len() > snaplen {
        let excess = packet.len() - snaplen;
        packet.trim(excess);
        packet.set_anno_u32(anno::EXTRA_LENGTH, excess as u32);
    }
    kind
}

#[inline]
fn addressed(packet: &Packet, mac: &[u8; 6]) -> PacketType {
    match packet.data().first_chunk::<6>() {
        Some(to) if to == mac => PacketType::Host,
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some([first, ..]) if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::OtherHost,
    }
}
