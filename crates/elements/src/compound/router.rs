// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router of either family or of both, and the text of its configuration.
//!
//! Each interface has one device, one classifier and one queue, however many families use it; what a family adds to it, and
//! what it has once for the whole router, is in `ipv4.rs` and `ipv6.rs`.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use element::interfaces;
use wire::{AddrMask4, AddrPrefix6, MacAddr, Prefix4, Prefix6};

use super::vrf::{self, Vrf};
use super::{balance, bfd, firewall, ipsec, ipv4, ipv6, mpls, multicast, nat, sync};

/// Packets that may wait for an interface.
const QUEUE: usize = 1024;
/// Messages of control protocols that may wait for the kernel: more than all limits let through at once.
const CONTROL_IN: usize = 4096;
/// Other packets that may wait for the kernel.
const PUNTS: usize = 512;
/// Messages of the kernel's control protocols that may wait for an interface.
pub(super) const CONTROL_OUT: usize = 1024;

/// An address with its network, of either family, as the user writes it.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    /// `10.0.0.1/24`
    Four(AddrMask4),
    /// `2001:db8::1/64`
    Six(AddrPrefix6),
}

impl FromStr for Address {
    type Err = wire::ParseAddrError;

    fn from_str(text: &str) -> Result<Address, Self::Err> {
        if text.contains(':') { text.parse().map(Address::Six) } else { text.parse().map(Address::Four) }
    }
}

/// What is wrong with a request, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// How to fix it.
    pub help: String,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Wrong {
        Wrong { what: what.into(), help: help.into() }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

/// An interface of a router.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The device.
    pub name: String,
    /// Its IPv4 addresses, each with its network. The first is the one that speaks.
    pub four: Vec<(Ipv4Addr, Prefix4)>,
    /// Whether the kernel gets an IPv4 address by DHCP, where it answers.
    pub dhcp: bool,
    /// Its IPv6 addresses, each with its network, but the link-local one. The first is the one that speaks.
    pub six: Vec<(Ipv6Addr, Prefix6)>,
    /// Its link-local IPv6 address, if it has IPv6.
    pub link_local: Option<Ipv6Addr>,
    /// Whether router advertisements are sent, if it has been said.
    pub advertise: Option<bool>,
    /// The prefixes that router advertisements name, if not those of the addresses.
    pub prefixes: Vec<Prefix6>,
    /// The longest IP packet that it carries, in bytes.
    pub mtu: u16,
    /// Whether that stays, because it was said, when the device gets another MTU.
    pub keeps_mtu: bool,
    /// Its Ethernet address, or a name for it.
    pub station: String,
}

impl Interface {
    /// An interface without addresses yet, known to elements by its own name.
    pub fn new(name: &str, mtu: u16) -> Interface {
        Interface {
            name: name.to_owned(),
            four: Vec::new(),
            dhcp: false,
            six: Vec::new(),
            link_local: None,
            advertise: None,
            prefixes: Vec::new(),
            mtu,
            keeps_mtu: false,
            station: name.to_owned(),
        }
    }

    /// Gives it an address.
    ///
    /// # Errors
    /// An address that a router cannot have.
    pub fn add(&mut self, address: Address) -> Result<(), Wrong> {
        match address {
            Address::Four(address) => self.add4(address),
            Address::Six(address) => self.add6(address),
        }
    }

    fn add4(&mut self, address: AddrMask4) -> Result<(), Wrong> {
        let Some(prefix) = address.prefix() else {
            return Err(Wrong::new(
                format!("the mask of {} has holes", address.addr),
                "write a prefix length",
            ));
        };
        let (addr, first, last) = (address.addr, prefix.addr(), prefix.last());
        if addr.is_multicast() || addr.is_unspecified() || addr.is_broadcast() || addr.is_loopback() {
            let what = format!("{addr} is not an address that a router can have");
            return Err(Wrong::new(what, "write the router's own address on that network, as 10.0.0.1/24"));
        }
        if prefix.len() < 31 && (addr == first || addr == last) {
            return Err(Wrong::new(
                format!("{addr} is the network {prefix} or its broadcast address, not a router's"),
                "write the router's own address on that network",
            ));
        }
        self.four.push((addr, prefix));
        Ok(())
    }

    fn add6(&mut self, address: AddrPrefix6) -> Result<(), Wrong> {
        let (addr, prefix) = (address.addr(), address.prefix());
        if addr.is_multicast() || addr.is_unspecified() || addr.is_loopback() {
            let what = format!("{addr} is not an address that a router can have");
            return Err(Wrong::new(
                what,
                "write the router's own address on that network, as 2001:db8::1/64",
            ));
        }
        if addr.is_unicast_link_local() {
            if let Some(other) = self.link_local.replace(addr) {
                return Err(Wrong::new(
                    format!("{addr} is a second link-local address next to {other}"),
                    "give an interface one of them, or none",
                ));
            }
            return Ok(());
        }
        // A link between two routers may use all its addresses (RFC 6164).
        if prefix.len() < 127 && addr == prefix.addr() {
            return Err(Wrong::new(
                format!("{addr} is the anycast address of all routers on {prefix}, not one router's"),
                "write the router's own address on that network",
            ));
        }
        self.six.push((addr, prefix));
        Ok(())
    }

    /// To be called when all addresses are known: makes the link-local address that was not given.
    pub fn complete(&mut self) {
        if self.link_local.is_none() && !self.six.is_empty() {
            self.link_local = Some(link_local(&self.name, &self.station));
        }
    }

    /// Whether it has IPv4.
    pub fn has4(&self) -> bool {
        !self.four.is_empty() || self.dhcp
    }

    /// The IPv4 address by which it speaks; 0.0.0.0 while it has none.
    pub(super) fn speaker4(&self) -> Ipv4Addr {
        self.four.first().map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| *address)
    }

    /// Whether it has IPv6.
    pub fn has6(&self) -> bool {
        self.link_local.is_some()
    }

    /// Its addresses in the order of families.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let four = self.four.iter().map(|(a, _)| IpAddr::V4(*a));
        let six = self.six.iter().map(|(a, _)| IpAddr::V6(*a));
        four.chain(six).chain(self.link_local.map(IpAddr::V6))
    }

    fn reaches(&self, hop: IpAddr) -> bool {
        match hop {
            IpAddr::V4(hop) => self.four.iter().any(|(_, prefix)| prefix.contains(hop)),
            IpAddr::V6(hop) => self.six.iter().any(|(_, prefix)| prefix.contains(hop)),
        }
    }
}

/// Reports interfaces of one name, and addresses that two interfaces of a routing table have; each with the later one's place among
/// `interfaces`.
pub fn repeated(interfaces: &[&Interface], table_of: impl Fn(usize) -> usize) -> Vec<(usize, Wrong)> {
    let mut wrong = Vec::new();
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for (n, interface) in interfaces.iter().enumerate() {
        if names.contains(&&interface.name) {
            let what = format!("interface {} is given twice", interface.name);
            wrong.push((n, Wrong::new(what, "give each interface once, with all its addresses")));
        }
        names.push(&interface.name);
        let four = interface.four.iter().map(|(address, _)| IpAddr::V4(*address));
        let six = interface.six.iter().map(|(address, _)| IpAddr::V6(*address));
        for address in four.chain(six) {
            let address_of = (table_of(n), address);
            if addresses.contains(&address_of) {
                let what = format!("address {address} is given twice");
                wrong.push((n, Wrong::new(what, "give each interface addresses of its own")));
            }
            addresses.push(address_of);
        }
    }
    wrong
}

/// The link-local address that a host makes of its Ethernet address (RFC 4291, appendix A), or `fe80::1` where that is unknown.
fn link_local(name: &str, station: &str) -> Ipv6Addr {
    let known = station.parse::<MacAddr>().ok().or_else(|| interfaces::station(name));
    match known.map(|mac| mac.0).filter(|mac| *mac != [0; 6]) {
        Some([a, b, c, d, e, f]) => {
            Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
        }
        None => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    }
}

/// [`Router::add_route`] or [`Router::add_hop`]: prefix, next hop, interface.
pub type AddHop = fn(&mut Router, &str, &str, Option<&str>) -> Result<(), Wrong>;

/// A route to a next hop, or to several that share its traffic.
#[derive(Clone, Debug)]
pub struct Route<P, A> {
    /// Destinations.
    pub prefix: P,
    /// Next hops, each with the number of the interface that reaches it.
    pub hops: Vec<(A, usize)>,
    /// The number of the routing table.
    pub table: usize,
}

impl<P: Display, A: Display> Route<P, A> {
    /// As a routing table's argument.
    pub(super) fn line(&self) -> String {
        let hops: Vec<String> = self.hops.iter().map(|(hop, i)| format!("{hop} {}", i + 1)).collect();
        format!("{} {}{}", self.prefix, hops.join(" | "), vrf::suffix(self.table, " table "))
    }
}

/// A router: what to write a text from.
#[derive(Clone, Debug)]
pub struct Router {
    /// At least one.
    pub interfaces: Vec<Interface>,
    /// Those of them that have routing tables of their own: table 1, and so on.
    pub vrfs: Vec<Vrf>,
    /// In addition to those to the interfaces' own networks.
    pub routes4: Vec<Route<Prefix4, Ipv4Addr>>,
    /// The same for IPv6.
    pub routes6: Vec<Route<Prefix6, Ipv6Addr>>,
    /// Packets that may wait for an interface.
    pub queue: usize,
    /// How to open devices, if not the best way.
    pub method: Option<String>,
    /// Whether the kernel answers what the fast path cannot.
    pub host: bool,
    /// The network namespace in which it does.
    pub netns: Option<String>,
    /// The channel by which a control plane sends routes, if one does.
    pub feed: Option<String>,
    /// Whether it watches neighbours by BFD, with these sessions and those of a control plane.
    pub bfd: Option<Vec<String>>,
    /// Whether it protects packets by IPsec, with these associations and policies and those of handlers and daemons: `SA ...`, `POLICY ...`.
    pub ipsec: Option<Vec<String>>,
    /// Whether IPv4 packets that a tunnel makes too long are fragmented before they are protected, and not afterwards.
    pub splits: bool,
    /// Whether it switches labelled packets, too.
    pub mpls: bool,
    /// The file of rules by which packets may pass, if not all may.
    pub firewall: Option<String>,
    /// How addresses are translated, if they are.
    pub nat: Option<nat::Translation>,
    /// How connections are shared among servers, if they are.
    pub balance: Option<balance::Balancing>,
    /// The router whose sessions it keeps, if it does.
    pub sync: Option<sync::Peer>,
    /// Whether interfaces that do not say otherwise send router advertisements; by default, where the kernel does not
    /// answer in our place.
    pub advertise: Option<bool>,
    /// Further arguments of what sends them, such as `LIFETIME 0`.
    pub advertisements: Vec<String>,
    /// Whether it is joined to `input` and `output` of the compound around it.
    pub joined: [bool; 2],
}

impl Router {
    /// A router that stands alone, without routes.
    pub fn new(interfaces: Vec<Interface>) -> Router {
        Router {
            interfaces,
            vrfs: Vec::new(),
            routes4: Vec::new(),
            routes6: Vec::new(),
            queue: QUEUE,
            method: None,
            host: false,
            netns: None,
            feed: None,
            bfd: None,
            ipsec: None,
            splits: false,
            mpls: false,
            firewall: None,
            nat: None,
            balance: None,
            sync: None,
            advertise: None,
            advertisements: Vec::new(),
            joined: [false; 2],
        }
    }

    /// Adds a route, found by its prefix and next hop as the user writes them, and by the interface where one is named. It is one of the VRF
    /// that the prefix names, as `10.0.0.0/8@red`, else of that of the named interface, else of none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_route(&mut self, prefix: &str, hop: &str, interface: Option<&str>) -> Result<(), Wrong> {
        let network = || "write addresses of one family, as 0.0.0.0/0 10.0.0.254 or ::/0 2001:db8::9";
        let (prefix, vrf) =
            prefix.split_once('@').map_or((prefix, None), |(prefix, vrf)| (prefix, Some(vrf)));
        let to: Address =
            prefix.parse().map_err(|_| Wrong::new(format!("'{prefix}' is not a prefix"), network()))?;
        let via: IpAddr =
            hop.parse().map_err(|_| Wrong::new(format!("'{hop}' is not a next hop"), network()))?;
        let whole = |text: String| Wrong::new(format!("{prefix} has host bits"), format!("write {text}"));
        let at = |router: &Router| router.interface_towards(via, interface, vrf);
        match (to, via) {
            (Address::Four(to), IpAddr::V4(hop)) => {
                let network = to.prefix().ok_or_else(|| {
                    Wrong::new(format!("the mask of {prefix} has holes"), "write a prefix length")
                })?;
                if to.addr != network.addr() {
                    return Err(whole(network.to_string()));
                }
                let (interface, table) = at(self)?;
                self.routes4.push(Route { prefix: network, hops: vec![(hop, interface)], table });
            }
            (Address::Six(to), IpAddr::V6(hop)) => {
                if to.addr() != to.prefix().addr() {
                    return Err(whole(to.prefix().to_string()));
                }
                let (interface, table) = at(self)?;
                self.routes6.push(Route { prefix: to.prefix(), hops: vec![(hop, interface)], table });
            }
            _ => return Err(Wrong::new(format!("{prefix} and {hop} are of different families"), network())),
        }
        Ok(())
    }

    /// Adds a next hop to the route that was added last, which shares its traffic.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_hop(&mut self, prefix: &str, hop: &str, interface: Option<&str>) -> Result<(), Wrong> {
        let (four, six) = (self.routes4.len(), self.routes6.len());
        self.add_route(prefix, hop, interface)?;
        if self.routes4.len() > four
            && let Some(more) = self.routes4.pop()
            && let Some(route) = self.routes4.last_mut()
        {
            route.hops.extend(more.hops);
        } else if self.routes6.len() > six
            && let Some(more) = self.routes6.pop()
            && let Some(route) = self.routes6.last_mut()
        {
            route.hops.extend(more.hops);
        }
        Ok(())
    }

    /// The interface behind which a next hop is, and the route's table: the interface named, else the first of the table that has the hop on
    /// its networks.
    fn interface_towards(
        &self,
        hop: IpAddr,
        named: Option<&str>,
        vrf: Option<&str>,
    ) -> Result<(usize, usize), Wrong> {
        let table = vrf.map(|name| self.table_named(name)).transpose()?;
        let link_local = matches!(hop, IpAddr::V6(hop) if hop.is_unicast_link_local());
        let found = match named {
            Some(name) => self.interfaces.iter().position(|i| i.name == name).ok_or_else(|| {
                Wrong::new(
                    format!("the route goes to '{name}', which is none of the interfaces"),
                    format!("name one of {}", self.names()),
                )
            })?,
            None if link_local => {
                return Err(Wrong::new(
                    format!("next hop {hop} is link-local, and every link may have it"),
                    "name the interface behind it",
                ));
            }
            None => self.reaching(hop, table.unwrap_or(0))?,
        };
        let family = if hop.is_ipv4() { Interface::has4 } else { Interface::has6 };
        if !family(&self.interfaces[found]) {
            let (name, family) = (&self.interfaces[found].name, if hop.is_ipv4() { "IPv4" } else { "IPv6" });
            return Err(Wrong::new(
                format!("{name} has no {family} address to reach {hop} from"),
                "give it one, or name another interface",
            ));
        }
        let table = table.unwrap_or_else(|| self.table_of(found));
        if self.is_ours(self.table_of(found), hop) && !link_local {
            return Err(Wrong::new(
                format!("next hop {hop} is this router itself"),
                "name the other router's address",
            ));
        }
        Ok((found, table))
    }

    /// The first interface of a table that has a next hop on its networks.
    fn reaching(&self, hop: IpAddr, table: usize) -> Result<usize, Wrong> {
        let found = self.members(table).find(|(_, port)| port.reaches(hop));
        found.map(|(i, _)| i).ok_or_else(|| {
            let elsewhere = self.interfaces.iter().find(|port| port.reaches(hop));
            match elsewhere {
                Some(port) => Wrong::new(
                    format!("next hop {hop} is on a network of {}, which is in another VRF", port.name),
                    "name the interface behind it, or the VRF behind the prefix, as 10.0.0.0/8@red",
                ),
                None => Wrong::new(
                    format!("next hop {hop} is on none of the interfaces' networks"),
                    "name the interface behind it, or correct the address",
                ),
            }
        })
    }

    /// Whether any interface has IPv4.
    pub fn has4(&self) -> bool {
        self.interfaces.iter().any(Interface::has4)
    }

    /// Whether any interface has IPv6.
    pub fn has6(&self) -> bool {
        self.interfaces.iter().any(Interface::has6)
    }

    /// What takes a control plane's routes. The kernel answers for destinations that are unreachable or prohibited, because it has
    /// those routes, too.
    fn fed(&self) -> String {
        let Some(channel) = &self.feed else { return String::new() };
        let mut arguments = vec![channel.clone()];
        arguments.extend(self.has4().then(|| "TABLE rt".to_owned()));
        arguments.extend(self.has6().then(|| "TABLE6 rt6".to_owned()));
        arguments.extend((0..self.interfaces.len()).map(|i| format!("LINK host{i} {}", i + 1)));
        arguments.extend((1..).zip(&self.vrfs).map(|(table, vrf)| format!("VRF {} {table}", vrf.name)));
        arguments.extend(self.bfd.is_some().then(|| "BFD bfd".to_owned()));
        arguments.extend(if self.mpls { mpls::fed(self) } else { Vec::new() });
        arguments.extend(multicast::fed(self));
        arguments.extend(["LOCAL 0", "UNREACHABLE 0", "PROHIBIT 0"].map(str::to_owned));
        format!(
            "\n// Routes of the control plane, which knows the interfaces by the names of their twins.\nfeed :: RouteFeed({});\n",
            arguments.join(", ")
        )
    }

    /// Whether an interface sends router advertisements.
    pub(super) fn advertises(&self, interface: &Interface) -> bool {
        interface.has6() && interface.advertise.or(self.advertise).unwrap_or(!self.host)
    }

    /// The configuration, with comments for a reader.
    pub fn text(&self) -> String {
        let mut text = balance::text(self);
        if self.has4() {
            text += &ipv4::table(self);
        }
        if self.has6() {
            text += if self.has4() { "\n" } else { "" };
            text += &ipv6::table(self);
        }
        if self.host {
            text += "\n// What the kernel answers: packets for this router, and exceptions, at most so many a second for each reason.\n\
                     // They go unchanged to the twin of the interface by which they came.\n\
                     own :: PaintSwitch;\n\
                     kernel :: PaintSwitch;\n\
                     own[0], kernel[0] -> Discard;\n";
        }
        text += &firewall::text(self);
        text += &bfd::sorted(self);
        text += &ipsec::sorted(self);
        text += &sync::text(self);
        if self.has4() {
            text += &if self.host { ipv4::kernel(self) } else { ipv4::local(self) };
        }
        if self.has6() {
            text += &if self.host { ipv6::kernel(self) } else { ipv6::local(self) };
        }
        text += &firewall::answers(self);
        text += &nat::answers(self);
        text += &balance::idle(self);
        text += &if self.mpls { mpls::table(self) } else { String::new() };
        text += &multicast::tables(self);
        text += &self.fed();
        text += &self.entry();
        if self.has4() {
            text += &ipv4::no_route(self);
        }
        for i in 0..self.interfaces.len() {
            text += &self.port(i);
        }
        text += &bfd::text(self);
        text
    }

    /// Where packets of the configuration around come in.
    fn entry(&self) -> String {
        let way = match (self.joined[0], self.has4(), self.has6()) {
            (false, ..) => return String::new(),
            (_, true, false) => format!("input -> {}", ipsec::entry4(self)),
            (_, false, _) => format!("input -> {}", ipsec::entry6(self)),
            (..) => format!(
                "input -> family :: {};\n\
                 family[0] -> {}family[1] -> {}family[2] -> Discard;\n",
                ipsec::FAMILIES,
                ipsec::entry4(self),
                ipsec::entry6(self)
            ),
        };
        let way = if self.vrfs.is_empty() {
            way
        } else {
            way.replace("input -> ", "input -> SetAnnoByte(VRF, 0) -> ")
        };
        format!("\n// What comes from the configuration around.\n{way}")
    }

    /// What belongs to interface `i`.
    fn port(&self, i: usize) -> String {
        let interface = &self.interfaces[i];
        let name = &interface.name;
        let method = self.method.as_ref().map_or(String::new(), |m| format!(", METHOD {m}"));
        let (four, six) = (interface.has4(), interface.has6());
        let mut patterns: Vec<&str> = Vec::new();
        let mut outputs = |has: bool, more: &[&'static str]| {
            let first = patterns.len();
            patterns.extend(if has { more } else { &[] });
            first
        };
        let from_nowhere = outputs(four && self.host, &[ipv4::FROM_NOWHERE]);
        let offers = outputs(interface.dhcp, &[ipv4::OFFERS]);
        let (of4, of6) = (outputs(four, &ipv4::PATTERNS), outputs(six, &ipv6::PATTERNS));
        let of_mpls = outputs(self.mpls, &mpls::PATTERNS);
        let rest = patterns.len();
        let mut text = format!(
            "\n// Interface {name}.\n\
             in{i} :: FromDevice({name}{method}{3}) -> c{i} :: Classifier({0}, -);\n\
             out{i} :: Queue({1}) -> {2}ToDevice({name}{method});\n\
             // Frames with a priority tag (VLAN 0) are treated as untagged ones.\n\
             c{i}[{rest}] -> tags{i} :: UntagPriority -> u{i} :: Classifier({0}, -);\n",
            patterns.join(", "),
            self.queue,
            match self.host || self.bfd.is_some() {
                true => format!("[1]order{i} :: PrioSched -> "),
                false => String::new(),
            },
            bfd::urgent(self),
        );
        text += &bfd::queue(self, i);
        if four {
            text += &ipv4::input(self, i, of4);
        }
        if six {
            text += &ipv6::input(self, i, of6);
        }
        text += &if self.mpls { mpls::port(self, i, of_mpls) } else { String::new() };
        text += &self.twin(i);
        if four && self.host {
            text += &format!(
                "// Who asks for an address by DHCP has none yet.\n{} -> heard{i};\n",
                Router::received(i, from_nowhere)
            );
        }
        if interface.dhcp {
            let answers = Router::received(i, offers);
            text += &format!(
                "// The DHCP client gets answers before it has its address.\n{answers} -> heard{i};\n"
            );
        }
        if four {
            text += &ipv4::stations(self, i, of4);
        }
        if six {
            text += &ipv6::stations(self, i, of6);
        }
        text += &if self.host {
            format!("u{i}[{rest}], tags{i}[1] -> heard{i};\n")
        } else {
            format!("u{i}[{rest}] -> Discard;\n")
        };
        if four {
            text += &ipv4::output(self, i);
        } else if self.has4() {
            text += &format!("{} -> Discard;\n", firewall::way(self, false, i + 1));
        }
        if six {
            text += &ipv6::output(self, i);
        } else if self.has6() {
            text += &ipv6::absent(self, i);
        }
        text + &multicast::port(self, i)
    }

    /// The argument by which elements keep to the MTU that interface `i` has at the moment, unless another one was said: the lower one of the
    /// device and its twin.
    pub(super) fn follow(&self, i: usize) -> String {
        match (self.interfaces[i].keeps_mtu, self.host) {
            (true, _) => String::new(),
            (false, true) => format!(", FOLLOW in{i} twin{i}"),
            (false, false) => format!(", FOLLOW in{i}"),
        }
    }

    /// The argument by which elements have the addresses of the twins of these interfaces in place of those that are said: daemons and users
    /// may change them.
    pub(super) fn owned(&self, interfaces: impl IntoIterator<Item = usize>) -> String {
        let twins: String =
            interfaces.into_iter().filter(|_| self.host).map(|i| format!(" twin{i}")).collect();
        if twins.is_empty() { twins } else { format!(", ADDRESSES{twins}") }
    }

    /// Frames of a kind that interface `i` has received, without tag or with a priority tag.
    pub(super) fn received(i: usize, kind: usize) -> String {
        format!("c{i}[{kind}], u{i}[{kind}]")
    }

    /// The kernel's side of interface `i`, where it has one.
    fn twin(&self, i: usize) -> String {
        if !self.host {
            return String::new();
        }
        let Interface { name, four, six, link_local, mtu, keeps_mtu, .. } = &self.interfaces[i];
        let four = four.iter().map(|(a, p)| format!(", ADDR {a}/{}", p.len()));
        let six = six.iter().map(|(a, p)| format!(", ADDR {a}/{}", p.len()));
        // The kernel makes the link-local address that belongs to the Ethernet address by itself.
        let made = Some(self::link_local(name, &self.interfaces[i].station));
        let given = link_local.filter(|_| *link_local != made).map(|a| format!(", ADDR {a}/64"));
        let addresses: String = four.chain(six).chain(given).collect();
        let netns = self.netns.as_ref().map_or(String::new(), |n| format!(", NETNS {n}"));
        // The kernel must find too big what we do.
        let mtu = if *keeps_mtu { format!(", MTU {mtu}") } else { String::new() };
        // The kernel's virtual routers (VRRP) answer for themselves.
        let (vrf, table) = (self.twins_vrf(i), vrf::suffix(self.table_of(i), " table "));
        let four_routes = if self.has4() { format!(", VIRTUAL rt 0{table}") } else { String::new() };
        let six_routes = if self.has6() { format!(", VIRTUAL6 rt6 0{table}") } else { String::new() };
        let networks = |has: bool, what: &str| match has {
            true => format!(", {what} {}{table}", i + 1),
            false => String::new(),
        };
        let routes = [
            four_routes,
            six_routes,
            networks(self.interfaces[i].has4(), "NETWORKS rt"),
            networks(self.interfaces[i].has6(), "NETWORKS6 rt6"),
        ]
        .concat();
        let not_ours = if self.has6() && self.has4() {
            "IP"
        } else if self.has4() {
            "IPv4"
        } else {
            "IPv6"
        };
        let control = match self.bfd {
            Some(_) => format!("urgent{i}"),
            None => format!("Queue({CONTROL_OUT}) -> [0]order{i}"),
        };
        let asks = match (self.has4(), self.has6()) {
            (true, true) => "ARP and neighbour solicitations",
            (true, _) => "ARP",
            _ => "neighbour solicitations",
        };
        format!(
            "// Its twin: the kernel's side of this interface. The kernel answers {asks} and gets all that is not {not_ours}, too.\n\
             // Control protocols have their own queues and limits both ways: no flood of other packets takes a hello's place.\n\
             FromHost(host{i}{addresses}, TWIN {name}{mtu}{netns}{vrf}{routes}) -> said{i} :: ControlTraffic(LIMITED false)\n    \
             {said}\
             heard{i} :: ControlTraffic -> Queue({CONTROL_IN}) -> [0]first{i} :: PrioSched -> twin{i} :: ToHost(host{i});\n\
             punts{i} :: Queue({PUNTS}) -> [1]first{i};\n\
             heard{i}[1] -> forus{i} :: Punt(for-us, RATE 10000) -> punts{i};\n\
             heard{i}[2] -> other{i} :: Punt(other) -> punts{i};\n\
             own[{}] -> Unstrip(14) -> heard{i};\n\
             kernel[{0}] -> Unstrip(14) -> punts{i};\n{to_kernel}",
            i + 1,
            said = ipsec::said(self, i, &control),
            to_kernel = ipsec::to_kernel(self, i),
        )
    }

    /// Who answers exceptions, for comments.
    pub(super) fn answers(&self) -> &'static str {
        if self.host { "the kernel" } else { "the sender by ICMP" }
    }
}
