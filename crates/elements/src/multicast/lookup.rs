// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multicast lookup, whatever the family.
//!
//! Each packet goes one way: copies leave by our outputs, or the kernel has the packet and makes all copies. So nothing arrives twice,
//! though the kernel has the same entries.

use std::marker::PhantomData;
use std::sync::Arc;

use engine::args::Args;
use engine::clock::{Nanos, SECOND};
use engine::stats::{self, Stat};
use engine::{Cx, Element, Handler, HandlerError, LockUse, OpenCx, Provided, Reason, Tasks, When, swap};
use packet::{Batch, Packet, anno};
use sync::lock::How;
use sync::rcu;
use tables::multicast::Key;

use super::by_hand::Scope;
use super::trees::{Branch, Entry, MulticastForwarding};
use crate::shared_limit::SharedLimit;
use crate::tools::Anno;

pub(super) const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("nentries"),
    Handler::read("lookup"),
    Handler::write("set"),
    Handler::write("remove"),
];

/// Entries unless told otherwise.
const CAPACITY: usize = 1 << 14;
/// Seconds between two packets of an entry for the kernel, unless told otherwise.
const PERIOD: Nanos = 10 * SECOND;
/// Packets for the kernel a second, unless told otherwise.
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
    Copy(&'a Entry, u8, u8),
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

impl Settings {
    /// Whether the kernel may have one more packet.
    fn allows(&self, now: Nanos) -> bool {
        self.kernel.is_some() && self.limit.as_ref().is_none_or(|limit| limit.allows(now))
    }

    fn judge<'a>(
        &self,
        shared: &'a MulticastForwarding,
        reader: &'a rcu::Reader,
        now: Nanos,
        header: Header,
        packet: &Packet,
    ) -> Verdict<'a> {
        let (source, group, ttl) = match header {
            Header::Data { source, group, ttl } => (source, group, ttl),
            Header::Local => return Verdict::Send(self.local, Reason::BadDestination),
            Header::Options if self.kernel.is_none() => return Verdict::Send(None, Reason::BadOption),
            Header::Options => {
                let has_room = self.options.as_ref().is_none_or(|limit| limit.allows(now));
                let allowed = self.kernel.filter(|_| has_room);
                return Verdict::Send(allowed, Reason::PuntRateLimited);
            }
            Header::Bad(why) => return Verdict::Send(None, why),
        };
        let table = self.vrf.map_or(0, |vrf| packet.anno_u8(vrf.0));
        let from = packet.anno_u8(anno::PAINT);
        let key = Key { table, group, source };
        let found = shared.entries.get(reader, &key).or_else(|| {
            // An entry for any source is for what comes by one of its interfaces. Others may be sources on our own networks.
            let entry = shared.entries.get(reader, &Key { source: 0, ..key })?;
            let leads = || entry.way.branches.iter().any(|branch| branch.output == u32::from(from));
            (entry.way.input == Some(from) || leads()).then_some(entry)
        });
        let Some(entry) = found else { return Verdict::Send(self.unknown, Reason::NoMulticastRoute) };
        if entry.way.input != Some(from) {
            let taken = self.unknown.filter(|_| entry.takes_wrong(now, WRONG));
            return Verdict::Send(taken, Reason::WrongInterface);
        }
        if entry.is_fed && shared.is_watched() {
            // What is due is bounded by the number of entries. No flood may keep it away, or daemons take a source for dead.
            let is_due = self.kernel.is_some() && entry.is_due(now, self.period);
            if is_due || entry.way.needs_kernel && self.allows(now) {
                entry.served(now, self.period);
                return Verdict::Send(self.kernel, Reason::NoOutput);
            }
        }
        Verdict::Copy(entry, from, ttl)
    }
}

impl<F: Family> Lookup<F> {
    fn shared(&self) -> &MulticastForwarding {
        self.shared.as_ref().expect("configured before use")
    }

    fn scope(&self) -> Scope {
        let shared = self.shared();
        Scope { is_six: F::IS_SIX, noutputs: shared.noutputs(), has_tables: shared.has_tables() }
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

    /// Sends a copy of a packet to each branch, and the packet itself to the last.
    fn copy<F: Family>(&mut self, entry: &Entry, from: u8, ttl: u8, mut packet: Packet) {
        let takes = |branch: &&Branch| branch.output != u32::from(from) && ttl > branch.ttl && ttl > 1;
        let count = entry.way.branches.iter().filter(takes).count();
        if count == 0 {
            let others = entry.way.branches.iter().any(|branch| branch.output != u32::from(from));
            let why = if others { Reason::TtlThreshold } else { Reason::NoReceivers };
            return self.dropped.push((why, packet));
        }
        F::age(&mut packet);
        self.made += count - 1;
        let mut branches = entry.way.branches.iter().filter(takes);
        for branch in branches.by_ref().take(count - 1) {
            match packet.second() {
                Some(copy) => self.put(branch.output, copy),
                None => self.missing += 1,
            }
        }
        let last = branches.next().expect("counted above").output;
        self.put(last, packet);
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

    fn share(&self) -> Option<Box<dyn Element>> {
        let (shared, settings) = (self.shared.clone(), self.settings.clone());
        Some(Box::new(Lookup::<F> { shared, settings, ..Lookup::default() }))
    }

    fn locks(&self) -> Vec<LockUse> {
        let why = "changes of entries are made one after the other; lookups read without it";
        vec![LockUse::new(How::Adaptive, "the entries", When::Control, why)]
    }

    fn provide(&self) -> Option<Provided> {
        self.shared.clone().map(|shared| shared as Provided)
    }

    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let same = |old: &mut Self| {
            self.shared.as_ref().zip(old.shared.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        };
        swap::same::<Self>(old).is_some_and(same)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now = cx.now();
        let Lookup { shared: Some(shared), settings, leaving, .. } = self else { return };
        leaving.parts.resize_with(cx.noutputs(), Batch::new);
        for packet in batch.drain(..) {
            match settings.judge(shared, cx.rcu(), now, F::read(&packet), &packet) {
                Verdict::Send(Some(output), _) => leaving.put(output, packet),
                Verdict::Send(None, why) => leaving.dropped.push((why, packet)),
                Verdict::Copy(entry, from, ttl) => leaving.copy::<F>(entry, from, ttl, packet),
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

    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some((entries, bytes)) = self.shared().size() {
            put(&stats::TABLE_ENTRIES, entries as u64);
            put(&stats::TABLE_MEMORY, bytes as u64);
        }
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        let scope = self.scope();
        match name {
            "nentries" => Ok(self.shared().with(|trees| trees.len().to_string())),
            "lookup" => {
                let (key, _) = scope.read_key(param).map_err(HandlerError::Failed)?;
                let keys = [key, Key { source: 0, ..key }];
                let found = self
                    .shared()
                    .with(|trees| keys.into_iter().find_map(|key| Some((key, trees.get(&key)?))));
                let none = || HandlerError::Failed(format!("there is no entry for '{}'", param.trim()));
                let (key, (way, is_fed)) = found.ok_or_else(none)?;
                Ok(scope.show(&key, &way, is_fed))
            }
            _ => {
                let all = self.shared().with(|trees| trees.all());
                let lines = all.iter().map(|(key, (way, is_fed))| scope.show(key, way, *is_fed) + "\n");
                Ok(lines.collect())
            }
        }
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let scope = self.scope();
        let done = match name {
            "set" => scope.read(value).map(|(key, way)| (key, Some(way))),
            _ => scope.read_key(value).map(|(key, _)| (key, None)),
        };
        let done = done.and_then(|(key, way)| self.shared().with(|trees| trees.set(key, way)));
        done.map_err(HandlerError::Failed)
    }
}
