// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices that configurations may name.

use std::sync::Arc;

use packet::port::Provider;

/// The devices of this machine.
pub(crate) fn system() -> Arc<dyn Provider> {
    Arc::new(ports::SystemProvider::new())
}

/// The same; what a process that takes this one's place goes on with is kept there.
pub(crate) fn kept_by(kept: Arc<dyn ports::Keeper>) -> Arc<dyn Provider> {
    Arc::new(ports::SystemProvider::new().kept_by(kept))
}
