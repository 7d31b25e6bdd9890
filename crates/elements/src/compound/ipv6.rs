// SPDX-License-Identifier: MIT OR Apache-2.0
//! The IPv6 part of a router's text.
//!
//! Where an IPv4 router lets its own messages through the routing table, an IPv6 router cannot: a message from or to a link-local
//! address belongs to the link that caused it, so `back6` takes it there by its paint.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use wire::Prefix6;

use super::ipsec;
use super::router::{Interface, Route, Router};
use super::vrf;
use super::{balance, bfd, firewall};
use super::{mpls, multicast, nat};

/// The least MTU of a link that carries IPv6 (RFC 8200, 5).
pub const MTU_MIN: u16 = 1280;
/// What an interface's classifier distinguishes: neighbour solicitations, neighbour advertisements, router solicitations,
/// other IPv6.
pub(super) const PATTERNS: [&str; 4] =
    ["12/86dd 20/3a 54/87", "12/86dd 20/3a 54/88", "12/86dd 20/3a 54/85", "12/86dd"];
/// What packets from or to link-local addresses have.
const LINK_LOCAL: [&str; 2] = ["8/fe80%ffc0", "24/fe80%ffc0"];
/// How ICMPv6 errors are sent: at a rate that neither a flood nor a scan exceeds (RFC 4443, 2.4 f).
pub(super) const ERRORS: &str = "RATE 1000, DST_RATE 10";

/// The routing table's output for addresses that all routers on a network share, where the router answers by itself.
fn anycast_output(router: &Router) -> usize {
    router.interfaces.len() + 2 + usize::from(!has_default(router))
}

/// An own address to answer from where the router has addresses on networks whose routers share one.
fn shared_addresses(router: &Router) -> Option<Ipv6Addr> {
    let all = || router.interfaces.iter().flat_map(|i| &i.six);
    all().find(|(_, p)| p.len() < 127).and_then(|_| all().next()).map(|(a, _)| *a)
}

/// The way of packets that do not come from an interface.
pub(super) fn entry(router: &Router) -> String {
    format!("CheckIP6Header -> Paint(0) -> {};\n", arriving(router))
}

/// Where packets go that have arrived.
fn arriving(router: &Router) -> String {
    balance::entry6(router).unwrap_or_else(|| nat::table6(router).to_owned())
}

fn has_default_in(router: &Router, table: usize) -> bool {
    router.routes6.iter().any(|r| r.prefix == Prefix6::DEFAULT && r.table == table)
}

/// Whether each table has a default route.
fn has_default(router: &Router) -> bool {
    router.tables().all(|table| has_default_in(router, table))
}

fn link_local(interface: &Interface) -> Ipv6Addr {
    interface.link_local.unwrap_or(Ipv6Addr::UNSPECIFIED)
}

/// The address by which the router speaks to others than neighbours about what came by interface `i`.
pub(super) fn speaker(router: &Router, i: usize) -> Ipv6Addr {
    let interface = &router.interfaces[i];
    let others = router.members(router.table_of(i)).map(|(_, port)| port);
    let all = std::iter::once(interface).chain(others);
    all.flat_map(|i| i.six.first()).map(|(a, _)| *a).next().unwrap_or(link_local(interface))
}

/// Interfaces of a table with IPv6, by number.
fn members(router: &Router, table: usize) -> impl Iterator<Item = (usize, &Interface)> {
    router.members(table).filter(|(_, port)| port.has6())
}

/// The arguments of all routing tables.
fn routes(router: &Router) -> Vec<String> {
    let of_table = |table| {
        let lines = routes_of(router, table).into_iter();
        lines.map(move |line| line + &vrf::suffix(table, " table "))
    };
    router.tables().flat_map(of_table).chain(router.routes6.iter().map(Route::line)).collect()
}

/// The arguments of a routing table, but the routes by next hops.
fn routes_of(router: &Router, number: usize) -> Vec<String> {
    let mut table: Vec<String> = Vec::new();
    let anycast = if router.host { 0 } else { anycast_output(router) };
    let mut line =
        |prefix: Prefix6, output: usize| super::ipv4::once(&mut table, format!("{prefix} {output}"));
    for (_, port) in members(router, number) {
        for (address, prefix) in &port.six {
            line(Prefix6::host(*address), 0);
            // All routers on a link share its lowest address (RFC 4291, 2.6.1), but on those between two (RFC 6164).
            if prefix.len() < 127 {
                line(Prefix6::host(prefix.addr()), anycast);
            }
        }
        line(Prefix6::host(link_local(port)), 0);
        if !router.host {
            let shared = port.six.iter().filter(|(_, p)| p.len() < 127).map(|(_, p)| p.addr());
            let all = port.six.iter().map(|(a, _)| *a).chain(shared).chain([link_local(port)]);
            all.for_each(|a| line(Prefix6::host(wire::ndp::solicited_node(a)), 0));
        }
    }
    balance::routes(router, true).into_iter().for_each(|route| super::ipv4::once(&mut table, route));
    let never = router.interfaces.len() + 1;
    if router.host {
        // The kernel knows which of a link's own addresses are its, and its routing daemons talk there.
        table.extend(["fe80::/10 0".into(), "ff02::/16 0".into()]);
    } else {
        table.extend(["ff02::1/128 0".into(), "ff02::2/128 0".into(), format!("fe80::/10 {never}")]);
    }
    let groups = if router.host { multicast::output6(router) } else { never };
    table.push(format!("ff00::/8 {groups}"));
    for (i, port) in members(router, number) {
        let networks = port.six.iter().filter(|(_, p)| p.len() < 128);
        for (_, network) in networks {
            super::ipv4::once(&mut table, format!("{network} {}", i + 1));
        }
    }
    if !has_default_in(router, number) {
        table.push(format!("::/0 {}", never + 1));
    }
    table
}

/// How many outputs the routing table has for the rest of the router.
pub(super) fn outputs(router: &Router) -> usize {
    let shares = !router.host && shared_addresses(router).is_some();
    router.interfaces.len() + 2 + usize::from(!has_default(router)) + usize::from(shares)
}

/// The address by which the router speaks about what came by any interface of a table; `None` if it has none with IPv6.
pub(super) fn speaker_of(router: &Router, table: usize) -> Option<Ipv6Addr> {
    members(router, table).next().map(|(i, _)| speaker(router, i))
}

/// What answers packets of a table that are too long for interface `i`; `errors` says how often.
pub(super) fn too_big(router: &Router, table: usize, i: usize, errors: &str) -> Option<String> {
    let (address, mtu, follow) = (speaker_of(router, table)?, router.interfaces[i].mtu, router.follow(i));
    let owned = router.owned(members(router, table).map(|(i, _)| i));
    Some(format!("ICMP6Error({address}, toobig, MTU {mtu}{follow}, {errors}{owned}) -> {}", entry(router)))
}

/// Answers to senders of packets that come from `from`, whose annotation says why they go no further. `name` is for what sorts them by
/// the interfaces by which they came.
pub(super) fn refusals(router: &Router, from: &str, name: &str) -> String {
    let entry = entry(router);
    let way = if router.host { &*entry } else { "made6;\n" };
    let mut text = format!("{from} -> {name} :: PaintSwitch;\n{name}[0] -> Discard;\n");
    for (i, interface) in router.interfaces.iter().enumerate() {
        let answer = match interface.has6() {
            true => format!(
                "ICMP6Error({}, unreachable, CODE_ANNO ICMP_PARAMPROB, {ERRORS}) -> {way}",
                speaker(router, i)
            ),
            false => "Discard;\n".to_owned(),
        };
        let _ = write!(text, "{name}[{}] -> {answer}", i + 1);
    }
    text
}

/// The routing table, and the way to it.
pub(super) fn table(router: &Router) -> String {
    let never = router.interfaces.len() + 1;
    let mut others = if has_default(router) {
        String::new()
    } else {
        format!(", {} what there is no route for", never + 1)
    };
    if !router.host && shared_addresses(router).is_some() {
        others += &format!(", {} addresses\n// that all routers on a network share", anycast_output(router));
    }
    let mut arguments = routes(router);
    if !router.vrfs.is_empty() {
        arguments.insert(0, router.keyword().to_owned());
    }
    let mut text = format!(
        "// The IPv6 routing table: PREFIX [NEXTHOP] OUTPUT. Output 0 is this router itself, {never} what is never forwarded{others}.\n\
         {}rt6 :: LookupIP6Route(\n    {});\n\n\
         // All received IPv6 packets, their link header removed. Those from impossible addresses or our own are dropped.\n",
        router.legend(),
        arguments.join(",\n    "),
    );
    let first = format!("{}hop6 :: IP6HopByHop -> {}", ipsec::check(router, 6), arriving(router));
    let mut then = first.as_str();
    for table in router.tables().filter(|table| members(router, *table).next().is_some()) {
        let name = vrf::suffix(table, "_vrf");
        let _ = writeln!(text, "ip6{name} :: Strip(14) -> {} -> {then};", checks(router, table));
        then = "hop6";
    }
    let _ = writeln!(text, "rt6[{never}] -> Discard;");
    text += &balance::passed6(router, nat::table6(router));
    text += nat::to_table6(router);
    text
}

/// What checks the headers of packets for a table, for the middle of a chain.
pub(super) fn checks(router: &Router, table: usize) -> String {
    let addresses = members(router, table).flat_map(|(_, port)| &port.six);
    let own: String = addresses.map(|(a, _)| format!(" {a}")).collect();
    let own = if own.is_empty() { own } else { format!(", OWN{own}{}", bfd::returned(router)) };
    let own = own + &router.owned(members(router, table).map(|(i, _)| i));
    format!("CheckIP6Header(\"::1\"{own})")
}

/// What is for the router, and its answers, where it answers by itself.
pub(super) fn local(router: &Router) -> String {
    let mut text = String::from(
        "\n// Answers to a packet come from our address on the interface by which it came, which its paint says. What we sent\n\
         // ourselves has no paint and gets no answer. Those about packets for us come from the address that these were sent to.\n\
         elementclass Answer6 { $type, $code, $local |\n    input -> came :: PaintSwitch;\n    came[0] -> Discard;\n",
    );
    for (i, port) in router.interfaces.iter().enumerate() {
        let _ = match port.has6() {
            true => writeln!(
                text,
                "    came[{}] -> ICMP6Error({}, $type, $code, LOCAL $local, {ERRORS}) -> output;",
                i + 1,
                speaker(router, i)
            ),
            false => writeln!(text, "    came[{}] -> Discard;", i + 1),
        };
    }
    let rest = rest(router);
    let shared = shared_addresses(router);
    let protocols = if router.joined[1] { "" } else { "(PROTOCOLS \"icmp6 udp tcp\")" };
    let _ = write!(
        text,
        "}}\n\n\
         // Packets that we make fit the minimum link MTU of IPv6. This router does no Path MTU Discovery (RFC 8201, 1).\n\
         // They go to the routing table, unpainted. But those from or for a link-local address go back to the link that caused them.\n\
         made6 :: IP6Fragmenter({MTU_MIN}, LOCAL true) -> mine6 :: Classifier({3}, -);\n\
         mine6[0], mine6[1] -> back6 :: PaintSwitch;\n\
         mine6[2] -> Paint(0) -> {4};\n\
         back6[0] -> Discard;\n\n\
         // Packets for this router: fragments are put together, extension headers processed, pings answered. Senders of\n\
         // UDP and TCP get an ICMP error. Answers about a shared address come from one of our own.\n\
         {2} -> whole6 :: {5}\n    -> headers6 :: IP6Extensions{protocols}\n    \
         -> upper6 :: IP6Extensions(PROTOCOLS icmp6)\n    -> icmp6 :: CheckICMP6Header\n    -> local6 :: PaintSwitch\n    \
         -> pong :: ICMP6PingResponder{0}\n    -> made6;\n\
         pong[1] -> {rest};\n\
         {1}",
        shared.map_or(String::new(), |own| format!("(ANYCAST {own})")),
        shared.map_or(String::new(), |_| format!(
            "rt6[{}] -> SetAnnoByte(FIX_IP_SRC, 1) -> {};\n",
            anycast_output(router),
            firewall::own6(router).unwrap_or_else(|| "whole6".to_owned())
        )),
        ipsec::rest6(router),
        LINK_LOCAL.join(", "),
        arriving(router),
        router.reassembler6(),
    );
    text += match router.joined[1] {
        true => "upper6[2] -> output;\n",
        false => "upper6[2] -> Answer6(unreachable, port, true) -> made6;\n",
    };
    let joined = |output: usize| match router.ipsec {
        Some(_) => format!("whole6[{output}], join6[{output}]"),
        None => format!("whole6[{output}]"),
    };
    let _ = write!(
        text,
        "field6 :: Answer6(parameterproblem, header, true) -> made6;\n\
         upper6[1] -> field6;\n\
         {} -> Answer6(timeexceeded, reassembly, true) -> made6;\n\
         {} -> field6;\n\
         {} -> Answer6(parameterproblem, chain, true) -> made6;\n",
        joined(1),
        joined(2),
        joined(3)
    );
    text += "headers6[1] -> field6;\n\
             headers6[2] -> Answer6(parameterproblem, nextheader, true) -> made6;\n\
             headers6[3] -> Answer6(parameterproblem, option, true) -> made6;\n\n\
             // Exceptions on the way, from any interface: the sender gets an ICMP error.\n\
             hop6[1] -> Answer6(parameterproblem, header, false) -> made6;\n\
             hop6[2] -> Answer6(parameterproblem, option, false) -> made6;\n\
             beyond6 :: Answer6(unreachable, scope, false) -> made6;\n\
             expired6 :: Answer6(timeexceeded, transit, false) -> made6;\n\
             nobody6 :: Answer6(unreachable, address, false) -> made6;\n";
    if !has_default(router) {
        let _ = writeln!(
            text,
            "rt6[{}] -> Answer6(unreachable, noroute, false) -> made6;",
            router.interfaces.len() + 2
        );
    }
    text
}

/// Where packets for the router go with which it has nothing to do.
fn rest(router: &Router) -> &'static str {
    if router.joined[1] { "output" } else { "Discard" }
}

/// What is for the router and what is an exception, where the kernel answers.
pub(super) fn kernel(router: &Router) -> String {
    let mut text = format!(
        "{}options6 :: Punt(options) -> kernel;\n\
         hop6[1] -> options6;\n\
         hop6[2] -> options6;\n\
         beyond6 :: Punt(beyond-scope) -> kernel;\n\
         expired6 :: Punt(hop-limit-expired) -> kernel;\n\
         toobig6 :: Punt(too-big, RESTORE_TTL true) -> kernel;\n\
         noneighbour6 :: Punt(no-neighbour, RESTORE_TTL true) -> again6 :: PaintSwitch;\n\
         again6[0] -> Discard;\n",
        balance::own6(router, &ipsec::rest6(router), "own"),
    );
    if !has_default(router) {
        let _ =
            writeln!(text, "rt6[{}] -> noroute6 :: Punt(no-route) -> kernel;", router.interfaces.len() + 2);
    }
    text
}

/// What interface `i` receives. The classifier's outputs begin at `c`.
pub(super) fn input(router: &Router, i: usize, c: usize) -> String {
    let interface = &router.interfaces[i];
    format!(
        "nd{i} :: IP6NDSolicitor({}, {}{});\n{} -> {}Paint({}) -> ip6{};\n",
        link_local(interface),
        interface.station,
        if router.mpls { mpls::TYPED } else { "" },
        Router::received(i, c + 3),
        router.marked(i),
        i + 1,
        vrf::suffix(router.table_of(i), "_vrf"),
    )
}

/// What sends router advertisements on interface `i`.
fn advertiser(router: &Router, i: usize) -> String {
    let interface = &router.interfaces[i];
    let Interface { station, mtu, six, prefixes, .. } = interface;
    let mut named: Vec<String> = prefixes.iter().map(|p| format!("PREFIX {p}")).collect();
    if named.is_empty() {
        // Hosts can make themselves addresses of 64-bit prefixes only (RFC 4862, 5.5.3; RFC 4291, 2.5.1).
        let own = six.iter().filter(|(_, p)| p.len() < 127);
        named = own
            .map(|(_, p)| format!("PREFIX {p}{}", if p.len() == 64 { "" } else { " 2592000 604800 L" }))
            .collect();
    }
    named.dedup();
    named.push(format!("MTU {mtu}{}", router.follow(i)));
    named.extend(router.advertisements.iter().cloned());
    named.extend(nat::advertised(router, i).map(|prefix| format!("PREF64 {prefix}")));
    format!(
        "ra{i} :: IP6NDRouterAdvertiser({}, {station}, {}) -> out{i};\n",
        link_local(interface),
        named.join(", ")
    )
}

/// Who hears neighbour discovery on interface `i`.
pub(super) fn stations(router: &Router, i: usize, c: usize) -> String {
    let interface = &router.interfaces[i];
    let Interface { station, six, .. } = interface;
    let [solicitations, advertisements, routers] = [c, c + 1, c + 2].map(|kind| Router::received(i, kind));
    let mut text = String::new();
    if router.host {
        text += &format!(
            "again6[{}] -> EtherEncap(0x86dd, {station}, {station}) -> punts{i};\n\
             {}\
             {advertisements} -> adverts{i} :: Tee -> [1]nd{i};\n\
             adverts{i}[1] -> heard{i};\n",
            i + 1,
            balance::answered_by_us6(router, i, &solicitations)
                .unwrap_or_else(|| format!("{solicitations} -> heard{i};\n")),
        );
    } else {
        let own: String = six.iter().map(|(a, _)| format!("{a} ")).collect();
        let own: String =
            balance::answered(router, i, true).iter().fold(own, |own, address| format!("{own}{address} "));
        let mut shared: Vec<Ipv6Addr> =
            six.iter().filter(|(_, p)| p.len() < 127).map(|(_, p)| p.addr()).collect();
        shared.dedup();
        let shared: String = shared.iter().map(|a| format!("{a} ")).collect();
        let anycast = if shared.is_empty() { shared } else { format!(", ANYCAST {shared}{station}") };
        text += &format!(
            "{solicitations} -> IP6NDAdvertiser({} {own}{station}{anycast}, TABLE nd{i}) -> out{i};\n\
             {advertisements} -> [1]nd{i};\n",
            link_local(interface)
        );
    }
    text += &match (router.advertises(interface), router.host) {
        (true, _) => format!("{}{routers} -> ra{i};\n", advertiser(router, i)),
        (false, true) => format!("{routers} -> heard{i};\n"),
        (false, false) => format!("{routers} -> Discard;\n"),
    };
    text
}

/// What leaves by interface `i`.
pub(super) fn output(router: &Router, i: usize) -> String {
    let interface = &router.interfaces[i];
    let Interface { name, mtu, six, .. } = interface;
    let (output, follow) = (i + 1, router.follow(i));
    let entry = entry(router);
    let way = if router.host { &*entry } else { "made6" };
    let long = format!("ICMP6Error({}, toobig, PMTU_ANNO true, {ERRORS}) -> {way}", speaker(router, i));
    // Neighbours hear of better ways only, and all neighbours have an address on the link (RFC 4861, 8.2).
    let networks: Vec<String> = six.iter().map(|(_, p)| p.to_string()).collect();
    let redirect = ipsec::Redirect { name: "onlink", i };
    let redirects = match redirect.copies(router) {
        Some(copies) => format!(
            "{copies}ICMP6Error({}, redirect, ONLINK {}, {ERRORS}{}) -> [0]nd{i};\n",
            link_local(interface),
            [&["fe80::/10".to_owned()][..], &networks].concat().join(" "),
            router.owned([i])
        ),
        None => String::new(),
    };
    let expired = match router.host && balance::answers(router) {
        true => format!(
            "ICMP6Error({}, timeexceeded, transit, {ERRORS}{}) -> {entry}",
            speaker(router, i),
            router.owned([i])
        ),
        false => "expired6;\n".to_owned(),
    };
    let mut text = format!(
        r"
// What leaves by {name}: the checks in order, each exception to {}.
{way} -> DropBroadcasts
    -> scope{i} :: CheckIP6Scope
    {first}-> hlim{i} :: DecIP6HLIM
    {protected}{balanced}-> big{i} :: IP6Fragmenter({mtu}{follow})
    -> nd{i} -> {};
{redirects}scope{i}[1] -> beyond6;
hlim{i}[1] -> {expired}nd{i}[1] -> out{i};
",
        router.answers(),
        bfd::out(router, i),
        way = firewall::way(router, true, output),
        first = redirect.first(router),
        balanced = balance::leaving(router, i, true),
        protected = ipsec::out6(router, i, &long),
    );
    let speaker = speaker(router, i);
    text += &if router.host && (nat::has_six(router) || balance::answers(router)) {
        // The kernel knows nothing of translated addresses.
        format!(
            "big{i}[1] -> ICMP6Error({speaker}, toobig, MTU {mtu}{follow}, {ERRORS}{}) -> {way}nd{i}[2] -> noneighbour6;\n",
            router.owned([i])
        )
    } else if router.host {
        format!("big{i}[1] -> toobig6;\nnd{i}[2] -> noneighbour6;\n")
    } else {
        let pong = link_local(interface);
        format!(
            "big{i}[1] -> ICMP6Error({speaker}, toobig, MTU {mtu}{follow}, {ERRORS}) -> made6;\n\
             nd{i}[2] -> nobody6;\n\
             {}\
             local6[{output}] -> pong{i} :: ICMP6PingResponder({pong}, ANYCAST {speaker}) -> made6;\n\
             pong{i}[1] -> {};\n",
            ipsec::direct(
                router,
                i,
                (&format!("back6[{output}]"), "links", &format!("[0]nd{i}")),
                &LINK_LOCAL,
                None
            ),
            rest(router)
        )
    };
    text
}

/// What must be said of interface `i`, which has no IPv6 while others have.
pub(super) fn absent(router: &Router, i: usize) -> String {
    let output = i + 1;
    let mut text = format!("{} -> Discard;\n", firewall::way(router, true, output));
    text += &if router.host {
        format!("again6[{output}] -> Discard;\n")
    } else {
        format!("back6[{output}] -> Discard;\nlocal6[{output}] -> Discard;\n")
    };
    text
}
