// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD in IP packets: reading those that come, making those that leave.

use std::net::IpAddr;

use element::Reason;
use packet::{Packet, anno};
use wire::{Protocol, ipv4, ipv6, udp};

/// Room in front of packets that leave, for link headers.
const HEADROOM: usize = 128;
/// DSCP CS6: network control (RFC 4594).
const TOS: u8 = 0xc0;

/// A UDP datagram that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub port: u16,
    /// Where the payload begins, and its length in bytes.
    pub payload: (usize, usize),
}

/// Reads a packet whose data begins with an IP header.
pub(crate) fn read(packet: &[u8]) -> Result<Received, Reason> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => read4(packet),
        Some(6) => read6(packet),
        Some(_) => Err(Reason::BadVersion),
        None => Err(Reason::TooShort),
    }
}

fn read4(packet: &[u8]) -> Result<Received, Reason> {
    let ip = ipv4::View::new_checked(packet).map_err(|_| Reason::TooShort)?;
    if ip.protocol() != Protocol::UDP || ip.fragment() & 0x3fff != 0 {
        return Err(Reason::BadProtocol);
    }
    let datagram = udp::View::new_checked(ip.payload()).map_err(|_| Reason::TooShort)?;
    if !datagram.checksum_ok_v4(ip.src(), ip.dst()) {
        return Err(Reason::BadChecksum);
    }
    Ok(Received {
        src: ip.src().into(),
        dst: ip.dst().into(),
        ttl: ip.ttl(),
        port: datagram.dst_port(),
        payload: (ip.header_len() + udp::HEADER_LEN, datagram.payload().len()),
    })
}

/// Extension headers do not occur in front of BFD.
fn read6(packet: &[u8]) -> Result<Received, Reason> {
    let ip = ipv6::View::new_checked(packet).map_err(|_| Reason::TooShort)?;
    if ip.next_header() != Protocol::UDP {
        return Err(Reason::BadProtocol);
    }
    let datagram = udp::View::new_checked(ip.payload()).map_err(|_| Reason::TooShort)?;
    if !datagram.checksum_ok_v6(ip.src(), ip.dst()) {
        return Err(Reason::BadChecksum);
    }
    Ok(Received {
        src: ip.src().into(),
        dst: ip.dst().into(),
        ttl: ip.hop_limit(),
        port: datagram.dst_port(),
        payload: (ipv6::HEADER_LEN + udp::HEADER_LEN, datagram.payload().len()),
    })
}

/// Addresses and ports of a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ports: (u16, u16),
    pub ttl: u8,
}

/// Makes a packet that begins with its IP header. `gateway` is the next hop on the link.
pub(crate) fn make(path: Path, gateway: IpAddr, payload: &[u8]) -> Option<Packet> {
    let header = if path.src.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let mut packet = Packet::alloc(HEADROOM, header + udp::HEADER_LEN + payload.len())?;
    packet.set_network(0, header);
    let udp_len = u16::try_from(udp::HEADER_LEN + payload.len()).ok()?;
    let (ip, rest) = packet.data_mut().split_at_mut_checked(header)?;
    match (path.src, path.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::Repr {
            src,
            dst,
            protocol: Protocol::UDP,
            payload_len: udp_len,
            ttl: path.ttl,
            tos: TOS,
            fragment: ipv4::FLAG_DF,
            ..ipv4::Repr::default()
        }
        .emit(ip)
        .ok()?,
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Repr {
            src,
            dst,
            next_header: Protocol::UDP,
            payload_len: udp_len,
            hop_limit: path.ttl,
            traffic_class: TOS,
            ..ipv6::Repr::default()
        }
        .emit(ip)
        .ok()?,
        _ => return None,
    }
    let (src_port, dst_port) = path.ports;
    rest.get_mut(udp::HEADER_LEN..)?.copy_from_slice(payload);
    udp::Repr { src_port, dst_port, payload_len: udp_len - udp::HEADER_LEN as u16 }.emit(rest).ok()?;
    let mut datagram = udp::View::new_checked(rest).ok()?;
    match (path.src, path.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => datagram.fill_checksum_v4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => datagram.fill_checksum_v6(src, dst),
        _ => return None,
    }
    match gateway {
        IpAddr::V4(gateway) => packet.set_dst_ip(gateway.octets()),
        IpAddr::V6(gateway) => packet.set_anno(anno::DST_IP, gateway.octets()),
    }
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_read() {
        let check = |src: &str, dst: &str, header: usize| {
            let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
            let path = Path { src, dst, ports: (49152, 3784), ttl: 255 };
            let packet = make(path, dst, b"payload").expect("memory");
            let want = Received { src, dst, ttl: 255, port: 3784, payload: (header, 7) };
            assert_eq!(read(packet.data()), Ok(want));
            let mut wrong = packet.data().to_vec();
            *wrong.last_mut().unwrap() ^= 1;
            assert_eq!(read(&wrong), Err(Reason::BadChecksum));
            for len in 0..packet.len() {
                assert!(read(&packet.data()[..len]).is_err(), "{len} bytes");
            }
        };
        check("10.0.0.1", "10.0.0.2", 28);
        check("fe80::1", "fe80::2", 48);
        let other =
            Path { src: "10.0.0.1".parse().unwrap(), dst: "::1".parse().unwrap(), ports: (1, 2), ttl: 1 };
        assert!(make(other, other.dst, b"").is_none(), "one family");
    }
}
