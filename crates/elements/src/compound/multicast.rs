// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multicast part of a router's text, where the kernel answers: its daemons make the entries.
//!
//! The multicast tables have the outputs of the routing tables for this router and for interfaces. Behind them are those for packets that the kernel
//! is to look at: without an entry, and in its turn.

use std::fmt::Write as _;

use super::router::{Interface, Router};
use super::{ipsec, ipv4, ipv6};

/// How ICMP errors are sent.
const ERRORS: &str = "RATE 1000, DST_RATE 10";

/// The routing table's output for groups, behind that for adjacencies.
pub(super) fn output4(router: &Router) -> usize {
    ipv4::outputs(router) + usize::from(router.mpls)
}

/// The same of IPv6.
pub(super) fn output6(router: &Router) -> usize {
    ipv6::outputs(router) + usize::from(router.mpls)
}

/// Further arguments of RouteFeed.
pub(super) fn fed(router: &Router) -> Vec<String> {
    let four = router.has4().then(|| "MULTICAST mroute".to_owned());
    four.into_iter().chain(router.has6().then(|| "MULTICAST6 mroute6".to_owned())).collect()
}

/// A family's table, and what does not belong to an interface.
fn table(router: &Router, six: &str, class: &str, from: usize) -> String {
    let unknown = router.interfaces.len() + 1;
    let vrf = if router.vrfs.is_empty() { String::new() } else { format!(", {}", router.keyword()) };
    // What the firewall has not seen does not pass.
    let (source, unseen) = match router.firewall {
        Some(_) => ("Idle".to_owned(), format!("rt{six}[{from}] -> Discard;\n")),
        None => (format!("rt{six}[{from}]"), String::new()),
    };
    format!(
        "{unseen}// Packets to groups, by entries that the kernel's daemons make. Those without an entry go to the kernel, which informs the daemons.\n\
         // Of each entry it has a packet now and then, and forwards it.\n\
         {source} -> mroute{six} :: {class}(LOCAL 0, UNKNOWN {unknown}, KERNEL {0}{vrf});\n\
         mroute{six}[0] -> {joined};\n\
         mroute{six}[{unknown}] -> nogroup{six} :: Punt(no-multicast-route) -> kernel;\n\
         mroute{six}[{0}] -> kernel;\n",
        unknown + 1,
        joined = ipsec::joined(router, if six.is_empty() { 4 } else { 6 }),
    )
}

/// The tables of both families.
pub(super) fn tables(router: &Router) -> String {
    if !router.host {
        return String::new();
    }
    let mut text = String::new();
    if router.has4() {
        text += &table(router, "", "LookupIPMulticast", output4(router));
    }
    if router.has6() {
        text += &table(router, "6", "LookupIP6Multicast", output6(router));
    }
    text
}

/// Copies that leave by interface `i`. IPv4 packets that are too long cause no error (RFC 1112, 7.2).
pub(super) fn port(router: &Router, i: usize) -> String {
    let Interface { mtu, .. } = &router.interfaces[i];
    let (mut text, output, follow) = (String::new(), i + 1, router.follow(i));
    if !router.host {
        return text;
    }
    if router.interfaces[i].has4() {
        let ways =
            (&*format!("mroute[{output}]"), "copies", &*format!("IPFragmenter({mtu}{follow}) -> [0]arp{i}"));
        text += &ipsec::direct(router, i, ways, &["16/e0%f0"], None);
    } else if router.has4() {
        let _ = writeln!(text, "mroute[{output}] -> Discard;");
    }
    if router.interfaces[i].has6() {
        let long = ipv6::speaker_of(router, 0).map(|address| {
            let owned = router.owned(0..router.interfaces.len());
            format!(
                "ICMP6Error({address}, toobig, PMTU_ANNO true, {ERRORS}{owned}) -> {}",
                ipv6::entry(router)
            )
        });
        let way = format!("mbig{i} :: IP6Fragmenter({mtu}{follow}) -> [0]nd{i}");
        let ways = (&*format!("mroute6[{output}]"), "copies6", &*way);
        text += &ipsec::direct(router, i, ways, &["24/ff"], long.as_deref());
        text += &router.by_table(&format!("mbig{i}[1]"), &format!("mtable{i}"), |table| {
            ipv6::too_big(router, table, i, ERRORS)
        });
    } else if router.has6() {
        let _ = writeln!(text, "mroute6[{output}] -> Discard;");
    }
    text
}
