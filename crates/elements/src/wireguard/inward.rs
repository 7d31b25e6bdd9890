// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in: datagrams are opened, and handshake messages are worked on.

use arrayvec::ArrayVec;
use element::{Cx, Reason};
use packet::{Batch, Packet};
use wireguard::Device;
use wireguard::message::Message;
use wireguard::open::{Datagram, Dropped, Known, destination, named};
use wireguard::shake::{Here, Refusal};

use super::outward::release;
use super::send::{speak, wake};
use crate::ipsec::inbound::pass;
use crate::ipsec::outbound::{AT_ONCE, Others, Verdict, dispatch, set_destination, sort};

/// The output for packets that were opened.
const OPENED: usize = 1;
/// Handshake messages of a batch that are worked on at most.
const SHAKES: usize = 8;

/// A mark on packets that are handshake messages, and on those that carry nothing: they do not leave by the usual way.
const SHAKE: Verdict = Verdict::Leave(usize::MAX, Reason::HandshakeLimited);
const EMPTY: Verdict = Verdict::Leave(usize::MAX, Reason::Discarded);

/// Peers, by their numbers, that have shown that they have the keys of a session.
type Numbers = ArrayVec<u32, AT_ONCE>;

/// Opens a batch.
pub(super) fn inward(cx: &mut Cx<'_>, device: &Device, mtu: usize, mut batch: Batch) {
    let mut left = SHAKES;
    while !batch.is_empty() {
        let mut part = batch.split_front(AT_ONCE);
        let (now_ns, wall_ns, worker) = (cx.now(), cx.wall(), cx.worker());
        let here = Here { reader: cx.rcu(), worker, now_ns, wall_ns };
        let mut confirmed = Numbers::new();
        let mut others = open(&mut part, device, &here, &mut confirmed);
        finish(cx, device, mtu, &mut others, &mut left);
        confirmed.into_iter().for_each(|number| release(cx, device, mtu, number));
        dispatch(cx, others);
        if !part.is_empty() {
            cx.push_joined(OPENED, part);
        }
    }
}

/// Opens the packets of a batch, at most [`AT_ONCE`]. Those that stay in it are what was sealed.
fn open(batch: &mut Batch, device: &Device, here: &Here<'_>, confirmed: &mut Numbers) -> Others {
    let mut others = Others::new();
    let port = device.local(here.reader).port;
    if device.asks_ahead(here.reader, batch.len()) {
        let named: ArrayVec<(u32, u64), AT_ONCE> =
            batch.iter().filter_map(|packet| named(packet.data())).collect();
        device.fetch_to_open(here.reader, here.worker, &named);
    }
    let known = sort(batch, &mut others, |packet| recognise(packet, device, port, here));
    let mut numbers: ArrayVec<Result<u64, Dropped>, AT_ONCE> = ArrayVec::new();
    for (packet, known) in batch.iter_mut().zip(&known) {
        numbers.push(device.decrypt(packet, known).map(|()| known.counter + 1));
    }
    let mut each = known.iter().zip(pass(&known, &numbers, |known| known.session.window()));
    sort(batch, &mut others, |packet| {
        let (known, passes) = each.next().ok_or(Verdict::Drop(Reason::BadWireGuard))?;
        passes.map_err(verdict)?;
        if !known.session.is_confirmed() && confirmed.last() != Some(&known.peer.number) {
            confirmed.push(known.peer.number);
        }
        if !device.unpack(packet, known, here).map_err(verdict)? {
            return Err(EMPTY);
        }
        if let Some(to) = destination(packet.data()) {
            set_destination(packet, to);
        }
        Ok(())
    });
    others
}

fn recognise<'a>(
    packet: &Packet,
    device: &'a Device,
    port: u16,
    here: &Here<'a>,
) -> Result<Known<'a>, Verdict> {
    let datagram = Datagram::read(packet.data()).map_err(verdict)?;
    if datagram.port != port {
        return Err(Verdict::Drop(Reason::NotForUs));
    }
    match datagram.message(packet.data()) {
        Some(Message::Data(data)) => {
            device.recognise(here, datagram, (data.receiver, data.counter)).map_err(verdict)
        }
        Some(_) => Err(SHAKE),
        None => Err(Verdict::Drop(Reason::BadWireGuard)),
    }
}

/// Works on handshake messages, and ends what carries nothing. The others stay.
fn finish(cx: &mut Cx<'_>, device: &Device, mtu: usize, others: &mut Others, left: &mut usize) {
    let mut at = 0;
    while at < others.len() {
        match others[at].0 {
            SHAKE if *left > 0 => {
                *left -= 1;
                let (_, packet) = others.remove(at);
                shake(cx, device, mtu, packet);
            }
            SHAKE => {
                others[at].0 = Verdict::Drop(Reason::HandshakeLimited);
                at += 1;
            }
            EMPTY => {
                let (_, packet) = others.remove(at);
                cx.absorbed(&packet);
            }
            _ => at += 1,
        }
    }
}

fn shake(cx: &mut Cx<'_>, device: &Device, mtu: usize, packet: Packet) {
    let result = speak(cx, |here, send| {
        let datagram = Datagram::read(packet.data()).map_err(|_| Refusal::Forged)?;
        let message = datagram.message(packet.data()).ok_or(Refusal::Forged)?;
        device.shake(&message, datagram.path, here, send)
    });
    match result {
        Ok(session) => {
            cx.absorbed(&packet);
            wake(cx, device);
            if let Some(number) = session {
                release(cx, device, mtu, number);
            }
        }
        Err(Refusal::Limited) => cx.drop(Reason::HandshakeLimited, packet),
        Err(Refusal::Busy) => cx.drop(Reason::NoMemory, packet),
        Err(_) => cx.drop(Reason::HandshakeRefused, packet),
    }
}

fn verdict(why: Dropped) -> Verdict {
    Verdict::Drop(match why {
        Dropped::Malformed | Dropped::BadInner => Reason::BadWireGuard,
        Dropped::Fragment => Reason::BadFragment,
        Dropped::NoSession => Reason::NoSession,
        Dropped::Replayed => Reason::Replayed,
        Dropped::TooOld => Reason::OutsideWindow,
        Dropped::Forged => Reason::BadIcv,
        Dropped::NotAllowed => Reason::NotAllowed,
    })
}
