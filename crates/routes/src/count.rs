// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and bytes by next hop and by route, counted by the running router for some seconds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lang::config::{split_args, split_words};
use serde_json::{Value, json};

use client::{Client, Failure};
use conf::present;

use crate::show::{self, text_of};
use crate::{columns, control_plane};

/// What is to be counted, and for how long.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
    /// For how long.
    pub seconds: u64,
    /// Prefixes, and addresses that routes decide about.
    pub routes: &'a [String],
    /// A VRF's name, or the number of a table of the router.
    pub vrf: Option<&'a str>,
    /// The control plane's socket; that of the only one of this user where none is named.
    pub plane: Option<&'a Path>,
}

/// A lookup element of the router.
#[derive(Debug, Default)]
struct Table {
    element: String,
    is_six: bool,
    /// What outputs lead to, as the control plane calls it.
    links: BTreeMap<String, String>,
    /// Numbers of VRFs by their names.
    vrfs: BTreeMap<String, u8>,
}

/// A line of the handler `counts`.
#[derive(Debug, PartialEq, Eq)]
struct Count<'a> {
    packets: u64,
    bytes: u64,
    gateway: &'a str,
    output: &'a str,
    route: Option<&'a str>,
    table: u8,
}

/// Counts.
///
/// # Errors
/// The router does not answer, or has no such route table.
pub fn count(router: &mut Client, wish: &Wish<'_>) -> Result<Value, Failure> {
    let tables = tables(&present(&router.read("flatconfig")?));
    if tables.is_empty() {
        return Err(Failure::Unclear("the router has no routing table".into()));
    }
    let orders = orders(wish, &tables)?;
    let mut begun = Vec::new();
    let mut outcome = Ok(());
    for (table, order) in &orders {
        outcome = router.write(&format!("{}.count", table.element), order).map(drop);
        if outcome.is_err() {
            break;
        }
        begun.push(*table);
    }
    let mut plane = control_plane(wish.plane, "--socket").ok();
    let mut value = json!({ "seconds": 0.0, "incomplete": null, "next_hops": [], "routes": [] });
    if outcome.is_ok() {
        std::thread::sleep(Duration::from_secs(wish.seconds));
        outcome = begun.iter().try_for_each(|table| {
            let counts = router.read(&format!("{}.counts", table.element))?;
            add(&mut value, table, &counts, plane.as_mut());
            Ok(())
        });
    }
    for table in begun {
        // It ends by itself, too.
        let _ = router.write(&format!("{}.count", table.element), "0");
    }
    outcome.map(|()| value)
}

/// What each lookup element is to count: those that have a route to count, or all.
fn orders<'t>(wish: &Wish<'_>, tables: &'t [Table]) -> Result<Vec<(&'t Table, String)>, Failure> {
    let mut orders = Vec::new();
    for table in tables {
        let routes = wish.routes.iter().filter(|route| route.contains(':') == table.is_six);
        let number = match wish.vrf {
            None | Some("main") => 0,
            Some(vrf) => match table.vrfs.get(vrf).copied().or_else(|| vrf.parse().ok()) {
                Some(number) => number,
                None => {
                    return Err(Failure::Unclear(format!("the router has no VRF '{}'", vrf.escape_debug())));
                }
            },
        };
        let routes: Vec<String> = routes.map(|route| format!("{route} table {number}")).collect();
        if wish.routes.is_empty() || !routes.is_empty() {
            orders.push((table, format!("{} {}", wish.seconds, routes.join(", "))));
        }
    }
    if orders.is_empty() {
        return Err(Failure::Unclear("the router has no routing table of this address family".into()));
    }
    Ok(orders)
}

/// The lookup elements that have tables of their own.
fn tables(graph: &lang::Graph) -> Vec<Table> {
    let registry = elements::registry();
    let counts = |class: &str| {
        registry.get(class).is_some_and(|class| class.handlers.iter().any(|handler| handler.name == "counts"))
    };
    let mut tables: Vec<Table> = Vec::new();
    for element in graph.elements.iter().filter(|element| counts(&element.class)) {
        let borrows = split_args(&element.config).iter().any(|arg| arg.text.starts_with("TABLE "));
        if !borrows {
            let is_six = &*element.class == "LookupIP6Route";
            tables.push(Table { element: element.name.to_string(), is_six, ..Table::default() });
        }
    }
    for feed in graph.elements.iter().filter(|element| &*element.class == "RouteFeed") {
        let args = split_args(&feed.config);
        let args: Vec<Vec<&str>> = args.iter().map(|arg| split_words(&arg.text)).collect();
        let fed = |table: &&mut Table| {
            args.iter().any(|words| matches!(words[..], ["TABLE" | "TABLE6", name] if name == table.element))
        };
        for table in tables.iter_mut().filter(fed) {
            args.iter().for_each(|words| table.learn(words));
        }
    }
    tables
}

impl Table {
    /// Takes an argument of the RouteFeed.
    fn learn(&mut self, words: &[&str]) {
        let mut lead = |name: &str, outputs: &[&str]| {
            let output = if self.is_six { outputs.last() } else { outputs.first() };
            self.links.extend(output.map(|output| ((*output).to_owned(), name.to_owned())));
        };
        match words {
            ["LINK", name, outputs @ ..] => lead(name, outputs),
            ["LOCAL", outputs @ ..] => lead("local", outputs),
            ["UNREACHABLE", outputs @ ..] => lead("unreachable", outputs),
            ["PROHIBIT", outputs @ ..] => lead("prohibit", outputs),
            ["ADJACENCY", outputs @ ..] => lead("label", outputs),
            ["VRF", name, number] => {
                self.vrfs.extend(number.parse().ok().map(|number| ((*name).to_owned(), number)));
            }
            _ => {}
        }
    }

    /// A next hop that has counted, for people and programs.
    fn hop(&self, count: &Count<'_>, seconds: f64) -> Value {
        let link = self.links.get(count.output);
        let is_label = link.is_some_and(|link| link == "label");
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        json!({
            "element": self.element,
            "gateway": (count.gateway != "-" && !is_label).then_some(count.gateway),
            "link": link,
            "output": count.output,
            "packets": count.packets,
            "bytes": count.bytes,
            "packets_per_s": rate(count.packets),
            "bytes_per_s": rate(count.bytes),
        })
    }

    /// A route that has been counted, as far as the control plane knows it.
    fn route(&self, count: &Count<'_>, plane: Option<&mut Client>) -> Value {
        let prefix = count.route.unwrap_or_default();
        let named =
            self.vrfs.iter().find(|(_, number)| **number == count.table).map(|(name, _)| name.clone());
        let vrf = (count.table != 0).then(|| named.unwrap_or_else(|| count.table.to_string()));
        let question = |address: IpAddr| format!("lookup {address} {}", vrf.as_deref().unwrap_or_default());
        let address = prefix.split('/').next().and_then(|address| address.parse().ok());
        let answer =
            plane.zip(address).and_then(|(plane, address)| plane.read(question(address).trim_end()).ok());
        let known: Value = answer.and_then(|answer| serde_json::from_str(&answer).ok()).unwrap_or_default();
        let known = if known["prefix"] == prefix { known } else { Value::Null };
        json!({
            "element": self.element,
            "prefix": prefix,
            "vrf": vrf,
            "router_table": count.table,
            "feed": known["feed"],
            "protocol": known["protocol"],
            "hops": [],
        })
    }
}

/// Reads a line of the handler `counts`.
fn parse(line: &str) -> Option<Count<'_>> {
    let words: Vec<&str> = line.split(' ').collect();
    let [packets, bytes, gateway, output, rest @ ..] = &words[..] else { return None };
    let (route, table) = match rest {
        [] => (None, 0),
        [prefix] => (Some(*prefix), 0),
        [prefix, "table", number] => (Some(*prefix), number.parse().ok()?),
        _ => return None,
    };
    let (packets, bytes) = (packets.parse().ok()?, bytes.parse().ok()?);
    Some(Count { packets, bytes, gateway, output, route, table })
}

/// Adds what a lookup element has counted.
fn add(value: &mut Value, table: &Table, counts: &str, mut plane: Option<&mut Client>) {
    let field = |name: &str| counts.lines().find_map(|line| line.strip_prefix(name));
    let seconds = field("time_ns ").and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e9;
    value["seconds"] = seconds.into();
    if let Some(why) = field("incomplete ") {
        value["incomplete"] = why.into();
    }
    let mut routes: Vec<Value> = Vec::new();
    let mut last = None;
    for count in counts.lines().filter_map(parse) {
        let hop = table.hop(&count, seconds);
        if count.route.is_none() {
            value["next_hops"].as_array_mut().expect("a list").push(hop);
            continue;
        }
        if last != Some((count.route, count.table)) {
            last = Some((count.route, count.table));
            routes.push(table.route(&count, plane.as_deref_mut()));
        }
        let hops = routes.last_mut().and_then(|route| route["hops"].as_array_mut());
        hops.expect("a list").push(hop);
    }
    value["routes"].as_array_mut().expect("a list").extend(routes);
}

/// The next hop in words.
fn way(hop: &Value) -> String {
    let on = match (&hop["link"], hop["output"].as_str()) {
        (Value::String(link), _)
            if ["local", "unreachable", "prohibit", "label"].contains(&link.as_str()) =>
        {
            link.clone()
        }
        (Value::String(link), _) => format!("on {link}"),
        (_, Some("none")) => "no route".into(),
        (_, Some(word)) if word.parse::<u32>().is_err() => word.into(),
        (_, output) => format!("output {}", output.unwrap_or("-")),
    };
    match &hop["gateway"] {
        Value::String(gateway) => format!("{gateway} {on}"),
        _ => on,
    }
}

/// What was counted, as a table.
pub fn counted(value: &Value) -> String {
    let rows = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    let rates = |hop: &Value| {
        ["packets_per_s", "bytes_per_s", "packets"].map(|name| match hop[name].as_f64() {
            Some(rate) => format!("{rate:.0}"),
            None => "-".into(),
        })
    };
    let routes = rows("routes");
    let mut text = if routes.is_empty() {
        let mut lines = vec![["next hop", "packets/s", "bytes/s", "packets"].map(str::to_owned)];
        lines.extend(rows("next_hops").iter().map(|hop| {
            let [packets_per_s, bytes_per_s, packets] = rates(hop);
            [way(hop), packets_per_s, bytes_per_s, packets]
        }));
        if lines.len() == 1 { "no packets\n".to_owned() } else { columns(&lines) }
    } else {
        let names = ["destination", "feed", "protocol", "next hop", "packets/s", "bytes/s", "packets"];
        let mut lines = vec![names.map(str::to_owned)];
        for route in &routes {
            for hop in route["hops"].as_array().into_iter().flatten() {
                let [packets_per_s, bytes_per_s, packets] = rates(hop);
                let [feed, protocol] = ["feed", "protocol"].map(|name| text_of(&route[name]));
                lines.push([
                    show::prefix(route),
                    feed,
                    protocol,
                    way(hop),
                    packets_per_s,
                    bytes_per_s,
                    packets,
                ]);
            }
        }
        columns(&lines)
    };
    if let Some(why) = value["incomplete"].as_str() {
        text += &format!("incomplete: {why}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: &str = "RouteFeed(routes, TABLE rt, TABLE6 rt6, LINK eth0 0, LINK eth1 1 2, LOCAL 2 0, ADJACENCY 3, VRF red 1);
        rt :: StaticIPLookup(VRF_ANNO VRF); rt6 :: LookupIP6Route(VRF_ANNO VRF); lone :: LinearIPLookup(10.0.0.0/8 0);
        other :: StaticIPLookup(TABLE rt);";

    #[test]
    fn tables_are_found_with_what_their_outputs_lead_to() {
        let tables = tables(&present(ROUTER));
        let names: Vec<&str> = tables.iter().map(|table| table.element.as_str()).collect();
        assert_eq!(names, ["rt", "rt6", "lone"]);
        let links = |at: usize| tables[at].links.iter().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>();
        assert_eq!(links(0), ["0 eth0", "1 eth1", "2 local", "3 label"]);
        assert_eq!(links(1), ["0 local", "2 eth1", "3 label"]);
        assert_eq!(tables[0].vrfs["red"], 1);
        assert!(tables[2].links.is_empty());
    }

    #[test]
    fn each_table_counts_the_routes_of_its_family() {
        let tables = tables(&present(ROUTER));
        let check = |routes: &[&str], vrf: Option<&str>, want: Result<&[&str], &str>| {
            let routes: Vec<String> = routes.iter().map(|route| (*route).to_owned()).collect();
            let wish = Wish { seconds: 5, routes: &routes, vrf, plane: None };
            let found = orders(&wish, &tables[..2]);
            let texts = found.map(|found| {
                found.iter().map(|(table, order)| format!("{} {order}", table.element)).collect::<Vec<_>>()
            });
            assert_eq!(
                texts.map_err(|why| why.to_string()),
                match want {
                    Ok(lines) => Ok(lines.iter().map(|line| (*line).to_owned()).collect()),
                    Err(why) => Err(why.to_owned()),
                }
            );
        };
        check(&[], None, Ok(&["rt 5 ", "rt6 5 "]));
        check(&["10.0.0.0/8", "10.1.1.1"], None, Ok(&["rt 5 10.0.0.0/8 table 0, 10.1.1.1 table 0"]));
        check(&["2001:db8::/32"], Some("red"), Ok(&["rt6 5 2001:db8::/32 table 1"]));
        check(&["2001:db8::/32"], Some("blue"), Err("the router has no VRF 'blue'"));
    }

    #[test]
    fn counts_are_shown_by_route_and_next_hop() {
        let tables = tables(&present(ROUTER));
        let mut value = json!({ "next_hops": [], "routes": [] });
        let counts = "time_ns 2000000000\n300 6000 10.0.0.2 0\n5 100 - none\n200 4000 10.0.0.2 0 10.0.0.0/8\n0 0 10.0.1.2 1 10.0.0.0/8\n4 80 0.0.0.7 3 10.0.0.0/8 table 1\n";
        add(&mut value, &tables[0], counts, None);
        assert_eq!(value["routes"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["next_hops"][0]["packets_per_s"], 150.0);
        let lines = "\
destination         feed  protocol  next hop          packets/s  bytes/s  packets
10.0.0.0/8          -     -         10.0.0.2 on eth0  100        2000     200
10.0.0.0/8          -     -         10.0.1.2 on eth1  0          0        0
10.0.0.0/8 vrf red  -     -         label             2          40       4
";
        assert_eq!(counted(&value), lines);
        value["routes"] = json!([]);
        value["incomplete"] = "why".into();
        let lines = "\
next hop          packets/s  bytes/s  packets
10.0.0.2 on eth0  150        3000     300
no route          2          50       5
incomplete: why
";
        assert_eq!(counted(&value), lines);
    }

    #[test]
    fn nonsense_is_no_count() {
        for line in ["", "time_ns 5", "1 2 3", "1 2 - 0 10.0.0.0/8 table", "x 2 - 0"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
