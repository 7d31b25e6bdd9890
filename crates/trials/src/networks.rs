// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destinations chosen at random in many networks (RFC 2544, section 12), and the routes to them that a device needs.
//!
//! The networks lie beyond routers that do not exist: a host behind the port answers for each, so all of them have one next hop
//! (RFC 2544 13 and C.2.2.2). They are drawn without repetition from a pool for each of a device's sides.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use tester::extras;
use tester::frame::Flow;
use tester::station::{Every, Extra, Plan, Stream};

/// Flows for each network.
const FLOWS_EACH: usize = 4;
/// Networks that a pool has: those of RFC 2544 C.2.2.2 behind routers, 198.18.65.0 to 198.18.254.255 and the same of 198.19, in pieces of 64
/// addresses, for it asks for more networks than these are whole ones.
const POOL: u32 = 190 * 4;
/// The same for IPv6 has enough of them: the /64s from number 256 on of each half of 2001:2::/48 (RFC 5180 5.2.2).
const FIRST6: u16 = 0x100;

/// A network that is to be reached through a port of the device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) network: IpAddr,
    /// Of its prefix, in bits.
    pub(super) length: u8,
    pub(super) port: usize,
    /// The next hop, a host behind that port.
    pub(super) via: IpAddr,
}

impl Route {
    /// `198.18.65.64/26`.
    pub(super) fn prefix(&self) -> String {
        format!("{}/{}", self.network, self.length)
    }

    fn host(&self, random: &mut fastrand::Rng) -> IpAddr {
        match self.network {
            IpAddr::V4(network) => (u32::from(network) + random.u32(1..63)).to_be_bytes().into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network) | u128::from(random.u64(1..))).into(),
        }
    }
}

/// Prefixes that cover the networks behind port `port`, for people who set routes by hand.
pub(super) fn covering(route: &Route) -> &'static str {
    match (route.network, route.port % 2) {
        (IpAddr::V4(_), 0) => "198.18.64.0/18 and 198.18.128.0/17",
        (IpAddr::V4(_), _) => "198.19.64.0/18 and 198.19.128.0/17",
        (IpAddr::V6(_), 0) => "2001:2::/49",
        (IpAddr::V6(_), _) => "2001:2:0:8000::/49",
    }
}

/// The networks of a pool in random order; the same for all who ask with one seed.
fn pool(side: usize, six: bool, seed: u64) -> Vec<(IpAddr, u8)> {
    let mut random = fastrand::Rng::with_seed(seed ^ side as u64);
    let mut all: Vec<(IpAddr, u8)> = (0..POOL)
        .map(|number| match six {
            false => {
                let base = u32::from(Ipv4Addr::new(198, 18 + side as u8, 65, 0));
                (Ipv4Addr::from(base + 64 * number).into(), 26)
            }
            true => {
                let subnet = (side as u16) << 15 | (FIRST6 + number as u16);
                (Ipv6Addr::new(0x2001, 2, 0, subnet, 0, 0, 0, 0).into(), 64)
            }
        })
        .collect();
    random.shuffle(&mut all);
    all
}

/// Has every port send from one host to random ones in `count` networks behind each port that it sent to. Returns the routes that this
/// takes.
pub(super) fn spread(plan: &mut Plan, count: usize, seed: u64) -> Result<Vec<Route>, Error> {
    let ports = plan.streams.len();
    let most = POOL as usize / ports.div_ceil(2).max(1);
    if count > most {
        return Err(Error::setting(format!(
            "--networks {count}: with {ports} ports there are {most} behind each at most"
        )));
    }
    let mut routes: Vec<Route> = Vec::new();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut streams = Vec::new();
    for stream in &plan.streams {
        let mut flows: Vec<(Flow, Option<usize>)> = Vec::new();
        // The first flow to each port stands for all to it.
        let mut firsts: Vec<(Flow, usize)> = Vec::new();
        for (flow, to) in &stream.flows {
            let to = to.ok_or_else(|| {
                Error::setting(
                    "--networks: where the flows ought to arrive is not known, for two ports share a network",
                )
            })?;
            if firsts.iter().all(|(_, known)| *known != to) {
                firsts.push((*flow, to));
            }
        }
        for (flow, to) in firsts {
            if routes.iter().all(|route| route.port != to) {
                let (side, place) = (to % 2, to / 2);
                let of_port =
                    pool(side, flow.dst.is_ipv6(), seed).into_iter().skip(place * count).take(count);
                routes.extend(of_port.map(|(network, length)| Route {
                    network,
                    length,
                    port: to,
                    via: flow.dst,
                }));
            }
            let there: Vec<&Route> = routes.iter().filter(|route| route.port == to).collect();
            let all = (0..FLOWS_EACH * count).map(|number| {
                let dst = there[number % count].host(&mut random);
                (Flow { dst, ..flow }, Some(to))
            });
            flows.extend(all);
        }
        random.shuffle(&mut flows);
        streams.push(Stream { flows, ..stream.clone() });
    }
    plan.streams = streams;
    Ok(routes)
}

/// Has every trial begin with routing updates of these networks, from hosts behind the ports where they are (RFC 2544 13). Whether all
/// of them are in such an update.
pub(super) fn announce(plan: &mut Plan, routes: &[Route]) -> bool {
    let mut is_whole = true;
    for (port, stream) in plan.streams.iter_mut().enumerate() {
        let there: Vec<&Route> = routes.iter().filter(|route| route.port == port).collect();
        let Some(first) = there.first() else { continue };
        let of_four: Option<Vec<(Ipv4Addr, u8)>> = there
            .iter()
            .map(|route| match route.network {
                IpAddr::V4(network) => Some((network, route.length)),
                IpAddr::V6(_) => None,
            })
            .collect();
        let (Some(networks), IpAddr::V4(via)) = (of_four, first.via) else {
            is_whole = false;
            continue;
        };
        let extra = |frame| Extra { frames: vec![frame], every: Every::Update(extras::ROUTING) };
        stream.extras.extend(extras::announcement(via, &networks).into_iter().map(extra));
    }
    is_whole
}

/// The same plan with one destination for each port's frames, and others for those whose delays are kept, each in a network of its own
/// to which nothing else is sent (RFC 2544 26.2). And how many networks the port with fewest has; none if there is only one.
pub(super) fn apart(plan: &Plan) -> Option<(Plan, usize)> {
    let mut plan = plan.clone();
    let mut fewest = usize::MAX;
    for stream in plan.streams.iter_mut().filter(|stream| !stream.flows.is_empty()) {
        let (first, to) = stream.flows[0];
        let mut known = BTreeSet::from([network(first.dst)]);
        let others =
            stream.flows.iter().filter(|(flow, port)| *port == to && known.insert(network(flow.dst)));
        stream.detours = others.map(|(flow, _)| *flow).collect();
        stream.flows.truncate(1);
        fewest = fewest.min(stream.detours.len());
    }
    (1..usize::MAX).contains(&fewest).then_some((plan, fewest))
}

/// The network of a pool in which this address is.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & !63).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use wire::MacAddr;

    use super::*;

    fn plan(six: bool) -> Plan {
        let address = |port: usize, host: u8| -> IpAddr {
            match six {
                false => [198, 18 + port as u8, 0, host].into(),
                true => Ipv6Addr::new(0x2001, 2, 0, 1 | (port as u16) << 15, 1, 0, 0, host.into()).into(),
            }
        };
        let stream = |port: usize| Stream {
            flows: (1..5)
                .map(|host| {
                    let flow = Flow {
                        src_mac: MacAddr([2; 6]),
                        dst_mac: MacAddr([2; 6]),
                        src: address(port, host),
                        dst: address(1 - port, host),
                        src_port: host.into(),
                        dst_port: 7,
                    };
                    (flow, Some(1 - port))
                })
                .collect(),
            sizes: vec![128],
            ..Stream::default()
        };
        Plan { streams: vec![stream(0), stream(1)], ..Plan::default() }
    }

    #[test]
    fn destinations_lie_evenly_in_as_many_networks_as_are_asked_for() {
        for six in [false, true] {
            let (before, mut plan) = (plan(six), plan(six));
            let routes = spread(&mut plan, 256, 1).expect("there are enough");
            assert_eq!(routes.len(), 512);
            let distinct: BTreeSet<String> = routes.iter().map(Route::prefix).collect();
            assert_eq!(distinct.len(), 512);
            for (port, stream) in plan.streams.iter().enumerate() {
                let there: Vec<&Route> = routes.iter().filter(|route| route.port == 1 - port).collect();
                let (first, _) = before.streams[port].flows[0];
                assert!(there.iter().all(|route| route.via == first.dst));
                let mut hits = vec![0; there.len()];
                for (flow, to) in &stream.flows {
                    assert_eq!((*to, flow.src, flow.src_port), (Some(1 - port), first.src, first.src_port));
                    let within = |route: &&Route| match (route.network, flow.dst) {
                        (IpAddr::V4(net), IpAddr::V4(dst)) => u32::from(dst) & !63 == u32::from(net),
                        (IpAddr::V6(net), IpAddr::V6(dst)) => net.segments()[..4] == dst.segments()[..4],
                        _ => false,
                    };
                    hits[there.iter().position(within).expect("in one of them")] += 1;
                    assert!(
                        six || !matches!(flow.dst, IpAddr::V4(dst) if [0, 63].contains(&(dst.octets()[3] % 64)))
                    );
                }
                assert!(hits.iter().all(|hits| *hits == FLOWS_EACH), "{hits:?}");
            }
            let mut again = before.clone();
            assert_eq!(spread(&mut again, 256, 1).ok(), Some(routes.clone()));
            assert_ne!(spread(&mut before.clone(), 256, 2).ok(), Some(routes));
        }
    }

    #[test]
    fn every_network_is_announced_where_it_is() {
        let mut four = plan(false);
        let routes = spread(&mut four, 256, 1).expect("there are enough");
        assert!(announce(&mut four, &routes));
        // 25 in each message.
        assert!(four.streams.iter().all(|stream| stream.extras.len() == 11));
        for (port, stream) in four.streams.iter().enumerate() {
            let via = routes.iter().find(|route| route.port == port).map(|route| route.via);
            let from = |extra: &Extra| IpAddr::from([26, 27, 28, 29].map(|at| extra.frames[0][at]));
            assert!(stream.extras.iter().all(|extra| Some(from(extra)) == via));
        }
        let mut one_way = plan(false);
        one_way.streams[1].flows.clear();
        let routes = spread(&mut one_way, 4, 1).expect("there are enough");
        assert!(announce(&mut one_way, &routes));
        let updates = [0, 1].map(|port: usize| one_way.streams[port].extras.len());
        assert_eq!(updates, [0, 1], "where the networks are");
        let mut six = plan(true);
        let routes = spread(&mut six, 4, 1).expect("there are enough");
        assert!(!announce(&mut six, &routes) && six.streams[0].extras.is_empty(), "RIP is of IPv4");
    }

    #[test]
    fn tagged_frames_go_where_nothing_else_does() {
        for six in [false, true] {
            let mut plan = plan(six);
            assert!(apart(&plan).is_none(), "there is one network only");
            spread(&mut plan, 16, 1).expect("there are enough");
            let (apart, networks) = apart(&plan).expect("there are more");
            assert_eq!(networks, 15);
            for stream in &apart.streams {
                assert_eq!((stream.flows.len(), stream.detours.len()), (1, 15));
                let all = stream.detours.iter().chain([&stream.flows[0].0]);
                assert_eq!(all.map(|flow| network(flow.dst)).collect::<BTreeSet<_>>().len(), 16);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(
            spread(&mut plan(false), 761, 1)
                .is_err_and(|why| why.to_string().contains("760 behind each at most"))
        );
        let mut unknown = plan(false);
        unknown.streams[0].flows[0].1 = None;
        assert!(spread(&mut unknown, 2, 1).is_err_and(|why| why.to_string().contains("is not known")));
    }
}
