// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbered packets through the router, of which each must arrive. The sender waits while many are under way, so what is lost was dropped, and
//! did not just find a queue full.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;
use testbed::rig::{Rig, wait_for};

/// The port that packets are for.
const PORT: u16 = 9;
/// Bytes that wait for the receiver: it is one thread among many.
const RECEIVE_BYTES: usize = 64 << 20;
/// How long the last packets may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Packets that may be under way: no queue on the way is full then, however long anybody waits for a processor.
const WINDOW: u64 = 64;
/// Packets that are under way for so long are lost.
const LATE: Duration = Duration::from_secs(2);
/// How often a silent receiver looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// What came of a stream of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) seconds: f64,
}

impl Count {
    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// Packets from host A to addresses behind the router, received by host B, until this is dropped.
pub(super) struct Traffic {
    shared: Arc<Shared>,
    begun: Instant,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    received: AtomicU64,
    /// By the targets' order, those that have been reached.
    reached: AtomicU64,
    has_ended: AtomicBool,
    has_sent_all: AtomicBool,
    is_over: AtomicBool,
}

impl Traffic {
    /// Sends to the targets (at most 64) in turn, `rate` packets a second; 0 for as many as possible.
    pub(super) fn start(rig: &Rig, targets: &[Ipv4Addr], rate: u32) -> Result<Traffic, Error> {
        let shared = Arc::new(Shared::default());
        let (sending, receiving) = (shared.clone(), shared.clone());
        let targets = targets[..targets.len().min(64)].to_vec();
        let open = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
        let receiver = rig.b.enter(|| {
            let socket = open(PORT)?;
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)
                .map_err(std::io::Error::from)?;
            socket.set_read_timeout(Some(LOOK))?;
            Ok::<_, Error>(std::thread::spawn(move || receive(&socket, &receiving)))
        });
        let receiver = receiver??;
        let sender = rig.a.enter(|| {
            let socket = open(0)?;
            Ok::<_, Error>(std::thread::spawn(move || send(&socket, &targets, rate, &sending)))
        });
        let sender = sender??;
        Ok(Traffic { shared, begun: Instant::now(), threads: vec![sender, receiver] })
    }

    /// Waits until all targets have been reached: the neighbours are known then.
    pub(super) fn wait_for_all(&self, targets: usize, patience: Duration) -> Result<(), Error> {
        let all = if targets >= 64 { u64::MAX } else { (1 << targets) - 1 };
        let reached = || self.shared.reached.load(Ordering::Relaxed);
        wait_for("packets for all targets", patience, || reached() == all)
            .map_err(|why| Error::Waited { why, known: format!(": {:#b} have come", reached()) })
    }

    /// So far.
    pub(super) fn count(&self) -> Count {
        // What is received is read first, so that nothing seems lost that is under way.
        let received = self.shared.received.load(Ordering::Acquire);
        let sent = self.shared.sent.load(Ordering::Acquire);
        Count { sent, received, seconds: self.begun.elapsed().as_secs_f64() }
    }

    /// Ends, when the last packet has come or had its time.
    pub(super) fn end(mut self) -> Count {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.shared.has_ended.store(true, Ordering::Relaxed);
        let (count, shared) = (|| self.count(), &self.shared);
        // A late packet is not a lost one.
        let _ = wait_for("the last packets", PATIENCE, || {
            shared.has_sent_all.load(Ordering::Acquire) && count().lost() == 0
        });
        let count = Count { seconds, ..self.count() };
        self.join();
        count
    }

    fn join(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.join();
    }
}

fn send(socket: &UdpSocket, targets: &[Ipv4Addr], rate: u32, shared: &Shared) {
    let begun = Instant::now();
    let (mut number, mut lost) = (0u64, 0);
    while !shared.has_ended.load(Ordering::Relaxed) {
        if rate > 0 {
            let due = Duration::from_secs_f64(number as f64 / f64::from(rate));
            let early = due.saturating_sub(begun.elapsed());
            if early > Duration::ZERO {
                std::thread::sleep(early);
            }
        }
        let missing = || number - shared.received.load(Ordering::Acquire);
        let full = Instant::now();
        while rate > 0 && missing() >= WINDOW + lost && !shared.has_ended.load(Ordering::Relaxed) {
            if full.elapsed() > LATE {
                lost = missing();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let place = (number % targets.len() as u64) as u8;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8] = place;
        if socket.send_to(&bytes, (targets[usize::from(place)], PORT)).is_ok() {
            shared.sent.fetch_add(1, Ordering::AcqRel);
            number += 1;
        }
    }
    shared.has_sent_all.store(true, Ordering::Release);
}

fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut bytes = [0; 16];
    // What comes twice must not stand for what does not come.
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let Ok(16) = socket.recv(&mut bytes) else {
            if shared.is_over.load(Ordering::Relaxed) {
                return;
            }
            continue;
        };
        let number = u64::from_le_bytes(*bytes.first_chunk().expect("sixteen"));
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= 1 << 27 {
            continue;
        }
        if seen.len() <= word {
            seen.resize(word + 1024, 0);
        }
        if seen[word] & bit == 0 {
            seen[word] |= bit;
            shared.received.fetch_add(1, Ordering::AcqRel);
            shared.reached.fetch_or(1u64.checked_shl(bytes[8].into()).unwrap_or(0), Ordering::Relaxed);
        }
    }
}
