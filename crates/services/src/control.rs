// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket of `junctor run`: a Unix socket of its own for each process, which `junctor ctl` finds.
//!
//! It speaks [`ctl`] from helper threads, so it is no element of the configuration and costs the packets nothing.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use confine::privileges::User;
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

/// A socket that exists and is not served yet.
pub struct Bound {
    path: PathBuf,
    listener: Listener,
}

impl Bound {
    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves it until the result is dropped.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn serve(self, offered: impl Service + 'static) -> Result<Served, Error> {
        let Bound { path, listener } = self;
        match Server::start(listener, Arc::new(offered)) {
            Ok(server) => Ok(Served { path, server: Some(server) }),
            Err(why) => Err(Error::Socket { path, why }),
        }
    }
}

/// Makes a socket where routers of this user listen, or those that will become this user. `None` when there is no such place.
///
/// # Errors
/// What could not be made.
pub fn bind_by_default(user: Option<&User>) -> Result<Option<Bound>, Error> {
    let directory = match user {
        Some(user) => client::of_user(&user.name),
        None => client::directory(),
    };
    let Some(directory) = directory else { return Ok(None) };
    // Who is in the group has to reach the socket.
    let group = Policy::of_process().group;
    let mode = if group.is_some() { 0o750 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&directory);
    let shared = made.and_then(|()| match group {
        Some(group) => share(&directory, group),
        None => Ok(()),
    });
    let shared = shared.and_then(|()| user.map_or(Ok(()), |user| user.own(&directory)));
    shared.map_err(|why| Error::Directory { path: directory.clone(), why })?;
    bind(&directory.join(format!("{}.sock", std::process::id()))).map(Some)
}

/// Lets a group look into a directory.
fn share(directory: &Path, group: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::os::unix::fs::lchown(directory, None, Some(group))?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o750))
}

/// Makes a socket at this path; one that nobody serves any more makes way.
///
/// # Errors
/// What could not be made.
pub fn bind(path: &Path) -> Result<Bound, Error> {
    client::remove_if_stale(path);
    let listener = Listener::unix(path, Policy::of_process().group).map_err(|why| match why.kind() {
        io::ErrorKind::AddrInUse => Error::InUse(path.to_owned()),
        _ => Error::Socket { path: path.to_owned(), why },
    })?;
    Ok(Bound { path: path.to_owned(), listener })
}
