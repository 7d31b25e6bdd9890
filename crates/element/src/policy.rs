// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may control the router, as the command line says, once for the process.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What the command line says of control sockets.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// TCP ports need no token: every user of the machine may control the router.
    pub open: bool,
    /// The token file of TCP ports that name none.
    pub token_file: Option<PathBuf>,
    /// The group that may use Unix sockets, in addition to their owner.
    pub group: Option<u32>,
    /// The program was called as `click`, for scripts that read Click's output: writes are not logged, nor is it said that a port is
    /// open to all.
    pub as_click: bool,
}

static POLICY: OnceLock<Policy> = OnceLock::new();
static STRICT: Policy = Policy { open: false, token_file: None, group: None, as_click: false };

impl Policy {
    /// Makes this the process's policy, before any router is built. The first one stays.
    pub fn establish(self) {
        let _ = POLICY.set(self);
    }

    /// The process's policy; without one, TCP ports need a token.
    pub fn of_process() -> &'static Policy {
        POLICY.get().unwrap_or(&STRICT)
    }
}
