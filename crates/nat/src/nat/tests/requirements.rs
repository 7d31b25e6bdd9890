// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements of RFC 4787 (UDP), RFC 5382 (TCP) and RFC 5508 (ICMP), by their numbers.

use super::*;

#[test]
fn udp_req_1_a_mapping_is_the_same_towards_everyone() {
    let mut nat = nat(HOME);
    let first = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    let outside = port(&first);
    assert_eq!(first, format!("192.0.2.1:{outside} > 203.0.113.1:53"));
    for peer in ["203.0.113.1 / udp 4000 > 54", "203.0.113.2 / udp 4000 > 53", "198.51.100.7 / udp 4000 > 9"]
    {
        assert_eq!(port(&out(&mut nat, S, &format!("ip 10.0.1.5 > {peer}")).unwrap()), outside);
    }
    assert_eq!((nat.len(), nat.mappings()), (4, 1));
    // Another inside port or address has another one (REQ-3: no overloading), and so has TCP.
    let other = port(&out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.1 / udp 4001 > 53").unwrap());
    let third = port(&out(&mut nat, S, "ip 10.0.1.6 > 203.0.113.1 / udp 4000 > 53").unwrap());
    assert_eq!(BTreeSet::from([outside, other, third]).len(), 3);
    assert_eq!(nat.mappings(), 3);
}

// conformance: RFC7857-7-a
#[test]
fn udp_req_5_and_6_mappings_last_and_only_the_inside_keeps_them() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside}");
    assert_eq!(come(&mut nat, 299 * S, &answer).unwrap(), "203.0.113.1:53 > 10.0.1.5:4000");
    // The answer has not made its time longer. The own address then gets what belongs to no mapping.
    assert_eq!(come(&mut nat, 301 * S, &answer).unwrap(), format!("203.0.113.1:53 > 192.0.2.1:{outside}"));
    assert!(nat.is_empty());
    let outside = port(&out(&mut nat, 301 * S, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    out(&mut nat, 500 * S, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside}");
    assert_eq!(come(&mut nat, 799 * S, &answer).unwrap(), "203.0.113.1:53 > 10.0.1.5:4000");
}

#[test]
fn udp_req_8_filters() {
    let cases = [
        ("endpoint-independent", [true, true, true]),
        ("address-dependent", [true, true, false]),
        ("address-and-port-dependent", [true, false, false]),
    ];
    for (filter, passes) in cases {
        let mut nat = nat(&format!("{HOME}\nfilter {filter}"));
        let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
        for (from, passes) in ["203.0.113.1 53", "203.0.113.1 54", "203.0.113.2 53"].into_iter().zip(passes) {
            let (peer, port) = from.split_once(' ').unwrap();
            let found = come(&mut nat, S, &format!("ip {peer} > 192.0.2.1 / udp {port} > {outside}"));
            let expected =
                if passes { Ok(format!("{peer}:{port} > 10.0.1.5:4000")) } else { Err(Cause::Filtered) };
            assert_eq!(found, expected, "{filter}");
        }
        // Whom outsiders write to makes no state.
        assert_eq!(nat.len(), 1);
        // When the owner has written to them, they may.
        out(&mut nat, 2 * S, "ip 10.0.1.5 > 203.0.113.2 / udp 4000 > 53").unwrap();
        let found = come(&mut nat, 2 * S, &format!("ip 203.0.113.2 > 192.0.2.1 / udp 53 > {outside}"));
        assert_eq!(found.unwrap(), "203.0.113.2:53 > 10.0.1.5:4000");
        nat.reap(u64::MAX, 10_000);
        assert!(nat.is_empty() && nat.peers.is_empty() && nat.mappings() == 0);
    }
}

#[test]
fn udp_req_9_hairpins_have_the_outside_source() {
    let mut nat = nat(HOME);
    let server = port(&out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 7000 > 53").unwrap());
    let found = come(&mut nat, S, &format!("ip 10.0.1.5 > 192.0.2.1 / udp 4000 > {server}")).unwrap();
    let client = port(&found);
    assert_eq!(found, format!("192.0.2.1:{client} > 10.0.1.6:7000"));
    let answer = come(&mut nat, S, &format!("ip 10.0.1.6 > 192.0.2.1 / udp 7000 > {client}")).unwrap();
    assert_eq!(answer, format!("192.0.2.1:{server} > 10.0.1.5:4000"));
    // An error about it finds its way, too.
    let mut error =
        error(3, "10.0.1.5", "192.0.2.1", &packet(&format!("ip 192.0.2.1 > 10.0.1.5 / udp {server} > 4000")));
    assert_eq!(go(&mut nat, S, &mut error, false), Outcome::Translated);
    assert_eq!(ends(&error), format!("192.0.2.1 > 10.0.1.6 about 10.0.1.6:7000 > 192.0.2.1:{client}"));
}

#[test]
fn udp_without_checksum_has_none_and_one_of_zero_is_written_as_ones() {
    let mut nat = nat(HOME);
    let mut ip = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 checksum 0 / payload 3");
    assert_eq!(go(&mut nat, 0, &mut ip, true), Outcome::Translated);
    assert_eq!(ip[26..28], [0, 0]);
    // Payloads of two bytes: one of them makes the checksum zero.
    let mut seen = false;
    for value in 0..=u16::MAX {
        let mut ip = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 / hex 0000");
        let old = u16::from_be_bytes([ip[26], ip[27]]);
        let new = !checksum::add(!old, value);
        let new = if new == 0 { 0xffff } else { new };
        ip[28..].copy_from_slice(&value.to_be_bytes());
        ip[26..28].copy_from_slice(&new.to_be_bytes());
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), true, &mut ahead);
        assert_eq!(nat.leaving(0, &mut ip, &ahead[0]), Outcome::Translated);
        check(&ip);
        assert_ne!(ip[26..28], [0, 0]);
        seen |= ip[26..28] == [0xff; 2];
    }
    assert!(seen);
}

#[test]
fn udp_req_14_later_fragments_are_not_guessed_at() {
    let mut nat = nat(HOME);
    let later = "ip 10.0.1.5 > 203.0.113.1 proto 17 offset 8 / payload 20";
    assert_eq!(out(&mut nat, 0, later), Err(Cause::Fragment));
    // To another address they pass untouched.
    assert_eq!(come(&mut nat, 0, later).unwrap(), "10.0.1.5:1 > 203.0.113.1:515");
}

#[test]
fn wrong_headers_and_checksums() {
    let mut nat = nat(HOME);
    let whole = packet("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80");
    for length in 0..whole.len() {
        let mut ip = whole[..length].to_vec();
        // Without addresses nobody knows whose it is.
        let expected = if length < 16 { Outcome::Unchanged } else { Outcome::Drop(Cause::Malformed) };
        assert_eq!(go(&mut nat, 0, &mut ip, true), expected);
    }
    let mut other = packet("ip 203.0.113.1 > 203.0.113.2 / tcp 4000 > 80")[..30].to_vec();
    assert_eq!(go(&mut nat, 0, &mut other, true), Outcome::Unchanged);
    // A checksum that is wrong stays wrong.
    let mut ip = whole;
    ip[36] ^= 1;
    let mut ahead = Vec::new();
    nat.look_ahead([&ip[..]].into_iter(), true, &mut ahead);
    assert_eq!(nat.leaving(0, &mut ip, &ahead[0]), Outcome::Translated);
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().unwrap()));
    assert!(!checksum::transport_v4_ok(src, dst, Protocol(6), &ip[20..]));
}

// conformance: RFC7857-2-a RFC7857-2.1-c RFC7857-2.2-a RFC7857-2.2-b
#[test]
fn tcp_times_follow_its_state() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    let left = |nat: &Nat, now: u64| {
        let session = nat.sessions().next().unwrap();
        ((session.expires_ns - now) / S, session.state.name())
    };
    assert_eq!(left(&nat, 0), (240, "asked"));
    come(&mut nat, S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA")).unwrap();
    out(&mut nat, 2 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    // REQ-5: at least 2 hours 4 minutes.
    assert_eq!(left(&nat, 2 * S), (7440, "open"));
    // RFC 7857, 2.2: a reset makes it short, the next segment long again.
    come(&mut nat, 3 * S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags R")).unwrap();
    assert_eq!(left(&nat, 3 * S), (240, "reset"));
    out(&mut nat, 4 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    assert_eq!(left(&nat, 4 * S), (7440, "open"));
    out(&mut nat, 5 * S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags FA").unwrap();
    assert_eq!(left(&nat, 5 * S), (7440, "half-closed"));
    come(&mut nat, 6 * S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags FA")).unwrap();
    assert_eq!(left(&nat, 6 * S), (240, "closed"));
    let session = nat.sessions().next().unwrap();
    assert_eq!((session.packets, session.bytes, session.began_ns), ([4, 3], [160, 120], 0));
    nat.reap(247 * S, 10);
    assert!(nat.is_empty());
}

// conformance: RFC7857-2-a
#[test]
fn tcp_both_sides_may_ask_at_once_and_a_stranger_makes_no_state() {
    let mut nat = nat(HOME);
    // REQ-2: simultaneous open.
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags S")).unwrap();
    for (line, leaving) in [
        ("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags SA".to_owned(), true),
        (format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA"), false),
        ("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A".to_owned(), true),
    ] {
        assert_eq!(go(&mut nat, 0, &mut packet(&line), leaving), Outcome::Translated);
    }
    assert_eq!(nat.sessions().next().unwrap().state.name(), "open");
    // REQ-3: the filter is as for UDP. A stranger's SYN passes without state; the answer makes it.
    let found =
        come(&mut nat, 0, &format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {outside} flags S")).unwrap();
    assert_eq!((found.as_str(), nat.len()), ("198.51.100.1:9 > 10.0.1.5:4000", 1));
    let answer = out(&mut nat, 0, "ip 10.0.1.5 > 198.51.100.1 / tcp 4000 > 9 flags SA").unwrap();
    assert_eq!((port(&answer), nat.len(), nat.mappings()), (outside, 2, 1));
    // A reset makes none.
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.9 / tcp 4009 > 80 flags R"), Err(Cause::NoMapping));
}

// conformance: RFC5508-3.1-1 RFC5508-3.1-1a RFC5508-3.2-2 RFC7857-11-a
#[test]
fn icmp_queries_have_identifiers_of_their_own() {
    let mut nat = nat(HOME);
    let query = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let id: u16 = query.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(query, format!("192.0.2.1 > 203.0.113.1 {id}"));
    // REQ-1: the same towards others; REQ-2: for 60 s.
    let other = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.2 / icmp echo id 7 seq 1").unwrap();
    assert_eq!(other, format!("192.0.2.1 > 203.0.113.2 {id}"));
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / icmp reply id {id} seq 1");
    assert_eq!(come(&mut nat, 59 * S, &answer).unwrap(), "203.0.113.1 > 10.0.1.5 7");
    assert_eq!(come(&mut nat, 61 * S, &answer).unwrap(), format!("203.0.113.1 > 192.0.2.1 {id}"));
    // A query from outside is for the router itself, with any identifier.
    out(&mut nat, 61 * S, "ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let ping = format!("ip 203.0.113.1 > 192.0.2.1 / icmp echo id {id} seq 1");
    assert_eq!(come(&mut nat, 61 * S, &ping).unwrap(), format!("203.0.113.1 > 192.0.2.1 {id}"));
    // And an answer that nobody has asked for does not leave.
    assert_eq!(out(&mut nat, 61 * S, "ip 10.0.1.5 > 203.0.113.7 / icmp reply id 9"), Err(Cause::NoMapping));
}

// conformance: RFC5508-4.2-4 RFC5508-4.2-4a RFC5508-4.2-5 RFC5508-4.2-5a RFC5508-7-10a
#[test]
fn icmp_errors_are_translated_with_what_they_quote() {
    let mut nat = nat(HOME);
    let mut left = packet("ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53 / payload 20");
    assert_eq!(go(&mut nat, 0, &mut left, true), Outcome::Translated);
    // From a router on the way: REQ-4 and REQ-5.
    let mut about = error(11, "198.51.100.9", "192.0.2.1", &left);
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "198.51.100.9 > 10.0.1.5 about 10.0.1.5:4000 > 203.0.113.1:53");
    // What quotes 8 bytes of the transport alone, of TCP: the checksum is not there.
    let mut syn = packet("ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80");
    assert_eq!(go(&mut nat, 0, &mut syn, true), Outcome::Translated);
    let mut short = error(3, "203.0.113.1", "192.0.2.1", &syn[..28]);
    let mut ahead = Vec::new();
    nat.look_ahead([&short[..]].into_iter(), false, &mut ahead);
    assert_eq!(nat.arriving(0, &mut short, &ahead[0], true), Outcome::Translated);
    assert_eq!(checksum::internet(&short[20..]), 0);
    assert_eq!(ends(&short), "203.0.113.1 > 10.0.1.5 about 10.0.1.5:4000 > 203.0.113.1:80");
    // From inside about an answer: also a router inside speaks by the outside address (REQ-5).
    let outside = u16::from_be_bytes([left[20], left[21]]);
    let mut answer = packet(&format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {outside} / payload 9"));
    assert_eq!(go(&mut nat, 0, &mut answer, false), Outcome::Translated);
    for speaker in ["10.0.1.5", "10.0.1.254"] {
        let mut refused = error(3, speaker, "203.0.113.1", &answer);
        assert_eq!(go(&mut nat, 0, &mut refused, true), Outcome::Translated);
        assert_eq!(
            ends(&refused),
            format!("192.0.2.1 > 203.0.113.1 about 203.0.113.1:53 > 192.0.2.1:{outside}")
        );
    }
    // About a ping.
    let mut ping = packet("ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1 / payload 8");
    assert_eq!(go(&mut nat, 0, &mut ping, true), Outcome::Translated);
    let mut about = error(3, "203.0.113.1", "192.0.2.1", &ping);
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "203.0.113.1 > 10.0.1.5 about 10.0.1.5 > 203.0.113.1 7");
    // About what nobody has sent: the router's own address gets it; from inside it does not leave.
    let about = error(3, "203.0.113.1", "192.0.2.1", &packet("ip 192.0.2.1 > 203.0.113.1 / udp 9 > 9"));
    assert_eq!(go(&mut nat, 0, &mut about.clone(), false), Outcome::Unchanged);
    let about = error(3, "10.0.1.5", "203.0.113.1", &packet("ip 203.0.113.1 > 10.0.1.5 / udp 9 > 9"));
    assert_eq!(go(&mut nat, 0, &mut about.clone(), true), Outcome::Drop(Cause::NoMapping));
    // Errors make no state and do not count (REQ-6).
    assert_eq!(nat.len(), 3);
}

// conformance: RFC7857-2.2-a
#[test]
fn a_refusal_leaves_by_the_mapping_alone() {
    let mut nat = nat(HOME);
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {outside} flags S")).unwrap();
    let reset = out(&mut nat, 0, "ip 10.0.1.5 > 198.51.100.1 / tcp 4000 > 9 flags RA").unwrap();
    assert_eq!((reset, nat.len()), (format!("192.0.2.1:{outside} > 198.51.100.1:9"), 1));
}

// conformance: RFC5508-4.3-6
#[test]
fn an_error_neither_keeps_nor_ends_a_session() {
    for (query, kind) in [("udp 4000 > 53", 3), ("tcp 4000 > 80 flags S", 11), ("icmp echo id 7 seq 1", 3)] {
        let mut nat = nat(HOME);
        let mut left = packet(&format!("ip 10.0.1.5 > 203.0.113.1 / {query} / payload 20"));
        assert_eq!(go(&mut nat, 0, &mut left, true), Outcome::Translated);
        let before: Vec<Session> = nat.sessions().collect();
        let mut about = error(kind, "198.51.100.9", "192.0.2.1", &left);
        assert_eq!(go(&mut nat, 30 * S, &mut about, false), Outcome::Translated);
        assert_eq!(nat.sessions().collect::<Vec<_>>(), before, "{query}");
    }
}

// conformance: RFC5508-5-7 RFC5508-5-7a RFC7857-12-a
#[test]
fn queries_and_errors_between_inside_hosts_pass() {
    let mut nat = nat(&format!("{HOME}\nstatic 10.0.3.9 to 192.0.2.9"));
    let server = port(&out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 7000 > 53").unwrap());
    let mut asks = packet(&format!("ip 10.0.1.5 > 192.0.2.1 / udp 4000 > {server} / payload 20"));
    assert_eq!(go(&mut nat, 0, &mut asks, false), Outcome::Translated);
    let outside = port(&ends(&asks));
    assert_eq!(ends(&asks), format!("192.0.2.1:{outside} > 10.0.1.6:7000"));
    // The other host refuses: the one that has asked hears of its own packet.
    let mut refusal = error(3, "10.0.1.6", "192.0.2.1", &asks);
    assert_eq!(go(&mut nat, 0, &mut refusal, false), Outcome::Translated);
    assert_eq!(ends(&refusal), format!("192.0.2.1 > 10.0.1.5 about 10.0.1.5:4000 > 192.0.2.1:{server}"));
    // A ping of a host with an address for itself, and its answer.
    let ping = come(&mut nat, 0, "ip 10.0.1.5 > 192.0.2.9 / icmp echo id 7 seq 1").unwrap();
    let id = ping.rsplit(' ').next().unwrap();
    assert_eq!(ping, format!("192.0.2.1 > 10.0.3.9 {id}"));
    let answer = come(&mut nat, 0, &format!("ip 10.0.3.9 > 192.0.2.1 / icmp reply id {id} seq 1")).unwrap();
    assert_eq!(answer, "192.0.2.9 > 10.0.1.5 7");
}
