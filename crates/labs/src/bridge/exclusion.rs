// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways of excluding each other that the study names, from the big lock to passive serialization: `junctor bench locks`.

use std::time::Duration;

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table};
use bench::locks::{self, Locks, Question};
use report::measure::Measured;

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
        Err(why) => (Vec::new(), why.to_string()),
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
            ("bare section, one core", Origin::Measured),
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
                _ if what == "bare_ns" => format!("locks.bare_ns.{way}"),
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
            value("bare_ns", 0),
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
            "The study names five ways for readers and writers of a shared thing to keep out of each other's way, and takes the bridge from the first to the last. Here each guards a table of 1 KiB, of which a packet reads one entry; the big lock is held over the packet's other work, too. What a row has above the first one is what excluding costs. A processor does much of an uncontended lock's work during the packet's own, so the section is also measured bare, one right after the other.".into(),
            "The locks that wait by spinning or sleeping are Junctor's own, which also count how contended they are; the readers-writer lock is the Rust standard library's, as Junctor has none. Passive serialization is Junctor's RCU: a reader says once in a batch of 32 packets that it holds nothing, and a change is a new version of the table.".into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}

fn find(setting: &mut Setting<'_>, results: &[Measured]) {
    let median = |name: &str| results.iter().find(|m| m.name == name).map(Measured::median);
    let bare = |way: &str| median(&format!("locks.bare_ns.{way}"));
    let two = |way: &str| median(&format!("locks.contended_ns.{way}"));
    if let (Some(none), Some(rcu), Some(rwlock), Some(spin)) =
        (bare("none"), bare("rcu"), bare("rwlock"), bare("spin"))
    {
        setting.find(format!(
            "To read what others may change takes {rcu:.1} ns with RCU, {rwlock:.1} with a readers-writer lock and {spin:.1} with a spin mutex that nobody else wants ({none:.1} if nobody changes it)."
        ));
    }
    if let (Some(none), Some(rcu), Some(rwlock), Some(big)) =
        (two("none"), two("rcu.0"), two("rwlock.0"), two("big.0"))
    {
        setting.find(format!(
            "Two cores that do so at once take {rcu:.1} ns for a packet with RCU, {rwlock:.1} with a readers-writer lock and {big:.1} under one big lock ({none:.1} with a table each)."
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
        assert_eq!((spin[2].text.as_str(), spin[2].missing), ("12.0", false));
        assert_eq!((spin[3].text.as_str(), spin[3].missing), ("1 core here", true));
        assert_eq!(WAYS[1..].iter().map(|w| w.0).collect::<Vec<_>>(), locks::WAYS);
    }
}
