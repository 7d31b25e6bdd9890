// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that speak with each other, on a clock of the test's own.

mod pair;

use junctor_wireguard::limits::SECOND;
use junctor_wireguard::open::Dropped;
use junctor_wireguard::seal::Unsealed;
use junctor_wireguard::shake::Refusal;
use junctor_wireguard::{Config, Device, PeerConfig, PublicKey};
use pair::{Side, inner, secret};
use sync::rcu::Domain;

#[test]
fn packets_of_every_length_go_both_ways() {
    let (mut a, mut b) = Side::pair();
    for len in (20..100).chain([1399, 1400, 1439, 1440]) {
        let sealed = a.send(&inner(1, 2, len)).unwrap();
        assert!(sealed.len() <= 1500 && (sealed.len() - 60).is_multiple_of(16) || len > 1424, "{len}");
        assert_eq!(b.receive(&sealed), Ok(Some(inner(1, 2, len))));
        assert_eq!(a.receive(&b.send(&inner(2, 1, len)).unwrap()), Ok(Some(inner(2, 1, len))));
    }
    assert_eq!(a.send(&inner(1, 3, 60)), Err(Unsealed::NoPeer));
    assert_eq!(a.send(&inner(1, 2, 60)[..40]), Err(Unsealed::NotIp));
}

#[test]
fn reordered_packets_pass_once_within_the_window() {
    let (mut a, mut b) = Side::pair();
    let sealed: Vec<Vec<u8>> = (0..2100).map(|_| a.send(&inner(1, 2, 60)).unwrap()).collect();
    b.receive(&sealed[2099]).unwrap();
    for at in (84..2099).rev() {
        assert_eq!(b.receive(&sealed[at]), Ok(Some(inner(1, 2, 60))), "{at}");
    }
    assert_eq!(b.receive(&sealed[83]), Err(Ok(Dropped::TooOld)));
    assert_eq!(b.receive(&sealed[100]), Err(Ok(Dropped::Replayed)));
}

/// No single bit of a data message can be changed, from its index to its tag. The three reserved bytes and the type make it something else.
#[test]
fn no_bit_can_be_changed() {
    let (mut a, mut b) = Side::pair();
    let sealed = a.send(&inner(1, 2, 60)).unwrap();
    for bit in 28 * 8..sealed.len() * 8 {
        let mut bent = sealed.clone();
        bent[bit / 8] ^= 1 << (bit % 8);
        assert!(b.receive(&bent).is_err(), "bit {bit}");
    }
    assert_eq!(b.receive(&sealed), Ok(Some(inner(1, 2, 60))), "none of them has moved the window");
}

#[test]
fn both_sides_may_begin_at_once() {
    let (mut a, mut b) = (Side::new(1, 2, Some("192.0.2.2:51820")), Side::new(2, 1, Some("192.0.2.1:51820")));
    let (from_a, from_b) = (a.hurry(), b.hurry());
    for (bytes, other) in [(&from_a[0], &mut b), (&from_b[0], &mut a)] {
        assert_eq!(other.receive(bytes), Err(Err(Ok(()))));
    }
    let (from_a, from_b) = (std::mem::take(&mut a.said), std::mem::take(&mut b.said));
    assert_eq!(b.receive(&from_a[0]), Err(Err(Ok(()))));
    assert_eq!(a.receive(&from_b[0]), Err(Err(Ok(()))));
    for _ in 0..3 {
        for bytes in std::mem::take(&mut a.said) {
            let _ = b.receive(&bytes);
        }
        for bytes in std::mem::take(&mut b.said) {
            let _ = a.receive(&bytes);
        }
    }
    for _ in 0..3 {
        assert_eq!(b.receive(&a.send(&inner(1, 2, 60)).unwrap()), Ok(Some(inner(1, 2, 60))));
        assert_eq!(a.receive(&b.send(&inner(2, 1, 60)).unwrap()), Ok(Some(inner(2, 1, 60))));
    }
}

#[test]
fn sessions_follow_each_other_without_loss() {
    let (mut a, mut b) = Side::pair();
    let (mut handshakes, mut late) = (0, None);
    for _ in 0..1000 {
        let sealed = a.send(&inner(1, 2, 60)).unwrap();
        // One packet is late by a second: it may come by the session before.
        let sealed = late.replace(sealed).unwrap_or_else(|| a.send(&inner(1, 2, 60)).unwrap());
        assert_eq!(b.receive(&sealed), Ok(Some(inner(1, 2, 60))));
        let (mut said, more) = (a.pass(SECOND), b.pass(SECOND));
        for bytes in more {
            let _ = a.receive(&bytes);
        }
        while !said.is_empty() {
            for bytes in said {
                handshakes += usize::from(b.receive(&bytes) == Err(Err(Ok(()))));
            }
            for bytes in std::mem::take(&mut b.said) {
                let _ = a.receive(&bytes);
            }
            said = std::mem::take(&mut a.said);
        }
    }
    assert_eq!(handshakes, 1000 / 120);
}

#[test]
fn sessions_end() {
    let (mut a, mut b) = Side::pair();
    let sealed = a.send(&inner(1, 2, 60)).unwrap();
    (a.now_ns, b.now_ns) = (a.now_ns + 180 * SECOND, b.now_ns + 180 * SECOND);
    assert_eq!(a.send(&inner(1, 2, 60)), Err(Unsealed::NoSession(0)));
    assert_eq!(b.receive(&sealed), Err(Ok(Dropped::NoSession)));
}

#[test]
fn strangers_are_nobody() {
    let (mut a, mut b) = (Side::new(5, 2, Some("192.0.2.2:51820")), Side::new(2, 1, None));
    let hello = a.hurry().remove(0);
    assert_eq!(b.receive(&hello), Err(Err(Err(Refusal::Unknown))));
    let mut other = Side::new(3, 1, None);
    assert_eq!(other.receive(&hello), Err(Err(Err(Refusal::Forged))), "it is for another key");
    assert!(b.said.is_empty() && other.said.is_empty(), "nobody answers a stranger");
}

#[test]
fn ten_thousand_peers_are_found() {
    let device = Device::new(secret(1), &Domain::default(), 2).unwrap();
    let peers: Vec<PeerConfig> = (0..10_000u32)
        .map(|n| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&n.to_le_bytes());
            let network = format!("10.{}.{}.0/24", n >> 8, n & 255).parse().unwrap();
            PeerConfig { allowed: vec![network], ..PeerConfig::new(PublicKey(key)) }
        })
        .collect();
    device.follow(&Config { peers: peers.clone(), ..Config::default() }).unwrap();
    assert_eq!(device.count(), 10_000);
    // A change of one, and a configuration with fewer.
    device.set_peer(&PeerConfig { keepalive: Some(7), ..PeerConfig::new(peers[5000].key) }).unwrap();
    device.remove_peer(&peers[77].key).unwrap();
    device.follow(&Config { peers: peers[..100].to_vec(), ..Config::default() }).unwrap();
    assert_eq!(device.count(), 100);
}

#[test]
fn a_network_moves_to_the_peer_that_has_it_in_the_new_configuration() {
    let domain = Domain::default();
    let device = Device::new(secret(1), &domain, 1).unwrap();
    let reader = domain.register("test");
    let peer = |key: u8, networks: &[&str]| PeerConfig {
        allowed: networks.iter().map(|text| text.parse().unwrap()).collect(),
        replaces_allowed: true,
        ..PeerConfig::new(PublicKey([key; 32]))
    };
    let follow = |peers: Vec<PeerConfig>| device.follow(&Config { peers, ..Config::default() }).unwrap();
    let shown = || {
        let texts = |networks: &[_]| networks.iter().map(ToString::to_string).collect::<Vec<String>>();
        device.show(&reader).iter().map(|peer| texts(&peer.allowed)).collect::<Vec<_>>()
    };
    follow(vec![peer(7, &["10.1.0.0/16"]), peer(8, &["10.2.0.0/16", "10.3.0.0/16"])]);
    follow(vec![peer(7, &["10.2.0.0/16", "::/0"]), peer(8, &["10.3.0.0/16"])]);
    assert_eq!(shown(), [vec!["10.2.0.0/16", "::/0"], vec!["10.3.0.0/16"]]);
}
