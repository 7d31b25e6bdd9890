// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any datagram: nothing ends the process, and what passes is an IP packet of the peer's network.

use std::cell::RefCell;

use crate::pair::{Side, datagram};

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
