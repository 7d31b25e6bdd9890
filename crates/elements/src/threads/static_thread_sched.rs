// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StaticThreadSched
//!
//! `StaticThreadSched(ELEMENT THREAD [THREAD...], ... [, keywords WRAP, STRICT])`
//!
//! Says which worker runs an element's task. Tasks that nobody speaks of go where the router puts them: sources to the
//! worker with the fewest tasks, what fetches packets to where they come from.
//!
//! **Ports:** none.
//!
//! **Arguments:** one for each element:
//! * `ELEMENT` its name; within a compound element, names of that compound are found first. The name of a compound stands for all elements inside.
//! * `THREAD` number of the worker, from 0. An element with a task for each queue of a device may be given several.
//!
//! **Keywords**
//! * `WRAP` boolean, default false: takes numbers modulo the number of workers, so that a configuration for many runs on
//!   few. Otherwise a number without a worker is said and taken for 0, as in Click.
//! * `STRICT` boolean, default false: makes it an error if there is no such worker, or an element has no task. This is how
//!   'junctor run --place' asks. That there is no such element always is one.
//!
//! With several of these, the later one wins where they speak of the same element. The `home_thread` handler of each element with a task says where
//! it runs. Written, it moves the task while the router runs: to a worker's number (several for an element with several tasks), which then holds
//! against all who would balance loads, or `any`, which leaves it to them. Packets of a flow keep their order, and what elements hold, and what was
//! written to them, stays.
//!
//! **Drops:** none.
//!
//! ```click
//! src :: InfiniteSource(LIMIT 6, STOP true) -> Queue -> u :: Unqueue -> Discard;
//! StaticThreadSched(src 0, u 1, WRAP true);
//! ```
//!
//! See also: BalancedThreadSched, Spread, HashDemux, CPUSwitch, ScheduleInfo

use element::args::Args;
use element::{Class, Element, Home, InitCx, PlacementRules};

/// The descriptor.
pub const CLASS: Class = Class::new("StaticThreadSched", "0/0", || Box::new(StaticThreadSched::default()))
    .placement_rules::<StaticThreadSched>()
    .file(file!());

#[derive(Default)]
struct StaticThreadSched {
    homes: Vec<(String, Vec<usize>)>,
    wrap: bool,
    strict: bool,
}

impl StaticThreadSched {
    fn worker(&self, thread: usize, workers: usize) -> usize {
        match thread {
            _ if thread < workers || self.strict => thread,
            _ if self.wrap => thread % workers,
            _ => 0,
        }
    }
}

impl Element for StaticThreadSched {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.wrap = args.keyword("WRAP", false);
        self.strict = args.keyword("STRICT", false);
        for arg in args.rest() {
            let words = lang::config::split_words(&arg);
            let threads: Option<Vec<usize>> = words.iter().skip(1).map(|w| w.parse().ok()).collect();
            match (words.first(), threads) {
                (Some(element), Some(threads)) if !threads.is_empty() => {
                    let name = String::from_utf8_lossy(&lang::config::unquote(element)).into_owned();
                    self.homes.push((name, threads));
                }
                _ => args.error(format!("'{arg}' should be ELEMENT THREAD, the thread a number from 0")),
            }
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let workers = cx.router().first_workers();
        for (element, threads) in self.homes.iter().filter(|_| !self.wrap) {
            if let Some(thread) = threads.iter().find(|t| **t >= workers) {
                let (name, last) = (cx.name(), workers - 1);
                cx.print(&format!(
                    "{name}: there is no thread {thread} for '{element}', the last is {last}; it runs on 0"
                ));
            }
        }
        Ok(())
    }
}

impl PlacementRules for StaticThreadSched {
    fn homes(&self, workers: usize) -> Vec<Home> {
        let home = |(element, threads): &(String, Vec<usize>)| {
            let mut seen = Vec::new();
            for worker in threads.iter().map(|t| self.worker(*t, workers)) {
                // Two of its tasks on one worker are one.
                if !seen.contains(&worker) {
                    seen.push(worker);
                }
            }
            Home { element: element.clone(), workers: seen, strict: self.strict }
        };
        self.homes.iter().map(home).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const TEXT: &str = "i :: TestIn -> q :: Queue -> u :: Unqueue -> d :: Discard; j :: TestIn -> d;";

    fn homes(more: &str, workers: usize) -> ([String; 3], String) {
        let mut run = Rig::text(&format!("{TEXT} {more}")).workers(workers).ready();
        (["i", "j", "u"].map(|e| run.read(&format!("{e}.home_thread"))), run.printed())
    }

    #[test]
    fn tasks_run_where_they_are_told_to() {
        let check = |more: &str, workers, want: [usize; 3]| {
            let (found, printed) = homes(more, workers);
            assert_eq!(found, want.map(|w| w.to_string()), "{more}");
            assert_eq!(printed, "", "{more}");
        };
        check("", 3, [0, 1, 0]);
        check("StaticThreadSched(u 2)", 3, [0, 1, 2]);
        check("StaticThreadSched(i 2, j 2, u 0)", 3, [2, 2, 0]);
        // Elements that are not named go where there is room: j to the other worker than i, u where its packets come from.
        check("StaticThreadSched(i 1)", 2, [1, 0, 1]);
        // The later one wins, and says nothing of the others.
        check("StaticThreadSched(i 1, j 0); StaticThreadSched(i 2)", 3, [2, 0, 2]);
        check("StaticThreadSched(i 5, j 4, u 3, WRAP true)", 2, [1, 0, 1]);
        // A compound's name means all that is inside.
        let inside = "c :: { k :: TestIn -> Discard }; StaticThreadSched(c 2)";
        let mut run = Rig::text(&format!("{TEXT} {inside}")).workers(3).ready();
        assert_eq!(run.read("c/k.home_thread"), "2");
        // An element without task is nobody's to run, and not wrong to name.
        check("StaticThreadSched(d 1, q 1)", 2, [0, 1, 0]);
    }

    #[test]
    fn a_thread_that_is_not_there_is_said_and_taken_for_the_first() {
        let (found, printed) = homes("s :: StaticThreadSched(u 7, j 1)", 2);
        assert_eq!(found, ["0", "1", "0"]);
        assert_eq!(printed, "s: there is no thread 7 for 'u', the last is 1; it runs on 0\n");
    }

    #[test]
    fn names_are_those_of_the_compound_around() {
        let text = "elementclass C { s :: TestIn -> Discard; StaticThreadSched(s 2, t 1) }
                    s :: TestIn -> Discard; t :: TestIn -> Discard; c :: C;";
        let mut run = Rig::text(text).workers(3).ready();
        let found = ["c/s", "t", "s"].map(|e| run.read(&format!("{e}.home_thread")));
        assert_eq!(found, ["2", "1", "0"]);
    }

    #[test]
    fn wishes_that_cannot_be_are_errors() {
        let check = |config: &str, want: &str| {
            let text = format!("{TEXT} s :: StaticThreadSched({config});");
            assert_eq!(Rig::text(&text).workers(2).errors(), [want], "{config}");
        };
        check("u", "s: 'u' should be ELEMENT THREAD, the thread a number from 0");
        check("u -1", "s: 'u -1' should be ELEMENT THREAD, the thread a number from 0");
        check("v 1", "'s' places the task of 'v', and there is no such element");
        check("d 1, STRICT true", "'s' places the task of 'd', which has none");
        check("u 2, STRICT true", "'s' places the task of 'u' on worker 2, and the last one is 1");
        check("u 0 1", "'s' places the task of 'u' on 2 workers, and it has 1");
    }
}
