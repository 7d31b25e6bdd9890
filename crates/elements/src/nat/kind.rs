// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rewriters go by: addresses and ports, addresses and echo identifiers, addresses, or pairs of them.
//!
//! A key in the flow table identifies packets of one flow and one direction:
//!
//! | kind    | forward                          | reply                            |
//! |---------|----------------------------------|----------------------------------|
//! | Ports   | addresses, ports, protocol       | the same                         |
//! | Pings   | addresses, ports I and I+1       | addresses, ports I+1 and I       |
//! | Address | source address                   | destination address              |
//! | Pair    | addresses                        | addresses                        |
//!
//! An echo's identifier I makes both ports, so that a request and a reply of the same addresses and identifier differ.

use std::net::Ipv4Addr;

use packet::Packet;
use tables::flow::{FlowKey, FlowTable, Hit};
use wire::checksum::{update16, update16_udp, update32, update32_udp};

use super::mappings::Mapping;
use super::pattern::Pattern;

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// ICMP types.
pub(super) const ECHO_REPLY: u8 = 0;
pub(super) const ECHO: u8 = 8;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowKind {
    Ports,
    Pings,
    Address,
    Pair,
}

impl FlowKind {
    /// The mapping of a flow as its packets or, for [`FlowKind::Address`], their two ends show it.
    #[inline]
    pub fn find(self, table: &FlowTable<Mapping>, flow: &FlowKey) -> Option<Hit> {
        if self != FlowKind::Address {
            return table.lookup(flow);
        }
        table.lookup(&FlowKey { dst: 0, ..*flow }).or_else(|| table.lookup(&FlowKey { src: 0, ..*flow }))
    }

    /// What a mapping is made for.
    pub fn forward(self, flow: FlowKey) -> FlowKey {
        if self == FlowKind::Address { FlowKey { dst: 0, ..flow } } else { flow }
    }

    /// The key of answers to what `to` has become.
    pub fn reply(self, to: FlowKey, zone: u16) -> FlowKey {
        let dport = if self == FlowKind::Pings { to.sport.wrapping_add(1) } else { to.dport };
        FlowKey { zone, ..FlowKey { dport, ..to }.reversed() }
    }

    /// What a packet of `flow` becomes by the mapping with these keys.
    #[inline]
    pub fn rewritten(self, flow: &FlowKey, forward: &FlowKey, reply: &FlowKey, side: usize) -> FlowKey {
        match (self, side) {
            (FlowKind::Address, 0) => FlowKey { src: reply.dst, ..*flow },
            (FlowKind::Address, _) => FlowKey { dst: forward.src, ..*flow },
            (_, 0) => reply.reversed(),
            (_, _) => forward.reversed(),
        }
    }

    /// Whether rewriters of this kind can follow the pattern.
    pub fn accepts(self, pattern: &Pattern) -> Result<(), String> {
        match self {
            FlowKind::Address if pattern.rewrites_destination() => {
                Err("the destination address must be '-': mappings are by source address".into())
            }
            FlowKind::Address | FlowKind::Pair if pattern.has_ports() => {
                Err("expected SADDR DADDR, without ports".into())
            }
            _ => Ok(()),
        }
    }

    /// A mapping's direction, as handlers show it.
    pub fn text(self, key: &FlowKey, to: &FlowKey, side: usize) -> String {
        let ip = Ipv4Addr::from_bits;
        let identifier = |key: &FlowKey| if side == 0 { key.sport } else { key.dport };
        match self {
            FlowKind::Ports => format!("{} => {}", ports_text(key), ports_text(to)),
            FlowKind::Pings => format!(
                "({}, {}, {}) => ({}, {}, {})",
                ip(key.src),
                ip(key.dst),
                identifier(key),
                ip(to.src),
                ip(to.dst),
                identifier(to)
            ),
            FlowKind::Address if side == 0 => format!("{} => {}", ip(key.src), ip(to.src)),
            FlowKind::Address => format!("{} => {}", ip(key.dst), ip(to.dst)),
            FlowKind::Pair => {
                format!("({}, {}) => ({}, {})", ip(key.src), ip(key.dst), ip(to.src), ip(to.dst))
            }
        }
    }

    /// Turns a packet of flow `from` into one of flow `to` and updates the checksums (RFC 1624); returns the TCP flags where
    /// ports count. Changes nothing where the transport header is cut off.
    #[inline]
    pub fn apply(self, packet: &mut Packet, from: &FlowKey, to: &FlowKey) -> Option<u8> {
        let network = packet.network_offset()?;
        let at = packet.transport_offset().and_then(|t| usize::try_from(t - network).ok());
        let bytes = packet.network_mut()?;
        let (ip, transport) = bytes.split_at_mut_checked(at.unwrap_or(20))?;
        if ip.len() < 20 {
            return None;
        }
        let flags = match self {
            FlowKind::Ports => move_ports(transport, from, to)?,
            FlowKind::Pings => {
                let len = usize::from(u16::from_be_bytes([ip[2], ip[3]])).saturating_sub(ip.len());
                move_echo(transport, len, to).map(|()| 0)?
            }
            FlowKind::Address | FlowKind::Pair => {
                let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
                if first {
                    mend_transport(transport, ip[9], from, to);
                }
                0
            }
        };
        let sum = u16::from_be_bytes([ip[10], ip[11]]);
        let sum = update32(update32(sum, from.src, to.src), from.dst, to.dst);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip[12..16].copy_from_slice(&to.src.to_be_bytes());
        ip[16..20].copy_from_slice(&to.dst.to_be_bytes());
        Some(flags)
    }
}

/// A flow with its ports.
pub(super) fn ports_text(key: &FlowKey) -> String {
    let (src, dst) = (Ipv4Addr::from_bits(key.src), Ipv4Addr::from_bits(key.dst));
    format!("({src}, {}, {dst}, {})", key.sport, key.dport)
}

/// A transport checksum after addresses and ports have changed.
#[inline(always)]
pub(super) fn moved_checksum(proto: u8, old: u16, from: &FlowKey, to: &FlowKey) -> u16 {
    if proto == UDP {
        // RFC 3022: a UDP checksum of zero means that there is none.
        let addresses = update32_udp(update32_udp(old, from.src, to.src), from.dst, to.dst);
        update16_udp(update16_udp(addresses, from.sport, to.sport), from.dport, to.dport)
    } else {
        let addresses = update32(update32(old, from.src, to.src), from.dst, to.dst);
        update16(update16(addresses, from.sport, to.sport), from.dport, to.dport)
    }
}

/// Where a protocol's header has a checksum that covers the addresses.
pub(super) const fn checksum_at(proto: u8) -> Option<usize> {
    match proto {
        TCP => Some(16),
        UDP => Some(6),
        _ => None,
    }
}

/// Fixes the checksum of a transport header, if the header has one and the packet contains it.
fn mend_transport(transport: &mut [u8], proto: u8, from: &FlowKey, to: &FlowKey) -> Option<()> {
    let at = checksum_at(proto)?;
    let field = transport.get_mut(at..at + 2)?;
    let old = u16::from_be_bytes([field[0], field[1]]);
    field.copy_from_slice(&moved_checksum(proto, old, from, to).to_be_bytes());
    Some(())
}

#[inline(always)]
fn move_ports(transport: &mut [u8], from: &FlowKey, to: &FlowKey) -> Option<u8> {
    mend_transport(transport, from.proto, from, to)?;
    transport[..2].copy_from_slice(&to.sport.to_be_bytes());
    transport[2..4].copy_from_slice(&to.dport.to_be_bytes());
    Some(if from.proto == TCP { transport[13] } else { 0 })
}

/// Gives an echo of `len` bytes the identifier that is one of `to`'s ports.
fn move_echo(transport: &mut [u8], len: usize, to: &FlowKey) -> Option<()> {
    let head = transport.first_chunk::<6>()?;
    let new = if head[0] == ECHO { to.sport } else { to.dport };
    let old = u16::from_be_bytes([head[4], head[5]]);
    let mut sum = update16(u16::from_be_bytes([head[2], head[3]]), old, new);
    transport[4..6].copy_from_slice(&new.to_be_bytes());
    // A message of zeros alone, which a reply may be, sums to zero; everywhere else the sum is all ones instead (RFC 1624,
    // section 3), so that one of the two checksums is wrong.
    let end = len.min(transport.len());
    if sum == 0 && transport[..end].iter().enumerate().all(|(i, b)| *b == 0 || i == 2 || i == 3) {
        sum = 0xffff;
    }
    transport[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(())
}
