// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the corpus of the fuzz target `nft_json` and mutations of it, and listings that are too large.

mod json_check;

use std::fmt::Write as _;
use std::path::Path;

use json_check::check;
use junctor_nftables::{Options, Refused, import};
use serde_json::{Value, json};

fn corpus() -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nft_json");
    let entries = std::fs::read_dir(&corpus).expect("the corpus");
    entries.map(|entry| std::fs::read_to_string(entry.expect("readable").path()).expect("a text")).collect()
}

/// All values in a value, by a number for each.
fn nth(value: &mut Value, left: &mut usize, change: &mut dyn FnMut(&mut Value)) -> bool {
    if *left == 0 {
        change(value);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(all) => all.iter_mut().any(|one| nth(one, left, change)),
        Value::Object(all) => all.values_mut().any(|one| nth(one, left, change)),
        _ => false,
    }
}

#[test]
fn listings_and_mutations_pass() {
    let others = [
        Value::Null,
        json!(-1),
        json!(18_446_744_073_709_551_615_u64),
        json!("*"),
        json!("@set"),
        json!("\"#\n\\,"),
        json!([]),
        json!({"unknown": {"key": [1, {"a": "b"}]}}),
        json!({"range": [9, 1]}),
        json!({"set": [{"elem": {"val": "x", "timeout": 1}}, {"prefix": {"addr": "10.0.0.0", "len": 99}}]}),
        json!({"jump": {"target": "odd"}}),
    ];
    let (mut right, mut all) = (0, 0);
    for text in corpus() {
        let whole: Value = serde_json::from_str(&text).expect("JSON");
        for at in (0..).step_by(4) {
            let mut is_there = false;
            // One mutation of a value, another one of the next.
            let other = &others[at % others.len()];
            let mut changed = whole.clone();
            is_there |= nth(&mut changed, &mut at.clone(), &mut |value| *value = other.clone());
            if !is_there {
                break;
            }
            right += usize::from(check(&changed.to_string()));
            all += 1;
        }
        assert!(check(&text));
    }
    assert!(all > 300 && right > all / 2, "{right} of {all}");
}

#[test]
fn texts_that_are_cut_are_no_listings() {
    for text in corpus() {
        for at in (0..text.len()).step_by(97).filter(|at| text.is_char_boundary(*at)) {
            assert!(!check(&text[..at]));
        }
    }
}

fn listing(chains: &str, rules: &str) -> String {
    format!(
        r#"{{"nftables":[{{"chain":{{"family":"inet","table":"t","name":"f","type":"filter","hook":"forward","prio":0,"policy":"drop"}}}}{chains}{rules}]}}"#
    )
}

fn rule(chain: &str, handle: u32, expr: &str) -> String {
    format!(
        r#",{{"rule":{{"family":"inet","table":"t","chain":"{chain}","handle":{handle},"expr":[{expr}]}}}}"#
    )
}

fn port(number: u32) -> String {
    format!(
        r#"{{"match":{{"op":"==","left":{{"payload":{{"protocol":"tcp","field":"dport"}}}},"right":{number}}}}}"#
    )
}

fn source(last: u32) -> String {
    format!(
        r#"{{"match":{{"op":"!=","left":{{"payload":{{"protocol":"ip","field":"saddr"}}}},"right":"10.0.0.{last}"}}}}"#
    )
}

#[test]
fn what_would_grow_without_end_is_refused() {
    let options = Options::default();
    let named = |name: &str| format!(r#",{{"chain":{{"family":"inet","table":"t","name":"{name}"}}}}"#);
    // Each jump may return in two ways.
    let (mut chains, mut rules) = (String::new(), String::new());
    for n in 0..60 {
        chains += &named(&format!("c{n}"));
        rules += &rule(&format!("c{n}"), n, &format!(r#"{},{{"return":null}}"#, source(n)));
        rules += &rule(&format!("c{n}"), n, &format!(r#"{},{{"drop":null}}"#, port(n)));
        rules += &rule("f", 100 + n, &format!(r#"{{"jump":{{"target":"c{n}"}}}}"#));
    }
    let refused = import(&listing(&chains, &rules), &options).unwrap_err();
    assert!(matches!(refused, Refused::TooMany { .. } | Refused::TooDeep { .. }), "{refused}");
    // A circle of jumps, which no kernel takes.
    let (chains, rules) = (named("a"), rule("a", 1, r#"{"jump":{"target":"a"}}"#));
    let jump = rule("f", 2, r#"{"jump":{"target":"a"}}"#);
    let refused = import(&listing(&chains, &(rules + &jump)), &options).unwrap_err();
    assert!(matches!(refused, Refused::TooDeep { .. }), "{refused}");
    // Values one in another.
    let deep = "[".repeat(100_000);
    assert!(matches!(import(&deep, &options), Err(Refused::NotJson(_))));
    // What nft prints without rights, or in another namespace, must not become a file that lets everything pass.
    for empty in [r#"{"nftables": []}"#, r#"{"nftables": [{"metainfo": {"json_schema_version": 1}}]}"#] {
        assert_eq!(import(empty, &options).unwrap_err(), Refused::Nothing);
    }
    let missing = rule("f", 1, r#"{"goto":{"target":"nowhere"}}"#);
    assert!(matches!(import(&listing("", &missing), &options), Err(Refused::NoChain { .. })));
    let refused = import(r#"{"nftables":[{"add":{"table":{"family":"ip","name":"t"}}}]}"#, &options);
    assert_eq!(refused.unwrap_err(), Refused::Commands);
    let refused = import(r#"{"nftables":[{"metainfo":{"json_schema_version":7}}]}"#, &options);
    assert_eq!(refused.unwrap_err(), Refused::Version(7));
}

#[test]
fn what_is_too_much_is_refused() {
    let options = Options { nat: true, ..Options::default() };
    let base = |name: &str, kind: &str, hook: &str| {
        format!(
            r#",{{"chain":{{"family":"inet","table":"t","name":"{name}","type":"{kind}","hook":"{hook}","prio":0,"policy":"accept"}}}}"#
        )
    };
    let many =
        |count: u32| (0..count).map(|n| base(&format!("b{n}"), "filter", "forward")).collect::<String>();
    // A chain of translation that is reached in many ways.
    let mut jumps = base("n", "nat", "prerouting") + r#",{"chain":{"family":"inet","table":"t","name":"x"}}"#;
    for n in 0..200 {
        jumps += &rule("n", n, &format!(r#"{},{{"jump":{{"target":"x"}}}}"#, port(n)));
        jumps += &rule("x", 1000 + n, &format!(r#"{},{{"dnat":{{"addr":"10.0.0.1"}}}}"#, port(n)));
    }
    // Sets with many elements in many rules: a set of addresses counts once, one of families each time.
    let set = |kind: &str, elements: &str| {
        format!(
            r#",{{"set":{{"family":"inet","name":"{kind}","table":"t","type":"{kind}","elem":[{elements}]}}}}"#
        )
    };
    let uses = |left: &str, set: &str, count: u32| -> String {
        let one = format!(r#"{{"match":{{"op":"==","left":{left},"right":"@{set}"}}}}"#);
        (0..count).map(|n| rule("f", n, &format!(r#"{one},{},{{"accept":null}}"#, port(n)))).collect()
    };
    let families = set("nf_proto", &vec![r#""ipv4""#; 60_000].join(","));
    let addresses: Vec<String> =
        (0..50_000u32).map(|n| format!("\"{}\"", std::net::Ipv4Addr::from(n * 7))).collect();
    let of_sources = uses(r#"{"payload":{"protocol":"ip","field":"saddr"}}"#, "ipv4_addr", 60);
    for (chains, expected) in [
        (
            families + &uses(r#"{"meta":{"key":"nfproto"}}"#, "nf_proto", 600),
            Some("elements of sets in all rules"),
        ),
        (set("ipv4_addr", &addresses.join(",")) + &of_sources, None),
        (many(10_000), Some("base chains that a packet meets")),
        (many(40), None),
        (jumps, Some("rules of address translation when chains are written out")),
    ] {
        let found = match import(&listing(&chains, ""), &options) {
            Ok(_) => None,
            Err(Refused::TooMany { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn long_lists_pass() {
    let mut elements = String::new();
    for n in 0..50_000u32 {
        let _ = write!(elements, "{}\"{}\"", if n == 0 { "" } else { "," }, std::net::Ipv4Addr::from(n * 7));
    }
    let set = format!(
        r#",{{"set":{{"family":"inet","name":"many","table":"t","type":"ipv4_addr","elem":[{elements}]}}}}"#
    );
    let of = |right: &str| {
        format!(
            r#"{{"match":{{"op":"==","left":{{"payload":{{"protocol":"ip","field":"saddr"}}}},"right":{right}}}}}"#
        )
    };
    let mut rules = rule("f", 1, &format!(r#"{},{{"drop":null}}"#, of("\"@many\"")));
    rules += &rule("f", 2, &format!(r#"{},{{"accept":null}}"#, of(&format!(r#"{{"set":[{elements}]}}"#))));
    for n in 0..2000 {
        rules += &rule("f", 10 + n, &format!(r#"{},{{"accept":null}}"#, port(n)));
    }
    let imported = import(&listing(&set, &rules), &Options::default()).unwrap();
    assert!(imported.rules.contains("\ndrop src @many\n") && imported.rules.contains("\naccept src @list\n"));
    assert_eq!(imported.origins.len(), 2005);
}
