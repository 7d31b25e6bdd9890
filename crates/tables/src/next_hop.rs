// SPDX-License-Identifier: MIT OR Apache-2.0
//! Next hops: what a route's answer means. Single ones, and weighted groups over which flows are spread.
//!
//! # Why objects of their own
//!
//! A million routes lead to a few hundred next hops. So a forwarding table's leaf holds a small number, a [`NextHopId`], and this table says what it
//! stands for. It is a hop of the caller's type `H` (gateway and output, say), or a *group*, whose members share the traffic by weight (equal-cost
//! multipath, RFC 2991). When a link fails, one group changes, and all routes that name it follow at once. Linux's nexthop objects and VPP's
//! load-balance objects have the same shape.
//!
//! # Layout
//!
//! ```text
//!  leaf of a route         View: one version of the table, replaced as a whole
//!  +----+                  +---+------------------------+
//!  |  4 |----------------> | 4 | group ---------------------> 256 buckets: | 1 | 7 | 7 | 1 | 7 | 1 | ...
//!  +----+                  +---+------------------------+                    ^ picked by 8 bits of the flow's hash
//!                          | 1 | hop 10.0.0.1, output 0 | <------------------+
//!                          | 7 | hop 10.0.9.1, output 2 |
//!                          | 2 | vacant                 |
//!                          +---+------------------------+
//! ```
//!
//! An entry is 16 bytes or the size of `H` and a tag, a group 2 bytes a bucket besides: 256 hops of 8 bytes 4 KiB, 1,000 groups of
//! 256 buckets 0.5 MB. A lookup of a single hop is one load, of a group three; the flow's hash is computed only for groups.
//!
//! # Resilient hashing
//!
//! `hash modulo members` would move most flows whenever a member comes or goes (RFC 2992 counts them). Instead each group has a fixed number of
//! *buckets*, each naming a member; a flow belongs to a bucket for good. The shares of `n` buckets are apportioned by Webster's divisor method.
//! Divisor methods are coherent and house-monotone (Balinski and Young, *Fair Representation*, 1982). When a member leaves, no other member's share
//! shrinks, so only its own buckets change hands. When one joins, no other's grows, so what moves is what the new one is due. Shares are exact to
//! about half a bucket each: with 256 buckets and up to 10 equal members within 2.4 %.
//!
//! A group may contain groups. Each level takes other bits of the hash, and the seed of a table differs from that of the
//! next router's, so that routers in a row do not all split traffic alike (polarization).
//!
//! # References
//!
//! Equal hops get one id ([`intern`](NextHops::intern)), and so do equal groups; each call counts a reference, which
//! [`release`](NextHops::release) gives back. An id that no route names is used again for another hop, but only after a
//! grace period: a reader may have it in hand from a leaf it read before the route went.
//!
//! # Trade-offs
//!
//! * A change becomes visible by [`publish`](NextHops::publish), which copies all entries: below 1 µs for tens, 100 µs for ten
//!   thousand. Changes of routes, which are frequent, need none unless they name a hop not known yet.
//! * A member due less than half a bucket gets no flows: take more buckets for very unequal weights.
//! * Buckets move at once when a member joins. (Linux can wait until a bucket is idle; that needs a time per bucket
//!   written on every packet.)
//!
//! # Invariants
//!
//! 1. A published view contains no loop: every chain of groups ends at a hop.
//! 2. An id found in a table that was read before the view means in that view what it meant when the route was
//!    inserted, or what the group was changed to since.
//! 3. A failed change changes nothing.
//!
//! # Ordering argument
//!
//! The caller (a) publishes a view that has an id before it inserts the first route with it, and (b) releases an id after it
//! has removed the route. A reader looks a route up, *then* reads the view.
//!
//! 1. *It finds the id.* The route's leaf was stored with Release after the view was published; the reader's Acquire load of
//!    the leaf makes that view, or a later one, visible. Model: `an_id_means_what_its_route_meant`.
//! 2. *It does not find another hop under it.* [`release`](NextHops::release) stamps the grace period after the removal (b), and the id is
//!    given away only when it is over. A reader that still had the old leaf has then been quiescent; one that looks after that
//!    sees the leaf gone (`sync::rcu` case 1). Until then the entry stays. Same model.
//! 3. *Within a group.* Members are referenced by their group until its own grace period is over, and a
//!    view is immutable: buckets and members read through one view belong together.

mod share;

use share::Buckets;
use std::collections::{HashMap, HashSet, VecDeque};
use std::{fmt, hash::Hash, sync::Arc};
use sync::rcu::{self, Domain, Stamp};

/// The number of a next hop or of a group of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// The answer where no route matches.
    pub const NONE: Self = Self(u32::MAX);
    /// The greatest id a route may have: fifteen bits, less one for "no route".
    pub const MAX: Self = Self((1 << 15) - 2);
}

impl fmt::Display for NextHopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A member of a group and its weight.
pub type Member = (NextHopId, u32);

/// Buckets of a group by default.
pub const DEFAULT_BUCKETS: usize = 256;
/// The most buckets a group can have.
pub const MAX_BUCKETS: usize = 1 << 14;

/// Why a change was refused. The table is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum NextHopError {
    /// No hop or group has this id.
    #[error("unknown next hop {id}")]
    Unknown {
        /// The id given.
        id: NextHopId,
    },
    /// A hop was given where a group is needed.
    #[error("next hop {id} is not a group")]
    NotAGroup {
        /// The id given.
        id: NextHopId,
    },
    /// A group has to have a member of positive weight.
    #[error("a group of nothing: it needs at least one next hop with a weight above 0")]
    EmptyGroup,
    /// Members beyond the number of buckets would get no traffic.
    #[error("{members} next hops are too many for a group of {buckets} buckets")]
    TooManyMembers {
        /// Members given.
        members: usize,
        /// Buckets the group has.
        buckets: usize,
    },
    /// The bucket count is no power of two or out of range.
    #[error("a group cannot have {buckets} buckets: take a power of two up to {MAX_BUCKETS}")]
    BucketCount {
        /// The count given.
        buckets: usize,
    },
    /// The group would contain itself.
    #[error("next-hop loop: group {group} would contain itself by way of {member}")]
    Loop {
        /// The group to be changed.
        group: NextHopId,
        /// The member that leads back to it.
        member: NextHopId,
    },
    /// All ids are in use.
    #[error(
        "the table of next hops is full: {used} of {capacity} ids are in use, {waiting} more wait for readers"
    )]
    Full {
        /// Ids with references.
        used: usize,
        /// Ids there are.
        capacity: usize,
        /// Ids without references that readers may still hold.
        waiting: usize,
    },
    /// Old versions wait for readers that announce no quiescent state.
    #[error("the next hops cannot be published: {why}")]
    Stalled {
        /// Who holds them up.
        why: String,
    },
}

/// What an id stands for, to a reader.
#[derive(Clone, Debug)]
enum Entry<H> {
    Vacant,
    Hop(H),
    /// The members' ids, one for each bucket; the length is a power of two.
    Group(Arc<[u16]>),
}

/// One version of the table, as readers see it.
#[derive(Debug)]
pub struct View<H> {
    entries: Vec<Entry<H>>,
    /// Of each entry that is a hop, the hop's own id: a group of one member is an entry like that member's.
    own: Vec<u16>,
    seed: u32,
    groups: bool,
}

impl<H> View<H> {
    /// The hop for a packet whose route says `id`. `flow_hash` is called if that is a group: 32 bits, equal for all packets of
    /// a flow; it is mixed here, so it need not be a good hash.
    ///
    /// `None` for [`NextHopId::NONE`] and for ids without a meaning.
    #[inline(always)]
    pub fn resolve(&self, id: NextHopId, flow_hash: impl FnOnce() -> u32) -> Option<&H> {
        match self.entries.get(id.0 as usize)? {
            Entry::Hop(hop) => Some(hop),
            Entry::Group(buckets) => self.select(buckets, flow_hash()).map(|(_, hop)| hop),
            Entry::Vacant => None,
        }
    }

    /// The id of the hop that [`resolve`](Self::resolve) finds, through any group. See [`NextHops::keep_ids`].
    pub fn resolve_id(&self, id: NextHopId, flow_hash: impl FnOnce() -> u32) -> Option<NextHopId> {
        let at = match self.entries.get(id.0 as usize)? {
            Entry::Hop(_) => id.0 as usize,
            Entry::Group(buckets) => self.select(buckets, flow_hash())?.0,
            Entry::Vacant => return None,
        };
        Some(NextHopId(self.own[at].into()))
    }

    /// The hop that `id` itself stands for; `None` if it stands for a group, or for nothing.
    #[inline]
    pub fn single(&self, id: NextHopId) -> Option<&H> {
        match self.entries.get(id.0 as usize)? {
            Entry::Hop(hop) => Some(hop),
            Entry::Group(_) | Entry::Vacant => None,
        }
    }

    /// Follows groups down to a hop and the id of its entry. Invariant 1 bounds the loop.
    #[inline(never)]
    fn select(&self, buckets: &[u16], flow_hash: u32) -> Option<(usize, &H)> {
        let (mut buckets, mut hash) = (buckets, finalize(flow_hash ^ self.seed));
        loop {
            let id = buckets[hash as usize & (buckets.len() - 1)];
            match &self.entries[id as usize] {
                Entry::Hop(hop) => return Some((id.into(), hop)),
                Entry::Group(inner) => {
                    buckets = inner;
                    hash = finalize(hash.wrapping_add(0x9e37_79b9));
                }
                Entry::Vacant => return None,
            }
        }
    }

    /// Whether `test` holds for the hop that `id` means, or for one of those of the group that it means.
    pub fn any(&self, id: NextHopId, test: &mut impl FnMut(&H) -> bool) -> bool {
        match self.entries.get(id.0 as usize) {
            Some(Entry::Hop(hop)) => test(hop),
            // Invariant 1 bounds the depth.
            Some(Entry::Group(buckets)) => buckets.iter().any(|id| self.any(NextHopId((*id).into()), test)),
            Some(Entry::Vacant) | None => false,
        }
    }

    /// Whether any id stands for a group, so that flow hashes may be asked for.
    #[inline]
    pub fn has_groups(&self) -> bool {
        self.groups
    }
}

/// Makes every input bit reach every output bit (the finalizer of MurmurHash3, A. Appleby, public domain).
#[inline]
const fn finalize(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Reads the current view. Cheap to clone; one for each worker.
#[derive(Debug)]
pub struct NextHopReader<H: Send + Sync + 'static> {
    current: Arc<rcu::Cell<View<H>>>,
}

impl<H: Send + Sync + 'static> Clone for NextHopReader<H> {
    fn clone(&self) -> Self {
        Self { current: self.current.clone() }
    }
}

impl<H: Send + Sync + 'static> NextHopReader<H> {
    /// The current version. Read it after looking routes up, not before.
    ///
    /// # Panics
    /// When `reader` belongs to another RCU domain than the table.
    #[inline]
    pub fn read<'a>(&'a self, reader: &'a rcu::Reader) -> &'a View<H> {
        self.current.read(reader)
    }
}

/// What the control side knows of an id.
#[derive(Debug)]
struct Object<H> {
    kind: Kind<H>,
    references: u32,
    /// Grows each time the references end, so that an id taken up again is not freed by its former end.
    ends: u32,
}

#[derive(Debug)]
enum Kind<H> {
    Vacant,
    Hop(H),
    Group(Group),
}

#[derive(Debug)]
struct Group {
    /// Sorted, without repetition, weights above 0.
    members: Vec<Member>,
    buckets: Buckets,
    /// Whether equal groups may share it; a group changed in place belongs to its maker alone.
    interned: bool,
}

/// Changes the table. There is one for each; lookups go on undisturbed.
///
/// ```
/// use junctor_tables::next_hop::NextHops;
/// let domain = sync::rcu::Domain::default();
/// let mut hops = NextHops::new(&domain, 100);
/// let (a, b) = (hops.intern("eth0")?, hops.intern("eth1")?);
/// let both = hops.intern_group(&[(a, 1), (b, 3)], None)?;
/// hops.publish()?;
///
/// let reader = domain.register("worker 0");
/// let view = hops.reader();
/// let view = view.read(&reader);
/// assert_eq!(view.resolve(a, || unreachable!("no group")), Some(&"eth0"));
/// let to_b = (0..10_000).filter(|flow| view.resolve(both, || *flow) == Some(&"eth1")).count();
/// assert!((7_300..7_700).contains(&to_b));
/// # Ok::<(), junctor_tables::next_hop::NextHopError>(())
/// ```
#[derive(Debug)]
pub struct NextHops<H: Send + Sync + 'static> {
    domain: Domain,
    current: Arc<rcu::Cell<View<H>>>,
    capacity: usize,
    seed: u32,
    objects: Vec<Object<H>>,
    by_hop: HashMap<H, NextHopId>,
    by_members: HashMap<Vec<Member>, NextHopId>,
    /// Hops that lead nowhere at present.
    down: HashSet<H>,
    free: Vec<NextHopId>,
    /// Ids without references, with the value of `ends` they then had.
    waiting: VecDeque<(Stamp, NextHopId, u32)>,
    /// So many ids are taken from those that no hop has had.
    fresh: usize,
    /// An id has got another meaning since that was said.
    has_reused: bool,
    /// The view lacks something.
    dirty: bool,
}

impl<H: Clone + Eq + Hash + Send + Sync + 'static> NextHops<H> {
    /// An empty table of up to `capacity` ids, at most [`NextHopId::MAX`] and one.
    pub fn new(domain: &Domain, capacity: usize) -> Self {
        Self::with_seed(domain, capacity, 0)
    }

    /// As [`new`](Self::new); `seed` makes this table spread flows otherwise than the next router's.
    pub fn with_seed(domain: &Domain, capacity: usize, seed: u32) -> Self {
        let view = View { entries: Vec::new(), own: Vec::new(), seed, groups: false };
        Self {
            domain: domain.clone(),
            current: Arc::new(rcu::Cell::new(domain, view)),
            capacity: capacity.min(NextHopId::MAX.0 as usize + 1),
            seed,
            objects: Vec::new(),
            by_hop: HashMap::new(),
            by_members: HashMap::new(),
            down: HashSet::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            fresh: 0,
            has_reused: false,
            dirty: false,
        }
    }

    /// A handle for lookups.
    pub fn reader(&self) -> NextHopReader<H> {
        NextHopReader { current: self.current.clone() }
    }

    /// The id of `hop`, with one reference more. [`publish`](Self::publish) before routes name it.
    ///
    /// # Errors
    /// [`NextHopError::Full`].
    pub fn intern(&mut self, hop: H) -> Result<NextHopId, NextHopError> {
        if let Some(id) = self.by_hop.get(&hop).copied() {
            self.object_mut(id).references += 1;
            return Ok(id);
        }
        let id = self.take_id()?;
        self.by_hop.insert(hop.clone(), id);
        self.put(id, Kind::Hop(hop));
        Ok(id)
    }

    /// The id of a group of these members in any order, with one reference more. Members given twice add their weights;
    /// those of weight 0 are left out. The group references its members.
    ///
    /// A group not known yet is laid out so that as few flows as possible move from where group `like` sends them.
    ///
    /// # Errors
    /// [`NextHopError::Unknown`], [`EmptyGroup`](NextHopError::EmptyGroup),
    /// [`TooManyMembers`](NextHopError::TooManyMembers), [`Full`](NextHopError::Full).
    pub fn intern_group(
        &mut self,
        members: &[Member],
        like: Option<NextHopId>,
    ) -> Result<NextHopId, NextHopError> {
        let members = normal(members);
        if let Some(id) = self.by_members.get(&members).copied() {
            self.object_mut(id).references += 1;
            return Ok(id);
        }
        let model = like.and_then(|id| self.group(id).ok()).map(|group| group.buckets.clone());
        let id = self.add_group(&members, model.unwrap_or_else(|| Buckets::new(DEFAULT_BUCKETS)), true)?;
        self.by_members.insert(members, id);
        Ok(id)
    }

    /// A group of its own, to be changed in place by [`set_group`](Self::set_group), with one reference.
    ///
    /// # Errors
    /// As [`intern_group`](Self::intern_group), and [`NextHopError::BucketCount`].
    pub fn new_group(&mut self, members: &[Member], buckets: usize) -> Result<NextHopId, NextHopError> {
        if !buckets.is_power_of_two() || buckets > MAX_BUCKETS {
            return Err(NextHopError::BucketCount { buckets });
        }
        self.add_group(&normal(members), Buckets::new(buckets), false)
    }

    /// Gives a group other members. Only flows of members that left, and a fair share for those that joined, move.
    /// A group that [`intern_group`](Self::intern_group) made is no longer found there.
    ///
    /// # Errors
    /// As [`intern_group`](Self::intern_group); [`NextHopError::NotAGroup`], [`NextHopError::Loop`].
    pub fn set_group(&mut self, id: NextHopId, members: &[Member]) -> Result<(), NextHopError> {
        let members = normal(members);
        self.group(id)?;
        self.check(&members, self.group(id)?.buckets.len())?;
        if let Some((member, _)) = members.iter().find(|(member, _)| self.contains(*member, id)) {
            return Err(NextHopError::Loop { group: id, member: *member });
        }
        members.iter().for_each(|(member, _)| self.object_mut(*member).references += 1);
        let live = self.live(&members);
        let Kind::Group(group) = &mut self.objects[id.0 as usize].kind else {
            unreachable!("looked at above")
        };
        group.buckets.assign(&live);
        let interned = std::mem::replace(&mut group.interned, false);
        let old = std::mem::replace(&mut group.members, members);
        if interned {
            self.by_members.remove(&old);
        }
        old.iter().for_each(|(member, _)| self.release(*member));
        self.dirty = true;
        Ok(())
    }

    /// Takes a member out of every group that has it and keeps another; returns how many groups changed. What to do when
    /// a link or neighbour fails. Groups with no other member stay as they are.
    pub fn withdraw(&mut self, member: NextHopId) -> usize {
        let ids: Vec<NextHopId> = (0..self.objects.len() as u32).map(NextHopId).collect();
        let mut changed = 0;
        for id in ids {
            let Ok(group) = self.group(id) else { continue };
            if !group.members.iter().any(|(m, _)| *m == member) {
                continue;
            }
            let rest: Vec<Member> = group.members.iter().copied().filter(|(m, _)| *m != member).collect();
            changed += usize::from(self.set_group(id, &rest).is_ok());
        }
        changed
    }

    /// Says which hops lead nowhere at present, known or not. Groups give such members no flows while they have others, and the
    /// members stay: when a hop is back, its flows return. Only flows of hops that go or return move.
    pub fn set_down(&mut self, down: &HashSet<H>) {
        if self.down == *down {
            return;
        }
        let changed: HashSet<NextHopId> =
            self.down.symmetric_difference(down).filter_map(|hop| self.by_hop.get(hop).copied()).collect();
        self.down.clone_from(down);
        for at in 0..self.objects.len() {
            let Kind::Group(group) = &self.objects[at].kind else { continue };
            if !group.members.iter().any(|(member, _)| changed.contains(member)) {
                continue;
            }
            let live = self.live(&group.members);
            if let Kind::Group(group) = &mut self.objects[at].kind {
                group.buckets.assign(&live);
                self.dirty = true;
            }
        }
    }

    /// The members that lead somewhere; all if none does.
    fn live(&self, members: &[Member]) -> Vec<Member> {
        let is_live = |id: NextHopId| self.get(id).is_none_or(|hop| !self.down.contains(hop));
        let live: Vec<Member> = match self.down.is_empty() {
            true => Vec::new(),
            false => members.iter().copied().filter(|(id, _)| is_live(*id)).collect(),
        };
        if live.is_empty() { members.to_vec() } else { live }
    }

    /// Counts one more reference to a hop or group that is in use.
    ///
    /// # Errors
    /// [`NextHopError::Unknown`].
    pub fn retain(&mut self, id: NextHopId) -> Result<(), NextHopError> {
        self.check(&[(id, 1)], 1)?;
        self.object_mut(id).references += 1;
        Ok(())
    }

    /// Gives one reference back. Call it after the route that had it is out of the table; when it was the last, the id is
    /// used again after a grace period.
    ///
    /// # Panics
    /// When `id` has no reference.
    pub fn release(&mut self, id: NextHopId) {
        let object = self.object_mut(id);
        object.references = object.references.checked_sub(1).expect("as many releases as references");
        if object.references == 0 {
            object.ends = object.ends.wrapping_add(1);
            let ends = object.ends;
            self.waiting.push_back((self.domain.stamp(), id, ends));
        }
    }

    /// Shows readers all changes so far. Without changes it does nothing.
    ///
    /// # Errors
    /// [`NextHopError::Stalled`]: readers keep the former version; the next call shows these changes too.
    pub fn publish(&mut self) -> Result<(), NextHopError> {
        if !self.dirty {
            return Ok(());
        }
        let (entries, own): (Vec<Entry<H>>, Vec<u16>) =
            (0..self.objects.len()).map(|at| self.entry(at)).unzip();
        let groups = entries.iter().any(|entry| matches!(entry, Entry::Group(_)));
        let bytes = entries.len() * (size_of::<Entry<H>>() + size_of::<u16>());
        self.current
            .publish_sized(View { entries, own, seed: self.seed, groups }, bytes)
            .map_err(|stalled| NextHopError::Stalled { why: stalled.to_string() })?;
        self.dirty = false;
        Ok(())
    }

    /// The hop with this id; `None` for groups.
    pub fn get(&self, id: NextHopId) -> Option<&H> {
        match &self.objects.get(id.0 as usize)?.kind {
            Kind::Hop(hop) => Some(hop),
            _ => None,
        }
    }

    /// The id of a hop that is in use.
    pub fn find(&self, hop: &H) -> Option<NextHopId> {
        self.by_hop.get(hop).copied().filter(|id| self.objects[id.0 as usize].references > 0)
    }

    /// The members of this group, by id; `None` for hops.
    pub fn members(&self, id: NextHopId) -> Option<&[Member]> {
        self.group(id).ok().map(|group| &*group.members)
    }

    /// The hops that a hop or group leads to, by id.
    pub fn leaves(&self, id: NextHopId) -> Vec<NextHopId> {
        let (mut pending, mut leaves) = (vec![id], Vec::new());
        // Invariant 1: there is an end.
        while let Some(id) = pending.pop() {
            match self.members(id) {
                Some(members) => pending.extend(members.iter().map(|(member, _)| *member)),
                None if leaves.contains(&id) => {}
                None => leaves.push(id),
            }
        }
        leaves.sort_unstable();
        leaves
    }

    /// How many buckets each of [`members`](Self::members) has.
    pub fn shares(&self, id: NextHopId) -> Option<Vec<Member>> {
        let group = self.group(id).ok()?;
        let count = |id| group.buckets.ids().iter().filter(|owner| u32::from(**owner) == id).count() as u32;
        Some(group.members.iter().map(|(member, _)| (*member, count(member.0))).collect())
    }

    /// Gives the next `count` hops and groups ids that none has had, so that ids which somebody counts by keep their meaning, and hops
    /// without references stay known. 0 ends that.
    pub fn keep_ids(&mut self, count: usize) {
        (self.fresh, self.has_reused) = (count, false);
    }

    /// Whether no id has got another meaning since [`keep_ids`](Self::keep_ids).
    pub fn keeps_ids(&self) -> bool {
        !self.has_reused
    }

    /// References to this id.
    pub fn references(&self, id: NextHopId) -> u32 {
        self.objects.get(id.0 as usize).map_or(0, |object| object.references)
    }

    /// Ids with references.
    pub fn len(&self) -> usize {
        self.objects.iter().filter(|object| object.references > 0).count()
    }

    /// Whether nothing is referenced.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What readers see of an object, and whose entry that is. A group of one member is that member, so it costs readers no more.
    fn entry(&self, at: usize) -> (Entry<H>, u16) {
        // Ids have fifteen bits.
        let own = at as u16;
        match &self.objects[at].kind {
            Kind::Vacant => (Entry::Vacant, own),
            Kind::Hop(hop) => (Entry::Hop(hop.clone()), own),
            Kind::Group(group) => match &group.members[..] {
                [(member, _)] => self.entry(member.0 as usize),
                _ => (Entry::Group(group.buckets.shared()), own),
            },
        }
    }

    fn object_mut(&mut self, id: NextHopId) -> &mut Object<H> {
        &mut self.objects[id.0 as usize]
    }

    fn group(&self, id: NextHopId) -> Result<&Group, NextHopError> {
        match self.objects.get(id.0 as usize).map(|object| &object.kind) {
            Some(Kind::Group(group)) => Ok(group),
            Some(Kind::Hop(_)) => Err(NextHopError::NotAGroup { id }),
            _ => Err(NextHopError::Unknown { id }),
        }
    }

    fn add_group(
        &mut self,
        members: &[Member],
        mut buckets: Buckets,
        interned: bool,
    ) -> Result<NextHopId, NextHopError> {
        self.check(members, buckets.len())?;
        members.iter().for_each(|(member, _)| self.object_mut(*member).references += 1);
        let id = self.take_id().inspect_err(|_| {
            // Not `release`: the references were never anybody's.
            members.iter().for_each(|(member, _)| self.objects[member.0 as usize].references -= 1);
        })?;
        buckets.assign(&self.live(members));
        self.put(id, Kind::Group(Group { members: members.to_vec(), buckets, interned }));
        Ok(id)
    }

    /// Whether a group of `members` can be.
    fn check(&self, members: &[Member], buckets: usize) -> Result<(), NextHopError> {
        let known =
            |id: NextHopId| self.objects.get(id.0 as usize).is_some_and(|object| object.references > 0);
        if let Some((id, _)) = members.iter().find(|(id, _)| !known(*id)) {
            return Err(NextHopError::Unknown { id: *id });
        }
        match members.len() {
            0 => Err(NextHopError::EmptyGroup),
            count if count > buckets => Err(NextHopError::TooManyMembers { members: count, buckets }),
            _ => Ok(()),
        }
    }

    /// Whether `id` is `group` or leads to it.
    fn contains(&self, id: NextHopId, group: NextHopId) -> bool {
        let mut pending = vec![id];
        let mut seen = vec![false; self.objects.len()];
        while let Some(id) = pending.pop() {
            if id == group {
                return true;
            }
            if !std::mem::replace(&mut seen[id.0 as usize], true) {
                pending.extend(self.members(id).into_iter().flatten().map(|(member, _)| *member));
            }
        }
        false
    }

    fn put(&mut self, id: NextHopId, kind: Kind<H>) {
        let object = self.object_mut(id);
        (object.kind, object.references) = (kind, 1);
        self.dirty = true;
    }

    /// An id that no reader can hold.
    fn take_id(&mut self) -> Result<NextHopId, NextHopError> {
        if self.fresh > 0 && self.objects.len() < self.capacity {
            self.fresh -= 1;
        } else {
            if self.free.is_empty() {
                self.collect();
            }
            if let Some(id) = self.free.pop() {
                self.has_reused = true;
                return Ok(id);
            }
        }
        if self.objects.len() == self.capacity {
            let used = self.len();
            return Err(NextHopError::Full { used, capacity: self.capacity, waiting: self.capacity - used });
        }
        self.objects.push(Object { kind: Kind::Vacant, references: 0, ends: 0 });
        Ok(NextHopId(self.objects.len() as u32 - 1))
    }

    /// Frees the ids whose grace period is over, unless they have been taken up again.
    fn collect(&mut self) {
        while let Some((stamp, id, ends)) = self.waiting.front().copied()
            && self.domain.is_over(stamp)
        {
            self.waiting.pop_front();
            let object = self.object_mut(id);
            if object.references > 0 || object.ends != ends {
                continue;
            }
            match std::mem::replace(&mut object.kind, Kind::Vacant) {
                Kind::Vacant => unreachable!("freed twice"),
                Kind::Hop(hop) => drop(self.by_hop.remove(&hop)),
                Kind::Group(group) => {
                    if group.interned {
                        self.by_members.remove(&group.members);
                    }
                    group.members.iter().for_each(|(member, _)| self.release(*member));
                }
            }
            self.free.push(id);
            self.dirty = true;
        }
    }
}

/// Members in order, each once.
fn normal(members: &[Member]) -> Vec<Member> {
    let mut members: Vec<Member> = members.iter().copied().filter(|(_, weight)| *weight > 0).collect();
    members.sort_unstable();
    members.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
    members
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
