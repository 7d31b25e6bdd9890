// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why: one cause after the other is taken out, and what is left of the slow-down is measured.

use super::super::deployment;
use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table, digits};
use super::control::{Control, Victim};
use super::counters;
use super::kernels::{Access, Frames};
use super::machine::{LabMachine, bytes_in_words};
use super::plane::{Plane, PlaneKind, Work};
use super::rounds::{self, Pairs};
use super::stress::{Neighbour, Nobody, Stress, Stressor};
use super::victims::{self, Sizes};
use crate::Error;
use report::measure::Measured;

/// User planes that differ in one thing each.
pub(super) const POLL: PlaneKind =
    PlaneKind { name: "polls, one frame of its own", work: Work::Poll, ..PlaneKind::REFLECTOR };
pub(super) const OWN: PlaneKind =
    PlaneKind { name: "reflects, ring of 64", ring: 64, ..PlaneKind::REFLECTOR };
pub(super) const USUAL: PlaneKind = PlaneKind { name: "reflects, ring of 1,024", ..PlaneKind::REFLECTOR };
pub(super) const LARGE: PlaneKind =
    PlaneKind { name: "reflects, ring of 32,768", ring: 32_768, frames: 65_536, ..PlaneKind::REFLECTOR };
pub(super) const LONG: PlaneKind = PlaneKind {
    name: "ring of 1,024, frames of 1,518 bytes, headers only",
    frame: 1514,
    ..PlaneKind::REFLECTOR
};
pub(super) const WHOLE: PlaneKind = PlaneKind {
    name: "the same, and every byte is read",
    frame: 1514,
    work: Work::Payload,
    ..PlaneKind::REFLECTOR
};
/// The working set of a table: one route, or a million. Addresses are random.
const FEW: PlaneKind = PlaneKind {
    name: "ring of 64, a table of 1 route",
    ring: 64,
    work: Work::Lookup(0),
    ..PlaneKind::REFLECTOR
};
const MANY: PlaneKind = PlaneKind {
    name: "ring of 64, a table of 1,048,576 routes",
    ring: 64,
    work: Work::Lookup(20),
    ..PlaneKind::REFLECTOR
};
const LADDER: [PlaneKind; 8] = [POLL, OWN, USUAL, LARGE, LONG, WHOLE, FEW, MANY];
/// In a quick run, the larger table has two to the power of so many routes.
const QUICK_BITS: u32 = 10;

/// Frames of the experiment with shared frames.
const SHARED_FRAMES: usize = 256;

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    place: &LabMachine,
    control: &mut Control,
    shared: Table,
) -> Result<Section, Error> {
    let sizes = Sizes::of(place, setting.common.quick);
    let rounds = setting.common.rounds();
    let victims = control.lay(&victims::usual(&sizes), false)?;
    let names: Vec<String> = victims.iter().map(Victim::name).collect();
    setting.progress.expect(2 * victims.len() * rounds);
    setting.progress.part("why: causes taken out one by one");
    let kinds = LADDER.map(|kind| match kind.work {
        Work::Lookup(bits) if setting.common.quick => PlaneKind {
            name: if bits > 0 { "ring of 64, a table of 1,024 routes" } else { kind.name },
            work: Work::Lookup(bits.min(QUICK_BITS)),
            ..kind
        },
        _ => kind,
    });
    let mut planes = Plane::start_all(&kinds, place.user)?;
    let mut found: Vec<Vec<Pairs>> = Vec::new();
    for victim in &victims {
        let mut nobody = Nobody;
        let mut neighbours: Vec<&mut dyn Neighbour> = vec![&mut nobody];
        neighbours.extend(planes.iter_mut().map(|plane| plane as &mut dyn Neighbour));
        let length = setting.common.length();
        let work = || victim.run(control, length);
        found.push(rounds::compare(rounds, &mut neighbours, work, || setting.progress.step())?);
    }
    let counted = counters::table(setting, &mut planes[2], control, &victims)?;
    drop(planes);
    let ladder = ladder(setting, &kinds, (&names, &victims), &found);
    let shares = shares(setting, &names, &found);
    let stressed = stressors(setting, place, &sizes, (control, &victims), rounds)?;
    Ok(Section {
        title: "Why".into(),
        text: vec![
            "Each row of the first table is a user plane that has one thing more, or less, than the row before; the two with tables differ from each other in nothing but their routes. The first row is nobody at all: what it shows is the noise of the method. A plane that is paused sleeps, so each row is also this plane against a sleeping one.".into(),
            "Shares in the second table are derived: differences between rows of the first one. A difference is within the noise if the medians' notches overlap (McGill, Tukey and Larsen, 1978), or after fewer than four rounds.".into(),
            place.in_words(),
        ],
        tables: vec![ladder, shares, shared, stressed, counted],
        ..Section::default()
    })
}

fn columns(first: &str, names: &[String], origin: Origin) -> Vec<(String, Origin)> {
    let mut columns = vec![(first.to_owned(), Origin::Name)];
    columns.extend(names.iter().map(|name| (name.clone(), origin)));
    columns
}

fn ladder(
    setting: &mut Setting<'_>,
    kinds: &[PlaneKind],
    (names, victims): (&[String], &[Victim]),
    found: &[Vec<Pairs>],
) -> Table {
    let mut columns = columns("user plane", names, Origin::Measured);
    columns.push(("frames, thousands/s".to_owned(), Origin::Measured));
    let mut table = Table {
        caption: "Slow-down of the control plane's work, by what the user plane does".into(),
        columns,
        rows: Vec::new(),
    };
    let rows = std::iter::once("nobody").chain(kinds.iter().map(|kind| kind.name));
    let keys =
        ["nobody", "poll", "ring_64", "ring_1024", "ring_32768", "long", "whole", "table_1", "table_many"];
    for (i, (name, key)) in rows.zip(keys).enumerate() {
        let mut cells = vec![Cell::new(name)];
        for (pairs, victim) in found.iter().zip(victims) {
            let slower = rounds::note(setting, &format!("why_slower.{key}.{}", victim.key()), &pairs[i]);
            cells.push(rounds::cell(&slower));
        }
        let is_plane = i > 0;
        cells.push(if is_plane { rounds::rate_cell(&found[0][i]) } else { Cell::new("") });
        table.row(cells);
    }
    table
}

/// Differences of rows: what each thing adds, in points.
const CAUSES: [(&str, usize, usize); 5] = [
    ("the core next door is awake and polls: clock, power, hypervisor", 1, 0),
    ("the reflector's program and the lines that only it uses", 2, 1),
    ("packet memory in the shared cache: a ring of 32,768 frames, not 64", 4, 2),
    ("whole payload: writing and reading 1,518 bytes, not 64", 6, 3),
    ("the table's working set: lookups of random addresses among many routes, not one", 8, 7),
];

fn shares(setting: &mut Setting<'_>, names: &[String], found: &[Vec<Pairs>]) -> Table {
    let columns = columns("cause", names, Origin::Modelled);
    let caption = "Share of each cause, derived: percentage points of slow-down that it adds";
    let mut table = Table { caption: caption.into(), columns, rows: Vec::new() };
    for (cause, with, without) in CAUSES {
        let mut cells = vec![Cell::new(cause)];
        for pairs in found {
            let points = pairs[with].median() - pairs[without].median();
            let mut cell = Cell::new(format!("{points:+.1}"));
            if pairs[with].above(&pairs[without]).is_none() {
                cell.spread = Some("within the noise".into());
            }
            cells.push(cell);
        }
        table.row(cells);
    }
    for (name, pairs) in names.iter().zip(found) {
        let told = CAUSES
            .iter()
            .filter_map(|(cause, with, without)| Some((cause, pairs[*with].above(&pairs[*without])?)));
        let most = told.filter(|(_, points)| *points > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        setting.find(match most {
            Some((cause, points)) => {
                format!("Cause, derived, for {name}: {cause} adds most, {points:+.1} points.")
            }
            None => format!("Cause, for {name}: no cause adds more than the noise of this run."),
        });
    }
    table
}

/// Coherence by itself: the control plane reads headers that the user plane rewrites, or others of the same number.
pub(super) fn shared_frames(setting: &mut Setting<'_>, place: &LabMachine) -> Result<Table, Error> {
    let rounds = setting.common.rounds();
    setting.progress.expect(rounds);
    setting.progress.part("why: shared frames");
    let (mine, others) = (Frames::new(SHARED_FRAMES), Frames::new(SHARED_FRAMES));
    let mut nobody = Nobody;
    let mut private = Stressor::start(Stress::Frames(others), place.user);
    let mut shared = Stressor::start(Stress::Frames(mine.clone()), place.user);
    let length = setting.common.length();
    let mut neighbours: [&mut dyn Neighbour; 3] = [&mut nobody, &mut private, &mut shared];
    let compare =
        || rounds::compare(rounds, &mut neighbours, || Ok(mine.inspect(length)), || setting.progress.step());
    let found = deployment::on_cores(&[place.control], compare)??;
    let mut table = Table::new(
        format!(
            "Coherence by itself: one thread of the lab reads the headers of {SHARED_FRAMES} frames on the control plane's CPU, another one rewrites headers on the user plane's"
        ),
        &[
            ("the other core", Origin::Name),
            ("slower", Origin::Measured),
            ("paused, ns a frame", Origin::Measured),
            ("then, ns a frame", Origin::Measured),
        ],
    );
    let rows = [
        ("nobody", "nobody"),
        ("private", "rewrites frames of its own"),
        ("shared", "rewrites the same frames"),
    ];
    for ((key, name), pairs) in rows.into_iter().zip(&found) {
        let slower = rounds::note(setting, &format!("why_frames_slower.{key}"), pairs);
        let median = |ns: &[f64]| Cell::number(Measured::new("", "ns", ns.to_vec()).median());
        table.row(vec![Cell::new(name), rounds::cell(&slower), median(&pairs.paused), median(&pairs.loaded)]);
    }
    setting.find(format!(
        "Coherence: reading headers that the other core rewrites takes {} times as long as when it is paused; beside one that rewrites frames of its own, {} times.",
        digits(1.0 + found[2].median() / 100.0),
        digits(1.0 + found[1].median() / 100.0)
    ));
    Ok(table)
}

/// The same victims next to stressors: what they can feel at all.
fn stressors(
    setting: &mut Setting<'_>,
    place: &LabMachine,
    sizes: &Sizes,
    (control, victims): (&mut Control, &[Victim]),
    rounds: usize,
) -> Result<Table, Error> {
    let mut all = vec![(Stress::Spin, "computes".to_owned(), "spin".to_owned())];
    for access in [Access::Read, Access::Write, Access::Random] {
        for bytes in [sizes.second, sizes.half, sizes.memory] {
            let name = format!("{} {}", access.word(), bytes_in_words(bytes));
            all.push((Stress::Memory(access, bytes), name, format!("{}_{bytes}", access.word())));
        }
    }
    let mut running: Vec<Stressor> =
        all.iter().map(|(stress, ..)| Stressor::start(stress.clone(), place.user)).collect();
    let names: Vec<String> = victims.iter().map(Victim::name).collect();
    let mut found = Vec::new();
    for victim in victims {
        let mut neighbours: Vec<&mut dyn Neighbour> =
            running.iter_mut().map(|stressor| stressor as &mut dyn Neighbour).collect();
        let length = setting.common.length();
        let work = || victim.run(control, length);
        found.push(rounds::compare(rounds, &mut neighbours, work, || setting.progress.step())?);
    }
    let mut table = Table {
        caption: "Slow-down beside stressors of known kind on the user plane's core".into(),
        columns: columns("stressor", &names, Origin::Measured),
        rows: Vec::new(),
    };
    for (i, (_, name, key)) in all.iter().enumerate() {
        let mut cells = vec![Cell::new(name.clone())];
        for (pairs, victim) in found.iter().zip(victims) {
            let slower =
                rounds::note(setting, &format!("why_stress_slower.{key}.{}", victim.key()), &pairs[i]);
            cells.push(rounds::cell(&slower));
        }
        table.row(cells);
    }
    Ok(table)
}
