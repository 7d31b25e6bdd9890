// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test compare`: whether the second of two results is better, and how sure that is.

mod pair;
mod welch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::failure::print;
use super::record::{All, FORM, Failed, Record, by_cause, with_modifier};
use super::{Failure, mlr};
use crate::Error;
use pair::{Compared, Lacking, Pair, Verdict};
use report::{Cell, Document, Note, Origin, Section, Table, digits, text};

/// Tell whether the second of two results is better than the first.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What was before: the JSON of a test or of a campaign.
    pub a: PathBuf,
    /// What may be better.
    pub b: PathBuf,
    /// Confidence in percent.
    pub confidence: f64,
    /// Differences up to so many percent of A's mean count for nothing.
    pub margin: f64,
    /// Whether one JSON object is printed.
    pub json: bool,
}

/// Prints the comparison.
pub(super) fn run(args: &Comparison) -> Result<(), Failure> {
    let (a, b) =
        read(&args.a).and_then(|a| Ok((a, read(&args.b)?))).map_err(|why| Failure::Usage(why.to_string()))?;
    let pairs = pairs(&a.records, &b.records).map_err(|why| {
        let failed = failed("A", &a).chain(failed("B", &b)).map(|failed| format!("; {failed}"));
        let failed: String = failed.collect();
        let (a, b) = (args.a.display(), args.b.display());
        Failure::Usage(format!("{a} and {b} cannot be compared: {why}{failed}"))
    })?;
    let all = pair::compare(&pairs, args.confidence / 100.0, args.margin / 100.0);
    let lacking = Lacking::of(&pairs);
    let verdict = lacking.judge(pair::overall(&all));
    let notes = [lacking.notes(), failed("A", &a).chain(failed("B", &b)).collect(), notes(&pairs)].concat();
    let printed = if args.json {
        format!("{}\n", object(args, &all, verdict, &notes, &lacking))
    } else {
        text::render(&document(args, &all, verdict, notes))
    };
    print(&printed)?;
    if matches!(verdict, Verdict::Better | Verdict::Same) { Ok(()) } else { Err(Failure::NotBetter) }
}

/// What one side has.
struct Side {
    records: Vec<Record>,
    /// Of a campaign, runs without a result.
    failed: Vec<Failed>,
}

/// Why runs of a side have no result, in words.
fn failed<'a>(name: &'a str, side: &'a Side) -> impl Iterator<Item = String> + 'a {
    let causes = by_cause(&side.failed).into_iter();
    causes.map(move |(runs, cause)| format!("{name} has no result of {runs}: {cause}"))
}

/// The records of a test or a campaign.
fn read(path: &Path) -> Result<Side, Error> {
    let name = path.display();
    let bytes = std::fs::read(path).map_err(Error::advised(
        &name,
        "; name what a test printed with --json, or a campaign's campaign.json",
    ))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|why| Error::NoJson { file: name.to_string(), why })?;
    if value["form"] != FORM {
        let form = value["form"].as_str().unwrap_or("none");
        return Err(Error::Incomparable(format!(
            "{name}: its form is {form:?} and not {FORM:?}; make it with 'junctor test ... --json' of this version"
        )));
    }
    let broken = |why| Error::Part { file: name.to_string(), why };
    let (records, mut failed) = if value["command"] == "test campaign" {
        let all = serde_json::from_value::<All>(value).map_err(broken)?;
        (all.records, all.invalid)
    } else {
        (vec![serde_json::from_value(value).map_err(broken)?], Vec::new())
    };
    // A part is among the records, and they say what it lacks.
    failed.retain(|failed| !failed.part);
    if records.iter().all(|record| record.results.is_empty()) {
        let causes = by_cause(&failed).into_iter().map(|(runs, cause)| format!("; {runs}: {cause}"));
        return Err(Error::Incomparable(format!(
            "{name}: there is no result in it{}",
            causes.collect::<String>()
        )));
    }
    Ok(Side { records, failed })
}

/// What distinguishes runs of a campaign: procedure and modifier, device, workers, frame sizes.
type Key = ((String, String), String, usize, Vec<usize>);

/// Which record of A is compared with which of B.
fn pairs<'a>(a: &'a [Record], b: &'a [Record]) -> Result<Vec<Pair<'a>>, Error> {
    if let ([a], [b]) = (a, b) {
        alike(a, b)?;
        return Ok(vec![Pair { a, b, nth: 0 }]);
    }
    // In campaigns devices and workers are what is varied, so they tell runs apart.
    let key = |record: &Record| -> Key {
        let of_procedure = (record.command.clone(), record.modifier().to_owned());
        (of_procedure, record.device().to_owned(), record.workers(), record.sizes_asked())
    };
    // A file may have a procedure several times, with other options: their order distinguishes them.
    let numbered = |records: &'a [Record]| {
        let mut counts = BTreeMap::new();
        let number = |record: &'a Record| {
            let count: &mut usize = counts.entry(key(record)).or_default();
            *count += 1;
            ((key(record), *count - 1), record)
        };
        records.iter().map(number).collect::<BTreeMap<_, &Record>>()
    };
    let (of_a, of_b) = (numbered(a), numbered(b));
    let only = |this: &BTreeMap<(Key, usize), &Record>, other: &BTreeMap<(Key, usize), &Record>| {
        this.keys().find(|key| !other.contains_key(*key)).map(|(((command, modifier), device, workers, sizes), nth)| {
            let again = if *nth > 0 { format!(" (run {} of these)", nth + 1) } else { String::new() };
            let modifier = with_modifier(modifier);
            format!("{command} of {device} with {workers} workers and frames of {sizes:?} bytes{modifier}{again}")
        })
    };
    if let Some(run) = only(&of_a, &of_b) {
        return Err(Error::Incomparable(format!("the second has no {run}")));
    }
    if let Some(run) = only(&of_b, &of_a) {
        return Err(Error::Incomparable(format!("the first has no {run}")));
    }
    let pair = |(key, a): (_, &'a Record)| Some(Pair { a, b: of_b.get(&key)?, nth: key.1 });
    let pairs: Vec<_> = of_a.into_iter().filter_map(pair).collect();
    pairs.iter().try_for_each(|pair| alike(pair.a, pair.b))?;
    Ok(pairs)
}

/// Refuses to compare what is not alike.
fn alike(a: &Record, b: &Record) -> Result<(), Error> {
    if a.command != b.command {
        return Err(Error::Incomparable(format!("the procedures differ: {} and {}", a.command, b.command)));
    }
    let (left, right) = (a.sizes_asked(), b.sizes_asked());
    if left != right {
        return Err(Error::Incomparable(format!("the frame sizes differ: {left:?} and {right:?} bytes")));
    }
    for (name, what, unsaid) in [
        ("profile", "the profiles", Value::Null),
        ("link", "the links' rates (--link)", Value::Null),
        ("one_way", "the directions (--one-way)", json!(false)),
        ("ipv6", "the address families (--ipv6)", json!(false)),
        ("rate", "the rates offered", Value::Null),
        ("seconds", "the lengths of the trials", Value::Null),
        ("trial_s", "the lengths of the trials (--trial)", Value::Null),
        ("stragglers_s", "the times for stragglers (--stragglers)", json!(2.0)),
    ] {
        // Records of before do not have all of these.
        let of = |record: &Record| match record.conditions.get(name) {
            Some(Value::Object(all)) => {
                all.clone().into_iter().filter(|(_, value)| !value.is_null()).collect()
            }
            other => other.unwrap_or(&unsaid).clone(),
        };
        let (left, right) = (of(a), of(b));
        if left != right {
            return Err(Error::Incomparable(format!("{what} differ: {left} and {right}")));
        }
    }
    let (left, right) = (asked(a), asked(b));
    if left != right {
        return Err(Error::Incomparable(format!("the demands on the procedure differ: {left} and {right}")));
    }
    let (left, right) = (modifiers(a), modifiers(b));
    if left != right {
        return Err(Error::Incomparable(format!(
            "what is changed about the frames differs: {} and {}",
            json!(left),
            json!(right)
        )));
    }
    Ok(())
}

/// What was asked of the procedure beyond what all are, goals among it.
fn asked(record: &Record) -> Value {
    let all = record.conditions.get("asked").and_then(Value::as_object);
    let mut all = all.cloned().unwrap_or_default();
    match mlr::goals(record) {
        goals if goals.is_empty() => {}
        goals => drop(all.insert("goals".to_owned(), goals.into())),
    }
    if all.is_empty() { Value::Null } else { Value::Object(all) }
}

/// What was changed about the frames. A command that sets filters is the device's own, and may be another.
fn modifiers(record: &Record) -> BTreeMap<&str, &Value> {
    let all = record.conditions.get("modifiers").and_then(Value::as_object).into_iter().flatten();
    let unchanged = [Value::Null, json!(false), json!([])];
    all.map(|(name, value)| (name.as_str(), value))
        .filter(|(name, value)| *name != "filter_command" && !unchanged.contains(value))
        .collect()
}

/// What differs and does not forbid the comparison.
fn notes(pairs: &[Pair<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    for Pair { a, b, .. } in pairs {
        let (left, right) = (a.workers().to_string(), b.workers().to_string());
        let (drives_a, drives_b) = (drivers(a), drivers(b));
        let own_core = |record: &Record| record.conditions.get("own_core").and_then(Value::as_bool);
        let (core_a, core_b) = (core(own_core(a)), core(own_core(b)));
        let number = |record: &Record, name| record.number(name).map_or(String::new(), |n| n.to_string());
        let (flows_a, flows_b) = (number(a, "flows"), number(b, "flows"));
        let (settle_a, settle_b) = (number(a, "settle_s"), number(b, "settle_s"));
        for (what, a, b) in [
            ("devices", a.device(), b.device()),
            ("numbers of workers", &left, &right),
            ("drivers of the tester's ports", &drives_a, &drives_b),
            ("tester's cores", core_a, core_b),
            ("numbers of flows", &flows_a, &flows_b),
            ("pauses between trials in seconds (--settle)", &settle_a, &settle_b),
            ("versions of Junctor", &a.version, &b.version),
            ("processors", a.machine["cpu"].as_str().unwrap_or(""), b.machine["cpu"].as_str().unwrap_or("")),
            (
                "kernels",
                a.machine["kernel"].as_str().unwrap_or(""),
                b.machine["kernel"].as_str().unwrap_or(""),
            ),
        ] {
            let note = format!("the {what} differ: {a} and {b}");
            if a != b && !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// What drives the tester's ports, each driver once.
fn drivers(record: &Record) -> String {
    let ports = record.conditions.get("ports").and_then(Value::as_array).into_iter().flatten();
    let drivers: BTreeSet<&str> = ports.filter_map(|port| port["driver"].as_str()).collect();
    drivers.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether the tester had a core to itself, in words.
fn core(own: Option<bool>) -> &'static str {
    match own {
        Some(true) => "its own",
        Some(false) => "one shared with the device",
        None => "not known",
    }
}

fn document(args: &Comparison, all: &[Compared<'_>], verdict: Verdict, mut notes: Vec<String>) -> Document {
    let interval = format!("{} % interval", args.confidence);
    let heads = ["quantity", "unit", "A", "B", "change", &interval, "p", "B is"];
    let origin = |head: &str| {
        if matches!(head, "quantity" | "unit" | "B is") { Origin::Name } else { Origin::Measured }
    };
    let columns: Vec<(&str, Origin)> = heads.into_iter().map(|head| (head, origin(head))).collect();
    let mut table = Table::new("means of the runs", &columns);
    for compared in all {
        table.row(row(compared));
    }
    notes.push(METHOD.to_owned());
    let section = Section { title: "Quantities".into(), tables: vec![table], ..Section::default() };
    Document {
        title: format!("B is {}", verdict.sentence()),
        subtitle: format!("A: {}. B: {}.", args.a.display(), args.b.display()),
        notes: vec![Note { class: "lacks", head: "What to know".into(), items: notes }],
        marks: false,
        sections: vec![section],
    }
}

/// How it is decided.
const METHOD: &str = "Welch's t-test on the runs of each quantity, p-values corrected by Holm. Runs of one invocation share its circumstances: \
what changes from one invocation to the next is not in the interval.";

fn row(compared: &Compared<'_>) -> Vec<Cell> {
    let percent = |share: f64| format!("{:+.2} %", 100.0 * share);
    let empty = || Cell::new("");
    let relative = |value: f64| match compared.a.mean {
        mean if mean != 0.0 => percent(value / mean.abs()),
        _ => digits(value),
    };
    let (change, interval, p) = match &compared.test {
        Some(test) => (
            Cell::new(relative(test.difference)),
            Cell::new(format!("{} to {}", relative(test.low), relative(test.high))),
            Cell::new(format!("{:.4}", compared.p_holm)),
        ),
        None => (Cell::new(relative(compared.b.mean - compared.a.mean)), empty(), empty()),
    };
    let mean = |summary: &tester::search::Summary| {
        Cell::new(format!("{:.4} ({} runs)", summary.mean, summary.count))
    };
    vec![
        Cell::new(compared.name.clone()),
        Cell::new(compared.quantity.unit.clone()),
        mean(&compared.a),
        mean(&compared.b),
        change,
        interval,
        p,
        Cell::new(
            compared.verdict.word().to_owned()
                + &compared.why.map(|why| format!(": {why}")).unwrap_or_default(),
        ),
    ]
}

fn object(
    args: &Comparison,
    all: &[Compared<'_>],
    verdict: Verdict,
    notes: &[String],
    lacking: &Lacking,
) -> Value {
    let side = |s: &tester::search::Summary, at_least: bool, limited: bool| {
        json!({
            "mean": s.mean, "stdev": s.stdev, "runs": s.count, "at_least": at_least, "tester_limited": limited,
        })
    };
    let quantities: Vec<Value> = all
        .iter()
        .map(|c| {
            let test = c.test.as_ref();
            json!({
                "name": c.name, "size": c.quantity.size, "unit": c.quantity.unit, "better": c.quantity.better,
                "a": side(&c.a, c.bounds.0, c.limited.0), "b": side(&c.b, c.bounds.1, c.limited.1),
                "difference": c.b.mean - c.a.mean,
                "low": test.map(|t| t.low), "high": test.map(|t| t.high), "p": test.map(|t| t.p),
                "p_holm": test.map(|_| c.p_holm), "verdict": c.verdict.word(), "why": c.why,
            })
        })
        .collect();
    json!({
        "command": "test compare", "version": env!("CARGO_PKG_VERSION"), "a": args.a, "b": args.b,
        "method": METHOD, "confidence": args.confidence / 100.0, "margin": args.margin / 100.0,
        "verdict": verdict.word(), "notes": notes, "lacking": { "a": lacking.a, "b": lacking.b },
        "quantities": quantities,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::record::Found;

    /// A trial of this device with frames of this size, at a rate.
    fn trial(device: &str, size: usize, rate: f64, received: f64) -> Record {
        let mut found = Found::of_size(size);
        found.note_runs("test.received_mpps".to_owned(), "Mpps", vec![received; 2]);
        let conditions = json!({ "device": device, "rate": rate });
        found.record("test trial", conditions.as_object().cloned().unwrap_or_else(Map::new))
    }

    #[test]
    fn each_run_of_a_campaign_stands_beside_its_like() {
        let campaign = |better: f64| {
            let mut all = Vec::new();
            for (device, size) in [("x", 64), ("x", 128), ("y", 64)] {
                all.push(trial(device, size, 1e6, 1.0));
                all.push(trial(device, size, 2e6, 2.0 * better));
            }
            all
        };
        let (a, b) = (campaign(1.0), campaign(1.5));
        let both = pairs(&a, &b).expect("they are alike");
        let all = pair::compare(&both, 0.95, 0.01);
        let told: Vec<_> = all.iter().map(|c| (c.name.as_str(), c.verdict)).collect();
        let same = |who| (who, Verdict::Same);
        let better = |who| (who, Verdict::Better);
        assert_eq!(
            told,
            [
                same("x, 1 worker, 64 bytes: test.received_mpps"),
                better("x, 1 worker, 64 bytes, run 2 of these: test.received_mpps"),
                same("x, 1 worker, 128 bytes: test.received_mpps"),
                better("x, 1 worker, 128 bytes, run 2 of these: test.received_mpps"),
                same("y, 1 worker, 64 bytes: test.received_mpps"),
                better("y, 1 worker, 64 bytes, run 2 of these: test.received_mpps"),
            ]
        );
        let missing = |left: &[Record], right: &[Record]| {
            pairs(left, right).err().map(|why| why.to_string()).unwrap_or_default()
        };
        let last = "test trial of y with 1 workers and frames of [64] bytes (run 2 of these)";
        assert_eq!(missing(&a, &b[..5]), format!("the second has no {last}"));
        assert_eq!(missing(&a[..5], &b), format!("the first has no {last}"));
        let mut other = campaign(1.0);
        other.swap(0, 1);
        assert!(missing(&a, &other).starts_with("the rates offered differ: 1000000.0 and 2000000.0"));
    }
}
