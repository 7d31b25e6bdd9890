// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet costs on one core, and what it costs to move it to another.

use super::super::study::{Cell, Origin, Section, Table};
use super::Setting;
use crate::Error;
use harness::handoff::Distance;
use report::measure::Measured;

/// The study's, in nanoseconds.
const STUDY_PACKET: f64 = 3500.0;
const STUDY_MOVE: f64 = 3000.0;

/// Measures what moving costs between two cores and on one, and lets the models know.
pub(super) fn measure(setting: &mut Setting<'_>) -> Result<Option<[Measured; 2]>, Error> {
    let rounds = setting.common.rounds();
    setting.progress.expect(rounds);
    setting.progress.part("moving a packet between two cores");
    if setting.cores < 2 {
        return Ok(None);
    }
    let (mut runs, mut prices) = ([Vec::new(), Vec::new()], Vec::new());
    let mut distance = Distance::new([0, 1], setting.common.length())?;
    distance.run();
    for _ in 0..rounds {
        let found = distance.run();
        setting.progress.step();
        // A run in which a side had no turn says nothing.
        if let Some(moved) = found {
            runs.iter_mut().zip(moved.usual()).for_each(|(runs, ns)| runs.push(ns));
            prices.push(predict::handoff(&moved));
        }
    }
    setting.handoff = predict::median_handoff(prices.into_iter()).unwrap_or(setting.handoff);
    let [apart, together] = runs;
    if apart.is_empty() {
        return Ok(None);
    }
    let apart = setting.note("parallelism.move_ns", "ns", apart);
    let together = setting.note("parallelism.move_one_core_ns", "ns", together);
    Ok(Some([apart, together]))
}

/// `packet` is what a packet costs in the router on one core.
pub(super) fn section(
    setting: &mut Setting<'_>,
    packet: &Measured,
    distance: Option<[Measured; 2]>,
) -> Section {
    let (apart, together) = match &distance {
        Some([apart, together]) => (Some(apart), Some(together)),
        None => (None, None),
    };
    let why = setting.too_few();
    let cell =
        |measured: Option<&Measured>| measured.map_or_else(|| Cell::missing(why.clone()), Cell::measured);
    let mut table = Table::new(
        "Processor time for a packet, nanoseconds",
        &[("", Origin::Name), ("study", Origin::Published), ("here", Origin::Measured)],
    );
    let mut row = |name: &str, study: Option<f64>, here: Cell| {
        let study = study.map_or_else(|| Cell::new("not given"), |ns| Cell::new(format!("{ns:.0}")));
        table.row(vec![Cell::new(name), study, here]);
    };
    row("through the IP router, on one core", Some(STUDY_PACKET), Cell::measured(packet));
    row("moved to another core through a Queue, both cores' time", Some(STUDY_MOVE), cell(apart));
    row("through the same Queue, both sides on one core", None, cell(together));
    let share = apart.map(|apart| apart.median() / packet.median());
    table.row(vec![
        Cell::new("moving, as a share of the packet's own cost"),
        Cell::new(format!("{:.0} %", 100.0 * STUDY_MOVE / STUDY_PACKET)),
        share
            .map_or_else(|| Cell::missing(why.clone()), |share| Cell::new(format!("{:.0} %", 100.0 * share))),
    ]);
    if let (Some(apart), Some(share)) = (apart, share) {
        setting.find(format!(
            "A packet costs {:.0} ns in the router on one core, and {:.0} ns more to move it to another: {:.0} %. In the study, 3.5 and 3.0 µs: 86 %.",
            packet.median(),
            apart.median(),
            100.0 * share
        ));
    }
    Section {
        title: "A packet on one core, and from core to core".into(),
        text: vec!["The study found that moving a packet between two processors cost it nearly as much again as forwarding it, mostly by cache misses; that is why its IP router gained little from more of them. Here packets move in batches of 32, so that each pays for its own cache lines but only a share of the queue's.".into()],
        tables: vec![table],
        ..Section::default()
    }
}
