// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of packets: whether each element has sent, dropped, or still holds all that came to it.
//!
//! An element that loses a packet without a word would make every counter of drops a lie. So for each element what came in must be
//! what left, what was dropped under a named reason, and what is held; but for those that by their class [beget](crate::Class::begets) or
//! [consume](crate::Class::consumes) packets, of which one side can be said. What all of them hold together must [explain](Report::explains)
//! what is gone from packet memory. The sums are of counters that a router keeps anyway.

use crate::report::Report;
use crate::router::Shared;

/// An element whose account is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unaccounted {
    /// Its name.
    pub element: String,
    /// Its class.
    pub class: &'static str,
    /// Packets that came in less those of which it is known what became: above 0, it has lost as many; below, it has sent more than came.
    pub packets: i128,
}

impl std::fmt::Display for Unaccounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n = self.packets.unsigned_abs();
        let what = if self.packets > 0 { "lost without a reason" } else { "sent that never came" };
        write!(f, "{} packet{} {what} at {} ({})", n, if n == 1 { "" } else { "s" }, self.element, self.class)
    }
}

impl Report {
    /// The elements of a router that has ended, and has not changed its configuration, whose accounts are wrong. Empty, unless an element has a fault.
    pub fn unaccounted(&self, shared: &Shared) -> Vec<Unaccounted> {
        let all = shared.elements.iter().zip(&self.elements);
        let wrong = all.filter_map(|(info, counts)| {
            let (kept, class) = (counts.kept(), info.class);
            let consumes = class.consumes || info.outputs.is_empty();
            let begets = class.begets || info.inputs.is_empty();
            let right = kept == 0 || (kept > 0 && consumes) || (kept < 0 && begets);
            (!right).then(|| Unaccounted { element: info.name.clone(), class: class.name, packets: kept })
        });
        wrong.collect()
    }

    /// Whether so many frames are gone from packet memory as the packets need that all elements of a router that has ended hold: one each, and where
    /// elements copy packets, up to one more, which the copies share.
    pub fn explains(&self, shared: &Shared, frames: usize) -> bool {
        let held: usize = self.elements.iter().map(|e| e.held).sum();
        let copied = shared.elements.iter().any(|e| e.class.begets && !e.inputs.is_empty());
        (held..=if copied { 2 * held } else { held }).contains(&frames)
    }
}
