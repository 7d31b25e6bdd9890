// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a peer is, and the headers that lead there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::{Protocol, checksum, ipv4, ipv6, udp};

/// Time to live of outer headers, Linux' usual one.
const TTL: u8 = 64;
/// The bits of ECN.
const ECN: u8 = 3;
/// Capable of ECN, codepoint ECT(0).
const ECT0: u8 = 2;
/// Congestion experienced.
const CE: u8 = 3;

/// Where a peer is, and by which of this side's addresses it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// This side's address to which the peer has sent; `None` before it has.
    pub local: Option<IpAddr>,
}

/// This side's port and addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// The UDP port.
    pub port: u16,
    /// The IPv4 address.
    pub four: Option<Ipv4Addr>,
    /// The IPv6 address.
    pub six: Option<Ipv6Addr>,
}

impl Local {
    /// The address by which an endpoint is reached; `None` if there is none of its family.
    #[inline]
    pub fn towards(&self, endpoint: &Endpoint) -> Option<IpAddr> {
        endpoint.local.or(match endpoint.remote {
            SocketAddr::V4(_) => self.four.map(IpAddr::V4),
            SocketAddr::V6(_) => self.six.map(IpAddr::V6),
        })
    }
}

/// The outer headers of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    from: SocketAddr,
    to: SocketAddr,
    class: u8,
    id: u16,
}

impl Outer {
    /// Headers from this side to an endpoint, with a traffic class and an identification; `None` without an address of its family.
    #[inline]
    pub fn new(local: &Local, endpoint: &Endpoint, class: u8, id: u16) -> Option<Outer> {
        let from = SocketAddr::new(local.towards(endpoint)?, local.port);
        Some(Outer { from, to: endpoint.remote, class, id })
    }

    /// Bytes of these headers.
    #[inline]
    pub fn size(&self) -> usize {
        header_len(&self.to)
    }

    /// Bytes of the IP header.
    #[inline]
    pub fn ip_len(&self) -> usize {
        header_len(&self.to) - udp::HEADER_LEN
    }

    /// Where they lead.
    pub fn to(&self) -> IpAddr {
        self.to.ip()
    }

    /// Writes them at the beginning of a packet that is complete but for them.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => self.write4(packet, from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) => self.write6(packet, from, to),
            _ => {}
        }
    }

    fn write_udp(&self, datagram: &mut [u8]) {
        let len = (datagram.len() as u16).to_be_bytes();
        let Some(header) = datagram.first_chunk_mut::<{ udp::HEADER_LEN }>() else { return };
        header[..2].copy_from_slice(&self.from.port().to_be_bytes());
        header[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        header[4..6].copy_from_slice(&len);
        // None is needed over IPv4: the message has a stronger check.
        header[6..].fill(0);
    }

    fn write4(&self, packet: &mut [u8], from: Ipv4Addr, to: Ipv4Addr) {
        let len = packet.len() as u16;
        let Some((header, datagram)) = packet.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
        header.fill(0);
        let mut ip = ipv4::HeaderMut::from_chunk(header);
        ip.set_version_ihl(0x45).set_tos(self.class).set_total_len(len).set_id(self.id);
        ip.set_ttl(TTL).set_protocol(Protocol::UDP).set_src(from).set_dst(to);
        let sum = checksum::header20_checksum(header);
        ipv4::HeaderMut::from_chunk(header).set_checksum(sum);
        self.write_udp(datagram);
    }

    fn write6(&self, packet: &mut [u8], from: Ipv6Addr, to: Ipv6Addr) {
        let Some((header, datagram)) = packet.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return };
        header.fill(0);
        let mut ip = ipv6::HeaderMut::from_chunk(header);
        ip.set_version_class_flow(6 << 28 | u32::from(self.class) << 20)
            .set_payload_len(datagram.len() as u16);
        ip.set_next_header(Protocol::UDP).set_hop_limit(TTL).set_src(from).set_dst(to);
        self.write_udp(datagram);
        let sum = checksum::never_zero(checksum::transport_v6(from, to, Protocol::UDP, datagram));
        datagram[udp::field::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Bytes of the outer headers of a datagram to an address.
#[inline]
pub fn header_len(to: &SocketAddr) -> usize {
    match to {
        SocketAddr::V4(_) => ipv4::HEADER_LEN + udp::HEADER_LEN,
        SocketAddr::V6(_) => ipv6::HEADER_LEN + udp::HEADER_LEN,
    }
}

/// The outer traffic class, as Linux' WireGuard has it: no DSCP, and ECN without the mark of congestion.
#[inline]
pub fn outer_class(inner: u8) -> u8 {
    if inner & ECN == CE { ECT0 } else { inner & ECN }
}

/// The inner traffic class behind an outer one: congestion is passed on to those who understand it.
#[inline]
pub fn inner_class(inner: u8, outer: u8) -> u8 {
    if inner & ECN != 0 && outer & ECN == CE { inner | CE } else { inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_valid() {
        let local = Local {
            port: 51820,
            four: Some([192, 0, 2, 1].into()),
            six: Some("2001:db8::1".parse().unwrap()),
        };
        for to in ["192.0.2.2:7", "[2001:db8::2]:7"] {
            let endpoint = Endpoint { remote: to.parse().unwrap(), local: None };
            let outer = Outer::new(&local, &endpoint, 2, 77).unwrap();
            let mut packet = vec![0xaa; outer.size() + 33];
            outer.write(&mut packet);
            let udp_len = match packet[0] >> 4 {
                4 => {
                    let view = ipv4::View::new_checked(&packet).unwrap();
                    assert!(view.checksum_ok());
                    udp::View::new_checked(view.payload()).unwrap().length()
                }
                _ => {
                    let view = ipv6::View::new_checked(&packet).unwrap();
                    let ip = ipv6::Header::from_chunk(packet.first_chunk().unwrap());
                    assert!(
                        udp::View::new_checked(view.payload()).unwrap().checksum_ok_v6(ip.src(), ip.dst())
                    );
                    udp::View::new_checked(view.payload()).unwrap().length()
                }
            };
            assert_eq!(udp_len, 41);
            assert_eq!(outer.ip_len() + 8, outer.size());
        }
        let six = Endpoint { remote: "[2001:db8::2]:7".parse().unwrap(), local: None };
        assert!(Outer::new(&Local { six: None, ..local }, &six, 0, 0).is_none());
    }

    #[test]
    fn congestion_goes_through() {
        assert_eq!([0xb8, 0xb9, 0xba, 0xbb].map(outer_class), [0, 1, 2, 2]);
        assert_eq!([0, 1, 2, 3].map(|inner| inner_class(0xb8 | inner, 3)), [0xb8, 0xbb, 0xbb, 0xbb]);
        assert_eq!([0, 1, 2, 3].map(|inner| inner_class(inner, 0xb9)), [0, 1, 2, 3]);
    }
}
