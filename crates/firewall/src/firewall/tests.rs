// SPDX-License-Identifier: MIT OR Apache-2.0

mod macs;
mod mirror;
mod shared;
mod vrfs;

use std::path::Path;

use super::*;
use crate::policy::{self, ICMP, ICMP6, TCP, UDP};
use crate::track::{ACK, FIN, SYN};

pub(super) const INSIDE: u8 = 1;
pub(super) const OUTSIDE: u8 = 2;
const ZONES: &str = "zone inside eth1\nzone outside eth0\n";
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn ruleset(text: &str) -> Arc<Ruleset> {
    let reading = crate::read("test", &format!("{ZONES}{text}"), Path::new("."));
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    let policy = reading.policy.unwrap_or_else(|| panic!("{shown}"));
    Arc::new(Ruleset::new(policy).unwrap())
}

pub(super) fn firewall(text: &str) -> Firewall {
    Firewall::new(ruleset(text), 7)
}

pub(super) fn swap(fw: &mut Firewall, ruleset: Arc<Ruleset>) {
    let moves = Moves::new(fw.ruleset(), &ruleset);
    fw.replace(ruleset, moves);
}

/// Ends connections that are chosen.
fn end(fw: &mut Firewall, chosen: impl Fn(&Connection) -> bool) -> usize {
    let some: Vec<Connection> = fw.connections().filter(chosen).collect();
    some.iter().for_each(|connection| fw.end(connection));
    some.len()
}

/// An IP packet of either family.
pub(super) fn ip(protocol: u8, source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    match (source.parse::<IpAddr>().unwrap(), destination.parse::<IpAddr>().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [high, low] = (20 + length).to_be_bytes();
            let mut packet = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
            packet.extend(source.octets().iter().chain(&destination.octets()).chain(payload));
            packet
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = length.to_be_bytes();
            let mut packet = vec![0x60, 0, 0, 0, high, low, protocol, 64];
            packet.extend(source.octets().iter().chain(&destination.octets()).chain(payload));
            packet
        }
        _ => panic!("two families"),
    }
}

pub(super) fn ports(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes()].concat()
}

fn udp(source: (&str, u16), destination: (&str, u16)) -> Vec<u8> {
    let payload = [ports(source.1, destination.1), vec![0, 8, 0, 0]].concat();
    ip(UDP, source.0, destination.0, &payload)
}

fn tcp(
    source: (&str, u16),
    destination: (&str, u16),
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
) -> Vec<u8> {
    let mut payload = ports(source.1, destination.1);
    payload.extend(sequence.to_be_bytes());
    payload.extend(acknowledgement.to_be_bytes());
    payload.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    ip(TCP, source.0, destination.0, &payload)
}

fn ping(source: &str, destination: &str, answers: bool, id: u16) -> Vec<u8> {
    let six = source.contains(':');
    let kind = match (six, answers) {
        (false, false) => 8,
        (false, true) => 0,
        (true, false) => 128,
        (true, true) => 129,
    };
    let [high, low] = id.to_be_bytes();
    ip(if six { ICMP6 } else { ICMP }, source, destination, &[kind, 0, 0, 0, high, low, 0, 1])
}

/// "Unreachable", about a packet.
fn error(source: &str, destination: &str, about: &[u8]) -> Vec<u8> {
    let six = source.contains(':');
    let mut payload = vec![if six { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0];
    payload.extend(&about[..if six { 48 } else { 28 }]);
    ip(if six { ICMP6 } else { ICMP }, source, destination, &payload)
}

pub(super) const PASS: Verdict = Verdict::Pass;
pub(super) const REFUSED: Verdict = Verdict::Drop(Cause::Rule);
const STRAY: Verdict = Verdict::Drop(Cause::NoConnection);

#[test]
fn answers_pass_while_their_connection_lasts() {
    for [host, server] in [["10.0.0.2", "192.0.2.1"], ["2001:db8::2", "2001:db8:1::1"]] {
        let mut fw = firewall("accept from inside to outside");
        let asks = udp((host, 1000), (server, 53));
        let answers = udp((server, 53), (host, 1000));
        assert_eq!(fw.judge(0, &answers, OUTSIDE, INSIDE).verdict, REFUSED);
        assert_eq!(fw.judge(SECOND, &asks, INSIDE, OUTSIDE).verdict, PASS);
        assert_eq!(fw.judge(60 * SECOND, &answers, OUTSIDE, INSIDE).verdict, PASS);
        assert_eq!(fw.judge(359 * SECOND, &answers, OUTSIDE, INSIDE).verdict, PASS);
        assert_eq!(fw.len(), 1);
        let connection = fw.connections().next().unwrap();
        assert_eq!(
            (connection.state, connection.packets, connection.ports),
            (State::Open, [1, 2], [1000, 53])
        );
        // A second more than its time at most.
        assert_eq!(fw.judge(660 * SECOND, &answers, OUTSIDE, INSIDE).verdict, REFUSED);
        assert!(fw.is_empty());
        // Without an answer it ends sooner.
        assert_eq!(fw.judge(700 * SECOND, &asks, INSIDE, OUTSIDE).verdict, PASS);
        assert_eq!(fw.judge(760 * SECOND, &answers, OUTSIDE, INSIDE).verdict, REFUSED);
    }
}

#[test]
fn pings_are_answered_and_not_asked() {
    for [host, server] in [["10.0.0.2", "192.0.2.1"], ["2001:db8::2", "2001:db8:1::1"]] {
        for id in [7, 8, 128] {
            let mut fw = firewall("accept from inside to outside");
            let asks = ping(host, server, false, id);
            assert_eq!(fw.judge(0, &ping(server, host, true, id), OUTSIDE, INSIDE).verdict, REFUSED);
            assert_eq!(fw.judge(0, &asks, INSIDE, OUTSIDE).verdict, PASS);
            assert_eq!(fw.judge(0, &ping(server, host, true, id), OUTSIDE, INSIDE).verdict, PASS);
            assert_eq!(fw.judge(0, &ping(server, host, true, id + 1), OUTSIDE, INSIDE).verdict, REFUSED);
            // A query with the identifier of ours is a query.
            assert_ne!(fw.judge(0, &ping(server, host, false, id), OUTSIDE, INSIDE).verdict, PASS);
            assert_ne!(fw.judge(0, &ping(host, server, true, id), INSIDE, OUTSIDE).verdict, PASS);
        }
    }
}

#[test]
fn errors_pass_with_their_connection_only() {
    for [host, server, router] in
        [["10.0.0.2", "192.0.2.1", "192.0.2.254"], ["2001:db8::2", "2001:db8:1::1", "2001:db8:1::fe"]]
    {
        let mut fw = firewall("accept from inside to outside");
        let asks = udp((host, 1000), (server, 53));
        let syn = tcp((host, 2000), (server, 80), SYN, 100, 0);
        let query = ping(host, server, false, 9);
        for packet in [&asks, &syn, &query] {
            assert_eq!(fw.judge(0, &error(router, host, packet), OUTSIDE, INSIDE).verdict, REFUSED);
            assert_eq!(fw.judge(0, packet, INSIDE, OUTSIDE).verdict, PASS);
            assert_eq!(fw.judge(0, &error(router, host, packet), OUTSIDE, INSIDE).verdict, PASS);
        }
        let other = udp((host, 1001), (server, 53));
        assert_eq!(fw.judge(0, &error(router, host, &other), OUTSIDE, INSIDE).verdict, REFUSED);
        // What it quotes was not sent, or not by its receiver.
        let made_up = tcp((host, 2000), (server, 80), SYN, 5_000_000, 0);
        let verdict = fw.judge(0, &error(router, host, &made_up), OUTSIDE, INSIDE).verdict;
        assert_eq!(verdict, Verdict::Drop(Cause::Window));
        let neighbour = if host.contains(':') { "2001:db8::3" } else { "10.0.0.3" };
        assert_eq!(fw.judge(0, &error(router, neighbour, &asks), OUTSIDE, INSIDE).verdict, REFUSED);
        assert_eq!(fw.len(), 3);
    }
}

#[test]
fn tcp_passes_in_its_window_only() {
    let mut fw = firewall("accept from inside to outside tcp");
    let (host, server) = (("10.0.0.2", 1000), ("192.0.2.1", 80));
    let mut there =
        |flags, sequence, ack| fw.judge(0, &tcp(host, server, flags, sequence, ack), INSIDE, OUTSIDE).verdict;
    assert_eq!(there(ACK, 100, 900), STRAY);
    assert_eq!(there(SYN | FIN, 100, 0), STRAY);
    assert_eq!(there(SYN, 100, 0), PASS);
    let mut back =
        |flags, sequence, ack| fw.judge(0, &tcp(server, host, flags, sequence, ack), OUTSIDE, INSIDE).verdict;
    assert_eq!(back(SYN | ACK, 900, 777), Verdict::Drop(Cause::Window));
    assert_eq!(back(SYN | ACK, 900, 101), PASS);
    assert_eq!(fw.judge(0, &tcp(host, server, ACK, 101, 901), INSIDE, OUTSIDE).verdict, PASS);
    let far = tcp(server, host, ACK, 5_000_000, 101);
    assert_eq!(fw.judge(0, &far, OUTSIDE, INSIDE).verdict, Verdict::Drop(Cause::Window));
    // Closed, and the same ports again.
    assert_eq!(fw.judge(0, &tcp(host, server, ACK | FIN, 101, 901), INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(fw.judge(0, &tcp(server, host, ACK | FIN, 901, 102), OUTSIDE, INSIDE).verdict, PASS);
    let again = tcp(host, server, SYN, 4_000_000, 0);
    let decision = fw.judge(0, &again, INSIDE, OUTSIDE);
    assert_eq!((decision.verdict, decision.is_known, decision.rule), (PASS, false, Some(0)));
    assert_eq!((fw.len(), fw.counts()[0].packets, fw.counts()[0].connections), (1, 2, 1));
    // From outside the rules are asked again, and refuse.
    end(&mut fw, |_| true);
    assert_eq!(fw.judge(0, &tcp(server, host, SYN, 1, 0), OUTSIDE, INSIDE).verdict, REFUSED);
}

#[test]
fn limits_hold() {
    let mut fw = firewall(
        "accept from inside limit 2/s burst 2 name fast\ndrop from inside udp port 9 log\naccept from inside max-per-source 3",
    );
    let from = |host: u8, port: u16| udp((&format!("10.0.0.{host}"), port), ("192.0.2.1", 9));
    let rule = |fw: &mut Firewall, now, packet: &[u8]| fw.judge(now, packet, INSIDE, OUTSIDE).rule;
    let rules: Vec<_> = (0..4).map(|port| rule(&mut fw, 0, &from(2, port))).collect();
    assert_eq!(rules, [Some(0), Some(0), Some(1), Some(1)]);
    // Half a second later there is room for one. Those of known connections need none.
    assert_eq!(rule(&mut fw, SECOND / 2, &from(2, 0)), Some(0));
    assert_eq!(rule(&mut fw, SECOND / 2, &from(2, 4)), Some(0));
    let last = fw.judge(SECOND / 2, &from(2, 5), INSIDE, OUTSIDE);
    assert_eq!((last.rule, last.logs, last.verdict), (Some(1), true, REFUSED));

    let mut fw = firewall("accept from inside max-per-source 3");
    let verdict = |fw: &mut Firewall, now, packet: &[u8]| fw.judge(now, packet, INSIDE, OUTSIDE).verdict;
    for (host, port, expected) in [
        (2, 1, PASS),
        (2, 2, PASS),
        (2, 3, PASS),
        (2, 4, Verdict::Drop(Cause::SourceLimit)),
        (3, 1, PASS),
        (2, 3, PASS),
    ] {
        assert_eq!(verdict(&mut fw, 0, &from(host, port)), expected, "{host} {port}");
    }
    // They end, and others may come.
    assert_eq!(verdict(&mut fw, 61 * SECOND, &from(2, 4)), PASS);
}

#[test]
fn a_full_table_keeps_what_both_sides_agreed_on() {
    let mut fw = firewall("connections 10\naccept from inside to outside");
    let from = |port: u16| udp(("10.0.0.2", port), ("192.0.2.1", 53));
    let to = |port: u16| udp(("192.0.2.1", 53), ("10.0.0.2", port));
    for port in 0..5 {
        assert_eq!(fw.judge(u64::from(port), &from(port), INSIDE, OUTSIDE).verdict, PASS);
        assert_eq!(fw.judge(u64::from(port), &to(port), OUTSIDE, INSIDE).verdict, PASS);
    }
    // A flood takes the place of itself.
    for port in 100..1000 {
        assert_eq!(fw.judge(9, &from(port), INSIDE, OUTSIDE).verdict, PASS);
        assert!(fw.len() <= 10);
    }
    for port in 0..5 {
        assert_eq!(fw.judge(10, &to(port), OUTSIDE, INSIDE).verdict, PASS, "{port}");
    }
    // Where all are agreed on, nothing gives way.
    let ports: Vec<u16> = fw.connections().map(|connection| connection.ports[0]).collect();
    for port in ports {
        assert_eq!(fw.judge(11, &to(port), OUTSIDE, INSIDE).verdict, PASS);
    }
    assert_eq!(fw.judge(12, &from(2000), INSIDE, OUTSIDE).verdict, Verdict::Drop(Cause::Full));
    assert_eq!(fw.len(), 10);
}

#[test]
fn other_rules_keep_connections_and_counts() {
    let mut fw = firewall(
        "accept from inside to outside udp port 53 name dns\naccept from inside to outside udp port 123\naccept from inside to outside udp port 7",
    );
    let to = |port: u16| udp(("10.0.0.2", 1000), ("192.0.2.1", port));
    for port in [53, 123, 7] {
        fw.judge(5, &to(port), INSIDE, OUTSIDE);
    }
    let text = "zone new eth9\naccept from inside to outside udp port 123\naccept from inside to new udp\naccept from inside to outside udp port 53,853 name dns";
    swap(&mut fw, ruleset(text));
    assert_eq!(fw.len(), 3);
    let counts: Vec<_> = fw.counts().iter().map(|c| (c.packets, c.connections)).collect();
    assert_eq!(counts, [(1, 1), (0, 0), (1, 1), (0, 0)]);
    let refused: Vec<_> =
        fw.connections().filter(|c| fw.ruleset().refuses(c, 0)).map(|c| c.ports[1]).collect();
    assert_eq!(refused, [7]);
    assert_eq!(fw.judge(6, &udp(("192.0.2.1", 7), ("10.0.0.2", 1000)), OUTSIDE, INSIDE).verdict, PASS);
    assert_eq!(end(&mut fw, |connection| connection.ports[1] == 7), 1);
    assert_eq!(fw.judge(6, &udp(("192.0.2.1", 7), ("10.0.0.2", 1000)), OUTSIDE, INSIDE).verdict, REFUSED);
    assert_eq!(fw.counts().last().map(|c| c.connections), Some(0));
}

#[test]
fn what_cannot_be_judged_is_dropped() {
    let mut fw = firewall("default accept");
    let good = udp(("10.0.0.2", 1), ("192.0.2.1", 2));
    for length in 0..good.len() {
        assert_eq!(
            fw.judge(0, &good[..length], INSIDE, OUTSIDE).verdict,
            Verdict::Drop(Cause::Malformed),
            "{length}"
        );
    }
    let mut short = tcp(("10.0.0.2", 1), ("192.0.2.1", 2), SYN, 1, 0);
    short[32] = 0xf0;
    assert_eq!(fw.judge(0, &short, INSIDE, OUTSIDE).verdict, Verdict::Drop(Cause::Malformed));
    let six = udp(("2001:db8::2", 1), ("2001:db8::3", 2));
    for length in 0..six.len() {
        assert_eq!(
            fw.judge(0, &six[..length], INSIDE, OUTSIDE).verdict,
            Verdict::Drop(Cause::Malformed),
            "{length}"
        );
    }
}

#[test]
fn stateless_rules_pass_packets_one_by_one() {
    let mut fw = firewall("accept tcp port 80 stateless\naccept tcp sport 80 stateless");
    let (host, server) = (("10.0.0.2", 1000), ("192.0.2.1", 80));
    assert_eq!(fw.judge(0, &tcp(host, server, ACK, 5, 5), INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(fw.judge(0, &tcp(server, host, ACK, 5, 5), OUTSIDE, INSIDE).verdict, PASS);
    assert!(fw.is_empty());
}

#[test]
fn later_fragments_go_the_way_of_the_first() {
    let mut fw = firewall("accept from inside to outside udp port 53\ndefault reject");
    for (port, pass) in [(53, true), (54, false)] {
        for six in [false, true] {
            let [host, server] =
                if six { ["2001:db8::2", "2001:db8:1::1"] } else { ["10.0.0.2", "192.0.2.1"] };
            let fragment = |offset: u16, more: bool, payload: &[u8]| {
                let word = (offset | u16::from(more)).to_be_bytes();
                if six {
                    let header = [UDP, 0, word[0], word[1], 0, 0, 0, port as u8];
                    return ip(44, host, server, &[&header, payload].concat());
                }
                let mut packet = ip(UDP, host, server, payload);
                packet[5] = port as u8;
                let word = ((offset / 8) | (u16::from(more) << 13)).to_be_bytes();
                packet[6..8].copy_from_slice(&word);
                packet
            };
            let first =
                fragment(0, true, &[ports(9, port), vec![0, 40, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]].concat());
            let later = fragment(16, false, &[7; 24]);
            let overlapping = fragment(8, true, &[7; 24]);
            let unknown = Verdict::Drop(Cause::Fragment);
            assert_eq!(fw.judge(0, &later, INSIDE, OUTSIDE).verdict, unknown);
            let verdict = fw.judge(1, &first, INSIDE, OUTSIDE).verdict;
            assert_eq!(verdict, if pass { PASS } else { Verdict::Reject(Answer::Usual) });
            assert_eq!(fw.judge(2, &later, INSIDE, OUTSIDE).verdict, if pass { PASS } else { unknown });
            assert_eq!(fw.judge(3, &overlapping, INSIDE, OUTSIDE).verdict, unknown);
            assert_eq!(fw.judge(61 * SECOND, &later, INSIDE, OUTSIDE).verdict, unknown);
        }
    }
}

#[test]
fn the_router_itself_may_speak() {
    let mut fw = firewall("drop from self to outside udp port 9");
    let to = |port: u16| udp(("192.0.2.9", 1), ("192.0.2.1", port));
    assert_eq!(fw.judge(0, &to(9), policy::SELF, OUTSIDE).verdict, REFUSED);
    assert_eq!(fw.judge(0, &to(10), policy::SELF, OUTSIDE).verdict, PASS);
    // And it gets answers.
    assert_eq!(fw.judge(0, &udp(("192.0.2.1", 10), ("192.0.2.9", 1)), OUTSIDE, policy::SELF).verdict, PASS);
    // Of connections that it had before, and its errors.
    let old = tcp(("192.0.2.9", 179), ("192.0.2.1", 5000), ACK, 5, 5);
    assert_eq!(fw.judge(0, &old, policy::SELF, OUTSIDE).verdict, PASS);
    let about = udp(("192.0.2.1", 7), ("10.0.0.2", 7));
    assert_eq!(fw.judge(0, &error("192.0.2.9", "192.0.2.1", &about), policy::SELF, OUTSIDE).verdict, PASS);
    assert_eq!(fw.len(), 1);
}

#[test]
fn rehearsals_change_nothing() {
    let mut fw = firewall("accept from inside to outside limit 1/h burst 1");
    let (asks, answers) = (udp(("10.0.0.2", 1), ("192.0.2.1", 2)), udp(("192.0.2.1", 2), ("10.0.0.2", 1)));
    for _ in 0..9 {
        let decision = fw.rehearse(5, &asks, INSIDE, OUTSIDE);
        assert_eq!(decision.verdict, PASS);
        let why = fw.ruleset().explain(&decision);
        assert_eq!(why, "line 3: accept from inside to outside limit 1/h burst 1");
    }
    assert_eq!((fw.len(), fw.counts()[0].packets), (0, 0));
    fw.judge(6, &asks, INSIDE, OUTSIDE);
    let decision = fw.rehearse(7, &answers, OUTSIDE, INSIDE);
    assert!(fw.ruleset().explain(&decision).starts_with("of a connection that was accepted by line 3"));
    assert_eq!(fw.connections().next().map(|c| (c.packets, c.state)), Some(([1, 0], State::Single)));
    let refused = fw.rehearse(8, &udp(("192.0.2.1", 2), ("10.0.0.2", 5)), OUTSIDE, INSIDE);
    assert_eq!(fw.ruleset().explain(&refused), "no rule matches: default drop");
}

#[test]
fn rules_come_and_go_and_slots_are_used_again() {
    let mut fw = firewall("accept from inside to outside udp port 53 name dns max-per-source 2");
    let to = |port: u16| udp(("10.0.0.2", port), ("192.0.2.1", 53));
    fw.judge(1, &to(1), INSIDE, OUTSIDE);
    for turn in 0..50 {
        let name = if turn % 2 == 0 { "other" } else { "dns" };
        let text = format!(
            "accept from inside to outside udp port 53 name {name} max-per-source 2\naccept from outside tcp name t{turn}"
        );
        swap(&mut fw, ruleset(&text));
        let connection = fw.connections().next().unwrap();
        let rule = (turn == 1).then_some(0);
        assert_eq!((fw.len(), connection.zones), (1, [INSIDE, OUTSIDE]), "{turn} {rule:?}");
    }
    let sum: u64 = fw.counts().iter().map(|counts| counts.connections).sum();
    assert_eq!(sum, 0, "its rule went, and the one that came has another slot");
    assert_eq!(fw.judge(2, &to(2), INSIDE, OUTSIDE).verdict, PASS);
    // The connection of a rule that was always there.
    for turn in 0..5 {
        swap(
            &mut fw,
            ruleset(&format!(
                "accept from outside tcp name u{turn}\naccept from inside to outside udp port 53 name dns max-per-source 2"
            )),
        );
        assert_eq!(fw.counts()[1].connections, 1);
    }
    assert_eq!(fw.judge(2, &to(3), INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(fw.judge(2, &to(4), INSIDE, OUTSIDE).verdict, Verdict::Drop(Cause::SourceLimit));
    // A zone goes, and comes back.
    swap(
        &mut fw,
        Arc::new(
            Ruleset::new(
                crate::read("t", "zone lan eth1\nzone outside eth0", Path::new(".")).policy.unwrap(),
            )
            .unwrap(),
        ),
    );
    assert!(fw.connections().all(|c| c.zones == [u8::MAX, OUTSIDE] && fw.ruleset().refuses(&c, 0)));
    swap(&mut fw, ruleset("connections 1\naccept from inside"));
    assert!(fw.len() > 1, "none ends by itself");
    assert!(fw.connections().all(|c| c.zones == [INSIDE, OUTSIDE] && !fw.ruleset().refuses(&c, 0)));
}

#[test]
fn another_number_of_connections_comes_in_steps() {
    for count in [30, 3000] {
        let mut fw = firewall("connections 300\naccept from inside to outside");
        let from = |port: u16| udp(("10.0.0.2", port), ("192.0.2.1", 53));
        let to = |port: u16| udp(("192.0.2.1", 53), ("10.0.0.2", port));
        let six = |port: u16| udp(("2001:db8::2", port), ("2001:db8:1::1", 53));
        for port in 0..20 {
            fw.judge(0, &from(port), INSIDE, OUTSIDE);
            fw.judge(0, &to(port), OUTSIDE, INSIDE);
        }
        for port in 100..300 {
            let packet = if port % 2 == 0 { from(port) } else { six(port) };
            assert_eq!(fw.judge(0, &packet, INSIDE, OUTSIDE).verdict, PASS);
        }
        let before = fw.len();
        let next = ruleset(&format!("connections {count}\naccept from inside to outside"));
        let moves = Moves::new(fw.ruleset(), &next);
        fw.replace(next, moves);
        let mut port = 300;
        while fw.resize_some(7) {
            for known in 0..20 {
                assert_eq!(fw.judge(1, &to(known), OUTSIDE, INSIDE).verdict, PASS, "{known}");
            }
            fw.judge(1, &from(port), INSIDE, OUTSIDE);
            port += 1;
        }
        assert_eq!(fw.retired().len(), 2);
        for port in port..port + 400 {
            fw.judge(1, &from(port), INSIDE, OUTSIDE);
        }
        // No other one begins while there are too many, and none ends for it.
        let expected = if count == 30 { before } else { before + usize::from(port) - 300 + 400 };
        assert_eq!(fw.len(), expected);
        for known in 0..20 {
            assert_eq!(fw.judge(2, &to(known), OUTSIDE, INSIDE).verdict, PASS, "{known}");
        }
        // Those that nobody has answered are over.
        for port in 1000..1300 {
            fw.judge(100 * SECOND, &from(port), INSIDE, OUTSIDE);
        }
        assert_eq!(fw.judge(100 * SECOND, &from(1299), INSIDE, OUTSIDE).verdict, PASS);
        assert!(fw.len() <= count, "{}", fw.len());
    }
}

#[test]
fn a_flood_of_either_family_takes_the_place_of_itself() {
    for six in [false, true] {
        let mut fw = firewall("connections 50\naccept from inside to outside");
        // An answered ping ends soonest, and stays.
        fw.judge(0, &ping("10.0.0.2", "192.0.2.1", false, 7), INSIDE, OUTSIDE);
        fw.judge(0, &ping("192.0.2.1", "10.0.0.2", true, 7), OUTSIDE, INSIDE);
        let [host, server] = if six { ["2001:db8::2", "2001:db8:1::1"] } else { ["10.0.0.2", "192.0.2.1"] };
        for port in 0..500 {
            let syn = tcp((host, port), (server, 80), SYN, 100, 0);
            assert_eq!(fw.judge(1, &syn, INSIDE, OUTSIDE).verdict, PASS, "{port}");
            // Servers answer.
            let answer = tcp((server, 80), (host, port), SYN | ACK, 900, 101);
            assert_eq!(fw.judge(1, &answer, OUTSIDE, INSIDE).verdict, PASS, "{port}");
        }
        // And one of the other family.
        let other = if six {
            udp(("10.0.0.9", 1), ("192.0.2.1", 53))
        } else {
            udp(("2001:db8::9", 1), ("2001:db8:1::1", 53))
        };
        assert_eq!(fw.judge(1, &other, INSIDE, OUTSIDE).verdict, PASS);
        assert_eq!(fw.len(), 50);
        assert_eq!(fw.connections().filter(|c| c.state == State::Open).count(), 1);
    }
}

#[test]
fn what_has_ended_does_not_count_for_its_source() {
    let mut fw = firewall("accept from inside max-per-source 2 name web");
    let (server, host) = (("192.0.2.1", 80), "10.0.0.2");
    for port in 0..20 {
        let verdict = fw.judge(0, &tcp((host, port), server, SYN, 100, 0), INSIDE, OUTSIDE).verdict;
        assert_eq!(verdict, PASS, "{port}");
        for (back, flags, sequence, acknowledged) in
            [(true, SYN | ACK, 900, 101), (false, ACK | FIN, 101, 901), (true, ACK | FIN, 901, 102)]
        {
            let (from, to) = if back { (server, (host, port)) } else { ((host, port), server) };
            let (a, b) = if back { (OUTSIDE, INSIDE) } else { (INSIDE, OUTSIDE) };
            assert_eq!(fw.judge(0, &tcp(from, to, flags, sequence, acknowledged), a, b).verdict, PASS);
        }
    }
    assert_eq!(fw.len(), 20);
    let asks =
        |fw: &mut Firewall, port| fw.judge(0, &tcp((host, port), server, SYN, 1, 0), INSIDE, OUTSIDE).verdict;
    assert_eq!([asks(&mut fw, 100), asks(&mut fw, 101)], [PASS, PASS]);
    assert_eq!(asks(&mut fw, 102), Verdict::Drop(Cause::SourceLimit));
}

#[test]
fn strays_spend_no_limit() {
    let mut fw = firewall("accept from inside tcp limit 1/h burst 2 log");
    for _ in 0..9 {
        let decision = fw.judge(0, &tcp(("10.0.0.2", 1), ("192.0.2.1", 2), ACK, 5, 5), INSIDE, OUTSIDE);
        assert_eq!((decision.verdict, decision.logs), (STRAY, false));
    }
    assert_eq!(
        fw.judge(0, &tcp(("10.0.0.2", 1), ("192.0.2.1", 2), SYN, 5, 0), INSIDE, OUTSIDE).verdict,
        PASS
    );
}

#[test]
fn the_routers_own_connections_need_no_rule() {
    let mut fw = firewall("accept to outside tcp\nreject from outside");
    fw.judge(0, &udp(("192.0.2.9", 1), ("192.0.2.1", 53)), policy::SELF, OUTSIDE);
    assert!(fw.connections().all(|c| !fw.ruleset().refuses(&c, 0)));
    // A reset that refuses somebody, though a rule is about what the router sends.
    let reset = tcp(("10.0.0.2", 113), ("192.0.2.1", 9), 4 | ACK, 0, 7);
    assert_eq!(fw.judge(0, &reset, policy::SELF, OUTSIDE).verdict, PASS);
}

#[test]
fn headers_behind_the_fragment_header_are_of_the_fragment() {
    let mut fw = firewall("accept from inside to outside udp");
    let fragment = |next: u8, offset: u16, more: bool, payload: &[u8]| {
        let word = (offset | u16::from(more)).to_be_bytes();
        ip(44, "2001:db8::2", "2001:db8:1::1", &[&[next, 0, word[0], word[1], 0, 0, 0, 5], payload].concat())
    };
    // Destination options, and then UDP.
    let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
    let first = fragment(
        60,
        0,
        true,
        &[&options[..], &ports(9, 53), &[0, 40, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]].concat(),
    );
    assert_eq!(fw.judge(0, &first, INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(fw.judge(0, &fragment(60, 24, false, &[7; 8]), INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(
        fw.judge(0, &fragment(UDP, 16, false, &[7; 8]), INSIDE, OUTSIDE).verdict,
        Verdict::Drop(Cause::Fragment)
    );
}

#[test]
fn errors_about_errors_about_errors_are_looked_at_once() {
    let mut fw = firewall("accept from inside to outside");
    for [host, router] in [["10.0.0.2", "192.0.2.254"], ["2001:db8::2", "2001:db8:1::fe"]] {
        let mut packet = udp((host, 1), (router, 2));
        let header = if host.contains(':') { 40 } else { 20 };
        while packet.len() + header + 8 < 60_000 {
            let kind = if host.contains(':') { 1 } else { 3 };
            let payload = [&[kind, 1, 0, 0, 0, 0, 0, 0], &packet[..]].concat();
            packet = ip(if host.contains(':') { ICMP6 } else { ICMP }, router, host, &payload);
        }
        // On a small stack.
        let verdict = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(128 << 10);
            builder
                .spawn_scoped(scope, || fw.judge(0, &packet, OUTSIDE, INSIDE).verdict)
                .unwrap()
                .join()
                .unwrap()
        });
        assert_eq!(verdict, REFUSED);
    }
}

#[test]
fn sets_change_between_two_packets() {
    let mut fw = firewall("set friends addresses\nset web 80\naccept from outside src @friends port @web\n");
    let ruleset = Arc::clone(fw.ruleset());
    let change = |fw: &mut Firewall, name: &str, entry: &str, end: Option<u64>| {
        let (set, kind) = ruleset.set(name).unwrap();
        let entry = crate::set::Entry::parse(kind, entry).unwrap();
        ruleset.change(
            set,
            0,
            &[entry],
            |set| set.change(&[entry], end),
            |view| drop(fw.put_sets(&ruleset, view)),
        )
    };
    let passes = |fw: &mut Firewall, now: u64, port: u16, to: u16| {
        fw.judge(now, &udp(("192.0.2.1", port), ("10.0.0.2", to)), OUTSIDE, INSIDE).verdict == Verdict::Pass
    };
    assert!(!passes(&mut fw, 0, 1, 80));
    assert_eq!(change(&mut fw, "friends", "192.0.2.0/24", Some(5 * SECOND)), Ok(1));
    assert!(passes(&mut fw, SECOND, 1, 80) && !passes(&mut fw, SECOND, 1, 81));
    assert_eq!(change(&mut fw, "web", "81", Some(crate::set::FOREVER)), Ok(1));
    assert!(passes(&mut fw, SECOND, 1, 81));
    // The time is over: what is there goes on, and nothing new begins.
    assert!(passes(&mut fw, 6 * SECOND, 1, 80) && !passes(&mut fw, 6 * SECOND, 2, 80));
    assert!(fw.connections().all(|c| ruleset.refuses(&c, 6 * SECOND) && !ruleset.refuses(&c, SECOND)));
    // Other rules have sets of their own, or take those there are.
    let other = self::ruleset("set friends addresses\nset web addresses\naccept from outside src @friends\n");
    assert_eq!(change(&mut fw, "friends", "192.0.2.1", Some(crate::set::FOREVER)), Ok(1));
    other.adopt(&ruleset);
    // From here on a change would be lost.
    let said = change(&mut fw, "friends", "192.0.2.1", None).unwrap_err();
    assert_eq!(said, "the rules were replaced meanwhile: say it again");
    swap(&mut fw, Arc::clone(&other));
    assert!(passes(&mut fw, 7 * SECOND, 3, 99));
    for (now, expected) in [(SECOND, (2, 1)), (7 * SECOND, (1, 0))] {
        let found: Vec<_> = other.sets(now).iter().map(|set| (set.entries, set.ending)).collect();
        assert_eq!(found, [expected, (0, 0)], "{now}");
    }
    let said = ruleset.set("fiends").unwrap_err();
    assert_eq!(said, "there is no set 'fiends'; the rules have friends, web");
}

#[test]
fn entries_of_a_file_end_after_their_time() {
    let directory = std::env::temp_dir().join(format!("junctor-firewall-ends-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("list"), "10.0.0.1 for 10s\n10.0.0.2 Example Ltd\n").unwrap();
    let reading = crate::read("test", "set some file list\naccept src @some", &directory);
    let members = crate::members(&directory.join("list"), crate::set::Kind::Addresses).unwrap();
    let wrong = crate::members(&directory.join("list"), crate::set::Kind::Ports).unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(wrong.ends_with("list:1: '10.0.0.1' is not a port"), "{wrong}");
    let policy = reading.policy.unwrap();
    assert_eq!(members, policy.sets[0].entries);
    let ruleset = Ruleset::new(policy).unwrap();
    ruleset.begin(100 * SECOND);
    let finds = |host: &str, now: u64| {
        let packet = udp((host, 1), ("192.0.2.1", 1));
        ruleset.find(&Seen::of(&packet, INSIDE, OUTSIDE).unwrap().facts, now).is_some()
    };
    assert!(finds("10.0.0.1", 110 * SECOND - 1) && !finds("10.0.0.1", 110 * SECOND));
    assert!(finds("10.0.0.2", u64::MAX - 1));
}

#[test]
fn sources_and_networks_have_limits_of_their_own() {
    for (words, source, begun) in [
        ("max-per-source 2", "10.0.0.%", [2, 2, 2]),
        ("max-per-network 3", "10.0.0.%", [3, 0, 0]),
        ("max-per-network 3", "2001:db8:0:%::2", [3, 3, 3]),
        ("max-per-network 3", "2001:db8::%", [3, 0, 0]),
        ("new-per-source 1/m burst 2", "10.0.0.%", [2, 2, 2]),
        ("new-per-network 1/m burst 4 max-per-source 3", "10.0.0.%", [3, 1, 0]),
        ("new-per-network 1/m burst 4", "2001:db8::%", [4, 0, 0]),
    ] {
        let mut fw = firewall(&format!("accept from inside to outside udp {words}"));
        let server = if source.contains(':') { "2001:db8:1::1" } else { "192.0.2.1" };
        for (n, expected) in begun.into_iter().enumerate() {
            let host = source.replace('%', &(n + 1).to_string());
            let mut passed = 0;
            for port in 0..10 {
                let packet = udp((&host, 1000 + port), (server, 53));
                let rehearsed = fw.rehearse(0, &packet, INSIDE, OUTSIDE);
                let decision = fw.judge(0, &packet, INSIDE, OUTSIDE);
                assert_eq!(rehearsed, decision);
                passed += usize::from(decision.verdict == PASS);
                let cause = if words.starts_with("new") { Cause::SourceRate } else { Cause::SourceLimit };
                let is_named = [PASS, Verdict::Drop(cause), Verdict::Drop(Cause::SourceLimit)];
                assert!(is_named.contains(&decision.verdict), "{decision:?}");
            }
            assert_eq!(passed, expected, "{words} {host}");
        }
        // What has ended does not count.
        end(&mut fw, |_| true);
        let host = source.replace('%', "1");
        let again = fw.judge(60 * SECOND, &udp((&host, 9), (server, 53)), INSIDE, OUTSIDE);
        assert_eq!(again.verdict, PASS, "{words}");
    }
}
