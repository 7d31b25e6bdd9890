// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ScheduleInfo
//!
//! `ScheduleInfo(ELEMENT SHARE, ...)`
//!
//! Says how often elements' tasks run in proportion to others.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `ELEMENT` name of an element with a task, and its `SHARE`, a number: a task with twice the share runs twice as often.
//!   A task that is not named has a share of 1; a share of 0 keeps it from running.
//!
//! **Drops:** none.
//!
//! ```click
//! s :: InfiniteSource(LIMIT 5, STOP true) -> Queue -> u :: Unqueue -> Discard;
//! ScheduleInfo(u 1.5, s 0.5);
//! ```
//!
//! See also: Script

use engine::args::Args;
use engine::{Class, DEFAULT_TICKETS, Element, InitCx, MAX_TICKETS};

/// The descriptor.
pub const CLASS: Class = Class::new("ScheduleInfo", "0", || Box::new(ScheduleInfo::default())).file(file!());

#[derive(Default)]
struct ScheduleInfo {
    shares: Vec<(String, f64)>,
}

impl Element for ScheduleInfo {
    fn configure(&mut self, args: &mut Args<'_>) {
        for given in args.rest() {
            let mut words = given.split_ascii_whitespace();
            match (words.next(), words.next().map(str::parse::<f64>), words.next()) {
                (Some(name), Some(Ok(share)), None) if (0.0..=1e6).contains(&share) => {
                    self.shares.push((name.to_owned(), share));
                }
                _ => args.error(format!("'{given}' should be an element's name and its share")),
            }
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        for (name, share) in &self.shares {
            if *share == 0.0 {
                cx.write_when_ready(format!("{name}.scheduled"), "false".to_owned());
            } else {
                let tickets = (share * f64::from(DEFAULT_TICKETS)).round().clamp(1.0, f64::from(MAX_TICKETS));
                cx.write_when_ready(format!("{name}.tickets"), tickets.to_string());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn shares_become_tickets() {
        let text = "s :: InfiniteSource(LIMIT 5) -> q :: Queue -> u :: Unqueue -> Discard; ScheduleInfo(s 0.5, u 0);";
        let mut run = Rig::text(text).run();
        assert_eq!(
            (run.read("s.tickets"), run.read("u.scheduled"), run.read("q.length")),
            ("512".into(), "false".into(), "5".into())
        );
    }

    #[test]
    fn tells_what_is_wrong() {
        assert_eq!(
            Rig::text("e :: ScheduleInfo(s);").errors(),
            ["e: 's' should be an element's name and its share"]
        );
        assert!(Rig::text("e :: ScheduleInfo(s 1);").run().printed().starts_with("e: s.tickets: "));
    }
}
