// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single rules as JSON that nft 1.0.6 does not list, and what they become.

use std::fmt::Write as _;

use junctor_nftables::{Options, import};

/// Imports rules of a chain at forward. Returns the rules of the section "through", and the findings.
fn imported(policy: &str, sets: &str, rules: &[&str]) -> (String, String) {
    let mut text = format!(
        r#"{{"nftables":[{{"chain":{{"family":"inet","table":"t","name":"f","type":"filter","hook":"forward","prio":0,"policy":"{policy}"}}}}{sets}"#
    );
    let known = r#"{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},{"accept":null}"#;
    for (handle, expr) in std::iter::once(&known).chain(rules).enumerate() {
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
    const INNER_PORTS: &str = r#"{"match":{"op":"==","left":{"payload":{"tunnel":"gre","base":"th","offset":0,"len":32}},"right":5}}"#;
    let inner_count = r#"{"set":{"op":"add","elem":{"payload":{"tunnel":"gre","protocol":"ip","field":"saddr"}},"set":"@c","stmt":[{"ct count":{"val":3,"inv":true}}]}},{"drop":null}"#;
    let with = |matches: &str, verdict: &str| format!(r#"{matches},{{"{verdict}":null}}"#);
    let limited = r#"{"vmap":{"key":{"payload":{"protocol":"tcp","field":"dport"}},"data":{"set":[[{"elem":{"val":82,"limit":{"rate":1,"per":"second"}}},{"accept":null}],[83,{"drop":null}]]}}}"#;
    for (rule, rules, findings) in [
        (with(INNER, "drop"), "default accept", "WIDER: vxlan ip saddr 10.0.0.1 drop"),
        (with(INNER, "accept"), "default accept", "NARROWER: vxlan ip saddr 10.0.0.1 accept"),
        (with(INNER_PORTS, "drop"), "default accept", "WIDER: gre @th,0,32 5 drop"),
        (inner_count.to_owned(), "default accept", "WIDER: add @c { gre ip saddr ct count over 3 } drop"),
        (limited.to_owned(), "default accept", "WIDER: tcp dport vmap { 82 : accept, 83 : drop }"),
    ] {
        let found = imported("accept", "", &[&rule]);
        assert_eq!(found, (rules.to_owned(), findings.to_owned()), "{rule}");
    }
}
