// SPDX-License-Identifier: MIT OR Apache-2.0
//! # GetIPAddress
//!
//! `GetIPAddress([OFFSET, ANNO, keyword IP])`
//!
//! Copies an IPv4 address from the packet into its destination annotation, which routing elements look at.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `OFFSET` byte offset of the address from the packet's start; usually 16, the destination of an IP packet.
//! * `IP` `src` or `dst`: takes the address from the marked IP header instead.
//! * `ANNO` offset of the annotation, default 0 (the destination annotation).
//!
//! **Metadata set:** destination annotation. **Read:** network header position, with `IP`.
//!
//! **Drops:** none; packets too short to hold the address pass with their annotation cleared.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> GetIPAddress(16) -> Discard;
//! ```
//!
//! See also: StaticIPLookup, CheckIPHeader

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element};
use packet::{Batch, anno};

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class =
    Class::new("GetIPAddress", "1/1", || Box::new(GetIpAddress::default())).pure().forwards().file(file!());

#[derive(Default)]
pub(crate) struct GetIpAddress {
    offset: usize,
    from_header: bool,
    anno: usize,
}

impl Element for GetIpAddress {
    fn configure(&mut self, args: &mut Args<'_>) {
        let offset: Option<usize> = args.positional_opt("OFFSET");
        let ip: Option<String> = args.keyword_opt("IP");
        self.anno = args.positional("ANNO", Anno::<4>(anno::DST_IP)).0;
        self.from_header = ip.is_some();
        match (offset, ip.as_deref()) {
            (Some(offset), None) if offset <= 65535 => self.offset = offset,
            (None, Some("src")) => self.offset = 12,
            (None, Some("dst")) => self.offset = 16,
            (None, None) if !args.errors().is_empty() => {}
            (None, None) => args.missing("OFFSET", "a whole number"),
            _ => args.error("expected OFFSET up to 65535, or IP src, or IP dst"),
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        let from_data = !self.from_header && self.anno == anno::DST_IP;
        program.add(if from_data { Op::Destination(self.offset) } else { Op::Other });
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (offset, at) = (self.offset, self.anno);
        for packet in batch.iter_mut() {
            let bytes = if self.from_header { packet.network().unwrap_or(&[]) } else { packet.data() };
            let address = bytes.get(offset..).and_then(|b| b.first_chunk::<4>());
            let address = address.copied().unwrap_or_default();
            packet.set_anno(at, address);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn copies_the_address() {
        let run = Rig::new("GetIPAddress(2)").inputs(&[&[0, 0, 10, 1, 2, 3], &[1]]).run();
        let got: Vec<_> = run.out("o0").iter().map(|p| p.dst_ip()).collect();
        assert_eq!(got, [[10, 1, 2, 3], [0; 4]]);
    }

    #[test]
    fn wants_an_offset() {
        assert_eq!(Rig::new("GetIPAddress").errors(), ["e: missing argument OFFSET: a whole number"]);
        assert_eq!(
            Rig::new("GetIPAddress(16, IP dst)").errors(),
            ["e: expected OFFSET up to 65535, or IP src, or IP dst"]
        );
    }
}
