// SPDX-License-Identifier: MIT OR Apache-2.0
//! strongSwan's key daemon, with the router in the place of Linux' IPsec.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that is loaded into the daemon.
const LIBRARY: &str = "libjunctor_xfrm.so";
/// Where the library is, from the directory of this program.
const LIBRARY_PLACES: [&str; 4] = ["", "deps", "../lib/junctor", "../lib"];
/// Where distributions have the daemon.
const PROGRAMS: [&str; 3] =
    ["/usr/sbin/charon-systemd", "/usr/local/sbin/charon-systemd", "/usr/libexec/strongswan/charon-systemd"];
/// Where they have its command line.
const SWANCTLS: [&str; 3] = ["/usr/sbin/swanctl", "/usr/local/sbin/swanctl", "/usr/bin/swanctl"];

/// How the daemon is to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The socket of the control plane.
    pub xfrm: PathBuf,
    /// The directory with strongswan.conf, and with what swanctl loads.
    pub directory: PathBuf,
    /// The library for the daemon, if it is not the one that belongs to this program.
    pub library: Option<PathBuf>,
    /// The daemon's program, if it is not where distributions have it.
    pub program: Option<PathBuf>,
}

/// What is missing here for the daemon, in words, and where to get it; `None` if nothing.
pub(crate) fn lacks() -> Option<String> {
    program().and_then(|_| library()).err()
}

impl Start {
    /// The command that becomes the daemon.
    ///
    /// # Errors
    /// What is missing, and where to get it.
    pub fn command(&self) -> Result<Command, String> {
        let program = self.program.clone().map_or_else(program, Ok)?;
        // Without the library the daemon would change Linux' own databases, and the loader would only warn.
        let library = self.library.clone().map_or_else(library, Ok)?;
        let whole = |path: &Path| path.canonicalize().map_err(|why| format!("{}: {why}", path.display()));
        let (library, directory) = (whole(&library)?, whole(&self.directory)?);
        if library.to_string_lossy().contains([' ', ':']) {
            return Err(format!(
                "{}: the loader takes no library whose path has a space or a colon; copy it elsewhere and name it by --library",
                library.display()
            ));
        }
        let settings = whole(&directory.join("strongswan.conf"))?;
        let socket =
            std::path::absolute(&self.xfrm).map_err(|why| format!("{}: {why}", self.xfrm.display()))?;
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", preloaded(&library)).env("JUNCTOR_XFRM", socket);
        command.env("STRONGSWAN_CONF", settings).env("SWANCTL_DIR", &directory).current_dir(directory);
        Ok(command)
    }
}

/// The library before others that are to be loaded, too.
fn preloaded(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The daemon's command line.
pub(crate) fn swanctl() -> &'static str {
    first(&SWANCTLS).unwrap_or("swanctl")
}

fn first(places: &[&'static str]) -> Option<&'static str> {
    places.iter().copied().find(|path| Path::new(path).exists())
}

fn program() -> Result<PathBuf, String> {
    let found = first(&PROGRAMS).filter(|_| first(&SWANCTLS).is_some());
    found.map(PathBuf::from).ok_or_else(|| {
        "strongSwan is not here: install charon-systemd and swanctl (Debian's packages charon-systemd, strongswan-swanctl, libstrongswan-standard-plugins and \
         libstrongswan-extra-plugins)"
            .to_owned()
    })
}

fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| format!("this program's own file: {why}"))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let places = LIBRARY_PLACES.map(|place| beside.join(place).join(LIBRARY));
    places.into_iter().find(|path| path.exists()).ok_or_else(|| {
        format!(
            "{LIBRARY} is neither in {} nor in ../lib from there: build it (cargo build --release -p junctor-xfrm-preload) and put it beside this program",
            beside.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_never_starts_without_its_library() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let start = |library: &Path| Start {
            xfrm: "xfrm".into(),
            directory: place.path().to_owned(),
            library: Some(library.to_owned()),
            program: Some("/bin/true".into()),
        };
        let why = |library: &Path| start(library).command().unwrap_err();
        assert!(why(&at("none.so")).contains("none.so: No such file"));
        std::fs::write(at("a b.so"), "").unwrap();
        assert!(why(&at("a b.so")).contains("has a space or a colon"));
        std::fs::write(at("library.so"), "").unwrap();
        assert!(why(&at("library.so")).contains("strongswan.conf: No such file"));
        std::fs::write(at("strongswan.conf"), "").unwrap();
        let command = start(&at("library.so")).command().unwrap();
        let variable = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value).map(|value| value.to_string_lossy().into_owned()).unwrap()
        };
        let real = at("library.so").canonicalize().unwrap().display().to_string();
        assert!(variable("LD_PRELOAD").split(':').any(|part| part == real));
        assert!(variable("JUNCTOR_XFRM").starts_with('/') && variable("JUNCTOR_XFRM").ends_with("/xfrm"));
    }
}
