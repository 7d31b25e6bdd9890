// SPDX-License-Identifier: MIT OR Apache-2.0
//! FRR computing routes while the reflector runs: how long until a table that a BGP neighbour sends is in the kernel.

use std::path::Path;

use testbed::rig;

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table};
use super::control::Control;
use super::machine::LabMachine;
use super::plane::Plane;
use super::{Settings, rounds};
use crate::Error;

/// The whole table of a router in the Internet, if it is there (RIPE RIS).
const WHOLE: &str = "v4-ris-as3333-20260511.txt.xz";
/// Routes that are made up where it is not.
const MADE_UP: u32 = 100_000;
/// The most routes.
pub const PREFIXES_MAX: u32 = 2_000_000;
/// Routes of a quick run.
const QUICK_ROUTES: usize = 1000;

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    args: &Settings,
    place: &LabMachine,
    plane: &mut Plane,
    control: &mut Control,
) -> Result<Section, Error> {
    setting.progress.part("routes");
    let (routes, source) = table(setting, args, control)?;
    let rounds = setting.common.rounds().min(5);
    let mut shown = Table::new(
        format!("Until {} routes {source} are in the kernel, {rounds} times in each state", routes),
        &[
            ("", Origin::Name),
            ("slower, processor time", Origin::Measured),
            ("slower, time of the clock", Origin::Measured),
            ("paused, s", Origin::Measured),
            ("loaded, s", Origin::Measured),
            ("frames, thousands/s", Origin::Measured),
            ("its CPU has", Origin::Name),
        ],
    );
    let found = rig::available().map_err(|why| format!("left out: {why}")).and_then(|()| {
        daemons()?;
        setting.progress.expect(rounds);
        measure(setting, rounds, plane, control).map_err(|why| format!("failed: {why}"))
    });
    let mut cells = vec![Cell::new("FRR: bgpd, zebra")];
    match found {
        Ok((cpu, wall)) => {
            cells.extend(row(setting, routes, &cpu, &wall));
            cells.push(Cell::new("daemons and neighbour"));
        }
        Err(why) => {
            setting.progress.say(&format!("routes: {why}"));
            cells.extend(rounds::absent(why));
        }
    }
    shown.row(cells);
    Ok(Section {
        title: "Routes".into(),
        text: vec![
            "The control plane's own work, which the study does not have: bgpd receives a table from a neighbour that sends all at once, and zebra puts it into the kernel. It has converged when the routes that are looked for lead somewhere and zebra counts all. Then the daemons end, and new ones begin with an empty table. Processor time is that of both daemons.".into(),
            place.in_words(),
        ],
        tables: vec![shown],
        ..Section::default()
    })
}

/// Has the control plane prepare the routes: how many there are, and where they come from.
fn table(setting: &Setting<'_>, args: &Settings, control: &mut Control) -> Result<(usize, String), Error> {
    let file = args.routes.clone().or_else(|| harness::files::shared(WHOLE));
    let most = args.prefixes.unwrap_or(if file.is_some() { PREFIXES_MAX } else { MADE_UP }) as usize;
    let most = if setting.common.quick { most.min(QUICK_ROUTES) } else { most };
    let source = file.as_ref().map_or("made up here".to_owned(), |file| {
        format!("of {}", file.file_name().unwrap_or_default().display())
    });
    Ok((control.prepare_routes(file.as_deref(), most)?, source))
}

/// Whether FRR's daemons are there.
fn daemons() -> Result<(), String> {
    let there = ["bgpd", "zebra"].iter().all(|name| Path::new(&testbed::frr::program(name)).exists());
    there.then_some(()).ok_or_else(|| "left out: FRR is not installed (sudo apt-get install frr)".to_owned())
}

/// Times by the processor and by the clock.
fn measure(
    setting: &mut Setting<'_>,
    rounds: usize,
    plane: &mut Plane,
    control: &mut Control,
) -> Result<(rounds::Pairs, rounds::Pairs), Error> {
    let mut walls = Vec::new();
    let work = || {
        // The first time warms up.
        let time = control.converge(walls.is_empty())?;
        walls.push(time.wall_s);
        Ok(time.cpu_ns)
    };
    let mut found = rounds::compare(rounds, &mut [plane], work, || setting.progress.step())?;
    let cpu = found.pop().unwrap_or_default();
    let wall = rounds::Pairs::of_values(&walls, &cpu.rate);
    Ok((cpu, wall))
}

fn row(setting: &mut Setting<'_>, routes: usize, cpu: &rounds::Pairs, wall: &rounds::Pairs) -> Vec<Cell> {
    let slower = rounds::note(setting, "routes_slower.frr", cpu);
    let by_clock = rounds::note(setting, "routes_slower_clock.frr", wall);
    let paused = setting.note("interference.routes_s.paused.frr", "s", wall.paused.clone());
    let loaded = setting.note("interference.routes_s.loaded.frr", "s", wall.loaded.clone());
    setting.find(format!(
        "FRR with {routes} routes, with the reflector at line rate: processor time {}; by the clock {}.",
        cpu.in_words(),
        wall.in_words()
    ));
    vec![
        rounds::cell(&slower),
        rounds::cell(&by_clock),
        Cell::measured(&paused),
        Cell::measured(&loaded),
        rounds::rate_cell(wall),
    ]
}
