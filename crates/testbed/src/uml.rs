// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another Linux as a neighbour: a User Mode Linux kernel with interfaces that are taps of a network namespace.
//!
//! The guest sees the machine's files, read-only. It has MPLS, VRF and VLAN, which the machine's own kernel may lack.

mod library;
mod waker;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;
use crate::rig::{Namespace, RigError, wait_for};

/// The kernel's program.
pub const KERNEL: &str = "linux.uml";
/// What loads modules.
pub const INSMOD: &str = "insmod";
/// Where Debian has the modules.
const MODULES: &str = "/usr/lib/uml/modules";

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the guest prints before anything else.
const BEGINS: &str = "the guest begins";
/// What the guest does before its script.
const INIT: &str = "#!/bin/sh
echo the guest begins
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run; mount -t tmpfs tmp /var/tmp
load() { insmod \"/usr/lib/uml/modules/$(uname -r)/kernel/$1.ko\"; }
ip link set lo up
";

/// A guest that runs a script. It ends with this.
pub struct Guest {
    process: Process,
    _directory: tempfile::TempDir,
}

/// Whether modules of a guest's kernel are installed, such as `net/mpls/mpls_router`.
#[must_use]
pub fn has_module(module: &str) -> bool {
    let kernels = std::fs::read_dir(MODULES).into_iter().flatten().flatten();
    kernels.map(|kernel| kernel.path().join(format!("kernel/{module}.ko"))).any(|path: PathBuf| path.exists())
}

impl Guest {
    /// Starts a guest whose interfaces vec0, vec1 ... are these taps of the namespace. In the script, `load MODULE` loads a module, such as
    /// `net/mpls/mpls_router`. The guest ends after its script.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(namespace: &Namespace, taps: &[&str], script: &str) -> Result<Guest, RigError> {
        Guest::with_memory(128, namespace, taps, script)
    }

    /// The same with so many MiB of memory.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn with_memory(
        mib: usize,
        namespace: &Namespace,
        taps: &[&str],
        script: &str,
    ) -> Result<Guest, RigError> {
        let failed = |why: std::io::Error| RigError::new(format!("a directory for a guest: {why}"));
        let directory = tempfile::tempdir().map_err(failed)?;
        let init = directory.path().join("init");
        std::fs::write(&init, format!("{INIT}{script}\necho the guest ends\npoweroff -f\n"))
            .map_err(failed)?;
        std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let mut arguments: Vec<String> = vec![
            KERNEL.into(),
            format!("mem={mib}M"),
            "root=/dev/root".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            "quiet".into(),
            format!("init={}", init.display()),
            format!("uml_dir={}", directory.path().display()),
            "con=null".into(),
            "con0=null,fd:1".into(),
        ];
        for (number, tap) in taps.iter().enumerate() {
            namespace.ip(&format!("tuntap add {tap} mode tap"))?;
            namespace.sysctl(&format!("net/ipv6/conf/{tap}/disable_ipv6"), "1")?;
            namespace.ip(&format!("link set {tap} up"))?;
            arguments.push(format!("vec{number}:transport=tap,ifname={tap},depth=128"));
        }
        let library = library::make(directory.path());
        if let Some(library) =
            library.map_err(|why| RigError::new(format!("a library for the guest: {why}")))?
        {
            arguments.splice(0..0, ["env".to_owned(), format!("LD_PRELOAD={}", library.display())]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let process = namespace.spawn(&arguments)?;
        waker::remind(process.id(), process.has_said(BEGINS));
        Ok(Guest { process, _directory: directory })
    }

    /// What it has printed so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.stdout()
    }

    /// Waits until it has printed a text.
    ///
    /// # Errors
    /// It does not in time, or ends before.
    pub fn wait_for(&mut self, text: &str, patience: Duration) -> Result<(), RigError> {
        let process = &mut self.process;
        wait_for(text, patience, || process.stdout().contains(text) || process.ended().is_some())?;
        match process.stdout().contains(text) {
            true => Ok(()),
            false => {
                Err(RigError::new(format!("the guest has ended without '{text}':\n{}", process.stdout())))
            }
        }
    }

    /// Waits until it has ended, and returns what it has printed.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn finish(mut self, patience: Duration) -> Result<String, RigError> {
        wait_for("the guest's end", patience, || self.process.ended().is_some())?;
        Ok(self.said())
    }
}

impl Drop for Guest {
    /// Asks it to end, since a killed kernel leaves its guest's processes behind.
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = wait_for("the guest's end", PATIENCE, || self.process.ended().is_some());
    }
}
