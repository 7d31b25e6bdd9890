// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adversarial clients: what they send and do not take costs bounded memory, and others are still served.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::*;
use crate::access::Access;
use crate::audit::Audit;
use crate::fake::Fake;
use crate::limits::CONNECTIONS_EACH;
use crate::route::Role;
use crate::shared::{Parts, Shared};

/// A service at a Unix socket, on a thread of its own.
struct Rig {
    directory: tempfile::TempDir,
    end: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let (end, ending) = watch::channel(false);
        let (listening, listens) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let parts = Parts {
                routers: Arc::new(Fake::default()),
                access: Access::new("", rustix::process::geteuid().as_raw(), Role::Viewer, None).unwrap(),
                audit: Audit::new(std::io::sink()),
                hosts: Vec::new(),
                has_open_metrics: false,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let service = Service::new(App::new(Shared::new(parts)), None, ending.clone());
                let socket = Socket::new(Place::Unix(path, None)).unwrap();
                tokio::spawn(service.clone().listen(socket));
                listening.send(()).unwrap();
                let mut ending = ending;
                over(&mut ending).await;
                service.ended().await;
            });
        });
        listens.recv().unwrap();
        Rig { directory, end, thread: Some(thread) }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.path().join("s")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// The first line of what is answered to these bytes; empty if the connection ends without.
    fn first_line(&self, bytes: &[u8]) -> String {
        answer(&mut self.connect(), bytes)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.end.send_replace(true);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn answer(stream: &mut UnixStream, bytes: &[u8]) -> String {
    // It may have been closed meanwhile.
    let _ = stream.write_all(bytes);
    let mut found = vec![0; 4096];
    let n = stream.read(&mut found).unwrap_or(0);
    String::from_utf8_lossy(&found[..n]).lines().next().unwrap_or_default().to_owned()
}

const GOOD: &[u8] = b"GET /api/v1/routers HTTP/1.1\r\nHost: x\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn headers_are_bounded() {
    let rig = Rig::new();
    assert_eq!(rig.first_line(GOOD), OK);
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    assert!(rig.first_line(long.as_bytes()).starts_with("HTTP/1.1 4"), "a long path");
    let header = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(100_000));
    assert!(rig.first_line(header.as_bytes()).starts_with("HTTP/1.1 431"), "a long header");
    let many: String = (0..200).map(|n| format!("X{n}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    assert!(rig.first_line(many.as_bytes()).starts_with("HTTP/1.1 431"), "many headers");
    assert!(
        rig.first_line(b"\x16\x03\x01\x02\x00\x01").starts_with("HTTP/1.1 400"),
        "TLS where there is none"
    );
    assert!(
        rig.first_line(
            b"GET /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        .starts_with("HTTP/1.1 4")
    );
    // Several requests on one connection.
    let mut stream = rig.connect();
    assert_eq!(answer(&mut stream, GOOD), OK);
    assert_eq!(answer(&mut stream, GOOD), OK);
    assert_eq!(rig.first_line(GOOD), OK);
}

#[test]
fn one_client_has_so_many_connections_at_most() {
    let rig = Rig::new();
    let mut held: Vec<UnixStream> = (0..CONNECTIONS_EACH)
        .map(|_| {
            let mut stream = rig.connect();
            assert_eq!(answer(&mut stream, GOOD), OK);
            stream
        })
        .collect();
    assert_eq!(rig.first_line(GOOD), "", "one more is closed at once");
    // Those that are there are served, and one that ends makes room.
    assert_eq!(answer(&mut held[0], GOOD), OK);
    drop(held);
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    while rig.first_line(GOOD) != OK {
        assert!(std::time::Instant::now() < give_up);
    }
}

const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable";

/// An answer of 2 MiB is held while nobody takes it: eight of them, and one client has no more.
#[test]
fn answers_that_nobody_takes_are_so_many_bytes_at_most() {
    let rig = Rig::new();
    let ask = b"GET /api/v1/routers/r1/handlers/c.table HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS_EACH {
        let mut stream = rig.connect();
        held.push((answer(&mut stream, ask), stream));
    }
    let of = |status: &str| held.iter().filter(|(first, _)| first == status).count();
    let (whole, refused) = (of(OK), of(UNAVAILABLE));
    assert!((4..=9).contains(&whole) && whole + refused == CONNECTIONS_EACH, "{whole} and {refused}");
    // One that took its answer is served, as far as there is room.
    assert_eq!(answer(&mut held[CONNECTIONS_EACH - 1].1, GOOD), OK);
    drop(held);
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    while rig.first_line(ask) != OK {
        assert!(std::time::Instant::now() < give_up);
    }
}

/// Bodies of which a part has come are held, too.
#[test]
fn bodies_that_never_end_are_so_many_bytes_at_most() {
    let rig = Rig::new();
    let head = "PUT /api/v1/routers/r1/handlers/c.reset HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n";
    let part = vec![b' '; 3_900_000];
    let mut held: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut stream = rig.connect();
            // One that has no room is answered before it has sent all.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&part));
            stream
        })
        .collect();
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    let first = loop {
        let found = held.iter_mut().find_map(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            Some(answer(stream, b"")).filter(|first| !first.is_empty())
        });
        assert!(std::time::Instant::now() < give_up, "nothing is answered");
        if let Some(first) = found {
            break first;
        }
    };
    assert_eq!(first, UNAVAILABLE);
    drop(held);
    while rig.first_line(GOOD) != OK {
        assert!(std::time::Instant::now() < give_up);
    }
}

#[test]
fn a_stream_that_nobody_takes_does_not_hold_others_up() {
    let rig = Rig::new();
    let mut slow = rig.connect();
    assert_eq!(answer(&mut slow, b"GET /api/v1/routers/r1/live HTTP/1.1\r\nHost: x\r\n\r\n"), OK);
    assert_eq!(rig.first_line(GOOD), OK);
    // The end of the service ends the stream, too.
}

#[test]
fn clients_are_counted_by_address_or_network() {
    for (from, client) in [
        ("192.0.2.1:5", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:5", "192.0.2.1"),
        ("[2001:db8::1:2:3:4]:5", "2001:db8::/64"),
        ("[::1]:5", "::1"),
    ] {
        assert_eq!(client_of(from.parse().unwrap()), client);
    }
}
