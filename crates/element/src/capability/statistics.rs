// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that elements report all the time.

use crate::element::Element;
use crate::stats::Stat;

/// An element with numbers worth watching, besides the counters that the engine keeps.
pub trait Statistics: Element {
    /// Reports numbers that lie at hand, without waiting for anybody, for a worker asks in the midst of its work. Where instances share what
    /// they report ([`Sharing::Shared`](crate::Sharing::Shared)), each may report the same, or only one.
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64));
}
