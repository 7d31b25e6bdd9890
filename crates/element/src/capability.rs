// SPDX-License-Identifier: MIT OR Apache-2.0
//! What some elements can do besides processing packets: each capability is a trait of its own.
//!
//! A type implements the trait, and its class declares that with the method of the same name: `HotSwap` is declared by
//! `.hot_swap::<Queue>()`. Nothing finds an implementation that no class declares; `cargo xtask tidy` finds the omission.
//!
//! The engine asks the class for a capability, with an instance at hand ([`Class::capability`]). Nothing on the way of packets is a
//! capability: those methods are in [`Element`].

mod device_queues;
mod handler_part;
mod hot_swap;
mod locking;
mod long_handlers;
mod own_handlers;
mod packet_holder;
mod placement_rules;
mod process_events;
mod provide;
mod rehearsal;
mod shared_state;
mod statistics;

use std::any::Any;
use std::fmt;

use crate::element::{Class, Element, same};

pub use device_queues::DeviceQueues;
pub use handler_part::HandlerPart;
pub use hot_swap::HotSwap;
pub use locking::Locking;
pub use long_handlers::LongHandlers;
pub use own_handlers::OwnHandlers;
pub use packet_holder::PacketHolder;
pub use placement_rules::PlacementRules;
pub use process_events::ProcessEvents;
pub use provide::Provide;
pub use rehearsal::Rehearsal;
pub use shared_state::SharedState;
pub use statistics::Statistics;

/// How to reach the capability `C` of the elements of a class.
pub struct Reach<C: ?Sized + 'static> {
    shared: fn(&dyn Element) -> Option<&C>,
    exclusive: fn(&mut dyn Element) -> Option<&mut C>,
}

impl<C: ?Sized> Clone for Reach<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: ?Sized> Copy for Reach<C> {}

impl<C: ?Sized> fmt::Debug for Reach<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<C>())
    }
}

/// A trait that classes declare: `dyn HotSwap`, say.
pub trait Capability: 'static {
    /// How to reach it, if the class declares it.
    fn of(class: &Class) -> Option<Reach<Self>>;
}

impl Class {
    /// This capability of an element of the class, if the class declares it.
    pub fn capability<'a, C: Capability + ?Sized>(&self, element: &'a dyn Element) -> Option<&'a C> {
        (C::of(self)?.shared)(element)
    }

    /// The same, to change the element by it.
    pub fn capability_mut<'a, C: Capability + ?Sized>(
        &self,
        element: &'a mut dyn Element,
    ) -> Option<&'a mut C> {
        (C::of(self)?.exclusive)(element)
    }
}

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident: $trait:ident;)*) => {
        /// The capabilities that a class declares.
        #[derive(Clone, Copy, Debug)]
        pub struct Capabilities {
            $($name: Option<Reach<dyn $trait>>,)*
        }

        impl Capabilities {
            /// None.
            pub(crate) const NONE: Capabilities = Capabilities { $($name: None,)* };

            /// The names of those that are declared.
            pub fn declared(&self) -> impl Iterator<Item = &'static str> {
                [$(self.$name.map(|_| stringify!($name)),)*].into_iter().flatten()
            }

            /// The names of those that are declared for the type of this element.
            pub fn declared_for(&self, element: &dyn Element) -> impl Iterator<Item = &'static str> {
                [$(self.$name.filter(|reach| (reach.shared)(element).is_some()).map(|_| stringify!($name)),)*]
                    .into_iter()
                    .flatten()
            }
        }

        impl Class {
            $(
                $(#[$doc])*
                pub const fn $name<T: $trait>(mut self) -> Class {
                    self.capabilities.$name = Some(Reach {
                        shared: |element| Some((element as &dyn Any).downcast_ref::<T>()?),
                        exclusive: |element| Some(same::<T>(element)?),
                    });
                    self
                }
            )*
        }

        $(
            impl Capability for dyn $trait {
                fn of(class: &Class) -> Option<Reach<Self>> {
                    class.capabilities.$name
                }
            }
        )*
    };
}

capabilities! {
    /// Declares that elements take over what those of the previous configuration gathered.
    hot_swap: HotSwap;
    /// Declares that elements hand over queues of devices.
    device_queues: DeviceQueues;
    /// Declares that an element can have several instances over common state.
    shared_state: SharedState;
    /// Declares that elements take locks.
    locking: Locking;
    /// Declares that elements restrict which workers run what.
    placement_rules: PlacementRules;
    /// Declares that elements show what they would do with a packet.
    rehearsal: Rehearsal;
    /// Declares that handlers are declared for a part of an element.
    handler_part: HandlerPart;
    /// Declares that elements answer handlers by themselves.
    own_handlers: OwnHandlers;
    /// Declares that other threads do the long part of a handler's call.
    long_handlers: LongHandlers;
    /// Declares that elements wait for events of the process.
    process_events: ProcessEvents;
    /// Declares that elements hold packets.
    packet_holder: PacketHolder;
    /// Declares that elements report numbers all the time.
    statistics: Statistics;
    /// Declares that elements offer state to others that name them.
    provide: Provide;
}
