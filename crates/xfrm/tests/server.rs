// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients on the server's socket: many, slow, broken, and those that come while another server is there.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipsec::{Database, Event, Heard, Id, Reached};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use sync::rcu::{Domain, Limits};
use xfrm::layout::{Expire, Spi, message};
use xfrm::netlink::{Builder, Bytes, Messages, control, flag};
use xfrm::{Client, Local, Server, hello};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Bench {
    directory: tempfile::TempDir,
    database: Arc<Database>,
    _server: Server,
}

fn start(path: &Path, database: &Arc<Database>) -> io::Result<Server> {
    let events = database.clone();
    Server::start(path, Local::new(database.clone(), || 0), move || {
        events.events.take(64, Duration::from_millis(50))
    })
}

impl Bench {
    fn new() -> Bench {
        let database = Arc::new(Database::new(&Domain::new(Limits::default()), 1));
        let directory = tempfile::tempdir().unwrap();
        let server = start(&directory.path().join("xfrm"), &database).unwrap();
        Bench { directory, database, _server: server }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("xfrm")
    }

    fn client(&self, groups: u32) -> UnixDatagram {
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let client = UnixDatagram::from(fd);
        client.connect(self.path()).unwrap();
        client.set_read_timeout(LONG).unwrap();
        client.send(&hello(&Client { port: 9, groups, ..Client::default() })).unwrap();
        client
    }
}

/// The next datagram.
fn receive(client: &UnixDatagram) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let len = client.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn ask(kind: u16, flags: u16, body: &[u8]) -> Bytes {
    let mut request = Builder::new(kind, flag::REQUEST | flags, 5, 0);
    request.put(body);
    request.finish()
}

/// A round trip: what was sent before has been dealt with.
fn settle(client: &UnixDatagram) {
    client.send(&ask(message::FLUSHPOLICY, flag::ACK, &[])).unwrap();
    loop {
        if Messages(&receive(client)).any(|message| message.kind == control::ERROR && message.sequence == 5) {
            return;
        }
    }
}

#[test]
fn events_come_in_order_to_those_who_listen() {
    let bench = Bench::new();
    let (listener, other) = (bench.client(2), bench.client(1 | 128));
    settle(&listener);
    settle(&other);
    let id = |spi: u32| Id { dst: [192, 0, 2, 1].into(), spi };
    for spi in 1000..1300 {
        bench.database.events.put(Event::Expire { id: id(spi), reqid: 1, reached: Reached::Soft });
    }
    for spi in 1000..1300 {
        let datagram = receive(&listener);
        let expire = Expire::parse(Messages(&datagram).next().unwrap().body).unwrap();
        assert_eq!(expire.state.id.spi, Spi(spi));
    }
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn who_is_too_slow_hears_that_events_were_lost() {
    let bench = Bench::new();
    let (slow, other) = (bench.client(2), bench.client(0));
    settle(&slow);
    // Until the slow one's queue must be full, however many the kernel holds for it.
    let mut sent = 0;
    while sent < 20_000 {
        let id = Id { dst: [192, 0, 2, 1].into(), spi: sent };
        if bench.database.events.untaken() < 1024 {
            bench.database.events.put(Event::Expire { id, reqid: 1, reached: Reached::Hard });
            sent += 1;
        } else {
            settle(&other);
        }
    }
    settle(&other);
    let mut count = 0;
    loop {
        let datagram = receive(&slow);
        let message = Messages(&datagram).next().unwrap();
        if message.kind == control::OVERRUN {
            break;
        }
        assert_eq!(Expire::parse(message.body).unwrap().state.id.spi, Spi(count), "none is missing before");
        count += 1;
    }
    assert!((1024..19_000).contains(&count), "{count}");
    settle(&slow);
}

/// It does not read the list that it asks for, nor do others wait for it.
#[test]
fn who_does_not_read_makes_nobody_wait() {
    let bench = Bench::new();
    for spi in 256..4000u32 {
        let text = format!(
            "src 192.0.2.1 dst 192.0.2.2 spi {spi} aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128"
        );
        bench.database.add(ipsec::text::parse_association(&text).unwrap(), false, 0).unwrap();
    }
    let (lazy, other) = (bench.client(0), bench.client(0));
    for _ in 0..3 {
        lazy.send(&ask(message::GETSA, flag::DUMP, &[])).unwrap();
    }
    (0..9).for_each(|_| settle(&other));
    let mut ends = 0;
    let mut shown = 0;
    while ends < 3 {
        for message in Messages(&receive(&lazy)) {
            shown += usize::from(message.kind == message::NEWSA);
            ends += usize::from(message.kind == control::DONE);
        }
    }
    assert_eq!(shown, 3 * 3744);
}

/// Events that the databases had to forget before anybody took them.
#[test]
fn listeners_hear_that_events_were_lost_before() {
    let database = Arc::new(Database::new(&Domain::new(Limits::default()), 1));
    let directory = tempfile::tempdir().unwrap();
    let (sender, heard) = std::sync::mpsc::channel::<Heard>();
    let events = move || heard.recv_timeout(Duration::from_millis(50)).unwrap_or_default();
    let path = directory.path().join("xfrm");
    let server = Server::start(&path, Local::new(database.clone(), || 0), events).unwrap();
    let bench = Bench { directory, database, _server: server };
    let (listener, other) = (bench.client(2), bench.client(0));
    settle(&listener);
    settle(&other);
    let event =
        Event::Expire { id: Id { dst: [192, 0, 2, 1].into(), spi: 7 }, reqid: 1, reached: Reached::Soft };
    sender.send(Heard { lost: 3, events: vec![event.clone()], next: 0 }).unwrap();
    assert_eq!(Messages(&receive(&listener)).next().unwrap().kind, control::OVERRUN);
    settle(&listener);
    sender.send(Heard { lost: 0, events: vec![event], next: 0 }).unwrap();
    assert_eq!(Messages(&receive(&listener)).next().unwrap().kind, message::EXPIRE);
    settle(&other);
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A list among them does not keep the others from being answered.
#[test]
fn several_requests_may_be_in_one_datagram() {
    let bench = Bench::new();
    let client = bench.client(0);
    let one = |kind: u16, flags: u16, number: u32| {
        let mut request = Builder::new(kind, flag::REQUEST | flags, number, 0);
        request.put(&[0; 4]);
        request.finish().to_vec()
    };
    let all = [
        one(message::FLUSHPOLICY, flag::ACK, 1),
        one(message::GETSA, flag::DUMP, 2),
        one(message::GETSADINFO, 0, 3),
        one(message::GETPOLICY, flag::DUMP, 4),
        one(message::FLUSHSA, flag::ACK, 5),
    ];
    client.send(&all.concat()).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 5 {
        for message in Messages(&receive(&client)) {
            let number = message.body.first_chunk().map_or(0, |number| i32::from_ne_bytes(*number));
            answers.push((
                message.sequence,
                message.kind,
                if message.kind == control::ERROR { -number } else { 0 },
            ));
        }
    }
    answers.sort_unstable();
    let want = [
        (1, control::ERROR, 0),
        (2, control::DONE, 0),
        (3, message::NEWSADINFO, 0),
        (4, control::ERROR, libc::EBUSY),
        (5, control::ERROR, 0),
    ];
    assert_eq!(answers, want);
}

#[test]
fn a_datagram_that_is_too_long_is_refused() {
    let bench = Bench::new();
    let client = bench.client(0);
    let text =
        "src 192.0.2.1 dst 192.0.2.2 spi 256 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";
    bench.database.add(ipsec::text::parse_association(text).unwrap(), false, 0).unwrap();
    let flush = ask(message::FLUSHSA, flag::ACK, &[0; 4]);
    let [most, longer] = [0, 1].map(|more| flush.repeat((1 << 16) / flush.len() + more));
    client.send(&longer).unwrap();
    let answer = receive(&client);
    let error = Messages(&answer).next().unwrap();
    assert_eq!((error.kind, error.sequence), (control::ERROR, 5));
    assert_eq!(error.body[..4], (-libc::EMSGSIZE).to_ne_bytes());
    assert_eq!((bench.database.associations().len(), Messages(&answer).count()), (1, 1));
    client.send(&most).unwrap();
    settle(&client);
    assert!(bench.database.associations().is_empty());
}

#[test]
fn a_client_gets_back_what_it_wants_to() {
    let bench = Bench::new();
    let client = bench.client(0);
    let wanted = ask(message::GETSA, 0, &[7; 24]);
    let mut echo = Builder::new(control::ECHO, 0, 0, 0);
    echo.put(&wanted);
    client.send(&echo.finish()).unwrap();
    assert_eq!(receive(&client), *wanted);
}

#[test]
fn broken_clients_harm_nobody() {
    let bench = Bench::new();
    let client = bench.client(0);
    client.send(&[0xff; 40]).unwrap();
    client.send(&[1]).unwrap();
    client.send(&ask(0xffff, flag::DUMP, &[])).unwrap();
    let answer = receive(&client);
    assert_eq!(Messages(&answer).next().unwrap().kind, control::ERROR);
    drop(bench.client(0));
    settle(&client);
}

#[test]
fn a_place_has_one_server() {
    let mut bench = Bench::new();
    let why = start(&bench.path(), &bench.database).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::AddrInUse);
    settle(&bench.client(0));
    // A socket that nobody serves makes way; a file does not.
    let left = bench.directory.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    drop(start(&left, &bench.database).unwrap());
    assert!(!left.exists(), "a server takes its socket away");
    let file = bench.directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(start(&file, &bench.database).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    // A server that ends leaves the socket of its successor alone.
    for _ in 0..50 {
        let (path, database) = (bench.path(), bench.database.clone());
        let successor = std::thread::spawn(move || {
            loop {
                match start(&path, &database) {
                    Ok(server) => return server,
                    Err(why) => assert_eq!(why.kind(), io::ErrorKind::AddrInUse),
                }
            }
        });
        let (started, directory) = (bench.directory.path().to_owned(), bench.database.clone());
        let former =
            std::mem::replace(&mut bench._server, start(&started.join("other"), &directory).unwrap());
        drop(former);
        bench._server = successor.join().unwrap();
        settle(&bench.client(0));
    }
}
