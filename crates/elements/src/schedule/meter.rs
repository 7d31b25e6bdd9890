// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Meter, BandwidthMeter
//!
//! `Meter(RATE1 [, RATE2 ...])`, `BandwidthMeter(RATE1 [, RATE2 ...])`
//!
//! Send all packets to an output that depends on their recent rate.
//!
//! **Ports:** 1 push input; one push output more than there are rates.
//!
//! **Arguments**
//! * `RATE1`, `RATE2` ... ascending, in packets per second; of BandwidthMeter in bytes per second, or with a unit such as
//!   `8Mbps`. Below RATE1 packets leave by output 0, from RATE1 on by output 1, from RATE2 on by output 2, and so on.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `rate` read: the recent rate in packets (or bytes) per second. `meters` read: the arguments.
//!
//! The rate is an average over milliseconds of which each counts 1/16 less than the one after it.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> m :: Meter(20000) -> Discard;
//! m[1] -> Discard;
//! ```
//!
//! See also: RatedSplitter, Counter

use element::args::{Args, Bandwidth, FromArg};
use element::clock::{Nanos, SECOND};
use element::{Class, Cx, Element, Handler, HotSwap, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet};

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/2-", make)
        .processing("h/h")
        .serial("its rate is that of all packets together")
        .handlers(HANDLERS)
        .hot_swap::<Meter>()
        .rehearsal::<Meter>()
        .file(file!())
}

const HANDLERS: &[Handler] = handlers! { Meter:
    read "rate" => |meter, cx| {
        meter.update(cx.now(), 0);
        meter.per_second()
    };
    read "meters" => |meter| meter.rates.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
};

/// The descriptor of the meter of packets.
pub const PACKETS: Class = class("Meter", || Box::new(Meter::default()));
/// The descriptor of the meter of bytes.
pub const BYTES: Class = class("BandwidthMeter", || Box::new(Meter { bytes: true, ..Meter::default() }));

/// The average moves in steps of this length.
const EPOCH: Nanos = SECOND / 1000;
const WEIGHT: f64 = 1.0 / 16.0;

#[derive(Default)]
struct Meter {
    bytes: bool,
    rates: Vec<u64>,
    /// Per epoch.
    average: f64,
    current: u64,
    epoch: u64,
}

impl Meter {
    fn update(&mut self, now: Nanos, n: u64) {
        let epoch = now / EPOCH;
        if epoch > self.epoch {
            self.average += (self.current as f64 - self.average) * WEIGHT;
            // Epochs in which nothing came.
            self.average *= (1.0 - WEIGHT).powf((epoch - self.epoch - 1) as f64);
            (self.current, self.epoch) = (0, epoch);
        }
        self.current += n;
    }

    fn per_second(&self) -> f64 {
        self.average * (SECOND / EPOCH) as f64
    }

    /// Where packets go at the present rate.
    fn port(&self) -> usize {
        let rate = self.per_second();
        self.rates.iter().take_while(|r| rate >= **r as f64).count()
    }
}

impl Element for Meter {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (given, names) = (args.rest(), args.names);
        for (at, text) in given.iter().enumerate() {
            let rate = match self.bytes {
                true => Bandwidth::from_arg(text, names).map(|b| b.bytes_per_second),
                false => u64::from_arg(text, names),
            };
            match rate {
                Ok(rate) if self.rates.last().is_none_or(|last| *last < rate) => self.rates.push(rate),
                Ok(_) => args.error_as(
                    format!("rate '{text}' must be larger than the one before it"),
                    format!("rate {} must be > rate {at}", at + 1),
                ),
                Err(_) => args
                    .error_as(format!("'{text}' is not a rate"), format!("argument {} syntax error", at + 1)),
            }
        }
        if args.errors().is_empty() && given.len() + 1 != args.noutputs {
            let n = args.noutputs - 1;
            args.error_as(
                format!("expected {n} rates, one less than there are outputs, not {}", given.len()),
                format!("need {n} arguments, one less than the number of output ports"),
            );
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let n = if self.bytes { batch.iter().map(|p| p.len()).sum() } else { batch.len() };
        let now = cx.now();
        self.update(now, n as u64);
        cx.push(self.port(), batch);
    }
}

impl Rehearsal for Meter {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        // Also without it, time goes on.
        self.update(cx.now(), 0);
        cx.push(self.port(), Batch::of(packet));
        Rehearsed::Done
    }
}

impl HotSwap for Meter {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Meter>(old) else { return false };
        (self.average, self.current, self.epoch) = (old.average, old.current, old.epoch);
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn fast_streams_change_the_output() {
        for (element, burst) in [("Meter(500)", 1), ("Meter(500)", 32), ("BandwidthMeter(50kBps)", 32)] {
            // 1000 packets of 100 bytes per second: the average passes half of that after 11 epochs.
            let text = format!(
                "TimedSource(1ms, LIMIT 100) -> Truncate(100) -> StoreData(0, x, GROW true) -> StoreData(99, x, GROW true) -> e :: {element} -> o0 :: TestOut; e[1] -> o1 :: TestOut;"
            );
            let run = Rig::text(&text).burst(burst).run();
            let (slow, fast) = (run.out("o0").len(), run.out("o1").len());
            assert_eq!((slow, fast), (11, 89), "{element}");
        }
    }

    #[test]
    fn several_rates() {
        let text = "TimedSource(1ms, LIMIT 200) -> e :: Meter(100, 900, 2000); e[0] -> a :: TestOut; e[1] -> b :: TestOut; e[2] -> c :: TestOut; e[3] -> d :: TestOut;";
        let mut run = Rig::text(text).run();
        let counts = ["a", "b", "c", "d"].map(|o| run.out(o).len());
        assert!(counts[..3].iter().all(|n| *n > 0) && counts[3] == 0, "{counts:?}");
        assert_eq!(run.read("e.meters"), "100 900 2000");
        assert!((990.0..=1000.0).contains(&run.read("e.rate").parse::<f64>().unwrap()));
    }

    #[test]
    fn refuses_wrong_rates() {
        let errors = |element: &str| {
            Rig::text(&format!("i :: TestIn -> e :: {element} -> Discard; e[1] -> Discard;")).errors()
        };
        assert_eq!(errors("Meter(1, 2)"), ["e: expected 1 rates, one less than there are outputs, not 2"]);
        assert_eq!(errors("Meter(x)"), ["e: 'x' is not a rate"]);
        assert_eq!(errors("Meter(2, 1)"), ["e: rate '1' must be larger than the one before it"]);
    }
}
