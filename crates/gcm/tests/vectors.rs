// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published test vectors, with each implementation, one by one and as one batch.

mod common;

use common::{implementations, key};
use junctor_gcm::{Forged, Implementation, Job};

struct Vector {
    key: Vec<u8>,
    nonce: [u8; 12],
    aad: Vec<u8>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    tag: [u8; 16],
    valid: bool,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_matches('-').as_bytes();
    let value = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    digits.chunks(2).map(value).collect()
}

fn vectors(text: &str) -> Vec<Vector> {
    let vector = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [key, nonce, aad, plain, cipher, tag, result] = words[..] else { panic!("{line}") };
        Vector {
            key: bytes(key),
            nonce: bytes(nonce).try_into().expect("12 bytes"),
            aad: bytes(aad),
            plain: bytes(plain),
            cipher: bytes(cipher),
            tag: bytes(tag).try_into().expect("16 bytes"),
            valid: result == "valid",
        }
    };
    text.lines().filter(|l| !l.starts_with('#')).map(vector).collect()
}

fn check(implementation: Implementation, vector: &Vector) {
    let key = key(implementation, &vector.key);
    let mut text = vector.cipher.clone();
    let opened = key.open(&vector.nonce, &vector.aad, &mut text, &vector.tag);
    if !vector.valid {
        assert_eq!(opened, Err(Forged));
        assert!(text.iter().all(|byte| *byte == 0), "nothing of a forged text is left");
        return;
    }
    assert_eq!((opened, &text), (Ok(()), &vector.plain));
    let tag = key.seal(&vector.nonce, &vector.aad, &mut text);
    assert_eq!((tag, text), (vector.tag, vector.cipher.clone()));
}

fn check_batch(implementation: Implementation, vectors: &[Vector]) {
    let keys: Vec<_> = vectors.iter().map(|v| key(implementation, &v.key)).collect();
    let mut texts: Vec<_> = vectors.iter().map(|v| (v.cipher.clone(), v.tag)).collect();
    let parts = vectors.iter().zip(&keys).zip(&mut texts);
    let mut jobs: Vec<Job<'_>> =
        parts.map(|((v, key), (text, tag))| Job::new(key, v.nonce, &v.aad, text, tag)).collect();
    junctor_gcm::open(&mut jobs);
    let genuine: Vec<bool> = jobs.iter().map(|job| job.outcome().is_ok()).collect();
    for ((vector, (text, _)), genuine) in vectors.iter().zip(&texts).zip(genuine) {
        assert_eq!(genuine, vector.valid);
        assert!(!genuine || *text == vector.plain);
    }
}

fn check_file(text: &str, count: usize, invalid: usize) {
    let vectors = vectors(text);
    let found = vectors.iter().filter(|v| !v.valid).count();
    assert_eq!((vectors.len(), found), (count, invalid), "vectors, and invalid ones");
    for implementation in implementations() {
        vectors.iter().for_each(|vector| check(implementation, vector));
        check_batch(implementation, &vectors);
    }
}

#[test]
fn nist() {
    check_file(include_str!("vectors/nist-cavp.txt"), 450, 144);
}

#[test]
fn wycheproof() {
    check_file(include_str!("vectors/wycheproof-gcm.txt"), 133, 54);
}

#[test]
fn wycheproof_gmac() {
    check_file(include_str!("vectors/wycheproof-gmac.txt"), 138, 108);
}
