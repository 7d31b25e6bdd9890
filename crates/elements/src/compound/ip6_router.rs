// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Router
//!
//! `IP6Router(DEVICE ADDR/LEN [MTU BYTES] [ETHER ADDRESS] [ADVERTISE BOOL] [PREFIX ADDR/LEN], ... [, keywords ROUTE, MTU,
//! QUEUE, METHOD, HOST, NETNS, FEED, BFD, IPSEC, SA, POLICY, FRAGMENT, MPLS, VRF, FIREWALL, ADVERTISE, LIFETIME, MAX_INTERVAL, MIN_INTERVAL, HOP_LIMIT, MANAGED, OTHER, PREFERENCE,
//! REACHABLE_TIME])`
//!
//! A whole IPv6 router in one line, with any number of interfaces. It is a compound of ordinary elements, which
//! 'junctor check --flat' prints: the same that 'junctor init router' writes. Their handlers are those of ROUTER/rt6,
//! ROUTER/nd0 and so on, ROUTER being the name that you give it.
//!
//! **Ports:** none needed. With output 0 connected, packets for the router itself that are not pings leave there, IPv6
//! header first, rather than be answered by an ICMPv6 error; IPv6 packets that come in at input 0 are routed.
//!
//! **Arguments:** one for each interface:
//! * `DEVICE` the interface, as FromDevice has it. `ADDR/LEN` the router's address on it, and the network's prefix
//!   length; several of them may follow each other, and the first is the one that speaks. A link-local address may be among
//!   them; by default it is made of the Ethernet address, and `fe80::1` where that is not known.
//! * `MTU` bytes of the longest IPv6 packet on it, 1280 or more, by default as the interface has it at the moment, or 1500 where there is no
//!   such interface. `ETHER` Ethernet address, by default what AddressInfo or the interface itself says.
//! * `ADVERTISE` whether to send router advertisements there. `PREFIX` a prefix that they name, may be repeated; by default
//!   those of the addresses.
//!
//! **Keywords**
//! * `ROUTE PREFIX NEXTHOP [DEVICE] [| NEXTHOP [DEVICE] ...]` a route, or several that share the traffic; may be repeated for other prefixes. DEVICE
//!   may be left out where NEXTHOP is on one of the interfaces' networks, and not where it is link-local. `::/0` is the default route; without one,
//!   senders get an error that there is no route.
//! * `MTU` for interfaces without their own. `QUEUE` packets that may wait for each interface, default 1024.
//! * `HOST` boolean, default false: this host's kernel answers what the fast path cannot. Each interface gets a twin, a tap `host0`, `host1`... with
//!   its Ethernet address, MTU and IPv6 addresses. What is for the router itself, neighbour solicitations, and every exception (hop limit expired,
//!   options, too big, no neighbour, no route), goes to the twin of the interface by which it came, limited by a Punt for each reason. What the
//!   kernel sends there leaves by the interface. The kernel needs `net.ipv6.conf.all.forwarding=1` and the routes that go by next hops.
//! * `NETNS` the network namespace for the twins; implies HOST.
//! * `FEED CHANNEL` the channel by which a control plane ('junctor control') sends routes, see RouteFeed; implies HOST.
//! * `BFD SESSION` watches a neighbour, as BFD's SESSION says; may be repeated. `BFD true` watches those that handlers or daemons name.
//! * `IPSEC` boolean, default false: packets are protected by IPsec as the policies of `ipsec` say, an IPsecDatabase. Packets of the kernel (HOST) and
//!   copies of multicast packets are protected, too. Not together with MPLS or VRF. `SA` an association and `POLICY` a policy of `ipsec`, as IPsecDatabase takes them; each may be repeated, and implies IPSEC.
//! * `FRAGMENT` `after`, the default, or `before`: when IPv4 packets are fragmented that a tunnel makes too long, as IPsecEncrypt says.
//! * `MPLS` boolean, default false: labelled packets are switched, too: by labels of a control plane (FEED), and by those that are written to the
//!   handlers of `mpls`, a LookupMPLS. Its output 2 i leads to the IPv4 neighbours of interface i, and 2 i + 1 to its IPv6 neighbours.
//! * `ADVERTISE` boolean: whether interfaces that do not say otherwise send router advertisements; default true without HOST.
//!   `LIFETIME` and those that follow are handed to IP6NDRouterAdvertiser.
//! * `VRF NAME[:TABLE] DEVICE [DEVICE ...]` gives interfaces a routing table of their own; may be repeated. Packets that come by them are looked up there,
//!   and so are the router's answers to them. Interfaces of different VRFs may have the same addresses. The first VRF has table 1, the next
//!   table 2, and interfaces in none have table 0. `ROUTE PREFIX@NAME ...` is a route of the VRF. Without `@NAME`, it is one of the named
//!   DEVICE's VRF, or else of table 0. A next hop may be behind an interface of another VRF, if DEVICE names it: the packet leaves there.
//!   With HOST, twins belong to the kernel's VRF NAME, whose routing table in Linux is TABLE, default 1001 for the first, 1002 for the next.
//! * `FIREWALL FILE` lets only those connections pass that the rules of a file accept, by `fw`, a Firewall. Its links are the interfaces. With VRF, each VRF
//!   has connections of its own. Not together with MPLS or IPSEC.
//! * `METHOD` how to open the devices, as FromDevice has it.
//!
//! Inside, with 0 for the first interface, 1 for the second and so on: `rt6` is the routing table (LookupIP6Route), whose output 0 is the router
//! itself and output 1 the first interface. `ip6` is what it received. `in0`, `c0`, `nd0`, `ra0`, `out0` are the interface's device, classifier,
//! IP6NDSolicitor, IP6NDRouterAdvertiser and queue. `scope0`, `onlink0`, `hlim0`, `big0` are the checks on the way out, each with its ICMPv6 error.
//! `made6` is what the router sends itself. The sender of UDP and TCP for the router gets an error that the port is unreachable. The first address of
//! each network, which all its routers share, is answered for, from an address of the router's own. Frames with a priority tag (VLAN 0) are treated
//! as untagged ones; those of a VLAN are dropped as `foreign-vlan`.
//!
//! ```click
//! IP6Router(eth0 2001:db8:1::1/64 ETHER 2:0:0:0:0:1, eth1 2001:db8:2::1/64 MTU 1280 ETHER 2:0:0:0:0:2,
//!     ROUTE ::/0 fe80::9 eth1, ROUTE 2001:db8:7::/48 2001:db8:1::9);
//! ```
//!
//! See also: IPRouter, DualRouter, LookupIP6Route, IP6NDSolicitor, IP6NDRouterAdvertiser, ICMP6Error. RFC 8200, RFC 4443,
//! RFC 4861, RFC 8201

use lang::{Fault, Use};

use super::Compound;
use super::ipv6::MTU_MIN;
use super::reading::Grammar;

/// The compound.
pub const COMPOUND: Compound = Compound::new(GRAMMAR.class, write, file!());

const GRAMMAR: Grammar = Grammar {
    class: "IP6Router",
    four: false,
    six: true,
    mtu_min: MTU_MIN,
    interface: "an interface as `eth0 2001:db8::1/64`, with `MTU bytes` or `ETHER address` if need be",
    route: "a route as `ROUTE ::/0 2001:db8::9` or `ROUTE ::/0 fe80::9 eth0`",
    translates: false,
};

fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    GRAMMAR.write(request)
}
