// SPDX-License-Identifier: MIT OR Apache-2.0
//! The three in-memory interfaces of a flood: what arrives, how fast, and who answers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use tester::hosts;
use wire::Protocol;

use super::super::beside::{Pace, Source};
use super::kind::{Flood, STATIONS};

/// `m0` to `m2`.
pub(super) struct Devices {
    flood: Flood,
    known: Mutex<HashMap<String, Arc<MemoryDevice>>>,
    /// Packets a second, legitimate ones and of the flood, as bits of a number; infinite for as many as are taken.
    pub(super) good: AtomicU64,
    pub(super) bad: AtomicU64,
    offered: AtomicU64,
    delivered: AtomicU64,
    taken: AtomicU64,
    /// Hosts' answers, for `m1` to receive.
    answers: Mutex<Vec<Packet>>,
    /// Stations that nobody had seen before.
    strangers: AtomicU64,
}

impl Devices {
    pub(super) fn new(flood: Flood) -> Self {
        // A bridge has to see each host once, or it floods what is for them.
        let seen = match flood.is_bridged() {
            true => flood.packets(2, "10.2.1.0/25", "10.1.0.0/16", STATIONS),
            false => Vec::new(),
        };
        Self {
            flood,
            known: Mutex::default(),
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            answers: Mutex::new(seen.iter().filter_map(|frame| Packet::copy_of(frame)).collect()),
            strangers: AtomicU64::new(0),
        }
    }

    /// Puts addresses that were never seen into frames.
    fn forge(&self, at: &Range<usize>, frames: &mut [Packet]) {
        let first = self.strangers.fetch_add(frames.len() as u64, Ordering::Relaxed);
        for (number, frame) in (first..).zip(frames) {
            let [.., a, b, c, d, e] =
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_be_bytes();
            if let Some(address) = frame.data_mut().get_mut(at.clone()) {
                address.copy_from_slice(&[6, a, b, c, d, e]);
            }
        }
    }
}

impl Source for Devices {
    fn offer(&self, good: f64, other: f64) {
        self.good.store(good.to_bits(), Ordering::Relaxed);
        self.bad.store(other.to_bits(), Ordering::Relaxed);
    }

    /// Legitimate packets offered and delivered, and packets taken of the flood.
    fn counts(&self) -> [u64; 3] {
        [&self.offered, &self.delivered, &self.taken].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Opens them: devices need a share of their own.
pub(super) struct Shared(pub(super) Arc<Devices>);

impl Provider for Shared {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut known = self.0.known.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(device) = known.get(&spec.device) {
            return Ok(device.clone());
        }
        let flood = self.0.flood;
        let [from, there, ..] = flood.prefixes();
        let (number, packets) = match spec.device.as_str() {
            "m0" => (1, flood.packets(1, from, there, STATIONS)),
            "m1" => (2, flood.packets(2, there, from, 1)),
            _ => (3, flood.frames()),
        };
        let replay = Replay::new(&spec.device, &packets, 1, None)?;
        let device = Arc::new(MemoryDevice { number, replay, devices: self.0.clone() });
        known.insert(spec.device.clone(), device.clone());
        Ok(device)
    }
}

struct MemoryDevice {
    number: u8,
    replay: Replay,
    devices: Arc<Devices>,
}

impl Device for MemoryDevice {
    fn info(&self) -> Info {
        Info { mac: Some([2, 0, 0, 0, 0, self.number]), ..self.replay.info() }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let inner = self.replay.rx(queue)?;
        Ok(Box::new(Rx { number: self.number, inner, devices: self.devices.clone(), pace: Pace::default() }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let inner = self.replay.tx(queue)?;
        Ok(Box::new(Tx { number: self.number, inner, devices: self.devices.clone() }))
    }
}

struct Rx {
    number: u8,
    inner: Box<dyn RxQueue>,
    devices: Arc<Devices>,
    pace: Pace,
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let rate = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        let mut paced =
            |batch: &mut Batch, rate| self.pace.take(rate, max, |most| self.inner.receive(batch, most));
        let (taken, offered, count) = match self.number {
            1 => {
                let (taken, lost) = paced(batch, rate(&self.devices.good));
                (taken, taken as u64 + lost, &self.devices.offered)
            }
            2 => {
                let answers =
                    std::mem::take(&mut *self.devices.answers.lock().unwrap_or_else(|e| e.into_inner()));
                let count = answers.len();
                batch.extend(answers);
                return count;
            }
            _ => {
                let before = batch.len();
                let (taken, _) = paced(batch, rate(&self.devices.bad));
                if let Some(at) = self.devices.flood.kind.forged() {
                    self.devices.forge(&at, &mut batch[before..]);
                }
                (taken, taken as u64, &self.devices.taken)
            }
        };
        count.fetch_add(offered, Ordering::Relaxed);
        taken
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

/// What the hosts behind `m1` see of a frame.
enum Seen {
    /// A legitimate packet.
    Good,
    /// A question about one of them.
    Asked,
    Other,
}

fn see(frame: &[u8]) -> Seen {
    let Some((addresses, rest)) = frame.split_at_checked(14) else { return Seen::Other };
    match (addresses[12], addresses[13]) {
        (8, 0) if rest.get(12..14) == Some(&[10, 1]) => Seen::Good,
        // Behind a gateway all have its source; those of the flood go elsewhere.
        (8, 0) if rest.get(12..19) == Some(&[10, 2, 0, 1, 10, 2, 1]) => Seen::Good,
        (8, 6) if rest.get(24..27) == Some(&[10, 2, 1]) => Seen::Asked,
        (0x86, 0xdd) if rest.get(6) == Some(&Protocol::UDP.0) => {
            if rest.get(12..14) == Some(&[0, 1]) {
                Seen::Good
            } else {
                Seen::Other
            }
        }
        // The target of a solicitation: who is not there has the upper half.
        (0x86, 0xdd) if rest.get(48 + 8) == Some(&0) => Seen::Asked,
        _ => Seen::Other,
    }
}

struct Tx {
    number: u8,
    inner: Box<dyn TxQueue>,
    devices: Arc<Devices>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if self.number == 2 {
            let (mut delivered, mut answers) = (0, Vec::new());
            for frame in batch.iter().map(Packet::data) {
                match see(frame) {
                    Seen::Good => delivered += 1,
                    Seen::Asked => answers.extend(hosts::answer(frame)),
                    Seen::Other => {}
                }
            }
            self.devices.delivered.fetch_add(delivered, Ordering::Relaxed);
            if !answers.is_empty() {
                self.devices.answers.lock().unwrap_or_else(|e| e.into_inner()).extend(answers);
            }
        }
        self.inner.transmit(batch)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}
