// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RatedUnqueue, BandwidthRatedUnqueue
//!
//! `RatedUnqueue(RATE [, keywords BURST_DURATION, BURST_SIZE, ACTIVE])`
//! `BandwidthRatedUnqueue(RATE [, keywords BURST_DURATION, BURST_BYTES, ACTIVE])`
//!
//! Pulls packets at a limited rate and pushes them on.
//!
//! **Ports:** 1 pull input, 1 push output.
//!
//! **Arguments**
//! * `RATE` packets per second; of BandwidthRatedUnqueue bytes per second, or with a unit such as `8Mbps`.
//! * `BURST_DURATION` seconds, or with a unit: what RATE would give in so long may pass at once; default 20 ms.
//! * `BURST_SIZE` packets, or `BURST_BYTES` bytes, that may pass at once, instead of BURST_DURATION. At least 1 packet may.
//! * `ACTIVE` boolean, default true.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `rate` read/write: the argument; writing it lets the burst be what it gives in 20 ms.
//! * `active` read/write: whether it pulls.
//! * `config` read: the rate. `calls` read: how often its task ran, and with what result.
//!
//! A bucket of tokens fills at RATE, and a packet takes a token, or as many as it has bytes. A limit in bytes lets a
//! packet pass when the bucket is not in debt, so the last packet of a burst may go beyond it.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> RatedUnqueue(1000) -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> BandwidthRatedUnqueue(10MBps) -> Discard;
//! ```
//!
//! See also: Unqueue, Shaper, RatedSplitter, DelayUnqueue

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, Handler, InitCx, OpenCx, Rehearsal, Rehearsed, Tasks, carries, handlers};
use packet::Packet;

use crate::tools::{Limit, rest_until};

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/1", make)
        .processing("l/h")
        .handlers(HANDLERS)
        .hot_swap::<RatedUnqueue>()
        .rehearsal::<RatedUnqueue>()
        .file(file!())
}

const HANDLERS: &[Handler] = handlers! { RatedUnqueue:
    both "rate" => |unqueue| unqueue.limit.rate_text(), |unqueue, cx, text: &str| {
        unqueue.limit.set_rate("rate", text, cx.now())?;
        cx.schedule_if(unqueue.active);
    };
    both "active" => .active |unqueue, cx, active: bool| {
        unqueue.active = active;
        cx.schedule_if(active);
    };
    read "calls" => |unqueue| format!(
        "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
        unqueue.runs, unqueue.empty_runs, unqueue.pushes, unqueue.failed_pulls
    );
    read "config" => |unqueue| unqueue.limit.rate_text();
};

/// The descriptor of the limit in packets.
pub const PACKETS: Class = class("RatedUnqueue", || Box::new(RatedUnqueue::default()));
/// The descriptor of the limit in bytes.
pub const BYTES: Class =
    class("BandwidthRatedUnqueue", || Box::new(RatedUnqueue { bytes: true, ..RatedUnqueue::default() }));

#[derive(Default)]
struct RatedUnqueue {
    bytes: bool,
    limit: Limit,
    active: bool,
    runs: Count,
    empty_runs: Count,
    pushes: Count,
    failed_pulls: Count,
}

impl Element for RatedUnqueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.limit = Limit::from_args(args, self.bytes);
        self.active = args.keyword("ACTIVE", true);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.runs += 1;
        let now = cx.now();
        self.limit.refill(now);
        if self.limit.allowed() == 0 {
            self.empty_runs += 1;
            rest_until(cx, self.limit.ready_at());
            return false;
        }
        let burst = cx.burst();
        let batch = self.limit.pull(cx, burst);
        if batch.is_empty() {
            self.failed_pulls += 1;
            self.empty_runs += 1;
            return false;
        }
        self.pushes += batch.len() as u64;
        cx.push(0, batch);
        true
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if self.active {
            cx.schedule();
        }
    }
}

impl Rehearsal for RatedUnqueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(RatedUnqueue: limit, runs, empty_runs, pushes, failed_pulls; anew bytes, active);

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    /// When each packet passes, in milliseconds.
    fn times(element: &str, length: usize, n: usize) -> Vec<u64> {
        let text = format!(
            "InfiniteSource(LENGTH {length}, LIMIT {n}) -> Queue(10) -> {element} -> SetTimestamp -> o :: TestOut;"
        );
        let at = |burst| {
            let out = Rig::text(&text).burst(burst).run().out("o");
            out.iter().map(|p| (p.timestamp_ns() - SIMULATION_EPOCH) / (SECOND / 1000)).collect::<Vec<_>>()
        };
        assert_eq!(at(1), at(32), "{element}");
        at(1)
    }

    #[test]
    fn packets_pass_at_exact_times() {
        assert_eq!(times("RatedUnqueue(2)", 10, 5), [0, 500, 1000, 1500, 2000]);
        assert_eq!(times("RatedUnqueue(4, BURST_SIZE 3)", 10, 6), [0, 0, 0, 250, 500, 750]);
        assert_eq!(times("RatedUnqueue(4, BURST_DURATION 500ms)", 10, 4), [0, 0, 250, 500]);
        // A full bucket of 50 at once, then two a second.
        let count = |element: &str| times(element, 10, 1100).iter().filter(|t| **t < 10_000).count();
        assert_eq!(count("RatedUnqueue(RATE 2, BURST_SIZE 50)"), 69);
        assert_eq!(count("RatedUnqueue(RATE 2, BURST_DURATION 25)"), 69);
        assert_eq!(count("RatedUnqueue(RATE 100, BURST_SIZE 1)"), 1000);
    }

    #[test]
    fn bytes_pass_at_exact_times() {
        // 4 bytes of burst: the second packet waits for 96.
        assert_eq!(times("BandwidthRatedUnqueue(200Bps)", 100, 4), [0, 480, 980, 1480]);
        assert_eq!(times("BandwidthRatedUnqueue(1600bps, BURST_BYTES 200)", 100, 5), [0, 0, 0, 500, 1000]);
    }

    #[test]
    fn handlers_change_it() {
        let text = "InfiniteSource(LIMIT 5) -> q :: Queue -> e :: RatedUnqueue(0, ACTIVE false) -> c :: Counter -> Discard;";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("e.rate"), run.read("e.active")), ("0".into(), "false".into()));
        run.write("e.active", "true").unwrap();
        let mut run = run.again();
        assert_eq!(run.read("c.count"), "1");
        run.write("e.rate", "10").unwrap();
        assert!(run.write("e.rate", "x").is_err());
        assert_eq!(run.again().read("c.count"), "5");
    }

    #[test]
    fn refuses_two_bursts() {
        let errors =
            Rig::text("Idle -> e :: RatedUnqueue(1, BURST_SIZE 1, BURST_DURATION 1) -> Discard;").errors();
        assert_eq!(errors, ["e: give BURST_DURATION or BURST_SIZE, not both"]);
        let errors = Rig::text("Idle -> e :: RatedUnqueue -> Discard;").errors();
        assert_eq!(errors, ["e: missing argument RATE: a whole number"]);
    }
}
