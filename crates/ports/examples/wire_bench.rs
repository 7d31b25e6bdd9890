// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packets a second our drivers carry between two virtual cables, against the kernel.
//!
//! ```text
//! cargo build --release -p junctor-ports --example wire_bench
//! sudo target/release/examples/wire_bench [ROUNDS [SECONDS]]
//! sudo JUNCTOR=target/release/junctor target/release/examples/wire_bench bridge [ROUNDS [SECONDS]]
//! ```
//! Each candidate has its own rig of namespaces, all alike; rounds are interleaved, and medians and ratios within
//! the run are what to quote. Core 0 generates 60-byte UDP packets faster than anybody forwards them; core 1 is the
//! device under test:
//! * the kernel forwards, or with `bridge` its bridge does, in a NAPI thread pinned to core 1;
//! * our forwarder (rewrite addresses, decrement TTL) spins on core 1, fed by the receive interrupt on core 0;
//! * with `JUNCTOR=target/release/junctor`, that program routes: header check, lookup, TTL, new Ethernet header; or it bridges
//!   two ports whose stations it has learned, as the kernel's bridge has.
//!
//! With `bridge` the kernel is measured twice: the second time its bridge works in the receive interrupt, on the generator's core.
//!
//! Counted is what arrives at the far end, where a classifier drops it.

mod shared;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use junctor_ports::SystemProvider;
use junctor_ports::live::{Generator, Sink};
use packet::port::{Provider, Spec};
use packet::{Batch, Packet};
use testbed::rig::{Cable, Namespace, Process, Rig, available};

use shared::{Failure, Rounds, finish, pin, print_table, udp_frame};

const BURST: usize = 64;
const FRAMES_PER_CALL: u32 = 1 << 21;

/// What is done with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Route,
    Bridge,
}

/// Who does it.
enum Who {
    /// The kernel: in a thread on core 1, or where the generator is.
    Kernel { threaded: bool },
    /// The loop in this file, by a driver.
    Loop(&'static str),
    /// A program, by a driver.
    Program(String, &'static str),
}

struct Candidate {
    name: &'static str,
    who: Who,
    work: Work,
    rig: Rig,
    frames_per_second: Vec<f64>,
}

impl Candidate {
    fn new(name: &'static str, who: Who, work: Work) -> Result<Candidate, Failure> {
        let rig = Rig::new(Cable::default())?;
        rig.address_hosts()?;
        // NAPI on, or generated frames do not arrive.
        rig.dut.run(&["ethtool", "-K", "d0", "gro", "on"])?;
        if let Who::Kernel { threaded } = who {
            match work {
                Work::Route => {
                    let b = rig.b.mac("b0")?.map(|byte| format!("{byte:02x}")).join(":");
                    rig.route_by_kernel()?;
                    rig.dut.ip(&format!("neigh add 10.0.2.2 lladdr {b} dev d1"))?;
                }
                Work::Bridge => {
                    rig.dut.ip("link add br0 type bridge")?;
                    for port in ["d0", "d1"] {
                        rig.dut.ip(&format!("link set {port} master br0"))?;
                    }
                    rig.dut.ip("link set br0 up")?;
                }
            }
            if threaded {
                // The receive interrupt in a thread of its own, which can be pinned.
                rig.dut.run(&["sh", "-c", "echo 1 > /sys/class/net/d0/threaded"])?;
                let pin = "pids=$(pgrep napi/d0-) && for p in $pids; do taskset -cp 1 $p; done";
                rig.dut.run(&["sh", "-c", pin])?;
            }
        }
        Ok(Candidate { name, who, work, rig, frames_per_second: Vec::new() })
    }

    /// What a program runs between d0 and d1.
    fn configuration(&self, method: &str) -> Result<String, Failure> {
        if self.work == Work::Bridge {
            let port = |n: u8| {
                format!(
                    "FromDevice(d{n}, METHOD {method}, PROMISC true) -> [{n}]b[{n}] -> ToDevice(d{n}, METHOD {method});\n"
                )
            };
            return Ok(format!("b :: Bridge(PORTS 2);\n{}{}", port(0), port(1)));
        }
        let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let (from, to) = (text(self.rig.dut.mac("d1")?), text(self.rig.b.mac("b0")?));
        Ok(format!(
            "FromDevice(d0, METHOD {method}) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)
               -> rt :: StaticIPLookup(10.0.2.0/24 0, 0.0.0.0/0 1);
             rt[1] -> Discard;
             rt[0] -> DecIPTTL -> EtherEncap(0x0800, {from}, {to}) -> Queue(1024) -> ToDevice(d1, METHOD {method});"
        ))
    }

    /// Starts the program, if one does the work.
    fn start(&self) -> Result<Option<Process>, Failure> {
        let Who::Program(program, method) = &self.who else { return Ok(None) };
        let text = self.configuration(method)?;
        let command = ["taskset", "-c", "1", program, "run", "-j", "1", "--control", "none", "-e", &text];
        let mut process = self.rig.dut.spawn(&command)?;
        process.wait_for_text("sends by", Duration::from_secs(20))?;
        Ok(Some(process))
    }

    /// Lets a bridge see a frame of the far end, so that it knows where that is.
    fn introduce(&self) -> Result<(), Failure> {
        let frame = udp_frame([0xff; 6], self.rig.b.mac("b0")?);
        let sent = self.rig.b.enter(|| -> Result<usize, String> {
            let method = Some("AF_PACKET".to_owned());
            let spec = Spec { device: "b0".to_owned(), method, ..Spec::default() };
            let device = SystemProvider::new().open(&spec).map_err(|e| e.to_string())?;
            let mut tx = device.tx(0).map_err(|e| e.to_string())?;
            let sent = tx.transmit(&mut Batch::of(Packet::copy_of(&frame).ok_or("no packet memory")?));
            tx.flush();
            Ok(sent)
        })??;
        if sent == 1 { Ok(()) } else { Err("the far end cannot send".into()) }
    }

    fn rounds(&self) -> Rounds<'_> {
        Rounds { name: self.name, frames_per_second: &self.frames_per_second }
    }

    fn measure(&mut self, time: Duration) -> Result<(), Failure> {
        let stop = AtomicBool::new(false);
        let rig = &self.rig;
        let program = self.start()?;
        let to = match self.work {
            Work::Route => rig.dut.mac("d0")?,
            Work::Bridge => {
                self.introduce()?;
                rig.b.mac("b0")?
            }
        };
        let frame = udp_frame(to, rig.a.mac("a0")?);
        let rate = std::thread::scope(|scope| {
            let method = if let Who::Loop(method) = self.who { Some(method) } else { None };
            let forwarder = method.map(|method| {
                let stop = &stop;
                scope.spawn(move || rig.dut.enter(|| forward(rig, method, stop).map_err(|e| e.to_string())))
            });
            let generator = scope.spawn(|| {
                rig.a.enter(|| -> std::io::Result<()> {
                    pin(0);
                    let generator = Generator::new("a0", &frame, Some(34))?;
                    while !stop.load(Ordering::Relaxed) {
                        generator.send(FRAMES_PER_CALL)?;
                    }
                    Ok(())
                })
            });
            let rate = rig.b.enter(|| -> Result<f64, String> {
                let _sink = Sink::new("b0").map_err(|e| e.to_string())?;
                std::thread::sleep(time / 4);
                let (before, begin) = (received(&rig.b)?, Instant::now());
                std::thread::sleep(time);
                let (after, elapsed) = (received(&rig.b)?, begin.elapsed());
                Ok((after - before) as f64 / elapsed.as_secs_f64())
            });
            stop.store(true, Ordering::Relaxed);
            generator.join().expect("the generator does not panic")??;
            if let Some(forwarder) = forwarder {
                forwarder.join().expect("the forwarder does not panic")??;
            }
            Ok::<f64, Failure>(rate??)
        })?;
        drop(program);
        self.frames_per_second.push(rate);
        Ok(())
    }
}

/// Forwards from d0 to d1 until asked to stop.
fn forward(rig: &Rig, method: &str, stop: &AtomicBool) -> Result<(), Failure> {
    pin(1);
    let provider = SystemProvider::new();
    let open = |name: &str| {
        let method = Some(method.to_owned());
        provider.open(&Spec { device: name.to_owned(), method, sniffer: Some(false), ..Spec::default() })
    };
    let (d0, d1) = (open("d0")?, open("d1")?);
    let (mut rx, mut tx) = (d0.rx(0)?, d1.tx(0)?);
    let header = [rig.b.mac("b0")?, rig.dut.mac("d1")?].concat();
    let mut batch = Batch::new();
    while !stop.load(Ordering::Relaxed) {
        if rx.receive(&mut batch, BURST) == 0 {
            tx.flush();
            std::hint::spin_loop();
            continue;
        }
        batch.iter_mut().for_each(|packet| route(packet, &header));
        tx.transmit(&mut batch);
        tx.flush();
        batch.free_all();
    }
    Ok(())
}

/// What routing does to a packet: new addresses, TTL less one and the checksum with it (RFC 1624).
fn route(packet: &mut Packet, header: &[u8]) {
    let bytes = packet.data_mut();
    if bytes.len() < 34 {
        return;
    }
    bytes[..12].copy_from_slice(header);
    bytes[22] = bytes[22].wrapping_sub(1);
    let sum = u32::from(u16::from_be_bytes([bytes[24], bytes[25]])) + 0x100;
    bytes[24..26].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
}

/// Packets that `b0` has received.
fn received(b: &Namespace) -> Result<u64, String> {
    let text = b.ip("-s link show b0").map_err(|e| e.to_string())?;
    let numbers = text.lines().skip_while(|line| !line.trim_start().starts_with("RX:")).nth(1);
    let packets = numbers.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.ok_or_else(|| format!("no counters in {text}"))
}

/// Who is measured at this work; ratios are to the first.
fn candidates(work: Work) -> Result<Vec<Candidate>, Failure> {
    let programs = match std::env::var("JUNCTOR") {
        Ok(program) => vec![
            ("junctor AF_XDP", Who::Program(program.clone(), "AF_XDP")),
            ("junctor AF_PACKET", Who::Program(program, "AF_PACKET")),
        ],
        Err(_) => Vec::new(),
    };
    let all = match work {
        Work::Route => vec![
            ("kernel forwarding", Who::Kernel { threaded: true }),
            ("AF_XDP", Who::Loop("AF_XDP")),
            ("AF_PACKET", Who::Loop("AF_PACKET")),
        ],
        Work::Bridge => vec![
            ("kernel bridge", Who::Kernel { threaded: true }),
            ("the same, core 0", Who::Kernel { threaded: false }),
        ],
    };
    all.into_iter().chain(programs).map(|(name, who)| Candidate::new(name, who, work)).collect()
}

fn run() -> Result<(), Failure> {
    available()?;
    let mut arguments = std::env::args().skip(1).peekable();
    let work = match arguments.next_if(|word| word == "bridge") {
        Some(_) => Work::Bridge,
        None => Work::Route,
    };
    let rounds: usize = arguments.next().map_or(Ok(4), |a| a.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |a| a.parse())?;
    let mut candidates = candidates(work)?;
    for _ in 0..rounds {
        for candidate in &mut candidates {
            candidate.measure(Duration::from_secs_f64(seconds))?;
        }
    }
    print_table("60-byte frames", 0, &candidates.iter().map(Candidate::rounds).collect::<Vec<_>>());
    Ok(())
}

fn main() -> ExitCode {
    finish("wire_bench", run())
}
