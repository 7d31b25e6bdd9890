// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests under modifying conditions (RFC 2544 11, 12 and 21), on devices in this process.

use super::*;

/// Frames sent and received in the trials of a phase.
fn carried(object: &Value, phase: &str) -> (u64, u64) {
    let trials = object["trials"].as_array().expect("trials").iter().filter(|trial| trial["phase"] == phase);
    trials.fold((0, 0), |(sent, received), trial| {
        let count = |what: &str| trial[what].as_u64().expect("a number");
        (sent + count("sent"), received + count("received"))
    })
}

#[test]
fn random_networks_follow_one_pair_and_their_routes_are_set() {
    for device in ["self:conf/ip-router.click", "cable"] {
        let more = ["--networks", "256", "--only", "latency", "--trial", "0.5", "--at", "1000"];
        let (object, value) = told(&[&slow("rfc2544", device)[..7], &["--link", "10M"], &more].concat());
        for variant in ["one_pair", "networks_256"] {
            let us = value(&format!("rfc2544.{variant}.latency_us.p50.64"));
            assert!(us.is_some_and(|us| us > 0.0), "{variant} in {object}");
            let (sent, received) = carried(&object, &format!("latency, {}", variant.replace('_', " ")));
            assert!(sent > 0 && sent == received, "{variant}: {received} of {sent}");
        }
        let ledger = object["ledger"].as_array().expect("a ledger");
        let deviation =
            |section| ledger.iter().find(|c| c["section"] == section).map(|c| c["deviation"].clone());
        assert_eq!(deviation("RFC 2544 12"), Some(Value::Null), "{object}");
        // By RIP's updates, and so that the device has them whether it speaks RIP or not.
        assert_eq!(deviation("RFC 2544 13"), Some(Value::Null), "{object}");
        let how = object["conditions"]["routing"].to_string();
        let wanted = if device == "cable" { "needs no routes" } else { "by its handlers" };
        assert!(how.contains(wanted), "{how}");
        // Each of the tagged frames to a network of its own.
        let apart = value("rfc2544.networks_256.latency_us.tagged_apart.64");
        assert!(apart.is_some_and(|us| us > 0.0), "{object}");
        assert_eq!(value("rfc2544.one_pair.latency_us.tagged_apart.64"), None);
        let (sent, received) = carried(&object, "latency to new networks, networks 256");
        assert!(sent > 0 && sent == received, "{received} of {sent}");
        let of_latency = ledger.iter().filter(|c| c["section"] == "RFC 2544 26.2");
        let asked =
            of_latency.filter(|c| c["demand"].as_str().is_some_and(|d| d.contains("new destination")));
        assert_eq!(asked.map(|c| c["met"] == true).collect::<Vec<_>>(), [true]);
    }
    let refused = |args: &[&str]| String::from_utf8_lossy(&test(args).stderr).into_owned();
    assert!(refused(&["rfc2889", "cable", "--networks", "4"]).contains("for routers"));
    assert!(refused(&["rfc2544", "cable", "--networks", "1"]).contains("2..=760"));
}

#[test]
fn filters_are_put_on_a_configuration_and_seen_to_be_in_force() {
    for (device, size, twenty_fourth) in [
        ("self:conf/ip-router.click", "64", "deny 198.18.24.24 to 198.19.124.24"),
        ("self:conf/ip6-router.click", "128", "deny 2001:2:0:4018::18 to 2001:2:0:c018::18"),
        ("self:conf/bridge.click", "64", "deny 02:00:00:fb:00:18"),
    ] {
        let more = ["--filters", "--only", "latency", "--trial", "0.3", "--at", "1000", "--link", "10M"];
        let few = ["--size", size, "--stragglers", "5", "--flows-per-port", "16"];
        let (object, value) = told(&[&["rfc2544", device], &few[..], &more[..]].concat());
        for variant in ["", "filters_1.", "filters_25.", "filters_13_of_25."] {
            let us = value(&format!("rfc2544.{variant}latency_us.p50.{size}"));
            assert!(us.is_some_and(|us| us > 0.0), "{variant} in {object}");
        }
        for variant in ["latency, filters 1", "latency, filters 25", "latency, filters 13 of 25"] {
            let (sent, received) = carried(&object, variant);
            assert!(sent > 0 && sent == received, "{device} {variant}: {received} of {sent}");
        }
        let ledger = object["ledger"].as_array().expect("a ledger");
        let of_filters: Vec<&Value> = ledger.iter().filter(|c| c["section"] == "RFC 2544 11.4").collect();
        assert!(of_filters.len() == 3 && of_filters.iter().all(|c| c["met"] == true), "{of_filters:?}");
        let third = ledger.iter().find(|c| c["section"] == "RFC 2544 11.4.1").expect("it");
        assert_eq!(third["met"], true, "{third}");
        let lists = &object["conditions"]["filters"];
        assert_eq!(lists["filters_1"].as_array().map(Vec::len), Some(2), "one for each direction: {lists}");
        let all = lists["filters_25"].as_array().expect("a list");
        assert_eq!((all.len(), &all[23]), (26, &Value::from(twenty_fourth)), "{lists}");
        let middle = lists["filters_13_of_25"].as_array().expect("a list");
        assert_eq!((middle.len(), &middle[25]), (26, &Value::from(twenty_fourth)), "{lists}");
        assert!(middle[12].as_str().is_some_and(|line| line.starts_with("allow ")), "{lists}");
    }
}

#[test]
fn each_modifier_is_applied_by_itself_where_it_can_be() {
    let few = ["--each-modifier", "--only", "latency", "--trial", "0.2", "--at", "1000", "--link", "10M"];
    let more = ["--size", "128", "--stragglers", "5", "--flows-per-port", "8"];
    let run = |device| told(&[&["rfc2544", device], &few[..], &more[..]].concat());
    let repeated = |object: &Value| {
        let ledger = object["ledger"].as_array().expect("a ledger").iter();
        let all: Vec<Value> = ledger.filter(|c| c["section"] == "RFC 2544 11").cloned().collect();
        all.iter()
            .find(|c| c["demand"].as_str().is_some_and(|d| d.contains("repeated")))
            .cloned()
            .expect("it")
    };
    let (object, value) = run("self:conf/ip-router.click");
    for variant in
        ["", "broadcast.", "management.", "routing.", "filters_1.", "filters_25.", "filters_13_of_25."]
    {
        let us = value(&format!("rfc2544.{variant}latency_us.p50.128"));
        assert!(us.is_some_and(|us| us > 0.0), "{variant} in {object}");
    }
    assert_eq!(repeated(&object)["met"], true, "{object}");
    let judged = |object: &Value, section: &str| {
        let ledger = object["ledger"].as_array().expect("a ledger");
        ledger.iter().filter(|clause| clause["section"] == section).count()
    };
    let sections = ["RFC 2544 11.1", "RFC 2544 11.2", "RFC 2544 11.3"];
    assert_eq!(sections.map(|section| judged(&object, section)), [3, 3, 5], "{object}");
    // The configuration has nobody who answers: in each of three trials each of two ports asked once, and in those that are repeated where
    // the tester had no turn.
    let count = |what: &str| value(&format!("management.{what}"));
    let asked = count("asked").expect("questions");
    assert!((1.0..=18.0).contains(&asked), "{object}");
    assert_eq!(
        ["right", "wrong", "missing"].map(|what| count(&format!("answers_{what}"))),
        [0.0, 0.0, asked].map(Some)
    );
    let (object, value) = run("cable");
    assert_eq!(sections.map(|section| judged(&object, section)), [3, 0, 5], "nobody to ask: {object}");
    assert!(value("rfc2544.broadcast.latency_us.p50.128").is_some(), "{object}");
    assert!(value("rfc2544.filters_1.latency_us.p50.128").is_none(), "{object}");
    let why = repeated(&object)["deviation"].as_str().expect("a reason").to_owned();
    assert!(why.contains("management: ") && why.contains("cannot set filters on this device"), "{why}");
    let refused = test(&["trial", "cable", "--rate", "1k", "--each-modifier"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--each-modifier is for procedures"));
}

#[test]
fn bursts_of_each_size_follow_a_steady_rate() {
    let args = [
        "rfc2544", "cable", "--only", "latency", "--trial", "0.1", "--at", "10000", "--link", "1G", "--size",
        "64",
    ];
    let (object, value) = told(&[&args[..], &["--stragglers", "5", "--bursts"]].concat());
    for variant in ["", "burst_16.", "burst_64.", "burst_256.", "burst_1024."] {
        let us = value(&format!("rfc2544.{variant}latency_us.p50.64"));
        assert!(us.is_some_and(|us| us > 0.0), "{variant} in {object}");
    }
    let met = |object: &Value| -> Vec<bool> {
        let ledger = object["ledger"].as_array().expect("a ledger").iter();
        ledger.filter(|c| c["section"] == "RFC 2544 21").map(|c| c["met"] == true).collect()
    };
    assert_eq!(met(&object), [true, true, false], "{object}");
    let (object, _) = told(&[&args[..], &["--stragglers", "5", "--bursts=16,32"]].concat());
    assert_eq!(met(&object), [true, false, false], "{object}");
    let refused = test(&["rfc2544", "cable", "--bursts", "--burst", "16"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be used with"));
}
