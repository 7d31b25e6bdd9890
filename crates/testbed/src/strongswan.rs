// SPDX-License-Identifier: MIT OR Apache-2.0
//! strongSwan's key daemon, charon, in a network namespace, with its files in a directory of its own. Its plugins are named one by one, so nothing of the machine's own
//! configuration is read.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::process::Process;
use crate::rig::{Namespace, RigError, wait_for};

/// Where distributions have the daemon, Debian first.
const PROGRAMS: [&str; 3] =
    ["/usr/lib/ipsec/charon", "/usr/libexec/ipsec/charon", "/usr/libexec/strongswan/charon"];
/// What it loads.
const PLUGINS: &str = "random nonce aes sha1 sha2 hmac kdf gcm chapoly curve25519 openssl pem pkcs1 pkcs8 pubkey x509 \
                       constraints kernel-netlink socket-default vici";
/// What it loads in addition to have ESP of its own.
const OWN_ESP: &str = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";
/// Runs a program with a directory in the place of `/run`, where charon always writes its process' number.
const OWN_RUN: &str = "mount --bind \"$1\" /run; shift; exec \"$@\"";
/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// One daemon. It ends with this.
pub struct Strongswan {
    directory: tempfile::TempDir,
    daemon: Option<Process>,
    environment: Vec<(String, String)>,
}

/// Whether daemons can have ESP of their own here.
#[must_use]
pub fn has_own_esp() -> bool {
    Path::new(OWN_ESP).exists() && Path::new("/dev/net/tun").exists()
}

/// The daemon's program, if it is there.
#[must_use]
pub fn program() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| Path::new(program).exists())
}

impl Strongswan {
    /// A place for a daemon, which does not run yet. `environment` are variables for it, as those that preload a library; `settings` are lines for the section `charon` of
    /// strongswan.conf(5).
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(environment: &[(&str, &str)], settings: &str) -> Result<Strongswan, RigError> {
        Strongswan::loading(PLUGINS, environment, settings)
    }

    /// A place for a daemon that protects packets itself, with ESP in UDP, and sends them through a device `ipsec0` of its namespace: see [`has_own_esp`].
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn with_own_esp(settings: &str) -> Result<Strongswan, RigError> {
        let plugins = PLUGINS.replace("kernel-netlink", "kernel-libipsec kernel-netlink");
        Strongswan::loading(&plugins, &[], &format!("install_routes = yes\n {settings}"))
    }

    fn loading(plugins: &str, environment: &[(&str, &str)], settings: &str) -> Result<Strongswan, RigError> {
        let failed = |why: std::io::Error| RigError::new(format!("a directory for strongSwan: {why}"));
        let directory = tempfile::tempdir().map_err(failed)?;
        let place = directory.path().display();
        let text = format!(
            "charon {{\n load = {plugins}\n piddir = {place}\n install_virtual_ip = no\n install_routes = no\n \
             plugins {{\n vici {{\n socket = unix://{place}/vici\n }}\n }}\n \
             filelog {{\n stderr {{\n default = 1\n knl = 2\n }}\n }}\n {settings}\n}}\n\
             swanctl {{\n load = random pem pkcs1 pkcs8 pubkey x509 openssl\n}}\n"
        );
        std::fs::write(directory.path().join("strongswan.conf"), text).map_err(failed)?;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(Strongswan { directory, daemon: None, environment: environment.iter().map(owned).collect() })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the daemon, and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, ended, or took too long.
    pub fn start(&mut self, namespace: &Namespace) -> Result<(), RigError> {
        let program = program().ok_or_else(|| RigError::new("charon is not installed"))?;
        // What a killed one left.
        for left in ["vici", "charon.pid"] {
            let _ = std::fs::remove_file(self.at(left));
        }
        let conf = format!("STRONGSWAN_CONF={}", self.at("strongswan.conf").display());
        let environment: Vec<String> =
            self.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let run = self.directory.path().display().to_string();
        let mut command = vec!["unshare", "-m", "sh", "-ec", OWN_RUN, "sh", &run, "env", &conf];
        command.extend(environment.iter().map(String::as_str));
        command.push(program);
        let mut daemon = namespace.spawn(&command)?;
        let socket = self.at("vici");
        let mut ended = None;
        wait_for("charon's socket", PATIENCE, || {
            ended = daemon.ended();
            ended.is_some() || UnixStream::connect(&socket).is_ok()
        })?;
        if let Some(status) = ended {
            return Err(RigError::new(format!(
                "charon ended with {status}: {}{}",
                daemon.stdout(),
                daemon.stderr()
            )));
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) {
        self.daemon = None;
    }

    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Process::id)
    }

    /// What it has written so far, the last of it.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.as_ref().map(|daemon| daemon.stdout() + &daemon.stderr()).unwrap_or_default()
    }

    /// Loads connections and secrets: swanctl.conf(5).
    ///
    /// # Errors
    /// swanctl failed.
    pub fn load(&self, namespace: &Namespace, configuration: &str) -> Result<String, RigError> {
        let file = self.at("swanctl.conf");
        std::fs::write(&file, configuration)
            .map_err(|why| RigError::new(format!("{}: {why}", file.display())))?;
        let file = file.display().to_string();
        self.swanctl(namespace, &["--load-all", "--noprompt", "--file", &file])
    }

    /// Has a child made so often, at most `at_once` of them at the same time: as `swanctl --initiate` does, without a process for each.
    ///
    /// # Errors
    /// One was not made, or the daemon does not answer.
    pub fn initiate(&self, child: &str, count: usize, at_once: usize) -> std::io::Result<()> {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let caller = || -> std::io::Result<()> {
                let mut stream = UnixStream::connect(self.at("vici"))?;
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    initiate(&mut stream, child)?;
                }
                Ok(())
            };
            let callers: Vec<_> = (0..at_once).map(|_| scope.spawn(caller)).collect();
            let failed = || std::io::Error::other("a caller panicked");
            callers.into_iter().try_for_each(|caller| caller.join().map_err(|_| failed())?)
        })
    }

    /// Runs swanctl(8), and returns what it writes.
    ///
    /// # Errors
    /// It failed.
    pub fn swanctl(&self, namespace: &Namespace, arguments: &[&str]) -> Result<String, RigError> {
        let conf = format!("STRONGSWAN_CONF={}", self.at("strongswan.conf").display());
        let uri = format!("unix://{}", self.at("vici").display());
        let directory = format!("SWANCTL_DIR={}", self.directory.path().display());
        let mut command = vec!["env", &conf, &directory, "swanctl"];
        command.extend(arguments);
        command.extend(["--uri", &uri]);
        namespace.run(&command)
    }
}

/// Has a child made by the protocol of strongSwan's plugin vici, and waits for it.
fn initiate(stream: &mut UnixStream, child: &str) -> std::io::Result<()> {
    const REQUEST: u8 = 0;
    const KEY_AND_VALUE: u8 = 3;
    const COMMAND: &str = "initiate";
    let mut packet = vec![REQUEST, COMMAND.len() as u8];
    packet.extend(COMMAND.bytes());
    for (key, value) in [("child", child), ("timeout", "0"), ("loglevel", "-1")] {
        packet.extend([KEY_AND_VALUE, key.len() as u8]);
        packet.extend(key.bytes());
        packet.extend((value.len() as u16).to_be_bytes());
        packet.extend(value.bytes());
    }
    stream.write_all(&(packet.len() as u32).to_be_bytes())?;
    stream.write_all(&packet)?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    if text.contains("success\0\x03yes") { Ok(()) } else { Err(std::io::Error::other(text)) }
}
