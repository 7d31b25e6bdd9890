// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handle by which control elements act on a bridge.
//!
//! A bridge provides ([`Provide`](element::Provide)) an [`Arc<Control>`](Control). A control element takes the
//! bridge's name as an argument and looks for it when it is initialised, by [`Control::find`].
//!
//! Everything here may be called on any worker, at any time, while others forward. Nothing waits for them: a change counts
//! for each batch that begins after it, and the batches under way end within one round of their worker.
//!
//! # Frames of control protocols
//!
//! A bridge with N ports has inputs and outputs 0 to N-1. Frames to 01-80-C2-00-00-00 to -0F leave by output N, with the port they came in by as
//! their paint, in any state of that port. What comes in at input N leaves by the port of its paint, in any state of that port, and nothing is
//! learned from it. By output N+1 leave, painted alike, the IGMP and MLD messages that snooping wants to see first; they too go on by input N, once
//! for each port that they are to reach.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::InitCx;
use element::args::Args;

use super::{Groups, PortSet, PortStates};

/// What control elements ask of a bridge's table of addresses.
pub trait Fdb: fmt::Debug + Send + Sync {
    /// Forgets the addresses learned behind `port`.
    fn flush_port(&self, port: usize);

    /// For how long an address is remembered, in place of what the configuration says (STP's short ageing while the topology
    /// changes); `None` returns to that.
    fn set_ageing_ns(&self, ageing_ns: Option<u64>);
}

/// A bridge as control elements see it.
#[derive(Debug)]
pub struct Control {
    ports: usize,
    states: PortStates,
    groups: Groups,
    fdb: Box<dyn Fdb>,
    /// Of each port, the first one of its aggregate.
    leaders: Vec<usize>,
    /// Of each VLAN, the leaders of the ports in it; 0 alone where VLANs are not distinguished.
    vlans: BTreeMap<u16, PortSet>,
    topology_changes: AtomicU64,
}

/// Reads an argument that is a list of ports: numbers with spaces between.
pub(crate) fn port_list(args: &mut Args<'_>, name: &'static str) -> Vec<usize> {
    let text: String = args.keyword(name, String::new());
    let ports: Result<Vec<usize>, _> = text.split_whitespace().map(str::parse).collect();
    ports.unwrap_or_else(|_| {
        args.error(format!("{name} '{text}' is no list of port numbers with spaces between"));
        Vec::new()
    })
}

impl Control {
    /// The handle on the bridge of this name, which must have the ports that were named to an element.
    ///
    /// # Errors
    /// There is no such bridge, or it has fewer ports.
    pub(crate) fn find<'a>(
        cx: &mut InitCx<'_>,
        name: &str,
        named: impl IntoIterator<Item = &'a usize>,
    ) -> Result<Arc<Control>, String> {
        let control: Arc<Control> =
            cx.find(name).ok_or_else(|| format!("BRIDGE {name}: there is no Bridge of this name"))?;
        let ports = control.ports;
        match named.into_iter().find(|port| **port >= ports) {
            Some(port) => Err(format!("{name} has {ports} ports, so there is no port {port}")),
            None => Ok(control),
        }
    }

    /// A handle on a bridge of `ports` ports with this table. `rcu` is the router's ([`Args::rcu`](element::args::Args::rcu)).
    pub fn new(ports: usize, rcu: &sync::rcu::Domain, fdb: Box<dyn Fdb>) -> Control {
        Control {
            ports,
            states: PortStates::new(ports),
            groups: Groups::new(rcu),
            fdb,
            leaders: (0..ports).collect(),
            vlans: BTreeMap::from([(0, PortSet::first(ports))]),
            topology_changes: AtomicU64::new(0),
        }
    }

    /// The same with aggregates, each represented by its first port, and VLANs, if they are distinguished.
    #[must_use]
    pub fn with_layout(mut self, leaders: Vec<usize>, vlans: Option<BTreeMap<u16, PortSet>>) -> Control {
        let all = || BTreeMap::from([(0, leaders.iter().copied().collect())]);
        self.vlans = vlans.unwrap_or_else(all);
        self.leaders = leaders;
        self
    }

    /// The port under whose number the stations behind `port` are known: the first one of its aggregate.
    pub fn leader(&self, port: usize) -> usize {
        self.leaders.get(port).copied().unwrap_or(port)
    }

    /// The leaders of the ports that are in a VLAN (0 where VLANs are not distinguished).
    pub fn members(&self, vlan: u16) -> PortSet {
        self.vlans.get(&vlan).copied().unwrap_or_default()
    }

    /// The VLANs that have members; 0 alone where VLANs are not distinguished.
    pub fn vlans(&self) -> impl Iterator<Item = u16> + '_ {
        self.vlans.keys().copied()
    }

    /// How often a spanning tree had addresses forgotten, for those who forget other things then.
    pub fn topology_changes(&self) -> u64 {
        self.topology_changes.load(Ordering::Relaxed)
    }

    /// How many ports the bridge has.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// What each port may do.
    #[inline]
    pub fn states(&self) -> &PortStates {
        &self.states
    }

    /// To which ports multicast groups go.
    #[inline]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Forgets the addresses learned behind `port`.
    pub fn flush_port(&self, port: usize) {
        self.topology_changes.fetch_add(1, Ordering::Relaxed);
        self.fdb.flush_port(port);
    }

    /// Sets for how long addresses are remembered; `None` returns to what the configuration says.
    pub fn set_ageing_ns(&self, ageing_ns: Option<u64>) {
        self.topology_changes.fetch_add(u64::from(ageing_ns.is_some()), Ordering::Relaxed);
        self.fdb.set_ageing_ns(ageing_ns);
    }
}
