// SPDX-License-Identifier: MIT OR Apache-2.0
//! In-memory traffic for every device that a configuration names.
//!
//! What a device receives is said by a line in the configuration, or by default is UDP from one made-up network to
//! another:
//!
//! ```text
//! // bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60
//! ```
//!
//! While the router warms up, the devices also answer its ARP queries, for any address, so that what is measured is
//! forwarding and not resolution.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use wire::{MacAddr, Prefix4};

/// What one device receives.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    ether: MacAddr,
    src: Prefix4,
    dst: Prefix4,
    flows: usize,
    length: usize,
}

impl Default for Pattern {
    fn default() -> Self {
        let prefix = |text: &str| text.parse().expect("a prefix");
        Pattern {
            ether: MacAddr([2, 0, 0, 0, 0, 1]),
            src: prefix("10.0.0.0/24"),
            dst: prefix("10.0.1.0/24"),
            flows: 1024,
            length: 60,
        }
    }
}

impl Pattern {
    /// The patterns that a configuration's text asks for, by device.
    pub(crate) fn gather(text: &str) -> Result<HashMap<String, Pattern>, String> {
        let mut patterns = HashMap::new();
        for line in text.lines().filter_map(|l| l.trim().strip_prefix("// bench:")) {
            let mut words = line.split_ascii_whitespace();
            let device = words.next().ok_or_else(|| format!("no device in '// bench:{line}'"))?;
            let mut pattern = Pattern::default();
            for word in words {
                pattern.set(word).ok_or_else(|| format!("cannot use '{word}' in '// bench:{line}'"))?;
            }
            patterns.insert(device.to_owned(), pattern);
        }
        Ok(patterns)
    }

    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=')?;
        match key {
            "ether" => self.ether = value.parse().ok()?,
            "src" => self.src = value.parse().ok()?,
            "dst" => self.dst = value.parse().ok()?,
            "flows" => self.flows = value.parse().ok().filter(|n| (1..=1 << 20).contains(n))?,
            "length" => self.length = value.parse().ok().filter(|n| (42..=9216).contains(n))?,
            _ => return None,
        }
        Some(())
    }

    /// The rotation of packets: distinct addresses and ports, Ethernet, IPv4 and UDP headers in order.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        (0..self.flows as u32).map(|flow| self.packet(flow)).collect()
    }

    fn packet(&self, flow: u32) -> Vec<u8> {
        // An odd multiplier visits every host of a prefix once before it repeats.
        let host = |prefix: &Prefix4, salt: u32| {
            let size = 1u64 << (32 - u32::from(prefix.len()));
            let usable = size.saturating_sub(2).max(1) as u32;
            let index = flow.wrapping_mul(0x9E37_79B1).wrapping_add(salt) % usable;
            Ipv4Addr::from(u32::from(prefix.addr()) + if size > 2 { 1 + index } else { 0 })
        };
        let mut bytes = vec![0; self.length];
        bytes[..6].copy_from_slice(&self.ether.0);
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 0]);
        bytes[12..14].copy_from_slice(&[8, 0]);
        let ip_len = (self.length - 14) as u16;
        bytes[14..16].copy_from_slice(&[0x45, 0]);
        bytes[16..18].copy_from_slice(&ip_len.to_be_bytes());
        bytes[18..20].copy_from_slice(&(flow as u16).to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes[26..30].copy_from_slice(&host(&self.src, 7).octets());
        bytes[30..34].copy_from_slice(&host(&self.dst, 0).octets());
        let sum = wire::checksum::internet(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes[34..36].copy_from_slice(&(1024 + (flow % 60000) as u16).to_be_bytes());
        bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
        bytes[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
        bytes
    }
}

/// Gives every device name an in-memory device.
pub(crate) struct Bench {
    patterns: HashMap<String, Pattern>,
    queues: usize,
    devices: Mutex<HashMap<String, Arc<BenchDevice>>>,
    settled: Arc<AtomicBool>,
    misfits: bool,
}

impl Bench {
    /// Devices of `queues` queues with these patterns.
    pub(crate) fn new(patterns: HashMap<String, Pattern>, queues: usize) -> Bench {
        Bench { patterns, queues, devices: Mutex::default(), settled: Arc::default(), misfits: false }
    }

    /// Mixes in packets that ought not to pass.
    pub(crate) fn with_misfits(mut self) -> Bench {
        self.misfits = true;
        self
    }

    /// Ends the warm-up: no ARP query is answered any more.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Packets that all devices have sent.
    pub(crate) fn sent(&self) -> usize {
        let devices = self.devices.lock().unwrap_or_else(|e| e.into_inner());
        devices.values().map(|d| d.replay.sent()).sum()
    }
}

impl Provider for Bench {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut devices = self.devices.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = devices.get(&spec.device) {
            return Ok(known.clone());
        }
        let pattern = self.patterns.get(&spec.device).cloned().unwrap_or_default();
        let mut packets = pattern.packets();
        if self.misfits {
            packets.iter_mut().enumerate().for_each(|(i, p)| spoil(i, p));
        }
        let device = Arc::new(BenchDevice {
            replay: Replay::new(&spec.device, &packets, self.queues, None)?,
            ether: pattern.ether,
            answers: Arc::default(),
            settled: self.settled.clone(),
        });
        devices.insert(spec.device.clone(), device.clone());
        Ok(device)
    }
}

struct BenchDevice {
    replay: Replay,
    ether: MacAddr,
    answers: Arc<Mutex<Vec<Packet>>>,
    settled: Arc<AtomicBool>,
}

impl Device for BenchDevice {
    fn info(&self) -> Info {
        Info { mac: Some(self.ether.0), ..self.replay.info() }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let (answers, settled) = (self.answers.clone(), self.settled.clone());
        Ok(Box::new(Rx { inner: self.replay.rx(queue)?, answers, settled }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let (answers, settled) = (self.answers.clone(), self.settled.clone());
        Ok(Box::new(Tx { inner: self.replay.tx(queue)?, answers, settled }))
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    answers: Arc<Mutex<Vec<Packet>>>,
    settled: Arc<AtomicBool>,
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        if !self.settled.load(Ordering::Relaxed) {
            let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(|e| e.into_inner()));
            if !answers.is_empty() {
                let n = answers.len();
                batch.extend(answers);
                return n;
            }
        }
        self.inner.receive(batch, max)
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    answers: Arc<Mutex<Vec<Packet>>>,
    settled: Arc<AtomicBool>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if !self.settled.load(Ordering::Relaxed) {
            let answers = batch.iter().filter_map(|p| answer(p.data()));
            self.answers.lock().unwrap_or_else(|e| e.into_inner()).extend(answers);
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

/// Makes a few packets of a rotation such as a router must not forward.
fn spoil(i: usize, bytes: &mut [u8]) {
    match i % 128 {
        // Time to live runs out.
        17 => bytes[22] = 1,
        // From a broadcast address.
        41 => bytes[26..30].fill(255),
        // Shorter than its length field says.
        67 => bytes[16..18].copy_from_slice(&[0x10, 0]),
        // A wrong checksum, left so.
        89 => {
            bytes[24] ^= 0x55;
            return;
        }
        // Not IP at all.
        113 => bytes[12..14].copy_from_slice(&[0x88, 0xcc]),
        _ => return,
    }
    bytes[24..26].fill(0);
    let sum = wire::checksum::internet(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// The reply to an Ethernet ARP request for IPv4 (RFC 826), from an address made of the one asked for.
fn answer(request: &[u8]) -> Option<Packet> {
    if request.len() < 42 || request[12..14] != [8, 6] || request[20..22] != [0, 1] {
        return None;
    }
    let mut reply = request[..42].to_vec();
    let asked: [u8; 4] = request[38..42].try_into().ok()?;
    let here = [2, 1, asked[0], asked[1], asked[2], asked[3]];
    reply[..6].copy_from_slice(&request[6..12]);
    reply[6..12].copy_from_slice(&here);
    reply[20..22].copy_from_slice(&[0, 2]);
    reply[22..28].copy_from_slice(&here);
    reply[28..32].copy_from_slice(&asked);
    reply[32..38].copy_from_slice(&request[22..28]);
    reply[38..42].copy_from_slice(&request[28..32]);
    Packet::copy_of(&reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_distinct_and_whole() {
        let text = "// bench: eth0 src=1.0.0.0/8 dst=2.0.0.0/24 flows=300 length=64\nIdle;";
        let patterns = Pattern::gather(text).unwrap();
        let packets = patterns["eth0"].packets();
        let distinct: std::collections::HashSet<_> = packets.iter().collect();
        assert_eq!((packets.len(), distinct.len(), packets[0].len()), (300, 300, 64));
        for p in &packets {
            assert_eq!(wire::checksum::internet(&p[14..34]), 0);
            assert_eq!((&p[30..33], p[26]), (&[2, 0, 0][..], 1));
        }
        assert!(Pattern::gather("// bench: eth0 flows=none").is_err());
    }

    #[test]
    fn arp_requests_are_answered() {
        let mut request = vec![0u8; 60];
        request[..6].fill(0xff);
        request[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        request[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        request[28..32].copy_from_slice(&[10, 0, 0, 1]);
        request[38..42].copy_from_slice(&[10, 0, 0, 7]);
        let reply = answer(&request).unwrap();
        assert_eq!(&reply.data()[..22], [2, 0, 0, 0, 0, 9, 2, 1, 10, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        assert_eq!(&reply.data()[28..42], [10, 0, 0, 7, 2, 0, 0, 0, 0, 9, 10, 0, 0, 1]);
        assert!(answer(reply.data()).is_none() && answer(&[]).is_none());
    }
}
