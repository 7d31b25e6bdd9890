// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients keep their server: against a plain map of what each client has.

use std::collections::HashMap;

use super::*;
use crate::policy::TCP;

/// How long bonds last without sessions.
const LASTS: u64 = 10 * S;

/// A service of each family with these servers, which are the same ones by their last number.
fn file(servers: &[u8]) -> String {
    let mut text = String::from(
        "service four tcp 192.0.2.80 port 80\nservice six tcp 2001:db8::80 port 80 direct\n\
         persist four source for 10s\npersist six source for 10s\ntimeout tcp-transitory 900h\ntimeout tcp 900h\n",
    );
    for n in servers {
        text += &format!("server four 10.0.1.{n} port 8080\nserver six 2001:db8:1::{n}\n");
    }
    text
}

/// What is sent by a client, by its port, to a service: 0 has IPv4, 1 IPv6.
type Key = (u8, u16, usize);

fn line((client, port, family): Key, flags: &str) -> String {
    match family {
        0 => format!("ip 203.0.113.{client} > 192.0.2.80 / tcp {port} > 80 flags {flags}"),
        _ => format!("ip6 2001:db8:9::{client} > 2001:db8::80 / tcp {port} > 80 flags {flags}"),
    }
}

/// The last number of a server.
fn last(server: IpAddr) -> u8 {
    server.to_string().rsplit(['.', ':']).next().unwrap().parse().unwrap()
}

/// What a client has: its server and the number of the file that named it first, sessions that count, and until when it lasts.
#[derive(Clone, Copy, Debug)]
struct Bond {
    server: (u8, u32),
    sessions: u32,
    until: u64,
}

#[derive(Default)]
struct Model {
    /// Servers with the number of the file that named them first, and those that drain.
    servers: HashMap<u8, u32>,
    drains: Vec<u8>,
    bonds: HashMap<(u8, usize), Bond>,
    sessions: HashMap<Key, (u8, u32)>,
    kept: usize,
    moved: usize,
}

impl Model {
    fn is_there(&self, (server, since): (u8, u32)) -> bool {
        self.servers.get(&server) == Some(&since)
    }

    fn takes(&self, server: (u8, u32)) -> bool {
        self.is_there(server) && !self.drains.contains(&server.0)
    }

    fn end(&mut self, now: u64, key: Key) {
        let Some(server) = self.sessions.remove(&key) else { return };
        let is_there = self.is_there(server);
        if let Some(bond) = self.bonds.get_mut(&(key.0, key.2)).filter(|bond| bond.server == server) {
            // Sessions of before count no more when a client has been elsewhere and comes back.
            bond.sessions = bond.sessions.saturating_sub(1);
            bond.until = if is_there { now + LASTS } else { bond.until };
        }
    }

    /// A packet went to a server: whether that is right.
    fn packet(&mut self, now: u64, key: Key, to: u8) {
        let to = (to, self.servers[&to]);
        if let Some(known) = self.sessions.get(&key).copied() {
            if self.is_there(known) {
                return assert_eq!(to, known, "{key:?}");
            }
            self.end(now, key);
        }
        assert!(self.takes(to), "{key:?}: {to:?}");
        let bond = self.bonds.get(&(key.0, key.2)).copied();
        let valid = bond.filter(|bond| self.takes(bond.server) && (bond.until > now || bond.sessions > 0));
        if let Some(bond) = valid {
            assert_eq!(to, bond.server, "{key:?} at {now}");
            self.kept += 1;
        }
        self.moved += usize::from(bond.is_some_and(|bond| bond.server != to));
        let sessions = valid.map_or(0, |bond| bond.sessions) + 1;
        self.bonds.insert((key.0, key.2), Bond { server: to, sessions, until: now + LASTS });
        self.sessions.insert(key, to);
    }
}

#[test]
fn clients_keep_their_server() {
    let mut random = Rng::with_seed(11);
    let (mut kept, mut moved) = (0, 0);
    for seed in 0..8 {
        let mut present: Vec<u8> = vec![1, 2, 3, 4];
        let mut balancer = Balancer::new(policy(&file(&present)), seed, 0);
        let mut model = Model { servers: present.iter().map(|n| (*n, 0)).collect(), ..Model::default() };
        let mut now = 0;
        for turn in 1..600 {
            now += random.u64(0..2 * S);
            balancer.reap(now, 10_000);
            let key: Key = (random.u8(1..20), random.u16(1..4), random.usize(0..2));
            match random.u8(0..30) {
                0 => {
                    let one = random.u8(1..9);
                    match present.iter().position(|n| *n == one) {
                        Some(at) if present.len() > 2 => drop(present.remove(at)),
                        None => present.push(one),
                        _ => continue,
                    }
                    load(&mut balancer, now, &file(&present));
                    model.servers.retain(|server, _| present.contains(server));
                    for n in &present {
                        model.servers.entry(*n).or_insert(turn);
                    }
                    model.drains.clear();
                }
                1 if model.drains.is_empty() => {
                    let one = present[random.usize(..present.len())];
                    for (service, address) in
                        [("four", format!("10.0.1.{one}")), ("six", format!("2001:db8:1::{one}"))]
                    {
                        balancer.set(service, ip(&address), None, Change::Drain(true)).unwrap();
                    }
                    model.drains.push(one);
                }
                2..8 => {
                    let (client, port, family) = key;
                    let ends = match family {
                        0 => [(format!("203.0.113.{client}"), port), ("192.0.2.80".to_owned(), 80)],
                        _ => [(format!("2001:db8:9::{client}"), port), ("2001:db8::80".to_owned(), 80)],
                    };
                    let [client, service] = ends.map(|(address, port)| (ip(&address), port));
                    balancer.end_of(TCP, client, service);
                    model.end(now, key);
                }
                _ => {
                    let flags = if random.bool() { "S" } else { "A" };
                    let to = last(server(&mut balancer, now, &line(key, flags)));
                    model.packet(now, key, to);
                }
            }
            counts_are_right(&balancer);
        }
        kept += model.kept;
        moved += model.moved;
        // All ends.
        let end = 1000 * 3600 * S;
        balancer.reap(end, usize::MAX);
        assert_eq!(balancer.len(), 0);
        balancer.reap(end + 60 * S, usize::MAX);
        assert_eq!(balancer.clients(), 0);
    }
    assert!(kept > 300 && moved > 100, "{kept} {moved}");
}

#[test]
fn bonds_outlast_changes_of_servers() {
    let few = "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.1-10.0.1.3\npersist web source\n";
    let many = few.replace("10.0.1.3", "10.0.1.90");
    let mut balancer = Balancer::new(policy(few), 1, 0);
    let syn = |client: u16, port: u16| {
        format!("ip 203.0.113.{} > 192.0.2.80 / tcp {port} > 80 flags S", client % 250 + 1)
    };
    let before: Vec<IpAddr> = (0..100).map(|client| server(&mut balancer, 0, &syn(client, 1))).collect();
    // Their sessions end after a minute.
    balancer.reap(61 * S, 1000);
    assert_eq!((balancer.len(), balancer.clients()), (0, 100));
    load(&mut balancer, 61 * S, &many);
    let after: Vec<IpAddr> = (0..100).map(|client| server(&mut balancer, 360 * S, &syn(client, 2))).collect();
    assert_eq!(before, after);
    // Later the hash alone decides.
    for at in [421, 722] {
        balancer.reap(at * S, 1000);
    }
    assert_eq!(balancer.clients(), 0);
    let later: Vec<IpAddr> = (0..100).map(|client| server(&mut balancer, 722 * S, &syn(client, 3))).collect();
    let stayed = later.iter().zip(&before).filter(|(one, other)| one == other).count();
    assert!(stayed < 20, "{stayed}");
    load(&mut balancer, 722 * S, &many.replace("persist web source", ""));
    assert_eq!(balancer.clients(), 0);
}

#[test]
fn strangers_take_no_place_of_agreed_clients() {
    let text =
        "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.1-10.0.1.9\npersist web source\nclients 20\n";
    let mut balancer = Balancer::new(policy(text), 1, 0);
    let from = |client: u16, port: u16, flags: &str| {
        format!("ip 203.0.{}.{} > 192.0.2.80 / tcp {port} > 80 flags {flags}", client / 200, client % 200 + 1)
    };
    let mut agreed = Vec::new();
    for client in 0..10 {
        let to = server(&mut balancer, 0, &from(client, 1, "S"));
        send(&mut balancer, 0, &format!("ip {to} > 203.0.0.{} / tcp 80 > 1 flags SA", client + 1));
        server(&mut balancer, 0, &from(client, 1, "A"));
        agreed.push(to);
    }
    for client in 1000..2000 {
        server(&mut balancer, S, &from(client, 1, "S"));
        assert!(balancer.clients() <= 20);
    }
    // Other servers come: those that are agreed keep theirs, also with fewer or more places.
    for more in ["clients 15\n", "clients 500\n"] {
        load(&mut balancer, S, &text.replace("10.0.1.9", "10.0.1.99").replace("clients 20\n", more));
        for (client, to) in (0..10).zip(&agreed) {
            assert_eq!(server(&mut balancer, S, &from(client, 2, "S")), *to);
        }
    }
    for client in 2000..3000 {
        server(&mut balancer, S, &from(client, 1, "S"));
    }
    assert_eq!(balancer.clients(), 500);
    for (client, to) in (0..10).zip(&agreed) {
        assert_eq!(server(&mut balancer, S, &from(client, 3, "S")), *to);
    }
}
