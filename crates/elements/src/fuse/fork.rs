// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over a trunk, and over the branches behind its outputs: the whole way of a packet through a router.
//!
//! A packet that is ordinary up to its route, but not behind it, goes as far as the route's output.

use arrayvec::ArrayVec;
use element::clock::Nanos;
use element::fuse::{Ahead, Chain, EXITS_MAX, ForkOffer, ForkPass, Outputs, PassExit, member};
use element::program::{Headers, ROWS, Rows, Sort};
use packet::Packet;
use sync::rcu::Reader;
use tables::neighbour::Address;
use tables::next_hop::{NextHopId, NextHopReader, View};

use super::found::{Found, HeaderPlace, Ip, NOT_PLAIN, is_alike};
use super::send::{Link, Row, enter};
use super::shape::Shape;
use crate::routing::{Family, Hop, Lookup, Session};

/// Outputs that are prepared for a batch; packets for further ones leave by the output.
const BRANCHES_MAX: usize = 16;
const _: () = assert!(EXITS_MAX < NOT_PLAIN as usize);

struct Fork<K: Ip> {
    /// Elements of the trunk, the last of which sends packets different ways.
    trunk: usize,
    /// It looks up routes; otherwise it sorts.
    routes: bool,
    /// Its outputs that are connected.
    outputs: usize,
    /// By output: the branch.
    branches: Vec<Option<Branch>>,
    found: Found<K::Key>,
    more: K::More,
}

/// What lies behind an output.
#[derive(Clone, Copy)]
struct Branch {
    /// Its place among the branches.
    at: usize,
    /// Where its elements stand in the chain.
    first: usize,
    elements: usize,
}

/// The pass for a version, if what sends packets different ways is ahead, behind elements with programs.
pub(super) fn find<K: Ip>(ahead: &Ahead<'_>) -> Option<ForkOffer> {
    let mut shape = Shape::default();
    let before = shape.extend_while(ahead.trunk);
    let is_other = shape.version.is_some_and(|version| version != K::VERSION);
    if is_other || shape.is_final() || !shape.has_headers() {
        return None;
    }
    let (last, routes) = match shape.sort {
        Some(_) => (before.checked_sub(1)?, false),
        None if member(*ahead.trunk.get(before)?).is_some_and(Lookup::<K::Family>::is_plain) => {
            (before, true)
        }
        None => return None,
    };
    let outputs = ahead.outputs(last);
    if outputs > EXITS_MAX {
        return None;
    }
    let mut offered = Vec::new();
    let mut first = last + 1;
    let branches = (0..outputs).map(|port| {
        shape.sort = None;
        let mut branch = Shape::behind(&shape);
        let elements = branch.extend_while(&ahead.branch(last, port));
        let known =
            (elements > 0 && port < BRANCHES_MAX).then_some(Branch { at: offered.len(), first, elements });
        if known.is_some() {
            offered.push((port, elements));
            first += elements;
        }
        known
    });
    let branches = branches.collect();
    if last == 0 && offered.is_empty() {
        return None;
    }
    let (found, more) = (Found::default(), K::More::default());
    let pass = Box::new(Fork::<K> { trunk: last + 1, routes, outputs, branches, found, more });
    Some(ForkOffer { trunk: last + 1, branches: offered, pass })
}

/// What sends packets different ways, during a batch.
enum Sorter<'a, K: Ip> {
    Routes {
        fib: &'a <K::Family as Family>::Reader,
        hops: &'a NextHopReader<Hop<<K::Family as Family>::Addr>>,
        counting: Option<&'a Session<K::Family>>,
    },
    Sort(&'a dyn Sort),
}

impl<'a, K: Ip> Sorter<'a, K> {
    fn of(chain: &'a Chain<'_>, shape: &Shape<'a>, last: usize, now: Nanos) -> Option<Sorter<'a, K>> {
        if let Some(sort) = shape.sort {
            return Some(Sorter::Sort(sort));
        }
        let table = chain.get::<Lookup<K::Family>>(last)?;
        let (fib, hops) = table.parts()?;
        Some(Sorter::Routes { fib, hops, counting: table.counting(chain.rcu(), now) })
    }

    /// Notes the outputs of packets whose headers are at byte `at`, up to the first that has none; returns how many do.
    #[inline]
    fn sort(
        &self,
        chain: &Chain<'_>,
        found: &mut Found<K::Key>,
        at: usize,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        match self {
            Sorter::Sort(sort) => found.sort(*sort, at, packets, outputs),
            Sorter::Routes { fib, hops, counting } => {
                let n = packets.len();
                K::Family::lookup(fib, chain.rcu(), &found.to[..n], &mut found.hops[..n]);
                let view = hops.read(chain.rcu());
                match counting {
                    None => found.follow::<K>(view, at, packets, outputs),
                    Some(session) => {
                        let who = (chain.worker(), chain.rcu());
                        found.follow_counted::<K>(session, who, view, at, packets, outputs)
                    }
                }
            }
        }
    }
}

/// The branches that packets of a batch go through.
struct Exits<'a, K: Ip> {
    /// By output: the place of its branch among those that are open, or one of the other two.
    states: [u8; BRANCHES_MAX],
    open: ArrayVec<Exit<'a, K>, BRANCHES_MAX>,
    chain: &'a Chain<'a>,
    /// By output, what lies behind it.
    branches: &'a [Option<Branch>],
    /// Outputs by which packets have left before.
    used: Outputs,
    now: Nanos,
}

/// A branch during a batch.
struct Exit<'a, K: Ip> {
    shape: Shape<'a>,
    link: Link<'a, K::Key>,
    way: PassExit,
}

impl<'a, K: Ip> Exits<'a, K> {
    /// Nobody has asked for the output yet.
    const UNKNOWN: u8 = u8::MAX;
    /// All packets leave by the output.
    const OUTPUT: u8 = u8::MAX - 1;

    fn new(chain: &'a Chain<'a>, branches: &'a [Option<Branch>], used: Outputs, now: Nanos) -> Exits<'a, K> {
        let states = [Self::UNKNOWN; BRANCHES_MAX];
        Exits { states, open: ArrayVec::new(), chain, branches, used, now }
    }

    /// Prepares the branches behind outputs whose bits are in `seen`.
    #[inline]
    fn prepare(&mut self, trunk: &Shape<'_>, mut seen: u64) {
        while let Some(state) = self.states.get(seen.trailing_zeros() as usize) {
            let port = seen.trailing_zeros() as usize;
            seen &= seen - 1;
            if *state == Self::UNKNOWN {
                self.states[port] = self.open(trunk, port).unwrap_or(Self::OUTPUT);
            }
        }
    }

    /// Opens the branch behind an output, if packets can go through it; returns its place.
    fn open(&mut self, trunk: &Shape<'_>, port: usize) -> Option<u8> {
        let Branch { at, first, elements } = self.branches[port].filter(|_| !self.used.contains(port))?;
        let place = self.open.len();
        // Made in its place: it is large.
        self.open.push(Exit { shape: Shape::behind(trunk), link: Link::None, way: PassExit::branch(at) });
        let exit = self.open.last_mut()?;
        let chain = self.chain;
        if !exit.shape.extend((first..first + elements).map(|at| chain.element(at)), self.now) {
            self.open.truncate(place);
            return None;
        }
        exit.link = K::link(&exit.shape);
        Some(place as u8)
    }

    /// The branch behind an output, unless packets leave there.
    #[inline]
    fn branch(&self, output: u8) -> Option<&Exit<'a, K>> {
        self.open.get(usize::from(*self.states.get(usize::from(output))?))
    }

    /// From now on all packets leave by this output.
    #[inline]
    fn close(&mut self, output: u8) {
        if let Some(state) = self.states.get_mut(usize::from(output)) {
            *state = Self::OUTPUT;
        }
    }
}

impl<K: Ip> Exit<'_, K> {
    /// Lets packets through, up to the first that is not ordinary; returns how many they are.
    #[inline]
    fn send(&self, packets: &mut [Packet], mut row: Row<'_, K::Key>, more: &K::More) -> usize {
        let (Exit { shape, link, .. }, place) = (self, row.place);
        if place.at != place.strip && !link.is_none() {
            return 0;
        }
        if shape.asks_annotations() {
            row.rows = row.rows.while_all(|row| !shape.refuses_annotations(&packets[row]));
        }
        for check in &shape.checks {
            row.rows = check.while_ordinary(&Headers::new(packets, place.at), row.rows);
        }
        if shape.is_final() {
            return K::send(shape, *link, packets, row, more);
        }
        let behind = &row.found.behind;
        row.rows = row.rows.while_all(|row| usize::from(behind[row]) + K::HEADER <= shape.mtu);
        row.enter::<K>(packets)
    }
}

impl<K: Ip> ForkPass for Fork<K> {
    fn run(
        &mut self,
        chain: &Chain<'_>,
        batch: &mut [Packet],
        ways: &mut [PassExit],
        used: Outputs,
        now: Nanos,
    ) -> usize {
        let Fork { trunk, routes, outputs, branches, found, more } = self;
        let last = *trunk - 1;
        let programs = if *routes { last } else { *trunk };
        let mut shape = Shape::default();
        let fits = shape.extend((0..programs).map(|at| chain.element(at)), now);
        if !fits || shape.is_final() || shape.sort.is_some() == *routes {
            return 0;
        }
        let Some(sorter) = Sorter::<K>::of(chain, &shape, last, now) else { return 0 };
        let mut exits = Exits::<K>::new(chain, branches, used, now);
        let mut done = 0;
        for (packets, ways) in batch.chunks_mut(ROWS).zip(ways.chunks_mut(ROWS)) {
            let Some(place) = HeaderPlace::of(&shape, packets) else { break };
            let n = found.look::<K>(&shape, place, packets, more);
            let n = sorter.sort(chain, found, place.at, &packets[..n], *outputs);
            exits.prepare(&shape, found.seen);
            if !shape.counters.is_empty() {
                found.count::<K>(&shape.counters, place, n, now);
            }
            found.send::<K>(more, (place, shape.color, now), &mut packets[..n], &mut ways[..n], &mut exits);
            done += n;
            if n < packets.len() {
                break;
            }
        }
        done
    }
}

impl<A: Address> Found<A> {
    /// Asks what sorts packets by their headers, up to the first packet that it sends nowhere; returns how many there are.
    fn sort(&mut self, sort: &dyn Sort, at: usize, packets: &[Packet], outputs: usize) -> usize {
        let mut found = [0; ROWS];
        let n = sort.sort(&Headers::new(packets, at), outputs, &mut found[..packets.len()]);
        self.seen = 0;
        for (port, output) in self.ports.iter_mut().zip(&found[..n]) {
            self.seen |= 1u64.wrapping_shl((*output).into());
            // There are no more outputs than ways.
            *port |= output;
        }
        n
    }

    /// Reads what the next hops say, up to the first packet without one; returns how many there are.
    #[inline(never)]
    fn follow<K: Ip<Key = A>>(
        &mut self,
        hops: &View<Hop<<K::Family as Family>::Addr>>,
        at: usize,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        if let Some(hop) = self.common_hop(hops, packets.len()) {
            return self.follow_all::<K>(hop, packets.len(), outputs);
        }
        let (mut n, mut seen) = (0, 0);
        let answers = self.ports.iter_mut().zip(&mut self.to).zip(&self.hops).zip(&self.behind);
        for (packet, (((port, to), hop), behind)) in packets.iter().zip(answers) {
            let hash = || hash_of::<K>(packet, at, *behind, *to);
            let Some(hop) = hops.resolve(NextHopId(*hop), hash) else { break };
            if hop.output as usize >= outputs {
                break;
            }
            seen |= 1u64.wrapping_shl(hop.output);
            // There are no more outputs than ways.
            *port |= hop.output as u8;
            if hop.gateway != K::Family::UNSPECIFIED {
                *to = K::Family::key(hop.gateway);
            }
            n += 1;
        }
        self.seen = seen;
        n
    }

    /// As [`follow`](Self::follow), and counts the packets.
    #[cold]
    fn follow_counted<K: Ip<Key = A>>(
        &mut self,
        session: &Session<K::Family>,
        who: (usize, &Reader),
        hops: &View<Hop<<K::Family as Family>::Addr>>,
        at: usize,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        let to = self.to;
        let n = self.follow::<K>(hops, at, packets, outputs);
        for (row, packet) in packets[..n].iter().enumerate() {
            let (to, behind) = (to[row], self.behind[row]);
            let hop = hops.resolve_id(NextHopId(self.hops[row]), || hash_of::<K>(packet, at, behind, to));
            session.count(who, (0, to), hop, K::HEADER + usize::from(behind));
        }
        n
    }

    /// The next hop of all of the first `n` packets, if they have one in common.
    #[inline]
    fn common_hop<'v, H>(&self, hops: &'v View<H>, n: usize) -> Option<&'v H> {
        let ids = &self.hops[..n];
        if is_alike(ids) { hops.single(NextHopId(*ids.first()?)) } else { None }
    }

    /// As [`follow`](Self::follow), for `n` packets with this next hop.
    #[inline]
    fn follow_all<K: Ip<Key = A>>(
        &mut self,
        hop: &Hop<<K::Family as Family>::Addr>,
        n: usize,
        outputs: usize,
    ) -> usize {
        if hop.output as usize >= outputs {
            return 0;
        }
        self.seen = 1u64.wrapping_shl(hop.output);
        self.ports[..n].iter_mut().for_each(|port| *port |= hop.output as u8);
        if hop.gateway != K::Family::UNSPECIFIED {
            self.to[..n].fill(K::Family::key(hop.gateway));
        }
        n
    }

    /// Sends packets on by their outputs: those by the same one together, in order.
    #[inline]
    fn send<K: Ip<Key = A>>(
        &self,
        more: &K::More,
        (place, color, now): (HeaderPlace, Option<u8>, Nanos),
        packets: &mut [Packet],
        ways: &mut [PassExit],
        exits: &mut Exits<'_, K>,
    ) {
        let ports = &self.ports[..packets.len()];
        let not_plain = match ports.iter().fold(0, |marks, port| marks | port) & NOT_PLAIN {
            0 => Rows::NONE,
            _ => self.not_plain(),
        };
        let mut rest = Rows::first(ports.len());
        let alike = is_alike(ports);
        // Which output a packet has can't be foretold: each output is asked who goes there, not each packet.
        while let Some(first) = rest.lowest() {
            let output = self.ports[first % ROWS] & !NOT_PLAIN;
            let rows = match alike {
                true => rest,
                false => rest.and(Rows::with(&self.ports, !NOT_PLAIN, output)),
            };
            rest = rest.without(rows);
            let mut sent = 0;
            if let Some(exit) = exits.branch(output) {
                let row = Row { place, found: self, rows: rows.before(not_plain), color: exit.shape.color };
                sent = exit.send(packets, row, more);
                // The ways of all that come after the first group are noted later.
                match first == 0 {
                    true => ways[..ports.len()].fill(exit.way),
                    false => rows.iter().take(sent).for_each(|row| ways[row] = exit.way),
                }
                if !exit.shape.counters.is_empty() {
                    self.count_rows::<K>(&exit.shape.counters, place, rows.first_of(sent), now);
                }
            }
            if sent == rows.len() {
                continue;
            }
            // The others leave by the output: none must overtake the first of them.
            exits.close(output);
            for row in rows.iter().skip(sent) {
                ways[row] = PassExit::output(output.into());
                enter::<K>(&mut packets[row], place, self.behind[row], self.to[row], color);
            }
        }
    }
}

/// The hash of the flow of a packet with a datagram behind the first `at` bytes that has `behind` bytes behind its header.
#[inline(never)]
fn hash_of<K: Ip>(packet: &Packet, at: usize, behind: u16, to: K::Key) -> u32 {
    let datagram = packet.data().get(at..).and_then(|d| d.get(..K::HEADER + usize::from(behind)));
    K::flow_hash(datagram.unwrap_or_default(), to)
}
