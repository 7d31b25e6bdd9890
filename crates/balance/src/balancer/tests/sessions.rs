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

/// What a stranger can make gives way at last; what a server has agreed on does not.
#[test]
fn sessions_that_a_stranger_can_have_made_give_way_when_they_are_idle() {
    let text = "service web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.11\n\
                service dns udp 192.0.2.80 port 53\nserver dns 10.0.1.11\n\
                service tls tcp 192.0.2.80 port 443\nserver tls 10.0.1.11\nsessions 3\n";
    let open = |balancer: &mut Balancer, now: u64, port: u16| {
        let (kind, flags) =
            if port == 53 { ("udp", ["", "", ""]) } else { ("tcp", [" flags S", " flags SA", " flags A"]) };
        let (client, server) = ("203.0.113.1", "10.0.1.11");
        send(balancer, now, &format!("ip {client} > 192.0.2.80 / {kind} 9 > {port}{}", flags[0]));
        if port != 80 {
            send(balancer, now, &format!("ip {server} > {client} / {kind} {port} > 9{}", flags[1]));
        }
        send(balancer, now, &format!("ip {client} > 192.0.2.80 / {kind} 9 > {port}{}", flags[2]));
    };
    let has = |balancer: &Balancer| {
        let mut ports: Vec<u16> = balancer.sessions.iter().map(|(_, flow)| flow.forward.dport).collect();
        ports.sort();
        ports
    };
    for (first, second) in [(80, 53), (53, 80)] {
        let mut balancer = Balancer::new(policy(text), 1, 0);
        open(&mut balancer, 0, 443);
        open(&mut balancer, S, first);
        open(&mut balancer, 2 * S, second);
        server(&mut balancer, 60 * S, &tcp(9, "S"));
        assert_eq!((has(&balancer), balancer.len()), (vec![53, 80, 443], 3), "none is idle for long");
        server(&mut balancer, 62 * S, &tcp(9, "S"));
        server(&mut balancer, 62 * S, &tcp(9, "A"));
        let mut left = vec![443, second, 80];
        left.sort();
        assert_eq!(has(&balancer), left, "the longest goes");
        server(&mut balancer, 1000 * S, &tcp(10, "S"));
        assert!(has(&balancer).contains(&443));
    }
}

/// A search in vain is not repeated for each packet, but goes on later.
#[test]
fn a_full_table_is_not_searched_for_each_packet() {
    let mut balancer = Balancer::new(policy(FOUR), 1, 0);
    open(&mut balancer, 0, 0..64);
    server(&mut balancer, 0, &tcp(100, "S"));
    let (id, _) = balancer.sessions.iter().nth(9).unwrap();
    balancer.sessions.set_expiry(id, 1);
    for (now, by_hash) in [(1, 2), (S / 10 - 1, 3), (S / 10, 3), (S / 5, 3)] {
        server(&mut balancer, now, &tcp(200, "S"));
        assert_eq!(balancer.services().next().unwrap().by_hash, by_hash, "{now}");
    }
    assert!(balancer.sessions.flow(id).is_none(), "it has given way");
}

/// The port 80 of a service with translation, and a client's packet and its answer.
const NAT: &str =
    "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.11-10.0.1.14 port 8080\nsessions 8\n";

fn answer_of(server: IpAddr, client: u16, flags: &str) -> String {
    let (last, port) = (client % 200 + 1, 1000 + client / 200);
    format!("ip {server} > 203.0.113.{last} / tcp 8080 > {port} flags {flags}")
}

#[test]
fn a_flood_takes_no_answer_that_is_under_way() {
    let mut balancer = Balancer::new(policy(NAT), 1, 0);
    let asked = server(&mut balancer, 0, &tcp(0, "S"));
    for client in 1000..1100 {
        server(&mut balancer, 1, &tcp(client, "S"));
    }
    assert!(balancer.sessions.iter().all(|(_, flow)| flow.forward.sport != 1000), "its session is gone");
    let (outcome, bytes) = send(&mut balancer, 2, &answer_of(asked, 0, "SA"));
    assert_eq!(outcome, Outcome::Answered);
    assert_eq!(ends(&bytes), "192.0.2.80 80 > 203.0.113.1 1000");
    assert_eq!(server(&mut balancer, 3, &tcp(0, "A")), asked);
}

#[test]
fn without_room_only_answers_get_the_service_s_address() {
    let text = NAT.replace("sessions 8", "sessions 1");
    let mut balancer = Balancer::new(policy(&text), 1, 0);
    let first = server(&mut balancer, 0, &tcp(0, "S"));
    send(&mut balancer, 0, &answer_of(first, 0, "SA"));
    server(&mut balancer, 0, &tcp(0, "A"));
    let is_answered = |balancer: &mut Balancer, now: u64, line: &str| {
        let (outcome, bytes) = send(balancer, now, line);
        (outcome == Outcome::Answered).then(|| ends(&bytes))
    };
    let other = |server: IpAddr| if server == ip("10.0.1.11") { ip("10.0.1.12") } else { ip("10.0.1.11") };
    assert_eq!(is_answered(&mut balancer, 0, &answer_of(first, 1, "SA")), None, "nobody has asked");
    for client in 1..50 {
        let chosen = server(&mut balancer, S, &tcp(client, "S"));
        let expected = format!("192.0.2.80 80 > 203.0.113.{} 1000", client + 1);
        for (from, flags, left) in [
            (chosen, "SA", Some(&expected)),
            (chosen, "A", Some(&expected)),
            // Of a server that the hash does not lead to, and a connection that the server begins.
            (other(chosen), "SA", None),
            (chosen, "S", None),
        ] {
            let line = answer_of(from, client, flags);
            assert_eq!(is_answered(&mut balancer, S, &line).as_ref(), left, "{line}");
        }
        let elsewhere = format!("ip {chosen} > 203.0.113.{} / tcp 8081 > 1000 flags A", client + 1);
        assert_eq!(is_answered(&mut balancer, S, &elsewhere), None);
    }
    // Later everything that has no session is somebody else's.
    let chosen = server(&mut balancer, S, &tcp(1, "A"));
    assert_eq!(is_answered(&mut balancer, 302 * S, &answer_of(chosen, 1, "SA")), None);
}

/// Without a session nobody knows which service or port an answer is for: rather no packet than one with a wrong address.
#[test]
fn without_room_packets_whose_answers_are_ambiguous_are_dropped() {
    for (more, outcome) in [
        ("service two tcp 192.0.2.81 port 81\nserver two 10.0.1.11", Outcome::Translated(ip("10.0.1.11"))),
        ("service two tcp 192.0.2.81 port 80\nserver two 10.0.1.11", Outcome::Drop(Cause::Full)),
        (
            "service two tcp 192.0.2.81 port 80 direct\nserver two 10.0.1.11",
            Outcome::Translated(ip("10.0.1.11")),
        ),
        ("service two udp 192.0.2.81 port 80\nserver two 10.0.1.11", Outcome::Translated(ip("10.0.1.11"))),
    ] {
        let text = format!("sessions 1\nservice web tcp 192.0.2.80 port 80\nserver web 10.0.1.11\n{more}");
        let mut balancer = Balancer::new(policy(&text), 1, 0);
        server(&mut balancer, 0, &tcp(0, "S"));
        send(&mut balancer, 0, "ip 10.0.1.11 > 203.0.113.1 / tcp 80 > 1000 flags SA");
        server(&mut balancer, 0, &tcp(0, "A"));
        assert_eq!(send(&mut balancer, 1, &tcp(1, "S")).0, outcome, "{more}");
        let left = send(&mut balancer, 1, "ip 10.0.1.11 > 203.0.113.2 / tcp 80 > 1000 flags SA").1;
        let expected = if outcome == Outcome::Drop(Cause::Full) { "10.0.1.11" } else { "192.0.2.80" };
        assert_eq!(ends(&left), format!("{expected} 80 > 203.0.113.2 1000"), "{more}");
    }
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
    for (now, flags) in [(0, "R"), (11 * S, "S")] {
        send(&mut balancer, now, &at(80, flags));
        assert_eq!(
            send(&mut balancer, now, &at(82, "S")).0,
            Outcome::Drop(Cause::Taken),
            "a stranger says so"
        );
    }
    let reset = format!("ip {one} > 203.0.113.1 / tcp 8080 > 9 flags R");
    send(&mut balancer, 11 * S, &reset);
    assert_eq!(send(&mut balancer, 20 * S, &at(82, "S")).0, Outcome::Drop(Cause::Taken), "just now");
    let three = server(&mut balancer, 21 * S, &at(82, "S"));
    assert_eq!(three, one);
    assert_eq!(server(&mut balancer, 21 * S, &at(81, "A")), two);
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
