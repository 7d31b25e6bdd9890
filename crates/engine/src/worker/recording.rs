// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker records for a profiler (`sync::events`): its tasks, the batches of elements, packets through queues, and drops.
//!
//! A worker checks once a round whether a recording runs, and keeps the answer in a field. It reads the field once for each run of a
//! task and each fetched batch, and during a recording for each batch. It never does so for a packet. One read of the TSC ends one
//! span and starts the next.

use sync::events::{self, EventKind, Mask, short};
use sync::tsc;
use sync::zeros::zeros;

use super::Worker;
use super::holding_back::HeldBack;
use super::pending_drops::PendingDrops;
use crate::ports::Edge;
use crate::pulse::{Doing, Spot};
use crate::sample::Sampler;
use crate::shared::Shared;
use element::drops::Reason;
use element::{ElementId, HandlerRef, IndexVec, PortIndex};

/// What has a beginning and an end.
const SPANS: Mask = Mask::TASKS.with(Mask::BATCHES).with(Mask::QUEUES);

/// See the module.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What is to be recorded, as the round began.
    asked: Mask,
    /// What is recorded of the run that is under way: of one that was not picked, no spans.
    mask: Mask,
    /// Which runs are recorded.
    picked: Sampler,
    /// When the last recorded step ended, in cycles.
    mark: u64,
    /// Elements that keep packets until others fetch them.
    queues: IndexVec<ElementId, bool>,
    /// Queues that were empty when they were asked last.
    dry: IndexVec<ElementId, bool>,
    /// Queues that had no room when they were given packets last, or were to be.
    full: IndexVec<ElementId, bool>,
    /// How long they have held back elements that would fill them, and which looks at that are timed.
    held_back: IndexVec<ElementId, HeldBack>,
    timed: Sampler,
    /// The queue that is being given packets has no room for some of them.
    refused: bool,
    /// Drops that are yet to be recorded.
    pending: PendingDrops,
}

impl Recorder {
    pub(super) fn new(shared: &Shared) -> Recorder {
        let queues: IndexVec<ElementId, bool> =
            shared.elements.iter().map(crate::ElementInfo::stores).collect();
        let [dry, full] = [0; 2].map(|_| zeros(queues.len()).into());
        Recorder {
            asked: Mask::NOTHING,
            mask: Mask::NOTHING,
            picked: Sampler::one_in(1),
            mark: 0,
            held_back: zeros(queues.len()).into(),
            timed: Sampler::one_in(1),
            dry,
            full,
            queues,
            refused: false,
            pending: PendingDrops::new(),
        }
    }

    /// Whether what elements do is recorded.
    #[inline(always)]
    pub(super) fn spans(&self) -> bool {
        self.mask.meets(SPANS)
    }

    /// Whether anything is to be recorded at all.
    #[inline(always)]
    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_nothing()
    }

    #[inline(always)]
    fn records(&self, what: Mask) -> bool {
        self.mask.meets(what)
    }
}

/// What an element did with a batch, as records have it: how it came to it, and the port.
fn way(doing: Doing, port: PortIndex) -> u32 {
    (port.number() & 0xffff) | (doing as u32) << 16
}

fn record_held_back(queue: ElementId, cycles: Option<u64>, now: u64) {
    if let Some(cycles) = cycles {
        events::push(now, EventKind::HeldBack, (queue.number(), 0), (short(cycles), 0));
    }
}

impl Worker {
    /// Looks whether a recording runs. To be called between two batches.
    #[inline(always)]
    pub(super) fn check_recording(&mut self) {
        let mask = events::recorded();
        if mask != self.recorder.asked {
            self.begin_recording(mask);
        }
        self.recorder.pending.round();
    }

    #[cold]
    fn begin_recording(&mut self, mask: Mask) {
        self.record_pending();
        self.recorder.asked = mask;
        self.recorder.mask = mask.without(SPANS);
        self.recorder.picked = Sampler::one_in(events::one_in());
        self.recorder.timed = Sampler::one_in(events::one_in());
        self.recorder.dry.iter_mut().for_each(|dry| *dry = false);
        self.recorder.full.iter_mut().for_each(|full| *full = false);
        self.recorder.held_back.iter_mut().for_each(|held| *held = HeldBack::default());
        if !mask.is_nothing() {
            events::renew();
        }
    }

    /// A task, timer or the like begins: when, or 0 if it is not recorded.
    #[inline(always)]
    pub(super) fn record_begin(&mut self) -> u64 {
        if self.recorder.asked.meets(SPANS) { self.begin_picked() } else { 0 }
    }

    #[inline(never)]
    fn begin_picked(&mut self) -> u64 {
        let recorder = &mut self.recorder;
        if !recorder.picked.picks() {
            recorder.mask = recorder.asked.without(SPANS);
            return 0;
        }
        recorder.mask = recorder.asked;
        recorder.refused = false;
        recorder.mark = tsc();
        recorder.mark
    }

    /// What an element was asked for itself has ended; what follows from it has not.
    #[inline(always)]
    pub(super) fn record_own(&mut self, element: ElementId, doing: Doing) {
        if self.recorder.spans() {
            let sent = self.carrier.sent().iter().map(|job| job.batch.len()).sum();
            self.record_batch((element, doing, PortIndex::FIRST), sent);
        }
    }

    /// All that followed has ended, too.
    #[inline(always)]
    pub(super) fn record_end(&mut self, element: ElementId, doing: Doing, begun: u64) {
        if begun != 0 && self.recorder.records(Mask::TASKS) {
            let kind = if doing == Doing::Timer { EventKind::Timer } else { EventKind::Task };
            let at = self.recorder.mark;
            events::push(
                at,
                kind,
                (element.number(), 0),
                (short(at.saturating_sub(begun)), self.index as u32),
            );
        }
    }

    /// An element, or a pass, has processed a batch.
    #[inline(always)]
    pub(super) fn record_processed(&mut self, spot: Spot, packets: usize) {
        if self.recorder.spans()
            && let Some(parts) = spot.parts()
        {
            self.record_batch(parts, packets);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_batch(&mut self, (element, doing, port): (ElementId, Doing, PortIndex), packets: usize) {
        let at = tsc();
        let recorder = &mut self.recorder;
        let took = at.saturating_sub(std::mem::replace(&mut recorder.mark, at));
        let queue = doing == Doing::Push && recorder.queues[element];
        let (kind, of) =
            if queue { (EventKind::Enqueue, Mask::QUEUES) } else { (EventKind::Batch, Mask::BATCHES) };
        if queue && !std::mem::take(&mut recorder.refused) {
            recorder.full[element] = false;
        }
        if recorder.records(of) {
            events::push(
                at,
                kind,
                (element.number(), way(doing, port)),
                (short(took), short(packets as u64)),
            );
        }
    }

    /// An element is about to be asked for packets: returns when, if that is recorded.
    #[inline(always)]
    pub(super) fn record_begin_fetch(&self) -> Option<u64> {
        self.recorder.spans().then(tsc)
    }

    /// An element was asked for packets at `begun`, and has given so many.
    #[cold]
    #[inline(never)]
    pub(super) fn record_fetch(&mut self, from: Edge, begun: u64, packets: usize) {
        let Edge { element, port, .. } = from;
        let recorder = &mut self.recorder;
        let queue = recorder.queues[element];
        let (kind, of) =
            if queue { (EventKind::Dequeue, Mask::QUEUES) } else { (EventKind::Batch, Mask::BATCHES) };
        let was_dry = std::mem::replace(&mut recorder.dry[element], packets == 0);
        if !recorder.records(of) || (packets == 0 && (was_dry || !queue)) {
            return;
        }
        let at = tsc();
        let kind = if packets == 0 { EventKind::Empty } else { kind };
        let took = short(at.saturating_sub(begun));
        events::push(at, kind, (element.number(), way(Doing::Pull, port)), (took, short(packets as u64)));
    }

    /// There was no room in `queue`: `element`, which found so, is that itself, or would have filled it. That is rare, and recorded of all runs.
    #[inline(always)]
    pub(crate) fn record_full(&mut self, element: ElementId, queue: ElementId) {
        if self.recorder.asked.meets(Mask::QUEUES) && !self.only_tries {
            self.record_first_full(element == queue, queue);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_first_full(&mut self, refused: bool, queue: ElementId) {
        self.recorder.refused |= refused;
        let full = self.recorder.full.get_mut(queue);
        if full.is_some_and(|full| !std::mem::replace(full, true)) {
            events::push(tsc(), EventKind::Full, (queue.number(), 0), (0, 0));
        }
        if !refused {
            self.look_at(queue, true);
        }
    }

    /// An element that waits for room in `queue` looks for some, and finds that it is full or is not.
    fn look_at(&mut self, queue: ElementId, is_full: bool) {
        let recorder = &mut self.recorder;
        let Some(held) = recorder.held_back.get_mut(queue) else { return };
        let is_picked = is_full && recorder.timed.picks();
        if is_picked || held.is_timed() {
            let now = tsc();
            record_held_back(queue, held.look(now, events::one_in()), now);
            if is_picked {
                held.begin(now);
            }
        }
    }

    /// An element that waited for room in `queue` has found some.
    #[cold]
    pub(crate) fn record_room(&mut self, queue: ElementId) {
        if self.recorder.asked.meets(Mask::QUEUES) && !self.only_tries {
            self.look_at(queue, false);
        }
    }

    /// Packets have been dropped. Those that were to be discarded are no loss, and may be all that there are: their element's batches show them.
    #[inline(always)]
    pub(super) fn record_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        if self.recorder.records(Mask::DROPS) && reason != Reason::Discarded {
            self.recorder.pending.add(element, reason, n, events::one_in());
        }
    }

    /// Records the drops that are yet to be recorded: the worker is about to do nothing for a while, or its elements change.
    pub(super) fn record_pending(&mut self) {
        self.recorder.pending.record();
        if self.recorder.asked.meets(Mask::QUEUES) {
            let now = tsc();
            for (queue, held) in self.recorder.held_back.iter_mut_enumerated() {
                record_held_back(queue, held.rest(now), now);
            }
        }
    }

    /// A handler of an element is called: returns when, if that is recorded.
    pub(super) fn begin_call(&self) -> Option<u64> {
        events::begin_span(Mask::CONTROL)
    }

    /// It has been answered.
    pub(super) fn record_call(
        &self,
        begun: Option<u64>,
        (element, target): (ElementId, &HandlerRef),
        written: bool,
    ) {
        if begun.is_some() {
            let name = events::word(target.name());
            events::end_span(begun, EventKind::Call, (element.number(), u32::from(written)), name);
        }
    }

    /// Records nothing until [`Worker::resume_recording`]: what is done meanwhile does not count.
    pub(super) fn pause_recording(&mut self) -> Mask {
        std::mem::replace(&mut self.recorder.mask, Mask::NOTHING)
    }

    pub(super) fn resume_recording(&mut self, mask: Mask) {
        self.recorder.mask = mask;
    }

    /// It has slept since `begun`.
    pub(super) fn record_sleep(&self, begun: u64) {
        if events::recorded().meets(Mask::CONTROL) {
            events::end_span(Some(begun), EventKind::Sleep, (self.index as u32, 0), 0);
        }
    }
}
