// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers that the engine answers in elements' place, and those of the router itself.

use crate::handler::{Handler, Merge};

/// The handler that takes another configuration.
pub const HOTCONFIG: &str = "hotconfig";

/// The handler of an element with a task that says who runs it.
pub const HOME: &str = "home_thread";
/// The handler that says how many workers take part.
pub const THREADS: &str = "threads";
/// Handlers of every element.
pub static ELEMENT: [Handler; 7] = [
    Handler::read("name").common(),
    Handler::read("class").common(),
    Handler::read("config").common(),
    Handler::read("ports").common(),
    Handler::read("handlers").common(),
    Handler::read("drops").merge(Merge::Tally).common(),
    Handler::read("cycles").merge(Merge::Join).common(),
];

/// In the place of the one above for classes whose elements can be configured anew.
pub static WRITABLE_CONFIG: Handler = Handler::both("config").common();

/// Handlers of elements with a task.
pub static TASK: [Handler; 3] =
    [Handler::both("scheduled").common(), Handler::both("tickets").common(), Handler::both(HOME).common()];

/// The router's own handlers.
pub static GLOBAL: [Handler; 23] = [
    Handler::read("version"),
    Handler::read("driver"),
    Handler::read("config"),
    Handler::read("flatconfig"),
    Handler::read("requirements"),
    Handler::read("handlers"),
    Handler::read("list"),
    Handler::read("classes"),
    Handler::read("packages"),
    Handler::read("timewarp"),
    Handler::read("time"),
    Handler::read("big_lock"),
    Handler::read("locks"),
    Handler::read("drops").merge(Merge::Tally),
    Handler::write("stop"),
    Handler::both(THREADS),
    Handler::both("balancer.active"),
    Handler::both("balancer.period"),
    Handler::both("balancer.handoff_ns"),
    Handler::read("balancer.log"),
    Handler::read("balancer.placement"),
    Handler::read("balancer.trying"),
    Handler::write(HOTCONFIG),
];
