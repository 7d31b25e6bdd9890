// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab bridge`: R. Ozaki and K. Nakahara, "Modernizing NetBSD Networking Facilities and Interrupt Handling" (2015).
//!
//! The study takes the bridge of NetBSD from one big lock to one that all cores run at once, whose readers take no lock, and measures
//! what it forwards at eleven frame sizes on 1 to 8 cores. Here the same bridge runs both ways: every worker of `conf/bridge.click`,
//! and the same under one lock around all of a worker's round. What lies between the two, way by way of excluding others, is
//! `junctor bench locks`, which has a section of its own.

mod exclusion;
mod frames;
mod published;
mod tables;

use serde_json::json;

use super::report::{Report, Section};
use super::{Common, Progress, Wrong, shared};
use crate::measure::Measured;

/// Ozaki and Nakahara 2015: a learning bridge under one big lock against one that all cores run at once, by frame size.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab bridge --quick
  junctor lab bridge --out report
  junctor lab bridge --rounds 15 --time 100 --json > bridge.json

All traffic is made and ends in memory; no interface is touched. What is measured beyond this machine's cores is the model's
(junctor plan), and marked as such.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Cores to measure on, the first ones of the machine; by default all.
    #[arg(long, value_name = "NUMBER")]
    cores: Option<usize>,
}

/// What all parts need to know, and where they put what they find.
struct Setting<'a> {
    common: &'a Common,
    /// Cores that are measured on.
    cores: usize,
    progress: Progress,
    results: Vec<Measured>,
    findings: Vec<String>,
    /// Values that no run gave.
    missing: usize,
}

impl Setting<'_> {
    /// Notes a result, and hands it back; nothing, if no run gave a value.
    fn note(&mut self, name: String, unit: &'static str, runs: Vec<f64>) -> Option<Measured> {
        let runs: Vec<f64> = runs.into_iter().filter(|value| value.is_finite()).collect();
        if runs.is_empty() {
            self.missing += 1;
            return None;
        }
        let measured = Measured::new(name, unit, runs);
        self.results.push(measured.clone());
        Some(measured)
    }
}

/// Runs the lab.
pub(super) fn run(args: &Args) -> Result<Report, Wrong> {
    let (cores, here) = shared::cores(args.cores).map_err(Wrong::Usage)?;
    let mut setting = Setting {
        common: &args.common,
        cores,
        progress: Progress::new(0),
        results: Vec::new(),
        findings: Vec::new(),
        missing: 0,
    };
    let rows = frames::measure(&mut setting)?;
    let bridge = tables::section(&mut setting, &rows);
    let exclusion = exclusion::run(&mut setting);
    Ok(report(setting, here, vec![bridge, exclusion]))
}

fn report(setting: Setting<'_>, here: usize, sections: Vec<Section>) -> Report {
    let (rounds, ms) = (setting.common.rounds(), setting.common.length().as_millis() as u64);
    let mut lacks = Vec::new();
    if setting.cores < published::CORES {
        lacks.push(format!(
            "Cores: the study had {}, this run has {} of {here}. Values for more are modelled, and stand apart.",
            published::CORES,
            setting.cores
        ));
    }
    lacks.push("Ports: the study bridged two of four 1 GbE ports, which long frames fill before 8 cores are busy. Here frames are made and end in memory, so no wire sets a limit; but each frame is copied whole when it is made, which takes longer than bridging it when it is long.".to_owned());
    lacks.push("System: the study's big lock is a kernel's, with interrupts and a protocol stack under it. Here it is one lock around what a worker does in a round, for up to 32 frames from each port; so it changes hands less often than for each frame.".to_owned());
    if setting.missing > 0 {
        lacks.push(format!(
            "Turns: {} values are missing, because in runs of {ms} ms a worker had no turn beside what else runs on this machine. A longer --time gives them.",
            setting.missing
        ));
    }
    let s = if rounds == 1 { "" } else { "s" };
    let method = vec![
        format!("{rounds} round{s}, in each of which every frame size is measured once for {ms} ms in every way, in turn, after one run to warm up. Values are medians over the rounds, with the least and the greatest below them; ratios are taken within a round."),
        "A rate is frames sent over the processor time of the busiest worker, so that other programs on the machine take nothing from it but caches and clock. Frame sizes count the checksum, as the study's do. 500 stations on each of two ports send to each other, 512 flows each way.".to_owned(),
        "Models come from 'junctor plan': the cost of each task measured on one worker, and what two cores cost each other.".to_owned(),
    ];
    let conditions = json!({
        "cores": setting.cores, "rounds": rounds, "run_ms": ms, "burst": engine::DEFAULT_BURST,
        "quick": setting.common.quick,
    });
    Report {
        name: "bridge",
        title: "A learning bridge: one big lock against all cores at once",
        study: "After R. Ozaki and K. Nakahara, \"Modernizing NetBSD Networking Facilities and Interrupt Handling\", 2015: NetBSD's bridge on an Atom C2758 with 8 cores and four I354 ports of 1 GbE.",
        findings: setting.findings,
        lacks,
        method,
        conditions,
        sections,
        results: setting.results,
    }
}
