// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that is not there: handlers are a table, and statistics are made up.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use client::Client;
use ctl::{Handlers, Session};
use element::{Access, HandlerError};
use stats::{Directory, Metric, MetricKind, Object, Reading, Series, Snapshot};

use crate::problem::Problem;
use crate::routers::{Found, Published, Routers, Saved};
use crate::words::absent;

const COMMIT: &str = r#"{"number":2,"state":"confirmed","why":null,"comment":"c","author":{"uid":0,"user":"root","sudo_user":null},
    "time":"2026-01-01T00:00:00Z","parent":1,"confirm_within_s":null,
    "files":[{"path":"router.click","bytes":3,"mode":"0644","secret":false,"sha256":"00"}]}"#;
const HISTORY: &str = r#"{"service":"edge","in_service":2,"confirmed":1,"waiting":{"commit":2,"parent":1,"left_s":9.5},"commits":[]}"#;

/// Routers named `r1` (alive) and `r2` (which publishes nothing).
#[derive(Default)]
pub(crate) struct Fake {
    readings: AtomicU64,
    /// What was written: handler and value.
    pub(crate) written: Arc<Mutex<Vec<(String, String)>>>,
}

/// What handlers answer.
fn answer(name: &str, parameter: &str) -> Option<String> {
    let session = "udp 10.0.0.2 1000 192.0.2.1 4000 203.0.113.9 53 open 5 300 4 2000 61 300\n";
    let connection = "tcp 10.0.0.2 1000 10.0.1.2 80 open inside outside 12 5 300 4 2000 61 300 -\n";
    Some(match (name, parameter) {
        ("list", _) => "4\nc\nq\nfw\nnat\n".into(),
        ("flatconfig", _) => "c :: Counter;\nq :: Queue(10);\nsrc :: InfiniteSource;\nd :: Discard;\nsrc -> c -> q;\nq -> u :: Unqueue -> d;\n".into(),
        ("config", _) => "src :: InfiniteSource -> c :: Counter -> q :: Queue(10) -> u :: Unqueue -> d :: Discard;\n".into(),
        ("drops", _) => "q queue-full 5\nc no-route 2\n".into(),
        ("apply", _) => "nothing waits for a confirmation\n".into(),
        ("c.count", _) => "117\n".into(),
        ("c.class", _) => "Counter".into(),
        ("c.table", _) => "x".repeat(2 << 20),
        ("q.class", _) => "Queue".into(),
        ("fw.class", _) => "Firewall".into(),
        ("nat.class", _) => "NAT44".into(),
        ("q.handlers", _) => "class\tr\nconfig\trw\nlength\tr\nreset\tw\n".into(),
        ("fw.rules", _) => "3 10 1000 1 5 accept tcp from inside\n0 1 60 0 - drop\n".into(),
        ("fw.sets", _) => "lan addresses 3 1 4096\n".into(),
        ("q.length", _) => "4\n".into(),
        ("fw.connections", "0") => format!("next\n{connection}{connection}"),
        ("fw.connections", "next") => format!("-\n{connection}"),
        ("nat.sessions", "0") => format!("-\n{session}"),
        ("nat.statements", _) => String::new(),
        ("nat.subscribers", _) => String::new(),
        ("page", which) => routes(which),
        ("multicast", _) => "[]".into(),
        ("multicast_page", which) => entries(which),
        ("lookup", "192.0.2.1") => r#"{"prefix":"192.0.2.0/24","feed":"fpm"}"#.into(),
        ("lookup", _) => "null".into(),
        ("status", _) => r#"{"routes":3}"#.into(),
        _ => return None,
    })
}

/// A part of the routes: how many, from which number on, and which.
fn routes(which: &str) -> String {
    let all = [("10.0.0.0/8", "kernel"), ("192.0.2.0/24", "fpm"), ("2001:db8::/32", "fpm")];
    let words: Vec<&str> = which.split(' ').collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let (most, from): (usize, usize) = (number(0).unwrap_or(0), number(1).unwrap_or(0));
    let outer = which.split("within=").nth(1).map(|text| text.split('.').next().unwrap_or_default());
    let is_fit = |prefix: &str, feed: &str| {
        outer.is_none_or(|outer| prefix.starts_with(outer))
            && (!which.contains("feed=") || which.contains(&format!("feed={feed}")))
    };
    let rows = all.into_iter().skip(from).take(most).filter(|(prefix, feed)| is_fit(prefix, feed));
    let rows = rows.map(|(prefix, feed)| format!("\n{{\"prefix\":\"{prefix}\",\"feed\":\"{feed}\"}}"));
    let next = if from + most < all.len() { (from + most).to_string() } else { "-".to_owned() };
    next + &rows.collect::<String>()
}

/// A part of the multicast entries.
fn entries(which: &str) -> String {
    match which.split_whitespace().nth(1) {
        Some("-") => "0,239.0.0.1,*\n{\"group\":\"239.0.0.1\",\"source\":null}".into(),
        Some("0,239.0.0.1,*") => "-\n{\"group\":\"239.0.0.2\",\"source\":null}".into(),
        _ => "-".into(),
    }
}

struct Table(Arc<Mutex<Vec<(String, String)>>>);

impl Handlers for Table {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        if matches!(
            name,
            "c.reset"
                | "fw.end"
                | "fw.load"
                | "fw.set_load"
                | "c.count_call"
                | "stop"
                | "apply_confirm"
                | "apply_rollback"
        ) {
            return Ok(Access::Write);
        }
        answer(name, "0").map(|_| Access::Read).ok_or_else(|| HandlerError::unknown(name))
    }

    fn read(&mut self, name: &str, parameter: &str) -> Result<String, HandlerError> {
        answer(name, parameter).ok_or_else(|| HandlerError::unknown(name))
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        self.0.lock().unwrap().push((name.to_owned(), value.to_owned()));
        Ok(String::new())
    }
}

impl Fake {
    fn connect(&self) -> Client {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut table = Table(self.written.clone());
        std::thread::spawn(move || {
            let mut session = Session::new(false, None);
            let mut bytes = [0; 4096];
            loop {
                while session.step(&mut table) {}
                if theirs.write_all(&session.take_output()).is_err() {
                    return;
                }
                match theirs.read(&mut bytes) {
                    Ok(n) if n > 0 => session.receive(&bytes[..n]),
                    _ => return,
                }
            }
        });
        Client::new(ours).unwrap()
    }

    fn reading(&self) -> Reading {
        let number = self.readings.fetch_add(1, Ordering::Relaxed);
        let (counter, gauge) = (MetricKind::Counter, MetricKind::Gauge);
        let object = |(kind, name, detail): (&str, &str, &str)| Object {
            kind: kind.into(),
            name: name.into(),
            detail: detail.into(),
        };
        let objects = [
            ("router", "", "0.1"),
            ("worker", "0", ""),
            ("element", "c\"0", "Counter"),
            ("element", "q", "Queue"),
            ("element", "src", "InfiniteSource"),
        ];
        let (mut directory, mut values) =
            (Directory { objects: objects.map(object).into(), ..Directory::default() }, Vec::new());
        let mut places = HashMap::new();
        for (name, kind, part, object, worker, series_part, value) in [
            ("router.configurations", counter, "", 0, None, "", 1),
            ("worker.ran", counter, "", 1, None, "", 1_500_000_000),
            ("worker.busy", counter, "", 1, None, "", 1000 * number),
            ("worker.sampled", counter, "", 1, None, "", 4000 * number),
            ("element.packets", counter, "output", 2, Some(0), "0", 1000 + 100 * number),
            ("element.packets", counter, "output", 4, Some(0), "0", 100 * number),
            ("element.packets", counter, "output", 3, Some(1), "0", 100 * number),
            ("element.received", counter, "", 3, Some(0), "", 100 * number),
            ("element.drops", counter, "reason", 3, Some(1), "queue-full", 5),
            ("queue.length", gauge, "", 3, None, "", 4),
            ("queue.capacity", gauge, "", 3, None, "", 10),
            ("other.version", gauge, "", 3, None, "", 10),
        ] {
            let metrics = &mut directory.metrics;
            let metric = *places.entry(name).or_insert_with(|| {
                metrics.push(Metric {
                    name: name.into(),
                    kind,
                    unit: String::new(),
                    text: String::new(),
                    part: part.into(),
                });
                metrics.len() as u32 - 1
            });
            directory.series.push(Series { metric, object, worker, part: series_part.into() });
            values.push(value);
        }
        let ns = number * 1_000_000_000;
        let snapshot =
            Snapshot { wall_ns: ns, monotonic_ns: ns, cycles: 4000 * number, values, ..Snapshot::default() };
        Reading { directory: Arc::new(directory), snapshot, number }
    }
}

impl Routers for Fake {
    fn list(&self) -> Vec<Found> {
        let found =
            |name: &str| Found { name: name.into(), pid: Some(1), socket: format!("/run/{name}.sock") };
        ["r1", "r2"].map(found).into()
    }

    fn client(&self, name: &str) -> Result<Client, Problem> {
        if name == "r1" { Ok(self.connect()) } else { Err(absent("router", name, "see /api/v1/routers")) }
    }

    fn published(&self, name: &str) -> Result<Published, Problem> {
        match name {
            "r1" => Ok(Published { pid: 1, started_ns: 1_000_000_000, reading: self.reading() }),
            _ => Err(absent("router", name, "see /api/v1/routers")),
        }
    }

    fn control_plane(&self) -> Result<Client, Problem> {
        Ok(self.connect())
    }

    fn services(&self) -> Vec<Saved> {
        vec![Saved { name: "edge".into(), directories: Some(["/e", "/s", "/r"].map(Into::into)) }]
    }

    /// A shell that prints its words; questions of `config` get the JSON that they want.
    fn command(
        &self,
        router: Option<&str>,
        options: &[String],
        words: &[String],
    ) -> Result<Command, Problem> {
        if let Some(name) = router {
            self.client(name)?;
        }
        let mut command = Command::new("sh");
        let asks =
            |subcommand: &str| options.first().is_some_and(|w| w == "config") && options[1] == subcommand;
        let canned = match options.iter().any(|word| word == "--json") {
            true if asks("history") => HISTORY,
            true if asks("show") => COMMIT,
            true if asks("diff") => r#"{"from":1,"to":null,"diff":"+x\n"}"#,
            true if asks("check") => "[]",
            true if options.iter().any(|word| word == "--dry-run") => r#"{"actions":[]}"#,
            _ => "",
        };
        if !canned.is_empty() {
            command.args(["-c", "printf '%s\n' \"$1\"", "sh", canned]);
            return Ok(command);
        }
        command
            .args(["-c", "for word; do printf '%s\\n' \"$word\"; done", "sh"])
            .args(options)
            .arg("--")
            .args(words);
        Ok(command)
    }
}
