// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DualRouter
//!
//! `DualRouter(DEVICE ADDR/LEN [ADDR/LEN ...] [MTU BYTES] [ETHER ADDRESS] [ADVERTISE BOOL] [PREFIX ADDR/LEN], ... [, keywords
//! as for IPRouter and IP6Router])`
//!
//! A router for both families in one line: an IPRouter and an IP6Router on the same interfaces. It is a compound of
//! ordinary elements, which 'junctor check --flat' prints: the same that 'junctor init router' writes.
//!
//! **Ports:** none needed. With output 0 connected, packets for the router itself that are not pings leave there, IP
//! header first, rather than be answered by an error; packets of either family that come in at input 0 are routed.
//!
//! **Arguments:** one for each interface, with its addresses of both families, or of one. What may stand behind them and the
//! keywords are those of IPRouter and IP6Router; a `ROUTE` has prefix and next hop of the same family.
//!
//! Device, classifier, queue and, with HOST, the kernel's twin of an interface serve both families; everything else has the
//! names that IPRouter and IP6Router give it.
//!
//! ```click
//! DualRouter(eth0 10.0.0.1/24 2001:db8:1::1/64 ETHER 2:0:0:0:0:1, eth1 10.0.1.1/24 2001:db8:2::1/64 ETHER 2:0:0:0:0:2,
//!     ROUTE 0.0.0.0/0 10.0.1.254, ROUTE ::/0 fe80::9 eth1);
//! ```
//!
//! See also: IPRouter, IP6Router

use lang::{Fault, Use};

use super::Compound;
use super::ipv4::MTU_MIN;
use super::reading::Grammar;

/// The compound.
pub const COMPOUND: Compound = Compound::new(GRAMMAR.class, write, file!());

const GRAMMAR: Grammar = Grammar {
    class: "DualRouter",
    four: true,
    six: true,
    mtu_min: MTU_MIN,
    interface: "an interface as `eth0 10.0.0.1/24 2001:db8::1/64`, with `MTU bytes` or `ETHER address` if need be",
    route: "a route as `ROUTE 0.0.0.0/0 10.0.0.254` or `ROUTE ::/0 fe80::9 eth0`",
    translates: false,
};

fn write(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    GRAMMAR.write(request)
}
