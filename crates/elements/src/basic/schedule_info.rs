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
//!   A task that is not named has a share of 1; a share of 0 keeps it from running. The share of a compound multiplies the shares of
//!   all elements inside.
//!
//! **Drops:** none.
//!
//! ```click
//! s :: InfiniteSource(LIMIT 5, STOP true) -> Queue -> u :: Unqueue -> Discard;
//! ScheduleInfo(u 1.5, s 0.5);
//! ```
//!
//! See also: Script

use element::args::Args;
use element::{Class, Element, InitCx};
use element::{DEFAULT_TICKETS, MAX_TICKETS};

/// The descriptor.
pub const CLASS: Class = Class::new("ScheduleInfo", "0", || Box::new(ScheduleInfo::default())).file(file!());

#[derive(Default)]
struct ScheduleInfo {
    shares: Vec<(String, f64)>,
}

/// The elements with tasks inside the compound of this name, as names seen from this element.
fn members(cx: &InitCx<'_>, name: &str) -> Vec<String> {
    let scope = cx.name().rfind('/').map_or("", |slash| &cx.name()[..=slash]);
    let prefix = format!("{scope}{name}/");
    let elements = cx.router().elements.iter();
    let inside = elements.filter(|e| e.name.starts_with(&prefix) && !e.place.tasks.is_empty());
    inside.map(|e| e.name[scope.len()..].to_owned()).collect()
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
        let named = self.shares.iter().map(|(name, share)| (name, members(cx, name), *share));
        let (plain, compounds): (Vec<_>, Vec<_>) = named.partition(|(_, inside, _)| inside.is_empty());
        let mut all: Vec<(String, f64)> =
            plain.into_iter().map(|(name, _, share)| (name.clone(), share)).collect();
        // What is said of a compound multiplies what is said of an element in it.
        for (_, inside, share) in compounds {
            for name in inside {
                match all.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, other)) => *other *= share,
                    None => all.push((name, share)),
                }
            }
        }
        for (name, share) in all {
            if share == 0.0 {
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
    fn a_compound_multiplies_the_shares_inside() {
        let text = "c :: { s :: InfiniteSource(LIMIT 5) -> q :: Queue -> u :: Unqueue -> Discard }; ScheduleInfo(c 2, c/s 0.25);";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("c/s.tickets"), run.read("c/u.tickets")), ("512".into(), "2048".into()));
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
