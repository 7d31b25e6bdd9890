// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters in a configuration: an element that filters behind each one that lets it know where headers are.

use std::net::IpAddr;

use lang::{Connection, Element, Graph, PortRef};
use wire::Prefix;

use super::{Filters, MacMask, Permit, bits, blocked_mac};
use crate::Error;

/// Element classes behind which packets are known to be IPv4's.
const CHECKS: [&str; 4] = ["CheckIPHeader", "CheckIPHeader2", "MarkIPHeader", "IPInputCombo"];
/// Those behind which they are known to be IPv6's, and which of their arguments says where the header begins.
const CHECKS6: [(&str, usize); 2] = [("CheckIP6Header", 1), ("MarkIP6Header", 0)];
/// Those behind which they begin with an Ethernet header, as they were received.
const DEVICES: [&str; 2] = ["FromDevice", "PollDevice"];
/// Those that speak a bridge protocol, whose frames no filter may stop.
const BRIDGE_PROTOCOLS: [&str; 2] = ["RSTP", "EtherSpanTree"];
/// The addresses of these frames, as a pattern.
const BRIDGE_GROUPS: &str = "0/0180c2000000%fffffffffff0";
/// Bytes before source and destination in an IPv6 header.
const ADDRESSES6: [usize; 2] = [8, 24];

/// An element that filters, and to which of its outputs it sends what passes; what leaves by the others is dropped.
struct Filter {
    class: &'static str,
    config: String,
    outputs: usize,
    passing: Vec<usize>,
}

impl Filters {
    /// The graph with these filters in the way of its packets: behind elements that check IP headers, or, in a bridge, where frames are
    /// received.
    pub(crate) fn put_in(&self, graph: &Graph) -> Result<Graph, Error> {
        let six = self.permits.iter().any(|permit| permit.src.is_six());
        let (places, known) = if self.bridged {
            (places(graph, &DEVICES), "receive frames".to_owned() + &named(&DEVICES))
        } else if six {
            let classes = CHECKS6.map(|(class, _)| class);
            (places(graph, &classes), "check IPv6 headers".to_owned() + &named(&classes))
        } else {
            (places(graph, &CHECKS), "check IP headers".to_owned() + &named(&CHECKS))
        };
        if places.is_empty() {
            return Err(Error::setting(format!(
                "--filters: they are put behind elements that {known}, and the configuration has none; \
                 --filter-command sets them in another way"
            )));
        }
        let spans_a_tree =
            graph.elements.iter().any(|element| BRIDGE_PROTOCOLS.contains(&element.class.as_str()));
        let mut with = graph.clone();
        for place in places {
            let filter = if self.bridged {
                self.of_frames(spans_a_tree)
            } else if six {
                self.of_packets6(header_offset(&graph.elements[place])?)
            } else {
                self.of_packets()
            };
            insert(&mut with, place, filter);
        }
        with.connections.sort_by_key(|wire| (wire.from, wire.to));
        Ok(with)
    }

    /// For IPv4: one element that knows addresses, and itself drops what no rule matches.
    fn of_packets(&self) -> Filter {
        let deny = |_: u8, (src, dst): (IpAddr, IpAddr)| format!("deny src host {src} and dst host {dst}");
        let permits: Vec<String> =
            self.permits.iter().map(|p| format!("(src net {} and dst net {})", p.src, p.dst)).collect();
        let rules = self.in_order(deny, [format!("allow {}", permits.join(" or "))]);
        Filter { class: "IPFilter", config: rules.join(", "), outputs: 1, passing: vec![0] }
    }

    /// For IPv6, whose header begins so many bytes behind the packet's first: patterns of bytes, in order.
    fn of_packets6(&self, offset: usize) -> Filter {
        let pair = |src: &Prefix, dst: &Prefix| {
            let [from, to] = ADDRESSES6.map(|address| offset + address);
            format!("{} {}", pattern6(from, src), pattern6(to, dst))
        };
        let deny =
            |_: u8, (src, dst): (IpAddr, IpAddr)| (false, pair(&Prefix::host(src), &Prefix::host(dst)));
        let permits = self.permits.iter().map(|Permit { src, dst, .. }| (true, pair(src, dst)));
        Filter::of_patterns(self.in_order(deny, permits))
    }

    /// For bridges: patterns of the address that a frame is sent to.
    fn of_frames(&self, spans_a_tree: bool) -> Filter {
        let pattern = |mac: MacMask| format!("0/{:012x}%{:012x}", mac.address, mac.mask);
        let deny = |number: u8, _: (IpAddr, IpAddr)| (false, pattern(MacMask::exactly(blocked_mac(number))));
        let permits = self.permits.iter().map(|permit| pattern(permit.mac));
        let permits = permits.chain(spans_a_tree.then(|| BRIDGE_GROUPS.to_owned()));
        Filter::of_patterns(self.in_order(deny, permits.map(|pattern| (true, pattern))))
    }
}

impl Filter {
    /// Which lets pass what the first pattern that matches permits, and drops all else.
    fn of_patterns(patterns: Vec<(bool, String)>) -> Filter {
        let (outputs, permits) =
            (patterns.len(), |(at, (permits, _)): (usize, &(bool, String))| permits.then_some(at));
        let passing = patterns.iter().enumerate().filter_map(permits).collect();
        let config: Vec<String> = patterns.into_iter().map(|(_, pattern)| pattern).collect();
        Filter { class: "Classifier", config: config.join(", "), outputs, passing }
    }
}

/// The bytes of addresses in a network.
fn pattern6(offset: usize, prefix: &Prefix) -> String {
    let mask = wire::addr::mask6(prefix.len());
    format!("{offset}/{:032x}%{mask:032x}", bits(prefix.addr()).0)
}

/// The elements of these classes.
fn places(graph: &Graph, classes: &[&str]) -> Vec<usize> {
    (0..graph.elements.len())
        .filter(|index| classes.contains(&graph.elements[*index].class.as_str()))
        .collect()
}

fn named(classes: &[&str]) -> String {
    format!(" ({})", classes.join(", "))
}

/// Bytes before the header that one of [`CHECKS6`] marks.
fn header_offset(element: &Element) -> Result<usize, Error> {
    let Some((_, position)) = CHECKS6.iter().find(|(class, _)| element.class == *class) else { return Ok(0) };
    let given = lang::config::split_args(&element.config);
    let by_name = given.iter().find_map(|arg| arg.text.strip_prefix("OFFSET "));
    let is_named =
        |text: &str| ["BADADDRS ", "OFFSET ", "OWN "].iter().any(|keyword| text.starts_with(keyword));
    let by_place = given.iter().filter(|arg| !is_named(&arg.text)).nth(*position).map(|arg| &*arg.text);
    let Some(text) = by_name.or(by_place) else { return Ok(0) };
    text.trim().parse().or_else(|why| match text.is_empty() {
        true => Ok(0),
        false => Err(Error::setting(format!(
            "--filters: where the header is behind {}: {text}: {why}",
            element.name
        ))),
    })
}

/// Puts a filter between an element's first output and the elements behind it.
fn insert(graph: &mut Graph, place: usize, filter: Filter) {
    let model = graph.elements[place].clone();
    let mut add = |what: &str, class: &str, config: String| {
        let name = format!("{}/{what}", model.name);
        graph.elements.push(Element {
            name: name.into(),
            class: class.into(),
            config: config.into(),
            config_span: None,
            ..model.clone()
        });
        graph.elements.len() - 1
    };
    let element = add("filters", filter.class, filter.config);
    let blocked =
        (filter.passing.len() < filter.outputs).then(|| add("filters_blocked", "Discard", String::new()));
    let (from, span) = (PortRef { element: place, port: 0 }, model.span);
    let (behind, rest): (Vec<_>, Vec<_>) = graph.connections.drain(..).partition(|wire| wire.from == from);
    graph.connections = rest;
    graph.connections.push(Connection { from, to: PortRef { element, port: 0 }, span });
    for port in 0..filter.outputs {
        let from = PortRef { element, port };
        if filter.passing.contains(&port) {
            graph.connections.extend(behind.iter().map(|wire| Connection { from, ..wire.clone() }));
        } else if let Some(blocked) = blocked {
            graph.connections.push(Connection { from, to: PortRef { element: blocked, port: 0 }, span });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Case;
    use super::super::tests::{flow, plan};
    use super::*;

    fn graph(text: &str) -> Graph {
        conf::Source::text(text).load().graph.expect("a graph")
    }

    fn with(filters: &Filters, text: &str) -> Graph {
        filters.put_in(&graph(text)).expect("filters")
    }

    /// The configuration of the element of this name.
    fn config<'a>(graph: &'a Graph, name: &str) -> &'a str {
        let found = graph.elements.iter().find(|element| element.name == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", graph.elements)).config
    }

    #[test]
    fn ipv4_is_filtered_behind_header_checks() {
        let plan =
            plan(&[&[("10.0.0.2", "10.0.1.2"), ("10.0.0.3", "10.0.1.3")], &[("10.0.1.2", "10.0.0.2")]]);
        let text = "FromDevice(a) -> Strip(14) -> c :: CheckIPHeader -> Discard";
        let permit = "allow (src net 10.0.0.2/31 and dst net 10.0.1.2/31) or (src net 10.0.1.2/32 and dst net 10.0.0.2/32)";
        let one = Filters::new(Case::One, &plan, false).expect("filters");
        assert_eq!(config(&with(&one, text), "c/filters"), permit);
        let all = with(&Filters::new(Case::Last, &plan, false).expect("filters"), text);
        let rules = config(&all, "c/filters");
        assert_eq!(rules.matches("deny").count(), 24);
        assert!(
            rules.starts_with("deny src host 198.18.1.1 and dst host 198.19.101.1, ")
                && rules.ends_with(permit)
        );
        let middle = with(&Filters::new(Case::Thirteenth, &plan, false).expect("filters"), text);
        let rules: Vec<&str> = config(&middle, "c/filters").split(", ").collect();
        assert_eq!((rules.len(), rules[12]), (25, permit));
        assert!(
            one.put_in(&graph("Idle -> Discard")).is_err_and(|why| why.to_string().contains("CheckIPHeader"))
        );
    }

    #[test]
    fn ipv6_is_filtered_where_its_header_is() {
        let six = plan(&[&[("2001:2::1", "2001:2:0:8000::1"), ("2001:2::2", "2001:2:0:8000::1")]]);
        let all = Filters::new(Case::Last, &six, false).expect("filters");
        for (check, offset) in [
            ("CheckIP6Header", 0),
            ("CheckIP6Header(\"::1\", 14)", 14),
            ("CheckIP6Header(OFFSET 18)", 18),
            ("CheckIP6Header(\"::1\", OWN 2001:2::9)", 0),
            ("MarkIP6Header(14)", 14),
        ] {
            let with = with(&all, &format!("Idle -> c :: {check} -> Discard"));
            let patterns: Vec<&str> = config(&with, "c/filters").split(", ").collect();
            assert_eq!(patterns.len(), 25);
            let permit = format!(
                "{}/20010002000000000000000000000000%fffffffffffffffffffffffffffffffc \
                 {}/20010002000080000000000000000001%ffffffffffffffffffffffffffffffff",
                offset + 8,
                offset + 24
            );
            assert_eq!(patterns[24], permit);
            let text = format!("Idle -> c :: {check} -> d :: Discard");
            let middle =
                super::tests::with(&Filters::new(Case::Thirteenth, &six, false).expect("filters"), &text);
            assert_eq!(config(&middle, "c/filters").split(", ").nth(12), Some(&*permit));
            // What the thirteenth pattern matches goes on, all else to where it is dropped.
            let element =
                |name: &str| middle.elements.iter().position(|e| e.name == name).expect("an element");
            let on = middle.connections.iter().filter(|wire| wire.to.element == element("d"));
            let on: Vec<PortRef> = on.map(|wire| wire.from).collect();
            assert_eq!(on, [PortRef { element: element("c/filters"), port: 12 }]);
        }
        let other = Filters::new(Case::One, &plan(&[&[("10.0.0.2", "10.0.1.2")]]), false).expect("filters");
        assert!(other.put_in(&graph("Idle -> CheckIP6Header -> Discard")).is_err());
    }

    #[test]
    fn frames_are_filtered_where_they_are_received() {
        let mut given = plan(&[&[("10.0.0.2", "10.0.1.2")], &[("10.0.1.2", "10.0.0.2")]]);
        given.streams[1].flows[0].0.dst_mac = flow("10.0.0.2", "10.0.0.3").src_mac;
        let filters = Filters::new(Case::One, &given, true).expect("filters");
        let text = "FromDevice(a) -> [0]b :: Bridge -> ToDevice(a); FromDevice(c) -> [1]b[1] -> ToDevice(c)";
        let bridge = with(&filters, text);
        let name = &bridge.elements.iter().find(|e| e.class == "Classifier").expect("a filter").name;
        let permits = "0/040404040404%ffffffffffff, 0/020202020202%ffffffffffff";
        assert_eq!(config(&bridge, name), permits);
        // Both outputs of each lead to the bridge, and nothing is there to be blocked.
        let into = |graph: &Graph, class: &str| {
            graph.connections.iter().filter(|wire| graph.elements[wire.to.element].class == class).count()
        };
        assert_eq!((into(&bridge, "Bridge"), into(&bridge, "Discard")), (4, 0));
        let tree = "b :: Bridge(PORTS 2); FromDevice(a) -> [0]b; FromDevice(c) -> [1]b; \
                    b[0] -> ToDevice(a); b[1] -> ToDevice(c); b[2] -> RSTP(b) -> [2]b";
        let tree = with(&Filters::new(Case::Last, &given, true).expect("filters"), tree);
        let all = &tree.elements.iter().find(|e| e.class == "Classifier").expect("a filter").config;
        assert!(
            all.ends_with(&format!("{permits}, {BRIDGE_GROUPS}")) && all.split(", ").count() == 27,
            "{all}"
        );
        assert_eq!((into(&tree, "Discard"), into(&tree, "Bridge")), (48, 7));
    }
}
