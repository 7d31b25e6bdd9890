// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Socket
//!
//! `Socket(TCP, IP, PORT [, keywords CLIENT, SNAPLEN, HEADROOM, TIMESTAMP, NODELAY, SNDBUF, RCVBUF, ALLOW, DENY, VERBOSE])`
//! `Socket(UDP, IP, PORT [, LOCALIP, LOCALPORT, keywords])`
//! `Socket(UNIX, FILENAME [, keywords])`
//! `Socket(UNIX_DGRAM, FILENAME [, LOCALFILENAME, keywords])`
//!
//! Carries packets over a socket: what comes in is sent to the peer, what the peer sends goes out.
//!
//! **Ports:** up to 1 input, agnostic; up to 1 push output. Packets do not flow from one to the other.
//!
//! **Arguments**
//! * `IP`, `PORT` or `FILENAME`: a server binds it, a client connects or sends to it. A UDP client with IP 0.0.0.0 sends
//!   to each packet's destination annotation.
//! * `LOCALIP`, `LOCALPORT`, `LOCALFILENAME` what a client binds before, for datagrams; they make it a client.
//! * `CLIENT` boolean, default false; true for an element without output.
//! * `SNAPLEN` bytes of each packet to receive at most, default 2048. Of a stream, what one reading yields is a packet.
//! * `HEADROOM` bytes of free room before each packet, default the packets' usual 128.
//! * `TIMESTAMP` boolean, default true: packets carry the time they were received.
//! * `NODELAY` boolean, default true: TCP sends short packets at once.
//! * `SNDBUF`, `RCVBUF` bytes that the kernel keeps to be sent, or to be received; default the system's. Beyond its limits
//!   (`net.core.wmem_max`, `rmem_max`) only with CAP_NET_ADMIN.
//! * `ALLOW`, `DENY` routing elements, such as a RadixIPLookup, that say whom a TCP or UDP server listens to. A peer whose
//!   address has a route in ALLOW is admitted; else one with a route in DENY is not; all others are. So ALLOW alone
//!   refuses nobody; `DENY` with a route for 0.0.0.0/0 admits those in ALLOW only. A route that drops is none.
//! * `VERBOSE` boolean, default false: report connections, and refused peers.
//!
//! A stream server has one connection at a time; others wait for its end. A datagram server sends to the client that sent last. A socket that is full
//! keeps up to 1024 pushed packets; with a pull input it fetches only what it can send.
//!
//! **Cores:** one worker owns the socket; others that send wait for their turn.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** `socket-error` when there is no peer or the socket refuses; `device-full` when too many wait;
//! `filtered` for datagrams of peers not admitted; `discarded`, what is received, if there is no output; `no-memory`.
//!
//! **Handlers**
//! * `count` read: packets received. `sent` read: packets sent. `port` read: the local port.
//! * `connected` read: whether there is a peer.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Socket(UDP, 127.0.0.1, 9, CLIENT true);
//! ```
//!
//! See also: ControlSocket, KernelTun, FromDevice, RadixIPLookup

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use element::args::{Args, Port};
use element::{
    Class, Cx, Element, HotSwap, InitCx, OpenCx, PacketHolder, ProcessEvents, Reason, Tasks, handlers, swap,
};
use packet::{Batch, Packet};
use sync::os::reason;
use sync::rcu;

use super::exchange::{Endpoint, Exchange, Read};
use crate::routing::ReverseRoutes;
use crate::routing::lookup_ip_route::V4;

/// The descriptor.
pub const CLASS: Class = Class::new("Socket", "0-1/0-1", || Box::new(Socket::default()))
    .processing("a/h")
    .flow("x/y")
    .serial("one connection, read and written in one order")
    .handlers(handlers! { Socket:
        read "count" => |socket| socket.exchange.received();
        read "sent" => |socket| socket.exchange.sent();
        read "port" => |socket| socket.port();
        read "connected" => |socket| socket.is_connected();
    })
    .hot_swap::<Socket>()
    .process_events::<Socket>()
    .packet_holder::<Socket>()
    .file(file!());

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    Tcp(SocketAddr),
    Udp(SocketAddr, Option<SocketAddr>),
    Unix(PathBuf),
    UnixDatagram(PathBuf, Option<PathBuf>),
}

trait Stream: io::Read + Write + AsFd + AsRawFd + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

#[derive(Default)]
enum Link {
    #[default]
    Closed,
    /// Servers of streams, without a peer or with one.
    Tcp(TcpListener),
    Unix(UnixListener),
    Udp(UdpSocket, Option<SocketAddr>),
    UnixDatagram(UnixDatagram, Option<PathBuf>),
    /// A client of a stream has nothing but its peer.
    Client,
}

/// Tables that say which peers are admitted.
#[derive(Default)]
struct Guests {
    allow: Option<Arc<ReverseRoutes<V4>>>,
    deny: Option<Arc<ReverseRoutes<V4>>>,
}

impl Guests {
    /// ALLOW is asked first, and who is in neither table is admitted.
    fn admit(&self, rcu: &rcu::Reader, peer: IpAddr) -> bool {
        let IpAddr::V4(peer) = peer else { return true };
        let has = |table: &Option<Arc<ReverseRoutes<V4>>>| {
            table.as_ref().is_some_and(|table| table.leads_anywhere(rcu, peer.to_bits()))
        };
        has(&self.allow) || !has(&self.deny)
    }
}

#[derive(Default)]
struct Socket {
    place: Place,
    client: bool,
    nodelay: bool,
    verbose: bool,
    /// ALLOW and DENY as configured.
    tables: [Option<String>; 2],
    guests: Guests,
    link: Link,
    peer: Option<Box<dyn Stream>>,
    exchange: Exchange,
}

impl Socket {
    fn connect(&mut self) -> io::Result<()> {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        match &self.place {
            Place::None => {}
            Place::Tcp(address) if self.client => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(self.nodelay)?;
                self.link = Link::Client;
                self.peer = Some(Box::new(stream));
            }
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                self.link = Link::Tcp(listener);
            }
            Place::Udp(address, local) => {
                let bound = if self.client { local.unwrap_or(unspecified) } else { *address };
                let socket = UdpSocket::bind(bound)?;
                socket.set_nonblocking(true)?;
                self.link = Link::Udp(socket, self.client.then_some(*address));
            }
            Place::Unix(path) if self.client => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                self.link = Link::Client;
                self.peer = Some(Box::new(stream));
            }
            Place::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                self.link = Link::Unix(listener);
            }
            Place::UnixDatagram(path, local) => {
                let socket = match (self.client, local) {
                    (false, _) => UnixDatagram::bind(path)?,
                    (true, Some(local)) => UnixDatagram::bind(local)?,
                    (true, None) => UnixDatagram::unbound()?,
                };
                socket.set_nonblocking(true)?;
                self.link = Link::UnixDatagram(socket, self.client.then(|| path.clone()));
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::Closed => None,
            Link::Client => self.peer.as_ref().map(|p| p.as_fd()),
            Link::Tcp(l) => Some(l.as_fd()),
            Link::Unix(l) => Some(l.as_fd()),
            Link::Udp(s, _) => Some(s.as_fd()),
            Link::UnixDatagram(s, _) => Some(s.as_fd()),
        }
    }

    /// Sets the kernel's buffers; connections that a listener accepts inherit them.
    fn size_buffers(&self) -> io::Result<()> {
        let Some(fd) = self.fd() else { return Ok(()) };
        self.exchange.size_sending(fd)?;
        self.exchange.size_receiving(fd)
    }

    /// Takes the next peer of a server that has none; those not admitted are sent away.
    fn accept(&mut self, cx: &mut Cx<'_>) {
        while self.peer.is_none() {
            let accepted: io::Result<(Box<dyn Stream>, Option<SocketAddr>)> = match &self.link {
                Link::Tcp(listener) => listener.accept().and_then(|(stream, from)| {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(self.nodelay)?;
                    Ok((Box::new(stream) as Box<dyn Stream>, Some(from)))
                }),
                Link::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_nonblocking(true)?;
                    Ok((Box::new(stream) as Box<dyn Stream>, None))
                }),
                _ => return,
            };
            let (peer, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => return cx.print(&format!("{}: accept: {}", cx.name(), reason(&e))),
            };
            let admitted = from.is_none_or(|from| self.guests.admit(cx.rcu(), from.ip()));
            if self.verbose {
                let what = if admitted { "opened" } else { "denied" };
                let from = from.map_or(String::new(), |from| format!(" from {from}"));
                cx.print(&format!("{}: {what} connection {}{from}", cx.name(), peer.as_raw_fd()));
            }
            if admitted {
                cx.watch(peer.as_raw_fd(), true, true);
                self.peer = Some(peer);
            }
        }
    }

    fn hang_up(&mut self, cx: &mut Cx<'_>) {
        let Some(peer) = self.peer.take() else { return };
        cx.unwatch(peer.as_raw_fd());
        if self.verbose {
            cx.print(&format!("{}: closed connection {}", cx.name(), peer.as_raw_fd()));
        }
        cx.drop_batch(Reason::SocketError, self.exchange.drain());
        drop(peer);
        self.accept(cx);
    }

    /// Reads into the buffer: how many bytes, and who sent them if nobody admitted him; nothing at a stream's end.
    fn read_bytes(&mut self, rcu: &rcu::Reader) -> io::Result<(usize, Option<SocketAddr>)> {
        let buffer = &mut self.exchange.buffer[..];
        match (&mut self.link, &mut self.peer) {
            (Link::Udp(socket, to), _) => {
                let (n, from) = socket.recv_from(buffer)?;
                if !self.client {
                    if !self.guests.admit(rcu, from.ip()) {
                        return Ok((n, Some(from)));
                    }
                    *to = Some(from);
                }
                Ok((n, None))
            }
            (Link::UnixDatagram(socket, to), _) => {
                let (n, from) = socket.recv_from(buffer)?;
                if let (false, Some(path)) = (self.client, from.as_pathname()) {
                    *to = Some(path.to_owned());
                }
                Ok((n, None))
            }
            (_, Some(peer)) => match peer.read(buffer)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                n => Ok((n, None)),
            },
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Endpoint for Socket {
    fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    fn read_one(&mut self, cx: &mut Cx<'_>) -> Read {
        match self.read_bytes(cx.rcu()) {
            Ok((n, None)) => Read::Bytes(n),
            Ok((_, Some(denied))) => {
                if self.verbose {
                    cx.print(&format!("{}: dropped a datagram from {denied}", cx.name()));
                }
                Read::Refused(Reason::Filtered)
            }
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock => Read::Empty,
                // Refused: the answer to an earlier datagram that nobody took.
                ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Read::Again,
                _ => {
                    self.hang_up(cx);
                    if self.peer.is_some() { Read::Again } else { Read::Empty }
                }
            },
        }
    }

    fn send_one(&mut self, packet: &Packet) -> io::Result<usize> {
        let (bytes, gone) = (packet.data(), self.exchange.gone);
        match (&self.link, &mut self.peer) {
            (Link::Udp(socket, Some(to)), _) => {
                let mut to = *to;
                if self.client && to.ip().is_unspecified() {
                    to.set_ip(Ipv4Addr::from(packet.dst_ip()).into());
                }
                socket.send_to(bytes, to)
            }
            (Link::UnixDatagram(socket, Some(to)), _) => socket.send_to(bytes, to),
            (_, Some(peer)) => peer.write(&bytes[gone..]).map(|n| gone + n),
            _ => Err(ErrorKind::NotConnected.into()),
        }
    }

    fn failed(&mut self, cx: &mut Cx<'_>, why: &io::Error) {
        if matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) {
            self.hang_up(cx);
        }
    }
}

impl Socket {
    fn port(&self) -> String {
        let port = |a: io::Result<SocketAddr>| a.map_or(String::new(), |a| a.port().to_string());
        match &self.link {
            Link::Tcp(listener) => port(listener.local_addr()),
            Link::Udp(socket, _) => port(socket.local_addr()),
            _ => String::new(),
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.link, Link::Udp(_, Some(_)) | Link::UnixDatagram(_, Some(_))) || self.peer.is_some()
    }
}

impl Element for Socket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let kind: String = args.required("TYPE");
        let mut local = false;
        match kind.to_ascii_uppercase().as_str() {
            kind @ ("TCP" | "UDP") => {
                let ip = args.positional("IP", Ipv4Addr::UNSPECIFIED);
                let Port(port) = args.required("PORT");
                let address = SocketAddr::from((ip, port));
                let local_ip: Option<Ipv4Addr> = args.positional_opt("LOCALIP");
                let local_port: Option<Port> = args.positional_opt("LOCALPORT");
                local = local_ip.is_some() || local_port.is_some();
                if kind == "TCP" {
                    if local {
                        args.error("a TCP socket cannot bind LOCALIP and LOCALPORT");
                    }
                    self.place = Place::Tcp(address);
                } else {
                    let from = (local_ip.unwrap_or(Ipv4Addr::UNSPECIFIED), local_port.unwrap_or_default().0);
                    self.place = Place::Udp(address, local.then(|| SocketAddr::from(from)));
                }
            }
            "UNIX" => self.place = Place::Unix(args.required::<String>("FILENAME").into()),
            "UNIX_DGRAM" => {
                let path: String = args.required("FILENAME");
                let from: Option<String> = args.positional_opt("LOCALFILENAME");
                local = from.is_some();
                self.place = Place::UnixDatagram(path.into(), from.map(PathBuf::from));
            }
            "" => {}
            other => args.error(format!("unknown socket type '{other}'; use TCP, UDP, UNIX or UNIX_DGRAM")),
        }
        self.client = args.keyword("CLIENT", local || args.noutputs == 0);
        self.nodelay = args.keyword("NODELAY", true);
        self.verbose = args.keyword("VERBOSE", false);
        self.exchange.configure(args);
        self.tables = ["ALLOW", "DENY"].map(|name| args.keyword_opt(name));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.exchange.open();
        // The socket of one that this one replaces goes on, see `take_state`.
        if cx.inherits() || cx.is_dry() {
            return Ok(Tasks::One);
        }
        self.connect().and_then(|()| self.size_buffers()).map_err(|e| {
            let what = match &self.place {
                Place::Tcp(address) | Place::Udp(address, _) => address.to_string(),
                Place::Unix(path) | Place::UnixDatagram(path, _) => path.display().to_string(),
                Place::None => String::new(),
            };
            format!("{what}: {}", reason(&e))
        })?;
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let [allow, deny] = std::mem::take(&mut self.tables);
        self.guests = Guests { allow: table(cx, ("ALLOW", allow))?, deny: table(cx, ("DENY", deny))? };
        if let Some(fd) = self.fd() {
            cx.watch(fd.as_raw_fd(), true, true);
        }
        if self.exchange.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.take(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.turn(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.end(cx);
        let serves = !self.client && !matches!(self.link, Link::Closed);
        if let (true, Place::Unix(path) | Place::UnixDatagram(path, _)) = (serves, &self.place) {
            let _ = std::fs::remove_file(path);
        }
        (self.link, self.peer) = (Link::Closed, None);
    }
}

impl PacketHolder for Socket {
    fn held(&self) -> usize {
        self.exchange.waiting.len()
    }
}

impl ProcessEvents for Socket {
    fn run_fd(&mut self, cx: &mut Cx<'_>, _: RawFd) {
        self.accept(cx);
        self.flush(cx);
        self.receive(cx);
    }
}

impl HotSwap for Socket {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Socket>(old) else { return false };
        self.exchange.take_counts(&mut old.exchange);
        if !matches!(self.link, Link::Closed) || self.peer.is_some() {
            return true;
        }
        self.link = std::mem::take(&mut old.link);
        self.peer = old.peer.take();
        self.exchange.take_over(cx, &mut old.exchange);
        if let Some(fd) = self.fd() {
            cx.watch(fd.as_raw_fd(), true, true);
        }
        if let Some(peer) = &self.peer {
            cx.watch(peer.as_raw_fd(), true, true);
        }
        true
    }
}

/// The routes of the element that a keyword names.
fn table(
    cx: &mut InitCx<'_>,
    (keyword, name): (&str, Option<String>),
) -> Result<Option<Arc<ReverseRoutes<V4>>>, String> {
    let Some(name) = name else { return Ok(None) };
    let wrong =
        || format!("{keyword} '{name}' is not an element that routes IPv4 packets, such as RadixIPLookup");
    cx.find(&name).ok_or_else(wrong).map(Some)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use rustix::net::sockopt;

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    /// How long the tests wait for what must come.
    const SURELY: Duration = Duration::from_secs(60);

    #[test]
    fn udp_serves_whoever_sent_last() {
        let text = "e :: Socket(UDP, 127.0.0.1, 0) -> c :: Counter(COUNT_CALL 3 stop) -> e;";
        let mut run = Rig::text(text).ready();
        let port: u16 = run.read("e.port").parse().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(SURELY)).unwrap();
        for text in [&b"one"[..], b"two", b"three"] {
            client.send_to(text, ("127.0.0.1", port)).unwrap();
        }
        let mut run = run.again();
        let mut buffer = [0; 16];
        for text in [&b"one"[..], b"two", b"three"] {
            let n = client.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], text);
        }
        assert_eq!((run.read("e.count"), run.read("e.sent")), ("3".into(), "3".into()));
    }

    #[test]
    fn buffers_have_the_sizes_asked_for() {
        let mut e = Socket {
            place: Place::Udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None),
            ..Socket::default()
        };
        (e.exchange.sndbuf, e.exchange.rcvbuf) = (Some(10_000), Some(20_000));
        e.connect().and_then(|()| e.size_buffers()).unwrap();
        let fd = e.fd().unwrap();
        // The kernel doubles them, for its own bookkeeping.
        assert_eq!(sockopt::socket_send_buffer_size(fd).unwrap(), 20_000);
        assert_eq!(sockopt::socket_recv_buffer_size(fd).unwrap(), 40_000);
    }

    #[test]
    fn udp_clients_send() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(SURELY)).unwrap();
        let port = server.local_addr().unwrap().port();
        let text = format!("InfiniteSource(abc, 1, STOP true) -> Socket(UDP, 127.0.0.1, {port});");
        drop(Rig::text(&text).run());
        let mut buffer = [0; 16];
        assert_eq!(server.recv(&mut buffer).unwrap(), 3);
    }

    #[test]
    fn a_full_socket_keeps_1024_packets_and_drops_the_rest() {
        let temp = Temp::new();
        let path = temp.path("s");
        // The kernel makes the connection; nobody reads from it.
        let _listener = UnixListener::bind(&path).unwrap();
        let source = format!("InfiniteSource(DATA {}, LIMIT 2000, STOP true)", "x".repeat(1000));
        let text = format!("{source} -> e :: Socket(UNIX, {path}, CLIENT true, SNDBUF 5000);");
        let mut run = Rig::text(&text).run();
        let sent: u64 = run.read("e.sent").parse().unwrap();
        assert!((1..900).contains(&sent), "{sent}");
        assert_eq!(run.drops("e"), [(Reason::DeviceFull, 2000 - sent - 1024)]);
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let temp = Temp::new();
        let path = temp.path("s");
        for socket in [format!("UNIX_DGRAM, {path}, CLIENT true"), "UDP, 127.0.0.1, 0, CLIENT false".into()] {
            let text = format!("InfiniteSource(a, LIMIT 2, STOP true) -> e :: Socket({socket});");
            let mut run = Rig::text(&text).run();
            assert_eq!(run.drops("e"), [(Reason::SocketError, 2)], "{socket}");
            assert_eq!(run.read("e.sent"), "0");
        }
    }

    #[test]
    fn streams_echo_and_take_the_next_peer() {
        let temp = Temp::new();
        let path = temp.path("s");
        let text = format!("e :: Socket(UNIX, {path}) -> c :: Counter(COUNT_CALL 2 stop) -> e;");
        let run = Rig::text(&text).ready();
        let peer = std::thread::spawn(move || {
            for text in [&b"first"[..], b"second"] {
                let mut stream = UnixStream::connect(&path).unwrap();
                stream.set_read_timeout(Some(SURELY)).unwrap();
                stream.write_all(text).unwrap();
                let mut buffer = vec![0; text.len()];
                stream.read_exact(&mut buffer).unwrap();
                assert_eq!(buffer, text);
            }
        });
        drop(run.again());
        peer.join().unwrap();
    }

    /// Two tables, of which ALLOW has 127.0.0.1 and DENY the addresses `denied`.
    fn with_tables(denied: &str, rest: &str) -> String {
        format!(
            "Idle -> allow :: RadixIPLookup(127.0.0.1/32 0) -> Discard; \
             Idle -> deny :: RadixIPLookup({denied} 0, 127.0.0.9/32 -1) -> Discard; {rest}"
        )
    }

    #[test]
    fn datagrams_are_admitted_by_tables() {
        // What is received of one datagram from each of three addresses.
        let check = |denied: &str, tables: &str, want: &[&[u8]]| {
            let server = format!("e :: Socket(UDP, 127.0.0.1, 0{tables}) -> c :: Counter -> o :: TestOut;");
            let server = server.replace("Counter", &format!("Counter(COUNT_CALL {} stop)", want.len()));
            let mut run = Rig::text(&with_tables(denied, &server)).ready();
            let port: u16 = run.read("e.port").parse().unwrap();
            for (from, text) in [("127.0.0.1", "one"), ("127.0.0.2", "two"), ("127.0.0.9", "nine")] {
                let client = UdpSocket::bind((from, 0)).unwrap();
                client.send_to(text.as_bytes(), ("127.0.0.1", port)).unwrap();
            }
            let run = run.again();
            assert_eq!(run.bytes("o"), want, "{denied} {tables}");
            let denied = 3 - want.len() as u64;
            let drops = run.drops("e");
            assert_eq!(drops.first().map_or(0, |d| d.1), denied, "{drops:?}");
            assert!(drops.iter().all(|d| d.0 == Reason::Filtered));
        };
        check("0.0.0.0/0", ", ALLOW allow, DENY deny", &[b"one", b"nine"]);
        check("0.0.0.0/0", ", DENY deny", &[b"nine"]);
        check("0.0.0.0/0", ", ALLOW allow", &[b"one", b"two", b"nine"]);
        check("127.0.0.2/31", ", DENY deny", &[b"one", b"nine"]);
    }

    #[test]
    fn connections_are_admitted_by_tables() {
        let server = "e :: Socket(TCP, 127.0.0.1, 0, ALLOW allow, DENY deny) \
                      -> c :: Counter(COUNT_CALL 1 stop) -> e;";
        let mut run = Rig::text(&with_tables("127.0.0.0/8", server)).ready();
        let port: u16 = run.read("e.port").parse().unwrap();
        let talk = std::thread::spawn(move || {
            let connect = |from: [u8; 4]| {
                let socket = rustix::net::socket(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::STREAM,
                    None,
                );
                let socket = socket.unwrap();
                rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
                rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
                let stream = TcpStream::from(socket);
                stream.set_read_timeout(Some(SURELY)).unwrap();
                stream
            };
            let mut buffer = [0; 2];
            // The first is sent away, and the next is served all the same.
            let mut refused = connect([127, 0, 0, 2]);
            assert!(matches!(refused.read(&mut buffer), Ok(0) | Err(_)));
            let mut stream = connect([127, 0, 0, 1]);
            stream.write_all(b"hi").unwrap();
            stream.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"hi");
        });
        drop(run.again());
        talk.join().unwrap();
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |args: &str| Rig::text(&format!("Idle -> e :: Socket({args});")).errors();
        assert_eq!(error("SCTP"), ["e: unknown socket type 'SCTP'; use TCP, UDP, UNIX or UNIX_DGRAM"]);
        assert_eq!(
            error("UNIX, /nonexistent/s"),
            ["'e' could not open: /nonexistent/s: No such file or directory"]
        );
        assert_eq!(error("UDP, 1.2.3.4, 5, SNAPLEN 0"), ["e: SNAPLEN must lie between 1 and 65536, not 0"]);
        let wrong = "is not an element that routes IPv4 packets, such as RadixIPLookup";
        for (args, what) in [("ALLOW nobody", "ALLOW 'nobody'"), ("DENY e", "DENY 'e'")] {
            assert_eq!(
                error(&format!("UDP, 127.0.0.1, 0, {args}")),
                [format!("'e' could not start: {what} {wrong}")]
            );
        }
    }
}
