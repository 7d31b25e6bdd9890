// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that lets packets pass by the rules of a file: behind the routing tables, where it is known where they go.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::router::Router;
use super::{ipv4, ipv6, nat};

/// How many ways a family has: to this router and to interfaces, and of IPv6 packets to the translator.
fn ways(router: &Router) -> usize {
    router.interfaces.len() + 1 + usize::from(nat::has_six(router))
}

/// Whether packets of IPv6 hosts leave by a way, which the firewall has seen before they became packets of IPv4.
fn has_seen(router: &Router, way: usize) -> bool {
    nat::has_six(router) && way > 0 && nat::leads_out(router, way - 1)
}

/// The input of the firewall for a way of a family.
fn input(router: &Router, six: bool, way: usize) -> usize {
    if six && router.has4() { ways(router) + way } else { way }
}

/// Where packets come from that go to this router (0) or by an interface: the routing table, or the firewall behind it.
pub(super) fn way(router: &Router, six: bool, way: usize) -> String {
    match (&router.firewall, six) {
        (Some(_), false) if has_seen(router, way) => format!("seen{way}[0], fw[{way}]"),
        (Some(_), _) => format!("fw[{}]", input(router, six, way)),
        (None, false) => format!("rt[{way}]"),
        (None, true) => format!("rt6[{way}]"),
    }
}

/// Where IPv6 packets for this router go first, if there is a firewall.
pub(super) fn own6(router: &Router) -> Option<String> {
    router.firewall.as_ref().map(|_| format!("[{}]fw", input(router, true, 0)))
}

/// The first of the firewall's outputs that do not lead anywhere by themselves.
fn first_answer(router: &Router) -> usize {
    let families = usize::from(router.has4()) + usize::from(router.has6());
    families * ways(router)
}

/// The firewall, and the ways to it.
pub(super) fn text(router: &Router) -> String {
    let Some(file) = &router.firewall else { return String::new() };
    let mut links: String =
        router.interfaces.iter().map(|interface| format!(", LINK {}", interface.name)).collect();
    links += &router.vrfs.iter().map(|vrf| router.with_links(vrf)).collect::<String>();
    links += &nat::marked(router);
    let mut translated = String::new();
    if nat::has_six(router) {
        links += ", LINK nat64";
        let (four, six) = (router.interfaces.len() + 1, input(router, true, router.interfaces.len() + 1));
        // By the sequence number annotation, which NAT64 sets.
        translated = format!(
            "// What IPv6 hosts send to IPv4 addresses goes to the link nat64, so the firewall sees their own addresses in both directions.\n\
             Idle -> [{four}]fw;\nfw[{four}] -> Discard;\n\
             to64[0] -> IP6Reassembler -> [{six}]fw;\nfw[{six}] -> [0]nat64;\n"
        );
    }
    let mut text = format!(
        "\n// The firewall: {file} says which connections may pass. Later fragments have no ports: IPv4 packets are put together first,\n\
         // and those of IPv6 go the way of the first one.\n\
         fw :: Firewall({}{links});\n",
        lang::config::quote(file)
    );
    text += &translated;
    for way in 0..=router.interfaces.len() {
        if router.has4() {
            let seen = match has_seen(router, way) {
                true => format!("seen{way} :: CheckPaint(255, 43);\nseen{way}[1] -> "),
                false => String::new(),
            };
            let _ = writeln!(
                text,
                "rt[{way}] -> {seen}whole4_{way} :: {} -> [{way}]fw;\n\
                 whole4_{way}[1] -> Discard;",
                router.reassembler4(64)
            );
        }
        if router.has6() {
            let _ = writeln!(text, "rt6[{way}] -> [{}]fw;", input(router, true, way));
        }
    }
    text
}

/// The answers to senders of packets that may not pass.
pub(super) fn answers(router: &Router) -> String {
    let mut text = String::new();
    if router.firewall.is_none() {
        return text;
    }
    text += "\n// Who sent what is rejected gets an ICMP error, or a reset of TCP.\n";
    let mut output = first_answer(router);
    if router.has4() {
        let error = |table| {
            let members = || router.members(table).filter(|(_, port)| port.has4() || router.vrfs.is_empty());
            let address = members().find_map(|(_, port)| port.four.first());
            let address = address.map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| *address);
            let owned = router.owned(members().map(|(i, _)| i));
            members().next()?;
            Some(format!(
                "ICMPError({address}, unreachable, CODE_ANNO ICMP_PARAMPROB, {}{owned}) -> [0]rt;\n",
                ipv4::ERRORS
            ))
        };
        text += &router.by_table(&format!("fw[{output}]"), "refused4", error);
        let _ = writeln!(text, "fw[{}] -> [0]rt;", output + 1);
        output += 2;
    }
    if router.has6() {
        let _ = writeln!(text, "fw[{}] -> [0]rt6;", output + 1);
        text += &ipv6::refusals(router, &format!("fw[{output}]"), "refused6");
    }
    text
}
