// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup element of both families.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use element::Policy;
use element::args::Args;
use element::clock::Nanos;
use element::stats::{self, Stat};

use element::{
    Class, Cx, Element, ElementId, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, OpenCx,
    OwnHandlers, Provide, Provided, Reason, Rest, SharedState, Statistics, Tasks, When, swap,
};
use packet::{Batch, Packet};
use sync::events::{self, EventKind, Mask};
use sync::lock::How;
use sync::pipes;
use sync::rcu;
use tables::next_hop::{DEFAULT_BUCKETS, MAX_BUCKETS, NextHopId, NextHopReader, View};

use super::counting::{Caller, Session};
use super::reverse::ReverseRoutes;
use super::routes::{Limits, Routes};
use super::shared::{Path, Readers, SharedRoutes, Strategy};
use super::{BLACKHOLE, DROP, Family, Hop, Like, PROHIBIT, is_drop};
use crate::tools::{Anno, Splitter};

/// An instance for one worker.
pub(crate) struct Lookup<F: Family> {
    shared: Option<Arc<SharedRoutes<F>>>,
    /// The element whose routes these are, if not its own.
    table: Option<String>,
    noutputs: usize,
    path: Option<Path<F>>,
    vrf: Option<Anno<1>>,
    file: Option<String>,
    /// What there is to say of the routes that were read last.
    said: Cell<Option<String>>,
    /// Click's table that the class is named after.
    like: Like,
    complaints: Arc<AtomicU32>,
    splitter: Splitter,
    keys: Vec<F::Key>,
    found: Vec<u32>,
}

impl<F: Family> Default for Lookup<F> {
    fn default() -> Self {
        Self {
            shared: None,
            table: None,
            noutputs: 0,
            path: None,
            vrf: None,
            file: None,
            said: Cell::default(),
            like: Like::default(),
            complaints: Arc::default(),
            splitter: Splitter::default(),
            keys: Vec::new(),
            found: Vec::new(),
        }
    }
}

/// A reader of the routes, and one of what they lead to.
pub(crate) type Parts<'a, F> = (&'a <F as Family>::Reader, &'a NextHopReader<Hop<<F as Family>::Addr>>);

/// Bytes of a file of routes at most. Some 20 million routes have less.
const MOST_BYTES: u64 = 1 << 30;

/// Warnings about single routes of an element at most.
const WARNINGS: usize = 10;

/// The prefix of a route, and where it leads.
fn parts(route: &str) -> (&str, &str) {
    let (prefix, hops) = route.split_once(char::is_whitespace).unwrap_or((route, ""));
    (prefix, hops.trim())
}

/// Reads the routes among the arguments. Of those with the same prefix the first counts.
fn add_all<F: Family>(args: &mut Args<'_>, shared: &SharedRoutes<F>) {
    let texts = args.rest();
    let late = shared.set_all(&texts).unwrap_or_else(|wrong| {
        wrong.lines().for_each(|why| args.error(why));
        Vec::new()
    });
    if Policy::of_process().as_click {
        let n = late.len();
        if n > 0 {
            args.warning(format!("{n} route{} replaced by later versions", if n == 1 { "" } else { "s" }));
        }
        return;
    }
    // Where names stand for the same prefix, and the way is the same, nobody is mistaken.
    let late = late.into_iter().filter(|(first, at)| {
        let ((prefix, way), (late, late_way)) = (parts(&texts[*first]), parts(&texts[*at]));
        prefix == late || way != late_way
    });
    let late: Vec<_> = late.collect();
    for (first, at) in late.iter().take(WARNINGS) {
        let (first, text) = (&texts[*first], &texts[*at]);
        let (_, hops) = parts(text);
        args.warning(format!(
            "the route '{text}' is ignored, for '{first}' came first; write '{first} | {hops}' to share traffic between both"
        ));
    }
    if late.len() > WARNINGS {
        args.warning(format!("{} more routes are ignored, for others came first", late.len() - WARNINGS));
    }
}

/// Answers a read handler at this time.
fn answer<F: Family>(
    shared: &SharedRoutes<F>,
    now: Nanos,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    match name {
        "counts" => shared.read(|routes| routes.show_counts(now)).map_err(HandlerError::Failed),
        "nroutes" => Ok(shared.read(|routes| routes.len().to_string())),
        "lookup" => shared.read(|routes| routes.lookup(param)).map_err(HandlerError::Failed),
        "nexthops" => Ok(shared.read(|routes| routes.show_names())),
        "contention" => Ok(shared.contention()),
        "stats" => Ok(shared.stats()),
        _ => Ok(shared.read(|routes| routes.show_all())),
    }
}

/// Executes a write handler of an element; returns what there is to say about it.
fn change<F: Family>(
    shared: &SharedRoutes<F>,
    (element, caller): (ElementId, Caller),
    name: &str,
    value: &str,
) -> Result<Option<String>, HandlerError> {
    let begun = events::begin_span(Mask::CONTROL);
    let quiet = |()| None;
    let done = match name {
        "ctrl" => shared.change(|routes| routes.control(value)).map(quiet),
        "flush" => shared.change(|routes| routes.replace("", false)).map(quiet),
        "replace" => shared.replace(value, false),
        "load" => load(shared, value.trim(), false),
        "nexthop" => shared.change(|routes| routes.set_named(value)).map(quiet),
        "remove_nexthop" => shared.change(|routes| routes.remove_named(value)).map(quiet),
        "withdraw" => shared.change(|routes| routes.withdraw(value)).map(quiet),
        "count" => shared.count(value, caller).map(quiet),
        verb => shared.change(|routes| routes.command(verb, value)).map(quiet),
    };
    if begun.is_some() {
        let routes = events::short(shared.read(Routes::len) as u64);
        events::end_span(begun, EventKind::Routes, (element.number(), done.is_err().into()), routes);
    }
    done.map_err(HandlerError::Failed)
}

/// Makes the routes of a file the table's, or adds them with `keep`; returns what there is to say about it.
fn load<F: Family>(shared: &SharedRoutes<F>, path: &str, keep: bool) -> Result<Option<String>, String> {
    let failed = |why: std::io::Error| format!("cannot read routes: {path}: {why}");
    // Somebody waits for this: it reads what is there.
    let input = pipes::open(path.as_ref(), Duration::ZERO).map_err(failed)?;
    if input.is_pipe() {
        return Err(format!("cannot read routes: {path}: it is a named pipe; write its lines to a file"));
    }
    let text = input.read_all(MOST_BYTES).map_err(failed)?;
    let text =
        String::from_utf8(text).map_err(|_| format!("cannot read routes: {path}: it is not valid UTF-8"))?;
    let said = shared.replace(&text, keep).map_err(|why| format!("{path}: {why}"))?;
    Ok(said.map(|said| format!("{path}: {said}")))
}

/// Who calls a handler.
fn caller(cx: &mut Cx<'_>) -> Caller {
    Caller { now: cx.now(), workers: cx.router().workers() }
}

impl<F: Family> Lookup<F> {
    /// Declares what elements of this type can do besides processing packets.
    pub const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .long_handlers::<Self>()
            .own_handlers::<Self>()
            .locking::<Self>()
            .shared_state::<Self>()
            .hot_swap::<Self>()
    }

    /// A table of a class that is named after one of Click's.
    pub(crate) fn like(like: Like) -> Self {
        Self { like, ..Self::default() }
    }

    /// Whether it looks addresses up in one table that it need not lock, and counts nothing.
    pub(crate) fn is_plain(&self) -> bool {
        self.parts().is_some()
    }

    /// The table and what its answers mean, if the element is plain.
    #[inline]
    pub(crate) fn parts(&self) -> Option<Parts<'_, F>> {
        match (&self.path, self.vrf) {
            (Some(Path::Rcu(published, hops)), None) => Some((&published.first, hops)),
            _ => None,
        }
    }

    /// What packets are counted by, if somebody asks.
    #[inline]
    pub(crate) fn counting<'a>(&'a self, rcu: &'a rcu::Reader, now: Nanos) -> Option<&'a Session<F>> {
        match &self.path {
            Some(Path::Rcu(published, _)) => published.counting(rcu, || now),
            _ => None,
        }
    }

    fn shared(&self) -> &SharedRoutes<F> {
        self.shared.as_ref().expect("configured before use")
    }

    /// Takes another element's routes for its own, with the arguments allowed in addition.
    fn borrow(&mut self, args: &mut Args<'_>, owner: String) {
        let given = [
            ("SYNC", args.keyword_opt::<String>("SYNC")),
            ("CAPACITY", args.keyword_opt("CAPACITY")),
            ("NEXTHOPS", args.keyword_opt("NEXTHOPS")),
            ("BUCKETS", args.keyword_opt("BUCKETS")),
            ("FILE", args.keyword_opt("FILE")),
            ("NEXTHOP", args.keyword_all("NEXTHOP").pop()),
        ];
        for (name, _) in given.iter().filter(|(_, value)| value.is_some()) {
            args.error(format!("{name} is for '{owner}' to say, whose table this is (TABLE)"));
        }
        if let Some(route) = args.rest().first() {
            args.error(format!("the route '{route}' belongs to '{owner}', whose table this is (TABLE)"));
        }
        self.table = Some(owner);
    }

    /// Finds the element named by TABLE.
    fn find_table(&self, cx: &mut InitCx<'_>, owner: &str) -> Result<Arc<SharedRoutes<F>>, String> {
        let Some(found) = cx.find::<ReverseRoutes<F>>(owner) else {
            return Err(format!(
                "TABLE '{owner}' is not an element with a table of its own of this address family"
            ));
        };
        let theirs = found.shared.read(|routes| routes.noutputs());
        if theirs != self.noutputs {
            return Err(format!(
                "it has {} outputs and '{owner}', whose table it uses, {theirs}; routes mean the same in both only \
                 if they have the same",
                self.noutputs
            ));
        }
        Ok(found.shared.clone())
    }

    /// Says which destination has no route, for the first few.
    fn complain(complaints: &AtomicU32, like: Like, cx: &Cx<'_>, packet: &Packet) {
        let as_click = Policy::of_process().as_click;
        if as_click && matches!(like, Like::Direct | Like::Six) {
            return;
        }
        if complaints.load(Ordering::Relaxed) < 5 && complaints.fetch_add(1, Ordering::Relaxed) < 5 {
            let destination = F::show_key(F::destination(packet));
            let name = match like {
                _ if !as_click => cx.name(),
                Like::Radix => "IPRouteTable",
                _ => "LinearIPLookup",
            };
            cx.print(&format!("{name}: no route for {destination}"));
        }
    }
}

/// Looks up `keys`; with `vrf`, each in the table that its packet's annotation names.
pub(super) fn look_up<F: Family>(
    readers: &Readers<F>,
    rcu: &rcu::Reader,
    vrf: Anno<1>,
    batch: &Batch,
    keys: &[F::Key],
    found: &mut [u32],
) {
    let table = |packet: &Packet| packet.anno_u8(vrf.0);
    let mut start = 0;
    let mut packets = batch.iter().peekable();
    while let Some(id) = packets.next().map(table) {
        let mut end = start + 1;
        while packets.next_if(|packet| table(packet) == id).is_some() {
            end += 1;
        }
        match readers.get(usize::from(id)).and_then(Option::as_ref) {
            Some(fib) => F::lookup(fib, rcu, &keys[start..end], &mut found[start..end]),
            None => found[start..end].fill(NextHopId::NONE.0),
        }
        start = end;
    }
}

/// Sets gateways, and turns next hops into outputs; says whether any packet is to be dropped.
fn direct<F: Family>(view: &View<Hop<F::Addr>>, batch: &mut Batch, found: &mut [u32]) -> bool {
    let mut lost = false;
    for (packet, id) in batch.iter_mut().zip(found) {
        let hop = view.resolve(NextHopId(*id), || F::flow_hash(packet)).copied();
        *id = hop.map_or(DROP, |hop| hop.output);
        match hop {
            Some(hop) if !is_drop(hop.output) => {
                if hop.gateway != F::UNSPECIFIED {
                    F::set_destination(packet, hop.gateway);
                }
            }
            _ => lost = true,
        }
    }
    lost
}

impl<F: Family> Element for Lookup<F> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.vrf = args.keyword_opt("VRF_ANNO");
        self.noutputs = args.noutputs;
        if let Some(owner) = args.keyword_opt("TABLE") {
            return self.borrow(args, owner);
        }
        let strategy = args.keyword("SYNC", Strategy::Rcu);
        let limits = Limits {
            routes: args.keyword("CAPACITY", usize::MAX),
            hops: args.keyword("NEXTHOPS", usize::MAX),
            buckets: args.keyword("BUCKETS", DEFAULT_BUCKETS),
            outputs: args.noutputs,
            like: Policy::of_process().as_click.then_some(self.like),
        };
        if limits.like == Some(Like::Sorted) {
            args.warning("SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead");
        }
        if !limits.buckets.is_power_of_two() || limits.buckets > MAX_BUCKETS {
            args.error(format!("BUCKETS must be a power of two up to {MAX_BUCKETS}, not {}", limits.buckets));
        }
        self.file = args.keyword_opt("FILE");
        let names: Vec<String> = args.keyword_all("NEXTHOP");
        let shared = match SharedRoutes::<F>::new(strategy, &args.rcu, limits, args.names) {
            Ok(shared) => shared,
            Err(why) => return args.error(why),
        };
        for text in names {
            if let Err(why) = shared.change(|routes| routes.set_named(&text)) {
                args.error(why);
            }
        }
        add_all(args, &shared);
        self.path = Some(shared.path());
        self.shared = Some(Arc::new(shared));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // The same text as before the swap: what handlers and routing daemons have made of it stays.
        if let Some(live) = cx.predecessor::<ReverseRoutes<F>>().filter(|_| cx.inherits())
            && live.shared.can_replace(self.shared())
        {
            self.path = Some(live.shared.path());
            self.shared = Some(live.shared.clone());
            return Ok(Tasks::None);
        }
        if let Some(path) = self.file.as_ref().filter(|_| !cx.is_dry()) {
            self.said.set(load(self.shared(), path, true)?);
        }
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if let Some(owner) = &self.table {
            self.shared = Some(self.find_table(cx, owner)?);
        }
        if let Some(said) = self.said.take() {
            cx.print(&format!("{}: {said}", cx.name()));
        }
        if self.path.is_none() {
            self.path = Some(self.shared().further_path()?);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let Lookup { path: Some(path), vrf, like, complaints, splitter, keys, found, .. } = self else {
            return;
        };
        keys.clear();
        keys.extend(batch.iter().map(F::destination));
        found.resize(keys.len(), 0);
        let lost = match path {
            Path::Rcu(published, hops) => {
                match vrf {
                    None => F::lookup(&published.first, cx.rcu(), keys, found),
                    Some(vrf) => {
                        let readers = published.readers.read(cx.rcu());
                        look_up::<F>(readers, cx.rcu(), *vrf, &batch, keys, found);
                    }
                }
                if published.is_counting(cx.rcu()) {
                    let (now, worker) = (cx.now(), cx.worker());
                    if let Some(session) = published.counting(cx.rcu(), || now) {
                        let at = (worker, cx.rcu());
                        session.count_batch(at, hops.read(cx.rcu()), *vrf, &batch, keys, found);
                    }
                }
                direct::<F>(hops.read(cx.rcu()), &mut batch, found)
            }
            Path::Locked(owned) => {
                let mut owned = owned.lock();
                match (&*vrf, &owned.readers[0]) {
                    (None, Some(first)) => F::lookup(first, &owned.reader, keys, found),
                    (None, None) => found.fill(NextHopId::NONE.0),
                    (Some(vrf), _) => {
                        look_up::<F>(&owned.readers, &owned.reader, *vrf, &batch, keys, found);
                    }
                }
                for (packet, key) in batch.iter().zip(&*keys) {
                    owned.count(vrf.map_or(0, |vrf| packet.anno_u8(vrf.0)), *key, packet);
                }
                direct::<F>(owned.hops.read(&owned.reader), &mut batch, found)
            }
        };
        if lost {
            let (mut outputs, mut dropping) = (found.iter(), found.iter().filter(|output| is_drop(**output)));
            let routed = |_: &mut Packet| outputs.next().is_some_and(|output| !is_drop(*output));
            batch.partition(routed, |p| match dropping.next() {
                Some(&BLACKHOLE) => cx.drop(Reason::Blackhole, p),
                Some(&PROHIBIT) => cx.drop(Reason::Prohibited, p),
                _ => {
                    Self::complain(complaints, *like, cx, &p);
                    cx.drop(Reason::NoRoute, p);
                }
            });
            found.retain(|output| !is_drop(*output));
        }
        let mut outputs = found.iter();
        splitter.split(cx, batch, |_| outputs.next().map_or(0, |o| *o as usize));
    }
}

impl<F: Family> Provide for Lookup<F> {
    fn provide(&self) -> Option<Provided> {
        // A borrower is known as such only by name: what it has depends on who is initialized first.
        let shared = self.shared.clone().filter(|_| self.table.is_none())?;
        Some(Arc::new(ReverseRoutes { path: shared.path(), vrf: self.vrf, shared }))
    }
}

impl<F: Family> Statistics for Lookup<F> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some((routes, bytes)) = self.shared().size() {
            put(&stats::TABLE_ENTRIES, routes as u64);
            put(&stats::TABLE_MEMORY, bytes as u64);
        }
    }
}

impl<F: Family> LongHandlers for Lookup<F> {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (shared, now, name, param) = (self.shared.clone()?, cx.now(), name.to_owned(), param.to_owned());
        Some(Box::new(move || answer(&shared, now, &name, &param)))
    }

    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        let (shared, element) = (self.shared.clone()?, cx.name().to_owned());
        let caller = (cx.index(), caller(cx));
        let (name, value) = (name.to_owned(), value.to_owned());
        Some(Box::new(move || {
            let said = change(&shared, caller, &name, &value)?;
            Ok(said.map(|said| format!("{element}: {said}")))
        }))
    }
}

impl<F: Family> OwnHandlers for Lookup<F> {
    fn read(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        answer(self.shared(), cx.now(), name, param)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let caller = (cx.index(), caller(cx));
        if let Some(said) = change(self.shared(), caller, name, value)? {
            cx.print(&format!("{}: {said}", cx.name()));
        }
        Ok(())
    }
}

impl<F: Family> Locking for Lookup<F> {
    fn locks(&self) -> Vec<LockUse> {
        let lock = match self.shared.as_ref().map(|s| s.strategy()) {
            None => return Vec::new(),
            Some(Strategy::Rcu) => {
                let why = "changes of routes are made one after the other; lookups read without it";
                LockUse::new(How::Adaptive, "the routes", When::Control, why)
            }
            Some(Strategy::Lock) => {
                let why = "lookups read, and changes write, under one lock (SYNC lock; rcu reads without)";
                LockUse::new(How::Spin, "the routes", When::EachBatch, why)
            }
            Some(Strategy::PerCore) => LockUse {
                per_worker: true,
                ..LockUse::new(
                    How::Spin,
                    "a worker's copy of the routes",
                    When::EachBatch,
                    "lookups read their worker's copy; a change writes all, one after the other (SYNC percore)",
                )
            },
        };
        vec![LockUse { owner: self.table.clone(), ..lock }]
    }
}

impl<F: Family> SharedState for Lookup<F> {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Lookup::<F> {
            shared: self.shared.clone(),
            table: self.table.clone(),
            noutputs: self.noutputs,
            vrf: self.vrf,
            like: self.like,
            complaints: self.complaints.clone(),
            ..Default::default()
        }))
    }
}

impl<F: Family> HotSwap for Lookup<F> {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let same = |old: &mut Self| {
            self.shared.as_ref().zip(old.shared.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        };
        swap::same::<Self>(old).is_some_and(same)
    }
}
