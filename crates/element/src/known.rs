// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers that the engine answers in elements' place, and those of the router itself.

use crate::handler::{Merge, Signature};

/// The handler that takes another configuration.
pub const HOTCONFIG: &str = "hotconfig";

/// The handler of an element with a task that says who runs it.
pub const HOME: &str = "home_thread";
/// The handler that says how many workers take part.
pub const THREADS: &str = "threads";
/// Handlers of every element.
pub static ELEMENT: [Signature; 7] = [
    Signature::read("name").common(),
    Signature::read("class").common(),
    Signature::read("config").common(),
    Signature::read("ports").common(),
    Signature::read("handlers").common(),
    Signature::read("drops").merge(Merge::Tally).common(),
    Signature::read("cycles").merge(Merge::Join).common(),
];

/// In the place of the one above for classes whose elements can be configured anew.
pub static WRITABLE_CONFIG: Signature = Signature::both("config").common();

/// Handlers of elements with a task.
pub static TASK: [Signature; 3] = [
    Signature::both("scheduled").common(),
    Signature::both("tickets").common(),
    Signature::both(HOME).common(),
];

/// The router's own handlers.
pub static GLOBAL: [Signature; 23] = [
    Signature::read("version"),
    Signature::read("driver"),
    Signature::read("config"),
    Signature::read("flatconfig"),
    Signature::read("requirements"),
    Signature::read("handlers"),
    Signature::read("list"),
    Signature::read("classes"),
    Signature::read("packages"),
    Signature::read("timewarp"),
    Signature::read("time"),
    Signature::read("big_lock"),
    Signature::read("locks"),
    Signature::read("drops").merge(Merge::Tally),
    Signature::write("stop"),
    Signature::both(THREADS),
    Signature::both("balancer.active"),
    Signature::both("balancer.period"),
    Signature::both("balancer.handoff_ns"),
    Signature::read("balancer.log"),
    Signature::read("balancer.placement"),
    Signature::read("balancer.trying"),
    Signature::write(HOTCONFIG),
];
