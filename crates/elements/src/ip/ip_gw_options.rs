// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPGWOptions
//!
//! `IPGWOptions(MYADDR [, OTHERADDRS, keywords SOURCE_ROUTE, ADDRESSES])`
//!
//! Does what the options of an IP packet ask of a router: record route and timestamp, and source routes where it is asked
//! to. Other options pass unchanged.
//!
//! **Ports:** 1 input; output 0 for packets with good options or none; output 1, if connected, for others, for which an ICMP parameter problem should
//! be sent. Output 2, if connected, is for packets whose strict source route cannot be followed, for which an ICMP error `unreachable, srcroutefail`
//! should be sent.
//!
//! **Arguments**
//! * `MYADDR` the router's address on this interface, which is recorded.
//! * `OTHERADDRS` its other addresses, for timestamps asked of named hosts.
//! * `SOURCE_ROUTE` what becomes of packets with a source route: `pass` (default, as in Click), nothing; `forward`, MYADDR is recorded for the hop
//!   that IPSourceRoute has done, and the next hop of a strict route must be its next entry. With `drop`, they are dropped.
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The first IPv4 address that the kernel has there at the
//!   moment takes the place of MYADDR, and the others count as OTHERADDRS, too.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata:** network header position read, and the destination annotation with `SOURCE_ROUTE forward`; on output 1 the
//! ICMP parameter problem annotation points at the bad byte.
//!
//! **Drops:** `bad-option`, when output 1 is not connected; `source-route-failed`, when output 2 is not connected;
//! `source-routed`, with `SOURCE_ROUTE drop`.
//!
//! **Handlers**
//! * `drops` read: packets that did not leave by output 0.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPGWOptions(10.0.0.1) -> Discard;
//! ```
//!
//! See also: ICMPError, IPSourceRoute. RFC 791 (3.1), RFC 1812 (4.2.2.6, 5.3.13), RFC 7126

use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Names};
use element::clock::Nanos;
use element::program::{Op, Program, Version};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet, anno};
use wire::ipv4::options::kind;

use super::{Addresses, header};
use crate::io::addresses::LinkAddresses;

/// The descriptor.
pub const CLASS: Class = Class::new("IPGWOptions", "1/1-3", || Box::new(IpGwOptions::default()))
    .processing("a/ah")
    .handlers(handlers! { IpGwOptions:
        sum "drops" => .bad;
    })
    .hot_swap::<IpGwOptions>()
    .rehearsal::<IpGwOptions>()
    .file(file!());

#[derive(Clone, Default)]
pub(crate) struct IpGwOptions {
    me: [u8; 4],
    all: Vec<[u8; 4]>,
    others: Vec<[u8; 4]>,
    source_routes: SourceRoutes,
    addresses: LinkAddresses,
    bad: Count,
}

/// The timer for looks at addresses.
const LOOK: u32 = 0;

/// What becomes of source-routed packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SourceRoutes {
    #[default]
    Pass,
    Forward,
    Drop,
}

impl FromArg for SourceRoutes {
    const EXPECTED: &'static str = "'pass', 'forward' or 'drop'";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "pass" => Ok(SourceRoutes::Pass),
            "forward" => Ok(SourceRoutes::Forward),
            "drop" => Ok(SourceRoutes::Drop),
            _ => Err(String::new()),
        }
    }
}

/// Why a packet cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The byte at this offset in the header is wrong.
    At(usize),
    /// Source routes are not wanted.
    SourceRouted,
    /// The next hop is not the next entry of a strict source route.
    NotNeighbour,
}

impl Element for IpGwOptions {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.me = args.required::<super::Address>("MYADDR").0.octets();
        let others = args.positional("OTHERADDRS", Addresses::default()).0;
        self.source_routes = args.keyword("SOURCE_ROUTE", SourceRoutes::default());
        self.others = others.iter().map(Ipv4Addr::octets).collect();
        self.all = [&self.others[..], &[self.me]].concat();
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        let Some(all) = self.addresses.look(cx, timer) else { return };
        let own: Vec<[u8; 4]> = all.four().map(|own| own.addr.octets()).collect();
        if let Some(first) = own.first() {
            self.me = *first;
            self.all = [&self.others[..], &own].concat();
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::NoOptions(Version::Four));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        // Options are rare: one look at each header's first byte decides for nearly every batch.
        if batch.iter().all(|p| header(p).is_none_or(|h| h[0] & 15 <= 5)) {
            return batch;
        }
        let midnight_ms = since_midnight_ms(cx.wall());
        let router = Router { me: self.me, all: &self.all, source_routes: self.source_routes, midnight_ms };
        let fault = std::cell::Cell::new(Fault::At(0));
        let good = |p: &mut Packet| router.options(p).map_err(|found| fault.set(found)).is_ok();
        let bad = &mut self.bad;
        batch.partition(good, |mut p| {
            *bad += 1;
            match fault.get() {
                Fault::At(at) => {
                    p.set_anno_u8(anno::ICMP_PARAM_PROBLEM, at as u8);
                    cx.push_one_or_drop(1, p, Reason::BadOption);
                }
                Fault::NotNeighbour => cx.push_one_or_drop(2, p, Reason::SourceRouteFailed),
                Fault::SourceRouted => cx.drop(Reason::SourceRouted, p),
            }
        });
        batch
    }
}

impl Rehearsal for IpGwOptions {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IpGwOptions: bad; anew me, all, others, source_routes, addresses);

/// What options need to know about the router and the time.
struct Router<'a> {
    /// The address that is recorded.
    me: [u8; 4],
    all: &'a [[u8; 4]],
    source_routes: SourceRoutes,
    midnight_ms: u32,
}

impl Router<'_> {
    /// Fills in what the options of a packet ask for.
    fn options(&self, packet: &mut Packet) -> Result<(), Fault> {
        let next_hop = packet.dst_ip();
        let Some(ip) = packet.network() else { return Ok(()) };
        let header_len = (usize::from(ip.first().map_or(0, |b| b & 15)) * 4).min(ip.len());
        if header_len <= 20 {
            return Ok(());
        }
        let mut copy = [0; 60];
        let header = &mut copy[..header_len];
        header.copy_from_slice(&ip[..header_len]);
        if self.fill_in(header, next_hop)? {
            header[10..12].fill(0);
            let sum = wire::checksum::internet(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            if let Some(ip) = packet.network_mut() {
                ip[..header_len].copy_from_slice(header);
            }
        }
        Ok(())
    }

    /// Fills in options; returns whether anything was changed.
    fn fill_in(&self, header: &mut [u8], next_hop: [u8; 4]) -> Result<bool, Fault> {
        let (fixed, options) = header.split_at_mut(20);
        let neighbour = fixed[16..20] == next_hop;
        let (mut at, mut changed) = (0, false);
        while at < options.len() {
            let kind = options[at];
            match kind {
                kind::EOL => break,
                kind::NOP => at += 1,
                _ => {
                    let len = usize::from(options.get(at + 1).copied().unwrap_or(0));
                    if len < 2 || at + len > options.len() {
                        return Err(Fault::At(at + 21));
                    }
                    let option = &mut options[at..at + len];
                    let done = match kind {
                        kind::RR => record_route(option, self.me),
                        kind::TS => timestamp(option, self.me, self.all, self.midnight_ms),
                        kind::LSRR | kind::SSRR => {
                            changed |= self.source_route(option, neighbour)?;
                            Ok(false)
                        }
                        _ => Ok(false),
                    };
                    changed |= done.map_err(|fault| Fault::At(at + 20 + fault))?;
                    at += len;
                }
            }
        }
        Ok(changed)
    }

    /// Puts our address where IPSourceRoute has put that by which the packet came.
    fn source_route(&self, option: &mut [u8], neighbour: bool) -> Result<bool, Fault> {
        match self.source_routes {
            SourceRoutes::Pass => return Ok(false),
            SourceRoutes::Drop => return Err(Fault::SourceRouted),
            SourceRoutes::Forward => {}
        }
        let strict = option[0] == kind::SSRR;
        // Ending before the place that the pointer, counted from 1, names.
        let entry = option.get(2).and_then(|pointer| usize::from(*pointer).checked_sub(5));
        let entry = entry.filter(|at| *at >= 3).and_then(|at| option.get_mut(at..)?.first_chunk_mut::<4>());
        match entry {
            Some(entry) if self.all.contains(entry) => {
                if strict && !neighbour {
                    return Err(Fault::NotNeighbour);
                }
                *entry = self.me;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Fills in what the options ask for but source routes, or names the offset in the header of the byte at fault.
pub(super) fn options(
    packet: &mut Packet,
    me: [u8; 4],
    all: &[[u8; 4]],
    midnight_ms: u32,
) -> Result<(), usize> {
    let router = Router { me, all, source_routes: SourceRoutes::Pass, midnight_ms };
    router.options(packet).map_err(|fault| if let Fault::At(at) = fault { at } else { 0 })
}

/// Does to the header of an answer what record route and timestamp options ask of a router of this address.
pub(crate) fn fill_in_answer(header: &mut [u8], me: [u8; 4], wall: Nanos) {
    let midnight_ms = since_midnight_ms(wall);
    let router = Router { me, all: &[me], source_routes: SourceRoutes::Pass, midnight_ms };
    // A wrong option stays as it came; the answer is for somebody who sent it so.
    let _ = router.fill_in(header, [0; 4]);
}

fn since_midnight_ms(wall: Nanos) -> u32 {
    (wall / 1_000_000 % 86_400_000) as u32
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

    // conformance: RFC1812-4.2.2.6-a RFC1812-4.2.2.6-b RFC1812-5.3.13.1 RFC1812-5.3.13.3
    #[test]
    fn other_options_pass_and_bad_lengths_do_not() {
        check(&[148, 4, 0, 0], Ok(&[148, 4, 0, 0]));
        check(&[136, 4, 7, 7], Ok(&[136, 4, 7, 7]));
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

    // conformance: RFC1812-5.3.13.4-b
    #[test]
    fn source_routes() {
        let check = |config: &str, option: &[u8], next_hop: [u8; 4], want: Result<&[u8], Reason>| {
            let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], option, 4);
            p.set_dst_ip(next_hop);
            let run = Rig::new(&format!("IPGWOptions(9.9.9.9, 8.8.8.8{config})")).packets(vec![p]).run();
            match want {
                Ok(bytes) => {
                    let out = &run.out("o0")[0];
                    assert!(sealed(out.data()) && out.data()[20..20 + option.len()] == *bytes, "{config}");
                }
                Err(reason) => assert_eq!(run.drops("e"), [(reason, 1)]),
            }
        };
        let option = |kind: u8, hop: u8| [kind, 11, 8, hop, hop, hop, hop, 3, 3, 3, 3, 0];
        let (near, far) = ([5, 6, 7, 8], [7; 4]);
        check("", &option(131, 8), near, Ok(&option(131, 8)));
        check(", SOURCE_ROUTE forward", &option(131, 8), far, Ok(&option(131, 9)));
        check(", SOURCE_ROUTE forward", &option(131, 7), far, Ok(&option(131, 7)));
        check(", SOURCE_ROUTE forward", &option(137, 8), near, Ok(&option(137, 9)));
        check(", SOURCE_ROUTE forward", &option(137, 8), far, Err(Reason::SourceRouteFailed));
        check(", SOURCE_ROUTE drop", &option(131, 7), near, Err(Reason::SourceRouted));
        for pointer in [0, 3, 4, 5, 13, 255] {
            let mut odd = option(131, 8);
            odd[2] = pointer;
            check(", SOURCE_ROUTE forward", &odd, near, Ok(&odd));
        }
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
