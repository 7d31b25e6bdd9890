// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port in use of a switch, or none, and how a handler changes it: what Switch, PullSwitch and InputSwitch share.

use element::Llrpc;

/// The port in use, by Click's numbers.
pub(super) const LLRPCS: &[Llrpc] =
    &[Llrpc::read(0x4004_c005, "switch"), Llrpc::write(0x8004_4006, "switch")];

/// One of a number of ports, or none.
#[derive(Default)]
pub(super) struct Chosen {
    port: Option<usize>,
    ports: usize,
}

impl Chosen {
    /// The port of this number; none if it is negative or beyond the last.
    pub fn new(port: i32, ports: usize) -> Chosen {
        Chosen { port: usize::try_from(port).ok().filter(|p| *p < ports), ports }
    }

    /// The port.
    pub fn port(&self) -> Option<usize> {
        self.port
    }

    /// What the handler `switch` reads.
    pub fn text(&self) -> String {
        self.port.map_or("-1".into(), |port| port.to_string())
    }

    /// Chooses the port of this number.
    pub fn choose(&mut self, port: i32) {
        *self = Chosen::new(port, self.ports);
    }
}
