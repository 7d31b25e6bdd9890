// SPDX-License-Identifier: MIT OR Apache-2.0
//! The IPv4 part of a router's text.

use std::fmt::Write as _;

use wire::Prefix4;

use super::router::{Interface, Route, Router};
use super::vrf;
use super::{balance, bfd, firewall, nat};
use super::{ipsec, mpls, multicast, sync};

/// The least MTU of a link that carries IPv4 (RFC 791, 3.2).
pub const MTU_MIN: u16 = 68;
/// What an interface's classifier distinguishes: ARP queries, ARP replies, IPv4.
pub(super) const PATTERNS: [&str; 3] = ["12/0806 20/0001", "12/0806 20/0002", "12/0800"];
/// Packets without a source address, which no router forwards: those of DHCP clients, which the kernel's daemons serve or relay.
pub(super) const FROM_NOWHERE: &str = "12/0800 26/00000000";
/// Answers of DHCP servers. The kernel's client gets them before it has the address that they are sent to.
pub(super) const OFFERS: &str = "12/0800 14/45 23/11 34/00430044";
/// The way of packets that do not come from an interface.
pub(super) const ENTRY: &str = "CheckIPHeader -> GetIPAddress(16) -> Paint(0) -> [0]rt;\n";
/// How ICMP errors are sent: marked as RFC 1812 (4.3.2.5) asks, and at a rate that neither a flood nor a scan exceeds.
pub(super) const ERRORS: &str = "TOS copy, RATE 1000, DST_RATE 10";

fn has_default_in(router: &Router, table: usize) -> bool {
    router.routes4.iter().any(|r| r.prefix == Prefix4::DEFAULT && r.table == table)
}

/// Whether each table has a default route.
fn has_default(router: &Router) -> bool {
    router.tables().all(|table| has_default_in(router, table))
}

/// The arguments of all routing tables.
fn routes(router: &Router) -> Vec<String> {
    let of_table = |table| {
        let lines = routes_of(router, table).into_iter();
        lines.map(move |line| line + &vrf::suffix(table, " table "))
    };
    router.tables().flat_map(of_table).chain(router.routes4.iter().map(Route::line)).collect()
}

/// The arguments of a routing table, but the routes by next hops.
fn routes_of(router: &Router, number: usize) -> Vec<String> {
    let addresses = || router.members(number).flat_map(|(i, port)| port.four.iter().map(move |a| (i, a)));
    let mut table: Vec<String> = addresses().map(|(_, (a, _))| format!("{a}/32 0")).collect();
    table.extend(balance::routes(router, false));
    table.push("255.255.255.255/32 0".into());
    if router.host {
        // What the kernel's routing daemons say to each other on a link.
        table.push("224.0.0.0/24 0".into());
        table.push(format!("224.0.0.0/4 {}", multicast::output4(router)));
    }
    // On a link of two hosts or of one, the network is no more than its addresses.
    for (i, (_, network)) in addresses().filter(|(_, (_, p))| p.len() < 32) {
        once(&mut table, format!("{network} {}", i + 1));
    }
    if !has_default_in(router, number) {
        table.push(format!("0.0.0.0/0 {}", router.interfaces.len() + 1));
    }
    table
}

/// Adds a line that is not there yet: an interface may have several addresses on one network.
pub(super) fn once(table: &mut Vec<String>, line: String) {
    if !table.contains(&line) {
        table.push(line);
    }
}

/// How many outputs the routing table has for the rest of the router.
pub(super) fn outputs(router: &Router) -> usize {
    router.interfaces.len() + 1 + usize::from(!has_default(router))
}

/// The routing table, and the way to it.
pub(super) fn table(router: &Router) -> String {
    let mut arguments = routes(router);
    if !router.vrfs.is_empty() {
        arguments.insert(0, router.keyword().to_owned());
    }
    let mut text = nat::text(router) + &nat::six(router);
    text += &format!(
        "// The routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself.\n\
         {}rt :: StaticIPLookup(\n    {});\n\n\
         // All received IP packets, their link header removed. Impossible addresses, our own as sources, and directed broadcasts are dropped.\n",
        router.legend(),
        arguments.join(",\n    "),
    );
    let mut joins = None;
    for table in router.tables() {
        if !router.members(table).any(|(_, port)| port.has4()) {
            continue;
        }
        let then = format!("{}{}rt;\n", nat::arriving(router), balance::arriving(router));
        text += &format!(
            "ip{} :: Strip(14) -> {}\n    -> {}{}",
            vrf::suffix(table, "_vrf"),
            checks(router, table),
            ipsec::check(router, 4),
            joins.unwrap_or(&*then),
        );
        joins = nat::arriving_too(router);
    }
    text
}

/// What checks the headers of packets for a table, for the middle of a chain.
pub(super) fn checks(router: &Router, table: usize) -> String {
    let members: Vec<_> = router.members(table).filter(|(_, port)| port.has4()).collect();
    let networks = members.iter().flat_map(|(_, port)| &port.four);
    let networks: String = networks.map(|(a, p)| format!(" {a}/{}", p.len())).collect();
    let interfaces = if networks.is_empty() { networks } else { format!("INTERFACES{networks}") };
    let owned = router.owned(members.iter().map(|(i, _)| *i));
    let all = format!("{interfaces}{owned}");
    format!(
        "CheckIPHeader({0}) -> CheckIPAddresses({0}{1})",
        all.trim_start_matches(", "),
        bfd::returned(router)
    )
}

/// What is for the router, where it answers by itself.
pub(super) fn local(router: &Router) -> String {
    let Some((address, _)) = router.interfaces.iter().find_map(|i| i.four.first()) else {
        return String::new();
    };
    let to = nat::errors(router);
    let error = |what: &str| format!("ICMPError({address}, {what}, LOCAL true, {ERRORS}) -> {to};\n");
    let kinds = if router.joined[1] { "-" } else { "udp or tcp, icmp, -" };
    let mut text = format!(
        "\n// Packets for this router: it answers pings. The senders of others get an ICMP error.\n\
         {} -> whole :: {} -> local :: IPClassifier(icmp type echo, {kinds});\n\
         whole[1]{} -> {}\
         local[0] -> ICMPPingResponder -> {to};\n",
        sync::rest4(router),
        router.reassembler4(16),
        if router.ipsec.is_some() { ", join4[1]" } else { "" },
        error("timeexceeded, reassembly"),
    );
    text += &if router.joined[1] {
        "local[1] -> output;\n".to_owned()
    } else {
        format!(
            "local[1] -> {}local[2] -> Discard;\nlocal[3] -> {}",
            error("unreachable, port"),
            error("unreachable, protocol")
        )
    };
    text
}

/// What is for the router and what is an exception, where the kernel answers.
pub(super) fn kernel(router: &Router) -> String {
    let mut text = format!(
        "{}options :: Punt(options) -> kernel;\n\
         ttl :: Punt(ttl-expired) -> kernel;\n\
         toobig :: Punt(too-big, RESTORE_TTL true) -> kernel;\n\
         noneighbour :: Punt(no-neighbour, RESTORE_TTL true) -> again :: PaintSwitch;\n\
         again[0] -> Discard;\n",
        balance::own4(router, &sync::rest4(router), "own"),
    );
    for (i, _) in router.interfaces.iter().enumerate().filter(|(_, port)| !port.has4()) {
        let _ = writeln!(text, "again[{}] -> Discard;", i + 1);
    }
    if !has_default(router) {
        let _ = writeln!(text, "rt[{}] -> noroute :: Punt(no-route) -> kernel;", router.interfaces.len() + 1);
    }
    text
}

/// What leads nowhere, where the router answers by itself.
pub(super) fn no_route(router: &Router) -> String {
    if has_default(router) || router.host {
        return String::new();
    }
    let error = |table| {
        let address = router.speaker4(table)?;
        Some(format!("ICMPError({address}, unreachable, net, {ERRORS}) -> {};\n", nat::errors(router)))
    };
    let from = format!("rt[{}]", router.interfaces.len() + 1);
    format!(
        "\n// Without a route: the sender gets an ICMP error.\n{}",
        router.by_table(&from, "nobody", error)
    )
}

/// What interface `i` receives. The classifier's outputs begin at `c`.
pub(super) fn input(router: &Router, i: usize, c: usize) -> String {
    let Interface { station, .. } = &router.interfaces[i];
    let typed = if router.mpls { mpls::TYPED } else { "" };
    format!(
        "arp{i} :: ARPQuerier({}, {station}, UNSOLICITED update{typed}{});\n{} -> {}Paint({}) -> ip{};\n",
        router.interfaces[i].speaker4(),
        router.owned([i]),
        Router::received(i, c + 2),
        router.marked(i),
        i + 1,
        vrf::suffix(router.table_of(i), "_vrf"),
    )
}

/// Who hears ARP on interface `i`.
pub(super) fn stations(router: &Router, i: usize, c: usize) -> String {
    let Interface { station, four, .. } = &router.interfaces[i];
    let (queries, replies) = (Router::received(i, c), Router::received(i, c + 1));
    if router.host {
        return format!(
            "again[{}] -> EtherEncap(0x0800, {station}, {station}) -> punts{i};\n\
             {queries} -> asked{i} :: Tee -> [1]arp{i};\n\
             asked{i}[1] -> heard{i};\n\
             {}\
             {replies} -> replies{i} :: Tee -> [1]arp{i};\n\
             replies{i}[1] -> heard{i};\n",
            i + 1,
            nat::answered_by_us(router, i),
        );
    }
    let own = four.iter().map(|(address, _)| address.to_string());
    let answered: Vec<String> = own.chain(nat::answered(router, i)).collect();
    format!(
        "{queries} -> asked{i} :: Tee -> ARPResponder({} {station}) -> out{i};\n\
         asked{i}[1] -> [1]arp{i};\n\
         {replies} -> [1]arp{i};\n",
        answered.join(" ")
    )
}

/// What leaves by interface `i`.
pub(super) fn output(router: &Router, i: usize) -> String {
    let Interface { name, mtu, four, .. } = &router.interfaces[i];
    let (address, output, follow) = (router.interfaces[i].speaker4(), i + 1, router.follow(i));
    let mut networks: Vec<String> = four.iter().map(|(_, p)| p.to_string()).collect();
    if networks.is_empty() {
        // There are none yet, so nobody is redirected.
        networks.push("255.255.255.255/32".to_owned());
    }
    let redirect = ipsec::Redirect { name: "redirect", i };
    let redirects = match redirect.copies(router) {
        Some(copies) => format!(
            "{copies}ICMPError({address}, redirect, host, ONLINK {}, {ERRORS}{}) -> [0]rt;\n",
            networks.join(" "),
            router.owned([i])
        ),
        None => String::new(),
    };
    let mut text = format!(
        r"
// What leaves by {name}: RFC 1812's checks in order, each exception to {}.
{way} -> DropBroadcasts
    {first}-> options{i} :: IPGWOptions({address}{owned})
    -> FixIPSrc({address}{owned})
    -> ttl{i} :: DecIPTTL
    {protected}{balanced}{translated}-> mtu{i} :: IPFragmenter({mtu}{follow})
    -> arp{i} -> {};
{redirects}",
        router.answers(),
        bfd::out(router, i),
        way = firewall::way(router, false, output),
        owned = router.owned([i]),
        first = redirect.first(router),
        protected = ipsec::out4(router, i),
        balanced = balance::leaving(router, i, false),
        translated = nat::leaving(router, i),
    );
    let (owned, to) = (router.owned([i]), nat::errors(router));
    text += &if router.host {
        // Packets of IPv6 hosts are translated already.
        let by_nat = router.nat.is_some() && (!nat::leads_out(router, i) || nat::has_six(router));
        let by_us = by_nat || balance::answers(router);
        let ttl = match by_us {
            true => format!("ICMPError({address}, timeexceeded, {ERRORS}{owned}) -> {to}"),
            false => "ttl".to_owned(),
        };
        format!("options{i}[1] -> options;\nttl{i}[1] -> {ttl};\n")
    } else {
        format!(
            "options{i}[1] -> ICMPError({address}, parameterproblem, {ERRORS}) -> {to};\n\
             ttl{i}[1] -> ICMPError({address}, timeexceeded, {ERRORS}) -> {to};\n"
        )
    };
    // The kernel knows nothing of translated addresses.
    text += &if router.host && router.nat.is_none() && !balance::answers(router) {
        format!("mtu{i}[1] -> toobig;\narp{i}[1] -> out{i};\narp{i}[2] -> noneighbour;\n")
    } else {
        let limits = nat::limits(router, i);
        format!(
            "mtu{i}[1] -> ICMPError({address}, unreachable, needfrag, PMTU {mtu}{follow}, {limits}{owned}) -> {to};\n\
             arp{i}[1] -> out{i};\n\
             arp{i}[2] -> ICMPError({address}, unreachable, host, {limits}{owned}) -> {to};\n"
        )
    };
    text
}
