// SPDX-License-Identifier: MIT OR Apache-2.0
//! What any line as a packet, and any bytes as a packet's fields, must stand: shared by the fuzz target and the replay of its corpus.

use junctor_wire::compose::{compose, from_hex};
use junctor_wire::fields::{First, changes, fields, hex, looks_like_ip};

/// No panic for any bytes; and what is made can be taken apart.
pub fn check(bytes: &[u8]) {
    let of_ethernet = fields(bytes, First::Ethernet);
    let of_ip = fields(bytes, First::Ip);
    assert!(changes(&of_ethernet, &of_ethernet).is_empty());
    changes(&of_ethernet, &of_ip);
    looks_like_ip(bytes);
    assert_eq!(from_hex(&hex(bytes)).as_deref(), Ok(bytes));
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    if let Ok(made) = compose(line) {
        assert!(made.bytes.is_empty() || !fields(&made.bytes, made.first).is_empty());
        assert_eq!(compose(line), Ok(made), "the same again");
    }
}
