// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PushMPLS
//!
//! `PushMPLS(LABELS [, keywords GATEWAY, MODEL, TC, ENTROPY])`
//!
//! Puts MPLS labels onto IP packets: the beginning of a label switched path.
//!
//! **Ports:** 1 input, 1 output, agnostic. Packets begin with their IP header; they should have passed DecIPTTL or DecIP6HLIM.
//!
//! **Arguments**
//! * `LABELS` labels separated by `/`, the outermost first; label 3 (implicit null) pushes nothing.
//! * `GATEWAY` IPv4 or IPv6 address of the next router, for the destination annotation. Default: that of the route.
//! * `MODEL` of the TTL: `uniform` (default), the labels begin with the packet's; or `pipe`, they begin with 255.
//! * `TC` traffic class, 0 to 7, or `copy` (default), the first three bits of the DSCP.
//! * `ENTROPY` boolean, default false: an entropy label and its indicator follow the labels, so that routers on the way can share the traffic
//!   without looking at it (RFC 6790). The router at the end must know them; LookupMPLS does.
//!
//! **Metadata set:** EtherType annotation; destination annotation, with GATEWAY.
//!
//! **Drops:** `bad-version`, what is no IP packet; `no-memory`.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> DecIPTTL -> PushMPLS(100/17, GATEWAY 10.0.0.2)
//!   -> ARPQuerier(10.0.0.1, 2:0:0:0:0:1, ETHERTYPE_ANNO ETHERTYPE) -> Discard;
//! ```
//!
//! See also: LookupMPLS, CheckMPLSMTU. RFC 3031, RFC 3443, RFC 6790

use std::net::IpAddr;

use element::args::{Args, FromArg, Names, Raw};
use element::{Class, Cx, Element, Reason, Rehearsal};
use feed::Labels;
use packet::{Batch, Packet};
use wire::EtherType;
use wire::mpls::{self, FIRST_FREE};

use super::adjacency::read_labels;
use super::stack::{self, Class as TrafficClass, Model};

/// The descriptor.
pub const CLASS: Class = Class::new("PushMPLS", "1/1", || Box::new(PushMpls::default()))
    .pure()
    .rehearsal::<PushMpls>()
    .file(file!());

/// An address of either family.
#[derive(Clone, Copy)]
struct Gateway(IpAddr);

impl FromArg for Gateway {
    const EXPECTED: &'static str = "an IPv4 or IPv6 address";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let known = || names.ip4(text).map(IpAddr::V4);
        text.parse().ok().or_else(known).map(Gateway).ok_or_else(String::new)
    }
}

#[derive(Clone, Default)]
struct PushMpls {
    labels: Labels,
    gateway: Option<IpAddr>,
    model: Model,
    class: TrafficClass,
    has_entropy: bool,
}

impl PushMpls {
    fn encapsulate(&self, packet: &mut Packet) -> Result<(), Reason> {
        let kind = mpls::payload_type(packet.data()).ok_or(Reason::BadVersion)?;
        if self.labels.as_slice().is_empty() {
            stack::address(packet, self.gateway, kind);
            return Ok(());
        }
        // Labels below 16 are no entropy labels (RFC 6790, 4.2).
        let entropy =
            || super::lookup_mpls::ip_flow_hash(packet.data()) % (mpls::LABELS - FIRST_FREE) + FIRST_FREE;
        let entropy = self.has_entropy.then(entropy);
        stack::impose(packet, self.labels.as_slice(), self.model, self.class, entropy)?;
        stack::address(packet, self.gateway, EtherType::MPLS);
        Ok(())
    }
}

impl Element for PushMpls {
    fn configure(&mut self, args: &mut Args<'_>) {
        let Raw(labels) = args.required("LABELS");
        self.gateway = args.keyword_opt::<Gateway>("GATEWAY").map(|Gateway(address)| address);
        self.model = args.keyword("MODEL", Model::default());
        self.class = args.keyword("TC", TrafficClass::default());
        self.has_entropy = args.keyword("ENTROPY", false);
        match read_labels(labels.trim()) {
            Ok(labels) => self.labels = labels,
            Err(_) if labels.is_empty() => {}
            Err(why) => args.error(why),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(
            |packet| self.encapsulate(packet).is_ok(),
            |packet| {
                cx.drop(if stack::is_ip(&packet) { Reason::NoMemory } else { Reason::BadVersion }, packet)
            },
        );
        batch
    }
}

impl Rehearsal for PushMpls {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;
    use wire::mpls::View;

    use super::*;
    use crate::ip::samples::datagram;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        let mut packet = datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[], 8);
        packet.data_mut()[1] = 0xb8;
        vec![packet]
    }

    fn pushed(args: &str) -> Vec<String> {
        let run = Rig::new(&format!("PushMPLS({args})")).packets(packets()).run();
        let out = run.out("o0");
        assert_eq!(out[0].anno::<2>(anno::ETHERTYPE), EtherType::MPLS.0.to_be_bytes());
        let view = View::new_checked(out[0].data(), 9).expect("a stack");
        assert_eq!(view.payload(), packets()[0].data());
        view.entries().map(|entry| entry.to_string()).collect()
    }

    #[test]
    fn pushes_labels() {
        assert_eq!(pushed("100/17"), ["label 100, tc 5, ttl 64", "label 17, tc 5, [S], ttl 64"]);
        assert_eq!(pushed("17, MODEL pipe, TC 2"), ["label 17, tc 2, [S], ttl 255"]);
        let with_entropy = pushed("17, ENTROPY true");
        assert_eq!(with_entropy[..2], ["label 17, tc 5, ttl 64", "label 7, tc 5, ttl 64"]);
        assert!(with_entropy[2].ends_with("tc 0, [S], ttl 0"), "{with_entropy:?}");
    }

    #[test]
    fn implicit_null_pushes_nothing_and_a_gateway_is_noted() {
        let run = Rig::new("PushMPLS(3, GATEWAY fe80::9)").packets(packets()).run();
        let out = run.out("o0");
        assert_eq!(out[0].data(), packets()[0].data());
        assert_eq!(out[0].anno::<2>(anno::ETHERTYPE), EtherType::IPV4.0.to_be_bytes());
        let gateway: std::net::Ipv6Addr = "fe80::9".parse().unwrap();
        assert_eq!(out[0].anno::<16>(anno::DST_IP), gateway.octets());
    }

    #[test]
    fn what_is_no_ip_drops_and_arguments_are_checked() {
        let run = Rig::new("PushMPLS(16)").inputs(&[b"\x15", b"\x45 short", b""]).run();
        assert_eq!(run.drops("e"), [(Reason::BadVersion, 3)]);
        let errors = Rig::new("PushMPLS(16/x, TC 8)").errors();
        assert_eq!(
            errors,
            [
                "e: argument TC should be a traffic class from 0 to 7, or 'copy', not '8'",
                "e: 'x' is not a label (0 to 1048575)"
            ]
        );
    }
}
