// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes on besides lookups and learning: the tick, the sweep, flushes, entries set by hand, and lists.
//!
//! All of it is behind one lock, which no frame ever asks for.

use std::collections::{BTreeMap, VecDeque};

use sync::rcu::Stamp;

use super::layout::{self, AGE_BITS, PAYLOAD};
use super::{
    AGEING_TICKS, AcqRel, Acquire, BucketPlace, Config, Entry, Fdb, FdbKey, Found, Mac, Relaxed, Release,
    STATIC, UNKNOWN,
};

/// The whole table is swept in so many ticks: entries die at an age of 128, and their tick means something else at 256.
const SWEEP_TICKS: u64 = 64;
/// Ticks that the clock may go on before the sweep must have followed.
const STEP_TICKS: u64 = 16;
/// How many ticks the sweep may be behind: where frames are too few to sweep with each of them.
const BEHIND_TICKS: u64 = 32;
/// Buckets that are swept at a time with a batch of frames, which waits for it.
const SLICE: u64 = 16;

/// What the lock guards.
#[derive(Debug)]
pub(super) struct Upkeep {
    free_handles: Vec<u32>,
    free_fids: Vec<u16>,
    dying: VecDeque<Dying>,
    /// Of each table number, its VLAN; of those that are none's, nothing.
    vlans: Vec<Option<u16>>,
    /// Of each port, the handle of its entries set by hand, or 0.
    statics: Vec<u32>,
    /// Entries set by hand, and their ports.
    set: BTreeMap<(u16, Mac), usize>,
    /// The configured ageing time, and the one in use.
    ageing_ns: u64,
    tick_ns: u64,
    /// Age in ticks that an entry may have, now and when all that was too old at the last change has gone.
    limit: u32,
    next_limit: u32,
    /// Ticks passed, and when the count was right.
    tick: u64,
    base: (u64, u64),
    /// Where the sweep goes on, how many buckets it has visited in all, and how many more it should have by now.
    cursor: usize,
    swept: u64,
    owed: u64,
}

/// A handle or a table number on its way back.
#[derive(Clone, Copy, Debug)]
struct Dying {
    what: What,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Handle(u32),
    Fid(u16),
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Somebody may still learn under it.
    Learned(Stamp),
    /// It may still stand in the table, until the sweep has come so far.
    Stands(u64),
    /// Somebody may still hold what he read.
    Read(Stamp),
}

impl Upkeep {
    pub(super) fn new(config: &Config, handles: usize, fids: usize) -> Upkeep {
        let mut vlans = vec![None; fids];
        vlans[0] = Some(0);
        Upkeep {
            free_handles: (1..handles as u32).rev().collect(),
            free_fids: (1..fids as u16).rev().collect(),
            dying: VecDeque::new(),
            vlans,
            statics: vec![0; config.ports],
            set: BTreeMap::new(),
            ageing_ns: config.ageing_ns,
            tick_ns: ticks_of(config.ageing_ns),
            limit: limit_of(config.ageing_ns, ticks_of(config.ageing_ns)),
            next_limit: limit_of(config.ageing_ns, ticks_of(config.ageing_ns)),
            tick: 0,
            base: (0, 0),
            cursor: 0,
            swept: 0,
            owed: 0,
        }
    }

    fn tick_at(&self, now_ns: u64) -> u64 {
        let (base_ns, base_tick) = self.base;
        base_tick + now_ns.saturating_sub(base_ns) / self.tick_ns
    }
}

fn ticks_of(ageing_ns: u64) -> u64 {
    ageing_ns.div_ceil(AGEING_TICKS).max(1)
}

/// How old an entry may be.
fn limit_of(ageing_ns: u64, tick_ns: u64) -> u32 {
    ageing_ns.div_ceil(tick_ns).min(AGEING_TICKS) as u32
}

impl Fdb {
    fn up(&self) -> impl std::ops::DerefMut<Target = Upkeep> + '_ {
        self.upkeep.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Moves on to `now_ns`: before the table is listed, for instance.
    pub fn advance(&self, now_ns: u64) {
        self.advance_in(&mut self.up(), now_ns, u64::MAX);
    }

    /// The same, unless somebody else is about it, and with a little of the sweep only.
    #[cold]
    pub(super) fn try_advance(&self, now_ns: u64) {
        if let Ok(mut up) = self.upkeep.try_lock() {
            self.advance_in(&mut up, now_ns, SLICE);
        }
    }

    /// Moves on to `now_ns` and sweeps up to `most` buckets, or more if that is overdue.
    fn advance_in(&self, up: &mut Upkeep, now_ns: u64, most: u64) {
        let (before, target) = (up.tick, up.tick_at(now_ns));
        if target.saturating_sub(up.tick) > AGEING_TICKS {
            // All that was learned is too old. That takes effect at once for a table of any size; the places are swept as time goes on.
            up.tick = target;
            for port in 0..self.common.current.len() {
                self.flush_in(up, port);
            }
        }
        let buckets = self.buckets.len() as u64;
        while up.tick < target {
            let step = STEP_TICKS.min(target - up.tick);
            up.tick += step;
            if up.limit != up.next_limit {
                // What was too old before these ticks is so after them.
                let limit = up.next_limit.min(up.limit + step as u32);
                self.limit_to(up, limit);
            }
            self.common.tick.store(up.tick as u32, Relaxed);
            up.owed += (buckets * step).div_ceil(SWEEP_TICKS);
            self.sweep_owed(up, up.owed.saturating_sub(buckets * BEHIND_TICKS / SWEEP_TICKS));
        }
        self.common.tick.store(up.tick as u32, Relaxed);
        self.sweep_owed(up, most);
        if up.tick != before || up.owed == 0 {
            self.retire(up);
            self.recount();
        }
        let (base_ns, base_tick) = up.base;
        let next_ns = base_ns.saturating_add((up.tick - base_tick + 1).saturating_mul(up.tick_ns));
        // What is owed is spread over the tick.
        let slices = up.owed.div_ceil(SLICE) + 1;
        let due_ns = now_ns.saturating_add(next_ns.saturating_sub(now_ns) / slices);
        self.common.due_ns.store(if slices > 1 { due_ns } else { next_ns }, Relaxed);
    }

    /// Sweeps up to `most` of the buckets that are owed.
    fn sweep_owed(&self, up: &mut Upkeep, most: u64) {
        let count = up.owed.min(most);
        up.owed -= count;
        self.sweep(up, count as usize);
    }

    /// When the present tick began.
    pub fn present_ns(&self) -> u64 {
        let up = self.up();
        let (base_ns, base_tick) = up.base;
        base_ns + (up.tick - base_tick) * up.tick_ns
    }

    /// How long a tick is.
    pub fn tick_ns(&self) -> u64 {
        self.up().tick_ns
    }

    /// For how long stations are remembered.
    pub fn ageing_ns(&self) -> u64 {
        self.up().ageing_ns
    }

    /// Frees places of the next `count` buckets whose entries count for nothing.
    fn sweep(&self, up: &mut Upkeep, count: usize) {
        let by_fid = up.dying.iter().any(|dying| matches!(dying.what, What::Fid(_)));
        for _ in 0..count.min(self.buckets.len()) {
            let bucket = up.cursor;
            up.cursor = (bucket + 1) % self.buckets.len();
            up.swept += 1;
            for word in &self.buckets[bucket].0 {
                let old = word.load(Relaxed);
                if old == 0 {
                    continue;
                }
                let payload = (old & PAYLOAD) as u32;
                let gone = self.port_at(Found(payload), up.tick as u32) == UNKNOWN
                    || by_fid
                        && up.vlans[usize::from(layout::fid(self.layout.key(bucket as u32, old)))].is_none();
                if gone {
                    self.empty(bucket as u32, word, old);
                }
            }
        }
    }

    /// Lets what is dying go a stage on.
    fn retire(&self, up: &mut Upkeep) {
        let (swept, round) = (up.swept, self.buckets.len() as u64);
        for _ in 0..up.dying.len() {
            let Some(mut dying) = up.dying.pop_front() else { break };
            dying.stage = match dying.stage {
                Stage::Learned(stamp) if self.domain.is_over(stamp) => Stage::Stands(swept + round),
                Stage::Stands(until) if swept >= until || self.stands_nowhere(dying.what) => {
                    Stage::Read(self.domain.stamp())
                }
                Stage::Read(stamp) if self.domain.is_over(stamp) => {
                    match dying.what {
                        What::Handle(handle) => up.free_handles.push(handle),
                        What::Fid(fid) => up.free_fids.push(fid),
                    }
                    continue;
                }
                stage => stage,
            };
            up.dying.push_back(dying);
        }
    }

    fn stands_nowhere(&self, what: What) -> bool {
        matches!(what, What::Handle(handle) if self.counts.of[handle as usize].load(Relaxed) == 0)
    }

    /// Counts the places taken under handles in use anew.
    fn recount(&self) {
        let in_use = self.common.handles.iter().zip(&self.counts.of);
        let live = in_use.filter(|(handle, _)| handle.load(Relaxed) as u16 != UNKNOWN);
        self.counts.live.store(live.map(|(_, count)| count.load(Relaxed)).sum(), Relaxed);
    }

    /// Gives each port a handle, unless nothing is learned.
    pub(super) fn open_ports(&self) {
        let mut up = self.up();
        if up.ageing_ns == 0 {
            return;
        }
        for port in 0..self.common.current.len() {
            if self.common.current[port].load(Relaxed) == 0 {
                self.renew(&mut up, port);
            }
        }
    }

    /// Gives a port another handle; false if there is none.
    fn renew(&self, up: &mut Upkeep, port: usize) -> bool {
        let Some(handle) = self.take_handle(up) else { return false };
        self.common.handles[handle as usize].store(port as u32 | up.limit << 16, Relaxed);
        let old = self.common.current[port].swap(handle, AcqRel);
        self.bury(up, old);
        true
    }

    /// From now on nothing is found under this handle.
    fn bury(&self, up: &mut Upkeep, handle: u32) {
        if handle != 0 {
            self.common.handles[handle as usize].store(u32::from(UNKNOWN), Release);
            up.dying
                .push_back(Dying { what: What::Handle(handle), stage: Stage::Learned(self.domain.stamp()) });
        }
    }

    fn take_handle(&self, up: &mut Upkeep) -> Option<u32> {
        if up.free_handles.is_empty() {
            self.hurry(up);
        }
        up.free_handles.pop()
    }

    /// Gets back what it can: flushes came faster than the sweep.
    fn hurry(&self, up: &mut Upkeep) {
        self.retire(up);
        self.sweep(up, self.buckets.len());
        self.retire(up);
        self.retire(up);
    }

    /// Forgets the stations learned behind `port`.
    pub fn flush_port(&self, port: usize) {
        let mut up = self.up();
        self.flush_in(&mut up, port);
        self.recount();
    }

    /// Forgets all stations that were learned, but those behind `spared`.
    pub fn flush_all(&self, spared: Option<usize>) {
        let mut up = self.up();
        for port in (0..self.common.current.len()).filter(|port| Some(*port) != spared) {
            self.flush_in(&mut up, port);
        }
        self.recount();
    }

    fn flush_in(&self, up: &mut Upkeep, port: usize) {
        let Some(current) = self.common.current.get(port) else { return };
        let handle = current.load(Acquire);
        if handle == 0 || self.counts.of[handle as usize].load(Relaxed) == 0 {
            return;
        }
        if !self.renew(up, port) {
            // All handles are dying: somebody flushes faster than workers' rounds end. So one by one.
            self.clear(|_, _, word| (word & PAYLOAD) >> AGE_BITS == u64::from(handle));
        }
    }

    /// Forgets the stations learned in `vlan`, if it has a table of its own.
    pub fn flush_vlan(&self, vlan: u16) {
        if self.config.vlans == 0 {
            return self.flush_all(None);
        }
        let mut up = self.up();
        let Some(salt) = self.common.salts.get(usize::from(vlan)) else { return };
        let old = layout::fid(salt.load(Relaxed));
        if up.free_fids.is_empty() {
            self.hurry(&mut up);
        }
        match up.free_fids.pop() {
            Some(fid) if old != 0 => {
                up.vlans[usize::from(fid)] = Some(vlan);
                up.vlans[usize::from(old)] = None;
                salt.store(layout::salt(fid), Release);
                let stage = Stage::Learned(self.domain.stamp());
                up.dying.push_back(Dying { what: What::Fid(old), stage });
                let set: Vec<_> = up.set.range((vlan, [0; 6])..=(vlan, [0xff; 6])).collect();
                for ((vlan, mac), port) in set {
                    self.put(FdbKey::of(*mac, self.salt(*vlan)), up.statics[*port] << AGE_BITS);
                }
            }
            fid => {
                up.free_fids.extend(fid);
                if old != 0 || vlan == 0 {
                    let of = |fdb: &Fdb, bucket, word| layout::fid(fdb.layout.key(bucket, word)) == old;
                    self.clear(|fdb, bucket, word| {
                        of(fdb, bucket, word & !PAYLOAD) && fdb.handle((word & PAYLOAD) as u32) & STATIC == 0
                    });
                }
            }
        }
        self.recount();
    }

    /// Gives a VLAN a table of its own. Stations in VLANs without one stand in a common one.
    pub fn add_vlan(&self, vlan: u16) {
        let mut up = self.up();
        let Some(salt) = self.common.salts.get(usize::from(vlan)) else { return };
        if self.config.vlans > 0
            && salt.load(Relaxed) == 0
            && let Some(fid) = up.free_fids.pop()
        {
            up.vlans[usize::from(fid)] = Some(vlan);
            salt.store(layout::salt(fid), Release);
        }
    }

    /// Empties the places that `which` picks, by bucket and word.
    fn clear(&self, which: impl Fn(&Fdb, u32, u64) -> bool) {
        for (bucket, line) in self.buckets.iter().enumerate() {
            for word in &line.0 {
                let old = word.load(Relaxed);
                if old != 0 && which(self, bucket as u32, old) {
                    self.empty(bucket as u32, word, old);
                }
            }
        }
    }

    /// Changes for how long stations are remembered; 0 ends learning and forgets all that was learned. No entry is touched, so it takes as
    /// long as there are ports. What is too old stays so, though it may stand there still: a limit that grows does so by a tick with each.
    ///
    /// Between a 32nd and all of the time that was last divided into ticks, the division stays. Else ticks are longer or shorter from
    /// now on, and ages in ticks are what they were. A station that is known is then remembered for a time between the former and the
    /// new one. From now on it is remembered no longer than the new one.
    pub fn set_ageing_ns(&self, ageing_ns: u64, now_ns: u64) {
        let mut up = self.up();
        self.advance_in(&mut up, now_ns, SLICE);
        let was = std::mem::replace(&mut up.ageing_ns, ageing_ns);
        if ageing_ns == 0 {
            for current in &self.common.current {
                let old = current.swap(0, AcqRel);
                self.bury(&mut up, old);
            }
            self.recount();
            return;
        }
        if was == 0 || !(AGEING_TICKS / 32..=AGEING_TICKS).contains(&ageing_ns.div_ceil(up.tick_ns)) {
            up.tick_ns = ticks_of(ageing_ns);
            up.base = (now_ns, up.tick);
        }
        up.next_limit = limit_of(ageing_ns, up.tick_ns);
        // Nobody is there whose age would matter, or nobody too old comes back.
        if was == 0 || up.next_limit < up.limit {
            let limit = up.next_limit;
            self.limit_to(&mut up, limit);
        }
        self.common.due_ns.store(0, Relaxed);
        drop(up);
        self.open_ports();
    }

    /// Lets entries get so old.
    fn limit_to(&self, up: &mut Upkeep, limit: u32) {
        up.limit = limit;
        for handle in &self.common.handles {
            let word = handle.load(Relaxed);
            if word as u16 != UNKNOWN && word & STATIC == 0 {
                handle.store(word & 0xffff | limit << 16, Relaxed);
            }
        }
    }

    /// Sets an entry that stays until it is removed, regardless of frames. False if there is no room, or no such port.
    pub fn insert_static(&self, mac: Mac, vlan: u16, port: usize) -> bool {
        let mut up = self.up();
        let Some(handle) = up.statics.get(port).copied() else { return false };
        let handle = match handle {
            0 => match self.take_handle(&mut up) {
                Some(handle) => handle,
                None => return false,
            },
            handle => handle,
        };
        up.statics[port] = handle;
        self.common.handles[handle as usize].store(port as u32 | 0xff << 16 | STATIC, Release);
        let entered = self.put(FdbKey::of(mac, self.salt(vlan)), handle << AGE_BITS);
        if entered {
            up.set.insert((vlan, mac), port);
        }
        entered
    }

    /// Removes an entry, learned or set; false if there is none.
    pub fn remove(&self, mac: Mac, vlan: u16) -> bool {
        self.up().set.remove(&(vlan, mac));
        let place = self.layout.place(FdbKey::of(mac, self.salt(vlan)).0);
        self.locked(place, |fdb| {
            let counted =
                |old| fdb.port_at(Found((old & PAYLOAD) as u32), fdb.common.tick.load(Relaxed)) != UNKNOWN;
            [place, fdb.layout.other(place)].into_iter().any(|place| fdb.take_out(place).is_some_and(counted))
        })
    }

    /// Enters a key with this payload, in place of any earlier one.
    fn put(&self, key: FdbKey, payload: u32) -> bool {
        let place = self.layout.place(key.0);
        let places = [place, self.layout.other(place)];
        self.locked(place, |fdb| {
            let mut known = places.into_iter();
            if known.any(|place| fdb.swap_in(place, place.want | u64::from(payload)).is_some()) {
                fdb.come(payload);
                return true;
            }
            fdb.insert(places, payload, fdb.common.tick.load(Relaxed))
        })
    }

    /// Empties the place of the word that is wanted, if it is there.
    fn take_out(&self, place: BucketPlace) -> Option<u64> {
        loop {
            let (word, old) = self.slot(place)?;
            if self.empty(place.bucket, word, old) {
                return Some(old);
            }
        }
    }

    /// Puts `new`, of the same key, in the place of the word that is wanted, if it is there.
    fn swap_in(&self, place: BucketPlace, new: u64) -> Option<u64> {
        loop {
            let (word, old) = self.slot(place)?;
            if word.compare_exchange(old, new, AcqRel, Relaxed).is_ok() {
                self.gone((old & PAYLOAD) as u32);
                return Some(old);
            }
        }
    }

    /// Does something while no worker enters this key.
    fn locked<R>(&self, place: BucketPlace, f: impl FnOnce(&Fdb) -> R) -> R {
        let stripe = self.stripe(place);
        while stripe.swap(1, Acquire) != 0 {
            std::thread::yield_now();
        }
        let result = f(self);
        stripe.store(0, Release);
        result
    }

    /// Stations behind `port`, without those set by hand. Some of them may be too old, until the sweep comes by.
    pub fn stations(&self, port: usize) -> usize {
        let handle = self.common.current.get(port).map_or(0, |handle| handle.load(Relaxed));
        if handle == 0 { 0 } else { self.counts.of[handle as usize].load(Relaxed) as usize }
    }

    /// All stations, as [`Fdb::stations`] counts them.
    pub fn len(&self) -> usize {
        self.recount();
        self.counts.live.load(Relaxed) as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with what would be found, in no order. Looks at the whole table.
    fn each_entry(&self, up: &Upkeep, mut each: impl FnMut(u16, Mac, u32)) {
        for (bucket, line) in self.buckets.iter().enumerate() {
            for word in line.0.iter().map(|word| word.load(Relaxed)).filter(|word| *word != 0) {
                let payload = (word & PAYLOAD) as u32;
                if self.port_at(Found(payload), up.tick as u32) == UNKNOWN {
                    continue;
                }
                let key = self.layout.key(bucket as u32, word);
                if let Some(vlan) = up.vlans.get(usize::from(layout::fid(key))).copied().flatten() {
                    each(vlan, layout::mac(key), payload);
                }
            }
        }
    }

    /// All entries that would be found, by VLAN and address. Looks at the whole table.
    pub fn entries(&self) -> Vec<Entry> {
        let up = self.up();
        let mut entries = Vec::new();
        self.each_entry(&up, |vlan, mac, payload| {
            let handle = self.handle(payload);
            let is_static = handle & STATIC != 0;
            let ticks = u64::from((up.tick as u32).wrapping_sub(payload) as u8);
            let age_ns = if is_static { 0 } else { ticks * up.tick_ns };
            entries.push(Entry { vlan, mac, port: handle as u16, age_ns, is_static });
        });
        entries.sort_unstable();
        entries
    }

    /// How many entries would be found. Looks at the whole table.
    pub fn count(&self) -> usize {
        let mut count = 0;
        self.each_entry(&self.up(), |_, _, _| count += 1);
        count
    }

    /// Takes the stations that another table has learned, with their ages, as far as there are ports and VLANs for them.
    pub fn take(&self, old: &Fdb) {
        let entries = old.entries();
        let up = self.up();
        for entry in entries.into_iter().filter(|entry| !entry.is_static) {
            let handle = self.common.current.get(usize::from(entry.port)).map_or(0, |h| h.load(Relaxed));
            let ticks = entry.age_ns / up.tick_ns;
            let salt = self.salt(entry.vlan);
            let has_table = (salt != 0) == (entry.vlan != 0);
            if handle != 0 && ticks <= u64::from(up.limit) && has_table && self.len() < self.config.capacity {
                self.put(
                    FdbKey::of(entry.mac, salt),
                    handle << AGE_BITS | (up.tick.wrapping_sub(ticks) & 0xff) as u32,
                );
            }
        }
    }
}

#[cfg(not(loom))]
const _: () = assert!(AGEING_TICKS + SWEEP_TICKS + STEP_TICKS + BEHIND_TICKS < 256);
