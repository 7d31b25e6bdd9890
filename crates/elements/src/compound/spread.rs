// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Spread
//!
//! `Spread([keywords WORKERS, FIRST, CAPACITY, SYMMETRIC, FIELDS, KEY])`
//!
//! Hands packets over to several workers, each flow to one of them and in order: receive side scaling for what has only one
//! queue, or for what one worker unpacked. It is a compound of ordinary elements: a HashDemux, and for each stream a CPUQueue
//! whose Unqueue runs on a worker of its own (StaticThreadSched). 'junctor check --flat' prints it.
//!
//! **Ports:** 1 push input. With one output all streams leave there, each on its worker; with several outputs, stream 0
//! leaves by output 0 and so on.
//!
//! **Keywords**
//! * `WORKERS` streams, by default as many as there are outputs. `FIRST` worker of the first stream, default 0; the others follow it.
//!   Where there are fewer workers than that, streams share them in turn.
//! * `CAPACITY` packets that may wait between two workers, default 1000.
//! * `SYMMETRIC`, `FIELDS`, `KEY` as for HashDemux.
//!
//! **Drops:** `queue-full`, by the stream's queue: a worker that falls behind loses its own flows' packets only.
//!
//! **Cores:** a ring for each pair of a worker that brings packets and one that takes them, without a lock. What is behind it
//! keeps a packet on its worker.
//!
//! Inside, `demux` is the HashDemux (its `table` handler moves flows from stream to stream), `q0` the first queue and `u0` its
//! Unqueue.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Spread(WORKERS 4, SYMMETRIC true) -> Discard;
//! ```
//!
//! See also: HashDemux, CPUQueue, StaticThreadSched, CPUSwitch

use std::fmt::Write as _;

use lang::{Fault, Use};

use super::Compound;
use super::arguments::{Words, keyword};

/// The compound.
pub const COMPOUND: Compound = Compound::new(NAME, write, file!());

const NAME: &str = "Spread";
const KEYWORDS: [&str; 6] = ["WORKERS", "FIRST", "CAPACITY", "SYMMETRIC", "FIELDS", "KEY"];
/// Packets that may wait between two workers.
const CAPACITY: usize = 1000;
/// HashDemux has that many table entries.
const STREAMS_MAX: usize = 128;

/// Writes the body for a use.
fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    let mut faults = Vec::new();
    let (mut workers, mut first, mut capacity, mut hashing) = (None, 0, CAPACITY, Vec::new());
    for (n, arg) in request.args.iter().enumerate() {
        let key = keyword(arg, &KEYWORDS);
        let mut words = Words::of(arg, n, &mut faults);
        let given = words.next();
        match key {
            Some("WORKERS") => workers = words.number("WORKERS", 1),
            Some("FIRST") => first = words.number("FIRST", 0).unwrap_or(0),
            Some("CAPACITY") => capacity = words.number("CAPACITY", 1).unwrap_or(CAPACITY),
            Some(_) => {
                hashing.push(arg.clone());
                continue;
            }
            None => {
                let given = given.unwrap_or_default();
                words.fault(
                    format!("{NAME} has no argument '{given}'"),
                    format!("it has {}", KEYWORDS.join(", ")),
                );
                continue;
            }
        }
        words.end("one number behind the keyword");
    }
    let [inputs, outputs] = request.ports.map(|n| n as usize);
    if inputs != 1 || outputs == 0 {
        let what = format!("{NAME} has one input and at least one output, not {inputs} and {outputs}");
        faults.push(Fault::new(None, what, "connect both sides"));
    }
    let streams: usize = workers.unwrap_or(outputs);
    if outputs > 1 && streams != outputs {
        let what = format!("{NAME} has {streams} streams and {outputs} outputs");
        faults.push(Fault::new(None, what, "connect one output for all, or one for each"));
    }
    if streams > STREAMS_MAX {
        let what = format!("{NAME} has {streams} streams, and {STREAMS_MAX} are the most");
        faults.push(Fault::new(None, what, "take fewer WORKERS"));
    }
    if faults.is_empty() { Ok(body(streams, outputs, first, capacity, &hashing)) } else { Err(faults) }
}

fn body(streams: usize, outputs: usize, first: usize, capacity: usize, hashing: &[String]) -> String {
    let mut text = format!("input -> demux :: HashDemux({});\n", hashing.join(", "));
    for i in 0..streams {
        let output = if outputs == 1 { 0 } else { i };
        let _ = writeln!(
            text,
            "demux[{i}] -> q{i} :: CPUQueue({capacity}) -> u{i} :: Unqueue -> [{output}]output;"
        );
    }
    let homes: Vec<String> = (0..streams).map(|i| format!("u{i} {}", first + i)).collect();
    let _ = writeln!(text, "StaticThreadSched({}, WRAP true);", homes.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use crate::ip::samples::datagram;
    use crate::testing::Rig;

    const FLOWS: u8 = 50;

    /// Packets of 50 flows, numbered within each.
    fn packets(of_each: u8) -> Vec<Packet> {
        let one = |flow: u8, n: u8| {
            let mut p = datagram(9, [10, 0, 0, flow], [10, 9, flow, 1], &[], 9);
            p.data_mut()[28] = n;
            p
        };
        (0..of_each).flat_map(|n| (0..FLOWS).map(move |flow| one(flow, n))).collect()
    }

    #[test]
    fn flows_stay_whole_and_in_order() {
        for (workers, burst) in [(1, 1), (1, 32)] {
            let text = "i :: TestIn -> s :: Spread; s[0] -> o0 :: TestOut; s[1] -> o1 :: TestOut; s[2] -> o2 :: TestOut;";
            let run = Rig::text(text).workers(workers).burst(burst).packets(packets(20)).run();
            let mut seen = 0;
            let mut flows = std::collections::BTreeMap::new();
            for output in ["o0", "o1", "o2"] {
                let out = run.bytes(output);
                assert!(out.len() >= 100, "{output} has {}", out.len());
                for p in out {
                    let (at, next) = flows.entry(p[15]).or_insert((output, 0));
                    assert_eq!((*at, *next), (output, p[28]), "flow {}", p[15]);
                    *next += 1;
                    seen += 1;
                }
            }
            assert_eq!(seen, 1000);
        }
    }

    #[test]
    fn streams_have_their_workers() {
        let check = |config: &str, workers, want: &[&str]| {
            let text = format!("i :: TestIn -> s :: Spread({config}) -> Discard;");
            let mut run = Rig::text(&text).workers(workers).ready();
            let homes: Vec<String> =
                (0..want.len()).map(|n| run.read(&format!("s/u{n}.home_thread"))).collect();
            assert_eq!(homes, want, "{config}");
        };
        check("WORKERS 3", 4, &["0", "1", "2"]);
        check("WORKERS 3, FIRST 1, SYMMETRIC true", 4, &["1", "2", "3"]);
        check("WORKERS 4", 2, &["0", "1", "0", "1"]);
    }

    #[test]
    fn bad_uses() {
        let check = |text: &str, want: &str| {
            let errors = Rig::text(text).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{text}: {errors:?}");
        };
        check("TestIn -> Spread(WORKERS 0) -> Discard", "WORKERS '0' is not a number that fits");
        check("TestIn -> Spread(CORES 4) -> Discard", "no argument 'CORES'");
        check(
            "TestIn -> s :: Spread(WORKERS 3); s[0] -> Discard; s[1] -> Discard",
            "3 streams and 2 outputs",
        );
        check("TestIn -> Spread(WORKERS 200) -> Discard", "128 are the most");
        check("TestIn -> Spread(SYMMETRIC maybe) -> Discard", "SYMMETRIC");
    }
}
