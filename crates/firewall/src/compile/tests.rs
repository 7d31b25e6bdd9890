// SPDX-License-Identifier: MIT OR Apache-2.0

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Some words of a rule.
fn some(words: &[&str], weight: u32) -> impl Strategy<Value = String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    prop_oneof![weight => Just(String::new()), 2 => prop::sample::select(words)]
}

fn rule() -> impl Strategy<Value = String> {
    let ports = "80|443,80|1-1023|1024-65535|@some|0-65535";
    let addresses = "10.0.0.0/8|10.0.0.1|10.0.0.1-10.0.0.6,10.0.1.0/24|!10.0.0.0/30|@hosts|!@hosts,10.0.0.2|2001:db8::/32|2001:db8::1,10.0.0.3|::/0|0.0.0.0/0|10.0.0.3-10.200.0.1";
    let with = |keyword: &'static str, values: &'static str| {
        let all: Vec<String> = values.split('|').map(|value| format!("{keyword} {value}")).collect();
        prop_oneof![2 => Just(String::new()), 1 => prop::sample::select(all)]
    };
    let protocols = some(
        &[
            "tcp",
            "udp",
            "tcp,udp",
            "proto 47,tcp",
            "icmp",
            "icmp6",
            "ping",
            "ping,udp",
            "icmp type 8,3/1",
            "icmp6 type 128,1/4",
        ],
        1,
    );
    (
        prop::sample::select(vec!["accept", "drop", "reject"]),
        with("from", "a|b|self|a,b|any"),
        with("to", "a|b|self|b,self"),
        some(&["ip", "ip6"], 8),
        protocols,
        with("src", addresses),
        with("dst", addresses),
        with("sport", ports),
        with("port", ports),
    )
        .prop_map(|(action, from, to, family, protocol, src, dst, sport, port)| {
            let has_ports = protocol.is_empty() || protocol.starts_with("tcp") || protocol.starts_with("udp");
            let ports = if has_ports { format!("{sport} {port}") } else { String::new() };
            format!("{action} {from} {to} {family} {protocol} {src} {dst} {ports}\n")
        })
}

fn facts() -> impl Strategy<Value = Facts> {
    let host = prop_oneof![0u32..12, 0u32..1024, any::<u32>()];
    let port =
        prop_oneof![prop::sample::select(vec![0u16, 79, 80, 81, 443, 1023, 1024, 65535]), any::<u16>()];
    let protocol = prop::sample::select(vec![6u8, 17, 47, 1, 58]);
    (0u8..3, 0u8..3, any::<bool>(), [host.clone(), host], protocol, [port.clone(), port], 0u8..5).prop_map(
        |(from, to, six, hosts, protocol, ports, code)| {
            let address = |host: u32| match six {
                false => IpAddr::from(Ipv4Addr::from(0x0a00_0000 ^ host)),
                true => IpAddr::from(Ipv6Addr::from(0x2001_0db8_u128 << 96 ^ u128::from(host))),
            };
            let protocol = match protocol {
                1 | 58 if six => 58,
                1 | 58 => 1,
                other => other,
            };
            let kind = if six {
                [128, 1, 2, 129][usize::from(code % 4)]
            } else {
                [8, 3, 0, 5][usize::from(code % 4)]
            };
            Facts {
                from,
                to,
                source: address(hosts[0]),
                destination: address(hosts[1]),
                protocol,
                ports: [6, 17].contains(&protocol).then_some(ports),
                icmp: [1, 58].contains(&protocol).then_some([kind, code]),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    #[test]
    fn look_ups_equal_the_list(rules in prop::collection::vec(rule(), 0..40), all in prop::collection::vec(facts(), 40)) {
        let head = "zone a eth0\nzone b eth1\nset hosts 10.0.0.4/30 2001:db8::8/125\nset some 80 8000-9000\n";
        // Those that no packet can match are refused.
        let mut text = head.to_owned();
        for rule in rules {
            if crate::read("one", &format!("{head}{rule}"), Path::new(".")).policy.is_some() {
                text += &rule;
            }
        }
        let reading = crate::read("all", &text, Path::new("."));
        let policy = reading.policy.expect("each rule is right");
        let compiled = Compiled::new(&policy).expect("room");
        let warnings = crate::review(&policy).into_iter();
        let hidden: Vec<_> = warnings.filter(|d| d.code == "W0601").filter_map(|d| d.span).collect();
        for facts in all {
            let naive = policy.rules.iter().position(|rule| rule.matches.hold(&policy.sets, &facts));
            let found = compiled.find(&policy, &facts, |_| false);
            prop_assert_eq!(found, naive.map(|rule| rule as u32), "{:?}\n{}", facts, text);
            // What the review says is true: no packet reaches those rules.
            prop_assert!(naive.is_none_or(|rule| !hidden.contains(&policy.rules[rule].span)), "{:?}\n{}", facts, text);
        }
    }
}

#[test]
fn ranges_are_few_prefixes() {
    for (text, expected) in [
        ("10.0.0.1-10.0.0.6", 4),
        ("0.0.0.0/0", 1),
        ("0.0.0.1-255.255.255.254", 62),
        ("::/0", 1),
        ("::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 254),
        ("10.0.0.0/8", 1),
    ] {
        assert_eq!(prefixes(AddressRange::parse(text).unwrap()).len(), expected, "{text}");
    }
}
