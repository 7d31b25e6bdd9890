// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 2544 asks of every test: frame sizes, addresses, directions, waiting (sections 7 to 25).

use std::collections::BTreeSet;
use std::time::Duration;

use super::mixes::{self, Mix};
use super::{Ledger, Level, Sizes, Wanted, contents, seconds};
use crate::management::Answers;
use crate::station::Plan;

/// Frame sizes for Ethernet in bytes, with FCS (RFC 2544 9.1).
pub const ETHERNET_SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// How long a device is left alone after each trial (RFC 2544 23 e).
pub const SETTLE: Duration = Duration::from_secs(5);

/// How a test was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Frame sizes in bytes, with FCS, of which there were trials.
    pub sizes: Vec<usize>,
    /// There was no trial at all.
    pub untried: bool,
    /// Ports of the tester.
    pub ports: usize,
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
    /// Whether the tests ran under modifying conditions (mixed sizes, bursts, other frames in addition to the test's).
    pub modified: bool,
    /// In how many networks destinations were chosen at random, after one pair of addresses.
    pub networks: Option<u32>,
    /// How the device got the routes to them.
    pub routing: String,
    /// Whether each trial began with routing updates of all of them.
    pub announced: bool,
    /// Modifiers that could not be applied and why, if all were to be, one after the other.
    pub each_modifier: Option<Vec<String>>,
    /// Filters that were set on the device, after a run without, if that was asked for.
    pub filters: Option<Filters>,
    /// What was sent in addition to the test's frames, in all tests or in some.
    pub beside: Vec<Beside>,
    /// Why the additional frames may not stand exactly where they ought to among the test's, if so.
    pub uneven: Option<&'static str>,
    /// Questions of management, and what came of them.
    pub answers: Answers,
    /// How many of the additional frames were due and not sent.
    pub beside_unsent: u64,
    /// How long before a trial's frames its first routing update was sent.
    pub ahead: Duration,
    /// A mix of frames of several sizes, if they were mixed.
    pub mix: Option<Mix>,
    /// Frames in a burst, where they left in bursts.
    pub bursts: Vec<u64>,
    /// Whether they left at a steady rate, in all tests or in the first.
    pub steady: bool,
    /// To which ports those that send do.
    pub reach: Reach,
    /// Whether the report has the device's configuration.
    pub configuration: bool,
    /// Whether it has the version of the device's software.
    pub version: bool,
    /// Whether the device looks at Ethernet addresses only.
    pub bridged: bool,
    /// Whether each flow's UDP ports were drawn at random.
    pub random_ports: bool,
    /// Whether the hosts' Ethernet addresses were.
    pub random_macs: bool,
}

/// To which ports those that send do (RFC 2544 16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Each to all others, or, where some only receive, to all of those.
    pub all: bool,
    /// Frame by frame to one after the other.
    pub in_turn: bool,
}

impl Reach {
    /// That of the flows of a plan.
    pub fn of(plan: &Plan) -> Reach {
        let is_sender = |port: usize| !plan.streams[port].flows.is_empty();
        let senders: Vec<usize> = (0..plan.streams.len()).filter(|port| is_sender(*port)).collect();
        let all_send = senders.len() == plan.streams.len();
        let is_whole = |from: usize| {
            let flows = &plan.streams[from].flows;
            let mut wanted =
                (0..plan.streams.len()).filter(|to| *to != from && (all_send || !is_sender(*to)));
            wanted.all(|to| flows.iter().any(|(_, known)| *known == Some(to)))
        };
        let takes_turns = |from: usize| {
            let ports: Vec<Option<usize>> = plan.streams[from].flows.iter().map(|(_, to)| *to).collect();
            let round = ports.iter().collect::<BTreeSet<_>>().len();
            ports.windows(round.max(1)).all(|some| some.iter().collect::<BTreeSet<_>>().len() == round)
        };
        Reach {
            all: senders.iter().all(|port| is_whole(*port)),
            in_turn: senders.iter().all(|port| takes_turns(*port)),
        }
    }
}

/// How long before a trial's frames a routing update is sent (RFC 2544 C.2.3).
pub const AHEAD: Duration = Duration::from_secs(5);

/// Frames in addition to the test's (RFC 2544 11.1 to 11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// To all.
    Broadcast,
    /// Questions of network management.
    Management,
    /// Routing updates.
    Routing,
}

/// Filters on the device (RFC 2544 11.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// In how many of the two cases.
    pub cases: usize,
    /// And in the third, in which the thirteenth of 25 permits the test's frames (11.4.1).
    pub thirteenth: bool,
    /// Why it is not known that they were in force, if so.
    pub doubt: Option<String>,
    /// Whether a command of the user's set them.
    pub by_command: bool,
}

/// Which of the demands this setup meets.
pub fn ledger(setup: &Setup) -> Ledger {
    let ledger = demands(setup);
    if setup.untried { ledger.untried() } else { ledger }
}

fn demands(setup: &Setup) -> Ledger {
    use Level::{Must, Should};
    let mut ledger = Ledger::default();
    ledger.note(
        "RFC 2544 7",
        Must,
        "the report has the device's exact configuration",
        setup.configuration,
        "the device was set up elsewhere, and the tester does not see its configuration; --configuration FILE gives it",
    );
    ledger.note(
        "RFC 2544 7",
        Must,
        "the report has the version of the device's software",
        setup.version,
        "the tester does not know what runs there, unless the configuration says it (--configuration FILE)",
    );
    contents::ledger(&mut ledger, setup);
    sizes(&mut ledger, &setup.sizes);
    received(&mut ledger);
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
    beside(&mut ledger, setup);
    if let Some(done) = &setup.filters {
        filters(&mut ledger, done);
    }
    addresses(&mut ledger, setup);
    ledger.note(
        "RFC 2544 14",
        Should,
        "the streams run in both directions, at the same rate",
        setup.senders > 1 && setup.senders >= setup.ports,
        match setup.senders {
            0 | 1 => "only one port sent".to_owned(),
            some => format!("{some} of {} ports sent", setup.ports),
        },
    );
    ports(&mut ledger, setup);
    mixes::ledger(&mut ledger, setup);
    ledger.note(
        "RFC 2544 20",
        Should,
        "the greatest rate is the greatest of the medium",
        setup.medium,
        "no link was named: the greatest rate is what the tester reaches by itself",
    );
    phases(&mut ledger, setup);
    // Receivers answer in trials, while the device warms up, and while it settles.
    ledger.always(
        "RFC 2544 25",
        Should,
        "requests for the addresses of the tester's hosts are answered wherever the protocol needs that",
    );
    ledger
}

/// Which tests of the document were left out of a run, and why, where not because others were asked for (RFC 2544 3).
pub fn tests_ledger(left_out: &[String], why: Option<&str>) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note(
        "RFC 2544 3",
        Level::Plain,
        "all tests that the device supports: throughput, latency, frame loss, back-to-back frames, recovery, reset",
        left_out.is_empty(),
        format_args!(
            "a run without {}{}",
            left_out.join(", "),
            why.map_or(String::new(), |why| format!(": {why}"))
        ),
    );
    ledger
}

/// What becomes of received frames (RFC 2544 10): the same in every run.
fn received(ledger: &mut Ledger) {
    use Level::Should;
    // What has no right signature is damaged or foreign.
    ledger.always("RFC 2544 10", Should, "received frames that are not the test's are not counted");
    // The packet has to fill its frame, and UDP's checksum, made for the size that was sent, covers the length.
    ledger.always("RFC 2544 10", Should, "the length of received frames is verified");
    // Each frame has its number, and the list of trials has all three.
    ledger.always("RFC 2544 10", Should, "frames out of order, duplicates and gaps in the sequence are told");
}

/// The phases of a trial (RFC 2544 23).
fn phases(ledger: &mut Ledger, setup: &Setup) {
    use Level::Plain;
    let wait = Duration::from_secs(2);
    if !setup.bridged {
        ledger.note(
            "RFC 2544 23 a",
            Plain,
            "a router is sent the routing update 2 s before the test's frames",
            setup.announced && setup.ahead >= wait,
            match setup.announced {
                true => format!("by {}", seconds(setup.ahead)),
                false => "no update is sent: the routes are there before".to_owned(),
            },
        );
    }
    ledger.never(
        "RFC 2544 23 b",
        Plain,
        "the device learns addresses before each trial, with 2 s to settle",
        "once before the first, until no more frames of any flow are lost than before; no trial waits for it",
    );
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
        "at least 5 s are waited after each trial, for the device to settle",
        setup.settle >= SETTLE,
        match setup.settle {
            Duration::ZERO => {
                "the next trial begins when the frames of the last one are no longer waited for".to_owned()
            }
            settle => seconds(settle),
        },
    );
}

/// Broadcast and management frames and routing updates, those that were sent.
fn beside(ledger: &mut Ledger, setup: &Setup) {
    use Level::{Must, Plain, Should};
    let (in_place, why) = match (setup.beside_unsent, setup.uneven) {
        (0, None) => (true, String::new()),
        (0, Some(why)) => (false, why.to_owned()),
        (unsent, _) => (false, format!("{unsent} of the frames beside the test's could not be sent")),
    };
    let all_sent = setup.beside_unsent == 0;
    let why = &*why;
    let Answers { asked, right, wrong } = setup.answers;
    let answered = format!(
        "of {asked} queries, {right} were answered rightly, {wrong} wrongly, and {} not at all",
        setup.answers.missing()
    );
    let ahead = match setup.ahead {
        Duration::ZERO => "it is sent with the first of them".to_owned(),
        ahead => format!("by {}", seconds(ahead)),
    };
    let mut note = |section, level, asks, met, done| ledger.note(section, level, asks, met, done);
    if !setup.beside.is_empty() {
        note(
            "RFC 2544 11",
            Plain,
            "modifying frames stand in the stream in the place of test frames",
            all_sent,
            why,
        );
    }
    for what in [Beside::Broadcast, Beside::Management, Beside::Routing] {
        if !setup.beside.contains(&what) {
            continue;
        }
        match what {
            Beside::Broadcast => {
                let section = "RFC 2544 11.1";
                note(section, Should, "1 % broadcast frames are added to the stream", all_sent, why);
                note(
                    section,
                    Should,
                    "they are spread evenly, such as before each hundredth frame",
                    in_place,
                    why,
                );
                note(section, Plain, "they are of a type that a router need not process", true, "");
            }
            Beside::Management => {
                let section = "RFC 2544 11.2";
                note(section, Should, "a management query is the first frame of each second", in_place, why);
                note(section, Plain, "its answer fits into one frame", true, "");
                let all_right = asked > 0 && right == asked;
                note(section, Should, "the answer is verified", all_right, &answered);
                note(
                    "RFC 2544 C.2.4.3",
                    Plain,
                    "the query asks for sysUpTime, ifInOctets, ifOutOctets, ifInUcastPkts and ifOutUcastPkts of one interface",
                    true,
                    "",
                );
            }
            Beside::Routing => {
                let section = "RFC 2544 11.3";
                note(section, Should, "a routing update is the first frame of a trial", in_place, why);
                note(section, Should, "updates follow as often as the protocol has them", all_sent, why);
                note(section, Plain, "they are of networks that the test does not use", true, "");
                note(section, Must, "two updates alternate, each of which changes the routes", true, "");
                let unseen = "the tester does not see the device's routes";
                note(section, Should, "it is verified that the device has processed them", false, unseen);
                let asks = "an update precedes the test's frames by 5 s";
                note("RFC 2544 C.2.3", Plain, asks, setup.ahead >= AHEAD, &ahead);
            }
        }
    }
}

/// One path and several (RFC 2544 15, 16).
fn ports(ledger: &mut Ledger, setup: &Setup) {
    use Level::{Must, Plain, Should};
    let Setup { ports, senders, reach, .. } = *setup;
    ledger.note(
        "RFC 2544 15",
        Should,
        "the tests run with one input and one output port",
        ports <= 2,
        format_args!("with {ports} ports at once"),
    );
    ledger.note(
        "RFC 2544 15",
        Should,
        "each kind of path through the device is tested by itself",
        false,
        "those between the ports that were named: which kinds of paths a device has, the tester does not know",
    );
    if ports <= 2 {
        return;
    }
    ledger.note(
        "RFC 2544 16",
        Should,
        "ports are spread evenly over the device",
        false,
        "those that were named: how a device is built, the tester does not know",
    );
    // One schedule holds for all of them.
    ledger.always("RFC 2544 16", Plain, "all ports that send do so at the same rate");
    let (level, asks) = match senders == ports {
        true => (Must, "each port sends to all others"),
        false => (Should, "each input port sends to all output ports"),
    };
    ledger.note("RFC 2544 16", level, asks, reach.all, "to whom its flows go");
    ledger.note(
        "RFC 2544 16",
        Should,
        "frames of a port go to one port after the other",
        reach.in_turn,
        "in the order of its flows",
    );
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
    // A filter list that blocks what the test sends is refused before the first trial.
    let asks = "the other 24 are of addresses that the test does not use";
    ledger.note("RFC 2544 11.4", Level::Should, asks, done.cases > 0, doubt);
    // Every record has them: rules of the kernel's, the configuration with them in it, or the user's command.
    let asks = "the report has the exact commands that set the filters";
    ledger.always("RFC 2544 11.4", Level::Should, asks);
    ledger.note(
        "RFC 2544 7",
        Level::Must,
        "to set filters, nothing else of the device is changed",
        !done.by_command,
        "what the command does, the tester does not know",
    );
    ledger.note(
        "RFC 2544 11.4.1",
        Level::Plain,
        "of 25 filters, the thirteenth permits the test's frames",
        done.thirteenth && done.doubt.is_none(),
        doubt,
    );
    ledger.note(
        "RFC 2544 11.4.1",
        Level::Plain,
        "the filters are of given addresses",
        false,
        "that which permits has those of all flows of a port",
    );
}

fn addresses(ledger: &mut Ledger, setup: &Setup) {
    let done = match setup.networks {
        Some(networks) => format!("one pair, and then random ones in {networks} networks"),
        None => format!("{} flows in turn, between the addresses that the device is given", setup.flows),
    };
    let (section, level) = ("RFC 2544 12", Level::Should);
    if setup.bridged {
        let asks = "first one pair of addresses, then random Ethernet addresses of all that there are";
        let done = match setup.random_macs {
            true => "those of all flows are random, and no test was with one pair before",
            false => "the hosts' Ethernet addresses count up",
        };
        ledger.never(section, level, asks, done);
        return;
    }
    let asks = "first one pair of addresses, then random ones in 256 networks";
    ledger.note(section, level, asks, setup.networks.is_some_and(|networks| networks >= 256), done);
    routes(ledger, setup);
}

/// How a router gets to know where networks are (RFC 2544 13).
fn routes(ledger: &mut Ledger, setup: &Setup) {
    let spread = setup.networks.is_some();
    ledger.note(
        "RFC 2544 13",
        Level::Must,
        "a routing update with all networks of a trial is sent at its start",
        spread && setup.announced,
        match spread {
            true => &*setup.routing,
            false => "no update is sent: the device is connected to the networks, or has routes to them",
        },
    );
    if spread {
        // They are given the host of the first flow to a port.
        ledger.always("RFC 2544 13", Level::Should, "all networks behind a port have one next hop");
        let asks = "the update is repeated as often as the protocol has it";
        ledger.note("RFC 2544 13", Level::Plain, asks, setup.announced, &setup.routing);
    }
}

fn sizes(ledger: &mut Ledger, sizes: &[usize]) {
    ledger.note_sizes(
        "RFC 2544 9",
        Level::Should,
        "at least five frame sizes",
        Sizes::new(Wanted::AtLeast(5), sizes),
    );
    ledger.note_sizes(
        "RFC 2544 9.1",
        Level::Should,
        "frames of 64, 128, 256, 512, 1024, 1280 and 1518 bytes",
        Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), sizes),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_met_by_who_meets_them() {
        let good = Setup {
            sizes: ETHERNET_SIZES.to_vec(),
            ports: 2,
            senders: 2,
            flows: 512,
            stragglers: Duration::from_secs(2),
            settle: SETTLE,
            medium: true,
            modified: false,
            configuration: true,
            version: true,
            random_ports: true,
            random_macs: true,
            ..Setup::default()
        };
        let missed = |setup: &Setup| -> Vec<&str> { ledger(setup).deviations().map(|c| c.section).collect() };
        let never = ["RFC 2544 8", "RFC 4814 4.4"];
        let rest = ["RFC 2544 15", "RFC 2544 21", "RFC 2544 23 a", "RFC 2544 23 b"];
        let with = |some: &[&'static str]| [&never[..], some, &rest[..]].concat();
        let always = with(&["RFC 2544 11", "RFC 2544 12", "RFC 2544 13"]);
        assert_eq!(missed(&good), always);
        let networks = |count| Setup { networks: Some(count), routing: "by hand".to_owned(), ..good.clone() };
        let by_hand = missed(&networks(256));
        assert_eq!(by_hand.iter().filter(|section| **section == "RFC 2544 13").count(), 2);
        assert!(!by_hand.contains(&"RFC 2544 12") && missed(&networks(16)).contains(&"RFC 2544 12"));
        let announced = Setup { announced: true, ahead: AHEAD, ..networks(256) };
        assert!(["RFC 2544 13", "RFC 2544 23 a"].iter().all(|section| !missed(&announced).contains(section)));
        let bridged = Setup { bridged: true, ..good.clone() };
        let spread = Setup { bridged: true, ..networks(256) };
        assert_eq!(met(&spread, "RFC 2544 12"), (0, 1), "a bridge's are Ethernet addresses");
        assert_eq!((met(&bridged, "RFC 2544 13"), met(&bridged, "RFC 2544 23 a")), ((0, 0), (0, 0)));
        let each = |undone: &[&str]| Setup {
            each_modifier: Some(undone.iter().map(ToString::to_string).collect()),
            ..good.clone()
        };
        assert_eq!(missed(&each(&[])), with(&["RFC 2544 12", "RFC 2544 13"]));
        assert_eq!(missed(&each(&["management: nobody to ask"])), always);
        let filtered = |cases, doubt: Option<&str>| {
            let doubt = doubt.map(str::to_owned);
            let filters = Some(Filters { cases, thirteenth: true, doubt, by_command: false });
            missed(&Setup { filters, ..good.clone() })
                .iter()
                .filter(|section| **section == "RFC 2544 11.4")
                .count()
        };
        assert_eq!([filtered(2, None), filtered(1, None), filtered(2, Some("who knows"))], [0, 1, 1]);
        let third = |thirteenth| {
            let filters = Filters { cases: 2, thirteenth, by_command: true, ..Filters::default() };
            let setup = Setup { filters: Some(filters), ..good.clone() };
            assert_eq!(met(&setup, "RFC 2544 7"), (2, 3), "who knows what the command does");
            met(&setup, "RFC 2544 11.4.1")
        };
        assert_eq!([third(false), third(true)], [(0, 2), (1, 2)]);
        let untried = Setup { sizes: Vec::new(), untried: true, ..good.clone() };
        assert_eq!(missed(&untried).len(), ledger(&untried).clauses.len(), "nothing is met by no trial");
        let bare = Setup { sizes: vec![64, 512], senders: 1, ..Setup::default() };
        assert_eq!(missed(&bare).len(), always.len() + 12);
        let ledger = ledger(&bare);
        let sizes = ledger.deviations().find(|clause| clause.section == "RFC 2544 9.1").unwrap();
        assert_eq!(sizes.deviation.as_deref(), Some("not measured: 128, 256, 1024, 1280, 1518 bytes"));
    }

    /// The demands of a section that these setups meet, and how many there are.
    fn met(setup: &Setup, section: &str) -> (usize, usize) {
        let ledger = ledger(setup);
        let all: Vec<bool> = ledger
            .clauses
            .iter()
            .filter(|clause| clause.section == section)
            .map(|clause| clause.deviation.is_none())
            .collect();
        (all.iter().filter(|met| **met).count(), all.len())
    }

    #[test]
    fn what_was_not_sent_beside_is_not_judged() {
        let sections = ["RFC 2544 11.1", "RFC 2544 11.2", "RFC 2544 11.3"];
        let of = |setup: &Setup| sections.map(|section| met(setup, section));
        assert_eq!(of(&Setup::default()), [(0, 0); 3]);
        let all = vec![Beside::Broadcast, Beside::Management, Beside::Routing];
        for (at, only) in all.iter().enumerate() {
            let judged = of(&Setup { beside: vec![*only], ..Setup::default() });
            assert!((0..3).all(|other| (judged[other].1 > 0) == (other == at)), "{only:?}: {judged:?}");
        }
        let answers = Answers { asked: 9, right: 9, wrong: 0 };
        let exact = Setup { beside: all, answers, ..Setup::default() };
        assert_eq!(of(&exact), [(3, 3), (3, 3), (4, 5)]);
        assert_eq!(of(&Setup { uneven: Some("who knows"), ..exact.clone() }), [(2, 3), (2, 3), (3, 5)]);
        let unsent = Setup { beside_unsent: 7, ..exact.clone() };
        assert_eq!(of(&unsent), [(1, 3), (2, 3), (2, 5)]);
        let said =
            ledger(&unsent).deviations().filter_map(|clause| clause.deviation.clone()).collect::<Vec<_>>();
        assert!(said.iter().any(|why| why.starts_with("7 of the frames beside")), "{said:?}");
        let answers = Answers { asked: 9, right: 7, wrong: 1 };
        let doubtful = Setup { answers, ..exact.clone() };
        assert_eq!((met(&doubtful, "RFC 2544 11.2"), met(&doubtful, "RFC 2544 C.2.4.3")), ((2, 3), (1, 1)));
        let ahead = |ahead| met(&Setup { ahead, ..exact.clone() }, "RFC 2544 C.2.3");
        assert_eq!([ahead(Duration::ZERO), ahead(AHEAD)], [(0, 1), (1, 1)]);
    }

    #[test]
    fn reach_is_that_of_the_flows() {
        let of = |ports: &[&[usize]]| {
            let flow = crate::station::host_flow(0, (0, 0), (1, 0));
            let stream = |to: &&[usize]| crate::station::Stream {
                flows: to.iter().map(|to| (flow, Some(*to))).collect(),
                ..Default::default()
            };
            let Reach { all, in_turn } =
                Reach::of(&Plan { streams: ports.iter().map(stream).collect(), ..Plan::default() });
            (all, in_turn)
        };
        assert_eq!(of(&[&[1, 2, 1, 2], &[2, 0], &[0, 1]]), (true, true));
        assert_eq!(of(&[&[1, 1, 2, 2], &[2, 0], &[0, 1]]), (true, false));
        assert_eq!(of(&[&[1], &[2, 0], &[0, 1]]), (false, true));
        // Two that send, and two that do not.
        assert_eq!(of(&[&[2, 3], &[2, 3], &[], &[]]), (true, true));
        assert_eq!(of(&[&[2, 3], &[2, 2], &[], &[]]), (false, true));
    }

    #[test]
    fn paths_are_judged_by_what_was_done() {
        let two = Setup { ports: 2, senders: 2, flows: 8, ..Setup::default() };
        let four = Setup { ports: 4, senders: 4, flows: 12, ..Setup::default() };
        assert_eq!((met(&two, "RFC 2544 15"), met(&four, "RFC 2544 15")), ((1, 2), (0, 2)));
        assert_eq!((met(&two, "RFC 2544 16"), met(&four, "RFC 2544 16")), ((0, 0), (1, 4)));
        let reach =
            |all, in_turn| met(&Setup { reach: Reach { all, in_turn }, ..four.clone() }, "RFC 2544 16");
        assert_eq!([reach(true, true), reach(true, false)], [(3, 4), (2, 4)]);
        let halves = ledger(&Setup { senders: 2, ..four });
        assert!(
            halves.clauses.iter().any(|c| c.asks.contains("all output ports") && c.level == Level::Should)
        );
        assert_eq!(met(&two, "RFC 2544 25"), (1, 1));
    }
}
