// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of neighbour discovery in Ethernet frames: read with all of RFC 4861's checks, and written.

use std::net::Ipv6Addr;

use element::{Cx, Reason};
use packet::{HEADROOM, Packet};
use tables::neighbour::{Config, Discipline};
use wire::ndp::{FLAG_SOLICITED, NdpOption, OptionIter, Repr};
use wire::{EtherType, MacAddr, Protocol, ethernet, icmpv6, ipv6, ndp};

use crate::ethernet::neighbours::Table;

/// The hop limit of all discovery messages: nobody behind a router can send it.
const HOP_LIMIT: u8 = 255;
/// Every node on the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A sound message.
#[derive(Debug)]
pub(super) struct Heard<'a> {
    pub(super) eth_src: MacAddr,
    pub(super) src: Ipv6Addr,
    pub(super) message: Repr,
    /// The link-layer addresses of sender and target.
    pub(super) source_mac: Option<MacAddr>,
    pub(super) target_mac: Option<MacAddr>,
    /// The options.
    pub(super) options: &'a [u8],
}

/// Reads a discovery message in an Ethernet frame, with the checks of RFC 4861 sections 6.1, 7.1 and 8.1 and the one of
/// RFC 6980, that no fragment may carry one.
pub(super) fn read(frame: &[u8]) -> Result<Heard<'_>, Reason> {
    let bad = Reason::BadDiscovery;
    let ether = ethernet::View::new_checked(frame).map_err(|_| bad)?;
    let (eth_src, ethertype) = (ether.src(), ether.ethertype());
    let packet = frame.get(ethernet::HEADER_LEN..).ok_or(bad)?;
    let ip = ipv6::View::new_checked(packet).map_err(|_| bad)?;
    let upper = ip.upper_layer().map_err(|_| bad)?;
    if ethertype != EtherType::IPV6 || upper.protocol != Protocol::ICMPV6 || upper.fragment.is_some() {
        return Err(bad);
    }
    let (src, dst) = (ip.src(), ip.dst());
    let end = ipv6::HEADER_LEN + usize::from(ip.payload_len());
    let bytes = packet.get(ipv6::HEADER_LEN + upper.offset..end).ok_or(bad)?;
    let icmp = icmpv6::View::new_checked(bytes).map_err(|_| bad)?;
    let message = Repr::parse(&icmp).map_err(|_| bad)?;
    if ip.hop_limit() != HOP_LIMIT {
        return Err(Reason::BadHopLimit);
    }
    if !icmp.checksum_ok(src, dst) {
        return Err(Reason::BadChecksum);
    }
    let options = bytes.get(message.header_len()..).ok_or(bad)?;
    let (mut source_mac, mut target_mac) = (None, None);
    for option in OptionIter::new(options) {
        match option.map_err(|_| Reason::BadOption)? {
            NdpOption::SourceLinkAddr(mac) => source_mac = Some(mac),
            NdpOption::TargetLinkAddr(mac) => target_mac = Some(mac),
            _ => {}
        }
    }
    let heard = Heard { eth_src, src, message, source_mac, target_mac, options };
    if heard.is_sound(dst) { Ok(heard) } else { Err(bad) }
}

impl Heard<'_> {
    /// What the RFC demands of addresses.
    fn is_sound(&self, dst: Ipv6Addr) -> bool {
        let nobody = self.src.is_unspecified();
        let group = |mac: Option<MacAddr>| mac.is_some_and(MacAddr::is_group);
        let addresses = !self.src.is_multicast() && !group(self.source_mac) && !group(self.target_mac);
        addresses
            && match self.message {
                Repr::RouterSolicit => !nobody || self.source_mac.is_none(),
                Repr::RouterAdvert { .. } => self.src.is_unicast_link_local(),
                Repr::NeighborSolicit { target } => {
                    let asked_by_nobody = dst == ndp::solicited_node(target) && self.source_mac.is_none();
                    !target.is_multicast() && (!nobody || asked_by_nobody)
                }
                Repr::NeighborAdvert { target, flags } => {
                    let answers_all = dst.is_multicast() && flags & FLAG_SOLICITED != 0;
                    !(target.is_multicast() || nobody || answers_all)
                }
                Repr::Redirect { target, destination } => {
                    let on_link = target.is_unicast_link_local() || target == destination;
                    self.src.is_unicast_link_local() && on_link && !destination.is_multicast()
                }
            }
    }
}

/// A frame with a discovery message.
pub(super) fn frame(
    (from, src): (MacAddr, Ipv6Addr),
    (to, dst): (MacAddr, Ipv6Addr),
    message: Repr,
    options: &[u8],
) -> Option<Packet> {
    let len = message.header_len() + options.len();
    let mut packet = Packet::alloc(HEADROOM, ethernet::HEADER_LEN + ipv6::HEADER_LEN + len)?;
    packet.set_mac_offset(0);
    packet.set_network(ethernet::HEADER_LEN, ipv6::HEADER_LEN);
    let (ether, rest) = packet.data_mut().split_at_mut_checked(ethernet::HEADER_LEN)?;
    ether.copy_from_slice(&ethernet::Repr { dst: to, src: from, ethertype: EtherType::IPV6 }.to_bytes());
    let (ip, icmp) = rest.split_at_mut_checked(ipv6::HEADER_LEN)?;
    let header = ipv6::Repr {
        src,
        dst,
        next_header: Protocol::ICMPV6,
        payload_len: u16::try_from(len).ok()?,
        hop_limit: HOP_LIMIT,
        ..ipv6::Repr::default()
    };
    header.emit(ip).ok()?;
    message.emit(icmp).ok()?;
    icmp.get_mut(message.header_len()..)?.copy_from_slice(options);
    icmpv6::View::new_checked(icmp).ok()?.fill_checksum(src, dst);
    Some(packet)
}

/// Draws a table's reachable time for this run, between half and one and a half times of what was configured
/// (RFC 4861 section 6.3.2): neighbours that start together do not ask together.
pub(super) fn vary_reachable_time(cx: &mut Cx<'_>, table: &Table<u128>) {
    let mut table = table.neighbours.lock();
    let config = *table.config();
    if matches!(config.discipline, Discipline::Timed(_)) && config.poll_ns > 1 {
        let poll_ns = cx.random().u64(config.poll_ns / 2..=config.poll_ns.saturating_add(config.poll_ns / 2));
        table.set_config(Config { poll_ns, ..config });
    }
}

/// RFC 4861's times, and room for the neighbours of a large link: every neighbour that speaks gets an entry.
pub(super) fn default_config() -> Config {
    Config { entry_capacity: 65_536, ..Config::rfc4861() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wire::ndp::{FLAG_OVERRIDE, FLAG_ROUTER};

    pub(in super::super) const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    pub(in super::super) const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    pub(in super::super) fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// A message of the peer's.
    pub(in super::super) fn from_peer(src: &str, dst: &str, message: Repr, options: &[u8]) -> Vec<u8> {
        frame((PEER, ip(src)), (US, ip(dst)), message, options).unwrap().data().to_vec()
    }

    /// The answer of the peer's that it has `target`.
    pub(in super::super) fn advert(target: &str, flags: u8, mac: Option<MacAddr>) -> Vec<u8> {
        let options = mac.map(|mac| NdpOption::link_addr_bytes(true, mac));
        let message = Repr::NeighborAdvert { target: ip(target), flags };
        from_peer(target, "fe80::1", message, options.as_ref().map_or(&[], |o| &o[..]))
    }

    /// The frame with byte `at` set, and its checksum made right again if it is the message's.
    pub(in super::super) fn changed(frame: &[u8], at: usize, byte: u8) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[at] = byte;
        if at >= 54 {
            let ip = ipv6::View::new_checked(&frame[14..]).unwrap();
            let (src, dst) = (ip.src(), ip.dst());
            icmpv6::View::new_checked(&mut frame[54..]).unwrap().fill_checksum(src, dst);
        }
        frame
    }

    // conformance: RFC4861-6.1.1-a RFC4861-6.1.2-a RFC4861-7.1.1-a RFC4861-7.1.2-a RFC4861-8.1-a
    #[test]
    fn only_sound_messages_are_read() {
        let flags = FLAG_ROUTER | FLAG_SOLICITED | FLAG_OVERRIDE;
        let mac = NdpOption::link_addr_bytes(false, PEER);
        let group = NdpOption::link_addr_bytes(false, MacAddr([3, 0, 0, 0, 0, 1]));
        let solicit = |target: &str| Repr::NeighborSolicit { target: ip(target) };
        let na = advert("fe80::9", flags, Some(PEER));
        let ra =
            Repr::RouterAdvert { hop_limit: 0, flags: 0, lifetime_s: 0, reachable_ms: 0, retransmit_ms: 0 };
        let to = |target: &str| ndp::solicited_node(ip(target)).to_string();
        let ns =
            |src: &str, target: &str, options: &[u8]| from_peer(src, &to(target), solicit(target), options);
        let check = |frame: Vec<u8>, want: Option<Reason>| {
            assert_eq!(read(&frame).err(), want, "{frame:02x?}");
        };
        let bad = Some(Reason::BadDiscovery);
        check(na.clone(), None);
        check([&na[..], b"padding"].concat(), None);
        check(ns("fe80::9", "fe80::1", &mac), None);
        check(ns("::", "fe80::1", &[]), None);
        check(from_peer("fe80::9", "ff02::1", ra, &mac), None);
        check(from_peer("::", "ff02::2", Repr::RouterSolicit, &[]), None);
        check(changed(&na, 21, 254), Some(Reason::BadHopLimit));
        check(
            {
                let mut x = na.clone();
                x[70] ^= 1;
                x
            },
            Some(Reason::BadChecksum),
        );
        check(changed(&na, 79, 0), Some(Reason::BadOption));
        check(changed(&na, 79, 2), Some(Reason::BadOption));
        check(changed(&na, 55, 1), bad);
        check(changed(&na, 54, 128), bad);
        check(changed(&na, 20, 17), bad);
        check(changed(&na, 13, 0), bad);
        check(changed(&na, 62, 0xff), bad);
        check(ns("fe80::9", "ff02::1", &mac), bad);
        check(ns("::", "fe80::1", &mac), bad);
        check(from_peer("::", "fe80::1", solicit("fe80::1"), &[]), bad);
        check(ns("fe80::9", "fe80::1", &group), bad);
        check(ns("ff02::9", "fe80::1", &mac), bad);
        check(
            from_peer("fe80::9", "ff02::1", Repr::NeighborAdvert { target: ip("fe80::9"), flags }, &[]),
            bad,
        );
        check(from_peer("2001:db8::1", "ff02::1", ra, &mac), bad);
        check(from_peer("::", "ff02::2", Repr::RouterSolicit, &mac), bad);
        let redirect = |from: &str, target: &str, destination: &str| {
            let message = Repr::Redirect { target: ip(target), destination: ip(destination) };
            from_peer(from, "fe80::1", message, &[])
        };
        check(redirect("fe80::9", "fe80::8", "2001:db8::1"), None);
        check(redirect("fe80::9", "2001:db8::1", "2001:db8::1"), None);
        check(redirect("2001:db8::9", "fe80::8", "2001:db8::1"), bad);
        check(redirect("fe80::9", "2001:db8::8", "2001:db8::1"), bad);
        check(redirect("fe80::9", "fe80::8", "ff0e::1"), bad);
        (0..na.len()).for_each(|len| check(na[..len].to_vec(), bad));
    }

    #[test]
    fn the_group_of_an_address() {
        assert_eq!(ndp::solicited_node(ip("2001:db8::1:800e:8c6c")), ip("ff02::1:ff0e:8c6c"));
    }
}
