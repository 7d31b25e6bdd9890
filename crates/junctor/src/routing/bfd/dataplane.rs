// SPDX-License-Identifier: MIT OR Apache-2.0
//! bfdd's sessions in a router: messages of bfdd on one side, handlers of the BFD element on the other.
//!
//! Sessions outlive this command and bfdd. When this command has connected again, bfdd names its sessions anew, and those that it does not name end.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ::bfd::dataplane::{Asked, MESSAGE_MAX, Request, counters, echo_reply, message_len, state_change};
use ::bfd::{Diagnostic, Remote, State};
use serde_json::Value;

use super::{Args, client, read};
use crate::ctl::{Client, Failure};

/// How often the router is asked whether a session has changed.
const LOOK: Duration = Duration::from_millis(10);
/// How often sessions are compared although none has changed its state: their neighbours' intervals may be new.
const COMPARE: Duration = Duration::from_millis(500);
/// How long bfdd may take to name its sessions after it has connected.
const NAMING: Duration = Duration::from_secs(10);
/// The pause before a lost router is looked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// A session as bfdd asked for it, by its discriminator.
type Known = HashMap<u32, Asked>;

/// Connects to bfdd, and again when it has ended.
pub(super) fn serve(place: &Path, args: &Args) -> ! {
    let (mut known, mut last) = (Known::new(), String::new());
    loop {
        let stream = UnixStream::connect(place).map_err(|why| format!("{}: {why}", place.display()));
        if let Err(why) = stream.and_then(|stream| converse(stream, args, &mut known))
            && why != last
        {
            errln!("junctor: bfdd: {why}; trying again");
            last = why;
        }
        std::thread::sleep(PAUSE);
    }
}

/// One connection of bfdd.
struct Conversation<'a> {
    stream: UnixStream,
    element: &'a str,
    router: Client,
    known: &'a mut Known,
    /// What bfdd has been told of each session.
    told: HashMap<u32, Vec<u8>>,
    /// Sessions from before, which bfdd has not named yet.
    stale: Known,
    changes: String,
    compared: Instant,
}

fn converse(stream: UnixStream, args: &Args, known: &mut Known) -> Result<(), String> {
    let failed = |why: std::io::Error| why.to_string();
    stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
    stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    let router = client(args).map_err(said)?;
    let stale = std::mem::take(known);
    let mut conversation = Conversation {
        stream,
        element: &args.element,
        router,
        known,
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

fn said(failure: Failure) -> String {
    failure.into_words().0
}

impl Conversation<'_> {
    fn run(&mut self) -> Result<(), String> {
        let (mut waiting, mut part, began) = (Vec::new(), [0; 4096], Instant::now());
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err("it has closed the connection".into()),
                Ok(n) => waiting.extend_from_slice(&part[..n]),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why.to_string()),
            }
            while let Some(len) = message_len(&waiting).map_err(|why| why.to_string())? {
                let Some(message) = waiting.get(..len) else { break };
                let (request, id) = Request::read(message).map_err(|why| why.to_string())?;
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

    fn request(&mut self, request: Request, id: u16) -> Result<(), String> {
        match request {
            Request::Echo { times } => self.send(&echo_reply(id, times)),
            Request::Add(mut asked) => {
                complete(&mut asked);
                // A bfdd that was started again numbers its sessions anew.
                let place = (asked.neighbour, link(&asked));
                self.stale.retain(|_, old| (old.neighbour, link(old)) != place);
                self.told.remove(&asked.discriminator);
                let text = session(&asked);
                let handler = format!("{}.set", self.element);
                match self.router.write(&handler, &text) {
                    Ok(_) => _ = self.known.insert(asked.discriminator, asked),
                    // bfdd shows it as down.
                    Err(Failure::Refused(_, why)) => errln!("junctor: bfdd's session '{text}': {why}"),
                    Err(why) => return Err(said(why)),
                }
                self.changes.clear();
                Ok(())
            }
            Request::Delete(asked) => {
                let known = self.known.remove(&asked.discriminator);
                self.told.remove(&asked.discriminator);
                self.remove(&known.unwrap_or(asked))
            }
            Request::Counters { discriminator } => {
                let sessions = read(&mut self.router, self.element).map_err(said)?;
                let found = find(&sessions, discriminator);
                let count = |name: &str| found.and_then(|session| session[name].as_u64()).unwrap_or(0);
                let control = ["bytes-input", "packet-input", "bytes-output", "packet-output"]
                    .map(|name| count(&format!("control-{name}")));
                let echo = [0, 0, 0, count("echo-packet-output")];
                self.send(&counters(id, discriminator, control, echo))
            }
            Request::Other(_) => Ok(()),
        }
    }

    fn remove(&mut self, asked: &Asked) -> Result<(), String> {
        let value = format!("{} {}", asked.neighbour, link(asked));
        match self.router.write(&format!("{}.remove", self.element), &value) {
            // Somebody has removed it before.
            Ok(_) | Err(Failure::Refused(..)) => Ok(()),
            Err(why) => Err(said(why)),
        }
    }

    /// Tells bfdd what has changed.
    fn report(&mut self) -> Result<(), String> {
        let changes = self.router.read(&format!("{}.changes", self.element)).map_err(said)?;
        if changes == self.changes && self.compared.elapsed() < COMPARE {
            return Ok(());
        }
        (self.changes, self.compared) = (changes, Instant::now());
        let sessions = read(&mut self.router, self.element).map_err(said)?;
        let known: Vec<u32> = self.known.keys().copied().collect();
        for discriminator in known {
            let Some((state, remote)) = find(&sessions, discriminator).map(state) else { continue };
            let message = state_change(discriminator, state, &remote);
            if self.told.get(&discriminator) != Some(&message) {
                self.send(&message)?;
                self.told.insert(discriminator, message);
            }
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        self.stream.write_all(message).map_err(|why| why.to_string())
    }
}

fn find(sessions: &Value, discriminator: u32) -> Option<&Value> {
    sessions.as_array()?.iter().find(|session| session["id"] == discriminator)
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
        socket.connect((asked.neighbour, ::bfd::PORT_SINGLE_HOP))?;
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

/// A session as the BFD element reads it.
fn session(asked: &Asked) -> String {
    let Asked { neighbour, local, min_tx_us, min_rx_us, detect_mult, discriminator, .. } = asked;
    let mut text = format!(
        "{neighbour} {local} {} TX {min_tx_us}us RX {min_rx_us}us MULT {detect_mult} DISCRIMINATOR {discriminator}",
        link(asked)
    );
    if asked.multi_hop && asked.ttl > 0 {
        text += &format!(" TTL {}", asked.ttl);
    }
    if asked.echo {
        text += &format!(" ECHO {}us", asked.min_echo_rx_us);
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
