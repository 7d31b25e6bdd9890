// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices under test: what the tester's ports are plugged into.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use core_affinity::CoreId;
use engine::clock::TimeSource;
use engine::{Options, Router};
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::{MemoryPort, Wire};
use tester::station::{Plan, Port, Station, Stream};

use crate::bench::Pattern;
use crate::config::{Form, Source};

mod running;

pub(crate) use running::Running;

/// Packets that a port of a device in this process holds, as a network card's ring does.
const RING: usize = 1024;

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A configuration in this process, on ports in memory.
    Own(String),
    /// A cable: what the tester itself reaches.
    Cable,
}

impl Name {
    /// Reads the command line's form.
    pub(crate) fn parse(text: &str) -> Result<Name, String> {
        match text.split_once(':') {
            Some(("self", conf)) if !conf.is_empty() => Ok(Name::Own(conf.to_owned())),
            None if text == "cable" => Ok(Name::Cable),
            _ => Err("expected self:CONF or cable".to_owned()),
        }
    }

    /// The device's configuration as a report has it; nothing where the tester does not see it.
    pub(crate) fn configuration(&self) -> Option<String> {
        match self {
            Name::Own(conf) => std::fs::read_to_string(conf).ok(),
            Name::Cable => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Own(conf) => write!(f, "self:{conf}"),
            Name::Cable => write!(f, "cable"),
        }
    }
}

/// What is sent to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Frame size in bytes, with FCS.
    pub(crate) size: usize,
    /// Only the first port sends.
    pub(crate) one_way: bool,
    /// How long stragglers are waited for.
    pub(crate) stragglers: Duration,
    /// What makes keys.
    pub(crate) seed: u64,
}

/// A device that runs, with the tester's ports plugged in.
pub(crate) struct Plugged {
    pub(crate) station: Station,
    /// How many ports send.
    pub(crate) senders: usize,
    /// Whether the tester has a core that the device does not use, or there is no device beside it.
    pub(crate) own_core: bool,
    /// The device, if it is one of this process.
    pub(crate) running: Option<Running>,
}

/// A wire, and the device's end of it while the device has it open: what waits in it ends with the device.
type Plug = (Arc<Wire>, Weak<MemoryPort>);

/// Gives every device name of a configuration one end of a wire.
#[derive(Default)]
struct Wires(Mutex<HashMap<String, Plug>>);

impl Wires {
    /// The wire of this name.
    fn wire(&self, name: &str) -> Arc<Wire> {
        let mut wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (wire, _) = wires.entry(name.to_owned()).or_insert_with(|| (Wire::new(name, RING), Weak::new()));
        wire.clone()
    }
}

impl Provider for Wires {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let wire = self.wire(&spec.device);
        let mut wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wires.get(&spec.device).and_then(|(_, port)| port.upgrade()) {
            return Ok(known);
        }
        let port = MemoryPort::new(&spec.device, &wire)?;
        wires.insert(spec.device.clone(), (wire, Arc::downgrade(&port)));
        Ok(port)
    }
}

/// The flows of all ports; where each ought to arrive is where its destination is at home.
fn plan(patterns: &BTreeMap<String, Pattern>, traffic: &Traffic) -> Plan {
    let home = |address| {
        let mut homes = patterns.values().enumerate().filter(|(_, pattern)| pattern.is_home_of(address));
        // Where two ports share a network, neither is wrong.
        homes.next().map(|(port, _)| port).filter(|_| homes.next().is_none())
    };
    let stream = |(index, pattern): (usize, &Pattern)| {
        let flows = if traffic.one_way && index > 0 { Vec::new() } else { pattern.test_flows() };
        let flows = flows.into_iter().map(|flow| (flow, home(flow.dst))).collect();
        Stream { flows, sizes: vec![traffic.size], ..Stream::default() }
    };
    let streams = patterns.values().enumerate().map(stream).collect();
    Plan { streams, stragglers: traffic.stragglers, ..Plan::default() }
}

/// Starts a device and plugs the tester in.
pub(crate) fn plug(name: &Name, workers: usize, traffic: &Traffic) -> Result<Plugged, String> {
    match name {
        Name::Own(conf) => own(conf, workers, traffic),
        Name::Cable => cable(traffic),
    }
}

/// The machine's cores, as they are before the tester takes one of them.
fn cores() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}

fn own(conf: &str, workers: usize, traffic: &Traffic) -> Result<Plugged, String> {
    let source = Source { words: vec![conf.to_owned()], ..Source::default() };
    let mut loaded = source.load()?;
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let graph = loaded.graph.take().ok_or_else(|| format!("{conf} has errors"))?;
    let patterns: BTreeMap<String, Pattern> = Pattern::gather(&loaded.text())?.into_iter().collect();
    if patterns.is_empty() {
        return Err(format!(
            "{conf} does not say what to send to it; write a line such as \
             '// bench: eth0 ether=02:00:00:00:00:01 src=10.0.0.0/24 dst=10.0.1.0/24 flows=256' for each device"
        ));
    }
    let wires = Arc::new(Wires::default());
    let (name, provider) = (conf.to_owned(), wires.clone());
    let running = Running::start(graph, move |graph| {
        let options = Options {
            provider: provider.clone(),
            workers,
            reserve: 0,
            cores: (0..workers).collect(),
            burst: engine::DEFAULT_BURST,
            time: TimeSource::Real,
            seed: 1,
            // By which driver a device is served is no news here.
            print: Some(Box::new(|_| {})),
        };
        Router::build(graph, &elements::registry(), options).map_err(|errors| {
            loaded.report(&errors, Form::Full, true);
            format!("{name} cannot be run")
        })
    })?;
    let mut ports = Vec::new();
    for name in patterns.keys() {
        ports.push(tester_port(name, &wires.wire(name))?);
    }
    let plan = plan(&patterns, traffic);
    let senders = plan.streams.iter().filter(|s| !s.flows.is_empty()).count();
    let station = Station::new(ports, &plan, traffic.seed).map_err(|why| why.to_string())?;
    // The tester takes the core after the workers', if there is one.
    let own_core = cores().get(workers).is_some_and(|core| core_affinity::set_for_current(*core));
    Ok(Plugged { station, senders, own_core, running: Some(running) })
}

/// Two ports of the tester's, joined.
fn cable(traffic: &Traffic) -> Result<Plugged, String> {
    let text = "// bench: a src=10.0.0.0/24 dst=10.0.1.0/24 flows=256\n// bench: b src=10.0.1.0/24 dst=10.0.0.0/24 flows=256";
    let patterns: BTreeMap<String, Pattern> = Pattern::gather(text)?.into_iter().collect();
    let wire = Wire::new("cable", RING);
    let ports = ["a", "b"].into_iter().map(|name| tester_port(name, &wire)).collect::<Result<_, _>>()?;
    let plan = plan(&patterns, traffic);
    let senders = if traffic.one_way { 1 } else { 2 };
    let station = Station::new(ports, &plan, traffic.seed).map_err(|why| why.to_string())?;
    Ok(Plugged { station, senders, own_core: true, running: None })
}

fn tester_port(name: &str, wire: &Arc<Wire>) -> Result<Port, String> {
    let port = MemoryPort::new(name, wire).map_err(|why| why.to_string())?;
    Port::new(name, port).map_err(|why| why.to_string())
}
