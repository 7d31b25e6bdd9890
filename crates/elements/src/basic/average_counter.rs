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
use element::{Class, Cx, Element, Handler, HandlerError, swap};
use packet::Batch;

use crate::control::general;

/// The descriptor.
pub const CLASS: Class = Class::new("AverageCounter", "1/1", || Box::new(AverageCounter::default()))
    .serial("the time between its first and its last packet is that of all workers together")
    .handlers(&[
        Handler::sum("count"),
        Handler::sum("byte_count"),
        Handler::sum("rate"),
        Handler::sum("byte_rate"),
        Handler::write("reset"),
    ])
    .forwards()
    .file(file!());

#[derive(Clone, Default)]
struct AverageCounter {
    ignore: Nanos,
    packets: u64,
    bytes: u64,
    span: Option<(Nanos, Nanos)>,
}

impl AverageCounter {
    fn rate(&self, count: u64) -> f64 {
        let (first, last) = self.span.unwrap_or_default();
        let elapsed = (last - first).saturating_sub(self.ignore).max(SECOND / 1000);
        count as f64 * SECOND as f64 / elapsed as f64
    }
}

impl Element for AverageCounter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ignore = args.positional("IGNORE", Duration::ZERO).as_nanos() as Nanos;
    }

    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let now = cx.now();
        let (first, _) = self.span.unwrap_or((now, now));
        self.span = Some((first, now));
        if now - first >= self.ignore {
            self.packets += batch.len() as u64;
            self.bytes += batch.iter().map(|p| p.len() as u64).sum::<u64>();
        }
        batch
    }

    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AverageCounter>(old) else { return false };
        self.packets += std::mem::take(&mut old.packets);
        self.bytes += std::mem::take(&mut old.bytes);
        self.span = match (self.span, old.span.take()) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        true
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "count" => self.packets.to_string(),
            "byte_count" => self.bytes.to_string(),
            "rate" => general(self.rate(self.packets), 12),
            _ => general(self.rate(self.bytes), 12),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<(), HandlerError> {
        *self = AverageCounter { ignore: self.ignore, ..AverageCounter::default() };
        Ok(())
    }
}

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
