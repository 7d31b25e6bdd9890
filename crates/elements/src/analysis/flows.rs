// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP and UDP flows with numbers, and the packets that wait for a fragment's flow, for AggregateIPFlows.
//!
//! Flows are found by protocol, addresses and ports, in either direction. A fragment without ports waits with the packets behind it
//! between the same hosts, so that these keep their order; it takes the number of another fragment of its packet.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use element::clock::{Nanos, SECOND};
use packet::{Batch, Packet, anno};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// Packets held at most.
const HELD_MOST: usize = 4096;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// Both ends have closed.
const OVER: u8 = 3;

/// Protocol and addresses, the lower one first.
pub(super) type Hosts = (u8, u32, u32);

/// Hosts and ports; the ports in the order of their hosts.
type Key = (Hosts, u16, u16);

/// Seconds after which things end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeouts {
    pub(super) tcp: u64,
    pub(super) tcp_done: u64,
    pub(super) udp: u64,
    pub(super) fragment: u64,
}

/// The parts of a packet that identify its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    hosts: Hosts,
    /// Ports in the order of the hosts, unless this is a later fragment.
    ports: Option<(u16, u16)>,
    /// It goes from the second host to the first.
    flipped: bool,
    /// It is an ICMP error that quotes the flow's packet.
    quoted: bool,
    fragment: bool,
    id: u16,
    /// Flags of TCP, if this is its segment and not a quotation.
    flags: Option<u8>,
}

impl Headers {
    /// Reads an IP packet; `None` if it can be of no flow.
    pub(super) fn read(ip: &[u8], icmp: bool) -> Option<Headers> {
        let head: &[u8; 20] = ip.first_chunk()?;
        let first = head[6] & 0x1f == 0 && head[7] == 0;
        if icmp && first && head[9] == ICMP {
            let message = ip.get(usize::from(head[0] & 15) * 4..)?;
            let errors = [3, 4, 5, 11, 12];
            let quoted = errors.contains(message.first()?).then(|| message.get(8..))??;
            return Headers::of(quoted, true);
        }
        Headers::of(ip, false)
    }

    fn of(ip: &[u8], quoted: bool) -> Option<Headers> {
        let head: &[u8; 20] = ip.first_chunk()?;
        let (protocol, length) = (head[9], usize::from(head[0] & 15) * 4);
        let address = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (src, dst) = (address(12), address(16));
        if ![TCP, UDP].contains(&protocol) || length < 20 || (src == 0 && dst == 0) {
            return None;
        }
        let first = head[6] & 0x1f == 0 && head[7] == 0;
        let ports = match first {
            true => {
                let ports: &[u8; 4] = ip.get(length..)?.first_chunk()?;
                Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
            }
            false => None,
        };
        let flipped =
            src > dst || (src == dst && ports.is_some_and(|(source, destination)| source > destination));
        Some(Headers {
            hosts: (protocol, src.min(dst), src.max(dst)),
            ports: ports.map(
                |(source, destination)| if flipped { (destination, source) } else { (source, destination) },
            ),
            flipped,
            quoted,
            fragment: head[6] & 0x3f != 0 || head[7] != 0,
            id: u16::from_be_bytes([head[4], head[5]]),
            flags: ip.get(length + 13).copied().filter(|_| protocol == TCP && first && !quoted),
        })
    }

    pub(super) fn hosts(&self) -> Hosts {
        self.hosts
    }

    pub(super) fn is_fragment(&self) -> bool {
        self.fragment
    }

    /// The paint of a packet whose flow is not known yet.
    pub(super) fn paint(&self) -> u8 {
        u8::from(self.flipped) | u8::from(self.quoted) << 1
    }

    fn key(&self) -> Option<Key> {
        self.ports.map(|(lower, upper)| (self.hosts, lower, upper))
    }
}

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    key: Key,
    pub(super) number: u32,
    /// Its first packet went from the second host to the first.
    reverse: bool,
    /// A bit for each end that has closed.
    over: u8,
    pub(super) first_ns: Nanos,
    pub(super) last_ns: Nanos,
    /// Where its first packet was in its file; 0 for unknown.
    pub(super) position: u64,
    /// Packets of each direction.
    pub(super) packets: [u64; 2],
}

impl Flow {
    /// Who sent the first packet, and to whom.
    pub(super) fn ends(&self) -> [(Ipv4Addr, u16); 2] {
        let ((_, lower, upper), lower_port, upper_port) = self.key;
        let ends = [(lower.into(), lower_port), (upper.into(), upper_port)];
        if self.reverse { [ends[1], ends[0]] } else { ends }
    }

    fn paint(&self, headers: &Headers) -> u8 {
        headers.paint() ^ u8::from(self.reverse)
    }

    fn is_over(&self, now: u64, timeouts: &Timeouts) -> bool {
        let timeout = match self.key.0.0 {
            UDP => timeouts.udp,
            _ if self.over == OVER => timeouts.tcp_done,
            _ => timeouts.tcp,
        };
        now.saturating_sub(self.last_ns / SECOND) > timeout
    }
}

/// A packet's flow, as its annotations say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered {
    pub(super) number: u32,
    pub(super) paint: u8,
}

/// A packet that waits, with its headers.
type Held = (Headers, Packet);

/// All flows.
#[derive(Default)]
pub(super) struct Flows {
    flows: HashMap<Key, Flow, foldhash::fast::RandomState>,
    held: HashMap<Hosts, VecDeque<Held>, foldhash::fast::RandomState>,
    held_packets: usize,
    timeouts: Timeouts,
    capacity: usize,
    last_number: u32,
    /// When a full table was last looked through for flows that have ended.
    looked: u64,
}

impl Flows {
    pub(super) fn new(timeouts: Timeouts, capacity: usize) -> Flows {
        Flows { timeouts, capacity, ..Flows::default() }
    }

    /// Packets held.
    pub(super) fn held(&self) -> usize {
        self.held_packets
    }

    fn next_number(&mut self) -> u32 {
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        self.last_number
    }

    /// The packet's flow, and whether it begins here. `None` for a later fragment, and when there are too many flows. `ended` gets
    /// the flow that was there before.
    pub(super) fn find(
        &mut self,
        headers: &Headers,
        time: Nanos,
        ended: &mut dyn FnMut(&Flow),
    ) -> Option<(Numbered, bool)> {
        let key = headers.key()?;
        let now = time / SECOND;
        let known = self.flows.get(&key).map(|flow| {
            let again = flow.over == OVER && headers.flags.is_some_and(|flags| flags & SYN != 0);
            again || flow.is_over(now, &self.timeouts)
        });
        if known == Some(true) {
            self.flows.remove(&key).iter().for_each(&mut *ended);
        }
        if known != Some(false) && !self.has_room(now, ended) {
            return None;
        }
        let begins = known != Some(false);
        if begins {
            let number = self.next_number();
            let flow = Flow {
                key,
                number,
                reverse: headers.flipped,
                over: 0,
                first_ns: time,
                last_ns: time,
                position: 0,
                packets: [0; 2],
            };
            self.flows.insert(key, flow);
        }
        let flow = self.flows.get(&key)?;
        Some((Numbered { number: flow.number, paint: flow.paint(headers) }, begins))
    }

    /// Whether another flow may begin. A full table is looked through once a second, not for each packet.
    fn has_room(&mut self, now: u64, ended: &mut dyn FnMut(&Flow)) -> bool {
        if self.flows.len() >= self.capacity && now > self.looked {
            self.looked = now;
            self.end_flows(now, ended);
        }
        self.flows.len() < self.capacity
    }

    /// Notes where the first packet of a flow was in its file.
    pub(super) fn set_position(&mut self, headers: &Headers, position: u64) {
        if let Some(flow) = headers.key().and_then(|key| self.flows.get_mut(&key)) {
            flow.position = position;
        }
    }

    /// Takes note of a packet that is sent on.
    pub(super) fn passed(&mut self, headers: &Headers, packet: &Packet) {
        if let Some(flow) = headers.key().and_then(|key| self.flows.get_mut(&key)) {
            Flows::note(flow, headers, packet);
        }
    }

    fn note(flow: &mut Flow, headers: &Headers, packet: &Packet) {
        flow.last_ns = packet.timestamp_ns();
        let direction = packet.paint();
        if direction > 1 {
            return;
        }
        flow.packets[usize::from(direction)] += 1;
        match headers.flags {
            Some(flags) if flags & RST != 0 => flow.over = OVER,
            Some(flags) if flags & FIN != 0 => flow.over |= 1 << direction,
            Some(flags) if flags & SYN != 0 => flow.over = 0,
            _ => {}
        }
    }

    /// Whether packets between these hosts wait.
    pub(super) fn holds(&self, hosts: Hosts) -> bool {
        !self.held.is_empty() && self.held.contains_key(&hosts)
    }

    /// Lets a packet wait behind the others between its hosts.
    pub(super) fn hold(&mut self, headers: Headers, packet: Packet) {
        self.held.entry(headers.hosts).or_default().push_back((headers, packet));
        self.held_packets += 1;
    }

    /// Sends on what need not wait any longer between two hosts.
    pub(super) fn release(&mut self, hosts: Hosts, now: u64, out: &mut Batch, others: &mut Batch) {
        let Some(mut waiting) = self.held.remove(&hosts) else { return };
        while let Some((headers, packet)) = waiting.front() {
            let old = packet.timestamp_ns() / SECOND < now.saturating_sub(self.timeouts.fragment);
            let must = self.held_packets > HELD_MOST;
            if headers.fragment && !old && !must {
                break;
            }
            let Some((headers, packet)) = waiting.pop_front() else { break };
            self.held_packets -= 1;
            self.send_held(headers, packet, &mut waiting, out, others);
        }
        if !waiting.is_empty() {
            self.held.insert(hosts, waiting);
        }
    }

    /// Sends one packet on, and notes its flow on the other fragments of it.
    fn send_held(
        &mut self,
        headers: Headers,
        mut packet: Packet,
        waiting: &mut VecDeque<Held>,
        out: &mut Batch,
        others: &mut Batch,
    ) {
        let same = |other: &Headers| headers.fragment && other.fragment && other.id == headers.id;
        let mut known = (packet.anno_u32(anno::AGGREGATE), packet.paint(), headers.ports);
        if known.0 == 0 {
            let found = waiting.iter().find(|(h, p)| same(h) && p.anno_u32(anno::AGGREGATE) != 0);
            let Some((found, p)) = found else { return others.push(packet) };
            known = (p.anno_u32(anno::AGGREGATE), p.paint(), found.ports);
        }
        let (number, paint, ports) = known;
        packet.set_anno_u32(anno::AGGREGATE, number);
        packet.set_paint(paint);
        for (other, p) in waiting.iter_mut().filter(|(other, _)| same(other)) {
            other.ports = other.ports.or(ports);
            p.set_anno_u32(anno::AGGREGATE, number);
            p.set_paint(paint);
        }
        self.passed(&Headers { ports, ..headers }, &packet);
        out.push(packet);
    }

    /// Ends what is over at `now`: flows, and the wait of fragments.
    pub(super) fn reap(
        &mut self,
        now: u64,
        out: &mut Batch,
        others: &mut Batch,
        ended: &mut dyn FnMut(&Flow),
    ) {
        let mut waiting: Vec<Hosts> = self.held.keys().copied().collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|hosts| self.release(hosts, now, out, others));
        self.end_flows(now, ended);
    }

    fn end_flows(&mut self, now: u64, ended: &mut dyn FnMut(&Flow)) {
        let (timeouts, held) = (self.timeouts, &self.held);
        let over = |flow: &Flow| flow.is_over(now, &timeouts) && !held.contains_key(&flow.key.0);
        let mut gone: Vec<Flow> = self.flows.extract_if(|_, flow| over(flow)).map(|(_, flow)| flow).collect();
        gone.sort_unstable_by_key(|flow| flow.number);
        gone.iter().for_each(ended);
    }

    /// Shows all flows in the order of their numbers.
    pub(super) fn all(&self, show: &mut dyn FnMut(&Flow)) {
        let mut flows: Vec<&Flow> = self.flows.values().collect();
        flows.sort_unstable_by_key(|flow| flow.number);
        flows.into_iter().for_each(show);
    }

    /// Takes over all that another one has.
    pub(super) fn follow(&mut self, old: &mut Flows) {
        self.last_number = self.last_number.max(old.last_number);
        self.flows.extend(old.flows.drain());
        for (hosts, waiting) in old.held.drain() {
            self.held.entry(hosts).or_default().extend(waiting);
        }
        self.held_packets += std::mem::take(&mut old.held_packets);
    }
}
