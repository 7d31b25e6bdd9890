// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RatedSplitter, BandwidthRatedSplitter
//!
//! `RatedSplitter(RATE [, keywords BURST_DURATION, BURST_SIZE])`
//! `BandwidthRatedSplitter(RATE [, keywords BURST_DURATION, BURST_BYTES])`
//!
//! Pass packets up to a rate to output 0, and those above it to output 1.
//!
//! **Ports:** 1 push input, 1 or 2 push outputs.
//!
//! **Arguments**
//! * `RATE` packets per second; of BandwidthRatedSplitter bytes per second, or with a unit such as `8Mbps`.
//! * `BURST_DURATION` seconds, or with a unit: what RATE would give in so long may pass at once; default 20 ms.
//! * `BURST_SIZE` packets, or `BURST_BYTES` bytes, that may pass at once, instead of BURST_DURATION. At least 1 packet may.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** `rate-exceeded`, packets above the rate when output 1 is not connected.
//!
//! **Handlers**
//! * `config` read: the rate. `rate` read/write: the argument; writing it lets the burst be what it gives in 20 ms.
//!
//! ```click
//! InfiniteSource(LIMIT 50, STOP true) -> s :: RatedSplitter(1000) -> Discard;
//! s[1] -> b :: BandwidthRatedSplitter(1MBps) -> Discard;
//! b[1] -> Discard;
//! ```
//!
//! See also: RatedUnqueue, Shaper, Meter

use element::args::Args;
use element::{Class, Cx, Element, Handler, Reason, carries, handlers};
use packet::Batch;

use crate::tools::Limit;

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/1-2", make)
        .processing("h/h")
        .serial("its rate holds for all packets together")
        .handlers(HANDLERS)
        .hot_swap::<RatedSplitter>()
        .file(file!())
}

const HANDLERS: &[Handler] = handlers! { RatedSplitter:
    both "rate" => |splitter| splitter.limit.rate_text(),
        |splitter, cx, text: &str| splitter.limit.set_rate("rate", text, cx.now())?;
    read "config" => |splitter| splitter.limit.rate_text();
};

/// The descriptor of the limit in packets.
pub const PACKETS: Class = class("RatedSplitter", || Box::new(RatedSplitter::default()));
/// The descriptor of the limit in bytes.
pub const BYTES: Class =
    class("BandwidthRatedSplitter", || Box::new(RatedSplitter { bytes: true, ..RatedSplitter::default() }));

#[derive(Default)]
struct RatedSplitter {
    bytes: bool,
    limit: Limit,
}

impl Element for RatedSplitter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.limit = Limit::from_args(args, self.bytes);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now = cx.now();
        self.limit.refill(now);
        let mut passes = 0;
        while passes < batch.len() && self.limit.allowed() > 0 {
            self.limit.charge(&batch[passes..=passes]);
            passes += 1;
        }
        let within = batch.split_front(passes);
        cx.push(0, within);
        if !batch.is_empty() {
            cx.push_or_drop(1, batch, Reason::RateExceeded);
        }
    }
}

carries!(RatedSplitter: limit; anew bytes);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn check(element: &str, rate: usize, want: (&str, &str)) {
        let text = format!(
            "InfiniteSource(LENGTH 100) -> Queue(100) -> RatedUnqueue({rate}, BURST_SIZE 1) -> e :: {element} -> c :: Counter -> Discard; e[1] -> d :: Counter -> Discard; TimedSource(10, LIMIT 1, STOP true, ACTIVE true) -> x :: Counter(COUNT_CALL 1 stop) -> Discard;"
        );
        for burst in [1, 32] {
            let mut run = Rig::text(&text).burst(burst).run();
            assert_eq!((run.read("c.count").as_str(), run.read("d.count").as_str()), want, "{element}");
        }
    }

    #[test]
    fn passes_the_rate_for_ten_seconds() {
        check("RatedSplitter(2)", 10, ("20", "80"));
        check("RatedSplitter(2, BURST_SIZE 50)", 10, ("69", "31"));
        check("RatedSplitter(100, BURST_SIZE 2)", 200, ("1001", "999"));
        check("BandwidthRatedSplitter(200Bps)", 20, ("20", "180"));
        check("BandwidthRatedSplitter(200Bps, BURST_BYTES 5000)", 20, ("70", "130"));
    }

    #[test]
    fn what_exceeds_is_dropped() {
        for burst in [1, 32] {
            let run =
                Rig::new("RatedSplitter(10, BURST_SIZE 2)").burst(burst).inputs(&[b"a", b"b", b"c"]).run();
            assert_eq!(
                (run.bytes("o0").concat(), run.drops("e")),
                (b"ab".to_vec(), vec![(Reason::RateExceeded, 1)])
            );
        }
    }
}
