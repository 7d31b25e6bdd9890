// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a router that runs: what one worker tells is all of one moment.

mod common;
#[path = "common/source.rs"]
mod source;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use junctor_engine::args::Args;
use junctor_engine::stats::{Samples, Stat, TABLE_ENTRIES};
use junctor_engine::{Class, Cx, Element, Reason};
use packet::Batch;

use common::router;
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

    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&TABLE_ENTRIES, self.0);
    }
}

static SINK: Class = Class::new("Sink", "-/0", || Box::<Sink>::default()).processing("h/h");
static ONE: Class =
    Class::new("One", "-/0", || Box::<Sink>::default()).processing("h/h").serial("there is one");

/// Takes samples until packets have gone on for `rounds` of them.
fn sampled(text: &str, rounds: u32, check: impl Fn(&Samples)) {
    let mut router = router(text, [&SOURCE, &SINK, &ONE], &[], |_| ());
    let control = router.control();
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let (mut samples, mut seen, mut last) = (Samples::default(), 0, CAME.load(SeqCst));
        while seen < rounds {
            samples.take(&control).expect("it runs");
            check(&samples);
            let came = CAME.load(SeqCst);
            seen += u32::from(came != last);
            last = came;
        }
        control.stop();
        while samples.take(&control).is_some() {}
    });
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
