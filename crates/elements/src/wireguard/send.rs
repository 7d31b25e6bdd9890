// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that the device itself sends: handshakes, cookies and keepalives.

use element::{Cx, Reason};
use packet::Packet;
use wireguard::Device;
use wireguard::endpoint::Outer;
use wireguard::shake::Here;
use wireguard::waiting::Lost;

use crate::ipsec::outbound::set_destination;

/// The output for what goes outside.
pub(super) const OUTSIDE: usize = 0;

/// Packets for messages. `None` stands for one for which there was no memory.
pub(super) type Messages = Vec<Option<Packet>>;

/// A message with its headers.
pub(super) fn compose(outer: Outer, message: &[u8]) -> Option<Packet> {
    let mut packet = Packet::alloc(packet::HEADROOM, outer.size() + message.len())?;
    packet.data_mut()[outer.size()..].copy_from_slice(message);
    outer.write(packet.data_mut());
    packet.set_network(0, outer.ip_len());
    set_destination(&mut packet, outer.to());
    Some(packet)
}

/// Lets the device do something, and sends what it says.
pub(super) fn speak<R>(
    cx: &mut Cx<'_>,
    act: impl FnOnce(&Here<'_>, &mut wireguard::shake::Send<'_>) -> R,
) -> R {
    let (now_ns, wall_ns, worker) = (cx.now(), cx.wall(), cx.worker());
    let mut messages = Messages::new();
    let here = Here { reader: cx.rcu(), worker, now_ns, wall_ns };
    let result = act(&here, &mut |outer, message| messages.push(compose(outer, message)));
    for message in messages {
        cx.made(1);
        match message {
            Some(packet) => cx.push_one(OUTSIDE, packet),
            None => cx.count_drops(Reason::NoMemory, 1),
        }
    }
    result
}

/// The timer by which time passes for the device.
pub(super) const TICK: u32 = 1;

/// Has time pass for the device, and sets the timer for the next time.
pub(super) fn tick(cx: &mut Cx<'_>, device: &Device) {
    let next = speak(cx, |here, send| device.tick(here, send));
    lose(cx, device);
    match next {
        Some(at) => cx.set_timer(TICK, at),
        None => cx.clear_timer(TICK),
    }
}

/// Drops packets that wait no longer.
pub(super) fn lose(cx: &mut Cx<'_>, device: &Device) {
    for (why, packet) in device.take_lost() {
        let reason = match why {
            Lost::Unanswered => Reason::HandshakeUnanswered,
            Lost::Removed => Reason::NoPeer,
        };
        cx.drop(reason, packet);
    }
}

/// Something has started that ends by time.
pub(super) fn wake(cx: &mut Cx<'_>, device: &Device) {
    let at = device.wake(cx.now());
    if cx.timer(TICK).is_none() {
        cx.set_timer(TICK, at);
    }
}
