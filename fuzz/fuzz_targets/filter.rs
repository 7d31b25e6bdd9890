// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a pattern of IPFilter and IPClassifier: what it compiles to decides about any packet as the pattern does.
//!
//! The input is patterns, one a line, then a zero byte and the packet, whose first byte says where its headers begin.
#![no_main]

use element::args::Names;
use elements::classify::language::{parse, words};
use elements::classify::program::{Input, Program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let split = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let (text, packet) = data.split_at(split);
    let names = Names::default();
    let patterns: Vec<_> = String::from_utf8_lossy(text)
        .lines()
        .enumerate()
        .filter_map(|(n, line)| Some((parse(&words(line), &names).ok()?, n as u32)))
        .collect();
    let starts = packet.get(1).copied().unwrap_or(0);
    let packet = packet.get(2..).unwrap_or(&[]);
    let from = |at: u8| packet.get(usize::from(at)..).unwrap_or(&[]);
    let input: Input<'_> = [packet, from(starts & 15), from((starts & 15) + (starts >> 4) * 4)];
    let program = Program::new(&patterns);
    let _ = program.text();
    let chosen = patterns.iter().find(|(pattern, _)| pattern.holds(&input)).map(|(_, n)| *n);
    let ran = program.run(&input);
    match chosen {
        Some(n) => assert_eq!(ran, n),
        None => assert!(ran as usize >= patterns.len()),
    }
});
