// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmitting half of an AF_XDP queue.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use libc::xdp_desc;
use packet::port::{Error, QueueStats, TxQueue};
use packet::{Batch, Packet};

use super::Shared;
use super::socket::TxHalf;
use super::umem::Shape;
use crate::link::Pace;
use crate::memory::Taken;
use crate::sys::{Aside, Counters};

/// Packets that wait for a system call at most, before [`TxQueue::flush`].
const KICK: u32 = 64;

/// The transmit queue.
pub(super) struct XdpTx {
    shared: Arc<Shared>,
    queue: usize,
    /// `None` while the interface is gone.
    half: Option<TxHalf>,
    /// Put into the ring since the last system call.
    quiet: u32,
    /// The kernel has left some of it there: its own queues are full, and nothing but another call makes it go on.
    lags: bool,
    /// Bytes of the longest frame that the interface carries, link header and one VLAN tag included.
    longest: usize,
    /// The link is down: what is offered is lost, as on a wire without carrier.
    down: bool,
    /// Frames that came back, freed in one go.
    done: Batch,
    aside: Aside<Option<TxHalf>>,
    pace: Pace,
    counters: Counters,
    _taken: Taken,
}

/// System calls at once, so that no port holds its worker up for long.
const CALLS: u32 = 8;

/// Why a packet could not be put into the ring.
enum Refused {
    TooLong,
    NoMemory,
}

impl XdpTx {
    pub(super) fn open(shared: Arc<Shared>, queue: usize, taken: Taken) -> Result<XdpTx, Error> {
        let half = shared.take_tx(queue).map_err(|e| shared.explain(&e))?;
        Ok(XdpTx {
            longest: longest(&shared),
            shared,
            queue,
            half,
            quiet: 0,
            lags: false,
            down: false,
            done: Batch::new(),
            aside: Aside::default(),
            pace: Pace::default(),
            counters: Counters::default(),
            _taken: taken,
        })
    }

    /// Has the kernel send what is in the ring, as far as it will now and within a bound.
    fn kick(&mut self) {
        let Some(half) = &mut self.half else { return };
        (self.quiet, self.lags) = (0, false);
        if !half.tx.needs_wakeup() {
            return;
        }
        // In copy mode a call sends a limited number and answers EAGAIN when more is left, or when the socket's buffer is full: the
        // receivers' side of a virtual cable may wait for its turn on a processor.
        let mut left = half.tx.pending();
        for _ in 0..CALLS {
            if left == 0 {
                break;
            }
            match half.core.wake_tx() {
                Ok(()) => {}
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => {}
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.down = true;
                        return;
                    }
                    // Busy or out of buffers: a later call tries again.
                    _ => break,
                },
            }
            let now = half.tx.pending();
            if now >= left {
                break;
            }
            left = now;
        }
        self.lags = half.tx.pending() > 0;
        self.down = false;
    }

    fn reclaim(&mut self) {
        let Some(half) = &mut self.half else { return };
        let ready = half.completion.ready(1);
        if ready == 0 {
            return;
        }
        for _ in 0..ready {
            let (index, _) = self.shared.setup.shape.place(half.completion.take());
            self.done.extend(half.lent.back(index, 0, 0));
        }
        half.completion.release();
        self.done.free_all();
    }

    /// While the link is down: looks now and then whether it is up again, or the interface replaced.
    #[cold]
    fn look(&mut self) {
        if let Some(half) = &self.half
            && !self.shared.stale(&half.core)
        {
            if self.shared.watch.state() == packet::port::Link::Up {
                self.down = false;
                self.kick();
            }
            return;
        }
        (self.lags, self.quiet) = (false, 0);
        if self.half.is_none() && !self.aside.is_busy() && self.shared.watch.index().is_none() {
            return;
        }
        let (shared, queue, old) = (self.shared.clone(), self.queue, self.half.take());
        let reopen = move || {
            drop(old);
            shared.take_tx(queue).ok().flatten()
        };
        if let Some(half) = self.aside.look(reopen).flatten() {
            self.half = Some(half);
            self.longest = longest(&self.shared);
            self.down = false;
        }
    }
}

#[cold]
fn longest(shared: &Shared) -> usize {
    shared.watch.interfaces.mtu(shared.watch.name()).unwrap_or(1500) + 14 + 4
}

/// Entries that a packet takes in the ring.
#[inline]
fn entries(shape: &Shape, packet: &Packet) -> usize {
    if shape.lendable(packet).is_some() { 1 } else { packet.len().div_ceil(shape.chunk).max(1) }
}

/// Puts one packet into the ring, which has room: in place when it lies in memory that the kernel knows.
#[inline]
fn put(half: &mut TxHalf, shape: &Shape, packet: Packet) -> Result<(), Refused> {
    let Some(addr) = shape.lendable(&packet) else { return put_copy(half, shape, &packet) };
    let len = packet.len() as u32;
    match packet.into_frame() {
        Ok(index) => {
            half.lent.lend(index);
            half.tx.put(xdp_desc { addr, len, options: 0 });
            Ok(())
        }
        Err(packet) => put_copy(half, shape, &packet),
    }
}

/// Copies a packet (a clone, a jumbo frame, one from the heap) into as many frames as it takes.
#[cold]
fn put_copy(half: &mut TxHalf, shape: &Shape, packet: &Packet) -> Result<(), Refused> {
    if packet.len() > shape.chunk && !half.core.binding.multi_buffer {
        return Err(Refused::TooLong);
    }
    // All frames first: a frame sent in part cannot be taken back.
    let mut copies = Batch::new();
    for chunk in packet.data().chunks(shape.chunk) {
        copies.push(Packet::copy_with_headroom(0, chunk).ok_or(Refused::NoMemory)?);
    }
    let pieces = copies.len();
    for (i, copy) in copies.drain(..).enumerate() {
        let (addr, len) = (shape.lendable(&copy), copy.len() as u32);
        let (Some(addr), Ok(index)) = (addr, copy.into_frame()) else { return Err(Refused::TooLong) };
        half.lent.lend(index);
        let options = if i + 1 < pieces { libc::XDP_PKT_CONTD } else { 0 };
        half.tx.put(xdp_desc { addr, len, options });
    }
    Ok(())
}

impl TxQueue for XdpTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        self.reclaim();
        if self.down || self.half.is_none() {
            if self.pace.overdue() {
                self.look();
            }
            if self.down || self.half.is_none() {
                let n = batch.len();
                batch.free_all();
                self.counters.errors(n);
                return n;
            }
        }
        let Some(half) = &mut self.half else { return 0 };
        let shape = &self.shared.setup.shape;
        let mut room = half.tx.free(batch.len() as u32) as usize;
        let fits = |packet: &Packet| {
            let entries = entries(shape, packet);
            let fits = entries <= room;
            room -= entries.min(room);
            fits
        };
        let taken = batch.iter().map(fits).take_while(|fits| *fits).count();
        let (mut good, mut bytes) = (0, 0);
        for packet in batch.drain(..taken) {
            let len = packet.len();
            if len > self.longest {
                self.longest = longest(&self.shared);
                if len > self.longest {
                    self.counters.errors(1);
                    continue;
                }
            }
            match put(half, shape, packet) {
                Ok(()) => {
                    good += 1;
                    bytes += len;
                }
                Err(Refused::NoMemory) => self.counters.no_memory(1),
                Err(Refused::TooLong) => self.counters.errors(1),
            }
        }
        half.tx.submit();
        self.quiet += good as u32;
        self.counters.moved(good, bytes);
        if self.quiet >= KICK || !batch.is_empty() {
            self.kick();
        }
        taken
    }

    fn flush(&mut self) {
        if self.quiet > 0 || self.lags {
            self.kick();
        } else if let Some(half) = &mut self.half
            && half.lent.count() > 0
        {
            if half.tx.pending() > 0 && !self.down {
                self.kick();
            }
            self.reclaim();
        }
    }

    fn lags(&self) -> bool {
        self.lags
    }

    fn fd(&self) -> Option<RawFd> {
        self.half.as_ref().map(|half| half.core.fd().as_raw_fd())
    }

    fn fault(&self) -> Option<Error> {
        self.shared.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

impl Drop for XdpTx {
    fn drop(&mut self) {
        self.kick();
        if let Some(half) = self.half.take().or_else(|| self.aside.finish().flatten()) {
            self.shared.park_tx(self.queue, half);
        }
    }
}
