// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II frames (IEEE 802.3), without the frame check sequence.
//!
//! A type field of at least 1536 names the protocol; anything smaller is a length and an LLC header follows
//! ([`crate::llc`]). VLAN tags stand between the type and the payload ([`crate::vlan`]); [`network_layer`] skips them.

use std::fmt;

use crate::header::{range, range_mut};
use crate::{Error, MacAddr, vlan};

/// Byte offsets of the fields.
pub mod field {
    /// Destination address.
    pub const DST: usize = 0;
    /// Source address.
    pub const SRC: usize = 6;
    /// EtherType, or length below 1536.
    pub const ETHERTYPE: usize = 12;
}

/// The smallest frame on the wire, without the frame check sequence.
pub const MIN_FRAME_LEN: usize = 60;

/// The protocol that an Ethernet frame, a VLAN tag, GRE or SNAP says it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address resolution.
    pub const ARP: EtherType = EtherType(0x0806);
    /// Transparent Ethernet bridging: a whole frame inside GRE.
    pub const TEB: EtherType = EtherType(0x6558);
    /// IEEE 802.1Q customer tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// Flow control.
    pub const PAUSE: EtherType = EtherType(0x8808);
    /// MPLS unicast.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// IEEE 802.1ad service tag.
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// Link layer discovery.
    pub const LLDP: EtherType = EtherType(0x88cc);
    /// The smallest number that is a type and not a length.
    pub const MIN: u16 = 0x0600;

    /// Whether the number is the length of an IEEE 802.3 frame rather than a type.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < Self::MIN
    }

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ)
    }

    /// A short name, where this crate knows one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::IPV4 => "ip",
            Self::ARP => "arp",
            Self::TEB => "teb",
            Self::VLAN => "802.1q",
            Self::IPV6 => "ip6",
            Self::PAUSE => "pause",
            Self::MPLS => "mpls",
            Self::QINQ => "802.1ad",
            Self::LLDP => "lldp",
            _ => return None,
        })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

field_as_bytes! {
    EtherType, 2, |b| EtherType(u16::from_be_bytes(b)), |v| v.0.to_be_bytes();
}

header! {
    "Ethernet", 14;
    fields {
        /// Destination address.
        dst / set_dst: MacAddr = field::DST;
        /// Source address.
        src / set_src: MacAddr = field::SRC;
        /// EtherType, or a length where [`EtherType::is_length`].
        ethertype / set_ethertype: EtherType = field::ETHERTYPE;
    }
    derived {}
}

impl HeaderMut<'_> {
    /// Exchanges source and destination.
    #[inline]
    pub fn swap_addresses(&mut self) {
        let (src, dst) = (self.as_header().src(), self.as_header().dst());
        self.set_src(dst).set_dst(src);
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the header is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        Ok(View { buffer })
    }

    /// What follows the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// What follows the header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        range_mut(self.as_mut_slice(), HEADER_LEN, usize::MAX)
    }
}

/// Where a frame's network header starts, after up to two VLAN tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLayer {
    /// The innermost EtherType.
    pub ethertype: EtherType,
    /// Offset of the network header from the start of the frame in bytes.
    pub offset: usize,
    /// The outermost tag.
    pub outer: Option<vlan::Tag>,
    /// The tag within, of a doubly tagged frame.
    pub inner: Option<vlan::Tag>,
}

/// Finds the network header of a frame; `None` where the Ethernet header or an announced tag is cut off. A third tag counts
/// as the network protocol.
#[inline]
pub fn network_layer(frame: &[u8]) -> Option<NetworkLayer> {
    let ethertype = Header::from_chunk(frame.first_chunk()?).ethertype();
    let mut layer = NetworkLayer { ethertype, offset: HEADER_LEN, outer: None, inner: None };
    for depth in 0..2 {
        if !layer.ethertype.is_vlan() {
            break;
        }
        let header = vlan::Header::from_chunk(frame.get(layer.offset..)?.first_chunk()?);
        *(if depth == 0 { &mut layer.outer } else { &mut layer.inner }) = Some(header.tag());
        layer.ethertype = header.ethertype();
        layer.offset += vlan::HEADER_LEN;
    }
    Some(layer)
}

/// The meaning of an Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// EtherType or length.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr { dst: view.dst(), src: view.src(), ethertype: view.ethertype() }
    }

    /// The header's bytes, ready to be put in front of packets.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        HeaderMut::from_chunk(&mut bytes).set_dst(self.dst).set_src(self.src).set_ethertype(self.ethertype);
        bytes
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        *HeaderMut::from_slice(buffer)?.as_bytes_mut() = self.to_bytes();
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ethertype.is_length() {
            write!(f, "{} > {}, 802.3, length {}", self.src, self.dst, self.ethertype.0)
        } else {
            write!(f, "{} > {}, ethertype {}", self.src, self.dst, self.ethertype)
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line() {
        let check = |ethertype: u16, expected: &str| {
            let repr = Repr {
                dst: MacAddr::BROADCAST,
                src: MacAddr::new(2, 0, 0, 0, 0, 1),
                ethertype: EtherType(ethertype),
            };
            assert_eq!(repr.to_string(), expected);
        };
        check(0x800, "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ip");
        check(0x9000, "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype 0x9000");
        check(46, "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, 802.3, length 46");
    }

    #[test]
    fn tags_are_skipped() {
        let check = |types: &[[u8; 4]], last: u16, expected: Option<(u16, usize, [Option<u16>; 2])>| {
            let mut frame = vec![0; 12];
            for tag in types {
                frame.extend(tag);
            }
            frame.extend(last.to_be_bytes());
            let found = network_layer(&frame);
            let ids = |l: NetworkLayer| [l.outer, l.inner].map(|t| t.map(|t| t.id().get()));
            assert_eq!(found.map(|l| (l.ethertype.0, l.offset, ids(l))), expected, "{types:?}");
        };
        check(&[], 0x800, Some((0x800, 14, [None, None])));
        check(&[[0x81, 0, 0xe0, 5]], 0x800, Some((0x800, 18, [Some(5), None])));
        check(&[[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]], 0x86dd, Some((0x86dd, 22, [Some(7), Some(9)])));
        check(
            &[[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9], [0x81, 0, 0, 1]],
            0x800,
            Some((0x8100, 22, [Some(7), Some(9)])),
        );
        check(&[], 0x8100, None);
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(dst: [u8; 6], src: [u8; 6], ethertype: u16) {
            let repr = Repr { dst: MacAddr(dst), src: MacAddr(src), ethertype: EtherType(ethertype) };
            let mut bytes = [0; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(bytes).unwrap()), repr);
            HeaderMut::from_chunk(&mut bytes).swap_addresses();
            prop_assert_eq!(Header::from_chunk(&bytes).src(), MacAddr(dst));
            prop_assert!(repr.emit(&mut bytes[..13]).is_err());
        }
    }
}
