// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces of planes, by the names that `ip netns` gives them. One that a deployment made is removed with it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, setns};

fn path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|why| format!("ip: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Moves the calling thread into a namespace.
///
/// # Errors
/// There is none of this name, or no right to enter it.
pub fn enter(name: &str) -> Result<(), String> {
    let file = File::open(path(name)).map_err(|why| format!("network namespace {name}: {why}"))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|why| format!("network namespace {name}: {why}"))
}

/// Whether a namespace has an interface.
pub(crate) fn has_interface(name: &str, interface: &str) -> bool {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter(name).ok()?;
            // What /sys shows is of the namespace in which it was mounted.
            let list = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
            let names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
            Some(names.into_iter().any(|known| known == interface))
        });
        inside.join().ok().flatten().unwrap_or(false)
    })
}

/// Makes a namespace with its loopback up unless it is there; returns whether it was made.
///
/// # Errors
/// What `ip` says.
pub(crate) fn make(name: &str) -> Result<bool, String> {
    if path(name).exists() {
        return Ok(false);
    }
    ip(&["netns", "add", name])?;
    ip(&["-n", name, "link", "set", "lo", "up"]).map(|()| true)
}

/// Moves an interface of this process's namespace there, unless it is there already.
///
/// # Errors
/// What `ip` says.
pub(crate) fn give(name: &str, interface: &str) -> Result<bool, String> {
    if has_interface(name, interface) {
        return Ok(false);
    }
    ip(&["link", "set", interface, "netns", name]).map(|()| true)
}

/// Makes a tap, in a namespace if one is named, and brings it up; returns whether it was missing.
///
/// # Errors
/// What `ip` says.
pub(crate) fn make_tap(netns: Option<&str>, tap: &str) -> Result<bool, String> {
    let is_here = |name| Path::new("/sys/class/net").join(name).exists();
    if netns.map_or_else(|| is_here(tap), |netns| has_interface(netns, tap)) {
        return Ok(false);
    }
    let within = |arguments: &[&str]| {
        let home: Vec<&str> = netns.iter().flat_map(|netns| ["-n", netns]).collect();
        ip(&[&home, arguments].concat())
    };
    within(&["tuntap", "add", tap, "mode", "tap"])?;
    within(&["link", "set", tap, "up"]).map(|()| true)
}

/// Removes a tap.
///
/// # Errors
/// What `ip` says.
pub(crate) fn remove_tap(netns: Option<&str>, tap: &str) -> Result<(), String> {
    let home: Vec<&str> = netns.iter().flat_map(|netns| ["-n", netns]).collect();
    ip(&[&home[..], &["link", "del", tap]].concat())
}

/// Moves an interface back.
///
/// # Errors
/// What `ip` says.
pub(crate) fn take_back(name: &str, interface: &str) -> Result<(), String> {
    ip(&["-n", name, "link", "set", interface, "netns", &std::process::id().to_string()])
}

/// Removes a namespace.
///
/// # Errors
/// What `ip` says.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    ip(&["netns", "del", name])
}
