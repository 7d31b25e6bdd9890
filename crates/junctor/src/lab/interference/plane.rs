// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user plane of the lab: a reflector in a process of its own, on a core of its own, that can be paused.
//!
//! `junctor run` runs it. Its port is in memory: a source on the same core stands for the network card, and writes frames into a ring
//! as fast as there is room, or at a rate. The reflector takes them from there, swaps the addresses of Ethernet and IP, and gives them
//! back to the card, which frees them, run to completion. The ring is full before anything is measured, so as many frames are in use
//! as it holds, in turn, as with a card's ring. No frame is lost.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lab::process::Process;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::ctl::Client;

/// How long a user plane may take to start, or to do what it is asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a user plane is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    /// Its name in tables.
    pub(super) name: &'static str,
    /// Frames of the ring.
    pub(super) ring: usize,
    /// Bytes of a frame, without its checksum.
    pub(super) frame: usize,
    /// What is done besides swapping addresses.
    pub(super) work: Work,
    /// Frames a second; 0 for as many as are taken.
    pub(super) rate: u64,
    /// Packets at a time.
    pub(super) burst: usize,
    /// Frames of packet memory.
    pub(super) frames: usize,
    /// Packet memory may be in huge pages.
    pub(super) huge: bool,
}

/// What a user plane does with each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Its addresses are swapped.
    Header,
    /// Every byte is read, too: the checksum of UDP is verified.
    Payload,
    /// No frame comes in. The plane polls, with one frame of its own.
    Poll,
}

impl Kind {
    /// The usual one: frames of 64 bytes with their checksum, a ring of 1,024.
    pub(super) const REFLECTOR: Kind = Kind {
        name: "reflector",
        ring: 1024,
        frame: 60,
        work: Work::Header,
        rate: 0,
        burst: engine::DEFAULT_BURST,
        frames: 32_768,
        huge: true,
    };

    /// Its configuration.
    pub(super) fn text(&self) -> String {
        if self.work == Work::Poll {
            return "gen :: InfiniteSource(LENGTH 60, BURST 1, ACTIVE false) -> back :: Counter -> Discard;\n".into();
        }
        let sum = if self.work == Work::Payload { " -> CheckUDPHeader" } else { "" };
        format!(
            "gen :: FastUDPSource({rate}, -1, {frame}, 02:00:00:00:00:01, 10.0.0.1, 1000, 02:00:00:00:00:02, 10.0.0.2, 2000, ACTIVE false)
    -> ring :: Queue({ring}) -> drain :: Unqueue(ACTIVE false)
    -> MarkIPHeader(14){sum} -> EtherMirror -> IPMirror -> back :: Counter -> Discard;
",
            rate = self.rate,
            frame = self.frame,
            ring = self.ring,
        )
    }
}

/// One that runs.
pub(super) struct Plane {
    pub(super) kind: Kind,
    process: Process,
    client: Client,
    /// Holds its control socket.
    directory: tempfile::TempDir,
    /// It takes frames.
    running: bool,
}

impl Plane {
    /// Starts one on a core, paused, its ring full.
    pub(super) fn start(kind: Kind, cpu: usize) -> Result<Plane, String> {
        let failed = |why: &dyn std::fmt::Display| format!("the user plane '{}': {why}", kind.name);
        let directory = tempfile::tempdir().map_err(|e| failed(&e))?;
        let socket = directory.path().join("control");
        let mut process = spawn(kind, cpu, &socket).map_err(|e| failed(&e))?;
        let client = connect(&mut process, &socket).map_err(|e| failed(&e))?;
        let mut plane = Plane { kind, process, client, directory, running: false };
        plane.fill().map_err(|e| failed(&e))?;
        Ok(plane)
    }

    /// Lets the source fill the ring.
    fn fill(&mut self) -> Result<(), String> {
        // A slow source would take its time, and its ring is never full in use.
        if self.kind.work == Work::Poll || self.kind.rate > 0 {
            return Ok(());
        }
        self.write("gen.active", true)?;
        let started = Instant::now();
        while self.number("ring.length")? < self.kind.ring as u64 {
            self.look_after(started)?;
        }
        self.write("gen.active", false)
    }

    /// Waits a moment for what it does, unless it takes too long.
    fn look_after(&mut self, started: Instant) -> Result<(), String> {
        if let Some(status) = self.process.ended() {
            return Err(format!("it ended with {status}: {}", self.process.stderr()));
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("it does nothing for {} s: {}", PATIENCE.as_secs(), self.process.stderr()));
        }
        std::thread::sleep(Duration::from_micros(500));
        Ok(())
    }

    fn write(&mut self, handler: &str, value: bool) -> Result<(), String> {
        let wrong = |failure: crate::ctl::Failure| failure.into_words().0;
        self.client.write(handler, if value { "true" } else { "false" }).map(drop).map_err(wrong)
    }

    fn number(&mut self, handler: &str) -> Result<u64, String> {
        let text = self.client.read(handler).map_err(|failure| failure.into_words().0)?;
        text.trim().parse().map_err(|_| format!("{handler} is '{text}', which is no number"))
    }

    /// Frames that it has sent back.
    pub(super) fn count(&mut self) -> Result<u64, String> {
        self.number("back.count")
    }

    /// Frames come in from now on; returns when the first is back.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        if self.running {
            return Ok(());
        }
        let before = self.count()?;
        self.write("gen.active", true)?;
        if self.kind.work != Work::Poll {
            self.write("drain.active", true)?;
        }
        self.running = true;
        let started = Instant::now();
        while self.count()? == before {
            self.look_after(started)?;
        }
        Ok(())
    }

    /// No frame comes in any more; what is in the ring stays there. It sleeps when this returns, or is about to.
    pub(super) fn pause(&mut self) -> Result<(), String> {
        if !self.running {
            return Ok(());
        }
        if self.kind.work != Work::Poll {
            self.write("drain.active", false)?;
        }
        self.write("gen.active", false)?;
        self.running = false;
        let started = Instant::now();
        while self.count()? != self.count()? {
            self.look_after(started)?;
        }
        Ok(())
    }

    /// Bytes of its packet memory in huge pages, of all its memory.
    pub(super) fn huge_bytes(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        (kib("AnonHugePages:") + kib("Private_Hugetlb:")) << 10
    }
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plane({}, {})", self.kind.name, self.directory.path().display())
    }
}

/// Starts the program, all of it on one core. It ends with the thread that calls this.
fn spawn(kind: Kind, cpu: usize, socket: &std::path::Path) -> Result<Process, String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = super::tools::bound();
    command.arg(program).args(["run", "-e", &kind.text()]);
    command.args(["-j", &format!("{cpu}-{cpu}"), "--stats", "none", "--watchdog", "0"]);
    command.args(["--burst", &kind.burst.to_string(), "--frames", &kind.frames.to_string()]);
    command.arg("--control").arg(socket);
    let what = format!("junctor run ({})", kind.name);
    let start = || Process::spawn(command, what).map_err(|e| e.to_string());
    on_cpu(cpu, || without_huge(!kind.huge, start))?
}

/// Does something on a CPU; what it starts stays there.
fn on_cpu<T>(cpu: usize, what: impl FnOnce() -> T) -> Result<T, String> {
    let me = Pid::from_raw(0);
    let failed = |e| format!("cannot use CPU {cpu}: {e}");
    let before = nix::sched::sched_getaffinity(me).map_err(failed)?;
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(me, &set).map_err(failed)?;
    let done = what();
    sched_setaffinity(me, &before).map_err(failed)?;
    Ok(done)
}

/// Starts something with transparent huge pages off, which it inherits.
fn without_huge<T>(off: bool, what: impl FnOnce() -> T) -> T {
    // Where the kernel does not know the setting, `Plane::huge_bytes` shows it.
    let set = |off| nix::sys::prctl::set_thp_disable(off).is_ok();
    let changed = off && set(true);
    let done = what();
    if changed {
        set(false);
    }
    done
}

fn connect(process: &mut Process, socket: &std::path::Path) -> Result<Client, String> {
    let started = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Client::new(stream).map_err(|e| e.to_string());
        }
        if let Some(status) = process.ended() {
            return Err(format!("it ended with {status}: {}", process.stderr().trim()));
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("it does not listen after {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_a_configuration() {
        for work in [Work::Header, Work::Payload, Work::Poll] {
            let text = Kind { work, ..Kind::REFLECTOR }.text();
            let parsed = lang::load_str("test", &text, &elements::options());
            assert!(parsed.graph.is_some(), "{text}: {:?}", parsed.diagnostics);
        }
        let text = Kind { ring: 64, frame: 1514, rate: 5000, ..Kind::REFLECTOR }.text();
        assert!(text.contains("Queue(64)") && text.contains("FastUDPSource(5000, -1, 1514, "), "{text}");
    }
}
