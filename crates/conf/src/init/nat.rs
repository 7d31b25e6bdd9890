// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address translation of a router.

use std::path::Path;

use elements::compound::nat::Translation;
use elements::compound::router::Router;
use nat::policy::Range;
use wire::Prefix4;

/// How a router translates addresses by the statements of a file. The file is read, if it is there: for outside addresses on a link the router
/// answers ARP.
///
/// # Errors
/// What is wrong with the file or the interfaces.
pub(super) fn translation(router: &Router, file: String, outside: &[String]) -> Result<Translation, String> {
    let position = |name: &String| {
        let found = router.interfaces.iter().position(|interface| interface.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = router.interfaces.iter().map(|i| i.name.as_str()).collect();
            format!("--outside {name}: it is none of the interfaces {}", names.join(", "))
        })
    };
    let mut found: Vec<usize> = outside.iter().map(position).collect::<Result<_, _>>()?;
    if outside.is_empty() {
        let defaults = router.routes4.iter().filter(|route| route.prefix == Prefix4::DEFAULT);
        found.extend(defaults.flat_map(|route| route.hops.iter().map(|(_, interface)| *interface)));
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err("--nat needs an outside: name its interface by --outside, or give a default route".into());
    }
    if let Some(i) = found.iter().find(|i| !router.interfaces[**i].has4()) {
        return Err(format!("--nat: {} has no IPv4 address", router.interfaces[*i].name));
    }
    let is_there = Path::new(&file).exists();
    let answered = if is_there { answered(router, &file, &found)? } else { Vec::new() };
    Ok(Translation { file, outside: found, is_there, answered })
}

/// For each outside interface the outside addresses on its networks that are not its own.
fn answered(router: &Router, file: &str, outside: &[usize]) -> Result<Vec<(usize, Vec<String>)>, String> {
    let reading = nat::read_file(Path::new(file))?;
    let Some(policy) = reading.policy else {
        let shown = lang::render_short(&reading.diagnostics, &reading.sources);
        return Err(format!("--nat {file}:\n{}", shown.trim_end()));
    };
    let mut all = Vec::new();
    for i in outside {
        let networks = &router.interfaces[*i].four;
        let on_link = policy.outside().into_iter().flat_map(|range| {
            let within = networks.iter().map(move |(_, network)| {
                let (first, last) = (network.addr().to_bits(), last(network));
                Range { first: range.first.max(first), last: range.last.min(last) }
            });
            within.filter(|range| range.first <= range.last)
        });
        let outside = policy.outside();
        let is_outside = |address: u32| outside.iter().any(|range| range.holds(address));
        let hops =
            router.routes4.iter().flat_map(|route| &route.hops).filter(|(_, interface)| interface == i);
        if let Some((hop, _)) = hops.into_iter().find(|(hop, _)| is_outside(hop.to_bits())) {
            return Err(format!(
                "--nat {file}: {hop} is another router's address, by which routes go: leave it out of the outside addresses"
            ));
        }
        let special = networks
            .iter()
            .filter(|(_, network)| network.len() < 31)
            .flat_map(|(_, network)| [(network.addr().to_bits(), "network"), (last(network), "broadcast")]);
        if let Some((address, what)) = special.into_iter().find(|(address, _)| is_outside(*address)) {
            let address = std::net::Ipv4Addr::from(address);
            return Err(format!(
                "--nat {file}: {address} is the {what} address of a link: leave it out of the outside addresses"
            ));
        }
        let own: Vec<u32> = networks.iter().map(|(address, _)| address.to_bits()).collect();
        let prefixes: Vec<String> =
            on_link.flat_map(|range| without(range, &own)).flat_map(prefixes).collect();
        if !prefixes.is_empty() {
            all.push((*i, prefixes));
        }
    }
    Ok(all)
}

/// The last address of a network.
fn last(network: &Prefix4) -> u32 {
    network.addr().to_bits() | u32::MAX.checked_shr(u32::from(network.len())).unwrap_or(0)
}

/// What is left of a range without these addresses.
fn without(range: Range, addresses: &[u32]) -> Vec<Range> {
    let mut sorted: Vec<u32> = addresses.iter().copied().filter(|address| range.holds(*address)).collect();
    sorted.sort_unstable();
    let (mut left, mut first) = (Vec::new(), Some(range.first));
    for address in sorted {
        if let Some(first) = first.filter(|first| *first < address) {
            left.push(Range { first, last: address - 1 });
        }
        first = address.checked_add(1);
    }
    left.extend(first.filter(|first| *first <= range.last).map(|first| Range { first, last: range.last }));
    left
}

/// A range as prefixes.
fn prefixes(range: Range) -> Vec<String> {
    let (mut all, mut first) = (Vec::new(), u64::from(range.first));
    let end = u64::from(range.last) + 1;
    while first < end {
        let aligned = first.trailing_zeros().min(32);
        let fits = (end - first).ilog2();
        let bits = aligned.min(fits);
        all.push(format!("{}/{}", std::net::Ipv4Addr::from(first as u32), 32 - bits));
        first += 1 << bits;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, last: u32) -> Range {
        Range { first, last }
    }

    #[test]
    fn ranges_are_prefixes_without_own_addresses() {
        let base = u32::from(std::net::Ipv4Addr::new(192, 0, 2, 0));
        let left = without(range(base + 1, base + 6), &[base + 1, base + 4, base + 9]);
        assert_eq!(left, [range(base + 2, base + 3), range(base + 5, base + 6)]);
        let found: Vec<String> = left.into_iter().flat_map(prefixes).collect();
        assert_eq!(found, ["192.0.2.2/31", "192.0.2.5/32", "192.0.2.6/32"]);
        assert_eq!(prefixes(range(base, base + 255)), ["192.0.2.0/24"]);
        assert_eq!(prefixes(range(0, u32::MAX)), ["0.0.0.0/0"]);
        assert_eq!(prefixes(range(u32::MAX, u32::MAX)), ["255.255.255.255/32"]);
        assert_eq!(without(range(u32::MAX, u32::MAX), &[u32::MAX]), []);
    }
}
