// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: who the peer is, whether it is there, and what is due.
//!
//! Each start of a router has an *epoch*, a random number. A datagram names the epochs of its sender and of its receiver. What names the receiver's
//! epoch is no replay of an earlier life, so only that is believed. A peer with another epoch has been restarted, and has lost its sessions.

use std::collections::VecDeque;

use crate::frame::{Datagram, Place, RECORDS_MAX, Unread};
use crate::inbound::{Arrival, Inbound};
use crate::key::Key;
use crate::outbound::Outbound;
use crate::replay::Replay;

/// Earlier epochs of the peer that are remembered, so that none comes back.
const RETIRED: usize = 64;
/// A stream that was asked for by a handler or an overflow begins so long after the last one at least.
const RESTART_PAUSE_NS: u64 = 1_000_000_000;

/// Times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often a router says that it is there.
    pub hello_ns: u64,
    /// After this time without a word the peer is down.
    pub dead_ns: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { hello_ns: 200_000_000, dead_ns: 2_000_000_000 }
    }
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// It is none.
    Malformed,
    /// It has another version.
    Version,
    /// Its tag is wrong: the key is another one.
    Tag,
    /// It is our own.
    Reflected,
    /// It has come before, or is too old.
    Replayed,
    /// It is of an earlier life of the peer.
    Retired,
}

impl Refusal {
    /// All.
    pub const ALL: [Refusal; 6] = [
        Refusal::Malformed,
        Refusal::Version,
        Refusal::Tag,
        Refusal::Reflected,
        Refusal::Replayed,
        Refusal::Retired,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["malformed", "version", "tag", "reflected", "replayed", "retired"][self as usize]
    }
}

/// What must be done to the tables before another stream can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The peer is gone, or has lost its sessions: those that were its are ours now.
    Adopt,
    /// The peer's sessions are marked; those that it does not put again end at [`Op::Over`](crate::Op::Over).
    Mark,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams that were made, and those that were taken.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// Frames that were acknowledged, and those that were sent again.
    pub acknowledged: u64,
    /// See `acknowledged`.
    pub resent: u64,
    /// Streams that we have started.
    pub streams: u64,
    /// How many times the peer came up, and was restarted.
    pub ups: u64,
    /// See `ups`.
    pub restarts: u64,
    /// Datagrams that were refused, by [`Refusal`].
    pub refused: [u64; Refusal::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Partner {
    epoch: u64,
    heard_ns: u64,
    replay: Replay,
    is_up: bool,
}

/// The link with the peer. See the crate.
#[derive(Clone, Debug)]
pub struct Link {
    settings: Settings,
    key: Key,
    epoch: u64,
    number: u64,
    partner: Option<Partner>,
    /// An epoch that the peer may have: it is named, so that the peer can prove that it has.
    candidate: u64,
    retired: VecDeque<u64>,
    out: Outbound,
    /// Room for a frame that is sent again.
    again: Vec<u8>,
    inn: Inbound,
    task: Option<Task>,
    needs_stream: bool,
    began_ns: Option<u64>,
    owes_answer: bool,
    hello_at_ns: u64,
    counts: Counts,
}

impl Link {
    /// A link of a router that has this epoch, a random number but 0.
    pub fn new(settings: Settings, key: Key, epoch: u64) -> Link {
        Link {
            settings,
            key,
            epoch: epoch.max(1),
            number: 0,
            partner: None,
            candidate: 0,
            retired: VecDeque::with_capacity(RETIRED),
            out: Outbound::new(),
            again: Vec::with_capacity(RECORDS_MAX),
            inn: Inbound::new(),
            // The tables may have sessions of an earlier peer.
            task: Some(Task::Adopt),
            needs_stream: false,
            began_ns: None,
            owes_answer: false,
            hello_at_ns: 0,
            counts: Counts::default(),
        }
    }

    /// Whether the peer is there.
    pub fn is_up(&self) -> bool {
        self.partner.is_some_and(|partner| partner.is_up)
    }

    /// What has been counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Frames that are not acknowledged, and for how many nanoseconds the first is not.
    pub fn lag(&self, now_ns: u64) -> (usize, u64) {
        let (frames, since) = self.out.waiting();
        (frames, since.map_or(0, |since| now_ns.saturating_sub(since)))
    }

    /// What must be done to the tables now; then [`done`](Self::done) is called.
    pub fn task(&self) -> Option<Task> {
        self.task
    }

    /// The tables are ready.
    pub fn done(&mut self) {
        self.task = None;
        self.inn.ready();
    }

    /// Asks for a stream from the beginning: changes have been lost.
    pub fn restart(&mut self) {
        self.needs_stream = true;
    }

    /// Asks the peer for its stream from the beginning: sessions that were not taken may be taken now.
    pub fn want(&mut self) {
        self.inn.give_up();
    }

    /// Whether a stream must begin. If so it has started, and its first records are awaited.
    pub fn take_restart(&mut self, now_ns: u64) -> bool {
        let is_early = self.began_ns.is_some_and(|began| now_ns < began.saturating_add(RESTART_PAUSE_NS));
        if !self.needs_stream || !self.is_up() || is_early {
            return false;
        }
        self.needs_stream = false;
        self.began_ns = Some(now_ns);
        self.out.begin();
        self.counts.streams += 1;
        true
    }

    /// Whether records may be sent.
    pub fn has_room(&self) -> bool {
        self.is_up() && !self.needs_stream && self.out.stream() > 0 && self.out.has_room()
    }

    /// Makes a datagram with these records, in place of what `into` holds. There must be [room](Self::has_room), and at most [`RECORDS_MAX`] bytes.
    pub fn send(&mut self, now_ns: u64, records: &[u8], into: &mut Vec<u8>) {
        debug_assert!(self.out.has_room() && records.len() <= RECORDS_MAX);
        let place = self.out.push(now_ns, records);
        self.write(now_ns, Some(place), records, into);
    }

    /// Makes a datagram that is due, in place of what `into` holds; returns whether one was.
    pub fn poll(&mut self, now_ns: u64, into: &mut Vec<u8>) -> bool {
        self.look(now_ns);
        into.clear();
        if self.is_up() {
            let mut records = std::mem::take(&mut self.again);
            let place = self.out.again(now_ns, &mut records);
            if place.is_some() {
                self.counts.resent += 1;
                self.write(now_ns, place, &records, into);
            }
            self.again = records;
            if place.is_some() {
                return true;
            }
        }
        let is_due = self.owes_answer || now_ns >= self.hello_at_ns;
        if is_due {
            self.write(now_ns, None, &[], into);
        }
        is_due
    }

    /// When [`poll`](Self::poll) has something next.
    pub fn due(&self) -> u64 {
        let again = if self.is_up() { self.out.due() } else { u64::MAX };
        let dead = self.partner.filter(|partner| partner.is_up);
        let dead = dead.map_or(u64::MAX, |partner| partner.heard_ns.saturating_add(self.settings.dead_ns));
        if self.owes_answer { 0 } else { again.min(dead).min(self.hello_at_ns) }
    }

    fn write(&mut self, now_ns: u64, frame: Option<Place>, records: &[u8], into: &mut Vec<u8>) {
        self.number += 1;
        self.counts.sent += 1;
        self.owes_answer = false;
        self.hello_at_ns = now_ns.saturating_add(self.settings.hello_ns);
        let to = self.partner.map_or(self.candidate, |partner| partner.epoch);
        let (awaited, wants_stream) = (self.inn.awaited(), self.inn.wants());
        Datagram { from: self.epoch, to, number: self.number, frame, awaited, wants_stream, records }
            .write(&self.key, into);
    }

    /// Sees whether the peer is still there.
    fn look(&mut self, now_ns: u64) {
        let dead_ns = self.settings.dead_ns;
        let Some(partner) = self.partner.as_mut().filter(|partner| partner.is_up) else { return };
        if now_ns.saturating_sub(partner.heard_ns) >= dead_ns {
            partner.is_up = false;
            self.lost();
        }
    }

    /// The peer is gone, or has lost its sessions.
    fn lost(&mut self) {
        self.out.clear();
        self.inn.give_up();
        self.task = Some(Task::Adopt);
    }

    /// Takes a datagram, and returns its records. They are none if it has none, or none that was awaited.
    ///
    /// # Errors
    /// It is not taken, and is counted.
    pub fn receive<'a>(&mut self, now_ns: u64, bytes: &'a [u8]) -> Result<&'a [u8], Refusal> {
        self.look(now_ns);
        let taken = self.take(now_ns, bytes);
        match taken {
            Ok(_) => self.counts.received += 1,
            Err(why) => self.counts.refused[why as usize] += 1,
        }
        taken
    }

    fn take<'a>(&mut self, now_ns: u64, bytes: &'a [u8]) -> Result<&'a [u8], Refusal> {
        let datagram = Datagram::read(bytes, &self.key).map_err(|why| match why {
            Unread::Malformed => Refusal::Malformed,
            Unread::Version => Refusal::Version,
            Unread::Tag => Refusal::Tag,
        })?;
        if datagram.from == self.epoch {
            return Err(Refusal::Reflected);
        }
        if self.retired.contains(&datagram.from) {
            return Err(Refusal::Retired);
        }
        if datagram.to != self.epoch {
            // It proves nothing yet. The answer names its epoch; one to a peer that is known goes out in time anyway.
            self.candidate = datagram.from;
            return Ok(&[]);
        }
        if !self.meet(now_ns, datagram.from).take(datagram.number) {
            return Err(Refusal::Replayed);
        }
        self.heard(now_ns);
        Ok(self.take_frame(now_ns, &datagram))
    }

    /// The peer has this epoch; returns what of it was seen.
    fn meet(&mut self, now_ns: u64, epoch: u64) -> &mut Replay {
        let known = self.partner.filter(|partner| partner.epoch == epoch);
        if known.is_none() {
            if let Some(before) = self.partner {
                if self.retired.len() == RETIRED {
                    self.retired.pop_front();
                }
                self.retired.push_back(before.epoch);
                self.counts.restarts += 1;
                self.lost();
            }
            self.inn = Inbound::new();
            self.task = Some(Task::Adopt);
        }
        let new = Partner { epoch, heard_ns: now_ns, replay: Replay::default(), is_up: false };
        &mut self.partner.insert(known.unwrap_or(new)).replay
    }

    fn heard(&mut self, now_ns: u64) {
        let Some(partner) = &mut self.partner else { return };
        partner.heard_ns = now_ns;
        if !partner.is_up {
            partner.is_up = true;
            self.counts.ups += 1;
            self.needs_stream = true;
            // A stream may begin at once, since there was none to this peer.
            self.began_ns = None;
            self.owes_answer = true;
        }
    }

    fn take_frame<'a>(&mut self, now_ns: u64, datagram: &Datagram<'a>) -> &'a [u8] {
        self.counts.acknowledged += self.out.acknowledge(now_ns, datagram.awaited) as u64;
        if datagram.wants_stream && datagram.awaited.stream >= self.out.stream() {
            self.needs_stream = true;
        }
        let Some(place) = datagram.frame else { return &[] };
        match self.inn.take(place) {
            Arrival::Next => {
                self.owes_answer = true;
                return datagram.records;
            }
            Arrival::Other => self.owes_answer = true,
            Arrival::Unready => {
                self.task.get_or_insert(Task::Mark);
            }
        }
        &[]
    }
}

#[cfg(test)]
mod tests;
