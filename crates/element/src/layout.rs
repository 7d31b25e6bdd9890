// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elements of a router: what they are called, what they are connected to, where they run, and what handlers they have.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foldhash::HashMap;
use lang::Text;

use crate::element::{Class, Sharing};
use crate::error::HandlerError;
use crate::handler::{Access, Signature};
use crate::hide;
use crate::ids::{ElementId, IndexVec, Target};
use crate::known;
use crate::place::ElementPlan;
use crate::ports::Processing;
use crate::timers::CommonTimers;
use crate::wiring::{Ports, Wired};

/// What the router knows of an element.
#[derive(Debug)]
pub struct ElementInfo {
    /// Name.
    pub name: Text,
    /// Class.
    pub class: &'static Class,
    /// Configuration string.
    pub config: Text,
    /// Its connections.
    pub wired: Wired,
    /// Where it runs. Elements that run alike share one.
    pub place: Arc<ElementPlan>,
    /// Handlers that its class does not know, see [`OwnHandlers::own_handlers`](crate::OwnHandlers::own_handlers).
    pub own_handlers: Vec<(Arc<str>, Access)>,
    /// Its timers, if it is one instance for several workers.
    pub timers: Option<CommonTimers>,
    /// It has printed what it prints once.
    pub told: AtomicBool,
    /// One of its own handlers has been written since it started.
    pub touched: AtomicBool,
}

impl ElementInfo {
    /// Inputs: how they work, and what they are connected to.
    pub fn inputs(&self) -> Ports<'_> {
        self.wired.wiring.inputs.of(self.wired.element)
    }

    /// The same for outputs.
    pub fn outputs(&self) -> Ports<'_> {
        self.wired.wiring.outputs.of(self.wired.element)
    }

    /// The configuration string without secrets.
    pub fn config_shown(&self) -> std::borrow::Cow<'_, str> {
        hide::shown(self.class.secrets, &self.config)
    }

    /// Whether packets change workers at this element, if they change at all.
    pub fn is_queue(&self) -> bool {
        self.class.sharing == Sharing::Queue
    }

    /// Whether it keeps packets that are pushed into it until somebody pulls them out.
    pub fn stores(&self) -> bool {
        self.inputs().processing().contains(&Processing::Push)
            && self.outputs().processing().contains(&Processing::Pull)
    }
}

/// A handler of an element of this router.
#[derive(Clone, Debug)]
pub struct HandlerRef {
    of: Target,
    handler: Signature,
    /// The name, where the class does not know it.
    own: Option<Arc<str>>,
}

impl HandlerRef {
    /// The handler's name.
    pub fn name(&self) -> &str {
        self.own.as_deref().unwrap_or(self.handler.name)
    }

    /// Whose it is.
    pub fn target(&self) -> Target {
        self.of
    }

    /// The handler as its class declares it.
    pub fn handler(&self) -> &Signature {
        &self.handler
    }

    /// The element; `None` for a handler of the router itself.
    pub fn element(&self) -> Option<ElementId> {
        self.of.element()
    }

    /// The element, if it answers itself, and not the engine in its place.
    pub fn own(&self) -> Option<ElementId> {
        self.element().filter(|_| !self.handler.common)
    }

    /// What it allows.
    pub fn access(&self) -> Access {
        self.handler.access
    }

    /// Whether control connections must not reach it.
    pub fn is_private(&self) -> bool {
        self.handler.private
    }

    /// Whether the element itself answers, not the engine in its place.
    pub fn is_own(&self) -> bool {
        self.own().is_some()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Layout {
    /// All elements.
    pub elements: IndexVec<ElementId, ElementInfo>,
    /// By their names.
    index: Arc<HashMap<Text, ElementId>>,
    workers: usize,
    active: usize,
    moves: u32,
    first_workers: usize,
}

impl Layout {
    /// Elements on so many workers, of which the first `active` take part. The configuration is placed for `first_workers`.
    pub fn new(
        elements: IndexVec<ElementId, ElementInfo>,
        workers: usize,
        active: usize,
        first_workers: usize,
    ) -> Layout {
        let index = Arc::new(elements.iter_enumerated().map(|(id, e)| (e.name.clone(), id)).collect());
        Layout { elements, index, workers, active, moves: 0, first_workers }
    }

    /// The same elements in other places, or with other workers that take part.
    pub fn moved(&self, elements: IndexVec<ElementId, ElementInfo>, active: usize) -> Layout {
        let Layout { workers, first_workers, .. } = *self;
        Layout {
            elements,
            index: self.index.clone(),
            workers,
            active,
            moves: self.moves.wrapping_add(1),
            first_workers,
        }
    }

    /// Workers of the router, with those that do not take part.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// How many of them, the first ones, take part: the others have been retired, or were not yet added.
    pub fn active_workers(&self) -> usize {
        self.active
    }

    /// How often tasks of this configuration have been placed otherwise, or workers added or retired, since it came. No packet is on its
    /// way when this changes, on any worker.
    pub fn moves(&self) -> u32 {
        self.moves
    }

    /// How many there were to place tasks on when the configuration came.
    pub fn first_workers(&self) -> usize {
        self.first_workers
    }

    /// The element of this name, seen from element `from`: its own compound first, then outwards.
    pub fn lookup(&self, name: &str, from: Option<ElementId>) -> Option<ElementId> {
        let mut scope = from.map_or("", |e| self.elements[e].name.as_str());
        while let Some((outer, _)) = scope.rsplit_once('/') {
            if let Some(index) = self.index.get(format!("{outer}/{name}").as_str()) {
                return Some(*index);
            }
            scope = outer;
        }
        self.index.get(name).copied()
    }

    /// The element of exactly this name.
    pub fn named(&self, name: &str) -> Option<ElementId> {
        self.index.get(name).copied()
    }

    /// Finds the handler that `element.handler` means, seen from element `from`.
    ///
    /// # Errors
    /// No such element, or no such handler.
    pub fn resolve(&self, full: &str, from: Option<ElementId>) -> Result<HandlerRef, HandlerError> {
        let (element, handler) = crate::handler::split_name(full);
        if element.is_empty() {
            let handler = known::GLOBAL.iter().find(|h| h.name == handler);
            let handler = handler.ok_or_else(|| HandlerError::unknown(full))?;
            return Ok(HandlerRef { of: Target::Router, handler: *handler, own: None });
        }
        let by_number = || {
            element
                .parse::<usize>()
                .ok()
                .filter(|n| (1..=self.elements.len()).contains(n))
                .map(|n| ElementId::new(n - 1))
        };
        let index = self.lookup(element, from).or_else(by_number);
        // The router's own with a dot in their names; an element of that name comes first.
        if let (None, Some(handler)) = (index, known::GLOBAL.iter().find(|h| h.name == full)) {
            return Ok(HandlerRef { of: Target::Router, handler: *handler, own: None });
        }
        self.handler_of(index.ok_or_else(|| HandlerError::NoElement(element.to_owned()))?, handler)
    }

    /// Finds handler `handler` of an element; the name may have dots, which some elements give a meaning.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn handler_of(&self, element: ElementId, handler: &str) -> Result<HandlerRef, HandlerError> {
        let of = Target::Element(element);
        if let Some(handler) = self.handlers(element).find(|h| h.name == handler) {
            return Ok(HandlerRef { of, handler: *handler, own: None });
        }
        let own = &self.elements[element].own_handlers;
        let named = own.iter().find(|(name, _)| **name == *handler);
        let named = named.or_else(|| own.iter().find(|(name, _)| &**name == "*"));
        let (_, access) = named.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))?;
        let general = Signature { access: *access, ..Signature::read("*") };
        Ok(HandlerRef { of, handler: general, own: Some(handler.into()) })
    }

    /// Whether an element has a handler of this name that can be read.
    pub fn is_readable(&self, element: ElementId, handler: &str) -> bool {
        let mut own = self.elements[element].own_handlers.iter();
        self.handlers(element).any(|h| h.name == handler && h.readable())
            || own.any(|(name, access)| **name == *handler && *access != Access::Write)
    }

    /// The handlers of an element: its class's, and those that every element has.
    pub fn handlers(&self, element: ElementId) -> impl Iterator<Item = &'static Signature> + '_ {
        let own = self.elements[element].class.handlers;
        let has_task = !self.elements[element].place.tasks.is_empty();
        let writable = self.elements[element].class.reconfigurable;
        let usual = known::ELEMENT.iter().map(move |h| match h.name {
            "config" if writable => &known::WRITABLE_CONFIG,
            _ => h,
        });
        let common = usual.chain(known::TASK.iter().filter(move |_| has_task));
        own.iter().map(|h| &h.signature).chain(common.filter(move |h| own.iter().all(|o| o.name != h.name)))
    }

    /// The worker whose instance answers for an element.
    pub fn home(&self, element: ElementId) -> usize {
        self.elements[element].place.home()
    }

    /// Elements that are connected to an output (`forward`) or an input, or to any of these.
    pub fn neighbours(&self, element: ElementId, port: Option<usize>, forward: bool) -> Vec<ElementId> {
        let info = &self.elements[element];
        let ports = if forward { info.outputs() } else { info.inputs() };
        let wanted = ports.iter().enumerate().filter(|(i, _)| port.is_none_or(|p| p == *i));
        wanted.flat_map(|(_, port)| port.peers.iter().map(|p| p.element)).collect()
    }
}
