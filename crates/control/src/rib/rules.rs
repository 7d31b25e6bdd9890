// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules by which the kernel chooses routing tables.
//!
//! The router has one table for each VRF, chosen by the interface that a packet comes from. So it does as the kernel's own rules say, those of
//! VRF devices, and those that lead from an interface to the table of a VRF. It follows no others, and lists these.

use super::*;
use crate::model::DEFAULT;

impl Rib {
    /// The kernel's rules that the router does not follow, and whether they are for IPv6.
    pub fn unfollowed_rules(&self) -> impl Iterator<Item = (bool, &Rule)> {
        let all = self.rules.iter().zip([false, true]);
        all.flat_map(|(rules, is_six)| rules.iter().map(move |rule| (is_six, rule)))
            .filter(|(_, rule)| !self.follows(rule))
    }

    fn follows(&self, rule: &Rule) -> bool {
        match (&rule.input, rule.table) {
            _ if rule.is_of_vrfs => true,
            (None, Some(LOCAL | MAIN | DEFAULT)) => rule.is_simple,
            (Some(_), Some(table)) => rule.is_simple && self.vrfs.iter().any(|vrf| vrf.table == table),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_router_does_not_do_is_named() {
        let mut rib = Rib::default();
        rib.add_vrf("red", 1001).expect("a VRF");
        let rule = |priority, table, input: Option<&str>| Rule {
            priority,
            table,
            input: input.map(str::to_owned),
            is_simple: true,
            is_of_vrfs: false,
        };
        let own =
            [rule(0, Some(LOCAL), None), rule(32766, Some(MAIN), None), rule(32767, Some(DEFAULT), None)];
        let vrfs = Rule { is_of_vrfs: true, ..rule(1000, Some(0), None) };
        let followed = own.into_iter().chain([vrfs, rule(5, Some(1001), Some("host1"))]);
        let others = [
            rule(6, Some(1002), Some("host1")),
            rule(7, Some(1001), None),
            rule(8, None, None),
            Rule { is_simple: false, ..rule(9, Some(MAIN), None) },
        ];
        let rules = followed.chain(others).collect();
        rib.apply(Source::Kernel, Change::Rules { is_six: true, rules }, Duration::ZERO);
        let found: Vec<(bool, u32)> =
            rib.unfollowed_rules().map(|(is_six, rule)| (is_six, rule.priority)).collect();
        assert_eq!(found, [(true, 6), (true, 7), (true, 8), (true, 9)]);
    }
}
