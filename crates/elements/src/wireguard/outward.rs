// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way out: packets find their peers, and are sealed together.

use arrayvec::ArrayVec;
use element::{Cx, Reason};
use packet::{Batch, Packet, anno};
use sync::rcu::Reader;
use wireguard::Device;
use wireguard::seal::{Chosen, Unsealed};
use wireguard::waiting::Held;

use super::send::{OUTSIDE, speak, wake};
use crate::ipsec::outbound::{AT_ONCE, Others, Verdict, dispatch, set_destination, sort};

/// The output for packets that are too long.
const TOO_BIG: usize = 2;
/// Handshakes that a batch begins at most. The others wait for the next tick.
const HURRIES: usize = 2;

/// A mark on packets that wait for a session.
const WAIT: Verdict = Verdict::Leave(usize::MAX, Reason::NoSession);

/// Peers, by their numbers, whose sessions packets of a batch wait for.
type Waits = ArrayVec<u32, AT_ONCE>;

/// Peers that packets of a batch want handshakes with.
type Wanted = ArrayVec<u32, HURRIES>;

/// Where and when packets are sealed, and how long they may be.
#[derive(Clone, Copy)]
pub(super) struct Here {
    pub worker: usize,
    pub now_ns: u64,
    pub mtu: usize,
}

/// Seals a batch, and sends it outside.
pub(super) fn outward(cx: &mut Cx<'_>, device: &Device, mtu: usize, mut batch: Batch) {
    let here = Here { worker: cx.worker(), now_ns: cx.now(), mtu };
    let mut wanted = Wanted::new();
    let mut is_woken = false;
    while !batch.is_empty() {
        let mut part = batch.split_front(AT_ONCE);
        let mut waits = Waits::new();
        let others = seal(&mut part, device, cx.rcu(), here, &mut waits);
        if waits.is_empty() {
            dispatch(cx, others);
        } else {
            is_woken = true;
            note(&mut wanted, &waits);
            let mut ready = hold(cx, device, others, &waits);
            ready.append(&mut batch);
            batch = ready;
        }
        if !part.is_empty() {
            cx.push_joined(OUTSIDE, part);
        }
    }
    for number in wanted {
        speak(cx, |here, send| device.hurry(number, here, send));
    }
    if is_woken {
        wake(cx, device);
    }
}

/// Seals the packets of a batch, at most [`AT_ONCE`]. Those that stay in it are sealed.
fn seal(batch: &mut Batch, device: &Device, reader: &Reader, here: Here, waits: &mut Waits) -> Others {
    let mut others = Others::new();
    let mut numbers = peers(batch, device, reader, here.worker).into_iter();
    let chosen = sort(batch, &mut others, |packet| {
        let bytes = packet.data();
        let chosen = match numbers.next().flatten() {
            Some(number) => device.choose_of(reader, bytes, number, here.mtu, here.now_ns),
            None => device.choose(reader, bytes, here.mtu, here.now_ns),
        };
        chosen.map_err(|why| {
            match why {
                Unsealed::NoSession(number) => waits.push(number),
                Unsealed::TooBig(longest) => packet.set_anno_u32(anno::PATH_MTU, longest as u32),
                _ => {}
            }
            verdict(why)
        })
    });
    let mut each = chosen.iter().zip(counters(&chosen));
    sort(batch, &mut others, |packet| {
        let (chosen, counter) = each.next().ok_or(Verdict::Drop(Reason::NoSession))?;
        let counter = counter.ok_or_else(|| verdict(Unsealed::Exhausted))?;
        let to = device.seal(reader, packet, chosen, counter, (here.worker, here.now_ns)).map_err(verdict)?;
        set_destination(packet, to);
        Ok(())
    });
    others
}

/// The numbers of the peers that packets go to. With many peers, asks ahead for what sealing needs.
fn peers(batch: &Batch, device: &Device, reader: &Reader, worker: usize) -> ArrayVec<Option<u32>, AT_ONCE> {
    let numbers: ArrayVec<Option<u32>, AT_ONCE> =
        batch.iter().map(|packet| device.peer_of(reader, packet.data())).collect();
    if device.asks_ahead(reader, numbers.len()) {
        let known: ArrayVec<u32, AT_ONCE> = numbers.iter().copied().flatten().collect();
        device.fetch_to_seal(reader, worker, &known);
    }
    numbers
}

/// Notes peers to begin handshakes with, as many as there is room for.
fn note(wanted: &mut Wanted, waits: &[u32]) {
    for number in waits {
        if !wanted.contains(number) {
            let _ = wanted.try_push(*number);
        }
    }
}

/// Lets packets wait for sessions; the others leave by their verdicts. Returns those for which there is a session by now.
fn hold(cx: &mut Cx<'_>, device: &Device, others: Others, waits: &[u32]) -> Batch {
    let (mut ready, mut rest, mut numbers) = (Batch::new(), Others::new(), waits.iter());
    for (verdict, packet) in others {
        match numbers.as_slice().first() {
            Some(number) if verdict == WAIT => {
                numbers.next();
                hold_one(cx, device, *number, packet, &mut ready);
            }
            _ => rest.push((verdict, packet)),
        }
    }
    dispatch(cx, rest);
    ready
}

fn hold_one(cx: &mut Cx<'_>, device: &Device, number: u32, packet: Packet, ready: &mut Batch) {
    let now_ns = cx.now();
    cx.holds(&packet);
    match device.hold(cx.rcu(), number, packet, now_ns) {
        Held::Waits => {}
        Held::Displaces(packet) | Held::Full(packet) => cx.drop(Reason::HandshakeQueueFull, packet),
        Held::Gone(packet) => cx.drop(Reason::NoPeer, packet),
        Held::Ready(mut packets) => ready.append(&mut packets),
    }
}

/// Sends the packets that have waited for a session with a peer.
pub(super) fn release(cx: &mut Cx<'_>, device: &Device, mtu: usize, number: u32) {
    let batch = device.take_held(number);
    if !batch.is_empty() {
        outward(cx, device, mtu, batch);
    }
}

/// Counters for packets. A run of packets of one session takes its counters at once.
fn counters(chosen: &[Chosen<'_>]) -> ArrayVec<Option<u64>, AT_ONCE> {
    let mut counters = ArrayVec::new();
    for run in chosen.chunk_by(|a, b| std::ptr::eq(a.session, b.session)) {
        let first = run[0].session.take_counters(run.len() as u32);
        for at in 0..run.len() as u64 {
            // Near the end, as many packets as there are counters still pass.
            counters.push(first.map(|first| first + at).or_else(|| run[0].session.take_counters(1)));
        }
    }
    counters
}

fn verdict(why: Unsealed) -> Verdict {
    Verdict::Drop(match why {
        Unsealed::NotIp => Reason::BadLength,
        Unsealed::NoPeer => Reason::NoPeer,
        Unsealed::NoEndpoint => Reason::NoEndpoint,
        Unsealed::NoSession(_) => return WAIT,
        Unsealed::TooBig(_) => return Verdict::Leave(TOO_BIG, Reason::MustFragment),
        Unsealed::TooLong => Reason::TooLong,
        Unsealed::NoMemory => Reason::NoMemory,
        Unsealed::Exhausted => Reason::SequenceExhausted,
    })
}
