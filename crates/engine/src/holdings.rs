// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which devices and device queues a configuration uses, and how they pass to the next one.
//!
//! Devices are matched by what was asked for: an element of the same name, or else any, that opened the same device in the
//! same way hands its open device on. Queues are matched by device and number, and not by the names of their elements.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use lang::{Graph, Text};
use packet::port::{Device, Error, Provider, RxQueue, Spec, TxQueue};
use sync::mutex::lock;

use element::swap::{Direction, QueueKey};
use element::{Class, ElementId, IndexVec, Layout, Provided};

/// State that elements provide to others.
pub(crate) type AllProvided = IndexVec<ElementId, Option<Provided>>;

struct Open {
    element: String,
    spec: Spec,
    device: Weak<dyn Device>,
}

/// What a configuration knows of the running one while it is built next to it.
pub(crate) struct Previous {
    layout: Arc<Layout>,
    provided: Arc<AllProvided>,
    holdings: Arc<Holdings>,
    /// Elements of the new configuration.
    names: HashSet<Text>,
    /// Of the devices that the old one opened, those that an element of the new one has taken up.
    claimed: Mutex<Vec<usize>>,
}

impl Previous {
    pub(crate) fn new(
        layout: Arc<Layout>,
        provided: Arc<AllProvided>,
        holdings: Arc<Holdings>,
        graph: &Graph,
    ) -> Previous {
        let names = graph.elements.iter().map(|e| e.name.clone()).collect();
        Previous { layout, provided, holdings, names, claimed: Mutex::default() }
    }

    /// The device that the running configuration opened for `element`, or for one that is gone, by the same wishes.
    fn device(&self, element: &str, spec: &Spec) -> Option<Arc<dyn Device>> {
        let opened = lock(&self.holdings.opened);
        let mut claimed = lock(&self.claimed);
        let fits = |i: &usize, o: &Open| o.spec == *spec && !claimed.contains(i);
        let alike = || opened.iter().enumerate().filter(|(i, o)| fits(i, o));
        let found = alike().find(|(_, o)| o.element == element);
        let found = found.or_else(|| alike().find(|(_, o)| !self.names.contains(o.element.as_str())));
        let (i, device) = found.and_then(|(i, o)| Some((i, o.device.upgrade()?)))?;
        claimed.push(i);
        Some(device)
    }
}

/// See the module.
pub(crate) struct Holdings {
    previous: Mutex<Option<Previous>>,
    opened: Mutex<Vec<Open>>,
    queues: Mutex<Vec<QueueKey>>,
}

impl Holdings {
    pub(crate) fn new(previous: Option<Previous>) -> Holdings {
        Holdings { previous: Mutex::new(previous), opened: Mutex::default(), queues: Mutex::default() }
    }

    /// Whether this configuration is to replace one that runs.
    pub(crate) fn is_replacement(&self) -> bool {
        lock(&self.previous).is_some()
    }

    /// Those of a configuration that goes on with other homes for its tasks: its devices stay open, its queues are promised to
    /// the elements that take them again.
    pub(crate) fn moved(previous: Previous) -> Holdings {
        let before = lock(&previous.holdings.opened);
        let copy =
            |o: &Open| Open { element: o.element.clone(), spec: o.spec.clone(), device: o.device.clone() };
        let opened = before.iter().map(copy).collect();
        drop(before);
        Holdings {
            previous: Mutex::new(Some(previous)),
            opened: Mutex::new(opened),
            queues: Mutex::default(),
        }
    }

    /// Takes note of the queues whose elements go on with them, and forgets the placement before.
    pub(crate) fn settle_all(&self) {
        let Some(previous) = lock(&self.previous).take() else { return };
        let before = lock(&previous.holdings.queues);
        let mut queues = lock(&self.queues);
        let missing: Vec<QueueKey> = before.iter().filter(|k| !queues.contains(k)).copied().collect();
        queues.extend(missing);
    }

    /// Whether the element of this name has opened a device.
    pub(crate) fn has_opened(&self, element: &str) -> bool {
        lock(&self.opened).iter().any(|o| o.element == element)
    }

    /// Forgets the configuration before this one, which is gone.
    pub(crate) fn settle(&self) {
        *lock(&self.previous) = None;
    }

    pub(crate) fn open(
        &self,
        element: &str,
        spec: &Spec,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Device>, Error> {
        let known = lock(&self.previous).as_ref().and_then(|h| h.device(element, spec));
        let device = match known {
            Some(device) => device,
            None => provider.open(spec)?,
        };
        let open = Open { element: element.into(), spec: spec.clone(), device: Arc::downgrade(&device) };
        lock(&self.opened).push(open);
        Ok(device)
    }

    /// What the running configuration's element of this name and class provides.
    pub(crate) fn predecessor(&self, name: &str, class: &Class) -> Option<Provided> {
        let previous = lock(&self.previous);
        let previous = previous.as_ref()?;
        let layout = &previous.layout;
        let index = layout.named(name).filter(|e| layout.elements[*e].class.name == class.name)?;
        previous.provided[index].clone()
    }

    /// All state that elements of the running configuration provide.
    pub(crate) fn predecessors(&self) -> Vec<Provided> {
        lock(&self.previous)
            .as_ref()
            .map_or_else(Vec::new, |h| h.provided.iter().flatten().cloned().collect())
    }

    /// Whether the running configuration has an element of this name, class and configuration string.
    pub(crate) fn inherits(&self, name: &str, class: &Class, config: &str) -> bool {
        lock(&self.previous).as_ref().is_some_and(|h| {
            let before = h.layout.named(name).map(|e| &h.layout.elements[e]);
            before.is_some_and(|e| e.class.name == class.name && e.config == config)
        })
    }

    /// Whether the running configuration uses a queue, so that it can only be promised.
    fn is_promised(&self, key: QueueKey) -> bool {
        lock(&self.previous).as_ref().is_some_and(|h| lock(&h.holdings.queues).contains(&key))
    }

    fn queue<Q>(
        &self,
        device: &Arc<dyn Device>,
        direction: Direction,
        queue: usize,
        take: impl FnOnce() -> Result<Q, Error>,
    ) -> Result<Option<Q>, Error> {
        let key = QueueKey::new(device, direction, queue);
        let promised = self.is_promised(key);
        let mut queues = lock(&self.queues);
        if promised && queues.contains(&key) {
            let fix = "give each element its own queue (QUEUE n), or join them before the device";
            return Err(Error::new(
                &device.info().name,
                format!("queue {queue} is taken by another element"),
                fix,
            ));
        }
        let taken = if promised { None } else { Some(take()?) };
        queues.push(key);
        Ok(taken)
    }

    pub(crate) fn rx(
        &self,
        device: &Arc<dyn Device>,
        queue: usize,
    ) -> Result<Option<Box<dyn RxQueue>>, Error> {
        self.queue(device, Direction::Receive, queue, || device.rx(queue))
    }

    pub(crate) fn tx(
        &self,
        device: &Arc<dyn Device>,
        queue: usize,
    ) -> Result<Option<Box<dyn TxQueue>>, Error> {
        self.queue(device, Direction::Transmit, queue, || device.tx(queue))
    }
}
