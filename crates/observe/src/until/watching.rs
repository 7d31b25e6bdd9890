// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observer of a worker that looks for what is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use engine::observer::{Observation, Observer, What};
use engine::stall::Stall;
use engine::{ElementId, Reason};
use packet::Packet;
use sync::events::{self, EventKind, short};
use wire::fields::First;

use super::late::{Follower, Lateness};
use crate::records::first;

/// Something that was waited for.
pub(super) struct Caught {
    pub(super) at: u64,
    pub(super) wall_ns: u64,
    pub(super) condition: usize,
    pub(super) what: Event,
}

pub(super) enum Event {
    /// A packet was dropped.
    Dropped {
        worker: usize,
        element: ElementId,
        reason: Reason,
        /// Its bytes, and whether they begin with an IP header; `None` where it was not at hand.
        packet: Option<(Vec<u8>, bool)>,
    },
    /// A round took too long.
    Stalled(Box<Stall>),
    /// A packet was in the router for too long.
    Late(Box<Lateness>),
}

/// What all observers have in common.
#[derive(Default)]
pub(super) struct Common {
    /// Packets that were not kept.
    pub(super) more: AtomicU64,
    /// The rings have been read.
    pub(super) over: AtomicBool,
}

/// What is looked for.
#[derive(Default)]
pub(super) struct Sought {
    /// The condition for each reason.
    pub(super) reasons: Vec<Option<usize>>,
    /// Bounds of rounds in cycles, and their conditions.
    pub(super) stalls: Vec<(u64, usize)>,
    /// The same of the time that packets take.
    pub(super) latencies: Vec<(u64, usize)>,
}

/// The condition that so many cycles meet: that of the lowest bound.
fn lowest(bounds: &[(u64, usize)], cycles: u64) -> Option<usize> {
    let met = bounds.iter().filter(|(bound, _)| cycles > *bound);
    met.min_by_key(|(bound, _)| *bound).map(|(_, condition)| *condition)
}

impl Sought {
    /// The condition that a round of so many cycles meets.
    pub(super) fn stall(&self, cycles: u64) -> Option<usize> {
        lowest(&self.stalls, cycles)
    }

    /// The condition that a packet which takes so many cycles meets.
    pub(super) fn latency(&self, cycles: u64) -> Option<usize> {
        lowest(&self.latencies, cycles)
    }
}

/// Writes into the thread's ring that a condition was met.
pub(super) fn record(at: u64, element: ElementId, condition: usize, worker: usize) {
    let who = (element.number(), short(condition as u64));
    events::push(at, EventKind::Trigger, who, (0, short(worker as u64)));
}

/// See the module.
pub(super) struct Watching {
    pub(super) sought: Arc<Sought>,
    pub(super) caught: SyncSender<Caught>,
    pub(super) common: Arc<Common>,
    /// It has said so in the worker's ring.
    pub(super) told: bool,
    /// Follows packets, if latency is waited for.
    pub(super) follower: Option<Follower>,
}

impl Watching {
    /// Passes it on; false if there is no room, or nobody wants it.
    fn catch(&mut self, caught: Caught, (element, worker): (Option<ElementId>, usize)) -> bool {
        if let (false, Some(element)) = (self.told, element) {
            self.told = true;
            record(caught.at, element, caught.condition, worker);
        }
        // A channel that is full has the first of them.
        self.caught.try_send(caught).is_ok()
    }

    fn is_over(&self) -> bool {
        self.common.over.load(Relaxed)
    }

    #[cold]
    fn catch_drop(&mut self, observation: &Observation<'_>, reason: Reason, condition: usize, packets: u64) {
        if self.is_over() {
            return;
        }
        let Observation { at, wall_ns, worker, element, packet, .. } = *observation;
        let bytes = |packet: &Packet| (packet.data().to_vec(), first(packet) == First::Ip);
        let packet = packet.map(bytes);
        let at_hand = packet.is_some();
        let what = Event::Dropped { worker, element, reason, packet };
        let kept = self.catch(Caught { at, wall_ns, condition, what }, (Some(element), worker));
        if !kept || !at_hand {
            self.common.more.fetch_add(packets, Relaxed);
        }
    }
}

impl Observer for Watching {
    fn picks(&mut self) -> bool {
        self.follower.as_ref().is_some_and(Follower::picks)
    }

    fn pick(&mut self, packet: &Packet) -> u8 {
        self.follower.as_mut().map_or(0, |follower| follower.pick(packet))
    }

    fn see(&mut self, observation: &Observation<'_>) {
        if let Some(follower) = &mut self.follower {
            follower.see(observation);
        }
        let (reason, packets) = match observation.what {
            What::Dropped(reason) => (reason, 1),
            What::Lost(reason, n) => (reason, n),
            _ => return,
        };
        if let Some(condition) = self.sought.reasons[reason as usize] {
            self.catch_drop(observation, reason, condition, packets);
        }
    }

    fn stalled(&mut self, stall: &Stall) {
        let Some(condition) = self.sought.stall(stall.cycles).filter(|_| !self.is_over()) else { return };
        let what = Event::Stalled(Box::new(stall.clone()));
        let caught = Caught { at: stall.at, wall_ns: stall.wall_ns, condition, what };
        if !self.catch(caught, (stall.element, stall.worker)) {
            self.common.more.fetch_add(stall.packets as u64, Relaxed);
        }
    }
}
