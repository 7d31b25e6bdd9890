// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection as another firewall gets to know it.
//!
//! ```text
//!  0 protocol   1 flags: 1 IPv6, 2 and 4 FINs of either side, 8 answered by the firewall   2 state   3 shifts of both windows, 4 bits each
//!  4 idle, ms   8 source, 16 bytes   24 destination, 16 bytes   40, 42 ports   44, 48 zones of its first packet
//! 52 what announced it: 0 nothing, 1 FTP, 2 TFTP; 128 from its server   53 shift of the client's windows, which its server does not know
//! 54 port of the client that announced it   56, 60 what the firewall adds to the server's numbers, and to its timestamps
//! 64 shifts of windows, 4 bits each: the server's own, and the one that the client was promised   65 nothing, 3 bytes
//! 68, 72 the VRFs of packets there and back: only if one is not the main table
//! ```
//!
//! A firewall that knows no VRFs takes no record with the last two, so it does not confuse a connection in a VRF with one of the main table.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Deref;

use crate::firewall::{Parent, Service};
use crate::proxy::translate::Shift;
use crate::track::State;

/// Bytes of a record at most.
pub const LENGTH: usize = 76;
/// Bytes of a record of the main table.
const MAIN: usize = 68;
const SIX: u8 = 1;
const FINS: [u8; 2] = [2, 4];
const ANSWERED: u8 = 8;
const FROM_SERVER: u8 = 128;

/// A connection, by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// Its protocol.
    pub protocol: u8,
    /// Where its first packet came from and went to, both of one family.
    pub ends: [IpAddr; 2],
    /// The ports of its first packet; identifier and type of ICMP queries.
    pub ports: [u16; 2],
    /// The zones of its first packet: see [`name_number`].
    pub zones: [u32; 2],
    /// The VRFs of packets there and back, in the same way; 0 for the main table.
    pub vrfs: [u32; 2],
    /// Where it is.
    pub state: State,
    /// By what both sides shift their windows, if it is of TCP.
    pub scales: [u8; 2],
    /// Which sides have ended, if it is of TCP.
    pub fins: [bool; 2],
    /// What announced it.
    pub parent: Option<Parent>,
    /// How its numbers change, if the firewall has answered its client.
    pub shift: Option<Shift>,
    /// For how many milliseconds nothing has renewed it.
    pub idle_ms: u32,
}

/// A record as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; LENGTH],
    length: usize,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The number of a zone or a VRF in records, which follows from its name (FNV-1a).
pub fn name_number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn nibbles(scales: [u8; 2]) -> u8 {
    scales[0] << 4 | scales[1] & 15
}

/// Shifts of windows are 14 at most (RFC 7323, 2.3).
fn scales(nibbles: u8) -> [u8; 2] {
    [nibbles >> 4, nibbles & 15].map(|scale| scale.min(14))
}

impl ConnectionRecord {
    /// As bytes.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = [0; LENGTH];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        let state = State::ALL.iter().position(|state| *state == self.state).unwrap_or_default();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.ends[0].is_ipv6(), SIX)
            | flag(self.fins[0], FINS[0])
            | flag(self.fins[1], FINS[1])
            | flag(self.shift.is_some(), ANSWERED);
        let shift = self.shift.unwrap_or_default();
        let announced = self
            .parent
            .map_or(0, |parent| (parent.service as u8 + 1) | flag(parent.is_from_server, FROM_SERVER));
        put(&[self.protocol, flags, state as u8, nibbles(self.scales)]);
        put(&self.idle_ms.to_be_bytes());
        self.ends.iter().for_each(|end| put(&mapped(*end).octets()));
        self.ports.iter().for_each(|port| put(&port.to_be_bytes()));
        self.zones.iter().for_each(|zone| put(&zone.to_be_bytes()));
        put(&[announced, shift.unknown_scale]);
        put(&self.parent.map_or(0, |parent| parent.client_port).to_be_bytes());
        put(&shift.sequence.to_be_bytes());
        put(&shift.stamp.to_be_bytes());
        put(&[nibbles(shift.scales), 0, 0, 0]);
        self.vrfs.iter().for_each(|vrf| put(&vrf.to_be_bytes()));
        Bytes { bytes, length: if self.vrfs == [0; 2] { MAIN } else { LENGTH } }
    }

    /// Reads bytes. None if they are no record.
    pub fn from_bytes(bytes: &[u8]) -> Option<ConnectionRecord> {
        let vrfs = match bytes.len() {
            MAIN => [0; 2],
            LENGTH => {
                [68, 72].map(|at| bytes[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word)))
            }
            _ => return None,
        };
        let word = |at: usize| bytes[at..].first_chunk().map(|word| u32::from_be_bytes(*word));
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let [protocol, flags, state, shifts] = *bytes.first_chunk::<4>()?;
        let end = |at: usize| {
            let address = Ipv6Addr::from(*bytes[at..].first_chunk::<16>()?);
            match (flags & SIX != 0, address.to_ipv4_mapped()) {
                (true, None) => Some(IpAddr::V6(address)),
                (false, Some(address)) => Some(IpAddr::V4(address)),
                _ => None,
            }
        };
        let parent = match bytes[52] & !FROM_SERVER {
            0 => None,
            number => Some(Parent {
                service: *Service::ALL.get(usize::from(number) - 1)?,
                client_port: port(54),
                is_from_server: bytes[52] & FROM_SERVER != 0,
            }),
        };
        let shift = Shift {
            sequence: word(56)?,
            stamp: word(60)?,
            scales: scales(bytes[64]),
            unknown_scale: bytes[53].min(14),
        };
        Some(ConnectionRecord {
            protocol,
            ends: [end(8)?, end(24)?],
            ports: [port(40), port(42)],
            zones: [word(44)?, word(48)?],
            vrfs,
            state: *State::ALL.get(usize::from(state))?,
            scales: scales(shifts),
            fins: FINS.map(|fin| flags & fin != 0),
            parent,
            shift: (flags & ANSWERED != 0).then_some(shift),
            idle_ms: word(4)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in proptest::collection::vec(any::<u8>(), LENGTH), main in any::<bool>(), v4 in any::<bool>()) {
            let mut bytes = bytes;
            bytes.truncate(if main { MAIN } else { LENGTH });
            if v4 {
                for at in [8, 24] {
                    bytes[at..at + 12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
                }
                bytes[1] &= !SIX;
            }
            bytes[2] %= 7;
            bytes[52] = (bytes[52] & FROM_SERVER) | (bytes[52] % 3);
            let Some(one) = ConnectionRecord::from_bytes(&bytes) else {
                prop_assert!(!v4);
                return Ok(());
            };
            prop_assert_eq!(ConnectionRecord::from_bytes(&one.to_bytes()), Some(one));
            for length in (0..bytes.len()).filter(|length| *length != MAIN) {
                prop_assert_eq!(ConnectionRecord::from_bytes(&bytes[..length]), None);
            }
        }
    }
}
