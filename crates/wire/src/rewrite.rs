// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another address and port for one side of a packet, with the checksums that cover them.
//!
//! Checksums are adjusted by what changes (RFC 1624), so a wrong one stays wrong and its receiver finds out. Headers may be cut off, as those are that an
//! ICMP error quotes: what is not there does not change.

use crate::{Protocol, checksum};

/// Two bytes at a place, in network order.
#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

/// Four bytes at a place, in network order.
#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Whether an ICMP message is a query with an identifier, or the answer to one.
#[inline]
pub fn icmp_query(protocol: Protocol, kind: u8) -> Option<bool> {
    match (protocol, kind) {
        (Protocol::ICMP, 8 | 13 | 15 | 17) | (Protocol::ICMPV6, 128) => Some(true),
        (Protocol::ICMP, 0 | 14 | 16 | 18) | (Protocol::ICMPV6, 129) => Some(false),
        _ => None,
    }
}

/// What has changed, in the arithmetic of checksums: to be subtracted from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change(u16);

impl Change {
    /// Notes that a word became another one.
    #[inline(always)]
    fn note(&mut self, old: u16, new: u16) {
        self.0 = checksum::add(self.0, checksum::add(!old, new));
    }

    /// Notes what changed elsewhere, too.
    #[inline(always)]
    fn join(&mut self, other: Change) {
        self.0 = checksum::add(self.0, other.0);
    }

    /// Adjusts the checksum at a place, if it is there; returns how that changes a sum over it. `has_no_zero`: zero says that there is no checksum
    /// (RFC 768).
    #[inline(always)]
    pub fn adjust(self, bytes: &mut [u8], at: usize, has_no_zero: bool) -> Change {
        let mut change = Change::default();
        if let Some(old) = u16_at(bytes, at) {
            let new = match !checksum::add(!old, self.0) {
                0 if has_no_zero => 0xffff,
                new => new,
            };
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            change.note(old, new);
        }
        change
    }
}

/// Writes bytes, an even number at an even place of the header; returns what that changes.
#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> Change {
    let mut change = Change::default();
    for (n, word) in value.chunks_exact(2).enumerate() {
        let at = at + 2 * n;
        if let Some(old) = u16_at(bytes, at) {
            bytes[at..at + 2].copy_from_slice(word);
            change.note(old, u16::from_be_bytes([word[0], word[1]]));
        }
    }
    change
}

/// Where the checksum of a transport header stands, and whether it covers the addresses.
#[inline(always)]
fn checksum_of(protocol: Protocol, six: bool) -> Option<(usize, bool)> {
    match protocol {
        Protocol::TCP => Some((16, true)),
        Protocol::UDP | Protocol::UDPLITE | Protocol::DCCP => Some((6, true)),
        Protocol::ICMP => Some((2, false)),
        Protocol::ICMPV6 if six => Some((2, true)),
        _ => None,
    }
}

/// Where the headers of a packet stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// That of IP.
    pub ip: usize,
    /// That of the transport.
    pub transport: usize,
    /// The transport's protocol.
    pub protocol: Protocol,
}

/// A side of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl Headers {
    /// Writes an IPv4 address for a side, and a port, if there is one, at its place in the transport header. Returns how a sum over all of it changes.
    #[inline(always)]
    pub fn rewrite4(self, bytes: &mut [u8], end: End, address: u32, port: Option<(usize, u16)>) -> Change {
        let place = self.ip + if end == End::Source { 12 } else { 16 };
        let of_address = put(bytes, place, address.to_be_bytes());
        let mut all = of_address;
        all.join(of_address.adjust(bytes, self.ip + 10, false));
        all.join(self.transport(bytes, of_address, port, false));
        all
    }

    /// The same for IPv6.
    #[inline(always)]
    pub fn rewrite6(self, bytes: &mut [u8], end: End, address: u128, port: Option<(usize, u16)>) -> Change {
        let place = self.ip + if end == End::Source { 8 } else { 24 };
        let mut all = put(bytes, place, address.to_be_bytes());
        all.join(self.transport(bytes, all, port, true));
        all
    }

    /// Writes a port, and adjusts the transport's checksum; returns what both change.
    #[inline(always)]
    fn transport(
        self,
        bytes: &mut [u8],
        of_address: Change,
        port: Option<(usize, u16)>,
        six: bool,
    ) -> Change {
        let mut all = Change::default();
        if let Some((place, port)) = port {
            all.join(put(bytes, self.transport + place, port.to_be_bytes()));
        }
        let Some((place, covers)) = checksum_of(self.protocol, six) else { return all };
        let mut covered = all;
        if covers {
            covered.join(of_address);
        }
        let place = self.transport + place;
        let has_none = self.protocol == Protocol::UDP && u16_at(bytes, place) == Some(0);
        if !has_none {
            // UDP-Lite has no checksum of zero either (RFC 3828).
            let is_datagram = matches!(self.protocol, Protocol::UDP | Protocol::UDPLITE);
            all.join(covered.adjust(bytes, place, is_datagram));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::compose;

    /// Against checksums that are computed anew: of a packet, and of an ICMP error that quotes it.
    #[test]
    fn checksums_stay_right() {
        let same = |line: &str, port: Option<u16>, end: End, address: &str, expected: &str| {
            let mut bytes = compose(line).unwrap().bytes;
            let protocol = Protocol(if bytes[0] >> 4 == 4 { bytes[9] } else { bytes[6] });
            let transport = if bytes[0] >> 4 == 4 { 20 } else { 40 };
            let headers = Headers { ip: 0, transport, protocol };
            let place = if end == End::Source { 0 } else { 2 };
            let port = port.map(|port| (place, port));
            match address.parse::<std::net::IpAddr>().unwrap() {
                std::net::IpAddr::V4(address) => headers.rewrite4(&mut bytes, end, address.into(), port),
                std::net::IpAddr::V6(address) => headers.rewrite6(&mut bytes, end, address.into(), port),
            };
            assert_eq!(bytes, compose(expected).unwrap().bytes, "{line}");
        };
        for (line, port, end, address, expected) in [
            (
                "ip 10.0.0.1 > 10.0.0.2 / tcp 9 > 80",
                Some(7),
                End::Source,
                "192.0.2.1",
                "ip 192.0.2.1 > 10.0.0.2 / tcp 7 > 80",
            ),
            (
                "ip 10.0.0.1 > 10.0.0.2 / udp 9 > 80",
                Some(7),
                End::Destination,
                "192.0.2.1",
                "ip 10.0.0.1 > 192.0.2.1 / udp 9 > 7",
            ),
            (
                "ip 10.0.0.1 > 10.0.0.2 / udp 9 > 80 checksum 0",
                None,
                End::Source,
                "192.0.2.1",
                "ip 192.0.2.1 > 10.0.0.2 / udp 9 > 80 checksum 0",
            ),
            (
                "ip 10.0.0.1 > 10.0.0.2 / icmp echo id 7",
                None,
                End::Source,
                "192.0.2.1",
                "ip 192.0.2.1 > 10.0.0.2 / icmp echo id 7",
            ),
            (
                "ip6 ::1 > ::2 / tcp 9 > 80",
                Some(7),
                End::Source,
                "2001:db8::9",
                "ip6 2001:db8::9 > ::2 / tcp 7 > 80",
            ),
            (
                "ip6 ::1 > ::2 / udp 9 > 80",
                None,
                End::Destination,
                "2001:db8::9",
                "ip6 ::1 > 2001:db8::9 / udp 9 > 80",
            ),
        ] {
            same(line, port, end, address, expected);
        }
        let error = |address: &str, port: u16| {
            let line = format!(
                "ip 1.2.3.4 > 10.0.0.1 / icmp type 3 code 1 / ip {address} > 10.0.0.2 / udp {port} > 80"
            );
            compose(&line).unwrap().bytes
        };
        let mut bytes = error("10.0.0.1", 9);
        let quoted = Headers { ip: 28, transport: 48, protocol: Protocol::UDP };
        let change = quoted.rewrite4(&mut bytes, End::Source, 0xc000_0201, Some((0, 7)));
        change.adjust(&mut bytes, 22, false);
        assert_eq!(bytes, error("192.0.2.1", 7));
        // Nothing is there.
        let mut short = error("10.0.0.1", 9)[..30].to_vec();
        let before = short.clone();
        quoted.rewrite4(&mut short, End::Destination, 0, Some((0, 7)));
        assert_eq!(short, before);
    }
}
