// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPInputCombo
//!
//! `IPInputCombo(COLOR [, BADSRC, keywords INTERFACES, BADSRC, GOODDST])`
//!
//! The input path of an IP router in one element: it does the work of
//! `Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `COLOR` 0 to 255, the paint of the packets.
//! * `BADSRC` addresses that must not be sources. By position, 0.0.0.0 and 255.255.255.255 are added to them.
//! * `INTERFACES`, `GOODDST` as for CheckIPHeader.
//!
//! **Metadata set:** paint; network and transport header position; destination annotation.
//!
//! **Drops:** `too-short`, `bad-version`, `bad-header-length`, `bad-length`, `bad-checksum`, `bad-source`.
//!
//! **Handlers**
//! * `drops` read: invalid packets.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> IPInputCombo(1, INTERFACES 10.0.0.1/24) -> Discard;
//! ```
//!
//! See also: Paint, Strip, CheckIPHeader, GetIPAddress, IPOutputCombo. RFC 791, RFC 1812

use std::cell::Cell;

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, Reason, carries, handlers};
use packet::{Batch, Packet};

use super::check_ip_header::{Faults, Rules};

/// The descriptor.
pub const CLASS: Class = Class::new("IPInputCombo", "1/1", || {
    Box::new(IpInputCombo { color: 0, rules: Rules::new(true), faults: Faults::default() })
})
.handlers(handlers! { IpInputCombo:
    sum "drops" => |combo| combo.faults.count();
})
.pure()
.hot_swap::<IpInputCombo>()
.file(file!());

/// Length of the link header.
const LINK: usize = 14;

struct IpInputCombo {
    color: u8,
    rules: Rules,
    faults: Faults,
}

impl Element for IpInputCombo {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.color = args.required("COLOR");
        self.rules.configure(args, |rules, args| {
            if let Some(sources) = args.positional_opt::<String>("BADSRC") {
                rules.set_bad_sources(args, &sources);
            }
        });
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Paint(self.color));
        program.add(Op::Strip(LINK));
        program.add(Op::Header4(self.rules.program()));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (color, rules, faults) = (self.color, &self.rules, &mut self.faults);
        let found = Cell::new(Reason::TooShort);
        let good = |p: &mut Packet| {
            if p.len() < LINK {
                found.set(Reason::TooShort);
                return false;
            }
            p.set_paint(color);
            p.strip(LINK);
            rules.check(p).map_err(|reason| found.set(reason)).is_ok()
        };
        batch.partition(good, |p| faults.reject(cx, p, found.get()));
        batch
    }
}

carries!(IpInputCombo: faults; anew color, rules);

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    fn frame(source: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        [&[0; LINK][..], datagram(64, source, to, &[], 8).data(), b"padding"].concat()
    }

    /// The element and its parts do the same with the same packets.
    #[test]
    fn does_what_its_parts_do() {
        let ours = [10, 0, 0, 1];
        let mut wrong = frame(ours, [5, 6, 7, 8]);
        wrong[24] ^= 1;
        let frames = [
            frame([1, 2, 3, 4], [5, 6, 7, 8]),
            wrong,
            frame([10, 0, 0, 255], [5, 6, 7, 8]),
            frame([10, 0, 0, 255], ours),
            frame([0; 4], [5, 6, 7, 8]),
            vec![0; 13],
            vec![0; 14],
        ];
        let inputs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        for (args, kept) in
            [("", 4), (", INTERFACES 10.0.0.1/24", 2), (", BADSRC 1.2.3.4, GOODDST 5.6.7.8", 4)]
        {
            for burst in [1, 32] {
                let combo = Rig::new(&format!("IPInputCombo(7{args})")).burst(burst).inputs(&inputs);
                let check = args.trim_start_matches(", ");
                let parts = format!(
                    "i :: TestIn -> Paint(7) -> Strip(14) -> e :: CheckIPHeader({check}) -> GetIPAddress(16)
                    -> o0 :: TestOut;"
                );
                let parts = Rig::text(&parts).burst(burst).inputs(&inputs);
                let (mut combo, parts) = (combo.run(), parts.run());
                let seen = |run: &crate::testing::Run| -> Vec<_> {
                    let what = |p: &Packet| {
                        (p.data().to_vec(), p.paint(), p.dst_ip(), p.network_offset(), p.transport_offset())
                    };
                    run.out("o0").iter().map(what).collect()
                };
                let out = seen(&combo);
                assert_eq!((out.len(), &out), (kept, &seen(&parts)), "{args}");
                assert_eq!(combo.read("e.drops"), (frames.len() - kept).to_string());
            }
        }
    }

    #[test]
    fn the_older_form_adds_the_usual_bad_sources() {
        let frames =
            [frame([1, 2, 3, 4], [5, 6, 7, 8]), frame([0; 4], [5, 6, 7, 8]), frame([9; 4], [5, 6, 7, 8])];
        let inputs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let run = Rig::new("IPInputCombo(7, 9.9.9.9 8.8.8.8)").inputs(&inputs).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (1, vec![(Reason::BadSource, 2)]));
        assert_eq!(Rig::new("IPInputCombo(x, y)").errors().len(), 2);
    }
}
