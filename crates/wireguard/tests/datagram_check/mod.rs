// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any datagram: nothing ends the process, and what passes is an IP packet of the peer's network.

use std::cell::RefCell;

use crate::pair::{Side, inner};

thread_local! {
    static SIDES: RefCell<(Side, Side)> = RefCell::new(Side::pair());
}

/// Takes bytes as a packet from outside, as a message in a datagram, and as what a peer has sealed. The first byte says which. Returns whether something passed.
pub fn check(data: &[u8]) -> bool {
    let Some((kind, data)) = data.split_first() else { return false };
    SIDES.with_borrow_mut(|(a, b)| {
        let result = match kind % 3 {
            0 => b.receive(data),
            1 => b.receive(&datagram(data)),
            _ => match a.send(data) {
                Ok(sealed) => b.receive(&sealed),
                Err(_) => return false,
            },
        };
        b.said.clear();
        let Ok(Some(packet)) = result else { return result.is_ok() };
        assert_eq!(packet[0] >> 4, 4);
        assert_eq!(packet[12..14], [10, 1], "the peer's network");
        true
    })
}

/// A message with headers in front.
fn datagram(message: &[u8]) -> Vec<u8> {
    let message = &message[..message.len().min(2000)];
    let mut bytes = inner(1, 2, 28 + message.len());
    bytes[9] = 17;
    bytes[20..22].copy_from_slice(&7u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&51820u16.to_be_bytes());
    bytes[24..26].copy_from_slice(&(8 + message.len() as u16).to_be_bytes());
    bytes[28..].copy_from_slice(message);
    bytes
}
