// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor init`: writes complete, commented configurations for named interfaces.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Subcommand;
use conf::init;
use elements::compound::arguments::is_interface_name;
use elements::compound::nat::Source;

use crate::outcome;

/// Write a complete, commented configuration for named interfaces.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor init router eth0=10.0.0.1/24 eth1=10.0.1.1/24,mtu=1400 --default 10.0.0.254 > router.click
  junctor init router eth0=10.0.0.1/24,2001:db8::1/64 eth1=10.0.1.1/24,2001:db8:1::1/64 --default fe80::9%eth1
  junctor init router eth0=10.0.0.1/24 eth1=10.0.0.1/24 eth2=10.0.1.1/24 eth3=10.0.1.1/24 --vrf red=eth0,eth2 --vrf blue=eth1,eth3
  junctor init router eth0=192.0.2.1/24 eth1=10.0.1.1/24 --default 192.0.2.254 --nat office.nat > gateway.click
  junctor init router eth0=192.0.2.1/24 eth1=10.0.1.1/24 --default 192.0.2.254 --balance site.lb > site.click
  junctor init nat eth0=192.0.2.1/24 eth1=10.0.1.1/24 --default 192.0.2.254 > gateway.click
  junctor init ipsec eth0=192.0.2.1/24 eth1=10.1.0.1/16 --peer 192.0.2.2 --remote 10.2.0.0/16 > gateway.click
  junctor init wireguard --peer 'PUBLICKEY endpoint 192.0.2.2:51820 allowed-ips 10.2.0.0/16' > wg0.conf
  junctor init bridge eth0 eth1 eth2 > bridge.click
  junctor init reflector eth0 > reflector.click")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Write it even if an interface is not here, or two are in one subnet.
    #[arg(long, global = true)]
    force: bool,
}

impl What {
    /// The interfaces that it is for.
    fn interfaces(&self) -> &[String] {
        match self {
            What::Router { interfaces, .. }
            | What::Nat { interfaces, .. }
            | What::Bridge { interfaces }
            | What::Reflector { interfaces } => interfaces,
            What::Ipsec(gateway) => &gateway.interfaces,
            What::WireGuard(_) => &[],
        }
    }
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// A router: two or more interfaces with their addresses, IPv4, IPv6 or both.
    Router {
        /// Interfaces with addresses and prefix lengths, as eth0=10.0.0.1/24,2001:db8::1/64, and with the longest IP packet
        /// that they carry where it is not the interface's own (1500 bytes where there is none here):
        /// eth0=10.0.0.1/24,mtu=1400. One that is only named has the addresses that this machine gives it now. With --host, 'dhcp' stands for
        /// an IPv4 address that a DHCP client on the twin gets.
        #[arg(required = true, num_args = 2.., value_name = "IF[=ADDRESS/LEN[,...][,mtu=BYTES]]")]
        interfaces: Vec<String>,
        /// Next hop for all other destinations, once for each family and VRF; a link-local one as fe80::9%eth0, and one of a VRF as
        /// 10.0.0.254@red.
        #[arg(long, value_name = "ADDRESS")]
        default: Vec<String>,
        /// Further routes, as 192.168.0.0/16=10.0.1.2 or 2001:db8:9::/48=fe80::9%eth0; may be repeated. Behind '@', the VRF that has
        /// the route: 192.168.0.0/16@red=10.0.1.2.
        #[arg(long, value_name = "PREFIX=NEXTHOP[|NEXTHOP...]")]
        route: Vec<String>,
        /// Let this host's kernel answer what is for the router and all exceptions, on a tap for each interface.
        #[arg(long)]
        host: bool,
        /// The network namespace of those taps.
        #[arg(long, value_name = "NAME", requires = "host")]
        netns: Option<String>,
        /// Take routes from a control plane ('junctor control') by this channel.
        #[arg(long, value_name = "CHANNEL", requires = "host")]
        feed: Option<String>,
        /// Watch neighbours by BFD: a session as '10.0.0.2 10.0.0.1 eth0 TX 50ms RX 50ms', or true for those that daemons
        /// and handlers add; may be repeated.
        #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "true")]
        bfd: Vec<String>,
        /// Switch packets with MPLS labels, too: those of the control plane, and those that are written to the handlers of 'mpls'.
        #[arg(long)]
        mpls: bool,
        /// Protect packets by IPsec, as policies say that handlers of 'ipsec' and key daemons add.
        #[arg(long)]
        ipsec: bool,
        /// A VRF: interfaces with a routing table of their own; may be repeated. With --host, TABLE is Linux's number of it, by default 1001
        /// for the first, 1002 for the next.
        #[arg(long, value_name = "NAME[:TABLE]=IF[,IF...]")]
        vrf: Vec<String>,
        /// Let only those connections pass that the rules of this file accept: see 'junctor firewall'.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["mpls", "ipsec"])]
        firewall: Option<String>,
        /// Translate addresses and ports of IPv4, as the statements of this file say: see 'junctor nat'.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["mpls", "ipsec"])]
        nat: Option<String>,
        /// With --nat or --balance, an interface that leads outside; may be repeated. By default those of the default routes, or else those
        /// with 'dhcp'.
        #[arg(long, value_name = "IF")]
        outside: Vec<String>,
        /// Share connections among servers, as the statements of this file say: see 'junctor balance'.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["mpls", "ipsec", "vrf"])]
        balance: Option<String>,
        /// With --nat or --firewall, the other router at this address on a common link keeps the same sessions, so that either goes on
        /// alone. The file has the secret of both.
        #[arg(long, value_name = "ADDRESS=KEYFILE")]
        sync: Option<String>,
    },
    /// A gateway that translates addresses: inside networks share the address of the outside interface.
    #[command(after_help = "Examples:
  junctor init nat eth0=192.0.2.1/24 eth1=10.0.1.1/24 --default 192.0.2.254 > gateway.click
  junctor init nat eth0=dhcp eth1=10.0.1.1/24 --host --netns gateway --feed routes > gateway.click
  junctor init nat eth0=192.0.2.1/24 eth1=10.0.1.1/24 --default 192.0.2.254 --statement 'translate 10.0.1.0/24 to 192.0.2.1' --statement 'forward tcp https to 10.0.1.20' > gateway.click

A file of statements can be changed while the router runs: see 'junctor init router --nat' and 'junctor nat'.")]
    Nat {
        /// Interfaces with addresses and prefix lengths, as 'init router' has them.
        #[arg(required = true, num_args = 2.., value_name = "IF=ADDRESS/LEN|dhcp[,...][,mtu=BYTES]")]
        interfaces: Vec<String>,
        /// Next hop for all other destinations; its interface leads outside.
        #[arg(long, value_name = "ADDRESS")]
        default: Vec<String>,
        /// Further routes, as 192.168.0.0/16=10.0.1.2; may be repeated.
        #[arg(long, value_name = "PREFIX=NEXTHOP[|NEXTHOP...]")]
        route: Vec<String>,
        /// An interface that leads outside, in place of that of the default route or of the one with 'dhcp'; may be repeated.
        #[arg(long, value_name = "IF")]
        outside: Vec<String>,
        /// What becomes of addresses, as 'junctor elements NAT44' says; may be repeated.
        #[arg(long, value_name = "TEXT")]
        statement: Vec<String>,
        /// Let only those connections pass that the rules of this file accept: see 'junctor firewall'.
        #[arg(long, value_name = "FILE")]
        firewall: Option<String>,
        /// Let this host's kernel answer what is for the router and all exceptions, on a tap for each interface.
        #[arg(long)]
        host: bool,
        /// The network namespace of those taps.
        #[arg(long, value_name = "NAME", requires = "host")]
        netns: Option<String>,
        /// Take routes from a control plane ('junctor control') by this channel.
        #[arg(long, value_name = "CHANNEL", requires = "host")]
        feed: Option<String>,
    },
    /// An IPsec gateway: a router that joins networks by a tunnel, with new keys, and the commands for Linux at the other end.
    Ipsec(Gateway),
    /// A file for a WireGuard element, in the form of 'wg setconf', with a fresh private key.
    #[command(name = "wireguard")]
    WireGuard(Device),
    /// A learning Ethernet bridge.
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
    let here = if args.force { Ok(()) } else { init::present::all_here(args.what.interfaces()) };
    if let Err(why) = here {
        return outcome::usage(why);
    }
    let text = match &args.what {
        What::Router {
            interfaces,
            default,
            route,
            host,
            netns,
            feed,
            bfd,
            mpls,
            ipsec,
            vrf,
            firewall,
            nat,
            outside,
            balance,
            sync,
        } => {
            let bad = |name: &Option<String>| name.clone().filter(|name| !is_interface_name(name));
            match (bad(netns), bad(feed)) {
                (Some(bad), _) => Err(format!("'{bad}' is not the name of a network namespace")),
                (_, Some(bad)) => Err(format!("'{bad}' is not the name of a channel")),
                _ => {
                    let kernel = init::Kernel {
                        answers: *host,
                        netns: netns.clone(),
                        feed: feed.clone(),
                        bfd: bfd.clone(),
                        mpls: *mpls,
                        ipsec: *ipsec,
                        vrfs: vrf.clone(),
                        firewall: firewall.clone(),
                        nat: nat.clone().map(Source::File),
                        outside: outside.clone(),
                        balance: balance.clone(),
                        sync: sync.clone(),
                        may_overlap: args.force,
                    };
                    init::present::with_addresses(interfaces)
                        .and_then(|interfaces| init::router(&interfaces, default, route, kernel))
                }
            }
        }
        What::Nat { interfaces, default, route, outside, statement, firewall, host, netns, feed } => {
            let kernel = init::Kernel {
                answers: *host,
                netns: netns.clone(),
                feed: feed.clone(),
                firewall: firewall.clone(),
                nat: Some(Source::Statements(statement.clone())),
                outside: outside.clone(),
                may_overlap: args.force,
                ..init::Kernel::default()
            };
            init::present::with_addresses(interfaces)
                .and_then(|interfaces| init::router(&interfaces, default, route, kernel))
        }
        What::Ipsec(gateway) => {
            let gateway = init::ipsec::Gateway { may_overlap: args.force, ..gateway.into() };
            init::ipsec::gateway(&gateway)
        }
        What::WireGuard(args) => init::wireguard::device(&args.into()),
        What::Bridge { interfaces } => init::bridge(interfaces),
        What::Reflector { interfaces } => init::reflector(interfaces),
    };
    match text {
        Ok(text) => outcome::print_or_fail(text.as_bytes()),
        Err(why) => outcome::usage(why),
    }
}

/// A gateway with its associations and policies: interfaces as `eth0=192.0.2.1/24`.
#[derive(Clone, Debug, clap::Args)]
struct Gateway {
    /// Interfaces with addresses and prefix lengths: the one to the other end, and those of the networks that are joined.
    #[arg(required = true, num_args = 2.., value_name = "IF=ADDRESS/LEN[,...][,mtu=BYTES]")]
    interfaces: Vec<String>,
    /// The other end of the tunnel.
    #[arg(long, value_name = "ADDRESS")]
    peer: IpAddr,
    /// A network behind the other end; may be repeated.
    #[arg(long, required = true, value_name = "PREFIX")]
    remote: Vec<String>,
    /// A network behind this end; may be repeated. By default those of the interfaces that do not lead to the other end.
    #[arg(long, value_name = "PREFIX")]
    local: Vec<String>,
    /// Next hop for all other destinations, once for each family.
    #[arg(long, value_name = "ADDRESS")]
    default: Vec<String>,
    /// Take the keys of the other end's configuration, which 'init ipsec' has written, in place of new ones.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Let this host's kernel answer what is for the router and all exceptions, on a tap for each interface.
    #[arg(long)]
    host: bool,
    /// The network namespace of those taps.
    #[arg(long, value_name = "NAME", requires = "host")]
    netns: Option<String>,
}

impl From<&Gateway> for init::ipsec::Gateway {
    fn from(args: &Gateway) -> init::ipsec::Gateway {
        let Gateway { interfaces, peer, remote, local, default, keys, host, netns } = args.clone();
        init::ipsec::Gateway {
            interfaces,
            peer,
            remote,
            local,
            default,
            keys,
            host,
            netns,
            may_overlap: false,
        }
    }
}

/// A device: its port and its peers.
#[derive(Clone, Debug, clap::Args)]
struct Device {
    /// The UDP port.
    #[arg(long, default_value_t = 51820, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// A peer in the words of 'wg set': its public key, then preshared-key, endpoint, persistent-keepalive and allowed-ips with their values; may be
    /// repeated.
    #[arg(long, value_name = "KEY [WORDS]")]
    peer: Vec<String>,
}

impl From<&Device> for init::wireguard::Device {
    fn from(args: &Device) -> init::wireguard::Device {
        init::wireguard::Device { port: args.port, peer: args.peer.clone() }
    }
}
