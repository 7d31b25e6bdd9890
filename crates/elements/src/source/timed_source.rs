// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimedSource
//!
//! `TimedSource([INTERVAL, DATA, keywords LIMIT, ACTIVE, STOP, HEADROOM])`
//!
//! Makes a packet at regular intervals.
//!
//! **Ports:** 1 push output.
//!
//! **Arguments**
//! * `INTERVAL` seconds, or with a unit, between packets, and before the first one; default 0.5.
//! * `DATA` content, default "Random bullshit in a packet, at least 64 bytes long. Well, now it is."
//! * `LIMIT` packets in all, default -1: no limit.
//! * `ACTIVE` boolean, default true.
//! * `STOP` boolean, default false: asks the driver to stop one interval after the last packet.
//! * `HEADROOM` bytes, default 128.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** none; when packet memory is exhausted a packet is left out.
//!
//! **Handlers**
//! * `count` read: packets made. `reset` write: sets the count to zero and starts again.
//! * `data`, `interval`, `limit`, `active`, `headroom` read/write: the arguments.
//!
//! ```click
//! TimedSource(10ms, LIMIT 3, STOP true) -> Discard;
//! ```
//!
//! See also: RatedSource, InfiniteSource

use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, HotSwap, InitCx, OpenCx, Tasks, handlers, swap};
use packet::{HEADROOM, Packet};

use super::DEFAULT_DATA;
use crate::tools::{self, boolean, interval, number, value};

/// The descriptor.
pub const CLASS: Class = Class::new("TimedSource", "0/1", || Box::new(TimedSource::default()))
    .processing("h/h")
    .handlers(handlers! { TimedSource:
        sum "count" => .count;
        write "reset" => |source, cx| {
            source.count.reset();
            source.changed(cx);
        };
        both "data" => |source| String::from_utf8_lossy(&source.data).into_owned(), |source, cx, text: &str| {
            source.data = tools::content_value(text);
            source.changed(cx);
        };
        both "interval" => |source| interval(source.interval), |source, cx, text: &str| {
            let interval = value("interval", text).map_err(|e| e.said_as("bad interval"))?;
            let set = source.set_interval(interval).map_err(HandlerError::Failed);
            set.map_err(|e| e.said_as("bad interval"))?;
            cx.clear_timer(0);
            source.changed(cx);
        };
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text)?;
            source.changed(cx);
        };
        both "active" => .active |source, cx, text: &str| {
            source.active = boolean("active", text).map_err(|e| e.said_as("bad active"))?;
            source.changed(cx);
        };
        both "headroom" => .headroom |source, cx, text: &str| {
            source.headroom = number::<u16>("headroom", text).map_err(|e| e.said_as("bad headroom"))?.into();
            source.changed(cx);
        };
    })
    .hot_swap::<TimedSource>()
    .file(file!());

#[derive(Default)]
struct TimedSource {
    interval: Nanos,
    data: Vec<u8>,
    limit: i64,
    active: bool,
    stop: bool,
    headroom: usize,
    count: Count,
    /// When the timer was last to expire.
    due: Nanos,
}

impl TimedSource {
    /// Begins to wait for the next packet.
    fn start(&mut self, cx: &mut Cx<'_>) {
        self.due = cx.now().saturating_add(self.interval);
        cx.set_timer(0, self.due);
    }

    fn set_interval(&mut self, interval: Duration) -> Result<(), String> {
        let ns = interval.as_nanos() as Nanos;
        if ns == 0 {
            return Err("INTERVAL must be more than 0".into());
        }
        self.interval = ns;
        Ok(())
    }
}

impl TimedSource {
    /// Goes on with what a handler has changed.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        if !self.active {
            cx.clear_timer(0);
        } else if cx.timer(0).is_none() {
            self.start(cx);
        }
    }
}

impl Element for TimedSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        let interval = args.positional("INTERVAL", Duration::from_millis(500));
        if let Err(why) = self.set_interval(interval) {
            args.error(why);
        }
        self.data = args.positional("DATA", DEFAULT_DATA.as_bytes().to_vec());
        self.limit = args.keyword("LIMIT", -1);
        self.active = args.keyword("ACTIVE", true);
        self.stop = args.keyword("STOP", false);
        self.headroom = args.keyword("HEADROOM", HEADROOM);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.active && cx.task().is_some() {
            self.start(cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if !self.active {
            return;
        }
        if u64::try_from(self.limit).is_ok_and(|limit| *self.count >= limit) {
            if self.stop {
                cx.please_stop();
            }
            return;
        }
        self.count += 1;
        // By the schedule, even if the worker came round to it late; but what was missed is not made up for.
        self.due = (self.due + self.interval).max(cx.now());
        cx.set_timer(0, self.due);
        if let Some(mut packet) = Packet::copy_with_headroom(self.headroom, &self.data) {
            packet.set_timestamp_ns(cx.wall());
            cx.made(1);
            cx.push_one(0, packet);
        }
    }
}

impl HotSwap for TimedSource {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<TimedSource>(old) else { return false };
        self.count.take(&mut old.count);
        // The wait goes on, if there was one, or else would begin now.
        if old.active && cx.timer(0).is_some() {
            self.due = self.due.min(old.due);
            cx.set_timer(0, self.due);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    #[test]
    fn one_packet_per_interval() {
        let mut run = Rig::text("e :: TimedSource(0.25, abc, LIMIT 4) -> o :: TestOut;").run();
        let times: Vec<u64> = run.out("o").iter().map(|p| p.timestamp_ns() - SIMULATION_EPOCH).collect();
        assert_eq!(times, [1, 2, 3, 4].map(|n| n * SECOND / 4));
        assert_eq!((run.read("e.count"), run.read("e.interval")), ("4".into(), "250ms".into()));
        run.write("e.interval", "1").unwrap();
        run.write("e.data", "xy").unwrap();
        run.write("e.reset", "").unwrap();
        let run = run.again();
        assert_eq!(run.bytes("o"), [b"xy"; 4]);
    }

    #[test]
    fn stops_an_interval_after_the_last() {
        let text = "TimedSource(1, LIMIT 2, STOP true) -> Discard; t :: TimedSource(0.9) -> Discard;";
        assert_eq!(Rig::text(text).run().read("t.count"), "3");
    }

    #[test]
    fn refuses_no_interval() {
        assert_eq!(
            Rig::text("e :: TimedSource(0) -> Discard;").errors(),
            ["e: INTERVAL must be more than 0"]
        );
    }
}
