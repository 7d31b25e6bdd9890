// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimedSink
//!
//! `TimedSink([INTERVAL])`
//!
//! Fetches a packet at regular intervals and discards it.
//!
//! **Ports:** 1 pull input.
//!
//! **Arguments**
//! * `INTERVAL` seconds, or with a unit, between packets, and before the first one; default 0.5.
//!
//! **Drops:** `discarded`, every packet: that is its purpose.
//!
//! **Handlers**
//! * `interval` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5) -> Queue -> TimedSink(1ms);
//! Script(wait 10ms, stop);
//! ```
//!
//! See also: Discard, TimedSource

use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::{Class, Cx, Element, HandlerError, InitCx, OpenCx, Reason, Tasks, handlers};

use crate::tools::interval;

/// The descriptor.
pub const CLASS: Class = Class::new("TimedSink", "1/0", || Box::new(TimedSink::default()))
    .processing("l/h")
    .handlers(handlers! { TimedSink:
        both "interval" => |sink| interval(sink.interval), |sink, cx, time: Duration| {
            sink.set(time).map_err(HandlerError::Failed)?;
            sink.due = cx.now();
            sink.wait(cx);
        };
    })
    .file(file!());

#[derive(Default)]
struct TimedSink {
    interval: Nanos,
    /// When the timer was last to expire.
    due: Nanos,
}

impl TimedSink {
    fn set(&mut self, interval: Duration) -> Result<(), String> {
        match interval.as_nanos() as Nanos {
            0 => Err("INTERVAL must be more than 0".into()),
            ns => {
                self.interval = ns;
                Ok(())
            }
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>) {
        self.due = (self.due + self.interval).max(cx.now());
        cx.set_timer(0, self.due);
    }
}

impl Element for TimedSink {
    fn configure(&mut self, args: &mut Args<'_>) {
        let interval = args.positional("INTERVAL", Duration::from_millis(500));
        if let Err(why) = self.set(interval) {
            args.error(why);
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.due = cx.now();
        self.wait(cx);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let batch = cx.pull(0, 1);
        cx.drop_batch(Reason::Discarded, batch);
        self.wait(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn takes_one_at_a_time() {
        let text = "InfiniteSource(LIMIT 9) -> q :: Queue -> e :: TimedSink(1); TimedSource(3.5, LIMIT 1) -> Counter(COUNT_CALL 1 stop) -> Discard;";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("q.length"), run.read("e.interval")), ("6".into(), "1s".into()));
        assert!(run.write("e.interval", "0").is_err() && run.write("e.interval", "20ms").is_ok());
        assert_eq!(Rig::text("Idle -> e :: TimedSink(0);").errors(), ["e: INTERVAL must be more than 0"]);
    }
}
