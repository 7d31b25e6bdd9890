// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherEncap
//!
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! Puts an Ethernet header in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ETHERTYPE` number from 0 to 65535; `0x0800` is IPv4.
//! * `SRC`, `DST` Ethernet addresses.
//!
//! **Metadata set:** link header position.
//!
//! **Drops:** `no-memory`, packets without headroom when packet memory is exhausted.
//!
//! **Handlers**
//! * `ethertype`, `src`, `dst` read/write: the arguments; the type reads as a decimal number. `etht` is the former name
//!   of `ethertype`.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Discard;
//! ```
//!
//! See also: EtherVLANEncap, ARPQuerier, EtherRewrite

use element::args::{Args, FromArg};
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, HandlerError, Reason, handlers};
use packet::Batch;
use wire::MacAddr;
use wire::ethernet::{EtherType, HEADER_LEN, Repr};

use super::prepend;

/// The descriptor.
pub const CLASS: Class = Class::new("EtherEncap", "1/1", || Box::new(EtherEncap::default()))
    .handlers(handlers! { EtherEncap:
        both "ethertype".argument(Some(0), "ETHERTYPE") => .ethertype |encap, ethertype: u16| {
            encap.ethertype = ethertype;
            encap.set_header();
        };
        both "etht".argument(Some(0), "ETHERTYPE") => .ethertype |encap, ethertype: u16| {
            encap.ethertype = ethertype;
            encap.set_header();
        };
        both "src".argument(Some(1), "SRC") => |encap| format!("{:#}", encap.src), |encap, mac: &str| {
            encap.src = mac_value("src", mac)?;
            encap.set_header();
        };
        both "dst".argument(Some(2), "DST") => |encap| format!("{:#}", encap.dst), |encap, mac: &str| {
            encap.dst = mac_value("dst", mac)?;
            encap.set_header();
        };
    })
    .pure()
    .reconfigurable()
    .file(file!());

#[derive(Default)]
pub(crate) struct EtherEncap {
    ethertype: u16,
    src: MacAddr,
    dst: MacAddr,
    header: [u8; HEADER_LEN],
}

impl EtherEncap {
    fn set_header(&mut self) {
        let EtherEncap { ethertype, src, dst, .. } = *self;
        self.header = Repr { dst, src, ethertype: EtherType(ethertype) }.to_bytes();
    }
}

/// Reads an Ethernet address given to a handler.
pub(super) fn mac_value(name: &str, value: &str) -> Result<MacAddr, HandlerError> {
    MacAddr::from_arg(value.trim(), &Default::default())
        .map_err(|_| HandlerError::bad_value(name, value.trim(), MacAddr::EXPECTED))
}

impl Element for EtherEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ethertype = args.required("ETHERTYPE");
        self.src = args.required("SRC");
        self.dst = args.required("DST");
        self.set_header();
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Link(self.header));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| prepend(p, &self.header), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn puts_the_header_in_front() {
        for burst in [1, 32] {
            let rig = Rig::new("EtherEncap(0x0800, 2:0:0:0:0:1, 02-00-00-00-00-02)").burst(burst);
            let mut run = rig.inputs(&[b"abc", b""]).run();
            let header = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0";
            let out = run.out("o0");
            assert_eq!(out[0].data(), [&header[..], b"abc"].concat());
            assert_eq!((out[0].mac_offset(), out[1].data()), (Some(0), &header[..]));
            assert_eq!(
                (run.read("e.src").as_str(), run.read("e.ethertype").as_str()),
                ("02-00-00-00-00-01", "2048")
            );
            run.write("e.dst", "ff:ff:ff:ff:ff:ff").unwrap();
            assert!(run.write("e.dst", "ff:ff").is_err() && run.write("e.ethertype", "70000").is_err());
            assert_eq!(run.read("e.dst"), "FF-FF-FF-FF-FF-FF");
        }
    }

    #[test]
    fn wants_its_arguments() {
        let errors = Rig::new("EtherEncap(0x10000, x)").errors();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }
}
