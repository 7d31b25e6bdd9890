// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan without a router: which workers would run what, from the configuration alone. Elements are asked how many tasks
//! they will have, over devices that are made up.

use std::sync::Arc;

use lang::{Diagnostic, Graph};
use packet::port::{Device, Error, Info, Provider, RxQueue, Spec, TxQueue};

use crate::blueprint::hows;
use crate::build::{Opening, open_all};
use crate::capability;
use crate::check::{self, Check, configured};
use crate::holdings::Holdings;
use crate::homes;
use crate::locks::{self, PlannedLock};
use crate::plan::{self, Placed};
use crate::runtime::DEFAULT_BURST;
use element::args::Names;
use element::ports::Processing;
use element::wiring::End;
use element::{Class, ElementId, ElementPlan, IndexVec, Mode, Registry, Sharing};

/// Returns how many receive and transmit queues the device of a [`Spec`] will have.
pub type Queues = dyn Fn(&Spec) -> (usize, usize) + Send + Sync;

/// An element in a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its class.
    pub class: &'static Class,
    /// Its class's way of sharing, or what its configuration makes of it.
    pub sharing: Sharing,
    /// Why it must stay one; empty if it need not.
    pub why_one: &'static str,
    /// Where it runs.
    pub place: Arc<ElementPlan>,
    /// Its outputs, how each works, and what it leads to: element and input.
    pub outputs: Vec<(Processing, Vec<End>)>,
    /// The tasks by which workers reach it: element and worker.
    pub reached_from: Vec<(ElementId, usize)>,
    /// The locks that it takes.
    pub locks: Vec<PlannedLock>,
}

impl Check {
    /// Plans the elements for so many workers.
    ///
    /// # Errors
    /// What elements find wrong when they are asked for their tasks.
    pub fn plan(
        self,
        graph: &Graph,
        workers: usize,
        queues: Box<Queues>,
    ) -> Result<IndexVec<ElementId, Planned>, Vec<Diagnostic>> {
        let (places, planned) = self.place(graph, workers.max(1), queues)?;
        let Check { checked, primaries, .. } = &planned;
        let hows = hows(checked, primaries);
        let mut all: IndexVec<ElementId, Planned> = places
            .into_iter_enumerated()
            .map(|(e, place)| {
                let class = checked.classes[e];
                let ports = checked.outputs(e).iter();
                Planned {
                    class,
                    sharing: hows[e].sharing,
                    why_one: capability::one_order(class, &*primaries[e]).unwrap_or(class.why_one),
                    place,
                    outputs: ports.map(|p| (p.processing, p.peers.to_vec())).collect(),
                    reached_from: Vec::new(),
                    locks: Vec::new(),
                }
            })
            .collect();
        let mut search = plan::Reached::new(checked);
        for task in all.ids() {
            let homes = all[task].place.tasks.clone();
            if homes.is_empty() {
                continue;
            }
            for reached in search.from(task) {
                all[reached].reached_from.extend(homes.iter().map(|w| (task, *w)));
            }
        }
        let locks = all.iter().zip(primaries);
        let locks = locks.map(|(p, primary)| locks::of(p.class, &**primary, &p.place, p.why_one)).collect();
        let names: IndexVec<ElementId, &str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
        locks::join(&mut all, &names, locks);
        Ok(all)
    }

    /// Asks all elements for their tasks and places them.
    fn place(
        mut self,
        graph: &Graph,
        workers: usize,
        queues: Box<Queues>,
    ) -> Result<(Placed, Check), Vec<Diagnostic>> {
        let provider = MadeUp(queues.into());
        let opening = Opening {
            provider: &provider,
            holdings: &Holdings::new(None),
            workers,
            burst: DEFAULT_BURST,
            dry: true,
        };
        let tasks = open_all(graph, &self.checked, &mut self.primaries, &opening)?;
        let hows = hows(&self.checked, &self.primaries);
        let homes = homes::gather(graph, &self.checked, &self.primaries, &tasks, workers)?;
        let places = plan::plan(&self.checked, &tasks, &homes, &hows, workers);
        Ok((places, self))
    }
}

/// Goes through all that building a router asks of elements before anything is opened: arguments, tasks, placement, and an
/// instance for each worker. For a process of its own, which finds out what that costs.
///
/// # Errors
/// All that is wrong.
pub fn trial(
    graph: &Graph,
    registry: &Registry,
    workers: usize,
    queues: Box<Queues>,
) -> Result<(), Vec<Diagnostic>> {
    let check = check::check(graph, registry)?;
    let rcu = sync::rcu::Domain::default();
    let names = Names::gather(graph);
    let (places, check) = check.place(graph, workers.max(1), queues)?;
    let mut errors = Vec::new();
    let mut instances = Vec::new();
    for ((e, place), primary) in places.iter_enumerated().zip(&check.primaries) {
        for _ in 1..place.instances() {
            let shared = if place.mode == Mode::PerCore {
                None
            } else {
                capability::share(check.checked.classes[e], &**primary)
            };
            let further = || configured(graph, &check.checked, &names, &rcu, e, &mut errors);
            instances.push(shared.unwrap_or_else(further));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Devices that exist only to be counted.
struct MadeUp(Arc<Queues>);

impl Provider for MadeUp {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let (rx_queues, tx_queues) = (self.0)(spec);
        let (name, driver) = (spec.device.clone(), String::new());
        Ok(Arc::new(Imagined(Info { name, driver, mac: None, mtu: 1500, rx_queues, tx_queues })))
    }
}

struct Imagined(Info);

impl Imagined {
    fn none(&self) -> Error {
        Error::new(&self.0.name, "it is only planned", "")
    }
}

impl Device for Imagined {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn rx(&self, _: usize) -> Result<Box<dyn RxQueue>, Error> {
        Err(self.none())
    }

    fn tx(&self, _: usize) -> Result<Box<dyn TxQueue>, Error> {
        Err(self.none())
    }
}
