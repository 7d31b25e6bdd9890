// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities of two records side by side, and what that says of the second.

use std::collections::BTreeSet;

use tester::search::Summary;

use super::super::record::{Better, Quantity, Record, with_modifier};
use super::welch::{self, Test};

/// What is said of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    Worse,
    /// No difference that counts was found.
    Same,
    /// Better in some quantities, worse in others.
    Mixed,
    /// Nothing can be said.
    Unknown,
    /// What is there is not worse, but it is not all that A has.
    Incomplete,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "same",
            Verdict::Mixed => "mixed",
            Verdict::Unknown => "unknown",
            Verdict::Incomplete => "incomplete",
        }
    }

    /// How it goes on after "B is".
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Verdict::Better => "better than A",
            Verdict::Worse => "worse than A",
            Verdict::Same => "not told apart from A",
            Verdict::Mixed => "better than A in some quantities and worse in others",
            Verdict::Unknown => "perhaps better than A, perhaps worse: the runs do not tell",
            Verdict::Incomplete => "incomplete: it lacks what A has",
        }
    }
}

/// Two records that are compared.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) a: &'a Record,
    pub(super) b: &'a Record,
    /// Its number, from 0, among runs of one procedure, device and the like, which differ in other options.
    pub(super) nth: usize,
}

impl Pair<'_> {
    /// What distinguishes a quantity of it from the other pairs'.
    fn who(&self, quantity: &str) -> String {
        let workers = if self.b.workers() == 1 { "worker" } else { "workers" };
        let mut who = format!("{}, {} {workers}", self.b.device(), self.b.workers());
        if let [size] = self.b.sizes_asked()[..]
            && !quantity.ends_with(&format!(".{size}"))
        {
            who += &format!(", {size} bytes");
        }
        if !self.b.options().is_empty() {
            who += &format!(", {}", self.b.options());
        } else if self.nth > 0 {
            who += &format!(", run {} of these", self.nth + 1);
        }
        who + &with_modifier(self.b.modifier()) + ": "
    }
}

/// One quantity of both.
pub(super) struct Compared<'a> {
    /// B's.
    pub(super) quantity: &'a Quantity,
    /// Its name, with device and workers where there are several.
    pub(super) name: String,
    pub(super) a: Summary,
    pub(super) b: Summary,
    /// Nothing where there are too few runs.
    pub(super) test: Option<Test>,
    /// The p-value with regard to all the others.
    pub(super) p_holm: f64,
    pub(super) verdict: Verdict,
    /// Why it is unknown.
    pub(super) why: Option<&'static str>,
    /// Which of the two are only lower bounds.
    pub(super) bounds: (bool, bool),
    /// Which of the two are of another load than was asked for, by the tester's fault.
    pub(super) limited: (bool, bool),
}

/// Compares all quantities of which one value is better than another.
pub(super) fn compare<'a>(pairs: &[Pair<'a>], confidence: f64, margin: f64) -> Vec<Compared<'a>> {
    let mut all = Vec::new();
    for pair in pairs {
        let Pair { a, b, .. } = pair;
        for quantity in judged(b) {
            let same = |q: &&Quantity| settled(&q.name) == settled(&quantity.name);
            let Some(before) = a.results.iter().find(same) else { continue };
            let (Some(of_a), Some(of_b)) = (Summary::of(&before.values), Summary::of(&quantity.values))
            else {
                continue;
            };
            all.push(Compared {
                quantity,
                name: name(pairs, pair, &quantity.name),
                a: of_a,
                b: of_b,
                test: welch::test(&of_a, &of_b, confidence),
                p_holm: 1.0,
                verdict: Verdict::Unknown,
                why: None,
                bounds: (before.is_bound(), quantity.is_bound()),
                limited: (before.tester_limited, quantity.tester_limited),
            });
        }
    }
    let p: Vec<f64> = all.iter().filter_map(|c| Some(c.test?.p)).collect();
    let mut corrected = welch::holm(&p).into_iter();
    for compared in &mut all {
        if compared.test.is_some() {
            compared.p_holm = corrected.next().unwrap_or(1.0);
        }
        compared.decide(1.0 - confidence, margin);
    }
    all
}

/// The quantities of which one value is better than another.
fn judged(record: &Record) -> impl Iterator<Item = &Quantity> {
    record.results.iter().filter(|q| q.better.is_some() && !is_derived(&q.name))
}

/// A quantity's name, with what distinguishes its pair from others, if there are any.
fn name(pairs: &[Pair<'_>], pair: &Pair<'_>, quantity: &str) -> String {
    if pairs.len() > 1 { pair.who(quantity) + quantity } else { quantity.to_owned() }
}

/// What one side has and the other has not.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// Quantities that A lacks.
    pub(super) a: Vec<String>,
    /// Quantities that B lacks.
    pub(super) b: Vec<String>,
    /// Why not all was measured.
    causes_a: Vec<String>,
    causes_b: Vec<String>,
    /// B failed where A did not.
    has_failed: bool,
}

impl Lacking {
    pub(super) fn of(pairs: &[Pair<'_>]) -> Lacking {
        let mut all = Lacking::default();
        for pair in pairs {
            let Pair { a, b, .. } = pair;
            let missing = |has: &Record, lacks: &Record| {
                let names: BTreeSet<String> = judged(lacks).map(|q| settled(&q.name)).collect();
                let missing = judged(has).filter(|q| !names.contains(&settled(&q.name)));
                missing.map(|q| name(pairs, pair, &q.name)).collect::<Vec<_>>()
            };
            all.a.extend(missing(b, a));
            all.b.extend(missing(a, b));
            let causes = |record: &Record| {
                Some(record.causes())
                    .filter(|causes| !causes.is_empty())
                    .map(|causes| name(pairs, pair, &causes))
            };
            all.causes_a.extend(causes(a));
            all.causes_b.extend(causes(b));
            all.has_failed |= a.invalid.is_empty() && !b.invalid.is_empty();
        }
        all
    }

    /// What is said of B, in view of this.
    pub(super) fn judge(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Better | Verdict::Same | Verdict::Unknown if self.has_failed || !self.b.is_empty() => {
                Verdict::Incomplete
            }
            verdict => verdict,
        }
    }

    /// For people.
    pub(super) fn notes(&self) -> Vec<String> {
        let causes = [("A", &self.causes_a), ("B", &self.causes_b)].into_iter();
        let causes = causes.flat_map(|(side, causes)| {
            causes.iter().map(move |cause| format!("{side}: not all was measured: {cause}"))
        });
        let missing =
            [("B", "A", &self.b), ("A", "B", &self.a)].into_iter().filter(|(.., names)| !names.is_empty());
        let missing =
            missing.map(|(lacks, has, names)| format!("{lacks} lacks what {has} has: {}", names.join(", ")));
        causes.chain(missing).collect()
    }
}

/// Whether this only says again what the values of another quantity say: an average, or the bounds between which a rate was found.
fn is_derived(name: &str) -> bool {
    [".average.", ".lower_bound_mpps.", ".upper_bound_mpps."].iter().any(|part| name.contains(part))
}

/// The name, independent of what limited it.
fn settled(name: &str) -> String {
    name.replace(".reached_mpps.", ".throughput_mpps.")
}

impl Compared<'_> {
    fn decide(&mut self, significance: f64, margin: f64) {
        match self.limited {
            (false, false) => {}
            (true, false) => {
                return self.give_up("A's is tester-limited: of another load than was asked for");
            }
            (false, true) => {
                return self.give_up("B's is tester-limited: of another load than was asked for");
            }
            (true, true) => {
                return self.give_up("both are tester-limited: of other loads than were asked for");
            }
        }
        let Some(test) = self.test else {
            return self.give_up("one run on a side; repeat the test with --repeat 5");
        };
        let counts = test.difference.abs() > margin * self.a.mean.abs() && self.p_holm < significance;
        let more =
            if self.quantity.better == Some(Better::Higher) { test.difference } else { -test.difference };
        let tester = "the tester, or the most that was tried, was the limit; the device may do more";
        self.verdict = match self.bounds {
            (true, true) => return self.give_up(tester),
            // A lower bound of B's above A says enough, and so does one of A's above B.
            (false, true) if !(counts && more > 0.0) => return self.give_up(tester),
            (true, false) if !(counts && more < 0.0) => return self.give_up(tester),
            _ if !counts => Verdict::Same,
            _ if more > 0.0 => Verdict::Better,
            _ => Verdict::Worse,
        };
    }

    fn give_up(&mut self, why: &'static str) {
        (self.verdict, self.why) = (Verdict::Unknown, Some(why));
    }
}

/// What all quantities say together.
pub(super) fn overall(all: &[Compared<'_>]) -> Verdict {
    let any = |verdict| all.iter().any(|c| c.verdict == verdict);
    match (any(Verdict::Better), any(Verdict::Worse), any(Verdict::Same)) {
        (true, true, _) => Verdict::Mixed,
        (true, false, _) => Verdict::Better,
        (false, true, _) => Verdict::Worse,
        (false, false, true) => Verdict::Same,
        (false, false, false) => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::super::record::Found;
    use super::*;

    fn record(name: &str, unit: &str, values: &[f64]) -> Record {
        let mut found = Found::of_size(64);
        found.note_runs(format!("test.{name}.64"), unit, values.to_vec());
        found.record("test rfc2544", Map::new())
    }

    fn verdict(a: (&str, &str, &[f64]), b: (&str, &str, &[f64])) -> Verdict {
        let (a, b) = (record(a.0, a.1, a.2), record(b.0, b.1, b.2));
        overall(&compare(&[Pair { a: &a, b: &b, nth: 0 }], 0.95, 0.01))
    }

    #[test]
    fn what_b_lacks_is_named_and_b_is_not_called_as_good() {
        let with = |names: &[&str], cause: Option<&str>| {
            let mut found = Found::of_size(64);
            for name in names {
                found.note_runs(format!("test.{name}.64"), "us", vec![1.0, 1.0]);
            }
            cause.into_iter().for_each(|cause| found.unmeasured(cause.to_owned()));
            found.record("test rfc2544", Map::new())
        };
        let all = with(&["rfc2544.latency_us.p50", "rfc2544.latency_us.max"], None);
        let few = with(&["rfc2544.latency_us.p50", "rfc2544.latency_us.average"], None);
        let failed = with(&["rfc2544.latency_us.p50"], Some("the link is down"));
        let told = |a: &Record, b: &Record| {
            let pairs = [Pair { a, b, nth: 0 }];
            let lacking = Lacking::of(&pairs);
            (lacking.judge(overall(&compare(&pairs, 0.95, 0.01))), lacking.notes().join("|"))
        };
        let lacks = "B lacks what A has: test.rfc2544.latency_us.max.64";
        assert_eq!(told(&all, &few), (Verdict::Incomplete, lacks.to_owned()));
        assert_eq!(told(&few, &all), (Verdict::Same, lacks.replace("B lacks what A", "A lacks what B")));
        let cause = "B: not all was measured: 64 bytes: the link is down";
        assert_eq!(told(&few, &failed), (Verdict::Incomplete, cause.to_owned()));
        assert_eq!(told(&all, &failed).1, format!("{cause}|{lacks}"));
        let both = told(&failed, &failed);
        assert_eq!((both.0, both.1.contains("A: not all was measured")), (Verdict::Same, true));
        assert_eq!(Lacking { has_failed: true, ..Lacking::default() }.judge(Verdict::Worse), Verdict::Worse);
    }

    #[test]
    fn what_is_of_another_load_decides_nothing() {
        let of = |limited: bool, values: &[f64]| {
            let mut found = Found::of_size(64);
            found.note_runs("test.rfc2544.latency_us.p50.64".to_owned(), "us", values.to_vec());
            if limited {
                found.limited("test.rfc2544.latency_us");
            }
            found.record("test rfc2544", Map::new())
        };
        let (low, high) = (&[1.0, 1.01, 1.02, 0.99][..], &[1.2, 1.21, 1.19, 1.2][..]);
        for (a, b, wanted, says) in [
            (false, false, Verdict::Worse, None),
            (true, false, Verdict::Unknown, Some("A's is tester-limited")),
            (false, true, Verdict::Unknown, Some("B's is tester-limited")),
            (true, true, Verdict::Unknown, Some("both are tester-limited")),
        ] {
            let (left, right) = (of(a, low), of(b, high));
            let all = compare(&[Pair { a: &left, b: &right, nth: 0 }], 0.95, 0.01);
            let [one] = &all[..] else { panic!("{}", all.len()) };
            assert_eq!((one.verdict, one.why.is_some()), (wanted, says.is_some()));
            assert!(says.is_none_or(|says| one.why.is_some_and(|why| why.starts_with(says))));
        }
    }

    #[test]
    fn verdicts() {
        let (rate, reached, us) =
            ("rfc2544.throughput_mpps", "rfc2544.reached_mpps", "rfc2544.latency_us.p50");
        let (low, high) = (&[1.0, 1.01, 1.02, 0.99][..], &[1.2, 1.21, 1.19, 1.2][..]);
        for (a, b, wanted) in [
            ((rate, "Mpps", low), (rate, "Mpps", high), Verdict::Better),
            ((rate, "Mpps", high), (rate, "Mpps", low), Verdict::Worse),
            ((rate, "Mpps", low), (rate, "Mpps", low), Verdict::Same),
            ((us, "us", low), (us, "us", high), Verdict::Worse),
            ((us, "us", high), (us, "us", low), Verdict::Better),
            // One run says nothing, and less than the margin counts for nothing.
            ((rate, "Mpps", &low[..1]), (rate, "Mpps", high), Verdict::Unknown),
            ((rate, "Mpps", &[1.0, 1.0]), (rate, "Mpps", &[1.005, 1.005]), Verdict::Same),
            ((rate, "Mpps", &[1.0, 1.0]), (rate, "Mpps", &[1.02, 1.02]), Verdict::Better),
            // Where the tester was the limit, there is only a lower bound.
            ((rate, "Mpps", low), (reached, "Mpps", high), Verdict::Better),
            ((rate, "Mpps", high), (reached, "Mpps", low), Verdict::Unknown),
            ((reached, "Mpps", high), (rate, "Mpps", low), Verdict::Worse),
            ((reached, "Mpps", low), (reached, "Mpps", high), Verdict::Unknown),
            // What only sums up others is not judged again.
            (
                ("rfc2544.latency_us.average", "us", low),
                ("rfc2544.latency_us.average", "us", high),
                Verdict::Unknown,
            ),
            // The tester's own values are neither good nor bad.
            (("cable.mpps", "Mpps", low), ("cable.mpps", "Mpps", high), Verdict::Unknown),
        ] {
            assert_eq!(verdict(a, b), wanted, "{a:?} {b:?}");
        }
        let bursts = |values: &[f64]| {
            let mut found = Found::of_size(64);
            found.note_runs("test.rfc9004.burst_frames.64".to_owned(), "frames", values.to_vec());
            found.bound("test.rfc9004.burst_frames.64");
            found.record("test rfc9004", Map::new())
        };
        let (a, b) = (bursts(low), bursts(high));
        assert_eq!(
            overall(&compare(&[Pair { a: &a, b: &b, nth: 0 }], 0.95, 0.01)),
            Verdict::Unknown,
            "each the longest that was tried"
        );
    }
}
