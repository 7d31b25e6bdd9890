// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outside addresses of a statement: addresses, or the interface that has them.

use rulefile::{Rest, Word};

use super::Reader;
use crate::policy::Range;

/// The word before the name of an interface.
pub(super) const INTERFACE: &str = "interface";
/// Bytes of the name of an interface at most.
const NAME_MAX: usize = 64;

/// What a forward is on.
pub(super) enum On {
    Address(u32),
    Interface(String),
}

impl Reader {
    /// The name of an interface behind the word `interface`; none if that is another word.
    pub(super) fn interface(&mut self, word: &Word, rest: &mut Rest<'_>) -> Option<Option<String>> {
        const HELP: &str = "write `interface NAME`, for example `interface eth1`";
        if word.text != INTERFACE {
            return Some(None);
        }
        let name = self.word(rest, "the name of the interface", HELP)?;
        let is_name = |text: &str| {
            (1..=NAME_MAX).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:@".contains(&byte))
        };
        if !is_name(&name.text) {
            self.wrong(name.span, format!("'{}' is not the name of an interface", name.text), HELP);
            return None;
        }
        Some(Some(name.text.clone()))
    }

    /// The outside of all translations, if that is one address or one interface.
    pub(super) fn only_outside(&self) -> Option<On> {
        let all = &self.policy.translations;
        let first = all.first()?;
        let pools: Vec<Range> = all.iter().flat_map(|one| one.pool.clone()).collect();
        match (&first.interface, pools.first()) {
            (Some(name), None) if all.iter().all(|one| one.interface == first.interface) => {
                Some(On::Interface(name.clone()))
            }
            (None, Some(pool))
                if pool.count() == 1
                    && pools.iter().all(|range| range == pool)
                    && all.iter().all(|one| one.interface.is_none()) =>
            {
                Some(On::Address(pool.first))
            }
            _ => None,
        }
    }
}
