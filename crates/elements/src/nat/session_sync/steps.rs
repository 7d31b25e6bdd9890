// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our tables: changes become records, and walks over all sessions take a part at a time.

use element::clock::Nanos;
use nat::record::LENGTH;
use nat::{Nat, Pass, SessionRecord, Telling};
use statesync::{Link, Op, RECORDS_MAX, Task, record};
use sync::read_mostly::{ReadMostly, WriteGuard};

/// Sessions that are looked at in a step, while their table is locked.
const WALKED: usize = 1024;
/// Times that a table is looked at for one datagram's records.
const LOOKS: usize = 64;

/// A table.
pub(super) struct Table {
    name: String,
    nat: ReadMostly<Nat>,
    queue: usize,
}

impl Table {
    /// Its kind and name, as the peer knows it.
    pub(super) fn title(&self) -> String {
        format!("nat {}", self.name)
    }

    pub(super) fn lock(&self) -> WriteGuard<'_, Nat> {
        self.nat.write()
    }

    /// Notes changes from now on, if it does not; returns whether it did.
    fn listen(&self, nat: &mut Nat) -> bool {
        let listens = nat.tells_changes();
        if !listens {
            nat.tell_changes(self.queue);
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
    tables: Vec<Table>,
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
    pub(super) fn add(&mut self, name: &str, nat: ReadMostly<Nat>, queue: usize) {
        nat.write().tell_changes(queue);
        self.tables.push(Table { name: name.to_owned(), nat, queue });
    }

    pub(super) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// How many changes wait.
    pub(super) fn waiting(&self) -> usize {
        self.tables.iter().map(|table| table.lock().changes_waiting()).sum()
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
            let mut nat = table.lock();
            table.listen(&mut nat);
            nat.forget_changes();
        }
    }

    pub(super) fn is_busy(&self, link: &Link) -> bool {
        let sends = link.is_up() && (self.sending.is_some() || self.waiting() > 0);
        sends || link.task().is_some() || self.sweeping.is_some()
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
        let next = place.after(table.lock().pass(now, pass, place.at, WALKED));
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
            let mut nat = table.lock();
            has_lost |= !table.listen(&mut nat);
            has_lost |= nat.changes(now, room(&records), |one| {
                let (op, session) = match one {
                    Telling::Put(session) => (Op::Put, session),
                    Telling::End(session) => (Op::End, session),
                    Telling::Yield(session) => (Op::Yield, session),
                };
                put(&mut records, op, number, &session);
            });
        }
        for _ in 0..LOOKS {
            let Some(place) = self.sending.filter(|_| room(&records) > 0) else { break };
            let Some(table) = self.tables.get(place.table) else {
                record(&mut records, Op::Over, 0, &[]);
                self.sending = None;
                break;
            };
            let next = table.lock().owned(now, place.at, room(&records), |session| {
                put(&mut records, Op::Put, place.table, &session);
            });
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

fn put(records: &mut Vec<u8>, op: Op, table: usize, session: &SessionRecord) {
    record(records, op, table as u8, &session.to_bytes());
}
