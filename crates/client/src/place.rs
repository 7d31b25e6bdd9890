// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which router is meant, and where its control socket is.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use planes::up::Files;

use crate::call::{Failure, SOON};
use crate::channel;
use crate::connection::Connection;

/// Which running router is meant.
#[derive(Clone, Debug, Default)]
pub enum Which {
    /// The only one.
    #[default]
    Only,
    /// The one that listens at this control socket.
    Socket(PathBuf),
    /// This process.
    Process(u32),
    /// The one at the other end of this channel of the deployment.
    Channel(String),
}

/// Where routers of this user listen: `/run/junctor` for root, else below `$XDG_RUNTIME_DIR` if that is set.
pub fn directory() -> Option<PathBuf> {
    if is_root() {
        return Some(PathBuf::from("/run/junctor"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty())?;
    Some(Path::new(&runtime).join("junctor"))
}

/// Where control planes of this user listen.
pub fn control_planes() -> Option<PathBuf> {
    directory().map(|directory| directory.join("control"))
}

/// Where deployments of this user have their files.
///
/// # Errors
/// There is no such place.
pub fn deployments() -> Result<PathBuf, Failure> {
    directory().ok_or(Failure::NoDirectory)
}

/// The files of a deployment of this name.
///
/// # Errors
/// There is no place for them.
pub fn files_of(name: &str) -> Result<Files, Failure> {
    Ok(Files::new(deployments()?.join(name)))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Removes a socket of this user's that nobody serves, with the statistics next to it; returns whether there was one.
pub fn remove_if_stale(path: &Path) -> bool {
    let removed = ctl::left_behind(path).unwrap_or(false);
    if removed {
        stats::remove_left(&stats::path_of(path));
    }
    removed
}

/// Connects to the router that is meant.
///
/// # Errors
/// There is no such router, or it is not clear which of several is meant.
pub fn find(router: &Which) -> Result<Connection, Failure> {
    match router {
        Which::Channel(channel) => {
            let stream = channel::connect(channel, SOON)?;
            Ok(Connection::Channel(Box::new(stream)))
        }
        _ => locate(router).map(|(_, stream)| stream.into()),
    }
}

/// Connects to the router's socket; returns its path, too.
///
/// # Errors
/// There is no such router, or it is not clear which of several is meant.
pub fn locate(router: &Which) -> Result<(PathBuf, UnixStream), Failure> {
    if let Which::Socket(path) = router {
        let failed = |e: std::io::Error| {
            let mend = match e.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    "the router that listened there has ended; start it again"
                }
                std::io::ErrorKind::NotFound => {
                    "start a router by 'junctor run --control PATH', or leave --socket out for the one that runs"
                }
                std::io::ErrorKind::PermissionDenied => "it is another user's; be that user",
                _ => "name the socket of a router that runs",
            };
            Failure::Unreachable(format!("no router answers at {}: {e}; {mend}", path.display()))
        };
        return UnixStream::connect(path).map(|stream| (path.clone(), stream)).map_err(failed);
    }
    let Some(directory) = directory() else {
        let why = "routers of this user listen nowhere by default, because XDG_RUNTIME_DIR is not set; \
                   name a socket by 'junctor run --control PATH' and 'junctor ctl --socket PATH'";
        return Err(Failure::Unreachable(why.into()));
    };
    let pid = if let Which::Process(pid) = router { Some(*pid) } else { None };
    choose(&directory, pid)
}

/// The router that listens in this directory, of this process if one is named.
fn choose(directory: &Path, pid: Option<u32>) -> Result<(PathBuf, UnixStream), Failure> {
    let mut live = sockets(directory);
    if let Some(pid) = pid {
        live.retain(|(p, ..)| *p == pid);
        return live.pop().map(|(_, path, stream)| (path, stream)).ok_or_else(|| {
            Failure::Unreachable(format!(
                "process {pid} is no router that listens in {}",
                directory.display()
            ))
        });
    }
    match live.len() {
        0 => Err(Failure::Unreachable(format!(
            "no router is running (none listens in {}); start one by 'junctor run', or name its socket by --socket",
            directory.display()
        ))),
        1 => {
            let (_, path, stream) = live.remove(0);
            Ok((path, stream))
        }
        _ => {
            let list = live
                .iter()
                .map(|(pid, path, _)| format!("\n  --pid {pid}  {}  {}", path.display(), words(*pid)));
            Err(Failure::Unclear(format!(
                "several routers are running; choose one:{}",
                list.collect::<String>()
            )))
        }
    }
}

/// Live sockets with their processes, by number: of routers by themselves, and of planes, whose deployments have directories of their
/// own. Those that a process left behind are removed. Control planes have a directory, too, but no router listens there.
fn sockets(directory: &Path) -> Vec<(u32, PathBuf, UnixStream)> {
    let paths = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let (deployments, mut found): (Vec<_>, Vec<_>) =
        paths(directory).into_iter().partition(|path| path.is_dir());
    let users = of_users_next_to(directory);
    found.extend(users.iter().flat_map(|user| paths(user)));
    found.extend(deployments.iter().flat_map(|deployment| paths(deployment)));
    let mut live: Vec<_> = found
        .into_iter()
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
            // A router by itself is called by its number. In a guest, the planes of the machine stand there, too.
            let is_alone =
                || path.parent().is_some_and(|at| at == directory || users.iter().any(|user| user == at));
            let number = || name.parse().ok().filter(|_| is_alone());
            let recorded = || Some(planes::record::Record::living(&path.with_extension("pid"))?.pid);
            let pid = number().or_else(recorded)?;
            match UnixStream::connect(&path) {
                Ok(stream) => Some((pid, path, stream)),
                Err(_) => {
                    remove_if_stale(&path);
                    None
                }
            }
        })
        .collect();
    live.sort_by_key(|(pid, ..)| *pid);
    live
}

/// A running router of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Living {
    /// The number of its process, or `DEPLOYMENT.PLANE`.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its control socket.
    pub socket: PathBuf,
}

/// All running routers of this user.
pub fn living() -> Vec<Living> {
    let Some(directory) = directory() else { return Vec::new() };
    let users = of_users_next_to(&directory);
    let named = |(pid, socket, _): (u32, PathBuf, UnixStream)| {
        let stem = socket.file_stem()?.to_str()?;
        let is_own = |above: &&Path| *above == directory || users.iter().any(|user| user == above);
        let above = socket.parent().filter(|above| !is_own(above)).and_then(Path::file_name);
        let name = match above {
            Some(deployment) => format!("{}.{stem}", deployment.to_str()?),
            None => stem.to_owned(),
        };
        Some(Living { name, pid, socket })
    };
    sockets(&directory).into_iter().filter_map(named).collect()
}

/// Where the sockets of confined routers are that root has started and that run as another user: next to root's own.
pub fn of_user(name: &str) -> Option<PathBuf> {
    directory().map(|directory| next_to(&directory, name))
}

fn next_to(directory: &Path, name: &str) -> PathBuf {
    let own = directory.file_name().unwrap_or_default().to_string_lossy();
    directory.with_file_name(format!("{own}-as-{name}"))
}

/// Those of all users that are there.
pub fn of_users() -> Vec<PathBuf> {
    directory().map_or_else(Vec::new, |directory| of_users_next_to(&directory))
}

fn of_users_next_to(directory: &Path) -> Vec<PathBuf> {
    let begins = next_to(directory, "");
    let (Some(parent), Some(begins)) = (directory.parent(), begins.file_name()) else { return Vec::new() };
    let begins = begins.to_string_lossy();
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&*begins));
    named.map(|entry| entry.path()).collect()
}

/// The command line of a process.
fn words(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_only_live_socket_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let path = |pid: u32| dir.path().join(format!("{pid}.sock"));
        let why = |r: Result<(PathBuf, UnixStream), Failure>| match r {
            Err(why) => why.to_string(),
            Ok(_) => String::new(),
        };
        assert!(why(choose(dir.path(), None)).contains("no router is running"));

        let control_planes = dir.path().join("control");
        std::fs::create_dir(&control_planes).unwrap();
        let _control_plane = UnixListener::bind(control_planes.join("7.sock")).unwrap();
        assert!(why(choose(dir.path(), None)).contains("no router is running"));

        let first = UnixListener::bind(path(11)).unwrap();
        drop(UnixListener::bind(path(12)).unwrap());
        std::fs::write(dir.path().join("notes"), "").unwrap();
        assert_eq!(why(choose(dir.path(), None)), "");
        assert!(!path(12).exists() && path(11).exists(), "the socket left behind goes, the other stays");

        let second = UnixListener::bind(path(13)).unwrap();
        let several = why(choose(dir.path(), None));
        assert!(several.contains("--pid 11") && several.contains("--pid 13"), "{several}");
        assert_eq!(why(choose(dir.path(), Some(13))), "");
        assert!(why(choose(dir.path(), Some(14))).contains("process 14"));
        drop((first, second));
    }

    /// As in a guest, whose first process listens for the planes of the machine.
    #[test]
    fn a_plane_that_listens_next_to_routers_is_found_by_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let _plane = UnixListener::bind(dir.path().join("user.sock")).unwrap();
        assert_eq!(sockets(dir.path()).len(), 0);
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let began = stat[stat.rfind(')').unwrap()..].split(' ').nth(20).unwrap();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let record = format!("{} {began} {}", std::process::id(), boot.trim());
        std::fs::write(dir.path().join("user.pid"), record).unwrap();
        let found = sockets(dir.path());
        assert_eq!(found.iter().map(|(pid, ..)| *pid).collect::<Vec<_>>(), [std::process::id()]);
    }
}
