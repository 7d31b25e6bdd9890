// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of a writer and a reader on a ring of two records: the cases of the ordering argument.

use super::*;
use loom::thread;

fn ring() -> Ring {
    Ring::new(1, RING_RECORDS, 0, 0)
}

fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// All of it says which one it is.
fn event(n: u32) -> Event {
    Event { at: u64::from(n), kind: EventKind::Lock, thread: n, subject: n, other: n, first: n, second: n }
}

/// Reads once; returns the number of the next record and how many were seen and lost.
fn read(ring: &Ring, from: u64, last: &mut u32) -> (u64, u64, u64) {
    let mut seen = 0;
    let (next, lost) = ring.read(from, |e| {
        assert_eq!(e, event(e.thread), "a torn record");
        assert!(e.thread > *last, "out of order");
        (*last, seen) = (e.thread, seen + 1);
    });
    (next, seen, lost)
}

/// Case 1: the writer goes over the reader's slot while it is read.
#[test]
fn a_reader_takes_no_torn_record() {
    bounded(|| {
        let ring = Arc::new(ring());
        (1..=2).for_each(|n| ring.push(event(n)));
        let writing = {
            let ring = ring.clone();
            thread::spawn(move || (3..=4).for_each(|n| ring.push(event(n))))
        };
        let (next, seen, lost) = read(&ring, 0, &mut 0);
        assert_eq!(seen + lost, next);
        writing.join().unwrap();
    });
}

/// Case 2: a reader that begins with the writer and reads on when it has ended knows of all records.
#[test]
fn what_is_done_is_read_or_counted_as_lost() {
    bounded(|| {
        let ring = Arc::new(ring());
        let writing = {
            let ring = ring.clone();
            thread::spawn(move || (1..=3).for_each(|n| ring.push(event(n))))
        };
        let mut last = 0;
        let (next, seen, lost) = read(&ring, 0, &mut last);
        assert_eq!(seen + lost, next);
        writing.join().unwrap();
        let (end, more, also) = read(&ring, next, &mut last);
        assert_eq!((end, seen + more + lost + also), (3, 3));
        assert_eq!(last, 3, "the last one is always there");
    });
}

/// Case 3: a writer without room, and a reader that makes some at the same time.
#[test]
fn where_there_is_no_room_nothing_is_written_over() {
    bounded(|| {
        let ring = Arc::new(ring());
        ring.set_stops(true);
        let writing = {
            let ring = ring.clone();
            thread::spawn(move || (1..=4).for_each(|n| ring.push(event(n))))
        };
        let mut last = 0;
        let (next, seen, lost) = read(&ring, 0, &mut last);
        ring.make_room(next);
        writing.join().unwrap();
        let (_, more, also) = read(&ring, next, &mut last);
        assert_eq!((lost, also), (0, 0));
        assert_eq!(seen + more + ring.refused(), 4);
    });
}
