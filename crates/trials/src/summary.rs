// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of one test or of many: a [`Document`] from records of any procedures.
//!
//! Everything here goes by what a record says of itself: quantities with a frame size become tables and plots by size, curves of one name
//! one plot, demands the ledger. A new procedure needs nothing here.

mod ledger;
mod modified;
mod rates;
mod tables;

use std::collections::BTreeSet;

use tester::genome::Genome;

use super::record::{Curve, Record, with_modifier};
use report::measure;
use report::{Cell, Document, Note, Origin, Plot, Section, Series, Table};

/// The report over all these records.
pub(super) fn document(records: &[Record]) -> Document {
    let names = Names::of(records);
    let mut sections = vec![rates::by_size(records, &names)];
    sections.extend(rates::by_workers(records));
    sections.push(modified::section(records));
    sections.extend(curves(records, &names));
    sections.push(tables::results(records, &names));
    sections.push(ledger::section(records));
    sections.push(tables::trials(records, &names));
    sections.push(tables::flows(records, &names));
    sections.push(tables::machines(records, &names));
    sections.push(how(records, &names));
    sections.extend(mixes(records));
    sections.extend(command_lines(records, &names));
    sections.extend(filters(records, &names));
    sections.extend(configurations(records));
    sections
        .retain(|s| !(s.plots.is_empty() && s.tables.is_empty() && s.text.is_empty() && s.code.is_none()));
    let notes = vec![
        Note { class: "found", head: "What was found".into(), items: findings(records) },
        Note { class: "lacks", head: "What to know".into(), items: remarks(records, &names) },
    ];
    Document { title: title(records), subtitle: subtitle(records), notes, marks: false, sections }
}

/// What distinguishes records: procedures, their options, modifiers, devices and workers, if there are several.
struct Names {
    procedures: bool,
    options: bool,
    modifiers: bool,
    devices: bool,
    workers: bool,
}

impl Names {
    fn of(records: &[Record]) -> Names {
        let several =
            |of: &dyn Fn(&Record) -> String| records.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
        Names {
            procedures: several(&|r| r.command.clone()),
            options: several(&|r| r.options().to_owned()),
            modifiers: several(&|r| r.modifier().to_owned()),
            devices: several(&|r| r.device().to_owned()),
            workers: several(&|r| r.workers().to_string()),
        }
    }

    /// Of one record; empty if there is nothing to tell it from.
    fn who(&self, record: &Record) -> String {
        let mut parts = Vec::new();
        if self.procedures || self.options {
            parts.push(format!("{} {}", record.procedure(), record.options()).trim_end().to_owned());
        }
        if self.devices {
            parts.push(record.device().to_owned());
        }
        if self.workers {
            parts.push(workers(record.workers()));
        }
        let modifier = if self.modifiers { with_modifier(record.modifier()) } else { String::new() };
        let who = parts.join(", ") + &modifier;
        who.trim_start_matches(", ").to_owned()
    }

    /// Before what is said of a record's device; empty if there is only one.
    fn whose(&self, record: &Record) -> String {
        let device = self.devices.then(|| record.device().to_owned());
        let parts = device.into_iter().chain(self.workers.then(|| workers(record.workers())));
        let who = parts.collect::<Vec<_>>().join(", ");
        if who.is_empty() { who } else { format!("{who}: ") }
    }
}

fn workers(count: usize) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

/// Records by a key, in the order in which keys first come.
fn groups<'a, K: PartialEq>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> K,
) -> Vec<(K, Vec<&'a Record>)> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    for record in records {
        let key = key(record);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    groups
}

/// Units at the end of a name's part, which reports have in a column of their own.
const UNITS: [&str; 4] = ["mpps", "us", "ms", "s"];

/// A name without units: `latency_us.p50` is `latency.p50`, and `cable.mpps` is `cable`.
fn unit_less(label: &str) -> String {
    let part = |part: &str| match part.rsplit_once('_') {
        Some((what, unit)) if UNITS.contains(&unit) => what.to_owned(),
        _ => part.to_owned(),
    };
    let parts = label.split('.').filter(|part| *part != UNITS[0]).map(part);
    parts.collect::<Vec<_>>().join(".")
}

/// A stable name in words: `latency_us.p99.9` is `latency p99.9`.
fn words(record: &Record, label: &str) -> String {
    let label =
        label.strip_prefix(record.procedure()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(label);
    let label = unit_less(label);
    let mut out = String::new();
    let mut before = "";
    for part in label.split('.') {
        let quantile = before.strip_prefix('p').is_some_and(|n| n.parse::<u8>().is_ok());
        if !out.is_empty() {
            out.push(if quantile && part.parse::<u32>().is_ok() { '.' } else { ' ' });
        }
        out += &part.replace('_', " ");
        before = part;
    }
    out
}

fn title(records: &[Record]) -> String {
    match records {
        [one] => format!("junctor {}: {}", one.command, one.device()),
        many => format!("junctor test: {} runs", many.len()),
    }
}

fn subtitle(records: &[Record]) -> String {
    let Some(first) = records.first() else { return "No run has a result.".to_owned() };
    let begun = records.iter().map(|r| r.started.as_str()).min().unwrap_or(&first.started);
    let seconds: f64 = records.iter().map(|r| r.elapsed_s).sum();
    format!(
        "Begun {begun}, {seconds:.0} s of measuring. {}",
        measure::machine_line(&first.machine, &first.version)
    )
}

/// The rates of a single run, in a sentence each; of many, how many there are.
fn findings(records: &[Record]) -> Vec<String> {
    let [record] = records else {
        let devices: BTreeSet<&str> = records.iter().map(Record::device).collect();
        let many = if devices.len() == 1 { "device" } else { "devices" };
        return vec![format!("{} runs of {} {many} under test.", records.len(), devices.len())];
    };
    let told = |q: &&super::record::Quantity| rates::is_rate(q);
    let sentence = |q: &super::record::Quantity| {
        let size = q.size.map(|size| format!("{size} bytes: ")).unwrap_or_default();
        let share = rates::share_of_link(record, q);
        let share = share.map(|share| format!(", {:.1} % of the link", 100.0 * share)).unwrap_or_default();
        let whose = if rates::is_of_all(q) { ", all ports together" } else { "" };
        format!("{size}{} {:.4} {}{whose}{share}.", words(record, &q.label()), q.value, q.unit)
    };
    record.results.iter().filter(told).map(sentence).chain(losses(record)).collect()
}

/// What a soak has lost, in a sentence for each size.
fn losses(record: &Record) -> impl Iterator<Item = String> {
    let of = |what: &str, size| {
        let name = format!("test.soak.{what}.{size}");
        record.results.iter().find(|q| q.name == name).map(|q| q.value)
    };
    let sizes: BTreeSet<usize> = record.results.iter().filter_map(|q| q.size).collect();
    sizes.into_iter().filter_map(move |size| {
        let (lost, sent) = (of("lost_frames", size)?, of("sent_frames", size)?);
        Some(format!("{size} bytes: lost {lost} of {sent} frames."))
    })
}

/// What a reader must know before believing a figure.
fn remarks(records: &[Record], names: &Names) -> Vec<String> {
    // What is the same of several is said once.
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let groups = groups(records, |r| names.who(r));
    for (who, group) in &groups {
        for remark in remarks_on(group) {
            match all.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, of)) if of.contains(who) => {}
                Some((_, of)) => of.push(who.clone()),
                None => all.push((remark, vec![who.clone()])),
            }
        }
    }
    let told = |(remark, of): (String, Vec<String>)| match of.len() {
        many if many == groups.len() && (many > 1 || of[0].is_empty()) => remark,
        many if many > NAMED => format!("{}; and {} more: {remark}", of[..NAMED].join("; "), many - NAMED),
        _ => format!("{}: {remark}", of.join("; ")),
    };
    all.into_iter().map(told).collect()
}

/// So many of whom a remark is are named.
const NAMED: usize = 4;

/// The same of one device's records.
fn remarks_on(group: &[&Record]) -> Vec<String> {
    let mut all = Vec::new();
    for cause in group.iter().flat_map(|r| &r.invalid) {
        let size = cause.size.map(|size| format!("{size} bytes: ")).unwrap_or_default();
        all.push(format!("{size}not all was measured: {}", cause.cause));
    }
    if group.iter().flat_map(|r| &r.results).any(|quantity| quantity.is_bound()) {
        all.push("where a rate is called reached, or a value has ≥, the tester, or the most that was tried, was the limit: the device may do more.".to_owned());
    }
    if group.iter().flat_map(|r| &r.results).any(|quantity| quantity.tester_limited) {
        all.push(format!(
                "where a value is called {}, the tester did not send all that was due, or sent it in lumps of which frames were lost: it is of another load than was asked for, and the device is not judged by it.",
                tables::LIMITED
            ));
    }
    let trials: Vec<_> = group.iter().flat_map(|r| &r.trials).collect();
    let unsent = trials.iter().filter(|trial| trial.unsent > 0).count();
    if unsent > 0 {
        let of = trials.len();
        all.push(format!("in {unsent} of {of} trials the tester did not send all that was due; they say nothing of the device at that rate."));
    }
    let beside: u64 = trials.iter().map(|trial| trial.beside_unsent).sum();
    if beside > 0 {
        all.push(format!("{beside} of the frames beside the test's could not be sent: the tester's fault."));
    }
    let condition = |name: &str| group.iter().find_map(|r| r.conditions.get(name));
    if condition("own_core").and_then(serde_json::Value::as_bool) == Some(false) {
        all.push("the tester shared a core with the device; both were slower for it.".to_owned());
    }
    let left_out = condition("left_out").and_then(|list| list.as_array());
    if let Some(list) = left_out.filter(|list| !list.is_empty()) {
        let list: Vec<&str> = list.iter().filter_map(|address| address.as_str()).collect();
        all.push(format!("no flows from or to {}: the device's own.", list.join(", ")));
    }
    all
}

/// Curves of one name in one plot, a line for each size.
fn curves(records: &[Record], names: &Names) -> Vec<Section> {
    let mut kinds: Vec<&str> = Vec::new();
    for curve in records.iter().flat_map(|r| &r.curves) {
        if !kinds.contains(&curve.name.as_str()) {
            kinds.push(&curve.name);
        }
    }
    let section = |kind: &str| {
        let plots = groups(records, |r| names.who(r)).into_iter().filter_map(|(who, group)| {
            let all: Vec<&Curve> = group.iter().flat_map(|r| &r.curves).filter(|c| c.name == kind).collect();
            plot(all.first()?, &who, &all)
        });
        Section { title: kind.to_owned(), plots: plots.collect(), ..Section::default() }
    };
    kinds.into_iter().map(section).collect()
}

fn plot(first: &Curve, who: &str, all: &[&Curve]) -> Option<Plot> {
    let line = |(colour, curve): (usize, &&Curve)| Series {
        name: curve.size.map_or_else(|| curve.y.name.clone(), |size| format!("{size} bytes")),
        origin: Origin::Measured,
        colour,
        points: curve.points.clone(),
    };
    let series: Vec<Series> = all.iter().enumerate().map(line).filter(|s| !s.points.is_empty()).collect();
    // The section has the curve's name as its title.
    let caption = who.to_owned();
    (!series.is_empty()).then(|| Plot::Lines { caption, x: first.x.clone(), y: first.y.clone(), series })
}

/// Machine, drivers, how devices were built, seeds.
fn how(records: &[Record], names: &Names) -> Section {
    let mut text = vec![
        "Frame sizes count the checksum. Rates are those of each sending port; what a trial sent and received, and RFC 2889's forwarding rates, are of all ports together in tables, and shared out among these in plots. Latency is from when the tester gives a frame to its port until it takes it, whole, from the other one, so it includes the tester's own share, which is measured on a cable before; neither of RFC 1242's two definitions has exactly this. What the tester did not send is no loss.".to_owned(),
    ];
    let mut add = |line: String| {
        if !text.contains(&line) {
            text.push(line);
        }
    };
    for record in records {
        add(measure::machine_line(&record.machine, &record.version));
        let ports = record.conditions.get("ports").and_then(|list| list.as_array());
        for port in ports.into_iter().flatten() {
            let part = |name: &str| port[name].as_str().unwrap_or("unknown").to_owned();
            add(format!("Port {}: {}.", part("name"), part("driver")));
        }
        for line in modifiers(record) {
            add(line);
        }
        let who = names.whose(record);
        if !record.condition("calibrated_on").is_empty() {
            add(format!("{who}The tester alone was measured on {}.", record.condition("calibrated_on")));
        }
        // Who has which cores, what could not be measured, what the device needs.
        let notes = record.conditions.get("notes").and_then(|list| list.as_array());
        for note in notes.into_iter().flatten().filter_map(|note| note.as_str()) {
            add(format!("{who}{}.", note.trim_end_matches('.')));
        }
        if let Some(seed) = record.number("seed") {
            add(format!("Seed {seed}."));
        }
    }
    if let [record] = records {
        add(format!("Command line: {}", shell_line(&record.command_line)));
    }
    Section { title: "How it was measured".into(), text, ..Section::default() }
}

/// What the letters of mixes stand for, each mix once (RFC 6985 4, 5).
fn mixes(records: &[Record]) -> Option<Section> {
    let mut tables: Vec<Table> = Vec::new();
    for record in records {
        let word = record.conditions.get("modifiers").and_then(|all| all["imix"].as_str());
        let letters = record.conditions.get("imix_sizes").and_then(|all| all.as_object());
        let Some((word, letters)) = word.zip(letters) else { continue };
        let name = Genome::parse(word).map_or_else(|_| word.to_owned(), |genome| genome.name());
        let mut table = Table::new(name, &[("size, bytes", Origin::Name), ("letter", Origin::Name)]);
        for (letter, size) in letters {
            table.row([size.to_string(), letter.clone()].map(Cell::new).into());
        }
        if !tables.iter().any(|known| known.caption == table.caption && known.rows == table.rows) {
            tables.push(table);
        }
    }
    let section = Section { title: "Mixes of sizes".into(), tables, ..Section::default() };
    (!section.tables.is_empty()).then_some(section)
}

/// Of several runs, the command line of each.
fn command_lines(records: &[Record], names: &Names) -> Option<Section> {
    let heads = [("run", Origin::Name), ("sizes, bytes", Origin::Name), ("command line", Origin::Name)];
    let mut table = Table::new("of each run", &heads);
    for record in records {
        let who = names.who(record);
        let who = if who.is_empty() { format!("{}, {}", record.procedure(), record.device()) } else { who };
        let sizes: Vec<String> = record.sizes().iter().map(usize::to_string).collect();
        let line = shell_line(&record.command_line);
        table.row([who, sizes.join(", "), line].map(Cell::new).into());
    }
    let section =
        Section { title: "Command lines".into(), tables: vec![table], folded: true, ..Section::default() };
    (records.len() > 1).then_some(section)
}

/// Words as a shell takes them.
fn shell_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What was changed about the frames, in a sentence each.
fn modifiers(record: &Record) -> Vec<String> {
    let Some(all) = record.conditions.get("modifiers").and_then(|m| m.as_object()) else { return Vec::new() };
    let number = |name: &str| all.get(name).and_then(serde_json::Value::as_u64);
    let text = |name: &str| all.get(name).and_then(serde_json::Value::as_str);
    let is_set = |name: &str| all.get(name).and_then(serde_json::Value::as_bool) == Some(true);
    let list = |name: &str| all.get(name).and_then(|list| list.as_array()).into_iter().flatten();
    let beside: Vec<&str> = list("beside").filter_map(|w| w.as_str()).collect();
    let bursts: Vec<String> = list("bursts").map(ToString::to_string).collect();
    [
        text("imix").map(|genome| {
            let name = Genome::parse(genome).map_or_else(|_| genome.to_owned(), |genome| genome.name());
            format!("Frames of several sizes: {name}, which each port that sends repeats, whichever of its flows its frames are of (RFC 6985).")
        }),
        (!bursts.is_empty())
            .then(|| format!("First at a steady rate, then in bursts of {} frames (RFC 2544 21).", bursts.join(", "))),
        number("burst").map(|frames| format!("Frames left in bursts of {frames} (RFC 2544 21).")),
        is_set("random_ports").then(|| "UDP ports were drawn at random (RFC 4814).".to_owned()),
        is_set("random_macs").then(|| "The hosts' Ethernet addresses were drawn at random (RFC 4814).".to_owned()),
        number("flows_per_port").map(|flows| format!("Each port had {flows} flows at most.")),
        is_set("mesh").then(|| "Each port sent to all others in turn (RFC 2544 16).".to_owned()),
        number("networks").map(|count| {
            format!("First with one pair of addresses, then with destinations in {count} networks (RFC 2544 12).")
        }),
        (!beside.is_empty()).then(|| format!("Beside the test's frames there were others: {} (RFC 2544 11).", beside.join(", "))),
        is_set("each_modifier").then(|| {
            "First without modifiers, then with each by itself: broadcast frames, management frames, routing updates, filters (RFC 2544 11)."
                .to_owned()
        }),
        is_set("filters").then(|| "First without filters, then with one and with 25, of which the thirteenth permits the test's frames (RFC 2544 11.4.1), or the last (11.4).".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The filters that were on the devices, and what set them.
fn filters(records: &[Record], names: &Names) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (record, (what, said)) in records
        .iter()
        .flat_map(|r| [("filters", "were"), ("filter_commands", "were set by")].map(|of| (r, of)))
    {
        let lists = record.conditions.get(what).and_then(|lists| lists.as_object());
        for (name, list) in lists.into_iter().flatten() {
            let lines: Vec<&str> =
                list.as_array().into_iter().flatten().filter_map(|line| line.as_str()).collect();
            let who = names.who(record);
            let caption = if who.is_empty() { record.device().to_owned() } else { who };
            let (title, code) =
                (format!("What {} {said}", name.replace('_', " ")), (caption, lines.join("\n")));
            if !sections.iter().any(|known| known.title == title && known.code.as_ref() == Some(&code)) {
                sections.push(Section { title, code: Some(code), ..Section::default() });
            }
        }
    }
    sections
}

/// The devices' configurations, each once.
fn configurations(records: &[Record]) -> Vec<Section> {
    let with =
        records.iter().filter(|r| !r.condition("configuration").is_empty()).cloned().collect::<Vec<_>>();
    let section = |(device, group): (String, Vec<&Record>)| Section {
        title: format!("Configuration of {device}"),
        code: Some((device, group[0].condition("configuration").to_owned())),
        ..Section::default()
    };
    groups(&with, |r| r.device().to_owned()).into_iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::Found;
    use super::*;
    use report::{markdown, page};

    fn record(device: &str, workers: usize, cores: &str) -> Record {
        let conditions = json!({
            "device": device, "workers": workers, "calibrated_on": "a virtual cable",
            "notes": [format!("Cores: the device's {cores}"), "Latency is not measured."],
        });
        let mut found = Found::of_size(64);
        found.note("test.received_mpps".to_owned(), "Mpps", 1.0);
        let mut record = found.record("test trial", conditions.as_object().cloned().unwrap_or_default());
        record.command_line =
            ["junctor", "test", &format!("command:don't {cores}")].map(str::to_owned).into();
        record
    }

    #[test]
    fn what_a_device_was_like_is_told_once_for_each_with_each_number_of_workers() {
        let one = record("x", 1, "0");
        let all = [one.clone(), one.clone(), record("x", 2, "0,1"), record("y", 1, "0")];
        let whole = document(&all);
        let (page, table) = (page::render(&whole), markdown::render(&whole));
        for (says, times) in [
            ("x, 1 worker: Cores: the device's 0.", 1),
            ("x, 2 workers: Cores: the device's 0,1.", 1),
            ("y, 1 worker: Latency is not measured.", 1),
            ("y, 1 worker: The tester alone was measured on a virtual cable.", 1),
            ("junctor test 'command:don'\\''t 0'", 3),
        ] {
            assert_eq!(table.replace("\\\\", "\\").matches(says).count(), times, "{says} in {table}");
        }
        assert!(page.contains("Cores: the device") && page.contains("Command lines"), "{page}");
        let alone = markdown::render(&document(&[one]));
        assert!(
            alone.contains("\nCores: the device's 0.\n") && alone.contains("Command line: junctor test "),
            "{alone}"
        );
        assert!(!alone.contains("Command lines"), "{alone}");
    }
}
