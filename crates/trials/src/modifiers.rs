// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is changed about the frames that a device is sent: sizes, bursts, ports, who talks to whom, and what other frames come.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use serde_json::{Value, json};
use tester::extras;
use tester::genome::Genome;
use tester::search::mixes::Mix;
use tester::search::setup as demands;
use tester::station::{Every, Extra, Plan, Station, Stream};
use tester::{hosts, management};
use wire::MacAddr;

use super::filters::Case;
use super::variant::Variant;
use crate::Error;

/// Frames in addition to the test's (RFC 2544, section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Every hundredth frame is a broadcast frame (11.1).
    Broadcast,
    /// A question by SNMP (version 1, community public) for the device's up-time and the counters of its interface 1, each second; the
    /// answers are verified (11.2).
    Management,
    /// RIP's updates at the start and each 30 s, by turns with routes to networks that the test does not use and without (11.3). With
    /// the profile rfc the first one comes 5 s before the test's frames.
    Routing,
}

impl Beside {
    /// All kinds.
    pub(super) const ALL: [Beside; 3] = [Beside::Broadcast, Beside::Management, Beside::Routing];

    /// As results and reports have it.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// As the demands on it are known.
    pub(super) fn demand(self) -> demands::Beside {
        match self {
            Beside::Broadcast => demands::Beside::Broadcast,
            Beside::Management => demands::Beside::Management,
            Beside::Routing => demands::Beside::Routing,
        }
    }

    /// What is sent where this flow is, past a device with these addresses, if there is such a thing.
    fn extra(self, flow: &tester::frame::Flow, own: &[IpAddr]) -> Option<Extra> {
        let (frames, every) = match self {
            // The first of each hundred.
            Beside::Broadcast => (vec![extras::broadcast(flow.src_mac)], Every::Frames(99)),
            Beside::Management => {
                let asked = management::question(flow, management::askable(own)?)?;
                (vec![asked], Every::Time(management::EACH))
            }
            Beside::Routing => (extras::routes(flow)?.to_vec(), Every::Update(extras::ROUTING)),
        };
        Some(Extra { frames, every })
    }

    /// Why there is none.
    fn why_not(self) -> &'static str {
        match self {
            Beside::Broadcast => "no broadcast frames are sent: no port sends anything",
            Beside::Management => {
                "no management frames are sent: the device told no IPv4 address of its own to ask"
            }
            Beside::Routing => "no routing updates are sent: they are RIP's, of IPv4, and the flows are not",
        }
    }

    /// Has it sent by every port that sends, or says why it cannot be.
    pub(super) fn add(self, plan: &mut Plan, own: &[IpAddr]) -> Result<(), Error> {
        let mut any = false;
        for stream in &mut plan.streams {
            let extra = stream.flows.first().and_then(|(flow, _)| self.extra(flow, own));
            any |= extra.is_some();
            stream.extras.extend(extra);
        }
        if any { Ok(()) } else { Err(Error::setting(self.why_not())) }
    }
}

/// How what is sent differs from one size, one frame after the other.
#[derive(Clone, Debug, Default)]
pub struct Modifiers {
    /// Frames of several sizes in this order, over and over (RFC 6985). Results have the average size in their names.
    pub imix: Option<Genome>,
    /// Frames leave in bursts of so many, at the same rate on average (RFC 2544 21).
    pub burst: Option<u64>,
    /// All is done at a steady rate first, and then in bursts of each of these numbers of frames.
    pub bursts: Vec<u64>,
    /// Each flow has UDP ports drawn at random (RFC 4814).
    pub random_ports: bool,
    /// The Ethernet addresses of the tester's hosts are drawn at random (RFC 4814 4.2).
    pub random_macs: bool,
    /// Flows of each port; all without it.
    pub flows_per_port: Option<u32>,
    /// Each port sends to all others in turn, not as the flows say (RFC 2544 16).
    pub mesh: bool,
    /// All is done with one pair of addresses for each port first, then with destinations in so many networks (RFC 2544 12).
    pub networks: Option<u32>,
    /// All is done without filters first, then with 1 and with 25 filters (RFC 2544 11.4).
    pub filters: bool,
    /// All is done without modifiers first, then with each of RFC 2544 11 by itself.
    pub each_modifier: bool,
    /// A shell command that sets the filters of a device that the tester cannot set them in.
    pub filter_command: Option<String>,
    /// What is sent in the place of some of the frames that are counted (RFC 2544 11).
    pub beside: Vec<Beside>,
}

impl Modifiers {
    /// Whether anything differs.
    pub(super) fn are_any(&self) -> bool {
        let Modifiers {
            imix,
            burst,
            random_ports,
            random_macs,
            flows_per_port,
            mesh,
            beside,
            networks: _,
            filters: _,
            each_modifier: _,
            filter_command: _,
            bursts: _,
        } = self;
        imix.is_some()
            || burst.is_some()
            || *random_ports
            || *random_macs
            || flows_per_port.is_some()
            || *mesh
            || !beside.is_empty()
    }

    /// In how many networks destinations are chosen at random, if they are.
    pub(super) fn networks(&self) -> Option<u32> {
        self.networks
    }

    /// Whether filters are put on the device.
    pub(super) fn filters(&self) -> bool {
        self.filters || self.each_modifier
    }

    /// Whether everything is done with each modifier by itself.
    pub(super) fn each(&self) -> bool {
        self.each_modifier
    }

    /// The command that does.
    pub(super) fn filter_command(&self) -> Option<&str> {
        self.filter_command.as_deref()
    }

    /// Under what everything is done, one after the other.
    pub(super) fn variants(&self) -> Vec<Variant> {
        match self.networks {
            Some(count) => vec![Variant::OnePair, Variant::Networks(count)],
            None if self.filters() => {
                let beside = Beside::ALL.into_iter().map(Variant::Beside);
                let beside = beside.filter(|_| self.each_modifier);
                let filters = Case::ALL.map(Variant::Filters);
                [Variant::Unfiltered].into_iter().chain(beside).chain(filters).collect()
            }
            None if !self.bursts.is_empty() => {
                std::iter::once(1).chain(self.bursts.iter().copied()).map(Variant::Burst).collect()
            }
            None => vec![Variant::Given],
        }
    }

    /// The longest frame of a mix, but for those as long as the ports take, if there are several sizes.
    pub(super) fn longest(&self) -> Option<usize> {
        self.imix.as_ref()?.sizes(0).into_iter().max()
    }

    /// The mix, if there are several sizes, on ports that take frames so long.
    pub(super) fn mix(&self, longest: usize) -> Option<Mix> {
        let genome = self.imix.as_ref()?;
        let has_longest = genome.table(longest).contains_key(&'z');
        Some(Mix { sizes: genome.sizes(longest), has_longest, is_custom: genome.is_custom() })
    }

    /// Its letters and what they stand for.
    pub(super) fn letters(&self, longest: usize) -> Option<BTreeMap<char, usize>> {
        self.imix.as_ref().map(|genome| genome.table(longest))
    }

    /// Frames in a burst, if they leave in bursts.
    pub(super) fn burst(&self) -> Option<u64> {
        self.burst
    }

    /// Frames in each burst of those tests that are repeated with bursts.
    pub(super) fn bursts(&self) -> &[u64] {
        &self.bursts
    }

    /// Whether each flow has UDP ports drawn at random.
    pub(super) fn random_ports(&self) -> bool {
        self.random_ports
    }

    /// Whether the Ethernet addresses of the tester's hosts are.
    pub(super) fn random_macs(&self) -> bool {
        self.random_macs
    }

    /// The average size of the frames, if there are several.
    pub(super) fn average_size(&self) -> Option<usize> {
        self.imix.as_ref().map(|genome| genome.average().round() as usize)
    }

    /// The same on ports whose longest frame has so many bytes.
    pub(super) fn average_on(&self, longest: usize) -> Option<usize> {
        self.imix.as_ref().map(|genome| genome.average_on(longest).round() as usize)
    }

    /// For the conditions of a result.
    pub(super) fn json(&self) -> Value {
        let beside: Vec<String> = self.beside.iter().map(|what| what.name()).collect();
        json!({
            "imix": self.imix.as_ref().map(ToString::to_string), "burst": self.burst, "bursts": self.bursts, "random_ports": self.random_ports, "random_macs": self.random_macs,
            "flows_per_port": self.flows_per_port, "mesh": self.mesh, "beside": beside,
            "networks": self.networks, "filters": self.filters, "each_modifier": self.each_modifier, "filter_command": self.filter_command,
        })
    }

    /// Changes what a station sends. Only a station that has talked to its device knows whom to ask.
    pub(super) fn apply(&self, station: &mut Station, seed: u64) -> Result<(), Error> {
        let mut plan = station.plan().clone();
        forwarded(&mut plan, &station.own_addresses());
        if self.mesh {
            mesh(&mut plan)?;
        }
        if self.random_macs {
            draw_macs(&mut plan, seed);
        }
        let longest = station.longest();
        let mut random = fastrand::Rng::with_seed(seed);
        for stream in &mut plan.streams {
            if let Some(flows) = self.flows_per_port {
                stream.flows.truncate(flows as usize);
            }
            if let Some(genome) = &self.imix {
                stream.sizes = genome.sizes(longest);
            }
            self.draw_ports(stream, &mut random);
            stream.extras = self.extras(stream.flows.first().map(|(flow, _)| flow), &station.own_addresses());
        }
        plan.burst = self.burst.unwrap_or(1);
        Ok(station.replan(&plan)?)
    }

    /// Draws the UDP ports of a stream's flows, if that is asked for.
    pub(super) fn draw_ports(&self, stream: &mut Stream, random: &mut fastrand::Rng) {
        for (flow, _) in stream.flows.iter_mut().filter(|_| self.random_ports) {
            // RFC 4814 4.5: what clients and servers use.
            (flow.src_port, flow.dst_port) = (random.u16(1024..=65535), random.u16(1..=49151));
        }
    }

    fn extras(&self, flow: Option<&tester::frame::Flow>, own: &[IpAddr]) -> Vec<Extra> {
        let Some(flow) = flow else { return Vec::new() };
        self.beside.iter().filter_map(|what| what.extra(flow, own)).collect()
    }

    /// What this station sends in addition to the test's frames.
    pub(super) fn sent_beside(&self, station: &Station) -> Vec<demands::Beside> {
        let own = station.own_addresses();
        let flows = || station.plan().streams.iter().filter_map(|stream| stream.flows.first());
        let sent =
            self.beside.iter().filter(|what| flows().any(|(flow, _)| what.extra(flow, &own).is_some()));
        sent.map(|what| what.demand()).collect()
    }

    /// What was asked for and cannot be done with this device.
    pub(super) fn missing(&self, station: &Station) -> Option<&'static str> {
        let asks = self.beside.contains(&Beside::Management);
        let has = station.own_addresses().iter().any(|address| address.is_ipv4());
        (asks && !has).then_some(Beside::Management.why_not())
    }
}

/// Leaves out the flows to the device itself, but for a port that has no others.
pub(super) fn forwarded(plan: &mut Plan, own: &[IpAddr]) {
    for stream in &mut plan.streams {
        if !stream.flows.iter().all(|(flow, _)| own.contains(&flow.dst)) {
            stream.flows.retain(|(flow, _)| !own.contains(&flow.dst));
        }
    }
}

/// Every port's hosts talk to every other port's. Where hosts' Ethernet addresses are sent to, as before a bridge, they still are.
fn mesh(plan: &mut Plan) -> Result<(), Error> {
    let hosts: Vec<Vec<_>> =
        plan.streams.iter().map(|stream| stream.flows.iter().map(|(flow, _)| *flow).collect()).collect();
    let ports: Vec<usize> = (0..hosts.len()).filter(|port| !hosts[*port].is_empty()).collect();
    if ports.len() < 2 {
        return Err(Error::setting("a mesh takes two ports that send at least"));
    }
    let is_host = |mac| hosts.iter().flatten().any(|flow| flow.src_mac == mac);
    for (place, port) in ports.iter().enumerate() {
        let mut flows = Vec::new();
        for (index, from) in hosts[*port].iter().enumerate() {
            // Each flow to one of the others, beginning with the neighbour.
            let to = ports[(place + 1 + index % (ports.len() - 1)) % ports.len()];
            let host = &hosts[to][index % hosts[to].len()];
            let dst_mac = if is_host(from.dst_mac) { host.src_mac } else { from.dst_mac };
            flows.push((tester::frame::Flow { dst: host.src, dst_mac, ..*from }, Some(to)));
        }
        plan.streams[*port].flows = flows;
    }
    Ok(())
}

/// Gives each port's hosts other Ethernet addresses, at which those are sent to who are sent to by others.
fn draw_macs(plan: &mut Plan, seed: u64) {
    let mut drawn: HashMap<MacAddr, MacAddr> = HashMap::new();
    for (port, stream) in plan.streams.iter().enumerate() {
        let mut number = 0..;
        for (flow, _) in &stream.flows {
            drawn
                .entry(flow.src_mac)
                .or_insert_with(|| hosts::random_mac(seed, port, number.next().unwrap_or_default()));
        }
    }
    for (flow, _) in plan.streams.iter_mut().flat_map(|stream| &mut stream.flows) {
        for mac in [&mut flow.src_mac, &mut flow.dst_mac] {
            *mac = drawn.get(mac).copied().unwrap_or(*mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use tester::frame::Flow;

    use super::*;

    fn flow(port: u8, host: u8, dst_mac: [u8; 6]) -> Flow {
        Flow {
            src_mac: MacAddr([2, port, 0, 0, 0, host]),
            dst_mac: MacAddr(dst_mac),
            src: [10, 0, port, host].into(),
            dst: [10, 0, port ^ 1, host].into(),
            src_port: 1,
            dst_port: 7,
        }
    }

    fn plan(dst_mac: impl Fn(u8, u8) -> [u8; 6]) -> Plan {
        let stream = |port: u8| Stream {
            flows: (0..4).map(|host| (flow(port, host, dst_mac(port, host)), None)).collect(),
            sizes: vec![64],
            ..Stream::default()
        };
        Plan { streams: (0..3).map(stream).chain([Stream::default()]).collect(), ..Plan::default() }
    }

    #[test]
    fn hosts_keep_the_addresses_that_are_drawn_for_them() {
        let stream = |port: u8, dst_mac: [u8; 6]| Stream {
            flows: (0..9).map(|host| (flow(port, host % 3, dst_mac), None)).collect(),
            ..Stream::default()
        };
        // The first port's hosts send to one behind the second, those to the device.
        let device = [2, 9, 9, 9, 9, 9];
        let mut plan =
            Plan { streams: vec![stream(0, [2, 1, 0, 0, 0, 2]), stream(1, device)], ..Plan::default() };
        draw_macs(&mut plan, 7);
        let [first, second] = &plan.streams[..] else { panic!("two ports") };
        for (port, stream) in plan.streams.iter().enumerate() {
            let macs: std::collections::HashSet<_> = stream.flows.iter().map(|(f, _)| f.src_mac).collect();
            assert_eq!(macs.len(), 3);
            assert!(macs.iter().all(|mac| hosts::port_of(*mac) == Some(port) && mac.0[0] & 3 == 0));
        }
        assert!(first.flows.iter().all(|(flow, _)| flow.dst_mac == second.flows[2].0.src_mac));
        assert!(second.flows.iter().all(|(flow, _)| flow.dst_mac == MacAddr(device)));
    }

    #[test]
    fn the_device_itself_is_sent_nothing() {
        let given = plan(|_, _| [9; 6]);
        let dst = |host: u8| IpAddr::from([10, 0, 1, host]);
        let mut some = given.clone();
        forwarded(&mut some, &[dst(0), dst(2)]);
        let left: Vec<IpAddr> = some.streams[0].flows.iter().map(|(flow, _)| flow.dst).collect();
        assert_eq!((left, some.streams[1].flows.len()), (vec![dst(1), dst(3)], 4));
        let mut all = given.clone();
        forwarded(&mut all, &[0, 1, 2, 3].map(dst));
        assert_eq!(all.streams[0].flows.len(), given.streams[0].flows.len(), "something must be sent");
    }

    #[test]
    fn each_modifier_is_sent_by_all_that_send() {
        let own = [IpAddr::from([10, 0, 0, 1])];
        for (what, own, sent) in [
            (Beside::Broadcast, &[][..], true),
            (Beside::Management, &[], false),
            (Beside::Management, &own, true),
            (Beside::Routing, &[], true),
        ] {
            let mut plan = plan(|_, _| [9; 6]);
            assert_eq!(what.add(&mut plan, own).is_ok(), sent, "{what:?}");
            let extras: Vec<usize> = plan.streams.iter().map(|stream| stream.extras.len()).collect();
            assert_eq!(extras, [sent.into(), sent.into(), sent.into(), 0], "{what:?}");
        }
    }

    #[test]
    fn in_a_mesh_all_talk_to_all() {
        let mut routed = plan(|_, _| [9; 6]);
        mesh(&mut routed).expect("three ports");
        let to = |plan: &Plan, port: usize| -> Vec<Option<usize>> {
            plan.streams[port].flows.iter().map(|(_, to)| *to).collect()
        };
        assert_eq!(to(&routed, 0), [Some(1), Some(2), Some(1), Some(2)]);
        assert_eq!(to(&routed, 2), [Some(0), Some(1), Some(0), Some(1)]);
        let (first, _) = routed.streams[1].flows[0];
        assert_eq!((first.dst, first.dst_mac), ([10, 0, 2, 0].into(), MacAddr([9; 6])));
        let mut bridged = plan(|port, host| [2, (port + 1) % 3, 0, 0, 0, host]);
        mesh(&mut bridged).expect("three ports");
        assert_eq!(bridged.streams[0].flows[1].0.dst_mac, MacAddr([2, 2, 0, 0, 0, 1]));
        assert!(mesh(&mut Plan { streams: vec![Stream::default()], ..Plan::default() }).is_err());
    }
}
