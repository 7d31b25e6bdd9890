// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests with real daemons share: a namespace with two interfaces, FRR in it, and what a feed has reported.

// Not every test uses everything.
#![allow(dead_code)]

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use junctor_control::model::{Change, Source};
use junctor_control::{Notices, Prefix};
use lab::process::Process;
use lab::rig::{Namespace, RigError, wait_for};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ZEBRA: &str = "/usr/lib/frr/zebra";
pub const STATICD: &str = "/usr/lib/frr/staticd";

/// A namespace with the interfaces `d0` (10.0.0.1/24, 2001:db8::1/64) and `d1` (10.0.1.1/24), each with a carrier.
pub fn namespace() -> Result<Namespace, RigError> {
    let namespace = Namespace::unnamed()?;
    for of in ["all", "default", "lo"] {
        namespace.sysctl(&format!("net/ipv6/conf/{of}/disable_ipv6"), "0")?;
    }
    for (n, name) in ["d0", "d1"].iter().enumerate() {
        namespace.ip(&format!("link add {name} type veth peer name p{n}"))?;
        namespace.sysctl(&format!("net/ipv6/conf/{name}/accept_dad"), "0")?;
        namespace.ip(&format!("addr add 10.0.{n}.1/24 dev {name}"))?;
        namespace.ip(&format!("link set p{n} up"))?;
        namespace.ip(&format!("link set {name} up"))?;
    }
    namespace.ip("addr add 2001:db8::1/64 dev d0 nodad")?;
    Ok(namespace)
}

/// FRR's zebra and staticd in a namespace, with their files in a directory of their own.
pub struct Frr {
    pub directory: tempfile::TempDir,
    pub zebra: Option<Process>,
    pub staticd: Option<Process>,
}

impl Frr {
    /// Starts both. `routes` are lines of staticd's configuration.
    pub fn start(
        namespace: &Namespace,
        zebra: &str,
        routes: &str,
    ) -> Result<Frr, Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777))?;
        std::fs::write(directory.path().join("zebra.conf"), zebra)?;
        std::fs::write(directory.path().join("staticd.conf"), routes)?;
        let mut frr = Frr { directory, zebra: None, staticd: None };
        frr.start_zebra(namespace)?;
        frr.start_staticd(namespace)?;
        Ok(frr)
    }

    pub fn start_zebra(&mut self, namespace: &Namespace) -> Result<(), RigError> {
        // A killed zebra leaves its socket behind.
        let _ = std::fs::remove_file(self.directory.path().join("zserv"));
        self.zebra = Some(self.daemon(namespace, ZEBRA, &["-M", "dplane_fpm_nl", "-s", "10000000"])?);
        Ok(())
    }

    pub fn start_staticd(&mut self, namespace: &Namespace) -> Result<(), RigError> {
        let socket = self.directory.path().join("zserv");
        wait_for("zebra's socket", PATIENCE, || socket.exists())?;
        self.staticd = Some(self.daemon(namespace, STATICD, &[])?);
        Ok(())
    }

    fn daemon(&self, namespace: &Namespace, program: &str, more: &[&str]) -> Result<Process, RigError> {
        let name = program.rsplit('/').next().unwrap_or(program);
        let at = self.directory.path().display();
        let (conf, pid) = (format!("{at}/{name}.conf"), format!("{at}/{name}.pid"));
        let (zserv, vty) = (format!("{at}/zserv"), at.to_string());
        let mut command = vec![
            program,
            "-f",
            &conf,
            "-i",
            &pid,
            "-z",
            &zserv,
            "--vty_socket",
            &vty,
            "-A",
            "127.0.0.1",
            "--log",
            "stdout",
        ];
        command.extend(more);
        namespace.spawn(&command)
    }

    /// Says a line to the daemons' configuration.
    pub fn configure(&self, namespace: &Namespace, lines: &[&str]) -> Result<(), RigError> {
        let vty = self.directory.path().display().to_string();
        let mut command = vec!["vtysh", "--vty_socket", &vty, "-c", "configure terminal"];
        lines.iter().for_each(|line| command.extend(["-c", line]));
        namespace.run(&command).map(drop)
    }
}

/// What a feed has reported so far.
pub struct Seen {
    reports: Receiver<(Source, Vec<Change>)>,
    pub changes: Vec<Change>,
}

impl Seen {
    pub fn new(reports: Receiver<(Source, Vec<Change>)>) -> Seen {
        Seen { reports, changes: Vec::new() }
    }

    /// Receives until `holds` is true of all that was reported.
    pub fn wait(&mut self, what: &str, mut holds: impl FnMut(&[Change]) -> bool) {
        let begin = Instant::now();
        while !holds(&self.changes) {
            match self.reports.recv_timeout(Duration::from_millis(20)) {
                Ok((_, changes)) => self.changes.extend(changes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the feed ended while {what} was awaited"),
            }
            assert!(begin.elapsed() < PATIENCE, "waited for {what} in vain; reported: {:#?}", self.changes);
        }
    }

    /// Receives until this was reported since the last call of this, and forgets all up to there.
    pub fn wait_past(&mut self, what: &str, mut is_it: impl FnMut(&Change) -> bool) -> Change {
        self.wait(what, |changes| changes.iter().any(&mut is_it));
        let at = self.changes.iter().position(is_it).unwrap_or_default();
        self.changes.drain(..=at).next_back().unwrap_or(Change::Begin)
    }
}

pub fn prefix(text: &str) -> Prefix {
    match text.parse() {
        Ok(four) => Prefix::V4(four),
        Err(_) => Prefix::V6(text.parse().expect("a prefix")),
    }
}

/// Whether a change is a route of this prefix.
pub fn is_route(change: &Change, text: &str) -> bool {
    matches!(change, Change::Route { prefix: given, .. } if *given == prefix(text))
}

/// Whether a change is the withdrawal of this prefix.
pub fn is_withdrawal(change: &Change, text: &str) -> bool {
    matches!(change, Change::Withdraw { prefix: given, .. } if *given == prefix(text))
}

/// Notices, and where they can be read.
pub fn notices() -> (Notices, Arc<Mutex<Vec<String>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let copy = kept.clone();
    (Box::new(move |text| copy.lock().expect("no panic").push(text)), kept)
}
