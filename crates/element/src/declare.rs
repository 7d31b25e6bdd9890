// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers with what they do: each is declared once, by [`handlers!`](crate::handlers).
//!
//! A declared handler carries its functions, so the list is all there is: no other handler can answer for it. What it reads and writes is
//! of the type that the list names: the element itself, or a part that the element returns from [`HandlerPart::part`].

use std::any::Any;

use crate::capability::{HandlerPart, OwnHandlers};
use crate::cx::Cx;
use crate::element::{Class, Element, Handler};
use crate::error::HandlerError;
use crate::values::FromArg;

/// A type that a handler's value or parameter can have: each type of an argument, or the text as it is.
pub trait FromValue<'a>: Sized {
    /// Reads the value given to handler `name`.
    ///
    /// # Errors
    /// What was expected.
    fn from_value(name: &str, text: &'a str) -> Result<Self, HandlerError>;
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(_: &str, text: &'a str) -> Result<&'a str, HandlerError> {
        Ok(text)
    }
}

impl<T: FromArg> FromValue<'_> for T {
    fn from_value(name: &str, text: &str) -> Result<T, HandlerError> {
        <T as FromArg>::from_value(name, text)
    }
}

/// What a handler declared for a `T` is about: the element or its part.
#[doc(hidden)]
pub fn subject<'a, T: Any>(element: &'a mut dyn Element, cx: &Cx<'_>) -> Option<&'a mut T> {
    if (&*element as &dyn Any).is::<T>() {
        return (element as &mut dyn Any).downcast_mut();
    }
    class(cx).capability_mut::<dyn HandlerPart>(element)?.part().downcast_mut()
}

/// The class of the element that `cx` is about.
fn class(cx: &Cx<'_>) -> &'static Class {
    cx.router().elements[cx.index()].class
}

/// Handlers that elements answer themselves.
#[doc(hidden)]
pub mod own {
    use super::{Cx, Element, HandlerError, OwnHandlers, class};

    pub fn read(
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match class(cx).capability_mut::<dyn OwnHandlers>(element) {
            Some(element) => element.read(cx, name, param),
            None => Err(HandlerError::unknown(name)),
        }
    }

    pub fn write(
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match class(cx).capability_mut::<dyn OwnHandlers>(element) {
            Some(element) => element.write(cx, name, value),
            None => Err(HandlerError::unknown(name)),
        }
    }
}

/// One list of several. Its length is `N`.
pub const fn joined<const N: usize>(lists: &[&[Handler]]) -> [Handler; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut at, mut n) = (0, 0, 0);
    while list < lists.len() {
        while at < lists[list].len() {
            all[n] = lists[list][at];
            (at, n) = (at + 1, n + 1);
        }
        (list, at) = (list + 1, 0);
    }
    assert!(n == N, "the lists have another length together");
    all
}

/// Reads handler `name` of the element that `cx` is about.
///
/// # Errors
/// As the handler says.
pub fn read(
    element: &mut dyn Element,
    cx: &mut Cx<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    match class(cx).handlers.iter().find(|h| h.name == name).and_then(|h| h.read) {
        Some(read) => read(element, cx, param),
        None => own::read(element, cx, name, param),
    }
}

/// Writes handler `name` of the element that `cx` is about.
///
/// # Errors
/// As the handler says.
pub fn write(
    element: &mut dyn Element,
    cx: &mut Cx<'_>,
    name: &str,
    value: &str,
) -> Result<(), HandlerError> {
    match class(cx).handlers.iter().find(|h| h.name == name).and_then(|h| h.write) {
        Some(write) => write(element, cx, value),
        None => own::write(element, cx, name, value),
    }
}

/// Declares the handlers of a type: `&[Handler]`, for [`Class::handlers`](crate::Class::handlers).
///
/// An entry has a kind, a name, modifiers of [`Handler`](crate::Handler) and what it does:
///
/// ```
/// # use junctor_element::{Class, Element, Handler, args::Args, handlers};
/// #[derive(Default)]
/// struct Gate { packets: u64, active: bool, limit: u32, color: u8 }
///
/// const HANDLERS: &[Handler] = handlers! { Gate:
///     sum "count" => .packets;
///     both "active".everywhere() => .active;
///     both "limit" => .limit |gate, limit: u32| gate.set_limit(limit)?;
///     read "config" => |gate| format!("{}, LIMIT {}", gate.active, gate.limit);
///     read "double" => |_gate, number: u64| number * 2;
///     read "now" => |_gate, cx| cx.now();
///     write "reset" => |gate| gate.packets = 0;
///     write "stop" => |_gate, cx| cx.please_stop();
///     write "note" => |_gate, cx, text: &str| cx.print(text);
/// };
/// # impl Gate { fn set_limit(&mut self, limit: u32) -> Result<(), junctor_element::HandlerError> { self.limit = limit; Ok(()) } }
/// # impl Element for Gate { fn configure(&mut self, _: &mut Args<'_>) {} }
/// # assert_eq!(HANDLERS.iter().map(|h| h.name).collect::<Vec<_>>(), ["count", "active", "limit", "config", "double", "now", "reset", "stop", "note"]);
/// ```
///
/// * Kinds that are read: `read` (the first instance answers), `sum`, `max`, `join` and `tally` say how the answers of several instances
///   become one, see [`Merge`](crate::Merge). `write` is written. `both` is read and written.
/// * `.field` reads a field, and with `both` sets it.
/// * `|element, cx, value: TYPE| ...` computes; `cx` and `value` may be left out. A read returns something that can be displayed, and
///   its value is the parameter of the call. A write returns nothing. Both may use `?`. A `both` has two of them, or a field and the second.
#[macro_export]
macro_rules! handlers {
    ($type:ty: $($kind:ident $name:literal $(.$modifier:ident($($arg:tt)*))* => $(.$field:tt)* $(|$($p:ident $(: $t:ty)?),+| $body:expr),*;)*) => {
        &[$($crate::handlers!(@$kind $type, $name, [$(.$field)*] $([$($p $(: $t)?),+] $body;)*)
            $(.$modifier($($arg)*))*),*]
    };
    (@read $($rest:tt)*) => { $crate::handlers!(@reads read, [], $($rest)*) };
    (@sum $($rest:tt)*) => { $crate::handlers!(@reads read, [.merge($crate::Merge::Sum)], $($rest)*) };
    (@max $($rest:tt)*) => { $crate::handlers!(@reads read, [.merge($crate::Merge::Max)], $($rest)*) };
    (@join $($rest:tt)*) => { $crate::handlers!(@reads read, [.merge($crate::Merge::Join)], $($rest)*) };
    (@tally $($rest:tt)*) => { $crate::handlers!(@reads read, [.merge($crate::Merge::Tally)], $($rest)*) };
    (@reads $kind:ident, [$($merge:tt)*], $type:ty, $name:literal, [$(.$field:tt)+]) => {
        $crate::handlers!(@reads $kind, [$($merge)*], $type, $name, [] [element] (element$(.$field)+);)
    };
    (@reads $kind:ident, [$($merge:tt)*], $type:ty, $name:literal, [] [$($p:tt)+] $body:expr;) => {
        $crate::Handler::$kind($name)$($merge)*
            .reads($crate::handlers!(@call $type, $name, read, [$($p)+] $body))
    };
    (@write $type:ty, $name:literal, [] [$($p:tt)+] $body:expr;) => {
        $crate::Handler::write($name).writes($crate::handlers!(@call $type, $name, write, [$($p)+] $body))
    };
    (@both $type:ty, $name:literal, [$(.$field:tt)+]) => {
        $crate::handlers!(@both $type, $name, [$(.$field)+] [element, value: &str] (element$(.$field)+ = $crate::declare::FromValue::from_value($name, value)?);)
    };
    (@both $type:ty, $name:literal, [$(.$field:tt)+] [$($p:tt)+] $body:expr;) => {
        $crate::handlers!(@both $type, $name, [] [element] (element$(.$field)+); [$($p)+] $body;)
    };
    (@both $type:ty, $name:literal, [] [$($r:tt)+] $read:expr;) => {
        $crate::handlers!(@reads both, [], $type, $name, [] [$($r)+] $read;)
    };
    (@both $type:ty, $name:literal, [] [$($r:tt)+] $read:expr; [$($w:tt)+] $write:expr;) => {
        $crate::handlers!(@reads both, [], $type, $name, [] [$($r)+] $read;)
            .writes($crate::handlers!(@call $type, $name, write, [$($w)+] $write))
    };
    (@call $type:ty, $name:literal, $way:ident, [$element:ident] $body:expr) => {
        $crate::handlers!(@call $type, $name, $way, [$element, _cx, _value: &str] $body)
    };
    (@call $type:ty, $name:literal, $way:ident, [$element:ident, $cx:ident] $body:expr) => {
        $crate::handlers!(@call $type, $name, $way, [$element, $cx, _value: &str] $body)
    };
    (@call $type:ty, $name:literal, $way:ident, [$element:ident, $value:ident: $of:ty] $body:expr) => {
        $crate::handlers!(@call $type, $name, $way, [$element, _cx, $value: $of] $body)
    };
    (@call $type:ty, $name:literal, $way:ident, [$element:ident, $cx:ident, $value:ident: $of:ty] $body:expr) => {
        |element, $cx, text| match $crate::declare::subject::<$type>(element, $cx) {
            Some($element) => {
                let $value = <$of as $crate::declare::FromValue<'_>>::from_value($name, text)?;
                $crate::handlers!(@answer $way $body)
            }
            None => $crate::declare::own::$way(element, $cx, $name, text),
        }
    };
    (@answer read $body:expr) => { Ok(::std::string::ToString::to_string(&$body)) };
    (@answer write $body:expr) => {{ $body; Ok(()) }};
}
