// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table itself: entries, their ages, timers and shares.

use super::filter::Filter;
use super::pace::{Admission, Pace};
use super::share::{Share, Shares};
use super::state::{Action, Event, State, step};
use super::{
    Address, Answer, Asker, BROADCAST, Config, Discipline, Due, Loss, MS, Neighbour, Retries, SECOND, Waiting,
};
use crate::{hash::Seed, mac::Mac};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
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
/// The place in the list by age of what has no age.
const AGELESS_NS: u64 = u64::MAX;

pub(super) struct Entry<Q> {
    /// What it was when something happened to it last; time may have made more of it, see [`Entry::state_at`].
    pub(super) state: State,
    pub(super) mac: Option<Mac>,
    pub(super) router: bool,
    /// When it was confirmed or made.
    since_ns: u64,
    /// The same (or [`AGELESS_NS`]) and a serial number: its place in the list by age.
    place: (u64, u64),
    /// When the last query was due; `None` when none was since the last answer.
    pub(super) queried_ns: Option<u64>,
    queries: u32,
    /// When its timer expires, and for whom.
    timer: Option<(u32, u64)>,
    /// Who pays for it while it has no answer.
    share: Option<Share>,
    waiting: VecDeque<Q>,
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
    pub(super) entries: HashMap<A, Entry<Q>, Seed>,
    /// Every entry, the one confirmed longest ago first.
    ages: BTreeMap<(u64, u64), A>,
    /// Timers by owner and time.
    timers: BTreeSet<(u32, u64, A)>,
    /// Who holds how many of the entries without an answer, and who has how many items waiting.
    unresolved: Shares<A>,
    queues: Shares<A>,
    pace: Pace,
    serial: u64,
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
            entries: HashMap::with_hasher(Seed(seed)),
            ages: BTreeMap::new(),
            timers: BTreeSet::new(),
            unresolved: Shares::new(seed),
            queues: Shares::new(seed),
            pace: Pace::new(seed),
            serial: 0,
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

    /// As [`lookup_until`](Self::lookup_until), for one of several askers: it is told if the neighbour must be asked.
    pub fn lookup_for(&mut self, ip: A, owner: u32, now_ns: u64) -> (Answer, u64) {
        let Some(entry) = self.entries.get_mut(&ip) else {
            return (Answer::Unknown, 0);
        };
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
                    self.set_timer(ip, owner, now_ns.saturating_add(retries.delay_ns));
                }
                let entry = &self.entries[&ip];
                let until_ns = match entry.timer {
                    Some((_, due_ns)) => due_ns,
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
        let fresh = !self.entries.contains_key(&ip);
        if fresh {
            let paced = self.pace.allows(asker.share, self.config.new_per_second, now_ns);
            if !paced || !self.make_room(None, now_ns, &mut lost) {
                self.drops += 1;
                return Waiting::Refused(item, Loss::TableFull);
            }
            self.add(ip, now_ns);
        }
        let entry = self.entries.get_mut(&ip).expect("made above");
        let state = entry.state_at(&self.config, now_ns);
        if let Some(mac) = entry.mac.filter(|_| state != State::Incomplete) {
            return Waiting::Known(mac, item);
        }
        // Someone still wants it, so it must not be the next to expire.
        let lapsed = !fresh && self.config.timeout_ns != 0 && entry.age_ns(now_ns) >= self.config.timeout_ns;
        if lapsed {
            self.touch(ip, now_ns);
        }
        let limit = self.config.entry_packet_capacity;
        let entry = self.entries.get_mut(&ip).expect("made above");
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
        let query = self.ask(ip, asker, now_ns);
        self.note_crowd();
        self.note_waiting(ip, 1);
        self.limit_unresolved(&mut lost);
        if self.config.capacity != 0 && self.waiting > self.config.capacity {
            self.slim(&mut lost);
        }
        Waiting::Queued { query }
    }

    /// Notes that `ip` has no answer and is wanted; says whether a query is due.
    fn ask(&mut self, ip: A, asker: Asker, now_ns: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&ip) else { return false };
        entry.mac = None;
        entry.state = State::Incomplete;
        if entry.share.is_none() {
            entry.share = Some(asker.share);
            self.serial += 1;
            self.unresolved.change(asker.share, ip, 1, self.serial);
        }
        match self.config.discipline {
            Discipline::OnDemand => entry.query_due(now_ns),
            Discipline::Outside => false,
            Discipline::Timed(_) if entry.timer.is_some() && entry.queries > 0 => false,
            Discipline::Timed(retries) => {
                (entry.queries, entry.queried_ns) = (1, Some(now_ns));
                self.set_timer(ip, asker.owner, now_ns.saturating_add(retries.retransmit_ns));
                true
            }
        }
    }

    /// Does what timers of `owner` ask for until now, and hands to `due` what its caller must do.
    pub fn advance(&mut self, owner: u32, now_ns: u64, mut due: impl FnMut(Due<Q, A>)) {
        let Discipline::Timed(retries) = self.config.discipline else { return };
        while let Some((found, at_ns, ip)) = self.timers.range((owner, 0, A::default())..).next().copied()
            && found == owner
            && at_ns <= now_ns
        {
            self.expire_timer(ip, owner, now_ns, retries, &mut due);
        }
    }

    fn expire_timer(
        &mut self,
        ip: A,
        owner: u32,
        now_ns: u64,
        retries: Retries,
        due: &mut impl FnMut(Due<Q, A>),
    ) {
        self.clear_timer(ip);
        let Some(entry) = self.entries.get_mut(&ip) else { return };
        let limit = if entry.state == State::Incomplete { retries.multicast } else { retries.unicast };
        let (action, next) = step(entry.state, Event::Timer { more: entry.queries < limit });
        entry.state = next;
        match action {
            Action::Ask | Action::AskIt => {
                entry.queries += 1;
                entry.queried_ns = Some(now_ns);
                let to = entry.mac.filter(|_| action == Action::AskIt);
                let crowds = entry.share.is_some_and(|share| self.crowds(share));
                self.set_timer(ip, owner, now_ns.saturating_add(retries.retransmit_ns));
                if to.is_some() || !crowds {
                    due(Due::Query(ip, to));
                }
            }
            Action::Discard => {
                let waited = self.take_out(ip);
                self.drops += waited.len() as u64;
                due(Due::Unreachable(ip, waited));
            }
            _ => {}
        }
    }

    /// Whether a share holds so much of the room for neighbours without an answer (its source an eighth of it, its interface
    /// half) that repeating its queries would only flood the link (RFC 6583 section 7).
    fn crowds(&self, share: Share) -> bool {
        let room = self.config.unresolved_capacity;
        let (interface, source) = self.unresolved.weights(share);
        room != 0 && (source > (room / 8).max(1) || interface > (room / 2).max(1))
    }

    /// When [`advance`](Self::advance) will next have something to do for `owner`.
    pub fn next_timer_ns(&self, owner: u32) -> Option<u64> {
        let (found, at_ns, _) = self.timers.range((owner, 0, A::default())..).next()?;
        (*found == owner).then_some(*at_ns)
    }

    /// Notes that `ip` (host order) has the address `mac`, and returns what waited for that, in order. A permanent
    /// neighbour stays as it is.
    pub fn insert(&mut self, ip: A, mac: Mac, now_ns: u64, mut lost: impl FnMut(Q, Loss)) -> VecDeque<Q> {
        if !self.entries.contains_key(&ip) {
            self.make_room(Some(ip), now_ns, &mut lost);
            self.add(ip, now_ns);
        } else if self.entries[&ip].state == State::Permanent {
            return VecDeque::new();
        }
        self.record(ip, mac, State::Reachable, now_ns)
    }

    /// Writes down an answer: the address, the new state, and that it was confirmed now (or heard now). Returns what
    /// waited.
    pub(super) fn record(&mut self, ip: A, mac: Mac, state: State, now_ns: u64) -> VecDeque<Q> {
        self.clear_timer(ip);
        let waited = self.resolve(ip);
        self.touch(ip, now_ns);
        self.filter.note(ip);
        let entry = self.entries.get_mut(&ip).expect("touched above");
        let changed = entry.mac.replace(mac).is_some_and(|old| old != mac);
        let was_permanent = entry.state == State::Permanent;
        entry.state = state;
        entry.queried_ns = None;
        entry.queries = 0;
        let ageless = state == State::Permanent || self.config.discipline == Discipline::Outside;
        if ageless {
            self.move_to(ip, AGELESS_NS);
        }
        // A cache that holds another state's end would ask too late.
        if changed || was_permanent || state != State::Reachable {
            self.changed();
        }
        waited
    }

    /// Notes that a known neighbour was confirmed now.
    pub(super) fn confirmed(&mut self, ip: A, state: State, now_ns: u64) {
        self.clear_timer(ip);
        let entry = self.touch(ip, now_ns);
        entry.state = state;
        entry.queried_ns = None;
        entry.queries = 0;
        if self.config.discipline == Discipline::Outside {
            self.move_to(ip, AGELESS_NS);
        }
    }

    /// Forgets the address of `ip`: what waits goes on waiting, and the next packet asks anew. Says whether it was known.
    pub fn remove(&mut self, ip: A) -> bool {
        self.changed();
        let Some(entry) = self.entries.get_mut(&ip) else { return false };
        if entry.mac.take().is_none() {
            return false;
        }
        entry.state = State::Incomplete;
        entry.queries = 0;
        let (ageless, since_ns) = (entry.place.0 == AGELESS_NS, entry.since_ns);
        self.clear_timer(ip);
        if ageless {
            self.move_to(ip, since_ns);
        }
        true
    }

    /// Removes all entries; what waited goes to `lost`.
    pub fn clear(&mut self, mut lost: impl FnMut(Q, Loss)) {
        self.changed();
        self.ages.clear();
        self.timers.clear();
        self.unresolved.clear();
        self.queues.clear();
        for (_, entry) in self.entries.drain() {
            self.drops += entry.waiting.len() as u64;
            entry.waiting.into_iter().for_each(|item| lost(item, Loss::Cleared));
        }
        self.waiting = 0;
        self.refilter();
        self.note_crowd();
    }

    /// Removes entries that have reached the timeout; what waited for them goes to `lost`. Looks at expired entries only.
    pub fn expire(&mut self, now_ns: u64, mut lost: impl FnMut(Q, Loss)) {
        while self.config.timeout_ns != 0
            && let Some(((since_ns, _), ip)) = self.ages.first_key_value()
            && *since_ns != AGELESS_NS
            && now_ns.saturating_sub(*since_ns) >= self.config.timeout_ns
        {
            self.evict(*ip, Loss::Unreachable, &mut lost);
        }
    }

    /// When [`expire`](Self::expire) will next have something to do.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let ((since_ns, _), _) = self.ages.first_key_value()?;
        let ages = self.config.timeout_ns != 0 && *since_ns != AGELESS_NS;
        ages.then(|| since_ns.saturating_add(self.config.timeout_ns))
    }

    /// All neighbours, the one confirmed longest ago first, those that do not age last.
    pub fn iter(&self, now_ns: u64) -> impl Iterator<Item = Neighbour<A>> + '_ {
        self.ages.values().filter_map(move |ip| self.get(*ip, now_ns))
    }

    /// One neighbour, if it has an entry.
    pub fn get(&self, ip: A, now_ns: u64) -> Option<Neighbour<A>> {
        let entry = self.entries.get(&ip)?;
        Some(Neighbour {
            ip,
            state: entry.state_at(&self.config, now_ns),
            mac: entry.mac.unwrap_or(BROADCAST),
            router: entry.router,
            age_ns: entry.age_ns(now_ns),
            waiting: entry.waiting.len(),
        })
    }

    /// A neighbour with that Ethernet address.
    pub fn reverse_lookup(&self, mac: Mac) -> Option<A> {
        self.ages.values().copied().find(|ip| self.entries[ip].mac == Some(mac))
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
        self.unresolved.len()
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
        swap(&mut self.timers, &mut other.timers);
        swap(&mut self.unresolved, &mut other.unresolved);
        swap(&mut self.queues, &mut other.queues);
        swap(&mut self.pace, &mut other.pace);
        swap(&mut self.serial, &mut other.serial);
        swap(&mut self.waiting, &mut other.waiting);
        swap(&mut self.drops, &mut other.drops);
        for table in [&*self, &*other] {
            table.refilter();
            table.note_crowd();
        }
        self.changed();
        other.changed();
    }

    /// Makes room for one more entry: for a neighbour that is known, or else for one that is to be asked for. In that case it
    /// may fail, because all others are known and in use.
    pub(super) fn make_room(
        &mut self,
        known: Option<A>,
        now_ns: u64,
        lost: &mut impl FnMut(Q, Loss),
    ) -> bool {
        let limit = self.config.entry_capacity;
        if limit == 0 || self.entries.len() < limit {
            return true;
        }
        self.expire(now_ns, &mut *lost);
        while self.entries.len() >= limit {
            let Some(victim) = self.unresolved.heaviest().or_else(|| self.oldest(known.is_some(), now_ns))
            else {
                return false;
            };
            self.evict(victim, Loss::TableFull, lost);
        }
        true
    }

    /// The neighbour confirmed longest ago, if it may go.
    fn oldest(&self, at_any_age: bool, now_ns: u64) -> Option<A> {
        let ((since_ns, _), ip) = self.ages.first_key_value()?;
        let entry = &self.entries[ip];
        let idle = matches!(entry.state_at(&self.config, now_ns), State::Incomplete | State::Stale);
        // What does not age goes only for its like.
        (at_any_age || (idle && *since_ns != AGELESS_NS)).then_some(*ip)
    }

    /// Keeps to the bound on entries without an answer.
    fn limit_unresolved(&mut self, lost: &mut impl FnMut(Q, Loss)) {
        while self.config.unresolved_capacity != 0
            && self.unresolved.len() > self.config.unresolved_capacity
            && let Some(victim) = self.unresolved.heaviest()
        {
            self.evict(victim, Loss::TableFull, lost);
        }
    }

    /// Adds an entry for which there is room.
    pub(super) fn add(&mut self, ip: A, now_ns: u64) {
        self.serial += 1;
        let place = (now_ns, self.serial);
        self.ages.insert(place, ip);
        let entry = Entry {
            state: State::Incomplete,
            mac: None,
            router: false,
            since_ns: now_ns,
            place,
            queried_ns: None,
            queries: 0,
            timer: None,
            share: None,
            waiting: VecDeque::new(),
        };
        self.entries.insert(ip, entry);
    }

    /// Makes the entry the youngest.
    fn touch(&mut self, ip: A, now_ns: u64) -> &mut Entry<Q> {
        self.move_to(ip, now_ns);
        let entry = self.entries.get_mut(&ip).expect("the caller looked it up");
        entry.since_ns = now_ns;
        entry
    }

    fn move_to(&mut self, ip: A, at_ns: u64) {
        let entry = self.entries.get_mut(&ip).expect("the caller looked it up");
        self.ages.remove(&entry.place);
        self.serial += 1;
        entry.place = (at_ns, self.serial);
        self.ages.insert(entry.place, ip);
    }

    /// Takes the entry out of the shares and returns what waited.
    fn resolve(&mut self, ip: A) -> VecDeque<Q> {
        let Some(entry) = self.entries.get_mut(&ip) else { return VecDeque::new() };
        let waited = std::mem::take(&mut entry.waiting);
        if let Some(share) = entry.share.take() {
            self.unresolved.change(share, ip, -1, 0);
            self.queues.change(share, ip, -(waited.len() as isize), 0);
            self.note_crowd();
        }
        self.waiting -= waited.len();
        waited
    }

    /// Notes that `by` more (or fewer) items wait for `ip`.
    fn note_waiting(&mut self, ip: A, by: isize) {
        self.waiting = self.waiting.saturating_add_signed(by);
        let share = self.entries.get(&ip).and_then(|entry| entry.share).unwrap_or_default();
        self.serial += 1;
        self.queues.change(share, ip, by, self.serial);
    }

    pub(super) fn set_timer(&mut self, ip: A, owner: u32, at_ns: u64) {
        self.clear_timer(ip);
        if let Some(entry) = self.entries.get_mut(&ip) {
            entry.timer = Some((owner, at_ns));
            self.timers.insert((owner, at_ns, ip));
        }
    }

    fn clear_timer(&mut self, ip: A) {
        if let Some((owner, at_ns)) = self.entries.get_mut(&ip).and_then(|entry| entry.timer.take()) {
            self.timers.remove(&(owner, at_ns, ip));
        }
    }

    /// Removes an entry altogether; returns what waited for it.
    pub(super) fn take_out(&mut self, ip: A) -> VecDeque<Q> {
        self.clear_timer(ip);
        let waited = self.resolve(ip);
        if let Some(entry) = self.entries.remove(&ip) {
            self.ages.remove(&entry.place);
            // Caches hold what was answered. A scan makes and removes entries without an answer all the time, and must
            // not send the packets of all others to the table each time.
            if entry.mac.is_some() {
                self.changed();
                if self.filter.forget() {
                    self.refilter();
                }
            }
        }
        waited
    }

    /// Makes the filter say whether neighbours without an answer take three quarters of their room.
    #[inline]
    fn note_crowd(&self) {
        let room = match self.config.unresolved_capacity {
            0 => Config::default().unresolved_capacity,
            room => room,
        };
        self.filter.crowd(self.unresolved.len() >= (room - room / 4).max(1));
    }

    /// Makes the filter say what is known now.
    fn refilter(&self) {
        let known = self.entries.iter().filter(|(_, entry)| entry.mac.is_some());
        self.filter.rebuild(known.map(|(ip, _)| *ip));
    }

    pub(super) fn evict(&mut self, ip: A, why: Loss, lost: &mut impl FnMut(Q, Loss)) {
        let waited = self.take_out(ip);
        self.drops += waited.len() as u64;
        waited.into_iter().for_each(|item| lost(item, why));
    }

    /// Takes items from whoever has most, until `capacity / slim_factor` places are free; at least one stays.
    fn slim(&mut self, lost: &mut impl FnMut(Q, Loss)) {
        let capacity = self.config.capacity;
        let target = (capacity - capacity / self.config.slim_factor.max(1)).max(1);
        while self.waiting > target
            && let Some(ip) = self.queues.heaviest()
        {
            let item = self.entries.get_mut(&ip).and_then(|entry| entry.waiting.pop_front());
            self.note_waiting(ip, -1);
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
