// SPDX-License-Identifier: MIT OR Apache-2.0
//! What time brings about (white paper, 6): new sessions, repeated attempts, keepalives, and the end of old keys.
//!
//! One worker calls [`Device::tick`] again and again. Each call looks at some peers, so that each is looked at once a second at least, with and without packets. What
//! the other workers have seen stands in their lines of each peer. So times are kept to a second with thousands of peers, and to a tick with few.

use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::limits::{KEEPALIVE, REKEY_ATTEMPT, REKEY_TIMEOUT, SECOND, SILENCE};
use crate::peer::{Moments, Peer, State};
use crate::shake::{Here, Send};
use crate::table::Table;
use crate::waiting::Lost;

/// Time from one tick to the next one.
pub const TICK: u64 = SECOND / 10;
/// Time to the next one if there is more to do.
pub const SOON: u64 = SECOND / 500;
/// Peers that a tick looks at, at least.
const LOOKS: usize = 1024;
/// Handshakes that a tick begins at most, since each takes a fraction of a millisecond.
const BEGINS: usize = 4;

/// What a look at a peer has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing can happen before a packet comes.
    Quiet,
    /// Something may.
    Busy,
    /// A handshake was started.
    Begun,
}

/// Whether something happened at or after `since`. Moments are one more than the time.
fn since(moment: u64, since: u64) -> bool {
    moment > since
}

impl Device {
    /// Does what is due for some of the peers. Returns when the next call is due; `None` if nothing can happen before [`wake`](Self::wake). Any number of workers
    /// may call it: one of them does the work.
    pub fn tick(&self, here: &Here<'_>, send: &mut Send<'_>) -> Option<u64> {
        let table = self.table(here.reader);
        let due = self.due.load(Ordering::Relaxed);
        let is_awake = || self.quiet.load(Ordering::Relaxed) < table.len() || self.has_later();
        if here.now_ns < due {
            return is_awake().then_some(due);
        }
        let next = here.now_ns + TICK;
        if self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Some(next);
        }
        self.catch_up(here.reader);
        let wait = self.sweep(table, here, send);
        let wait = if self.has_later() { SOON } else { wait };
        self.due.store(here.now_ns + wait, Ordering::Relaxed);
        is_awake().then_some(here.now_ns + wait)
    }

    /// Something has started that ends by time. Returns when the next tick is due.
    pub fn wake(&self, now_ns: u64) -> u64 {
        if self.quiet.load(Ordering::Relaxed) > 0 {
            self.quiet.store(0, Ordering::Relaxed);
        }
        self.due.load(Ordering::Relaxed).clamp(now_ns + 1, now_ns + TICK)
    }

    /// Looks at some peers. Returns how long to wait before the next ones.
    fn sweep(&self, table: &Table, here: &Here<'_>, send: &mut Send<'_>) -> u64 {
        let looks = LOOKS.max(table.len().div_ceil((SECOND / TICK) as usize)).min(table.len());
        let waits = self.waiting.expire(here.now_ns);
        let first = self.swept.load(Ordering::Relaxed);
        let (mut begins, mut quiet) = (0, 0);
        for step in 0..looks {
            let at = (first + step) % table.len();
            if begins == BEGINS {
                self.swept.store(at, Ordering::Relaxed);
                return SOON;
            }
            let Some(peer) = table.get(at) else {
                quiet += 1;
                continue;
            };
            match self.look(peer, here, send) {
                Seen::Quiet => quiet += 1,
                Seen::Busy => {}
                Seen::Begun => begins += 1,
            }
        }
        if quiet == looks && !waits {
            self.quiet.fetch_add(quiet, Ordering::Relaxed);
        } else {
            self.quiet.store(0, Ordering::Relaxed);
        }
        self.swept.store((first + looks) % table.len().max(1), Ordering::Relaxed);
        TICK
    }

    /// Begins a handshake that packets want, unless it must wait for the next tick.
    pub fn hurry(&self, number: u32, here: &Here<'_>, send: &mut Send<'_>) {
        let Some(peer) = self.peer(here.reader, number) else { return };
        let Some(mut state) = peer.try_state() else { return };
        // If it is too soon after the last one, a later tick still knows that one is wanted.
        if state.outstanding.is_none()
            && !state.is_too_soon(here.now_ns)
            && self.gate().may_begin(here.now_ns)
            && self.begin(peer, &mut state, here, send)
        {
            peer.take_want();
        }
    }

    /// Does what is due for a peer.
    fn look(&self, peer: &Peer, here: &Here<'_>, send: &mut Send<'_>) -> Seen {
        let Some(mut state) = peer.try_state() else { return Seen::Busy };
        if self.look_with(peer, &mut state, here, send) {
            return Seen::Begun;
        }
        let sessions = [state.now, state.before, state.next];
        let is_busy =
            sessions.iter().any(Option::is_some) || state.outstanding.is_some() || state.keepalive > 0;
        if is_busy || peer.is_wanted() { Seen::Busy } else { Seen::Quiet }
    }

    /// As [`look`](Self::look). Returns whether a handshake was started.
    fn look_with(&self, peer: &Peer, state: &mut State, here: &Here<'_>, send: &mut Send<'_>) -> bool {
        let moments = peer.moments();
        peer.erase(state, Some(here.reader), here.now_ns);
        let wanted = peer.take_want() | self.is_silent(state, moments, here.now_ns);
        let owes = owes(state, moments, here.now_ns) | is_keepalive_due(state, moments, here.now_ns);
        let wanted = wanted | (owes && !self.confirm_receipt(peer, here, send));
        match &state.outstanding {
            Some(begun) if here.now_ns >= begun.since_ns + REKEY_ATTEMPT => {
                state.outstanding = None;
                self.waiting.give_up(peer.number, Lost::Unanswered);
                false
            }
            Some(begun) if here.now_ns >= begun.sent_ns + REKEY_TIMEOUT + begun.jitter_ns => {
                self.begin(peer, state, here, send)
            }
            None if wanted => {
                let has_begun = self.begin(peer, state, here, send);
                if !has_begun && peer.endpoint(here.reader).is_some() {
                    // It was too soon after the last one.
                    peer.want();
                }
                has_begun
            }
            _ => false,
        }
    }

    /// Sends an empty packet. Whether there is a session for it.
    fn confirm_receipt(&self, peer: &Peer, here: &Here<'_>, send: &mut Send<'_>) -> bool {
        let session = peer.current(here.reader).filter(|session| !session.is_over(here.now_ns));
        let (Some(session), Some(endpoint)) = (session, peer.endpoint(here.reader)) else { return false };
        self.say_nothing(peer, session, endpoint, here, send);
        true
    }

    /// Whether the peer has been silent for long after this side has sent.
    fn is_silent(&self, state: &mut State, moments: Moments, now_ns: u64) -> bool {
        if moments.sent_data <= moments.got {
            state.waits_since = None;
            return false;
        }
        match state.waits_since {
            Some(from) if !since(moments.got, from) => {
                let is_silent = now_ns >= from + SILENCE;
                if is_silent {
                    state.waits_since = Some(now_ns);
                }
                is_silent
            }
            _ => {
                state.waits_since = Some(moments.sent_data - 1);
                false
            }
        }
    }
}

/// Whether this side has received packets and said nothing for long.
fn owes(state: &mut State, moments: Moments, now_ns: u64) -> bool {
    if moments.got_data <= moments.sent {
        state.owes_since = None;
        return false;
    }
    match state.owes_since {
        Some(from) if !since(moments.sent, from) => now_ns >= from + KEEPALIVE,
        _ => {
            state.owes_since = Some(moments.got_data - 1);
            false
        }
    }
}

/// Whether it is time for one of the keepalives that the configuration asks for.
fn is_keepalive_due(state: &State, moments: Moments, now_ns: u64) -> bool {
    let last = moments.sent.max(moments.got);
    let every = u64::from(state.keepalive) * SECOND;
    every > 0 && (last == 0 || now_ns + 1 >= last + every)
}

#[cfg(test)]
mod tests {
    use sync::rcu::Domain;

    use super::*;
    use crate::{PeerConfig, PublicKey, Secret};

    /// A worker whose tick comes early after a packet has woken the device must come again.
    #[test]
    fn ticks_go_on_when_something_has_begun() {
        let domain = Domain::default();
        let reader = domain.register("test");
        let device = Device::new(Secret::new([8; 32]), &domain, 2).unwrap();
        device.set_peer(&PeerConfig::new(Secret::new([9; 32]).public())).unwrap();
        let tick = |now_ns| {
            let here = Here { reader: &reader, worker: 0, now_ns, wall_ns: now_ns };
            device.tick(&here, &mut |_, _| panic!("it is not known where the peer is"))
        };
        assert_eq!((tick(0), tick(TICK / 2), tick(TICK)), (None, None, None));
        let now_ns = TICK + 10;
        assert_eq!(device.wake(now_ns), 2 * TICK);
        assert_eq!((tick(now_ns + 1), tick(2 * TICK)), (Some(2 * TICK), None));
    }

    #[test]
    fn an_attempt_that_fails_at_once_is_not_repeated_at_every_tick() {
        let domain = Domain::default();
        let reader = domain.register("test");
        let device = Device::new(Secret::new([8; 32]), &domain, 1).unwrap();
        // With a point of low order no handshake can begin.
        let endpoint = Some("192.0.2.2:51820".parse().unwrap());
        device.set_peer(&PeerConfig { endpoint, ..PeerConfig::new(PublicKey([0; 32])) }).unwrap();
        let peer = device.peer(&reader, 0).unwrap();
        peer.want();
        let mut tried = Vec::new();
        for now_ns in (0..12 * SECOND).step_by(TICK as usize) {
            let here = Here { reader: &reader, worker: 0, now_ns, wall_ns: now_ns };
            device.tick(&here, &mut |_, _| panic!("there is nothing to send"));
            tried.push(peer.state().tried_ns);
        }
        tried.dedup();
        assert_eq!(tried, [Some(0), Some(5 * SECOND), Some(10 * SECOND)]);
    }
}
