// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor init`: writes complete, commented configurations for named interfaces.

use std::fmt::Write as _;

use clap::Subcommand;
use elements::compound::arguments::{interface_file, interface_mtu, is_interface_name};
use elements::compound::ip_router::{Interface, MTU_MIN, Route, Router};

use crate::cli;

/// Write a complete, commented configuration for named interfaces.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor init router eth0=10.0.0.1/24 eth1=10.0.1.1/24,mtu=1400 --default 10.0.0.254 > router.click
  junctor init bridge eth0 eth1 eth2 > bridge.click
  junctor init reflector eth0 > reflector.click")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// An IPv4 router: two or more interfaces with their addresses.
    Router {
        /// Interfaces with address and prefix length, as eth0=10.0.0.1/24, and with the longest IP packet that they
        /// carry where it is not the interface's own (1500 bytes where there is none here): eth0=10.0.0.1/24,mtu=1400.
        #[arg(required = true, num_args = 2.., value_name = "IF=ADDRESS/LEN[,mtu=BYTES]")]
        interfaces: Vec<String>,
        /// Next hop for all other destinations.
        #[arg(long, value_name = "ADDRESS")]
        default: Option<std::net::Ipv4Addr>,
        /// Further routes, as 192.168.0.0/16=10.0.1.2; may be repeated.
        #[arg(long, value_name = "PREFIX=NEXTHOP")]
        route: Vec<String>,
        /// Let this host's kernel answer what is for the router and all exceptions, on a tap for each interface.
        #[arg(long)]
        host: bool,
        /// The network namespace of those taps.
        #[arg(long, value_name = "NAME", requires = "host")]
        netns: Option<String>,
    },
    /// A learning Ethernet switch.
    Bridge {
        /// Interfaces.
        #[arg(required = true, num_args = 2..)]
        interfaces: Vec<String>,
    },
    /// Sends every packet back where it came from, addresses swapped.
    Reflector {
        /// Interfaces.
        #[arg(required = true)]
        interfaces: Vec<String>,
    },
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let text = match &args.what {
        What::Router { interfaces, default, route, host, netns } => {
            let netns = netns.as_ref().filter(|_| *host);
            match netns.filter(|n| !is_interface_name(n)) {
                Some(bad) => Err(format!("'{bad}' is not the name of a network namespace")),
                None => router(interfaces, *default, route, *host, netns.cloned()),
            }
        }
        What::Bridge { interfaces } => names(interfaces).map(|()| bridge(interfaces)),
        What::Reflector { interfaces } => names(interfaces).map(|()| reflector(interfaces)),
    };
    match text {
        Ok(text) => cli::print_or_fail(text.as_bytes()),
        Err(why) => cli::usage(why),
    }
}

/// Names of interfaces must be ones that a configuration can hold unquoted.
fn names(interfaces: &[String]) -> Result<(), String> {
    match interfaces.iter().find(|n| !is_interface_name(n)) {
        Some(bad) => Err(format!("'{bad}' is not an interface name")),
        None => Ok(()),
    }
}

fn interface(text: &str) -> Result<Interface, String> {
    let bad = || format!("'{text}' should name an interface and its address, as eth0=10.0.0.1/24");
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    let (address, setting) = rest.split_once(',').map_or((rest, None), |(a, s)| (a, Some(s)));
    names(&[name.to_owned()])?;
    let (bare, _) = address.split_once('/').ok_or_else(bad)?;
    let prefix: wire::Prefix4 = address.parse().map_err(|_| bad())?;
    let mtu = match setting.map(|s| s.strip_prefix("mtu=").and_then(|m| m.parse().ok())) {
        None => interface_mtu(name),
        Some(Some(mtu)) if mtu >= MTU_MIN => mtu,
        Some(_) => {
            return Err(format!(
                "'{text}': what follows the address should be mtu={MTU_MIN} up to mtu={}",
                u16::MAX
            ));
        }
    };
    let addresses = vec![(bare.parse().map_err(|_| bad())?, prefix)];
    Ok(Interface { name: name.to_owned(), addresses, mtu, station: name.to_owned() })
}

fn router(
    interfaces: &[String],
    default: Option<std::net::Ipv4Addr>,
    routes: &[String],
    host: bool,
    netns: Option<String>,
) -> Result<String, String> {
    let ports: Vec<Interface> = interfaces.iter().map(|i| interface(i)).collect::<Result<_, _>>()?;
    let mut router = Router::new(ports);
    (router.host, router.netns) = (host, netns);
    let towards = |router: &Router, hop| {
        let found = router.interface_towards(hop);
        found.ok_or_else(|| format!("next hop {hop} is on none of the interfaces' networks"))
    };
    for route in routes {
        let parts = route
            .split_once('=')
            .and_then(|(p, h)| Some((p.parse::<wire::Prefix4>().ok()?, h.parse().ok()?)));
        let (prefix, hop) = parts.ok_or_else(|| format!("'{route}' should be PREFIX=NEXTHOP"))?;
        router.routes.push(Route { prefix, hop, interface: towards(&router, hop)? });
    }
    if let Some(hop) = default {
        let interface = towards(&router, hop)?;
        router.routes.push(Route { prefix: wire::Prefix4::DEFAULT, hop, interface });
    }
    Ok(router_text(&router))
}

fn router_text(router: &Router) -> String {
    let mut text = String::from(
        "// An IPv4 router. Run it with: junctor run FILE\n\
         // Every interface answers ARP for its own address and pings to it; the rest is forwarded as RFC 1812 asks.\n\n",
    );
    if router.host {
        text = String::from(
            "// An IPv4 router whose exceptions this host's kernel answers. Run it with: junctor run FILE\n\
             // The kernel's twins of the interfaces, host0 and so on, need forwarding where they are, which does no harm there:\n\
             //   sysctl -w net.ipv4.ip_forward=1\n\
             // and the routes of `rt` that go by next hops. The interfaces themselves must have no addresses.\n\n",
        );
    }
    for (i, port) in router.interfaces.iter().enumerate() {
        let (ether, known) = match device_address(&port.name) {
            Some(address) => (address, ""),
            None => (format!("02:00:00:00:00:{:02x}", i + 1), " // no such interface here: put its address"),
        };
        let _ = writeln!(text, "AddressInfo({} {} {ether});{known}", port.name, port.addresses[0].0);
    }
    text + "\n" + &router.text()
}

/// The Ethernet address of an interface of this machine.
fn device_address(name: &str) -> Option<String> {
    let address: wire::MacAddr = interface_file(name, "address")?.parse().ok()?;
    (address.0 != [0; 6]).then(|| address.to_string())
}

fn bridge(interfaces: &[String]) -> String {
    let mut text = String::from(
        "// A learning Ethernet switch. Run it with: junctor run FILE\n\nswitch :: EtherSwitch;\n",
    );
    for (i, name) in interfaces.iter().enumerate() {
        let _ = write!(
            text,
            "\nFromDevice({name}, PROMISC true) -> [{i}]switch;\nswitch[{i}] -> Queue(1024) -> ToDevice({name});\n"
        );
    }
    text
}

fn reflector(interfaces: &[String]) -> String {
    let mut text = String::from(
        "// Sends every packet back where it came from with Ethernet, IP addresses and ports swapped.\n// Run it with: junctor run FILE\n",
    );
    for name in interfaces {
        let _ = write!(
            text,
            "\nFromDevice({name}, PROMISC true)\n    -> MarkIPHeader(14) -> EtherMirror -> IPMirror\n    -> Queue(1024) -> ToDevice({name});\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router_of(interfaces: &[&str], default: Option<&str>) -> Result<String, String> {
        let interfaces: Vec<String> = interfaces.iter().map(|s| s.to_string()).collect();
        router(&interfaces, default.map(|d| d.parse().unwrap()), &[], false, None)
    }

    fn check(text: &str) {
        let parsed = lang::load_str("init", text, &elements::options());
        let graph = parsed.graph.unwrap_or_else(|| panic!("{:?}\n{text}", parsed.diagnostics));
        if let Err(errors) = engine::check(&graph, &elements::registry()) {
            panic!("{}\n{text}", lang::render(&errors, &parsed.sources, false));
        }
    }

    // conformance: RFC1812-5.3.8-c
    #[test]
    fn reverse_paths_are_not_checked_unless_asked_for() {
        let text = router_of(&["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"], Some("10.0.0.254")).unwrap();
        assert!(!text.contains("CheckReversePath"));
    }

    #[test]
    fn what_is_written_checks_cleanly() {
        check(&router_of(&["eth0=10.0.0.1/24", "eth1=10.0.1.1/24"], Some("10.0.0.254")).unwrap());
        let text = router_of(&["none0=10.0.0.1/24,mtu=1280", "none1=10.0.1.1/24"], None).unwrap();
        check(&text);
        for part in ["mtu0 :: IPFragmenter(1280)", "PMTU 1280,", "mtu1 :: IPFragmenter(1500)", "PMTU 1500,"] {
            assert!(text.contains(part), "{part}");
        }
        let interfaces = ["none0=10.0.0.1/24", "none1=10.0.1.1/24"].map(String::from);
        let text = router(&interfaces, None, &[], true, Some("control".into())).unwrap();
        check(&text);
        for part in [
            "FromHost(host1, ADDR 10.0.1.1/24, TWIN none1, NETNS control)",
            "rt[3] -> noroute :: Punt(no-route)",
        ] {
            assert!(text.contains(part), "{part}");
        }
        check(&bridge(&["a".into(), "b".into(), "c".into()]));
        check(&reflector(&["a".into()]));
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
        assert!(names(&["a b".into()]).is_err());
    }
}
