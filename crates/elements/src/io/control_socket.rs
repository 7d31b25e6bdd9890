// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ControlSocket
//!
//! `ControlSocket(TCP, PORT [, keywords READONLY, LOCALHOST, VERBOSE, RETRIES, RETRY_WARNINGS])`
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
//! * `VERBOSE` boolean, default false: report connections.
//! * `RETRIES` times to try again, a second apart, when the socket cannot be opened; default 0. `RETRY_WARNINGS`
//!   boolean, default true: report each try.
//!
//! The protocol is `Click::ControlSocket/1.3`: lines of text, each answered by lines that begin with a code and a space
//! (or a dash when more lines follow). `READ H [ARGS]` is answered by `200 ...`, `DATA N` and N bytes;
//! `READDATA H N` and `WRITEDATA H N` take N bytes after their line; `READUNTIL H [END]` and `WRITEUNTIL H [END]` take
//! lines up to END or an empty one; `WRITE H [ARGS]`, `CHECKREAD H`, `CHECKWRITE H`, `LLRPC`, `HELP`, `QUIT`. H is
//! `element.handler`, `number.handler` or a global handler. Codes: 200 done, 500 syntax, 501 not implemented, 510 no
//! such element, 511 no such handler, 520 the handler failed, 521 too much data, 530 not permitted, 590 reading failed.
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
use engine::{
    Access, Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, Target, Tasks, parse_integer,
};

use super::files::reason;

/// The descriptor.
pub const CLASS: Class = Class::new("ControlSocket", "0/0", || Box::new(ControlSocket::default()))
    .handlers(&[Handler::read("port"), Handler::read("filename"), Handler::read("connections")])
    .file(file!());

const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";
/// Ports tried from `PORT+` on.
const PORTS: u16 = 100;
/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// Bytes of a command line, and of the data with it.
const MOST_LINE: usize = 1 << 16;
const MOST_DATA: usize = 64 << 20;

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
    input: Vec<u8>,
    output: Vec<u8>,
    /// Nothing more will be read.
    closed: bool,
    /// Nothing can be written.
    broken: bool,
}

/// What a command asks for beyond its line.
enum Wants {
    Nothing,
    Bytes(usize),
    /// Lines up to this one.
    Until(String),
}

/// A command that is complete: its line's words, and its data.
struct Command {
    verb: String,
    words: Vec<String>,
    data: String,
}

impl Connection {
    fn new(stream: Stream) -> Connection {
        Connection { stream, input: Vec::new(), output: GREETING.to_vec(), closed: false, broken: false }
    }

    fn fd(&self) -> RawFd {
        either!(Stream, &self.stream, s => s.as_raw_fd())
    }

    fn fill(&mut self) {
        let mut chunk = [0; 4096];
        while !self.closed {
            match either!(Stream, &mut self.stream, s => s.read(&mut chunk)) {
                Ok(0) => self.closed = true,
                Ok(n) => self.input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => (self.closed, self.broken) = (true, true),
            }
        }
    }

    fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.output.len() && !self.broken {
            match either!(Stream, &mut self.stream, s => s.write(&self.output[sent..])) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.broken = true,
            }
        }
        self.output.drain(..sent);
    }

    fn done(&self) -> bool {
        self.broken || self.closed && self.output.is_empty()
    }

    /// Answers with one line.
    fn say(&mut self, code: u16, text: &str) {
        self.say_all(code, &[text]);
    }

    /// Answers with several lines.
    fn say_all(&mut self, code: u16, lines: &[&str]) {
        for (i, line) in lines.iter().enumerate() {
            let mark = if i + 1 < lines.len() { '-' } else { ' ' };
            let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            self.output.extend_from_slice(format!("{code}{mark}{line}\r\n").as_bytes());
        }
    }

    /// Answers that a handler failed, with what it said.
    fn say_failed(&mut self, code: u16, what: &str, why: &str) {
        let what = format!("{what}:");
        let mut lines = vec![what.as_str()];
        lines.extend(why.lines());
        self.say_all(code, &lines);
    }

    /// Takes the next command that is complete out of the input; `None` when there is none yet.
    fn next_command(&mut self) -> Option<Command> {
        loop {
            let end = self.input.iter().position(|b| matches!(b, b'\r' | b'\n'));
            if end.is_none() && self.input.len() > MOST_LINE {
                self.say(500, "Line too long");
                (self.closed, self.input) = (true, Vec::new());
                return None;
            }
            if end.is_none() && (self.input.is_empty() || !self.closed) {
                return None;
            }
            let end = end.unwrap_or(self.input.len());
            let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
            let after = end + line_end(&self.input[end..]);
            let words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
            let Some(verb) = words.first().map(|w| w.to_ascii_uppercase()) else {
                self.input.drain(..after);
                continue;
            };
            let wants = match wants(&verb, &words) {
                Ok(wants) => wants,
                Err((code, why)) => {
                    self.input.drain(..after);
                    self.say(code, why);
                    continue;
                }
            };
            let rest = &self.input[after..];
            let found = match &wants {
                Wants::Nothing => Some((0, 0)),
                Wants::Bytes(n) => (rest.len() >= *n).then_some((*n, *n)),
                Wants::Until(end) => find_line(rest, end),
            };
            let Some((data_len, used)) = found else {
                if self.closed {
                    self.input.clear();
                    self.say(500, "Not enough data");
                } else if rest.len() > MOST_DATA {
                    self.input.clear();
                    self.say(521, "Too much data");
                }
                return None;
            };
            let data = match wants {
                Wants::Nothing => third_word_on(&line).to_owned(),
                _ => String::from_utf8_lossy(&rest[..data_len]).into_owned(),
            };
            self.input.drain(..after + used);
            return Some(Command { verb, words, data });
        }
    }
}

/// Bytes of the line end at the front: CR, LF, or both.
fn line_end(bytes: &[u8]) -> usize {
    match bytes {
        [b'\r', b'\n', ..] => 2,
        [] => 0,
        _ => 1,
    }
}

/// What follows a line's first two words.
fn third_word_on(line: &str) -> &str {
    let mut rest = line.trim_ascii();
    for _ in 0..2 {
        rest = rest
            .split_once(|c: char| c.is_ascii_whitespace())
            .map_or("", |(_, rest)| rest)
            .trim_ascii_start();
    }
    rest
}

/// Finds the line that equals `end`, trailing space aside: bytes before it, and with it.
fn find_line(bytes: &[u8], end: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    loop {
        let len = bytes[at..].iter().position(|b| matches!(b, b'\r' | b'\n'))?;
        let line = &bytes[at..at + len];
        let next = at + len + line_end(&bytes[at + len..]);
        if line.trim_ascii_end() == end.as_bytes() {
            return Some((at, next));
        }
        at = next;
    }
}

/// What a command needs; the code and text of the answer when the line is wrong.
fn wants(verb: &str, words: &[String]) -> Result<Wants, (u16, &'static str)> {
    const WRONG: (u16, &str) = (500, "Wrong number of arguments");
    let number = |word: &String| {
        let n = parse_integer(word).and_then(|n| usize::try_from(n).ok());
        let n = n.ok_or((500, "Syntax error in the number of bytes"))?;
        if n > MOST_DATA { Err((521, "Too much data")) } else { Ok(Wants::Bytes(n)) }
    };
    match (verb, words.len()) {
        ("READ" | "GET" | "WRITE" | "SET", 2..) => Ok(Wants::Nothing),
        ("READDATA" | "WRITEDATA" | "SETDATA", 3) => number(&words[2]),
        ("READUNTIL" | "WRITEUNTIL", 2..) => Ok(Wants::Until(words[2..].join(" "))),
        ("CHECKREAD" | "CHECKWRITE", 2) | ("LLRPC", 2) => Ok(Wants::Nothing),
        ("LLRPC", 3) => number(&words[2]),
        ("QUIT" | "CLOSE" | "HELP", _) => Ok(Wants::Nothing),
        (
            "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA" | "READUNTIL"
            | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC",
            _,
        ) => Err(WRONG),
        // Told by the caller, who names the command.
        _ => Ok(Wants::Nothing),
    }
}

#[derive(Default)]
struct ControlSocket {
    place: Place,
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
            let connection = Connection::new(stream);
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
        connection.fill();
        while let Some(command) = connection.next_command() {
            self.obey(cx, &mut connection, &command);
        }
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

    fn obey(&mut self, cx: &mut Cx<'_>, to: &mut Connection, command: &Command) {
        let handler = command.words.get(1).map_or("", String::as_str);
        match command.verb.as_str() {
            "READ" | "GET" | "READDATA" | "READUNTIL" => self.read_command(cx, to, handler, &command.data),
            "WRITE" | "SET" | "WRITEDATA" | "SETDATA" | "WRITEUNTIL" => {
                self.write_command(cx, to, handler, &command.data);
            }
            "CHECKREAD" => self.check_command(cx, to, handler, false),
            "CHECKWRITE" => self.check_command(cx, to, handler, true),
            "LLRPC" => to.say(501, &format!("Cannot call LLRPC '{handler}' remotely")),
            "QUIT" | "CLOSE" => {
                to.say(200, "Goodbye!");
                (to.closed, to.input) = (true, Vec::new());
            }
            "HELP" => to.say_all(
                200,
                &[
                    "Commands supported:",
                    "READ handler [arg...]   call a read handler, return DATA",
                    "READDATA handler len    the same with len bytes of argument that follow",
                    "READUNTIL handler term  the same with lines of argument up to term",
                    "WRITE handler [arg...]  call a write handler",
                    "WRITEDATA handler len   the same with len bytes of value that follow",
                    "WRITEUNTIL handler term the same with lines of value up to term",
                    "CHECKREAD handler       whether a handler can be read",
                    "CHECKWRITE handler      whether a handler can be written",
                    "LLRPC elt#number [len]  not implemented",
                    "QUIT                    close the connection",
                ],
            ),
            verb => to.say(501, &format!("Command '{verb}' unimplemented")),
        }
    }

    fn read_command(&mut self, cx: &mut Cx<'_>, to: &mut Connection, handler: &str, data: &str) {
        let Some(target) = resolve(cx, to, handler) else { return };
        // This element is busy with this very call, so it answers for itself.
        let answer = if target.is_own() && target.element() == Some(cx.index()) {
            self.read(cx, target.name(), data)
        } else {
            cx.read_handler(canonical(handler), data)
        };
        match answer {
            Ok(text) => {
                to.say(200, &format!("Read handler '{handler}' OK"));
                to.output.extend_from_slice(format!("DATA {}\r\n{text}", text.len()).as_bytes());
            }
            Err(HandlerError::Failed(why)) => {
                to.say_failed(590, &format!("Read handler '{handler}' error"), &why);
            }
            Err(HandlerError::Denied(_)) => to.say(530, &format!("Handler '{handler}' write-only")),
            Err(missing) => say_missing(to, handler, &missing),
        }
    }

    fn write_command(&mut self, cx: &mut Cx<'_>, to: &mut Connection, handler: &str, data: &str) {
        let Some(target) = resolve(cx, to, handler) else { return };
        if self.read_only && target.access() != Access::Read {
            return to.say(530, &format!("Permission denied for '{handler}'"));
        }
        match cx.write_handler(canonical(handler), data) {
            Ok(()) => to.say(200, &format!("Write handler '{handler}' OK")),
            Err(HandlerError::Failed(why)) => {
                to.say_failed(520, &format!("Write handler '{handler}' error"), &why);
            }
            Err(HandlerError::Denied(_)) => to.say(530, &format!("Handler '{handler}' read-only")),
            Err(missing) => say_missing(to, handler, &missing),
        }
    }

    fn check_command(&mut self, cx: &mut Cx<'_>, to: &mut Connection, handler: &str, write: bool) {
        let (kind, wrong) = if write { ("Write", Access::Read) } else { ("Read", Access::Write) };
        let Some(target) = resolve(cx, to, handler) else { return };
        if target.access() == wrong {
            let able = if write { "writable" } else { "readable" };
            to.say(511, &format!("Handler '{handler}' not {able}"));
        } else if write && self.read_only {
            to.say(530, &format!("Permission denied for '{handler}'"));
        } else {
            to.say(200, &format!("{kind} handler '{handler}' OK"));
        }
    }
}

/// Finds a handler that connections may reach, or says that there is none.
fn resolve(cx: &Cx<'_>, to: &mut Connection, handler: &str) -> Option<Target> {
    match cx.router().resolve(canonical(handler), None) {
        Ok(target) if !target.is_private() => return Some(target),
        Ok(target) => say_missing(to, handler, &HandlerError::unknown(target.name())),
        Err(missing) => say_missing(to, handler, &missing),
    }
    None
}

fn say_missing(to: &mut Connection, handler: &str, error: &HandlerError) {
    match error {
        HandlerError::NoElement(name) => to.say(510, &format!("No element named '{name}'")),
        _ => to.say(511, &format!("No handler named '{handler}'")),
    }
}

/// Element number 0 and no element are the router itself.
fn canonical(handler: &str) -> &str {
    handler.strip_prefix("0.").or(handler.strip_prefix('.')).unwrap_or(handler)
}

impl Element for ControlSocket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let kind: String = args.required("TYPE");
        self.read_only = args.keyword("READONLY", false);
        self.verbose = args.keyword("VERBOSE", false);
        self.retries = args.keyword("RETRIES", 0);
        self.retry_warnings = args.keyword("RETRY_WARNINGS", true);
        let local = args.keyword("LOCALHOST", true);
        if args.keyword_opt::<String>("PROXY").is_some() {
            args.error("PROXY is not supported");
        }
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
            ("READDATA c.count x\n", "500 Syntax error in the number of bytes\r\n"),
            ("WRITEDATA c.reset 99999999999\n", "521 Too much data\r\n"),
            ("FETCH c.count\n", "501 Command 'FETCH' unimplemented\r\n"),
            ("LLRPC c#01\n", "501 Cannot call LLRPC 'c#01' remotely\r\n"),
        ] {
            assert_eq!(talk("", input), want, "{input:?}");
        }
        assert!(talk("", "HELP\n").starts_with("200-Commands supported:\r\n200-READ "));
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
        assert_eq!(error("UNIX"), ["e: missing argument FILENAME: a string"]);
    }
}
