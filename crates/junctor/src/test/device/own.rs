// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration in this process, on ports in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::clock::TimeSource;
use engine::{Options, Router};
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::{MemoryPort, Wire};

use super::cable::{RING, tester_port};
use super::flows::{Flows, amended};
use super::{Plugged, Running, Setup, Traffic, cores};
use crate::bench::Pattern;
use crate::config::{Form, Source};

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

/// Starts a configuration and plugs the tester in.
pub(super) fn plug(conf: &str, setup: &Setup, traffic: &Traffic) -> Result<Plugged, String> {
    let workers = setup.workers;
    let source = Source { words: vec![conf.to_owned()], ..Source::default() };
    let mut loaded = source.load()?;
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let graph = loaded.graph.take().ok_or_else(|| format!("{conf} has errors"))?;
    let mut patterns: Flows = Pattern::gather(&amended(&loaded.text(), &setup.flows))?.into_iter().collect();
    patterns.sort_by(|(a, _), (b, _)| a.cmp(b));
    if patterns.is_empty() {
        return Err(format!(
            "{conf} does not say what to send to it; write a line such as \
             '// bench: eth0 ether=02:00:00:00:00:01 src=10.0.0.0/24 dst=10.0.1.0/24 flows=256' for each device, or give --flow"
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
    for (name, _) in &patterns {
        ports.push(tester_port(name, &wires.wire(name))?);
    }
    let mut plugged = Plugged::new(ports, &patterns, traffic)?;
    // The tester takes the core after the workers', if there is one.
    plugged.own_core = cores::all().get(workers).is_some_and(|core| core_affinity::set_for_current(*core));
    plugged.device_cores = cores::all().iter().take(workers).map(|core| core.id).collect();
    plugged.running = Some(running);
    Ok(plugged)
}
