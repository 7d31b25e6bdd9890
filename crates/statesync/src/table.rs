// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a table needs so that two routers both have its sessions.
//!
//! A session is *owned* by a router through which its packets go, or *mirrored* from the peer. One that is mirrored never expires: its owner says when it ends. The first
//! packet that goes through it makes it owned. That is reported to the peer, which then mirrors it.

use std::collections::VecDeque;

use crate::frame::Op;

/// A session that has been idle for so much longer here than at the peer is the peer's.
pub const SLACK_NS: u64 = 1_000_000_000;

/// Why a session of the peer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum NotTaken {
    /// Its record cannot be read.
    Malformed,
    /// The statements or rules here do not allow it.
    Policy,
    /// A session that is owned here has its addresses and ports.
    Conflict,
    /// There is no room.
    Full,
}

impl NotTaken {
    /// All.
    pub const ALL: [NotTaken; 4] =
        [NotTaken::Malformed, NotTaken::Policy, NotTaken::Conflict, NotTaken::Full];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["malformed", "policy", "conflict", "full"][self as usize]
    }
}

/// What is done to all mirrored sessions, some at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// They are owned from now on.
    Adopt,
    /// They are marked until the peer puts them again.
    Mark,
    /// Those that are marked end.
    Sweep,
}

/// A change: a session by its name `I` in the table, or a record `R` of one that may be gone.
#[derive(Clone, Copy, Debug)]
pub enum Change<I, R> {
    /// It is there, and owned here.
    Put(I),
    /// It has ended.
    End(R),
    /// It is left to the peer.
    Yield(R),
}

/// Changes that are to be reported to the peer.
#[derive(Debug)]
pub struct Changes<I, R> {
    all: VecDeque<Change<I, R>>,
    most: usize,
    /// Some were lost.
    has_lost: bool,
    /// The table has another policy.
    is_anew: bool,
}

impl<I, R> Changes<I, R> {
    /// Room for so many.
    pub fn new(most: usize) -> Changes<I, R> {
        Changes { all: VecDeque::with_capacity(most), most, has_lost: false, is_anew: false }
    }

    /// Another change, which is lost if there is no room.
    pub fn push(&mut self, change: Change<I, R>) {
        if self.all.len() < self.most {
            self.all.push_back(change);
        } else {
            self.has_lost = true;
        }
    }

    /// The first one.
    pub fn pop(&mut self) -> Option<Change<I, R>> {
        self.all.pop_front()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.all.len()
    }

    /// All are lost: with another policy, names of sessions are no longer valid.
    pub fn lose(&mut self) {
        self.all.clear();
        (self.has_lost, self.is_anew) = (true, true);
    }

    /// Whether the table has got another policy since the last call.
    pub fn take_anew(&mut self) -> bool {
        std::mem::take(&mut self.is_anew)
    }

    /// Forgets all, since all sessions are reported.
    pub fn forget(&mut self) {
        self.all.clear();
        self.has_lost = false;
    }

    /// Whether some were lost since the last call.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }
}

/// A table whose sessions two routers both have. Sessions are records: bytes that both tables can read.
pub trait Table {
    /// Whether changes are noted.
    fn tells_changes(&self) -> bool;

    /// Notes changes of sessions for a peer from now on: `most` at once. They are forgotten with 0.
    fn tell_changes(&mut self, most: usize);

    /// Whether there is another policy since the last call: then the peer is asked for all its sessions.
    fn is_anew(&mut self) -> bool;

    /// Forgets the changes that wait: all sessions are reported again.
    fn forget_changes(&mut self);

    /// How many changes wait.
    fn changes_waiting(&self) -> usize;

    /// Passes up to `most` changes on to `take`, in their order. Returns whether some were lost: then all sessions must be reported again.
    fn changes(&mut self, now_ns: u64, most: usize, take: &mut dyn FnMut(Op, &[u8])) -> bool;

    /// Passes the sessions that are owned, and agreed on, at up to `most` places from `from` on to `take`. Returns where to go on, or `None` at the end.
    fn owned(&mut self, now_ns: u64, from: usize, most: usize, take: &mut dyn FnMut(&[u8])) -> Option<usize>;

    /// Does something to the mirrored sessions at up to `most` places from `from` on. Returns where to go on, or `None` at the end.
    fn pass(&mut self, now_ns: u64, pass: Pass, from: usize, most: usize) -> Option<usize>;

    /// Does what a record of the peer says.
    ///
    /// # Errors
    /// The session is not taken.
    fn apply(&mut self, now_ns: u64, op: Op, record: &[u8]) -> Result<(), NotTaken>;

    /// There is no peer any more: its sessions are owned.
    fn leave_peer(&mut self, now_ns: u64) {
        self.tell_changes(0);
        let mut at = Some(0);
        while let Some(from) = at {
            at = self.pass(now_ns, Pass::Adopt, from, LEFT);
        }
    }
}

/// Sessions that are looked at together when there is no peer any more.
const LEFT: usize = 1024;
