// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station before a bridge: addresses are taught and asked for, and frames that ought not to pass are sent.

use std::time::Duration;

use packet::{Batch, Packet};

use super::line::BURST;
use super::times::later_than;
use super::{Detail, Job, Offer, Plan, Reset, Station, Stream};
use crate::frame::Flow;
use crate::hosts;
use crate::search::bridge::{Lesson, Teacher};
use crate::trial::Invalid;

/// Frames a second that look for what was learnt, and how much longer that may take: it is not the bridge's speed that is asked for.
const TEST_RATE: f64 = 20_000.0;
const TEST_GRACE: Duration = Duration::from_secs(10);
/// Frames that leave so much later are lumps of a hundred: more than some ports hold.
const TEST_LATE: Duration = Duration::from_millis(5);
/// How much later than due learning frames may leave, at least, so that the rate is still what was asked for.
const LEARNING_GRACE: Duration = Duration::from_micros(200);
/// A lesson in which the tester failed is repeated so often.
const ATTEMPTS: usize = 3;
/// How long a bridge may take to forward again when it was made to forget.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the host of a number behind one port says to that behind another. Their Ethernet addresses are made of a seed
/// ([`hosts::random_mac`]). Bridges look at these only; all else differs so that a device which looks further sees as many conversations.
pub fn flow(seed: u64, from: (usize, u32), to: (usize, u32)) -> Flow {
    let host = |(port, number): (usize, u32)| hosts::random_mac(seed, port, number);
    let ip = |(port, number): (usize, u32)| {
        let [_, a, b, c] = number.to_be_bytes();
        [10, (port as u8) << 4 | (a & 15), b, c].into()
    };
    Flow { src_mac: host(from), dst_mac: host(to), src: ip(from), dst: ip(to), src_port: 4000, dst_port: 7 }
}

impl Station {
    /// This station before a bridge, with frames of `size` bytes: port 0 learns, port 1 tests, all others listen. `forget` empties the
    /// bridge's table.
    pub fn teaches<'a>(&'a mut self, size: usize, forget: &'a mut Reset<'a>) -> BridgeStation<'a> {
        BridgeStation { station: self, size, forget }
    }

    /// Sends these frames out of one port, each so often, and counts for each what comes out of all the others until `wait` after the
    /// last. Frames are known by their bytes; what is shorter than Ethernet's least size may come back longer.
    ///
    /// # Errors
    /// A link is down, there is no memory for a frame, or the ports are elsewhere.
    pub fn exchange(
        &mut self,
        port: usize,
        frames: &[Vec<u8>],
        times: u64,
        wait: Duration,
    ) -> Result<Vec<Exchanged>, Invalid> {
        self.links()?;
        if self.stations.is_some() {
            return Err(Invalid::new(
                "frames known by their bytes are sent by ports of this machine only",
                "test a device that is plugged in here",
            ));
        }
        self.drain();
        let mut exchanged = vec![Exchanged::default(); frames.len()];
        for _ in 0..times {
            for (frame, exchanged) in frames.iter().zip(&mut exchanged) {
                let packet = Packet::copy_of(frame).ok_or_else(|| {
                    Invalid::new("no memory for a frame", "see the size of the packet memory")
                })?;
                let tx = &mut self.senders[port].tx;
                let mut batch = Batch::of(packet);
                exchanged.sent += tx.transmit(&mut batch) as u64;
                batch.free_all();
                tx.flush();
            }
            self.collect(port, frames, &mut exchanged);
        }
        let stop = self.clock.now() + wait.as_nanos() as u64;
        while self.clock.now() < stop {
            self.collect(port, frames, &mut exchanged);
        }
        Ok(exchanged)
    }

    fn collect(&mut self, from: usize, frames: &[Vec<u8>], exchanged: &mut [Exchanged]) {
        for (port, receiver) in self.receivers.iter_mut().enumerate() {
            while receiver.rx.receive(&mut receiver.batch, BURST) > 0 {
                for packet in receiver.batch.iter().filter(|_| port != from) {
                    let data = packet.data();
                    let is_it =
                        |frame: &Vec<u8>| data == &frame[..] || frame.len() < 60 && data.starts_with(frame);
                    if let Some(index) = frames.iter().position(is_it) {
                        exchanged[index].received += 1;
                    }
                }
                receiver.batch.free_all();
            }
        }
    }
}

/// What became of frames that were sent as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Frames that the port took.
    pub sent: u64,
    /// Copies of them that came out elsewhere.
    pub received: u64,
}

/// A station that teaches a bridge.
pub struct BridgeStation<'a> {
    station: &'a mut Station,
    size: usize,
    forget: &'a mut Reset<'a>,
}

impl BridgeStation<'_> {
    /// Sends one frame of each of these flows out of a port, each expected at another.
    fn once(
        &mut self,
        (port, to): (usize, usize),
        flows: Vec<Flow>,
        rate: f64,
        grace: Duration,
    ) -> Result<Detail, Invalid> {
        let frames = flows.len() as u64;
        let mut streams = vec![Stream::default(); port];
        let flows = flows.into_iter().map(|flow| (flow, Some(to))).collect();
        streams.push(Stream { flows, sizes: vec![self.size], ..Stream::default() });
        let stragglers = self.station.stragglers;
        self.station.replan(&Plan { streams, stragglers, is_bridged: true, ..Plan::default() })?;
        let mut job = Job::new(Offer::Burst { rate, frames });
        job.order.grace = Some(grace);
        Ok(self.station.carry_out(job)?.detail)
    }

    /// Lets the bridge know the test port's host, as soon as it forwards.
    fn greet(&mut self) -> Result<(), Invalid> {
        let stragglers = std::mem::replace(&mut self.station.stragglers, Duration::from_millis(20));
        let give_up = self.station.clock.now() + PATIENCE.as_nanos() as u64;
        let mut heard = false;
        while !heard && self.station.clock.now() < give_up {
            let greeting = vec![flow(self.station.seed, (1, 0), (0, 1 << 23))];
            heard = self.once((1, 0), greeting, TEST_RATE, TEST_GRACE)?.outcome.received > 0;
        }
        self.station.stragglers = stragglers;
        if heard {
            return Ok(());
        }
        Err(Invalid::new(
            "the bridge floods no frame to an address that it cannot know",
            "see that it forwards",
        ))
    }
}

impl BridgeStation<'_> {
    fn attempt(&mut self, addresses: u32, rate: f64) -> Result<Lesson, Invalid> {
        let seed = self.station.seed;
        let learning = (0..addresses).map(|n| flow(seed, (0, n), (1, 0))).collect();
        let time = Duration::from_secs_f64(f64::from(addresses) / rate);
        let grace = LEARNING_GRACE.max(time.mul_f64(0.02));
        let learning = self.once((0, 1), learning, rate, TEST_GRACE)?;
        let test = (0..addresses).map(|n| flow(seed, (1, 0), (0, n))).collect();
        let test = self.once((1, 0), test, TEST_RATE, TEST_GRACE)?;
        Ok(Lesson {
            sent: test.outcome.sent,
            received: test.outcome.received,
            flooded: test.counts.misrouted,
            unsent: learning.outcome.unsent() + test.outcome.unsent(),
            late: later_than(&learning.lateness, grace) + lumps(&test),
            overran: learning.outcome.duration > time + grace,
        })
    }
}

/// Frames of a test that left in lumps and may have been lost for that. What was flooded was not learnt, however it was asked for.
fn lumps(test: &Detail) -> u64 {
    if test.counts.misrouted > 0 { 0 } else { later_than(&test.lateness, TEST_LATE) }
}

impl Teacher for BridgeStation<'_> {
    fn teach(&mut self, addresses: u64, rate: f64) -> Result<Lesson, Invalid> {
        let ports = self.station.port_count();
        if ports < 3 {
            return Err(Invalid::new(
                format!("{ports} ports cannot tell what is flooded"),
                "a learning, a test and a monitoring port are needed",
            ));
        }
        let mut lesson = Lesson::default();
        for _ in 0..ATTEMPTS {
            (self.forget)()?;
            self.greet()?;
            lesson = self.attempt(addresses as u32, rate)?;
            if !lesson.is_doubtful() && !lesson.overran {
                break;
            }
        }
        Ok(lesson)
    }
}
