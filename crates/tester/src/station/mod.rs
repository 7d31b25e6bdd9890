// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test station: ports that send flows at a rate and check what arrives, on one thread.
//!
//! A turn of its loop sends what is due at each port and receives what has arrived at each. The clock is read once for each batch, so
//! a departure or an arrival is exact to a batch: at rates where frames leave one by one, that is exact.
//!
//! What a port's queue does not take is made anew with a new departure when there is room again, for a frame that waited in the
//! tester would look late by the device. How late frames left, against the schedule, is a histogram of its own.
//!
//! Where the kernel generates a port's frames, it does so by the same schedule in a thread of its own, and the station receives
//! (`source`).

mod bridge;
mod clock;
mod course;
mod gauge;
mod line;
mod offer;
mod plan;
mod port;
mod post;
mod procedures;
mod run;
mod sample;
mod source;
mod stations;
#[cfg(test)]
mod tests;
mod times;
mod verdict;
mod warm_up;

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hdrhistogram::Histogram;
use packet::Batch;
use packet::port::{Device, Link};
use wire::MacAddr;

pub use bridge::{BridgeStation, Exchanged, flow as host_flow};
pub use gauge::Gauge;
pub use offer::{Offer, Order};
pub use plan::{Every, Extra, Plan, Stream};
pub use port::Port;
pub use post::Post;
pub use procedures::{BurstStation, Reset, ResetStation};
pub use sample::{DELAYS_MAX, Delays, Sampling};
pub use stations::{Member, Progress, Tally};
pub use verdict::{Verdict, Verdicts};

use crate::account::{ANYWHERE, Counts};
use crate::extension::Extension;
use crate::frame::{self, Flow, Template};
use crate::management::Answers;
use crate::search::stream::Timeline;
use crate::trial::{Invalid, Outcome, Trial};

use clock::Clock;
use line::{Pending, Receiver, Sender};
use offer::Job;
use source::{Sleep, Source};
use stations::Stations;

/// All that a trial showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// What procedures go by.
    pub outcome: Outcome,
    /// What became of the frames.
    pub counts: Counts,
    /// Frames that arrived damaged.
    pub damaged: u64,
    /// Whole frames of a trial before.
    pub old: u64,
    /// Frames that are not the tester's.
    pub foreign: u64,
    /// Questions of management, and what came of them ([`crate::management`]).
    pub answers: Answers,
    /// Frames that arrived at the tester's ports and that it had no room for: its own fault. They count as not sent, since nothing
    /// is known of what the device did to them.
    pub missed: u64,
    /// Additional frames ([`Extra`]) that were due and that the tester did not send.
    pub beside_unsent: u64,
    /// What became of each flow's frames.
    pub verdicts: Verdicts,
    /// From a frame's departure to its arrival, in nanoseconds.
    pub latency: Histogram<u64>,
    /// From when a frame was due to its arrival: what a user would see who sends on time (corrected for coordinated omission).
    pub response: Histogram<u64>,
    /// How late frames left the tester, in nanoseconds: its own pacing error.
    pub lateness: Histogram<u64>,
    /// Frames sent and received are at least so many: others have the ports, of whom not all could be asked once it was over, or not all
    /// at once.
    pub at_least: bool,
}

impl Detail {
    /// Of the frames that did not arrive as and where they should, those that came out of nowhere: neither elsewhere nor damaged, as far as
    /// these are no copies.
    pub fn vanished(&self) -> u64 {
        self.outcome.lost().saturating_sub(self.counts.misrouted + self.damaged)
    }
}

/// Is shown each trial, what was seen of it, and why it is worth nothing, if so. Of a trial that was cut off, this is what was seen until
/// then. Of a station's lost member, it is the last report.
pub type Watcher = Box<dyn FnMut(Trial, Option<&Detail>, Result<(), &Invalid>) + Send>;

/// What came of a job.
struct Ran {
    detail: Detail,
    timeline: Option<Timeline>,
    delays: Option<Delays>,
}

/// Ports with their flows, ready for trials.
pub struct Station {
    names: Vec<String>,
    devices: Vec<Arc<dyn Device>>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Where each flow ought to arrive.
    expected: Vec<u16>,
    /// To which Ethernet address each goes, where that shall not change.
    addressees: Arc<Vec<MacAddr>>,
    /// From where to where flows go.
    pairs: Arc<HashSet<(IpAddr, IpAddr)>>,
    /// From where to where each flow goes.
    ends: Vec<[IpAddr; 2]>,
    /// The device's own addresses, as far as it revealed them.
    own: BTreeSet<IpAddr>,
    ports: RangeInclusive<u16>,
    /// At how many ports each frame ought to arrive.
    copies: u64,
    plan: Plan,
    stragglers: Duration,
    /// For how long the device is left alone after each trial, and until when it is.
    settle: Duration,
    settled_ns: u64,
    /// How long before a trial's frames updates of routes are sent.
    ahead: Duration,
    clock: Clock,
    trials: u64,
    seed: u64,
    watcher: Option<Watcher>,
    guard: Option<Guard>,
    /// Set when trials are to be given up.
    given_up: Arc<AtomicBool>,
    gauge: Box<dyn Gauge>,
    /// Those who have the ports, if this station only leads.
    stations: Option<Stations>,
    /// What it sleeps on when nothing comes, if it may not keep its core.
    sleep: Option<Sleep>,
}

/// A frame of this size.
fn template(flow: &Flow, size: usize, headers: &[Extension]) -> Result<Template, Invalid> {
    Template::new(flow, size, headers).ok_or_else(|| {
        let least = frame::smallest(flow.src, headers);
        Invalid::new(
            format!("no frame of {size} bytes from {} to {}", flow.src, flow.dst),
            format!("{least} bytes is the least, with both addresses of one family: choose a greater frame size (--size)"),
        )
    })
}

/// An error once trials are given up.
fn go_on(given_up: &AtomicBool) -> Result<(), Invalid> {
    if given_up.load(Relaxed) { Err(Invalid::new("interrupted", "")) } else { Ok(()) }
}

/// Says why a trial is worth nothing, as soon as that is so.
type Guard = Box<dyn FnMut() -> Result<(), Invalid> + Send>;

impl Station {
    /// A station with these ports. `seed` makes the keys of its trials.
    ///
    /// # Errors
    /// A flow has addresses of two families, or the size has no room for its frames, or there is none.
    pub fn new(ports: Vec<Port>, plan: &Plan, seed: u64) -> Result<Station, Invalid> {
        let (mut names, mut devices) = (Vec::new(), Vec::new());
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for port in ports {
            senders.push(Sender {
                is_here: port.is_here,
                active: Vec::new(),
                tx: port.tx,
                source: port.source,
                templates: Vec::new(),
                sizes: 1,
                pattern: Vec::new(),
                extras: Vec::new(),
                detours: Vec::new(),
                first_flow: 0,
                next: 0,
                batch: Batch::new(),
            });
            receivers.push(Receiver {
                rx: port.rx,
                batch: Batch::new(),
                answers: Batch::new(),
                heard: 0,
                wanted: BTreeSet::new(),
            });
            names.push(port.name);
            devices.push(port.device);
        }
        let mut station = Station {
            names,
            devices,
            senders,
            receivers,
            expected: Vec::new(),
            addressees: Arc::default(),
            pairs: Arc::default(),
            ends: Vec::new(),
            own: BTreeSet::new(),
            ports: 0..=0,
            copies: 1,
            plan: Plan::default(),
            stragglers: plan.stragglers,
            settle: Duration::ZERO,
            settled_ns: 0,
            ahead: Duration::ZERO,
            clock: Clock::default(),
            trials: 0,
            seed,
            watcher: None,
            guard: None,
            given_up: Arc::default(),
            gauge: Box::new(gauge::Blind),
            stations: None,
            sleep: None,
        };
        station.replan(plan)?;
        Ok(station)
    }

    /// Sends other flows from now on.
    ///
    /// # Errors
    /// As [`Station::new`]; then nothing is sent until there is a plan that can be.
    pub fn replan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        self.expected.clear();
        self.plan = plan.clone();
        let flows = plan.streams.iter().flat_map(|s| &s.flows);
        let dst_ports = flows.clone().map(|(flow, _)| flow.dst_port);
        let (Some(least), Some(greatest)) = (dst_ports.clone().min(), dst_ports.max()) else {
            return Err(Invalid::new("no port has a flow to send", "say what is sent where"));
        };
        for (index, sender) in self.senders.iter_mut().enumerate() {
            let stream = plan.streams.get(index).cloned().unwrap_or_default();
            let mtu = self.devices[index].info().mtu + wire::ethernet::HEADER_LEN + frame::FCS;
            sender.first_flow = self.expected.len() as u32;
            sender.templates.clear();
            sender.active.clear();
            sender.source.iter_mut().for_each(Source::forget);
            let longest = stream.sizes.iter().copied().max().unwrap_or(0);
            if !stream.flows.is_empty() && longest > mtu {
                return Err(Invalid::new(
                    format!(
                        "{}: frames of {longest} bytes do not pass: its longest is {mtu}",
                        self.names[index]
                    ),
                    "choose a smaller size, or a larger MTU",
                ));
            }
            let mut sizes = stream.sizes.clone();
            sizes.sort_unstable();
            sizes.dedup();
            if !stream.flows.is_empty() && sizes.is_empty() {
                return Err(Invalid::new("there are frames, but no size", "say how long they are"));
            }
            sender.sizes = sizes.len();
            let place = |size: &usize| sizes.binary_search(size).unwrap_or(0);
            sender.pattern = stream.sizes.iter().map(place).collect();
            sender.extras = stream
                .extras
                .iter()
                .filter(|extra| !extra.frames.is_empty())
                .cloned()
                .map(Pending::new)
                .collect();
            let templates = |flow: &Flow| -> Result<Vec<Template>, Invalid> {
                sizes.iter().map(|size| template(flow, *size, &stream.headers)).collect()
            };
            for (flow, to) in &stream.flows {
                sender.templates.extend(templates(flow)?);
                self.expected.push(to.map_or(ANYWHERE, |port| port as u16));
            }
            sender.detours.clear();
            for detour in &stream.detours {
                sender.detours.extend(templates(detour)?);
            }
            sender.active = (0..stream.flows.len() as u32).collect();
        }
        let detours = plan.streams.iter().flat_map(|stream| &stream.detours);
        let all = flows.clone().map(|(flow, _)| flow).chain(detours);
        let addressees = flows.clone().filter(|_| plan.is_bridged).map(|(flow, _)| flow.dst_mac);
        self.addressees = Arc::new(addressees.collect());
        self.pairs = Arc::new(all.map(|flow| (flow.src, flow.dst)).collect());
        self.ends = flows.map(|(flow, _)| [flow.src, flow.dst]).collect();
        self.ports = least..=greatest;
        self.copies = if plan.everywhere { self.senders.len() as u64 - 1 } else { 1 };
        self.stragglers = plan.stragglers;
        self.leave_out();
        self.stations.as_mut().map_or(Ok(()), |stations| stations.replan(plan))
    }

    /// The longest frame in bytes, with FCS, that all ports take.
    pub fn longest(&self) -> usize {
        let longest = self.devices.iter().map(|device| device.info().mtu).min().unwrap_or(0);
        longest + wire::ethernet::HEADER_LEN + frame::FCS
    }

    /// The device's own addresses, as far as it revealed them by asking for neighbours.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        self.own.iter().copied().collect()
    }

    /// What is sent.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Has `guard` asked, now and then while trials run, whether what they need is still there. It must not take long.
    pub fn guard(&mut self, guard: impl FnMut() -> Result<(), Invalid> + Send + 'static) {
        self.guard = Some(Box::new(guard));
    }

    /// Gives up every trial, and what is waited for between them, once this is set.
    pub fn heed(&mut self, given_up: Arc<AtomicBool>) {
        self.given_up = given_up;
    }

    fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }

    /// Has this gauge read in every trial from now on.
    pub fn gauge(&mut self, gauge: impl Gauge + 'static) {
        self.gauge = Box::new(gauge);
    }

    /// The ports' names and how each is driven.
    pub fn drivers(&self) -> Vec<(String, String)> {
        let driver = |(device, sender): (&Arc<dyn Device>, &Sender)| match &sender.source {
            None => device.info().driver,
            Some(_) => format!("BPF_PROG_RUN, receiving by {}", device.info().driver),
        };
        self.names.iter().cloned().zip(self.devices.iter().zip(&self.senders).map(driver)).collect()
    }

    /// How many ports there are.
    pub fn port_count(&self) -> usize {
        self.names.len()
    }

    /// How many flows are sent.
    pub fn flows(&self) -> usize {
        self.senders.iter().map(|sender| sender.active.len()).sum()
    }

    /// Leaves the device alone for so long after each trial from now on, so that it settles (RFC 2544 23 e). What only warms a device up
    /// does not wait for that.
    pub fn settle(&mut self, time: Duration) {
        self.settle = time;
    }

    /// Sends updates of routes ([`Every::Update`]) so long before the test's frames from now on (RFC 2544 C.2.3), not with the first of
    /// them. What only warms a device up does not wait for that.
    pub fn update_ahead(&mut self, time: Duration) {
        self.ahead = time;
    }

    /// Carries out a trial, and waits for copies of frames longer than a search does.
    ///
    /// # Errors
    /// The rate is no positive number, a link is down or goes down meanwhile, or the guard ([`Station::watch`]) says so.
    pub fn run(&mut self, trial: Trial) -> Result<Detail, Invalid> {
        let job = Job { duplicates_ns: run::ALL_DUPLICATES_NS, ..Job::new(Offer::from(trial)) };
        self.carry_out(job).map(|ran| ran.detail)
    }

    /// Shows every trial from now on to `watcher` when it is done: what was offered, on average and for how long, and what became of
    /// it.
    pub fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// Whether all that a trial needs is there.
    fn look(&mut self) -> Result<(), Invalid> {
        go_on(&self.given_up).and_then(|()| self.needs())
    }

    /// The same of one that is given up.
    fn needs(&mut self) -> Result<(), Invalid> {
        self.links()?;
        self.guard.as_mut().map_or(Ok(()), |guard| guard())
    }

    fn links(&self) -> Result<(), Invalid> {
        for (name, device) in self.names.iter().zip(&self.devices) {
            match device.link() {
                Link::Up => {}
                Link::Down => {
                    return Err(Invalid::new(
                        format!("{name}: the link is down"),
                        "plug it in, or bring it up",
                    ));
                }
                Link::Gone => return Err(Invalid::new(format!("{name}: the interface is gone"), "")),
            }
        }
        Ok(())
    }
}
