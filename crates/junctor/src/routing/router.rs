// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor router`: writes a deployment of a router with routing daemons.

use std::path::PathBuf;

use conf::init;
use deploy::{Error, Suite, Wanted};

use crate::{exit, outcome};

/// Write a deployment of a router whose routes come from routing daemons: 'junctor up' runs it.
///
/// The directory then holds the deployment, the router's configuration, and a configuration for each daemon, all of them to be edited. The
/// daemons live in a network namespace with a twin of each interface: host0 for the first, host1 for the second, and so on. They are FRR's, or
/// BIRD with --bird.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor router eth0=10.0.0.1/24 eth1=10.0.1.1/24 --frr --ospf --directory r1
  junctor router eth0=10.0.0.1/24,2001:db8::1/64 eth1=10.0.1.1/24 --bgp 65001 --directory r1
  junctor router eth0=10.0.0.1/24,2001:db8::1/64 eth1=10.0.1.1/24 --isis --rip --directory r1
  junctor router eth0=dhcp eth1=10.0.1.1/24 --directory r1
  junctor router eth0=dhcp eth1=10.0.1.1/24 --nat office.nat --directory r1
  junctor router eth0=192.0.2.1/24 eth1=10.1.0.1/16 --ipsec --directory r1
  junctor router eth0=10.0.0.1/24 eth1=10.0.1.1/24 --vrrp eth0=7:10.0.0.254 --ospf --bird --directory r1
  junctor up r1/deployment.toml
  junctor routes
  vtysh --vty_socket r1/frr          the command line of FRR's daemons
  birdc -s r1/bird/bird.ctl          BIRD's")]
pub(crate) struct Args {
    /// Interfaces with addresses and prefix lengths, as eth0=10.0.0.1/24,2001:db8::1/64. One that is only named has the addresses that this
    /// machine gives it now; take them off it before the router starts. One with 'dhcp' gets its IPv4 address from a DHCP server: eth0=dhcp.
    #[arg(required = true, num_args = 2.., value_name = "IF[=ADDRESS/LEN|dhcp[,...]]")]
    interfaces: Vec<String>,
    #[command(flatten)]
    protocols: Protocols,
    /// Share addresses with other routers by VRRP, as the virtual router of this number (keepalived). May be repeated.
    #[arg(long, value_name = "IF=NUMBER:ADDRESS[,...]")]
    vrrp: Vec<String>,
    /// Switch packets with MPLS labels, too, by the labels of FRR.
    #[arg(long, conflicts_with = "bird")]
    mpls: bool,
    /// Protect packets by IPsec, with keys of strongSwan (charon-systemd). Connections are to be written to strongswan/swanctl.conf, which has examples.
    #[arg(long)]
    ipsec: bool,
    /// A VRF: interfaces with a routing table of their own; may be repeated. TABLE is Linux's number of it, by default 1001 for the first, 1002 for
    /// the next. The protocols speak on other interfaces; FRR knows the VRF by its name where the kernel has VRF devices.
    #[arg(long, value_name = "NAME[:TABLE]=IF[,IF...]")]
    vrf: Vec<String>,
    /// Translate addresses and ports of IPv4, as the statements of this file say: see 'junctor nat'.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mpls", "ipsec", "vrf"])]
    nat: Option<PathBuf>,
    /// With --nat, an interface that leads outside; may be repeated. By default those with 'dhcp'.
    #[arg(long, value_name = "IF", requires = "nat")]
    outside: Vec<String>,
    /// The directory to write, which must not exist.
    #[arg(long, value_name = "PATH", default_value = "router")]
    directory: PathBuf,
    /// Write it even if an interface is not here, or two are in one subnet.
    #[arg(long)]
    force: bool,
    /// The name of the deployment and of the namespace; default: that of the directory.
    #[arg(long)]
    name: Option<String>,
}

/// What the daemons speak.
#[derive(Clone, Debug, clap::Args)]
struct Protocols {
    /// Speak OSPF on all interfaces with an IPv4 address.
    #[arg(help_heading = "Routing protocols", long)]
    ospf: bool,
    /// Speak OSPFv3 on all interfaces with an IPv6 address.
    #[arg(help_heading = "Routing protocols", long)]
    ospf6: bool,
    /// Speak RIP on all interfaces with an IPv4 address.
    #[arg(help_heading = "Routing protocols", long)]
    rip: bool,
    /// Speak RIPng on all interfaces with an IPv6 address.
    #[arg(help_heading = "Routing protocols", long)]
    ripng: bool,
    /// Speak IS-IS on all interfaces, in area 49.0001.
    #[arg(help_heading = "Routing protocols", long, conflicts_with = "bird")]
    isis: bool,
    /// Speak BGP as this autonomous system. Neighbours are to be added to the daemon's configuration.
    #[arg(help_heading = "Routing protocols", long, value_name = "NUMBER")]
    bgp: Option<u32>,
    /// Route multicast by PIM and IGMP on all interfaces with an IPv4 address (pimd), and by PIM and MLD on those with an IPv6 address, if there is a
    /// pim6d. A rendezvous point is to be added to the daemon's configuration.
    #[arg(help_heading = "Routing protocols", long, conflicts_with = "bird")]
    pim: bool,
    /// Watch the neighbours of OSPF and BGP by BFD, which the router itself runs for FRR's bfdd. BIRD runs its own.
    #[arg(help_heading = "Routing protocols", long)]
    bfd: bool,
    /// Run FRR, as without this option.
    #[arg(help_heading = "Routing protocols", long, conflicts_with = "bird")]
    frr: bool,
    /// Run BIRD 2 in place of FRR.
    #[arg(help_heading = "Routing protocols", long)]
    bird: bool,
}

impl From<&Protocols> for deploy::Protocols {
    fn from(asked: &Protocols) -> deploy::Protocols {
        let &Protocols { ospf, ospf6, rip, ripng, isis, bgp, pim, bfd, frr: _, bird } = asked;
        let suite = if bird { Suite::Bird } else { Suite::Frr };
        deploy::Protocols { ospf, ospf6, rip, ripng, isis, bgp, pim, bfd, suite }
    }
}

impl From<&Args> for Wanted {
    fn from(args: &Args) -> Wanted {
        Wanted {
            interfaces: args.interfaces.clone(),
            protocols: (&args.protocols).into(),
            vrrp: args.vrrp.clone(),
            mpls: args.mpls,
            ipsec: args.ipsec,
            vrfs: args.vrf.clone(),
            nat: args.nat.clone(),
            outside: args.outside.clone(),
            directory: args.directory.clone(),
            name: args.name.clone(),
            force: args.force,
        }
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let here = if args.force { Ok(()) } else { init::present::all_here(&args.interfaces) };
    let interfaces = match here.and_then(|()| init::present::with_addresses(&args.interfaces)) {
        Ok(interfaces) => interfaces,
        Err(why) => return outcome::usage(why),
    };
    let wanted = Wanted { interfaces, ..args.into() };
    match wanted.check().and_then(|checked| checked.write()) {
        Ok(written) => {
            written.warnings.iter().for_each(|warning| errln!("warning: {warning}"));
            errln!("junctor: run it with: junctor up {}", written.file.display());
            exit::SUCCESS
        }
        Err(why @ Error::Wrong(_)) => outcome::usage(why),
        Err(why) => outcome::fail(why),
    }
}
