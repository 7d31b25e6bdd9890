// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans over addresses where nobody is, next to neighbours that are there.

use super::*;

/// A dead neighbour that is sent to a lot, next to one that is about to answer.
#[test]
fn a_flood_does_not_drop_the_modest() {
    let mut table = Neighbours::new(Config { capacity: 100, ..Config::default() }, 0);
    table.wait(1u32, 0, 0, ignore);
    table.wait(1, 1, 0, ignore);
    for item in 2..1000 {
        table.wait(2, item, 0, ignore);
    }
    let kept: Vec<u32> = table.insert(1, mac(1), 0, ignore).into();
    assert_eq!(kept, [0, 1]);
    let flood = table.insert(2, mac(2), 0, ignore);
    assert_eq!(flood.back(), Some(&999), "the newest of the flood are kept");
}

/// What a scan of `scan_per_ms` new addresses each millisecond for two seconds, from `sources` sources, leaves of the
/// packets to 50 neighbours, one each every 20 ms, which answer a query 2 ms after it was sent. Their packets come by
/// the interface of the scan, from a source of their own. Returns delivered and sent.
fn scan(config: Config, scan_per_ms: u32, sources: u64) -> (usize, usize) {
    let mut table = Neighbours::<(u32, u64), u128>::new(config, 3);
    let (mut delivered, mut sent) = (0, 0);
    let mut answers: Vec<(u64, u128)> = Vec::new();
    let asker = |source| Asker { owner: 0, share: Share { interface: 1, source } };
    for ms in 0..2000u64 {
        let now = ms * MS;
        let good = |ip: u128| ip < 50;
        let mut queries: Vec<u128> = Vec::new();
        table.advance(0, now, |due| {
            if let Due::Query(ip, _) = due {
                queries.push(ip);
            }
        });
        answers.retain(|(at, ip)| {
            if *at == ms {
                delivered += table.hear(*ip, advert(*ip as u8, true, true), now, ignore).len();
            }
            *at > ms
        });
        for i in 0..scan_per_ms {
            let number = ms * u64::from(scan_per_ms) + u64::from(i);
            // Half of the scan before the good packets, half after them.
            if i == scan_per_ms / 2 {
                for ip in (0..50u128).filter(|ip| (ip + u128::from(ms)).is_multiple_of(20)) {
                    sent += 1;
                    match table.lookup(ip, now) {
                        Answer::Known { .. } => delivered += 1,
                        Answer::Unknown => match table.wait_for(ip, (0, ms), asker(1), now, ignore) {
                            Waiting::Queued { query: true } => queries.push(ip),
                            Waiting::Known(..) => delivered += 1,
                            _ => {}
                        },
                    }
                }
            }
            let dead = 1000 + u128::from(number);
            table.wait_for(dead, (1, ms), asker(2 + number % sources), now, ignore);
        }
        answers.extend(queries.into_iter().filter(|ip| good(*ip)).map(|ip| (ms + 2, ip)));
        assert!(table.waiting() <= config.capacity && table.unresolved() <= config.unresolved_capacity);
    }
    (delivered, sent)
}

/// 100,000 addresses in two seconds, and fewer in other circumstances.
#[test]
fn a_scan_leaves_the_good_packets_alone() {
    let tight = Config { entry_capacity: 128, unresolved_capacity: 64, capacity: 64, ..timed() };
    let check = |config: Config, per_ms, sources| {
        let (delivered, sent) = scan(config, per_ms, sources);
        assert_eq!(sent, 5000);
        assert!(delivered * 100 >= sent * 98, "{delivered} of {sent}, {sources} sources, {config:?}");
    };
    check(timed(), 50, 1 << 40);
    for sources in [1, 7, 1 << 40] {
        check(timed(), 6, sources);
        check(Config::default(), 6, sources);
        check(Config { new_per_second: 100, ..timed() }, 6, sources);
    }
    // Room for 64 that are asked for: the scan has a source of its own, and the others keep theirs.
    check(tight, 50, 1);
    check(Config { discipline: Discipline::OnDemand, ..tight }, 6, 1);
}

/// A table full of neighbours in use gives none of them up for strangers, and takes none in.
#[test]
fn known_neighbours_stay() {
    let config = Config { entry_capacity: 100, ..Config::default() };
    let mut table = Neighbours::<u32>::new(config, 0);
    for ip in 0..100 {
        table.insert(ip, mac(ip as u8), SECOND, ignore);
    }
    for ip in 1000..2000 {
        assert_eq!(table.wait(ip, ip, SECOND, ignore), Waiting::Refused(ip, Loss::TableFull));
    }
    assert_eq!((table.len(), table.unresolved()), (100, 0));
    // One has not been confirmed for a minute: strangers get its place, and share it.
    for ip in 1..100 {
        table.insert(ip, mac(ip as u8), 60 * SECOND, ignore);
    }
    for ip in 1000..2000 {
        assert_eq!(table.wait(ip, ip, 61 * SECOND, ignore), Waiting::Queued { query: true });
    }
    assert_eq!((table.len(), table.unresolved()), (100, 1));
    assert!((1..100).all(|ip| table.get(ip, 61 * SECOND).is_some()));
}
