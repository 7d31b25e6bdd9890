// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ESP costs a packet, without tables and devices: headers, trailer, encryption; and the way back.
//!
//! `cargo run --release -p junctor-esp --example esp_speed [BYTES...]` prints nanoseconds for each packet: the median of many batches of 32 packets, and the
//! fastest batch in brackets.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use junctor_esp::algorithm::{Aead, Auth, Cipher};
use junctor_esp::inbound::Found;
use junctor_esp::outbound::EspAt;
use junctor_esp::sa::Rules;
use junctor_esp::{Config, Mode, Part, Sa, Spec, inbound, open, outbound, seal};
use packet::Packet;
use wire::{Protocol, ipv4};

const BATCH: usize = 32;
/// Batches at most, and the time after which no more begin.
const BATCHES: usize = 20_000;
const LONGEST: Duration = Duration::from_secs(2);

fn specs() -> Vec<(&'static str, Spec)> {
    let combined = |algorithm, len| Spec::Combined { algorithm, key: vec![7; len], icv_len: 16 };
    let separate = |cipher, len| Spec::Separate {
        cipher,
        key: vec![1; len],
        auth: Auth::HmacSha256,
        auth_key: vec![2; 32],
        icv_len: 16,
    };
    vec![
        ("AES-128-GCM", combined(Aead::AesGcm, 20)),
        ("AES-256-GCM", combined(Aead::AesGcm, 36)),
        ("ChaCha20-Poly1305", combined(Aead::ChaCha20Poly1305, 36)),
        ("AES-128-CBC, HMAC-SHA-256", separate(Cipher::AesCbc, 16)),
        ("3DES-CBC, HMAC-SHA-256", separate(Cipher::TripleDesCbc, 24)),
    ]
}

fn clear(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(ipv4::HEADER_LEN)];
    let payload_len = (bytes.len() - ipv4::HEADER_LEN) as u16;
    let repr = ipv4::Repr {
        src: [10, 1, 0, 1].into(),
        dst: [10, 2, 0, 2].into(),
        protocol: Protocol::UDP,
        payload_len,
        ..Default::default()
    };
    repr.emit(&mut bytes).expect("it fits");
    bytes
}

fn protect(packets: &mut [Packet], sa: &Sa) {
    let first = sa.take_numbers(packets.len() as u32).expect("there are numbers");
    let mut parts = ArrayVec::<Part<'_>, BATCH>::new();
    let mut places = ArrayVec::<EspAt, BATCH>::new();
    for (packet, number) in packets.iter_mut().zip(first..) {
        let at = outbound::encapsulate(packet, sa, number).expect("it fits");
        parts.push(outbound::part(packet, sa, at, number));
        places.push(at);
    }
    seal(&mut parts);
    drop(parts);
    for (packet, at) in packets.iter_mut().zip(places) {
        outbound::finish(packet, sa, at);
    }
}

fn restore(packets: &mut [Packet], sa: &Sa) {
    let mut arrived = ArrayVec::<inbound::Arrived, BATCH>::new();
    for packet in packets.iter() {
        let Ok(Found::Esp(found)) = inbound::find(packet.data()) else { panic!("it is ESP") };
        arrived.push(found);
    }
    let mut parts = ArrayVec::<Part<'_>, BATCH>::new();
    for (packet, arrived) in packets.iter_mut().zip(&arrived) {
        parts.push(inbound::part(packet, sa, arrived).expect("it is new"));
    }
    open(&mut parts);
    let numbers: ArrayVec<u64, BATCH> = parts.iter().map(|part| part.number).collect();
    assert!(parts.iter().all(|part| part.is_genuine));
    drop(parts);
    for ((packet, arrived), number) in packets.iter_mut().zip(&arrived).zip(numbers) {
        inbound::decapsulate(packet, sa, arrived, number).expect("it is genuine");
    }
}

/// The median and the least, in nanoseconds for each packet.
fn summary(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:6.1} ({:5.1})", times[times.len() / 2], times[0])
}

fn main() {
    let named: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let lens = if named.is_empty() { vec![60, 256, 1436] } else { named };
    println!("{:28} {:>6}  {:>15}  {:>15}", "", "bytes", "out ns", "in ns");
    for (name, spec) in specs() {
        for len in &lens {
            let mode = Mode::Tunnel { from: [192, 0, 2, 1].into(), to: [192, 0, 2, 2].into() };
            let config = Config {
                spi: 0x1000,
                mode,
                udp: None,
                spec: spec.clone(),
                is_extended: true,
                window: 1024,
                rules: Rules::default(),
            };
            let (ours, theirs) = (Sa::new(&config).expect("good"), Sa::new(&config).expect("good"));
            let clear = clear(*len);
            let mut packets: Vec<Packet> =
                (0..BATCH).map(|_| Packet::copy_of(&clear).expect("memory")).collect();
            let (mut out, mut back) = (Vec::new(), Vec::new());
            let start = Instant::now();
            for _ in (0..BATCHES).take_while(|_| start.elapsed() < LONGEST) {
                let begin = Instant::now();
                protect(&mut packets, &ours);
                let between = Instant::now();
                restore(&mut packets, &theirs);
                out.push((between - begin).as_nanos() as f64 / BATCH as f64);
                back.push(between.elapsed().as_nanos() as f64 / BATCH as f64);
            }
            assert_eq!(packets[0].data(), clear);
            println!("{name:28} {len:>6}  {:>15}  {:>15}", summary(out), summary(back));
        }
    }
}
