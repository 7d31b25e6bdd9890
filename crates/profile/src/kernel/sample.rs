// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record of the kernel's ring, as [`FORM`] asks for it (perf_event_open(2), `PERF_RECORD_SAMPLE`): process and thread, time, processor, then the
//! tracepoint's own bytes with their length before them.

use std::collections::BTreeMap;

use perf_event::SampleFlag;

use super::event::KernelEvent;
use super::tracepoint::Tracepoint;

/// What a record holds.
pub(super) const FORM: SampleFlag =
    SampleFlag::TID.union(SampleFlag::TIME).union(SampleFlag::CPU).union(SampleFlag::RAW);

/// A record, looked into.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    thread: u32,
    at_ns: u64,
    cpu: u32,
    raw: &'a [u8],
}

impl<'a> Sample<'a> {
    /// From the bytes behind the record's header.
    pub(super) fn parse(body: &'a [u8]) -> Option<Sample<'a>> {
        let (_process, rest) = number(body)?;
        let (thread, rest) = number(rest)?;
        let (at_ns, rest) = rest.split_first_chunk()?;
        let (cpu, rest) = number(rest)?;
        let (_reserved, rest) = number(rest)?;
        let (len, rest) = number(rest)?;
        Some(Sample { thread, at_ns: u64::from_le_bytes(*at_ns), cpu, raw: rest.get(..len as usize)? })
    }

    /// As a record of ours.
    pub(super) fn event(&self, tracepoint: &Tracepoint) -> KernelEvent {
        let [a, b, c] = tracepoint.fields.map(|field| field.number(self.raw));
        let (a, b) = (a as u32, b as u32);
        KernelEvent {
            at_ns: self.at_ns,
            kind: tracepoint.kind,
            cpu: self.cpu as u16,
            thread: self.thread,
            a,
            b,
            c,
        }
    }

    /// Remembers the names that the record has for threads.
    pub(super) fn name_threads(&self, tracepoint: &Tracepoint, names: &mut BTreeMap<u32, String>) {
        for (number, text) in &tracepoint.names {
            let number = number.number(self.raw) as u32;
            if number != 0 && !names.contains_key(&number) {
                names.extend(text.text(self.raw).map(|name| (number, name)));
            }
        }
    }
}

/// Events lost, by a `PERF_RECORD_LOST`: a number for the ring, then how many.
pub(super) fn lost(body: &[u8]) -> u64 {
    body.get(8..16).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart_and_short_ones_refused() {
        let mut body = Vec::new();
        [7u32, 8].iter().for_each(|n| body.extend(n.to_le_bytes()));
        body.extend(1_000_000u64.to_le_bytes());
        [1u32, 0, 4].iter().for_each(|n| body.extend(n.to_le_bytes()));
        body.extend([1, 2, 3, 4]);
        let sample = Sample::parse(&body);
        assert_eq!(sample, Some(Sample { thread: 8, at_ns: 1_000_000, cpu: 1, raw: &[1, 2, 3, 4] }));
        for len in 0..body.len() {
            assert_eq!(Sample::parse(&body[..len]), None, "{len} bytes");
        }
        assert_eq!([lost(&body), lost(&[0; 9])], [1_000_000, 0]);
    }
}
