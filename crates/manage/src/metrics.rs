// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routers publish, as Prometheus and OpenMetrics text. Names and labels are frozen: docs/metrics.md has this table.
//!
//! The text of a router's labels is made once for each directory of its statistics. A scrape then copies it, and writes the values.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use stats::{Directory, Reading};

use crate::routers::{Published, Routers};

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Counter,
    Gauge,
    /// A counter of nanoseconds, written in seconds.
    Seconds,
}

/// A metric: its name in the statistics segment, its name here, its form, and what it says.
type Line = (&'static str, &'static str, Form, &'static str);

/// All metrics of routers.
#[rustfmt::skip]
const LINES: &[Line] = &[
    ("router.configurations", "junctor_router_configurations_total", Form::Counter, "Configurations that have run, with the present one."),
    ("router.moves", "junctor_router_task_moves", Form::Gauge, "Times that tasks were moved since the present configuration came."),
    ("router.workers", "junctor_router_workers", Form::Gauge, "Workers that take part."),
    ("memory.frames", "junctor_memory_frames", Form::Gauge, "Frames of packet memory."),
    ("memory.frames_free", "junctor_memory_free_frames", Form::Gauge, "Frames that no packet has."),
    ("worker.active", "junctor_worker_active", Form::Gauge, "1 if the worker takes part."),
    ("worker.stalled", "junctor_worker_stalled", Form::Gauge, "1 if the worker stands still."),
    ("worker.cpu", "junctor_worker_cpu", Form::Gauge, "The processor that the worker ran on last."),
    ("worker.rounds", "junctor_worker_rounds_total", Form::Counter, "Rounds that the worker has ended, also idle ones."),
    ("worker.ran", "junctor_worker_ran_seconds_total", Form::Seconds, "Time that the worker's thread had a processor."),
    ("worker.waited", "junctor_worker_waited_seconds_total", Form::Seconds, "Time that the worker's thread was ready and had no processor."),
    ("worker.busy", "junctor_worker_busy_cycles_total", Form::Counter, "Cycles that the worker's tasks took with all that followed."),
    ("worker.sampled", "junctor_worker_cycles_total", Form::Counter, "The time stamp counter when the worker reported its counters."),
    ("worker.task_runs", "junctor_worker_task_runs_total", Form::Counter, "Runs of tasks that found work."),
    ("worker.packets", "junctor_worker_packets_total", Form::Counter, "Packets that the worker's tasks moved."),
    ("element.packets", "junctor_element_packets_total", Form::Counter, "Packets that left by an output."),
    ("element.batches", "junctor_element_batches_total", Form::Counter, "Batches that left by an output."),
    ("element.received", "junctor_element_received_packets_total", Form::Counter, "Packets that came to the element's inputs."),
    ("element.received_batches", "junctor_element_received_batches_total", Form::Counter, "Batches that came to the element's inputs."),
    ("element.cycles", "junctor_element_timed_cycles_total", Form::Counter, "Cycles of the batches that were timed."),
    ("element.cycles_packets", "junctor_element_timed_packets_total", Form::Counter, "Packets in the batches that were timed."),
    ("element.own_cycles", "junctor_element_own_cycles_total", Form::Counter, "Cycles that the element's tasks, timers and descriptors took, without what followed."),
    ("element.task_runs", "junctor_element_task_runs_total", Form::Counter, "Runs of the element's task that found work."),
    ("element.task_cycles", "junctor_element_task_cycles_total", Form::Counter, "Cycles of these runs with all that followed."),
    ("element.drops", "junctor_element_drops_total", Form::Counter, "Packets that the element dropped, by reason."),
    ("element.held", "junctor_element_held_packets", Form::Gauge, "Packets that the element holds."),
    ("queue.length", "junctor_queue_length_packets", Form::Gauge, "Packets in the queue."),
    ("queue.capacity", "junctor_queue_capacity_packets", Form::Gauge, "Packets for which the queue has room."),
    ("queue.highwater", "junctor_queue_highwater_packets", Form::Gauge, "The most packets that were in the queue at once."),
    ("table.entries", "junctor_table_entries", Form::Gauge, "Entries of the table."),
    ("table.capacity", "junctor_table_capacity_entries", Form::Gauge, "Entries for which the table has room."),
    ("table.memory", "junctor_table_memory_bytes", Form::Gauge, "Memory that the table takes."),
    ("device.packets", "junctor_device_packets_total", Form::Counter, "Packets that came from the device or went to it."),
    ("device.bytes", "junctor_device_bytes_total", Form::Counter, "Bytes that came from the device or went to it."),
    ("device.missed", "junctor_device_missed_packets_total", Form::Counter, "Packets that the device or the kernel lost before they were fetched."),
    ("device.checksums_completed", "junctor_device_checksums_completed_total", Form::Counter, "Packets whose checksum was completed."),
    ("device.no_memory", "junctor_device_no_memory_total", Form::Counter, "Times for which there was no free frame to receive into."),
];

/// Metrics of the service itself and of its view of routers.
const OWN: &[(&str, &str, &str, &str)] = &[
    ("junctor_up", "gauge", "`router`", "1 if the router publishes its counters."),
    ("junctor_router_start_time_seconds", "gauge", "`router`", "When the router began, since the epoch."),
    ("junctor_manage_requests_total", "counter", "`class`", "Requests answered, by class of status."),
];

impl Form {
    fn name(self) -> &'static str {
        if self == Form::Gauge { "gauge" } else { "counter" }
    }
}

/// The labels of a metric.
fn labels(name: &str) -> &'static str {
    match (name, name.split_once('.').map_or("", |(kind, _)| kind)) {
        ("element.packets" | "element.batches", _) => "`router`, `element`, `class`, `worker`, `output`",
        ("element.drops", _) => "`router`, `element`, `class`, `worker`, `reason`",
        (_, "router" | "memory") => "`router`",
        (_, "worker") => "`router`, `worker`",
        _ => "`router`, `element`, `class`, `worker`",
    }
}

/// The table of docs/metrics.md.
pub fn table() -> String {
    let mut text = String::from("| name | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, kind, labels, meaning) in OWN {
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {meaning} |");
    }
    for (from, name, form, meaning) in LINES {
        let _ = writeln!(text, "| `{name}` | {} | {} | {meaning} |", form.name(), labels(from));
    }
    text
}

/// A label's value with what the format needs escaped.
fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

/// The series of a directory, by metric: the text up to the value, and the place of the value.
struct Prepared {
    directory: Arc<Directory>,
    /// For each line of [`LINES`]: series as their end in `text`, and their place.
    lines: Vec<Vec<(usize, usize, u32)>>,
    text: String,
}

impl Prepared {
    fn new(router: &str, directory: &Arc<Directory>) -> Prepared {
        let line_of: HashMap<&str, usize> = LINES.iter().enumerate().map(|(i, line)| (line.0, i)).collect();
        let mut prepared = Prepared {
            directory: directory.clone(),
            lines: vec![Vec::new(); LINES.len()],
            text: String::new(),
        };
        let mut escaped_router = String::new();
        escape(router, &mut escaped_router);
        for (place, series) in directory.series.iter().enumerate() {
            let Some((metric, object, _)) = directory.at(place) else { continue };
            // A metric of another version has no frozen name.
            let Some(&line) = line_of.get(metric.name.as_str()) else { continue };
            let from = prepared.text.len();
            let text = &mut prepared.text;
            let _ = write!(text, "{}{{router=\"{escaped_router}\"", LINES[line].1);
            match object.kind.as_str() {
                "element" => {
                    text.push_str(",element=\"");
                    escape(&object.name, text);
                    text.push_str("\",class=\"");
                    escape(&object.detail, text);
                    text.push('"');
                }
                "worker" => {
                    text.push_str(",worker=\"");
                    escape(&object.name, text);
                    text.push('"');
                }
                _ => {}
            }
            if let Some(worker) = series.worker.filter(|_| object.kind != "worker") {
                let _ = write!(text, ",worker=\"{worker}\"");
            }
            if !series.part.is_empty() {
                text.push(',');
                text.push_str(if metric.part.is_empty() { "part" } else { &metric.part });
                text.push_str("=\"");
                escape(&series.part, text);
                text.push('"');
            }
            text.push_str("} ");
            prepared.lines[line].push((from, text.len(), place as u32));
        }
        prepared
    }
}

/// A value in the format's digits.
fn value(number: u64, form: Form, into: &mut String) {
    match form {
        Form::Seconds => {
            let _ = write!(into, "{}.{:09}", number / 1_000_000_000, number % 1_000_000_000);
        }
        Form::Counter | Form::Gauge => {
            let mut digits = [0u8; 20];
            let (mut at, mut rest) = (digits.len(), number);
            loop {
                at -= 1;
                digits[at] = b'0' + (rest % 10) as u8;
                rest /= 10;
                if rest == 0 {
                    break;
                }
            }
            into.push_str(std::str::from_utf8(&digits[at..]).unwrap_or("0"));
        }
    }
    into.push('\n');
}

/// What is known of routers between scrapes.
#[derive(Default)]
pub struct Metrics(Mutex<HashMap<String, Arc<Prepared>>>);

impl Metrics {
    fn prepared(&self, router: &str, reading: &Reading) -> Arc<Prepared> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(router)
            && (Arc::ptr_eq(&found.directory, &reading.directory) || *found.directory == *reading.directory)
        {
            return found.clone();
        }
        if all.len() > 64 {
            all.clear();
        }
        let prepared = Arc::new(Prepared::new(router, &reading.directory));
        all.insert(router.to_owned(), prepared.clone());
        prepared
    }

    /// The text of a scrape. `requests` are those that the service has answered, by class of status.
    pub fn text(&self, routers: &dyn Routers, requests: &[(&str, u64)], is_open_metrics: bool) -> String {
        let found: Vec<(String, Option<Published>)> = routers
            .list()
            .into_iter()
            .map(|one| (one.name.clone(), routers.published(&one.name).ok()))
            .collect();
        let mut text = String::new();
        let begin = |text: &mut String, name: &str, kind: &str, help: &str| {
            // OpenMetrics names the family without the suffix.
            let family = if is_open_metrics { name.strip_suffix("_total").unwrap_or(name) } else { name };
            let _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {kind}");
        };
        for (name, kind, _, help) in OWN {
            begin(&mut text, name, kind, help);
            match *name {
                "junctor_manage_requests_total" => {
                    for (class, count) in requests {
                        let _ = writeln!(text, "{name}{{class=\"{class}\"}} {count}");
                    }
                }
                _ => {
                    for (router, published) in &found {
                        let number = match (*name, published) {
                            ("junctor_up", published) => f64::from(u8::from(published.is_some())),
                            (_, Some(published)) => published.started_ns as f64 / 1e9,
                            (_, None) => continue,
                        };
                        let mut label = String::new();
                        escape(router, &mut label);
                        let _ = writeln!(text, "{name}{{router=\"{label}\"}} {number}");
                    }
                }
            }
        }
        let known: Vec<(Arc<Prepared>, &Reading)> = found
            .iter()
            .filter_map(|(router, published)| {
                Some((self.prepared(router, &published.as_ref()?.reading), &published.as_ref()?.reading))
            })
            .collect();
        text.reserve(known.iter().map(|(prepared, _)| prepared.text.len() * 9 / 8).sum::<usize>() + 16384);
        for (number, (_, name, form, help)) in LINES.iter().enumerate() {
            if known.iter().all(|(prepared, _)| prepared.lines[number].is_empty()) {
                continue;
            }
            begin(&mut text, name, form.name(), help);
            for (prepared, reading) in &known {
                for (from, to, place) in &prepared.lines[number] {
                    text.push_str(&prepared.text[*from..*to]);
                    value(
                        reading.snapshot.values.get(*place as usize).copied().unwrap_or(0),
                        *form,
                        &mut text,
                    );
                }
            }
        }
        if is_open_metrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn the_table_is_frozen() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&table()), "docs/metrics.md does not have this table:\n{}", table());
    }

    #[test]
    fn rules_and_dashboard_name_metrics_that_there_are() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/monitoring");
        for name in ["alerts.yml", "alerts.test.yml", "grafana-dashboard.json"] {
            let text = std::fs::read_to_string(directory.join(name)).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let mut found = 0;
            for word in words.filter(|word| word.starts_with("junctor_")) {
                let is_known =
                    LINES.iter().any(|line| line.1 == word) || OWN.iter().any(|line| line.0 == word);
                assert!(is_known, "{name}: {word}");
                found += 1;
            }
            assert!(found > 10, "{name}");
        }
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for (from, name, form, text) in LINES {
            assert_eq!(name.ends_with("_total"), *form != Form::Gauge, "{name}");
            assert!(name.starts_with("junctor_") && text.ends_with('.'), "{name}");
            assert!(from.contains('.'), "{name}");
        }
    }

    #[test]
    fn a_scrape_has_all_series_with_their_labels() {
        let (fake, metrics) = (Fake::default(), Metrics::default());
        let text = metrics.text(&fake, &[("2xx", 7)], false);
        for line in [
            "junctor_up{router=\"r1\"} 1",
            "junctor_manage_requests_total{class=\"2xx\"} 7",
            "junctor_element_packets_total{router=\"r1\",element=\"c\\\"0\",class=\"Counter\",worker=\"0\",output=\"0\"} 1000",
            "junctor_element_drops_total{router=\"r1\",element=\"q\",class=\"Queue\",worker=\"1\",reason=\"queue-full\"} 5",
            "junctor_worker_ran_seconds_total{router=\"r1\",worker=\"0\"} 1.500000000",
            "# TYPE junctor_worker_ran_seconds_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("other.version"));
        let open = metrics.text(&fake, &[], true);
        assert!(
            open.ends_with("# EOF\n") && open.contains("# TYPE junctor_worker_ran_seconds counter"),
            "{open}"
        );
        // Each family once.
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), all);
    }

    /// Says how long a scrape of 100,000 series takes (`--no-capture` shows it), and that none is missing.
    #[test]
    fn a_scrape_of_100_000_series_is_whole() {
        use stats::{Metric, MetricKind, Object, Series, Snapshot};
        let (elements, workers) = (5000u32, 4u32);
        let names = [
            "element.packets",
            "element.batches",
            "element.received",
            "element.cycles",
            "element.own_cycles",
        ];
        let metric = |name: &str| Metric {
            name: name.into(),
            kind: MetricKind::Counter,
            unit: String::new(),
            text: String::new(),
            part: if name.ends_with("ts") || name.ends_with("es") { "output".into() } else { String::new() },
        };
        let object = |n| Object {
            kind: "element".into(),
            name: format!("net{n}/classify"),
            detail: "Classifier".into(),
        };
        let mut directory = Directory {
            metrics: names.map(metric).into(),
            objects: (0..elements).map(object).collect(),
            ..Directory::default()
        };
        for object in 0..elements {
            for (metric, worker) in (0..5).flat_map(|metric| (0..workers).map(move |worker| (metric, worker)))
            {
                let part = if metric < 2 { "0".into() } else { String::new() };
                directory.series.push(Series { metric, object, worker: Some(worker), part });
            }
        }
        let values = (0..100_000u64).map(|n| n * 1_000_003).collect();
        let snapshot = Snapshot { values, ..Snapshot::default() };
        let reading = Reading { directory: Arc::new(directory), snapshot, number: 1 };
        struct Large(Published);
        impl Routers for Large {
            fn list(&self) -> Vec<crate::routers::Found> {
                vec![crate::routers::Found { name: "r".into(), pid: None, socket: String::new() }]
            }
            fn client(&self, name: &str) -> Result<client::Client, crate::problem::Problem> {
                Fake::default().client(name)
            }
            fn published(&self, _: &str) -> Result<Published, crate::problem::Problem> {
                Ok(self.0.clone())
            }
            fn control_plane(&self) -> Result<client::Client, crate::problem::Problem> {
                Fake::default().control_plane()
            }
            fn services(&self) -> Vec<crate::routers::Saved> {
                Vec::new()
            }
            fn command(
                &self,
                _: Option<&str>,
                options: &[String],
                words: &[String],
            ) -> Result<std::process::Command, crate::problem::Problem> {
                Fake::default().command(None, options, words)
            }
        }
        let (large, metrics) = (Large(Published { pid: 1, started_ns: 0, reading }), Metrics::default());
        let first = metrics.text(&large, &[], false);
        let text = metrics.text(&large, &[], false);
        assert_eq!(first, text);
        assert_eq!(text.lines().filter(|line| line.starts_with("junctor_element_")).count(), 100_000);
        assert!(text.contains(
            "{router=\"r\",element=\"net4999/classify\",class=\"Classifier\",worker=\"3\"} 99999299997\n"
        ));
    }
}
