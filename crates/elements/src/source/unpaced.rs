// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources that make packets as fast as they are taken: InfiniteSource and RandomSource. A [`Content`] says what differs.

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, Handler, InitCx, OpenCx, PlacementRules, Tasks, carries, handlers};
use packet::{Batch, Packet};

use super::{PULLED, left};
use crate::tools::{Filled, call, ended};

/// What packets hold, and how many are made at a time.
pub(crate) trait Content: Default + Send + 'static {
    /// Reads the first argument.
    fn configure(&mut self, args: &mut Args<'_>);

    /// Reads those that have names.
    fn configure_keywords(&mut self, _: &mut Args<'_>) {}

    /// Reads BURST.
    fn configure_burst(&mut self, args: &mut Args<'_>);

    /// Packets of one run of the task, where queues have room for `room`.
    fn burst(&self, cx: &Cx<'_>, room: usize) -> usize;

    /// Makes up to `n` packets, and returns how many.
    fn make(&self, cx: &mut Cx<'_>, n: usize, each: impl FnMut(Packet)) -> usize;
}

/// A source of packets that hold this.
#[derive(Default)]
pub(crate) struct Unpaced<C> {
    pub(crate) content: C,
    pub(crate) limit: i64,
    pub(crate) active: bool,
    timestamp: bool,
    stop: bool,
    end_call: Option<(String, String)>,
    pushes: bool,
    count: Count,
    /// What happens at the end has happened.
    ended: bool,
    filled: Filled,
}

impl<C: Content> Unpaced<C> {
    /// Declares what elements of this type can do besides processing packets.
    pub(crate) const fn with_capabilities(class: Class) -> Class {
        class.hot_swap::<Self>().placement_rules::<Self>()
    }

    /// The handlers of the count.
    pub(crate) const HANDLERS: &[Handler] = handlers! { Unpaced<C>:
        sum "count" => .count;
        write "reset" => |source, cx| {
            source.count.reset();
            source.changed(cx);
        };
    };

    fn left(&self) -> usize {
        left(self.limit, *self.count)
    }

    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let mut batch = Batch::new();
        let wanted = max.min(self.left());
        let wall = if self.timestamp { cx.wall() } else { 0 };
        let made = self.content.make(cx, wanted, |mut packet| {
            if wall > 0 {
                packet.set_timestamp_ns(wall);
            }
            batch.push(packet);
        });
        cx.made(made);
        self.count += made as u64;
        batch
    }

    /// What happens once when the limit is reached.
    fn end(&mut self, cx: &mut Cx<'_>) {
        cx.unschedule();
        let (call, stop) = (self.end_call.clone(), self.stop);
        ended(cx, self, call, stop);
    }

    /// Goes on with what a handler has changed.
    pub(crate) fn changed(&mut self, cx: &mut Cx<'_>) {
        self.ended &= self.left() == 0;
        cx.schedule_if(self.pushes && self.active && self.left() > 0);
    }
}

impl<C: Content> Element for Unpaced<C> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.content.configure(args);
        self.limit = args.positional("LIMIT", -1);
        self.content.configure_burst(args);
        self.active = args.positional("ACTIVE", true);
        self.content.configure_keywords(args);
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.stop = args.keyword("STOP", false);
        self.end_call = call(args, "END_CALL");
        self.pushes = !args.output_is_pull(0);
        if self.stop && self.end_call.is_some() {
            args.error_as(
                "give STOP or END_CALL, not both".into(),
                "END_CALL and STOP are mutually exclusive".into(),
            );
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(if self.pushes { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.filled = Filled::find(cx);
        if self.pushes && self.active && cx.task().is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let room = self.filled.room(cx);
        if room == 0 {
            self.filled.wait(cx);
            return false;
        }
        if self.left() == 0 {
            // In the run after the last packet, and not while queues are full: others have had their turn with it.
            self.end(cx);
            return true;
        }
        let burst = self.content.burst(cx, room);
        let batch = self.make(cx, burst);
        let any = !batch.is_empty();
        cx.push(0, batch);
        any
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active {
            return Batch::new();
        }
        if self.left() == 0 {
            // Asked again after the last packet: who has it has done with it.
            if !std::mem::replace(&mut self.ended, true) {
                self.end(cx);
            }
            return Batch::new();
        }
        self.make(cx, max)
    }
}

impl<C: Content> PlacementRules for Unpaced<C> {
    fn one_order(&self) -> Option<&'static str> {
        (!self.pushes).then_some(PULLED)
    }
}

// What happens at the end has happened.
carries!(Unpaced<C: Content>: count;
anew content, limit, active, timestamp, stop, end_call, pushes, ended, filled;
then |source, cx| if source.left() == 0 {
    cx.unschedule();
});
