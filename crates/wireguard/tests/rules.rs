// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that show only with several workers, several peers or several places.

mod pair;

use junctor_wireguard::PeerConfig;
use junctor_wireguard::limits::{REKEY_AFTER, SECOND, SILENCE};
use junctor_wireguard::message::INITIATION_LEN;
use junctor_wireguard::open::Dropped;
use junctor_wireguard::peer::Line;
use pair::{Side, inner, secret};

/// Bytes of headers in front of messages, over IPv4.
const HEADERS: usize = 28;

fn line(side: &Side, worker: usize) -> &Line {
    side.device.peer(&side.reader, 0).expect("the peer").line(worker)
}

fn begins(said: &[Vec<u8>]) -> bool {
    said.iter().any(|bytes| bytes.len() == HEADERS + INITIATION_LEN)
}

/// Lines have one writer each, so a worker that writes another one's loses counts.
#[test]
fn a_worker_writes_its_own_line_only() {
    let (mut a, mut b) = Side::pair();
    let of = |line: &Line| {
        [&line.tx_bytes, &line.rx_bytes, &line.sent_data, &line.got_data].map(|counter| counter.get())
    };
    let before = [of(line(&a, 0)), of(line(&b, 0))];
    (a.worker, b.worker) = (1, 1);
    let mut total = 0;
    for _ in 0..3 {
        let sealed = a.send(&inner(1, 2, 60)).unwrap();
        total += (sealed.len() - HEADERS) as u64;
        b.receive(&sealed).unwrap();
    }
    assert_eq!([of(line(&a, 0)), of(line(&b, 0))], before);
    assert_eq!((line(&a, 1).tx_bytes.get(), line(&b, 1).rx_bytes.get()), (total, total));
    assert_eq!((line(&a, 1).sent_data.get(), line(&b, 1).got_data.get()), (a.now_ns + 1, b.now_ns + 1));
}

/// Who ticks is not who sends.
#[test]
fn timers_see_what_all_workers_send() {
    let (mut a, _) = Side::pair();
    a.pass(SECOND);
    a.worker = 1;
    a.send(&inner(1, 2, 60)).unwrap();
    a.worker = 0;
    let after = (1..=20).find(|_| begins(&a.pass(SECOND)));
    assert_eq!(after, Some(SILENCE / SECOND), "nothing came back");
}

#[test]
fn the_peer_is_where_its_genuine_messages_come_from() {
    let (mut a, mut b) = Side::pair();
    let from = |mut bytes: Vec<u8>, host: u8| {
        bytes[15] = host;
        bytes[20..22].copy_from_slice(&7u16.to_be_bytes());
        bytes
    };
    let leads_to = |side: &mut Side| {
        let sealed = side.send(&inner(2, 1, 60)).unwrap();
        (sealed[19], u16::from_be_bytes([sealed[22], sealed[23]]))
    };
    assert_eq!(leads_to(&mut b), (1, 51820));
    let mut forged = from(a.send(&inner(1, 2, 60)).unwrap(), 66);
    forged[HEADERS + 20] ^= 1;
    assert_eq!(b.receive(&forged), Err(Ok(Dropped::Forged)));
    assert_eq!(leads_to(&mut b), (1, 51820));
    b.receive(&from(a.send(&inner(1, 2, 60)).unwrap(), 77)).unwrap();
    assert_eq!(leads_to(&mut b), (77, 7));
}

/// The network of another peer is as foreign as that of nobody.
#[test]
fn a_peer_speaks_for_its_own_networks() {
    let (mut a, mut b) = Side::pair();
    let other =
        PeerConfig { allowed: vec!["10.3.0.0/16".parse().unwrap()], ..PeerConfig::new(secret(3).public()) };
    b.device.set_peer(&other).unwrap();
    for (network, passes) in [(1, true), (3, false), (9, false)] {
        let sealed = a.send(&inner(network, 2, 60)).unwrap();
        let expected = if passes { Ok(Some(inner(network, 2, 60))) } else { Err(Ok(Dropped::NotAllowed)) };
        assert_eq!(b.receive(&sealed), expected, "10.{network}.0.1");
    }
}

/// If both sides did, they would do so at the same moment.
#[test]
fn who_began_a_session_renews_it() {
    let (mut a, mut b) = Side::pair();
    for (side, renews) in [(&mut b, false), (&mut a, true)] {
        side.now_ns += REKEY_AFTER;
        let to = if renews { inner(1, 2, 60) } else { inner(2, 1, 60) };
        side.send(&to).unwrap();
        assert_eq!(begins(&side.pass(SECOND)), renews);
    }
}
