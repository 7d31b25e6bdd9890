// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRouter
//!
//! `IPRouter(DEVICE ADDR/LEN [MTU BYTES] [ETHER ADDRESS], ... [, keywords ROUTE, MTU, QUEUE, METHOD, HOST, NETNS])`
//!
//! A whole IPv4 router in one line, with any number of interfaces. It is a compound of ordinary elements, which
//! 'junctor check --flat' prints: the same that 'junctor init router' writes. Their handlers are those of ROUTER/rt,
//! ROUTER/arp0 and so on, ROUTER being the name that you give it.
//!
//! **Ports:** none needed. With output 0 connected, packets for the router itself that are not pings leave there, IP
//! header first, rather than be dropped; IP packets that come in at input 0 are routed.
//!
//! **Arguments:** one for each interface:
//! * `DEVICE` the interface, as FromDevice has it. `ADDR/LEN` the router's address on it, and the network's prefix
//!   length; several of them may follow each other, and the first is the one that speaks.
//! * `MTU` bytes of the longest IP packet on it, by default as the interface has it, or 1500 where there is no such
//!   interface. `ETHER` Ethernet address, by default what AddressInfo or the interface itself says.
//!
//! **Keywords**
//! * `ROUTE PREFIX NEXTHOP [DEVICE]` a route; may be repeated. DEVICE may be left out where NEXTHOP is on one of the
//!   interfaces' networks. `0.0.0.0/0` is the default route; without one, senders are told that there is no route.
//! * `MTU` for interfaces without their own. `QUEUE` packets that may wait for each interface, default 1024.
//! * `HOST` boolean, default false: this host's kernel answers what the fast path cannot. Each interface gets a twin, a tap
//!   `host0`, `host1`... with its Ethernet address, MTU and IP addresses. What is for the router itself, and every
//!   exception (TTL expired, bad options, too big, no neighbour, no route), goes to the twin of the interface by which it
//!   came, limited by a Punt for each reason; what the kernel sends there leaves by the interface.
//!   The kernel needs `net.ipv4.ip_forward=1` and the routes that go by next hops.
//! * `NETNS` the network namespace for the twins; implies HOST.
//! * `METHOD` how to open the devices, as FromDevice has it.
//!
//! Inside, with 0 for the first interface, 1 for the second and so on: `rt` the routing table (StaticIPLookup), whose
//! output 0 is the router itself and output 1 the first interface; `ip` what it received; `in0`, `c0`, `arp0`, `out0` the
//! interface's device, classifier, ARPQuerier and queue; `redirect0`, `options0`, `ttl0`, `mtu0` the checks on the way
//! out, each with its ICMP error. A neighbour that announces another Ethernet address is believed, if it is known.
//!
//! ```click
//! IPRouter(eth0 10.0.0.1/24 ETHER 2:0:0:0:0:1, eth1 10.0.1.1/24 MTU 1400 ETHER 2:0:0:0:0:2,
//!     ROUTE 0.0.0.0/0 10.0.1.254);
//! ```
//!
//! See also: StaticIPLookup, ARPQuerier, IPFragmenter, ICMPError. RFC 1812

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use lang::{Fault, Use};
use wire::{AddrMask4, Prefix4};

use super::Compound;
use super::arguments::{Given, Words, interface_mtu, keyword, no_twins, ports, unknown_keyword};

/// The compound.
pub const COMPOUND: Compound = Compound::new(NAME, write, file!());

const NAME: &str = "IPRouter";
const KEYWORDS: [&str; 6] = ["ROUTE", "MTU", "QUEUE", "METHOD", "HOST", "NETNS"];
const INTERFACE: &str = "an interface as `eth0 10.0.0.1/24`, with `MTU bytes` or `ETHER address` if need be";
const ROUTE: &str = "a route as `ROUTE 0.0.0.0/0 10.0.0.254` or `ROUTE 0.0.0.0/0 10.0.0.254 eth0`";

/// The least MTU of a link that carries IPv4 (RFC 791, 3.2).
pub const MTU_MIN: u16 = 68;
/// Packets that may wait for an interface.
const QUEUE: usize = 1024;
/// How ICMP errors are sent: marked as RFC 1812 (4.3.2.5) asks, and at a rate that neither a flood nor a scan exceeds.
const ERRORS: &str = "TOS copy, RATE 1000, DST_RATE 10";

/// An interface of a router.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The device.
    pub name: String,
    /// Its addresses, each with its network; at least one.
    pub addresses: Vec<(Ipv4Addr, Prefix4)>,
    /// The longest IP packet that it carries, in bytes.
    pub mtu: u16,
    /// Its Ethernet address, or a name for it.
    pub station: String,
}

impl Interface {
    /// The address that speaks for the router.
    fn address(&self) -> Ipv4Addr {
        self.addresses[0].0
    }

    fn reaches(&self, hop: Ipv4Addr) -> bool {
        self.addresses.iter().any(|(_, prefix)| prefix.contains(hop))
    }
}

/// A route to a next hop.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Destinations.
    pub prefix: Prefix4,
    /// Next hop.
    pub hop: Ipv4Addr,
    /// Number of the interface that reaches it.
    pub interface: usize,
}

/// A router: what to write a text from.
#[derive(Clone, Debug)]
pub struct Router {
    /// At least one.
    pub interfaces: Vec<Interface>,
    /// Beside those to the interfaces' own networks.
    pub routes: Vec<Route>,
    /// Packets that may wait for an interface.
    pub queue: usize,
    /// How to open devices, if not the best way.
    pub method: Option<String>,
    /// Whether the kernel answers what the fast path cannot.
    pub host: bool,
    /// The network namespace in which it does.
    pub netns: Option<String>,
    /// Whether it is joined to `input` and `output` of the compound around it.
    pub joined: [bool; 2],
}

impl Router {
    /// A router that stands alone, without routes.
    pub fn new(interfaces: Vec<Interface>) -> Router {
        Router {
            interfaces,
            routes: Vec::new(),
            queue: QUEUE,
            method: None,
            host: false,
            netns: None,
            joined: [false; 2],
        }
    }

    /// The first interface that has a next hop on its networks.
    pub fn interface_towards(&self, hop: Ipv4Addr) -> Option<usize> {
        self.interfaces.iter().position(|i| i.reaches(hop))
    }

    fn has_default(&self) -> bool {
        self.routes.iter().any(|r| r.prefix == Prefix4::DEFAULT)
    }

    /// The configuration, with comments for a reader.
    pub fn text(&self) -> String {
        let mut text = self.common();
        for i in 0..self.interfaces.len() {
            text += &self.port(i);
        }
        text
    }

    /// The routing table's arguments.
    fn table(&self) -> Vec<String> {
        let addresses = || {
            let numbered = self.interfaces.iter().enumerate();
            numbered.flat_map(|(i, port)| port.addresses.iter().map(move |a| (i, a)))
        };
        let mut table: Vec<String> = addresses().map(|(_, (a, _))| format!("{a}/32 0")).collect();
        table.push("255.255.255.255/32 0".into());
        if self.host {
            // What the kernel's routing daemons say to each other on a link.
            table.push("224.0.0.0/24 0".into());
        }
        // On a link of two hosts or of one, the network is no more than its addresses.
        table.extend(
            addresses().filter(|(_, (_, p))| p.len() < 32).map(|(i, (_, p))| format!("{p} {}", i + 1)),
        );
        table.extend(self.routes.iter().map(|r| format!("{} {} {}", r.prefix, r.hop, r.interface + 1)));
        if !self.has_default() {
            table.push(format!("0.0.0.0/0 {}", self.interfaces.len() + 1));
        }
        table
    }

    /// What all interfaces share.
    fn common(&self) -> String {
        let networks: Vec<String> = self
            .interfaces
            .iter()
            .flat_map(|i| i.addresses.iter().map(|(a, p)| format!("{a}/{}", p.len())))
            .collect();
        let mut text = format!(
            "// The routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself.\n\
             rt :: StaticIPLookup(\n    {1});\n\n\
             // All received IP packets, their link header removed. Impossible addresses and directed broadcasts are dropped.\n\
             ip :: Strip(14) -> CheckIPHeader(INTERFACES {0}) -> CheckIPAddresses(INTERFACES {0})\n\
             \x20   -> GetIPAddress(16) -> rt;\n",
            networks.join(" "),
            self.table().join(",\n    "),
        );
        text += &if self.host { self.kernel() } else { self.local() };
        if self.joined[0] {
            text += "\n// What comes from the configuration around.\n\
                     input -> CheckIPHeader -> GetIPAddress(16) -> Paint(0) -> [0]rt;\n";
        }
        if !self.has_default() && !self.host {
            let (address, output) = (self.interfaces[0].address(), self.interfaces.len() + 1);
            let _ = write!(
                text,
                "\n// For nobody that we know: the sender is told so.\n\
                 rt[{output}] -> ICMPError({address}, unreachable, net, {ERRORS}) -> [0]rt;\n"
            );
        }
        text
    }

    /// What is for the router, where it answers by itself.
    fn local(&self) -> String {
        format!(
            "\n// Packets for this router: it answers pings.\n\
             rt[0] -> IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16) -> local :: IPClassifier(icmp type echo, -);\n\
             local[0] -> ICMPPingResponder -> [0]rt;\n\
             local[1] -> {};\n",
            if self.joined[1] { "output" } else { "Discard" },
        )
    }

    /// What is for the router and what is an exception, where the kernel answers.
    fn kernel(&self) -> String {
        let mut text = String::from(
            "\n// What the kernel answers, at most so many a second for each reason: packets for this router, and exceptions.\n\
             // They go unchanged to the twin of the interface by which they came.\n\
             rt[0] -> forus :: Punt(for-us, RATE 10000) -> kernel :: PaintSwitch;\n\
             options :: Punt(options) -> kernel;\n\
             ttl :: Punt(ttl-expired) -> kernel;\n\
             toobig :: Punt(too-big, RESTORE_TTL true) -> kernel;\n\
             noneighbour :: Punt(no-neighbour, RESTORE_TTL true) -> again :: PaintSwitch;\n\
             kernel[0] -> Discard;\n\
             again[0] -> Discard;\n",
        );
        if !self.has_default() {
            let _ =
                writeln!(text, "rt[{}] -> noroute :: Punt(no-route) -> kernel;", self.interfaces.len() + 1);
        }
        text
    }

    /// The lines of interface `i` that say who answers ARP queries and what is not IP, and who answers exceptions.
    fn answers(&self, i: usize, answered: &str, networks: &str) -> [String; 2] {
        let Interface { name, mtu, station, addresses, .. } = &self.interfaces[i];
        let (address, output) = (addresses[0].0, i + 1);
        let redirect = format!(
            "redirect{i}[1] -> ICMPError({address}, redirect, host, ONLINK {networks}, {ERRORS}) -> [0]rt;\n"
        );
        if !self.host {
            let stations = format!(
                "c{i}[0] -> asked{i} :: Tee -> ARPResponder({answered}) -> out{i};\n\
                 asked{i}[1] -> [1]arp{i};\n\
                 c{i}[1] -> [1]arp{i};\n\
                 c{i}[3] -> Discard;\n"
            );
            let exceptions = format!(
                "options{i}[1] -> ICMPError({address}, parameterproblem, {ERRORS}) -> [0]rt;\n\
                 ttl{i}[1] -> ICMPError({address}, timeexceeded, {ERRORS}) -> [0]rt;\n\
                 mtu{i}[1] -> ICMPError({address}, unreachable, needfrag, PMTU {mtu}, {ERRORS}) -> [0]rt;\n\
                 arp{i}[1] -> out{i};\n\
                 arp{i}[2] -> ICMPError({address}, unreachable, host, {ERRORS}) -> [0]rt;\n"
            );
            return [stations, redirect + &exceptions];
        }
        let given: String = addresses.iter().map(|(a, p)| format!(", ADDR {a}/{}", p.len())).collect();
        let netns = self.netns.as_ref().map_or(String::new(), |n| format!(", NETNS {n}"));
        let stations = format!(
            "// Its twin: the kernel's side of this interface. The kernel answers ARP and gets all that is not IPv4, too.\n\
             FromHost(host{i}{given}, TWIN {name}{netns}) -> out{i};\n\
             twin{i} :: ToHost(host{i});\n\
             kernel[{output}] -> Unstrip(14) -> twin{i};\n\
             again[{output}] -> EtherEncap(0x0800, {station}, {station}) -> twin{i};\n\
             c{i}[0] -> asked{i} :: Tee -> [1]arp{i};\n\
             asked{i}[1] -> twin{i};\n\
             c{i}[1] -> replies{i} :: Tee -> [1]arp{i};\n\
             replies{i}[1] -> twin{i};\n\
             c{i}[3] -> other{i} :: Punt(other) -> twin{i};\n"
        );
        let exceptions = format!(
            "options{i}[1] -> options;\n\
             ttl{i}[1] -> ttl;\n\
             mtu{i}[1] -> toobig;\n\
             arp{i}[1] -> out{i};\n\
             arp{i}[2] -> noneighbour;\n"
        );
        [stations, redirect + &exceptions]
    }

    /// What belongs to interface `i`.
    fn port(&self, i: usize) -> String {
        let Interface { name, mtu, station, .. } = &self.interfaces[i];
        let (address, output, queue) = (self.interfaces[i].address(), i + 1, self.queue);
        let method = self.method.as_ref().map_or(String::new(), |m| format!(", METHOD {m}"));
        let answered: Vec<String> =
            self.interfaces[i].addresses.iter().map(|(a, _)| format!("{a} {station}")).collect();
        let answered = answered.join(", ");
        let networks: Vec<String> = self.interfaces[i].addresses.iter().map(|(_, p)| p.to_string()).collect();
        let [stations, exceptions] = self.answers(i, &answered, &networks.join(" "));
        let who = if self.host { "the kernel" } else { "the sender by ICMP" };
        format!(
            r"
// Interface {name}.
in{i} :: FromDevice({name}{method}) -> c{i} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out{i} :: Queue({queue}) -> ToDevice({name}{method});
arp{i} :: ARPQuerier({address}, {station}, UNSOLICITED update);
c{i}[2] -> Paint({output}) -> ip;
{stations}
// What leaves by {name}: RFC 1812's checks in order, each exception to {who}.
rt[{output}] -> DropBroadcasts
    -> redirect{i} :: PaintTee({output})
    -> options{i} :: IPGWOptions({address})
    -> FixIPSrc({address})
    -> ttl{i} :: DecIPTTL
    -> mtu{i} :: IPFragmenter({mtu})
    -> arp{i} -> out{i};
{exceptions}"
        )
    }
}

/// Writes the body for a use.
fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    let mut faults = Vec::new();
    let router = read(request, &mut faults);
    ports(request, &mut faults);
    match router {
        Some(router) if faults.is_empty() => Ok(router.text()),
        _ => Err(faults),
    }
}

fn read(request: &Use<'_>, faults: &mut Vec<Fault>) -> Option<Router> {
    let mut router = Router::new(Vec::new());
    router.joined = request.ports.map(|n| n > 0);
    let (mut mtu, mut numbers, mut unread) = (None, Vec::new(), false);
    for (n, arg) in request.args.iter().enumerate() {
        let key = keyword(arg, &KEYWORDS);
        let mut words = Words::of(arg, n, faults);
        if key.is_none() {
            if let Some((what, help)) = unknown_keyword(arg, &KEYWORDS, NAME) {
                words.fault(what, help);
                continue;
            }
            let Some(given) = Given::<AddrMask4>::read(words, MTU_MIN, INTERFACE) else {
                unread = true;
                continue;
            };
            match interface(&given, n, faults) {
                Some(interface) => {
                    router.interfaces.push(interface);
                    numbers.push((n, given.mtu));
                }
                None => unread = true,
            }
            continue;
        }
        words.next();
        match key {
            Some("MTU") => mtu = words.number("MTU", MTU_MIN),
            Some("QUEUE") => router.queue = words.number("QUEUE", 1).unwrap_or(QUEUE),
            Some("HOST") => {
                let text = words.next();
                router.host |= words.read("a boolean", text, "HOST true").unwrap_or(false);
            }
            Some("NETNS") => {
                router.netns = words
                    .next()
                    .filter(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c)));
                router.host = true;
                if router.netns.is_none() {
                    words.fault("NETNS names no network namespace", "write `NETNS name`");
                }
            }
            Some("METHOD") => router.method = words.next().filter(|m| super::arguments::is_interface_name(m)),
            // Routes are read when all interfaces are known.
            _ => continue,
        }
        words.end("one value behind the keyword");
    }
    no_twins(numbers.iter().zip(&router.interfaces).map(|((n, _), i)| (*n, i.name.as_str())), faults);
    for (interface, (_, own)) in router.interfaces.iter_mut().zip(&numbers) {
        interface.mtu = own.or(mtu).unwrap_or(interface.mtu);
    }
    if router.interfaces.is_empty() {
        if !unread {
            faults.push(Fault::new(None, "a router needs an interface", format!("write {INTERFACE}")));
        }
        return None;
    }
    for (n, arg) in request.args.iter().enumerate().filter(|(_, a)| keyword(a, &["ROUTE"]).is_some()) {
        let route = route(&router, Words::of(arg, n, faults), unread);
        router.routes.extend(route);
    }
    Some(router)
}

fn interface(given: &Given<AddrMask4>, n: usize, faults: &mut Vec<Fault>) -> Option<Interface> {
    let mut addresses = Vec::new();
    for address in &given.addresses {
        let Some(prefix) = address.prefix() else {
            faults.push(Fault::new(
                Some(n),
                format!("the mask of {} has holes", address.addr),
                "write a prefix length",
            ));
            return None;
        };
        let (first, last) = (prefix.addr(), prefix.last());
        if address.addr.is_multicast() || address.addr.is_unspecified() || address.addr.is_broadcast() {
            let what = format!("{} is not an address that a router can have", address.addr);
            faults.push(Fault::new(Some(n), what, format!("write {INTERFACE}")));
            return None;
        }
        if prefix.len() < 31 && (address.addr == first || address.addr == last) {
            let what =
                format!("{} is the network {prefix} or its broadcast address, not a router's", address.addr);
            faults.push(Fault::new(Some(n), what, "write the router's own address on that network"));
            return None;
        }
        addresses.push((address.addr, prefix));
    }
    let mtu = interface_mtu(&given.name).max(MTU_MIN);
    Some(Interface { name: given.name.clone(), addresses, mtu, station: given.station() })
}

/// Reads a route. Where interfaces are `missing` because they were wrong, nothing is said about those not found.
fn route(router: &Router, mut words: Words<'_>, missing: bool) -> Option<Route> {
    words.next();
    let text = words.next();
    let written = text.clone().unwrap_or_default();
    let prefix: Prefix4 = words.read("a prefix", text, ROUTE)?;
    if written.parse::<AddrMask4>().is_ok_and(|a| a.addr != prefix.addr()) {
        words.fault(format!("{written} has host bits"), format!("write {prefix}"));
        return None;
    }
    let text = words.next();
    let hop: Ipv4Addr = words.read("a next hop", text, ROUTE)?;
    let interface = match words.next() {
        Some(name) => match router.interfaces.iter().position(|i| i.name == name) {
            Some(interface) => interface,
            None if missing => return None,
            None => {
                let names: Vec<&str> = router.interfaces.iter().map(|i| i.name.as_str()).collect();
                words.fault(
                    format!("the route goes to '{name}', which is none of the interfaces"),
                    format!("name one of {}", names.join(", ")),
                );
                return None;
            }
        },
        None => match router.interface_towards(hop) {
            Some(interface) => interface,
            None if missing => return None,
            None => {
                words.fault(
                    format!("next hop {hop} is on none of the interfaces' networks"),
                    "name the interface behind it, or correct the address",
                );
                return None;
            }
        },
    };
    if router.interfaces.iter().any(|i| i.addresses.iter().any(|(a, _)| *a == hop)) {
        words.fault(format!("next hop {hop} is this router itself"), "name the other router's address");
        return None;
    }
    words.end(ROUTE);
    Some(Route { prefix, hop, interface })
}
