// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol's constants (white paper, 6.1 and 6.2). Times are in nanoseconds.

/// A second.
pub const SECOND: u64 = 1_000_000_000;
/// After so many packets a new session is wanted.
pub const REKEY_AFTER_MESSAGES: u64 = 1 << 60;
/// After so many packets a session is over.
pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);
/// At this age the initiator of a session wants a new one, if it has something to send.
pub const REKEY_AFTER: u64 = 120 * SECOND;
/// At this age a session is over.
pub const REJECT_AFTER: u64 = 180 * SECOND;
/// An initiation is given up after this time.
pub const REKEY_ATTEMPT: u64 = 90 * SECOND;
/// An initiation without an answer is repeated after this time.
pub const REKEY_TIMEOUT: u64 = 5 * SECOND;
/// Who has received and has nothing to say confirms it after this time.
pub const KEEPALIVE: u64 = 10 * SECOND;
/// Who has sent and hears nothing wants a new session after this time.
pub const SILENCE: u64 = KEEPALIVE + REKEY_TIMEOUT;
/// At this age a session that the initiator only receives by is replaced: the last moment at which a handshake still ends in time.
pub const REKEY_RECEIVING: u64 = REJECT_AFTER - KEEPALIVE - REKEY_TIMEOUT;
/// Keys are erased when no new ones have come for this time.
pub const ERASE_AFTER: u64 = 3 * REJECT_AFTER;
/// The least time between two initiations of one peer.
pub const INITIATION_GAP: u64 = SECOND / 50;
/// How long a cookie counts, and how long the secret behind it.
pub const COOKIE: u64 = 120 * SECOND;
