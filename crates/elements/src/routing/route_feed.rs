// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RouteFeed
//!
//! `RouteFeed(CHANNEL, keywords TABLE, TABLE6, LINK, VRF, LOCAL, UNREACHABLE, PROHIBIT, BFD, MPLS, MPLS_LINK,
//! ADJACENCY, MULTICAST, MULTICAST6)`
//!
//! Takes routes from a control plane, such as 'junctor control', and puts them into lookup elements. Packets do not pass it.
//!
//! The control plane learns routes from routing daemons and from the kernel, and names interfaces. RouteFeed says which output of the
//! lookup elements leads to which interface. Its routes stand among those of the configuration: a route of the control plane covers a configured one
//! of the same prefix, which returns when that one goes. When the control plane ends, its routes stay. When a new
//! configuration has no RouteFeed for the channel, they go.
//!
//! The lookup element's CAPACITY bounds the routes of the configuration and of the control plane together; without it, 4,194,304 count. What does
//! not fit is tried again when a route has gone, and otherwise after 0.5 to 64 seconds; 'junctor routes --status' counts it as outstanding.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `CHANNEL` the deployment's channel that the routes come by (`kind = "routes"`). Each RouteFeed needs one of its own.
//! * `TABLE` the StaticIPLookup, or one of its synonyms, for IPv4 routes. `TABLE6` the LookupIP6Route for IPv6 routes. One of
//!   them is needed.
//! * `LINK NAME OUTPUT [OUTPUT6]` the outputs that lead to interface NAME of the control plane; OUTPUT6, default OUTPUT, is that of
//!   TABLE6. May be repeated.
//! * `VRF NAME NUMBER` routes of the control plane's VRF NAME go to the table of this number, 1 to 255, of TABLE and TABLE6, which need
//!   VRF_ANNO. May be repeated. Other routes go to table 0. Routes of a VRF that is not named here are refused.
//! * `LOCAL OUTPUT [OUTPUT6]` for the router's own addresses; default: such routes drop.
//! * `UNREACHABLE OUTPUT [OUTPUT6]` for routes of that type, and for those whose links are all down; default: they drop as
//!   `no-route`. `PROHIBIT OUTPUT [OUTPUT6]` for routes of that type; default: they drop as `prohibited`.
//! * `BFD` the BFD element whose links have the same names. A gateway that does not answer there counts as if its link were down.
//! * `MPLS` the LookupMPLS that takes labels.
//! * `MPLS_LINK NAME OUTPUT [OUTPUT6]` the outputs of MPLS that lead to interface NAME: OUTPUT for IPv4 gateways, OUTPUT6, default OUTPUT, for IPv6
//!   ones. May be repeated.
//! * `ADJACENCY OUTPUT [OUTPUT6]` the outputs of TABLE and TABLE6 that lead to input 1 of MPLS. Packets go there whose next hop pushes labels, or is
//!   of the other family (RFC 8950). The destination annotation then names the next hop, so no queue may stand between.
//! * `MULTICAST` the LookupIPMulticast, and `MULTICAST6` the LookupIP6Multicast, that take multicast entries. Their outputs for links are those of TABLE and
//!   TABLE6, and packets that come by a link bear the same number as their paint. They need TABLE or TABLE6.
//!
//! A hop whose link is down takes no packets. A route whose hops are all down is unreachable. A hop that leads to an interface without
//! output is left to LOCAL's output: the kernel forwards there. An interface may be in another VRF than the route. So is a hop that pushes labels or is of the other family, without ADJACENCY.
//!
//! **Drops:** none. Routes of type blackhole make the lookup element drop as `blackhole`.
//!
//! **Handlers**
//! * `set` write: makes these the feed's routes, as if a control plane had sent them. A line has a prefix, perhaps a gateway, and the name of a
//!   link, as '192.0.2.0/24 10.0.0.2 eth0'; or a prefix and `local`, `blackhole`, `unreachable` or `prohibit`. A VRF may stand behind the prefix,
//!   as '192.0.2.0/24@red'. A control plane that is attached sends its own again.
//! * `feed` read: the number of the control plane's run and of the last batch that it sent; 0 0 before the first.
//! * `removed` read: how many routes of the control plane have gone from the tables: withdrawn, or not named by a replay.
//!
//! ```click
//! RouteFeed(routes, TABLE rt, LINK eth0 0, LINK eth1 1);
//! Idle -> rt :: StaticIPLookup(10.0.0.0/8 0); rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: StaticIPLookup, LookupIP6Route, FromHost, BFD

use std::collections::HashMap;
use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::{
    Class, Element, HandlerError, InitCx, OpenCx, Provide, Provided, SharedState, Sharing, Tasks, handlers,
};

use super::bfd::{Follow, Liveness};
use super::{Family, FeedSink, Groups, Mpls, Outputs, ReverseRoutes, Side, Sides, Vrfs, by_hand};
use crate::mpls::LabelForwarding;
use crate::multicast::MulticastForwarding;

/// The descriptor.
pub const CLASS: Class = Class::new("RouteFeed", "0/0", || Box::new(RouteFeed::default()))
    .sharing(Sharing::Shared)
    .sole("channel")
    .handlers(handlers! { RouteFeed:
        read "feed" => |element| {
            let (feed, sequence) = element.sink.as_ref().map_or((0, 0), |sink| sink.status());
            format!("{feed} {sequence}")
        };
        read "removed" => |element| element.sink.as_ref().map_or(0, |sink| sink.removed());
        write "set" => |element, text: &str| {
            let Some(sink) = &element.sink else { return Ok(()) };
            by_hand::set(sink, text).map_err(HandlerError::Failed)?;
        };
    })
    .shared_state::<RouteFeed>()
    .provide::<RouteFeed>()
    .file(file!());

/// An output of each family's table.
#[derive(Clone, Copy, Debug)]
struct Pair([u32; 2]);

impl FromArg for Pair {
    const EXPECTED: &'static str = "one or two outputs";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[both]) => Ok(Pair([both; 2])),
            Ok(&[four, six]) => Ok(Pair([four, six])),
            _ => Err(String::new()),
        }
    }
}

/// An interface and the outputs that lead to it.
#[derive(Clone, Debug)]
struct Link(String, Pair);

impl FromArg for Link {
    const EXPECTED: &'static str = "an interface's name and one or two outputs, as eth0 1";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let (name, outputs) = text.trim().split_once(char::is_whitespace).ok_or_else(String::new)?;
        Ok(Link(name.to_owned(), Pair::from_arg(outputs, names)?))
    }
}

/// A VRF and its table.
#[derive(Clone, Debug)]
pub(super) struct Vrf(pub(super) String, pub(super) u8);

impl FromArg for Vrf {
    const EXPECTED: &'static str = "the name of a VRF and the number of its table, as red 1";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let (name, number) = text.trim().split_once(char::is_whitespace).ok_or_else(String::new)?;
        let number = number.trim().parse().ok().filter(|number| *number != 0).ok_or_else(String::new)?;
        Ok(Vrf(name.to_owned(), number))
    }
}

#[derive(Clone, Default)]
struct RouteFeed {
    channel: String,
    tables: [Option<String>; 2],
    outputs: [Outputs; 2],
    watch: Option<String>,
    mpls: Option<String>,
    mpls_links: HashMap<String, [u32; 2]>,
    multicast: [Option<String>; 2],
    vrfs: Vrfs,
    before: Option<Arc<FeedSink>>,
    sink: Option<Arc<FeedSink>>,
}

/// Finds a table, and whether it has the outputs that routes are to lead to.
fn side<F: Family>(
    cx: &mut InitCx<'_>,
    name: &str,
    outputs: &Outputs,
    mpls: Option<&Arc<Mpls>>,
    needs_vrfs: bool,
) -> Result<Side<F>, String> {
    let found = cx.find::<ReverseRoutes<F>>(name);
    let routes =
        found.ok_or_else(|| format!("'{name}' is not an element with a table of its own of this family"))?;
    if needs_vrfs && !routes.has_vrfs() {
        return Err(format!("'{name}' needs VRF_ANNO, by which packets are told the table of their VRF"));
    }
    let routes = routes.shared.clone();
    let noutputs = routes.read(|routes| routes.noutputs());
    match outputs.all().find(|output| *output as usize >= noutputs) {
        Some(output) => {
            Err(format!("'{name}' has no output {output}; its outputs are 0 to {}", noutputs - 1))
        }
        None => Ok(Side { routes, outputs: outputs.clone(), mpls: mpls.cloned() }),
    }
}

impl RouteFeed {
    /// Reads what is about labels.
    fn configure_mpls(&mut self, args: &mut Args<'_>) {
        self.mpls = args.keyword_opt("MPLS");
        let links: Vec<Link> = args.keyword_all("MPLS_LINK");
        let adjacency: Option<Pair> = args.keyword_opt("ADJACENCY");
        if self.mpls.is_none() && (!links.is_empty() || adjacency.is_some()) {
            args.error("MPLS_LINK and ADJACENCY need MPLS, the LookupMPLS that they are about");
        }
        for Link(name, Pair(pair)) in links {
            if self.mpls_links.insert(name.clone(), pair).is_some() {
                args.error(format!("MPLS_LINK {name} is given twice"));
            }
        }
        for (family, outputs) in self.outputs.iter_mut().enumerate() {
            outputs.adjacency = adjacency.map(|Pair(pair)| pair[family]);
        }
    }

    /// Finds the multicast table of a family, and whether it has the outputs of all links.
    fn find_multicast(&self, cx: &mut InitCx<'_>, family: usize) -> Result<Option<Groups>, String> {
        let Some(name) = &self.multicast[family] else { return Ok(None) };
        let keyword = ["MULTICAST", "MULTICAST6"][family];
        let found = cx.find::<MulticastForwarding>(name);
        let class = ["LookupIPMulticast", "LookupIP6Multicast"][family];
        let forwarding = found
            .filter(|found| found.is_six() == (family == 1))
            .ok_or_else(|| format!("{keyword}: '{name}' is not a {class}"))?;
        let (links, noutputs) = (self.outputs[family].links.clone(), forwarding.noutputs());
        if !self.vrfs.is_empty() && !forwarding.has_tables() {
            return Err(format!(
                "{keyword}: '{name}' needs VRF_ANNO, by which packets are told the table of their VRF"
            ));
        }
        match links.values().find(|output| **output as usize >= noutputs) {
            Some(output) => Err(format!("{keyword}: '{name}' has no output {output}, which leads to a link")),
            None => Ok(Some(Groups { forwarding, links })),
        }
    }

    /// Finds the label table, and whether it has the outputs that hops are to lead to.
    fn find_mpls(&self, cx: &mut InitCx<'_>) -> Result<Option<Arc<Mpls>>, String> {
        let Some(name) = &self.mpls else { return Ok(None) };
        let found = cx.find::<LabelForwarding>(name);
        let forwarding = found.ok_or_else(|| format!("MPLS: '{name}' is not a LookupMPLS"))?;
        let noutputs = forwarding.noutputs();
        match self.mpls_links.values().flatten().find(|output| **output as usize >= noutputs) {
            Some(output) => Err(format!(
                "MPLS: '{name}' has no output {output}; its outputs are 0 to {}",
                noutputs.saturating_sub(1)
            )),
            None => Ok(Some(Arc::new(Mpls { forwarding, links: self.mpls_links.clone() }))),
        }
    }
}

impl Element for RouteFeed {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.channel = args.required("CHANNEL");
        self.tables = [args.keyword_opt("TABLE"), args.keyword_opt("TABLE6")];
        if self.tables.iter().all(Option::is_none) {
            args.error("name the element that takes the routes: TABLE for IPv4, TABLE6 for IPv6");
        }
        self.watch = args.keyword_opt("BFD");
        let links: Vec<Link> = args.keyword_all("LINK");
        let verdicts = [
            args.keyword_opt::<Pair>("LOCAL"),
            args.keyword_opt("UNREACHABLE"),
            args.keyword_opt("PROHIBIT"),
        ];
        for (family, outputs) in self.outputs.iter_mut().enumerate() {
            for Link(name, Pair(pair)) in &links {
                if outputs.links.insert(name.clone(), pair[family]).is_some() && family == 0 {
                    args.error(format!("LINK {name} is given twice"));
                }
            }
            let [local, unreachable, prohibit] = verdicts.map(|pair| pair.map(|Pair(pair)| pair[family]));
            (outputs.local, outputs.unreachable, outputs.prohibit) = (local, unreachable, prohibit);
        }
        for Vrf(name, number) in args.keyword_all("VRF") {
            if self.vrfs.values().any(|other| *other == number) || self.vrfs.contains_key(&name) {
                args.error(format!("VRF {name} {number}: the name or the table is given twice"));
            }
            self.vrfs.insert(name, number);
        }
        self.configure_mpls(args);
        self.multicast = [args.keyword_opt("MULTICAST"), args.keyword_opt("MULTICAST6")];
        for ((multicast, table), name) in self.multicast.iter().zip(&self.tables).zip(["", "6"]) {
            if multicast.is_some() && table.is_none() {
                args.error(format!("MULTICAST{name} needs TABLE{name}, whose outputs for links it has"));
            }
        }
        self.sink = Some(Arc::new(FeedSink::new(self.channel.clone())));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.before = cx.predecessor::<FeedSink>();
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let Some(sink) = self.sink.clone().filter(|sink| !sink.has_started()) else { return Ok(()) };
        let mpls = self.find_mpls(cx)?;
        let [four, six] = &self.tables;
        let (mpls_of, vrfs) = (mpls.as_ref(), !self.vrfs.is_empty());
        let four = four.as_ref().map(|name| side(cx, name, &self.outputs[0], mpls_of, vrfs)).transpose();
        let six = six.as_ref().map(|name| side(cx, name, &self.outputs[1], mpls_of, vrfs)).transpose();
        let four = four.map_err(|why| format!("TABLE: {why}"))?;
        let six = six.map_err(|why| format!("TABLE6: {why}"))?;
        let groups = [self.find_multicast(cx, 0)?, self.find_multicast(cx, 1)?];
        sink.start(Sides { four, six, mpls, groups, vrfs: self.vrfs.clone() }, self.before.take())?;
        if let Some(name) = &self.watch {
            let liveness = cx.find::<Liveness>(name);
            let liveness = liveness.ok_or_else(|| format!("BFD: '{name}' is not a BFD element"))?;
            let follower: Arc<dyn Follow> = sink;
            liveness.add(&follower);
        }
        Ok(())
    }
}

impl Provide for RouteFeed {
    fn provide(&self) -> Option<Provided> {
        self.sink.clone().map(|sink| sink as Provided)
    }
}

impl SharedState for RouteFeed {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}
