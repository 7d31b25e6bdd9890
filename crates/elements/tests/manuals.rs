// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples in the elements' manuals: each is a configuration that checks without an error or a warning, and
//! those that end by themselves do so, on simulated time.

mod common;
#[path = "common/manual.rs"]
mod manual;

use std::sync::Arc;
use std::time::Duration;

use common::NoDevices;
use engine::clock::{SIMULATION_EPOCH, TimeSource};
use engine::{Options, Router};
use junctor_elements as elements;
use manual::examples;

/// Simulated seconds that an example may take.
const LONGEST_S: u64 = 3600;

/// Whether a configuration says that it ends.
fn ends(text: &str) -> bool {
    ["STOP true", "STOP 1", "DriverManager(", "write stop", ", stop"].iter().any(|sign| text.contains(sign))
}

/// What came of an example.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Checked,
    Ran,
}

fn run(text: &str) -> Result<Outcome, String> {
    let parsed = lang::load_str("example", text, &elements::options());
    let shown = |diagnostics: &[lang::Diagnostic]| lang::render(diagnostics, &parsed.sources, false);
    if !parsed.diagnostics.is_empty() {
        return Err(shown(&parsed.diagnostics));
    }
    let graph = parsed.graph.as_ref().ok_or("no graph")?;
    let registry = elements::registry();
    engine::check(graph, &registry).map_err(|errors| shown(&errors))?;
    if !ends(text) {
        return Ok(Outcome::Checked);
    }
    let options = Options {
        provider: Arc::new(NoDevices),
        workers: 1,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: TimeSource::Simulated(SIMULATION_EPOCH),
        seed: 1,
        print: Some(Box::new(|_| {})),
        placer: Some(reconfigure::placer()),
    };
    let mut router = match Router::build(graph, &registry, options) {
        Ok(router) => router,
        // Files and devices that are not here.
        Err(errors) if errors.iter().all(|e| matches!(e.code, "E0400" | "E0401")) => {
            return Ok(Outcome::Checked);
        }
        Err(errors) => return Err(shown(&errors)),
    };
    // An example that went on for ever could do so without simulated time passing.
    let (control, (done, end)) = (router.control(), std::sync::mpsc::channel());
    let watch = std::thread::spawn(move || {
        let late = end.recv_timeout(Duration::from_secs(300)).is_err();
        if late {
            control.stop();
        }
        late
    });
    router.stop_after(Duration::from_secs(LONGEST_S));
    router.run();
    let _ = done.send(());
    let late = watch.join().map_err(|_| "the watch failed")?;
    let now: f64 = router.read("time", "").ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0.0);
    if late || now >= 1e9 + LONGEST_S as f64 {
        return Err(format!("does not end by itself, as it says:\n{text}"));
    }
    Ok(Outcome::Ran)
}

// One test, for it changes the directory of the process, where examples may write files.
#[test]
fn examples_check_and_run() {
    let directory = tempfile::tempdir().expect("temporary directory");
    std::env::set_current_dir(directory.path()).expect("temporary directory");
    let registry = elements::registry();
    let mut files: Vec<(&str, &str)> = registry
        .iter()
        .map(|class| {
            (class.file, elements::manual(class).unwrap_or_else(|| panic!("{} has no manual", class.name)))
        })
        .chain(elements::compound::COMPOUNDS.iter().map(|c| (c.name(), c.manual().unwrap_or_default())))
        .collect();
    files.sort();
    files.dedup();
    let (mut checked, mut ran, mut wrong) = (0, 0, Vec::new());
    for (file, manual) in files {
        let examples = examples(manual);
        if examples.is_empty() {
            wrong.push(format!("{file}: the manual has no example"));
        }
        for text in examples {
            match run(&text) {
                Ok(Outcome::Checked) => checked += 1,
                Ok(Outcome::Ran) => ran += 1,
                Err(why) => wrong.push(format!("{file}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} examples are wrong\n{}", wrong.len(), wrong.join("\n"));
    println!("{ran} examples ran to their end, {checked} were checked only");
}
