// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the queues have in common that one worker may use at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use element::args::Args;
use element::stats::{self, Stat};
use element::{Cx, HandlerError, Provided, Reason};
use packet::{Batch, Packet};

use super::queue::{DEFAULT_CAPACITY, capacity_argument, capacity_value};
use super::store::Store;

pub(super) struct Deque {
    pub(super) packets: VecDeque<Packet>,
    pub(super) capacity: usize,
    pub(super) drops: u64,
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
        Deque { packets: VecDeque::new(), capacity, drops: 0, highwater: 0, store }
    }

    pub(super) fn configure(&mut self, args: &mut Args<'_>) {
        *self = Deque::new(capacity_argument(args));
        self.packets.reserve(self.capacity.min(1 << 12));
    }

    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= self.capacity
    }

    /// Notes its length after a change.
    pub(super) fn changed(&mut self) {
        let len = self.packets.len();
        self.highwater = self.highwater.max(len);
        self.store.set(len, self.capacity);
    }

    pub(super) fn pull(&mut self, max: usize) -> Batch {
        let n = max.min(self.packets.len());
        let batch = self.packets.drain(..n).collect();
        self.changed();
        batch
    }

    /// Sends packets without room to output 1, or drops them.
    pub(super) fn overflow(&mut self, cx: &mut Cx<'_>, packets: Option<Batch>) {
        if let Some(packets) = packets {
            if self.drops == 0 {
                cx.print_once(&format!("{}: overflow", cx.declaration()));
            }
            self.drops += packets.len() as u64;
            cx.found_full(cx.index());
            cx.push_or_drop(1, packets, Reason::QueueFull);
        }
    }

    pub(super) fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&stats::QUEUE_LENGTH, self.packets.len() as u64);
        put(&stats::QUEUE_CAPACITY, self.capacity as u64);
        put(&stats::QUEUE_HIGHWATER, self.highwater as u64);
    }

    pub(super) fn read(&self, name: &str) -> String {
        match name {
            "length" => self.packets.len().to_string(),
            "highwater_length" => self.highwater.to_string(),
            "drops" => self.drops.to_string(),
            _ => self.capacity.to_string(),
        }
    }

    pub(super) fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "capacity" => {
                self.capacity = capacity_value(name, value)?;
                let keep = self.capacity.min(self.packets.len());
                let rest: Batch = self.packets.drain(keep..).collect();
                self.overflow(cx, (!rest.is_empty()).then_some(rest));
            }
            "reset" => {
                let all = self.packets.drain(..).collect();
                cx.drop_batch(Reason::Discarded, all);
            }
            _ => {}
        }
        if name != "capacity" {
            (self.drops, self.highwater) = (0, 0);
        }
        self.changed();
        Ok(())
    }

    /// Takes what another one held, behind what is here. Packets beyond the capacity stay until they are taken.
    pub(super) fn take(&mut self, old: &mut Deque) {
        self.packets.append(&mut old.packets);
        self.drops += std::mem::take(&mut old.drops);
        self.highwater = self.highwater.max(std::mem::take(&mut old.highwater));
        self.changed();
    }

    pub(super) fn provide(&self) -> Option<Provided> {
        Some(self.store.clone())
    }
}
