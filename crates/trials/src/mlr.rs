// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test mlr`: several rates from one search (RFC 9971), each by a goal of its own.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use tester::search::mlr::{self, Goal, GoalResult, Parameters};

use super::record::{Found, Record};
use super::search::{Document, Profile, Search, Site, each_size};
use super::{Failure, values};

/// NDR and PDR, or other goals, by multiple loss ratio search (RFC 9971).
#[derive(Clone, Debug)]
pub struct Mlr {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// What is searched for; the profile's goals, if there are none.
    pub goal: Vec<Named>,
}

/// A goal and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    name: String,
    goal: Goal,
}

impl Named {
    /// Reads a goal, such as `pdr1 loss=1 width=0.1`.
    ///
    /// # Errors
    /// Which word is wrong, and why.
    pub fn parse(text: &str) -> Result<Named, String> {
        let mut words = text.split_ascii_whitespace();
        let is_name =
            |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let name = words.next().filter(is_name);
        let name = name.ok_or("expected 'NAME KEY=VALUE ...', with a name of small letters, digits and _")?;
        let mut goal = Goal::ndr();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is no KEY=VALUE"))?;
            let percent = || {
                let number = value.parse().ok().filter(|number| (0.0..100.0).contains(number));
                number
                    .map(|n: f64| n / 100.0)
                    .ok_or_else(|| format!("'{word}': expected percent, from 0 to below 100"))
            };
            let time = || values::seconds(value).map_err(|why| format!("'{word}': {why}"));
            match key {
                "loss" => goal.loss_ratio = percent()?,
                "exceed" => goal.exceed_ratio = percent()?,
                "width" => goal.width = percent()?,
                "initial" => goal.initial_trial = time()?,
                "final" => goal.final_trial = time()?,
                "sum" => goal.duration_sum = time()?,
                _ => return Err(format!("'{key}' is none of loss, exceed, width, initial, final and sum")),
            }
        }
        // A user who sets the length of the last trials need not also set the first ones' length or the sum.
        goal.initial_trial = goal.initial_trial.min(goal.final_trial);
        goal.duration_sum = goal.duration_sum.max(goal.final_trial);
        Ok(Named { name: name.to_owned(), goal })
    }
}

/// The goals of a record, for comparisons; none of other procedures. Records of before have them in these words among what was asked for.
pub(super) fn goals(record: &Record) -> Vec<String> {
    let list = |of: Option<&Value>| of.and_then(Value::as_array).cloned();
    match (list(record.conditions.get("goals")), record.conditions.get("asked")) {
        (Some(told), _) => told.iter().map(|goal| Named::read(goal).to_string()).collect(),
        (None, asked) => {
            let words = list(asked.and_then(|asked| asked.get("goals"))).unwrap_or_default();
            words.iter().filter_map(|goal| goal.as_str().map(str::to_owned)).collect()
        }
    }
}

/// Attributes as RFC 9971 calls them.
impl Named {
    /// As it was recorded. A missing value reads as zero, which no goal has.
    fn read(told: &Value) -> Named {
        let number = |name: &str| told[name].as_f64().unwrap_or_default();
        let time = |name: &str| Duration::try_from_secs_f64(number(name)).unwrap_or_default();
        let goal = Goal {
            loss_ratio: number("goal_loss_ratio"),
            exceed_ratio: number("goal_exceed_ratio"),
            width: number("goal_width"),
            initial_trial: time("goal_initial_trial_duration_s"),
            final_trial: time("goal_final_trial_duration_s"),
            duration_sum: time("goal_duration_sum_s"),
        };
        Named { name: told["name"].as_str().unwrap_or_default().to_owned(), goal }
    }

    fn told(&self) -> Value {
        let Goal { loss_ratio, exceed_ratio, width, initial_trial, final_trial, duration_sum } = self.goal;
        json!({
            "name": self.name,
            "goal_loss_ratio": loss_ratio,
            "goal_exceed_ratio": exceed_ratio,
            "goal_width": width,
            "goal_initial_trial_duration_s": initial_trial.as_secs_f64(),
            "goal_final_trial_duration_s": final_trial.as_secs_f64(),
            "goal_duration_sum_s": duration_sum.as_secs_f64(),
        })
    }
}

/// For people, in the words by which a goal is given.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal { loss_ratio, exceed_ratio, width, initial_trial, final_trial, duration_sum } = self.goal;
        let percent = |share: f64| (share * 1e7).round() / 1e5;
        let [loss, exceed, width] = [loss_ratio, exceed_ratio, width].map(percent);
        let [initial, last, sum] = [initial_trial, final_trial, duration_sum].map(|time| time.as_secs_f64());
        write!(
            f,
            "{}: loss={loss} exceed={exceed} width={width} initial={initial} final={last} sum={sum}",
            self.name.to_uppercase()
        )
    }
}

impl Mlr {
    fn goals(&self) -> Vec<Named> {
        let usual = match self.search.profile {
            Profile::Rfc => vec![("ndr", Goal::ndr_rfc2544())],
            Profile::Quick => vec![("ndr", Goal::ndr()), ("pdr", Goal::pdr())],
        };
        let mut goals = self.goal.clone();
        if goals.is_empty() {
            goals = usual.into_iter().map(|(name, goal)| Named { name: name.to_owned(), goal }).collect();
        }
        if let Some(time) = self.search.trial {
            for Named { goal, .. } in &mut goals {
                let trials =
                    (goal.duration_sum.as_secs_f64() / goal.final_trial.as_secs_f64()).round() as u32;
                (goal.initial_trial, goal.final_trial) = (time, time);
                goal.duration_sum = time * trials.max(1);
            }
        }
        goals
    }
}

/// Does the search for each frame size.
pub(super) fn run(args: &Mlr) -> Result<(), Failure> {
    let goals = args.goals();
    each_size(&args.search, Document::Mlr, |site, found| {
        let mut parameters = match args.search.profile {
            Profile::Rfc => Parameters::rfc(site.rate_max),
            Profile::Quick => Parameters::quick(site.rate_max),
        };
        parameters.goals = goals.iter().map(|named| named.goal).collect();
        found.condition("goals", goals.iter().map(Named::told).collect());
        for line in goals.iter().map(|named| format!("  {named}\n")) {
            if !found.text.contains(&line) {
                found.text += &line;
            }
        }
        site.begin("search");
        let report = mlr::run(&mut site.station, &parameters)?;
        for (named, result) in goals.iter().zip(&report.results) {
            tell(site, &named.name, result, args.search.link.is_some(), found);
        }
        found.deviate(&report.ledger);
        report.ended.map_or(Ok(()), |why| Err(why.into()))
    })
}

/// What was found for a goal. Where a link is named, its rate is the greatest there is, and no limit of the tester's. Of a search that
/// did not come to its end, the relevant lower bound is what was reached.
fn tell(site: &Site, goal: &str, result: &GoalResult, linked: bool, found: &mut Found) {
    let open = result.upper.is_none() && !linked;
    let reached = result.lower.map(|lower| lower.rate * lower.forwarding_ratio);
    let (name, rate, whose) = match result.conditional_throughput() {
        Some(rate) if !open => ("throughput_mpps", Some(rate), ""),
        Some(rate) => ("reached_mpps", Some(rate), "  (the tester's limit: the device may be faster)"),
        None if !result.finished => {
            ("reached_mpps", reached, "  (the search did not come to its end: the device may be faster)")
        }
        None if result.limited_by_tester => {
            let reached = reached.unwrap_or(0.0);
            ("reached_mpps", Some(reached), "  (the tester's limit: the device may be faster)")
        }
        None => ("throughput_mpps", Some(0.0), "  (nothing found: even the least load is too much)"),
    };
    let size = site.size;
    let mut note = |what: &str, rate: f64| {
        found.note(format!("test.{}.{what}.{goal}.{size}", site.prefix("mlr")), "Mpps", rate / 1e6);
    };
    if let Some(rate) = rate {
        note(name, rate);
    }
    let mut bounds = Vec::new();
    for (what, bound) in [("lower_bound_mpps", result.lower), ("upper_bound_mpps", result.upper)] {
        bounds.push(bound.map_or("none".to_owned(), |bound| format!("{:.4}", bound.rate / 1e6)));
        if let Some(bound) = bound {
            note(what, bound.rate);
        }
    }
    // Such a bound is one of what the tester can do; the device's lies there or above.
    if result.limited_by_tester {
        for what in ["lower_bound_mpps", "upper_bound_mpps"] {
            found.bound(&format!("test.{}.{what}.{goal}.{size}", site.prefix("mlr")));
        }
    }
    let goal = goal.to_uppercase();
    found.text += &match rate {
        Some(rate) if name == "reached_mpps" => {
            format!("{size:>6} bytes  {goal} none; reached {:>9.4} Mpps{whose}\n", rate / 1e6)
        }
        Some(rate) => format!("{size:>6} bytes  {goal} {:>9.4} Mpps{whose}\n", rate / 1e6),
        None => format!("{size:>6} bytes  {goal} not found: the search did not come to its end\n"),
    };
    let tester = if result.limited_by_tester { ", the tester's" } else { "" };
    found.text += &format!("             bounds {}{tester}\n", bounds.join(" and "));
    if let Some((low, high)) = result.coarse.filter(|_| !result.finished) {
        let (low, high) = (low / 1e6, high / 1e6);
        found.text +=
            &format!("             by fewer trials for each rate, between {low:.4} and {high:.4} Mpps\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        let read = Named::parse("pdr1 loss=1 exceed=0 width=0.1 final=0.5 sum=2").expect("a goal");
        let half = Duration::from_millis(500);
        let goal = Goal {
            loss_ratio: 0.01,
            exceed_ratio: 0.0,
            width: 0.001,
            initial_trial: half,
            final_trial: half,
            duration_sum: half * 4,
        };
        assert_eq!(read, Named { name: "pdr1".to_owned(), goal });
        assert_eq!(read.to_string(), "PDR1: loss=1 exceed=0 width=0.1 initial=0.5 final=0.5 sum=2");
        assert_eq!(Named::parse(&read.to_string().to_lowercase().replace(':', "")).as_ref(), Ok(&read));
        assert_eq!(read.told()["goal_final_trial_duration_s"], 0.5);
        assert_eq!(Named::parse("ndr").map(|named| named.goal), Ok(Goal::ndr()));
        assert_eq!(Named::parse("a final=60").expect("a goal").goal.duration_sum, Duration::from_secs(60));
        for (bad, what) in [
            ("", "NAME KEY=VALUE"),
            ("NDR", "small letters"),
            ("ndr loss", "no KEY=VALUE"),
            ("ndr loss=100", "percent"),
            ("ndr sum=-1", "seconds"),
            ("ndr depth=3", "none of loss"),
        ] {
            let why = Named::parse(bad).expect_err(bad);
            assert!(why.contains(what), "{bad}: {why}");
        }
    }

    #[test]
    fn goals_are_the_same_however_they_were_told() {
        let goals = ["ndr", "pdr width=0.7 loss=0.5 initial=0.05 final=0.3 sum=3.3"]
            .map(|text| Named::parse(text).expect("a goal"));
        let record = |conditions: Value| {
            Found::default().record("test mlr", conditions.as_object().cloned().unwrap_or_default())
        };
        let told = record(json!({ "goals": goals.iter().map(Named::told).collect::<Vec<_>>() }));
        let before =
            record(json!({ "asked": { "goals": goals.iter().map(Named::to_string).collect::<Vec<_>>() } }));
        assert_eq!(super::goals(&told), super::goals(&before));
        assert_eq!(super::goals(&told).len(), 2);
        assert!(super::goals(&record(json!({ "asked": { "at": 1 } }))).is_empty());
    }
}
