// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of routing, for both address families: look-up of routes, what feeds them, and who watches their next hops.
//!
//! What lookup elements have in common is here: the text of routes, the control side, the strategies of sharing, and the
//! lookup itself. An element file adds a [`Family`], its class names and its manual.
//!
//! A route is `PREFIX HOPS [table N]`, and `HOPS` one or more of these, separated by `|`:
//!
//! * `[GATEWAY] OUTPUT` or `GATEWAY OUTPUT WEIGHT`; `-` for no gateway, output -1 drops;
//! * `via NAME [WEIGHT]`, a next hop that was given a name.

mod bfd;
pub(crate) mod by_hand;
mod check_reverse_path;
mod counting;
mod fed;
mod lookup;
pub(crate) mod lookup_ip6_route;
pub(crate) mod lookup_ip_route;
mod order;
mod outstanding;
mod reverse;
mod route_feed;
mod routes;
mod shared;
mod sink;

pub use bfd::Liveness;
pub(crate) use bfd::frame;
pub(crate) use counting::Session;
pub(crate) use lookup::Lookup;
pub(crate) use order::{Like, chain};
pub(crate) use reverse::ReverseRoutes;

pub(crate) use shared::Feeder;
pub use sink::FeedSink;
pub(crate) use sink::{Groups, Mpls, Outputs, Side, Sides, Vrfs};

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::IpAddr;
use std::str::FromStr;

use element::Handler;
use element::args::Names;
use packet::Packet;
use sync::rcu;
use tables::next_hop::NextHopId;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    bfd::CLASS,
    check_reverse_path::CLASS,
    lookup_ip6_route::CLASS,
    lookup_ip_route::DIRECT,
    lookup_ip_route::LINEAR,
    lookup_ip_route::LOOKUP,
    lookup_ip_route::RADIX,
    lookup_ip_route::RANGE,
    lookup_ip_route::SORTED,
    lookup_ip_route::STATIC,
    route_feed::CLASS,
];

/// Handlers of lookup elements.
pub(crate) const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("nroutes"),
    Handler::read("lookup"),
    Handler::read("nexthops"),
    Handler::read("contention"),
    Handler::read("stats"),
    Handler::read("counts"),
    Handler::write("count"),
    Handler::write("add"),
    Handler::write("set"),
    Handler::write("remove"),
    Handler::write("ctrl"),
    Handler::write("flush"),
    Handler::write("nexthop"),
    Handler::write("remove_nexthop"),
    Handler::write("withdraw"),
    Handler::write("replace"),
    Handler::write("load").private(),
];

/// The output that drops for want of a route.
pub(crate) const DROP: u32 = u32::MAX;
/// The output that drops as a route demands.
pub(crate) const BLACKHOLE: u32 = u32::MAX - 1;
/// The output that drops what a route prohibits.
pub(crate) const PROHIBIT: u32 = u32::MAX - 2;

/// Whether an output drops.
pub(crate) fn is_drop(output: u32) -> bool {
    output >= PROHIBIT
}

/// Why a table has not made changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmade {
    /// Readers hold old versions: the next attempt may succeed.
    Busy(String),
    /// There is no room.
    Full(String),
}

/// What differs between IPv4 and IPv6: addresses, packets, and the table behind.
pub(crate) trait Family: Send + Sync + 'static {
    /// An address as written.
    type Addr: Copy + Eq + Hash + Debug + Display + FromStr + Send + Sync;
    /// A prefix without host bits.
    type Prefix: Copy + Ord + Hash + Debug + Display + Send;
    /// An address as lookups take it.
    type Key: Copy + Send;
    /// The table's control side.
    type Writer: Send;
    /// The table's lookup side.
    type Reader: Clone + Send + Sync;

    /// The address that stands for "no gateway".
    const UNSPECIFIED: Self::Addr;

    /// An address of this family.
    fn address(address: IpAddr) -> Option<Self::Addr>;
    /// Reads a prefix; the second part says whether host bits had to be cleared.
    fn prefix(text: &str) -> Option<(Self::Prefix, bool)>;
    /// What a name stands for where a prefix may stand, as text: a host goes before a network.
    fn named_prefix(names: &Names, name: &str) -> Option<String>;
    /// What a name stands for where an address may stand.
    fn named_address(names: &Names, name: &str) -> Option<Self::Addr>;
    fn key(address: Self::Addr) -> Self::Key;
    /// What to look up for this packet.
    fn destination(packet: &Packet) -> Self::Key;
    /// The address that sent this packet, if its header is marked.
    fn source(packet: &Packet) -> Option<Self::Key>;
    fn show_key(key: Self::Key) -> Self::Addr;
    fn set_destination(packet: &mut Packet, address: Self::Addr);
    /// Equal for all packets of a flow.
    fn flow_hash(packet: &Packet) -> u32;
    /// The chain that Click's hash table of routes has a prefix in.
    fn chain(_: Self::Prefix) -> u32 {
        0
    }

    fn open(domain: &rcu::Domain) -> Result<Self::Writer, String>;
    fn reader(fib: &Self::Writer) -> Self::Reader;
    fn lookup(fib: &Self::Reader, rcu: &rcu::Reader, keys: &[Self::Key], out: &mut [u32]);
    fn insert(
        fib: &mut Self::Writer,
        prefix: Self::Prefix,
        id: NextHopId,
    ) -> Result<Option<NextHopId>, String>;
    fn remove(fib: &mut Self::Writer, prefix: Self::Prefix) -> Result<Option<NextHopId>, String>;
    /// Makes all changes or none, in order; returns what each one found.
    fn commit(
        fib: &mut Self::Writer,
        changes: &[(Self::Prefix, Option<NextHopId>)],
    ) -> Result<Vec<Option<NextHopId>>, Unmade>;
    fn replace(fib: &mut Self::Writer, routes: &[(Self::Prefix, NextHopId)]) -> Result<(), String>;
    fn get(fib: &Self::Writer, prefix: Self::Prefix) -> Option<NextHopId>;
    /// The route that decides about an address.
    fn longest_match(fib: &Self::Writer, key: Self::Key) -> Option<(Self::Prefix, NextHopId)>;
    fn routes(fib: &Self::Writer) -> Box<dyn Iterator<Item = (Self::Prefix, NextHopId)> + '_>;
    /// The routes whose addresses, or the upper halves of whose addresses, are in a range.
    fn range(
        fib: &Self::Writer,
        from: u64,
        to: u64,
    ) -> Box<dyn Iterator<Item = (Self::Prefix, NextHopId)> + '_>;
    /// Whether one prefix has all addresses of another.
    fn covers(outer: Self::Prefix, inner: Self::Prefix) -> bool;
    /// A prefix as control planes have it.
    fn fed_prefix(prefix: Self::Prefix) -> feed::Destination;
    fn len(fib: &Self::Writer) -> usize;
    /// Bytes that lookups can touch.
    fn bytes(fib: &Self::Writer) -> usize;
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop<A> {
    /// `Family::UNSPECIFIED` for none.
    pub gateway: A,
    /// `DROP`, `BLACKHOLE` or `PROHIBIT` to drop.
    pub output: u32,
}

/// One of the things that `HOPS` lists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice<A> {
    Hop(Hop<A>),
    Named(String),
}

/// A route's right-hand side as written: choices and their weights.
type Hops<A> = Vec<(Choice<A>, u32)>;

/// A route split into its parts, none of them read yet but the table's number.
struct RouteText<'a> {
    prefix: &'a str,
    hops: &'a str,
    table: u8,
}

impl<'a> RouteText<'a> {
    fn split(text: &'a str) -> Result<Self, String> {
        let text = text.trim();
        // From the end: of a million routes most have no table.
        let ending = text.rsplit_once(char::is_whitespace);
        let (text, table) =
            match ending.and_then(|(rest, id)| Some((rest.trim_end().strip_suffix("table")?, id))) {
                Some((rest, id)) if rest.ends_with(char::is_whitespace) => {
                    let id = id.parse().map_err(|_| format!("'{id}' is not a table's number (0 to 255)"))?;
                    (rest.trim_end(), id)
                }
                _ => (text, 0),
            };
        let (prefix, hops) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Ok(Self { prefix, hops: hops.trim(), table })
    }
}

/// Reads a prefix, whose host bits are cleared unless `strict`.
fn read_prefix<F: Family>(text: &str, strict: bool) -> Result<F::Prefix, String> {
    match F::prefix(text) {
        None => Err(format!("'{text}' is not a prefix (ADDRESS/LENGTH)")),
        Some((prefix, true)) if strict => Err(format!("'{text}' has host bits; the prefix is {prefix}")),
        Some((prefix, _)) => Ok(prefix),
    }
}

/// Reads `HOPS`; `route` is shown when it makes no sense.
fn read_hops<F: Family>(
    text: &str,
    route: &str,
    noutputs: usize,
    names: &Names,
) -> Result<Hops<F::Addr>, String> {
    text.split('|').map(|choice| read_choice::<F>(choice, route, noutputs, names)).collect()
}

fn read_choice<F: Family>(
    text: &str,
    route: &str,
    noutputs: usize,
    names: &Names,
) -> Result<(Choice<F::Addr>, u32), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let read_hop = |gateway, output| read_hop::<F>(gateway, output, noutputs, names);
    let (choice, weight) = match words[..] {
        ["via", name] => (Choice::Named(name.to_owned()), "1"),
        ["via", name, weight] => (Choice::Named(name.to_owned()), weight),
        [output] => (Choice::Hop(read_hop("-", output)?), "1"),
        [gateway, output] => (Choice::Hop(read_hop(gateway, output)?), "1"),
        [gateway, output, weight] => (Choice::Hop(read_hop(gateway, output)?), weight),
        _ => return Err(format!("a route is ADDR/MASK [GATEWAY] OUTPUT, not '{route}'")),
    };
    let weight = weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?;
    Ok((choice, weight))
}

fn read_hop<F: Family>(
    gateway: &str,
    output: &str,
    noutputs: usize,
    names: &Names,
) -> Result<Hop<F::Addr>, String> {
    let gateway = match gateway {
        "-" => F::UNSPECIFIED,
        text => (text.parse().ok())
            .or_else(|| F::named_address(names, text).filter(|_| !text.contains('/')))
            .ok_or_else(|| format!("'{text}' is not a gateway's address"))?,
    };
    let output = match output.parse::<i64>() {
        Ok(-1) => DROP,
        Ok(n) if n >= 0 && (n as usize) < noutputs => n as u32,
        Ok(n) => {
            let last = noutputs as i64 - 1;
            return Err(format!("there is no output {n} (outputs 0 to {last} are connected)"));
        }
        Err(_) => return Err(format!("'{output}' is not an output number")),
    };
    Ok(Hop { gateway, output })
}

/// An output as written.
fn show_output(output: u32) -> i64 {
    if is_drop(output) { -1 } else { output.into() }
}
