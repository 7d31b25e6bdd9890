// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that translates addresses: what arrives gets its inside destination before it is routed, and what leaves by an
//! outside link gets its outside source after that.

use std::net::Ipv4Addr;
use std::path::Path;

use nat::policy::{self, Allocation, Policy, Range};
use nat::{Addresses, Prefix64};
use wire::{Prefix4, Prefix6};

use super::ipv4::ERRORS;
use super::router::Router;
use super::taken::Taken;
use super::{balance, ipv6, sync};

/// Where the statements are by which addresses are translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file.
    File(String),
    /// In the configuration itself.
    Statements(Vec<String>),
}

/// How a router translates addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    source: Source,
    /// The interfaces that lead outside.
    outside: Vec<usize>,
    /// Whether the file was there.
    is_there: bool,
    /// Outside addresses that the router answers ARP for, though they are not its own: an interface, and prefixes.
    answered: Vec<(usize, Vec<String>)>,
    /// Outside addresses.
    ranges: Vec<Range>,
    /// What of outside addresses statements take for hosts inside alone.
    pub(super) taken: Taken,
    /// The interfaces whose addresses statements name, or may.
    named: Vec<usize>,
    /// Behind what IPv6 hosts see IPv4 addresses, if there are IPv6 hosts inside (NAT64).
    prefix: Option<Prefix64>,
}

/// Whether the file of statements is there, and may be read here.
fn is_readable(path: &str) -> bool {
    rulefile::may_read(Path::new(path)).is_ok() && Path::new(path).exists()
}

impl Translation {
    /// How a router translates addresses whose interfaces and routes are known. `outside` are the interfaces that lead outside; if there is none, those of default routes, or else those with DHCP.
    /// A file is read, if it is there: the router answers ARP for outside addresses on its links. No statements: inside networks share the
    /// first address of the outside.
    ///
    /// # Errors
    /// What is wrong with the statements or the interfaces.
    pub fn new(router: &Router, source: Source, outside: &[String]) -> Result<Translation, String> {
        let outside = outside_of(router, outside)?;
        let source = match source {
            Source::Statements(none) if none.is_empty() => Source::Statements(shared(router, &outside)?),
            given => given,
        };
        let reading = match &source {
            Source::File(path) if !is_readable(path) => {
                return Ok(Translation {
                    source,
                    is_there: false,
                    answered: Vec::new(),
                    ranges: Vec::new(),
                    taken: Taken::default(),
                    named: named_by(router, None, &outside)?,
                    outside,
                    prefix: None,
                });
            }
            Source::File(path) => nat::read_file(Path::new(path))?,
            Source::Statements(all) => nat::read("STATEMENT", &all.join("\n")),
        };
        let Some(policy) = reading.policy else {
            let shown = lang::render_short(&reading.diagnostics, &reading.sources);
            return Err(shown.trim_end().to_owned());
        };
        if let Some((_, name)) = policy.vrfs.iter().find(|(_, name)| router.table_named(name).is_err()) {
            let known: Vec<&str> = router.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
            return Err(match known.is_empty() {
                true => format!("a statement names VRF {name}, and the router has no VRFs"),
                false => format!("a statement names VRF {name}: the router has {}", known.join(", ")),
            });
        }
        if policy.prefix.is_some() && !router.vrfs.is_empty() {
            return Err("IPv6 addresses are inside, which does not go together with VRFs".to_owned());
        }
        let named = named_by(router, Some(&policy), &outside)?;
        let policy = policy.with_addresses(&written(router));
        let answered = on_links(router, &policy, &outside)?;
        let own =
            router.interfaces.iter().flat_map(|port| port.four.iter().map(|(address, _)| address.to_bits()));
        let own: Vec<u32> = own.collect();
        let in_blocks = policy.translations.iter().filter(|one| one.allocation != Allocation::Random);
        let meets = |one: &&policy::Translation| {
            one.interface.is_some() || own.iter().any(|own| one.pool.iter().any(|range| range.holds(*own)))
        };
        if let Some(one) = in_blocks.into_iter().find(meets).filter(|_| router.host || router.bfd.is_some()) {
            return Err(format!(
                "line {}: programs of the router use ports of its own addresses, so no blocks can be given of them: name other outside addresses",
                one.line
            ));
        }
        if policy.prefix.is_some() && !router.has6() {
            return Err("IPv6 addresses are inside, but no interface of the router has IPv6".to_owned());
        }
        let networks =
            || router.interfaces.iter().flat_map(|port| port.six.iter().map(|(_, network)| network));
        if let Some((prefix, network)) = policy.prefix.and_then(|prefix| {
            let meets = |network: &&Prefix6| {
                prefix.holds(network.addr().into()) || network.contains(prefix.address())
            };
            Some((prefix, networks().find(meets)?))
        }) {
            return Err(format!(
                "the prefix {prefix}, behind which IPv6 hosts see IPv4 addresses, meets {network} of a link: use another one"
            ));
        }
        let (prefix, ranges) = (policy.prefix, policy.outside());
        let taken = Taken::new(&policy);
        Ok(Translation { source, outside, is_there: true, answered, ranges, taken, named, prefix })
    }
}

/// The interfaces of these names, which lead outside.
///
/// # Errors
/// There is none of such a name.
pub(super) fn named(router: &Router, names: &[String]) -> Result<Vec<usize>, String> {
    let position = |name: &String| {
        let found = router.interfaces.iter().position(|interface| interface.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = router.interfaces.iter().map(|i| i.name.as_str()).collect();
            format!("outside '{name}' is none of the interfaces {}", names.join(", "))
        })
    };
    names.iter().map(position).collect()
}

/// The interfaces that lead outside.
fn outside_of(router: &Router, names: &[String]) -> Result<Vec<usize>, String> {
    let mut found = named(router, names)?;
    if names.is_empty() {
        let defaults = router.routes4.iter().filter(|route| route.prefix == Prefix4::DEFAULT);
        found.extend(defaults.flat_map(|route| route.hops.iter().map(|(_, interface)| *interface)));
    }
    // A lease comes with a default route.
    if found.is_empty() {
        found.extend((0..router.interfaces.len()).filter(|i| router.interfaces[*i].dhcp));
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(
            "address translation needs an outside: name its interface, or give a default route".into()
        );
    }
    match found.iter().find(|i| !router.interfaces[**i].has4()) {
        Some(i) => Err(format!("{} leads outside, but has no IPv4 address", router.interfaces[*i].name)),
        None => Ok(found),
    }
}

/// The interfaces whose addresses statements name: those that lead outside, if they name any, or if one has its address by DHCP.
///
/// # Errors
/// They name one that does not lead outside.
fn named_by(router: &Router, policy: Option<&Policy>, outside: &[usize]) -> Result<Vec<usize>, String> {
    let name = |i: &usize| router.interfaces[*i].name.as_str();
    let names = policy.map_or_else(Vec::new, Policy::interfaces);
    if let Some(other) = names.iter().find(|one| outside.iter().all(|i| name(i) != **one)) {
        let known: Vec<&str> = outside.iter().map(name).collect();
        return Err(format!(
            "a statement names interface '{other}', which does not lead outside: those that do are {}",
            known.join(", ")
        ));
    }
    let is_needed = !names.is_empty() || outside.iter().any(|i| router.interfaces[*i].dhcp);
    Ok(if is_needed { outside.to_vec() } else { Vec::new() })
}

/// The addresses of interfaces that are known beforehand.
fn written(router: &Router) -> Addresses {
    let mut all = Addresses::default();
    for interface in &router.interfaces {
        all.set(&interface.name, interface.four.iter().map(|(address, _)| *address));
    }
    all
}

/// The arguments that say which addresses interfaces have.
fn interfaces(router: &Router, translation: &Translation) -> String {
    let one = |i: &usize| {
        let interface = &router.interfaces[*i];
        let source = match router.host {
            true => format!(" twin{i}"),
            false => interface.four.iter().map(|(address, _)| format!(" {address}")).collect(),
        };
        format!(", INTERFACE {}{source}", interface.name)
    };
    translation.named.iter().map(one).collect()
}

/// The statements by which inside networks of each table share the first address of the outside.
fn shared(router: &Router, outside: &[usize]) -> Result<Vec<String>, String> {
    let networks: Vec<(String, String)> = router
        .tables()
        .map(|table| {
            let vrf = table.checked_sub(1).map(|vrf| format!(" vrf {}", router.vrfs[vrf].name));
            (networks_inside(router, outside, table), vrf.unwrap_or_default())
        })
        .filter(|(networks, _)| !networks.is_empty())
        .collect();
    // The first interface whose address comes by DHCP, unless one has an address that is known.
    let address = outside.iter().find_map(|i| router.interfaces[*i].four.first());
    let by_dhcp = || outside.iter().map(|i| &router.interfaces[*i]).find(|interface| interface.dhcp);
    let to = match address {
        Some((address, _)) => Some(address.to_string()),
        None => by_dhcp().map(|interface| format!("interface {}", interface.name)),
    };
    match to {
        Some(to) if !networks.is_empty() => {
            Ok(networks.into_iter().map(|(all, vrf)| format!("translate {all}{vrf} to {to}")).collect())
        }
        _ => Err("address translation needs an inside network and an outside address".into()),
    }
}

/// The inside networks of a table, with commas between them.
fn networks_inside(router: &Router, outside: &[usize], table: usize) -> String {
    let inside = router.members(table).filter(|(i, _)| !outside.contains(i));
    let mut prefixes: Vec<Prefix4> = inside.flat_map(|(_, port)| port.four.iter().map(|(_, p)| *p)).collect();
    prefixes.sort_unstable_by_key(|prefix| (prefix.addr(), prefix.len()));
    prefixes.dedup_by(|later, kept| last(later) <= last(kept));
    prefixes.iter().map(Prefix4::to_string).collect::<Vec<_>>().join(",")
}

/// For each outside interface the outside addresses on its networks that are not its own.
fn on_links(
    router: &Router,
    policy: &Policy,
    outside: &[usize],
) -> Result<Vec<(usize, Vec<String>)>, String> {
    let ranges = policy.outside();
    let is_outside = |address: u32| ranges.iter().any(|range| range.holds(address));
    let mut all = Vec::new();
    for i in outside {
        let networks = &router.interfaces[*i].four;
        let mut hops =
            router.routes4.iter().flat_map(|route| &route.hops).filter(|(_, interface)| interface == i);
        if let Some((hop, _)) = hops.find(|(hop, _)| is_outside(hop.to_bits())) {
            return Err(format!(
                "{hop} is another router's address, by which routes go: leave it out of the outside addresses"
            ));
        }
        let special = networks
            .iter()
            .filter(|(_, network)| network.len() < 31)
            .flat_map(|(_, network)| [(network.addr().to_bits(), "network"), (last(network), "broadcast")]);
        if let Some((address, what)) = special.into_iter().find(|(address, _)| is_outside(*address)) {
            let address = Ipv4Addr::from(address);
            return Err(format!(
                "{address} is the {what} address of a link: leave it out of the outside addresses"
            ));
        }
        let on_link = ranges.iter().flat_map(|range| {
            let within = networks.iter().map(move |(_, network)| {
                let (first, last) = (network.addr().to_bits(), last(network));
                Range { first: range.first.max(first), last: range.last.min(last) }
            });
            within.filter(|range| range.first <= range.last)
        });
        let own: Vec<u32> = networks.iter().map(|(address, _)| address.to_bits()).collect();
        let prefixes: Vec<String> =
            on_link.flat_map(|range| without(range, &own)).flat_map(prefixes).collect();
        if !prefixes.is_empty() {
            all.push((*i, prefixes));
        }
    }
    Ok(all)
}

/// The inside interfaces that have ports of the translator: all, if a firewall is to see the addresses of hosts.
fn inside<'a>(router: &'a Router, translation: &'a Translation) -> impl Iterator<Item = usize> + 'a {
    let all = (0..router.interfaces.len()).filter(|_| router.firewall.is_some());
    all.filter(|i| router.interfaces[*i].has4() && !translation.outside.contains(i))
}

/// The translator's port for what leaves by interface `i`, if it has one.
fn port(router: &Router, i: usize) -> Option<usize> {
    let translation = router.nat.as_ref()?;
    let mut all = translation.outside.iter().copied().chain(inside(router, translation));
    all.position(|other| other == i).map(|place| place + 1)
}

/// The way from the checks to the routing table, for the middle of a chain.
pub(super) fn arriving(router: &Router) -> String {
    let name = if router.vrfs.is_empty() { "" } else { "arrived :: " };
    let reassembler = router.reassembler4(64);
    match (&router.nat, prefix(router)) {
        (None, _) => String::new(),
        (_, None) => format!("{name}{reassembler} -> [0]nat44;\nnat44[0] -> "),
        _ => format!("{name}{reassembler} -> [0]nat44;\nnat44[0] -> [1]nat64;\nnat64[1] -> "),
    }
}

/// The same for a further table: it joins the way of the first one.
pub(super) fn arriving_too(router: &Router) -> Option<&'static str> {
    router.nat.as_ref().map(|_| "arrived;\n")
}

/// Behind what IPv6 hosts see IPv4 addresses, if any are inside.
fn prefix(router: &Router) -> Option<Prefix64> {
    router.nat.as_ref()?.prefix
}

/// The prefix that hosts on the link of interface `i` hear of (RFC 8781).
pub(super) fn advertised(router: &Router, i: usize) -> Option<Prefix64> {
    prefix(router).filter(|_| !leads_out(router, i))
}

/// Where IPv6 packets are routed, or first become those of IPv4.
pub(super) fn table6(router: &Router) -> &'static str {
    if prefix(router).is_some() { "to64" } else { "[0]rt6" }
}

/// Outside addresses.
pub(super) fn outside_ranges(router: &Router) -> Vec<Range> {
    router.nat.as_ref().map_or_else(Vec::new, |translation| translation.ranges.clone())
}

/// What makes IPv4 packets of IPv6 packets, and the other way round.
pub(super) fn six(router: &Router) -> String {
    let Some(prefix) = prefix(router) else { return String::new() };
    let bytes = &prefix.address().octets()[..prefix.length() as usize / 8];
    let bits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "// IPv6 hosts see IPv4 addresses behind {prefix}. Write this configuration again if the statements get another prefix.\n\
         nat64 :: NAT64(nat44);\n\
         to64 :: Classifier(24/{bits}, -);\n\
         nat64[2] -> [0]nat44;\n\n"
    )
}

/// The way to the routing table of IPv6, for those that stay or become packets of IPv6.
pub(super) fn to_table6(router: &Router) -> &'static str {
    match (prefix(router), &router.firewall) {
        (None, _) => "",
        (_, Some(_)) => "to64[1], nat64[0] -> [0]rt6;\n",
        (_, None) => "to64[0] -> IP6Reassembler -> [0]nat64;\nto64[1], nat64[0] -> [0]rt6;\n",
    }
}

/// The translator.
pub(super) fn text(router: &Router) -> String {
    let Some(translation) = &router.nat else { return String::new() };
    let own = router.interfaces.iter().flat_map(|interface| &interface.four);
    let own: String = own.map(|(address, _)| format!(", OWN {address}")).collect();
    let own = own + &balance::own_of_nat(router);
    let vrfs: String = router.vrfs.iter().map(|vrf| format!(", VRF {}", vrf.name)).collect();
    let hairpins = match inside(router, translation).count() {
        0 => String::new(),
        n => format!(", HAIRPINS {n}"),
    };
    let paints: String = translation.outside.iter().map(|i| format!(" {}", i + 1)).collect();
    let bfd = if router.bfd.is_some() { " 3784-3785 4784" } else { "" };
    let kernel = if router.host { " 32768-60999" } else { "" };
    let sync = sync::reserved_of_nat(router);
    let services = balance::reserved_of_nat(router);
    let (reserved, legend) = match [&sync, bfd, kernel, services.as_str()].concat() {
        none if none.is_empty() => (none, ""),
        some if some == services => (format!(", RESERVED{some}"), "// Services use the reserved ports.\n"),
        some => (
            format!(", RESERVED{some}"),
            "// The router's own programs use the reserved ports: see net.ipv4.ip_local_port_range.\n",
        ),
    };
    let missing = match translation.is_there {
        true => "",
        false => {
            "// The file was not there: the router answers ARP for its own addresses alone. Write this configuration again when it is.\n"
        }
    };
    let (who_says, statements) = match &translation.source {
        Source::File(path) => (path.replace(char::is_control, "?") + " says", lang::config::quote(path)),
        Source::Statements(all) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || " ./:_-".contains(c);
            let quoted =
                |one: &String| if one.chars().all(is_plain) { one.clone() } else { lang::config::quote(one) };
            let each: Vec<String> = all.iter().map(|one| format!("STATEMENT {}", quoted(one))).collect();
            ("these statements say".to_owned(), each.join(",\n    "))
        }
    };
    format!(
        "// Address translation: {who_says} what becomes of addresses. Fragments have no ports: packets are put together first.\n\
         {missing}{legend}nat44 :: NAT44({statements}{own}, OUTSIDE{paints}{vrfs}{interfaces}{reserved}{hairpins});\n\n",
        interfaces = interfaces(router, translation),
    )
}

/// The answer to senders of packets that leave no room for another session.
pub(super) fn answers(router: &Router) -> String {
    let Some(translation) = &router.nat else { return String::new() };
    let no_room6 = match prefix(router) {
        Some(_) => ipv6::refusals(router, "nat64[3]", "full64"),
        None => String::new(),
    };
    // The kernel knows nothing of translated addresses.
    let six = if prefix(router).is_some() { "Idle -> ttl;\nIdle -> toobig6;\n" } else { "" };
    let idle =
        if router.host { format!("Idle -> toobig;\nIdle -> noneighbour;\n{six}") } else { String::new() };
    let error = |table| {
        let address = router.speaker4(table).or(router.vrfs.is_empty().then_some(Ipv4Addr::UNSPECIFIED))?;
        let owned = router.owned(router.members(table).map(|(i, _)| i));
        Some(format!(
            "ICMPError({address}, unreachable, CODE_ANNO ICMP_PARAMPROB, {ERRORS}{owned}) -> [0]rt;\n"
        ))
    };
    let from = format!("nat44[{}]", translation.outside.len() + inside(router, translation).count() + 1);
    format!(
        "\n// Without a free port or room for another session the sender gets an ICMP error.\n{}{no_room6}{idle}",
        router.by_table(&from, "full4", error)
    )
}

/// What is between the checks of interface `i` and its MTU.
pub(super) fn leaving(router: &Router, i: usize) -> String {
    port(router, i).map_or_else(String::new, |port| format!("-> [{port}]nat44;\nnat44[{port}] "))
}

/// Where errors about packets go that leave by an interface: they may be about translated addresses.
pub(super) fn errors(router: &Router) -> &'static str {
    if router.nat.is_some() { "[0]nat44" } else { balance::errors(router).unwrap_or("[0]rt") }
}

/// The arguments of a firewall that name outside links, if there are VRFs: what arrives by them for a host is in the host's VRF when the firewall sees it.
pub(super) fn marked(router: &Router) -> String {
    let all = router.nat.iter().filter(|_| !router.vrfs.is_empty()).flat_map(|one| &one.outside);
    all.map(|i| format!(", TRANSLATED {}", router.interfaces[*i].name)).collect()
}

/// Whether packets of IPv6 hosts become those of IPv4.
pub(super) fn has_six(router: &Router) -> bool {
    prefix(router).is_some()
}

/// How errors are sent about packets that have been translated when they leave by interface `i`. They have one destination, though they are for many hosts.
pub(super) fn limits(router: &Router, i: usize) -> &'static str {
    if leads_out(router, i) { "TOS copy, RATE 1000" } else { ERRORS }
}

/// Whether interface `i` leads outside.
pub(super) fn leads_out(router: &Router, i: usize) -> bool {
    router.nat.as_ref().is_some_and(|translation| translation.outside.contains(&i))
}

/// Prefixes and addresses that are not its own, and that the router answers ARP for on interface `i`.
pub(super) fn answered(router: &Router, i: usize) -> Vec<String> {
    [answered_by_nat(router, i), balance::answered(router, i, false)].concat()
}

/// Those of outside addresses.
pub(super) fn answered_by_nat(router: &Router, i: usize) -> Vec<String> {
    let all = router.nat.iter().flat_map(|translation| &translation.answered);
    all.filter(|(other, _)| *other == i).flat_map(|(_, prefixes)| prefixes.iter().cloned()).collect()
}

/// What answers for them where the kernel answers for the router's own addresses.
pub(super) fn answered_by_us(router: &Router, i: usize) -> String {
    let answered = answered(router, i);
    if answered.is_empty() {
        return String::new();
    }
    format!(
        "asked{i}[2] -> ARPResponder({} {}) -> out{i};\n",
        answered.join(" "),
        router.interfaces[i].station
    )
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
        all.push(format!("{}/{}", Ipv4Addr::from(first as u32), 32 - bits));
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
        let base = u32::from(Ipv4Addr::new(192, 0, 2, 0));
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
