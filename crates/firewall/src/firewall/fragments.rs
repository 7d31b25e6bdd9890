// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to the first fragments of packets: it happens to the others, too.
//!
//! Later fragments have no ports. One that comes before the first cannot be judged; one that overlaps the first could say something else
//! about the packet (RFC 1858, RFC 5722). Neither passes.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::{Decision, Verdict};
use crate::policy::SECOND;
use crate::seen::Fragment;

/// Packets that are remembered.
const KEPT: usize = 8192;
/// How long (RFC 8200, 4.5).
const TIME_NS: u64 = 60 * SECOND;

type Packet = (IpAddr, IpAddr, u32, u8, u16);

/// A first fragment.
#[derive(Clone, Copy, Debug)]
struct First {
    decision: Decision,
    end: u32,
    ends_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Fragments {
    firsts: HashMap<Packet, First>,
    order: VecDeque<Packet>,
}

impl Fragments {
    /// Notes what was decided on a first fragment.
    pub(super) fn note(&mut self, fragment: Fragment, decision: &Decision, now_ns: u64) {
        let first = First { decision: *decision, end: fragment.bytes.1, ends_ns: now_ns + TIME_NS };
        if self.firsts.insert(fragment.packet, first).is_some() {
            return;
        }
        self.order.push_back(fragment.packet);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.firsts.remove(&oldest);
        }
    }

    /// What happens to a later fragment; nothing is known of some.
    pub(super) fn find(&self, fragment: &Fragment, now_ns: u64) -> Option<Decision> {
        let first = self.firsts.get(&fragment.packet).filter(|first| now_ns < first.ends_ns)?;
        let overlaps = fragment.bytes.0 < first.end;
        let mut decision = Decision { logs: false, is_proxied: false, ..first.decision };
        // The sender has got its answer.
        if let Verdict::Reject(_) = decision.verdict {
            decision.verdict = Verdict::Drop(super::Cause::Rule);
        }
        (!overlaps).then_some(decision)
    }
}
