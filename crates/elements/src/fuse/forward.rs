// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole way of a packet through a router: what the input pass of its family does, the route, and what the output pass does
//! for the route's output.
//!
//! Three steps over up to [`STEP`] packets at a time, so that the processor waits for many lines at once: all headers are read and
//! checked, all routes are looked up, and then each packet is changed, once. Nothing is written before the last step, so a
//! packet that turns out not to be ordinary is untouched. One that is ordinary up to its route, but not behind it, goes as
//! far as the route's output.
//!
//! Ordinary is what both of these passes find ordinary, with a route to an output that is connected. What that is, [`Kind`] says
//! for each family.

use element::Element;
use element::clock::Nanos;
use element::fuse::{Ahead, Chain, ForkOffer, ForkPass, Outputs, WAYS_MAX, Way, member};
use packet::{Packet, ipv4};
use sync::rcu::Reader;
use tables::neighbour::Address;
use tables::next_hop::{NextHopId, View};

use super::output::Row;
use super::rows::Rows;
use crate::ip::routing::{Family, Hop, Lookup, Session};

/// What differs between the families.
pub(super) trait Kind: Sized + Send + 'static {
    /// How routes are looked up.
    type Family: Family<Key = Self::Key>;
    /// An address.
    type Key: Address;
    /// Where the elements of the input stand.
    type Input: Send;
    /// What they ask of packets.
    type Rules<'a>: Copy;
    /// Where the elements of an output stand.
    type Output: Send;
    /// What they do to packets during a batch.
    type Live<'a>: Copy;
    /// What is known of the packets of a step besides [`Found`].
    type More: Default + Send;

    /// Length of a header without options in bytes.
    const HEADER: usize;

    /// Finds the elements of the input, and says how many there are.
    fn input(trunk: &[&dyn Element]) -> Option<(usize, Self::Input)>;
    /// Reads the settings of the input's elements.
    fn entry<'a>(input: &Self::Input, chain: &'a Chain<'_>) -> Option<Entry<Self::Rules<'a>>>;
    /// Reads and checks the headers that begin at byte `at`, up to the first packet that is not ordinary, and notes in `found` all but
    /// routes; returns how many are.
    fn admit(
        rules: Self::Rules<'_>,
        packets: &[Packet],
        at: usize,
        found: &mut Found<Self::Key>,
        more: &mut Self::More,
    ) -> usize;
    /// Finds the elements of an output, and says how many there are.
    fn output(branch: &[&dyn Element]) -> (usize, Self::Output);
    /// Prepares an output, whose elements begin at `first` in the chain, for a batch of packets of this paint.
    fn open<'a>(
        output: &Self::Output,
        chain: &'a Chain<'_>,
        first: usize,
        color: Option<u8>,
        now: Nanos,
    ) -> Option<Self::Live<'a>>;
    /// Does what an output does to plain packets in a row, up to the first that is not ordinary, which is untouched. `packets` are all
    /// those of the step. Returns how many they are.
    fn send(
        live: &Self::Live<'_>,
        packets: &mut [Packet],
        row: Row<'_, Self::Key>,
        more: &Self::More,
    ) -> usize;
    /// Equal for all packets of a flow.
    fn flow_hash(datagram: &[u8], to: Self::Key) -> u32;
}

/// The settings of the input during a batch.
pub(super) struct Entry<R> {
    pub(super) rules: R,
    /// The paint that packets get, if they do.
    pub(super) color: Option<u8>,
    /// Bytes to be stripped.
    pub(super) strip: usize,
}

/// What a header says.
pub(super) struct Admitted<A> {
    /// The destination.
    pub(super) to: A,
    /// Bytes of the datagram behind the header.
    pub(super) behind: u16,
    /// No output, whatever elements it has, finds a fault with the packet but for its length and its neighbour.
    pub(super) plain: bool,
}

/// Packets that a step is done for before the next step.
pub(super) const STEP: usize = ipv4::ROWS;
/// Outputs of the route that are prepared for a batch; packets for further ones leave by the output.
const BRANCHES_MAX: usize = 16;

struct Forward<K: Kind> {
    input: K::Input,
    lookup: usize,
    /// Outputs of the lookup that are connected.
    outputs: usize,
    /// By output: its place among the branches, where its first element stands in the chain, and its pass.
    branches: Vec<Option<(usize, usize, K::Output)>>,
    found: Found<K::Key>,
    more: K::More,
}

/// What is known of each packet of a step.
pub(super) struct Found<A> {
    /// Destination addresses, and once routes are known who the packets go to next.
    pub(super) to: [A; STEP],
    /// Bytes of the datagrams behind their headers.
    pub(super) behind: [u16; STEP],
    /// Numbers of next hops.
    hops: [u32; STEP],
    /// Outputs of the lookup, and [`NOT_PLAIN`].
    pub(super) ports: [u8; STEP],
    /// Bits of the outputs that occur; of more than 64, several share one.
    seen: u64,
}

/// Set with the output of a packet that the elements behind it have to see.
pub(super) const NOT_PLAIN: u8 = 128;
const _: () = assert!(WAYS_MAX < NOT_PLAIN as usize);

/// The pass for a family, if a lookup and what its input takes are ahead.
pub(super) fn find<K: Kind>(ahead: &Ahead<'_>) -> Option<ForkOffer> {
    let (lookup, input) = K::input(ahead.trunk)?;
    if !member(*ahead.trunk.get(lookup)?).is_some_and(Lookup::<K::Family>::is_plain) {
        return None;
    }
    let outputs = ahead.outputs(lookup);
    if outputs > WAYS_MAX {
        return None;
    }
    let mut offered = Vec::new();
    let mut at = lookup + 1;
    let branches = (0..outputs).map(|port| {
        let (elements, output) = K::output(&ahead.branch(lookup, port));
        let known = (elements > 0 && port < BRANCHES_MAX).then_some((offered.len(), at, output));
        if known.is_some() {
            offered.push((port, elements));
            at += elements;
        }
        known
    });
    let branches = branches.collect();
    let to = [K::Key::default(); STEP];
    let found = Found { to, behind: [0; STEP], hops: [0; STEP], ports: [0; STEP], seen: 0 };
    let more = K::More::default();
    let pass = Box::new(Forward::<K> { input, lookup, outputs, branches, found, more });
    Some(ForkOffer { trunk: lookup + 1, branches: offered, pass })
}

/// An output of the lookup during a batch.
#[derive(Clone, Copy)]
enum Exit<L> {
    /// Not looked at yet.
    Unknown,
    /// All packets leave by the output.
    Output,
    /// Ordinary packets go through the branch.
    Branch(L, Way),
}

impl<K: Kind> ForkPass for Forward<K> {
    fn run(
        &mut self,
        chain: &Chain<'_>,
        batch: &mut [Packet],
        ways: &mut [Way],
        used: Outputs,
        now: Nanos,
    ) -> usize {
        let Forward { input, lookup, outputs, branches, found, more } = self;
        let Some(entry) = K::entry(input, chain) else { return 0 };
        let Some(table) = chain.get::<Lookup<K::Family>>(*lookup) else { return 0 };
        let Some((fib, hops)) = table.parts() else { return 0 };
        let counting = table.counting(chain.rcu(), now);
        let mut exits = [Exit::Unknown; BRANCHES_MAX];
        let mut done = 0;
        for (packets, ways) in batch.chunks_mut(STEP).zip(ways.chunks_mut(STEP)) {
            let mut n = K::admit(entry.rules, packets, entry.strip, found, more);
            K::Family::lookup(fib, chain.rcu(), &found.to[..n], &mut found.hops[..n]);
            let view = hops.read(chain.rcu());
            n = match counting {
                None => found.follow::<K>(view, entry.strip, &packets[..n], *outputs),
                Some(session) => {
                    let at = (chain.worker(), chain.rcu());
                    found.follow_counted::<K>(session, at, view, entry.strip, &packets[..n], *outputs)
                }
            };
            let mut seen = found.seen;
            while let Some(exit) = exits.get_mut(seen.trailing_zeros() as usize) {
                let port = seen.trailing_zeros() as usize;
                seen &= seen - 1;
                if let Exit::Unknown = exit {
                    let branch = branches[port].as_ref().filter(|_| !used.contains(port));
                    *exit = open::<K>(branch, chain, entry.color, now);
                }
            }
            found.send::<K>(more, &entry, &mut packets[..n], &mut ways[..n], &mut exits);
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
fn open<'a, K: Kind>(
    branch: Option<&(usize, usize, K::Output)>,
    chain: &'a Chain<'_>,
    color: Option<u8>,
    now: Nanos,
) -> Exit<K::Live<'a>> {
    let live = branch.and_then(|(at, first, out)| Some((*at, K::open(out, chain, *first, color, now)?)));
    live.map_or(Exit::Output, |(at, live)| Exit::Branch(live, Way::branch(at)))
}

impl<A: Address> Found<A> {
    /// Notes what `admit` reads of headers, up to the first packet for which that is nothing; returns how many there are.
    // This one and the next are apart, so that their loops have all registers to themselves.
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        packets: &[Packet],
        admit: impl Fn(&Packet) -> Option<Admitted<A>>,
    ) -> usize {
        self.ports.fill(0);
        let notes = self.to.iter_mut().zip(&mut self.behind).zip(&mut self.ports);
        let mut n = 0;
        for (packet, ((to, behind), port)) in packets.iter().zip(notes) {
            let Some(admitted) = admit(packet) else { break };
            (*to, *behind) = (admitted.to, admitted.behind);
            if !admitted.plain {
                *port = NOT_PLAIN;
            }
            n += 1;
        }
        n
    }

    /// Reads what the next hops say, up to the first packet without one; returns how many there are.
    #[inline(never)]
    fn follow<K: Kind<Key = A>>(
        &mut self,
        hops: &View<Hop<<K::Family as Family>::Addr>>,
        strip: usize,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        if let Some(hop) = self.common_hop(hops, packets.len()) {
            return self.follow_all::<K>(hop, packets.len(), outputs);
        }
        let (mut n, mut seen) = (0, 0);
        let answers = self.ports.iter_mut().zip(&mut self.to).zip(&self.hops).zip(&self.behind);
        for (packet, (((port, to), hop), behind)) in packets.iter().zip(answers) {
            let hash = || hash_of::<K>(packet, strip, *behind, *to);
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
    fn follow_counted<K: Kind<Key = A>>(
        &mut self,
        session: &Session<K::Family>,
        at: (usize, &Reader),
        hops: &View<Hop<<K::Family as Family>::Addr>>,
        strip: usize,
        packets: &[Packet],
        outputs: usize,
    ) -> usize {
        let to = self.to;
        let n = self.follow::<K>(hops, strip, packets, outputs);
        for (row, packet) in packets[..n].iter().enumerate() {
            let (to, behind) = (to[row], self.behind[row]);
            let hop = hops.resolve_id(NextHopId(self.hops[row]), || hash_of::<K>(packet, strip, behind, to));
            session.count(at, (0, to), hop, K::HEADER + usize::from(behind));
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
    fn follow_all<K: Kind<Key = A>>(
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
    fn send<K: Kind<Key = A>>(
        &self,
        more: &K::More,
        entry: &Entry<K::Rules<'_>>,
        packets: &mut [Packet],
        ways: &mut [Way],
        exits: &mut [Exit<K::Live<'_>>; BRANCHES_MAX],
    ) {
        let Entry { color, strip, .. } = *entry;
        let ports = &self.ports[..packets.len()];
        let not_plain = match ports.iter().fold(0, |marks, port| marks | port) & NOT_PLAIN {
            0 => Rows::NONE,
            mark => Rows::with(&self.ports, mark, mark),
        };
        let mut rest = Rows::first(ports.len());
        let alike = is_alike(ports);
        // Which output a packet has can't be foretold: each output is asked who goes there, not each packet.
        while let Some(first) = rest.lowest() {
            let output = self.ports[first % STEP] & !NOT_PLAIN;
            let rows = match alike {
                true => rest,
                false => rest.and(Rows::with(&self.ports, !NOT_PLAIN, output)),
            };
            rest = rest.without(rows);
            let mut sent = 0;
            let exit = exits.get_mut(usize::from(output));
            if let Some(Exit::Branch(live, through)) = &exit {
                let row = Row { strip, found: self, rows: rows.before(not_plain), color };
                sent = K::send(live, packets, row, more);
                // The ways of all that come after the first group are noted later.
                match first == 0 {
                    true => ways[..ports.len()].fill(*through),
                    false => rows.iter().take(sent).for_each(|row| ways[row] = *through),
                }
            }
            if sent == rows.len() {
                continue;
            }
            // The others leave by the output: none must overtake the first of them.
            if let Some(exit) = exit {
                *exit = Exit::Output;
            }
            for row in rows.iter().skip(sent) {
                ways[row] = Way::output(output.into());
                let packet = &mut packets[row];
                packet.enter_network(strip, K::HEADER + usize::from(self.behind[row]), 0, K::HEADER);
                K::Family::set_destination(packet, K::Family::show_key(self.to[row]));
                if let Some(color) = color {
                    packet.set_paint(color);
                }
            }
        }
    }
}

/// Whether all of these are equal, as they most often are: asked without a branch for each.
#[inline(always)]
pub(super) fn is_alike<T: Copy + PartialEq>(list: &[T]) -> bool {
    let (Some(first), Some(last)) = (list.first(), list.last()) else { return true };
    first == last && list.iter().fold(true, |alike, one| alike & (one == first))
}

/// The hash of the flow of a packet with a datagram behind the first `strip` bytes that has `behind` bytes behind its header.
#[inline(never)]
fn hash_of<K: Kind>(packet: &Packet, strip: usize, behind: u16, to: K::Key) -> u32 {
    let datagram = packet.data().get(strip..).and_then(|d| d.get(..K::HEADER + usize::from(behind)));
    K::flow_hash(datagram.unwrap_or_default(), to)
}
