// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces that are named without addresses: they have those that this machine gives them now.

use std::net::{Ipv4Addr, Ipv6Addr};

use elements::compound::arguments::is_interface_name;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{if_nameindex, if_nametoindex};

/// As many names of interfaces are listed.
const MOST_NAMES: usize = 12;

/// The same interfaces, each with addresses, as `eth0=10.0.0.1/24,2001:db8::1/64`. Those that are given stand; link-local ones are left out.
///
/// # Errors
/// An interface is not here, or has no address.
pub fn with_addresses(interfaces: &[String]) -> Result<Vec<String>, String> {
    interfaces.iter().map(|text| if text.contains('=') { Ok(text.clone()) } else { of(text) }).collect()
}

/// Checks that all of these interfaces, as `eth0` or `eth0=10.0.0.1/24`, are here.
///
/// # Errors
/// One is not.
pub fn all_here(interfaces: &[String]) -> Result<(), String> {
    let name = |text: &'_ String| text.split('=').next().unwrap_or_default().to_owned();
    let missing = |name: &String| is_interface_name(name) && if_nametoindex(name.as_str()).is_err();
    let Some(missing) = interfaces.iter().map(name).find(missing) else { return Ok(()) };
    let mut here: Vec<String> = if_nameindex()
        .map(|all| all.iter().map(|i| i.name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    here.retain(|name| name != "lo");
    let more = here.len().saturating_sub(MOST_NAMES);
    here.truncate(MOST_NAMES);
    let here = match (here.is_empty(), more) {
        (true, _) => "no other than lo".to_owned(),
        (false, 0) => here.join(", "),
        (false, more) => format!("{} and {more} more", here.join(", ")),
    };
    Err(format!(
        "'{missing}' is no interface of this machine, which has {here}; --force writes the configuration for one that will come, or for \
         another machine"
    ))
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
    fn an_interface_that_is_missing_is_named_with_those_that_are_here() {
        let of = |names: &[&str]| all_here(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["lo", "lo=127.0.0.1/8"]), Ok(()));
        let failed = of(&["lo", "none0=10.0.0.1/24"]).expect_err("it is not here");
        assert!(failed.starts_with("'none0' is no interface of this machine, which has "), "{failed}");
        // What is wrong with a name is another's to say.
        assert_eq!(of(&["a b"]), Ok(()));
    }

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
