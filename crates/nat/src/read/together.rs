// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements that are right by themselves and wrong together.

use super::Reader;
use crate::policy::{Address, Allocation, Forward, Range, Translation, range_text};
use crate::prefix::Prefix64;
use crate::vrf;

/// Whether each of some ranges is within one of others.
fn are_within<A: Address>(ranges: &[Range<A>], others: &[Range<A>]) -> bool {
    let is_within = |range: &Range<A>| others.iter().any(|o| o.first <= range.first && range.last <= o.last);
    ranges.iter().all(is_within)
}

impl Reader {
    /// IPv6 hosts see IPv4 addresses behind a prefix, and have none of these themselves.
    pub(super) fn check_prefix(&mut self) {
        let policy = &mut self.policy;
        let is_six = |host: u128| vrf::of(host).is_none();
        let has_hosts = policy.hosts.iter().any(|host| is_six((*host).into()))
            || policy.translations.iter().flat_map(|one| &one.inside6).any(|range| is_six(range.first));
        if let (Some(span), false) = (self.spans.prefix, has_hosts) {
            let help = "name IPv6 addresses in `translate`, or leave it out";
            self.faults.wrong(span, "a prefix, but no IPv6 address is inside", help);
        }
        if !has_hosts {
            return;
        }
        let prefix = *policy.prefix.get_or_insert(Prefix64::WELL_KNOWN);
        let first = u128::from(prefix.address());
        let behind = Range { first, last: first | u128::MAX >> prefix.length() };
        for (host, span) in policy.hosts.iter().zip(&self.spans.hosts) {
            if behind.holds((*host).into()) {
                let help = "write the IPv4 address itself, if you mean an IPv4 host";
                self.faults.wrong(*span, format!("{host} is behind the prefix {prefix}"), help);
            }
        }
        for (one, span) in policy.translations.iter().zip(&self.spans.translations) {
            if one.inside6.iter().any(|range| range.meets(behind)) {
                let message = format!("IPv6 addresses inside are behind the prefix {prefix}");
                self.faults.wrong(*span, message, "use another prefix, or leave these addresses out");
            }
        }
    }

    /// What is wrong with statements together.
    pub(super) fn check_together(&mut self) {
        let (policy, mut found) = (&self.policy, Vec::new());
        for (n, one) in policy.translations.iter().enumerate() {
            for (earlier, other) in policy.translations[..n].iter().enumerate() {
                let span = [self.spans.translations[n], self.spans.translations[earlier]];
                if are_within(&one.inside, &other.inside) && are_within(&one.inside6, &other.inside6) {
                    let message = "an earlier statement translates all these addresses";
                    found.push((
                        span,
                        message.to_owned(),
                        "leave one out, or put the one for fewer addresses first",
                    ));
                }
                let has_same = one.interface.is_some() && one.interface == other.interface;
                let shares = (has_same
                    || one.pool.iter().any(|range| other.pool.iter().any(|o| o.meets(*range))))
                    && one.ports.0 <= other.ports.1
                    && other.ports.0 <= one.ports.1;
                let is_random =
                    one.allocation == Allocation::Random && other.allocation == Allocation::Random;
                if shares && !is_random {
                    let message = "blocks of ports are shared with an earlier statement";
                    found.push((
                        span,
                        message.to_owned(),
                        "give it other outside addresses, or another range of ports",
                    ));
                }
            }
        }
        for (n, one) in policy.statics.iter().enumerate() {
            let span = self.spans.statics[n];
            for (earlier, other) in policy.statics[..n].iter().enumerate() {
                if one.inside.meets(other.inside) || one.outside.meets(other.outside) {
                    let message = "an address has two static translations".to_owned();
                    found.push(([span, self.spans.statics[earlier]], message, "leave one out"));
                }
            }
            let pool =
                policy.translations.iter().position(|t| t.pool.iter().any(|range| range.meets(one.outside)));
            if let Some(pool) = pool {
                let message = format!("{} is in a pool, too", range_text(one.outside));
                found.push(([span, self.spans.translations[pool]], message, "take it out of the pool"));
            }
        }
        for (n, one) in policy.forwards.iter().enumerate() {
            let span = self.spans.forwards[n];
            let is_same = |other: &Forward| {
                (one.protocol, &one.outside, &one.interface)
                    == (other.protocol, &other.outside, &other.interface)
                    && one.ports.0 <= other.ports.1
                    && other.ports.0 <= one.ports.1
            };
            if let Some(earlier) = policy.forwards[..n].iter().position(is_same) {
                let message = "an outside port has two forwards".to_owned();
                found.push(([span, self.spans.forwards[earlier]], message, "leave one out"));
            }
            let gives = |t: &Translation| {
                t.allocation != Allocation::Random
                    && (t.interface.is_some() && t.interface == one.interface
                        || t.pool.iter().any(|pool| one.ranges().any(|range| pool.meets(range))))
                    && t.ports.0 <= one.ports.1
                    && one.ports.0 <= t.ports.1
            };
            if let Some(other) = policy.translations.iter().position(gives) {
                let message = "an outside port is in a block of a translation".to_owned();
                let help = "forward another one, or leave it out of the translation's `ports`";
                found.push(([span, self.spans.translations[other]], message, help));
            }
            let fixed =
                policy.statics.iter().position(|other| one.ranges().any(|range| other.outside.meets(range)));
            if let Some(other) = fixed {
                let message = "the outside address is an inside one's own".to_owned();
                found.push(([span, self.spans.statics[other]], message, "use another outside address"));
            }
        }
        let outside = |range: Range| {
            let pools = policy.translations.iter().flat_map(|one| one.pool.iter().copied());
            let statics = policy.statics.iter().map(|one| one.outside);
            let forwards = policy.forwards.iter().flat_map(Forward::ranges);
            pools.chain(statics).chain(forwards).find(|other| other.meets(range))
        };
        let inside = policy.translations.iter().zip(&self.spans.translations);
        let inside = inside.flat_map(|(one, span)| one.inside.iter().map(move |range| (*range, *span)));
        let alone = policy.statics.iter().zip(&self.spans.statics).map(|(one, span)| (one.inside, *span));
        for (range, span) in inside.chain(alone) {
            if let Some(other) = outside(range) {
                let message = format!("{} is inside and outside", range_text(other));
                found.push((
                    [span; 2],
                    message,
                    "an address is on one side: leave it out of the inside addresses",
                ));
            }
        }
        for ([span, other], message, help) in found {
            self.faults.wrong(span, message, help);
            if span != other {
                self.faults.note(Some(other), "the other one");
            }
        }
    }
}
