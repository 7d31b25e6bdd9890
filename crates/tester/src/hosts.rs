// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts that the tester plays: whoever is asked for answers, be it by ARP (RFC 826) or by Neighbor Discovery (RFC 4861).

use std::net::IpAddr;

use packet::Packet;
use wire::{EtherType, MacAddr, Protocol, arp, ethernet, icmpv6, ipv6, ndp};

/// The Ethernet address of the host with an address that ends in these bytes.
fn mac(end: [u8; 4]) -> MacAddr {
    let [a, b, c, d] = end;
    MacAddr([2, 1, a, b, c, d])
}

/// The answer to a frame that asks for a neighbour, whichever it is.
pub fn answer(frame: &[u8]) -> Option<Packet> {
    match frame.get(12..14)? {
        [8, 6] => answer_arp(frame),
        [0x86, 0xdd] => advertise(frame),
        _ => None,
    }
}

/// Which address of its own the device tells by asking for a neighbour.
pub fn asker(frame: &[u8]) -> Option<IpAddr> {
    let network = frame.get(ethernet::HEADER_LEN..)?;
    match frame[12..14] {
        [8, 6] => {
            let view = arp::View::new_checked(network).ok()?;
            Some(arp::Repr::parse(&view).sender_ip.into())
        }
        [0x86, 0xdd] => {
            let ip = ipv6::View::new_checked(network).ok()?;
            let icmp = icmpv6::View::new_checked(ip.payload()).ok()?;
            let asks = matches!(ndp::Repr::parse(&icmp), Ok(ndp::Repr::NeighborSolicit { .. }));
            (ip.next_header() == Protocol::ICMPV6 && asks).then(|| ip.src().into())
        }
        _ => None,
    }
}

/// The reply to an ARP request. Who asks for its own address wants none.
fn answer_arp(frame: &[u8]) -> Option<Packet> {
    let view = arp::View::new_checked(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    let request = arp::Repr::parse(&view);
    if request.operation != arp::Operation::REQUEST || request.sender_ip == request.target_ip {
        return None;
    }
    Packet::copy_of(&request.reply(mac(request.target_ip.octets())).to_frame())
}

/// The answer to a neighbour solicitation (RFC 4861, 4.3 and 4.4).
fn advertise(frame: &[u8]) -> Option<Packet> {
    let ip = ipv6::View::new_checked(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    if ip.next_header() != Protocol::ICMPV6 || ip.src().is_unspecified() {
        return None;
    }
    let view = icmpv6::View::new_checked(ip.payload()).ok()?;
    let Ok(ndp::Repr::NeighborSolicit { target }) = ndp::Repr::parse(&view) else { return None };
    let here = mac(*target.octets().last_chunk()?);
    let advert = ndp::Repr::NeighborAdvert { target, flags: ndp::FLAG_SOLICITED | ndp::FLAG_OVERRIDE };
    let header_len = advert.header_len();
    let payload_len = header_len + 8;
    let mut bytes = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + payload_len];
    let asker = MacAddr(frame[6..12].try_into().ok()?);
    ethernet::Repr { dst: asker, src: here, ethertype: EtherType::IPV6 }.emit(&mut bytes).ok()?;
    let (src, dst) = (target, ip.src());
    let repr = ipv6::Repr {
        src,
        dst,
        next_header: Protocol::ICMPV6,
        payload_len: payload_len as u16,
        hop_limit: 255,
        ..ipv6::Repr::default()
    };
    repr.emit(&mut bytes[ethernet::HEADER_LEN..]).ok()?;
    let message = &mut bytes[ethernet::HEADER_LEN + ipv6::HEADER_LEN..];
    advert.emit(message).ok()?;
    message[header_len..].copy_from_slice(&ndp::NdpOption::link_addr_bytes(true, here));
    icmpv6::View::new_checked(message).ok()?.fill_checksum(src, dst);
    Packet::copy_of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_asked_for_answers() {
        let asker = MacAddr([2, 0, 0, 0, 0, 9]);
        let request = arp::Repr::request(asker, [10, 0, 0, 1].into(), [10, 0, 0, 7].into());
        let answered = answer(&request.to_frame()).expect("an answer");
        let view = arp::View::new_checked(&answered.data()[14..]).expect("ARP");
        let reply = arp::Repr::parse(&view);
        assert_eq!((reply.operation, reply.target_mac), (arp::Operation::REPLY, asker));
        assert_eq!((reply.sender_mac, reply.sender_ip), (MacAddr([2, 1, 10, 0, 0, 7]), [10, 0, 0, 7].into()));
        assert_eq!(&answered.data()[..12], &[2, 0, 0, 0, 0, 9, 2, 1, 10, 0, 0, 7]);
        assert_eq!(super::asker(&request.to_frame()), Some([10, 0, 0, 1].into()));
        // An announcement, a reply, and pieces of a request.
        let announcement = arp::Repr::request(asker, [10, 0, 0, 1].into(), [10, 0, 0, 1].into());
        assert!(answer(&announcement.to_frame()).is_none());
        assert!(answer(answered.data()).is_none());
        assert!((0..42).all(|len| answer(&request.to_frame()[..len]).is_none()));
    }

    #[test]
    fn solicitations_are_answered() {
        let target = "2001:db8::7".parse().expect("whole");
        let (src, dst) = ("2001:db8::1".parse().expect("whole"), "ff02::1:ff00:7".parse().expect("whole"));
        let mut request = vec![0; 14 + 40 + 24];
        request[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        request[12..14].copy_from_slice(&[0x86, 0xdd]);
        let repr =
            ipv6::Repr { src, dst, next_header: Protocol::ICMPV6, payload_len: 24, ..Default::default() };
        repr.emit(&mut request[14..]).expect("whole");
        ndp::Repr::NeighborSolicit { target }.emit(&mut request[54..]).expect("whole");
        let reply = answer(&request).expect("whole");
        assert_eq!(reply.data()[..14], [2, 0, 0, 0, 0, 9, 2, 1, 0, 0, 0, 7, 0x86, 0xdd]);
        assert_eq!(super::asker(&request), Some("2001:db8::1".parse().expect("an address")));
        assert!((0..request.len()).all(|len| super::asker(&request[..len]).is_none()));
        let ip = ipv6::View::new_checked(&reply.data()[14..]).expect("whole");
        let icmp = icmpv6::View::new_checked(ip.payload()).expect("whole");
        assert!(icmp.checksum_ok(ip.src(), ip.dst()) && ip.dst() == src && ip.hop_limit() == 255);
        assert!(icmp.to_string().contains("2001:db8::7"), "{icmp}");
        assert!(answer(reply.data()).is_none() && answer(&[]).is_none());
    }
}
