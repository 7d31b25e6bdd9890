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

use super::shared::Setting;
use super::study::{Report, Section};
use super::{Common, Wrong};

/// Runs the lab.
pub(super) fn run(common: &Common) -> Result<Report, Wrong> {
    let mut setting = Setting::new(common)?;
    let rows = frames::measure(&mut setting)?;
    let bridge = tables::section(&mut setting, &rows);
    let exclusion = exclusion::run(&mut setting);
    Ok(report(setting, vec![bridge, exclusion]))
}

fn report(setting: Setting<'_>, sections: Vec<Section>) -> Report {
    let mut lacks: Vec<String> = setting
        .fewer_than(published::CORES)
        .map(|cores| cores + " Values for more are modelled, and stand apart.")
        .into_iter()
        .collect();
    lacks.push("Ports: the study bridged two of four 1 GbE ports, which long frames fill before 8 cores are busy. Here frames are made and end in memory, so no wire sets a limit; but each frame is copied whole when it is made, which takes longer than bridging it when it is long.".to_owned());
    lacks.push(format!("System: the study's big lock is a kernel's, with interrupts and a protocol stack under it. Here it is one lock around what a worker does in a round, for up to {} frames from each port; so it changes hands less often than for each frame.", engine::DEFAULT_BURST));
    lacks.extend(setting.turns());
    let method = vec![
        setting.rounds_in_words("every frame size"),
        "A rate is frames sent over the processor time of the busiest worker, so that other programs on the machine take nothing from it but caches and clock. Frame sizes count the checksum, as the study's do. 500 stations on each of two ports send to each other, 512 flows each way.".to_owned(),
        "Models come from 'junctor plan': the cost of each task measured on one worker, and what two cores cost each other.".to_owned(),
    ];
    let conditions = setting.conditions();
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
