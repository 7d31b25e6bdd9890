// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents ask of the contents of frames: their format (RFC 2544 8), and addresses and ports without a pattern (RFC 4814).

use super::setup::Setup;
use super::{Ledger, Level};

/// What every test frame is, for reports (RFC 2544 8).
pub const FORMAT: &str = "Ethernet II, IPv4 or IPv6 with a TTL of 64, UDP with a checksum, to port 7 unless ports are drawn at random; a payload of \
    18 bytes that say flow, number and time of departure, and then a fixed sequence of bytes";

/// Which demands on contents this setup meets.
pub(super) fn ledger(ledger: &mut Ledger, setup: &Setup) {
    format(ledger);
    patterns(ledger, setup);
}

/// No run has the document's own frames: these have no room for what distinguishes lost frames from late ones.
fn format(ledger: &mut Ledger) {
    ledger.never(
        "RFC 2544 8",
        Level::Should,
        "frames are exactly those of appendix C: UDP echo requests with a TTL of 10, no checksum, and bytes that count up",
        FORMAT,
    );
    // The demand before this one shows the format in every copy of the ledger, and the conditions of a record have it.
    ledger.always("RFC 2544 8", Level::Must, "the report has the format of the frames");
}

fn patterns(ledger: &mut Ledger, setup: &Setup) {
    mac_addresses(ledger, setup.random_macs);
    // They are drawn or counted once, before the first trial, and a seed draws the same again.
    ledger.always("RFC 4814 4.2.1", Level::Must, "all trials of one test use the same addresses");
    if setup.random_ports || setup.networks.is_some() {
        // The generator has every number of a range with the same probability.
        ledger.always("RFC 4814 3.2", Level::Should, "what is random is distributed uniformly");
    }
    ledger.never(
        "RFC 4814 4.4",
        Level::Should,
        "IP addresses are distributed at random, where devices share load by them",
        match setup.networks {
            Some(_) => "destinations are, of one source for each port",
            None if setup.flows <= setup.senders => "each port has one pair",
            None => "they are those of their networks in a fixed order, each once before one comes again",
        },
    );
    ledger.note(
        "RFC 4814 4.5",
        Level::Should,
        "UDP ports are drawn at random, of sources from 1024 to 65535, of destinations from 1 to 49151",
        setup.random_ports && setup.networks.is_none(),
        match (setup.random_ports, setup.networks) {
            (true, _) => "one pair was drawn for each port of the tester",
            (false, Some(_)) => "all flows of a port have the same, to port 7",
            (false, None) => "those of sources count up, and all go to port 7; --random-ports draws them",
        },
    );
}

/// Whether the hosts' Ethernet addresses are `drawn` at random, each by itself ([`crate::hosts::random_mac`]). If not, a router's are its
/// own and those of the tester's hosts, which say their IP addresses, and a bridge's hosts count up.
pub(super) fn mac_addresses(ledger: &mut Ledger, drawn: bool) {
    let mut note = |section, asks, done| ledger.note(section, Level::Should, asks, drawn, done);
    let done = "they are fixed, made from IP addresses, or count up; --random-macs draws them";
    note("RFC 4814 4.2", "Ethernet addresses are pseudorandom", done);
    let asks = "their second and third byte say the tester's port, counted from 1";
    let done = "they say the host's IP address, or nothing";
    note("RFC 4814 4.2", asks, done);
    let (asks, done) = ("of several addresses, each is pseudorandom, not only the first", "none is");
    note("RFC 4814 4.2.1", asks, done);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(setup: &Setup) -> Vec<String> {
        let mut all = Ledger::default();
        ledger(&mut all, setup);
        all.deviations().filter_map(|c| Some(format!("{}: {}", c.section, c.deviation.as_ref()?))).collect()
    }

    #[test]
    fn ports_are_random_if_each_flow_drew_its_own() {
        let setup = Setup { senders: 2, flows: 512, ..Setup::default() };
        let ports = |setup: &Setup| missed(setup).into_iter().find(|why| why.starts_with("RFC 4814 4.5"));
        assert!(ports(&setup).is_some_and(|why| why.contains("--random-ports")));
        let random = Setup { random_ports: true, ..setup.clone() };
        assert_eq!(ports(&random), None);
        // Those of networks are made from the first flow.
        let networks = Setup { networks: Some(256), ..random };
        assert!(ports(&networks).is_some_and(|why| why.contains("one pair was drawn")));
        let addresses = |setup: &Setup| missed(setup).into_iter().find(|why| why.starts_with("RFC 4814 4.4"));
        assert!(addresses(&networks).is_some_and(|why| why.contains("destinations are")));
        assert!(addresses(&Setup { flows: 2, ..setup }).is_some_and(|why| why.ends_with("one pair")));
    }
}
