// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings made by hand, of which the answers are known.

use sync::events::{Event, EventKind};

use super::*;
use crate::clock::Pair;
use crate::kernel::counters::Reading;
use crate::kernel::event::{KernelEvent, KernelKind};
use crate::names::{CounterName, ElementName, End, Header, LockName, Names, ThreadName};

/// One second at 1 GHz, in which two workers did nothing yet: cycles and nanoseconds are one.
fn second() -> Recording {
    let element = |name: &str, class: &str| ElementName {
        name: name.into(),
        class: class.into(),
        config: String::new(),
    };
    let thread = |name: &str, kernel_id| ThreadName { name: name.into(), kernel_id };
    let at = "crates/elements/src/x.rs:7:1".to_owned();
    let names = Names {
        since: 0,
        elements: vec![element("rt", "StaticIPLookup"), element("q", "Queue"), element("in", "FromDevice")],
        reasons: vec!["discarded".into(), "queue-full".into()],
        threads: vec![thread("worker-0", 100), thread("worker-1", 101)],
        locks: vec![LockName { number: 5, name: "rt".into(), how: "spin".into(), at }],
        words: vec!["length".into()],
    };
    Recording {
        header: Header { one_in: 1, ..Header::default() },
        names: vec![names],
        pairs: vec![Pair { cycles: 0, ns: 0 }, Pair { cycles: 1_000_000_000, ns: 1_000_000_000 }],
        end: Some(End { at: 1_000_000_000, ..End::default() }),
        ..Recording::default()
    }
}

fn event(
    at: u64,
    kind: EventKind,
    thread: u32,
    (subject, other): (u32, u32),
    (first, second): (u32, u32),
) -> Event {
    Event { at, kind, thread, subject, other, first, second }
}

fn kinds(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|f| f.kind.as_str()).collect()
}

#[test]
fn contention_is_found_and_named_with_its_share() {
    let mut recording = second();
    // Each of both waits a hundred times 3.1 ms... of a second, so 31 % of its time; the other holds the lock.
    for i in 0..100u64 {
        for thread in [1, 2] {
            let at = i * 10_000_000 + 5_000_000;
            recording.events.push(event(at, EventKind::Lock, thread, (5, 3 - thread), (3_100_000, 500_000)));
        }
    }
    let report = Report::new(&recording);
    assert_eq!(kinds(&report), ["lock"]);
    let finding = &report.findings[0];
    assert!((finding.share - 0.31).abs() < 1e-6, "{}", finding.share);
    assert!(
        finding.text.starts_with("2 threads wait 31 % of their time for the lock of `rt`, a StaticIPLookup"),
        "{}",
        finding.text
    );
    assert!(finding.text.contains("x.rs:7:1") && finding.mend.contains("SYNC rcu"), "{finding:?}");
    let lock = &report.locks[0];
    assert_eq!(
        (lock.contended, lock.acquisitions, lock.worst_wait_us, lock.held_ns),
        (200, 200, 3100.0, 500_000.0)
    );
    let pairs: Vec<_> = lock.pairs.iter().map(|p| (p.owner.as_str(), p.waiter.as_str(), p.waits)).collect();
    assert_eq!(pairs, [("worker-0", "worker-1", 100), ("worker-1", "worker-0", 100)]);
    assert_eq!(report.stalls[0].took_us, 3100.0);
    assert!(report.stalls[0].what.contains("lock of rt, which worker-"), "{:?}", report.stalls[0]);
}

#[test]
fn locks_without_a_name_and_threads_of_one_name_are_told_apart() {
    let mut recording = second();
    recording.names[0].threads.iter_mut().for_each(|thread| thread.name = "rx".into());
    for thread in [1, 2] {
        recording.events.push(event(
            5_000_000,
            EventKind::Lock,
            thread,
            (9, 3 - thread),
            (3_100_000, 500_000),
        ));
    }
    let report = Report::new(&recording);
    assert_eq!(report.locks[0].name, "lock 9");
    let text = report.to_string();
    for said in ["lock 9 (gone before it was asked for its name)", "rx (100)", "rx (101)"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    let mut recording = second();
    for i in 1..1000u64 {
        let at = i * 1_000_000;
        // Taken by all, all the time, and never waited for; once in a while a wait of a microsecond.
        recording.events.push(event(at, EventKind::Lock, 1 + (i % 2) as u32, (5, 0), (0, 200)));
        if i % 100 == 0 {
            recording.events.push(event(at + 10, EventKind::Lock, 1, (5, 2), (1000, 200)));
        }
        recording.events.push(event(at + 900_000, EventKind::Task, 1, (2, 0), (500_000, 0)));
        recording.events.push(event(at + 900_000, EventKind::Task, 2, (2, 0), (500_000, 1)));
    }
    let report = Report::new(&recording);
    assert_eq!(kinds(&report), Vec::<&str>::new(), "{report}");
    assert!(report.to_string().contains("none: no lock"));
    assert_eq!(report.locks[0].contended, 9);
}

#[test]
fn what_elements_and_queues_cost_is_their_own_time() {
    let mut recording = second();
    let way = |doing: u32| doing << 16;
    recording.events = vec![
        // A task of 1000 cycles: 300 of them its own, 100 in the queue that it asked, 600 for the batch.
        event(1100, EventKind::Dequeue, 1, (1, way(2)), (100, 32)),
        event(1400, EventKind::Batch, 1, (2, way(3)), (400, 32)),
        event(2000, EventKind::Batch, 1, (0, way(0)), (600, 30)),
        event(2000, EventKind::Task, 1, (2, 0), (1000, 0)),
        event(1500, EventKind::Enqueue, 2, (1, way(0)), (200, 40)),
        event(1500, EventKind::Drop, 2, (1, 1), (0, 8)),
        event(1700, EventKind::Empty, 1, (1, way(2)), (10, 0)),
        event(1500, EventKind::Full, 2, (1, 0), (0, 0)),
        event(1800, EventKind::Wake, 2, (0, 1), (0, 1)),
    ];
    let report = Report::new(&recording);
    let element = |name: &str| report.elements.iter().find(|e| e.name == name).unwrap();
    assert_eq!((element("in").cycles_per_packet, element("in").packets_per_batch), (300.0 / 32.0, 32.0));
    assert_eq!(element("rt").cycles_per_packet, 20.0);
    assert!((element("rt").share - 600.0 / 1200.0).abs() < 1e-9);
    let queue = &report.queues[0];
    assert_eq!((queue.cycles_per_packet_in, queue.cycles_per_packet_out), (5.0, 100.0 / 32.0));
    assert_eq!((queue.full_packets, queue.empty, queue.full, queue.wakes), (8, 1, 1, 1));
    assert_eq!(
        (&queue.filled_by[..], &queue.drained_by[..]),
        (&["worker-1".to_owned()][..], &["worker-0".to_owned()][..])
    );
    assert_eq!(report.drops[0], Drops { element: "q".into(), reason: "queue-full".into(), packets: 8 });
    assert_eq!(kinds(&report), ["queue-full"]);
}

/// A second in which a queue holds back a source of worker-0 for 700 ms, and that worker works for `working` of it.
fn holding_back(working: f64) -> Report {
    let mut recording = second();
    for i in 0..1000u64 {
        let at = (i + 1) * 1_000_000;
        recording.events.push(event(at, EventKind::HeldBack, 1, (1, 0), (700_000, 0)));
        recording.events.push(event(at, EventKind::Task, 1, (2, 0), ((working * 1e6) as u32, 0)));
        recording.events.push(event(at, EventKind::Dequeue, 2, (1, 2 << 16), (100, 32)));
        recording.events.push(event(at, EventKind::Task, 2, (2, 0), (600_000, 1)));
    }
    Report::new(&recording)
}

#[test]
fn a_queue_that_holds_its_source_back_is_found_where_nothing_else_is_done_meanwhile() {
    let report = holding_back(0.6);
    let [held] = &report.queues[0].held_back[..] else { panic!("{:?}", report.queues) };
    assert_eq!((held.thread.as_str(), (held.share * 1000.0).round()), ("worker-0", 700.0));
    assert_eq!(kinds(&report), ["held-back"]);
    let found = &report.findings[0];
    assert!((found.share - 0.4).abs() < 1e-6 && found.subject == "q", "{found:?}");
    let words = "`q` has no room and holds back a source of worker-0 for 40 % of the time, in which that has nothing else to do; worker-1 drains it";
    assert_eq!(found.text, words);
    assert!(found.mend.contains("bottleneck") && found.mend.contains("--adaptive"), "{found:?}");
    // All the time it waits for is spent on other work.
    assert_eq!(kinds(&holding_back(0.95)), Vec::<&str>::new());
}

#[test]
fn names_hold_from_the_exchange_on() {
    let mut recording = second();
    let mut other = recording.names[0].clone();
    (other.since, other.elements[0].name) = (5000, "new".into());
    recording.names.push(other);
    for at in [4000, 6000] {
        recording.events.push(event(at, EventKind::Batch, 1, (0, 0), (100, 1)));
    }
    let mut names: Vec<String> = Report::new(&recording).elements.into_iter().map(|e| e.name).collect();
    names.sort();
    assert_eq!(names, ["new", "rt"]);
}

/// What the kernel reported of the first processor, at so many milliseconds.
fn on_cpu_0(at_ms: u64, kind: KernelKind, thread: u32, a: u32, b: u32) -> KernelEvent {
    KernelEvent { at_ns: at_ms * 1_000_000, kind, cpu: 0, thread, a, b, c: 0 }
}

/// Ends that were lost, or came before all kinds of events did, neither nest nor add up.
#[test]
fn halves_of_interrupts_are_no_share() {
    let mut recording = second();
    let kernel = |at, kind, a, b| on_cpu_0(at, kind, 100, a, b);
    let begun = |at| kernel(at, KernelKind::SoftirqBegin, 3, 0);
    recording.kernel = vec![kernel(0, KernelKind::Switch, 0, 100)];
    recording.kernel.extend((1..=50).map(|i| begun(i * 10)));
    recording.kernel.extend([
        kernel(510, KernelKind::SoftirqEnd, 3, 0),
        kernel(520, KernelKind::SoftirqEnd, 3, 0),
        // The end of the first was lost, and who is left for another was in none.
        kernel(600, KernelKind::IrqBegin, 9, 0),
        begun(610),
        kernel(620, KernelKind::SoftirqEnd, 3, 0),
        kernel(700, KernelKind::IrqBegin, 9, 0),
        kernel(705, KernelKind::IrqEnd, 9, 0),
        begun(800),
        kernel(900, KernelKind::Switch, 0, 999),
        kernel(950, KernelKind::SoftirqEnd, 3, 0),
        kernel(1000, KernelKind::Switch, 0, 100),
    ]);
    let cpu = &Report::new(&recording).processors[0];
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(near(cpu.softirqs, 0.020) && near(cpu.interrupts, 0.005), "{cpu:?}");
    assert!(near(cpu.router, 0.875) && near(cpu.others, 0.1), "{cpu:?}");
}

/// A thread of another program that is called like one of the router's is distinguished from it.
#[test]
fn namesakes_are_told_apart() {
    let mut recording = second();
    let kernel = |at, thread, a, b| on_cpu_0(at, KernelKind::Switch, thread, a, b);
    recording.commands.insert(999, "worker-0".into());
    recording.kernel = vec![kernel(0, 0, 0, 100), kernel(500, 100, 0, 999), kernel(1000, 999, 0, 100)];
    recording.events.push(event(10, EventKind::Task, 1, (2, 0), (5, 0)));
    let report = Report::new(&recording);
    let told = "beside it ran another program's worker-0 (thread 999) (50 %)";
    assert!(report.findings[0].text.contains(told), "{report}");
}

/// Who was on a processor when the recording began, and leaves it near the end, was there all the time.
#[test]
fn a_thread_that_was_there_from_the_beginning_ran() {
    let mut recording = second();
    let kernel = on_cpu_0;
    recording.kernel = vec![
        kernel(0, KernelKind::IrqBegin, 100, 9, 0),
        kernel(1, KernelKind::IrqEnd, 100, 9, 0),
        kernel(990, KernelKind::Switch, 100, 0, 999),
        kernel(1000, KernelKind::Switch, 999, 0, 100),
    ];
    recording.events.push(event(10, EventKind::Task, 1, (2, 0), (5, 0)));
    let report = Report::new(&recording);
    let worker = &report.threads[0];
    let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-6);
    assert!(near(worker.running, 0.99) && near(worker.ready, 0.01), "{worker:?}");
    assert!(!kinds(&report).contains(&"processor-shared"), "{report}");
}

#[test]
fn without_a_thread_nothing_is_judged() {
    assert!(Report::new(&second()).to_string().contains("none can be had"));
}

/// A worker that has its processor for 600 ms, waits 200 ms for it while another process is there, and is then blocked.
#[test]
fn the_kernel_tells_who_had_processors() {
    let mut recording = second();
    let kernel = on_cpu_0;
    recording.commands.insert(999, "cc1".into());
    recording.kernel = vec![
        kernel(0, KernelKind::Switch, 0, 0, 100),
        kernel(600, KernelKind::Switch, 100, 0, 999),
        kernel(800, KernelKind::Switch, 999, 1, 100),
        // 10 ms of interrupt with 5 ms of softirq in it.
        kernel(810, KernelKind::IrqBegin, 100, 3, 0),
        kernel(812, KernelKind::SoftirqBegin, 100, 3, 0),
        kernel(817, KernelKind::SoftirqEnd, 100, 3, 0),
        kernel(820, KernelKind::IrqEnd, 100, 3, 0),
        kernel(900, KernelKind::Switch, 100, 1, 0),
        kernel(950, KernelKind::Wakeup, 0, 100, 0),
        kernel(1000, KernelKind::Switch, 0, 0, 100),
    ];
    recording.events.push(event(10, EventKind::Task, 1, (2, 0), (5, 0)));
    let report = Report::new(&recording);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let cpu = &report.processors[0];
    assert!(near(cpu.router, 0.69) && near(cpu.others, 0.2) && near(cpu.idle, 0.1), "{cpu:?}");
    assert!(near(cpu.interrupts, 0.005) && near(cpu.softirqs, 0.005), "{cpu:?}");
    let worker = &report.threads[0];
    assert!(
        [(worker.running, 0.7), (worker.ready, 0.25), (worker.blocked, 0.05)]
            .iter()
            .all(|(share, want)| near(share.unwrap(), *want)),
        "{worker:?}"
    );
    assert_eq!((worker.preempted, worker.yielded), (Some(1), Some(1)));
    let finding = &report.findings[0];
    assert_eq!((finding.kind.as_str(), finding.subject.as_str()), ("processor-shared", "worker-0"));
    assert!(finding.text.contains("25 %") && finding.text.contains("cc1 (20 %)"), "{}", finding.text);
}

/// Two workers, one of which works all the time: on a processor of its own if `alone`, else it has one for half of the time.
fn one_works(alone: bool) -> Recording {
    let mut recording = second();
    for i in 1..=100u64 {
        recording.events.push(event(i * 10_000_000, EventKind::Task, 1, (2, 0), (10_000_000, 0)));
        recording.events.push(event(i * 10_000_000, EventKind::Task, 2, (2, 0), (2_000_000, 1)));
    }
    // Who leaves the processor, and who comes.
    let switch = |ms: u64, thread, b| KernelEvent {
        at_ns: ms * 1_000_000,
        kind: KernelKind::Switch,
        cpu: 0,
        thread,
        a: 0,
        b,
        c: 0,
    };
    recording.kernel.push(switch(0, 999, 100));
    for i in (1..50).filter(|_| !alone) {
        recording.kernel.extend([switch(i * 20 - 10, 100, 999), switch(i * 20, 999, 100)]);
    }
    recording.kernel.push(switch(1000, 100, 999));
    recording
}

#[test]
fn a_worker_whose_processor_others_take_is_not_the_busier_one() {
    let alone = Report::new(&one_works(true));
    assert_eq!(kinds(&alone), ["imbalance"]);
    assert_eq!(alone.findings[0].text, "worker-0 works 100 % of the time, worker-1 only 20 %");
    let shared = Report::new(&one_works(false));
    assert!(
        (shared.threads[0].working.unwrap() - 1.0).abs() < 1e-9 && shared.threads[0].ready > Some(0.45),
        "{shared}"
    );
    assert_eq!(kinds(&shared), ["processor-shared"]);
}

/// A worker that waits 100 ms for a futex, 200 ms for nothing in particular, 300 ms asleep, 50 ms for storage, and then ends.
#[test]
fn what_blocks_a_thread_is_told() {
    let mut recording = second();
    let ms = 1_000_000u64;
    let mut at = 0;
    let mut kernel = |after: u64, kind, thread, a, b| {
        at += after;
        recording.kernel.push(KernelEvent { at_ns: at * ms, kind, cpu: 0, thread, a, b, c: 0 });
    };
    kernel(0, KernelKind::Switch, 0, 0, 100);
    for (state, blocked) in [(1, 100), (1, 200), (1, 300), (2, 50)] {
        if blocked == 100 {
            kernel(10, KernelKind::FutexBegin, 100, 0, 0);
        }
        kernel(5, KernelKind::Switch, 100, state, 0);
        kernel(blocked, KernelKind::Wakeup, 0, 100, 0);
        kernel(0, KernelKind::Switch, 0, 0, 100);
        if blocked == 100 {
            kernel(1, KernelKind::FutexEnd, 100, 0, 0);
        }
    }
    // Its end: the processor goes from a thread that the kernel does not name to another.
    kernel(19, KernelKind::Switch, 0, 0, 999);
    kernel(300, KernelKind::Switch, 999, 1, 0);
    // Its own word of the sleep, which began a little before it left its processor.
    recording.events.push(event(628 * ms, EventKind::Sleep, 1, (0, 0), (304_000_000, 0)));
    let report = Report::new(&recording);
    let worker = &report.threads[0];
    let all = 700.0;
    let told: Vec<(&str, f64)> =
        worker.blocked_on.iter().map(|on| (on.what.as_str(), (on.share * all).round())).collect();
    let want = [
        ("work, asleep", 300.0),
        ("a system call or a timer", 200.0),
        ("a futex (a lock or condition of the program)", 100.0),
        ("the kernel, uninterruptibly (storage, memory)", 50.0),
    ];
    assert_eq!(told, want, "{report}");
    assert!((worker.blocked.unwrap() * all - 650.0).abs() < 0.5 && worker.yielded == Some(4), "{worker:?}");
    assert!(report.to_string().contains("work, asleep"), "{report}");
}

/// Worker 1 is taken off its processor for 200 ms in the midst of its work, and worker 0 waits for a lock that it holds, and then for a processor.
#[test]
fn time_without_a_processor_is_not_of_ones_own_doing() {
    let mut recording = second();
    let ms = 1_000_000u64;
    let mut switch = |cpu, at: u64, thread, a, b| {
        let kind = KernelKind::Switch;
        recording.kernel.push(KernelEvent { at_ns: at * ms, kind, cpu, thread, a, b, c: 0 });
    };
    switch(0, 0, 0, 0, 100);
    switch(1, 0, 0, 0, 101);
    switch(1, 200, 101, 0, 999);
    switch(1, 400, 999, 0, 101);
    switch(0, 500, 100, 0, 998);
    switch(0, 600, 998, 0, 100);
    switch(0, 1000, 100, 0, 998);
    switch(1, 1000, 101, 0, 999);
    let events = &mut recording.events;
    // 300 ms of work in 500, the first 100 of them in an element within; 5 packets in each.
    events.push(event(150 * ms, EventKind::Batch, 2, (2, 0), (100_000_000, 5)));
    events.push(event(550 * ms, EventKind::Batch, 2, (0, 0), (500_000_000, 5)));
    events.push(event(550 * ms, EventKind::Lock, 2, (5, 0), (0, 500_000_000)));
    // From 100 to 650 ms, of which it could not run for 100 ms; until 550 ms the other one held it.
    events.push(event(651 * ms, EventKind::Lock, 1, (5, 2), (550_000_000, 1_000_000)));
    let report = Report::new(&recording);
    let element = |name: &str| report.elements.iter().find(|e| e.name == name).unwrap();
    assert_eq!((element("in").cycles_per_packet, element("rt").cycles_per_packet), (20e6, 40e6));
    let lock = &report.locks[0];
    assert_eq!((lock.wait_us, lock.worst_wait_us, lock.unready_us), (450e3, 450e3, Some(100e3)));
    assert_eq!((lock.owner_away_us, (lock.share * 100.0).round()), (Some(200e3), 45.0));
    let stall = &report.stalls[0];
    assert_eq!((stall.took_us, stall.away_us), (550e3, Some(100e3)));
    let text = report.to_string();
    assert!(text.contains("without 100000.0 us in which waiters could have gone on"), "{text}");
    // One part is a sixtieth of a second.
    let letters =
        |cpu: usize| report.processors[cpu].over_time.iter().map(Moment::letter).collect::<String>();
    assert_eq!(letters(0), format!("{}{}{}", "R".repeat(30), "o".repeat(6), "R".repeat(24)));
    assert_eq!(letters(1), format!("{}{}{}", "R".repeat(12), "o".repeat(12), "R".repeat(36)));
    assert!(text.contains(&format!("  CPU 1 |{}|", letters(1))), "{text}");
    // Where the way back was not recorded, nothing is known of the time.
    recording.kernel.retain(|e| e.at_ns != 400 * ms);
    let report = Report::new(&recording);
    assert_eq!(report.locks[0].owner_away_us, Some(0.0));
}

#[test]
fn a_lock_whose_holder_had_no_processor_is_told_as_such() {
    let mut recording = second();
    let ms = 1_000_000u64;
    let switch = |at: u64, thread, b| KernelEvent {
        at_ns: at * ms,
        kind: KernelKind::Switch,
        cpu: 1,
        thread,
        a: 0,
        b,
        c: 0,
    };
    recording.kernel = vec![switch(0, 0, 101), KernelEvent { cpu: 0, ..switch(0, 0, 100) }];
    for i in 0..20 {
        recording.kernel.extend([switch(i * 50 + 10, 101, 999), switch(i * 50 + 20, 999, 101)]);
        recording.events.push(event((i * 50 + 21) * ms, EventKind::Lock, 1, (5, 2), (20_000_000, 1_000_000)));
    }
    recording.kernel.push(KernelEvent { cpu: 0, ..switch(1000, 100, 0) });
    let report = Report::new(&recording);
    let told = "the longest; for 50 % of it, who held it had no processor)";
    assert!(report.findings[0].text.contains(told), "{report}");
}

#[test]
fn what_is_rare_is_counted() {
    let mut recording = second();
    let kernel = |at_ns, kind, thread, a| KernelEvent { at_ns, kind, cpu: 0, thread, a, b: 64, c: 7 };
    recording.kernel = vec![
        kernel(1000, KernelKind::NapiPoll, 0, 3),
        kernel(2000, KernelKind::NapiPoll, 0, 4),
        kernel(3000, KernelKind::XdpException, 0, 1),
        kernel(4000, KernelKind::ContentionBegin, 100, 0),
        kernel(5000, KernelKind::ContentionBegin, 999, 0),
        kernel(9000, KernelKind::ContentionEnd, 100, 0),
        kernel(9500, KernelKind::ContentionEnd, 999, 0),
    ];
    recording.events = vec![
        event(10, EventKind::Swap, 1, (0, 0), (150, 2)),
        event(10, EventKind::Routes, 1, (0, 0), (2000, 9)),
        event(10, EventKind::Routes, 1, (0, 1), (1000, 9)),
        event(10, EventKind::Grace, 1, (1, 0), (5000, 3)),
    ];
    let rare = Report::new(&recording).rare;
    let told: Vec<_> = rare.iter().map(|r| (r.what.as_str(), r.times, r.packets, r.took_us)).collect();
    let want = [
        ("another configuration came", 1, Some(2), Some(150.0)),
        ("routes changed", 1, None, Some(2.0)),
        ("a change of routes was refused", 1, None, Some(1.0)),
        ("old versions were given up", 1, None, None),
        ("the kernel polled a device", 2, Some(7), None),
        ("an XDP program failed", 1, None, None),
        ("the router waited for a lock of the kernel", 1, None, Some(5.0)),
        ("others waited for a lock of the kernel", 1, None, Some(4.5)),
    ];
    assert_eq!(told, want);
}

#[test]
fn what_was_counted_is_told_by_thread() {
    let mut recording = second();
    let name = |name: &str, user_only| CounterName { name: name.into(), user_only };
    recording.header.counters = vec![
        name("cycles", false),
        name("instructions", false),
        name("cache-misses", false),
        name("task-clock", true),
        name("uncore/snoops", false),
    ];
    let mut read = |at_ns, thread, values: &[u64]| {
        for (i, value) in values.iter().enumerate() {
            let counter = if thread == 0 { 4 } else { i as u32 };
            recording.readings.push(Reading { at_ns, thread, counter, value: *value });
        }
    };
    read(500_000_000, 100, &[1000, 1000, 0, 0]);
    read(500_000_000, 0, &[77]);
    read(750_000_000, 100, &[1500, 1800, 4, 9]);
    read(1_000_000_000, 100, &[2000, 3000, 5, 250_000_000]);
    read(1_000_000_000, 0, &[1077]);
    let report = Report::new(&recording);
    let [machine, worker] = &report.counters[..] else { panic!("{report}") };
    assert_eq!(
        (machine.name.as_str(), machine.counts[0].count, machine.counts[0].per_s),
        ("the machine", 1000, 2000.0)
    );
    assert_eq!((worker.name.as_str(), worker.id, worker.seconds), ("worker-0", 100, 0.5));
    assert_eq!(
        (worker.instructions_per_cycle, worker.cache_misses_per_1000_instructions),
        (Some(2.0), Some(2.5))
    );
    assert_eq!(worker.count("task-clock").map(|c| c.per_s), Some(500e6));
    let text = report.to_string();
    for said in ["Counters, a second", "  50.0 %", "misses/1000 instructions", "for lack of the right"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn what_was_not_recorded_is_not_zero() {
    let mut recording = second();
    recording.header.events = "drops,waits".into();
    recording.events.push(event(1500, EventKind::Drop, 2, (1, 1), (0, 8)));
    let report = Report::new(&recording);
    let thread = &report.threads[0];
    assert_eq!((thread.working, thread.waiting_for_locks, thread.sleeping), (None, Some(0.0), None));
    let text = report.to_string();
    assert!(text.contains("-: not recorded; what was, by --events: waits,drops"), "{text}");
    // Only queues would show which task drains it.
    assert_eq!(report.findings[0].text, "`q` had no room for 8 packets");
    recording.events.clear();
    let text = Report::new(&recording).to_string();
    assert!(text.contains("none: nothing happened of what was recorded (waits,drops)"), "{text}");
    // A queue that nobody drains is no matter of placement.
    recording.header.events = "all".into();
    recording.events.push(event(1500, EventKind::Drop, 2, (1, 1), (0, 8)));
    let report = Report::new(&recording);
    assert_eq!(report.findings[0].text, "`q` had no room for 8 packets; nobody drains it");
    assert!(report.findings[0].mend.starts_with("look what its output leads to"), "{report}");
}

#[test]
fn what_the_kernel_did_not_tell_is_not_zero() {
    let mut recording = second();
    for i in 1..=100u64 {
        recording.events.push(event(i * 10_000_000, EventKind::Task, 1, (2, 0), (10_000_000, 0)));
        recording.events.push(event(i * 10_000_000, EventKind::Task, 2, (2, 0), (2_000_000, 1)));
    }
    let report = Report::new(&recording);
    let json = serde_json::to_value(&report).unwrap();
    for what in ["running", "ready", "blocked", "migrations", "preempted", "yielded"] {
        assert!(json["threads"][0][what].is_null(), "{what}");
    }
    assert!(report.to_string().contains("  -: not known, for the kernel"), "{report}");
    assert_eq!(kinds(&report), ["imbalance"]);
    assert!(report.findings[0].text.contains("or others took its processor"), "{report}");
}

#[test]
fn what_was_waited_for_is_told_first() {
    let mut recording = second();
    recording.header.until = vec!["drop=no-route".into()];
    let end = End { at: 1_000_000_000, ..End::default() };
    recording.end = Some(end.clone());
    assert!(Report::new(&recording).to_string().contains("\ndrop=no-route: has not happened\n"));
    let fired = Fired {
        at: 250_000_000,
        condition: "drop=no-route".into(),
        what: "rt dropped it".into(),
        packets: 1,
        more_packets: 3,
        packets_file: "x.pcapng".into(),
        ..Fired::default()
    };
    recording.end = Some(End { fired: Some(fired), ..end });
    let report = Report::new(&recording);
    let told =
        "\ndrop=no-route: rt dropped it\n  at 250.000 ms; 1 packet in x.pcapng (3 more were not kept)\n";
    assert!(report.to_string().contains(told), "{report}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["fired"]["at_ms"], &json["fired"]["packets"]), (&250.0.into(), &1.into()));
}

#[test]
fn a_recording_that_lost_much_or_was_cut_off_says_so() {
    let mut recording = second();
    recording.events.push(event(10, EventKind::Task, 1, (2, 0), (5, 0)));
    recording.end = Some(End { at: 1_000_000_000, lost: vec![7, 2], lost_kernel: 1, ..End::default() });
    let report = Report::new(&recording);
    assert_eq!((report.lost, kinds(&report)), (10, vec!["lost-events"]));
    recording.end = None;
    let report = Report::new(&recording);
    assert!(!report.complete && report.to_string().contains("has no end"));
}

/// Threads of which the rings hold different times: the first from 0.9 s on, or until 0.1 s; the other all.
fn uneven(mode: &str, from: u64) -> Recording {
    let mut recording = second();
    recording.header.mode = mode.into();
    recording.end.as_mut().unwrap().lost = vec![1_000_000, 0];
    for i in 0..10u64 {
        let at = from + i * 10_000_000;
        recording.events.push(event(at + 1_000_000, EventKind::Lock, 1, (5, 2), (0, 0)));
        recording.events.push(event(at + 9_000_000, EventKind::Lock, 1, (5, 2), (3_000_000, 1_000_000)));
        recording.events.push(event(at + 10_000_000, EventKind::Task, 1, (2, 0), (10_000_000, 0)));
    }
    for i in 1..=100u64 {
        recording.events.push(event(i * 10_000_000, EventKind::Task, 2, (2, 0), (5_000_000, 1)));
    }
    recording
}

#[test]
fn shares_are_of_the_time_of_which_all_rings_tell() {
    for (mode, from, window) in [("flight", 900_000_000, (901.0, 1000.0)), ("stop", 0, (0.0, 100.0))] {
        let report = Report::new(&uneven(mode, from));
        assert_eq!(report.shares_of_ms, window, "{mode}");
        // By hand: 30 ms of waits and 99 or 100 ms of tasks (the part of the first before the window is cut off) in so much time.
        let ms = window.1 - window.0;
        let close = |share: f64, want: f64| assert!((share - want).abs() < 1e-9, "{mode}: {share} {want}");
        close(report.locks[0].share, 30.0 / ms);
        close(report.threads[0].waiting_for_locks.unwrap(), 30.0 / ms);
        close(report.threads[0].working.unwrap(), 1.0);
        // Its tasks take the second half of each 10 ms.
        close(report.threads[1].working.unwrap(), 50.0 / ms);
        assert_eq!((kinds(&report), report.lost), (vec!["lock"], 1_000_000), "{mode}");
        assert!(report.to_string().contains(&format!("from {:.3} to {:.3} ms", window.0, window.1)));
    }
    // What is lost on the way in is lost, also there.
    let mut recording = uneven("flight", 900_000_000);
    recording.end.as_mut().unwrap().lost_kernel = 1000;
    assert!(kinds(&Report::new(&recording)).contains(&"lost-events"));
    let report = Report::new(&uneven("stream", 900_000_000));
    assert_eq!(report.shares_of_ms, (0.0, 1000.0));
    assert!(kinds(&report).contains(&"lost-events"));
}
