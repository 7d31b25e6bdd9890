// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces of planes, by the names that `ip netns` gives them. One that a deployment made is removed with it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use nix::sched::{CloneFlags, setns};

fn path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Runs `ip`.
///
/// # Errors
/// What it says.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new("ip").args(arguments).output().map_err(Error::system("ip"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Ip { arguments: arguments.join(" "), said })
}

/// Moves the calling thread into a namespace.
///
/// # Errors
/// There is none of this name, or no right to enter it.
pub fn enter(name: &str) -> Result<(), Error> {
    let doing = format!("network namespace {name}");
    let file = File::open(path(name)).map_err(Error::system(&doing))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(Error::kernel(doing))
}

/// Whether there is a namespace of this name.
pub(crate) fn exists(name: &str) -> bool {
    path(name).exists()
}

/// Whether the kernel could have an interface of this name, and `ip` takes it for one.
pub(crate) fn is_interface_name(name: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"/:,%".contains(c);
    (1..=15).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('-')
        && name != "."
        && name != ".."
}

/// Whether a namespace, or that of the calling thread, has an interface.
pub(crate) fn has_interface(netns: Option<&str>, interface: &str) -> bool {
    // What /sys shows is of the namespace in which it was mounted.
    let look = || {
        let list = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
        let mut names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        Some(names.any(|known| known == interface))
    };
    let Some(name) = netns else { return look().unwrap_or(false) };
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| enter(name).ok().and_then(|()| look()));
        inside.join().ok().flatten().unwrap_or(false)
    })
}

/// Makes a namespace unless it is there, and brings its loopback up.
///
/// # Errors
/// What `ip` says.
pub(crate) fn make(name: &str) -> Result<(), Error> {
    if !exists(name) {
        ip(&["netns", "add", name])?;
    }
    ip(&["-n", name, "link", "set", "lo", "up"])
}

/// Moves an interface of this process's namespace there.
///
/// # Errors
/// What `ip` says.
pub(crate) fn give(name: &str, interface: &str) -> Result<(), Error> {
    ip(&["link", "set", interface, "netns", name])
}

/// Makes a tap unless it is there, in a namespace if one is named, and brings it up.
///
/// # Errors
/// What `ip` says.
pub(crate) fn make_tap(netns: Option<&str>, tap: &str) -> Result<(), Error> {
    let within = |arguments: &[&str]| {
        let home: Vec<&str> = netns.iter().flat_map(|netns| ["-n", netns]).collect();
        ip(&[&home, arguments].concat())
    };
    if !has_interface(netns, tap) {
        within(&["tuntap", "add", tap, "mode", "tap"])?;
    }
    within(&["link", "set", tap, "up"])
}

/// Removes a tap.
///
/// # Errors
/// What `ip` says.
pub(crate) fn remove_tap(netns: Option<&str>, tap: &str) -> Result<(), Error> {
    let home: Vec<&str> = netns.iter().flat_map(|netns| ["-n", netns]).collect();
    ip(&[&home[..], &["link", "del", tap]].concat())
}

/// Moves an interface back.
///
/// # Errors
/// What `ip` says.
pub(crate) fn take_back(name: &str, interface: &str) -> Result<(), Error> {
    ip(&["-n", name, "link", "set", interface, "netns", &std::process::id().to_string()])
}

/// Removes a namespace.
///
/// # Errors
/// What `ip` says.
pub(crate) fn remove(name: &str) -> Result<(), Error> {
    ip(&["netns", "del", name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_what_the_kernel_takes() {
        for name in ["eth0", "a", "enp0s31f6.100", "fifteen-bytes-x"] {
            assert!(is_interface_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", "a\n", "a:1", "tap%d", "a,b", "-a", "sixteen-bytes-xx"] {
            assert!(!is_interface_name(name), "{name}");
        }
        assert!(has_interface(None, "lo"));
        assert!(!has_interface(None, "none") && !has_interface(Some("there-is-none"), "lo"));
    }
}
