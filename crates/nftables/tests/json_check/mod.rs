// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text as a listing: nothing ends the process, and what is imported can be used.

use std::net::Ipv4Addr;
use std::path::Path;

use junctor_nftables::{Options, Refused, import};

/// Imports a text in each way. Returns whether it is a listing.
pub fn check(text: &str) -> bool {
    let mut is_listing = false;
    for strict in [false, true] {
        let options = Options {
            strict,
            links: vec!["eth9".to_owned()],
            outside: Some(Ipv4Addr::new(192, 0, 2, 1)),
            inside: Some(vec!["10.0.0.0/8".to_owned()]),
            nat: true,
        };
        let imported = match import(text, &options) {
            Ok(imported) => imported,
            Err(why) => {
                let said = why.to_string();
                assert!(!matches!(why, Refused::Unusable(_)) || said.contains("too many"), "{said}\n{text}");
                continue;
            }
        };
        is_listing = true;
        let reading = firewall::read("rules", &imported.rules, Path::new(""));
        assert!(reading.diagnostics.is_empty(), "{:?}\n{}", reading.diagnostics, imported.rules);
        let nat = imported.nat.expect("asked for");
        let reading = nat::read("nat", &nat);
        assert!(reading.policy.is_some(), "{:?}\n{nat}", reading.diagnostics);
        let lines = imported.rules.lines().count() as u32;
        assert!(imported.origins.iter().all(|(line, _)| (1..=lines).contains(line)));
        for finding in &imported.findings {
            assert!(!finding.why.is_empty() && !finding.rule.contains('\n') && finding.rule.len() < 300);
        }
    }
    is_listing
}
