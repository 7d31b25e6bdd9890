// SPDX-License-Identifier: MIT OR Apache-2.0
//! # InfiniteSource
//!
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, keywords LENGTH, DATASIZE, TIMESTAMP, STOP, END_CALL])`
//!
//! Makes packets with the same content as fast as they are taken.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked.
//!
//! **Arguments**
//! * `DATA` content, default "Random bullshit in a packet, at least 64 bytes long. Well, now it is."
//! * `LIMIT` packets in all, default -1: no limit.
//! * `BURST` packets per run of its task, default the router's burst.
//! * `ACTIVE` boolean, default true.
//! * `LENGTH` bytes of each packet: DATA is repeated or cut to fit. `DATASIZE` is a synonym.
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
//! * `data`, `limit`, `burst`, `active`, `length` read/write: the arguments. `burstsize` and `datasize` are older names of
//!   `burst` and `length`. A length that is not set reads as -1.
//!
//! ```click
//! InfiniteSource("\<00 01 02>", LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! See also: RatedSource, TimedSource, FastUDPSource

use element::Policy;
use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, InitCx, OpenCx, PlacementRules, Tasks, carries, handlers};
use packet::{Batch, HEADROOM, Packet};

use crate::source::{PULLED, left};
use crate::tools::{self, Filled, boolean, call, ended, number};

/// The descriptor.
pub const CLASS: Class = Class::new("InfiniteSource", "0/1", || Box::new(InfiniteSource::default()))
    .handlers(handlers! { InfiniteSource:
        sum "count" => .count;
        write "reset" => |source, cx| {
            source.count.reset();
            source.changed(cx);
        };
        both "data" => |source| String::from_utf8_lossy(&source.data).into_owned(), |source, cx, text: &str| {
            source.data = tools::content_value(text);
            source.changed(cx);
        };
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text).map_err(|e| e.said_as("limit parameter must be integer"))?;
            source.changed(cx);
        };
        both "burst" => |source, cx| source.burst(cx), |source, cx, text: &str| source.set_burst(cx, "burst", text)?;
        both "active" => .active |source, cx, text: &str| {
            source.active = boolean("active", text).map_err(|e| e.said_as("active parameter must be boolean"))?;
            source.changed(cx);
        };
        both "length" => |source| source.length(), |source, cx, text: &str| source.set_length(cx, "length", text)?;
        both "burstsize" => |source, cx| source.burst(cx), |source, cx, text: &str| source.set_burst(cx, "burstsize", text)?;
        both "datasize" => |source| source.length(), |source, cx, text: &str| source.set_length(cx, "datasize", text)?;
    })
    .hot_swap::<InfiniteSource>().placement_rules::<InfiniteSource>().file(file!());

const DEFAULT_DATA: &str = "Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

#[derive(Default)]
struct InfiniteSource {
    data: Vec<u8>,
    length: Option<usize>,
    content: Vec<u8>,
    limit: i64,
    burst: i32,
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

impl InfiniteSource {
    fn set_content(&mut self) {
        let length = self.length.unwrap_or(self.data.len());
        self.content = self.data.iter().copied().cycle().take(length).collect();
        self.content.resize(length, 0);
    }

    fn left(&self) -> usize {
        left(self.limit, *self.count)
    }

    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let mut batch = Batch::new();
        let wanted = max.min(self.left());
        let wall = if self.timestamp { cx.wall() } else { 0 };
        let content = &self.content;
        let made = Packet::alloc_bulk(wanted, HEADROOM, content.len(), |mut p| {
            p.data_mut().copy_from_slice(content);
            if wall > 0 {
                p.set_timestamp_ns(wall);
            }
            batch.push(p);
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
}

impl InfiniteSource {
    fn burst(&self, cx: &Cx<'_>) -> String {
        if self.burst == 0 { cx.burst().to_string() } else { self.burst.to_string() }
    }

    fn set_burst(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        let said = "burstsize parameter must be integer >= 1";
        self.burst = number(name, text).map_err(|e| e.said_as(said))?;
        if self.burst == 0 && Policy::of_process().as_click {
            self.burst = 1;
            return Err(HandlerError::failed(said));
        }
        self.changed(cx);
        Ok(())
    }

    fn length(&self) -> String {
        self.length.map_or("-1".into(), |l| l.to_string())
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        let length = number::<i32>(name, text).map_err(|e| e.said_as("length must be integer"))?;
        self.length = usize::try_from(length).ok().map(|l| l.min(65535));
        self.changed(cx);
        Ok(())
    }

    /// Goes on with what a handler has changed.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        self.set_content();
        self.ended &= self.left() == 0;
        cx.schedule_if(self.pushes && self.active && self.left() > 0);
    }
}

impl Element for InfiniteSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.data = args.positional("DATA", DEFAULT_DATA.as_bytes().to_vec());
        self.limit = args.positional("LIMIT", -1);
        let burst = args.positional_opt("BURST");
        self.burst = burst.unwrap_or(0);
        self.active = args.positional("ACTIVE", true);
        self.length = args.keyword_opt("LENGTH").or(args.keyword_opt("DATASIZE"));
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.stop = args.keyword("STOP", false);
        self.end_call = call(args, "END_CALL");
        self.pushes = !args.output_is_pull(0);
        if burst == Some(0) && Policy::of_process().as_click {
            args.error("burst size must be >= 1");
        }
        if self.stop && self.end_call.is_some() {
            args.error_as(
                "give STOP or END_CALL, not both".into(),
                "END_CALL and STOP are mutually exclusive".into(),
            );
        }
        if self.length.is_some_and(|l| l > 65535) {
            args.error("LENGTH must be at most 65535 bytes");
            self.length = None;
        }
        self.set_content();
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
        let burst = match usize::try_from(self.burst) {
            // A burst that somebody asked for leaves whole, as in Click.
            Ok(burst) if burst > 0 => burst,
            _ => cx.burst().min(room),
        };
        if self.left() == 0 {
            // In the run after the last packet, and not while queues are full: others have had their turn with it.
            self.end(cx);
            return true;
        }
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

impl PlacementRules for InfiniteSource {
    fn one_order(&self) -> Option<&'static str> {
        (!self.pushes).then_some(PULLED)
    }
}

// What happens at the end has happened.
carries!(InfiniteSource: count;
anew data, length, content, limit, burst, active, timestamp, stop, end_call, pushes, ended, filled;
then |source, cx| if source.left() == 0 {
    cx.unschedule();
});

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn makes_packets_up_to_its_limit_and_stops() {
        for burst in [1, 32] {
            let mut run =
                Rig::text("e :: InfiniteSource(abc, 5, 2, STOP true) -> o :: TestOut;").burst(burst).run();
            assert_eq!(run.bytes("o"), [b"abc"; 5]);
            assert_eq!(run.read("e.count"), "5");
        }
    }

    #[test]
    fn answers_pulls() {
        let run =
            Rig::text("e :: InfiniteSource(DATA \\<0102>, LIMIT 3, LENGTH 5) -> Unqueue -> o :: TestOut;")
                .run();
        assert_eq!(run.bytes("o"), [[1, 2, 1, 2, 1]; 3]);
    }

    #[test]
    fn waits_while_its_queues_are_full() {
        let text = "e :: InfiniteSource(LIMIT 50) -> Null -> q :: Queue(7) -> RatedUnqueue(10) -> c :: Counter -> Discard;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).run();
            assert_eq!((run.read("c.count"), run.read("q.drops")), ("50".into(), "0".into()));
        }
    }

    #[test]
    fn refuses_what_no_packet_can_hold() {
        assert_eq!(
            Rig::text("e :: InfiniteSource(LENGTH 70000) -> Discard;").errors(),
            ["e: LENGTH must be at most 65535 bytes"]
        );
    }
}
