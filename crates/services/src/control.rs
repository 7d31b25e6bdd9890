// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket of `junctor run`: a Unix socket of its own for each process, which `junctor ctl` finds.
//!
//! It speaks [`ctl`] from helper threads, so it is no element of the configuration and costs the packets nothing.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctl::{Listener, Policy, Server, Service};

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory of this user's sockets cannot be made.
    #[error("{}: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// A router listens there.
    #[error(
        "control socket {}: a router that runs listens there; name another by --control, or end that one",
        .0.display()
    )]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("control socket {}: {why}; --control names another place", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
}

/// A socket that is served until this is dropped. Clients then get the replies to what they have asked.
pub struct Served {
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
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Listens where routers of this user do. `None` when there is no such place.
///
/// # Errors
/// What could not be made.
pub fn listen_by_default(offered: impl Service + 'static) -> Result<Option<Served>, Error> {
    let Some(directory) = client::directory() else { return Ok(None) };
    // Who is in the group has to reach the socket.
    let group = Policy::of_process().group;
    let mode = if group.is_some() { 0o750 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&directory);
    let shared = made.and_then(|()| match group {
        Some(group) => share(&directory, group),
        None => Ok(()),
    });
    shared.map_err(|why| Error::Directory { path: directory.clone(), why })?;
    listen(&directory.join(format!("{}.sock", std::process::id())), offered).map(Some)
}

/// Lets a group look into a directory.
fn share(directory: &Path, group: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::os::unix::fs::lchown(directory, None, Some(group))?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o750))
}

/// Listens on this path; a socket that nobody serves any more makes way.
///
/// # Errors
/// What could not be made.
pub fn listen(path: &Path, offered: impl Service + 'static) -> Result<Served, Error> {
    client::remove_if_stale(path);
    let failed = |why: io::Error| match why.kind() {
        io::ErrorKind::AddrInUse => Error::InUse(path.to_owned()),
        _ => Error::Socket { path: path.to_owned(), why },
    };
    let listener = Listener::unix(path, Policy::of_process().group).map_err(failed)?;
    let server = Server::start(listener, Arc::new(offered)).map_err(failed)?;
    Ok(Served { path: path.to_owned(), server: Some(server) })
}
