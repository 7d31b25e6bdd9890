// SPDX-License-Identifier: MIT OR Apache-2.0
//! A batch of packets that bytes describe, against `ring` packet by packet: shared by the fuzz target, the replay of its corpus and the property tests.

// Each user needs a part.
#![allow(dead_code)]

use junctor_gcm::{Forged, Implementation, Job, Key};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes around each text that must stay as they are; one is odd, so that texts are not aligned.
const MARGIN: usize = 17;

/// A packet of a batch.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The number of its key.
    pub key: usize,
    pub nonce: [u8; 12],
    pub aad: Vec<u8>,
    pub text: Vec<u8>,
    /// The bit of text and tag that is changed before opening.
    pub flip: Option<usize>,
}

/// Reads packets from bytes: eight say key, lengths and the changed bit; the contents follow from these.
pub fn packets(data: &[u8]) -> Vec<Packet> {
    let packet = |chunk: &[u8; 8]| {
        let [key, text_low, text_high, aad, flip_low, flip_high, seed, kind] = *chunk;
        let text_len = usize::from(u16::from_le_bytes([text_low, text_high])) % 2101;
        let aad_len = usize::from(aad) << (kind % 4);
        let mut random = u64::from_le_bytes(*chunk) | 1;
        let mut byte = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(seed) | 1);
            (random >> 56) as u8
        };
        let flip = usize::from(u16::from_le_bytes([flip_low, flip_high])) % ((text_len + 16) * 8);
        Packet {
            key: usize::from(key),
            nonce: std::array::from_fn(|_| byte()),
            aad: (0..aad_len).map(|_| byte()).collect(),
            text: (0..text_len).map(|_| byte()).collect(),
            flip: (kind & 0x40 != 0).then_some(flip),
        }
    };
    data.as_chunks::<8>().0.iter().map(packet).collect()
}

/// Key number `number` as bytes: even ones are of AES-128.
fn key_bytes(number: usize) -> Vec<u8> {
    (0..if number.is_multiple_of(2) { 16 } else { 32 }).map(|at| (at * 7 + number * 13) as u8).collect()
}

/// What `ring` makes of a packet: ciphertext and tag.
fn sealed_by_ring(packet: &Packet) -> (Vec<u8>, [u8; 16]) {
    let bytes = key_bytes(packet.key);
    let algorithm = if bytes.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &bytes).expect("a key of this length"));
    let mut text = packet.text.clone();
    let nonce = Nonce::assume_unique_for_key(packet.nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&packet.aad), &mut text).expect("short");
    (text, tag.as_ref().try_into().expect("16 bytes"))
}

/// Seals and opens the packets as one batch; all must be as `ring` has it, and nothing outside texts and tags may change.
pub fn check(implementation: Implementation, packets: &[Packet]) {
    let key = |number: usize| Key::with(implementation, &key_bytes(number)).expect("a key");
    let keys: Vec<Key> = packets.iter().map(|packet| key(packet.key)).collect();
    let expected: Vec<_> = packets.iter().map(sealed_by_ring).collect();
    let mut buffers: Vec<Vec<u8>> = packets
        .iter()
        .map(|packet| [&[0xA5; MARGIN], &packet.text[..], &[0xA5; MARGIN + 16]].concat())
        .collect();

    let mut jobs = jobs(packets, &keys, &mut buffers);
    junctor_gcm::seal(&mut jobs);
    for (at, (buffer, (text, tag))) in buffers.iter().zip(&expected).enumerate() {
        let whole = [&[0xA5; MARGIN], &text[..], &tag[..], &[0xA5; MARGIN]].concat();
        assert!(*buffer == whole, "sealed packet {at} of {} bytes: {implementation:?}", text.len());
    }

    for (packet, buffer) in packets.iter().zip(&mut buffers) {
        if let Some(bit) = packet.flip {
            buffer[MARGIN + bit / 8] ^= 1 << (bit % 8);
        }
    }
    let tags: Vec<[u8; 16]> =
        buffers.iter().map(|b| b[b.len() - MARGIN - 16..].first_chunk().copied().expect("a tag")).collect();
    let mut jobs = self::jobs(packets, &keys, &mut buffers);
    junctor_gcm::open(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(Job::outcome).collect();
    for (at, (packet, outcome)) in packets.iter().zip(outcomes).enumerate() {
        let (outcome_expected, text) = match packet.flip {
            None => (Ok(()), packet.text.clone()),
            Some(_) => (Err(Forged), vec![0; packet.text.len()]),
        };
        let whole = [&[0xA5; MARGIN], &text[..], &tags[at][..], &[0xA5; MARGIN]].concat();
        assert_eq!(outcome, outcome_expected, "packet {at} of {} bytes: {implementation:?}", text.len());
        assert!(buffers[at] == whole, "opened packet {at} of {} bytes: {implementation:?}", text.len());
    }
}

fn jobs<'a>(packets: &'a [Packet], keys: &'a [Key], buffers: &'a mut [Vec<u8>]) -> Vec<Job<'a>> {
    let parts = packets.iter().zip(keys).zip(buffers);
    let job = |((packet, key), buffer): ((&'a Packet, &'a Key), &'a mut Vec<u8>)| {
        let (text, rest) = buffer[MARGIN..].split_at_mut(packet.text.len());
        Job::new(key, packet.nonce, &packet.aad, text, &mut rest[..16])
    };
    parts.map(job).collect()
}
