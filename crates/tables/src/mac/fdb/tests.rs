// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// 128 ticks of one nanosecond.
const AGEING_NS: u64 = 128;
const PORTS: usize = 3;
const CONFIG: Config = Config { capacity: 1000, port_limit: 0, ports: PORTS, vlans: 4, ageing_ns: AGEING_NS };

fn mac(number: u8) -> Mac {
    [2, 0, number, 0, 0, number]
}

fn fdb(config: Config) -> (Fdb, sync::rcu::Reader) {
    let domain = Domain::default();
    let fdb = Fdb::new(config, 7, &domain).expect("memory");
    if config.vlans > 0 {
        (1..4).for_each(|vlan| fdb.add_vlan(vlan));
    }
    (fdb, domain.register("test"))
}

#[derive(Clone, Debug)]
enum Step {
    See { number: u8, vlan: u16, port: usize },
    Pass(u64),
    Jump(u64),
    FlushPort(usize),
    FlushAllBut(usize),
    FlushVlan(u16),
    Remove { number: u8, vlan: u16 },
    Set { number: u8, vlan: u16, port: usize },
    Age(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (number, vlan, port) = (0u8..12, 0u16..3, 0..PORTS);
    prop_oneof![
        20 => (number.clone(), vlan.clone(), port.clone()).prop_map(|(number, vlan, port)| Step::See { number, vlan, port }),
        8 => (0u64..40).prop_map(Step::Pass),
        1 => (0u64..2000).prop_map(Step::Jump),
        1 => port.clone().prop_map(Step::FlushPort),
        1 => port.clone().prop_map(Step::FlushAllBut),
        1 => vlan.clone().prop_map(Step::FlushVlan),
        1 => (number.clone(), vlan.clone()).prop_map(|(number, vlan)| Step::Remove { number, vlan }),
        1 => (number, vlan, port).prop_map(|(number, vlan, port)| Step::Set { number, vlan, port }),
        1 => prop_oneof![Just(AGEING_NS), Just(0), 4u64..128, Just(40_000)].prop_map(Step::Age),
    ]
}

/// What the oracle knows of a station: port, when it was seen (nothing for one that was set).
type Known = BTreeMap<(u16, Mac), (u16, Option<u64>)>;

/// The naive table: a map of sightings. A tick is a nanosecond unless the ageing time was changed out of range.
fn check(steps: &[Step]) {
    let (fdb, mut reader) = fdb(CONFIG);
    let (mut known, mut now, mut ageing) = (Known::new(), 0, AGEING_NS);
    for step in steps {
        match *step {
            Step::See { number, vlan, port } => {
                see(&fdb, &reader, &mut known, (number, vlan, port), now, ageing)
            }
            Step::Pass(ns) => {
                // As with a batch of frames, which sweeps a little only.
                now += ns * fdb.tick_ns();
                reader.quiescent();
                fdb.pass(now);
            }
            Step::Jump(ns) => {
                now += ns * fdb.tick_ns();
                reader.quiescent();
                fdb.advance(now);
            }
            Step::FlushPort(port) => {
                fdb.flush_port(port);
                known.retain(|_, (at, seen)| usize::from(*at) != port || seen.is_none());
            }
            Step::FlushAllBut(port) => {
                fdb.flush_all(Some(port));
                known.retain(|_, (at, seen)| usize::from(*at) == port || seen.is_none());
            }
            Step::FlushVlan(vlan) => {
                fdb.flush_vlan(vlan);
                known.retain(|(of, _), (_, seen)| *of != vlan || seen.is_none());
            }
            Step::Remove { number, vlan } => {
                fdb.remove(mac(number), vlan);
                known.remove(&(vlan, mac(number)));
            }
            Step::Set { number, vlan, port } => {
                assert!(fdb.insert_static(mac(number), vlan, port));
                known.insert((vlan, mac(number)), (port as u16, None));
            }
            Step::Age(ns) => {
                // The oracle does not follow ages from one division into ticks to another.
                let tick_ns = fdb.tick_ns();
                fdb.set_ageing_ns(ns, now);
                if ns == 0 || fdb.tick_ns() != tick_ns || ageing == 0 {
                    fdb.flush_all(None);
                    known.retain(|_, (_, seen)| seen.is_none());
                }
                ageing = ns;
            }
        }
        let limit = ageing.div_ceil(fdb.tick_ns()) * fdb.tick_ns();
        known.retain(|_, (_, seen)| seen.is_none_or(|seen| age(&fdb, now, seen) <= limit));
        agree(&fdb, &reader, &known);
    }
}

/// Ages count in whole ticks.
fn age(fdb: &Fdb, now: u64, seen: u64) -> u64 {
    (now - seen) / fdb.tick_ns() * fdb.tick_ns()
}

fn see(
    fdb: &Fdb,
    reader: &sync::rcu::Reader,
    known: &mut Known,
    (number, vlan, port): (u8, u16, usize),
    now: u64,
    ageing: u64,
) {
    let key = FdbKey::of(mac(number), fdb.salt(vlan));
    let noted = fdb.learn(reader, key, port, &mut u32::MAX.clone());
    let old = known.get(&(vlan, mac(number))).copied();
    match (ageing, old) {
        (0, _) => return assert_eq!(noted, Noted::As(Learned::Refused)),
        (_, Some((_, None))) => {
            assert!(matches!(noted, Noted::Static | Noted::As(Learned::Known)), "{noted:?}");
            return;
        }
        (_, None) => assert_eq!(noted, Noted::As(Learned::New)),
        (_, Some((at, _))) if usize::from(at) == port => assert_eq!(noted, Noted::As(Learned::Known)),
        (_, Some((at, _))) => assert_eq!(noted, Noted::As(Learned::Moved(at))),
    }
    known.insert((vlan, mac(number)), (port as u16, Some(now)));
}

fn agree(fdb: &Fdb, reader: &sync::rcu::Reader, known: &Known) {
    let entries = fdb.entries();
    let seen: Vec<_> = entries.iter().map(|e| ((e.vlan, e.mac), (e.port, e.is_static))).collect();
    let want: Vec<_> = known.iter().map(|(key, (port, seen))| (*key, (*port, seen.is_none()))).collect();
    assert_eq!(seen, want);
    let all = (0..12).flat_map(|number| (0..3).map(move |vlan| (vlan, mac(number))));
    let (stations, keys): (Vec<_>, Vec<_>) =
        all.map(|(vlan, mac)| ((vlan, mac), FdbKey::of(mac, fdb.salt(vlan)))).unzip();
    let mut ports = vec![0; keys.len()];
    fdb.lookup_batch(reader, &keys, &mut ports);
    for ((station, key), port) in stations.iter().zip(&keys).zip(ports) {
        let want = known.get(station).map_or(UNKNOWN, |(port, _)| *port);
        assert_eq!((port, fdb.lookup(reader, *key)), (want, want));
    }
    assert!(fdb.len() >= known.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
    #[test]
    fn equals_the_map_of_sightings(steps in prop::collection::vec(step(), 0..80)) {
        check(&steps);
    }
}

#[test]
fn holds_its_capacity_and_forgets_nobody_for_a_stranger() {
    let (fdb, reader) = fdb(Config { capacity: 4000, vlans: 0, ..CONFIG });
    let key = |n: u64| FdbKey::new(0x0200_0000_0000 + n, fdb.salt(0));
    let mut allowance = u32::MAX;
    for n in 0..4000 {
        assert_eq!(fdb.learn(&reader, key(n), 1, &mut allowance), Noted::As(Learned::New), "{n}");
    }
    for n in 4000..20_000 {
        assert_eq!(fdb.learn(&reader, key(n), 2, &mut allowance), Noted::Full);
    }
    assert!((0..4000).all(|n| fdb.lookup(&reader, key(n)) == 1));
    assert_eq!((fdb.len(), fdb.stations(1), fdb.stations(2)), (4000, 4000, 0));
    // A flush makes room at once.
    fdb.flush_port(1);
    assert_eq!(fdb.learn(&reader, key(4000), 2, &mut allowance), Noted::As(Learned::New));
    assert_eq!((fdb.len(), fdb.stations(1), fdb.stations(2)), (1, 0, 1));
}

#[test]
fn limits_are_named() {
    let (fdb, reader) = fdb(Config { port_limit: 2, ..CONFIG });
    let learn =
        |number, port, mut allowance| fdb.learn(&reader, FdbKey::of(mac(number), 0), port, &mut allowance);
    assert_eq!(learn(1, 0, 0), Noted::Allowance);
    assert_eq!(learn(1, 0, 1), Noted::As(Learned::New));
    assert_eq!(learn(2, 0, 1), Noted::As(Learned::New));
    assert_eq!(learn(3, 0, 1), Noted::PortLimit);
    assert_eq!(learn(3, 1, 1), Noted::As(Learned::New));
    assert_eq!(learn(3, 0, 1), Noted::PortLimit, "it stays where it is");
    assert_eq!(learn(1, 1, 0), Noted::As(Learned::Moved(0)), "moves need no allowance");
    assert_eq!(fdb.lookup(&reader, FdbKey::of(mac(3), 0)), 1);
    assert!(!fdb.insert_static(mac(1), 0, PORTS));
    assert_eq!(learn(1, PORTS, 1), Noted::As(Learned::Refused));
}

#[test]
fn handles_come_back_however_often_ports_are_flushed() {
    let (fdb, mut reader) = fdb(CONFIG);
    for round in 0..3000u64 {
        let key = FdbKey::of(mac(1), 0);
        let port = round as usize % PORTS;
        let noted = fdb.learn(&reader, key, port, &mut 1);
        assert!(matches!(noted, Noted::As(Learned::New)), "round {round}: {noted:?}");
        fdb.flush_port(port);
        fdb.flush_vlan(2);
        assert_eq!(fdb.lookup(&reader, key), UNKNOWN, "round {round}");
        // Sometimes the worker's round goes on for long: then places are cleared one by one.
        if round % 1000 < 300 {
            reader.quiescent();
        }
    }
}

/// Whether as many words stand in the second bucket of their key as each first one counts.
fn strays_are_counted(fdb: &Fdb) -> bool {
    let mut strays = vec![0; fdb.buckets.len()];
    for (bucket, line) in fdb.buckets.iter().enumerate() {
        for word in line.0.iter().map(|word| word.load(Relaxed)).filter(|word| word & OTHER != 0) {
            let key = fdb.layout.key(bucket as u32, word);
            strays[fdb.layout.place(key).bucket as usize] += 1;
        }
    }
    fdb.strays.iter().map(|strays| strays.load(Relaxed)).eq(strays)
}

/// In a table that is nearly full many stand in their second bucket; they are found as long as they are there.
#[test]
fn stations_are_found_in_either_bucket() {
    let (fdb, reader) = fdb(Config { capacity: 60, vlans: 0, ..CONFIG });
    let keys: Vec<FdbKey> = (0..110).map(|n| FdbKey::of(mac(n), 0)).collect();
    let (mut ports, mut there) = (vec![0; keys.len()], vec![false; keys.len()]);
    for step in 0..600u64 {
        let number = ((step * 0x9e37_79b9) >> 8) as u8 % 110;
        match there[usize::from(number)] {
            true => assert!(fdb.remove(mac(number), 0)),
            false => assert!(fdb.insert_static(mac(number), 0, usize::from(number) % PORTS)),
        }
        there[usize::from(number)] ^= true;
        fdb.lookup_batch(&reader, &keys, &mut ports);
        for (at, port) in ports.iter().enumerate() {
            let want = if there[at] { (at % PORTS) as u16 } else { UNKNOWN };
            assert_eq!((*port, fdb.lookup(&reader, keys[at])), (want, want), "step {step}, station {at}");
        }
        assert!(strays_are_counted(&fdb), "step {step}");
    }
    // Until it is full: then one or the other finds no room.
    for number in 0..110 {
        there[usize::from(number)] = fdb.insert_static(mac(number), 0, 1);
    }
    for (key, there) in keys.iter().zip(there) {
        assert_eq!(fdb.lookup(&reader, *key), if there { 1 } else { UNKNOWN });
    }
    assert!(fdb.strays.iter().any(|strays| strays.load(Relaxed) > 0));
    assert!(strays_are_counted(&fdb));
}

/// Nobody comes back from the dead when the clock's eight bits come round, however seldom frames come.
#[test]
fn what_is_too_old_stays_forgotten_in_large_tables() {
    let stations = if cfg!(miri) { 100 } else { 1500u64 };
    let (fdb, mut reader) =
        fdb(Config { capacity: 8 * stations as usize, vlans: 0, port_limit: 0, ..CONFIG });
    let key = |n: u64| FdbKey::new(0x0200_0000_0000 + n, fdb.salt(0));
    for n in 0..stations {
        assert_eq!(fdb.learn(&reader, key(n), 1, &mut 1), Noted::As(Learned::New));
    }
    let found =
        |reader: &sync::rcu::Reader| (0..stations).filter(|n| fdb.lookup(reader, key(*n)) == 1).count();
    let mut now = 0;
    for gap in (1..30).cycle().take(60) {
        now += gap;
        fdb.pass(now);
        reader.quiescent();
        let want = if now <= AGEING_NS { stations as usize } else { 0 };
        assert_eq!(found(&reader), want, "at {now}");
    }
    // With more frames the sweep has its time.
    for _ in 0..2 * fdb.buckets.len() {
        now += 1;
        fdb.pass(now);
    }
    assert!(fdb.counts.of.iter().all(|count| count.load(Relaxed) == 0));
}

/// Of a time that is divided anew: who is known stays so for a time between both, and no longer than the new one from then on.
#[test]
fn ages_stay_between_the_former_time_and_the_new_one() {
    let key = |n| FdbKey::of(mac(n), 0);
    for (was, new) in [(AGEING_NS, 100 * AGEING_NS), (100 * AGEING_NS, AGEING_NS), (AGEING_NS, AGEING_NS / 2)]
    {
        let (fdb, mut reader) = fdb(Config { vlans: 0, ageing_ns: was, ..CONFIG });
        for n in 0..8 {
            // Seen at different times, the first ones too old when the time is changed.
            let now = u64::from(n) * was / 4;
            fdb.advance(now);
            assert_eq!(fdb.learn(&reader, key(n), 1, &mut 1), Noted::As(Learned::New));
        }
        let changed = 2 * was - was / 8;
        fdb.set_ageing_ns(new, changed);
        let mut last = [changed; 8];
        let (step, mut now) = (was.min(new) / 32, changed);
        while now < changed + was + 2 * new {
            for n in 0..8 {
                if fdb.lookup(&reader, key(n)) == 1 {
                    last[usize::from(n)] = now;
                }
            }
            now += step;
            reader.quiescent();
            fdb.pass(now);
        }
        for (n, last) in last.into_iter().enumerate() {
            let (seen, slack) = (n as u64 * was / 4, step + was.max(new) / 64);
            let least = (seen + was.min(new)).max(changed);
            let most = (seen + was.max(new)).min(changed + new).max(changed);
            let most = if n < 4 { changed } else { most + slack };
            assert!(last + slack >= least && last <= most, "{n}, {was} to {new}: until {last}");
        }
        assert_eq!(fdb.entries(), []);
    }
}

/// Each level of instructions gives the same answers: those of the lookup of one key.
#[test]
fn batches_answer_as_single_lookups_do() {
    let domain = Domain::default();
    let config = Config { capacity: 300, vlans: 0, ageing_ns: AGEING_NS, ..CONFIG };
    let mut fdb = Fdb::new(config, 7, &domain).expect("memory");
    let reader = domain.register("test");
    let key = |n: u64| FdbKey::new(0x0200_0000_0000 + n, 0);
    for n in 0..300 {
        fdb.learn(&reader, key(n), n as usize % 3, &mut 1);
    }
    fdb.insert_static([2, 0, 0, 0, 1, 0x90], 0, 2);
    for level in Level::all() {
        fdb.level = level;
        for len in 0..70 {
            // Sources behind all ports and unknown ones, among them the static one, number 400.
            let numbers = (0..2 * len).map(|n| (n * 37 + len * 11) % 450).collect::<Vec<u64>>();
            let keys: Vec<_> = numbers.iter().map(|n| key(*n)).collect();
            let want: Vec<_> = keys.iter().map(|key| fdb.lookup(&reader, *key)).collect();
            let mut ports = vec![0; keys.len()];
            fdb.lookup_batch(&reader, &keys, &mut ports);
            assert_eq!(ports, want, "{level:?}");
            let mut frames = Places::default();
            fdb.seek(keys.as_chunks().0, &mut frames);
            for port in [None, Some(0), Some(1)] {
                let mark = port.and_then(|port| fdb.mark(&reader, port));
                let (mut at, mut stops) = (0, Vec::new());
                let mut ports = vec![7; frames.len()];
                while at < frames.len() {
                    at += fdb.answer(&reader, mark, None, (&frames, at), &mut ports[at..]);
                    stops.extend((at < frames.len()).then_some(at));
                    at += 1;
                }
                let news = |at: &usize| {
                    port.is_some_and(|port| numbers[2 * at] != 400 && want[2 * at] != port as u16)
                };
                assert_eq!(stops, (0..frames.len()).filter(news).collect::<Vec<_>>(), "{level:?}");
                for (at, port) in ports.iter().enumerate().filter(|(at, _)| !stops.contains(at)) {
                    assert_eq!(*port, want[2 * at + 1], "{level:?}");
                }
                // Where strangers are refused it stops at those that moved only.
                let (mut at, mut refused) = (0, 0);
                while at < frames.len() {
                    at += fdb.answer(&reader, mark, Some(&mut refused), (&frames, at), &mut ports[at..]);
                    assert!(
                        at == frames.len() || stops.contains(&at) && want[2 * at] != UNKNOWN,
                        "{level:?}"
                    );
                    at += 1;
                }
                let strangers = stops.iter().filter(|at| want[2 * **at] == UNKNOWN).count();
                assert_eq!(refused, strangers as u64, "{level:?}");
            }
        }
    }
}

#[test]
fn another_table_takes_over() {
    let (old, reader) = fdb(CONFIG);
    for (number, vlan, port) in [(1, 0, 0), (2, 1, 2), (3, 2, 1)] {
        old.learn(&reader, FdbKey::of(mac(number), old.salt(vlan)), port, &mut 1);
    }
    old.insert_static(mac(9), 0, 0);
    old.advance(10);
    let (new, _) = fdb(Config { ports: 2, ..CONFIG });
    new.take(&old);
    let list: Vec<_> = new.entries().iter().map(|e| (e.vlan, e.mac, e.port, e.age_ns)).collect();
    assert_eq!(list, [(0, mac(1), 0, 10), (2, mac(3), 1, 10)]);
}

#[test]
fn threads_learn_move_and_flush_at_once() {
    let domain = Domain::default();
    let fdb = Fdb::new(CONFIG, 3, &domain).expect("memory");
    let rounds = if cfg!(miri) { 50 } else { 20_000u64 };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (fdb, domain) = (&fdb, &domain);
            scope.spawn(move || {
                let mut reader = domain.register("thread");
                for round in 0..rounds {
                    let number = (round * 7 % 100) as u8;
                    let key = FdbKey::of(mac(number), 0);
                    fdb.learn(&reader, key, thread, &mut u32::MAX.clone());
                    let port = fdb.lookup(&reader, key);
                    assert!(port == UNKNOWN || port < 2, "port {port}");
                    reader.quiescent();
                }
            });
        }
        for round in 0..rounds / 10 {
            fdb.flush_port(round as usize % 2);
            fdb.advance(round);
        }
    });
    let entries = fdb.entries();
    assert!(entries.windows(2).all(|pair| pair[0].mac != pair[1].mac), "a station stands twice: {entries:?}");
    fdb.flush_all(None);
    assert_eq!((fdb.len(), fdb.entries()), (0, vec![]));
    // Long enough for the sweep to come by everywhere. After a jump over the ageing time it would go on later.
    (0..AGEING_NS).for_each(|tick| fdb.advance(rounds / 10 + tick));
    assert!(
        fdb.counts.of.iter().all(|count| count.load(Relaxed) == 0),
        "places are counted as they are freed"
    );
    assert!(strays_are_counted(&fdb));
}
