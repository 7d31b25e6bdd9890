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
mod crew;
mod gauge;
mod line;
mod offer;
mod port;
mod post;
mod procedures;
mod sample;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use packet::Batch;
use packet::port::{Device, Link};
use serde::{Deserialize, Serialize};

pub use bridge::{BridgeStation, Exchanged, flow as host_flow};
pub use crew::{Member, Progress, Tally};
pub use gauge::Gauge;
pub use offer::{Offer, Order};
pub use port::Port;
pub use post::Post;
pub use procedures::{BurstStation, Reset, ResetStation};
pub use sample::{DELAYS_MAX, Delays, Sampling};

use crate::account::{ANYWHERE, Accounts, Counts};
use crate::extension::Extension;
use crate::frame::{self, Flow, Template};
use crate::search::stream::{Step, Timeline};
use crate::signature::Key;
use crate::trial::{Invalid, Outcome, Trial};

use clock::Clock;
use course::Course;
use crew::Crew;
use line::{Pending, Receiver, Sender, Slot, Turn, histogram};
use offer::Job;
use source::{LEAD_NS, Sleep, Source};

/// How long duplicates are waited for when all frames have arrived.
const DUPLICATES_NS: u64 = 5_000_000;
/// How long frames are waited for at most that only warm a device up.
const SOON: Duration = Duration::from_secs(1);
/// How much later than due the last frames may leave, at least and at most.
const GRACE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(10));
/// How often a look is taken, while frames are sent, at links and at whatever else a run needs.
const LOOK_NS: u64 = 50_000_000;
/// Bits for the windows of all flows together: what fits the second-level cache.
const WINDOWS: u32 = 1 << 20;

/// What one port sends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    /// Its flows, in turn, and the port at which each ought to arrive, if that is known.
    pub flows: Vec<(Flow, Option<usize>)>,
    /// The sizes of its frames in bytes, with FCS, over and over in this order (RFC 6985).
    pub sizes: Vec<usize>,
    /// Extension headers of those frames that are IPv6.
    pub headers: Vec<Extension>,
    /// Frames beside these, of which none is expected anywhere.
    pub extras: Vec<Extra>,
}

/// A frame that is sent again and again beside the test's frames, to see what that costs the device (RFC 2544 11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// Without FCS.
    pub frame: Vec<u8>,
    /// How often.
    pub every: Every,
}

/// How often something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Before each so many frames of the test.
    Frames(u64),
    /// At the start, and then after each such time.
    Time(Duration),
}

/// What is sent, and for how long stragglers are waited for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// By port.
    pub streams: Vec<Stream>,
    /// Whether every frame ought to arrive at every other port, as broadcast frames do at a bridge: each of these copies counts
    /// as a frame sent.
    pub everywhere: bool,
    /// Frames leave in bursts of so many (RFC 2544 21); 0 and 1 are none. The rate is that over many bursts.
    pub burst: u64,
    /// How long after the last frame others may still arrive (RFC 2544, section 23: 2 s). A trial whose frames have all
    /// arrived is over soon after.
    pub stragglers: Duration,
}

/// All that a trial showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// What procedures go by.
    pub outcome: Outcome,
    /// What became of the frames.
    pub counts: Counts,
    /// Frames that arrived damaged, or from a trial before.
    pub damaged: u64,
    /// Frames that are not the tester's.
    pub foreign: u64,
    /// Frames that arrived at the tester's ports and that it had no room for: its own fault. They count as not sent, since nothing
    /// is known of what the device did to them.
    pub missed: u64,
    /// From a frame's departure to its arrival, in nanoseconds.
    pub latency: Histogram<u64>,
    /// From when a frame was due to its arrival: what a user would see who sends on time (corrected for coordinated omission).
    pub response: Histogram<u64>,
    /// How late frames left the tester, in nanoseconds: its own pacing error.
    pub lateness: Histogram<u64>,
}

/// Is shown trials.
pub type Watcher = Box<dyn FnMut(Trial, Result<&Detail, &Invalid>) + Send>;

/// What came of a job.
struct Ran {
    detail: Detail,
    timeline: Option<Timeline>,
    delays: Option<Delays>,
}

/// Ports with their flows, ready for trials.
pub struct Station {
    names: Vec<String>,
    devices: Vec<std::sync::Arc<dyn Device>>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Where each flow ought to arrive.
    expected: Vec<u16>,
    /// Where each flow goes.
    destinations: Vec<IpAddr>,
    /// The device's own addresses, as far as it told them.
    own: BTreeSet<IpAddr>,
    ports: RangeInclusive<u16>,
    /// At how many ports each frame ought to arrive.
    copies: u64,
    plan: Plan,
    stragglers: Duration,
    clock: Clock,
    trials: u64,
    seed: u64,
    watcher: Option<Watcher>,
    guard: Option<Guard>,
    gauge: Box<dyn Gauge>,
    /// Those who have the ports, if this station only leads.
    crew: Option<Crew>,
    /// What it sleeps on when nothing comes, if it may not keep its core.
    sleep: Option<Sleep>,
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
            destinations: Vec::new(),
            own: BTreeSet::new(),
            ports: 0..=0,
            copies: 1,
            plan: Plan::default(),
            stragglers: plan.stragglers,
            clock: Clock::default(),
            trials: 0,
            seed,
            watcher: None,
            guard: None,
            gauge: Box::new(gauge::Blind),
            crew: None,
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
            sender.extras =
                stream.extras.iter().map(|extra| Pending { extra: extra.clone(), next: 0 }).collect();
            for (flow, to) in &stream.flows {
                for size in &sizes {
                    let template = Template::new(flow, *size, &stream.headers).ok_or_else(|| {
                        Invalid::new(
                            format!("no frame of {size} bytes from {} to {}", flow.src, flow.dst),
                            format!(
                                "{} bytes is the least, with both addresses of one family",
                                frame::smallest(flow.src, &stream.headers)
                            ),
                        )
                    })?;
                    sender.templates.push(template);
                }
                self.expected.push(to.map_or(ANYWHERE, |port| port as u16));
            }
            sender.active = (0..stream.flows.len() as u32).collect();
        }
        self.destinations = flows.map(|(flow, _)| flow.dst).collect();
        self.ports = least..=greatest;
        self.copies = if plan.everywhere { self.senders.len() as u64 - 1 } else { 1 };
        self.stragglers = plan.stragglers;
        self.leave_out();
        self.crew.as_mut().map_or(Ok(()), |crew| crew.replan(plan))
    }

    /// The longest frame in bytes, with FCS, that all ports take.
    pub fn longest(&self) -> usize {
        let longest = self.devices.iter().map(|device| device.info().mtu).min().unwrap_or(0);
        longest + wire::ethernet::HEADER_LEN + frame::FCS
    }

    /// The device's own addresses, as far as it told them by asking for neighbours.
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

    /// Has this gauge read in every trial from now on.
    pub fn gauge(&mut self, gauge: impl Gauge + 'static) {
        self.gauge = Box::new(gauge);
    }

    /// The ports' names and how each is driven.
    pub fn drivers(&self) -> Vec<(String, String)> {
        let driver = |(device, sender): (&std::sync::Arc<dyn Device>, &Sender)| match &sender.source {
            None => device.info().driver,
            Some(_) => format!("BPF_PROG_RUN, receiving by {}", device.info().driver),
        };
        self.names.iter().cloned().zip(self.devices.iter().zip(&self.senders).map(driver)).collect()
    }

    /// How many ports there are.
    pub fn port_count(&self) -> usize {
        self.names.len()
    }

    /// Sends a little of every flow until no more is lost than the time before, so that the device knows all neighbours. Flows to
    /// addresses that turn out to be its own are left out from then on: it does not forward these ([`Station::left_out`]).
    ///
    /// # Errors
    /// Nothing at all arrives within `patience`. Flows that alone never do are lost in the trials too, where it is counted.
    pub fn warm_up(&mut self, patience: Duration) -> Result<(), Invalid> {
        let (begun, mut before) = (Instant::now(), u64::MAX);
        let flows = self.senders.iter().map(|s| s.active.len()).max().unwrap_or(1) as f64;
        loop {
            // Each flow ten times in a tenth of a second. To a device that is not ready yet it is said again soon.
            let step = Step { rate: flows * 100.0, duration: Duration::from_millis(100) };
            let stragglers = Some(self.stragglers.min(SOON));
            let job = Job { stragglers, ..Job::new(Offer::Steps(vec![step])) };
            let detail = self.carry_out(job)?.detail;
            if self.leave_out() {
                continue;
            }
            let heard = self.heard(&detail);
            let lost = detail.outcome.lost();
            // What is lost as before is not lost for want of neighbours.
            if heard && (lost == 0 || lost >= before) {
                return Ok(());
            }
            before = lost;
            if begun.elapsed() > patience {
                return if heard { Ok(()) } else { Err(self.silence(&detail)) };
            }
        }
    }

    /// Addresses of the device's own that flows would have gone to.
    pub fn left_out(&self) -> Vec<IpAddr> {
        let gone: BTreeSet<IpAddr> =
            self.destinations.iter().copied().filter(|dst| self.own.contains(dst)).collect();
        gone.into_iter().collect()
    }

    /// How many flows are sent.
    pub fn flows(&self) -> usize {
        self.senders.iter().map(|sender| sender.active.len()).sum()
    }

    /// Leaves out the flows that go to the device itself. Whether there were any.
    fn leave_out(&mut self) -> bool {
        let mut any = false;
        for sender in &mut self.senders {
            let before = sender.active.len();
            let own = |flow: &u32| self.own.contains(&self.destinations[(sender.first_flow + flow) as usize]);
            // A port must have something to send; then it is the plan that is wrong, and shows.
            if !sender.active.iter().all(own) {
                sender.active.retain(|flow| !own(flow));
            }
            any |= sender.active.len() < before;
        }
        any
    }

    fn heard(&self, detail: &Detail) -> bool {
        detail.outcome.received > 0
    }

    fn silence(&self, detail: &Detail) -> Invalid {
        let Detail { outcome, damaged, foreign, counts, .. } = detail;
        let mend = match (counts.misrouted, *damaged, *foreign) {
            (1.., ..) => {
                "frames come out of other ports than expected: compare its routes with the flows' addresses"
            }
            (0, 1.., _) => "frames come back damaged: it may rewrite what UDP's checksum covers",
            (0, 0, 1..) => {
                "it speaks, but forwards none of them: compare its addresses and routes with the flows'"
            }
            _ => "nothing at all comes from it: see that it runs, and that its ports are these",
        };
        let mut what = format!("the device returned none of {} frames", outcome.sent);
        for (name, receiver) in self.names.iter().zip(&self.receivers) {
            what += &match (receiver.heard, receiver.wanted.first()) {
                (0, None) => format!("; {name} heard nothing"),
                (heard, None) => format!("; {name} heard {heard} frames"),
                (heard, Some(neighbour)) => {
                    let more = receiver.wanted.len() - 1;
                    format!(
                        "; {name} heard {heard} frames, was asked for {neighbour} and {more} more neighbours, and answered"
                    )
                }
            };
        }
        Invalid::new(what, mend)
    }

    /// Carries out a trial.
    ///
    /// # Errors
    /// The rate is no positive number, a link is down or goes down meanwhile, or the guard ([`Station::watch`]) says so.
    pub fn run(&mut self, trial: Trial) -> Result<Detail, Invalid> {
        self.carry_out(Job::new(Offer::from(trial))).map(|ran| ran.detail)
    }

    /// Shows every trial from now on to `watcher` when it is done: what was offered, on average and for how long, and what became of
    /// it.
    pub fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    fn carry_out(&mut self, mut job: Job<'_>) -> Result<Ran, Invalid> {
        let trial = job.order.offer.trial();
        self.trials += 1;
        job.order.key = self.seed.wrapping_add(self.trials.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let result = self.look().and_then(|()| match self.crew.take() {
            None => self.carry_out_here(job),
            Some(mut crew) => {
                let result = crew.carry_out(self, job);
                self.crew = Some(crew);
                result
            }
        });
        if let Some(show) = &mut self.watcher {
            show(trial, result.as_ref().map(|ran| &ran.detail));
        }
        result
    }

    fn carry_out_here(&mut self, mut job: Job<'_>) -> Result<Ran, Invalid> {
        self.gauge.begin()?;
        self.arm_sources()?;
        self.drain();
        let start = self.clock.now() + if self.has_sources() { LEAD_NS } else { 20_000 };
        let prepared = self.prepare(&job.order, start);
        let mut turn = prepared.inspect_err(|_| self.disarm_sources())?;
        let mut event = job.event.take().map(|(after, begin)| (start + after.as_nanos() as u64, begin));
        let mut begin = |turn: &mut Turn, now| {
            if let Some((_, begin)) = event.take_if(|(at, _)| *at <= now) {
                if let Some(course) = &mut turn.course {
                    course.event(now);
                }
                begin();
            }
            Ok(())
        };
        let now = self.send(&mut turn, &job.order, start, &mut begin)?;
        self.gauge.end();
        self.await_stragglers(&mut turn, &job, now);
        self.gauge.done()?;
        self.look()?;
        let tally = self.tally(turn, now.saturating_sub(start));
        self.sum_up(&job.order, tally)
    }

    /// What the trial before left in the queues is none of the next one's; neighbours may ask meanwhile.
    fn drain(&mut self) {
        for (sender, receiver) in self.senders.iter_mut().zip(&mut self.receivers) {
            receiver.drain(&mut *sender.tx, &mut self.own);
            receiver.heard = 0;
        }
    }

    /// Sends, and receives meanwhile, until all has left or it is too late for it. `meanwhile` is called after each turn. Returns when
    /// that was.
    fn send(
        &mut self,
        turn: &mut Turn,
        order: &Order,
        start: u64,
        meanwhile: impl FnMut(&mut Turn, u64) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        let begun = self.begin_sources(turn);
        let sent = begun.and_then(|()| self.send_all(turn, order, start, meanwhile));
        let ended = self.end_sources(turn);
        sent.and_then(|now| ended.map(|()| now))
    }

    fn send_all(
        &mut self,
        turn: &mut Turn,
        order: &Order,
        start: u64,
        mut meanwhile: impl FnMut(&mut Turn, u64) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        let whole = turn.schedule.end_ns() - start;
        // A frame that is due at the very end may leave a little later.
        let usual = (Duration::from_nanos(whole) / 100).clamp(GRACE.0, GRACE.1);
        let end = start + whole + order.grace.unwrap_or(usual).as_nanos() as u64;
        let mut now = self.clock.now();
        let mut look = now + LOOK_NS;
        while now < end && !self.senders.iter().all(|sender| sender.is_done(&turn.schedule)) {
            self.turn(turn, true);
            now = self.clock.now();
            meanwhile(turn, now)?;
            // A reset may well take a link down for a while.
            if now > look && !order.is_reset {
                self.look()?;
                look = now + LOOK_NS;
            }
        }
        Ok(now)
    }

    /// All that a run gathers, still empty.
    fn prepare(&mut self, order: &Order, start: u64) -> Result<Turn, Invalid> {
        let schedule = order.offer.schedule(self.plan.burst, start)?;
        let mut slots = Vec::new();
        for (port, sender) in self.senders.iter_mut().enumerate() {
            sender.next = 0;
            sender.extras.iter_mut().for_each(|pending| pending.next = 0);
            slots.resize(slots.len() + sender.templates.len() / sender.sizes.max(1), None);
            let flows = sender.active.len() as u64;
            if flows > 0 && schedule.frames() / flows > u64::from(u32::MAX) {
                return Err(Invalid::new(
                    format!("{} frames of {flows} flows cannot be numbered", schedule.frames()),
                    "a flow has at most 2^32: send more flows, or for a shorter time",
                ));
            }
            for (place, flow) in (0..).zip(&sender.active) {
                slots[(sender.first_flow + flow) as usize] = Some(Slot { port, place, flows });
            }
        }
        // Of a frame that goes everywhere, each port has an account of its own.
        let expected: Vec<u16> = match self.copies {
            1 => self.expected.clone(),
            _ => vec![ANYWHERE; self.expected.len() * self.senders.len()],
        };
        let window = (WINDOWS / expected.len().max(1) as u32).clamp(64, 1 << 17);
        let intended = self.senders.iter().map(|sender| sender.intended(&schedule));
        Ok(Turn {
            key: Key::new(order.key),
            ports: self.ports.clone(),
            accounts: Accounts::new(expected, window),
            accounts_per_flow: if self.copies == 1 { 1 } else { self.senders.len() as u32 },
            missed_before: self.missed(),
            damaged: 0,
            foreign: 0,
            askers: BTreeSet::new(),
            is_timed: order.is_timed,
            latency: histogram(),
            response: histogram(),
            lateness: histogram(),
            slots,
            course: order.bin.map(|bin| Course::new(&schedule, start, bin, self.senders.len())),
            delays: order.sampling.map(|sampling| Delays::new(sampling, intended)),
            schedule,
        })
    }

    /// Receives what still comes after the last frame has left at `now`.
    fn await_stragglers(&mut self, turn: &mut Turn, job: &Job<'_>, now: u64) {
        let sent: u64 = self.senders.iter().map(|s| s.next).sum();
        let mut stop = now + job.stragglers.unwrap_or(self.stragglers).as_nanos() as u64;
        let mut complete = job.is_patient;
        let mut over = false;
        while !over {
            // Looked at first: a tester that had no turn for so long still takes what has come meanwhile.
            over = self.clock.now() >= stop;
            // Summing up the accounts takes a while where there are many flows.
            for _ in 0..64 {
                self.turn(turn, false);
            }
            if !complete && turn.accounts.all().received >= sent * self.copies {
                complete = true;
                stop = stop.min(self.clock.now() + DUPLICATES_NS);
            }
        }
    }

    /// What a run gathered at the ports that are here.
    fn tally(&self, turn: Turn, sending_ns: u64) -> Tally {
        Tally {
            sent: self.senders.iter().map(|sender| sender.next).collect(),
            counts: turn.accounts.all(),
            damaged: turn.damaged,
            foreign: turn.foreign,
            missed: self.missed() - turn.missed_before,
            latency: turn.latency,
            response: turn.response,
            lateness: turn.lateness,
            askers: turn.askers,
            heard: self.receivers.iter().map(|r| (r.heard, r.wanted.clone())).collect(),
            sending: Duration::from_nanos(sending_ns),
            course: turn.course.map(Course::rebased),
            delays: turn.delays,
        }
    }

    /// What a run came to, by what all ports gathered.
    fn sum_up(&mut self, order: &Order, tally: Tally) -> Result<Ran, Invalid> {
        let schedule = order.offer.schedule(self.plan.burst, 0)?;
        let Tally { sent, counts, damaged, foreign, missed, latency, response, lateness, .. } = tally;
        let outcome = Outcome {
            intended: self.copies * self.senders.iter().map(|sender| sender.intended(&schedule)).sum::<u64>(),
            sent: (self.copies * sent.iter().sum::<u64>()).saturating_sub(missed).max(counts.received),
            received: counts.received,
            duration: tally.sending.max(Duration::from_nanos(1)),
        };
        self.own.extend(tally.askers);
        let delays = tally.delays.map(|mut delays| {
            delays.cut(sent.iter().copied());
            delays
        });
        let ports = self.senders.iter().zip(&sent).map(|(sender, sent)| (sender.intended(&schedule), *sent));
        let ports: Vec<(u64, u64)> = ports.collect();
        let timeline = tally.course.map(|course| course.timeline(&schedule, &ports));
        let detail = Detail { outcome, counts, damaged, foreign, missed, latency, response, lateness };
        Ok(Ran { detail, timeline, delays })
    }

    /// Frames that the tester's ports had no room for, ever.
    fn missed(&self) -> u64 {
        self.receivers.iter().map(|receiver| receiver.rx.stats()).map(|s| s.missed + s.no_memory).sum()
    }

    /// Whether all that a trial needs is there.
    fn look(&mut self) -> Result<(), Invalid> {
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

    /// Sends what is due, if it may, and receives.
    fn turn(&mut self, turn: &mut Turn, send: bool) {
        let clock = &self.clock;
        let mut received = 0;
        for (index, (sender, receiver)) in self.senders.iter_mut().zip(&mut self.receivers).enumerate() {
            if send {
                sender.send(turn, || clock.now());
            }
            received += receiver.receive(turn, index as u16, || clock.now());
            if !receiver.answers.is_empty() {
                sender.tx.transmit(&mut receiver.answers);
                receiver.answers.free_all();
            }
            sender.tx.flush();
        }
        if let Some(sleep) = self.sleep.as_mut().filter(|_| received == 0) {
            sleep.nap();
        }
    }
}
