// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimedUnqueue, Burster
//!
//! `TimedUnqueue(INTERVAL [, BURST])`, `Burster(INTERVAL [, BURST])`
//!
//! Pull a burst of packets at regular intervals and push it on.
//!
//! **Ports:** 1 pull input, 1 push output.
//!
//! **Arguments**
//! * `INTERVAL` seconds, or with a unit, from one burst to the next.
//! * `BURST` packets in a burst at most; default 1, of Burster 8.
//!
//! **Drops:** none.
//!
//! After an interval without a packet the next one is passed as soon as it comes.
//!
//! ```click
//! InfiniteSource(LIMIT 20, STOP true) -> Queue -> Burster(1ms) -> Discard;
//! ```
//!
//! See also: Unqueue, RatedUnqueue

use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::{Class, Cx, Element, InitCx, OpenCx, Rehearsal, Rehearsed, Tasks};
use packet::{Batch, Packet};

/// The descriptor.
pub const TIMED_UNQUEUE: Class =
    Class::new("TimedUnqueue", "1/1", || Box::new(TimedUnqueue { burst: 1, interval: 0, due: 0 }))
        .processing("l/h")
        .rehearsal::<TimedUnqueue>()
        .file(file!());
/// The descriptor with another default.
pub const BURSTER: Class =
    Class::new("Burster", "1/1", || Box::new(TimedUnqueue { burst: 8, interval: 0, due: 0 }))
        .processing("l/h")
        .rehearsal::<TimedUnqueue>()
        .file(file!());

struct TimedUnqueue {
    burst: usize,
    interval: Nanos,
    /// When the next burst may go.
    due: Nanos,
}

impl Element for TimedUnqueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.interval = args.required::<Duration>("INTERVAL").as_nanos() as Nanos;
        self.burst = args.positional("BURST", self.burst);
        if args.errors().is_empty() && (self.burst == 0 || self.interval == 0) {
            args.error("INTERVAL and BURST must be more than 0");
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = Batch::new();
        while batch.len() < self.burst {
            let mut more = cx.pull(0, self.burst - batch.len());
            if more.is_empty() {
                break;
            }
            batch.append(&mut more);
        }
        if batch.is_empty() {
            return false;
        }
        // By the schedule while packets come; a pause begins a new one.
        let now = cx.now();
        let next = self.due.saturating_add(self.interval);
        self.due = if next > now { next } else { now + self.interval };
        cx.set_timer(0, self.due);
        cx.unschedule();
        cx.push(0, batch);
        true
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        cx.schedule();
    }
}

impl Rehearsal for TimedUnqueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    #[test]
    fn bursts_go_by_the_clock() {
        for (element, want) in [
            ("TimedUnqueue(0.5)", vec![0, 500, 1000, 1500, 2000]),
            ("TimedUnqueue(0.5, 2)", vec![0, 0, 500, 500, 1000]),
            ("Burster(1)", vec![0; 5]),
        ] {
            let text = format!("i :: TestIn -> Queue -> {element} -> SetTimestamp -> o :: TestOut;");
            for burst in [1, 32] {
                let run = Rig::text(&text).burst(burst).inputs(&[b"a", b"b", b"c", b"d", b"e"]).run();
                let at = |p: &packet::Packet| (p.timestamp_ns() - SIMULATION_EPOCH) / (SECOND / 1000);
                // With burst 1 the input comes one by one, each in its own round.
                let got: Vec<u64> = run.out("o").iter().map(at).collect();
                if burst == 32 {
                    assert_eq!(got, want, "{element}");
                }
                assert_eq!((got.len(), got[0]), (5, 0), "{element}");
            }
        }
    }

    #[test]
    fn refuses_nothing() {
        let errors = Rig::text("Idle -> e :: TimedUnqueue(1, 0) -> Discard;").errors();
        assert_eq!(errors, ["e: INTERVAL and BURST must be more than 0"]);
    }
}
