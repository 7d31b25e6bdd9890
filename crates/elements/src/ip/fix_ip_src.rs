// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FixIPSrc
//!
//! `FixIPSrc(IPADDR [, keyword ADDRESSES])`
//!
//! Gives packets that ask for it IPADDR as source address: an ICMP error takes the address of the interface by which it
//! leaves (RFC 1812, 4.3.2.4).
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `IPADDR` the interface's address.
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The first IPv4 address that the kernel has
//!   there at the moment takes the place of IPADDR.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata read:** fix-source annotation (cleared once acted upon), network header position.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> FixIPSrc(10.0.0.1) -> Discard;
//! ```
//!
//! See also: ICMPError

use std::net::Ipv4Addr;

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, InitCx};
use packet::{Batch, Packet, anno};

use super::header_mut;
use crate::io::addresses::LinkAddresses;

/// The descriptor.
pub const CLASS: Class = Class::new("FixIPSrc", "1/1", || Box::new(FixIpSrc::default()))
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

pub(crate) struct FixIpSrc {
    address: Ipv4Addr,
    addresses: LinkAddresses,
}

impl Default for FixIpSrc {
    fn default() -> FixIpSrc {
        FixIpSrc { address: Ipv4Addr::UNSPECIFIED, addresses: LinkAddresses::default() }
    }
}

/// The timer for looks at addresses.
const LOOK: u32 = 0;

impl Element for FixIpSrc {
    fn configure(&mut self, args: &mut Args<'_>) {
        let address: Option<Ipv4Addr> = args.positional_opt("IPADDR");
        match address {
            Some(address) => self.address = address,
            None if args.errors().is_empty() => args.missing("IPADDR", "an IPv4 address"),
            None => {}
        }
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if let Some(own) = self.addresses.look(cx, timer).and_then(|all| all.four().next()) {
            self.address = own.addr;
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::DemandZero { at: anno::FIX_IP_SRC, bytes: 1 });
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.iter_mut().for_each(|packet| fix(packet, self.address));
        batch
    }
}

/// Makes `address` the source of a packet that is marked for it, and takes the mark away.
#[inline]
pub(super) fn fix(packet: &mut Packet, address: Ipv4Addr) {
    if packet.anno_u8(anno::FIX_IP_SRC) != 0 {
        packet.set_anno_u8(anno::FIX_IP_SRC, 0);
        if let Some(header) = header_mut(packet) {
            wire::ipv4::HeaderMut::from_chunk(header).rewrite_src(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn rewrites_only_when_asked() {
        let plain = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4);
        let mut marked = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 4);
        marked.set_anno_u8(anno::FIX_IP_SRC, 1);
        let run = Rig::new("FixIPSrc(9.9.9.9)").packets(vec![plain, marked]).run();
        let out = run.out("o0");
        assert_eq!((&out[0].data()[12..16], &out[1].data()[12..16]), (&[1, 2, 3, 4][..], &[9, 9, 9, 9][..]));
        assert!(sealed(out[1].data()) && out[1].anno_u8(anno::FIX_IP_SRC) == 0);
    }

    #[test]
    fn wants_its_address() {
        assert_eq!(Rig::new("FixIPSrc").errors(), ["e: missing argument IPADDR: an IPv4 address"]);
    }
}
