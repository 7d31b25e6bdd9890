// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of [`super::model`] fed and tried: dials are swept, sensitivities recorded, and pairs predicted that were not used.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::shared::Setting;
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table, digits};
use super::control::{Control, Victim};
use super::kernels::Access;
use super::machine::{LabMachine, bytes_in_words};
use super::model::{Contentiousness, Curve, DIALS, Sensitivity, contentiousness};
use super::plane::Plane;
use super::rounds::{self, Pairs};
use super::stress::{Dialled, Neighbour, Stress, Stressor};
use super::victims::Sizes;
use super::why;
use crate::Error;
use report::measure::Measured;

/// Levels at which the dials are measured, in percent.
const LEVELS: [u32; 4] = [25, 50, 75, 100];
/// Points by which a prediction may be wrong.
const GOAL: f64 = 5.0;

/// Aggressors of which the model sees only what they do to the probes.
const STRESSORS: [(Access, &str); 2] = [(Access::Read, "read"), (Access::Random, "random")];

/// What was found.
struct Found {
    victims: Vec<String>,
    sensitivities: Vec<Sensitivity>,
    aggressors: Vec<String>,
    levels: Vec<Contentiousness>,
    /// By victim and aggressor: predicted, measured.
    pairs: Vec<Vec<(f64, Measured)>>,
}

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    place: &LabMachine,
    control: &mut Control,
) -> Result<Section, Error> {
    let quick = setting.common.quick;
    let sizes = Sizes::of(place, quick);
    let levels: &[u32] = if quick { &LEVELS[1..2] } else { &LEVELS };
    let dials = [Stress::Memory(Access::Random, sizes.half), Stress::Memory(Access::Write, sizes.memory)]
        .map(|stress| Rc::new(RefCell::new(Stressor::start(stress, place.user))));
    let kernels = [
        (Access::Chase, sizes.half),
        (Access::Read, sizes.memory),
        (Access::Copy, sizes.second),
        (Access::Copy, sizes.quarter),
        (Access::Copy, sizes.memory),
        (Access::Chase, sizes.quarter),
        (Access::Read, sizes.half),
    ];
    let kernels = control.lay(&kernels, false)?;
    let (probes, victims) = kernels.split_at(DIALS);
    let mut planes = Plane::start_all(&[why::USUAL, why::LARGE, why::WHOLE], place.user)?;
    let unseen = [sizes.quarter, 2 * sizes.half];
    let mut stressors: Vec<Stressor> = STRESSORS
        .iter()
        .zip(unseen)
        .map(|((access, _), bytes)| Stressor::start(Stress::Memory(*access, bytes), place.user))
        .collect();
    let mut aggressors: Vec<String> = planes.iter().map(|plane| plane.kind.name.to_owned()).collect();
    aggressors.extend(
        STRESSORS.iter().zip(unseen).map(|((_, word), bytes)| format!("{word} {}", bytes_in_words(bytes))),
    );
    let rounds = setting.common.rounds().min(5);
    setting.progress.expect((probes.len() + victims.len()) * rounds);
    setting.progress.part("why: a model of pairs");
    let mut measure = |victim: &Victim| -> Result<(Sensitivity, Vec<Pairs>), Error> {
        let mut dialled: Vec<Dialled> =
            dials.iter().flat_map(|dial| levels.iter().map(|level| Dialled::new(dial, *level))).collect();
        let mut neighbours: Vec<&mut dyn Neighbour> = dialled.iter_mut().map(|d| d as _).collect();
        neighbours.extend(planes.iter_mut().map(|plane| plane as &mut dyn Neighbour));
        neighbours.extend(stressors.iter_mut().map(|stressor| stressor as &mut dyn Neighbour));
        let length = setting.common.length();
        let work = || victim.run(control, length);
        let mut found = rounds::compare(rounds, &mut neighbours, work, || setting.progress.step())?;
        let beside = found.split_off(DIALS * levels.len());
        let curve = |pairs: &[Pairs]| {
            let points =
                levels.iter().zip(pairs).map(|(level, pairs)| (f64::from(*level) / 100.0, pairs.median()));
            Curve::new(&points.collect::<Vec<_>>())
        };
        let (first, second) = found.split_at(levels.len());
        Ok((Sensitivity { curves: [curve(first), curve(second)] }, beside))
    };
    let probed = probes.iter().map(&mut measure).collect::<Result<Vec<_>, _>>()?;
    let seen = victims.iter().map(&mut measure).collect::<Result<Vec<_>, _>>()?;
    let levels = (0..aggressors.len()).map(|i| {
        let seen: Vec<_> = probed.iter().map(|(probe, beside)| (probe.clone(), beside[i].median())).collect();
        contentiousness(&seen)
    });
    let levels: Vec<Contentiousness> = levels.collect();
    let pairs = seen.iter().map(|(sensitivity, beside)| {
        let of = |(pairs, levels): (&Pairs, &Contentiousness)| {
            (sensitivity.predict(*levels), Measured::new("", "%", pairs.slower.clone()))
        };
        beside.iter().zip(&levels).map(of).collect()
    });
    let found = Found {
        pairs: pairs.collect(),
        victims: victims.iter().map(Victim::name).collect(),
        sensitivities: seen.into_iter().map(|(sensitivity, _)| sensitivity).collect(),
        aggressors,
        levels,
    };
    Ok(section(setting, place, &sizes, &found))
}

fn section(setting: &mut Setting<'_>, place: &LabMachine, sizes: &Sizes, found: &Found) -> Section {
    let error = error(setting, found);
    let sizes_of = found.pairs.iter().flatten().map(|(_, measured)| measured.median().abs()).collect();
    let nothing = setting.note("interference.model_error_of_none", "points", sizes_of).median();
    setting.find(format!(
        "A model after SLOMO predicts slow-downs of {} pairs that it has not seen with a median error of {} points (goal: at most {GOAL:.0}). To predict none at all would be wrong by {} points.",
        found.pairs.iter().map(Vec::len).sum::<usize>(),
        digits(error),
        digits(nothing)
    ));
    Section {
        title: "A model of pairs".into(),
        text: vec![
            format!(
                "Two stressors are dials: random writes to {} for the shared cache, streamed writes to {} for the memory. Each victim's slow-down is recorded at levels of both. What a neighbour does to two probes (chase {}, read {}) gives the levels that it amounts to. A victim's slow-down beside it is then the sum of its two curves at these levels. SLOMO (Manousis and others, SIGCOMM 2020) reads levels from counters; here probes stand for them.",
                bytes_in_words(sizes.half),
                bytes_in_words(sizes.memory),
                bytes_in_words(sizes.half),
                bytes_in_words(sizes.memory)
            ),
            place.in_words(),
        ],
        plots: (0..DIALS).map(|dial| plot(found, dial)).collect(),
        tables: vec![aggressors(found), predictions(found)],
        ..Section::default()
    }
}

/// The median of the errors' sizes, in points.
fn error(setting: &mut Setting<'_>, found: &Found) -> f64 {
    let errors =
        found.pairs.iter().flatten().map(|(predicted, measured)| (predicted - measured.median()).abs());
    setting.note("interference.model_error", "points", errors.collect()).median()
}

const DIAL_NAMES: [&str; DIALS] = ["shared cache", "memory"];

fn aggressors(found: &Found) -> Table {
    let mut table = Table::new(
        "Contentiousness: levels of the dials that hurt the probes as much, percent",
        &[("neighbour", Origin::Name), (DIAL_NAMES[0], Origin::Modelled), (DIAL_NAMES[1], Origin::Modelled)],
    );
    for (name, levels) in found.aggressors.iter().zip(&found.levels) {
        let mut cells = vec![Cell::new(name.clone())];
        cells.extend(levels.map(|level| Cell::new(format!("{:.0}", 100.0 * level))));
        table.row(cells);
    }
    table
}

fn predictions(found: &Found) -> Table {
    let mut table = Table::new(
        "Slow-down of pairs that the model has not seen",
        &[
            ("work", Origin::Name),
            ("beside", Origin::Name),
            ("predicted", Origin::Modelled),
            ("measured", Origin::Measured),
            ("error, points", Origin::Modelled),
        ],
    );
    for (victim, pairs) in found.victims.iter().zip(&found.pairs) {
        for (aggressor, (predicted, measured)) in found.aggressors.iter().zip(pairs) {
            table.row(vec![
                Cell::new(victim.clone()),
                Cell::new(aggressor.clone()),
                Cell::new(format!("{predicted:+.1} %")),
                rounds::cell(measured),
                Cell::new(format!("{:+.1}", predicted - measured.median())),
            ]);
        }
    }
    table
}

fn plot(found: &Found, dial: usize) -> Plot {
    let levels = || (0..=20).map(|i| f64::from(i) / 20.0);
    let series =
        found.victims.iter().zip(&found.sensitivities).enumerate().map(|(i, (name, sensitivity))| Series {
            name: name.clone(),
            origin: Origin::Measured,
            colour: i,
            points: levels().map(|x| (100.0 * x, sensitivity.curves[dial].at(x).max(0.0))).collect(),
        });
    Plot::Lines {
        caption: format!("Sensitivity to the dial '{}': slower, percent", DIAL_NAMES[dial]),
        x: Axis::new("level, %", Scale::Percent),
        y: Axis::new("slower, %", Scale::Linear),
        series: series.collect(),
    }
}
