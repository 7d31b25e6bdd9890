// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StoreData
//!
//! `StoreData(OFFSET, DATA [, keywords MASK, GROW])`
//!
//! Overwrites bytes of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `OFFSET` first byte to change, counted from the packet's beginning.
//! * `DATA` what to write there, as far as the packet reaches.
//! * `MASK` bits to change, default all; a mask shorter than DATA leaves the rest of DATA unmasked.
//! * `GROW` boolean, default false: lengthens packets that end before DATA does.
//!
//! **Drops:** `no-memory`, packets that had to grow and for which there was no frame.
//!
//! **Handlers**
//! * `data`, `mask` read/write: the arguments.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> StoreData(12, \<08 00>) -> Discard;
//! ```
//!
//! See also: Strip, Unstrip, SetAnnoByte

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("StoreData", "1/1", || Box::new(StoreData::default()))
    .handlers(handlers! { StoreData:
        both "data" => |element| String::from_utf8_lossy(&element.data).into_owned(),
            |element, text: &str| element.data = lang::config::unquote(text);
        both "mask" => |element| String::from_utf8_lossy(&element.mask).into_owned(),
            |element, text: &str| element.mask = lang::config::unquote(text);
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct StoreData {
    offset: usize,
    data: Vec<u8>,
    mask: Vec<u8>,
    grow: bool,
}

impl StoreData {
    /// Writes; false when the packet had to grow and could not.
    fn store(&self, packet: &mut Packet) -> bool {
        let end = self.offset + self.data.len();
        if self.grow && packet.len() < end {
            let (before, missing) = (packet.len(), end - packet.len());
            let Some(bytes) = packet.put(missing) else { return false };
            bytes[before..].fill(0);
        }
        if packet.len() <= self.offset {
            return true;
        }
        let target = &mut packet.data_mut()[self.offset..];
        if self.mask.is_empty() {
            let n = target.len().min(self.data.len());
            target[..n].copy_from_slice(&self.data[..n]);
            return true;
        }
        let masks = self.mask.iter().copied().chain(std::iter::repeat(0xff));
        for ((byte, data), mask) in target.iter_mut().zip(&self.data).zip(masks) {
            *byte = *byte & !mask | data & mask;
        }
        true
    }
}

impl Element for StoreData {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.required("OFFSET");
        self.data = args.required("DATA");
        self.mask = args.keyword("MASK", Vec::new());
        self.grow = args.keyword("GROW", false);
        if self.offset > 65535 {
            args.error("OFFSET must be at most 65535");
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.store(p), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    fn check(element: &str, want: [&[u8]; 3]) {
        for burst in [1, 32] {
            let run = Rig::new(element).burst(burst).inputs(&[b"abcdef", b"abc", b"a"]).run();
            assert_eq!(run.bytes("o0"), want, "{element}");
        }
    }

    #[test]
    fn stores_what_fits() {
        check("StoreData(2, XY)", [b"abXYef", b"abX", b"a"]);
        check("StoreData(OFFSET 0, DATA \\<00>)", [b"\0bcdef", b"\0bc", b"\0"]);
        check("StoreData(2, XY, GROW true)", [b"abXYef", b"abXY", b"a\0XY"]);
        check("StoreData(0, \\<ff ff>, MASK \\<0f>)", [b"o\xffcdef", b"o\xffc", b"o"]);
    }

    #[test]
    fn copies_are_left_alone() {
        let text = "i :: TestIn -> t :: Tee -> StoreData(0, X) -> o0 :: TestOut; t[1] -> o1 :: TestOut;";
        let run = Rig::text(text).inputs(&[b"ab"]).run();
        assert_eq!((run.bytes("o0"), run.bytes("o1")), (vec![b"Xb".to_vec()], vec![b"ab".to_vec()]));
    }
}
