// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol on the engine's clock: frames in, frames out, seconds, and what handlers say.

use std::fmt::Write as _;
use std::time::Duration;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::{Cx, HandlerError, Reason};
use packet::Packet;
use wire::MacAddr;
use wire::stp::{self, Bpdu};

use super::rstp::{Bridge, BridgeConfig, Output, PortConfig, Refusal, State};
use crate::tools::{boolean, number};

/// A bridge of the protocol that runs on the engine's clock. Its ports are numbered from 0, as inputs and outputs are; on the
/// wire they begin with 1, for a port identifier of 0 means none.
pub(super) struct Tree {
    pub bridge: Bridge,
    /// When the next second ends.
    due: Nanos,
    /// Messages that came in well, by kind: Configuration, topology change notification, RST.
    received: [u64; 3],
    sent: u64,
}

/// What is to be done by the element, for the port of this number.
pub(super) enum Act {
    /// Send this frame.
    Send(Packet),
    /// Let through what this state lets through.
    State(State),
    /// Forget the addresses learned there.
    Flush,
    /// Forget addresses after so many seconds, on all ports.
    Ageing(Option<u16>),
}

/// Whole seconds of an argument.
fn whole_seconds(args: &mut Args<'_>, name: &'static str, default: u16) -> u16 {
    let time = args.keyword(name, Duration::from_secs(default.into()));
    if time.subsec_nanos() != 0 {
        args.error(format!("{name} is no whole number of seconds"));
    }
    u16::try_from(time.as_secs()).unwrap_or(u16::MAX)
}

/// Reads the arguments that both elements have.
pub(super) fn configure(args: &mut Args<'_>, address: MacAddr, priority: u16) -> BridgeConfig {
    let defaults = BridgeConfig::new(address);
    let config = BridgeConfig {
        priority,
        hello: whole_seconds(args, "HELLO", defaults.hello),
        max_age: whole_seconds(args, "MAX_AGE", defaults.max_age),
        forward_delay: whole_seconds(args, "FORWARD_DELAY", defaults.forward_delay),
        ..defaults
    };
    if let Some(fault) = config.fault() {
        args.error(fault);
    }
    if address.is_group() {
        args.error(format!("ADDR {address} is a group address, which no bridge has"));
    }
    config
}

impl Tree {
    pub fn new(config: BridgeConfig) -> Tree {
        Tree { bridge: Bridge::new(config), due: 0, received: [0; 3], sent: 0 }
    }

    /// Adds ports 0 to `ports` - 1 with the link up.
    pub fn add_ports(&mut self, ports: usize, config: impl Fn(usize) -> PortConfig) {
        for port in 0..ports {
            self.bridge.add_port(wire_number(port), config(port));
            self.bridge.set_link(wire_number(port), true);
        }
    }

    /// Sets the clock going. The first second ends at once: what has waited for the router to run is then sent.
    pub fn start(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.due = cx.now();
        cx.set_timer(timer, self.due);
    }

    /// A second has passed. What was missed while the worker was away is not made up for: messages that came meanwhile still
    /// wait, and neighbours would seem dead.
    pub fn second(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.due = (self.due + SECOND).max(cx.now());
        cx.set_timer(timer, self.due);
        self.bridge.second();
    }

    /// Says that a port's link went up or down.
    pub fn set_link(&mut self, port: usize, up: bool) {
        self.bridge.set_link(wire_number(port), up);
    }

    /// Of each port, whether its link is up, as last reported to the tree.
    pub fn links(&self) -> impl Iterator<Item = bool> + '_ {
        self.bridge.ports().iter().map(super::rstp::Port::link)
    }

    /// Takes what came in by a port; all of it is consumed here.
    pub fn receive(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        let reason = self.look_at(port, packet.data()).err().unwrap_or(Reason::Discarded);
        cx.drop(reason, packet);
    }

    fn look_at(&mut self, port: usize, frame: &[u8]) -> Result<(), Reason> {
        let header = frame.first_chunk::<{ wire::ethernet::HEADER_LEN }>().ok_or(Reason::TooShort)?;
        let [d0, d1, d2, d3, d4, d5, s0, ..] = *header;
        if MacAddr::new(d0, d1, d2, d3, d4, d5) != stp::GROUP {
            return Err(Reason::NotMatched);
        }
        if s0 & 1 != 0 {
            return Err(Reason::SpoofedBpdu);
        }
        let bpdu = stp::payload_of_frame(frame)
            .and_then(stp::View::new_checked)
            .and_then(|view| Bpdu::parse(&view))
            .map_err(|_| Reason::BadBpdu)?;
        match self.bridge.receive(wire_number(port), &bpdu) {
            Ok(()) => {
                let kind = match bpdu {
                    Bpdu::Config(_) => 0,
                    Bpdu::Tcn => 1,
                    Bpdu::Rst(_) => 2,
                };
                self.received[kind] += 1;
                Ok(())
            }
            Err(Refusal::Guarded) => Err(Reason::BpduGuard),
            Err(Refusal::PortDown) => Err(Reason::Inactive),
            Err(Refusal::Version) => Err(Reason::BadVersion),
            Err(Refusal::Own | Refusal::Spoofed) => Err(Reason::SpoofedBpdu),
        }
    }

    /// Has `act` do what is to be done, in order.
    pub fn carry_out(&mut self, cx: &mut Cx<'_>, mut act: impl FnMut(&mut Cx<'_>, usize, Act)) {
        let src = self.bridge.config().address;
        let mut sent = 0;
        for output in self.bridge.outputs() {
            let (port, what) = match output {
                Output::Send { port, bpdu } => {
                    cx.made(1);
                    let Some(packet) = Packet::copy_of(&bpdu.emit_frame(src)) else {
                        cx.count_drops(Reason::NoMemory, 1);
                        continue;
                    };
                    sent += 1;
                    (port, Act::Send(packet))
                }
                Output::State { port, state } => (port, Act::State(state)),
                Output::Flush { port } => (port, Act::Flush),
                Output::Ageing(seconds) => (1, Act::Ageing(seconds)),
            };
            act(cx, usize::from(port) - 1, what);
        }
        self.sent += sent;
    }

    /// Goes on as `old` did, where it is the same bridge with as many ports; what this configuration says holds.
    pub fn take(&mut self, old: &mut Tree) -> bool {
        let same = |tree: &Tree| (tree.bridge.config().address, tree.bridge.ports().len());
        if same(self) != same(old) {
            return false;
        }
        let (config, mut before) = (*self.bridge.config(), old.bridge.clone());
        let ports: Vec<_> = self.bridge.ports().iter().map(|port| (port.number(), *port.config())).collect();
        let changed = *before.config() != config;
        before.outputs().for_each(drop);
        if changed {
            before.set_config(config);
        }
        for (number, config) in ports {
            if before.port(number).is_some_and(|port| *port.config() != config) {
                before.add_port(number, config);
            }
        }
        // The element has new gates, which are all shut.
        let news: Vec<Output> = before.outputs().collect();
        let states =
            before.ports().iter().map(|port| Output::State { port: port.number(), state: port.state() });
        let states: Vec<Output> = states.collect();
        self.bridge = before;
        self.bridge.put_back(states.into_iter().chain(news));
        (self.due, self.received, self.sent) = (old.due, old.received, old.sent);
        true
    }

    /// Sets the timer for the second that `old` had started.
    pub fn go_on(&self, cx: &mut Cx<'_>, timer: u32) {
        cx.set_timer(timer, self.due);
    }

    pub fn show_times(&self) -> String {
        let times = self.bridge.times();
        format!(
            "hello {} max_age {} forward_delay {} message_age {}",
            times.hello, times.max_age, times.forward_delay, times.message_age
        )
    }

    pub fn show_counts(&self) -> String {
        let [config, tcn, rst] = self.received;
        format!("config {config} tcn {tcn} rst {rst} sent {}", self.sent)
    }

    /// A line for each port.
    pub fn lines(&self, line: impl Fn(&super::rstp::Port) -> String) -> String {
        let mut text = String::new();
        for port in self.bridge.ports() {
            // Writing to a string never fails.
            let _ = writeln!(text, "{} {}", port.number() - 1, line(port));
        }
        text
    }

    /// Executes the write handlers that both elements have. What follows from it is still to be carried out.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let (port, rest) = value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), ""));
        if name == "priority" {
            let priority = number(name, value)?;
            self.bridge.set_config(BridgeConfig { priority, ..*self.bridge.config() });
            return Ok(());
        }
        let number_of_port = number::<u16>(name, port)?.saturating_add(1);
        let Some(port) = self.bridge.port(number_of_port) else {
            return Err(HandlerError::bad_value(name, value, "a port of the bridge first"));
        };
        let config = *port.config();
        match name {
            "link" => self.bridge.set_link(number_of_port, boolean(name, rest)?),
            "enable" => self.bridge.set_enabled(number_of_port, boolean(name, rest)?),
            "cost" => {
                let path_cost = number(name, rest)?;
                self.bridge.add_port(number_of_port, PortConfig { path_cost, ..config });
            }
            "check" => self.bridge.check_migration(number_of_port),
            _ => return Err(HandlerError::unknown(name)),
        }
        Ok(())
    }
}

/// Role, state, cost, identifier, what is announced there, and what is unusual.
pub(super) fn show_port(port: &super::rstp::Port) -> String {
    let designated = port.designated();
    let flags = [
        (!port.enabled(), " off"),
        (port.guarded(), " guarded"),
        (port.is_edge(), " edge"),
        (!port.is_rapid(), " stp"),
    ];
    let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, text)| *text).collect();
    format!(
        "{} {} cost {} id {:04x} designated {}.{:04x} cost {}{flags}",
        port.role().name(),
        port.state().name(),
        port.config().path_cost,
        port.id(),
        designated.bridge,
        designated.port,
        designated.cost
    )
}

/// The number that a port has on the wire.
fn wire_number(port: usize) -> u16 {
    u16::try_from(port + 1).unwrap_or(u16::MAX)
}
