// SPDX-License-Identifier: MIT OR Apache-2.0
//! What some elements can do besides processing packets: each capability is a trait of its own.
//!
//! A type implements the trait, and its class declares that with the method of the same name: `HotSwap` is declared by
//! `.hot_swap::<Queue>()`. Nothing finds an implementation that no class declares; `cargo xtask tidy` finds the omission.
//!
//! The engine asks the class for a capability, with an instance at hand ([`Class::capability`]). Nothing on the way of packets is a
//! capability: those methods are in [`Element`].

mod hot_swap;

use std::any::Any;
use std::fmt;

use crate::element::{Class, Element, same};

pub use hot_swap::HotSwap;

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
}
