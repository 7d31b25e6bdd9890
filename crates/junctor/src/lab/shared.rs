// SPDX-License-Identifier: MIT OR Apache-2.0
//! What labs that run configurations on in-memory devices have in common.

use crate::bench::Failed;

/// What a configuration of a lab cannot do.
pub(super) fn explain(failed: Failed) -> String {
    match failed {
        Failed::Configuration(all) => {
            let all: Vec<String> = all.into_iter().map(|d| d.message).collect();
            format!("a configuration of the lab is wrong here: {}", all.join("; "))
        }
        Failed::Silent => "no packet came out of a configuration in a run; try a longer --time".to_owned(),
        Failed::Traffic(why) => why,
    }
}

/// The graph of a configuration of a lab.
pub(super) fn graph(lab: &str, text: &str) -> Result<lang::Graph, String> {
    let parsed = lang::load_str(lab, text, &elements::options());
    parsed.graph.ok_or_else(|| explain(Failed::Configuration(parsed.diagnostics)))
}

/// How many cores to measure on, if so many are asked for, and how many there are.
pub(super) fn cores(asked: Option<usize>) -> Result<(usize, usize), String> {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    match asked.unwrap_or(here) {
        cores if (1..=here).contains(&cores) => Ok((cores, here)),
        _ => Err(format!("--cores must lie between 1 and {here}, the cores of this machine")),
    }
}

/// In place of a value that takes more cores.
pub(super) fn too_few(cores: usize) -> String {
    match cores {
        1 => "1 core here".to_owned(),
        n => format!("{n} cores here"),
    }
}

/// Numbers of workers to measure: each up to 4, then twice as many each time, and all.
pub(super) fn counts(cores: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (1..=cores.min(4)).collect();
    counts.extend((3..).map(|n| 1 << n).take_while(|n| *n < cores));
    if cores > 4 {
        counts.push(cores);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_workers() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 3, 4, 6]);
        assert_eq!(counts(8), [1, 2, 3, 4, 8]);
        assert_eq!(counts(24), [1, 2, 3, 4, 8, 16, 24]);
    }
}
