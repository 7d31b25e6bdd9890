// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one configuration is: all its workers, and those who control it, see the same [`Shared`].

mod known;
mod placing;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use lang::Diagnostic;
use sync::events::{self, EventKind, Mask};
use sync::heap::in_lines;
use sync::lock::AdaptiveLock;
use sync::mutex::lock;
use sync::padded::CachePadded;

use crate::blueprint::Blueprint;
use crate::holdings::{AllProvided, Holdings};
use crate::mailbox::Mailbox;
use crate::plan::Placed;
use crate::ports::{PortTable, port_table};
use crate::runtime::{Print, Runtime};
use crate::signals::Signals;
use crate::worker::Worker;
use element::timers::CommonTimers;
use element::wiring::Wired;
use element::{
    Access, Class, Element, ElementId, ElementInfo, HandlerError, HandlerRef, IndexVec, Layout, Merge, Mode,
    OwnHandlers, Provide, Provided, Target,
};

pub(crate) use known::not_reconfigurable;

/// What drops at elements are listed as that a swap has taken away.
pub const GONE: &str = "(gone)";
/// What the lock around all processing is listed as.
pub(crate) const BIG_LOCK: &str = "(big lock)";

/// The router's timer that ends its run.
pub(crate) const END_TIMER: u32 = 0;
/// The router's timer that rings its alarm.
pub(crate) const ALARM_TIMER: u32 = 1;

/// A handler that an element wants written when all elements are initialised.
pub(crate) struct Wish {
    /// Who wants it.
    pub(crate) from: ElementId,
    /// The handler's name, as that element sees it.
    pub(crate) handler: String,
    pub(crate) value: String,
}

/// The part of a router that all its workers, and those who control it, see.
pub struct Shared {
    /// Its elements.
    pub layout: Arc<Layout>,
    pub(crate) blueprint: Arc<Blueprint>,
    /// The same for all placements of one configuration.
    pub(crate) lineage: Arc<()>,
    /// Elements whose tasks were put where they are by hand, while the router ran.
    pub(crate) pinned: IndexVec<ElementId, bool>,
    pub(crate) outputs: PortTable,
    pub(crate) inputs: PortTable,
    pub(crate) burst: usize,
    pub(crate) seed: u64,
    pub(crate) rcu: sync::rcu::Domain,
    pub(crate) mailboxes: Arc<[Mailbox<Worker>]>,
    pub(crate) runtime: Weak<Runtime>,
    pub(crate) provided: Arc<AllProvided>,
    pub(crate) stopped: Arc<CachePadded<AtomicBool>>,
    pub(crate) big_lock: OnceLock<Arc<AdaptiveLock<()>>>,
    pub(crate) driver: Mutex<Option<(ElementId, usize)>>,
    pub(crate) signals: Signals,
    pub(crate) print: Option<Arc<Print>>,
    /// Devices and their queues that this configuration uses.
    pub(crate) holdings: Arc<Holdings>,
    /// Handlers that elements want written when all are initialised.
    pub(crate) when_ready: Mutex<Vec<Wish>>,
    /// What will probably not do what it was meant to.
    pub warnings: Vec<Diagnostic>,
    /// What was written to `config` of elements.
    pub(crate) written_configs: Mutex<BTreeMap<ElementId, String>>,
    /// What the configuration requires: kind and name in turn, `package` and `foo` for instance.
    pub requirements: Vec<String>,
}

impl Deref for Shared {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

impl Shared {
    /// Ends the router.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Whether the router has been asked to end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A timer of the router itself has expired: the end of its run, or its alarm.
    pub(crate) fn on_timer(&self, timer: u32) {
        if timer == END_TIMER {
            return self.stop();
        }
        let Some(runtime) = self.runtime.upgrade() else { return };
        let ring = lock(&runtime.alarm).take();
        if let Some(ring) = ring {
            // Without a thread the alarm is lost, as it would be without memory.
            let _ = runtime.spawn("alarm", ring);
        }
    }

    /// Writes a line where the user sees it, as elements do.
    pub fn print(&self, text: &str) {
        match &self.print {
            Some(print) => print(text),
            // Where nobody listens any more, the router goes on.
            None => writeln!(std::io::stderr(), "{text}").unwrap_or_default(),
        }
    }

    /// The flat configuration as text, with its secrets.
    pub fn flat(&self) -> String {
        self.blueprint.graph.to_click()
    }

    /// Signals that elements ask for or asked for.
    pub fn signals(&self) -> Vec<i32> {
        self.signals.known()
    }

    /// The locks of this configuration's elements, and the one around all processing: who they are for, what they have been
    /// through, and where in the source they are made.
    pub fn locks(&self) -> Vec<sync::lock::Described> {
        let mine = |name: &str| self.named(name).is_some() || name == BIG_LOCK;
        sync::lock::all().into_iter().filter(|l| mine(&l.name)).collect()
    }

    /// What was written to an element's `config`, if anything was.
    pub(crate) fn config_of(&self, element: ElementId) -> Option<String> {
        lock(&self.written_configs).get(&element).cloned()
    }

    pub(crate) fn set_config_of(&self, element: ElementId, config: String) {
        lock(&self.written_configs).insert(element, config);
    }

    /// Lets the text that `config` shows have what was written to a handler, where that stands for an argument.
    pub(crate) fn note_written(&self, e: ElementId, target: &HandlerRef, value: &str) {
        if let Some((position, keyword)) = target.handler().argument {
            let config = self.config_of(e).unwrap_or_else(|| self.elements[e].config.to_string());
            self.set_config_of(e, element::with_argument(&config, position, keyword, value.trim()));
        }
    }

    /// Whether handlers may replace the configuration.
    pub(crate) fn is_reconfigurable(&self) -> bool {
        self.runtime.upgrade().is_some_and(|p| p.reconfigure.get().is_some())
    }

    /// All state of type `T` that elements provide, for what serves them outside the workers.
    pub fn all_provided<T: Send + Sync + 'static>(&self) -> Vec<Arc<T>> {
        self.provided.iter().flatten().filter_map(|state| state.clone().downcast().ok()).collect()
    }

    pub(crate) fn provided(&self, index: ElementId) -> Option<Provided> {
        self.provided[index].clone()
    }

    pub(crate) fn set_driver(&self, element: ElementId, worker: usize) {
        *lock(&self.driver) = Some((element, worker));
    }

    pub(crate) fn driver(&self) -> Option<(ElementId, usize)> {
        *lock(&self.driver)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake_sleepers_after(&self, element: ElementId, by: usize) {
        for w in self.elements[element].place.drained_by.iter().filter(|w| **w != by) {
            let mailbox = &self.mailboxes[*w];
            if mailbox.is_asleep() {
                // Before it, for the woken may go on before this one does.
                let at = events::begin_span(Mask::CONTROL);
                mailbox.wake();
                if let Some(at) = at {
                    events::push(at, EventKind::Wake, (*w as u32, element.number()), (0, by as u32));
                }
            }
        }
    }

    /// Workers whose instances answer a call.
    pub(crate) fn answering(&self, target: &HandlerRef, write: bool) -> Vec<usize> {
        let Target::Element(element) = target.target() else {
            return match target.handler().merge {
                // Any can, so one that is not stuck.
                Merge::First => vec![self.mailboxes.iter().position(|m| m.trouble().is_none()).unwrap_or(0)],
                _ => (0..self.mailboxes.len()).collect(),
            };
        };
        let place = &self.elements[element].place;
        let common = target.handler().common;
        let all = match place.mode {
            Mode::Single | Mode::Locked => common && target.handler().merge != Merge::First,
            Mode::PerCore => write || target.handler().merge != Merge::First,
            Mode::Shared if write => target.handler().everywhere,
            Mode::Shared => target.handler().merge != Merge::First,
        };
        if all { place.workers.clone() } else { vec![place.home()] }
    }
}

pub(crate) fn share(
    blueprint: &Arc<Blueprint>,
    primaries: &IndexVec<ElementId, Box<dyn Element>>,
    places: Placed,
    runtime: &Arc<Runtime>,
    holdings: Holdings,
) -> Shared {
    let Blueprint { graph, checked, .. } = &**blueprint;
    // Workers read this and the tables of ports while they run.
    let mut elements = in_lines(|| IndexVec::with_capacity(graph.elements.len()));
    let infos =
        graph.elements.iter().zip(places.into_iter_enumerated()).map(|(element, (e, place))| ElementInfo {
            name: element.name.clone(),
            class: checked.classes[e],
            config: element.config.clone(),
            wired: Wired { wiring: checked.wiring.clone(), element: e },
            own_handlers: own_handlers(checked.classes[e], &*primaries[e])
                .into_iter()
                .map(|(n, a)| (n.into(), a))
                .collect(),
            timers: (place.mode == Mode::Locked).then(|| in_lines(CommonTimers::default)),
            place,
            told: AtomicBool::new(false),
            touched: AtomicBool::new(false),
        });
    elements.extend(infos);
    let wakes = |e: ElementId| !elements[e].place.drained_by.is_empty();
    let outputs = port_table(&checked.wiring.outputs, wakes);
    let inputs = port_table(&checked.wiring.inputs, |_| false);
    let pinned = IndexVec::filled(false, elements.len());
    let layout = Layout::new(elements, runtime.mailboxes.len(), runtime.active(), runtime.begun());
    Shared {
        layout: in_lines(|| Arc::new(layout)),
        blueprint: blueprint.clone(),
        lineage: Arc::default(),
        pinned,
        outputs,
        inputs,
        burst: runtime.burst,
        seed: runtime.seed,
        rcu: runtime.rcu.clone(),
        mailboxes: runtime.mailboxes.clone(),
        runtime: Arc::downgrade(runtime),
        provided: Arc::new(
            primaries
                .iter_enumerated()
                .map(|(e, primary)| provided(checked.classes[e], &**primary))
                .collect(),
        ),
        stopped: runtime.stopped.clone(),
        big_lock: OnceLock::new(),
        driver: Mutex::new(None),
        signals: Signals::default(),
        print: runtime.print.clone(),
        holdings: Arc::new(holdings),
        when_ready: Mutex::default(),
        warnings: Vec::new(),
        written_configs: Mutex::default(),
        requirements: graph.requirements.iter().flat_map(|r| [r.kind.clone(), r.value.clone()]).collect(),
    }
}

fn own_handlers(class: &Class, element: &dyn Element) -> Vec<(String, Access)> {
    class.capability::<dyn OwnHandlers>(element).map_or(Vec::new(), |element| element.own_handlers())
}

fn provided(class: &Class, element: &dyn Element) -> Option<Provided> {
    class.capability::<dyn Provide>(element)?.provide()
}

pub(crate) fn readable(target: &HandlerRef) -> Result<(), HandlerError> {
    match target.handler().access {
        Access::Write => Err(HandlerError::Denied(format!("handler '{}' is write-only", target.name()))),
        _ => Ok(()),
    }
}

pub(crate) fn writable(target: &HandlerRef) -> Result<(), HandlerError> {
    match target.handler().access {
        Access::Read => Err(HandlerError::Denied(format!("handler '{}' is read-only", target.name()))),
        _ => Ok(()),
    }
}
