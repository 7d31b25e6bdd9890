// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handshakes of a device: what is done with the three handshake messages, and how this side begins.
//!
//! Each peer's handshakes take the lock of that peer while they compute. Packets do not meet it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sync::rcu::Reader;

use crate::cookie::Mac;
use crate::device::Device;
use crate::endpoint::{Endpoint, Outer};
use crate::gate::Verdict;
use crate::limits::{COOKIE, INITIATION_GAP, SECOND};
use crate::message::{self, Cookie, DATA_HEADER_LEN, Data, Initiation, Message, Response, TAG_LEN};
use crate::noise::{self, Parties};
use crate::peer::{Outstanding, Peer, State, place_of};
use crate::session::Session;
use erase::apart;

/// Why a handshake message leads to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is for another key, or forged.
    Forged,
    /// It is from nobody who is known, or answers nothing.
    Unknown,
    /// It has come before.
    Replayed,
    /// There are too many.
    Limited,
    /// There is no memory or randomness for it now.
    Busy,
}

/// Who works, when, and what it works with.
pub struct Here<'a> {
    /// Its licence to read.
    pub reader: &'a Reader,
    /// The worker.
    pub worker: usize,
    /// Nanoseconds since the router started.
    pub now_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

/// Takes a message that is to be sent.
pub type Send<'s> = dyn FnMut(Outer, &[u8]) + 's;

/// Where a message came from, and where it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The sender.
    pub from: SocketAddr,
    /// This side's address.
    pub to: IpAddr,
}

impl Path {
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { remote: self.from, local: Some(self.to) }
    }
}

impl Device {
    /// Works on a handshake message. Data messages are none. Returns the number of the peer to which packets can be sent from now on, if it is so.
    ///
    /// # Errors
    /// Why it leads to nothing.
    pub fn shake(
        &self,
        message: &Message<'_>,
        path: Path,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) -> Result<Option<u32>, Refusal> {
        // Secrets pass the stack.
        apart(|| self.work_on(message, path, here, send))
    }

    fn work_on(
        &self,
        message: &Message<'_>,
        path: Path,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) -> Result<Option<u32>, Refusal> {
        match message {
            Message::Initiation(initiation) => {
                self.admit(initiation.whole, initiation.sender, path, here, send)?;
                self.answer(initiation, path, here, send).map(|()| None)
            }
            Message::Response(response) => {
                self.admit(response.whole, response.sender, path, here, send)?;
                self.finish(response, path, here, send)?;
                Ok(Some(place_of(response.receiver).0 as u32))
            }
            Message::Cookie(cookie) => self.keep(cookie, here).map(|()| None),
            Message::Data(_) => Err(Refusal::Unknown),
        }
    }

    /// Whether a message is worth the work. A sender without a proof of its address gets a cookie.
    fn admit(
        &self,
        whole: &[u8],
        sender: u32,
        path: Path,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) -> Result<(), Refusal> {
        if !self.receiver.is_mine(whole) {
            return Err(Refusal::Forged);
        }
        match self.gate().admit(&self.receiver, whole, sender, path.from, here.now_ns) {
            Verdict::Work => Ok(()),
            Verdict::Refuse => Err(Refusal::Limited),
            Verdict::Reply(reply) => {
                if let Some(outer) =
                    Outer::new(self.local(here.reader), &path.endpoint(), 0, fastrand::u16(..))
                {
                    send(outer, &reply);
                }
                Err(Refusal::Limited)
            }
        }
    }

    /// Answers an initiation.
    fn answer(
        &self,
        initiation: &Initiation<'_>,
        path: Path,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) -> Result<(), Refusal> {
        let claimed = noise::read(&self.key, self.public(), initiation.noise).map_err(|_| Refusal::Forged)?;
        let peer = self.find(here.reader, &claimed.remote).ok_or(Refusal::Unknown)?;
        let shared = peer.shared(&self.key).ok_or(Refusal::Forged)?;
        let asked = claimed.prove(shared).map_err(|_| Refusal::Forged)?;
        let state = &mut *peer.state();
        if peer.is_gone() {
            return Err(Refusal::Unknown);
        }
        if asked.timestamp <= state.newest {
            return Err(Refusal::Replayed);
        }
        if state.newest_ns.is_some_and(|newest| here.now_ns < newest + INITIATION_GAP) {
            return Err(Refusal::Limited);
        }
        (state.newest, state.newest_ns) = (asked.timestamp, Some(here.now_ns));
        let (keys, noise) = asked.answer(&state.preshared).map_err(|_| Refusal::Busy)?;
        let index = peer.new_index(state, fastrand::u32(..));
        let session = Session::new(&keys, index, initiation.sender, false, here.now_ns);
        if !peer.install_theirs(state, Arc::new(session)) {
            return Err(Refusal::Busy);
        }
        peer.note_got(here.worker, initiation.whole.len(), false, here.now_ns);
        peer.moved(here.reader, path.endpoint());
        let mut bytes = message::response(index, initiation.sender, &noise);
        self.say(peer, state, &path.endpoint(), &mut bytes, index, here, send);
        Ok(())
    }

    /// Ends a handshake that this side began, by a response.
    fn finish(
        &self,
        response: &Response<'_>,
        path: Path,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) -> Result<(), Refusal> {
        let (number, _) = place_of(response.receiver);
        let peer = self.peer(here.reader, number as u32).ok_or(Refusal::Unknown)?;
        let state = &mut *peer.state();
        let outstanding = state.outstanding.as_ref().filter(|begun| begun.index == response.receiver);
        let begun = &outstanding.ok_or(Refusal::Unknown)?.begun;
        let keys = begun.finish(&self.key, &state.preshared, response.noise).map_err(|_| Refusal::Forged)?;
        state.outstanding = None;
        let session = Arc::new(Session::new(&keys, response.receiver, response.sender, true, here.now_ns));
        if !peer.install_mine(state, session.clone()) {
            peer.want();
            return Err(Refusal::Busy);
        }
        peer.take_want();
        state.handshake_wall_ns = here.wall_ns;
        peer.note_got(here.worker, response.whole.len(), false, here.now_ns);
        peer.moved(here.reader, path.endpoint());
        // The peer may send only when it has received a packet.
        self.say_nothing(peer, &session, &path.endpoint(), here, send);
        Ok(())
    }

    /// Keeps a cookie for the next attempt.
    fn keep(&self, cookie: &Cookie<'_>, here: &Here<'_>) -> Result<(), Refusal> {
        let (number, _) = place_of(cookie.receiver);
        let peer = self.peer(here.reader, number as u32).ok_or(Refusal::Unknown)?;
        let mut state = peer.state();
        let said = state.said.filter(|(index, _)| *index == cookie.receiver);
        let (_, mac1) = said.ok_or(Refusal::Unknown)?;
        let cookie = peer.receiver.open(cookie, &mac1).ok_or(Refusal::Forged)?;
        state.cookie = Some((cookie, here.now_ns));
        Ok(())
    }

    /// Begins a handshake with a peer, unless one was started a moment ago. Returns whether it did.
    pub(crate) fn begin(&self, peer: &Peer, state: &mut State, here: &Here<'_>, send: &mut Send<'_>) -> bool {
        let may = !state.is_too_soon(here.now_ns) && !peer.is_gone();
        let Some(endpoint) = peer.endpoint(here.reader).filter(|_| may) else {
            return false;
        };
        // An attempt that fails at once is one, too: it is not repeated at every tick.
        state.tried_ns = Some(here.now_ns);
        let begun = apart(|| {
            let shared = peer.shared(&self.key)?;
            let parties = Parties { own: &self.key, public: self.public(), remote: &peer.key, shared };
            noise::begin(parties, &noise::timestamp(here.wall_ns)).ok()
        });
        let Some((begun, noise)) = begun else { return false };
        let before = state.outstanding.take();
        let index = peer.new_index(state, fastrand::u32(..));
        state.outstanding = Some(Box::new(Outstanding {
            begun,
            index,
            since_ns: before.map_or(here.now_ns, |before| before.since_ns),
            sent_ns: here.now_ns,
            jitter_ns: self.jitter(here.now_ns),
        }));
        let mut bytes = message::initiation(index, &noise);
        self.say(peer, state, endpoint, &mut bytes, index, here, send);
        true
    }

    /// A time below a third of a second that differs between devices and moments.
    fn jitter(&self, now_ns: u64) -> u64 {
        let own = u64::from_le_bytes(std::array::from_fn(|at| self.public().0[at]));
        ((own ^ now_ns).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) % (SECOND / 3)
    }

    /// Sends a handshake message.
    #[allow(clippy::too_many_arguments)]
    fn say(
        &self,
        peer: &Peer,
        state: &mut State,
        endpoint: &Endpoint,
        bytes: &mut [u8],
        index: u32,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) {
        let fresh = |(_, at): &(Mac, u64)| here.now_ns < at + COOKIE - 5 * SECOND;
        let cookie = state.cookie.filter(fresh).map(|(cookie, _)| cookie);
        let mac1 = peer.receiver.finish(bytes, cookie.as_ref());
        state.said = Some((index, mac1));
        if let Some(outer) = Outer::new(self.local(here.reader), endpoint, 0, fastrand::u16(..)) {
            peer.note_sent(here.worker, bytes.len(), false, here.now_ns);
            send(outer, bytes);
        }
    }

    /// Sends a packet that carries nothing.
    pub(crate) fn say_nothing(
        &self,
        peer: &Peer,
        session: &Session,
        endpoint: &Endpoint,
        here: &Here<'_>,
        send: &mut Send<'_>,
    ) {
        let Some(outer) = Outer::new(self.local(here.reader), endpoint, 0, fastrand::u16(..)) else { return };
        let Some(counter) = session.take_counters(1) else { return };
        let mut bytes = [0; DATA_HEADER_LEN + TAG_LEN];
        if let Some(header) = bytes.first_chunk_mut() {
            Data { receiver: session.remote, counter }.write(header);
        }
        bytes[DATA_HEADER_LEN..].copy_from_slice(&session.seal(counter, &mut []));
        peer.note_sent(here.worker, bytes.len(), false, here.now_ns);
        send(outer, &bytes);
    }
}
