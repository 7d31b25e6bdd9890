// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 (RFC 8200): the fixed header, and a walk over extension headers that always ends.
//!
//! A chain of extension headers can be as long as the packet. [`Extensions`] gives up after [`MAX_EXTENSIONS`]: a router that
//! must find the ports of every packet cannot follow an adversary down the chain (RFC 8504 section 5.3 allows such limits).

use std::fmt;
use std::net::Ipv6Addr;

use crate::header::{load_at, range, range_mut};
use crate::{Error, Protocol};

/// Byte offsets of the fields.
pub mod field {
    /// Version (4 bits), traffic class (8), flow label (20).
    pub const VERSION_CLASS_FLOW: usize = 0;
    /// Length of what follows the fixed header.
    pub const PAYLOAD_LEN: usize = 4;
    /// Protocol of what follows.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Source address.
    pub const SRC: usize = 8;
    /// Destination address.
    pub const DST: usize = 24;
}

/// Extension headers that [`Extensions`] follows.
pub const MAX_EXTENSIONS: usize = 8;

header! {
    "IPv6", 40;
    fields {
        /// Version, traffic class and flow label in one word.
        version_class_flow / set_version_class_flow: u32 = field::VERSION_CLASS_FLOW;
        /// Length of what follows the fixed header in bytes, extension headers included.
        payload_len / set_payload_len: u16 = field::PAYLOAD_LEN;
        /// Protocol of what follows the fixed header.
        next_header / set_next_header: Protocol = field::NEXT_HEADER;
        /// Hop limit.
        hop_limit / set_hop_limit: u8 = field::HOP_LIMIT;
        /// Source address.
        src / set_src: Ipv6Addr = field::SRC;
        /// Destination address.
        dst / set_dst: Ipv6Addr = field::DST;
    }
    derived {
        /// Version; 6.
        version: u8 = |b| b[0] >> 4;
        /// Traffic class: DSCP and ECN.
        traffic_class: u8 = |b| (Header(b).version_class_flow() >> 20) as u8;
        /// Flow label, 20 bits.
        flow_label: u32 = |b| Header(b).version_class_flow() & 0xf_ffff;
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the packet is all there. Jumbograms (RFC 2675) are not understood: a payload length of zero means none.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a version other than 6.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let view = Self::new_header_checked(buffer)?;
        Error::check_len(PROTOCOL, HEADER_LEN + usize::from(view.payload_len()), view.as_slice().len())?;
        Ok(view)
    }

    /// Checks that the fixed header is there, but lets the payload be cut off.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a version other than 6.
    pub fn new_header_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        let view = View { buffer };
        Error::check_field(view.version() == 6, PROTOCOL, "version", view.version().into(), "6")?;
        Ok(view)
    }

    /// What follows the fixed header, without what the buffer holds beyond the payload length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, HEADER_LEN + usize::from(self.payload_len()))
    }

    /// The extension headers, one by one.
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions::new(self.next_header(), self.payload())
    }

    /// What stands behind the extension headers.
    ///
    /// # Errors
    /// As [`upper_layer`].
    pub fn upper_layer(&self) -> Result<UpperLayer, Error> {
        upper_layer(self.next_header(), self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// What follows the fixed header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = HEADER_LEN + usize::from(self.payload_len());
        range_mut(self.as_mut_slice(), HEADER_LEN, end)
    }
}

/// One extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which header this is.
    pub kind: Protocol,
    /// Protocol of what follows it.
    pub next_header: Protocol,
    /// Offset from the end of the fixed header in bytes.
    pub offset: usize,
    /// The whole extension header.
    pub data: &'a [u8],
}

impl Extension<'_> {
    /// What a fragment header says.
    pub fn fragment(&self) -> Option<Fragment> {
        if self.kind != Protocol::IPV6_FRAGMENT {
            return None;
        }
        self.data.first_chunk().map(Fragment::read)
    }
}

/// A part of a packet (RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in bytes.
    pub offset: usize,
    /// Whether fragments follow this one.
    pub more: bool,
    /// Identification.
    pub id: u32,
}

impl Fragment {
    /// Reads a fragment header.
    #[inline]
    pub fn read(header: &[u8; 8]) -> Fragment {
        let word: u16 = load_at(header, 2);
        Fragment { offset: usize::from(word & 0xfff8), more: word & 1 != 0, id: load_at(header, 4) }
    }
}

/// Whether a next-header value is an extension header that [`Extensions`] can step over.
#[inline]
pub const fn is_extension(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::IPV6_ROUTE
            | Protocol::IPV6_FRAGMENT
            | Protocol::AH
            | Protocol::IPV6_DESTINATION
            | Protocol::MOBILITY
            | Protocol::HIP
            | Protocol::SHIM6
    )
}

/// The extension headers of a packet; ends at the upper layer, at a fragment other than the first (what follows is not a
/// header there), or with an error.
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    payload: &'a [u8],
    next_header: Protocol,
    offset: usize,
    seen: usize,
    ended: bool,
}

impl<'a> Extensions<'a> {
    /// The headers in `payload`, what follows the fixed header, whose first is a `next_header`.
    pub fn new(next_header: Protocol, payload: &'a [u8]) -> Self {
        Extensions { payload, next_header, offset: 0, seen: 0, ended: false }
    }

    fn step(&mut self) -> Result<Extension<'a>, Error> {
        const NAME: &str = "IPv6 extension header";
        Error::check_field(self.seen < MAX_EXTENSIONS, NAME, "count", self.seen as u32 + 1, "at most 8")?;
        let rest = range(self.payload, self.offset, usize::MAX);
        let &[next_header, units] = rest.first_chunk().ok_or(Error::Truncated {
            protocol: NAME,
            needed: 2,
            available: rest.len(),
        })?;
        let kind = self.next_header;
        let len = match kind {
            Protocol::IPV6_FRAGMENT => 8,
            Protocol::AH => (usize::from(units) + 2) * 4, // RFC 4302 section 2.2
            _ => (usize::from(units) + 1) * 8,
        };
        let data =
            rest.get(..len).ok_or(Error::Truncated { protocol: NAME, needed: len, available: rest.len() })?;
        let extension = Extension { kind, next_header: Protocol(next_header), offset: self.offset, data };
        self.offset += len;
        self.next_header = extension.next_header;
        self.seen += 1;
        self.ended = extension.fragment().is_some_and(|fragment| fragment.offset != 0);
        Ok(extension)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || !is_extension(self.next_header) {
            return None;
        }
        let step = self.step();
        self.ended |= step.is_err();
        Some(step)
    }
}

/// What stands behind the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer {
    /// Its protocol; of a later fragment, the protocol that its fragment header names.
    pub protocol: Protocol,
    /// Its offset from the end of the fixed header in bytes.
    pub offset: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
}

/// Steps over the extension headers in `payload`, what follows the fixed header, whose first is a `next_header`.
///
/// # Errors
/// A header cut off, or more than [`MAX_EXTENSIONS`] of them.
#[inline]
pub fn upper_layer(next_header: Protocol, payload: &[u8]) -> Result<UpperLayer, Error> {
    let mut upper = UpperLayer { protocol: next_header, offset: 0, fragment: None };
    if !is_extension(next_header) {
        return Ok(upper);
    }
    for extension in Extensions::new(next_header, payload) {
        let extension = extension?;
        upper.protocol = extension.next_header;
        upper.offset = extension.offset + extension.data.len();
        upper.fragment = extension.fragment().or(upper.fragment);
    }
    Ok(upper)
}

/// The meaning of an IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol of what follows.
    pub next_header: Protocol,
    /// Length of what follows in bytes.
    pub payload_len: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; the low 20 bits count.
    pub flow_label: u32,
}

impl Default for Repr {
    /// A packet from and to nowhere, of no payload, hop limit 64.
    fn default() -> Self {
        Repr {
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
            next_header: Protocol::IPV6_NO_NEXT,
            payload_len: 0,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr {
            src: view.src(),
            dst: view.dst(),
            next_header: view.next_header(),
            payload_len: view.payload_len(),
            hop_limit: view.hop_limit(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
        }
    }

    /// Writes the header to the front of `buffer`; the payload need not be there.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header
            .set_version_class_flow(word)
            .set_payload_len(self.payload_len)
            .set_next_header(self.next_header);
        header.set_hop_limit(self.hop_limit).set_src(self.src).set_dst(self.dst);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip6 {} > {}, {}, hlim {}", self.src, self.dst, self.next_header, self.hop_limit)?;
        if self.traffic_class != 0 {
            write!(f, ", class {:#04x}", self.traffic_class)?;
        }
        if self.flow_label != 0 {
            write!(f, ", flow {:#07x}", self.flow_label)?;
        }
        write!(f, ", length {}", self.payload_len)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)?;
        match self.upper_layer() {
            Ok(UpperLayer { protocol, fragment: Some(Fragment { offset, more, id }), .. }) => {
                let more = if more { "+" } else { "" };
                write!(f, ", {protocol}, frag {id:#x}@{offset}{more}")
            }
            Ok(upper) if upper.protocol != self.next_header() => write!(f, ", {}", upper.protocol),
            Ok(_) => Ok(()),
            Err(_) => f.write_str(", malformed extension"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
        let payload_len = payload.len() as u16;
        let repr = Repr { src: Ipv6Addr::LOCALHOST, next_header, payload_len, ..Repr::default() };
        let mut bytes = vec![0; HEADER_LEN];
        repr.emit(&mut bytes).unwrap();
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn extensions_are_walked() {
        let check = |first: Protocol, payload: &[u8], expected: &str| {
            let shown = match View::new_checked(packet(first, payload)).unwrap().upper_layer() {
                Ok(upper) => {
                    format!("{}@{} {}", upper.protocol, upper.offset, upper.fragment.map_or(0, |f| f.offset))
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected, "{first} {payload:?}");
        };
        let hop_by_hop = |next: u8| [next, 0, 5, 2, 0, 0, 1, 0];
        let fragment = |next: u8, offset: u8| [next, 0, 0, offset, 0, 0, 0, 9];
        check(Protocol::UDP, &[0; 8], "udp@0 0");
        check(Protocol::HOP_BY_HOP, &[hop_by_hop(17), [0; 8]].concat(), "udp@8 0");
        check(Protocol::HOP_BY_HOP, &[hop_by_hop(44), fragment(6, 1)].concat(), "tcp@16 0");
        // Behind a later fragment's header there is data, even where its number is that of an extension.
        check(Protocol::IPV6_FRAGMENT, &[fragment(60, 8), [0xff; 8]].concat(), "ipv6-opts@8 8");
        check(Protocol::AH, &[[17, 4, 0, 0, 0, 0, 0, 0], [0; 8], [0; 8], [0; 8]].concat(), "udp@24 0");
        check(
            Protocol::HOP_BY_HOP,
            &[17, 1, 0, 0, 0, 0, 0, 0],
            "IPv6 extension header: truncated, 16 bytes needed but only 8 present",
        );
        check(
            Protocol::HOP_BY_HOP,
            &[17],
            "IPv6 extension header: truncated, 2 bytes needed but only 1 present",
        );
        check(
            Protocol::IPV6_DESTINATION,
            &hop_by_hop(60).repeat(8)[..],
            "IPv6 extension header: count is 9, expected at most 8",
        );
    }

    #[test]
    fn one_line() {
        let check = |first, payload: &[u8], expected: &str| {
            assert_eq!(View::new_checked(packet(first, payload)).unwrap().to_string(), expected);
        };
        check(Protocol::ICMPV6, &[0; 8], "ip6 ::1 > ::, icmp6, hlim 64, length 8");
        let fragment = [17, 0, 0, 9, 0, 0, 0, 9];
        check(
            Protocol::IPV6_FRAGMENT,
            &fragment,
            "ip6 ::1 > ::, ipv6-frag, hlim 64, length 8, udp, frag 0x9@8+",
        );
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(src: u128, dst: u128, next: u8, payload_len in 0u16..100, hop_limit: u8, traffic_class: u8, flow_label in 0u32..1 << 20) {
            let (src, dst, next_header) = (src.into(), dst.into(), Protocol(next));
            let repr = Repr { src, dst, next_header, payload_len, hop_limit, traffic_class, flow_label };
            let mut bytes = vec![0; HEADER_LEN + usize::from(payload_len)];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(bytes).unwrap()), repr);
        }

        #[test]
        fn walk_ends_on_any_bytes(first: u8, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Extensions::new(Protocol(first), &payload).count() <= MAX_EXTENSIONS + 1);
            if let Ok(upper) = upper_layer(Protocol(first), &payload) {
                prop_assert!(upper.offset <= payload.len());
            }
        }
    }
}
