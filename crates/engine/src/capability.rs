// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities of elements on workers, where an instance may stand behind a lock.

use std::any::Any;

use element::capability::Capability;
use element::swap::same;
use element::{
    Class, DeviceQueues, Element, HotSwap, LongHandlers, PacketHolder, PlacementRules, ProcessEvents,
    Provide, SharedState, Statistics,
};

use crate::locked::Locked;

/// A capability that instances on workers are asked for.
pub trait OnWorker: Capability {
    /// The capability of an element behind a lock.
    fn behind_lock(locked: &Locked) -> &Self;

    /// The same, to change the element by it.
    fn behind_lock_mut(locked: &mut Locked) -> &mut Self;
}

macro_rules! on_workers {
    ($($trait:ident),*) => {
        $(impl OnWorker for dyn $trait {
            fn behind_lock(locked: &Locked) -> &Self {
                locked
            }

            fn behind_lock_mut(locked: &mut Locked) -> &mut Self {
                locked
            }
        })*
    };
}

on_workers!(DeviceQueues, HotSwap, LongHandlers, PacketHolder, ProcessEvents, Provide, Statistics);

/// A further instance over the state of an element of this class.
pub(crate) fn share(class: &Class, element: &dyn Element) -> Option<Box<dyn Element>> {
    class.capability::<dyn SharedState>(element)?.share()
}

/// Why an element of this class must stay one instance, as it is configured.
pub(crate) fn one_order(class: &Class, element: &dyn Element) -> Option<&'static str> {
    class.capability::<dyn PlacementRules>(element)?.one_order()
}

/// A capability of an instance of this class.
pub(crate) fn of<'a, C: OnWorker + ?Sized>(class: &Class, instance: &'a dyn Element) -> Option<&'a C> {
    match (instance as &dyn Any).downcast_ref::<Locked>() {
        Some(locked) => Some(C::behind_lock(locked)),
        None => class.capability(instance),
    }
}

/// The same, to change the element by it.
pub(crate) fn of_mut<'a, C: OnWorker + ?Sized>(
    class: &Class,
    instance: &'a mut dyn Element,
) -> Option<&'a mut C> {
    if (&*instance as &dyn Any).is::<Locked>() {
        return same::<Locked>(instance).map(C::behind_lock_mut);
    }
    class.capability_mut(instance)
}
