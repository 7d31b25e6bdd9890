// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PokeHandlers
//!
//! `PokeHandlers([DELAY | HANDLER [VALUE] | quit | loop], ...)`
//!
//! Calls write handlers one after the other, with pauses. Script can do this and more.
//!
//! **Ports:** none.
//!
//! **Arguments:** each is one directive.
//! * `DELAY` time to wait: seconds, or with a unit.
//! * `ELEMENT.HANDLER [VALUE]` write handler to call.
//! * `quit` asks the driver to stop; `loop` begins again. Directives behind them have no effect.
//!
//! **Drops:** none.
//!
//! **Handlers:** none of its own.
//!
//! ```click
//! source :: InfiniteSource(LIMIT 10) -> Discard;
//! PokeHandlers(0.1, source.active false, 50ms, source.reset, quit);
//! ```
//!
//! See also: Script, DriverManager

use element::args::Args;
use element::{Class, Cx, Element, InitCx, OpenCx, Tasks, parse_duration};
use lang::config::shift_word;

/// Time between two rounds of a loop without any delay of its own, which would else keep the worker from all else.
const LEAST_ROUND_NS: u64 = 1_000_000;

/// The descriptor.
pub const CLASS: Class = Class::new("PokeHandlers", "0/0", || Box::<PokeHandlers>::default())
    .serial("its calls follow one timetable")
    .file(file!());

#[derive(Debug, PartialEq, Eq)]
enum Directive {
    Delay(u64),
    Write(String, String),
    Quit,
    Loop,
}

#[derive(Default)]
struct PokeHandlers {
    directives: Vec<Directive>,
    position: usize,
}

fn directive(text: &str) -> Option<Directive> {
    let (first, rest) = shift_word(text);
    match (first, rest) {
        ("quit", "") => Some(Directive::Quit),
        ("loop", "") => Some(Directive::Loop),
        _ if first.contains('.') && first.starts_with(|c: char| !c.is_ascii_digit() && c != '.') => {
            Some(Directive::Write(first.to_owned(), rest.to_owned()))
        }
        _ => {
            let ns = parse_duration(text).and_then(|time| u64::try_from(time.as_nanos()).ok());
            ns.map(Directive::Delay)
        }
    }
}

impl Element for PokeHandlers {
    fn configure(&mut self, args: &mut Args<'_>) {
        for (i, text) in args.rest().into_iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            match directive(&text) {
                Some(directive) => self.directives.push(directive),
                None => args.error(format!(
                    "argument {}: expected a time, ELEMENT.HANDLER [VALUE], quit or loop, not '{text}'",
                    i + 1
                )),
            }
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.set_timer_after(0, 0);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        while let Some(directive) = self.directives.get(self.position) {
            self.position += 1;
            match directive {
                Directive::Delay(ns) => return cx.set_timer_after(timer, *ns),
                Directive::Write(handler, value) => {
                    if let Err(why) = cx.write_handler(handler, value) {
                        cx.print(&format!("{}: {handler}: {why}", cx.name()));
                    }
                    cx.settle();
                }
                Directive::Quit => {
                    self.position = self.directives.len();
                    cx.please_stop();
                }
                Directive::Loop => {
                    self.position = 0;
                    let delays = self.directives.iter().any(|d| matches!(d, Directive::Delay(1..)));
                    return cx.set_timer_after(timer, if delays { 0 } else { LEAST_ROUND_NS });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn directives() {
        let check = |text: &str, want: Option<Directive>| assert_eq!(directive(text), want, "{text}");
        check("1.5", Some(Directive::Delay(1_500_000_000)));
        check(".5", Some(Directive::Delay(500_000_000)));
        check("10 ms", Some(Directive::Delay(10_000_000)));
        check("a.b", Some(Directive::Write("a.b".into(), String::new())));
        check("a/b.c 1 2", Some(Directive::Write("a/b.c".into(), "1 2".into())));
        check("quit", Some(Directive::Quit));
        check("quit now", None);
        check("quti", None);
    }

    #[test]
    fn writes_in_time_and_again() {
        let text = "t :: Script(TYPE PASSIVE, export log \"\", set log \"$log $(now_steady)\"); \
                    PokeHandlers(t.run, 1, t.run, 0.5, t.nothing, loop); Script(wait 2, stop)";
        let mut run = Rig::text(text).run();
        assert_eq!(run.read("t.log").matches('.').count(), 3);
        assert_eq!(run.printed(), "PokeHandlers@2: t.nothing: no handler named 'nothing'\n");
    }

    #[test]
    fn quits_and_reports_what_it_does_not_know() {
        let mut run =
            Rig::text("c :: Script(TYPE PASSIVE, export n 0); PokeHandlers(1, quit, c.set n 1)").run();
        assert_eq!(run.read("c.n"), "0");
        let errors = Rig::text("PokeHandlers(1, , soon, quit)").errors();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains("argument 3"), "{errors:?}");
    }
}
