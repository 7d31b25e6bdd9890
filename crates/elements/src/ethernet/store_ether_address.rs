// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StoreEtherAddress
//!
//! `StoreEtherAddress(ADDR, OFFSET)`
//! `StoreEtherAddress(OFFSET offset, ANNO annotation)`
//!
//! Writes an Ethernet address into packets.
//!
//! **Ports:** 1 input, 1 output, agnostic; optionally output 1, push.
//!
//! **Arguments**
//! * `ADDR` the Ethernet address.
//! * `OFFSET` where, in bytes from the packet's first; `src` and `dst` are the places in an Ethernet header.
//! * `ANNO` instead of ADDR: offset of the six annotation bytes that hold the address.
//!
//! **Drops:** `too-short`, packets that end before the address would. They leave by output 1 where it is connected.
//!
//! **Handlers**
//! * `addr` read/write.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> StoreEtherAddress(2:0:0:0:0:1, src) -> Discard;
//! ```
//!
//! See also: EtherRewrite, StoreIPAddress

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers, parse_integer};
use packet::Batch;
use wire::MacAddr;

use super::ether_encap::mac_value;
use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("StoreEtherAddress", "1/1-2", || Box::new(StoreEtherAddress::default()))
    .processing("a/ah")
    .handlers(handlers! { StoreEtherAddress:
        both "addr" => |element| format!("{:#}", element.addr), |element, mac: &str| element.addr = mac_value("addr", mac)?;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct StoreEtherAddress {
    addr: MacAddr,
    anno: Option<usize>,
    offset: usize,
}

impl Element for StoreEtherAddress {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.anno = args.keyword_opt::<Anno<6>>("ANNO").map(|anno| anno.0);
        let addr: Option<MacAddr> = args.positional_opt("ADDR");
        if addr.is_some() == self.anno.is_some() && args.errors().is_empty() {
            args.error("give ADDR, an Ethernet address, or ANNO");
        }
        self.addr = addr.unwrap_or_default();
        let offset: String = args.required("OFFSET");
        match offset.to_ascii_lowercase().as_str() {
            "dst" | "" => self.offset = 0,
            "src" => self.offset = 6,
            number => match parse_integer(number).map(usize::try_from) {
                Some(Ok(offset)) => self.offset = offset,
                _ => args.error(format!(
                    "argument OFFSET should be a number of bytes, src or dst, not '{number}'"
                )),
            },
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (addr, from, offset) = (self.addr.0, self.anno, self.offset);
        let store = |p: &mut packet::Packet| {
            let addr = from.map_or(addr, |at| p.anno(at));
            let enough = offset.checked_add(6).is_some_and(|end| end <= p.len());
            if enough && let Some(place) = p.data_mut()[offset..].first_chunk_mut() {
                *place = addr;
            }
            enough
        };
        batch.partition(store, |p| cx.push_one_or_drop(1, p, Reason::TooShort));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn writes_where_it_is_told() {
        for (offset, want) in [
            ("dst", *b"\x02\0\0\0\0\x01bbbbbb"),
            ("src", *b"aaaaaa\x02\0\0\0\0\x01"),
            ("3", *b"aaa\x02\0\0\0\0\x01bbb"),
        ] {
            let rig = Rig::new(&format!("StoreEtherAddress(2:0:0:0:0:1, {offset})"));
            let run = rig.inputs(&[b"aaaaaabbbbbb", b"short"]).run();
            assert_eq!(run.bytes("o0"), [want], "{offset}");
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
        }
        let mut packet = packet::Packet::copy_of(b"aaaaaabbbbbb").unwrap();
        packet.set_anno(20, *b"\x02\0\0\0\0\x09");
        let run = Rig::new("StoreEtherAddress(OFFSET SRC, ANNO 20)").packets(vec![packet]).run();
        assert_eq!(run.bytes("o0"), [b"aaaaaa\x02\0\0\0\0\x09"]);
        let both = Rig::new("StoreEtherAddress(2:0:0:0:0:1, src, ANNO 20)").errors();
        assert_eq!(both, ["e: give ADDR, an Ethernet address, or ANNO"]);
        let errors = Rig::new("StoreEtherAddress(2:0:0:0:0:1, -1)").errors();
        assert_eq!(errors, ["e: argument OFFSET should be a number of bytes, src or dst, not '-1'"]);
    }
}
