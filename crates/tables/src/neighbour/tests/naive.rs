// SPDX-License-Identifier: MIT OR Apache-2.0
//! All of the table against lists that are searched from end to end, with random operations under every discipline.

use super::*;
use proptest::prelude::*;

const CAPACITY: usize = 8;
const ENTRIES: usize = 5;
const UNRESOLVED: usize = 3;

fn config(discipline: Discipline) -> Config {
    Config {
        capacity: CAPACITY,
        entry_capacity: ENTRIES,
        entry_packet_capacity: 4,
        unresolved_capacity: UNRESOLVED,
        new_per_second: 0,
        unknown_per_second: 0,
        slim_factor: 2,
        timeout_ns: 3 * SECOND,
        poll_ns: SECOND,
        discipline,
    }
}

fn retries() -> Retries {
    Retries { multicast: 2, unicast: 3, retransmit_ns: 200 * MS, delay_ns: 400 * MS }
}

#[derive(Clone, Debug)]
enum Op {
    Lookup(u32),
    Wait(u32, Share),
    Insert(u32, u8),
    Hear(u32, Message),
    Feed(u32, Fed),
    Confirm(u32),
    Remove(u32),
    Advance,
    Expire,
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let ip = 0u32..8;
    let number = || 0u8..3;
    let some_mac = || prop::option::weighted(0.8, number()).prop_map(|n| n.map(mac));
    let router = || prop::option::of(any::<bool>());
    let share = (0u32..3, 0u64..2).prop_map(|(interface, source)| Share { interface, source });
    let message = prop_oneof![
        (some_mac(), any::<bool>(), any::<bool>(), router()).prop_map(
            |(mac, solicited, replaces, router)| Message::Advert { mac, solicited, replaces, router }
        ),
        (some_mac(), router()).prop_map(|(mac, router)| Message::Other { mac, router }),
    ];
    let fed = prop_oneof![
        number().prop_map(|n| Fed::Known(mac(n))),
        number().prop_map(|n| Fed::Permanent(mac(n))),
        Just(Fed::Unreachable),
        Just(Fed::Gone),
    ];
    let op = prop_oneof![
        8 => ip.clone().prop_map(Op::Lookup),
        12 => (ip.clone(), share).prop_map(|(ip, share)| Op::Wait(ip, share)),
        2 => (ip.clone(), number()).prop_map(|(ip, mac)| Op::Insert(ip, mac)),
        4 => (ip.clone(), message).prop_map(|(ip, message)| Op::Hear(ip, message)),
        1 => (ip.clone(), fed).prop_map(|(ip, fed)| Op::Feed(ip, fed)),
        1 => ip.clone().prop_map(Op::Confirm),
        1 => ip.prop_map(Op::Remove),
        4 => Just(Op::Advance),
        1 => Just(Op::Expire),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec((prop_oneof![0u64..50, 0u64..600].prop_map(|ms| ms * MS), op), 0..150)
}

/// One neighbour. The list of rows is in order of age, those without age behind.
#[derive(Clone, Debug)]
struct Row {
    ip: u32,
    state: State,
    mac: Option<Mac>,
    router: bool,
    since: u64,
    ageless: bool,
    queries: u32,
    queried: Option<u64>,
    /// When, whether it is one of those that wait longer, and its number.
    timer: Option<(u64, bool, u32)>,
    share: Option<Share>,
    waiting: Vec<u32>,
}

/// Who has which weight, in the order in which they came to it.
#[derive(Default)]
struct Order {
    interfaces: Vec<(u32, usize)>,
    sources: Vec<(Share, usize)>,
    neighbours: Vec<((Share, u32), usize)>,
}

/// `now` has a weight for each neighbour.
fn renote<K: PartialEq + Copy>(order: &mut Vec<(K, usize)>, now: &[(K, usize)]) {
    let sum = |key: K| now.iter().filter(|(other, _)| *other == key).map(|(_, weight)| weight).sum::<usize>();
    order.retain(|(key, weight)| sum(*key) == *weight);
    for (key, _) in now {
        if !order.iter().any(|(other, _)| other == key) {
            order.push((*key, sum(*key)));
        }
    }
}

/// The key of greatest weight, the first among equals.
fn first_greatest<K: Copy>(order: &[(K, usize)], among: impl Fn(K) -> bool) -> Option<K> {
    let all = order.iter().filter(|(key, _)| among(*key)).rev();
    all.max_by_key(|(_, weight)| *weight).map(|(key, _)| *key)
}

struct Naive {
    config: Config,
    rows: Vec<Row>,
    /// By entries, and by items.
    orders: [Order; 2],
    lost: Vec<(u32, Loss)>,
    timers_set: u32,
}

impl Naive {
    /// A timer, for a retry or a delay.
    fn timer(&mut self, at: u64, delay: bool) -> Option<(u64, bool, u32)> {
        self.timers_set += 1;
        Some((at, delay, self.timers_set))
    }

    fn weight(row: &Row, which: usize) -> usize {
        if row.share.is_none() { 0 } else { [1, row.waiting.len()][which] }
    }

    /// To be called after each change to a share or a queue.
    fn renote(&mut self) {
        for which in 0..2 {
            let with =
                |row: &Row| Some((row.share?, row.ip, Self::weight(row, which))).filter(|with| with.2 > 0);
            let with: Vec<(Share, u32, usize)> = self.rows.iter().filter_map(with).collect();
            let order = &mut self.orders[which];
            renote(&mut order.interfaces, &with.iter().map(|w| (w.0.interface, w.2)).collect::<Vec<_>>());
            renote(&mut order.sources, &with.iter().map(|w| (w.0, w.2)).collect::<Vec<_>>());
            renote(&mut order.neighbours, &with.iter().map(|w| ((w.0, w.1), w.2)).collect::<Vec<_>>());
        }
    }

    fn heaviest(&self, which: usize) -> Option<u32> {
        let order = &self.orders[which];
        let interface = first_greatest(&order.interfaces, |_| true)?;
        let source = first_greatest(&order.sources, |source| source.interface == interface)?;
        first_greatest(&order.neighbours, |(share, _)| share == source).map(|(_, ip)| ip)
    }

    fn at(&self, ip: u32) -> Option<usize> {
        self.rows.iter().position(|row| row.ip == ip)
    }

    fn state(&self, row: &Row, now: u64) -> State {
        let age = now - row.since;
        match row.state {
            _ if row.mac.is_none() => State::Incomplete,
            State::Permanent => State::Permanent,
            state if self.config.discipline == Discipline::Outside => state,
            _ if age >= self.config.timeout_ns => State::Incomplete,
            State::Reachable if age >= self.config.poll_ns => State::Stale,
            state => state,
        }
    }

    fn known(&self, ip: u32, now: u64) -> Option<Mac> {
        let row = &self.rows[self.at(ip)?];
        row.mac.filter(|_| self.state(row, now) != State::Incomplete)
    }

    fn out(&mut self, ip: u32, why: Loss) {
        if let Some(at) = self.at(ip) {
            let row = self.rows.remove(at);
            self.lost.extend(row.waiting.into_iter().map(|item| (item, why)));
            self.renote();
        }
    }

    fn expire(&mut self, now: u64) {
        let old = |row: &&Row| !row.ageless && now - row.since >= self.config.timeout_ns;
        let old: Vec<u32> = self.rows.iter().filter(old).map(|row| row.ip).collect();
        old.into_iter().for_each(|ip| self.out(ip, Loss::Unreachable));
    }

    fn room(&mut self, for_known: bool, now: u64) -> bool {
        if self.rows.len() < ENTRIES {
            return true;
        }
        self.expire(now);
        while self.rows.len() >= ENTRIES {
            let oldest = &self.rows[0];
            let idle = matches!(self.state(oldest, now), State::Incomplete | State::Stale);
            let may_go = for_known || (!oldest.ageless && idle);
            match self.heaviest(0).or(may_go.then_some(oldest.ip)) {
                Some(ip) => self.out(ip, Loss::TableFull),
                None => return false,
            }
        }
        true
    }

    fn add(&mut self, ip: u32, now: u64) {
        let row = Row {
            ip,
            state: State::Incomplete,
            mac: None,
            router: false,
            since: now,
            ageless: false,
            queries: 0,
            queried: None,
            timer: None,
            share: None,
            waiting: vec![],
        };
        self.rows.push(row);
        self.place(ip, false);
    }

    /// Makes a row the youngest, or one without age.
    fn place(&mut self, ip: u32, ageless: bool) {
        let at = self.at(ip).expect("there");
        let mut row = self.rows.remove(at);
        row.ageless = ageless;
        let end = self.rows.iter().position(|row| row.ageless).unwrap_or(self.rows.len());
        let end = if ageless { self.rows.len() } else { end };
        self.rows.insert(end, row);
    }

    fn touch(&mut self, ip: u32, now: u64) -> &mut Row {
        self.place(ip, false);
        let at = self.at(ip).expect("there");
        self.rows[at].since = now;
        &mut self.rows[at]
    }

    fn record(&mut self, ip: u32, mac: Mac, state: State, now: u64) -> Vec<u32> {
        let row = self.touch(ip, now);
        (row.mac, row.state, row.share) = (Some(mac), state, None);
        (row.queries, row.queried, row.timer) = (0, None, None);
        let waited = std::mem::take(&mut row.waiting);
        if state == State::Permanent || self.config.discipline == Discipline::Outside {
            self.place(ip, true);
        }
        self.renote();
        waited
    }

    fn query(row: &mut Row, now: u64) -> bool {
        let pause = if row.queries < 10 { 100 * MS } else { 2 * SECOND };
        let due = row.queried.is_none_or(|last| now - last >= pause);
        if due {
            row.queried = Some(now);
            row.queries += 1;
        }
        due
    }

    fn lookup(&mut self, ip: u32, now: u64) -> Answer {
        let Some(mac) = self.known(ip, now) else { return Answer::Unknown };
        let at = self.at(ip).expect("known");
        let state = self.state(&self.rows[at], now);
        let mut query = false;
        match self.config.discipline {
            Discipline::OnDemand => query = state == State::Stale && Self::query(&mut self.rows[at], now),
            Discipline::Timed(retries) if state == State::Stale => {
                let timer = self.timer(now + retries.delay_ns, true);
                let row = &mut self.rows[at];
                row.state = State::Delay;
                (row.queries, row.timer) = (0, timer);
            }
            _ => {}
        }
        Answer::Known { mac, query }
    }

    fn wait(&mut self, ip: u32, item: u32, share: Share, now: u64) -> Waiting<u32> {
        let fresh = self.at(ip).is_none();
        if fresh {
            if !self.room(false, now) {
                return Waiting::Refused(item, Loss::TableFull);
            }
            self.add(ip, now);
        }
        if let Some(mac) = self.known(ip, now) {
            return Waiting::Known(mac, item);
        }
        let at = self.at(ip).expect("made above");
        if now - self.rows[at].since >= self.config.timeout_ns {
            self.touch(ip, now);
        }
        let at = self.at(ip).expect("made above");
        let row = &mut self.rows[at];
        if row.waiting.len() == self.config.entry_packet_capacity {
            let Discipline::Timed(_) = self.config.discipline else {
                return Waiting::Refused(item, Loss::QueueFull);
            };
            self.lost.push((row.waiting.remove(0), Loss::QueueFull));
            row.waiting.push(item);
            return Waiting::Queued { query: false };
        }
        row.mac = None;
        row.state = State::Incomplete;
        row.share.get_or_insert(share);
        row.waiting.push(item);
        let query = match self.config.discipline {
            Discipline::OnDemand => Self::query(row, now),
            Discipline::Outside => false,
            Discipline::Timed(retries) => {
                let first = row.timer.is_none() || row.queries == 0;
                if first {
                    (row.queries, row.queried) = (1, Some(now));
                    self.rows[at].timer = self.timer(now + retries.retransmit_ns, false);
                }
                first
            }
        };
        self.renote();
        while self.rows.iter().filter(|row| row.share.is_some()).count() > UNRESOLVED {
            let ip = self.heaviest(0).expect("more than none");
            self.out(ip, Loss::TableFull);
        }
        if self.waiting() > CAPACITY {
            while self.waiting() > CAPACITY / 2 {
                let at = self.heaviest(1).and_then(|ip| self.at(ip)).expect("some wait");
                let item = self.rows[at].waiting.remove(0);
                self.lost.push((item, Loss::QueueFull));
                self.renote();
            }
        }
        Waiting::Queued { query }
    }

    fn waiting(&self) -> usize {
        self.rows.iter().map(|row| row.waiting.len()).sum()
    }

    /// Section 7.2.5 of RFC 4861 in its own order of cases, and 7.2.3 for the other messages.
    fn hear(&mut self, ip: u32, message: Message, now: u64) -> Vec<u32> {
        let Some(at) = self.at(ip) else {
            if let Message::Other { mac: Some(mac), router } = message
                && self.room(false, now)
            {
                self.add(ip, now);
                self.record(ip, mac, State::Stale, now);
                let at = self.at(ip).expect("made");
                self.rows[at].router = router.unwrap_or(false);
            }
            return vec![];
        };
        let state = self.state(&self.rows[at], now);
        let old = self.rows[at].mac;
        let (mac, router) = match message {
            Message::Advert { mac, router, .. } | Message::Other { mac, router } => (mac, router),
        };
        if state == State::Permanent {
            if mac.is_none() || mac == old {
                self.rows[at].router = router.unwrap_or(self.rows[at].router);
            }
            return vec![];
        }
        let different = mac.is_some() && (state == State::Incomplete || mac != old);
        if let Message::Advert { solicited, replaces, .. } = message {
            if state == State::Incomplete {
                self.rows[at].router = router.unwrap_or(self.rows[at].router);
                let Some(mac) = mac else { return vec![] };
                let state = if solicited { State::Reachable } else { State::Stale };
                return self.record(ip, mac, state, now);
            }
            if different && !replaces {
                if state == State::Reachable {
                    self.rows[at].state = State::Stale;
                }
                return vec![];
            }
            self.rows[at].router = router.unwrap_or(self.rows[at].router);
            match (solicited, different) {
                (true, true) => return self.record(ip, mac.expect("different"), State::Reachable, now),
                (false, true) => return self.record(ip, mac.expect("different"), State::Stale, now),
                (true, false) => self.confirm(ip, now),
                (false, false) => {}
            }
            return vec![];
        }
        self.rows[at].router = router.unwrap_or(self.rows[at].router);
        match mac {
            Some(mac) if different => self.record(ip, mac, State::Stale, now),
            _ => vec![],
        }
    }

    fn confirm(&mut self, ip: u32, now: u64) {
        let Some(at) = self.at(ip) else { return };
        if !matches!(self.state(&self.rows[at], now), State::Incomplete | State::Permanent) {
            let ageless = self.rows[at].ageless;
            let row = self.touch(ip, now);
            row.state = State::Reachable;
            (row.queries, row.queried, row.timer) = (0, None, None);
            self.place(ip, ageless);
        }
    }

    fn advance(&mut self, now: u64) -> Vec<Due<u32>> {
        let mut dues = Vec::new();
        let Discipline::Timed(retries) = self.config.discipline else { return dues };
        let first = |rows: &[Row]| rows.iter().filter_map(|r| Some((r.timer?, r.ip))).min();
        while let Some((timer, ip)) = first(&self.rows)
            && timer.0 <= now
        {
            let at = self.at(ip).expect("it has a timer");
            let row = &mut self.rows[at];
            let limit = if row.state == State::Incomplete { retries.multicast } else { retries.unicast };
            if row.state != State::Delay && row.queries >= limit {
                let row = self.rows.remove(at);
                dues.push(Due::Unreachable(ip, row.waiting.into()));
                self.renote();
                continue;
            }
            let (to, share) = (row.mac, row.share);
            if row.state == State::Delay {
                row.state = State::Probe;
            }
            row.queries += 1;
            row.queried = Some(now);
            self.rows[at].timer = self.timer(now + retries.retransmit_ns, false);
            let shares = || self.rows.iter().filter_map(|row| row.share);
            // An eighth and a half of the room for three, but more than one.
            let crowds = share.is_some_and(|share| {
                let interface = shares().filter(|other| other.interface == share.interface).count();
                interface > 1 || shares().filter(|other| *other == share).count() > 1
            });
            if to.is_some() || !crowds {
                dues.push(Due::Query(ip, to));
            }
        }
        dues
    }
}

fn check(discipline: Discipline, ops: &[(u64, Op)]) {
    let mut table = Neighbours::new(config(discipline), 9);
    let mut cache = NeighbourCache::new(&table, 4);
    let orders = [Order::default(), Order::default()];
    let mut naive = Naive { config: config(discipline), rows: vec![], orders, lost: vec![], timers_set: 0 };
    let (mut now, mut lost) = (0, Vec::new());
    for (item, (pause, op)) in (0u32..).zip(ops) {
        now += pause;
        let note = |item, why| lost.push((item, why));
        match op.clone() {
            Op::Lookup(ip) => {
                // Through the cache: it must never be noticed.
                let got = cache.lookup(ip, now, || table.lookup_until(ip, now));
                assert_eq!(got, naive.lookup(ip, now));
            }
            Op::Wait(ip, share) => {
                let asker = Asker { owner: 0, share };
                let got = table.wait_for(ip, item, asker, now, note);
                assert_eq!(got, naive.wait(ip, item, share, now));
            }
            Op::Insert(ip, number) => {
                let got = table.insert(ip, mac(number), now, note);
                let permanent = naive.at(ip).is_some_and(|at| naive.rows[at].state == State::Permanent);
                let mut want = vec![];
                if !permanent {
                    if naive.at(ip).is_none() {
                        naive.room(true, now);
                        naive.add(ip, now);
                    }
                    want = naive.record(ip, mac(number), State::Reachable, now);
                }
                assert_eq!(Vec::from(got), want);
            }
            Op::Hear(ip, message) => {
                assert_eq!(Vec::from(table.hear(ip, message, now, note)), naive.hear(ip, message, now));
            }
            Op::Feed(ip, fed) => {
                let got = table.feed(ip, fed, now, note);
                let (mac, state) = match fed {
                    Fed::Known(mac) => (mac, State::Reachable),
                    Fed::Permanent(mac) => (mac, State::Permanent),
                    _ => {
                        naive.out(ip, Loss::Unreachable);
                        continue;
                    }
                };
                if naive.at(ip).is_none() {
                    naive.room(true, now);
                    naive.add(ip, now);
                }
                assert_eq!(Vec::from(got), naive.record(ip, mac, state, now));
            }
            Op::Confirm(ip) => {
                table.confirm(ip, now);
                naive.confirm(ip, now);
            }
            Op::Remove(ip) => {
                let at = naive.at(ip).filter(|at| naive.rows[*at].mac.is_some());
                assert_eq!(table.remove(ip), at.is_some());
                if let Some(at) = at {
                    let row = &mut naive.rows[at];
                    (row.mac, row.state, row.queries, row.timer) = (None, State::Incomplete, 0, None);
                    if row.ageless {
                        let since = row.since;
                        naive.place(ip, false);
                        // It is as old as it was, so it goes among its like.
                        naive.rows.sort_by_key(|row| if row.ageless { u64::MAX } else { row.since });
                        assert_eq!(naive.rows[naive.at(ip).expect("there")].since, since);
                    }
                    naive.renote();
                }
            }
            Op::Advance => {
                let mut got = Vec::new();
                table.advance(0, now, |due| got.push(due));
                assert_eq!(got, naive.advance(now));
            }
            Op::Expire => {
                table.expire(now, note);
                naive.expire(now);
            }
            Op::Clear => {
                table.clear(note);
                for ip in naive.rows.iter().map(|row| row.ip).collect::<Vec<_>>() {
                    naive.out(ip, Loss::Cleared);
                }
            }
        }
        compare(&table, &mut naive, &mut lost, now);
    }
}

fn compare(table: &Neighbours<u32>, naive: &mut Naive, lost: &mut [(u32, Loss)], now: u64) {
    lost.sort_unstable();
    naive.lost.sort_unstable();
    assert_eq!(lost, naive.lost, "lost");
    let got: Vec<Neighbour> = table.iter(now).collect();
    let want = naive.rows.iter().map(|row| Neighbour {
        ip: row.ip,
        state: naive.state(row, now),
        mac: row.mac.unwrap_or(BROADCAST),
        router: row.router,
        age_ns: now - row.since,
        waiting: row.waiting.len(),
    });
    assert_eq!(got, want.collect::<Vec<_>>());
    assert_eq!(table.next_timer_ns(0), naive.rows.iter().filter_map(|row| Some(row.timer?.0)).min());
    assert_eq!(table.waiting(), naive.waiting());
    assert!(table.waiting() <= CAPACITY && table.len() <= ENTRIES && table.unresolved() <= UNRESOLVED);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn on_demand_equals_lists(ops in ops()) {
        check(Discipline::OnDemand, &ops);
    }

    #[test]
    fn timed_equals_lists(ops in ops()) {
        check(Discipline::Timed(retries()), &ops);
    }

    #[test]
    fn outside_equals_lists(ops in ops()) {
        check(Discipline::Outside, &ops);
    }
}

/// Found by chance: an address that was for ever is one for a time from now on, and a cache must hear of it.
#[test]
fn permanent_no_more() {
    let ops = [
        (0, Op::Feed(4, Fed::Permanent(mac(1)))),
        (0, Op::Lookup(4)),
        (0, Op::Feed(4, Fed::Known(mac(1)))),
        (1_000_000_000, Op::Lookup(4)),
        (1_000_000_000, Op::Lookup(4)),
    ];
    check(Discipline::OnDemand, &ops);
}
