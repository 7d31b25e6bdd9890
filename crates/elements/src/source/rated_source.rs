// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RatedSource
//!
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE, keywords LENGTH, DATASIZE, BANDWIDTH, STOP])`
//!
//! Makes packets with the same content at a fixed rate.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked, but no faster.
//!
//! **Arguments**
//! * `DATA` content, default "Random bullshit in a packet, at least 64 bytes long. Well, now it is."
//! * `RATE` packets per second, default 10.
//! * `LIMIT` packets in all, default -1: no limit.
//! * `ACTIVE` boolean, default true.
//! * `LENGTH` bytes of each packet: DATA is repeated or cut to fit. `DATASIZE` is a synonym.
//! * `BANDWIDTH` bytes per second, or with a unit such as `8Mbps`: sets RATE according to the packets' length.
//! * `STOP` boolean, default false: asks the driver to stop when LIMIT is reached.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** none; when packet memory is exhausted it waits.
//!
//! **Handlers**
//! * `count` read: packets made. `reset` write: sets the count to zero and starts again.
//! * `data`, `rate`, `limit`, `active`, `length`, `datasize` read/write: the arguments.
//!
//! The first packet comes at once, the others 1/RATE apart. A source that the machine was too busy for catches up with at
//! most what 10 milliseconds give, or 2 packets.
//!
//! ```click
//! RatedSource(RATE 1000, LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! See also: InfiniteSource, TimedSource, FastUDPSource, RatedUnqueue

use element::args::{Args, Bandwidth};
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, InitCx, OpenCx, PlacementRules, Tasks, carries, handlers};
use packet::{Batch, HEADROOM, Packet};

use super::{DEFAULT_DATA, PULLED, fitted, left};
use crate::ticks::Bucket;
use crate::tools::{self, boolean, ended, look_again_at, number, rest_until};

/// The descriptor.
pub const CLASS: Class = Class::new("RatedSource", "0/1", || Box::new(RatedSource::default()))
    .handlers(handlers! { RatedSource:
        sum "count" => .count;
        write "reset" => |source, cx| {
            source.count.reset();
            source.restart(cx);
            source.changed(cx);
        };
        both "data" => |source| String::from_utf8_lossy(&source.data).into_owned(), |source, cx, text: &str| {
            source.data = tools::content_value(text);
            source.changed(cx);
        };
        both "rate" => |source| source.bucket.rate(), |source, cx, text: &str| {
            let rate = number("rate", text).map_err(|e| e.said_as("syntax error"))?;
            source.bucket.refill(cx.now());
            source.bucket.set(rate, burst(rate));
            source.changed(cx);
        };
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text).map_err(|e| e.said_as("syntax error"))?;
            source.changed(cx);
        };
        both "active" => .active |source, cx, text: &str| {
            let active = boolean("active", text).map_err(|e| e.said_as("syntax error"))?;
            let before = std::mem::replace(&mut source.active, active);
            if active && !before {
                source.restart(cx);
            }
            source.changed(cx);
        };
        both "length" => |source| source.length(), |source, cx, text: &str| source.set_length(cx, "length", text)?;
        both "datasize" => |source| source.length(), |source, cx, text: &str| source.set_length(cx, "datasize", text)?;
    })
    .hot_swap::<RatedSource>().placement_rules::<RatedSource>().file(file!());

#[derive(Default)]
struct RatedSource {
    data: Vec<u8>,
    length: Option<usize>,
    content: Vec<u8>,
    bucket: Bucket,
    limit: i64,
    active: bool,
    stop: bool,
    pushes: bool,
    count: Count,
}

/// Packets that may be made at once after a delay.
fn burst(rate: u64) -> u64 {
    (rate / 100).max(2)
}

impl RatedSource {
    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let now = cx.now();
        self.bucket.refill(now);
        let due = usize::try_from(self.bucket.tokens()).unwrap_or(usize::MAX);
        let wanted = max.min(due).min(left(self.limit, *self.count));
        let mut batch = Batch::new();
        let (wall, content) = (cx.wall(), &self.content);
        let made = Packet::alloc_bulk(wanted, HEADROOM, content.len(), |mut p| {
            p.data_mut().copy_from_slice(content);
            p.set_timestamp_ns(wall);
            batch.push(p);
        }) as u64;
        self.bucket.remove(made);
        self.count += made;
        cx.made(made as usize);
        batch
    }

    /// Begins anew, with a packet due at once.
    fn restart(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.bucket.set_level(now, 1);
    }
}

impl RatedSource {
    fn length(&self) -> String {
        self.length.map_or("-1".into(), |l| l.to_string())
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        let length = number::<i32>(name, text).map_err(|e| e.said_as("syntax error"))?;
        self.length = usize::try_from(length).ok().map(|l| l.min(65535));
        self.changed(cx);
        Ok(())
    }

    /// Goes on with what a handler has changed.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        self.content = fitted(&self.data, self.length);
        cx.schedule_if(self.pushes && self.active);
    }
}

impl Element for RatedSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.data = args.positional("DATA", DEFAULT_DATA.as_bytes().to_vec());
        let mut rate: u64 = args.positional("RATE", 10);
        self.limit = args.positional("LIMIT", -1);
        self.active = args.positional("ACTIVE", true);
        // A negative length stands for none, as in Click.
        let length: Option<i32> = args.keyword_opt("LENGTH").or(args.keyword_opt("DATASIZE"));
        self.length = length.and_then(|l| usize::try_from(l).ok());
        self.stop = args.keyword("STOP", false);
        let bandwidth: Option<Bandwidth> = args.keyword_opt("BANDWIDTH");
        self.pushes = !args.output_is_pull(0);
        if self.length.is_some_and(|l| l > 65535) {
            args.error("LENGTH must be at most 65535 bytes");
            self.length = None;
        }
        self.content = fitted(&self.data, self.length);
        if let Some(bandwidth) = bandwidth.filter(|b| b.bytes_per_second > 0) {
            rate = bandwidth.bytes_per_second / self.content.len().max(1) as u64;
        }
        self.bucket = Bucket::new(rate, burst(rate));
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(if self.pushes { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.restart(cx);
        if self.pushes && self.active && cx.task().is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if left(self.limit, *self.count) == 0 {
            cx.unschedule();
            let stop = self.stop;
            ended(cx, self, None, stop);
            return true;
        }
        let max = cx.burst();
        let batch = self.make(cx, max);
        if batch.is_empty() {
            rest_until(cx, self.bucket.when(1));
            return false;
        }
        cx.push(0, batch);
        true
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if self.pushes && self.active {
            cx.schedule();
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active {
            return Batch::new();
        }
        if left(self.limit, *self.count) == 0 {
            if std::mem::take(&mut self.stop) {
                cx.please_stop();
            }
            return Batch::new();
        }
        let batch = self.make(cx, max);
        if batch.is_empty() {
            look_again_at(cx, self.bucket.when(1));
        }
        batch
    }
}

impl PlacementRules for RatedSource {
    fn one_order(&self) -> Option<&'static str> {
        (!self.pushes).then_some(PULLED)
    }
}

// What happens at the end has happened.
carries!(RatedSource: count, bucket;
anew data, length, content, limit, active, stop, pushes;
then |source, cx| if left(source.limit, *source.count) == 0 {
    cx.unschedule();
});

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    #[test]
    fn packets_come_at_exact_times() {
        for burst in [1, 32] {
            let text = "e :: RatedSource(abc, 4, 6) -> o :: TestOut;";
            let mut run = Rig::text(text).burst(burst).run();
            let at = |p: &packet::Packet| p.timestamp_ns() - SIMULATION_EPOCH;
            assert_eq!(
                run.out("o").iter().map(at).collect::<Vec<_>>(),
                [0, 1, 2, 3, 4, 5].map(|n| n * SECOND / 4)
            );
            run.write("e.rate", "2").unwrap();
            run.write("e.limit", "8").unwrap();
            let mut run = run.again();
            assert_eq!(
                (run.bytes("o"), run.read("e.count"), run.read("e.rate")),
                (vec![b"abc".to_vec(); 2], "8".into(), "2".into())
            );
        }
    }

    #[test]
    fn a_fast_one_keeps_its_rate() {
        let text = "e :: RatedSource(RATE 3333333, LENGTH 60) -> c :: Counter -> Discard; TimedSource(10ms, LIMIT 1, STOP true) -> Counter(COUNT_CALL 1 stop) -> Discard;";
        // The first packet is at 0, the last before 10 ms.
        assert_eq!(Rig::text(text).run().read("c.count"), "33334");
    }

    #[test]
    fn answers_pulls_and_stops() {
        let text = "e :: RatedSource(RATE 10, LIMIT 3, STOP true, BANDWIDTH 600Bps, LENGTH 60) -> Unqueue -> SetTimestamp -> o :: TestOut; TimedSource(1) -> Discard;";
        for burst in [1, 32] {
            let out = Rig::text(text).burst(burst).run().out("o");
            let at = |p: &packet::Packet| (p.timestamp_ns() - SIMULATION_EPOCH) * 10 / SECOND;
            assert_eq!(out.iter().map(at).collect::<Vec<_>>(), [0, 1, 2]);
        }
        assert_eq!(
            Rig::text("RatedSource(LIMIT 3, STOP true) -> o :: TestOut; TimedSource(1) -> Discard;")
                .run()
                .out("o")
                .len(),
            3
        );
    }

    #[test]
    fn refuses_what_no_packet_can_hold() {
        let errors = Rig::text("e :: RatedSource(LENGTH 70000) -> Discard;").errors();
        assert_eq!(errors, ["e: LENGTH must be at most 65535 bytes"]);
    }
}
