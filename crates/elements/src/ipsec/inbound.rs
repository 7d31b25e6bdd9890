// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in, for all elements that take ESP: associations are found, the whole batch is decrypted together, and each packet is checked against what it may be.

use std::net::IpAddr;

use arrayvec::ArrayVec;
use engine::Reason;
use esp::inbound::{Arrived, Dropped, Found, decapsulate, find, part};
use esp::{Part, open};
use ipsec::{Association, Database};
use packet::{Batch, Packet};
use wire::{ipv4, ipv6};

use super::outbound::{AT_ONCE, Fate, Others, set_destination, sort};

/// Where and when packets are opened.
#[derive(Clone, Copy)]
pub(super) struct Here {
    /// The worker.
    pub worker: usize,
    /// Nanoseconds since the router started.
    pub now_ns: u64,
    /// The output for messages of IKE that came by UDP.
    pub ike: usize,
}

/// Source and destination address of the packet that begins here.
pub(super) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Header::from_chunk(packet.first_chunk()?);
            Some((header.src().into(), header.dst().into()))
        }
        6 => {
            let header = ipv6::Header::from_chunk(packet.first_chunk()?);
            Some((header.src().into(), header.dst().into()))
        }
        _ => None,
    }
}

/// Opens the packets of a batch, at most [`AT_ONCE`]. `association` finds an association by address and number; `admit` says of an opened packet whether it may
/// come by its association. Those that stay in the batch are what their senders protected.
pub(super) fn accept<'a>(
    batch: &mut Batch,
    database: &Database,
    here: Here,
    association: impl Fn(IpAddr, u32) -> Option<&'a Association>,
    admit: impl Fn(&Packet, &Association) -> Result<(), Reason>,
) -> Others {
    let mut others = Others::new();
    let arrived = sort(batch, &mut others, |packet| arrive(packet, here, &association));
    let opened = decrypt(batch, &arrived);
    let mut each = arrived.iter().zip(opened);
    sort(batch, &mut others, |packet| {
        let Some(((association, arrived, from), (number, is_genuine))) = each.next() else {
            return Err(Fate::Drop(Reason::BadEsp));
        };
        let line = association.lines.of(here.worker);
        if !is_genuine {
            line.forged.add(1);
            return Err(Fate::Drop(Reason::BadIcv));
        }
        if let Err(why) = decapsulate(packet, &association.sa, arrived, number) {
            note(association, why, here.worker);
            return Err(Fate::Drop(reason(why)));
        }
        if !database.count(association, here.worker, packet.len(), here.now_ns) {
            return Err(Fate::Drop(Reason::NoAssociation));
        }
        if let Some((port, _)) = arrived.udp {
            database.came_from(association, (*from, port), here.now_ns);
        }
        admit(packet, association).map_err(Fate::Drop)?;
        if let Some((_, to)) = addresses(packet.data()) {
            set_destination(packet, to);
        }
        Ok(())
    });
    others
}

/// An ESP packet, the association that it names, and where it came from.
type Known<'a> = (&'a Association, Arrived, IpAddr);

fn arrive<'a>(
    packet: &mut Packet,
    here: Here,
    association: &impl Fn(IpAddr, u32) -> Option<&'a Association>,
) -> Result<Known<'a>, Fate> {
    let arrived = match find(packet.data()).map_err(|why| Fate::Drop(reason(why)))? {
        Found::Esp(arrived) => arrived,
        Found::Ike => return Err(Fate::Leave(here.ike, Reason::NoOutput)),
        Found::KeepAlive => return Err(Fate::Drop(Reason::Discarded)),
    };
    let (from, to) = addresses(packet.data()).ok_or(Fate::Drop(Reason::BadEsp))?;
    let known = association(to, arrived.spi).ok_or(Fate::Drop(Reason::NoAssociation))?;
    if known.is_over() {
        return Err(Fate::Drop(Reason::NoAssociation));
    }
    if let Err(why) = part(packet, &known.sa, &arrived) {
        note(known, why, here.worker);
        return Err(Fate::Drop(reason(why)));
    }
    Ok((known, arrived, from))
}

/// Decrypts. Returns each packet's sequence number, and whether it is genuine.
fn decrypt(batch: &mut Batch, arrived: &[Known<'_>]) -> ArrayVec<(u64, bool), AT_ONCE> {
    let mut parts: ArrayVec<Part<'_>, AT_ONCE> = ArrayVec::new();
    // All have passed this check. It asks the window again, which another worker may have moved: such a packet counts as not genuine.
    let mut is_there: ArrayVec<bool, AT_ONCE> = ArrayVec::new();
    for (packet, (association, arrived, _)) in batch.iter_mut().zip(arrived) {
        let part = part(packet, &association.sa, arrived).ok();
        is_there.push(part.is_some());
        parts.extend(part);
    }
    open(&mut parts);
    let mut parts = parts.iter();
    is_there
        .into_iter()
        .map(|is_there| {
            is_there.then(|| parts.next()).flatten().map_or((0, false), |p| (p.number, p.is_genuine))
        })
        .collect()
}

/// Counts what an association has refused.
fn note(association: &Association, why: Dropped, worker: usize) {
    let line = association.lines.of(worker);
    match why {
        Dropped::Replayed => line.replayed.add(1),
        Dropped::TooOld => line.too_old.add(1),
        _ => {}
    }
}

fn reason(why: Dropped) -> Reason {
    match why {
        Dropped::Malformed => Reason::BadEsp,
        Dropped::Fragment => Reason::EspFragment,
        Dropped::Replayed => Reason::Replayed,
        Dropped::TooOld => Reason::OutsideWindow,
        Dropped::Forged => Reason::BadIcv,
        Dropped::WrongMode => Reason::WrongAssociation,
        Dropped::Dummy => Reason::EspDummy,
        Dropped::Congestion => Reason::EcnLost,
    }
}
