// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions in words.

use super::{Arrival, Cause, Decision, Ruleset, Verdict};
use crate::policy::{Action, SELF};

impl Ruleset {
    /// A decision on a packet in words. It says so if rules ask for a MAC address that the packet does not have.
    pub fn explain_arrival(&self, decision: &Decision, packet: &Arrival<'_>) -> String {
        let why = self.explain(decision);
        let lacks_mac = self.asks_macs() && packet.mac.is_none() && packet.from != SELF;
        match lacks_mac && !decision.is_known {
            true => why + " (it has no Ethernet header, so no rule with `mac` matches)",
            false => why,
        }
    }

    /// A decision in words: what happens, and why.
    pub fn explain(&self, decision: &Decision) -> String {
        let rule = decision.rule.and_then(|rule| self.policy.rules.get(rule as usize));
        let by = rule.map(|rule| format!("line {}: {}", rule.line, rule.text));
        match (&decision.verdict, by) {
            (Verdict::Pass, Some(by)) if decision.is_known => {
                format!("of a connection that was accepted by {by}")
            }
            (Verdict::Pass, None) if decision.is_known => "of a known connection".to_owned(),
            (Verdict::Pass, Some(by)) if decision.is_related => {
                format!("announced by a connection that was accepted by {by}")
            }
            (Verdict::Pass, None) if decision.is_related => "announced by a known connection".to_owned(),
            (Verdict::Pass, None) => format!("no rule matches: {}", self.default_words(decision)),
            (Verdict::Drop(Cause::Rule) | Verdict::Reject(_), None) => {
                format!("no rule matches: {}", self.default_words(decision))
            }
            (Verdict::Drop(Cause::NoConnection), _) => {
                "it belongs to no connection, and cannot begin one".to_owned()
            }
            (Verdict::Drop(Cause::Window), _) => {
                "its sequence numbers do not belong to its connection".to_owned()
            }
            (Verdict::Drop(Cause::Malformed), _) => "its headers are wrong".to_owned(),
            (Verdict::Drop(Cause::Fragment), _) => "a fragment whose first one has not come".to_owned(),
            (Verdict::Drop(Cause::Ambiguous), _) => {
                "a connection from another VRF has the same answers: addresses must differ where VRFs meet"
                    .to_owned()
            }
            (Verdict::Drop(Cause::Full), _) => "there is no room for another connection".to_owned(),
            (Verdict::Drop(Cause::SourceLimit), by) => {
                format!("its source has too many connections, by {}", by.unwrap_or_default())
            }
            (Verdict::Drop(Cause::SourceRate), by) => {
                format!("its source begins too many connections, by {}", by.unwrap_or_default())
            }
            (Verdict::Answered, by) => {
                let by = by.map(|by| format!(", by {by}")).unwrap_or_default();
                format!("the firewall answers it until the client has proved its address{by}")
            }
            (_, Some(by)) => by,
        }
    }

    fn default_words(&self, decision: &Decision) -> String {
        match decision.verdict {
            Verdict::Pass if self.policy.default != Action::Accept => {
                "it comes from the router itself".to_owned()
            }
            _ => format!("default {}", self.policy.default),
        }
    }
}
