// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table itself: entries, their ages, timers and shares.

use super::filter::Filter;
use super::pace::{Admission, Pace};
use super::share::{Of, Shares};
use super::state::{Action, Event, State, step};
use super::timers::{Timed, Timer, TimerKind, Timers};
use super::{
    Address, Answer, Asker, BROADCAST, Config, Discipline, Due, Loss, MS, Neighbour, Retries, SECOND, Waiting,
};
use crate::{
    mac::Mac,
    slab::{Id, List, Slab},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Least time between two queries for one neighbour, on demand.
const QUERY_EVERY_NS: u64 = 100 * MS;
/// The same after [`PATIENCE`] queries in vain.
const QUERY_SLOWLY_NS: u64 = 2 * SECOND;
const PATIENCE: u32 = 10;
/// Items for which a place keeps room when its neighbour is gone.
const KEPT_ITEMS: usize = 8;

/// The lists that entries are in.
const AGES: usize = 0;
const TIMERS: usize = 1;
const LISTS: usize = 2;

pub(super) struct Entry<Q> {
    /// What it was when something happened to it last; time may have made more of it, see [`Entry::state_at`].
    pub(super) state: State,
    pub(super) mac: Option<Mac>,
    pub(super) router: bool,
    /// When it was confirmed or made.
    since_ns: u64,
    /// Whether it is in the list of those that do not age.
    ageless: bool,
    /// When the last query was due; `None` when none was since the last answer.
    pub(super) queried_ns: Option<u64>,
    queries: u32,
    timer: Option<Timer>,
    /// Who pays for it while it has no answer: a source among the shares.
    source: Option<Id>,
    waiting: VecDeque<Q>,
}

impl<Q> Default for Entry<Q> {
    fn default() -> Self {
        Entry {
            state: State::Incomplete,
            mac: None,
            router: false,
            since_ns: 0,
            ageless: false,
            queried_ns: None,
            queries: 0,
            timer: None,
            source: None,
            waiting: VecDeque::new(),
        }
    }
}

impl<Q> Timed for Entry<Q> {
    fn timer(&self) -> Option<Timer> {
        self.timer
    }

    fn set_timer(&mut self, timer: Option<Timer>) {
        self.timer = timer;
    }
}

/// The table. `Q` is what waits: packets, as a rule; `A` is the kind of address. See the module's documentation.
///
/// ```
/// use junctor_tables::neighbour::{Answer, Config, Neighbours, Waiting};
/// let mut table = Neighbours::new(Config::default(), 42);
/// let (ip, mac) = (0x0a000001u32, [2, 0, 0, 0, 0, 1]);
/// assert_eq!(table.lookup(ip, 0), Answer::Unknown);
/// assert_eq!(table.wait(ip, "packet", 0, |_, _| ()), Waiting::Queued { query: true });
/// let sent: Vec<_> = table.insert(ip, mac, 5_000_000, |_, _| ()).into();
/// assert_eq!(sent, ["packet"]);
/// assert_eq!(table.lookup(ip, 6_000_000), Answer::Known { mac, query: false });
/// ```
pub struct Neighbours<Q, A = u32> {
    pub(super) config: Config,
    pub(super) entries: Slab<A, Entry<Q>, LISTS>,
    /// Every entry that ages, the one confirmed longest ago first.
    ages: List,
    /// The others, as they came.
    ageless: List,
    timers: Timers<TIMERS>,
    /// Who holds how many of the entries without an answer, and who has how many items waiting.
    shares: Shares,
    pace: Pace,
    waiting: usize,
    drops: u64,
    /// Raised whenever an answer ceases to be true before its time.
    pub(super) version: Arc<AtomicU64>,
    /// Addresses of entries that have an Ethernet address.
    pub(super) filter: Arc<Filter>,
}

impl<Q, A: Address> Neighbours<Q, A> {
    /// An empty table; `seed` should be random.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            entries: Slab::new(seed),
            ages: List::default(),
            ageless: List::default(),
            timers: Timers::new(seed),
            shares: Shares::new(seed),
            pace: Pace::new(seed),
            waiting: 0,
            drops: 0,
            version: Arc::new(AtomicU64::new(1)),
            filter: Arc::default(),
        }
    }

    /// A worker's limit on packets for neighbours that are not known; `seed` should be random.
    pub fn admission(&self, seed: u64) -> Admission {
        Admission::new(self.config.unknown_per_second, seed, self.filter.clone())
    }

    /// The Ethernet address of `ip` (host order).
    #[inline]
    pub fn lookup(&mut self, ip: A, now_ns: u64) -> Answer {
        self.lookup_until(ip, now_ns).0
    }

    /// As [`lookup`](Self::lookup), and until when a known address goes without a further question, if nobody changes the
    /// table: see [`NeighbourCache`](super::NeighbourCache).
    pub fn lookup_until(&mut self, ip: A, now_ns: u64) -> (Answer, u64) {
        self.lookup_for(ip, 0, now_ns)
    }

    /// As [`lookup_until`](Self::lookup_until), for one of several askers: it is informed if the neighbour must be asked.
    pub fn lookup_for(&mut self, ip: A, owner: u32, now_ns: u64) -> (Answer, u64) {
        let Some(id) = self.entries.find(ip) else {
            return (Answer::Unknown, 0);
        };
        let entry = &mut self.entries[id];
        let state = entry.state_at(&self.config, now_ns);
        let Some(mac) = entry.mac.filter(|_| state != State::Incomplete) else {
            return (Answer::Unknown, 0);
        };
        let known = |query, until_ns| (Answer::Known { mac, query }, until_ns);
        let after =
            |start_ns: u64, time_ns| if time_ns == 0 { u64::MAX } else { start_ns.saturating_add(time_ns) };
        match self.config.discipline {
            Discipline::Outside => known(false, u64::MAX),
            _ if state == State::Permanent => known(false, u64::MAX),
            Discipline::OnDemand => {
                let stale = state == State::Stale;
                let query = stale && entry.query_due(now_ns);
                let ask_ns = match entry.queried_ns {
                    Some(queried_ns) if stale => after(queried_ns, entry.pause_ns()),
                    _ => after(entry.since_ns, self.config.poll_ns),
                };
                known(query, ask_ns.min(after(entry.since_ns, self.config.timeout_ns)))
            }
            Discipline::Timed(retries) => {
                let (action, next) = step(state, Event::Packet);
                entry.state = next;
                if action == Action::Wait {
                    entry.queries = 0;
                    self.set_timer(id, owner, TimerKind::Delay, now_ns.saturating_add(retries.delay_ns));
                }
                let entry = &self.entries[id];
                let until_ns = match entry.timer {
                    Some(timer) => timer.at_ns,
                    None => after(entry.since_ns, self.config.poll_ns),
                };
                known(false, until_ns.min(after(entry.since_ns, self.config.timeout_ns)))
            }
        }
    }

    /// Lets `item` wait for the address of `ip`. Items that must go for it, or for its entry, are handed to `lost`.
    pub fn wait(&mut self, ip: A, item: Q, now_ns: u64, lost: impl FnMut(Q, Loss)) -> Waiting<Q> {
        self.wait_for(ip, item, Asker::default(), now_ns, lost)
    }

    /// As [`wait`](Self::wait), for one of several askers.
    pub fn wait_for(
        &mut self,
        ip: A,
        item: Q,
        asker: Asker,
        now_ns: u64,
        mut lost: impl FnMut(Q, Loss),
    ) -> Waiting<Q> {
        let found = self.entries.find(ip);
        let id = match found {
            Some(id) => id,
            None => {
                let paced = self.pace.allows(asker.share, self.config.new_per_second, now_ns);
                if !paced || !self.make_room(false, now_ns, &mut lost) {
                    self.drops += 1;
                    return Waiting::Refused(item, Loss::TableFull);
                }
                self.add(ip, now_ns)
            }
        };
        let entry = &self.entries[id];
        let state = entry.state_at(&self.config, now_ns);
        if let Some(mac) = entry.mac.filter(|_| state != State::Incomplete) {
            return Waiting::Known(mac, item);
        }
        // Someone still wants it, so it must not be the next to expire.
        let timeout_ns = self.config.timeout_ns;
        if found.is_some() && timeout_ns != 0 && entry.age_ns(now_ns) >= timeout_ns {
            self.touch(id, now_ns);
        }
        let limit = self.config.entry_packet_capacity;
        let entry = &mut self.entries[id];
        if limit != 0 && entry.waiting.len() >= limit {
            self.drops += 1;
            // RFC 4861 section 7.2.2 prefers new packets, Click old ones.
            let Discipline::Timed(_) = self.config.discipline else {
                return Waiting::Refused(item, Loss::QueueFull);
            };
            if let Some(oldest) = entry.waiting.pop_front() {
                lost(oldest, Loss::QueueFull);
            }
            entry.waiting.push_back(item);
            return Waiting::Queued { query: false };
        }
        entry.waiting.push_back(item);
        let query = self.ask(id, asker, now_ns);
        self.note_waiting(id, 1);
        self.limit_unresolved(&mut lost);
        self.note_crowd();
        if self.config.capacity != 0 && self.waiting > self.config.capacity {
            self.slim(&mut lost);
        }
        Waiting::Queued { query }
    }

    /// Notes that an entry has no answer and is wanted; says whether a query is due.
    fn ask(&mut self, id: Id, asker: Asker, now_ns: u64) -> bool {
        let entry = &mut self.entries[id];
        entry.mac = None;
        entry.state = State::Incomplete;
        if entry.source.is_none() {
            entry.source = Some(self.shares.join(asker.share, id));
        }
        match self.config.discipline {
            Discipline::OnDemand => entry.query_due(now_ns),
            Discipline::Outside => false,
            Discipline::Timed(_) if entry.timer.is_some() && entry.queries > 0 => false,
            Discipline::Timed(retries) => {
                (entry.queries, entry.queried_ns) = (1, Some(now_ns));
                let at_ns = now_ns.saturating_add(retries.retransmit_ns);
                self.set_timer(id, asker.owner, TimerKind::Retransmit, at_ns);
                true
            }
        }
    }

    /// Does what timers of `owner` ask for until now, and hands to `due` what its caller must do.
    pub fn advance(&mut self, owner: u32, now_ns: u64, mut due: impl FnMut(Due<Q, A>)) {
        let Discipline::Timed(retries) = self.config.discipline else { return };
        while let Some((at_ns, id)) = self.timers.next(&self.entries, owner)
            && at_ns <= now_ns
        {
            self.expire_timer(id, owner, now_ns, retries, &mut due);
        }
    }

    fn expire_timer(
        &mut self,
        id: Id,
        owner: u32,
        now_ns: u64,
        retries: Retries,
        due: &mut impl FnMut(Due<Q, A>),
    ) {
        self.timers.stop(&mut self.entries, id);
        let ip = self.entries.key(id);
        let entry = &mut self.entries[id];
        let limit = if entry.state == State::Incomplete { retries.multicast } else { retries.unicast };
        let (action, next) = step(entry.state, Event::Timer { more: entry.queries < limit });
        entry.state = next;
        match action {
            Action::Ask | Action::AskIt => {
                entry.queries += 1;
                entry.queried_ns = Some(now_ns);
                let to = entry.mac.filter(|_| action == Action::AskIt);
                let crowds = entry.source.is_some_and(|source| self.crowds(source));
                let at_ns = now_ns.saturating_add(retries.retransmit_ns);
                self.set_timer(id, owner, TimerKind::Retransmit, at_ns);
                if to.is_some() || !crowds {
                    due(Due::Query(ip, to));
                }
            }
            Action::Discard => {
                let waited = self.take_out(id);
                self.drops += waited.len() as u64;
                due(Due::Unreachable(ip, waited));
            }
            _ => {}
        }
    }

    /// Whether a source holds so much of the room for neighbours without an answer (an eighth of it, or its interface half) that repeating its queries would only flood the link (RFC 6583 section 7).
    fn crowds(&self, source: Id) -> bool {
        let room = self.config.unresolved_capacity;
        let (interface, source) = self.shares.weights(source);
        room != 0 && (source > (room / 8).max(1) || interface > (room / 2).max(1))
    }

    /// When [`advance`](Self::advance) will next have something to do for `owner`.
    pub fn next_timer_ns(&self, owner: u32) -> Option<u64> {
        self.timers.next(&self.entries, owner).map(|(at_ns, _)| at_ns)
    }

    /// Notes that `ip` (host order) has the address `mac`, and returns what waited for that, in order. A permanent
    /// neighbour stays as it is.
    pub fn insert(&mut self, ip: A, mac: Mac, now_ns: u64, mut lost: impl FnMut(Q, Loss)) -> VecDeque<Q> {
        let id = match self.entries.find(ip) {
            Some(id) if self.entries[id].state == State::Permanent => return VecDeque::new(),
            Some(id) => id,
            None => {
                self.make_room(true, now_ns, &mut lost);
                self.add(ip, now_ns)
            }
        };
        self.record(id, mac, State::Reachable, now_ns)
    }

    /// Writes down an answer: the address, the new state, and that it was confirmed now (or heard now). Returns what
    /// waited.
    pub(super) fn record(&mut self, id: Id, mac: Mac, state: State, now_ns: u64) -> VecDeque<Q> {
        let was_permanent = self.entries[id].state == State::Permanent;
        self.resolve(id);
        let waited = std::mem::take(&mut self.entries[id].waiting);
        self.confirmed(id, state, now_ns);
        self.filter.note(self.entries.key(id));
        let changed = self.entries[id].mac.replace(mac).is_some_and(|old| old != mac);
        if state == State::Permanent {
            self.move_to(id, true);
        }
        // A cache that holds another state's end would ask too late.
        if changed || was_permanent || state != State::Reachable {
            self.changed();
        }
        waited
    }

    /// Notes that a known neighbour was confirmed now.
    pub(super) fn confirmed(&mut self, id: Id, state: State, now_ns: u64) {
        self.timers.stop(&mut self.entries, id);
        self.touch(id, now_ns);
        let entry = &mut self.entries[id];
        entry.state = state;
        entry.queried_ns = None;
        entry.queries = 0;
        if self.config.discipline == Discipline::Outside {
            self.move_to(id, true);
        }
    }

    /// Forgets the address of `ip`: what waits goes on waiting, and the next packet asks anew. Says whether it was known.
    pub fn remove(&mut self, ip: A) -> bool {
        self.changed();
        let Some(id) = self.entries.find(ip) else { return false };
        let entry = &mut self.entries[id];
        if entry.mac.take().is_none() {
            return false;
        }
        entry.state = State::Incomplete;
        entry.queries = 0;
        let ageless = entry.ageless;
        self.timers.stop(&mut self.entries, id);
        if ageless {
            self.move_to(id, false);
        }
        true
    }

    /// Forgets all that neighbours said, as after the link to them was lost. What is permanent or was fed from outside stays, and what
    /// waits for an answer goes on waiting. Says how many were forgotten.
    pub fn forget_learnt(&mut self, mut lost: impl FnMut(Q, Loss)) -> usize {
        if self.config.discipline == Discipline::Outside {
            return 0;
        }
        self.changed();
        let learnt = |id: &Id| {
            let entry = &self.entries[*id];
            entry.mac.is_some() && entry.state != State::Permanent
        };
        let learnt: Vec<Id> = self.ids().filter(learnt).collect();
        for id in &learnt {
            self.evict(*id, Loss::Cleared, &mut lost);
        }
        learnt.len()
    }

    /// Removes all entries; what waited goes to `lost`.
    pub fn clear(&mut self, mut lost: impl FnMut(Q, Loss)) {
        self.changed();
        for id in self.ids().collect::<Vec<_>>() {
            let waited = std::mem::take(&mut self.entries[id].waiting);
            self.drops += waited.len() as u64;
            waited.into_iter().for_each(|item| lost(item, Loss::Cleared));
        }
        self.entries.clear();
        (self.ages, self.ageless) = (List::default(), List::default());
        self.timers.clear();
        self.shares.clear();
        self.waiting = 0;
        self.refilter();
        self.note_crowd();
    }

    /// Removes entries that have reached the timeout; what waited for them goes to `lost`. Looks at expired entries only.
    pub fn expire(&mut self, now_ns: u64, mut lost: impl FnMut(Q, Loss)) {
        while self.config.timeout_ns != 0
            && let Some(id) = self.ages.first()
            && self.entries[id].age_ns(now_ns) >= self.config.timeout_ns
        {
            self.evict(id, Loss::Unreachable, &mut lost);
        }
    }

    /// When [`expire`](Self::expire) will next have something to do.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let since_ns = self.entries[self.ages.first()?].since_ns;
        (self.config.timeout_ns != 0).then(|| since_ns.saturating_add(self.config.timeout_ns))
    }

    /// All entries, the one confirmed longest ago first, those that do not age last.
    fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        [self.ages, self.ageless].into_iter().flat_map(|list| self.entries.list(AGES, list))
    }

    /// All neighbours, the one confirmed longest ago first, those that do not age last.
    pub fn iter(&self, now_ns: u64) -> impl Iterator<Item = Neighbour<A>> + '_ {
        self.ids().map(move |id| self.neighbour(id, now_ns))
    }

    /// One neighbour, if it has an entry.
    pub fn get(&self, ip: A, now_ns: u64) -> Option<Neighbour<A>> {
        Some(self.neighbour(self.entries.find(ip)?, now_ns))
    }

    fn neighbour(&self, id: Id, now_ns: u64) -> Neighbour<A> {
        let entry = &self.entries[id];
        Neighbour {
            ip: self.entries.key(id),
            state: entry.state_at(&self.config, now_ns),
            mac: entry.mac.unwrap_or(BROADCAST),
            router: entry.router,
            age_ns: entry.age_ns(now_ns),
            waiting: entry.waiting.len(),
        }
    }

    /// A neighbour with that Ethernet address.
    pub fn reverse_lookup(&self, mac: Mac) -> Option<A> {
        self.ids().find(|id| self.entries[*id].mac == Some(mac)).map(|id| self.entries.key(id))
    }

    /// Number of entries (Click's `count`).
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries without an answer.
    pub fn unresolved(&self) -> usize {
        self.shares.len()
    }

    /// Number of items waiting (Click's `length`).
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Items dropped so far, for want of an answer or of room.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Limits and times.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes limits and times. They hold from the next call that adds something.
    pub fn set_config(&mut self, config: Config) {
        self.changed();
        self.config = config;
    }

    /// Takes over all that `other` knows and what waits there, under this table's own limits and times; if this table knows
    /// something already, nothing happens. Caches of this table stay good.
    pub fn take(&mut self, other: &mut Self) {
        if !self.entries.is_empty() {
            return;
        }
        use std::mem::swap;
        swap(&mut self.entries, &mut other.entries);
        swap(&mut self.ages, &mut other.ages);
        swap(&mut self.ageless, &mut other.ageless);
        swap(&mut self.timers, &mut other.timers);
        swap(&mut self.shares, &mut other.shares);
        swap(&mut self.pace, &mut other.pace);
        swap(&mut self.waiting, &mut other.waiting);
        swap(&mut self.drops, &mut other.drops);
        for table in [&*self, &*other] {
            table.refilter();
            table.note_crowd();
            table.changed();
        }
    }

    /// Makes room for one more entry: for a neighbour that is known, or else for one that is to be asked for. In that case it
    /// may fail, because all others are known and in use.
    pub(super) fn make_room(&mut self, known: bool, now_ns: u64, lost: &mut impl FnMut(Q, Loss)) -> bool {
        let limit = self.config.entry_capacity;
        if limit == 0 || self.entries.len() < limit {
            return true;
        }
        self.expire(now_ns, &mut *lost);
        while self.entries.len() >= limit {
            let Some(victim) = self.shares.heaviest(Of::Neighbours).or_else(|| self.oldest(known, now_ns))
            else {
                return false;
            };
            self.evict(victim, Loss::TableFull, lost);
        }
        true
    }

    /// The neighbour confirmed longest ago, if it may go.
    fn oldest(&self, at_any_age: bool, now_ns: u64) -> Option<Id> {
        let Some(id) = self.ages.first() else {
            // What does not age goes only for its like.
            return self.ageless.first().filter(|_| at_any_age);
        };
        let state = self.entries[id].state_at(&self.config, now_ns);
        (at_any_age || matches!(state, State::Incomplete | State::Stale)).then_some(id)
    }

    /// Keeps to the bound on entries without an answer.
    fn limit_unresolved(&mut self, lost: &mut impl FnMut(Q, Loss)) {
        while self.config.unresolved_capacity != 0
            && self.shares.len() > self.config.unresolved_capacity
            && let Some(victim) = self.shares.heaviest(Of::Neighbours)
        {
            self.evict(victim, Loss::TableFull, lost);
        }
    }

    /// Adds an entry for which there is room.
    pub(super) fn add(&mut self, ip: A, now_ns: u64) -> Id {
        let id = self.entries.add(ip);
        let entry = &mut self.entries[id];
        let waiting = std::mem::take(&mut entry.waiting);
        *entry = Entry { since_ns: now_ns, waiting, ..Entry::default() };
        self.link(id, false);
        id
    }

    /// Makes the entry the youngest.
    fn touch(&mut self, id: Id, now_ns: u64) {
        self.unlink(id);
        self.entries[id].since_ns = now_ns;
        self.link(id, false);
    }

    /// Moves an entry to its place among those that age, or to the end of those that do not.
    fn move_to(&mut self, id: Id, ageless: bool) {
        self.unlink(id);
        self.link(id, ageless);
    }

    fn unlink(&mut self, id: Id) {
        let list = if self.entries[id].ageless { &mut self.ageless } else { &mut self.ages };
        self.entries.unlink(AGES, list, id);
    }

    fn link(&mut self, id: Id, ageless: bool) {
        self.entries[id].ageless = ageless;
        if ageless {
            return self.entries.link_last(AGES, &mut self.ageless, id);
        }
        // Nearly always the last one is older: workers' clocks differ by a little, and what aged again is rare.
        let since_ns = self.entries[id].since_ns;
        let mut before = self.ages.last();
        while let Some(younger) = before
            && self.entries[younger].since_ns > since_ns
        {
            before = self.entries.previous(AGES, younger);
        }
        self.entries.link_after(AGES, &mut self.ages, before, id);
    }

    /// Takes an entry and what waits for it out of the shares; the items stay where they are.
    fn resolve(&mut self, id: Id) {
        let entry = &mut self.entries[id];
        let items = entry.waiting.len();
        if let Some(source) = entry.source.take() {
            self.shares.leave(source, id, items);
        }
        self.waiting -= items;
        self.note_crowd();
    }

    /// Notes that `by` more (or fewer) items wait for an entry.
    fn note_waiting(&mut self, id: Id, by: isize) {
        self.waiting = self.waiting.saturating_add_signed(by);
        if let Some(source) = self.entries[id].source {
            self.shares.change(Of::Items, source, id, by);
        }
    }

    fn set_timer(&mut self, id: Id, owner: u32, kind: TimerKind, at_ns: u64) {
        self.timers.stop(&mut self.entries, id);
        self.timers.set(&mut self.entries, id, owner, kind, at_ns);
    }

    /// Removes an entry altogether; what waited for it is left in its place.
    fn forget(&mut self, id: Id) {
        self.timers.stop(&mut self.entries, id);
        self.resolve(id);
        self.unlink(id);
        self.entries.remove(id);
        // Caches hold what was answered. A scan makes and removes entries without an answer all the time, and must
        // not send the packets of all others to the table each time.
        if self.entries[id].mac.is_some() {
            self.changed();
            if self.filter.forget() {
                self.refilter();
            }
        }
    }

    /// Removes an entry altogether; returns what waited for it.
    fn take_out(&mut self, id: Id) -> VecDeque<Q> {
        self.forget(id);
        std::mem::take(&mut self.entries[id].waiting)
    }

    /// Makes the filter say whether neighbours without an answer take three quarters of their room.
    #[inline]
    fn note_crowd(&self) {
        let room = match self.config.unresolved_capacity {
            0 => Config::default().unresolved_capacity,
            room => room,
        };
        self.filter.crowd(self.shares.len() >= (room - room / 4).max(1));
    }

    /// Makes the filter say what is known now.
    fn refilter(&self) {
        let known = self.ids().filter(|id| self.entries[*id].mac.is_some());
        self.filter.rebuild(known.map(|id| self.entries.key(id)));
    }

    pub(super) fn evict(&mut self, id: Id, why: Loss, lost: &mut impl FnMut(Q, Loss)) {
        self.forget(id);
        let waited = &mut self.entries[id].waiting;
        self.drops += waited.len() as u64;
        waited.drain(..).for_each(|item| lost(item, why));
        waited.shrink_to(KEPT_ITEMS);
    }

    /// Takes items from the entry with most, until `capacity / slim_factor` places are free; at least one stays.
    fn slim(&mut self, lost: &mut impl FnMut(Q, Loss)) {
        let capacity = self.config.capacity;
        let target = (capacity - capacity / self.config.slim_factor.max(1)).max(1);
        while self.waiting > target
            && let Some(id) = self.shares.heaviest(Of::Items)
        {
            let item = self.entries[id].waiting.pop_front();
            self.note_waiting(id, -1);
            self.drops += 1;
            item.into_iter().for_each(|item| lost(item, Loss::QueueFull));
        }
    }

    pub(super) fn changed(&self) {
        // Release, and before the caller's lock on the table is freed: who sees it finds the change.
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl<Q> Entry<Q> {
    #[inline]
    fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }

    /// The state that time has made of it.
    #[inline]
    pub(super) fn state_at(&self, config: &Config, now_ns: u64) -> State {
        let outside = config.discipline == Discipline::Outside;
        if self.mac.is_none() {
            return State::Incomplete;
        } else if self.state == State::Permanent || outside {
            return self.state;
        }
        let age_ns = self.age_ns(now_ns);
        if config.timeout_ns != 0 && age_ns >= config.timeout_ns {
            State::Incomplete
        } else if self.state == State::Reachable && config.poll_ns != 0 && age_ns >= config.poll_ns {
            step(self.state, Event::Aged).1
        } else {
            self.state
        }
    }

    /// Least time from the last query to the next, on demand.
    fn pause_ns(&self) -> u64 {
        if self.queries < PATIENCE { QUERY_EVERY_NS } else { QUERY_SLOWLY_NS }
    }

    /// Whether a query may go out now; if so it counts as sent.
    fn query_due(&mut self, now_ns: u64) -> bool {
        let due = self.queried_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) >= self.pause_ns());
        if due {
            self.queried_ns = Some(now_ns);
            self.queries = self.queries.saturating_add(1);
        }
        due
    }
}

impl<Q, A: Address> std::fmt::Debug for Neighbours<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours")
            .field("len", &self.len())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
