// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a test of any procedure found: the object that `--json` prints, files keep, and reports and comparisons read.
//!
//! A procedure fills a [`Found`]: named quantities, curves, the demands of its document. Nothing that follows knows the procedure. The
//! form is published as `docs/schema/test.json`.

use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tester::search::{Ledger, Sizes};

use report::Axis;
use report::measure::{self, Measured};

mod failed;
mod joined;
mod trials;

pub(crate) use failed::{Failed, by_cause, named};
pub(crate) use joined::{Joined, join, run_name, with_modifier};
pub(crate) use trials::{FlowRow, Managed, TrialRow};

/// The form of [`Record`]; another number means that older readers are misled.
pub(crate) const FORM: &str = "junctor-test-1";

/// One run of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// `test rfc2544`, for instance.
    pub(crate) command: String,
    pub(crate) version: String,
    /// [`FORM`].
    pub(crate) form: String,
    /// When it began (RFC 3339, UTC).
    pub(crate) started: String,
    pub(crate) elapsed_s: f64,
    pub(crate) command_line: Vec<String>,
    pub(crate) machine: Value,
    pub(crate) conditions: Map<String, Value>,
    pub(crate) results: Vec<Quantity>,
    pub(crate) curves: Vec<Curve>,
    pub(crate) trials: Vec<TrialRow>,
    /// Of a soak.
    #[serde(default)]
    pub(crate) bins: Vec<BinRow>,
    pub(crate) ledger: Vec<Clause>,
    pub(crate) invalid: Vec<Cause>,
}

/// An interval in which frames were lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BinRow {
    pub(crate) size: usize,
    /// When it began, from the begin of the trial.
    pub(crate) start_s: f64,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

/// All runs of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct All {
    /// `test campaign`.
    pub(crate) command: String,
    pub(crate) version: String,
    /// [`FORM`].
    pub(crate) form: String,
    /// Parts of a run's results among them.
    pub(crate) records: Vec<Record>,
    /// What became of each demand in all runs together. Campaigns of before have none.
    #[serde(default)]
    pub(crate) ledger: Vec<Joined>,
    /// Runs without a result, or with a part of it only.
    pub(crate) invalid: Vec<Failed>,
    /// Why not all runs were started, if so.
    #[serde(default)]
    pub(crate) interrupted: Option<String>,
}

impl All {
    /// How many of the records are parts.
    pub(crate) fn parts(&self) -> usize {
        self.invalid.iter().filter(|failed| failed.part).count()
    }
}

/// A named quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantity {
    /// Stable name, listed in `docs/json.md`.
    pub(crate) name: String,
    /// Frame size in bytes with FCS, if it is of one.
    pub(crate) size: Option<usize>,
    pub(crate) unit: String,
    /// The median.
    pub(crate) value: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) runs: usize,
    /// Of each run, in order.
    pub(crate) values: Vec<f64>,
    /// Which values are good; nothing where none is better.
    pub(crate) better: Option<Better>,
    /// The values are lower bounds: the tester, or the most that was tried, was the limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) at_least: bool,
    /// The tester did not send all that was due in the trials that this comes from: it is of another load than was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) tester_limited: bool,
}

/// Which values of a quantity are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Quantity {
    /// Whether the device may do more than this says.
    pub(crate) fn is_bound(&self) -> bool {
        self.at_least || self.name.contains(".reached_")
    }

    fn new(size: Option<usize>, name: String, unit: &str, values: Vec<f64>) -> Quantity {
        let better = better(&name, unit);
        let mut quantity = Quantity {
            name,
            size,
            unit: unit.to_owned(),
            value: 0.0,
            min: 0.0,
            max: 0.0,
            runs: 0,
            values,
            better,
            at_least: false,
            tester_limited: false,
        };
        quantity.sum_up();
        quantity
    }

    fn sum_up(&mut self) {
        let measured = Measured::new("", "", self.values.clone());
        (self.value, (self.min, self.max)) = (measured.median(), measured.spread());
        self.runs = self.values.len();
    }

    /// The name without what all names have in common and without the size: `rfc2544.throughput_mpps`.
    pub(crate) fn label(&self) -> String {
        let name = self.name.strip_prefix("test.").unwrap_or(&self.name);
        let Some(size) = self.size else { return name.to_owned() };
        let size = format!(".{size}");
        match name.strip_suffix(&size) {
            Some(label) => label.to_owned(),
            None => name.replacen(&format!("{size}."), ".", 1),
        }
    }
}

/// Which values are good, by name and unit: more is better of rates and of what fits into a device; less of times, losses and
/// frames that went wrong. What is the tester's own is neither.
fn better(name: &str, unit: &str) -> Option<Better> {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&[
        "gather.",
        "test.cable.",
        ".sent_",
        "unsent",
        "lateness",
        "late_share",
        "foreign",
        ".asked",
        "answers_right",
        "offered",
        "_of_trials",
        "first_loss",
    ]) {
        return None;
    }
    let is_rate = unit.ends_with("pps") || unit.ends_with("/s");
    let fits = has(&["burst_frames", "buffer", "capacity", "longest_clean"]);
    Some(if is_rate || fits { Better::Higher } else { Better::Lower })
}

/// Values over others, for a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// What it shows, `Latency at the throughput`: curves of one name are drawn together.
    pub(crate) name: String,
    pub(crate) size: Option<usize>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One demand of a document, and whether it was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clause {
    /// `RFC 2544 24`.
    pub(crate) section: String,
    /// `MUST`, `SHOULD`, or empty for a step that is described without such a word.
    pub(crate) level: String,
    pub(crate) demand: String,
    pub(crate) met: bool,
    /// What was done instead.
    pub(crate) deviation: Option<String>,
    /// The sizes, where it is frame sizes that are asked for: other runs may have sent the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sizes: Option<Sizes>,
}

/// Why not all was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cause {
    pub(crate) size: Option<usize>,
    pub(crate) cause: String,
}

/// What a procedure found, as it goes.
pub(crate) struct Found {
    /// Lines for people.
    pub(crate) text: String,
    /// The size that is being measured.
    pub(crate) size: Option<usize>,
    pub(crate) results: Vec<Quantity>,
    pub(crate) curves: Vec<Curve>,
    pub(crate) trials: Vec<TrialRow>,
    pub(crate) bins: Vec<BinRow>,
    pub(crate) invalid: Vec<Cause>,
    /// What the procedure was asked for beyond what all are.
    asked: Value,
    ledger: Vec<Clause>,
    /// How procedures were done.
    conditions: Map<String, Value>,
    /// As it is before the tester takes a core of it.
    machine: Value,
    started: SystemTime,
    clock: Instant,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            text: String::new(),
            size: None,
            results: Vec::new(),
            curves: Vec::new(),
            trials: Vec::new(),
            bins: Vec::new(),
            invalid: Vec::new(),
            asked: Value::Null,
            ledger: Vec::new(),
            conditions: Map::new(),
            machine: measure::machine(),
            started: SystemTime::now(),
            clock: Instant::now(),
        }
    }
}

impl Found {
    /// For frames of one size.
    pub(crate) fn of_size(size: usize) -> Found {
        Found { size: Some(size), ..Found::default() }
    }

    /// Notes a quantity. A name that is there already gets one more run.
    pub(crate) fn note(&mut self, name: String, unit: &str, value: f64) {
        self.note_runs(name, unit, vec![value]);
    }

    /// Notes a quantity that was measured several times.
    pub(crate) fn note_runs(&mut self, name: String, unit: &str, values: Vec<f64>) {
        if let Some(known) = self.results.iter_mut().find(|known| known.name == name) {
            known.values.extend(values);
            known.sum_up();
        } else {
            self.results.push(Quantity::new(self.size, name, unit, values));
        }
    }

    /// Notes how the procedure itself was done.
    pub(crate) fn condition(&mut self, name: &str, value: Value) {
        self.conditions.insert(name.to_owned(), value);
    }

    /// Says what was to be measured and was not.
    pub(crate) fn unmeasured(&mut self, cause: String) {
        self.invalid.push(Cause { size: self.size, cause });
    }

    /// Notes what the procedure was asked for, as far as results of other demands are not to be compared with these.
    pub(crate) fn ask(&mut self, demands: Value) {
        self.asked = demands;
    }

    /// Those of these sizes of which a trial was carried out to its end; what only warms a device up is none.
    pub(crate) fn tried(&self, sizes: &[usize]) -> Vec<usize> {
        let was = |trial: &TrialRow| trial.sent > 0 && trial.came_to_its_end && !trial.warms_up();
        let tried = |size: &&usize| self.trials.iter().any(|trial| trial.size == **size && was(trial));
        sizes.iter().filter(tried).copied().collect()
    }

    /// Says of trials that the tester did not send all that was due, where that leaves nothing to say of the device.
    pub(crate) fn unsent(&mut self) {
        let is_marked = |trial: &&TrialRow| trial.came_to_its_end && trial.invalid.is_some();
        let trials = self.trials.iter().filter(is_marked).map(|trial| (trial.unsent, trial.intended));
        let all = trials.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1));
        all.into_iter().for_each(|(missing, of)| self.unmeasured(trials::unsent(missing, of)));
    }

    /// Says of a quantity that was noted that it is a lower bound.
    pub(crate) fn bound(&mut self, name: &str) {
        self.results.iter_mut().filter(|known| known.name == name).for_each(|known| known.at_least = true);
    }

    /// Says of all quantities of this size whose names begin with these parts that the tester did not send all that was due.
    pub(crate) fn limited(&mut self, begin: &str) {
        let (size, begin) = (self.size, begin.trim_end_matches('.'));
        let is_such = |name: &str| {
            name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let known = self.results.iter_mut().filter(|known| known.size == size && is_such(&known.name));
        known.for_each(|known| known.tester_limited = true);
    }

    /// Notes a curve; of several runs, the last is shown.
    pub(crate) fn draw(&mut self, curve: Curve) {
        self.curves.retain(|known| known.name != curve.name || known.size != curve.size);
        self.curves.push(curve);
    }

    /// Notes what a document asks, and whether it was done. If it was not, that counts, even if it was done with other sizes.
    pub(crate) fn deviate(&mut self, ledger: &Ledger) {
        for clause in &ledger.clauses {
            let clause = Clause {
                section: clause.section.to_owned(),
                level: clause.level.word().to_owned(),
                demand: clause.asks.to_owned(),
                met: clause.deviation.is_none(),
                deviation: clause.deviation.clone(),
                sizes: clause.sizes.clone(),
            };
            match self.ledger.iter_mut().find(|known| known.is_same(&clause)) {
                Some(known) => known.join(&clause),
                None => self.ledger.push(clause),
            }
        }
    }

    /// What the device was the limit of in one run, and the tester in another, is the tester's.
    fn settle(&mut self) {
        let all = std::mem::take(&mut self.results);
        for quantity in all {
            let reached = quantity.name.replace(".throughput_mpps.", ".reached_mpps.");
            let other = quantity.name.replace(".reached_mpps.", ".throughput_mpps.");
            match self.results.iter_mut().find(|q| q.name == reached || q.name == other) {
                Some(known) => {
                    known.values.extend(quantity.values);
                    known.name = reached;
                    known.sum_up();
                }
                None => self.results.push(quantity),
            }
        }
    }

    /// The whole, once nothing more comes.
    pub(crate) fn record(mut self, command: &str, mut conditions: Map<String, Value>) -> Record {
        self.settle();
        conditions.append(&mut self.conditions);
        if !self.asked.is_null() {
            conditions.insert("asked".to_owned(), self.asked);
        }
        Record {
            command: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            form: FORM.to_owned(),
            started: humantime::format_rfc3339_seconds(self.started).to_string(),
            elapsed_s: self.clock.elapsed().as_secs_f64(),
            command_line: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            machine: self.machine,
            conditions,
            results: self.results,
            curves: self.curves,
            trials: self.trials,
            bins: self.bins,
            ledger: self.ledger,
            invalid: self.invalid,
        }
    }
}

impl Clause {
    /// Whether both are of one demand.
    pub(crate) fn is_same(&self, other: &Clause) -> bool {
        self.section == other.section && self.demand == other.demand
    }

    /// Adds what became of it in another part of the same measurements.
    pub(crate) fn join(&mut self, other: &Clause) {
        match (&mut self.sizes, &other.sizes) {
            (Some(sizes), Some(others)) => {
                sizes.join(others);
                self.deviation = sizes.deviation();
                self.met = self.deviation.is_none();
            }
            // One may have several parts, some of which are known.
            _ => other.deviation.iter().flat_map(|how| how.split("; ")).for_each(|how| self.deviate(how)),
        }
    }

    /// Was not met, in this way too.
    pub(crate) fn deviate(&mut self, how: &str) {
        self.met = false;
        match &mut self.deviation {
            Some(known) if format!("; {known}; ").contains(&format!("; {how}; ")) => {}
            Some(known) => *known += &format!("; {how}"),
            None => self.deviation = Some(how.to_owned()),
        }
    }
}

impl Record {
    /// As a line of JSON.
    pub(crate) fn json(&self) -> String {
        // A map's keys are strings and no number is infinite: nothing of this fails.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Whether frames were sent in earnest, as far as its ledger shows. If not, what it says of demands has no weight compared with the
    /// trials of others.
    pub(crate) fn has_tried(&self) -> bool {
        let mut sizes = self.ledger.iter().filter_map(|clause| clause.sizes.as_ref()).peekable();
        sizes.peek().is_none() || sizes.any(|sizes| !sizes.sent.is_empty())
    }

    /// A text of the conditions.
    pub(crate) fn condition(&self, name: &str) -> &str {
        self.conditions.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number of the conditions.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.conditions.get(name).and_then(Value::as_f64)
    }

    /// What was tested.
    pub(crate) fn device(&self) -> &str {
        self.condition("device")
    }

    /// The procedure's options, where a campaign has it with others, too; else empty.
    pub(crate) fn options(&self) -> &str {
        self.condition("options")
    }

    /// The modifier under which a campaign has run it, `none` among them; empty where a campaign names none.
    pub(crate) fn modifier(&self) -> &str {
        self.condition("modifier")
    }

    /// The same with this condition, if there is anything to say.
    pub(crate) fn with_label(mut self, condition: &str, label: &str) -> Record {
        if !label.is_empty() {
            self.conditions.insert(condition.to_owned(), label.into());
        }
        self
    }

    /// How a campaign calls such a run.
    pub(crate) fn run_name(&self) -> String {
        let sizes = self.sizes_asked();
        run_name(self.procedure(), self.options(), self.device(), &sizes, self.workers(), self.modifier())
    }

    /// Whether it reveals anything of the device: a result, or a trial that says something.
    pub(crate) fn has_found(&self) -> bool {
        self.found() > (0, 0)
    }

    /// How much it reveals of the device: values, and valid trials.
    pub(crate) fn found(&self) -> (usize, usize) {
        let of_device = self.results.iter().filter(|q| !q.name.starts_with("test.cable."));
        let trials = self.trials.iter().filter(|trial| trial.invalid.is_none() && trial.phase != "warm-up");
        (of_device.map(|q| q.values.len()).sum(), trials.count())
    }

    /// Why not all was measured.
    pub(crate) fn causes(&self) -> String {
        let one = |cause: &Cause| match cause.size {
            Some(size) => format!("{size} bytes: {}", cause.cause),
            None => cause.cause.clone(),
        };
        self.invalid.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// The same with one more reason why it is not all, unless it is known.
    pub(crate) fn with_cause(mut self, cause: &str) -> Record {
        if self.causes() != cause {
            self.invalid.push(Cause { size: None, cause: cause.to_owned() });
        }
        self
    }

    /// Workers of the device.
    pub(crate) fn workers(&self) -> usize {
        self.number("workers").map_or(1, |workers| workers as usize)
    }

    /// The procedure: `rfc2544`.
    pub(crate) fn procedure(&self) -> &str {
        self.command.strip_prefix("test ").unwrap_or(&self.command)
    }

    /// The frame sizes that were asked for. Records of trials have one; some of before have none, but results.
    pub(crate) fn sizes_asked(&self) -> Vec<usize> {
        let list = self.conditions.get("sizes").and_then(Value::as_array);
        let one = self.conditions.get("size").map(std::slice::from_ref);
        let Some(list) = list.map(Vec::as_slice).or(one) else { return self.sizes() };
        let mut sizes: Vec<usize> = list.iter().filter_map(Value::as_u64).map(|size| size as usize).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The frame sizes of which there is a result.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.results.iter().filter_map(|q| q.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

#[cfg(test)]
mod tests {
    use tester::search::Level;

    use tester::trial::{Invalid, Trial};

    use super::*;

    #[test]
    fn runs_of_one_name_come_together_and_the_tester_s_limit_wins() {
        let mut found = Found::of_size(64);
        for (name, value) in [("throughput", 1.0), ("reached", 3.0), ("throughput", 2.0)] {
            found.note(format!("test.rfc2544.{name}_mpps.64"), "Mpps", value);
        }
        found.note("test.rfc2544.loss_share.64.100".to_owned(), "", 0.5);
        let record = found.record("test rfc2544", Map::new());
        let [rate, loss] = &record.results[..] else { panic!("{:?}", record.results) };
        assert_eq!((rate.name.as_str(), rate.value, rate.runs), ("test.rfc2544.reached_mpps.64", 2.0, 3));
        assert_eq!(
            (rate.label(), loss.label()),
            ("rfc2544.reached_mpps".into(), "rfc2544.loss_share.100".into())
        );
        assert_eq!((rate.better, loss.better), (Some(Better::Higher), Some(Better::Lower)));
        let again: Record = serde_json::from_str(&record.json()).unwrap();
        assert_eq!(again, record);
    }

    #[test]
    fn a_demand_that_one_size_misses_is_missed() {
        let clause = |deviation: Option<&str>| tester::search::Clause {
            section: "RFC 2544 24",
            level: Level::Should,
            asks: "60 s",
            deviation: deviation.map(str::to_owned),
            sizes: None,
        };
        let mut found = Found::default();
        for deviation in [None, Some("5 s"), Some("5 s"), None, Some("5 s; 1 s")] {
            found.deviate(&Ledger { clauses: vec![clause(deviation)] });
        }
        let [clause] = &found.ledger[..] else { panic!("{:?}", found.ledger) };
        assert_eq!((clause.met, clause.deviation.as_deref()), (false, Some("5 s; 1 s")));
        assert_eq!(clause.level, "SHOULD");
    }

    #[test]
    fn sizes_were_tried_if_a_trial_came_to_its_end() {
        let trial = Trial::new(1e3, std::time::Duration::from_secs(1));
        let row = |size, phase: &str, sent, came_to_its_end| TrialRow {
            sent,
            came_to_its_end,
            ..TrialRow::new(size, phase, trial, None, Err(&Invalid::new("", "")))
        };
        let trials = vec![
            row(64, "latency", 9, true),
            row(128, "warm-up, one pair", 9, true),
            row(256, "latency", 9, false),
            row(512, "latency", 0, true),
            row(512, "latency", 1, true),
        ];
        let found = Found { trials, ..Found::default() };
        assert_eq!(found.tried(&[512, 9000, 256, 128, 64]), [512, 64]);
    }

    #[test]
    fn more_is_better_of_rates_and_less_of_times() {
        for (name, unit, wanted) in [
            ("test.mlr.throughput_mpps.ndr.64", "Mpps", Some(Better::Higher)),
            ("test.rfc2544.back_to_back.burst_frames.64", "frames", Some(Better::Higher)),
            ("test.rfc2889.learning_rate.64", "addresses/s", Some(Better::Higher)),
            ("test.rfc2544.latency_us.p50.64", "us", Some(Better::Lower)),
            ("test.reordered", "frames", Some(Better::Lower)),
            ("test.soak.longest_clean_s.64", "s", Some(Better::Higher)),
            ("test.soak.first_loss_s.64", "s", None),
            ("test.cable.mpps.64", "Mpps", None),
            ("test.unsent_share", "", None),
        ] {
            assert_eq!(better(name, unit), wanted, "{name}");
        }
    }
}
