// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench live`: a router with FRR's daemons and a table of any size, measured as a whole, and with its processes killed.
//!
//! A BGP neighbour of our own announces the table to bgpd. From there on everything is as in use: bgpd, zebra, FPM, the control plane, the router.
//! Hosts send numbered packets through it. What the table should hold is computed from the announcements alone.

mod kills;
mod lag;
mod site;
mod tap;
mod traffic;
mod watch;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tables::fib4::{Fib4Writer, NextHopId};
use testbed::bgp::Change;
use wire::Prefix4;

use self::lag::{Lags, quantile};
use self::site::{Site, gateway};
use self::traffic::Traffic;
use self::watch::{Oracle, differences};
use super::fib::{Data, Sources};
use report::measure::Measured;

use crate::{Error, Failure, Findings};

pub use kills::VICTIMS;

/// Changes a second of a day of one peer of RIPE RIS: 1,393,421 in 86,400 s.
const DAY: f64 = 1_393_421.0 / 86_400.0;
/// Hosts that packets are sent to.
const TARGETS: usize = 32;
/// How often changes are sent.
const TICK: Duration = Duration::from_millis(10);
/// The rate of packets that has no limit, next to changes.
const FULL: u32 = 0;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file with IPv4 routes; without it, the shared real table, or a generated one.
    pub routes: Option<PathBuf>,
    /// A file with changes of routes; without it, the shared ones, or generated.
    pub updates: Option<PathBuf>,
    /// Routes at most, evenly taken from the table.
    pub most: Option<usize>,
    /// How often each process is killed.
    pub kills: usize,
    /// Which processes are killed, of [`VICTIMS`].
    pub victims: Vec<String>,
    /// Packets a second that must all arrive.
    pub rate: u32,
    /// How long routes change, in seconds.
    pub churn: u64,
    /// How many times faster than one peer of the real Internet routes change.
    pub times: f64,
    /// Whether FPM alone fills the table.
    pub fpm_only: bool,
    /// Whether nothing is said about what is being done.
    pub quiet: bool,
}

/// Runs a router with FRR and a full table in network namespaces, kills processes, and changes routes. Returns also what was lost or
/// wrong in the end.
///
/// # Errors
/// Something is missing here, or did not work.
pub fn measure(args: &Settings) -> Result<(Findings, Vec<String>), Failure> {
    if let Some(why) = Site::lacks() {
        return Err(Error::Missing(why).into());
    }
    let sources = Sources { routes: args.routes.clone(), updates: args.updates.clone() };
    let data = Data::<Fib4Writer>::load(&sources)?;
    let mut live = Live::start(args, &data)?;
    live.run()?;
    let conditions = json!({
        "routes": live.size, "source": data.source, "updates_source": data.updates_source,
        "packets_per_s": args.rate, "kernel_routes": !args.fpm_only, "changes_per_s": DAY * args.times,
        "lag": "from zebra's bytes at a tap before the control plane to the first lookup in the router that answers with the new next hop",
    });
    let Live { results, failures, .. } = live;
    Ok((Findings { conditions, results }, failures))
}

/// A measurement under way.
struct Live<'a> {
    args: &'a Settings,
    site: Site,
    /// The table as announced.
    oracle: Oracle,
    size: usize,
    updates: Vec<Change>,
    targets: Vec<Ipv4Addr>,
    results: Vec<Measured>,
    failures: Vec<String>,
}

fn change((prefix, id): (Prefix4, Option<NextHopId>)) -> Change {
    (prefix, id.map(|id| gateway(id.0)))
}

/// Whether a router forwards to it: a generated table may hold prefixes of loopback addresses, too.
fn is_forwarded((prefix, _): &Change) -> bool {
    !prefix.addr().is_loopback() && !prefix.addr().is_multicast()
}

impl<'a> Live<'a> {
    fn start(args: &'a Settings, data: &Data<Fib4Writer>) -> Result<Live<'a>, Error> {
        let step = args.most.map_or(1, |most| data.routes.len().div_ceil(most.max(1)));
        let chosen = data.routes.iter().step_by(step).map(|(prefix, id)| change((*prefix, Some(*id))));
        let chosen = chosen.filter(is_forwarded);
        let oracle: Oracle = chosen.filter_map(|(prefix, hop)| Some((prefix, hop?))).collect();
        let size = oracle.len();
        let every = (size / TARGETS).max(1);
        let host =
            |prefix: &Prefix4| Ipv4Addr::from_bits(prefix.addr().to_bits() | u32::from(prefix.len() < 32));
        let targets = oracle.keys().step_by(every).take(TARGETS).map(host).collect();
        let updates = data.updates.iter().copied().map(change).filter(is_forwarded).collect();
        let site = Site::start(args.fpm_only)?;
        Ok(Live { args, site, oracle, size, updates, targets, results: Vec::new(), failures: Vec::new() })
    }

    fn run(&mut self) -> Result<(), Error> {
        self.load()?;
        self.warm_up()?;
        kills::run(self)?;
        self.audit()?;
        self.fresh()?;
        self.churn()
    }

    fn note(&mut self, name: &str, unit: &'static str, value: f64) {
        self.say(&format!("{name}: {value:.3} {unit}"));
        self.results.push(Measured::new(format!("live.{name}"), unit, vec![value]));
    }

    fn say(&self, what: &str) {
        if !self.args.quiet {
            errln!("{what}");
        }
    }

    fn fail(&mut self, why: String) {
        self.say(&why);
        self.failures.push(why);
    }

    fn lags(&self) -> Lags {
        Lags::start(&self.site.tap, self.site.router_socket())
    }

    fn note_lags(&mut self, of: &str, lags: Lags) -> Result<(), Error> {
        let found = lags.end()?;
        if found.is_empty() {
            return Ok(());
        }
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.note(&format!("{of}_lag_{name}_ms"), "ms", quantile(&found, share));
        }
        self.note(&format!("{of}_lag_samples"), "", found.len() as f64);
        Ok(())
    }

    /// The table must be what was announced.
    fn check(&mut self, when: &str) -> Result<(), Error> {
        for difference in differences(&self.site, &self.oracle)? {
            self.fail(format!("{when}: {difference}"));
        }
        Ok(())
    }

    /// `junctor routes diff` must find nothing.
    fn check_diff(&mut self, when: &str) -> Result<(), Error> {
        let answer = self.site.control("diff")?;
        let found = answer["differences"].as_array().cloned().unwrap_or_default();
        for difference in found.iter().take(3) {
            self.fail(format!("{when}: routes diff: {difference}"));
        }
        Ok(())
    }

    /// The whole table is learnt.
    fn load(&mut self) -> Result<(), Error> {
        let before = self.site.memory("routes")?;
        let lags = self.lags();
        let begun = Instant::now();
        self.site.speaker.send(self.oracle.iter().map(|(prefix, hop)| (*prefix, Some(*hop))).collect());
        self.site.wait("all routes", || self.site.is_settled(self.size))?;
        let seconds = begun.elapsed().as_secs_f64();
        self.note("load_s", "s", seconds);
        self.note_lags("load", lags)?;
        let grown = self.site.memory("routes")?.resident - before.resident;
        self.note("control_bytes_per_route", "bytes", grown / self.size as f64);
        let peak = self.site.memory("routes")?.peak - before.resident;
        self.note("control_peak_bytes_per_route", "bytes", peak / self.size as f64);
        self.check("after the first load")?;
        self.check_diff("after the first load")
    }

    /// Next hops are asked for when the first packet comes.
    fn warm_up(&mut self) -> Result<(), Error> {
        let traffic = Traffic::start(&self.site.rig, &self.targets, 200)?;
        traffic.wait_for_all(self.targets.len(), site::PATIENCE)
    }

    /// `routes diff` while routes change.
    fn audit(&mut self) -> Result<(), Error> {
        self.site.reset_peak("routes")?;
        let before = self.site.memory("routes")?;
        let alone = Instant::now();
        self.check_diff("while nothing changes")?;
        self.note("diff_s", "s", alone.elapsed().as_secs_f64());
        let peak = self.site.memory("routes")?.peak - before.resident;
        self.note("diff_extra_mb", "MB", peak / 1e6);
        let flapping: Vec<Prefix4> = self.oracle.keys().copied().step_by((self.size / 1000).max(1)).collect();
        let done = std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let begun = Instant::now();
                self.site.control("diff").map(|_| begun.elapsed().as_secs_f64())
            });
            let lags = self.lags();
            let mut round = 0;
            while !asked.is_finished() {
                let hop = |prefix: &Prefix4| gateway(prefix.addr().to_bits().wrapping_add(round));
                let part = flapping.iter().skip(round as usize % 10).step_by(10);
                self.site.speaker.send(part.map(|prefix| (*prefix, Some(hop(prefix)))).collect());
                round += 1;
                std::thread::sleep(TICK * 10);
            }
            (asked.join().unwrap_or(Err(Error::Panicked("the asking thread has"))), lags)
        });
        let (seconds, lags) = (done.0?, done.1);
        self.note_lags("diff", lags)?;
        self.note("diff_changing_s", "s", seconds);
        self.site
            .speaker
            .send(flapping.iter().map(|prefix| (*prefix, self.oracle.get(prefix).copied())).collect());
        self.settle("the routes as they were")?;
        self.check("after routes changed during 'routes diff'")
    }

    /// Waits until the table is what was announced.
    fn settle(&mut self, what: &str) -> Result<(), Error> {
        let size = self.oracle.len();
        let begun = Instant::now();
        self.site.wait(what, || self.site.is_settled(size))?;
        // The last changes may not have reached zebra yet.
        while begun.elapsed() < site::PATIENCE && !differences(&self.site, &self.oracle)?.is_empty() {
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// A router and a control plane that know nothing: the replay, and a table of their own.
    fn fresh(&mut self) -> Result<(), Error> {
        self.site.kill_both()?;
        let expected = self.oracle.len();
        let mut held = 0;
        self.site.wait("the replay", || {
            let learnt = self.site.read("rt.nroutes").ok().and_then(|text| text.trim().parse::<usize>().ok());
            held = learnt.unwrap_or(0);
            held >= expected && self.site.tap.named() == expected
        })?;
        let done = Instant::now();
        let last = self.site.tap.last().ok_or_else(|| Error::nothing("zebra has said nothing"))?;
        self.note("replay_behind_ms", "ms", done.saturating_duration_since(last).as_secs_f64() * 1e3);
        self.site.wait("the end of the replay", || self.site.is_settled(expected))?;
        self.note("replay_swept_behind_ms", "ms", last.elapsed().as_secs_f64() * 1e3);
        self.check("in a fresh router")?;
        self.check_diff("in a fresh router")
    }

    /// Routes change as on the Internet, only faster, next to as many packets as possible.
    fn churn(&mut self) -> Result<(), Error> {
        if self.args.churn == 0 || self.updates.is_empty() {
            return Ok(());
        }
        let (pace, length) = (DAY * self.args.times, Duration::from_secs(self.args.churn));
        self.warm_up()?;
        let traffic = Traffic::start(&self.site.rig, &self.targets, FULL)?;
        let lags = self.lags();
        let (begun, mut sent) = (Instant::now(), 0);
        let updates = std::mem::take(&mut self.updates);
        let mut stream = updates.iter().cycle();
        while begun.elapsed() < length {
            let due = (begun.elapsed().as_secs_f64() * pace) as usize;
            let part: Vec<Change> = stream.by_ref().take(due - sent).copied().collect();
            sent = due;
            for (prefix, hop) in &part {
                match hop {
                    Some(hop) => _ = self.oracle.insert(*prefix, *hop),
                    None => _ = self.oracle.remove(prefix),
                }
            }
            self.site.speaker.send(part);
            std::thread::sleep(TICK);
        }
        self.note("churn_changes", "", sent as f64);
        self.note_lags("churn", lags)?;
        let count = traffic.end();
        self.note("churn_packets_per_s", "packets/s", count.received as f64 / count.seconds);
        self.settle("the changes' end")?;
        self.check("after the changes")?;
        self.check_diff("after the changes")
    }
}
