// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPGWOptions
//!
//! `IPGWOptions(MYADDR [, OTHERADDRS])`
//!
//! Does what the options of an IP packet ask of a router: record route and timestamp. Other options pass unchanged.
//!
//! **Ports:** 1 input; output 0 for packets with good options or none; output 1, if connected, for others, for which
//! an ICMP parameter problem should be sent.
//!
//! **Arguments**
//! * `MYADDR` the router's address on this interface, which is recorded.
//! * `OTHERADDRS` its other addresses, for timestamps asked of named hosts.
//!
//! **Metadata:** network header position read; on output 1 the ICMP parameter problem annotation points at the bad byte.
//!
//! **Drops:** `bad-option`, when output 1 is not connected.
//!
//! **Handlers**
//! * `drops` read: packets with bad options.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPGWOptions(10.0.0.1) -> Discard;
//! ```
//!
//! See also: ICMPError. RFC 791 (3.1), RFC 1812 (4.2.2.6, 5.3.13)

use std::net::Ipv4Addr;

use engine::args::Args;
use engine::{Class, Cx, Element, Handler, HandlerError, Reason};
use packet::{Batch, Packet, anno};
use wire::ipv4::options::kind;

use super::{Addresses, header};

/// The descriptor.
pub const CLASS: Class = Class::new("IPGWOptions", "1/1-2", || Box::new(IpGwOptions::default()))
    .processing("a/ah")
    .handlers(&[Handler::sum("drops")])
    .file(file!());

#[derive(Default)]
pub(crate) struct IpGwOptions {
    me: [u8; 4],
    all: Vec<[u8; 4]>,
    bad: u64,
}

impl Element for IpGwOptions {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.me = args.required::<super::Address>("MYADDR").0.octets();
        let others = args.positional("OTHERADDRS", Addresses::default()).0;
        self.all = others.iter().map(Ipv4Addr::octets).chain([self.me]).collect();
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        // Options are rare: one look at each header's first byte decides for nearly every batch.
        if batch.iter().all(|p| header(p).is_none_or(|h| h[0] & 15 <= 5)) {
            return batch;
        }
        let midnight_ms = (cx.wall() / 1_000_000 % 86_400_000) as u32;
        let (me, all) = (self.me, &self.all);
        let good = |p: &mut Packet| match options(p, me, all, midnight_ms) {
            Ok(()) => true,
            Err(at) => {
                p.set_anno_u8(anno::ICMP_PARAM_PROBLEM, at as u8);
                false
            }
        };
        let bad = &mut self.bad;
        batch.partition(good, |p| {
            *bad += 1;
            cx.push_one_or_drop(1, p, Reason::BadOption);
        });
        batch
    }

    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.bad.to_string())
    }
}

/// Fills in what the options ask for, or names the offset in the header of the byte at fault.
pub(super) fn options(packet: &mut Packet, me: [u8; 4], all: &[[u8; 4]], now_ms: u32) -> Result<(), usize> {
    let Some(ip) = packet.network() else { return Ok(()) };
    let header_len = (usize::from(ip.first().map_or(0, |b| b & 15)) * 4).min(ip.len());
    if header_len <= 20 {
        return Ok(());
    }
    let mut copy = [0; 60];
    let header = &mut copy[..header_len];
    header.copy_from_slice(&ip[..header_len]);
    let (mut at, mut changed) = (20, false);
    while at < header_len {
        match header[at] {
            kind::EOL => break,
            kind::NOP => at += 1,
            option => {
                let len = usize::from(header.get(at + 1).copied().unwrap_or(0));
                if len < 2 || at + len > header_len {
                    return Err(at + 1);
                }
                let done = match option {
                    kind::RR => record_route(&mut header[at..at + len], me),
                    kind::TS => timestamp(&mut header[at..at + len], me, all, now_ms),
                    _ => Ok(false),
                };
                changed |= done.map_err(|fault| at + fault)?;
                at += len;
            }
        }
    }
    if changed {
        header[10..12].fill(0);
        let sum = wire::checksum::internet(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        if let Some(ip) = packet.network_mut() {
            ip[..header_len].copy_from_slice(header);
        }
    }
    Ok(())
}

/// Record route: the pointer, counted from 1, names the place for the next address; a full list is left alone.
fn record_route(option: &mut [u8], me: [u8; 4]) -> Result<bool, usize> {
    let at = usize::from(*option.get(2).ok_or(1usize)?).wrapping_sub(1);
    if at == option.len() {
        return Ok(false);
    }
    match option.get_mut(at..).and_then(|o| o.first_chunk_mut::<4>()) {
        Some(slot) if at >= 3 => *slot = me,
        _ => return Err(2),
    }
    option[2] += 4;
    Ok(true)
}

/// Timestamp: milliseconds since midnight, alone (flag 0), after our address (1), or after an address of ours that the
/// sender named (3). Without room the overflow count grows, until it does not fit its four bits.
fn timestamp(option: &mut [u8], me: [u8; 4], all: &[[u8; 4]], now_ms: u32) -> Result<bool, usize> {
    let (&pointer, &flags) = option.get(2).zip(option.get(3)).ok_or(1usize)?;
    let at = usize::from(pointer).wrapping_sub(1);
    if !(4..255).contains(&at) {
        return Err(2);
    }
    let stamp = now_ms.to_be_bytes();
    let len = option.len();
    match flags & 15 {
        0 if at + 4 <= len => {
            option[at..at + 4].copy_from_slice(&stamp);
            option[2] += 4;
        }
        1 if at + 8 <= len => {
            option[at..at + 4].copy_from_slice(&me);
            option[at + 4..at + 8].copy_from_slice(&stamp);
            option[2] = pointer.wrapping_add(8);
        }
        3 if at + 8 <= len => {
            if !all.iter().any(|a| option[at..at + 4] == *a) {
                return Ok(false);
            }
            option[at + 4..at + 8].copy_from_slice(&stamp);
            option[2] = pointer.wrapping_add(8);
        }
        0 | 1 if flags >> 4 < 15 => option[3] = flags + 16,
        _ => return Err(3),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    /// What becomes of options: their bytes afterwards, or the offset at fault.
    fn check(options: &[u8], want: Result<&[u8], u8>) {
        let p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], options, 4);
        for burst in [1, 32] {
            let rig = Rig::new("IPGWOptions(9.9.9.9, 8.8.8.8)").outputs(2).burst(burst);
            let run = rig.packets(vec![p.duplicate().unwrap()]).run();
            let (good, bad) = (run.out("o0"), run.out("o1"));
            match want {
                Ok(bytes) => {
                    assert_eq!(&good[0].data()[20..20 + options.len()], bytes);
                    assert!(sealed(good[0].data()) && bad.is_empty());
                }
                Err(at) => assert_eq!(bad[0].anno_u8(anno::ICMP_PARAM_PROBLEM), at, "{options:?}"),
            }
        }
    }

    // conformance: RFC1812-5.3.13.5
    #[test]
    fn record_route_is_filled_in() {
        check(&[7, 7, 4, 0, 0, 0, 0, 0], Ok(&[7, 7, 8, 9, 9, 9, 9, 0]));
        check(&[7, 7, 8, 1, 1, 1, 1, 0], Ok(&[7, 7, 8, 1, 1, 1, 1, 0]));
        check(&[1, 7, 7, 4, 0, 0, 0, 0], Ok(&[1, 7, 7, 8, 9, 9, 9, 9]));
        check(&[7, 7, 5, 0, 0, 0, 0, 0], Err(22));
        check(&[7, 7, 3, 0, 0, 0, 0, 0], Err(22));
        check(&[7, 7, 0, 0, 0, 0, 0, 0], Err(22));
    }

    // conformance: RFC1812-4.2.2.6-a RFC1812-4.2.2.6-b RFC1812-5.3.13.1
    #[test]
    fn other_options_pass_and_bad_lengths_do_not() {
        check(&[148, 4, 0, 0], Ok(&[148, 4, 0, 0]));
        check(&[148, 5, 0, 0], Err(21));
        check(&[148, 1, 0, 0], Err(21));
        check(&[1, 1, 1, 7], Err(24));
        check(&[0, 7, 99, 99], Ok(&[0, 7, 99, 99]));
        check(&[7, 2, 0, 0], Err(21));
    }

    // conformance: RFC1812-5.3.13.6-a RFC1812-5.3.13.6-b
    #[test]
    fn timestamps() {
        // The epoch of simulated time is a round second; only the shape counts here.
        let stamp = (engine::clock::SIMULATION_EPOCH / 1_000_000 % 86_400_000) as u32;
        let [a, b, c, d] = stamp.to_be_bytes();
        check(&[68, 8, 5, 0, 0, 0, 0, 0], Ok(&[68, 8, 9, 0, a, b, c, d]));
        check(&[68, 8, 9, 0x10, 7, 7, 7, 7], Ok(&[68, 8, 9, 0x20, 7, 7, 7, 7]));
        check(&[68, 8, 9, 0xf0, 7, 7, 7, 7], Err(23));
        check(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], Ok(&[68, 12, 13, 1, 9, 9, 9, 9, a, b, c, d]));
        check(&[68, 12, 5, 3, 8, 8, 8, 8, 0, 0, 0, 0], Ok(&[68, 12, 13, 3, 8, 8, 8, 8, a, b, c, d]));
        check(&[68, 12, 5, 3, 7, 8, 8, 8, 0, 0, 0, 0], Ok(&[68, 12, 5, 3, 7, 8, 8, 8, 0, 0, 0, 0]));
        check(&[68, 8, 4, 0, 0, 0, 0, 0], Err(22));
        check(&[68, 8, 5, 2, 0, 0, 0, 0], Err(23));
    }

    #[test]
    fn drops_and_counts_without_output() {
        let p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[148, 5, 0, 0], 4);
        let mut run = Rig::new("IPGWOptions(9.9.9.9)").packets(vec![p]).run();
        assert_eq!((run.drops("e"), run.read("e.drops").as_str()), (vec![(Reason::BadOption, 1)], "1"));
        assert_eq!(
            Rig::new("IPGWOptions(9.9.9.9, x)").errors(),
            ["e: argument OTHERADDRS should be a list of IPv4 addresses, not 'x'"]
        );
    }
}
