// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab forwarding`: A. Marineau-Mes, "Using SMP to Scale Data Plane and Control Plane Performance" (QNX).
//!
//! The study's router forwards by a table that two processors share. Behind one lock two processors forward less than twice what one
//! does; a profile of the system shows them waiting for each other, and a table for each processor ends that. Here the same IP router
//! runs with its table in these two ways, and in the way that it has by default: one table that is read without a lock.

mod changes;
mod daemons;
mod frames;
mod published;
mod tables;
mod throughput;
mod waiting;

use super::shared::Setting;
use super::study::Report;
use super::{Common, Wrong};

/// Runs the lab.
pub(super) fn run(common: &Common) -> Result<Report, Wrong> {
    let mut setting = Setting::new(common)?;
    let rows = frames::measure(&mut setting)?;
    let rates = tables::section(&mut setting, &rows);
    let throughput = throughput::section(&mut setting)?;
    let waiting = waiting::section(&mut setting, &rows);
    let sections = vec![rates, throughput, waiting, changes::section(&mut setting)?];
    let mut lacks: Vec<String> = setting.fewer_than(frames::STUDY_CORES).into_iter().collect();
    lacks.push("Ports: the study forwarded between two ports of 1 Gb/s, which carried 800 Mb/s by its own figures and which long frames fill. Here frames are made and end in memory, so no wire sets a limit; but each frame is copied whole when it is made.".to_owned());
    lacks.push("Procedure: the study's rates are throughput by RFC 2544, the greatest rate without loss. In the first tables devices in memory offer as much as is taken, and nothing is lost: what the workers' processor time suffices for. The table of throughput has the study's own procedure.".to_owned());
    lacks.extend(throughput::lacks(&setting));
    lacks.push(format!("Lock: the study's router takes its lock for each packet. Here a worker takes it for the packets of a batch together, up to {}, so it changes hands less often.", engine::DEFAULT_BURST));
    lacks.extend(setting.turns());
    let method = vec![
        setting.rounds_in_words("every frame size"),
        "A rate is packets sent over the processor time of the busiest worker, so that other programs on the machine take nothing from it but caches and clock; half of it for each of the two ports. 'conf/ip-router-noqueue.click' with 1,024 flows each way; only how its table is shared differs (SYNC lock, percore, rcu).".to_owned(),
    ];
    let conditions = setting.conditions();
    Ok(Report {
        name: "forwarding",
        title: "A forwarding table that cores share",
        study: "After A. Marineau-Mes, \"Using SMP to Scale Data Plane and Control Plane Performance\", QNX: Neutrino 6.2.1 on two 600 MHz MIPS processors with two ports of 1 GbE.",
        findings: setting.findings,
        lacks,
        method,
        conditions,
        sections,
        results: setting.results,
    })
}
