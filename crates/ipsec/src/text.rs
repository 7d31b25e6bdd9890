// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations and policies as text, in the words of `ip xfrm`.
//!
//! ```text
//! src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x100 reqid 1 mode tunnel replay-window 1024 aead rfc4106(gcm(aes)) 0x... 128
//! src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 0 tmpl src 192.0.2.1 dst 198.51.100.1 proto esp reqid 1 mode tunnel
//! ```
//!
//! An association on a line, words in any order. What `ip xfrm` has and a router does not is refused by name.

mod association;
mod policy;
mod state;
#[cfg(test)]
mod tests;
mod words;

pub use association::{parse_association, show_association};
pub use policy::{parse_policy, parse_policy_key, show_policy};
pub use state::{show_event, show_state};
pub use words::{Mistake, Reservation, parse_id, parse_reservation, secrets};

/// Whether secrets are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They are.
    Shown,
    /// `***` stands in their place.
    Hidden,
}
