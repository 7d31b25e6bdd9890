// SPDX-License-Identifier: MIT OR Apache-2.0
//! # InfiniteSource
//!
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, keywords LENGTH, DATASIZE, TIMESTAMP, STOP, END_CALL])`
//!
//! Makes packets with the same content as fast as they are taken.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked.
//!
//! **Arguments**
//! * `DATA` content, default "Random bullshit in a packet, at least 64 bytes long. Well, now it is."
//! * `LIMIT` packets in all, default -1: no limit.
//! * `BURST` packets per run of its task, default the router's burst.
//! * `ACTIVE` boolean, default true.
//! * `LENGTH` bytes of each packet: DATA is repeated or cut to fit. `DATASIZE` is a synonym.
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
//! * `data`, `limit`, `burst`, `active`, `length` read/write: the arguments. `burstsize` and `datasize` are older names of
//!   `burst` and `length`. A length that is not set reads as -1.
//!
//! ```click
//! InfiniteSource("\<00 01 02>", LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! See also: RatedSource, TimedSource, FastUDPSource

use element::args::Args;
use element::{Class, Cx, Handler, HandlerError, Policy, declare, handlers};
use packet::{HEADROOM, Packet};

use crate::source::unpaced::{Content, Unpaced};
use crate::source::{DEFAULT_DATA, fitted};
use crate::tools::{self, boolean, number};

const HANDLERS: &[Handler] = &declare::joined::<9>(&[
    Unpaced::<Repeated>::HANDLERS,
    handlers! { Unpaced<Repeated>:
        both "data" => |source| String::from_utf8_lossy(&source.content.data).into_owned(), |source, cx, text: &str| {
            source.content.data = tools::content_value(text);
            source.content.fit();
            source.changed(cx);
        };
        both "limit" => .limit |source, cx, text: &str| {
            source.limit = number("limit", text).map_err(|e| e.said_as("limit parameter must be integer"))?;
            source.changed(cx);
        };
        both "burst" => |source, cx| source.content.show_burst(cx), |source, cx, text: &str| source.set_burst(cx, "burst", text)?;
        both "active" => .active |source, cx, text: &str| {
            source.active = boolean("active", text).map_err(|e| e.said_as("active parameter must be boolean"))?;
            source.changed(cx);
        };
        both "length" => |source| source.content.show_length(), |source, cx, text: &str| source.set_length(cx, "length", text)?;
        both "burstsize" => |source, cx| source.content.show_burst(cx), |source, cx, text: &str| source.set_burst(cx, "burstsize", text)?;
        both "datasize" => |source| source.content.show_length(), |source, cx, text: &str| source.set_length(cx, "datasize", text)?;
    },
]);

/// The descriptor.
pub const CLASS: Class = Unpaced::<Repeated>::with_capabilities(
    Class::new("InfiniteSource", "0/1", || Box::<Unpaced<Repeated>>::default())
        .handlers(HANDLERS)
        .file(file!()),
);

/// The same in each packet.
#[derive(Default)]
struct Repeated {
    data: Vec<u8>,
    length: Option<usize>,
    /// The data, as long as packets are.
    bytes: Vec<u8>,
    /// Zero for the router's.
    burst: i32,
}

impl Repeated {
    fn fit(&mut self) {
        self.bytes = fitted(&self.data, self.length);
    }

    fn show_burst(&self, cx: &Cx<'_>) -> String {
        if self.burst == 0 { cx.burst().to_string() } else { self.burst.to_string() }
    }

    fn show_length(&self) -> String {
        self.length.map_or("-1".into(), |l| l.to_string())
    }
}

impl Unpaced<Repeated> {
    fn set_burst(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        let said = "burstsize parameter must be integer >= 1";
        self.content.burst = number(name, text).map_err(|e| e.said_as(said))?;
        if self.content.burst == 0 && Policy::of_process().as_click {
            self.content.burst = 1;
            return Err(HandlerError::failed(said));
        }
        self.changed(cx);
        Ok(())
    }

    fn set_length(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        let length = number::<i32>(name, text).map_err(|e| e.said_as("length must be integer"))?;
        self.content.length = usize::try_from(length).ok().map(|l| l.min(65535));
        self.content.fit();
        self.changed(cx);
        Ok(())
    }
}

impl Content for Repeated {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.data = args.positional("DATA", DEFAULT_DATA.as_bytes().to_vec());
    }

    fn configure_keywords(&mut self, args: &mut Args<'_>) {
        self.length = args.keyword_opt("LENGTH").or(args.keyword_opt("DATASIZE"));
        if self.length.is_some_and(|l| l > 65535) {
            args.error("LENGTH must be at most 65535 bytes");
            self.length = None;
        }
        self.fit();
    }

    fn configure_burst(&mut self, args: &mut Args<'_>) {
        let burst = args.positional_opt("BURST");
        self.burst = burst.unwrap_or(0);
        if burst == Some(0) && Policy::of_process().as_click {
            args.error("burst size must be >= 1");
        }
    }

    fn burst(&self, cx: &Cx<'_>, room: usize) -> usize {
        match usize::try_from(self.burst) {
            // A burst that somebody asked for leaves whole, as in Click.
            Ok(burst) if burst > 0 => burst,
            _ => cx.burst().min(room),
        }
    }

    fn make(&self, _: &mut Cx<'_>, n: usize, mut each: impl FnMut(Packet)) -> usize {
        Packet::alloc_bulk(n, HEADROOM, self.bytes.len(), |mut packet| {
            packet.data_mut().copy_from_slice(&self.bytes);
            each(packet);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn makes_packets_up_to_its_limit_and_stops() {
        for burst in [1, 32] {
            let mut run =
                Rig::text("e :: InfiniteSource(abc, 5, 2, STOP true) -> o :: TestOut;").burst(burst).run();
            assert_eq!(run.bytes("o"), [b"abc"; 5]);
            assert_eq!(run.read("e.count"), "5");
        }
    }

    #[test]
    fn answers_pulls() {
        let run =
            Rig::text("e :: InfiniteSource(DATA \\<0102>, LIMIT 3, LENGTH 5) -> Unqueue -> o :: TestOut;")
                .run();
        assert_eq!(run.bytes("o"), [[1, 2, 1, 2, 1]; 3]);
    }

    #[test]
    fn waits_while_its_queues_are_full() {
        let text = "e :: InfiniteSource(LIMIT 50) -> Null -> q :: Queue(7) -> RatedUnqueue(10) -> c :: Counter -> Discard;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).run();
            assert_eq!((run.read("c.count"), run.read("q.drops")), ("50".into(), "0".into()));
        }
    }

    #[test]
    fn refuses_what_no_packet_can_hold() {
        assert_eq!(
            Rig::text("e :: InfiniteSource(LENGTH 70000) -> Discard;").errors(),
            ["e: LENGTH must be at most 65535 bytes"]
        );
    }
}
