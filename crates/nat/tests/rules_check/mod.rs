// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text as a file of statements: nothing ends the process, each mistake has its place and its remedy, and what can be read can be
//! used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use junctor_nat::{Nat, read};

/// Reads a text. Returns whether it is a file of statements.
pub fn check(text: &str) -> bool {
    let reading = read("text", text);
    for diagnostic in &reading.diagnostics {
        let span = diagnostic.span.expect("a place");
        assert!(
            span.start <= span.end && span.end as usize <= reading.sources.text(0).len(),
            "{diagnostic:?}"
        );
        assert!(diagnostic.help.is_some() && !diagnostic.message.is_empty());
    }
    let _ = lang::render(&reading.diagnostics, &reading.sources, false);
    let Some(policy) = reading.policy else {
        assert!(!reading.diagnostics.is_empty());
        return false;
    };
    assert!(reading.diagnostics.is_empty());
    // Tables of millions take time to make.
    if policy.sessions > 1 << 10 {
        return true;
    }
    for one in &policy.translations {
        let four = one.inside.iter().flat_map(|range| [range.first, range.last]);
        let six = one.inside6.iter().flat_map(|range| [range.first, range.last]);
        let ends = four.map(|four| IpAddr::from(Ipv4Addr::from(four)));
        for address in ends.chain(six.map(|six| Ipv6Addr::from(six).into())) {
            if let Some(becomes) = policy.becomes(address) {
                assert!(becomes.ports.0 <= becomes.ports.1 && !becomes.outside.is_empty());
            }
        }
    }
    Nat::new(Arc::new(policy), &[], 1).reap(0, 1);
    true
}
