// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of TFTP (RFC 1350). A server answers each from a port of its own choice.

/// Where servers wait.
pub const PORT: u16 = 69;

/// Whether a datagram asks for a transfer: to read (1) or to write (2).
pub fn is_request(payload: &[u8]) -> bool {
    matches!(payload, [0, 1 | 2, _, ..])
}
