// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench icc`: what it costs planes to talk: latency and rates of messages and scalars, what readers of counters cost
//! their writer, and what blocks and packets take.
//!
//! Two threads on two cores use endpoints as two processes would, each with mappings of its own. The floor is the same exchange with one word and
//! nothing else: each thread polls the word that the other one stores to.
//!
//! A latency is the time from before the sending to after the receiving, by the time stamp counters of both cores. Half of the samples go the other
//! way; percentiles are taken for each way and averaged, so that counters which differ cancel out.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use icc::{ChannelError, Domain, Endpoint, FileRegion, NodeId, Receiver, Sender, Width};
use serde_json::json;

use harness::handoff::Distance;
use report::measure::Measured;

use crate::{Error, Failure, Findings};

mod blocks;
mod packets;

/// Bytes of packets: the shortest frame's, and an ordinary long one's.
const PACKETS: [usize; 2] = [64, 1500];

/// Bytes of a message: with its header, one cache line.
const MESSAGE: usize = 56;
/// Messages and scalars that a channel holds.
const ROOM: u32 = 1024;
/// The batch of the second rate.
const BATCH: usize = 32;

/// How long a side that wakes the other waits first, so that the other is asleep.
const SLEEP: Duration = Duration::from_micros(200);

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The two cores; the first two that there are without it.
    pub cores: Option<[usize; 2]>,
    /// Counters in the block.
    pub counters: u32,
    /// Readings of all counters a second.
    pub reads: u32,
    /// Publications of all counters a second.
    pub publications: u32,
    /// Rounds, in each of which everything is measured once.
    pub runs: usize,
    /// Exchanges of a latency run, and a thousandth of the messages of a rate.
    pub exchanges: u32,
    /// Whether packet memory lies where other processes can read it, so that long packets are lent.
    pub share_frames: bool,
}

/// Everything measured so far.
struct Icc {
    cores: [usize; 2],
    args: Settings,
    ghz: f64,
    domain: Domain,
    file: FileRegion,
    packets: packets::Channel,
    handoff: Distance,
    results: Vec<Measured>,
}

/// A file in memory that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pin(core: usize) {
    core_affinity::set_for_current(CoreId { id: core });
}

/// Percentiles of one direction, in cycles.
fn percentiles(mut cycles: Vec<i64>) -> [i64; 2] {
    cycles.sort_unstable();
    let at = |share: f64| cycles.get(((cycles.len() as f64) * share) as usize).copied().unwrap_or(0);
    [at(0.5), at(0.999)]
}

/// One side of an exchange: how it sends a stamp and how it waits for one.
struct Side<S, R> {
    send: S,
    receive: R,
}

impl<S: FnMut(u64), R: FnMut() -> u64> Side<S, R> {
    /// Latencies of what arrives here, in cycles.
    fn exchange(&mut self, times: u32, begins: bool, pause: Duration) -> Vec<i64> {
        let mut cycles = Vec::with_capacity(times as usize);
        for _ in 0..times {
            if begins {
                rest(pause);
                (self.send)(sync::tsc());
            }
            let stamp = (self.receive)();
            cycles.push(sync::tsc().wrapping_sub(stamp) as i64);
            if !begins {
                rest(pause);
                (self.send)(sync::tsc());
            }
        }
        // The first ones warm up.
        cycles.split_off(times as usize / 20)
    }
}

/// Lets the other side fall asleep.
fn rest(pause: Duration) {
    if pause > Duration::ZERO {
        thread::sleep(pause);
    }
}

impl Icc {
    fn note(&mut self, name: &str, unit: &'static str, value: f64) {
        match self.results.iter_mut().find(|m| m.name == name) {
            Some(known) => known.runs.push(value),
            None => self.results.push(Measured::new(name, unit, vec![value])),
        }
    }

    /// Percentiles of one way in ns, from two sides that exchange stamps on the two cores.
    fn latency<S1, R1, S2, R2>(
        &self,
        times: u32,
        pause: Duration,
        near: Side<S1, R1>,
        far: Side<S2, R2>,
    ) -> [f64; 2]
    where
        S1: FnMut(u64) + Send,
        R1: FnMut() -> u64 + Send,
        S2: FnMut(u64) + Send,
        R2: FnMut() -> u64 + Send,
    {
        let (mut near, mut far, cores) = (near, far, self.cores);
        let ways = thread::scope(|scope| {
            let there = scope.spawn(move || {
                pin(cores[1]);
                far.exchange(times, false, pause)
            });
            let here = scope.spawn(move || {
                pin(cores[0]);
                near.exchange(times, true, pause)
            });
            // A thread that panics has said why.
            [here, there].map(|way| percentiles(way.join().unwrap_or_default()))
        });
        [0, 1].map(|which| (ways[0][which] + ways[1][which]) as f64 / 2.0 / self.ghz)
    }

    fn floor(&self) -> [f64; 2] {
        let words: [Line; 2] = Default::default();
        let side = |to: usize| {
            let (to, from) = (&words[to].0, &words[1 - to].0);
            let mut last = 0;
            Side {
                send: move |stamp| to.store(stamp, Ordering::Release),
                receive: move || {
                    while from.load(Ordering::Acquire) == last {}
                    last = from.load(Ordering::Acquire);
                    last
                },
            }
        };
        self.latency(self.args.exchanges, Duration::ZERO, side(0), side(1))
    }

    fn messages(&self, ends: [(Sender, Receiver); 2]) -> [f64; 2] {
        let [near, far] = ends.map(|(mut sender, mut receiver)| Side {
            send: move |stamp| send(&mut sender, stamp),
            receive: move || receive(&mut receiver),
        });
        self.latency(self.args.exchanges, Duration::ZERO, near, far)
    }

    fn woken(&self) -> Result<[f64; 2], Error> {
        let [near, far] = self.ends()?.map(|(mut sender, mut receiver)| Side {
            send: move |stamp| send(&mut sender, stamp),
            receive: move || {
                while receiver.wait(None) == Ok(false) {}
                receive(&mut receiver)
            },
        });
        Ok(self.latency(self.sleeps(), SLEEP, near, far))
    }

    /// The same with two bare eventfds.
    fn woken_floor(&self) -> Result<[f64; 2], Error> {
        let bell =
            || rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).map_err(std::io::Error::from);
        let (bells, stamps) = ([bell()?, bell()?], [const { AtomicU64::new(0) }; 2]);
        let side = |to: usize| {
            let (bells, stamps) = (&bells, &stamps);
            Side {
                send: move |stamp| {
                    stamps[to].store(stamp, Ordering::Release);
                    _ = rustix::io::write(&bells[to], &1u64.to_ne_bytes());
                },
                receive: move || {
                    _ = rustix::io::read(&bells[1 - to], &mut [0u8; 8]);
                    stamps[1 - to].load(Ordering::Acquire)
                },
            }
        };
        Ok(self.latency(self.sleeps(), SLEEP, side(0), side(1)))
    }

    /// Runs something while threads that give way to all others keep both cores from falling asleep.
    fn keeping_awake<R>(&self, what: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for core in self.cores {
                let done = &done;
                scope.spawn(move || {
                    pin(core);
                    // If it may not, the cores fall asleep, and the figure is that of idle ones.
                    if sync::priority::after_others().is_ok() {
                        while !done.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    }
                });
            }
            let result = what();
            done.store(true, Ordering::Relaxed);
            result
        })
    }

    fn sleeps(&self) -> u32 {
        (self.args.exchanges / 100).clamp(20, 2000)
    }

    /// Two channels, one for each way: what the near side has, and the far one.
    fn ends(&self) -> Result<[(Sender, Receiver); 2], Error> {
        let (near, far) = (self.domain.node(2)?, self.domain.node(3)?);
        let sender = |node: &icc::Node, endpoint| node.sender(endpoint);
        let receiver = |node: &icc::Node, endpoint| node.receiver(endpoint).map(emptied);
        let near = (sender(&near, "there")?, receiver(&near, "back")?);
        Ok([near, (sender(&far, "back")?, receiver(&far, "there")?)])
    }

    fn file_ends(&self) -> Result<[(Sender, Receiver); 2], Error> {
        let (near, far) = (&self.file, &self.file);
        let sender = |file: &FileRegion, endpoint| file.sender(endpoint);
        let receiver = |file: &FileRegion, endpoint| file.receiver(endpoint).map(emptied);
        let near = (sender(near, "there")?, receiver(near, "back")?);
        Ok([near, (sender(far, "back")?, receiver(far, "there")?)])
    }

    /// Measures everything once.
    fn round(&mut self) -> Result<(), Error> {
        let floor = self.floor();
        let message = self.messages(self.ends()?);
        let file = self.messages(self.file_ends()?);
        for (name, [p50, p99_9]) in [("floor", floor), ("message", message), ("file", file)] {
            self.note(&format!("icc.{name}_ns.p50"), "ns", p50);
            self.note(&format!("icc.{name}_ns.p99_9"), "ns", p99_9);
        }
        self.note("icc.message_ns.p50_over_floor", "times", message[0] / floor[0].max(0.1));
        self.note("icc.file_ns.p50_over_floor", "times", file[0] / floor[0].max(0.1));
        let (idle, idle_floor) = (self.woken()?[0], self.woken_floor()?[0]);
        let (awake, floor) = self.keeping_awake(|| Ok((self.woken()?[0], self.woken_floor()?[0])))?;
        for (name, p50) in
            [("woken", awake), ("woken_floor", floor), ("woken_idle", idle), ("woken_idle_floor", idle_floor)]
        {
            self.note(&format!("icc.{name}_ns.p50"), "ns", p50);
        }
        for batch in [1, BATCH] {
            let rate = self.message_rate(batch)?;
            self.note(&format!("icc.messages_per_s.{batch}"), "1/s", rate);
        }
        for batch in [1, BATCH] {
            let rate = self.scalar_rate(batch)?;
            self.note(&format!("icc.scalars_per_s.{batch}"), "1/s", rate);
        }
        self.counters()?;
        self.blocks()?;
        self.packets()
    }

    /// Blocks, next to a bare copy.
    fn blocks(&mut self) -> Result<(), Error> {
        let pace = Duration::from_secs(1) / self.args.publications;
        let length = Duration::from_nanos(u64::from(self.args.exchanges) * 1000);
        for bytes in blocks::SIZES {
            let block = blocks::measure(&self.domain, self.cores, bytes, (pace, length))?;
            for (what, ns) in [
                ("copy", block.copy),
                ("publish", block.publish),
                ("publish_read", block.publish_read),
                ("read", block.read),
            ] {
                self.note(&format!("icc.block_{what}_ns.{bytes}"), "ns", ns);
            }
        }
        Ok(())
    }

    /// Packets through a channel, and through a Queue.
    fn packets(&mut self) -> Result<(), Error> {
        let length = Duration::from_nanos(u64::from(self.args.exchanges) * 1000);
        let moved =
            self.handoff.run().ok_or_else(|| Error::nothing("the workers of the hand-off had no turn"))?;
        let handoff: f64 = moved.apart[1].moving.iter().chain(&moved.apart[1].memory).sum();
        self.note("icc.handoff_ns", "ns", handoff);
        for bytes in PACKETS {
            let each = self.packets.ns_per_packet(self.cores, bytes, self.ghz, length)?;
            self.note(&format!("icc.packet_ns.{bytes}"), "ns", each);
            self.note(&format!("icc.packet_over_handoff.{bytes}"), "times", each / handoff.max(0.1));
        }
        Ok(())
    }

    /// Items a second that `push` sends on one core and `pop` takes on the other; both say how many.
    fn rate(&self, mut push: impl FnMut() -> usize + Send, mut pop: impl FnMut() -> usize + Send) -> f64 {
        let (items, cores) = (self.args.exchanges as usize * 40, self.cores);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                pin(cores[0]);
                start.wait();
                let mut sent = 0;
                while sent < items {
                    sent += push();
                }
            });
            let taking = scope.spawn(|| {
                pin(cores[1]);
                start.wait();
                let begun = Instant::now();
                let mut taken = 0;
                while taken < items {
                    taken += pop();
                }
                taken as f64 / begun.elapsed().as_secs_f64()
            });
            taking.join().unwrap_or_default()
        })
    }

    fn message_rate(&self, batch: usize) -> Result<f64, Error> {
        let [(mut sender, _), (_, mut receiver)] = self.ends()?;
        let message = [7u8; MESSAGE];
        let push = move || match batch {
            1 => usize::from(sender.send(&message).is_ok()),
            _ => sender.send_many(std::iter::repeat_n(&message[..], batch)).unwrap_or(0),
        };
        let mut buffer = [0; MESSAGE];
        let pop = move || match batch {
            1 => usize::from(matches!(receiver.receive(&mut buffer), Ok(Some(_)))),
            _ => receiver.receive_many(batch, |message| _ = black_box(message[0])).unwrap_or(0),
        };
        Ok(self.rate(push, pop))
    }

    fn scalar_rate(&self, batch: usize) -> Result<f64, Error> {
        let node = self.domain.node(2)?;
        let mut sender = node.scalar_sender("scalars")?;
        let mut receiver = node.scalar_receiver("scalars")?;
        let values = [7u64; BATCH];
        let push = move || sender.send_many(&values[..batch]).unwrap_or(0);
        let pop = move || receiver.receive_many(batch, |value| _ = black_box(value)).unwrap_or(0);
        Ok(self.rate(push, pop))
    }

    /// What a core that counts loses to a reader, and what publishing takes.
    fn counters(&mut self) -> Result<(), Error> {
        let mut reading = Reading::default();
        // In turn, so that both see the machine in the same moods.
        for _ in 0..4 {
            let without = self.count(false, &mut reading)?;
            let with = self.count(true, &mut reading)?;
            self.note("icc.counters_slowdown", "%", 100.0 * (with.ns_per_batch / without.ns_per_batch - 1.0));
            for counting in [without, with] {
                let share = counting.publish_ns * f64::from(self.args.publications) / 1e9;
                self.note("icc.counters_publish_ns", "ns", counting.publish_ns);
                self.note("icc.counters_publish_share", "%", 100.0 * share);
            }
        }
        self.note("icc.counters_read_ns", "ns", reading.ns_each());
        self.note("icc.counters_reads_per_s", "1/s", reading.per_s());
        Ok(())
    }

    /// A core that counts for a while, and perhaps another one that reads.
    fn count(&self, read: bool, reading: &mut Reading) -> Result<Counting, Error> {
        let node = self.domain.node(2)?;
        let mut writer = node.counter_writer("counters")?;
        let reader = node.counter_reader("counters")?;
        let (cores, count) = (self.cores, self.args.counters as usize);
        let pace = Duration::from_secs(1) / self.args.publications;
        let between = Duration::from_secs(1) / self.args.reads;
        let length = Duration::from_nanos(u64::from(self.args.exchanges) * 1000);
        let done = AtomicBool::new(false);
        let done = &done;
        thread::scope(|scope| {
            let counting = scope.spawn(move || {
                pin(cores[0]);
                let counting = count_for(length, pace, count, |counters| _ = writer.publish(counters));
                done.store(true, Ordering::Relaxed);
                counting
            });
            if read {
                let reading = &mut *reading;
                scope.spawn(move || {
                    pin(cores[1]);
                    let (mut counters, begun) = (Vec::new(), Instant::now());
                    let mut due = begun;
                    while !done.load(Ordering::Relaxed) {
                        if Instant::now() < due {
                            std::hint::spin_loop();
                            continue;
                        }
                        due += between;
                        let before = Instant::now();
                        reading.reads += u64::from(reader.read(&mut counters).is_ok());
                        reading.took += before.elapsed();
                        black_box(&counters);
                    }
                    reading.within += begun.elapsed();
                });
            }
            counting.join().map_err(|_| Error::Panicked("the counting thread"))
        })
    }
}

/// A word in lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

fn send(sender: &mut Sender, stamp: u64) {
    let mut message = [0; MESSAGE];
    message[..8].copy_from_slice(&stamp.to_ne_bytes());
    while sender.send(&message) == Err(ChannelError::Full) {}
}

/// Without what a measurement before has left.
fn emptied(mut receiver: Receiver) -> Receiver {
    while matches!(receiver.receive_many(BATCH, |_| ()), Ok(1..)) {}
    receiver
}

fn receive(receiver: &mut Receiver) -> u64 {
    let mut message = [0; MESSAGE];
    while !matches!(receiver.receive(&mut message), Ok(Some(_)) | Err(_)) {}
    let (stamp, _) = message.split_at(8);
    stamp.try_into().map_or(0, u64::from_ne_bytes)
}

/// What readings came to.
#[derive(Debug, Default)]
struct Reading {
    reads: u64,
    took: Duration,
    within: Duration,
}

impl Reading {
    fn ns_each(&self) -> f64 {
        self.took.as_nanos() as f64 / self.reads.max(1) as f64
    }

    fn per_s(&self) -> f64 {
        self.reads as f64 / self.within.as_secs_f64().max(1e-9)
    }
}

/// What counting took.
#[derive(Debug, Default)]
struct Counting {
    ns_per_batch: f64,
    publish_ns: f64,
}

fn thread_cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Counts batches of 32 packets as a worker does: some work for each, and a few counters, which are published now and then.
fn count_for(length: Duration, pace: Duration, count: usize, mut publish: impl FnMut(&[u64])) -> Counting {
    let mut counters = vec![0u64; count];
    let (begun, cpu) = (Instant::now(), thread_cpu_ns());
    let (mut due, mut batches, mut published, mut publishing, mut seed) = (begun, 0u64, 0u64, 0.0, 1u64);
    loop {
        for _ in 0..32 {
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            }
            counters[(seed >> 33) as usize % count] += 1;
        }
        batches += 1;
        let now = Instant::now();
        if now >= due {
            due += pace;
            publish(&counters);
            publishing += now.elapsed().as_nanos() as f64;
            published += 1;
            if now.duration_since(begun) > length {
                break;
            }
        }
    }
    let used = thread_cpu_ns() - cpu;
    Counting { ns_per_batch: used / batches as f64, publish_ns: publishing / published.max(1) as f64 }
}

/// Endpoints of the bench.
fn endpoints(counters: u32) -> Vec<Endpoint> {
    vec![
        Endpoint::messages(1, "there", MESSAGE as u32, ROOM),
        Endpoint::messages(2, "back", MESSAGE as u32, ROOM),
        Endpoint::scalars(3, "scalars", Width::Bits64, ROOM),
        Endpoint::counters(4, "counters", counters),
        Endpoint::blocks(5, "blocks", blocks::LONGEST),
    ]
}

fn measure_all(args: &Settings, cores: [usize; 2]) -> Result<Vec<Measured>, Error> {
    let shared = packet::Config { shared: args.share_frames, ..Default::default() };
    packet::Memory::reserve(shared)?;
    let (id, endpoints) = (NodeId::new(1, 1), endpoints(args.counters));
    let bytes = FileRegion::bytes(&endpoints)?;
    let scratch = Scratch(PathBuf::from(format!("/dev/shm/junctor-bench-icc-{}", std::process::id())));
    let file = FileRegion::make(&scratch.0, bytes, id, &endpoints)?;
    let domain = Domain::serve(id, &endpoints, None)?;
    let ghz = profile::clock::ghz();
    if ghz <= 0.0 {
        return Err(Error::NO_TSC);
    }
    let length = Duration::from_nanos(u64::from(args.exchanges) * 1000);
    let (packets, handoff) = (packets::Channel::new()?, Distance::new(cores, length)?);
    let mut icc = Icc { cores, args: args.clone(), ghz, domain, file, packets, handoff, results: Vec::new() };
    for _ in 0..args.runs.max(1) {
        icc.round()?;
    }
    Ok(icc.results)
}

/// Measures communication between planes in shared memory.
///
/// # Errors
/// There is one core only, or something did not work.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let cores = args.cores.map_or_else(super::locks::usual_cores, Vec::from);
    let [near, far] = cores[..] else {
        return Err(Error::Unsupported("two cores are needed, and this process may use one").into());
    };
    let conditions = json!({
        "cores": cores, "message_bytes": MESSAGE, "room": ROOM, "counters": args.counters, "reads_per_s": args.reads,
        "publications_per_s": args.publications, "exchanges": args.exchanges, "share_frames": args.share_frames,
    });
    let results = measure_all(args, [near, far])?;
    Ok(Findings { conditions, results })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_figure_is_there() {
        let args = Settings {
            cores: None,
            counters: 9,
            reads: 10_000,
            publications: 1000,
            runs: 2,
            exchanges: 100,
            share_frames: false,
        };
        let cores = super::super::locks::usual_cores();
        let Some([near, far]) = cores.first_chunk::<2>().copied() else {
            errln!("skipped: two cores are needed");
            return;
        };
        let results = measure_all(&args, [near, far]).unwrap();
        assert!(results.iter().all(|m| m.runs.iter().all(|value| value.is_finite())), "{results:?}");
        let listed = include_str!("../../../docs/json.md");
        for measured in &results {
            assert!(
                listed.contains(&format!("`{}`", measured.name)),
                "{} is not in docs/json.md",
                measured.name
            );
        }
        assert_eq!(results.len(), 34);
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        assert_eq!(percentiles((0..1000).rev().collect()), [500, 999]);
        assert_eq!(percentiles(Vec::new()), [0, 0]);
    }
}
