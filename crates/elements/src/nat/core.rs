// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all rewriters have in common: arguments, mappings, the way of a packet, handlers. A [`Family`] says what differs.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::Arc;

use sync::lock::{AdaptiveGuard, AdaptiveLock, How};

use element::args::{Args, FromArg, Names, Raw};
use element::clock::Nanos;
use element::stats::{self, Stat};
use element::{
    Access, Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers,
    OwnHandlers, Provide, Provided, Reason, Rehearsal, Rehearsed, Rest, Statistics, When, handlers,
    parse_integer, swap,
};
use packet::{Batch, Packet};
use tables::flow::{Direction, Flow, FlowId, FlowKey};
use wire::tcp::Flags;

use super::SECOND;
use super::kind::{FlowKind, TCP, UDP};
use super::listing::{self, Listing};
use super::mappings::{MAPPINGS, Mapping, Mappings, Shared, Timing, lock};
use super::spec::{Asker, Capacity, Directory, Handle, Maker, Rule, Spec};
use crate::tools::{Anno, Runs, time_ns};
use nat::stream::{self, Stream};

const DEFAULT_CAPACITY: usize = 65536;
const MAX_CAPACITY: usize = 1 << 24;

/// How rewriters of different classes differ.
pub(super) trait Family: Send + 'static {
    /// What they go by.
    const KIND: FlowKind;

    /// Reads timeouts.
    fn configure(&mut self, args: &mut Args<'_>);

    /// The flow of a packet that can be rewritten, and whether such a packet may begin one.
    fn flow(&self, packet: &Packet) -> Option<(FlowKey, bool)>;

    /// How long a mapping lasts after the packet that was noted last.
    fn timing(&self, proto: u8, mapping: &Mapping) -> Timing;

    /// Notes what a packet says about the state of its connection.
    fn note(&self, _mapping: &mut Mapping, _side: usize, _proto: u8, _flags: u8, _packet: &Packet) {}
}

/// TIMEOUT and GUARANTEE alone, for rewriters whose mappings know no states.
pub(super) fn plain_timing(args: &mut Args<'_>, idle_s: u64) -> Timing {
    Timing {
        idle_ns: time_ns(args, "TIMEOUT", idle_s * SECOND),
        guarantee_ns: time_ns(args, "GUARANTEE", 5 * SECOND),
    }
}

/// A rewriter.
pub(super) struct Rewriter<F> {
    family: F,
    specs: Vec<Spec>,
    /// The specifications as they were given.
    texts: Vec<String>,
    rules: Vec<Arc<Rule>>,
    /// By input: mappings that could not be made.
    failures: Vec<Cell<u64>>,
    handle: Arc<Handle>,
    mappings: Shared,
    zone: u16,
    directory: Directory,
    names: Names,
    dst_anno: bool,
    reply_anno: Option<usize>,
}

impl<F: Family> Rewriter<F> {
    /// Declares what elements of this type can do besides processing packets.
    pub const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .long_handlers::<Self>()
            .own_handlers::<Self>()
            .rehearsal::<Self>()
            .locking::<Self>()
            .hot_swap::<Self>()
    }

    /// Handlers of all rewriters.
    pub const HANDLERS: &[Handler] = handlers! { Rewriter<F>:
        read "table" => |rewriter, cx| rewriter.list(None, cx.now());
        read "mappings" => |rewriter, cx| rewriter.list(None, cx.now());
        read "nmappings" => |rewriter, cx| rewriter.mappings(cx.now()).count_all(rewriter.zone);
        read "table_size" => |rewriter, cx| rewriter.mappings(cx.now()).count_all(rewriter.zone);
        read "size" => |rewriter, cx| rewriter.mappings(cx.now()).table().len();
        read "mapping_failures" => |rewriter| rewriter.failures.iter().map(Cell::get).sum::<u64>();
        read "patterns" => |rewriter, cx| rewriter.patterns(cx.now());
        both "capacity" => |rewriter| lock(&rewriter.mappings).table().capacity(),
            |rewriter, text: &str| rewriter.set_capacity(text)?;
        write "clear" => |rewriter| lock(&rewriter.mappings).clear();
    };

    /// The mappings that have not expired.
    fn mappings(&self, now: Nanos) -> AdaptiveGuard<'_, Mappings> {
        let mut all = lock(&self.mappings);
        all.expire(now);
        all
    }

    /// Lists mappings, of all protocols or of one.
    pub fn list(&self, proto: Option<u8>, now: Nanos) -> String {
        Listing { kind: F::KIND, zone: self.zone, proto, now }.text(&self.mappings(now))
    }

    /// What a flow of this protocol, given as a handler's parameter, becomes.
    ///
    /// # Errors
    /// It is no flow.
    pub fn look_up(&self, proto: u8, text: &str, now: Nanos) -> Result<String, HandlerError> {
        self.lookup(&self.mappings(now), proto, text)
    }

    fn patterns(&self, now: Nanos) -> String {
        let all = self.mappings(now);
        (0..self.rules.len()).map(|input| self.pattern(&all, input)).collect()
    }

    pub fn new(family: F) -> Rewriter<F> {
        Rewriter {
            family,
            specs: Vec::new(),
            texts: Vec::new(),
            rules: Vec::new(),
            failures: Vec::new(),
            handle: Arc::new(Handle::new(F::KIND, 0, Capacity::Number(0), Timing::default(), 0)),
            mappings: Arc::new(AdaptiveLock::new(Mappings::new(0))),
            zone: 0,
            directory: Directory::default(),
            names: Names::default(),
            dst_anno: true,
            reply_anno: None,
        }
    }

    /// Finds or makes the packet's mapping, rewrites it, and says where it goes.
    #[inline]
    fn rewrite(
        &self,
        all: &mut Mappings,
        cx: &mut Cx<'_>,
        input: usize,
        packet: &mut Packet,
        now: Nanos,
    ) -> Result<usize, Reason> {
        let Some((flow, begins)) = self.family.flow(packet) else {
            return self.unmapped(input);
        };
        let flow = FlowKey { zone: self.zone, ..flow };
        let hit =
            all.find(F::KIND, &flow, now).map(|hit| (hit.id, usize::from(hit.direction == Direction::Reply)));
        let awaited = || {
            let timing = self.family.timing(flow.proto, &Mapping::default());
            all.answer_awaited(&flow, now, timing).map(|id| (id, 1))
        };
        let (id, side) = match hit.or_else(awaited) {
            Some(hit) => hit,
            None if begins && matches!(*self.rules[input], Rule::Map(_)) => {
                (self.map(all, cx, flow, input, packet, now)?, 0)
            }
            None => return self.unmapped(input),
        };
        let found = all.table().flow(id).ok_or(Reason::NoMapping)?;
        let to = F::KIND.rewritten(&flow, &found.forward, &found.reply, side);
        let (mut mapping, forward) = (*found.value, found.forward);
        let flags = self.apply(packet, &flow, &to, (side, &mapping))?;
        if mapping.awaited && side == 1 {
            let reply = found.reply;
            mapping.awaited = false;
            all.no_longer_awaited(&reply);
        }
        if mapping.edited {
            mapping.edited = shift(all, &forward, side, flags, packet);
        }
        self.family.note(&mut mapping, side, flow.proto, flags, packet);
        all.touch(id, mapping, now, self.family.timing(flow.proto, &mapping));
        Ok(usize::from(mapping.outputs[side]))
    }

    /// The same for a packet that is only tried, without making or changing a mapping; also returns what there is to say about it.
    fn rewrite_tried(
        &self,
        all: &mut Mappings,
        cx: &mut Cx<'_>,
        input: usize,
        packet: &mut Packet,
    ) -> Result<(usize, String), Reason> {
        let unmapped = || self.unmapped(input).map(|output| (output, String::new()));
        let Some((flow, begins)) = self.family.flow(packet) else { return unmapped() };
        let flow = FlowKey { zone: self.zone, ..flow };
        let found = all.find(F::KIND, &flow, cx.now()).and_then(|hit| {
            let Flow { forward, reply, value, .. } = all.table().flow(hit.id)?;
            Some((forward, reply, *value, usize::from(hit.direction == Direction::Reply)))
        });
        let (forward, reply, mapping, side) = match (found, &*self.rules[input]) {
            (Some(found), _) => found,
            (None, Rule::Map(maker)) if begins => {
                let (forward, reply, mapping) = self.map_tried(maker, all, cx, flow, input, packet)?;
                (forward, reply, mapping, 0)
            }
            (None, _) => return unmapped(),
        };
        let to = F::KIND.rewritten(&flow, &forward, &reply, side);
        let flags = self.apply(packet, &flow, &to, (side, &mapping))?;
        if let (true, Some(streams)) = (mapping.edited, all.streams(&forward)) {
            shift_in(&mut streams.clone(), side, flags, packet);
        }
        let note = match found {
            Some(_) => String::new(),
            None => format!(
                "its flow has no mapping yet and would get {}, of what is free at the moment",
                F::KIND.text(&flow, &to, 0)
            ),
        };
        Ok((usize::from(mapping.outputs[side]), note))
    }

    /// The keys of the mapping that would be made for the first packet of a flow, and the mapping.
    fn map_tried(
        &self,
        maker: &Maker,
        all: &mut Mappings,
        cx: &mut Cx<'_>,
        flow: FlowKey,
        input: usize,
        packet: &Packet,
    ) -> Result<(FlowKey, FlowKey, Mapping), Reason> {
        let now = cx.now();
        let reply_anno = self.reply_anno.map_or(0, |at| packet.anno_u8(at));
        let timing = self.family.timing(flow.proto, &Mapping::default());
        self.handle.admits(all, flow.src)?;
        let (forward, reply, outputs) = maker.tried(all, F::KIND, flow, now, timing, cx.random())?;
        Ok((forward, reply, Mapping::new(outputs, input as u16, reply_anno)))
    }

    /// Gives the packet the addresses of the other side of its mapping, and the annotations of this one; returns TCP's flags.
    #[inline]
    fn apply(
        &self,
        packet: &mut Packet,
        flow: &FlowKey,
        to: &FlowKey,
        (side, mapping): (usize, &Mapping),
    ) -> Result<u8, Reason> {
        let flags = F::KIND.apply(packet, flow, to).ok_or(Reason::TooShort)?;
        if self.dst_anno {
            packet.set_dst_ip(to.dst.to_be_bytes());
        }
        if let (1, Some(anno)) = (side, self.reply_anno) {
            packet.set_anno_u8(anno, mapping.reply_anno);
        }
        Ok(flags)
    }

    /// Where packets without a mapping go that make none.
    fn unmapped(&self, input: usize) -> Result<usize, Reason> {
        match *self.rules[input] {
            Rule::Pass(output) => Ok(output),
            _ => Err(Reason::NoMapping),
        }
    }

    /// Makes a mapping for the first packet of a flow.
    #[cold]
    fn map(
        &self,
        all: &mut Mappings,
        cx: &mut Cx<'_>,
        flow: FlowKey,
        input: usize,
        packet: &Packet,
        now: Nanos,
    ) -> Result<FlowId, Reason> {
        let Rule::Map(maker) = &*self.rules[input] else { return Err(Reason::NoMapping) };
        let reply_anno = self.reply_anno.map_or(0, |at| packet.anno_u8(at));
        let mapping = Mapping::new([0, 0], input as u16, reply_anno);
        let timing = self.family.timing(flow.proto, &mapping);
        let admitted = self.handle.admits(all, flow.src);
        let id = admitted.and_then(|()| maker.enter(all, F::KIND, flow, mapping, now, timing, cx.random()));
        if id.is_err() {
            self.failures[input].update(|n| n + 1);
        }
        id
    }

    /// The mappings that a handler lists, if it does.
    fn listing(&self, name: &str, now: Nanos) -> Option<Listing> {
        let proto = match name {
            "mappings" | "table" => None,
            "tcp_mappings" | "tcp_table" => Some(TCP),
            "udp_mappings" | "udp_table" => Some(UDP),
            _ => return None,
        };
        Some(Listing { kind: F::KIND, zone: self.zone, proto, now })
    }

    /// An input's specification and how many mappings it has.
    fn pattern(&self, all: &Mappings, input: usize) -> String {
        let text = self.rules.get(input).map_or_else(String::new, |rule| rule.text());
        match all.count(self.zone, input) {
            0 => text + "\n",
            n => format!("{text} [{n}]\n"),
        }
    }

    fn set_capacity(&mut self, value: &str) -> Result<(), HandlerError> {
        let capacity = value.trim().parse().ok().filter(|c| *c <= MAX_CAPACITY);
        let capacity =
            capacity.ok_or_else(|| HandlerError::bad_value("capacity", value, "mappings, up to 16777216"))?;
        lock(&self.mappings).set_capacity(capacity);
        Ok(())
    }

    /// Gives an input another specification; the mappings it has made end.
    fn set_pattern(&mut self, cx: &Cx<'_>, input: usize, value: &str) -> Result<(), HandlerError> {
        let failed = |why| HandlerError::failed(format!("input spec {input}: {why}"));
        let (noutputs, kind) = (self.handle.noutputs, F::KIND);
        let spec = Spec::parse(value, &self.names, noutputs, kind).map_err(failed)?;
        let rule = self.rule(&spec, cx.router(), cx.index()).map_err(failed)?;
        lock(&self.mappings).remove_made_by(self.zone, input);
        self.rules[input] = Arc::new(rule);
        self.handle.set_rules(&self.rules);
        self.texts[input] = value.trim().to_owned();
        Ok(())
    }

    fn rule(
        &self,
        spec: &Spec,
        router: &element::Layout,
        element: element::ElementId,
    ) -> Result<Rule, String> {
        let (noutputs, mappings, zone) = (self.handle.noutputs, &self.mappings, self.zone);
        self.directory.rule(spec, &Asker { router, element, kind: F::KIND, noutputs, mappings, zone })
    }

    /// What a flow, given as the handler's parameter, becomes.
    fn lookup(&self, all: &Mappings, proto: u8, text: &str) -> Result<String, HandlerError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let ip = |word: &str| Ipv4Addr::from_arg(word, &self.names).ok().map(Ipv4Addr::to_bits);
        let port = |word: &str| parse_integer(word).and_then(|n| u16::try_from(n).ok());
        let key = match words.as_slice() {
            [src, sport, dst, dport] => (|| {
                let (src, dst, zone) = (ip(src)?, ip(dst)?, self.zone);
                Some(FlowKey { src, dst, sport: port(sport)?, dport: port(dport)?, proto, zone })
            })(),
            _ => None,
        };
        let key =
            key.ok_or_else(|| HandlerError::bad_value("tcp_lookup", text, "SADDR SPORT DADDR DPORT"))?;
        let found = all.table().lookup(&key).and_then(|hit| Some((hit, all.table().flow(hit.id)?)));
        Ok(found.map_or_else(String::new, |(hit, f)| {
            let side = usize::from(hit.direction == Direction::Reply);
            let to = F::KIND.rewritten(&key, &f.forward, &f.reply, side);
            let (src, dst) = (Ipv4Addr::from_bits(to.src), Ipv4Addr::from_bits(to.dst));
            format!("{src} {} {dst} {}", to.sport, to.dport)
        }))
    }
}

/// Moves sequence numbers in a packet of a connection whose text has changed; returns whether it is still the same connection.
#[cold]
fn shift(all: &mut Mappings, forward: &FlowKey, side: usize, flags: u8, packet: &mut Packet) -> bool {
    let same = all.streams(forward).is_none_or(|streams| shift_in(streams, side, flags, packet));
    if !same {
        all.forget_streams(forward);
    }
    same
}

/// The same with the streams of the connection.
fn shift_in(streams: &mut [Stream; 2], side: usize, flags: u8, packet: &mut Packet) -> bool {
    if flags & (Flags::SYN.0 | Flags::ACK.0) == Flags::SYN.0 {
        return false;
    }
    if let Some(at) = packet.transport_offset().and_then(|at| usize::try_from(at).ok()) {
        packet.data_mut().get_mut(at..).and_then(|segment| stream::shift(streams, side, segment));
    }
    true
}

/// The input of a handler named `pattern` and a number.
fn pattern_input(name: &str) -> Option<usize> {
    name.strip_prefix("pattern")?.parse().ok()
}

fn capacity(args: &mut Args<'_>) -> Capacity {
    let old = args.keyword_opt::<Raw>("CAPACITY");
    let Some(Raw(text)) = args.keyword_opt::<Raw>("MAPPING_CAPACITY").or(old) else {
        return Capacity::Number(DEFAULT_CAPACITY);
    };
    match parse_integer(&text) {
        None => Capacity::Of(text),
        Some(n) => {
            Capacity::Number(usize::try_from(n).ok().filter(|n| *n <= MAX_CAPACITY).unwrap_or_else(|| {
                args.error(format!("MAPPING_CAPACITY should be up to {MAX_CAPACITY}, not {n}"));
                0
            }))
        }
    }
}

impl<F: Family> Element for Rewriter<F> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.family.configure(args);
        let capacity = capacity(args);
        self.dst_anno = args.keyword("DST_ANNO", true);
        self.reply_anno = args.keyword_opt::<Anno<1>>("REPLY_ANNO").map(|anno| anno.0);
        // Mappings end on time without being looked for.
        time_ns(args, "REAP_INTERVAL", 0);
        time_ns(args, "REAP_TIME", 0);
        let host_flows = args.keyword("HOST_FLOWS", 0usize);
        let specs = args.rest();
        if specs.len() != args.ninputs || specs.len() > usize::from(u16::MAX) {
            let (want, got) = (args.ninputs, specs.len());
            args.error_as(
                format!("needs as many input specifications as inputs: {want}, not {got}"),
                format!("need {want} arguments, one per input port"),
            );
        }
        for (n, text) in specs.iter().enumerate() {
            match Spec::parse(text, args.names, args.noutputs, F::KIND) {
                Ok(spec) => self.specs.push(spec),
                Err(why) => args.error(format!("input spec {n}: {why}")),
            }
        }
        self.texts = specs.iter().map(|text| text.trim().to_owned()).collect();
        self.failures = vec![Cell::new(0); specs.len()];
        self.names = args.names.clone();
        let timing = self.family.timing(TCP, &Mapping::default());
        self.handle = Arc::new(Handle::new(F::KIND, args.noutputs, capacity, timing, host_flows));
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.mappings = Handle::mappings_of(cx, cx.index())?;
        self.zone = lock(&self.mappings).join(cx.index(), cx.name(), F::KIND)?;
        self.directory = Directory::gather(cx);
        let specs = std::mem::take(&mut self.specs);
        for (n, spec) in specs.iter().enumerate() {
            let rule = self.rule(spec, cx.router(), cx.index());
            self.rules.push(Arc::new(rule.map_err(|why| format!("input spec {n}: {why}"))?));
        }
        self.handle.set_rules(&self.rules);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let now = cx.now();
        let mut all = lock(&self.mappings);
        // More than new flows can make.
        all.expire_some(now, 2 * batch.len() + 8);
        let mut runs = Runs::default();
        for mut packet in batch.drain(..) {
            match self.rewrite(&mut all, cx, port, &mut packet, now) {
                Ok(output) => runs.push(cx, output, packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
    }
}

impl<F: Family> Provide for Rewriter<F> {
    fn provide(&self) -> Option<Provided> {
        Some(self.handle.clone())
    }
}

impl<F: Family> Statistics for Rewriter<F> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        // The element that owns a table reports its mappings.
        if let (Capacity::Number(_), Some(all)) = (&self.handle.capacity, self.mappings.try_lock()) {
            put(&stats::TABLE_ENTRIES, all.table().len() as u64);
            put(&stats::TABLE_CAPACITY, all.table().capacity() as u64);
        }
    }
}

impl<F: Family> LongHandlers for Rewriter<F> {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Option<Rest<String>> {
        let (mappings, zone, now) = (self.mappings.clone(), self.zone, cx.now());
        if let Some(listing) = self.listing(name, now) {
            return Some(Box::new(move || Ok(listing.apart(&mappings))));
        }
        let number: fn(&Mappings, u16) -> usize = match name {
            "nmappings" | "table_size" => |all, zone| all.count_all(zone),
            "size" => |all, _| all.table().len(),
            _ => return None,
        };
        Some(Box::new(move || {
            listing::expire(&mappings, now);
            Ok(number(&lock(&mappings), zone).to_string())
        }))
    }
}

impl<F: Family> OwnHandlers for Rewriter<F> {
    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let input = pattern_input(name).ok_or_else(|| HandlerError::unknown(name))?;
        Ok(self.pattern(&self.mappings(cx.now()), input))
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let input = pattern_input(name).filter(|input| *input < self.rules.len());
        self.set_pattern(cx, input.ok_or_else(|| HandlerError::unknown(name))?, value)
    }

    fn own_handlers(&self) -> Vec<(String, Access)> {
        (0..self.failures.len()).map(|n| (format!("pattern{n}"), Access::ReadWrite)).collect()
    }
}

impl<F: Family> Rehearsal for Rewriter<F> {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, mut packet: Packet) -> Rehearsed {
        let mut all = lock(&self.mappings);
        // A rehearsal must not find mappings that have ended.
        all.expire(cx.now());
        match self.rewrite_tried(&mut all, cx, port, &mut packet) {
            Ok((output, note)) => {
                cx.push(output, Batch::of(packet));
                Rehearsed::Noted(note)
            }
            Err(reason) => {
                cx.drop(reason, packet);
                Rehearsed::Done
            }
        }
    }
}

impl<F: Family> Locking for Rewriter<F> {
    fn locks(&self) -> Vec<LockUse> {
        let why = "every packet may make a mapping, and writes when it was last used";
        let owner = match &self.handle.capacity {
            Capacity::Number(_) => None,
            Capacity::Of(other) => Some(other.clone()),
        };
        vec![LockUse { owner, ..LockUse::new(How::Adaptive, MAPPINGS, When::EachBatch, why) }]
    }
}

impl<F: Family> HotSwap for Rewriter<F> {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Rewriter<F>>(old) else { return false };
        if !Arc::ptr_eq(&self.mappings, &old.mappings) {
            lock(&self.mappings).take(&mut lock(&old.mappings));
        }
        for (mine, theirs) in self.failures.iter().zip(&old.failures) {
            mine.set(mine.get() + theirs.take());
        }
        // What an input has made ends with its specification, as when a handler changes that.
        for (input, text) in old.texts.iter().enumerate() {
            if self.texts.get(input) != Some(text) {
                lock(&self.mappings).remove_made_by(self.zone, input);
            }
        }
        true
    }
}
