// SPDX-License-Identifier: MIT OR Apache-2.0
//! MLRsearch compared with the PyPI package of that name, on the same computed devices.
//!
//! What the package says stands in `data/mlrsearch.txt`, written by `benches/peers/mlrsearch.py`, which also describes its lines. Where
//! the package is installed (in the Python that `JUNCTOR_MLRSEARCH_PYTHON` names, else `python3`), a test asks it once more.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use junctor_tester::search::mlr::{Class, Goal, GoalResult, Parameters, Seen, run};
use junctor_tester::trial::{Invalid, Measurer, Outcome, Trial};

const STORED: &str = include_str!("data/mlrsearch.txt");

/// A device as the script computes it.
struct Device {
    kind: String,
    numbers: Vec<f64>,
    trials: u64,
}

impl Device {
    fn new(words: &str) -> Device {
        let mut words = words.split(' ');
        let kind = words.next().unwrap().to_owned();
        Device { kind, numbers: words.map(|word| word.parse().unwrap()).collect(), trials: 0 }
    }

    fn received(&self, load: f64, time_s: f64, sent: u64) -> u64 {
        let &[capacity, a, b] = &self.numbers[..] else { panic!("three numbers") };
        let most = (capacity * time_s + 1e-6) as u64;
        let share = |share: f64| (sent as f64 * share) as u64;
        match self.kind.as_str() {
            "sharp" => sent.min(most),
            "buffer" => sent.min(most + a as u64),
            "leak" => (sent - share(a)).min(most),
            "soft" if load > capacity => sent - share(((load - capacity) / load).powi(2)),
            "soft" => sent,
            "noisy" => (sent - if chance(self.trials) < a { share(b) } else { 0 }).min(most),
            kind => panic!("{kind}"),
        }
    }
}

/// Splitmix64 of the trial's number, 0 to 1.
fn chance(index: u64) -> f64 {
    let mut z = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl Measurer for Device {
    fn measure(&mut self, trial: Trial) -> Result<Outcome, Invalid> {
        let sent = (trial.rate * trial.duration.as_secs_f64()) as u64;
        let received = self.received(trial.rate, trial.duration.as_secs_f64(), sent);
        self.trials += 1;
        Ok(Outcome { intended: sent, sent, received, duration: trial.duration, late: 0 })
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(',').map(|number| number.parse().unwrap()).collect()
}

fn cases(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let cases = STORED.lines().map(|line| line.split('|').collect::<Vec<_>>());
    cases.filter(move |fields| fields[0] == kind)
}

fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn loads_are_classified_alike() {
    let mut count = 0;
    for fields in cases("classify") {
        let &[loss_ratio, exceed_ratio, last, sum] = &numbers(fields[1])[..] else { panic!("four numbers") };
        let (final_trial, duration_sum) = (span(last), span(sum));
        let goal = Goal { loss_ratio, exceed_ratio, final_trial, duration_sum, ..Goal::ndr() };
        let seen = |trial: &str| {
            let trial = numbers(trial);
            Seen { duration: span(trial[0]), loss_ratio: trial[2] / trial[1], unsent: false }
        };
        let seen: Vec<Seen> = fields[2].split(';').filter(|trial| !trial.is_empty()).map(seen).collect();
        let verdict = match goal.classify(&seen) {
            Class::Lower => "lower",
            Class::Upper => "upper",
            Class::Undecided => "undecided",
        };
        assert_eq!(verdict, fields[3], "{fields:?}");
        let quantile: f64 = fields[4].parse().unwrap();
        assert!((1.0 - goal.forwarding_ratio(&seen) - quantile).abs() < 1e-12, "{fields:?}");
        count += 1;
    }
    assert_eq!(count, 400);
}

fn goal(text: &str) -> Goal {
    let &[loss_ratio, exceed_ratio, width, initial, last, sum] = &numbers(text)[..] else {
        panic!("six numbers")
    };
    let (initial_trial, final_trial, duration_sum) = (span(initial), span(last), span(sum));
    Goal { loss_ratio, exceed_ratio, width, initial_trial, final_trial, duration_sum }
}

/// A bound or a throughput that both have or both lack, and if they have it, as close as the goal's width.
fn agrees(ours: Option<f64>, theirs: &str, width: f64) -> bool {
    match (ours, theirs) {
        (None, "-") => true,
        (Some(ours), theirs) if theirs != "-" => {
            let theirs: f64 = theirs.parse().unwrap();
            (ours - theirs).abs() <= width * ours.max(theirs) * (1.0 + 1e-9)
        }
        _ => false,
    }
}

fn compare(result: &GoalResult, theirs: &str, fields: &[&str]) {
    let &[lower, upper, throughput] = &theirs.split(',').collect::<Vec<_>>()[..] else { panic!("{theirs}") };
    let width = result.goal.width;
    assert!(result.finished, "{result:?} {fields:?}");
    if let (Some(lower), Some(upper)) = (result.lower, result.upper) {
        assert!(upper.rate - lower.rate <= width * upper.rate * (1.0 + 1e-9), "{result:?}");
    }
    assert!(agrees(result.lower.map(|bound| bound.rate), lower, width), "lower: {result:?} {fields:?}");
    assert!(agrees(result.upper.map(|bound| bound.rate), upper, width), "upper: {result:?} {fields:?}");
    assert!(agrees(result.conditional_throughput(), throughput, width), "throughput: {result:?} {fields:?}");
}

#[test]
fn searches_agree_goal_by_goal_within_the_width() {
    let (mut count, mut ours, mut theirs) = (0, 0, 0);
    for fields in cases("search") {
        let limits = numbers(fields[2]);
        let goals: Vec<Goal> = fields[3].split(';').map(goal).collect();
        let search_max = Duration::from_secs(1_000_000);
        let parameters = Parameters { rate_min: limits[0], rate_max: limits[1], goals, search_max };
        let mut device = Device::new(fields[1]);
        let report = run(&mut device, &parameters).unwrap();
        let answers: Vec<&str> = fields[4].split(';').collect();
        assert_eq!(answers.len(), report.results.len());
        for (result, answer) in report.results.iter().zip(answers) {
            compare(result, answer, &fields);
        }
        assert!(report.trials.iter().all(|done| done.trial.rate <= parameters.rate_max));
        assert!(report.trials.iter().all(|done| done.trial.rate >= parameters.rate_min));
        println!("{} trials, theirs {}: {} {}", report.trials.len(), fields[5], fields[1], fields[3]);
        ours += report.trials.len();
        theirs += fields[5].parse::<usize>().unwrap();
        count += 1;
    }
    println!("{count} searches in {ours} trials; the package took {theirs}");
    assert_eq!(count, 42);
    assert!(ours < 2 * theirs, "{ours} trials, where the package takes {theirs}");
}

/// The stored answers are the package's: asks it again, if it is there.
#[test]
fn the_package_says_what_is_stored() {
    let python = std::env::var("JUNCTOR_MLRSEARCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let version = "import MLRsearch, importlib.metadata as m; print(m.version('MLRsearch'))";
    let there = Command::new(&python).args(["-c", version]).output();
    if !there.is_ok_and(|output| output.stdout.starts_with(b"1.2.1")) {
        println!("skipped: {python} has no package MLRsearch 1.2.1 (pip install MLRsearch==1.2.1)");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/mlrsearch.py");
    let output = Command::new(&python).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), STORED.lines().count());
    for (said, stored) in said.lines().zip(STORED.lines()) {
        assert!(is_same(said, stored), "{said}\n{stored}");
    }
    println!("the package was asked and says all that is stored: {} lines", STORED.lines().count());
}

/// The same but for the last digits of numbers, which depend on the machine's logarithm.
fn is_same(said: &str, stored: &str) -> bool {
    const APART: [char; 4] = ['|', ',', ';', ' '];
    let (said, stored): (Vec<&str>, Vec<&str>) = (said.split(APART).collect(), stored.split(APART).collect());
    let same = |(a, b): (&&str, &&str)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    };
    said.len() == stored.len() && said.iter().zip(&stored).all(same)
}
