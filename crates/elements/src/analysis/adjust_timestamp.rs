// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AdjustTimestamp
//!
//! `AdjustTimestamp([TIME, keywords FIRST, ALL])`
//!
//! Adds TIME to each packet's timestamp.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `TIME` seconds, or with a unit, default 0; may be negative.
//! * `FIRST` boolean, default false: changes the first-timestamp annotation instead.
//! * `ALL` boolean, default false: also changes timestamps that are unset.
//!
//! **Metadata set:** timestamp, or first timestamp. It never becomes less than 0.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `time` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetTimestamp(10) -> AdjustTimestamp(-1.5) -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! See also: SetTimestamp, SetTimestampDelta, StoreTimestamp

use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, handlers};
use packet::{Batch, anno};

use crate::tools::{nanos, seconds};

/// The descriptor.
pub const CLASS: Class = Class::new("AdjustTimestamp", "1/1", || Box::new(AdjustTimestamp::default()))
    .handlers(handlers! { AdjustTimestamp:
        both "time" => |element| element.shift.text(), |element, time: Shift| element.shift = time;
    })
    .pure()
    .file(file!());

/// A time that may be negative, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shift(i64);

impl FromArg for Shift {
    const EXPECTED: &'static str = "a time, which may be negative (-1.5, 10ms)";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let ns = i64::try_from(nanos(Duration::from_arg(rest, names)?)).map_err(|_| "it is too long")?;
        Ok(Shift(if negative { -ns } else { ns }))
    }
}

impl Shift {
    fn text(self) -> String {
        format!("{}{}", if self.0 < 0 { "-" } else { "" }, seconds(self.0.unsigned_abs()))
    }
}

#[derive(Default)]
struct AdjustTimestamp {
    shift: Shift,
    first: bool,
    all: bool,
}

impl AdjustTimestamp {
    fn moved(&self, time: u64) -> u64 {
        if time == 0 && !self.all { 0 } else { time.saturating_add_signed(self.shift.0) }
    }
}

impl Element for AdjustTimestamp {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.shift = args.positional("TIME", Shift(0));
        self.first = args.keyword("FIRST", false);
        self.all = args.keyword("ALL", false);
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            if self.first {
                let time = self.moved(u64::from_ne_bytes(packet.anno(anno::FIRST_TIMESTAMP)));
                packet.set_anno(anno::FIRST_TIMESTAMP, time.to_ne_bytes());
            } else {
                packet.set_timestamp_ns(self.moved(packet.timestamp_ns()));
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::testing::Rig;

    fn packet(time: u64, first: u64) -> Packet {
        let mut packet = Packet::copy_of(b"a").unwrap();
        packet.set_timestamp_ns(time);
        packet.set_anno(anno::FIRST_TIMESTAMP, first.to_ne_bytes());
        packet
    }

    /// The timestamps after an adjustment, in milliseconds.
    fn check(element: &str, want: [(u64, u64); 2]) {
        for burst in [1, 32] {
            let packets = vec![packet(5_000_000_000, 2_000_000_000), packet(0, 0)];
            let out = Rig::new(element).burst(burst).packets(packets).run().out("o0");
            let times = out.iter().map(|p| {
                let first = u64::from_ne_bytes(p.anno(anno::FIRST_TIMESTAMP));
                (p.timestamp_ns() / 1_000_000, first / 1_000_000)
            });
            assert_eq!(times.collect::<Vec<_>>(), want, "{element}");
        }
    }

    #[test]
    fn adds_and_subtracts() {
        check("AdjustTimestamp(1.5)", [(6500, 2000), (0, 0)]);
        check("AdjustTimestamp(-1500ms)", [(3500, 2000), (0, 0)]);
        check("AdjustTimestamp(1, ALL true)", [(6000, 2000), (1000, 0)]);
        check("AdjustTimestamp(1, FIRST true)", [(5000, 3000), (0, 0)]);
        check("AdjustTimestamp(-9)", [(0, 2000), (0, 0)]);
        check("AdjustTimestamp", [(5000, 2000), (0, 0)]);
    }

    #[test]
    fn the_handler_changes_it() {
        let mut run = Rig::new("AdjustTimestamp(-1.5)").run();
        assert_eq!(run.read("e.time"), "-1.500000");
        run.write("e.time", "2").unwrap();
        assert_eq!(run.read("e.time"), "2.000000");
        assert!(run.write("e.time", "--2").is_err());
        assert_eq!(Rig::new("AdjustTimestamp(x)").errors().len(), 1);
    }
}
