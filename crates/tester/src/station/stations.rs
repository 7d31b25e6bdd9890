// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station whose ports others have: it orders them, and adds up what they saw.
//!
//! Each member has some of the ports and knows all that is sent anywhere, so that it recognises what arrives. In a trial it first takes its order and
//! receives from then on. When all do, each gets the time to begin. If a member gets it too late, the trial starts anew with more time. That all
//! frames have left, and have arrived or are waited for no more, is known to the leader alone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::course::Course;
use super::offer::{Job, Order};
use super::{Delays, Detail, Plan, Ran, Station, go_on};
use crate::account::Counts;
use crate::management::Answers;
use crate::trial::Invalid;

/// From when all are ready until sending begins, at first and at most.
const LEAD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// How often members are asked how they are, at least and at most.
const ASK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

/// Who has some of a station's ports.
pub trait Member: Send {
    /// Learns what is sent where, by all.
    ///
    /// # Errors
    /// It cannot be sent, or the member is lost.
    fn plan(&mut self, plan: &Plan) -> Result<(), Invalid>;

    /// Gets ready for a trial, and receives from now on. Returns what its clock shows, in nanoseconds.
    ///
    /// # Errors
    /// A link is down, the order cannot be, or the member is lost.
    fn prepare(&mut self, order: &Order) -> Result<u64, Invalid>;

    /// Learns when sending begins, by its clock. Whether that is still to come; if not, it does not begin.
    ///
    /// # Errors
    /// The member is lost.
    fn go(&mut self, start_ns: u64) -> Result<bool, Invalid>;

    /// How far it is. What arrived is counted only if asked for, and the answer is the count of when it was asked for before.
    ///
    /// # Errors
    /// The trial is worth nothing, or the member is lost.
    fn progress(&mut self, count: bool) -> Result<Progress, Invalid>;

    /// Ends the trial.
    ///
    /// # Errors
    /// As [`Member::progress`].
    fn finish(&mut self) -> Result<Tally, Invalid>;

    /// Ends the trial, if there is one, for nothing.
    fn abandon(&mut self);

    /// The same; returns what was seen of it, if it had started and that is known.
    fn cut(&mut self) -> Option<Tally>;
}

/// How far a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// There are frames still to be sent.
    pub is_sending: bool,
    /// Frames sent; while there are others to be sent, when that was last counted.
    pub sent: u64,
    /// Frames received, when that was last counted.
    pub received: u64,
    /// The longest that a frame or a copy of one took until then, in nanoseconds; 0 where clocks differ.
    pub slowest_ns: u64,
}

impl Progress {
    /// Adds how far another one is.
    fn add(&mut self, other: &Progress) {
        self.is_sending |= other.is_sending;
        self.sent += other.sent;
        self.received += other.received;
        self.slowest_ns = self.slowest_ns.max(other.slowest_ns);
    }
}

/// What the ports of one member, or of all together, saw of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Frames sent, by port.
    pub(super) sent: Vec<u64>,
    pub(super) counts: Counts,
    /// By flow.
    pub(super) flows: Vec<Counts>,
    pub(super) damaged: u64,
    pub(super) old: u64,
    pub(super) foreign: u64,
    pub(super) answers: Answers,
    pub(super) missed: u64,
    pub(super) beside_unsent: u64,
    #[serde(with = "recorded")]
    pub(super) latency: Histogram<u64>,
    #[serde(with = "recorded")]
    pub(super) response: Histogram<u64>,
    #[serde(with = "recorded")]
    pub(super) lateness: Histogram<u64>,
    /// Addresses of the device's own.
    pub(super) askers: BTreeSet<IpAddr>,
    /// By port: frames of any kind, and neighbours that the device asked for.
    pub(super) heard: Vec<(u64, BTreeSet<IpAddr>)>,
    /// For how long frames were sent.
    pub(super) sending: Duration,
    pub(super) course: Option<Course>,
    pub(super) delays: Option<Delays>,
}

impl Tally {
    /// Adds what other ports saw of the same trial.
    fn add(&mut self, other: Tally) {
        self.sent.iter_mut().zip(other.sent).for_each(|(sum, sent)| *sum += sent);
        self.counts.add(&other.counts);
        self.flows.iter_mut().zip(&other.flows).for_each(|(flow, other)| flow.add(other));
        self.damaged += other.damaged;
        self.old += other.old;
        self.foreign += other.foreign;
        self.answers.add(&other.answers);
        self.missed += other.missed;
        self.beside_unsent += other.beside_unsent;
        for (sum, histogram) in [
            (&mut self.latency, other.latency),
            (&mut self.response, other.response),
            (&mut self.lateness, other.lateness),
        ] {
            // Of one range and precision, they can be added.
            let _ = sum.add(histogram);
        }
        self.askers.extend(other.askers);
        for ((frames, wanted), (more, others)) in self.heard.iter_mut().zip(other.heard) {
            *frames += more;
            wanted.extend(others);
        }
        self.sending = self.sending.max(other.sending);
        if let (Some(course), Some(other)) = (&mut self.course, other.course) {
            course.add(other);
        }
        if let (Some(delays), Some(other)) = (&mut self.delays, &other.delays) {
            delays.add(other);
        }
    }

    /// Without steps and single frames, which nobody asks for whose end is not known.
    pub(super) fn without_order(self) -> Tally {
        Tally { course: None, delays: None, ..self }
    }
}

/// Those who have a station's ports.
pub(super) struct Stations {
    members: Vec<Box<dyn Member>>,
    /// How far each was when it was last asked in this trial.
    told: Vec<Option<Progress>>,
    /// Who has which port.
    owners: Vec<usize>,
    /// All have one clock.
    is_timed: bool,
}

impl Station {
    /// Leads these from now on: each port of this station, all of which are elsewhere, is that member's whose number stands in
    /// `owners`. `is_timed`: all of them have one clock.
    ///
    /// # Errors
    /// A member cannot send what is planned, or is lost.
    ///
    /// # Panics
    /// A port has no owner.
    pub fn lead(
        &mut self,
        members: Vec<Box<dyn Member>>,
        owners: Vec<usize>,
        is_timed: bool,
    ) -> Result<(), Invalid> {
        assert!(owners.len() == self.senders.len() && owners.iter().all(|owner| *owner < members.len()));
        let told = vec![None; members.len()];
        let mut stations = Stations { members, told, owners, is_timed };
        stations.replan(&self.plan)?;
        self.stations = Some(stations);
        Ok(())
    }

    /// Whether the ports are this station's own, and not those of whom it leads.
    pub fn is_here(&self) -> bool {
        self.stations.is_none()
    }

    /// Whether travel times of frames can be measured: all ports are driven by one clock.
    pub fn is_timed(&self) -> bool {
        self.stations.as_ref().is_none_or(|stations| stations.is_timed)
    }
}

impl Stations {
    pub(super) fn replan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        self.members.iter_mut().try_for_each(|member| member.plan(plan))
    }

    /// Has a trial carried out. What was seen of one that comes to nothing once frames leave is put into `cut`.
    pub(super) fn carry_out(
        &mut self,
        station: &mut Station,
        mut job: Job<'_>,
        cut: &mut Option<Detail>,
    ) -> Result<Ran, Invalid> {
        job.order.own = station.own_addresses();
        job.order.is_timed = self.is_timed;
        self.can_tell(&job.order, &station.plan)?;
        let mut lead = LEAD.0;
        let result = loop {
            match self.attempt(station, &mut job, lead) {
                Ok(None) if lead < LEAD.1 => lead *= 2,
                Ok(Some(tally)) => break Ok(tally),
                Ok(None) => {
                    let what = format!("no time to begin was known to all within {} s", lead.as_secs());
                    break Err(Invalid::new(what, "see what else keeps the machines busy"));
                }
                Err(why) => break Err(why),
            }
            self.abandon();
            // What left nevertheless is not the next attempt's.
            job.order.key = job.order.key.wrapping_add(1);
        };
        if result.is_err() {
            *cut = self.cut(station, &job.order);
            self.abandon();
        }
        let tally = result?;
        for (receiver, (heard, wanted)) in station.receivers.iter_mut().zip(&tally.heard) {
            receiver.heard = *heard;
            receiver.wanted.extend(wanted);
        }
        station.sum_up(&job.order, tally)
    }

    fn abandon(&mut self) {
        self.members.iter_mut().for_each(|member| member.abandon());
    }

    /// Ends a trial before its time. Returns what was seen of it, if it had started: of a member that is lost, its last report.
    fn cut(&mut self, station: &mut Station, order: &Order) -> Option<Detail> {
        let told = std::mem::replace(&mut self.told, vec![None; self.members.len()]);
        if told.iter().all(Option::is_none) {
            return None;
        }
        let turn = station.prepare(order, 0).ok()?;
        let mut tally = station.tally(turn, 0).without_order();
        let mut last = Progress::default();
        for number in self.turns(station) {
            match (self.members[number].cut(), told[number]) {
                (Some(seen), _) => tally.add(seen),
                (None, Some(one)) => last.add(&one),
                (None, None) => {}
            }
        }
        let mut detail = station.sum_up(order, tally).ok()?.detail;
        detail.outcome.received += last.received;
        // What arrived was sent.
        detail.outcome.sent += station.copies * last.sent;
        detail.outcome.sent = detail.outcome.sent.max(detail.outcome.received);
        detail.at_least = true;
        Some(detail)
    }

    /// The members, with those that send first.
    fn turns(&self, station: &Station) -> Vec<usize> {
        let sends = |member: usize| {
            let ports = station.senders.iter().zip(&self.owners);
            ports.into_iter().any(|(sender, owner)| *owner == member && !sender.active.is_empty())
        };
        let mut turns: Vec<usize> = (0..self.members.len()).collect();
        turns.sort_by_key(|member| !sends(*member));
        turns
    }

    /// Whether members can tell, each by itself, what is wanted.
    fn can_tell(&self, order: &Order, plan: &Plan) -> Result<(), Invalid> {
        let owner = |port: &Option<usize>| port.and_then(|port| self.owners.get(port));
        for stream in &plan.streams {
            let mut owners = stream.flows.iter().map(|(_, to)| owner(to));
            let Some(first) = owners.next() else { continue };
            let apart = plan.everywhere || owners.any(|owner| owner != first);
            if order.bin.is_some() && self.members.len() > 1 && (first.is_none() || apart) {
                return Err(Invalid::new(
                    "frames of one port arrive at several machines, so when they were lost cannot be told",
                    "send from each port to one machine only",
                ));
            }
        }
        if order.sampling.is_some() && !self.is_timed {
            return Err(Invalid::new(
                "generator and sink have clocks of their own: how long single frames take cannot be measured",
                "have one machine generate and receive",
            ));
        }
        Ok(())
    }

    /// Nothing if somebody heard too late when to begin.
    fn attempt(
        &mut self,
        station: &mut Station,
        job: &mut Job<'_>,
        lead: Duration,
    ) -> Result<Option<Tally>, Invalid> {
        let order = &job.order;
        let whole = Duration::from_nanos(order.offer.schedule(station.plan.burst, 0)?.end_ns());
        let mut clocks = self.prepare(order)?;
        let begun = Instant::now() + lead;
        if self.is_timed {
            let latest = clocks.iter().copied().max().unwrap_or(0);
            clocks.fill(latest);
        }
        self.told.fill(None);
        // Those that only receive first: all know when frames may come before the first is sent.
        for member in self.turns(station).into_iter().rev() {
            if !self.members[member].go(clocks[member] + lead.as_nanos() as u64)? {
                return Ok(None);
            }
        }
        self.await_begin(begun)?;
        station.gauge.begin()?;
        let event = self.await_sent(station, job, begun, whole)?;
        station.gauge.end();
        self.await_stragglers(station, job)?;
        station.gauge.done()?;
        let mut tally: Option<Tally> = None;
        for member in &mut self.members {
            let one = member.finish()?;
            match &mut tally {
                Some(sum) => sum.add(one),
                None => tally = Some(one),
            }
        }
        if let Some(tally) = &mut tally
            && let (Some(course), Some(event)) = (&mut tally.course, event)
        {
            course.event(event.as_nanos() as u64);
        }
        Ok(tally)
    }

    /// Has all get ready at the same time: that may take seconds, in which those that are ready wait.
    fn prepare(&mut self, order: &Order) -> Result<Vec<u64>, Invalid> {
        std::thread::scope(|scope| {
            let prepare = |member| scope.spawn(|| Member::prepare(member, order));
            let started: Vec<_> = self.members.iter_mut().map(|member| prepare(&mut **member)).collect();
            let gone = |_| Err(Invalid::new("the thread that talks to a member panicked", ""));
            let all = started.into_iter().map(|thread| thread.join().unwrap_or_else(gone));
            // Each is waited for, so that there is none whose answer is still to come.
            all.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Waits until sending begins, and asks meanwhile, so that no member takes the leader for lost.
    fn await_begin(&mut self, begun: Instant) -> Result<(), Invalid> {
        loop {
            let wait = begun.saturating_duration_since(Instant::now());
            std::thread::sleep(wait.min(ASK.1));
            if wait <= ASK.1 {
                return Ok(());
            }
            // Nothing has left, so there is nothing yet to tell.
            for member in &mut self.members {
                member.progress(false)?;
            }
        }
    }

    fn progress(&mut self, count: bool) -> Result<Progress, Invalid> {
        let mut all = Progress::default();
        for (member, told) in self.members.iter_mut().zip(&mut self.told) {
            // From now on there is something to tell, even of one that is lost at once.
            told.get_or_insert_default();
            let one = member.progress(count)?;
            *told = Some(one);
            all.add(&one);
        }
        Ok(all)
    }

    /// Waits until all has been sent that is to be sent from `begun` on in the time `whole`. Returns when the job's event was, if it
    /// has one.
    fn await_sent(
        &mut self,
        station: &mut Station,
        job: &mut Job<'_>,
        begun: Instant,
        whole: Duration,
    ) -> Result<Option<Duration>, Invalid> {
        let mut event = None;
        while self.progress(false)?.is_sending {
            station.look()?;
            let next = job.event.as_ref().map_or(whole, |(after, _)| *after);
            let wait = (begun + next).saturating_duration_since(Instant::now());
            if wait.is_zero()
                && let Some((_, begin)) = job.event.take()
            {
                event = Some(begun.elapsed());
                begin();
                continue;
            }
            std::thread::sleep(wait.clamp(ASK.0, ASK.1));
        }
        Ok(event)
    }

    /// Waits for what still comes.
    fn await_stragglers(&mut self, station: &Station, job: &Job<'_>) -> Result<(), Invalid> {
        let whole = job.stragglers.unwrap_or(station.stragglers);
        let last = Instant::now() + whole;
        let (mut stop, mut seen) = (last, 0);
        let mut complete = None;
        let mut wait = ASK.0;
        loop {
            let told = self.progress(true)?;
            // Buffers empty only after the last that came of a burst (RFC 9004 6.2).
            if job.is_patient && std::mem::replace(&mut seen, told.received) < told.received {
                stop = Instant::now() + whole;
            }
            if complete.is_none() && !job.is_patient && told.received >= told.sent * station.copies {
                complete = Some(Instant::now());
            }
            if let Some(since) = complete {
                stop = last.min(since + Duration::from_nanos(job.duplicates_ns + told.slowest_ns));
            }
            let left = stop.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            go_on(&station.given_up)?;
            std::thread::sleep(left.min(wait));
            wait = (wait * 5 / 4).min(ASK.1 / 10);
        }
    }
}

/// A histogram as data: values and how often they were recorded.
mod recorded {
    use hdrhistogram::Histogram;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        histogram: &Histogram<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let values = histogram.iter_recorded();
        serializer.collect_seq(values.map(|value| (value.value_iterated_to(), value.count_at_value())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Histogram<u64>, D::Error> {
        let mut histogram = super::super::times::Times::empty();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            histogram.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}
