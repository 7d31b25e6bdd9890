// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues that one worker may use at a time. They differ in who gets in, and who makes room: see [`Discipline`].

use std::any::Any;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use element::args::Args;
use element::stats::{self, Stat};
use element::swap::Count;
use element::{
    Class, Cx, Element, Handler, HandlerPart, HotSwap, PacketHolder, Provide, Provided, Reason, Statistics,
    handlers, swap,
};
use packet::{Batch, Packet};

use super::queue::{DEFAULT_CAPACITY, capacity_argument, capacity_value};
use super::store::Store;

pub(super) const HANDLERS: &[Handler] = handlers! { Deque:
    sum "length" => |queue| queue.packets.len();
    sum "highwater_length" => .highwater;
    both "capacity".argument(Some(0), "CAPACITY") => .capacity
        |queue, cx, text: &str| queue.resize(cx, capacity_value("capacity", text)?);
    sum "drops" => .drops;
    write "reset_counts" => |queue| queue.reset_counts();
    write "reset" => |queue, cx| {
        cx.drop_batch(Reason::Discarded, queue.packets.drain(..).collect());
        queue.reset_counts();
    };
};

/// Who gets in, and who makes room.
pub(super) trait Discipline: Default + Send + 'static {
    /// Takes a packet that came by input `port`, or not; returns the one that has no room.
    fn enter(packets: &mut VecDeque<Packet>, is_full: bool, port: usize, packet: Packet) -> Option<Packet>;
}

/// The element.
#[derive(Default)]
pub(super) struct DequeQueue<D> {
    deque: Deque,
    discipline: PhantomData<D>,
}

impl<D: Discipline> DequeQueue<D> {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .packet_holder::<Self>()
            .handler_part::<Self>()
            .hot_swap::<Self>()
    }
}

impl<D: Discipline> Element for DequeQueue<D> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.deque.configure(args);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let mut lost = None;
        for packet in batch.drain(..) {
            let is_full = self.deque.is_full();
            if let Some(packet) = D::enter(&mut self.deque.packets, is_full, port, packet) {
                lost.get_or_insert_with(Batch::new).push(packet);
            }
        }
        self.deque.changed();
        self.deque.overflow(cx, lost);
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        self.deque.pull(max)
    }
}

impl<D: Discipline> Provide for DequeQueue<D> {
    fn provide(&self) -> Option<Provided> {
        Some(self.deque.store.clone())
    }
}

impl<D: Discipline> Statistics for DequeQueue<D> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        self.deque.stats(put);
    }
}

impl<D: Discipline> PacketHolder for DequeQueue<D> {
    fn held(&self) -> usize {
        self.deque.packets.len()
    }
}

impl<D: Discipline> HandlerPart for DequeQueue<D> {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.deque
    }
}

impl<D: Discipline> HotSwap for DequeQueue<D> {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<Self>(old).map(|old| self.deque.take(&mut old.deque)).is_some()
    }
}

struct Deque {
    packets: VecDeque<Packet>,
    capacity: usize,
    drops: Count,
    highwater: usize,
    store: Arc<Store>,
}

impl Default for Deque {
    fn default() -> Deque {
        Deque::new(DEFAULT_CAPACITY)
    }
}

impl Deque {
    fn new(capacity: usize) -> Deque {
        let store = Arc::new(Store::gauge(capacity));
        Deque { packets: VecDeque::new(), capacity, drops: Count::default(), highwater: 0, store }
    }

    fn configure(&mut self, args: &mut Args<'_>) {
        *self = Deque::new(capacity_argument(args));
        self.packets.reserve(self.capacity.min(1 << 12));
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= self.capacity
    }

    /// Notes its length after a change.
    fn changed(&mut self) {
        let len = self.packets.len();
        self.highwater = self.highwater.max(len);
        self.store.set(len, self.capacity);
    }

    fn pull(&mut self, max: usize) -> Batch {
        let n = max.min(self.packets.len());
        let batch = self.packets.drain(..n).collect();
        self.changed();
        batch
    }

    /// Sends packets without room to output 1, or drops them.
    fn overflow(&mut self, cx: &mut Cx<'_>, packets: Option<Batch>) {
        if let Some(packets) = packets {
            if self.drops == 0 {
                cx.print_once(&format!("{}: overflow", cx.declaration()));
            }
            self.drops += packets.len() as u64;
            cx.found_full(cx.index());
            cx.push_or_drop(1, packets, Reason::QueueFull);
        }
    }

    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&stats::QUEUE_LENGTH, self.packets.len() as u64);
        put(&stats::QUEUE_CAPACITY, self.capacity as u64);
        put(&stats::QUEUE_HIGHWATER, self.highwater as u64);
    }

    fn resize(&mut self, cx: &mut Cx<'_>, capacity: usize) {
        self.capacity = capacity;
        let keep = self.capacity.min(self.packets.len());
        let rest: Batch = self.packets.drain(keep..).collect();
        self.overflow(cx, (!rest.is_empty()).then_some(rest));
        self.changed();
    }

    fn reset_counts(&mut self) {
        self.drops.reset();
        self.highwater = 0;
        self.changed();
    }

    /// Takes what another one held, behind what is here. Packets beyond the capacity stay until they are taken.
    fn take(&mut self, old: &mut Deque) {
        self.packets.append(&mut old.packets);
        self.drops.take(&mut old.drops);
        self.highwater = self.highwater.max(std::mem::take(&mut old.highwater));
        self.changed();
    }
}
