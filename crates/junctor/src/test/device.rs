// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices under test: what the tester's ports are plugged into.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use core_affinity::CoreId;
use engine::clock::TimeSource;
use engine::{Options, Router, Shared};
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::{MemoryPort, Wire};
use tester::station::{Plan, Port, Station, Stream};

use crate::bench::Pattern;
use crate::config::{Form, Source};

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
    _running: Option<Running>,
}

/// A configuration that runs beside the tester, until this is dropped.
struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A worker that panics has said why.
            let _ = thread.join();
        }
    }
}

/// A wire, and the device's end of it.
type Plug = (Arc<Wire>, Arc<MemoryPort>);

/// Gives every device name of a configuration one end of a wire.
#[derive(Default)]
struct Wires(Mutex<HashMap<String, Plug>>);

impl Wires {
    fn wire(&self, name: &str) -> Result<Plug, Error> {
        let mut wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wires.get(name) {
            return Ok(known.clone());
        }
        let wire = Wire::new(name, RING);
        let port = MemoryPort::new(name, &wire)?;
        wires.insert(name.to_owned(), (wire.clone(), port.clone()));
        Ok((wire, port))
    }
}

impl Provider for Wires {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let (_, port) = self.wire(&spec.device)?;
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
        Stream { flows, size: traffic.size }
    };
    Plan { streams: patterns.values().enumerate().map(stream).collect(), stragglers: traffic.stragglers }
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
    let options = Options {
        provider: wires.clone(),
        workers,
        reserve: 0,
        cores: (0..workers).collect(),
        burst: engine::DEFAULT_BURST,
        time: TimeSource::Real,
        seed: 1,
        // By which driver a device is served is no news here.
        print: Some(Box::new(|_| {})),
    };
    let router = Router::build(&graph, &elements::registry(), options);
    let mut router = router.map_err(|errors| {
        loaded.report(&errors, Form::Full, true);
        format!("{conf} cannot be run")
    })?;
    let mut ports = Vec::new();
    for name in patterns.keys() {
        let (wire, _) = wires.wire(name).map_err(|why| why.to_string())?;
        ports.push(tester_port(name, &wire)?);
    }
    let plan = plan(&patterns, traffic);
    let senders = plan.streams.iter().filter(|s| !s.flows.is_empty()).count();
    let station = Station::new(ports, &plan, traffic.seed).map_err(|why| why.to_string())?;
    let shared = router.shared().clone();
    // What the device starts beside its workers inherits this core: it is not to wait for the tester's.
    if let Some(first) = cores().first() {
        core_affinity::set_for_current(*first);
    }
    let thread = std::thread::Builder::new().name("device".into()).spawn(move || router.run());
    let thread = thread.map_err(|why| format!("cannot start a thread: {why}"))?;
    // The tester takes the core after the workers', if there is one.
    let own_core = cores().get(workers).is_some_and(|core| core_affinity::set_for_current(*core));
    Ok(Plugged { station, senders, own_core, _running: Some(Running { shared, thread: Some(thread) }) })
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
    Ok(Plugged { station, senders, own_core: true, _running: None })
}

fn tester_port(name: &str, wire: &Arc<Wire>) -> Result<Port, String> {
    let port = MemoryPort::new(name, wire).map_err(|why| why.to_string())?;
    Port::new(name, port).map_err(|why| why.to_string())
}
