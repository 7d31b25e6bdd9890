// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that run a router in another thread.

use junctor_engine::Control;

/// Ends a router, however the test ends: its thread would be waited for otherwise.
pub struct Ends<'a>(pub &'a Control);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
