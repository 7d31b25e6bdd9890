// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way out, for all elements that protect packets: packets get their headers, then the whole batch is encrypted together.

use std::cell::Cell;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use arrayvec::ArrayVec;
use element::{Cx, Reason};
use esp::header::Header;
use esp::outbound::{EspAt, encapsulate, finish, inner_mtu, part};
use esp::{Part, Unfit, seal};
use ipsec::{Association, Database};
use packet::{Batch, Packet, anno};
use sync::rcu::Reader;
use wire::ipv4;

use crate::ip::ip_fragmenter::fragments_of as fragments;

/// The longest IPv6 packet in bytes that every link takes (RFC 8200, 5).
const IPV6_MTU: usize = 1280;
/// Lengths in bytes that the longest packet of a link may have.
pub(super) const MTUS: RangeInclusive<usize> = 576..=65535;
/// Packets that are worked on together.
pub(crate) const AT_ONCE: usize = 64;

/// What becomes of a packet that leaves the usual way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is dropped.
    Drop(Reason),
    /// It leaves by an output. If that is not connected, it is dropped.
    Leave(usize, Reason),
    /// Fragments of it, of so many bytes at most, are protected in its place.
    Split(usize),
}

/// What a policy says of a packet.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    /// This association protects it.
    Protect(&'a Association),
    /// It leaves with the protected ones, as it is.
    Pass,
    /// It leaves another way.
    Not(Verdict),
}

/// Packets that leave the usual way, in their order.
pub(crate) type Others = ArrayVec<(Verdict, Packet), AT_ONCE>;

/// Where, when and for what link packets are protected.
#[derive(Clone, Copy)]
pub(super) struct Here {
    /// The worker.
    pub worker: usize,
    /// Nanoseconds since the router started.
    pub now_ns: u64,
    /// The longest packet that may leave, in bytes.
    pub mtu: usize,
    /// The output for packets that are too long and must not be fragmented.
    pub too_big: usize,
    /// Whether IPv4 packets that a tunnel makes too long are fragmented before, and not after.
    pub splits: bool,
    /// Whether what is protected is marked as such.
    pub marks: bool,
    /// The output for packets protected in transport mode, if they do not leave with the others.
    pub transport: Option<usize>,
    /// The output for fragments that transport mode cannot protect.
    pub fragments: usize,
    /// Whether packets are this host's own: protected, those of IPv6 may be fragmented, too.
    pub is_own: bool,
}

/// Bytes of an Ethernet header.
const LINK_LEN: usize = 14;

/// Drops packets, or sends them out by their outputs.
pub(crate) fn dispatch(cx: &mut Cx<'_>, others: Others) {
    for (verdict, packet) in others {
        match verdict {
            Verdict::Drop(reason) => cx.drop(reason, packet),
            Verdict::Leave(output, reason) => cx.push_one_or_drop(output, packet, reason),
            Verdict::Split(_) => cx.drop(Reason::MustFragment, packet),
        }
    }
}

/// Works on a batch in parts of at most [`AT_ONCE`] packets. `work` returns those that leave another way; what it leaves in its part is sent out by `output`.
pub(crate) fn in_parts(
    cx: &mut Cx<'_>,
    mut batch: Batch,
    output: usize,
    work: impl Fn(&mut Batch, &Reader) -> Others,
) {
    while !batch.is_empty() {
        let mut part = batch.split_front(AT_ONCE);
        let came = part.len();
        let others = work(&mut part, cx.rcu());
        cx.made((part.len() + others.len()).saturating_sub(came));
        dispatch(cx, others);
        if !part.is_empty() {
            cx.push_joined(output, part);
        }
    }
}

/// Keeps the packets for which `keep` has a value, and returns the values. The others leave with their verdicts.
pub(crate) fn sort<T>(
    batch: &mut Batch,
    others: &mut Others,
    mut keep: impl FnMut(&mut Packet) -> Result<T, Verdict>,
) -> ArrayVec<T, AT_ONCE> {
    let mut kept = ArrayVec::new();
    let verdict = Cell::new(Verdict::Drop(Reason::NoOutput));
    let decide = |packet: &mut Packet| match keep(packet) {
        Ok(value) => {
            kept.push(value);
            true
        }
        Err(why) => {
            verdict.set(why);
            false
        }
    };
    batch.partition(decide, |packet| others.push((verdict.get(), packet)));
    kept
}

/// Protects the packets of a batch, at most [`AT_ONCE`], by the associations that `choose` names. Those that stay in the batch are protected, or are to pass.
pub(super) fn protect<'a>(
    batch: &mut Batch,
    database: &Database,
    here: Here,
    mut choose: impl FnMut(&Packet) -> Choice<'a>,
) -> Others {
    let mut others = Others::new();
    let mut long: ArrayVec<&Association, AT_ONCE> = ArrayVec::new();
    let chosen = sort(batch, &mut others, |packet| match choose(packet) {
        Choice::Protect(association) => {
            let fits = fits(packet, association, here).map(|()| Some(association));
            if let Err(Verdict::Split(_)) = fits {
                long.push(association);
            }
            fits
        }
        Choice::Pass => Ok(None),
        Choice::Not(verdict) => Err(verdict),
    });
    let mut each = chosen.iter().copied().zip(numbers(&chosen));
    let ready = sort(batch, &mut others, |packet| match each.next() {
        Some((Some(association), number)) => {
            let number = number.ok_or_else(|| {
                database.exhausted(association);
                Verdict::Drop(Reason::SequenceExhausted)
            })?;
            let at = begin(packet, association, number, database, here)?;
            Ok(Some(Ready { association, number, at }))
        }
        _ => Ok(None),
    });
    encrypt(batch, &ready);
    if let Some(output) = here.transport {
        set_apart(batch, &mut others, &ready, output);
    }
    if !long.is_empty() {
        split(batch, &mut others, &long, database, here);
    }
    others
}

/// Packets that were protected in transport mode leave by an output of their own.
fn set_apart(batch: &mut Batch, others: &mut Others, ready: &[Option<Ready<'_>>], output: usize) {
    let mut each = ready.iter();
    sort(batch, others, |_| match each.next() {
        Some(Some(Ready { association, .. })) if association.sa.mode == esp::Mode::Transport => {
            Err(Verdict::Leave(output, Reason::NoOutput))
        }
        _ => Ok(()),
    });
}

/// Protects fragments of packets that are too `long` for their associations. They leave behind the rest of the batch.
#[cold]
fn split(batch: &mut Batch, others: &mut Others, long: &[&Association], database: &Database, here: Here) {
    let mut associations = long.iter();
    for (verdict, packet) in std::mem::take(others) {
        let Verdict::Split(most) = verdict else {
            others.push((verdict, packet));
            continue;
        };
        let Some((association, mut fragments)) = associations.next().zip(fragments(&packet, most)) else {
            others.push((Verdict::Drop(Reason::NoMemory), packet));
            continue;
        };
        let mut refused = None;
        while refused.is_none() && !fragments.is_empty() {
            let mut part = fragments.split_front(AT_ONCE);
            // They fit, so they are not split again.
            let whole = Here { splits: false, ..here };
            let verdicts = protect(&mut part, database, whole, |_| Choice::Protect(association));
            refused = verdicts.into_iter().map(|(verdict, _)| verdict).next();
            batch.append(&mut part);
        }
        // Without one of its fragments, the packet is lost.
        if let Some(verdict) = refused {
            others.push((verdict, packet));
        }
    }
}

/// A packet that has its headers, and is to be encrypted.
pub(super) struct Ready<'a> {
    pub association: &'a Association,
    pub number: u64,
    pub at: EspAt,
}

/// The longest packet that link and path take, in bytes.
#[inline]
pub(super) fn longest(association: &Association, here: Here) -> usize {
    usize::from(association.path_mtu(here.now_ns)).min(here.mtu)
}

/// Whether a packet fits link and path when it is protected, or may be fragmented afterwards.
fn fits(packet: &mut Packet, association: &Association, here: Here) -> Result<(), Verdict> {
    let sa = &association.sa;
    let most = longest(association, here);
    let header = match sa.mode {
        // A tunnel carries extension headers as it carries all else.
        esp::Mode::Tunnel { .. } => Header::read_fixed(packet.data()),
        esp::Mode::Transport => Header::read(packet.data()),
    };
    let header = header.map_err(|why| Verdict::Drop(reason(why)))?;
    if header.is_fragment && sa.mode == esp::Mode::Transport {
        return Err(Verdict::Leave(here.fragments, Reason::EspFragment));
    }
    let inner = inner_mtu(sa, most, header.len);
    // An IPv6 packet that every link takes is not refused. The tunnel's packet is fragmented instead.
    let is_least = header.is_six && header.packet_len <= IPV6_MTU;
    if header.packet_len <= inner || is_least || header.is_six && here.is_own {
        return Ok(());
    }
    if !header.dont_fragment {
        let is_tunnel = matches!(sa.mode, esp::Mode::Tunnel { .. });
        return if here.splits && is_tunnel { Err(Verdict::Split(inner)) } else { Ok(()) };
    }
    packet.set_anno_u32(anno::PATH_MTU, inner as u32);
    Err(Verdict::Leave(here.too_big, Reason::MustFragment))
}

/// Sequence numbers for packets of these associations. A run of packets of one association takes its numbers at once.
fn numbers(chosen: &[Option<&Association>]) -> ArrayVec<Option<u64>, AT_ONCE> {
    let mut numbers = ArrayVec::new();
    let address = |association: &Option<&Association>| association.map(std::ptr::from_ref);
    for run in chosen.chunk_by(|a, b| address(a) == address(b)) {
        let Some(association) = run[0] else {
            numbers.extend(run.iter().map(|_| None));
            continue;
        };
        let first = association.sa.take_numbers(run.len() as u32);
        for at in 0..run.len() as u64 {
            // Near the end, as many packets as there are numbers still pass.
            numbers.push(first.map(|first| first + at).or_else(|| association.sa.take_numbers(1)));
        }
    }
    numbers
}

/// Gives a packet its headers, and counts it.
fn begin(
    packet: &mut Packet,
    association: &Association,
    number: u64,
    database: &Database,
    here: Here,
) -> Result<EspAt, Verdict> {
    let len = carried(packet, association);
    let most = longest(association, here);
    let is_transport = association.sa.mode == esp::Mode::Transport;
    let link = here.transport.filter(|_| is_transport).and_then(|_| stripped(packet));
    let at = encapsulate(packet, &association.sa, number, most).map_err(|why| Verdict::Drop(reason(why)))?;
    if let Some(link) = link {
        put_in_front(packet, link)?;
    }
    if !database.count(association, here.worker, len, here.now_ns) {
        return Err(Verdict::Drop(Reason::NoAssociation));
    }
    if let esp::Mode::Tunnel { to, .. } = association.sa.mode {
        set_destination(packet, to);
        if packet.len() > most {
            allow_fragments(packet);
        }
    }
    packet.set_anno_u32(anno::PATH_MTU, most as u32);
    if here.marks {
        packet.set_anno_u8(anno::OPENED, anno::PROTECTED);
    }
    Ok(at)
}

/// The link header that was stripped off a packet, if there is room for one.
fn stripped(packet: &mut Packet) -> Option<[u8; LINK_LEN]> {
    if !packet.unstrip(LINK_LEN) {
        return None;
    }
    let link = packet.data().first_chunk().copied();
    packet.strip(LINK_LEN);
    link
}

/// Puts a link header in front of a packet, and strips it again.
fn put_in_front(packet: &mut Packet, link: [u8; LINK_LEN]) -> Result<(), Verdict> {
    let bytes = packet.push(LINK_LEN).ok_or(Verdict::Drop(Reason::NoMemory))?;
    bytes[..LINK_LEN].copy_from_slice(&link);
    packet.strip(LINK_LEN);
    Ok(())
}

/// Bytes of a packet that count for its association, as Linux counts them: what is protected, but for the trailer.
pub(super) fn carried(packet: &Packet, association: &Association) -> usize {
    let header_len = match association.sa.mode {
        esp::Mode::Tunnel { .. } => 0,
        esp::Mode::Transport => Header::read(packet.data()).map_or(0, |header| header.len),
    };
    packet.len() - header_len
}

/// A tunnel's packet that is too long is there because what it carries is not: it must be fragmented.
#[cold]
fn allow_fragments(packet: &mut Packet) {
    if packet.data().first().is_some_and(|first| first >> 4 == 4)
        && let Ok(mut header) = ipv4::HeaderMut::from_slice(packet.data_mut())
    {
        let fragment = header.as_header().fragment();
        header.rewrite_fragment(fragment & !ipv4::FLAG_DF);
    }
}

pub(super) fn encrypt(batch: &mut Batch, ready: &[Option<Ready<'_>>]) {
    let mut parts: ArrayVec<Part<'_>, AT_ONCE> = ArrayVec::new();
    for (packet, ready) in batch.iter_mut().zip(ready) {
        let Some(Ready { association, number, at }) = ready else { continue };
        parts.push(part(packet, &association.sa, *at, *number));
    }
    seal(&mut parts);
    drop(parts);
    for (packet, ready) in batch.iter_mut().zip(ready) {
        let Some(Ready { association, at, .. }) = ready else { continue };
        finish(packet, &association.sa, *at);
    }
}

/// Sets the destination annotation.
pub(crate) fn set_destination(packet: &mut Packet, to: IpAddr) {
    match to {
        IpAddr::V4(four) => packet.set_dst_ip(four.octets()),
        IpAddr::V6(six) => packet.set_anno(anno::DST_IP, six.octets()),
    }
}

fn reason(why: Unfit) -> Reason {
    match why {
        Unfit::NotIp => Reason::BadLength,
        Unfit::Fragment => Reason::EspFragment,
        Unfit::TooLong => Reason::TooLong,
        Unfit::NoMemory => Reason::NoMemory,
    }
}
