// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subscribers: their addresses, ports, blocks and limits (RFC 6888, RFC 7422).

use super::*;

#[test]
fn udp_req_2_a_subscriber_has_one_outside_address() {
    let mut nat = nat("translate 10.0.0.0/16 to 192.0.2.16/28");
    let mut used = BTreeSet::new();
    for host in 1..100 {
        let mut own = BTreeSet::new();
        for (n, what) in ["udp 1 > 2", "tcp 1 > 2", "udp 3 > 2", "icmp echo id 4"].iter().enumerate() {
            let found =
                out(&mut nat, n as u64, &format!("ip 10.0.0.{host} > 203.0.113.{n} / {what}")).unwrap();
            own.insert(found.split([' ', ':']).next().unwrap().to_owned());
        }
        assert_eq!(own.len(), 1);
        used.extend(own);
    }
    assert!(used.len() > 12, "all are in use: {used:?}");
    // REQ-8 of RFC 6888 and what follows: an address is forgotten with the last session.
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn ports_run_out_and_come_back() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2009");
    let mut given = BTreeSet::new();
    for n in 0..10 {
        given.insert(port(
            &out(&mut nat, n * S, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap(),
        ));
    }
    assert_eq!(given, (2000..2010).collect());
    assert_eq!(out(&mut nat, 10 * S, "ip 10.0.1.77 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
    // Those who have a port go on, with other peers, too; TCP has ports of its own.
    out(&mut nat, 10 * S, "ip 10.0.1.5 > 203.0.113.2 / udp 7 > 9").unwrap();
    out(&mut nat, 10 * S, "ip 10.0.1.5 > 203.0.113.2 / tcp 7 > 9").unwrap();
    assert_eq!(nat.subscribers().count(), 10);
    // RFC 6888, REQ-8: everyone could send to it, so it is nobody else's for 120 s, unless there is no other.
    nat.reap(305 * S, 20);
    assert_eq!(nat.mappings(), 5);
    let again = port(&out(&mut nat, 305 * S, "ip 10.0.1.77 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert!(given.contains(&again));
    let mut nat = self::nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2001");
    let first = port(&out(&mut nat, 0, "ip 10.0.1.1 > 203.0.113.1 / udp 7 > 9").unwrap());
    let other = port(&out(&mut nat, 301 * S, "ip 10.0.1.2 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert_ne!(first, other);
    // It also waits when the statements change.
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2002"), &[address("192.0.2.1")], 1);
    let third = port(&out(&mut nat, 302 * S, "ip 10.0.1.3 > 203.0.113.1 / udp 7 > 9").unwrap());
    assert_eq!(third, 2002);
    // Where its owner decides who may send, it is free at once.
    let mut nat = self::nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2000\nfilter address-dependent");
    for n in 0..3 {
        out(&mut nat, n * 301 * S, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap();
    }
}

#[test]
fn blocks_of_ports_belong_to_one_subscriber() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 ports 1024-1151 block 32 max 2");
    let mut first = BTreeMap::new();
    for host in 0..4 {
        for inside in 0..40 {
            let found =
                out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp {} > 9", 100 + inside))
                    .unwrap();
            let outside = found.split(':').next().unwrap().to_owned();
            let owner = first.entry((outside, port(&found) / 32)).or_insert(host);
            assert_eq!(*owner, host);
        }
    }
    // All 8 blocks are taken: 2 for each host.
    assert_eq!(first.len(), 8);
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 1 > 9"), Err(Cause::NoPort));
    for inside in 40..64 {
        out(&mut nat, 0, &format!("ip 10.0.1.0 > 203.0.113.1 / udp {} > 9", 100 + inside)).unwrap();
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.0 > 203.0.113.1 / udp 1 > 9"), Err(Cause::SubscriberLimit));
    // Its blocks are for TCP, too.
    out(&mut nat, 0, "ip 10.0.1.0 > 203.0.113.1 / tcp 1 > 9").unwrap();
    nat.reap(u64::MAX, 10_000);
    assert_eq!(nat.subscribers().count(), 0);
    out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 1 > 9").unwrap();
}

/// The outside address and the first port of the block of what has left.
fn block_of(ends: &str, size: u16) -> (String, u16) {
    (ends.split(':').next().unwrap().to_owned(), port(ends) / size * size)
}

// RFC 6888, REQ-8.
#[test]
fn a_block_that_comes_back_is_nobody_elses_for_a_while() {
    const BLOCKS: &str = "translate 10.0.1.0/24 to 192.0.2.1 ports 1024-1087 block 32 max 1";
    // What the first host sends, and whether its block waits for another one.
    for (text, what, waits) in [
        (BLOCKS.to_owned(), "udp 7 > 9", true),
        (BLOCKS.to_owned(), "icmp echo id 4", true),
        (BLOCKS.to_owned(), "tcp 7 > 9 flags S", false),
        (format!("{BLOCKS}\nfilter address-dependent"), "udp 7 > 9", false),
    ] {
        let mut seen = BTreeSet::new();
        for seed in 0..40 {
            let mut nat = Nat::new(policy(&text), &[], seed);
            out(&mut nat, 0, &format!("ip 10.0.1.1 > 203.0.113.1 / {what}")).unwrap();
            let first = nat.subscribers().next().unwrap().blocks[0].0;
            nat.reap(300 * S, 10);
            assert_eq!(nat.len(), 0);
            let other = out(&mut nat, 419 * S, "ip 10.0.1.2 > 203.0.113.1 / udp 7 > 9").unwrap();
            seen.insert(block_of(&other, 32).1 == first);
        }
        assert_eq!(seen, if waits { [false].into() } else { [false, true].into() }, "{text}: {what}");
    }
    // After that time it is anyone's: both blocks are given again. A shorter time may be set, also while blocks wait.
    for (hold, later) in [("", 120), ("\ntimeout hold 5s", 5)] {
        let text = BLOCKS.replace("max 1", "max 2") + "\ntimeout udp 1s" + hold;
        let mut nat = nat(&text);
        out(&mut nat, 0, "ip 10.0.1.1 > 203.0.113.1 / udp 7 > 9").unwrap();
        nat.reap(S, 10);
        assert_eq!(nat.subscribers.held.iter().count(), 1);
        nat.reap(later * S, 10);
        assert_eq!(nat.subscribers.held.iter().count(), 1, "{hold}");
        nat.replace(policy(&text), &[address("192.0.2.1")], 1);
        nat.reap((later + 1) * S, 10);
        assert_eq!(nat.subscribers.held.iter().count(), 0, "{hold}");
        assert!(nat.subscribers.space(address("192.0.2.1")).held() == 0);
    }
}

#[test]
fn who_comes_back_gets_its_block_again() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.8 ports 1024-2047 block 16\ntimeout udp 1s";
    let mut nat = nat(text);
    let first = block_of(&out(&mut nat, 0, "ip 10.0.1.1 > 203.0.113.1 / udp 7 > 9").unwrap(), 16);
    for n in 1..200 {
        // Now and then a connection of TCP alone: the block still waits for others.
        let what = if n % 3 == 0 { "tcp 7 > 9 flags S" } else { "udp 7 > 9" };
        let found = out(&mut nat, 10 * n * S, &format!("ip 10.0.1.1 > 203.0.113.1 / {what}")).unwrap();
        assert_eq!(block_of(&found, 16), first);
        assert_eq!(nat.subscribers.held.iter().count(), 0);
        nat.end(TCP, ("10.0.1.1".parse().unwrap(), 7), ("203.0.113.1".parse().unwrap(), 9));
        nat.reap((10 * n + 2) * S, 10);
        assert_eq!(nat.subscribers.held.iter().count(), 1);
    }
}

#[test]
fn better_a_block_that_should_wait_than_none() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 ports 1024-1055 block 16\ntimeout udp 1s";
    let mut nat = nat(text);
    let mut order = Vec::new();
    for host in 0..4 {
        let found = out(&mut nat, 2 * host * S, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp 7 > 9"));
        order.push(block_of(&found.unwrap(), 16));
        nat.reap((2 * host + 1) * S, 10);
    }
    // Each had another one. The next hosts get those that have waited longest on their address.
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 4);
    let next = block_of(&out(&mut nat, 9 * S, "ip 10.0.1.9 > 203.0.113.1 / udp 7 > 9").unwrap(), 16);
    assert_eq!(Some(&next), order.iter().find(|(outside, _)| *outside == next.0));
}

#[test]
fn ports_wait_that_other_statements_take_away() {
    // From blocks to blocks of other sizes: none has a port of the old one. From random ports to others.
    for (old, new) in [
        ("block 32", "block 16"),
        ("block 32", "ports 1024-1120"),
        ("", "block 32"),
        ("", "ports 1024-2000 max-ports 100"),
    ] {
        for seed in 0..20 {
            let statement = |rest: &str| format!("translate 10.0.1.0/24 to 192.0.2.1 {rest}");
            let mut nat = Nat::new(policy(&statement(old)), &[], seed);
            let before = out(&mut nat, S, "ip 10.0.1.1 > 203.0.113.1 / udp 7 > 9").unwrap();
            // The host has another address for a moment, so that its session cannot go on.
            nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.7"), &[], seed);
            assert_eq!(nat.len(), 0);
            nat.replace(policy(&statement(new)), &[], seed);
            for n in 0..60 {
                let found =
                    out(&mut nat, 2 * S, &format!("ip 10.0.1.2 > 203.0.113.1 / udp {n} > 9")).unwrap();
                assert_ne!(port(&found), port(&before), "{old} {new}");
            }
        }
    }
}

#[test]
fn deterministic_ports_are_those_that_are_computed() {
    let text = "translate 100.64.0.0/24 to 192.0.2.1-192.0.2.3 deterministic";
    let mut nat = nat(text);
    for host in [0, 85, 86, 255] {
        let inside = address("100.64.0.0") + host;
        let (outside, ports) = policy(text).translations[0].determined(inside).unwrap();
        for n in 0..20 {
            let found = out(
                &mut nat,
                0,
                &format!("ip {} > 203.0.113.1 / udp {} > 9", Ipv4Addr::from(inside), 100 + n),
            )
            .unwrap();
            assert!(found.starts_with(&format!("{}:", Ipv4Addr::from(outside))), "{found}");
            assert!((ports.0..=ports.1).contains(&port(&found)));
        }
    }
}

#[test]
fn rfc_6888_req_4_limits_of_subscribers() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 max-sessions 3 max-ports 2");
    for port in [1, 2] {
        out(&mut nat, 0, &format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 9")).unwrap();
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 3 > 9"), Err(Cause::SubscriberLimit));
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.2 / udp 1 > 9").unwrap();
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.3 / udp 1 > 9"), Err(Cause::SubscriberLimit));
    out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 1 > 9").unwrap();
}

#[test]
fn sessions_are_listed_and_ended() {
    let mut nat = nat(HOME);
    out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80").unwrap();
    let session = nat.sessions().next().unwrap();
    assert_eq!(
        (session.inside, session.peer),
        (("10.0.1.5".parse().unwrap(), 4000), ("203.0.113.1".parse().unwrap(), 80))
    );
    let mut seen = 0;
    assert_eq!(nat.some(0, 10, |_| seen += 1), None);
    assert_eq!(seen, 1);
    assert!(!nat.end(TCP, (session.peer.0.into(), session.peer.1), session.peer));
    assert!(nat.end(TCP, session.inside, session.peer));
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn who_has_had_which_ports_is_noted() {
    let events = |nat: &Nat, from: u64| -> Vec<String> {
        let (_, all) = nat.journal(from);
        all.iter().map(|(n, event)| format!("{n} {} {}", event.at_ns / S, event.what)).collect()
    };
    let own = [address("192.0.2.1")];
    let blocks = "translate 10.0.1.0/24 to 192.0.2.1 ports 1024-1055 block 16 max 1\nlog blocks";
    let mut nat = nat(blocks);
    for port in 1..4 {
        out(&mut nat, S, &format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 9")).unwrap();
    }
    let first = nat.subscribers().next().unwrap().blocks[0].0;
    let block = format!("- 10.0.1.5 - 192.0.2.1 {first} {} - -", first + 15);
    assert_eq!(events(&nat, 0), [format!("0 1 given {block}")]);
    nat.reap(400 * S, 100);
    assert_eq!(events(&nat, 1), [format!("1 400 returned {block}")]);
    // Ports, too; and other statements that end them.
    nat.replace(policy(&blocks.replace("log blocks", "log ports")), &own, 1);
    let outside = port(&out(&mut nat, 401 * S, "ip 10.0.1.6 > 203.0.113.1 / tcp 1 > 9").unwrap());
    let found = events(&nat, 2);
    assert!(found[0].starts_with("2 401 given - 10.0.1.6 - 192.0.2.1 "), "{found:?}");
    assert_eq!(found[1..], [format!("3 401 given tcp 10.0.1.6 1 192.0.2.1 {outside} {outside} - -")]);
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.9 block 16\nlog sessions"), &own, 1);
    let found = events(&nat, 4);
    assert_eq!(found.len(), 3, "{found:?}");
    let ended = format!("4 401 ended tcp 10.0.1.6 1 192.0.2.1 {outside} {outside} 203.0.113.1 9");
    assert_eq!(
        found[..2],
        [ended, format!("5 401 returned tcp 10.0.1.6 1 192.0.2.1 {outside} {outside} - -")]
    );
    assert!(found[2].starts_with("6 401 returned - 10.0.1.6 - 192.0.2.1 "), "{found:?}");
    // Sessions.
    let outside = port(&out(&mut nat, 402 * S, "ip 10.0.1.7 > 203.0.113.1 / udp 1 > 9").unwrap());
    let ends = format!("udp 10.0.1.7 1 192.0.2.9 {outside} {outside}");
    assert_eq!(
        events(&nat, 8),
        [format!("8 402 given {ends} - -"), format!("9 402 begun {ends} 203.0.113.1 9")]
    );
    nat.reap(900 * S, 100);
    let found = events(&nat, 10);
    assert_eq!(found[..1], [format!("10 900 ended {ends} 203.0.113.1 9")]);
    assert!(found.contains(&format!("12 900 returned {ends} - -")), "{found:?}");
    // Nothing, if nothing is said.
    nat.replace(policy(HOME), &[], 1);
    let next = nat.journal(0).0;
    out(&mut nat, 902 * S, "ip 10.0.1.6 > 203.0.113.1 / tcp 1 > 9").unwrap();
    assert_eq!(nat.journal(0).0, next);
}

#[test]
fn a_lack_of_room_is_noted_now_and_then() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 ports 1024-1024 max-sessions 2\nlog blocks");
    let lacks =
        |nat: &Nat| -> Vec<String> { nat.journal(0).1.iter().map(|(_, e)| e.what.to_string()).collect() };
    out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.1 / udp 7 > 9").unwrap();
    out(&mut nat, S, "ip 10.0.1.6 > 203.0.113.1 / udp 7 > 9").unwrap_err();
    assert_eq!(lacks(&nat), ["no-port udp 10.0.1.6 7 192.0.2.1 - - - - 1"]);
    out(&mut nat, S, "ip 10.0.1.5 > 203.0.113.2 / udp 7 > 9").unwrap();
    for second in 2..4 {
        for peer in 3..90 {
            let line = format!("ip 10.0.1.5 > 203.0.113.{peer} / udp 7 > 9");
            out(&mut nat, second * S, &line).unwrap_err();
        }
    }
    let found = lacks(&nat);
    assert_eq!(found.len(), 1 + 2 * 16);
    assert!(found[1..].iter().all(|one| one == "host-limit udp 10.0.1.5 7 - - - - - 2"), "{found:?}");
}

#[test]
fn a_lack_of_room_says_what_there_is_too_little_of() {
    // What others have sent before, what a host sends, and what is noted.
    let six = |from: &str, what: &str| format!("ip {from} > 203.0.113.9 / {what} > 9");
    for (text, before, last, want) in [
        ("max-sessions 1", &["udp 7"][..], "udp 8", "host-limit udp 10.0.1.5 8 - - - - - 1"),
        ("max-ports 1", &["udp 7"], "udp 8", "host-limit udp 10.0.1.5 8 - - - - - 1"),
        (
            "ports 4000-4007 block 2 max 1",
            &["udp 7", "udp 8"],
            "udp 9",
            "host-limit udp 10.0.1.5 9 - - - - - 2",
        ),
        ("ports 4000-4000", &["udp 7"], "udp 8", "no-port udp 10.0.1.5 8 192.0.2.1 - - - - 1"),
        ("ports 4000-4000 deterministic", &["udp 7"], "udp 8", "no-port udp 10.0.1.5 8 192.0.2.1 - - - - 1"),
        // No address has a port: there is none to be named.
        (",192.0.2.2 ports 4000-4000", &["from 6", "from 7"], "udp 8", "no-port udp 10.0.1.5 8 - - - - - 1"),
        ("\nsessions 1", &["answered"], "tcp 8", "table-full tcp 10.0.1.5 8 - - - - - 1"),
    ] {
        let inside = if text.contains("deterministic") { "10.0.1.5" } else { "10.0.1.0/24" };
        let space = if text.starts_with(',') { "" } else { " " };
        let mut nat = nat(&format!("translate {inside} to 192.0.2.1{space}{text}\nlog blocks"));
        for one in before {
            match one.strip_prefix("from ") {
                Some(host) => out(&mut nat, 0, &six(&format!("10.0.1.{host}"), "udp 7")).unwrap(),
                None if *one == "answered" => {
                    let left = out(&mut nat, 0, &six("10.0.1.6", "udp 7")).unwrap();
                    come(&mut nat, 0, &format!("ip 203.0.113.9 > 192.0.2.1 / udp 9 > {}", port(&left)))
                        .unwrap()
                }
                None => out(&mut nat, 0, &six("10.0.1.5", one)).unwrap(),
            };
        }
        out(&mut nat, S, &six("10.0.1.5", last)).unwrap_err();
        let noted = nat.journal(0).1.last().map(|(_, event)| event.what.to_string());
        assert_eq!(noted.as_deref(), Some(want), "{text}");
    }
}
