// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker records for a profiler (`sync::events`): its tasks, the batches of elements, packets through queues, and drops.
//!
//! A worker checks once a round whether a recording runs, and keeps the answer in a field. It reads the field once for each run of a
//! task and each fetched batch, and during a recording for each batch. It never does so for a packet. One read of the TSC ends one
//! span and starts the next.

use sync::events::{self, Kind, Mask, short};
use sync::tsc;
use sync::zeros::zeros;

use super::Worker;
use super::dropping::Untold;
use super::holding_back::HeldBack;
use crate::pulse::Doing;
use crate::sample::Sampler;
use crate::shared::Shared;
use element::drops::Reason;
use element::{ElementId, HandlerRef, IndexVec, PortIndex};

/// What has a beginning and an end.
const SPANS: Mask = Mask::TASKS.with(Mask::BATCHES).with(Mask::QUEUES);

/// See the module.
#[derive(Debug)]
pub(super) struct Telling {
    /// What is to be recorded, as the round began.
    asked: Mask,
    /// What is recorded of the run that is under way: of one that was not picked, no spans.
    mask: Mask,
    /// Which runs are told of.
    picked: Sampler,
    /// When what was done last ended, in cycles.
    mark: u64,
    /// Elements that keep packets until others fetch them.
    queues: IndexVec<ElementId, bool>,
    /// Queues that had nothing when they were asked last.
    dry: IndexVec<ElementId, bool>,
    /// Queues that had no room when they were given packets last, or were to be.
    full: IndexVec<ElementId, bool>,
    /// How long they have held back who would fill them, and which looks at that are timed.
    held_back: IndexVec<ElementId, HeldBack>,
    timed: Sampler,
    /// The queue that is being given packets has no room for some of them.
    refused: bool,
    /// Drops that are yet to be told of.
    untold: Untold,
}

impl Telling {
    pub(super) fn new(shared: &Shared) -> Telling {
        let queues: IndexVec<ElementId, bool> =
            shared.elements.iter().map(crate::ElementInfo::stores).collect();
        let [dry, full] = [0; 2].map(|_| zeros(queues.len()).into());
        Telling {
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
            untold: Untold::new(),
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
    fn tells(&self, what: Mask) -> bool {
        self.mask.meets(what)
    }
}

/// What an element did with a batch, as records have it: how it came to it, and the port.
fn way(doing: Doing, port: PortIndex) -> u32 {
    (port.number() & 0xffff) | (doing as u32) << 16
}

fn tell_held_back(queue: ElementId, cycles: Option<u64>, now: u64) {
    if let Some(cycles) = cycles {
        events::push(now, Kind::HeldBack, (queue.number(), 0), (short(cycles), 0));
    }
}

impl Worker {
    /// Looks whether somebody records. To be called between two batches.
    #[inline(always)]
    pub(super) fn listen(&mut self) {
        let mask = events::recorded();
        if mask != self.telling.asked {
            self.begin_telling(mask);
        }
        self.telling.untold.round();
    }

    #[cold]
    fn begin_telling(&mut self, mask: Mask) {
        self.tell_untold();
        self.telling.asked = mask;
        self.telling.mask = mask.without(SPANS);
        self.telling.picked = Sampler::one_in(events::one_in());
        self.telling.timed = Sampler::one_in(events::one_in());
        self.telling.dry.iter_mut().for_each(|dry| *dry = false);
        self.telling.full.iter_mut().for_each(|full| *full = false);
        self.telling.held_back.iter_mut().for_each(|held| *held = HeldBack::default());
        if !mask.is_nothing() {
            events::renew();
        }
    }

    /// A task, timer or the like begins: when, or 0 if it is not told of.
    #[inline(always)]
    pub(super) fn tell_begin(&mut self) -> u64 {
        if self.telling.asked.meets(SPANS) { self.tell_picked() } else { 0 }
    }

    #[inline(never)]
    fn tell_picked(&mut self) -> u64 {
        let telling = &mut self.telling;
        if !telling.picked.picks() {
            telling.mask = telling.asked.without(SPANS);
            return 0;
        }
        telling.mask = telling.asked;
        telling.refused = false;
        telling.mark = tsc();
        telling.mark
    }

    /// What an element was asked for itself has ended; what follows from it has not.
    #[inline(always)]
    pub(super) fn tell_own(&mut self, element: ElementId, doing: Doing) {
        if self.telling.spans() {
            let sent = self.stack[self.floor..].iter().map(|job| job.batch.len()).sum();
            self.tell_batch(element, doing, PortIndex::FIRST, sent);
        }
    }

    /// All that followed has ended, too.
    #[inline(always)]
    pub(super) fn tell_end(&mut self, kind: Kind, element: ElementId, begun: u64) {
        if begun != 0 && self.telling.tells(Mask::TASKS) {
            let at = self.telling.mark;
            events::push(
                at,
                kind,
                (element.number(), 0),
                (short(at.saturating_sub(begun)), self.index as u32),
            );
        }
    }

    /// A batch has been done.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_batch(&mut self, element: ElementId, doing: Doing, port: PortIndex, packets: usize) {
        let at = tsc();
        let telling = &mut self.telling;
        let took = at.saturating_sub(std::mem::replace(&mut telling.mark, at));
        let queue = doing == Doing::Push && telling.queues[element];
        let (kind, of) = if queue { (Kind::Enqueue, Mask::QUEUES) } else { (Kind::Batch, Mask::BATCHES) };
        if queue && !std::mem::take(&mut telling.refused) {
            telling.full[element] = false;
        }
        if telling.tells(of) {
            events::push(
                at,
                kind,
                (element.number(), way(doing, port)),
                (short(took), short(packets as u64)),
            );
        }
    }

    /// An element was asked for packets at `begun`, and has given so many.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_pull(&mut self, element: ElementId, port: PortIndex, begun: u64, packets: usize) {
        let telling = &mut self.telling;
        let queue = telling.queues[element];
        let (kind, of) = if queue { (Kind::Dequeue, Mask::QUEUES) } else { (Kind::Batch, Mask::BATCHES) };
        let was_dry = std::mem::replace(&mut telling.dry[element], packets == 0);
        if !telling.tells(of) || (packets == 0 && (was_dry || !queue)) {
            return;
        }
        let at = tsc();
        let kind = if packets == 0 { Kind::Empty } else { kind };
        let took = short(at.saturating_sub(begun));
        events::push(at, kind, (element.number(), way(Doing::Pull, port)), (took, short(packets as u64)));
    }

    /// There was no room in `queue`: `element`, which found so, is that itself, or would have filled it. That is rare, and told of all runs.
    #[inline(always)]
    pub(crate) fn tell_full(&mut self, element: ElementId, queue: ElementId) {
        if self.telling.asked.meets(Mask::QUEUES) && !self.only_tries {
            self.tell_first_full(element == queue, queue);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_first_full(&mut self, refused: bool, queue: ElementId) {
        self.telling.refused |= refused;
        let full = self.telling.full.get_mut(queue);
        if full.is_some_and(|full| !std::mem::replace(full, true)) {
            events::push(tsc(), Kind::Full, (queue.number(), 0), (0, 0));
        }
        if !refused {
            self.look_at(queue, true);
        }
    }

    /// Who waits for room in `queue` looks for some, and finds that it is full or is not.
    fn look_at(&mut self, queue: ElementId, is_full: bool) {
        let telling = &mut self.telling;
        let Some(held) = telling.held_back.get_mut(queue) else { return };
        let is_picked = is_full && telling.timed.picks();
        if is_picked || held.is_timed() {
            let now = tsc();
            tell_held_back(queue, held.look(now, events::one_in()), now);
            if is_picked {
                held.begin(now);
            }
        }
    }

    /// Who waited for room in `queue` has found some.
    #[cold]
    pub(crate) fn tell_room(&mut self, queue: ElementId) {
        if self.telling.asked.meets(Mask::QUEUES) && !self.only_tries {
            self.look_at(queue, false);
        }
    }

    /// Packets have been dropped. Those that were to be discarded are no loss, and may be all that there are: their element's batches tell of them.
    #[inline(always)]
    pub(super) fn tell_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        if self.telling.tells(Mask::DROPS) && reason != Reason::Discarded {
            self.telling.untold.add(element, reason, n, events::one_in());
        }
    }

    /// Tells of the drops that are yet to be told of: the worker is about to do nothing for a while, or its elements change.
    pub(super) fn tell_untold(&mut self) {
        self.telling.untold.tell();
        if self.telling.asked.meets(Mask::QUEUES) {
            let now = tsc();
            for (queue, held) in self.telling.held_back.iter_mut_enumerated() {
                tell_held_back(queue, held.rest(now), now);
            }
        }
    }

    /// A handler of an element is called: returns when, if that is recorded.
    pub(super) fn tell_call(&self) -> Option<u64> {
        events::begin_span(Mask::CONTROL)
    }

    /// It has been answered.
    pub(super) fn tell_called(
        &self,
        begun: Option<u64>,
        (element, target): (ElementId, &HandlerRef),
        written: bool,
    ) {
        if begun.is_some() {
            let name = events::word(target.name());
            events::end_span(begun, Kind::Call, (element.number(), u32::from(written)), name);
        }
    }

    /// Tells nothing until [`Worker::unhush`]: what is done meanwhile does not count.
    pub(super) fn hush(&mut self) -> Mask {
        std::mem::replace(&mut self.telling.mask, Mask::NOTHING)
    }

    pub(super) fn unhush(&mut self, mask: Mask) {
        self.telling.mask = mask;
    }

    /// It has slept since `begun`.
    pub(super) fn tell_sleep(&self, begun: u64) {
        if events::recorded().meets(Mask::CONTROL) {
            events::end_span(Some(begun), Kind::Sleep, (self.index as u32, 0), 0);
        }
    }
}
