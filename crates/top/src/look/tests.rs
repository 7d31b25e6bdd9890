// SPDX-License-Identifier: MIT OR Apache-2.0

use std::sync::Arc;

use stats::{Directory, Metric, MetricKind, Object, Series, Snapshot};

use super::*;

/// A value at each of two moments: metric, object, worker, part.
type Row<'a> = (&'a str, (&'a str, &'a str, &'a str), Option<u32>, &'a str, [u64; 2]);

/// The readings of a router that had these values at two moments, a second apart.
pub(crate) fn readings(rows: &[Row<'_>]) -> [Reading; 2] {
    let mut directory = Directory::default();
    let place = |known: Option<usize>, next: usize| known.unwrap_or(next) as u32;
    for (name, (kind, object, detail), worker, part, _) in rows {
        let metric = place(directory.metrics.iter().position(|m| m.name == *name), directory.metrics.len());
        if metric as usize == directory.metrics.len() {
            let gauges =
                ["queue.", "table.", "memory.", "router.", "worker.cpu", "worker.active", "worker.stalled"];
            let gauge = gauges.iter().any(|g| name.starts_with(g));
            let kind = if gauge { MetricKind::Gauge } else { MetricKind::Counter };
            let [name, unit, text, part] = [*name, "", "", ""].map(str::to_owned);
            directory.metrics.push(Metric { name, kind, unit, text, part });
        }
        let same = |o: &Object| o.kind == *kind && o.name == *object;
        let number = place(directory.objects.iter().position(same), directory.objects.len());
        if number as usize == directory.objects.len() {
            let [kind, name, detail] = [*kind, *object, *detail].map(str::to_owned);
            directory.objects.push(Object { kind, name, detail });
        }
        directory.series.push(Series { metric, object: number, worker: *worker, part: (*part).to_owned() });
    }
    let directory = Arc::new(directory);
    [0, 1].map(|i| {
        let at = (7 + i as u64) * 1_000_000_000;
        let snapshot = Snapshot {
            directory: 1,
            wall_ns: at,
            monotonic_ns: at,
            cycles: 2 * at,
            values: rows.iter().map(|row| row.4[i]).collect(),
            notes: vec!["0.500 moved src 0->1; gain predicted +9.0%".into()],
        };
        Reading { directory: directory.clone(), snapshot, number: i as u64 + 1 }
    })
}

const SRC: (&str, &str, &str) = ("element", "src", "InfiniteSource");
const Q: (&str, &str, &str) = ("element", "q", "Queue");
const W0: (&str, &str, &str) = ("worker", "0", "");

/// A router with something of everything.
pub(crate) fn example() -> Look {
    let rt = ("element", "rt", "LookupIPRoute");
    let fd = ("element", "in", "FromDevice");
    let rows: Vec<Row<'_>> = vec![
        ("router.configurations", ("router", "router", "0.1.0"), None, "", [1, 2]),
        ("memory.frames", ("memory", "packets", ""), None, "", [1000, 1000]),
        ("memory.frames_free", ("memory", "packets", ""), None, "", [900, 800]),
        ("worker.active", W0, Some(0), "", [1, 1]),
        ("worker.cpu", W0, Some(0), "", [3, 3]),
        ("worker.busy", W0, Some(0), "", [0, 1_000_000_000]),
        ("worker.sampled", W0, Some(0), "", [0, 2_000_000_000]),
        ("worker.ran", W0, Some(0), "", [0, 750_000_000]),
        ("worker.packets", W0, Some(0), "", [0, 3_000_000]),
        ("element.packets", SRC, Some(0), "0", [100, 2_000_100]),
        ("element.batches", SRC, Some(0), "0", [10, 100_010]),
        ("element.packets", SRC, Some(1), "0", [0, 1_000_000]),
        ("element.batches", SRC, Some(1), "0", [0, 50_000]),
        ("element.cycles", SRC, Some(0), "", [500, 10_500]),
        ("element.cycles_packets", SRC, Some(0), "", [10, 1010]),
        ("element.task_cycles", SRC, Some(0), "", [0, 800_000_000]),
        ("element.received", Q, Some(0), "", [0, 500]),
        ("element.received_batches", Q, Some(0), "", [0, 50]),
        ("element.packets", Q, Some(0), "0", [0, 400]),
        ("queue.length", Q, Some(0), "", [1, 25]),
        ("queue.capacity", Q, Some(0), "", [100, 100]),
        ("queue.highwater", Q, Some(0), "", [50, 60]),
        ("element.drops", Q, Some(0), "queue-full", [5, 15]),
        ("element.drops", Q, Some(1), "queue-full", [1, 1]),
        ("element.drops", SRC, Some(1), "discarded", [0, 7]),
        ("table.entries", rt, Some(0), "", [5, 6]),
        ("table.memory", rt, Some(0), "", [1024, 2048]),
        ("device.packets", fd, Some(0), "", [10, 40]),
        ("device.missed", fd, Some(0), "", [0, 3]),
    ];
    let [before, now] = readings(&rows);
    Look::new(&Router { pid: 4711, started_ns: 1_000_000_000 }, &before, &now)
}

#[test]
fn rates_are_differences_over_the_time() {
    let look = example();
    assert_eq!((look.up, look.seconds, look.frames), (7.0, 1.0, (1000, 800)));
    assert_eq!(look.cores.len(), 1);
    let core = &look.cores[0];
    assert_eq!((core.cpu, core.busy, core.ran, core.packets), (Some(3), 0.5, 0.75, 3e6));
    let src = &look.elements[0];
    assert_eq!((src.name.as_str(), src.total, src.packets), ("src", 3_000_100, 3e6));
    assert_eq!((src.batch, src.cycles, src.busy), (Some(20.0), Some(10.0), Some(0.015)));
    let q = &look.queues[0];
    assert_eq!((q.length, q.capacity, q.highwater), (25, 100, Some(60)));
    assert_eq!((q.received, q.packets, q.drops), (500.0, 400.0, 10.0));
    assert_eq!((look.drops.len(), look.drops[0].total, look.drops[0].packets), (2, 16, 10.0));
    // What is discarded on purpose is no loss.
    assert_eq!((look.drop_rate(), look.elements[0].drops, look.elements[0].losses), (10.0, 7.0, 0.0));
    assert_eq!((look.elements[1].drops, look.elements[1].losses), (10.0, 10.0));
    assert_eq!((look.tables[0].entries, look.tables[0].bytes), (6, Some(2048)));
    assert_eq!((look.ports[0].total, look.ports[0].packets, look.ports[0].missed), (40, 30.0, 3));
}

#[test]
fn what_an_element_takes_beside_batches_is_its_cost_too() {
    let element = |rows: &[Row<'_>]| {
        let [before, now] = readings(rows);
        let look = Look::new(&Router::default(), &before, &now);
        (look.elements[0].cycles, look.elements[0].busy)
    };
    // A queue: 10 cycles for each of 1000 packets that came, 30 for each that was fetched.
    let queue = [
        ("element.received", Q, Some(0), "", [0, 1000]),
        ("element.packets", Q, Some(1), "0", [0, 1000]),
        ("element.cycles", Q, Some(0), "", [0, 1000]),
        ("element.cycles_packets", Q, Some(0), "", [0, 100]),
        ("element.own_cycles", Q, Some(0), "", [0, 0]),
        ("element.own_cycles", Q, Some(1), "", [0, 30_000]),
    ];
    assert_eq!(element(&queue), (Some(40.0), Some(40_000.0 / 2e9)));
    // A source, and one that does nothing any more.
    let own = |own: [u64; 2], packets: [u64; 2]| {
        [("element.packets", SRC, Some(0), "0", packets), ("element.own_cycles", SRC, Some(0), "", own)]
    };
    assert_eq!(element(&own([500, 4500], [50, 250])), (Some(20.0), Some(4000.0 / 2e9)));
    assert_eq!(element(&own([4500, 4500], [250, 250])), (Some(18.0), Some(0.0)));
    assert_eq!(element(&own([0, 0], [0, 250])), (None, None));
}

#[test]
fn no_element_is_busier_than_its_workers() {
    let share = |worker_busy: u64| {
        let [before, now] = readings(&[
            ("worker.busy", W0, Some(0), "", [0, worker_busy]),
            ("worker.sampled", W0, Some(0), "", [0, 2_000_000_000]),
            ("element.received", Q, Some(0), "", [0, 1_000_000]),
            ("element.cycles", Q, Some(0), "", [0, 100_000]),
            ("element.cycles_packets", Q, Some(0), "", [0, 100]),
        ]);
        let look = Look::new(&Router::default(), &before, &now);
        (look.elements[0].cycles, look.elements[0].busy)
    };
    assert_eq!(share(1_500_000_000), (Some(1000.0), Some(0.5)));
    assert_eq!(share(200_000_000), (Some(1000.0), Some(0.1)));
}

#[test]
fn what_begins_anew_has_no_rate() {
    let [before, mut now] = readings(&[("element.packets", SRC, Some(0), "0", [100, 40])]);
    let router = Router::default();
    assert_eq!(Look::new(&router, &before, &now).elements[0].packets, 0.0);
    // Another directory with the same series, and one more.
    let [_, other] = readings(&[
        ("element.packets", Q, Some(0), "0", [0, 9]),
        ("element.packets", SRC, Some(0), "0", [0, 140]),
    ]);
    now = other;
    let look = Look::new(&router, &before, &now);
    assert_eq!((look.elements[0].packets, look.elements[1].packets), (0.0, 40.0));
    // The same reading twice: no time has passed.
    assert_eq!(Look::new(&router, &now, &now).elements[1].packets, 0.0);
}

#[test]
fn what_moves_to_another_worker_goes_on() {
    let [before, _] = readings(&[
        ("element.packets", SRC, Some(0), "0", [100, 0]),
        ("element.drops", Q, Some(0), "queue-full", [5, 0]),
    ]);
    let [_, now] = readings(&[
        ("element.packets", SRC, Some(0), "0", [0, 90]),
        ("element.packets", SRC, Some(1), "0", [0, 30]),
        ("element.drops", Q, Some(1), "queue-full", [0, 7]),
        ("element.drops", Q, Some(1), "early-drop", [0, 4]),
    ]);
    let look = Look::new(&Router::default(), &before, &now);
    assert_eq!(look.elements[0].packets, 20.0);
    let drops: Vec<_> = look.drops.iter().map(|d| (d.reason.as_str(), d.packets)).collect();
    assert_eq!(drops, [("queue-full", 2.0), ("early-drop", 4.0)]);
}

#[test]
fn a_filter_keeps_names_and_classes() {
    let mut look = example();
    look.retain("QUE");
    assert_eq!((look.elements.len(), look.queues.len(), look.drops.len(), look.tables.len()), (1, 1, 1, 0));
}
