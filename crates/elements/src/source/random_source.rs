// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RandomSource
//!
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, keywords TIMESTAMP, STOP, END_CALL])`
//!
//! Makes packets of random bytes as fast as they are taken.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked.
//!
//! **Arguments**
//! * `LENGTH` bytes of each packet, at most 65535.
//! * `LIMIT` packets in all, default -1: no limit.
//! * `BURST` packets per run of its task, default 1.
//! * `ACTIVE` boolean, default true.
//! * `TIMESTAMP` boolean, default true: packets carry the time they were made.
//! * `STOP` boolean, default false: asks the driver to stop when LIMIT is reached.
//! * `END_CALL` `HANDLER [VALUE]`: write handler to call when LIMIT is reached, instead of STOP.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** none; when packet memory is exhausted it waits, and also while all queues that it fills are full.
//!
//! **Handlers**
//! * `count` read: packets made. `reset` write: sets the count to zero and starts again.
//! * `limit`, `burst`, `active`, `length` read/write: the arguments. `burstsize` and `datasize` are older names of
//!   `burst` and `length`.
//!
//! A seeded run makes the same bytes every time.
//!
//! ```click
//! RandomSource(64, LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! See also: InfiniteSource, RandomBitErrors

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, OpenCx, PlacementRules, Tasks, carries, handlers};
use packet::{Batch, HEADROOM, Packet};

use super::{PULLED, left};
use crate::tools::{Filled, call, ended, number};

/// The descriptor.
pub const CLASS: Class = Class::new("RandomSource", "0/1", || Box::new(RandomSource::default()))
    .handlers(handlers! { RandomSource:
        sum "count" => .count;
        write "reset" => |source, cx| {
            source.count.reset();
            source.changed(cx);
        };
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text)?;
            source.changed(cx);
        };
        both "burst" => .burst |source, cx, burst: usize| source.set_burst(cx, burst);
        both "active" => .active |source, cx, active: bool| {
            source.active = active;
            source.changed(cx);
        };
        both "length" => .length |source, cx, text: &str| source.set_length(cx, number("length", text)?);
        both "burstsize" => .burst |source, cx, burst: usize| source.set_burst(cx, burst);
        both "datasize" => .length |source, cx, text: &str| source.set_length(cx, number("datasize", text)?);
    })
    .hot_swap::<RandomSource>()
    .placement_rules::<RandomSource>()
    .file(file!());

#[derive(Default)]
struct RandomSource {
    length: u16,
    limit: i64,
    burst: usize,
    active: bool,
    timestamp: bool,
    stop: bool,
    end_call: Option<(String, String)>,
    pushes: bool,
    count: Count,
    /// What happens at the end has happened.
    ended: bool,
    filled: Filled,
}

impl RandomSource {
    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let wall = cx.wall();
        let random = cx.random();
        let mut batch = Batch::new();
        let wanted = max.min(left(self.limit, *self.count));
        let timestamp = self.timestamp;
        let made = Packet::alloc_bulk(wanted, HEADROOM, self.length.into(), |mut p| {
            random.fill(p.data_mut());
            if timestamp {
                p.set_timestamp_ns(wall);
            }
            batch.push(p);
        });
        cx.made(made);
        self.count += made as u64;
        batch
    }
}

impl RandomSource {
    fn set_burst(&mut self, cx: &mut Cx<'_>, burst: usize) {
        self.burst = burst.max(1);
        self.changed(cx);
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, length: u16) {
        self.length = length;
        self.changed(cx);
    }

    /// Goes on with what a handler has changed.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        let left = left(self.limit, *self.count);
        self.ended &= left == 0;
        cx.schedule_if(self.pushes && self.active && left > 0);
    }
}

impl Element for RandomSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.required("LENGTH");
        self.limit = args.positional("LIMIT", -1);
        self.burst = args.positional("BURST", 1);
        self.active = args.positional("ACTIVE", true);
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.stop = args.keyword("STOP", false);
        self.end_call = call(args, "END_CALL");
        self.pushes = !args.output_is_pull(0);
        if self.burst == 0 {
            args.error_as("BURST must be at least 1".into(), "burst size must be >= 1".into());
        }
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
        if left(self.limit, *self.count) == 0 {
            cx.unschedule();
            let (call, stop) = (self.end_call.clone(), self.stop);
            ended(cx, self, call, stop);
            return true;
        }
        let batch = self.make(cx, self.burst.min(room));
        let any = !batch.is_empty();
        cx.push(0, batch);
        any
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active {
            return Batch::new();
        }
        if left(self.limit, *self.count) == 0 {
            // Asked again after the last packet: who has it has done with it.
            if !std::mem::replace(&mut self.ended, true) {
                let (call, stop) = (self.end_call.clone(), self.stop);
                ended(cx, self, call, stop);
            }
            return Batch::new();
        }
        self.make(cx, max)
    }
}

impl PlacementRules for RandomSource {
    fn one_order(&self) -> Option<&'static str> {
        (!self.pushes).then_some(PULLED)
    }
}

// What happens at the end has happened.
carries!(RandomSource: count;
anew length, limit, burst, active, timestamp, stop, end_call, pushes, ended, filled;
then |source, cx| if left(source.limit, *source.count) == 0 {
    cx.unschedule();
});

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn makes_random_packets() {
        for text in [
            "e :: RandomSource(600, 5, STOP true) -> o :: TestOut; TimedSource(1) -> Discard;",
            "e :: RandomSource(600, 5, END_CALL stop) -> Unqueue -> o :: TestOut; TimedSource(1) -> Discard;",
        ] {
            let mut run = Rig::text(text).run();
            let out = run.bytes("o");
            assert_eq!((out.len(), run.read("e.count").as_str()), (5, "5"));
            assert!(out.iter().all(|p| p.len() == 600) && out[0] != out[1]);
            let ones: u32 = out.iter().flatten().map(|b| b.count_ones()).sum();
            // Binomial: mean 12000, standard deviation 77.
            assert!((11_500..12_500).contains(&ones), "{ones}");
            assert_eq!(Rig::text(text).run().bytes("o"), out);
        }
    }

    #[test]
    fn refuses_wrong_arguments() {
        let errors = |text: &str| Rig::text(text).errors();
        assert_eq!(errors("e :: RandomSource(70000) -> Discard;").len(), 1);
        assert_eq!(errors("e :: RandomSource(1, BURST 0) -> Discard;"), ["e: BURST must be at least 1"]);
        assert_eq!(
            errors("e :: RandomSource(1, STOP true, END_CALL stop) -> Discard;"),
            ["e: give STOP or END_CALL, not both"]
        );
    }
}
