// SPDX-License-Identifier: MIT OR Apache-2.0
//! # LookupMPLS
//!
//! `LookupMPLS(LABEL HOP, ... [, keywords IP, EXPIRED, MODEL, TC, DEPTH, VRF_ANNO, ADJACENCIES])`
//!
//! Switches packets by their MPLS label: pops it, or swaps it for others, and sends the packet on. It is the label table of a label
//! switching router (LSR), with any number of label switched paths (LSPs).
//!
//! **Ports:** push. Input 0 takes labelled packets, from their label stack on (without Ethernet header). Input 1, if it is connected, takes IP
//! packets whose route names an adjacency of this element, see RouteFeed. Any number of outputs.
//!
//! **Arguments:** one label each: `LABEL HOP`, or `LABEL HOP | HOP ...` to share traffic among several. LABEL is 16 to 1048575. HOP is one of
//! * `swap LABELS [GATEWAY] OUTPUT [WEIGHT]` puts LABELS in the place of the label. `17` swaps, `17/18` swaps and pushes: the first
//!   is the outermost.
//! * `pop [GATEWAY] OUTPUT [WEIGHT]` takes the label off and sends the packet on with what is below (penultimate hop popping).
//! * `lookup [TABLE]` takes the label off and looks at what is below: the next label, here; or an IP packet, which leaves by the outputs of
//!   IP. TABLE is the number of its routing table, default 0.
//! * `drop` drops as `blackhole`.
//!
//! GATEWAY is an IPv4 or IPv6 address, `-` for none; it becomes the destination annotation. OUTPUT must lead to an ARPQuerier for an IPv4 gateway, and
//! to an IP6NDSolicitor for an IPv6 one, both with `ETHERTYPE_ANNO ETHERTYPE`. WEIGHT is the hop's share of the flows. A flow keeps to one
//! hop; it is known by its entropy label (RFC 6790), or else by the IP addresses and ports below the labels.
//!
//! **Keywords**
//! * `IP OUTPUT [OUTPUT6]` outputs for IP packets that `lookup` has taken out of their labels. They should lead to CheckIPHeader and
//!   CheckIP6Header, and from there to the routing table.
//! * `EXPIRED OUTPUT [OUTPUT6]` outputs for packets whose TTL has run out, with all their labels, by the IP version below; for
//!   ICMPError and ICMP6Error with `MPLS true`. Default: they drop.
//! * `MODEL` of the TTL (RFC 3443): `uniform` (default), in which labels take the TTL over from the packet and hand it back; or `pipe`, in which
//!   an LSP is one hop. `short-pipe` is the same here: the models differ in the queueing at the last router only.
//! * `TC` traffic class of labels pushed onto IP packets: 0 to 7, or `copy` (default), the first three bits of the DSCP.
//! * `DEPTH` labels that are taken off or looked through at most, default 16.
//! * `VRF_ANNO` annotation of one byte that TABLE is written to.
//! * `ADJACENCIES` different hops and groups, at most 32,767 (the default).
//!
//! Explicit null labels (0 and 2) are taken off, and the packet below is looked up in table 0. An entropy label is taken off with its
//! indicator (7). All other labels below 16 drop.
//!
//! **Metadata:** destination annotation, EtherType annotation and VRF_ANNO set. Input 1 reads the destination annotation. Expired packets have
//! their IP header marked.
//!
//! **Drops:** `no-label`; `reserved-label`; `too-short`, a stack without a bottom; `label-stack-too-deep`; `ttl-expired`; `blackhole`; `bad-version`, what
//! is below the last label is no IP packet; `no-adjacency`, from input 1; `no-output`, IP packets without IP; `no-memory`.
//!
//! **Handlers**
//! * `table` read: labels and hops, in the form of the arguments. `nlabels` read: how many.
//! * `lookup` read with a label: where it leads.
//! * `add` write: adds a label; fails if it is there. `set` write: adds or replaces. `remove` write: removes a label.
//! * `ctrl` write: several lines of `add`, `set` and `remove`, all or none.
//!
//! Changes stay when another configuration is taken over in which this element's text is the same.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> Strip(14)
//!   -> mpls :: LookupMPLS(16 swap 17 10.0.0.2 0, 18 pop 10.0.0.2 0, 100 lookup, IP 1);
//! mpls[0] -> ARPQuerier(10.0.0.1, 2:0:0:0:0:1, ETHERTYPE_ANNO ETHERTYPE) -> Discard;
//! mpls[1] -> CheckIPHeader -> GetIPAddress(16) -> StaticIPLookup(0/0 0) -> Discard;
//! ```
//!
//! See also: PushMPLS, CheckMPLSMTU, RouteFeed, StaticIPLookup, ICMPError. RFC 3031, RFC 3032, RFC 3443, RFC 5462, RFC 6790

use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, LockUse, Locking, OpenCx, Provide, Provided, Reason,
    SharedState, Sharing, Statistics, Tasks, When, handlers, swap,
};
use packet::{Batch, Packet, anno};
use sync::lock::How;
use tables::next_hop::View;
use wire::EtherType;
use wire::mpls::{self, Entry, FIRST_FREE};

use super::adjacency::{Adjacency, LabelTarget};
use super::lsps::{LabelForwarding, Limits};
use super::stack::{self, Class as TrafficClass, Model};
use crate::tools::{Anno, Splitter};

/// The descriptor.
pub const CLASS: Class = Class::new("LookupMPLS", "1-2/-", || Box::new(LookupMpls::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .handlers(handlers! { LookupMpls:
        read "table" => |lookup| lookup.shared().with(|lsps| lsps.table());
        read "nlabels" => |lookup| lookup.shared().with(|lsps| lsps.len());
        read "lookup" => |lookup, label: &str| lookup.shared().with(|lsps| lsps.lookup(label)).map_err(HandlerError::Failed)?;
        write "add" => |lookup, text: &str| lookup.change("add", text)?;
        write "set" => |lookup, text: &str| lookup.change("set", text)?;
        write "remove" => |lookup, text: &str| lookup.change("remove", text)?;
        write "ctrl" => |lookup, text: &str| {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let done = lookup.shared().with(|lsps| lsps.control(lines.map(lang::config::shift_word)));
            done.map_err(HandlerError::Failed)?;
        };
    })
    .pure()
    .hot_swap::<LookupMpls>().shared_state::<LookupMpls>().locking::<LookupMpls>().statistics::<LookupMpls>().provide::<LookupMpls>().file(file!());

/// Labels that are looked at by default.
const DEPTH: usize = 16;

/// An output for packets of each IP version.
#[derive(Clone, Copy, Debug, Default)]
struct Outputs([Option<u32>; 2]);

impl FromArg for Outputs {
    const EXPECTED: &'static str = "one or two outputs";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[both]) => Ok(Outputs([Some(both); 2])),
            Ok(&[four, six]) => Ok(Outputs([Some(four), Some(six)])),
            _ => Err(String::new()),
        }
    }
}

impl Outputs {
    fn of(self, kind: EtherType) -> Option<u32> {
        self.0[usize::from(kind != EtherType::IPV4)]
    }
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Send(u32),
    Drop(Reason),
}

#[derive(Clone, Copy)]
struct Settings {
    ip: Outputs,
    expired: Outputs,
    model: Model,
    class: TrafficClass,
    depth: usize,
    vrf: Option<Anno<1>>,
}

#[derive(Default)]
struct LookupMpls {
    shared: Option<Arc<LabelForwarding>>,
    settings: Settings,
    splitter: Splitter,
    verdicts: Vec<Verdict>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ip: Outputs::default(),
            expired: Outputs::default(),
            model: Model::default(),
            class: TrafficClass::default(),
            depth: DEPTH,
            vrf: None,
        }
    }
}

/// Equal for all packets of a flow; 0 for packets whose labels make no sense.
fn flow_hash(packet: &Packet, depth: usize) -> u32 {
    mpls::View::new_checked(packet.data(), depth).map_or(0, |view| view.flow_hash())
}

/// The same of an IP packet.
pub(super) fn ip_flow_hash(packet: &[u8]) -> u32 {
    let hash = match mpls::payload_type(packet) {
        Some(EtherType::IPV4) => wire::FlowKey::for_steering(packet).map(|key| key.quick_hash(0)),
        _ => wire::FlowKey6::for_steering(packet).map(|key| key.quick_hash(0)),
    };
    hash.map_or(0, |hash| hash as u32 ^ (hash >> 32) as u32)
}

impl Settings {
    /// Looks at a packet's first label, and at the next as long as that is what labels say.
    fn switch(&self, packet: &mut Packet, adjacency: impl Fn(&Packet, u32) -> Option<Adjacency>) -> Verdict {
        for _ in 0..self.depth {
            let Some(top) = stack::top(packet) else { return Verdict::Drop(Reason::TooShort) };
            let found = match top.label() {
                label @ FIRST_FREE.. => match adjacency(packet, label) {
                    Some(found) => found,
                    None => return Verdict::Drop(Reason::NoLabel),
                },
                mpls::IPV4_EXPLICIT_NULL | mpls::IPV6_EXPLICIT_NULL => {
                    Adjacency::plain(LabelTarget::Lookup { table: 0 }, feed::Labels::default())
                }
                mpls::ENTROPY_INDICATOR if !top.is_bottom() => match self.take_entropy(packet, top) {
                    Some(verdict) => return verdict,
                    None => continue,
                },
                _ => return Verdict::Drop(Reason::ReservedLabel),
            };
            let model = self.model.or(found.propagates_ttl);
            match found.way {
                LabelTarget::Drop => return Verdict::Drop(Reason::Blackhole),
                LabelTarget::Output { output, gateway } if top.ttl() > 1 => {
                    return match self.forward(packet, top, &found, model) {
                        Ok(ethertype) => {
                            stack::address(packet, gateway, ethertype);
                            Verdict::Send(output)
                        }
                        Err(why) => Verdict::Drop(why),
                    };
                }
                LabelTarget::Output { .. } => return self.expire(packet),
                LabelTarget::Lookup { .. } if top.ttl() == 0 => return self.expire(packet),
                LabelTarget::Lookup { table } => {
                    stack::pop(packet, 1, top.is_bottom(), top, top.ttl(), model);
                    if top.is_bottom() {
                        return self.enter_ip(packet, top, table);
                    }
                }
            }
        }
        Verdict::Drop(Reason::LabelStackTooDeep)
    }

    /// Takes an entropy label and its indicator off; says what becomes of the packet if nothing but IP is below.
    fn take_entropy(&self, packet: &mut Packet, indicator: Entry) -> Option<Verdict> {
        let entropy = packet.data().get(mpls::ENTRY_LEN..).and_then(|rest| rest.first_chunk());
        let Some(entropy) = entropy.map(|bytes| Entry::from_bytes(*bytes)) else {
            return Some(Verdict::Drop(Reason::TooShort));
        };
        stack::pop(packet, 2, entropy.is_bottom(), indicator, indicator.ttl(), self.model);
        entropy.is_bottom().then(|| self.enter_ip(packet, indicator, 0))
    }

    /// Sends what was below the last label to the routing table.
    fn enter_ip(&self, packet: &mut Packet, last: Entry, table: u8) -> Verdict {
        let kind = match (last.label(), mpls::payload_type(packet.data())) {
            (mpls::IPV4_EXPLICIT_NULL, Some(EtherType::IPV6))
            | (mpls::IPV6_EXPLICIT_NULL, Some(EtherType::IPV4)) => None,
            (_, kind) => kind,
        };
        let Some(kind) = kind else { return Verdict::Drop(Reason::BadVersion) };
        if let Some(Anno(at)) = self.vrf {
            packet.set_anno_u8(at, table);
        }
        packet.set_network_offset(0);
        self.ip.of(kind).map_or(Verdict::Drop(Reason::NoOutput), Verdict::Send)
    }

    /// Changes the labels of a packet that leaves; returns the EtherType that it leaves with.
    #[inline]
    fn forward(
        &self,
        packet: &mut Packet,
        top: Entry,
        found: &Adjacency,
        model: Model,
    ) -> Result<EtherType, Reason> {
        let ttl = top.ttl() - 1;
        let labels = found.labels.as_slice();
        if !labels.is_empty() {
            return stack::swap(packet, top, ttl, labels, model).map(|()| EtherType::MPLS);
        }
        stack::pop(packet, 1, top.is_bottom(), top, ttl, model);
        match top.is_bottom() {
            true => mpls::payload_type(packet.data()).ok_or(Reason::BadVersion),
            false => Ok(EtherType::MPLS),
        }
    }

    fn expire(&self, packet: &mut Packet) -> Verdict {
        let output = stack::mark_payload(packet, self.depth).and_then(|kind| self.expired.of(kind));
        output.map_or(Verdict::Drop(Reason::TtlExpired), Verdict::Send)
    }

    /// Sends an IP packet as the adjacency says that its route has named.
    fn enter_lsp(
        &self,
        packet: &mut Packet,
        adjacency: impl Fn(&Packet, u32) -> Option<Adjacency>,
    ) -> Verdict {
        let Some(kind) = mpls::payload_type(packet.data()) else { return Verdict::Drop(Reason::BadVersion) };
        let index = match kind {
            EtherType::IPV4 => u32::from_be_bytes(packet.dst_ip()),
            _ => u128::from_be_bytes(packet.anno(anno::DST_IP)) as u32,
        };
        let Some(found) = adjacency(packet, index) else { return Verdict::Drop(Reason::NoAdjacency) };
        let LabelTarget::Output { gateway, output } = found.way else {
            return Verdict::Drop(Reason::NoAdjacency);
        };
        if gateway.is_none() {
            restore_destination(packet, kind);
        }
        let labels = found.labels.as_slice();
        if labels.is_empty() {
            stack::address(packet, gateway, kind);
            return Verdict::Send(output);
        }
        let model = self.model.or(found.propagates_ttl);
        match stack::impose(packet, labels, model, self.class, None) {
            Ok(()) => {
                stack::address(packet, gateway, EtherType::MPLS);
                Verdict::Send(output)
            }
            Err(why) => Verdict::Drop(why),
        }
    }
}

/// The destination is on the link itself: its address is that of the header.
fn restore_destination(packet: &mut Packet, kind: EtherType) {
    if kind == EtherType::IPV4 {
        if let Some(address) = packet.data().get(16..).and_then(|rest| rest.first_chunk().copied()) {
            packet.set_dst_ip(address);
        }
    } else if let Some(address) = packet.data().get(24..).and_then(|rest| rest.first_chunk::<16>().copied()) {
        packet.set_anno(anno::DST_IP, address);
    }
}

impl LookupMpls {
    fn shared(&self) -> &LabelForwarding {
        self.shared.as_ref().expect("configured before use")
    }

    /// Reads the labels among the arguments.
    fn add_all(args: &mut Args<'_>, shared: &LabelForwarding) {
        for text in args.rest() {
            if let Err(why) = shared.with(|lsps| lsps.control([("add", text.as_str())])) {
                args.error(why);
            }
        }
    }
}

impl LookupMpls {
    fn change(&self, verb: &str, text: &str) -> Result<(), HandlerError> {
        self.shared().with(|lsps| lsps.control([(verb, text)])).map_err(HandlerError::Failed)
    }
}

impl Element for LookupMpls {
    fn configure(&mut self, args: &mut Args<'_>) {
        let outputs = args.noutputs;
        self.settings = Settings {
            ip: args.keyword("IP", Outputs::default()),
            expired: args.keyword("EXPIRED", Outputs::default()),
            model: args.keyword("MODEL", Model::default()),
            class: args.keyword("TC", TrafficClass::default()),
            depth: args.keyword_in("DEPTH", DEPTH, 1..=64),
            vrf: args.keyword_opt("VRF_ANNO"),
        };
        for (name, Outputs(list)) in [("IP", self.settings.ip), ("EXPIRED", self.settings.expired)] {
            if let Some(output) = list.into_iter().flatten().find(|output| *output as usize >= outputs) {
                args.error(format!(
                    "{name}: there is no output {output} (outputs 0 to {} are connected)",
                    outputs.saturating_sub(1)
                ));
            }
        }
        let limits = Limits {
            outputs,
            adjacencies: args.keyword("ADJACENCIES", usize::MAX),
            has_tables: self.settings.vrf.is_some(),
        };
        let shared = LabelForwarding::new(&args.rcu, limits, args.names);
        Self::add_all(args, &shared);
        self.shared = Some(Arc::new(shared));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // The same text as before the swap: what handlers and routing daemons have made of it stays.
        if let Some(live) = cx.predecessor::<LabelForwarding>().filter(|_| cx.inherits())
            && live.can_replace(self.shared())
        {
            self.shared = Some(live);
        }
        Ok(Tasks::None)
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let LookupMpls { shared: Some(shared), settings, splitter, verdicts } = self else { return };
        let (rcu, depth) = (cx.rcu(), settings.depth);
        let meaning = |view: &View<Adjacency>, id, hash: &dyn Fn() -> u32| view.resolve(id, hash).copied();
        verdicts.clear();
        if port == 0 {
            verdicts.extend(batch.iter_mut().map(|packet| {
                settings.switch(packet, |packet, label| {
                    // The label first, see `tables::next_hop`.
                    let id = shared.labels.lookup(rcu, label);
                    meaning(shared.hops.read(rcu), id, &|| flow_hash(packet, depth))
                })
            }));
        } else {
            verdicts.extend(batch.iter_mut().map(|packet| {
                settings.enter_lsp(packet, |packet, index| {
                    meaning(shared.hops.read(rcu), shared.named(index), &|| ip_flow_hash(packet.data()))
                })
            }));
        }
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Drop(_))) {
            let mut kept = verdicts.iter();
            let dropped = verdicts.iter().filter_map(|verdict| match verdict {
                Verdict::Drop(why) => Some(*why),
                Verdict::Send(_) => None,
            });
            let mut dropped = dropped;
            batch.partition(
                |_| matches!(kept.next(), Some(Verdict::Send(_))),
                |packet| cx.drop(dropped.next().unwrap_or(Reason::NoLabel), packet),
            );
        }
        let mut outputs = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Send(output) => Some(*output as usize),
            Verdict::Drop(_) => None,
        });
        splitter.split(cx, batch, |_| outputs.next().unwrap_or(usize::MAX));
    }
}

impl Provide for LookupMpls {
    fn provide(&self) -> Option<Provided> {
        self.shared.clone().map(|shared| shared as Provided)
    }
}

impl Statistics for LookupMpls {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some((labels, bytes)) = self.shared().size() {
            put(&stats::TABLE_ENTRIES, labels as u64);
            put(&stats::TABLE_MEMORY, bytes as u64);
        }
    }
}

impl Locking for LookupMpls {
    fn locks(&self) -> Vec<LockUse> {
        let why = "changes of labels are made one after the other; lookups read without it";
        vec![LockUse::new(How::Adaptive, "the labels", When::Control, why)]
    }
}

impl SharedState for LookupMpls {
    fn share(&self) -> Option<Box<dyn Element>> {
        let (shared, settings) = (self.shared.clone(), self.settings);
        Some(Box::new(LookupMpls { shared, settings, ..LookupMpls::default() }))
    }
}

impl HotSwap for LookupMpls {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let same = |old: &mut Self| {
            self.shared.as_ref().zip(old.shared.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        };
        swap::same::<Self>(old).is_some_and(same)
    }
}

#[cfg(test)]
mod tests;
