// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIPDSCP, SetIPECN
//!
//! `SetIPDSCP(DSCP)`, `SetIPECN(ECN)`
//!
//! Sets the differentiated services code point (the congestion notification bits) of IP packets and updates the header checksum.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `DSCP` 0 to 63.
//! * `ECN` 0 to 3, or `no` (0), `ect1` (1), `ect2` (2), `ce` (3).
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** none; packets without IP header pass unchanged.
//!
//! **Handlers**
//! * `dscp` (`ecn`) read/write: the argument.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> SetIPDSCP(46) -> Discard;
//! ```
//!
//! See also: CheckIPHeader. RFC 1624, RFC 2474, RFC 3168

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, handlers};
use packet::Batch;

use super::header_mut;

/// The descriptor of the element that sets the code point.
pub const DSCP: Class = Class::new("SetIPDSCP", "1/1", || Box::new(SetTos { keep: 0x03, set: 0 }))
    .handlers(handlers! { SetTos:
        both "dscp".argument(Some(0), "DSCP") => |tos| tos.set >> 2, |tos, dscp: Dscp| tos.set = dscp.0 << 2;
    })
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

/// The descriptor of the element that sets the congestion bits.
pub const ECN: Class = Class::new("SetIPECN", "1/1", || Box::new(SetTos { keep: 0xfc, set: 0 }))
    .handlers(handlers! { SetTos:
        both "ecn".argument(Some(0), "ECN") => .set |tos, ecn: Ecn| tos.set = ecn.0;
    })
    .pure()
    .forwards()
    .file(file!());

/// Sets some bits of the type-of-service byte.
struct SetTos {
    keep: u8,
    set: u8,
}

#[derive(Default)]
struct Dscp(u8);

impl FromArg for Dscp {
    const EXPECTED: &'static str = "a code point from 0 to 63";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        u8::from_arg(text, names).ok().filter(|n| *n < 64).map(Dscp).ok_or_else(String::new)
    }
}

#[derive(Default)]
struct Ecn(u8);

impl FromArg for Ecn {
    const EXPECTED: &'static str = "no, ect1, ect2, ce or 0 to 3";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        match text {
            "no" | "-" => Ok(Ecn(0)),
            "ect1" => Ok(Ecn(1)),
            "ect2" => Ok(Ecn(2)),
            "ce" => Ok(Ecn(3)),
            _ => u8::from_arg(text, names).ok().filter(|n| *n < 4).map(Ecn).ok_or_else(String::new),
        }
    }
}

impl SetTos {
    fn is_dscp(&self) -> bool {
        self.keep == 0x03
    }
}

impl Element for SetTos {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.set = match self.is_dscp() {
            true => args.required::<Dscp>("DSCP").0 << 2,
            false => args.required::<Ecn>("ECN").0,
        };
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            if let Some(header) = header_mut(packet) {
                let tos = header[1] & self.keep | self.set;
                wire::ipv4::HeaderMut::from_chunk(header).rewrite_tos(tos);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, seal, sealed};
    use crate::testing::Rig;

    #[test]
    fn sets_its_bits_only() {
        for (config, tos) in [("SetIPDSCP(46)", 46 << 2 | 1), ("SetIPECN(ce)", 0x17), ("SetIPECN(0)", 0x14)] {
            for burst in [1, 32] {
                let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 3);
                p.data_mut()[1] = 0x15;
                seal(p.data_mut());
                let run = Rig::new(config).burst(burst).packets(vec![p]).run();
                let out = &run.bytes("o0")[0];
                assert!(out[1] == tos && sealed(out), "{config}");
            }
        }
    }

    #[test]
    fn arguments() {
        let error = "e: argument DSCP should be a code point from 0 to 63, not '64'";
        assert_eq!(Rig::new("SetIPDSCP(64)").errors(), [error]);
        let error = "e: argument ECN should be no, ect1, ect2, ce or 0 to 3, not 'x'";
        assert_eq!(Rig::new("SetIPECN(x)").errors(), [error]);
        let mut run = Rig::new("SetIPDSCP(1)").run();
        run.write("e.dscp", "7").unwrap();
        assert_eq!(run.read("e.dscp"), "7");
    }
}
