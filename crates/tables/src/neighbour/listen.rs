// SPDX-License-Identifier: MIT OR Apache-2.0
//! What neighbours say of themselves, and what somebody outside says of them.

use super::state::{Action, Event, Heard, State, step};
use super::table::Neighbours;
use super::{Address, Loss};
use crate::{mac::Mac, slab::Id};
use std::collections::VecDeque;

/// What a neighbour said, of all that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An advertisement, or an answer of ARP.
    Advert {
        /// The address that it names.
        mac: Option<Mac>,
        /// It answers a query.
        solicited: bool,
        /// It replaces what is known.
        replaces: bool,
        /// Whether the neighbour is a router, if it says so.
        router: Option<bool>,
    },
    /// Any other message of the neighbour's that names its address: a solicitation, a request of ARP, a router's
    /// advertisement, a redirect.
    Other {
        /// The address that it names.
        mac: Option<Mac>,
        /// Whether the neighbour is a router, if that is known.
        router: Option<bool>,
    },
}

/// What an outside owner of neighbours says: the kernel, a management system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The neighbour has this address until further notice.
    Known(Mac),
    /// The neighbour has this address, and nothing that is heard changes it.
    Permanent(Mac),
    /// The neighbour does not answer.
    Unreachable,
    /// There is nothing to say about the neighbour any more.
    Gone,
}

impl<Q, A: Address> Neighbours<Q, A> {
    /// Takes note of a message from neighbour `ip` and returns what waited for it. An advertisement makes no entry
    /// (RFC 4861 section 7.2.5), any other message does (sections 7.2.3, 6.2.6, 6.3.4).
    pub fn hear(
        &mut self,
        ip: A,
        message: Message,
        now_ns: u64,
        mut lost: impl FnMut(Q, Loss),
    ) -> VecDeque<Q> {
        let (mac, router) = match message {
            Message::Advert { mac, router, .. } | Message::Other { mac, router } => (mac, router),
        };
        let Some(id) = self.entries.find(ip) else {
            if let (Message::Other { .. }, Some(mac)) = (message, mac)
                && self.make_room(false, now_ns, &mut lost)
            {
                let id = self.add(ip, now_ns);
                self.record(id, mac, State::Stale, now_ns);
                self.note_router(id, router);
            }
            return VecDeque::new();
        };
        let entry = &self.entries[id];
        let state = entry.state_at(&self.config, now_ns);
        let heard = match mac {
            None => Heard::Nothing,
            Some(mac) if state != State::Incomplete && entry.mac == Some(mac) => Heard::Same,
            Some(_) => Heard::Other,
        };
        let event = match message {
            Message::Advert { solicited, replaces, .. } => Event::Advert { solicited, replaces, mac: heard },
            Message::Other { .. } => Event::Message(heard),
        };
        let (action, next) = step(state, event);
        if action != Action::Nothing || heard != Heard::Other {
            // What is not believed says nothing about routers either.
            self.note_router(id, router);
        }
        match (action, mac) {
            (Action::Record | Action::RecordAndConfirm, Some(mac)) => self.record(id, mac, next, now_ns),
            (Action::Confirm, _) => {
                self.confirmed(id, next, now_ns);
                VecDeque::new()
            }
            _ => {
                if next != state {
                    self.entries[id].state = next;
                    self.changed();
                }
                VecDeque::new()
            }
        }
    }

    /// Something above knows that packets reach neighbour `ip`: a TCP connection that advances, say.
    pub fn confirm(&mut self, ip: A, now_ns: u64) {
        let Some(id) = self.entries.find(ip) else { return };
        let (action, next) = step(self.entries[id].state_at(&self.config, now_ns), Event::Confirmed);
        if action == Action::Confirm {
            self.confirmed(id, next, now_ns);
        }
    }

    /// Whether an answer of neighbour `ip` is expected: it was asked, and did not answer since.
    pub fn awaits(&self, ip: A) -> bool {
        self.entries.find(ip).is_some_and(|id| self.entries[id].queried_ns.is_some())
    }

    /// Believes what is said about neighbour `ip` from outside, in any discipline; returns what waited for an
    /// address. What waited for a neighbour that does not answer is lost.
    pub fn feed(&mut self, ip: A, fed: Fed, now_ns: u64, mut lost: impl FnMut(Q, Loss)) -> VecDeque<Q> {
        let (mac, state) = match fed {
            Fed::Known(mac) => (mac, State::Reachable),
            Fed::Permanent(mac) => (mac, State::Permanent),
            Fed::Unreachable | Fed::Gone => {
                if let Some(id) = self.entries.find(ip) {
                    self.evict(id, Loss::Unreachable, &mut lost);
                }
                return VecDeque::new();
            }
        };
        let id = match self.entries.find(ip) {
            Some(id) => id,
            None => {
                self.make_room(true, now_ns, &mut lost);
                self.add(ip, now_ns)
            }
        };
        self.record(id, mac, state, now_ns)
    }

    fn note_router(&mut self, id: Id, router: Option<bool>) {
        if let Some(router) = router {
            self.entries[id].router = router;
        }
    }
}
