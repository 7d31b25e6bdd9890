// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab parallelism`: B. Chen and R. Morris, "Flexible Control of Parallelism in a Multiprocessor PC Router" (2001).
//!
//! The study runs Click configurations on several processors and asks what that gains, and what it costs to move a packet between processors. It also
//! asks who should decide which of them does what, and how a configuration must look so that many can help. Each question is a section here, and a
//! file.

mod moving;
mod paying;
mod rewriting;
mod streams;
mod workers;

use super::shared::{self, Setting};
use super::study::{Report, Section};
use super::{Common, Wrong};
use crate::Error;

/// Cores that the study had.
const STUDY_CORES: usize = 4;

/// The graph of a configuration of ours.
fn graph(text: &str) -> Result<lang::Graph, Error> {
    shared::graph("lab parallelism", text)
}

/// Runs the lab.
pub(super) fn run(common: &Common) -> Result<Report, Wrong> {
    let mut setting = Setting::new(common)?;
    let distance = moving::measure(&mut setting)?;
    let (scaling, packet_ns) = workers::run(&mut setting)?;
    let moving = moving::section(&mut setting, &packet_ns, distance);
    let paying = paying::run(&mut setting)?;
    let streams = streams::run(&mut setting)?;
    let rewriting = rewriting::run(&mut setting)?;
    let sections = vec![scaling, moving, paying, streams, rewriting];
    Ok(report(setting, sections))
}

fn report(setting: Setting<'_>, sections: Vec<Section>) -> Report {
    let mut lacks: Vec<String> = setting
        .fewer_than(STUDY_CORES)
        .map(|cores| cores + " Values for more are modelled, and stand apart.")
        .into_iter()
        .collect();
    lacks.push("Devices: the study forwarded between network cards and four hosts; here packets are made and end in memory, so that no card and no bus sets a limit.".to_owned());
    let method = vec![
        setting.rounds_in_words("everything in a table"),
        "A rate is packets sent over the processor time of the busiest worker, so that other programs on the machine take nothing from it but caches and clock. Packets have 64 bytes with their checksum.".to_owned(),
        "Models come from 'junctor plan': the cost of each task measured on one worker, what two cores cost each other, and what a packet costs that changes cores.".to_owned(),
    ];
    let conditions = setting.conditions();
    Report {
        name: "parallelism",
        title: "Parallelism in a multiprocessor router",
        study: "After B. Chen and R. Morris, \"Flexible Control of Parallelism in a Multiprocessor PC Router\", USENIX 2001: SMP Click on up to four 500 MHz Pentium III Xeon processors.",
        findings: setting.findings,
        lacks,
        method,
        conditions,
        sections,
        results: setting.results,
    }
}
