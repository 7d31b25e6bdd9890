// SPDX-License-Identifier: MIT OR Apache-2.0
//! What helps: the same user plane with one thing changed, slow-down before and after.

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table, digits};
use super::control::{Control, Victim};
use super::machine::LabMachine;
use super::plane::{Plane, PlaneKind};
use super::rounds::{self, Pairs};
use super::stress::Neighbour;
use super::victims::{self, Sizes};
use crate::Error;
use report::measure::Measured;

/// What is to be helped: long frames in a large ring, in ordinary pages.
const BEFORE: PlaneKind = PlaneKind {
    name: "before: ring of 32,768, frames of 1,518 bytes, pages of 4 KiB, as many as it takes",
    ring: 32_768,
    frame: 1514,
    frames: 65_536,
    huge: false,
    ..PlaneKind::REFLECTOR
};

/// One change each, and all that do no harm.
fn remedies(pace: u64) -> Vec<PlaneKind> {
    vec![
        PlaneKind { name: "huge pages", huge: true, ..BEFORE },
        PlaneKind { name: "ring of 1,024", ring: 1024, ..BEFORE },
        PlaneKind { name: "ring of 256", ring: 256, ..BEFORE },
        PlaneKind { name: "packet memory of 2,048 frames, ring of 256", ring: 256, frames: 2048, ..BEFORE },
        PlaneKind { name: "batches of 16 packets", burst: 16, ..BEFORE },
        PlaneKind { name: "batches of 256 packets", burst: 256, ..BEFORE },
        PlaneKind { name: "paced: a quarter of the frames, sleeping in between", rate: pace, ..BEFORE },
        PlaneKind { name: "ring of 256, huge pages", ring: 256, huge: true, ..BEFORE },
    ]
}

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    place: &LabMachine,
    control: &mut Control,
) -> Result<Section, Error> {
    let sizes = Sizes::of(place, setting.common.quick);
    let rounds = setting.common.rounds();
    let victims = control.lay(&victims::usual(&sizes), false)?;
    setting.progress.expect(victims.len() * rounds);
    setting.progress.part("remedies");
    let mut before = Plane::start_all(&[BEFORE], place.user)?;
    let pace = quarter(setting, &mut before[0], control, &victims[0])?;
    drop(before);
    let kinds = [vec![BEFORE], remedies(pace)].concat();
    let mut planes = Plane::start_all(&kinds, place.user)?;
    let mut found = Vec::new();
    for victim in &victims {
        let mut neighbours: Vec<&mut dyn Neighbour> =
            planes.iter_mut().map(|plane| plane as &mut dyn Neighbour).collect();
        let length = setting.common.length();
        let work = || victim.run(control, length);
        found.push(rounds::compare(rounds, &mut neighbours, work, || setting.progress.step())?);
    }
    let huge: Vec<u64> = planes.iter().map(Plane::huge_bytes).collect();
    drop(planes);
    let mut text = vec![
        "The first row is what the others are compared with. A remedy that lowers the rate at which frames are reflected lowers the slow-down, too; both stand there.".to_owned(),
        "Pools are private to a partition from the start: each user plane is a process with packet memory of its own. What frames that two planes share cost stands under \"Why\".".to_owned(),
        place.in_words(),
    ];
    if huge.iter().all(|bytes| *bytes == 0) {
        text.push(
            "No user plane got huge pages here, so the rows with huge pages show ordinary ones.".to_owned(),
        );
    }
    let table = table(setting, &kinds, &victims, &found);
    Ok(Section { title: "Remedies".into(), text, tables: vec![table], ..Section::default() })
}

/// A quarter of the frames that a user plane takes, a second.
fn quarter(
    setting: &Setting<'_>,
    plane: &mut Plane,
    control: &mut Control,
    victim: &Victim,
) -> Result<u64, Error> {
    let length = setting.common.length();
    let found = rounds::compare(1, &mut [plane], || victim.run(control, length), || {})?;
    let rate = found.first().and_then(|pairs| pairs.rate.first()).copied().unwrap_or(0.0);
    Ok(((rate * 1e3 / 4.0) as u64).max(1000))
}

fn table(setting: &mut Setting<'_>, kinds: &[PlaneKind], victims: &[Victim], found: &[Vec<Pairs>]) -> Table {
    let mut columns = vec![("user plane".to_owned(), Origin::Name)];
    columns.extend(victims.iter().map(|victim| (victim.name(), Origin::Measured)));
    columns.push(("frames, thousands/s".to_owned(), Origin::Measured));
    let caption = "Slow-down of the control plane's work before and after".into();
    let mut table = Table { caption, columns, rows: Vec::new() };
    for (i, kind) in kinds.iter().enumerate() {
        let mut cells = vec![Cell::new(kind.name)];
        for (pairs, victim) in found.iter().zip(victims) {
            let slower = rounds::note(setting, &format!("remedy_slower.{i}.{}", victim.key()), &pairs[i]);
            cells.push(rounds::cell(&slower));
        }
        cells.push(rounds::rate_cell(&found[0][i]));
        table.row(cells);
    }
    let mut cells = vec![Cell::new("cache allocation (resctrl)")];
    let here = std::path::Path::new("/sys/fs/resctrl/schemata").exists();
    let why = if here { "not tried by this lab" } else { "this machine has no resctrl" };
    cells.extend(victims.iter().map(|_| Cell::missing(why)));
    cells.push(Cell::new(""));
    table.row(cells);
    find(setting, kinds, victims, found);
    table
}

/// Says what helps most.
fn find(setting: &mut Setting<'_>, kinds: &[PlaneKind], victims: &[Victim], found: &[Vec<Pairs>]) {
    for (pairs, victim) in found.iter().zip(victims) {
        let Some((before, after)) = pairs.split_first() else { continue };
        let helps = kinds[1..]
            .iter()
            .zip(after)
            .filter(|(_, pairs)| before.above(pairs).is_some_and(|points| points > 0.0));
        let best = helps.min_by(|a, b| a.1.median().total_cmp(&b.1.median()));
        let name = victim.name();
        setting.find(match best {
            Some((kind, pairs)) => format!(
                "Remedies for {name}: {:+.1} % before, {:+.1} % with '{}', which helps most.",
                before.median(),
                pairs.median(),
                kind.name
            ),
            None => format!(
                "Remedies for {name}: none helps by more than the noise of this run ({:+.1} % before).",
                before.median()
            ),
        });
    }
    let rate = |pairs: &Pairs| Measured::new("", "kpps", pairs.rate.clone()).median();
    let Some((before, after)) = found.first().and_then(|pairs| pairs.split_first()) else { return };
    let best = kinds[1..].iter().zip(after).max_by(|a, b| rate(a.1).total_cmp(&rate(b.1)));
    if let Some((kind, pairs)) = best {
        setting.find(format!(
            "The user plane itself reflects {} thousand frames a second before, and {} with '{}', the most of all.",
            digits(rate(before)),
            digits(rate(pairs)),
            kind.name
        ));
    }
}
