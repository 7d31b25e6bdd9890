// SPDX-License-Identifier: MIT OR Apache-2.0
//! What hosts on both sides send, and what arrives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use packet::port::{Device, Provider as _, RxQueue, Spec, TxQueue, method};
use packet::{Batch, Packet};
use ports::SystemProvider;
use testbed::rig::Namespace;

use super::site::{Site, is_outside};
use crate::Error;
use crate::nat::shape::{Bytes, ETHER, Ends, FRAME, LENGTH, Shape, Step, ends_of, is_sound, session_of};

/// Packets that are sent together.
const BATCH: usize = 32;
/// Sessions that are asked for before the answers are awaited: fewer than any ring holds packets.
const WINDOW: usize = 64;
/// How long answers are awaited before the same is asked again.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the same is asked.
const TRIES: usize = 20;
/// When no packet has arrived for so long, none is on its way.
const STILL: Duration = Duration::from_millis(50);
/// How long the first packets of all sessions may take.
const SETUP_MAX: Duration = Duration::from_secs(120);

/// Packets a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    pub(super) sent: f64,
    pub(super) received: f64,
}

/// What a run showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) setup: Rate,
    pub(super) throughput: Rate,
}

/// Measures a gateway that has no session yet. The sender has its core for itself.
pub(super) fn measure(site: &Site, shape: &Shape, length: Duration) -> Result<Rates, Error> {
    let run = || {
        core_affinity::set_for_current(core_affinity::CoreId { id: site.cores[0] });
        let mut hosts = Hosts::new(site, shape)?;
        let setup = hosts.set_up()?;
        hosts.ramp_up()?;
        let throughput = hosts.throughput(length)?;
        Ok(Rates { setup, throughput })
    };
    std::thread::scope(|scope| scope.spawn(run).join().map_err(|_| Error::Panicked("the sender has"))?)
}

/// The hosts of a side.
struct Side<'a> {
    namespace: &'a Namespace,
    interface: &'static str,
    device: Arc<dyn Device>,
    tx: Box<dyn TxQueue>,
    /// The Ethernet header to the gateway.
    header: [u8; ETHER],
    batch: Batch,
}

impl<'a> Side<'a> {
    fn new(namespace: &'a Namespace, interface: &'static str, gateway: [u8; 6]) -> Result<Side<'a>, Error> {
        let own = namespace.mac(interface)?;
        let mut header = [0; ETHER];
        header[..6].copy_from_slice(&gateway);
        header[6..12].copy_from_slice(&own);
        header[12] = 8;
        let spec = Spec {
            device: interface.to_owned(),
            method: Some(method::AF_PACKET.to_owned()),
            queues: Some(1),
            sniffer: Some(true),
            ..Spec::default()
        };
        let (device, tx) = namespace.enter(|| {
            let device = SystemProvider::new().open(&spec)?;
            let tx = device.tx(0)?;
            Ok::<_, packet::port::Error>((device, tx))
        })??;
        Ok(Side { namespace, interface, device, tx, header, batch: Batch::new() })
    }

    /// Opens the receive queue, which costs the gateway time while it is open.
    fn receiver(&self) -> Result<Box<dyn RxQueue>, Error> {
        let device = &self.device;
        Ok(self.namespace.enter(|| device.rx(0))??)
    }

    /// Puts a packet into the batch; a full batch is sent.
    fn put(&mut self, packet: &Bytes) -> Result<(), Error> {
        let mut frame = [0; FRAME];
        frame[..ETHER].copy_from_slice(&self.header);
        frame[ETHER..].copy_from_slice(packet);
        let frame = Packet::copy_of(&frame).ok_or_else(|| Error::nothing("no packet memory is left"))?;
        self.batch.push(frame);
        if self.batch.len() >= BATCH { self.send() } else { Ok(()) }
    }

    /// Sends the batch.
    fn send(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        while !self.batch.is_empty() {
            self.tx.transmit(&mut self.batch);
            self.tx.flush();
            if since.elapsed() > SETUP_MAX {
                return Err(Error::nothing(format!("{} takes no packets", self.interface)));
            }
        }
        Ok(())
    }

    /// Packets that have arrived at the interface.
    fn arrived(&self) -> Result<u64, Error> {
        let path = "/proc/thread-self/net/dev";
        let text = self.namespace.enter(|| std::fs::read_to_string(path))?.map_err(Error::system(path))?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(self.interface)?.strip_prefix(':'));
        let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        count.ok_or_else(|| Error::nothing(format!("{path} says nothing about {}", self.interface)))
    }
}

struct Hosts<'a> {
    shape: &'a Shape,
    inside: Side<'a>,
    outside: Side<'a>,
    /// By session: the outside address and port, once known.
    known: Vec<Option<(u32, u16)>>,
    rng: Rng,
}

impl<'a> Hosts<'a> {
    fn new(site: &'a Site, shape: &'a Shape) -> Result<Hosts<'a>, Error> {
        let rig = &site.rig;
        Ok(Hosts {
            shape,
            inside: Side::new(&rig.a, "a0", rig.dut.mac("d0")?)?,
            outside: Side::new(&rig.b, "b0", rig.dut.mac("d1")?)?,
            known: vec![None; shape.sessions()],
            rng: Rng::with_seed(1),
        })
    }

    /// A packet of a session from inside; from outside if its translation is known.
    fn packet(&self, session: usize, leaves: bool) -> Bytes {
        let [inside, peer] = self.shape.ends(session);
        let ends = match self.known[session] {
            Some(outside) if !leaves => [peer, outside],
            _ => [inside, peer],
        };
        let mut packet = [0; LENGTH];
        self.shape.write(&mut packet, session, ends, if leaves { Step::Begin } else { Step::Answer });
        packet
    }

    /// Sends the first packets of all sessions.
    fn set_up(&mut self) -> Result<Rate, Error> {
        let before = self.outside.arrived()?;
        let (since, count) = (Instant::now(), self.shape.sessions());
        for session in 0..count {
            let packet = self.packet(session, true);
            self.inside.put(&packet)?;
            if session % 1024 == 0 && since.elapsed() > SETUP_MAX {
                return Err(Error::nothing(format!("{session} sessions took more than {SETUP_MAX:?}")));
            }
        }
        self.inside.send()?;
        let sending = since.elapsed().as_secs_f64();
        let (arrived, last) = settle(|| self.outside.arrived())?;
        // The last packets arrive later than they were sent.
        let receiving = last.saturating_duration_since(since).as_secs_f64().max(sending);
        Ok(Rate { sent: count as f64 / sending, received: (arrived - before) as f64 / receiving })
    }

    /// Asks in all sessions until each translation is known, and answers until each answer has arrived.
    fn ramp_up(&mut self) -> Result<(), Error> {
        for leaves in [true, false] {
            let receiver = if leaves { &self.outside } else { &self.inside };
            let mut rx = receiver.receiver()?;
            for first in (0..self.shape.sessions()).step_by(WINDOW) {
                let window = first..(first + WINDOW).min(self.shape.sessions());
                let mut missing: Vec<usize> = window.collect();
                for _ in 0..TRIES {
                    self.exchange(&mut *rx, leaves, &mut missing)?;
                    if missing.is_empty() {
                        break;
                    }
                }
                if let Some(session) = missing.first() {
                    let which = if leaves { "packet" } else { "answer" };
                    let what = format!("no {which} of session {session} arrives, though sent {TRIES} times");
                    return Err(Error::nothing(what));
                }
            }
        }
        Ok(())
    }

    /// Sends a packet of each session that is missing, and takes those off the list whose packet arrives in time.
    fn exchange(
        &mut self,
        rx: &mut dyn RxQueue,
        leaves: bool,
        missing: &mut Vec<usize>,
    ) -> Result<(), Error> {
        for session in missing.iter() {
            let packet = self.packet(*session, leaves);
            let side = if leaves { &mut self.inside } else { &mut self.outside };
            side.put(&packet)?;
        }
        if leaves {
            self.inside.send()?
        } else {
            self.outside.send()?
        };
        let since = Instant::now();
        while !missing.is_empty() && since.elapsed() < PATIENCE {
            let mut batch = Batch::new();
            rx.receive(&mut batch, BATCH);
            for frame in batch.iter() {
                let packet = frame.data().get(ETHER..).unwrap_or_default();
                let Some((session, ends)) = self.ours(packet, leaves)? else { continue };
                if leaves {
                    self.known[session] = Some(ends[0]);
                }
                missing.retain(|other| *other != session);
            }
            batch.free_all();
        }
        Ok(())
    }

    /// The session and the ends of a packet that has arrived, if it is of one.
    fn ours(&self, packet: &[u8], left: bool) -> Result<Option<(usize, Ends)>, Error> {
        let is_ours = packet.len() >= LENGTH && packet[0] == 0x45;
        let session = is_ours.then(|| session_of(packet)).flatten().filter(|n| *n < self.known.len());
        let Some((session, ends)) = session.zip(ends_of(packet)) else { return Ok(None) };
        let [inside, peer] = self.shape.ends(session);
        let is_right = match left {
            true => {
                let is_same = self.known[session].is_none_or(|known| known == ends[0]);
                ends[1] == peer && is_outside(ends[0].0, self.shape) && is_same
            }
            false => ends == [peer, inside],
        };
        if !is_right || !is_sound(packet) {
            let what = format!("session {session} has a packet with wrong addresses, ports or checksums");
            return Err(Error::nothing(what));
        }
        Ok(Some((session, ends)))
    }

    /// Sends packets of sessions at random by both sides in turn, for so long.
    fn throughput(&mut self, length: Duration) -> Result<Rate, Error> {
        let both = |hosts: &Hosts<'_>| Ok::<_, Error>(hosts.outside.arrived()? + hosts.inside.arrived()?);
        let before = both(self)?;
        let (since, mut sent) = (Instant::now(), 0u64);
        while since.elapsed() < length {
            for leaves in [true, false] {
                for _ in 0..BATCH {
                    let session = self.rng.usize(..self.known.len());
                    let packet = self.packet(session, leaves);
                    let side = if leaves { &mut self.inside } else { &mut self.outside };
                    side.put(&packet)?;
                }
                sent += BATCH as u64;
            }
        }
        let seconds = since.elapsed().as_secs_f64();
        let (arrived, last) = settle(|| both(self))?;
        let receiving = last.saturating_duration_since(since).as_secs_f64().max(seconds);
        Ok(Rate { sent: sent as f64 / seconds, received: (arrived - before) as f64 / receiving })
    }
}

/// Reads a count until it stays; returns it, and when it changed last.
fn settle(read: impl Fn() -> Result<u64, Error>) -> Result<(u64, Instant), Error> {
    let (mut count, mut last) = (read()?, Instant::now());
    while last.elapsed() < STILL {
        std::thread::sleep(Duration::from_millis(1));
        let now = read()?;
        if now != count {
            (count, last) = (now, Instant::now());
        }
    }
    Ok((count, last))
}
