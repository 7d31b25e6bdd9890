// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIP6Address
//!
//! `SetIP6Address(IPADDR)`
//!
//! Sets each packet's destination annotation to a fixed IPv6 address.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `IPADDR` the address.
//!
//! **Metadata set:** destination annotation.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `addr` read/write: the address.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetIP6Address(2001:db8::1) -> Discard;
//! ```
//!
//! See also: GetIP6Address, StoreIP6Address, SetIPAddress

use std::net::Ipv6Addr;

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::{Batch, anno};

use super::Address;

/// The descriptor.
pub const CLASS: Class = Class::new("SetIP6Address", "1/1", || Box::<SetIp6Address>::default())
    .handlers(handlers! { SetIp6Address:
        both "addr" => |element| element.0.0, |element, address: Ipv6Addr| element.0 = Address(address);
    })
    .pure()
    .forwards()
    .file(file!());

#[derive(Default)]
struct SetIp6Address(Address);

impl Element for SetIp6Address {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = args.required("IPADDR");
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let octets = self.0.0.octets();
        batch.iter_mut().for_each(|p| p.set_anno(anno::DST_IP, octets));
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use crate::testing::Rig;

    #[test]
    fn sets_the_annotation() {
        let want: std::net::Ipv6Addr = "2001:db8::9".parse().unwrap();
        for burst in [1, 32] {
            let rig = Rig::new("SetIP6Address(2001:db8::9)").burst(burst);
            let mut run = rig.inputs(&[b"a", b""]).run();
            assert!(run.out("o0").iter().all(|p| p.anno::<16>(anno::DST_IP) == want.octets()));
            run.write("e.addr", "::5").unwrap();
            assert_eq!(run.read("e.addr"), "::5");
            assert!(run.write("e.addr", "1.2.3.4").is_err());
        }
        assert_eq!(Rig::new("SetIP6Address").errors(), ["e: missing argument IPADDR: an IPv6 address"]);
    }
}
