// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every implementation against `ring`, with all lengths and with mixed batches.

mod batch_check;
mod common;

use batch_check::{Packet, check};
use common::{implementations, key};
use junctor_gcm::{Forged, Implementation, Job, KeyError, TEXT_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

fn packet(key: usize, text_len: usize, aad_len: usize) -> Packet {
    let text = (0..text_len).map(|at| (at * 31 + key) as u8).collect();
    let aad = (0..aad_len).map(|at| (at * 17 + 3) as u8).collect();
    Packet { key, nonce: [key as u8; 12], aad, text, flip: None }
}

/// Every length up to beyond the longest frame, one by one and with its neighbours.
#[test]
fn all_lengths() {
    for implementation in implementations() {
        for text_len in 0..2101 {
            let one = packet(text_len, text_len, text_len % 65);
            check(implementation, std::slice::from_ref(&one));
            check(implementation, &[one.clone(), packet(text_len + 1, text_len, 8), one]);
        }
    }
}

/// Batches of one class, of every size up to two chunks of the kernel's.
#[test]
fn all_batch_sizes() {
    for implementation in implementations() {
        for size in (0..20).chain([255, 256, 257, 512, 513]) {
            let packets: Vec<Packet> = (0..size).map(|at| packet(2 * at, 40 + at % 3, 12)).collect();
            check(implementation, &packets);
        }
    }
}

/// Additional data of all lengths that need other code, as for GMAC.
#[test]
fn long_additional_data() {
    for implementation in implementations() {
        for aad_len in (0..1200).chain([1500, 4096, 9001, 70_000]) {
            check(implementation, &[packet(aad_len, 0, aad_len), packet(aad_len, 100, aad_len)]);
        }
    }
}

/// 65,536 bytes are 4,096 blocks; the 32-bit counter cannot wrap.
#[test]
fn the_longest_text() {
    for implementation in implementations() {
        for text_len in [4000, 4095, 4096, 9000, 20_000, TEXT_MAX - 1, TEXT_MAX] {
            check(implementation, &[packet(0, text_len, 8), packet(1, text_len, 12)]);
        }
    }
}

/// Each changed bit of text, tag, additional data and nonce is noticed, and nothing of the text is given out.
#[test]
fn every_changed_bit_is_refused() {
    for implementation in implementations() {
        for (key_len, text_len) in [(16, 0), (16, 45), (32, 64), (16, 150), (32, 600)] {
            let key = key(implementation, &vec![9; key_len]);
            let (nonce, aad, plain) = ([1; 12], [2; 20], vec![3; text_len]);
            let mut cipher = plain.clone();
            let tag = key.seal(&nonce, &aad, &mut cipher);
            let whole = [&nonce[..], &aad, &cipher, &tag].concat();
            for bit in 0..whole.len() * 8 {
                let mut forged = whole.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                let (head, rest) = forged.split_at_mut(32);
                let (text, tag) = rest.split_at_mut(text_len);
                let (nonce, aad) = head.split_first_chunk().expect("a nonce");
                let opened = key.open(nonce, aad, text, (&*tag).try_into().expect("a tag"));
                assert_eq!(opened, Err(Forged), "bit {bit}");
                assert!(text.iter().all(|byte| *byte == 0), "bit {bit}");
            }
        }
    }
}

/// The outcome is that of the last call: a job that was opened and is sealed again counts as not opened.
#[test]
fn sealing_forgets_the_outcome() {
    for implementation in implementations() {
        for text_len in [0, 16, 100, 1400] {
            let key = key(implementation, &[9; 16]);
            let (mut text, mut tag) = (vec![3; text_len], [0; 16]);
            let mut jobs = [Job::new(&key, [1; 12], b"aad", &mut text, &mut tag)];
            junctor_gcm::seal(&mut jobs);
            junctor_gcm::open(&mut jobs);
            assert_eq!(jobs[0].outcome(), Ok(()));
            junctor_gcm::seal(&mut jobs);
            assert_eq!(jobs[0].outcome(), Err(Forged));
        }
    }
}

/// Of a tag that is cut off, what is there is written and counts, and what is behind it stays as it is.
#[test]
fn tags_may_be_cut_off() {
    for implementation in implementations() {
        let key = key(implementation, &[9; 32]);
        for (text_len, tag_len) in [(0, 8), (45, 12), (300, 8), (1400, 15), (64, 16)] {
            let plain = vec![3; text_len];
            let mut cipher = plain.clone();
            let tag = key.seal(&[1; 12], b"aad", &mut cipher);
            let (mut text, mut cut) = (plain.clone(), [0xa5; 16]);
            junctor_gcm::seal(&mut [Job::new(&key, [1; 12], b"aad", &mut text, &mut cut[..tag_len])]);
            assert_eq!((&text, &cut[..tag_len]), (&cipher, &tag[..tag_len]));
            assert!(cut[tag_len..].iter().all(|byte| *byte == 0xa5));
            for byte in 0..16 {
                let (mut text, mut expected) = (cipher.clone(), tag);
                expected[byte] ^= 0x10;
                let mut jobs = [Job::new(&key, [1; 12], b"aad", &mut text, &mut expected[..tag_len])];
                junctor_gcm::open(&mut jobs);
                let is_right = byte >= tag_len;
                assert_eq!(jobs[0].outcome().is_ok(), is_right, "byte {byte} of {tag_len}");
                assert_eq!(text, if is_right { plain.clone() } else { vec![0; text_len] });
            }
        }
    }
}

#[test]
#[should_panic(expected = "a tag of 7 bytes")]
fn tags_have_eight_bytes_at_least() {
    let key = junctor_gcm::Key::new(&[9; 16]).expect("sixteen bytes");
    let _ = Job::new(&key, [1; 12], b"aad", &mut [], &mut [0; 7]);
}

/// One batch may hold keys of every implementation.
#[test]
fn implementations_mix() {
    let keys: Vec<_> = (0..40)
        .map(|at| {
            let all: Vec<_> = implementations().collect();
            key(all[at % all.len()], &[at as u8; 32][..16 + at % 3 / 2 * 16])
        })
        .collect();
    let mut texts: Vec<_> = (0..40).map(|at| (vec![at as u8; at * 20], [0; 16])).collect();
    let batch = keys.iter().zip(&mut texts);
    let mut jobs: Vec<_> =
        batch.map(|(key, (text, tag))| Job::new(key, [4; 12], b"aad", text, tag)).collect();
    junctor_gcm::seal(&mut jobs);
    for (at, (key, (text, tag))) in keys.iter().zip(&mut texts).enumerate() {
        key.open(&[4; 12], b"aad", text, tag).expect("sealed under this key");
        assert_eq!(*text, vec![at as u8; at * 20]);
    }
}

#[test]
fn what_is_refused() {
    for implementation in implementations() {
        for len in [0, 15, 17, 24, 31, 33, 64] {
            let made = junctor_gcm::Key::with(implementation, &vec![0; len]);
            assert_eq!(made.err(), Some(KeyError::Length(len)));
        }
    }
    if !Implementation::Wide.is_supported() {
        let made = junctor_gcm::Key::with(Implementation::Wide, &[0; 16]);
        assert_eq!(made.err(), Some(KeyError::Unsupported(Implementation::Wide)));
    }
    let long = std::panic::catch_unwind(|| {
        let key = junctor_gcm::Key::new(&[0; 16]).expect("a key");
        key.seal(&[0; 12], &[], &mut vec![0; TEXT_MAX + 1])
    });
    assert!(long.is_err());
}

/// A job that nobody opened counts as forged, and a key shows nothing of itself.
#[test]
fn safe_from_the_start() {
    let key = key(Implementation::best(), b"sixteen bytes...");
    let (mut text, mut tag) = ([0; 4], [0; 16]);
    assert_eq!(Job::new(&key, [0; 12], &[], &mut text, &mut tag).outcome(), Err(Forged));
    assert_eq!(format!("{key:?}"), format!("Key {{ implementation: {:?}, .. }}", Implementation::best()));
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let text_len = prop_oneof![0..200usize, 0..2101usize, Just(64), Just(1400)];
    let contents =
        (text_len, 0..65usize).prop_flat_map(|(text, aad)| (vec(any::<u8>(), text), vec(any::<u8>(), aad)));
    let flip = proptest::option::weighted(0.2, any::<usize>());
    (0..6usize, any::<[u8; 12]>(), contents, flip).prop_map(|(key, nonce, (text, aad), flip)| {
        let flip = flip.map(|bit| bit % ((text.len() + 16) * 8));
        Packet { key, nonce, aad, text, flip }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn mixed_batches(packets in vec(any_packet(), 0..48)) {
        for implementation in implementations() {
            check(implementation, &packets);
        }
    }
}
