// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring: for each frame size the bridge on every number of workers, under one big lock, and what the model needs, in turn.

use engine::Router;

use super::super::shared::{Setting, counts, graph, ratios, with_traffic};
use super::published::{self, ROWS};
use crate::Error;
use harness::{Prepared, Run, Subject};
use predict::{Prediction, Trial};
use reconfigure::balance::Handoff;
use report::measure::Measured;

const BRIDGE: &str = include_str!("../../../../conf/bridge.click");
/// Stations behind each port, and flows from each port. Few enough for their frames to stay in a cache: what is to be seen is the bridge.
const STATIONS: usize = 500;
const FLOWS: usize = 512;
/// Of a frame's size, its checksum, which memory does not have.
const CHECKSUM: usize = 4;

/// What was found about a frame size.
pub(super) struct Row {
    pub(super) study: published::Row,
    /// Thousands of frames a second under one big lock, on all cores.
    pub(super) big_lock: Option<Measured>,
    /// By number of workers: the same without the lock.
    pub(super) safe: Vec<(usize, Option<Measured>)>,
    /// By number of workers: the model's.
    pub(super) modelled: Vec<(usize, Option<f64>)>,
    /// Ratios within rounds: one core over the big lock; all cores over the big lock; by number of workers, over one.
    pub(super) one_over_lock: Option<Measured>,
    pub(super) all_over_lock: Option<Measured>,
    pub(super) times: Vec<(usize, Option<Measured>)>,
}

/// The bridge with traffic of this frame size.
fn text(frame_bytes: usize) -> String {
    let length = frame_bytes - CHECKSUM;
    with_traffic(BRIDGE, &[("stations", STATIONS), ("flows", FLOWS), ("length", length)])
}

/// One frame size while it is measured.
struct Running {
    trial: Trial,
    locked: Prepared,
    /// The locked bridge's rates in the rounds that the trial has.
    locked_mpps: Vec<Option<f64>>,
}

impl Running {
    fn new(subject: &Subject<'_>, cores: usize) -> Result<Running, harness::Error> {
        let trial = Trial::new(subject, cores, &counts(cores))?;
        let mut locked = subject.prepare(cores)?;
        locked.lock_all_processing();
        // The first turns under the lock; whether they say anything, rounds will show.
        let _ = locked.run_surely();
        Ok(Running { trial, locked, locked_mpps: Vec::new() })
    }

    /// Everything once. On a busy machine a round may say nothing: then there is none.
    fn round(&mut self) -> Result<(), harness::Error> {
        let locked = match self.locked.run_surely() {
            Ok(run) => Some(run.mpps()),
            Err(harness::Error::Silent) => None,
            Err(other) => return Err(other),
        };
        match self.trial.round() {
            Ok(()) => self.locked_mpps.push(locked),
            Err(harness::Error::Silent) => {}
            Err(other) => return Err(other),
        }
        Ok(())
    }
}

/// Measures every frame size.
pub(super) fn measure(setting: &mut Setting<'_>) -> Result<Vec<Row>, Error> {
    let rounds = setting.common.rounds();
    setting.progress.expect(ROWS.len() * (rounds + 1));
    setting.progress.part("frame sizes: warming up");
    let texts = ROWS.map(|row| text(row.frame_bytes));
    let graphs = texts.iter().map(|text| graph("lab bridge", text)).collect::<Result<Vec<_>, _>>()?;
    let ms = setting.run_ms();
    let mut running = Vec::new();
    for (text, graph) in texts.iter().zip(&graphs) {
        let subject = Subject::new(graph, text)?.with_run_ms(ms);
        running.push(Running::new(&subject, setting.cores)?);
        setting.progress.step();
    }
    setting.progress.part("frame sizes: one big lock, and all cores at once");
    for _ in 0..rounds {
        for one in &mut running {
            one.round()?;
            setting.progress.step();
        }
    }
    let subject = Subject::new(&graphs[0], &texts[0])?.with_run_ms(ms);
    let models = Models::new(&subject, setting.cores)?;
    let all = ROWS.iter().zip(&running).map(|(study, running)| gather(setting, *study, running, &models));
    Ok(all.collect())
}

/// Routers of all numbers of workers that are modelled; frame sizes do not change how they are built.
struct Models(Vec<(usize, Router)>);

impl Models {
    fn new(subject: &Subject<'_>, cores: usize) -> Result<Models, Error> {
        let mut workers: Vec<usize> = counts(cores).into_iter().chain(published::COUNTS).collect();
        workers.sort_unstable();
        workers.dedup();
        let build = |workers| Ok((workers, subject.build(workers)?));
        Ok(Models(workers.into_iter().map(build).collect::<Result<_, Error>>()?))
    }

    /// Thousands of frames a second, by number of workers; none where nothing was measured to feed the model.
    fn rates(&self, trial: &Trial) -> Vec<(usize, Option<f64>)> {
        let costs = trial.costs();
        let rate = |(workers, router): &(usize, Router)| {
            let found = Prediction::new(&costs, router.shared(), *workers, &Handoff::USUAL);
            let known = found.loads.iter().any(|ns| *ns > 0.0);
            (*workers, Some(1e3 * found.mpps()).filter(|rate| known && rate.is_finite()))
        };
        self.0.iter().map(rate).collect()
    }
}

fn gather(setting: &mut Setting<'_>, study: published::Row, running: &Running, models: &Models) -> Row {
    let bytes = study.frame_bytes;
    let numbers = counts(setting.cores);
    let rates = |workers: usize| -> Vec<Option<f64>> {
        let runs = running.trial.checked(workers).unwrap_or_default();
        runs.into_iter().map(Run::mpps).map(Some).collect()
    };
    let thousands =
        |rates: &[Option<f64>]| rates.iter().flatten().map(|mpps| 1e3 * mpps).collect::<Vec<f64>>();
    let locked = &running.locked_mpps;
    let (one, all) = (rates(1), rates(setting.cores));
    let big_lock = setting.note_if_any(format!("bridge.big_lock_kfps.{bytes}"), "kfps", thousands(locked));
    let (mut safe, mut times) = (Vec::new(), Vec::new());
    for workers in &numbers {
        let rates = rates(*workers);
        let name = format!("bridge.kfps_{workers}.{bytes}");
        safe.push((*workers, setting.note_if_any(name, "kfps", thousands(&rates))));
        let name = format!("bridge.scaling_{workers}.{bytes}");
        times.push((*workers, setting.note_if_any(name, "times", ratios(&rates, &one))));
    }
    let one_over_lock =
        setting.note_if_any(format!("bridge.one_over_lock.{bytes}"), "times", ratios(&one, locked));
    let all_over_lock =
        setting.note_if_any(format!("bridge.all_over_lock.{bytes}"), "times", ratios(&all, locked));
    let modelled = models.rates(&running.trial);
    for (workers, rate) in &modelled {
        let name = format!("bridge.modelled_kfps_{workers}.{bytes}");
        setting.note_if_any(name, "kfps", rate.iter().copied().collect());
    }
    Row { study, big_lock, safe, modelled, one_over_lock, all_over_lock, times }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_has_traffic_of_every_size() {
        for row in ROWS {
            let text = text(row.frame_bytes);
            let traffic = format!(" stations=500 flows=512 length={}\n", row.frame_bytes - 4);
            assert_eq!(text.matches(&traffic).count(), 2, "{text}");
            let graph = graph("test", &text).expect("a graph");
            assert!(Subject::new(&graph, &text).is_ok());
        }
    }
}
