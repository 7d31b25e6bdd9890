// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book's tutorials, as a new user types them: all commands come from the pages themselves.

use testbed::rig::skip_without;
use testbed::strongswan;

use crate::follow::{Plan, follow};

/// The text of a tutorial.
macro_rules! page {
    ($name:literal) => {
        include_str!(concat!("../../../../docs/book/src/tutorials/", $name))
    };
}

/// Whether what all pages need is missing here; says so.
fn skip(name: &str, more: &[&str]) -> bool {
    skip_without(name, &[&["nsenter", "unshare", "ping"], more].concat())
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

/// Few frames.
const SLOWER: (&str, &str) = ("--size 64", "--link 200k --stragglers 0.2 --size 64");
/// A search with few trials.
const SHORTER: (&str, &str) =
    ("test mlr ", "test mlr --goal 'ndr width=10 initial=0.05 final=0.05 sum=0.1' ");

#[test]
fn a_router_as_written() {
    if skip("a_router_as_written", &["traceroute", "tcpdump"]) {
        return;
    }
    // Nobody sits at the terminal.
    let plan = Plan { instead: &[("junctor top ", "junctor top --once ")], ..Plan::default() };
    let said = follow(page!("router.md"), plan);
    shows(&said, &[("3 packets transmitted, 3 received", 1)]);
}

#[test]
fn a_bridge_as_written() {
    if skip("a_bridge_as_written", &[]) {
        return;
    }
    let left_out = [("junctor lab bridge", "it takes long, and lab.rs runs it")];
    let plan = Plan { instead: &[SLOWER, SHORTER], left_out: &left_out, ..Plan::default() };
    let said = follow(page!("bridge.md"), plan);
    shows(&said, &[("3 packets transmitted, 3 received", 1)]);
}

#[test]
fn address_translation_as_written() {
    if skip("address_translation_as_written", &["tcpdump"]) {
        return;
    }
    let said = follow(page!("nat.md"), Plan::default());
    shows(
        &said,
        &[("3 packets transmitted, 3 received", 1), ("IP 192.0.2.1 > 192.0.2.9: ICMP echo request", 1)],
    );
}

/// What the page about bottlenecks takes for granted: a router with traffic.
const A_BUSY_ROUTER: &str = "
```sh
for n in 0 1; do
    ip netns add host$n
    ip link add port$n type veth peer name eth0 netns host$n
    ip -n host$n addr add 10.0.0.1$n/24 dev eth0
    ip -n host$n link set eth0 up
    ip link set port$n up
done
cat > router.click <<END
FromDevice(port0, PROMISC true) -> Queue -> ToDevice(port1);
FromDevice(port1, PROMISC true) -> Queue -> ToDevice(port0);
END
junctor run -j 2 router.click
```
```sh
ip netns exec host0 ping -i 0.01 10.0.0.11 > /dev/null &
```
";

#[test]
fn finding_a_bottleneck_as_written() {
    if skip("finding_a_bottleneck_as_written", &[]) {
        return;
    }
    let page = format!("{A_BUSY_ROUTER}{}", page!("bottleneck.md"));
    let instead = [
        ("junctor top\n", "junctor top --once\n"),
        ("--time 2s", "--time 300ms"),
        ("junctor plan", "junctor plan --runs 2 --run-ms 2"),
    ];
    follow(&page, Plan { instead: &instead, ..Plan::default() });
}

#[test]
fn measuring_as_written() {
    if skip("measuring_as_written", &[]) {
        return;
    }
    let instead = [
        ("--size 64 --rate 1M --time 2", "--size=64 --rate 10k --time 0.05 --stragglers 0.2"),
        ("--rate 100k", "--rate 10k --time 0.05 --stragglers 0.2"),
        ("--repeat 5", "--repeat 2"),
        SLOWER,
        SHORTER,
        ("test rfc2544 ", "test rfc2544 --trial 0.05 "),
        ("bench engine conf/ip-router.click ", "bench engine --runs 1 --run-ms 2 conf/ip-router.click "),
    ];
    let said = follow(page!("measuring.md"), Plan { instead: &instead, ..Plan::default() });
    // A trial with a router, and one with a cable.
    shows(&said, &[("0.000000 % of those sent", 2)]);
}

#[test]
fn two_sites_and_a_tunnel_as_written() {
    let name = "two_sites_and_a_tunnel_as_written";
    if skip(name, &["tcpdump"]) {
        return;
    }
    let said = follow(page!("ipsec.md"), Plan::default());
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
    // Asked for its version, it would begin.
    let has_daemons = std::path::Path::new("/usr/sbin/charon-systemd").exists()
        && strongswan::program().is_some()
        && strongswan::has_own_esp();
    if !has_daemons {
        eprintln!("{name} skipped: strongSwan with charon-systemd and kernel-libipsec is not installed");
    }
    if !has_daemons || skip(name, &["swanctl", "tcpdump", "xargs"]) {
        return;
    }
    let loaded = [1, 2]
        .map(|n| format!("junctor ipsec --socket /run/junctor/r{n}/user.sock policy | grep -q 10.2.0.0/16"));
    let awaited = [
        ("junctor up r1", &*loaded[0]),
        ("junctor up r2", &*loaded[1]),
        ("site1 ping -c 3", "ip netns exec site1 ping -c 1 -W 1 10.2.0.2"),
        ("exec anna env STRONGSWAN_CONF", "test -S anna/vici"),
        ("--rekey --child net", NOTHING_IS_LOST),
        ("addr add 192.0.2.51", "ip netns exec anna ping -c 1 -W 1 10.1.0.2"),
    ];
    let said = follow(page!("strongswan.md"), Plan { awaited: &awaited, ..Plan::default() });
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
