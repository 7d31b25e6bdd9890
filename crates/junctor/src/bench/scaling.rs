// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench engine --scaling`: how much faster several workers are than one, and how much faster they could be.
//!
//! Each measurement is a process of its own, and a round has all of them in turn: one worker on each core alone, then one process
//! of one worker on every core at once, then one process with all workers. Programs that share nothing slow each other
//! only by what the machine shares (caches, memory, clock frequency, neighbours), so their sum is the ceiling.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::engine_path::Args;
use crate::outcome;
use report::measure::Measured;

/// Runs the command.
pub(super) fn main(args: &Args, workers: usize) -> u8 {
    let cores = match conf::cores::parse(&workers.to_string()) {
        Ok((n, cores)) if n > 1 && cores.len() >= n => cores[..n].to_vec(),
        Ok((_, cores)) => {
            return outcome::usage(format!(
                "--scaling needs at least 2 workers and a core for each; there are {}",
                cores.len()
            ));
        }
        Err(why) => return outcome::usage(why),
    };
    let mut rounds = Vec::new();
    for _ in 0..args.runs.max(1) {
        match round(&cores) {
            Ok(round) => rounds.push(round),
            Err(why) => return outcome::fail(why),
        }
    }
    let each = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let results = [
        Measured::new(format!("engine.scaling_{workers}"), "times", each(|r| r.together / r.one)),
        Measured::new(format!("engine.scaling_ceiling_{workers}"), "times", each(|r| r.apart / r.one)),
        Measured::new("engine.mpps_1", "Mpps", each(|r| r.one)),
        Measured::new(format!("engine.mpps_{workers}"), "Mpps", each(|r| r.together)),
        Measured::new(format!("engine.mpps_apart_{workers}"), "Mpps", each(|r| r.apart)),
    ];
    let conditions =
        json!({ "workers": workers, "burst": args.burst, "run_ms": args.run_ms, "cores": cores });
    outcome::show("bench engine --scaling", &conditions, &results, args.json)
}

/// Rates in Mpps.
struct Round {
    /// One worker alone, the mean over the cores.
    one: f64,
    /// Programs of one worker at once, in all.
    apart: f64,
    /// One program with all workers.
    together: f64,
}

fn round(cores: &[usize]) -> Result<Round, String> {
    let list = |cores: &[usize]| cores.iter().map(|c| format!("{c}-{c}")).collect::<Vec<_>>().join(",");
    let each: Vec<String> = cores.iter().map(|core| list(&[*core])).collect();
    let mut one = 0.0;
    for core in &each {
        one += rates(std::slice::from_ref(core))? / cores.len() as f64;
    }
    Ok(Round { one, apart: rates(&each)?, together: rates(&[list(cores)])? })
}

/// The sum of the rates of processes at once, one for each list of cores.
fn rates(lists: &[String]) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
    let same = same_arguments(std::env::args().skip(1));
    let started = lists.iter().map(|cores| {
        let mut command = Command::new(&program);
        command.args(&same).args(["--json", "--runs", "1", "--threads", cores]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    });
    let started: Vec<_> = started.collect::<Result<_, _>>().map_err(|why| why.to_string())?;
    let mut sum = 0.0;
    for child in started {
        let output = child.wait_with_output().map_err(|why| why.to_string())?;
        sum += rate(&output.stdout).ok_or("a measuring process failed; try the same without --scaling")?;
    }
    Ok(sum)
}

/// This process's arguments without those that say what is measured and how it is printed.
fn same_arguments(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args;
    while let Some(arg) = args.next() {
        let name = arg.split('=').next().unwrap_or_default();
        match name {
            "--json" | "--report" => {}
            "--scaling" | "--runs" | "--threads" | "-j" => {
                if name == arg {
                    args.next();
                }
            }
            _ => kept.push(arg),
        }
    }
    kept
}

fn rate(output: &[u8]) -> Option<f64> {
    let object: Value = serde_json::from_slice(output).ok()?;
    object["results"].as_array()?.iter().find(|r| r["name"] == "engine.mpps")?["value"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on_but_for_the_question() {
        let args = "bench engine --scaling 2 --runs=9 --json -j 4 --run-ms 50 -w x conf.click";
        let kept = same_arguments(args.split(' ').map(str::to_owned));
        assert_eq!(kept, ["bench", "engine", "--run-ms", "50", "-w", "x", "conf.click"]);
    }

    #[test]
    fn rates_are_read_from_what_the_command_prints() {
        let text = r#"{"results": [{"name": "engine.ns_per_packet", "value": 50.0}, {"name": "engine.mpps", "value": 19.5}]}"#;
        assert_eq!((rate(text.as_bytes()), rate(b"{}"), rate(b"")), (Some(19.5), None, None));
    }
}
