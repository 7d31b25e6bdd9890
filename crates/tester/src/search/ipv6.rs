// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 5180 asks of tests with IPv6, beyond RFC 2544: sizes, addresses, extension headers, IPv4 mixed with IPv6.

use std::net::{IpAddr, Ipv6Addr};

use super::{Ledger, Level, Sizes, Wanted};
use crate::extension::{self, CHAIN, Extension};
use crate::frame::Flow;

/// Frame sizes for Ethernet in bytes, with FCS (RFC 5180 5.1.1). The first has no room for the signature of a test frame.
pub const ETHERNET_SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Shares of the greatest rate, in percent, for frames with a hop-by-hop header (RFC 5180 5.3).
pub const HOP_BY_HOP_PERCENT: [u32; 3] = [1, 10, 50];
/// Tenths of the frames that are IPv4 in a mix (RFC 5180 7).
pub const MIXES: [u32; 3] = [9, 5, 1];
/// Headers whose traffic is measured by itself.
pub const SINGLE: [Extension; 4] =
    [Extension::Routing, Extension::Destination, Extension::Fragment, Extension::Authentication];

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Frame sizes in bytes, with FCS.
    pub sizes: Vec<usize>,
    /// Ports of the tester.
    pub ports: usize,
    /// Ports that send.
    pub senders: usize,
    /// How often everything was done.
    pub repeats: u32,
    /// Whether the tester has set up the device, with an address that ends in ::1 in a /64 of each half of 2001:2::/48.
    pub is_rig: bool,
    /// Whether the greatest rate is a medium's.
    pub medium: bool,
    /// Whether bursts were measured.
    pub back_to_back: bool,
    /// Chains of extension headers under which the procedures were done; an empty one is none.
    pub chains: Vec<Vec<Extension>>,
    /// Whether the least size was measured with all of these chains.
    pub least_with_all: bool,
    /// Shares of the greatest rate at which frames with a hop-by-hop header were sent, in percent.
    pub hop_by_hop: Vec<u32>,
    /// Shares at which the tester did not send all of them for some frame size.
    pub hop_by_hop_unsent: Vec<u32>,
    /// Whether the load of the device's processors was seen meanwhile.
    pub load_seen: bool,
    /// Tenths of the frames that were IPv4, of each mix; 10 is IPv4 alone.
    pub ipv4_tenths: Vec<u32>,
    /// Whether the flows keep to the addresses for such tests ([`is_in_place`]).
    pub in_place: bool,
    /// Whether one pair of addresses was measured, and then random destinations.
    pub random: bool,
}

/// Whether a flow's addresses are those set aside for tests, 2001:2::/48 (RFC 5180 8, erratum 1752), from one half to the other.
pub fn is_in_place(flow: &Flow) -> bool {
    let half = |address: IpAddr| match address {
        IpAddr::V6(address) => half_of(address),
        IpAddr::V4(_) => None,
    };
    matches!((half(flow.src), half(flow.dst)), (Some(src), Some(dst)) if src != dst)
}

fn half_of(address: Ipv6Addr) -> Option<bool> {
    let [a, b, c, d, ..] = address.segments();
    ([a, b, c] == [0x2001, 2, 0]).then_some(d & 0x8000 != 0)
}

/// Which of the demands were met.
pub fn ledger(done: &Done) -> Ledger {
    let mut ledger = Ledger::default();
    environment(&mut ledger, done);
    traffic(&mut ledger, done);
    addresses(&mut ledger, done);
    extension_headers(&mut ledger, done);
    modifiers(&mut ledger);
    conditions(&mut ledger, done);
    ledger
}

/// RFC 5180 3 and 4.
fn environment(ledger: &mut Ledger, done: &Done) {
    use Level::{Must, Plain};
    ledger.note(
        "RFC 5180 3",
        Must,
        "results tell how repeatable they are, and their variance",
        done.repeats > 1,
        "each condition was measured once; --repeat does it again, and results have all values",
    );
    if done.load_seen && !done.hop_by_hop.is_empty() {
        // The kernel's own counters are read.
        let asks = "the device's resources are told by another way than the interfaces of the test";
        ledger.always("RFC 5180 4", Must, asks);
    }
    // Receivers advertise the tester's hosts in trials, while the device warms up, and while it settles.
    ledger.always("RFC 5180 4", Plain, "the device is answered for neighbours during the test");
    ledger.never(
        "RFC 5180 4",
        Plain,
        "sources and destinations are one hop beyond the device",
        "they are its neighbours, but for random destinations in many networks",
    );
}

/// RFC 5180 5.1 and 5.4.
fn traffic(ledger: &mut Ledger, done: &Done) {
    use Level::Should;
    let asks = "Ethernet and SONET, where the device has both";
    ledger.never("RFC 5180 5.1", Should, asks, "Ethernet only: the tester has no other ports");
    let least = "84 bytes is the least with room for the tester's signature, as 5.1 expects".to_owned();
    ledger.note_sizes(
        "RFC 5180 5.1.1",
        Should,
        "frames of 64, 128, 256, 512, 1024, 1280 and 1518 bytes",
        Sizes { remark: Some((64, least)), ..Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), &done.sizes) },
    );
    ledger.note_sizes(
        "RFC 5180 5.1.1",
        Should,
        "jumbo frames too, as the device supports them",
        Sizes::new(Wanted::Above(1522), &done.sizes),
    );
    ledger.note(
        "RFC 5180 5.4",
        Should,
        "the streams run in both directions",
        done.senders > 1 && done.senders >= done.ports,
        format_args!("{} of {} ports sent", done.senders, done.ports),
    );
}

/// RFC 5180 5.2.
fn addresses(ledger: &mut Ledger, done: &Done) {
    use Level::{Must, Plain, Should};
    let elsewhere = "the device was set up elsewhere: its addresses the tester does not know";
    for (level, asks) in [
        (Must, "the prefixes at the device's ports have 126 bits, or 64 at most"),
        (Should, "the device's addresses lie in both halves of 2001:2::/48, of input and of output ports"),
        (Should, "they end in ::1"),
    ] {
        ledger.note("RFC 5180 5.2.1", level, asks, done.is_rig, elsewhere);
    }
    ledger.never(
        "RFC 5180 5.2.1",
        Plain,
        "iterations with prefixes of 48, 64, 126 and 128 bits for the destinations",
        "the device's routes have one length",
    );
    ledger.note(
        "RFC 5180 5.2.2",
        Should,
        "sources lie in one half of 2001:2::/48 and destinations in the other",
        done.in_place,
        "the flows have other addresses",
    );
    ledger.note(
        "RFC 5180 5.2.2",
        Should,
        "first one pair of addresses, then random destinations",
        done.random,
        "many pairs in turn, in one network on each side",
    );
    ledger.never(
        "RFC 5180 5.2.2",
        Should,
        "where neighbours are asked for, router advertisements tell a reachable time of 30 s",
        "the tester sends none, and does not set those of the device",
    );
}

/// RFC 5180 6.
fn modifiers(ledger: &mut Ledger) {
    use Level::{Plain, Should};
    let (alone, none) = ("modifiers are not applied one after the other here", "there are no filters here");
    ledger.never(
        "RFC 5180 6",
        Should,
        "the tests run first without modifiers, then with each by itself: management and routing frames, filters",
        alone,
    );
    let asks = "filters look at the upper-layer protocol, too, behind extension headers";
    ledger.never("RFC 5180 6.2.1", Should, asks, none);
    ledger.never("RFC 5180 6.2.2", Plain, "the tests are repeated with one filter and with 25", none);
    let asks =
        "it is verified that what they permit passes, with and without extension headers, and nothing else";
    ledger.never("RFC 5180 6.2.2", Should, asks, none);
}

/// RFC 5180 5.3.
fn extension_headers(ledger: &mut Ledger, done: &Done) {
    use Level::{Must, Plain, Should};
    let has = |headers: &[Extension]| done.chains.iter().any(|chain| chain == headers);
    let with_some = done.chains.iter().any(|chain| !chain.is_empty());
    ledger.note(
        "RFC 5180 5.3",
        Should,
        "the tests are done without extension headers and with a set of them",
        has(&[]) && with_some,
        if with_some { "only with them" } else { "only without them" },
    );
    let missing: Vec<String> =
        SINGLE.iter().filter(|header| !has(&[**header])).map(ToString::to_string).collect();
    let missing = if missing.is_empty() { String::new() } else { format!("not {}; ", missing.join(", ")) };
    ledger.note(
        "RFC 5180 5.3",
        Should,
        "each extension header is measured by itself",
        false,
        format_args!(
            "{missing}not ESP and mobility, which hide or replace the UDP by which the tester knows its frames"
        ),
    );
    ledger.note(
        "RFC 5180 5.3",
        Must,
        "traffic with a chain of two or more, without hop-by-hop: routing, destination options, fragment",
        has(&CHAIN),
        "the chain was not sent",
    );
    if has(&CHAIN) {
        let length = extension::length(&CHAIN);
        let asks = "the chain is longer than 32 bytes";
        ledger.note("RFC 5180 5.3", Should, asks, length > 32, format_args!("{length} bytes"));
    }
    let missing: Vec<String> = HOP_BY_HOP_PERCENT
        .iter()
        .filter(|share| !done.hop_by_hop.contains(share) || done.hop_by_hop_unsent.contains(share))
        .map(|share| format!("{share} %"))
        .collect();
    let mut why =
        if missing.is_empty() { Vec::new() } else { vec![format!("not at {}", missing.join(", "))] };
    if !done.medium && !done.hop_by_hop.is_empty() {
        why.push("no link was named: of the rate that the tester reaches by itself".to_owned());
    }
    ledger.note(
        "RFC 5180 5.3",
        Plain,
        "traffic with a hop-by-hop header at 1 %, 10 % and 50 % of the bandwidth",
        why.is_empty(),
        why.join("; "),
    );
    if !done.hop_by_hop.is_empty() {
        ledger.note(
            "RFC 5180 5.3",
            Plain,
            "the device's resources are monitored at each of these rates",
            done.load_seen,
            "its processors are not this machine's, or not known",
        );
    }
    if with_some || !done.hop_by_hop.is_empty() {
        // No frame is sent that has no room for them, and a size is that of the whole frame.
        ledger.always(
            "RFC 5180 5.3",
            Must,
            "the bytes of extension headers are reckoned with at small sizes",
        );
    }
    ledger.note(
        "RFC 5180 5.3",
        Should,
        "the least frame size is the same with extension headers and without",
        has(&[]) && with_some && done.least_with_all,
        match has(&[]) && with_some {
            true => "the least size has no room for all of these headers",
            false => "there was not both",
        },
    );
}

/// RFC 5180 7.
fn conditions(ledger: &mut Ledger, done: &Done) {
    let has = |headers: &[Extension]| done.chains.iter().any(|chain| chain == headers);
    let mut missing = Vec::new();
    for (met, what) in [
        (has(&[]), "without"),
        (SINGLE.iter().any(|header| has(&[*header])), "with one"),
        (has(&CHAIN), "with the chain"),
    ] {
        if !met {
            missing.push(what);
        }
    }
    ledger.note(
        "RFC 5180 7",
        Level::Should,
        "the tests are done without extension headers, with one, and with the chain",
        missing.is_empty(),
        format_args!("not {}", missing.join(", not ")),
    );
    ledger.note(
        "RFC 5180 7",
        Level::Must,
        "the tests are done without extension headers, and with one or several",
        has(&[]) && done.chains.iter().any(|chain| !chain.is_empty()),
        format_args!("not {}", missing.join(", not ")),
    );
    let mut missing = Vec::new();
    if !done.ipv4_tenths.contains(&10) {
        missing.push("IPv4 alone".to_owned());
    }
    let mixes = MIXES.iter().filter(|tenths| !done.ipv4_tenths.contains(tenths));
    if !has(&[]) {
        missing.push("IPv6 alone".to_owned());
    }
    missing.extend(mixes.map(|tenths| format!("{} % IPv4", tenths * 10)));
    ledger.note(
        "RFC 5180 7",
        Level::Should,
        "IPv4 alone, IPv6 alone, and both with 90, 50 and 10 % of IPv4",
        missing.is_empty(),
        format_args!("not {}", missing.join(", ")),
    );
    ledger.note(
        "RFC 5180 7.4",
        Level::Plain,
        "back-to-back frames are not measured: the test is no longer recommended",
        !done.back_to_back,
        "they were, as RFC 2544 has it",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_is_named() {
        let mut chains = vec![Vec::new(), CHAIN.to_vec()];
        chains.extend(SINGLE.map(|header| vec![header]));
        let all = Done {
            sizes: vec![84, 128, 256, 512, 1024, 1280, 1518, 9000],
            ports: 2,
            senders: 2,
            repeats: 3,
            is_rig: true,
            medium: true,
            back_to_back: false,
            chains,
            least_with_all: true,
            hop_by_hop: HOP_BY_HOP_PERCENT.to_vec(),
            hop_by_hop_unsent: Vec::new(),
            load_seen: true,
            ipv4_tenths: vec![10, 9, 5, 1],
            in_place: true,
            random: true,
        };
        let ledger = ledger(&all);
        let missed: Vec<&str> = ledger.deviations().map(|clause| clause.section).collect();
        // What cannot be met yet: hosts behind routers, SONET, 64 bytes, other prefix lengths, advertisements, headers that hide UDP, filters.
        let never = "4 5.1 5.1.1 5.2.1 5.2.2 5.3 6 6.2.1 6.2.2 6.2.2";
        assert_eq!(missed, never.split(' ').map(|section| format!("RFC 5180 {section}")).collect::<Vec<_>>());
        let told = |done: &Done, section: &str, asks: &str| -> Option<String> {
            let ledger = super::ledger(done);
            let found = ledger.clauses.iter().find(|c| c.section == section && c.asks.contains(asks));
            found.expect("the clause").deviation.clone()
        };
        let size = told(&all, "RFC 5180 5.1.1", "128").expect("64 is missing");
        assert!(size.starts_with("not measured: 64 (84 bytes"), "{size}");
        for (less, more) in [
            (Done { repeats: 1, ..all.clone() }, 1),
            (Done { is_rig: false, ..all.clone() }, 3),
            (Done { ports: 4, ..all.clone() }, 1),
            (Done { medium: false, ..all.clone() }, 1),
            (Done { back_to_back: true, ..all.clone() }, 1),
            (Done { load_seen: false, ..all.clone() }, 1),
            (Done { hop_by_hop_unsent: vec![50], ..all.clone() }, 1),
        ] {
            assert_eq!(super::ledger(&less).deviations().count(), missed.len() + more, "{less:?}");
        }
        let few = Done { chains: vec![Vec::new()], hop_by_hop: vec![1], ipv4_tenths: vec![5], ..all };
        assert_eq!(told(&few, "RFC 5180 5.3", "the same").as_deref(), Some("there was not both"));
        assert_eq!(told(&few, "RFC 5180 7", "with one").as_deref(), Some("not with one, not with the chain"));
        assert_eq!(
            told(&few, "RFC 5180 7", "IPv4 alone").as_deref(),
            Some("not IPv4 alone, 90 % IPv4, 10 % IPv4")
        );
        assert_eq!(told(&few, "RFC 5180 5.3", "bandwidth").as_deref(), Some("not at 10 %, 50 %"));
        assert_eq!(told(&few, "RFC 5180 5.3", "a set of them").as_deref(), Some("only without them"));
    }

    #[test]
    fn addresses_lie_in_both_halves() {
        let flow = |src: &str, dst: &str| Flow {
            src_mac: wire::MacAddr([2; 6]),
            dst_mac: wire::MacAddr([2; 6]),
            src: src.parse().expect("an address"),
            dst: dst.parse().expect("an address"),
            src_port: 1,
            dst_port: 7,
        };
        assert!(is_in_place(&flow("2001:2:0:1::5", "2001:2:0:8001::5")));
        assert!(is_in_place(&flow("2001:2:0:ffff::5", "2001:2::5")));
        for (src, dst) in [
            ("2001:2:0:1::5", "2001:2:0:2::5"),
            ("2001:db8::5", "2001:2:0:8001::5"),
            ("2001:2:1::5", "2001:2:0:8001::5"),
            ("198.18.0.1", "198.19.0.1"),
        ] {
            assert!(!is_in_place(&flow(src, dst)), "{src} {dst}");
        }
    }
}
