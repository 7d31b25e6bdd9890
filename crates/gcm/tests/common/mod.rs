// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several tests need.

// Each test uses a part.
#![allow(dead_code)]

use junctor_gcm::{Implementation, Key};

/// What this processor can run.
pub fn implementations() -> impl Iterator<Item = Implementation> {
    [Implementation::Wide, Implementation::Portable].into_iter().filter(|i| i.is_supported())
}

/// A key of this implementation.
pub fn key(implementation: Implementation, bytes: &[u8]) -> Key {
    Key::with(implementation, bytes).expect("16 or 32 bytes, and an implementation that runs here")
}
