// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker that stalls is named with the element and the packet, the others go on, and nobody waits for it.

// The tests of the engine call it by its package's name.
extern crate engine as junctor_engine;

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use engine::args::Args;
use engine::observer::{Observation, Observer, Wants};
use engine::stall::Stall;
use engine::{
    Class, Control, Cx, Element, Handler, HandlerError, InitCx, Merge, OpenCx, OwnHandlers, Router, Tasks,
};
use junctor_reconfigure::{SwapError, swap, watch_workers};
use packet::{Batch, Packet};

use common::graph;

/// How long the tests wait for what must come.
const SURELY: Duration = Duration::from_secs(60);

/// While the gate is shut, a thread that comes to it stays in it.
struct Gate {
    shut: Mutex<bool>,
    opens: Condvar,
}

static GATE: Gate = Gate { shut: Mutex::new(false), opens: Condvar::new() };

impl Gate {
    fn set(&self, shut: bool) {
        *self.state() = shut;
        self.opens.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, bool> {
        self.shut.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn pass(&self) {
        let state = self.state();
        WAITING.store(u32::from(*state), SeqCst);
        drop(self.opens.wait_while(state, |shut| *shut));
    }
}

/// Sends batches of three packets of 70 bytes: a number of the element's, then 0, 1 and so on. Without a number it sends nothing.
#[derive(Default)]
struct Source(u32);

impl Element for Source {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = args.positional("NUMBER", 0);
    }

    fn open(&mut self, _cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.0 == 0 {
            return false;
        }
        let bytes: Vec<u8> = (0..70).map(|i| if i == 0 { self.0 as u8 } else { i - 1 }).collect();
        cx.push(0, (0..3).filter_map(|_| Packet::copy_of(&bytes)).collect());
        true
    }
}

/// Where a gate stands: in the way of packets, or in a handler.
#[derive(Default)]
struct Gated;

impl Element for Gated {
    fn configure(&mut self, _args: &mut Args<'_>) {}

    fn process(&mut self, _cx: &mut Cx<'_>, batch: Batch) -> Batch {
        GATE.pass();
        batch
    }
}

impl OwnHandlers for Gated {
    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _value: &str) -> Result<(), HandlerError> {
        match name {
            "wait" => {
                GATE.set(true);
                GATE.pass();
            }
            _ => drop(WRITTEN.fetch_add(1, SeqCst)),
        }
        Ok(())
    }
}

/// Whether somebody stands in the gate.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Writes to `Gated.note`.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Counts packets and drops them.
#[derive(Default)]
struct Sink(u64);

impl Element for Sink {
    fn configure(&mut self, _args: &mut Args<'_>) {}

    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: Batch) {
        self.0 += batch.len() as u64;
    }
}

impl OwnHandlers for Sink {
    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, HandlerError> {
        Ok(self.0.to_string())
    }
}

static SOURCE: Class = Class::new("Source", "0/1", || Box::<Source>::default()).processing("h/h");
static GATED: Class = Class::new("Gated", "1/1", || Box::<Gated>::default())
    .own_handlers::<Gated>()
    .handlers(&[Handler::write("wait"), Handler::write("note")]);
static SINK: Class = Class::new("Sink", "1/0", || Box::<Sink>::default())
    .own_handlers::<Sink>()
    .processing("h/h")
    .handlers(&[Handler::read("count").merge(Merge::Sum)]);

/// There is one gate.
static TURN: Mutex<()> = Mutex::new(());

/// A router that is watched, of two workers, and what it prints.
fn router(text: &str, cores: &[usize]) -> (Router, Receiver<String>) {
    let (tell, told) = channel();
    let classes = [&SOURCE, &GATED, &SINK];
    let mut router = common::router(text, classes, cores, move |line| drop(tell.send(line.to_owned())));
    watch_workers(&mut router, Some(Duration::from_millis(250)));
    (router, told)
}

/// Runs a router that is watched, of two workers, while `test` looks at it and at what it prints.
fn watched(text: &str, test: impl FnOnce(&Control, &Receiver<String>)) {
    watched_on(text, &[], test);
}

/// The same with workers pinned to these cores.
fn watched_on(text: &str, cores: &[usize], test: impl FnOnce(&Control, &Receiver<String>)) {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let (mut router, told) = router(text, cores);
    let control = router.control();
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        // However the test ends, the router has to.
        struct Ends<'a>(&'a Control);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                GATE.set(false);
                self.0.stop();
            }
        }
        let _ends = Ends(&control);
        test(&control, &told);
    });
}

/// What a worker answers that nothing holds. On a busy machine also such a worker may seem to stall for a while, and is then
/// not waited for.
fn surely<T, E: std::fmt::Debug>(mut ask: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) => assert!(start.elapsed() < SURELY, "{why:?}"),
        }
    }
}

/// What an element of such a worker has counted.
fn count(control: &Control, sink: &str) -> u64 {
    surely(|| control.read(&format!("{sink}.count"), "")).parse().unwrap()
}

/// Shuts the gate until it is said that the first worker stalls in it. One that has no turn on its way there may be found to
/// stall before it comes, which is said of the place where it was, and once: then it gets another way.
fn stalls_in_gate(told: &Receiver<String>) -> String {
    let start = Instant::now();
    while start.elapsed() < SURELY {
        GATE.set(true);
        let text = said_of(told, "worker 0 ");
        if text.contains(" has stalled in 'g' (Gated) at its input 0") {
            return text;
        }
        if text.contains(" has stalled ") {
            GATE.set(false);
            said_of(told, "worker 0 goes on");
        }
    }
    panic!("the first worker does not stall in the gate");
}

/// What is said of a worker that stalls, and when it goes on. A machine with much else to do may starve the other one, too.
fn said_of(told: &Receiver<String>, gated: &str) -> String {
    loop {
        let text = told.recv_timeout(SURELY).expect("something is said");
        if text.contains(gated) {
            return text;
        }
    }
}

const TWO: &str = "a :: Source(7) -> g :: Gated -> s :: Sink; b :: Source(8) -> h :: Sink;";

#[test]
fn a_worker_that_stalls_is_named_and_nobody_waits_for_it() {
    watched(TWO, |control, told| {
        let text = stalls_in_gate(told);
        assert!(text.starts_with("worker 0 on CPU "), "{text}");
        assert!(
            text.contains(" has stalled in 'g' (Gated) at its input 0: no round has ended for "),
            "{text}"
        );
        assert!(text.contains("\n  in hand: 3 packets\n    70 bytes: 07000102 03040506 0708090a "), "{text}");
        // The first 64 bytes of each.
        assert_eq!(text.matches("3b3c3d3e ...").count(), 3, "{text}");
        assert!(text.contains("the other workers go on"), "{text}");

        let before = count(control, "h");
        while count(control, "h") < before + 1000 {}
        let why = control.read("s.count", "").unwrap_err().to_string();
        assert!(
            why.starts_with("worker 0 does not answer: it has stalled in 'g' (Gated) at its input 0"),
            "{why}"
        );
        assert!(control.write("g.note", "x").is_err());
        assert!(
            surely(|| control.read("list", "")).starts_with("5\n"),
            "what any worker can answer, one answers"
        );
        assert!(matches!(swap(control, &graph(TWO), || {}), Err(SwapError::Stalled(_))));
        assert!(control.report().is_some());

        GATE.set(false);
        let text = said_of(told, "worker 0 goes on");
        assert!(text.starts_with("worker 0 goes on, after "), "{text}");
        // All is as before, and what was refused has not happened.
        assert!(count(control, "s") > 0);
        assert_eq!(WRITTEN.load(SeqCst), 0);
        surely(|| control.write("g.note", "x"));
        assert!(WRITTEN.load(SeqCst) >= 1);
        surely(|| swap(control, &graph(TWO), || {}));
    });
}

/// Reports rounds that took too long.
struct Tells(Sender<Stall>);

impl Observer for Tells {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, _: &Observation<'_>) {}

    fn stalled(&mut self, stall: &Stall) {
        drop(self.0.send(stall.clone()));
    }
}

/// Lets the first worker stand in the gate until `enough` is true of it.
fn stands_in_gate(control: &Control, enough: impl Fn(&Control) -> bool) {
    GATE.set(true);
    while WAITING.load(SeqCst) == 0 || !enough(control) {}
    GATE.set(false);
}

#[test]
fn a_round_that_takes_too_long_is_told_with_the_element_and_the_packets_in_hand() {
    const BOUND: u64 = 1_000_000;
    watched(TWO, |control, _| {
        if sync::tsc() == 0 {
            return;
        }
        let (tell, stalls) = channel();
        let wants = Wants { rounds_above: Some(BOUND), ..Wants::default() };
        let stuck = control.add_observers(&control.shared(), 1, &wants, &|| Box::new(Tells(tell.clone())));
        assert_eq!(stuck.ok(), Some(Vec::new()));
        let start = Instant::now();
        let stall = loop {
            stands_in_gate(control, |_| {
                let begun = sync::tsc();
                while sync::tsc() - begun < 2 * BOUND {}
                true
            });
            // Others may take long, too, where much else goes on.
            let in_gate = |s: &Stall| {
                let long = s.longest.is_some_and(|longest| longest >= 2 * BOUND);
                s.worker == 0 && s.place == "in 'g' (Gated) at its input 0" && long
            };
            match stalls.try_iter().find(in_gate) {
                Some(stall) => break stall,
                None => assert!(start.elapsed() < SURELY),
            }
        };
        assert!(stall.longest <= Some(stall.cycles));
        assert_eq!(stall.element.map(|e| control.shared().elements[e].name.clone()).as_deref(), Some("g"));
        assert_eq!((stall.packets, stall.heads.len()), (3, 3));
        for head in &stall.heads {
            assert_eq!((head.len, &head.bytes[..4]), (70, &[7, 0, 1, 2][..]));
        }
        control.remove_observers(&control.shared(), 1);
        while stalls.try_recv().is_ok() {}
        stands_in_gate(control, |_| true);
        let before = count(control, "s");
        while count(control, "s") == before {}
        assert!(stalls.try_recv().is_err(), "nobody is told when nobody waits for it");
    });
}

#[test]
fn a_round_that_goes_on_is_seen_from_outside() {
    watched(TWO, |control, _| {
        stands_in_gate(control, |control| {
            // It is on its way into the element, or there.
            let Some(standing) = control.standing(0) else { return false };
            if control.standing(0) != Some(standing) {
                return false;
            }
            let stall = control.stall(0, standing, 7, 8);
            if !stall.place.starts_with("in 'g'") {
                return false;
            }
            assert_eq!((stall.cycles, stall.wall_ns, stall.longest, stall.packets), (7, 8, None, 3));
            stall.heads.iter().for_each(|head| assert_eq!((head.len, head.bytes[0]), (70, 7)));
            assert_eq!(stall.heads.len(), 3);
            true
        });
    });
}

#[test]
fn a_swap_that_has_begun_does_not_wait_for_ever() {
    watched(TWO, |control, told| {
        GATE.set(true);
        while WAITING.load(SeqCst) == 0 {}
        // Most likely nobody has found out yet.
        assert!(matches!(swap(control, &graph(TWO), || {}), Err(SwapError::Stalled(_))));
        // Or it was the other one that had no turn, and this one is found out next.
        said_of(told, "worker 0 ");
        GATE.set(false);
        // It finds that it was asked to halt, and that nobody wants it any more.
        surely(|| swap(control, &graph(TWO), || {}));
        while count(control, "s") == 0 {}
    });
}

#[test]
fn a_handler_that_does_not_return_is_named_to_its_caller() {
    watched("a :: Source -> g :: Gated -> s :: Sink; b :: Source(1) -> h :: Sink;", |control, told| {
        let start = Instant::now();
        loop {
            let why = control.write("g.wait", "").unwrap_err().to_string();
            if why.contains("in a write handler of 'g' (Gated), for ") && why.contains("this very call") {
                break;
            }
            // It had no turn to begin with it, and was found to stall where it was before.
            assert!(why.contains("it has stalled ") && start.elapsed() < SURELY, "{why}");
            GATE.set(false);
        }
        said_of(told, "in a write handler of 'g'");
        assert!(count(control, "h") > 0);
    });
}

/// Ends a router whose first worker stands in the gate. The gate has to open even if the test fails.
fn ends_beside_a_stalled_worker(limit: Option<Duration>) {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    struct Opens;
    impl Drop for Opens {
        fn drop(&mut self) {
            GATE.set(false);
        }
    }
    let (mut router, told) = router(TWO, &[]);
    let control = router.control();
    GATE.set(true);
    let _opens = Opens;
    if let Some(limit) = limit {
        router.stop_after(limit);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        while WAITING.load(SeqCst) == 0 || count(&control, "h") < 1000 {}
        if limit.is_none() {
            control.stop();
        }
    });
    assert_eq!(router.left_behind(), [0]);
    let text = said_of(&told, "has not ended");
    assert!(
        text.starts_with("worker 0 has not ended, ") && text.contains("in 'g' (Gated) at its input 0"),
        "{text}"
    );
    assert!(text.contains("; it is left behind\n  in hand: 3 packets\n"), "{text}");
    assert!(
        text.contains(
            "\n  not ended with it, so that what they hold is neither written nor freed: 'a', 'g', 's'"
        ),
        "{text}"
    );
    // What the other worker has done is there to be asked for, and the rest is refused.
    let counted: u64 = router.read("h.count", "").unwrap().parse().unwrap();
    assert!(counted >= 1000);
    let why = router.read("s.count", "").unwrap_err().to_string();
    assert!(why.contains("left behind"), "{why}");
    assert!(router.report().elements.len() == 5);
}

#[test]
fn a_router_ends_beside_a_worker_that_does_not() {
    ends_beside_a_stalled_worker(None);
}

#[test]
fn the_time_limit_holds_also_where_the_first_worker_does_not_look_at_it() {
    ends_beside_a_stalled_worker(Some(Duration::from_millis(500)));
}

#[test]
fn a_worker_that_is_moved_is_said_to_be() {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|c| c.id).collect();
    let [first, second, ..] = cores[..] else {
        eprintln!("there is but one processor to move workers between");
        return;
    };
    let only = |cpu| {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        set
    };
    watched_on("Source(1) -> Sink; Source(2) -> h :: Sink;", &[first, second], |control, told| {
        while count(control, "h") == 0 {}
        let name = |task: &std::path::Path| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let mut tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|t| t.path());
        let task = tasks.find(|t| name(t).trim() == "worker-1").expect("the worker's thread");
        let task =
            task.file_name().and_then(|n| n.to_str()?.parse().ok()).and_then(rustix::thread::Pid::from_raw);
        rustix::thread::sched_setaffinity(task, &only(first)).expect("to move a thread");
        let said = said_of(told, "moved worker 1");
        assert_eq!(
            said,
            format!("somebody has moved worker 1 from its CPU {second} to CPU {first}, where it stays")
        );
        let before = count(control, "h");
        while count(control, "h") == before {}
        rustix::thread::sched_setaffinity(task, &only(second)).expect("to move a thread");
        assert_eq!(said_of(told, "is back"), format!("worker 1 is back on its CPU {second}"));
    });
}
