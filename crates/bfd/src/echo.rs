// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Echo function of a session (RFC 5880 sections 6.4 and 6.8.9): when echo packets leave, what they say, and which ones count when they return.
//!
//! The sender alone decides what an echo packet holds. Ours hold the session's discriminator, a number, and a random word. The word is new each time the
//! function starts, so an outsider who sees no packets cannot keep a session up. The caller chooses the addresses (RFC 5881 section 4).

use std::net::IpAddr;
use std::time::Duration;

/// Bytes of an echo packet. FRR's bfdd takes none that is shorter than 24.
pub const ECHO_LEN: usize = 32;

/// An Echo function that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo {
    cookie: u32,
    interval: Duration,
    /// Packets sent so far; the number of the last one.
    sent: u32,
    next_tx: Duration,
    started: Duration,
    /// When the last packet returned, or the function started, or its interval changed.
    returned: Duration,
}

impl Echo {
    pub(crate) fn start(now: Duration, interval: Duration, random: u32) -> Echo {
        Echo { cookie: random, interval, sent: 0, next_tx: now, started: now, returned: now }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Changes the interval. The next packet leaves at once: by a longer interval it would come too late.
    pub(crate) fn set_interval(&mut self, now: Duration, interval: Duration) {
        (self.interval, self.next_tx, self.returned) = (interval, now, now);
    }

    pub(crate) fn started(&self) -> Duration {
        self.started
    }

    /// When the next packet leaves.
    pub(crate) fn next_tx(&self) -> Duration {
        self.next_tx
    }

    /// When too many packets are missing, of which one leaves in each interval.
    pub(crate) fn lost_at(&self, detect_mult: u8) -> Duration {
        self.returned + self.interval * detect_mult.into()
    }

    /// The packet that is due; the next one leaves after the time `jittered`.
    pub(crate) fn send(&mut self, discriminator: u32, now: Duration, jittered: Duration) -> [u8; ECHO_LEN] {
        self.sent = self.sent.wrapping_add(1);
        self.next_tx = now + jittered;
        let mut payload = [0; ECHO_LEN];
        let words = [discriminator, self.sent, self.cookie];
        for (at, word) in words.iter().enumerate() {
            // FRR reads a discriminator from the second word.
            payload[4 * (at + 1)..4 * (at + 2)].copy_from_slice(&word.to_be_bytes());
        }
        payload
    }

    /// Takes a packet that has returned; says whether it is one of the last few that left.
    pub(crate) fn receive(&mut self, payload: &[u8], now: Duration, detect_mult: u8) -> bool {
        let age = word(payload, 2).map(|number| self.sent.wrapping_sub(number));
        let is_ours = word(payload, 3) == Some(self.cookie);
        let counts = is_ours && age.is_some_and(|age| age < u32::from(detect_mult) && age < self.sent);
        if counts {
            self.returned = now;
        }
        counts
    }
}

/// Whether no router sends packets back to an address: it is link-local.
pub fn returns_no_echo(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

/// The session that an echo packet names as its sender.
pub(crate) fn sender(payload: &[u8]) -> Option<u32> {
    (payload.len() == ECHO_LEN).then(|| word(payload, 1)).flatten()
}

fn word(payload: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*payload.get(4 * at..)?.first_chunk()?))
}
