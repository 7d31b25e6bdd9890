// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts of several VRFs that have the same addresses, and share the outside.

use super::*;
use crate::vrf;

const BOTH: &str =
    "translate 10.0.1.0/24 vrf red to 192.0.2.1\ntranslate 10.0.1.0/24 vrf blue to 192.0.2.1\n";
const VRFS: [&str; 2] = ["red", "blue"];

/// What becomes of a packet of a VRF that leaves or is for an outside address, with a shared reference.
fn shared_in(nat: &Nat, now: u64, name: &str, ip: &mut [u8], leaving: bool) -> Option<Outcome> {
    let (mut ahead, mut put_off, number) = (Vec::new(), PutOff::default(), vrf::number(name));
    nat.look_ahead(std::iter::once(&*ip), leaving, &mut ahead);
    match leaving {
        true => nat.leaving_vrf_shared(now, ip, number, &ahead[0], &mut put_off),
        false => nat.arriving_vrf_shared(now, ip, number, &ahead[0], &mut put_off),
    }
}

/// Sends a packet of a VRF out, or to an outside address: what it has become.
fn go_in(nat: &mut Nat, now: u64, name: &str, line: &str, leaving: bool) -> Result<Vec<u8>, Outcome> {
    go_packet_in(nat, now, name, packet(line), leaving)
}

fn go_packet_in(
    nat: &mut Nat,
    now: u64,
    name: &str,
    before: Vec<u8>,
    leaving: bool,
) -> Result<Vec<u8>, Outcome> {
    let number = vrf::number(name);
    let (mut ip, mut copy) = (before.clone(), before.clone());
    let (rng, sessions) = (nat.rng.clone(), nat.len());
    let tried = match leaving {
        true => nat.leaving_vrf(now, &mut copy, number, true),
        false => nat.arriving_vrf(now, &mut copy, number, true),
    };
    assert!(nat.len() <= sessions);
    nat.rng = rng;
    let shared = shared_in(nat, now, name, &mut ip, leaving);
    match shared {
        Some(Outcome::Drop(_)) | None => assert_eq!(before[..20], ip[..20]),
        Some(_) => assert_eq!(copy, ip, "what is only tried is the same"),
    }
    let outcome = shared.unwrap_or_else(|| match leaving {
        true => nat.leaving_vrf(now, &mut ip, number, false),
        false => nat.arriving_vrf(now, &mut ip, number, false),
    });
    let same = if matches!(outcome, Outcome::Watched(_)) { Outcome::Translated } else { outcome };
    assert_eq!(tried, same);
    consistent(nat);
    match outcome {
        Outcome::Translated | Outcome::Watched(_) if leaving => check(&ip),
        Outcome::Translated => {}
        Outcome::Unchanged => {
            assert_eq!(before, ip);
            return Err(outcome);
        }
        // An error about it goes to its source.
        other => {
            assert_eq!(before[..20], ip[..20], "{other:?}");
            return Err(other);
        }
    }
    Ok(ip)
}

fn out_of(nat: &mut Nat, name: &str, line: &str) -> Result<String, Outcome> {
    go_in(nat, 0, name, line, true).map(|ip| ends(&ip))
}

/// The VRF of the host that a packet is for, and its ends.
fn placed(nat: &Nat, ip: &mut [u8]) -> String {
    let number = nat.into_vrf(ip);
    check(ip);
    let name = VRFS.iter().find(|name| number == Some(vrf::number(name)));
    format!("{}: {}", name.unwrap_or(&"main"), ends(ip))
}

/// Sends a packet in from outside.
fn into(nat: &mut Nat, line: &str) -> Result<String, Outcome> {
    let mut ip = packet(line);
    match go(nat, 0, &mut ip, false) {
        Outcome::Translated | Outcome::Watched(_) => Ok(placed(nat, &mut ip)),
        other => Err(other),
    }
}

#[test]
fn hosts_with_the_same_address_have_ports_of_their_own() {
    let mut nat = nat(&format!("{BOTH}{HOME}\nlog ports"));
    for (protocol, to) in [("udp", 53), ("tcp", 80)] {
        let line = format!("ip 10.0.1.5 > 203.0.113.1 / {protocol} 4000 > {to}");
        let flags = if protocol == "tcp" { " flags S" } else { "" };
        let ports = VRFS.map(|name| port(&out_of(&mut nat, name, &format!("{line}{flags}")).unwrap()));
        let main = port(&out(&mut nat, 0, &format!("{line}{flags}")).unwrap());
        assert_eq!(BTreeSet::from([ports[0], ports[1], main]).len(), 3);
        // Answers, and the same port towards others.
        for (name, at) in VRFS.iter().zip(ports).chain([(&"main", main)]) {
            let answer = format!("ip 203.0.113.1 > 192.0.2.1 / {protocol} {to} > {at}");
            let want = format!("{name}: 203.0.113.1:{to} > 10.0.1.5:4000");
            assert_eq!(into(&mut nat, &answer), Ok(want));
        }
        let other = format!("ip 10.0.1.5 > 203.0.113.2 / {protocol} 4000 > 9{flags}");
        assert_eq!(port(&out_of(&mut nat, "red", &other).unwrap()), ports[0]);
    }
    let ping = out_of(&mut nat, "blue", "ip 10.0.1.5 > 203.0.113.1 / icmp echo id 7 seq 1").unwrap();
    let id: u16 = ping.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(
        into(&mut nat, &format!("ip 203.0.113.1 > 192.0.2.1 / icmp reply id {id} seq 1")),
        Ok("blue: 203.0.113.1 > 10.0.1.5 7".to_owned())
    );
    // Each is a subscriber.
    let names: BTreeSet<IpAddr> = nat.subscribers().map(|one| one.inside).collect();
    let red = vrf::listed(vrf::number("red"), Ipv4Addr::new(10, 0, 1, 5));
    assert!(names.len() == 3 && names.contains(&red), "{names:?}");
    let sessions = nat.len();
    let session = nat.sessions().find(|one| one.inside.0 == red).unwrap();
    assert!(nat.end(session.protocol, session.inside, session.peer));
    assert_eq!(nat.len(), sessions - 1);
    nat.reap(u64::MAX, 100);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers.hosts.len()), (0, 0, 0));
}

#[test]
fn errors_go_to_the_host_of_the_vrf_and_come_from_there() {
    let mut nat = nat(BOTH);
    for name in VRFS {
        let left = go_in(&mut nat, 0, name, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53", true).unwrap();
        let at = port(&ends(&left));
        // From a router outside, about what has left.
        let mut about = error(11, "198.51.100.1", "192.0.2.1", &left);
        assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
        let want = "198.51.100.1 > 10.0.1.5 about 10.0.1.5:4000 > 203.0.113.1:53";
        assert_eq!(placed(&nat, &mut about), format!("{name}: {want}"));
        // From the host, and from a router on the way to it, about an answer.
        let mut answer = packet(&format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {at} / payload 9"));
        assert_eq!(go(&mut nat, 0, &mut answer, false), Outcome::Translated);
        assert_eq!(placed(&nat, &mut answer), format!("{name}: 203.0.113.1:53 > 10.0.1.5:4000"));
        for (from, seen) in [("10.0.1.5", "192.0.2.1"), ("172.16.0.1", "172.16.0.1")] {
            let refused = error(3, from, "203.0.113.1", &answer);
            let refused = go_packet_in(&mut nat, 0, name, refused, true).unwrap();
            assert_eq!(ends(&refused), format!("{seen} > 203.0.113.1 about 203.0.113.1:53 > 192.0.2.1:{at}"));
        }
    }
}

#[test]
fn statements_lead_into_a_vrf() {
    let mut nat = nat(
        "translate 10.0.1.0/24 vrf red to 192.0.2.1\nforward tcp 443 on 192.0.2.1 to 10.0.1.9 vrf red port 8443\n\
         forward tcp 444 on 192.0.2.1 to 10.0.1.9 vrf blue\nstatic 10.0.1.7 vrf blue to 192.0.2.7\n",
    );
    for (line, want) in [
        ("192.0.2.1 / tcp 9 > 443 flags S", "red: 203.0.113.1:9 > 10.0.1.9:8443"),
        ("192.0.2.1 / tcp 9 > 444 flags S", "blue: 203.0.113.1:9 > 10.0.1.9:444"),
        ("192.0.2.7 / udp 9 > 53", "blue: 203.0.113.1:9 > 10.0.1.7:53"),
    ] {
        assert_eq!(into(&mut nat, &format!("ip 203.0.113.1 > {line}")), Ok(want.to_owned()));
    }
    let answer = "ip 10.0.1.9 > 203.0.113.1 / tcp 444 > 9 flags SA";
    assert_eq!(out_of(&mut nat, "blue", answer), Ok("192.0.2.1:444 > 203.0.113.1:9".to_owned()));
    let own = "ip 10.0.1.7 > 203.0.113.1 / udp 5 > 6";
    assert_eq!(out_of(&mut nat, "blue", own), Ok("192.0.2.7:5 > 203.0.113.1:6".to_owned()));
    // From host to host by an outside address: of another VRF, and of the same one.
    for (name, line, want) in [
        ("red", "ip 10.0.1.5 > 192.0.2.1 / tcp 7 > 444 flags S", "blue: 192.0.2.1:"),
        ("red", "ip 10.0.1.5 > 192.0.2.1 / tcp 7 > 443 flags S", "red: 192.0.2.1:"),
        // It has no translation of its own.
        ("blue", "ip 10.0.9.5 > 192.0.2.1 / tcp 7 > 443 flags S", "red: 10.0.9.5:7 > 10.0.1.9:8443"),
    ] {
        let mut ip = go_in(&mut nat, 0, name, line, false).unwrap();
        let found = placed(&nat, &mut ip);
        assert!(found.starts_with(want), "{found}");
    }
    let blue = |nat: &mut Nat, line: &str| go_in(nat, 0, "blue", line, true).unwrap_err();
    // What no statement is for stays as it is; nobody sends from outside addresses.
    assert_eq!(blue(&mut nat, "ip 10.0.1.5 > 203.0.113.1 / udp 5 > 6"), Outcome::Unchanged);
    assert_eq!(blue(&mut nat, "ip 192.0.2.7 > 203.0.113.1 / udp 5 > 6"), Outcome::Drop(Cause::Spoofed));
    let to_others = go_in(&mut nat, 0, "red", "ip 10.0.1.5 > 10.0.2.5 / udp 5 > 6", false);
    assert_eq!(to_others, Err(Outcome::Unchanged));
    assert_eq!(nat.prefix(), None);
}

#[test]
fn limits_and_other_statements() {
    let text = "translate 10.0.1.0/24 vrf red to 192.0.2.2 max-sessions 1\ntranslate 10.0.1.0/24 vrf blue to 192.0.2.4 block 8 max 1\n";
    let mut nat = nat(text);
    let line = |n: u16| format!("ip 10.0.1.5 > 203.0.113.1 / udp {n} > 53");
    let left = out_of(&mut nat, "red", &line(1)).unwrap();
    assert_eq!(out_of(&mut nat, "red", &line(2)), Err(Outcome::Drop(Cause::SubscriberLimit)));
    for n in 1..=8 {
        out_of(&mut nat, "blue", &line(n)).unwrap();
    }
    assert_eq!(out_of(&mut nat, "blue", &line(9)), Err(Outcome::Drop(Cause::SubscriberLimit)));
    // Statements of other VRFs come first, and sessions stay with their hosts.
    let more = format!("translate 10.9.0.0/16 vrf green to 192.0.2.3\n{text}");
    assert_eq!(nat.replace(policy(&more), &[address("192.0.2.1")], 3), 0);
    let answer = format!("ip 203.0.113.1 > 192.0.2.2 / udp 53 > {}", port(&left));
    assert_eq!(into(&mut nat, &answer), Ok("red: 203.0.113.1:53 > 10.0.1.5:1".to_owned()));
    assert_eq!(out_of(&mut nat, "red", &line(1)), Ok(left));
    // Red is gone.
    let blue = "translate 10.0.1.0/24 vrf blue to 192.0.2.4 block 8 max 1\n";
    assert_eq!(nat.replace(policy(blue), &[address("192.0.2.1")], 4), 1);
    assert_eq!(into(&mut nat, &answer), Err(Outcome::Unchanged), "its outside address is no one's");
    assert_eq!(out_of(&mut nat, "red", &line(1)), Err(Outcome::Unchanged));
}

#[test]
fn what_is_passed_on_or_known_needs_a_shared_reference_alone() {
    let mut nat = nat(&format!(
        "{BOTH}{HOME}\nstatic 10.0.1.7 vrf blue to 192.0.2.7\nforward tcp 443 on 192.0.2.1 to 10.0.1.9 vrf red\nalg ftp off\n"
    ));
    out_of(&mut nat, "red", "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    let (translated, unchanged) = (Some(Outcome::Translated), Some(Outcome::Unchanged));
    let drop = |cause| Some(Outcome::Drop(cause));
    for (name, leaving, line, want) in [
        // From nobody inside, or of a VRF without statements.
        ("red", true, "ip 172.16.0.1 > 203.0.113.1 / udp 1 > 2", unchanged),
        ("red", true, "ip 172.16.0.1 > 203.0.113.1 / tcp 1 > 2 flags S", unchanged),
        ("red", true, "ip 172.16.0.1 > 203.0.113.1 / icmp echo id 7 seq 1", unchanged),
        ("red", true, "ip 172.16.0.1 > 203.0.113.1 offset 800 / udp 1 > 2", unchanged),
        ("green", true, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53", unchanged),
        ("blue", true, "ip 192.0.2.7 > 203.0.113.1 / udp 1 > 2", drop(Cause::Spoofed)),
        ("red", true, "ip 192.0.2.1 > 203.0.113.1 / tcp 22 > 5000 flags SA", unchanged),
        // Of sessions, of addresses alone, and what may begin a session.
        ("red", true, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53", translated),
        ("blue", true, "ip 10.0.1.7 > 203.0.113.1 / udp 4000 > 53", translated),
        ("blue", true, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53", None),
        ("red", true, "ip 10.0.1.6 > 203.0.113.1 / udp 4000 > 53", None),
        ("red", true, "ip 10.0.1.6 > 203.0.113.1 offset 800 / udp 1 > 2", drop(Cause::Fragment)),
        // To nobody's outside address.
        ("red", false, "ip 10.0.1.5 > 10.0.2.5 / udp 1 > 2", unchanged),
        ("red", false, "ip 10.0.1.5 > 10.0.2.5 offset 800 / udp 1 > 2", unchanged),
        ("red", false, "ip 10.0.1.5 > 192.0.2.1 / udp 1 > 2", unchanged),
        ("red", false, "ip 172.16.0.1 > 192.0.2.1 / udp 1 > 2", unchanged),
        ("red", false, "ip 172.16.0.1 > 192.0.2.7 / udp 1 > 2", translated),
        ("red", false, "ip 10.0.1.5 > 192.0.2.7 / udp 1 > 2", None),
        ("blue", false, "ip 172.16.0.1 > 192.0.2.1 / tcp 1 > 443 flags S", None),
    ] {
        let mut ip = packet(line);
        assert_eq!(shared_in(&nat, 1, name, &mut ip, leaving), want, "{name}: {line}");
        let outcome = go_in(&mut nat, 1, name, line, leaving);
        match want {
            Some(Outcome::Translated) | None => assert!(outcome.is_ok(), "{name}: {line}"),
            Some(other) => assert_eq!(outcome, Err(other), "{name}: {line}"),
        }
    }
    // Errors, too: about nothing that is known, and of a router on the way.
    let about = packet("ip 203.0.113.9 > 10.0.1.5 / udp 1 > 4000 / payload 9");
    for from in ["172.16.0.1", "192.0.2.1"] {
        let mut ip = error(11, from, "203.0.113.9", &about);
        let before = ip.clone();
        assert_eq!(shared_in(&nat, 1, "green", &mut ip, true), unchanged);
        assert_eq!(before, ip);
    }
}

#[test]
fn an_address_of_a_vrf_is_not_that_of_the_main_table() {
    let mut nat = nat(&format!(
        "translate 10.0.1.0/24 vrf red to 192.0.2.1\n{HOME}\nforward tcp 443 to 10.0.1.9 vrf red\n"
    ));
    let main = out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap();
    // Who has the same address in another VRF, and no translation, is not the host of the main table.
    let mut ip =
        go_in(&mut nat, 0, "blue", "ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 443 flags S", false).unwrap();
    assert_eq!(placed(&nat, &mut ip), "red: 10.0.1.5:4000 > 10.0.1.9:443");
    // Nor is an error about a packet to it one about the session of that host.
    let about = packet("ip 203.0.113.1 > 10.0.1.5 / udp 53 > 4000 / payload 9");
    for name in VRFS {
        let refused = error(3, "172.16.0.1", "203.0.113.1", &about);
        assert_eq!(go_packet_in(&mut nat, 0, name, refused, true), Err(Outcome::Unchanged));
    }
    // A host that is known, but not its port: the quoted packet keeps its address.
    out_of(&mut nat, "red", "ip 10.0.1.5 > 203.0.113.1 / udp 4001 > 53").unwrap();
    let refused = error(3, "172.16.0.1", "203.0.113.1", &about);
    assert_eq!(go_packet_in(&mut nat, 0, "red", refused, true), Err(Outcome::Unchanged));
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {}", port(&main));
    assert_eq!(into(&mut nat, &answer), Ok("main: 203.0.113.1:53 > 10.0.1.5:4000".to_owned()));
}

#[test]
fn hosts_that_reach_nobody_are_forgotten() {
    let mut nat = nat(&format!("{BOTH}forward tcp 443 on 192.0.2.1 to 10.0.1.9 vrf red\n"));
    nat.split_hairpins(true);
    let known = nat.subscribers.hosts.len();
    for n in 10..20 {
        let line = format!("ip 10.0.1.{n} > 192.0.2.1 / tcp 1 > 443 flags S");
        assert_eq!(go_in(&mut nat, 0, "blue", &line, false), Err(Outcome::Drop(Cause::NoMapping)));
    }
    assert_eq!(nat.subscribers.hosts.len(), known);
}

#[test]
fn an_outside_link_in_a_vrf_guards_the_ports_of_the_router() {
    // Those of a translation are two; 22 is none of them.
    let mut nat = nat("translate 10.0.1.0/24 vrf red to 192.0.2.1 ports 5000-5001\n");
    let own = "ip 192.0.2.1 > 203.0.113.1 / udp";
    assert_eq!(
        out_of(&mut nat, "blue", &format!("{own} 5000 > 53")),
        Ok("192.0.2.1:5000 > 203.0.113.1:53".to_owned())
    );
    let host = |n: u8| format!("ip 10.0.1.{n} > 203.0.113.1 / udp 4000 > 53");
    assert_eq!(port(&out_of(&mut nat, "red", &host(5)).unwrap()), 5001);
    assert_eq!(out_of(&mut nat, "red", &host(6)), Err(Outcome::Drop(Cause::NoPort)));
    let answer = |to: u16| format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {to}");
    assert_eq!(into(&mut nat, &answer(5000)), Ok("main: 203.0.113.1:53 > 192.0.2.1:5000".to_owned()));
    assert_eq!(into(&mut nat, &answer(5001)), Ok("red: 203.0.113.1:53 > 10.0.1.5:4000".to_owned()));
    let same = out_of(&mut nat, "blue", &format!("{own} 22 > 53"));
    assert_eq!((same, nat.len()), (Err(Outcome::Unchanged), 2));
    // A port that a host has: another one, and the answer finds back. So does an error, and one about the answer.
    let mut nat = self::nat("translate 10.0.1.0/24 vrf red to 192.0.2.1\n");
    let taken = port(&out_of(&mut nat, "red", &host(5)).unwrap());
    let left = go_in(&mut nat, 0, "blue", &format!("{own} {taken} > 53"), true).unwrap();
    let given = port(&ends(&left));
    assert_ne!(given, taken);
    let mut back = packet(&answer(given));
    assert_eq!(go(&mut nat, 0, &mut back, false), Outcome::Translated);
    assert!(nat.is_for_own(&back));
    assert_eq!(placed(&nat, &mut back), format!("main: 203.0.113.1:53 > 192.0.2.1:{taken}"));
    let mut about = error(11, "198.51.100.1", "192.0.2.1", &left);
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    let want = format!("main: 198.51.100.1 > 192.0.2.1 about 192.0.2.1:{taken} > 203.0.113.1:53");
    assert_eq!(placed(&nat, &mut about), want);
    let refused =
        go_packet_in(&mut nat, 0, "blue", error(3, "192.0.2.1", "203.0.113.1", &back), true).unwrap();
    let want = format!("192.0.2.1 > 203.0.113.1 about 203.0.113.1:53 > 192.0.2.1:{given}");
    assert_eq!(ends(&refused), want);
    // What is reserved needs nothing, and no host gets it.
    let mut nat = self::nat("translate 10.0.1.0/24 vrf red to 192.0.2.1 ports 5000-5001\n");
    nat.reserve_own((5000, 5000));
    let reserved = out_of(&mut nat, "blue", &format!("{own} 5000 > 53"));
    assert_eq!((reserved, nat.len()), (Err(Outcome::Unchanged), 0));
    assert_eq!(port(&out_of(&mut nat, "red", &host(5)).unwrap()), 5001);
}

#[test]
fn nobody_outside_has_the_address_of_a_host_of_the_vrf() {
    let nat =
        nat("translate 10.0.1.0/24 vrf red to 192.0.2.1\nforward tcp 443 on 192.0.2.1 to 10.0.2.9 vrf red\n\
         static 10.0.3.9 vrf blue to 192.0.2.9\n");
    for (name, line, is_spoofed) in [
        ("red", "ip 10.0.1.5 > 192.0.2.1 / udp 1 > 2", true),
        ("red", "ip 203.0.113.1 > 10.0.1.5 / udp 1 > 2", true),
        ("blue", "ip 203.0.113.1 > 10.0.1.5 / udp 1 > 2", false),
        ("blue", "ip 203.0.113.1 > 10.0.3.9 / udp 1 > 2", true),
        // A forward alone hides no address.
        ("red", "ip 203.0.113.1 > 10.0.2.9 / udp 1 > 2", false),
    ] {
        assert_eq!(nat.is_spoofed_in(&packet(line), vrf::number(name)), is_spoofed, "{name}: {line}");
    }
}
