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
//! Several prefixes of destinations, separated by commas, are sent to in turn. `share=3` with a `share=1` on another device makes three packets
//! arrive on the one for each on the other, as fast as the router sends them on (`crate::shares`). With IPv6 prefixes (`src=2001:db8:1::/64
//! dst=2001:db8:2::/64`) it is IPv6, whose frames have 62 bytes at least.
//!
//! For bridges: `from=02:00:00:01:00:00 to=02:00:00:02:00:00 stations=5000` makes flows come from so many Ethernet addresses, counted
//! from the first one, to as many others, in no order that they share.
//!
//! While the router warms up, the devices also answer its ARP queries and neighbour solicitations, for any address, so
//! that what is measured is forwarding and not resolution.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use tester::frame::Flow;
use tester::hosts;
use wire::{MacAddr, Prefix, Prefix4, Prefix6, Protocol, ipv6};

use crate::shares::{Count, Share, Shares};

/// Where test frames go: RFC 2544's echo port (appendix C.2.6.4).
const TEST_PORT: u16 = 7;

/// What one device receives.
#[derive(Clone, Debug)]
pub struct Pattern {
    ether: MacAddr,
    src: Prefix,
    /// Flows go to these in turn; there is one at least.
    dst: Vec<Prefix>,
    flows: usize,
    length: usize,
    /// Its share of all packets, if it has one.
    share: Option<u64>,
    /// The first of the Ethernet addresses that send, the first of those sent to (instead of `ether`), and how many there are.
    from: MacAddr,
    to: Option<MacAddr>,
    stations: u32,
}

/// An address further on.
fn station(first: MacAddr, index: u32) -> [u8; 6] {
    MacAddr::from_u64(first.to_u64() + u64::from(index)).octets()
}

/// A network whose hosts send or receive.
fn network(text: &str) -> Option<Prefix> {
    text.parse().map(Prefix::V4).or_else(|_| text.parse().map(Prefix::V6)).ok()
}

/// Which host it is; an odd multiplier visits each of them once before it repeats.
fn host_index(flow: u32, salt: u32, hosts: u64) -> u32 {
    let usable = hosts.saturating_sub(2).clamp(1, u32::MAX.into()) as u32;
    flow.wrapping_mul(0x9E37_79B1).wrapping_add(salt) % usable
}

fn host4(prefix: Prefix4, flow: u32, salt: u32) -> Ipv4Addr {
    let size = 1u64 << (32 - u32::from(prefix.len()));
    let index = host_index(flow, salt, size);
    Ipv4Addr::from(u32::from(prefix.addr()) + if size > 2 { 1 + index } else { 0 })
}

fn host6(prefix: Prefix6, flow: u32, salt: u32) -> Ipv6Addr {
    let size = 1u64 << (128 - u32::from(prefix.len())).min(40);
    let index = host_index(flow, salt, size);
    Ipv6Addr::from(u128::from(prefix.addr()) + if size > 2 { 1 + u128::from(index) } else { 0 })
}

impl Default for Pattern {
    fn default() -> Self {
        let prefix = |text: &str| network(text).expect("a prefix");
        Pattern {
            ether: MacAddr([2, 0, 0, 0, 0, 1]),
            src: prefix("10.0.0.0/24"),
            dst: vec![prefix("10.0.1.0/24")],
            flows: 1024,
            length: 60,
            share: None,
            from: MacAddr([2, 0, 0, 0, 1, 0]),
            to: None,
            stations: 1,
        }
    }
}

impl Pattern {
    /// The patterns that a configuration's text asks for, by device.
    pub fn gather(text: &str) -> Result<HashMap<String, Pattern>, crate::Error> {
        let mut patterns = HashMap::new();
        for line in text.lines().filter_map(|l| l.trim().strip_prefix("// bench:")) {
            let mut words = line.split_ascii_whitespace();
            let device = words
                .next()
                .ok_or_else(|| crate::Error::Traffic(format!("no device in '// bench:{line}'")))?;
            let mut pattern = Pattern::default();
            for word in words {
                let unknown = || crate::Error::Traffic(format!("cannot use '{word}' in '// bench:{line}'"));
                pattern.set(word).ok_or_else(unknown)?;
            }
            if !pattern.is_sound() {
                return Err(crate::Error::Traffic(format!(
                    "both prefixes must be of one family, and IPv6 needs length=62, in '// bench:{line}'"
                )));
            }
            patterns.insert(device.to_owned(), pattern);
        }
        Ok(patterns)
    }

    /// Whether it has a share of all packets.
    pub(crate) fn has_share(&self) -> bool {
        self.share.is_some()
    }

    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=')?;
        match key {
            "ether" => self.ether = value.parse().ok()?,
            "src" => self.src = network(value)?,
            "dst" => self.dst = value.split(',').map(network).collect::<Option<_>>()?,
            "from" => self.from = value.parse().ok()?,
            "to" => self.to = Some(value.parse().ok()?),
            "stations" => self.stations = value.parse().ok().filter(|n| (1..=1 << 20).contains(n))?,
            "share" => self.share = Some(value.parse().ok().filter(|n| (1..=1000).contains(n))?),
            "flows" => self.flows = value.parse().ok().filter(|n| (1..=1 << 20).contains(n))?,
            "length" => self.length = value.parse().ok().filter(|n| (42..=9216).contains(n))?,
            _ => return None,
        }
        Some(())
    }

    fn is_sound(&self) -> bool {
        self.dst.iter().all(|dst| match (self.src, dst) {
            (Prefix::V4(_), Prefix::V4(_)) => true,
            (Prefix::V6(_), Prefix::V6(_)) => self.length >= 62,
            _ => false,
        })
    }

    /// The rotation of packets: distinct addresses and ports, Ethernet, IP and UDP headers in order.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        (0..self.flows as u32)
            .map(|flow| match (self.src, self.dst[flow as usize % self.dst.len()]) {
                (Prefix::V6(src), Prefix::V6(dst)) => {
                    self.packet6(flow, host6(src, flow, 7), host6(dst, flow, 0))
                }
                (Prefix::V4(src), Prefix::V4(dst)) => {
                    self.packet4(flow, host4(src, flow, 7), host4(dst, flow, 0))
                }
                _ => Vec::new(),
            })
            .collect()
    }

    /// The same for the tester, whose frames have payloads of their own.
    pub fn test_flows(&self) -> Vec<Flow> {
        let flow = |flow: u32| {
            let (src, dst) = match (self.src, self.dst[flow as usize % self.dst.len()]) {
                (Prefix::V6(src), Prefix::V6(dst)) => {
                    (host6(src, flow, 7).into(), host6(dst, flow, 0).into())
                }
                (Prefix::V4(src), Prefix::V4(dst)) => {
                    (host4(src, flow, 7).into(), host4(dst, flow, 0).into())
                }
                _ => return None,
            };
            let [to @ .., _, _, _, _, _, _] = self.stations_of(flow);
            let [_, _, _, _, _, _, from @ ..] = self.stations_of(flow);
            let src_port = 1024 + (flow % 60000) as u16;
            Some(Flow {
                src_mac: MacAddr(from),
                dst_mac: MacAddr(to),
                src,
                dst,
                src_port,
                dst_port: TEST_PORT,
            })
        };
        (0..self.flows as u32).filter_map(flow).collect()
    }

    /// Frames go to the Ethernet addresses of hosts: what receives them is a bridge.
    pub fn is_bridged(&self) -> bool {
        self.to.is_some()
    }

    /// Sends to this Ethernet address from now on.
    pub fn send_to(&mut self, ether: MacAddr) {
        (self.ether, self.to) = (ether, None);
    }

    /// Whether a host of this address sends from here.
    pub fn is_home_of(&self, address: IpAddr) -> bool {
        self.src.contains(address)
    }

    /// Destination and source.
    fn stations_of(&self, flow: u32) -> [u8; 12] {
        let mut addresses = [0; 12];
        // An odd multiplier, so that neighbours do not talk to neighbours.
        let other = (u64::from(flow) * 0x9E37_79B1 % u64::from(self.stations)) as u32;
        addresses[..6].copy_from_slice(&self.to.map_or(self.ether.0, |to| station(to, other)));
        addresses[6..].copy_from_slice(&station(self.from, flow % self.stations));
        addresses
    }

    fn packet6(&self, flow: u32, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        bytes[..12].copy_from_slice(&self.stations_of(flow));
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        let payload_len = (self.length - 54) as u16;
        let repr = ipv6::Repr { src, dst, next_header: Protocol::UDP, payload_len, ..ipv6::Repr::default() };
        repr.emit(&mut bytes[14..]).expect("there is room for a header");
        let udp = &mut bytes[54..];
        udp[..2].copy_from_slice(&(1024 + (flow % 60000) as u16).to_be_bytes());
        udp[2..4].copy_from_slice(&9u16.to_be_bytes());
        udp[4..6].copy_from_slice(&payload_len.to_be_bytes());
        let sum = wire::checksum::transport_v6(src, dst, Protocol::UDP, udp);
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn packet4(&self, flow: u32, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        bytes[..12].copy_from_slice(&self.stations_of(flow));
        bytes[12..14].copy_from_slice(&[8, 0]);
        let ip_len = (self.length - 14) as u16;
        bytes[14..16].copy_from_slice(&[0x45, 0]);
        bytes[16..18].copy_from_slice(&ip_len.to_be_bytes());
        bytes[18..20].copy_from_slice(&(flow as u16).to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes[26..30].copy_from_slice(&src.octets());
        bytes[30..34].copy_from_slice(&dst.octets());
        let sum = wire::checksum::internet(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes[34..36].copy_from_slice(&(1024 + (flow % 60000) as u16).to_be_bytes());
        bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
        bytes[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
        bytes
    }
}

/// Gives every device name an in-memory device.
pub struct Bench {
    patterns: HashMap<String, Pattern>,
    queues: usize,
    devices: Mutex<HashMap<String, Arc<BenchDevice>>>,
    settled: Arc<AtomicBool>,
    questions: Arc<Questions>,
    misfits: bool,
    shares: Arc<Shares>,
}

impl Bench {
    /// Devices of `queues` queues with these patterns.
    pub fn new(patterns: HashMap<String, Pattern>, queues: usize) -> Bench {
        Bench {
            patterns,
            queues,
            devices: Mutex::default(),
            settled: Arc::default(),
            questions: Arc::default(),
            misfits: false,
            shares: Arc::default(),
        }
    }

    /// Mixes in packets that ought not to pass.
    pub fn with_misfits(mut self) -> Bench {
        self.misfits = true;
        self
    }

    /// Whether packets come in shares.
    pub(crate) fn has_shares(&self) -> bool {
        self.shares.is_used()
    }

    /// Takes note of how many packets the router holds while it stands still.
    pub fn holds(&self, packets: usize) {
        self.shares.holds(packets);
    }

    /// Ends the warm-up: from now on shares are kept to, or, where there are none, no neighbour is answered for any more. To look
    /// for questions costs a little for each packet, which does not matter where placements are compared; but there a neighbour
    /// that was not found would take room in the window with each packet to it that is dropped.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
        self.questions.answered.store(self.has_shares(), Ordering::Relaxed);
    }

    /// Questions for neighbours that were answered.
    pub fn asked(&self) -> usize {
        self.questions.asked.load(Ordering::Relaxed)
    }

    /// Packets that all devices have sent.
    pub fn sent(&self) -> usize {
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
            questions: self.questions.clone(),
            shares: self.shares.clone(),
            share: pattern.share,
        });
        devices.insert(spec.device.clone(), device.clone());
        Ok(device)
    }
}

/// What devices do about questions for neighbours.
struct Questions {
    /// Whether they answer them.
    answered: AtomicBool,
    asked: AtomicUsize,
}

impl Default for Questions {
    fn default() -> Questions {
        Questions { answered: AtomicBool::new(true), asked: AtomicUsize::new(0) }
    }
}

/// Answers of a device that its router has not received yet.
#[derive(Default)]
struct Answers {
    waiting: AtomicBool,
    packets: Mutex<Vec<Packet>>,
}

impl Answers {
    fn add(&self, answers: Vec<Packet>) {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
        self.waiting.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<Packet> {
        if !self.waiting.load(Ordering::Relaxed) || !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.packets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct BenchDevice {
    replay: Replay,
    ether: MacAddr,
    answers: Arc<Answers>,
    settled: Arc<AtomicBool>,
    questions: Arc<Questions>,
    shares: Arc<Shares>,
    share: Option<u64>,
}

impl Device for BenchDevice {
    fn info(&self) -> Info {
        Info { mac: Some(self.ether.0), ..self.replay.info() }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let (answers, settled) = (self.answers.clone(), self.settled.clone());
        let share = self.share.map(|share| self.shares.join(share));
        Ok(Box::new(Rx { inner: self.replay.rx(queue)?, answers, settled, share }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let (answers, questions) = (self.answers.clone(), self.questions.clone());
        let sent = self.shares.sender();
        Ok(Box::new(Tx { inner: self.replay.tx(queue)?, answers, questions, sent }))
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    answers: Arc<Answers>,
    settled: Arc<AtomicBool>,
    share: Option<Share>,
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        self.receive_arrived(batch, max, 0).0
    }

    fn receive_arrived(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> (usize, u8) {
        let answers = self.answers.take();
        if !answers.is_empty() {
            let n = answers.len();
            batch.extend(answers.into_iter().map(|mut answer| {
                answer.arrive(wall_ns);
                answer
            }));
            // Some may be to a group.
            return (n, u8::MAX);
        }
        let Some(share) = &mut self.share else { return self.inner.receive_arrived(batch, max, wall_ns) };
        if !self.settled.load(Ordering::Relaxed) {
            // Earlier packets do not count. Otherwise a worker that got more than its share would have to wait for the others for many
            // runs.
            return self.inner.receive_arrived(batch, max, wall_ns);
        }
        let (n, first) = match share.allows(max) {
            0 => (0, 0),
            allowed => self.inner.receive_arrived(batch, allowed, wall_ns),
        };
        share.take(n);
        (n, first)
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    answers: Arc<Answers>,
    questions: Arc<Questions>,
    sent: Count,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if self.questions.answered.load(Ordering::Relaxed) {
            let answers = batch.iter().filter_map(|p| hosts::answer(p.data()));
            let answers: Vec<Packet> = answers.collect();
            if !answers.is_empty() {
                self.questions.asked.fetch_add(answers.len(), Ordering::Relaxed);
                self.answers.add(answers);
            }
        }
        let n = self.inner.transmit(batch);
        // Only this queue's worker writes it.
        self.sent.store(self.sent.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
        n
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
    if bytes[12..14] == [0x86, 0xdd] {
        return spoil6(i, bytes);
    }
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

/// The same for IPv6.
fn spoil6(i: usize, bytes: &mut [u8]) {
    match i % 128 {
        // Hop limit runs out.
        17 => bytes[21] = 1,
        // From a multicast address.
        41 => bytes[22] = 0xff,
        // Shorter than its length field says.
        67 => bytes[18..20].copy_from_slice(&[0x10, 0]),
        // From a link-local address.
        89 => bytes[22..24].copy_from_slice(&[0xfe, 0x80]),
        // Not IP at all.
        113 => bytes[12..14].copy_from_slice(&[0x88, 0xcc]),
        _ => {}
    }
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
        let text = "// bench: eth0 dst=2.0.0.0/24,3.0.0.0/24 flows=4 share=3";
        let packets = Pattern::gather(text).unwrap()["eth0"].packets();
        assert_eq!(packets.iter().map(|p| p[30]).collect::<Vec<_>>(), [2, 3, 2, 3]);
        for bad in ["dst=2.0.0.0/24,", "dst=2.0.0.0/24,::/64", "share=0"] {
            assert!(Pattern::gather(&format!("// bench: eth0 {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_kept_from_the_first_packet_after_the_warm_up() {
        let text =
            "// bench: eth0 dst=2.0.0.0/24 flows=64 share=6\n// bench: eth1 dst=2.0.1.0/24 flows=64 share=1";
        let bench = Bench::new(Pattern::gather(text).unwrap(), 1);
        let mut receive = ["eth0", "eth1"].map(|device| {
            let spec = Spec { device: device.into(), ..Spec::default() };
            bench.open(&spec).unwrap().rx(0).unwrap()
        });
        let mut take = |i: usize| {
            let mut batch = Batch::new();
            receive[i].receive(&mut batch, 32)
        };
        // All as fast as they can, the second faster.
        (0..10).for_each(|_| assert_eq!((take(0), take(1), take(1)), (32, 32, 32)));
        bench.settle();
        bench.holds(0);
        assert_eq!(take(1), 32);
        assert_eq!(take(0), 32);
    }

    #[test]
    fn packets_of_ipv6_too() {
        let text = "// bench: eth0 src=2001:db8:1::/64 dst=2001:db8:2::7/128 flows=300 length=70\nIdle;";
        let patterns = Pattern::gather(text).unwrap();
        let packets = patterns["eth0"].packets();
        let distinct: std::collections::HashSet<_> = packets.iter().map(|p| &p[22..38]).collect();
        assert_eq!((packets.len(), distinct.len(), packets[0].len()), (300, 300, 70));
        for p in &packets {
            let ip = ipv6::View::new_checked(&p[14..]).unwrap();
            assert!(wire::udp::View::new_checked(ip.payload()).unwrap().as_slice().len() == 16);
            assert!(wire::checksum::transport_v6_ok(ip.src(), ip.dst(), Protocol::UDP, ip.payload()));
            assert!(
                ip.src().to_string().starts_with("2001:db8:1::") && ip.dst().to_string() == "2001:db8:2::7"
            );
        }
        for bad in ["src=1.0.0.0/8 dst=2001:db8::/64", "src=::/64 dst=::/64 length=60"] {
            assert!(Pattern::gather(&format!("// bench: eth0 {bad}")).is_err(), "{bad}");
        }
    }
}
