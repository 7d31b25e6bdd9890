// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Discard, ToHostSniffers
//!
//! `Discard([keywords ACTIVE, BURST])`, `ToHostSniffers([DEVNAME, keyword TYPE])`
//!
//! Discards all packets. On a pull input it has a task that fetches packets as fast as it can.
//!
//! In Click's kernel module, ToHostSniffers shows packets to the machine's packet sniffers. Here it discards them. To see them, run
//! `junctor capture` on the element, or put a ToDump in its place.
//!
//! **Ports:** 1 input, agnostic; no outputs.
//!
//! **Arguments**
//! * `ACTIVE` boolean, default true: a pulling Discard that is not active fetches nothing.
//! * `BURST` packets fetched at a time, default the router's burst.
//! * `DEVNAME`, `TYPE` of ToHostSniffers, read and ignored.
//!
//! **Drops:** `discarded`, every packet: that is its purpose.
//!
//! **Handlers**
//! * `count` read: packets discarded.
//! * `reset_counts` write: sets the count to zero.
//! * `active` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> Discard;
//! ```
//!
//! See also: Idle, Counter

use element::args::{Args, Raw};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, OpenCx, Reason, Rehearsal, Tasks, carries, handlers};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Discard", "1/0", || Box::new(Discard::default()))
    .handlers(handlers! { Discard:
        sum "count" => .count;
        write "reset_counts" => |discard| discard.count.reset();
        both "active" => .active |discard, cx, active: bool| {
            discard.active = active;
            cx.schedule_if(active);
        };
    })
    .hot_swap::<Discard>()
    .rehearsal::<Discard>()
    .file(file!());

/// The descriptor of what stands in for Click's element of this name.
pub const SNIFFERS: Class =
    Class::new("ToHostSniffers", "1/0", || Box::new(Discard { sniffers: true, ..Discard::default() }))
        .handlers(CLASS.handlers)
        .hot_swap::<Discard>()
        .rehearsal::<Discard>()
        .file(file!());

#[derive(Clone, Default)]
struct Discard {
    sniffers: bool,
    active: bool,
    burst: usize,
    count: Count,
    pulls: bool,
}

impl Element for Discard {
    fn configure(&mut self, args: &mut Args<'_>) {
        if self.sniffers {
            let _ = (args.positional_opt::<String>("DEVNAME"), args.keyword_opt::<Raw>("TYPE"));
            self.active = true;
        } else {
            self.active = args.keyword("ACTIVE", true);
            self.burst = args.keyword("BURST", 0);
        }
        self.pulls = args.input_is_pull(0);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(if self.pulls { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.burst == 0 {
            self.burst = cx.burst();
        }
        if cx.task().is_some() && self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.count += batch.len() as u64;
        cx.drop_batch(Reason::Discarded, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = cx.pull(0, self.burst);
        let any = !batch.is_empty();
        self.push(cx, 0, batch);
        any
    }
}

impl Rehearsal for Discard {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Discard: count; anew sniffers, active, burst, pulls);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn counts_what_it_discards() {
        let mut run = Rig::new("Discard").inputs(&[b"a", b"b", b"c"]).run();
        assert_eq!((run.read("e.count").as_str(), run.drops("e")), ("3", vec![(Reason::Discarded, 3)]));
    }

    #[test]
    fn sniffers_are_discarded_for() {
        let mut run = Rig::new("ToHostSniffers(eth0, TYPE HOST)").inputs(&[b"a", b"b"]).run();
        assert_eq!((run.read("e.count").as_str(), run.drops("e")), ("2", vec![(Reason::Discarded, 2)]));
    }

    #[test]
    fn pulls_when_its_input_is_pull() {
        let mut run =
            Rig::text("i :: TestIn -> Queue -> e :: Discard(BURST 2);").inputs(&[b"a", b"b", b"c"]).run();
        assert_eq!(run.read("e.count"), "3");
        let mut run =
            Rig::text("i :: TestIn -> q :: Queue -> e :: Discard(ACTIVE false);").inputs(&[b"a"]).run();
        assert_eq!((run.read("e.count").as_str(), run.read("q.length").as_str()), ("0", "1"));
    }
}
