// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a packet is what it is, for people.

use std::net::{IpAddr, Ipv4Addr};

use super::{Cause, Nat, Outcome};
use crate::packet::View;

impl Nat {
    /// The inside address and port that have an outside one.
    pub fn owner(&self, protocol: u8, outside: (Ipv4Addr, u16)) -> Option<(IpAddr, u16)> {
        let hosts = &self.subscribers.hosts;
        let address = u32::from(outside.0);
        if let Some(inside) = self.policy.static_inside(address) {
            return Some((hosts.name(inside), outside.1));
        }
        if let Some((address, port)) = self.forwards.get(&(protocol, address, outside.1)) {
            return Some((hosts.name(*address), *port));
        }
        let (_, (address, port)) = self.mapping_of(protocol, address, outside.1)?;
        Some((hosts.name(address), port))
    }

    /// What was decided on a packet that was `before` and is `after`, in words.
    pub fn explain(&self, outcome: Outcome, before: &[u8], after: &[u8]) -> String {
        let (before, after) = (View::of(before), View::of(after));
        let ends = |view: View| {
            let [sport, dport] = view.ports();
            [(view.source, sport), (view.destination, dport)]
        };
        let shown = |(address, port): (u32, u16)| match port {
            0 => self.subscribers.hosts.name(address).to_string(),
            _ => match self.subscribers.hosts.name(address) {
                IpAddr::V4(address) => format!("{address}:{port}"),
                IpAddr::V6(address) => format!("[{address}]:{port}"),
            },
        };
        match outcome {
            Outcome::Unchanged => "it is not translated".to_owned(),
            Outcome::Translated | Outcome::Watched(_) | Outcome::Hairpin(_) => {
                let both = before.map(ends).into_iter().flatten().zip(after.map(ends).into_iter().flatten());
                let changed = both.filter(|(before, after)| before != after);
                let words: Vec<String> = changed
                    .map(|(before, after)| format!("{} becomes {}", shown(before), shown(after)))
                    .collect();
                words.join(", ")
            }
            Outcome::Drop(cause) => match cause {
                Cause::Malformed => "its headers are wrong",
                Cause::Fragment => "it is a later fragment, which has no ports",
                Cause::NoMapping => "it belongs to no session or mapping, and cannot begin one",
                Cause::Filtered => "the filter does not let its sender use the mapping",
                Cause::Spoofed => "it comes from outside with an inside address",
                Cause::SubscriberLimit => "the inside host has as many sessions or ports as it may",
                Cause::NoPort => "no outside port is free",
                Cause::NoAddress => "the outside interface has no address",
                Cause::Full => "there is no room for another session",
            }
            .to_owned(),
        }
    }
}
