// SPDX-License-Identifier: MIT OR Apache-2.0
//! # LookupIP6Multicast
//!
//! `LookupIP6Multicast([ENTRY, ... , keywords LOCAL, UNKNOWN, KERNEL, PERIOD, RATE, VRF_ANNO, CAPACITY])`
//!
//! Forwards IPv6 packets to multicast groups: sends a copy by each output that leads to receivers. Stands behind the routing table's output
//! for ff00::/8.
//!
//! Arguments, keywords, ports and handlers are those of LookupIPMulticast, with IPv6 addresses and the hop limit in place of the time to live. LOCAL
//! is for multicast listener discovery, of any group, and for packets of link-local scope. KERNEL gets packets with hop-by-hop options.
//!
//! **Ports:** push. 1 input, any number of outputs.
//!
//! **Metadata read:** network header position, paint, VRF_ANNO.
//!
//! **Drops:** as LookupIPMulticast; `bad-destination`, groups of interface-local or reserved scope; `bad-source`, packets from a link-local or the
//! unspecified address.
//!
//! **Handlers**
//! * `table`, `nentries`, `lookup` read; `set`, `remove` write: see LookupIPMulticast.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> Paint(1)
//!   -> m :: LookupIP6Multicast(2001:db8:1::2 ff1e::1 1 2, * ff1e::2 2 1/8);
//! m[0] -> Discard; m[1] -> Discard; m[2] -> Discard;
//! ```
//!
//! See also: LookupIPMulticast, RouteFeed, LookupIP6Route. RFC 7761 (4.2), RFC 4291 (2.7), RFC 4007, RFC 3810

use element::{Class, Reason, Sharing};
use packet::Packet;

use super::lookup::{Family, Header, Lookup};
use crate::ip6::{destination, header, header_mut, source};

/// The descriptor.
pub const CLASS: Class = Lookup::<V6>::with_capabilities(
    Class::new("LookupIP6Multicast", "1/-", || Box::new(Lookup::<V6>::default()))
        .processing("h/h")
        .sharing(Sharing::Shared)
        .handlers(Lookup::<V6>::HANDLERS)
        .file(file!()),
);

const HOP_BY_HOP: u8 = 0;
const ICMP6: u8 = 58;
/// Queries, reports and leaves of multicast listener discovery.
const MLD: [u8; 4] = [130, 131, 132, 143];
/// The largest scopes that do not leave an interface or a link.
const INTERFACE: u8 = 1;
const LINK: u8 = 2;

pub(super) struct V6;

impl V6 {
    /// Whether a message of multicast listener discovery follows the hop-by-hop options.
    fn is_mld(packet: &Packet) -> bool {
        let Some([next, units, ..]) = packet.network().and_then(|ip| ip.get(40..48)) else { return false };
        let at = 48 + usize::from(*units) * 8;
        let kind = packet.network().and_then(|ip| ip.get(at));
        *next == ICMP6 && kind.is_some_and(|kind| MLD.contains(kind))
    }
}

impl Family for V6 {
    const IS_SIX: bool = true;

    #[inline]
    fn read(packet: &Packet) -> Header {
        let Some(header) = header(packet) else { return Header::Bad(Reason::TooShort) };
        match header[25] & 15 {
            0..=INTERFACE => return Header::Bad(Reason::BadDestination),
            LINK => return Header::Local,
            _ => {}
        }
        if header[6] == HOP_BY_HOP && V6::is_mld(packet) {
            return Header::Local;
        }
        let from = source(header);
        if from.is_unicast_link_local() || from.is_unspecified() {
            return Header::Bad(Reason::BadSource);
        }
        if header[6] == HOP_BY_HOP {
            return Header::Options;
        }
        Header::Data { source: from.to_bits(), group: destination(header).to_bits(), ttl: header[7] }
    }

    #[inline]
    fn age(packet: &mut Packet) {
        header_mut(packet).into_iter().for_each(|header| header[7] -= 1);
    }
}

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::{Packet, anno};

    use crate::ip6::samples::packet;
    use crate::testing::Rig;

    fn painted(source: &str, group: &str, next: u8, hop_limit: u8, payload: &[u8]) -> Packet {
        let mut packet = packet(source, group, next, hop_limit, payload);
        packet.set_anno_u8(anno::PAINT, 1);
        packet
    }

    #[test]
    fn copies_leave_with_one_hop_less() {
        for burst in [1, 32] {
            let packets = [64, 9, 8].map(|limit| painted("2001:db8:1::2", "ff1e::1", 17, limit, &[7; 300]));
            let run = Rig::new("LookupIP6Multicast(2001:db8:1::2 ff1e::1 1 1 2 3/8)")
                .outputs(4)
                .burst(burst)
                .packets(packets.into())
                .run();
            let limits = |name: &str| run.bytes(name).iter().map(|p| p[7]).collect::<Vec<_>>();
            assert_eq!((limits("o2"), limits("o3")), (vec![63, 8, 7], vec![63, 8]));
        }
    }

    #[test]
    fn scopes_sources_and_messages() {
        let report = [58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 0];
        let options = [17, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let packets = vec![
            painted("fe80::1", "ff1e::1", 0, 1, &report),
            painted("2001:db8::1", "ff12::1", 17, 64, b"x"),
            painted("2001:db8::1", "ff1e::1", 0, 64, &options),
            painted("2001:db8::1", "ff11::1", 17, 64, b"x"),
            painted("fe80::1", "ff1e::1", 17, 64, b"x"),
            painted("2001:db8::9", "ff1e::1", 17, 64, b"x"),
        ];
        let run = Rig::new("LookupIP6Multicast(2001:db8::1 ff1e::1 1 1, LOCAL 0, UNKNOWN 1, KERNEL 2)")
            .outputs(3)
            .packets(packets)
            .run();
        assert_eq!(["o0", "o1", "o2"].map(|name| run.out(name).len()), [2, 1, 1]);
        assert_eq!(run.drops("e"), [(Reason::BadSource, 1), (Reason::BadDestination, 1)]);
    }
}
