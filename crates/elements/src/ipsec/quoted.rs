// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP errors about packets of a tunnel: they belong into the tunnel, from any sender (RFC 4301, 6).
//!
//! A router reports errors by an address of its own, which a tunnel's policies need not contain. As it is, the message would leave unprotected, with a part of the packet that the tunnel
//! protected. So, without a policy for the message itself, that of the packets which go back counts: those from the quoted destination to the quoted source. Newer Linux does so, too
//! (`flag icmp`).

use ipsec::Flow;
use wire::{Protocol, icmpv4, icmpv6, ipv4, ipv6};

/// The flow from the quoted destination to the quoted source, if a packet is an ICMP error for that source.
#[inline]
pub(super) fn reversed(packet: &[u8], flow: &Flow) -> Option<Flow> {
    match flow.protocol {
        Protocol::ICMP | Protocol::ICMPV6 => read(packet, flow),
        _ => None,
    }
}

#[cold]
fn read(packet: &[u8], flow: &Flow) -> Option<Flow> {
    let quoted = if flow.is_six() { quoted6(packet) } else { quoted4(packet) }?;
    let Flow { src, dst, protocol, ports } = quoted;
    // Type and code of ICMP have no other way round.
    let is_icmp = [Protocol::ICMP, Protocol::ICMPV6].contains(&protocol);
    let ports = if is_icmp { ports } else { ports.map(|(src, dst)| (dst, src)) };
    (src == flow.dst).then_some(Flow { src: dst, dst: src, protocol, ports })
}

fn quoted4(packet: &[u8]) -> Option<Flow> {
    let view = ipv4::View::new_checked(packet).ok()?;
    let message = icmpv4::View::new_checked(view.payload()).ok()?;
    if view.protocol() != Protocol::ICMP
        || view.fragment() & !ipv4::FLAG_DF != 0
        || !message.kind().is_error()
    {
        return None;
    }
    Flow::read(message.payload())
}

fn quoted6(packet: &[u8]) -> Option<Flow> {
    let view = ipv6::View::new_checked(packet).ok()?;
    let upper = view.upper_layer().ok()?;
    let message = icmpv6::View::new_checked(view.payload().get(upper.offset..)?).ok()?;
    if upper.protocol != Protocol::ICMPV6 || upper.fragment.is_some() || !message.kind().is_error() {
        return None;
    }
    Flow::read(message.payload())
}
