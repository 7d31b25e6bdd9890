// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies: which packets are protected, which pass as they are, which are discarded (RFC 4301, 4.4.1).

use std::net::IpAddr;

use crate::selector::Selector;

/// Where packets are when a policy looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Packets for this host.
    In,
    /// Packets that leave.
    Out,
    /// Packets that are forwarded.
    Forward,
}

impl Direction {
    /// The name that `ip xfrm` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Forward => "fwd",
        }
    }
}

/// Whether a policy's associations carry whole packets or payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpsecMode {
    /// Payloads, behind the packet's own header.
    Transport,
    /// Whole packets, between two hosts.
    Tunnel {
        /// Where the tunnel begins.
        from: IpAddr,
        /// Where it ends.
        to: IpAddr,
    },
}

/// Which associations protect a policy's packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// What they carry.
    pub kind: IpsecMode,
    /// The number that binds them to the policy; 0 for any.
    pub reqid: u32,
    /// The only one; `None` for any.
    pub spi: Option<u32>,
    /// Whether packets may pass as they are while there is none (Linux' `level use`).
    pub is_optional: bool,
}

/// What becomes of a policy's packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// They pass as they are.
    Bypass,
    /// They are dropped.
    Discard,
    /// They must be protected.
    Protect(Template),
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Where it looks.
    pub direction: Direction,
    /// Which packets it is about.
    pub selector: Selector,
    /// The lower one wins. Among equals, the one that was there first.
    pub priority: u32,
    /// What becomes of them.
    pub action: Action,
    /// A number that a key daemon has for it; 0 where a table makes it one.
    pub index: u32,
}

/// The identity of a policy: there is one for each direction and selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyKey {
    /// Where it looks.
    pub direction: Direction,
    /// Which packets it is about.
    pub selector: Selector,
}

impl Policy {
    /// Its identity.
    pub fn key(&self) -> PolicyKey {
        PolicyKey { direction: self.direction, selector: self.selector.clone() }
    }
}
