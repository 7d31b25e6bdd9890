// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book's tutorials on IPsec, as a new user types them: all commands come from the pages themselves.

use testbed::rig::{Namespace, skip_without, wait_for};

use crate::machine::{Machine, Up, blocks};
use crate::site::PATIENCE;
use crate::warriors;

const BY_HAND: &str = include_str!("../../../../docs/book/src/tutorials/ipsec.md");
const BY_CHARON: &str = include_str!("../../../../docs/book/src/tutorials/strongswan.md");
/// Commands that have a terminal to themselves.
const STAY: [&str; 3] = ["junctor run --control", "junctor up", "charon-systemd"];

/// Runs the commands of a page. After those with these words, something must succeed before the user goes on. Returns what all of them have printed.
fn follow(page: &str, awaited: &[(&str, &str)]) -> String {
    let machine = Machine::new(Namespace::new("page").unwrap());
    let (mut terminals, mut said) = (Vec::new(), String::new());
    for block in blocks(page, "sh") {
        let stays = block.lines().count() == 1 && STAY.iter().any(|words| block.contains(words));
        match stays {
            true => terminals.push(Up(Some(machine.start(block.trim())))),
            false => said += &machine.run(block).unwrap_or_else(|why| panic!("{block}: {why}\n{said}")),
        }
        for (_, condition) in awaited.iter().filter(|(words, _)| block.contains(words)) {
            wait_for(condition, PATIENCE, || machine.run(condition).is_ok())
                .unwrap_or_else(|why| panic!("{why}\n{said}"));
        }
    }
    said
}

/// Asserts that lines with these words were printed, so often.
fn shows(said: &str, words: &[(&str, usize)]) {
    for (words, count) in words {
        assert_eq!(said.matches(words).count(), *count, "'{words}' in\n{said}");
    }
}

/// The first 20 answers that the page has written down are those to packets 1 to 20: none is missing.
const NOTHING_IS_LOST: &str =
    r#"test "$(sed -n 's/.*icmp_seq=\([0-9]*\).*/\1/p' ping.txt | head -n 20 | sort -n)" = "$(seq 20)""#;

/// The numbers of the answers that each ping has printed, in order.
fn answered(said: &str) -> Vec<Vec<usize>> {
    let pings = said.split("\nPING ").skip(usize::from(!said.starts_with("PING ")));
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
    pings
        .map(|ping| {
            let mut numbers: Vec<usize> = ping.lines().filter_map(number).collect();
            numbers.sort_unstable();
            numbers
        })
        .collect()
}

#[test]
fn two_sites_and_a_tunnel_as_written() {
    let name = "two_sites_and_a_tunnel_as_written";
    if skip_without(name, &["nsenter", "unshare", "tcpdump", "ping"]) {
        return;
    }
    let runs = [1, 2].map(|n| format!("junctor ctl --socket /run/gateway{n}.sock ipsec.sas"));
    let said = follow(
        BY_HAND,
        &[("--control /run/gateway1.sock", &runs[0]), ("--control /run/gateway2.sock", &runs[1])],
    );
    shows(
        &said,
        &[
            ("10 packets transmitted, 10 received", 1),
            (": ESP(spi=", 4),
            ("2  replayed", 2),
            ("2  bad-icv", 1),
            ("3  unprotected", 1),
            ("3 packets transmitted, 0 received", 1),
            ("3 packets transmitted, 3 received", 2),
            ("sent 3 top 0 bytes 252 packets 3", 1),
        ],
    );
}

#[test]
fn two_sites_and_a_road_warrior_as_written() {
    let name = "two_sites_and_a_road_warrior_as_written";
    if warriors::skip(name) || skip_without(name, &["nsenter", "unshare", "tcpdump", "xargs"]) {
        return;
    }
    let loaded = [1, 2]
        .map(|n| format!("junctor ipsec --socket /run/junctor/r{n}/user.sock policy | grep -q 10.2.0.0/16"));
    let said = follow(
        BY_CHARON,
        &[
            ("junctor up r1", &loaded[0]),
            ("junctor up r2", &loaded[1]),
            ("site1 ping -c 3", "ip netns exec site1 ping -c 1 -W 1 10.2.0.2"),
            ("charon-systemd", "test -S anna/vici"),
            ("--rekey --child net", NOTHING_IS_LOST),
            ("addr add 192.0.2.51", "ip netns exec anna ping -c 1 -W 1 10.1.0.2"),
        ],
    );
    shows(&said, &[("site: #1, ESTABLISHED", 1), (": ESP(spi=", 4), (" is down", 2)]);
    assert!(said.contains("src 192.0.2.51 dst 192.0.2.1 proto esp "), "{said}");
    let answers = answered(&said);
    // The first packet is lost, as the page says, and others with it on a busy machine.
    assert!(answers.len() == 4 && answers[0].len() >= 3, "{answers:?} in\n{said}");
    // Then each one is answered. Where answers are late, ping sends more, of which the last ones need not be.
    for answers in &answers[1..] {
        assert!(
            answers.len() >= 2 && answers.iter().copied().eq(1..=answers.len()),
            "{answers:?} in\n{said}"
        );
    }
}
