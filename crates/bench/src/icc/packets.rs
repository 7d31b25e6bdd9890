// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets from core to core through a packet channel, with all that belongs to it: frames are taken, written to, copied or lent, read and freed.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use icc::Endpoint;
use packet::port::{Provider, RxQueue, Spec, TxQueue, method};
use packet::{Batch, HEADROOM, Packet};
use ports::plane::Planes;

use super::pin;
use crate::Error;

/// Packets that the channel holds, and packets at a time: those of the hand-off by a Queue.
const ROOM: u32 = 1024;
const BATCH: usize = engine::DEFAULT_BURST;
/// Bytes that the sender writes to each packet.
const WRITTEN: usize = 64;
/// Longest packet.
const LONGEST: u32 = 2048;

/// Both ends of a channel, each as a router has it.
pub(super) struct Channel {
    planes: Arc<Planes>,
}

/// What one side moved, and what it took.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    packets: u64,
    cycles: u64,
}

impl Half {
    fn each(self) -> f64 {
        self.cycles as f64 / self.packets.max(1) as f64
    }
}

impl Channel {
    pub(super) fn new() -> Result<Channel, Error> {
        let place = PathBuf::from(format!("@junctor-bench-icc-{}", std::process::id()));
        let planes = Planes::serve(&place, &[Endpoint::packets(1, "packets", LONGEST, ROOM)])?;
        Ok(Channel { planes })
    }

    /// Nanoseconds of both sides for a packet of so many bytes, waiting left out.
    pub(super) fn ns_per_packet(
        &self,
        cores: [usize; 2],
        bytes: usize,
        ghz: f64,
        length: Duration,
    ) -> Result<f64, Error> {
        let provider = ports::SystemProvider::new().in_domain(self.planes.clone());
        let spec = |settings| Spec {
            device: "packets".to_owned(),
            method: Some(method::PLANE.to_owned()),
            settings,
            ..Spec::default()
        };
        let sends = vec![(method::PLANE_SENDS.to_owned(), String::new())];
        let (from, to) = (provider.open(&spec(Vec::new()))?, provider.open(&spec(sends))?);
        let (mut rx, mut tx) = (from.rx(0)?, to.tx(0)?);
        let (done, start) = (AtomicBool::new(false), Barrier::new(3));
        let (done, start) = (&done, &start);
        let halves = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                pin(cores[0]);
                start.wait();
                send_all(&mut *tx, bytes, done)
            });
            let receiving = scope.spawn(move || {
                pin(cores[1]);
                start.wait();
                receive_all(&mut *rx, done)
            });
            start.wait();
            thread::sleep(length);
            done.store(true, Ordering::Relaxed);
            [sending.join(), receiving.join()].map(Result::unwrap_or_default)
        });
        Ok(halves.iter().map(|half| half.each()).sum::<f64>() / ghz)
    }
}

fn send_all(tx: &mut dyn TxQueue, bytes: usize, done: &AtomicBool) -> Half {
    let (mut half, mut batch) = (Half::default(), Batch::new());
    while !done.load(Ordering::Relaxed) {
        let before = sync::tsc();
        if batch.is_empty() {
            Packet::alloc_bulk(BATCH, HEADROOM, bytes, |mut packet| {
                packet.data_mut()[..WRITTEN.min(bytes)].fill(0x45);
                batch.push(packet);
            });
            half.cycles += sync::tsc().saturating_sub(before);
        }
        let before = sync::tsc();
        let sent = tx.transmit(&mut batch);
        if sent > 0 {
            half.cycles += sync::tsc().saturating_sub(before);
            half.packets += sent as u64;
        }
    }
    half
}

fn receive_all(rx: &mut dyn RxQueue, done: &AtomicBool) -> Half {
    let (mut half, mut seen) = (Half::default(), 0u64);
    while !done.load(Ordering::Relaxed) {
        let before = sync::tsc();
        let mut batch = Batch::new();
        let got = rx.receive(&mut batch, BATCH);
        if got == 0 {
            continue;
        }
        let header =
            |packet: &Packet| packet.data().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        seen ^= batch.iter().map(|packet| header(packet) ^ packet.len() as u64).fold(0, u64::wrapping_add);
        drop(batch);
        half.cycles += sync::tsc().saturating_sub(before);
        half.packets += got as u64;
    }
    black_box(seen);
    half
}
