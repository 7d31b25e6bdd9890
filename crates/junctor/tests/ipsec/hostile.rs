// SPDX-License-Identifier: MIT OR Apache-2.0
//! ESP packets that nobody with the keys has sent, between those of a peer: the peer's all come through, every other one is dropped under a name.

use std::time::Duration;

use fastrand::Rng;
use testbed::account::Accounted;
use testbed::hostile::seal;

/// Packets of the peer.
const PACKETS: usize = 3000;
/// Where ESP begins in a frame.
const ESP: usize = 34;
/// Associations of the peer: plain ESP, ESP in UDP, and other algorithms.
const SAS: &str = "
    SA src 192.0.2.2 dst 192.0.2.1 spi 0x200 reqid 1 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128 replay-window 64,
    SA src 192.0.2.2 dst 192.0.2.1 spi 0x201 reqid 2 encap espinudp 4500 4500 enc aes-cbc 0x000102030405060708090a0b0c0d0e0f
        auth-trunc sha256 0x000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f 128 flag esn,";

/// What the peer sends, in order.
fn genuine() -> Vec<Vec<u8>> {
    let text = format!(
        "db :: IPsecDatabase({SAS}
            POLICY dir out src 10.2.0.0/16 dst 10.1.0.1 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel,
            POLICY dir out src 10.2.0.0/16 dst 10.1.0.2 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 2 mode tunnel);
        FromDevice(m0) -> Strip(14) -> CheckIPHeader -> IPsecEncrypt(db)
            -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:00:01) -> Queue -> ToDevice(m0);"
    );
    let mut router = Accounted::new(&text, 32).unwrap();
    let mut frames = Vec::new();
    for number in 0..PACKETS {
        router.inject(0, &clear(number));
        router.run(Duration::from_micros(100));
        frames.extend(router.collect().into_iter().map(|(_, frame)| frame));
    }
    assert_eq!(frames.len(), PACKETS, "{:?}", router.drops());
    router.check().unwrap();
    frames
}

/// What packet `number` of the peer carries.
fn clear(number: usize) -> Vec<u8> {
    let len = 28 + 8 + number * 37 % 1200;
    let mut frame = vec![0x5a; 14 + len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    frame[14..34].copy_from_slice(&[
        0x45,
        0,
        (len >> 8) as u8,
        len as u8,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        2,
        0,
        1,
        10,
        1,
        0,
        1,
    ]);
    frame[33] += number as u8 % 2;
    frame[34..42].copy_from_slice(&[0, 9, 0, 9, ((len - 20) >> 8) as u8, (len - 20) as u8, 0, 0]);
    frame[42..50].copy_from_slice(&(number as u64).to_be_bytes());
    seal(&mut frame);
    frame
}

/// One that the peer has not sent, or not now.
fn hostile(rng: &mut Rng, genuine: &[Vec<u8>], sent: usize) -> Vec<u8> {
    let mut frame = genuine[rng.usize(..=sent)].clone();
    let esp = ESP + if frame[23] == 17 { 8 } else { 0 };
    match rng.u8(..7) {
        // Again.
        0 => {}
        // Another number of an association.
        1 => frame[esp..esp + 4].copy_from_slice(&rng.u32(0x300..).to_be_bytes()),
        // Another sequence number.
        2 => frame[esp + 4..esp + 8].copy_from_slice(&rng.u32(..).to_be_bytes()),
        // Flipped bits.
        3 => {
            let at = rng.usize(esp + 8..frame.len());
            frame[at] ^= 1 << rng.u8(..8);
        }
        // Cut.
        4 => {
            frame.truncate(rng.usize(esp..frame.len()));
            let len = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&len.to_be_bytes());
        }
        // A fragment.
        5 => frame[20] |= 0x20,
        // Anything behind a known number.
        _ => rng.fill(&mut frame[esp + 4..]),
    }
    seal(&mut frame);
    frame
}

#[test]
fn hostile_esp_leaves_a_peer_alone_and_every_drop_has_a_name() {
    let genuine = genuine();
    for burst in [32, 1] {
        under_fire(&genuine, burst);
    }
}

fn under_fire(genuine: &[Vec<u8>], burst: usize) {
    let text = format!(
        "db :: IPsecDatabase({SAS}
            POLICY dir fwd src 10.2.0.0/16 dst 10.1.0.1 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel,
            POLICY dir fwd src 10.2.0.0/16 dst 10.1.0.2 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 2 mode tunnel);
        FromDevice(m0) -> Strip(14) -> CheckIPHeader -> dec :: IPsecDecrypt(db) -> CheckIPHeader
            -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:00:01) -> Queue -> ToDevice(m0);"
    );
    let mut router = Accounted::new(&text, burst).unwrap();
    let mut rng = Rng::with_seed(11);
    let (mut came, mut forged) = (Vec::new(), 0);
    for (number, frame) in genuine.iter().enumerate() {
        assert!(router.inject(0, frame));
        for _ in 0..rng.usize(..6) {
            assert!(router.inject(0, &hostile(&mut rng, genuine, number)));
            forged += 1;
        }
        if number % 16 == 0 {
            router.run(Duration::from_millis(1));
            came.extend(router.collect());
        }
        if number % 256 == 0 {
            router.check().unwrap_or_else(|why| panic!("burst {burst}, packet {number}: {why}"));
        }
    }
    router.run(Duration::from_millis(10));
    came.extend(router.collect());
    router.check().unwrap();
    let drops = router.drops();
    let payload = |frame: &[u8]| u64::from_be_bytes(frame[42..50].try_into().unwrap());
    let numbers: Vec<u64> = came.iter().map(|(_, frame)| payload(frame)).collect();
    assert!(numbers.iter().copied().eq(0..PACKETS as u64), "burst {burst}: {drops:?}");
    for (number, (_, frame)) in came.iter().enumerate() {
        assert_eq!(frame[14..], clear(number)[14..], "burst {burst}, packet {number}");
    }
    assert_eq!(drops.values().sum::<u64>(), forged, "burst {burst}: {drops:?}");
    for name in ["no-sa", "replayed", "outside-window", "bad-icv", "bad-esp", "esp-fragment"] {
        assert!(drops.get(name).is_some_and(|count| *count > 50), "burst {burst}: {name} of {drops:?}");
    }
    let named = [
        "no-sa",
        "replayed",
        "outside-window",
        "bad-icv",
        "bad-esp",
        "esp-fragment",
        "no-output",
        "discarded",
    ];
    assert!(
        drops.iter().all(|(name, count)| *count == 0 || named.contains(name)),
        "burst {burst}: {drops:?}"
    );
    println!("burst {burst}: {} packets came, {forged} others were dropped: {drops:?}", came.len());
}
