// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer: what workers read of it without a lock, and what its handshakes need, behind one.
//!
//! A session's index says where it stands, so that finding it takes no table and no hash:
//!
//! ```text
//!  bit   31 ........... 17   16 ....... 2   1 0
//!        random              peer number    place among the peer's four sessions
//! ```
//!
//! Of the four places three have the sessions before, now and next, and one is for a handshake that has started.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sync::percore::Counter;
use sync::prefetch::prefetch;
use sync::rcu::{Cell, Domain, Reader};

use crate::cookie::{Mac, Receiver};
use crate::endpoint::Endpoint;
use crate::key::{PublicKey, Secret};
use crate::limits::REKEY_TIMEOUT;
use crate::noise::{Begun, Timestamp};
use crate::session::Session;

/// Sessions that a peer can have at once.
pub(crate) const PLACES: usize = 4;
const PLACE_BITS: u32 = PLACES.ilog2();
const PEER_BITS: u32 = 15;

/// Where the session of an index stands: the number of its peer, and its place there.
#[inline]
pub fn place_of(index: u32) -> (usize, usize) {
    ((index >> PLACE_BITS) as usize & ((1 << PEER_BITS) - 1), index as usize % PLACES)
}

fn index_of(peer: u32, place: usize, random: u32) -> u32 {
    random << (PEER_BITS + PLACE_BITS) | peer << PLACE_BITS | place as u32
}

/// What one worker has seen of a peer: a cache line that it alone writes. Moments are in nanoseconds plus one; 0 for never.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line {
    /// Bytes of messages sent.
    pub tx_bytes: Counter,
    /// Bytes of genuine messages received.
    pub rx_bytes: Counter,
    /// When any message was last sent.
    pub sent: Counter,
    /// When a packet was last sent.
    pub sent_data: Counter,
    /// When any genuine message was last received.
    pub got: Counter,
    /// When a packet was last received.
    pub got_data: Counter,
}

/// The latest moments of all workers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    pub sent: u64,
    pub sent_data: u64,
    pub got: u64,
    pub got_data: u64,
}

/// A peer. Packets to it read its first cache line, and packets from it the first two.
#[repr(C, align(64))]
pub struct Peer {
    current: Cell<Option<Arc<Session>>>,
    endpoint: Cell<Option<Endpoint>>,
    lines: Box<[OnceLock<Box<Line>>]>,
    /// Its number on this device.
    pub number: u32,
    /// Somebody wants a new session.
    wants: AtomicBool,
    /// It was taken off the device.
    gone: AtomicBool,
    sessions: [Cell<Option<Arc<Session>>>; PLACES],
    /// Its key.
    pub key: PublicKey,
    /// What its handshake messages are checked by.
    pub(crate) receiver: Receiver,
    /// What its key and that of this device make together; `None` for a key of low order.
    shared: OnceLock<Option<Secret>>,
    state: Mutex<State>,
}

/// A handshake that this side has started.
pub(crate) struct Outstanding {
    pub begun: Begun,
    pub index: u32,
    /// When the first attempt was, and the latest.
    pub since_ns: u64,
    pub sent_ns: u64,
    /// A moment that differs for each attempt, so that two sides do not begin together again and again.
    pub jitter_ns: u64,
}

/// What handshakes and timers need.
pub(crate) struct State {
    pub preshared: Secret,
    /// Seconds; 0 for none.
    pub keepalive: u16,
    pub outstanding: Option<Box<Outstanding>>,
    /// When the latest attempt was, however it ended.
    pub tried_ns: Option<u64>,
    /// The latest initiation received.
    pub newest: Timestamp,
    pub newest_ns: Option<u64>,
    /// The latest handshake message sent: its index and `mac1`.
    pub said: Option<(u32, Mac)>,
    pub cookie: Option<(Mac, u64)>,
    /// Places of the sessions.
    pub now: Option<usize>,
    pub before: Option<usize>,
    pub next: Option<usize>,
    /// When the latest session was made, in seconds and nanoseconds since 1970; 0 for never.
    pub handshake_wall_ns: u64,
    /// Since when something received waits for an answer, and something sent.
    pub owes_since: Option<u64>,
    pub waits_since: Option<u64>,
}

impl State {
    /// Whether the latest attempt was a moment ago, so that the next one must wait.
    pub fn is_too_soon(&self, now_ns: u64) -> bool {
        self.tried_ns.is_some_and(|tried| now_ns < tried + REKEY_TIMEOUT)
    }
}

impl Peer {
    pub(crate) fn new(
        domain: &Domain,
        number: u32,
        key: PublicKey,
        preshared: Secret,
        remote: Option<SocketAddr>,
        workers: usize,
    ) -> Peer {
        Peer {
            number,
            key,
            receiver: Receiver::new(&key),
            sessions: std::array::from_fn(|_| Cell::new(domain, None)),
            current: Cell::new(domain, None),
            endpoint: Cell::new(domain, remote.map(|remote| Endpoint { remote, local: None })),
            wants: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            lines: (0..workers.max(1)).map(|_| OnceLock::new()).collect(),
            shared: OnceLock::new(),
            state: Mutex::new(State {
                preshared,
                keepalive: 0,
                outstanding: None,
                tried_ns: None,
                newest: Timestamp::default(),
                newest_ns: None,
                said: None,
                cookie: None,
                now: None,
                before: None,
                next: None,
                handshake_wall_ns: 0,
                owes_since: None,
                waits_since: None,
            }),
        }
    }

    /// The session by which packets are sent.
    #[inline]
    pub fn current<'a>(&'a self, reader: &'a Reader) -> Option<&'a Session> {
        self.current.read(reader).as_deref()
    }

    /// The session at a place.
    #[inline]
    pub(crate) fn at<'a>(&'a self, reader: &'a Reader, place: usize) -> Option<&'a Session> {
        self.sessions[place].read(reader).as_deref()
    }

    /// Where it is.
    #[inline]
    pub fn endpoint<'a>(&'a self, reader: &'a Reader) -> Option<&'a Endpoint> {
        self.endpoint.read(reader).as_ref()
    }

    /// It is there from now on. Too many changes at once are ignored: the next message brings the change again.
    #[inline]
    pub(crate) fn moved(&self, reader: &Reader, endpoint: Endpoint) {
        if self.endpoint(reader) != Some(&endpoint) {
            let _ = self.endpoint.publish(Some(endpoint));
        }
    }

    /// As the configuration says: it is there, and reached by the usual address. Whether readers let it. Nothing else brings this change again.
    pub(crate) fn place_at(&self, reader: &Reader, remote: SocketAddr) -> bool {
        let endpoint = Endpoint { remote, local: None };
        self.endpoint(reader) == Some(&endpoint) || self.endpoint.publish(Some(endpoint)).is_ok()
    }

    /// What its key and this device's own make together: computed for its first handshake. `None` if anybody knows it, so that there can be no handshake.
    pub(crate) fn shared(&self, own: &Secret) -> Option<&Secret> {
        self.shared.get_or_init(|| own.with(&self.key)).as_ref()
    }

    /// The line of a worker. Another number than those of the workers there are counts as the last one.
    #[inline]
    pub fn line(&self, worker: usize) -> &Line {
        self.lines[worker.min(self.lines.len() - 1)].get_or_init(Box::default)
    }

    /// Asks for its cells, those of all sessions included: two cache lines.
    #[inline]
    pub(crate) fn fetch_head(&self) {
        prefetch(self);
        prefetch(&self.sessions[PLACES - 1]);
    }

    /// Asks for what its cells hold, once they are there: the session at a place or else the current one, the endpoint, and where the line of a worker is.
    #[inline]
    pub(crate) fn fetch_cells(&self, reader: &Reader, worker: usize, place: Option<usize>) {
        prefetch(place.map_or(&self.current, |place| &self.sessions[place]).read(reader));
        prefetch(self.endpoint.read(reader));
        prefetch(&self.lines[worker.min(self.lines.len() - 1)]);
    }

    /// Asks for the line of a worker, once it is known where that is.
    #[inline]
    pub(crate) fn fetch_line(&self, worker: usize) {
        if let Some(line) = self.lines[worker.min(self.lines.len() - 1)].get() {
            prefetch(&**line);
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter_map(|line| line.get().map(Box::as_ref))
    }

    /// Bytes received and sent.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |counter: fn(&Line) -> &Counter| self.lines().map(|line| counter(line).get()).sum();
        (sum(|line| &line.rx_bytes), sum(|line| &line.tx_bytes))
    }

    pub(crate) fn moments(&self) -> Moments {
        let latest =
            |counter: fn(&Line) -> &Counter| self.lines().map(|line| counter(line).get()).max().unwrap_or(0);
        Moments {
            sent: latest(|line| &line.sent),
            sent_data: latest(|line| &line.sent_data),
            got: latest(|line| &line.got),
            got_data: latest(|line| &line.got_data),
        }
    }

    /// A message of so many bytes was sent.
    #[inline]
    pub(crate) fn note_sent(&self, worker: usize, bytes: usize, is_data: bool, now_ns: u64) {
        let line = self.line(worker);
        line.tx_bytes.add(bytes as u64);
        line.sent.set(now_ns + 1);
        if is_data {
            line.sent_data.set(now_ns + 1);
        }
    }

    /// A genuine message of so many bytes was received.
    #[inline]
    pub(crate) fn note_got(&self, worker: usize, bytes: usize, is_data: bool, now_ns: u64) {
        let line = self.line(worker);
        line.rx_bytes.add(bytes as u64);
        line.got.set(now_ns + 1);
        if is_data {
            line.got_data.set(now_ns + 1);
        }
    }

    /// A new session is wanted.
    #[inline]
    pub(crate) fn want(&self) {
        if !self.wants.load(Ordering::Relaxed) {
            self.wants.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one is.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wants.load(Ordering::Relaxed)
    }

    /// Whether one was, and is not any more.
    pub(crate) fn take_want(&self) -> bool {
        self.wants.load(Ordering::Relaxed) && self.wants.swap(false, Ordering::Relaxed)
    }

    /// It is taken off the device.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether it was taken off the device. Exact under the lock of its state, and under that of the packets that wait.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock().ok()
    }

    /// An index for a new session, at a place that none has.
    pub(crate) fn new_index(&self, state: &State, random: u32) -> u32 {
        let begun = state.outstanding.as_ref().map(|begun| place_of(begun.index).1);
        let used = [state.now, state.before, state.next, begun];
        let free = (0..PLACES).find(|place| !used.contains(&Some(*place))).unwrap_or(0);
        index_of(self.number, free, random)
    }

    /// This side has started, and the peer has agreed: packets go by the new session at once. Whether readers let it.
    pub(crate) fn install_mine(&self, state: &mut State, session: Arc<Session>) -> bool {
        let place = place_of(session.local).1;
        if self.sessions[place].publish(Some(session.clone())).is_err()
            || self.current.publish(Some(session)).is_err()
        {
            return false;
        }
        let before = state.next.take().or(state.now);
        for old in [state.before, state.now].into_iter().flatten().filter(|old| Some(*old) != before) {
            let _ = self.sessions[old].publish(None);
        }
        (state.before, state.now) = (before, Some(place));
        true
    }

    /// The peer has started, and this side has agreed: the session is used when the peer has shown that it has the keys. Whether readers
    /// let it.
    pub(crate) fn install_theirs(&self, state: &mut State, session: Arc<Session>) -> bool {
        let place = place_of(session.local).1;
        if self.sessions[place].publish(Some(session)).is_err() {
            return false;
        }
        for old in [state.next, state.before.take()].into_iter().flatten() {
            let _ = self.sessions[old].publish(None);
        }
        state.next = Some(place);
        true
    }

    /// The peer has shown that it has the keys of the session at a place. Whether that makes it the current one.
    pub(crate) fn confirm(&self, state: &mut State, reader: &Reader, place: usize) -> bool {
        let session = self.sessions[place].read(reader);
        if state.next != Some(place) || session.is_none() || self.current.publish(session.clone()).is_err() {
            return false;
        }
        if let Some(old) = state.before {
            let _ = self.sessions[old].publish(None);
        }
        (state.before, state.now, state.next) = (state.now, state.next, None);
        true
    }

    /// Erases sessions that have ended; with `all`, every one.
    pub(crate) fn erase(&self, state: &mut State, reader: Option<&Reader>, now_ns: u64) {
        let is_over = |place: usize| {
            reader.is_none_or(|reader| self.at(reader, place).is_none_or(|session| session.is_over(now_ns)))
        };
        let State { now, before, next, .. } = state;
        if let Some(place) = *now
            && is_over(place)
            && self.current.publish(None).is_ok()
            && self.sessions[place].publish(None).is_ok()
        {
            *now = None;
        }
        for role in [before, next] {
            if let Some(place) = *role
                && is_over(place)
                && self.sessions[place].publish(None).is_ok()
            {
                *role = None;
            }
        }
        if reader.is_none() {
            state.outstanding = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_say_where_sessions_stand() {
        for (peer, place, random) in [(0, 0, 0), (32_766, 3, u32::MAX), (10_000, 2, 0x1234)] {
            let index = index_of(peer, place, random);
            assert_eq!(place_of(index), (peer as usize, place));
        }
        assert_ne!(index_of(5, 1, 1), index_of(5, 1, 2));
        const { assert!(crate::allowed::PEERS_MAX < 1 << PEER_BITS) };
    }

    #[test]
    fn lines_are_one_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
        // What packets read of a peer.
        let head = std::mem::offset_of!(Peer, sessions);
        assert!(head <= 64 && head + size_of::<[Cell<Option<Arc<Session>>>; PLACES]>() <= 128);
    }
}
