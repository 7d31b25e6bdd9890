// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket of `junctor run`: a Unix socket of its own for each process, which `junctor ctl` finds.
//!
//! It speaks [`engine::control`] from threads beside the workers, so it is no element of the configuration and costs
//! the packets nothing.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::control::Session;

use crate::reconfigure::Offered;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 32;
/// How long a client may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where routers of this user listen: `/run/junctor` for root, else below `$XDG_RUNTIME_DIR` if that is set.
pub(crate) fn directory() -> Option<PathBuf> {
    if is_root() {
        return Some(PathBuf::from("/run/junctor"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty())?;
    Some(Path::new(&runtime).join("junctor"))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// A socket that is served until this is dropped.
pub(crate) struct Served {
    path: PathBuf,
    busy: Arc<Mutex<()>>,
}

/// Listens where routers of this user do. `None` when there is no such place.
///
/// # Errors
/// What could not be made.
pub(crate) fn listen_by_default(offered: Offered) -> Result<Option<Served>, String> {
    let Some(directory) = directory() else { return Ok(None) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|e| format!("{}: {e}", directory.display()))?;
    listen(&directory.join(format!("{}.sock", std::process::id())), offered).map(Some)
}

/// Listens on this path; a socket that nobody serves any more makes way.
///
/// # Errors
/// What could not be made.
pub(crate) fn listen(path: &Path, offered: Offered) -> Result<Served, String> {
    remove_if_stale(path);
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "control socket {}: a router that runs listens there; name another by --control, or end that one",
            path.display()
        ),
        _ => format!("control socket {}: {e}; --control names another place", path.display()),
    };
    let listener = bind(path).map_err(failed)?;
    let busy = Arc::new(Mutex::new(()));
    let served = Served { path: path.to_owned(), busy: busy.clone() };
    let body = move || accept(&listener, &offered, &busy);
    std::thread::Builder::new().name("control".into()).spawn(body).map_err(failed)?;
    Ok(served)
}

/// Binds a socket that only its owner may use. Bound, it has a name before it listens, and whoever came across it in between
/// would take it for one that was left behind; so it gets its name when all is done.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let owners = || std::fs::Permissions::from_mode(0o600);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    if let Ok(listener) = UnixListener::bind(&unfinished) {
        let named = std::fs::set_permissions(&unfinished, owners())
            .and_then(|()| std::fs::hard_link(&unfinished, path));
        let _ = std::fs::remove_file(&unfinished);
        match named {
            Ok(()) => return Ok(listener),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(std::io::ErrorKind::AddrInUse.into());
            }
            // A file system without links.
            Err(_) => {}
        }
    }
    // The longer name may be too long for a socket.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, owners())?;
    Ok(listener)
}

impl Served {
    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Whoever stopped the router gets an answer before the process ends.
        drop(self.busy.lock());
    }
}

/// Removes a socket that nobody serves; returns whether it did.
pub(crate) fn remove_if_stale(path: &Path) -> bool {
    use std::io::ErrorKind::ConnectionRefused;
    let refused = matches!(UnixStream::connect(path), Err(e) if e.kind() == ConnectionRefused);
    let removed = refused && std::fs::remove_file(path).is_ok();
    if removed {
        stats::remove_left(&crate::publish::path_beside(path));
    }
    removed
}

fn accept(listener: &UnixListener, offered: &Offered, busy: &Arc<Mutex<()>>) {
    // For this thread and those that it starts; without it, commands wait until the workers rest.
    let _ = sync::priority::before_workers();
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely, which does not mend itself at once.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (mine, offered, busy) = (open.clone(), offered.clone(), busy.clone());
        let body = move || {
            let _ = converse(stream, offered, &busy);
            mine.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("control".into()).spawn(body).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn converse(mut stream: UnixStream, mut offered: Offered, busy: &Mutex<()>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut session = Session::new(false);
    let mut bytes = [0; 4096];
    loop {
        loop {
            let _busy = busy.lock();
            let stepped = session.step(&mut offered);
            stream.write_all(session.output())?;
            session.sent(session.output().len());
            if !stepped {
                break;
            }
        }
        if session.is_done() {
            return Ok(());
        }
        match stream.read(&mut bytes) {
            Ok(0) => session.end(),
            Ok(n) => session.receive(&bytes[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
