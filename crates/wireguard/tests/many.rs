// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device with ten thousand peers.

mod pair;

use junctor_wireguard::config::parse;
use junctor_wireguard::limits::SECOND;
use junctor_wireguard::seal::Unsealed;
use junctor_wireguard::shake::{Here, Refusal};
use junctor_wireguard::{Config, Device, PeerConfig, PublicKey};
use pair::{Side, inner, secret};
use sync::rcu::{Domain, Limits, Reader};

/// Peers of the test.
const PEERS: u32 = 10_000;

fn key(n: u32) -> PublicKey {
    let mut key = [7; 32];
    key[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_le_bytes());
    PublicKey(key)
}

/// A configuration file with these peers: each has an endpoint and a network of 256 addresses.
fn file(peers: std::ops::Range<u32>) -> Config {
    let peer = |n: u32| {
        format!(
            "[Peer]\nPublicKey = {}\nEndpoint = 198.51.100.1:{}\nAllowedIPs = 10.{}.{}.0/24\n",
            key(n),
            1 + n,
            n >> 8,
            n & 255
        )
    };
    let peers: String = peers.map(peer).collect();
    parse(&format!("[Interface]\nPrivateKey = {}\n{peers}", secret(1).reveal())).unwrap()
}

/// The peer whose network has an address of the test's.
fn peer_of(device: &Device, reader: &Reader, n: u32) -> Option<PublicKey> {
    let mut bytes = inner(1, 2, 60);
    let to = [10, (n >> 8) as u8, n as u8, 9];
    wire::ipv4::HeaderMut::from_slice(&mut bytes).unwrap().rewrite_dst(to.into());
    match device.choose(reader, &bytes, 1500, 0) {
        Err(Unsealed::NoSession(number)) => Some(device.peer(reader, number).unwrap().key),
        _ => None,
    }
}

/// Nothing is freed while a worker stands still, so what waits to be freed says how often something was published.
#[test]
fn a_file_of_many_peers_is_published_at_once() {
    let domain = Domain::default();
    let reader = domain.register("a worker that stands still");
    let device = Device::new(secret(1), &domain, 2).unwrap();
    let whole = file(0..PEERS);
    let published = |config: &Config| {
        let before = domain.waiting().0;
        device.follow(config).unwrap();
        domain.waiting().0 - before
    };
    let first = published(&whole);
    assert!(first <= 16, "{first}");
    let again = published(&whole);
    assert!(again <= 16, "{again}");
    assert_eq!(device.count(), PEERS as usize);
    for _ in 0..1000 {
        let n = fastrand::u32(..PEERS);
        assert_eq!(peer_of(&device, &reader, n), Some(key(n)), "{n}");
    }
    let shown = device.show(&reader);
    assert!(
        (0..).zip(&shown).all(|(n, peer)| peer.endpoint.unwrap().port() == 1 + n),
        "every endpoint is there"
    );
}

/// An endpoint for each of many peers is more than may be published while workers stand still, as they do in a hot swap. None is lost.
#[test]
fn endpoints_that_cannot_be_published_now_are_published_later() {
    // A worker that stands still, and little room for what it holds up.
    let domain = Domain::new(Limits { objects: 300, bytes: 256 << 20 });
    let mut worker = domain.register("a worker that stands still");
    let device = Device::new(secret(1), &domain, 1).unwrap();
    let mut config = file(0..PEERS / 10);
    device.follow(&config).unwrap();
    let moved = |n: usize| Some(([203, 0, 113, 1], 2 + n as u16).into());
    config.peers.iter_mut().zip(0..).for_each(|(peer, n)| peer.endpoint = moved(n));
    device.follow(&config).unwrap();
    let left = |reader: &Reader| {
        device.show(reader).iter().zip(0..).filter(|(peer, n)| peer.endpoint != moved(*n)).count()
    };
    let at_once = left(&worker);
    assert!(at_once > 700, "{at_once}");
    let tick = |reader: &Reader, now_ns| {
        let here = Here { reader, worker: 0, now_ns, wall_ns: now_ns };
        device.tick(&here, &mut |_, _| panic!("nothing is to be sent"))
    };
    // As long as the worker stands still there is no room, and it is tried again.
    let mut now_ns = SECOND;
    for _ in 0..5 {
        now_ns = tick(&worker, now_ns).unwrap();
    }
    assert!(left(&worker) > 700);
    // The latest word counts, and who has gone does not hold others up.
    config.peers[500].endpoint = Some("203.0.113.9:9".parse().unwrap());
    assert!(device.set_peer(&config.peers[500]).unwrap_err().is_passing());
    worker.quiescent();
    device.set_peer(&config.peers[500]).unwrap();
    worker.quiescent();
    device.remove_peer(&config.peers[0].key).unwrap();
    for _ in 0..20 {
        worker.quiescent();
        if let Some(next) = tick(&worker, now_ns) {
            now_ns = next;
        }
    }
    let shown = device.show(&worker);
    assert_eq!(shown.len(), config.peers.len() - 1);
    for peer in &config.peers[1..] {
        let is = shown.iter().find(|shown| shown.key == peer.key).unwrap().endpoint;
        assert_eq!(is, peer.endpoint);
    }
}

/// Peers are found by their keys in handshakes, as peers come and go.
#[test]
fn one_of_many_peers_begins_a_handshake() {
    let (mut a, mut b) = (Side::new(1, 2, Some("192.0.2.2:51820")), Side::new(2, 1, None));
    let theirs = b.device.peer(&b.reader, 0).unwrap().key;
    let mut many = file(0..PEERS);
    many.peers.insert(5000, PeerConfig::new(theirs));
    b.device.follow(&many).unwrap();
    b.device.follow(&many).unwrap();
    let hello = a.hurry().remove(0);
    assert_eq!(b.receive(&hello), Err(Err(Ok(()))));
    many.peers.remove(5000);
    b.device.follow(&many).unwrap();
    a.now_ns += 6 * SECOND;
    b.now_ns += 6 * SECOND;
    let hello = a.pass(SECOND).remove(0);
    assert_eq!(b.receive(&hello), Err(Err(Err(Refusal::Unknown))));
    assert_eq!(b.device.count(), PEERS as usize);
}
