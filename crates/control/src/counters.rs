// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a feed counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::netlink::Outcome;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was counted since the last time, by the thread of a feed alone.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// What a feed counted since its start. Others may read it at any time.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* $name: AtomicU64,)*
        }

        impl Counters {
            /// Adds what was counted, and empties the tally.
            pub fn add(&self, tally: &mut Tally) {
                $(if tally.$name != 0 {
                    self.$name.fetch_add(tally.$name, Ordering::Relaxed);
                })*
                *tally = Tally::default();
            }

            /// The values now.
            #[must_use]
            pub fn get(&self) -> Tally {
                Tally { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Tally {
            /// The counters by name.
            #[must_use]
            pub fn by_name(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Bytes read.
    bytes,
    /// Messages that became changes.
    taken,
    /// Messages that say nothing that a router wants to know.
    ignored,
    /// Messages about what only the kernel can do.
    unsupported,
    /// Malformed messages or frames.
    malformed,
    /// Withdrawals that the next message took back.
    merged,
    /// Connections made, or full reports started.
    reports,
    /// Connections refused because there was one.
    refused,
    /// Full reports that were necessary because the kernel lost messages or a dump was inconsistent.
    resyncs,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Taken => self.taken += 1,
            Outcome::Ignored => self.ignored += 1,
            Outcome::Unsupported => self.unsupported += 1,
        }
    }
}
