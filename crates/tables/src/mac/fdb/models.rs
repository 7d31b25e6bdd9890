// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of a few steps (up to three switches each), by loom. Buckets have two places here and there is one lock for keys.

use super::*;
use loom::sync::Arc;
use loom::thread;

const CONFIG: Config = Config { capacity: 1, port_limit: 0, ports: 2, vlans: 0, ageing_ns: 1 << 40 };

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

fn table(domain: &Domain) -> Arc<Fdb> {
    Arc::new(Fdb::new(Config { capacity: 2, ..CONFIG }, 1, domain).expect("memory"))
}

fn places(fdb: &Fdb) -> usize {
    fdb.buckets.iter().flat_map(|bucket| &bucket.0).filter(|word| word.load(Relaxed) != 0).count()
}

#[test]
fn a_station_stands_once() {
    model(|| {
        let domain = Domain::default();
        let fdb = table(&domain);
        let key = FdbKey::new(7, 0);
        let other = {
            let (fdb, domain) = (fdb.clone(), domain.clone());
            thread::spawn(move || {
                let reader = domain.register("other");
                fdb.learn(&reader, key, 1, &mut 1)
            })
        };
        let reader = domain.register("one");
        let mine = fdb.learn(&reader, key, 0, &mut 1);
        let port = fdb.lookup(&reader, key);
        assert!(port < 2 || mine == Noted::Busy, "port {port} after {mine:?}");
        let theirs = other.join().expect("no panic");
        assert!(mine != Noted::Busy || theirs != Noted::Busy);
        assert_eq!(places(&fdb), 1);
        assert_eq!(fdb.counts.of.iter().map(|count| count.load(Relaxed)).sum::<u32>(), 1);
    });
}

#[test]
fn a_flushed_port_is_forgotten() {
    model(|| {
        let domain = Domain::default();
        let fdb = table(&domain);
        let key = FdbKey::new(7, 0);
        let learner = {
            let (fdb, domain) = (fdb.clone(), domain.clone());
            thread::spawn(move || {
                let mut reader = domain.register("learner");
                fdb.learn(&reader, key, 0, &mut 1);
                let port = fdb.lookup(&reader, key);
                assert!(port == 0 || port == UNKNOWN, "port {port}");
                reader.quiescent();
            })
        };
        fdb.flush_port(0);
        learner.join().expect("no panic");
        fdb.flush_port(0);
        let reader = domain.register("judge");
        assert_eq!(fdb.lookup(&reader, key), UNKNOWN);
    });
}

#[test]
fn a_sighting_and_a_move_leave_one_of_both() {
    model(|| {
        let domain = Domain::default();
        let fdb = table(&domain);
        let key = FdbKey::new(7, 0);
        let reader = domain.register("one");
        assert_eq!(fdb.learn(&reader, key, 0, &mut 1), Noted::As(Learned::New));
        // A tick on, so that a sighting behind port 0 writes.
        fdb.common.tick.store(1, Relaxed);
        let mover = {
            let (fdb, domain) = (fdb.clone(), domain.clone());
            thread::spawn(move || {
                let reader = domain.register("mover");
                fdb.learn(&reader, key, 1, &mut 0)
            })
        };
        fdb.learn(&reader, key, 0, &mut 0);
        mover.join().expect("no panic");
        let port = fdb.lookup(&reader, key);
        assert!(port < 2, "port {port}");
        let counts: Vec<u32> = fdb.counts.of.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!((places(&fdb), counts.iter().sum::<u32>(), fdb.stations(usize::from(port))), (1, 1, 1));
    });
}
