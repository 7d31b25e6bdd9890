// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherRewrite
//!
//! `EtherRewrite(SRC, DST)`
//!
//! Replaces source and destination of Ethernet frames.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `SRC`, `DST` Ethernet addresses.
//!
//! **Drops:** `too-short`, frames without a whole header.
//!
//! **Handlers**
//! * `src`, `dst` read/write.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> Discard;
//! ```
//!
//! See also: EtherEncap, EtherMirror, StoreEtherAddress

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::Batch;
use wire::MacAddr;

use super::ether_encap::mac_value;

/// The descriptor.
pub const CLASS: Class = Class::new("EtherRewrite", "1/1", || Box::new(EtherRewrite::default()))
    .handlers(handlers! { EtherRewrite:
        both "src" => |element| format!("{:#}", element.src), |element, mac: &str| element.src = mac_value("src", mac)?;
        both "dst" => |element| format!("{:#}", element.dst), |element, mac: &str| element.dst = mac_value("dst", mac)?;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct EtherRewrite {
    src: MacAddr,
    dst: MacAddr,
}

impl Element for EtherRewrite {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.src = args.required("SRC");
        self.dst = args.required("DST");
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut addresses = [0; 12];
        addresses[..6].copy_from_slice(&self.dst.0);
        addresses[6..].copy_from_slice(&self.src.0);
        let rewrite = |p: &mut packet::Packet| {
            let enough = p.len() >= 14;
            if enough && let Some(header) = p.data_mut().first_chunk_mut() {
                *header = addresses;
            }
            enough
        };
        batch.partition(rewrite, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn replaces_both_addresses() {
        for burst in [1, 32] {
            let rig = Rig::new("EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)").burst(burst);
            let mut run = rig.inputs(&[b"ddddddssssssttpayload", b"short"]).run();
            assert_eq!(run.bytes("o0"), [b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01ttpayload"]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
            run.write("e.src", "2:0:0:0:0:7").unwrap();
            assert_eq!(run.read("e.src"), "02-00-00-00-00-07");
        }
    }
}
