// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a router that runs: what one worker reports is all of one moment.

mod common;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/source.rs"]
mod source;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use junctor_engine::args::Args;
use junctor_engine::stats::{Samples, Stat, TABLE_ENTRIES};
use junctor_engine::{Class, Cx, Element, InitCx, OpenCx, Reason, Statistics, Tasks};
use packet::{Batch, Packet};

use common::router;
use ends::Ends;
use source::{BATCH, SOURCE};

/// Packets that came to all sinks.
static CAME: AtomicU64 = AtomicU64::new(0);

/// Drops some, and counts all.
#[derive(Default)]
struct Sink(u64);

impl Element for Sink {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.0 += batch.len() as u64;
        CAME.fetch_add(batch.len() as u64, SeqCst);
        cx.drop_batch(Reason::Discarded, batch);
    }
}

impl Statistics for Sink {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&TABLE_ENTRIES, self.0);
    }
}

/// Cycles that elements take at least: to be fetched from, to fetch, and to do a batch.
const FETCHED: u64 = 30_000;
const FETCHING: u64 = 10_000;
const BATCHES: u64 = 20_000;

fn spin(cycles: u64) {
    let begun = sync::tsc();
    while sync::tsc() - begun < cycles {
        std::hint::spin_loop();
    }
}

/// Makes packets when it is asked for some.
#[derive(Default)]
struct Spring;

impl Element for Spring {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, _: usize) -> Batch {
        spin(FETCHED);
        (0..BATCH).filter_map(|_| Packet::copy_of(b"packet")).collect()
    }
}

/// Fetches packets and sends them on, by its task or, with an argument, by a timer.
#[derive(Default)]
struct Bucket {
    by_timer: bool,
}

impl Bucket {
    fn carry(cx: &mut Cx<'_>) {
        spin(FETCHING);
        let batch = cx.pull(0, 32);
        cx.push(0, batch);
    }
}

impl Element for Bucket {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.by_timer = args.positional("BY_TIMER", false);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.by_timer {
            cx.set_timer_after(0, 0);
        } else {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        Bucket::carry(cx);
        true
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        Bucket::carry(cx);
        cx.set_timer_after(timer, 1);
    }
}

/// Takes its time, and drops what comes.
#[derive(Default)]
struct Slow;

impl Element for Slow {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        spin(BATCHES);
        CAME.fetch_add(batch.len() as u64, SeqCst);
        cx.drop_batch(Reason::Discarded, batch);
    }
}

static SPRING: Class = Class::new("Spring", "0/1", || Box::<Spring>::default()).processing("l/l");
static BUCKET: Class = Class::new("Bucket", "1/1", || Box::<Bucket>::default()).processing("l/h");
static SLOW: Class = Class::new("Slow", "1/0", || Box::<Slow>::default()).processing("h/h");
static SINK: Class =
    Class::new("Sink", "-/0", || Box::<Sink>::default()).statistics::<Sink>().processing("h/h");
static ONE: Class = Class::new("One", "-/0", || Box::<Sink>::default())
    .statistics::<Sink>()
    .processing("h/h")
    .serial("there is one");

/// Takes samples until packets have gone on for `rounds` of them.
fn sampled(text: &str, rounds: u32, check: impl Fn(&Samples)) {
    let (seen, last) = (AtomicU64::new(0), AtomicU64::new(CAME.load(SeqCst)));
    let enough = AtomicU64::new(0);
    sampled_until(text, &enough, |samples| {
        check(samples);
        let came = CAME.load(SeqCst);
        let went_on = last.swap(came, SeqCst) != came;
        let seen = seen.fetch_add(went_on.into(), SeqCst) + u64::from(went_on);
        enough.store((seen >= rounds.into()).into(), SeqCst);
    });
}

/// Takes samples until `enough` is not 0.
fn sampled_until(text: &str, enough: &AtomicU64, check: impl Fn(&Samples)) {
    let mut router = router(text, [&SOURCE, &SINK, &ONE, &SPRING, &BUCKET, &SLOW], &[], |_| ());
    let control = router.control();
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let ends = Ends(&control);
        let mut samples = Samples::default();
        while enough.load(SeqCst) == 0 {
            samples.take(&control).expect("it runs");
            check(&samples);
        }
        drop(ends);
        while samples.take(&control).is_some() {}
    });
}

#[test]
#[should_panic(expected = "this check fails")]
fn a_check_that_fails_ends_the_test() {
    sampled("Source -> Sink; Source -> Sink;", 1, |_| panic!("this check fails"));
}

#[test]
fn what_a_worker_tells_is_of_one_moment() {
    sampled("one :: Source -> a :: Sink; two :: Source -> b :: Sink;", 300, |samples| {
        let mut told = 0;
        for sample in &samples.workers {
            let sent: u64 = sample.outputs.iter().map(|output| output.packets).sum();
            let dropped: u64 = sample.drops.iter().map(|(_, _, n)| n).sum();
            let counts = sample.stats.iter().filter(|(_, stat, _)| std::ptr::eq(*stat, &TABLE_ENTRIES));
            let counted: u64 = counts.map(|(_, _, n)| n).sum();
            assert_eq!((sent, dropped), (counted, counted), "in, out and what the element knows");
            assert_eq!(sent % BATCH, 0, "no batch is on its way");
            told += usize::from(!sample.stats.is_empty());
        }
        assert_eq!(told, 2, "both workers tell");
    });
}

#[test]
fn an_element_costs_neither_what_it_fetches_nor_what_follows() {
    for by_timer in [false, true] {
        let text = format!("s :: Spring -> b :: Bucket({by_timer}) -> e :: Slow;");
        let enough = AtomicU64::new(0);
        sampled_until(&text, &enough, |samples| {
            // One of the two workers has them all.
            let worker = samples.workers.iter().find(|w| w.pulls.iter().any(|p| p.timed > 40));
            let Some(worker) = worker else { return };
            let pulls = worker.pulls.iter().find(|p| p.timed > 0).expect("one that is fetched from");
            let runs = if by_timer { &worker.calls } else { &worker.tasks };
            // What was interrupted is left out of each sum by itself, so these may be fewer.
            let Some(runs) = runs.iter().find(|r| r.timed > 40) else { return };
            let each = |cycles: u64, timed: u64| cycles / timed;
            let (all, own, fetched) =
                (each(runs.cycles, runs.timed), each(runs.own, runs.timed), each(pulls.cycles, pulls.timed));
            assert!(own >= FETCHING && fetched >= FETCHED, "{own} {fetched}");
            assert!(own + fetched + BATCHES <= all, "{own} and {fetched} of {all}");
            assert_eq!(pulls.packets, pulls.timed * BATCH);
            let calls: u64 = worker.calls.iter().map(|c| c.runs).sum();
            assert_eq!(calls > 0, by_timer);
            enough.store(1, SeqCst);
        });
    }
}

#[test]
fn nobody_waits_for_an_element_that_another_worker_is_in() {
    // Each worker is in it most of the time; its answer does not depend on whether the other one leaves.
    sampled("one :: Source -> a :: One; two :: Source -> [1]a;", 100, |samples| {
        let counts = samples
            .workers
            .iter()
            .flat_map(|s| &s.stats)
            .filter(|(_, stat, _)| std::ptr::eq(*stat, &TABLE_ENTRIES));
        let counts: Vec<u64> = counts.map(|(_, _, n)| *n).collect();
        assert!(counts.len() <= 1, "one instance tells: {counts:?}");
    });
}
