// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StaticIPLookup, LookupIPRoute, LinearIPLookup, RadixIPLookup, DirectIPLookup, RangeIPLookup, SortedIPLookup
//!
//! `StaticIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...)`
//!
//! Sends each packet to the output of the longest route that matches its destination annotation; with a gateway, the
//! annotation is replaced by the gateway's address. The names are those of Click, where each is another data structure;
//! here all are one table (a two-step trie with batch lookup) that any number of workers read without waiting, and
//! all take and lose routes while they run.
//!
//! **Ports:** 1 input, any number of outputs, push.
//!
//! **Arguments:** one route each.
//! * `ADDR/MASK` prefix, as `18.26.4.0/24`, `18.26.4/24` or with a mask; a bare address is a host route.
//! * `GATEWAY` next hop; none, `-` or 0.0.0.0 leaves the destination as it is.
//! * `OUTPUT` output number; -1 drops.
//!
//! **Metadata:** destination annotation read, and set to the gateway.
//!
//! **Drops:** `no-route`, for packets without route or with output -1. The first five are printed.
//!
//! **Handlers**
//! * `table` read: all routes. `nroutes` read: how many.
//! * `lookup` read with an address: output and gateway for it.
//! * `add` write: adds a route; fails if there is one for the prefix. `set` write: adds or replaces.
//! * `remove` write: removes the route of a prefix, given with or without gateway and output.
//! * `ctrl` write: several lines of `add`, `set` and `remove`, all or none. `flush` write: removes all routes.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> GetIPAddress(16)
//!   -> rt :: StaticIPLookup(10.0.0.0/8 0, 0.0.0.0/0 10.0.0.1 1);
//! rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: GetIPAddress, DecIPTTL. RFC 1812 (5.2.4)

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::args::Args;
use engine::{Class, Cx, Element, Handler, HandlerError, Reason, Sharing};
use packet::{Batch, Packet, anno};
use sync::rcu;
use tables::fib4::{Fib4Reader, Fib4Writer, NextHopId, Prefix4};

use crate::tools::Splitter;

const fn class(name: &'static str) -> Class {
    Class::new(name, "1/-", || Box::new(LookupIpRoute::default()))
        .processing("h/h")
        .sharing(Sharing::Shared)
        .handlers(HANDLERS)
        .file(file!())
}

const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("nroutes"),
    Handler::read("lookup"),
    Handler::write("add"),
    Handler::write("set"),
    Handler::write("remove"),
    Handler::write("ctrl"),
    Handler::write("flush"),
];

/// The descriptor.
pub const STATIC: Class = class("StaticIPLookup");
/// The descriptor of a synonym.
pub const LOOKUP: Class = class("LookupIPRoute");
/// The descriptor of a synonym.
pub const LINEAR: Class = class("LinearIPLookup");
/// The descriptor of a synonym.
pub const RADIX: Class = class("RadixIPLookup");
/// The descriptor of a synonym.
pub const DIRECT: Class = class("DirectIPLookup");
/// The descriptor of a synonym.
pub const RANGE: Class = class("RangeIPLookup");
/// The descriptor of a synonym.
pub const SORTED: Class = class("SortedIPLookup");

/// Where a route leads. Routes with the same gateway and output share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextHop {
    /// 0.0.0.0 for none.
    gateway: Ipv4Addr,
    /// `DROP` to drop.
    output: u32,
}

/// The output that drops.
const DROP: u32 = u32::MAX;

/// A route as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    prefix: Prefix4,
    hop: NextHop,
}

/// The side that changes the table.
struct Control {
    fib: Fib4Writer,
    hops: Vec<NextHop>,
}

/// What all instances share.
struct Table {
    control: Mutex<Control>,
    hops: rcu::Cell<Vec<NextHop>>,
    /// Messages printed about packets without route.
    complaints: AtomicU32,
}

impl Table {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says which destination has no route, for the first few.
    fn complain(&self, cx: &Cx<'_>, packet: &Packet) {
        if self.complaints.load(Ordering::Relaxed) < 5 && self.complaints.fetch_add(1, Ordering::Relaxed) < 5
        {
            cx.print(&format!("{}: no route for {}", cx.name(), Ipv4Addr::from(packet.dst_ip())));
        }
    }

    /// The id of a next hop, made known to readers before any route names it.
    fn id(&self, control: &mut Control, hop: NextHop) -> Result<NextHopId, String> {
        if let Some(at) = control.hops.iter().position(|h| *h == hop) {
            return Ok(NextHopId(at as u32));
        }
        if control.hops.len() > NextHopId::MAX.0 as usize {
            return Err(format!("more than {} different next hops", NextHopId::MAX.0));
        }
        control.hops.push(hop);
        self.hops.publish(control.hops.clone()).map_err(|e| e.to_string())?;
        Ok(NextHopId(control.hops.len() as u32 - 1))
    }

    fn set(&self, control: &mut Control, route: &Route) -> Result<(), String> {
        let id = self.id(control, route.hop)?;
        control.fib.insert(route.prefix, id).map(drop).map_err(|e| e.to_string())
    }
}

impl Control {
    fn find(&self, prefix: Prefix4) -> Option<NextHop> {
        self.fib.get(prefix).map(|id| self.hops[id.0 as usize])
    }
}

#[derive(Default)]
struct LookupIpRoute {
    table: Option<Arc<Table>>,
    fib: Option<Fib4Reader>,
    noutputs: usize,
    splitter: Splitter,
    addresses: Vec<u32>,
    found: Vec<u32>,
}

impl LookupIpRoute {
    /// Reads `ADDR/MASK [GATEWAY] OUTPUT`.
    fn parse(&self, text: &str) -> Result<Route, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (prefix, gateway, output) = match words[..] {
            [prefix, output] => (prefix, "-", output),
            [prefix, gateway, output] => (prefix, gateway, output),
            _ => return Err(format!("a route is ADDR/MASK [GATEWAY] OUTPUT, not '{text}'")),
        };
        let gateway = match gateway {
            "-" => Ipv4Addr::UNSPECIFIED,
            text => text.parse().map_err(|_| format!("'{text}' is not a gateway's address"))?,
        };
        let output = match output.parse::<i64>() {
            Ok(-1) => DROP,
            Ok(n) if n >= 0 && (n as usize) < self.noutputs => n as u32,
            Ok(n) => {
                return Err(format!(
                    "there is no output {n} (outputs 0 to {} are connected)",
                    self.noutputs as i64 - 1
                ));
            }
            Err(_) => return Err(format!("'{output}' is not an output number")),
        };
        Ok(Route { prefix: parse_prefix(prefix)?, hop: NextHop { gateway, output } })
    }

    fn table(&self) -> &Arc<Table> {
        self.table.as_ref().expect("configured before use")
    }

    /// Executes one line of the control language.
    fn command(&self, control: &mut Control, verb: &str, text: &str) -> Result<(), String> {
        match verb {
            "add" => {
                let route = self.parse(text)?;
                match control.find(route.prefix) {
                    Some(_) => Err(format!("there is a route for {} already", route.prefix)),
                    None => self.table().set(control, &route),
                }
            }
            "set" => self.table().set(control, &self.parse(text)?),
            "remove" => {
                let mut words = text.split_ascii_whitespace();
                let prefix = parse_prefix(words.next().unwrap_or_default())?;
                let wanted = if words.next().is_some() { Some(self.parse(text)?.hop) } else { None };
                match control.find(prefix) {
                    Some(hop) if wanted.is_none_or(|w| w == hop) => {
                        control.fib.remove(prefix).map(drop).map_err(|e| e.to_string())
                    }
                    _ => Err(format!("there is no such route: {text}")),
                }
            }
            _ => Err(format!("expected add, set or remove, not '{verb}'")),
        }
    }

    /// Executes several lines, all or none.
    fn transaction(&self, control: &mut Control, text: &str) -> Result<(), String> {
        let before: Vec<_> = control.fib.iter().collect();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Err(why) = self.command(control, verb, rest) {
                control.fib.replace_all(before).map_err(|e| e.to_string())?;
                return Err(format!("{line}: {why}; nothing was changed"));
            }
        }
        Ok(())
    }
}

/// Reads a prefix; host bits beyond the mask are cleared, as Click does.
fn parse_prefix(text: &str) -> Result<Prefix4, String> {
    let prefix: wire::Prefix4 =
        text.parse().map_err(|_| format!("'{text}' is not a prefix (ADDRESS/LENGTH)"))?;
    Prefix4::new(u32::from(prefix.addr()), prefix.len()).ok_or_else(|| format!("'{text}' is not a prefix"))
}

impl Element for LookupIpRoute {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.noutputs = args.noutputs;
        let fib = match Fib4Writer::new(&args.rcu) {
            Ok(fib) => fib,
            Err(why) => return args.error(why.to_string()),
        };
        self.fib = Some(fib.reader());
        let hops = rcu::Cell::new(&args.rcu, Vec::new());
        self.table = Some(Arc::new(Table {
            control: Mutex::new(Control { fib, hops: Vec::new() }),
            hops,
            complaints: AtomicU32::new(0),
        }));
        for text in args.rest() {
            let table = self.table();
            let done = self.parse(&text).and_then(|route| table.set(&mut table.control(), &route));
            if let Err(why) = done {
                args.error(why);
            }
        }
    }

    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(LookupIpRoute {
            table: self.table.clone(),
            fib: self.fib.clone(),
            noutputs: self.noutputs,
            ..Default::default()
        }))
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let LookupIpRoute { table: Some(table), fib: Some(fib), splitter, addresses, found, .. } = self
        else {
            return;
        };
        addresses.clear();
        addresses.extend(batch.iter().map(|p| u32::from_be_bytes(p.dst_ip())));
        found.resize(addresses.len(), 0);
        fib.lookup_batch(cx.rcu(), addresses, found);
        let hops = table.hops.read(cx.rcu());
        let hop = |id: &u32| hops.get(*id as usize).filter(|h| h.output != DROP);

        // Where each packet goes: the output's number in place of the next hop's.
        let mut lost = false;
        for (packet, id) in batch.iter_mut().zip(found.iter_mut()) {
            match hop(id) {
                Some(hop) => {
                    if !hop.gateway.is_unspecified() {
                        packet.set_anno(anno::DST_IP, hop.gateway.octets());
                    }
                    *id = hop.output;
                }
                None => {
                    *id = DROP;
                    lost = true;
                }
            }
        }
        if lost {
            let mut outputs = found.iter();
            let routed = |_: &mut Packet| outputs.next() != Some(&DROP);
            batch.partition(routed, |p| {
                table.complain(cx, &p);
                cx.drop(Reason::NoRoute, p);
            });
            found.retain(|output| *output != DROP);
        }
        let mut outputs = found.iter();
        splitter.split(cx, batch, |_| outputs.next().map_or(0, |o| *o as usize));
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        let control = self.table().control();
        let show = |prefix: Prefix4, id: NextHopId| {
            let hop = control.hops[id.0 as usize];
            let gateway = if hop.gateway.is_unspecified() { "-".into() } else { hop.gateway.to_string() };
            let output = if hop.output == DROP { -1 } else { i64::from(hop.output) };
            // Columns as Click's: a second tab where the first column is short.
            let (prefix, gateway) = (format!("{prefix}\t"), format!("{gateway}\t"));
            let tab = |text: &str, width| if text.len() < width { "\t" } else { "" };
            format!("{prefix}{}{gateway}{}{output}\n", tab(&prefix, 17), tab(&gateway, 9))
        };
        match name {
            "nroutes" => Ok(control.fib.len().to_string()),
            "lookup" => {
                let address: Ipv4Addr = param
                    .trim()
                    .parse()
                    .map_err(|_| HandlerError::bad_value(name, param, "an IPv4 address"))?;
                Ok(match control.fib.longest_match(u32::from(address)) {
                    None => "-1".into(),
                    Some((_, id)) => {
                        let hop = control.hops[id.0 as usize];
                        let output = if hop.output == DROP { -1 } else { i64::from(hop.output) };
                        match hop.gateway.is_unspecified() {
                            true => output.to_string(),
                            false => format!("{output} {}", hop.gateway),
                        }
                    }
                })
            }
            _ => Ok(control.fib.iter().map(|(prefix, id)| show(prefix, id)).collect()),
        }
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let control = &mut *self.table().control();
        let done = match name {
            "ctrl" => self.transaction(control, value),
            "flush" => control.fib.replace_all([]).map_err(|e| e.to_string()),
            verb => self.command(control, verb, value),
        };
        done.map_err(HandlerError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, Run};

    const ROUTES: &str =
        "10.0.0.0/8 0, 10.1.0.0/16 1.1.1.1 1, 10.1.2.3 2.2.2.2 2, 192.168.0.0/255.255.0.0 -1";

    fn to(address: [u8; 4]) -> packet::Packet {
        let mut p = packet::Packet::copy_of(&address).unwrap();
        p.set_dst_ip(address);
        p
    }

    fn run(destinations: &[[u8; 4]], burst: usize) -> Run {
        let packets = destinations.iter().map(|d| to(*d)).collect();
        Rig::new(&format!("RadixIPLookup({ROUTES})")).outputs(3).burst(burst).packets(packets).run()
    }

    // conformance: RFC1812-5.2.4.3
    #[test]
    fn longest_match_wins_and_gateways_replace_destinations() {
        for burst in [1, 32] {
            let run = run(
                &[
                    [10, 9, 9, 9],
                    [10, 1, 9, 9],
                    [10, 1, 2, 3],
                    [10, 1, 2, 4],
                    [192, 168, 1, 1],
                    [11, 0, 0, 1],
                ],
                burst,
            );
            let out =
                |name: &str| run.out(name).iter().map(|p| (p.data()[3], p.dst_ip())).collect::<Vec<_>>();
            assert_eq!(out("o0"), [(9, [10, 9, 9, 9])]);
            assert_eq!(out("o1"), [(9, [1, 1, 1, 1]), (4, [1, 1, 1, 1])]);
            assert_eq!(out("o2"), [(3, [2, 2, 2, 2])]);
            assert_eq!(run.drops("e"), [(Reason::NoRoute, 2)]);
            assert_eq!(run.printed(), "e: no route for 192.168.1.1\ne: no route for 11.0.0.1\n");
        }
    }

    #[test]
    fn handlers_change_the_table() {
        let mut run = run(&[], 32);
        assert_eq!(run.read("e.nroutes"), "4");
        run.write("e.add", "1.0.0.0/8 2").unwrap();
        assert!(run.write("e.add", "1.0.0.0/8 1").is_err());
        run.write("e.set", "1.0.0.0/8 9.9.9.9 1").unwrap();
        assert!(run.read("e.table").contains("1.0.0.0/8\t\t9.9.9.9\t\t1\n"));
        assert!(run.write("e.remove", "1.0.0.0/8 2").is_err());
        run.write("e.remove", "1.0.0.0/8").unwrap();
        assert!(run.write("e.remove", "1.0.0.0/8").is_err());
        assert!(run.write("e.ctrl", "add 7.0.0.0/8 1\nadd 8.0.0.0/8 5\n").is_err());
        assert_eq!(run.read("e.nroutes"), "4", "a failed transaction changes nothing");
        run.write("e.ctrl", "add 7.0.0.0/8 1\nremove 10.0.0.0/8\n").unwrap();
        assert!(run.read("e.table").contains("7.0.0.0/8"));
        run.write("e.flush", "").unwrap();
        assert_eq!(run.read("e.nroutes"), "0");
    }

    #[test]
    fn bad_routes_are_all_reported() {
        assert_eq!(
            Rig::new("StaticIPLookup(10.0.0.0/33 0, 10.0.0.0/8, 10.0.0.0/8 7, 10.0.0.0/8 x 0)").errors(),
            [
                "e: '10.0.0.0/33' is not a prefix (ADDRESS/LENGTH)",
                "e: a route is ADDR/MASK [GATEWAY] OUTPUT, not '10.0.0.0/8'",
                "e: there is no output 7 (outputs 0 to 0 are connected)",
                "e: 'x' is not a gateway's address",
            ]
        );
    }
}
