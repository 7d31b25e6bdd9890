// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other policies: sessions stay with their servers.

use std::collections::HashMap;

use super::*;

/// A file with servers 10.0.1.N.
fn file(mode: &str, servers: &[u8], more: &str) -> String {
    let servers: String = servers.iter().map(|n| format!("server web 10.0.1.{n}\n")).collect();
    format!("{more}\nservice web tcp 192.0.2.80 port 80 {mode}\n{servers}")
}

fn servers_of(balancer: &mut Balancer, clients: u16) -> Vec<IpAddr> {
    (0..clients).map(|client| server(balancer, 1, &tcp(client, "A"))).collect()
}

#[test]
fn sessions_stay_when_servers_come_and_go() {
    for mode in ["direct", "nat"] {
        let mut balancer = Balancer::new(policy(&file(mode, &[1, 2, 3, 4], "")), 1, 0);
        let before = servers_of(&mut balancer, 200);
        assert_eq!(load(&mut balancer, 1, &file(mode, &[9, 4, 3, 2, 1, 8], "seed 5")), 0);
        assert_eq!(servers_of(&mut balancer, 200), before);
        let gone = ip("10.0.1.2");
        let of_gone = before.iter().filter(|server| **server == gone).count();
        assert_eq!(load(&mut balancer, 1, &file(mode, &[1, 3, 4], "seed 5")), of_gone);
        let after = servers_of(&mut balancer, 200);
        let moved = before.iter().zip(&after).filter(|(one, other)| one != other).count();
        assert!(moved == of_gone && !after.contains(&gone));
        // Its slot is used again, and nobody's session is somebody else's.
        load(&mut balancer, 1, &file(mode, &[1, 3, 4, 5, 6, 7], "seed 5"));
        assert_eq!(servers_of(&mut balancer, 200), after);
        assert!(balancer.slots.len() <= 7, "{}", balancer.slots.len());
    }
}

#[test]
fn another_mode_or_service_is_another_server() {
    let mut balancer = Balancer::new(policy(&file("direct", &[1, 2], "")), 1, 0);
    servers_of(&mut balancer, 20);
    assert_eq!(load(&mut balancer, 1, &file("nat", &[1, 2], "")), 20);
    for client in 0..20 {
        let (outcome, bytes) = send(&mut balancer, 1, &tcp(client, "A"));
        let Outcome::Translated(server) = outcome else { panic!("{outcome:?}") };
        assert!(ends(&bytes).contains(&format!("> {server} 80")));
    }
    load(&mut balancer, 1, "service other tcp 192.0.2.90 port 80");
    assert_eq!(send(&mut balancer, 1, &tcp(0, "A")).0, Outcome::Unchanged);
    // An answer that is under way still gets the address.
    let server = balancer.slots.iter().find(|slot| slot.sessions > 0).map(|slot| slot.address).unwrap();
    let mut client = None;
    balancer.some(0, 100, |session| {
        client = client.or((crate::packet::number(session.server.0) == server).then_some(session))
    });
    let client = client.unwrap().client;
    let line =
        format!("ip {} > {} / tcp 80 > {} flags A", crate::packet::address(server), client.0, client.1);
    assert_eq!(send(&mut balancer, 1, &line).0, Outcome::Answered);
}

#[test]
fn fewer_sessions_may_have_room() {
    let mut balancer = Balancer::new(policy(&file("direct", &[1, 2, 3], "")), 1, 0);
    let before: Vec<IpAddr> = (0..50)
        .map(|client| {
            server(&mut balancer, 0, &tcp(client + 100, "S"));
            server(&mut balancer, 0, &tcp(client, "S"));
            server(&mut balancer, 0, &tcp(client, "A"))
        })
        .collect();
    load(&mut balancer, 1, &file("direct", &[1, 2, 3], "sessions 60"));
    assert_eq!(balancer.len(), 100, "none ends by itself");
    for client in 200..300 {
        server(&mut balancer, 1, &tcp(client, "S"));
    }
    assert_eq!(balancer.len(), 60, "those that are not agreed on have given way");
    load(&mut balancer, 1, &file("direct", &[1, 2, 3, 4], "sessions 600"));
    assert_eq!((balancer.len(), servers_of(&mut balancer, 50)), (60, before));
}

/// Packets come while the table gets another capacity.
#[test]
fn another_number_of_sessions_comes_in_steps() {
    for (mode, count) in [("direct", 100), ("nat", 100), ("direct", 5000), ("nat", 5000)] {
        let mut balancer = Balancer::new(policy(&file(mode, &[1, 2, 3], "sessions 1000")), 1, 0);
        let mut known: HashMap<u16, IpAddr> = HashMap::new();
        for client in 0..80 {
            let to = server(&mut balancer, 0, &tcp(client, "S"));
            if mode == "nat" {
                let (last, port) = (client % 200 + 1, 1000 + client / 200);
                send(&mut balancer, 0, &format!("ip {to} > 203.0.113.{last} / tcp 80 > {port} flags SA"));
            }
            known.insert(client, server(&mut balancer, 0, &tcp(client, "A")));
        }
        for client in 1000..1900 {
            server(&mut balancer, 0, &tcp(client, "S"));
        }
        let mut draft = balancer.draft(policy(&file(mode, &[1, 2, 3, 4], &format!("sessions {count}"))));
        draft.build();
        balancer.replace(draft, 1).unwrap();
        let mut next = 2000;
        while balancer.resize_some(50) {
            for (client, to) in &known {
                assert_eq!(server(&mut balancer, 1, &tcp(*client, "A")), *to);
            }
            server(&mut balancer, 1, &tcp(next, "S"));
            next += 1;
        }
        assert!(next > 2010 && balancer.retired().indexes.len() == 1, "{next}");
        for client in next..next + 1500 {
            server(&mut balancer, 1, &tcp(client, "S"));
        }
        assert!(balancer.len() <= count && (count == 100 || balancer.len() > 2000), "{}", balancer.len());
        for (client, to) in &known {
            assert_eq!(server(&mut balancer, 1, &tcp(*client, "A")), *to, "{mode} {count}");
        }
    }
}

#[test]
fn sessions_whose_time_has_come_end_after_a_load() {
    for mode in ["direct", "nat"] {
        let mut balancer = Balancer::new(policy(&file(mode, &[1, 2, 3], "")), 1, 0);
        for (now, clients) in [(0, 0..20), (30 * S, 20..30)] {
            clients.for_each(|client| drop(send(&mut balancer, now, &tcp(client, "S"))));
        }
        load(&mut balancer, 60 * S, &file(mode, &[1, 2, 3], "sessions 20"));
        balancer.reap(60 * S, 100);
        assert_eq!(balancer.len(), 10);
    }
}

#[test]
fn a_draft_for_another_policy_is_refused() {
    let text = |last: u8| policy(&file("direct", &[1, last], ""));
    let mut balancer = Balancer::new(text(2), 1, 0);
    let (one, two) = (balancer.draft(text(3)), balancer.draft(text(4)));
    assert_eq!(balancer.replace(two, 1), Ok(0));
    assert_eq!(balancer.replace(one, 1), Err(Superseded));
    assert_eq!(balancer.servers().nth(1).unwrap().address, ip("10.0.1.4"));
    // As after a hot swap: the balancer is another one by now.
    let draft = balancer.draft(text(5));
    let mut other = Balancer::new(text(4), 1, 0);
    std::mem::swap(&mut balancer, &mut other);
    assert_eq!(balancer.replace(draft, 1), Err(Superseded));
}

#[test]
fn what_a_person_has_set_ends_with_the_next_file() {
    let mut balancer = Balancer::new(policy(&file("direct", &[1, 2], "")), 1, 0);
    let states = |balancer: &Balancer| balancer.servers().map(|one| one.state).collect::<Vec<_>>();
    balancer.set("web", ip("10.0.1.1"), None, Change::Force(Some(false))).unwrap();
    balancer.set("web", ip("10.0.1.2"), None, Change::Drain(true)).unwrap();
    assert_eq!(states(&balancer), [State::Down, State::Draining]);
    load(&mut balancer, 1, &file("direct", &[1, 2], ""));
    assert_eq!(states(&balancer), [State::Unchecked, State::Unchecked]);
    assert_eq!(
        balancer.set("wab", ip("10.0.1.1"), None, Change::Weight(1)).unwrap_err(),
        "there is no service 'wab': there is web"
    );
    let why = balancer.set("web", ip("10.0.1.1"), Some(9), Change::Weight(1)).unwrap_err();
    assert_eq!(why, "service 'web' has no server 10.0.1.1 port 9");
}

/// A port that another file gives to another service: UDP follows at once, TCP when a connection begins.
#[test]
fn sessions_follow_their_port_to_another_service() {
    let text = |web: &str, new: &str| {
        format!(
            "service web {web}\nserver web 10.0.1.1\nservice new {new}\nserver new 10.0.1.2\nservice all any 192.0.2.81\nserver all 10.0.1.1"
        )
    };
    for (protocol, mode) in [("tcp", "direct"), ("udp", "direct"), ("udp", "nat")] {
        let whole = |ports: &str| format!("{protocol} 192.0.2.80 port {ports} {mode}");
        let mut balancer = Balancer::new(policy(&text(&whole("80-81"), &whole("90"))), 1, 0);
        let line = |port: u16, flags: &str| {
            let flags = if protocol == "tcp" { format!(" flags {flags}") } else { String::new() };
            format!("ip 203.0.113.1 > 192.0.2.80 / {protocol} 9 > {port}{flags}")
        };
        for (port, flags) in [(80, "S"), (80, "A"), (81, "S"), (81, "A"), (90, "S")] {
            server(&mut balancer, 0, &line(port, flags));
        }
        load(&mut balancer, 0, &text(&whole("80"), &whole("81,90")));
        for _ in 0..2 {
            assert_eq!(server(&mut balancer, 0, &line(80, "A")), ip("10.0.1.1"), "its port has stayed");
            let old = if protocol == "tcp" { "10.0.1.1" } else { "10.0.1.2" };
            assert_eq!(server(&mut balancer, 0, &line(81, "A")), ip(old), "{protocol} {mode}");
        }
        server(&mut balancer, 0, &line(81, "FA"));
        assert_eq!(server(&mut balancer, 0, &line(81, "S")), ip("10.0.1.2"));
        // A port that is nobody's now.
        load(&mut balancer, 0, &text(&whole("80"), &whole("90")));
        assert_eq!(send(&mut balancer, 0, &line(81, "S")).0, Outcome::Unchanged, "{protocol} {mode}");
    }
}

/// Any changes, one after the other, against a map of what each connection has.
#[test]
fn connections_never_move_while_their_server_lives() {
    let mut random = Rng::with_seed(3);
    for mode in ["direct", "nat"] {
        let mut servers: Vec<u8> = vec![1, 2, 3, 4, 5];
        let mut balancer = Balancer::new(policy(&file(mode, &servers, "")), 1, 0);
        let mut known: HashMap<u16, IpAddr> = HashMap::new();
        let (mut down, mut again): (Vec<u8>, usize) = (Vec::new(), 0);
        for _ in 0..1500 {
            match random.u8(..40) {
                0 => {
                    let new = random.u8(1..30);
                    if !servers.contains(&new) {
                        servers.push(new);
                    }
                    random.shuffle(&mut servers);
                    load(&mut balancer, 1, &file(mode, &servers, ""));
                    down.clear();
                }
                1 if servers.len() > 3 => {
                    let gone = servers.swap_remove(random.usize(..servers.len()));
                    known.retain(|_, server| *server != ip(&format!("10.0.1.{gone}")));
                    load(&mut balancer, 1, &file(mode, &servers, ""));
                    down.clear();
                }
                2 if down.len() + 2 < servers.len() => {
                    let one = servers[random.usize(..servers.len())];
                    let address = ip(&format!("10.0.1.{one}"));
                    balancer.set("web", address, None, Change::Force(Some(false))).unwrap();
                    known.retain(|_, server| *server != address);
                    if !down.contains(&one) {
                        down.push(one);
                    }
                }
                3 => {
                    let one = servers[random.usize(..servers.len())];
                    let change = Change::Weight(random.u16(..4).max(u16::from(servers.len() < 4)));
                    balancer.set("web", ip(&format!("10.0.1.{one}")), None, change).unwrap();
                }
                4 => drop(balancer.work(1, |_| {})),
                _ => {
                    let client = random.u16(..300);
                    let (outcome, _) = send(&mut balancer, 1, &tcp(client, "A"));
                    match outcome {
                        Outcome::Direct(server) | Outcome::Translated(server) => {
                            again += usize::from(known.contains_key(&client));
                            assert_eq!(*known.entry(client).or_insert(server), server);
                            let number = server.to_string().rsplit_once('.').unwrap().1.parse().unwrap();
                            assert!(servers.contains(&number) && !down.contains(&number));
                        }
                        other => assert!(!known.contains_key(&client), "{other:?}"),
                    }
                }
            }
        }
        assert!(again > 300, "{again}");
    }
}
