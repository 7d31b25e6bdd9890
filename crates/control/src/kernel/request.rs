// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests for dumps.

use crate::netlink::{AF_INET, AF_INET6, kind};

/// Flags: a request for all there is.
const DUMP: u16 = 0x301;

/// What is dumped for a full report, in this order: nothing names what comes later.
pub(super) const ALL: [Stage; 8] = [
    Stage::Links,
    Stage::Addresses,
    Stage::Neighbours,
    Stage::NextHops,
    Stage::Daemons,
    Stage::Daemons6,
    Stage::Routes,
    Stage::Rules,
];

/// A dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Links,
    Addresses,
    Neighbours,
    NextHops,
    /// How many daemons forward multicast.
    Daemons,
    Daemons6,
    /// Multicast among them.
    Routes,
    Rules,
}

impl Stage {
    /// The request, for all address families at once where the kernel has it.
    pub(super) fn request(self, sequence: u32) -> Vec<u8> {
        // The fixed part of each message, which is all zeros.
        let (kind, body) = match self {
            Stage::Links => (kind::GET_LINK, 16),
            Stage::Addresses => (kind::GET_ADDRESS, 8),
            Stage::Neighbours => (kind::GET_NEIGHBOUR, 12),
            Stage::NextHops => (kind::GET_NEXT_HOP, 8),
            Stage::Daemons | Stage::Daemons6 => (kind::GET_SETTINGS, 4),
            Stage::Routes => (kind::GET_ROUTE, 12),
            Stage::Rules => (kind::GET_RULE, 12),
        };
        let len = 16 + body;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend((len as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(DUMP.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.resize(len, 0);
        match self {
            Stage::Daemons => bytes[16] = AF_INET,
            Stage::Daemons6 => bytes[16] = AF_INET6,
            _ => {}
        }
        bytes
    }
}
