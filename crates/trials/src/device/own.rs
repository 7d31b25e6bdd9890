// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration in this process, on ports in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::Router;
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::{MemoryPort, Wire};

use super::cable::{RING, tester_port};
use super::flows::{Flows, amended};
use super::rig;
use super::running::Handle;
use super::{Filtering, Plugged, Route, Routing, Running, Setup, Traffic, cores};
use conf::{Form, Source};
use harness::Pattern;

/// A wire, and the device's end of it while the device has it open: what waits in it ends with the device.
type Plug = (Arc<Wire>, Weak<MemoryPort>);

/// Gives every device name of a configuration one end of a wire, each for so large a payload.
struct Wires {
    mtu: usize,
    plugs: Mutex<HashMap<String, Plug>>,
}

impl Wires {
    /// The wire of this name.
    fn wire(&self, name: &str) -> Arc<Wire> {
        let mut wires = self.plugs.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || (Wire::with_mtu(name, RING, self.mtu), Weak::new());
        let (wire, _) = wires.entry(name.to_owned()).or_insert_with(new);
        wire.clone()
    }
}

impl Provider for Wires {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let wire = self.wire(&spec.device);
        let mut wires = self.plugs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wires.get(&spec.device).and_then(|(_, port)| port.upgrade()) {
            return Ok(known);
        }
        let port = MemoryPort::new(&spec.device, &wire)?;
        wires.insert(spec.device.clone(), (wire, Arc::downgrade(&port)));
        Ok(port)
    }
}

/// Gives every table that knows the way to a route's next hop that route too.
fn add_routes(handle: &Handle, routes: &[Route]) -> Result<(), crate::Error> {
    let Some(control) = handle.control() else { return Err(crate::Error::NotRunning) };
    let shared = control.shared();
    let tables = shared.elements.iter_enumerated().filter(|(index, _)| {
        ["lookup", "ctrl"].iter().all(|name| shared.handlers(*index).any(|handler| handler.name == *name))
    });
    let tables: Vec<String> = tables.map(|(_, element)| element.name.to_string()).collect();
    let mut known = 0;
    for table in &tables {
        let mut lines = String::new();
        for route in routes {
            // OUTPUT, or OUTPUT GATEWAY; a negative output leads nowhere.
            let way = control.read(&format!("{table}.lookup"), &route.via.to_string());
            let Ok(way) = way else { continue };
            let (output, gateway) = way.trim().split_once(' ').unwrap_or((way.trim(), ""));
            if output.parse::<u32>().is_err() {
                continue;
            }
            let gateway = if gateway.is_empty() { route.via.to_string() } else { gateway.to_owned() };
            lines += &format!("set {} {gateway} {output}\n", route.prefix());
            known += 1;
        }
        if !lines.is_empty() {
            let set = control.write(&format!("{table}.ctrl"), &lines);
            set.map_err(|why| {
                crate::Error::from(why).during(format_args!("{table} does not take the routes"))
            })?;
        }
    }
    if known < routes.len() {
        let via = routes.first().map(|route| route.via.to_string()).unwrap_or_default();
        return Err(crate::Error::unfit(format!(
            "routes cannot be set: no table of the configuration that can be changed knows the way to {via}"
        )));
    }
    Ok(())
}

/// Starts the configuration of a file and plugs the tester in.
pub(super) fn plug(conf: &str, setup: &Setup, traffic: &Traffic) -> Result<Plugged, crate::Error> {
    plug_source(conf, &Source::file(conf), setup, traffic)
}

/// Starts a configuration, which is called `conf`, and plugs the tester in.
pub(super) fn plug_source(
    conf: &str,
    source: &Source,
    setup: &Setup,
    traffic: &Traffic,
) -> Result<Plugged, crate::Error> {
    let workers = setup.workers.unwrap_or(1);
    let mut loaded = source.load();
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let graph =
        loaded.graph.take().ok_or_else(|| crate::Error::Configuration(format!("{conf} has errors")))?;
    let mut patterns: Flows = Pattern::gather(&amended(&loaded.text(), &setup.flows))?.into_iter().collect();
    patterns.sort_by(|(a, _), (b, _)| a.cmp(b));
    if patterns.is_empty() {
        return Err(crate::Error::setting(format!(
            "{conf} does not say what to send to it; write a line such as \
             '// bench: eth0 ether=02:00:00:00:00:01 src=10.0.0.0/24 dst=10.0.1.0/24 flows=256' for each device, or give --flow"
        )));
    }
    let wires = Arc::new(Wires { mtu: rig::mtu_for(traffic), plugs: Mutex::default() });
    let (name, provider) = (conf.to_owned(), wires.clone());
    let running = Running::start(graph, move |graph| {
        let options = harness::options(provider.clone(), (workers, (0..workers).collect()));
        Router::build(graph, &elements::registry(), options).map_err(|errors| {
            loaded.report(&errors, Form::Full, true);
            crate::Error::Configuration(format!("{name} cannot be run"))
        })
    })?;
    let mut ports = Vec::new();
    for (name, _) in &patterns {
        ports.push(tester_port(name, &wires.wire(name))?);
    }
    let mut plugged = Plugged::new(ports, &patterns, traffic)?;
    // The tester takes the core after the workers', if there is one.
    plugged.own_core = cores::all().get(workers).is_some_and(|core| core_affinity::set_for_current(*core));
    plugged.workers = workers;
    plugged.device_cores = cores::all().iter().take(workers).map(|core| core.id).collect();
    plugged.routing = Routing::Ours("they were set by its handlers before the first trial", {
        let handle = running.handle();
        Box::new(move |routes| add_routes(&handle, routes))
    });
    plugged.bridged = patterns.iter().all(|(_, pattern)| pattern.is_bridged());
    plugged.filtering = Filtering::Swap;
    plugged.running = Some(running);
    Ok(plugged)
}
