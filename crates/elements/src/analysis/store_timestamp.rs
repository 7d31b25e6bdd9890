// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StoreTimestamp
//!
//! `StoreTimestamp([OFFSET, keyword TAIL])`
//!
//! Writes each packet's timestamp into its bytes: 4 bytes of seconds, then 4 bytes of nanoseconds, in host byte order.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments** (give exactly one)
//! * `OFFSET` 0 to 65535: where the timestamp begins. Shorter packets are lengthened with zeros.
//! * `TAIL` boolean: appends the timestamp to the packet.
//!
//! **Metadata read:** timestamp.
//!
//! **Drops:** `no-memory`, packets that had to grow and for which there was no frame.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetTimestamp -> StoreTimestamp(TAIL true) -> Discard;
//! ```
//!
//! See also: SetTimestamp, StoreData

use element::args::Args;
use element::clock::SECOND;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class =
    Class::new("StoreTimestamp", "1/1", || Box::new(StoreTimestamp::default())).pure().file(file!());

#[derive(Default)]
struct StoreTimestamp {
    /// `None` for the packet's end.
    offset: Option<usize>,
}

impl StoreTimestamp {
    fn store(&self, packet: &mut Packet) -> Option<()> {
        let time = packet.timestamp_ns();
        let (before, at) = (packet.len(), self.offset.unwrap_or(packet.len()));
        let missing = (at + 8).saturating_sub(before);
        let bytes = if missing > 0 { packet.put(missing)? } else { packet.data_mut() };
        if missing > 0 {
            bytes[before..].fill(0);
        }
        let (seconds, rest) = ((time / SECOND) as u32, (time % SECOND) as u32);
        bytes[at..at + 4].copy_from_slice(&seconds.to_ne_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&rest.to_ne_bytes());
        Some(())
    }
}

impl Element for StoreTimestamp {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.positional_opt::<u16>("OFFSET").map(usize::from);
        let tail = args.keyword("TAIL", false);
        if args.errors().is_empty() && tail == self.offset.is_some() {
            args.error_as(
                "give exactly one of OFFSET and TAIL".into(),
                "supply exactly one of 'OFFSET' and 'TAIL'".into(),
            );
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.store(p).is_some(), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn stores_and_grows() {
        let stamp: Vec<u8> = [3u32.to_ne_bytes(), 250_000_000u32.to_ne_bytes()].concat();
        for (element, want) in [
            ("StoreTimestamp(1)", [&b"a"[..], &stamp].concat()),
            ("StoreTimestamp(OFFSET 6)", [&b"abcd\0\0"[..], &stamp].concat()),
            ("StoreTimestamp(TAIL true)", [&b"abcd"[..], &stamp].concat()),
        ] {
            for burst in [1, 32] {
                let text = format!("i :: TestIn -> SetTimestamp(3.25) -> {element} -> o :: TestOut;");
                let run = Rig::text(&text).burst(burst).inputs(&[b"abcd", b"abcd"]).run();
                assert_eq!(run.bytes("o"), [want.clone(), want.clone()], "{element}");
            }
        }
    }

    #[test]
    fn one_place_must_be_given() {
        for element in ["StoreTimestamp", "StoreTimestamp(1, TAIL true)"] {
            assert_eq!(Rig::new(element).errors(), ["e: give exactly one of OFFSET and TAIL"]);
        }
    }
}
