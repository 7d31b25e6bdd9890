// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in, for all elements that take ESP: associations are found, the whole batch is decrypted together, and each packet is checked against what it may be.

use std::net::IpAddr;

use arrayvec::ArrayVec;
use element::Reason;
use esp::inbound::{Arrived, Dropped, Found, accept as note_numbers, find, part, peek, unpack};
use esp::replay::{Refused, Window};
use esp::{Part, open};
use ipsec::{Association, Database, Flow, Id};
use packet::{Batch, Packet};
use sync::rcu::Reader;
use wire::ip::addresses;

use super::outbound::{AT_ONCE, Others, Verdict, carried, set_destination, sort};

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

/// Opens the packets of a batch, at most [`AT_ONCE`]. `association` finds an association by address and number; `admit` says of an opened packet whether it may
/// come by its association. Those that stay in the batch are what their senders protected.
pub(super) fn accept<'a>(
    batch: &mut Batch,
    (database, reader): (&Database, &Reader),
    here: Here,
    association: impl Fn(IpAddr, u32) -> Option<&'a Association>,
    admit: impl Fn(&Packet, &Association) -> Result<(), Reason>,
) -> Others {
    let mut others = Others::new();
    let known = sort(batch, &mut others, |packet| arrive(packet, here, &association));
    let opened = decrypt(batch, &known);
    let carried_flow = |(packet, known): (&Packet, &Known<'_>)| {
        Flow::read(peek(packet, &known.association.sa, &known.arrived)?)
    };
    database.fetch_arriving(batch.iter().zip(&known).filter_map(carried_flow), reader);
    let mut each = known.iter().zip(pass(&known, &opened, |known| &known.association.sa.window));
    sort(batch, &mut others, |packet| {
        let Some((Known { association, arrived, from }, passes)) = each.next() else {
            return Err(Verdict::Drop(Reason::BadEsp));
        };
        if let Err(why) = passes.and_then(|()| unpack(packet, &association.sa, arrived)) {
            note(association, why, here.worker);
            return Err(Verdict::Drop(reason(why)));
        }
        if !database.count(association, here.worker, carried(packet, association), here.now_ns) {
            return Err(Verdict::Drop(Reason::NoAssociation));
        }
        if let Some((port, _)) = arrived.udp {
            database.came_from(association, (*from, port), here.now_ns);
        }
        admit(packet, association).map_err(Verdict::Drop)?;
        if let Some((_, to)) = addresses(packet.data()) {
            set_destination(packet, to);
        }
        Ok(())
    });
    others
}

/// An ESP packet, the association that it names, and where it came from.
struct Known<'a> {
    association: &'a Association,
    arrived: Arrived,
    from: IpAddr,
}

/// The association that a packet names, the low bits of its number, and its length: only to look ahead.
pub(super) fn named(packet: &Packet) -> Option<(Id, u32, usize)> {
    let Ok(Found::Esp(arrived)) = find(packet.data()) else { return None };
    let (_, dst) = addresses(packet.data())?;
    Some((Id { dst, spi: arrived.spi }, arrived.low, packet.len()))
}

fn arrive<'a>(
    packet: &mut Packet,
    here: Here,
    association: &impl Fn(IpAddr, u32) -> Option<&'a Association>,
) -> Result<Known<'a>, Verdict> {
    let arrived = match find(packet.data()).map_err(|why| Verdict::Drop(reason(why)))? {
        Found::Esp(arrived) => arrived,
        Found::Ike => return Err(Verdict::Leave(here.ike, Reason::NoOutput)),
        Found::KeepAlive => return Err(Verdict::Drop(Reason::Discarded)),
    };
    let (from, to) = addresses(packet.data()).ok_or(Verdict::Drop(Reason::BadEsp))?;
    let known = association(to, arrived.spi).filter(|association| !association.is_over());
    let association = known.ok_or(Verdict::Drop(Reason::NoAssociation))?;
    Ok(Known { association, arrived, from })
}

/// Decrypts. Returns the sequence numbers of genuine packets.
fn decrypt(batch: &mut Batch, known: &[Known<'_>]) -> ArrayVec<Result<u64, Dropped>, AT_ONCE> {
    let mut parts: ArrayVec<Part<'_>, AT_ONCE> = ArrayVec::new();
    let mut opened: ArrayVec<Result<u64, Dropped>, AT_ONCE> = ArrayVec::new();
    for (packet, Known { association, arrived, .. }) in batch.iter_mut().zip(known) {
        opened.push(part(packet, &association.sa, arrived).map(|part| {
            let number = part.number;
            parts.push(part);
            number
        }));
    }
    open(&mut parts);
    let mut parts = parts.iter();
    for (opened, known) in opened.iter_mut().zip(known).filter(|(opened, _)| opened.is_ok()) {
        let is_genuine = parts.next().is_some_and(|part| part.is_genuine);
        known.association.sa.note_check(is_genuine);
        if !is_genuine {
            *opened = Err(Dropped::Forged);
        }
    }
    opened
}

/// Notes the numbers of genuine packets, those of a run of packets of one window together. Returns which packets pass.
pub(crate) fn pass<K, E: Copy + From<Refused>>(
    known: &[K],
    opened: &[Result<u64, E>],
    window: impl Fn(&K) -> &Window,
) -> ArrayVec<Result<(), E>, AT_ONCE> {
    let mut verdicts: ArrayVec<Result<(), E>, AT_ONCE> =
        opened.iter().map(|opened| opened.map(drop)).collect();
    let mut first = 0;
    for run in known.chunk_by(|a, b| std::ptr::eq(window(a), window(b))) {
        let (mut numbers, mut places) = (ArrayVec::<u64, AT_ONCE>::new(), ArrayVec::<usize, AT_ONCE>::new());
        for (place, opened) in opened.iter().enumerate().skip(first).take(run.len()) {
            if let Ok(number) = opened {
                numbers.push(*number);
                places.push(place);
            }
        }
        note_numbers(window(&run[0]), &numbers, |at, verdict| verdicts[places[at]] = verdict);
        first += run.len();
    }
    verdicts
}

/// Counts what an association has refused.
fn note(association: &Association, why: Dropped, worker: usize) {
    let line = association.lines.of(worker);
    match why {
        Dropped::Replayed => line.replayed.add(1),
        Dropped::TooOld => line.too_old.add(1),
        Dropped::Forged => line.forged.add(1),
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
