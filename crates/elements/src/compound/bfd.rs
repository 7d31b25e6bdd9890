// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that watches neighbours.

use std::fmt::Write as _;

use super::firewall;
use super::router::{CONTROL_OUT, Router};

/// What is for this router, and is not BFD: the output of a routing table, or of the classifier behind it.
pub(super) fn rest4(router: &Router) -> String {
    if router.bfd.is_some() { "rest4[1]".to_owned() } else { firewall::way(router, false, 0) }
}

/// The same for IPv6.
pub(super) fn rest6(router: &Router) -> String {
    if router.bfd.is_some() { "rest6[3]".to_owned() } else { firewall::way(router, true, 0) }
}

/// What lets own echo packets pass that neighbours send back.
pub(super) fn returned(router: &Router) -> &'static str {
    if router.bfd.is_some() { ", ECHO true" } else { "" }
}

/// What has interfaces receive BFD before other packets.
pub(super) fn urgent(router: &Router) -> &'static str {
    if router.bfd.is_some() { ", URGENT true" } else { "" }
}

/// The paint of BFD packets on their way out, which no interface's packets have where there are fewer interfaces.
const PAINT: u8 = 254;

/// Where packets for interface `i` go when they have their Ethernet header.
pub(super) fn out(router: &Router, i: usize) -> String {
    if router.bfd.is_some() { format!("ready{i}") } else { format!("out{i}") }
}

/// The queue of BFD on the way out by interface `i`, which is served before that of other packets.
pub(super) fn queue(router: &Router, i: usize) -> String {
    if router.bfd.is_none() {
        return String::new();
    }
    format!(
        "// BFD goes out before other packets.\n\
         urgent{i} :: Queue({CONTROL_OUT}) -> [0]order{i};\n\
         ready{i} :: CheckPaint({PAINT}) -> urgent{i};\n\
         ready{i}[1] -> out{i};\n"
    )
}

/// The name of interface `i` in sessions: that of its twin, which routing daemons see.
fn link(router: &Router, i: usize) -> String {
    if router.host { format!("host{i}") } else { router.interfaces[i].name.clone() }
}

/// A session, whose link may be given by the interface's own name.
fn session(router: &Router, text: &str) -> String {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if let Some(word) = words.get_mut(2)
        && let Some(i) = router.interfaces.iter().position(|interface| interface.name == *word)
    {
        *word = link(router, i);
    }
    format!("SESSION {}", words.join(" "))
}

/// Sorts BFD from what else is for this router.
pub(super) fn sorted(router: &Router) -> String {
    if router.bfd.is_none() {
        return String::new();
    }
    let mut text = String::from(
        "\n// Neighbours are watched by BFD (UDP ports 3784, 3785 and 4784). Packets say by their paint where they came in.\n\
         watched :: PaintSwitch;\nwatched[0] -> Discard;\n",
    );
    if router.has4() {
        let _ = writeln!(
            text,
            "{} -> rest4 :: IPClassifier(dst udp port 3784 or dst udp port 3785 or dst udp port 4784, -);\n\
             rest4[0] -> watched;",
            firewall::way(router, false, 0)
        );
    }
    if router.has6() {
        let _ = writeln!(
            text,
            "{} -> rest6 :: Classifier(6/11 42/0ec8, 6/11 42/0ec9, 6/11 42/12b0, -);\n\
             rest6[0], rest6[1], rest6[2] -> watched;",
            firewall::way(router, true, 0)
        );
    }
    text
}

/// The element, and where its packets go.
pub(super) fn text(router: &Router) -> String {
    let Some(sessions) = &router.bfd else { return String::new() };
    let (four, six, n) = (router.has4(), router.has6(), router.interfaces.len());
    let mut arguments: Vec<String> = (0..n).map(|i| format!("LINK {} {}", link(router, i), i + 1)).collect();
    arguments.extend(four.then(|| "TABLE rt".to_owned()));
    arguments.extend(six.then(|| "TABLE6 rt6".to_owned()));
    arguments.extend((1..).zip(&router.vrfs).map(|(table, vrf)| format!("VRF {} {table}", vrf.name)));
    arguments.extend(sessions.iter().map(|text| session(router, text)));
    let mut text = format!("\n// What watches neighbours.\nbfd :: BFD({});\n", arguments.join(", "));
    for (i, interface) in router.interfaces.iter().enumerate() {
        text += &format!("watched[{}] -> [{i}]bfd;\n", i + 1);
        let way = if interface.has4() { format!("Paint({PAINT}) -> arp{i}") } else { "Discard".into() };
        text += &format!("bfd[{i}] -> {way};\n");
        if six {
            let way = if interface.has6() { format!("Paint({PAINT}) -> nd{i}") } else { "Discard".into() };
            text += &format!("bfd[{}] -> {way};\n", n + i);
        }
    }
    text
}
