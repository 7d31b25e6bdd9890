// SPDX-License-Identifier: MIT OR Apache-2.0
//! At which load a procedure runs that is to run at the throughput, and whether it was that.

use super::{Ledger, Level};
use crate::trial::Outcome;

/// Where a rate comes from at which a procedure runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The throughput, as a search found it.
    #[default]
    Found,
    /// What the tester reached: the throughput may be higher.
    Reached,
    /// Somebody named it.
    Named,
}

impl Origin {
    /// Why it is not known to be the throughput, if it is not.
    pub fn doubt(self) -> Option<&'static str> {
        match self {
            Origin::Found => None,
            Origin::Reached => Some("at the rate that the tester reached: the throughput may be higher"),
            Origin::Named => {
                Some("at the rate that was asked for: this run did not determine the throughput")
            }
        }
    }
}

/// What was offered, and what became of it, in all trials of a procedure together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Where the rate comes from.
    pub origin: Origin,
    /// What became of the frames.
    pub carried: Outcome,
}

impl Load {
    /// Of a rate that comes from there; nothing yet.
    pub fn new(origin: Origin) -> Load {
        Load { origin, carried: Outcome::default() }
    }

    /// How it was not the throughput; empty where it was.
    pub fn deviations(&self) -> Vec<String> {
        let Outcome { intended, sent, .. } = self.carried;
        let mut all: Vec<String> = self.origin.doubt().map(str::to_owned).into_iter().collect();
        if !self.carried.tester_kept_up() {
            all.push(format!("the tester sent {sent} of {intended} frames only"));
        }
        if self.carried.is_doubtful() {
            let Outcome { late, .. } = self.carried;
            all.push(format!(
                "{} of {sent} frames were lost, and {late} left the tester in lumps",
                self.carried.lost()
            ));
        } else if self.carried.lost() > 0 {
            all.push(format!("{} of {sent} frames were lost: the throughput is lower", self.carried.lost()));
        }
        all
    }

    /// The demand of a `section` that the stream runs at the throughput, and whether it did.
    pub fn ledger(&self, section: &'static str) -> Ledger {
        let mut ledger = Ledger::default();
        let deviations = self.deviations();
        let level = if section == "RFC 8219 7.2" { Level::Should } else { Level::Plain };
        ledger.note(
            section,
            level,
            "the stream runs at the throughput that was determined for frames of its size",
            deviations.is_empty(),
            deviations.join("; "),
        );
        ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_the_throughput_if_it_was_found_and_sent_and_came_through() {
        let said = |origin, intended, sent, received| {
            let carried = Outcome { intended, sent, received, ..Outcome::default() };
            let load = Load { origin, carried };
            load.ledger("RFC 2544 26.2").deviations().filter_map(|c| c.deviation.clone()).collect::<String>()
        };
        assert_eq!(said(Origin::Found, 100, 100, 100), "");
        assert_eq!(said(Origin::Found, 100, 60, 60), "the tester sent 60 of 100 frames only");
        assert_eq!(
            said(Origin::Named, 100, 100, 75),
            "at the rate that was asked for: this run did not determine the throughput; \
             25 of 100 frames were lost: the throughput is lower"
        );
        assert!(said(Origin::Reached, 100, 100, 100).contains("may be higher"));
    }
}
