// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::directory::{Metric, MetricKind, Object, Series};

fn directory(series: usize) -> Directory {
    let metric = Metric {
        name: "element.packets".into(),
        kind: MetricKind::Counter,
        unit: "packets".into(),
        text: "Packets that left.".into(),
        part: "output".into(),
    };
    let object = Object { kind: "element".into(), name: "c".into(), detail: "Counter".into() };
    let of = |i: usize| Series { metric: 0, object: 0, worker: Some(i as u32), part: "0".into() };
    Directory { metrics: vec![metric], objects: vec![object], series: (0..series).map(of).collect() }
}

fn values(values: &[u64]) -> Snapshot {
    Snapshot { wall_ns: 1, monotonic_ns: 2, cycles: 3, values: values.to_vec(), ..Snapshot::default() }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("s.stats")
    }

    fn publisher(&self, series: usize) -> Publisher {
        let mut publisher = Publisher::create(&self.path(), 0o600, 5, 1000).unwrap();
        publisher.describe(&directory(series)).unwrap();
        publisher
    }
}

#[test]
fn what_is_published_is_read() {
    let place = Place::new();
    let mut publisher = place.publisher(2);
    assert!(
        matches!(Segment::open(&place.path()), Err(Error::Absent(_))),
        "it has no name before a snapshot"
    );
    publisher.publish(&mut values(&[7, 8])).unwrap();
    let mut segment = Segment::open(&place.path()).unwrap();
    assert_eq!((segment.pid(), segment.started_ns()), (std::process::id(), 5));
    assert_eq!((segment.interval_ns().unwrap(), segment.state().unwrap()), (1000, State::Live));
    for round in 1..5 {
        let reading = segment.read().unwrap();
        assert_eq!((reading.number, &reading.snapshot.values[..]), (round, &[6 + round, 8][..]));
        let names: Vec<_> = reading.iter().map(|((m, o, s), v)| (&*m.name, &*o.name, s.worker, v)).collect();
        assert_eq!(names[0], ("element.packets", "c", Some(0), 6 + round));
        publisher.publish(&mut values(&[7 + round, 8])).unwrap();
    }
}

#[test]
fn another_directory_comes_with_its_values() {
    let place = Place::new();
    let mut publisher = place.publisher(1);
    publisher.publish(&mut values(&[1])).unwrap();
    let mut segment = Segment::open(&place.path()).unwrap();
    segment.read().unwrap();
    publisher.describe(&directory(3)).unwrap();
    // The values are still those of the directory before: one who knows it takes them, and one who does not, too.
    assert_eq!(segment.read().unwrap().snapshot.values, [1]);
    assert_eq!(Segment::open(&place.path()).unwrap().read().unwrap().directory.series.len(), 1);
    publisher.publish(&mut values(&[1, 2, 3])).unwrap();
    let reading = segment.read().unwrap();
    assert_eq!((reading.snapshot.values.len(), reading.directory.series.len()), (3, 3));
}

#[test]
fn what_does_not_fit_goes_on_in_a_larger_file() {
    let place = Place::new();
    let mut publisher = place.publisher(1);
    publisher.publish(&mut values(&[1])).unwrap();
    let mut segment = Segment::open(&place.path()).unwrap();
    publisher.describe(&directory(9000)).unwrap();
    assert_eq!(segment.state().unwrap(), State::Live, "the other has nothing to read yet");
    publisher.publish(&mut values(&vec![4; 9000])).unwrap();
    assert_eq!((segment.state().unwrap(), segment.read().unwrap().snapshot.values.len()), (State::Moved, 1));
    let mut segment = Segment::open(&place.path()).unwrap();
    assert_eq!(segment.read().unwrap().snapshot.values, vec![4; 9000]);
    // Notes alone may be what does not fit.
    let notes = vec!["x".repeat(1000); 400];
    publisher.publish(&mut Snapshot { notes, ..values(&vec![5; 9000]) }).unwrap();
    assert_eq!(segment.state().unwrap(), State::Moved);
    let mut segment = Segment::open(&place.path()).unwrap();
    assert_eq!(segment.read().unwrap().snapshot.notes.len(), 400);
    drop(publisher);
    assert_eq!(segment.state().unwrap(), State::Ended);
    assert!(std::fs::read_dir(place.0.path()).unwrap().next().is_none(), "no file is left");
}

#[test]
fn a_writer_that_is_gone_is_noticed() {
    let place = Place::new();
    let mut publisher = place.publisher(1);
    publisher.publish(&mut values(&[1])).unwrap();
    let mut segment = Segment::open(&place.path()).unwrap();
    assert!(segment.is_alive() && segment.is_alive());
    // As if it were killed: the file stays, the lock goes.
    let copy = place.0.path().join("left");
    std::fs::hard_link(place.path(), &copy).unwrap();
    drop(publisher);
    assert!(!segment.is_alive());
    assert_eq!(segment.read().unwrap().snapshot.values, [1]);
    let mut left = Segment::open(&copy).unwrap();
    assert!(!left.is_alive() && left.read().is_ok());
}

#[test]
fn other_files_are_refused() {
    let place = Place::new();
    let mut publisher = place.publisher(2);
    publisher.publish(&mut values(&[1, 2])).unwrap();
    let whole = std::fs::read(place.path()).unwrap();
    let opened = |bytes: &[u8]| {
        let path = place.0.path().join("other");
        std::fs::write(&path, bytes).unwrap();
        Segment::open(&path).and_then(|mut segment| segment.read()).map(|r| r.snapshot.values)
    };
    assert_eq!(opened(&whole).unwrap(), [1, 2]);
    assert!(matches!(opened(b""), Err(Error::Foreign(_))));
    assert!(matches!(opened(b"JNCSTATS"), Err(Error::Truncated(_))));
    assert!(matches!(opened(&whole[..100]), Err(Error::Truncated(_))));
    assert!(matches!(opened(&whole[..whole.len() - 1]), Err(Error::Truncated(_))));
    assert!(matches!(opened(&[b'x'; 4096]), Err(Error::Foreign(_))));
    let with = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        bytes[at * 8..][..8].copy_from_slice(&value.to_le_bytes());
        opened(&bytes)
    };
    assert!(matches!(with(VERSION_AT, 2), Err(Error::Version { found: 2, .. })));
    assert!(matches!(with(DIRECTORY_WORDS_AT, u64::MAX), Err(Error::Damaged(..))));
    assert!(matches!(with(SNAPSHOT_WORDS_AT, 1 << 20), Err(Error::Truncated(_))));
    assert!(matches!(with(SNAPSHOT_AT, 0), Err(Error::Empty(_))));
    assert!(matches!(with(SNAPSHOT_AT, 9), Err(Error::Overtaken(_))));
    // A value of the snapshot: the sum shows it.
    let slot = places(LEAST_WORDS, LEAST_WORDS).1.first + 2 + LEAST_WORDS;
    assert!(matches!(with(slot + 9, 77), Err(Error::Damaged(_, "a body's sum"))));
}

#[test]
fn readers_never_see_values_of_another_directory() {
    let place = Place::new();
    let mut publisher = place.publisher(1);
    publisher.publish(&mut values(&[1])).unwrap();
    let path = place.path();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut segment = Segment::open(&path).unwrap();
            let mut read = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) || read == 0 {
                if segment.state().unwrap() == State::Moved {
                    segment = Segment::open(&path).unwrap();
                }
                match segment.read() {
                    Ok(reading) => {
                        let n = reading.snapshot.values.len();
                        assert!(reading.snapshot.values.iter().all(|v| *v == n as u64));
                        read += 1;
                    }
                    Err(why) => assert!(matches!(why, Error::Overtaken(_)), "{why}"),
                }
            }
        });
        for round in 0..300 {
            let n = 1 + round % 40 * 20;
            publisher.describe(&directory(n)).unwrap();
            (0..3).for_each(|_| publisher.publish(&mut values(&vec![n as u64; n])).unwrap());
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn what_killed_publishers_have_left_is_removed() {
    let place = Place::new();
    let path = place.path();
    let beside = |more: &str| PathBuf::from(format!("{}{more}", path.display()));
    // No process has the largest of numbers; this one lives.
    let ours = format!(".{}", std::process::id());
    let all = ["", ".4294967295", &ours, ".4711.other", "x"].map(beside);
    all.iter().for_each(|file| std::fs::write(file, b"").unwrap());
    crate::remove_left(&path);
    assert_eq!(all.map(|file| file.exists()), [false, false, true, true, true]);
}
