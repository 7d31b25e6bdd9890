// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that translates addresses: what arrives gets its inside destination before it is routed, and what leaves by an
//! outside link gets its outside source after that.

use super::ipv4::ERRORS;
use super::router::{Interface, Router};

/// How a router translates addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The file of statements.
    pub file: String,
    /// The interfaces that lead outside.
    pub outside: Vec<usize>,
    /// Whether the file was there.
    pub is_there: bool,
    /// Outside addresses that the router answers ARP for, though they are not its own: an interface, and prefixes.
    pub answered: Vec<(usize, Vec<String>)>,
}

/// The inside interfaces that have ports of the translator: all, if a firewall is to see the addresses of hosts.
fn inside<'a>(router: &'a Router, translation: &'a Translation) -> impl Iterator<Item = usize> + 'a {
    let all = (0..router.interfaces.len()).filter(|_| router.firewall.is_some());
    all.filter(|i| router.interfaces[*i].has4() && !translation.outside.contains(i))
}

/// The translator's port for what leaves by interface `i`, if it has one.
fn port(router: &Router, i: usize) -> Option<usize> {
    let translation = router.nat.as_ref()?;
    let mut all = translation.outside.iter().copied().chain(inside(router, translation));
    all.position(|other| other == i).map(|place| place + 1)
}

/// The way from the checks to the routing table, for the middle of a chain.
pub(super) fn arriving(router: &Router) -> &'static str {
    match router.nat {
        Some(_) => "IPReassembler(OVERLAP drop, MAX_PER_SOURCE 64) -> [0]nat44;\nnat44[0] -> ",
        None => "",
    }
}

/// The translator.
pub(super) fn text(router: &Router) -> String {
    let Some(translation) = &router.nat else { return String::new() };
    let own = router.interfaces.iter().flat_map(|interface| &interface.four);
    let own: String = own.map(|(address, _)| format!(", OWN {address}")).collect();
    let hairpins = match inside(router, translation).count() {
        0 => String::new(),
        n => format!(", HAIRPINS {n}"),
    };
    let paints: String = translation.outside.iter().map(|i| format!(" {}", i + 1)).collect();
    let bfd = if router.bfd.is_some() { " 3784-3785 4784" } else { "" };
    let kernel = if router.host { " 32768-60999" } else { "" };
    let (reserved, legend) = match [bfd, kernel].concat() {
        none if none.is_empty() => (none, ""),
        some => (
            format!(", RESERVED{some}"),
            "// The router's own programs use the reserved ports: see net.ipv4.ip_local_port_range.\n",
        ),
    };
    let missing = match translation.is_there {
        true => "",
        false => {
            "// The file was not there: the router answers ARP for its own addresses alone. Write this configuration again when it is.\n"
        }
    };
    format!(
        "// Address translation: {} says what becomes of addresses. Fragments have no ports: packets are put together first.\n\
         {missing}{legend}nat44 :: NAT44({}{own}, OUTSIDE{paints}{reserved}{hairpins});\n\n",
        translation.file,
        lang::config::quote(&translation.file),
    )
}

/// The answer to senders of packets that leave no room for another session.
pub(super) fn answers(router: &Router) -> String {
    let Some(translation) = &router.nat else { return String::new() };
    let address = router.interfaces.iter().find_map(|i| i.four.first()).map(|(address, _)| *address);
    // Where all interfaces lead outside, the kernel answers for none of them.
    let leads_in =
        |(i, interface): (usize, &Interface)| interface.has4() && !translation.outside.contains(&i);
    let idle = match router.host && !router.interfaces.iter().enumerate().any(leads_in) {
        true => "Idle -> toobig;\nIdle -> noneighbour;\n",
        false => "",
    };
    format!(
        "\n// Without a free port or room for another session the sender gets an ICMP error.\n\
         nat44[{}] -> ICMPError({}, unreachable, CODE_ANNO ICMP_PARAMPROB, {ERRORS}{}) -> [0]rt;\n{idle}",
        translation.outside.len() + inside(router, translation).count() + 1,
        address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED),
        router.owned(0..router.interfaces.len()),
    )
}

/// What is between the checks of interface `i` and its MTU.
pub(super) fn leaving(router: &Router, i: usize) -> String {
    port(router, i).map_or_else(String::new, |port| format!("-> [{port}]nat44;\nnat44[{port}] "))
}

/// Where errors about packets go that leave by interface `i`: they may be about translated addresses.
pub(super) fn errors(router: &Router) -> &'static str {
    if router.nat.is_some() { "[0]nat44" } else { "[0]rt" }
}

/// How errors are sent about packets that have been translated when they leave by interface `i`. They have one destination, though they are for many hosts.
pub(super) fn limits(router: &Router, i: usize) -> &'static str {
    if leads_out(router, i) { "TOS copy, RATE 1000" } else { ERRORS }
}

/// Whether interface `i` leads outside.
pub(super) fn leads_out(router: &Router, i: usize) -> bool {
    router.nat.as_ref().is_some_and(|translation| translation.outside.contains(&i))
}

/// Prefixes of outside addresses that the router answers ARP for on interface `i`.
pub(super) fn answered(router: &Router, i: usize) -> Vec<String> {
    let all = router.nat.iter().flat_map(|translation| &translation.answered);
    all.filter(|(other, _)| *other == i).flat_map(|(_, prefixes)| prefixes.iter().cloned()).collect()
}

/// What answers for them where the kernel answers for the router's own addresses.
pub(super) fn answered_by_us(router: &Router, i: usize) -> String {
    let answered = answered(router, i);
    if answered.is_empty() {
        return String::new();
    }
    format!(
        "asked{i}[2] -> ARPResponder({} {}) -> out{i};\n",
        answered.join(" "),
        router.interfaces[i].station
    )
}
