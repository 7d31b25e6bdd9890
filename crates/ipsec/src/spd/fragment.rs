// SPDX-License-Identifier: MIT OR Apache-2.0
//! Later fragments, whose ports nobody knows: which policies for ports could be about them (RFC 4301, 7).

use sync::rcu::Reader;

use super::{Policies, Rule, bits};
use crate::selector::Flow;

impl Policies {
    /// Whether a policy that is better than `found`, and `wanted`, could be about a later fragment.
    #[cold]
    pub fn has_rival(
        &self,
        flow: &Flow,
        found: Option<&Rule>,
        reader: &Reader,
        wanted: impl Fn(&Rule) -> bool,
    ) -> bool {
        let (is_six, src, dst) = (flow.is_six(), bits(flow.src), bits(flow.dst));
        let is_better = |rule: &Rule| found.is_none_or(|found| rule.rank() < found.rank());
        let tuples = self.tuples.read(reader).iter().filter(|tuple| tuple.shape.is_six == is_six);
        let mut pairs =
            tuples.filter_map(|tuple| tuple.find((src & tuple.masks.0, dst & tuple.masks.1), reader));
        pairs.any(|pair| {
            let mut better = pair.rules().take_while(|rule| is_better(rule));
            better.any(|rule| rule.policy.selector.could_contain_upper(flow) && wanted(rule))
        })
    }
}
