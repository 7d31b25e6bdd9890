// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routes and multicast entries that a packet has followed: where a control plane feeds the table of a step, it is asked whose route that is.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;

use lang::config::{split_args, split_words};
use serde_json::Value;

use client::{Client, Failure};
use conf::present;
use observe::records::{Event, State, Step};

/// The option that names the control plane.
const OPTION: &str = "--routes";

/// An element that a control plane feeds.
#[derive(Clone, Debug, Default)]
struct Feed {
    is_multicast: bool,
    /// Names of VRFs by the number that the annotation holds.
    vrfs: BTreeMap<u8, String>,
    /// Names of links by their outputs, which are also the paints of packets that come by them.
    links: BTreeMap<u8, String>,
}

/// A control plane, and the elements that it feeds.
pub(crate) struct Fed {
    plane: Client,
    tables: HashMap<String, Feed>,
}

impl Fed {
    /// The control plane at this socket, `none` for no one; by default, the only one of this user, if there is one.
    ///
    /// # Errors
    /// The one that was asked for does not answer.
    pub(crate) fn find(asked: Option<&Path>, router: &mut Client) -> Result<Option<Fed>, Failure> {
        if asked == Some(Path::new("none")) {
            return Ok(None);
        }
        let plane = match routes::control_plane(asked, OPTION) {
            Ok(plane) => plane,
            Err(_) if asked.is_none() => return Ok(None),
            Err(why) => return Err(why),
        };
        let tables = tables(&present(&router.read("flatconfig")?));
        Ok((!tables.is_empty()).then_some(Fed { plane, tables }))
    }

    /// Names the routes that steps have followed.
    pub(crate) fn name(&mut self, steps: &mut [Step]) {
        // What came into an element: what it decides by is changed when it goes out.
        let mut came: HashMap<u64, State> = HashMap::new();
        for step in steps {
            match &step.event {
                Event::Input { .. } => {}
                Event::Output { .. } | Event::Dropped { .. } => {
                    if let Some(state) = came.get(&step.copy).or(step.state.as_ref()) {
                        step.route = self.look_up(&step.element, state);
                    }
                }
                _ => continue,
            }
            came.extend(step.state.clone().map(|state| (step.copy, state)));
        }
    }

    fn look_up(&mut self, element: &str, state: &State) -> Option<Value> {
        let fed = self.tables.get(element)?;
        let vrf = fed.vrfs.get(&vrf(state)).map_or("", String::as_str);
        let question = match fed.is_multicast {
            true => format!("group {} {} {vrf}", source(state)?, header_destination(state)?),
            false => format!("lookup {} {vrf}", destination(state)?),
        };
        let answer = self.plane.read(question.trim_end()).ok()?;
        let row: Value = serde_json::from_str(&answer).ok()?;
        (!row.is_null() && (!fed.is_multicast || fed.takes(&row, state))).then_some(row)
    }
}

impl Feed {
    /// Whether a multicast entry is for a packet. One for any source is for those that come by its interfaces.
    fn takes(&self, row: &Value, state: &State) -> bool {
        let links = row["outputs"].as_array().into_iter().flatten().map(|output| &output["link"]);
        let from = annotation(state, "anno.paint").and_then(|paint| paint.parse().ok());
        let from = from.and_then(|paint: u8| self.links.get(&paint)).map(String::as_str);
        !row["source"].is_null()
            || links.chain([&row["input"]]).any(|link| link.as_str() == from && from.is_some())
    }
}

/// The lookup elements that a control plane feeds.
fn tables(graph: &lang::Graph) -> HashMap<String, Feed> {
    let mut all = HashMap::new();
    for feed in graph.elements.iter().filter(|element| &*element.class == "RouteFeed") {
        let args = split_args(&feed.config);
        let of = |keyword: &str| {
            let args = args.iter().map(|arg| split_words(&arg.text));
            args.filter(|words| words.first() == Some(&keyword))
                .map(|words| words[1..].to_vec())
                .collect::<Vec<_>>()
        };
        let named = |keyword| {
            let numbers = of(keyword).into_iter().filter_map(|words| match *words {
                [name, number] => Some((number.parse().ok()?, name.to_owned())),
                _ => None,
            });
            numbers.collect::<BTreeMap<u8, String>>()
        };
        let routes = Feed { is_multicast: false, vrfs: named("VRF"), links: named("LINK") };
        let multicast = Feed { is_multicast: true, ..routes.clone() };
        for (keywords, fed) in [(["TABLE", "TABLE6"], routes), (["MULTICAST", "MULTICAST6"], multicast)] {
            let elements = keywords.into_iter().flat_map(of).flatten();
            all.extend(elements.map(|element| (element.to_owned(), fed.clone())));
        }
    }
    all
}

fn annotation<'a>(state: &'a State, name: &str) -> Option<&'a str> {
    state.annotations.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

/// The number of the table that a packet is looked up in. Its annotation is the last byte of the VLAN tag's.
fn vrf(state: &State) -> u8 {
    let tag = annotation(state, "anno.vlan_tci");
    tag.and_then(|tag| tag.parse::<u16>().ok()).map_or(0, |tag| tag.to_be_bytes()[1])
}

/// The first of these fields, as an address.
fn address(state: &State, names: &[&str]) -> Option<IpAddr> {
    let fields = state.fields();
    let field = |name: &&str| fields.iter().find(|field| field.name == *name)?.value.parse().ok();
    names.iter().find_map(field)
}

fn source(state: &State) -> Option<IpAddr> {
    address(state, &["ip.src", "ipv6.src"])
}

fn header_destination(state: &State) -> Option<IpAddr> {
    address(state, &["ip.dst", "ipv6.dst"])
}

/// By what a packet's route is chosen: the annotation, or else the address in its header.
fn destination(state: &State) -> Option<IpAddr> {
    address(state, &["anno.dst_ip"]).or_else(|| header_destination(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fed_elements_are_found_with_their_vrfs() {
        let text = "RouteFeed(routes, TABLE rt, TABLE6 rt6, MULTICAST m, LINK eth0 1, LINK eth1 2, VRF red 1);
            m :: LookupIPMulticast(VRF_ANNO VRF); Idle -> m -> Discard; m[1] -> Discard; m[2] -> Discard;
            rt :: StaticIPLookup(10.0.0.0/8 0, VRF_ANNO VRF); other :: StaticIPLookup(10.0.0.0/8 0);
            rt6 :: LookupIP6Route(2001:db8::/32 0, VRF_ANNO VRF); Idle -> rt -> Discard; Idle -> other -> Discard; Idle -> rt6 -> Discard;";
        let tables = tables(&present(text));
        let mut names: Vec<&String> = tables.keys().collect();
        names.sort();
        assert_eq!(names, ["m", "rt", "rt6"]);
        assert_eq!(
            (&*tables["rt"].vrfs[&1], tables["rt"].is_multicast, tables["m"].is_multicast),
            ("red", false, true)
        );
        // An entry for any source is for packets that come by one of its interfaces.
        let painted = |paint: &str| State {
            bytes: String::new(),
            ip: true,
            annotations: vec![("anno.paint".to_owned(), paint.to_owned())],
        };
        let entry = |source: Value| serde_json::json!({ "source": source, "input": "eth1", "outputs": [{ "link": "pimreg" }] });
        let takes = |source: Value, paint| tables["m"].takes(&entry(source), &painted(paint));
        assert!(takes("10.0.0.1".into(), "1") && takes(Value::Null, "2"));
        assert!(!takes(Value::Null, "1") && !takes(Value::Null, "3"));
    }

    #[test]
    fn a_destination_is_the_annotation_or_the_header() {
        let bytes = wire::compose::compose("ip 10.0.0.1 to 192.0.2.1 / udp 1 to 2").expect("a packet").bytes;
        let state = |annotations| State { bytes: wire::fields::hex(&bytes), ip: true, annotations };
        assert_eq!(destination(&state(Vec::new())), "192.0.2.1".parse().ok());
        assert_eq!(vrf(&state(vec![("anno.vlan_tci".to_owned(), "261".to_owned())])), 5);
        assert_eq!(vrf(&state(Vec::new())), 0);
        let set = vec![("anno.dst_ip".to_owned(), "198.51.100.1".to_owned())];
        assert_eq!(destination(&state(set)), "198.51.100.1".parse().ok());
    }
}
