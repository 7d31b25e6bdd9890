// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of each demand in many runs together.
//!
//! Most demands are on every run: one that misses it is reported. Some are on a suite, which is all runs of one device with one number of workers. It
//! has certain frame sizes, all of it is done without modifiers and repeated under each, and some of it is in bursts. Of these each run does its
//! part, and what it misses by itself is no deviation if others make up for it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tester::search::mixes::BURSTS;

use super::{Clause, Record};

/// One demand, whether all runs together have met it, and which have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) section: String,
    pub(crate) level: String,
    pub(crate) demand: String,
    pub(crate) met: bool,
    /// What was done instead, and where, in short.
    pub(crate) deviation: Option<String>,
    /// The runs that met it, or did their part of it, as campaigns call them.
    pub(crate) met_in: Vec<String>,
    pub(crate) deviated_in: Vec<Deviated>,
}

/// What some runs did instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deviated {
    pub(crate) how: String,
    pub(crate) runs: Vec<String>,
}

/// How a campaign calls a run.
pub(crate) fn run_name(
    test: &str,
    options: &str,
    device: &str,
    sizes: &[usize],
    cores: usize,
    modifier: &str,
) -> String {
    let test = format!("{test} {options}");
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    let modifier = with_modifier(modifier);
    format!("{}, {device}, {} bytes, {cores}{modifier}", test.trim_end(), sizes.join(", "))
}

/// How a run under a modifier is called, after a comma; nothing where a campaign names none.
pub(crate) fn with_modifier(name: &str) -> String {
    match name {
        "" => String::new(),
        "none" => ", without modifier".to_owned(),
        name => format!(", with {name}"),
    }
}

/// How a demand on a suite is met by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Its runs have these frame sizes together, under each modifier.
    Sizes,
    /// What is done under modifiers was done without before.
    Unmodified,
    /// What is done without modifiers is done again under each of four.
    Repeated,
    /// Each of its tests is done so once.
    EachTest,
    /// Some are at a steady rate, and some in bursts.
    Bursts,
    /// All of RFC 2544's bursts are among those of its runs.
    AllBursts,
}

/// Demands on a suite, but for those on frame sizes: section, and what the demand has in its words.
const SUITE: [(&str, &str, Rule); 8] = [
    ("RFC 2544 11", "first", Rule::Unmodified),
    ("RFC 2544 11", "repeated", Rule::Repeated),
    ("RFC 2544 12", "256 networks", Rule::EachTest),
    ("RFC 2544 14", "both directions", Rule::EachTest),
    ("RFC 5180 5.4", "both directions", Rule::EachTest),
    ("RFC 2544 26.2", "new destination network", Rule::EachTest),
    ("RFC 2544 21", "steady", Rule::Bursts),
    ("RFC 2544 21", "16, 64, 256 and 1024", Rule::AllBursts),
];

/// Sections whose demands are on runs under a modifier (RFC 2544 11): they show that there was one.
const MODIFIERS: [(&str, &str); 4] = [
    ("broadcast frames", "RFC 2544 11.1"),
    ("management frames", "RFC 2544 11.2"),
    ("routing updates", "RFC 2544 11.3"),
    ("filters", "RFC 2544 11.4"),
];

/// Where RFC 2544 asks for all of its tests.
const ALL_TESTS: &str = "RFC 2544 3";

/// The tests of RFC 2544 26, by its sections.
const TESTS: [(&str, &str); 6] = [
    ("throughput", "RFC 2544 26.1"),
    ("latency", "RFC 2544 26.2"),
    ("frame loss rate", "RFC 2544 26.3"),
    ("back-to-back frames", "RFC 2544 26.4"),
    ("system recovery", "RFC 2544 26.5"),
    ("reset", "RFC 2544 26.6"),
];

/// A run, and what its ledger says of the demand in question.
type Said<'a> = (&'a Record, &'a Clause);

/// What became of a demand in some runs: nothing if they met it, else what they did instead.
type Verdict<'a> = (Option<String>, Vec<&'a Record>);

/// What became of each demand in all these runs together. One that came to no trial takes nothing from the others.
pub(crate) fn join(records: &[Record]) -> Vec<Joined> {
    let none = !records.iter().any(Record::has_tried);
    let runs: Vec<&Record> = records.iter().filter(|run| none || run.has_tried()).collect();
    let mut demands: Vec<&Clause> = Vec::new();
    // What a single run says of the tests that it left out is of no weight.
    for clause in runs.iter().flat_map(|run| &run.ledger).filter(|clause| clause.section != ALL_TESTS) {
        if !demands.iter().any(|known| known.is_same(clause)) {
            demands.push(clause);
        }
    }
    all_tests(&runs).into_iter().chain(demands.into_iter().map(|demand| one(demand, &runs))).collect()
}

/// One demand.
fn one(demand: &Clause, runs: &[&Record]) -> Joined {
    let said = |run| {
        let record: &Record = run;
        record.ledger.iter().find(|clause| clause.is_same(demand)).map(|clause| (record, clause))
    };
    let all: Vec<Said<'_>> = runs.iter().copied().filter_map(said).collect();
    let verdicts: Vec<Verdict<'_>> = match Rule::of(demand) {
        None => all.iter().map(own).collect(),
        Some(rule) => {
            groups(&all, |(run, _)| suite(run)).iter().flat_map(|suite| rule.judge(suite)).collect()
        }
    };
    let all: Vec<&Record> = all.iter().map(|(run, _)| *run).collect();
    told([&demand.section, &demand.level, &demand.demand], verdicts, &all)
}

/// Whether all tests of RFC 2544 were done with each device and number of workers, where any was (RFC 2544 3).
fn all_tests(runs: &[&Record]) -> Option<Joined> {
    let all: Vec<&Record> = runs.iter().filter(|run| run.procedure() == "rfc2544").copied().collect();
    let verdict = |runs| -> Verdict<'_> {
        let runs: Vec<&Record> = runs;
        let missing = TESTS.iter().filter(|(_, section)| !runs.iter().any(|run| has_section(run, section)));
        let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
        ((!missing.is_empty()).then(|| format!("not done: {}", missing.join(", "))), runs)
    };
    let verdicts = groups(&all, |run| suite(run)).into_iter().map(verdict).collect();
    let usual = "all tests are carried out: throughput, latency, loss, bursts, recovery and reset";
    // As runs have it, if they tell of it.
    let known = all.iter().flat_map(|run| &run.ledger).find(|clause| clause.section == ALL_TESTS);
    let (level, demand) = known.map_or(("", usual), |clause| (&*clause.level, &*clause.demand));
    (!all.is_empty()).then(|| told([ALL_TESTS, level, demand], verdicts, &all))
}

/// As the run by itself has it.
fn own<'a>((run, clause): &Said<'a>) -> Verdict<'a> {
    (clause.deviation.clone(), vec![run])
}

impl Rule {
    fn of(clause: &Clause) -> Option<Rule> {
        let fits = |(section, word, _): &&(&str, &str, Rule)| {
            clause.section == *section && clause.demand.contains(word)
        };
        match &clause.sizes {
            Some(_) => Some(Rule::Sizes),
            None => SUITE.iter().find(fits).map(|(.., rule)| *rule),
        }
    }

    /// What became of a demand in the runs of one suite.
    fn judge<'a>(self, suite: &[Said<'a>]) -> Vec<Verdict<'a>> {
        let runs = |some: &[Said<'a>]| some.iter().map(|(run, _)| *run).collect::<Vec<_>>();
        match self {
            Rule::Sizes => {
                let of = |(run, _): &Said<'_>| {
                    let parts = [run.command.as_str(), run.options(), run.modifier()];
                    parts.map(str::to_owned)
                };
                let joined = |group: Vec<Said<'a>>| {
                    let mut clause = group[0].1.clone();
                    group.iter().skip(1).for_each(|(_, other)| clause.join(other));
                    (clause.deviation, runs(&group))
                };
                groups(suite, of).into_iter().map(joined).collect()
            }
            Rule::Unmodified => unmodified(suite),
            Rule::Repeated => repeated(suite),
            Rule::EachTest => groups(suite, |(run, _)| test(run)).iter().flat_map(|one| any(one)).collect(),
            Rule::Bursts => {
                let is_steady = |(run, _): &Said<'_>| modifiers(run).all(|(name, _)| name != "burst");
                let bursty = suite.iter().any(|(run, _)| !bursts(run).is_empty());
                let both = bursty && suite.iter().any(is_steady);
                if both { vec![(None, runs(suite))] } else { any(suite) }
            }
            Rule::AllBursts => {
                let all: BTreeSet<u64> = suite.iter().flat_map(|(run, _)| bursts(run)).collect();
                let are_all = BURSTS.iter().all(|burst| all.contains(burst));
                if are_all { vec![(None, runs(suite))] } else { any(suite) }
            }
        }
    }
}

/// Met by those that met it, if there are any; else missed by all.
fn any<'a>(suite: &[Said<'a>]) -> Vec<Verdict<'a>> {
    let met: Vec<Verdict<'_>> = suite.iter().filter(|(_, clause)| clause.met).map(own).collect();
    if met.is_empty() { suite.iter().map(own).collect() } else { met }
}

/// Whether what was done under modifiers was done without before.
fn unmodified<'a>(suite: &[Said<'a>]) -> Vec<Verdict<'a>> {
    let (plain, modified): (Vec<Said<'a>>, Vec<_>) = suite.iter().partition(|(_, clause)| clause.met);
    let before = |run: &Record| {
        plain.iter().map(|(plain, _)| *plain).filter(|plain| test(plain) == test(run)).collect::<Vec<_>>()
    };
    let verdict = |(run, _): &Said<'a>| match &before(run)[..] {
        [] => Some((Some("not done without modifiers".to_owned()), vec![*run])),
        // Both are as RFC 3339 has times, to the second.
        all if all.iter().all(|plain| plain.started > run.started) => {
            Some((Some("done under a modifier before it was done without".to_owned()), vec![*run]))
        }
        _ => None,
    };
    let missed = modified.iter().filter_map(verdict).collect::<Vec<_>>();
    plain.iter().map(own).chain(missed).collect()
}

/// Whether each test was repeated under each of RFC 2544's modifiers. Runs under other modifiers only are outside the suite.
fn repeated<'a>(suite: &[Said<'a>]) -> Vec<Verdict<'a>> {
    let is_under =
        |(run, clause): &Said<'_>| clause.met || MODIFIERS.iter().any(|(_, s)| has_section(run, s));
    let runs = |some: &[Said<'a>]| some.iter().map(|(run, _)| *run).collect::<Vec<_>>();
    let mut verdicts = Vec::new();
    for test in groups(suite, |(run, _)| test(run)) {
        let (under, others): (Vec<Said<'a>>, Vec<_>) = test.into_iter().partition(is_under);
        let plain: Vec<Said<'a>> = others.into_iter().filter(|(run, _)| !is_modified(run)).collect();
        let has = |section: &str| under.iter().any(|(run, clause)| clause.met || has_section(run, section));
        let missing: Vec<&str> =
            MODIFIERS.iter().filter(|(_, section)| !has(section)).map(|(name, _)| *name).collect();
        let of = if plain.is_empty() { &under } else { &plain };
        if !missing.is_empty() && !of.is_empty() {
            verdicts.push((Some(format!("not with {}", missing.join(", "))), runs(of)));
        }
        if !under.is_empty() {
            verdicts.push((None, runs(&under)));
        }
    }
    if verdicts.is_empty() { any(suite) } else { verdicts }
}

/// What distinguishes suites.
fn suite(run: &Record) -> (String, usize) {
    (run.device().to_owned(), run.workers())
}

/// The test that a run does, without its modifiers.
fn test(run: &Record) -> (String, String, Vec<usize>) {
    (run.command.clone(), without_modifiers(run.options()), run.sizes_asked())
}

/// Options that are modifiers, and whether a value follows.
const OPTIONS: [(&str, bool); 10] = [
    ("--beside", true),
    ("--burst", true),
    ("--bursts", false),
    ("--each-modifier", false),
    ("--filters", false),
    ("--flows-per-port", true),
    ("--mesh", false),
    ("--networks", true),
    ("--one-way", false),
    ("--random-ports", false),
];

/// A procedure's options without those.
fn without_modifiers(options: &str) -> String {
    let mut words = options.split(' ');
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        match OPTIONS.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if name == word => drop(words.next()),
            Some(_) => {}
            None => left.push(word),
        }
    }
    left.join(" ")
}

/// What was changed about a run's frames.
fn modifiers(run: &Record) -> impl Iterator<Item = (&String, &Value)> {
    let all = run.conditions.get("modifiers").and_then(Value::as_object).into_iter().flatten();
    let unchanged = [Value::Null, Value::Bool(false), Value::Array(Vec::new())];
    all.filter(move |(_, value)| !unchanged.contains(value))
}

fn is_modified(run: &Record) -> bool {
    modifiers(run).next().is_some()
}

/// Frames in the bursts of a run.
fn bursts(run: &Record) -> Vec<u64> {
    let of = |name: &str| modifiers(run).find(|(known, _)| *known == name).map(|(_, value)| value);
    let list = of("bursts").and_then(Value::as_array).into_iter().flatten();
    list.chain(of("burst")).filter_map(Value::as_u64).collect()
}

/// Whether a run's ledger has a section, or a part of it.
fn has_section(run: &Record, section: &str) -> bool {
    let is =
        |told: &str| told.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    run.ledger.iter().any(|clause| is(&clause.section))
}

/// Items that have something in common, in the order in which they first come.
fn groups<T: Copy, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(*item),
            None => groups.push((key, vec![*item])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// So many ways in which a demand was missed are reported in short.
const WAYS: usize = 4;

/// A demand and its verdicts, of all runs that it is on.
fn told([section, level, demand]: [&str; 3], verdicts: Vec<Verdict<'_>>, all: &[&Record]) -> Joined {
    let met_in = verdicts.iter().filter(|(how, _)| how.is_none()).flat_map(|(_, runs)| names(runs)).collect();
    let missed = missed(verdicts);
    let one = |(how, runs): &(String, Vec<&Record>)| match place(runs, all) {
        place if place.is_empty() => how.clone(),
        place => format!("{how}: {place}"),
    };
    let mut short: Vec<String> = missed.iter().take(WAYS).map(one).collect();
    if missed.len() > WAYS {
        short.push(format!("and in {} other ways, which the JSON lists", missed.len() - WAYS));
    }
    Joined {
        section: section.to_owned(),
        level: level.to_owned(),
        demand: demand.to_owned(),
        met: missed.is_empty(),
        deviation: (!missed.is_empty()).then(|| short.join("; ")),
        met_in,
        deviated_in: missed.into_iter().map(|(how, runs)| Deviated { how, runs: names(&runs) }).collect(),
    }
}

fn names(runs: &[&Record]) -> Vec<String> {
    runs.iter().map(|run| run.run_name()).collect()
}

/// The ways in which a demand was missed, that of most runs first. What a run says in several parts others may say in part; parts of the
/// same runs stay together.
fn missed(verdicts: Vec<Verdict<'_>>) -> Vec<(String, Vec<&Record>)> {
    let mut parts: Vec<(String, Vec<&Record>)> = Vec::new();
    for (how, runs) in verdicts.into_iter().filter_map(|(how, runs)| Some((how?, runs))) {
        for part in how.split("; ") {
            match parts.iter_mut().find(|(known, _)| known == part) {
                Some((_, others)) => others.extend(&runs),
                None => parts.push((part.to_owned(), runs.clone())),
            }
        }
    }
    let are_same = |a: &[&Record], b: &[&Record]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| std::ptr::eq(*a, *b))
    };
    let mut ways: Vec<(String, Vec<&Record>)> = Vec::new();
    for (part, runs) in parts {
        match ways.iter_mut().find(|(_, others)| are_same(others, &runs)) {
            Some((how, _)) => *how += &format!("; {part}"),
            None => ways.push((part, runs)),
        }
    }
    ways.sort_by_key(|(_, runs)| std::cmp::Reverse(runs.len()));
    ways
}

/// So many runs are named one by one.
const NAMED: usize = 4;

/// What distinguishes runs of a campaign.
const AXES: [fn(&Record) -> String; 5] = [
    |run| format!("{} {}", run.procedure(), run.options()).trim_end().to_owned(),
    |run| run.device().to_owned(),
    |run| run.sizes_asked().iter().map(|size| format!("{size} bytes")).collect::<Vec<_>>().join(", "),
    |run| if run.workers() == 1 { "1 core".to_owned() } else { format!("{} cores", run.workers()) },
    |run| with_modifier(run.modifier()).trim_start_matches(", ").to_owned(),
];

/// Which of all runs these are, in short: by what distinguishes them from the others, if that does, else by name. Nothing if they are all.
fn place(some: &[&Record], all: &[&Record]) -> String {
    let values = AXES.map(|axis| -> Vec<String> {
        groups(some, |run| axis(run)).iter().filter_map(|group| group.first().map(|run| axis(run))).collect()
    });
    let tell = |axes: &[usize]| {
        let is_such = |run: &&&Record| axes.iter().all(|axis| values[*axis].contains(&AXES[*axis](run)));
        all.iter().filter(is_such).count() == some.len()
    };
    let mut axes: Vec<usize> = (0..AXES.len()).collect();
    if tell(&axes) {
        // The axis with most values is left out first, as long as the rest distinguishes the runs.
        let mut order = axes.clone();
        order.sort_by_key(|axis| std::cmp::Reverse(values[*axis].len()));
        for axis in order {
            let others: Vec<usize> = axes.iter().copied().filter(|other| *other != axis).collect();
            if tell(&others) {
                axes = others;
            }
        }
        let parts: Vec<String> = axes.iter().map(|axis| values[*axis].join(" or ")).collect();
        return parts.join(", ");
    }
    let named = names(&some[..some.len().min(NAMED)]).join("; ");
    match some.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tester::search::setup::{Beside, ETHERNET_SIZES, Filters, Setup, ledger};
    use tester::search::{delay, ipv6};

    use super::super::Found;
    use super::*;

    /// Other people write the demands: each rule is to find its own among them, and only that.
    #[test]
    fn each_rule_is_that_of_one_demand() {
        let mut found = Found::default();
        found.deviate(&ledger(&Setup { bursts: vec![16], ..Setup::default() }));
        let mut all = found.record("test rfc2544", serde_json::Map::new()).ledger;
        all.extend(five_180());
        let mut found = Found::default();
        found.deviate(&delay::apart_ledger(None));
        all.extend(found.record("test rfc2544", serde_json::Map::new()).ledger);
        for (section, word, rule) in SUITE {
            let of = all.iter().filter(|clause| Rule::of(clause) == Some(rule) && clause.section == section);
            assert_eq!(of.count(), 1, "{section}: {word}");
        }
    }

    fn five_180() -> Vec<Clause> {
        let mut found = Found::default();
        found.deviate(&ipv6::ledger(&ipv6::Done::default()));
        found.record("test rfc5180", serde_json::Map::new()).ledger
    }

    /// A run at a time in seconds, under the modifier of this name.
    fn run(at: usize, size: usize, modifier: &str) -> Record {
        let beside = match modifier {
            "broadcast" => vec![Beside::Broadcast],
            "management" => vec![Beside::Management],
            "routing" => vec![Beside::Routing],
            _ => Vec::new(),
        };
        let setup = Setup {
            sizes: vec![size],
            modified: !beside.is_empty(),
            filters: (modifier == "filters").then(Filters::default),
            networks: (modifier == "networks").then_some(256),
            bursts: if modifier == "burst=16" { vec![16] } else { Vec::new() },
            steady: modifier != "burst=16",
            senders: 2,
            beside,
            ..Setup::default()
        };
        let mut found = Found::of_size(size);
        found.deviate(&ledger(&setup));
        let told = match modifier {
            "none" => json!({}),
            "burst=16" => json!({ "burst": 16 }),
            name => json!({ name: true }),
        };
        let conditions = json!({ "device": "x", "sizes": [size], "modifier": modifier, "modifiers": told });
        let conditions = conditions.as_object().cloned().unwrap_or_default();
        let started = format!("2026-01-01T00:00:{at:02}Z");
        Record { started, ..found.record("test rfc2544", conditions) }
    }

    fn runs(sizes: &[usize], modifiers: &[&str]) -> Vec<Record> {
        let all = modifiers.iter().flat_map(|modifier| sizes.iter().map(move |size| (*size, *modifier)));
        all.enumerate().map(|(at, (size, modifier))| run(at, size, modifier)).collect()
    }

    fn of(records: &[Record], section: &str, word: &str) -> Joined {
        let all = join(records);
        let is = |clause: &&Joined| clause.section == section && clause.demand.contains(word);
        all.iter().find(is).cloned().expect("a demand")
    }

    #[test]
    fn runs_under_each_modifier_meet_together_what_none_of_them_does() {
        let four = ["none", "broadcast", "management", "routing", "filters"];
        let all = runs(&[64, 128], &four);
        let (first, repeated) = (of(&all, "RFC 2544 11", "first"), of(&all, "RFC 2544 11", "repeated"));
        assert_eq!((first.met, repeated.met), (true, true), "{first:?} {repeated:?}");
        assert_eq!(repeated.met_in.len(), 8);
        assert_eq!(first.met_in.len(), 4, "filters are measured without any first");
        let name = "rfc2544, x, 64 bytes, 1 core, with broadcast".to_owned();
        assert!(repeated.met_in.contains(&name), "{repeated:?}");
        let without = &all[..9];
        let repeated = of(without, "RFC 2544 11", "repeated");
        assert_eq!(
            repeated.deviation.as_deref(),
            Some("not with filters: 128 bytes, without modifier"),
            "{repeated:?}"
        );
        let missed = "rfc2544, x, 128 bytes, 1 core, without modifier";
        assert_eq!(repeated.deviated_in[0].runs, [missed]);
        let late = runs(&[64], &["broadcast", "none"]);
        let first = of(&late, "RFC 2544 11", "first");
        let told = "done under a modifier before it was done without: with broadcast";
        assert_eq!((first.met, first.deviation.as_deref()), (false, Some(told)));
        let first = of(&runs(&[64], &["broadcast"]), "RFC 2544 11", "first");
        assert_eq!(first.deviation.as_deref(), Some("not done without modifiers"));
    }

    #[test]
    fn networks_bursts_and_sizes_are_those_of_all_runs() {
        let all = runs(&ETHERNET_SIZES, &["none", "networks", "burst=16"]);
        assert!(of(&all, "RFC 2544 12", "256").met && of(&all, "RFC 2544 21", "steady").met);
        assert!(of(&all, "RFC 2544 9.1", "frames of").met);
        assert_eq!(of(&all, "RFC 2544 21", "1024").deviation.as_deref(), Some("in bursts of 16 only"));
        let few = [&all[..7], &all[7..13]].concat();
        let networks = of(&few, "RFC 2544 12", "256");
        assert!(
            networks.deviation.as_deref().is_some_and(|why| why.contains(": 1518 bytes")),
            "{networks:?}"
        );
        let sizes = of(&few, "RFC 2544 9.1", "frames of");
        assert_eq!(sizes.deviation.as_deref(), Some("not measured: 1518 bytes: with networks"));
        assert_eq!((sizes.met_in.len(), sizes.deviated_in[0].runs.len()), (7, 6));
        // All runs are reported where each of them misses something; some are named where nothing else distinguishes them.
        let told = of(&few, "RFC 2544 20", "rate").deviation;
        assert!(told.is_some_and(|why| !why.contains("64 bytes")));
    }

    #[test]
    fn all_tests_are_asked_of_each_device() {
        let mut all = runs(&[64], &["none"]);
        let told = of(&all, "RFC 2544 3", "all tests");
        assert!(told.deviation.is_some_and(|why| why.starts_with("not done: throughput, latency, ")));
        for (_, section) in TESTS {
            let section = format!("{section}{}", if section.ends_with('2') { ".1" } else { "" });
            let clause = Clause { section, ..all[0].ledger[0].clone() };
            all[0].ledger.push(clause);
        }
        assert!(of(&all, "RFC 2544 3", "all tests").met);
        // A run by itself may say that it is not all.
        let mut alone =
            Clause { section: ALL_TESTS.to_owned(), level: "SHOULD".to_owned(), ..all[0].ledger[0].clone() };
        alone.deviate("a run without reset");
        all[0].ledger.push(alone.clone());
        let told: Vec<Joined> = join(&all).into_iter().filter(|clause| clause.section == ALL_TESTS).collect();
        let [told] = &told[..] else { panic!("{told:?}") };
        assert_eq!((told.met, &told.level, &told.demand), (true, &alone.level, &alone.demand));
        all[0].command = "test mlr".to_owned();
        assert!(join(&all).iter().all(|clause| clause.section != "RFC 2544 3"));
    }

    #[test]
    fn modifiers_among_options_are_told_from_others() {
        for (options, left) in [
            ("--loss --beside broadcast --repeat 3", "--loss --repeat 3"),
            ("--beside=broadcast,routing --only reset", "--only reset"),
            ("--filters", ""),
            ("--bursts=16 --networks 4 --mesh --at 1k", "--at 1k"),
        ] {
            assert_eq!(without_modifiers(options), left);
        }
    }
}
