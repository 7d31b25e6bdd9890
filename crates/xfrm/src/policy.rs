// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies: `xfrm_userpolicy_info` with its template, to and from [`Policy`].

use std::ops::RangeInclusive;

use ipsec::{ANY_PORT, Action, Direction, IpsecMode, Policy, PolicyKey, Selector, Template};
use wire::{Prefix, Protocol};

use crate::association::{TRANSPORT, TUNNEL, check_attributes, check_protocol, put_current};
use crate::kernel::{Found, Refusal};
use crate::layout::{self, Address, LifetimeConfig, NO_LIMIT, PolicyInfo, Port, attribute as a};
use crate::netlink::{Attributes, Builder};

/// What becomes of packets (`XFRM_POLICY_...`).
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;
/// All algorithms.
const ALL: u32 = u32::MAX;

fn invalid(why: &str) -> Refusal {
    Refusal::new(libc::EINVAL, why)
}

/// A range of ports from a port and its mask.
fn ports_of(port: Port, mask: Port) -> Result<RangeInclusive<u16>, Refusal> {
    let (first, last) = (port.0 & mask.0, port.0 | !mask.0);
    if mask.0.leading_ones() + mask.0.trailing_zeros() < 16 {
        return Err(invalid("a mask of ports must be ones, then zeros"));
    }
    Ok(first..=last)
}

/// Port and mask of the smallest range that has a mask and holds this one.
fn put_ports(range: &RangeInclusive<u16>) -> (Port, Port) {
    let differ = 16 - (range.start() ^ range.end()).leading_zeros();
    let mask = u16::MAX.checked_shl(differ).unwrap_or(0);
    (Port(range.start() & mask), Port(mask))
}

/// Reads a selector.
pub(crate) fn selector_of(sel: &layout::Selector) -> Result<Selector, Refusal> {
    let prefix =
        |address: Address, len: u8| address.of_family(sel.family).and_then(|addr| Prefix::new(addr, len));
    let both = prefix(sel.saddr, sel.prefixlen_s).zip(prefix(sel.daddr, sel.prefixlen_d));
    let (src, dst) = both.ok_or_else(|| invalid("a selector needs prefixes of IPv4 or IPv6"))?;
    if sel.ifindex != 0 {
        return Err(Refusal::new(libc::EOPNOTSUPP, "selectors have no interfaces here"));
    }
    let protocol = (sel.proto != 0).then_some(Protocol(sel.proto));
    let (sports, dports) = (ports_of(sel.sport, sel.sport_mask)?, ports_of(sel.dport, sel.dport_mask)?);
    Ok(Selector { src, dst, protocol, sports, dports })
}

/// Writes a selector.
pub(crate) fn put_selector(selector: &Selector) -> layout::Selector {
    let ((sport, sport_mask), (dport, dport_mask)) =
        (put_ports(&selector.sports), put_ports(&selector.dports));
    layout::Selector {
        daddr: selector.dst.addr().into(),
        saddr: selector.src.addr().into(),
        dport,
        dport_mask,
        sport,
        sport_mask,
        family: layout::family_of(selector.dst.addr()),
        prefixlen_d: selector.dst.len(),
        prefixlen_s: selector.src.len(),
        proto: selector.protocol.map_or(0, |protocol| protocol.0),
        ifindex: 0,
        user: 0,
    }
}

fn direction_of(dir: u8) -> Result<Direction, Refusal> {
    match dir {
        0 => Ok(Direction::In),
        1 => Ok(Direction::Out),
        2 => Ok(Direction::Forward),
        _ => Err(invalid("the direction must be in, out or fwd")),
    }
}

fn put_direction(direction: Direction) -> u8 {
    match direction {
        Direction::In => 0,
        Direction::Out => 1,
        Direction::Forward => 2,
    }
}

fn check_type(attributes: Attributes<'_>) -> Result<(), Refusal> {
    match attributes.find(a::POLICY_TYPE).and_then(|value| value.first()) {
        None | Some(0) => Ok(()),
        Some(_) => Err(invalid("there are no sub-policies")),
    }
}

fn template_of(value: &[u8]) -> Result<Template, Refusal> {
    let template = layout::Template::parse(value).ok_or_else(|| invalid("XFRMA_TMPL is too short"))?;
    if !layout::Template::rest(value).is_empty() {
        return Err(Refusal::new(
            libc::EOPNOTSUPP,
            "a policy has one template here: no IPComp, and no AH around ESP",
        ));
    }
    check_protocol(template.id.proto)?;
    let end = |address: Address| {
        address
            .of_family(template.family)
            .ok_or_else(|| invalid("a template's family must be that of IPv4 or IPv6"))
    };
    let (from, to) = (end(template.saddr)?, end(template.id.daddr)?);
    let kind = match template.mode {
        TRANSPORT => IpsecMode::Transport,
        TUNNEL => IpsecMode::Tunnel { from, to },
        _ => {
            return Err(Refusal::new(libc::EPROTONOSUPPORT, "a template's mode must be tunnel or transport"));
        }
    };
    Ok(Template {
        kind,
        reqid: template.reqid,
        spi: Some(template.id.spi.0).filter(|spi| *spi != 0),
        is_optional: template.optional != 0,
    })
}

/// What a request to add a policy asks for. Limits of policies are ignored: policies do not expire.
///
/// # Errors
/// What is wrong, or not supported.
pub fn policy_of(info: &PolicyInfo, attributes: Attributes<'_>) -> Result<Policy, Refusal> {
    let (direction, selector) = (direction_of(info.dir)?, selector_of(&info.sel)?);
    check_type(attributes)?;
    check_attributes(attributes)?;
    if info.index != 0 && info.index & 7 != u32::from(info.dir) {
        return Err(invalid("the low bits of a policy's index are its direction"));
    }
    let template = attributes.find(a::TMPL).filter(|value| !value.is_empty()).map(template_of).transpose()?;
    let action = match (info.action, template) {
        (ALLOW, None) => Action::Bypass,
        (ALLOW, Some(template)) => Action::Protect(template),
        (BLOCK, _) => Action::Discard,
        _ => return Err(invalid("the action must be allow or block")),
    };
    Ok(Policy { direction, selector, priority: info.priority, action, index: info.index })
}

/// Which policy a request means.
pub(crate) enum Which {
    Key(PolicyKey),
    Index(Direction, u32),
}

pub(crate) fn which_of(id: &layout::PolicyId, attributes: Attributes<'_>) -> Result<Which, Refusal> {
    check_type(attributes)?;
    check_attributes(attributes)?;
    let direction = direction_of(id.dir)?;
    if id.index != 0 {
        return Ok(Which::Index(direction, id.index));
    }
    Ok(Which::Key(PolicyKey { direction, selector: selector_of(&id.sel)? }))
}

/// The structure of a policy, without its template.
pub(crate) fn put_info(found: &Found<Policy>) -> PolicyInfo {
    let Found { what: policy, carried } = found;
    let lft = LifetimeConfig {
        soft_byte_limit: NO_LIMIT,
        hard_byte_limit: NO_LIMIT,
        soft_packet_limit: NO_LIMIT,
        hard_packet_limit: NO_LIMIT,
        ..LifetimeConfig::default()
    };
    PolicyInfo {
        sel: put_selector(&policy.selector),
        lft,
        curlft: put_current(carried),
        priority: policy.priority,
        index: policy.index,
        dir: put_direction(policy.direction),
        action: if policy.action == Action::Discard { BLOCK } else { ALLOW },
        flags: 0,
        share: 0,
    }
}

pub(crate) fn put_template(message: &mut Builder, template: &Template, inner_is_six: bool) {
    let (from, to, mode, family) = match template.kind {
        IpsecMode::Tunnel { from, to } => (from.into(), to.into(), TUNNEL, layout::family_of(to)),
        IpsecMode::Transport => {
            let family = if inner_is_six { layout::family::SIX } else { layout::family::FOUR };
            (Address::default(), Address::default(), TRANSPORT, family)
        }
    };
    let id = layout::Id { daddr: to, spi: layout::Spi(template.spi.unwrap_or(0)), proto: layout::ESP };
    let template = layout::Template {
        id,
        family,
        saddr: from,
        reqid: template.reqid,
        mode,
        share: 0,
        optional: template.is_optional.into(),
        aalgos: ALL,
        ealgos: ALL,
        calgos: ALL,
    };
    message.attribute(a::TMPL, &template.bytes());
}

/// Adds a policy with its template, as the kernel shows it.
pub fn put_policy(message: &mut Builder, found: &Found<Policy>) {
    message.put(&put_info(found).bytes());
    if let Action::Protect(template) = &found.what.action {
        put_template(message, template, found.what.selector.dst.is_six());
    }
    // struct xfrm_userpolicy_type: the main type.
    message.attribute(a::POLICY_TYPE, &[0; 6]);
}

/// Every port, or the only one: what a selector of one packet has.
pub(crate) fn only(port: Option<u16>) -> RangeInclusive<u16> {
    port.map_or(ANY_PORT, |port| port..=port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Carried;
    use crate::netlink::Messages;

    #[test]
    fn policies_come_back() {
        for text in [
            "src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 index 9 tmpl src 192.0.2.1 dst 198.51.100.1 proto esp reqid 7 mode tunnel spi 0x00000100",
            "src 10.1.0.0/16 dst 10.2.0.0/16 proto udp sport 512-1023 dport 53 dir in priority 0 action block",
            "src ::/0 dst ::/0 proto ipv6-icmp sport 135 dir fwd priority 0",
            "src 10.0.0.1/32 dst 10.0.0.2/32 dir in priority 0 tmpl proto esp reqid 1 mode transport level use",
            "src 2001:db8::/32 dst ::/0 dir fwd priority 0 tmpl src ::1 dst ::2 proto esp reqid 1 mode tunnel",
        ] {
            let policy = ipsec::text::parse_policy(text).unwrap();
            let mut message = Builder::new(layout::message::NEWPOLICY, 0, 0, 0);
            put_policy(&mut message, &Found { what: policy.clone(), carried: Carried::default() });
            let bytes = message.finish();
            let body = Messages(&bytes).next().unwrap().body;
            let info = PolicyInfo::parse(body).unwrap();
            assert_eq!(policy_of(&info, Attributes(PolicyInfo::rest(body))).unwrap(), policy, "{text}");
        }
    }

    #[test]
    fn ranges_of_ports_widen_to_masks() {
        assert_eq!(put_ports(&ANY_PORT), (Port(0), Port(0)));
        assert_eq!(put_ports(&(53..=53)), (Port(53), Port(0xffff)));
        assert_eq!(put_ports(&(500..=600)), (Port(0), Port(0xfc00)), "0 to 1023 is the smallest with a mask");
        assert_eq!(ports_of(Port(0x0f00), Port(0xff00)).unwrap(), 0x0f00..=0x0fff);
        assert!(ports_of(Port(1), Port(0x0101)).is_err());
    }
}
