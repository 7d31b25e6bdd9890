// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multicast lookup of both families.
//!
//! Each output gets a packet from one side: copies leave by our outputs, or the kernel has the packet and makes all copies. So nothing arrives
//! twice, though the kernel has the same entries. Outputs that the kernel's entry lacks get our copies always.

use std::marker::PhantomData;
use std::sync::Arc;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, LockUse, Locking, OpenCx, Provide, Provided, Reason,
    Rehearsal, Rehearsed, SharedState, Statistics, Tasks, When, handlers, swap,
};
use packet::{Batch, Packet, anno};
use sync::lock::How;
use sync::rcu;
use tables::multicast::MulticastKey;

use super::by_hand::Scope;
use super::trees::{Branch, Entry, MulticastForwarding, MulticastRoute};
use crate::shared_limit::SharedLimit;
use crate::tools::Anno;

/// Entries by default.
const CAPACITY: usize = 1 << 14;
/// Default time between two packets of an entry for the kernel.
const PERIOD: Nanos = 10 * SECOND;
/// Packets for the kernel a second by default.
const RATE: u64 = 1000;
/// Time between two packets of an entry from wrong interfaces. Linux reports no more than one in three seconds.
const WRONG: Nanos = SECOND;

/// What a packet's header says.
pub(super) enum Header {
    /// Data from a source to a group.
    Data {
        source: u128,
        group: u128,
        ttl: u8,
    },
    /// A message for the router itself.
    Local,
    /// It has options, which only the kernel minds.
    Options,
    Bad(Reason),
}

/// What differs between IPv4 and IPv6.
pub(super) trait Family: Send + 'static {
    const IS_SIX: bool;

    fn read(packet: &Packet) -> Header;
    /// Takes one from the TTL, which is more than one.
    fn age(packet: &mut Packet);
}

/// What is to become of a packet.
enum Verdict<'a> {
    Send(Option<u32>, Reason),
    /// Copies leave by an entry's branches.
    Copy(&'a Entry, u8, u8),
    /// The kernel has the packet. Copies leave where it sends none.
    Share(&'a Entry, u8, u8, u32),
}

#[derive(Clone)]
struct Settings {
    local: Option<u32>,
    unknown: Option<u32>,
    kernel: Option<u32>,
    vrf: Option<Anno<1>>,
    period: Nanos,
    limit: Option<Arc<SharedLimit>>,
    /// The same for packets with options.
    options: Option<Arc<SharedLimit>>,
}

/// An instance for one worker.
pub(super) struct Lookup<F> {
    shared: Option<Arc<MulticastForwarding>>,
    settings: Settings,
    leaving: Leaving,
    family: PhantomData<F>,
}

/// What becomes of the packets of a batch.
#[derive(Default)]
struct Leaving {
    parts: Vec<Batch>,
    /// Outputs with packets, in the order of their first one.
    order: Vec<usize>,
    dropped: Vec<(Reason, Packet)>,
    /// Copies that were to be made.
    made: usize,
    /// Those for which there was no memory.
    missing: u64,
}

impl<F> Default for Lookup<F> {
    fn default() -> Self {
        let settings = Settings {
            local: None,
            unknown: None,
            kernel: None,
            vrf: None,
            period: PERIOD,
            limit: None,
            options: None,
        };
        Lookup { shared: None, settings, leaving: Leaving::default(), family: PhantomData }
    }
}

/// The time, but for a packet that is only tried: it finds every limit unused, and it is never its turn to go to the kernel.
type Clock = Option<Nanos>;

fn allows(limit: &Option<Arc<SharedLimit>>, clock: Clock) -> bool {
    let (Some(limit), Some(now)) = (limit, clock) else { return true };
    limit.allows(now)
}

impl Settings {
    /// The entry for a packet that came by the interface of this paint.
    #[inline]
    fn find<'a>(
        &self,
        shared: &'a MulticastForwarding,
        reader: &'a rcu::Reader,
        packet: &Packet,
        (source, group): (u128, u128),
    ) -> Option<(MulticastKey, &'a Entry)> {
        let key = MulticastKey { table: self.vrf.map_or(0, |vrf| packet.anno_u8(vrf.0)), group, source };
        if let Some(entry) = shared.entries.get(reader, &key) {
            return Some((key, entry));
        }
        // An entry for any source is for what comes by one of its interfaces. Others may be sources on our own networks.
        let (key, from) = (MulticastKey { source: 0, ..key }, packet.anno_u8(anno::PAINT));
        let entry = shared.entries.get(reader, &key)?;
        let leads = || entry.way.branches.iter().any(|branch| branch.output == u32::from(from));
        (entry.way.input == Some(from) || leads()).then_some((key, entry))
    }

    fn judge<'a>(
        &self,
        shared: &'a MulticastForwarding,
        reader: &'a rcu::Reader,
        clock: Clock,
        header: Header,
        packet: &Packet,
    ) -> Verdict<'a> {
        let (source, group, ttl) = match header {
            Header::Data { source, group, ttl } => (source, group, ttl),
            Header::Local => return Verdict::Send(self.local, Reason::BadDestination),
            Header::Options if self.kernel.is_none() => return Verdict::Send(None, Reason::BadOption),
            Header::Options => {
                let allowed = self.kernel.filter(|_| allows(&self.options, clock));
                return Verdict::Send(allowed, Reason::PuntRateLimited);
            }
            Header::Bad(why) => return Verdict::Send(None, why),
        };
        let from = packet.anno_u8(anno::PAINT);
        let Some((_, entry)) = self.find(shared, reader, packet, (source, group)) else {
            return Verdict::Send(self.unknown, Reason::NoMulticastRoute);
        };
        if entry.way.input != Some(from) {
            let takes = || clock.is_none_or(|now| entry.takes_wrong(now, WRONG));
            let taken = self.unknown.filter(|_| takes());
            return Verdict::Send(taken, Reason::WrongInterface);
        }
        if entry.is_fed && shared.is_watched() {
            // What is due is bounded by the number of entries. No flood may keep it away, or daemons take a source for dead.
            let is_due = || clock.is_some_and(|now| entry.is_due(now, self.period));
            let is_asked = || is_due() || entry.way.needs_kernel && allows(&self.limit, clock);
            if let Some(kernel) = self.kernel.filter(|_| is_asked()) {
                clock.iter().for_each(|now| entry.served(*now, self.period));
                return Verdict::Share(entry, from, ttl, kernel);
            }
        }
        Verdict::Copy(entry, from, ttl)
    }
}

impl<F: Family> Lookup<F> {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .rehearsal::<Self>()
            .locking::<Self>()
            .shared_state::<Self>()
            .hot_swap::<Self>()
    }

    fn shared(&self) -> &MulticastForwarding {
        self.shared.as_ref().expect("configured before use")
    }

    fn scope(&self) -> Scope {
        let shared = self.shared();
        Scope { is_six: F::IS_SIX, noutputs: shared.noutputs(), has_tables: shared.has_tables() }
    }

    fn send(&mut self, cx: &mut Cx<'_>, clock: Clock, mut batch: Batch) {
        let Lookup { shared: Some(shared), settings, leaving, .. } = self else { return };
        leaving.parts.resize_with(cx.noutputs(), Batch::new);
        for packet in batch.drain(..) {
            match settings.judge(shared, cx.rcu(), clock, F::read(&packet), &packet) {
                Verdict::Send(Some(output), _) => leaving.put(output, packet),
                Verdict::Send(None, why) => leaving.dropped.push((why, packet)),
                Verdict::Copy(entry, from, ttl) => leaving.copy::<F>(entry, from, ttl, packet),
                Verdict::Share(entry, from, ttl, kernel) => {
                    leaving.share::<F>(entry, from, ttl, packet, kernel);
                }
            }
        }
        cx.made(std::mem::take(&mut leaving.made));
        match std::mem::take(&mut leaving.missing) {
            0 => {}
            missing => cx.count_drops(Reason::NoMemory, missing),
        }
        for (why, packet) in leaving.dropped.drain(..) {
            cx.drop(why, packet);
        }
        for output in leaving.order.drain(..) {
            cx.push(output, std::mem::take(&mut leaving.parts[output]));
        }
    }
}

impl Leaving {
    fn put(&mut self, output: u32, packet: Packet) {
        let output = output as usize;
        if self.parts[output].is_empty() {
            self.order.push(output);
        }
        self.parts[output].push(packet);
    }

    /// Sends a packet by the branches of its entry.
    fn copy<F: Family>(&mut self, entry: &Entry, from: u8, ttl: u8, packet: Packet) {
        let leads = |branch: &&Branch| branch.output != u32::from(from);
        let takes = |branch: &&Branch| leads(branch) && branch.lets_pass(ttl);
        if entry.way.branches.iter().any(|branch| takes(&branch)) {
            return self.spread::<F>(entry.way.branches.iter().filter(takes), packet);
        }
        let others = entry.way.branches.iter().any(|branch| leads(&branch));
        self.dropped.push((if others { Reason::TtlThreshold } else { Reason::NoReceivers }, packet));
    }

    /// Sends a packet to the kernel, and by the branches that the kernel's entry lacks.
    fn share<F: Family>(&mut self, entry: &Entry, from: u8, ttl: u8, mut packet: Packet, kernel: u32) {
        let takes =
            |branch: &&Branch| branch.is_kept && branch.output != u32::from(from) && branch.lets_pass(ttl);
        if entry.way.branches.iter().any(|branch| takes(&branch)) {
            self.made += 1;
            match packet.second() {
                Some(copy) => self.spread::<F>(entry.way.branches.iter().filter(takes), copy),
                None => self.missing += 1,
            }
        }
        // It has its link header still, which the kernel gets.
        self.put(kernel, packet);
    }

    /// Sends a copy of a packet to each of these branches, of which there are some, and the packet itself to the last.
    fn spread<'a, F: Family>(&mut self, branches: impl Iterator<Item = &'a Branch>, mut packet: Packet) {
        F::age(&mut packet);
        let mut branches = branches.peekable();
        while let Some(branch) = branches.next() {
            if branches.peek().is_none() {
                return self.put(branch.output, packet);
            }
            self.made += 1;
            match packet.second() {
                Some(copy) => self.put(branch.output, copy),
                None => self.missing += 1,
            }
        }
    }
}

impl<F: Family> Lookup<F> {
    pub(super) const HANDLERS: &[Handler] = handlers! { Lookup<F>:
        read "table" => |lookup| lookup.table();
        read "nentries" => |lookup| lookup.shared().with(|trees| trees.len());
        read "lookup" => |lookup, key: &str| lookup.find(key)?;
        write "set" => |lookup, entry: &str| lookup.set(lookup.scope().read(entry).map(|(key, way)| (key, Some(way))))?;
        write "remove" => |lookup, key: &str| lookup.set(lookup.scope().read_key(key).map(|(key, _)| (key, None)))?;
    };

    fn table(&self) -> String {
        let (scope, all) = (self.scope(), self.shared().with(|trees| trees.all()));
        all.iter().map(|(key, (way, is_fed))| scope.show(key, way, *is_fed) + "\n").collect()
    }

    fn find(&self, text: &str) -> Result<String, HandlerError> {
        let scope = self.scope();
        let (key, _) = scope.read_key(text).map_err(HandlerError::Failed)?;
        let keys = [key, MulticastKey { source: 0, ..key }];
        let found =
            self.shared().with(|trees| keys.into_iter().find_map(|key| Some((key, trees.get(&key)?))));
        let none = || HandlerError::Failed(format!("there is no entry for '{}'", text.trim()));
        let (key, (way, is_fed)) = found.ok_or_else(none)?;
        Ok(scope.show(&key, &way, is_fed))
    }

    fn set(
        &self,
        change: Result<(MulticastKey, Option<MulticastRoute>), String>,
    ) -> Result<(), HandlerError> {
        let done = change.and_then(|(key, way)| self.shared().with(|trees| trees.set(key, way)));
        done.map_err(HandlerError::Failed)
    }
}

impl<F: Family> Element for Lookup<F> {
    fn configure(&mut self, args: &mut Args<'_>) {
        let outputs = args.noutputs;
        let [local, unknown, kernel] = ["LOCAL", "UNKNOWN", "KERNEL"].map(|name| {
            let output: Option<u32> = args.keyword_opt(name);
            if let Some(output) = output.filter(|output| *output as usize >= outputs) {
                args.error(format!(
                    "{name}: there is no output {output} (outputs 0 to {} are connected)",
                    outputs.saturating_sub(1)
                ));
            }
            output
        });
        let vrf: Option<Anno<1>> = args.keyword_opt("VRF_ANNO");
        let rate = args.keyword("RATE", RATE);
        let period = args.keyword("PERIOD", std::time::Duration::from_nanos(PERIOD));
        let new = || (rate > 0).then(|| Arc::new(SharedLimit::new(rate, (rate / 10).max(1))));
        let (limit, options) = (new(), new());
        let period = u64::try_from(period.as_nanos()).unwrap_or(Nanos::MAX).max(1);
        self.settings = Settings { local, unknown, kernel, vrf, period, limit, options };
        let capacity = args.keyword_in("CAPACITY", CAPACITY, 1..=1 << 20);
        let shared = MulticastForwarding::new(&args.rcu, outputs, capacity, vrf.is_some(), F::IS_SIX);
        self.shared = Some(Arc::new(shared));
        let scope = self.scope();
        for text in args.rest() {
            let set = |(key, way)| self.shared().with(|trees| trees.set(key, Some(way)));
            if let Err(why) = scope.read(&text).and_then(set) {
                args.error(why);
            }
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // The same text as before the swap: what handlers and daemons have made of it stays.
        if let Some(live) = cx.predecessor::<MulticastForwarding>().filter(|_| cx.inherits())
            && live.can_replace(self.shared())
        {
            self.shared = Some(live);
        }
        Ok(Tasks::None)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let now = cx.now();
        self.send(cx, Some(now), batch);
    }
}

impl<F: Family> Provide for Lookup<F> {
    fn provide(&self) -> Option<Provided> {
        self.shared.clone().map(|shared| shared as Provided)
    }
}

impl<F: Family> Statistics for Lookup<F> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some((entries, bytes)) = self.shared().size() {
            put(&stats::TABLE_ENTRIES, entries as u64);
            put(&stats::TABLE_MEMORY, bytes as u64);
        }
    }
}

impl<F: Family> Rehearsal for Lookup<F> {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        let scope = self.scope();
        let found = match (F::read(&packet), &self.shared) {
            (Header::Data { source, group, .. }, Some(shared)) => {
                let found = self.settings.find(shared, cx.rcu(), &packet, (source, group));
                found.map(|(key, entry)| scope.show(&key, &entry.way, entry.is_fed))
            }
            _ => None,
        };
        self.send(cx, None, Batch::of(packet));
        found.map_or(Rehearsed::Done, |entry| Rehearsed::Noted(format!("multicast entry {entry}")))
    }
}

impl<F: Family> Locking for Lookup<F> {
    fn locks(&self) -> Vec<LockUse> {
        let why = "changes of entries are made one after the other; lookups read without it";
        vec![LockUse::new(How::Adaptive, "the entries", When::Control, why)]
    }
}

impl<F: Family> SharedState for Lookup<F> {
    fn share(&self) -> Option<Box<dyn Element>> {
        let (shared, settings) = (self.shared.clone(), self.settings.clone());
        Some(Box::new(Lookup::<F> { shared, settings, ..Lookup::default() }))
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
