// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests with real daemons share: a namespace with two interfaces, FRR in it, and what a feed has reported.

// Not every test uses everything.
#![allow(dead_code)]

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use junctor_control::model::{Change, Source};
use junctor_control::{Destination, Notices};
use testbed::rig::{Namespace, RigError};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const ZEBRA: &str = "/usr/lib/frr/zebra";

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

/// FRR's zebra and staticd in a namespace.
pub struct Frr {
    daemons: testbed::frr::Frr,
    zebra: String,
    routes: String,
}

impl Frr {
    /// Starts both. `routes` are lines of staticd's configuration.
    pub fn start(namespace: &Namespace, zebra: &str, routes: &str) -> Result<Frr, RigError> {
        let daemons = testbed::frr::Frr::new()?;
        let mut frr = Frr { daemons, zebra: zebra.to_owned(), routes: routes.to_owned() };
        frr.start_daemons(namespace)?;
        Ok(frr)
    }

    /// Starts both, again after [`kill`](Self::kill).
    pub fn start_daemons(&mut self, namespace: &Namespace) -> Result<(), RigError> {
        let fpm = ["-M", "dplane_fpm_nl", "-s", "10000000"];
        self.daemons.start(namespace, "zebra", &self.zebra, &fpm)?;
        self.start_staticd(namespace)
    }

    /// Starts staticd alone, again after [`kill`](Self::kill).
    pub fn start_staticd(&mut self, namespace: &Namespace) -> Result<(), RigError> {
        self.daemons.start(namespace, "staticd", &self.routes, &[])
    }

    /// Where the daemons have their sockets.
    pub fn directory(&self) -> &std::path::Path {
        self.daemons.path()
    }

    /// Ends a daemon by SIGKILL.
    pub fn kill(&mut self, daemon: &str) {
        self.daemons.kill(daemon);
    }

    /// Says a line to the daemons' configuration.
    pub fn configure(&self, namespace: &Namespace, lines: &[&str]) -> Result<(), RigError> {
        self.daemons.vtysh(namespace, &[&["configure terminal"], lines].concat()).map(drop)
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

pub fn prefix(text: &str) -> Destination {
    match text.parse() {
        Ok(four) => Destination::V4(four),
        Err(_) => Destination::V6(text.parse().expect("a prefix")),
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
