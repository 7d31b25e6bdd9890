// SPDX-License-Identifier: MIT OR Apache-2.0
//! # BalancedThreadSched
//!
//! `BalancedThreadSched([INTERVAL, INCREASING])`
//!
//! Lets tasks move from worker to worker so that no worker has much more to do than another: it switches adaptive placement on,
//! as 'junctor run --adaptive' does. Every period the router looks at what each task cost and how many packets changed workers,
//! packs tasks onto workers, and moves some if that would help enough. Packets of a flow keep their order, and nothing is lost.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `INTERVAL` milliseconds between two looks, default 1000, 10 at least.
//! * `INCREASING` boolean, default true. In Click it says whether cheap tasks are moved before dear ones. Here moves are found by a
//!   search that has no such order, and it is read for compatibility only.
//!
//! Tasks that StaticThreadSched or '--place' speak of stay where they are, as do tasks of a device with several queues, and those
//! whose packets go different ways depending on the worker that brings them.
//!
//! **Handlers:** those of the router: `balancer.log` says what was moved, when, with what loads, and what gain was predicted and observed.
//! `balancer.placement` where each task runs, what it costs, and why it stays; `balancer.trying` whether tasks are where they are only for a trial of
//! one period; `balancer.active`, `balancer.period` and `balancer.handoff_ns` can be written.
//!
//! **Cores:** with one worker, and on simulated time (where nothing costs anything), it does nothing.
//!
//! **Drops:** none.
//!
//! ```click
//! BalancedThreadSched(INTERVAL 500);
//! InfiniteSource(LIMIT 6, STOP true) -> Queue -> Unqueue -> Discard;
//! ```
//!
//! See also: StaticThreadSched, ScheduleInfo, Spread

use element::args::Args;
use element::{Class, Element, InitCx};

/// The descriptor.
pub const CLASS: Class =
    Class::new("BalancedThreadSched", "0/0", || Box::new(BalancedThreadSched::default())).file(file!());

/// The shortest period, in milliseconds.
const LEAST: u32 = 10;

#[derive(Default)]
struct BalancedThreadSched {
    interval_ms: u32,
}

impl Element for BalancedThreadSched {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.interval_ms = args.positional("INTERVAL", 1000);
        let _: bool = args.positional("INCREASING", true);
        if self.interval_ms < LEAST {
            args.error(format!("INTERVAL must be at least {LEAST} milliseconds, not {}", self.interval_ms));
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.write_when_ready("balancer.period".into(), format!("{}ms", self.interval_ms));
        cx.write_when_ready("balancer.active".into(), "true".into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const TEXT: &str = "i :: TestIn -> q :: Queue -> u :: Unqueue -> Discard;";

    #[test]
    fn switches_the_balancer_on() {
        let check = |config: &str, want: [&str; 2]| {
            let mut run = Rig::text(&format!("{TEXT} {config}")).workers(2).ready();
            assert_eq!(["balancer.active", "balancer.period"].map(|h| run.read(h)), want, "{config}");
        };
        check("", ["false", "1s"]);
        check("BalancedThreadSched", ["true", "1s"]);
        check("BalancedThreadSched(250, false)", ["true", "250ms"]);
        check("BalancedThreadSched(INTERVAL 20)", ["true", "20ms"]);
        let mut run = Rig::text(&format!("{TEXT} StaticThreadSched(u 1)")).workers(2).ready();
        assert_eq!(run.read("balancer.placement"), "i 0\nu 1 fixed: as configured\n");
        for (handler, value) in [
            ("balancer.period", "1ms"),
            ("balancer.active", "so so"),
            ("balancer.handoff_ns", "-1"),
            ("balancer.handoff_ns", "1 2 3"),
        ] {
            assert!(run.write(handler, value).is_err(), "{handler}");
        }
        assert_eq!(
            (run.write("balancer.handoff_ns", "20"), run.read("balancer.handoff_ns")),
            (Ok(()), "20.0 20.0 0.0 0.0 0.0 0.0".into())
        );
        assert_eq!(
            (run.write("balancer.active", "true"), run.read("balancer.active")),
            (Ok(()), "true".into())
        );
    }

    #[test]
    fn who_hands_what_to_whom_is_counted_in_timed_runs() {
        counts_who_hands_what_to_whom("");
    }

    /// With many queues, each task has those looked at that it may reach.
    #[test]
    fn it_is_counted_among_many_queues() {
        counts_who_hands_what_to_whom(&"Idle -> Queue -> Unqueue -> Discard;".repeat(300));
    }

    fn counts_who_hands_what_to_whom(others: &str) {
        let run = Rig::text(&format!(
            "a :: InfiniteSource(LIMIT 60000, BURST 30) -> Null -> q :: Queue -> Null -> u :: Unqueue(BURST 64) -> Discard;
             b :: InfiniteSource(LIMIT 20000, BURST 10) -> q;
             c :: InfiniteSource(LIMIT 20000, BURST 10) -> r :: Queue -> v :: Unqueue -> Discard; {others}",
        ))
        .burst(64)
        .run();
        let report = run.report();
        let handed = |task: &str, queue: &str| {
            let queue = run.index(queue);
            let found = report.elements[run.index(task)].handed.iter().find(|(q, _)| *q == queue);
            found.map(|(_, handed)| *handed).unwrap_or_default()
        };
        for (task, queue, burst) in [("a", "q", 30), ("b", "q", 10), ("c", "r", 10)] {
            let (given, taken) = (handed(task, queue).given, handed(task, queue).taken);
            assert!(given.batches >= 10 && given.packets == burst * given.batches, "{task}: {given:?}");
            assert_eq!(taken.packets, 0, "{task}");
        }
        for (task, queue) in [("u", "q"), ("v", "r")] {
            let handed = handed(task, queue);
            assert!(handed.taken.packets > 0 && handed.given.packets == 0, "{task}: {handed:?}");
        }
        for (task, queue) in [("a", "r"), ("b", "r"), ("c", "q"), ("u", "r"), ("v", "q")] {
            assert_eq!(handed(task, queue), engine::Handed::default(), "{task}, {queue}");
        }
    }

    #[test]
    fn intervals_must_be_long_enough() {
        let why = "b: INTERVAL must be at least 10 milliseconds, not 5";
        assert_eq!(Rig::text(&format!("{TEXT} b :: BalancedThreadSched(5);")).errors(), [why]);
    }
}
