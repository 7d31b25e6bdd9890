// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab interference`: S. Garg and A. Sethi, on snoops in multicore packet processing (Freescale).
//!
//! The study runs a control plane on one core of eight, and a reflector of packets on the others, each in a partition of its own. The
//! control plane's work slows down although nobody shares its core; the study names suspects, and leaves open what each takes. Here
//! the same question is asked of this machine, and each suspect is taken out in turn.

mod copy;
mod counters;
mod kernels;
mod machine;
mod model;
mod plane;
mod published;
mod remedies;
mod rounds;
mod routes;
mod sip;
mod slomo;
mod speaker;
mod stress;
mod tools;
mod victims;
mod why;

use std::path::PathBuf;

use super::deployment;
use super::report::{Report, Section};
use super::shared::Setting;
use super::{Common, Wrong};
use machine::Place;
use plane::{Kind, Plane};

/// Garg and Sethi: what a user plane at line rate costs the control plane's work on another core, why, and what helps.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab interference --quick
  junctor lab interference --out report
  sudo junctor lab interference --part sip,routes --pjsua2 venv/bin/python

Frames are made and end in memory. SIP calls and routes need root: they have network namespaces of their own, and
sipp (Debian: sip-tester), PJSIP (pip install pjsua2-python==2.15.1) and FRR (Debian: frr). What is missing is left out, and the
report says so.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Only these parts [default: all].
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    part: Vec<Part>,
    /// Frames a second that the reflector is offered; 0 for as many as it takes.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    rate: u64,
    /// SIP calls set up and ended in each state.
    #[arg(long, value_name = "NUMBER", default_value_t = published::CALLS, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    calls: u32,
    /// A Python with PJSIP (the package pjsua2-python) [default: python3].
    #[arg(long, value_name = "PYTHON")]
    pjsua2: Option<PathBuf>,
    /// Routes that FRR computes, as a file of routes [default: made up].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The most routes that it computes.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    prefixes: u32,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Memory copy.
    Copy,
    /// SIP calls.
    Sip,
    /// Routes that FRR computes.
    Routes,
    /// Which cause has which share.
    Why,
    /// What helps.
    Remedies,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// Runs the lab.
pub(super) fn run(args: &Args) -> Result<Report, Wrong> {
    let mut setting = Setting::new(&args.common)?;
    let place = Place::find(setting.cores)?;
    deployment::clean()?;
    deployment::watch()?;
    core_affinity::set_for_current(core_affinity::CoreId { id: place.control });
    let mut plane = Plane::start(Kind { rate: args.rate, ..Kind::REFLECTOR }, place.user)?;
    let partition = plane.partition()?;
    let quiet = machine::others(&place, 10 * args.common.length());
    let mut sections = Vec::new();
    if args.wants(Part::Copy) {
        sections.push(copy::run(&mut setting, &place, &mut plane)?);
    }
    if args.wants(Part::Sip) {
        sections.push(sip::run(&mut setting, args, &place, &mut plane)?);
    }
    if args.wants(Part::Routes) {
        sections.push(routes::run(&mut setting, args, &place, &mut plane)?);
    }
    drop(plane);
    if args.wants(Part::Why) {
        sections.push(why::run(&mut setting, &place)?);
        sections.push(slomo::run(&mut setting, &place)?);
    }
    if args.wants(Part::Remedies) {
        sections.push(remedies::run(&mut setting, &place)?);
    }
    Ok(report(setting, args, (&place, &partition), quiet, sections))
}

fn report(
    setting: Setting<'_>,
    args: &Args,
    (place, partition): (&Place, &str),
    quiet: Option<String>,
    sections: Vec<Section>,
) -> Report {
    let mut lacks = vec![
        format!(
            "Cores: the study had {}, one for the control plane and seven that reflected. This run has {} of {}, one for each plane. So less memory traffic meets the control plane than in the study.",
            published::CORES, setting.cores, setting.here
        ),
        format!("Sharing: {}", place.sharing_in_words()),
        "Ports: the study's frames came by DMA from two 10 GbE ports, which writes past the cores' caches or into them. Here the port is in memory: the reflector's own core writes frames into a ring as fast as there is room, and frees what comes back. No device writes memory, so what DMA costs is not measured.".to_owned(),
        counters::lacks(),
        format!("Partitions: the study's were a hypervisor's. Here 'junctor up' gives the user plane its core ({partition}). The control plane's work is no plane of the deployment: the lab does it itself, or starts its programs."),
    ];
    lacks.extend(quiet);
    let method = vec![
        setting.rounds_in_words("everything in a table"),
        "A slow-down compares the loaded value with the mean of the two paused ones around it. Memory kernels are timed by the processor time of their thread, so other programs take nothing from them but caches and clock. The user plane is one of a deployment, with all its threads on its core. In the parts 'copy', 'sip' and 'routes' no other plane has that core; in 'why' and 'remedies' all user planes of a table share it, and one works at a time. It is paused and resumed over its control socket, and its ring stays full while it is paused.".to_owned(),
        match args.rate {
            0 => "The reflector is offered as many frames as it takes.".to_owned(),
            rate => format!("The reflector is offered {rate} frames a second in the parts 'copy', 'sip' and 'routes'."),
        },
    ];
    let conditions = setting.conditions();
    Report {
        name: "interference",
        title: "What the user plane costs the control plane on another core",
        study: "After S. Garg and A. Sethi, on snoops in multicore packet processing: a Freescale P4080 with 8 cores under an embedded hypervisor, one core of Linux for the control plane and seven that reflect frames of two 10 GbE ports.",
        findings: setting.findings,
        lacks,
        method,
        conditions,
        sections,
        results: setting.results,
    }
}
