// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane's commands: `junctor control` runs it, `junctor routes` asks it, and `junctor router` writes a deployment with it. `junctor
//! neighbours` asks routers and kernels, and `junctor charon` starts a key daemon.

pub(crate) mod bfd;
pub(crate) mod charon;
pub(crate) mod neighbours;
pub(crate) mod plane;
pub(crate) mod router;
pub(crate) mod routes;
