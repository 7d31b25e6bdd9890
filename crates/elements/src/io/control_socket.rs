// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ControlSocket
//!
//! `ControlSocket(TCP, PORT [, keywords READONLY, LOCALHOST, PROXY, VERBOSE, RETRIES, RETRY_WARNINGS])`
//! `ControlSocket(UNIX, FILENAME [, keywords])`
//!
//! Lets other programs read and write the handlers of the running router.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `TCP` or `UNIX`, the kind of socket, without regard to case.
//! * `PORT` number to listen on; 0 takes any, and `41900+` the first free one from there on. `FILENAME` of the socket; a
//!   stale socket file is replaced.
//! * `READONLY` boolean, default false: refuse to write handlers.
//! * `LOCALHOST` boolean, default true: accept TCP connections from this host only. False listens on all addresses:
//!   whoever reaches the port then controls the router.
//! * `PROXY` element to which all requests go: handler `E.H` then means its handler `E.H`, name and dot and all, and a global
//!   handler `H` its handler `H`. A `Script(TYPE PROXY)` takes all names; of another element only its own handlers can be
//!   asked for.
//! * `VERBOSE` boolean, default false: report connections.
//! * `RETRIES` times to try again, a second apart, when the socket cannot be opened; default 0. `RETRY_WARNINGS`
//!   boolean, default true: report each try.
//!
//! The protocol is `Click::ControlSocket/1.3`: lines of text, each answered by lines that begin with a code and a space
//! (or a dash when more lines follow). `READ H [ARGS]` is answered by `200 ...`, `DATA N` and N bytes;
//! `READDATA H N` and `WRITEDATA H N` take N bytes after their line; `READUNTIL H [END]` and `WRITEUNTIL H [END]` take
//! lines up to END or an empty one; `WRITE H [ARGS]`, `CHECKREAD H`, `CHECKWRITE H`, `HELP`, `QUIT`. H is
//! `element.handler`, `number.handler` or a global handler. `LLRPC ELEMENT#NUMBER [N]` would call a function of an element by
//! its number in hexadecimal, with N bytes of data; no element has one, so it is answered as Click answers for such elements:
//! by 522, or 501 when the number is not one of a call that can be made from afar. Codes: 200 done, 500 syntax, 501 not
//! implemented, 510 no such element, 511 no such handler, 520 the handler failed, 521 too much data, 522 the LLRPC failed,
//! 530 not permitted, 590 reading failed.
//!
//! **Drops:** none; it handles no packets.
//!
//! **Handlers**
//! * `port` read: the TCP port. `filename` read: the socket's file. `connections` read: how many are open.
//!
//! ```click
//! ControlSocket(TCP, 0);
//! ```
//!
//! See also: Script, ChatterSocket

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};

use engine::args::Args;
use engine::clock::SECOND;
use engine::control::{Handlers, Session};
use engine::{
    Access, Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, Target, Tasks, parse_integer, swap,
};

use super::files::reason;

/// The descriptor.
pub const CLASS: Class = Class::new("ControlSocket", "0/0", || Box::new(ControlSocket::default()))
    .handlers(&[Handler::read("port"), Handler::read("filename"), Handler::read("connections")])
    .file(file!());

/// Ports tried from `PORT+` on.
const PORTS: u16 = 100;
/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// Where to listen.
#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    Tcp {
        port: u16,
        /// Try the ports that follow, too.
        from: bool,
        local: bool,
    },
    Unix(String),
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either kind.
macro_rules! either {
    ($kind:ident, $value:expr, $s:ident => $do:expr) => {
        match $value {
            $kind::Tcp($s) => $do,
            $kind::Unix($s) => $do,
        }
    };
}

impl Listener {
    fn open(place: &Place) -> io::Result<Listener> {
        match place {
            Place::Nowhere => Err(ErrorKind::InvalidInput.into()),
            Place::Tcp { port, from, local } => {
                let host = if *local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let last = if *from { port.saturating_add(PORTS) } else { *port };
                let mut tries = (*port..=last).map(|port| TcpListener::bind(SocketAddr::from((host, port))));
                let bound = tries.find(|t| !matches!(t, Err(e) if e.kind() == ErrorKind::AddrInUse));
                let listener = bound.unwrap_or_else(|| Err(ErrorKind::AddrInUse.into()))?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
            Place::Unix(path) => {
                let stale = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_socket())
                    && UnixStream::connect(path).is_err();
                if stale {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(listener))
            }
        }
    }

    fn fd(&self) -> RawFd {
        either!(Listener, self, l => l.as_raw_fd())
    }

    /// The next connection, and who it is.
    fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Tcp(stream), format!(" from {peer}")))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), String::new()))
            }
        }
    }
}

struct Connection {
    stream: Stream,
    session: Session,
    /// Nothing can be written.
    broken: bool,
}

impl Connection {
    fn fd(&self) -> RawFd {
        either!(Stream, &self.stream, s => s.as_raw_fd())
    }

    /// Receives what has come, and obeys it piece by piece, so that little waits.
    fn fill(&mut self, handlers: &mut Calls<'_, '_>) {
        let mut chunk = [0; 4096];
        while !self.session.is_ended() {
            match either!(Stream, &mut self.stream, s => s.read(&mut chunk)) {
                Ok(0) => self.session.end(),
                Ok(n) => self.session.receive(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.session.end();
                    self.broken = true;
                }
            }
            while self.session.step(handlers) {}
        }
    }

    fn flush(&mut self) {
        while !self.session.output().is_empty() && !self.broken {
            match either!(Stream, &mut self.stream, s => s.write(self.session.output())) {
                Ok(n) => self.session.sent(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.broken = true,
            }
        }
    }

    fn done(&self) -> bool {
        self.broken || self.session.is_done()
    }
}

/// The router's handlers, this busy element's own among them.
struct Calls<'a, 'b> {
    socket: &'a mut ControlSocket,
    cx: &'a mut Cx<'b>,
}

impl Calls<'_, '_> {
    /// The handler that a request means: the proxy's, if there is one.
    fn target(&self, name: &str) -> Result<Target, HandlerError> {
        match self.socket.proxy {
            Some(proxy) => self.cx.router().handler_of(proxy, name),
            None => self.cx.router().resolve(name, None),
        }
    }
}

impl Handlers for Calls<'_, '_> {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        let target = self.target(name)?;
        if target.is_private() { Err(HandlerError::unknown(name)) } else { Ok(target.access()) }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.target(name)?;
        let mine = target.element() == Some(self.cx.index());
        if mine && CLASS.handlers.iter().any(|h| h.name == target.name()) {
            return self.socket.read(self.cx, target.name(), param);
        }
        self.cx.read_target(&target, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        let target = self.target(name)?;
        self.cx.write_target(&target, value).map(|()| String::new())
    }

    fn kind(&self) -> &'static str {
        if self.socket.proxy.is_some() { "proxied " } else { "" }
    }
}

#[derive(Default)]
struct ControlSocket {
    place: Place,
    /// The element to which requests go: as configured, then by number.
    proxy_name: Option<String>,
    proxy: Option<usize>,
    read_only: bool,
    verbose: bool,
    retries: u32,
    retry_warnings: bool,
    listener: Option<Listener>,
    connections: Vec<Connection>,
}

impl ControlSocket {
    fn listen(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let listener = Listener::open(&self.place)?;
        cx.watch(listener.fd(), true, false);
        self.listener = Some(listener);
        Ok(())
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        while let Some(listener) = &self.listener {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => return cx.print(&format!("{}: accept: {}", cx.name(), reason(&e))),
            };
            if self.connections.len() >= MOST_CONNECTIONS {
                cx.print(&format!("{}: refused a connection{peer}: there are too many", cx.name()));
                continue;
            }
            let session = Session::new(self.read_only);
            let connection = Connection { stream, session, broken: false };
            if self.verbose {
                cx.print(&format!("{}: opened connection {}{peer}", cx.name(), connection.fd()));
            }
            let fd = connection.fd();
            cx.watch(fd, true, true);
            self.connections.push(connection);
            self.serve(cx, fd);
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        let Some(i) = self.connections.iter().position(|c| c.fd() == fd) else { return };
        let mut connection = self.connections.swap_remove(i);
        connection.fill(&mut Calls { socket: self, cx });
        connection.flush();
        if connection.done() {
            cx.unwatch(fd);
            if self.verbose {
                cx.print(&format!("{}: closed connection {fd}", cx.name()));
            }
        } else {
            self.connections.push(connection);
        }
    }
}

impl Element for ControlSocket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let kind: String = args.required("TYPE");
        self.read_only = args.keyword("READONLY", false);
        self.verbose = args.keyword("VERBOSE", false);
        self.retries = args.keyword("RETRIES", 0);
        self.retry_warnings = args.keyword("RETRY_WARNINGS", true);
        let local = args.keyword("LOCALHOST", true);
        self.proxy_name = args.keyword_opt("PROXY");
        match kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let text: String = args.required("PORT");
                let from = text.ends_with('+');
                let number = parse_integer(text.trim_end_matches('+')).and_then(|n| u16::try_from(n).ok());
                match number {
                    Some(port) => self.place = Place::Tcp { port, from, local },
                    None => args
                        .error(format!("PORT should be a port number, or one and a plus sign, not '{text}'")),
                }
            }
            "UNIX" => {
                let path: String = args.required("FILENAME");
                if path.len() >= 108 {
                    args.error("FILENAME is too long for a socket (at most 107 bytes)");
                }
                self.place = Place::Unix(path);
            }
            "" => {}
            other => args.error(format!("unknown socket type '{other}'; use TCP or UNIX")),
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if let Some(name) = &self.proxy_name {
            let proxy = cx.resolve(&format!("{name}.name")).ok().and_then(|target| target.element());
            self.proxy = Some(proxy.ok_or_else(|| format!("PROXY '{name}' is not an element"))?);
        }
        if cx.inherits() {
            return Ok(());
        }
        match self.listen(cx) {
            Ok(()) => Ok(()),
            Err(e) if self.retries > 0 => {
                if self.retry_warnings {
                    cx.print(&format!("{}: {} ({} tries left)", cx.name(), reason(&e), self.retries));
                }
                cx.set_timer_after(0, SECOND);
                Ok(())
            }
            Err(e) => Err(match &self.place {
                Place::Tcp { port, .. } => format!("TCP port {port}: {}", reason(&e)),
                Place::Unix(path) => format!("{path}: {}", reason(&e)),
                Place::Nowhere => reason(&e),
            }),
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.retries -= 1;
        let Err(e) = self.listen(cx) else { return };
        if self.retry_warnings || self.retries == 0 {
            cx.print(&format!("{}: {} ({} tries left)", cx.name(), reason(&e), self.retries));
        }
        if self.retries > 0 {
            cx.set_timer_after(0, SECOND);
        } else {
            cx.please_stop();
        }
    }

    fn run_fd(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        if self.listener.as_ref().is_some_and(|l| l.fd() == fd) {
            self.accept(cx);
        } else {
            self.serve(cx, fd);
        }
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match (name, &self.listener, &self.place) {
            ("port", Some(Listener::Tcp(listener)), _) => {
                listener.local_addr().map_or(String::new(), |a| a.port().to_string())
            }
            ("port", _, Place::Tcp { port, .. }) => port.to_string(),
            ("filename", _, Place::Unix(path)) => path.clone(),
            ("connections", ..) => self.connections.len().to_string(),
            _ => String::new(),
        })
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<ControlSocket>(old) else { return false };
        if self.listener.is_some() {
            return false;
        }
        self.listener = old.listener.take();
        self.connections.append(&mut old.connections);
        self.retries = old.retries;
        if let Some(listener) = &self.listener {
            cx.watch(listener.fd(), true, false);
        } else if self.retries > 0 {
            cx.set_timer_after(0, SECOND);
        }
        self.connections.iter().for_each(|c| cx.watch(c.fd(), true, true));
        true
    }

    fn finish(&mut self, _: &mut Cx<'_>) {
        self.connections.iter_mut().for_each(Connection::flush);
        self.connections.clear();
        if let (Some(Listener::Unix(_)), Place::Unix(path)) = (&self.listener, &self.place) {
            let _ = std::fs::remove_file(path);
        }
        self.listener = None;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    const TEXT: &str = "c :: Counter; Idle -> c -> d :: Discard;";

    /// Sends `input` to a router's socket, ends it by `stop`, and returns all that was answered after the greeting.
    fn talk(args: &str, input: &str) -> String {
        let temp = Temp::new();
        let path = temp.path("socket");
        let text = format!("{TEXT} e :: ControlSocket(unix, {path}{args});");
        let router = Rig::text(&text).ready();
        let mut client = UnixStream::connect(&path).unwrap();
        let input = format!("{input}QUIT\r\n");
        let writer = std::thread::spawn(move || {
            client.write_all(input.as_bytes()).unwrap();
            let mut lines = BufReader::new(client);
            let mut greeting = String::new();
            lines.read_line(&mut greeting).unwrap();
            assert_eq!(greeting, "Click::ControlSocket/1.3\r\n");
            let mut answer = String::new();
            lines.read_to_string(&mut answer).unwrap();
            // A second conversation ends the router.
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(b"WRITE stop\n").unwrap();
            answer
        });
        drop(router.again());
        writer.join().unwrap().replace("200 Goodbye!\r\n", "")
    }

    #[test]
    fn the_protocol() {
        for (input, want) in [
            ("READ c.count\r\n", "200 Read handler 'c.count' OK\r\nDATA 1\r\n0"),
            ("read 1.name\n", "200 Read handler '1.name' OK\r\nDATA 1\r\nc"),
            ("READ version\n\n", "200 Read handler 'version' OK\r\nDATA 5\r\n0.1.0"),
            ("READ e.connections\n", "200 Read handler 'e.connections' OK\r\nDATA 1\r\n0"),
            ("READ x.count\n", "510 No element named 'x'\r\n"),
            ("READ c.foo\n", "511 No handler named 'c.foo'\r\n"),
            ("READ foo\n", "511 No handler named 'foo'\r\n"),
            ("READ c.reset\n", "530 Handler 'c.reset' write-only\r\n"),
            ("WRITE c.count 5\n", "530 Handler 'c.count' read-only\r\n"),
            ("WRITE c.reset\n", "200 Write handler 'c.reset' OK\r\n"),
            (
                "WRITE d.active maybe\n",
                "520-Write handler 'd.active' error:\r\n520 handler 'active' expects true or false, not 'maybe'\r\n",
            ),
            (
                "WRITEDATA d.active 5\r\nfalseREAD d.active\n",
                "200 Write handler 'd.active' OK\r\n200 Read handler 'd.active' OK\r\nDATA 5\r\nfalse",
            ),
            (
                "WRITEUNTIL d.active END \nfalse\nEND\nREADUNTIL d.active\n\n",
                "200 Write handler 'd.active' OK\r\n200 Read handler 'd.active' OK\r\nDATA 5\r\nfalse",
            ),
            ("READDATA c.count 3\nabc", "200 Read handler 'c.count' OK\r\nDATA 1\r\n0"),
            (
                "CHECKREAD c.count\nCHECKWRITE c.count\n",
                "200 Read handler 'c.count' OK\r\n511 Handler 'c.count' not writable\r\n",
            ),
            (
                "CHECKWRITE c.reset\nCHECKREAD c.reset\n",
                "200 Write handler 'c.reset' OK\r\n511 Handler 'c.reset' not readable\r\n",
            ),
            ("READ\n", "500 Wrong number of arguments\r\n"),
            ("READDATA c.count x\n", "500 Syntax error in 'readdata'\r\n"),
            ("WRITEDATA c.reset 99999999999\n", "521 Too much data\r\n"),
            ("FETCH c.count\n", "501 Command 'FETCH' unimplemented\r\n"),
            ("LLRPC c#01\n", "501 Cannot call LLRPC 'c#01' remotely\r\n"),
            ("LLRPC c#4004c005\n", "522 LLRPC 'c#4004c005' error: Invalid argument\r\n"),
        ] {
            assert_eq!(talk("", input), want, "{input:?}");
        }
        assert!(talk("", "HELP\n").starts_with("200-Commands supported:\r\n200-READ "));
    }

    #[test]
    fn a_proxy_answers_for_others() {
        // The second socket has no proxy, and is the one that ends the router.
        let script = "p :: Script(TYPE PROXY, return $(add $(c.count) 7)$0);";
        let element = "p :: Script(TYPE PASSIVE, stop);";
        let check = |proxy: &str, name: &str, input: &str, want: &str| {
            let temp = Temp::new();
            let path = temp.path("socket");
            let text = format!(
                "{TEXT} {proxy} e :: ControlSocket(unix, {path}, PROXY {name}); \
                                f :: ControlSocket(unix, {path}2);"
            );
            let router = Rig::text(&text).ready();
            let input = format!("{input}QUIT\n");
            let talk = std::thread::spawn(move || {
                let mut client = UnixStream::connect(&path).unwrap();
                client.write_all(input.as_bytes()).unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                UnixStream::connect(format!("{path}2")).unwrap().write_all(b"WRITE stop\n").unwrap();
                answer
            });
            drop(router.again());
            let answer = talk.join().unwrap();
            let answer = answer.replace("Click::ControlSocket/1.3\r\n", "").replace("200 Goodbye!\r\n", "");
            assert_eq!(answer, want);
        };
        check(script, "p", "READ x.y\n", "200 Read handler 'x.y' OK\r\nDATA 4\r\n7x.y");
        check(
            script,
            "p",
            "READ g\nREAD 0.g\n",
            "200 Read handler 'g' OK\r\nDATA 2\r\n7g200 Read handler '0.g' OK\r\nDATA 2\r\n7g",
        );
        check(script, "p", "CHECKREAD any.thing\n", "200 Read handler 'any.thing' OK\r\n");
        check(element, "c", "READ count\n", "200 Read handler 'count' OK\r\nDATA 1\r\n0");
        check(
            element,
            "c",
            "WRITE reset\nWRITE count\n",
            "200 Write handler 'reset' OK\r\n530 Handler 'count' read-only\r\n",
        );
        check(
            element,
            "c",
            "READ c.count\nREAD version\n",
            "511 No proxied handler named 'c.count'\r\n511 No proxied handler named 'version'\r\n",
        );
        check(element, "c", "LLRPC c#4004c005\n", "511 No proxied handler named 'c.name'\r\n");
        check(element, "e", "READ connections\n", "200 Read handler 'connections' OK\r\nDATA 1\r\n0");
    }

    #[test]
    fn readonly_refuses_writes() {
        let input = "WRITE c.reset\nCHECKWRITE c.reset\nREAD c.count\n";
        let want = "530 Permission denied for 'c.reset'\r\n530 Permission denied for 'c.reset'\r\n\
                    200 Read handler 'c.count' OK\r\nDATA 1\r\n0";
        // Without the right to stop it the router would not end, so the socket next to it gets that order.
        let temp = Temp::new();
        let (path, other) = (temp.path("a"), temp.path("b"));
        let text = format!(
            "{TEXT} e :: ControlSocket(UNIX, {path}, READONLY true); f :: ControlSocket(UNIX, {other});"
        );
        let router = Rig::text(&text).ready();
        let talk = std::thread::spawn(move || {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(format!("{input}QUIT\n").as_bytes()).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            UnixStream::connect(&other).unwrap().write_all(b"WRITE stop\n").unwrap();
            answer
        });
        drop(router.again());
        let answer = talk.join().unwrap();
        assert_eq!(answer.replace("Click::ControlSocket/1.3\r\n", "").replace("200 Goodbye!\r\n", ""), want);
    }

    #[test]
    fn tcp_binds_loopback_and_looks_for_a_free_port() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let text = format!("e :: ControlSocket(TCP, {port}+);");
        let mut router = Rig::text(&text).ready();
        let found: u16 = router.read("e.port").parse().unwrap();
        assert!(found > port && TcpStream::connect(("127.0.0.1", found)).is_ok(), "{found}");
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |args: &str| Rig::text(&format!("e :: ControlSocket({args});")).errors();
        assert_eq!(
            error("SCTP, 5"),
            ["e: unknown socket type 'SCTP'; use TCP or UNIX", "e: too many arguments: '5'"]
        );
        assert_eq!(error("TCP, x"), ["e: PORT should be a port number, or one and a plus sign, not 'x'"]);
        assert_eq!(
            error("UNIX, /nonexistent/s"),
            ["'e' could not start: /nonexistent/s: No such file or directory"]
        );
        let proxy = error("TCP, 0, PROXY nobody");
        assert_eq!(proxy, ["'e' could not start: PROXY 'nobody' is not an element"]);
        assert_eq!(error("UNIX"), ["e: missing argument FILENAME: a string"]);
    }
}
