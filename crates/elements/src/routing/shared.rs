// SPDX-License-Identifier: MIT OR Apache-2.0
//! How workers share routes: three strategies, of which the first is for use and the others show what they cost.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use element::args::{FromArg, Names};
use element::clock::Nanos;
use packet::Packet;
use sync::lock::{AdaptiveLock, LockStats, SpinLock};
use sync::rcu;
use tables::next_hop::NextHopReader;

use super::counting::{Caller, Counts, Request, Session};
use super::routes::{Limits, Routes};
use super::{Family, FeedSink, Hop};

/// The strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// One table; readers never wait, old versions are freed after a grace period.
    #[default]
    Rcu,
    /// A table for each worker behind a lock of its own; a change is made in all of them.
    PerCore,
    /// One table behind one lock, with statistics written on every packet.
    Lock,
}

impl FromArg for Strategy {
    const EXPECTED: &'static str = "rcu, percore or lock";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "rcu" => Ok(Strategy::Rcu),
            "percore" => Ok(Strategy::PerCore),
            "lock" => Ok(Strategy::Lock),
            _ => Err(String::new()),
        }
    }
}

/// Lookup sides by table number, those that exist.
pub(super) type Readers<F> = Vec<Option<<F as Family>::Reader>>;

/// Packets and bytes that a route decided about.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    packets: u64,
    bytes: u64,
}

/// Removed routes whose counts are kept at least.
const FORGOTTEN_AT_ONCE: usize = 256;

/// A route by its table and prefix.
type RouteKey<F> = (u8, <F as Family>::Prefix);

/// Routes that belong to the holder of the lock around them, reading included.
pub(super) struct Owned<F: Family> {
    pub routes: Routes<F>,
    pub readers: Readers<F>,
    /// The only reader of the routes' domain; quiescent whenever the lock is free.
    pub reader: rcu::Reader,
    pub hops: NextHopReader<Hop<F::Addr>>,
    /// Of routes that decided about packets.
    hits: HashMap<RouteKey<F>, Hits, foldhash::fast::RandomState>,
}

impl<F: Family> Owned<F> {
    fn new(routes: Routes<F>, domain: &rcu::Domain) -> Self {
        let (readers, hops) = (routes.readers(), routes.hops.reader());
        Self { routes, readers, reader: domain.register("the lock's holder"), hops, hits: HashMap::default() }
    }

    /// Counts a packet that was looked up in a table for the route that decided about it. A lookup answers with a next hop, so the
    /// route is searched for among all.
    pub(super) fn count(&mut self, table: u8, key: F::Key, packet: &Packet) {
        if let Some((prefix, _)) = self.routes.longest_match(table, key) {
            let hits = self.hits.entry((table, prefix)).or_default();
            hits.packets += 1;
            hits.bytes += packet.len() as u64;
        }
    }

    /// Forgets what routes have counted that are there no longer, once they are more than the others: a change does not take longer
    /// for all that was counted.
    fn forget_removed(&mut self) {
        let Owned { routes, hits, .. } = self;
        if hits.len() > 2 * routes.len() + FORGOTTEN_AT_ONCE {
            hits.retain(|(table, prefix), _| routes.get(*table, *prefix).is_some());
        }
    }
}

/// One worker's way to the routes.
pub(super) enum Path<F: Family> {
    Rcu(Arc<Published<F>>, NextHopReader<Hop<F::Addr>>),
    Locked(Arc<SpinLock<Owned<F>>>),
}

/// The versions that readers of the first strategy see.
pub(super) struct Published<F: Family> {
    pub readers: rcu::Cell<Readers<F>>,
    /// Table 0, which most configurations have alone.
    pub first: F::Reader,
    /// What packets are counted by, if somebody asks.
    counts: rcu::Cell<Counts<F>>,
}

impl<F: Family> Published<F> {
    /// Whether there is a session, perhaps a former one.
    #[inline]
    pub(super) fn is_counting(&self, rcu: &rcu::Reader) -> bool {
        self.counts.read(rcu).is_some()
    }

    /// The session that counts packets, unless its time is over.
    #[inline]
    pub(super) fn counting<'a>(
        &'a self,
        rcu: &'a rcu::Reader,
        now: impl FnOnce() -> Nanos,
    ) -> Option<&'a Session<F>> {
        self.counts.read(rcu).as_deref().filter(|session| session.is_on(now()))
    }
}

/// Routes as all instances of an element share them.
pub(crate) struct SharedRoutes<F: Family> {
    strategy: Strategy,
    /// The route feed that fills them.
    feeder: Feeder,
    store: Store<F>,
}

/// The route feed that fills a table.
#[derive(Default)]
pub(crate) struct Feeder(Mutex<Weak<FeedSink>>);

impl Feeder {
    /// Gives the table to a feed, unless another one has it than the one `before`.
    pub(crate) fn claim(&self, feed: &Arc<FeedSink>, before: Option<&Arc<FeedSink>>) -> Result<(), String> {
        let mut feeder = list(&self.0);
        let other = feeder.upgrade().filter(|other| !before.is_some_and(|before| Arc::ptr_eq(other, before)));
        if other.is_some_and(|other| !Arc::ptr_eq(&other, feed)) {
            return Err("another RouteFeed fills this table; one is enough for both families".into());
        }
        *feeder = Arc::downgrade(feed);
        Ok(())
    }

    /// Whether no other feed has the table.
    pub(super) fn is_left_to(&self, feed: &Arc<FeedSink>) -> bool {
        list(&self.0).upgrade().is_none_or(|feeder| Arc::ptr_eq(&feeder, feed))
    }
}

enum Store<F: Family> {
    Rcu {
        control: Box<AdaptiveLock<Routes<F>>>,
        published: Arc<Published<F>>,
    },
    /// The first is the one that handlers read.
    Locked(Mutex<Vec<Arc<SpinLock<Owned<F>>>>>),
}

impl<F: Family> SharedRoutes<F> {
    /// `names` may stand for addresses in routes.
    pub(crate) fn new(
        strategy: Strategy,
        domain: &rcu::Domain,
        limits: Limits,
        names: &Names,
    ) -> Result<Self, String> {
        let store = match strategy {
            Strategy::Rcu => {
                let routes = Routes::new(domain, limits, names)?;
                let readers: Readers<F> = routes.readers();
                let first = readers.iter().flatten().next().expect("table 0").clone();
                let (readers, counts) = (rcu::Cell::new(domain, readers), rcu::Cell::new(domain, None));
                let published = Published { readers, first, counts };
                Store::Rcu { control: Box::new(AdaptiveLock::new(routes)), published: Arc::new(published) }
            }
            Strategy::PerCore | Strategy::Lock => {
                let domain = rcu::Domain::default();
                let owned = Owned::new(Routes::new(&domain, limits, names)?, &domain);
                Store::Locked(Mutex::new(vec![Arc::new(SpinLock::new(owned))]))
            }
        };
        Ok(Self { strategy, feeder: Feeder::default(), store })
    }

    /// Whether these routes may go on in place of `fresh` ones, which were made of the same text. Those behind locks may
    /// not: each worker of a new configuration would add a copy.
    pub(super) fn can_replace(&self, fresh: &Self) -> bool {
        // Names in the text may mean other addresses now.
        let given = |routes: &Self| routes.read(|r| (r.outputs(), r.known().clone()));
        self.strategy == Strategy::Rcu && fresh.strategy == self.strategy && given(self) == given(fresh)
    }

    pub(crate) fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Gives them to a feed, unless another one has them than the one `before`.
    pub(super) fn claim(&self, feed: &Arc<FeedSink>, before: Option<&Arc<FeedSink>>) -> Result<(), String> {
        self.feeder.claim(feed, before)
    }

    /// Whether no other feed fills them.
    pub(super) fn is_left_to(&self, feed: &Arc<FeedSink>) -> bool {
        self.feeder.is_left_to(feed)
    }

    /// The feed that fills them, if it comes by this channel.
    pub(super) fn feeder_by(&self, channel: &str) -> Option<Arc<FeedSink>> {
        list(&self.feeder.0).upgrade().filter(|feeder| feeder.channel() == channel)
    }

    /// The way for the first instance.
    pub(super) fn path(&self) -> Path<F> {
        match &self.store {
            Store::Rcu { control, published } => Path::Rcu(published.clone(), control.lock().hops.reader()),
            Store::Locked(copies) => Path::Locked(list(copies)[0].clone()),
        }
    }

    /// The way for a further worker: a copy of its own where the strategy wants that.
    pub(super) fn further_path(&self) -> Result<Path<F>, String> {
        if self.strategy != Strategy::PerCore {
            return Ok(self.path());
        }
        let Store::Locked(copies) = &self.store else { unreachable!("a strategy with locks") };
        let mut copies = list(copies);
        let domain = rcu::Domain::default();
        let routes = copies[0].lock().routes.copy(&domain)?;
        let copy = Arc::new(SpinLock::new(Owned::new(routes, &domain)));
        copies.push(copy.clone());
        Ok(Path::Locked(copy))
    }

    /// Reads what all copies have alike.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Routes<F>) -> R) -> R {
        match &self.store {
            Store::Rcu { control, .. } => read(&control.lock()),
            Store::Locked(copies) => {
                let first = list(copies)[0].clone();
                let owned = first.lock();
                read(&owned.routes)
            }
        }
    }

    /// Routes and the bytes of their tables, unless somebody changes them at the moment or locks are taken for them.
    pub(crate) fn size(&self) -> Option<(usize, usize)> {
        match &self.store {
            Store::Rcu { control, .. } => control.try_lock().map(|routes| (routes.len(), routes.bytes())),
            Store::Locked(copies) => {
                let copies = copies.try_lock().ok()?;
                let first = copies.first()?.try_lock()?;
                Some((first.routes.len(), first.routes.bytes() * copies.len()))
            }
        }
    }

    /// Sets the routes of a configuration in every copy; see [`Routes::set_all`].
    ///
    /// # Errors
    /// All that is wrong, a line each.
    pub(crate) fn set_all(&self, lines: &[String]) -> Result<Vec<(usize, usize)>, String> {
        self.change(|routes| routes.set_all(lines))
    }

    /// Makes the routes of a text those of each copy, or adds them with `keep`; returns what there is to say of it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn replace(&self, text: &str, keep: bool) -> Result<Option<String>, String> {
        self.change(|routes| {
            routes.replace(text, keep)?;
            Ok(routes.take_repeated())
        })
    }

    /// Makes a change in every copy. The first copy's refusal leaves all as they were; the others are equal and their
    /// domains have no other readers, so that they agree with it, and with what it answers.
    pub(crate) fn change<T>(
        &self,
        change: impl Fn(&mut Routes<F>) -> Result<T, String>,
    ) -> Result<T, String> {
        match &self.store {
            Store::Rcu { control, published } => {
                let mut routes = control.lock();
                let done = change(&mut routes);
                // Also what an earlier change could not show them.
                if routes.ntables() != routes.shown {
                    published.readers.publish(routes.readers()).map_err(|e| e.to_string())?;
                    routes.shown = routes.ntables();
                }
                done
            }
            Store::Locked(copies) => {
                let mut answer = None;
                for (at, copy) in list(copies).iter().enumerate() {
                    let owned = &mut *copy.lock();
                    let before = owned.routes.ntables();
                    let done = change(&mut owned.routes);
                    if owned.routes.ntables() != before {
                        owned.readers = owned.routes.readers();
                    }
                    owned.reader.quiescent();
                    owned.forget_removed();
                    answer =
                        Some(done.map_err(|why| if at == 0 { why } else { format!("copy {at}: {why}") })?);
                }
                Ok(answer.expect("there is a first copy"))
            }
        }
    }

    /// Begins to count packets, or ends that.
    ///
    /// # Errors
    /// What is wrong with the request; somebody counts already; the strategy counts by itself.
    pub(super) fn count(&self, request: &str, caller: Caller) -> Result<(), String> {
        let request = Request::read(request)?;
        let Store::Rcu { control, published } = &self.store else {
            return Err("with SYNC percore or lock, routes are counted always: read 'stats'".into());
        };
        let mut routes = control.lock();
        let session = if request.ends() {
            routes.end_counting();
            None
        } else {
            Some(routes.begin_counting(request, caller)?)
        };
        published.counts.publish(session).map_err(|why| {
            routes.end_counting();
            why.to_string()
        })
    }

    /// What the locks have been through: `LOCK acquisitions N contended N wait_ns N`, a line each.
    pub(crate) fn contention(&self) -> String {
        let line = |name: String, stats: LockStats| format!("{name} {stats}\n");
        match &self.store {
            Store::Rcu { control, .. } => line("control".into(), control.stats()),
            Store::Locked(copies) if self.strategy == Strategy::Lock => {
                line("table".into(), list(copies)[0].stats())
            }
            Store::Locked(copies) => {
                let copies = list(copies);
                copies.iter().enumerate().map(|(at, copy)| line(format!("copy{at}"), copy.stats())).collect()
            }
        }
    }

    /// Packets and bytes by route, the busiest first: `PACKETS BYTES PREFIX HOPS [table N]`, a line each; nothing with the first strategy.
    pub(crate) fn stats(&self) -> String {
        let Store::Locked(copies) = &self.store else { return String::new() };
        let mut sums: HashMap<RouteKey<F>, Hits> = HashMap::new();
        let copies = list(copies).clone();
        for copy in &copies {
            for (route, hits) in &copy.lock().hits {
                let sum = sums.entry(*route).or_default();
                sum.packets += hits.packets;
                sum.bytes += hits.bytes;
            }
        }
        let first = copies[0].lock();
        let line = |((table, prefix), Hits { packets, bytes }): (&RouteKey<F>, &Hits)| {
            let hops = first.routes.show_hops(first.routes.get(*table, *prefix)?);
            let table = if *table == 0 { String::new() } else { format!(" table {table}") };
            Some((Reverse(*packets), format!("{packets} {bytes} {prefix} {hops}{table}\n")))
        };
        let mut lines: Vec<(Reverse<u64>, String)> = sums.iter().filter_map(line).collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

fn list<T>(list: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tables::next_hop::NextHopId;

    use super::*;
    use crate::routing::lookup_ip_route::V4;

    const LIMITS: Limits = Limits { routes: 10, hops: 10, buckets: 64, outputs: 4, like: None };

    /// Each worker's answers for two addresses.
    fn answers(paths: &[Path<V4>]) -> Vec<[Option<u32>; 2]> {
        let answer = |path: &Path<V4>, key: u32| {
            let Path::Locked(owned) = path else { panic!("a lock") };
            let owned = owned.lock();
            let mut found = [0];
            V4::lookup(owned.readers[0].as_ref().expect("table 0"), &owned.reader, &[key], &mut found);
            owned.hops.read(&owned.reader).resolve(NextHopId(found[0]), || 1).map(|hop| hop.output)
        };
        paths.iter().map(|path| [0x0a00_0001, 0x0b00_0001].map(|key| answer(path, key))).collect()
    }

    #[test]
    fn every_copy_has_every_change() {
        let check = |strategy: Strategy, locks: usize| {
            let shared =
                SharedRoutes::<V4>::new(strategy, &rcu::Domain::default(), LIMITS, &Names::default())
                    .expect("memory");
            let change = |verb: &'static str, text: &str| shared.change(|routes| routes.command(verb, text));
            shared.change(|routes| routes.set_named("zzz 1.1.1.1 3")).expect("a name");
            shared.change(|routes| routes.set_named("aaa via zzz")).expect("a name for a name");
            change("add", "10.0.0.0/8 via aaa").expect("room");
            let paths: Vec<_> = (0..3).map(|_| shared.further_path().expect("memory")).collect();
            assert_eq!(answers(&paths), vec![[Some(3), None]; 3], "copies start with the routes there are");
            change("add", "11.0.0.0/8 1 table 0").expect("room");
            shared.change(|routes| routes.set_named("zzz 1.1.1.1 2")).expect("a change");
            assert_eq!(answers(&paths), vec![[Some(2), Some(1)]; 3]);
            assert!(change("add", "11.0.0.0/8 2").is_err());
            assert_eq!(answers(&paths), vec![[Some(2), Some(1)]; 3]);
            assert_eq!(shared.contention().lines().count(), locks, "{}", shared.contention());
        };
        check(Strategy::PerCore, 4);
        check(Strategy::Lock, 1);
    }

    /// A copy that comes late has what a feed has put into the others, in the middle of a replay, too.
    #[test]
    fn a_feed_fills_every_copy() {
        let shared =
            SharedRoutes::<V4>::new(Strategy::PerCore, &rcu::Domain::default(), LIMITS, &Names::default())
                .expect("memory");
        let hop = |output| [(Hop { gateway: std::net::Ipv4Addr::UNSPECIFIED, output }, 1)];
        let to = |text: &str, number| ((0, text.parse().expect("a prefix")), number);
        let object = |number, output| {
            shared.change(|routes| routes.fed_object(number, &hop(output))).expect("room");
        };
        let commit = |changes: &[_]| shared.change(|routes| routes.fed_commit(changes)).expect("room");
        shared.set_all(&["10.0.0.0/8 1".into()]).expect("room");
        let mut paths = vec![shared.path(), shared.further_path().expect("memory")];
        object(1, 2);
        commit(&[to("10.0.0.0/8", Some(1)), to("11.0.0.0/8", Some(1))]);
        paths.push(shared.further_path().expect("memory"));
        assert_eq!(answers(&paths), vec![[Some(2), Some(2)]; 3]);
        // A replay numbers the same object anew, and names only one of the routes.
        let begin = |routes: &mut Routes<V4>| {
            routes.fed_begin();
            Ok(())
        };
        shared.change(begin).expect("always");
        object(7, 3);
        commit(&[to("11.0.0.0/8", Some(7))]);
        paths.push(shared.further_path().expect("memory"));
        assert_eq!(answers(&paths), vec![[Some(2), Some(3)]; 4]);
        object(8, 2);
        commit(&[to("11.0.0.0/8", Some(8))]);
        shared.change(Routes::fed_end).expect("room");
        assert_eq!(answers(&paths), vec![[Some(1), Some(2)]; 4], "the configured route has returned");
        shared.change(|routes| routes.fed_drop(7)).expect("no route leads there");
    }

    #[test]
    fn what_removed_routes_have_counted_is_forgotten_in_time() {
        let limits = Limits { routes: 1000, ..LIMITS };
        let shared =
            SharedRoutes::<V4>::new(Strategy::Lock, &rcu::Domain::default(), limits, &Names::default())
                .expect("memory");
        let Path::Locked(owned) = shared.path() else { panic!("a lock") };
        let all: String = (0..1000).map(|at| format!("{}.{}.0.0/16 0\n", 10 + at / 250, at % 250)).collect();
        shared.change(|routes| routes.replace(&all, false)).expect("room");
        let packet = Packet::copy_of(b"12345").expect("room");
        (0..1000).for_each(|at| owned.lock().count(0, (10 + at / 250) << 24 | (at % 250) << 16, &packet));
        owned.lock().count(0, 0x0a01_0203, &packet);
        owned.lock().count(0, 0x0900_0000, &packet);
        assert_eq!((shared.stats().lines().count(), owned.lock().hits.len()), (1000, 1000));
        assert!(shared.stats().starts_with("2 10 10.1.0.0/16 - 0\n"), "{}", shared.stats());
        shared.change(|routes| routes.replace("10.1.0.0/16 0", false)).expect("room");
        assert_eq!(shared.stats(), "2 10 10.1.0.0/16 - 0\n");
        assert_eq!(owned.lock().hits.len(), 1);
    }

    #[test]
    fn waiting_is_counted() {
        let shared =
            SharedRoutes::<V4>::new(Strategy::Lock, &rcu::Domain::default(), LIMITS, &Names::default())
                .expect("memory");
        let Path::Locked(owned) = shared.path() else { panic!("a lock") };
        let (waiting, waiter) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let held = owned.lock();
            let owned = &owned;
            scope.spawn(move || {
                // Asked for the time, it has found the lock taken.
                drop(owned.lock_timed(|| {
                    let _ = waiting.send(());
                    sync::lock::now_ns()
                }));
            });
            waiter.recv().expect("it began to wait");
            drop(held);
        });
        let text = shared.contention();
        assert!(text.starts_with("table acquisitions 2 contended 1 wait_ns "), "{text}");
    }
}
