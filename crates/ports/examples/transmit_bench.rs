// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many frames a second leave by a virtual cable, by what sends them.
//!
//! ```text
//! cargo build --release -p junctor-ports --example transmit_bench
//! sudo target/release/examples/transmit_bench [ROUNDS [SECONDS [CORE]]]
//! ```
//! Everybody sends 60-byte UDP frames as fast as he can on one core, which also does the receiver's part: a program in the hook at
//! the other end counts and drops. With CORE the receiver has a thread of its own on that core. Each has his own cable; rounds are
//! interleaved, and medians and ratios within the run are what to quote:
//! * *replay*: `BPF_PROG_RUN`, one frame over and over ([`Generator`]);
//! * *stream*: the same, 256 flows, numbered, signed, with the time and a checksum, by a schedule ([`Stream`]);
//! * AF_XDP and AF_PACKET, which send what lies ready: no frame is made for them;
//! * trafgen, where it is installed (`apt-get install netsniff-ng`): one frame over and over, by a ring of AF_PACKET's.

mod shared;

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use junctor_ports::SystemProvider;
use junctor_ports::live::stream::{Frame, Part, Plan, Stream, monotonic_ns};
use junctor_ports::live::{Generator, HookSink};
use packet::port::{Provider, Spec};
use packet::{Batch, HEADROOM, Packet};
use testbed::rig::{Cable, Rig, available};

use shared::{Failure, Rounds, finish, pin, print_table, udp_frame};

const BURST: usize = 64;
/// Frames of a call of the generator: few enough for a round to end in time.
const CALL: u32 = 1 << 21;

#[derive(Clone, Copy)]
enum Way {
    Replay,
    Stream,
    Queue(&'static str),
    Trafgen,
}

/// A program and everything that it has started, until this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: this only sends a signal; the group is that of our child, which is not waited for before.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        // One that has ended already said why.
        let _ = self.0.wait();
    }
}

struct Candidate {
    name: &'static str,
    way: Way,
    rig: Rig,
    frames_per_second: Vec<f64>,
}

impl Candidate {
    fn new(name: &'static str, way: Way, receiver: Option<usize>) -> Result<Candidate, Failure> {
        let rig = Rig::new(Cable::default())?;
        rig.dut.run(&["ethtool", "-K", "d0", "gro", "on"])?;
        if let Some(core) = receiver {
            rig.dut.receive_on("d0", &[core])?;
        }
        Ok(Candidate { name, way, rig, frames_per_second: Vec::new() })
    }

    fn rounds(&self) -> Rounds<'_> {
        Rounds { name: self.name, frames_per_second: &self.frames_per_second }
    }

    fn measure(&mut self, time: Duration) -> Result<(), Failure> {
        let sink = self.rig.dut.enter(|| HookSink::new("d0"))??;
        let frame = udp_frame(self.rig.dut.mac("d0")?, self.rig.a.mac("a0")?);
        let (frames, elapsed) = self.rig.a.enter(|| {
            // Who sends in a thread or process of its own there, at a real-time priority lets no equal have a turn.
            if !matches!(self.way, Way::Stream | Way::Trafgen) {
                pin(0);
            }
            match self.way {
                Way::Replay => replay(&frame, time, &sink),
                Way::Stream => stream(&frame, time, &sink),
                Way::Queue(method) => queue(&frame, method, time, &sink),
                Way::Trafgen => trafgen(&frame, time, &sink),
            }
        })??;
        self.frames_per_second.push(frames as f64 / elapsed.as_secs_f64());
        Ok(())
    }
}

fn replay(frame: &[u8], time: Duration, sink: &HookSink) -> Result<(u64, Duration), Failure> {
    let generator = Generator::new("a0", frame, None)?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        generator.send(CALL)?;
    }
    Ok((sink.received(), begun.elapsed()))
}

fn stream(frame: &[u8], time: Duration, sink: &HookSink) -> Result<(u64, Duration), Failure> {
    let mut stream = Stream::open("a0", || pin(0))?;
    let frames: Vec<Frame> =
        (0..256).map(|flow| Frame { bytes: frame.to_vec(), checksum_at: 40, sum: 0x1234, flow }).collect();
    stream.load(&frames, 1, &[0])?;
    stream.arm()?;
    // All are due at once, more than anybody sends.
    let parts = vec![Part { start_ns: 0, interval: 1, frames: 1 << 40 }];
    stream.begin(&Plan { parts, burst: 1, origin_ns: monotonic_ns(), key: [1, 2] })?;
    let begun = Instant::now();
    std::thread::sleep(time);
    let (received, elapsed) = (sink.received(), begun.elapsed());
    drop(stream);
    Ok((received, elapsed))
}

fn queue(frame: &[u8], method: &str, time: Duration, sink: &HookSink) -> Result<(u64, Duration), Failure> {
    let method = Some(method.to_owned());
    let device = SystemProvider::new().open(&Spec { device: "a0".to_owned(), method, ..Spec::default() })?;
    let mut tx = device.tx(0)?;
    let mut batch = Batch::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        Packet::alloc_bulk(BURST - batch.len(), HEADROOM, frame.len(), |mut packet| {
            packet.data_mut().copy_from_slice(frame);
            batch.push(packet);
        });
        tx.transmit(&mut batch);
        tx.flush();
    }
    batch.free_all();
    Ok((sink.received(), begun.elapsed()))
}

fn trafgen(frame: &[u8], time: Duration, sink: &HookSink) -> Result<(u64, Duration), Failure> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0", "trafgen"]);
    let bytes: Vec<String> = frame.iter().map(|byte| format!("{byte:#04x}")).collect();
    command.args(["--dev", "a0", "--cpus", "1", "--no-cpu-stats", &format!("{{ {} }}", bytes.join(", "))]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = Running(command.process_group(0).spawn()?);
    let patience = Instant::now();
    while sink.received() == 0 {
        if let Some(status) = program.0.try_wait()? {
            return Err(format!("trafgen ended at once: {status}").into());
        }
        if patience.elapsed() > Duration::from_secs(10) {
            return Err("trafgen sends nothing".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let (begun, before) = (Instant::now(), sink.received());
    std::thread::sleep(time);
    Ok((sink.received() - before, begun.elapsed()))
}

/// Whether there is a program of this name.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn run() -> Result<(), Failure> {
    available()?;
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(4), |a| a.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |a| a.parse())?;
    let receiver: Option<usize> = arguments.next().map(|a| a.parse()).transpose()?;
    let mut ways = vec![
        ("replay", Way::Replay),
        ("stream", Way::Stream),
        ("AF_XDP", Way::Queue("AF_XDP")),
        ("AF_PACKET", Way::Queue("AF_PACKET")),
    ];
    match is_installed("trafgen") {
        true => ways.push(("trafgen", Way::Trafgen)),
        false => println!("trafgen is not installed, and left out"),
    }
    let candidates = ways.into_iter().map(|(name, way)| Candidate::new(name, way, receiver));
    let mut candidates = candidates.collect::<Result<Vec<_>, _>>()?;
    for _ in 0..rounds {
        for candidate in &mut candidates {
            candidate.measure(Duration::from_secs_f64(seconds))?;
        }
    }
    print_table("60 bytes", 2, &candidates.iter().map(Candidate::rounds).collect::<Vec<_>>());
    Ok(())
}

fn main() -> ExitCode {
    finish("transmit_bench", run())
}
