// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FastUDPFlows, FastTCPFlows
//!
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE])`,
//! `FastTCPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, ACTIVE])`
//!
//! Makes UDP (TCP) packets of many flows in Ethernet frames, for load tests.
//!
//! **Ports:** 1 pull output.
//!
//! **Arguments**
//! * `RATE` packets per second; 0 for as fast as they are fetched.
//! * `LIMIT` packets in all, -1 for no limit.
//! * `LENGTH` bytes of the frame without its checksum, 60 to 65535; less is taken for 60.
//! * `SRCETH`, `SRCIP`, `DSTETH`, `DSTIP` addresses.
//! * `FLOWS` flows at a time, 1 to 1048576.
//! * `FLOWSIZE` packets of a flow, at least 1, of TCP at least 3.
//! * `CHECKSUM` boolean, default true: whether UDP's checksum is filled in.
//! * `ACTIVE` boolean, default true.
//!
//! Each packet is of a flow drawn at random. A flow has random ports; after FLOWSIZE packets it gets others. A flow of TCP begins
//! with a SYN and ends with a FIN; its sequence numbers are random and fit nothing. When LIMIT is reached, FastTCPFlows sends the FINs
//! that are missing: one for each flow that has not had its last packet.
//!
//! **Metadata set:** link, network and transport header, destination address, timestamp.
//!
//! **Drops:** none; when packet memory is exhausted it makes fewer packets.
//!
//! **Handlers**
//! * `count` read: packets made.
//! * `rate` read: packets per second, measured from the first to the last of LIMIT. Write: the argument RATE.
//! * `limit`, `active` write: the arguments. `reset` write: sets the count to zero and starts again.
//!
//! ```click
//! FastUDPFlows(0, 50, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 100, 10) -> Discard;
//! FastTCPFlows(0, 50, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 100, 10) -> Discard;
//! ```
//!
//! See also: FastUDPSource, InfiniteSource

use std::net::Ipv4Addr;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::Count;
use element::{Class, Cx, Element, Handler, HotSwap, InitCx, handlers, swap};
use packet::{Batch, HEADROOM, Packet};
use wire::{MacAddr, Protocol, checksum, ethernet, ipv4};

use super::left;
use crate::tools::{TokenBucket, look_again_at, needed, number};

const HANDLERS: &[Handler] = handlers! { FastFlows:
    sum "count" => .count;
    both "rate" => |flows| flows.rate(), |flows, text: &str| flows.bucket = bucket(number("rate", text)?);
    write "reset" => |flows, cx| flows.restart(cx.now());
    write "active" => |flows, cx, active: bool| {
        flows.active = active;
        if active {
            flows.restart(cx.now());
        }
    };
    write "limit" => |flows, text: &str| {
        flows.limit = number("limit", text)?;
        flows.done = false;
    };
};

/// Why its instances are one.
const ORDER: &str = "packets come from one set of flows";

/// The descriptor for UDP.
pub const UDP: Class = Class::new("FastUDPFlows", "0/1", || Box::new(FastFlows::default()))
    .processing("l/l")
    .serial(ORDER)
    .handlers(HANDLERS)
    .hot_swap::<FastFlows>()
    .file(file!());

/// The descriptor for TCP.
pub const TCP: Class =
    Class::new("FastTCPFlows", "0/1", || Box::new(FastFlows { tcp: true, ..FastFlows::default() }))
        .processing("l/l")
        .serial(ORDER)
        .handlers(HANDLERS)
        .hot_swap::<FastFlows>()
        .file(file!());

const ETHERNET: usize = ethernet::HEADER_LEN;
const IP: usize = 20;
const FLOWS_MOST: usize = 1 << 20;

/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH_ACK: u8 = 0x18;

#[derive(Clone, Copy, Default)]
struct Flow {
    ports: [u8; 4],
    sent: u32,
}

/// A frame without ports, and the sum of its transport packet without them.
#[derive(Clone, Default)]
struct Template {
    frame: Vec<u8>,
    /// `None` if the checksum stays zero.
    sum: Option<checksum::Sum>,
}

#[derive(Default)]
struct FastFlows {
    tcp: bool,
    with_checksum: bool,
    /// One of UDP; of TCP one for the first packet of a flow, its last one, and those between.
    templates: Vec<Template>,
    flows: Vec<Flow>,
    flow_size: u32,
    /// The next flow that may need a FIN after the limit.
    closing: usize,
    ends: [[u8; 4]; 2],
    /// Absent when the rate is not limited.
    bucket: Option<TokenBucket>,
    limit: i64,
    active: bool,
    /// All has been sent.
    done: bool,
    count: Count,
    /// When the first packet was made, and the last one of the limit.
    measured: (Option<Nanos>, Option<Nanos>),
}

fn random_ports(cx: &mut Cx<'_>) -> [u8; 4] {
    cx.random().u32(..).to_ne_bytes()
}

fn bucket(rate: u64) -> Option<TokenBucket> {
    (rate > 0).then(|| TokenBucket::new(rate, (rate / 100).max(2)))
}

impl FastFlows {
    fn protocol(&self) -> Protocol {
        if self.tcp { Protocol::TCP } else { Protocol::UDP }
    }

    /// Offset of the checksum in the transport header.
    fn sum_at(&self) -> usize {
        ETHERNET + IP + if self.tcp { 16 } else { 6 }
    }

    fn template(
        &self,
        length: usize,
        (from, to): (MacAddr, MacAddr),
        flags: u8,
        numbers: [u8; 8],
    ) -> Template {
        let [src, dst] = self.ends.map(Ipv4Addr::from);
        let payload_len = (length - ETHERNET - IP) as u16;
        let header = ipv4::Repr {
            src,
            dst,
            protocol: self.protocol(),
            ttl: 250,
            payload_len,
            ..ipv4::Repr::default()
        };
        let mut frame = vec![0; length];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&from.0);
        frame[12..ETHERNET].copy_from_slice(&[8, 0]);
        let _ = header.emit(&mut frame[ETHERNET..]);
        let transport = &mut frame[ETHERNET + IP..];
        if self.tcp {
            transport[4..12].copy_from_slice(&numbers);
            transport[12..16].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
        } else {
            transport[4..6].copy_from_slice(&payload_len.to_be_bytes());
        }
        let sum = checksum::Sum::default()
            .bytes(&src.octets())
            .bytes(&dst.octets())
            .bytes(&[0, self.protocol().0])
            .bytes(&payload_len.to_be_bytes())
            .bytes(transport)
            // What is added later stands at even places.
            .bytes(&[0][..transport.len() % 2]);
        Template { frame, sum: self.with_checksum.then_some(sum) }
    }

    /// The next packet's flow and template; `None` when all has been sent.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<(usize, usize)> {
        if left(self.limit, *self.count) == 0 {
            let unfinished = |flow: &Flow| self.tcp && flow.sent != self.flow_size;
            let at = self.flows.get(self.closing..)?.iter().position(unfinished)?;
            self.closing += at + 1;
            self.flows[self.closing - 1].sent = self.flow_size;
            return Some((self.closing - 1, 2));
        }
        let at = cx.random().usize(..self.flows.len());
        if self.flows[at].sent == self.flow_size {
            self.flows[at] = Flow { ports: random_ports(cx), sent: 0 };
        }
        let flow = &mut self.flows[at];
        flow.sent += 1;
        let template = match flow.sent {
            _ if !self.tcp => 0,
            1 => 0,
            n if n == self.flow_size => 2,
            _ => 1,
        };
        Some((at, template))
    }

    fn fill(&self, packet: &mut Packet, flow: usize, template: usize) {
        let (ports, template) = (self.flows[flow].ports, &self.templates[template]);
        let frame = packet.data_mut();
        frame.copy_from_slice(&template.frame);
        frame[ETHERNET + IP..ETHERNET + IP + 4].copy_from_slice(&ports);
        if let Some(sum) = &template.sum {
            let sum = sum.bytes(&ports).checksum();
            let sum = if self.tcp { sum } else { checksum::never_zero(sum) };
            frame[self.sum_at()..self.sum_at() + 2].copy_from_slice(&sum.to_be_bytes());
        }
        packet.set_mac_offset(0);
        packet.set_network(ETHERNET, IP);
        packet.set_dst_ip(self.ends[1]);
    }

    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let (now, wall, length) = (cx.now(), cx.wall(), self.templates[0].frame.len());
        let due = self.bucket.as_mut().map_or(usize::MAX, |bucket| {
            bucket.refill(now);
            usize::try_from(bucket.tokens()).unwrap_or(usize::MAX)
        });
        let mut batch = Batch::new();
        while batch.len() < max.min(due) {
            let Some(mut packet) = Packet::alloc(HEADROOM, length) else { break };
            let Some((flow, template)) = self.next(cx) else {
                self.done = true;
                break;
            };
            self.fill(&mut packet, flow, template);
            packet.set_timestamp_ns(wall);
            self.count += 1;
            self.measured.0.get_or_insert(now);
            if left(self.limit, *self.count) == 0 {
                self.measured.1 = Some(now);
            }
            batch.push(packet);
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.remove(batch.len() as u64);
        }
        cx.made(batch.len());
        batch
    }

    fn rate(&self) -> u64 {
        match self.measured {
            (Some(first), Some(last)) if last > first => {
                (u128::from(*self.count) * u128::from(SECOND) / u128::from(last - first)) as u64
            }
            _ => 0,
        }
    }

    fn restart(&mut self, now: Nanos) {
        if let Some(bucket) = &mut self.bucket {
            bucket.set_level(now, 1);
        }
        self.count.reset();
        (self.done, self.closing, self.measured) = (false, 0, (None, None));
    }
}

impl Element for FastFlows {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.bucket = bucket(args.required("RATE"));
        self.limit = args.required("LIMIT");
        let length = usize::from(args.required::<u16>("LENGTH").max(60));
        let from = needed(args, "SRCETH", MacAddr::ZERO);
        self.ends[0] = needed(args, "SRCIP", Ipv4Addr::UNSPECIFIED).octets();
        let to = needed(args, "DSTETH", MacAddr::ZERO);
        self.ends[1] = needed(args, "DSTIP", Ipv4Addr::UNSPECIFIED).octets();
        let flows: usize = args.required("FLOWS");
        self.flow_size = args.required("FLOWSIZE");
        self.with_checksum = self.tcp || args.positional("CHECKSUM", true);
        self.active = args.positional("ACTIVE", true);
        if !args.errors().is_empty() {
            return;
        }
        let smallest = if self.tcp { 3 } else { 1 };
        if !(1..=FLOWS_MOST).contains(&flows) {
            args.error(format!("FLOWS must lie between 1 and {FLOWS_MOST}, not {flows}"));
        } else if self.flow_size < smallest {
            args.warning(format!("FLOWSIZE {} is taken for {smallest}", self.flow_size));
            self.flow_size = smallest;
        }
        if args.errors().is_empty() {
            self.flows = vec![Flow::default(); flows];
            // `initialize` draws the sequence numbers.
            let flags: &[u8] = if self.tcp { &[SYN, PSH_ACK, FIN] } else { &[0] };
            self.templates = flags.iter().map(|f| self.template(length, (from, to), *f, [0; 8])).collect();
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let now = cx.now();
        self.restart(now);
        for flow in &mut self.flows {
            flow.ports = random_ports(cx);
        }
        for template in self.templates.iter_mut().filter(|_| self.tcp) {
            let numbers = cx.random().u64(..).to_ne_bytes();
            template.frame[ETHERNET + IP + 4..ETHERNET + IP + 12].copy_from_slice(&numbers);
            template.sum = template.sum.map(|sum| sum.bytes(&numbers));
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active {
            return Batch::new();
        }
        let batch = self.make(cx, max);
        if batch.is_empty() && !self.done {
            look_again_at(cx, self.bucket.as_ref().and_then(|b| b.when(1)));
        }
        batch
    }
}

impl HotSwap for FastFlows {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<FastFlows>(old) else { return false };
        self.count.take(&mut old.count);
        self.measured = std::mem::take(&mut old.measured);
        if self.flows.len() == old.flows.len() && self.flow_size == old.flow_size {
            self.flows = std::mem::take(&mut old.flows);
            self.closing = old.closing;
        }
        if let (Some(mine), Some(theirs)) = (&mut self.bucket, &old.bucket) {
            mine.follow(theirs);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{Rig, Run};

    const ENDS: &str = "0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2";

    fn run(class: &str, head: &str, tail: &str, burst: usize) -> Run {
        let text = format!("e :: {class}({head}, {ENDS}, {tail}) -> Unqueue -> o :: TestOut;");
        Rig::text(&text).burst(burst).run()
    }

    fn sum_ok(frame: &[u8], protocol: Protocol) -> bool {
        checksum::transport_v4_ok([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, &frame[34..])
    }

    #[test]
    fn frames_are_right_and_flows_as_long_as_they_may_be() {
        for burst in [1, 32] {
            let out = run("FastUDPFlows", "0, 100, 61", "4, 5", burst).out("o");
            let mut flows = BTreeMap::new();
            for packet in &out {
                let frame = packet.data();
                assert_eq!(
                    (frame.len(), &frame[..14]),
                    (61, &[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 8, 0][..])
                );
                assert!(
                    checksum::header20_ok(frame[14..].first_chunk().unwrap()) && sum_ok(frame, Protocol::UDP)
                );
                assert_eq!((&frame[38..40], packet.network_offset()), (&[0, 27][..], Some(14)));
                *flows.entry(frame[34..38].to_vec()).or_insert(0) += 1;
            }
            assert_eq!(out.len(), 100);
            // All but the last four flows are complete.
            assert!(
                flows.values().all(|n| *n <= 5) && flows.values().filter(|n| **n < 5).count() <= 4,
                "{flows:?}"
            );
        }
        let frames = run("FastUDPFlows", "0, 3, 60", "1, 1, CHECKSUM false", 32).bytes("o");
        assert!(frames.iter().all(|f| f[40..42] == [0, 0]));
    }

    #[test]
    fn flows_of_tcp_begin_and_end() {
        for burst in [1, 32] {
            let mut run = run("FastTCPFlows", "0, 50, 60", "3, 4", burst);
            let mut flows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for frame in run.bytes("o") {
                assert!(sum_ok(&frame, Protocol::TCP));
                flows.entry(frame[34..38].to_vec()).or_default().push(frame[47]);
            }
            for flags in flows.values() {
                assert_eq!((flags[0], flags.last()), (SYN, Some(&FIN)));
                assert!(flags[1..flags.len() - 1].iter().all(|f| *f == PSH_ACK) && flags.len() <= 4);
            }
            let count: usize = run.read("e.count").parse().unwrap();
            assert!((50..=53).contains(&count), "{count}");
        }
    }

    #[test]
    fn the_rate_is_kept_and_handlers_change_it() {
        for burst in [1, 32] {
            let mut run = run("FastUDPFlows", "1000, 501, 60", "10, 10", burst);
            assert_eq!(run.read("e.count"), "501");
            assert!((1000..=1005).contains(&run.read("e.rate").parse().unwrap()), "{}", run.read("e.rate"));
            run.write("e.limit", "20").unwrap();
            run.write("e.rate", "0").unwrap();
            run.write("e.reset", "").unwrap();
            let mut run = run.again();
            assert_eq!((run.read("e.count").as_str(), run.read("e.rate").as_str()), ("20", "0"));
            assert!(run.write("e.active", "x").is_err());
        }
    }

    #[test]
    fn arguments_are_checked() {
        for flows in ["0", "1048577"] {
            let text = format!("e :: FastUDPFlows(0, 1, 60, {ENDS}, {flows}, 1) -> Discard;");
            let want = format!("e: FLOWS must lie between 1 and 1048576, not {flows}");
            assert_eq!(Rig::text(&text).errors(), [want]);
        }
        assert_eq!(Rig::text("e :: FastTCPFlows(0, 1) -> Discard;").errors().len(), 7);
    }
}
