// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single packets: which are balanced, and how they leave.

use super::*;

const BOTH: &str = "service web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.11\n\
    service dns udp 192.0.2.80 port 53\nserver dns 10.0.1.21 port 5353\n\
    service all any 192.0.2.81\nserver all 10.0.1.31\n\
    service six tcp 2001:db8::80 port 80-81\nserver six 2001:db8:1::11\n\
    service seven udp 2001:db8::80 direct\nserver seven 2001:db8:1::12\n";

#[test]
fn requests_go_to_servers() {
    let mut balancer = Balancer::new(policy(BOTH), 1, 0);
    let translated = |to: &str| Outcome::Translated(ip(to));
    for (line, outcome, left) in [
        (
            "ip 203.0.113.1 > 192.0.2.80 / tcp 9 > 80",
            Outcome::Direct(ip("10.0.1.11")),
            "203.0.113.1 9 > 192.0.2.80 80",
        ),
        (
            "ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53",
            translated("10.0.1.21"),
            "203.0.113.1 9 > 10.0.1.21 5353",
        ),
        (
            "ip 203.0.113.1 > 192.0.2.80 / udp 8 > 53 checksum 0",
            translated("10.0.1.21"),
            "203.0.113.1 8 > 10.0.1.21 5353",
        ),
        ("ip 203.0.113.1 > 192.0.2.81 / udp 9 > 7", translated("10.0.1.31"), "203.0.113.1 9 > 10.0.1.31 7"),
        ("ip 203.0.113.1 > 192.0.2.81 / icmp echo id 7", translated("10.0.1.31"), "203.0.113.1 > 10.0.1.31"),
        (
            "ip 203.0.113.1 > 192.0.2.81 proto 47 / payload 8",
            translated("10.0.1.31"),
            "203.0.113.1 > 10.0.1.31",
        ),
        ("ip6 ::9 > 2001:db8::80 / tcp 9 > 81", translated("2001:db8:1::11"), "::9 9 > 2001:db8:1::11 81"),
        (
            "ip6 ::9 > 2001:db8::80 / udp 9 > 1",
            Outcome::Direct(ip("2001:db8:1::12")),
            "::9 9 > 2001:db8::80 1",
        ),
        // Other ports, other addresses, and what is for the router.
        ("ip 203.0.113.1 > 192.0.2.80 / tcp 9 > 81", Outcome::Unchanged, "203.0.113.1 9 > 192.0.2.80 81"),
        ("ip 203.0.113.1 > 192.0.2.80 / icmp echo", Outcome::Unchanged, "203.0.113.1 > 192.0.2.80"),
        ("ip 203.0.113.1 > 192.0.2.81 / icmp reply id 8", Outcome::Unchanged, "203.0.113.1 > 192.0.2.81"),
        ("ip 203.0.113.1 > 192.0.2.82 / tcp 9 > 80", Outcome::Unchanged, "203.0.113.1 9 > 192.0.2.82 80"),
        ("ip 203.0.113.1 > 10.0.1.21 / udp 9 > 5353", Outcome::Unchanged, "203.0.113.1 9 > 10.0.1.21 5353"),
        ("ip 10.0.1.21 > 203.0.113.5 / udp 5353 > 9", Outcome::Unchanged, "10.0.1.21 5353 > 203.0.113.5 9"),
        (
            "ip 203.0.113.1 > 192.0.2.80 / icmp type 5 / ip 1.2.3.4 > 5.6.7.8 / udp 1 > 2",
            Outcome::Unchanged,
            "203.0.113.1 > 192.0.2.80",
        ),
    ] {
        for _ in 0..2 {
            let (done, bytes) = send(&mut balancer, 0, line);
            assert_eq!((done, ends(&bytes)), (outcome, left.to_owned()), "{line}");
            check(&bytes);
        }
    }
    // An address of IPv4 in a packet of IPv6 is nobody's.
    for line in
        ["ip6 ::9 > ::ffff:192.0.2.80 / tcp 9 > 80", "ip6 ::ffff:203.0.113.1 > 2001:db8::80 / tcp 9 > 81"]
    {
        assert_eq!(send(&mut balancer, 0, line).0, Outcome::Unchanged, "{line}");
    }
    // A reset that belongs to nothing begins nothing.
    let before = balancer.len();
    let reset = "ip 203.0.113.99 > 192.0.2.80 / tcp 9 > 80 flags R";
    assert_eq!((send(&mut balancer, 0, reset).0, balancer.len()), (Outcome::Direct(ip("10.0.1.11")), before));
    let dropped = |line: &str, cause: Cause| {
        let mut balancer = Balancer::new(policy(BOTH), 1, 0);
        assert_eq!(send(&mut balancer, 0, line).0, Outcome::Drop(cause), "{line}");
    };
    dropped("ip 203.0.113.1 > 192.0.2.80 offset 800 / udp 1 > 2", Cause::Fragment);
    dropped("ip 203.0.113.1 > 192.0.2.80 proto 6 / payload 5", Cause::Malformed);
    dropped("ip 10.0.1.21 > 203.0.113.1 offset 800 / udp 1 > 2", Cause::Fragment);
    let mut balancer = Balancer::new(policy("service web tcp 192.0.2.80 port 80"), 1, 0);
    assert_eq!(send(&mut balancer, 0, &tcp(1, "S")).0, Outcome::Drop(Cause::NoServer));
    let view = balancer.services().next().unwrap();
    assert_eq!((view.refused, view.taking, view.sessions), (1, 0, 0));
}

#[test]
fn answers_get_the_service_s_address() {
    let mut balancer = Balancer::new(policy(BOTH), 1, 0);
    for (request, answer, left) in [
        (
            "ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53",
            "ip 10.0.1.21 > 203.0.113.1 / udp 5353 > 9",
            "192.0.2.80 53 > 203.0.113.1 9",
        ),
        (
            "ip 203.0.113.1 > 192.0.2.81 / icmp echo id 7",
            "ip 10.0.1.31 > 203.0.113.1 / icmp reply id 7",
            "192.0.2.81 > 203.0.113.1",
        ),
        (
            "ip 203.0.113.1 > 192.0.2.81 proto 47 / payload 8",
            "ip 10.0.1.31 > 203.0.113.1 proto 47 / payload 8",
            "192.0.2.81 > 203.0.113.1",
        ),
        (
            "ip6 ::9 > 2001:db8::80 / tcp 9 > 81",
            "ip6 2001:db8:1::11 > ::9 / tcp 81 > 9 flags SA",
            "2001:db8::80 81 > ::9 9",
        ),
    ] {
        assert_eq!(send(&mut balancer, 0, answer).0, Outcome::Unchanged);
        send(&mut balancer, 0, request);
        let (done, bytes) = send(&mut balancer, 0, answer);
        assert_eq!((done, ends(&bytes)), (Outcome::Answered, left.to_owned()), "{answer}");
        check(&bytes);
        let (done, bytes) = send(&mut balancer, 0, answer);
        assert_eq!(done, Outcome::Answered);
        check(&bytes);
    }
    let dns = balancer.servers().find(|one| one.service == "dns").unwrap();
    assert_eq!((dns.sessions, dns.begun, dns.packets, dns.bytes), (1, 1, [1, 2], [28, 56]));
}

#[test]
fn errors_follow_the_packets_that_they_quote() {
    let mut balancer = Balancer::new(policy(BOTH), 1, 0);
    for request in [
        "ip 203.0.113.1 > 192.0.2.80 / tcp 9 > 80",
        "ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53",
        "ip6 ::9 > 2001:db8::80 / tcp 9 > 81",
    ] {
        send(&mut balancer, 0, request);
    }
    let translated = |to: &str| Outcome::Translated(ip(to));
    for (error, outcome, left, quoted) in [
        // A router on the way to the client cannot deliver an answer.
        (
            "ip 198.51.100.1 > 192.0.2.80 / icmp type 3 / ip 192.0.2.80 > 203.0.113.1 / tcp 80 > 9",
            Outcome::Direct(ip("10.0.1.11")),
            "198.51.100.1 > 192.0.2.80",
            "192.0.2.80 80 > 203.0.113.1 9",
        ),
        (
            "ip 198.51.100.1 > 192.0.2.80 / icmp type 3 / ip 192.0.2.80 > 203.0.113.1 / udp 53 > 9",
            translated("10.0.1.21"),
            "198.51.100.1 > 10.0.1.21",
            "10.0.1.21 5353 > 203.0.113.1 9",
        ),
        (
            "ip6 ::7 > 2001:db8::80 / icmp6 type 2 / ip6 2001:db8::80 > ::9 / tcp 81 > 9",
            translated("2001:db8:1::11"),
            "::7 > 2001:db8:1::11",
            "2001:db8:1::11 81 > ::9 9",
        ),
        // Of nobody's session: the hash decides, as it has for the packets.
        (
            "ip 198.51.100.1 > 192.0.2.80 / icmp type 11 / ip 192.0.2.80 > 203.0.113.7 / udp 53 > 7",
            translated("10.0.1.21"),
            "198.51.100.1 > 10.0.1.21",
            "10.0.1.21 5353 > 203.0.113.7 7",
        ),
        // The server, or a router in front of it, cannot deliver a request.
        (
            "ip 10.0.1.21 > 203.0.113.1 / icmp type 3 / ip 203.0.113.1 > 10.0.1.21 / udp 9 > 5353",
            Outcome::Answered,
            "192.0.2.80 > 203.0.113.1",
            "203.0.113.1 9 > 192.0.2.80 53",
        ),
        (
            "ip 10.0.0.1 > 203.0.113.1 / icmp type 3 / ip 203.0.113.1 > 10.0.1.21 / udp 9 > 5353",
            Outcome::Answered,
            "10.0.0.1 > 203.0.113.1",
            "203.0.113.1 9 > 192.0.2.80 53",
        ),
        (
            "ip6 2001:db8:1::11 > ::9 / icmp6 type 1 / ip6 ::9 > 2001:db8:1::11 / tcp 9 > 81",
            Outcome::Answered,
            "2001:db8::80 > ::9",
            "::9 9 > 2001:db8::80 81",
        ),
        // The client is itself a server of another service.
        (
            "ip 198.51.100.1 > 192.0.2.80 / icmp type 3 / ip 192.0.2.80 > 10.0.1.31 / udp 53 > 9",
            translated("10.0.1.21"),
            "198.51.100.1 > 10.0.1.21",
            "10.0.1.21 5353 > 10.0.1.31 9",
        ),
        // About others.
        (
            "ip 198.51.100.1 > 192.0.2.80 / icmp type 3 / ip 192.0.2.80 > 203.0.113.1 / udp 54 > 9",
            Outcome::Unchanged,
            "198.51.100.1 > 192.0.2.80",
            "192.0.2.80 54 > 203.0.113.1 9",
        ),
        (
            "ip 198.51.100.1 > 203.0.113.2 / icmp type 3 / ip 203.0.113.1 > 10.0.1.21 / udp 9 > 5353",
            Outcome::Unchanged,
            "198.51.100.1 > 203.0.113.2",
            "203.0.113.1 9 > 10.0.1.21 5353",
        ),
    ] {
        let (done, bytes) = send(&mut balancer, 0, error);
        assert_eq!((done, &ends(&bytes)[..], &quote(&bytes)[..]), (outcome, left, quoted), "{error}");
        check(&bytes);
    }
    // What is quoted may be cut off: 8 bytes behind its header.
    let mut bytes = packet(
        "ip 198.51.100.1 > 192.0.2.80 / icmp type 3 / ip 192.0.2.80 > 203.0.113.1 / udp 53 > 9 / payload 30",
    );
    bytes.truncate(56);
    bytes[2..4].copy_from_slice(&56u16.to_be_bytes());
    assert_eq!(send_bytes(&mut balancer, 0, &mut bytes), translated("10.0.1.21"));
    assert_eq!(quote(&bytes), "10.0.1.21 5353 > 203.0.113.1 9");
}
