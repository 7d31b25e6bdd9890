// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets handed over to other workers: each flow stays on one and in order, none is lost, and the workers are those that
//! were asked for. On real threads; judged by what the router writes to files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

const FLOWS: u32 = 200;
const OF_EACH: u32 = 100;
const STREAMS: usize = 3;

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

/// Packets of flows in turn, each with its number within its flow as its identification.
fn write_packets(path: &Path) {
    let mut text = String::from("!data src sport dst dport proto ip_id\n");
    for n in 0..OF_EACH {
        for flow in 0..FLOWS {
            text += &format!("10.0.{}.{} {} 10.9.0.1 80 T {n}\n", flow / 256, flow % 256, 1000 + flow);
        }
    }
    std::fs::write(path, text).expect("packets");
}

/// Runs `spread` (with a stream for each output) over the packets and returns what came out of each output: flow and
/// number of each packet, in order.
fn run(spread: &str) -> (Vec<Vec<(String, u32)>>, String) {
    let dir = tempfile::tempdir().expect("directory");
    let file = |name: &str| dir.path().join(name);
    write_packets(&file("in"));
    let mut text = format!(
        "FromIPSummaryDump({}, STOP false) -> s :: {spread};
         Script(label again, wait 10ms, goto again $(lt $(add $(c0.count) $(c1.count) $(c2.count)) {}), stop);",
        file("in").display(),
        FLOWS * OF_EACH,
    );
    for n in 0..STREAMS {
        let out = file(&format!("out{n}"));
        text +=
            &format!("s[{n}] -> c{n} :: Counter -> ToIPSummaryDump({}, FIELDS ip_src ip_id);", out.display());
    }
    let config = file("conf");
    std::fs::write(&config, text).expect("configuration");
    let homes: Vec<String> = (0..STREAMS).map(|n| format!("s/u{n}.home_thread")).collect();
    let mut args = vec!["run", "-w", "-j", "3", "--control", "none", "--time", "120"];
    homes.iter().for_each(|h| args.extend(["-h", h]));
    args.push(config.to_str().expect("path"));
    let output = junctor(&args);
    assert!(output.status.success(), "{output:?}");
    let read = |n| {
        let text = std::fs::read_to_string(file(&format!("out{n}"))).expect("output");
        let packet = |line: &str| {
            let (flow, number) = line.split_once(' ').expect("two fields");
            (flow.to_owned(), number.parse().expect("a number"))
        };
        text.lines().filter(|l| !l.starts_with('!')).map(packet).collect()
    };
    let homes = String::from_utf8_lossy(&output.stdout).into_owned();
    ((0..STREAMS).map(read).collect(), homes)
}

#[test]
fn flows_stay_in_order_on_one_worker() {
    for spread in ["Spread(CAPACITY 30000)", "Spread(CAPACITY 30000, SYMMETRIC true, FIRST 1)"] {
        let (outputs, homes) = run(spread);
        let first = usize::from(spread.contains("FIRST"));
        for n in 0..STREAMS {
            let home = format!("s/u{n}.home_thread:\n{}\n", (n + first) % 3);
            assert!(homes.contains(&home), "{spread}: {homes}");
        }
        let mut flows: BTreeMap<&str, (usize, u32)> = BTreeMap::new();
        for (n, output) in outputs.iter().enumerate() {
            // Each stream has its part: a third of the flows, give or take five deviations.
            assert!(
                (33..=100).contains(&(output.len() / OF_EACH as usize)),
                "{spread}: {n} has {}",
                output.len()
            );
            for (flow, number) in output {
                let (at, next) = flows.entry(flow).or_insert((n, 0));
                assert_eq!((*at, *next), (n, *number), "{spread}: {flow}");
                *next += 1;
            }
        }
        assert_eq!(flows.len(), FLOWS as usize);
        assert!(flows.values().all(|(_, next)| *next == OF_EACH), "{spread}");
    }
}
