// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text as a file of statements: nothing ends the process, each mistake has its place and its remedy, and what can be read
//! can be used.

use std::sync::Arc;

use junctor_balance::policy::Policy;
use junctor_balance::{Balancer, read};
use lang::Severity;

/// Services and servers of a file that is used: tables take time to build.
const MOST: usize = 3;

/// Reads a text, and uses it. Returns whether it is a file of statements.
pub fn check(text: &str) -> bool {
    let Some(policy) = check_reading(text) else { return false };
    let is_small = policy.services.len() <= MOST && policy.servers() <= MOST && policy.sessions <= 1 << 10;
    if is_small && !policy.services.iter().any(|service| service.is_large) {
        let servers = policy.servers();
        let mut balancer = Balancer::new(Arc::new(policy), 1, 0);
        balancer.work(0, |_| {});
        assert_eq!(balancer.servers().count(), servers);
    }
    true
}

/// Reads a text.
pub fn check_reading(text: &str) -> Option<Policy> {
    let reading = read("text", text);
    for diagnostic in &reading.diagnostics {
        let span = diagnostic.span.expect("a place");
        let end = reading.sources.text(0).len();
        assert!(span.start <= span.end && span.end as usize <= end, "{diagnostic:?}");
        assert!(diagnostic.help.is_some() && !diagnostic.message.is_empty());
    }
    let _ = lang::render(&reading.diagnostics, &reading.sources, false);
    let is_wrong = reading.diagnostics.iter().any(|one| one.severity == Severity::Error);
    assert_eq!(reading.policy.is_none(), is_wrong);
    for service in reading.policy.iter().flat_map(|policy| &policy.services) {
        assert!(service.servers.iter().all(|one| one.address.is_ipv6() == service.address.is_ipv6()));
        let own = reading.policy.as_ref().and_then(|policy| policy.own_for(service.address));
        assert!(service.check.is_none() || own.is_some());
    }
    reading.policy
}
