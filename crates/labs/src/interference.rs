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
pub mod work;

use std::path::PathBuf;

use super::deployment;
use super::shared::Setting;
use super::study::{Report, Section};
use super::{Common, Wrong};
pub use published::CALLS;
pub use routes::PREFIXES_MAX;

use control::Control;
use machine::LabMachine;
use plane::{Plane, PlaneKind};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only these parts; all, if there are none.
    pub part: Vec<Part>,
    /// Frames a second that the reflector is offered; 0 for as many as it takes.
    pub rate: u64,
    /// SIP calls set up and ended in each state.
    pub calls: u32,
    /// A Python with PJSIP; `python3` without it.
    pub pjsua2: Option<PathBuf>,
    /// A file with the routes that FRR computes; without it, the shared table, or one that is made up.
    pub routes: Option<PathBuf>,
    /// The most routes that it computes.
    pub prefixes: Option<u32>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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

impl Settings {
    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// Runs the lab.
pub(super) fn run(args: &Settings, common: &Common) -> Result<Report, Wrong> {
    let mut setting = Setting::new(common)?;
    let place = LabMachine::find(setting.cores)?;
    deployment::clean()?;
    deployment::watch()?;
    deployment::stay_on(&place.own)?;
    let kind = PlaneKind { rate: args.rate, ..PlaneKind::REFLECTOR };
    let (mut plane, mut control) = Plane::start_with_control(kind, &place)?;
    let partitions = [plane.partition()?, control.partition()?];
    let quiet = machine::others(&place, 10 * common.length());
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
    args: &Settings,
    (place, [user, control]): (&LabMachine, &[String; 2]),
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
