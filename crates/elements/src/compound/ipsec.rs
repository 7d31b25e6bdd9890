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

/// What tells IPv4 from IPv6.
const FAMILIES: &str = "Classifier(0/40%f0, 0/60%f0, -)";
/// ICMP errors, as in the rest of the router.
const ERRORS: &str = "RATE 1000, DST_RATE 10";

/// What is for this router, and is no ESP: an output of what has sorted it.
pub(super) fn rest4(router: &Router) -> &'static str {
    if router.ipsec.is_some() { "esp4[1]" } else { bfd::rest4(router) }
}

/// The same for IPv6.
pub(super) fn rest6(router: &Router) -> &'static str {
    if router.ipsec.is_some() { "esp6[2]" } else { bfd::rest6(router) }
}

/// What checks received packets.
pub(super) fn check(router: &Router) -> &'static str {
    if router.ipsec.is_some() { "IPsecCheck(ipsec) -> " } else { "" }
}

/// Gives packets the Ethernet header with which the kernel gets them, by the interface of their paint.
fn headers(router: &Router, name: &str, ethertype: &str, then: impl Fn(usize) -> String) -> String {
    let mut text = format!("{name}[0] -> Discard;\n");
    for (i, port) in router.interfaces.iter().enumerate() {
        let station = &port.station;
        text +=
            &format!("{name}[{}] -> EtherEncap({ethertype}, {station}, {station}) -> {};\n", i + 1, then(i));
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
        text += &format!("protected[{at}] -> Paint(0) -> [0]{table};\n");
        if router.host {
            // Packets of a tunnel may be for the kernel, or exceptions.
            text += &format!(
                "opened[{at}] -> link{family} :: PaintSwitch;\nenter{family} :: Strip(14) -> {entry};\n"
            );
            text += &headers(router, &format!("link{family}"), ethertype, |_| format!("enter{family}"));
            text += &format!("ike[{at}] -> ike{family} :: PaintSwitch;\n");
            text += &headers(router, &format!("ike{family}"), ethertype, |i| format!("heard{i}"));
        } else {
            text += &format!("opened[{at}] -> Paint(0) -> {entry};\nike[{at}] -> Discard;\n");
        }
    }
    text += &if four {
        format!(
            "{} -> esp4 :: IPClassifier(ip proto 50 or dst udp port 4500, -);\n\
             esp4[0] -> IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16) -> dec;\n",
            bfd::rest4(router)
        )
    } else {
        String::new()
    };
    text += &if six {
        format!(
            "{} -> esp6 :: Classifier(6/32, 6/11 42/1194, -);\nesp6[0], esp6[1] -> dec;\n",
            bfd::rest6(router)
        )
    } else {
        String::new()
    };
    text
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

/// Where frames go that the kernel sends by interface `i`: its packets are protected, too.
pub(super) fn said(router: &Router, i: usize) -> String {
    if router.ipsec.is_none() {
        return format!("out{i};\n");
    }
    let (mtu, follow) = (router.interfaces[i].mtu, router.follow(i));
    format!(
        "kind{i} :: Classifier(12/0800, 12/86dd, -);\n\
         kind{i}[0], kind{i}[1] -> Strip(14) -> mine{i} :: IPsecEncrypt(ipsec, MTU {mtu}{follow});\n\
         mine{i}[0] -> protected;\n\
         mine{i}[1] -> Unstrip(14) -> out{i};\n\
         kind{i}[2] -> out{i};\n"
    )
}
