// SPDX-License-Identifier: MIT OR Apache-2.0
//! FRR's daemons in a network namespace, with their files in a directory of their own.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::process::Process;
use crate::rig::{Namespace, RigError, wait_for};

/// Where distributions have the daemons, Debian first.
const DIRECTORIES: [&str; 4] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin", "/usr/local/sbin"];
/// How long zebra may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Mounts something in place of `/proc/sys/net` that has what zebra asks for, and starts the daemon.
const MPLS: &str = "d=$(mktemp -d); mount --bind /proc/sys/net $d; mount -t tmpfs none /proc/sys/net
for part in core ipv4 ipv6; do mkdir /proc/sys/net/$part; mount --bind $d/$part /proc/sys/net/$part; done
mkdir -p /proc/sys/net/mpls/conf/lo; echo 1048575 > /proc/sys/net/mpls/platform_labels; exec \"$@\"";

/// FRR in one namespace. Its daemons end with this.
pub struct Frr {
    directory: tempfile::TempDir,
    daemons: BTreeMap<String, Process>,
    pretends_mpls: bool,
}

/// The program of a daemon: where it is, or where Debian would have it.
#[must_use]
pub fn program(daemon: &str) -> String {
    let mut all = DIRECTORIES.iter().map(|directory| format!("{directory}/{daemon}"));
    let there = all.find(|program| Path::new(program).exists());
    there.unwrap_or_else(|| format!("{}/{daemon}", DIRECTORIES[0]))
}

impl Frr {
    /// A place for daemons; none runs yet.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new() -> Result<Frr, RigError> {
        let failed = |why: std::io::Error| RigError::new(format!("a directory for FRR: {why}"));
        let directory = tempfile::tempdir().map_err(failed)?;
        // The daemons give up root.
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).map_err(failed)?;
        Ok(Frr { directory, daemons: BTreeMap::new(), pretends_mpls: false })
    }

    /// Lets zebra believe that the kernel has MPLS, so that it takes labels and sends them by FPM.
    pub fn pretend_mpls(&mut self) {
        self.pretends_mpls = true;
    }

    /// Starts a daemon, zebra first, with this configuration and these further arguments.
    ///
    /// # Errors
    /// It cannot be started, or zebra does not listen.
    pub fn start(
        &mut self,
        namespace: &Namespace,
        daemon: &str,
        configuration: &str,
        arguments: &[&str],
    ) -> Result<(), RigError> {
        let at = |name: &str| self.directory.path().join(name);
        let conf = at(&format!("{daemon}.conf"));
        let failed = |why: std::io::Error| RigError::new(format!("{}: {why}", conf.display()));
        std::fs::write(&conf, configuration).map_err(failed)?;
        let zserv = at("zserv");
        if daemon == "zebra" {
            // A killed zebra leaves its socket behind.
            let _ = std::fs::remove_file(&zserv);
        } else {
            // A daemon that finds nobody there tries again only after 10 s.
            wait_for("zebra's socket", PATIENCE, || UnixStream::connect(&zserv).is_ok())?;
        }
        let (program, pid) = (program(daemon), at(&format!("{daemon}.pid")));
        let text = |path: &Path| path.display().to_string();
        let (conf, pid, zserv, vty) = (text(&conf), text(&pid), text(&zserv), text(self.directory.path()));
        let mut command =
            if self.pretends_mpls { vec!["unshare", "-m", "sh", "-ec", MPLS, "sh"] } else { Vec::new() };
        command.extend([&*program, "-f", &conf, "-i", &pid, "-z", &zserv, "--vty_socket", &vty]);
        command.extend(["-A", "127.0.0.1", "--log", "stdout"]);
        command.extend(arguments);
        let process = namespace.spawn(&command)?;
        self.daemons.insert(daemon.to_owned(), process);
        Ok(())
    }

    /// The directory of the daemons' files.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The number of a daemon's process.
    #[must_use]
    pub fn pid(&self, daemon: &str) -> Option<u32> {
        self.daemons.get(daemon).map(Process::id)
    }

    /// Ends a daemon by SIGKILL.
    pub fn kill(&mut self, daemon: &str) {
        self.daemons.remove(daemon);
    }

    /// The process numbers of the daemons.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.daemons.values().map(Process::id)
    }

    /// A daemon that has ended by itself, with what it wrote.
    pub fn ended(&mut self) -> Option<String> {
        self.daemons.iter_mut().find_map(|(name, daemon)| {
            let status = daemon.ended()?;
            Some(format!("{name} ended with {status}: {}{}", daemon.stdout(), daemon.stderr()))
        })
    }

    /// Says lines to the daemons: vtysh's commands.
    ///
    /// # Errors
    /// vtysh failed.
    pub fn vtysh(&self, namespace: &Namespace, lines: &[&str]) -> Result<String, RigError> {
        let vty = self.directory.path().display().to_string();
        let mut command = vec!["vtysh", "--vty_socket", &vty];
        lines.iter().for_each(|line| command.extend(["-c", line]));
        namespace.run(&command)
    }
}
