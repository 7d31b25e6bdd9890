// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a route feed ends: the lookup elements that a control plane fills.
//!
//! The sink knows links and objects in the feed's terms, and translates them for each family when they or the links change. So a lost link takes its
//! next hops out of all objects by one change of the next-hop tables, for any number of routes.
//!
//! What a table refuses is [outstanding](super::outstanding): [`FeedSink::retry`] tries it again.
//!
//! What a control plane can make the sink keep is bounded ([`world`]).

mod audit;
mod groups;
mod mpls;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use feed::{Destination, Hop as FedHop, Object, Reply, Update, Updates};

use groups::GroupHalf;
pub(crate) use groups::Groups;
pub(crate) use mpls::Mpls;
use mpls::{Held, LabelHalf};

use super::fed::{FedChange, LeftOut};
use super::outstanding::{AT_ONCE, Outstanding, Pace};
use super::shared::SharedRoutes;
use super::{BLACKHOLE, DROP, Family, Hop, PROHIBIT};
use crate::routing::bfd::{Down, Follow};
use crate::routing::lookup_ip_route::V4;
use crate::routing::lookup_ip6_route::V6;
use world::{Link, World};

type Hasher = foldhash::fast::RandomState;
/// The numbers of the tables of VRFs, by name.
pub(crate) type Vrfs = BTreeMap<String, u8>;

/// Rounds of outstanding changes at a time.
const ROUNDS: usize = 16;
/// How often a change is tried while readers hold old versions, and the pause between two tries.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_micros(500);

/// The outputs of a lookup element by what leads there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outputs {
    /// By the names of links.
    pub links: HashMap<String, u32>,
    /// For the router itself.
    pub local: Option<u32>,
    /// For what is unreachable, if an element answers it.
    pub unreachable: Option<u32>,
    /// For what is prohibited, if an element answers it.
    pub prohibit: Option<u32>,
    /// For next hops that are adjacencies of a LookupMPLS.
    pub adjacency: Option<u32>,
}

impl Outputs {
    /// All that routes may lead to.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        let verdicts = [self.local, self.unreachable, self.prohibit, self.adjacency];
        self.links.values().copied().chain(verdicts.into_iter().flatten())
    }
}

/// A family's table and the ways out of it.
pub(crate) struct Side<F: Family> {
    pub routes: Arc<SharedRoutes<F>>,
    pub outputs: Outputs,
    /// What takes next hops that this table cannot have.
    pub mpls: Option<Arc<Mpls>>,
}

/// The tables that a feed fills.
#[derive(Default)]
pub(crate) struct Sides {
    pub four: Option<Side<V4>>,
    pub six: Option<Side<V6>>,
    pub mpls: Option<Arc<Mpls>>,
    /// Multicast tables of IPv4 and of IPv6.
    pub groups: [Option<Groups>; 2],
    pub vrfs: Vrfs,
}

/// The end of a route feed: [`apply`](Self::apply) puts a batch into the tables.
pub struct FeedSink {
    channel: String,
    /// There when the element has been initialized.
    sides: OnceLock<Sides>,
    state: Mutex<State>,
    /// The state's feed and sequence, for those who cannot wait.
    shown: [AtomicU64; 2],
}

/// What the feed has said so far.
#[derive(Default)]
struct State {
    feed: u64,
    sequence: u64,
    is_replaying: bool,
    /// Whether the tables have all that the feed has said since it began.
    is_complete: bool,
    world: World,
    four: Half<V4>,
    six: Half<V6>,
    labels: LabelHalf,
    groups: [GroupHalf; 2],
    /// Adjacencies that objects from before the replay under way may lead to.
    former: Vec<Held>,
    refused: Refused,
    /// Objects that were to go while routes that cannot be changed yet lead to them.
    dropped: BTreeSet<u32>,
    pace: Pace,
    /// The sink of a later configuration, which has taken over what this one knew.
    successor: Weak<FeedSink>,
}

/// What a family has of the feed.
struct Half<F: Family> {
    /// Objects that have been translated.
    known: HashSet<u32, Hasher>,
    /// Changes of routes that have been read and not made yet.
    pending: Vec<FedChange<F>>,
    /// The adjacencies of objects.
    held: HashMap<u32, Vec<Held>, Hasher>,
    /// Those that readers may still see.
    stale: Vec<Held>,
    outstanding: Outstanding<F>,
}

impl<F: Family> Half<F> {
    /// Notes a change that is to be made.
    fn put(&mut self, change: FedChange<F>) {
        self.outstanding.forget(change.0);
        self.pending.push(change);
    }
}

impl<F: Family> Default for Half<F> {
    fn default() -> Self {
        Half {
            known: HashSet::default(),
            pending: Vec::new(),
            held: HashMap::default(),
            stale: Vec::new(),
            outstanding: Outstanding::default(),
        }
    }
}

impl<F: Family> Half<F> {
    /// Notes the adjacencies that an object has from now on.
    fn hold(&mut self, id: u32, held: Vec<Held>) {
        let before = if held.is_empty() { self.held.remove(&id) } else { self.held.insert(id, held) };
        self.stale.extend(before.into_iter().flatten());
    }

    /// All adjacencies, which are somebody else's to give up from now on.
    fn take_held(&mut self) -> impl Iterator<Item = Held> {
        self.held.drain().flat_map(|(_, held)| held).chain(self.stale.drain(..))
    }
}

/// Updates of a batch that mean nothing here.
#[derive(Default)]
struct Refused {
    count: u32,
    /// Why the first one was refused.
    why: String,
}

impl Refused {
    fn add(&mut self, why: impl FnOnce() -> String) {
        if self.count == 0 {
            self.why = why();
        }
        self.count = self.count.saturating_add(1);
    }

    fn add_all<F: Family>(&mut self, left: &LeftOut<F>) {
        if !left.changes.is_empty() {
            self.add(|| left.why.clone());
            self.count = self.count.saturating_add(left.changes.len() as u32 - 1);
        }
    }
}

/// Tries a change until readers allow it.
fn patiently<T>(mut change: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 1..TRIES {
        match change() {
            Ok(done) => return Ok(done),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    change()
}

impl<F: Family> Side<F> {
    /// Sets a route, or notes why it cannot be now.
    fn route(&self, world: &World, half: &mut Half<F>, refused: &mut Refused, key: (u8, F::Prefix), id: u32) {
        if !half.known.contains(&id) && !self.translate(world, half, refused, id) {
            return half.outstanding.refuse((key, Some(id)));
        }
        half.put((key, Some(id)));
    }

    /// Brings an object up to date in the table, if the family knows it.
    fn refresh(&self, world: &World, half: &mut Half<F>, refused: &mut Refused, id: u32) {
        if half.known.contains(&id) {
            let is_taken = self.translate(world, half, refused, id);
            half.outstanding.note_object(id, is_taken);
        }
    }

    /// Puts what an object means into the table of next hops; false if it cannot be.
    fn translate(&self, world: &World, half: &mut Half<F>, refused: &mut Refused, id: u32) -> bool {
        let Some(object) = world.objects.get(&id) else {
            refused.add(|| format!("a route names object {id}, which is not known"));
            return false;
        };
        let mut held = Vec::new();
        let members = self.members(object, world, refused, &mut held);
        match self.routes.change(|routes| routes.fed_object(id, &members)) {
            Ok(()) => {
                half.known.insert(id);
                half.hold(id, held);
                true
            }
            Err(why) => {
                refused.add(|| why);
                false
            }
        }
    }

    /// What an object means in this table.
    fn members(
        &self,
        object: &Object,
        world: &World,
        refused: &mut Refused,
        held: &mut Vec<Held>,
    ) -> Vec<(Hop<F::Addr>, u32)> {
        let Outputs { local, unreachable, prohibit, .. } = &self.outputs;
        let verdict = |output| vec![(Hop { gateway: F::UNSPECIFIED, output }, 1)];
        let hops = match object {
            Object::Forward(hops) => hops,
            Object::Local | Object::Table(_) => return verdict(local.unwrap_or(DROP)),
            Object::Blackhole => return verdict(BLACKHOLE),
            Object::Unreachable => return verdict(unreachable.unwrap_or(DROP)),
            Object::Prohibit => return verdict(prohibit.unwrap_or(PROHIBIT)),
        };
        let [mut first, mut backup] = [Vec::new(), Vec::new()];
        for hop in hops {
            let way = self.hop(hop, world, held).unwrap_or_else(|why| {
                refused.add(|| why);
                // What this router cannot do, the kernel can.
                let output = local.filter(|_| world.links.get(&hop.link).is_some_and(|link| link.up));
                output.map(|output| Hop { gateway: F::UNSPECIFIED, output })
            });
            let list = if hop.backup { &mut backup } else { &mut first };
            list.extend(way.map(|way| (way, hop.weight.into())));
        }
        let live = if first.is_empty() { backup } else { first };
        if live.is_empty() { verdict(unreachable.unwrap_or(DROP)) } else { live }
    }

    /// A hop as the table has it; `None` while its link or its neighbour is down.
    fn hop(&self, hop: &FedHop, world: &World, held: &mut Vec<Held>) -> Result<Option<Hop<F::Addr>>, String> {
        if Mpls::needs(hop, |gateway| F::address(gateway).is_some())
            && let (Some(mpls), Some(output)) = (&self.mpls, self.outputs.adjacency)
        {
            let is_six = F::address(Ipv6Addr::UNSPECIFIED.into()).is_some();
            let Some(adjacency) = mpls.adjacency(hop, world, is_six)? else { return Ok(None) };
            let adjacency = mpls.hold(adjacency)?;
            let gateway = as_address::<F>(adjacency.index());
            held.push(adjacency);
            return Ok(Some(Hop { gateway, output }));
        }
        let link = world.links.get(&hop.link).ok_or_else(|| format!("link {} is not known", hop.link))?;
        let output = self.outputs.links.get(&link.name);
        let output = *output.ok_or_else(|| format!("no output leads to the link '{}'", link.name))?;
        if let Some(label) = mpls::pushed(hop).next() {
            return Err(format!("a next hop pushes MPLS label {label}, which this table cannot"));
        }
        let gateway = match hop.gateway {
            None => F::UNSPECIFIED,
            Some(address) => F::address(address)
                .ok_or_else(|| format!("the next hop {address} is of another family than the route"))?,
        };
        Ok((link.up && !world.is_down(hop)).then_some(Hop { gateway, output }))
    }

    /// Makes the changes that have been gathered.
    fn flush(&self, half: &mut Half<F>, refused: &mut Refused) -> Result<(), String> {
        let left = patiently(|| self.routes.change(|routes| routes.fed_commit(&half.pending)))?;
        half.pending.clear();
        half.stale.clear();
        refused.add_all(&left);
        half.outstanding.refuse_all(left.changes);
        Ok(())
    }

    /// Tries what the table refused once more.
    fn retry(&self, world: &World, half: &mut Half<F>, refused: &mut Refused) -> Result<(), String> {
        for id in half.outstanding.objects() {
            self.refresh(world, half, refused, id);
        }
        for _ in 0..ROUNDS {
            let before = half.outstanding.len();
            for (key, number) in half.outstanding.take_some() {
                match number {
                    Some(id) => self.route(world, half, refused, key, id),
                    None => half.put((key, None)),
                }
            }
            self.flush(half, refused)?;
            if before - half.outstanding.len() < AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    /// Shows readers what they could not be shown when it changed.
    fn show(&self) {
        let _ = self.routes.change(super::routes::Routes::fed_publish);
    }

    fn drop_object(&self, half: &mut Half<F>, id: u32) -> Result<(), String> {
        self.routes.change(|routes| routes.fed_drop(id))?;
        half.known.remove(&id);
        half.hold(id, Vec::new());
        half.outstanding.note_object(id, true);
        Ok(())
    }

    fn begin(&self) -> Result<(), String> {
        self.routes.change(|routes| {
            routes.fed_begin();
            Ok(())
        })
    }

    fn end(&self) -> Result<(), String> {
        patiently(|| self.routes.change(|routes| routes.fed_end()))
    }

    /// Removes the feed's routes, unless the table has another feed.
    fn retire(&self, feed: &Arc<FeedSink>) -> Result<(), String> {
        match self.routes.is_left_to(feed) {
            true => patiently(|| self.routes.change(super::routes::Routes::fed_purge)),
            false => Ok(()),
        }
    }

    fn is_disturbed(&self) -> bool {
        self.routes.read(super::routes::Routes::fed_is_disturbed)
    }

    /// Whether one table is to take the place of another.
    fn differ(new: &Option<Side<F>>, old: &Option<Side<F>>) -> bool {
        let both = new.as_ref().zip(old.as_ref());
        both.is_some_and(|(new, old)| !Arc::ptr_eq(&new.routes, &old.routes))
    }

    /// Takes the fed routes of an earlier configuration's table, of tables for which `is_same` holds; whether they mean here what they should.
    fn succeed(
        &self,
        before: &Side<F>,
        world: &World,
        half: &mut Half<F>,
        theirs: &Half<F>,
        is_same: impl Fn(u8) -> bool,
    ) -> bool {
        half.outstanding = theirs.outstanding.clone();
        if Arc::ptr_eq(&self.routes, &before.routes) {
            // The running configuration uses the table, so nothing in it is changed now.
            half.known.clone_from(&theirs.known);
            let again = |held: &Vec<Held>| held.iter().filter_map(Held::again).collect();
            half.held = theirs.held.iter().map(|(id, held)| (*id, again(held))).collect();
            return self.outputs == before.outputs
                && Mpls::agree(self.mpls.as_deref(), before.mpls.as_deref());
        }
        let mut refused = Refused::default();
        let routes = before.routes.read(|routes| routes.fed_routes());
        for (table, prefix, id) in routes.into_iter().filter(|(table, ..)| is_same(*table)) {
            self.route(world, half, &mut refused, (table, prefix), id);
        }
        refused.count == 0 && !before.is_disturbed()
    }
}

impl FeedSink {
    pub(crate) fn new(channel: String) -> Self {
        FeedSink { channel, sides: OnceLock::new(), state: Mutex::default(), shown: Default::default() }
    }

    /// The channel by which the feed comes.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the feed that the tables hold, and of its last batch. Nobody waits for it.
    #[must_use]
    pub fn status(&self) -> (u64, u64) {
        let [feed, sequence] = &self.shown;
        (feed.load(Ordering::Relaxed), sequence.load(Ordering::Relaxed))
    }

    fn show(&self, state: &State) {
        self.shown[0].store(state.feed, Ordering::Relaxed);
        self.shown[1].store(state.sequence, Ordering::Relaxed);
    }

    /// How many of the feed's routes have gone from the tables.
    #[must_use]
    pub fn removed(&self) -> u64 {
        let Some(Sides { four, six, .. }) = self.sides.get() else { return 0 };
        let four = four.as_ref().map_or(0, |side| side.routes.read(super::routes::Routes::fed_removed));
        four + six.as_ref().map_or(0, |side| side.routes.read(super::routes::Routes::fed_removed))
    }

    /// Why the control plane must replay everything, if it must.
    #[must_use]
    pub fn needs_replay(&self) -> Option<String> {
        let sides = self.sides.get()?;
        let Sides { four, six, mpls, .. } = sides;
        let state = self.state();
        if state.feed == 0 {
            return Some("the router has other tables now".to_owned());
        }
        let lacks = state.four.outstanding.lacks_some() || state.six.outstanding.lacks_some();
        let lacks = lacks
            || sides
                .groups()
                .zip(&state.groups)
                .any(|(groups, half)| groups.is_some_and(|groups| groups.has_room_again(half)));
        if (lacks || state.world.has_room_again()) && !state.is_replaying {
            return Some("there is room again for what was refused".to_owned());
        }
        let is_disturbed =
            four.as_ref().is_some_and(Side::is_disturbed) || six.as_ref().is_some_and(Side::is_disturbed);
        let is_disturbed = is_disturbed || mpls.as_ref().is_some_and(|mpls| mpls.is_disturbed());
        (is_disturbed && !state.is_replaying)
            .then(|| "somebody else has replaced the routes of a table".into())
    }

    /// Applies one batch. Updates that mean nothing here are left out and counted. `None` while another configuration takes over: its sink
    /// is to have the batch.
    pub fn apply(&self, batch: &[u8]) -> Option<Reply> {
        let sides = self.sides.get()?;
        let mut state = self.state();
        if state.successor.strong_count() > 0 {
            return None;
        }
        let reply = sides.apply(&mut state, batch).unwrap_or_else(|why| {
            // What was read of it is not to be made with a later batch.
            state.four.pending.clear();
            state.six.pending.clear();
            state.labels.pending.clear();
            state.groups.iter_mut().for_each(GroupHalf::forget_pending);
            Reply::Replay { why }
        });
        self.show(&state);
        Some(reply)
    }

    /// Tries again what tables have refused, if it is time. Answers how much is outstanding if that has changed. To be called every
    /// now and then.
    pub fn retry(&self, now: Instant) -> Option<Reply> {
        let sides = self.sides.get()?;
        let mut state = self.state();
        if state.successor.strong_count() > 0 || state.feed == 0 {
            return None;
        }
        sides.retry(&mut state, now)
    }

    /// Removes all routes of the feed: the configuration has no place for them any more. Nothing happens if another sink has the tables
    /// now.
    ///
    /// # Errors
    /// Readers hold old versions; the call may be repeated.
    pub fn retire(self: &Arc<Self>) -> Result<(), String> {
        let Some(Sides { four, six, mpls, groups, .. }) = self.sides.get() else { return Ok(()) };
        let mut state = self.state();
        four.iter().try_for_each(|side| side.retire(self))?;
        six.iter().try_for_each(|side| side.retire(self))?;
        for mpls in mpls.iter().filter(|mpls| mpls.forwarding.feeder.is_left_to(self)) {
            mpls.begin();
            mpls.end()?;
        }
        for groups in groups.iter().flatten().filter(|groups| groups.forwarding.feeder.is_left_to(self)) {
            groups.begin();
            groups.end()?;
            groups.forwarding.set_watched(false);
        }
        *state = State { successor: std::mem::take(&mut state.successor), ..State::default() };
        self.show(&state);
        Ok(())
    }

    /// Begins, with what the configuration before had.
    ///
    /// # Errors
    /// The tables refuse its routes.
    pub(crate) fn start(self: &Arc<Self>, sides: Sides, before: Option<Arc<FeedSink>>) -> Result<(), String> {
        // An element without a name has another one if an element was added before it.
        let of_table = || {
            let four = sides.four.as_ref().and_then(|side| side.routes.feeder_by(&self.channel));
            four.or_else(|| sides.six.as_ref().and_then(|side| side.routes.feeder_by(&self.channel)))
        };
        let before = before.or_else(of_table);
        sides.four.iter().try_for_each(|side| side.routes.claim(self, before.as_ref()))?;
        sides.six.iter().try_for_each(|side| side.routes.claim(self, before.as_ref()))?;
        sides.mpls.iter().try_for_each(|mpls| mpls.forwarding.feeder.claim(self, before.as_ref()))?;
        let mut groups = sides.groups.iter().flatten();
        groups.try_for_each(|groups| groups.forwarding.feeder.claim(self, before.as_ref()))?;
        if self.sides.set(sides).is_ok()
            && let Some(before) = before
        {
            self.succeed(&before)?;
        }
        Ok(())
    }

    /// Whether [`start`](Self::start) has been called.
    pub(crate) fn has_started(&self) -> bool {
        self.sides.get().is_some()
    }

    /// Takes over what the sink of the configuration before knows, so that its routes go on. From then on that one takes no more batches,
    /// unless this sink is given up.
    fn succeed(self: &Arc<Self>, before: &FeedSink) -> Result<(), String> {
        let (Some(new), Some(old)) = (self.sides.get(), before.sides.get()) else { return Ok(()) };
        let mut theirs = before.state();
        let has_same_vrfs = new.vrfs == old.vrfs;
        let is_same = move |table: u8| table == 0 || has_same_vrfs;
        if theirs.is_replaying && (Side::differ(&new.four, &old.four) || Side::differ(&new.six, &old.six)) {
            return Err("a control plane is replaying its routes into the table that is to be replaced; try again when it has ended".into());
        }
        let mut state = self.state();
        state.world = theirs.world.clone();
        state.world.find_tables(&new.vrfs);
        state.former = theirs.former.iter().filter_map(Held::again).collect();
        state.dropped.clone_from(&theirs.dropped);
        let State { world, four, six, labels, groups, .. } = &mut *state;
        let agree = Mpls::agree(new.mpls.as_deref(), old.mpls.as_deref());
        if agree {
            labels.succeed(&theirs.labels);
        }
        let four = match (&new.four, &old.four) {
            (Some(side), Some(old)) => side.succeed(old, world, four, &theirs.four, is_same),
            (new, _) => new.is_none(),
        };
        let six = match (&new.six, &old.six) {
            (Some(side), Some(old)) => side.succeed(old, world, six, &theirs.six, is_same),
            (new, _) => new.is_none(),
        };
        let mut has_groups = true;
        for (n, half) in groups.iter_mut().enumerate() {
            has_groups &=
                Groups::succeed(half, &theirs.groups[n], [&new.groups[n], &old.groups[n]], has_same_vrfs);
        }
        // What is lacking comes with a replay.
        let agrees = four && six && (agree || new.mpls.is_none()) && has_groups;
        if agrees && has_same_vrfs && theirs.is_complete {
            (state.feed, state.sequence, state.is_complete) = (theirs.feed, theirs.sequence, true);
        }
        new.flush(&mut state)?;
        self.show(&state);
        theirs.successor = Arc::downgrade(self);
        Ok(())
    }
}

impl Follow for FeedSink {
    /// One change of the tables of next hops repairs all routes by way of a neighbour.
    fn follow(&self, down: &Down) -> Result<(), String> {
        let Some(sides) = self.sides.get() else { return Ok(()) };
        let state = &mut *self.state();
        if state.successor.strong_count() > 0 {
            return Ok(());
        }
        if state.world.down != *down {
            let mut concerned = state.world.through_dead();
            state.world.down.clone_from(down);
            concerned.extend(state.world.through_dead());
            concerned.iter().for_each(|id| sides.refresh(state, *id));
            state.refused = Refused::default();
        }
        // Also when the call is repeated, because readers could not be shown the change before.
        sides.flush(state)
    }
}

impl Sides {
    /// The multicast table of each family, if it has one.
    fn groups(&self) -> impl Iterator<Item = Option<&Groups>> {
        self.groups.iter().map(Option::as_ref)
    }

    fn apply(&self, state: &mut State, batch: &[u8]) -> Result<Reply, String> {
        let (header, updates) = Updates::new(batch).map_err(|why| why.to_string())?;
        state.refused = Refused::default();
        let mut updates = updates.peekable();
        if let Some(Ok(Update::Hello { feed })) = updates.peek() {
            return Ok(greet(state, *feed, header.sequence));
        }
        check_order(state, header.sequence)?;
        if let Some(Ok(Update::Audit(question))) = updates.peek() {
            let answer = self.audit(state, question);
            state.sequence = header.sequence;
            return Ok(Reply::Audited { sequence: header.sequence, answer });
        }
        for update in updates {
            self.update(state, update.map_err(|why| why.to_string())?)?;
        }
        self.flush(state)?;
        state.sequence = header.sequence;
        let Refused { count: refused, why } = std::mem::take(&mut state.refused);
        Ok(Reply::Applied { sequence: header.sequence, refused, outstanding: outstanding(state), why })
    }

    fn retry(&self, state: &mut State, now: Instant) -> Option<Reply> {
        self.four.iter().for_each(Side::show);
        self.six.iter().for_each(Side::show);
        let before = outstanding(state);
        if before == 0 && state.dropped.is_empty() || !state.pace.is_due(now) {
            return None;
        }
        let State { world, four, six, refused, .. } = &mut *state;
        *refused = Refused::default();
        let done = self.four.iter().try_for_each(|side| side.retry(world, four, refused));
        let done = done.and_then(|()| self.six.iter().try_for_each(|side| side.retry(world, six, refused)));
        for id in std::mem::take(&mut state.dropped) {
            self.drop_object(state, id);
        }
        let Refused { why, .. } = std::mem::take(&mut state.refused);
        let after = outstanding(state);
        state.pace.tried(now, after < before);
        if let Err(why) = done {
            return Some(Reply::Replay { why });
        }
        (after != before).then_some(Reply::Outstanding { count: after, why })
    }

    fn update(&self, state: &mut State, update: Update<'_>) -> Result<(), String> {
        let State { world, four, six, labels, groups, refused, .. } = state;
        match update {
            // Answered if they stand first; they mean nothing elsewhere.
            Update::Hello { .. } | Update::Audit(_) => {}
            Update::Begin => {
                // What waits is part of what is said again.
                let State { feed, sequence, .. } = *state;
                let world = World::new(std::mem::take(&mut state.world.down));
                let mut former = std::mem::take(&mut state.former);
                former.extend(state.four.take_held());
                former.extend(state.six.take_held());
                *state = State { feed, sequence, is_replaying: true, world, former, ..State::default() };
                self.mpls.iter().for_each(|mpls| mpls.begin());
                self.groups().flatten().for_each(Groups::begin);
                self.four.iter().try_for_each(Side::begin)?;
                self.six.iter().try_for_each(Side::begin)?;
            }
            Update::End => {
                self.flush(state)?;
                self.four.iter().try_for_each(Side::end)?;
                self.six.iter().try_for_each(Side::end)?;
                self.mpls.iter().try_for_each(|mpls| mpls.end())?;
                self.groups().flatten().try_for_each(Groups::end)?;
                state.former.clear();
                (state.is_replaying, state.is_complete) = (false, true);
            }
            Update::Table { number, name } => world.set_table(number, name, &self.vrfs),
            Update::Link { link, up, name } => self.link(state, link, Link { name: name.to_owned(), up }),
            Update::Object { id, object } => {
                if let Err(why) = world.define(id, object) {
                    refused.add(|| why);
                    return Ok(());
                }
                state.dropped.remove(&id);
                self.refresh(state, id);
            }
            Update::DropObject { id } => {
                self.flush(state)?;
                self.drop_object(state, id);
                state.pace.hasten();
            }
            Update::Route { table, prefix: Destination::V4(prefix), id } => {
                match (&self.four, world.table(table)) {
                    (Some(side), Ok(table)) => side.route(world, four, refused, (table, prefix), id),
                    (None, _) => refused.add(|| format!("no IPv4 table takes the route {prefix}")),
                    (_, Err(why)) => refused.add(|| why),
                }
            }
            Update::Route { table, prefix: Destination::V6(prefix), id } => {
                match (&self.six, world.table(table)) {
                    (Some(side), Ok(table)) => side.route(world, six, refused, (table, prefix), id),
                    (None, _) => refused.add(|| format!("no IPv6 table takes the route {prefix}")),
                    (_, Err(why)) => refused.add(|| why),
                }
            }
            Update::Route { prefix: Destination::Label(label), id, .. } => match &self.mpls {
                Some(mpls) => mpls.label(world, labels, refused, label, id),
                None => refused.add(|| format!("no label table takes the label {label}")),
            },
            Update::Tree { table, group, tree } => {
                let n = usize::from(group.is_six());
                match (&self.groups[n], world.table(table)) {
                    (Some(to), Ok(table)) if table == 0 || to.forwarding.has_tables() => {
                        groups[n].set(table, group, tree, refused);
                    }
                    (Some(_), Ok(_)) | (None, _) => {
                        refused.add(|| format!("no multicast table takes {group}"))
                    }
                    (_, Err(why)) => refused.add(|| why),
                }
            }
            Update::DropTree { table, group } => {
                let n = usize::from(group.is_six());
                let table = world.table(table).ok().filter(|_| self.groups[n].is_some());
                table.into_iter().for_each(|table| groups[n].remove(table, group));
            }
            Update::Watch { is_six, is_watched } => {
                let n = usize::from(is_six);
                self.groups[n].iter().for_each(|to| to.watch(&mut groups[n], is_watched));
            }
            Update::Withdraw { prefix: Destination::Label(label), .. } => {
                labels.pending.extend(self.mpls.is_some().then_some((label, None)));
            }
            Update::Withdraw { table, prefix: Destination::V4(prefix) } => {
                let table = world.table(table).ok().filter(|_| self.four.is_some());
                table.into_iter().for_each(|table| four.put(((table, prefix), None)));
                state.pace.hasten();
            }
            Update::Withdraw { table, prefix: Destination::V6(prefix) } => {
                let table = world.table(table).ok().filter(|_| self.six.is_some());
                table.into_iter().for_each(|table| six.put(((table, prefix), None)));
                state.pace.hasten();
            }
        }
        Ok(())
    }

    fn link(&self, state: &mut State, number: u16, link: Link) {
        match state.world.set_link(number, link) {
            Ok(ids) => {
                ids.into_iter().for_each(|id| self.refresh(state, id));
                state.groups.iter_mut().for_each(|half| half.link_changed(number));
            }
            Err(why) => state.refused.add(|| why),
        }
    }

    /// Brings an object up to date in both families.
    fn refresh(&self, state: &mut State, id: u32) {
        let State { world, four, six, labels, refused, .. } = state;
        self.four.iter().for_each(|side| side.refresh(world, four, refused, id));
        self.six.iter().for_each(|side| side.refresh(world, six, refused, id));
        self.mpls.iter().for_each(|mpls| mpls.refresh(world, labels, refused, id));
    }

    fn drop_object(&self, state: &mut State, id: u32) {
        let State { world, four, six, labels, refused, .. } = state;
        let done = self.four.iter().try_for_each(|side| side.drop_object(four, id));
        let done = done.and_then(|()| self.six.iter().try_for_each(|side| side.drop_object(six, id)));
        let done = done.and_then(|()| self.mpls.iter().try_for_each(|mpls| mpls.drop_object(labels, id)));
        match done {
            Ok(()) => world.forget(id),
            Err(why) => {
                refused.add(|| why);
                state.dropped.insert(id);
            }
        }
    }

    /// Makes the changes that have been gathered.
    fn flush(&self, state: &mut State) -> Result<(), String> {
        let State { world, four, six, labels, groups, refused, .. } = state;
        self.four.iter().try_for_each(|side| side.flush(four, refused))?;
        self.six.iter().try_for_each(|side| side.flush(six, refused))?;
        for (to, half) in self.groups().zip(groups) {
            to.into_iter().try_for_each(|to| to.flush(half, world, refused))?;
        }
        self.mpls.iter().try_for_each(|mpls| mpls.flush(labels))
    }
}

/// Changes that tables have refused.
fn outstanding(state: &State) -> u32 {
    (state.four.outstanding.len() + state.six.outstanding.len()) as u32
}

/// Answers a control plane. The numbers of another one are its own; the old routes forward until its replay ends.
fn greet(state: &mut State, feed: u64, sequence: u64) -> Reply {
    let held = if state.is_complete { state.feed } else { 0 };
    let welcome = Reply::Welcome { feed: held, sequence: state.sequence };
    state.is_complete &= state.feed == feed && state.sequence == sequence;
    (state.feed, state.sequence) = (feed, sequence);
    welcome
}

/// A batch must follow the one before, of a control plane that has introduced itself.
fn check_order(state: &State, sequence: u64) -> Result<(), String> {
    match state.sequence.checked_add(1) {
        _ if state.feed == 0 => Err("the router has other tables now".into()),
        Some(next) if next == sequence => Ok(()),
        _ => Err(format!("batch {sequence} came after batch {}", state.sequence)),
    }
}

/// An adjacency's index in the form of a gateway.
fn as_address<F: Family>(index: u32) -> F::Addr {
    let four = F::address(Ipv4Addr::from_bits(index).into());
    four.or_else(|| F::address(Ipv6Addr::from_bits(index.into()).into()))
        .expect("an address of either family")
}

#[cfg(test)]
mod tests;
