// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices that configurations may name.

use std::sync::Arc;

use packet::port::Provider;

/// The devices of this machine.
pub(crate) fn system() -> Arc<dyn Provider> {
    Arc::new(ports::SystemProvider::new())
}

/// Those of a router: what a process that takes its place goes on with is kept, and channels lead to the planes of its domain.
pub(crate) fn of_router(
    kept: Option<Arc<dyn ports::Keeper>>,
    planes: Option<Arc<ports::plane::Planes>>,
) -> Arc<dyn Provider> {
    let provider = ports::SystemProvider::new();
    let provider = kept.into_iter().fold(provider, ports::SystemProvider::kept_by);
    Arc::new(planes.into_iter().fold(provider, ports::SystemProvider::in_domain))
}
