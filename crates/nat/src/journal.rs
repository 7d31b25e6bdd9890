// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who got which ports, and when they came back (RFC 6888, 4).
//!
//! Events are kept as they are, and become text when somebody reads them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// Events that are kept.
const KEPT: usize = 8192;

/// What is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Nothing.
    #[default]
    Nothing,
    /// Blocks of ports.
    Blocks,
    /// Each port, and blocks.
    Ports,
}

impl Log {
    /// What may be noted, with its name.
    pub const ALL: [(&'static str, Log); 2] = [("blocks", Log::Blocks), ("ports", Log::Ports)];
}

/// Ports that were given to an inside host, or that it has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// Whether they were given.
    pub is_given: bool,
    /// The protocol; none for a block, which is for all.
    pub protocol: Option<u8>,
    /// The inside host; of IPv6 hosts the first address of their network of 64 bits.
    pub inside: IpAddr,
    /// The outside address.
    pub outside: Ipv4Addr,
    /// The first and the last port.
    pub ports: (u16, u16),
}

/// The last events.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    kept: VecDeque<Event>,
    next: u64,
}

impl Journal {
    pub(crate) fn note(&mut self, event: Event) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
        self.next += 1;
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The events from a number on, with their numbers.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (u64, Event)> + '_ {
        let first = self.next - self.kept.len() as u64;
        let skipped = number.saturating_sub(first).min(self.kept.len() as u64) as usize;
        (first + skipped as u64..).zip(self.kept.iter().skip(skipped).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_stay() {
        let event = |at_ns| Event {
            at_ns,
            is_given: true,
            protocol: None,
            inside: Ipv4Addr::LOCALHOST.into(),
            outside: Ipv4Addr::LOCALHOST,
            ports: (1, 2),
        };
        let mut journal = Journal::default();
        assert_eq!(journal.from(0).count(), 0);
        (0..KEPT as u64 + 5).for_each(|n| journal.note(event(n)));
        assert_eq!(journal.next(), KEPT as u64 + 5);
        assert_eq!(journal.from(0).next().map(|(number, event)| (number, event.at_ns)), Some((5, 5)));
        assert_eq!(
            journal.from(journal.next() - 1).map(|(number, _)| number).collect::<Vec<_>>(),
            [KEPT as u64 + 4]
        );
        assert_eq!(journal.from(u64::MAX).count(), 0);
    }
}
