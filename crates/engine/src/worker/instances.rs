// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's element instances, and the passes that run in place of chains of them.
//!
//! An instance is taken out of its slot while it runs. An element that is reached while it runs (a pull loop) has an empty slot, which is counted and
//! no crash.

use crate::fuse::{self, Fused, FusedChain};
use crate::ports::PortTable;
use crate::shared::Shared;
use element::ports::Processing;
use element::{Element, ElementId, IndexSlice, IndexVec, Registry};
use sync::zeros::zeros;

/// An instance in its place, absent while it runs.
pub(crate) type Slot = Option<Box<dyn Element>>;

/// See the module.
pub(super) struct Instances {
    slots: IndexVec<ElementId, Slot>,
    /// The pass over the chain that begins at an element, absent while it runs.
    fused: IndexVec<ElementId, Option<Box<Fused>>>,
}

impl Instances {
    pub(super) fn new(slots: IndexVec<ElementId, Slot>, elements: usize) -> Instances {
        Instances { slots, fused: zeros(elements).into() }
    }

    /// Places of instances.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All elements, whether or not there are instances of them here.
    pub(super) fn ids(&self) -> impl Iterator<Item = ElementId> + use<> {
        self.slots.ids()
    }

    #[inline(always)]
    pub(super) fn get(&self, element: ElementId) -> Option<&dyn Element> {
        self.slots[element].as_deref()
    }

    /// Whether it is here and does not run.
    #[inline]
    pub(super) fn has(&self, element: ElementId) -> bool {
        self.slots[element].is_some()
    }

    /// All slots, for passes.
    #[inline(always)]
    pub(super) fn slots(&self) -> IndexSlice<'_, ElementId, Slot> {
        IndexSlice::from(&self.slots)
    }

    /// Takes an instance, to run it.
    #[inline(always)]
    pub(super) fn take(&mut self, element: ElementId) -> Slot {
        self.slots[element].take()
    }

    /// The same of an element that may have no slot here.
    #[inline(always)]
    pub(super) fn find(&mut self, element: ElementId) -> Slot {
        self.slots.get_mut(element).and_then(Option::take)
    }

    #[inline(always)]
    pub(super) fn put(&mut self, element: ElementId, instance: Box<dyn Element>) {
        self.slots[element] = Some(instance);
    }

    /// Puts an instance, or none, in the place of another.
    pub(super) fn replace(&mut self, element: ElementId, instance: Slot) -> Slot {
        std::mem::replace(&mut self.slots[element], instance)
    }

    /// Whether a pass runs the chain that begins here.
    #[inline(always)]
    pub(super) fn is_fused(&self, element: ElementId) -> bool {
        self.fused[element].is_some()
    }

    pub(super) fn fused(&self, element: ElementId) -> Option<&Fused> {
        self.fused[element].as_deref()
    }

    #[inline(always)]
    pub(super) fn take_fused(&mut self, element: ElementId) -> Option<Box<Fused>> {
        self.fused[element].take()
    }

    #[inline(always)]
    pub(super) fn put_fused(&mut self, element: ElementId, fused: Box<Fused>) {
        self.fused[element] = Some(fused);
    }

    /// Lets passes run the chains that one is known for.
    pub(super) fn fuse(&mut self, registry: &Registry, shared: &Shared, outputs: &PortTable) {
        let is_pushed = |e: ElementId| {
            let first = shared.elements[e].inputs().first();
            first.is_some_and(|port| port.processing == Processing::Push)
        };
        let slots = &self.slots;
        let at = |e: ElementId| slots[e].as_deref().filter(|_| is_pushed(e));
        // Most elements begin no chain: their places stay as untouched as they were.
        let mut row = fuse::Row::default();
        for e in slots.ids() {
            if let Some(found) = fuse::find(e, registry, outputs, &at, &mut row) {
                self.fused[e] = Some(Box::new(found));
            }
        }
    }

    /// The chains that passes run.
    pub(super) fn chains(&self) -> impl Iterator<Item = FusedChain> + '_ {
        self.fused.iter().flatten().map(|f| f.describe())
    }
}
