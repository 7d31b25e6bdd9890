// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices under test: what the tester's ports are plugged into.
//!
//! A device in this process has ports in memory ([`own`], [`cable`]). Others have network interfaces: those of a rig that is built for them ([`rig`]:
//! the kernel's router and bridge, the plain forwarder, a command), two of the machine's ([`ports`]), or some of other machines' ([`agents`]). All
//! that is started for a device ends with its [`Plugged`], and on a signal ([`interrupt`]).

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use tester::station::{Plan, Port, Station, Stream};
use tester::trial::Trial;

use super::agent::Reach;
use super::filters::Filters;
use super::interrupt;
use super::networks::{Route, covering};
use crate::Error;
use conf::Source;
use flows::Flows;
use harness::Pattern;

mod agents;
mod cable;
mod command;
mod cores;
mod flows;
mod kernel;
mod name;
mod own;
mod passthrough;
pub(super) mod ports;
mod rig;
mod running;

pub use command::{run as run_command, start as start_command};
pub use flows::FlowLine;
pub use name::Name;
pub use rig::Driver;
pub(crate) use rig::{generated, open};
pub(crate) use running::{ANOTHER_WORKER, Running};

/// How a device is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Cores of the device, if it is not to have the usual number.
    pub(crate) workers: Option<usize>,
    /// By what the tester's ports are driven.
    pub(crate) driver: Driver,
    /// What is sent where, beyond what is known of the device.
    pub(crate) flows: Vec<FlowLine>,
    /// The device is a bridge: frames go to the hosts' Ethernet addresses, not to its own.
    pub(crate) bridged: bool,
    /// Flows of IPv6, where nothing else says.
    pub(crate) ipv6: bool,
    /// Those of the other family are made ready too, where they are known ([`Plugged::other`]).
    pub(crate) both: bool,
    /// File with the key of agents.
    pub(crate) key: Option<PathBuf>,
}

/// What is sent to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Frame size in bytes, with FCS.
    pub(crate) size: usize,
    /// The longest of them, where several are mixed.
    pub(crate) longest: usize,
    /// Only the first port sends.
    pub(crate) one_way: bool,
    /// How long stragglers are waited for.
    pub(crate) stragglers: Duration,
    /// What makes keys.
    pub(crate) seed: u64,
}

/// Puts routes on a device.
type Put = dyn Fn(&[Route]) -> Result<(), Error> + Send;

/// How a device gets routes to networks behind its neighbours.
pub(crate) enum Routing {
    /// It needs none: it forwards everything that comes.
    Needless,
    /// The tester puts them there: in these words, by this.
    Ours(&'static str, Box<Put>),
    /// Only its owner can.
    Theirs,
}

impl Routing {
    /// What a report says of it.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Routing::Needless => "the device needs no routes",
            Routing::Ours(how, _) => how,
            Routing::Theirs => "the device's owner has set the routes: no update was sent",
        }
    }

    /// Sees that the device has these. Returns what its owner must have done.
    pub(crate) fn put(&self, routes: &[Route]) -> Result<Option<String>, Error> {
        match self {
            Routing::Needless => Ok(None),
            Routing::Ours(_, put) => put(routes).map(|()| None),
            Routing::Theirs => {
                let mut words: Vec<String> =
                    routes.iter().map(|r| format!("{} via {}", covering(r), r.via)).collect();
                words.dedup();
                Ok(Some(format!(
                    "the device must have the routes {}: the tester cannot set them",
                    words.join(", ")
                )))
            }
        }
    }
}

/// Takes the filters off a device, or puts these on it. Returns the commands that it was given.
type Filter = dyn Fn(Option<&Filters>) -> Result<String, Error> + Send;

/// Makes a bridge forget the addresses that it has learnt.
pub(crate) type Forget = dyn FnMut() -> Result<(), Error> + Send;

/// How a device gets filters.
pub(crate) enum Filtering {
    /// It is a configuration of this process, in whose way they are put ([`Running::filter`]).
    Swap,
    /// The tester puts them there by this.
    Ours(Box<Filter>),
    /// Only its owner can.
    Theirs,
}

/// A device that runs, with the tester's ports plugged in.
pub(crate) struct Plugged {
    pub(crate) station: Station,
    /// How many ports send.
    pub(crate) senders: usize,
    /// Whether the tester has a core that the device does not use, or there is no device on this machine.
    pub(crate) own_core: bool,
    /// The tester's ports are no network interfaces.
    pub(crate) in_memory: bool,
    /// What a reader of the results must know of how this was built.
    pub(crate) notes: Vec<String>,
    /// Bits a second of the slowest of the ports' links, if they have a speed.
    pub(crate) link_bits: Option<u64>,
    /// The machines that have the tester's ports, if they are not this one.
    pub(crate) agents: Value,
    /// The device, if it is one of this process.
    pub(crate) running: Option<Running>,
    /// What is sent with addresses of the other family, if that was asked for and is known.
    pub(crate) other: Option<Plan>,
    /// Numbers of the device's processors, if they are this machine's.
    pub(crate) device_cores: Vec<usize>,
    /// How many cores the device has; 1 where nobody knows.
    pub(crate) workers: usize,
    /// How the device gets routes.
    pub(crate) routing: Routing,
    /// How it gets filters.
    pub(crate) filtering: Filtering,
    /// How it is made to forget addresses, where the tester can do so without starting it anew.
    pub(crate) forget: Option<Box<Forget>>,
    /// How the device is configured, where that shows only when it is there.
    pub(crate) configuration: Option<String>,
    /// It looks at Ethernet addresses only.
    pub(crate) bridged: bool,
    /// What else is there until this is dropped: the rig, and what runs in it.
    pub(crate) beside: Option<Box<dyn Any + Send>>,
}

impl Plugged {
    /// A tester's ports and their flows, with nothing else yet.
    fn new(ports: Vec<Port>, patterns: &Flows, traffic: &Traffic) -> Result<Plugged, Error> {
        let plan = plan(patterns, traffic);
        let senders = plan.streams.iter().filter(|s| !s.flows.is_empty()).count();
        let mut station = Station::new(ports, &plan, traffic.seed)?;
        interrupt::given_up().into_iter().for_each(|given_up| station.heed(given_up));
        let (own_core, in_memory, notes) = (true, true, Vec::new());
        let (link_bits, agents, running, beside) = (None, Value::Null, None, None);
        let (other, device_cores) = (None, Vec::new());
        Ok(Plugged {
            station,
            senders,
            own_core,
            in_memory,
            notes,
            link_bits,
            agents,
            running,
            other,
            device_cores,
            workers: 1,
            routing: Routing::Theirs,
            filtering: Filtering::Theirs,
            forget: None,
            configuration: None,
            bridged: false,
            beside,
        })
    }

    /// Adds the flows of the other family, if they are asked for; `known` are those of a family. What a user says of flows is said of
    /// one family.
    fn with_other(
        mut self,
        setup: &Setup,
        traffic: &Traffic,
        known: impl Fn(bool) -> Vec<(String, String)>,
    ) -> Result<Plugged, Error> {
        if setup.both && setup.flows.is_empty() {
            self.other = Some(plan(&flows::of_ports(&known(!setup.ipv6), &[])?, traffic));
        }
        Ok(self)
    }
}

/// The flows of all ports; where each ought to arrive is where its destination is at home.
fn plan(patterns: &Flows, traffic: &Traffic) -> Plan {
    let home = |address| {
        let mut homes = patterns.iter().enumerate().filter(|(_, (_, pattern))| pattern.is_home_of(address));
        // Where two ports share a network, neither is wrong.
        homes.next().map(|(port, _)| port).filter(|_| homes.next().is_none())
    };
    let stream = |(index, (_, pattern)): (usize, &(String, Pattern))| {
        let flows = if traffic.one_way && index > 0 { Vec::new() } else { pattern.test_flows() };
        let flows = flows.into_iter().map(|flow| (flow, home(flow.dst))).collect();
        Stream { flows, sizes: vec![traffic.size], ..Stream::default() }
    };
    let streams = patterns.iter().enumerate().map(stream).collect();
    Plan { streams, stragglers: traffic.stragglers, ..Plan::default() }
}

/// Starts a device and plugs the tester in.
pub(crate) fn plug(name: &Name, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let plugged = match name {
        Name::Own(conf) => own::plug(conf, setup, traffic),
        Name::Cable => cable::plug(setup, traffic),
        Name::Veth => cable::plug_virtual(setup.driver, setup, traffic),
        Name::KernelRouter(ports) => kernel::router(*ports, setup, traffic),
        Name::KernelBridge(ports) => kernel::bridge(*ports, setup, traffic),
        Name::Passthrough => passthrough::plug(setup, traffic),
        Name::Command(line) => command::plug(line, setup, traffic),
        Name::Ports(interfaces) => ports::plug(interfaces, setup, traffic),
        Name::Agents(places) => agents::plug(places, setup, traffic),
    };
    let mut plugged = plugged?;
    if matches!(name, Name::Own(_) | Name::Cable) && setup.driver != Driver::Auto {
        plugged
            .notes
            .push("--driver is for network interfaces: this device's ports are in memory.".to_owned());
    }
    plugged.bridged |= setup.bridged || matches!(name, Name::KernelBridge(_));
    if setup.bridged || matches!(name, Name::Cable | Name::Veth | Name::KernelBridge(_) | Name::Passthrough) {
        plugged.routing = Routing::Needless;
    }
    Ok(plugged)
}

/// Starts a configuration of this text in this process, and plugs the tester in.
pub(super) fn plug_text(name: &str, text: &str, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    own::plug_source(name, &Source::text(text), setup, traffic)
}

/// Two interfaces joined by a virtual cable.
pub(super) fn virtual_cable(driver: Driver, traffic: &Traffic) -> Result<Plugged, Error> {
    let (flows, key) = (Vec::new(), None);
    let setup = Setup { workers: None, driver, flows, bridged: true, ipv6: false, both: false, key };
    cable::plug_virtual(driver, &setup, traffic)
}

/// What the tester reaches on two ports joined as directly as ports of the device's kind can be: that is its own limit. Returns also
/// what joins them.
pub(super) fn loopback(name: &Name, setup: &Setup, traffic: &Traffic) -> Result<(Reach, String), Error> {
    let (mut plugged, what) = match name {
        Name::Agents(places) => return agents::loopback(places, setup, traffic),
        Name::Own(_) | Name::Cable => (cable::plug(setup, traffic)?, "a cable in memory"),
        Name::Ports(interfaces) => {
            let driver = ports::driver(interfaces, setup.driver)?;
            let what = "a virtual cable (what a cable between these two ports would show, ports:... --bridged tells)";
            (cable::plug_virtual(driver, setup, traffic)?, what)
        }
        _ => (cable::plug_virtual(setup.driver, setup, traffic)?, "a virtual cable"),
    };
    Ok((reach(&mut plugged)?, what.to_owned()))
}

/// For how long stragglers are waited for where the tester is measured.
pub(crate) const CALIBRATED: Duration = Duration::from_millis(10);

/// What the tester reaches on a cable.
pub(crate) fn reach(cable: &mut Plugged) -> Result<Reach, Error> {
    let mut run = |rate| {
        let trial = Trial::new(rate, Duration::from_millis(100));
        cable.station.run(trial)
    };
    run(1e4)?;
    let outcome = run(1e9)?.outcome;
    let rate = outcome.received as f64 / outcome.duration.as_secs_f64();
    let latency_ns = run((rate / 100.0).max(1e3))?.latency.value_at_quantile(0.5);
    Ok(Reach { rate, latency_ns })
}
