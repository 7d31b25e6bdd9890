// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions: they stay, give way and end.

use super::*;

const FOUR: &str = "service web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.11-10.0.1.14\nsessions 64\n";

/// Opens connections, and returns the server of each.
fn open(balancer: &mut Balancer, now_ns: u64, clients: std::ops::Range<u16>) -> Vec<IpAddr> {
    let all = clients.map(|client| {
        let first = server(balancer, now_ns, &tcp(client, "S"));
        assert_eq!(server(balancer, now_ns, &tcp(client, "A")), first);
        first
    });
    all.collect()
}

fn servers_of(balancer: &mut Balancer, now_ns: u64, clients: std::ops::Range<u16>) -> Vec<IpAddr> {
    clients.map(|client| server(balancer, now_ns, &tcp(client, "A"))).collect()
}

#[test]
fn connections_stay_while_servers_drain_and_move_when_they_fail() {
    let mut balancer = Balancer::new(policy(FOUR), 1, 0);
    let before = open(&mut balancer, 0, 0..40);
    let one = before[0];
    for change in [Change::Drain(true), Change::Weight(0)] {
        balancer.set("web", one, None, change).unwrap();
        // At once, and when the table is ready.
        for ready in [false, true] {
            if ready {
                settle(&mut balancer, 1);
            }
            assert_eq!(servers_of(&mut balancer, 1, 0..40), before);
            let first = if ready { 60 } else { 40 };
            assert!((first..first + 8).all(|client| server(&mut balancer, 1, &tcp(client, "S")) != one));
        }
        balancer.set("web", one, None, Change::Drain(false)).unwrap();
        balancer.set("web", one, None, Change::Weight(1)).unwrap();
        settle(&mut balancer, 1);
    }
    balancer.set("web", one, None, Change::Force(Some(false))).unwrap();
    for ready in [false, true] {
        if ready {
            settle(&mut balancer, 2);
        }
        let after = servers_of(&mut balancer, 2, 0..40);
        assert!(after.iter().all(|server| *server != one));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert_eq!(moved, before.iter().filter(|server| **server == one).count());
    }
    for server in ["10.0.1.11", "10.0.1.12", "10.0.1.13", "10.0.1.14"] {
        balancer.set("web", ip(server), None, Change::Force(Some(false))).unwrap();
    }
    assert_eq!(send(&mut balancer, 3, &tcp(0, "A")).0, Outcome::Drop(Cause::NoServer));
    settle(&mut balancer, 3);
    assert_eq!(send(&mut balancer, 3, &tcp(0, "A")).0, Outcome::Drop(Cause::NoServer));
}

#[test]
fn a_connection_that_begins_anew_leaves_a_server_that_drains() {
    let mut balancer = Balancer::new(policy(FOUR), 1, 0);
    let one = open(&mut balancer, 0, 0..1)[0];
    balancer.set("web", one, None, Change::Drain(true)).unwrap();
    assert_eq!(server(&mut balancer, 1, &tcp(0, "S")), one, "a SYN that comes again");
    assert_eq!(server(&mut balancer, 1, &tcp(0, "FA")), one);
    assert_ne!(server(&mut balancer, 1, &tcp(0, "S")), one);
}

#[test]
fn a_flood_pushes_no_connection_out() {
    let mut balancer = Balancer::new(policy(FOUR), 1, 0);
    let before = open(&mut balancer, 0, 0..60);
    for client in 1000..3000 {
        server(&mut balancer, 1, &tcp(client, "S"));
        assert!(balancer.len() <= 64);
    }
    assert_eq!(servers_of(&mut balancer, 2, 0..60), before);
    // With no room at all, the hash alone leads to the same server each time.
    open(&mut balancer, 3, 4000..4004);
    assert_eq!(balancer.len(), 64);
    let alone: Vec<IpAddr> = open(&mut balancer, 3, 5000..5040);
    assert_eq!(servers_of(&mut balancer, 4, 5000..5040), alone);
    assert_eq!(servers_of(&mut balancer, 4, 0..60), before);
    assert_eq!((balancer.len(), balancer.services().next().unwrap().by_hash), (64, 120));
}

#[test]
fn without_room_answers_come_back_by_the_hash() {
    let text = "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.11-10.0.1.12\nsessions 1\n\
                service two tcp 192.0.2.81 port 81\nserver two 10.0.1.11\nserver two 10.0.1.13 port 8080\n";
    let mut balancer = Balancer::new(policy(text), 1, 0);
    let answer = |balancer: &mut Balancer, now: u64, server: IpAddr, client: u16, flags: &str| {
        let line = format!("ip {server} > 203.0.113.{} / tcp 80 > 1000 flags {flags}", client + 1);
        let (outcome, bytes) = send(balancer, now, &line);
        (outcome == Outcome::Answered).then(|| ends(&bytes))
    };
    let first = server(&mut balancer, 0, &tcp(0, "S"));
    answer(&mut balancer, 0, first, 0, "SA").unwrap();
    server(&mut balancer, 0, &tcp(0, "A"));
    assert_eq!(answer(&mut balancer, 0, first, 1, "SA"), None, "nobody has asked");
    let second = server(&mut balancer, S, &tcp(1, "S"));
    assert_eq!(balancer.len(), 1);
    assert_eq!(
        answer(&mut balancer, S, second, 1, "SA").as_deref(),
        Some("192.0.2.80 80 > 203.0.113.2 1000")
    );
    let both = |line: &str, balancer: &mut Balancer| {
        let (_, bytes) = send(balancer, S, line);
        ends(&bytes)
    };
    assert_eq!(
        both("ip 10.0.1.11 > 203.0.113.9 / tcp 81 > 7", &mut balancer),
        "192.0.2.81 81 > 203.0.113.9 7"
    );
    assert_eq!(
        both("ip 10.0.1.13 > 203.0.113.9 / tcp 8080 > 7", &mut balancer),
        "192.0.2.81 81 > 203.0.113.9 7"
    );
    assert_eq!(
        both("ip 10.0.1.13 > 203.0.113.9 / tcp 81 > 7", &mut balancer),
        "10.0.1.13 81 > 203.0.113.9 7"
    );
    assert_eq!(
        both("ip 10.0.1.13 > 203.0.113.9 / udp 8080 > 7", &mut balancer),
        "10.0.1.13 8080 > 203.0.113.9 7"
    );
    // Later everything that has no session is somebody else's.
    assert_eq!(answer(&mut balancer, 1000 * S, second, 1, "SA"), None);
}

#[test]
fn sessions_with_the_same_client_port_have_different_servers() {
    let text = "service one tcp 192.0.2.80 port 80\nserver one 10.0.1.11-10.0.1.12 port 8080\n\
                service two tcp 192.0.2.81 port 80\nserver two 10.0.1.11-10.0.1.12 port 8080\n\
                service three tcp 192.0.2.82 port 80\nserver three 10.0.1.11-10.0.1.12 port 8080\n";
    let mut balancer = Balancer::new(policy(text), 1, 0);
    let at = |last: u8, flags: &str| format!("ip 203.0.113.1 > 192.0.2.{last} / tcp 9 > 80 flags {flags}");
    let answer = |server: IpAddr| format!("ip {server} > 203.0.113.1 / tcp 8080 > 9 flags SA");
    let one = server(&mut balancer, 0, &at(80, "S"));
    let two = server(&mut balancer, 0, &at(81, "S"));
    assert_ne!(one, two);
    for (address, server) in [(80, one), (81, two)] {
        let left = send(&mut balancer, 0, &answer(server)).1;
        assert_eq!(ends(&left), format!("192.0.2.{address} 80 > 203.0.113.1 9"));
        send(&mut balancer, 0, &at(address, "A"));
    }
    // Both are agreed on: a third one has no place, until one of them has ended.
    assert_eq!(send(&mut balancer, 0, &at(82, "S")).0, Outcome::Drop(Cause::Taken));
    send(&mut balancer, 0, &at(80, "R"));
    let three = server(&mut balancer, 0, &at(82, "S"));
    assert_eq!(three, one);
    assert_eq!(server(&mut balancer, 0, &at(81, "A")), two);
}

#[test]
fn one_client_has_one_server_if_it_is_to() {
    let text = "service web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.11-10.0.1.18\npersist web source\n\
                service tls tcp 192.0.2.80 port 443 direct\nserver tls 10.0.1.11-10.0.1.18\npersist tls source\n";
    let mut balancer = Balancer::new(policy(text), 1, 0);
    let mut seen = std::collections::HashSet::new();
    for client in 1..40 {
        let of = |port: u16, to: u16, balancer: &mut Balancer| {
            server(balancer, 0, &format!("ip 203.0.113.{client} > 192.0.2.80 / tcp {port} > {to}"))
        };
        let all: Vec<IpAddr> = (1..10).map(|port| of(port, 80, &mut balancer)).collect();
        assert!(all.iter().all(|server| *server == all[0]));
        assert_eq!(of(99, 443, &mut balancer), all[0]);
        seen.insert(all[0]);
    }
    assert!(seen.len() > 4, "{seen:?}");
}

#[test]
fn clients_are_spread_evenly() {
    for more in ["", "persist web source\n"] {
        let mut balancer = Balancer::new(policy(&format!("{FOUR}{more}")), 1, 0);
        let mut counts = std::collections::HashMap::new();
        for client in 0..4000u32 {
            let client = Ipv4Addr::from(0x0a09_0000 + client);
            let line = format!("ip {client} > 192.0.2.80 / tcp 1000 > 80");
            *counts.entry(server(&mut balancer, 0, &line)).or_insert(0) += 1;
        }
        // Four standard deviations are 110.
        assert!(counts.len() == 4 && counts.values().all(|count| (890..1110).contains(count)), "{counts:?}");
    }
}

#[test]
fn records_are_two_lines() {
    // The keys, when it expires and its bound, the generation and the value.
    assert!(2 * 40 + 2 * 8 + 4 + size_of::<Option<Entry>>() <= 128);
}

#[test]
fn sessions_end_in_time() {
    let mut balancer =
        Balancer::new(policy(&format!("{FOUR}timeout tcp 100s\ntimeout tcp-transitory 10s")), 1, 0);
    open(&mut balancer, 0, 0..1);
    server(&mut balancer, 0, &tcp(1, "S"));
    let left = |balancer: &mut Balancer, now: u64| {
        balancer.reap(now, 100);
        counts_are_right(balancer);
        balancer.len()
    };
    assert_eq!([9, 10, 99].map(|time| left(&mut balancer, time * S)), [2, 1, 1]);
    server(&mut balancer, 99 * S, &tcp(0, "FA"));
    assert_eq!([108, 109].map(|time| left(&mut balancer, time * S)), [1, 0]);
    let mut seen = Vec::new();
    server(&mut balancer, 200 * S, &tcp(2, "S"));
    assert_eq!(balancer.some(0, 10, |session| seen.push(session)), None);
    assert_eq!((seen[0].client, seen[0].service), ((ip("203.0.113.3"), 1000), (ip("192.0.2.80"), 80)));
    assert_eq!((seen[0].state, seen[0].expires_ns), (tables::flow::State::Asked, 210 * S));
}
