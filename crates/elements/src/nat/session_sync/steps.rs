// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our tables: changes become records, and walks over all sessions take a part at a time.

use element::clock::Nanos;
use nat::Nat;
use statesync::{Link, Op, Pass, RECORDS_MAX, Table, Task, record};
use sync::read_mostly::ReadMostly;

use crate::firewalls::SharedJudge;

/// Sessions that are looked at in a step, while their table is locked.
const WALKED: usize = 1024;
/// Times that a table is looked at for one datagram's records.
const LOOKS: usize = 64;

/// The longest record of a session.
const LENGTH: usize = if nat::record::LENGTH > firewall::record::LENGTH {
    nat::record::LENGTH
} else {
    firewall::record::LENGTH
};

/// Where the sessions of an element are.
#[derive(Clone)]
pub(super) enum Sessions {
    Nat(ReadMostly<Nat>),
    Firewall(SharedJudge),
}

/// A table that is kept.
pub(super) struct Kept {
    name: String,
    sessions: Sessions,
    queue: usize,
}

impl Kept {
    /// Its kind and name, as the peer knows it.
    pub(super) fn title(&self) -> String {
        let kind = match self.sessions {
            Sessions::Nat(_) => "nat",
            Sessions::Firewall(_) => "firewall",
        };
        format!("{kind} {}", self.name)
    }

    /// Uses its sessions, while packets wait.
    pub(super) fn with<T>(&self, using: impl FnOnce(&mut dyn Table) -> T) -> T {
        match &self.sessions {
            Sessions::Nat(nat) => using(&mut *nat.write()),
            Sessions::Firewall(judge) => using(&mut judge.write().firewall),
        }
    }

    /// Notes changes from now on, if it does not; returns whether it did.
    fn listen(&self, sessions: &mut dyn Table) -> bool {
        let listens = sessions.tells_changes();
        if !listens {
            sessions.tell_changes(self.queue);
        }
        listens
    }
}

/// A place on a walk over all tables: the table, and the place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    table: usize,
    at: usize,
}

impl Place {
    /// Goes on after a part of a table.
    fn after(self, next: Option<usize>) -> Place {
        match next {
            Some(at) => Place { at, ..self },
            None => Place { table: self.table + 1, at: 0 },
        }
    }
}

/// What is to be done, and how far it is.
#[derive(Default)]
pub(super) struct Steps {
    tables: Vec<Kept>,
    /// All sessions are being sent.
    sending: Option<Place>,
    /// The first record of a stream is due.
    begins: bool,
    /// What the link needs, and how far that is.
    task: Option<(Pass, Place)>,
    /// Sessions that the peer has not put again end.
    sweeping: Option<Place>,
    /// The peer is sending all sessions.
    taking: bool,
    records: Vec<u8>,
}

impl Steps {
    /// Keeps the sessions of a table. Returns whether nobody else does.
    pub(super) fn add(&mut self, name: &str, sessions: Sessions, queue: usize) -> bool {
        let table = Kept { name: name.to_owned(), sessions, queue };
        let is_kept = table.with(|sessions| table.listen(sessions));
        self.tables.push(table);
        !is_kept
    }

    pub(super) fn tables(&self) -> &[Kept] {
        &self.tables
    }

    /// How many changes wait.
    pub(super) fn waiting(&self) -> usize {
        self.tables.iter().map(|table| table.with(|sessions| sessions.changes_waiting())).sum()
    }

    /// Whether all sessions are being sent or taken.
    pub(super) fn doing(&self, link: &Link) -> &'static str {
        match (link.is_up() && self.sending.is_some(), link.is_up() && self.taking) {
            (false, false) => "idle",
            (true, false) => "sending",
            (false, true) => "taking",
            (true, true) => "both",
        }
    }

    /// The peer begins to send all its sessions.
    pub(super) fn begin(&mut self) {
        self.sweeping = None;
        self.taking = true;
    }

    /// The peer has put all its sessions.
    pub(super) fn sweep(&mut self) {
        self.sweeping = Some(Place::default());
        self.taking = false;
    }

    /// All our sessions are to be sent.
    pub(super) fn start(&mut self) {
        self.sending = Some(Place::default());
        self.begins = true;
        for table in &self.tables {
            table.with(|sessions| {
                table.listen(sessions);
                sessions.forget_changes();
            });
        }
    }

    pub(super) fn is_busy(&self, link: &Link) -> bool {
        let sends = link.is_up() && (self.sending.is_some() || self.waiting() > 0);
        sends || link.task().is_some() || self.sweeping.is_some()
    }

    /// Whether a table has another policy since the last call.
    pub(super) fn are_anew(&self) -> bool {
        // All of them are asked.
        self.tables.iter().filter(|table| table.with(|sessions| sessions.is_anew())).count() > 0
    }

    /// Does a part of what the link needs, or ends some sessions that the peer has not put again.
    pub(super) fn walk(&mut self, now: Nanos, link: &mut Link) {
        let Some(task) = link.task() else {
            self.task = None;
            self.sweeping = self.sweeping.and_then(|place| self.pass(now, Pass::Sweep, place));
            return;
        };
        // What was marked for an earlier stream is marked again.
        self.sweeping = None;
        let pass = match task {
            Task::Adopt => Pass::Adopt,
            Task::Mark => Pass::Mark,
        };
        let place =
            self.task.filter(|(before, _)| *before == pass).map_or(Place::default(), |(_, place)| place);
        self.task = self.pass(now, pass, place).map(|next| (pass, next));
        if self.task.is_none() {
            link.done();
        }
    }

    /// Does something to some sessions. Returns where to go on.
    fn pass(&self, now: Nanos, pass: Pass, place: Place) -> Option<Place> {
        let table = self.tables.get(place.table)?;
        let next = place.after(table.with(|sessions| sessions.pass(now, pass, place.at, WALKED)));
        (next.table < self.tables.len()).then_some(next)
    }

    /// The next records, as many as a datagram holds; and whether changes were lost.
    pub(super) fn records(&mut self, now: Nanos) -> (&[u8], bool) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        if std::mem::take(&mut self.begins) {
            record(&mut records, Op::Begin, 0, &[]);
            for (number, table) in self.tables.iter().enumerate() {
                record(&mut records, Op::Table, number as u8, table.title().as_bytes());
            }
        }
        let mut has_lost = false;
        for (number, table) in self.tables.iter().enumerate() {
            has_lost |= table.with(|sessions| {
                let has_missed = !table.listen(sessions);
                let most = room(&records);
                let mut put = |op: Op, session: &[u8]| _ = record(&mut records, op, number as u8, session);
                sessions.changes(now, most, &mut put) || has_missed
            });
        }
        for _ in 0..LOOKS {
            let Some(place) = self.sending.filter(|_| room(&records) > 0) else { break };
            let Some(table) = self.tables.get(place.table) else {
                record(&mut records, Op::Over, 0, &[]);
                self.sending = None;
                break;
            };
            let most = room(&records);
            let mut put = |session: &[u8]| _ = record(&mut records, Op::Put, place.table as u8, session);
            let next = table.with(|sessions| sessions.owned(now, place.at, most, &mut put));
            self.sending = Some(place.after(next));
        }
        self.records = records;
        (&self.records, has_lost)
    }
}

/// How many sessions still go into a datagram.
fn room(records: &[u8]) -> usize {
    (RECORDS_MAX - records.len()) / (LENGTH + 3)
}
