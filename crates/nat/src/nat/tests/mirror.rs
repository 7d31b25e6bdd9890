// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two translators with the same statements, which keep each other's sessions.

use statesync::{NotTaken, Op, Pass, Table};
use tables::flow::{NEVER, State};

use super::*;
use crate::SessionRecord;

const QUEUE: usize = 1000;

/// Two translators that note changes.
fn pair(text: &str) -> [Nat; 2] {
    [1, 2].map(|seed| {
        let mut nat = Nat::new(policy(text), &[address("192.0.2.1")], seed);
        nat.tell_changes(QUEUE);
        nat
    })
}

/// Changes reach the other one, as bytes. Returns what was not taken.
fn carry(nats: &mut [Nat; 2], now: u64) -> Vec<NotTaken> {
    let mut refused = Vec::new();
    // A record may cause another one in return.
    for _ in 0..4 {
        for from in 0..2 {
            let mut told = Vec::new();
            nats[from].subscribers.pass(now);
            let lost = nats[from].changes(now, QUEUE, &mut |op, record| told.push((op, record.to_vec())));
            assert!(!lost, "none is lost");
            for (op, record) in told {
                let to = &mut nats[1 - from];
                to.apply(now, op, &record).unwrap_or_else(|why| refused.push(why));
                consistent(to);
            }
        }
    }
    assert_eq!([0, 1].map(|n| nats[n].changes_waiting()), [0, 0]);
    refused
}

/// All sessions that are agreed on are sent again.
fn resend(nats: &mut [Nat; 2], from: usize, now: u64) {
    let walk = |nat: &mut Nat, pass: Pass| {
        let mut at = Some(0);
        while let Some(from) = at {
            at = nat.pass(now, pass, from, 3);
        }
    };
    walk(&mut nats[1 - from], Pass::Mark);
    let (mut at, mut all) = (Some(0), Vec::new());
    while let Some(place) = at {
        at = nats[from].owned(now, place, 3, &mut |record| all.push(record.to_vec()));
    }
    for record in all {
        nats[1 - from].apply(now, Op::Put, &record).unwrap();
    }
    walk(&mut nats[1 - from], Pass::Sweep);
    consistent(&nats[1 - from]);
}

/// Opens a connection of TCP; returns its outside port.
fn open(nat: &mut Nat, now: u64, host: u8, port: u16) -> u16 {
    let there = format!("ip 10.0.1.{host} > 203.0.113.9 / tcp {port} > 80");
    let outside = super::port(&out(nat, now, &format!("{there} flags S")).unwrap());
    come(nat, now, &format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {outside} flags SA")).unwrap();
    out(nat, now, &format!("{there} flags A")).unwrap();
    outside
}

fn mirrored(nat: &Nat) -> usize {
    nat.sessions().filter(|session| session.expires_ns == NEVER).count()
}

#[test]
fn an_established_connection_goes_on_through_the_peer() {
    let mut nats = pair(HOME);
    let port = open(&mut nats[0], 0, 5, 1000);
    out(&mut nats[0], 0, "ip 10.0.1.6 > 203.0.113.9 / tcp 1 > 80 flags S").unwrap();
    assert!(carry(&mut nats, 0).is_empty());
    // What is not agreed on stays where it is.
    assert_eq!((nats[0].len(), nats[1].len(), mirrored(&nats[1])), (2, 1, 1));
    let session = nats[1].sessions().next().unwrap();
    assert_eq!((session.state, session.outside.1), (State::Open, port));
    // It stays for as long as its owner says so, and is not noted twice.
    nats[1].reap(30 * 24 * 3600 * S, 1000);
    assert_eq!(nats[1].len(), 1);
    // The peer takes over, from either side.
    let line = format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {port} flags A");
    assert_eq!(come(&mut nats[1], 9 * S, &line).unwrap(), "203.0.113.9:80 > 10.0.1.5:1000");
    let line = "ip 10.0.1.5 > 203.0.113.9 / tcp 1000 > 80 flags A";
    assert_eq!(out(&mut nats[1], 9 * S, line).unwrap(), format!("192.0.2.1:{port} > 203.0.113.9:80"));
    assert_eq!(nats[1].changes_waiting(), 1, "it tells of that once");
    carry(&mut nats, 9 * S);
    assert_eq!((mirrored(&nats[0]), mirrored(&nats[1])), (1, 0));
    // It ends there: two FINs and the time of those that are over.
    for side in 0..2 {
        let [a, b] = [("10.0.1.5", 1000), ("203.0.113.9", 80)];
        let _ = match side {
            0 => out(&mut nats[1], 10 * S, &format!("ip {} > {} / tcp {} > {} flags FA", a.0, b.0, a.1, b.1)),
            _ => come(&mut nats[1], 10 * S, &format!("ip {} > 192.0.2.1 / tcp 80 > {port} flags FA", b.0)),
        };
    }
    carry(&mut nats, 10 * S);
    assert_eq!(nats[0].sessions().map(|one| one.state).filter(|state| *state == State::Closed).count(), 1);
    nats[1].reap(300 * S, 1000);
    nats[0].reap(300 * S, 1000);
    carry(&mut nats, 300 * S);
    assert_eq!(
        [0, 1].map(|n| (nats[n].len(), nats[n].mappings(), nats[n].subscribers().count())),
        [(0, 0, 0); 2]
    );
}

#[test]
fn a_session_that_both_use_goes_on_until_both_are_silent() {
    let mut nats = pair(HOME);
    let port = open(&mut nats[0], 0, 5, 1000);
    carry(&mut nats, 0);
    // One direction goes through each, all the time: neither takes it from the other with each packet.
    for now in 1..100 {
        let now = now * S / 10;
        out(&mut nats[0], now, "ip 10.0.1.5 > 203.0.113.9 / tcp 1000 > 80 flags A").unwrap();
        come(&mut nats[1], now, &format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {port} flags A")).unwrap();
        assert!(nats[0].changes_waiting() + nats[1].changes_waiting() <= usize::from(now == S / 10));
        carry(&mut nats, now);
    }
    assert_eq!((mirrored(&nats[0]), mirrored(&nats[1])), (0, 0));
    // Through the second one alone: the first one forgets it, and gets it back.
    let later = 8000 * S;
    for now in (10..8000).step_by(1000) {
        come(&mut nats[1], now * S, &format!("ip 203.0.113.9 > 192.0.2.1 / tcp 80 > {port} flags A"))
            .unwrap();
    }
    nats[0].reap(later, 1000);
    assert_eq!(nats[0].len(), 0);
    carry(&mut nats, later);
    assert_eq!((mirrored(&nats[0]), mirrored(&nats[1]), nats[1].len()), (1, 0, 1));
}

#[test]
fn what_is_owned_is_not_given_up() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1 ports 4000-4000";
    let mut nats = pair(text);
    // Split brain: both have given the only port.
    open(&mut nats[0], 0, 5, 1000);
    open(&mut nats[1], 0, 6, 1000);
    assert_eq!(carry(&mut nats, 0), [NotTaken::Conflict; 2]);
    assert_eq!([0, 1].map(|n| (nats[n].len(), mirrored(&nats[n]))), [(1, 0); 2]);
    // One ends: the other one's is taken with the next of its changes.
    nats[0].reap(9000 * S, 100);
    out(&mut nats[1], 7000 * S, "ip 10.0.1.6 > 203.0.113.9 / tcp 1000 > 80 flags A").unwrap();
    carry(&mut nats, 9000 * S);
    resend(&mut nats, 1, 9000 * S);
    assert_eq!([0, 1].map(|n| (nats[n].len(), mirrored(&nats[n]))), [(1, 1), (1, 0)]);
    // Mirrored sessions give way to others of the peer.
    let mut record = None;
    nats[1].owned(9000 * S, 0, 10, &mut |one| record = SessionRecord::from_bytes(one));
    let other = SessionRecord { inside: ("10.0.1.7".parse().unwrap(), 1), ..record.unwrap() };
    nats[0].apply(9000 * S, Op::Put, &other.to_bytes()).unwrap();
    consistent(&nats[0]);
    assert_eq!((nats[0].len(), nats[0].sessions().next().unwrap().inside), (1, other.inside));
}

#[test]
fn what_the_statements_do_not_give_is_refused() {
    let mut nats = pair("translate 10.0.1.0/24 to 192.0.2.1\nsessions 2");
    open(&mut nats[0], 0, 5, 1000);
    let mut record = None;
    nats[0].owned(0, 0, 10, &mut |one| record = SessionRecord::from_bytes(one));
    let one = record.unwrap();
    let check = |nat: &mut Nat, other: SessionRecord, want: Result<(), NotTaken>| {
        assert_eq!(nat.apply(0, Op::Put, &other.to_bytes()), want, "{other:?}");
        consistent(nat);
    };
    let nat = &mut nats[1];
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    for inside in ["10.0.2.5", "0.0.0.9", "2001:db8::1"] {
        check(nat, SessionRecord { inside: (address(inside), 5), ..one }, Err(NotTaken::Policy));
    }
    check(nat, SessionRecord { outside: ("192.0.2.7".parse().unwrap(), 5000), ..one }, Err(NotTaken::Policy));
    check(nat, SessionRecord { outside: (one.outside.0, 80), ..one }, Err(NotTaken::Policy));
    check(nat, SessionRecord { counts: false, ..one }, Err(NotTaken::Policy));
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
    for host in 0..2 {
        let inside = (address(&format!("10.0.1.{host}")), 5);
        check(nat, SessionRecord { inside, outside: (one.outside.0, 5000 + host), ..one }, Ok(()));
    }
    check(nat, one, Err(NotTaken::Full));
}

#[test]
fn a_peer_that_is_gone_leaves_its_sessions() {
    let mut nats = pair(HOME);
    (0..20).for_each(|n| _ = open(&mut nats[0], 0, 5, 1000 + n));
    carry(&mut nats, 0);
    assert_eq!(mirrored(&nats[1]), 20);
    let mut at = Some(0);
    while let Some(from) = at {
        at = nats[1].pass(50 * S, Pass::Adopt, from, 7);
    }
    assert_eq!((nats[1].len(), mirrored(&nats[1])), (20, 0));
    // The peer comes back without any, and gets all.
    nats[0] = pair(HOME).into_iter().next().unwrap();
    resend(&mut nats, 1, 60 * S);
    assert_eq!((nats[0].len(), mirrored(&nats[0])), (20, 20));
    // Changes were lost: what is not sent again ends.
    nats[1].tell_changes(3);
    let (host, peer) = ("10.0.1.5".parse().unwrap(), ("203.0.113.9".parse().unwrap(), 80));
    (0..5).for_each(|n| assert!(nats[1].end(6, (host, 1000 + n), peer)));
    assert!(nats[1].changes(70 * S, 100, &mut |_, _| {}), "some were lost");
    assert!(!nats[1].changes(70 * S, 100, &mut |_, _| {}));
    resend(&mut nats, 1, 70 * S);
    assert_eq!((nats[0].len(), mirrored(&nats[0])), (15, 15));
    // Other statements: everything must be sent again.
    nats[1].replace(
        policy("translate 10.0.1.0/24 to 192.0.2.1 ports 1024-40000"),
        &[address("192.0.2.1")],
        1,
    );
    assert!(nats[1].changes(70 * S, 100, &mut |_, _| {}));
}

#[test]
fn a_random_life_of_two_leaves_nothing_behind() {
    let texts = [
        "translate 10.0.0.0/28 to 192.0.2.1 ports 2000-2031\nforward tcp 80-82 to 10.0.0.3 port 90\nsessions 40",
        "translate 10.0.0.0/29 to 192.0.2.1-192.0.2.2 ports 2000-2031 block 8 max 2\ntranslate 10.0.0.8/29 to 192.0.2.3 max-sessions 9\nfilter address-dependent",
        "translate 10.0.0.0/28 to 192.0.2.1-192.0.2.2 ports 2000-2063 deterministic\nlog sessions",
    ];
    let mut rng = Rng::with_seed(3);
    for text in texts {
        let mut nats = pair(text);
        let (mut now, mut active, mut at_most) = (0, 0, 0);
        for _ in 0..4000 {
            now += rng.u64(..20 * S);
            if rng.u8(..40) == 0 {
                active = rng.usize(..2);
            }
            let used = if rng.u8(..20) == 0 { 1 - active } else { active };
            let (a, b) = (format!("10.0.0.{}", rng.u8(..16)), format!("203.0.113.{}", rng.u8(..6)));
            let (p, flags) = (rng.u16(88..92), ["S", "SA", "A", "FA", "R"][rng.usize(..5)]);
            // Most answers are to sessions that there are.
            let all: Vec<Session> = nats[used].sessions().collect();
            let known = (!all.is_empty()).then(|| all[rng.usize(..all.len())]);
            let (line, leaving) = match (rng.u8(..4), known.filter(|one| one.protocol != 1)) {
                (0 | 1, _) if rng.bool() => (format!("ip {a} > {b} / udp {p} > 7"), true),
                (0 | 1, _) => (format!("ip {a} > {b} / tcp {p} > 7 flags {flags}"), true),
                (_, Some(one)) => {
                    let upper = if one.protocol == 17 { "udp" } else { "tcp" };
                    let flags = if one.protocol == 17 { String::new() } else { format!(" flags {flags}") };
                    let ends = format!("{} > {}{flags}", one.peer.1, one.outside.1);
                    (format!("ip {} > {} / {upper} {ends}", one.peer.0, one.outside.0), false)
                }
                _ => (format!("ip {b} > 192.0.2.1 / tcp 9 > {} flags S", rng.u16(80..83)), false),
            };
            go(&mut nats[used], now, &mut packet(&line), leaving);
            if rng.u8(..3) > 0 {
                nats.iter_mut().for_each(|nat| nat.reap(now, 64));
                carry(&mut nats, now);
            }
            at_most = at_most.max(mirrored(&nats[1 - active]));
        }
        assert!(at_most > 5, "{at_most}");
        // In time both are empty.
        for _ in 0..200 {
            now += 1000 * S;
            nats.iter_mut().for_each(|nat| nat.reap(now, 1000));
            carry(&mut nats, now);
        }
        for nat in &nats {
            assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count(), nat.peers.len()), (0, 0, 0, 0));
        }
    }
}
