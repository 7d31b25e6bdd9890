// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Punt
//!
//! `Punt(REASON [, keywords RATE, BURST, RESTORE_TTL])`
//!
//! Lets packets that the fast path cannot handle go to the host's own stack, no more than so many a second.
//!
//! One Punt stands for one reason; several exceptions of the same kind lead to the same Punt. What it lets through goes on
//! unchanged, to ToHost as a rule, so that the kernel answers it. A flood for one reason leaves the others alone.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `REASON` a word that says why, for the reader and for the `reason` handler.
//! * `RATE` packets per second in all, default 1000; 0 is no limit. `BURST` of them at once, default a tenth of RATE.
//! * `RESTORE_TTL` boolean, default false: adds one to the time to live, or hop limit, of IP packets. Set it behind DecIPTTL or
//!   DecIP6HLIM, for the kernel will take one away itself.
//!
//! **Cores:** one limit for all workers, without a lock.
//!
//! **Metadata read:** network header position, for RESTORE_TTL.
//!
//! **Drops:** `punt-rate-limited`.
//!
//! **Handlers**
//! * `reason` read: REASON. `count` read: packets let through.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 500, STOP true) -> Punt(no-route, RATE 1000, BURST 50) -> Discard;
//! ```
//!
//! See also: ToHost, FromHost, IPRouter, IP6Router, PaintSwitch

use std::sync::Arc;

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, SharedState, Sharing, carries, handlers};
use packet::{Batch, Packet};

use crate::shared_limit::SharedLimit;

/// The descriptor.
pub const CLASS: Class = Class::new("Punt", "1/1", || Box::new(Punt::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { Punt:
        read "reason" => .reason;
        sum "count" => .count;
    })
    .hot_swap::<Punt>()
    .shared_state::<Punt>()
    .rehearsal::<Punt>()
    .file(file!());

/// Packets per second by default.
const RATE: u64 = 1000;

#[derive(Clone, Default)]
struct Punt {
    reason: String,
    limit: Option<Arc<SharedLimit>>,
    restore_ttl: bool,
    count: Count,
}

impl Element for Punt {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.reason = args.required("REASON");
        let rate = args.keyword("RATE", RATE);
        let burst = args.keyword("BURST", (rate / 10).max(1));
        if burst == 0 {
            args.error("BURST must be at least 1");
        }
        self.limit = (rate > 0).then(|| Arc::new(SharedLimit::new(rate, burst)));
        self.restore_ttl = args.keyword("RESTORE_TTL", false);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if let Some(limit) = &self.limit {
            let now = cx.now();
            batch.partition(|_| limit.allows(now), |p| cx.drop(Reason::PuntRateLimited, p));
        }
        self.count += batch.len() as u64;
        if self.restore_ttl {
            batch.iter_mut().for_each(raise_ttl);
        }
        batch
    }
}

impl Rehearsal for Punt {
    fn copy(&self) -> Option<Box<dyn Element>> {
        // As if within the limit, which the copy would share.
        Some(Box::new(Punt { limit: None, ..self.clone() }))
    }
}

impl SharedState for Punt {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Punt: limit, count; anew reason, restore_ttl);

/// Takes back what DecIPTTL or DecIP6HLIM did, the checksum with it (RFC 1624, equation 3).
fn raise_ttl(packet: &mut Packet) {
    match packet.network_chunk::<20>().map(|h| (h[0] >> 4, h[7], h[8])) {
        Some((4, _, 0..=254)) => {}
        Some((6, 0..=254, _)) => {
            if let Some(h) = packet.network_chunk_mut::<20>() {
                h[7] += 1;
            }
            return;
        }
        _ => return,
    }
    let Some(h) = packet.network_chunk_mut::<20>() else { return };
    let word = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let (old, sum) = (word(8), word(10));
    let total = u32::from(!sum) + u32::from(!old) + u32::from(old + 0x0100);
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    h[8] += 1;
    [h[10], h[11]] = (!(folded as u16)).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{datagram, sealed};
    use crate::testing::Rig;

    fn packets(n: usize) -> Vec<Packet> {
        (0..n).map(|i| datagram(i as u8 + 2, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4)).collect()
    }

    #[test]
    fn no_more_than_the_burst_at_once() {
        let mut run = Rig::new("Punt(ttl, RATE 10, BURST 3)").packets(packets(8)).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (3, vec![(Reason::PuntRateLimited, 5)]));
        assert_eq!((run.read("e.count"), run.read("e.reason")), ("3".into(), "ttl".into()));
        let run = Rig::new("Punt(ttl, RATE 0)").packets(packets(200)).run();
        assert_eq!(run.out("o0").len(), 200);
    }

    #[test]
    fn the_time_to_live_comes_back() {
        let run = Rig::text("i :: TestIn -> DecIPTTL -> Punt(big, RESTORE_TTL true) -> o :: TestOut;")
            .packets(packets(200))
            .run();
        for (i, packet) in run.out("o").iter().enumerate() {
            assert_eq!((packet.data()[8], sealed(packet.data())), (i as u8 + 2, true));
        }
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        assert_eq!(Rig::new("Punt(x, BURST 0)").errors(), ["e: BURST must be at least 1"]);
        assert_eq!(Rig::new("Punt").errors(), ["e: missing argument REASON: a string"]);
    }

    #[test]
    fn so_does_the_hop_limit() {
        use crate::ip6::samples::packet;
        let limits = [64, 2, 255].map(|limit| packet("2001:db8::1", "2001:db8::2", 59, limit, b"x"));
        let run = Rig::text("i :: TestIn -> DecIP6HLIM -> Punt(big, RESTORE_TTL true) -> o :: TestOut;")
            .packets(limits.into())
            .run();
        assert_eq!(run.bytes("o").iter().map(|p| p[7]).collect::<Vec<_>>(), [64, 2, 255]);
    }
}
