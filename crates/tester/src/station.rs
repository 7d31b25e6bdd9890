// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test station: ports that send flows at a rate and check what arrives, on one thread.
//!
//! A turn of its loop sends what is due at each port and receives what has arrived at each. The clock is read once for each batch, so
//! a departure or an arrival is exact to a batch: at rates where frames leave one by one, that is exact.
//!
//! What a port's queue does not take is made anew with a new departure when there is room again, for a frame that waited in the
//! tester would look late by the device. How late frames left, against the schedule, is a histogram of its own.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use packet::port::{Device, Error, Link, RxQueue, TxQueue};
use packet::{Batch, HEADROOM, Packet};

use crate::account::{ANYWHERE, Accounts, Counts};
use crate::frame::{self, Flow, Received, Template};
use crate::hosts;
use crate::pace::Pace;
use crate::signature::{Key, Signature, since};
use crate::trial::{Invalid, Measurer, Outcome, Trial};

/// Frames sent or received at a time.
const BURST: usize = 32;
/// Latencies above are counted as this: 100 s.
const LONGEST_NS: u64 = 100_000_000_000;
/// How long duplicates are waited for when all frames have arrived.
const DUPLICATES_NS: u64 = 5_000_000;
/// Bits for the windows of all flows together: what fits the second-level cache.
const WINDOWS: u32 = 1 << 20;

/// A port of the device, as the tester has it: its other end.
pub struct Port {
    name: String,
    device: std::sync::Arc<dyn Device>,
    tx: Box<dyn TxQueue>,
    rx: Box<dyn RxQueue>,
}

impl Port {
    /// Takes the first queue pair of a device.
    ///
    /// # Errors
    /// They are taken already, or cannot be opened.
    pub fn new(name: &str, device: std::sync::Arc<dyn Device>) -> Result<Port, Error> {
        Ok(Port { name: name.to_owned(), tx: device.tx(0)?, rx: device.rx(0)?, device })
    }
}

/// What one port sends.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Its flows, in turn, and the port at which each ought to arrive, if that is known.
    pub flows: Vec<(Flow, Option<usize>)>,
    /// The size of its frames in bytes, with FCS.
    pub size: usize,
}

/// What is sent, and for how long stragglers are waited for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By port.
    pub streams: Vec<Stream>,
    /// How long after the last frame others may still arrive (RFC 2544, section 23: 2 s). A trial whose frames have all
    /// arrived is over soon after.
    pub stragglers: Duration,
}

/// All that a trial showed.
#[derive(Clone, Debug)]
pub struct Detail {
    /// What procedures go by.
    pub outcome: Outcome,
    /// What became of the frames.
    pub counts: Counts,
    /// Frames that arrived damaged, or from a trial before.
    pub damaged: u64,
    /// Frames that are not the tester's.
    pub foreign: u64,
    /// From a frame's departure to its arrival, in nanoseconds.
    pub latency: Histogram<u64>,
    /// From when a frame was due to its arrival: what a user would see who sends on time (corrected for coordinated omission).
    pub response: Histogram<u64>,
    /// How late frames left the tester, in nanoseconds: its own pacing error.
    pub lateness: Histogram<u64>,
}

/// One port's sending side.
struct Sender {
    tx: Box<dyn TxQueue>,
    templates: Vec<Template>,
    /// Which of them are sent, in turn.
    active: Vec<u32>,
    /// The number of its first flow among all.
    first_flow: u32,
    pace: Option<Pace>,
    next: u64,
    batch: Batch,
}

struct Receiver {
    rx: Box<dyn RxQueue>,
    batch: Batch,
    answers: Batch,
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
    stragglers: Duration,
    clock: Instant,
    trials: u64,
    seed: u64,
}

impl Station {
    /// A station with these ports. `seed` makes the keys of its trials.
    ///
    /// # Errors
    /// A flow has addresses of two families, or the size has no room for its frames, or there is none.
    pub fn new(ports: Vec<Port>, plan: &Plan, seed: u64) -> Result<Station, Invalid> {
        let (mut names, mut devices) = (Vec::new(), Vec::new());
        let (mut senders, mut receivers, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let flows = plan.streams.iter().flat_map(|s| &s.flows);
        let dst_ports = flows.clone().map(|(flow, _)| flow.dst_port);
        let (Some(least), Some(greatest)) = (dst_ports.clone().min(), dst_ports.max()) else {
            return Err(Invalid::new("no port has a flow to send", "say what is sent where"));
        };
        for (index, port) in ports.into_iter().enumerate() {
            let stream = plan.streams.get(index).cloned().unwrap_or_default();
            let mtu = port.device.info().mtu + wire::ethernet::HEADER_LEN + frame::FCS;
            if !stream.flows.is_empty() && stream.size > mtu {
                return Err(Invalid::new(
                    format!(
                        "{}: frames of {} bytes do not pass: its longest is {mtu}",
                        port.name, stream.size
                    ),
                    "choose a smaller size, or a larger MTU",
                ));
            }
            let first_flow = expected.len() as u32;
            let mut templates = Vec::new();
            for (flow, to) in &stream.flows {
                let template = Template::new(flow, stream.size).ok_or_else(|| {
                    Invalid::new(
                        format!("no frame of {} bytes from {} to {}", stream.size, flow.src, flow.dst),
                        format!(
                            "{} bytes is the least, with both addresses of one family",
                            frame::smallest(flow.src)
                        ),
                    )
                })?;
                templates.push(template);
                expected.push(to.map_or(ANYWHERE, |port| port as u16));
            }
            senders.push(Sender {
                active: (0..templates.len() as u32).collect(),
                tx: port.tx,
                templates,
                first_flow,
                pace: None,
                next: 0,
                batch: Batch::new(),
            });
            receivers.push(Receiver { rx: port.rx, batch: Batch::new(), answers: Batch::new() });
            names.push(port.name);
            devices.push(port.device);
        }
        Ok(Station {
            names,
            devices,
            senders,
            receivers,
            expected,
            destinations: flows.map(|(flow, _)| flow.dst).collect(),
            own: BTreeSet::new(),
            ports: least..=greatest,
            stragglers: plan.stragglers,
            clock: Instant::now(),
            trials: 0,
            seed,
        })
    }

    /// Sends a little of every flow until no more is lost than the time before, so that the device knows all neighbours. Flows to
    /// addresses that turn out to be its own are left out from then on: it does not forward these ([`Station::left_out`]).
    ///
    /// # Errors
    /// Nothing at all arrives within `patience`. Flows that alone never do are lost in the trials too, where it is counted.
    pub fn warm_up(&mut self, patience: Duration) -> Result<(), Invalid> {
        let (begun, mut before) = (Instant::now(), u64::MAX);
        let flows = self.senders.iter().map(|s| s.templates.len()).max().unwrap_or(1) as f64;
        loop {
            // Each flow ten times in a tenth of a second.
            let detail = self.run(Trial::new(flows * 100.0, Duration::from_millis(100)))?;
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
        Invalid::new(format!("the device returned none of {} frames", outcome.sent), mend)
    }

    /// Carries out a trial.
    ///
    /// # Errors
    /// The rate is no positive number, a link is down, or a queue fails.
    pub fn run(&mut self, trial: Trial) -> Result<Detail, Invalid> {
        self.links()?;
        self.trials += 1;
        let key = Key::new(self.seed.wrapping_add(self.trials.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let window = (WINDOWS / self.expected.len().max(1) as u32).clamp(64, 1 << 17);
        let mut turn = Turn {
            key,
            ports: self.ports.clone(),
            accounts: Accounts::new(self.expected.iter().copied(), window),
            damaged: 0,
            foreign: 0,
            askers: BTreeSet::new(),
            latency: histogram(),
            response: histogram(),
            lateness: histogram(),
            paces: Vec::new(),
        };
        // What the trial before left in the queues is none of this one's; neighbours may ask meanwhile.
        self.drain();
        let start = self.now() + 20_000;
        for sender in self.senders.iter_mut() {
            sender.next = 0;
            sender.pace = None;
            if !sender.active.is_empty() {
                let pace = Pace::new(trial.rate, trial.duration, start).ok_or_else(|| {
                    Invalid::new(format!("a rate of {} frames a second cannot be", trial.rate), "")
                })?;
                sender.pace = Some(pace);
            }
            let (all, active) = (sender.templates.len(), sender.active.len() as u64);
            turn.paces.resize(turn.paces.len() + all, (None, 0, 0));
            for (place, flow) in (0..).zip(&sender.active) {
                turn.paces[(sender.first_flow + flow) as usize] = (sender.pace, place, active);
            }
        }
        let intended: u64 = self.senders.iter().filter_map(|s| s.pace).map(|p| p.frames()).sum();
        // A frame that is due at the very end may leave a little later.
        let grace = (trial.duration / 100).min(Duration::from_millis(10));
        let end = start + (trial.duration + grace).as_nanos() as u64;
        let begun = start;
        let mut now = self.now();
        while now < end && !self.senders.iter().all(Sender::done) {
            self.turn(&mut turn, true);
            now = self.now();
        }
        let sent: u64 = self.senders.iter().map(|s| s.next).sum();
        let mut stop = now + self.stragglers.as_nanos() as u64;
        let mut complete = false;
        while self.now() < stop {
            // Summing up the accounts takes a while where there are many flows.
            for _ in 0..64 {
                self.turn(&mut turn, false);
            }
            if !complete && turn.accounts.all().received >= sent {
                complete = true;
                stop = stop.min(self.now() + DUPLICATES_NS);
            }
        }
        self.links()?;
        self.own.append(&mut turn.askers);
        let counts = turn.accounts.all();
        let duration = Duration::from_nanos(now.saturating_sub(begun)).max(Duration::from_nanos(1));
        let outcome = Outcome { intended, sent, received: counts.received, duration };
        Ok(Detail {
            outcome,
            counts,
            damaged: turn.damaged,
            foreign: turn.foreign,
            latency: turn.latency,
            response: turn.response,
            lateness: turn.lateness,
        })
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
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
        let clock = self.clock;
        let now = || clock.elapsed().as_nanos() as u64;
        for (index, (sender, receiver)) in self.senders.iter_mut().zip(&mut self.receivers).enumerate() {
            if send {
                sender.send(&turn.key, &mut turn.lateness, now);
            }
            receiver.receive(turn, index as u16, now);
            if !receiver.answers.is_empty() {
                sender.tx.transmit(&mut receiver.answers);
                receiver.answers.free_all();
            }
            sender.tx.flush();
        }
    }

    /// Receives and forgets what still arrives.
    fn drain(&mut self) {
        for (sender, receiver) in self.senders.iter_mut().zip(&mut self.receivers) {
            for _ in 0..1024 {
                if receiver.rx.receive(&mut receiver.batch, BURST) == 0 {
                    break;
                }
                let mut answers: Batch =
                    receiver.batch.iter().filter_map(|p| hosts::answer(p.data())).collect();
                self.own.extend(receiver.batch.iter().filter_map(|p| hosts::asker(p.data())));
                receiver.batch.free_all();
                sender.tx.transmit(&mut answers);
                answers.free_all();
            }
        }
    }
}

impl Measurer for Station {
    fn measure(&mut self, trial: Trial) -> Result<Outcome, Invalid> {
        self.run(trial).map(|detail| detail.outcome)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!("these bounds are valid"))
}

/// What a trial gathers.
struct Turn {
    key: Key,
    ports: RangeInclusive<u16>,
    accounts: Accounts,
    damaged: u64,
    foreign: u64,
    askers: BTreeSet<IpAddr>,
    latency: Histogram<u64>,
    response: Histogram<u64>,
    lateness: Histogram<u64>,
    /// By flow: its port's schedule, its place among the port's flows, and how many these are.
    paces: Vec<(Option<Pace>, u64, u64)>,
}

impl Sender {
    fn done(&self) -> bool {
        self.pace.is_none_or(|pace| self.next >= pace.frames())
    }

    /// Sends what is due, a burst at most.
    fn send(&mut self, key: &Key, lateness: &mut Histogram<u64>, now: impl Fn() -> u64) {
        let Some(pace) = self.pace else { return };
        let departure_ns = now();
        let due = pace.due_until(departure_ns).saturating_sub(self.next).min(BURST as u64) as usize;
        if due == 0 {
            return;
        }
        let flows = self.active.len() as u64;
        let (mut flow, mut sequence) = (self.next % flows, self.next / flows);
        let len = self.templates[0].len();
        let Sender { templates, active, batch, first_flow, .. } = self;
        Packet::alloc_bulk(due, HEADROOM, len, |mut packet| {
            let number = active[flow as usize];
            let signature = Signature { flow: *first_flow + number, sequence: sequence as u32, departure_ns };
            templates[number as usize].write(key, signature, packet.data_mut());
            batch.push(packet);
            flow += 1;
            if flow == flows {
                (flow, sequence) = (0, sequence + 1);
            }
        });
        let sent = self.tx.transmit(&mut self.batch) as u64;
        // What has no room yet is made anew when there is.
        self.batch.free_all();
        for number in self.next..self.next + sent {
            lateness.saturating_record(pace.lateness(number, departure_ns));
        }
        self.next += sent;
    }
}

impl Receiver {
    fn receive(&mut self, turn: &mut Turn, port: u16, now: impl Fn() -> u64) {
        if self.rx.receive(&mut self.batch, BURST) == 0 {
            return;
        }
        let now = now();
        for packet in self.batch.iter() {
            match frame::read(packet.data(), &turn.key, &turn.ports) {
                Received::Test(signature) => {
                    turn.accounts.arrived(signature.flow, signature.sequence, port);
                    turn.latency.saturating_record(since(signature.departure_ns, now));
                    if let Some((Some(pace), place, flows)) = turn.paces.get(signature.flow as usize) {
                        let due = pace.due_ns(u64::from(signature.sequence) * flows + place);
                        turn.response.saturating_record(now.saturating_sub(due));
                    }
                }
                Received::Damaged => turn.damaged += 1,
                Received::Foreign => {
                    turn.foreign += 1;
                    turn.askers.extend(hosts::asker(packet.data()));
                    self.answers.extend(hosts::answer(packet.data()));
                }
            }
        }
        self.batch.free_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use packet::port::{Info, QueueStats};
    use wire::MacAddr;

    use super::*;

    /// What happens to the frame of this number: what comes out instead of it.
    type Fate = fn(u64, Packet, &mut VecDeque<Packet>) -> Vec<Packet>;

    /// A device of two ports, in the tester's own thread: what goes into one comes out of the other, but for its fate.
    struct Faulty {
        fate: Fate,
        /// How many frames came in; which it holds back; what waits at each port.
        state: Mutex<(u64, VecDeque<Packet>, [VecDeque<Packet>; 2])>,
        link: Link,
    }

    struct End(Arc<Faulty>, usize);

    impl Device for End {
        fn info(&self) -> Info {
            let (name, driver) = (format!("port{}", self.1), "test".to_owned());
            Info { name, driver, mac: None, mtu: 1500, rx_queues: 1, tx_queues: 1 }
        }

        fn rx(&self, _: usize) -> Result<Box<dyn RxQueue>, Error> {
            Ok(Box::new(End(self.0.clone(), self.1)))
        }

        fn tx(&self, _: usize) -> Result<Box<dyn TxQueue>, Error> {
            Ok(Box::new(End(self.0.clone(), self.1)))
        }

        fn link(&self) -> Link {
            self.0.link
        }
    }

    impl RxQueue for End {
        fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
            let waiting = &mut self.0.state.lock().expect("not poisoned").2[self.1];
            let n = waiting.len().min(max);
            batch.extend(waiting.drain(..n));
            n
        }

        fn stats(&self) -> QueueStats {
            QueueStats::default()
        }
    }

    impl TxQueue for End {
        fn transmit(&mut self, batch: &mut Batch) -> usize {
            let (number, held, waiting) = &mut *self.0.state.lock().expect("not poisoned");
            let n = batch.len();
            for packet in batch.split_front(n).iter_mut() {
                let packet = packet.share().expect("memory");
                waiting[1 - self.1].extend((self.0.fate)(*number, packet, held));
                *number += 1;
            }
            n
        }

        fn stats(&self) -> QueueStats {
            QueueStats::default()
        }
    }

    fn flow(i: u8) -> Flow {
        Flow {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            src: [10, 0, 0, i + 2].into(),
            dst: [10, 0, 1, i + 2].into(),
            src_port: 4000,
            dst_port: 7,
        }
    }

    /// A station on a device of this fate, which sends four flows into port 0.
    fn station(fate: Fate, link: Link, to: usize) -> Station {
        let faulty = Arc::new(Faulty { fate, state: Mutex::default(), link });
        let port = |i| Port::new(&format!("port{i}"), Arc::new(End(faulty.clone(), i))).expect("a port");
        let stream = Stream { flows: (0..4).map(|i| (flow(i), Some(to))).collect(), size: 64 };
        let plan = Plan { streams: vec![stream], stragglers: Duration::from_millis(1) };
        Station::new(vec![port(0), port(1)], &plan, 1).expect("a station")
    }

    /// What 4000 frames met with.
    fn met(fate: Fate) -> Detail {
        // On a busy machine some may not leave within the time.
        let run = || {
            let trial = Trial::new(40_000.0, Duration::from_millis(100));
            station(fate, Link::Up, 1).run(trial).expect("a trial")
        };
        (0..100)
            .map(|_| run())
            .find(|d| d.outcome.tester_kept_up())
            .expect("a trial whose frames were all sent")
    }

    #[test]
    fn a_cable_does_nothing() {
        let detail = met(|_, packet, _| vec![packet]);
        assert_eq!(detail.counts, Counts { received: 4000, ..Counts::default() });
        let Outcome { intended, sent, received, .. } = detail.outcome;
        assert_eq!([intended, sent, received], [4000; 3]);
        assert_eq!([detail.latency.len(), detail.response.len(), detail.lateness.len()], [4000; 3]);
    }

    #[test]
    fn what_a_device_does_is_told_exactly() {
        let lossy = met(|i, packet, _| if i % 100 == 7 { Vec::new() } else { vec![packet] });
        assert_eq!((lossy.counts.received, lossy.outcome.lost()), (3960, 40));

        let doubling = met(|i, mut packet, _| {
            let copy = if i % 1000 == 0 { packet.share() } else { None };
            [Some(packet), copy].into_iter().flatten().collect()
        });
        assert_eq!(
            (doubling.counts.received, doubling.counts.duplicates, doubling.outcome.lost()),
            (4000, 4, 0)
        );

        // One in a thousand comes out behind the eight after it: of its flow, behind two.
        let swapping = met(|i, packet, held| {
            if i % 1000 == 500 {
                held.push_back(packet);
                return Vec::new();
            }
            let back = if i % 1000 == 508 { held.pop_front() } else { None };
            [Some(packet), back].into_iter().flatten().collect()
        });
        assert_eq!((swapping.counts.received, swapping.counts.reordered), (4000, 4));

        let damaging = met(|i, packet, _| {
            let mut packet = packet.duplicate().expect("memory");
            if i % 500 == 3 {
                packet.data_mut()[50] ^= 1;
            }
            vec![packet]
        });
        assert_eq!((damaging.damaged, damaging.outcome.lost()), (8, 8));
    }

    #[test]
    fn wrong_ports_and_silence_have_reasons() {
        let cable: Fate = |_, packet, _| vec![packet];
        let mut wrong = station(cable, Link::Up, 0);
        let said = wrong.warm_up(Duration::ZERO).expect_err("frames at the wrong port").to_string();
        assert!(said.contains("come out of other ports"), "{said}");
        let mut silent = station(|_, _, _| Vec::new(), Link::Up, 1);
        let said = silent.warm_up(Duration::ZERO).expect_err("no frames").to_string();
        assert!(said.contains("nothing at all comes from it"), "{said}");
        let mut down = station(cable, Link::Down, 1);
        let said = down.measure(Trial::new(1e3, Duration::from_millis(1))).expect_err("no link").to_string();
        assert!(said.contains("port0: the link is down"), "{said}");
        let mut good = station(cable, Link::Up, 1);
        assert!(good.warm_up(Duration::from_secs(60)).is_ok());
        assert!(good.measure(Trial::new(0.0, Duration::from_millis(1))).is_err());
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let faulty = Arc::new(Faulty { fate: |_, p, _| vec![p], state: Mutex::default(), link: Link::Up });
        for (size, what) in [(63, "64 bytes is the least"), (1519, "its longest is 1518")] {
            let port = Port::new("port0", Arc::new(End(faulty.clone(), 0))).expect("a port");
            let streams = vec![Stream { flows: vec![(flow(0), None)], size }];
            let plan = Plan { streams, stragglers: Duration::ZERO };
            let said = Station::new(vec![port], &plan, 1).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.contains(what), "{said}");
        }
        assert!(
            Station::new(Vec::new(), &Plan { streams: Vec::new(), stragglers: Duration::ZERO }, 1).is_err()
        );
    }
}
