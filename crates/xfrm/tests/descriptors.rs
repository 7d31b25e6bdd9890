// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server whose process has no descriptors left: in a program of its own, for the limit is the process'.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipsec::Database;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sync::rcu::{Domain, Limits};
use xfrm::layout::message;
use xfrm::netlink::{Builder, flag};
use xfrm::{Local, Server};

/// What says what the server's thread does, as soon as it has its name.
fn stat() -> File {
    let is_it =
        |at: &PathBuf| std::fs::read_to_string(at.join("comm")).is_ok_and(|name| name.trim() == "xfrm");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
        if let Some(found) = threads.into_iter().find(is_it) {
            return File::open(found.join("stat")).unwrap();
        }
        assert!(Instant::now() < end, "the server has no thread");
    }
}

/// Whether the thread sleeps.
fn sleeps(stat: &mut File) -> bool {
    let mut text = String::new();
    stat.rewind().unwrap();
    stat.read_to_string(&mut text).unwrap();
    text.rsplit(") ").next().unwrap().starts_with('S')
}

#[test]
fn a_server_without_descriptors_sleeps_and_goes_on() {
    let database = Arc::new(Database::new(&Domain::new(Limits::default()), 1));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("xfrm");
    let events = || {
        std::thread::sleep(Duration::from_millis(50));
        Default::default()
    };
    let _server = Server::start(&path, Local::new(database, || 0), events).unwrap();
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let new = || socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).map(UnixDatagram::from);
    let (client, mut stat) = (new().unwrap(), stat());
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: most.maximum }).unwrap();
    let all: Vec<UnixDatagram> = std::iter::from_fn(|| new().ok()).collect();
    client.connect(&path).unwrap();
    let mut request = Builder::new(message::FLUSHPOLICY, flag::REQUEST | flag::ACK, 1, 0);
    request.put(&[]);
    client.send(&request.finish()).unwrap();
    let (end, mut slept) = (Instant::now() + Duration::from_secs(60), 0);
    while slept < 20 {
        assert!(Instant::now() < end, "the server spins");
        slept += u32::from(sleeps(&mut stat));
        std::thread::yield_now();
    }
    drop(all);
    setrlimit(Resource::Nofile, most).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(client.recv(&mut [0; 64]).unwrap() > 0);
}
