// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane's commands: `junctor control` runs it, `junctor routes` asks it, and `junctor router` writes a deployment with it. The
//! crate `control` does the work. [`inside`] is for benchmarks and labs, which have both planes in one process.

pub(crate) mod bfd;
mod diff;
pub(crate) mod inside;
pub(crate) mod plane;
pub(crate) mod router;
pub(crate) mod routes;
mod served;

use std::path::PathBuf;

/// Where control planes of this user listen for questions.
fn directory() -> Option<PathBuf> {
    crate::control::directory().map(|directory| directory.join("control"))
}
