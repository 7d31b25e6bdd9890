// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations are swapped while packets flow, and tasks are moved from worker to worker: no packet is lost, none overtakes
//! another of its flow, counters and tables go on.

mod polled;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{Control, ElementId, Options, Router};
use packet::port::Provider;
use packet::{Batch, Packet};
use polled::{Polled, Ports};
use ports::memory::{End, Wire};
use reconfigure::{Placement, SwapError};

const FLOWS: u8 = 16;
/// Packets on their way at most: fewer than the wires and the smallest queue hold.
const WINDOW: u64 = 600;

fn graph(text: &str) -> lang::Graph {
    let parsed = lang::load_str("test", text, &elements::options());
    parsed.graph.unwrap_or_else(|| panic!("{text}: {:?}", parsed.diagnostics))
}

fn options(workers: usize, provider: Arc<dyn Provider>) -> Options {
    Options {
        provider,
        workers,
        reserve: 0,
        cores: Vec::new(),
        burst: 32,
        time: TimeSource::Real,
        seed: 1,
        print: Some(Box::new(|_| ())),
        placer: Some(reconfigure::placer()),
    }
}

/// A random configuration between the wires of this name: the same devices, counters, queues and tables, in all kinds of
/// company.
fn configuration(rng: &mut fastrand::Rng, name: &str) -> String {
    let company = |rng: &mut fastrand::Rng| {
        let pieces = [
            "Null",
            "Paint(1)",
            "Counter",
            "Strip(1) -> Unstrip(1)",
            "SetTimestamp",
            "Print(ACTIVE false)",
            "Align(4, 0)",
        ];
        let n = rng.usize(0..4);
        (0..n).map(|_| format!("{} -> ", pieces[rng.usize(..pieces.len())])).collect::<String>()
    };
    let capacity = |rng: &mut fastrand::Rng| rng.usize(WINDOW as usize..3000);
    // Flows of one parity leave by one device, of the other by the other.
    let by = if rng.bool() { "Classifier(0/00%01, -)" } else { "Classifier(0/01%01, 0/00%01)" };
    let swapped = usize::from(by.ends_with("0/00%01)"));
    let mut text = format!("s :: {by};\n");
    for side in ["a", "b"] {
        let input = format!("in_{side} :: FromDevice({name}-in-{side}/r, METHOD MEMORY)");
        text += &format!("{input} -> {}c_{side} :: Counter -> {}s;\n", company(rng), company(rng));
    }
    for (n, side) in ["x", "y"].into_iter().enumerate() {
        let output = format!("out_{side} :: ToDevice({name}-out-{side}/r, METHOD MEMORY)");
        let (before, after) = (company(rng), company(rng));
        let port = n ^ swapped;
        text += &format!("s[{port}] -> {before}q_{side} :: Queue({}) -> {after}{output};\n", capacity(rng));
    }
    text += "Idle -> rt :: RadixIPLookup(10.0.0.0/8 0) -> Discard;\n";
    text += "Idle -> arp :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> [1]arp;\n";
    if rng.bool() {
        // Workers ask each other.
        text += "Script(TYPE ACTIVE, init n 0, label again, set n $(c_a.count), set n $(c_b.count), wait 0.001, goto again);\n";
    }
    if rng.bool() {
        // Elements that come and go, with tasks of their own.
        text += "TimedSource(0.01) -> Counter -> Discard;\n";
    }
    text
}

/// What is sent into a router and what comes out.
trait Load: Sync {
    /// Where the router's devices come from.
    fn provider(&self) -> Arc<dyn Provider>;
    /// Sends and receives until asked to end, and then until all has come that was sent, or time is up.
    fn carry(&self);
    fn end(&self);
    fn sent(&self) -> u64;
    fn received(&self) -> u64;
    /// Packets that came out of order.
    fn wrong(&self) -> Vec<String>;
}

/// Whether a wait for the last packets has taken so long that they will not come.
fn is_in_vain(since: &mut Option<Instant>) -> bool {
    since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(120)
}

/// Packets on wires, as many as there is room for.
struct Traffic {
    into: Vec<End>,
    from: Vec<End>,
    sent: AtomicU64,
    received: AtomicU64,
    ended: AtomicBool,
    /// Nothing is sent any more.
    all_sent: AtomicBool,
    wrong: Mutex<Vec<String>>,
}

impl Traffic {
    fn new(name: &str) -> Traffic {
        let end = |what: &str| Wire::named(&format!("{name}-{what}")).attach().expect("a wire");
        Traffic {
            into: ["in-a", "in-b"].map(end).into(),
            from: ["out-x", "out-y"].map(end).into(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            all_sent: AtomicBool::new(false),
            wrong: Mutex::default(),
        }
    }

    /// Sends numbered packets of all flows, as fast as the window allows, until asked to end.
    fn send(&self) {
        let mut next = [0u32; 256];
        let mut rng = fastrand::Rng::with_seed(7);
        while !self.ended.load(Ordering::Relaxed) {
            let on_the_way = self.sent.load(Ordering::Relaxed) - self.received.load(Ordering::Acquire);
            if on_the_way + 32 > WINDOW {
                std::thread::yield_now();
                continue;
            }
            // A flow always comes by the same device.
            let side = rng.u8(0..2);
            let mut batch = Batch::new();
            for _ in 0..rng.usize(1..32) {
                let flow = rng.u8(..FLOWS) | (side << 7);
                let number = &mut next[usize::from(flow)];
                let mut frame = [0; 60];
                frame[0] = flow;
                frame[1..5].copy_from_slice(&number.to_be_bytes());
                *number += 1;
                batch.extend(Packet::copy_of(&frame));
            }
            self.sent.fetch_add(batch.len() as u64, Ordering::Relaxed);
            self.into[usize::from(side)].send(&mut batch);
        }
        self.all_sent.store(true, Ordering::Release);
    }

    /// Receives until all has come that was sent, or time is up.
    fn receive(&self) {
        let mut next: HashMap<u8, u32> = HashMap::new();
        let mut patience: Option<Instant> = None;
        loop {
            let mut got = 0;
            for end in &self.from {
                for packet in end.collect().iter() {
                    let (flow, number) = (packet.data()[0], packet.data()[1..5].try_into().unwrap());
                    let (number, due) = (u32::from_be_bytes(number), next.entry(flow).or_default());
                    if number != *due {
                        self.wrong.lock().unwrap().push(format!("flow {flow:#x}: {number}, not {due}"));
                    }
                    *due = number + 1;
                    got += 1;
                }
            }
            self.received.fetch_add(got, Ordering::Release);
            if got > 0 {
                patience = None;
                continue;
            }
            if self.all_sent.load(Ordering::Acquire) {
                let all = self.received.load(Ordering::Relaxed) == self.sent.load(Ordering::Relaxed);
                if all || is_in_vain(&mut patience) {
                    return;
                }
            }
            std::thread::yield_now();
        }
    }
}

impl Load for Traffic {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(ports::SystemProvider::new())
    }

    fn carry(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.send());
            self.receive();
        });
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }
}

impl Load for Arc<Polled> {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(Ports(self.clone()))
    }

    fn carry(&self) {
        let mut patience = None;
        while !self.is_ended() || (self.received() != Polled::sent(self) && !is_in_vain(&mut patience)) {
            std::thread::yield_now();
        }
    }

    fn end(&self) {
        Polled::end(self);
    }

    fn sent(&self) -> u64 {
        Polled::sent(self)
    }

    fn received(&self) -> u64 {
        Polled::received(self)
    }

    fn wrong(&self) -> Vec<String> {
        Polled::wrong(self)
    }
}

/// Ends all threads when the test ends, also by a failure.
struct Ending<'a>(&'a Control, &'a dyn Load, &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.2.store(true, Ordering::Relaxed);
        self.1.end();
        self.0.stop();
    }
}

/// Runs a random configuration under load while `change` is done to it `changes` times; it returns how long it stopped packets.
fn check(
    name: &str,
    seed: u64,
    workers: usize,
    changes: usize,
    change: impl FnMut(usize, &mut fastrand::Rng, &Control) -> Duration,
) {
    check_under(&Traffic::new(name), name, seed, workers, changes, change);
}

/// The same under a given load.
fn check_under(
    load: &dyn Load,
    name: &str,
    seed: u64,
    workers: usize,
    changes: usize,
    mut change: impl FnMut(usize, &mut fastrand::Rng, &Control) -> Duration,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let options = options(workers, load.provider());
    let mut router = Router::build(&graph(&configuration(&mut rng, name)), &elements::registry(), options)
        .unwrap_or_else(|e| panic!("{e:?}"));
    let control = router.control();
    let (mut pauses, ended) = (Vec::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = Ending(&control, load, &ended);
        let running = scope.spawn(|| router.run());
        control.write("rt.add", "10.1.0.0/16 0").unwrap();
        control.write("arp.insert", "10.0.0.9 2:0:0:0:0:9").unwrap();
        let carrying = scope.spawn(|| load.carry());
        let watching = scope.spawn(|| watch(&control, &ended));
        pauses.extend((0..changes).map(|n| change(n, &mut rng, &control)));
        ended.store(true, Ordering::Relaxed);
        load.end();
        carrying.join().unwrap();
        watching.join().unwrap();
        let read = |handler: &str| control.read(handler, "").unwrap();
        let number = |handler: &str| read(handler).parse::<u64>().unwrap();
        let (sent, wrong) = (load.sent(), load.wrong());
        assert!(wrong.is_empty(), "seed {seed}: {} wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        assert_eq!(load.received(), sent, "seed {seed}: packets lost");
        assert_eq!(number("c_a.count") + number("c_b.count"), sent);
        assert_eq!(number("in_a.count") + number("in_b.count"), sent);
        assert_eq!(number("out_x.count") + number("out_y.count"), sent);
        assert_eq!((number("q_x.drops"), number("q_y.drops")), (0, 0));
        let report = control.report().unwrap();
        let shared = control.shared();
        let counted = |element: &str| report.elements[shared.named(element).unwrap()].outputs[0].packets;
        assert_eq!(counted("c_a") + counted("c_b"), sent);
        assert_eq!(counted("q_x") + counted("q_y"), sent);
        assert_eq!((read("rt.nroutes"), read("arp.count")), ("2".into(), "1".into()));
        control.stop();
        running.join().unwrap();
    });
    pauses.sort_unstable();
    eprintln!(
        "{changes} changes under {} packets, {workers} workers: pause median {:?}, longest {:?}",
        load.sent(),
        pauses[pauses.len() / 2],
        pauses[pauses.len() - 1]
    );
}

/// Puts another random configuration in place.
fn swap(name: &str) -> impl FnMut(usize, &mut fastrand::Rng, &Control) -> Duration {
    move |n, rng, control| {
        let text = configuration(rng, name);
        let swapped =
            reconfigure::swap(control, &graph(&text), || ()).unwrap_or_else(|e| panic!("{e:?}: {text}"));
        assert_eq!((swapped.lost(), swapped.queues), (0, 4), "swap {n}: {swapped}: {text}");
        if n % 50 == 0 {
            refused(control);
        }
        swapped.pause
    }
}

/// Gives random tasks random homes, and lets random numbers of workers take part.
fn place(n: usize, rng: &mut fastrand::Rng, control: &Control) -> Duration {
    let shared = control.shared();
    let tasks = shared.elements.iter_enumerated().filter(|(_, e)| !e.place.tasks.is_empty());
    let mut placement = Placement::default();
    if rng.u8(..4) == 0 {
        placement.active = Some(rng.usize(1..=shared.workers()));
    } else {
        let some: Vec<ElementId> = tasks.map(|t| t.0).filter(|_| rng.bool()).collect();
        let anywhere = |e: ElementId| (e, vec![rng.usize(..shared.active_workers())]);
        placement.homes = some.into_iter().map(anywhere).collect();
    }
    let moved = reconfigure::place(control, &shared, &placement)
        .unwrap_or_else(|e| panic!("{n}: {e}: {placement:?}"));
    let now = control.shared();
    for (e, workers) in &placement.homes {
        assert_eq!(&now.elements[*e].place.tasks, workers, "{n}: {}: {moved}", now.elements[*e].name);
    }
    assert!(placement.active.is_none_or(|n| n == now.active_workers()));
    moved.pause
}

/// Asks for counters all the time: they never go back, even while configurations are exchanged.
fn watch(control: &Control, ended: &AtomicBool) {
    let mut before = 0;
    while !ended.load(Ordering::Relaxed) {
        let count: u64 = control.read("c_a.count", "").unwrap().parse().unwrap();
        assert!(count >= before, "{count} after {before}");
        let shared = control.shared();
        let at = shared.named("c_a").unwrap();
        let report = control.report().unwrap();
        // The report may be of the next configuration already.
        if Arc::ptr_eq(&shared, &control.shared()) {
            assert!(report.elements[at].outputs[0].packets >= count);
        }
        before = count;
        std::thread::yield_now();
    }
}

/// Configurations that cannot be built leave the running one as it is.
fn refused(control: &Control) {
    let before = control.shared();
    for (text, why) in [
        ("Idle -> x :: Nonesuch -> Discard;", "unknown element class"),
        ("FromDevice(no-such-device) -> Discard;", "could not open"),
        ("Idle -> RED(5, 50, 0.02, QUEUES nowhere) -> Discard;", "could not start"),
    ] {
        let parsed = lang::load_str("test", text, &elements::options());
        let Some(graph) = parsed.graph else { continue };
        match reconfigure::swap(control, &graph, || ()) {
            Err(SwapError::Refused(errors)) => {
                assert!(errors.iter().any(|e| e.message.contains(why)), "{text}: {errors:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(Arc::ptr_eq(&before, &control.shared()));
}

#[test]
fn one_worker_loses_nothing() {
    check("swap1", 1, 1, 500, swap("swap1"));
}

#[test]
fn two_workers_lose_nothing() {
    check("swap2", 2, 2, 500, swap("swap2"));
}

#[test]
fn nothing_is_lost_when_tasks_move() {
    check("place2", 3, 2, 500, place);
    check("place3", 4, 3, 500, place);
}

#[test]
fn nothing_is_lost_when_tasks_move_and_configurations_change() {
    let mut swap = swap("both");
    check(
        "both",
        5,
        3,
        500,
        |n, rng, control| if n % 3 == 0 { swap(n, rng, control) } else { place(n, rng, control) },
    );
}

/// The load is a share of what the router takes when there is always more: measured, set, and measured again, by polls and not by time.
#[test]
fn a_thousand_swaps_at_four_fifths_of_the_full_load_lose_nothing() {
    let polled = Polled::new(0.8);
    let mut swap = swap("load");
    check_under(&polled, "load", 6, 2, 1000, |n, rng, control| {
        // Some thousand packets go through between any two swaps.
        polled.go_on(40);
        swap(n, rng, control)
    });
    let (load, ticks) = (polled.load(), polled.ticks());
    assert!(ticks >= 40_000 && (0.79..0.81).contains(&load), "{load} of the full load in {ticks} polls");
    eprintln!("{:.2} % of the full load in {ticks} polls", 100.0 * load);
}
