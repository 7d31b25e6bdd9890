// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to look for unfinished checksums, and to finish them.
//!
//! `checksum_cost [KIND COUNT]` looks at so many frames of one kind; without arguments, at a million of each, and prints
//! nanoseconds. Instructions are counted by two runs under callgrind that differ in COUNT.

use std::hint::black_box;
use std::time::Instant;

use junctor_ports::partial::{Front, complete};
use wire::{Protocol, checksum};

fn v4(protocol: Protocol, len: usize) -> Vec<u8> {
    let (source, target) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut segment = vec![0u8; len - 34];
    segment[..4].copy_from_slice(&[0x12, 0x34, 0, 80]);
    let at = if protocol == Protocol::UDP { 6 } else { 16 };
    let sum = checksum::transport_v4(source.into(), target.into(), protocol, &segment);
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let total = (len - 14) as u16;
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, protocol.0, 0, 0]);
    frame.extend(source);
    frame.extend(target);
    frame.extend(segment);
    frame
}

fn v6(len: usize) -> Vec<u8> {
    let (source, target) = ([0xfd; 16], [0xfc; 16]);
    let mut segment = vec![0u8; len - 54];
    let sum = checksum::transport_v6(source.into(), target.into(), Protocol::TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(((len - 54) as u16).to_be_bytes());
    frame.extend([6, 64]);
    frame.extend(source);
    frame.extend(target);
    frame.extend(segment);
    frame
}

fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 100], &frame[12..]].concat()
}

/// A kind of frame, and the bytes of its field if that is to be unfinished anew each time.
type Kind = (&'static str, Vec<u8>, Option<(usize, [u8; 2])>);

fn kinds() -> Vec<Kind> {
    let (small, large) = (v4(Protocol::UDP, 60), v4(Protocol::TCP, 1514));
    let pseudo = |protocol: Protocol, len: usize| {
        checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, (len - 34) as u16)
            .to_be_bytes()
    };
    let mut arp = vec![0xff; 12];
    arp.extend([8, 6]);
    arp.resize(60, 0);
    vec![
        ("udp4-60", small.clone(), None),
        ("tcp4-1514", large.clone(), None),
        ("tcp6-1514", v6(1514), None),
        ("tagged-tcp4-1514", tagged(&large), None),
        ("arp", arp, None),
        ("unfinished-udp4-60", small, Some((40, pseudo(Protocol::UDP, 60)))),
        ("unfinished-tcp4-1514", large, Some((50, pseudo(Protocol::TCP, 1514)))),
    ]
}

fn look(frame: &mut [u8], unfinish: Option<(usize, [u8; 2])>, count: u64) -> u64 {
    let mut completed = 0;
    for _ in 0..count {
        if let Some((at, field)) = unfinish {
            frame[at..at + 2].copy_from_slice(&field);
        }
        completed += u64::from(complete(black_box(frame), Front::Ethernet));
    }
    completed
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first();
    let count = arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    for (name, mut frame, unfinish) in kinds() {
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let begin = Instant::now();
        let completed = look(&mut frame, unfinish, count);
        let ns = begin.elapsed().as_nanos() as f64 / count as f64;
        println!("{name}: {ns:.1} ns a frame, {completed} of {count} completed");
    }
}
