// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that load a router to a given share of what it can take, on a clock of polls: how fast a machine is, and who gets a
//! processor when, does not matter.
//!
//! Each time a worker asks a device for packets is a tick. In the first ticks more packets wait than it asks for, and what it takes
//! then is the full load. From then on so many arrive between two ticks, now fewer and now more, that they are this share
//! of it in the mean; those for which a tick has no room wait. Queues are drained by as many packets at a time as they are filled by,
//! so that this is their load, too. A tick at which too many packets are on their way within the router does not count: another
//! worker, which would take them out, has no processor just then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};

use super::{FLOWS, WINDOW};

/// Ticks under full load.
const FULL_TICKS: u64 = 2000;

/// Ticks, and what was taken in them.
#[derive(Default)]
struct Taken {
    ticks: AtomicU64,
    packets: AtomicU64,
}

impl Taken {
    fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn each(&self) -> f64 {
        self.packets.load(Ordering::Relaxed) as f64 / self.ticks() as f64
    }

    fn count(&self, packets: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }
}

/// What all devices have in common.
pub struct Polled {
    share: f64,
    full: Taken,
    loaded: Taken,
    sent: AtomicU64,
    received: AtomicU64,
    ended: AtomicBool,
    /// The number that is due next, for each flow.
    due: Mutex<HashMap<u8, u32>>,
    wrong: Mutex<Vec<String>>,
    ports: Mutex<HashMap<String, Arc<Port>>>,
}

impl Polled {
    pub fn new(share: f64) -> Arc<Polled> {
        Arc::new(Polled {
            share,
            full: Taken::default(),
            loaded: Taken::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            due: Mutex::default(),
            wrong: Mutex::default(),
            ports: Mutex::default(),
        })
    }

    /// Waits for so many more ticks under the given load.
    pub fn go_on(&self, ticks: u64) {
        let from = self.loaded.ticks();
        while self.loaded.ticks() < from + ticks {
            std::thread::yield_now();
        }
    }

    /// What was taken in a tick, as a share of what was taken when there was always more.
    pub fn load(&self) -> f64 {
        self.loaded.each() / self.full.each()
    }

    pub fn ticks(&self) -> u64 {
        self.loaded.ticks()
    }

    /// Lets nothing more arrive.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    pub fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }
}

/// The provider of a router's devices: those whose name holds `-in-` bring packets, the others take them.
pub struct Ports(pub Arc<Polled>);

impl Provider for Ports {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        if !spec.device.contains("-in-") && !spec.device.contains("-out-") {
            return Err(Error::new(&spec.device, "could not open", ""));
        }
        let port = || Arc::new(Port { name: spec.device.clone(), polled: self.0.clone() });
        Ok(self.0.ports.lock().unwrap().entry(spec.device.clone()).or_insert_with(port).clone())
    }
}

struct Port {
    name: String,
    polled: Arc<Polled>,
}

impl Device for Port {
    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            driver: "polled".into(),
            mac: None,
            mtu: 1500,
            rx_queues: 1,
            tx_queues: 1,
        }
    }

    fn rx(&self, _: usize) -> Result<Box<dyn RxQueue>, Error> {
        let side = u8::from(self.name.contains("-in-b"));
        Ok(Box::new(Arrivals {
            polled: self.polled.clone(),
            side,
            next: [0; FLOWS as usize],
            rng: fastrand::Rng::with_seed(u64::from(side)),
            waiting: 0.0,
            fewer: None,
        }))
    }

    fn tx(&self, _: usize) -> Result<Box<dyn TxQueue>, Error> {
        Ok(Box::new(Departures(self.polled.clone())))
    }
}

struct Arrivals {
    polled: Arc<Polled>,
    side: u8,
    /// Numbers of the flows' next packets.
    next: [u32; FLOWS as usize],
    rng: fastrand::Rng,
    /// Packets that have arrived and were not taken, with a fraction of one.
    waiting: f64,
    /// What arrives before the next tick, if that is decided: as many fewer than in the mean as came more before this one, or the other
    /// way round, so that the mean is exact.
    fewer: Option<f64>,
}

impl Arrivals {
    /// How many packets a tick with room for `max` takes; `None` if it does not count.
    fn tick(&mut self, max: usize) -> Option<usize> {
        let polled = &self.polled;
        // Both devices may take up to `max` at once.
        let received = polled.received();
        if polled.is_ended() || polled.sent() - received + 2 * max as u64 > WINDOW {
            return None;
        }
        if polled.full.ticks() < FULL_TICKS {
            polled.full.count(max as u64);
            return Some(max);
        }
        let mean = polled.share * polled.full.each();
        let arrived = self.fewer.take().unwrap_or_else(|| {
            let arrived = 2.0 * mean * self.rng.f64();
            self.fewer = Some(2.0 * mean - arrived);
            arrived
        });
        self.waiting += arrived;
        let taken = self.waiting.min(max as f64).floor();
        self.waiting -= taken;
        polled.loaded.count(taken as u64);
        Some(taken as usize)
    }
}

impl RxQueue for Arrivals {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let n = self.tick(max).unwrap_or(0);
        self.polled.sent.fetch_add(n as u64, Ordering::Relaxed);
        for _ in 0..n {
            let flow = self.rng.u8(..FLOWS);
            let number = &mut self.next[usize::from(flow)];
            let mut frame = [0; 60];
            frame[0] = flow | (self.side << 7);
            frame[1..5].copy_from_slice(&number.to_be_bytes());
            *number += 1;
            batch.extend(Packet::copy_of(&frame));
        }
        n
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

struct Departures(Arc<Polled>);

impl TxQueue for Departures {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = batch.len();
        let mut due = self.0.due.lock().unwrap();
        for packet in batch.iter() {
            let (flow, number) = (packet.data()[0], packet.data()[1..5].try_into().unwrap());
            let (number, due) = (u32::from_be_bytes(number), due.entry(flow).or_default());
            if number != *due {
                self.0.wrong.lock().unwrap().push(format!("flow {flow:#x}: {number}, not {due}"));
            }
            *due = number + 1;
        }
        batch.free_counting();
        self.0.received.fetch_add(n as u64, Ordering::Release);
        n
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}
