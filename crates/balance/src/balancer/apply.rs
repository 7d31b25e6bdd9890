// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a decision does to a packet.

use super::Outcome;
use super::servers::Slot;
use crate::packet::{End, View, address, rewrite};
use crate::policy::Mode;

/// Sends a client's packet to a server.
#[inline]
pub(super) fn request(ip: &mut [u8], view: &View, slot: &Slot) -> Outcome {
    match slot.mode {
        Mode::Direct => Outcome::Direct(address(slot.address)),
        Mode::Nat => {
            let [_, port] = view.ports();
            rewrite(ip, view, End::Destination, slot.address, slot.port.unwrap_or(port));
            Outcome::Translated(address(slot.address))
        }
    }
}

/// Gives a server's packet the address and port of its service.
#[inline]
pub(super) fn answer(ip: &mut [u8], view: &View, (service, port): (u128, u16)) -> Outcome {
    rewrite(ip, view, End::Source, service, port);
    Outcome::Answered
}
