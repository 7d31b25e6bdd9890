// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab interference`: S. Garg and A. Sethi, on snoops in multicore packet processing (Freescale).
//!
//! The study runs a control plane on one core of eight, and a reflector of packets on the others, each in a partition of its own. The
//! control plane's work slows down although nobody shares its core; the study names suspects, and leaves open what each takes. Here
//! the same question is asked of this machine, and each suspect is taken out in turn.

mod control;
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
mod stress;
mod victims;
mod why;
pub(super) mod work;

use std::path::PathBuf;

use super::deployment;
use super::report::{Report, Section};
use super::shared::Setting;
use super::{Common, Wrong};
use control::Control;
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
    /// Routes that FRR computes, as a file of routes [default: the whole table in shared/data beside the directory, or made up].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The most routes that it computes [default: all of a file; 100,000 that are made up].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(routes::PREFIXES_MAX)))]
    prefixes: Option<u32>,
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
    deployment::stay_on(&place.own)?;
    let kind = Kind { rate: args.rate, ..Kind::REFLECTOR };
    let (mut plane, mut control) = Plane::start_with_control(kind, &place)?;
    let partitions = [plane.partition()?, control.partition()?];
    let quiet = machine::others(&place, 10 * args.common.length());
    let mut sections = Vec::new();
    if args.wants(Part::Copy) {
        sections.push(copy::run(&mut setting, &place, &mut plane, &mut control)?);
    }
    if args.wants(Part::Sip) {
        sections.push(sip::run(&mut setting, args, &place, &mut plane, &mut control)?);
    }
    if args.wants(Part::Routes) {
        sections.push(routes::run(&mut setting, args, &place, &mut plane, &mut control)?);
    }
    drop((plane, control));
    // Both cores are the lab's own now.
    let shared = args.wants(Part::Why).then(|| why::shared_frames(&mut setting, &place)).transpose()?;
    if args.wants(Part::Why) || args.wants(Part::Remedies) {
        let mut control = Control::alone(&place)?;
        if let Some(shared) = shared {
            sections.push(why::run(&mut setting, &place, &mut control, shared)?);
            sections.push(slomo::run(&mut setting, &place, &mut control)?);
        }
        if args.wants(Part::Remedies) {
            sections.push(remedies::run(&mut setting, &place, &mut control)?);
        }
    }
    Ok(report(setting, args, (&place, &partitions), quiet, sections))
}

fn report(
    setting: Setting<'_>,
    args: &Args,
    (place, [user, control]): (&Place, &[String; 2]),
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
        format!("Partitions: the study's were a hypervisor's. Here 'junctor up' gives each plane its core: the user plane ({user}) and the control plane ({control})."),
    ];
    lacks.extend(quiet);
    let method = vec![
        setting.rounds_in_words("everything in a table"),
        "A slow-down compares the loaded value with the mean of the two paused ones around it. Memory kernels are timed by the processor time of their thread, so other programs take nothing from them but caches and clock. User plane and control plane are planes of a deployment ('junctor up'), each on a core of its own with all its threads and programs. In the parts 'copy', 'sip' and 'routes' they are one deployment. In 'why' and 'remedies' all user planes of a table share their core and one works at a time, so the control plane is a deployment of its own there. The control plane works when the lab asks over a socket, and answers how long it took; paused and loaded runs differ in the user plane's traffic alone. The user plane is paused and resumed over its control socket, and its ring stays full while it is paused.".to_owned(),
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
