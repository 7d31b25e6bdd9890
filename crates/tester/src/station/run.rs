// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run from its first frame to its last straggler, and what it came to.

use std::collections::BTreeSet;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::course::Course;
use super::line::{Pending, Sender, Slot, Turn};
use super::offer::{Job, Offer, Order};
use super::sample::Delays;
use super::source::LEAD_NS;
use super::stations::Tally;
use super::times::{Times, later_than};
use super::{Detail, Ran, Station, Verdict, Verdicts, go_on, verdict};
use crate::account::{ANYWHERE, Accounts, Counts};
use crate::management::Answers;
use crate::signature::SignatureKey;
use crate::trial::{Invalid, Outcome};

/// How long duplicates are waited for when all frames have arrived, on top of the longest that any frame was seen to take; and where there
/// is but one trial, which ought to tell all.
pub(super) const DUPLICATES_NS: u64 = 5_000_000;
pub(super) const ALL_DUPLICATES_NS: u64 = 250_000_000;
/// How long answers to questions of management are waited for then.
const ANSWERS_NS: u64 = 100_000_000;
/// How much later than due the last frames may leave, at least and at most.
const GRACE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(10));
/// So many frames that are due at once may be more than a port has room for; and how late the first is then at least, for no tester is on
/// time to the microsecond.
const LUMP: (u64, Duration) = (256, Duration::from_micros(160));
/// So many frames one behind the other are no lump.
const CLOSE: (u64, Duration) = (32, Duration::from_micros(20));
/// How often links and other needs of a run are checked while frames are sent.
pub(super) const LOOK_NS: u64 = 50_000_000;
/// How often neighbours are answered while the device settles.
const SETTLING: Duration = Duration::from_millis(10);
/// Bits for the windows of all flows together: what fits the second-level cache.
const WINDOWS: u32 = 1 << 20;

/// Frames of lumps, if there was one of more than [`LUMP`] frames: those before which more than [`CLOSE`] were due.
fn late(offer: &Offer, burst: u64, lateness: &Histogram<u64>) -> u64 {
    let after = |(frames, least): (u64, Duration)| {
        let frames = (frames + burst.saturating_sub(1)) as f64;
        Duration::try_from_secs_f64(frames / offer.trial().rate).unwrap_or(Duration::MAX).max(least)
    };
    if later_than(lateness, after(LUMP)) == 0 { 0 } else { later_than(lateness, after(CLOSE)) }
}

impl Station {
    pub(super) fn carry_out(&mut self, mut job: Job<'_>) -> Result<Ran, Invalid> {
        let trial = job.order.offer.trial();
        if !job.is_warm_up {
            self.let_settle();
            job.order.ahead = self.ahead;
            job.order.offer = job.order.offer.without_extras(&self.plan, self.ahead);
        }
        self.trials += 1;
        job.order.key = self.seed.wrapping_add(self.trials.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut cut = None;
        let result = self.look().and_then(|()| match self.stations.take() {
            None => self.carry_out_here(job, &mut cut),
            Some(mut stations) => {
                let result = stations.carry_out(self, job, &mut cut);
                self.stations = Some(stations);
                result
            }
        });
        self.settled_ns = self.clock.now() + self.settle.as_nanos() as u64;
        if let Some(show) = &mut self.watcher {
            let whole = go_on(&self.given_up);
            let seen = result.as_ref().map_or(cut.as_ref(), |ran| Some(&ran.detail));
            show(trial, seen, whole.as_ref().copied().and(result.as_ref().map(|_| ())));
        }
        result
    }

    /// Waits until the device has been left alone for long enough. Neighbours may ask meanwhile.
    fn let_settle(&mut self) {
        if self.settle.is_zero() {
            return;
        }
        loop {
            self.drain();
            let left = Duration::from_nanos(self.settled_ns.saturating_sub(self.clock.now()));
            if left.is_zero() || self.is_given_up() {
                return;
            }
            self.clock.sleep(left.min(SETTLING));
        }
    }

    /// Carries it out with this station's own ports. What they saw of one that comes to nothing once frames leave is put into `cut`.
    fn carry_out_here(&mut self, mut job: Job<'_>, cut: &mut Option<Detail>) -> Result<Ran, Invalid> {
        self.gauge.begin()?;
        let given_up = self.given_up.clone();
        self.update(job.order.ahead, || go_on(&given_up))?;
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
        let sent = self.send(&mut turn, &job.order, start, &mut begin);
        let until = sent.as_ref().copied().unwrap_or_else(|_| self.clock.now());
        let whole = sent.and_then(|now| self.end(&mut turn, &job, now));
        let tally = self.tally(turn, until.saturating_sub(start));
        match whole {
            Ok(()) => self.sum_up(&job.order, tally),
            Err(why) => {
                // Steps and single frames that nobody knows the end of are not asked for.
                let tally = Tally { course: None, delays: None, ..tally };
                *cut = self.sum_up(&job.order, tally).ok().map(|ran| ran.detail);
                Err(why)
            }
        }
    }

    /// Receives the last frames, which have left by `now`, and sees whether the run is worth something.
    fn end(&mut self, turn: &mut Turn, job: &Job<'_>, now: u64) -> Result<(), Invalid> {
        self.gauge.end();
        self.await_stragglers(turn, job, now);
        self.gauge.done()?;
        if job.may_be_cut { self.needs() } else { self.look() }
    }

    /// Sends what is to be there so long before the test's frames, and waits. Neighbours may ask meanwhile.
    pub(super) fn update(
        &mut self,
        ahead: Duration,
        mut may_go_on: impl FnMut() -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.senders.iter_mut().flat_map(|sender| &mut sender.extras).for_each(Pending::rewind);
        if !self.senders.iter().any(Sender::has_updates) {
            return Ok(());
        }
        let until = self.clock.now() + ahead.as_nanos() as u64;
        loop {
            let now = self.clock.now();
            let left = Duration::from_nanos(until.saturating_sub(now));
            if left.is_zero() {
                return Ok(());
            }
            may_go_on()?;
            self.senders.iter_mut().for_each(|sender| sender.send_updates(now));
            self.drain();
            self.clock.sleep(left.min(SETTLING));
        }
    }

    /// What the trial before left in the queues is none of the next one's; neighbours may ask meanwhile.
    pub(super) fn drain(&mut self) {
        for (sender, receiver) in self.senders.iter_mut().zip(&mut self.receivers) {
            receiver.drain(&mut *sender.tx, &mut self.own);
            receiver.heard = 0;
        }
    }

    /// Sends, and receives meanwhile, until all has left, it is too late for it, or it is given up. `meanwhile` is called after each turn. Returns when
    /// that was.
    pub(super) fn send(
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
        while now < end
            && !self.is_given_up()
            && !self.senders.iter().all(|sender| sender.is_done(&turn.schedule))
        {
            self.turn(turn, Some(now));
            meanwhile(turn, now)?;
            if now > look {
                turn.left = self.left();
                // A reset may well take a link down for a while.
                if !order.is_reset {
                    self.needs()?;
                }
                look = now + LOOK_NS;
            }
            // Next to the frames that leave then: looking takes its time, too.
            now = self.clock.now();
        }
        Ok(now)
    }

    /// Frames that have been sent.
    pub(super) fn left(&self) -> u64 {
        self.senders.iter().map(|sender| sender.next).sum()
    }

    /// All that a run gathers, still empty.
    pub(super) fn prepare(&mut self, order: &Order, start: u64) -> Result<Turn, Invalid> {
        let schedule = order.offer.schedule(self.plan.burst, start)?;
        let mut slots = Vec::new();
        for (port, sender) in self.senders.iter_mut().enumerate() {
            sender.next = 0;
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
            key: SignatureKey::new(order.key),
            ports: self.ports.clone(),
            accounts: Accounts::new(expected, window),
            accounts_per_flow: if self.copies == 1 { 1 } else { self.senders.len() as u32 },
            missed_before: self.missed(),
            damaged: 0,
            old: 0,
            foreign: 0,
            addressees: self.addressees.clone(),
            pairs: self.pairs.clone(),
            beside: self.beside(),
            answers: Answers::default(),
            askers: BTreeSet::new(),
            is_timed: order.is_timed,
            latency: Times::default(),
            response: Times::default(),
            lateness: Times::default(),
            slowest_copy_ns: 0,
            slots,
            course: order.bin.map(|bin| Course::new(&schedule, start, bin, self.senders.len())),
            delays: order.sampling.map(|sampling| Delays::new(sampling, intended)),
            left: 0,
            schedule,
        })
    }

    /// All that is sent in addition to the test's frames, by any port.
    fn beside(&self) -> Vec<Vec<u8>> {
        let extras = self.plan.streams.iter().flat_map(|stream| &stream.extras);
        extras.flat_map(|extra| extra.frames.iter().cloned()).collect()
    }

    /// Receives what still comes after the last frame has left at `now`.
    pub(super) fn await_stragglers(&mut self, turn: &mut Turn, job: &Job<'_>, now: u64) {
        let sent = self.left();
        let wait = job.stragglers.unwrap_or(self.stragglers).as_nanos() as u64;
        let last = now + wait;
        let (mut stop, mut seen) = (last, 0);
        // From when on only copies are waited for, and how long at least.
        let mut complete = None;
        let mut over = false;
        while !over {
            // Looked at first: a tester that had no turn for so long still takes what has come meanwhile.
            over = self.clock.now() >= stop || (self.is_given_up() && !job.may_be_cut);
            // Summing up the accounts takes a while where there are many flows.
            for _ in 0..64 {
                self.turn(turn, None);
            }
            if job.is_patient {
                // Buffers empty only after the last that came of a burst (RFC 9004 6.2).
                let received = turn.accounts.all().received;
                if std::mem::replace(&mut seen, received) < received {
                    stop = self.clock.now() + wait;
                }
            } else if complete.is_none() && turn.accounts.all().received >= sent * self.copies {
                let are_missing = turn.answers.right + turn.answers.wrong < self.asked();
                let wait = job.duplicates_ns.max(if are_missing { ANSWERS_NS } else { 0 });
                complete = Some((self.clock.now(), wait.max(job.duplicates_ns + turn.latency.greatest())));
            }
            if let Some((since, wait)) = complete {
                // A copy that came late says that others may come as late.
                stop = last.min(since + wait.max(job.duplicates_ns + turn.slowest_copy_ns));
            }
        }
    }

    /// What a run gathered at the ports that are here.
    pub(super) fn tally(&self, turn: Turn, sending_ns: u64) -> Tally {
        Tally {
            sent: self.senders.iter().map(|sender| sender.next).collect(),
            counts: turn.accounts.all(),
            flows: turn.accounts.each_of(turn.accounts_per_flow as usize),
            damaged: turn.damaged,
            old: turn.old,
            foreign: turn.foreign,
            answers: Answers { asked: self.asked(), ..turn.answers },
            missed: self.missed() - turn.missed_before,
            beside_unsent: self.senders.iter().map(|sender| sender.owed(&turn.schedule)).sum(),
            latency: turn.latency.histogram(),
            response: turn.response.histogram(),
            lateness: turn.lateness.histogram(),
            askers: turn.askers,
            heard: self.receivers.iter().map(|r| (r.heard, r.wanted.clone())).collect(),
            sending: Duration::from_nanos(sending_ns),
            course: turn.course.map(Course::rebased),
            delays: turn.delays,
        }
    }

    /// What a run came to, by what all ports gathered.
    pub(super) fn sum_up(&mut self, order: &Order, tally: Tally) -> Result<Ran, Invalid> {
        let schedule = order.offer.schedule(self.plan.burst, 0)?;
        let Tally { sent, counts, damaged, old, foreign, missed, beside_unsent, .. } = tally;
        let Tally { answers, latency, response, lateness, .. } = tally;
        let outcome = Outcome {
            intended: self.copies * self.senders.iter().map(|sender| sender.intended(&schedule)).sum::<u64>(),
            sent: (self.copies * sent.iter().sum::<u64>()).saturating_sub(missed).max(counts.received),
            received: counts.received,
            duration: tally.sending.max(Duration::from_nanos(1)),
            late: late(&order.offer, self.plan.burst, &lateness),
        };
        self.own.extend(tally.askers);
        let delays = tally.delays.map(|mut delays| {
            delays.cut(sent.iter().copied());
            delays
        });
        let verdicts = Verdicts::of(self.verdicts(&sent, &tally.flows));
        let ports = self.senders.iter().zip(&sent).map(|(sender, sent)| (sender.intended(&schedule), *sent));
        let ports: Vec<(u64, u64)> = ports.collect();
        let timeline = tally.course.map(|course| course.timeline(&schedule, &ports));
        let detail = Detail {
            outcome,
            counts,
            damaged,
            old,
            foreign,
            answers: answers.settled(),
            missed,
            beside_unsent,
            verdicts,
            latency,
            response,
            lateness,
            at_least: false,
        };
        Ok(Ran { detail, timeline, delays })
    }

    /// Each flow that was sent, where each port sent so many frames and these arrived.
    fn verdicts<'a>(&'a self, sent: &'a [u64], counts: &'a [Counts]) -> impl Iterator<Item = Verdict> + 'a {
        let ports = self.senders.iter().zip(sent).zip(&self.plan.streams);
        ports.flat_map(move |((sender, sent), stream)| {
            let flows = sender.active.len() as u64;
            (0..).zip(&sender.active).filter_map(move |(place, index)| {
                let counts = *counts.get((sender.first_flow + index) as usize)?;
                let sent = self.copies * verdict::share(*sent, place, flows);
                Some(Verdict { flow: stream.flows[*index as usize].0, sent, counts })
            })
        })
    }

    /// How many questions of management this run's ports have asked.
    fn asked(&self) -> u64 {
        let pending = self.senders.iter().flat_map(|sender| &sender.extras);
        pending.filter(|pending| pending.asks).map(|pending| pending.sent).sum()
    }

    /// Frames that the tester's ports had no room for, ever.
    fn missed(&self) -> u64 {
        self.receivers.iter().map(|receiver| receiver.rx.stats()).map(|s| s.missed + s.no_memory).sum()
    }

    /// Sends what is due, if it may: at this moment, which has just been. And receives.
    pub(super) fn turn(&mut self, turn: &mut Turn, send: Option<u64>) {
        let clock = &self.clock;
        let mut received = 0;
        for (index, (sender, receiver)) in self.senders.iter_mut().zip(&mut self.receivers).enumerate() {
            if let Some(now) = send {
                // What other ports have received takes its time.
                sender.send(turn, if index == 0 { now } else { clock.now() });
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
