// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rapid Spanning Tree Protocol of IEEE 802.1D-2004, clause 17, as a machine without clock, memory of the past or I/O
//! but what is given to it.
//!
//! Bridges that are connected in rings would send a broadcast round for ever. So each ring is cut: the bridges choose a root,
//! each takes the port that is nearest to it for its *root port*, and each network between bridges has one *designated port*
//! that leads towards the root. All other ports discard. Who is nearest is decided by comparing *priority vectors*
//! ([`Vector`]), of which bridges send each other the best they know.
//!
//! A port that would cut a ring if it discarded, and close one if it forwarded, must not forward before the others know. The old
//! protocol waits until the news has surely spread. The rapid one asks: a designated port sends a *proposal*, the neighbour lets all
//! its own ports that might close a ring discard ("sync") and answers with an *agreement*, and asks in turn behind these ports.
//!
//! A [`Bridge`] gets what happens ([`Bridge::receive`], [`Bridge::second`], [`Bridge::set_link`], ...) and lists what is to be done
//! ([`Bridge::outputs`], in the order in which it must be done). The same calls give the same outputs.
//!
//! # How the standard's text stands here
//!
//! The state machines have the standard's names, and so have states and variables (`fdWhile` is `fd_while`). Each machine is one
//! function, `fn name(&mut self, port) -> bool`, that does at most one transition and says whether it did. A state that is left at once and
//! always (UCT) is no state of ours but an action. [`Bridge::run`] calls all machines until nothing moves. Messages are sent only
//! then, so they always tell what is, never what is about to change.
//!
//! | machine (clause) | function | file |
//! |---|---|---|
//! | Port Timers (17.22) | [`Bridge::second`] | here |
//! | Port Receive (17.23), Protocol Migration (17.24), Bridge Detection (17.25), Transmit (17.26) | `receive_machine`, `migration`, `detection`, `transmit` | `link` |
//! | Port Information (17.27) | `information` | `information` |
//! | Port Role Selection (17.28) | `selection` | `selection` |
//! | Port Role Transitions (17.29), Port State Transition (17.30) | `role_transitions`, `state_transition` | `transitions` |
//! | Topology Change (17.31) | `topology_change` | `topology` |
//!
//! Two things are not the standard's. *BPDU guard* switches a port off that hears a BPDU. And a message is refused ([`Refusal`]) that claims to be
//! from one of our ports but is heard at another than the standard's topology allows.

mod information;
mod link;
mod port;
mod selection;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod topology;
mod transitions;
mod vectors;

use wire::MacAddr;
use wire::stp::{Bpdu, BridgeId};

pub use crate::bridge::PortState as State;
pub use port::{Port, PortConfig, Role};
pub use vectors::{Times, Vector};

/// What is to be done, in the order in which it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message by this port.
    Send {
        /// The port's number.
        port: u16,
        /// The message.
        bpdu: Bpdu,
    },
    /// Let a port do this from now on.
    State {
        /// The port's number.
        port: u16,
        /// Its state.
        state: State,
    },
    /// Forget the addresses learned behind a port.
    Flush {
        /// The port's number.
        port: u16,
    },
    /// Remember addresses only for so many seconds; `None`: as long as ever. Old bridges' way to flush (17.19.1).
    Ageing(Option<u16>),
}

/// Why a message changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such port, or it is down.
    PortDown,
    /// The message is the port's own, come back (9.3.4).
    Own,
    /// The message claims to be from a port that this bridge does not have.
    Spoofed,
    /// The port has BPDU guard, and is now off.
    Guarded,
    /// The bridge runs the old protocol, which does not know this message (17.4: ForceVersion).
    Version,
}

/// What is decided for a bridge (17.13, 17.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Address.
    pub address: MacAddr,
    /// Priority: the least becomes root. Multiples of 4096.
    pub priority: u16,
    /// Seconds between messages: 1 to 10.
    pub hello: u16,
    /// Seconds until a message is too old: 6 to 40.
    pub max_age: u16,
    /// Seconds in each state before forwarding, where a neighbour does not agree to more: 2 to 30.
    pub forward_delay: u16,
    /// Messages by a port within a second: 1 to 10.
    pub tx_hold_count: u16,
    /// Speak the old protocol only (ForceVersion 0).
    pub force_stp: bool,
}

impl BridgeConfig {
    /// The standard's defaults (table 17-1) for the bridge of this address.
    pub const fn new(address: MacAddr) -> BridgeConfig {
        BridgeConfig {
            address,
            priority: 32768,
            hello: 2,
            max_age: 20,
            forward_delay: 15,
            tx_hold_count: 6,
            force_stp: false,
        }
    }

    /// What is wrong with the times, if anything (17.14).
    pub fn fault(&self) -> Option<&'static str> {
        if !(1..=10).contains(&self.hello) {
            Some("the hello time is not 1 to 10 s")
        } else if !(6..=40).contains(&self.max_age) {
            Some("the max age is not 6 to 40 s")
        } else if !(2..=30).contains(&self.forward_delay) {
            Some("the forward delay is not 2 to 30 s")
        } else if self.max_age < 2 * (self.hello + 1) {
            Some(
                "the max age is less than twice the hello time and a second: messages would be lost by one loss",
            )
        } else if 2 * (self.forward_delay - 1) < self.max_age {
            Some("twice the forward delay less a second is less than the max age: rings might close")
        } else if !(1..=10).contains(&self.tx_hold_count) {
            Some("the transmit hold count is not 1 to 10")
        } else {
            None
        }
    }
}

/// What a bridge counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Topology changes noticed here or heard of.
    pub topology_changes: u64,
    /// How often another bridge or port became the way to the root.
    pub root_changes: u64,
}

/// One bridge.
#[derive(Clone, Debug)]
pub struct Bridge {
    config: BridgeConfig,
    /// In the order of their numbers.
    ports: Vec<Port>,
    /// rootPriority.
    root: Vector,
    /// rootPortId; 0 while this bridge is the root.
    root_port: u16,
    /// rootTimes.
    root_times: Times,
    /// Seconds for which addresses age quickly (17.19.1).
    quick_ageing: u16,
    counts: Counts,
    since_change: u64,
    outputs: Vec<Output>,
}

impl Bridge {
    /// A bridge without ports.
    pub fn new(config: BridgeConfig) -> Bridge {
        let id = BridgeId { priority: config.priority, address: config.address };
        Bridge {
            config,
            ports: Vec::new(),
            root: Vector { root: id, cost: 0, bridge: id, port: 0 },
            root_port: 0,
            root_times: Times {
                message_age: 0,
                max_age: config.max_age,
                hello: config.hello,
                forward_delay: config.forward_delay,
            },
            quick_ageing: 0,
            counts: Counts::default(),
            since_change: 0,
            outputs: Vec::new(),
        }
    }

    /// What was decided for it.
    pub fn config(&self) -> &BridgeConfig {
        &self.config
    }

    /// The bridge's identifier.
    pub fn id(&self) -> BridgeId {
        BridgeId { priority: self.config.priority, address: self.config.address }
    }

    /// The best priority vector: the root, and the way to it.
    pub fn root(&self) -> &Vector {
        &self.root
    }

    /// The number of the root port; `None` while this bridge is the root.
    pub fn root_port(&self) -> Option<u16> {
        Some(self.root_port & 0xfff).filter(|number| *number != 0)
    }

    /// The times that are in force: the root's.
    pub fn times(&self) -> &Times {
        &self.root_times
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Seconds since the topology last changed.
    pub fn seconds_since_change(&self) -> u64 {
        self.since_change
    }

    /// The ports, in the order of their numbers.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// A port.
    pub fn port(&self, number: u16) -> Option<&Port> {
        self.index(number).map(|index| &self.ports[index])
    }

    /// Takes what is to be done.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.outputs.drain(..)
    }

    /// Lists what is to be done before anything that follows.
    pub fn put_back(&mut self, outputs: impl IntoIterator<Item = Output>) {
        self.outputs.extend(outputs);
    }

    fn index(&self, number: u16) -> Option<usize> {
        self.ports.binary_search_by_key(&number, |port| port.number).ok()
    }

    /// Adds a port, link down, or gives the port of this number another configuration.
    pub fn add_port(&mut self, number: u16, config: PortConfig) {
        match self.ports.binary_search_by_key(&number, |port| port.number) {
            Ok(index) => {
                self.ports[index].config = config;
                self.reselect_all();
            }
            Err(index) => {
                let port = Port::new(number, config, &self.config);
                self.ports.insert(index, port);
                self.outputs.push(Output::State { port: number, state: State::Discarding });
            }
        }
        self.run();
    }

    /// Removes a port.
    pub fn remove_port(&mut self, number: u16) {
        if let Some(index) = self.index(number) {
            self.ports.remove(index);
            self.reselect_all();
            self.run();
        }
    }

    /// Says that the port's link went up or down. Up also ends what BPDU guard did.
    pub fn set_link(&mut self, number: u16, up: bool) {
        let Some(index) = self.index(number) else { return };
        let port = &mut self.ports[index];
        if up && !port.link {
            port.guarded = false;
        }
        port.link = up;
        self.run();
    }

    /// Switches a port on or off. On also ends what BPDU guard did.
    pub fn set_enabled(&mut self, number: u16, enabled: bool) {
        let Some(index) = self.index(number) else { return };
        let port = &mut self.ports[index];
        port.admin_enabled = enabled;
        port.guarded &= !enabled;
        self.run();
    }

    /// Asks the port to find out again whether its neighbours speak the rapid protocol (mcheck, 17.19.13).
    pub fn check_migration(&mut self, number: u16) {
        let Some(index) = self.index(number) else { return };
        self.ports[index].mcheck = !self.config.force_stp;
        self.run();
    }

    /// Decides otherwise for the bridge. A change of address or protocol makes all ports begin anew; other changes are taken as 17.13 says.
    pub fn set_config(&mut self, config: BridgeConfig) {
        let anew = (config.address, config.force_stp) != (self.config.address, self.config.force_stp);
        self.config = config;
        if anew {
            for port in &mut self.ports {
                let fresh = Port::new(port.number, port.config, &self.config);
                let (link, admin_enabled, guarded) = (port.link, port.admin_enabled, port.guarded);
                *port = Port { link, admin_enabled, guarded, ..fresh };
                self.outputs.push(Output::State { port: port.number, state: State::Discarding });
            }
        }
        for port in &mut self.ports {
            port.tx_count = 0;
        }
        self.reselect_all();
        self.run();
    }

    /// A message came in by a port.
    ///
    /// # Errors
    /// Why it changed nothing, or switched the port off.
    pub fn receive(&mut self, number: u16, bpdu: &Bpdu) -> Result<(), Refusal> {
        let index = self.index(number).ok_or(Refusal::PortDown)?;
        if !self.ports[index].enabled() {
            return Err(Refusal::PortDown);
        }
        if self.ports[index].config.guard {
            self.ports[index].guarded = true;
            self.run();
            return Err(Refusal::Guarded);
        }
        if self.config.force_stp && matches!(bpdu, Bpdu::Rst(_)) {
            return Err(Refusal::Version);
        }
        if let Bpdu::Config(message) | Bpdu::Rst(message) = bpdu
            && message.bridge.address == self.config.address
        {
            let sender = message.port & 0xfff;
            if sender == number {
                return Err(Refusal::Own);
            }
            if message.bridge != self.id() || self.port(sender).is_none_or(|port| !port.enabled()) {
                return Err(Refusal::Spoofed);
            }
        }
        self.ports[index].received = Some(*bpdu);
        self.run();
        Ok(())
    }

    /// A second has passed (17.22, Port Timers).
    pub fn second(&mut self) {
        self.since_change += 1;
        for port in &mut self.ports {
            port.second();
        }
        if self.quick_ageing == 1 {
            self.outputs.push(Output::Ageing(None));
        }
        self.quick_ageing = self.quick_ageing.saturating_sub(1);
        self.run();
    }

    fn reselect_all(&mut self) {
        for port in &mut self.ports {
            (port.reselect, port.selected) = (true, false);
        }
        if self.ports.is_empty() {
            self.update_roles();
        }
    }

    /// Lets all machines move until none can, and then send.
    fn run(&mut self) {
        loop {
            while self.move_all() {}
            let sent = (0..self.ports.len()).filter(|port| self.transmit(*port)).count() > 0;
            if !sent {
                return;
            }
        }
    }

    /// Lets each machine move once; whether one did.
    fn move_all(&mut self) -> bool {
        let mut moved = false;
        for port in 0..self.ports.len() {
            moved |= self.receive_machine(port);
            moved |= self.migration(port);
            moved |= self.detection(port);
            moved |= self.information(port);
        }
        moved |= self.selection();
        for port in 0..self.ports.len() {
            moved |= self.role_transitions(port);
            moved |= self.state_transition(port);
            moved |= self.topology_change(port);
        }
        moved
    }
}
