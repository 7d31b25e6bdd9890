// SPDX-License-Identifier: MIT OR Apache-2.0
//! No argument and no value written to a handler ends the process: every class, every argument, extreme and random values.
//!
//! Each class is tried in a process of its own with an address space that is limited, so that a panic, and memory that is asked for without bound,
//! end that process alone. The last line that it has written names the case. Configurations come from the manuals' examples. One that is accepted is
//! built and runs for a moment, and then its handlers are written.

#[path = "common/cases.rs"]
mod cases;
mod common;
#[path = "common/manual.rs"]
mod manual;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cases::{EXTREMES, asked, example, variants};
use common::NoDevices;
use engine::clock::{SIMULATION_EPOCH, TimeSource};
use engine::{Options, Router};
use junctor_elements as elements;
use lang::config::split_words;
use manual::examples;

/// The class that this process is to try.
const CLASS: &str = "JUNCTOR_EXTREMES_CLASS";
/// What a process may take in addition to what it has when it begins.
const ROOM: u64 = 3 << 30;
/// Rounds of simulated time that a configuration runs for.
const MOMENT: Duration = Duration::from_millis(1);

/// Classes that open sockets or files of the machine as soon as they are built: their arguments are read, but nothing runs.
const OUTSIDE: &[&str] = &["ControlSocket", "McastSocket", "RawSocket", "Socket"];

/// Variants of one class that are tried, unless [`ALL`] is set: some of all, drawn with a fixed seed.
const MOST_VARIANTS: usize = 240;
const ALL: &str = "JUNCTOR_EXTREMES_ALL";

fn options() -> Options {
    Options {
        provider: Arc::new(NoDevices),
        workers: 1,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: TimeSource::Simulated(SIMULATION_EPOCH),
        seed: 1,
        print: Some(Box::new(|_| {})),
        placer: Some(reconfigure::placer()),
    }
}

/// Runs for a moment of simulated time, or until it has been at it for long.
fn run(router: &mut Router) {
    router.resume();
    router.stop_after(MOMENT);
    let (control, (done, end)) = (router.control(), std::sync::mpsc::channel::<()>());
    // One that goes on without simulated time passing.
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(Duration::from_millis(3)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            control.stop();
        }
    });
    router.run();
    drop(done);
    watch.join().expect("the watch");
}

/// Prints what is going on, for readers of the log in case it is the last line.
fn note(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "{}", text.escape_debug().to_string().chars().take(400).collect::<String>());
}

/// Reads all that can be read.
fn read_all(router: &mut Router, element: element::ElementId) {
    let shared = router.shared().clone();
    let name = &shared.elements[element].name;
    for handler in shared.handlers(element).filter(|h| h.readable()) {
        let _ = router.read(&format!("{name}.{}", handler.name), "");
    }
}

/// Writes every value to every handler of an element.
fn write_all(router: &mut Router, element: element::ElementId, random: &mut fastrand::Rng) {
    let shared = router.shared().clone();
    let name = shared.elements[element].name.clone();
    let mut handlers: Vec<String> =
        shared.handlers(element).filter(|h| h.writable()).map(|h| h.name.to_owned()).collect();
    handlers.extend(shared.elements[element].own_handlers.iter().map(|(name, _)| name.to_string()));
    for handler in handlers.iter().filter(|h| *h != "*") {
        let current = router.read(&format!("{name}.{handler}"), "").unwrap_or_default();
        let current = current.lines().next().unwrap_or_default();
        let mut values: Vec<String> = EXTREMES.iter().map(|v| (*v).to_owned()).collect();
        values.push((random.u64(..) >> random.u32(0..64)).to_string());
        let words = split_words(current);
        for (at, value) in (0..words.len().min(4)).flat_map(|at| EXTREMES.iter().map(move |v| (at, v))) {
            let mut words = words.clone();
            words[at] = value;
            values.push(words.join(" "));
        }
        // Settings that are accepted are tried together with those that follow.
        for value in values {
            note(&format!("write {name}.{handler} {value}"));
            let _ = router.write(&format!("{name}.{handler}"), &value);
        }
        run(router);
        read_all(router, element);
    }
}

fn try_class(class: &str, manual: &str) {
    let registry = elements::registry();
    let mut random = fastrand::Rng::with_seed(7);
    let Some((graph, at)) = example(&registry, &elements::options(), class, &examples(manual)) else {
        panic!("no example in its manual has an element of this class");
    };
    let asked = asked(&registry, &graph, at);
    let runs = !OUTSIDE.contains(&class);
    let mut accepted = 0;
    let mut variants = variants(&graph.elements[at].config, &asked, &mut random);
    if std::env::var_os(ALL).is_none() {
        variants.truncate(MOST_VARIANTS);
    }
    for config in &variants {
        let mut graph = graph.clone();
        graph.elements[at].config = config.as_str().into();
        note(&format!("check {class}({config})"));
        if engine::check(&graph, &registry).is_err() || !runs {
            continue;
        }
        accepted += 1;
        note(&format!("run {class}({config})"));
        if let Ok(mut router) = Router::build(&graph, &registry, options()) {
            run(&mut router);
            read_all(&mut router, element::ElementId::new(at));
        }
    }
    if runs && let Ok(mut router) = Router::build(&graph, &registry, options()) {
        write_all(&mut router, element::ElementId::new(at), &mut random);
    }
    note(&format!("done: {} variants, {accepted} accepted", variants.len()));
}

/// Limits the address space, so that memory that is asked for without bound is refused.
fn limit_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .expect("Linux says how large a process is");
    let limit = Some(pages * 4096 + ROOM);
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: limit, maximum }).expect("a process may limit itself");
}

/// Tries the class that the parent names; by itself it does nothing.
#[test]
fn one_class() {
    let Ok(class) = std::env::var(CLASS) else { return };
    packet::memory();
    limit_memory();
    let manual = elements::registry().get(&class).and_then(elements::manual).unwrap_or_default();
    let tried = catch_unwind(AssertUnwindSafe(|| try_class(&class, manual)));
    assert!(tried.is_ok(), "{class} panicked");
}

/// What the process that tries a class leaves behind.
fn outcome(class: &str, directory: &std::path::Path) -> Result<String, String> {
    let inside = directory.join(class);
    std::fs::create_dir_all(&inside).map_err(|e| e.to_string())?;
    let output = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["--exact", "one_class", "--nocapture", "--test-threads=1"])
        .env(CLASS, class)
        .current_dir(inside)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(12).collect();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n  ");
    if output.status.success() && said.contains("done: ") {
        Ok(said.lines().rfind(|l| l.starts_with("done: ")).unwrap_or_default().to_owned())
    } else {
        Err(format!("{class}: {}\n  {last}", output.status))
    }
}

#[test]
fn no_value_ends_the_process() {
    let registry = elements::registry();
    let only = std::env::var("JUNCTOR_EXTREMES_ONLY").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|o| o.split(',').any(|o| o == name));
    // Error is an error in every configuration.
    let classes: Vec<&str> = registry.iter().map(|c| c.name).filter(|n| wanted(n) && *n != "Error").collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(class) = classes.get(next.fetch_add(1, Ordering::Relaxed)) {
            match outcome(class, directory.path()) {
                Ok(done) => println!("{class}: {done}"),
                Err(why) => {
                    println!("{why}");
                    wrong.push(why);
                }
            }
        }
        wrong
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|t| t.join().expect("a thread of this test")).collect()
    });
    assert!(wrong.is_empty(), "{} classes\n{}", wrong.len(), wrong.join("\n"));
}
