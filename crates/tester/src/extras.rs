// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that a device has to deal with in addition to those of the test (RFC 2544 11): broadcast, routing updates; for questions of management see
//! [`crate::management`].

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use wire::{EtherType, MacAddr, Protocol, ethernet, ipv4, udp};

use crate::frame::Flow;
use crate::hosts;

/// Between two routing updates of RIP (RFC 2453 3.8).
pub const ROUTING: Duration = Duration::from_secs(30);
/// Routes in an update: as many as a message has at most (RFC 2453 4).
const ROUTES: usize = 25;
/// The metric of what cannot be reached (RFC 2453 3.6): the router that said otherwise before takes its route back.
const UNREACHABLE: u8 = 16;
/// To all routers that speak RIP (RFC 2453 4.5).
const RIP_GROUP: (Ipv4Addr, MacAddr) = (Ipv4Addr::new(224, 0, 0, 9), MacAddr([1, 0, 0x5e, 0, 0, 9]));

/// A frame to all, of a type for experiments, which no router forwards.
pub fn broadcast(src: MacAddr) -> Vec<u8> {
    let mut frame = vec![0; 60];
    let repr = ethernet::Repr { dst: MacAddr([0xff; 6]), src, ethertype: EtherType(0x88b5) };
    // Sixty bytes have room for a header.
    let _ = repr.emit(&mut frame);
    frame
}

/// Two RIP updates from where this flow comes, which alternate: the first has routes to networks that no test uses, the second takes
/// them back (RFC 2544 11.3). None if that is not IPv4.
pub fn routes(flow: &Flow) -> Option<[Vec<u8>; 2]> {
    let unused: Vec<_> = (0..ROUTES as u8).map(|network| (Ipv4Addr::new(172, 31, network, 0), 24)).collect();
    Some([update(flow, &unused, 1)?, update(flow, &unused, UNREACHABLE)?])
}

/// RIP updates of a host that is the next hop to these networks (address and bits of the prefix): as many messages as it takes
/// (RFC 2544 13).
pub fn announcement(host: Ipv4Addr, networks: &[(Ipv4Addr, u8)]) -> Vec<Vec<u8>> {
    let (group, mac) = RIP_GROUP;
    let (src, src_mac) = (host.into(), hosts::mac_of(host));
    let flow = Flow { src_mac, dst_mac: mac, src, dst: group.into(), src_port: 520, dst_port: 520 };
    networks.chunks(ROUTES).filter_map(|some| update(&flow, some, 1)).collect()
}

fn update(flow: &Flow, networks: &[(Ipv4Addr, u8)], metric: u8) -> Option<Vec<u8>> {
    let mut message = vec![2, 2, 0, 0];
    for (network, length) in networks {
        let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
        message.extend([0, 2, 0, 0]);
        message.extend(network.octets());
        message.extend(mask.to_be_bytes());
        // Who sends it is the next hop.
        message.extend([0, 0, 0, 0, 0, 0, 0, metric]);
    }
    let (group, mac) = RIP_GROUP;
    datagram(flow, (mac, group), (520, 520), &message)
}

/// A datagram from where this flow comes. None if that is not IPv4.
pub(crate) fn datagram(
    flow: &Flow,
    (dst_mac, dst): (MacAddr, Ipv4Addr),
    ports: (u16, u16),
    payload: &[u8],
) -> Option<Vec<u8>> {
    let IpAddr::V4(src) = flow.src else { return None };
    let len = ethernet::HEADER_LEN + 20 + udp::HEADER_LEN + payload.len();
    let mut frame = vec![0; len.max(60)];
    ethernet::Repr { dst: dst_mac, src: flow.src_mac, ethertype: EtherType::IPV4 }.emit(&mut frame).ok()?;
    let segment_len = udp::HEADER_LEN + payload.len();
    let repr = ipv4::Repr {
        src,
        dst,
        protocol: Protocol::UDP,
        payload_len: segment_len as u16,
        ttl: if dst.is_multicast() { 1 } else { 64 },
        ..ipv4::Repr::default()
    };
    let network = &mut frame[ethernet::HEADER_LEN..len];
    repr.emit(network).ok()?;
    let segment = &mut network[20..];
    let (src_port, dst_port) = ports;
    udp::Repr { src_port, dst_port, payload_len: payload.len() as u16 }.emit(segment).ok()?;
    segment[udp::HEADER_LEN..].copy_from_slice(payload);
    segment[6..8].fill(0);
    let sum = wire::checksum::transport_v4(src, dst, Protocol::UDP, segment);
    segment[6..8].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            src: [10, 0, 0, 2].into(),
            dst: [10, 0, 1, 2].into(),
            src_port: 4000,
            dst_port: 7,
        }
    }

    fn payload(frame: &[u8]) -> (ipv4::View<&[u8]>, Vec<u8>) {
        let ip = ipv4::View::new_checked(&frame[14..]).expect("IPv4");
        let segment = ip.payload().to_vec();
        assert!(wire::checksum::transport_v4_ok(ip.src(), ip.dst(), Protocol::UDP, &segment));
        (ip, segment)
    }

    #[test]
    fn datagrams_are_whole() {
        for (update, metric) in routes(&flow()).expect("IPv4").iter().zip([1, 16]) {
            let (ip, segment) = payload(update);
            assert_eq!((ip.dst(), update[..6].to_vec()), ([224, 0, 0, 9].into(), vec![1, 0, 0x5e, 0, 0, 9]));
            assert_eq!((segment.len(), segment.last()), (8 + 4 + 25 * 20, Some(&metric)));
        }
        let six = Flow { src: "::1".parse().expect("an address"), ..flow() };
        assert!(routes(&six).is_none());
        let all = broadcast(flow().src_mac);
        assert_eq!((all.len(), &all[..6], &all[12..14]), (60, &[0xff; 6][..], &[0x88, 0xb5][..]));
    }
}
