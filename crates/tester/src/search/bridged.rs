// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 2889 asks of tests of bridges, beyond what is searched for ([`super::bridge`]): addresses, signatures, meshes, rates, broadcast and
//! errored frames, and tests that there are not.

use std::time::Duration;

use super::bridge::destination;
use super::setup::ETHERNET_SIZES;
use super::{Ledger, Level, Sizes, Wanted, contents, seconds};

/// How a bridge was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// How long trials were that are no search's.
    pub trial: Duration,
    /// Frame sizes in bytes with FCS.
    pub sizes: &'a [usize],
    /// Whether the link's rate is known.
    pub linked: bool,
    /// Whether one clock starts all ports.
    pub here: bool,
}

/// What RFC 2889 asks of the parameters of a test, in a `section`.
fn parameters(ledger: &mut Ledger, section: &'static str, load: &Load<'_>) {
    use Level::{Plain, Should};
    ledger.note_sizes(
        section,
        Plain,
        "frames of 64, 128, 256, 512, 1024, 1280 and 1518 bytes",
        Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), load.sizes),
    );
    let trial = load.trial;
    let asks = "trials of 30 s";
    ledger.note(
        section,
        Plain,
        asks,
        trial >= Duration::from_secs(30),
        format_args!("trials of {}", seconds(trial)),
    );
    // A number of seconds that the user gives.
    ledger.always(section, Should, "the time of a trial can be set from 1 to 300 s");
}

/// The graph that RFC 2889 asks for, in a `section`: that of the page which is made of a record.
fn graph(ledger: &mut Ledger, section: &'static str, load: &Load<'_>) {
    let asks = "the results are a graph by frame sizes";
    ledger.note_sizes(section, Level::Should, asks, Sizes::new(Wanted::AtLeast(2), load.sizes));
    let asks = "a line of the graph is the theoretical rate";
    let done = "no link was named: it is what the tester reaches by itself";
    ledger.note(section, Level::Should, asks, load.linked, done);
}

/// RFC 2889 3 and 4: addresses, and the signature of frames.
fn frames(ledger: &mut Ledger, load: &Load<'_>) {
    use Level::{Must, Should};
    // They are made of a seed, which may be given.
    contents::mac_addresses(ledger, true);
    ledger.always("RFC 2889 3", Must, "the hosts' addresses can be chosen");
    ledger.never(
        "RFC 2889 3",
        Should,
        "the bridge is set to forget addresses later than learning and a trial take",
        "it forgets as it was set up to",
    );
    // Each sends all the time from when the bridge was shown it.
    ledger.always("RFC 2889 3", Must, "the bridge learns all addresses before the trials");
    ledger.always("RFC 2889 3", Should, "addresses are not forgotten before a trial ends");
    let done = "frames come through before; which are flooded is seen in the trials";
    ledger.never("RFC 2889 3", Should, "it is verified that they were learnt", done);
    ledger.always("RFC 2889 4", Must, "frames have a signature in their UDP data");
    ledger.note(
        "RFC 2889 4",
        Should,
        "it stands behind byte 56, or at the end",
        load.sizes.iter().all(|size| *size <= 64),
        "it stands in bytes 42 to 60",
    );
}

/// What RFC 2889 5.1 asks of forwarding, given whether the tester offered all of the greatest load.
pub fn forwarding_ledger(load: &Load<'_>, kept_up: bool) -> Ledger {
    let mut ledger = Ledger::default();
    frames(&mut ledger, load);
    let section = "RFC 2889 5.1.2";
    parameters(&mut ledger, section, load);
    // The plan has one host for each port, and no bursts.
    ledger.always(section, Level::Should, "the number of addresses of a port is a power of two");
    ledger.never(
        section,
        Level::Should,
        "bursts vary between 1 and 930 frames",
        "single frames, at a steady rate",
    );
    mesh(&mut ledger, load);
    rates(&mut ledger, kept_up);
    graph(&mut ledger, "RFC 2889 5.1.5", load);
    for (section, traffic) in [
        ("RFC 2889 5.2", "one port to many and many to one"),
        ("RFC 2889 5.3", "two bridges and the link between them"),
        ("RFC 2889 5.4", "half of the ports to the other half"),
        ("RFC 2889 5.5", "congestion control: head of line blocking and back pressure"),
        ("RFC 2889 5.6", "forward pressure: frames closer than the medium allows"),
    ] {
        ledger.never(section, Level::Plain, traffic, "there is no such test");
    }
    ledger
}

/// RFC 2889 5.1.3: who sends to whom.
fn mesh(ledger: &mut Ledger, load: &Load<'_>) {
    use Level::{Must, Should};
    let section = "RFC 2889 5.1.3";
    // A schedule has a number of frames, which are all sent, or named as unsent.
    ledger.always(section, Must, "ports send so many frames (frame based), or for so long (time based)");
    ledger.note(
        section,
        Should,
        "all ports start within 1 % of a trial",
        load.here,
        "agents start when they are told, and how far apart is not measured",
    );
    // So the plan has its flows, in the order of the document's table.
    ledger.always(section, Must, "each port sends to all others in turn, beginning with its neighbour");
    ledger.always(section, Must, "for every address learning frames are sent");
}

/// RFC 2889 5.1.4: what is counted and reported.
fn rates(ledger: &mut Ledger, kept_up: bool) {
    use Level::{Must, Plain, Should};
    let section = "RFC 2889 5.1.4";
    destination(ledger, section);
    // What arrives at another port than the flow's has an account of its own, and what is not the tester's, too.
    ledger.always(section, Must, "frames that were flooded are not counted as received");
    ledger.always(section, Must, "frames of the bridge's own are not counted as received");
    // Of every trial.
    ledger.always(section, Should, "frame loss is reported");
    // They are what a search does, and what is measured behind it.
    ledger.always("RFC 2889 5.1.4.1", Must, "the load is varied to find the throughput");
    let section = "RFC 2889 5.1.4.2";
    ledger.always(section, Must, "the forwarding rate at the greatest load is told, with that load");
    let done = "the tester could not offer all of it: what it did offer is told";
    ledger.note(section, Plain, "the greatest load is the medium's", kept_up, done);
    ledger.always(section, Must, "the greatest forwarding rate of several loads is told, with its load");
}

/// What RFC 2889 5.10 asks of broadcast frames.
pub fn broadcast_ledger(load: &Load<'_>) -> Ledger {
    let mut ledger = Ledger::default();
    parameters(&mut ledger, "RFC 2889 5.10.2", load);
    let section = "RFC 2889 5.10.3";
    // The first port sends, and each other port has an account of its own.
    ledger.always(section, Level::Plain, "one port sends, and all others are measured");
    ledger.never(
        section,
        Level::Plain,
        "the latency to each port is that of a single frame",
        "it is that of all frames of a stream at the throughput, to all ports together",
    );
    // The list of trials has the first; the throughput is the second, of all that was offered.
    ledger.always("RFC 2889 5.10.4", Level::Should, "frame loss is reported");
    ledger.always("RFC 2889 5.10.4", Level::Should, "the forwarding rate is reported, with its load");
    graph(&mut ledger, "RFC 2889 5.10.5", load);
    ledger
}

/// What RFC 2889 5.9 asks of errored frames, as far as ports without access to the frame check sequence can do it: these
/// errors were sent. None where the ports send nothing of the kind.
pub fn errored_ledger(sent: Option<&[&str]>) -> Ledger {
    let mut ledger = Ledger::default();
    let done = match sent {
        None => "agents send what makes up flows only: none".to_owned(),
        // Linux takes a frame with an FCS of its own (SO_NOFCS) for few drivers; a virtual cable's refuses it, and its frames have none.
        Some(kinds) => {
            format!("the tester's ports send whole frames with a right FCS only: {}", kinds.join(" and "))
        }
    };
    ledger.note(
        "RFC 2889 5.9.3",
        Level::Must,
        "each of the errors is checked: oversize, undersize, CRC, dribble bit and alignment errors",
        false,
        done,
    );
    if sent.is_some() {
        let done = "a hundred of each, as fast as they are sent";
        ledger.never("RFC 2889 5.9.2", Level::Should, "the test is run with several loads", done);
        ledger.never("RFC 2889 5.9.2", Level::Plain, "trials of 30 s", done);
        // The text has the word, and the share of frames that came through.
        ledger.always(
            "RFC 2889 5.9.5",
            Level::Must,
            "for each error it is told whether the bridge passes or fails",
        );
    }
    ledger
}

/// Of addresses, where there were no lessons, and why.
pub fn no_addresses_ledger(why: &str) -> Ledger {
    let mut ledger = Ledger::default();
    for (section, what) in
        [("RFC 2889 5.7", "the address caching capacity"), ("RFC 2889 5.8", "the address learning rate")]
    {
        ledger.never(section, Level::Plain, what, format_args!("not tested: {why}"));
    }
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_meets_and_what_a_poor_one_misses() {
        let good = Load { trial: Duration::from_secs(30), sizes: &ETHERNET_SIZES, linked: true, here: true };
        let poor = Load { trial: Duration::from_secs(15), sizes: &[64], linked: false, here: false };
        let missed = |ledger: Ledger| ledger.deviations().count();
        // What no run does: tests, addresses, and bursts; and the signature is not at the end of long frames.
        let never = 5 + 1 + 2;
        assert_eq!(missed(forwarding_ledger(&good, true)), never + 1);
        // Sizes, twice, times, the link, the load, and the clocks.
        assert_eq!(missed(forwarding_ledger(&poor, false)), never + 6);
        assert_eq!((missed(broadcast_ledger(&good)), missed(broadcast_ledger(&poor))), (1, 5));
        assert_eq!([None, Some(&["oversize"][..])].map(|sent| missed(errored_ledger(sent))), [1, 3]);
    }
}
