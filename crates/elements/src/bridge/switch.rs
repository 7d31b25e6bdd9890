// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Bridge
//!
//! `Bridge([PORT, ...] [, keywords PORTS, AGEING, CAPACITY, PORT_LIMIT, LEARN_RATE, LEARN_BURST, ETH, LOCAL, MTU, TAG,`
//! `BROADCAST_RATE, MULTICAST_RATE, UNKNOWN_RATE, STORM_BURST, STATIC])`
//!
//! A learning Ethernet bridge (IEEE 802.1Q) that all workers run at once, over one table of addresses that none of them locks.
//!
//! **Ports:** push inputs and as many push outputs: input and output of one number are one port. With N ports, frames of the bridge protocols (to
//! 01-80-C2-00-00-00 up to -0F) leave by output N, if it is there, with their port as the paint annotation. What comes in at input N leaves by the
//! port of its paint, in any state of that port. IGMP and MLD messages leave by output N+1, if it is there, painted alike, in place of being
//! forwarded. Their reader sends them on by input N. These frames have no tag of the bridge's; where VLANs are distinguished theirs is the VLAN
//! annotation.
//!
//! **Arguments**
//! * `PORT` a description of each port, the first one of port 0: `plain`, where VLANs are not distinguished; `access VLAN`, whose frames have no tag;
//!   or `trunk [VLAN[-VLAN] ...] [native VLAN]`, whose frames have tags, unless they are of the native VLAN. Without numbers, it is of all VLANs.
//!   Further words: `isolated`: nothing passes between isolated ports; `guarded`: frames of the bridge protocols are dropped here; `lag N`: all ports
//!   with this N are one aggregate, whose conversations are spread by addresses.
//! * `PORTS` how many there are. Default: as many as are described, or else as there are outputs.
//! * `AGEING` time for which an address is remembered after its last frame, default 300 s. With 0 nothing is learned.
//! * `CAPACITY` addresses in all, default 65536. `PORT_LIMIT` addresses behind each port, default 0: no limit but that.
//! * `LEARN_RATE` new addresses that each worker learns from a port in a second, default 100000; `LEARN_BURST` of them at once,
//!   default 16384. What is not learned is forwarded all the same.
//! * `ETH` the bridge's own address. Frames from it are dropped, unless they come in by `LOCAL`, the port where the host is, to which
//!   frames for it go.
//! * `MTU` bytes that a frame may carry, default 1500: what is longer, headers and up to two tags aside, is dropped.
//! * `TAG` the type of the tags: 8100 (default), customers' (802.1Q), or 88A8, providers' (802.1ad), to whom customers' tags
//!   are payload.
//! * `BROADCAST_RATE`, `MULTICAST_RATE`, `UNKNOWN_RATE` frames to all, to groups, to addresses not known, that each port may have
//!   flooded in a second, on all workers together, default 0: no limit; `STORM_BURST` at once, default 64.
//! * `STATIC` an entry `ETH [VLAN] PORT` that frames do not change and time does not end. May be repeated.
//!
//! **Cores:** the table, the ports' states and the limits are common; buffers are each worker's. One element and not a compound of
//! elements with one job each: learning and forwarding need the same headers and the same cache lines, which are asked for once, for the
//! whole batch. The jobs are modules of their own (`sort`, `plan`, `tags`).
//!
//! **Drops:** `too-short`; `too-long`; `bad-source`, groups and 0 as source; `own-source`; `bad-vlan`, VLAN 4095 or a provider's tag where none may
//! be; `no-vlan`, a VLAN that the port is not in. `port-blocked`, by a spanning tree; `inactive`, a port out of service or without link; `filtered`,
//! to where it came from or between isolated ports; `storm-limited`; `bad-bpdu`, at a guarded port; `no-output`; `no-memory`. Nothing is learned from
//! a frame with one of the first six.
//!
//! **Handlers**
//! * `table` read: lines of Ethernet address, VLAN (if distinguished), port, age in seconds or `static`. `count` read: how many.
//! * `capacity` read. `ageing` read/write: a known address is remembered for a time between the former one and the new one, and what was too old
//!   stays forgotten.
//! * `set` write: as STATIC. `remove` write: `ETH [VLAN]`. `flush` write: nothing, `port N` or `vlan N`.
//! * `ports` read: lines of port, state, `up` or `down`, addresses behind it. `state` write: `PORT discarding|learning|forwarding`.
//! * `up`, `down` write: takes a port into service, or out of it; what was learned there is forgotten. A port whose device has no link
//!   is `down` too until the link is back, and one whose link was lost for a moment forgets what was learned there.
//! * `traffic` read: lines of frames, `in` or `out`, port. `learning` read: lines of how many addresses were learned, moved, or not
//!   learned and why.
//! * `groups` read: lines of group, VLAN, ports.
//!
//! Testers of bridges (RFC 2889, sections 5.7 and 5.8) need `count`, `capacity`, `ageing` and `flush` between trials.
//!
//! ```click
//! b :: Bridge(access 10, access 20, trunk 10 20, AGEING 60);
//! Idle -> [0]b[0] -> Discard; Idle -> [1]b[1] -> Discard; Idle -> [2]b[2] -> Discard;
//! ```
//!
//! See also: EtherSwitch; IEEE 802.1Q, IEEE 802.1D-2004

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::clock::SECOND;
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LongHandlers, Provide, Provided, Reason, Rest,
    SharedState, Sharing, Statistics, handlers, swap,
};
use packet::{Batch, Packet, anno};
use sync::rcu;
use tables::mac::fdb::{self, Config, Fdb};
use wire::MacAddr;

use super::control::{self, Control};
use super::plan::{Plan, Port};
use super::sort::{FrameDecision, Learning, Observation, Observations, Sorter, Storm};
use super::{MAX_PORTS, PortSet, PortState, tags};
use crate::io::links::{Change, Links};
use crate::shared_limit::SharedLimit;
use crate::tools::{TokenBucket, nanos, time_ns};

/// The descriptor.
pub const CLASS: Class = Class::new("Bridge", "-/-", || Box::new(Bridge::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .handlers(handlers! { Bridge:
        read "table" => |bridge, cx| bridge.common(cx)?.table();
        read "count" => |bridge, cx| bridge.common(cx)?.fdb.count();
        read "capacity" => |bridge, cx| bridge.common(cx)?.capacity;
        both "ageing" => |bridge, cx| bridge.common(cx)?.fdb.ageing_ns() as f64 / 1e9,
            |bridge, cx, text: &str| bridge.change(cx, "ageing", text)?;
        write "set" => |bridge, cx, text: &str| bridge.change(cx, "set", text)?;
        write "remove" => |bridge, cx, text: &str| bridge.change(cx, "remove", text)?;
        write "flush" => |bridge, cx, text: &str| bridge.change(cx, "flush", text)?;
        read "ports" => |bridge, cx| bridge.common(cx)?.port_lines();
        write "state" => |bridge, cx, text: &str| bridge.change(cx, "state", text)?;
        write "up" => |bridge, cx, text: &str| bridge.change(cx, "up", text)?;
        write "down" => |bridge, cx, text: &str| bridge.change(cx, "down", text)?;
        tally "traffic" => |bridge| bridge.mine.traffic();
        tally "learning" => |bridge| bridge.mine.learned();
        read "groups" => |bridge, cx| bridge.common(cx)?.group_lines();
    })
    .hot_swap::<Bridge>()
    .shared_state::<Bridge>()
    .long_handlers::<Bridge>()
    .statistics::<Bridge>()
    .provide::<Bridge>()
    .file(file!());

/// No address: what a bridge without one has.
const NO_ADDRESS: u64 = u64::MAX;

/// The table as control elements act on it.
#[derive(Debug)]
struct Addresses {
    fdb: Arc<Fdb>,
    configured_ns: u64,
}

impl control::Fdb for Addresses {
    fn flush_port(&self, port: usize) {
        self.fdb.flush_port(port);
    }

    fn set_ageing_ns(&self, ageing_ns: Option<u64>) {
        self.fdb.set_ageing_ns(ageing_ns.unwrap_or(self.configured_ns), self.fdb.present_ns());
    }
}

/// What all workers share.
struct Common {
    ports: usize,
    fdb: Arc<Fdb>,
    control: Arc<Control>,
    plan: rcu::Cell<Plan>,
    /// The plan again, for those who change it.
    latest: Mutex<Plan>,
    /// Of each port, whether it is to be in service, and whether it has a link.
    service: Mutex<Vec<Service>>,
    storms: Vec<Storm>,
    own: u64,
    local: Option<usize>,
    tag: u16,
    longest: usize,
    capacity: usize,
    /// Whether a successor has taken the table.
    taken: AtomicBool,
}

/// What a port needs to be in service.
#[derive(Clone, Copy)]
struct Service {
    wanted: bool,
    link: bool,
}

#[derive(Default)]
struct Bridge {
    common: Option<Arc<Common>>,
    learn: (u64, u64),
    mine: Mine,
    /// Of the home instance: the devices behind the ports.
    links: Links,
}

/// The timer for looks at links.
const LINKS: u32 = 0;

/// What each worker has for itself.
#[derive(Default)]
struct Mine {
    observations: Observations,
    out: Out,
    allowances: Vec<TokenBucket>,
    received: Vec<u64>,
    learning: Learning,
}

/// What leaves, until the batch is done.
#[derive(Default)]
struct Out {
    parts: Vec<Batch>,
    /// Outputs with packets, in the order of their first one.
    order: Vec<usize>,
    sent: Vec<u64>,
    drops: Vec<(Reason, Batch)>,
    no_memory: u64,
    /// Copies that were made, or could not be.
    copies: usize,
}

impl Out {
    fn put(&mut self, output: usize, frames: impl Iterator<Item = Packet>) {
        let Some(part) = self.parts.get_mut(output) else {
            return self.drops.push((Reason::NoOutput, frames.collect()));
        };
        let is_first = part.is_empty();
        part.extend(frames);
        if is_first && !part.is_empty() {
            self.order.push(output);
        }
    }

    fn drop(&mut self, reason: Reason, batch: Batch) {
        self.drops.push((reason, batch));
    }

    /// Sends it all.
    fn leave(&mut self, cx: &mut Cx<'_>) {
        for output in self.order.drain(..) {
            let batch = std::mem::take(&mut self.parts[output]);
            self.sent[output] += batch.len() as u64;
            cx.push(output, batch);
        }
        for (reason, batch) in self.drops.drain(..) {
            cx.drop_batch(reason, batch);
        }
        if self.copies > 0 {
            cx.made(std::mem::take(&mut self.copies));
        }
        if self.no_memory > 0 {
            cx.count_drops(Reason::NoMemory, std::mem::take(&mut self.no_memory));
        }
    }
}

impl Bridge {
    /// Reads the ports' descriptions and how many there are.
    fn ports(args: &mut Args<'_>, count: Option<usize>) -> (usize, bool, Vec<Port>) {
        let mut aware = Vec::new();
        let mut ports = Vec::new();
        for (at, text) in args.rest().iter().enumerate() {
            match Port::parse(text) {
                Ok((vlans, port)) => {
                    aware.push(vlans);
                    ports.push(port);
                }
                Err(why) => args.error(format!("port {at}: {why}")),
            }
        }
        let described = Some(ports.len()).filter(|n| *n > 0);
        let count = count.or(described).unwrap_or(args.noutputs.max(1));
        if described.is_some_and(|n| n != count) {
            args.error(format!("{} ports are described, but there are {count}", ports.len()));
        }
        if args.allow("PORTS", Some(count), 1..=MAX_PORTS).is_none() {
            return (1, false, vec![Port::default()]);
        }
        if args.ninputs > count + 1 || args.noutputs > count + 2 {
            let (ins, outs) = (args.ninputs, args.noutputs);
            args.error(format!("{ins} inputs and {outs} outputs are too many for {count} ports"));
        }
        if aware.windows(2).any(|pair| pair[0] != pair[1]) {
            args.error("where one port is 'access' or 'trunk' the others cannot be 'plain'");
        }
        ports.resize(count, Port::default());
        (count, aware.contains(&true), ports)
    }

    /// Forgets what was learned behind links that were lost, and takes ports out of service while they have none.
    fn follow(&mut self, cx: &mut Cx<'_>) {
        let Some(common) = &self.common else { return };
        for Change { port, up } in self.links.look(|port| common.has_link(port)) {
            common.fdb.flush_port(port);
            // Workers that are slow to let the old plan go: the next look tries again.
            let _ = common.change(port, |service| service.link = up);
        }
        self.links.set_timer(cx, LINKS);
    }

    /// Reads the limits on what a port may cause, which each port has for itself.
    fn storm(args: &mut Args<'_>) -> impl Fn(usize) -> Storm + use<> {
        let burst: u64 = args.keyword("STORM_BURST", 64);
        let [broadcast, multicast, unknown]: [u64; 3] =
            ["BROADCAST_RATE", "MULTICAST_RATE", "UNKNOWN_RATE"].map(|name| args.keyword(name, 0));
        let limit = move |rate: u64| (rate > 0).then(|| SharedLimit::new(rate, burst));
        move |_| Storm { broadcast: limit(broadcast), multicast: limit(multicast), unknown: limit(unknown) }
    }

    /// Reads STATIC entries and LOCAL's.
    fn enter(args: &mut Args<'_>, common: &Common, entries: &[String], eth: Option<MacAddr>) {
        let vids: Vec<u16> = match common.latest.lock() {
            Ok(plan) if plan.aware => plan.vids().collect(),
            _ => vec![0],
        };
        if let Some((eth, port)) = eth.zip(common.local) {
            for vid in &vids {
                common.fdb.insert_static(eth.0, *vid, port);
            }
        }
        for text in entries {
            let read = read_entry(text, args.names).filter(|(.., port)| *port < common.ports);
            let entered = read.map(|(eth, vid, port)| common.fdb.insert_static(eth.0, vid, port));
            match entered {
                Some(true) => {}
                Some(false) => args.error(format!("STATIC {text}: there is no room")),
                None => args.error(format!("STATIC {text}: expected ETH [VLAN] PORT")),
            }
        }
    }
}

/// Reads `ETH [VLAN] PORT`.
fn read_entry(text: &str, names: &Names) -> Option<(MacAddr, u16, usize)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (eth, vid, port) = match words[..] {
        [eth, port] => (eth, "0", port),
        [eth, vid, port] => (eth, vid, port),
        _ => return None,
    };
    let eth = MacAddr::from_arg(eth, names).ok().filter(|eth| eth.0[0] & 1 == 0)?;
    Some((eth, vid.parse().ok().filter(|vid| *vid < 4095)?, port.parse().ok()?))
}

impl Common {
    /// Makes all of it of the configuration.
    fn new(args: &mut Args<'_>) -> Option<Common> {
        let ageing_ns = time_ns(args, "AGEING", 300 * SECOND);
        let capacity: usize = args.keyword("CAPACITY", 65_536);
        let port_limit = args.keyword("PORT_LIMIT", 0);
        let eth: Option<MacAddr> = args.keyword_opt("ETH");
        let local: Option<usize> = args.keyword_opt("LOCAL");
        let mtu: usize = args.keyword("MTU", 1500);
        let tag: String = args.keyword("TAG", "8100".to_owned());
        let entries: Vec<String> = args.keyword_all("STATIC");
        let count: Option<usize> = args.keyword_opt("PORTS");
        let storm = Bridge::storm(args);
        // Positional arguments are what is left behind all others.
        let (ports, aware, described) = Bridge::ports(args, count);
        let tag = match tag.to_ascii_lowercase().as_str() {
            "8100" | "0x8100" => tags::CUSTOMER,
            "88a8" | "0x88a8" => tags::PROVIDER,
            other => {
                args.error(format!("TAG must be 8100 or 88A8, not '{other}'"));
                return None;
            }
        };
        if local.is_some_and(|port| port >= ports) {
            args.error("LOCAL is not one of the ports");
        }
        if !(1..=1 << 22).contains(&capacity) {
            args.error("CAPACITY must lie between 1 and 4194304");
        }
        if !args.errors().is_empty() {
            return None;
        }
        let plan = Plan::new(aware, &described).map_err(|why| args.error(why)).ok()?;
        let config = Config { capacity, port_limit, ports, vlans: plan.vids().count(), ageing_ns };
        let made = Fdb::new(config, RandomState::new().hash_one(0), &args.rcu);
        let fdb = Arc::new(made.map_err(|why| args.error(why.to_string())).ok()?);
        plan.vids().for_each(|vid| fdb.add_vlan(vid));
        let addresses = Addresses { fdb: fdb.clone(), configured_ns: ageing_ns };
        let leaders = plan.members.iter().map(|member| usize::from(member.leader)).collect();
        let vlans = aware.then(|| plan.vids().map(|vid| (vid, plan.vlan(vid).members)).collect());
        let common = Common {
            ports,
            fdb,
            control: Arc::new(
                Control::new(ports, &args.rcu, Box::new(addresses)).with_layout(leaders, vlans),
            ),
            plan: rcu::Cell::new(&args.rcu, plan.clone()),
            latest: Mutex::new(plan),
            service: Mutex::new(vec![Service { wanted: true, link: true }; ports]),
            storms: (0..ports).map(storm).collect(),
            own: eth.map_or(NO_ADDRESS, MacAddr::to_u64),
            local,
            tag,
            longest: mtu.saturating_add(wire::ethernet::HEADER_LEN),
            capacity,
            taken: AtomicBool::new(false),
        };
        Bridge::enter(args, &common, &entries, eth);
        Some(common)
    }

    fn push(&self, cx: &mut Cx<'_>, mine: &mut Mine, port: usize, mut batch: Batch) {
        let now = cx.now();
        self.fdb.pass(now);
        mine.received[port] += batch.len() as u64;
        let noutputs = cx.noutputs();
        let reader = cx.rcu();
        let plan = self.plan.read(reader);
        let member = &plan.members[port];
        if !member.up {
            return cx.drop_batch(Reason::Inactive, batch);
        }
        let states = self.control.states();
        let state = states.get(usize::from(member.leader));
        let open = match state.forwards() {
            true => member.reaches.and(&plan.lone).and(&states.forwarding()),
            false => PortSet::EMPTY,
        };
        let snoops = noutputs > self.ports + 1;
        let sorter = Sorter {
            fdb: &self.fdb,
            reader,
            plan,
            member,
            states,
            groups: Some(self.control.groups()).filter(|groups| snoops || !groups.is_empty(reader)),
            storm: &self.storms[port],
            state,
            open,
            own: if self.local == Some(port) { NO_ADDRESS } else { self.own },
            tag: self.tag,
            longest: self.longest,
            snoops,
            now,
        };
        let all = sorter.sort(&batch, &mut mine.observations, &mut mine.allowances[port], &mut mine.learning);
        match all {
            Some(observation) if !plan.aware && observation.port().is_some_and(|to| to < noutputs) => {
                let to = observation.port().unwrap_or_default();
                mine.out.sent[to] += batch.len() as u64;
                return cx.push(to, batch);
            }
            Some(observation) => {
                let to = observation.port().unwrap_or_default();
                self.send(&sorter, &mut mine.out, to, observation, batch.drain(..));
            }
            None => self.part(&sorter, mine, port, batch),
        }
        mine.out.leave(cx);
    }

    /// Sorts frames by outputs: those in a row that go one way together.
    #[inline(never)]
    fn part(&self, sorter: &Sorter<'_>, mine: &mut Mine, port: usize, mut batch: Batch) {
        let Mine { observations, out, .. } = mine;
        let mut frames = batch.drain(..);
        let mut from = 0;
        while let Some(observation) = observations.observations.get(from).copied() {
            let is_spread = sorter.plan.has_lags && !matches!(observation.way(), FrameDecision::Port(_));
            let len = if is_spread { 1 } else { observations.run(from) };
            let run = frames.by_ref().take(len);
            match observation.way() {
                FrameDecision::Port(to) => self.send(sorter, out, usize::from(to), observation, run),
                FrameDecision::Drop(reason) => out.drop(reason, run.collect()),
                FrameDecision::Look | FrameDecision::LookGroup => out.drop(Reason::NoOutput, run.collect()),
                FrameDecision::Control => self.hand_up(out, self.ports, port, observation, run.collect()),
                FrameDecision::Snoop => self.hand_up(out, self.ports + 1, port, observation, run.collect()),
                FrameDecision::Flood => {
                    self.flood(sorter, out, observation, (None, observations.hash(from)), run.collect())
                }
                FrameDecision::Group(at) => {
                    let wanted = observations.groups.get(at as usize);
                    self.flood(sorter, out, observation, (wanted, observations.hash(from)), run.collect());
                }
            }
            from += len;
        }
    }

    /// Sends frames by all ports, or all that want their group.
    fn flood(
        &self,
        sorter: &Sorter<'_>,
        out: &mut Out,
        observation: Observation,
        (wanted, hash): (Option<&PortSet>, u64),
        mut batch: Batch,
    ) {
        let leaders = sorter.flooded(observation, wanted);
        let mut ways = leaders.iter().filter_map(|leader| sorter.plan.way(leader, hash)).peekable();
        if ways.peek().is_none() {
            return out.drop(Reason::NoOutput, batch);
        }
        while let Some(to) = ways.next() {
            if ways.peek().is_none() {
                return self.send(sorter, out, to, observation, batch.drain(..));
            }
            let mut copies: Batch = batch.iter_mut().filter_map(Packet::second).collect();
            out.no_memory += (batch.len() - copies.len()) as u64;
            out.copies += batch.len();
            self.send(sorter, out, to, observation, copies.drain(..));
        }
    }

    /// Gives frames the tag that a port wants, and sends them there.
    fn send(
        &self,
        sorter: &Sorter<'_>,
        out: &mut Out,
        to: usize,
        observation: Observation,
        frames: impl Iterator<Item = Packet>,
    ) {
        if !sorter.plan.aware {
            return out.put(to, frames);
        }
        let leader = sorter.plan.members.get(to).map_or(to, |member| usize::from(member.leader));
        let tagged = !sorter.plan.vlan(observation.vid()).untagged.contains(leader);
        self.retag(out, to, (observation.is_tagged(), tagged), observation.vid(), frames);
    }

    /// Puts tags on or takes them off, and sends.
    fn retag(
        &self,
        out: &mut Out,
        to: usize,
        (has, wants): (bool, bool),
        vid: u16,
        frames: impl Iterator<Item = Packet>,
    ) {
        match (has, wants) {
            (false, false) => out.put(to, frames),
            (true, wants) => out.put(
                to,
                frames.map(|mut packet| {
                    match wants {
                        true => tags::set_vid(&mut packet, vid),
                        false => tags::strip(&mut packet),
                    }
                    packet
                }),
            ),
            (false, true) => {
                let mut lost = 0;
                let tagged = frames.filter_map(|mut packet| {
                    let done = tags::insert(&mut packet, self.tag, vid);
                    lost += u64::from(!done);
                    done.then_some(packet)
                });
                out.put(to, tagged);
                out.no_memory += lost;
            }
        }
    }

    /// Gives frames to the bridge's own protocols.
    fn hand_up(&self, out: &mut Out, output: usize, port: usize, observation: Observation, mut batch: Batch) {
        if output >= out.parts.len() {
            return out.drop(Reason::Filtered, batch);
        }
        for packet in batch.iter_mut() {
            if observation.is_tagged() {
                tags::strip(packet);
            }
            packet.set_paint(port as u8);
            packet.set_anno(anno::VLAN_TCI, observation.vid().to_be_bytes());
        }
        out.put(output, batch.drain(..));
    }

    /// Sends what the bridge's own protocols give, each frame by the port of its paint.
    fn push_down(&self, cx: &mut Cx<'_>, mine: &mut Mine, mut batch: Batch) {
        let plan = self.plan.read(cx.rcu());
        let (ports, out) = (self.ports, &mut mine.out);
        for packet in batch.drain(..) {
            let to = usize::from(packet.paint());
            let vid = u16::from_be_bytes(packet.anno(anno::VLAN_TCI)) & 0xfff;
            match plan.members.get(to).filter(|_| to < ports) {
                None => out.drop(Reason::NoOutput, Batch::of(packet)),
                Some(member) if !member.up => out.drop(Reason::Inactive, Batch::of(packet)),
                Some(member) => {
                    let bare = !plan.aware || vid == 0;
                    let wants = !bare && !plan.vlan(vid).untagged.contains(usize::from(member.leader));
                    self.retag(out, to, (false, wants), vid, std::iter::once(packet));
                }
            }
        }
        out.leave(cx);
    }

    /// Takes note of what a port needs to be in service, and takes it into service or out of it accordingly.
    fn change(&self, port: usize, change: impl Fn(&mut Service)) -> Result<(), String> {
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(port_service) = service.get_mut(port) else { return Ok(()) };
        let before = *port_service;
        change(port_service);
        let (was, is) = (before.wanted && before.link, port_service.wanted && port_service.link);
        if was != is { self.serve(port, is).inspect_err(|_| *port_service = before) } else { Ok(()) }
    }

    fn has_link(&self, port: usize) -> bool {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        service.get(port).is_none_or(|service| service.link)
    }

    /// Takes a port into service or out of it.
    fn serve(&self, port: usize, up: bool) -> Result<(), String> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = latest.with(port, up);
        let bytes = size_of::<Plan>() + plan.by_vid.len() * 2 + plan.members.len() * 128;
        let published = self.plan.publish_sized(plan.clone(), bytes);
        published.map_err(|stalled| stalled.to_string())?;
        *latest = plan;
        if !up {
            self.fdb.flush_port(port);
        }
        Ok(())
    }

    fn table(&self) -> String {
        let aware = self.latest.lock().unwrap_or_else(PoisonError::into_inner).aware;
        let line = |entry: &fdb::Entry| {
            let vlan = if aware { format!(" {}", entry.vlan) } else { String::new() };
            let age = if entry.is_static {
                "static".to_owned()
            } else {
                ((entry.age_ns + 500_000_000) / 1_000_000_000).to_string()
            };
            format!("{:#}{vlan} {} {age}\n", MacAddr(entry.mac), entry.port)
        };
        self.fdb.entries().iter().map(line).collect()
    }

    fn port_lines(&self) -> String {
        let plan = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(at, member): (usize, &super::plan::Member)| {
            let state = self.control.states().get(usize::from(member.leader));
            let up = if member.up { "up" } else { "down" };
            format!("{at} {state} {up} {}\n", self.fdb.stations(at))
        };
        plan.members.iter().enumerate().map(line).collect()
    }

    fn group_lines(&self) -> String {
        let line = |((vlan, group), ports): &((u16, MacAddr), super::PortSet)| {
            let ports: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
            format!("{group:#} {vlan} {}\n", ports.join(" "))
        };
        self.control.groups().list().iter().map(line).collect()
    }

    fn write(&self, now: u64, name: &str, value: &str) -> Result<(), HandlerError> {
        let bad = |expected: &str| HandlerError::bad_value(name, value, expected);
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let port = |word: &str| word.parse().ok().filter(|port| *port < self.ports);
        let names = Names::default();
        match (name, &words[..]) {
            ("ageing", [time]) => {
                let time = Duration::from_arg(time, &names).map_err(|_| bad("a number of seconds"))?;
                self.fdb.set_ageing_ns(nanos(time), now);
            }
            ("flush", []) => self.fdb.flush_all(None),
            ("flush", ["port", word]) => {
                self.fdb.flush_port(port(word).ok_or_else(|| bad("one of the ports"))?)
            }
            ("flush", ["vlan", word]) => {
                self.fdb.flush_vlan(word.parse().map_err(|_| bad("the number of a VLAN"))?);
            }
            ("set", _) => {
                let entry = read_entry(value, &names).filter(|(.., port)| *port < self.ports);
                let (eth, vid, port) = entry.ok_or_else(|| bad("ETH [VLAN] PORT"))?;
                if !self.fdb.insert_static(eth.0, vid, port) {
                    return Err(bad("an address for which there is room"));
                }
            }
            ("remove", [eth, vid @ ..]) => {
                let eth = MacAddr::from_arg(eth, &names).map_err(|_| bad("ETH [VLAN]"))?;
                let vid = vid.first().map_or(Ok(0), |word| word.parse()).map_err(|_| bad("ETH [VLAN]"))?;
                if !self.fdb.remove(eth.0, vid) {
                    return Err(bad("an address that is in the table"));
                }
            }
            ("state", [at, state]) => {
                let at = port(at).ok_or_else(|| bad("PORT STATE"))?;
                let state = PortState::from_name(state)
                    .ok_or_else(|| bad("a port and 'discarding', 'learning' or 'forwarding'"))?;
                self.control.states().set(at, state);
            }
            ("up" | "down", [at]) => {
                let at = port(at).ok_or_else(|| bad("one of the ports"))?;
                self.change(at, |service| service.wanted = name == "up").map_err(|why| bad(&why))?;
            }
            _ => return Err(bad("what the manual says")),
        }
        Ok(())
    }
}

impl Mine {
    fn new(ports: usize, noutputs: usize, (rate, burst): (u64, u64)) -> Mine {
        let mut mine = Mine::default();
        mine.out.parts.resize_with(noutputs, Batch::new);
        mine.out.sent.resize(noutputs, 0);
        mine.received.resize(ports, 0);
        mine.allowances.resize_with(ports, || TokenBucket::new(rate, burst));
        mine
    }

    fn traffic(&self) -> String {
        let lines = |counts: &[u64], way: &str| -> String {
            counts
                .iter()
                .take(self.received.len())
                .enumerate()
                .map(|(at, n)| format!("{n} {way} {at}\n"))
                .collect()
        };
        lines(&self.received, "in") + &lines(&self.out.sent, "out")
    }

    fn learned(&self) -> String {
        let Learning { learned, moved, over_rate, over_port_limit, full, busy } = self.learning;
        format!(
            "{learned} learned\n{moved} moved\n{over_rate} over LEARN_RATE\n{over_port_limit} over PORT_LIMIT\n\
             {full} table full\n{busy} busy\n"
        )
    }

    /// Goes on counting where `old` was.
    fn keep(&mut self, old: &mut Mine) {
        let add = |mine: &mut [u64], theirs: &mut [u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += std::mem::take(theirs));
        };
        add(&mut self.received, &mut old.received);
        add(&mut self.out.sent, &mut old.out.sent);
        for (mine, theirs) in self.allowances.iter_mut().zip(&old.allowances) {
            mine.follow(theirs);
        }
        let theirs = std::mem::take(&mut old.learning);
        let mine = &mut self.learning;
        mine.learned += theirs.learned;
        mine.moved += theirs.moved;
        mine.over_rate += theirs.over_rate;
        mine.over_port_limit += theirs.over_port_limit;
        mine.full += theirs.full;
        mine.busy += theirs.busy;
    }
}

impl Bridge {
    /// What the instances have in common, at this time.
    fn common(&self, cx: &mut Cx<'_>) -> Result<&Common, HandlerError> {
        let common = self.common.as_deref().ok_or_else(unconfigured)?;
        common.fdb.advance(cx.now());
        Ok(common)
    }

    fn change(&self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        self.common.as_deref().ok_or_else(unconfigured)?.write(cx.now(), name, text)
    }
}

fn unconfigured() -> HandlerError {
    HandlerError::failed("the bridge is not configured")
}

impl Element for Bridge {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.learn = (args.keyword("LEARN_RATE", 100_000), args.keyword("LEARN_BURST", 16_384));
        self.common = Common::new(args).map(Arc::new);
        if let Some(common) = &self.common {
            self.mine = Mine::new(common.ports, args.noutputs, self.learn);
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if let (Some(common), true) = (&self.common, cx.is_home()) {
            self.links = Links::behind_inputs(cx, common.ports);
            self.follow(cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.follow(cx);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let Some(common) = &self.common else { return cx.drop_batch(Reason::Inactive, batch) };
        if port < common.ports {
            common.push(cx, &mut self.mine, port, batch);
        } else {
            common.push_down(cx, &mut self.mine, batch);
        }
    }
}

impl Provide for Bridge {
    fn provide(&self) -> Option<Provided> {
        let common = self.common.as_ref()?;
        Some(common.control.clone())
    }
}

impl Statistics for Bridge {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some(common) = &self.common {
            let stations: usize = (0..common.ports).map(|port| common.fdb.stations(port)).sum();
            put(&stats::TABLE_ENTRIES, stations as u64);
            put(&stats::TABLE_CAPACITY, common.capacity as u64);
        }
    }
}

impl LongHandlers for Bridge {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Option<Rest<String>> {
        let common = self.common.clone().filter(|_| name == "table")?;
        common.fdb.advance(cx.now());
        Some(Box::new(move || Ok(common.table())))
    }
}

impl SharedState for Bridge {
    fn share(&self) -> Option<Box<dyn Element>> {
        let common = self.common.clone();
        let mine = Mine::new(self.mine.received.len(), self.mine.out.sent.len(), self.learn);
        Some(Box::new(Bridge { common, learn: self.learn, mine, links: Links::default() }))
    }
}

impl HotSwap for Bridge {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Bridge>(old) else { return false };
        let now = cx.now();
        if let (Some(mine), Some(theirs)) = (&self.common, &old.common)
            && !theirs.taken.swap(true, Ordering::AcqRel)
        {
            theirs.fdb.advance(now);
            mine.fdb.advance(now);
            mine.fdb.take(&theirs.fdb);
        }
        self.mine.keep(&mut old.mine);
        true
    }
}

#[cfg(test)]
mod tests;
