// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rewriter's mappings as text.
//!
//! A worker takes the lock of the mappings for every batch. So a listing that another thread makes copies some mappings at a time, and
//! writes and sorts when it has them all ([`Listing::apart`]). A mapping that comes or goes meanwhile may be in it or not.

use std::fmt::Write as _;

use element::clock::Nanos;
use tables::flow::Flow;

use super::SECOND;
use super::kind::FlowKind;
use super::mappings::{Mapping, Mappings, Shared, lock};

/// Records that are copied while the lock is held.
const AT_A_TIME: usize = 512;

/// What is listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing {
    pub kind: FlowKind,
    /// The rewriter that sees the mappings.
    pub zone: u16,
    /// Mappings of this protocol alone.
    pub proto: Option<u8>,
    pub now: Nanos,
}

impl Listing {
    /// A line for each mapping and direction that the rewriter sees.
    pub(super) fn text(self, all: &Mappings) -> String {
        let flows = all.table().iter().map(|(_, flow)| copy(flow)).collect();
        self.lines(flows, |zone| all.name(zone).to_owned())
    }

    /// The same for a thread that is not a worker.
    pub(super) fn apart(self, mappings: &Shared) -> String {
        let mut flows = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            let all = lock(mappings);
            from = all.table().some(at, AT_A_TIME, |_, flow| flows.push(copy(flow)));
        }
        self.lines(flows, |zone| lock(mappings).name(zone).to_owned())
    }

    fn lines(self, mut flows: Vec<Flow<Mapping>>, name: impl Fn(u16) -> String) -> String {
        let Listing { kind, zone, proto, now } = self;
        flows.retain(|f| proto.is_none_or(|p| f.forward.proto == p));
        flows.retain(|f| f.expires_ns > now || f.value.ends_ns() > now);
        flows.sort_by_key(|f| f.forward);
        let mut text = String::new();
        for f in flows {
            let zones = [f.forward.zone, f.reply.zone];
            // Outputs of another rewriter say whose they are.
            let port = |side: usize, seen: usize| match (side == seen, zones[0] == zones[1]) {
                (true, _) => format!("*{}", f.value.outputs[side]),
                (false, true) => f.value.outputs[side].to_string(),
                (false, false) => format!("{}:{}", name(zones[side]), f.value.outputs[side]),
            };
            let left = f.value.ends_ns().saturating_sub(now).saturating_add(SECOND / 2) / SECOND;
            for (side, key) in [f.forward, f.reply].iter().enumerate().filter(|(s, _)| zones[*s] == zone) {
                let to = kind.rewritten(key, &f.forward, &f.reply, side);
                let (ports, input) = ([port(0, side), port(1, side)], f.value.input);
                let key = kind.text(key, &to, side);
                let _ = writeln!(text, "{key} [{} {}] i{input} exp{left}", ports[0], ports[1]);
            }
        }
        text
    }
}

fn copy(flow: Flow<&Mapping>) -> Flow<Mapping> {
    let Flow { forward, reply, expires_ns, value } = flow;
    Flow { forward, reply, expires_ns, value: *value }
}

/// Ends what has been idle for its time, some at a time, for a thread that is not a worker.
pub(super) fn expire(mappings: &Shared, now: Nanos) {
    while lock(mappings).expire_some(now, AT_A_TIME) {}
}
