// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AddressInfo, PortInfo, IPNameInfo, AnnotationInfo, AlignmentInfo, ClickyInfo
//!
//! `AddressInfo(NAME ADDRESS [ADDRESS...], ...)`, `PortInfo(NAME PORT[/PROTOCOL], ...)`,
//! `IPNameInfo(TYPE NAME VALUE, ...)`, `AnnotationInfo(NAME OFFSET [SIZE], ...)`
//!
//! Hold information about a configuration; no packet passes them.
//!
//! **Ports:** none.
//!
//! **Drops:** none.
//!
//! **Arguments**
//! * of AddressInfo: a name, and its IPv4, IPv6 and Ethernet addresses, with or without a prefix length. Wherever an
//!   address is expected the name stands for the one of the right kind; `NAME:eth`, `NAME:ip` and `NAME:ip6` say which.
//!   `10.1.2.3/24` names a host and its network (`NAME:ipnet`), with its broadcast address (`NAME:bcast`) and its gateway
//!   (`NAME:gw`: the first host, unless AddressInfo says otherwise). Where host and network may both stand, it is the host.
//!   `NAME/LENGTH` is its address with another prefix length, `NAME:ipnet/32` its network's number, and `NAME:solicited` the
//!   solicited-node group of its IPv6 address.
//!   An interface of this machine is such a name without AddressInfo: `eth0`, or `eth0:eth`, `eth0:ip`, `eth0:ipnet` (its
//!   network), `eth0:ip6` and `eth0:ip6net`, as they are when the configuration is read.
//!   Of several addresses of one kind the last counts. So `AddressInfo(lan 02:00:00:00:00:01 eth0:eth)` gives `lan` the address of
//!   eth0, and the other one where there is no eth0.
//! * of PortInfo: `NAME PORT[/PROTOCOL] [MORE-NAMES...]`: a name and its port number, which stands for ports of that protocol, or of TCP
//!   and UDP.
//! * of IPNameInfo: a kind, a name and its number.
//! * of AnnotationInfo: a name and where the annotation lies.
//! * AlignmentInfo and ClickyInfo are hints to other programs, and not looked at.
//!
//! A name holds in the compound where it is defined and in the compounds inside; an inner one hides an outer one. All names are
//! gathered before any element reads its arguments, so their place in the text does not matter.
//!
//! ```click
//! AddressInfo(gate 10.0.0.1/24 00:01:02:03:04:05);
//! PortInfo(service 8080);
//! AnnotationInfo(colour 16);
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(1, colour) -> Discard;
//! ```
//!
//! See also: Paint

use element::args::Args;
use element::{Class, Element};

const fn class(name: &'static str, least: usize) -> Class {
    // Function pointers cannot capture, so the few cases are spelled out.
    let make: fn() -> Box<dyn Element> = match least {
        0 => || Box::new(Information { least: 0, addresses: false }),
        2 => || Box::new(Information { least: 2, addresses: false }),
        _ => || Box::new(Information { least: 3, addresses: false }),
    };
    Class::new(name, "0", make).file(file!())
}

/// The descriptors.
pub const ADDRESS: Class =
    Class::new("AddressInfo", "0", || Box::new(Information { least: 2, addresses: true })).file(file!());
/// The descriptor of names for ports.
pub const PORT: Class = class("PortInfo", 2);
/// The descriptor of names for numbers of IP.
pub const IP_NAME: Class = class("IPNameInfo", 3);
/// The descriptor of names for annotations.
pub const ANNOTATION: Class = class("AnnotationInfo", 2);
/// The descriptor of hints about alignment.
pub const ALIGNMENT: Class = class("AlignmentInfo", 0);
/// The descriptor of hints about looks.
pub const CLICKY: Class = class("ClickyInfo", 0);

struct Information {
    /// Words that each argument needs.
    least: usize,
    /// Whether what follows the name must be addresses.
    addresses: bool,
}

impl Element for Information {
    fn configure(&mut self, args: &mut Args<'_>) {
        for given in args.rest().iter().filter(|g| !g.trim().is_empty()) {
            let words = lang::config::split_words(given).len();
            if words < self.least {
                args.error(format!("'{given}' should be a name and what it stands for"));
            } else if self.addresses {
                let words = lang::config::split_words(given);
                let names = args.names;
                let known = |w: &str| {
                    names.eth(w).is_some()
                        || names.ip4(w).is_some()
                        || names.net4(w).is_some()
                        || names.ip6(w).is_some()
                        || names.net6(w).is_some()
                };
                // An interface need not be there where the name has another Ethernet address.
                let spare = words.iter().skip(1).any(|w| names.eth(w).is_some());
                let absent = |w: &str| spare && w.ends_with(":eth");
                for word in words.iter().skip(1).filter(|w| !known(w) && !absent(w)) {
                    args.error(format!("'{word}' is not a recognizable address"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn names_work_wherever_they_are_defined() {
        let text = "i :: TestIn -> Paint(7, spot) -> o :: TestOut; AnnotationInfo(spot 21); AlignmentInfo; ClickyInfo(STYLE x);";
        assert_eq!(Rig::text(text).inputs(&[b"x"]).run().out("o")[0].anno_u8(21), 7);
    }

    #[test]
    fn addresses_ports_and_numbers() {
        let text = "FastUDPSource(0, 1, 60, a, a, p, 0:0:0:0:0:9, b, n) -> Strip(26) -> Truncate(12) -> o :: TestOut; \
                    AddressInfo(a 1.2.3.4 0:0:0:0:0:7, b 5.6.7.8/24); PortInfo(p 80/tcp); IPNameInfo(ip_proto n 258);";
        assert_eq!(Rig::text(text).run().bytes("o"), [[1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 2]]);
    }

    #[test]
    fn a_host_with_its_network_is_the_host() {
        let text = "r :: ARPResponder(a 0:0:0:0:0:7); s :: StaticIPLookup(a 0, n 1); Idle -> r -> Discard; \
                    Idle -> s -> Discard; s[1] -> Discard; AddressInfo(a 10.1.2.3/24, n 10.1.0.0/16); \
                    c :: { AddressInfo(a 9.9.9.9); input -> SetIPAddress(a) -> output }; i :: TestIn -> c -> o :: TestOut;";
        let mut run = Rig::text(text).inputs(&[b"x"]).run();
        assert_eq!(run.read("r.table"), "10.1.2.3/32 00-00-00-00-00-07\n");
        assert_eq!(
            run.read("s.table").lines().map(|l| l.split_whitespace().next().unwrap()).collect::<Vec<_>>(),
            ["10.1.0.0/16", "10.1.2.3/32"]
        );
        assert_eq!(run.out("o")[0].dst_ip(), [9, 9, 9, 9]);
    }

    #[test]
    fn what_is_no_address_is_told() {
        assert_eq!(
            Rig::text("e :: AddressInfo(a 1.2.3.4, b 1.2.3.4 nonsense);").errors(),
            ["e: 'nonsense' is not a recognizable address"]
        );
        assert_eq!(Rig::text("e :: AddressInfo(a 2:0:0:0:0:1 nosuch0:eth);").errors(), [""; 0]);
        assert_eq!(
            Rig::text("e :: AddressInfo(a nosuch0:eth);").errors(),
            ["e: 'nosuch0:eth' is not a recognizable address"]
        );
    }

    #[test]
    fn a_name_alone_says_nothing() {
        assert_eq!(
            Rig::text("e :: AddressInfo(a);").errors(),
            ["e: 'a' should be a name and what it stands for"]
        );
    }
}
