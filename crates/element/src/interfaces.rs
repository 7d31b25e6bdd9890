// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of this machine's interfaces, by which a configuration may call them: `eth0` where an address is asked for, or
//! with the kind of address behind a colon, as Click does it (`eth0:eth`, `eth0:ip`, `eth0:ipnet`, `eth0:ip6`, `eth0:ip6net`).

use std::net::{Ipv4Addr, Ipv6Addr};

use nix::net::if_::if_nametoindex;
use wire::{MacAddr, Prefix4, Prefix6};

use crate::aside;

/// The interface that `text` names, if what stands behind the colon (if anything) is one of `kinds`.
fn interface<'a>(text: &'a str, kinds: &[&str]) -> Option<&'a str> {
    let (name, kind) = text.split_once(':').unwrap_or((text, ""));
    let safe = !name.is_empty() && !name.contains(['/', '.']);
    (safe && (kind.is_empty() || kinds.contains(&kind))).then_some(name)
}

/// The Ethernet address of an interface.
pub fn ethernet(text: &str) -> Option<MacAddr> {
    station(interface(text, &["eth", "ether", "ethernet"])?)
}

/// The Ethernet address of the interface of this name.
pub fn station(name: &str) -> Option<MacAddr> {
    first(name, |a| {
        let link = a.address.as_ref()?.as_link_addr().filter(|link| link.halen() == 6)?;
        link.addr().map(MacAddr)
    })
}

/// The MTU in bytes of the interface of this name. A `/sys` that shows another network namespace is not believed.
pub fn mtu(name: &str) -> Option<u32> {
    let name = name.to_owned();
    aside::ask(move || mtu_here(&name))
}

fn mtu_here(name: &str) -> Option<u32> {
    let file = |what: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let name = interface(name, &[])?;
    // A tunnel has no Ethernet address here and there.
    let shown: Option<MacAddr> = file("address")?.trim().parse().ok();
    if shown != station(name) || file("ifindex")?.trim().parse() != Ok(if_nametoindex(name).ok()?) {
        return None;
    }
    file("mtu")?.trim().parse().ok()
}

/// Addresses and masks of an interface, as `pick` reads them, the first first.
fn first<T: Send + 'static>(
    name: &str,
    pick: impl Fn(&nix::ifaddrs::InterfaceAddress) -> Option<T> + Send + 'static,
) -> Option<T> {
    let name = name.to_owned();
    aside::ask(move || {
        // Callers that try several types for a text ask here often; few texts name an interface.
        if_nametoindex(name.as_str()).ok()?;
        nix::ifaddrs::getifaddrs().ok()?.filter(|a| a.interface_name == name).find_map(|a| pick(&a))
    })
}

/// An interface's first IPv4 address, with the prefix of its network.
pub fn ipv4(text: &str) -> Option<(Ipv4Addr, Prefix4)> {
    let name = interface(text, &["ip", "ip4", "ipnet", "ip4net", "ipprefix", "ip4prefix"])?;
    first(name, |a| {
        let address = a.address.as_ref()?.as_sockaddr_in()?.ip();
        let mask = a.netmask.as_ref()?.as_sockaddr_in()?.ip();
        Some((address, Prefix4::new(address, mask.to_bits().count_ones() as u8)?))
    })
}

/// The gateway of the default route that leaves by an interface.
pub fn gateway(name: &str) -> Option<Ipv4Addr> {
    let routes = aside::ask(|| std::fs::read_to_string("/proc/net/route").ok())?;
    routes.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [interface, "00000000", gateway, ..] = words.as_slice() else { return None };
        // The kernel prints the word as it lies in memory.
        let gateway = u32::from_str_radix(gateway, 16).ok().filter(|g| *interface == name && *g != 0)?;
        Some(Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

/// An interface's first IPv6 address that is not link-local, or its link-local one, with the prefix of its network.
pub fn ipv6(text: &str) -> Option<(Ipv6Addr, Prefix6)> {
    let name = interface(text, &["ip6", "ip6net", "ip6prefix"])?;
    let any = |local: bool| {
        first(name, move |a| {
            let address = a.address.as_ref()?.as_sockaddr_in6()?.ip();
            let mask = a.netmask.as_ref()?.as_sockaddr_in6()?.ip();
            let prefix = Prefix6::new(address, mask.to_bits().count_ones() as u8)?;
            (address.is_unicast_link_local() == local).then_some((address, prefix))
        })
    };
    any(false).or_else(|| any(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_behind_the_colon_must_fit() {
        assert_eq!(interface("eth0", &["ip"]), Some("eth0"));
        assert_eq!(interface("eth0:ip", &["ip"]), Some("eth0"));
        for bad in ["eth0:eth", "../eth0", ":ip", "", "1.2.3.4"] {
            assert_eq!(interface(bad, &["ip"]), None, "{bad}");
        }
    }

    #[test]
    fn loopback_has_its_addresses() {
        // A namespace may have its loopback down, without addresses.
        if let Some((address, net)) = ipv4("lo:ipnet") {
            assert_eq!((address, net), (Ipv4Addr::LOCALHOST, "127.0.0.0/8".parse().expect("a prefix")));
        }
        if let Some((address, _)) = ipv6("lo") {
            assert_eq!(address, Ipv6Addr::LOCALHOST);
        }
        assert_eq!((ipv4("lo:eth"), ipv4("no-such-if")), (None, None));
    }
}
