// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as another router gets to know it.
//!
//! ```text
//! 0  protocol   1  flags: 1 IPv6 host, 2 counts for its subscriber, 4 has an account   2  what was seen of it   3  nothing   4  idle, ms
//! 8  inside address, 16 bytes   24  its port   26  outside address   30  port   32  peer   36  its port   38  outside address of the account
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::track::Track;

/// Bytes of a record.
pub const LENGTH: usize = 42;

const SIX: u8 = 1;
const COUNTS: u8 = 2;
const ACCOUNT: u8 = 4;

/// A session, by the names of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its protocol.
    pub protocol: u8,
    /// The inside address and port.
    pub inside: (IpAddr, u16),
    /// What it is outside.
    pub outside: (Ipv4Addr, u16),
    /// The other end.
    pub peer: (Ipv4Addr, u16),
    /// The outside address of its subscriber, if it has one.
    pub account: Option<Ipv4Addr>,
    /// Whether it counts for its subscriber. One of a forward does not.
    pub counts: bool,
    /// For how many milliseconds nothing has renewed it.
    pub idle_ms: u32,
    pub(crate) track: Track,
}

impl SessionRecord {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let (six, inside) = match self.inside.0 {
            IpAddr::V4(address) => (0, address.to_ipv6_mapped()),
            IpAddr::V6(address) => (SIX, address),
        };
        let counts = if self.counts { COUNTS } else { 0 };
        let account = if self.account.is_some() { ACCOUNT } else { 0 };
        let mut bytes = [0; LENGTH];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&[self.protocol, six | counts | account, self.track.seen(), 0]);
        put(&self.idle_ms.to_be_bytes());
        put(&inside.octets());
        put(&self.inside.1.to_be_bytes());
        for (address, port) in [self.outside, self.peer] {
            put(&address.octets());
            put(&port.to_be_bytes());
        }
        put(&self.account.map_or([0; 4], |account| account.octets()));
        bytes
    }

    /// Reads bytes. None if they are no record.
    pub fn from_bytes(bytes: &[u8]) -> Option<SessionRecord> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| bytes[at..].first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
        let six = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
        let [protocol, flags, seen, _] = *bytes.first_chunk::<4>()?;
        let inside = match (flags & SIX != 0, six.to_ipv4_mapped()) {
            (true, None) => IpAddr::V6(six),
            (false, Some(address)) => IpAddr::V4(address),
            _ => return None,
        };
        Some(SessionRecord {
            protocol,
            inside: (inside, port(24)),
            outside: (four(26)?, port(30)),
            peer: (four(32)?, port(36)),
            account: four(38).filter(|_| flags & ACCOUNT != 0),
            counts: flags & COUNTS != 0,
            idle_ms: u32::from_be_bytes(*bytes[4..].first_chunk()?),
            track: Track::of_seen(seen)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in proptest::collection::vec(any::<u8>(), LENGTH), v4 in any::<bool>()) {
            let mut bytes = bytes;
            if v4 {
                bytes[8..20].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
                bytes[1] &= !SIX;
            }
            bytes[2] &= 0x3f;
            let Some(one) = SessionRecord::from_bytes(&bytes) else {
                prop_assert!(!v4);
                return Ok(());
            };
            prop_assert_eq!(SessionRecord::from_bytes(&one.to_bytes()), Some(one));
            for length in 0..LENGTH {
                prop_assert_eq!(SessionRecord::from_bytes(&bytes[..length]), None);
            }
        }
    }
}
