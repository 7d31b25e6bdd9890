// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateFilter
//!
//! `AggregateFilter(ACTION AGGREGATES, ...)`
//!
//! Sends packets to outputs by their aggregate annotation.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Arguments**
//! * `ACTION` an output's number, `allow` for output 0, `drop` or `deny` to drop.
//! * `AGGREGATES` aggregates and ranges of them (`7 10-19`); `all` or `-` for all. The first argument that names a packet's aggregate
//!   says what becomes of it.
//!
//! **Metadata read:** aggregate.
//!
//! **Drops:** `filtered`, by `drop` and `deny`; `not-matched`, packets whose aggregate is not named, or whose output is not connected.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip proto) -> AggregateFilter(allow 6 17) -> Discard;
//! ```
//!
//! See also: AggregateIP, AggregateIPFlows, IPFilter

use std::collections::BTreeMap;

use element::args::Args;
use element::{Class, Cx, Element, Reason, parse_integer};
use packet::{Batch, anno};

use crate::tools::Splitter;

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateFilter", "1/1-", || Box::new(AggregateFilter::default()))
    .processing("h/h")
    .pure()
    .file(file!());

/// Stands for the output of packets that are dropped on purpose.
const DROP: usize = usize::MAX;

#[derive(Default)]
struct AggregateFilter {
    /// Ranges that do not overlap, by their first aggregate: the last one, and the output.
    ranges: BTreeMap<u32, (u32, usize)>,
    splitter: Splitter,
}

impl AggregateFilter {
    /// Lets aggregates that have no output yet take this one; false if all had one.
    fn add(&mut self, first: u32, last: u32, output: usize) -> bool {
        let mut free = Vec::new();
        let mut from = u64::from(first);
        let before = self.ranges.range(..first).next_back().map(|(_, (end, _))| u64::from(*end) + 1);
        from = from.max(before.unwrap_or(0));
        for (start, (end, _)) in self.ranges.range(first..=last) {
            if u64::from(*start) > from {
                free.push((from as u32, start - 1));
            }
            from = from.max(u64::from(*end) + 1);
        }
        if from <= u64::from(last) {
            free.push((from as u32, last));
        }
        let any = !free.is_empty();
        self.ranges.extend(free.into_iter().map(|(first, last)| (first, (last, output))));
        any
    }

    fn output(&self, aggregate: u32) -> Option<usize> {
        let (_, (last, output)) = self.ranges.range(..=aggregate).next_back()?;
        (aggregate <= *last).then_some(*output)
    }

    /// Reads one argument.
    fn read(&mut self, args: &mut Args<'_>, at: usize, text: &str) {
        let number = |word: &str| parse_integer(word).and_then(|n| u32::try_from(n).ok());
        let mut words = text.split_whitespace();
        let output = match words.next().unwrap_or_default() {
            "allow" => 0,
            "drop" | "deny" => DROP,
            word => match number(word) {
                Some(output) => output as usize,
                None => {
                    let ours = format!("expected an output's number, allow, drop or deny, not '{word}'");
                    return args.error_as(ours, format!("pattern {at}: expected a port number"));
                }
            },
        };
        let mut words = words.peekable();
        if words.peek().is_none() {
            let ours = format!("'{text}' names no aggregates");
            args.error_as(ours, format!("pattern {at} has no aggregates"));
        }
        for word in words {
            let range = match word {
                "all" | "-" => Some((0, u32::MAX)),
                _ => match word.split_once('-') {
                    Some((first, last)) => {
                        number(first).zip(number(last)).filter(|(first, last)| first <= last)
                    }
                    None => number(word).map(|n| (n, n)),
                },
            };
            match range {
                Some((first, last)) if self.add(first, last, output) => {}
                Some(_) => {
                    args.warning(format!("'{word}' in '{text}' matches no packets: earlier arguments do"))
                }
                None => args.error_as(
                    format!("expected an aggregate or a range of them, not '{word}'"),
                    format!("pattern {at}: bad aggregate number '{word}'"),
                ),
            }
        }
    }
}

impl Element for AggregateFilter {
    fn configure(&mut self, args: &mut Args<'_>) {
        for (at, text) in args.rest().iter().enumerate() {
            self.read(args, at, text);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let mut dropped = Batch::new();
        let goes = |p: &mut packet::Packet| self.output(p.anno_u32(anno::AGGREGATE)) != Some(DROP);
        batch.partition(goes, |p| dropped.push(p));
        cx.drop_batch(Reason::Filtered, dropped);
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.split_or_drop(cx, batch, Reason::NotMatched, |p| {
            self.output(p.anno_u32(anno::AGGREGATE)).unwrap_or(DROP)
        });
        self.splitter = splitter;
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        let made = |aggregate| {
            let mut packet = Packet::copy_of(&[aggregate]).unwrap();
            packet.set_anno_u32(anno::AGGREGATE, aggregate.into());
            packet
        };
        (0..8).map(made).collect()
    }

    #[test]
    fn the_first_that_names_an_aggregate_wins() {
        for (args, first, second) in [
            ("allow 1 5-6, 1 2", vec![1, 5, 6], vec![2]),
            ("1 3-4, 0 2-6, drop all", vec![2, 5, 6], vec![3, 4]),
            ("deny 0-3, 1 -", vec![], vec![4, 5, 6, 7]),
            ("0 2, 0 4, 1 1-6", vec![2, 4], vec![1, 3, 5, 6]),
        ] {
            for burst in [1, 32] {
                let element = format!("AggregateFilter({args})");
                let run = Rig::new(&element).outputs(2).burst(burst).packets(packets()).run();
                assert_eq!(
                    (run.bytes("o0").concat(), run.bytes("o1").concat()),
                    (first.clone(), second.clone()),
                    "{args}"
                );
            }
        }
        let run = Rig::new("AggregateFilter(allow 1, drop 2 3)").packets(packets()).run();
        assert_eq!(run.drops("e"), [(Reason::NotMatched, 5), (Reason::Filtered, 2)]);
    }

    #[test]
    fn arguments_are_checked() {
        for (args, want) in [
            ("maybe 1", "expected an output's number, allow, drop or deny, not 'maybe'"),
            ("allow", "'allow' names no aggregates"),
            ("allow 3-2", "expected an aggregate or a range of them, not '3-2'"),
        ] {
            assert_eq!(Rig::new(&format!("AggregateFilter({args})")).errors(), [format!("e: {want}")]);
        }
    }
}
