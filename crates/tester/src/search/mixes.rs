// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents ask where frames of several sizes are mixed, and of bursts (RFC 2544 18 and 21, RFC 6985).

use super::setup::{ETHERNET_SIZES, Setup};
use super::{Ledger, Level};

/// Frames in a burst (RFC 2544 21).
pub const BURSTS: [u64; 4] = [16, 64, 256, 1024];

/// Frames of several sizes, over and over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// The sequence, in bytes with FCS.
    pub sizes: Vec<usize>,
    /// Some are the longest that the ports take.
    pub has_longest: bool,
    /// Some are of a size of one's own.
    pub is_custom: bool,
}

/// Which of the demands this setup meets.
pub(super) fn ledger(ledger: &mut Ledger, setup: &Setup) {
    if let Some(mix) = &setup.mix {
        genome(ledger, mix);
    }
    let bursts: Vec<String> = setup.bursts.iter().map(u64::to_string).collect();
    let in_bursts = !bursts.is_empty();
    let done = match in_bursts {
        true => format!("in bursts of {} only", bursts.join(", ")),
        false => "at a steady rate only".to_owned(),
    };
    let both = "some tests run at a steady rate and in repeated bursts";
    ledger.note("RFC 2544 21", Level::Should, both, in_bursts && setup.steady, &done);
    if in_bursts {
        let sizes = "there are bursts of 16, 64, 256 and 1024 frames";
        let all = BURSTS.iter().all(|burst| setup.bursts.contains(burst));
        ledger.note("RFC 2544 21", Level::Should, sizes, all, &done);
        ledger.note(
            "RFC 2544 21",
            Level::Plain,
            "frames of a burst are as close as the medium allows",
            false,
            "as close as the tester can",
        );
    }
}

fn genome(ledger: &mut Ledger, mix: &Mix) {
    use Level::{Must, Plain, Should};
    let missing: Vec<String> =
        ETHERNET_SIZES.iter().filter(|size| !mix.sizes.contains(size)).map(usize::to_string).collect();
    ledger.note(
        "RFC 2544 18",
        Should,
        "where sizes are mixed, all that the medium is tested with are among them",
        missing.is_empty(),
        format_args!("not among them: {} bytes", missing.join(", ")),
    );
    let section = if mix.is_custom { "RFC 6985 5" } else { "RFC 6985 4" };
    // The report has the whole word; only one of a hundred frames or more has numbers in it (section 6.1).
    ledger.always(section, Plain, "the report has the repeated sequence of sizes exactly, by letters");
    if mix.has_longest {
        // It is in the table of the mix, which reports and the conditions of a record have.
        ledger.always("RFC 6985 4", Must, "the report has the length for which z stands");
    }
    if mix.is_custom {
        // The same table has every letter.
        ledger.always("RFC 6985 5", Must, "the report has a table of the letters of custom sizes");
    }
    // One sequence runs through all frames of a port, whichever flow's they are, and the report says so.
    ledger.always(
        "RFC 6985 4",
        Plain,
        "it is said whether the sequence is that of each pair, each port, or all",
    );
    let asks = "a table has the sequence between each two addresses and ports of the tester";
    ledger.never("RFC 6985 4", Plain, asks, "a sentence says that each port that sends has it");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The demands of a section that a setup meets, and how many there are.
    fn met(setup: &Setup, section: &str) -> (usize, usize) {
        let mut all = Ledger::default();
        ledger(&mut all, setup);
        let of = all.clauses.iter().filter(|clause| clause.section == section);
        (of.clone().filter(|clause| clause.deviation.is_none()).count(), of.count())
    }

    #[test]
    fn mixes_and_bursts_are_judged_by_what_was_done() {
        let two = Setup { ports: 2, senders: 2, flows: 8, ..Setup::default() };
        let mixed = |sizes: &[usize], own| Setup {
            mix: Some(Mix { sizes: sizes.to_vec(), has_longest: own, is_custom: own }),
            ..two.clone()
        };
        let (all, some) = (mixed(&ETHERNET_SIZES, false), mixed(&ETHERNET_SIZES[1..], true));
        assert_eq!([&two, &all, &some].map(|setup| met(setup, "RFC 2544 18")), [(0, 0), (1, 1), (0, 1)]);
        assert_eq!([&two, &all, &some].map(|setup| met(setup, "RFC 6985 4")), [(0, 0), (2, 3), (2, 3)]);
        assert_eq!([&two, &all, &some].map(|setup| met(setup, "RFC 6985 5")), [(0, 0), (0, 0), (2, 2)]);
        assert_eq!(met(&two, "RFC 2544 21"), (0, 1));
        let bursts = |bursts: &[u64], steady| {
            met(&Setup { bursts: bursts.to_vec(), steady, ..two.clone() }, "RFC 2544 21")
        };
        assert_eq!(
            [bursts(&[16], false), bursts(&[16], true), bursts(&BURSTS, true)],
            [(0, 3), (1, 3), (2, 3)]
        );
    }
}
