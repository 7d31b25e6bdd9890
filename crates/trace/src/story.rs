// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet's way as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use wire::fields::{Change, Field, changes};

use observe::records::{self, Event, State, Step};

/// Characters of a value that are shown.
const WIDEST: usize = 48;

/// The states of a packet's copies, from step to step.
#[derive(Default)]
struct Copies(BTreeMap<u64, Vec<Field>>);

impl Copies {
    /// What has changed with a step: of the copy, or of the packet it was made from if it is new.
    fn step(&mut self, step: &Step, source: Option<u64>) -> Vec<Change> {
        let Some(state) = &step.state else { return Vec::new() };
        let now = state.fields();
        let before = self.0.get(&step.copy).or_else(|| self.0.get(&source?));
        let changed = before.map_or(Vec::new(), |before| changes(before, &now));
        self.0.insert(step.copy, now);
        changed
    }
}

/// Goes through steps with what each has changed, and whether the copy is new.
fn walk(steps: &[Step], mut each: impl FnMut(&Step, Vec<Change>, bool)) {
    let mut copies = Copies::default();
    // The copy that an element works on, from which it makes others.
    let mut at_work = None;
    for step in steps {
        let new = !copies.0.contains_key(&step.copy);
        let made = matches!(step.event, Event::Output { made: true, .. });
        let source = at_work.filter(|_| !made);
        let changed = copies.step(step, source);
        if let Event::Input { .. } = step.event {
            at_work = Some(step.copy);
        }
        each(step, changed, new);
    }
}

/// One line for a packet.
fn summary(state: &State) -> String {
    records::summary(&wire::compose::from_hex(&state.bytes).unwrap_or_default(), state.ip)
}

fn short(value: &str) -> String {
    match value.char_indices().nth(WIDEST) {
        Some((at, _)) => format!("{}...", &value[..at]),
        None if value.is_empty() => "nothing".into(),
        None => value.to_owned(),
    }
}

fn change_text(change: &Change) -> String {
    match change {
        // One of several of a name is written as in Wireshark's filters.
        Change::Changed(field, now) => {
            let nth = if field.nth > 0 { format!("#{}", field.nth + 1) } else { String::new() };
            format!("{}{nth} {} -> {}", field.name, short(&field.value), short(now))
        }
        Change::Removed(protocol) => format!("{protocol} header taken off"),
        Change::Cut(begin, end) => {
            format!("is a fragment: bytes {begin} to {} of what its packet carries", end.saturating_sub(1))
        }
        Change::Added(protocol, fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{} {}", f.name, short(&f.value))).collect();
            format!("{protocol} header put on: {}", fields.join(", "))
        }
    }
}

fn change_json(change: &Change) -> Value {
    match change {
        Change::Changed(field, now) => {
            json!({ "field": field.name, "nth": field.nth, "before": field.value, "after": now })
        }
        Change::Removed(protocol) => json!({ "removed": protocol }),
        Change::Cut(begin, end) => json!({ "fragment": { "begin": begin, "end": end } }),
        Change::Added(protocol, fields) => {
            let fields: Vec<Value> =
                fields.iter().map(|f| json!({ "field": f.name, "nth": f.nth, "value": f.value })).collect();
            json!({ "added": protocol, "fields": fields })
        }
    }
}

/// A packet's fields and annotations at its first step, for programs.
pub(crate) fn fields(steps: &[Step]) -> Vec<Value> {
    let state = steps.iter().find_map(|step| step.state.as_ref());
    let all = state.map_or(Vec::new(), State::fields).into_iter();
    all.map(|f| json!({ "field": f.name, "nth": f.nth, "value": f.value })).collect()
}

/// A packet's steps for programs: as they are, each with what it has changed.
pub(crate) fn steps(steps: &[Step]) -> Vec<Value> {
    let mut all = Vec::new();
    walk(steps, |step, changed, _| {
        let mut object = json!(step);
        if let Some(object) = object.as_object_mut() {
            object.remove("packet");
            object.insert("changes".into(), changed.iter().map(change_json).collect());
        }
        all.push(object);
    });
    all
}

/// A packet's way for people.
pub(crate) fn text(packet: u64, all: &[Step], left: &[String], tried: bool) -> String {
    let mut text = format!("packet {packet}");
    if let Some(first) = all.first() {
        let what = if tried { "tried".into() } else { records::clock(first.time_ns) };
        let _ = write!(text, ", {what}, worker {}", first.worker);
        if let Some(state) = &first.state {
            let _ = write!(text, ": {}", summary(state));
        }
    }
    text.push('\n');
    let several = all.iter().any(|step| step.copy > 1);
    let mut here: Option<(String, u64, usize)> = None;
    walk(all, |step, changed, new| {
        let copy = if several { step.copy } else { 0 };
        let element_changes = here.as_ref().is_none_or(|(name, ..)| *name != step.element);
        let enters = matches!(step.event, Event::Input { .. });
        if element_changes || enters {
            let _ = write!(text, "  {} :: {}", step.element, step.class);
            if let Event::Input { port } = step.event {
                let _ = write!(text, ", input {port}");
            }
            if several {
                let _ = write!(text, ", copy {}", step.copy);
            }
            if let Some((_, _, worker)) = here.as_ref().filter(|(_, _, worker)| *worker != step.worker) {
                let _ = write!(text, ", on worker {} (from worker {worker})", step.worker);
            }
            text.push('\n');
        }
        here = Some((step.element.clone(), copy, step.worker));
        for change in &changed {
            let _ = writeln!(text, "    {}", change_text(change));
        }
        if let Some(route) = &step.route {
            let line = if route["group"].is_string() {
                routes::show::tree_line(route)
            } else {
                routes::show::line(route)
            };
            let _ = writeln!(text, "    {line}");
        }
        // The packet itself is no copy, wherever it is seen first.
        if let Some(line) = event_text(step, new && !enters && step.copy > 1) {
            let _ = writeln!(text, "    {line}");
        }
    });
    for place in left {
        let _ = writeln!(text, "  has not ended: {place}");
    }
    text
}

fn event_text(step: &Step, new: bool) -> Option<String> {
    let with = |words: &str, note: &str| {
        if note.is_empty() { words.to_owned() } else { format!("{words}: {note}") }
    };
    Some(match &step.event {
        Event::Input { .. } => return None,
        Event::Output { port, to, to_port, pulled, made, note } => {
            let by = if *pulled { "fetched by" } else { "->" };
            let way = with(&format!("output {port} {by} {to}, input {to_port}"), note);
            match &step.state {
                Some(state) if *made => format!("makes copy {}: {}\n    {way}", step.copy, summary(state)),
                _ if new => format!("copy {}: {way}", step.copy),
                _ => way,
            }
        }
        Event::Dropped { reason } => {
            let known = engine::Reason::ALL.iter().find(|r| r.name() == reason);
            with(&format!("dropped, {reason}"), known.map_or("", |r| r.text()))
        }
        Event::Held { note } => with("held", note),
        Event::Replaced => "ends in what was made of it".into(),
        Event::Taken { note } => with("ends here", note),
        Event::Unknown { note } => with("not followed further", note),
    })
}
