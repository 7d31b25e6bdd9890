// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices of known faults, and stations on them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packet::port::{Error, Info, QueueStats, RxQueue, TxQueue};
use packet::{Batch, Packet};
use wire::MacAddr;

use super::super::*;
use super::MILLISECOND;
use crate::frame::Flow;

/// A frame that comes into a device.
pub(super) struct In {
    /// By which port.
    pub(super) port: usize,
    /// Its number among all.
    pub(super) number: u64,
    pub(super) now_ns: u64,
    pub(super) packet: Packet,
}

/// What comes out instead of a frame: by which port, when, and what.
pub(super) type Out = Vec<(usize, u64, Packet)>;

impl In {
    /// It comes out as it is, so much later.
    pub(super) fn after(self, ns: u64) -> Out {
        vec![(1 - self.port, self.now_ns + ns, self.packet)]
    }
}

/// A device in the tester's own thread: what goes into one of two ports comes out of the other, but for its treatment.
pub(super) struct Faulty {
    pub(super) clock: Arc<AtomicU64>,
    link: Link,
    state: Mutex<State>,
}

struct State {
    verdict: Box<dyn FnMut(In) -> Out + Send>,
    /// Whether its ports have room for a frame.
    has_room: Box<dyn FnMut(&Packet) -> bool + Send>,
    /// How many frames came in.
    number: u64,
    /// What waits at each port, and from when on it may be received.
    waiting: Vec<VecDeque<(u64, Packet)>>,
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
        // To look for frames takes time, too: waiting for none is over sooner.
        let now = self.0.clock.fetch_add(50, Ordering::Relaxed);
        let waiting = &mut self.0.state.lock().expect("not poisoned").waiting[self.1];
        let n = waiting.iter().take(max).take_while(|(at, _)| *at <= now).count();
        batch.extend(waiting.drain(..n).map(|(_, packet)| packet));
        n
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

impl TxQueue for End {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let now_ns = self.0.clock.load(Ordering::Relaxed);
        let State { verdict, has_room, number, waiting } = &mut *self.0.state.lock().expect("not poisoned");
        let n = batch.iter().take_while(|packet| has_room(packet)).count();
        for packet in batch.split_front(n).iter_mut() {
            let packet = packet.share().expect("memory");
            for (port, at, packet) in verdict(In { port: self.1, number: *number, now_ns, packet }) {
                waiting[port].push_back((at, packet));
            }
            *number += 1;
        }
        n
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

pub(super) fn flow(i: u8) -> Flow {
    Flow {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        src: [10, 0, 0, i + 2].into(),
        dst: [10, 0, 1, i + 2].into(),
        src_port: 4000,
        dst_port: 7,
    }
}

/// A device of this treatment.
pub(super) fn device(
    ports: usize,
    verdict: impl FnMut(In) -> Out + Send + 'static,
    link: Link,
) -> Arc<Faulty> {
    let waiting = (0..ports).map(|_| VecDeque::new()).collect();
    let state =
        Mutex::new(State { verdict: Box::new(verdict), has_room: Box::new(|_| true), number: 0, waiting });
    Arc::new(Faulty { clock: Arc::default(), link, state })
}

impl Faulty {
    /// From now on its ports take such frames only, and none behind others.
    pub(super) fn takes(&self, has_room: impl FnMut(&Packet) -> bool + Send + 'static) {
        self.state.lock().expect("not poisoned").has_room = Box::new(has_room);
    }
}

/// One of its ports.
pub(super) fn port(faulty: &Arc<Faulty>, i: usize) -> Port {
    Port::new(&format!("port{i}"), Arc::new(End(faulty.clone(), i))).expect("a port")
}

/// Four flows to a port.
pub(super) fn stream(to: usize) -> Stream {
    Stream { flows: (0..4).map(|i| (flow(i), Some(to))).collect(), sizes: vec![64], ..Stream::default() }
}

/// A station with these ports of a device.
pub(super) fn station_at(faulty: &Arc<Faulty>, ports: Vec<Port>, plan: &Plan) -> Station {
    let mut station = Station::new(ports, plan, 1).expect("a station");
    station.clock = Clock::counted(&faulty.clock);
    station
}

/// A station on a device of this treatment and so many ports, which sends four flows into port 0.
pub(super) fn plugged(
    ports: usize,
    verdict: impl FnMut(In) -> Out + Send + 'static,
    link: Link,
    to: usize,
) -> Station {
    let faulty = device(ports, verdict, link);
    let plan = Plan { streams: vec![stream(to)], stragglers: MILLISECOND, ..Plan::default() };
    station_at(&faulty, (0..ports).map(|i| port(&faulty, i)).collect(), &plan)
}

pub(super) fn station(verdict: impl FnMut(In) -> Out + Send + 'static) -> Station {
    plugged(2, verdict, Link::Up, 1)
}

/// What 4000 frames met with.
pub(super) fn met(verdict: impl FnMut(In) -> Out + Send + 'static) -> Detail {
    station(verdict).run(Trial::new(40_000.0, MILLISECOND * 100)).expect("a trial")
}

/// Forwards so many frames a second, and holds so many.
pub(super) fn server(rate: f64, buffer: u64) -> impl FnMut(In) -> Out + Send {
    let (service_ns, mut free_ns) = (1e9 / rate, 0.0f64);
    move |frame: In| {
        let waiting = ((free_ns - frame.now_ns as f64) / service_ns).max(0.0);
        if waiting >= buffer as f64 {
            return Vec::new();
        }
        free_ns = free_ns.max(frame.now_ns as f64) + service_ns;
        vec![(1 - frame.port, free_ns as u64, frame.packet)]
    }
}
