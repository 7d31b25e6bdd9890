// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that protects packets.
//!
//! ```text
//! received -> IPsecCheck -> routing table -> ... -> IPsecEncrypt -> fragments, link
//!                             ^    ^  \                 |
//!                             |    |   \ for us         | protected
//!                             |    +----\---------------+
//!                             +-- IPsecDecrypt
//! ```

use super::bfd;
use super::router::Router;

/// Sorts IPv4, IPv6 and the rest.
pub(super) const FAMILIES: &str = "Classifier(0/40%f0, 0/60%f0, -)";
/// ICMP errors, as in the rest of the router.
const ERRORS: &str = "RATE 1000, DST_RATE 10";

/// What is for this router, and is no ESP: an output of what has sorted it.
pub(super) fn rest4(router: &Router) -> &'static str {
    match (router.ipsec.is_some(), router.host) {
        (true, true) => "esp4[1]",
        (true, false) => "esp4[1], joined4[1]",
        _ => bfd::rest4(router),
    }
}

/// The same for IPv6.
pub(super) fn rest6(router: &Router) -> &'static str {
    match (router.ipsec.is_some(), router.host) {
        (true, true) => "esp6[3]",
        (true, false) => "esp6[3], joined6[2]",
        _ => bfd::rest6(router),
    }
}

/// What checks received packets.
pub(super) fn check(router: &Router) -> &'static str {
    if router.ipsec.is_some() { "IPsecCheck(ipsec) -> " } else { "" }
}

/// Gives packets the Ethernet header with which the kernel gets them, by the interface of their paint.
fn headers(router: &Router, name: &str, ethertype: &str, then: &str) -> String {
    let mut text = format!("{name}[0] -> Discard;\n");
    for (i, port) in router.interfaces.iter().enumerate() {
        let station = &port.station;
        text += &format!("{name}[{}] -> EtherEncap({ethertype}, {station}, {station}) -> {};\n", i + 1, then);
    }
    text
}

/// The databases, and what is for this router.
pub(super) fn sorted(router: &Router) -> String {
    let Some(arguments) = &router.ipsec else { return String::new() };
    let (four, six) = (router.has4(), router.has6());
    let mut text = format!(
        "\n// IPsec: what policies demand is protected by ESP (protocol 50, or UDP port 4500).\n\
         ipsec :: IPsecDatabase({});\n\
         dec :: IPsecDecrypt(ipsec) -> opened :: {FAMILIES};\nopened[2] -> Discard;\n\
         dec[1] -> ike :: {FAMILIES};\nike[2] -> Discard;\n\
         protected :: {FAMILIES};\nprotected[2] -> Discard;\n",
        arguments.iter().map(|text| format!("\n    {text}")).collect::<Vec<_>>().join(","),
    );
    let families = [
        (four, 4, "0x0800", "CheckIPHeader -> GetIPAddress(16) -> [0]rt", "rt"),
        (six, 6, "0x86dd", "CheckIP6Header -> GetIP6Address(24) -> [0]rt6", "rt6"),
    ];
    for (at, (has, family, ethertype, entry, table)) in families.into_iter().enumerate() {
        if !has {
            text += &format!("opened[{at}], ike[{at}], protected[{at}] -> Discard;\n");
            continue;
        }
        text += &match family {
            4 => format!("protected[{at}] -> Paint(0) -> [0]{table};\n"),
            // Nobody else may fragment an IPv6 packet.
            _ => format!(
                "protected[{at}] -> IP6Fragmenter({}, LOCAL true) -> Paint(0) -> [0]{table};\n",
                shortest(router)
            ),
        };
        if router.host {
            // Packets of a tunnel may be for the kernel, or exceptions.
            text += &format!(
                "opened[{at}] -> link{family} :: PaintSwitch;\nenter{family} :: Strip(14) -> {entry};\n"
            );
            text += &headers(router, &format!("link{family}"), ethertype, &format!("enter{family}"));
            text += &format!("ike[{at}] -> ike{family} :: PaintSwitch;\nike{family}[0] -> Discard;\n");
        } else {
            text += &format!("opened[{at}] -> {entry};\nike[{at}] -> Discard;\n");
        }
    }
    if four {
        // Of a fragment but the first, nobody knows the port.
        text += &format!(
            "{} -> esp4 :: IPClassifier(ip proto 50 or dst udp port 4500 or (ip proto udp and ip frag), -);\n\
             esp4[0] -> IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16) -> joined4 :: IPClassifier(ip proto 50 or dst udp port 4500, -);\n\
             joined4[0] -> dec;\n",
            bfd::rest4(router)
        );
        text += if router.host { "joined4[1] -> ike4;\n" } else { "" };
    }
    if six {
        text += &format!(
            "{} -> esp6 :: Classifier(6/32, 6/11 42/1194, 6/2c, -);\n\
             esp6[0], esp6[1] -> dec;\n\
             esp6[2] -> IP6Reassembler -> joined6 :: Classifier(6/32, 6/11 42/1194, -);\n\
             joined6[0], joined6[1] -> dec;\n",
            bfd::rest6(router)
        );
        text += if router.host { "joined6[2] -> ike6;\n" } else { "" };
    }
    text
}

/// The lowest MTU of the interfaces, and what follows them.
fn shortest(router: &Router) -> String {
    let mtu = router.interfaces.iter().map(|port| port.mtu).min().unwrap_or_default();
    let devices: String = (0..router.interfaces.len()).map(|i| format!(" in{i}")).collect();
    format!("{mtu}, FOLLOW{devices}")
}

/// What protects IPv4 packets that leave by interface `i`, for the middle of a chain.
pub(super) fn out4(router: &Router, i: usize) -> String {
    out(
        router,
        i,
        "ipsec",
        &format!(
            "ICMPError({}, unreachable, needfrag, PMTU_ANNO true, TOS copy, {ERRORS}{}) -> [0]rt",
            router.interfaces[i].speaker4(),
            router.owned([i])
        ),
    )
}

/// The same for IPv6; `error` is what answers packets that are too long.
pub(super) fn out6(router: &Router, i: usize, error: &str) -> String {
    out(router, i, "ipsec6", error)
}

fn out(router: &Router, i: usize, name: &str, error: &str) -> String {
    if router.ipsec.is_none() {
        return String::new();
    }
    let (mtu, follow) = (router.interfaces[i].mtu, router.follow(i));
    format!(
        "-> {name}{i} :: IPsecEncrypt(ipsec, MTU {mtu}{follow});\n\
         {name}{i}[0] -> protected;\n\
         {name}{i}[2] -> {error};\n\
         {name}{i}[1]\n    "
    )
}

/// The way of frames that the kernel sends by interface `i`, for the middle of a chain: its packets are protected, too. It hears of those that do not fit.
pub(super) fn said(router: &Router, i: usize) -> String {
    if router.ipsec.is_none() {
        return String::new();
    }
    let (mtu, follow) = (router.interfaces[i].mtu, router.follow(i));
    format!(
        "kind{i} :: Classifier(12/0800, 12/86dd, -);\n\
         kind{i}[0], kind{i}[1] -> Strip(14) -> mine{i} :: IPsecEncrypt(ipsec, MTU {mtu}{follow});\n\
         mine{i}[0] -> protected;\n\
         mine{i}[1] -> Unstrip(14) -> said{i} :: ControlTraffic(LIMITED false);\n\
         kind{i}[2]\n    -> "
    )
}

/// The way of messages of IKE that came in UDP for ESP by interface `i` to the kernel, and what answers packets of the kernel that do not fit.
pub(super) fn to_kernel(router: &Router, i: usize) -> String {
    if router.ipsec.is_none() {
        return String::new();
    }
    let port = &router.interfaces[i];
    let station = &port.station;
    let four = port.four.first().map_or("Discard;".to_owned(), |(address, _)| {
        format!(
            "MarkIPHeader -> ICMPError({address}, unreachable, needfrag, PMTU_ANNO true, {ERRORS})\n    -> EtherEncap(0x0800, {station}, {station}) -> punts{i};"
        )
    });
    let six = port.link_local.map_or("Discard;".to_owned(), |address| {
        format!(
            "MarkIP6Header -> ICMP6Error({address}, toobig, PMTU_ANNO true, {ERRORS})\n    -> EtherEncap(0x86dd, {station}, {station}) -> punts{i};"
        )
    });
    let mut text = format!(
        "mine{i}[2] -> long{i} :: {FAMILIES};\nlong{i}[0] -> {four}\nlong{i}[1] -> {six}\nlong{i}[2] -> Discard;\n"
    );
    for (has, family, ethertype) in [(router.has4(), 4, "0x0800"), (router.has6(), 6, "0x86dd")] {
        if has {
            text += &format!(
                "ike{family}[{}] -> EtherEncap({ethertype}, {station}, {station}) -> heard{i};\n",
                i + 1
            );
        }
    }
    text
}
