// SPDX-License-Identifier: MIT OR Apache-2.0
//! Health checks on a virtual clock, with servers that answer as real ones do.

use std::collections::HashSet;

use super::*;

const CHECKED: &str = "own 10.0.1.1\nown 2001:db8:1::1\nservice web tcp 192.0.2.80 port 80 direct\n\
    server web 10.0.1.11-10.0.1.13\ncheck web tcp every 2s timeout 500ms rise 2 fall 3\n";

/// Servers that answer probes.
struct Site {
    balancer: Balancer,
    now_ns: u64,
    next_ns: Option<u64>,
    /// Servers that listen, and those that refuse; others are silent.
    alive: HashSet<IpAddr>,
    refusing: HashSet<IpAddr>,
    /// How many SYNs, echo requests and resets have left.
    sent: [usize; 3],
}

/// The answer to a probe.
fn answer(probe: &[u8], is_refused: bool) -> Vec<u8> {
    let [from, to] = addresses(probe).unwrap().map(crate::packet::address);
    let (ip, header) = if from.is_ipv4() { ("ip", 20) } else { ("ip6", 40) };
    let word = |at: usize| u16::from_be_bytes([probe[header + at], probe[header + at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let is_tcp = probe[if header == 20 { 9 } else { 6 }] == 6;
    match is_tcp {
        true => {
            let flags = if is_refused { "RA" } else { "SA" };
            let acknowledged = long(4).wrapping_add(1);
            packet(&format!(
                "{ip} {to} > {from} / tcp {} > {} flags {flags} ack {acknowledged}",
                word(2),
                word(0)
            ))
        }
        false => {
            let kind = if header == 20 { "icmp" } else { "icmp6" };
            let rest = probe[header + 8..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            packet(&format!("{ip} {to} > {from} / {kind} reply id {} seq {} / hex {rest}", word(4), word(6)))
        }
    }
}

impl Site {
    fn new(text: &str, alive: &[&str]) -> Site {
        let balancer = Balancer::new(policy(text), 1, 0);
        let alive = alive.iter().map(|one| ip(one)).collect();
        Site { balancer, now_ns: 0, next_ns: Some(0), alive, refusing: HashSet::new(), sent: [0; 3] }
    }

    /// Goes on until a time; servers answer at once.
    fn until(&mut self, end_ns: u64) {
        while let Some(at_ns) = self.next_ns.filter(|at_ns| *at_ns <= end_ns) {
            assert!(at_ns >= self.now_ns);
            self.now_ns = at_ns;
            self.next_ns = self.turn();
        }
        self.now_ns = end_ns;
    }

    fn turn(&mut self) -> Option<u64> {
        let mut probes = Vec::new();
        let next = self.balancer.work(self.now_ns, |probe| probes.push(*probe));
        for probe in probes {
            let bytes = probe.bytes();
            check(bytes);
            let is_four = probe.to().is_ipv4();
            let protocol = bytes[if is_four { 9 } else { 6 }];
            let is_reset = protocol == 6 && bytes[if is_four { 33 } else { 53 }] == 4;
            self.sent[if is_reset { 2 } else { usize::from(protocol != 6) }] += 1;
            let is_refused = self.refusing.contains(&probe.to());
            if is_reset || !(is_refused || self.alive.contains(&probe.to())) {
                continue;
            }
            let mut answer = answer(bytes, is_refused);
            // An answer to another probe says nothing.
            let mut forged = answer.clone();
            let at = if protocol == 6 { 11 } else { 8 } + if is_four { 20 } else { 40 };
            forged[at] ^= 1;
            assert_eq!(send_bytes(&mut self.balancer, self.now_ns, &mut forged), Outcome::Unchanged);
            assert_eq!(send_bytes(&mut self.balancer, self.now_ns, &mut answer), Outcome::Consumed);
            assert_eq!(self.balancer.has_mail(), protocol == 6 && !is_refused);
            assert_eq!(send_bytes(&mut self.balancer, self.now_ns, &mut answer), Outcome::Unchanged, "again");
        }
        if self.balancer.has_mail() { Some(self.now_ns) } else { next }
    }

    /// The states of all servers: u(p), d(own), g (draining), ? (unchecked).
    fn states(&self) -> String {
        let letter = |state: State| match state {
            State::Up => 'u',
            State::Down => 'd',
            State::Draining => 'g',
            State::Unchecked => '?',
        };
        self.balancer.servers().map(|one| letter(one.state)).collect()
    }
}

#[test]
fn servers_go_down_and_come_back() {
    let mut site = Site::new(CHECKED, &["10.0.1.11", "10.0.1.12"]);
    assert_eq!(site.states(), "???");
    site.until(0);
    assert_eq!(site.states(), "uu?");
    // The first result decides.
    site.until(S / 2);
    assert_eq!(site.states(), "uud");
    site.until(100 * S);
    assert_eq!(site.states(), "uud");
    // Each is asked every two seconds, a tenth earlier or later, and each SYN is reset.
    assert!((135..=167).contains(&site.sent[0]) && site.sent[2] >= site.sent[0] - 3, "{:?}", site.sent);
    let server_of = |site: &mut Site, client: u16| server(&mut site.balancer, site.now_ns, &tcp(client, "S"));
    assert!((0..50).all(|client| server_of(&mut site, client) != ip("10.0.1.13")));
    let table = site.balancer.faces[0].table.clone();
    assert_eq!(*table, crate::maglev::Table::of(&site.balancer.members_now(0), crate::maglev::SIZE));
    // Three failures in a row take it down, two answers bring it up.
    site.alive.remove(&ip("10.0.1.11"));
    site.until(103 * S);
    assert_eq!(site.states(), "uud");
    site.until(109 * S);
    assert_eq!(site.states(), "dud");
    assert!((100..150).all(|client| server_of(&mut site, client) == ip("10.0.1.12")));
    site.refusing.insert(ip("10.0.1.12"));
    site.until(117 * S);
    assert_eq!(site.states(), "ddd");
    assert_eq!(send(&mut site.balancer, 117 * S, &tcp(1, "A")).0, Outcome::Drop(Cause::NoServer));
    site.refusing.clear();
    site.until(119 * S);
    assert_eq!(site.states(), "ddd");
    site.until(122 * S);
    assert_eq!(site.states(), "dud");
    let checked = site.balancer.servers().nth(1).unwrap();
    assert!(checked.checked.is_some_and(|(at, ok)| ok && at > 119 * S) && checked.since_ns > 119 * S);
}

#[test]
fn echoes_are_asked_for_in_both_families() {
    let text = "own 10.0.1.1\nown 2001:db8:1::1\nservice a any 192.0.2.80\nserver a 10.0.1.11-10.0.1.12\ncheck a icmp\n\
                service b any 2001:db8::80\nserver b 2001:db8:1::11-2001:db8:1::12\ncheck b icmp\n\
                service c tcp 2001:db8::80 port 80\nserver c 2001:db8:1::11 port 8080\ncheck c tcp\n";
    let mut site = Site::new(text, &["10.0.1.11", "2001:db8:1::11"]);
    site.until(60 * S);
    assert_eq!(site.states(), "ududu");
    assert!(site.sent[0] > 20 && site.sent[1] > 100 && site.sent[2] >= site.sent[0] - 1, "{:?}", site.sent);
}

#[test]
fn a_thousand_servers_are_asked_in_turns() {
    let text = "own 10.0.0.1\nservice web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.1-10.0.4.232\n\
                check web tcp every 5s timeout 1s rise 1 fall 1\n";
    let mut site = Site::new(text, &[]);
    assert_eq!(site.balancer.policy().servers(), 1000);
    let mut most = 0;
    while site.now_ns < S / 2 {
        let before = site.sent[0];
        site.next_ns = site.turn();
        most = most.max(site.sent[0] - before);
        site.now_ns = site.next_ns.unwrap();
    }
    assert_eq!((most, site.sent[0]), (64, 1000));
    site.next_ns = Some(site.now_ns);
    site.until(4 * S);
    assert!(site.states().chars().all(|state| state == 'd') && site.balancer.faces[0].table.is_empty());
    site.alive = (1..=99).map(|n| ip(&format!("10.0.1.{n}"))).collect();
    site.until(20 * S);
    let up = site.states().chars().filter(|state| *state == 'u').count();
    assert_eq!(up, 99);
    assert!(!site.balancer.checks.has_stale);
    let table = crate::maglev::Table::of(&site.balancer.members_now(0), crate::maglev::SIZE_MANY);
    assert_eq!(*site.balancer.faces[0].table, table);
}

#[test]
fn checks_go_on_with_another_file() {
    let mut site = Site::new(CHECKED, &["10.0.1.11", "10.0.1.12"]);
    site.until(10 * S);
    let sent = site.sent[0];
    load(&mut site.balancer, 10 * S, &CHECKED.replace("10.0.1.13", "10.0.1.14").replace("fall 3", "fall 1"));
    assert_eq!(site.states(), "uud?");
    site.next_ns = Some(10 * S);
    site.until(10 * S);
    assert_eq!(
        (site.states().as_str(), site.sent[0]),
        ("uud?", sent + 1),
        "the new one alone is asked at once"
    );
    site.until(11 * S);
    assert_eq!(site.states(), "uudd");
    // Another kind of check begins anew, and without one a server counts as alive.
    load(&mut site.balancer, 11 * S, &CHECKED.replace("check web tcp", "check web icmp"));
    assert_eq!(site.states(), "???");
    load(
        &mut site.balancer,
        11 * S,
        &CHECKED.replace("check web tcp every 2s timeout 500ms rise 2 fall 3", ""),
    );
    site.until(60 * S);
    assert_eq!(site.states(), "???");
    settle(&mut site.balancer, 60 * S);
    assert_eq!(site.balancer.work(60 * S, |_| panic!("nothing is asked")), None);
}

#[test]
fn another_balancer_s_tables_serve_until_others_are_built() {
    let mut site = Site::new(CHECKED, &["10.0.1.11", "10.0.1.12"]);
    site.until(10 * S);
    let new = Balancer::new(policy(&CHECKED.replace("10.0.1.13", "10.0.1.14")), 2, 0);
    let mut draft = site.balancer.draft(Arc::clone(new.policy()));
    draft.take_tables(&new);
    site.balancer.replace(draft, 10 * S).unwrap();
    assert_eq!(site.states(), "uud?");
    let same = Arc::ptr_eq(&site.balancer.faces[0].table, &new.faces[0].table);
    assert!(same && site.balancer.faces[0].is_stale);
    let servers = |site: &mut Site, clients: std::ops::Range<u16>| {
        let all = clients.map(|client| server(&mut site.balancer, site.now_ns, &tcp(client, "S")));
        all.collect::<HashSet<IpAddr>>()
    };
    let three: HashSet<IpAddr> = ["10.0.1.11", "10.0.1.12", "10.0.1.14"].map(ip).into();
    assert_eq!(servers(&mut site, 0..60), three);
    settle(&mut site.balancer, 10 * S);
    let table = crate::maglev::Table::of(&site.balancer.members_now(0), crate::maglev::SIZE);
    assert_eq!(*site.balancer.faces[0].table, table);
    assert_eq!(servers(&mut site, 60..120), three);
}

#[test]
fn checks_go_on_if_only_others_have_changed() {
    let with_port = CHECKED.replace("check web tcp", "check web tcp port 80");
    for (new, states) in [
        (CHECKED.replace("own 2001:db8:1::1\n", ""), "uud"),
        (CHECKED.replace("port 80", "port 80,443"), "uud"),
        (with_port.clone(), "uud"),
        (with_port.replace("192.0.2.80 port 80", "192.0.2.80 port 443"), "uud"),
        (CHECKED.replace("port 80", "port 443"), "???"),
        (CHECKED.replace("own 10.0.1.1\n", "own 10.0.1.2\n"), "???"),
        (with_port.replace("tcp port 80 every", "tcp port 81 every"), "???"),
    ] {
        let mut site = Site::new(CHECKED, &["10.0.1.11", "10.0.1.12"]);
        site.until(10 * S);
        load(&mut site.balancer, 10 * S, &new);
        assert_eq!(site.states(), states, "{new}");
    }
}

#[test]
fn more_frequent_checks_begin_at_once() {
    let slow = CHECKED.replace("every 2s timeout 500ms", "every 1h timeout 1h");
    let mut site = Site::new(&slow, &["10.0.1.11"]);
    site.until(S);
    assert_eq!(site.states(), "u??");
    load(&mut site.balancer, S, CHECKED);
    site.next_ns = Some(S);
    // The silent ones have been asked at 0: their time is up.
    site.until(S);
    assert_eq!(site.states(), "udd");
    let sent = site.sent[0];
    site.until(4 * S);
    assert!((3..=5).contains(&(site.sent[0] - sent)), "{:?}", site.sent);
}

#[test]
fn an_answer_after_its_time_is_a_failure() {
    for (late, state) in [(0, State::Up), (S / 2 - 1, State::Up), (S / 2, State::Down), (S, State::Down)] {
        let mut balancer = Balancer::new(policy(CHECKED), 1, 0);
        let mut probes = Vec::new();
        balancer.work(0, |probe| probes.push(*probe));
        let mut bytes = answer(probes[0].bytes(), false);
        assert_eq!(send_bytes(&mut balancer, late, &mut bytes), Outcome::Consumed);
        let one = balancer.servers().find(|one| one.address == probes[0].to()).unwrap();
        assert_eq!((one.state, one.checked), (state, Some((late, state == State::Up))));
    }
}

#[test]
fn a_service_that_changes_all_the_time_leaves_others_their_turn() {
    let text = "service a any 192.0.2.1\nserver a 10.0.0.1-10.0.0.2\nservice b any 192.0.2.2\nserver b 10.0.0.1-10.0.0.2\n";
    for (busy, other) in [("a", 1), ("b", 0)] {
        let mut balancer = Balancer::new(policy(text), 1, 0);
        let name = ["a", "b"][other];
        balancer.set(name, ip("10.0.0.1"), None, Change::Weight(5)).unwrap();
        for turn in 0..400 {
            balancer.set(busy, ip("10.0.0.1"), None, Change::Weight(1 + turn % 2)).unwrap();
            balancer.work(0, |_| {});
        }
        assert!(!balancer.faces[other].is_stale, "{busy} is built alone");
    }
}

#[test]
fn a_person_decides() {
    let mut site = Site::new(CHECKED, &["10.0.1.11", "10.0.1.12"]);
    site.until(10 * S);
    for (server, change) in [("10.0.1.11", Some(false)), ("10.0.1.13", Some(true))] {
        site.balancer.set("web", ip(server), None, Change::Force(change)).unwrap();
    }
    site.next_ns = Some(10 * S);
    site.until(20 * S);
    assert_eq!(site.states(), "duu");
    site.balancer.set("web", ip("10.0.1.11"), None, Change::Force(None)).unwrap();
    site.balancer.set("web", ip("10.0.1.12"), None, Change::Drain(true)).unwrap();
    assert_eq!(site.states(), "ugu");
    let forced: Vec<bool> = site.balancer.servers().map(|one| one.is_forced).collect();
    assert_eq!(forced, [false, false, true]);
}
