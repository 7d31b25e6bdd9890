// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces that are named without addresses: they have those that this machine gives them now.

use std::net::{Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};

/// The same interfaces, each with addresses, as `eth0=10.0.0.1/24,2001:db8::1/64`. Those that are given stand; link-local ones are left out.
///
/// # Errors
/// An interface is not here, or has no address.
pub fn with_addresses(interfaces: &[String]) -> Result<Vec<String>, String> {
    interfaces.iter().map(|text| if text.contains('=') { Ok(text.clone()) } else { of(text) }).collect()
}

fn of(name: &str) -> Result<String, String> {
    let all: Vec<InterfaceAddress> = getifaddrs()
        .map_err(|why| format!("the addresses of '{name}': {why}"))?
        .filter(|a| a.interface_name == name)
        .collect();
    let addresses: Vec<String> = all.iter().filter_map(text).collect();
    if addresses.is_empty() {
        let what = if all.is_empty() { "is no interface of this machine" } else { "has no address here" };
        return Err(format!("'{name}' {what}; say which addresses it is to have, as {name}=10.0.0.1/24"));
    }
    Ok(format!("{name}={}", addresses.join(",")))
}

fn text(of: &InterfaceAddress) -> Option<String> {
    let (address, mask) = (of.address.as_ref()?, of.netmask.as_ref()?);
    if let (Some(address), Some(mask)) = (address.as_sockaddr_in(), mask.as_sockaddr_in()) {
        let address: Ipv4Addr = address.ip();
        let is_usable = !address.is_link_local() && !address.is_loopback();
        return is_usable.then(|| format!("{address}/{}", mask.ip().to_bits().count_ones()));
    }
    let (address, mask): (Ipv6Addr, Ipv6Addr) =
        (address.as_sockaddr_in6()?.ip(), mask.as_sockaddr_in6()?.ip());
    let is_usable = !address.is_unicast_link_local() && !address.is_loopback();
    is_usable.then(|| format!("{address}/{}", mask.to_bits().count_ones()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_stands_and_what_is_not_here_is_said() {
        let given = ["eth0=10.0.0.1/24".to_owned()];
        assert_eq!(with_addresses(&given), Ok(given.to_vec()));
        let failed = with_addresses(&["none0".to_owned()]).expect_err("it is not here");
        assert!(
            failed.contains("'none0' is no interface") && failed.contains("none0=10.0.0.1/24"),
            "{failed}"
        );
        assert!(of("lo").is_err_and(|why| why.contains("has no address")));
    }
}
