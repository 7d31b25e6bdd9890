// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 2544 asks of every test, whatever is measured: frame sizes, addresses, directions, waiting (sections 7 to 23).

use std::time::Duration;

use super::{Ledger, Level, seconds};

/// Frame sizes for Ethernet in bytes, with FCS (RFC 2544 9.1).
pub const ETHERNET_SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// How long a device is left alone after each trial (RFC 2544 23 e).
pub const SETTLE: Duration = Duration::from_secs(5);

/// How a test was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Frame sizes in bytes, with FCS.
    pub sizes: Vec<usize>,
    /// Ports that send.
    pub senders: usize,
    /// Flows of all these ports.
    pub flows: usize,
    /// For how long stragglers are waited for.
    pub stragglers: Duration,
    /// For how long the device is left alone after each trial.
    pub settle: Duration,
    /// Whether the greatest rate is a medium's.
    pub medium: bool,
    /// Whether the tests ran under modifying conditions (mixed sizes, bursts, other frames beside the test's).
    pub modified: bool,
    /// In how many networks destinations were chosen at random, after one pair of addresses.
    pub networks: Option<u32>,
    /// How the device got the routes to them.
    pub routing: String,
    /// Modifiers that could not be applied and why, if all were to be, one after the other.
    pub each_modifier: Option<Vec<String>>,
    /// Filters that were set on the device, after a run without, if that was asked for.
    pub filters: Option<Filters>,
    /// Whether the report has the device's configuration.
    pub configuration: bool,
}

/// Filters on the device (RFC 2544 11.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// In how many of the two cases.
    pub cases: usize,
    /// Why it is not known that they were in force, if so.
    pub doubt: Option<String>,
}

/// Which of the demands this setup meets.
pub fn ledger(setup: &Setup) -> Ledger {
    use Level::{Must, Plain, Should};
    let mut ledger = Ledger::default();
    ledger.note(
        "RFC 2544 7",
        Must,
        "the report has the device's exact configuration",
        setup.configuration,
        "the device was set up elsewhere, and the tester does not see its configuration",
    );
    sizes(&mut ledger, &setup.sizes);
    ledger.note("RFC 2544 10", Should, "received frames that are not the test's are not counted", true, "");
    ledger.note("RFC 2544 10", Should, "the length of received frames is verified", true, "");
    ledger.note(
        "RFC 2544 10",
        Should,
        "frames out of order, duplicates and gaps in the sequence are told",
        true,
        "",
    );
    ledger.note(
        "RFC 2544 11",
        Should,
        "the tests run first without any modifying condition",
        !setup.modified,
        "they ran under those of the report's conditions only",
    );
    ledger.note(
        "RFC 2544 11",
        Should,
        "they are repeated with broadcast frames, management frames, routing updates and filters, each by itself",
        setup.each_modifier.as_ref().is_some_and(Vec::is_empty),
        match (&setup.each_modifier, setup.modified, &setup.filters) {
            (Some(undone), ..) => undone.join("; "),
            (None, _, Some(_)) => "they were repeated with filters".to_owned(),
            (None, true, None) => "they ran once".to_owned(),
            (None, false, None) => "no modifier was applied".to_owned(),
        },
    );
    if let Some(done) = &setup.filters {
        filters(&mut ledger, done);
    }
    addresses(&mut ledger, setup);
    ledger.note(
        "RFC 2544 14",
        Should,
        "the streams run in both directions",
        setup.senders > 1,
        "only one port sent",
    );
    ledger.note(
        "RFC 2544 20",
        Should,
        "the greatest rate is the greatest of the medium",
        setup.medium,
        "no link was named: the greatest rate is what the tester reaches by itself",
    );
    ledger.note("RFC 2544 23 b", Plain, "the device learns addresses before the trials", true, "");
    let wait = Duration::from_secs(2);
    ledger.note(
        "RFC 2544 23 d",
        Plain,
        "2 s are waited for frames that are still on their way",
        setup.stragglers >= wait,
        format_args!("at most {}", seconds(setup.stragglers)),
    );
    ledger.note(
        "RFC 2544 23 e",
        Plain,
        "5 s are waited after each trial, for the device to settle",
        setup.settle >= SETTLE,
        match setup.settle {
            Duration::ZERO => {
                "the next trial begins when the frames of the last one are no longer waited for".to_owned()
            }
            settle => seconds(settle),
        },
    );
    ledger
}

fn filters(ledger: &mut Ledger, done: &Filters) {
    let doubt = done.doubt.as_deref().unwrap_or("not both were set");
    ledger.note(
        "RFC 2544 11.4",
        Level::Should,
        "first with one filter, which permits the test's frames, then with 25, of which only the last does",
        done.cases == 2 && done.doubt.is_none(),
        doubt,
    );
    ledger.note("RFC 2544 11.4", Level::Should, "the report has the filters", done.cases > 0, doubt);
    ledger.note(
        "RFC 2544 11.4.1",
        Level::Plain,
        "filters of given addresses, of which the thirteenth of 25 permits the test's frames",
        false,
        "the last of 25, as 11.4 has it; it permits the addresses of all flows of a port",
    );
}

fn addresses(ledger: &mut Ledger, setup: &Setup) {
    let done = match setup.networks {
        Some(networks) => format!("one pair, and then random ones in {networks} networks"),
        None => format!("{} flows in turn, between the addresses that the device is given", setup.flows),
    };
    ledger.note(
        "RFC 2544 12",
        Level::Should,
        "first one pair of addresses, then random ones in 256 networks",
        setup.networks.is_some_and(|networks| networks >= 256),
        done,
    );
    if setup.networks.is_some() {
        ledger.note(
            "RFC 2544 13",
            Level::Must,
            "a routing update with all networks of a trial is sent at its start",
            false,
            &setup.routing,
        );
    }
}

fn sizes(ledger: &mut Ledger, sizes: &[usize]) {
    let (count, many) = (sizes.len(), if sizes.len() == 1 { "" } else { "s" });
    ledger.note(
        "RFC 2544 9",
        Level::Should,
        "at least five frame sizes",
        count >= 5,
        format_args!("{count} size{many}"),
    );
    let missing: Vec<String> =
        ETHERNET_SIZES.iter().filter(|size| !sizes.contains(size)).map(usize::to_string).collect();
    ledger.note(
        "RFC 2544 9.1",
        Level::Should,
        "frames of 64, 128, 256, 512, 1024, 1280 and 1518 bytes",
        missing.is_empty(),
        format_args!("not measured: {} bytes", missing.join(", ")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_met_by_who_meets_them() {
        let good = Setup {
            sizes: ETHERNET_SIZES.to_vec(),
            senders: 2,
            flows: 512,
            stragglers: Duration::from_secs(2),
            settle: SETTLE,
            medium: true,
            modified: false,
            configuration: true,
            ..Setup::default()
        };
        let missed = |setup: &Setup| -> Vec<&str> { ledger(setup).deviations().map(|c| c.section).collect() };
        let always = ["RFC 2544 11", "RFC 2544 12"];
        assert_eq!(missed(&good), always);
        let networks = |count| Setup { networks: Some(count), routing: "by hand".to_owned(), ..good.clone() };
        assert_eq!(missed(&networks(256)), ["RFC 2544 11", "RFC 2544 13"]);
        assert!(missed(&networks(16)).contains(&"RFC 2544 12"));
        let each = |undone: &[&str]| Setup {
            each_modifier: Some(undone.iter().map(ToString::to_string).collect()),
            ..good.clone()
        };
        assert_eq!(missed(&each(&[])), ["RFC 2544 12"]);
        assert_eq!(missed(&each(&["management: nobody to ask"])), always);
        let filtered = |cases, doubt: Option<&str>| {
            let filters = Some(Filters { cases, doubt: doubt.map(str::to_owned) });
            missed(&Setup { filters, ..good.clone() })
                .iter()
                .filter(|section| **section == "RFC 2544 11.4")
                .count()
        };
        assert_eq!([filtered(2, None), filtered(1, None), filtered(2, Some("who knows"))], [0, 1, 1]);
        let bare = Setup { sizes: vec![64, 512], senders: 1, ..Setup::default() };
        assert_eq!(missed(&bare).len(), always.len() + 7);
        let ledger = ledger(&bare);
        let sizes = ledger.deviations().find(|clause| clause.section == "RFC 2544 9.1").unwrap();
        assert_eq!(sizes.deviation.as_deref(), Some("not measured: 128, 256, 1024, 1280, 1518 bytes"));
    }
}
