// SPDX-License-Identifier: MIT OR Apache-2.0
//! Getting to know a device: it learns its neighbours, and the station which addresses are the device's own.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::offer::Job;
use super::{Detail, Offer, Station};
use crate::search::stream::Step;
use crate::trial::Invalid;

/// How long frames are waited for at most that only warm a device up.
const SOON: Duration = Duration::from_secs(1);

impl Station {
    /// Sends a little of every flow until no more is lost than the time before, so that the device knows all neighbours. Flows from and
    /// to addresses that turn out to be its own are left out from then on: it does not forward these ([`Station::left_out`]).
    ///
    /// # Errors
    /// Nothing at all arrives within `patience`. Flows that alone never do are lost in the trials too, where it is counted.
    pub fn warm_up(&mut self, patience: Duration) -> Result<(), Invalid> {
        let (begun, mut before) = (Instant::now(), u64::MAX);
        let flows = self.senders.iter().map(|s| s.active.len()).max().unwrap_or(1) as f64;
        loop {
            // Each flow ten times in a tenth of a second. To a device that is not ready yet it is said again soon.
            let step = Step { rate: flows * 100.0, duration: Duration::from_millis(100) };
            let stragglers = Some(self.stragglers.min(SOON));
            let job = Job { stragglers, is_warm_up: true, ..Job::new(Offer::Steps(vec![step])) };
            let detail = self.carry_out(job)?.detail;
            if self.leave_out() {
                continue;
            }
            let heard = self.heard(&detail);
            let lost = detail.outcome.lost();
            // What is lost as before is not lost for want of neighbours.
            if heard && (lost == 0 || lost >= before) {
                return Ok(());
            }
            before = lost;
            if begun.elapsed() > patience {
                return if heard { Ok(()) } else { Err(self.silence(&detail)) };
            }
        }
    }

    /// Addresses of the device's own that flows would have come from or gone to.
    pub fn left_out(&self) -> Vec<IpAddr> {
        let gone: BTreeSet<IpAddr> =
            self.ends.iter().flatten().copied().filter(|end| self.own.contains(end)).collect();
        gone.into_iter().collect()
    }

    /// Leaves out the flows that go to the device itself, or come from an address of its own: a router drops what says that it comes
    /// from the router (RFC 1812 5.3.7). Whether there were any.
    pub(super) fn leave_out(&mut self) -> bool {
        let mut any = false;
        for sender in &mut self.senders {
            let before = sender.active.len();
            let own = |flow: &u32| {
                let ends = &self.ends[(sender.first_flow + flow) as usize];
                ends.iter().any(|end| self.own.contains(end))
            };
            // A port must have something to send; then it is the plan that is wrong, and shows.
            if !sender.active.iter().all(own) {
                sender.active.retain(|flow| !own(flow));
            }
            any |= sender.active.len() < before;
        }
        any
    }

    fn heard(&self, detail: &Detail) -> bool {
        detail.outcome.received > 0
    }

    fn silence(&self, detail: &Detail) -> Invalid {
        let Detail { outcome, damaged, old, foreign, counts, .. } = detail;
        let mend = match (counts.misrouted, *damaged, *foreign) {
            (1.., ..) => {
                "frames come out of other ports than expected: compare its routes with the flows' addresses"
            }
            _ if *old > 0 => {
                "frames come when they are no longer waited for: have it wait longer (--stragglers)"
            }
            (0, 1.., _) => "frames come back damaged: it may rewrite what UDP's checksum covers",
            (0, 0, 1..) => {
                "it speaks, but forwards none of them: compare its addresses and routes with the flows'"
            }
            _ => "nothing at all comes from it: see that it runs, and that its ports are these",
        };
        let mut what = format!("the device returned none of {} frames", outcome.sent);
        for (name, receiver) in self.names.iter().zip(&self.receivers) {
            what += &match (receiver.heard, receiver.wanted.first()) {
                (0, None) => format!("; {name} heard nothing"),
                (heard, None) => format!("; {name} heard {heard} frames"),
                (heard, Some(neighbour)) => {
                    let more = receiver.wanted.len() - 1;
                    format!(
                        "; {name} heard {heard} frames, was asked for {neighbour} and {more} more neighbours, and answered"
                    )
                }
            };
        }
        Invalid::new(what, mend)
    }
}
