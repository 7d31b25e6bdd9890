// SPDX-License-Identifier: MIT OR Apache-2.0
//! bfdd's sessions in a router: messages of bfdd on one side, handlers of the BFD element on the other.
//!
//! Sessions outlive this command and bfdd. When this command has connected again, bfdd names its sessions anew, and those that it does not name end.
//! A session that the router has already goes on under the number that its neighbour knows, even if a new bfdd gives it another one. So the neighbour
//! does not notice that bfdd has died. A session is therefore found by its neighbour and link.
//!
//! What the router refuses is tried again: it may be busy, or may get the link later.
//!
//! A bfdd that has just started does not know its interfaces yet: zebra reports them a moment later. To a data plane that has connected before, bfdd
//! names sessions without interface, and never again with it. So this command then hangs up and connects once more.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use bfd::dataplane::{Asked, MESSAGE_MAX, Request, counters, echo_reply, message_len, state_change};
use bfd::{Diagnostic, Remote, State, returns_no_echo};
use serde_json::Value;

use client::{Client, Failure};

/// How often the router is asked whether a session has changed.
const LOOK: Duration = Duration::from_millis(10);
/// How often sessions are compared although none has changed its state: their neighbours' intervals may be new.
const COMPARE: Duration = Duration::from_millis(500);
/// How long bfdd may take to name its sessions after it has connected.
const NAMING: Duration = Duration::from_secs(10);
/// The pause before a connection is tried again. A bfdd without this command runs sessions itself after some 750 ms, and disturbs the router's.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause before a bfdd that does not know its interfaces yet is asked again, and how often that is done.
const LEARNING: Duration = Duration::from_millis(300);
const LEARNING_TIMES: u32 = 20;

/// Why a connection of bfdd has ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// There is no bfdd.
    #[error("{place}: {why}")]
    Socket {
        /// Its socket.
        place: String,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// Nothing can be sent or received.
    #[error(transparent)]
    Stream(#[from] io::Error),
    #[error("it has closed the connection")]
    Closed,
    #[error(transparent)]
    Message(#[from] bfd::dataplane::Malformed),
    #[error("it does not know the interface of {0} yet")]
    NoInterface(IpAddr),
    /// The router does not answer.
    #[error(transparent)]
    Router(#[from] Failure),
}

/// The router whose BFD element runs sessions.
#[derive(Clone, Debug)]
pub struct BfdElement {
    /// The router.
    pub router: client::Which,
    /// The element's name.
    pub element: String,
}

impl BfdElement {
    fn connect(&self) -> Result<Client, Failure> {
        Client::new(client::find(&self.router)?).map_err(client::lost)
    }

    /// The sessions, with the names of FRR's `show bfd peers json`.
    ///
    /// # Errors
    /// The router, or that it has no such element.
    pub fn sessions(&self) -> Result<Value, Failure> {
        read(&mut self.connect()?, &self.element)
    }
}

fn read(client: &mut Client, element: &str) -> Result<Value, Failure> {
    let text = client.read(&format!("{element}.json"))?;
    let nonsense =
        |why: serde_json::Error| Failure::Unreachable(format!("the router answers nonsense: {why}"));
    serde_json::from_str(&text).map_err(nonsense)
}

/// A session as bfdd asked for it, by its discriminator.
type Known = HashMap<u32, Asked>;

/// Connects to bfdd at this socket, and again when it has ended, and runs its sessions in a router.
pub fn serve(socket: &Path, router: &BfdElement) -> ! {
    let (mut known, mut last, mut learning) = (Known::new(), String::new(), 0);
    loop {
        let refused = |why| Broken::Socket { place: socket.display().to_string(), why };
        let stream = UnixStream::connect(socket).map_err(refused);
        let before = learning;
        let ended = stream.and_then(|stream| converse(stream, router, &mut known, &mut learning));
        if let Some(why) = ended.err().map(|why| why.to_string()).filter(|why| *why != last) {
            errln!("junctor: bfdd: {why}; trying again");
            last = why;
        }
        if learning == before {
            learning = 0;
        }
        std::thread::sleep(if learning > 0 { LEARNING } else { PAUSE });
    }
}

/// One connection of bfdd.
struct Conversation<'a> {
    stream: UnixStream,
    element: &'a str,
    router: Client,
    known: &'a mut Known,
    /// Why the router has refused sessions.
    refused: HashMap<u32, String>,
    /// How often in a row bfdd did not know its interfaces.
    learning: &'a mut u32,
    /// The last report to bfdd of each session.
    told: HashMap<u32, Vec<u8>>,
    /// Sessions from before, which bfdd has not named yet.
    stale: Known,
    changes: String,
    compared: Instant,
}

fn converse(
    stream: UnixStream,
    place: &BfdElement,
    known: &mut Known,
    learning: &mut u32,
) -> Result<(), Broken> {
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let router = place.connect()?;
    let stale = std::mem::take(known);
    let mut conversation = Conversation {
        stream,
        element: &place.element,
        router,
        known,
        refused: HashMap::new(),
        learning,
        told: HashMap::new(),
        stale,
        changes: String::new(),
        compared: Instant::now(),
    };
    let outcome = conversation.run();
    let left = std::mem::take(&mut conversation.stale);
    for (discriminator, asked) in left {
        conversation.known.entry(discriminator).or_insert(asked);
    }
    outcome
}

impl Conversation<'_> {
    fn run(&mut self) -> Result<(), Broken> {
        let (mut waiting, mut part, began) = (Vec::new(), [0; 4096], Instant::now());
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(Broken::Closed),
                Ok(n) => waiting.extend_from_slice(&part[..n]),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why.into()),
            }
            while let Some(len) = message_len(&waiting)? {
                let Some(message) = waiting.get(..len) else { break };
                let (request, id) = Request::read(message)?;
                waiting.drain(..len);
                self.request(request, id)?;
            }
            debug_assert!(waiting.len() <= MESSAGE_MAX, "less than a message waits");
            self.report()?;
            if began.elapsed() > NAMING {
                for (_, asked) in std::mem::take(&mut self.stale) {
                    self.remove(&asked)?;
                }
            }
        }
    }

    fn request(&mut self, request: Request, id: u16) -> Result<(), Broken> {
        match request {
            Request::Echo { times } => self.send(&echo_reply(id, times)),
            Request::Add(mut asked) => {
                complete(&mut asked);
                if lacks_link(&asked) && *self.learning < LEARNING_TIMES {
                    *self.learning += 1;
                    return Err(Broken::NoInterface(asked.neighbour));
                }
                // A bfdd that was started again numbers its sessions anew.
                self.stale.retain(|_, old| place(old) != place(&asked));
                self.told.remove(&asked.discriminator);
                self.put(asked)
            }
            Request::Delete(asked) => {
                let known = self.known.remove(&asked.discriminator);
                self.told.remove(&asked.discriminator);
                self.refused.remove(&asked.discriminator);
                self.remove(&known.unwrap_or(asked))
            }
            Request::Counters { discriminator } => {
                let sessions = read(&mut self.router, self.element)?;
                let found = self.known.get(&discriminator).and_then(|asked| find(&sessions, asked));
                let count = |name: &str| found.and_then(|session| session[name].as_u64()).unwrap_or(0);
                let control = ["bytes-input", "packet-input", "bytes-output", "packet-output"]
                    .map(|name| count(&format!("control-{name}")));
                let echo = [0, count("echo-packet-input"), 0, count("echo-packet-output")];
                self.send(&counters(id, discriminator, control, echo))
            }
            Request::Other(_) => Ok(()),
        }
    }

    /// Gives a session to the router.
    fn put(&mut self, asked: Asked) -> Result<(), Broken> {
        let number = asked.discriminator;
        let has_link = match lacks_link(&asked) {
            true => Err(Failure::Refused(0, "bfdd names no interface".into())),
            false => Ok(()),
        };
        let done = has_link.and_then(|()| read(&mut self.router, self.element)).and_then(|sessions| {
            let text = session(&asked, find(&sessions, &asked).is_none());
            self.router.write(&format!("{}.set", self.element), &text)
        });
        match done {
            Ok(_) => _ = self.refused.remove(&number),
            // bfdd shows it as down meanwhile.
            Err(Failure::Refused(_, why)) => {
                if self.refused.get(&number) != Some(&why) {
                    errln!("junctor: bfdd's session '{}': {why}; trying again", session(&asked, true));
                }
                self.refused.insert(number, why);
            }
            Err(why) => return Err(why.into()),
        }
        self.known.insert(number, asked);
        self.changes.clear();
        Ok(())
    }

    /// Tries again what the router has refused.
    fn put_again(&mut self) -> Result<(), Broken> {
        let refused: Vec<u32> = self.refused.keys().copied().collect();
        refused.iter().try_for_each(|number| match self.known.get(number).cloned() {
            Some(mut asked) => {
                complete(&mut asked);
                self.put(asked)
            }
            None => Ok(()),
        })
    }

    /// Ends a session, unless bfdd has named it anew.
    fn remove(&mut self, asked: &Asked) -> Result<(), Broken> {
        if self.known.values().any(|known| place(known) == place(asked)) {
            return Ok(());
        }
        let value = match asked.multi_hop {
            true => format!("{} {} -", asked.neighbour, asked.local),
            false => format!("{} {}", asked.neighbour, link(asked)),
        };
        match self.router.write(&format!("{}.remove", self.element), &value) {
            // Somebody has removed it before.
            Ok(_) | Err(Failure::Refused(..)) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Reports to bfdd what has changed.
    fn report(&mut self) -> Result<(), Broken> {
        // A router that is busy for once is asked again.
        let Some(changes) = answered(self.router.read(&format!("{}.changes", self.element)))? else {
            return Ok(());
        };
        let is_time = self.compared.elapsed() >= COMPARE;
        if changes == self.changes && !is_time {
            return Ok(());
        }
        if is_time {
            self.put_again()?;
        }
        let Some(sessions) = answered(read(&mut self.router, self.element))? else { return Ok(()) };
        (self.changes, self.compared) = (changes, Instant::now());
        let known: Vec<(u32, Asked)> =
            self.known.iter().map(|(number, asked)| (*number, asked.clone())).collect();
        for (discriminator, asked) in known {
            let Some((state, remote)) = find(&sessions, &asked).map(state) else { continue };
            let message = state_change(discriminator, state, &remote);
            if self.told.get(&discriminator) != Some(&message) {
                self.send(&message)?;
                self.told.insert(discriminator, message);
            }
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        Ok(self.stream.write_all(message)?)
    }
}

/// The router's answer; `None` where it has refused.
fn answered<T>(answer: Result<T, Failure>) -> Result<Option<T>, Broken> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Refused(..)) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Whether a session over one hop has no interface.
fn lacks_link(asked: &Asked) -> bool {
    !asked.multi_hop && asked.interface.is_empty()
}

/// What distinguishes sessions of a router: the neighbour, and its link or, over several hops, the own address.
fn place(asked: &Asked) -> (IpAddr, &str, Option<IpAddr>) {
    (asked.neighbour, link(asked), asked.multi_hop.then_some(asked.local))
}

/// The router's session in the place of one of bfdd's.
fn find<'v>(sessions: &'v Value, asked: &Asked) -> Option<&'v Value> {
    let (neighbour, link, local) = place(asked);
    let (neighbour, local) = (neighbour.to_string(), local.map(|local| local.to_string()));
    let is_it = |session: &&Value| {
        session["peer"] == neighbour.as_str()
            && session["interface"].as_str().unwrap_or("-") == link
            && local
                .as_ref()
                .is_none_or(|local| session["local"] == local.as_str() && session["vrf"] == "default")
    };
    sessions.as_array()?.iter().find(is_it)
}

/// The state of a session, and what its neighbour said last.
fn state(session: &Value) -> (State, Remote) {
    let state = |name: &str| match session[name].as_str() {
        Some("up") => State::Up,
        Some("init") => State::Init,
        Some("shutdown") => State::AdminDown,
        _ => State::Down,
    };
    let number = |name: &str| session[name].as_u64().unwrap_or(0);
    let micros = |name: &str| (session[name].as_f64().unwrap_or(0.0) * 1000.0).round() as u32;
    let remote = Remote {
        discriminator: number("remote-id") as u32,
        state: state("remote-status"),
        diagnostic: Diagnostic(number("remote-diagnostic-code") as u8),
        control_plane_independent: session["remote-cbit"] == true,
        demand: false,
        detect_mult: number("remote-detect-multiplier") as u8,
        desired_min_tx_us: micros("remote-transmit-interval"),
        required_min_rx_us: micros("remote-receive-interval"),
        required_min_echo_rx_us: micros("remote-echo-receive-interval"),
    };
    (state("status"), remote)
}

/// Fills in the own address and the link where bfdd leaves them to the kernel, as for sessions of bgpd: those that this namespace has
/// towards the neighbour.
fn complete(asked: &mut Asked) {
    if !asked.local.is_unspecified() && (asked.multi_hop || !asked.interface.is_empty()) {
        return;
    }
    let any: IpAddr = match asked.neighbour {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the kernel chooses an address.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((asked.neighbour, bfd::PORT_SINGLE_HOP))?;
        socket.local_addr()
    });
    let Ok(chosen) = chosen.map(|address| address.ip()) else { return };
    if asked.local.is_unspecified() {
        asked.local = chosen;
    }
    let has = |interface: &nix::ifaddrs::InterfaceAddress| {
        let address = interface.address.as_ref();
        let four = address.and_then(|a| a.as_sockaddr_in()).map(|a| IpAddr::from(a.ip()));
        let six = address.and_then(|a| a.as_sockaddr_in6()).map(|a| IpAddr::from(a.ip()));
        four.or(six) == Some(asked.local)
    };
    let found = nix::ifaddrs::getifaddrs().ok().and_then(|mut all| all.find(has));
    if let Some(interface) = found.filter(|_| !asked.multi_hop && asked.interface.is_empty()) {
        asked.interface = interface.interface_name;
    }
}

/// The link of a session, as handlers have it.
fn link(asked: &Asked) -> &str {
    if asked.multi_hop || asked.interface.is_empty() { "-" } else { &asked.interface }
}

/// A session as the BFD element reads it. A new one gets bfdd's number.
fn session(asked: &Asked, is_new: bool) -> String {
    let Asked { neighbour, local, min_tx_us, min_rx_us, detect_mult, discriminator, .. } = asked;
    let link = link(asked);
    let mut text = format!("{neighbour} {local} {link} TX {min_tx_us}us RX {min_rx_us}us MULT {detect_mult}");
    if is_new {
        text += &format!(" DISCRIMINATOR {discriminator}");
    }
    if asked.multi_hop && asked.ttl > 0 {
        text += &format!(" TTL {}", asked.ttl);
    }
    if asked.echo && !asked.multi_hop {
        text += &format!(" ECHO {}us", asked.min_echo_rx_us);
        if asked.min_echo_tx_us > 0 && !returns_no_echo(asked.local) {
            text += &format!(" ECHO_TX {}us", asked.min_echo_tx_us);
        }
    }
    let words = [(asked.passive, " PASSIVE"), (!asked.independent, " DEPENDENT"), (asked.shutdown, " DOWN")];
    words.into_iter().filter(|(is, _)| *is).for_each(|(_, word)| text += word);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bfdd_leaves_open_is_found() {
        let asked = Asked {
            discriminator: 7,
            neighbour: Ipv4Addr::LOCALHOST.into(),
            local: Ipv4Addr::UNSPECIFIED.into(),
            multi_hop: false,
            passive: false,
            independent: false,
            echo: false,
            shutdown: false,
            min_tx_us: 50_000,
            min_rx_us: 50_000,
            min_echo_tx_us: 0,
            min_echo_rx_us: 0,
            ttl: 255,
            detect_mult: 3,
            interface: String::new(),
        };
        let mut found = asked.clone();
        complete(&mut found);
        assert_eq!((found.local, &*found.interface), (Ipv4Addr::LOCALHOST.into(), "lo"));
        let mut several = Asked { multi_hop: true, ..asked };
        complete(&mut several);
        assert_eq!((several.local, link(&several)), (Ipv4Addr::LOCALHOST.into(), "-"));
    }
}
