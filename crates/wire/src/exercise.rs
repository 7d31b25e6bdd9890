// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as every protocol, through every accessor: the body of the fuzz target and of a property test.

use std::fmt::Display;
use std::hint::black_box;

use crate::{
    FlowKey, FlowKey6, arp, bfd, checksum, dump, ethernet, gre, icmpv4, icmpv6, igmp, ipv4, ipv6, llc,
    membership, mpls, ndp, stp, tcp, udp, vlan,
};

/// Checks that nothing panics and that what depends on lengths stays inside `data`.
///
/// # Panics
/// Where the crate has a fault.
pub fn exercise(data: &[u8]) {
    links(data);
    networks(data);
    transports(data);
    control(data);
    show(dump::IpSummary {
        packet_len: 1,
        id: true,
        ttl: true,
        tos: true,
        length: true,
        ..dump::IpSummary::new(data)
    });
    black_box((dump::frame_summary(data), dump::ip6_summary(data), checksum::sum(data)));
    show(dump::hex_lines(dump::ip_payload(data)));
    show(dump::ascii(data));
}

fn show(value: impl Display) {
    black_box(value.to_string());
}

/// Displays a view and its meaning, and emits the meaning to a buffer as long as the packet.
macro_rules! show_and_emit {
    ($view:expr, $repr:expr) => {{
        let (view, repr) = (&$view, $repr);
        show(view);
        let mut emitted = vec![0; view.as_slice().len()];
        if repr.emit(&mut emitted).is_ok() {
            show(repr);
        }
    }};
}

fn links(data: &[u8]) {
    if let Ok(view) = ethernet::View::new_checked(data) {
        show_and_emit!(view, ethernet::Repr::parse(&view));
        black_box(view.payload());
        if let Some(layer) = ethernet::network_layer(data) {
            assert!(layer.offset <= data.len());
        }
    }
    if let Ok(view) = vlan::View::new_checked(data) {
        show_and_emit!(view, vlan::Repr::parse(&view));
        black_box(view.payload());
    }
    if let Ok(view) = mpls::View::new_checked(data, 8) {
        show(view);
        assert!(view.stack_len() + view.payload().len() == data.len());
        black_box(view.flow_hash());
    }
    if let Ok(view) = llc::View::new_checked(data) {
        show(view);
        black_box((view.payload(), llc::Repr::parse(&view).is_ok()));
    }
    if let Ok(view) = stp::View::new_checked(data) {
        show(view);
        if let Ok(bpdu) = stp::Bpdu::parse(&view) {
            show_and_emit!(view, bpdu);
        }
    }
    if let Ok(payload) = stp::payload_of_frame(data) {
        assert!(payload.len() <= data.len());
    }
    if let Ok(view) = arp::View::new_checked(data) {
        show_and_emit!(view, arp::Repr::parse(&view));
    }
}

fn networks(data: &[u8]) {
    if let Ok(view) = ipv4::View::new_header_checked(data) {
        show_and_emit!(view, ipv4::Repr::parse(&view));
        assert!(view.payload().len() <= data.len());
        assert!(view.options().count() <= view.option_bytes().len());
        black_box((view.checksum_ok(), view.fragment_offset(), view.dscp(), view.ecn()));
    }
    if let Ok(view) = ipv4::View::new_checked(data) {
        assert_eq!(view.payload().len(), usize::from(view.total_len()) - view.header_len());
    }
    if let Ok(mut view) = ipv4::View::new_checked(data.to_vec()) {
        view.fill_checksum();
        assert!(view.checksum_ok());
    }
    if let Ok(view) = ipv6::View::new_header_checked(data) {
        show_and_emit!(view, ipv6::Repr::parse(&view));
        if let Ok(upper) = view.upper_layer() {
            assert!(upper.offset <= view.payload().len());
        }
    }
    for key in [FlowKey::from_ipv4(data), FlowKey::for_steering(data)].into_iter().flatten() {
        assert_eq!(key.symmetric_hash(0), key.reversed().symmetric_hash(0));
        show(key);
    }
    for key in [FlowKey6::from_ipv6(data), FlowKey6::for_steering(data)].into_iter().flatten() {
        assert_eq!(key.symmetric_hash(0), key.reversed().symmetric_hash(0));
        show(key);
    }
}

fn transports(data: &[u8]) {
    if let Ok(view) = udp::View::new_checked(data) {
        show_and_emit!(view, udp::Repr::parse(&view));
        assert_eq!(view.payload().len(), usize::from(view.length()) - udp::HEADER_LEN);
    }
    if let Ok(view) = tcp::View::new_checked(data) {
        show_and_emit!(view, tcp::Repr::parse(&view));
        assert_eq!(view.payload().len(), data.len() - view.header_len());
        black_box((view.mss(), view.sequence_len(), view.options().count()));
        if let Ok(mut copy) = tcp::View::new_checked(data.to_vec()) {
            let src = [10, 0, 0, 1].into();
            copy.fill_checksum_v4(src, src);
            copy.clamp_mss(1000);
            assert!(copy.checksum_ok_v4(src, src));
        }
    }
    if let Ok(view) = gre::View::new_checked(data) {
        show_and_emit!(view, gre::Repr::parse(&view));
        black_box((view.payload(), view.checksum_ok(), view.key(), view.sequence()));
    }
}

fn control(data: &[u8]) {
    for message in [
        membership::of_ipv4(data).ok().flatten().map(|(_, message)| message),
        membership::of_ipv6(data).ok().flatten().map(|(_, message)| message),
    ] {
        if let Some(membership::Message::Report(records)) = message {
            assert!(records.count() <= data.len());
        }
    }
    if let Ok(view) = icmpv4::View::new_checked(data) {
        show_and_emit!(view, icmpv4::Repr::parse(&view));
        if let Ok(quoted) = view.quoted() {
            show(quoted);
        }
        black_box(view.checksum_ok());
    }
    if let Ok(view) = icmpv6::View::new_checked(data) {
        show_and_emit!(view, icmpv6::Repr::parse(&view));
        if let Ok(quoted) = view.quoted() {
            show(quoted);
        }
        assert!(ndp::OptionIter::of(&view).count() <= data.len() / 8 + 1);
        if let Ok(discovery) = ndp::Repr::parse(&view) {
            show_and_emit!(view, discovery);
        }
    }
    if let Ok(view) = bfd::View::new_checked(data) {
        show_and_emit!(view, bfd::Repr::parse(&view));
    }
    if let Ok(view) = igmp::View::new_checked(data) {
        show_and_emit!(view, igmp::Repr::parse(&view));
        black_box((view.payload(), view.checksum_ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..128)) {
            exercise(&data);
        }

        /// Bytes that look like packets get further than bytes that do not.
        #[test]
        fn nearly_packets(
            mut data in proptest::collection::vec(any::<u8>(), 60..128),
            ihl in 5u8..=15,
            first in prop::sample::select(vec![0x40u8, 0x60, 0x80]),
            protocol in prop::sample::select(vec![0u8, 1, 6, 17, 44, 47, 58, 60]),
            cut in 0usize..128,
        ) {
            data[0] = first | ihl;
            let len = data.len() as u16;
            data[2..4].copy_from_slice(&len.to_be_bytes());
            data[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            data[6..8].copy_from_slice(&[protocol, 0]);
            data[9] = protocol;
            data[12] = 0x50;
            exercise(&data[..cut.min(data.len())]);
        }
    }
}
