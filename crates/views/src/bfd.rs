// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD sessions of a router.

use std::fmt::Write as _;

use serde_json::Value;

/// The link, or a dash and the VRF where that is not the main table.
fn link(session: &Value) -> String {
    match (session["interface"].as_str(), session["vrf"].as_str()) {
        (Some(link), _) => link.to_owned(),
        (None, None | Some("default")) => "-".to_owned(),
        (None, Some(vrf)) => format!("- ({vrf})"),
    }
}

/// Sessions as a table, from JSON with the names of FRR's `show bfd peers json`.
pub fn table(sessions: &Value) -> String {
    let mut text = format!(
        "{:<28} {:<12} {:<9} {:>8} {:>10} {:>10}  {}\n",
        "NEIGHBOUR", "LINK", "STATE", "SINCE", "TX ms", "DETECT ms", "DIAGNOSTIC"
    );
    for session in sessions.as_array().into_iter().flatten() {
        let word = |name: &str| session[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| session[name].as_f64().unwrap_or(0.0);
        let since = session["uptime"].as_u64().or(session["downtime"].as_u64()).unwrap_or(0);
        let _ = writeln!(
            text,
            "{:<28} {:<12} {:<9} {:>6} s {:>10} {:>10}  {}",
            word("peer"),
            link(session),
            word("status"),
            since,
            number("actual-transmit-interval"),
            number("detection-time"),
            word("diagnostic"),
        );
    }
    text
}
