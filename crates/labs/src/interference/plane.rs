// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user planes of the lab: reflectors that can be paused, in a partition of their own.
//!
//! `junctor up` runs them on the user plane's core. The reflector has the core to itself, in a deployment with the control plane (`amp`). Those that
//! are compared with each other share it (`smp`), and one of them works at a time. Their ports are in memory: a source on the same core stands for
//! the network card, and writes frames into a ring as fast as there is room, or at a rate. The reflector takes them from there, swaps the addresses
//! of Ethernet and IP, and gives them back to the card, which frees them, run to completion. The ring is full before anything is measured, so as many
//! frames are in use as it holds, in turn, as with a card's ring. No frame is lost.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::deployment::Deployment;
use super::control::{self, Control};
use super::machine::LabMachine;
use crate::Error;
use client::Client;

/// How long a user plane may take to start, or to do what it is asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a user plane is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlaneKind {
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

/// Bits of a prefix in a table.
const PREFIX: u32 = 24;

/// What a user plane does with each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Its addresses are swapped.
    Header,
    /// Every byte is read, too: the checksum of UDP is verified.
    Payload,
    /// Frames are random, and their destination is looked up in a table of two to the power of so many routes. `rate` does not count.
    Lookup(u32),
    /// No frame comes in. The plane polls, with one frame of its own.
    Poll,
}

impl PlaneKind {
    /// The usual one: frames of 64 bytes with their checksum, a ring of 1,024.
    pub(super) const REFLECTOR: PlaneKind = PlaneKind {
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
        let udp = format!(
            "FastUDPSource({}, -1, {}, 02:00:00:00:00:01, 10.0.0.1, 1000, 02:00:00:00:00:02, 10.0.0.2, 2000",
            self.rate, self.frame
        );
        let (source, work) = match self.work {
            Work::Payload => (udp, "CheckUDPHeader -> EtherMirror -> IPMirror".to_owned()),
            Work::Lookup(_) => (
                format!("RandomSource({}, BURST {}", self.frame, self.burst),
                format!(
                    "GetIPAddress(30) -> RadixIPLookup(0.0.0.0/0 0, FILE {}) -> EtherMirror",
                    self.routes_file()
                ),
            ),
            Work::Header | Work::Poll => (udp, "EtherMirror -> IPMirror".to_owned()),
        };
        format!(
            "gen :: {source}, ACTIVE false)
    -> ring :: Queue({ring}) -> drain :: Unqueue(ACTIVE false)
    -> MarkIPHeader(14) -> {work} -> back :: Counter -> Discard;
",
            ring = self.ring,
        )
    }

    /// The file of its table in the deployment's directory; those with the same table share it.
    fn routes_file(&self) -> String {
        match self.work {
            Work::Lookup(bits) => format!("routes-{bits}"),
            _ => String::new(),
        }
    }

    /// The routes of its table, spread over all addresses.
    fn routes(&self) -> Option<String> {
        let Work::Lookup(bits) = self.work else { return None };
        let bits = bits.min(PREFIX);
        let lines = (0..1u32 << bits).map(|n| u32::to_be_bytes(if bits == 0 { 0 } else { n << (32 - bits) }));
        Some(lines.fold(String::new(), |mut text, [a, b, c, d]| {
            let _ = writeln!(text, "{a}.{b}.{c}.{d}/{PREFIX} 0");
            text
        }))
    }
}

/// One that runs.
pub(super) struct Plane {
    pub(super) kind: PlaneKind,
    /// Its name in the deployment.
    name: String,
    deployment: Rc<Deployment>,
    client: Client,
    /// It takes frames.
    running: bool,
}

impl Plane {
    /// Starts one in a deployment with the control plane. Each has a core to itself. This one is paused, its ring full.
    pub(super) fn start_with_control(kind: PlaneKind, place: &LabMachine) -> Result<(Plane, Control), Error> {
        let (mut text, mut files) = ("placement = \"amp\"\n".to_owned(), Vec::new());
        describe(&mut text, &mut files, 0, &kind);
        let _ = writeln!(text, "cores = \"{}\"", place.user);
        control::describe(&mut text, place)?;
        let deployment =
            Rc::new(start(&text, &files, &[&[place.control, place.user], &place.own[..]].concat())?);
        let control = Control::of(deployment.clone())?;
        Plane::of(deployment, 0, kind).map(|plane| (plane, control))
    }

    /// Starts some that share a core, all paused, their rings full.
    pub(super) fn start_all(kinds: &[PlaneKind], cpu: usize) -> Result<Vec<Plane>, Error> {
        // A deployment takes the right to huge pages from the lab, so there may be two.
        let mut deployments = [false, true].map(|huge| {
            let these: Vec<(usize, PlaneKind)> =
                kinds.iter().copied().enumerate().filter(|(_, kind)| kind.huge == huge).collect();
            let start = || deploy(&these, cpu);
            (!these.is_empty()).then(|| without_huge(!huge, start).map(Rc::new))
        });
        let mut planes = Vec::new();
        for (i, kind) in kinds.iter().enumerate() {
            let deployment = deployments[usize::from(kind.huge)].take();
            let deployment = deployment.ok_or_else(|| Error::nothing("no deployment"))??;
            deployments[usize::from(kind.huge)] = Some(Ok(deployment.clone()));
            planes.push(Plane::of(deployment, i, *kind)?);
        }
        Ok(planes)
    }

    /// That of a number, of a deployment; its ring is full when this returns.
    fn of(deployment: Rc<Deployment>, number: usize, kind: PlaneKind) -> Result<Plane, Error> {
        let failed = |why: Error| why.of(format_args!("the user plane '{}'", kind.name));
        let name = name_of(number);
        let client = connect(&deployment.control(&name)).map_err(failed)?;
        let mut plane = Plane { kind, name, deployment, client, running: false };
        plane.fill().map_err(failed)?;
        Ok(plane)
    }

    /// How it is kept on its core, as `junctor ps` says.
    pub(super) fn partition(&self) -> Result<String, Error> {
        self.deployment.row(&self.name).map(|row| row.partition)
    }

    /// Lets the source fill the ring.
    fn fill(&mut self) -> Result<(), Error> {
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
    fn look_after(&mut self, started: Instant) -> Result<(), Error> {
        if started.elapsed() > PATIENCE {
            let said = self.deployment.said();
            return Err(Error::nothing(format!("it does nothing for {} s: {said}", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_micros(500));
        Ok(())
    }

    fn write(&mut self, handler: &str, value: bool) -> Result<(), Error> {
        self.client.write(handler, if value { "true" } else { "false" })?;
        Ok(())
    }

    fn number(&mut self, handler: &str) -> Result<u64, Error> {
        let text = self.client.read(handler)?;
        let number = text.trim().parse();
        number.map_err(|_| Error::Nothing(format!("{handler} is '{text}', which is no number")))
    }

    /// Frames that it has sent back.
    pub(super) fn count(&mut self) -> Result<u64, Error> {
        self.number("back.count")
    }

    /// Frames come in from now on; returns when the first is back.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
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
    pub(super) fn pause(&mut self) -> Result<(), Error> {
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
        let pid = self.deployment.row(&self.name).ok().and_then(|row| row.pid).unwrap_or(0);
        let path = format!("/proc/{pid}/smaps_rollup");
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
        write!(f, "Plane({}, {})", self.kind.name, self.name)
    }
}

fn name_of(number: usize) -> String {
    format!("user{number}")
}

/// Adds a user plane to the text of a deployment, and its files to those.
fn describe(text: &mut String, files: &mut Vec<(String, String)>, number: usize, kind: &PlaneKind) {
    let name = name_of(number);
    let _ = write!(
        text,
        "[planes.{name}]\nkind = \"user\"\nconfig = \"{name}.click\"\nrestart = \"never\"\nheartbeat = \"0s\"\n\
         arguments = [\"--stats\", \"none\", \"--watchdog\", \"0\", \"--burst\", \"{}\", \"--frames\", \"{}\"]\n",
        kind.burst, kind.frames
    );
    files.push((format!("{name}.click"), kind.text()));
    files.extend(kind.routes().map(|routes| (kind.routes_file(), routes)));
}

/// Starts user planes, with their numbers, that share a core.
fn deploy(planes: &[(usize, PlaneKind)], cpu: usize) -> Result<Deployment, Error> {
    let (mut text, mut files) = (format!("placement = \"smp\"\ncores = \"{cpu}\"\n"), Vec::new());
    for (number, kind) in planes {
        describe(&mut text, &mut files, *number, kind);
    }
    start(&text, &files, &[cpu])
}

fn start(text: &str, files: &[(String, String)], cores: &[usize]) -> Result<Deployment, Error> {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    Deployment::start(None, text, &files, cores)
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

fn connect(socket: &Path) -> Result<Client, Error> {
    let started = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(Client::new(stream)?);
        }
        if started.elapsed() > PATIENCE {
            return Err(Error::nothing(format!("it does not listen after {} s", PATIENCE.as_secs())));
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
            let text = PlaneKind { work, ..PlaneKind::REFLECTOR }.text();
            assert!(!text.contains("Lookup"), "{text}");
            let parsed = lang::load_str("test", &text, &elements::options());
            assert!(parsed.graph.is_some(), "{text}: {:?}", parsed.diagnostics);
        }
        let table = PlaneKind { work: Work::Lookup(2), ..PlaneKind::REFLECTOR };
        assert!(table.text().contains("RadixIPLookup(0.0.0.0/0 0, FILE routes-2)"), "{}", table.text());
        assert_eq!(
            table.routes().expect("routes"),
            "0.0.0.0/24 0\n64.0.0.0/24 0\n128.0.0.0/24 0\n192.0.0.0/24 0\n"
        );
        let text = PlaneKind { ring: 64, frame: 1514, rate: 5000, ..PlaneKind::REFLECTOR }.text();
        assert!(text.contains("Queue(64)") && text.contains("FastUDPSource(5000, -1, 1514, "), "{text}");
    }
}
