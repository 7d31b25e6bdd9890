// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much faster several workers are than one in a configuration, and how much faster they could be.
//!
//! Each measurement is a process of its own, and a round has all of them in turn: one worker on each core alone, then one process
//! of one worker on every core at once, then one process with all workers. Programs that share nothing slow each other
//! only by what the machine shares (caches, memory, clock frequency, neighbours), so their sum is the ceiling.

use std::process::{Command, Stdio};

use report::measure::Measured;
use serde_json::{Value, json};

use crate::{Error, Failure, Findings};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A core for each worker.
    pub cores: Vec<usize>,
    /// Rounds.
    pub runs: usize,
}

/// Measures by processes of [`crate::engine`]: `command` makes one that runs once with a worker on each core of a list.
///
/// # Errors
/// A process fails.
pub fn measure(settings: &Settings, command: impl Fn(&str) -> Command) -> Result<Findings, Failure> {
    let (cores, workers) = (&settings.cores, settings.cores.len());
    let rounds = (0..settings.runs.max(1)).map(|_| round(cores, &command));
    let rounds: Vec<Round> = rounds.collect::<Result<_, _>>()?;
    let each = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let results = vec![
        Measured::new(format!("engine.scaling_{workers}"), "times", each(|r| r.together / r.one)),
        Measured::new(format!("engine.scaling_ceiling_{workers}"), "times", each(|r| r.apart / r.one)),
        Measured::new("engine.mpps_1", "Mpps", each(|r| r.one)),
        Measured::new(format!("engine.mpps_{workers}"), "Mpps", each(|r| r.together)),
        Measured::new(format!("engine.mpps_apart_{workers}"), "Mpps", each(|r| r.apart)),
    ];
    Ok(Findings { conditions: json!({ "workers": workers, "cores": cores }), results })
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

fn round(cores: &[usize], command: &impl Fn(&str) -> Command) -> Result<Round, Failure> {
    let list = |cores: &[usize]| cores.iter().map(|c| format!("{c}-{c}")).collect::<Vec<_>>().join(",");
    let each: Vec<String> = cores.iter().map(|core| list(&[*core])).collect();
    let mut one = 0.0;
    for core in &each {
        one += rates(std::slice::from_ref(core), command)? / cores.len() as f64;
    }
    Ok(Round { one, apart: rates(&each, command)?, together: rates(&[list(cores)], command)? })
}

/// The sum of the rates of processes at once, one for each list of cores.
fn rates(lists: &[String], command: &impl Fn(&str) -> Command) -> Result<f64, Failure> {
    let failed = |why: std::io::Error| Failure::Failed(why.into());
    let started = lists.iter().map(|cores| {
        let mut command = command(cores);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    });
    let started: Vec<_> = started.collect::<Result<_, _>>().map_err(failed)?;
    let mut sum = 0.0;
    for child in started {
        let output = child.wait_with_output().map_err(failed)?;
        let silent =
            || Failure::Failed(Error::nothing("a measuring process failed; try the same without --scaling"));
        sum += rate(&output.stdout).ok_or_else(silent)?;
    }
    Ok(sum)
}

fn rate(output: &[u8]) -> Option<f64> {
    let object: Value = serde_json::from_slice(output).ok()?;
    object["results"].as_array()?.iter().find(|r| r["name"] == "engine.mpps")?["value"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_the_command_prints() {
        let text = r#"{"results": [{"name": "engine.ns_per_packet", "value": 50.0}, {"name": "engine.mpps", "value": 19.5}]}"#;
        assert_eq!((rate(text.as_bytes()), rate(b"{}"), rate(b"")), (Some(19.5), None, None));
    }
}
