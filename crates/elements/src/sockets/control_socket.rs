// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ControlSocket
//!
//! `ControlSocket(TCP, PORT [, keywords READONLY, LOCALHOST, TOKEN_FILE, OPEN, PROXY, IDLE, VERBOSE, RETRIES, RETRY_WARNINGS])`
//! `ControlSocket(UNIX, FILENAME [, keywords GROUP, ...])`
//! `ControlSocket(SOCKET, DESCRIPTOR [, keywords])`
//!
//! Lets other programs read and write the handlers of the running router.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `TCP`, `UNIX` or `SOCKET`, without regard to case.
//! * `DESCRIPTOR` number of a connected stream socket that the process was started with; its other end is the one client.
//! * `PORT` number to listen on; 0 takes any, and `41900+` the first free one from there on. `FILENAME` of the socket; a
//!   socket of this user's that nobody serves is replaced, anything else stays and is an error.
//! * `READONLY` boolean, default false: refuse to write handlers.
//! * `LOCALHOST` boolean, default true: accept TCP connections from this host only. False listens on all addresses.
//! * `TOKEN_FILE` file with the token that TCP clients show, a word of at least 16 characters. Only its owner may be able
//!   to read it (mode 0600). If there is no such file, one is made with a fresh token. Default: that of `--control-token`.
//! * `OPEN` boolean, default false: TCP clients need no token. Every user who reaches the port has the rights of the router.
//!   A TCP socket with neither is an error, unless the router was started with `--control-open` or as `click`.
//! * `GROUP` whose members may use the Unix socket, by name or number. Its mode is then 0660, otherwise 0600. Default: that
//!   of `--control-group`.
//! * `IDLE` seconds that a client may say nothing, default 600; 0 is for ever. When all 64 places are taken, the client that has
//!   been idle for longest makes room.
//! * `PROXY` element to which all requests go: handler `E.H` then means its handler `E.H`, name and dot and all, and a global
//!   handler `H` its handler `H`. A `Script(TYPE PROXY)` takes all names; of another element only its own handlers can be
//!   asked for.
//! * `VERBOSE` boolean, default false: report connections. Writes are always reported, with who wrote.
//! * `RETRIES` times to try again, a second apart, when the socket cannot be opened; default 0. `RETRY_WARNINGS`
//!   boolean, default true: report each try.
//!
//! The protocol is `Click::ControlSocket/1.3`: lines of text, each answered by lines that begin with a code and a space (or a dash when more lines
//! follow). `READ H [ARGS]` is answered by `200 ...`, `DATA N` and N bytes; `READDATA H N` and `WRITEDATA H N` take N bytes after their line;
//! `READUNTIL H [END]` and `WRITEUNTIL H [END]` take lines up to END or an empty one; `WRITE H [ARGS]`, `CHECKREAD H`, `CHECKWRITE H`, `HELP`,
//! `QUIT`. H is `element.handler`, `number.handler` or a global handler. `LLRPC ELEMENT#NUMBER [N]` calls a function of an element by its number in
//! hexadecimal, with N bytes of data, and is answered with its bytes. The numbers are rate and counts of a Counter (c004c001, c004c003), and the
//! output of a Switch or the input of a PullSwitch (4004c005 to read, 80044006 to set). Other numbers are answered by 522, or by 501 when the number
//! is not one of a call that can be made from afar. Codes: 200 done, 500 syntax, 501 not implemented, 510 no such element, 511 no such handler, 520
//! the handler failed, 521 too much data, 522 the LLRPC failed, 530 not permitted, 590 reading failed.
//!
//! A client of a socket with a token begins with the line `AUTH TOKEN`, which is answered by `200 Authenticated`; anything else
//! is answered by 530 and ends the connection. What follows is Click's protocol. So a script for Click gets by with one line
//! more: `(echo "AUTH $(cat token)"; echo "READ c.count"; echo QUIT) | nc localhost 41900`.
//!
//! Threads of their own serve the clients; workers only execute the handlers. A client has to take each reply within seconds before its next command
//! is obeyed, and all clients of a socket together may take a quarter of a processor.
//!
//! **Drops:** none; it handles no packets.
//!
//! **Handlers**
//! * `port` read: the TCP port. `filename` read: the socket's file. `connections` read: how many are open.
//!
//! ```click
//! ControlSocket(UNIX, /tmp/router.control);
//! ```
//!
//! See also: Script, ChatterSocket

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctl::{Handlers, Listener, Rules, Server, Service, Token};
use element::Policy;
use element::args::Args;
use element::clock::SECOND;
use element::{
    Access, Class, Cx, Element, HandlerError, HotSwap, InitCx, Llrpc, OpenCx, Remote, Tasks, handlers,
    parse_integer, swap,
};
use sync::os::reason;

/// The descriptor.
pub const CLASS: Class = Class::new("ControlSocket", "0/0", || Box::new(ControlSocket::default()))
    .handlers(handlers! { ControlSocket:
        read "port" => |socket| socket.port();
        read "filename" => |socket| match &socket.place {
            Place::Unix(path) => path.clone(),
            _ => String::new(),
        };
        read "connections" => |socket| socket.served.as_ref().map_or(0, |(server, _)| server.connections());
    })
    .hot_swap::<ControlSocket>()
    .file(file!());

/// Ports tried from `PORT+` on.
const PORTS: u16 = 100;
/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// Seconds that a client may say nothing.
const IDLE_S: u64 = 600;

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
    /// A connection that the process was started with.
    Connected(i32),
}

impl Place {
    fn listen(&self, group: Option<u32>) -> io::Result<Listener> {
        match self {
            Place::Nowhere => Err(ErrorKind::InvalidInput.into()),
            Place::Tcp { port, from, local } => {
                let host = if *local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let last = if *from { port.saturating_add(PORTS) } else { *port };
                let mut tries = (*port..=last).map(|port| TcpListener::bind(SocketAddr::from((host, port))));
                let bound = tries.find(|t| !matches!(t, Err(e) if e.kind() == ErrorKind::AddrInUse));
                bound.unwrap_or_else(|| Err(ErrorKind::AddrInUse.into())).map(Listener::Tcp)
            }
            Place::Unix(path) => Listener::unix(Path::new(path), group),
            Place::Connected(descriptor) => Listener::connected(*descriptor),
        }
    }
}

/// What a hot swap may change of a socket that stays open.
#[derive(Clone, Debug, Default)]
struct Settings {
    /// The element's name.
    name: String,
    /// The element to which requests go.
    proxy: Option<String>,
    read_only: bool,
    verbose: bool,
    token: Option<Arc<Token>>,
    idle: Option<Duration>,
}

/// What the server's threads know of the element.
struct Offered {
    router: Arc<dyn Remote>,
    settings: Arc<Mutex<Settings>>,
}

fn lock(settings: &Mutex<Settings>) -> MutexGuard<'_, Settings> {
    settings.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service for Offered {
    fn rules(&self) -> Rules {
        let Settings { read_only, token, idle, verbose, .. } = lock(&self.settings).clone();
        Rules { read_only, token, idle, verbose, most: MOST_CONNECTIONS }
    }

    fn handlers(&self, spent_ns: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(Calls {
            router: self.router.clone(),
            spent_ns: spent_ns.clone(),
            settings: self.settings.clone(),
        })
    }

    fn say(&self, text: &str) {
        let name = lock(&self.settings).name.clone();
        self.router.print(&format!("{name}: {text}"));
    }
}

/// The router's handlers, or those of the proxy.
struct Calls {
    router: Arc<dyn Remote>,
    spent_ns: Arc<AtomicU64>,
    settings: Arc<Mutex<Settings>>,
}

impl Calls {
    fn proxy(&self) -> Option<String> {
        lock(&self.settings).proxy.clone()
    }

    fn handlers(&self) -> Box<dyn Handlers> {
        self.router.handlers(self.proxy().as_deref(), &self.spent_ns)
    }
}

impl Handlers for Calls {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        self.handlers().access(name)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.handlers().read(name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        // Click's replies say nothing more.
        self.handlers().write(name, value).map(|_| String::new())
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        self.handlers().llrpcs(element)
    }

    fn kind(&self) -> &'static str {
        if self.proxy().is_some() { "proxied " } else { "" }
    }
}

#[derive(Default)]
struct ControlSocket {
    place: Place,
    /// As configured.
    proxy: Option<String>,
    token_file: Option<PathBuf>,
    open: bool,
    group: Option<u32>,
    settings: Settings,
    retries: u32,
    retry_warnings: bool,
    /// The server, and the settings that it looks at.
    served: Option<(Server, Arc<Mutex<Settings>>)>,
    /// What is watched so that a router with nothing else to do waits for clients: two ends of which nobody says anything.
    awake: Option<(UnixStream, UnixStream)>,
}

impl ControlSocket {
    fn listen(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let group = self.group.or(Policy::of_process().group);
        let listener = self.place.listen(group)?;
        let Some(router) = cx.control() else { return Ok(()) };
        let settings = Arc::new(Mutex::new(self.settings.clone()));
        let server = Server::start(listener, Arc::new(Offered { router, settings: settings.clone() }))?;
        self.served = Some((server, settings));
        self.stay_awake(cx)
    }

    fn stay_awake(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        let pair = UnixStream::pair()?;
        cx.watch(pair.0.as_raw_fd(), true, false);
        self.awake = Some(pair);
        Ok(())
    }

    /// What clients have to show, if they have to.
    ///
    /// # Errors
    /// The token file is not as it should be, or nobody has said that there need be none.
    fn token(&self, cx: &Cx<'_>) -> Result<Option<Arc<Token>>, String> {
        let Place::Tcp { local, .. } = self.place else { return Ok(None) };
        let policy = Policy::of_process();
        if !self.open
            && let Some(file) = self.token_file.as_ref().or(policy.token_file.as_ref())
        {
            return Token::from_file(file).map(|token| Some(Arc::new(token)));
        }
        if self.open || policy.open {
            if !self.open && !policy.as_click {
                let who = if local { "every user of this machine" } else { "whoever reaches this machine" };
                cx.print(&format!(
                    "{}: warning: {who} can control this router by a TCP port without token",
                    cx.name()
                ));
            }
            return Ok(None);
        }
        Err("a TCP control port gives every user who reaches it the rights of the router: give TOKEN_FILE, or OPEN true \
             (--control-token FILE or --control-open on the command line), or use a UNIX socket"
            .into())
    }
}

impl ControlSocket {
    fn port(&self) -> String {
        match (self.served.as_ref().map(|(server, _)| server.listener()), &self.place) {
            (Some(Listener::Tcp(listener)), _) => {
                listener.local_addr().map_or(String::new(), |a| a.port().to_string())
            }
            (_, Place::Tcp { port, .. }) => port.to_string(),
            _ => String::new(),
        }
    }
}

impl Element for ControlSocket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let kind: String = args.required("TYPE");
        self.settings.read_only = args.keyword("READONLY", false);
        self.settings.verbose = args.keyword("VERBOSE", false);
        let idle = args.keyword("IDLE", IDLE_S);
        self.settings.idle = (idle > 0).then(|| Duration::from_secs(idle));
        self.retries = args.keyword("RETRIES", 0);
        self.retry_warnings = args.keyword("RETRY_WARNINGS", true);
        let local = args.keyword("LOCALHOST", true);
        self.open = args.keyword("OPEN", false);
        self.token_file = args.keyword_opt::<String>("TOKEN_FILE").map(PathBuf::from);
        self.proxy = args.keyword_opt("PROXY");
        if let Some(group) = args.keyword_opt::<String>("GROUP") {
            match ctl::group(&group) {
                Ok(id) => self.group = Some(id),
                Err(why) => args.error(format!("GROUP: {why}")),
            }
        }
        if self.open && self.token_file.is_some() {
            args.error("OPEN true does without the token that TOKEN_FILE asks for; give one of them");
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
            "SOCKET" => self.place = Place::Connected(args.required("DESCRIPTOR")),
            "" => {}
            other => args.error(format!("unknown socket type '{other}'; use TCP, UNIX or SOCKET")),
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.name().clone_into(&mut self.settings.name);
        if let Some(name) = &self.proxy {
            let proxy = cx.resolve(&format!("{name}.name")).ok().and_then(|target| target.element());
            let proxy = proxy.ok_or_else(|| format!("PROXY '{name}' is not an element"))?;
            self.settings.proxy = Some(cx.router().elements[proxy].name.to_string());
        }
        self.settings.token = self.token(cx)?;
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
                Place::Connected(descriptor) => format!("descriptor {descriptor}: {}", reason(&e)),
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

    fn finish(&mut self, cx: &mut Cx<'_>) {
        if let Some((pair, _)) = self.awake.take() {
            cx.unwatch(pair.as_raw_fd());
        }
        if let Some((server, _)) = self.served.take() {
            server.end();
        }
    }
}

impl HotSwap for ControlSocket {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<ControlSocket>(old) else { return false };
        if self.served.is_some() {
            return false;
        }
        self.served = old.served.take();
        self.retries = old.retries;
        match &self.served {
            Some((_, settings)) => {
                lock(settings).clone_from(&self.settings);
                // Without it, a router with nothing else to do on simulated time ends.
                let _ = self.stay_awake(cx);
            }
            None if self.retries > 0 => cx.set_timer_after(0, SECOND),
            None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    const TEXT: &str =
        "c :: Counter; Idle -> c -> d :: Discard; Idle -> w :: Switch -> Discard; w[1] -> Discard;";

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
            ("READ e.connections\n", "200 Read handler 'e.connections' OK\r\nDATA 1\r\n1"),
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
            ("LLRPC c#c004c003 4\n\0\0\0\0", "200 LLRPC 'c#c004c003' OK\r\nDATA 4\r\n\0\0\0\0"),
            ("LLRPC c#c004c003 4\n\x07\0\0\0", "522 LLRPC 'c#c004c003' error: Invalid argument\r\n"),
            (
                "LLRPC w#4004c005\nLLRPC w#80044006 4\n\x01\0\0\0READ w.switch\n",
                "200 LLRPC 'w#4004c005' OK\r\nDATA 4\r\n\0\0\0\x00200 LLRPC 'w#80044006' OK\r\n200 Read handler 'w.switch' OK\r\nDATA 1\r\n1",
            ),
        ] {
            assert_eq!(talk("", input), want, "{input:?}");
        }
        let version = env!("CARGO_PKG_VERSION");
        let want = format!("200 Read handler 'version' OK\r\nDATA {}\r\n{version}", version.len());
        assert_eq!(talk("", "READ version\n\n"), want);
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
        check(element, "e", "READ connections\n", "200 Read handler 'connections' OK\r\nDATA 1\r\n1");
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
        let text = format!("e :: ControlSocket(TCP, {port}+, OPEN true);");
        let mut router = Rig::text(&text).ready();
        let found: u16 = router.read("e.port").parse().unwrap();
        assert!(found > port && TcpStream::connect(("127.0.0.1", found)).is_ok(), "{found}");
    }

    /// What a client that sends `input` and then reads until the end of the connection gets.
    fn ask(port: u16, input: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(input.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer.replace("Click::ControlSocket/1.3\r\n", "")
    }

    #[test]
    fn a_token_is_asked_for() {
        let temp = Temp::new();
        let (token, path) = (temp.path("token"), temp.path("socket"));
        let text = format!(
            "{TEXT} e :: ControlSocket(TCP, 0, TOKEN_FILE {token}); f :: ControlSocket(UNIX, {path});"
        );
        let mut router = Rig::text(&text).ready();
        let port = router.read("e.port").parse().unwrap();
        let token = std::fs::read_to_string(&token).unwrap();
        let token = token.trim();
        let client = std::thread::spawn({
            let (token, required) = (token.to_owned(), "530 Authentication required: begin with AUTH");
            move || {
                for input in ["READ c.count\r\n", "WRITEDATA c.reset 100000\r\nx", "HELP\r\n", "auth\r\n"] {
                    let answer = ask(port, input);
                    assert!(
                        answer.starts_with(required) || answer == "530 Wrong token\r\n",
                        "{input}: {answer}"
                    );
                }
                for wrong in ["", "x", &token[1..], &format!("{token}x")] {
                    let answer = ask(port, &format!("AUTH {wrong}\r\nREAD c.count\r\n"));
                    assert_eq!(answer, "530 Wrong token\r\n");
                }
                let answer = ask(port, &format!("AUTH {token}\r\nREAD c.count\r\nQUIT\r\n"));
                assert_eq!(
                    answer,
                    "200 Authenticated\r\n200 Read handler 'c.count' OK\r\nDATA 1\r\n0200 Goodbye!\r\n"
                );
                // A socket that asks for none has nothing against one, nor one that was let in already.
                let answer = ask(port, &format!("AUTH {token}\r\nAUTH {token}\r\nWRITE stop\r\nQUIT\r\n"));
                assert!(
                    answer.starts_with("200 Authenticated\r\n200 No token is needed\r\n200 Write"),
                    "{answer}"
                );
            }
        });
        let run = router.again();
        client.join().unwrap();
        assert!(run.printed().contains(" wrote stop (0 bytes)"), "{}", run.printed());
    }

    #[test]
    fn a_web_page_cannot_make_a_browser_write() {
        let mut router = Rig::text(&format!("{TEXT} e :: ControlSocket(TCP, 0, OPEN true);")).ready();
        let port = router.read("e.port").parse().unwrap();
        let client = std::thread::spawn(move || {
            let answer = ask(port, "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nWRITE stop\r\n");
            ask(port, "WRITE stop\r\nQUIT\r\n");
            answer
        });
        drop(router.again());
        assert_eq!(client.join().unwrap(), "501 This is no web server\r\n");
    }

    #[test]
    fn newcomers_find_a_place() {
        let temp = Temp::new();
        let path = temp.path("socket");
        let router = Rig::text(&format!("{TEXT} e :: ControlSocket(UNIX, {path});")).ready();
        let client = std::thread::spawn(move || {
            let greeted = |client: &UnixStream| {
                let mut greeting = [0; 26];
                (&*client).read_exact(&mut greeting).map(|()| client.try_clone().unwrap())
            };
            // One that has obtained something, then as many idle ones as like.
            let mut good = UnixStream::connect(&path).unwrap();
            greeted(&good).unwrap();
            good.write_all(b"READ c.name\n").unwrap();
            let mut answer = [0; 38];
            good.read_exact(&mut answer).unwrap();
            let idle: Vec<UnixStream> = (0..200)
                .map(|_| {
                    let client = UnixStream::connect(&path).unwrap();
                    let _ = greeted(&client);
                    client
                })
                .collect();
            good.write_all(b"READ e.connections\n").unwrap();
            let mut answer = [0; 48];
            good.read_exact(&mut answer).unwrap();
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(answer.ends_with("DATA 2\r\n64"), "{answer}");
            good.write_all(b"WRITE stop\n").unwrap();
            drop(idle);
        });
        drop(router.again());
        client.join().unwrap();
    }

    #[test]
    fn replies_wait_for_who_takes_them() {
        // A client that asks for ever and takes nothing: after a while the router reads no more of it, and others are served.
        let temp = Temp::new();
        let path = temp.path("socket");
        let router = Rig::text(&format!("{TEXT} e :: ControlSocket(UNIX, {path});")).ready();
        let client = std::thread::spawn(move || {
            let mut greedy = UnixStream::connect(&path).unwrap();
            greedy.set_nonblocking(true).unwrap();
            let input = "READ classes\n".repeat(1000);
            let mut sent = 0;
            // The socket's buffers are bounded, so this ends.
            let mut refused = 0;
            while refused < 1000 {
                match greedy.write(input.as_bytes()) {
                    Ok(n) => (sent, refused) = (sent + n, 0),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        refused += 1;
                        std::thread::yield_now();
                    }
                    Err(_) => break,
                }
            }
            let mut other = UnixStream::connect(&path).unwrap();
            other.write_all(b"READ c.count\nWRITE stop\nQUIT\n").unwrap();
            let mut answer = String::new();
            other.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("'c.count' OK\r\nDATA 1\r\n0200 Write handler 'stop' OK"), "{answer}");
            sent
        });
        drop(router.again());
        let sent = client.join().unwrap();
        assert!(sent < 4 << 20, "{sent} bytes were taken of a client that takes no reply");
    }

    #[test]
    fn who_writes_is_said() {
        let temp = Temp::new();
        let path = temp.path("socket");
        let router = Rig::text(&format!("{TEXT} e :: ControlSocket(UNIX, {path});")).ready();
        let client = std::thread::spawn(move || {
            let mut client = UnixStream::connect(&path).unwrap();
            client
                .write_all(b"WRITE c.reset\nWRITE d.active maybe\nREAD c.count\nWRITE stop\nQUIT\n")
                .unwrap();
            client.read_to_string(&mut String::new()).unwrap();
        });
        let run = router.again();
        client.join().unwrap();
        let (user, process) = (rustix::process::geteuid().as_raw(), std::process::id());
        let who = format!("e: uid {user} gid {} pid {process}", rustix::process::getegid().as_raw());
        let want = ["wrote c.reset (0 bytes)", "failed to write d.active (5 bytes)", "wrote stop (0 bytes)"];
        assert_eq!(run.printed(), want.map(|what| format!("{who} {what}\n")).concat());
    }

    #[test]
    fn a_file_in_the_way_stays() {
        let temp = Temp::new();
        let path = temp.path("socket");
        std::fs::write(&path, "precious").unwrap();
        let errors = Rig::text(&format!("e :: ControlSocket(UNIX, {path});")).errors();
        assert!(errors[0].contains("there is a file that is no socket"), "{errors:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |args: &str| Rig::text(&format!("e :: ControlSocket({args});")).errors();
        assert_eq!(
            error("SCTP, 5"),
            ["e: unknown socket type 'SCTP'; use TCP, UNIX or SOCKET", "e: too many arguments: '5'"]
        );
        assert_eq!(error("TCP, x"), ["e: PORT should be a port number, or one and a plus sign, not 'x'"]);
        assert_eq!(
            error("UNIX, /nonexistent/s"),
            ["'e' could not start: /nonexistent/s: No such file or directory"]
        );
        let bare = error("TCP, 0");
        assert!(bare[0].contains("give TOKEN_FILE, or OPEN true"), "{bare:?}");
        let both = error("TCP, 0, OPEN true, TOKEN_FILE /tmp/t");
        assert!(both[0].contains("give one of them"), "{both:?}");
        assert_eq!(
            error("UNIX, /tmp/s, GROUP no-such-group"),
            ["e: GROUP: there is no group 'no-such-group'"]
        );
        let proxy = error("TCP, 0, OPEN true, PROXY nobody");
        assert_eq!(proxy, ["'e' could not start: PROXY 'nobody' is not an element"]);
        assert_eq!(error("UNIX"), ["e: missing argument FILENAME: a string"]);
    }
}
