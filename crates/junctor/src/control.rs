// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket of `junctor run`: a Unix socket of its own for each process, which `junctor ctl` finds.
//!
//! It speaks [`ctl`] from helper threads, so it is no element of the configuration and costs the packets nothing.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ctl::{Handlers, Listener, Policy, Rules, Server, Service};

use crate::keeper::Offered;
use observe::OBSERVE;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 32;

/// A socket that is served until this is dropped. Clients then get the replies to what they have asked.
pub(crate) struct Served {
    path: PathBuf,
    server: Option<Server>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end();
        }
    }
}

impl Served {
    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Service for Offered {
    fn rules(&self) -> Rules {
        // Who may connect has the rights of the router; a session that only waits for its end is as good as any other.
        Rules { read_only: false, token: None, idle: None, most: MOST_CONNECTIONS, verbose: false }
    }

    fn handlers(&self, _: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(self.clone())
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn say(&self, text: &str) {
        errln!("junctor: control: {text}");
    }

    fn wrote(&self, name: &str, bytes: usize, peer: &str, done: bool) {
        // To look at packets changes nothing, and is asked for many times a second.
        if name != OBSERVE && !Policy::of_process().as_click {
            let done = if done { "wrote" } else { "failed to write" };
            self.say(&format!("{peer} {done} {} ({bytes} bytes)", name.escape_debug()));
        }
    }
}

/// Listens where routers of this user do. `None` when there is no such place.
///
/// # Errors
/// What could not be made.
pub(crate) fn listen_by_default(offered: Offered) -> Result<Option<Served>, String> {
    let Some(directory) = client::directory() else { return Ok(None) };
    // Who is in the group has to reach the socket.
    let group = Policy::of_process().group;
    let mode = if group.is_some() { 0o750 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&directory);
    let shared = made.and_then(|()| match group {
        Some(group) => share(&directory, group),
        None => Ok(()),
    });
    shared.map_err(|e| format!("{}: {e}", directory.display()))?;
    listen(&directory.join(format!("{}.sock", std::process::id())), offered).map(Some)
}

/// Lets a group look into a directory.
fn share(directory: &Path, group: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::os::unix::fs::lchown(directory, None, Some(group))?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o750))
}

/// Listens on this path; a socket that nobody serves any more makes way.
///
/// # Errors
/// What could not be made.
pub(crate) fn listen(path: &Path, offered: Offered) -> Result<Served, String> {
    client::remove_if_stale(path);
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "control socket {}: a router that runs listens there; name another by --control, or end that one",
            path.display()
        ),
        _ => format!("control socket {}: {e}; --control names another place", path.display()),
    };
    let listener = Listener::unix(path, Policy::of_process().group).map_err(failed)?;
    let server = Server::start(listener, Arc::new(offered)).map_err(failed)?;
    Ok(Served { path: path.to_owned(), server: Some(server) })
}
