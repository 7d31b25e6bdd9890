// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MPLS part of a router's text: the label table, the ways into it and out of it.
//!
//! Outputs of the label table: 2 i leads to interface i's IPv4 neighbours and 2 i + 1 to its IPv6 ones; then IPv4 and IPv6 packets that have
//! come out of their labels, and IPv4 and IPv6 packets whose TTL has run out.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::router::{Interface, Router};
use super::{ipv4, ipv6};

/// What an interface's classifier distinguishes: labelled packets.
pub(super) const PATTERNS: [&str; 1] = ["12/8847"];
/// How ICMP errors about labelled packets are sent.
const ERRORS: &str = "MPLS true, RATE 1000, DST_RATE 10";
/// Arguments of ARPQuerier and IP6NDSolicitor, so that labelled packets may leave by them.
pub(super) const TYPED: &str = ", ETHERTYPE_ANNO ETHERTYPE";

/// The output of each routing table for next hops that are adjacencies of the label table.
fn adjacency_outputs(router: &Router) -> [Option<usize>; 2] {
    [router.has4().then(|| ipv4::outputs(router)), router.has6().then(|| ipv6::outputs(router))]
}

/// Further arguments of RouteFeed.
pub(super) fn fed(router: &Router) -> Vec<String> {
    let mut arguments = vec!["MPLS mpls".to_owned()];
    let links = 0..router.interfaces.len();
    arguments.extend(links.map(|i| format!("MPLS_LINK host{i} {} {}", 2 * i, 2 * i + 1)));
    arguments.push(match adjacency_outputs(router) {
        [Some(four), Some(six)] => format!("ADJACENCY {four} {six}"),
        [four, six] => format!("ADJACENCY {}", four.or(six).unwrap_or_default()),
    });
    arguments
}

/// The label table, and what does not belong to an interface.
pub(super) fn table(router: &Router) -> String {
    let first = 2 * router.interfaces.len();
    let mut text = format!(
        "\n// The label table. Output 2 i leads to the IPv4 neighbours of interface i, and 2 i + 1 to its IPv6 neighbours.\n\
         mpls :: LookupMPLS(IP {first} {}, EXPIRED {} {}{});\n",
        first + 1,
        first + 2,
        first + 3,
        if router.vrfs.is_empty() { "" } else { ", VRF_ANNO VRF" }
    );
    let [four, six] = adjacency_outputs(router);
    text += &match four {
        Some(output) => four_text(router, first, output),
        None => format!("mpls[{first}] -> Discard;\nmpls[{}] -> Discard;\n", first + 2),
    };
    text += &match six {
        Some(output) => six_text(router, first + 1, output),
        None => format!("mpls[{}] -> Discard;\nmpls[{}] -> Discard;\n", first + 1, first + 3),
    };
    text
}

/// The way of what was below a label: with a link header, where the kernel is to get it back. What has come out of a label into a VRF
/// counts as received by the VRF's first interface, so that exceptions stay there.
fn popped(router: &Router, output: usize, name: &str, ethertype: &str, way: &str) -> String {
    let into = |table: usize| {
        let to = if router.host { name.to_owned() } else { format!("{name}way") };
        match router.members(table).next() {
            Some((i, _)) if table > 0 => Some(format!("Paint({}) -> {to};\n", i + 1)),
            _ => Some(format!("{to};\n")),
        }
    };
    let (alone, from) = (router.vrfs.is_empty(), format!("mpls[{output}]"));
    let mut text = match (alone, router.host) {
        (true, false) => return format!("{from} -> {way}"),
        (false, false) => format!("{name}way :: {way}"),
        (_, true) => format!(
            "// What was below the last label gets a link header, which the kernel gets back with it.\n\
             {}{name} :: PaintSwitch;\n{name}[0] -> Discard;\n{name}way :: {way}",
            if alone { format!("{from} -> ") } else { String::new() }
        ),
    };
    let twins = router.interfaces.iter().enumerate().filter(|_| router.host);
    for (i, Interface { station, .. }) in twins {
        let _ = writeln!(
            text,
            "{name}[{}] -> EtherEncap({ethertype}, {station}, {station}) -> Strip(14) -> {name}way;",
            i + 1
        );
    }
    if !alone {
        text += &router.by_table(&from, &format!("{name}into"), into);
    }
    text
}

fn four_text(router: &Router, first: usize, output: usize) -> String {
    let address =
        router.interfaces.iter().find_map(|i| i.four.first()).map_or(Ipv4Addr::UNSPECIFIED, |a| a.0);
    let mut text = popped(router, first, "popped", "0x0800", "CheckIPHeader -> GetIPAddress(16) -> [0]rt;\n");
    let _ = write!(
        text,
        "mpls[{}] -> ICMPError({address}, timeexceeded, {ERRORS}) -> [0]rt;\n\
         // Routes whose next hop pushes labels, or has an IPv6 address.\n\
         rt[{output}] -> DropBroadcasts -> pushoptions :: IPGWOptions({address}) -> FixIPSrc({address}) -> pushttl :: DecIPTTL -> [1]mpls;\n",
        first + 2
    );
    text += &match router.host {
        true => "pushoptions[1] -> options;\npushttl[1] -> ttl;\n".to_owned(),
        false => {
            let error = |what: &'static str| {
                move |table| {
                    let address = router.speaker4(table)?;
                    Some(format!("ICMPError({address}, {what}, RATE 1000, DST_RATE 10) -> [0]rt;\n"))
                }
            };
            router.by_table("pushoptions[1]", "badoptions", error("parameterproblem"))
                + &router.by_table("pushttl[1]", "expired", error("timeexceeded"))
        }
    };
    text
}

fn six_text(router: &Router, first: usize, output: usize) -> String {
    let address = router.tables().find_map(|table| ipv6::speaker_of(router, table));
    let address = address.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let mut text = popped(router, first, "popped6", "0x86dd", "CheckIP6Header -> [0]rt6;\n");
    let _ = write!(
        text,
        "mpls[{}] -> ICMP6Error({address}, timeexceeded, {ERRORS}) -> {}\
         rt6[{output}] -> DropBroadcasts -> pushscope :: CheckIP6Scope -> pushhlim :: DecIP6HLIM -> [1]mpls;\n\
         pushscope[1] -> beyond6;\n\
         pushhlim[1] -> expired6;\n",
        first + 2,
        ipv6::entry(router),
    );
    text
}

/// Labelled packets that interface `i` receives, and those that leave by it. The classifier's output is `c`.
pub(super) fn port(router: &Router, i: usize, c: usize) -> String {
    let interface = &router.interfaces[i];
    let Interface { mtu, .. } = interface;
    let follow = router.follow(i);
    let mut text = format!(
        "{} -> Strip(14) -> DropBroadcasts -> {}Paint({}) -> mpls;\n",
        Router::received(i, c),
        router.marked(i),
        i + 1
    );
    let families = [(2 * i, interface.has4(), "arp"), (2 * i + 1, interface.has6(), "nd")];
    for (output, has, querier) in families {
        if !has {
            let _ = writeln!(text, "mpls[{output}] -> Discard;");
            continue;
        }
        let _ = writeln!(
            text,
            "mpls[{output}] -> carried{output} :: CheckMPLSMTU({mtu}{follow}) -> [0]{querier}{i};"
        );
        text += &router.by_table(&format!("carried{output}[1]"), &format!("long{output}"), |table| {
            let own =
                interface.four.first().filter(|_| table == router.table_of(i)).map(|(address, _)| *address);
            let address = own.or_else(|| router.speaker4(table))?;
            let what = format!("unreachable, needfrag, PMTU {mtu}{follow}, {ERRORS}");
            Some(format!("ICMPError({address}, {what}) -> [0]rt;\n"))
        });
        text += &router.by_table(&format!("carried{output}[2]"), &format!("wide{output}"), |table| {
            ipv6::too_big(router, table, i, ERRORS)
        });
    }
    text
}
