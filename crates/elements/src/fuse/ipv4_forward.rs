// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole way of an IPv4 packet through a router: what [`ipv4_input`](super::ipv4_input) does, the route, and what
//! [`ipv4_output`](super::ipv4_output) does for the route's output.
//!
//! Three steps over up to [`STEP`] packets at a time, so that the processor waits for many lines at once: all headers are read and
//! checked, all routes are looked up, and then each packet is changed, once. Nothing is written before the last step, so a
//! packet that turns out not to be ordinary is untouched. One that is ordinary up to its route, but not behind it, goes as
//! far as the route's output.
//!
//! Ordinary is what both of these passes find ordinary, with a route to an output that is connected.

use std::net::Ipv4Addr;

use engine::clock::Nanos;
use engine::fuse::{Ahead, Chain, Fork, ForkOffer, ForkPass, WAYS_MAX, Way, member};
use packet::Packet;
use tables::next_hop::{NextHopId, View};

use super::ipv4_input::{self, Input};
use super::ipv4_output::{self, Live, Output, Row};
use crate::ip::lookup_ip_route::{Lookup4, flow_hash};
use crate::ip::routing::Hop;

pub(super) const FORK: Fork = Fork { name: "IPv4 forwarding", find };

/// Packets that a step is done for before the next step.
const STEP: usize = 64;
/// Outputs of the route that are prepared for a batch; packets for further ones leave by the output.
const BRANCHES_MAX: usize = 16;
/// IPv4 header without options, in bytes.
const HEADER: usize = 20;

struct Forward {
    input: Input,
    lookup: usize,
    /// Outputs of the lookup that are connected.
    outputs: usize,
    /// By output: its place among the branches, where its first element stands in the chain, and its pass.
    branches: Vec<Option<(usize, usize, Output)>>,
    found: Found,
}

/// What is known of each packet of a step.
struct Found {
    /// Destination addresses, and once routes are known who the packets go to next.
    to: [u32; STEP],
    /// Lengths of the datagrams in bytes.
    lens: [u16; STEP],
    /// Numbers of next hops.
    hops: [u32; STEP],
    /// Outputs of the lookup, and [`NOT_PLAIN`].
    ports: [u8; STEP],
    /// Bits of the outputs that occur; of more than 64, several share one.
    seen: u64,
}

/// Set with the output of a packet that the elements behind it have to see.
const NOT_PLAIN: u8 = 128;
const _: () = assert!(WAYS_MAX < NOT_PLAIN as usize);

fn find(ahead: &Ahead<'_>) -> Option<ForkOffer> {
    let (lookup, input) = ipv4_input::place(ahead.trunk)?;
    if !member(*ahead.trunk.get(lookup)?).is_some_and(Lookup4::is_plain) {
        return None;
    }
    let outputs = ahead.outputs(lookup);
    if input.offset(ahead.trunk) != Some(0) || outputs > WAYS_MAX {
        return None;
    }
    let mut offered = Vec::new();
    let mut at = lookup + 1;
    let branches = (0..outputs).map(|port| {
        let (elements, output) = ipv4_output::place(&ahead.branch(lookup, port));
        let known = (elements > 0 && port < BRANCHES_MAX).then_some((offered.len(), at, output));
        if known.is_some() {
            offered.push((port, elements));
            at += elements;
        }
        known
    });
    let branches = branches.collect();
    let found = Found { to: [0; STEP], lens: [0; STEP], hops: [0; STEP], ports: [0; STEP], seen: 0 };
    let pass = Box::new(Forward { input, lookup, outputs, branches, found });
    Some(ForkOffer { trunk: lookup + 1, branches: offered, pass })
}

/// An output of the lookup during a batch.
#[derive(Clone, Copy)]
enum Exit<'a> {
    /// Not looked at yet.
    Unknown,
    /// All packets leave by the output.
    Output,
    /// Ordinary packets go through the branch.
    Branch(Live<'a>, Way),
}

impl ForkPass for Forward {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], ways: &mut [Way], now: Nanos) -> usize {
        let Forward { input, lookup, outputs, branches, found } = self;
        let Some(input) = input.live(chain) else { return 0 };
        let Ok(strip) = u32::try_from(input.strip) else { return 0 };
        let Some((fib, hops)) = chain.get::<Lookup4>(*lookup).and_then(Lookup4::parts) else { return 0 };
        let mut exits = [Exit::Unknown; BRANCHES_MAX];
        let mut done = 0;
        for (packets, ways) in batch.chunks_mut(STEP).zip(ways.chunks_mut(STEP)) {
            let mut n = found.admit(&input, packets);
            fib.lookup_batch(chain.rcu(), &found.to[..n], &mut found.hops[..n]);
            n = found.follow(hops.read(chain.rcu()), &input, &packets[..n], *outputs);
            for (port, exit) in exits.iter_mut().enumerate().filter(|(port, _)| found.seen >> port & 1 == 1) {
                if let Exit::Unknown = exit {
                    *exit = open(branches[port].as_ref(), chain, input.color, now);
                }
            }
            found.send(&mut packets[..n], &mut ways[..n], &mut exits, strip, input.color);
            done += n;
            if n < packets.len() {
                break;
            }
        }
        done
    }
}

/// Prepares an output for a batch.
#[cold]
fn open<'a>(
    branch: Option<&(usize, usize, Output)>,
    chain: &'a Chain<'_>,
    color: Option<u8>,
    now: Nanos,
) -> Exit<'a> {
    let live = branch.and_then(|(at, first, output)| Some((*at, output.live(chain, *first, color, now)?)));
    live.map_or(Exit::Output, |(at, live)| Exit::Branch(live, Way::branch(at)))
}

impl Found {
    /// Reads and checks headers up to the first packet that is not ordinary; returns how many are.
    // This one and the next are apart, so that their loops have all registers to themselves.
    #[inline(never)]
    fn admit(&mut self, input: &ipv4_input::Live<'_>, packets: &[Packet]) -> usize {
        let (rules, at) = (input.rules, input.strip);
        let notes = self.to.iter_mut().zip(&mut self.lens).zip(&mut self.ports);
        let mut n = 0;
        for (packet, ((to, len), port)) in packets.iter().zip(notes) {
            let Some(admitted) = rules.admit(packet, at) else { break };
            (*to, *len) = (u32::from_be_bytes(admitted.address), admitted.ip_len);
            *port = if ipv4_output::is_plain(packet, admitted.ttl, *to) { 0 } else { NOT_PLAIN };
            n += 1;
        }
        n
    }

    /// Reads what the next hops say, up to the first packet without one; returns how many there are.
    #[inline(never)]
    fn follow(
        &mut self,
        hops: &View<Hop<Ipv4Addr>>,
        input: &ipv4_input::Live<'_>,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        let (mut n, mut seen) = (0, 0);
        let answers = self.ports.iter_mut().zip(&mut self.to).zip(&self.hops).zip(&self.lens);
        for (packet, (((port, to), hop), len)) in packets.iter().zip(answers) {
            let hash = || hash_of(packet, input.strip, *len, *to);
            let Some(hop) = hops.resolve(NextHopId(*hop), hash) else { break };
            let gateway = hop.gateway.to_bits();
            if hop.output as usize >= outputs {
                break;
            }
            seen |= 1u64.wrapping_shl(hop.output);
            // There are no more outputs than ways.
            *port |= hop.output as u8;
            *to = if gateway == 0 { *to } else { gateway };
            n += 1;
        }
        self.seen = seen;
        n
    }

    /// Sends packets on by their outputs: those in a row by the same one together.
    #[inline]
    fn send(
        &self,
        packets: &mut [Packet],
        ways: &mut [Way],
        exits: &mut [Exit<'_>; BRANCHES_MAX],
        strip: u32,
        color: Option<u8>,
    ) {
        let n = packets.len();
        let (ports, lens, to) = (&self.ports[..n], &self.lens[..n], &self.to[..n]);
        let Some(first) = ports.first() else { return };
        // Most often all take the same: asked without a branch for each.
        let alike = ports.iter().fold(0, |differ, port| differ | (port ^ first)) == 0;
        let mut at = 0;
        while at < n {
            let port = ports[at];
            if let Some(Exit::Branch(live, through)) = exits.get(usize::from(port)) {
                let same = || ports[at..].iter().take_while(|p| **p == port).count();
                let end = if alike { n } else { at + same() };
                let row = Row { strip, lens: &lens[at..end], to: &to[at..end], color };
                let sent = live.send(&mut packets[at..end], &row);
                ways[at..at + sent].fill(*through);
                at += sent;
                if at == end {
                    continue;
                }
            }
            // This one leaves by the output.
            let port = usize::from(port & !NOT_PLAIN);
            ways[at] = Way::output(port);
            let packet = &mut packets[at];
            packet.enter_network(strip as usize, lens[at].into(), 0, HEADER);
            packet.set_dst_ip(to[at].to_be_bytes());
            if let Some(color) = color {
                packet.set_paint(color);
            }
            // What follows it must not overtake it.
            if let Some(exit) = exits.get_mut(port) {
                *exit = Exit::Output;
            }
            at += 1;
        }
    }
}

/// The hash of the flow of a packet with a datagram of `len` bytes behind the first `strip`.
#[inline(never)]
fn hash_of(packet: &Packet, strip: usize, len: u16, address: u32) -> u32 {
    let datagram = packet.data().get(strip..).and_then(|d| d.get(..len.into()));
    flow_hash(datagram.unwrap_or_default(), address)
}
