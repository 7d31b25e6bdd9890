// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults that translators are known for: ports that run out or are lost, sessions that stay, hairpins with several outside addresses, and tables that stay full.

use super::*;

/// Each host of a network asks once; how many find room.
fn ask_all(nat: &mut Nat, now: u64, what: &str) -> usize {
    (0..256).filter(|n| out(nat, now, &format!("ip 10.0.1.{n} > 203.0.113.1 / {what}")).is_ok()).count()
}

#[test]
fn ports_that_run_out_disturb_nobody_who_has_one_and_come_back() {
    for (text, room, wait) in [
        ("192.0.2.1 ports 2000-2063", 64, 120),
        ("192.0.2.1-192.0.2.2 ports 2000-2031", 64, 120),
        ("192.0.2.1-192.0.2.2 ports 2000-2127 block 4", 64, 120),
    ] {
        let mut nat = nat(&format!("translate 10.0.1.0/24 to {text}"));
        for round in 0..4 {
            let now = round * 1000 * S;
            assert_eq!(ask_all(&mut nat, now, "udp 7 > 9"), room, "{text}, round {round}");
            let known: Vec<Session> = nat.sessions().collect();
            // Hundreds are refused again and again, and those who have a port go on with it.
            ask_all(&mut nat, now + S, "udp 8 > 9");
            for one in &known {
                let line = format!("ip {} > 203.0.113.1 / udp 7 > 9", one.inside.0);
                assert_eq!(port(&out(&mut nat, now + 2 * S, &line).unwrap()), one.outside.1);
            }
            nat.reap(now + 310 * S, 1000);
            assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
            nat.reap(now + (310 + wait) * S, 1000);
        }
    }
}

#[test]
fn no_port_is_lost_and_none_is_given_twice() {
    // A life of packets, ends, refusals, rehearsals and other statements; then every port must be there.
    let texts = [
        "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031\nsessions 48",
        "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031 block 4 max 2\nsessions 48",
        "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031\nfilter address-dependent\nalg tftp on\nalg sip on\nsessions 48",
        "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031\nforward udp 9 to 10.0.1.3\nstatic 10.0.1.4 to 192.0.2.4\nsessions 48",
    ];
    let mut rng = Rng::with_seed(5);
    let mut nat = nat(texts[0]);
    let (mut now, mut translated) = (0, 0);
    for n in 0..8000u32 {
        now += rng.u64(..10 * S);
        let (host, peer, inside, seen) = (rng.u8(..16), rng.u8(..4), rng.u16(1..4), rng.u16(2000..2032));
        let what = ["udp", "tcp", "udp"][rng.usize(..3)];
        let to = [9, 69, 5060][rng.usize(..3)];
        let flags =
            if what == "tcp" { ["flags S", "flags A", "flags FA", "flags R"][rng.usize(..4)] } else { "" };
        let (line, leaving) = match rng.u8(..3) {
            0 => (format!("ip 203.0.113.{peer} > 192.0.2.1 / {what} {to} > {seen} {flags}"), false),
            _ => (format!("ip 10.0.1.{host} > 203.0.113.{peer} / {what} {inside} > {to} {flags}"), true),
        };
        translated += u32::from(!matches!(go(&mut nat, now, &mut packet(&line), leaving), Outcome::Drop(_)));
        let one = nat.sessions().nth(rng.usize(..8)).filter(|_| n % 7 == 0);
        if let Some(one) = one {
            assert!(nat.end(one.protocol, one.inside, one.peer));
        }
        if n % 97 == 0 {
            nat.replace(policy(texts[rng.usize(..texts.len())]), &[address("192.0.2.1")], n.into());
            consistent(&nat);
        }
    }
    assert!(translated > 2000, "{translated}");
    nat.replace(policy(texts[0]), &[address("192.0.2.1")], 1);
    now += 10_000 * S;
    for _ in 0..10 {
        nat.reap(now, 1000);
    }
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
    assert!(
        nat.peers.is_empty() && nat.expected.is_empty() && nat.streams.is_empty() && nat.awaited.is_empty()
    );
    assert_eq!(nat.of_forwards, 0);
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031"), &[address("192.0.2.1")], 2);
    for what in ["udp 7 > 9", "tcp 7 > 9 flags S", "icmp echo id 7"] {
        assert_eq!(ask_all(&mut nat, now, what), 32, "{what}");
    }
}

#[test]
fn no_connection_stays_for_ever() {
    // Any segments of both sides, by the outside port of the connection and by others: 7,440 s after the last one nothing is left.
    let mut rng = Rng::with_seed(9);
    for _ in 0..400 {
        let mut nat = nat(&format!("{HOME}\nforward tcp 80 to 10.0.1.5\nstatic 10.0.3.9 to 192.0.2.9"));
        let mut outside = 80;
        let mut now = 0;
        for _ in 0..rng.usize(1..12) {
            now += rng.u64(..100) * S;
            let flags = ["S", "SA", "A", "FA", "R", "RA", "FSRA"][rng.usize(..7)];
            if rng.bool() {
                let from = [4000, 80][rng.usize(..2)];
                let line = format!("ip 10.0.1.5 > 203.0.113.1 / tcp {from} > 80 flags {flags}");
                outside = out(&mut nat, now, &line).map_or(outside, |left| port(&left));
            } else {
                let line = format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags {flags}");
                let _ = come(&mut nat, now, &line);
            }
        }
        assert!(nat.sessions().all(|one| one.expires_ns <= now + 7441 * S));
        nat.reap(now + 7441 * S, 100);
        assert_eq!((nat.len(), nat.mappings(), nat.of_forwards), (0, 0, 0));
    }
}

#[test]
fn hairpins_go_by_each_of_several_outside_addresses() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.4\n\
        forward udp 53 on 192.0.2.2 to 10.0.1.20\nforward udp 54 on 192.0.2.3 to 10.0.1.20 port 53\nstatic 10.0.3.9 to 192.0.2.9";
    for seed in 0..20 {
        let mut nat = Nat::new(policy(text), &[], seed);
        // Where each host is outside, by what it has sent.
        let mut all = vec![
            ("10.0.1.20:53", "192.0.2.2", 53),
            ("10.0.1.20:53", "192.0.2.3", 54),
            ("10.0.3.9:7", "192.0.2.9", 7),
        ];
        let hosts = ["10.0.1.5:7", "10.0.1.6:7", "10.0.1.7:7", "10.0.1.8:7"];
        let left: Vec<String> = hosts
            .iter()
            .map(|host| out(&mut nat, 0, &format!("ip {} > 203.0.113.1 / udp 7 > 9", &host[..8])).unwrap())
            .collect();
        all.extend(
            hosts.iter().zip(&left).map(|(host, left)| (*host, left.split(':').next().unwrap(), port(left))),
        );
        for (from, (own, own_port)) in
            hosts.iter().zip(left.iter().map(|left| (left.split(':').next().unwrap(), port(left))))
        {
            for (inside, address, number) in &all {
                // Each sees the other's outside end, and the answer comes back to where it was asked.
                let asks = format!("ip {} > {address} / udp 7 > {number}", &from[..8]);
                assert_eq!(
                    come(&mut nat, 0, &asks).unwrap(),
                    format!("{own}:{own_port} > {inside}"),
                    "{asks}"
                );
                let (host, at) = inside.split_once(':').unwrap();
                let answer = format!("ip {host} > {own} / udp {at} > {own_port}");
                let seen = come(&mut nat, 0, &answer).unwrap();
                assert_eq!(seen.split(" > ").nth(1), Some(*from), "{answer}");
                // A server of two forwards answers by the one that was asked last.
                assert!(seen.starts_with(&format!("{address}:{number} ")), "{answer}: {seen}");
            }
        }
    }
}

#[test]
fn a_full_table_empties_when_its_time_has_come() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1\nsessions 64");
    for round in 0..5 {
        let start = round * 20_000 * S;
        // Connections that are agreed on: none of them gives way.
        for n in 1..=64 {
            let left =
                out(&mut nat, start, &format!("ip 10.0.1.{n} > 203.0.113.1 / tcp 7 > 9 flags S")).unwrap();
            let answer = format!("ip 203.0.113.1 > 192.0.2.1 / tcp 9 > {} flags SA", port(&left));
            come(&mut nat, start, &answer).unwrap();
            out(&mut nat, start, &format!("ip 10.0.1.{n} > 203.0.113.1 / tcp 7 > 9 flags A")).unwrap();
        }
        assert_eq!(
            out(&mut nat, start + S, "ip 10.0.1.99 > 203.0.113.1 / tcp 7 > 9 flags S"),
            Err(Cause::Full)
        );
        // Nobody has passed expired sessions on: the next packet finds room all the same.
        let mut late = packet("ip 10.0.1.99 > 203.0.113.1 / tcp 7 > 9 flags S");
        let (mut ahead, now) = (Vec::new(), start + 7500 * S);
        nat.look_ahead([&late[..]].into_iter(), true, &mut ahead);
        assert_eq!(nat.leaving(now, &mut late, &ahead[0]), Outcome::Translated);
        assert_eq!(nat.len(), 64);
        // A few looks with each packet are enough for all that have expired.
        for _ in 0..128 {
            nat.reap(now, 2);
        }
        assert_eq!(nat.len(), 1);
        nat.reap(now + 240 * S, 10);
        assert!(nat.is_empty());
    }
}
