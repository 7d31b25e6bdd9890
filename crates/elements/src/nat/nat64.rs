// SPDX-License-Identifier: MIT OR Apache-2.0
//! # NAT64
//!
//! `NAT64(NAT44 [, keyword MTU])`
//!
//! Lets IPv6 hosts reach IPv4 hosts, with the sessions and statements of a NAT44 (RFC 6146).
//!
//! An IPv6 host sends to the IPv4 address behind a prefix, 64:ff9b::/96 unless the statements say another one. A resolver with DNS64 (RFC 6147) answers with such addresses.
//!
//! **Ports:** push. Input 0 is for all IPv6 packets that arrive, before they are routed. Those for the prefix become IPv4 packets with an outside source, and leave by output 2, which
//! leads to input 0 of the NAT44. Others leave by output 0 as they are.
//! One more output, 3, if it is there, is for packets that leave no room for another session, for ICMP6Error.
//! Input 1 is for what output 0 of the NAT44 sends. Packets for IPv6 hosts become IPv6 packets, and leave by output 0. Others leave by output 1 as they are.
//!
//! **Arguments**
//! * `NAT44` the name of the NAT44. Its statements say which IPv6 hosts are translated: `translate 2001:db8:1::/64 to 192.0.2.1`.
//! * `MTU BYTES` length of the longest IPv6 packet that is made of an IPv4 packet which may be fragmented, default 1280: longer ones become fragments. IPv4 packets of 1261 bytes to the
//!   size of Ethernet's payload, 1500, may not be fragmented on their way (RFC 7915, 5.1).
//!
//! Packets begin with their IP header. Fragments have no ports: put IP6Reassembler and IPReassembler in front. TCP, UDP, ICMP and all other protocols are translated;
//! ICMP errors with the packet that they quote.
//!
//! **Metadata read:** paint; sequence number annotation of packets for IPv6 hosts, in which the NAT44 has said which host it means. **Set:** ICMP_PARAMPROB of packets for ICMP6Error, to the code of the error; network and transport header positions; destination annotation; sequence number annotation, by which the NAT44 knows later that the source is translated.
//!
//! **Cores:** one worker at a time. A batch of IPv6 packets has the sessions of the NAT44 alone. IPv4 packets are translated while other workers use them.
//!
//! **Drops**
//! * `no-mapping` for IPv6 packets from addresses that no statement translates, errors about packets that nobody knows, and packets whose host has been forgotten on their way from the NAT44.
//! * `reverse-path` for IPv6 packets that have come by outside links, by the OUTSIDE paints of the NAT44, but errors about known sessions.
//! * `bad-destination` for addresses behind the prefix that no host has, or, with 64:ff9b::/96, that are local, such as 10.0.0.1 (RFC 6052, 3.1). `unreassembled` for fragments.
//! * `no-free-port`, `subscriber-limit`, `mapping-table-full` as NAT44 has them.
//! * `bad-version`, `bad-header-length`, `bad-length`, `bad-checksum`, `bad-protocol`, `bad-fragment`, `source-routed`, `too-long`, `no-memory`: as in ProtocolTranslator46.
//!
//! **Handlers**
//! * `prefix` read: the prefix, or nothing if no IPv6 host is translated.
//!
//! ```click
//! nat :: NAT44(STATEMENT "translate 2001:db8:1::/64 to 192.0.2.1");
//! six :: NAT64(nat);
//! Idle -> nat -> [1]six; Idle -> [0]six;
//! six[0] -> Discard; six[1] -> Discard; six[2] -> [0]nat;
//! Idle -> [1]nat; nat[1] -> Discard;
//! ```
//!
//! See also: NAT44, ProtocolTranslator46, NPTv6. RFC 6052, RFC 6146, RFC 6147, RFC 7915

use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, InitCx, LockUse, Locking, Reason, Rehearsal, Rehearsed, When, handlers};
use nat::{Mark, Nat, Outcome, Prefix64, is_stand_in};
use packet::{Batch, Packet, anno};
use sync::lock::How;
use sync::read_mostly::{ReadMostly, Reader};

use super::nat44::{self, Link, TRANSLATED};
use crate::ip6::ip6_fragmenter;
use crate::ip6::siit::{Addresses, Header, ICMP, Translation};
use crate::tools::Runs;

/// The descriptor.
pub const CLASS: Class = Class::new("NAT64", "2/3-4", || Box::new(Nat64::default()))
    .processing("h/h")
    .serial("it uses the sessions of a NAT44")
    .handlers(handlers! { Nat64:
        read "prefix" => |me| me.prefix().map_or_else(String::new, |prefix| prefix.to_string());
    })
    .rehearsal::<Nat64>()
    .locking::<Nat64>()
    .file(file!());

/// The longest IPv6 packet that every link carries (RFC 8200, 5).
const MTU_LEAST: usize = 1280;
/// IPv4 packets of more bytes than the first number and at most the second one may not be fragmented.
const INDIVISIBLE: (usize, usize) = (1260, 1500);
/// The output of IPv6 packets.
const SIX: usize = 0;
/// The output of IPv4 packets that the NAT44 has seen.
const FOUR: usize = 1;
/// The output of IPv4 packets that it has not seen.
const NEW: usize = 2;
/// The output of IPv6 packets for which there is no room.
const NO_ROOM: usize = 3;
/// The code of "address unreachable" (RFC 6146, 3.5).
const ADDRESS_UNREACHABLE: u8 = 3;

#[derive(Default)]
struct Nat64 {
    name: String,
    mtu: usize,
    /// Whether somebody answers packets for which there is no room.
    answers: bool,
    link: Arc<Link>,
    /// The way to the sessions, to read them.
    reader: Option<Reader<Nat>>,
    translation: Translation,
}

/// Which addresses stand for each other: the prefix's, and those of hosts that are known.
struct Known<'a> {
    nat: &'a Nat,
    prefix: Prefix64,
}

impl Addresses for Known<'_> {
    fn six(&self, four: [u8; 4]) -> Option<[u8; 16]> {
        let four = u32::from_be_bytes(four);
        let six = if is_stand_in(four) { self.nat.host(four) } else { Some(self.prefix.embed(four)) };
        six.map(u128::to_be_bytes)
    }

    fn four(&self, six: [u8; 16]) -> Option<[u8; 4]> {
        let six = u128::from_be_bytes(six);
        let behind = self.prefix.extract(six).filter(|four| !is_stand_in(*four));
        behind.or_else(|| self.nat.known_stand_in(six)).map(u32::to_be_bytes)
    }
}

/// Any addresses, where they are not known yet.
struct Any;

impl Addresses for Any {
    fn six(&self, _: [u8; 4]) -> Option<[u8; 16]> {
        Some([0; 16])
    }

    fn four(&self, _: [u8; 16]) -> Option<[u8; 4]> {
        Some([0; 4])
    }
}

/// Networks of which no address is behind the prefix that everyone knows, because they mean something else in each place (RFC 6052, 3.1): first address, and length.
const LOCAL: [(u32, u32); 7] = [
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
];

/// Whether a host may have an IPv4 address behind a prefix.
fn is_of_a_host(address: u32, prefix: Prefix64) -> bool {
    let is_local = || LOCAL.iter().any(|(first, length)| (address ^ first) >> (32 - length) == 0);
    let is_unicast = !is_stand_in(address) && address >> 24 != 127 && address >> 28 < 0xe;
    is_unicast && !(prefix == Prefix64::WELL_KNOWN && is_local())
}

fn address6(ip: &[u8], at: usize) -> Option<u128> {
    ip.get(at..)?.first_chunk().map(|bytes| u128::from_be_bytes(*bytes))
}

/// The receiver of the packet that an ICMPv6 error quotes.
fn receiver_quoted(ip: &[u8], header: &Header) -> Option<u128> {
    let is_error = header.protocol == ICMP && ip.get(header.length).is_some_and(|kind| *kind < 128);
    is_error.then(|| address6(ip, header.length + 8 + 24))?
}

impl Nat64 {
    fn prefix(&self) -> Option<Prefix64> {
        self.link.nat()?.write().prefix()
    }

    /// An IPv6 packet: where it goes, or why it is dropped. `tries`: it is a copy, and is forgotten.
    fn outward(
        &mut self,
        cx: &mut Cx<'_>,
        nat: &mut Nat,
        packet: &mut Packet,
        tries: bool,
    ) -> Result<usize, Reason> {
        let ip = packet.data();
        let Some(((source, destination), prefix)) = address6(ip, 8).zip(address6(ip, 24)).zip(nat.prefix())
        else {
            return Ok(SIX);
        };
        if ip[0] >> 4 != 6 || !prefix.holds(destination) {
            return Ok(SIX);
        }
        let peer = prefix.extract(destination).filter(|peer| is_of_a_host(*peer, prefix));
        let peer = peer.ok_or(Reason::BadDestination)?;
        let mut header = Header::ip6(ip, &Any)?;
        if header.is_fragment() {
            return Err(Reason::Unreassembled);
        }
        // An error may come from any router on the way. It speaks for the host that the packet was for.
        let stand_in = match receiver_quoted(ip, &header) {
            Some(host) => nat.known_stand_in(host).ok_or(Reason::NoMapping)?,
            None if self.link.is_outside(packet.paint()) => return Err(Reason::ReversePath),
            None => nat.stand_in(source).map_err(nat44::reason)?,
        };
        header.four = [stand_in, peer].map(u32::to_be_bytes);
        let left = self.leave(cx, nat, packet, header, tries);
        nat.forget_idle(stand_in);
        left
    }

    /// An IPv6 packet whose header has its IPv4 addresses, but its source is still the one that stands for its host.
    fn leave(
        &mut self,
        cx: &mut Cx<'_>,
        nat: &mut Nat,
        packet: &mut Packet,
        mut header: Header,
        tries: bool,
    ) -> Result<usize, Reason> {
        let Some(prefix) = nat.prefix() else { return Err(Reason::NoMapping) };
        let total = header.total.saturating_sub(header.length) + 20;
        let may_be_divided = total <= INDIVISIBLE.0 || total > INDIVISIBLE.1;
        header.divisible = may_be_divided.then(|| cx.random().u16(1..));
        self.translation.translate_by(packet, header, false, &Known { nat, prefix })?;
        match nat.leaving_six(cx.now(), packet.data_mut(), tries) {
            Outcome::Drop(cause) if nat44::is_lack(cause) && self.answers => {
                // The sender hears of its own packet.
                self.translation.translate(packet, true, &Known { nat, prefix })?;
                packet.set_anno_u8(anno::ICMP_PARAM_PROBLEM, ADDRESS_UNREACHABLE);
                return Ok(NO_ROOM);
            }
            Outcome::Drop(cause) => return Err(nat44::reason(cause)),
            Outcome::Watched(number) => nat44::watched::edit(nat, cx.now(), number, 0, packet),
            _ => {}
        }
        packet.set_dst_ip(header.four[1]);
        packet.set_anno_u32(anno::SEQUENCE, TRANSLATED);
        Ok(NEW)
    }

    /// An IPv4 packet that a NAT44 has let in: what it becomes, with the output, or why it is dropped.
    fn inward(&mut self, nat: &Nat, mut packet: Packet) -> Result<(usize, Batch), (Reason, Packet)> {
        let destination = packet.data().get(16..20).and_then(|bytes| bytes.first_chunk().copied());
        let is_for_host = destination.is_some_and(|four| is_stand_in(u32::from_be_bytes(four)));
        if !is_for_host {
            return Ok((FOUR, Batch::of(packet)));
        }
        let mark = Mark::new(packet.anno_u32(anno::SEQUENCE));
        packet.set_anno_u32(anno::SEQUENCE, 0);
        // Statements were loaded meanwhile, or the host's last session ended: the number may be another host's.
        let is_another =
            mark.is_some() && destination.and_then(|four| nat.mark(u32::from_be_bytes(four))) != mark;
        let Some(prefix) = nat.prefix().filter(|_| !is_another) else {
            return Err((Reason::NoMapping, packet));
        };
        let header = match self.translation.translate(&mut packet, true, &Known { nat, prefix }) {
            Ok(header) if header.is_fragment() => return Err((Reason::Unreassembled, packet)),
            Ok(header) => header,
            Err(reason) => return Err((reason, packet)),
        };
        packet.set_anno(anno::DST_IP, header.six[1]);
        match header.divisible {
            Some(id) if packet.len() > self.mtu => {
                match ip6_fragmenter::split(&packet, self.mtu, u32::from(id)) {
                    Some(pieces) => Ok((SIX, pieces)),
                    None => Err((Reason::NoMemory, packet)),
                }
            }
            _ => Ok((SIX, Batch::of(packet))),
        }
    }

    /// What there is to say about a packet, and the way that it goes.
    fn pass(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch, tries: bool) {
        let Some(shared) = self.link.nat().cloned() else {
            return cx.drop_batch(Reason::NoMapping, batch);
        };
        if port > 0 {
            return self.pass_inward(cx, &shared, batch);
        }
        let mut nat = shared.write();
        if !tries {
            nat.reap(cx.now(), 2 * batch.len() + 8);
        }
        let mut runs = Runs::default();
        for mut packet in batch.drain(..) {
            match self.outward(cx, &mut nat, &mut packet, tries) {
                Ok(output) => runs.push(cx, output, packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
    }

    /// IPv4 packets that a NAT44 has let in: sessions are only read.
    fn pass_inward(&mut self, cx: &mut Cx<'_>, shared: &ReadMostly<Nat>, mut batch: Batch) {
        let mut reader = self.reader.take().unwrap_or_else(|| shared.reader());
        let nat = reader.read();
        let mut runs = Runs::default();
        for packet in batch.drain(..) {
            match self.inward(&nat, packet) {
                Ok((output, mut made)) => {
                    cx.made(made.len() - 1);
                    made.drain(..).for_each(|packet| runs.push(cx, output, packet));
                }
                Err((reason, packet)) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
        drop(nat);
        self.reader = Some(reader);
    }
}

impl Element for Nat64 {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("NAT44");
        self.mtu = args.keyword("MTU", MTU_LEAST);
        self.answers = args.noutputs > NO_ROOM;
        if self.mtu < MTU_LEAST {
            args.error(format!(
                "MTU {} is less than {MTU_LEAST}, which every link of IPv6 carries",
                self.mtu
            ));
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let name = &self.name;
        self.link = cx.find::<Link>(name).ok_or_else(|| format!("'{name}' is not a NAT44"))?;
        self.link.join();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        self.pass(cx, port, batch, false);
    }
}

impl Rehearsal for Nat64 {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        self.pass(cx, port, Batch::of(packet), true);
        Rehearsed::Done
    }
}

impl Locking for Nat64 {
    fn locks(&self) -> Vec<LockUse> {
        let why = "every packet may begin a session, and writes when it was last used";
        vec![LockUse::new(How::Adaptive, nat44::SESSIONS, When::EachBatch, why)]
    }
}

#[cfg(test)]
mod tests;
