// SPDX-License-Identifier: MIT OR Apache-2.0
//! Floods of ESP packets next to a peer's: of unknown SPIs, and of the peer's with wrong check values. The peer's all come through, each other packet is dropped
//! under its name, and nothing grows.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::peer::{ESP, Peer, came, receiver};

/// Rounds, and the packets of each: the peer's, and others.
const ROUNDS: u64 = 1000;
const GOOD: u64 = 4;
const BAD: usize = 40;
/// Bytes by which memory may grow in the second half of a flood: some 25 for each packet of it.
const GROWTH: u64 = 512 << 10;

/// A packet that the peer has not sent, and the reason for which it is dropped.
type Forge = fn(&mut Rng, Vec<u8>) -> (Vec<u8>, &'static str);

/// Of an association that is not there.
fn unknown(rng: &mut Rng, mut frame: Vec<u8>) -> (Vec<u8>, &'static str) {
    frame[ESP..ESP + 4].copy_from_slice(&rng.u32(0x300..).to_be_bytes());
    (frame, "no-sa")
}

/// Of the peer's association, with a number that would pass and a wrong check value.
fn forged(rng: &mut Rng, mut frame: Vec<u8>) -> (Vec<u8>, &'static str) {
    let number = u32::from_be_bytes(frame[ESP + 4..ESP + 8].try_into().unwrap());
    let ahead = if rng.bool() { rng.u32(10..100) } else { rng.u32(1 << 20..1 << 31) };
    frame[ESP + 4..ESP + 8].copy_from_slice(&number.wrapping_add(ahead).to_be_bytes());
    rng.fill(&mut frame[ESP + 8..]);
    (frame, "bad-icv")
}

/// One that the peer would send next, by UDP and from elsewhere: the association does not go by UDP.
fn by_udp(rng: &mut Rng, frame: Vec<u8>) -> (Vec<u8>, &'static str) {
    let esp = &frame[ESP..];
    let len = 8 + esp.len() as u16;
    let mut datagram = [&rng.u16(1..).to_be_bytes()[..], &[0x11, 0x94], &len.to_be_bytes(), &[0, 0]].concat();
    datagram.extend_from_slice(esp);
    let mut frame = frame[..ESP].to_vec();
    frame[16..18].copy_from_slice(&(20 + len).to_be_bytes());
    (frame[23], frame[29]) = (17, rng.u8(1..));
    frame.extend(datagram);
    (frame, "wrong-sa")
}

/// All of them, from anywhere.
fn mixed(rng: &mut Rng, mut frame: Vec<u8>) -> (Vec<u8>, &'static str) {
    rng.fill(&mut frame[27..30]);
    let forge: [Forge; 3] = [unknown, forged, by_udp];
    forge[rng.usize(..3)](rng, frame)
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

fn flood(name: &str, forge: Forge, words: &str, burst: usize) {
    let peer = Peer::new(words);
    let mut router = receiver(words, burst);
    let mut rng = Rng::with_seed(5);
    let mut wanted = BTreeMap::new();
    let mut before = 0;
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            before = resident();
        }
        let good: Vec<u64> = (1 + round * GOOD..).take(GOOD as usize).collect();
        let mut good_left = good.iter();
        for at in 0..GOOD as usize + BAD {
            let number = if at % (1 + BAD / GOOD as usize) == 0 { good_left.next() } else { None };
            if let Some(number) = number {
                assert!(router.inject(0, &peer.frame(*number)));
                continue;
            }
            let (mut frame, why) = forge(&mut rng, peer.frame(good[0] + GOOD));
            testbed::hostile::seal(&mut frame);
            assert!(router.inject(0, &frame));
            *wanted.entry(why).or_insert(0) += 1;
        }
        assert_eq!(came(&mut router), good, "{name}, burst {burst}, round {round}: {:?}", router.drops());
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH, "{name}, burst {burst}: memory has grown by {grown} bytes");
    let drops = router.drops().into_iter().filter(|(_, count)| *count > 0);
    assert_eq!(drops.collect::<BTreeMap<_, _>>(), wanted, "{name}, burst {burst}");
    router.check().unwrap();
    assert_eq!(router.read("db.take_events"), "", "outsiders make no event");
    let line = router.read("db.sas");
    let forged = wanted.get("bad-icv").copied().unwrap_or(0);
    assert!(line.contains(&format!(" replayed 0 outside-window 0 bad-icv {forged} ")), "{line}");
    assert!(
        line.contains(&format!(" top {} ", ROUNDS * GOOD)),
        "forged numbers do not move the window: {line}"
    );
}

#[test]
fn floods_leave_a_peers_packets_alone() {
    let kinds: [(&str, Forge); 4] =
        [("unknown SPIs", unknown), ("forged", forged), ("by UDP", by_udp), ("mixed", mixed)];
    let words = [("replay-window 64", 32), ("replay-window 64 flag esn", 32), ("", 1)];
    for ((name, forge), (words, burst)) in kinds.into_iter().zip(words.into_iter().cycle()) {
        flood(name, forge, words, burst);
    }
}
