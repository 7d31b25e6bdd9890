// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one form in which every measuring command reports: named values with unit, spread and conditions.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// One measured quantity over several runs.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Stable name, listed in `docs/json.md`.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// One value per run.
    pub runs: Vec<f64>,
}

impl Measured {
    /// A quantity from its runs.
    pub fn new(name: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> Measured {
        Measured { name: name.into(), unit, runs }
    }

    /// The least and the greatest.
    pub fn spread(&self) -> (f64, f64) {
        let runs = self.sorted();
        (runs.first().copied().unwrap_or(0.0), runs.last().copied().unwrap_or(0.0))
    }

    fn sorted(&self) -> Vec<f64> {
        let mut runs = self.runs.clone();
        runs.sort_by(f64::total_cmp);
        runs
    }

    /// The median.
    pub fn median(&self) -> f64 {
        let runs = self.sorted();
        match runs.len() {
            0 => 0.0,
            n if n % 2 == 1 => runs[n / 2],
            n => (runs[n / 2 - 1] + runs[n / 2]) / 2.0,
        }
    }

    fn json(&self) -> Value {
        let runs = self.sorted();
        json!({
            "name": self.name, "value": self.median(), "unit": self.unit,
            "min": runs.first(), "max": runs.last(), "runs": self.runs.len(),
        })
    }
}

/// The object that `--json` prints.
pub fn object(command: &str, conditions: &Value, results: &[Measured]) -> Value {
    json!({
        "command": command, "version": env!("CARGO_PKG_VERSION"), "machine": machine(),
        "conditions": conditions, "results": results.iter().map(Measured::json).collect::<Vec<_>>(),
    })
}

/// Results as lines for people: median, unit, and the least and the greatest.
pub fn table(results: &[Measured]) -> String {
    let width = results.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let line = |r: &Measured| {
        let (low, high) = r.spread();
        format!(
            "{:width$}  {:>10.2} {:<10} ({low:.2} to {high:.2}, {} runs)\n",
            r.name,
            r.median(),
            r.unit,
            r.runs.len()
        )
    };
    results.iter().map(line).collect()
}

/// What the figures were measured on, as it was when this was first asked: a lab that measures binds its own threads later.
pub fn machine() -> Value {
    static MACHINE: LazyLock<Value> = LazyLock::new(read_machine);
    MACHINE.clone()
}

fn read_machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|(_, m)| m));
    json!({
        "cpu": model.unwrap_or("unknown"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

/// A machine in words, and what measured on it.
pub fn machine_line(machine: &Value, version: &str) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    let (cpu, kernel, cores) = (text("cpu"), text("kernel"), &machine["cores"]);
    let s = if *cores == 1 { "" } else { "s" };
    format!("{cpu}, {cores} core{s}, Linux {kernel}; Junctor {version}.")
}

#[cfg(test)]
mod tests {
    use super::Measured;

    #[test]
    fn medians() {
        let median = |runs: &[f64]| Measured::new("x", "ns", runs.to_vec()).median();
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[])), (2.0, 2.5, 0.0));
    }
}
