// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor router`: writes a deployment of a router with routing daemons.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use elements::compound::arguments::is_interface_name;
use elements::compound::router::Router;
use elements::compound::vrf::Vrf;

use super::daemons::{self, Daemon, Protocols, twins};
use super::{dhcp, strongswan, vrrp};
use crate::{exit, outcome};
use conf::init::{self, Kernel};

/// The channel of routes.
const CHANNEL: &str = "routes";

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
    /// The directory to write, which must not exist.
    #[arg(long, value_name = "PATH", default_value = "router")]
    directory: PathBuf,
    /// The name of the deployment and of the namespace; default: that of the directory.
    #[arg(long)]
    name: Option<String>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let args = match init::present::with_addresses(&args.interfaces) {
        Ok(interfaces) => &Args { interfaces, ..args.clone() },
        Err(why) => return outcome::usage(why),
    };
    let name = match name(args) {
        Ok(name) => name,
        Err(why) => return outcome::usage(why),
    };
    // BIRD watches its neighbours itself.
    let watches = args.protocols.bfd && !args.protocols.bird;
    let bfd = if watches { vec!["true".to_owned()] } else { Vec::new() };
    let kernel = Kernel {
        answers: true,
        netns: Some(name.clone()),
        feed: Some(CHANNEL.into()),
        bfd,
        mpls: args.mpls,
        ipsec: args.ipsec,
        vrfs: args.vrf.clone(),
    };
    let router = init::described(&args.interfaces, &[], &[], kernel).and_then(|router| {
        // Wrong options are reported before anything is written.
        vrrp::keepalived(&name, &args.vrrp, &args.interfaces, Path::new("")).map(|_| router)
    });
    let router = match router {
        Ok(router) => router,
        Err(why) => return outcome::usage(why),
    };
    match write(args, &name, &router) {
        Ok(()) => {
            errln!("junctor: run it with: junctor up {}", args.directory.join("deployment.toml").display());
            exit::SUCCESS
        }
        Err(why) => outcome::fail(why),
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
    if directory.to_string_lossy().contains(char::is_control) {
        return Err(format!("{directory:?}: take a directory without control characters in its name"));
    }
    let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    fs::create_dir(directory).map_err(|why| failed(directory, why))?;
    let whole = fs::canonicalize(directory).map_err(|why| failed(directory, why))?;
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(|why| failed(&path, why));
    put(whole.join("router.click"), &init::router_text(router))?;
    let twins = twins(&args.interfaces).into_iter().enumerate();
    // The protocols speak in the main table.
    let twins: Vec<_> = twins.filter(|(i, _)| router.table_of(*i) == 0).map(|(_, twin)| twin).collect();
    let is_bird = args.protocols.bird;
    let place = whole.join(if is_bird { "bird" } else { "frr" });
    let daemons = if is_bird {
        vec![daemons::bird(&args.protocols, &twins, &place)]
    } else {
        daemons::frr(&args.protocols, &twins, &place)
    };
    let mut groups = vec![(place, daemons)];
    if !args.vrrp.is_empty() {
        let place = whole.join("keepalived");
        let daemon = vrrp::keepalived(name, &args.vrrp, &args.interfaces, &place)?;
        groups.push((place, vec![daemon]));
    }
    for (place, daemons) in &groups {
        fs::create_dir(place).map_err(|why| failed(place, why))?;
        for daemon in daemons {
            put(place.join(format!("{}.conf", daemon.name)), &daemon.text)?;
        }
    }
    if !is_bird {
        give_to_frr(&groups[0].0);
    }
    let place = whole.join("dhcp");
    let clients = dhcp::clients(router, &place)?;
    groups.push((place, clients));
    if args.ipsec {
        let place = whole.join("strongswan");
        let daemon = strongswan::daemon(&twins, &place)?;
        groups.push((place, vec![daemon]));
    }
    put(whole.join("deployment.toml"), &deployment(name, is_bird, &groups, &router.vrfs))
}

/// FRR's daemons give up root, and write their sockets here.
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

/// A string of TOML: that of JSON means the same there.
fn quoted(text: impl std::fmt::Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}

fn deployment(name: &str, is_bird: bool, groups: &[(PathBuf, Vec<Daemon>)], vrfs: &[Vrf]) -> String {
    let of_vrf = |vrf: &Vrf| format!(", \"--vrf\", \"{}={}\"", vrf.name, vrf.table);
    let vrfs: String = vrfs.iter().map(of_vrf).collect();
    let (whose, fpm) = match groups.first() {
        Some((at, _)) if !is_bird => ("FRR", format!(", \"--vty-socket\", {}", quoted(at.display()))),
        found => {
            let socket = |(at, _): &(PathBuf, _)| quoted(at.join("bird.ctl").display());
            let socket =
                found.map_or_else(String::new, |bird| format!(", \"--bird-socket\", {}", socket(bird)));
            ("BIRD", format!(", \"--fpm\", \"none\"{socket}"))
        }
    };
    let keys =
        groups.iter().find(|(_, daemons)| daemons.iter().any(|daemon| daemon.name == strongswan::PLANE));
    let keys = keys.map_or_else(String::new, |(at, _)| {
        format!(", \"--xfrm\", {}, \"--calls\", \"{}\"", quoted(strongswan::socket(at)), strongswan::CHANNEL)
    });
    let mut text = format!(
        "# A router whose routes come from {whose}. Run it with: junctor up FILE\n\
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
         command = [\"junctor\", \"control\", \"{CHANNEL}\", \"--netns\", \"{name}\"{fpm}{vrfs}{keys}]\n\
         after = [\"user\"]\n\
         \n\
         [channels.{CHANNEL}]\n\
         kind = \"routes\"\n\
         \n"
    );
    for (at, daemons) in groups {
        let at = at.display();
        for Daemon { name: daemon, command, after, .. } in daemons {
            text += &match daemon.as_str() {
                "zebra" => format!(
                    "# FRR, next to the twins of the interfaces. 'vtysh --vty_socket {at}' is its command line.\n"
                ),
                "bird" => format!(
                    "# BIRD, next to the twins of the interfaces. 'birdc -s {at}/bird.ctl' is its command line.\n"
                ),
                "keepalived" => "# The virtual routers (VRRP).\n".to_owned(),
                name if name.starts_with("dhcp") => {
                    format!(
                        "# Asks for the address of a twin by DHCP. '{at}/lease' says what it does with it.\n"
                    )
                }
                "bfdd" => format!(
                    "# The router runs the sessions of bfdd.\n\
                     [channels.bfd]\n\
                     kind = \"calls\"\n\
                     plane = \"user\"\n\
                     \n\
                     [planes.bfd]\n\
                     kind = \"control\"\n\
                     netns = \"{name}\"\n\
                     command = [\"junctor\", \"bfd\", \"--dataplane\", {}, \"--channel\", \"bfd\"]\n\
                     after = [\"user\"]\n\n",
                    quoted(format!("{at}/bfd.sock"))
                ),
                strongswan::PLANE => format!(
                    "# strongSwan's key daemon. Its tunnels are those of {at}/swanctl.conf.\n\
                     # 'swanctl --list-sas --uri unix://{at}/vici' shows them.\n\
                     [channels.{channel}]\n\
                     kind = \"calls\"\n\
                     plane = \"user\"\n\n",
                    channel = strongswan::CHANNEL
                ),
                _ => String::new(),
            };
            let words: Vec<String> = command.iter().map(quoted).collect();
            // A zebra that is started again gets their routes only when they are, too.
            let bound = match daemon.as_str() {
                _ if *after == "zebra" => "bound_to = [\"zebra\"]\n",
                // Another router has none of its associations.
                strongswan::PLANE => "bound_to = [\"user\"]\n",
                _ => "",
            };
            // A daemon that finds no zebra tries again after 10 s. What bgpd asks of bfdd before that is lost.
            let ready = match daemon.as_str() {
                "zebra" => format!("ready = {}\n", quoted(format!("unix:{at}/zserv"))),
                strongswan::PLANE => "ready = \"notified\"\n".to_owned(),
                _ => String::new(),
            };
            let _ = write!(
                text,
                "[planes.{daemon}]\n\
                 kind = \"control\"\n\
                 netns = \"{name}\"\n\
                 command = [{}]\n\
                 after = [\"{after}\"]\n{bound}{ready}\n",
                words.join(", ")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(directory: &Path, protocols: Protocols) -> Args {
        Args {
            interfaces: ["none0=10.0.1.1/24,2001:db8::1/64", "none1=10.0.2.1/24"].map(String::from).to_vec(),
            protocols,
            vrrp: Vec::new(),
            mpls: false,
            ipsec: false,
            vrf: vec!["red:77=none1".into()],
            directory: directory.to_owned(),
            name: None,
        }
    }

    /// The text of the deployment, which is one.
    fn written(args: &Args) -> String {
        assert_eq!(main(args), exit::SUCCESS);
        let file = args.directory.join("deployment.toml");
        let text = fs::read_to_string(&file).unwrap();
        let found = planes::deployment::read(&file, &text);
        let errors: Vec<String> = found.diagnostics.iter().map(|why| why.message.clone()).collect();
        assert!(found.deployment.is_some(), "{errors:?}");
        text
    }

    #[test]
    fn what_is_written_is_a_deployment() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r1");
        let protocols = Protocols { ospf: true, bgp: Some(65001), bfd: true, ..Protocols::default() };
        let args = args(&directory, protocols);
        let text = written(&args);
        assert_eq!(main(&args), exit::FAILURE, "nothing is written over");
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert!(
            read("router.click")
                .contains("RouteFeed(routes, TABLE rt, TABLE6 rt6, LINK host0 1, LINK host1 2")
        );
        assert!(read("frr/ospfd.conf").ends_with("router ospf\n network 10.0.1.0/24 area 0\n"));
        assert!(read("router.click").contains("TWIN none1, NETNS r1, VRF red 77, VIRTUAL rt 0 table 1"));
        let place = fs::canonicalize(directory.join("frr")).unwrap();
        let expected =
            format!("\"--netns\", \"r1\", \"--vty-socket\", \"{}\", \"--vrf\", \"red=77\"]", place.display());
        assert!(text.contains(&expected), "{text}");
        for daemon in ["zebra", "ospfd", "bfdd", "bgpd", "bfd"] {
            assert!(text.contains(&format!("[planes.{daemon}]")), "{text}");
        }
        let nameless = Args { directory: "..".into(), ..args };
        assert_eq!(main(&nameless), exit::USAGE);
    }

    #[test]
    fn directories_have_the_names_that_they_have() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a \"router\" \\ é");
        let protocols = Protocols { ospf: true, bfd: true, ..Protocols::default() };
        let mut args = Args { name: Some("r1".into()), ..args(&directory, protocols) };
        let read: toml::Table = written(&args).parse().unwrap();
        let command = read["planes"]["zebra"]["command"].as_array().unwrap();
        let whole = fs::canonicalize(&directory).unwrap();
        let words: Vec<&str> = command.iter().filter_map(toml::Value::as_str).collect();
        assert!(words.contains(&&*whole.join("frr/zebra.conf").to_string_lossy()), "{words:?}");
        args.directory = place.path().join("r\n1");
        assert_eq!(main(&args), exit::FAILURE);
    }

    #[test]
    fn a_client_is_written_for_an_interface_without_an_address() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r3");
        let mut args = args(&directory, Protocols::default());
        args.vrf.clear();
        args.interfaces[0] = "none0=dhcp,10.0.1.1/24".into();
        assert_eq!(main(&args), exit::USAGE, "it has one IPv4 address, which is not known");
        args.interfaces[0] = "none0=dhcp,2001:db8::1/64".into();
        let text = written(&args);
        assert!(text.contains("[planes.dhcp0]") && !text.contains("dhcp1"), "{text}");
        let router = fs::read_to_string(directory.join("router.click")).unwrap();
        for part in [
            "arp0 :: ARPQuerier(0.0.0.0, none0, UNSOLICITED update, ADDRESSES twin0);",
            "CheckIPHeader(INTERFACES 10.0.2.1/24, ADDRESSES twin0 twin1)",
            "NETWORKS rt 1",
        ] {
            assert!(router.contains(part), "{part}: {router}");
        }
        let mode = fs::metadata(directory.join("dhcp/lease")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
    }

    #[test]
    fn charon_has_the_control_plane_as_its_kernel() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r4");
        let mut args = args(&directory, Protocols::default());
        args.ipsec = true;
        assert_eq!(main(&args), exit::USAGE, "policies do not know VRFs");
        args.vrf.clear();
        let read: toml::Table = written(&args).parse().unwrap();
        let words = |plane: &str| {
            let all = read["planes"][plane]["command"].as_array().unwrap().iter();
            all.filter_map(toml::Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let socket = fs::canonicalize(&directory).unwrap().join("strongswan/xfrm").display().to_string();
        assert!(words("routes").ends_with(&[
            "--xfrm".into(),
            socket.clone(),
            "--calls".into(),
            "keys".into()
        ]));
        assert!(words("charon").starts_with(&["junctor".into(), "charon".into(), "--xfrm".into(), socket]));
        assert!(
            fs::read_to_string(directory.join("router.click")).unwrap().contains("ipsec :: IPsecDatabase")
        );
    }

    #[test]
    fn bird_and_keepalived_are_written_too() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r2");
        let protocols = Protocols { ospf: true, bird: true, ..Protocols::default() };
        let mut args = args(&directory, protocols);
        for wrong in ["none0=0:10.0.1.9", "eth9=7:10.0.1.9", "none0=7", "none0=7:x"] {
            args.vrrp = vec![wrong.into()];
            assert_eq!(main(&args), exit::USAGE, "{wrong}");
        }
        args.vrrp = vec!["none0=7:10.0.1.254,fe80::7,2001:db8::254".into()];
        let text = written(&args);
        for part in ["\"--fpm\", \"none\", \"--bird-socket\", ", "[planes.bird]", "[planes.keepalived]"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("zebra"), "{text}");
        let conf = fs::read_to_string(directory.join("keepalived/keepalived.conf")).unwrap();
        for part in
            ["use_vmac v4-0-7", "{\n        10.0.1.254\n    }", "{\n        fe80::7\n        2001:db8::254\n"]
        {
            assert!(conf.contains(part), "{part}: {conf}");
        }
    }
}
