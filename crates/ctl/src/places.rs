// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where control sockets listen. A Unix socket belongs to its owner alone from its first moment, with any umask. The only
//! file that is ever removed for one is a socket of this user that nobody serves.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A socket that waits for clients.
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener, SocketFile),
    /// One client's connection, which is there already.
    Connected(OwnedFd),
}

/// A client's connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The file of a socket that we serve; it goes with this, if it is still ours.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
    removed: AtomicBool,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    pub(super) fn remove(&self) {
        if self.removed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Ok(place) = Directory::of(&self.path) else { return };
        if place.look().is_ok_and(|found| (found.st_dev, found.st_ino) == self.id) {
            let _ = place.remove();
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A name in a directory that is held open, so that what is looked at is what is removed.
struct Directory<'a> {
    fd: OwnedFd,
    name: &'a std::ffi::OsStr,
}

impl Directory<'_> {
    fn of(path: &Path) -> io::Result<Directory<'_>> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let fd = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Directory { fd, name })
    }

    fn look(&self) -> io::Result<rustix::fs::Stat> {
        Ok(rustix::fs::statat(&self.fd, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, self.name, AtFlags::empty())?)
    }
}

/// Whether at `path` lies a socket of this user's that nobody serves any more.
///
/// # Errors
/// What lies there is no such socket, and what it is instead.
fn is_left(path: &Path) -> io::Result<bool> {
    let place = Directory::of(path)?;
    let found = match place.look() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let other = |what: &str| Err(io::Error::new(ErrorKind::AlreadyExists, what.to_owned()));
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => {}
        FileType::Symlink => return other("it is a symbolic link; name the socket itself"),
        _ => return other("there is a file that is no socket; move it away, or name another place"),
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return other(&format!("there is a socket of user {}; name another place", found.st_uid));
    }
    Ok(matches!(UnixStream::connect(path), Err(e) if e.kind() == ErrorKind::ConnectionRefused))
}

/// Removes what a router that has ended left at `path`: a socket of this user's that nobody serves. Returns whether it did.
///
/// # Errors
/// Something else lies there, which stays.
pub fn left_behind(path: &Path) -> io::Result<bool> {
    if !is_left(path)? {
        return Ok(false);
    }
    Directory::of(path)?.remove().map(|()| true)
}

impl Listener {
    /// Listens on a Unix socket that its owner alone may use, or a group, too. A socket that was left behind makes way.
    ///
    /// # Errors
    /// Something else lies there, or the system refuses. [`ErrorKind::AddrInUse`]: somebody listens there.
    pub fn unix(path: &Path, group: Option<u32>) -> io::Result<Listener> {
        left_behind(path)?;
        // Bound, it has a name before it listens, and others would take it for one that was left behind; so it gets its
        // name when all is done.
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        // A process of this number that was killed meanwhile may have left one. If anything else is there, binding fails.
        let _ = left_behind(&unfinished);
        let listener = match bind(&unfinished, group) {
            Ok(listener) => {
                let named = std::fs::hard_link(&unfinished, path);
                let _ = std::fs::remove_file(&unfinished);
                match named {
                    Ok(()) => listener,
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(ErrorKind::AddrInUse.into()),
                    // A file system without links.
                    Err(_) => bind(path, group)?,
                }
            }
            // The longer name may be too long for a socket.
            Err(_) => bind(path, group)?,
        };
        let meta = std::fs::symlink_metadata(path)?;
        let id = (meta.dev(), meta.ino());
        let file = SocketFile { path: path.to_owned(), id, removed: AtomicBool::new(false) };
        Ok(Listener::Unix(listener, file))
    }

    /// Takes over a connection that this process has been started with, by the number of its descriptor.
    ///
    /// # Errors
    /// There is no such descriptor, or it is no socket.
    pub fn connected(descriptor: i32) -> io::Result<Listener> {
        let this =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
        let flags = rustix::process::PidfdGetfdFlags::empty();
        let connection = rustix::process::pidfd_getfd(this, descriptor, flags)?;
        if !FileType::from_raw_mode(rustix::fs::fstat(&connection)?.st_mode).eq(&FileType::Socket) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no socket"));
        }
        Ok(Listener::Connected(connection))
    }

    /// The connection that is there from the start.
    pub(super) fn first(&self) -> io::Result<Option<(Stream, Peer)>> {
        match self {
            // What is done with it is the same for each kind of socket.
            Listener::Connected(connection) => {
                let stream = Stream::Unix(connection.try_clone()?.into());
                Ok(Some((stream, Peer("who started the router".into()))))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer(from.to_string())))
            }
            Listener::Connected(_) => Err(ErrorKind::InvalidInput.into()),
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                let peer = rustix::net::sockopt::socket_peercred(&stream).map_or_else(
                    |_| "an unknown user".to_owned(),
                    |c| format!("uid {} gid {} pid {}", c.uid.as_raw(), c.gid.as_raw(), c.pid),
                );
                Ok((Stream::Unix(stream), Peer(peer)))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(l) => l.as_fd(),
            Listener::Unix(l, _) => l.as_fd(),
            Listener::Connected(c) => c.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// Who is at the other end, in words.
#[derive(Clone, Debug)]
pub(super) struct Peer(pub(super) String);

/// Binds a socket, which never is open to more than it should: the kernel makes its file with the socket's own mode, without
/// what the umask forbids.
fn bind(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let shared = group.map_or(Ok(()), |group| std::os::unix::fs::lchown(path, None, Some(group)));
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let listening = shared
        .and_then(|()| set_mode(path, mode))
        .and_then(|()| rustix::net::listen(&socket, 64).map_err(io::Error::from));
    if let Err(why) = listening {
        let _ = std::fs::remove_file(path);
        return Err(why);
    }
    Ok(socket.into())
}

/// Sets the mode of a socket's file, if that is still what lies there.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let path_only = (OFlags::PATH | OFlags::NOFOLLOW).bits() as i32;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(path_only).open(path)?;
    if !file.metadata()?.file_type().is_socket() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let itself = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    std::fs::set_permissions(itself, std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_removed_but_a_socket_that_was_left() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let path = dir.join("s");
        let why = |path: &Path| Listener::unix(path, None).err().map(|e| e.to_string()).unwrap_or_default();

        std::fs::write(&path, "precious").unwrap();
        assert!(why(&path).contains("no socket"), "{}", why(&path));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

        std::os::unix::fs::symlink(&path, dir.join("link")).unwrap();
        assert!(why(&dir.join("link")).contains("symbolic link"));
        std::os::unix::fs::symlink(dir.join("nowhere"), dir.join("dangling")).unwrap();
        assert!(why(&dir.join("dangling")).contains("symbolic link"));
        assert!(why(dir).contains("no socket"));

        // Somebody else's live socket, and a datagram socket, which refuses connections otherwise.
        let live = UnixListener::bind(dir.join("live")).unwrap();
        assert!(Listener::unix(&dir.join("live"), None).is_err() && dir.join("live").exists());
        let datagrams = std::os::unix::net::UnixDatagram::bind(dir.join("datagrams")).unwrap();
        assert!(Listener::unix(&dir.join("datagrams"), None).is_err() && dir.join("datagrams").exists());
        drop((live, datagrams));
        let taken = Listener::unix(&dir.join("live"), None).unwrap();
        drop(taken);
        assert!(!dir.join("live").exists(), "a socket that was left makes way, and ours goes with us");
    }

    #[test]
    fn what_is_not_ours_any_more_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let path = dir.join("s");
        let listener = Listener::unix(&path, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[test]
    fn a_socket_left_before_it_had_its_name_makes_way() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("s");
        let unfinished = temp.path().join(format!("s.{}", std::process::id()));
        drop(UnixListener::bind(&unfinished).unwrap());
        let _listener = Listener::unix(&path, None).unwrap();
        assert!(path.exists() && !unfinished.exists());
    }

    #[test]
    fn sockets_are_their_owners() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
        let _a = Listener::unix(&dir.join("a"), None).unwrap();
        let group = rustix::process::getegid().as_raw();
        let _b = Listener::unix(&dir.join("b"), Some(group)).unwrap();
        assert_eq!([mode(&dir.join("a")), mode(&dir.join("b"))], [0o600, 0o660]);
        // So long that a second name does not fit next to it.
        let long = dir.join("x".repeat(106 - dir.as_os_str().len()));
        let _long = Listener::unix(&long, None).unwrap();
        assert_eq!(mode(&long), 0o600);
    }
}
