// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIP calls beside the reflector: set up and ended over loopback, by PJSIP (the study's stack) and by sipp.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::rig::{self, Namespace, Resident};

use super::super::report::{Cell, Origin, Section, Table};
use super::super::shared::Setting;
use super::machine::Place;
use super::plane::Plane;
use super::tools::{Time, in_namespace, on_path, thread_ns};
use super::{Args, published, rounds};

const SCRIPT: &str = include_str!("calls.py");
/// How long calls may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Calls of a quick run.
const QUICK_CALLS: u32 = 200;

/// A program that makes calls.
struct Stack {
    key: &'static str,
    name: &'static str,
    /// Why it is not there.
    missing: Option<String>,
}

/// Which there are. The second one's Python is asked whether it has the library.
fn stacks(python: &Path) -> [Stack; 2] {
    let sipp = on_path("sipp").is_none();
    let question = Command::new(python).args(["-c", "import pjsua2"]).stdin(Stdio::null()).output();
    let pjsip = match question {
        Ok(answer) if answer.status.success() => None,
        Ok(_) => Some(format!("{} has no pjsua2", python.display())),
        Err(why) => Some(format!("{}: {why}", python.display())),
    };
    let venv = "python3 -m venv pj; pj/bin/pip install pjsua2-python==2.15.1; then --pjsua2 pj/bin/python";
    [
        Stack {
            key: "pjsip",
            name: "PJSIP, as in the study",
            missing: pjsip.map(|why| format!("left out: {why} ({venv})")),
        },
        Stack {
            key: "sipp",
            name: "sipp",
            missing: sipp
                .then(|| "left out: sipp is not installed (sudo apt-get install sip-tester)".to_owned()),
        },
    ]
}

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    args: &Args,
    place: &Place,
    plane: &mut Plane,
) -> Result<Section, String> {
    let python = args.pjsua2.clone().unwrap_or_else(|| "python3".into());
    let rounds = setting.common.rounds();
    let calls = if setting.common.quick { args.calls.min(QUICK_CALLS) } else { args.calls };
    setting.progress.part("SIP calls");
    let namespaces = rig::available().map_err(|why| format!("left out: {why}")).err();
    let mut table = Table::new(
        format!("{calls} calls set up and ended over loopback, in {rounds} parts for each state"),
        &[
            ("", Origin::Name),
            ("study", Origin::Published),
            ("slower, processor time", Origin::Measured),
            ("slower, time of the clock", Origin::Measured),
            ("all calls, paused, s", Origin::Measured),
            ("loaded, s", Origin::Measured),
            ("frames, thousands/s", Origin::Measured),
            ("its CPU has", Origin::Name),
        ],
    );
    for stack in stacks(&python) {
        let study = if stack.key == "pjsip" { published::SIP } else { "" };
        let mut cells = vec![Cell::new(stack.name), Cell::new(study)];
        let missing = namespaces.clone().or(stack.missing);
        let found = match missing {
            Some(why) => Err(why),
            None => {
                setting.progress.expect(rounds);
                let each = calls.div_ceil(rounds as u32);
                measure(setting, stack.key, &python, each, place, plane)
                    .map_err(|why| format!("failed: {why}"))
            }
        };
        match found {
            Ok(found) => {
                cells.extend(row(setting, stack.key, stack.name, calls, &found));
                cells.push(Cell::new("caller and callee"));
            }
            Err(why) => {
                setting.progress.say(&format!("{}: {why}", stack.name));
                cells.extend(rounds::absent(why));
            }
        }
        table.row(cells);
    }
    Ok(Section {
        title: "SIP calls".into(),
        text: vec![
            "A caller invites, is answered, acknowledges, and hangs up. Both ends are in a network namespace of their own. PJSIP runs caller and callee in one process, two calls at once, driven by Python, whose own work is in the times; its media stops short of sockets. sipp runs them as two processes, 50 calls at once.".into(),
            place.in_words(),
        ],
        tables: vec![table],
        ..Section::default()
    })
}

/// Times by the processor and by the clock.
struct Found {
    cpu: rounds::Pairs,
    wall: rounds::Pairs,
}

fn measure(
    setting: &mut Setting<'_>,
    key: &str,
    python: &Path,
    calls: u32,
    place: &Place,
    plane: &mut Plane,
) -> Result<Found, String> {
    let namespace = Namespace::unnamed().map_err(|e| e.to_string())?;
    let callee = (key == "sipp").then(|| callee(&namespace, place.control)).transpose()?;
    let mut walls = Vec::new();
    let work = || {
        let time = match &callee {
            Some(callee) => sipp(&namespace, callee, calls, place.control),
            None => pjsip(&namespace, python, calls, place.control),
        }?;
        walls.push(time.wall_s);
        Ok(time.cpu_ns)
    };
    let rounds = setting.common.rounds();
    let mut found = rounds::compare(rounds, &mut [plane], work, || setting.progress.step())?;
    let cpu = found.pop().unwrap_or_default();
    let wall = rounds::Pairs::of_values(&walls, &cpu.rate);
    Ok(Found { cpu, wall })
}

fn row(setting: &mut Setting<'_>, key: &str, name: &str, calls: u32, found: &Found) -> Vec<Cell> {
    let cpu = rounds::note(setting, &format!("sip_slower.{key}"), &found.cpu);
    let wall = rounds::note(setting, &format!("sip_slower_clock.{key}"), &found.wall);
    let all = |values: &[f64]| values.iter().sum::<f64>();
    let (paused, loaded) = (all(&found.wall.paused), all(&found.wall.loaded));
    for (what, value) in [("paused", paused), ("loaded", loaded)] {
        setting.note(format!("interference.sip_s.{what}.{key}"), "s", vec![value]);
    }
    setting.find(format!(
        "{calls} SIP calls by {name}, with the reflector at line rate: processor time {} (study: {}).",
        found.cpu.in_words(),
        published::SIP
    ));
    vec![
        rounds::cell(&cpu),
        rounds::cell(&wall),
        Cell::number(paused),
        Cell::number(loaded),
        rounds::rate_cell(&found.wall),
    ]
}

/// Starts sipp's callee.
fn callee(namespace: &Namespace, cpu: usize) -> Result<Resident, String> {
    let words = ["sipp", "-sn", "uas", "-i", "127.0.0.1", "-p", "5060", "-nostdin"];
    let mut callee = in_namespace(namespace, &words, cpu)?;
    let started = Instant::now();
    let bound = || {
        let sockets = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
        // 5060, as the kernel writes it.
        sockets.is_ok_and(|text| text.is_ok_and(|text| text.contains(":13C4 ")))
    };
    while !bound() {
        if let Some(status) = callee.process.ended() {
            return Err(format!("sipp ended with {status}: {}", callee.process.stderr().trim()));
        }
        if started.elapsed() > Duration::from_secs(30) {
            return Err("sipp does not listen after 30 s".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(callee)
}

/// Makes calls by sipp; the time of both ends.
fn sipp(namespace: &Namespace, callee: &Resident, calls: u32, cpu: usize) -> Result<Time, String> {
    let calls = calls.to_string();
    let mut words = vec!["sipp", "-sn", "uac", "127.0.0.1:5060", "-i", "127.0.0.1", "-p", "5061", "-nostdin"];
    words.extend(["-m", &calls, "-r", "100000", "-l", "50", "-d", "0", "-timeout", "600s"]);
    let (started, before) = (Instant::now(), thread_ns(callee.process.id()));
    let caller = in_namespace(namespace, &words, cpu)?;
    let (status, own_ns, output) = super::tools::finish(caller, PATIENCE)?;
    let wall_s = started.elapsed().as_secs_f64();
    // 0: all calls succeeded.
    if !status.success() {
        return Err(format!("sipp ended with {status}: {}", output.trim()));
    }
    Ok(Time { wall_s, cpu_ns: own_ns + thread_ns(callee.process.id()) - before })
}

/// Makes calls by PJSIP.
fn pjsip(namespace: &Namespace, python: &Path, calls: u32, cpu: usize) -> Result<Time, String> {
    let (python, count) = (python.display().to_string(), calls.to_string());
    let caller = in_namespace(namespace, &[&python, "-c", SCRIPT, &count], cpu)?;
    let (status, _, output) = super::tools::finish(caller, PATIENCE)?;
    let line = output.lines().find_map(|line| line.strip_prefix("calls "));
    let words: Vec<f64> = line.unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect();
    match words[..] {
        [confirmed, wall_s, cpu_s] if confirmed == f64::from(calls) => {
            Ok(Time { wall_s, cpu_ns: cpu_s * 1e9 })
        }
        [confirmed, ..] => Err(format!("PJSIP: only {confirmed} of {calls} calls were set up")),
        [] => {
            let last = output.lines().last().unwrap_or_default();
            Err(format!("PJSIP ended with {status}: {last}"))
        }
    }
}
