// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches of which the most part passes with a shared reference, compared with packets one after the other.

use super::*;
use crate::policy::UDP;

/// A batch of one direction as an element sends it through: first what needs no exclusive reference, then the others.
fn batch(nat: &mut Nat, now: u64, packets: &mut [Vec<u8>], leaving: bool) -> (Vec<Outcome>, usize) {
    if nat.is_due(now) {
        nat.reap(now, 1000);
    }
    let mut ahead = Vec::new();
    nat.look_ahead(packets.iter().map(Vec::as_slice), leaving, &mut ahead);
    let mut put_off = PutOff::default();
    let from_outside = |ip: &[u8]| ip[12] != 10;
    let first: Vec<Option<Outcome>> = packets
        .iter_mut()
        .zip(&ahead)
        .map(|(ip, ahead)| {
            let outside = from_outside(ip);
            match leaving {
                true => nat.leaving_shared(now, ip, ahead, &mut put_off),
                false => nat.arriving_shared(now, ip, ahead, outside, &mut put_off),
            }
        })
        .collect();
    let shared = first.iter().flatten().count();
    if shared < first.len() {
        nat.reap(now, 1000);
    }
    let both = first.into_iter().zip(packets).zip(&ahead);
    let outcomes = both.map(|((first, ip), ahead)| {
        let from_outside = from_outside(ip);
        first.unwrap_or_else(|| match leaving {
            true => nat.leaving(now, ip, ahead),
            false => nat.arriving(now, ip, ahead, from_outside),
        })
    });
    (outcomes.collect(), shared)
}

fn in_turn(nat: &mut Nat, now: u64, packets: &mut [Vec<u8>], leaving: bool) -> Vec<Outcome> {
    nat.reap(now, 1000);
    let mut ahead = Vec::new();
    let one = |ip: &mut Vec<u8>| {
        let from_outside = ip[12] != 10;
        nat.look_ahead(std::iter::once(&ip[..]), leaving, &mut ahead);
        match leaving {
            true => nat.leaving(now, ip, &ahead[0]),
            false => nat.arriving(now, ip, &ahead[0], from_outside),
        }
    };
    packets.iter_mut().map(one).collect()
}

/// All about sessions.
fn left(nat: &Nat) -> Vec<String> {
    let words = |s: Session| {
        let Session { protocol, inside, outside, peer, state, packets, bytes, expires_ns, .. } = s;
        format!(
            "{protocol} {inside:?} {outside:?} {peer:?} {} {packets:?} {bytes:?} {expires_ns}",
            state.name()
        )
    };
    let mut all: Vec<String> = nat.sessions().map(words).collect();
    all.sort();
    all
}

#[test]
fn batches_do_as_packets_in_turn() {
    let texts = [
        "translate 10.0.0.0/28 to 192.0.2.1 ports 2000-2031\nforward tcp 80-82 to 10.0.0.3 port 90",
        "translate 10.0.0.0/29 to 192.0.2.2\nstatic 10.0.0.9 to 192.0.2.9\nfilter address-dependent",
        "translate 10.0.0.0/28 to 192.0.2.2\nexempt 10.0.0.0/28 to 203.0.113.0/30\nfilter address-and-port-dependent",
    ];
    let mut rng = Rng::with_seed(5);
    for text in texts {
        let (mut one, mut other) = (nat(text), nat(text));
        let (mut now, mut shared, mut all) = (0, 0, 0);
        for _ in 0..3000 {
            now += rng.u64(..5 * S);
            let leaving = rng.bool();
            let packets: Vec<Vec<u8>> = (0..rng.usize(1..12))
                .map(|_| {
                    let inside = format!("10.0.0.{}", rng.u8(..10));
                    let peer = format!("203.0.113.{}", rng.u8(..6));
                    let outside = format!("192.0.2.{}", [1, 2, 9][rng.usize(..3)]);
                    let port = [rng.u16(88..92), rng.u16(2000..2032)][usize::from(!leaving)];
                    let port = if rng.u8(..6) == 0 { 80 } else { port };
                    let flags = ["S", "A", "A", "A", "SA", "FA", "R"][rng.usize(..7)];
                    let is_udp = rng.bool();
                    let upper = |p: u16, q: u16| match is_udp {
                        true => format!("udp {p} > {q}"),
                        false => format!("tcp {p} > {q} flags {flags}"),
                    };
                    packet(&match leaving {
                        true => format!("ip {inside} > {peer} / {}", upper(port, 443)),
                        false => format!("ip {peer} > {outside} / {}", upper(443, port)),
                    })
                })
                .collect();
            let (mut mine, mut theirs) = (packets.clone(), packets);
            let (outcomes, passed) = batch(&mut one, now, &mut mine, leaving);
            assert_eq!(
                (outcomes, &mine),
                (in_turn(&mut other, now, &mut theirs, leaving), &theirs),
                "{text}"
            );
            consistent(&one);
            (shared, all) = (shared + passed, all + mine.len());
            assert_eq!(left(&one), left(&other), "{text}");
        }
        assert!(shared * 3 > all, "{text}: {shared} of {all}");
    }
}

#[test]
fn packets_behind_one_that_was_put_off_wait_for_it() {
    let mut nat = nat(HOME);
    let [syn, ack, fin, rst] = ["S", "A", "FA", "R"]
        .map(|flags| packet(&format!("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags {flags}")));
    let outside = {
        let mut first = [syn.clone()];
        batch(&mut nat, 0, &mut first, true);
        port(&ends(&first[0]))
    };
    batch(
        &mut nat,
        0,
        &mut [packet(&format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA"))],
        false,
    );
    let state = |nat: &Nat| nat.sessions().next().unwrap().state.name();
    // The first of them makes it agreed on.
    let (_, shared) = batch(&mut nat, 1, &mut vec![ack.clone(); 4], true);
    assert_eq!((shared, state(&nat)), (0, "open"));
    let (_, shared) = batch(&mut nat, 2, &mut vec![ack.clone(); 4], true);
    assert_eq!(shared, 4);
    // A reset from inside, and then a segment: in this order the connection goes on.
    let (_, shared) = batch(&mut nat, 3, &mut [ack.clone(), rst.clone(), ack.clone()], true);
    assert_eq!((shared, state(&nat)), (1, "open"));
    let (_, shared) = batch(&mut nat, 3, &mut [ack.clone(), fin, ack], true);
    assert_eq!((shared, state(&nat)), (1, "half-closed"));
    assert_eq!(nat.sessions().next().unwrap().packets, [15, 1]);
}

/// One worker has packets that leave, one has the answers, and a third begins and ends other sessions.
#[test]
fn workers_translate_side_by_side() {
    const ROUNDS: u32 = if cfg!(miri) { 3 } else { 300 };
    let mut nat = nat(HOME);
    let out = |n: u16| packet(&format!("ip 10.0.1.{} > 203.0.113.1 / udp {} > 53", n % 7 + 1, 4000 + n));
    let pairs: Vec<[Vec<u8>; 2]> = (0..40)
        .map(|n| {
            let mut first = [out(n)];
            batch(&mut nat, 0, &mut first, true);
            let mut answer =
                [packet(&format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {}", port(&ends(&first[0]))))];
            let back = answer[0].clone();
            batch(&mut nat, 0, &mut answer, false);
            [out(n), back]
        })
        .collect();
    let lock = sync::read_mostly::ReadMostly::new(nat);
    std::thread::scope(|scope| {
        for side in 0..2 {
            let (mut reader, pairs) = (lock.reader(), &pairs);
            scope.spawn(move || {
                let (leaving, mut ahead) = (side == 0, Vec::new());
                for round in 0..ROUNDS {
                    let mut packets: Vec<Vec<u8>> = pairs.iter().map(|pair| pair[side].clone()).collect();
                    let nat = reader.read();
                    nat.look_ahead(packets.iter().map(Vec::as_slice), leaving, &mut ahead);
                    for (ip, ahead) in packets.iter_mut().zip(&ahead) {
                        let (now, mut put_off) = (u64::from(round) * S, PutOff::default());
                        let outcome = match leaving {
                            true => nat.leaving_shared(now, ip, ahead, &mut put_off),
                            false => nat.arriving_shared(now, ip, ahead, true, &mut put_off),
                        };
                        assert_eq!(outcome, Some(Outcome::Translated));
                        check(ip);
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..ROUNDS {
                let mut nat = lock.write();
                let line = format!("ip 10.0.1.{} > 203.0.113.9 / udp 9 > 9", n % 200 + 20);
                in_turn(&mut nat, 0, &mut [packet(&line)], true);
                let (host, peer) =
                    (Ipv4Addr::new(10, 0, 1, (n % 200 + 20) as u8), Ipv4Addr::new(203, 0, 113, 9));
                assert!(nat.end(UDP, (host.into(), 9), (peer, 9)));
            }
        });
    });
    let nat = lock.write();
    consistent(&nat);
    assert_eq!(nat.len(), 40);
    assert!(nat.sessions().all(|one| one.packets == [1 + ROUNDS; 2]), "each packet is counted");
}
