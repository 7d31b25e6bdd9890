// SPDX-License-Identifier: MIT OR Apache-2.0
//! # QuitWatcher
//!
//! `QuitWatcher(ELEMENT, ...)`
//!
//! Asks the driver to stop as soon as one of the elements is no longer scheduled. It looks every 10 ms.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `ELEMENT` name of an element with a `scheduled` handler: one that has a task.
//!
//! **Drops:** none.
//!
//! **Handlers:** none of its own.
//!
//! ```click
//! source :: InfiniteSource(LIMIT 5) -> Discard;
//! QuitWatcher(source);
//! ```
//!
//! See also: DriverManager, Script

use element::args::{Args, parse_bool};
use element::{Class, Cx, Element, HandlerRef, InitCx, OpenCx, Tasks};

/// Between two looks.
const PERIOD_NS: u64 = 10_000_000;

/// The descriptor.
pub const CLASS: Class = Class::new("QuitWatcher", "0/0", || Box::<QuitWatcher>::default())
    .serial("it watches by one timer")
    .file(file!());

#[derive(Default)]
struct QuitWatcher {
    names: Vec<String>,
    watched: Vec<HandlerRef>,
}

impl Element for QuitWatcher {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.names = args.rest();
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        for name in &self.names {
            let target = cx.resolve(&format!("{name}.scheduled")).map_err(|why| why.to_string())?;
            self.watched.push(target);
        }
        cx.set_timer_after(0, PERIOD_NS);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let rests = |cx: &mut Cx<'_>, target: &HandlerRef| {
            !cx.read_target(target, "").is_ok_and(|answer| parse_bool(answer.trim()) == Some(true))
        };
        if self.watched.iter().any(|target| rests(cx, target)) {
            cx.please_stop();
        } else {
            cx.set_timer_after(0, PERIOD_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn stops_when_a_task_rests() {
        let text = "s :: InfiniteSource(LIMIT 3) -> c :: Counter -> Discard; QuitWatcher(s); \
                    p :: Script(TYPE PASSIVE, export late 0); Script(wait 0.1, write p.set late 1)";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("c.count"), run.read("p.late")), ("3".into(), "0".into()));
    }

    #[test]
    fn what_cannot_be_watched_is_an_error() {
        let errors = Rig::text("Idle -> c :: Counter -> Discard; QuitWatcher(c)").errors();
        assert!(errors[0].contains("no handler named 'scheduled'"), "{errors:?}");
    }
}
