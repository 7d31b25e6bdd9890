// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StripToNetworkHeader
//!
//! `StripToNetworkHeader`
//!
//! Removes what lies before the network header, or brings a stripped network header back.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** `too-short`, packets whose network header is not marked or lies outside the packet's frame.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> StripToNetworkHeader -> Discard;
//! ```
//!
//! See also: Strip, Unstrip, MarkIPHeader

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class =
    Class::new("StripToNetworkHeader", "1/1", || Box::new(StripToNetworkHeader)).pure().file(file!());

struct StripToNetworkHeader;

fn strip(packet: &mut Packet) -> bool {
    let Some(offset) = packet.network_offset() else { return false };
    match usize::try_from(offset) {
        Ok(n) if n <= packet.len() => packet.strip(n),
        Ok(_) => return false,
        Err(_) => return packet.unstrip(offset.unsigned_abs() as usize),
    }
    true
}

impl Element for StripToNetworkHeader {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(strip, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn forwards_and_backwards() {
        for burst in [1, 32] {
            let mut ahead = Packet::copy_of(b"abcd").unwrap();
            ahead.set_network(2, 1);
            let mut behind = Packet::copy_of(b"wxyz").unwrap();
            behind.set_network(1, 1);
            behind.strip(3);
            let mut beyond = Packet::copy_of(b"abcd").unwrap();
            beyond.set_network(6, 1);
            let unset = Packet::copy_of(b"q").unwrap();
            let packets = vec![ahead, behind, beyond, unset];
            let run = Rig::new("StripToNetworkHeader").burst(burst).packets(packets).run();
            assert_eq!(run.bytes("o0"), [&b"cd"[..], b"xyz"]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 2)]);
        }
    }
}
