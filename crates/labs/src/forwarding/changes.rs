// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes that OSPF and RIP change while packets are forwarded: what a change of the table costs those who read it.

use elements::routing::FeedSink;

use super::super::shared::{Setting, cell, ratios};
use super::super::study::{Cell, Origin, Section, Table, digits};
use super::daemons::{Daemons, LINK, PROTOCOLS, ROUTES_MAX};
use super::frames::{Arrangement, Running, TableSharing, Waiting, kinds, text};
use super::published::ROWS;
use super::tables::name;
use crate::Error;
use report::measure::Measured;

/// Routes of each protocol in a quick run.
const QUICK_ROUTES: u32 = 128;
/// The least length of a run. The daemons report in bursts, and a run is to see some.
const LEAST_MS: u64 = 1000;
const QUICK_MS: u64 = 300;
/// How often a run is tried until a route changes in it.
const TRIES: usize = 10;

/// A way while it is measured: with routes that stay, and with routes that change.
struct Pair {
    running: Running,
    still: Vec<Option<f64>>,
    still_waiting: Vec<Waiting>,
    /// Changes a second in the runs with changes, by protocol.
    changes: [Vec<f64>; 2],
}

impl Pair {
    fn new(kind: Arrangement, run_ms: u64) -> Result<Pair, Error> {
        // The shortest frames, for which the table counts most.
        let text = text(ROWS[0].bytes_in_memory(), kind.way);
        let text = format!("{text}\nRouteFeed(lab, TABLE rt, LINK {LINK} 2);\n");
        let running = Running::new(kind, &text, run_ms)?;
        Ok(Pair { running, still: Vec::new(), still_waiting: Vec::new(), changes: Default::default() })
    }

    /// One run in either state, the second after routes of so many protocols have changed.
    fn round(&mut self, daemons: &Daemons, protocols: usize) -> Result<(), Error> {
        daemons.serve(None)?;
        self.running.round()?;
        self.still.push(self.running.rounds.pop().flatten());
        self.still_waiting.extend(self.running.waiting.pop());
        let sink = self.running.router.router().shared().all_provided::<FeedSink>().pop();
        daemons.serve(sink)?;
        daemons.wait_for_changes(protocols)?;
        for _ in 0..TRIES {
            let (before, began) = (daemons.changes(), std::time::Instant::now());
            self.running.round()?;
            let (now, seconds) = (daemons.changes(), began.elapsed().as_secs_f64());
            if now == before {
                self.running.rounds.pop();
                self.running.waiting.pop();
                continue;
            }
            for (list, (now, before)) in self.changes.iter_mut().zip(now.iter().zip(before)) {
                list.push((now - before) as f64 / seconds);
            }
            return Ok(());
        }
        Err(Error::nothing(format!("no route changed in {TRIES} runs")))
    }
}

/// The section, and what is to be said of it.
pub(super) fn section(setting: &mut Setting<'_>) -> Result<Section, Error> {
    let routes = if setting.common.quick { QUICK_ROUTES } else { ROUTES_MAX };
    let run_ms = if setting.common.quick { QUICK_MS } else { LEAST_MS.max(10 * setting.run_ms()) };
    setting.progress.part("routes that change");
    let mut table = Table::new(
        format!(
            "Frames of {} bytes, while {routes} routes of OSPF and as many of RIP come and go",
            ROWS[0].frame_bytes
        ),
        &[
            ("", Origin::Name),
            ("routes stay, thousand packets/s for each port", Origin::Measured),
            ("routes change", Origin::Measured),
            ("change over stay", Origin::Measured),
            ("lock waited, routes stay, ns for each packet", Origin::Measured),
            ("routes change", Origin::Measured),
            ("changes/s by OSPF", Origin::Measured),
            ("by RIP", Origin::Measured),
        ],
    );
    match measure(setting, routes, run_ms) {
        Ok(pairs) => {
            let rows: Vec<Vec<Cell>> = pairs.into_iter().map(|pair| row(setting, pair)).collect();
            rows.into_iter().for_each(|row| table.row(row));
        }
        Err(why) => {
            setting.progress.say(&format!("routes that change: {why}"));
            for kind in kinds(setting.cores) {
                let mut cells = vec![Cell::new(name(kind)), Cell::missing(format!("left out: {why}"))];
                cells.resize_with(table.columns.len(), || Cell::missing("none"));
                table.row(cells);
            }
        }
    }
    Ok(Section {
        title: "Routes that change meanwhile".into(),
        text: vec![
            "The study's router runs OSPF and RIP, which change the table while it forwards. Here FRR's ospfd, ripd and zebra run in a network namespace. Their neighbour's routes come and go, and a control plane puts what zebra reports into the table.".into(),
            "The changed prefixes are in the /16 of the traffic's destinations, but no packet is for them. In both states the daemons and the control plane do the same work, on the same cores as the workers; with routes that stay, the control plane does not touch the table. So the ratio shows what changing the table costs its readers, and not what the daemons cost.".into(),
            format!("Each run takes {run_ms} ms, because the daemons report in bursts: OSPF computes its routes at most once a second here, and RIP sends an update some seconds after a change."),
        ],
        tables: vec![table],
        ..Section::default()
    })
}

fn measure(setting: &mut Setting<'_>, routes: u32, run_ms: u64) -> Result<Vec<Pair>, Error> {
    let daemons = Daemons::start(routes)?;
    let rounds = setting.common.rounds();
    setting.progress.expect(rounds + 1);
    let pairs = kinds(setting.cores).into_iter().map(|kind| Pair::new(kind, run_ms));
    let mut pairs = pairs.collect::<Result<Vec<Pair>, Error>>()?;
    setting.progress.step();
    // RIP takes seconds: a quick run does not wait for it.
    let protocols = if setting.common.quick { 1 } else { PROTOCOLS.len() };
    for _ in 0..rounds {
        pairs.iter_mut().try_for_each(|pair| pair.round(&daemons, protocols))?;
        setting.progress.step();
    }
    daemons.serve(None)?;
    Ok(pairs)
}

fn row(setting: &mut Setting<'_>, pair: Pair) -> Vec<Cell> {
    let Pair { running: Running { kind, rounds, waiting, .. }, still, still_waiting, changes } = pair;
    let full = |what: &str| format!("forwarding.{what}.{}_{}", kind.way.key(), kind.workers);
    let some = |list: &[Option<f64>]| list.iter().flatten().copied().collect::<Vec<f64>>();
    let mut cells = vec![Cell::new(name(kind))];
    for (what, list) in [("kpps_still", &still), ("kpps_changing", &rounds)] {
        cells.push(cell(setting.note_if_any(full(what), "kpps", some(list)).as_ref()));
    }
    let share = setting.note_if_any(full("changing_share"), "times", ratios(&rounds, &still));
    cells.push(cell(share.as_ref()));
    for (what, list) in [("wait_ns_still", &still_waiting), ("wait_ns_changing", &waiting)] {
        cells.push(match kind.way {
            TableSharing::Rcu => Cell::new("no lock"),
            TableSharing::Lock | TableSharing::PerCore => {
                let waits = list.iter().map(|waiting| waiting.wait_ns).collect();
                cell(setting.note_if_any(full(what), "ns", waits).as_ref())
            }
        });
    }
    for (protocol, list) in PROTOCOLS.into_iter().zip(changes) {
        let name = format!("changes_{}", format!("{protocol:?}").to_lowercase());
        cells.push(cell(setting.note_if_any(full(&name), "changes/s", list).as_ref()));
    }
    if let Some(share) = share {
        setting.find(finding(kind, &share));
    }
    cells
}

fn finding(kind: Arrangement, share: &Measured) -> String {
    format!(
        "While routes of OSPF and RIP change, {} forwards {} times as much as while they stay.",
        name(kind),
        digits(share.median())
    )
}
