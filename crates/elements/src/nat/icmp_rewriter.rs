// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPRewriter
//!
//! `ICMPRewriter(REWRITERS [, keywords DST_ANNO, REPLY_ANNO, HIDE_SOURCE])`
//!
//! Rewrites ICMP errors by the mappings of rewriters, so that they reach the host whose packet they are about.
//!
//! An error quotes the packet that it is about as it was on its way, after a rewriter. This element finds the mapping of that packet's flow, and
//! rewrites the quotation back into what the sender had sent. It also rewrites the error's addresses where they are the mapped ones: mostly its
//! destination; its source too, if it comes from the quoted packet's own receiver. All checksums inside and outside are corrected.
//!
//! **Ports:** 1 push input; output 0 for rewritten errors. With a second output and no OFFSETs, that is for other ICMP
//! packets.
//!
//! **Arguments**
//! * `REWRITERS` names of rewriters of any class, with spaces between; the first with a mapping counts. `NAME:OFFSET` sends
//!   errors by its mappings to output OFFSET plus the output that an answer would take in the rewriter.
//! * `DST_ANNO` boolean, default true: sets the destination annotation where the destination changes.
//! * `REPLY_ANNO` a 1-byte annotation, by offset or name: errors about a flow's own packets get the value that
//!   the rewriter kept by its REPLY_ANNO.
//!
//! * `HIDE_SOURCE` boolean, default false: where the rewriter hides the quoted packet's receiver, an error that a router on the
//!   way to it sent gets the receiver's outside address as source, too. Else such an error shows a router's inside address.
//!
//! **Metadata read:** network and transport header positions. **Set:** destination address, REPLY_ANNO.
//!
//! Errors are: destination unreachable, source quench, redirect, time exceeded, parameter problem. A mapping lasts no longer
//! for errors.
//!
//! **Drops:** `no-mapping`, other ICMP packets and errors about packets that nobody has rewritten, where there is no
//! output for them; `bad-protocol`, packets that are not ICMP; `no-output`.
//!
//! ```click
//! rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! pings :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! Idle -> [0]pings; Idle -> [1]pings; pings[0] -> Discard; pings[1] -> Discard;
//! Idle -> ICMPRewriter(rw pings) -> Discard;
//! ```
//!
//! See also: IPRewriter, ICMPPingRewriter, IPAddrRewriter, IPAddrPairRewriter, ICMPError; RFC 792, RFC 1624, RFC 5508 section 4

use std::sync::Arc;

use element::args::{Args, Raw};
use element::clock::Nanos;
use element::{Class, Cx, Element, InitCx, LockUse, Locking, Reason, When, parse_integer};
use packet::{Batch, Packet};
use sync::lock::How;
use tables::flow::{Direction, FlowKey};
use wire::checksum::{update16, update32};

use super::icmp_ping_rewriter::echo_flow;
use super::kind::{ECHO, FlowKind, ICMP, TCP, UDP, checksum_at, moved_checksum};
use super::mappings::{MAPPINGS, Shared, lock};
use super::spec::Handle;
use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("ICMPRewriter", "1/1-", || Box::new(IcmpRewriter::default()))
    .processing("h/h")
    .locking::<IcmpRewriter>()
    .file(file!());

/// The ICMP header before a quotation.
const HEADER: usize = 8;

/// A rewriter whose mappings count.
struct Map {
    handle: Arc<Handle>,
    mappings: Shared,
    zone: u16,
    offset: Option<usize>,
}

#[derive(Default)]
struct IcmpRewriter {
    names: Vec<(String, Option<usize>)>,
    maps: Vec<Map>,
    dst_anno: bool,
    reply_anno: Option<usize>,
    hide_source: bool,
    /// The output for what is not rewritten.
    others: Option<usize>,
}

/// An error's bytes as far as they count.
struct Error<'a> {
    ip: &'a mut [u8],
    /// From the ICMP header on, to the end of the datagram.
    icmp: &'a mut [u8],
}

/// What is quoted, and where.
#[derive(Clone, Copy)]
struct Quoted {
    src: u32,
    dst: u32,
    proto: u8,
    /// Where the transport header begins in the ICMP message.
    at: usize,
    /// Whether it can be there: not in later fragments.
    first: bool,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(half(bytes, at)?) << 16 | u32::from(half(bytes, at + 2)?))
}

impl<'a> Error<'a> {
    /// The packet as an ICMP message.
    fn of(packet: &'a mut Packet) -> Option<Error<'a>> {
        let at = usize::try_from(packet.transport_offset()? - packet.network_offset()?).ok()?;
        let (ip, icmp) = packet.network_mut()?.split_at_mut_checked(at)?;
        let len = usize::from(half(ip, 2)?).saturating_sub(at).min(icmp.len());
        (ip.len() >= 20).then_some(Error { ip, icmp: &mut icmp[..len] })
    }

    /// The quotation, if this is an error with one of an IPv4 header at least.
    fn quoted(&self) -> Option<Quoted> {
        let quote = self.icmp.get(HEADER..)?.first_chunk::<20>()?;
        let header = usize::from(quote[0] & 15) * 4;
        let fragment = half(self.ip, 6)? & 0x1fff != 0;
        if fragment || !matches!(self.icmp[0], 3 | 4 | 5 | 11 | 12) || quote[0] >> 4 != 4 || header < 20 {
            return None;
        }
        Some(Quoted {
            src: word(quote, 12)?,
            dst: word(quote, 16)?,
            proto: quote[9],
            at: HEADER + header,
            first: half(quote, 6)? & 0x1fff == 0,
        })
    }

    /// The flow of an answer to the quoted packet, as a rewriter of this kind sees it.
    fn answer(&self, quoted: &Quoted, kind: FlowKind) -> Option<FlowKey> {
        let transport = self.icmp.get(quoted.at..).filter(|_| quoted.first);
        let (src, dst) = (quoted.dst, quoted.src);
        match kind {
            FlowKind::Address | FlowKind::Pair => {
                Some(FlowKey { src, dst, sport: 0, dport: 0, proto: 0, zone: 0 })
            }
            FlowKind::Ports if matches!(quoted.proto, TCP | UDP) => {
                let ports = transport?.first_chunk::<8>()?;
                let (sport, dport) = (half(ports, 2)?, half(ports, 0)?);
                Some(FlowKey { src, dst, sport, dport, proto: quoted.proto, zone: 0 })
            }
            FlowKind::Pings if quoted.proto == ICMP => {
                let echo = transport?.first_chunk::<6>()?;
                let (flow, _) = echo_flow(quoted.src, quoted.dst, echo[0], half(echo, 4)?)?;
                Some(flow.reversed())
            }
            _ => None,
        }
    }

    /// Writes a word of the ICMP message and updates the message's checksum.
    fn set(&mut self, at: usize, new: u16) {
        let (Some(old), Some(sum)) = (half(self.icmp, at), half(self.icmp, 2)) else { return };
        self.icmp[at..at + 2].copy_from_slice(&new.to_be_bytes());
        self.icmp[2..4].copy_from_slice(&update16(sum, old, new).to_be_bytes());
    }

    fn set_word(&mut self, at: usize, new: u32) {
        self.set(at, (new >> 16) as u16);
        self.set(at + 2, new as u16);
    }

    /// Rewrites the quotation: `flow`, of which answers would be, becomes `to`.
    fn rewrite_quote(&mut self, quoted: &Quoted, kind: FlowKind, flow: &FlowKey, to: &FlowKey) {
        let (from, to) = (flow.reversed(), to.reversed());
        if let Some(sum) = half(self.icmp, HEADER + 10) {
            let sum = update32(update32(sum, from.src, to.src), from.dst, to.dst);
            self.set(HEADER + 10, sum);
        }
        self.set_word(HEADER + 12, to.src);
        self.set_word(HEADER + 16, to.dst);
        if !quoted.first {
            return;
        }
        // A quotation may end before the checksum, and then nobody can miss it.
        if let Some(at) = checksum_at(quoted.proto).map(|at| quoted.at + at)
            && let Some(sum) = half(self.icmp, at)
        {
            self.set(at, moved_checksum(quoted.proto, sum, &from, &to));
        }
        match kind {
            FlowKind::Ports => {
                self.set(quoted.at, to.sport);
                self.set(quoted.at + 2, to.dport);
            }
            FlowKind::Pings => {
                let request = self.icmp.get(quoted.at) == Some(&ECHO);
                let new = if request { to.sport } else { to.dport };
                if let (Some(old), Some(sum)) =
                    (half(self.icmp, quoted.at + 4), half(self.icmp, quoted.at + 2))
                {
                    self.set(quoted.at + 2, update16(sum, old, new));
                    self.set(quoted.at + 4, new);
                }
            }
            FlowKind::Address | FlowKind::Pair => {}
        }
    }

    /// Replaces an address of the error itself, at `at` in its header, if it is the mapped one.
    fn replace(&mut self, at: usize, old: u32, new: u32) -> bool {
        let found = word(self.ip, at) == Some(old);
        if found && old != new {
            let sum = u16::from_be_bytes([self.ip[10], self.ip[11]]);
            self.ip[10..12].copy_from_slice(&update32(sum, old, new).to_be_bytes());
            self.ip[at..at + 4].copy_from_slice(&new.to_be_bytes());
        }
        found
    }
}

impl IcmpRewriter {
    /// Rewrites an error; says where it goes.
    fn rewrite(&self, packet: &mut Packet, now: Nanos) -> Option<usize> {
        let mut error = Error::of(packet)?;
        let quoted = error.quoted()?;
        for map in &self.maps {
            let kind = map.handle.kind;
            let Some(flow) = error.answer(&quoted, kind) else { continue };
            let flow = FlowKey { zone: map.zone, ..flow };
            let mut all = lock(&map.mappings);
            let Some(hit) = all.find(kind, &flow, now) else { continue };
            let Some(found) = all.table().flow(hit.id) else { continue };
            let side = usize::from(hit.direction == Direction::Reply);
            let to = kind.rewritten(&flow, &found.forward, &found.reply, side);
            error.rewrite_quote(&quoted, kind, &flow, &to);
            let source = word(error.ip, 12).filter(|_| self.hide_source && flow.src != to.src);
            error.replace(12, source.unwrap_or(flow.src), to.src);
            if error.replace(16, flow.dst, to.dst) && self.dst_anno {
                packet.set_dst_ip(to.dst.to_be_bytes());
            }
            if let (1, Some(anno)) = (side, self.reply_anno) {
                packet.set_anno_u8(anno, found.value.reply_anno);
            }
            return Some(map.offset.map_or(0, |offset| offset + usize::from(found.value.outputs[side])));
        }
        None
    }
}

impl Element for IcmpRewriter {
    fn configure(&mut self, args: &mut Args<'_>) {
        let Raw(text) = args.required("MAPS");
        self.dst_anno = args.keyword("DST_ANNO", true);
        self.reply_anno = args.keyword_opt::<Anno<1>>("REPLY_ANNO").map(|anno| anno.0);
        self.hide_source = args.keyword("HIDE_SOURCE", false);
        for word in text.split_ascii_whitespace() {
            let (name, offset) = match word.split_once(':') {
                None => (word, None),
                Some((name, offset)) => {
                    let offset = parse_integer(offset).and_then(|n| usize::try_from(n).ok());
                    if offset.is_none_or(|n| n >= args.noutputs) {
                        args.error(format!("{word}: the offset should be the number of an output"));
                    }
                    (name, offset)
                }
            };
            self.names.push((name.to_owned(), offset));
        }
        let plain = self.names.iter().all(|(_, offset)| offset.is_none());
        self.others = (plain && args.noutputs > 1).then_some(1);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        for (name, offset) in &self.names {
            let wrong = || format!("'{name}' is not a rewriter");
            let index = cx.router().lookup(name, Some(cx.index())).ok_or_else(wrong)?;
            let handle = cx.provided::<Handle>(index).ok_or_else(wrong)?;
            let (needed, noutputs) = (offset.map_or(1, |n| n + handle.noutputs), cx.noutputs());
            if needed > noutputs {
                return Err(format!("{name}: the offset needs {needed} outputs, not {noutputs}"));
            }
            let mappings = Handle::mappings_of(cx, index)?;
            let element = cx.router().elements[index].name.to_string();
            let zone = lock(&mappings).join(index, &element, handle.kind)?;
            self.maps.push(Map { handle, mappings, zone, offset: *offset });
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now = cx.now();
        for mut packet in batch.drain(..) {
            let icmp = packet.network().and_then(|ip| ip.get(9)) == Some(&ICMP);
            let output = if icmp { self.rewrite(&mut packet, now) } else { None };
            match (output.or(self.others), icmp) {
                (_, false) => cx.drop(Reason::BadProtocol, packet),
                (Some(output), _) => cx.push_one_or_drop(output, packet, Reason::NoOutput),
                (None, _) => cx.drop(Reason::NoMapping, packet),
            }
        }
    }
}

impl Locking for IcmpRewriter {
    fn locks(&self) -> Vec<LockUse> {
        let why = "errors are rewritten by the mappings of rewriters";
        let lock = |name: &String| LockUse {
            owner: Some(name.clone()),
            ..LockUse::new(How::Adaptive, MAPPINGS, When::EachBatch, why)
        };
        self.names.iter().map(|(name, _)| lock(name)).collect()
    }
}
