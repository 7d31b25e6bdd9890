// SPDX-License-Identifier: MIT OR Apache-2.0
//! IP protocol numbers and the names that configurations call them by.

use std::fmt;

/// An IP protocol number (IPv4 protocol field, IPv6 next header), as IANA assigns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Protocol(pub u8);

macro_rules! protocols {
    ($($constant:ident = $number:literal, $name:literal;)*) => {
        impl Protocol {
            $( #[doc = concat!("`", $name, "`, number ", stringify!($number), ".")] pub const $constant: Protocol = Protocol($number); )*

            /// The lower-case name, where this crate knows one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $number => Some($name), )*
                    _ => None,
                }
            }

            /// The protocol of a lower-case name.
            pub fn from_name(name: &str) -> Option<Protocol> {
                match name {
                    $( $name => Some(Protocol($number)), )*
                    _ => None,
                }
            }
        }
    };
}

protocols! {
    HOP_BY_HOP = 0, "hopopt";
    ICMP = 1, "icmp";
    IGMP = 2, "igmp";
    IPIP = 4, "ipip";
    TCP = 6, "tcp";
    UDP = 17, "udp";
    DCCP = 33, "dccp";
    IPV6 = 41, "ipv6";
    IPV6_ROUTE = 43, "ipv6-route";
    IPV6_FRAGMENT = 44, "ipv6-frag";
    GRE = 47, "gre";
    ESP = 50, "esp";
    AH = 51, "ah";
    ICMPV6 = 58, "icmp6";
    IPV6_NO_NEXT = 59, "ipv6-nonxt";
    IPV6_DESTINATION = 60, "ipv6-opts";
    OSPF = 89, "ospf";
    PIM = 103, "pim";
    VRRP = 112, "vrrp";
    SCTP = 132, "sctp";
    MOBILITY = 135, "mobility";
    UDPLITE = 136, "udplite";
    HIP = 139, "hip";
    SHIM6 = 140, "shim6";
}

impl Protocol {
    /// Whether the first four bytes behind the IP header are the source and the destination port.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP | Self::DCCP | Self::UDPLITE)
    }
}

impl From<u8> for Protocol {
    fn from(number: u8) -> Self {
        Protocol(number)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ip-proto-{}", self.0),
        }
    }
}

field_as_bytes! {
    Protocol, 1, |b| Protocol(b[0]), |v| [v.0];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_numbers() {
        for number in 0..=255u8 {
            let protocol = Protocol(number);
            if let Some(name) = protocol.name() {
                assert_eq!(Protocol::from_name(name), Some(protocol));
                assert_eq!(protocol.to_string(), name);
            } else {
                assert_eq!(protocol.to_string(), format!("ip-proto-{number}"));
            }
        }
        assert_eq!(Protocol::from_name("TCP"), None);
    }
}
