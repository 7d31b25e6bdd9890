// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of outside addresses statements of address translation take for hosts inside, so that the router has no use for it.

use std::net::Ipv4Addr;

use nat::policy::{Allocation, Policy, Range};

/// What statements take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// By static translations and forwards.
    led: Vec<Led>,
    /// By blocks of ports.
    blocks: Vec<Blocks>,
}

/// Outside ports that lead inside by a static translation or a forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Led {
    range: Range,
    /// All protocols, and all ports, without.
    protocol: Option<u8>,
    ports: Option<(u16, u16)>,
    /// The line of the statement, and its text.
    pub(super) line: u32,
    pub(super) text: String,
}

impl Led {
    fn all(policy: &Policy) -> Vec<Led> {
        let statics = policy.statics.iter().map(|one| Led {
            range: one.outside,
            protocol: None,
            ports: None,
            line: one.line,
            text: one.text.clone(),
        });
        let forwards = policy.forwards.iter().flat_map(|one| {
            one.ranges().map(|range| Led {
                range,
                protocol: Some(one.protocol),
                ports: Some(one.ports),
                line: one.line,
                text: one.text.clone(),
            })
        });
        statics.chain(forwards).collect()
    }

    /// Whether it takes packets of a protocol to an address, with a port of `ports`. No protocol and no ports are all of them.
    fn takes(&self, protocol: Option<u8>, address: Ipv4Addr, ports: &[(u16, u16)]) -> bool {
        let is_of = |own: u8| protocol.is_none_or(|protocol| protocol == own);
        let has = |own: (u16, u16)| ports.is_empty() || ports.iter().any(|other| meet(own, *other));
        self.range.holds(address.to_bits()) && self.protocol.is_none_or(is_of) && self.ports.is_none_or(has)
    }
}

/// Outside addresses of which hosts get ports in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Blocks {
    pool: Vec<Range>,
    ports: (u16, u16),
    line: u32,
}

impl Blocks {
    fn all(policy: &Policy) -> Vec<Blocks> {
        let in_blocks = policy.translations.iter().filter(|one| one.allocation != Allocation::Random);
        in_blocks.map(|one| Blocks { pool: one.pool.clone(), ports: one.ports, line: one.line }).collect()
    }
}

/// Whether two ranges of ports have one in common.
fn meet(one: (u16, u16), other: (u16, u16)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

impl Taken {
    pub(super) fn new(policy: &Policy) -> Taken {
        Taken { led: Led::all(policy), blocks: Blocks::all(policy) }
    }

    /// The statement that leads packets inside which a service would get.
    pub(super) fn led_inside(
        &self,
        protocol: Option<u8>,
        address: Ipv4Addr,
        ports: &[(u16, u16)],
    ) -> Option<&Led> {
        self.led.iter().find(|one| one.takes(protocol, address, ports))
    }

    /// The line of the statement by which hosts get blocks with one of these ports of an address.
    pub(super) fn in_blocks(&self, address: Ipv4Addr, ports: &[(u16, u16)]) -> Option<u32> {
        let holds = |one: &&Blocks| {
            one.pool.iter().any(|range| range.holds(address.to_bits()))
                && ports.iter().any(|other| meet(one.ports, *other))
        };
        self.blocks.iter().find(holds).map(|one| one.line)
    }
}
