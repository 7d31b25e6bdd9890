// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of next hops and of chosen routes, for as long as somebody asks.
//!
//! A [`Session`] counts what each lookup has found, by the id of the next hop: for groups, that of the member that the flow takes. Without
//! a session, a worker asks for one once a batch, and that is all.
//!
//! A table's answer does not say which route gave it. So a session has a small table besides, with the chosen routes and all longer ones below
//! them, and looks addresses up there, too. It follows the changes of the real table.
//!
//! Each worker adds to counters of its own. They take memory where something is counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use element::clock::{Nanos, SECOND};
use packet::Batch;
use sync::percore::Counter;
use sync::rcu;
use sync::zeros::zeros;
use tables::next_hop::{NextHopId, View};

use super::routes::Routes;
use super::{BLACKHOLE, Family, Hop, PROHIBIT, RouteText, is_drop, read_prefix};
use crate::tools::Anno;

/// Seconds of a session at most.
const MOST_SECONDS: u64 = 3600;
/// Chosen routes at most.
const MOST_ROUTES: usize = 16;
/// Next hops that may come during a session and keep their numbers.
const FRESH_HOPS: usize = 4096;
/// Counters of a worker for all packets, and for each chosen route: one for each id that a hop can have, and [`NO_ROUTE`].
const SPAN: usize = 1 << 15;
/// Counts packets without route.
const NO_ROUTE: usize = SPAN - 1;
const _: () = assert!((NextHopId::MAX.0 as usize) < NO_ROUTE);
/// In a session's table, a route that is not chosen.
const OTHER: NextHopId = NextHopId(0);

#[derive(Default)]
struct Hits {
    packets: Counter,
    bytes: Counter,
}

sync::all_zero!(Hits { packets, bytes });

/// Who asks a lookup element to count: the time, and how many workers there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub now: Nanos,
    pub workers: usize,
}

/// What workers count.
pub(crate) struct Session<F: Family> {
    started: Nanos,
    until: Nanos,
    /// By table: which of the chosen routes decides about an address.
    tables: Vec<Option<F::Reader>>,
    /// By worker.
    hits: Vec<Vec<Hits>>,
}

/// The session of a table, if there is one.
pub(crate) type Counts<F> = Option<Arc<Session<F>>>;

/// The control side of a session.
pub(super) struct Counting<F: Family> {
    session: Arc<Session<F>>,
    chosen: Vec<(u8, F::Prefix)>,
    tables: BTreeMap<u8, F::Writer>,
    /// Why counts of routes are not right.
    trouble: Option<String>,
}

/// What a handler asks for: seconds, and routes to count.
pub(super) struct Request<F: Family> {
    seconds: u64,
    routes: Vec<(u8, Which<F>)>,
}

/// A route to count.
enum Which<F: Family> {
    /// That of a prefix.
    Of(F::Prefix),
    /// That which decides about an address.
    For(F::Addr),
}

impl<F: Family> Request<F> {
    /// Reads `SECONDS [PREFIX|ADDRESS [table N], ...]`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (seconds, routes) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let seconds = seconds.parse().ok().filter(|seconds| *seconds <= MOST_SECONDS);
        let seconds = seconds.ok_or_else(|| {
            format!(
                "expected SECONDS (1 to {MOST_SECONDS}; 0 ends) and perhaps routes, not '{}'",
                text.trim()
            )
        })?;
        let texts = || routes.split(',').map(str::trim).filter(|text| !text.is_empty());
        match texts().count() {
            0..=MOST_ROUTES => {
                Ok(Request { seconds, routes: texts().map(read_route).collect::<Result<_, _>>()? })
            }
            n => Err(format!("{n} routes are too many to count at once: at most {MOST_ROUTES}")),
        }
    }

    pub(super) fn ends(&self) -> bool {
        self.seconds == 0
    }
}

fn read_route<F: Family>(text: &str) -> Result<(u8, Which<F>), String> {
    let RouteText { prefix, hops, table } = RouteText::split(text)?;
    if !hops.is_empty() {
        return Err(format!("expected PREFIX or ADDRESS, and perhaps 'table N', not '{text}'"));
    }
    let which = match prefix.parse() {
        Ok(address) => Which::For(address),
        Err(_) => Which::Of(read_prefix::<F>(prefix, true)?),
    };
    Ok((table, which))
}

impl<F: Family> Session<F> {
    /// Whether the session's time is not over.
    #[inline]
    pub(super) fn is_on(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// Counts packets of a batch for which lookups have answered `found`.
    #[inline(never)]
    pub(super) fn count_batch(
        &self,
        (worker, rcu): (usize, &rcu::Reader),
        view: &View<Hop<F::Addr>>,
        vrf: Option<Anno<1>>,
        batch: &Batch,
        keys: &[F::Key],
        found: &[u32],
    ) {
        for ((packet, key), found) in batch.iter().zip(keys).zip(found) {
            let table = vrf.map_or(0, |vrf| packet.anno_u8(vrf.0));
            let hop = view.resolve_id(NextHopId(*found), || F::flow_hash(packet));
            self.count((worker, rcu), (table, *key), hop, packet.len());
        }
    }

    /// Counts a packet for an address in a table that takes this next hop.
    pub(crate) fn count(
        &self,
        (worker, rcu): (usize, &rcu::Reader),
        (table, key): (u8, F::Key),
        hop: Option<NextHopId>,
        bytes: usize,
    ) {
        let Some(hits) = self.hits.get(worker) else { return };
        let hop = hop.map_or(NO_ROUTE, |id| id.0 as usize);
        let add = |route: usize| {
            if let Some(hits) = hits.get(route * SPAN + hop) {
                hits.packets.add(1);
                hits.bytes.add(bytes as u64);
            }
        };
        add(0);
        if let Some(Some(chosen)) = self.tables.get(usize::from(table)) {
            let mut route = [OTHER.0];
            F::lookup(chosen, rcu, &[key], &mut route);
            if ![OTHER, NextHopId::NONE].contains(&NextHopId(route[0])) {
                add(route[0] as usize);
            }
        }
    }

    /// Packets and bytes by next hop, of all packets or of a chosen route's; the busiest first.
    fn sums(&self, route: usize) -> Vec<(usize, u64, u64)> {
        let of = |worker: &Vec<Hits>, hop: usize| {
            let hits = &worker[route * SPAN + hop];
            (hits.packets.get(), hits.bytes.get())
        };
        let sum = |hop: usize| {
            let each = self.hits.iter().map(|worker| of(worker, hop));
            let (packets, bytes) = each.fold((0, 0), |sum, hits| (sum.0 + hits.0, sum.1 + hits.1));
            (hop, packets, bytes)
        };
        let mut sums: Vec<_> = (0..SPAN).map(sum).filter(|(_, packets, _)| *packets > 0).collect();
        sums.sort_by_key(|(hop, packets, _)| (Reverse(*packets), *hop));
        sums
    }
}

impl<F: Family> Counting<F> {
    fn covers(&self, table: u8, prefix: F::Prefix) -> bool {
        self.chosen.iter().any(|(chosen, outer)| *chosen == table && F::covers(*outer, prefix))
    }

    /// What the session's table is to answer for a route.
    fn answer(&self, table: u8, prefix: F::Prefix) -> NextHopId {
        let place = self.chosen.iter().position(|chosen| *chosen == (table, prefix));
        place.map_or(OTHER, |place| NextHopId(place as u32 + 1))
    }

    /// The chosen routes of a table, and all longer ones.
    fn list(&self, table: u8, fib: Option<&F::Writer>) -> Vec<(F::Prefix, NextHopId)> {
        let all = fib.into_iter().flat_map(F::routes).map(|(prefix, _)| prefix);
        all.filter(|prefix| self.covers(table, *prefix))
            .map(|prefix| (prefix, self.answer(table, prefix)))
            .collect()
    }

    fn follow(&mut self, table: u8, prefix: F::Prefix, is_there: bool) {
        if !self.covers(table, prefix) {
            return;
        }
        let answer = self.answer(table, prefix);
        let Some(fib) = self.tables.get_mut(&table) else { return };
        let done = match is_there {
            true => F::insert(fib, prefix, answer),
            false => F::remove(fib, prefix),
        };
        if let Err(why) = done {
            self.trouble = Some(why);
        }
    }
}

impl<F: Family> Routes<F> {
    /// Begins a session; another one ends, if its time is over.
    ///
    /// # Errors
    /// Another session is going on; a chosen route is not there; there is no memory.
    pub(super) fn begin_counting(
        &mut self,
        Request { seconds, routes }: Request<F>,
        Caller { now, workers }: Caller,
    ) -> Result<Arc<Session<F>>, String> {
        if let Some(counting) = self.counting.as_ref().filter(|counting| counting.session.is_on(now)) {
            let left = (counting.session.until - now).div_ceil(SECOND);
            return Err(format!("packets are counted already, for {left} more seconds; 'count 0' ends that"));
        }
        let mut chosen = Vec::new();
        for (table, which) in routes {
            let key = (table, self.choose(table, which)?);
            if !chosen.contains(&key) {
                chosen.push(key);
            }
        }
        let mut tables: BTreeMap<u8, F::Writer> = BTreeMap::new();
        for (table, _) in &chosen {
            if !tables.contains_key(table) {
                tables.insert(*table, F::open(&self.domain)?);
            }
        }
        let last = tables.keys().last().copied();
        let readers = last.map_or_else(Vec::new, |last| {
            (0..=last).map(|table| tables.get(&table).map(F::reader)).collect()
        });
        let hits = || zeros((1 + chosen.len()) * SPAN);
        let session = Arc::new(Session {
            started: now,
            until: now + seconds * SECOND,
            tables: readers,
            hits: (0..workers).map(|_| hits()).collect(),
        });
        self.counting = Some(Counting { session: session.clone(), chosen, tables, trouble: None });
        self.follow_all()?;
        self.hops.keep_ids(FRESH_HOPS);
        Ok(session)
    }

    /// The route that is meant.
    fn choose(&self, table: u8, which: Which<F>) -> Result<F::Prefix, String> {
        let none = |what: String| match table {
            0 => format!("there is no route for {what}"),
            _ => format!("there is no route for {what} in table {table}"),
        };
        match which {
            Which::Of(prefix) if self.get(table, prefix).is_some() => Ok(prefix),
            Which::Of(prefix) => Err(none(prefix.to_string())),
            Which::For(address) => {
                let found = self.longest_match(table, F::key(address));
                found.map(|(prefix, _)| prefix).ok_or_else(|| none(address.to_string()))
            }
        }
    }

    pub(super) fn end_counting(&mut self) {
        self.counting = None;
        self.hops.keep_ids(0);
    }

    /// A route has come, changed or gone.
    #[inline]
    pub(super) fn follow(&mut self, table: u8, prefix: F::Prefix) {
        if self.counting.is_some() {
            let is_there = self.get(table, prefix).is_some();
            self.counting.iter_mut().for_each(|counting| counting.follow(table, prefix, is_there));
        }
    }

    /// All routes may have changed.
    pub(super) fn follow_all(&mut self) -> Result<(), String> {
        let Some(counting) = &mut self.counting else { return Ok(()) };
        let tables: Vec<u8> = counting.tables.keys().copied().collect();
        for table in tables {
            let list = counting.list(table, self.tables.get(&table));
            let fib = counting.tables.get_mut(&table).expect("listed");
            F::replace(fib, &list).inspect_err(|why| counting.trouble = Some(why.clone()))?;
        }
        Ok(())
    }

    /// What has been counted, as the handler `counts` shows it.
    ///
    /// # Errors
    /// Nobody has asked for it.
    pub(super) fn show_counts(&self, now: Nanos) -> Result<String, String> {
        let Some(counting) = &self.counting else {
            return Err("nothing is counted: write seconds to 'count' first".into());
        };
        let session = &counting.session;
        let mut text = format!("time_ns {}\n", now.min(session.until) - session.started);
        if !self.hops.keeps_ids() {
            text += "incomplete many next hops have come and gone: some counts are those of former ones\n";
        }
        if let Some(why) = &counting.trouble {
            text += &format!("incomplete counts of routes: {}\n", why.replace('\n', " "));
        }
        let mut list = |at: usize, members: &[usize], route: &str| {
            let sums = session.sums(at);
            let idle = members.iter().filter(|hop| sums.iter().all(|(counted, ..)| counted != *hop));
            for (hop, packets, bytes) in sums.iter().copied().chain(idle.map(|hop| (*hop, 0, 0))) {
                text += &format!("{packets} {bytes} {}{route}\n", self.show_counted(hop));
            }
        };
        list(0, &[], "");
        for (at, (table, prefix)) in counting.chosen.iter().enumerate() {
            let members = self.get(*table, *prefix).map_or_else(Vec::new, |id| self.hops.leaves(id));
            let members: Vec<usize> = members.iter().map(|id| id.0 as usize).collect();
            let table = if *table == 0 { String::new() } else { format!(" table {table}") };
            list(at + 1, &members, &format!(" {prefix}{table}"));
        }
        Ok(text)
    }

    /// Gateway and output of a next hop that has counted.
    fn show_counted(&self, hop: usize) -> String {
        if hop == NO_ROUTE {
            return "- none".into();
        }
        let Some(hop) = self.hops.get(NextHopId(hop as u32)) else { return "- gone".into() };
        let output = match hop.output {
            BLACKHOLE => "blackhole".into(),
            PROHIBIT => "prohibit".into(),
            output if is_drop(output) => "drop".into(),
            output => output.to_string(),
        };
        match hop.gateway == F::UNSPECIFIED {
            true => format!("- {output}"),
            false => format!("{} {output}", hop.gateway),
        }
    }
}

#[cfg(test)]
mod tests;
