// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AverageCounter
//!
//! `AverageCounter([IGNORE])`
//!
//! Passes packets unchanged, counts them, and averages their rate between the first and the last of them.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `IGNORE` seconds after the first packet in which nothing is counted, default 0.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `count`, `byte_count` read: packets and bytes since the last reset, without those ignored.
//! * `rate`, `byte_rate` read: packets and bytes per second, from the first (or the end of IGNORE) to the last. The time
//!   is taken to be a millisecond at least.
//! * `reset` write: begins anew.
//!
//! Each worker averages for itself, and the rates are added.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> AverageCounter -> Discard;
//! ```
//!
//! See also: Counter

use std::time::Duration;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::{Carried, Count};
use element::{Class, Cx, Element, Rehearsal, carries, handlers};
use packet::Batch;

use crate::control::general;

/// The descriptor.
pub const CLASS: Class = Class::new("AverageCounter", "1/1", || Box::new(AverageCounter::default()))
    .serial("the time between its first and its last packet is that of all workers together")
    .handlers(handlers! { AverageCounter:
        sum "count" => .packets;
        sum "byte_count" => .bytes;
        sum "rate" => |counter| general(counter.rate(*counter.packets), 12);
        sum "byte_rate" => |counter| general(counter.rate(*counter.bytes), 12);
        write "reset" => |counter| *counter = AverageCounter { ignore: counter.ignore, ..AverageCounter::default() };
    })
    .forwards()
    .hot_swap::<AverageCounter>().rehearsal::<AverageCounter>().file(file!());

#[derive(Clone, Default)]
struct AverageCounter {
    ignore: Nanos,
    packets: Count,
    bytes: Count,
    span: Span,
}

/// The times of the first packet and the last.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(Nanos, Nanos)>);

impl Carried for Span {
    fn carry(&mut self, _: Nanos, old: &mut Span) {
        self.0 = match (self.0, old.0.take()) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

impl AverageCounter {
    fn rate(&self, count: u64) -> f64 {
        let (first, last) = self.span.0.unwrap_or_default();
        let elapsed = (last - first).saturating_sub(self.ignore).max(SECOND / 1000);
        count as f64 * SECOND as f64 / elapsed as f64
    }
}

impl Element for AverageCounter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ignore = args.positional("IGNORE", Duration::ZERO).as_nanos() as Nanos;
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let now = cx.now();
        let (first, _) = self.span.0.unwrap_or((now, now));
        self.span.0 = Some((first, now));
        if now - first >= self.ignore {
            self.packets += batch.len() as u64;
            self.bytes += batch.iter().map(|p| p.len() as u64).sum::<u64>();
        }
        batch
    }
}

impl Rehearsal for AverageCounter {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(AverageCounter: packets, bytes, span; anew ignore);

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn averages_over_simulated_time() {
        for burst in [1, 32] {
            // Packets after 1, 2 ... 11 seconds.
            let text =
                "TimedSource(1, abcd, LIMIT 11) -> e :: AverageCounter -> f :: AverageCounter(5) -> Discard;";
            let mut run = Rig::text(text).burst(burst).run();
            let all = ["e.count", "e.byte_count", "e.rate", "e.byte_rate"].map(|h| run.read(h));
            assert_eq!(all, ["11", "44", "1.1", "4.4"]);
            assert_eq!((run.read("f.count"), run.read("f.rate")), ("6".into(), "1.2".into()));
            run.write("e.reset", "").unwrap();
            assert_eq!((run.read("e.count"), run.read("e.rate")), ("0".into(), "0".into()));
        }
    }
}
