// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 8219 asks of tests of devices that carry one family of IP over the other, beyond latency and its variation ([`super::delay`]): devices
//! and routes, sizes, directions, other traffic, and tests that there are not.

use super::setup::Beside;
use super::{Ledger, Level, Sizes, Wanted};

/// Frame sizes for Ethernet in bytes, with FCS (RFC 8219 5.1.1).
pub const ETHERNET_SIZES: [usize; 13] =
    [64, 128, 256, 512, 768, 1024, 1280, 1518, 1522, 2048, 4096, 8192, 9216];

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Frame sizes in bytes, with FCS, of which there were trials.
    pub sizes: Vec<usize>,
    /// Ports of the tester.
    pub ports: usize,
    /// Those that send.
    pub senders: usize,
    /// Whether the report has the rate of the links.
    pub linked: bool,
    /// Whether frames of IPv4 were sent.
    pub has_ipv4: bool,
    /// Whether frames of IPv6 were.
    pub has_ipv6: bool,
    /// What was sent in addition to the test's frames.
    pub beside: Vec<Beside>,
    /// How often everything was done.
    pub repeats: u32,
}

/// Which demands are met.
pub fn ledger(done: &Done) -> Ledger {
    let mut ledger = Ledger::default();
    devices(&mut ledger, done);
    traffic(&mut ledger, done);
    tests(&mut ledger, done);
    ledger
}

/// RFC 8219 4.
fn devices(ledger: &mut Ledger, done: &Done) {
    use Level::Should;
    // Updates of routes are sent in a test of many networks; the others of such a run are not of the device's routing.
    ledger.never(
        "RFC 8219 4",
        Should,
        "routing is dynamic",
        "no protocol runs between tester and device: it has its routes before, or is told them one way",
    );
    let missing: Vec<&str> =
        [(Beside::Management, "management frames"), (Beside::Routing, "routing updates")]
            .into_iter()
            .filter_map(|(what, words)| (!done.beside.contains(&what)).then_some(words))
            .collect();
    ledger.note(
        "RFC 8219 4",
        Should,
        "management frames and routing updates are sent as RFC 2544, sections 11.2 and 11.3, has them",
        missing.is_empty(),
        format_args!("no {} beside the test's", missing.join(", no ")),
    );
    ledger.note(
        "RFC 8219 4.1",
        Should,
        "to test one device that translates, the tester has IPv4 at one side and IPv6 at the other",
        done.has_ipv4 && done.has_ipv6,
        if done.has_ipv4 { "all flows are IPv4's" } else { "all flows are IPv6's" },
    );
    let unknown = "what is between the ports that were named, the tester does not know";
    ledger.never(
        "RFC 8219 4.2",
        Should,
        "encapsulation and double translation are tested with two devices, and each by itself",
        unknown,
    );
    ledger.never(
        "RFC 8219 4.2",
        Should,
        "to test by itself what unpacks packets, the tester sends them packed",
        "it has no packets of one family in those of the other",
    );
}

/// RFC 8219 5.
fn traffic(ledger: &mut Ledger, done: &Done) {
    use Level::{Must, Plain, Should};
    ledger.never(
        "RFC 8219 5.1",
        Must,
        "what the device adds to frames is reckoned with, in the greatest rate too",
        "the greatest rate is that of frames as the tester sends them",
    );
    ledger.note("RFC 8219 5.1", Must, "the report tells the medium", done.linked, "no link was named");
    ledger.never(
        "RFC 8219 5.1",
        Should,
        "all interfaces have the larger MTU: 1280 bytes and what the device adds",
        "the tester sets no MTU for this",
    );
    let instead = "84 bytes take its place where IPv6 is translated to IPv4".to_owned();
    ledger.note_sizes(
        "RFC 8219 5.1.1",
        Should,
        "frames of 64, 128, 256, 512, 768, 1024, 1280, 1518, 1522, 2048, 4096, 8192 and 9216 bytes",
        Sizes {
            remark: done.has_ipv6.then_some((64, instead)),
            ..Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), &done.sizes)
        },
    );
    if done.has_ipv6 {
        let asks = "from IPv6 to IPv4, frames of 84 bytes take the place of those of 64";
        ledger.note_sizes("RFC 8219 5.1.1", Should, asks, Sizes::new(Wanted::All(vec![84]), &done.sizes));
    }
    ledger.note(
        "RFC 8219 5.3",
        Should,
        "traffic goes in both directions",
        done.senders > 1 && done.senders >= done.ports,
        format_args!("{} of {} ports sent", done.senders, done.ports),
    );
    // The tester has no other frames.
    ledger.always("RFC 8219 5.3", Should, "the traffic is UDP's");
    ledger.never(
        "RFC 8219 5.3",
        Plain,
        "it is repeated with 10, 50 and 90 % of packets that need no translation",
        "all frames of the test are of the flows given",
    );
}

/// RFC 8219 7 to 12.
fn tests(ledger: &mut Ledger, done: &Done) {
    use Level::{Plain, Should};
    ledger.never(
        "RFC 8219 7",
        Plain,
        "all tests: throughput, latency, delay variation, frame loss, back-to-back frames, recovery, reset",
        "throughput, latency and delay variation; junctor test rfc2544 has the others",
    );
    let none = "there is no such test";
    for (section, level, what) in [
        (
            "RFC 8219 8",
            Should,
            "for devices with state: how many TCP connections, and how fast they come to be",
        ),
        ("RFC 8219 9", Plain, "for DNS64: the rate of DNS resolution"),
        ("RFC 8219 10", Plain, "how far results are worse with many flows than with one"),
    ] {
        ledger.never(section, level, what, none);
    }
    let asks = "tests are repeated, and all runs summed up";
    ledger.note("RFC 8219 12", Should, asks, done.repeats > 1, "once; --repeat does it again");
    // [`super::delay`] has both, and a record's values are medians of this kind.
    ledger.always("RFC 8219 12", Should, "median and percentiles are those of RFC 2330, section 11.3");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_is_named() {
        let all = Done {
            sizes: ETHERNET_SIZES.into_iter().chain([84]).collect(),
            ports: 2,
            senders: 2,
            linked: true,
            has_ipv4: true,
            has_ipv6: true,
            beside: vec![Beside::Management, Beside::Routing],
            repeats: 2,
        };
        let missed = |done: &Done| ledger(done).deviations().count();
        // Routing, two devices, packed packets, overhead, MTU, native packets, and tests: these of 7 that are another command's, and three.
        assert_eq!(missed(&all), 10);
        for (done, more) in [
            (Done { senders: 1, ..all.clone() }, 1),
            (Done { linked: false, repeats: 1, ..all.clone() }, 2),
            (Done { beside: vec![Beside::Routing], ..all.clone() }, 1),
            (Done { has_ipv6: false, ..all.clone() }, 1),
            (Done { sizes: vec![84], ..all.clone() }, 1),
            (Done { sizes: vec![128], ..all.clone() }, 2),
        ] {
            assert_eq!(missed(&done), 10 + more, "{done:?}");
        }
        let told: Vec<String> =
            ledger(&Done::default()).deviations().filter_map(|clause| clause.deviation.clone()).collect();
        assert!(told.iter().any(|why| why == "no management frames, no routing updates beside the test's"));
    }
}
