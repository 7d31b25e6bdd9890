// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 8219 asks of tests of devices that carry one family of IP over the other, beyond latency and its variation ([`super::delay`]):
//! sizes, directions, traffic beside, and tests that there are not.

use super::{Ledger, Level, Sizes, Wanted};

/// Frame sizes for Ethernet in bytes, with FCS (RFC 8219 5.1.1).
pub const ETHERNET_SIZES: [usize; 13] =
    [64, 128, 256, 512, 768, 1024, 1280, 1518, 1522, 2048, 4096, 8192, 9216];

/// Which demands are met by a test with frames of this size, where so many ports of all send, and the link is known or not.
pub fn ledger(size: usize, senders: usize, ports: usize, linked: bool) -> Ledger {
    use Level::{Must, Plain, Should};
    let mut ledger = Ledger::default();
    ledger.never("RFC 8219 4", Should, "routing is dynamic", "the device has its routes before");
    ledger.note("RFC 8219 5.1", Must, "the report tells the medium", linked, "no link was named");
    ledger.note_sizes(
        "RFC 8219 5.1.1",
        Should,
        "frames of 64, 128, 256, 512, 768, 1024, 1280, 1518, 1522, 2048, 4096, 8192 and 9216 bytes",
        Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), &[size]),
    );
    ledger.note(
        "RFC 8219 5.3",
        Should,
        "traffic goes in both directions",
        senders > 1 && senders >= ports,
        format_args!("{senders} of {ports} ports sent"),
    );
    // The tester has no other frames.
    ledger.always("RFC 8219 5.3", Should, "the traffic is UDP's");
    ledger.never(
        "RFC 8219 5.3",
        Plain,
        "it is repeated with 10, 50 and 90 % of packets that need no translation",
        "all frames of the test are of the flows given",
    );
    for (section, what) in [
        (
            "RFC 8219 8",
            "for devices with state: concurrent TCP connections, and how fast they are established",
        ),
        ("RFC 8219 9", "for DNS64: the rate of DNS resolution"),
        ("RFC 8219 10", "degradation with the number of networks"),
    ] {
        let level = if section == "RFC 8219 8" { Should } else { Plain };
        ledger.never(section, level, what, "there is no such test");
    }
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_is_named() {
        let missed = |senders, linked| ledger(64, senders, 2, linked).deviations().count();
        // Routing, the other sizes, mixes, and three tests.
        assert_eq!([missed(2, true), missed(1, true), missed(2, false)], [6, 7, 7]);
    }
}
