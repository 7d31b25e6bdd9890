// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimeFilter
//!
//! `TimeFilter([START, END, keywords START_AFTER, START_DELAY, END_AFTER, END_DELAY, INTERVAL, STOP, END_CALL])`
//!
//! Passes packets whose timestamps lie between two times. Others leave by output 1.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push.
//!
//! **Arguments** (times in seconds, or with a unit; at most one for the start, and at most one for the end)
//! * `START` time since the epoch at which packets begin to pass, default 0.
//! * `START_AFTER` the same, counted from the first packet's timestamp. `START_DELAY` counted from the router's start.
//! * `END` time since the epoch from which on packets pass no more, default never.
//! * `END_AFTER` the same, counted from the first packet's timestamp. `END_DELAY` counted from the router's start.
//! * `INTERVAL` time from the start to the end.
//! * `STOP` boolean, default false: asks the driver to stop at the first packet behind the end.
//! * `END_CALL` `HANDLER [VALUE]`: a write handler to call at that packet, in place of STOP. `$t` in VALUE is its timestamp. If the
//!   handler moves the end behind the packet, the packet passes.
//!
//! **Metadata read:** timestamp.
//!
//! **Drops:** `no-output`, packets outside the times if there is no output 1.
//!
//! **Cores:** all workers share the times; they take a lock once for each batch.
//!
//! **Handlers**
//! * `start`, `end` read/write: the times since the epoch; of those that count from the first packet, once it has come.
//! * `interval` read/write: the time between them; writing moves the end.
//! * `extend_interval` write: moves the end by so much.
//!
//! ```click
//! RatedSource(RATE 10, LIMIT 20, STOP true) -> SetTimestamp -> TimeFilter(START_AFTER 0.5, INTERVAL 1) -> Discard;
//! ```
//!
//! See also: SetTimestamp, TimeRange

use std::sync::Arc;
use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::{Class, Cx, Element, InitCx, LockUse, Locking, Reason, SharedState, Sharing, When, handlers};
use packet::Batch;
use sync::lock::{AdaptiveLock, How};

use super::calls;
use crate::tools::{self, nanos, seconds};

/// The descriptor.
pub const CLASS: Class = Class::new("TimeFilter", "1/1-2", || Box::new(TimeFilter::default()))
    .processing("a/ah")
    .sharing(Sharing::Shared)
    .handlers(handlers! { TimeFilter:
        both "start" => |filter| seconds(filter.window.lock().start), |filter, time: Duration| {
            let mut window = filter.window.lock();
            window.begin(nanos(time));
            (window.start, window.start_from) = (nanos(time), Origin::Epoch);
        };
        both "end" => |filter| seconds(filter.window.lock().end),
            |filter, time: Duration| filter.window.lock().set_end(nanos(time));
        both "interval" => |filter| filter.interval(), |filter, time: Duration| {
            let mut window = filter.window.lock();
            let end = window.start.saturating_add(nanos(time));
            window.set_end(end);
        };
        write "extend_interval" => |filter, time: Duration| {
            let mut window = filter.window.lock();
            window.end = window.end.saturating_add(nanos(time));
            window.armed = true;
        };
    })
    .shared_state::<TimeFilter>()
    .locking::<TimeFilter>()
    .file(file!());

/// What a time counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Epoch,
    /// The first packet's timestamp.
    Packet,
    /// The router's start.
    Router,
    /// The start of the window.
    Start,
}

/// The times between which packets pass. Both count from the epoch once the first packet has come.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Nanos,
    end: Nanos,
    start_from: Origin,
    end_from: Origin,
    /// The first packet has come.
    ready: bool,
    /// The next packet behind the end is to be acted on.
    armed: bool,
}

impl Window {
    /// Takes note of the first packet.
    fn begin(&mut self, time: Nanos) {
        if self.ready {
            return;
        }
        if self.start_from == Origin::Packet {
            self.start = self.start.saturating_add(time);
        }
        self.end = match self.end_from {
            Origin::Packet => self.end.saturating_add(time),
            Origin::Start => self.end.saturating_add(self.start),
            _ => self.end,
        };
        self.ready = true;
    }

    fn set_end(&mut self, end: Nanos) {
        (self.end, self.end_from, self.armed) = (end, Origin::Epoch, true);
    }
}

#[derive(Clone)]
struct TimeFilter {
    window: Arc<AdaptiveLock<Window>>,
    /// A handler to call at the end, and its value.
    end_call: Option<(String, String)>,
    stop: bool,
}

impl Default for TimeFilter {
    fn default() -> Self {
        let window = Window {
            start: 0,
            end: Nanos::MAX,
            start_from: Origin::Epoch,
            end_from: Origin::Epoch,
            ready: false,
            armed: true,
        };
        TimeFilter { window: Arc::new(AdaptiveLock::new(window)), end_call: None, stop: false }
    }
}

/// The one time of several that is given, and what it counts from.
fn one(args: &mut Args<'_>, given: &[(Option<Duration>, Origin, &str)]) -> Option<(Nanos, Origin)> {
    let mut times = given.iter().filter_map(|(time, from, name)| Some(((nanos((*time)?), *from), *name)));
    let (first, name) = times.next()?;
    if let Some((_, other)) = times.next() {
        let click = match name.starts_with("START") {
            true => "START, START_AFTER, and START_AFTER_INIT are mutually exclusive",
            false => "END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive",
        };
        args.error_as(format!("give {name} or {other}, not both"), click.into());
    }
    Some(first)
}

impl TimeFilter {
    fn calls(&self) -> bool {
        self.stop || self.end_call.is_some()
    }

    /// Does what is to be done at a packet behind the end, until that does not move the end any more.
    fn ended(&self, cx: &mut Cx<'_>, time: Nanos) {
        loop {
            let before = self.window.lock().end;
            self.window.lock().armed = false;
            match &self.end_call {
                Some((handler, value)) => {
                    let value = value.replace("$t", &seconds(time));
                    calls::call(cx, self.share(), handler, &value);
                }
                None => cx.please_stop(),
            }
            let window = *self.window.lock();
            if !window.armed || time < window.end || window.end <= before {
                return;
            }
        }
    }

    /// Splits a batch into what passes and what does not. `pushed`: what comes before a call is sent before it.
    fn filter(&self, cx: &mut Cx<'_>, mut batch: Batch, pushed: bool) -> [Batch; 2] {
        let (mut pass, mut outside) = (Batch::new(), Batch::new());
        let mut packets = batch.drain(..);
        loop {
            let mut window = self.window.lock();
            let due = packets.by_ref().find_map(|packet| {
                let time = packet.timestamp_ns();
                window.begin(time);
                if time >= window.start && time >= window.end && window.armed && self.calls() {
                    return Some(packet);
                }
                let passes = (window.start..window.end).contains(&time);
                if passes {
                    pass.push(packet)
                } else {
                    outside.push(packet)
                };
                None
            });
            drop(window);
            let Some(packet) = due else { return [pass, outside] };
            if pushed {
                calls::settle(cx, self.share(), [&mut pass, &mut outside]);
            }
            let time = packet.timestamp_ns();
            self.ended(cx, time);
            let window = *self.window.lock();
            if (window.start..window.end).contains(&time) {
                pass.push(packet)
            } else {
                outside.push(packet)
            };
        }
    }
}

impl TimeFilter {
    fn interval(&self) -> String {
        let window = self.window.lock();
        seconds(window.end.saturating_sub(window.start))
    }
}

impl Element for TimeFilter {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (start, end) = (args.positional_opt("START"), args.positional_opt("END"));
        let starts = [
            (start, Origin::Epoch, "START"),
            (args.keyword_opt("START_AFTER"), Origin::Packet, "START_AFTER"),
            (args.keyword_opt("START_DELAY"), Origin::Router, "START_DELAY"),
        ];
        let ends = [
            (end, Origin::Epoch, "END"),
            (args.keyword_opt("END_AFTER"), Origin::Packet, "END_AFTER"),
            (args.keyword_opt("END_DELAY"), Origin::Router, "END_DELAY"),
            (args.keyword_opt("INTERVAL"), Origin::Start, "INTERVAL"),
        ];
        let mut window = self.window.lock();
        if let Some(start) = one(args, &starts) {
            (window.start, window.start_from) = start;
        }
        if let Some(end) = one(args, &ends) {
            (window.end, window.end_from) = end;
        }
        drop(window);
        self.stop = args.keyword("STOP", false);
        self.end_call = tools::call(args, "END_CALL");
        if self.stop && self.end_call.is_some() {
            args.error_as(
                "give STOP or END_CALL, not both".into(),
                "END_CALL and STOP are mutually exclusive".into(),
            );
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if !cx.is_home() {
            return Ok(());
        }
        let now = cx.wall();
        let mut window = self.window.lock();
        if window.start_from == Origin::Router {
            (window.start, window.start_from) = (window.start.saturating_add(now), Origin::Epoch);
        }
        if window.end_from == Origin::Router {
            (window.end, window.end_from) = (window.end.saturating_add(now), Origin::Epoch);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let [pass, outside] = self.filter(cx, batch, true);
        cx.push(0, pass);
        cx.push_or_drop(1, outside, Reason::NoOutput);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let [pass, outside] = self.filter(cx, batch, false);
        cx.push_or_drop(1, outside, Reason::NoOutput);
        pass
    }
}

impl Locking for TimeFilter {
    fn locks(&self) -> Vec<LockUse> {
        vec![LockUse::new(How::Adaptive, "the times", When::EachBatch, "the first packet may set them")]
    }
}

impl SharedState for TimeFilter {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;
    use packet::Packet;

    use super::*;
    use crate::testing::Rig;

    /// Packets that bear these seconds as timestamp and as their only byte.
    fn packets(seconds: &[u64]) -> Vec<Packet> {
        let stamped = |s: &u64| {
            let mut packet = Packet::copy_of(&[*s as u8]).unwrap();
            packet.set_timestamp_ns(s * SECOND);
            packet
        };
        seconds.iter().map(stamped).collect()
    }

    fn check(args: &str, want: &[u8]) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("TimeFilter({args})")).outputs(2).burst(burst);
            let run = rig.packets(packets(&[5, 6, 7, 8, 9])).run();
            let outside: Vec<u8> = (5..10).filter(|n| !want.contains(n)).collect();
            assert_eq!(
                (run.bytes("o0").concat(), run.bytes("o1").concat()),
                (want.to_vec(), outside),
                "{args}"
            );
        }
    }

    #[test]
    fn windows() {
        check("", &[5, 6, 7, 8, 9]);
        check("START 7", &[7, 8, 9]);
        check("6, 8", &[6, 7]);
        check("START_AFTER 2", &[7, 8, 9]);
        check("START_AFTER 1, INTERVAL 2", &[6, 7]);
        check("END_AFTER 2", &[5, 6]);
        check("START 6, END_AFTER 3", &[6, 7]);
        check("END_DELAY 1", &[5, 6, 7, 8, 9]);
        check("START_DELAY 1", &[]);
    }

    #[test]
    fn what_is_outside_is_dropped_without_a_second_output() {
        let run = Rig::new("TimeFilter(6, 8)").packets(packets(&[5, 6, 8])).run();
        assert_eq!((run.bytes("o0").concat(), run.drops("e")), (vec![6], vec![(Reason::NoOutput, 2)]));
    }

    #[test]
    fn times_from_the_start_of_the_router() {
        let mut run = Rig::new("TimeFilter(START_DELAY 1, END_DELAY 3)").run();
        let base = SIMULATION_EPOCH / SECOND;
        assert_eq!(run.read("e.start"), format!("{}.000000", base + 1));
        assert_eq!(
            (run.read("e.end"), run.read("e.interval")),
            (format!("{}.000000", base + 3), "2.000000".into())
        );
    }

    #[test]
    fn the_end_calls_at_its_packet() {
        let text = "i :: TestIn -> c :: Counter -> e :: TimeFilter(END 7, END_CALL s.run $t) -> d :: Counter -> o0 :: TestOut;
            e[1] -> o1 :: TestOut;
            s :: Script(TYPE PASSIVE, print \"$args $(d.count)\", goto done $(ge $args 8), write e.extend_interval 1, label done);";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).packets(packets(&[5, 6, 7, 8, 9])).run();
            assert_eq!((run.bytes("o0").concat(), run.bytes("o1").concat()), (vec![5, 6, 7], vec![8, 9]));
        }
    }

    #[test]
    fn stops_the_driver() {
        let text = "i :: TestIn -> e :: TimeFilter(END 6, STOP true) -> o0 :: TestOut; m :: DriverManager(pause, write c.reset);
            Idle -> c :: Counter -> Discard;";
        let run = Rig::text(text).packets(packets(&[5, 6])).run();
        assert_eq!((run.bytes("o0").concat(), run.drops("e")), (vec![5], vec![(Reason::NoOutput, 1)]));
    }

    #[test]
    fn handlers_move_it() {
        let mut run = Rig::new("TimeFilter(START 6, END 8)").run();
        run.write("e.interval", "3").unwrap();
        assert_eq!(run.read("e.end"), "9.000000");
        run.write("e.extend_interval", "1").unwrap();
        assert_eq!(run.read("e.interval"), "4.000000");
        run.write("e.start", "7.5").unwrap();
        run.write("e.end", "8").unwrap();
        assert_eq!((run.read("e.start"), run.read("e.interval")), ("7.500000".into(), "0.500000".into()));
        assert!(run.write("e.end", "x").is_err());
    }

    #[test]
    fn arguments_exclude_each_other() {
        for (args, want) in [
            ("START 1, START_AFTER 2", "e: give START or START_AFTER, not both"),
            ("END 1, INTERVAL 2", "e: give END or INTERVAL, not both"),
            ("STOP true, END_CALL stop", "e: give STOP or END_CALL, not both"),
        ] {
            assert_eq!(Rig::new(&format!("TimeFilter({args})")).errors(), [want]);
        }
    }
}
