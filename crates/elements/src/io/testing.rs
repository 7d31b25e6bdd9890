// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of input and output need: temporary files and devices without a machine.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use packet::filter::{Filter, Instruction};
use packet::port::{Device, Error, Info, Link, Provider, QueueStats, RxQueue, Spec, TxQueue, link_type};
use packet::{Batch, Packet, PacketType};
use tempfile::TempDir;

/// A directory that goes with the test.
pub struct Temp(TempDir);

impl Temp {
    /// Makes one.
    pub fn new() -> Temp {
        Temp(TempDir::new().expect("a temporary directory"))
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Writes a file in it and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.path().join(name), content).expect("a temporary file");
        self.path(name)
    }
}

/// A provider that knows one device, which lives in memory.
pub struct Fake(Arc<FakeDevice>);

/// See [`Fake`].
pub struct FakeDevice {
    name: String,
    rx: Vec<Mutex<Option<VecDeque<Vec<u8>>>>>,
    tx: Vec<Line>,
    room: AtomicUsize,
    link: Mutex<Link>,
    breaks: Mutex<Option<u64>>,
    mtu: AtomicUsize,
    addresses: Mutex<Option<Vec<(IpAddr, u8)>>>,
    lag: AtomicUsize,
    link_type: AtomicU32,
    told: AtomicBool,
    late: Mutex<Option<Late>>,
    spec: Mutex<Spec>,
}

/// How long a second look takes, in which all arrives; and when it has.
#[derive(Clone, Copy)]
struct Late {
    takes: Duration,
    came: Option<SystemTime>,
}

/// A transmit queue's record.
#[derive(Default)]
struct Line {
    taken: AtomicBool,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Fake {
    /// A device whose receive queues hold `queues`, with as many transmit queues.
    pub fn new(name: &str, queues: &[&[&[u8]]]) -> Arc<Fake> {
        Fake::with_tx(name, queues, queues.len())
    }

    /// A device with `tx` transmit queues.
    pub fn with_tx(name: &str, queues: &[&[&[u8]]], tx: usize) -> Arc<Fake> {
        let rx = |q: &&[&[u8]]| Mutex::new(Some(q.iter().map(|p| p.to_vec()).collect()));
        Arc::new(Fake(Arc::new(FakeDevice {
            name: name.to_owned(),
            rx: queues.iter().map(rx).collect(),
            tx: (0..tx).map(|_| Line::default()).collect(),
            room: AtomicUsize::new(usize::MAX),
            link: Mutex::new(Link::Up),
            breaks: Mutex::new(None),
            mtu: AtomicUsize::new(0),
            addresses: Mutex::default(),
            lag: AtomicUsize::new(0),
            link_type: AtomicU32::new(link_type::ETHERNET),
            told: AtomicBool::new(false),
            late: Mutex::default(),
            spec: Mutex::default(),
        })))
    }

    /// Sets how many packets a transmit queue takes at a time.
    pub fn set_room(&self, packets: usize) {
        self.0.room.store(packets, Ordering::Relaxed);
    }

    /// Sets the state of the link.
    pub fn set_link(&self, link: Link) {
        *self.0.link.lock().unwrap() = link;
    }

    /// Lets transmit queues lag behind until they have been flushed so often.
    pub fn set_lag(&self, flushes: usize) {
        self.0.lag.store(flushes, Ordering::Relaxed);
    }

    /// How often they have still to be flushed.
    pub fn lag(&self) -> usize {
        self.0.lag.load(Ordering::Relaxed)
    }

    /// Sets how often the link was lost.
    pub fn set_breaks(&self, breaks: u64) {
        *self.0.breaks.lock().unwrap() = Some(breaks);
    }

    /// Sets the MTU of its link, which may change from then on.
    pub fn set_mtu(&self, mtu: usize) {
        self.0.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Sets the addresses that the kernel has on it.
    pub fn set_addresses(&self, addresses: &[&str]) {
        let read = |text: &&str| {
            let (address, len) = text.split_once('/').expect("ADDRESS/LENGTH");
            (address.parse().expect("an address"), len.parse().expect("a length"))
        };
        *self.0.addresses.lock().unwrap() = Some(addresses.iter().map(read).collect());
    }

    /// Sets what its packets begin with.
    pub fn set_link_type(&self, link: u32) {
        self.0.link_type.store(link, Ordering::Relaxed);
    }

    /// Sets whether it reports how frames were addressed.
    pub fn set_told(&self, told: bool) {
        self.0.told.store(told, Ordering::Relaxed);
    }

    /// The first look for packets is in vain. All come in the second one, which takes so long.
    pub fn set_late(&self, takes: Duration) {
        *self.0.late.lock().unwrap() = Some(Late { takes, came: None });
    }

    /// When they came.
    pub fn came(&self) -> Option<SystemTime> {
        self.0.late.lock().unwrap().and_then(|late| late.came)
    }

    /// How it was opened last.
    pub fn spec(&self) -> Spec {
        self.0.spec.lock().unwrap().clone()
    }

    /// What was sent on a queue.
    pub fn sent(&self, queue: usize) -> Vec<Vec<u8>> {
        self.0.tx[queue].sent.lock().unwrap().clone()
    }
}

impl Provider for Fake {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        if spec.device != self.0.name {
            return Err(Error::new(&spec.device, "no such device", ""));
        }
        *self.0.spec.lock().unwrap() = spec.clone();
        Ok(Arc::new(Handle(self.0.clone())))
    }

    /// Knows one form of expression: `first byte N`.
    fn filter(&self, expression: &str, _: u32) -> Result<Filter, Error> {
        let number = expression.strip_prefix("first byte ").and_then(|n| n.parse().ok());
        let program = number.map(|n| {
            let load = Instruction::new(0x30, 0, 0, 0);
            let test = Instruction::new(0x15, 0, 1, n);
            vec![load, test, Instruction::new(6, 0, 0, 1), Instruction::new(6, 0, 0, 0)]
        });
        let refused = || Error::new(&format!("filter '{expression}'"), "syntax error", "see the manual");
        program.and_then(Filter::new).ok_or_else(refused)
    }
}

struct Handle(Arc<FakeDevice>);

/// Its link-level address.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

impl Device for Handle {
    fn info(&self) -> Info {
        Info {
            name: self.0.name.clone(),
            driver: "fake".to_owned(),
            mac: Some(MAC),
            mtu: 1500,
            rx_queues: self.0.rx.len(),
            tx_queues: self.0.tx.len(),
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = || Error::new(&self.0.name, format!("receive queue {queue} is taken"), "");
        let packets = self.0.rx[queue].lock().unwrap().take().ok_or_else(taken)?;
        let told = self.0.told.load(Ordering::Relaxed);
        let (device, missed) = (self.0.clone(), if queue == 0 { 5 } else { 0 });
        Ok(Box::new(FakeRx { device, packets, missed, moved: 0, looks: 0, told }))
    }

    fn tells_addressees(&self) -> bool {
        self.0.told.load(Ordering::Relaxed)
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        if self.0.tx[queue].taken.swap(true, Ordering::Relaxed) {
            return Err(Error::new(&self.0.name, format!("transmit queue {queue} is taken"), ""));
        }
        Ok(Box::new(FakeTx { device: self.0.clone(), queue, stats: QueueStats::default() }))
    }

    fn link(&self) -> Link {
        *self.0.link.lock().unwrap()
    }

    fn breaks(&self) -> Option<u64> {
        *self.0.breaks.lock().unwrap()
    }

    fn mtu(&self) -> Option<usize> {
        Some(self.0.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu != 0)
    }

    fn addresses(&self) -> Option<Vec<(IpAddr, u8)>> {
        self.0.addresses.lock().unwrap().clone()
    }

    fn link_type(&self) -> u32 {
        self.0.link_type.load(Ordering::Relaxed)
    }
}

struct FakeRx {
    device: Arc<FakeDevice>,
    packets: VecDeque<Vec<u8>>,
    missed: u64,
    moved: u64,
    looks: usize,
    told: bool,
}

impl RxQueue for FakeRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        self.looks += 1;
        if let Some(late) = &mut *self.device.late.lock().unwrap() {
            match self.looks {
                1 => return 0,
                2 => {
                    std::thread::sleep(late.takes);
                    late.came = Some(SystemTime::now());
                }
                _ => {}
            }
        }
        let n = max.min(self.packets.len());
        let told = self.told;
        batch.extend(self.packets.drain(..n).map(|bytes| {
            let mut packet = Packet::copy_of(&bytes).expect("packet memory");
            if told {
                super::device::mark_groups(&mut packet);
                if bytes.first().is_some_and(|b| b & 1 == 0) && !bytes.starts_with(&MAC) {
                    packet.set_packet_type(PacketType::OtherHost);
                }
            }
            packet
        }));
        self.moved += n as u64;
        n
    }

    fn ended(&self) -> bool {
        self.packets.is_empty()
    }

    /// As if the first queue had lost five packets.
    fn stats(&self) -> QueueStats {
        QueueStats { packets: self.moved, missed: self.missed, ..QueueStats::default() }
    }
}

struct FakeTx {
    device: Arc<FakeDevice>,
    queue: usize,
    stats: QueueStats,
}

impl TxQueue for FakeTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = batch.len().min(self.device.room.load(Ordering::Relaxed));
        let mut sent = self.device.tx[self.queue].sent.lock().unwrap();
        for packet in batch.drain(..n) {
            if packet.len() > 1514 {
                self.stats.errors += 1;
                continue;
            }
            self.stats.packets += 1;
            self.stats.bytes += packet.len() as u64;
            sent.push(packet.data().to_vec());
        }
        n
    }

    fn flush(&mut self) {
        self.flushed();
    }

    fn lags(&self) -> bool {
        self.device.lag.load(Ordering::Relaxed) > 0
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

impl FakeTx {
    fn flushed(&self) {
        let lag = self.device.lag.load(Ordering::Relaxed);
        self.device.lag.store(lag.saturating_sub(1), Ordering::Relaxed);
    }
}

impl Drop for FakeTx {
    fn drop(&mut self) {
        self.device.tx[self.queue].taken.store(false, Ordering::Relaxed);
    }
}
