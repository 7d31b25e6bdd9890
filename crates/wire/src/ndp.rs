// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour discovery (RFC 4861): the five messages inside ICMPv6, and their options.
//!
//! There is no view of its own: a discovery message is an [`icmpv6::View`], whose first eight bytes are the same for all.
//! A sound message also comes with hop limit 255 (RFC 4861 section 7.1), which only the IPv6 header can tell.

use std::fmt;
use std::net::Ipv6Addr;

use crate::header::{Field, load_at, range, store_at};
use crate::icmpv6::{self, Type};
use crate::{AddrPrefix6, Error, MacAddr};

const PROTOCOL: &str = "NDP";

/// The group that the owner of `addr` listens to (RFC 4291 section 2.7.1).
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = addr.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// Byte offsets of the fields, from the start of the ICMPv6 header.
pub mod field {
    /// Hop limit that hosts should use, of a router advertisement.
    pub const HOP_LIMIT: usize = 4;
    /// Flags of advertisements.
    pub const FLAGS: usize = 4;
    /// Flags of a router advertisement.
    pub const ROUTER_FLAGS: usize = 5;
    /// Lifetime of a router advertisement in seconds.
    pub const LIFETIME: usize = 6;
    /// Reachable time of a router advertisement in milliseconds.
    pub const REACHABLE: usize = 8;
    /// Retransmission timer of a router advertisement in milliseconds.
    pub const RETRANSMIT: usize = 12;
    /// Target address of solicitation, advertisement and redirect.
    pub const TARGET: usize = 8;
    /// Destination address of a redirect.
    pub const DESTINATION: usize = 24;
}

/// Flag of a neighbour advertisement: the sender is a router.
pub const FLAG_ROUTER: u8 = 0x80;
/// Flag of a neighbour advertisement: it answers a solicitation.
pub const FLAG_SOLICITED: u8 = 0x40;
/// Flag of a neighbour advertisement: it replaces what caches hold.
pub const FLAG_OVERRIDE: u8 = 0x20;

/// Length of the fixed part of a message in bytes, the eight of ICMPv6 included; `None` for types outside discovery.
pub const fn fixed_len(kind: Type) -> Option<usize> {
    Some(match kind {
        Type::ROUTER_SOLICIT => 8,
        Type::ROUTER_ADVERT => 16,
        Type::NEIGHBOR_SOLICIT | Type::NEIGHBOR_ADVERT => 24,
        Type::REDIRECT => 40,
        _ => return None,
    })
}

/// The meaning of a message without its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repr {
    /// Is there a router?
    RouterSolicit,
    /// Here is one.
    RouterAdvert {
        /// Hop limit that hosts should use; zero for none said.
        hop_limit: u8,
        /// Flags: managed 0x80, other 0x40, preference 0x18.
        flags: u8,
        /// How long the router serves as default, in seconds.
        lifetime_s: u16,
        /// How long a neighbour counts as reachable, in milliseconds.
        reachable_ms: u32,
        /// Time between solicitations, in milliseconds.
        retransmit_ms: u32,
    },
    /// Who has this address?
    NeighborSolicit {
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// This station has it.
    NeighborAdvert {
        /// The address.
        target: Ipv6Addr,
        /// [`FLAG_ROUTER`], [`FLAG_SOLICITED`], [`FLAG_OVERRIDE`].
        flags: u8,
    },
    /// There is a better first hop.
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// For this destination.
        destination: Ipv6Addr,
    },
}

impl Repr {
    /// Reads an ICMPv6 view.
    ///
    /// # Errors
    /// [`Error::Field`] where it is no discovery message or its code is not zero; [`Error::Truncated`].
    pub fn parse<T: AsRef<[u8]>>(view: &icmpv6::View<T>) -> Result<Self, Error> {
        let (kind, bytes) = (view.kind(), view.as_slice());
        let len = fixed_len(kind).ok_or(Error::Field {
            protocol: PROTOCOL,
            field: "type",
            value: kind.0.into(),
            expected: "133 to 137",
        })?;
        Error::check_len(PROTOCOL, len, bytes.len())?;
        Error::check_field(view.code() == 0, PROTOCOL, "code", view.code().into(), "0")?;
        let target = load_at(bytes, field::TARGET);
        Ok(match kind {
            Type::ROUTER_ADVERT => Repr::RouterAdvert {
                hop_limit: load_at(bytes, field::HOP_LIMIT),
                flags: load_at(bytes, field::ROUTER_FLAGS),
                lifetime_s: load_at(bytes, field::LIFETIME),
                reachable_ms: load_at(bytes, field::REACHABLE),
                retransmit_ms: load_at(bytes, field::RETRANSMIT),
            },
            Type::NEIGHBOR_SOLICIT => Repr::NeighborSolicit { target },
            Type::NEIGHBOR_ADVERT => Repr::NeighborAdvert { target, flags: load_at(bytes, field::FLAGS) },
            Type::REDIRECT => Repr::Redirect { target, destination: load_at(bytes, field::DESTINATION) },
            _ => Repr::RouterSolicit,
        })
    }

    /// The ICMPv6 type.
    pub fn kind(&self) -> Type {
        match self {
            Repr::RouterSolicit => Type::ROUTER_SOLICIT,
            Repr::RouterAdvert { .. } => Type::ROUTER_ADVERT,
            Repr::NeighborSolicit { .. } => Type::NEIGHBOR_SOLICIT,
            Repr::NeighborAdvert { .. } => Type::NEIGHBOR_ADVERT,
            Repr::Redirect { .. } => Type::REDIRECT,
        }
    }

    /// Bytes that [`emit`](Self::emit) writes; options follow.
    pub fn header_len(&self) -> usize {
        fixed_len(self.kind()).unwrap_or(icmpv6::HEADER_LEN)
    }

    /// Writes the fixed part, the eight bytes of ICMPv6 included, to the front of `buffer`, the checksum zero.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        Error::check_len(PROTOCOL, self.header_len(), buffer.len())?;
        icmpv6::Repr { kind: self.kind(), code: 0, rest: 0 }.emit(buffer)?;
        match *self {
            Repr::RouterSolicit => {}
            Repr::RouterAdvert { hop_limit, flags, lifetime_s, reachable_ms, retransmit_ms } => {
                store_at(buffer, field::HOP_LIMIT, hop_limit);
                store_at(buffer, field::ROUTER_FLAGS, flags);
                store_at(buffer, field::LIFETIME, lifetime_s);
                store_at(buffer, field::REACHABLE, reachable_ms);
                store_at(buffer, field::RETRANSMIT, retransmit_ms);
            }
            Repr::NeighborSolicit { target } => store_at(buffer, field::TARGET, target),
            Repr::NeighborAdvert { target, flags } => {
                store_at(buffer, field::FLAGS, flags);
                store_at(buffer, field::TARGET, target);
            }
            Repr::Redirect { target, destination } => {
                store_at(buffer, field::TARGET, target);
                store_at(buffer, field::DESTINATION, destination);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icmp6 {}", self.kind())?;
        match self {
            Repr::RouterSolicit => Ok(()),
            Repr::RouterAdvert { lifetime_s, .. } => write!(f, ", lifetime {lifetime_s}s"),
            Repr::NeighborSolicit { target } => write!(f, ", who has {target}"),
            Repr::NeighborAdvert { target, flags } => {
                write!(f, ", tgt is {target}")?;
                let names =
                    [(FLAG_ROUTER, "router"), (FLAG_SOLICITED, "solicited"), (FLAG_OVERRIDE, "override")];
                names
                    .iter()
                    .filter(|(flag, _)| flags & flag != 0)
                    .try_for_each(|(_, name)| write!(f, ", {name}"))
            }
            Repr::Redirect { target, destination } => write!(f, ", {destination} to {target}"),
        }
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// The sender's Ethernet address.
    SourceLinkAddr(MacAddr),
    /// The target's Ethernet address.
    TargetLinkAddr(MacAddr),
    /// A prefix of the link.
    PrefixInfo {
        /// The prefix.
        prefix: AddrPrefix6,
        /// Flags: on-link 0x80, autonomous 0x40.
        flags: u8,
        /// How long the prefix is on the link, in seconds.
        valid_s: u32,
        /// How long addresses of it are preferred, in seconds.
        preferred_s: u32,
    },
    /// The beginning of the packet that caused a redirect.
    RedirectedHeader(&'a [u8]),
    /// The link's MTU in bytes.
    Mtu(u32),
    /// Anything else.
    Unknown {
        /// Kind.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

impl<'a> NdpOption<'a> {
    /// Reads the first option of `bytes` and says how many bytes it takes.
    ///
    /// # Errors
    /// A length that is zero (RFC 4861 section 4.6), runs over the end, or is wrong for the kind.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), Error> {
        const NAME: &str = "NDP option";
        let truncated = |needed| Error::Truncated { protocol: NAME, needed, available: bytes.len() };
        let &[kind, units] = bytes.first_chunk().ok_or(truncated(2))?;
        let len = 8 * usize::from(units);
        Error::check_field(units != 0, NAME, "length", 0, "at least 1")?;
        let whole = bytes.get(..len).ok_or(truncated(len))?;
        let data = range(whole, 2, len);
        let option = match (kind, units) {
            (1, 1) => NdpOption::SourceLinkAddr(Field::load(data)),
            (2, 1) => NdpOption::TargetLinkAddr(Field::load(data)),
            (3, 4) => {
                let prefix_len: u8 = load_at(whole, 2);
                let prefix = AddrPrefix6::new(load_at(whole, 16), prefix_len).ok_or(Error::Field {
                    protocol: NAME,
                    field: "prefix length",
                    value: prefix_len.into(),
                    expected: "at most 128",
                })?;
                let (valid_s, preferred_s) = (load_at(whole, 4), load_at(whole, 8));
                NdpOption::PrefixInfo { prefix, flags: load_at(whole, 3), valid_s, preferred_s }
            }
            (4, _) => NdpOption::RedirectedHeader(range(whole, 8, len)),
            (5, 1) => NdpOption::Mtu(load_at(whole, 4)),
            (3 | 5, _) => {
                let (field, expected) = ("length", "the length of its kind");
                return Err(Error::Field { protocol: NAME, field, value: units.into(), expected });
            }
            // Link-layer addresses of other lengths belong to other links than Ethernet.
            _ => NdpOption::Unknown { kind, data },
        };
        Ok((option, len))
    }

    /// The option that carries an Ethernet address: the sender's own, or the target's.
    pub fn link_addr_bytes(target: bool, mac: MacAddr) -> [u8; 8] {
        let [a, b, c, d, e, f] = mac.octets();
        [if target { 2 } else { 1 }, 1, a, b, c, d, e, f]
    }
}

/// The options of a message; ends after an error.
#[derive(Debug, Clone)]
pub struct OptionIter<'a> {
    rest: &'a [u8],
}

impl<'a> OptionIter<'a> {
    /// The options of a discovery message; none for other types.
    pub fn of<T: AsRef<[u8]>>(view: &'a icmpv6::View<T>) -> Self {
        let start = fixed_len(view.kind()).unwrap_or(usize::MAX);
        OptionIter { rest: range(view.as_slice(), start, usize::MAX) }
    }

    /// The options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        OptionIter { rest: bytes }
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<NdpOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = NdpOption::parse(self.rest);
        let taken = parsed.map_or(usize::MAX, |(_, len)| len);
        self.rest = range(self.rest, taken, usize::MAX);
        Some(parsed.map(|(option, _)| option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(repr: Repr, options: &[u8]) -> icmpv6::View<Vec<u8>> {
        let mut bytes = vec![0; repr.header_len()];
        repr.emit(&mut bytes).unwrap();
        bytes.extend(options);
        icmpv6::View::new_checked(bytes).unwrap()
    }

    #[test]
    fn one_line() {
        let check = |repr: Repr, expected: &str| assert_eq!(emitted(repr, &[]).to_string(), expected);
        let target = "fe80::1".parse().unwrap();
        check(Repr::RouterSolicit, "icmp6 routersolicit");
        check(Repr::NeighborSolicit { target }, "icmp6 neighborsolicit, who has fe80::1");
        let flags = FLAG_SOLICITED | FLAG_OVERRIDE;
        check(
            Repr::NeighborAdvert { target, flags },
            "icmp6 neighboradvert, tgt is fe80::1, solicited, override",
        );
        check(Repr::Redirect { target, destination: Ipv6Addr::LOCALHOST }, "icmp6 redirect, ::1 to fe80::1");
    }

    #[test]
    fn options() {
        let check = |bytes: &[u8], expected: &[Result<NdpOption, &str>]| {
            let view = emitted(Repr::RouterSolicit, bytes);
            let found: Vec<_> = OptionIter::of(&view).map(|o| o.map_err(|e| e.to_string())).collect();
            let expected: Vec<_> = expected.iter().map(|o| o.map_err(str::to_owned)).collect();
            assert_eq!(found, expected, "{bytes:?}");
        };
        let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
        check(&[], &[]);
        check(&NdpOption::link_addr_bytes(false, mac), &[Ok(NdpOption::SourceLinkAddr(mac))]);
        let two = [NdpOption::link_addr_bytes(true, mac), [5, 1, 0, 0, 0, 0, 5, 0xdc]].concat();
        check(&two, &[Ok(NdpOption::TargetLinkAddr(mac)), Ok(NdpOption::Mtu(1500))]);
        let prefix_info =
            [&[3, 4, 64, 0xc0, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0xfd][..], &[0; 15]].concat();
        let prefix = "fd00::/64".parse().unwrap();
        check(&prefix_info, &[Ok(NdpOption::PrefixInfo { prefix, flags: 0xc0, valid_s: 9, preferred_s: 8 })]);
        check(&[9, 1, 1, 2, 3, 4, 5, 6], &[Ok(NdpOption::Unknown { kind: 9, data: &[1, 2, 3, 4, 5, 6] })]);
        check(&[1, 0, 0, 0], &[Err("NDP option: length is 0, expected at least 1")]);
        check(&[1, 2, 0, 0], &[Err("NDP option: truncated, 16 bytes needed but only 4 present")]);
        check(
            &[5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[Err("NDP option: length is 2, expected the length of its kind")],
        );
    }

    proptest! {
        #[test]
        fn emits_what_it_parses(mut bytes: [u8; 40], kind in 133u8..=137) {
            bytes[..2].copy_from_slice(&[kind, 0]);
            let repr = Repr::parse(&icmpv6::View::new_checked(bytes).unwrap()).unwrap();
            prop_assert_eq!(Repr::parse(&emitted(repr, &[])), Ok(repr));
        }

        #[test]
        fn options_end_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(OptionIter::new(&bytes).count() <= bytes.len() / 8 + 1);
        }
    }
}
