// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways of excluding each other that the study names, from the big lock to passive serialization: `junctor bench locks`.

use std::time::Duration;

use super::super::report::{Cell, Origin, Section, Table};
use super::Setting;
use crate::bench::locks::{self, Locks, Question};
use crate::measure::Measured;

/// Changes a second.
const RATES: [u64; 3] = [0, 1000, 100_000];

/// The ways, with the study's names for them.
const WAYS: [(&str, &str); 6] = [
    ("none", "none, a table for each core"),
    ("big", "one big lock around the whole packet"),
    ("spin", "spin mutex"),
    ("adaptive", "adaptive mutex"),
    ("rwlock", "readers-writer lock"),
    ("rcu", "passive serialization (RCU)"),
];

/// Measures them.
pub(super) fn run(setting: &mut Setting<'_>) -> Section {
    let rounds = setting.common.rounds();
    setting.progress.expect(rounds);
    setting.progress.part("ways of excluding each other");
    let question = Question {
        ways: locks::WAYS.map(str::to_owned).to_vec(),
        rates: RATES.to_vec(),
        work: 8,
        cores: locks::usual_cores().into_iter().take(setting.cores).collect(),
        length: setting.common.length().min(Duration::from_millis(20)),
    };
    let results = Locks::new(question).map(|mut locks| {
        for _ in 0..rounds {
            locks.round();
            setting.progress.step();
        }
        locks.results()
    });
    let (results, why) = match results {
        Ok(results) => (results, super::super::shared::too_few(setting.cores)),
        Err(why) => (Vec::new(), why),
    };
    let section = section(&results, &why);
    find(setting, &results);
    setting.results.extend(results);
    section
}

fn section(results: &[Measured], why: &str) -> Section {
    let mut table = Table::new(
        "A packet, nanoseconds for each core: a section that reads a shared table, and some work beside it",
        &[
            ("", Origin::Name),
            ("one core", Origin::Measured),
            ("two cores", Origin::Measured),
            ("two, 1,000 changes a second", Origin::Measured),
            ("two, 100,000 changes", Origin::Measured),
            ("one change then", Origin::Measured),
        ],
    );
    for (way, name) in WAYS {
        let value = |what: &str, rate: u64| {
            let name = match way {
                "none" => format!("locks.{what}.none"),
                _ => format!("locks.{what}.{way}.{rate}"),
            };
            results.iter().find(|m| m.name == name).map_or_else(|| Cell::missing(why), Cell::measured)
        };
        let changed = |what: &str, rate: u64| match way {
            "none" => Cell::new("no changes"),
            _ => value(what, rate),
        };
        table.row(vec![
            Cell::new(name),
            value("alone_ns", 0),
            value("contended_ns", 0),
            changed("contended_ns", 1000),
            changed("contended_ns", 100_000),
            changed("write_ns", 100_000),
        ]);
    }
    Section {
        title: "Ways of excluding each other".into(),
        text: vec![
            "The study names five ways for readers and writers of a shared thing to keep out of each other's way, and takes the bridge from the first to the last. Here each guards a table of 1 KiB, of which a packet reads one entry; the big lock is held over the packet's other work, too. What a row has above the first one is what excluding costs.".into(),
            "The locks that wait by spinning or sleeping are Junctor's own, which also count how contended they are; the readers-writer lock is the Rust standard library's, as Junctor has none. Passive serialization is Junctor's RCU: a reader says once in a batch of 32 packets that it holds nothing, and a change is a new version of the table.".into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}

fn find(setting: &mut Setting<'_>, results: &[Measured]) {
    let median = |name: &str| results.iter().find(|m| m.name == name).map(Measured::median);
    let both = |way: &str| {
        Some((median(&format!("locks.alone_ns.{way}"))?, median(&format!("locks.contended_ns.{way}"))?))
    };
    let all = (both("none"), both("big.0"), both("rwlock.0"), both("rcu.0"));
    if let (Some(none), Some(big), Some(rwlock), Some(rcu)) = all {
        setting.findings.push(format!(
            "Reading what others may change costs a packet {:.1} ns more on one core and {:.1} on two with RCU, {:.1} and {:.1} with a readers-writer lock, {:.1} and {:.1} with one big lock.",
            rcu.0 - none.0,
            rcu.1 - none.1,
            rwlock.0 - none.0,
            rwlock.1 - none.1,
            big.0 - none.0,
            big.1 - none.1,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_missing() {
        let alone = Measured::new("locks.alone_ns.spin.0", "ns", vec![12.0]);
        let section = section(&[alone], "1 core here");
        let spin = &section.tables[0].rows[2];
        assert_eq!((spin[1].text.as_str(), spin[1].missing), ("12.0", false));
        assert_eq!((spin[2].text.as_str(), spin[2].missing), ("1 core here", true));
        assert_eq!(WAYS[1..].iter().map(|w| w.0).collect::<Vec<_>>(), locks::WAYS);
    }
}
