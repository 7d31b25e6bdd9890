// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor router`: writes a deployment of a router with FRR's daemons.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use elements::compound::arguments::is_interface_name;
use elements::compound::router::{Address, Router};
use elements::compound::vrf::Vrf;

use crate::init::{self, Kernel};
use crate::{cli, exit};

/// The channel of routes.
const CHANNEL: &str = "routes";
/// Where Debian and others have FRR's daemons.
const PLACES: [&str; 3] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/local/sbin"];

/// Write a deployment of a router whose routes come from FRR: 'junctor up' runs it.
///
/// The directory then holds the deployment, the router's configuration, and a configuration for each daemon, all of them to be edited. The
/// daemons live in a network namespace with a twin of each interface: host0 for the first, host1 for the second, and so on.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor router eth0=10.0.0.1/24 eth1=10.0.1.1/24 --ospf --directory r1
  junctor router eth0=10.0.0.1/24,2001:db8::1/64 eth1=10.0.1.1/24 --bgp 65001 --directory r1
  junctor up r1/deployment.toml
  junctor routes
  vtysh --vty_socket r1/frr          the daemons' own command line")]
pub(crate) struct Args {
    /// Interfaces with addresses and prefix lengths, as eth0=10.0.0.1/24,2001:db8::1/64.
    #[arg(required = true, num_args = 2.., value_name = "IF=ADDRESS/LEN[,...]")]
    interfaces: Vec<String>,
    /// Speak OSPF on all interfaces with an IPv4 address.
    #[arg(long)]
    ospf: bool,
    /// Speak BGP as this autonomous system. Neighbours are to be added to bgpd.conf.
    #[arg(long, value_name = "NUMBER")]
    bgp: Option<u32>,
    /// Switch packets with MPLS labels, too, by the labels of FRR.
    #[arg(long)]
    mpls: bool,
    /// Watch the neighbours of OSPF and BGP by BFD, which the router itself runs for FRR's bfdd.
    #[arg(long)]
    bfd: bool,
    /// A VRF: interfaces with a routing table of their own; may be repeated. TABLE is Linux's number of it, by default 1001 for the first, 1002 for
    /// the next. FRR knows the VRF by its name where the kernel has VRF devices.
    #[arg(long, value_name = "NAME[:TABLE]=IF[,IF...]")]
    vrf: Vec<String>,
    /// The directory to write, which must not exist.
    #[arg(long, value_name = "PATH", default_value = "router")]
    directory: PathBuf,
    /// The name of the deployment and of the namespace; default: that of the directory.
    #[arg(long)]
    name: Option<String>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let name = match name(args) {
        Ok(name) => name,
        Err(why) => return cli::usage(why),
    };
    let bfd = if args.bfd { vec!["true".to_owned()] } else { Vec::new() };
    let kernel = Kernel {
        answers: true,
        netns: Some(name.clone()),
        feed: Some(CHANNEL.into()),
        bfd,
        mpls: args.mpls,
        vrfs: args.vrf.clone(),
    };
    let router = match init::described(&args.interfaces, &[], &[], kernel) {
        Ok(router) => router,
        Err(why) => return cli::usage(why),
    };
    match write(args, &name, &router) {
        Ok(()) => {
            errln!("junctor: run it with: junctor up {}", args.directory.join("deployment.toml").display());
            exit::SUCCESS
        }
        Err(why) => cli::fail(why),
    }
}

fn name(args: &Args) -> Result<String, String> {
    let of_directory = || args.directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(of_directory).unwrap_or_default();
    match is_interface_name(&name) && name.len() <= 32 {
        true => Ok(name),
        false => {
            Err(format!("'{name}' cannot name a deployment; give it a name of letters and digits by --name"))
        }
    }
}

fn write(args: &Args, name: &str, router: &Router) -> Result<(), String> {
    let directory = &args.directory;
    let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    fs::create_dir(directory).map_err(|why| failed(directory, why))?;
    let whole = fs::canonicalize(directory).map_err(|why| failed(directory, why))?;
    let frr = whole.join("frr");
    fs::create_dir(&frr).map_err(|why| failed(&frr, why))?;
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(|why| failed(&path, why));
    put(whole.join("router.click"), &init::router_text(router))?;
    let daemons = daemons(args);
    for (daemon, text) in &daemons {
        put(frr.join(format!("{daemon}.conf")), text)?;
    }
    give_to_frr(&frr);
    let daemons = daemons.iter().map(|(daemon, _)| *daemon);
    put(whole.join("deployment.toml"), &deployment(name, &frr, daemons, &router.vrfs))
}

/// The daemons, zebra first, and their configurations.
fn daemons(args: &Args) -> Vec<(&'static str, String)> {
    let zebra = "! Where the control plane listens.\nfpm address 127.0.0.1\nip forwarding\nipv6 forwarding\n";
    let mut all = vec![("zebra", zebra.to_owned())];
    if args.ospf {
        all.push(("ospfd", ospf(&args.interfaces, args.bfd)));
    }
    if args.bfd {
        all.push((
            "bfdd",
            "bfd\n profile fast\n  transmit-interval 50\n  receive-interval 50\n exit\nexit\n".into(),
        ));
    }
    if let Some(number) = args.bgp {
        let watch = if args.bfd { " ! neighbor 10.0.0.2 bfd profile fast\n" } else { "" };
        let text = format!(
            "router bgp {number}\n ! For each neighbour:\n ! neighbor 10.0.0.2 remote-as 65002\n{watch} no bgp ebgp-requires-policy\n"
        );
        all.push(("bgpd", text));
    }
    all
}

/// OSPF on all networks of the interfaces.
fn ospf(interfaces: &[String], bfd: bool) -> String {
    let watched = if bfd { 0..interfaces.len() } else { 0..0 };
    let mut text: String =
        watched.map(|i| format!("interface host{i}\n ip ospf bfd\n ip ospf bfd profile fast\n")).collect();
    text += "router ospf\n";
    for interface in interfaces {
        let addresses = interface.split_once('=').map_or("", |(_, addresses)| addresses).split(',');
        for address in addresses.filter_map(|text| text.parse::<Address>().ok()) {
            if let Address::Four(address) = address
                && let Some(prefix) = address.prefix()
            {
                let _ = writeln!(text, " network {prefix} area 0");
            }
        }
    }
    text
}

/// The daemons give up root, and write their sockets here.
fn give_to_frr(directory: &Path) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some("frr")).then(|| fields.nth(1)?.parse::<u32>().ok())?
    });
    let given = user.map(|user| std::os::unix::fs::chown(directory, Some(user), None));
    match given {
        Some(Ok(())) => {}
        _ => {
            let open = fs::set_permissions(directory, fs::Permissions::from_mode(0o777));
            let who = if open.is_ok() { "everybody may write there now" } else { "make it theirs" };
            errln!(
                "warning: {}: cannot be given to the user frr, as which the daemons run; {who}",
                directory.display()
            );
        }
    }
}

fn deployment<'a>(name: &str, frr: &Path, daemons: impl Iterator<Item = &'a str>, vrfs: &[Vrf]) -> String {
    let of_vrf = |vrf: &Vrf| format!(", \"--vrf\", \"{}={}\"", vrf.name, vrf.table);
    let vrfs: String = vrfs.iter().map(of_vrf).collect();
    let place = PLACES.into_iter().find(|place| Path::new(place).join("zebra").exists()).unwrap_or(PLACES[0]);
    let at = frr.display();
    let mut text = format!(
        "# A router whose routes come from FRR. Run it with: junctor up FILE\n\
         name = \"{name}\"\n\
         \n\
         # Forwards packets.\n\
         [planes.user]\n\
         kind = \"user\"\n\
         config = \"router.click\"\n\
         \n\
         # Brings routes of the daemons and of the kernel into the user plane's tables.\n\
         [planes.routes]\n\
         kind = \"control\"\n\
         command = [\"junctor\", \"control\", \"{CHANNEL}\", \"--netns\", \"{name}\"{vrfs}]\n\
         after = [\"user\"]\n\
         \n\
         [channels.{CHANNEL}]\n\
         kind = \"routes\"\n\
         \n\
         # FRR, next to the twins of the interfaces. 'vtysh --vty_socket {at}' is its command line.\n"
    );
    for daemon in daemons {
        if daemon == "bfdd" {
            let _ = write!(
                text,
                "# The router runs the sessions of bfdd.\n\
                 [channels.bfd]\n\
                 kind = \"calls\"\n\
                 plane = \"user\"\n\
                 \n\
                 [planes.bfd]\n\
                 kind = \"control\"\n\
                 command = [\"junctor\", \"bfd\", \"--dataplane\", \"{at}/bfd.sock\", \"--channel\", \"bfd\"]\n\
                 after = [\"user\"]\n\n"
            );
        }
        let module = match daemon {
            "zebra" => "\"-M\", \"dplane_fpm_nl\", ".to_owned(),
            "bfdd" => format!("\"--dplaneaddr\", \"unix:{at}/bfd.sock\", "),
            _ => String::new(),
        };
        let after = if daemon == "zebra" { "user" } else { "zebra" };
        let _ = write!(
            text,
            "[planes.{daemon}]\n\
             kind = \"control\"\n\
             netns = \"{name}\"\n\
             command = [\"{place}/{daemon}\", {module}\"-f\", \"{at}/{daemon}.conf\", \"-i\", \"{at}/{daemon}.pid\", \
             \"-z\", \"{at}/zserv\", \"--vty_socket\", \"{at}\", \"-A\", \"127.0.0.1\", \"--log\", \"stdout\"]\n\
             after = [\"{after}\"]\n\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_a_deployment() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r1");
        let interfaces = ["none0=10.0.1.1/24,2001:db8::1/64", "none1=10.0.2.1/24"].map(String::from).to_vec();
        let args = Args {
            interfaces,
            ospf: true,
            bgp: Some(65001),
            mpls: false,
            bfd: true,
            vrf: vec!["red:77=none1".into()],
            directory: directory.clone(),
            name: None,
        };
        assert_eq!(main(&args), exit::SUCCESS);
        assert_eq!(main(&args), exit::FAILURE, "nothing is written over");
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(
            read("frr/ospfd.conf"),
            "interface host0\n ip ospf bfd\n ip ospf bfd profile fast\ninterface host1\n ip ospf bfd\n ip ospf bfd profile fast\n\
             router ospf\n network 10.0.1.0/24 area 0\n network 10.0.2.0/24 area 0\n"
        );
        assert!(
            read("router.click")
                .contains("RouteFeed(routes, TABLE rt, TABLE6 rt6, LINK host0 1, LINK host1 2")
        );
        let text = read("deployment.toml");
        assert!(read("router.click").contains("TWIN none1, NETNS r1, VRF red 77, VIRTUAL rt 0 table 1"));
        assert!(text.contains("\"--netns\", \"r1\", \"--vrf\", \"red=77\"]"), "{text}");
        for daemon in ["zebra", "ospfd", "bfdd", "bgpd", "bfd"] {
            assert!(text.contains(&format!("[planes.{daemon}]")), "{text}");
        }
        let found = planes::deployment::read(&directory.join("deployment.toml"), &text);
        let errors: Vec<String> = found.diagnostics.iter().map(|why| why.message.clone()).collect();
        assert!(found.deployment.is_some(), "{errors:?}");
        let nameless = Args { directory: "..".into(), ..args };
        assert_eq!(main(&nameless), exit::USAGE);
    }
}
