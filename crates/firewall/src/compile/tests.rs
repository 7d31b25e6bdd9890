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
    let macs = "2:0:0:0:0:1|2:0:0:0:0:0/46|!2:0:0:0:0:2,2:0:0:0:0:4-2:0:0:0:0:6|@phones|!@phones";
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
        (with("port", ports), with("mac", macs)),
    )
        .prop_map(|(action, from, to, family, protocol, src, dst, sport, (port, mac))| {
            let has_ports = protocol.is_empty() || protocol.starts_with("tcp") || protocol.starts_with("udp");
            let ports = if has_ports { format!("{sport} {port}") } else { String::new() };
            format!("{action} {from} {to} {family} {protocol} {src} {dst} {mac} {ports}\n")
        })
}

fn facts() -> impl Strategy<Value = Facts> {
    let host = prop_oneof![0u32..12, 0u32..1024, any::<u32>()];
    let port =
        prop_oneof![prop::sample::select(vec![0u16, 79, 80, 81, 443, 1023, 1024, 65535]), any::<u16>()];
    let protocol = prop::sample::select(vec![6u8, 17, 47, 1, 58]);
    let mac =
        prop::option::of(0u64..10).prop_map(|mac| mac.map(|mac| wire::MacAddr::from_u64(2 << 40 | mac)));
    (0u8..3, 0u8..3, any::<bool>(), [host.clone(), host], protocol, [port.clone(), port], 0u8..5, mac)
        .prop_map(|(from, to, six, hosts, protocol, ports, code, mac)| {
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
                vrfs: [0; 2],
                source: address(hosts[0]),
                destination: address(hosts[1]),
                protocol,
                ports: [6, 17].contains(&protocol).then_some(ports),
                icmp: [1, 58].contains(&protocol).then_some([kind, code]),
                mac,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    #[test]
    fn look_ups_equal_the_list(rules in prop::collection::vec(rule(), 0..40), all in prop::collection::vec(facts(), 40)) {
        let head = "zone a eth0\nzone b eth1\nset hosts 10.0.0.4/30 2001:db8::8/125\nset some 80 8000-9000\nset phones 2:0:0:0:0:3 2:0:0:0:0:8-2:0:0:0:0:9\n";
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
        let sets = View::of_policy(&policy);
        let warnings = crate::review(&policy).into_iter();
        let hidden: Vec<_> = warnings.filter(|d| d.code == "W0601").filter_map(|d| d.span).collect();
        for facts in all {
            let naive = policy.rules.iter().position(|rule| rule.matches.hold(&sets, &facts, 0));
            let found = compiled.find(&policy, &sets, &facts, 0, |_| false);
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

/// What a set may get or lose: an entry, until a time.
fn set_change() -> impl Strategy<Value = (usize, &'static str, Option<Option<u64>>)> {
    const HOSTS: [&str; 9] = [
        "10.0.0.4/30",
        "10.0.0.0/29",
        "10.0.0.5",
        "10.0.0.2-10.0.0.9",
        "10.0.0.0/8",
        "2001:db8::8/125",
        "2001:db8::3",
        "2001:db8::2-2001:db8::9",
        "2001:db8::/32",
    ];
    const PORTS: [&str; 6] = ["80", "79-81", "443", "1-1023", "1024-65535", "81"];
    const MACS: [&str; 5] =
        ["2:0:0:0:0:1", "2:0:0:0:0:0/46", "2:0:0:0:0:2-2:0:0:0:0:7", "2:0:0:0:0:8", "2:0:0:0:0:0/24"];
    let end =
        || prop_oneof![2 => Just(Some(None)), 2 => (0u64..6).prop_map(|t| Some(Some(t))), 2 => Just(None)];
    prop_oneof![
        (prop::sample::select(HOSTS.as_slice()), end()).prop_map(|(entry, end)| (0, entry, end)),
        (prop::sample::select(PORTS.as_slice()), end()).prop_map(|(entry, end)| (1, entry, end)),
        (prop::sample::select(MACS.as_slice()), end()).prop_map(|(entry, end)| (2, entry, end)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]
    /// The same rules with the entries in the place of the names of sets say the same, also when the sets change between packets.
    #[test]
    fn sets_that_change_are_as_if_they_were_written_out(
        rules in prop::collection::vec(rule(), 1..12),
        steps in prop::collection::vec((prop::collection::vec(set_change(), 0..4), prop::collection::vec(facts(), 8)), 1..6),
    ) {
        let zones = "zone a eth0\nzone b eth1\n";
        let head = format!("{zones}set hosts addresses\nset some ports\nset phones macs\n");
        let is_right = |text: &str| crate::read("one", text, Path::new(".")).policy.is_some();
        // Sets are asked for more often, and rules that cannot be are left out.
        let rules: Vec<String> = rules.iter().map(|rule| rule.replace("10.0.0.1 ", "@hosts ").replace("port 443,80", "port @some").replace("mac 2:0:0:0:0:1 ", "mac @phones "))
            .filter(|rule| is_right(&format!("{head}{rule}"))).collect();
        let policy = crate::read("all", &format!("{head}{}", rules.concat()), Path::new(".")).policy.expect("right");
        let ruleset = crate::Ruleset::new(policy).expect("room");
        // No packet has these, so that a list has a member.
        let mut sets: [Vec<(String, u64)>; 3] = [
            vec![("192.0.2.255".into(), u64::MAX), ("2001:db9::".into(), u64::MAX)],
            vec![("7".into(), u64::MAX)],
            vec![("2:0:0:0:1:0".into(), u64::MAX)],
        ];
        for (now, (changes, all)) in steps.into_iter().enumerate() {
            let now = now as u64;
            for (which, text, end) in changes {
                let (name, entries) = (["hosts", "some", "phones"][which], &mut sets[which]);
                entries.retain(|(entry, _)| entry != text);
                if let Some(end) = end {
                    entries.push((text.to_owned(), end.unwrap_or(u64::MAX)));
                }
                let (set, kind) = ruleset.set(name).expect("known");
                let entry = crate::set::Entry::parse(kind, text).expect("right");
                let end = end.map(|end| end.unwrap_or(u64::MAX));
                ruleset.change(set, now, &[entry], |contents| contents.change(&[entry], end), |_| ()).expect("room");
            }
            let written = |n: usize| {
                let present = sets[n].iter().filter(|(_, end)| now < *end).map(|(entry, _)| entry.as_str());
                present.collect::<Vec<_>>().join(",")
            };
            let [hosts, some, phones] = [written(0), written(1), written(2)];
            let texts = rules.iter().map(|rule| rule.replace("@hosts", &hosts).replace("@some", &some).replace("@phones", &phones));
            let policy = crate::read("plain", &format!("{zones}{}", texts.collect::<String>()), Path::new(".")).policy.expect("right");
            for facts in all.iter().filter(|facts| facts.ports.is_none_or(|ports| !ports.contains(&7))) {
                let naive = policy.rules.iter().position(|rule| rule.matches.hold(&View::default(), facts, now));
                prop_assert_eq!(ruleset.find(facts, now), naive.map(|rule| rule as u32), "{:?}\n{}", facts, rules.concat());
            }
        }
    }
}
