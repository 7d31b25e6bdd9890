// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adversarial clients of the control socket. A worker executes a bounded number of their calls between two rounds, the process holds a
//! bounded number of bytes for them, and other clients are served.

mod api;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use ctl::{Handlers, Listener, Rules, Server, Service};
use element::args::Args;
use element::{Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, OwnHandlers, Tasks};
use engine::clock::TimeSource;
use engine::{Control, Options, Registry, Router};
use packet::port::{Device, Error, Provider, Spec};

/// Handler calls that a control socket runs at a time, for all clients together: `MOST_CALLS` of the crate `ctl`.
const MOST_CALLS: u64 = 4;
/// Clients that are served at a time, and those that want to be.
const PLACES: usize = 6;
const HOSTILE: u64 = 10;
/// What each of them does at least, and all of them until this many calls were made: those in the way of the others decide how many one action makes.
const ACTIONS: usize = 40;
const ENOUGH: u64 = 400;
const AT_MOST: usize = 10_000;
/// A long answer, as of a big table.
const LONG: usize = 1 << 20;
/// What the process may take for all of them: the 64 MiB that the socket lets them hold, an answer and a command for each, and what the heap adds.
const MOST_BYTES: u64 = 192 << 20;

/// Calls since the task ran last, most of them between two rounds, all of them, and rounds.
static SINCE: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// Counts the calls that its worker executes between two of its tasks.
#[derive(Default)]
struct Meter;

impl Element for Meter {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, _: &mut Cx<'_>) -> bool {
        MOST.fetch_max(SINCE.swap(0, SeqCst), SeqCst);
        ROUNDS.fetch_add(1, SeqCst);
        true
    }
}

fn count() {
    SINCE.fetch_add(1, SeqCst);
    CALLS.fetch_add(1, SeqCst);
}

impl OwnHandlers for Meter {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        count();
        Ok(if name == "table" { "x".repeat(LONG) } else { "here".to_owned() })
    }

    fn write(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<(), HandlerError> {
        count();
        Ok(())
    }
}

static METER: Class = Class::new("Meter", "0/0", || Box::<Meter>::default())
    .own_handlers::<Meter>()
    .processing("a/a")
    .handlers(&[Handler::read("probe"), Handler::read("table"), Handler::write("take")]);

struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        panic!("nobody opens {}", spec.device)
    }
}

/// A control socket with so many places.
struct Offered(Control, usize);

impl Service for Offered {
    fn rules(&self) -> Rules {
        Rules { read_only: false, token: None, idle: None, most: self.1, verbose: false }
    }

    fn handlers(&self, _: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(self.0.clone())
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn say(&self, _: &str) {}

    fn wrote(&self, _: &str, _: usize, _: &str, _: bool) {}
}

/// One who sends what comes to mind.
struct Client<'a> {
    rng: fastrand::Rng,
    path: &'a Path,
    stream: Option<UnixStream>,
}

impl Client<'_> {
    fn send(&mut self, bytes: &[u8]) {
        if self.stream.is_none() {
            let Ok(stream) = UnixStream::connect(self.path) else { return };
            // One who does not read is not read from either, and gives up.
            stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            self.stream = Some(stream);
        }
        let done = self.stream.as_mut().map(|stream| stream.write_all(bytes));
        if done.is_some_and(|done| done.is_err_and(|why| why.kind() != ErrorKind::WouldBlock)) {
            self.stream = None;
        }
    }

    fn act(&mut self) {
        let some = |rng: &mut fastrand::Rng, longest: usize| -> Vec<u8> {
            let length = rng.usize(..longest);
            std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
        };
        match self.rng.u8(..11) {
            0 => self.send(b"READ m.probe\r\n"),
            // It never reads what it asks for.
            1 => self.send("READ m.table\r\n".repeat(300).as_bytes()),
            2 => self.send("READ m.probe\r\nWRITE m.take 1\r\n".repeat(300).as_bytes()),
            3 => self.send(b"WRITEDATA m.take 1000\r\nhalf of it"),
            4 => {
                let sizes = ["99999999999", "-1", "18446744073709551616", "16777216", "1e9", ""];
                let size = sizes[self.rng.usize(..sizes.len())];
                self.send(format!("WRITEDATA m.take {size}\r\n").as_bytes());
            }
            5 => self.send("READ ".repeat(20_000).as_bytes()),
            6 => {
                let noise = some(&mut self.rng, 8192);
                self.send(&noise);
            }
            7 => {
                let value = "v".repeat(self.rng.usize(..100_000));
                self.send(format!("WRITE m.take {value}\r\n").as_bytes());
            }
            8 => {
                self.send(b"READ list\r\nREAD m.handlers\r\nREAD flatconfig\r\nCHECKREAD m.probe\r\nHELP\r\n")
            }
            9 => self.stream = None,
            _ => {
                let mut taken = vec![0; self.rng.usize(1..65_536)];
                let gone =
                    self.stream.as_mut().is_some_and(|stream| matches!(stream.read(&mut taken), Ok(0)));
                if gone {
                    self.stream = None;
                }
            }
        }
    }
}

/// The most memory that this process has had.
fn peak_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// One who behaves is answered, at the latest when somebody makes room.
fn is_served(path: &Path) -> bool {
    let served = testbed::rig::wait_for("an answer", Duration::from_secs(60), || {
        let Ok(mut stream) = UnixStream::connect(path) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (mut answer, mut part) = (Vec::new(), [0; 256]);
        if stream.write_all(b"READ m.probe\r\nQUIT\r\n").is_err() {
            return false;
        }
        while let Ok(n @ 1..) = stream.read(&mut part) {
            answer.extend(&part[..n]);
        }
        String::from_utf8_lossy(&answer).contains("here")
    });
    served.is_ok()
}

/// Ends a router, however the test does: its thread would be waited for otherwise.
struct Ends<'a>(&'a Control);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A router with a meter.
fn router() -> Router {
    let parsed = lang::load_str("test", "m :: Meter;", &lang::Options::default());
    let options = Options {
        provider: Arc::new(NoDevices),
        workers: 1,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: TimeSource::Real,
        seed: 1,
        print: Some(Box::new(|_| ())),
        placer: None,
    };
    Router::build(&parsed.graph.unwrap(), &Registry::new([&METER]), options).unwrap()
}

#[test]
fn what_clients_do_costs_a_worker_a_bounded_number_of_calls() {
    let mut router = router();
    let control = router.control();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sock");
    let before = peak_bytes();
    let (connections, served) = std::thread::scope(|scope| {
        let _ends = Ends(&control);
        scope.spawn(|| router.run());
        let server =
            Server::start(Listener::unix(&path, None).unwrap(), Arc::new(Offered(control.clone(), PLACES)));
        let server = server.unwrap();
        let of = |number: u64| Client { rng: fastrand::Rng::with_seed(number), path: &path, stream: None };
        let hostile: Vec<_> = (0..HOSTILE)
            .map(|number| {
                let mut client = of(number);
                scope.spawn(move || {
                    for action in 0..AT_MOST {
                        if action >= ACTIONS && CALLS.load(SeqCst) >= ENOUGH {
                            break;
                        }
                        client.act();
                    }
                    client
                })
            })
            .collect();
        // Those that keep their connections stay in the way of the one who behaves.
        let staying: Vec<Client<'_>> = hostile.into_iter().map(|client| client.join().unwrap()).collect();
        let found = (server.connections(), is_served(&path));
        drop((staying, server));
        found
    });
    assert!(served && connections <= PLACES, "{connections} connections");
    let (most, calls, rounds) = (MOST.load(SeqCst), CALLS.load(SeqCst), ROUNDS.load(SeqCst));
    println!("{calls} calls in {rounds} rounds, at most {most} between two");
    assert!(most <= MOST_CALLS, "{most} calls between two rounds");
    assert!(calls >= ENOUGH && rounds > calls / MOST_CALLS, "{calls} calls, {rounds} rounds");
    let taken = peak_bytes() - before;
    assert!(taken < MOST_BYTES, "{} MiB were taken", taken >> 20);
}
