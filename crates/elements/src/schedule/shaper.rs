// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Shaper, BandwidthShaper
//!
//! `Shaper(RATE)`, `BandwidthShaper(RATE)`
//!
//! Let packets be fetched at a limited rate, evenly spaced.
//!
//! **Ports:** 1 pull input, 1 pull output; output 1, if connected, is a pull output that gives packets only while output 0 may
//! give none.
//!
//! **Arguments**
//! * `RATE` packets per second; of BandwidthShaper bytes per second, or with a unit such as `8Mbps`.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `rate` read/write: the argument.
//! * `reset` write: begins anew, without what was missed.
//!
//! It sends only what it is asked for. Who asks late may catch up with what 10 milliseconds give, or 2 packets.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> Shaper(10000) -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> BandwidthShaper(10MBps) -> Discard;
//! ```
//!
//! See also: RatedUnqueue, RatedSplitter, DelayShaper

use element::args::Args;
use element::clock::Nanos;
use element::{Class, Cx, Element, Handler, Rehearsal, Rehearsed, carries, handlers};
use packet::{Batch, Packet};

use crate::tools::{Limit, look_again_at, rate_argument};

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/1-2", make)
        .processing("l/l")
        .serial("its rate holds for all packets together")
        .handlers(HANDLERS)
        .reconfigurable()
        .hot_swap::<Shaper>()
        .rehearsal::<Shaper>()
        .file(file!())
}

const HANDLERS: &[Handler] = handlers! { Shaper:
    both "rate".argument(Some(0), "RATE") => |shaper| shaper.limit.rate_text(), |shaper, cx, text: &str| {
        shaper.rate = shaper.limit.parse_rate("rate", text)?;
        shaper.reset(cx.now());
    };
    write "reset" => |shaper, cx| shaper.reset(cx.now());
};

/// The descriptor of the limit in packets.
pub const PACKETS: Class = class("Shaper", || Box::new(Shaper::default()));
/// The descriptor of the limit in bytes.
pub const BYTES: Class = class("BandwidthShaper", || Box::new(Shaper { bytes: true, ..Shaper::default() }));

#[derive(Default)]
struct Shaper {
    bytes: bool,
    rate: u64,
    limit: Limit,
}

impl Shaper {
    fn reset(&mut self, now: Nanos) {
        let least = if self.bytes { 0 } else { 2 };
        self.limit = Limit::new(self.rate, (self.rate / 100).max(least), self.bytes);
        self.limit.drain_to_one(now);
    }
}

impl Element for Shaper {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.rate = rate_argument(args, self.bytes);
        self.reset(0);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let now = cx.now();
        self.limit.refill(now);
        if port == 1 {
            return if self.limit.allowed() == 0 { cx.pull(0, max) } else { Batch::new() };
        }
        if self.limit.allowed() == 0 {
            look_again_at(cx, self.limit.ready_at());
            return Batch::new();
        }
        self.limit.pull(cx, max)
    }
}

impl Rehearsal for Shaper {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(Shaper: limit; anew bytes, rate);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    fn times(element: &str, n: usize) -> Vec<u64> {
        let text = format!(
            "InfiniteSource(LENGTH 100, LIMIT {n}) -> Queue(100) -> {element} -> Unqueue -> SetTimestamp -> o :: TestOut;"
        );
        let at = |burst| {
            let out = Rig::text(&text).burst(burst).run().out("o");
            out.iter().map(|p| (p.timestamp_ns() - SIMULATION_EPOCH) / (SECOND / 1000)).collect::<Vec<_>>()
        };
        assert_eq!(at(1), at(32), "{element}");
        at(1)
    }

    #[test]
    fn packets_are_evenly_spaced() {
        assert_eq!(times("Shaper(4)", 5), [0, 250, 500, 750, 1000]);
        assert_eq!(times("Shaper(1000)", 5), [0, 1, 2, 3, 4]);
        assert_eq!(times("BandwidthShaper(400)", 4), [0, 250, 500, 750]);
    }

    #[test]
    fn output_1_gives_what_output_0_may_not() {
        let text = "InfiniteSource(LIMIT 5) -> Queue -> e :: Shaper(1) -> Unqueue -> a :: TestOut; e[1] -> Unqueue -> b :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).ready().run_for(Duration::from_millis(1));
            assert_eq!((run.out("a").len(), run.out("b").len()), (1, 4), "{burst}");
        }
    }

    #[test]
    fn the_rate_can_change() {
        let text =
            "InfiniteSource(LIMIT 5) -> Queue -> e :: Shaper(0) -> Unqueue -> c :: Counter -> Discard;";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("e.rate"), run.read("c.count")), ("0".into(), "1".into()));
        run.write("e.rate", "100").unwrap();
        let mut run = run.again();
        assert_eq!((run.read("e.rate"), run.read("c.count")), ("100".into(), "5".into()));
        assert!(run.write("e.rate", "fast").is_err());
        assert_eq!(Rig::text("Idle -> e :: Shaper -> Discard;").errors().len(), 1);
    }
}
