// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons are noticed when they end and when they are there again.

mod common;

use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, sync_channel};

use common::{Frr, PATIENCE, Seen, ZEBRA, namespace, notices};
use junctor_control::Handle;
use junctor_control::daemons::{Sockets, watch};
use junctor_control::model::{Change, Daemon, Source};
use testbed::rig::{skip_without, wait_for};

fn is(daemon: Daemon, is_there: bool) -> impl Fn(&Change) -> bool {
    move |change| *change == Change::Daemon { daemon, is_there }
}

fn watched(directory: &std::path::Path) -> (Handle, Seen) {
    let (reports, seen): (_, Receiver<(Source, Vec<Change>)>) = sync_channel(4);
    let sockets = Sockets { frr: Some(directory.into()), bird: Some(directory.join("bird.ctl")) };
    (watch(sockets, reports, notices().0).unwrap(), Seen::new(seen))
}

/// Waits until the watcher has looked for all daemons. `observer` is one of them.
fn wait_for_a_round(observer: &UnixListener) {
    // Its connection ends, and it comes again in the next round.
    drop(observer.accept().unwrap());
    drop(observer.accept().unwrap());
}

#[test]
fn whoever_listens_is_there() {
    let place = tempfile::tempdir().unwrap();
    let observer = UnixListener::bind(place.path().join("babeld.vty")).unwrap();
    let path = place.path().join("ospfd.vty");
    // It accepts nobody: a daemon may be busy.
    let listener = UnixListener::bind(&path).unwrap();
    let (_feed, mut seen) = watched(place.path());
    wait_for_a_round(&observer);
    drop(listener);
    seen.wait_past("the end of ospfd", is(Daemon::Ospf, false));
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    seen.wait_past("ospfd", is(Daemon::Ospf, true));
    // A connection that ends without its daemon means nothing: the watcher comes again.
    wait_for_a_round(&listener);
    let last = listener.accept().unwrap();
    drop(listener);
    drop(last);
    seen.wait("the end of ospfd", |changes| !changes.is_empty());
    assert!(is(Daemon::Ospf, false)(&seen.changes[0]), "{:?}", seen.changes);
}

#[test]
fn a_killed_bird_is_noticed() {
    if skip_without("a_killed_bird_is_noticed", &["bird", "birdc"]) {
        return;
    }
    let (place, namespace) = (tempfile::tempdir().unwrap(), namespace().unwrap());
    let at = |name: &str| place.path().join(name).display().to_string();
    std::fs::write(at("bird.conf"), "router id 10.0.0.1;\nprotocol device { }\n").unwrap();
    let start = || {
        let bird = namespace.spawn(&["bird", "-f", "-c", &at("bird.conf"), "-s", &at("bird.ctl")]).unwrap();
        let answers = || namespace.run(&["birdc", "-s", &at("bird.ctl"), "show", "status"]).is_ok();
        wait_for("BIRD", PATIENCE, answers).unwrap();
        bird
    };
    let bird = start();
    let observer = UnixListener::bind(place.path().join("babeld.vty")).unwrap();
    let (_feed, mut seen) = watched(place.path());
    wait_for_a_round(&observer);
    drop(bird);
    seen.wait_past("the end of BIRD", is(Daemon::Bird, false));
    // Its socket is left behind, and the next one makes another.
    let _bird = start();
    seen.wait_past("BIRD", is(Daemon::Bird, true));
}

#[test]
fn a_killed_daemon_is_noticed() {
    if skip_without("a_killed_daemon_is_noticed", &[ZEBRA, "vtysh"]) {
        return;
    }
    let namespace = namespace().unwrap();
    let mut frr = Frr::start(&namespace, "", "").unwrap();
    wait_for("staticd's socket", PATIENCE, || frr.directory().join("staticd.vty").exists()).unwrap();
    // It takes connections when it has taken a command.
    frr.configure(&namespace, &["ip route 192.0.2.0/24 10.0.0.2"]).unwrap();
    let observer_path = frr.directory().join("babeld.vty");
    let observer = UnixListener::bind(&observer_path).unwrap();
    let (_feed, mut seen) = watched(frr.directory());
    wait_for_a_round(&observer);
    drop(observer);
    std::fs::remove_file(observer_path).unwrap();
    seen.wait_past("the end of the observer", is(Daemon::Babel, false));
    // Next to it, vtysh works as ever.
    frr.configure(&namespace, &["ip route 192.0.2.0/24 10.0.0.3"]).unwrap();
    for _ in 0..3 {
        frr.kill("staticd");
        seen.wait_past("the end of staticd", is(Daemon::Static, false));
        frr.start_staticd(&namespace).unwrap();
        seen.wait_past("staticd", is(Daemon::Static, true));
        assert_eq!(seen.changes, []);
    }
}
