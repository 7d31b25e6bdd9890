// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ESP costs a packet, without tables and devices: headers, trailer, encryption; and the way back.
//!
//! `cargo run --release -p junctor-esp --example esp_speed [--all] [BYTES...]` prints nanoseconds for each packet: the median of many batches of 32 packets,
//! and the fastest batch in brackets. It measures AES-GCM with one tunnel, and with 1,000 of which each packet takes one at random; `--all` adds other algorithms.

use std::sync::Arc;
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
const MANY: usize = 1000;
/// Batches at most, and the time after which no more begin.
const BATCHES: usize = 20_000;
const LONGEST: Duration = Duration::from_secs(2);
/// The first tunnel's number.
const SPI: u32 = 0x1000;

/// An algorithm's name, its keys, and how many tunnels have it.
struct Case {
    name: &'static str,
    spec: Spec,
    tunnels: usize,
}

fn cases(all: bool) -> Vec<Case> {
    let case = |name, spec, tunnels| Case { name, spec, tunnels };
    let combined = |algorithm, len| Spec::Combined { algorithm, key: vec![7; len], icv_len: 16 };
    let separate = |cipher, len| Spec::Separate {
        cipher,
        key: vec![1; len],
        auth: Auth::HmacSha256,
        auth_key: vec![2; 32],
        icv_len: 16,
    };
    let mut cases = vec![
        case("AES-128-GCM", combined(Aead::AesGcm, 20), 1),
        case("AES-128-GCM", combined(Aead::AesGcm, 20), MANY),
        case("AES-256-GCM", combined(Aead::AesGcm, 36), 1),
        case("AES-256-GCM", combined(Aead::AesGcm, 36), MANY),
    ];
    if all {
        cases.extend([
            case("ChaCha20-Poly1305", combined(Aead::ChaCha20Poly1305, 36), 1),
            case("AES-128-CBC, HMAC-SHA-256", separate(Cipher::AesCbc, 16), 1),
            case("3DES-CBC, HMAC-SHA-256", separate(Cipher::TripleDesCbc, 24), 1),
        ]);
    }
    cases
}

/// Both ends of all tunnels of a case. Each lies in memory of its own.
fn tunnels(case: &Case) -> [Vec<Arc<Sa>>; 2] {
    let sa = |number: usize| {
        let mode = Mode::Tunnel { from: [192, 0, 2, 1].into(), to: [192, 0, 2, 2].into() };
        let config = Config {
            spi: SPI + number as u32,
            mode,
            udp: None,
            spec: case.spec.clone(),
            is_extended: true,
            window: 1024,
            rules: Rules::default(),
        };
        Arc::new(Sa::new(&config).expect("good"))
    };
    [(); 2].map(|()| (0..case.tunnels).map(sa).collect())
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

/// The associations of a batch, and a number for each packet. Numbers of one association are taken together.
fn chosen<'a>(sas: &'a [Arc<Sa>], picks: &[usize]) -> ArrayVec<(&'a Sa, u64), BATCH> {
    match sas {
        [one] => {
            let first = one.take_numbers(picks.len() as u32).expect("there are numbers");
            (first..).take(picks.len()).map(|number| (&**one, number)).collect()
        }
        _ => {
            let number = |sa: &Sa| sa.take_numbers(1).expect("there are numbers");
            picks.iter().map(|pick| (&*sas[*pick], number(&sas[*pick]))).collect()
        }
    }
}

#[inline(never)]
fn protect(packets: &mut [Packet], sas: &[Arc<Sa>], picks: &[usize]) {
    let chosen = chosen(sas, picks);
    let mut parts = ArrayVec::<Part<'_>, BATCH>::new();
    let mut places = ArrayVec::<EspAt, BATCH>::new();
    for (packet, (sa, number)) in packets.iter_mut().zip(&chosen) {
        let at = outbound::encapsulate(packet, sa, *number, 1500).expect("it fits");
        parts.push(outbound::part(packet, sa, at, *number));
        places.push(at);
    }
    seal(&mut parts);
    drop(parts);
    for ((packet, (sa, _)), at) in packets.iter_mut().zip(&chosen).zip(places) {
        outbound::finish(packet, sa, at);
    }
}

#[inline(never)]
fn restore(packets: &mut [Packet], sas: &[Arc<Sa>]) {
    let mut arrived = ArrayVec::<(inbound::Arrived, &Sa, u64), BATCH>::new();
    for packet in packets.iter() {
        let Ok(Found::Esp(found)) = inbound::find(packet.data()) else { panic!("it is ESP") };
        arrived.push((found, &sas[(found.spi - SPI) as usize], 0));
    }
    let mut parts = ArrayVec::<Part<'_>, BATCH>::new();
    for (packet, (arrived, sa, number)) in packets.iter_mut().zip(&mut arrived) {
        let part = inbound::part(packet, sa, arrived).expect("it is new");
        *number = part.number;
        parts.push(part);
    }
    open(&mut parts);
    assert!(parts.iter().all(|part| part.is_genuine));
    drop(parts);
    let numbers: ArrayVec<u64, BATCH> = arrived.iter().map(|(_, _, number)| *number).collect();
    let mut at = 0;
    for run in arrived.chunk_by(|(_, one, _), (_, other, _)| std::ptr::eq(*one, *other)) {
        let end = at + run.len();
        inbound::accept(&run[0].1.window, &numbers[at..end], |_, verdict: Result<(), inbound::Dropped>| {
            verdict.expect("it is new")
        });
        at = end;
    }
    for (packet, (arrived, sa, _)) in packets.iter_mut().zip(&arrived) {
        inbound::unpack(packet, sa, arrived).expect("it is genuine");
    }
}

/// The median and the least, in nanoseconds for each packet.
fn summary(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:6.1} ({:5.1})", times[times.len() / 2], times[0])
}

/// Times of both ways.
fn measure(case: &Case, len: usize) -> [Vec<f64>; 2] {
    let [ours, theirs] = tunnels(case);
    let clear = clear(len);
    let mut packets: Vec<Packet> = (0..BATCH).map(|_| Packet::copy_of(&clear).expect("memory")).collect();
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let (start, mut random) = (Instant::now(), 1u64);
    for _ in (0..BATCHES).take_while(|_| start.elapsed() < LONGEST) {
        let picks = [(); BATCH].map(|()| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % case.tunnels
        });
        let begin = Instant::now();
        protect(&mut packets, &ours, &picks);
        let between = Instant::now();
        restore(&mut packets, &theirs);
        out.push((between - begin).as_nanos() as f64 / BATCH as f64);
        back.push(between.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    assert_eq!(packets[0].data(), clear);
    [out, back]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let all = words.iter().any(|word| word == "--all");
    let named: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let lens = if named.is_empty() { vec![60, 256, 1436] } else { named };
    println!("{:28} {:>7} {:>6}  {:>15}  {:>15}", "", "tunnels", "bytes", "out ns", "in ns");
    for case in cases(all) {
        for len in &lens {
            let [out, back] = measure(&case, *len).map(summary);
            println!("{:28} {:>7} {len:>6}  {out:>15}  {back:>15}", case.name, case.tunnels);
        }
    }
}
