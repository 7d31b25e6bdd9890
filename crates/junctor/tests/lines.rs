// SPDX-License-Identifier: MIT OR Apache-2.0
//! No two workers of a router on independent inputs write the same cache line: what one of them writes would else travel
//! to the other and back for every batch.
//!
//! Machines on loan seldom count coherence misses (`perf c2c`), so this simulates them. Two threads run a worker each, but in turn. All writable
//! memory of the process (heap, statics, stacks, thread-local data, packet memory) is compared before and after each turn. The lines that a worker
//! changed are those that it would have to own, and nobody may own a line twice.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{Control, Options, Router};
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::Replay;
use testbed::flows::Flow;

#[global_allocator]
static HEAP: sync::heap::LineHeap = sync::heap::LineHeap;

/// Packets that a worker sends in its turn.
const PACKETS: usize = 20_000;
const HOSTS: u8 = 16;
/// Rounds at most in which a line must change again to count as shared.
const ROUNDS: usize = 6;
/// No turn takes as long, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A replaying device for each name.
#[derive(Default)]
struct Devices(Mutex<HashMap<String, Arc<Replay>>>);

impl Devices {
    fn sent(&self) -> usize {
        self.0.lock().unwrap().values().map(|d| d.sent()).sum()
    }
}

impl Provider for Devices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut devices = self.0.lock().unwrap();
        if !devices.contains_key(&spec.device) {
            let to_eth1 = spec.device == "eth0";
            let packets: Vec<_> = (0..HOSTS).map(|host| frame(to_eth1, host)).collect();
            devices.insert(spec.device.clone(), Arc::new(Replay::new(&spec.device, &packets, 2, None)?));
        }
        Ok(devices[&spec.device].clone())
    }
}

/// What arrives at one interface of the example router for a host behind the other.
fn frame(to_eth1: bool, host: u8) -> Vec<u8> {
    let ether = if to_eth1 { [0, 0, 0xc0, 0xae, 0x67, 0xef] } else { [0, 0, 0xc0, 0x4f, 0x71, 0xef] };
    let (from, to) = if to_eth1 { (4, 7) } else { (7, 4) };
    let address = |net| Ipv4Addr::new(18, 26, net, 100 + host).into();
    let flow = Flow { from: address(from), to: address(to), from_port: 5000, to_port: 9 };
    flow.frame(ether, b"eighteen bytes ...")
}

/// Writable memory of the process, but for the stack of the thread that looks.
struct Memory {
    places: Vec<(u64, Vec<u8>)>,
    file: File,
}

impl Memory {
    fn new() -> Memory {
        let here = 0u8;
        let here = &raw const here as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
        let mut places = Vec::new();
        for line in maps.lines().filter(|l| l.contains(" rw-p ") && !l.contains("[v")) {
            let (from, to) =
                line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            let (from, to) = (number(from), number(to));
            if !(from..to).contains(&here) {
                places.push((from, vec![0; (to - from) as usize]));
            }
        }
        Memory { places, file: File::open("/proc/self/mem").expect("/proc/self/mem") }
    }

    /// Looks again, and notes the lines that changed since the last look. Nothing is allocated meanwhile.
    fn look(&mut self, mut changed: Option<&mut Vec<u64>>) {
        let mut page = [0; 4096];
        for (from, bytes) in &mut self.places {
            for (at, old) in (0..).step_by(4096).zip(bytes.chunks_mut(4096)) {
                let now = &mut page[..old.len()];
                // What has been unmapped meanwhile is nobody's.
                if self.file.read_exact_at(now, *from + at).is_err() {
                    continue;
                }
                let Some(changed) = changed.as_deref_mut() else {
                    old.copy_from_slice(now);
                    continue;
                };
                for (i, (now, old)) in now.chunks(64).zip(old.chunks_mut(64)).enumerate() {
                    if now != old {
                        assert!(
                            changed.len() < changed.capacity(),
                            "more lines change than there is room for"
                        );
                        changed.push((*from + at) / 64 + i as u64);
                        old.copy_from_slice(now);
                    }
                }
            }
        }
    }
}

/// A thread that runs one worker when asked, until the router is stopped; or does everything else, when asked not to.
///
/// It waits in a system call: a thread that is awake meanwhile would go on to change its stack, and the kernel its `rseq` area, during the
/// turn of the other one. A pipe keeps nothing in this process, unlike a channel, whose lists change now and then for either.
struct Turns {
    asks: PipeWriter,
    done: Arc<AtomicBool>,
}

const RUN: u8 = 1;
const DO_NOT: u8 = 2;

impl Turns {
    fn new(worker: usize, router: &Arc<Mutex<Router>>) -> Turns {
        let (mut asked, asks) = std::io::pipe().expect("a pipe");
        let done = Arc::new(AtomicBool::new(false));
        let (is_done, router) = (done.clone(), router.clone());
        std::thread::spawn(move || {
            let mut ask = [0];
            while asked.read(&mut ask).expect("a pipe") == 1 {
                let mut router = router.lock().unwrap();
                router.resume();
                if ask == [RUN] {
                    router.run_alone(worker);
                }
                drop(router);
                is_done.store(true, Ordering::Release);
            }
        });
        Turns { asks, done }
    }

    /// Lets the worker send packets, or nothing.
    fn take(&self, packets: usize, devices: &Devices, control: &Control) {
        let goal = devices.sent() + packets;
        self.done.store(false, Ordering::Release);
        (&self.asks).write_all(&[if packets > 0 { RUN } else { DO_NOT }]).expect("a thread");
        let begun = Instant::now();
        while devices.sent() < goal {
            std::thread::yield_now();
            assert!(
                begun.elapsed() < PATIENCE,
                "the worker stands still: {} of {goal} packets sent, {:?}",
                devices.sent(),
                packet::memory().usage()
            );
        }
        control.stop();
        while !self.done.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// Lines that both workers of the configuration change, and how many each does.
fn shared_lines(conf: &str, change: impl Fn(String) -> String) -> (BTreeSet<u64>, [usize; 2]) {
    let path = format!("{}/../../conf/{conf}", env!("CARGO_MANIFEST_DIR"));
    let text = change(std::fs::read_to_string(path).expect("the example"));
    let parsed = lang::load_str(conf, &text, &elements::options());
    let graph = parsed.graph.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let devices = Arc::new(Devices::default());
    let options = Options {
        provider: devices.clone(),
        workers: 2,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: TimeSource::Real,
        seed: 1,
        print: Some(Box::new(|_| {})),
        placer: None,
    };
    let mut router = Router::build(&graph, &elements::registry(), options).expect("a router");
    for (arp, net) in [("arpq0", 4), ("arpq1", 7)] {
        for host in 0..HOSTS {
            let entry = format!("18.26.{net}.{} 2:0:0:0:{net}:{host}", 100 + host);
            router.write(&format!("{arp}.insert"), &entry).unwrap();
        }
    }
    let control = router.control();
    let router = Arc::new(Mutex::new(router));
    let workers = [0, 1].map(|w| Turns::new(w, &router));
    workers.iter().for_each(|w| w.take(PACKETS, &devices, &control));
    let mut memory = Memory::new();
    let mut changed = [(); 3].map(|()| Vec::with_capacity(1 << 16));
    let [harness, first, second] = &mut changed;
    let mut round = || {
        [&mut *harness, &mut *first, &mut *second].into_iter().for_each(Vec::clear);
        memory.look(None);
        // What the harness itself changes is nobody's.
        workers.iter().for_each(|w| w.take(0, &devices, &control));
        memory.look(Some(harness));
        workers[0].take(PACKETS, &devices, &control);
        memory.look(Some(first));
        workers[1].take(PACKETS, &devices, &control);
        memory.look(Some(second));
        let set = |lines: &[u64]| lines.iter().copied().collect::<BTreeSet<_>>();
        let harness = set(harness);
        let (first, second) = (&set(first) - &harness, &set(second) - &harness);
        (&first & &second, [first.len(), second.len()])
    };
    let (mut common, each) = round();
    for _ in 1..ROUNDS {
        if common.is_empty() {
            break;
        }
        // What changes only now and then, such as while a thread waits for its turn, is not there each time; what workers share is.
        common = &common & &round().0;
    }
    (common, each)
}

#[test]
fn workers_on_independent_inputs_write_no_common_line() {
    packet::Memory::reserve(packet::Config { frames: 4096, jumbo_frames: 64, ..Default::default() })
        .expect("packet memory");
    for conf in ["ip-router-noqueue.click", "ip-router.click"] {
        let (common, each) = shared_lines(conf, |text| text);
        eprintln!("{conf}: the workers change {each:?} lines");
        assert!(each.iter().all(|n| *n > 50), "{conf}: they did no work: {each:?}");
        let shown: Vec<String> = common.iter().map(|line| format!("{:#x}", line * 64)).collect();
        assert!(common.is_empty(), "{conf}: both workers write the lines {shown:?}");
    }
    // The simulation does see what is shared: one table behind one lock.
    let lock = |text: String| text.replace("0.0.0.0/0 $GATEWAY 1)", "0.0.0.0/0 $GATEWAY 1, SYNC lock)");
    let (common, _) = shared_lines("ip-router-noqueue.click", lock);
    assert!(!common.is_empty(), "a lock is shared, yet no line is");
}
