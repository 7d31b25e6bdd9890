// SPDX-License-Identifier: MIT OR Apache-2.0
//! # NatGateway
//!
//! `NatGateway(DEVICE ADDR/LEN [MTU BYTES] [ETHER ADDRESS], ... [, keywords ROUTE, NAT, STATEMENT, OUTSIDE, and those of IPRouter])`
//!
//! A whole IPv4 router that translates addresses, in one line. Without more words, inside networks share the first address of the outside interface. It is
//! an IPRouter with a NAT44, which 'junctor check --flat' prints: the same that 'junctor init nat' writes.
//!
//! **Ports:** as IPRouter.
//!
//! **Arguments:** one for each interface, as IPRouter has them.
//!
//! **Keywords**
//! * `ROUTE` as IPRouter. The interfaces of `ROUTE 0.0.0.0/0` lead outside.
//! * `OUTSIDE DEVICE ...` the interfaces that lead outside, in place of those.
//! * `STATEMENT TEXT` a statement of NAT44, in quotes if it has commas; may be repeated. The first one takes the place of what is done without.
//! * `NAT FILE` a file of statements, in place of STATEMENT. It is read when the configuration is read, and again by the handler `nat44.load`.
//! * Others as IPRouter has them, but not IPSEC and MPLS.
//!
//! The translator is `nat44`. The router answers ARP for outside addresses on its links.
//!
//! ```click
//! NatGateway(eth0 192.0.2.1/24 ETHER 2:0:0:0:0:1, eth1 10.0.1.1/24 ETHER 2:0:0:0:0:2, ROUTE 0.0.0.0/0 192.0.2.254,
//!     STATEMENT translate 10.0.1.0/24 to 192.0.2.1, STATEMENT forward tcp https to 10.0.1.20);
//! ```
//!
//! See also: NAT44, IPRouter, DualRouter. RFC 4787, RFC 5382, RFC 5508

use lang::{Fault, Use};

use super::Compound;
use super::ipv4::MTU_MIN;
use super::reading::Grammar;

/// The compound.
pub const COMPOUND: Compound = Compound::new(GRAMMAR.class, write, file!());

const GRAMMAR: Grammar = Grammar {
    class: "NatGateway",
    four: true,
    six: false,
    mtu_min: MTU_MIN,
    interface: "an interface as `eth0 192.0.2.1/24`, with `MTU bytes` or `ETHER address` if need be",
    route: "a route as `ROUTE 0.0.0.0/0 192.0.2.254` or `ROUTE 0.0.0.0/0 192.0.2.254 eth0`",
    translates: true,
};

fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    GRAMMAR.write(request)
}
