// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node that serves a domain: it makes the endpoints' memory, lets in who has the right, and notices who dies.
//!
//! A thread of its own does that. Channels do not pass through it: once both sides are attached they need it no more, and go on if it dies.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::endpoint::{Endpoint, NodeId};
use crate::error::AttachError;
use crate::layout::{Layout, LayoutError};
use crate::node::Node;
use crate::protocol::address;
use crate::region::RegionError;
use crate::seats::Seats;
use crate::serving::{Command, Serving};
use crate::wait::Bell;

/// Why a domain is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Endpoints that cannot be.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// The path is in use.
    #[error("{0} is in use: another node serves a domain there, or it is not a socket")]
    InUse(String),
    /// The socket could not be made.
    #[error("cannot serve at {0}: {1}")]
    Socket(String, std::io::Error),
    /// No memory, descriptors or threads.
    #[error("cannot serve the domain: {0}")]
    System(#[from] std::io::Error),
}

impl From<RegionError> for ServeError {
    fn from(why: RegionError) -> ServeError {
        match why {
            RegionError::Layout(why) => ServeError::Layout(why),
            RegionError::System(why) => ServeError::System(why),
            RegionError::NotSealed => ServeError::System(rustix::io::Errno::PERM.into()),
        }
    }
}

/// A domain that this process serves until this is dropped. Then the socket is removed; channels between others go on.
///
/// ```
/// use junctor_icc::{Domain, Endpoint, NodeId};
/// let domain = Domain::serve(NodeId::new(1, 1), &[Endpoint::messages(1, "commands", 256, 64)], None)?;
/// let node = domain.node(2)?;
/// let (mut sender, mut receiver) = (node.sender("commands")?, node.receiver("commands")?);
/// sender.send(b"route add 192.0.2.0/24")?;
/// let mut buffer = [0; 256];
/// assert_eq!(receiver.receive(&mut buffer)?, Some(22));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Domain {
    id: NodeId,
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
    _place: Option<Place>,
}

/// What the thread is to do.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) queue: Mutex<Vec<Command>>,
    pub(crate) bell: Bell,
}

impl Orders {
    fn give(&self, command: Command) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.bell.ring();
    }
}

impl Domain {
    /// Serves these endpoints as node `id`; at a path (`@NAME` for a name without a file), or, without one, to those only who get a [`socket`](Self::socket).
    ///
    /// # Errors
    /// See [`ServeError`]. Nothing is left behind.
    pub fn serve(id: NodeId, endpoints: &[Endpoint], path: Option<&Path>) -> Result<Domain, ServeError> {
        // All of them together, so that ports and names are unique.
        Layout::plan(id, 0, endpoints)?;
        let seats =
            endpoints.iter().map(|endpoint| Seats::new(id, endpoint)).collect::<Result<Vec<_>, _>>()?;
        let open = endpoints.iter().any(|endpoint| endpoint.rights.mode & 0o066 != 0);
        let bound = path.map(|path| bind(path, open)).transpose()?;
        let (listener, place) = bound.map_or((None, None), |(listener, place)| (Some(listener), place));
        let orders = Arc::new(Orders { queue: Mutex::default(), bell: Bell::new()? });
        let serving = Serving::new(id, seats, listener, orders.clone());
        let thread = std::thread::Builder::new().name("icc".into()).spawn(move || serving.run())?;
        Ok(Domain { id, orders, thread: Some(thread), _place: place })
    }

    /// A connected socket for another process, which uses it by [`Node::over`]. Who has it counts as this process.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn socket(&self) -> std::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        self.orders.give(Command::Join(ours));
        Ok(theirs)
    }

    /// A node of this process, numbered `node` in the domain.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn node(&self, node: u32) -> Result<Node, AttachError> {
        Ok(Node::over(self.socket()?, NodeId::new(self.id.domain, node)))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.orders.give(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// The socket's file, which is removed at the end unless it is another's by now.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    file: (u64, u64),
}

impl Place {
    fn file(path: &Path) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if Place::file(&self.path) == Some(self.file) {
            // If it cannot be removed, the next one to serve there replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A socket that listens there; other users can reach it if `open`.
fn bind(path: &Path, open: bool) -> Result<(OwnedFd, Option<Place>), ServeError> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let failed = |why: std::io::Error| ServeError::Socket(path.display().to_string(), why);
    let address = address(path).map_err(|why| failed(why.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = make().map_err(|why| failed(why.into()))?;
    let mut bound = net::bind(&socket, &address);
    if bound == Err(rustix::io::Errno::ADDRINUSE) {
        let asking = make().map_err(|why| failed(why.into()))?;
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        // Refused: a socket that nobody listens at, left by a process that was killed.
        if !is_socket || net::connect(&asking, &address) != Err(rustix::io::Errno::CONNREFUSED) {
            return Err(ServeError::InUse(path.display().to_string()));
        }
        std::fs::remove_file(path).map_err(failed)?;
        bound = net::bind(&socket, &address);
    }
    bound.map_err(|why| failed(why.into()))?;
    let place = address.path().and_then(|_| Some(Place { path: path.to_owned(), file: Place::file(path)? }));
    if place.is_some() {
        // Before it listens, so nobody gets in meanwhile. Who may do what is then asked of the kernel for each connection.
        let mode = std::fs::Permissions::from_mode(if open { 0o666 } else { 0o600 });
        std::fs::set_permissions(path, mode).map_err(failed)?;
    }
    net::listen(&socket, 16).map_err(|why| failed(why.into()))?;
    Ok((socket, place))
}
