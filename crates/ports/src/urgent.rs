// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that must not wait: those of BFD, which may have a receive ring of their own.
//!
//! Under overload, receive rings are full. New packets wait behind all that is in the ring, or are lost. Either ends a session of BFD at 3 x 10 ms, although the
//! path works. With [`Spec::urgent`](packet::port::Spec), a packet socket receives [BFD](sort) alone, and the device's other rings leave it out.
//!
//! ```text
//! device --- ring of urgent packets --- Lane --- UrgentRx of one queue, which delivers them first
//!       \--- rings of queues ------------------- UrgentRx of each queue
//! ```
//! The ring belongs to the device. The first queue that receives takes it out of the [`Lane`], and puts it back when it ends. So BFD arrives whichever queues are in
//! use, and a device that is open already can get such a ring.

pub(crate) mod sort;

use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::Batch;
use packet::filter::Filter;
use packet::port::{Error, QueueStats, RxQueue};

use crate::sys::Doorbell;

/// What the kernel's own protocols get of urgent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kernel {
    Nothing,
    /// A copy, because SNIFFER asks for it.
    Wanted,
    /// A copy, because it cannot be kept from them.
    Unavoidable,
}

impl Kernel {
    const ALL: [Kernel; 3] = [Kernel::Nothing, Kernel::Wanted, Kernel::Unavoidable];
}

/// Where the ring of a device's urgent packets is while no queue has it.
#[derive(Default)]
pub(crate) struct Lane {
    waits: AtomicBool,
    ring: Mutex<Option<Box<dyn RxQueue>>>,
    /// Zero for no ring, else one more than the place in [`Kernel::ALL`].
    kernel: AtomicU8,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane{}", self.text())
    }
}

impl Lane {
    fn ring(&self) -> MutexGuard<'_, Option<Box<dyn RxQueue>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the device a ring.
    pub(crate) fn open(&self, ring: Box<dyn RxQueue>, kernel: Kernel) {
        self.kernel.store(kernel as u8 + 1, Ordering::Relaxed);
        self.put(ring);
    }

    fn put(&self, ring: Box<dyn RxQueue>) {
        *self.ring() = Some(ring);
        self.waits.store(true, Ordering::Relaxed);
    }

    /// The ring, if it waits for a queue.
    #[cold]
    fn take(&self) -> Option<Box<dyn RxQueue>> {
        // Under the lock, so that a ring that is put at this moment is not passed over.
        let mut ring = self.ring();
        self.waits.store(false, Ordering::Relaxed);
        ring.take()
    }

    /// What [`Info::driver`](packet::port::Info::driver) says of it.
    pub(crate) fn text(&self) -> &'static str {
        let kernel = usize::from(self.kernel.load(Ordering::Relaxed)).checked_sub(1);
        match kernel.and_then(|at| Kernel::ALL.get(at)) {
            None => "",
            Some(Kernel::Nothing) => ", BFD by a ring of its own and kept from the kernel",
            Some(Kernel::Wanted) => ", BFD by a ring of its own",
            Some(Kernel::Unavoidable) => {
                ", BFD by a ring of its own (the kernel sees it, too: to keep it away needs Linux 6.6 and CAP_NET_ADMIN)"
            }
        }
    }
}

/// A receive queue that delivers urgent packets first while it has their ring. They are a quarter of what is asked for at most, so a flood of them leaves room for
/// the rest.
pub(crate) struct UrgentRx {
    lane: Arc<Lane>,
    urgent: Option<Urgent>,
    rest: Box<dyn RxQueue>,
    /// What `rest` delivers, if not all.
    filter: Option<Arc<Filter>>,
    /// Urgent packets were all that was asked for, or more (joined ones are parted on the way), so it is the others' turn.
    passed_over: bool,
}

/// The ring, and what is readable when packets wait in either.
struct Urgent {
    ring: Box<dyn RxQueue>,
    doorbell: Doorbell,
}

impl UrgentRx {
    pub(crate) fn new(lane: &Arc<Lane>, rest: Box<dyn RxQueue>) -> UrgentRx {
        let mut rx = UrgentRx { lane: lane.clone(), urgent: None, rest, filter: None, passed_over: false };
        rx.look();
        rx
    }

    /// Takes the ring if it waits.
    #[inline]
    fn look(&mut self) {
        if self.lane.waits.load(Ordering::Relaxed)
            && let Some(ring) = self.lane.take()
        {
            self.adopt(ring);
        }
    }

    #[cold]
    fn adopt(&mut self, mut ring: Box<dyn RxQueue>) {
        let listen = || -> io::Result<Doorbell> {
            let doorbell = Doorbell::new()?;
            for fd in [ring.fd(), self.rest.fd()].into_iter().flatten() {
                doorbell.listen(&fd)?;
            }
            Ok(doorbell)
        };
        match listen() {
            Ok(doorbell) => {
                match &self.filter {
                    Some(filter) => _ = ring.narrow(filter),
                    None => ring.widen(),
                }
                self.urgent = Some(Urgent { ring, doorbell });
            }
            // Another queue may have descriptors left, or this one later.
            Err(_) => self.lane.put(ring),
        }
    }

    /// How many urgent packets may be taken of `max`.
    fn share(&self, max: usize) -> usize {
        if self.passed_over { 0 } else { max.div_ceil(4) }
    }
}

impl Drop for UrgentRx {
    fn drop(&mut self) {
        if let Some(urgent) = self.urgent.take() {
            self.lane.put(urgent.ring);
        }
    }
}

impl RxQueue for UrgentRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        self.look();
        let share = self.share(max);
        let Some(urgent) = &mut self.urgent else { return self.rest.receive(batch, max) };
        let first = urgent.ring.receive(batch, share);
        self.passed_over = first > 0 && first >= max;
        first + self.rest.receive(batch, max.saturating_sub(first))
    }

    fn receive_arrived(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> (usize, u8) {
        self.look();
        let share = self.share(max);
        let Some(urgent) = &mut self.urgent else { return self.rest.receive_arrived(batch, max, wall_ns) };
        let (first, seen) = urgent.ring.receive_arrived(batch, share, wall_ns);
        self.passed_over = first > 0 && first >= max;
        let (then, also) = self.rest.receive_arrived(batch, max.saturating_sub(first), wall_ns);
        (first + then, seen | also)
    }

    fn narrow(&mut self, filter: &Arc<Filter>) -> bool {
        if !self.rest.narrow(filter) {
            return false;
        }
        // The ring is a packet socket's, which applies any filter.
        self.urgent.iter_mut().for_each(|urgent| _ = urgent.ring.narrow(filter));
        self.filter = Some(filter.clone());
        true
    }

    fn widen(&mut self) {
        self.rest.widen();
        self.urgent.iter_mut().for_each(|urgent| urgent.ring.widen());
        self.filter = None;
    }

    fn fd(&self) -> Option<RawFd> {
        self.urgent.as_ref().map_or_else(|| self.rest.fd(), |urgent| Some(urgent.doorbell.fd()))
    }

    fn ended(&self) -> bool {
        self.rest.ended()
    }

    fn fault(&self) -> Option<Error> {
        self.rest.fault()
    }

    fn stats(&self) -> QueueStats {
        let rest = self.rest.stats();
        let Some(urgent) = self.urgent.as_ref().map(|urgent| urgent.ring.stats()) else { return rest };
        QueueStats {
            packets: urgent.packets + rest.packets,
            bytes: urgent.bytes + rest.bytes,
            missed: urgent.missed + rest.missed,
            completed: urgent.completed + rest.completed,
            no_memory: urgent.no_memory + rest.no_memory,
            errors: urgent.errors + rest.errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;

    /// A queue with any number of packets of one byte.
    struct Endless(u8);

    impl RxQueue for Endless {
        fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
            (0..max).for_each(|_| batch.push(Packet::copy_of(&[self.0]).expect("memory")));
            max
        }

        fn stats(&self) -> QueueStats {
            QueueStats { packets: 1, ..QueueStats::default() }
        }
    }

    /// Takes packets: how many of them are urgent, and all.
    fn take(rx: &mut UrgentRx, max: usize) -> (usize, usize) {
        let mut batch = Batch::new();
        assert_eq!(rx.receive(&mut batch, max), max);
        (batch.iter().map(|packet| usize::from(packet.data()[0])).sum::<usize>(), batch.len())
    }

    #[test]
    fn a_flood_of_urgent_packets_leaves_room_for_others() {
        crate::tests::alone(|| {
            let lane = Arc::new(Lane::default());
            lane.open(Box::new(Endless(1)), Kernel::Nothing);
            let mut rx = UrgentRx::new(&lane, Box::new(Endless(0)));
            let mut take = |max: usize| take(&mut rx, max);
            assert_eq!([take(32), take(32)], [(8, 32); 2]);
            assert_eq!([take(1), take(1), take(1), take(2)], [(1, 1), (0, 1), (1, 1), (0, 2)]);
            assert_eq!(take(2), (1, 2));
        });
    }

    #[test]
    fn the_ring_goes_from_queue_to_queue() {
        crate::tests::alone(|| {
            let lane = Arc::new(Lane::default());
            let mut queues = [0, 0].map(|_| UrgentRx::new(&lane, Box::new(Endless(0))));
            assert_eq!(queues.each_mut().map(|rx| take(rx, 4)), [(0, 4); 2]);
            assert_eq!(lane.text(), "");
            lane.open(Box::new(Endless(1)), Kernel::Wanted);
            assert_eq!(lane.text(), ", BFD by a ring of its own");
            let [mut first, mut second] = queues;
            assert_eq!([take(&mut second, 4), take(&mut first, 4)], [(1, 4), (0, 4)]);
            assert_eq!([second.stats().packets, first.stats().packets], [2, 1]);
            drop(second);
            assert_eq!(take(&mut first, 4), (1, 4));
        });
    }
}
