// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RandomSource
//!
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, keywords TIMESTAMP, STOP, END_CALL])`
//!
//! Makes packets of random bytes as fast as they are taken.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked.
//!
//! **Arguments**
//! * `LENGTH` bytes of each packet, at most 65535.
//! * `LIMIT` packets in all, default -1: no limit.
//! * `BURST` packets per run of its task, default 1.
//! * `ACTIVE` boolean, default true.
//! * `TIMESTAMP` boolean, default true: packets carry the time they were made.
//! * `STOP` boolean, default false: asks the driver to stop when LIMIT is reached.
//! * `END_CALL` `HANDLER [VALUE]`: write handler to call when LIMIT is reached, instead of STOP.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** none; when packet memory is exhausted it waits, and also while all queues that it fills are full.
//!
//! **Handlers**
//! * `count` read: packets made. `reset` write: sets the count to zero and starts again.
//! * `limit`, `burst`, `active`, `length` read/write: the arguments. `burstsize` and `datasize` are older names of
//!   `burst` and `length`.
//!
//! A seeded run makes the same bytes every time.
//!
//! ```click
//! RandomSource(64, LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! See also: InfiniteSource, RandomBitErrors

use element::args::Args;
use element::{Class, Cx, Handler, declare, handlers};
use packet::{HEADROOM, Packet};

use super::unpaced::{Content, Unpaced};
use crate::tools::number;

const HANDLERS: &[Handler] = &declare::joined::<8>(&[
    Unpaced::<Random>::HANDLERS,
    handlers! { Unpaced<Random>:
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text)?;
            source.changed(cx);
        };
        both "burst" => .content.burst |source, cx, burst: usize| source.set_burst(cx, burst);
        both "active" => .active |source, cx, active: bool| {
            source.active = active;
            source.changed(cx);
        };
        both "length" => .content.length |source, cx, text: &str| source.set_length(cx, number("length", text)?);
        both "burstsize" => .content.burst |source, cx, burst: usize| source.set_burst(cx, burst);
        both "datasize" => .content.length |source, cx, text: &str| source.set_length(cx, number("datasize", text)?);
    },
]);

/// The descriptor.
pub const CLASS: Class = Unpaced::<Random>::with_capabilities(
    Class::new("RandomSource", "0/1", || Box::<Unpaced<Random>>::default()).handlers(HANDLERS).file(file!()),
);

/// Random bytes.
#[derive(Default)]
struct Random {
    length: u16,
    burst: usize,
}

impl Unpaced<Random> {
    fn set_burst(&mut self, cx: &mut Cx<'_>, burst: usize) {
        self.content.burst = burst.max(1);
        self.changed(cx);
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, length: u16) {
        self.content.length = length;
        self.changed(cx);
    }
}

impl Content for Random {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.required("LENGTH");
    }

    fn configure_burst(&mut self, args: &mut Args<'_>) {
        self.burst = args.positional("BURST", 1);
        if self.burst == 0 {
            args.error_as("BURST must be at least 1".into(), "burst size must be >= 1".into());
        }
    }

    fn burst(&self, _: &Cx<'_>, room: usize) -> usize {
        self.burst.min(room)
    }

    fn make(&self, cx: &mut Cx<'_>, n: usize, mut each: impl FnMut(Packet)) -> usize {
        let random = cx.random();
        Packet::alloc_bulk(n, HEADROOM, self.length.into(), |mut packet| {
            random.fill(packet.data_mut());
            each(packet);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn makes_random_packets() {
        for text in [
            "e :: RandomSource(600, 5, STOP true) -> o :: TestOut; TimedSource(1) -> Discard;",
            "e :: RandomSource(600, 5, END_CALL stop) -> Unqueue -> o :: TestOut; TimedSource(1) -> Discard;",
        ] {
            let mut run = Rig::text(text).run();
            let out = run.bytes("o");
            assert_eq!((out.len(), run.read("e.count").as_str()), (5, "5"));
            assert!(out.iter().all(|p| p.len() == 600) && out[0] != out[1]);
            let ones: u32 = out.iter().flatten().map(|b| b.count_ones()).sum();
            // Binomial: mean 12000, standard deviation 77.
            assert!((11_500..12_500).contains(&ones), "{ones}");
            assert_eq!(Rig::text(text).run().bytes("o"), out);
        }
    }

    #[test]
    fn refuses_wrong_arguments() {
        let errors = |text: &str| Rig::text(text).errors();
        assert_eq!(errors("e :: RandomSource(70000) -> Discard;").len(), 1);
        assert_eq!(errors("e :: RandomSource(1, BURST 0) -> Discard;"), ["e: BURST must be at least 1"]);
        assert_eq!(
            errors("e :: RandomSource(1, STOP true, END_CALL stop) -> Discard;"),
            ["e: give STOP or END_CALL, not both"]
        );
    }
}
