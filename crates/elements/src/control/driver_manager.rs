// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DriverManager
//!
//! `DriverManager(INSTRUCTIONS..., keyword TYPE)`
//!
//! A Script whose TYPE is DRIVER unless configured: it decides when the router stops.
//!
//! Elements with `STOP true`, the `stop` handler and `stop` instructions of other scripts ask the driver to stop. Without a
//! DriverManager the first request ends the router. With one, each request is a step of its script: it lets the script pass
//! one `pause` (or `wait_stop`), and the router ends when the script does.
//!
//! **Ports:** none.
//!
//! **Arguments:** as for Script. Without instructions it waits for one request. `wait_stop COUNT` waits for COUNT requests.
//!
//! **Handlers:** as for Script.
//!
//! **Drops:** none.
//!
//! ```click
//! a :: InfiniteSource(LIMIT 2, STOP true) -> Discard;
//! b :: InfiniteSource(LIMIT 3, STOP true) -> Discard;
//! DriverManager(wait_stop 2, print "both have ended", stop);
//! ```
//!
//! See also: Script

use element::Class;

use super::parse::ScriptKind;
use super::script::Script;

/// The descriptor.
pub const CLASS: Class = Script::with_capabilities(
    Class::new("DriverManager", "0/0", || Box::new(Script::new(Some(ScriptKind::Driver)))).file(file!()),
);
