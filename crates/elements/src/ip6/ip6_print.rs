// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Print
//!
//! `IP6Print([LABEL, keywords CONTENTS, NBYTES])`
//!
//! Prints a line about each IPv6 packet: addresses, payload length, next header and hop limit.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LABEL` text before each line, default none.
//! * `CONTENTS` boolean, default false: print the packet's bytes too, in hexadecimal, 24 to a line.
//! * `NBYTES` at most so many bytes of them, default 1500.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** none; of packets without marked IPv6 header the line says so.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> IP6Print(in) -> Discard;
//! ```
//!
//! See also: IPPrint, Print, CheckIP6Header

use std::fmt::Write;

use element::args::Args;
use element::{Class, Cx, Element, Rehearsal};
use packet::{Batch, Packet};

use super::{destination, header, source};

/// The descriptor.
pub const CLASS: Class = Class::new("IP6Print", "1/1", || Box::<Ip6Print>::default())
    .forwards()
    .rehearsal::<Ip6Print>()
    .file(file!());

#[derive(Clone, Default)]
struct Ip6Print {
    label: String,
    contents: bool,
    max_bytes: usize,
}

impl Ip6Print {
    fn text(&self, packet: &Packet) -> String {
        let mut text = String::new();
        if !self.label.is_empty() {
            text = format!("{}: ", self.label);
        }
        match header(packet) {
            Some(h) => {
                let payload_len = u16::from_be_bytes([h[4], h[5]]);
                let (src, dst) = (source(h), destination(h));
                _ = write!(text, "{src} -> {dst} plen {payload_len}, next {}, hlim {}", h[6], h[7]);
            }
            None => text += "(not an IP6 packet)",
        }
        if self.contents {
            let shown = &packet.data()[..packet.len().min(self.max_bytes)];
            for line in shown.chunks(24) {
                let words = line.chunks(4).map(|w| w.iter().map(|b| format!("{b:02x}")).collect::<String>());
                _ = write!(text, "\n  {}", words.collect::<Vec<_>>().join(" "));
            }
        }
        text
    }
}

impl Element for Ip6Print {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.label = args.positional("LABEL", String::new());
        self.contents = args.keyword("CONTENTS", false);
        self.max_bytes = args.keyword("NBYTES", 1500);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        batch.iter().for_each(|p| cx.print(&self.text(p)));
        batch
    }
}

impl Rehearsal for Ip6Print {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::packet;
    use crate::testing::Rig;

    #[test]
    fn prints_lines() {
        let check = |config: &str, want: &str| {
            for burst in [1, 32] {
                let packets = vec![
                    packet("2001:db8::1", "ff02::1", 58, 255, &[1, 2, 3, 4, 5]),
                    packet::Packet::copy_of(b"xyz").unwrap(),
                ];
                let run = Rig::new(config).burst(burst).packets(packets).run();
                assert_eq!((run.printed().as_str(), run.out("o0").len()), (want, 2), "{config}");
            }
        };
        check("IP6Print", "2001:db8::1 -> ff02::1 plen 5, next 58, hlim 255\n(not an IP6 packet)\n");
        check(
            "IP6Print(a, CONTENTS true, NBYTES 43)",
            "a: 2001:db8::1 -> ff02::1 plen 5, next 58, hlim 255\n  \
             60000000 00053aff 20010db8 00000000 00000000 00000001\n  \
             ff020000 00000000 00000000 00000001 010203\n\
             a: (not an IP6 packet)\n  78797a\n",
        );
        assert_eq!(Rig::new("IP6Print(a, b)").errors(), ["e: too many arguments: 'b'"]);
    }
}
