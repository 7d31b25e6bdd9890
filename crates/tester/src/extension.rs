// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 extension headers of test frames (RFC 8200 4), between the fixed header and UDP, in the forms and lengths that RFC 5180 5.3
//! has for tests. None of them asks a router for more than to pass it on.

use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};
use wire::Protocol;

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extension {
    /// Hop-by-hop options: padding. Every router on the way may look at it.
    HopByHop,
    /// Destination options: padding.
    Destination,
    /// A routing header of type 2 (RFC 6275 6.4), which names the destination itself as the next address.
    Routing,
    /// A fragment header of a packet that is whole (RFC 6946).
    Fragment,
    /// An authentication header (RFC 4302) whose check value is zero: nobody on the way has the key.
    Authentication,
}

/// All there are, in the order in which a packet has them (RFC 8200 4.1), with their names.
const ALL: [(Extension, &str); 5] = [
    (Extension::HopByHop, "hop-by-hop"),
    (Extension::Routing, "routing"),
    (Extension::Destination, "destination"),
    (Extension::Fragment, "fragment"),
    (Extension::Authentication, "authentication"),
];

/// The chain recommended for tests (RFC 5180 5.3): 40 bytes.
pub const CHAIN: [Extension; 3] = [Extension::Routing, Extension::Destination, Extension::Fragment];

/// How many bytes these headers have together.
pub fn length(headers: &[Extension]) -> usize {
    headers.iter().map(|header| header.len()).sum()
}

impl Extension {
    /// Reads a name.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(name: &str) -> Result<Extension, String> {
        let known = ALL.iter().find(|(_, known)| *known == name).map(|(header, _)| *header);
        known.ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|(_, name)| *name).collect();
            format!("expected {}", names.join(", "))
        })
    }

    /// The value of the field before that announces it.
    pub fn protocol(self) -> Protocol {
        match self {
            Extension::HopByHop => Protocol::HOP_BY_HOP,
            Extension::Destination => Protocol::IPV6_DESTINATION,
            Extension::Routing => Protocol::IPV6_ROUTE,
            Extension::Fragment => Protocol::IPV6_FRAGMENT,
            Extension::Authentication => Protocol::AH,
        }
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(self) -> usize {
        match self {
            Extension::HopByHop | Extension::Destination | Extension::Fragment => 8,
            Extension::Routing | Extension::Authentication => 24,
        }
    }

    /// Its bytes, before a header announced by `next`, in a packet to `dst`.
    fn bytes(self, next: Protocol, dst: Ipv6Addr) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        bytes[0] = next.0;
        match self {
            // One option, which pads the four bytes behind it (RFC 8200 4.2).
            Extension::HopByHop | Extension::Destination => bytes[2..4].copy_from_slice(&[1, 4]),
            Extension::Routing => {
                // Length in units of eight bytes beyond the first, type, segments left.
                bytes[1..4].copy_from_slice(&[2, 2, 1]);
                bytes[8..].copy_from_slice(&dst.octets());
            }
            // At the offset zero, with no more to come.
            Extension::Fragment => bytes[4..].copy_from_slice(&[0, 0, 0, 1]),
            Extension::Authentication => {
                // Length in units of four bytes less two; security parameters beyond those reserved, first in sequence.
                bytes[1] = 4;
                bytes[4..12].copy_from_slice(&[0, 0, 1, 0, 0, 0, 0, 1]);
            }
        }
        bytes
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(header, _)| header == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

/// Writes these headers before UDP, in a packet to `dst`, into as many bytes as they have.
pub(crate) fn emit(headers: &[Extension], dst: Ipv6Addr, buffer: &mut [u8]) {
    let mut rest = buffer;
    for (index, header) in headers.iter().enumerate() {
        let next = headers.get(index + 1).map_or(Protocol::UDP, |next| next.protocol());
        let (here, behind) = rest.split_at_mut(header.len());
        here.copy_from_slice(&header.bytes(next, dst));
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use wire::ipv6;

    use super::*;

    #[test]
    fn every_header_is_stepped_over_to_udp() {
        let dst = "2001:2:0:8001::7".parse().expect("an address");
        let mut chains: Vec<Vec<Extension>> = ALL.iter().map(|(header, _)| vec![*header]).collect();
        chains.extend([CHAIN.to_vec(), ALL.map(|(header, _)| header).to_vec(), Vec::new()]);
        for chain in chains {
            let mut bytes = vec![0xff; length(&chain)];
            emit(&chain, dst, &mut bytes);
            let first = chain.first().map_or(Protocol::UDP, |header| header.protocol());
            let upper = ipv6::upper_layer(first, &bytes).expect("whole headers");
            assert_eq!((upper.protocol, upper.offset), (Protocol::UDP, bytes.len()), "{chain:?}");
            assert!(upper.fragment.is_none_or(|fragment| fragment.offset == 0 && !fragment.more));
        }
        assert_eq!(length(&CHAIN), 40);
    }

    #[test]
    fn names_are_read_and_written() {
        for (header, name) in ALL {
            assert_eq!((Extension::parse(name), header.to_string()), (Ok(header), name.to_owned()));
        }
        assert!(Extension::parse("mobility").is_err_and(|why| why.contains("hop-by-hop, routing")));
    }
}
