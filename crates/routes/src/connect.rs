// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a control plane.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use client::{Client, Failure};

/// Connects to the control plane at this socket, which an option names, or to the only one of this user.
///
/// # Errors
/// There is none, or there are several.
pub fn control_plane(socket: Option<&Path>, option: &str) -> Result<Client, Failure> {
    let open = |path: &Path| {
        let failed =
            |why: std::io::Error| Failure::Unreachable(format!("control plane {}: {why}", path.display()));
        Client::new(UnixStream::connect(path).map_err(failed)?).map_err(failed)
    };
    if let Some(path) = socket {
        return open(path);
    }
    let directory = client::control_planes();
    let listed = directory.as_ref().and_then(|directory| std::fs::read_dir(directory).ok());
    let paths = listed.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| UnixStream::connect(path).is_ok()).collect();
    match (paths.pop(), paths.len()) {
        (Some(path), 0) => open(&path),
        (Some(_), others) => Err(Failure::Unclear(format!(
            "{} control planes run; name the socket of one by {option}",
            others + 1
        ))),
        (None, _) => Err(Failure::Unreachable(
            "no control plane of this user runs; start one by 'junctor control'".into(),
        )),
    }
}
