// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that shares connections among servers.
//!
//! Packets get their server when they have arrived, behind address translation and before they are routed. So a service may have the router's only
//! outside address, and a firewall sees the servers' own addresses. Answers get the address of their service in the same place; with a firewall, only when it
//! has seen them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use balance::policy::{Mode, Policy, Service};
use wire::{Prefix4, Prefix6};

use super::ipv4::ERRORS;
use super::router::{Interface, Router};
use super::{ipv6, nat as translation};

/// How a router shares connections among servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancing {
    file: String,
    /// Whether the file was there.
    is_there: bool,
    /// Virtual addresses that are not the router's own, each with the interface on whose network it is.
    addresses: Vec<(IpAddr, Option<usize>)>,
    /// Whether some service has direct return.
    has_direct: bool,
    /// IPv4 addresses from which address translation gives ports, too, and the ports of services there.
    shared: Vec<Ipv4Addr>,
    ports: Vec<(u16, u16)>,
    /// Interfaces that lead outside, and by which no server with `nat` is reached.
    outside: Vec<usize>,
}

impl Balancing {
    /// How a router shares connections by a file, which is read if it is there. Interfaces, routes and address translation of the router are known.
    /// `outside` are the interfaces that lead outside; if there is none, those of default routes.
    ///
    /// # Errors
    /// What is wrong with the file, or does not fit the router.
    pub fn new(router: &Router, file: String, outside: &[String]) -> Result<Balancing, String> {
        let mut new = Balancing {
            file,
            is_there: false,
            addresses: Vec::new(),
            has_direct: false,
            shared: Vec::new(),
            ports: Vec::new(),
            outside: Vec::new(),
        };
        let outside = outside_of(router, outside)?;
        if rulefile::may_read(Path::new(&new.file)).is_err() || !Path::new(&new.file).exists() {
            return Ok(new);
        }
        let reading = balance::read_file(Path::new(&new.file))?;
        let Some(policy) = reading.policy else {
            let shown = lang::render_short(&reading.diagnostics, &reading.sources);
            return Err(shown.trim_end().to_owned());
        };
        new.is_there = true;
        new.has_direct = policy.services.iter().any(|service| service.mode == Mode::Direct);
        check_own(router, &policy)?;
        for service in &policy.services {
            check(router, service)?;
            let is_known = new.addresses.iter().any(|(address, _)| *address == service.address);
            if !is_known && !is_own(router, service.address) {
                new.addresses.push((service.address, link_of(router, service.address)));
            }
        }
        new.share(router, &policy)?;
        new.outside = outside.into_iter().filter(|i| !has_servers(router, &policy, *i)).collect();
        Ok(new)
    }

    /// Notes what services share with address translation.
    fn share(&mut self, router: &Router, policy: &Policy) -> Result<(), String> {
        let ranges = translation::outside_ranges(router);
        for service in &policy.services {
            let IpAddr::V4(address) = service.address else { continue };
            if !ranges.iter().any(|range| range.holds(address.to_bits())) {
                continue;
            }
            check_shared(router, service, address)?;
            self.shared.push(address);
            self.ports.extend(&service.ports);
        }
        self.shared.sort_unstable();
        self.shared.dedup();
        self.ports.sort_unstable();
        self.ports.dedup();
        Ok(())
    }

    fn of_family(&self, six: bool) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().map(|(address, _)| *address).filter(move |address| address.is_ipv6() == six)
    }
}

/// Whether an address is the router's own.
fn is_own(router: &Router, address: IpAddr) -> bool {
    router.interfaces.iter().any(|port| port.addresses().any(|own| own == address))
}

fn holds(port: &Interface, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => port.four.iter().any(|(_, network)| network.contains(address)),
        IpAddr::V6(address) => port.six.iter().any(|(_, network)| network.contains(address)),
    }
}

/// The interface on whose network an address is.
fn link_of(router: &Router, address: IpAddr) -> Option<usize> {
    router.interfaces.iter().position(|port| holds(port, address))
}

/// The interfaces that lead outside: these, or those of default routes.
fn outside_of(router: &Router, names: &[String]) -> Result<Vec<usize>, String> {
    if !names.is_empty() {
        return translation::named(router, names);
    }
    let four = router.routes4.iter().filter(|route| route.prefix == Prefix4::DEFAULT);
    let six = router.routes6.iter().filter(|route| route.prefix == Prefix6::DEFAULT);
    let four = four.flat_map(|route| route.hops.iter().map(|(_, i)| *i));
    let found: BTreeSet<usize> =
        four.chain(six.flat_map(|route| route.hops.iter().map(|(_, i)| *i))).collect();
    Ok(found.into_iter().collect())
}

/// The interfaces by which an address is reached; all if no route is known.
fn ways_to(router: &Router, address: IpAddr) -> Vec<usize> {
    if let Some(link) = link_of(router, address) {
        return vec![link];
    }
    let best = match address {
        IpAddr::V4(address) => {
            let those = router.routes4.iter().filter(|route| route.prefix.contains(address));
            let best = those.max_by_key(|route| route.prefix.len());
            best.map(|route| route.hops.iter().map(|(_, i)| *i).collect())
        }
        IpAddr::V6(address) => {
            let those = router.routes6.iter().filter(|route| route.prefix.contains(address));
            let best = those.max_by_key(|route| route.prefix.len());
            best.map(|route| route.hops.iter().map(|(_, i)| *i).collect())
        }
    };
    best.unwrap_or_else(|| (0..router.interfaces.len()).collect())
}

/// Whether servers with address translation are reached by interface `i`.
fn has_servers(router: &Router, policy: &Policy, i: usize) -> bool {
    let services = policy.services.iter().filter(|service| service.mode == Mode::Nat);
    services.flat_map(|service| &service.servers).any(|one| ways_to(router, one.address).contains(&i))
}

/// Whether an interface may have other addresses than are known here.
fn has_unknown(router: &Router) -> bool {
    router.interfaces.iter().any(|port| port.dhcp)
}

/// Answers to probes must come back.
fn check_own(router: &Router, policy: &Policy) -> Result<(), String> {
    match policy.own.iter().flatten().find(|own| !is_own(router, **own)) {
        Some(own) if !has_unknown(router) || own.is_ipv6() => Err(format!(
            "own {own}: no interface of the router has this address, so answers to probes would not come back: name one of its addresses"
        )),
        _ => Ok(()),
    }
}

/// Whether a service fits the router.
fn check(router: &Router, service: &Service) -> Result<(), String> {
    let (name, line, address) = (&service.name, service.line, service.address);
    let has_family = if address.is_ipv4() { router.has4() } else { router.has6() };
    if !has_family {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(format!(
            "line {line}: service '{name}' has {family}, and no interface of the router has"
        ));
    }
    let special = |port: &Interface| match address {
        IpAddr::V4(address) => port.four.iter().any(|(_, network)| {
            network.len() < 31 && (address == network.addr() || address == network.last())
        }),
        IpAddr::V6(address) => {
            port.six.iter().any(|(_, network)| network.len() < 127 && address == network.addr())
        }
    };
    if !is_own(router, address) && router.interfaces.iter().any(special) {
        return Err(format!(
            "line {line}: {address} is no host's address on a link of the router: give service '{name}' another one"
        ));
    }
    if service.mode == Mode::Direct && is_own(router, address) {
        return Err(format!(
            "line {line}: with direct return, servers answer from {address}, which is the router's own: write `nat`, or another address"
        ));
    }
    if service.mode == Mode::Nat || has_unknown(router) {
        return Ok(());
    }
    match service.servers.iter().find(|server| link_of(router, server.address).is_none()) {
        Some(server) => Err(format!(
            "server {} of '{name}' is on no link of the router, as direct return needs: write `nat` in line {line}, or name servers on its links",
            server.address
        )),
        None => Ok(()),
    }
}

/// Whether a service gets its packets and ports on an address from which address translation gives ports, too.
fn check_shared(router: &Router, service: &Service, address: Ipv4Addr) -> Result<(), String> {
    let Service { name, line, protocol, ports, .. } = service;
    let taken = router.nat.as_ref().map(|translation| &translation.taken);
    if let Some(led) = taken.and_then(|taken| taken.led_inside(*protocol, address, ports)) {
        return Err(format!(
            "line {line}: packets to {address} do not reach service '{name}': line {} of address translation leads them inside, '{}': give the service another address or other ports, or leave that line out",
            led.line, led.text
        ));
    }
    if ports.is_empty() {
        return Err(format!(
            "line {line}: service '{name}' has all ports of {address}, from which hosts inside get ports, too: name the service's ports, or another address"
        ));
    }
    match taken.and_then(|taken| taken.in_blocks(address, ports)) {
        Some(other) => Err(format!(
            "line {line}: service '{name}' has ports of {address} that hosts inside get in blocks, by line {other} of address translation: give the service another address or other ports"
        )),
        None => Ok(()),
    }
}

/// The families that the balancer has inputs for.
fn arrivals(router: &Router) -> usize {
    usize::from(router.has4()) + usize::from(router.has6())
}

/// The input for packets of a family that have arrived.
fn input(router: &Router, six: bool) -> usize {
    usize::from(six && router.has4())
}

/// The interfaces by which packets of a family leave, if the balancer sees them there.
fn leaving_by(router: &Router, six: bool) -> Vec<usize> {
    let has = |port: &Interface| if six { port.has6() } else { port.has4() };
    let all = router.interfaces.iter().enumerate().filter(|(_, port)| has(port));
    if router.firewall.is_some() { all.map(|(i, _)| i).collect() } else { Vec::new() }
}

/// The balancer.
pub(super) fn text(router: &Router) -> String {
    let Some(Balancing { file, is_there, has_direct, shared, outside, .. }) = &router.balance else {
        return String::new();
    };
    let leaving = leaving_by(router, false).len() + leaving_by(router, true).len();
    let leaving = if leaving > 0 { format!(", LEAVING {leaving}") } else { String::new() };
    let mut text = format!(
        "// Load balancing: {} says which servers answer for which addresses. Fragments have no ports: IPv4 packets are put together first.\n",
        file.replace(char::is_control, "?")
    );
    text += match is_there {
        true if shared.is_empty() => "// Write this configuration again if services get other addresses.\n",
        true => {
            "// Write this configuration again if services get other addresses, or other ports of an address that hosts inside share.\n"
        }
        false => {
            "// The file was not there: the router answers for its own addresses alone. Write this configuration again when it is.\n"
        }
    };
    if *has_direct && router.firewall.is_some() {
        text += "// With direct return the firewall sees no answers: such packets need `stateless` rules.\n";
    }
    let outside = match outside.is_empty() {
        true => String::new(),
        false => {
            text += "// Servers are not outside: packets from there with their addresses are dropped.\n";
            let paints: String = outside.iter().map(|i| format!(" {}", i + 1)).collect();
            format!(", OUTSIDE{paints}")
        }
    };
    let _ = write!(text, "lb :: Balance({}{outside}{leaving});\n\n", lang::config::quote(file));
    text
}

/// The way of IPv4 packets from the checks, or from address translation, to the routing table, for the middle of a chain.
pub(super) fn arriving(router: &Router) -> String {
    match (&router.balance, &router.nat) {
        (None, _) => "GetIPAddress(16) -> ".to_owned(),
        (_, Some(_)) => "GetIPAddress(16) -> [0]lb;\nlb[0] -> ".to_owned(),
        (_, None) => {
            "IPReassembler(OVERLAP drop, MAX_PER_SOURCE 64) -> GetIPAddress(16) -> [0]lb;\nlb[0] -> "
                .to_owned()
        }
    }
}

/// The input for IPv6 packets that have arrived.
pub(super) fn entry6(router: &Router) -> Option<String> {
    router.balance.as_ref().map(|_| format!("[{}]lb", input(router, true)))
}

/// The way of IPv6 packets that have passed.
pub(super) fn passed6(router: &Router, table: &str) -> String {
    match &router.balance {
        Some(_) => format!("lb[{}] -> {table};\n", input(router, true)),
        None => String::new(),
    }
}

/// What gives answers the address of their service when they leave by interface `i`, for the middle of a chain.
pub(super) fn leaving(router: &Router, i: usize, six: bool) -> String {
    let (Some(_), Some(at)) = (&router.balance, leaving_by(router, six).iter().position(|other| *other == i))
    else {
        return String::new();
    };
    let before = if six { leaving_by(router, false).len() } else { 0 };
    let port = arrivals(router) + before + at;
    format!("-> [{port}]lb;\nlb[{port}] ")
}

/// Where errors about IPv4 packets go that leave by an interface: they may be about packets that were changed.
pub(super) fn errors(router: &Router) -> Option<&'static str> {
    router.balance.as_ref().map(|_| "[0]lb")
}

/// Whether errors about packets on the way come from here, because the kernel knows nothing of changed addresses.
pub(super) fn answers(router: &Router) -> bool {
    router.balance.is_some()
}

/// What the kernel would have got otherwise.
pub(super) fn idle(router: &Router) -> String {
    if router.balance.is_none() || !router.host {
        return String::new();
    }
    let four = if router.nat.is_none() { "Idle -> toobig;\nIdle -> noneighbour;\n" } else { "" };
    let mut text = "\n// The kernel knows nothing of changed addresses: errors about packets on the way come from here.\n".to_owned();
    if router.has4() {
        let _ = write!(text, "Idle -> ttl;\n{four}");
    }
    if router.has6() {
        text += "Idle -> toobig6;\nIdle -> expired6;\n";
    }
    text
}

/// Lines of the routing table of a family: virtual addresses are the router's, but for the packets that go to servers.
pub(super) fn routes(router: &Router, six: bool) -> Vec<String> {
    let all = router.balance.iter().flat_map(|balancing| balancing.of_family(six));
    all.map(|address| format!("{address}/{} 0", if six { 128 } else { 32 })).collect()
}

/// The virtual addresses that are answered for on the link of interface `i`.
pub(super) fn answered(router: &Router, i: usize, six: bool) -> Vec<String> {
    let all = router.balance.iter().flat_map(|balancing| &balancing.addresses);
    let here = all.filter(|(address, link)| address.is_ipv6() == six && *link == Some(i));
    let others = translation::answered_by_nat(router, i);
    let is_new = |address: &IpAddr| match address {
        IpAddr::V4(address) => {
            !others.iter().filter_map(|text| text.parse::<Prefix4>().ok()).any(|one| one.contains(*address))
        }
        IpAddr::V6(_) => true,
    };
    here.map(|(address, _)| *address).filter(is_new).map(|address| address.to_string()).collect()
}

/// What answers for IPv6 addresses where the kernel answers for the router's own. Its questions come from `asked`.
pub(super) fn answered_by_us6(router: &Router, i: usize, asked: &str) -> Option<String> {
    let own = answered(router, i, true);
    let station = &router.interfaces[i].station;
    (!own.is_empty()).then(|| {
        format!(
            "{asked} -> asks{i} :: Tee -> heard{i};\nasks{i}[1] -> IP6NDAdvertiser({} {station}) -> out{i};\n",
            own.join(" ")
        )
    })
}

/// Sorts out what the kernel gets otherwise: pings to virtual addresses. `to` is where the rest goes.
pub(super) fn own4(router: &Router, from: &str, to: &str) -> String {
    let all: Vec<IpAddr> = router.balance.iter().flat_map(|balancing| balancing.of_family(false)).collect();
    if all.is_empty() {
        return format!("{from} -> {to};\n");
    }
    let patterns: Vec<String> = all.iter().map(|address| format!("dst host {address}")).collect();
    let speaker = router.speaker4(0).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let back = translation::errors(router);
    format!(
        "// The kernel does not have virtual addresses: pings to them are answered here, and others get an ICMP error.\n\
         {from} -> vip4 :: IPClassifier({}, -);\n\
         vip4[1] -> {to};\n\
         vip4[0] -> asked4 :: IPClassifier(icmp type echo, udp or tcp, -);\n\
         asked4[0] -> ICMPPingResponder -> {back};\n\
         asked4[1] -> ICMPError({speaker}, unreachable, port, LOCAL true, {ERRORS}) -> {back};\n\
         asked4[2] -> Discard;\n",
        patterns.join(" or ")
    )
}

/// The same for IPv6.
pub(super) fn own6(router: &Router, from: &str, to: &str) -> String {
    let all: BTreeSet<IpAddr> =
        router.balance.iter().flat_map(|balancing| balancing.of_family(true)).collect();
    if all.is_empty() {
        return format!("{from} -> {to};\n");
    }
    let bits = |address: &IpAddr| match address {
        IpAddr::V6(address) => Ipv6Addr::octets(address).iter().map(|byte| format!("{byte:02x}")).collect(),
        IpAddr::V4(_) => String::new(),
    };
    let patterns: Vec<String> = all.iter().map(|address| format!("24/{}", bits(address))).collect();
    let speaker = ipv6::speaker_of(router, 0).unwrap_or(Ipv6Addr::UNSPECIFIED);
    let back = ipv6::entry(router);
    let sorted: Vec<String> = (0..all.len()).map(|n| format!("vip6[{n}]")).collect();
    format!(
        "{from} -> vip6 :: Classifier({}, -);\n\
         vip6[{}] -> {to};\n\
         {} -> named6 :: IP6Extensions(PROTOCOLS \"icmp6 udp tcp\") -> asks6 :: IP6Extensions(PROTOCOLS icmp6)\n    \
         -> asked6 :: ICMP6PingResponder -> {back}\
         asks6[1] -> Discard;\n\
         asks6[2] -> ICMP6Error({speaker}, unreachable, port, LOCAL true, {}) -> {back}\
         asked6[1] -> Discard;\n",
        patterns.join(", "),
        all.len(),
        sorted.join(", "),
        ipv6::ERRORS
    )
}

/// Further arguments of the translator: addresses that it shares with services are the router's own.
pub(super) fn own_of_nat(router: &Router) -> String {
    let shared = router.balance.iter().flat_map(|balancing| &balancing.shared);
    let others = shared.filter(|address| !is_own(router, IpAddr::V4(**address)));
    others.map(|address| format!(", OWN {address}")).collect()
}

/// Ports of services that hosts inside do not get. A file that is loaded later may have others: hosts may get those until this text is written again.
pub(super) fn reserved_of_nat(router: &Router) -> String {
    let ports = router.balance.iter().flat_map(|balancing| &balancing.ports);
    ports.map(|(low, high)| if low == high { format!(" {low}") } else { format!(" {low}-{high}") }).collect()
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    /// Where the kernel answers for the router's own addresses.
    #[test]
    fn virtual_addresses_of_ipv6_answer_pings_and_refuse_the_rest() {
        let files = Temp::new();
        let file = files.file("lb", "service web tcp 2001:db8::80 port 80\nserver web 2001:db8:1::11\n");
        let mut port = Interface::new("e0", 1500);
        port.add("2001:db8::1/64".parse().unwrap()).unwrap();
        port.complete();
        let mut router = Router::new(vec![port]);
        router.host = true;
        router.balance = Some(Balancing::new(&router, file.clone(), &[]).unwrap());
        let chain = own6(&router, "i0 :: TestIn -> CheckIP6Header", "o1 :: TestOut");
        let run = Rig::text(&format!("lb :: Balance({file}) -> o0 :: TestOut;\n{chain}")).ready();
        let packet = |to: &str| {
            let bytes =
                wire::compose::compose(&format!("ip6 2001:db8:9::9 > {to} / payload 9")).unwrap().bytes;
            Packet::copy_of(&bytes).unwrap()
        };
        let service = ["icmp6 echo id 7 seq 1", "tcp 9 > 81 flags S", "udp 9 > 53", "icmp6 reply id 7 seq 1"];
        let mut all: Vec<Packet> =
            service.iter().map(|rest| packet(&format!("2001:db8::80 / {rest}"))).collect();
        all.push(packet("2001:db8::80 proto 99"));
        all.push(packet("2001:db8::1 / tcp 9 > 81 flags S"));
        run.give("i0", all);
        let run = run.again();
        // The service's address answers: with an echo reply, and twice with "port unreachable".
        let mut answers: Vec<[u8; 3]> = run.bytes("o0").iter().map(|ip| [ip[23], ip[40], ip[41]]).collect();
        answers.sort_unstable();
        assert_eq!(answers, [[0x80, 1, 4], [0x80, 1, 4], [0x80, 129, 0]]);
        assert_eq!(run.bytes("o1").len(), 1);
    }
}
