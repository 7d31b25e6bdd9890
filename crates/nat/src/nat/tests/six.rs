// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 hosts (RFC 6146), whose packets come with an IPv4 address that stands for them.

use super::*;
use crate::hosts::is_stand_in;
use crate::journal::What;

const MIXED: &str = "translate 10.0.1.0/24,2001:db8:1::/48 to 192.0.2.1\nlog ports";

fn host(text: &str) -> u128 {
    text.parse::<std::net::Ipv6Addr>().unwrap().into()
}

/// Sends a packet of an IPv6 host out: `rest` follows its address in the line.
fn out6(nat: &mut Nat, now: u64, from: &str, rest: &str) -> Result<String, Cause> {
    nat.reap(now, 64);
    let stand_in = nat.stand_in(host(from))?;
    let mut ip = packet(&format!("ip {} > {rest}", Ipv4Addr::from(stand_in)));
    let (mut copy, rng, sessions) = (ip.clone(), nat.rng.clone(), nat.len());
    let tried = nat.leaving_six(now, &mut copy, true);
    assert!(nat.len() <= sessions);
    nat.rng = rng;
    let again = nat.stand_in(host(from))?;
    if again != stand_in {
        ip = packet(&format!("ip {} > {rest}", Ipv4Addr::from(again)));
    }
    let outcome = nat.leaving_six(now, &mut ip, false);
    if tried != Outcome::Drop(Cause::Full) {
        assert_eq!((tried, copy), (outcome, ip.clone()));
    }
    nat.forget_idle(again);
    consistent(nat);
    match outcome {
        Outcome::Drop(cause) => Err(cause),
        Outcome::Translated => {
            check(&ip);
            Ok(ends(&ip))
        }
        other => panic!("{other:?}"),
    }
}

/// Sends a packet in: the IPv6 host and the port that it is for.
fn come6(nat: &mut Nat, now: u64, line: &str) -> Result<String, Cause> {
    let mut ip = packet(line);
    match go(nat, now, &mut ip, false) {
        Outcome::Drop(cause) => return Err(cause),
        // It is for the router itself.
        Outcome::Unchanged => return Err(Cause::NoMapping),
        _ => {}
    }
    let destination = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
    assert!(is_stand_in(destination), "{}", ends(&ip));
    let host = std::net::Ipv6Addr::from(nat.host(destination).unwrap());
    Ok(format!("[{host}]:{}", u16::from_be_bytes([ip[22], ip[23]])))
}

// conformance: RFC6146-3.5.1-a RFC6146-3.5.1.1-b
#[test]
fn hosts_of_both_families_share_an_address() {
    let mut nat = nat(MIXED);
    let four = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let one = port(&out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap());
    let two = port(&out6(&mut nat, 0, "2001:db8:1::6", "203.0.113.1 / udp 4000 > 53").unwrap());
    assert!(four != one && one != two && two != four);
    // The same port towards everyone (RFC 6146, 3.5.1).
    assert_eq!(port(&out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.2 / udp 4000 > 99").unwrap()), one);
    // From those who were asked, and from others.
    for from in ["203.0.113.1 > 192.0.2.1 / udp 53", "203.0.113.9 > 192.0.2.1 / udp 7"] {
        assert_eq!(come6(&mut nat, 0, &format!("ip {from} > {one}")).unwrap(), "[2001:db8:1::5]:4000");
    }
    assert_eq!(nat.owner(17, ("192.0.2.1".parse().unwrap(), two)).unwrap().0.to_string(), "2001:db8:1::6");
    let subscribers: BTreeSet<String> = nat.subscribers().map(|one| one.inside.to_string()).collect();
    assert_eq!(subscribers, ["10.0.1.5", "2001:db8:1::"].map(str::to_owned).into());
    let noted: BTreeSet<String> = nat
        .journal(0)
        .1
        .iter()
        .filter_map(|(_, event)| match event.what {
            What::Port { inside, .. } => Some(inside.0.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(noted, ["10.0.1.5", "2001:db8:1::5", "2001:db8:1::6"].map(str::to_owned).into());
    // Others are not translated, and leave nothing behind.
    assert_eq!(out6(&mut nat, 0, "2001:db8:2::5", "203.0.113.1 / udp 1 > 2"), Err(Cause::NoMapping));
    nat.reap(u64::MAX, 100);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
    assert_eq!((nat.known_stand_in(host("2001:db8:1::5")), nat.subscribers.hosts.len()), (None, 0));
}

// conformance: RFC6146-5.3-a
#[test]
fn a_network_is_a_subscriber() {
    let mut nat = nat("translate 2001:db8::/32 to 192.0.2.0/29 block 8 max 1 max-sessions 12");
    let mut addresses = BTreeSet::new();
    for n in 0..8 {
        let left = out6(&mut nat, 0, &format!("2001:db8:7::{n}"), "203.0.113.1 / udp 9 > 9").unwrap();
        addresses.insert(left.split(':').next().unwrap().to_owned());
    }
    assert_eq!(addresses.len(), 1, "one outside address (RFC 4787, REQ-2)");
    let ninth = out6(&mut nat, 0, "2001:db8:7::9", "203.0.113.1 / udp 9 > 9");
    assert_eq!(ninth, Err(Cause::SubscriberLimit), "one block");
    out6(&mut nat, 0, "2001:db8:8::9", "203.0.113.1 / udp 9 > 9").unwrap();
    // As many addresses as there may be sessions are known, and not one more.
    assert_eq!(nat.subscribers.hosts.len(), 9);
}

#[test]
fn forwards_and_static_addresses_lead_to_ipv6_hosts() {
    let text = "translate 2001:db8:1::/48 to 192.0.2.1
forward tcp 443 to 2001:db8:1::20 port 8443
forward tcp 80 to 2001:db8:1::20
static 2001:db8:2::8-2001:db8:2::9 to 192.0.2.8-192.0.2.9";
    let mut nat = nat(text);
    assert_eq!(
        come6(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / tcp 999 > 443 flags S").unwrap(),
        "[2001:db8:1::20]:8443"
    );
    let answer = out6(&mut nat, 0, "2001:db8:1::20", "203.0.113.1 / tcp 8443 > 999 flags SA").unwrap();
    assert_eq!(answer, "192.0.2.1:443 > 203.0.113.1:999");
    assert_eq!(come6(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.9 / udp 7 > 7").unwrap(), "[2001:db8:2::9]:7");
    let left = out6(&mut nat, 0, "2001:db8:2::8", "203.0.113.1 / udp 7 > 7").unwrap();
    assert_eq!(left, "192.0.2.8:7 > 203.0.113.1:7");
    let owner = nat.policy().owner(TCP, "192.0.2.1".parse().unwrap(), 443).unwrap();
    assert_eq!((owner.0.to_string(), owner.1, owner.2), ("2001:db8:1::20".to_owned(), Some(8443), 2));
    nat.reap(u64::MAX, 100);
    assert_eq!((nat.len(), nat.subscribers.hosts.len()), (0, 3), "hosts of statements stay");
}

#[test]
fn no_packet_has_an_address_that_stands_for_a_host() {
    let mut nat = nat(MIXED);
    out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap();
    let stand_in = Ipv4Addr::from(nat.known_stand_in(host("2001:db8:1::5")).unwrap());
    let mut ahead = Vec::new();
    let line = format!("ip {stand_in} > 203.0.113.1 / udp 4000 > 53");
    let mut ip = packet(&line);
    nat.look_ahead([&ip[..]].into_iter(), true, &mut ahead);
    assert_eq!(nat.leaving(0, &mut ip, &ahead[0]), Outcome::Drop(Cause::Malformed));
    for (line, from_outside) in [
        (format!("ip 203.0.113.1 > {stand_in} / udp 53 > 4000"), true),
        (format!("ip {stand_in} > 192.0.2.1 / udp 53 > 4000"), true),
        (format!("ip {stand_in} > 192.0.2.1 / udp 53 > 4000"), false),
    ] {
        let mut ip = packet(&line);
        nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
        let outcome = nat.arriving(0, &mut ip, &ahead[0], from_outside);
        assert_eq!(outcome, Outcome::Drop(Cause::Malformed), "{line}");
    }
}

#[test]
fn other_statements_keep_the_sessions_that_they_allow() {
    let mut nat = nat(MIXED);
    let one = out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap();
    out6(&mut nat, 0, "2001:db8:1:9::5", "203.0.113.1 / udp 4000 > 53").unwrap();
    let own = [address("192.0.2.1")];
    let text = "translate 2001:db8:1::/64 to 192.0.2.1\nforward tcp 80 to 2001:db8:1:7::1\nlog ports";
    assert_eq!(nat.replace(policy(text), &own, 1), 1);
    consistent(&nat);
    assert_eq!(out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap(), one);
    let line = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {}", port(&one));
    assert_eq!(come6(&mut nat, 0, &line).unwrap(), "[2001:db8:1::5]:4000");
    assert_eq!(nat.subscribers.hosts.len(), 2, "the forward's host, and the one with a session");
    assert!(!nat.policy().gives_as(&policy(&format!("{text}\nprefix 2001:db8:64::/96"))));
}

#[test]
fn a_life_of_many_hosts_leaves_nothing() {
    let mut nat =
        nat("translate 2001:db8::/32,10.0.0.0/24 to 192.0.2.1-192.0.2.2 ports 2000-2063\nsessions 48");
    let (mut rng, mut now, mut translated) = (Rng::with_seed(11), 0, 0);
    for _ in 0..4000 {
        now += rng.u64(..20 * S);
        let from = format!("2001:db8:{}::{}", rng.u8(..4), rng.u8(..16));
        let rest = match rng.u8(..3) {
            0 => format!("203.0.113.{} / udp {} > 90", rng.u8(..4), rng.u8(..3)),
            1 => format!("203.0.113.{} / tcp {} > 90 flags S", rng.u8(..4), rng.u8(..3)),
            _ => format!("203.0.113.{} / icmp echo id {}", rng.u8(..4), rng.u8(..3)),
        };
        translated += u32::from(out6(&mut nat, now, &from, &rest).is_ok());
        let line = format!("ip 203.0.113.1 > 192.0.2.1 / udp 90 > {}", rng.u16(2000..2064));
        let _ = come6(&mut nat, now, &line);
        assert!(nat.subscribers.hosts.len() <= nat.len());
    }
    assert!(translated > 1000, "{translated}");
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers.hosts.len()), (0, 0, 0));
}

#[test]
fn a_host_keeps_its_outside_address_with_other_statements() {
    // It sends from a port that a forward leads to, and from others.
    let text = "translate 10.0.1.0/24 to 192.0.2.16/28\nforward udp 51820 on 192.0.2.16 to 10.0.1.5";
    for seed in 0..16 {
        let mut nat = Nat::new(policy(text), &[], seed);
        out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 51820 > 9").unwrap();
        for port in 1..20 {
            out(&mut nat, 0, &format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 9")).unwrap();
        }
        let more = format!("{text}\nforward tcp 80 on 192.0.2.16 to 10.0.1.6");
        assert_eq!(nat.replace(policy(&more), &[], seed + 1), 0);
        consistent(&nat);
    }
}

#[test]
fn exemptions_are_for_ipv4_hosts() {
    let mut nat = nat("translate 2001:db8:1::/48 to 192.0.2.1\nexempt 0.0.0.0/0 to 203.0.113.0/24");
    assert!(out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 1 > 2").is_ok());
}

// conformance: RFC6146-3.5.1-b RFC6146-3.5.1-c RFC6146-3.5.1-d RFC6146-3.5.1-e
#[test]
fn datagrams_come_in_while_a_session_lasts_and_as_the_filter_lets_them() {
    for (filter, strangers) in [("endpoint-independent", true), ("address-dependent", false)] {
        let mut nat = nat(&format!("translate 2001:db8:1::/48 to 192.0.2.9\nfilter {filter}"));
        let left = out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap();
        let from = |peer: &str| format!("ip {peer} > 192.0.2.9 / udp 53 > {}", port(&left));
        // UDP_MIN is two minutes, and UDP_DEFAULT five.
        assert_eq!(come6(&mut nat, 299 * S, &from("203.0.113.1")).unwrap(), "[2001:db8:1::5]:4000");
        assert_eq!(come6(&mut nat, 299 * S, &from("203.0.113.9")).is_ok(), strangers, "{filter}");
        assert_eq!(come6(&mut nat, 301 * S, &from("203.0.113.1")), Err(Cause::NoMapping));
    }
}

// conformance: RFC6146-3.5.2.2-a RFC6146-3.5.2.2-b RFC6146-3.5.2.2-c RFC6146-3.5.2.2-d
#[test]
fn a_connection_lasts_as_its_state_says() {
    // Segments with the side that sends them, 6 or 4; and how many seconds the connection then has.
    let life = [
        (6, "S", 240),
        (4, "S", 240),
        (6, "SA", 240),
        (4, "SA", 240),
        (6, "A", 7440),
        (4, "A", 7440),
        (4, "R", 240),
        (6, "A", 7440),
        (6, "FA", 7440),
        (4, "FA", 240),
    ];
    let mut nat = nat("translate 2001:db8:1::/48 to 192.0.2.9");
    let mut outside = 0;
    for (n, (side, flags, seconds)) in life.into_iter().enumerate() {
        let now = n as u64 * S;
        match side {
            6 => {
                let line = format!("203.0.113.1 / tcp 4000 > 80 flags {flags}");
                outside = port(&out6(&mut nat, now, "2001:db8:1::5", &line).unwrap());
            }
            _ => {
                let line = format!("ip 203.0.113.1 > 192.0.2.9 / tcp 80 > {outside} flags {flags}");
                assert_eq!(come6(&mut nat, now, &line).unwrap(), "[2001:db8:1::5]:4000");
            }
        }
        let left = nat.sessions().next().unwrap().expires_ns - now;
        // A session that is renewed may live a second longer.
        assert!((seconds..=seconds + 1).contains(&(left / S)), "after {n} segments: {left}");
    }
}

// conformance: RFC6146-3.5.3-a RFC6146-3.5.3-b
#[test]
fn pings_have_an_identifier_for_a_minute() {
    let mut nat = nat("translate 2001:db8:1::/48 to 192.0.2.9");
    let id = |left: &str| left.rsplit(' ').next().unwrap().to_owned();
    let one = out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let two = out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.2 / icmp echo id 7 seq 1").unwrap();
    assert_eq!(id(&one), id(&two));
    let answer = |id: &str| format!("ip 203.0.113.1 > 192.0.2.9 / icmp reply id {id} seq 1");
    assert!(come6(&mut nat, 59 * S, &answer(&id(&one))).unwrap().starts_with("[2001:db8:1::5]:"));
    assert_eq!(come6(&mut nat, 59 * S, &answer("1")), Err(Cause::NoMapping));
    assert_eq!(come6(&mut nat, 61 * S, &answer(&id(&one))), Err(Cause::NoMapping));
}

/// The only session of a host gives way to another one of the same host: it keeps its number.
#[test]
fn a_host_stays_while_its_packet_makes_room() {
    let mut nat = nat("translate 2001:db8:1::/48 to 192.0.2.9\nsessions 1");
    out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.1 / udp 4000 > 53").unwrap();
    let second = port(&out6(&mut nat, 0, "2001:db8:1::5", "203.0.113.2 / udp 4001 > 53").unwrap());
    assert_eq!(nat.len(), 1);
    let stranger = nat.stand_in(host("2001:db8:1::6")).unwrap();
    assert_ne!(Some(stranger), nat.known_stand_in(host("2001:db8:1::5")));
    let line = format!("ip 203.0.113.2 > 192.0.2.9 / udp 53 > {second}");
    assert_eq!(come6(&mut nat, 0, &line).unwrap(), "[2001:db8:1::5]:4001");
    nat.forget_idle(stranger);
    nat.reap(u64::MAX - 1, 100);
    assert_eq!((nat.len(), nat.mappings(), nat.known_stand_in(host("2001:db8:1::5"))), (0, 0, None));
}
