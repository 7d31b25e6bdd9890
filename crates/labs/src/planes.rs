// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab planes`: B. De Witte, S. Vincke, S. Van Landschoot, E. Steegmans, J. Boydens, "Comparing Dual-Core SMP/AMP
//! Performance on a Telecom Architecture".
//!
//! The study runs the planes of a telecom system on two cores that share everything (SMP), or on an operating system for each core
//! (AMP), and asks what the planes cost each other. Here the planes are deployments that `junctor up` runs, so the lab measures what
//! users get. It also measures what the authors left open: delays, several user planes, and a control plane that changes a user plane.

mod changes;
mod client;
mod compare;
mod cores;
mod iperf;
pub mod manager;
mod measure;
mod network;
mod partitions;
mod subject;
mod tables;

use std::time::Duration;

use cores::Cores;
use measure::{DelayRates, Found};
use network::Network;
use subject::Subject;

use super::deployment;
use super::shared::Setting;
use super::study::Report;
use super::{Common, Wrong};
use crate::Error;

/// Rounds of other labs for each of this one's: a round takes minutes.
const ROUNDS_EACH: u16 = 9;
/// Rounds of computing that a management request asks for.
pub const WORK: u64 = 20_000_000;
/// And in a quick run.
const QUICK_WORK: u64 = 100_000;
/// The longest that a quick run waits for an answer.
const QUICK_TIMEOUT: u64 = 10;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Seconds after which a management request counts as not answered.
    pub timeout: u64,
    /// Rounds of computing that a management request asks for.
    pub work: u64,
}

/// In place of what `--quick` does not measure.
const LEFT_OUT: &str = "left out: --quick";

/// What management requests are.
#[derive(Clone, Copy, Debug)]
struct Asked {
    timeout: Duration,
    /// Rounds of computing.
    work: u64,
}

fn rounds(common: &Common) -> usize {
    if common.quick { 1 } else { usize::from(common.rounds.div_ceil(ROUNDS_EACH)) }
}

/// Runs the lab.
pub(super) fn run(args: &Settings, common: &Common) -> Result<Report, Wrong> {
    let mut setting = Setting::new(common)?;
    let quick = common.quick;
    let asked = Asked {
        timeout: Duration::from_secs(if quick { args.timeout.min(QUICK_TIMEOUT) } else { args.timeout }),
        work: if quick { args.work.min(QUICK_WORK) } else { args.work },
    };
    network::available()?;
    let mut allowed = conf::cores::allowed();
    allowed.truncate(setting.cores);
    let cores =
        Cores::among(&allowed).ok_or_else(|| Error::Missing("this process may use no core".to_owned()))?;
    deployment::clean()?;
    deployment::watch()?;
    let network = Network::build()?;
    let found = subjects(&mut setting, (&network, &cores, &asked))?;
    let spread = partitions::measure(&mut setting, &network, &cores)?;
    let changed = changes::measure(&mut setting, (&network, &cores, &asked))?;
    let sections = vec![
        compare::section(&mut setting, &found),
        tables::throughput(&mut setting, &cores, &found, tables::ThroughputKind::Forwarded),
        tables::throughput(&mut setting, &cores, &found, tables::ThroughputKind::Lossless),
        tables::iperf(&mut setting, &cores, &found),
        tables::response(&mut setting, &cores, &found, &asked),
        tables::delay(&mut setting, &cores, &found),
        tables::partitions(&mut setting, &spread),
        tables::changes(&mut setting, &cores, &changed),
    ];
    Ok(Report {
        name: "planes",
        title: "Planes that share cores, and planes that do not",
        study: "After B. De Witte, S. Vincke, S. Van Landschoot, E. Steegmans, J. Boydens, \"Comparing Dual-Core SMP/AMP Performance on a Telecom Architecture\": two e500v2 cores of a P2020, ports of 1 GbE, iperf.",
        lacks: lacks(&cores),
        method: method(&setting, &cores, &asked),
        conditions: setting.conditions(),
        findings: setting.findings,
        sections,
        results: setting.results,
    })
}

/// Measures all subjects, in turn in each round.
fn subjects(setting: &mut Setting<'_>, place: (&Network, &Cores, &Asked)) -> Result<Vec<Found>, Error> {
    let mut all: Vec<Found> = Subject::all().map(Found::new).collect();
    let mut rates = DelayRates::default();
    let rounds = rounds(setting.common);
    setting.progress.expect(rounds * (all.len() + 2) + subject::Placement::ALL.len());
    for round in 0..rounds {
        for found in &mut all {
            setting.progress.part(found.subject.in_words());
            let quick = setting.common.quick && found.subject.is_slow();
            found.why_not = found.subject.lacks(place.1).or(quick.then(|| LEFT_OUT.to_owned()));
            found.why_not = found.failed.clone().or(found.why_not.take());
            if found.why_not.is_none()
                && let Err(why) = measure::round(setting, place, &mut rates, found, round == 0)
            {
                setting.progress.say(&format!("{}: {why}", found.subject.in_words()));
                found.failed = Some(failed(&why.to_string()));
            }
            setting.progress.step();
        }
    }
    // One that failed in a round has no row of figures, not even if that was the last one.
    for found in &mut all {
        found.why_not = found.failed.take().or(found.why_not.take());
    }
    Ok(all)
}

/// In place of what could not be measured.
fn failed(why: &str) -> String {
    format!("failed: {}", in_short(why))
}

/// The most lines of a reason that are shown in a table.
const LINES: usize = 6;
/// What begins the part of a reason that is for the lab's own output alone.
const DETAILS: &str = "the deployment was:";

/// A reason with several lines, in one: the first line says what failed, the last ones why.
fn in_short(why: &str) -> String {
    let lines = why.lines().map(str::trim).take_while(|line| *line != DETAILS);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    match &lines[..] {
        [] => "no reason is known".to_owned(),
        [first, rest @ ..] => {
            let last = &rest[rest.len().saturating_sub(LINES - 1)..];
            let dots = if last.len() < rest.len() { "..." } else { "" };
            let all = [*first, dots].into_iter().chain(last.iter().copied());
            all.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
        }
    }
}

fn lacks(cores: &Cores) -> Vec<String> {
    let mut lacks = vec![
        "Ports: the study's are 1 GbE. Here cables are virtual (veth), so the processor is the limit and no wire is.".to_owned(),
        "Two operating systems side by side: under AMP the study boots one on each core. Here planes are processes with cores of their own over one kernel. In rows named 'AMP, guest' management has a kernel of its own (User Mode Linux), and 'guest\'s kernel' is a device whose kernel is a guest's.".to_owned(),
    ];
    if cores.all.len() < 3 {
        lacks.push(format!(
            "Generator and sink: the study's are other machines. Here they share core {} with a plane, and go before it. Rows say so.",
            cores.tester
        ));
    }
    lacks
}

fn method(setting: &Setting<'_>, cores: &Cores, asked: &Asked) -> Vec<String> {
    let (rounds, ms) = (rounds(setting.common), setting.run_ms());
    let s = if rounds == 1 { "" } else { "s" };
    let mut method = vec![
        format!("{rounds} round{s}. In each, every device is started in every placement by 'junctor up', measured and stopped, in turn. Values are medians over the rounds, with the least and the greatest below them."),
        format!("Searches follow RFC 2544, section 26.1: trials of {ms} ms, the last one longer. Then more is sent than the device forwards, for {} ms. The tester sends 64 flows from the generator to the sink, on core {}, at raised priority (nice -19).", ms * u64::from(measure::OVERLOAD), cores.tester),
        format!("A management request is 'GET /compute?rounds={}' to the HTTP server of the management plane: work for a processor alone, as the study's CGI script. One follows the other. It times out after {} s.", asked.work, asked.timeout.as_secs()),
        "Passthrough: a user plane receives UDP payloads by one socket, makes and checks a CRC over each, and sends it by another socket, as the study's does.".to_owned(),
    ];
    let limit =
        |name: &str| std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
    method.push(format!(
        "Sockets of passthrough and iperf ask for buffers of 4 MiB. This machine's limits are {} bytes to receive and {} to send (net.core.rmem_max, wmem_max).",
        limit("rmem_max").trim(),
        limit("wmem_max").trim()
    ));
    method
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_why() {
        assert_eq!(in_short("no tap"), "no tap");
        assert_eq!(in_short(""), "no reason is known");
        let lines: Vec<String> = (1..=9).map(|n| format!("  line {n}")).collect();
        let why = format!("it failed:\n\n{}\nthe deployment was:\nplacement = \"smp\"", lines.join("\n"));
        assert_eq!(in_short(&why), "it failed: / ... / line 5 / line 6 / line 7 / line 8 / line 9");
        assert_eq!(in_short("it failed:\nno tap"), "it failed: / no tap");
    }
}
