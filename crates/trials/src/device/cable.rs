// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ports of the tester's, joined: what it reaches by itself.

use std::sync::Arc;

use ports::memory::{MemoryPort, Wire};
use tester::station::Port;

use super::rig::{self, Driver, Rig};
use super::{Plugged, Setup, Traffic, flows};
use crate::Error;

/// Packets that a port of a device in this process holds, as a network card's ring does.
pub(super) const RING: usize = 1024;

/// In memory.
pub(super) fn plug(setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let names = ["a", "b"];
    let wire = Wire::with_mtu("cable", RING, rig::mtu_for(traffic));
    let ports = names.into_iter().map(|name| tester_port(name, &wire)).collect::<Result<_, _>>()?;
    let known = |ipv6| flows::bridged(&names, ipv6);
    Plugged::new(ports, &flows::of_ports(&known(setup.ipv6), &[])?, traffic)?
        .with_other(setup, traffic, known)
}

/// Between two network interfaces. Frames are handed over where they are in tests of devices: not on the tester's core.
pub(super) fn plug_virtual(driver: Driver, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let rig = Rig::cable(driver, traffic)?;
    let opened = rig.open()?;
    let tester = rig.tester_ends();
    let known = |ipv6| flows::bridged(tester, ipv6);
    let flows = flows::of_ports(&known(setup.ipv6), &[])?;
    let mut plugged = rig.station(opened, &flows, traffic)?.with_other(setup, traffic, known)?;
    rig.receive_apart()?;
    rig.settle(&mut plugged);
    plugged.beside = Some(Box::new(rig));
    Ok(plugged)
}

/// A port of the tester's at one end of a wire.
pub(super) fn tester_port(name: &str, wire: &Arc<Wire>) -> Result<Port, Error> {
    let port = MemoryPort::new(name, wire)?;
    Ok(Port::new(name, port)?)
}
