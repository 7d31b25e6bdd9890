// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a change of placement asks of the configuration that runs, and the same configuration with its tasks placed elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use lang::Graph;
use sync::mutex::lock;

use super::Shared;
use crate::check::configured;
use crate::holdings::{Holdings, Previous};
use crate::homes::Wished;
use crate::plan::{How, Placed, Reached};
use crate::ports::port_table;
use crate::runtime::Runtime;
use element::args::Names;
use element::timers::CommonTimers;
use element::{Element, ElementId, ElementInfo, ElementPlan, IndexVec, Mode, Tasks};

impl Shared {
    /// What the router keeps through all its configurations; `None` once it is gone.
    pub fn runtime(&self) -> Option<Arc<Runtime>> {
        self.runtime.upgrade()
    }

    /// Whether the other is the same configuration, in the same placement or another.
    pub fn is_same_configuration(&self, other: &Shared) -> bool {
        Arc::ptr_eq(&self.lineage, &other.lineage)
    }

    /// The same for all placements of one configuration, and different for different ones.
    pub fn lineage(&self) -> &Arc<()> {
        &self.lineage
    }

    /// Packets that sources send at a time.
    pub fn burst(&self) -> usize {
        self.burst
    }

    /// How an element may be shared.
    pub fn how(&self, element: ElementId) -> How {
        self.blueprint.hows[element]
    }

    /// Tasks that an element has.
    pub fn tasks(&self, element: ElementId) -> Tasks {
        self.blueprint.tasks[element]
    }

    /// The workers that the configuration asks for, for an element's tasks.
    pub fn wished(&self, element: ElementId) -> Option<&Vec<usize>> {
        self.blueprint.wished[element].as_ref()
    }

    /// Whether an element treats packets by the worker that brings them.
    pub fn tells_workers_apart(&self, element: ElementId) -> bool {
        self.blueprint.by_worker[element]
    }

    /// Whether an element has opened a device.
    pub fn has_opened(&self, element: ElementId) -> bool {
        self.holdings.has_opened(&self.elements[element].name)
    }

    /// Whether an element's tasks were put where they are by hand, while the router ran.
    pub fn is_pinned(&self, element: ElementId) -> bool {
        self.pinned[element]
    }

    /// The same for all elements.
    pub fn pinned(&self) -> &IndexVec<ElementId, bool> {
        &self.pinned
    }

    /// A search for the elements that packets of a task come to.
    pub fn reached(&self) -> Reached<'_> {
        Reached::new(&self.blueprint.checked)
    }

    /// Where everything runs if tasks run where they are wished, on the first `active` workers.
    pub fn places(&self, wished: &Wished, active: usize) -> Placed {
        self.blueprint.places(wished, active)
    }

    /// Makes further instances of an element from its text. They do not know what was written to handlers.
    pub fn copies(&self, element: ElementId, n: usize, names: &Names) -> Vec<Box<dyn Element>> {
        let (graph, checked) = (&self.blueprint.graph, &self.blueprint.checked);
        let copy = |_| configured(graph, checked, names, &self.rcu, element, &mut Vec::new());
        (0..n).map(copy).collect()
    }

    /// The names of its elements, for [`Shared::copies`].
    pub fn names(&self) -> Names {
        Names::gather(&self.blueprint.graph)
    }

    /// What a configuration of this graph knows of this one when it is built next to it.
    pub(crate) fn as_previous(&self, graph: &Graph) -> Previous {
        Previous::new(self.layout.clone(), self.provided.clone(), self.holdings.clone(), graph)
    }

    /// Takes note that the configuration before this one is gone.
    pub fn settle(&self) {
        self.holdings.settle();
    }

    /// Takes note that the placement before this one is gone: elements go on with its queues.
    pub fn settle_placement(&self) {
        self.holdings.settle_all();
    }

    /// The lock around all processing is the one of the configuration before, if that has one.
    pub fn keep_big_lock(&self, before: &Shared) {
        if let Some(lock) = before.big_lock.get() {
            let _ = self.big_lock.set(lock.clone());
        }
    }

    /// The same configuration with elements in these places, on the first `active` workers. `home` says on which worker acts what acted
    /// for an element on another one.
    pub fn moved(
        &self,
        places: impl Iterator<Item = Arc<ElementPlan>>,
        active: usize,
        pinned: IndexVec<ElementId, bool>,
        home: impl Fn(ElementId, usize) -> usize,
    ) -> Shared {
        let element = |(before, place): (&ElementInfo, Arc<ElementPlan>)| ElementInfo {
            name: before.name.clone(),
            class: before.class,
            config: before.config.clone(),
            wired: before.wired.clone(),
            own_handlers: before.own_handlers.clone(),
            timers: (place.mode == Mode::Locked).then(CommonTimers::default),
            place,
            told: AtomicBool::new(before.told.load(Ordering::Relaxed)),
            touched: AtomicBool::new(before.touched.load(Ordering::Relaxed)),
        };
        let elements: IndexVec<ElementId, ElementInfo> =
            self.elements.iter().zip(places).map(element).collect();
        let driver = self.driver().map(|(element, w)| (element, home(element, w)));
        let wiring = &self.blueprint.checked.wiring;
        let outputs = port_table(&wiring.outputs, |e| !elements[e].place.drained_by.is_empty());
        let moved = Shared {
            layout: Arc::new(self.layout.moved(elements, active)),
            blueprint: self.blueprint.clone(),
            lineage: self.lineage.clone(),
            pinned,
            outputs,
            inputs: self.inputs.clone(),
            burst: self.burst,
            seed: self.seed,
            rcu: self.rcu.clone(),
            mailboxes: self.mailboxes.clone(),
            runtime: self.runtime.clone(),
            provided: self.provided.clone(),
            stopped: self.stopped.clone(),
            big_lock: OnceLock::new(),
            driver: Mutex::new(driver),
            signals: self.signals.rehomed(home),
            print: self.print.clone(),
            holdings: Arc::new(Holdings::moved(self.as_previous(&self.blueprint.graph))),
            when_ready: Mutex::default(),
            warnings: Vec::new(),
            written_configs: Mutex::new(lock(&self.written_configs).clone()),
            requirements: self.requirements.clone(),
        };
        moved.keep_big_lock(self);
        moved
    }
}
