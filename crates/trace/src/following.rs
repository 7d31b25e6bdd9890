// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that come through the router while it is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use packet::followed::NUMBERS;

use crate::{Error, Output};
use client::Client;
use observe::fetch;
use observe::records::{Event, Line, Order, Step};
use observe::watched::{Watched, watch_ended};

/// How long packets may stand still when no more are to come, or can be followed.
const LINGER: Duration = Duration::from_secs(2);

/// Packets that are followed if nothing else is said.
const COUNT: u64 = 10;

/// Which packets are followed.
#[derive(Clone, Debug)]
pub struct Following {
    /// Which, as for tcpdump; any if it is empty.
    pub filter: String,
    /// From which element and port on, if not from where they come into the router.
    pub at: Option<String>,
    /// How many; a usual number if it is left out.
    pub count: Option<u64>,
    /// For how long; without it until all have come and ended, or stand still.
    pub time: Option<Duration>,
}

/// How many of the numbers that packets are followed by others have.
#[derive(Clone, Copy)]
struct Elsewhere {
    /// Who follow packets.
    others: u32,
    /// Packets that were still inside when the session that followed them ended.
    left: u32,
}

/// Packets that have not been printed.
#[derive(Default)]
struct Followed {
    steps: BTreeMap<u64, Vec<Step>>,
    left: BTreeMap<u64, Vec<String>>,
    begun: u64,
    printed: u64,
    /// Packets that match are passed over at the moment.
    full: Option<Elsewhere>,
    /// Who had the numbers when packets were passed over for the last time.
    last_full: Option<Elsewhere>,
    /// It has been said that no more can be followed, and that none comes.
    told_full: bool,
    told_waiting: bool,
    out: Output,
}

/// Follows packets until what was asked for has been seen.
///
/// # Errors
/// The router, or that no packet could be followed.
pub fn follow(wanted: &Following, mut client: Client, out: Output) -> Result<(), Error> {
    let (filter, at, count) = (wanted.filter.clone(), wanted.at.clone(), wanted.count.unwrap_or(COUNT));
    let session = fetch::begin(&mut client, &Order::Trace { filter, at, count })?;
    let mut watched = Watched::new(client, session);
    let until = wanted.time.map(|time| Instant::now() + time);
    let mut followed = Followed { out, ..Followed::default() };
    let (mut last, mut why) = (Instant::now(), "");
    loop {
        let lines = match watched.more() {
            Ok(lines) => lines,
            Err(why) => {
                followed.print_rest();
                return Err(watch_ended(why).into());
            }
        };
        if !lines.is_empty() {
            last = Instant::now();
        }
        for line in lines {
            if let Line::End { lost, passed_over } = line {
                return followed.end(count, (lost, passed_over), why);
            }
            followed.take(line);
        }
        let still = last.elapsed() >= LINGER;
        if still {
            followed.say_what_stands_still();
        }
        let ended = match until {
            _ if !followed.out.takes_more() => "",
            _ if watched.is_stopped() => "interrupted",
            Some(until) if Instant::now() >= until => "the time is over",
            None if still && followed.expects_none(count) => "nothing moves any more",
            None if still => {
                followed.say_what_is_waited_for(wanted, count);
                continue;
            }
            _ => continue,
        };
        why = if why.is_empty() { ended } else { why };
        watched.stop();
    }
}

/// Where a step leaves a copy; nothing if that is its end.
fn place(step: &Step) -> Option<String> {
    match &step.event {
        Event::Input { .. } => Some(format!("in {}", step.element)),
        Event::Output { to, .. } => Some(format!("on the way to {to}")),
        Event::Held { .. } => Some(format!("held by {}", step.element)),
        _ => None,
    }
}

impl Followed {
    fn take(&mut self, line: Line) {
        match line {
            Line::Step(step) => {
                if step.packet > self.begun {
                    (self.begun, self.full) = (step.packet, None);
                }
                self.steps.entry(step.packet).or_default().push(step);
            }
            Line::Done { packet } => {
                self.full = None;
                self.print(packet);
            }
            Line::Full { others, left } => {
                self.full = Some(Elsewhere { others, left });
                self.last_full = self.full;
            }
            Line::Left { packet, place } => self.left.entry(packet).or_default().push(place),
            Line::Note { text } => errln!("junctor: {text}"),
            _ => {}
        }
    }

    /// Whether no packet is to come that can be followed.
    fn expects_none(&self, count: u64) -> bool {
        self.begun >= count || self.full.is_some()
    }

    /// Says once why packets that come are not followed.
    fn say_what_stands_still(&mut self) {
        let Some(elsewhere) = self.full.filter(|_| !self.told_full) else { return };
        self.told_full = true;
        errln!(
            "junctor: as many packets as can be are being followed ({}), and nothing has moved for {} seconds: what matches is passed over meanwhile",
            self.who(elsewhere),
            LINGER.as_secs()
        );
    }

    /// Says once that no packet comes.
    fn say_what_is_waited_for(&mut self, wanted: &Following, count: u64) {
        if std::mem::replace(&mut self.told_waiting, true) {
            return;
        }
        let what = match &wanted.filter {
            filter if filter.trim().is_empty() => "packets".to_owned(),
            filter => format!("packets that match '{filter}'"),
        };
        let at = wanted.at.as_ref().map_or(String::new(), |at| format!(" at {at}"));
        errln!(
            "junctor: waiting for {what}{at}, of which {} of {count} {} come; Ctrl-C ends it",
            self.begun,
            if self.begun == 1 { "has" } else { "have" }
        );
    }

    /// Who follows the packets that are being followed, and where they are.
    fn who(&self, Elsewhere { others, left }: Elsewhere) -> String {
        let mut all = Vec::new();
        if !self.steps.is_empty() {
            let places: Vec<String> = self.places().into_iter().collect();
            all.push(format!("{} by this trace, {}", self.steps.len(), places.join(" and ")));
        }
        if others > 0 {
            all.push(format!("{others} by another 'junctor trace' or a recording that waits for latency"));
        }
        if left > 0 {
            all.push(format!("{left} that an earlier one has left in the router"));
        }
        all.join("; ")
    }

    /// Where packets are that have not ended.
    fn places(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for steps in self.steps.values() {
            let last: BTreeMap<u64, &Step> = steps.iter().map(|step| (step.copy, step)).collect();
            all.extend(last.into_values().filter_map(place));
        }
        all
    }

    fn print(&mut self, packet: u64) {
        let (steps, left) = (self.steps.remove(&packet), self.left.remove(&packet));
        let (steps, left) = (steps.unwrap_or_default(), left.unwrap_or_default());
        self.printed += u64::from(self.out.print(packet, steps, &left, false));
    }

    /// Prints what has not ended.
    fn print_rest(&mut self) {
        let rest: Vec<u64> = self.steps.keys().copied().collect();
        rest.into_iter().for_each(|packet| self.print(packet));
    }

    /// Prints what has not ended, and says what there is to say about the whole.
    fn end(&mut self, count: u64, (lost, passed_over): (u64, u64), why: &str) -> Result<(), Error> {
        self.print_rest();
        let why = self.out.why_ended().unwrap_or(why);
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        errln!("junctor: {} of {count} packets followed{why}", self.printed);
        if lost > 0 {
            errln!("junctor: {lost} events were lost, because they came faster than they could be told");
        }
        if passed_over > 0 {
            errln!(
                "junctor: {passed_over} packets that matched were passed over, because as many as can be ({NUMBERS}) were being followed"
            );
        }
        match (self.printed, passed_over) {
            _ if !self.out.takes_more() => self.out.end(),
            (0, 0) => Err(Error::Nothing(
                "no packet came that matches; see the filter, and whether packets come there at all (junctor capture)".into(),
            )),
            (0, _) => {
                let who = self.last_full.map_or(String::new(), |full| format!(": {}", self.who(full)));
                Err(Error::Nothing(format!(
                    "none of these could be followed{who}; try again when they have ended, or end them"
                )))
            }
            _ => Ok(()),
        }
    }
}
