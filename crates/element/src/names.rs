// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that configurations give to addresses and numbers: AddressInfo, PortInfo and the like.
//!
//! Names are local to the compound that defines them: they hold in it and in all compounds inside, where an inner definition
//! hides an outer one of the same kind. A name may stand for an address, a network, a hardware address and a port at
//! once; the context, or a suffix such as `NAME:ip`, says which is meant.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use lang::{Graph, config};
use wire::{AddrMask4, AddrPrefix6, MacAddr};

use crate::interfaces;
use crate::values::parse_integer;

/// Elements whose arguments define names.
const INFORMATION: [&str; 5] = ["AddressInfo", "PortInfo", "IPNameInfo", "PaintInfo", "AnnotationInfo"];

/// TCP's number among the protocols that have ports.
pub const TCP: u8 = 6;
/// UDP's number.
pub const UDP: u8 = 17;

/// What one name stands for in one compound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Meaning {
    ip4: Option<Ipv4Addr>,
    /// With the host's part, as it was written.
    net4: Option<AddrMask4>,
    ip6: Option<Ipv6Addr>,
    net6: Option<AddrPrefix6>,
    eth: Option<MacAddr>,
    /// By protocol.
    ports: Vec<(u8, u16)>,
    /// Numbers and other words.
    words: Vec<String>,
}

/// The names that an element sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// By compound, with a slash at its end, and name.
    meanings: Arc<HashMap<String, Meaning>>,
    /// The compound in which names are looked up first, with a slash at its end; empty for the whole configuration.
    scope: String,
}

/// The compound of an element, with a slash at its end.
fn scope_of(element: &str) -> &str {
    element.rfind('/').map_or("", |slash| &element[..=slash])
}

/// The name and the kind behind a colon, in small letters.
fn split_kind(text: &str) -> (&str, Option<String>) {
    match text.rsplit_once(':') {
        Some((name, kind)) => (name, Some(kind.to_ascii_lowercase())),
        None => (text, None),
    }
}

/// The name in a text that has no kind behind it, or one of these.
fn name_of<'a>(text: &'a str, kinds: &[&str]) -> Option<&'a str> {
    let (name, kind) = split_kind(text);
    kind.is_none_or(|k| kinds.contains(&k.as_str())).then_some(name)
}

impl Names {
    /// Gathers the names that a configuration defines, as seen from its outside.
    pub fn gather(graph: &Graph) -> Names {
        let mut names = Names::default();
        for element in graph.elements.iter().filter(|e| INFORMATION.contains(&e.class.as_str())) {
            for arg in config::split_args(&element.config) {
                let words: Vec<String> =
                    config::split_words(&arg.text).into_iter().map(|w| w.to_string()).collect();
                names.define(&element.class, scope_of(&element.name), &words);
            }
        }
        names
    }

    /// The same names as an element of this name sees them.
    #[must_use]
    pub fn seen_by(&self, element: &str) -> Names {
        Names { meanings: self.meanings.clone(), scope: scope_of(element).to_owned() }
    }

    fn define(&mut self, class: &str, scope: &str, words: &[String]) {
        match (class, words) {
            ("AddressInfo", [name, rest @ ..]) => self.define_addresses(scope, name, rest),
            ("PortInfo", [name, port, aliases @ ..]) => {
                let (number, protocol) = port.split_once('/').unwrap_or((port, ""));
                let protocols: &[u8] = match protocol {
                    "" | "tcpudp" => &[TCP, UDP],
                    "tcp" => &[TCP],
                    "udp" => &[UDP],
                    "dccp" => &[33],
                    "sctp" => &[132],
                    "udplite" => &[136],
                    _ => return,
                };
                let Some(port) = parse_integer(number).and_then(|n| u16::try_from(n).ok()) else { return };
                let aliases = aliases.iter().take_while(|a| !a.starts_with('#'));
                for name in std::iter::once(name).chain(aliases) {
                    let meaning = self.meaning(scope, name);
                    meaning.words = vec![number.to_owned()];
                    for protocol in protocols {
                        meaning.ports.retain(|p| p.0 != *protocol);
                        meaning.ports.push((*protocol, port));
                    }
                }
            }
            // It says first what kind of name it is.
            ("IPNameInfo", [kind, name, rest @ ..]) => {
                let protocol = match kind.as_str() {
                    "tcp_port" => Some(TCP),
                    "udp_port" => Some(UDP),
                    _ => None,
                };
                let port = rest.first().and_then(|w| parse_integer(w)).and_then(|n| u16::try_from(n).ok());
                let meaning = self.meaning(scope, name);
                meaning.words = rest.to_vec();
                meaning.ports.extend(protocol.zip(port));
            }
            (_, [name, rest @ ..]) => self.meaning(scope, name).words = rest.to_vec(),
            _ => {}
        }
    }

    /// A word may be several kinds of address at once: `1.2.3.4/24` is a network and a host in it. What a word of one
    /// kind says goes before that.
    fn define_addresses(&mut self, scope: &str, name: &str, words: &[String]) {
        let seen = Names { meanings: self.meanings.clone(), scope: scope.to_owned() };
        let mut line = Meaning::default();
        let mut beside = Meaning::default();
        for word in words {
            let plain = !word.contains('/');
            line.eth = seen.eth(word).or(line.eth);
            if let Some(address) = seen.ip4(word).filter(|_| plain) {
                line.ip4 = Some(address);
            } else if let Some(net) = seen.net4(word) {
                line.net4 = Some(net);
                if u32::from(net.addr) & !u32::from(net.mask) != 0 {
                    beside.ip4 = Some(net.addr);
                }
            }
            if let Some(address) = seen.ip6(word).filter(|_| plain) {
                line.ip6 = Some(address);
            } else if let Some(net) = seen.net6(word) {
                line.net6 = Some(net);
                if net.prefix().addr() != net.addr() {
                    beside.ip6 = Some(net.addr());
                }
            }
        }
        drop(seen);
        let meaning = self.meaning(scope, name);
        meaning.ip4 = line.ip4.or(beside.ip4).or(meaning.ip4);
        meaning.net4 = line.net4.or(meaning.net4);
        meaning.ip6 = line.ip6.or(beside.ip6).or(meaning.ip6);
        meaning.net6 = line.net6.or(meaning.net6);
        meaning.eth = line.eth.or(meaning.eth);
        meaning.words = words.to_vec();
    }

    fn meaning(&mut self, scope: &str, name: &str) -> &mut Meaning {
        Arc::make_mut(&mut self.meanings).entry(format!("{scope}{name}")).or_default()
    }

    /// What `name` means in the innermost compound around the element where it means anything of this kind.
    fn find<T>(&self, name: &str, pick: impl Fn(&Meaning) -> Option<T>) -> Option<T> {
        if self.meanings.is_empty() {
            return None;
        }
        let mut scope = self.scope.as_str();
        loop {
            let found = match scope {
                "" => self.meanings.get(name),
                scope => self.meanings.get(&format!("{scope}{name}")),
            };
            if let Some(value) = found.and_then(&pick) {
                return Some(value);
            }
            scope = scope_of(scope.strip_suffix('/')?);
        }
    }

    /// The words that define `name`.
    pub fn get(&self, name: &str) -> Vec<String> {
        self.find(name, |m| (!m.words.is_empty()).then(|| m.words.clone())).unwrap_or_default()
    }

    /// An IPv4 address: as it stands, by name (also `NAME:ip`, `NAME:ip4`, `NAME:bcast` for a network's broadcast
    /// address, `NAME:gw` for its gateway), or an interface's.
    pub fn ip4(&self, text: &str) -> Option<Ipv4Addr> {
        // An address with its prefix stands for the address, too.
        let plain = text.split_once('/').map_or(text, |(address, _)| address);
        if let Ok(address) = plain.parse() {
            return Some(address);
        }
        let (name, kind) = split_kind(text);
        match kind.as_deref() {
            None | Some("ip" | "ip4") => {
                self.find(name, |m| m.ip4).or_else(|| interfaces::ipv4(name).map(|found| found.0))
            }
            Some("bcast") => {
                let net = self.net4(name)?;
                Some(Ipv4Addr::from(u32::from(net.addr) | !u32::from(net.mask)))
            }
            Some("gw") => self
                .find(text, |m| m.ip4)
                .or_else(|| self.find(name, |m| m.net4).map(first_host))
                .or_else(|| interfaces::gateway(name))
                .or_else(|| self.net4(name).map(first_host)),
            Some(_) => None,
        }
    }

    /// An IPv4 network with the host's part as it was written: `ADDRESS/LENGTH`, a name (also `NAME:net`, `NAME:ipnet`,
    /// `NAME:ip4net`), an interface's, or a name with another length (`NAME/LENGTH`; `NAME:ipnet/32` is the network's number).
    pub fn net4(&self, text: &str) -> Option<AddrMask4> {
        if text.contains('/')
            && let Ok(net) = text.parse()
        {
            return Some(net);
        }
        if let Some((name, length)) = text.rsplit_once('/') {
            let number = |net: AddrMask4| Ipv4Addr::from(u32::from(net.addr) & u32::from(net.mask));
            let addr = self.ip4(name).or_else(|| self.net4(name).map(number))?;
            return format!("{addr}/{length}").parse().ok();
        }
        let name = name_of(text, &["net", "ipnet", "ip4net", "ipprefix", "ip4prefix"])?;
        self.find(name, |m| m.net4).or_else(|| {
            let (addr, net) = interfaces::ipv4(name)?;
            Some(AddrMask4 { addr, mask: net.mask() })
        })
    }

    /// A prefix where an address alone may stand, too: a name that is an address means that one host.
    pub fn net4_or_host(&self, text: &str) -> Option<AddrMask4> {
        let host = |addr| AddrMask4 { addr, mask: Ipv4Addr::BROADCAST };
        match text.contains('/') {
            true => self.net4(text),
            false => self.ip4(text).map(host).or_else(|| self.net4(text)),
        }
    }

    /// An IPv6 address: as it stands, by name (also `NAME:ip6`; `NAME:solicited` is its solicited-node multicast address,
    /// RFC 4291, 2.7.1), or an interface's.
    pub fn ip6(&self, text: &str) -> Option<Ipv6Addr> {
        let plain = text.split_once('/').map_or(text, |(address, _)| address);
        if let Ok(address) = plain.parse() {
            return Some(address);
        }
        if let Some(name) = text.strip_suffix(":solicited") {
            return self.ip6(name).map(wire::ndp::solicited_node);
        }
        let name = name_of(text, &["ip6"])?;
        self.find(name, |m| m.ip6).or_else(|| interfaces::ipv6(name).map(|found| found.0))
    }

    /// An IPv6 network with the host's part as it was written: `ADDRESS/LENGTH`, a name (also `NAME:ip6net`), an interface's,
    /// or a name with another length (`NAME/LENGTH`).
    pub fn net6(&self, text: &str) -> Option<AddrPrefix6> {
        if text.contains('/')
            && let Ok(net) = text.parse()
        {
            return Some(net);
        }
        if let Some((name, length)) = text.rsplit_once('/') {
            let addr = self.ip6(name).or_else(|| self.net6(name).map(|net| net.prefix().addr()))?;
            return format!("{addr}/{length}").parse().ok();
        }
        let name = name_of(text, &["net", "ip6net", "ip6prefix"])?;
        self.find(name, |m| m.net6).or_else(|| {
            let (addr, net) = interfaces::ipv6(name)?;
            AddrPrefix6::new(addr, net.len())
        })
    }

    /// A prefix where an address alone may stand, too: a name that is an address means that one host.
    pub fn net6_or_host(&self, text: &str) -> Option<AddrPrefix6> {
        match text.contains('/') {
            true => self.net6(text),
            false => self.ip6(text).and_then(|addr| AddrPrefix6::new(addr, 128)).or_else(|| self.net6(text)),
        }
    }

    /// An Ethernet address: as it stands, by name (also `NAME:eth`, `NAME:ethernet`), or an interface's.
    pub fn eth(&self, text: &str) -> Option<MacAddr> {
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        let name = name_of(text, &["eth", "ether", "ethernet"])?;
        self.find(name, |m| m.eth).or_else(|| interfaces::ethernet(name))
    }

    /// A port of `protocol`: a number, a name of this configuration, or a well-known one.
    pub fn port(&self, text: &str, protocol: u8) -> Option<u16> {
        if let Some(number) = parse_integer(text) {
            return u16::try_from(number).ok();
        }
        let defined = |m: &Meaning| m.ports.iter().find(|p| p.0 == protocol).map(|p| p.1);
        self.find(text, defined).or_else(|| crate::services::port(text, protocol))
    }
}

/// The first host of a network, which mostly is its gateway.
fn first_host(net: AddrMask4) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(net.addr) & u32::from(net.mask) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lines: &[(&str, &str, &str)]) -> Names {
        let mut names = Names::default();
        for (class, scope, line) in lines {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            names.define(class, scope, &words);
        }
        names
    }

    fn net(text: &str) -> Option<AddrMask4> {
        Some(text.parse().expect("a network"))
    }

    #[test]
    fn a_network_with_a_host_is_both() {
        let n = names(&[
            ("AddressInfo", "", "a 10.1.2.3/24 00:01:02:03:04:05"),
            ("AddressInfo", "", "b 10.0.0.0/8"),
        ]);
        let host = Some(Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!((n.ip4("a"), n.ip4("a:ip"), n.ip4("a:ip4"), n.ip4("a:eth")), (host, host, host, None));
        assert_eq!(
            (n.net4("a"), n.net4("a:ipnet"), n.net4("a:net")),
            (net("10.1.2.3/24"), net("10.1.2.3/24"), net("10.1.2.3/24"))
        );
        assert_eq!((n.net4_or_host("a"), n.net4_or_host("b")), (net("10.1.2.3/32"), net("10.0.0.0/8")));
        assert_eq!((n.ip4("b"), n.net4("a:ip")), (None, None));
        assert_eq!(
            (n.ip4("a:bcast"), n.ip4("a:gw")),
            (Some([10, 1, 2, 255].into()), Some([10, 1, 2, 1].into()))
        );
        assert_eq!(
            (n.eth("a"), n.eth("a:eth"), n.eth("a:ip")),
            (Some(MacAddr([0, 1, 2, 3, 4, 5])), Some(MacAddr([0, 1, 2, 3, 4, 5])), None)
        );
    }

    #[test]
    fn a_name_takes_another_length() {
        let n = names(&[
            ("AddressInfo", "", "a 10.1.2.3/24 2001:db8::9/64"),
            ("AddressInfo", "", "b 10.0.0.0/8"),
        ]);
        assert_eq!((n.net4("a/16"), n.net4("a:ipnet/32")), (net("10.1.2.3/16"), net("10.1.2.0/32")));
        assert_eq!((n.net4("b/9"), n.net4_or_host("a/255.255.0.0")), (net("10.0.0.0/9"), net("10.1.2.3/16")));
        assert_eq!((n.net4("a/33"), n.net4("a/"), n.net4("c/8"), n.net4("/8")), (None, None, None, None));
        assert_eq!(n.net6("a/48"), "2001:db8::9/48".parse().ok());
        assert_eq!(n.net6_or_host("a:ip6net/128"), "2001:db8::/128".parse().ok());
        assert_eq!(n.ip6("a:solicited"), "ff02::1:ff00:9".parse().ok());
    }

    #[test]
    fn what_says_one_thing_goes_first() {
        let n =
            names(&[("AddressInfo", "", "a 10.0.0.9 10.0.0.1/24"), ("AddressInfo", "", "a:gw 10.0.0.77")]);
        assert_eq!((n.ip4("a"), n.net4("a")), (Some([10, 0, 0, 9].into()), net("10.0.0.1/24")));
        assert_eq!(n.ip4("a:gw"), Some([10, 0, 0, 77].into()));
        let n = names(&[("AddressInfo", "", "v fe80::1/64"), ("AddressInfo", "", "w v")]);
        assert_eq!((n.ip6("v"), n.ip6("w:ip6")), ("fe80::1".parse().ok(), "fe80::1".parse().ok()));
        assert_eq!(n.net6("v:ip6net"), "fe80::1/64".parse().ok());
    }

    #[test]
    fn inner_names_hide_outer_ones_of_their_kind() {
        let n = names(&[
            ("AddressInfo", "", "a 1.0.0.1 00:00:00:00:00:01"),
            ("AddressInfo", "c/", "a 2.0.0.2"),
            ("AddressInfo", "c/d/", "b 3.0.0.3"),
        ]);
        let inner = n.seen_by("c/d/Print@1");
        assert_eq!((n.ip4("a"), n.ip4("b")), (Some([1, 0, 0, 1].into()), None));
        assert_eq!((inner.ip4("a"), inner.ip4("b")), (Some([2, 0, 0, 2].into()), Some([3, 0, 0, 3].into())));
        assert_eq!(inner.eth("a"), Some(MacAddr([0, 0, 0, 0, 0, 1])));
    }

    #[test]
    fn ports_have_protocols_and_several_names() {
        let n = names(&[
            ("PortInfo", "", "web 8080/tcp w3 # http"),
            ("PortInfo", "", "both 99"),
            ("PortInfo", "", "web 81/udp"),
        ]);
        assert_eq!(
            (n.port("web", TCP), n.port("w3", TCP), n.port("web", UDP), n.port("w3", UDP)),
            (Some(8080), Some(8080), Some(81), None)
        );
        assert_eq!((n.port("both", TCP), n.port("both", UDP), n.port("#", TCP)), (Some(99), Some(99), None));
        assert_eq!(
            (n.port("ssh", TCP), n.port("70000", TCP), n.port("0x10", UDP)),
            (Some(22), None, Some(16))
        );
    }
}
