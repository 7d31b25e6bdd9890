// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of packets: whether each element has sent, dropped, or still holds all that it had.
//!
//! An element that loses a packet without a word would make every counter of drops a lie. So for each element
//!
//! ```text
//! in + made = out + dropped + held + taken
//! ```
//!
//! What came in and went out the engine counts itself, drops are counted where packets are dropped. What elements [make](element::Cx::made) (sources,
//! copies, requests, fragments) and [take](element::Cx::took) (what devices have sent, fragments that were joined) they say where they do it. An answer
//! that leaves in the place of its request is neither. Elements whose packets wait in a common table have one account
//! ([`PacketHolder::held_by`](element::PacketHolder::held_by)). What all of them hold must [explain](Report::explains) what is gone from packet memory.

use std::collections::BTreeMap;

use crate::report::Report;
use crate::shared::Shared;
use element::ElementId;

/// An element whose account is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unaccounted {
    /// Its name.
    pub element: String,
    /// Its class.
    pub class: &'static str,
    /// Packets that it had less those of which it is known what became: above 0, it has lost as many; below, it has sent more than it had.
    pub packets: i128,
}

impl std::fmt::Display for Unaccounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n = self.packets.unsigned_abs();
        let what =
            if self.packets > 0 { "lost without a reason" } else { "sent that neither came nor were made" };
        write!(f, "{} packet{} {what} at {} ({})", n, if n == 1 { "" } else { "s" }, self.element, self.class)
    }
}

impl Report {
    /// The elements of a router that has ended, and has not changed its configuration, whose accounts are wrong. Empty, unless an element has a fault.
    pub fn unaccounted(&self, shared: &Shared) -> Vec<Unaccounted> {
        let mut missing = BTreeMap::<ElementId, i128>::new();
        for (e, counts) in self.elements.iter_enumerated() {
            *missing.entry(counts.held_by.unwrap_or(e)).or_default() += counts.missing();
        }
        let wrong = missing.into_iter().filter(|(_, packets)| *packets != 0).map(|(e, packets)| {
            let info = &shared.elements[e];
            Unaccounted { element: info.name.to_string(), class: info.class.name, packets }
        });
        wrong.collect()
    }

    /// Whether the packets that elements hold, in a router that has ended, explain why so many frames are missing from packet memory.
    /// Each needs one frame. Where elements made packets of others, it may need one more, which copies share.
    pub fn explains(&self, frames: usize) -> bool {
        let held: usize = self.elements.iter().map(|e| e.held).sum();
        let copied = self.elements.iter().any(|e| e.inputs > 0 && e.account.made > 0);
        (held..=if copied { 2 * held } else { held }).contains(&frames)
    }
}
