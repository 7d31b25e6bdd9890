// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIPAddress
//!
//! `SetIPAddress(IPADDR [, ANNO])`
//!
//! Sets each packet's destination annotation to a fixed address.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `IPADDR` the address.
//! * `ANNO` offset of the 4-byte annotation, default 0 (the destination annotation).
//!
//! **Metadata set:** destination annotation, or the one at ANNO.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `addr` read/write: the address.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetIPAddress(10.0.0.1) -> Discard;
//! ```
//!
//! See also: GetIPAddress, StoreIPAddress

use std::net::Ipv4Addr;

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::{Batch, anno};

use super::Address;
use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("SetIPAddress", "1/1", || Box::new(SetIpAddress::default()))
    .handlers(handlers! { SetIpAddress:
        both "addr" => .address.0 |element, address: Ipv4Addr| element.address = Address(address);
    })
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

#[derive(Default)]
struct SetIpAddress {
    address: Address,
    anno: usize,
}

impl Element for SetIpAddress {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.address = args.required("IPADDR");
        self.anno = args.positional("ANNO", Anno::<4>(anno::DST_IP)).0;
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (at, octets) = (self.anno, self.address.0.octets());
        batch.iter_mut().for_each(|p| p.set_anno(at, octets));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn sets_the_annotation() {
        let mut run = Rig::new("SetIPAddress(1.2.3.4)").inputs(&[b"a", b"b"]).run();
        assert!(run.out("o0").iter().all(|p| p.dst_ip() == [1, 2, 3, 4]));
        run.write("e.addr", "5.6.7.8").unwrap();
        assert_eq!(run.read("e.addr"), "5.6.7.8");
        let run = Rig::new("SetIPAddress(1.2.3.4, 20)").inputs(&[b"a"]).run();
        assert_eq!(run.out("o0")[0].anno::<4>(20), [1, 2, 3, 4]);
    }

    #[test]
    fn wants_its_address() {
        assert_eq!(Rig::new("SetIPAddress").errors(), ["e: missing argument IPADDR: an IPv4 address"]);
    }
}
