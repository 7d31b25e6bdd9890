// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench start`: how long a router takes from the command to its first round, and a check to its answer.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Elements of the configuration that is run.
    pub elements: usize,
    /// Lines of the configuration that is checked.
    pub lines: usize,
    /// Measured runs, after one to warm up.
    pub runs: usize,
}

/// A configuration of this many elements that stops in its first round: chains of eight, one in 25 of which looks up
/// routes, as routers have it.
pub fn generate(elements: usize) -> String {
    let mut text = String::from("// Generated. Stops in its first round.\nDriverManager(stop);\n");
    for i in 0..elements.saturating_sub(1) / 8 {
        let (a, b) = (i / 250, i % 250);
        let route = match i % 25 {
            0 => format!("StaticIPLookup(10.{a}.{b}.0/24 0, 0.0.0.0/0 10.{a}.{b}.1 1)"),
            _ => format!("Classifier(12/0800 26/{:04x}, -)", i % 0x10000),
        };
        let _ = write!(
            text,
            "s{i} :: InfiniteSource(LENGTH 60, ACTIVE false)\n    -> c{i} :: Counter\n    -> r{i} :: {route};\n\
             r{i}[0] -> p{i} :: Paint({})\n    -> q{i} :: Queue(100)\n    -> u{i} :: Unqueue\n    \
             -> d{i} :: Discard;\nr{i}[1] -> Discard;\n",
            i % 200
        );
    }
    text
}

/// A configuration of this many lines.
fn generate_lines(lines: usize) -> String {
    let per_chain = generate(9).lines().count() - generate(1).lines().count();
    generate(1 + 8 * (lines / per_chain))
}

/// Measures how long `junctor run` takes to start, and `junctor check` to check a configuration.
///
/// # Errors
/// This program cannot be started, or fails.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let measured = std::env::current_exe().and_then(|program| measure_all(&program, args));
    let results = measured.map_err(Error::from)?;
    Ok(Findings { conditions: json!({ "elements": args.elements, "lines": args.lines }), results })
}

fn measure_all(program: &Path, args: &Settings) -> std::io::Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let [empty, large, long] = ["0.click", "1.click", "2.click"].map(|name| directory.path().join(name));
    std::fs::write(&empty, generate(1))?;
    std::fs::write(&large, generate(args.elements))?;
    std::fs::write(&long, generate_lines(args.lines))?;
    Ok(vec![
        measure_one("start.run_empty_ms", program, "run", &empty, args.runs)?,
        measure_one("start.run_ms", program, "run", &large, args.runs)?,
        measure_one("start.check_ms", program, "check", &long, args.runs)?,
    ])
}

fn measure_one(
    name: &str,
    program: &Path,
    what: &str,
    file: &Path,
    runs: usize,
) -> std::io::Result<Measured> {
    let mut times = Vec::new();
    for run in 0..=runs.max(1) {
        let started = Instant::now();
        let status = Command::new(program).arg(what).arg(file).stdin(Stdio::null()).status()?;
        if !status.success() {
            return Err(std::io::Error::other(format!("junctor {what} {}: {status}", file.display())));
        }
        if run > 0 {
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Measured::new(name, "ms", times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_configurations_have_their_size_and_check() {
        let text = generate(1000);
        let parsed = lang::load_str("start", &text, &elements::options());
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        let graph = parsed.graph.unwrap();
        assert!((990..=1000).contains(&graph.elements.len()), "{}", graph.elements.len());
        assert!(engine::check(&graph, &elements::registry()).is_ok());
        assert!((9_990..=10_010).contains(&generate_lines(10_000).lines().count()));
    }
}
