// SPDX-License-Identifier: MIT OR Apache-2.0
//! FPM streams as zebra sends them, made of routes: for benchmarks and tests.

use std::net::Ipv4Addr;

use feed::Destination;

use crate::netlink::{AF_INET, AF_INET6, AF_MPLS, kind};

/// The protocol that zebra gives routes of BGP (`/etc/iproute2/rt_protos`).
const BGP: u8 = 186;
/// Types of routes: none, as in withdrawals, and unicast.
const UNSPECIFIED: u8 = 0;
const UNICAST: u8 = 1;

/// Writes a message's body.
pub type Write<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Appends frames to a stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The stream so far.
    pub bytes: Vec<u8>,
}

impl Stream {
    /// A next-hop object that is a gateway behind an interface.
    pub fn object(&mut self, id: u32, gateway: Ipv4Addr, index: u32) {
        self.frame(&[(kind::NEW_NEXT_HOP, &|body| {
            body.extend([AF_INET, 0, 11, 0, 0, 0, 0, 0]);
            attribute(body, 1, &id.to_ne_bytes());
            attribute(body, 6, &gateway.octets());
            attribute(body, 5, &index.to_ne_bytes());
        })]);
    }

    /// A route that names a next-hop object. If it `replaces` one, its withdrawal stands before it in the same frame.
    pub fn route(&mut self, prefix: Destination, id: u32, replaces: bool) {
        let old: Write<'_> = &|body| route(body, prefix, UNSPECIFIED);
        let new: Write<'_> = &|body| {
            route(body, prefix, UNICAST);
            attribute(body, 30, &id.to_ne_bytes());
        };
        let both = [(kind::DEL_ROUTE, old), (kind::NEW_ROUTE, new)];
        self.frame(&both[usize::from(!replaces)..]);
    }

    /// A route by a gateway behind an interface, as zebra sends it without `fpm use-next-hop-groups`.
    pub fn route_by_hop(&mut self, prefix: Destination, gateway: Ipv4Addr, index: u32) {
        self.frame(&[(kind::NEW_ROUTE, &|body| {
            route(body, prefix, UNICAST);
            attribute(body, 5, &gateway.octets());
            attribute(body, 4, &index.to_ne_bytes());
        })]);
    }

    /// The withdrawal of a route.
    pub fn withdraw(&mut self, prefix: Destination) {
        self.frame(&[(kind::DEL_ROUTE, &|body| route(body, prefix, UNSPECIFIED))]);
    }

    /// A frame of messages, whose bodies these functions write.
    pub fn frame(&mut self, messages: &[(u16, Write<'_>)]) {
        let start = self.bytes.len();
        self.bytes.extend([1, 1, 0, 0]);
        for (kind, write) in messages {
            let at = self.bytes.len();
            self.bytes.extend([0; 16]);
            write(&mut self.bytes);
            let len = (self.bytes.len() - at) as u32;
            self.bytes[at..at + 4].copy_from_slice(&len.to_ne_bytes());
            self.bytes[at + 4..at + 6].copy_from_slice(&kind.to_ne_bytes());
            self.bytes[at + 6..at + 8].copy_from_slice(&0x501u16.to_ne_bytes());
        }
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
    }
}

fn route(body: &mut Vec<u8>, prefix: Destination, kind: u8) {
    match prefix {
        Destination::V4(prefix) => {
            body.extend([AF_INET, prefix.len(), 0, 0, 254, BGP, 0, kind, 0, 0, 0, 0]);
            attribute(body, 1, &prefix.addr().octets());
        }
        Destination::V6(prefix) => {
            body.extend([AF_INET6, prefix.len(), 0, 0, 254, BGP, 0, kind, 0, 0, 0, 0]);
            attribute(body, 1, &prefix.addr().octets());
        }
        Destination::Label(label) => {
            body.extend([AF_MPLS, 20, 0, 0, 254, BGP, 0, kind, 0, 0, 0, 0]);
            attribute(body, 1, &wire::mpls::Entry::new(label, 0, true, 0).to_bytes());
        }
    }
    attribute(body, 6, &20u32.to_ne_bytes());
}

/// Appends an attribute.
pub fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.extend(&[0; 3][..value.len().next_multiple_of(4) - value.len()]);
}
