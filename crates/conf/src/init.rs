// SPDX-License-Identifier: MIT OR Apache-2.0
//! Complete, commented configurations for named interfaces, as `junctor init` writes them.

pub mod ipsec;
pub mod present;
pub mod wireguard;

use std::fmt::Write as _;
use std::net::IpAddr;

use element::interfaces;
use elements::compound::arguments::{interface_mtu, is_interface_name};
use elements::compound::balance::Balancing;
use elements::compound::nat::{Source, Translation};
use elements::compound::router::{AddHop, Address, Interface, Router, repeated};
use elements::compound::sync::Peer;
use elements::compound::{ipv4, ipv6};
use wire::{Prefix4, Prefix6};

/// Names of interfaces must be ones that a configuration can hold unquoted.
fn names(interfaces: &[String]) -> Result<(), String> {
    let again = |n: usize| interfaces[..n].contains(&interfaces[n]);
    match interfaces.iter().find(|n| !is_interface_name(n)) {
        Some(bad) => Err(format!("'{bad}' is not an interface name")),
        None => match (0..interfaces.len()).find(|n| again(*n)) {
            Some(n) => Err(format!("interface {} is given twice", interfaces[n])),
            None => Ok(()),
        },
    }
}

fn interface(text: &str) -> Result<Interface, String> {
    let bad = || {
        format!(
            "'{text}' should name an interface and its addresses, as eth0=10.0.0.1/24 or eth0=10.0.0.1/24,2001:db8::1/64"
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    names(&[name.to_owned()])?;
    let mut interface = Interface::new(name, interface_mtu(name));
    let mut mtu = None;
    for part in rest.split(',') {
        if let Some((key, value)) = part.split_once('=') {
            mtu = Some(value.parse::<u16>().ok().filter(|_| key == "mtu"));
            continue;
        }
        if part == "dhcp" {
            interface.dhcp = true;
            continue;
        }
        let address: Address = part.parse().ok().filter(|_| part.contains('/')).ok_or_else(bad)?;
        interface.add(address).map_err(|why| format!("'{text}': {why}"))?;
    }
    interface.complete();
    if interface.dhcp && !interface.four.is_empty() {
        return Err(format!("'{text}': it has either an IPv4 address or 'dhcp'"));
    }
    if interface.addresses().next().is_none() && !interface.dhcp {
        return Err(bad());
    }
    let least = if interface.has6() { ipv6::MTU_MIN } else { ipv4::MTU_MIN };
    interface.keeps_mtu = mtu.is_some();
    interface.mtu = match mtu {
        None if interface.mtu >= least => interface.mtu,
        None => {
            return Err(format!("'{text}': its MTU of {} is too small; the least is {least}", interface.mtu));
        }
        Some(Some(mtu)) if mtu >= least => mtu,
        Some(_) => {
            return Err(format!(
                "'{text}': what follows the addresses should be mtu={least} up to mtu={}",
                u16::MAX
            ));
        }
    };
    Ok(interface)
}

/// What the kernel does for a router.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Whether it answers what the fast path cannot.
    pub answers: bool,
    /// The network namespace in which it does.
    pub netns: Option<String>,
    /// The channel by which a control plane sends routes.
    pub feed: Option<String>,
    /// Sessions of BFD, or `true`; none where no neighbour is watched.
    pub bfd: Vec<String>,
    /// Whether labelled packets are switched, of which the kernel knows nothing.
    pub mpls: bool,
    /// Whether policies may demand that packets are protected.
    pub ipsec: bool,
    /// Interfaces with routing tables of their own, as `red=eth1,eth2`.
    pub vrfs: Vec<String>,
    /// The file of rules by which packets may pass.
    pub firewall: Option<String>,
    /// The statements by which addresses are translated.
    pub nat: Option<Source>,
    /// The interfaces that lead outside, for address translation and load balancing; by default those of default routes.
    pub outside: Vec<String>,
    /// The file of services whose connections are shared among servers.
    pub balance: Option<String>,
    /// The other router that has the same sessions, as `ADDRESS=KEYFILE`.
    pub sync: Option<String>,
    /// Whether interfaces may share a subnet.
    pub may_overlap: bool,
}

/// The text of a router; interfaces as `eth0=10.0.0.1/24`.
///
/// # Errors
/// What is wrong with them.
pub fn router(
    interfaces: &[String],
    defaults: &[String],
    routes: &[String],
    kernel: Kernel,
) -> Result<String, String> {
    described(interfaces, defaults, routes, kernel).map(|router| router_text(&router))
}

/// A router; [`router`] is its text.
///
/// # Errors
/// What is wrong with its interfaces, routes or VRFs.
pub fn described(
    interfaces: &[String],
    defaults: &[String],
    routes: &[String],
    kernel: Kernel,
) -> Result<Router, String> {
    let ports: Vec<Interface> = interfaces.iter().map(|i| interface(i)).collect::<Result<_, _>>()?;
    if let Some(port) = ports.iter().find(|port| port.dhcp && !kernel.answers) {
        return Err(format!("'{}=dhcp' needs --host: a DHCP client runs on the kernel's twin", port.name));
    }
    let mut router = Router::new(ports);
    for text in &kernel.vrfs {
        let form = || format!("'{text}' should name a VRF and its interfaces, as red=eth1,eth2");
        let (name, devices) = text.split_once('=').ok_or_else(form)?;
        router.add_vrf(name, devices.split(',')).map_err(|why| format!("--vrf {text}: {why}"))?;
    }
    let ports: Vec<&Interface> = router.interfaces.iter().collect();
    if let Some((n, wrong)) = repeated(&ports, |i| router.table_of(i)).first() {
        return Err(format!("'{}': {wrong}", interfaces[*n]));
    }
    if let Some(wrong) = overlapping(&router).filter(|_| !kernel.may_overlap) {
        return Err(wrong);
    }
    (router.host, router.netns, router.feed) = (kernel.answers, kernel.netns, kernel.feed);
    router.bfd = (!kernel.bfd.is_empty())
        .then(|| kernel.bfd.into_iter().filter(|session| session != "true").collect());
    router.mpls = kernel.mpls;
    router.firewall = kernel.firewall;
    if kernel.ipsec && (kernel.mpls || !router.vrfs.is_empty()) {
        return Err(
            "--ipsec does not go together with --mpls or --vrf: policies know neither labels nor VRFs"
                .to_owned(),
        );
    }
    router.ipsec = kernel.ipsec.then(Vec::new);
    for route in routes {
        let (prefix, hop) =
            route.split_once('=').ok_or_else(|| format!("'{route}' should be PREFIX=NEXTHOP"))?;
        add_route(&mut router, prefix, hop).map_err(|why| format!("'{route}': {why}"))?;
    }
    for hop in defaults {
        let prefix = if hop.contains(':') { "::/0" } else { "0.0.0.0/0" };
        let (prefix, way) = match hop.split_once('@') {
            Some((way, vrf)) => (format!("{prefix}@{vrf}"), way),
            None => (prefix.to_owned(), hop.as_str()),
        };
        add_route(&mut router, &prefix, way).map_err(|why| format!("--default {hop}: {why}"))?;
    }
    let knows_one_table = router.vrfs.is_empty() && !router.mpls && router.ipsec.is_none();
    if kernel.nat.is_none() && kernel.balance.is_none() && !kernel.outside.is_empty() {
        return Err("--outside says where links lead for --nat or --balance: add one of them".to_owned());
    }
    if kernel.nat.is_some() && (router.mpls || router.ipsec.is_some()) {
        return Err("address translation does not go together with --mpls or --ipsec".to_owned());
    }
    if let Some(source) = kernel.nat {
        let file = if let Source::File(file) = &source { format!("{file}: ") } else { String::new() };
        let translation = Translation::new(&router, source, &kernel.outside);
        router.nat = Some(translation.map_err(|why| format!("{file}{why}"))?);
    }
    if let Some(file) = kernel.balance {
        if !knows_one_table {
            return Err("load balancing does not go together with --mpls, --ipsec or --vrf".to_owned());
        }
        let balancing = Balancing::new(&router, file.clone(), &kernel.outside);
        router.balance = Some(balancing.map_err(|why| format!("{file}: {why}"))?);
    }
    if let Some(text) = kernel.sync {
        let (peer, key) = text.split_once('=').filter(|(_, key)| !key.is_empty()).ok_or_else(|| {
            format!("--sync {text}: expected ADDRESS=KEYFILE, as 10.9.0.2=/etc/junctor/sync.key")
        })?;
        router.sync = Some(Peer::new(&router, peer, key).map_err(|why| format!("--sync {text}: {why}"))?);
    }
    Ok(router)
}

/// Says which two interfaces of a routing table are in one subnet, if any: packets to it could go to one of them only. Addresses of a host alone
/// (/32, /128) have no subnet.
fn overlapping(router: &Router) -> Option<String> {
    let subnets = router.interfaces.iter().enumerate().flat_map(|(n, interface)| {
        let four = interface.four.iter().filter(|(_, net)| net.len() < 32);
        let six = interface.six.iter().filter(|(_, net)| net.len() < 128);
        let four = four.map(|(address, net)| (IpAddr::V4(*address), net.len()));
        let six = six.map(|(address, net)| (IpAddr::V6(*address), net.len()));
        four.chain(six).map(move |(address, len)| (n, address, len))
    });
    let subnets: Vec<(usize, IpAddr, u8)> = subnets.collect();
    let names = |n: usize| &router.interfaces[n].name;
    subnets.iter().enumerate().find_map(|(at, &(n, address, len))| {
        let meets = |&&(m, other, other_len): &&(usize, IpAddr, u8)| {
            m != n && router.table_of(m) == router.table_of(n) && same_subnet(address, other, len.min(other_len))
        };
        let &(m, other, other_len) = subnets[..at].iter().find(meets)?;
        Some(format!(
            "{}={other}/{other_len} and {}={address}/{len} are in one subnet, and its hosts are behind one of them only; give each interface a \
             subnet of its own, join them by 'junctor init bridge', or write it all the same with --force",
            names(m),
            names(n)
        ))
    })
}

/// Whether the first `len` bits of two addresses are the same.
fn same_subnet(a: IpAddr, b: IpAddr, len: u8) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Prefix4::new(a, len).is_some_and(|net| net.contains(b)),
        (IpAddr::V6(a), IpAddr::V6(b)) => Prefix6::new(a, len).is_some_and(|net| net.contains(b)),
        _ => false,
    }
}

/// Adds a route whose next hop may name the interface behind it, as `fe80::9%eth0` (RFC 4007, 11).
fn add_route(router: &mut Router, prefix: &str, hop: &str) -> Result<(), String> {
    let mut add: AddHop = Router::add_route;
    // Several share the traffic.
    for hop in hop.split('|').map(str::trim) {
        let (hop, zone) = hop.split_once('%').map_or((hop, None), |(hop, zone)| (hop, Some(zone)));
        add(router, prefix, hop, zone).map_err(|why| why.to_string())?;
        add = Router::add_hop;
    }
    Ok(())
}

/// The text of a router's configuration.
pub fn router_text(router: &Router) -> String {
    let (four, six) = (router.has4(), router.has6());
    let family = match (four, six) {
        (true, true) => "A router for IPv4 and IPv6",
        (true, _) => "An IPv4 router",
        _ => "An IPv6 router",
    };
    let mut text = String::new();
    if router.host {
        let _ = write!(
            text,
            "// {family} whose exceptions this host's kernel answers. Run it with: junctor run FILE\n\
             // The kernel's twins of the interfaces, host0 and so on, need forwarding where they are, which does no harm there:\n"
        );
        if four {
            text += "//   sysctl -w net.ipv4.ip_forward=1\n";
        }
        if six {
            text += "//   sysctl -w net.ipv6.conf.all.forwarding=1\n";
        }
        text +=
            "// and the routes that go by next hops. The interfaces themselves must have no addresses.\n\n";
    } else {
        let asked = match (four, six) {
            (true, true) => "ARP and neighbour solicitations for its own addresses and pings to them",
            (true, _) => "ARP for its own address and pings to it",
            _ => "neighbour solicitations for its own addresses and pings to them",
        };
        let rules = match (four, six) {
            (true, true) => "RFC 1812 and RFC 8200 ask",
            (true, _) => "RFC 1812 asks",
            _ => "RFC 8200 asks",
        };
        let _ = write!(
            text,
            "// {family}. Run it with: junctor run FILE\n\
             // Every interface answers {asked}; the rest is forwarded as {rules}.\n\n"
        );
    }
    for (i, port) in router.interfaces.iter().enumerate() {
        let (ether, known) = match device_address(&port.name) {
            Some(address) => (address, ""),
            None => (format!("02:00:00:00:00:{:02x}", i + 1), " // no such interface here: put its address"),
        };
        let four = port.four.first().map(|(a, _)| format!("{a} "));
        let six = port.six.first().map(|(a, _)| format!("{a} "));
        let addresses = four.unwrap_or_default() + &six.unwrap_or_default();
        let _ = writeln!(text, "AddressInfo({} {addresses}{ether});{known}", port.name);
    }
    text + "\n" + &router.text()
}

/// The Ethernet address of an interface of this machine.
fn device_address(name: &str) -> Option<String> {
    let address = interfaces::station(name)?;
    (address.0 != [0; 6]).then(|| address.to_string())
}

/// A learning bridge.
///
/// # Errors
/// A name is none of an interface, or stands twice.
pub fn bridge(interfaces: &[String]) -> Result<String, String> {
    names(interfaces)?;
    let mut text = String::from(
        "// A learning Ethernet bridge. Run it with: junctor run FILE\n\
         // VLANs may separate ports: Bridge(access 10, trunk 10 20 native 1, ...), one description for each, in order.\n\
         // 'junctor elements Bridge' says what else there is: ageing, limits on floods and on what is learned, aggregates.\n\n\
         bridge :: Bridge;\n",
    );
    for (i, name) in interfaces.iter().enumerate() {
        let _ = write!(
            text,
            "\nFromDevice({name}, PROMISC true) -> [{i}]bridge;\nbridge[{i}] -> Queue(1024) -> ToDevice({name});\n"
        );
    }
    Ok(text)
}

/// A reflector, which sends every packet back where it came from.
///
/// # Errors
/// A name is none of an interface, or stands twice.
pub fn reflector(interfaces: &[String]) -> Result<String, String> {
    names(interfaces)?;
    let mut text = String::from(
        "// Sends every packet back where it came from with Ethernet, IP addresses and ports swapped.\n// Run it with: junctor run FILE\n",
    );
    for name in interfaces {
        let _ = write!(
            text,
            "\nFromDevice({name}, PROMISC true)\n    -> MarkIPHeader(14) -> EtherMirror -> IPMirror\n    -> Queue(1024) -> ToDevice({name});\n"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router_of(interfaces: &[&str], default: Option<&str>) -> Result<String, String> {
        let interfaces: Vec<String> = interfaces.iter().map(|s| s.to_string()).collect();
        let default: Vec<String> = default.iter().map(|s| s.to_string()).collect();
        router(&interfaces, &default, &[], Kernel::default())
    }

    fn check(text: &str) {
        let parsed = lang::load_str("init", text, &elements::options());
        let graph = parsed.graph.unwrap_or_else(|| panic!("{:?}\n{text}", parsed.diagnostics));
        if let Err(errors) = engine::check(&graph, &elements::registry()) {
            panic!("{}\n{text}", lang::render(&errors, &parsed.sources, false));
        }
    }

    #[test]
    fn interfaces_in_one_subnet_are_refused() {
        let of = |a: &str, b: &str, vrfs: &[&str], may_overlap| {
            let vrfs = vrfs.iter().map(|vrf| (*vrf).to_owned()).collect();
            let kernel = Kernel { vrfs, may_overlap, ..Kernel::default() };
            router(&[a.to_owned(), b.to_owned()], &[], &[], kernel).map(|_| ())
        };
        for (a, b) in [
            ("eth0=10.0.0.1/24", "eth1=10.0.0.2/24"),
            ("eth0=10.0.0.1/24", "eth1=10.0.0.200/25"),
            ("eth0=10.1.0.1/16", "eth1=192.0.2.1/24,10.0.0.1/8"),
            ("eth0=2001:db8::1/64", "eth1=2001:db8::2/64"),
            ("eth0=10.0.0.1/24,2001:db8::1/32", "eth1=10.0.1.1/24,2001:db8:1::2/64"),
        ] {
            let why = of(a, b, &[], false).expect_err("they meet");
            assert!(why.contains("are in one subnet") && why.contains("--force"), "{why}");
            assert_eq!(of(a, b, &[], true), Ok(()));
            assert_eq!(of(a, b, &["red=eth0"], false), Ok(()), "tables of their own");
        }
        assert_eq!(of("eth0=10.0.0.1/24", "eth1=10.0.1.1/24", &[], false), Ok(()));
        assert_eq!(of("eth0=10.0.0.1/24", "eth1=10.0.0.9/32", &[], false), Ok(()));
        assert_eq!(of("eth0=10.0.0.1/24,10.0.0.2/24", "eth1=10.0.1.1/24", &[], false), Ok(()));
    }

    #[test]
    fn bfd_comes_and_goes_before_other_packets() {
        let of = |addresses: [&str; 2], answers: bool, bfd: bool| {
            let bfd = if bfd { vec!["true".to_owned()] } else { Vec::new() };
            let text =
                router(&addresses.map(String::from), &[], &[], Kernel { answers, bfd, ..Kernel::default() });
            text.inspect(|text| check(text)).unwrap()
        };
        let four = ["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"];
        let six = ["eth0=2001:db8::1/64", "eth1=2001:db8:1::1/64"];
        let both = ["eth0=10.0.0.1/24,2001:db8::1/64", "eth1=10.0.1.1/24"];
        for (addresses, answers) in [four, six, both].into_iter().flat_map(|a| [(a, false), (a, true)]) {
            let text = of(addresses, answers, true);
            assert_eq!(text.matches("URGENT true").count(), 2, "{text}");
            for line in ["] -> Paint(254) -> ", "urgent1 :: Queue(1024) -> [0]order1;", "ready1[1] -> out1;"]
            {
                assert!(text.contains(line), "{line}: {text}");
            }
            let without = of(addresses, answers, false);
            assert!(!without.contains("URGENT") && !without.contains("CheckPaint"), "{without}");
        }
    }

    // conformance: RFC1812-5.3.8-c
    #[test]
    fn reverse_paths_are_not_checked_unless_asked_for() {
        let text = router_of(&["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"], Some("10.0.0.254")).unwrap();
        assert!(!text.contains("CheckReversePath"));
    }

    /// ICMPError sends the errors that its arguments select. The generated configuration selects those that a router should send.
    // conformance: RFC1812-4.3.3.1-c RFC1812-4.3.3.2-b RFC1812-4.3.3.3
    #[test]
    fn routers_send_no_errors_that_they_should_not() {
        let interfaces = ["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"].map(String::from);
        for host in [false, true] {
            let text = router(&interfaces, &[], &[], Kernel { answers: host, ..Kernel::default() }).unwrap();
            let errors = text.split("ICMPError(").skip(1).filter_map(|rest| rest.split_once(')'));
            let kind =
                |(args, _): (&str, &str)| args.split(", ").skip(1).take(2).collect::<Vec<_>>().join(" ");
            let kinds: std::collections::BTreeSet<String> = errors.map(kind).collect();
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            let (redirects, all) = (
                ["redirect host"],
                [
                    "parameterproblem TOS copy",
                    "redirect host",
                    "timeexceeded TOS copy",
                    "timeexceeded reassembly",
                    "unreachable host",
                    "unreachable needfrag",
                    "unreachable net",
                    "unreachable port",
                    "unreachable protocol",
                ],
            );
            assert_eq!(kinds, if host { &redirects[..] } else { &all[..] });
        }
    }

    #[test]
    fn what_is_written_checks_cleanly() {
        check(&router_of(&["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"], Some("10.0.0.254")).unwrap());
        let text = router_of(&["none0=10.0.0.1/24,mtu=1280", "none1=10.0.1.1/24"], None).unwrap();
        check(&text);
        for part in [
            "mtu0 :: IPFragmenter(1280)",
            "PMTU 1280, TOS",
            "mtu1 :: IPFragmenter(1500, FOLLOW in1)",
            "PMTU 1500, FOLLOW in1,",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let interfaces = ["none0=10.0.0.1/24", "none1=10.0.1.1/24"].map(String::from);
        let kernel = Kernel {
            answers: true,
            netns: Some("control".into()),
            feed: Some("routes".into()),
            ..Kernel::default()
        };
        let text = router(&interfaces, &[], &[], kernel).unwrap();
        check(&text);
        for part in [
            "FromHost(host1, ADDR 10.0.1.1/24, TWIN none1, NETNS control, VIRTUAL rt 0, NETWORKS rt 2)",
            "rt[3] -> noroute :: Punt(no-route)",
            "RouteFeed(routes, TABLE rt, LINK host0 1, LINK host1 2, MULTICAST mroute, LOCAL 0, UNREACHABLE 0, PROHIBIT 0)",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let both = ["none0=10.0.0.1/24,2001:db8::1/64,mtu=1400", "none1=2001:db8:1::1/64"];
        let text = router_of(&both, Some("fe80::9%none1")).unwrap();
        check(&text);
        for part in [
            "AddressInfo(none0 10.0.0.1 2001:db8::1 02:00:00:00:00:01);",
            "::/0 fe80::9 2",
            "mtu0 :: IPFragmenter(1400)",
            "big0 :: IP6Fragmenter(1400)",
            "rt[2] -> Discard;",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let text = router(
            &both.map(String::from),
            &[],
            &["2001:db8:7::/48=2001:db8::9".into()],
            Kernel { answers: true, ..Kernel::default() },
        );
        let text = text.unwrap();
        check(&text);
        for part in [
            "FromHost(host0, ADDR 10.0.0.1/24, ADDR 2001:db8::1/64, TWIN none0, MTU 1400, VIRTUAL rt 0, VIRTUAL6 rt6 0, NETWORKS rt 1, NETWORKS6 rt6 1)",
            "2001:db8:7::/48 2001:db8::9 1",
        ] {
            assert!(text.contains(part), "{part}");
        }
        check(&bridge(&["a".into(), "b".into(), "c".into()]).unwrap());
        check(&reflector(&["a".into()]).unwrap());
    }

    #[test]
    fn bad_requests_say_why() {
        let error = |r: Result<String, String>| r.unwrap_err();
        assert!(error(router_of(&["eth0", "eth1=10.0.1.1/24"], None)).contains("eth0=10.0.0.1/24"));
        assert!(error(router_of(&["a=10.0.0.1/24", "b=10.0.1.1/24"], Some("10.9.0.1"))).contains("10.9.0.1"));
        for setting in ["mtu=67", "mtu=65536", "mtu=x", "mru=9"] {
            let interface = format!("a=10.0.0.1/24,{setting}");
            assert!(
                error(router_of(&[&interface, "b=10.0.1.1/24"], None)).contains("mtu=68 up to mtu=65535")
            );
        }
        let six = ["a=2001:db8::1/64", "b=2001:db8:1::1/64"];
        assert!(error(router_of(&["a=2001:db8::1/64,mtu=1279", six[1]], None)).contains("mtu=1280 up to"));
        assert!(error(router_of(&six, Some("fe80::9"))).contains("name the interface behind it"));
        assert!(error(router_of(&six, Some("10.0.0.9"))).contains("10.0.0.9"));
        assert!(error(router_of(&["a=2001:db8::/64", six[1]], None)).contains("anycast"));
        assert!(names(&["a b".into()]).is_err());
        for (interfaces, want) in [
            (["a=10.0.0.1/24", "a=10.0.1.1/24"], "interface a is given twice"),
            (["a=10.0.0.1/24", "b=10.0.0.1/24"], "address 10.0.0.1 is given twice"),
            (["a=10.0.0.1/24,10.0.0.1/24", "b=10.0.1.1/24"], "address 10.0.0.1 is given twice"),
            (["a=2001:db8::1/64", "b=2001:db8::1/64"], "address 2001:db8::1 is given twice"),
            (["a=127.0.0.1/8", "b=10.0.1.1/24"], "127.0.0.1 is not an address that a router can have"),
        ] {
            assert!(error(router_of(&interfaces, None)).contains(want), "{interfaces:?}");
        }
    }
}
