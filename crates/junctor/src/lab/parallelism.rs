// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab parallelism`: B. Chen and R. Morris, "Flexible Control of Parallelism in a Multiprocessor PC Router" (2001).
//!
//! The study runs Click configurations on several processors and asks what that gains, what it costs to move a packet between
//! processors, who should decide which of them does what, and how a configuration must look so that many can help. Each question
//! is a section here, and a file.

mod moving;
mod rewriting;
mod streams;
mod workers;

use serde_json::json;

use super::report::{Report, Section};
use super::shared::{self, explain};
use super::{Common, Progress, Wrong};
use crate::measure::Measured;
use crate::plan::Handoff;

/// Chen and Morris 2001: what more cores gain a router, what moving packets costs, who places tasks best, and what rewriting a
/// configuration gains.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab parallelism --quick
  junctor lab parallelism --out report
  junctor lab parallelism --rounds 15 --time 100 --json > parallelism.json

All traffic is made and ends in memory; no interface is touched. What is measured beyond this machine's cores is the model's
(junctor plan), and marked as such.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Cores to measure on, the first ones of the machine; by default all.
    #[arg(long, value_name = "NUMBER")]
    cores: Option<usize>,
}

/// Cores that the study had.
const STUDY_CORES: usize = 4;

/// What all parts need to know.
struct Setting<'a> {
    common: &'a Common,
    /// Cores that are measured on.
    cores: usize,
    /// What packets cost two cores that one hands to the other.
    handoff: Handoff,
    progress: Progress,
    results: Vec<Measured>,
    findings: Vec<String>,
}

impl Setting<'_> {
    /// Notes a result, and hands it back.
    fn note(&mut self, name: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> Measured {
        let measured = Measured::new(name, unit, runs);
        self.results.push(measured.clone());
        measured
    }

    fn find(&mut self, what: String) {
        self.findings.push(what);
    }

    fn run_ms(&self) -> u64 {
        self.common.length().as_millis() as u64
    }

    /// In place of a value that takes more cores.
    fn too_few(&self) -> String {
        shared::too_few(self.cores)
    }
}

/// The graph of a configuration of ours.
fn graph(text: &str) -> Result<lang::Graph, String> {
    shared::graph("lab parallelism", text)
}

/// Runs the lab.
pub(super) fn run(args: &Args) -> Result<Report, Wrong> {
    let (cores, here) = shared::cores(args.cores).map_err(Wrong::Usage)?;
    let mut setting = Setting {
        common: &args.common,
        cores,
        handoff: Handoff::USUAL,
        progress: Progress::new(0),
        results: Vec::new(),
        findings: Vec::new(),
    };
    let distance = moving::measure(&mut setting)?;
    let (scaling, packet_ns) = workers::run(&mut setting)?;
    let moving = moving::section(&mut setting, &packet_ns, distance);
    let streams = streams::run(&mut setting)?;
    let rewriting = rewriting::run(&mut setting)?;
    let sections = vec![scaling, moving, streams, rewriting];
    Ok(report(setting, here, sections))
}

fn report(setting: Setting<'_>, here: usize, sections: Vec<Section>) -> Report {
    let mut lacks = Vec::new();
    if setting.cores < STUDY_CORES {
        lacks.push(format!(
            "Cores: the study had {STUDY_CORES}, this run has {} of {here}. Values for more are modelled, and stand apart.",
            setting.cores
        ));
    }
    lacks.push("Devices: the study forwarded between network cards and four hosts; here packets are made and end in memory, so that no card and no bus sets a limit.".to_owned());
    lacks.push("IPsec: the study's gateway encrypts by 3DES; here an element computes for a fixed number of steps on each packet instead; how much that is beside the router's own work stands below.".to_owned());
    let (rounds, ms) = (setting.common.rounds(), setting.run_ms());
    let method = vec![
        format!("{rounds} rounds, in each of which everything in a table is measured once for {ms} ms, in turn, after one run to warm up. Values are medians over the rounds, with the least and the greatest below them; ratios are taken within a round."),
        "A rate is packets sent over the processor time of the busiest worker, so that other programs on the machine take nothing from it but caches and clock. Packets have 64 bytes with their checksum.".to_owned(),
        "Models come from 'junctor plan': the cost of each task measured on one worker, what two cores cost each other, and what a packet costs that changes cores.".to_owned(),
    ];
    Report {
        name: "parallelism",
        title: "Parallelism in a multiprocessor router",
        study: "After B. Chen and R. Morris, \"Flexible Control of Parallelism in a Multiprocessor PC Router\", USENIX 2001: SMP Click on up to four 500 MHz Pentium III Xeon processors.",
        findings: setting.findings,
        lacks,
        method,
        conditions: json!({ "cores": setting.cores, "rounds": rounds, "run_ms": ms, "burst": engine::DEFAULT_BURST, "quick": setting.common.quick }),
        sections,
        results: setting.results,
    }
}
