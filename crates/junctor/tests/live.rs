// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench live` in a short form: processes of a router with FRR are killed under traffic, and routes change; nothing is lost.
//!
//! `JUNCTOR_KILLS=20` kills each process so often, `JUNCTOR_CHURN_SECONDS=600` changes routes for so long, both with the real table of
//! `../shared/data` where it is. How fast anything was is not looked at.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::frr;
use testbed::rig::skip_without;

/// Routes of the short form.
const ROUTES: u32 = 1500;

/// A table, and changes of it.
fn files(directory: &std::path::Path) -> [String; 2] {
    let (mut routes, mut updates) = (String::new(), String::new());
    for at in 0..ROUTES {
        let _ = writeln!(routes, "100.{}.{}.0/24 {}", at / 250, at % 250, at % 7);
        let _ = match at % 3 {
            0 => writeln!(updates, "A 101.{}.{}.0/24 {}", at / 250, at % 250, at % 5),
            1 => writeln!(updates, "A 100.{}.{}.0/24 {}", at / 250, at % 250, at % 11),
            _ => writeln!(updates, "W 100.{}.{}.0/24", at / 250, at % 250),
        };
    }
    [("routes.txt", routes), ("updates.txt", updates)].map(|(name, text)| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("room");
        path.display().to_string()
    })
}

#[test]
fn nobody_is_missed_and_the_table_is_what_was_announced() {
    let needs = ["zebra", "bgpd", "bfdd"].map(frr::program);
    let needs: Vec<&str> = needs.iter().map(String::as_str).chain(["vtysh"]).collect();
    if skip_without("nobody_is_missed_and_the_table_is_what_was_announced", &needs) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let long = ["JUNCTOR_KILLS", "JUNCTOR_CHURN_SECONDS"].map(|name| std::env::var(name).ok());
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(["bench", "live", "--json", "--victims", "routes,zebra,bgpd,bfdd,fpm"]);
    command.args(["--kills", long[0].as_deref().unwrap_or("1")]);
    command.args(["--churn", long[1].as_deref().unwrap_or("2")]);
    if long == [None, None] {
        let [routes, updates] = files(place.path());
        command.args(["--routes", &routes, "--updates", &updates, "--rate", "200"]);
    }
    let output = command.stdin(Stdio::null()).output().expect("junctor");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = all["results"].as_array().expect("results");
    let value = |name: &str| {
        let found = results.iter().find(|result| result["name"] == format!("live.{name}"));
        found.unwrap_or_else(|| panic!("no {name}: {all:#}"))["value"].as_f64().expect("a number")
    };
    for victim in ["routes", "zebra", "bgpd", "bfdd", "fpm"] {
        assert!(value(&format!("{victim}_kill_packets")) > 0.0, "{victim}");
        assert_eq!(value(&format!("{victim}_kill_lost")), 0.0, "{victim}");
        assert_eq!(value(&format!("{victim}_kill_removed")), 0.0, "{victim}");
    }
    assert!(value("churn_changes") > 0.0);
    assert!(value("churn_packets_per_s") > 0.0);
}
