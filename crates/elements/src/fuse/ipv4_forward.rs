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

use engine::clock::Nanos;
use engine::fuse::{Ahead, Chain, Fork, ForkOffer, ForkPass, WAYS_MAX, Way, member};
use packet::Packet;
use tables::next_hop::NextHopId;

use super::ipv4_input::{self, Input};
use super::ipv4_output::{self, Live, Output};
use crate::ip::lookup_ip_route::{Lookup4, flow_hash};

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
    /// Destination addresses.
    keys: [u32; STEP],
    /// Lengths of the datagrams in bytes.
    lens: [u16; STEP],
    /// Numbers of next hops.
    hops: [u32; STEP],
}

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
    let found = Found { keys: [0; STEP], lens: [0; STEP], hops: [0; STEP] };
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
            let n = found.admit(&input, packets);
            fib.lookup_batch(chain.rcu(), &found.keys[..n], &mut found.hops[..n]);
            let view = hops.read(chain.rcu());
            for (at, (packet, way)) in packets[..n].iter_mut().zip(&mut *ways).enumerate() {
                let (key, len) = (found.keys[at], found.lens[at]);
                let datagram = || packet.data().get(input.strip..)?.get(..len.into());
                let hash = || flow_hash(datagram().unwrap_or_default(), key);
                let Some(hop) = view.resolve(NextHopId(found.hops[at]), hash) else { return done };
                let (port, gateway) = (hop.output as usize, hop.gateway.to_bits());
                if port >= *outputs {
                    return done;
                }
                let to = if gateway == 0 { key } else { gateway };
                let exit = match exits.get_mut(port) {
                    Some(exit) => {
                        if let Exit::Unknown = exit {
                            *exit = open(branches[port].as_ref(), chain, input.color, now);
                        }
                        exit
                    }
                    None => &mut Exit::Output,
                };
                *way = Way::output(port);
                if let Exit::Branch(live, through) = exit {
                    if live.send(packet, strip, len, to).is_some() {
                        *way = *through;
                    } else {
                        // What follows it must not overtake it.
                        *exit = Exit::Output;
                    }
                }
                if *way == Way::output(port) {
                    packet.enter_network(input.strip, len.into(), 0, HEADER);
                }
                packet.set_dst_ip(to.to_be_bytes());
                if let Some(color) = input.color {
                    packet.set_paint(color);
                }
                done += 1;
            }
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
    #[inline]
    fn admit(&mut self, input: &ipv4_input::Live<'_>, packets: &[Packet]) -> usize {
        let Found { keys, lens, .. } = self;
        let mut n = 0;
        for ((packet, key), len) in packets.iter().zip(keys).zip(lens) {
            let Some(admitted) = input.rules.admit(packet, input.strip) else { break };
            (*key, *len) = (u32::from_be_bytes(admitted.address), admitted.ip_len);
            n += 1;
        }
        n
    }
}
