// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any bytes: no datagram of a stranger is taken, and those that are authentic end in records that can be walked through.

use junctor_statesync::{DATAGRAM_MAX, Key, Link, Op, RECORDS_MAX, Records, Settings, record};

const HELLO: u64 = 200_000_000;

/// Two links that know each other.
fn pair() -> [Link; 2] {
    let key = Key::new(b"a secret of the two routers").expect("long enough");
    let mut links = [3, 4].map(|epoch| Link::new(Settings::default(), key.clone(), epoch));
    let mut datagram = Vec::new();
    for round in 1..4 {
        for (from, to) in [(0, 1), (1, 0)] {
            links[from].poll(round * HELLO, &mut datagram);
            links[to].receive(round * HELLO, &datagram).expect("of the peer");
        }
    }
    links
}

/// Takes bytes as a datagram of a stranger, and as records of the peer; returns how many records were sound.
pub fn check(bytes: &[u8]) -> usize {
    let [mut one, mut other] = pair();
    let now = 4 * HELLO;
    let before = *other.counts();
    assert!(other.receive(now, bytes).is_err(), "a stranger has no key");
    assert_eq!(other.counts().received, before.received);
    assert!(one.take_restart(now));
    other.done();
    let mut datagram = Vec::new();
    let records = &bytes[..bytes.len().min(RECORDS_MAX)];
    one.send(now, records, &mut datagram);
    assert!(datagram.len() <= DATAGRAM_MAX);
    let taken = other.receive(now, &datagram).expect("of the peer");
    assert_eq!(taken, records);
    // What is written again is a beginning of what came.
    let (mut again, mut sound) = (Vec::new(), 0);
    for one in Records::of(taken) {
        let op = one.op.map_or(taken[again.len()], |op| op as u8);
        assert!(record(&mut again, Op::Put, one.table, one.body));
        let at = again.len() - one.body.len() - 3;
        again[at] = op;
        sound += usize::from(one.op.is_some());
    }
    assert!(taken.starts_with(&again));
    sound
}
