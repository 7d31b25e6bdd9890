// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EnsureEther
//!
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! Makes sure that IP packets have an Ethernet header in front. Those that have one pass as they are; where one was
//! stripped off it is taken back; others get the header in the arguments, in place of what precedes their IP header.
//! Packets without marked IP header pass as they are.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ETHERTYPE` number from 0 to 65535, default 0x0800 (IPv4).
//! * `SRC`, `DST` Ethernet addresses, defaults 1:1:1:1:1:1 and 2:2:2:2:2:2.
//!
//! **Metadata read:** network header position. **Set:** link header position, with a new header.
//!
//! **Drops:** `no-memory`; `too-short`, packets that end before their marked IP header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> EnsureEther(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Discard;
//! ```
//!
//! See also: EtherEncap, EtherRewrite

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};
use wire::MacAddr;
use wire::ethernet::{EtherType, HEADER_LEN, Repr};

use super::prepend;

/// The descriptor.
pub const CLASS: Class =
    Class::new("EnsureEther", "1/1", || Box::new(EnsureEther::default())).pure().file(file!());

#[derive(Default)]
struct EnsureEther {
    header: [u8; HEADER_LEN],
}

/// Whether a packet begins with an Ethernet header that announces IP.
fn announces_ip(packet: &Packet) -> bool {
    let kind = packet.data().get(12..).and_then(<[u8]>::first_chunk::<2>);
    matches!(kind, Some([0x08, 0x00] | [0x86, 0xdd]))
}

impl EnsureEther {
    fn ensure(&self, packet: &mut Packet) -> Result<(), Reason> {
        let Some(at) = packet.network_offset().and_then(|at| usize::try_from(at).ok()) else { return Ok(()) };
        if at == HEADER_LEN && announces_ip(packet) {
            return Ok(());
        }
        if at > packet.len() {
            return Err(Reason::TooShort);
        }
        if at == 0 && packet.unstrip(HEADER_LEN) {
            if announces_ip(packet) {
                return Ok(());
            }
            packet.strip(HEADER_LEN);
        }
        packet.strip(at);
        if prepend(packet, &self.header) { Ok(()) } else { Err(Reason::NoMemory) }
    }
}

impl Element for EnsureEther {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ethertype = EtherType(args.positional("ETHERTYPE", EtherType::IPV4.0));
        let src = args.positional("SRC", MacAddr([1; 6]));
        let dst = args.positional("DST", MacAddr([2; 6]));
        self.header = Repr { dst, src, ethertype }.to_bytes();
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let found = std::cell::Cell::new(Reason::NoMemory);
        let ensure = |p: &mut Packet| self.ensure(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(ensure, |p| cx.drop(found.get(), p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const DEFAULT: &[u8] = b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\0";

    /// What becomes of a packet of these bytes whose network header is marked at `at`, after `strip` bytes were
    /// stripped off.
    fn check(args: &str, bytes: &[u8], strip: usize, at: Option<i32>, want: &[u8]) {
        for burst in [1, 32] {
            let mut packet = Packet::copy_of(bytes).unwrap();
            packet.strip(strip);
            if let Some(at) = at {
                packet.set_network_offset(at);
            }
            let rig = Rig::new(&format!("EnsureEther({args})")).burst(burst).packets(vec![packet]);
            assert_eq!(rig.run().bytes("o0"), [want], "{args} {bytes:?} {strip} {at:?}");
        }
    }

    #[test]
    fn keeps_restores_or_adds_the_header() {
        let frame = |kind: &[u8; 2]| [&b"ddddddssssss"[..], kind, b"ip"].concat();
        let new = [DEFAULT, b"ip"].concat();
        for kind in [b"\x08\0", b"\x86\xdd"] {
            check("", &frame(kind), 0, Some(14), &frame(kind));
            check("", &frame(kind), 14, Some(0), &frame(kind));
        }
        check("", &frame(b"\x08\x06"), 0, Some(14), &new);
        check("", &frame(b"\x08\x06"), 14, Some(0), &new);
        check("", b"1234ip", 0, Some(4), &new);
        check("", b"ip", 0, None, b"ip");
        check("", b"ip", 0, Some(-1), b"ip");
        let mine = [&b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\x06"[..], b"ip"].concat();
        check("0x0806, 2:0:0:0:0:1, 2:0:0:0:0:2", b"ip", 0, Some(0), &mine);
    }

    #[test]
    fn a_mark_beyond_the_packet_and_bad_arguments() {
        let mut packet = Packet::copy_of(b"ip").unwrap();
        packet.set_network_offset(5);
        let run = Rig::new("EnsureEther").packets(vec![packet]).run();
        assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
        assert_eq!(Rig::new("EnsureEther(65536, x)").errors().len(), 2);
    }
}
