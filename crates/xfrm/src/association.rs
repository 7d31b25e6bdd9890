// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations: `xfrm_usersa_info` with its attributes, to and from [`AssociationConfig`].

use std::net::IpAddr;

use esp::replay;
use esp::sa::{DontFragment, Rules, UdpPorts};
use ipsec::{AssociationConfig, Id, Life, Limits, Progress, Usage};

use crate::algorithm::{put_spec, spec_of};
use crate::kernel::{Carried, Found, Refusal};
use crate::layout::{self, Address, LifetimeConfig, LifetimeCurrent, NO_LIMIT, Sa, attribute as a, family};
use crate::netlink::{Attributes, Builder};
use crate::policy::{put_selector, selector_of};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The largest window that the old form of replay state has.
const OLD_WINDOW: u32 = 32;

/// Modes (`XFRM_MODE_...`).
pub(crate) const TRANSPORT: u8 = 0;
pub(crate) const TUNNEL: u8 = 1;

/// Flags of associations (`XFRM_STATE_...`).
mod state {
    pub const NOECN: u8 = 1;
    pub const DECAP_DSCP: u8 = 2;
    pub const NOPMTUDISC: u8 = 4;
    pub const AF_UNSPEC: u8 = 32;
    pub const ESN: u8 = 128;
}

/// More flags (`XFRM_SA_XFLAG_...`).
const DONT_ENCAP_DSCP: u32 = 1;
/// UDP around ESP (`UDP_ENCAP_ESPINUDP`).
const ESPINUDP: u16 = 2;

fn invalid(why: &str) -> Refusal {
    Refusal::new(libc::EINVAL, why)
}

fn unsupported(why: &str) -> Refusal {
    Refusal::new(libc::EOPNOTSUPP, why)
}

/// Whether a protocol is one of ours.
pub(crate) fn check_protocol(protocol: u8) -> Result<(), Refusal> {
    let no = |name: &str| {
        Err(Refusal::new(libc::EPROTONOSUPPORT, format!("this router has ESP only, not {name}")))
    };
    match protocol {
        layout::ESP => Ok(()),
        layout::AH => no("AH"),
        layout::IPCOMP => no("IPComp"),
        _ => Err(invalid("that is no protocol of IPsec")),
    }
}

/// Refuses attributes that ask for what a router does not have.
pub(crate) fn check_attributes(attributes: Attributes<'_>) -> Result<(), Refusal> {
    for (kind, value) in attributes {
        let number = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let is_zero = value.iter().all(|byte| *byte == 0);
        match kind {
            a::MARK | a::SET_MARK if !is_zero => {
                return Err(unsupported("packets have no marks here: leave them out"));
            }
            a::IF_ID if number != 0 => {
                return Err(unsupported("there are no XFRM interfaces here: leave if_id out"));
            }
            a::OFFLOAD_DEV => return Err(unsupported("there is no hardware offload: set hw_offload = no")),
            a::SEC_CTX => return Err(unsupported("security contexts are not supported")),
            a::NAT_KEEPALIVE_INTERVAL if number != 0 => {
                return Err(unsupported("keepalives are the key daemon's"));
            }
            a::SA_PCPU if number != u32::MAX => return Err(unsupported("associations are for all CPUs")),
            a::COADDR => {
                return Err(Refusal::new(libc::EPROTONOSUPPORT, "care-of addresses are not supported"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn limits_of(lft: &LifetimeConfig) -> Limits {
    let count = |limit: u64| (limit != NO_LIMIT).then_some(limit);
    let seconds = |limit: u64| (limit != 0).then(|| limit.saturating_mul(SECOND));
    Limits {
        bytes: [count(lft.soft_byte_limit), count(lft.hard_byte_limit)],
        packets: [count(lft.soft_packet_limit), count(lft.hard_packet_limit)],
        age_ns: [seconds(lft.soft_add_expires_seconds), seconds(lft.hard_add_expires_seconds)],
        use_ns: [seconds(lft.soft_use_expires_seconds), seconds(lft.hard_use_expires_seconds)],
    }
}

fn put_limits(limits: &Limits) -> LifetimeConfig {
    let count = |limit: Option<u64>| limit.unwrap_or(NO_LIMIT);
    let seconds = |limit: Option<u64>| limit.map_or(0, |ns| ns.div_ceil(SECOND));
    LifetimeConfig {
        soft_byte_limit: count(limits.bytes[0]),
        hard_byte_limit: count(limits.bytes[1]),
        soft_packet_limit: count(limits.packets[0]),
        hard_packet_limit: count(limits.packets[1]),
        soft_add_expires_seconds: seconds(limits.age_ns[0]),
        hard_add_expires_seconds: seconds(limits.age_ns[1]),
        soft_use_expires_seconds: seconds(limits.use_ns[0]),
        hard_use_expires_seconds: seconds(limits.use_ns[1]),
    }
}

/// The number that a bit of the old form stands for is `top` less the bit's; a ring of `size` has it elsewhere.
fn ring_bit(top: u64, age: u64, size: u32) -> (usize, u32) {
    let bit = ((top - age - 1) % u64::from(size)) as u32;
    ((bit / 32) as usize, bit % 32)
}

/// The window and where it is, from either form.
fn window_of(sa: &Sa, attributes: Attributes<'_>) -> Result<(u32, Progress), Refusal> {
    let is_extended = sa.flags & state::ESN != 0;
    if let Some(value) = attributes.find(a::REPLAY_ESN_VAL) {
        let head =
            layout::ReplayEsn::parse(value).ok_or_else(|| invalid("XFRMA_REPLAY_ESN_VAL is too short"))?;
        let words = layout::ReplayEsn::rest(value).as_chunks::<4>().0;
        let is_window = head.replay_window <= replay::MOST && head.replay_window.div_ceil(32) <= head.bmp_len;
        if sa.replay_window != 0 || head.bmp_len as usize > words.len() && !words.is_empty() || !is_window {
            return Err(invalid(
                "XFRMA_REPLAY_ESN_VAL: the window, its bitmap and replay_window do not fit together",
            ));
        }
        let bitmap = words.iter().take(head.bmp_len as usize).map(|word| u32::from_ne_bytes(*word)).collect();
        let whole = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let (sent, top) = (whole(head.oseq_hi, head.oseq), whole(head.seq_hi, head.seq));
        let progress = Progress { sent, top, bitmap, ..Progress::default() };
        let is_fresh = sent == 0 && top == 0;
        return Ok((head.replay_window, if is_fresh { Progress::default() } else { progress }));
    }
    if is_extended {
        return Err(invalid("extended sequence numbers need XFRMA_REPLAY_ESN_VAL"));
    }
    let size = u32::from(sa.replay_window).min(OLD_WINDOW);
    let Some(old) = attributes.find(a::REPLAY_VAL).and_then(layout::Replay::parse) else {
        return Ok((size, Progress::default()));
    };
    let top = u64::from(old.seq);
    let mut bitmap = vec![0u32; size.div_ceil(32) as usize];
    for age in (0..u64::from(size).min(top)).filter(|age| old.bitmap >> age & 1 == 1) {
        let (word, bit) = ring_bit(top, age, size);
        bitmap[word] |= 1 << bit;
    }
    let progress = Progress { sent: old.oseq.into(), top, bitmap, ..Progress::default() };
    let is_fresh = progress.sent == 0 && top == 0;
    Ok((size, if is_fresh { Progress::default() } else { progress }))
}

/// Whether the new form of replay state is needed.
fn is_new_form(esp: &esp::Config) -> bool {
    esp.is_extended || esp.window > OLD_WINDOW
}

/// Adds the attribute that says where a window is.
pub(crate) fn put_window(message: &mut Builder, config: &AssociationConfig) {
    let (esp, Progress { sent, top, bitmap, .. }) = (&config.esp, &config.progress);
    if is_new_form(esp) {
        let words = esp.window.div_ceil(32);
        let head = layout::ReplayEsn {
            bmp_len: words,
            oseq: *sent as u32,
            seq: *top as u32,
            oseq_hi: (sent >> 32) as u32,
            seq_hi: (top >> 32) as u32,
            replay_window: esp.window,
        };
        let word = |at: usize| bitmap.get(at).copied().unwrap_or(0).to_ne_bytes();
        let bytes: Vec<u8> = (0..words as usize).flat_map(word).collect();
        message.attribute_of(a::REPLAY_ESN_VAL, &[&head.bytes(), &bytes]);
        return;
    }
    let is_set = |age: &u64| {
        let (word, bit) = ring_bit(*top, *age, esp.window);
        bitmap.get(word).is_some_and(|word| word >> bit & 1 == 1)
    };
    let set = (0..u64::from(esp.window).min(*top)).filter(is_set);
    let bitmap = set.fold(0, |bits, age| bits | 1u32 << age);
    let old = layout::Replay { oseq: *sent as u32, seq: *top as u32, bitmap };
    message.attribute(a::REPLAY_VAL, &old.bytes());
}

fn udp_of(attributes: Attributes<'_>) -> Result<Option<UdpPorts>, Refusal> {
    let Some(value) = attributes.find(a::ENCAP) else { return Ok(None) };
    let encap = layout::Encap::parse(value).ok_or_else(|| invalid("XFRMA_ENCAP is too short"))?;
    if encap.encap_type != ESPINUDP {
        return Err(Refusal::new(libc::ENOPROTOOPT, "ESP goes in UDP as RFC 3948 has it, or in IP"));
    }
    Ok(Some(UdpPorts { from: encap.encap_sport.0, to: encap.encap_dport.0 }))
}

fn rules_of(sa: &Sa, attributes: Attributes<'_>) -> Result<Rules, Refusal> {
    let extra = attributes.number(a::SA_EXTRA_FLAGS).unwrap_or(0);
    if extra & !DONT_ENCAP_DSCP != 0 {
        return Err(unsupported("of XFRMA_SA_EXTRA_FLAGS only dont-encap-dscp is supported"));
    }
    let has = |flag: u8| sa.flags & flag != 0;
    let pad_to = attributes.number(a::TFCPAD).unwrap_or(0);
    if pad_to != 0 && sa.mode != TUNNEL {
        return Err(invalid("padding against traffic analysis needs tunnel mode"));
    }
    Ok(Rules {
        dont_fragment: if has(state::NOPMTUDISC) { DontFragment::Clear } else { DontFragment::Copy },
        copy_dscp: extra & DONT_ENCAP_DSCP == 0,
        decap_dscp: has(state::DECAP_DSCP),
        ecn: !has(state::NOECN),
        pad_to: pad_to.min(u16::MAX.into()) as u16,
        ..Rules::default()
    })
}

/// The two ends of an association.
fn ends_of(sa: &Sa) -> Result<(IpAddr, IpAddr), Refusal> {
    let end = |address: Address| address.of_family(sa.family);
    end(sa.saddr).zip(end(sa.id.daddr)).ok_or_else(|| invalid("the family must be that of IPv4 or IPv6"))
}

/// The life of an association before it was added (`XFRMA_LTIME_VAL`), as a key daemon says it of one that it moves. `wall` is now, in seconds since 1970.
pub(crate) fn life_of(attributes: Attributes<'_>, wall: u64) -> Life {
    let Some(current) = attributes.find(a::LTIME_VAL).and_then(LifetimeCurrent::parse) else {
        return Life::default();
    };
    // No time is said by 0.
    let ago = |then: u64| (then != 0).then(|| wall.saturating_sub(then).saturating_mul(SECOND));
    Life {
        usage: Usage { packets: current.packets, bytes: current.bytes },
        age_ns: ago(current.add_time).unwrap_or(0),
        used_ns: ago(current.use_time),
    }
}

/// What a request to add an association asks for.
///
/// # Errors
/// What is wrong, or not supported.
pub fn config_of(sa: &Sa, attributes: Attributes<'_>) -> Result<AssociationConfig, Refusal> {
    let (src, dst) = ends_of(sa)?;
    check_protocol(sa.id.proto)?;
    check_attributes(attributes)?;
    let mode = match sa.mode {
        TRANSPORT => esp::Mode::Transport,
        TUNNEL => esp::Mode::Tunnel { from: src, to: dst },
        _ => return Err(Refusal::new(libc::EPROTONOSUPPORT, "the mode must be tunnel or transport")),
    };
    let selector = match sa.sel.family {
        family::UNSPECIFIED => None,
        _ => Some(selector_of(&sa.sel)?),
    };
    // One of all packets is none.
    let is_all = |selector: &ipsec::Selector| {
        *selector
            == ipsec::Selector::between(
                wire::Prefix::all(selector.src.is_six()),
                wire::Prefix::all(selector.dst.is_six()),
            )
    };
    let (window, progress) = window_of(sa, attributes)?;
    let esp = esp::Config {
        spi: sa.id.spi.0,
        mode,
        udp: udp_of(attributes)?,
        spec: spec_of(attributes)?,
        is_extended: sa.flags & state::ESN != 0,
        window,
        rules: rules_of(sa, attributes)?,
    };
    let (reqid, limits) = (sa.reqid, limits_of(&sa.lft));
    Ok(AssociationConfig {
        src,
        dst,
        esp,
        reqid,
        selector: selector.filter(|s| !is_all(s)),
        limits,
        progress,
    })
}

/// Which association a request means.
pub(crate) fn id_of(id: &layout::SaId) -> Result<Id, Refusal> {
    let dst =
        id.daddr.of_family(id.family).ok_or_else(|| invalid("the family must be that of IPv4 or IPv6"))?;
    Ok(Id { dst, spi: id.spi.0 })
}

pub(crate) fn put_current(carried: &Carried) -> LifetimeCurrent {
    let Carried { usage, made, used, .. } = carried;
    LifetimeCurrent { bytes: usage.bytes, packets: usage.packets, add_time: *made, use_time: *used }
}

/// The structure of an association, without its attributes.
pub(crate) fn put_sa(found: &Found<AssociationConfig>) -> Sa {
    let Found { what: config, carried } = found;
    let (esp, is_tunnel) = (&config.esp, config.esp.mode != esp::Mode::Transport);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let outer = layout::family_of(config.dst);
    let any = layout::Selector { family: if is_tunnel { 0 } else { outer }, ..Default::default() };
    Sa {
        sel: config.selector.as_ref().map_or(any, put_selector),
        id: layout::Id { daddr: config.dst.into(), spi: layout::Spi(esp.spi), proto: layout::ESP },
        saddr: config.src.into(),
        lft: put_limits(&config.limits),
        curlft: put_current(carried),
        stats: layout::Stats {
            replay_window: carried.too_old as u32,
            replay: carried.replayed as u32,
            integrity_failed: carried.forged as u32,
        },
        seq: 0,
        reqid: config.reqid,
        family: outer,
        mode: if is_tunnel { TUNNEL } else { TRANSPORT },
        replay_window: if is_new_form(esp) { 0 } else { esp.window as u8 },
        flags: flag(!esp.rules.ecn, state::NOECN)
            | flag(esp.rules.decap_dscp, state::DECAP_DSCP)
            | flag(esp.rules.dont_fragment == DontFragment::Clear, state::NOPMTUDISC)
            | flag(is_tunnel, state::AF_UNSPEC)
            | flag(esp.is_extended, state::ESN),
    }
}

/// Adds an association with its attributes, keys among them, as the kernel shows it.
pub fn put_association(message: &mut Builder, found: &Found<AssociationConfig>) {
    let esp = &found.what.esp;
    message.put(&put_sa(found).bytes());
    if !esp.rules.copy_dscp {
        message.attribute(a::SA_EXTRA_FLAGS, &DONT_ENCAP_DSCP.to_ne_bytes());
    }
    put_spec(message, &esp.spec);
    if let Some(UdpPorts { from, to }) = esp.udp {
        let encap = layout::Encap {
            encap_type: ESPINUDP,
            encap_sport: layout::Port(from),
            encap_dport: layout::Port(to),
            encap_oa: Address::default(),
        };
        message.attribute(a::ENCAP, &encap.bytes());
    }
    if esp.rules.pad_to != 0 {
        message.attribute(a::TFCPAD, &u32::from(esp.rules.pad_to).to_ne_bytes());
    }
    put_window(message, &found.what);
}

#[cfg(test)]
mod tests;
