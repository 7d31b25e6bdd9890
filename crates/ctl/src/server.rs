// SPDX-License-Identifier: MIT OR Apache-2.0
//! A control socket with its clients, served by threads of their own.
//!
//! What one client can cost is bounded:
//!
//! * *Memory.* A client's next command waits until its reply has been taken. All clients together hold at most [`MOST_HELD`],
//!   and the first MiB of each.
//! * *Work.* At most [`MOST_CALLS`] handler calls run at a time. In the long run they take a quarter of a processor, with what
//!   workers do for them ([`Allowance`]).
//! * *Time.* A client is disconnected if it sends nothing for [`Rules::idle`], does not end a command, leaves a reply unread, or
//!   does not show the token.
//! * *Places.* When all are taken, a newcomer replaces a client that has obtained nothing yet. If there is none, it replaces the
//!   client that has been idle for longest.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use sync::mutex::lock;
use zeroize::Zeroize as _;

use crate::places::{Listener, Peer, Stream};
use crate::{Handlers, Policy, Session, Token};
use element::{Access, HandlerError, Llrpc};

/// Bytes that all clients may hold, before those of more than [`OWN_SHARE`] are refused.
const MOST_HELD: usize = 64 << 20;
const OWN_SHARE: usize = 1 << 20;
/// Handler calls at a time.
const MOST_CALLS: usize = 4;
/// How long a client may let a reply wait, and how fast it has to take a long one.
const PATIENCE: Duration = Duration::from_secs(5);
const SLOWEST_BYTES_PER_S: u64 = 64 << 10;
/// How long a command may take to come, from its first byte to its last.
const TO_END_A_COMMAND: Duration = Duration::from_secs(120);
/// How long a client may take to show its token.
const TO_SHOW_THE_TOKEN: Duration = Duration::from_secs(10);
/// How long the end of the router waits for the replies under way.
const TO_TAKE_LEAVE: Duration = Duration::from_secs(1);

/// What clients of a socket may do. It is asked for each connection.
#[derive(Clone, Debug)]
pub struct Rules {
    /// They may not write.
    pub read_only: bool,
    /// What they have to show first.
    pub token: Option<Arc<Token>>,
    /// How long they may say nothing; `None`: for ever, unless their place is needed.
    pub idle: Option<Duration>,
    /// How many there may be at a time.
    pub most: usize,
    /// Report connections.
    pub verbose: bool,
}

/// What a server offers.
pub trait Service: Send + Sync {
    /// The rules for a connection that begins now.
    fn rules(&self) -> Rules;

    /// The handlers that a connection may call. The time that workers spend on calls is added to `spent_ns`.
    fn handlers(&self, spent_ns: &Arc<AtomicU64>) -> Box<dyn Handlers>;

    /// Whether clients may take a part of the processors only.
    fn is_paced(&self) -> bool {
        true
    }

    /// Says something to the user.
    fn say(&self, text: &str);

    /// A client has written a handler, or failed to. The name is as the client wrote it.
    fn wrote(&self, name: &str, bytes: usize, peer: &str, done: bool) {
        if !Policy::of_process().as_click {
            let done = if done { "wrote" } else { "failed to write" };
            self.say(&format!("{peer} {done} {} ({bytes} bytes)", name.escape_debug()));
        }
    }
}

/// Time that the socket may take of processors: it grows as time passes, and is spent by what clients make us do.
#[derive(Debug)]
struct Allowance {
    at: Instant,
    left_ns: i64,
}

impl Allowance {
    /// What may be spent at once.
    const BURST_NS: i64 = 100_000_000;
    /// What one call may owe: the others should not have to wait for it long.
    const DEBT_NS: i64 = 250_000_000;
    /// Of the time that passes, the part that may be spent in the long run is one in so many.
    const PART: u128 = 4;

    fn new(at: Instant) -> Allowance {
        Allowance { at, left_ns: Allowance::BURST_NS }
    }

    /// Spends so much; returns how long to wait until the next may be spent.
    fn spend(&mut self, now: Instant, spent_ns: u64) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_nanos() / Allowance::PART;
        self.at = now;
        let grown =
            self.left_ns.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)).min(Allowance::BURST_NS);
        let spent = i64::try_from(spent_ns).unwrap_or(i64::MAX);
        self.left_ns = grown.saturating_sub(spent).max(-Allowance::DEBT_NS);
        Duration::from_nanos(self.left_ns.min(0).unsigned_abs() * Allowance::PART as u64)
    }
}

/// A connection, as the others see it.
struct Client {
    stream: Arc<Stream>,
    /// It has obtained something.
    obeyed: bool,
    /// When its last command was done; `None` while one is.
    idle_since: Option<Instant>,
    /// It has been sent away.
    leaving: bool,
}

#[derive(Default)]
struct Clients {
    by_number: BTreeMap<u64, Client>,
    next: u64,
    /// When it was last said that there is no room.
    told_full: Option<Instant>,
}

struct Common {
    service: Arc<dyn Service>,
    listener: Listener,
    clients: Mutex<Clients>,
    /// A client has gone.
    gone: Condvar,
    calls: Mutex<usize>,
    called: Condvar,
    held: AtomicUsize,
    allowance: Mutex<Allowance>,
    /// Worker time that calls have taken.
    spent_ns: Arc<AtomicU64>,
    paced: bool,
}

/// A socket that is served until this is dropped.
pub struct Server(Arc<Common>);

impl Server {
    /// Serves a socket.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(listener: Listener, service: Arc<dyn Service>) -> io::Result<Server> {
        let common = Arc::new(Common {
            paced: service.is_paced(),
            service,
            listener,
            clients: Mutex::default(),
            gone: Condvar::new(),
            calls: Mutex::new(0),
            called: Condvar::new(),
            held: AtomicUsize::new(0),
            allowance: Mutex::new(Allowance::new(Instant::now())),
            spent_ns: Arc::default(),
        });
        if let Some((stream, peer)) = common.listener.first()? {
            common.welcome(stream, &peer);
            return Ok(Server(common));
        }
        let body = common.clone();
        thread(move || body.accept())?;
        Ok(Server(common))
    }

    /// Where clients come from.
    pub fn listener(&self) -> &Listener {
        &self.0.listener
    }

    /// How many clients there are.
    pub fn connections(&self) -> usize {
        lock(&self.0.clients).by_number.values().filter(|c| !c.leaving).count()
    }
}

impl Drop for Server {
    /// Takes no more clients, and sends away those that are there.
    fn drop(&mut self) {
        self.take_no_more();
        lock(&self.0.clients).by_number.values().for_each(Client::send_away);
    }
}

impl Server {
    fn take_no_more(&self) {
        if !matches!(self.0.listener, Listener::Connected(_)) {
            let _ = rustix::net::shutdown(&self.0.listener, Shutdown::Both);
        }
        if let Listener::Unix(_, file) = &self.0.listener {
            file.remove();
        }
    }

    /// Ends it, but waits a moment until clients have the replies to what they have asked: for the end of the router, which one of
    /// them may have ordered.
    pub fn end(self) {
        self.take_no_more();
        let until = Instant::now() + TO_TAKE_LEAVE;
        let mut clients = lock(&self.0.clients);
        for client in clients.by_number.values() {
            let _ = rustix::net::shutdown(&*client.stream, Shutdown::Read);
        }
        while !clients.by_number.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            clients = self.0.gone.wait_timeout(clients, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

/// A thread that may run wherever the process may, not only where the worker does that has started it, and that comes before
/// workers that never sleep.
fn thread(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body = move || {
        let _ = sync::priority::before_workers();
        let allowed = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
        let _ = allowed.and_then(|cpus| rustix::thread::sched_setaffinity(None, &cpus));
        body();
    };
    std::thread::Builder::new().name("control".into()).spawn(body).map(drop)
}

impl Client {
    fn send_away(&self) {
        let _ = rustix::net::shutdown(&*self.stream, Shutdown::Both);
    }
}

impl Common {
    fn accept(self: &Arc<Self>) {
        loop {
            let before = element::clock::thread_cpu_ns();
            match self.listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, &peer),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // The end.
                Err(e) if e.kind() == ErrorKind::InvalidInput => return,
                Err(_) => {
                    // Out of descriptors, most likely: one that idles has one too many.
                    let mut clients = lock(&self.clients);
                    Common::send_one_away(&mut clients);
                    drop(clients);
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            self.pay(element::clock::thread_cpu_ns().saturating_sub(before));
        }
    }

    fn welcome(self: &Arc<Self>, stream: Stream, peer: &Peer) {
        let rules = self.service.rules();
        let mut clients = lock(&self.clients);
        if !self.make_room(&mut clients, rules.most) {
            let now = Instant::now();
            if clients.told_full.is_none_or(|told| now - told > PATIENCE) {
                clients.told_full = Some(now);
                self.service.say(&format!("refused a connection from {}: there are too many", peer.0));
            }
            return;
        }
        let number = clients.next;
        clients.next += 1;
        let stream = Arc::new(stream);
        let idle_since = Some(Instant::now());
        let client = Client { stream: stream.clone(), obeyed: false, idle_since, leaving: false };
        clients.by_number.insert(number, client);
        drop(clients);
        let (common, peer) = (self.clone(), peer.clone());
        let verbose = rules.verbose;
        if verbose {
            self.service.say(&format!("opened connection {number} from {}", peer.0));
        }
        let started = thread(move || {
            Conversation::new(&common, number, &stream, peer, rules).hold();
            common.leave(number);
            if verbose {
                common.service.say(&format!("closed connection {number}"));
            }
        });
        if started.is_err() {
            self.leave(number);
        }
    }

    fn leave(&self, number: u64) {
        lock(&self.clients).by_number.remove(&number);
        self.gone.notify_all();
    }

    /// Makes room for one more of `most` clients. Returns whether there is any.
    fn make_room(&self, clients: &mut Clients, most: usize) -> bool {
        let staying = clients.by_number.values().filter(|c| !c.leaving).count();
        // Those that are leaving have a thread each until they have left; newcomers do not pile up behind them.
        clients.by_number.len() < 2 * most.max(1) && (staying < most || Common::send_one_away(clients))
    }

    /// Sends the client away that can best be spared. Returns whether there was one.
    fn send_one_away(clients: &mut Clients) -> bool {
        let idle = clients.by_number.values_mut().filter(|c| !c.leaving && c.idle_since.is_some());
        let Some(last) = idle.min_by_key(|c| (c.obeyed, c.idle_since)) else { return false };
        last.leaving = true;
        last.send_away();
        true
    }

    /// Pays for processor time, ours and what workers have spent for us, by waiting.
    fn pay(&self, ours_ns: u64) {
        if !self.paced {
            return;
        }
        let spent = ours_ns + self.spent_ns.swap(0, Relaxed);
        let wait = lock(&self.allowance).spend(Instant::now(), spent);
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    /// Does something when fewer than [`MOST_CALLS`] others do.
    fn call<R>(&self, f: impl FnOnce() -> R) -> R {
        let mut calls = lock(&self.calls);
        while *calls >= MOST_CALLS {
            calls = self.called.wait(calls).unwrap_or_else(|e| e.into_inner());
        }
        *calls += 1;
        drop(calls);
        let done = f();
        *lock(&self.calls) -= 1;
        self.called.notify_one();
        done
    }
}

/// One client's connection.
struct Conversation<'a> {
    common: &'a Common,
    number: u64,
    stream: &'a Stream,
    peer: Peer,
    session: Session,
    idle: Option<Duration>,
    opened: Instant,
    /// When the last command was done.
    done_at: Instant,
    /// When the command that has partly come began.
    begun_at: Option<Instant>,
    /// What this one holds of all that is held.
    held: usize,
    /// The client takes no replies any more. What it sent before it left is obeyed.
    deaf: bool,
    /// It has left without reading all of our replies.
    reset: bool,
}

const NO_ROOM: &str = "other connections hold too much that they have not taken; try again";

impl<'a> Conversation<'a> {
    fn new(
        common: &'a Common,
        number: u64,
        stream: &'a Stream,
        peer: Peer,
        rules: Rules,
    ) -> Conversation<'a> {
        let session = Session::new(rules.read_only, rules.token);
        let now = Instant::now();
        Conversation {
            common,
            number,
            stream,
            peer,
            session,
            idle: rules.idle,
            opened: now,
            done_at: now,
            begun_at: None,
            held: 0,
            deaf: false,
            reset: false,
        }
    }

    /// Until one of us ends it.
    fn hold(mut self) {
        let _ = self.converse();
        self.account(0);
        let _ = rustix::net::shutdown(self.stream, Shutdown::Both);
    }

    fn converse(&mut self) -> io::Result<()> {
        let handlers = self.common.service.handlers(&self.common.spent_ns);
        let mut handlers = Watched { handlers, common: self.common, peer: self.peer.0.clone(), grown: 0 };
        // Not on the stack, where keys would stay that a client has written.
        let mut bytes = vec![0; 4096];
        loop {
            let before = element::clock::thread_cpu_ns();
            self.obey(&mut handlers)?;
            if self.session.is_done() {
                return Ok(());
            }
            self.common.pay(element::clock::thread_cpu_ns().saturating_sub(before));
            match self.receive(&mut bytes) {
                Ok(0) => self.session.end(),
                Ok(n) => {
                    self.session.receive(&bytes[..n]);
                    bytes[..n].zeroize();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The reset is reported once; data that came before it can still be read.
                Err(e) if e.kind() == ErrorKind::ConnectionReset && !self.reset => self.reset = true,
                Err(e) => return Err(e),
            }
            self.account(self.session.held());
            if self.held > OWN_SHARE && self.common.held.load(Relaxed) > MOST_HELD {
                self.session.refuse(521, "Too much data: other connections hold much, too");
            }
        }
    }

    /// Executes the commands that have come, each when the reply to the one before has been taken.
    fn obey(&mut self, handlers: &mut Watched<'_>) -> io::Result<()> {
        loop {
            self.show_idle(None);
            let stepped = self.session.step(handlers);
            self.account(self.session.held());
            self.common.held.fetch_sub(std::mem::take(&mut handlers.grown), Relaxed);
            let reply = self.session.take_output();
            self.send(&reply)?;
            if !stepped {
                break;
            }
            self.begun_at = None;
            self.done_at = Instant::now();
        }
        if self.session.is_partial() {
            self.begun_at.get_or_insert_with(Instant::now);
        }
        self.account(self.session.held());
        self.show_idle(Some(self.done_at));
        Ok(())
    }

    fn show_idle(&self, since: Option<Instant>) {
        if let Some(client) = lock(&self.common.clients).by_number.get_mut(&self.number) {
            client.idle_since = since;
            client.obeyed = self.session.has_obeyed();
        }
    }

    /// Says how much this one holds.
    fn account(&mut self, held: usize) {
        self.common.held.fetch_add(held, Relaxed);
        self.common.held.fetch_sub(self.held, Relaxed);
        self.held = held;
    }

    /// When this client has to have said something.
    fn deadline(&self) -> Option<Instant> {
        let idle = self.idle.map(|idle| self.done_at + idle);
        let command = self.begun_at.map(|begun| begun + TO_END_A_COMMAND);
        let token = self.session.is_stranger().then_some(self.opened + TO_SHOW_THE_TOKEN);
        [idle.filter(|_| command.is_none()), command, token].into_iter().flatten().min()
    }

    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        match self.stream {
            Stream::Tcp(s) => {
                s.set_read_timeout(left)?;
                (&*s).read(bytes)
            }
            Stream::Unix(s) => {
                s.set_read_timeout(left)?;
                (&*s).read(bytes)
            }
        }
    }

    /// Sends a reply to a client that takes it.
    fn send(&mut self, mut reply: &[u8]) -> io::Result<()> {
        if reply.is_empty() || self.deaf {
            return Ok(());
        }
        let until =
            Instant::now() + 2 * PATIENCE + Duration::from_secs(reply.len() as u64 / SLOWEST_BYTES_PER_S);
        while !reply.is_empty() {
            let sent = match self.stream {
                Stream::Tcp(s) => s.set_write_timeout(Some(PATIENCE)).and_then(|()| (&*s).write(reply)),
                Stream::Unix(s) => s.set_write_timeout(Some(PATIENCE)).and_then(|()| (&*s).write(reply)),
            };
            match sent {
                Ok(n) => reply = &reply[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.deaf = true;
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
            if Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

/// Handlers that are called when it is their turn, and whose writes are reported.
struct Watched<'a> {
    handlers: Box<dyn Handlers>,
    common: &'a Common,
    peer: String,
    /// Bytes read that the connection does not count yet.
    grown: usize,
}

impl Handlers for Watched<'_> {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        self.handlers.access(name)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.common.call(|| {
            if self.common.held.load(Relaxed) > MOST_HELD {
                return Err(HandlerError::failed(NO_ROOM));
            }
            let value = self.handlers.read(name, param)?;
            self.grown += value.len();
            self.common.held.fetch_add(value.len(), Relaxed);
            Ok(value)
        })
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        let done = self.common.call(|| self.handlers.write(name, value));
        self.common.service.wrote(name, value.len(), &self.peer, done.is_ok());
        done
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        self.handlers.llrpcs(element)
    }

    fn kind(&self) -> &'static str {
        self.handlers.kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_bounds_what_is_spent() {
        let begun = Instant::now();
        let (mut allowance, mut now, mut spent) = (Allowance::new(begun), begun, 0);
        for cost in (0..10_000).map(|i| 50_000 + i % 7 * 100_000) {
            spent += cost;
            now += allowance.spend(now, cost);
        }
        let passed = (now - begun).as_nanos() as u64;
        assert!(spent <= passed / 4 + Allowance::BURST_NS as u64 + 1_000_000, "{spent} of {passed}");
        assert!(spent >= passed / 4, "no more is waited than must be");
        // One that was large is not held against the others for long.
        assert!(allowance.spend(now, 10_000_000_000) <= Duration::from_secs(1));
    }
}
