// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large configurations start within the memory that each element may take, and in a time that grows as they do.
//!
//! A million elements are to start in 1.5 GB (docs/measurements/start.md), so each may take 1.5 KB. Here a process has address space for
//! so much of fewer elements, and for what it takes with one. Time is bounded by far more than it needs: what grows with the square of
//! the elements does not end within it.

use std::fmt::Write as _;
use std::process::Command;

/// Elements of each configuration.
const ELEMENTS: usize = 120_000;
/// Bytes of address space for each.
const EACH: usize = 1500;
/// What a process may map in addition: packet memory, code, stacks, and what a vector has while it grows.
const BESIDE: usize = 400 << 20;
/// Seconds of processor time.
const TIME: u32 = 300;

fn run(name: &str, text: &str, command: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("large.click");
    std::fs::write(&file, text).expect("a file");
    let space_kib = (ELEMENTS * EACH + BESIDE) >> 10;
    let limited = format!("ulimit -v {space_kib} && ulimit -t {TIME} && exec \"$0\" {command} \"$1\"");
    let shell = Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_junctor")]).arg(&file).output();
    let out = shell.expect("a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {command}: {}: {}", out.status, said.lines().next().unwrap_or(""));
}

fn both(name: &str, text: &str) {
    run(name, text, "check");
    run(name, text, "run --quit -j 2 --control none");
}

#[test]
fn a_chain_of_declared_elements() {
    let mut text = String::new();
    (0..ELEMENTS).for_each(|i| writeln!(text, "e{i} :: Null;").expect("memory"));
    text += "Idle";
    (0..ELEMENTS).for_each(|i| write!(text, " -> e{i}").expect("memory"));
    both("declared", &(text + " -> Discard;\n"));
}

/// Elements stand in the order opposite to that of packets, and what decides that all of them pull stands at the end.
#[test]
fn a_pulled_chain_against_the_order_of_declarations() {
    let mut text = String::from("u :: Unqueue -> Discard;\n");
    (0..ELEMENTS).for_each(|i| writeln!(text, "e{i} :: Null;").expect("memory"));
    text += "Idle -> Queue";
    (0..ELEMENTS).rev().for_each(|i| write!(text, " -> e{i}").expect("memory"));
    both("against the order", &(text + " -> u;\n"));
}

#[test]
fn many_sources_and_sinks() {
    both("pieces", &"Idle -> Counter -> Null -> Discard;\n".repeat(ELEMENTS / 4));
}

#[test]
fn many_queues_with_tasks() {
    // A queue takes more than other elements: packets may wait in it.
    both("queues", &"InfiniteSource(LIMIT 1) -> Queue(10) -> Unqueue -> Discard;\n".repeat(ELEMENTS / 20));
}

#[test]
fn many_compounds() {
    let class = "elementclass P { input -> Null -> Null -> Null -> Null -> Null -> output }\n";
    both("compounds", &(class.to_owned() + &"Idle -> P -> Discard;\n".repeat(ELEMENTS / 7)));
}

#[test]
fn many_ports() {
    let mut text = String::from("Idle -> s :: Switch(0);\n");
    (0..60_000).for_each(|i| writeln!(text, "s[{i}] -> Discard;").expect("memory"));
    both("ports", &text);
}
