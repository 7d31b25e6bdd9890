// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts that the tester plays: each answers when it is asked for, by ARP (RFC 826) or by Neighbor Discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::Packet;
use wire::{EtherType, MacAddr, Protocol, arp, ethernet, icmpv6, ipv6, ndp};

/// The Ethernet address of the host with an address that ends in these bytes.
fn mac(end: [u8; 4]) -> MacAddr {
    let [a, b, c, d] = end;
    MacAddr([2, 1, a, b, c, d])
}

/// The Ethernet address of a host, as [`answer`] gives it.
pub fn mac_of(host: Ipv4Addr) -> MacAddr {
    mac(host.octets())
}

/// The Ethernet address of the host of this number behind a port of the tester's, counted from 0: (RR & 0xFC):PP:PP:RR:RR:RR, with the
/// port counted from 1 in PP:PP and without a pattern in RR (RFC 4814 4.2). The same seed makes the same; those of numbers below
/// 2^30 differ.
pub fn random_mac(seed: u64, port: usize, number: u32) -> MacAddr {
    const MASK: u32 = (1 << 30) - 1;
    // Each step can be undone, so that no two numbers end at the same place.
    let mix = |x: u32, key: u32| {
        let x = (x ^ key) & MASK;
        let x = (x ^ x >> 15).wrapping_mul(0x2c1b_3c6d) & MASK;
        let x = (x ^ x >> 12).wrapping_mul(0x297a_2d39) & MASK;
        x ^ x >> 15
    };
    let place = mix(mix(number, seed as u32), (seed >> 32) as u32 ^ (port as u32).wrapping_mul(0x9e37_79b9));
    let [high, a, b, c] = place.to_be_bytes();
    let [.., p, q] = (port as u32 + 1).to_be_bytes();
    // The six bits of the first byte stand above the two that say: one host, and of the world.
    MacAddr([high << 2, p, q, a, b, c])
}

/// The port of the tester's, counted from 0, behind which the host of such an address is.
pub fn port_of(mac: MacAddr) -> Option<usize> {
    usize::from(u16::from_be_bytes([mac.0[1], mac.0[2]])).checked_sub(1)
}

/// The answer to a frame that asks for a neighbour, whichever it is.
pub fn answer(frame: &[u8]) -> Option<Packet> {
    match frame.get(12..14)? {
        [8, 6] => answer_arp(frame),
        [0x86, 0xdd] => advertise(frame),
        _ => None,
    }
}

/// For which neighbour a frame asks that [`answer`] answers.
pub fn wanted(frame: &[u8]) -> Option<IpAddr> {
    let reply = answer(frame)?;
    told(reply.data()).map(|(who, _)| who)
}

/// The own address that the device reveals: by asking for a neighbour, or by an error about a packet that was sent to it. Where a router
/// asks from its link-local address (RFC 4861 7.2.2 leaves it that), only the error reveals it.
pub fn asker(frame: &[u8]) -> Option<IpAddr> {
    let network = frame.get(ethernet::HEADER_LEN..)?;
    if let Some(own) = complainer(&frame[12..14], network) {
        return Some(own);
    }
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

/// Who says that a packet to himself could not be taken: the sender of an ICMP error, if the packet that it quotes was going there.
fn complainer(ethertype: &[u8], network: &[u8]) -> Option<IpAddr> {
    match ethertype {
        [8, 0] => {
            let header = usize::from(network.first()? & 15) * 4;
            let icmp = network.get(header..)?;
            // Destination unreachable (RFC 792); the quoted packet is behind eight bytes.
            let is_error = network.get(9)? == &Protocol::ICMP.0 && icmp.first()? == &3;
            let quoted = icmp.get(8 + 16..8 + 20)?;
            let src: [u8; 4] = network.get(12..16)?.try_into().ok()?;
            (is_error && quoted == src).then(|| src.into())
        }
        [0x86, 0xdd] => {
            let icmp = network.get(ipv6::HEADER_LEN..)?;
            // Destination unreachable, or parameter problem (RFC 4443 3.1, 3.4).
            let is_error = network.get(6)? == &Protocol::ICMPV6.0 && matches!(icmp.first()?, 1 | 4);
            let quoted = icmp.get(8 + 24..8 + 40)?;
            let src: [u8; 16] = network.get(8..24)?.try_into().ok()?;
            (is_error && quoted == src).then(|| src.into())
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
    let asker = MacAddr(frame[6..12].try_into().ok()?);
    discovery(&advert, (here, target), (asker, ip.src()))
}

/// A message of Neighbor Discovery, with its sender's Ethernet address.
fn discovery(message: &ndp::Repr, from: (MacAddr, Ipv6Addr), to: (MacAddr, Ipv6Addr)) -> Option<Packet> {
    let ((here, src), (there, dst)) = (from, to);
    let header_len = message.header_len();
    let payload_len = header_len + 8;
    let mut bytes = vec![0; ethernet::HEADER_LEN + ipv6::HEADER_LEN + payload_len];
    ethernet::Repr { dst: there, src: here, ethertype: EtherType::IPV6 }.emit(&mut bytes).ok()?;
    let repr = ipv6::Repr {
        src,
        dst,
        next_header: Protocol::ICMPV6,
        payload_len: payload_len as u16,
        hop_limit: 255,
        ..ipv6::Repr::default()
    };
    repr.emit(&mut bytes[ethernet::HEADER_LEN..]).ok()?;
    let body = &mut bytes[ethernet::HEADER_LEN + ipv6::HEADER_LEN..];
    message.emit(body).ok()?;
    let advertises = matches!(message, ndp::Repr::NeighborAdvert { .. });
    body[header_len..].copy_from_slice(&ndp::NdpOption::link_addr_bytes(advertises, here));
    icmpv6::View::new_checked(body).ok()?.fill_checksum(src, dst);
    Packet::copy_of(&bytes)
}

/// A question for the Ethernet address of `target`, by the host `from`. None if their addresses are of two families.
pub fn ask(from: (MacAddr, IpAddr), target: IpAddr) -> Option<Packet> {
    match (from, target) {
        ((mac, IpAddr::V4(src)), IpAddr::V4(target)) => {
            Packet::copy_of(&arp::Repr::request(mac, src, target).to_frame())
        }
        ((mac, IpAddr::V6(src)), IpAddr::V6(target)) => {
            // The solicited-node group of the target (RFC 4291, 2.7.1), and its Ethernet address (RFC 2464, 7).
            let [.., a, b, c] = target.octets();
            let group =
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
            let to = (MacAddr([0x33, 0x33, 0xff, a, b, c]), group);
            discovery(&ndp::Repr::NeighborSolicit { target }, (mac, src), to)
        }
        _ => None,
    }
}

/// Who has which Ethernet address, by a frame that answers [`ask`].
pub fn told(frame: &[u8]) -> Option<(IpAddr, MacAddr)> {
    let network = frame.get(ethernet::HEADER_LEN..)?;
    match frame[12..14] {
        [8, 6] => {
            let reply = arp::Repr::parse(&arp::View::new_checked(network).ok()?);
            (reply.operation == arp::Operation::REPLY).then_some((reply.sender_ip.into(), reply.sender_mac))
        }
        [0x86, 0xdd] => {
            let ip = ipv6::View::new_checked(network).ok()?;
            let icmp = icmpv6::View::new_checked(ip.payload()).ok()?;
            let Ok(ndp::Repr::NeighborAdvert { target, .. }) = ndp::Repr::parse(&icmp) else { return None };
            let stated = ndp::OptionIter::of(&icmp).find_map(|option| match option {
                Ok(ndp::NdpOption::TargetLinkAddr(mac)) => Some(mac),
                _ => None,
            });
            // It may leave its address to the frame (RFC 4861, 4.4).
            let mac = stated.unwrap_or(MacAddr(frame[6..12].try_into().ok()?));
            (ip.next_header() == Protocol::ICMPV6).then_some((target.into(), mac))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_addresses_differ_and_have_no_pattern() {
        let count = 1 << 18;
        let macs: Vec<u64> = (0..count).map(|number| random_mac(7, 2, number).to_u64()).collect();
        let distinct: std::collections::HashSet<&u64> = macs.iter().collect();
        assert_eq!(distinct.len(), macs.len());
        // One host, of the world, at the third port.
        assert!(macs.iter().all(|mac| mac >> 40 & 3 == 0 && mac >> 24 & 0xffff == 3));
        // Every random bit is set in half of them, and so is the difference of each two in sequence.
        for bit in (0..24).chain(42..48) {
            for some in [macs.clone(), macs.windows(2).map(|two| two[0] ^ two[1]).collect()] {
                let set = some.iter().filter(|mac| *mac >> bit & 1 == 1).count() as f64;
                let share = set / some.len() as f64;
                assert!((0.49..0.51).contains(&share), "bit {bit}: {share}");
            }
        }
        // The bits by which a table of eight places is looked up, as in the document: all places are used alike.
        let mut places = [0_u32; 8];
        macs.iter().for_each(|mac| places[(mac & 7 ^ mac >> 3 & 7) as usize] += 1);
        assert!(places.iter().all(|n| n.abs_diff(count / 8) < count / 100), "{places:?}");
        assert_eq!(random_mac(7, 2, 5), random_mac(7, 2, 5));
        assert!(random_mac(8, 2, 5) != random_mac(7, 2, 5) && random_mac(7, 3, 5) != random_mac(7, 2, 5));
        assert_eq!((port_of(random_mac(7, 300, 5)), port_of(MacAddr([0; 6]))), (Some(300), None));
    }

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

    #[test]
    fn who_cannot_take_a_packet_is_who_it_was_for() {
        let error4 = |kind: u8, from: [u8; 4], to: [u8; 4]| {
            let mut frame = vec![0; 14 + 20 + 8 + 28];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[14 + 9] = Protocol::ICMP.0;
            frame[14 + 12..14 + 16].copy_from_slice(&from);
            (frame[34], frame[35]) = (kind, 3);
            frame[42 + 16..42 + 20].copy_from_slice(&to);
            frame
        };
        let own = [10, 0, 1, 1];
        assert_eq!(super::asker(&error4(3, own, own)), Some(own.into()));
        // From a router on the way, and no error.
        assert_eq!(super::asker(&error4(3, own, [10, 0, 1, 2])), None);
        assert_eq!(super::asker(&error4(0, own, own)), None);
        let error6 = |kind: u8, from: Ipv6Addr, to: Ipv6Addr| {
            let mut frame = vec![0; 14 + 40 + 8 + 48];
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[14 + 6] = Protocol::ICMPV6.0;
            frame[14 + 8..14 + 24].copy_from_slice(&from.octets());
            frame[54] = kind;
            frame[62 + 24..62 + 40].copy_from_slice(&to.octets());
            frame
        };
        let [own, other]: [Ipv6Addr; 2] =
            ["2001:db8:2::1", "2001:db8:2::2"].map(|text| text.parse().expect("an address"));
        for (kind, told) in [(1, Some(own.into())), (4, Some(own.into())), (2, None), (128, None)] {
            assert_eq!(super::asker(&error6(kind, own, own)), told, "{kind}");
            assert_eq!(super::asker(&error6(kind, other, own)), None, "{kind}");
        }
        let whole = error6(1, own, own);
        assert!((0..62 + 40).all(|len| super::asker(&whole[..len]).is_none()));
    }

    #[test]
    fn questions_of_ours_are_answered_by_others() {
        let me = MacAddr([2, 0, 0, 0, 0, 9]);
        for (mine, yours) in [("10.0.0.1", "10.0.0.7"), ("2001:db8::1", "2001:db8::7")] {
            let [mine, yours]: [IpAddr; 2] = [mine, yours].map(|text| text.parse().expect("an address"));
            let question = ask((me, mine), yours).expect("a question");
            assert_eq!((super::asker(question.data()), told(question.data())), (Some(mine), None));
            assert_eq!(super::wanted(question.data()), Some(yours));
            let reply = answer(question.data()).expect("an answer");
            assert_eq!(
                told(reply.data()),
                Some((yours, MacAddr(reply.data()[6..12].try_into().expect("six"))))
            );
            assert!((0..reply.len()).all(|len| told(&reply.data()[..len]).is_none()));
        }
        assert!(
            ask((me, "10.0.0.1".parse().expect("an address")), "::1".parse().expect("an address")).is_none()
        );
    }
}
