// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIP calls while the reflector runs: set up and ended over loopback, by PJSIP (the study's stack) and by sipp.

use std::path::Path;
use std::process::{Command, Stdio};

use testbed::rig;

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table};
use super::control::Control;
use super::machine::LabMachine;
use super::plane::Plane;
use super::work::on_path;
use super::{Settings, published, rounds};
use crate::Error;

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
    args: &Settings,
    place: &LabMachine,
    plane: &mut Plane,
    control: &mut Control,
) -> Result<Section, Error> {
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
                let python = (stack.key == "pjsip").then_some(&*python);
                measure(setting, python, each, plane, control).map_err(|why| format!("failed: {why}"))
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
    python: Option<&Path>,
    calls: u32,
    plane: &mut Plane,
    control: &mut Control,
) -> Result<Found, Error> {
    control.prepare_calls(python)?;
    let mut walls = Vec::new();
    let work = || {
        let time = control.call(calls)?;
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
