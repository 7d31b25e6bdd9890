// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor charon`: starts strongSwan's key daemon with the router in the place of Linux' IPsec.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome;

/// The library that is loaded into the daemon.
const LIBRARY: &str = "libjunctor_xfrm.so";
/// Where the library is, from the directory of this program.
const LIBRARY_PLACES: [&str; 4] = ["", "deps", "../lib/junctor", "../lib"];
/// Where distributions have the daemon.
const PROGRAMS: [&str; 3] =
    ["/usr/sbin/charon-systemd", "/usr/local/sbin/charon-systemd", "/usr/libexec/strongswan/charon-systemd"];
/// Where they have its command line.
const SWANCTLS: [&str; 3] = ["/usr/sbin/swanctl", "/usr/local/sbin/swanctl", "/usr/bin/swanctl"];

/// Start strongSwan's key daemon (charon-systemd) with this router in the place of Linux' IPsec.
///
/// The daemon takes the place of this command. Tunnels that it makes are those of the router whose control plane has the socket ('junctor control --xfrm SOCKET'). A deployment
/// of 'junctor router --ipsec' runs it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor charon --xfrm /run/junctor/xfrm --directory /etc/junctor/strongswan
  ip netns exec ctl junctor charon --xfrm /run/junctor/xfrm --directory r1/strongswan")]
pub(crate) struct Args {
    /// The socket of the control plane.
    #[arg(long, value_name = "SOCKET")]
    xfrm: PathBuf,
    /// The directory with strongswan.conf, and with what swanctl loads: swanctl.conf, certificates and keys.
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    /// The library for the daemon; default: the one next to this program, or below ../lib.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The daemon's program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs the command. Returns only if the daemon cannot be started.
pub(crate) fn main(args: &Args) -> u8 {
    match command(args) {
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            outcome::fail(format!("{}: {}", program.display(), sync::os::reason(&command.exec())))
        }
        Err(why) => outcome::fail(why),
    }
}

/// What is missing here for the daemon, in words, and where to get it; `None` if nothing.
pub(super) fn lacks() -> Option<String> {
    program().and_then(|_| library()).err()
}

fn command(args: &Args) -> Result<Command, String> {
    let program = args.program.clone().map_or_else(program, Ok)?;
    // Without the library the daemon would change Linux' own databases, and the loader would only warn.
    let library = args.library.clone().map_or_else(library, Ok)?;
    let whole = |path: &Path| path.canonicalize().map_err(|why| format!("{}: {why}", path.display()));
    let (library, directory) = (whole(&library)?, whole(&args.directory)?);
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(format!(
            "{}: the loader takes no library whose path has a space or a colon; copy it elsewhere and name it by --library",
            library.display()
        ));
    }
    let settings = whole(&directory.join("strongswan.conf"))?;
    let socket = std::path::absolute(&args.xfrm).map_err(|why| format!("{}: {why}", args.xfrm.display()))?;
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", preloaded(&library)).env("JUNCTOR_XFRM", socket);
    command.env("STRONGSWAN_CONF", settings).env("SWANCTL_DIR", &directory).current_dir(directory);
    Ok(command)
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
pub(super) fn swanctl() -> &'static str {
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
        let args = |library: &Path| Args {
            xfrm: "xfrm".into(),
            directory: place.path().to_owned(),
            library: Some(library.to_owned()),
            program: Some("/bin/true".into()),
        };
        let why = |library: &Path| command(&args(library)).unwrap_err();
        assert!(why(&at("none.so")).contains("none.so: No such file"));
        std::fs::write(at("a b.so"), "").unwrap();
        assert!(why(&at("a b.so")).contains("has a space or a colon"));
        std::fs::write(at("library.so"), "").unwrap();
        assert!(why(&at("library.so")).contains("strongswan.conf: No such file"));
        std::fs::write(at("strongswan.conf"), "").unwrap();
        let command = command(&args(&at("library.so"))).unwrap();
        let variable = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value).map(|value| value.to_string_lossy().into_owned()).unwrap()
        };
        let real = at("library.so").canonicalize().unwrap().display().to_string();
        assert!(variable("LD_PRELOAD").split(':').any(|part| part == real));
        assert!(variable("JUNCTOR_XFRM").starts_with('/') && variable("JUNCTOR_XFRM").ends_with("/xfrm"));
    }
}
