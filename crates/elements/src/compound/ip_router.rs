// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRouter
//!
//! `IPRouter(DEVICE ADDR/LEN [MTU BYTES] [ETHER ADDRESS], ... [, keywords ROUTE, MTU, QUEUE, METHOD, HOST, NETNS, FEED, BFD, IPSEC, SA, POLICY, FRAGMENT, MPLS, VRF, FIREWALL, NAT, STATEMENT, OUTSIDE])`
//!
//! A whole IPv4 router in one line, with any number of interfaces. It is a compound of ordinary elements, which
//! 'junctor check --flat' prints: the same that 'junctor init router' writes. Their handlers are those of ROUTER/rt,
//! ROUTER/arp0 and so on, ROUTER being the name that you give it.
//!
//! **Ports:** none needed. With output 0 connected, packets for the router itself that are not pings leave there, IP
//! header first, rather than be answered by an ICMP error; IP packets that come in at input 0 are routed.
//!
//! **Arguments:** one for each interface:
//! * `DEVICE` the interface, as FromDevice has it. `ADDR/LEN` the router's address on it, and the network's prefix
//!   length; several of them may follow each other, and the first is the one that speaks.
//! * `MTU` bytes of the longest IP packet on it, by default as the interface has it at the moment, or 1500 where there is no such
//!   interface. `ETHER` Ethernet address, by default what AddressInfo or the interface itself says.
//!
//! **Keywords**
//! * `ROUTE PREFIX NEXTHOP [DEVICE] [| NEXTHOP [DEVICE] ...]` a route, or several that share the traffic; may be repeated for other prefixes. DEVICE
//!   may be left out where NEXTHOP is on one of the interfaces' networks. `0.0.0.0/0` is the default route; without one, senders get an error that
//!   there is no route.
//! * `MTU` for interfaces without their own. `QUEUE` packets that may wait for each interface, default 1024.
//! * `HOST` boolean, default false: this host's kernel answers what the fast path cannot. Each interface gets a twin, a tap `host0`, `host1`... with
//!   its Ethernet address, MTU and IP addresses. What is for the router itself, and every exception (TTL expired, bad options, too big, no neighbour,
//!   no route), goes to the twin of the interface by which it came, limited by a Punt for each reason. What the kernel sends there leaves by the
//!   interface. Messages of control protocols have their own queues and limits both ways (`heard0`, `said0`, see ControlTraffic). The kernel needs
//!   `net.ipv4.ip_forward=1` and the routes that go by next hops.
//! * `NETNS` the network namespace for the twins; implies HOST.
//! * `FEED CHANNEL` the channel by which a control plane ('junctor control') sends routes, see RouteFeed; implies HOST.
//! * `BFD SESSION` watches a neighbour, as BFD's SESSION says; may be repeated. `BFD true` watches those that handlers or daemons name.
//! * `IPSEC` boolean, default false: packets are protected by IPsec as the policies of `ipsec` say, an IPsecDatabase. Packets of the kernel (HOST) and
//!   copies of multicast packets are protected, too. Not together with MPLS or VRF. `SA` an association and `POLICY` a policy of `ipsec`, as IPsecDatabase takes them; each may be repeated, and implies IPSEC.
//! * `FRAGMENT` `after`, the default, or `before`: when IPv4 packets are fragmented that a tunnel makes too long, as IPsecEncrypt says.
//! * `MPLS` boolean, default false: labelled packets are switched, too: by labels of a control plane (FEED), and by those that are written to the
//!   handlers of `mpls`, a LookupMPLS. Its output 2 i leads to the IPv4 neighbours of interface i, and 2 i + 1 to its IPv6 neighbours.
//! * `VRF NAME[:TABLE] DEVICE [DEVICE ...]` gives interfaces a routing table of their own; may be repeated. Packets that come by them are looked up there,
//!   and so are the router's answers to them. Interfaces of different VRFs may have the same addresses. The first VRF has table 1, the next
//!   table 2, and interfaces in none have table 0. `ROUTE PREFIX@NAME ...` is a route of the VRF. Without `@NAME`, it is one of the named
//!   DEVICE's VRF, or else of table 0. A next hop may be behind an interface of another VRF, if DEVICE names it: the packet leaves there.
//!   With HOST, twins belong to the kernel's VRF NAME, whose routing table in Linux is TABLE, default 1001 for the first, 1002 for the next.
//! * `FIREWALL FILE` lets only those connections pass that the rules of a file accept, by `fw`, a Firewall. Its links are the interfaces. With VRF, each VRF
//!   has connections of its own. Not together with MPLS or IPSEC.
//! * `NAT FILE`, `STATEMENT TEXT` and `OUTSIDE DEVICE` translate addresses, as NatGateway says.
//! * `METHOD` how to open the devices, as FromDevice has it.
//!
//! Inside, with 0 for the first interface, 1 for the second and so on: `rt` is the routing table (StaticIPLookup), whose output 0 is the router
//! itself and output 1 the first interface. `ip` is what it received. `in0`, `c0`, `arp0`, `out0` are the interface's device, classifier, ARPQuerier
//! and queue. `redirect0`, `options0`, `ttl0`, `mtu0` are the checks on the way out, each with its ICMP error. `whole` and `local` take packets for
//! the router itself: pings are answered, and senders of UDP, TCP and other protocols get an error that the port or protocol is unreachable. Frames
//! with a priority tag (VLAN 0) are treated as untagged ones; those of a VLAN are dropped as `foreign-vlan`. A neighbour that announces another
//! Ethernet address is believed, if it is known.
//!
//! ```click
//! IPRouter(eth0 10.0.0.1/24 ETHER 2:0:0:0:0:1, eth1 10.0.1.1/24 MTU 1400 ETHER 2:0:0:0:0:2,
//!     ROUTE 0.0.0.0/0 10.0.1.254);
//! ```
//!
//! See also: IP6Router, DualRouter, NatGateway, StaticIPLookup, ARPQuerier, IPFragmenter, ICMPError. RFC 1812

use lang::{Fault, Use};

use super::Compound;
use super::ipv4::MTU_MIN;
use super::reading::Grammar;

/// The compound.
pub const COMPOUND: Compound = Compound::new(GRAMMAR.class, write, file!());

const GRAMMAR: Grammar = Grammar {
    class: "IPRouter",
    four: true,
    six: false,
    mtu_min: MTU_MIN,
    interface: "an interface as `eth0 10.0.0.1/24`, with `MTU bytes` or `ETHER address` if need be",
    route: "a route as `ROUTE 0.0.0.0/0 10.0.0.254` or `ROUTE 0.0.0.0/0 10.0.0.254 eth0`",
    translates: false,
};

fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    GRAMMAR.write(request)
}
