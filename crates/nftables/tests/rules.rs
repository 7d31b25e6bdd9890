// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single rules as JSON that nft 1.0.6 does not list, and what they become.

use std::fmt::Write as _;

use junctor_nftables::{Options, import};

/// A rule that accepts the packets of known connections.
const KNOWN: &str = r#"{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},{"accept":null}"#;

/// Imports rules of a chain at forward. Returns the rules of the section "through", and the findings.
fn imported(policy: &str, sets: &str, rules: &[&str]) -> (String, String) {
    let mut text = format!(
        r#"{{"nftables":[{{"chain":{{"family":"inet","table":"t","name":"f","type":"filter","hook":"forward","prio":0,"policy":"{policy}"}}}}{sets}"#
    );
    for (handle, expr) in std::iter::once(&KNOWN).chain(rules).enumerate() {
        let _ = write!(
            text,
            r#",{{"rule":{{"family":"inet","table":"t","chain":"f","handle":{handle},"expr":[{expr}]}}}}"#
        );
    }
    let found = import(&(text + "]}"), &Options::default()).expect("a listing");
    let (_, through) = found.rules.split_once("# Through the router.\n").expect("a section");
    let rules = through.lines().filter(|line| !line.starts_with('#'));
    let findings = found.findings.iter().map(|one| format!("{}: {}", one.effect.word(), one.rule));
    (rules.collect::<Vec<_>>().join("; "), findings.collect::<Vec<_>>().join("; "))
}

#[test]
fn rules_become_others_or_findings() {
    const INNER: &str = r#"{"match":{"op":"==","left":{"payload":{"tunnel":"vxlan","protocol":"ip","field":"saddr"}},"right":"10.0.0.1"}}"#;
    const MAC: &str = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ether","field":"saddr"}},"right":"52:54:00:00:00:01"}}"#;
    const NOT_MACS: &str = r#"{"match":{"op":"!=","left":{"payload":{"protocol":"ether","field":"saddr"}},"right":{"set":["52:54:00:00:00:01",{"range":["52:54:00:00:00:00","52:54:00:00:00:ff"]}]}}}"#;
    const TO_MAC: &str = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ether","field":"daddr"}},"right":"52:54:00:00:00:01"}}"#;
    const INNER_PORTS: &str = r#"{"match":{"op":"==","left":{"payload":{"tunnel":"gre","base":"th","offset":0,"len":32}},"right":5}}"#;
    let inner_count = r#"{"set":{"op":"add","elem":{"payload":{"tunnel":"gre","protocol":"ip","field":"saddr"}},"set":"@c","stmt":[{"ct count":{"val":3,"inv":true}}]}},{"drop":null}"#;
    let with = |matches: &str, verdict: &str| format!(r#"{matches},{{"{verdict}":null}}"#);
    let limited = r#"{"vmap":{"key":{"payload":{"protocol":"tcp","field":"dport"}},"data":{"set":[[{"elem":{"val":82,"limit":{"rate":1,"per":"second"}}},{"accept":null}],[83,{"drop":null}]]}}}"#;
    for (rule, rules, findings) in [
        (with(INNER, "drop"), "default accept", "WIDER: vxlan ip saddr 10.0.0.1 drop"),
        (with(INNER, "accept"), "default accept", "NARROWER: vxlan ip saddr 10.0.0.1 accept"),
        (with(MAC, "drop"), "drop mac 52:54:00:00:00:01; default accept", ""),
        (with(NOT_MACS, "drop"), "drop mac !52:54:00:00:00:00/40; default accept", ""),
        (with(TO_MAC, "drop"), "default accept", "WIDER: ether daddr 52:54:00:00:00:01 drop"),
        (with(INNER_PORTS, "drop"), "default accept", "WIDER: gre @th,0,32 5 drop"),
        (inner_count.to_owned(), "default accept", "WIDER: add @c { gre ip saddr ct count over 3 } drop"),
        (limited.to_owned(), "default accept", "WIDER: tcp dport vmap { 82 : accept, 83 : drop }"),
    ] {
        let found = imported("accept", "", &[&rule]);
        assert_eq!(found, (rules.to_owned(), findings.to_owned()), "{rule}");
    }
}

#[test]
fn sets_of_mac_addresses_stay_sets() {
    let set = |elements: &str| {
        format!(
            r#",{{"set":{{"family":"inet","table":"t","name":"phones","type":"ether_addr","handle":9{elements}}}}}"#
        )
    };
    let uses = |op: &str| {
        format!(
            r#"{{"match":{{"op":"{op}","left":{{"payload":{{"protocol":"ether","field":"saddr"}}}},"right":"@phones"}}}},{{"accept":null}}"#
        )
    };
    for (elements, op, declared, rule) in [
        (
            r#","elem":["52:54:00:00:00:01","52:54:00:00:00:07"]"#,
            "==",
            "set phones macs 52:54:00:00:00:01 52:54:00:00:00:07",
            "accept mac @phones",
        ),
        (
            r#","elem":["52:54:00:00:00:01"]"#,
            "!=",
            "set phones macs 52:54:00:00:00:01",
            "accept mac !@phones",
        ),
        ("", "==", "set phones macs", "accept mac @phones"),
    ] {
        let text = format!(
            r#"{{"nftables":[{{"chain":{{"family":"inet","table":"t","name":"f","type":"filter","hook":"forward","prio":0,"policy":"drop"}}}}{}{}]}}"#,
            set(elements),
            format_args!(
                r#",{{"rule":{{"family":"inet","table":"t","chain":"f","handle":1,"expr":[{}]}}}}"#,
                uses(op)
            ),
        );
        let found = import(&text, &Options::default()).expect("a listing");
        assert!(
            found.rules.contains(&format!("{declared}\n")) && found.rules.contains(&format!("{rule}\n")),
            "{}",
            found.rules
        );
        let reading = firewall::read("one", &found.rules, std::path::Path::new(""));
        assert!(reading.policy.is_some() && reading.diagnostics.is_empty(), "{:?}", reading.diagnostics);
    }
}

/// What leaves the router itself has no such source, and at postrouting kernels differ: neither is imported.
#[test]
fn mac_addresses_are_for_packets_that_come() {
    for (hook, is_imported) in
        [("output", false), ("input", true), ("prerouting", true), ("postrouting", false)]
    {
        let text = format!(
            r#"{{"nftables":[{{"chain":{{"family":"inet","table":"t","name":"c","type":"filter","hook":"{hook}","prio":0,"policy":"accept"}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"c","handle":1,"expr":[{KNOWN}]}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"c","handle":2,"expr":[{{"match":{{"op":"==","left":{{"payload":{{"protocol":"ether","field":"saddr"}}}},"right":"52:54:00:00:00:01"}}}},{{"drop":null}}]}}}}]}}"#
        );
        let found = import(&text, &Options::default()).expect("a listing");
        assert_eq!(found.rules.contains("mac 52:54:00:00:00:01"), is_imported, "{hook}: {}", found.rules);
        assert_eq!(found.findings.iter().any(|one| one.effect.word() == "WIDER"), !is_imported, "{hook}");
    }
}
