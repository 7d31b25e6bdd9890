// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long building tables took, how much memory they take, and how many routes there are of each length.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tables::fib4::Memory;
use wire::Prefix;

use crate::Tables;
use crate::table::Built;

/// What tables take.
pub struct Account<'a> {
    tables: &'a Tables,
    parts: Vec<Part>,
}

impl Account<'_> {
    /// Of these tables.
    pub fn of(tables: &Tables) -> Account<'_> {
        Account { tables, parts: Part::both(tables) }
    }

    /// How long building took, for people.
    pub fn times(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let _ = writeln!(text, "{} routes      {:>12}", part.family, part.routes);
            let _ = writeln!(text, "     built in    {:>12.1} ms", ms(part.built.time));
            if part.built.updates > 0 {
                let each = part.built.update_time.as_secs_f64() / part.built.updates as f64;
                let _ =
                    writeln!(text, "     updates     {:>12} ({:.0} ns each)", part.built.updates, each * 1e9);
            }
        }
        let _ = writeln!(text, "next hops        {:>12}", self.tables.hops.len());
        for (why, count) in &self.tables.skipped {
            let _ = writeln!(text, "passed over      {count:>12} {why}");
        }
        let _ = writeln!(text, "read in          {:>12.1} ms", ms(self.tables.read_time));
        text
    }

    /// Their memory, for people.
    pub fn memory(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let memory = part.memory;
            let each = memory.lookup_bytes as f64 / part.routes.max(1) as f64;
            let _ = writeln!(text, "{} routes      {:>12}", part.family, part.routes);
            let _ = writeln!(
                text,
                "     lookups     {:>12} bytes, {each:.2} for each route",
                memory.lookup_bytes
            );
            let _ = writeln!(text, "     spare       {:>12} bytes", memory.spare_bytes);
            let _ = writeln!(text, "     routes      {:>12} bytes, on the control side", memory.rib_bytes);
            let most = part.lengths().map(|(_, count)| count).max().unwrap_or(1);
            for (len, count) in part.lengths() {
                let bar = "#".repeat((count * 40).div_ceil(most));
                let _ = writeln!(text, "     /{len:<3}        {count:>12} {bar}");
            }
        }
        text
    }

    /// All of it for programs, as `command` answers.
    pub fn json(&self, command: &str) -> Value {
        let skipped: serde_json::Map<String, Value> =
            self.tables.skipped.iter().map(|(why, count)| ((*why).to_owned(), json!(count))).collect();
        json!({
            "command": command, "version": env!("CARGO_PKG_VERSION"), "read_ms": ms(self.tables.read_time),
            "next_hops": self.tables.hops.len(), "passed_over": skipped,
            "tables": self.parts.iter().map(Part::json).collect::<Vec<_>>(),
        })
    }
}

/// One family's table in reports.
struct Part {
    family: &'static str,
    routes: usize,
    built: Built,
    memory: Memory,
    /// Number of routes by length.
    lengths: Vec<usize>,
}

impl Part {
    fn both(tables: &Tables) -> Vec<Part> {
        let (mut v4, mut v6) = (vec![0; 33], vec![0; 129]);
        for (prefix, _) in tables.routes() {
            match prefix {
                Prefix::V4(prefix) => v4[usize::from(prefix.len())] += 1,
                Prefix::V6(prefix) => v6[usize::from(prefix.len())] += 1,
            }
        }
        let ((n4, n6), (m4, m6)) = (tables.counts(), tables.memory());
        let parts = [
            Part { family: "IPv4", routes: n4, built: tables.v4_built, memory: m4, lengths: v4 },
            Part { family: "IPv6", routes: n6, built: tables.v6_built, memory: m6, lengths: v6 },
        ];
        parts.into_iter().filter(|part| part.routes > 0 || part.built.updates > 0).collect()
    }

    fn lengths(&self) -> impl Iterator<Item = (usize, usize)> {
        self.lengths.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    fn json(&self) -> Value {
        let lengths: serde_json::Map<String, Value> =
            self.lengths().map(|(len, count)| (len.to_string(), json!(count))).collect();
        json!({
            "family": self.family, "routes": self.routes, "build_ms": ms(self.built.time),
            "updates": self.built.updates, "update_ms": ms(self.built.update_time),
            "lookup_bytes": self.memory.lookup_bytes, "spare_bytes": self.memory.spare_bytes,
            "rib_bytes": self.memory.rib_bytes, "lengths": lengths,
        })
    }
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
