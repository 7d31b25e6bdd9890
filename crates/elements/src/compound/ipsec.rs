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
use super::{ipv4, ipv6};

/// Sorts IPv4, IPv6 and the rest.
pub(super) const FAMILIES: &str = "Classifier(0/40%f0, 0/60%f0, -)";
/// ICMP errors, as in the rest of the router.
const ERRORS: &str = "RATE 1000, DST_RATE 10";

/// What is for this router, and is no ESP: the end of a chain that has sorted it.
pub(super) fn rest4(router: &Router) -> String {
    if router.ipsec.is_some() {
        "esp4[1] -> path4 :: IPsecPathMTU(ipsec)".to_owned()
    } else {
        bfd::rest4(router)
    }
}

/// The same for IPv6.
pub(super) fn rest6(router: &Router) -> String {
    if router.ipsec.is_some() {
        "esp6[3] -> path6 :: IPsecPathMTU(ipsec)".to_owned()
    } else {
        bfd::rest6(router)
    }
}

/// Where packets of a family to groups of which the kernel is a member go: ESP is opened first.
pub(super) fn joined(router: &Router, family: u8) -> String {
    if router.ipsec.is_some() { format!("esp{family}") } else { "own".to_owned() }
}

/// What checks received packets of a family, and names what does.
pub(super) fn check(router: &Router, family: u8) -> String {
    if router.ipsec.is_none() {
        return String::new();
    }
    let addresses = router.interfaces.iter().flat_map(|port| port.addresses());
    let own: String =
        addresses.filter(|own| own.is_ipv4() == (family == 4)).map(|own| format!(" {own}")).collect();
    let own = if own.is_empty() { own } else { format!(", LOCAL{own}") };
    format!("chk{family} :: IPsecCheck(ipsec{own}{}) -> ", router.owned(0..router.interfaces.len()))
}

/// The element that copies packets which came by the interface that they leave by, so that their senders hear of a better way.
#[derive(Clone, Copy)]
pub(super) struct Redirect<'a> {
    /// Its name, without the interface's number.
    pub name: &'a str,
    /// The interface.
    pub i: usize,
}

impl Redirect<'_> {
    /// The element. With IPsec it stands behind it: nobody is led around a tunnel.
    fn tee(self) -> String {
        let Redirect { name, i } = self;
        format!("-> {name}{i} :: PaintTee({})\n    ", i + 1)
    }

    /// Where it stands without IPsec.
    pub fn first(self, router: &Router) -> String {
        if router.ipsec.is_some() || router.balance.is_some() { String::new() } else { self.tee() }
    }

    /// Which copies make a redirect: none of what came by a tunnel. Nobody is led around a load balancer.
    pub fn copies(self, router: &Router) -> Option<String> {
        if router.balance.is_some() {
            return None;
        }
        let Redirect { name, i } = self;
        let fresh = if router.ipsec.is_some() { "CheckPaint(0, OPENED) -> " } else { "" };
        Some(format!("{name}{i}[1] -> {fresh}"))
    }
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
         protected :: {FAMILIES};\nprotected[2] -> Discard;\n\
         // Packets that hide how much is sent, where associations say so (dummies N), or a rate is written here.\n\
         dummies :: IPsecDummies(ipsec, MTU {}) -> protected;\n",
        arguments.iter().map(|text| format!("\n    {text}")).collect::<Vec<_>>().join(","),
        shortest(router),
    );
    let families = [
        (four, 4, "IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16)", "rt"),
        (six, 6, "IP6Reassembler", "rt6"),
    ];
    for (at, (has, family, reassembler, table)) in families.into_iter().enumerate() {
        if !has {
            text += &format!("opened[{at}], ike[{at}], protected[{at}] -> Discard;\n");
            continue;
        }
        text += &match family {
            4 => format!("protected[{at}] -> Paint(0) -> [0]{table};\n"),
            // Nobody else may fragment an IPv6 packet.
            _ => format!(
                "protected[{at}] -> IP6Fragmenter({}, LOCAL true, MTU_ANNO true) -> Paint(0) -> [0]{table};\n",
                shortest(router)
            ),
        };
        text += &entry(router, family);
        text += &format!(
            "// Opened packets go through all checks but that of policies. Fragments for this router become whole before that.\n\
             opened[{at}] -> SetAnnoByte(OPENED, 1) -> link{family};\n\
             chk{family}[1] -> join{family} :: {reassembler} -> IPsecCheck(ipsec) -> link{family};\n"
        );
        text += &match router.host {
            true => format!("ike[{at}] -> ike{family} :: PaintSwitch;\nike{family}[0] -> Discard;\n"),
            false => format!("ike[{at}] -> Discard;\n"),
        };
    }
    if four {
        text += &format!(
            "{} -> esp4 :: IPClassifier(ip proto 50 or dst udp port 4500, -);\n\
             esp4[0] -> IPReassembler(OVERLAP drop, MAX_PER_SOURCE 16) -> dec;\n",
            bfd::rest4(router)
        );
    }
    if six {
        text += &format!(
            "{} -> esp6 :: Classifier(6/32, 6/11 42/1194, 6/3c 40/32, -);\nesp6[0], esp6[1], esp6[2] -> dec;\n",
            bfd::rest6(router)
        );
    }
    text
}

/// The way of packets that the configuration around sends.
pub(super) fn entry4(router: &Router) -> &'static str {
    if router.ipsec.is_some() {
        "CheckIPHeader -> Paint(0) -> SetAnnoByte(OPENED, 0) -> chk4;\n"
    } else if router.nat.is_some() {
        "CheckIPHeader -> Paint(0) -> IPReassembler(OVERLAP drop, MAX_PER_SOURCE 64) -> [0]nat44;\n"
    } else {
        ipv4::ENTRY
    }
}

/// The same for IPv6.
pub(super) fn entry6(router: &Router) -> String {
    if router.ipsec.is_some() {
        "CheckIP6Header -> Paint(0) -> SetAnnoByte(OPENED, 0) -> chk6;\n".to_owned()
    } else {
        ipv6::entry(router)
    }
}

/// The way of packets of a family that come from a tunnel or have been put together, `link4` or `link6`. Where the kernel answers, it may get them.
fn entry(router: &Router, family: u8) -> String {
    let (ethertype, checks) = match family {
        4 => ("0x0800", ipv4::checks(router, 0) + " -> GetIPAddress(16) -> [0]rt"),
        _ => ("0x86dd", ipv6::checks(router, 0) + " -> hop6"),
    };
    if !router.host {
        return format!("link{family} :: {checks};\n");
    }
    let mut text = format!(
        "link{family} :: PaintSwitch;\nlink{family}[0] -> Discard;\nenter{family} :: Strip(14) -> {checks};\n"
    );
    for (i, port) in router.interfaces.iter().enumerate() {
        let station = &port.station;
        text += &format!(
            "link{family}[{}] -> EtherEncap({ethertype}, {station}, {station}) -> enter{family};\n",
            i + 1
        );
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
    let error = format!(
        "ICMPError({}, unreachable, needfrag, PMTU_ANNO true, TOS copy, {ERRORS}{}) -> [0]rt",
        router.interfaces[i].speaker4(),
        router.owned([i])
    );
    out(router, Redirect { name: "redirect", i }, "ipsec", &error)
}

/// The same for IPv6; `error` is what answers packets that are too long.
pub(super) fn out6(router: &Router, i: usize, error: &str) -> String {
    out(router, Redirect { name: "onlink", i }, "ipsec6", error)
}

fn out(router: &Router, redirect: Redirect<'_>, name: &str, error: &str) -> String {
    if router.ipsec.is_none() {
        return String::new();
    }
    let i = redirect.i;
    let encrypt = encrypt(router, i);
    format!(
        "-> {name}{i} :: {encrypt};\n\
         {name}{i}[0] -> protected;\n\
         {name}{i}[2] -> {error};\n\
         {name}{i}[1]\n    {}",
        redirect.tee()
    )
}

fn encrypt(router: &Router, i: usize) -> String {
    let fragment = if router.splits { ", FRAGMENT before" } else { "" };
    format!("IPsecEncrypt(ipsec, MTU {}{}{fragment}, MARK true)", router.interfaces[i].mtu, router.follow(i))
}

/// The same for packets of this router that were put together again.
fn encrypt_own(router: &Router, i: usize) -> String {
    encrypt(router, i).replace("MARK true", "MARK true, OWN true")
}

/// What protects packets that leave by interface `i` regardless of routes, between `from` and `to`: those to groups or on the link. Those that a tunnel carries go
/// where it ends. `here` are the patterns of the others, and `error` is what answers packets that are too long, if anything does.
pub(super) fn direct(
    router: &Router,
    i: usize,
    (from, name, to): (&str, &str, &str),
    here: &[&str],
    error: Option<&str>,
) -> String {
    if router.ipsec.is_none() {
        return format!("{from} -> {to};\n");
    }
    let name = format!("{name}{i}");
    let (patterns, stays) = (here.join(", "), 0..here.len());
    let stays: Vec<String> = stays.map(|at| format!("{name}to[{at}]")).collect();
    let mut text = format!(
        "{from} -> {name} :: {};\n\
         {name}[0] -> {name}to :: Classifier({patterns}, -);\n\
         {}, {name}[1] -> {to};\n\
         {name}to[{}] -> protected;\n",
        encrypt(router, i),
        stays.join(", "),
        here.len()
    );
    if let Some(error) = error {
        text += &format!("{name}[2] -> {error}");
    }
    text
}

/// The way of frames that the kernel sends by interface `i`, sorted by `said`: messages of control protocols go to `control`. Its packets are protected, too, and keep their queue. It hears of those
/// that do not fit. In transport mode they leave by this interface and for the neighbour that the kernel chose, as fragments where they have become too long.
pub(super) fn said(router: &Router, i: usize, control: &str) -> String {
    if router.ipsec.is_none() {
        return format!("-> {control};\nsaid{i}[1], said{i}[2] -> out{i};\n");
    }
    let (encrypt, own) = (encrypt(router, i), encrypt_own(router, i));
    let (follow, mtu) = (router.follow(i), router.interfaces[i].mtu);
    let mtu6 = mtu.max(ipv6::MTU_MIN);
    format!(
        "// Nobody can tell a protected hello from other packets: the paint says which queue is its own.\n    \
         -> Paint(1) -> kind{i} :: Classifier(12/0800, 12/86dd, -);\n\
         said{i}[1], said{i}[2] -> Paint(0) -> kind{i};\n\
         kind{i}[0], kind{i}[1] -> Strip(14) -> mine{i} :: {encrypt};\n\
         mine{i}[0] -> protected;\n\
         mine{i}[1] -> Unstrip(14) -> sent{i} :: PaintSwitch;\n\
         // In transport mode, packets keep their neighbour.\n\
         mine{i}[3] -> Unstrip(14) -> stays{i} :: Classifier(12/0800, -);\n\
         stays{i}[0] -> IPFragmenter({mtu}{follow}) -> sent{i};\n\
         stays{i}[1] -> IP6Fragmenter({mtu6}, LOCAL true, MTU_ANNO true{follow}) -> sent{i};\n\
         // It takes whole packets, and the kernel has fragmented long ones.\n\
         mine{i}[4] -> Unstrip(14) -> parts{i} :: Classifier(12/0800, -);\n\
         parts{i}[0] -> MarkIPHeader(14) -> IPReassembler(OVERLAP drop) -> Strip(14) -> gathered{i} :: {own};\n\
         parts{i}[1] -> MarkIP6Header(14) -> IP6Reassembler -> Strip(14) -> gathered{i};\n\
         gathered{i}[0] -> protected;\n\
         gathered{i}[1], gathered{i}[3] -> Unstrip(14) -> stays{i};\n\
         kind{i}[2] -> sent{i};\n\
         sent{i}[1] -> {control};\n\
         sent{i}[0] -> out{i};\n"
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
            "MarkIPHeader -> ICMPError({address}, unreachable, needfrag, PMTU_ANNO true, {ERRORS})\n    \
             // The kernel believes no packet from an address of its own: it comes from where its packet would have gone.\n    \
             -> GetIPAddress(44) -> StoreIPAddress(src) -> EtherEncap(0x0800, {station}, {station}) -> punts{i};"
        )
    });
    let six = port.link_local.map_or("Discard;".to_owned(), |address| {
        format!(
            "MarkIP6Header -> ICMP6Error({address}, toobig, PMTU_ANNO true, {ERRORS})\n    -> EtherEncap(0x86dd, {station}, {station}) -> punts{i};"
        )
    });
    let mut text = format!(
        "mine{i}[2], gathered{i}[2] -> long{i} :: {FAMILIES};\nlong{i}[0] -> {four}\nlong{i}[1] -> {six}\nlong{i}[2] -> Discard;\n"
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
